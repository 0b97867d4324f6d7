"""As in the notes on static_graph: a recurrent language model. Each word is a call of a static function; the state goes from call
to call. After some words the losses are differentiated together, and what came before is cut off."""

import numpy as np
from show import show

import xcvm
from xcvm import nn, ops, optim

WORDS, UNITS, LENGTH = 6, 4, 5


def numbers(*shape, seed):
    return ((np.arange(np.prod(shape)) * 5 + seed) % 13 / 13 - 0.5).astype(np.float32).reshape(shape)


class RNNLM(nn.Module):
    def __init__(self):
        self.embedding = xcvm.parameter(numbers(WORDS, UNITS, seed=0))
        self.w = xcvm.parameter(numbers(1, 4 * UNITS, UNITS, seed=1))
        self.r = xcvm.parameter(numbers(1, 4 * UNITS, UNITS, seed=2))
        self.b = xcvm.parameter(numbers(1, 8 * UNITS, seed=3))
        self.out_w = xcvm.parameter(numbers(UNITS, WORDS, seed=4))
        self.out_b = xcvm.parameter(numbers(WORDS, seed=5))
        self.runs = 0

    @xcvm.static
    def __call__(self, word, following, h, c):
        self.runs += 1
        x = ops.Gather(self.embedding, word)[None]
        h, c = ops.LSTM(x, self.w, self.r, self.b, None, h, c, hidden_size=UNITS, outputs=["y_h", "y_c"])
        scores = ops.Gemm(h[0], self.out_w, self.out_b)
        return nn.cross_entropy(scores, following), h, c


text = [0, 1, 2, 3, 1, 4, 5, 2]
model = RNNLM()
sgd = optim.SGD(model, lr=0.5)
h, c, at = xcvm.zeros((1, 1, UNITS)), xcvm.zeros((1, 1, UNITS)), 0
for iteration in range(40):
    total = None
    for _ in range(LENGTH):
        loss, h, c = model(xcvm.asarray([text[at % 8]]), xcvm.asarray([text[(at + 1) % 8]]), h, c)
        total = loss if total is None else total + loss
        at += 1
    total.backward()
    if iteration % 13 == 0:
        show("loss", total)
    h, c = h.detach(), c.detach()
    sgd.step()
    sgd.zero_grad()
show("h", h)
print(f"the step ran {model.runs} times in 200")

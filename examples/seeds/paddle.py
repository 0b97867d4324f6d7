"""As on Paddle's tape: two linear layers and a mean, the tape reset in each round, SGD after the backward pass."""

import numpy as np
from show import show

import xcvm
from xcvm import nn, ops, optim


class Linear(nn.Module):
    def __init__(self, scale):
        self.w = xcvm.parameter([[scale * (i % 4 - 1) for i in range(row, row + 3)] for row in (0, 3, 6)])
        self.b = xcvm.parameter([0.1, 0.2, 0.3])

    def forward(self, x):
        return nn.relu(ops.Gemm(x, self.w, self.b))


linear1, linear2 = Linear(0.5), Linear(0.25)
sgd = optim.SGD([*linear1.parameters(), *linear2.parameters()], lr=0.1)
for i in range(3):
    xcvm.current_tape().reset()
    x = xcvm.asarray(np.array([[1, 2, 3], [-1, 0.5, 2]], np.float32))
    loss = xcvm.mean(linear2(linear1(x)))
    loss.backward()
    show("loss", loss)
    show("db", linear1.b.grad)
    sgd.step()
    sgd.zero_grad()

"""As in DyNet: a classifier of pairs of words, W * concatenate([E[a], E[b]]) + b, with one graph for each example. The
gradient of the words E has only the rows of the two."""

import numpy as np
from show import show

import xcvm
from xcvm import nn, optim

training_data = [((0, 1), 0), ((1, 2), 1), ((2, 3), 1), ((3, 0), 0)]
E = nn.Embedding(4, 2, weight=np.array([[0.1, -0.2], [0.3, 0.4], [-0.5, 0.6], [0.7, -0.8]], np.float32))
W = xcvm.parameter([[0.1, 0.2], [-0.3, 0.4], [0.5, -0.6], [0.7, 0.8]])
b = xcvm.parameter([0.0, 0.0])
trainer = optim.SGD([("E", E.W), ("W", W), ("b", b)], lr=0.5)
for epoch in range(20):
    total = 0.0
    for in_words, out_label in training_data:
        words = xcvm.concat([E(xcvm.asarray([in_words[0]])), E(xcvm.asarray([in_words[1]]))], axis=1)
        score_sym = words @ W + b
        loss_sym = nn.pick_neg_log_softmax(score_sym, [out_label])
        total += loss_sym.item()
        loss_sym.backward()
        trainer.step()
        trainer.zero_grad()
    if epoch in (0, 19):
        print(f"round {epoch} loss {total:.4f}")
show("b", b)

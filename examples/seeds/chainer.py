"""As in Chainer: a perceptron that is a set of functions, an optimizer that is set up with it, and for each batch gradients
cleared, forward, backward, update."""

import numpy as np
from show import show

import xcvm
from xcvm import nn, optim


def numbers(count, step, seed, scale):
    """Numbers that need no file."""
    return (scale * np.sin(step * np.arange(count) + seed)).astype(np.float32)


def linear(inputs, outputs, seed):
    return nn.Linear(inputs, outputs, weight=numbers(inputs * outputs, 0.37, seed, 0.05).reshape(outputs, inputs))


# (1) Function set definition
class Model(nn.Module):
    def __init__(self):
        self.l1 = linear(784, 100, 1)
        self.l2 = linear(100, 100, 2)
        self.l3 = linear(100, 10, 3)


model = Model()
print("parameters", sum(p.size for p in model.parameters()))

# (2) Optimizer setup
opt = optim.SGD(model, lr=0.1)


# (3) Forward computation
def forward(x, t):
    h1 = nn.relu(model.l1(x))
    h2 = nn.relu(model.l2(h1))
    y = model.l3(h2)
    return nn.cross_entropy(y, t)


# (4) Training loop
images = numbers(40 * 784, 1.7, 0.5, 1).reshape(40, 784)
answers = np.arange(40) ** 2 % 10
for epoch in range(5):
    total = 0.0
    for i in range(0, 40, 10):
        x = xcvm.asarray(images[i : i + 10])
        t = xcvm.asarray(answers[i : i + 10])
        opt.zero_grad()
        loss = forward(x, t)
        total += float(loss)
        loss.backward()
        opt.step()
    print(f"epoch {epoch} loss {total / 4:.4f}")
show("l3/b", model.l3.b)

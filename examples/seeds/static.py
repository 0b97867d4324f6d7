"""As in static_graph: a chain of layers that is static. Its code runs in the first two iterations, a program in the others. What has
side effects every time is a function with its own gradient."""

import numpy as np
from show import show

import xcvm
from xcvm import nn, ops, optim


def numbers(shape, seed):
    count = int(np.prod(shape))
    return ((np.arange(count) * 7 + seed) % 11 / 16 - 0.3).astype(np.float32).reshape(shape)


reports = []


@xcvm.custom_function
def report(x):
    reports.append(x.shape)
    return x.detach()


@report.backward
def _(inputs, results, gradients):
    return gradients


class MLP(nn.Module):
    def __init__(self, *sizes):
        self.w = [xcvm.parameter(numbers((a, b), i)) for i, (a, b) in enumerate(zip(sizes, sizes[1:]))]
        self.b = [xcvm.parameter(numbers((b,), i + 5)) for i, b in enumerate(sizes[1:])]
        self.runs = 0

    @xcvm.static
    def __call__(self, x):
        self.runs += 1
        for i, (w, b) in enumerate(zip(self.w, self.b)):
            x = ops.Gemm(x, w, b)
            x = nn.relu(x) if i + 1 < len(self.w) else x
        return report(x)


chain = MLP(5, 8, 8, 3)
sgd = optim.SGD([*chain.w, *chain.b], lr=0.5)
for iteration in range(30):
    loss = nn.cross_entropy(chain(xcvm.asarray(numbers((4, 5), 0))), xcvm.asarray([0, 2, 1, 2]))
    loss.backward()
    if iteration % 10 == 0:
        show("loss", loss)
    sgd.step()
    sgd.zero_grad()
show("b", chain.b[-1])
print(f"the chain ran {chain.runs} times, and reported {len(reports)} times")

"""Learning beside PyTorch: python3 learning.py. The package and PyTorch must be importable.

A step of an MLP of 784, 100, 100 and 10 units with SGD at batch 1, and scalar calls; one thread. All take turns, so that
they see the same load. Printed are the median and the lowest time over batches of calls.
"""

import platform
import statistics
import time

import numpy as np

import xcvm
from xcvm import nn, optim

ROUNDS, CALLS = 60, 50
SIZES = (784, 100, 100, 10)


def xcvm_calls(image, label):
    net = nn.MLP(*SIZES)
    sgd = optim.SGD(net, lr=0.01)

    def step(x, y):
        loss = nn.cross_entropy(net(x), y)
        loss.backward()
        sgd.step()
        sgd.zero_grad()
        return loss

    static = xcvm.static(step)
    a, b = xcvm.asarray(1.5), xcvm.asarray(2.5)
    p = xcvm.parameter(1.5)

    def chain():
        q = p
        for _ in range(10):
            q = q + b
        q.backward()

    return {
        "step, eager": lambda: step(xcvm.asarray(image), xcvm.asarray(label)),
        "step, static": lambda: static(xcvm.asarray(image), xcvm.asarray(label)),
        "sum of scalars": lambda: a + b,
        "10 sums of scalars and backward": chain,
    }


def torch_calls(image, label):
    import torch

    torch.set_num_threads(1)
    layers = [torch.nn.Linear(a, b) for a, b in zip(SIZES, SIZES[1:])]
    net = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])
    sgd = torch.optim.SGD(net.parameters(), lr=0.01)

    def step():
        loss = torch.nn.functional.cross_entropy(net(torch.from_numpy(image)), torch.from_numpy(label))
        sgd.zero_grad()
        loss.backward()
        sgd.step()

    a, b = torch.tensor(1.5), torch.tensor(2.5)
    p = torch.tensor(1.5, requires_grad=True)

    def chain():
        q = p
        for _ in range(10):
            q = q + b
        q.backward()

    return {"step, eager": step, "sum of scalars": lambda: a + b, "10 sums of scalars and backward": chain}


def main():
    image, label = np.random.default_rng(0).normal(size=(1, 784)).astype(np.float32), np.array([3])
    sides = {"XCVM": xcvm_calls(image, label), "PyTorch": torch_calls(image, label)}
    times = {(side, name): [] for side, calls in sides.items() for name in calls}
    with xcvm.Tape(threads=1):
        sides["XCVM"] = xcvm_calls(image, label)
        for _ in range(ROUNDS):
            for side, name in times:
                call = sides[side][name]
                call()
                begin = time.perf_counter_ns()
                for _ in range(CALLS):
                    call()
                times[side, name].append((time.perf_counter_ns() - begin) / CALLS / 1000)
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}; microseconds")
    for name in sides["XCVM"]:
        own = times["XCVM", name]
        peer = times.get(("PyTorch", name)) or times["PyTorch", "step, eager"]
        for kind, of in ("median", statistics.median), ("lowest", min):
            print(f"{name:34} {kind} XCVM {of(own):8.2f}   PyTorch {of(peer):8.2f}   {of(own) / of(peer):.3f}")


if __name__ == "__main__":
    main()

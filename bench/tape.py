"""What tape_bench.c measures, in PyTorch: the same lines, nanoseconds."""

import statistics
import time

import torch

torch.set_num_threads(1)


def measure(name, body, count, rounds):
    times = [body(count) / count for _ in range(rounds)]
    print(f"{name:<28} {statistics.median(times):10.1f}")


def add(count):
    x, y = torch.tensor(1.0), torch.tensor(1.0)
    begun = time.perf_counter_ns()
    for _ in range(count):
        x + y
    return time.perf_counter_ns() - begun


def chain(count):
    x = torch.tensor(1.0, requires_grad=True)
    y = torch.tensor(1.0)
    z = x
    for _ in range(count):
        z = z + y
    return z


def recorded(count):
    begun = time.perf_counter_ns()
    z = chain(count)
    passed = time.perf_counter_ns() - begun
    z.detach_()
    return passed


def backward(count):
    z = chain(count)
    begun = time.perf_counter_ns()
    z.backward()
    return time.perf_counter_ns() - begun


def product_backward(count):
    x, y = (torch.tensor(1.0, requires_grad=True) for _ in range(2))
    z = x
    for _ in range(count):
        z = z * y
    begun = time.perf_counter_ns()
    z.backward()
    return time.perf_counter_ns() - begun


def mlp(count):
    model = torch.nn.Sequential(
        torch.nn.Linear(784, 100), torch.nn.ReLU(), torch.nn.Linear(100, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, target = torch.rand(1, 784), torch.tensor([3])
    begun = time.perf_counter_ns()
    for _ in range(count):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), target).backward()
        optimizer.step()
    return time.perf_counter_ns() - begun


measure("scalar_add", add, 20000, 11)
measure("scalar_add_recorded", recorded, 2000, 21)
measure("scalar_add_backward", backward, 2000, 21)
measure("scalar_mul_backward", product_backward, 2000, 21)
measure("mlp_step", mlp, 500, 5)

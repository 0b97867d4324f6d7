"""kinks.py XCVM WORK [SEEDS]: gradients of networks with kinks (Relu, LeakyRelu, Clip, Abs, MaxPool, Max) beside PyTorch's.

Each network is differentiated three times: by XCVM in f32, by PyTorch in f32, and by PyTorch in f64. The distance of a
gradient is its norm of the difference from f64, over all parameters, as a share of the norm of f64's. A step over a kink
in f32 makes a gradient jump, in either, so distances are taken as medians over the seeds. XCVM's may be twice PyTorch's,
and one rounding of f32.
"""
import copy
import os
import subprocess
import sys

import numpy
import torch
from torch import nn

nn_f = nn.functional


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 12, 3, padding=1), nn.Conv2d(12, 12, 3, padding=1)
        self.third, self.out = nn.Conv2d(12, 12, 3, padding=1), nn.Linear(12, 10)

    def forward(self, x):
        x = nn_f.relu(self.first(x))
        x = nn_f.max_pool2d(x + nn_f.relu(self.second(x)), 2)
        return self.out(nn_f.relu(self.third(x)).mean((2, 3)))


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in ((192, 96), (96, 96), (96, 96), (96, 10)))

    def forward(self, x):
        x = x.flatten(1)
        for layer in self.layers[:-1]:
            x = nn_f.leaky_relu(layer(x), 0.1)
        return self.layers[-1](x)


class Clipped(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, stride=2), nn.Conv2d(16, 16, 3, groups=16)
        self.third, self.out = nn.Conv2d(16, 24, 1), nn.Linear(24, 10)

    def forward(self, x):
        x = torch.clamp(self.first(x), 0.0, 1.0)
        x = torch.clamp(self.second(x), 0.0, 6.0)
        return self.out(torch.abs(self.third(x)).amax((2, 3)))


class Maxout(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.out = nn.Linear(192, 64), nn.Linear(192, 64), nn.Linear(64, 10)

    def forward(self, x):
        x = x.flatten(1)
        return self.out(torch.max(self.a(x), self.b(x)))


def gradients(model, x, labels):
    model.zero_grad()
    nn_f.cross_entropy(model(x), labels).backward()
    return {name: p.grad.detach().double().numpy() for name, p in model.named_parameters()}


def distance(got, exact):
    off = sum(((got[name] - exact[name]) ** 2).sum() for name in exact)
    return (off / sum((g**2).sum() for g in exact.values())) ** 0.5


class WithLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, labels):
        return nn_f.cross_entropy(self.model(x), labels)


def ours(xcvm, work, model, x, labels, level):
    path = os.path.join(work, "network.onnx")
    torch.onnx.export(WithLoss(model), (x, labels), path, input_names=["x", "labels"], output_names=["loss"], opset_version=13,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
    numpy.savez(os.path.join(work, "data.npz"), x=x.numpy(), labels=labels.numpy())
    names = [name for name, _ in model.named_parameters()]
    wanted = [word for i, name in enumerate(names) for word in ("-o", f"grad_out@model.{name}=@{work}/{i}.npy")]
    subprocess.run([xcvm, "compile", path, "-o", f"{work}/network.bin", "--backprop", "-O", level], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([xcvm, "run", f"{work}/network.bin", "-i", f"x=@{work}/data.npz:x", "-i", f"labels=@{work}/data.npz:labels"]
                   + wanted, check=True, stdout=subprocess.DEVNULL)
    return {name: numpy.load(f"{work}/{i}.npy").astype(float) for i, name in enumerate(names)}


def main():
    xcvm, work, seeds = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 9
    torch.set_num_threads(1)
    failed = 0
    for kind in (Residual, Perceptron, Clipped, Maxout):
        distances = []
        for seed in range(seeds):
            torch.manual_seed(seed)
            model = kind()
            x, labels = torch.randn(16, 3, 8, 8), torch.randint(0, 10, (16,))
            exact = gradients(copy.deepcopy(model).double(), x.double(), labels)
            theirs = distance(gradients(model, x, labels), exact)
            distances.append([theirs] + [distance(ours(xcvm, work, model, x, labels, level), exact) for level in "02"])
        theirs, plain, optimized = numpy.median(distances, 0)
        good = max(plain, optimized) <= 2 * theirs + 2**-24
        failed += not good
        print(f"{kind.__name__.lower():12s} PyTorch {theirs:.2e}  -O0 {plain:.2e} ({plain / theirs:.2f})  "
              f"-O2 {optimized:.2e} ({optimized / theirs:.2f})  {'' if good else 'FAILED'}")
    print(f"{4 - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()

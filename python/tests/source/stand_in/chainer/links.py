"""Links of the stand-in for Chainer."""

import numpy as np
import torch

from . import Chain, ChainList, Link, Parameter, Variable, functions, tensor


class Linear(Link):
    def __init__(self, in_size, out_size=None, nobias=False):
        super().__init__()
        if out_size is None:
            in_size, out_size = None, in_size
        self.out_size = out_size
        with self.init_scope():
            self.W = Parameter(None if in_size is None else (out_size, in_size))
            self.b = None if nobias else Parameter((out_size,), 0.125)

    def forward(self, x, n_batch_axes=1):
        if self.W.array is None:
            self.W.initialize((self.out_size, int(np.prod(x.shape[n_batch_axes:]))))
        return functions.linear(x, self.W, self.b, n_batch_axes=n_batch_axes)


class ConvolutionND(Link):
    def __init__(self, ndim, in_channels, out_channels, ksize=None, stride=1, pad=0, nobias=False):
        super().__init__()
        self.ksize = ksize if isinstance(ksize, tuple) else (ksize,) * ndim
        self.out_channels, self.stride, self.pad = out_channels, stride, pad
        with self.init_scope():
            self.W = Parameter(None if in_channels is None else (out_channels, in_channels, *self.ksize))
            self.b = None if nobias else Parameter((out_channels,), 0.25)

    def forward(self, x):
        if self.W.array is None:
            self.W.initialize((self.out_channels, x.shape[1], *self.ksize))
        return functions.convolution_nd(x, self.W, self.b, self.stride, self.pad)


class Convolution2D(ConvolutionND):
    def __init__(self, in_channels, out_channels, ksize=None, stride=1, pad=0, nobias=False):
        super().__init__(2, in_channels, out_channels, ksize, stride, pad, nobias)


class BatchNormalization(Link):
    def __init__(self, size, eps=2e-5):
        super().__init__()
        self.eps, self.axis = eps, None
        self.avg_mean = np.linspace(-0.5, 0.5, size, dtype=np.float32)
        self.avg_var = np.linspace(0.5, 1.5, size, dtype=np.float32)
        with self.init_scope():
            self.gamma, self.beta = Parameter((size,), 1.5), Parameter((size,), 0.5)

    def forward(self, x):
        return functions.fixed_batch_normalization(x, self.gamma, self.beta, self.avg_mean, self.avg_var, self.eps)


class EmbedID(Link):
    def __init__(self, in_size, out_size):
        super().__init__()
        with self.init_scope():
            self.W = Parameter((in_size, out_size))

    def forward(self, x):
        return functions.embed_id(x, self.W)


class StatelessLSTM(Chain):
    def __init__(self, in_size, out_size):
        super().__init__()
        self.state_size = out_size
        with self.init_scope():
            self.upward = Linear(in_size, 4 * out_size)
            self.lateral = Linear(out_size, 4 * out_size, nobias=True)

    def forward(self, c, h, x):
        lstm_in = self.upward(x)
        if h is not None:
            lstm_in += self.lateral(h)
        if c is None:
            c = Variable(self.xp.zeros((x.shape[0], self.state_size), dtype=x.dtype))
        return functions.lstm(c, lstm_in)


class NStepLSTM(ChainList):
    directions = 1

    def __init__(self, n_layers, in_size, out_size, dropout):
        layers = []
        for layer in range(n_layers):
            for _ in range(self.directions):
                width = in_size if layer == 0 else out_size * self.directions
                one = Link()
                with one.init_scope():
                    for index in range(8):
                        setattr(one, f"w{index}", Parameter((out_size, width if index < 4 else out_size)))
                        setattr(one, f"b{index}", Parameter((out_size,), 0.1 * index))
                layers.append(one)
        super().__init__(*layers)
        self.n_layers, self.out_size, self.dropout = n_layers, out_size, dropout

    def forward(self, hx, cx, xs):
        assert hx is None and cx is None
        xs = [tensor(x) for x in xs]
        ends = [[], []]
        for layer in range(self.n_layers):
            halves = []
            for direction in range(self.directions):
                link = self[layer * self.directions + direction]
                ys, hs, cs = [], [], []
                for x in xs:
                    h = c = torch.zeros(self.out_size)
                    steps = []
                    for row in x.flip(0) if direction else x:
                        i, f, a, o = (
                            tensor(getattr(link, f"w{k}")) @ row + tensor(getattr(link, f"b{k}"))
                            + tensor(getattr(link, f"w{k + 4}")) @ h + tensor(getattr(link, f"b{k + 4}"))
                            for k in range(4)
                        )  # fmt: skip
                        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(a)
                        h = torch.sigmoid(o) * torch.tanh(c)
                        steps.append(h)
                    ys.append(torch.stack(steps).flip(0) if direction else torch.stack(steps))
                    hs.append(h)
                    cs.append(c)
                halves.append(ys)
                ends[0].append(torch.stack(hs))
                ends[1].append(torch.stack(cs))
            xs = [torch.cat(parts, 1) for parts in zip(*halves)]
        return *(Variable(torch.stack(e)) for e in ends), [Variable(x) for x in xs]


class NStepBiLSTM(NStepLSTM):
    directions = 2

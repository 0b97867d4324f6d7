"""Element-wise operators, normalizations, losses, signals and generators that opsets 18 to 24 brought or extended."""
import math

import numpy as np

from .common import TYPES, Narrow, bf16, decode

erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(0, x)


# Operators that opset 22 extended to bfloat16, with their formula and domain.
UNARY = {
    "Acos": (np.arccos, -1, 1), "Acosh": (np.arccosh, 1, 5), "Asin": (np.arcsin, -1, 1), "Asinh": (np.arcsinh, -5, 5),
    "Atan": (np.arctan, -5, 5), "Atanh": (np.arctanh, -0.9, 0.9), "Cos": (np.cos, -5, 5), "Cosh": (np.cosh, -3, 3),
    "Sin": (np.sin, -5, 5), "Sinh": (np.sinh, -3, 3), "Tan": (np.tan, -1.2, 1.2), "Round": (np.rint, -9, 9),
    "Softplus": (softplus, -5, 5), "Softsign": (lambda x: x / (1 + np.abs(x)), -5, 5),
    "Mish": (lambda x: x * np.tanh(softplus(x)), -5, 5),
    "HardSwish": (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), -5, 5),
    "HardSigmoid": (lambda x: np.clip(0.2 * x + 0.5, 0, 1), -5, 5),
    "Elu": (lambda x: np.where(x < 0, np.exp(x) - 1, x), -5, 5),
    "Selu": (lambda x: 1.0507009873554805 * np.where(x <= 0, 1.6732632423543772 * (np.exp(x) - 1), x), -5, 5),
    "ThresholdedRelu": (lambda x: np.where(x > 1, x, 0), -3, 3),
}


def unary(suite, rng):
    for name, (f, low, high) in UNARY.items():
        x = rng.uniform(low, high, (3, 7))
        for kind, dtype in (("f16", np.float16), ("f32", np.float32), ("f64", np.float64)):
            v = x.astype(dtype)
            suite.op(22, name, kind, [v], [f(v.astype(np.float64)).astype(dtype)])
        v = bf16(x)
        suite.op(22, name, "bf16", [v], [bf16(f(decode("bf16", v.bits)))])
    x = rng.uniform(-4, 4, (2, 5))
    for opset in (18, 22):
        suite.op(opset, "Mish", "f32_wide", [(x * 10).astype(np.float32)], [UNARY["Mish"][0]((x * 10).astype(np.float32).astype(np.float64)).astype(np.float32)])
    for kind, dtype in (("f16", np.float16), ("f32", np.float32), ("f64", np.float64)):
        v = x.astype(dtype)
        wide = v.astype(np.float64)
        suite.op(20, "Gelu", kind, [v], [(wide / 2 * (1 + erf(wide / math.sqrt(2)))).astype(dtype)])
        suite.op(20, "Gelu", f"{kind}_tanh", [v],
                 [(wide / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))).astype(dtype)],
                 approximate="tanh")
        suite.op(24, "Swish", kind, [v], [(wide * sigmoid(wide)).astype(dtype)])
        suite.op(24, "Swish", f"{kind}_alpha", [v], [(wide * sigmoid(1.7 * wide)).astype(dtype)], alpha=1.7)


def predicates(suite, rng):
    special = np.array([np.inf, -np.inf, np.nan, 0.0, 1.5])
    for kind, dtype in (("f16", np.float16), ("f32", np.float32), ("f64", np.float64)):
        v = special.astype(dtype)
        suite.op(20, "IsNaN", kind, [v], [np.isnan(v)])
        suite.op(20, "IsInf", kind, [v], [np.isinf(v)])
        suite.op(20, "IsInf", f"{kind}_negative", [v], [np.isneginf(v)], detect_positive=0)
    every = np.arange(256)
    for kind in ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"):
        suite.op(20, "IsNaN", kind, [Narrow(kind, every)], [np.isnan(decode(kind, every))])
        suite.op(20, "IsInf", kind, [Narrow(kind, every)], [np.isinf(decode(kind, every))])
    v = bf16(special)
    suite.op(20, "IsNaN", "bf16", [v], [np.isnan(special)])
    suite.op(20, "IsInf", "bf16", [v], [np.isinf(special)])
    for kind in (np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64):
        a, b = rng.integers(0, 100, (3, 4)).astype(kind), rng.integers(0, 100, 4).astype(kind)
        for name, f in (("BitwiseAnd", np.bitwise_and), ("BitwiseOr", np.bitwise_or), ("BitwiseXor", np.bitwise_xor)):
            suite.op(18, name, np.dtype(kind).name, [a, b], [f(a, b)])
        suite.op(18, "BitwiseNot", np.dtype(kind).name, [a], [np.invert(a)])


def normalizations(suite, rng):
    x = rng.standard_normal((2, 6, 3, 4)).astype(np.float32)

    def grouped(groups, epsilon=1e-5):
        y = x.astype(np.float64).reshape(2, groups, -1)
        y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + epsilon)
        return y.reshape(x.shape)

    for groups in (1, 2, 3, 6):
        for opset, count in ((18, groups), (21, 6)):
            scale, bias = rng.standard_normal((2, count)).astype(np.float32)
            per_channel = [np.repeat(v, 6 // count)[:, None, None] for v in (scale, bias)]
            suite.op(opset, "GroupNormalization", f"{groups}_groups", [x, scale, bias],
                     [(grouped(groups) * per_channel[0] + per_channel[1]).astype(np.float32)], num_groups=groups)
    scale, bias = rng.standard_normal((2, 6)).astype(np.float32)
    column = [v[:, None, None] for v in (scale, bias)]
    suite.op(21, "GroupNormalization", "epsilon", [x, scale, bias],
             [(grouped(2, 0.1) * column[0] + column[1]).astype(np.float32)], num_groups=2, epsilon=0.1)
    # Multiples of a quarter, which f16 represents exactly.
    x, scale, bias = (np.rint(4 * v).astype(np.float32) / 4 for v in (x, scale, bias))
    column = [v[:, None, None] for v in (scale, bias)]
    suite.op(21, "GroupNormalization", "stash_type", [x.astype(np.float16), scale.astype(np.float16), bias.astype(np.float16)],
             [(grouped(2) * column[0] + column[1]).astype(np.float16)], num_groups=2, stash_type=1)
    instance = x.astype(np.float64)
    instance = (instance - instance.mean((2, 3), keepdims=True)) / np.sqrt(instance.var((2, 3), keepdims=True) + 1e-5)
    for dtype in (np.float32, np.float64):
        suite.op(22, "InstanceNormalization", np.dtype(dtype).name, [x.astype(dtype), scale.astype(dtype), bias.astype(dtype)],
                 [(instance * column[0] + column[1]).astype(dtype)])
    for axis in (-1, 1, 2, 0):
        shape = x.shape[axis if axis >= 0 else axis + 4:]
        weight = rng.standard_normal(shape).astype(np.float32)
        wide = x.astype(np.float64)
        mean = (wide * wide).mean(tuple(range(axis % 4, 4)), keepdims=True)
        for epsilon in (1e-5, 0.1):
            suite.op(23, "RMSNormalization", f"axis{axis}_epsilon{epsilon}", [x, weight],
                     [(wide / np.sqrt(mean + epsilon) * weight).astype(np.float32)], axis=axis, epsilon=epsilon)
    half, weight = x.astype(np.float16), rng.standard_normal(4).astype(np.float16)
    wide = half.astype(np.float64)
    suite.op(23, "RMSNormalization", "f16", [half, weight],
             [(wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-5) * weight).astype(np.float16)])
    for p in (1, 2):
        for axis in (-1, 1):
            norm = np.abs(x.astype(np.float64)).sum(axis, keepdims=True) if p == 1 else np.sqrt((x.astype(np.float64) ** 2).sum(axis, keepdims=True))
            suite.op(22, "LpNormalization", f"p{p}_axis{axis}", [x], [(x / norm).astype(np.float32)], p=p, axis=axis)
    m = rng.standard_normal((3, 4, 4))
    suite.op(22, "Det", "f64", [m], [np.linalg.det(m)])
    suite.op(22, "Det", "f32", [m.astype(np.float32)], [np.linalg.det(m).astype(np.float32)])
    suite.op(22, "Det", "one", [m[0]], [np.linalg.det(m[0])])


def losses_and_generators(suite, rng):
    x = rng.standard_normal((3, 5, 2))
    target, weight = rng.integers(0, 5, (3, 2)), rng.random(5)
    for dtype in (np.float32, np.float64):
        v, w = x.astype(dtype), weight.astype(dtype)
        picked = -np.take_along_axis(v, target[:, None], 1)[:, 0] * w[target]
        suite.op(22, "NegativeLogLikelihoodLoss", f"{np.dtype(dtype).name}_none", [v, target, w], [picked.astype(dtype)], reduction="none")
        suite.op(22, "NegativeLogLikelihoodLoss", f"{np.dtype(dtype).name}_mean", [v, target, w],
                 [np.asarray(picked.sum() / w[target].sum(), dtype)], reduction="mean")
    suite.op(22, "NegativeLogLikelihoodLoss", "sum", [x, target], [np.asarray(-np.take_along_axis(x, target[:, None], 1).sum())], reduction="sum")
    m = np.zeros((3, 5), np.float32)
    suite.op(22, "EyeLike", "f32", [m], [np.eye(3, 5, dtype=np.float32)])
    suite.op(22, "EyeLike", "k", [m], [np.eye(3, 5, 2, dtype=np.int64)], k=2, dtype=TYPES["i64"])
    suite.op(22, "EyeLike", "bf16", [m], [bf16(np.eye(3, 5, -1))], k=-1, dtype=TYPES["bf16"])
    suite.op(22, "Dropout", "inference", [x.astype(np.float32)], [x.astype(np.float32)])
    suite.op(22, "Dropout", "mask", [x.astype(np.float32), np.float32(0.4)], [x.astype(np.float32), np.ones(x.shape, bool)])
    suite.op(22, "Dropout", "ratio_zero", [x.astype(np.float32), np.float32(0), np.bool_(True)], [x.astype(np.float32)])
    half = x.astype(np.float16)
    suite.op(22, "Dropout", "f16", [half], [half])
    for value, opset in ((0.0, 22), (1.0, 22)):
        p = np.full((4, 4), value, np.float32)
        suite.op(opset, "Bernoulli", f"certain{value}", [p], [p])
    suite.op(22, "Bernoulli", "dtype", [np.ones((2, 3), np.float32)], [np.ones((2, 3), np.int32)], dtype=TYPES["i32"])
    certain = np.array([[0.0, -1e30, -1e30], [-1e30, -1e30, 0.0]], np.float32)
    for name, dtype in (("i32", np.int32), ("i64", np.int64)):
        suite.op(22, "Multinomial", name, [certain], [np.array([[0] * 4, [2] * 4], dtype)], sample_size=4, dtype=TYPES[name])
    suite.op(22, "Multinomial", "default", [certain], [np.array([[0], [2]], np.int32)])
    for name in ("RandomUniform", "RandomUniformLike"):
        given = [np.zeros((2, 3), np.float32)] if name.endswith("Like") else []
        shape = {} if given else {"shape": [2, 3]}
        suite.op(22, name, "constant", given, [np.full((2, 3), 3, np.float32)], low=3.0, high=3.0, **shape)
        suite.op(22, name, "f64", given, [np.full((2, 3), 3.0)], low=3.0, high=3.0, dtype=TYPES["f64"], **shape)
        suite.op(22, name, "f16", given, [np.full((2, 3), 3, np.float16)], low=3.0, high=3.0, dtype=TYPES["f16"], **shape)
    for name in ("RandomNormal", "RandomNormalLike"):
        given = [np.zeros((2, 3), np.float32)] if name.endswith("Like") else []
        shape = {} if given else {"shape": [2, 3]}
        for kind, dtype in (("f32", np.float32), ("f64", np.float64), ("f16", np.float16)):
            suite.op(22, name, kind, given, [np.full((2, 3), 3, dtype)], mean=3.0, scale=0.0, dtype=TYPES[kind], **shape)


def signals(suite, rng):
    x = rng.standard_normal((2, 5, 4, 2)).astype(np.float32)
    z = x[..., 0] + 1j * x[..., 1]

    def pairs(c):
        return np.stack([c.real, c.imag], -1).astype(np.float32)

    for axis in (1, 2, -2, -3):
        at = axis if axis >= 0 else axis + 1
        suite.op(20, "DFT", f"axis{axis}", [x, None, np.array(axis)], [pairs(np.fft.fft(z, axis=at))])
        suite.op(20, "DFT", f"axis{axis}_inverse", [x, None, np.array(axis)], [pairs(np.fft.ifft(z, axis=at))], inverse=1)
        suite.op(20, "DFT", f"axis{axis}_length", [x, np.array(7), np.array(axis)], [pairs(np.fft.fft(z, 7, axis=at))])
    suite.op(20, "DFT", "default_axis", [x], [pairs(np.fft.fft(z, axis=2))])
    real = x[..., :1]
    suite.op(20, "DFT", "real", [real], [pairs(np.fft.fft(real[..., 0], axis=2))])
    suite.op(20, "DFT", "onesided", [real, None, np.array(1)], [pairs(np.fft.rfft(real[..., 0], axis=1))], onesided=1)
    suite.op(20, "DFT", "onesided_length", [real, np.array(8), np.array(1)], [pairs(np.fft.rfft(real[..., 0], 8, axis=1))], onesided=1)
    wide = rng.standard_normal((1, 6, 2))
    suite.op(20, "DFT", "f64", [wide], [np.stack([f(np.fft.fft(wide[..., 0] + 1j * wide[..., 1], axis=1)) for f in (np.real, np.imag)], -1)])
    spectrum = pairs(np.fft.rfft(real[..., 0], axis=1))
    suite.op(20, "DFT", "inverse_onesided", [spectrum, np.array(5), np.array(1)],
             [np.fft.irfft(spectrum[..., 0] + 1j * spectrum[..., 1], 5, axis=1)[..., None].astype(np.float32)], inverse=1, onesided=1)


def products(suite, rng):
    """QLinearMatMul of opset 21 takes scales of all floats."""
    a, b = rng.integers(0, 256, (2, 3, 4)).astype(np.uint8), rng.integers(-128, 128, (4, 5)).astype(np.int8)
    for name, dtype in (("f16", np.float16), ("f32", np.float32)):
        scales = [np.asarray(s, dtype) for s in (0.0625, 0.03125, 0.5)]
        zeros = [np.uint8(113), np.int8(7), np.uint8(118)]
        exact = (a.astype(np.int64) - 113) @ (b.astype(np.int64) - 7) * (0.0625 * 0.03125 / 0.5)
        y = np.clip(np.rint(exact) + 118, 0, 255).astype(np.uint8)
        suite.op(21, "QLinearMatMul", name, [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]], [y])
    scales = [bf16(np.float32(s)) for s in (0.0625, 0.03125, 0.5)]
    suite.op(21, "QLinearMatMul", "bf16", [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]], [y])


def make(suite):
    rng = np.random.default_rng(22)
    unary(suite, rng)
    predicates(suite, rng)
    normalizations(suite, rng)
    losses_and_generators(suite, rng)
    signals(suite, rng)
    products(suite, rng)

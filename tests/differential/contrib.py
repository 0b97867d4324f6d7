"""ONNX Runtime's contributed operators (com.microsoft) on floats. NumPy decides those that the peer has for graphics
processors alone; contrib_attention.py and contrib_quantized.py have the others."""
import math

import numpy as np

from neural import convolution, image_of, window
from table import operator

MICROSOFT = "com.microsoft"


def contrib(name, since=13, weight=1):
    """An entry for an operator of the domain."""

    def register(function):
        def draw(case):
            case.domains[MICROSOFT] = 1
            if case.declaring == "nothing":
                case.declaring = "rank"
            function(case)

        operator(name, since, 17, weight)(draw)
        return function

    return register


def node(case, name, operands, results=1, **attributes):
    return case.node(name, operands, results, domain=MICROSOFT, **attributes)


def narrow(case):
    """Mostly the plain float; the peer has kernels of halves for some."""
    return case.choice(["f32", "f32", "f16"])


def value(case, shape, kind="f32", low=-2.0, high=2.0, constant=None):
    """The name of a value and what it is."""
    array = case.values(shape, kind, low, high)
    return case.feed(array, kind, constant), array


def erf(x):
    return np.vectorize(math.erf)(x) if x.size else x


def gelu(x):
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# ---- Activations ----


@contrib("Gelu")
def gelu_case(case):
    case.output(node(case, "Gelu", [value(case, case.shape(zero=0), low=-5, high=5)[0]]), "f32")


@contrib("QuickGelu")
def quick_gelu(case):
    alpha = case.choice([None, 1.0, 1.702, 0.5])
    case.output(node(case, "QuickGelu", [value(case, case.shape(zero=0))[0]], alpha=alpha), "f32")


@contrib("BiasGelu")
def bias_gelu(case):
    shape = case.shape(low=1, zero=0)
    case.output(node(case, "BiasGelu", [value(case, shape)[0], value(case, shape[-1:])[0]]), "f32")


@contrib("FastGelu")
def fast_gelu(case):
    shape = case.shape(low=1, zero=0)
    operands = [value(case, shape)[0]] + ([value(case, shape[-1:])[0]] if case.chance(0.5) else [])
    case.output(node(case, "FastGelu", operands), "f32")
    case.within(1e-5, 2e-6)


@contrib("BiasSplitGelu")
def bias_split_gelu(case):
    shape = case.shape(rank=2, zero=0) + [2 * case.choice([1, 2, 5, 16, 33])]
    case.known("sizes")
    (x, a), (bias, b) = value(case, shape), value(case, shape[-1:])
    left, right = np.split(a.astype(float) + b, 2, -1)
    case.output(node(case, "BiasSplitGelu", [x, bias]), "f32", left * gelu(right))
    case.within(1e-5, 2e-6)


@contrib("BiasAdd")
def bias_add(case):
    shape = case.shape(rank=3, zero=0)
    (x, a), (bias, b), (skip, c) = value(case, shape), value(case, shape[-1:]), value(case, shape)
    case.output(node(case, "BiasAdd", [x, bias, skip]), "f32", a.astype(float) + b + c)


@contrib("BiasSoftmax")
def bias_softmax(case):
    shape = case.shape(rank=case.integer(2, 4), zero=0)
    axis = case.integer(1, len(shape) - 1)
    broadcast, inner = list(shape), case.integer(0, 1)
    for place in (range(1, axis) if inner else range(0, axis)):
        broadcast[place] = 1
    (x, a), (bias, b) = value(case, shape), value(case, broadcast)
    flat = (a.astype(float) + b).reshape(math.prod(shape[:axis]), -1)
    name = node(case, "BiasSoftmax", [x, bias], axis=axis, is_inner_broadcast=inner)
    case.output(name, "f32", softmax(flat).reshape(shape))


@contrib("BiasDropout")
def bias_dropout(case):
    shape = case.shape(low=1, zero=0)
    (x, a), (bias, b) = value(case, shape), value(case, shape[-1:])
    operands, y = [x, bias], a.astype(float) + b
    if case.chance(0.5):
        residual, c = value(case, shape)
        operands.append(residual)
        y = y + c
    results = node(case, "BiasDropout", operands, 2, seed=case.choice([None, 3]))
    case.output(results[0], "f32", y)
    case.output(results[1], "bool", np.ones(shape, bool))


# ---- Normalization ----


@contrib("SkipLayerNormalization", weight=4)
def skip_layer_normalization(case):
    shape = [case.choice([1, 2, 3]), case.choice([1, 2, 5, 17]), case.choice([2, 4, 8, 15, 32, 64, 100])]
    skip = case.choice([shape, shape, [1] + shape[1:], shape[1:]])
    kind = narrow(case)
    operands = [value(case, shape, kind)[0], value(case, skip, kind)[0], value(case, shape[-1:], kind)[0]]
    operands += [value(case, shape[-1:], kind)[0] if case.chance(0.7) else "", value(case, shape[-1:], kind)[0] if case.chance(0.5) else ""]
    results = node(case, "SkipLayerNormalization", operands, 4, epsilon=case.choice([None, 1e-5, 1e-3]))
    case.output(results[0], kind)
    if case.chance(0.5):
        case.output(results[3], kind)
    case.sums(shape[-1], 2)


@contrib("SkipSimplifiedLayerNormalization", weight=3)
def skip_simplified_layer_normalization(case):
    shape = [case.choice([1, 2, 3]), case.choice([1, 2, 5, 17]), case.choice([2, 4, 8, 15, 32, 64, 100])][case.integer(0, 1):]
    kind = narrow(case)
    operands = [value(case, shape, kind)[0], value(case, shape, kind)[0], value(case, shape[-1:], kind)[0]]
    operands += [value(case, shape[-1:], kind)[0]] if case.chance(0.5) else []
    results = node(case, "SkipSimplifiedLayerNormalization", operands, 4, epsilon=case.choice([None, 1e-5, 1e-3]))
    case.output(results[0], kind)
    if case.chance(0.5):
        case.output(results[3], kind)
    case.sums(shape[-1], 2)


@operator("SimplifiedLayerNormalization", 7, 17, 2)
def simplified_layer_normalization(case):
    shape = case.shape(low=1, zero=0, limit=3000)
    axis = case.axis(len(shape))
    if case.declaring == "nothing":
        case.declaring = "rank"
    operands = [value(case, shape)[0], value(case, shape[axis:] if axis else shape)[0]]
    results = case.node("SimplifiedLayerNormalization", operands, 2, axis=axis, epsilon=case.choice([None, 1e-5, 1e-3]), stash_type=1)
    case.output(results[0], "f32")
    if case.chance(0.3):
        case.output(results[1], "f32")
    case.sums(math.prod(shape), 2)


@operator("LayerNormalization", 7, 16, 2)
def early_layer_normalization(case):
    """Which the peer puts into ONNX's domain before ONNX had it."""
    shape = case.shape(low=1, zero=0, limit=3000)
    axis = case.axis(len(shape))
    inner = shape[axis:] if axis else shape
    operands = [value(case, shape)[0], value(case, inner)[0]] + ([value(case, inner)[0]] if case.chance(0.6) else [])
    case.output(case.node("LayerNormalization", operands, 1, axis=axis, epsilon=case.choice([None, 1e-3])), "f32")
    case.sums(math.prod(shape), 2)


@contrib("EmbedLayerNormalization", weight=3)
def embed_layer_normalization(case):
    batch, length, width = case.choice([1, 2, 3]), case.choice([1, 2, 5, 16]), case.choice([4, 8, 15, 32])
    segments = case.chance(0.6)
    case.known("sizes")
    ids = case.feed(case.ints([batch, length], "i32", 0, 9), "i32", 0)
    operands = [ids, case.feed(case.ints([batch, length], "i32", 0, 1), "i32", 0) if segments else "",
                value(case, [10, width])[0], value(case, [length + case.integer(0, 3), width])[0],
                value(case, [2, width])[0] if segments else "", value(case, [width])[0], value(case, [width])[0]]
    mask = case.chance(0.5)
    operands.append(case.feed(case.ints([batch, length], "i32", 0, 1), "i32", 0) if mask else "")
    if case.chance(0.3):
        operands.append(case.feed(case.ints([case.choice([1, batch]), length], "i32", 0, length - 1), "i32", 0))
    results = node(case, "EmbedLayerNormalization", operands, 3, epsilon=case.choice([1e-12, 1e-5]), mask_index_type=1 if mask else None)
    case.output(results[0], "f32")
    if mask:
        case.output(results[1], "i32")
    if case.chance(0.5):
        case.output(results[2], "f32")
    case.sums(width, 3)


# ---- Products ----


@contrib("FusedMatMul", weight=4)
def fused_mat_mul(case):
    fused_product(case, "FusedMatMul", case.chance(0.4))


@contrib("TransposeMatMul")
def transpose_mat_mul(case):
    fused_product(case, "TransposeMatMul", False)


def fused_product(case, name, batched):
    m, k, n = (case.choice([1, 2, 3, 5, 8, 16, 17, 33]) for _ in range(3))
    batch = [case.choice([1, 2, 3]) for _ in range(case.integer(1 if batched else 0, 2))]
    exchange = [case.chance(0.5), case.chance(0.5)]
    turned = [batched and case.chance(0.6), batched and case.chance(0.6)]
    shapes = []
    for rows, columns, swap, turn in ((m, k, exchange[0], turned[0]), (k, n, exchange[1], turned[1])):
        rows, columns = (columns, rows) if swap else (rows, columns)
        shapes.append([rows] + batch + [columns] if turn else batch + [rows, columns])
    operands = [value(case, shape, constant=share)[0] for shape, share in zip(shapes, (0.1, 0.5))]
    attributes = {"transBatchA": int(turned[0]), "transBatchB": int(turned[1])} if batched else {}
    case.output(node(case, name, operands, transA=int(exchange[0]), transB=int(exchange[1]), alpha=case.choice([None, 0.125, -2.0]),
                     **attributes), "f32")
    case.sums(k, 8)


@contrib("FusedGemm", weight=3)
def fused_gemm(case):
    m, k, n = (case.choice([1, 2, 3, 5, 8, 16, 17, 33]) for _ in range(3))
    exchange = [case.chance(0.5), case.chance(0.5)]
    operands = [value(case, [k, m] if exchange[0] else [m, k])[0], value(case, [n, k] if exchange[1] else [k, n], constant=0.6)[0]]
    if case.chance(0.7):
        operands.append(value(case, case.choice([[n], [m, n], [1, n], [m, 1], []]))[0])
    activation = case.choice(["Relu", "LeakyRelu", "Tanh", "Sigmoid", "Elu", "HardSigmoid", "Softplus", "Softsign", "ThresholdedRelu"])
    given = {"LeakyRelu": 1, "Elu": 1, "HardSigmoid": 2, "ThresholdedRelu": 1}.get(activation, 0)
    case.output(node(case, "FusedGemm", operands, transA=int(exchange[0]), transB=int(exchange[1]), alpha=case.choice([None, 0.25]),
                     beta=case.choice([None, 0.5]), activation=activation, activation_alpha=case.real(0.1, 0.4) if given else None,
                     activation_beta=case.real(0.1, 0.6) if given > 1 else None), "f32")
    case.sums(k, 8)
    if activation == "ThresholdedRelu":  # jumps
        case.within(1e-3, 1)


@contrib("FusedConv", weight=4)
def fused_conv(case):
    rank = case.choice([1, 2, 2, 2, 3])
    image = [min(size, 17) for size in image_of(case, rank)]
    kernel, attributes = window(case, rank, image, 3)
    groups, into, out = case.choice([1, 1, 1, 2]), case.choice([1, 3, 8, 16, 17]), case.choice([1, 3, 8, 16, 17])
    case.known("sizes")
    w, weights = value(case, [out * groups, into] + kernel, constant=0.7)
    x, given = value(case, [case.integer(1, 2), into * groups] + image)
    bias, b = value(case, [out * groups], constant=0.7)
    operands = [x, w, bias if case.chance(0.8) else ""]
    shape = list(convolution(given, weights, None, attributes, groups).shape)
    if case.chance(0.4):
        operands.append(value(case, shape)[0])
    activation = case.choice(["Relu", "LeakyRelu", "Tanh", "Sigmoid", "Clip", "HardSigmoid"])
    params = {"LeakyRelu": [0.25], "Clip": [-1.0, 2.5], "HardSigmoid": [0.2, 0.4]}.get(activation)
    case.output(node(case, "FusedConv", operands, group=groups, kernel_shape=kernel, activation=activation, activation_params=params,
                     **attributes), "f32")
    case.sums(into * math.prod(kernel), 8)


@contrib("NhwcConv")
def nhwc_conv(case):
    image = [min(size, 9) for size in image_of(case, 2)]
    kernel, attributes = window(case, 2, image, 3)
    groups, into, out = case.choice([1, 1, 2]), case.choice([1, 3, 8]), case.choice([1, 3, 8])
    case.known("sizes")
    (w, weights), (x, given) = value(case, [out * groups, into] + kernel, constant=0.7), value(case, [case.integer(1, 2)] + image + [into * groups])
    bias, b = value(case, [out * groups], constant=0.7)
    y = convolution(given.transpose(0, 3, 1, 2), weights, b, attributes, groups).transpose(0, 2, 3, 1)
    operands, name = [x, w, bias], case.choice(["NhwcConv", "NhwcFusedConv"])
    if name == "NhwcFusedConv":
        attributes["activation"] = "Relu"
        if case.chance(0.5):
            z, residual = value(case, list(y.shape))
            operands, y = operands + [z], y + residual
        y = np.maximum(y, 0)
    case.output(node(case, name, operands, group=groups, kernel_shape=kernel, **attributes), "f32", y)
    case.sums(into * math.prod(kernel), 8)


@contrib("NchwcConv", weight=2)
def nchwc_conv(case):
    """In blocks of 8 channels, whose weights the peer would take for blocks of 16 on some processors: NumPy decides."""
    domain = "com.microsoft.nchwc"
    case.domains[domain] = 1
    case.without_peer()
    image = [min(size, 9) for size in image_of(case, 2)]
    kernel, attributes = window(case, 2, image, 3)
    out, into = case.choice([8, 24, 40]), case.choice([1, 3, 8, 16, 24])
    given = into - case.choice([0, 0, 3]) if into >= 8 else into
    kept = out - case.choice([0, 1, 5])
    depthwise = into == 1 and case.chance(0.5)
    channels = out if depthwise else given
    case.known("sizes")
    x, a = value(case, [case.integer(1, 2), channels] + image)
    w = case.values([out, into] + kernel, "f32")
    w[:, given:] = 0
    blocks = w.reshape([out // 8, 8] + ([into // 8, 8] if into >= 8 else [into]) + kernel)
    blocks = blocks.transpose([0, 2, 4, 5, 3, 1] if into >= 8 else [0, 2, 3, 4, 1])
    bias, b = value(case, [out], constant=1)
    y = convolution(a, w[:, :given], b, attributes, out if depthwise else 1)
    reordered = case.node("ReorderInput", [x], domain=domain) if into >= 8 or depthwise else x
    operands = [reordered, case.constant(np.ascontiguousarray(blocks).reshape(w.shape), "f32"), bias]
    if case.chance(0.4):
        z, residual = value(case, list(y.shape))
        operands, y = operands + [z], y + residual
    result = case.node("Conv", operands, domain=domain, kernel_shape=kernel, group=out if depthwise else 1, activation="Relu", **attributes)
    last = case.choice([0, 1])
    result = case.node("ReorderOutput", [result], domain=domain, channels=kept, channels_last=last)
    y = np.maximum(y, 0)[:, :kept]
    case.output(result, "f32", y.transpose(0, 2, 3, 1) if last else y)
    case.sums(into * math.prod(kernel), 8)


@contrib("MoE", weight=2)
def mixture(case):
    tokens, hidden, inner, experts = case.choice([1, 3, 8]), case.choice([4, 8, 16]), case.choice([4, 8, 12]), case.choice([2, 4, 5])
    kind = case.choice(["relu", "gelu", "silu", "identity", "swiglu"])
    case.known("sizes")
    wide = 2 if kind == "swiglu" else 1
    x = value(case, case.choice([[tokens, hidden], [1, tokens, hidden]]))[0]
    operands = [x, value(case, [tokens, experts])[0], value(case, [experts, wide * inner, hidden], low=-1, high=1)[0],
                value(case, [experts, wide * inner])[0] if case.chance(0.6) else "", value(case, [experts, hidden, inner], low=-1, high=1)[0],
                value(case, [experts, hidden])[0] if case.chance(0.6) else ""]
    case.output(node(case, "MoE", operands, k=case.integer(1, 2), activation_type=kind, normalize_routing_weights=case.choice([0, 1]),
                     swiglu_fusion=1 if wide == 2 else None, swiglu_limit=case.choice([None, 1.5]) if wide == 2 else None,
                     activation_alpha=case.choice([None, 1.702]) if wide == 2 else None,
                     activation_beta=case.choice([None, 1.0]) if wide == 2 else None), "f32")
    case.within(1e-4, 2e-4)


# ---- Data ----


@contrib("CDist")
def cdist(case):
    m, k, n = case.choice([1, 3, 17]), case.choice([1, 3, 17]), case.choice([1, 2, 8, 33])
    kind = case.choice(["f32", "f64"])
    case.output(node(case, "CDist", [value(case, [m, n], kind)[0], value(case, [k, n], kind)[0]],
                     metric=case.choice(["euclidean", "sqeuclidean"])), kind)
    case.within(1e-4 if kind == "f32" else 1e-9, 1e-3 if kind == "f32" else 1e-9)


@contrib("ComplexMul")
def complex_mul(case):
    shape = case.shape(low=1, high=3, zero=0) + [2]
    (x, a), (y, b) = value(case, shape), value(case, shape)
    name = case.choice(["ComplexMul", "ComplexMulConj"])
    a, b = a[..., 0] + 1j * a[..., 1], b[..., 0] + 1j * b[..., 1]
    z = a * (b if name == "ComplexMul" else b.conj())
    case.output(node(case, name, [x, y]), "f32", np.stack([z.real, z.imag], -1))
    case.within(1e-5, 2e-6)


@contrib("Rfft")
def rfft(case):
    length = 2 * case.choice([1, 2, 3, 4, 8, 10, 33])
    shape = case.shape(high=2, zero=0, limit=50)
    x, given = value(case, shape + [length])
    case.known("sizes")
    spectrum = np.fft.rfft(given.astype(float))
    both = np.stack([spectrum.real, spectrum.imag], -1)
    if case.chance(0.5):
        case.output(node(case, "Rfft", [x], signal_ndim=1, normalized=0, onesided=1), "f32", both)
    else:
        back = case.feed(both.astype(np.float32), "f32")
        case.output(node(case, "Irfft", [back], signal_ndim=1, normalized=0, onesided=1), "f32", given)
    case.within(1e-4, 2e-4)


@contrib("Inverse", weight=2)
def inverse(case):
    size, kind = case.choice([1, 2, 3, 5, 8, 16]), case.choice(["f32", "f64"])
    shape = case.shape(high=2, zero=0, limit=6)
    x = case.values(shape + [size, size], kind) + np.eye(size, dtype=np.float32 if kind == "f32" else np.float64) * case.choice([0.0, 3.0])
    # Far enough from one that has no inverse.
    x = np.where((abs(np.linalg.det(x.astype(float))) > 0.1)[..., None, None], x, np.eye(size) * 2).astype(x.dtype)
    case.output(node(case, "Inverse", [case.feed(x, kind)]), kind)
    worst = float(np.linalg.cond(x.astype(float)).max()) * float(abs(np.linalg.inv(x.astype(float))).max())
    case.within(1e-4 if kind == "f32" else 1e-9, worst * (2e-6 if kind == "f32" else 1e-13) + 1e-12)


@contrib("MurmurHash3")
def murmur_hash(case):
    kind = case.choice(["i32", "u32", "f32", "i64", "u64", "f64"])
    x = case.values(case.shape(zero=0), kind, -1e6, 1e6) if kind[0] == "f" else case.ints(case.shape(zero=0), kind, -10 ** 9, 10 ** 9)
    positive = case.choice([None, 0, 1])
    case.output(node(case, "MurmurHash3", [case.feed(x, kind)], positive=positive, seed=case.choice([None, 7, 2 ** 31])),
                "i32" if positive == 0 else "u32")


@contrib("ExpandDims")
def expand_dims(case):
    shape = case.shape(high=3)
    axis = case.integer(-len(shape) - 1, len(shape))
    case.known("rank")
    case.output(node(case, "ExpandDims", [value(case, shape)[0], case.constant(np.array(axis, np.int32), "i32")]), "f32")


@contrib("Trilu")
def trilu(case):
    x = value(case, case.shape(rank=case.integer(2, 4)))[0]
    operands = [x] + ([case.feed(np.array(case.integer(-3, 3), np.int64), "i64", 0.6)] if case.chance(0.6) else [])
    case.output(node(case, "Trilu", operands, upper=case.choice([None, 0, 1])), "f32")


@contrib("Unique")
def unique(case):
    x = case.feed(np.asarray(case.ints([case.choice([1, 2, 9, 40])], "i64", 0, 9), np.float32), "f32")
    results = node(case, "Unique", [x], 3)
    for name, kind in zip(results, ("f32", "i64", "i64")):
        case.output(name, kind)


@contrib("Range")
def range_(case):
    kind = case.choice(["f32", "i32", "i64", "f64"])
    low, step = case.integer(-5, 5), case.choice([1, 2, -1])

    def number(x):
        return case.feed(np.array(x, {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}[kind]).reshape(case.choice([[], [1]])), kind, 0.5)

    operands = [number(low), number(low + step * case.integer(0, 9))] + ([number(step)] if step != 1 or case.chance(0.5) else [])
    case.output(node(case, "Range", operands), kind)


@contrib("Pad")
def pad(case):
    shape = case.shape(low=1, high=3, zero=0)
    mode = case.choice(["constant", "reflect", "edge"])
    pads = [case.integer(0, min(2, size - 1) if mode == "reflect" else 2) for size in shape * 2]
    listed = np.array(pads, np.int64)
    operands = [value(case, shape)[0], case.feed(listed.reshape(case.choice([[-1], [1, -1]])), "i64", 0.7)]
    if mode == "constant" and case.chance(0.5):
        operands.append(case.feed(case.values(case.choice([[], [1]]), "f32"), "f32", 0.5))
    case.output(node(case, "Pad", operands, mode=mode), "f32")


@contrib("SampleOp")
def sample(case):
    case.output(node(case, "SampleOp", [value(case, case.shape(zero=0))[0]]), "f32")


@contrib("GatherND")
def gather_nd(case):
    shape = case.shape(low=1, high=3, zero=0)
    depth = case.integer(1, len(shape))
    count = case.shape(high=2, zero=0, limit=10)
    indices = np.stack([case.ints(count, "i64", 0, size - 1) for size in shape[:depth]], -1)
    case.output(node(case, "GatherND", [value(case, shape)[0], case.feed(indices, "i64")]), "f32")


@contrib("GridSample")
def grid_sample(case):
    x, given = value(case, [case.integer(1, 2), case.choice([1, 3]), case.choice([1, 4, 9]), case.choice([1, 5, 8])])
    grid = case.values([len(given), case.choice([1, 3]), case.choice([2, 5]), 2], "f32", -1.3, 1.3)
    mode = case.choice(["bilinear", "bicubic"])  # the peer takes the border of cubics for another
    case.output(node(case, "GridSample", [x, case.feed(grid, "f32")], mode=mode,
                     padding_mode=case.choice(["zeros", "reflection"] + ["border"] * (mode == "bilinear")), align_corners=case.choice([0, 1])), "f32")
    case.within(1e-3, 1e-3)


@contrib("CropAndResize", weight=2)
def crop_and_resize(case):
    images, boxes = case.integer(1, 3), case.integer(1, 4)
    x = value(case, [images, case.choice([1, 3]), case.choice([2, 5, 9]), case.choice([2, 4, 8])])[0]
    places = case.values([boxes, 4], "f32", -0.2, 1.2) if case.chance(0.4) else case.values([boxes, 4], "f32", 0.01, 0.98)
    operands = [x, case.feed(places, "f32"), case.feed(case.ints([boxes], "i32", 0, images - 1), "i32"),
                case.constant(np.array([case.integer(1, 5), case.integer(1, 5)], np.int32), "i32")]
    case.output(node(case, "CropAndResize", operands, mode=case.choice([None, "bilinear"]), extrapolation_value=case.choice([None, -3.0])), "f32")
    case.within(1e-3, 1e-3)


@contrib("WordConvEmbedding")
def word_conv_embedding(case):
    words, letters, size = case.integer(1, 5), case.choice([3, 6, 9]), case.choice([2, 5, 8])
    filters, width = case.choice([1, 4, 7]), case.integer(1, 3)
    sequence = case.ints([words, letters], "i32", 1, 9)
    for word in sequence:
        word[case.integer(1, letters):] = 0
    case.known("sizes")
    operands = [case.feed(sequence, "i32", 0), value(case, [filters, 1, width, size])[0], value(case, [filters])[0], value(case, [10, size])[0]]
    case.output(node(case, "WordConvEmbedding", operands, embedding_size=filters, conv_window_size=width, char_embedding_size=size), "f32")
    case.sums(size * width, 4)


@contrib("RelativePositionBias")
def relative_position_bias(case):
    heads, buckets, most, length = case.choice([1, 2, 4]), case.choice([8, 16, 32]), case.choice([20, 128]), case.choice([1, 4, 9])
    both = case.choice([0, 1])
    table, given = value(case, [buckets, heads])
    case.known("sizes")
    behind = np.arange(length)[:, None] - np.arange(length)
    per_side, first = (buckets // 2, np.where(behind < 0, buckets // 2, 0)) if both else (buckets, 0)
    behind = np.abs(behind) if both else np.maximum(behind, 0)
    exact = per_side // 2
    far = exact + (np.log(np.maximum(behind, exact) / exact) / math.log(most / exact) * (per_side - exact)).astype(int)
    bucket = first + np.where(behind < exact, behind, np.minimum(far, per_side - 1))
    size = [case.feed(np.array([length], np.int64), "i64", 0.5) for _ in range(2)]
    case.output(node(case, "RelativePositionBias", [table] + size, max_distance=most, is_bidirectional=both), "f32",
                given[bucket].transpose(2, 0, 1)[None])


@contrib("GatedRelativePositionBias")
def gated_relative_position_bias(case):
    batch, length, heads, size, width = case.integer(1, 2), case.choice([1, 3, 5]), case.choice([1, 2, 4]), case.choice([2, 4]), 2 * case.integer(1, 4)
    case.known("sizes")
    (q, a), (qb, b), (position, p) = value(case, [batch, length, heads * size]), value(case, [heads * size]), value(case, [1, heads, length, length])
    (w, m), (wb, c), (eco, e) = value(case, [size, width]), value(case, [width]), value(case, [1, heads, 1, 1])
    layer = (a.astype(float) + b).reshape(batch, length, heads, size).transpose(0, 2, 1, 3) @ m.astype(float) + c
    gates = sigmoid(layer.reshape(batch, heads, length, 2, width // 2).sum(-1))
    gate = gates[..., :1] * (gates[..., 1:] * e - 1) + 2
    case.output(node(case, "GatedRelativePositionBias", [q, qb, position, w, wb, eco], num_heads=heads), "f32", gate * p)
    case.within(1e-4, 1e-4)

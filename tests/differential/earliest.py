"""Operators as they were before opset 7, which the peer does not promise to know; NumPy is the judge."""
import math

import numpy as np

from case import FLOATS, KINDS
from elementwise import ACTIVATIONS, UNARY
from neural import convolution, image_of, window
from table import operator

FIRST = ("Abs", "Ceil", "Exp", "Floor", "Log", "Neg", "Not", "Reciprocal", "Relu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Tanh")


def early(name, since=1, until=6, weight=1):
    """An entry whose references decide."""

    def register(function):
        def draw(case):
            case.without_peer()
            function(case)

        operator(name, since, until, weight)(draw)
        return function

    return register


def declare_unary(name):
    _, _, low, high, _, reference = UNARY[name]

    @early(name)
    def draw(case):
        kind = "bool" if name == "Not" else case.kind(FLOATS)
        x = case.values(case.shape(), kind, max(low, -8), min(high, 8))
        case.output(case.node(name, [case.feed(x, kind)]), kind, reference(x))


def declare_activation(name):
    _, bounds, reference = ACTIVATIONS[name]

    @early(name, 6 if name == "Selu" else 1)  # whose constants were rounded more before
    def draw(case):
        kind = case.kind(FLOATS)
        x = case.values(case.shape(), kind, -5, 5)
        given = case.opset >= 6 and case.chance(0.5)
        attributes = {key: case.real(*value) for key, value in bounds.items()} if given or case.opset < 6 else {}
        case.output(case.node(name, [case.feed(x, kind)], **attributes), kind, reference(x.astype(float), **attributes))
        case.within(*{"f16": (1e-2, 5e-3)}.get(kind, (1e-5, 1e-6)))


for _name in FIRST:
    declare_unary(_name)
for _name in ("Elu", "HardSigmoid", "LeakyRelu", "Selu"):
    declare_activation(_name)


# ---- Broadcasting that is announced, from an axis on ----

PAIRS = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power, "And": np.logical_and,
         "Or": np.logical_or, "Xor": np.logical_xor, "Equal": np.equal, "Less": np.less, "Greater": np.greater}


def announced(case, shape):
    """A shape that is broadcast to `shape`, what it is for NumPy, and the attributes that say so."""
    if case.chance(0.3):
        return shape, shape, {}
    begin = case.integer(0, len(shape))
    end = case.integer(begin, len(shape))
    part = shape[begin:end]
    attributes = {"broadcast": 1}
    if part and (end != len(shape) or case.chance(0.4)):
        attributes["axis"] = begin
    elif part:
        begin = len(shape) - len(part)
    return part, part + [1] * (len(shape) - begin - len(part)), attributes


def declare_pair(name, function):
    @early(name, weight=2 if name in ("Add", "Mul") else 1)
    def draw(case):
        kind = "bool" if name in ("And", "Or", "Xor") else case.choice(["i32", "i64"]) if name == "Equal" else case.kind(FLOATS)
        shape = case.shape(limit=700, zero=0)
        part, wide, attributes = announced(case, shape)
        low = 0.5 if name in ("Div", "Pow") else -3
        x, y = case.values(shape, kind, low, 3), case.values(part, kind, low, 3)
        if name == "Equal":
            x, y = x // 10, y // 10
        case.known("rank")
        z = case.node(name, [case.feed(x, kind), case.feed(y, kind)], **attributes)
        expected = function(x.astype(float) if kind in FLOATS else x, (y.astype(float) if kind in FLOATS else y).reshape(wide))
        case.output(z, kind if name in ("Add", "Sub", "Mul", "Div", "Pow") else "bool", expected)
        case.within(*{"f16": (1e-2, 1e-2), "f32": (1e-5, 1e-5), "f64": (1e-6, 1e-6)}.get(kind, (0, 0)))


for _name, _function in PAIRS.items():
    declare_pair(_name, _function)


@early("PRelu")
def prelu(case):
    shape = case.shape(low=2, limit=700, zero=0)
    slope = case.choice([[1], [shape[1]]])
    x, s = case.values(shape, "f32"), case.values(slope, "f32")
    case.known("rank")
    wide = s.reshape([-1] + [1] * (len(shape) - 2))
    case.output(case.node("PRelu", [case.feed(x, "f32"), case.feed(s, "f32")]), "f32", np.where(x < 0, wide * x, x))


def declare_variadic(name, function):
    @early(name)
    def draw(case):
        shape, count = case.shape(), case.integer(1, 4)
        arrays = [case.values(shape, "f32") for _ in range(count)]
        y = case.node(name, [case.feed(array, "f32") for array in arrays])
        case.output(y, "f32", function(np.array(arrays, float), axis=0))
        case.within(1e-5, 5e-6)


for _name, _function in {"Max": np.max, "Min": np.min, "Sum": np.sum, "Mean": np.mean}.items():
    declare_variadic(_name, _function)


# ---- Attributes that are operands today ----

@early("Clip")
def clip(case):
    kind = case.kind(["f32", "f16"])
    x, low, high = case.values(case.shape(), kind, -5, 5), case.real(-2, -1), case.real(0.5, 2)
    case.output(case.node("Clip", [case.feed(x, kind)], min=low, max=high), kind, np.clip(x.astype(float), low, high))


@early("Cast")
def cast(case):
    source, target = case.choice(["f32", "f64", "i32", "i64", "u8", "bool"]), case.choice(["f32", "f64", "i32", "i64", "u8", "bool"])
    x = case.values(case.shape(), source, 0, 9)
    to = KINDS[target][0]
    if case.opset < 6:
        to = {"f32": "FLOAT", "f64": "DOUBLE", "i32": "INT32", "i64": "INT64", "u8": "UINT8", "bool": "BOOL"}[target]
    expected = x != 0 if target == "bool" else x
    case.output(case.node("Cast", [case.feed(x, source)], to=to), target, expected)


@early("Concat", 1, 6)
def concat(case):
    shape = case.shape(low=2, limit=300, zero=0)
    axis = case.integer(0, len(shape) - 1)
    arrays = [case.values(shape[:axis] + [case.integer(1, 5)] + shape[axis + 1:], "f32") for _ in range(case.integer(1, 4))]
    named = None if axis == 1 and case.opset < 4 and case.chance(0.5) else axis
    case.output(case.node("Concat", [case.feed(array, "f32") for array in arrays], axis=named), "f32", np.concatenate(arrays, axis))


@early("Reshape", weight=2)
def reshape(case):
    shape = case.shape(low=1, limit=700, zero=0)
    at = case.integer(0, len(shape) - 1)
    target = case.choice([[-1], [0] * at + [-1], shape[:at] + [-1], [math.prod(shape)]])
    x = case.values(shape, "f32")
    operands = [case.feed(x, "f32")] + ([case.setting(target)] if case.opset >= 5 else [])
    dims = [shape[i] if size == 0 else size for i, size in enumerate(target)]
    case.output(case.node("Reshape", operands, shape=target if case.opset < 5 else None), "f32", x.reshape(dims))


@early("Pad", weight=2)
def pad(case):
    shape = case.shape(low=1, limit=300, zero=0)
    mode = case.choice(["constant", "constant", "edge", "reflect"])
    pads = [case.integer(0, min(3, size - 1) if mode == "reflect" else 3) for size in shape * 2]
    x, value = case.values(shape, "f32"), case.real(-1, 1)
    y = case.node("Pad", [case.feed(x, "f32")], mode=mode, value=value, **{"paddings" if case.opset < 2 else "pads": pads})
    wide = list(zip(pads[:len(shape)], pads[len(shape):]))
    case.output(y, "f32", np.pad(x, wide, mode, **({"constant_values": value} if mode == "constant" else {})))


@early("Split", weight=2)
def split(case):
    shape = case.shape(low=1, limit=300, zero=0)
    axis, size = case.integer(0, len(shape) - 1), case.integer(1, 4)
    shape[axis] = 2 * size
    x = case.values(shape, "f32")
    cut = case.integer(1, 2 * size - 1) if case.chance(0.6) else None
    operands, sizes = [case.feed(x, "f32")], None if cut is None else [cut, 2 * size - cut]
    if case.opset < 2 and sizes and case.chance(0.5):
        operands.append(case.constant(np.array(sizes, np.float32), "f32"))
        sizes = None
    names = case.node("Split", operands, 2, axis=axis, split=sizes)
    for name, part in zip(names, np.split(x, [cut or size], axis)):
        case.output(name, "f32", part)


@early("Tile", 1, 6, weight=2)
def tile(case):
    shape = case.shape(low=1, limit=100, zero=0)
    x = case.values(shape, "f32")
    if case.opset >= 6:
        repeats = [case.integer(1, 3) for _ in shape]
        operands = [case.setting(repeats)]
    else:
        axis, count = case.integer(0, len(shape) - 1), case.integer(1, 4)
        repeats = [count if at == axis else 1 for at in range(len(shape))]
        operands = [case.constant(np.array([item], np.float32), "f32") for item in (count, axis)]
        case.known("rank")
    case.output(case.node("Tile", [case.feed(x, "f32")] + operands), "f32", np.tile(x, repeats))


@early("TopK", 1, 9, weight=2)
def top_k(case):
    shape = case.shape(low=1, limit=300, zero=0)
    axis = case.integer(0, len(shape) - 1)
    x = case.numpy.permutation(math.prod(shape)).reshape(shape).astype(np.float32)
    count = case.integer(1, shape[axis])
    values, places = case.node("TopK", [case.feed(x, "f32")], 2, axis=axis, k=count)
    order = np.argsort(-x, axis, kind="stable").take(range(count), axis)
    case.output(values, "f32", np.take_along_axis(x, order, axis))
    case.output(places, "i64", order)


@early("Gemm", weight=3)
def gemm(case):
    m, k, n = (case.choice([1, 2, 3, 8, 9, 16, 17, 33]) for _ in range(3))
    turned = [case.choice([None, 0, 1]), case.choice([None, 0, 1])]
    a, b = case.values([k, m] if turned[0] else [m, k], "f32", -1, 1), case.values([n, k] if turned[1] else [k, n], "f32", -1, 1)
    alpha, beta = case.real(-2, 2), case.real(-2, 2)
    dims = case.choice([[m, n], [m, n], [n], [1, n], [1]])
    c = case.values(dims, "f32")
    y = case.node("Gemm", [case.feed(a, "f32"), case.feed(b, "f32", 0.6), case.feed(c, "f32", 0.6)], alpha=alpha, beta=beta,
                  transA=turned[0], transB=turned[1], broadcast=None if dims == [m, n] else 1)
    product = (a.T if turned[0] else a).astype(float) @ (b.T if turned[1] else b).astype(float)
    case.output(y, "f32", alpha * product + beta * c)
    case.sums(k, 2)


@early("Conv", weight=2)
def conv(case):
    rank = case.choice([1, 2, 2, 3])
    image = [min(size, 17) for size in image_of(case, rank)]
    kernel, attributes = window(case, rank, image, 3)
    groups, into, out = case.choice([1, 1, 2]), case.choice([1, 3, 8, 16]), case.choice([1, 3, 8, 16])
    x, w = case.values([case.integer(1, 2), into * groups] + image, "f32", -1, 1), case.values([out * groups, into] + kernel, "f32", -1, 1)
    y = case.node("Conv", [case.feed(x, "f32"), case.feed(w, "f32", 0.7)], group=groups, kernel_shape=kernel, **attributes)
    case.output(y, "f32", convolution(x, w, None, attributes, groups))
    case.sums(into * math.prod(kernel))
    case.within(2e-5, max(2e-5, case.tolerance[1] * 2))


@early("BatchNormalization", weight=2)
def batch_normalization(case):
    shape = case.shape(low=2, limit=700, zero=0)
    x = case.values(shape, "f32")
    scale, bias, mean = (case.values([shape[1]], "f32") for _ in range(3))
    variance = case.values([shape[1]], "f32", 0.3, 2)
    y = case.node("BatchNormalization", [case.feed(x, "f32")] + [case.feed(item, "f32", 0.6) for item in (scale, bias, mean, variance)],
                  is_test=1, epsilon=1e-3)
    dims = [-1] + [1] * (len(shape) - 2)
    expected = (x.astype(float) - mean.reshape(dims)) / np.sqrt(variance.reshape(dims) + 1e-3) * scale.reshape(dims) + bias.reshape(dims)
    case.output(y, "f32", expected)
    case.within(1e-5, 1e-5)


@early("Dropout")
def dropout(case):
    x = case.values(case.shape(), "f32")
    case.output(case.node("Dropout", [case.feed(x, "f32")], is_test=1, ratio=0.3), "f32", x)


@early("Softmax")
def softmax(case, name="Softmax"):
    shape = case.shape(low=1, limit=700, zero=0)
    axis = case.choice([None] * (len(shape) > 1) + list(range(len(shape))))
    rows = case.values(shape, "f32", -3, 3)
    x = rows.astype(float).reshape(math.prod(shape[:1 if axis is None else axis]), -1)
    y = x - np.log(np.exp(x).sum(1, keepdims=True))
    case.output(case.node(name, [case.feed(rows, "f32")], axis=axis), "f32", (y if name == "LogSoftmax" else np.exp(y)).reshape(shape))
    case.within(1e-5, 5e-6)


@early("LogSoftmax")
def log_softmax(case):
    softmax(case, "LogSoftmax")


def declare_reduction(name, function):
    @early(name)
    def draw(case):
        shape = case.shape(low=1, limit=700, zero=0)
        axes = sorted(axis % len(shape) for axis in case.axes(len(shape)))
        axes, keep = case.choice([axes, None]), case.choice([None, 0, 1])
        x = case.values(shape, "f32")
        y = case.node(name, [case.feed(x, "f32")], axes=axes, keepdims=keep)
        case.output(y, "f32", function(x.astype(float), axis=tuple(axes) if axes else None, keepdims=keep != 0))
        case.sums(x.size, 2)


for _name, _function in {"ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min}.items():
    declare_reduction(_name, _function)


@early("Transpose")
def transpose(case):
    kind = case.choice(["f32", "f64", "i32", "i64", "u8", "bool"])
    x = case.values(case.shape(), kind)
    order = case.random.sample(range(x.ndim), x.ndim) if x.ndim and case.chance(0.7) else None
    case.output(case.node("Transpose", [case.feed(x, kind)], perm=order), kind, x.transpose(order))


@early("Slice")
def slice_(case):
    shape = case.shape(low=1, limit=300, zero=0)
    axes = sorted(case.random.sample(range(len(shape)), case.integer(1, len(shape))))
    begins = [case.integer(-shape[axis], shape[axis] - 1) for axis in axes]
    ends = [case.integer(-shape[axis], shape[axis] + 3) for axis in axes]
    x, index = case.values(shape, "f32"), [slice(None)] * len(shape)
    for axis, begin, end in zip(axes, begins, ends):
        index[axis] = slice(begin, end)
    case.output(case.node("Slice", [case.feed(x, "f32")], axes=axes, starts=begins, ends=ends), "f32", x[tuple(index)])

"""Rows of Chainer: chainer.functions, variables, and the links whose source does not say what they compute."""

from __future__ import annotations

import math
import sys
from typing import Any

from ..core import FALSE, NONE, TRUE
from ..values import Array, Const, Reference, Sequence, Slice, Tuple, Value
from . import ATTRIBUTES, CONTEXTS, METHODS, attributes, functions, methods, modules
from . import numpy as numpy_rows
from . import numpy_selection
from .numpy import clamped, hstacked, split_bounds, vstacked
from .shared import axes_of, concat, expanded, extreme_index, is_none, moved, numbers, padded, pieces, reduce, reshape, shape_view, squeezed, stack, transpose

M = Any
C = "chainer"
F = "chainer.functions."
L = "chainer.links."

CONTEXTS.update(
    {
        "chainer.no_backprop_mode": "nothing", "chainer.force_backprop_mode": "nothing", "chainer.using_device": "nothing",
        "chainer_compiler.elichika.parser.flags.ignore_branch": "skip", "chainer_compiler.elichika.parser.flags.for_unroll": "unroll",
    }
)  # fmt: skip


def _array(m: M, value: Value) -> Array:
    value = m.settle(value)
    if isinstance(value, Array):
        return value if value.library == C else Array(value.storage, C, value.view)
    return m.array(m.tensor(value), C)


def _own(m: M, value: Value) -> Value:
    """Return a result of a row that another library shares, as a variable."""
    if isinstance(value, Array):
        return Array(value.storage, C, value.view)
    if isinstance(value, Tuple):
        return Tuple(tuple(_own(m, item) for item in value.items), value.cls)
    return value


def _relabeled(row: Any) -> Any:
    def own(m: M, *values: Value, **named: Value) -> Value:
        return _own(m, m.call_row(row, list(values), named))

    own.__name__ = row.__name__
    return own


# A variable has the methods and attributes of an array.
for _table in (METHODS, ATTRIBUTES):
    for _name, _shared in _table["numpy"].items():
        if _name in ("reshape", "transpose", "sum", "mean", "T", "shape", "ndim", "size", "dtype", "item", "ravel", "flatten", "squeeze"):
            _table.setdefault(C, {})[_name] = _shared if _name in ("shape", "ndim", "size", "dtype", "item") else _relabeled(_shared)


@attributes(C, "array", "data", "raw_array")
def array(m: M, a: Array) -> Value:
    return Array(a.storage, "numpy", a.view)


attributes(C, "xp")(lambda m, a: Const(sys.modules["numpy"]))
attributes(C, "grad", "layout", "name")(lambda m, a: NONE)
attributes(C, "is_initialized")(lambda m, a: TRUE)
attributes(C, "requires_grad")(lambda m, a: TRUE)
methods(C, "unchain", "unchain_backward", "retain_data", "cleargrad", "to_cpu")(lambda m, a: NONE)
methods(C, "__len__")(lambda m, a: m.length(a))


@functions("chainer.Variable", "chainer.as_variable", "chainer.variable.Variable")
def variable(m: M, data: Value = NONE, *, name: Value = NONE, requires_grad: Value = TRUE, **options: Value) -> Value:
    return _array(m, data)


functions("chainer.backends.cuda.to_cpu", "chainer.cuda.to_cpu")(lambda m, array, stream=NONE: m.settle(array))
functions("chainer.backends.cuda.get_array_module", "chainer.cuda.get_array_module", "chainer.backend.get_array_module")(
    lambda m, *values: Const(sys.modules["numpy"])
)


@functions("chainer.should_use_chainerx", "chainer.is_arrays_compatible")
def _compatible(m: M, *values: Value) -> Value:
    return FALSE


def training() -> bool:
    """Tell whether Chainer is configured for training."""
    return bool(sys.modules["chainer"].config.train)


# ---- Activations and element-wise functions ----

for _names, _op in {
    "sigmoid": "Sigmoid", "tanh": "Tanh", "sin": "Sin", "sinh": "Sinh", "cos": "Cos", "cosh": "Cosh", "tan": "Tan", "arcsin": "Asin",
    "arccos": "Acos", "arctan": "Atan", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "erf": "Erf", "ceil": "Ceil", "floor": "Floor",
    "absolute": "Abs", "sign": "Sign", "relu": "Relu",
}.items():  # fmt: skip

    def _unary(m: M, x: Value, _op: str = _op) -> Value:
        return m.array(m.op(_op, m.tensor(x)), C)

    functions(F + _names)(_unary)


@functions(F + "fix")
def fix(m: M, x: Value) -> Value:
    at = m.tensor(x)
    return m.array(m.op("Mul", m.op("Sign", at), m.op("Floor", m.op("Abs", at))), C)


functions(F + "square")(lambda m, x: m.binary("*", _array(m, x), x))
functions(F + "rsqrt")(lambda m, x: m.array(m.op("Reciprocal", m.op("Sqrt", m.tensor(x))), C))
functions(F + "log1p")(lambda m, x: m.array(m.op("Log", m.read_array(m.binary("+", _array(m, x), Const(1.0)))), C))
functions(F + "expm1")(lambda m, x: m.binary("-", m.array(m.op("Exp", m.tensor(x)), C), Const(1.0)))
functions(F + "log2")(lambda m, x: m.binary("*", m.array(m.op("Log", m.tensor(x)), C), Const(1 / math.log(2))))
functions(F + "log10")(lambda m, x: m.binary("*", m.array(m.op("Log", m.tensor(x)), C), Const(1 / math.log(10))))
functions(F + "identity", F + "copy")(lambda m, x, *rest: _array(m, x))
functions(F + "fmod")(lambda m, x, divisor: m.array(m.op("Mod", *m.matched([_array(m, x), m.operand(divisor, C)], C), fmod=1), C))


@functions(F + "clipped_relu")
def clipped_relu(m: M, x: Value, z: Value = Const(20.0)) -> Value:
    return _own(m, clamped(m, _array(m, x), Const(0), z))


functions(F + "relu6")(lambda m, x: clipped_relu(m, x, Const(6.0)))


@functions(F + "leaky_relu")
def leaky_relu(m: M, x: Value, slope: Value = Const(0.2)) -> Value:
    return m.array(m.op("LeakyRelu", m.tensor(x), alpha=float(m.constant_of(slope, "slope"))), C)


@functions(F + "elu")
def elu(m: M, x: Value, alpha: Value = Const(1.0)) -> Value:
    return m.array(m.op("Elu", m.tensor(x), alpha=float(m.constant_of(alpha, "alpha"))), C)


@functions(F + "selu")
def selu(m: M, x: Value, alpha: Value = Const(1.6732632423543772), scale: Value = Const(1.0507009873554805)) -> Value:
    return m.array(m.op("Selu", m.tensor(x), alpha=float(m.constant_of(alpha, "alpha")), gamma=float(m.constant_of(scale, "scale"))), C)


@functions(F + "hard_sigmoid")
def hard_sigmoid(m: M, x: Value) -> Value:
    return m.array(m.op("HardSigmoid", m.tensor(x), alpha=0.2, beta=0.5), C)


@functions(F + "softplus")
def softplus(m: M, x: Value, beta: Value = Const(1.0)) -> Value:
    at, number = m.tensor(x), float(m.constant_of(beta, "beta"))
    if number == 1:
        return m.array(m.op("Softplus", at), C)
    scale = m.constant(number, at.type.dtype)
    return m.array(m.op("Div", m.op("Softplus", m.op("Mul", at, scale)), scale), C)


@functions(F + "swish")
def swish(m: M, x: Value, beta: Value) -> Value:
    scaled = m.binary("*", m.operand(beta, C), _array(m, x))
    return m.binary("*", _array(m, x), m.array(m.op("Sigmoid", m.read_array(scaled)), C))


@functions(F + "prelu")
def prelu(m: M, x: Value, W: Value) -> Value:
    at, slope = m.tensor(x), m.tensor(W)
    rest = m.rank(at) - 1 - m.rank(slope)
    if rest and m.rank(slope):
        slope = m.op("Unsqueeze", slope, m.ints([m.rank(slope) + i for i in range(rest)]))
    return m.array(m.op("PRelu", at, slope), C)


for _name, _op in {"softmax": "Softmax", "log_softmax": "LogSoftmax"}.items():

    def _soft(m: M, x: Value, axis: Value = Const(1), _op: str = _op) -> Value:
        at = m.tensor(x)
        return m.array(m.op(_op, at, axis=m.axis(axis, m.rank(at))), C)

    functions(F + _name)(_soft)


@functions(F + "clip")
def clip(m: M, x: Value, x_min: Value, x_max: Value) -> Value:
    return _own(m, clamped(m, _array(m, x), x_min, x_max))


def _several(op: str) -> Any:
    def row(m: M, *xs: Value) -> Value:
        return m.array(m.op(op, *m.matched([m.operand(x, C) for x in xs], C)), C)

    row.__name__ = op.lower()
    return row


functions(F + "maximum")(_several("Max"))
functions(F + "minimum")(_several("Min"))


@functions(F + "add")
def add(m: M, *xs: Value) -> Value:
    total: Value = _array(m, xs[0])
    for x in xs[1:]:
        total = m.binary("+", total, x)
    return total


@functions(F + "squared_difference")
def squared_difference(m: M, x1: Value, x2: Value) -> Value:
    rest = m.binary("-", _array(m, x1), x2)
    return m.binary("*", rest, rest)


functions(F + "squared_error")(squared_difference)
functions(F + "absolute_error")(lambda m, x0, x1: m.array(m.op("Abs", m.tensor(m.binary("-", _array(m, x0), x1))), C))

# ---- Reductions ----


def _reduced(op: str) -> Any:
    def row(m: M, x: Value, axis: Value = NONE, keepdims: Value = FALSE) -> Value:
        return m.array(reduce(m, op, m.tensor(x), axis, keepdims), C)

    row.__name__ = op
    return row


for _names, _op in {"sum": "ReduceSum", "prod": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}.items():
    functions(F + _names)(_reduced(_op))
functions(F + "logsumexp")(lambda m, x, axis=NONE: m.array(reduce(m, "ReduceLogSumExp", m.tensor(x), axis, FALSE), C))


@functions(F + "average", F + "mean")
def average(m: M, x: Value, axis: Value = NONE, weights: Value = NONE, keepdims: Value = FALSE) -> Value:
    if is_none(m.settle(weights)):
        return m.array(reduce(m, "ReduceMean", m.tensor(x), axis, keepdims), C)
    at, w = m.tensor(x), m.tensor(weights)
    axes = axes_of(m, axis, m.rank(at))
    if axes is not None and m.rank(w) != m.rank(at):
        dims = [m.dimension(at, axis) if axis in axes else Const(1) for axis in range(m.rank(at))]
        w = m.reshape(w, dims)
    w = m.op("Expand", w, m.op("Shape", at))
    total = reduce(m, "ReduceSum", m.op("Mul", at, w), axis, keepdims)
    return m.array(m.op("Div", total, reduce(m, "ReduceSum", w, axis, keepdims)), C)


for _name, _op in {"argmax": "ArgMax", "argmin": "ArgMin"}.items():

    def _indexed(m: M, x: Value, axis: Value = NONE, _op: str = _op) -> Value:
        # Chainer returns indices of 32 bits.
        return m.array(m.cast(extreme_index(m, _op, m.tensor(x), axis, FALSE), "i32"), C)

    functions(F + _name)(_indexed)


for _name, _op in {"cumsum": "CumSum", "cumprod": "CumProd"}.items():

    def _cumulative(m: M, x: Value, axis: Value = NONE, _op: str = _op) -> Value:
        at = m.tensor(x)
        if is_none(m.settle(axis)):
            at, axis = m.op("Reshape", at, m.ints([-1])), Const(0)
        return m.array(m.op(_op, at, m.constant(m.axis(axis, m.rank(at)), "i64")), C)

    functions(F + _name)(_cumulative)


@functions(F + "normalize")
def normalize(m: M, x: Value, eps: Value = Const(1e-5), axis: Value = Const(1)) -> Value:
    length = m.array(reduce(m, "ReduceL2", m.tensor(x), axis, TRUE), C)
    return m.binary("/", _array(m, x), m.binary("+", length, eps))


@functions(F + "matmul")
def matmul(m: M, a: Value, b: Value, transa: Value = FALSE, transb: Value = FALSE) -> Value:
    parts = []
    for value, flag in ((a, transa), (b, transb)):
        at = m.tensor(value)
        if m.constant_of(flag, "flag") and m.rank(at) > 1:
            order = list(range(m.rank(at)))
            order[-1], order[-2] = order[-2], order[-1]
            at = m.op("Transpose", at, perm=order)
        parts.append(m.array(at, C))
    return m.array_binary("@", *parts)


@functions(F + "batch_matmul")
def batch_matmul(m: M, a: Value, b: Value, transa: Value = FALSE, transb: Value = FALSE) -> Value:
    parts: list[Value] = []
    for value in (a, b):
        at = m.tensor(value)
        parts.append(m.array(m.op("Unsqueeze", at, m.ints([2])) if m.rank(at) == 2 else at, C))
    return matmul(m, *parts, transa, transb)


def _spread(m: M, x: Value, y: Value, axis: Value) -> Value:
    """Return y shaped to be added to x from an axis on."""
    at, own = m.tensor(x), m.tensor(y)
    first = m.axis(axis, m.rank(at))
    rest = m.rank(at) - first - m.rank(own)
    return m.array(m.op("Unsqueeze", own, m.ints([m.rank(own) + i for i in range(rest)])) if rest else own, C)


functions(F + "bias")(lambda m, x, y, axis=Const(1): m.binary("+", _array(m, x), _spread(m, x, y, axis)))
functions(F + "scale")(lambda m, x, y, axis=Const(1): m.binary("*", _array(m, x), _spread(m, x, y, axis)))

# ---- Shapes ----


@functions(F + "reshape")
def reshape_(m: M, x: Value, shape: Value) -> Value:
    return reshape(m, _array(m, x), m.size_list(shape))


@functions(F + "flatten")
def flatten(m: M, x: Value) -> Value:
    return reshape(m, _array(m, x), (Const(-1),))


@functions(F + "transpose")
def transpose_(m: M, x: Value, axes: Value = NONE) -> Value:
    return numpy_rows.ordered(m, _array(m, x), axes)


@functions(F + "swapaxes")
def swapaxes(m: M, x: Value, axis1: Value, axis2: Value) -> Value:
    return numpy_rows.swapaxes(m, _array(m, x), axis1, axis2)


@functions(F + "moveaxis")
def moveaxis(m: M, x: Value, source: Value, destination: Value) -> Value:
    return moved(m, _array(m, x), source, destination)


@functions(F + "rollaxis")
def rollaxis(m: M, x: Value, axis: Value, start: Value = Const(0)) -> Value:
    return numpy_selection.rollaxis(m, _array(m, x), axis, start)


@functions(F + "expand_dims")
def expand_dims(m: M, x: Value, axis: Value) -> Value:
    a = _array(m, x)
    position = m.axis(axis, m.rank(m.read_array(a)) + 1)
    return shape_view(m, a, lambda base: m.op("Unsqueeze", base, m.ints([position])), lambda own: expanded(own, [position]))


@functions(F + "squeeze")
def squeeze(m: M, x: Value, axis: Value = NONE) -> Value:
    a = _array(m, x)
    axes = axes_of(m, axis, m.rank(m.read_array(a)))
    return shape_view(m, a, lambda base: m.op("Squeeze", base, m.ints(axes) if axes is not None else None), lambda own: squeezed(own, axes))


@functions(F + "broadcast_to")
def broadcast_to(m: M, x: Value, shape: Value) -> Value:
    a, sizes = _array(m, x), m.sizes(m.size_list(shape))
    return m.view(a, lambda base: m.op("Expand", base, sizes), None)


@functions(F + "broadcast")
def broadcast(m: M, *args: Value) -> Value:
    parts = [m.tensor(a) for a in args]
    shape = m.broadcast_shape(parts)
    return Tuple(tuple(m.array(m.op("Expand", p, shape), C) for p in parts))


@functions(F + "flip")
def flip(m: M, x: Value, axis: Value) -> Value:
    at = m.tensor(x)
    last = (1 << 63) - 1
    return m.array(m.op("Slice", at, m.ints([last]), m.ints([-last]), m.ints([m.axis(axis, m.rank(at))]), m.ints([-1])), C)


functions(F + "fliplr")(lambda m, a: flip(m, a, Const(1)))
functions(F + "flipud")(lambda m, a: flip(m, a, Const(0)))
functions(F + "tile")(lambda m, x, reps: _own(m, numpy_rows.tile(m, x, reps)))


@functions(F + "pad")
def pad(m: M, x: Value, pad_width: Value, mode: Value, constant_values: Value = Const(0), **options: Value) -> Value:
    return _own(m, numpy_rows.pad(m, x, pad_width, mode, constant_values))


functions(F + "where")(lambda m, condition, x, y: _own(m, numpy_rows.where(m, condition, _array(m, x), y)))
functions(F + "cast")(lambda m, x, typ: _own(m, numpy_rows.astype(m, _array(m, x), typ)))
functions(F + "get_item")(lambda m, x, slices: m.array_item(_array(m, x), slices))
functions(F + "concat")(lambda m, xs, axis=Const(1): concat(m, xs, axis, C))
functions(F + "stack")(lambda m, xs, axis=Const(0): stack(m, xs, axis, C))
functions(F + "hstack")(lambda m, xs: hstacked(m, xs, C))
functions(F + "vstack")(lambda m, xs: vstacked(m, xs, C))


@functions(F + "separate")
def separate(m: M, x: Value, axis: Value = Const(0)) -> Value:
    from .torch import unbind

    return unbind(m, _array(m, x), axis)


@functions(F + "split_axis")
def split_axis(m: M, x: Value, indices_or_sections: Value, axis: Value, force_tuple: Value = TRUE) -> Value:
    a = _array(m, x)
    at = m.read_array(a)
    number = m.axis(axis, m.rank(at))
    parts = pieces(m, a, number, split_bounds(m, at, number, indices_or_sections, True))
    return parts[0] if len(parts) == 1 and not m.constant_of(force_tuple, "flag") else Tuple(tuple(parts))


@functions(F + "pad_sequence")
def pad_sequence(m: M, xs: Value, length: Value = NONE, padding: Value = Const(0)) -> Value:
    size = None if is_none(m.settle(length)) else m.constant_of(length, "length")
    return m.array(padded(m, xs, size, padding, C), C)


@functions(F + "select_item")
def select_item(m: M, x: Value, t: Value) -> Value:
    index = m.op("Unsqueeze", m.tensor(t, "i64"), m.ints([1]))
    return m.array(m.op("Squeeze", m.op("GatherElements", m.tensor(x), index, axis=1), m.ints([1])), C)


functions(F + "permutate")(lambda m, x, indices, axis=Const(0), inv=FALSE: _permuted(m, x, indices, axis, inv))


def _permuted(m: M, x: Value, indices: Value, axis: Value, inv: Value) -> Value:
    if m.constant_of(inv, "flag"):
        m.refuse("permutate with inv=True is not supported", "Invert the indices with numpy.argsort first")
    at = m.tensor(x)
    return m.array(m.op("Gather", at, m.tensor(indices, "i64"), axis=m.axis(axis, m.rank(at))), C)


@functions(F + "depth2space")
def depth2space(m: M, X: Value, r: Value) -> Value:
    return m.array(m.op("DepthToSpace", m.tensor(X), blocksize=m.constant_of(r, "size"), mode="DCR"), C)


@functions(F + "resize_images")
def resize_images(m: M, x: Value, output_shape: Value, mode: Value = Const("bilinear"), align_corners: Value = TRUE) -> Value:
    aligned = m.constant_of(align_corners, "flag")
    name = {"bilinear": "linear", "nearest": "nearest"}[m.constant_of(mode, "mode")]
    made = m.op(
        "Resize", m.tensor(x), None, None, m.sizes(m.size_list(output_shape)), axes=[2, 3], mode=name,
        coordinate_transformation_mode="align_corners" if aligned else "half_pixel",
    )  # fmt: skip
    return m.array(made, C)


# ---- Linear, convolutions, pools ----


@functions(F + "linear")
def linear(m: M, x: Value, W: Value, b: Value = NONE, n_batch_axes: Value = Const(1)) -> Value:
    at, w = m.tensor(x), m.tensor(W)
    bias = None if is_none(b) else m.tensor(b)
    first = m.constant_of(n_batch_axes, "number of axes")
    rank = m.rank(at)
    outer = [m.dimension(at, axis) for axis in range(first)]
    if rank > 2 or first > 1:
        size: Value = Const(1)
        for axis in range(first, rank):
            size = m.binary("*", size, m.dimension(at, axis))
        at = m.reshape(at, [Const(-1) if not isinstance(size, Const) or size.value else Const(0), size])
    made = m.op("Gemm", at, w, bias, transB=1)
    return m.array(made if first == 1 else m.reshape(made, [*outer, m.dimension(w, 0)]), C)


@functions(F + "embed_id")
def embed_id(m: M, x: Value, W: Value, ignore_label: Value = NONE) -> Value:
    at, table = m.tensor(x), m.tensor(W)
    label = m.settle(ignore_label)
    if is_none(label):
        return m.array(m.op("Gather", table, m.cast(at, "i64"), axis=0), C)
    ignored = m.op("Equal", at, m.number_value(label, at.type.dtype))
    rows = m.op("Gather", table, m.cast(m.op("Where", ignored, m.constant(0, at.type.dtype), at), "i64"), axis=0)
    test = m.op("Unsqueeze", ignored, m.ints([m.rank(at)]))
    return m.array(m.op("Where", test, m.constant(0, table.type.dtype), rows), C)


def _covering(m: M, at: Any, first: int, sizes: list[int], strides: list[int], pads: list[int]) -> list[int]:
    """Return pads whose ends are so long that windows cover all elements."""
    ends = []
    for axis, (size, stride, start) in enumerate(zip(sizes, strides, pads)):
        have = m.dimension(at, first + axis)
        if not isinstance(have, Const):
            m.refuse("cover_all=True needs sizes that are known when the program is compiled", "Use cover_all=False")
        rounds = -(-max(have.value + 2 * start - size, 0) // stride) + 1
        ends.append(max((rounds - 1) * stride + size - have.value - start, start))
    return pads + ends


def _end(m: M, have: Value, size: int, stride: int, start: int) -> Value:
    """Return the padding behind an axis of a size of the run, so that windows cover all elements."""
    rest = m.binary("+", have, Const(2 * start - size))
    rounds = m.binary("//", m.binary("+", m.number(m.op("Max", m.number_value(rest, "i64"), m.constant(0, "i64")), "int"), Const(stride - 1)), Const(stride))
    more = m.binary("-", m.binary("+", m.binary("*", rounds, Const(stride)), Const(size - start)), have)
    return m.number(m.op("Max", m.number_value(more, "i64"), m.constant(start, "i64")), "int")  # type: ignore[no-any-return]


def _conv(rank: int | None) -> Any:
    def row(
        m: M, x: Value, W: Value, b: Value = NONE, stride: Value = Const(1), pad: Value = Const(0), cover_all: Value = FALSE, *,
        dilate: Value = Const(1), groups: Value = Const(1), **options: Value,
    ) -> Value:  # fmt: skip
        at, w = m.tensor(x), m.tensor(W)
        count = rank or m.rank(at) - 2
        strides, pads, dilations = numbers(m, stride, count), numbers(m, pad, count), numbers(m, dilate, count)
        sizes = [(size - 1) * dilation + 1 for size, dilation in zip(w.type.dims[2:], dilations)]
        whole = _covering(m, at, 2, sizes, strides, pads) if m.constant_of(cover_all, "flag") else pads * 2
        made = m.op(
            "Conv", at, w, None if is_none(b) else m.tensor(b), strides=strides, pads=whole, dilations=dilations,
            group=m.constant_of(groups, "groups"),
        )  # fmt: skip
        return m.array(made, C)

    row.__name__ = "convolution"
    return row


def _deconv(rank: int | None) -> Any:
    def row(
        m: M, x: Value, W: Value, b: Value = NONE, stride: Value = Const(1), pad: Value = Const(0), outsize: Value = NONE, *,
        dilate: Value = Const(1), groups: Value = Const(1), **options: Value,
    ) -> Value:  # fmt: skip
        at, w = m.tensor(x), m.tensor(W)
        count = rank or m.rank(at) - 2
        strides, pads, dilations = numbers(m, stride, count), numbers(m, pad, count), numbers(m, dilate, count)
        more = [0] * count
        if not is_none(m.settle(outsize)):
            for axis, size in enumerate(numbers(m, outsize, count)):
                have = m.constant_of(m.dimension(at, 2 + axis), "size")
                reach = (w.type.dims[2 + axis] - 1) * dilations[axis] + 1
                more[axis] = size - ((have - 1) * strides[axis] + reach - 2 * pads[axis])
        made = m.op(
            "ConvTranspose", at, w, None if is_none(b) else m.tensor(b), strides=strides, pads=pads * 2, output_padding=more,
            dilations=dilations, group=m.constant_of(groups, "groups"),
        )  # fmt: skip
        return m.array(made, C)

    row.__name__ = "deconvolution"
    return row


def _average_pool(rank: int | None) -> Any:
    def row(m: M, x: Value, ksize: Value, stride: Value = NONE, pad: Value = Const(0), pad_value: Value = Const(0)) -> Value:
        at = m.tensor(x)
        count = rank or m.rank(at) - 2
        sizes = numbers(m, ksize, count)
        made = m.op(
            "AveragePool", at, kernel_shape=sizes, strides=sizes if is_none(m.settle(stride)) else numbers(m, stride, count),
            pads=numbers(m, pad, count) * 2, count_include_pad=0 if is_none(m.settle(pad_value)) else 1,
        )  # fmt: skip
        return m.array(made, C)

    row.__name__ = "average_pooling"
    return row


def _max_pool(rank: int | None) -> Any:
    def row(
        m: M, x: Value, ksize: Value, stride: Value = NONE, pad: Value = Const(0), cover_all: Value = TRUE, return_indices: Value = FALSE
    ) -> Value:
        if m.constant_of(return_indices, "flag"):
            m.refuse("max_pooling with return_indices=True is not supported")
        at = m.tensor(x)
        count = rank or m.rank(at) - 2
        sizes = numbers(m, ksize, count)
        strides = sizes if is_none(m.settle(stride)) else numbers(m, stride, count)
        pads = numbers(m, pad, count)
        covering = m.constant_of(cover_all, "flag")
        if covering and not all(isinstance(m.dimension(at, 2 + axis), Const) for axis in range(count)):
            ends = [_end(m, m.dimension(at, 2 + axis), sizes[axis], strides[axis], pads[axis]) for axis in range(count)]
            padding = m.sizes([Const(0), Const(0), *map(Const, pads), Const(0), Const(0), *ends])
            at = m.op("Pad", at, padding, m.constant(-math.inf, at.type.dtype), mode="constant")
            return m.array(m.op("MaxPool", at, kernel_shape=sizes, strides=strides, pads=[0] * 2 * count), C)
        whole = _covering(m, at, 2, sizes, strides, pads) if covering else pads * 2
        limit = max(whole[count + i] - sizes[i] + 1 for i in range(count))
        if limit > 0:
            # A window of padding alone.
            at = m.op(
                "Pad", at, m.ints([0, 0, *pads, 0, 0, *whole[count:]]), m.constant(-math.inf, at.type.dtype), mode="constant"
            )  # fmt: skip
            whole = [0] * 2 * count
        return m.array(m.op("MaxPool", at, kernel_shape=sizes, strides=strides, pads=whole), C)

    row.__name__ = "max_pooling"
    return row


for _rank, _suffix in ((1, "1d"), (2, "2d"), (3, "3d"), (None, "nd")):
    functions(f"{F}convolution_{_suffix}")(_conv(_rank))
    functions(f"{F}deconvolution_{_suffix}")(_deconv(_rank))
    functions(f"{F}average_pooling_{_suffix}")(_average_pool(_rank))
    functions(f"{F}max_pooling_{_suffix}")(_max_pool(_rank))


@functions(F + "dilated_convolution_2d")
def dilated_convolution_2d(
    m: M, x: Value, W: Value, b: Value = NONE, stride: Value = Const(1), pad: Value = Const(0), dilate: Value = Const(1),
    cover_all: Value = FALSE,
) -> Value:  # fmt: skip
    return _conv(2)(m, x, W, b, stride, pad, cover_all, dilate=dilate)


@functions(F + "unpooling_2d")
def unpooling_2d(
    m: M, x: Value, ksize: Value, stride: Value = NONE, pad: Value = Const(0), outsize: Value = NONE, cover_all: Value = TRUE
) -> Value:
    at = m.tensor(x)
    sizes = numbers(m, ksize, 2)
    strides = sizes if is_none(m.settle(stride)) else numbers(m, stride, 2)
    pads = numbers(m, pad, 2)
    if strides != sizes:
        m.refuse("unpooling_2d with a stride other than ksize is not supported")
    made = at
    for axis, size in zip((2, 3), sizes):
        dims = m.shape_of(made).items
        wide = m.op("Unsqueeze", made, m.ints([axis + 1]))
        repeats = [1] * 5
        repeats[axis + 1] = size
        wide = m.op("Tile", wide, m.ints(repeats))
        made = m.reshape(wide, [*dims[:axis], m.binary("*", dims[axis], Const(size)), *dims[axis + 1 :]])
    ends = []
    for axis, size, stride_, start in zip((2, 3), sizes, strides, pads):
        have = m.dimension(at, axis)
        if not is_none(m.settle(outsize)):
            wanted: Value = Const(numbers(m, outsize, 2)[axis - 2])
        else:
            # With cover_all the least size that pooling would cover.
            reach = size - 2 * start - (stride_ - 1 if m.constant_of(cover_all, "flag") else 0)
            wanted = m.binary("+", m.binary("*", m.binary("-", have, Const(1)), Const(stride_)), Const(reach))
        ends.append(m.binary("+", wanted, Const(start)))
    return m.array(m.op("Slice", made, m.ints(pads), m.sizes(ends), m.ints([2, 3])), C)


@functions(F + "upsampling_2d")
def upsampling_2d(m: M, *values: Value, **options: Value) -> Value:
    return m.refuse("upsampling_2d is not supported", "Use unpooling_2d or resize_images")  # type: ignore[no-any-return]


@functions(F + "local_response_normalization")
def local_response_normalization(
    m: M, x: Value, n: Value = Const(5), k: Value = Const(2), alpha: Value = Const(1e-4), beta: Value = Const(0.75)
) -> Value:
    size = m.constant_of(n, "size")
    if size % 2 == 0:
        # Chainer's window has n // 2 channels on both sides.
        size += 1
    scale = float(m.constant_of(alpha, "alpha")) * size
    made = m.op("LRN", m.tensor(x), size=size, alpha=scale, beta=float(m.constant_of(beta, "beta")), bias=float(m.constant_of(k, "k")))
    return m.array(made, C)


@functions(F + "dropout")
def dropout(m: M, x: Value, ratio: Value = Const(0.5), **options: Value) -> Value:
    if training() and m.constant_of(ratio, "ratio") > 0:
        m.refuse("dropout in training mode is random", "Set chainer.config.train to False first")
    return _array(m, x)


@functions(F + "fixed_batch_normalization")
def fixed_batch_normalization(
    m: M, x: Value, gamma: Value, beta: Value, mean: Value, var: Value, eps: Value = Const(2e-5), axis: Value = NONE
) -> Value:
    at = m.tensor(x)
    parts = [m.tensor(v) for v in (gamma, beta, mean, var)]
    axes = axes_of(m, axis, m.rank(at))
    count = m.rank(parts[0])
    if count == 1 and (axes is None or axes == [i for i in range(m.rank(at)) if i != 1]):
        return m.array(m.op("BatchNormalization", at, *parts, epsilon=float(m.constant_of(eps, "eps"))), C)
    own = [i for i in range(m.rank(at)) if i not in (axes if axes is not None else [0, *range(1 + count, m.rank(at))])]
    missing = m.ints([i for i in range(m.rank(at)) if i not in own])
    scale, shift, center, spread = (m.op("Unsqueeze", p, missing) for p in parts)
    root = m.op("Sqrt", m.op("Add", spread, m.constant(float(m.constant_of(eps, "eps")), at.type.dtype)))
    return m.array(m.op("Add", m.op("Mul", m.op("Div", m.op("Sub", at, center), root), scale), shift), C)


@functions(F + "batch_normalization")
def batch_normalization(m: M, x: Value, gamma: Value, beta: Value, **options: Value) -> Value:
    return m.refuse(  # type: ignore[no-any-return]
        "batch normalization in training mode changes its statistics", "Set chainer.config.train to False first"
    )


@modules(L + "BatchNormalization")
def _batch_normalization(m: M, link: Reference, x: Value, **options: Value) -> Value:
    live = link.object.live
    if training():
        batch_normalization(m, x, NONE, NONE)
    mean, var = m.wrap(live.avg_mean), m.wrap(live.avg_var)
    if is_none(mean):
        m.refuse("a batch normalization without statistics is not initialized", "Call the model once, or give the size")
    import numpy

    gamma, beta = m.attribute(link, "gamma"), m.attribute(link, "beta")
    gamma = m.array(m.constant(numpy.ones(live.avg_mean.shape, live.avg_mean.dtype)), C) if is_none(gamma) else gamma
    beta = m.array(m.constant(numpy.zeros(live.avg_mean.shape, live.avg_mean.dtype)), C) if is_none(beta) else beta
    axis = NONE if live.axis is None else m.wrap(tuple(live.axis))
    return fixed_batch_normalization(m, x, gamma, beta, mean, var, Const(live.eps), axis)


@functions(F + "layer_normalization")
def layer_normalization(m: M, x: Value, gamma: Value, beta: Value, eps: Value = Const(1e-5)) -> Value:
    made = m.op("LayerNormalization", m.tensor(x), m.tensor(gamma), m.tensor(beta), axis=-1, epsilon=float(m.constant_of(eps, "eps")))
    return m.array(made, C)


# ---- Regions ----


def _regions(mode: str, aligned: bool) -> Any:
    def row(m: M, x: Value, rois: Value, roi_indices: Value, outsize: Value, spatial_scale: Value, sampling_ratio: Value = NONE) -> Value:
        height, width = numbers(m, outsize, 2)
        ratio = m.settle(sampling_ratio)
        if not aligned:
            samples: list[int] = []
        elif is_none(ratio):
            samples = [0, 0]
        elif m.is_list(ratio):
            samples = [0 if is_none(m.settle(r)) else m.constant_of(r, "ratio") for r in m.items_of(ratio)]
        else:
            samples = numbers(m, ratio, 2)
        made = m.op(
            "RoiPool", m.tensor(x), m.tensor(rois), m.tensor(roi_indices), mode=mode, output_height=height, output_width=width,
            samples=samples, spatial_scale=float(m.constant_of(spatial_scale, "scale")),
        )  # fmt: skip
        return m.array(made, C)

    return row


for _mode in ("max", "average"):
    functions(f"{F}roi_{_mode}_pooling_2d")(_regions(_mode[:3].replace("ave", "avg"), False))
    functions(f"{F}roi_{_mode}_align_2d")(_regions(_mode[:3].replace("ave", "avg"), True))

# ---- Losses ----


@functions(F + "softmax_cross_entropy")
def softmax_cross_entropy(
    m: M, x: Value, t: Value, normalize: Value = TRUE, cache_score: Value = TRUE, class_weight: Value = NONE, ignore_label: Value = Const(-1),
    reduce: Value = Const("mean"), enable_double_backprop: Value = FALSE, soft_target_loss: Value = NONE,
) -> Value:  # fmt: skip
    at, labels = m.tensor(x), m.tensor(t, "i64")
    weight = None if is_none(m.settle(class_weight)) else m.tensor(class_weight)
    label = m.constant_of(ignore_label, "label")
    scores = m.op("LogSoftmax", at, axis=1)
    kind = m.constant_of(reduce, "reduction")
    each = m.op("NegativeLogLikelihoodLoss", scores, labels, weight, ignore_index=label, reduction="none")
    if kind == "no":
        return m.array(each, C)
    total = m.op("ReduceSum", each, keepdims=0)
    if m.constant_of(normalize, "flag"):
        used = m.op("Not", m.op("Equal", labels, m.constant(label, "i64")))
        count = m.op("ReduceSum", m.cast(used, at.type.dtype), keepdims=0)
        count = m.op("Max", count, m.constant(1, at.type.dtype))
    else:
        count = m.number_value(m.dimension(at, 0), at.type.dtype)
    return m.array(m.op("Div", total, count), C)


@functions(F + "sigmoid_cross_entropy")
def sigmoid_cross_entropy(m: M, x: Value, t: Value, normalize: Value = TRUE, reduce: Value = Const("mean")) -> Value:
    at, labels = m.tensor(x), m.tensor(t)
    target = m.cast(labels, at.type.dtype)
    used = m.cast(m.op("Not", m.op("Equal", labels, m.constant(-1, labels.type.dtype))), at.type.dtype)
    # log(1 + exp(x)) - t x
    each = m.op("Mul", used, m.op("Sub", m.op("Softplus", at), m.op("Mul", target, at)))
    if m.constant_of(reduce, "reduction") == "no":
        return m.array(each, C)
    if m.constant_of(normalize, "flag"):
        count = m.op("Max", m.op("ReduceSum", used, keepdims=0), m.constant(1, at.type.dtype))
    else:
        count = m.number_value(m.dimension(at, 0), at.type.dtype)
    return m.array(m.op("Div", m.op("ReduceSum", each, keepdims=0), count), C)


functions(F + "mean_squared_error")(lambda m, x0, x1: m.array(m.op("ReduceMean", m.tensor(squared_difference(m, x0, x1)), keepdims=0), C))
functions(F + "mean_absolute_error")(
    lambda m, x0, x1: m.array(m.op("ReduceMean", m.op("Abs", m.tensor(m.binary("-", _array(m, x0), x1))), keepdims=0), C)
)


@functions(F + "accuracy")
def accuracy(m: M, y: Value, t: Value, ignore_label: Value = NONE) -> Value:
    at, labels = m.tensor(y), m.tensor(t, "i64")
    found = m.op("Reshape", m.op("ArgMax", at, axis=1, keepdims=0), m.op("Shape", labels))
    right = m.cast(m.op("Equal", found, labels), at.type.dtype)
    label = m.settle(ignore_label)
    if is_none(label):
        return m.array(m.op("ReduceMean", right, keepdims=0), C)
    used = m.cast(m.op("Not", m.op("Equal", labels, m.number_value(label, "i64"))), at.type.dtype)
    total = m.op("ReduceSum", m.op("Mul", right, used), keepdims=0)
    count = m.op("ReduceSum", used, keepdims=0)
    return m.array(m.op("Where", m.op("Equal", count, m.constant(0, at.type.dtype)), m.constant(0, at.type.dtype), m.op("Div", total, count)), C)


# ---- Recurrent ----


@functions(F + "lstm")
def lstm(m: M, c_prev: Value, x: Value) -> Value:
    h, c = m.op("LSTMCell", m.tensor(x), m.tensor(c_prev), count=2, children=1, layout="chainer")
    return Tuple((m.array(c, C), m.array(h, C)))


# Gates of Chainer's weights in the order of the instruction.
_GATES = {"LSTM": [0, 3, 1, 2], "GRU": [1, 0, 2], "RNN": [0]}


def _n_step(m: M, link: Reference, states: list[Value], xs: Value, kind: str, both: bool, activation: str = "Tanh") -> Value:
    """Run the layers of an n-step link over sequences of different lengths."""
    live = link.object.live
    if training() and live.dropout and live.n_layers > 1:
        m.refuse("dropout in training mode is random", "Set chainer.config.train to False first")
    known = m.contents_of(xs)
    if isinstance(known, Tuple):
        lengths = m.sizes([m.dimension(m.tensor(item), 0) for item in known.items])
    else:
        lengths = m.op("SequenceLengths", m.array_sequence(known))
    at = m.op("Transpose", padded(m, xs, None, Const(0), C), perm=[1, 0, 2])
    directions = 2 if both else 1
    starts = [None if is_none(m.settle(s)) else m.tensor(s) for s in states]
    finals: list[list[Any]] = [[] for _ in states]
    size = live.out_size
    gates = _GATES[kind]
    layers = list(m.items_of(m.call(m.attribute(link, "children"), [], {})))
    for layer in range(live.n_layers):
        weights: list[list[Any]] = [[], [], []]
        for direction in range(directions):
            own = layers[layer * directions + direction]
            x_part, h_part = ([f"{{}}{g + first}" for g in gates] for first in (0, len(gates)))
            read = lambda names, letter, own=own: [m.tensor(m.attribute(own, n.format(letter))) for n in names]  # noqa: E731
            for target, parts in zip(weights, (read(x_part, "w"), read(h_part, "w"), read(x_part, "b") + read(h_part, "b"))):
                joined = m.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]
                target.append(m.op("Unsqueeze", joined, m.ints([0])))
        w, r, b = (m.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0] for parts in weights)
        initial = [
            None if s is None else m.op("Slice", s, m.ints([layer * directions]), m.ints([(layer + 1) * directions]), m.ints([0])) for s in starts
        ]
        options: dict[str, Any] = {"hidden_size": size, "direction": "bidirectional" if both else "forward"}
        if kind == "GRU":
            options["linear_before_reset"] = 1
        if kind == "RNN":
            options["activations"] = [activation] * directions
        made = m.op(kind, at, w, r, b, m.cast(lengths, "i32"), *initial, count=1 + len(states), **options)
        for target, value in zip(finals, made[1:]):
            target.append(value)
        at = m.op("Reshape", m.op("Transpose", made[0], perm=[0, 2, 1, 3]), m.ints([0, 0, directions * size]))
    rows = m.array(m.op("Transpose", at, perm=[1, 0, 2]), C)
    if isinstance(known, Tuple):
        cuts = [m.dimension(m.tensor(item), 0) for item in known.items]
        outputs: Value = m.new_list([m.array_item(rows, Tuple((Const(i), Slice(NONE, cut, NONE)))) for i, cut in enumerate(cuts)])
    else:
        from ..templates import ArrayOf

        unpadded = m.op("SequenceUnpad", m.read_array(rows), lengths)
        outputs = m.new_list(Sequence((unpadded,), ArrayOf(m.op("SequenceAt", unpadded, m.constant(0, "i64")).type, C)))
    last = [m.array(m.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0], C) for parts in finals]
    return Tuple((*last, outputs))


for _kind in ("LSTM", "GRU"):
    for _both in (False, True):
        if _kind == "LSTM":

            def _n_step_lstm(m: M, link: Reference, hx: Value, cx: Value, xs: Value, _both: bool = _both) -> Value:
                return _n_step(m, link, [hx, cx], xs, "LSTM", _both)

            modules(f"{L}NStep{'Bi' if _both else ''}LSTM")(_n_step_lstm)
        else:

            def _n_step_gru(m: M, link: Reference, hx: Value, xs: Value, _both: bool = _both) -> Value:
                return _n_step(m, link, [hx], xs, "GRU", _both)

            modules(f"{L}NStep{'Bi' if _both else ''}GRU")(_n_step_gru)
for _activation in ("Tanh", "Relu"):
    for _both in (False, True):

        def _n_step_rnn(m: M, link: Reference, hx: Value, xs: Value, _both: bool = _both, _activation: str = _activation) -> Value:
            return _n_step(m, link, [hx], xs, "RNN", _both, _activation)

        modules(f"{L}NStep{'Bi' if _both else ''}RNN{'ReLU' if _activation == 'Relu' else 'Tanh'}")(_n_step_rnn)

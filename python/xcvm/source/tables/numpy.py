"""Rows of NumPy, some of which Chainer shares."""

from __future__ import annotations

from typing import Any

from ..core import FALSE, NONE, TRUE
from ..errors import NeedsConstant, PythonError
from ..values import Array, Const, Tuple, Value
from . import ATTRIBUTES, METHODS, PURE, attributes, functions, methods
from .shared import (
    axes_of,
    concat,
    dtype_name,
    expanded,
    extreme_index,
    floating,
    is_none,
    logical_reduce,
    pieces,
    reduce,
    reshape,
    shape_view,
    squeezed,
    stack,
    sum_type,
    transpose,
    unary,
    variance,
)

M = Any
N = "numpy"

PURE.update(["numpy.finfo", "numpy.iinfo", "numpy.dtype", "numpy.promote_types"])

for _names, _op in {
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tan": "Tan", "tanh": "Tanh", "sinh": "Sinh", "cosh": "Cosh",
    "arcsin": "Asin", "arccos": "Acos", "arctan": "Atan", "arcsinh": "Asinh", "arccosh": "Acosh", "arctanh": "Atanh", "ceil": "Ceil",
    "floor": "Floor", "rint": "Round", "isnan": "IsNaN", "isinf": "IsInf",
}.items():  # fmt: skip
    functions(*["numpy." + n for n in _names.split()])(unary(_op))
for _names, _op in {"abs absolute fabs": "Abs", "sign": "Sign", "negative": "Neg", "logical_not invert": "Not", "reciprocal": "Reciprocal"}.items():
    functions(*["numpy." + n for n in _names.split()])(unary(_op, as_float=False))


@functions("numpy.square")
def square(m: M, x: Value) -> Value:
    return m.binary("*", x, x)


for _name, _symbol in {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/", "floor_divide": "//", "mod": "%", "remainder": "%",
    "power": "**", "matmul": "@", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
}.items():  # fmt: skip

    def _binary(m: M, x1: Value, x2: Value, _symbol: str = _symbol) -> Value:
        return m.array_binary(_symbol, x1, x2)

    functions("numpy." + _name)(_binary)
for _name, _symbol in {"equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}.items():

    def _compare(m: M, x1: Value, x2: Value, _symbol: str = _symbol) -> Value:
        return m.array_compare(_symbol, x1, x2)

    functions("numpy." + _name)(_compare)


for _name, _op in {"maximum": "Max", "minimum": "Min"}.items():

    def _extreme(m: M, x1: Value, x2: Value, _op: str = _op) -> Value:
        library = m.joint_library(x1, x2)
        return m.array(m.op(_op, *m.matched([m.operand(x1, library), m.operand(x2, library)], library)), library)

    functions("numpy." + _name)(_extreme)
for _name, _op in {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}.items():

    def _logical(m: M, x1: Value, x2: Value, _op: str = _op) -> Value:
        return m.array(m.op(_op, m.cast(m.tensor(x1), "bool"), m.cast(m.tensor(x2), "bool")), m.library_of(x1, x2))

    functions("numpy." + _name, "torch." + _name)(_logical)
    methods("torch", _name)(_logical)


# ---- Creation ----


@functions("numpy.array", "numpy.copy")
def array(m: M, object: Value, dtype: Value = NONE, copy: Value = TRUE) -> Value:
    if not m.constant_of(copy, "copy"):
        return asarray(m, object, dtype)
    return m.boxed(m.array(m.tensor(object, dtype_name(m, dtype), N), N))


@functions("numpy.asarray")
def asarray(m: M, a: Value, dtype: Value = NONE) -> Value:
    a = m.settle(a)
    kind = dtype_name(m, dtype)
    if isinstance(a, Array) and a.library == N and kind in (None, m.array_type(a).dtype):
        return a
    return m.boxed(m.array(m.tensor(a, kind, N), N))


@functions("numpy.ascontiguousarray")
def ascontiguousarray(m: M, a: Value, dtype: Value = NONE) -> Value:
    a = asarray(m, a, dtype)
    if not isinstance(a, Array) or a.view is None:
        return a
    own = a.view.layout
    if own is not None:
        return a if own.flags.c_contiguous else m.array(m.read_array(a), N)
    return m.view(a, lambda base: m.op("Identity", base), None, None, False)


def filled(m: M, shape: Value, value: Value, dtype: str, library: str) -> Value:
    """Return an array of one value."""
    sizes = m.size_list(shape)
    fill = m.number_value(m.settle(value), dtype)
    if all(isinstance(m.settle(s), Const) for s in sizes) and fill.array is not None:
        import numpy

        from .. import emit

        dims = [int(m.constant_of(s)) for s in sizes]
        if all(d >= 0 for d in dims) and int(numpy.prod(dims, dtype=numpy.int64)) <= 4096:
            return m.array(m.constant(numpy.full(dims, fill.array, emit.numpy_dtype(dtype))), library)
    return m.array(m.op("Expand", fill, m.sizes(sizes)) if sizes else fill, library)


@functions("numpy.zeros", "numpy.empty")
def zeros(m: M, shape: Value, dtype: Value = NONE) -> Value:
    return filled(m, shape, Const(0), dtype_name(m, dtype) or "f64", N)


@functions("numpy.ones")
def ones(m: M, shape: Value, dtype: Value = NONE) -> Value:
    return filled(m, shape, Const(1), dtype_name(m, dtype) or "f64", N)


@functions("numpy.full")
def full(m: M, shape: Value, fill_value: Value, dtype: Value = NONE) -> Value:
    fill = m.settle(fill_value)
    own = m.array_type(fill).dtype if isinstance(fill, Array) else m.default_dtype(m.kind_of(fill), N)
    return filled(m, shape, fill_value, dtype_name(m, dtype) or own, N)


def _like(fill: int) -> Any:
    def row(m: M, a: Value, dtype: Value = NONE) -> Value:
        at = m.tensor(a)
        kind = dtype_name(m, dtype) or at.type.dtype
        return m.array(m.op("Expand", m.constant(fill, kind), m.op("Shape", at)), N)

    return row


functions("numpy.zeros_like", "numpy.empty_like")(_like(0))
functions("numpy.ones_like")(_like(1))


@functions("numpy.full_like")
def full_like(m: M, a: Value, fill_value: Value, dtype: Value = NONE) -> Value:
    at = m.tensor(a)
    kind = dtype_name(m, dtype) or at.type.dtype
    return m.array(m.op("Expand", m.number_value(m.settle(fill_value), kind), m.op("Shape", at)), N)


@functions("numpy.arange")
def arange(m: M, start: Value, stop: Value = NONE, step: Value = Const(1), dtype: Value = NONE) -> Value:
    return m.array(ranged(m, start, stop, step, dtype_name(m, dtype), N), N)


def ranged(m: M, start: Value, stop: Value, step: Value, dtype: str | None, library: str) -> Any:
    if is_none(m.settle(stop)):
        start, stop = Const(0), start
    parts = [m.settle(p) for p in (start, stop, step)]
    kinds = [m.kind_of(p) or ("float" if m.float_dtype(m.array_type(p).dtype) else "int") for p in parts]
    own = m.default_dtype("float" if "float" in kinds else "int", library)
    kind = "f64" if "float" in kinds else "i64"
    if all(isinstance(p, Const) for p in parts):
        import numpy

        return m.cast(m.constant(numpy.arange(*[p.value for p in parts])), dtype or own)
    return m.cast(m.op("Range", *[m.number_value(p, kind) for p in parts]), dtype or own)


@functions("numpy.eye")
def eye(m: M, N: Value, M: Value = NONE, k: Value = Const(0), dtype: Value = NONE) -> Value:
    import numpy

    rows = m.constant_of(N, "size")
    columns = rows if is_none(M) else m.constant_of(M, "size")
    return m.array(m.constant(numpy.eye(rows, columns, m.constant_of(k, "diagonal")), dtype_name(m, dtype) or "f64"), "numpy")


functions("numpy.identity")(lambda m, n, dtype=NONE: eye(m, n, NONE, Const(0), dtype))


@functions("numpy.float32", "numpy.float64", "numpy.int64", "numpy.int32", "numpy.float16", "numpy.bool_", "numpy.int8", "numpy.uint8", "numpy.int16")
def _scalar(m: M, value: Value = Const(0)) -> Value:
    raise PythonError(TypeError("unreachable"))


for _name in ("float32", "float64", "int64", "int32", "float16", "int8", "uint8", "int16", "bool_"):

    def _made(m: M, value: Value = Const(0), _name: str = _name) -> Value:
        from .. import emit

        return m.array(m.tensor(value, emit.dtype_of(_name.rstrip("_")), N), N)

    functions("numpy." + _name)(_made)

# ---- Reductions ----


def _sum(m: M, a: Value, axis: Value = NONE, dtype: Value = NONE, out: Value = NONE, keepdims: Value = FALSE) -> Value:
    at = sum_type(m, m.tensor(a), dtype_name(m, dtype))
    return m.array(reduce(m, "ReduceSum", at, axis, keepdims), m.library_of(a))


def _prod(m: M, a: Value, axis: Value = NONE, dtype: Value = NONE, out: Value = NONE, keepdims: Value = FALSE) -> Value:
    at = sum_type(m, m.tensor(a), dtype_name(m, dtype))
    return m.array(reduce(m, "ReduceProd", at, axis, keepdims), m.library_of(a))


def _mean(m: M, a: Value, axis: Value = NONE, dtype: Value = NONE, out: Value = NONE, keepdims: Value = FALSE) -> Value:
    at = floating(m, a)
    kind = dtype_name(m, dtype)
    return m.array(reduce(m, "ReduceMean", m.cast(at, kind) if kind else at, axis, keepdims), m.library_of(a))


def _var(m: M, a: Value, axis: Value = NONE, dtype: Value = NONE, out: Value = NONE, ddof: Value = Const(0), keepdims: Value = FALSE) -> Value:
    return m.array(variance(m, floating(m, a), axis, keepdims, m.constant_of(ddof, "ddof")), m.library_of(a))


def _std(m: M, a: Value, axis: Value = NONE, dtype: Value = NONE, out: Value = NONE, ddof: Value = Const(0), keepdims: Value = FALSE) -> Value:
    return m.array(m.op("Sqrt", variance(m, floating(m, a), axis, keepdims, m.constant_of(ddof, "ddof"))), m.library_of(a))


def _reduced(op: str) -> Any:
    def row(m: M, a: Value, axis: Value = NONE, out: Value = NONE, keepdims: Value = FALSE) -> Value:
        return m.array(reduce(m, op, m.tensor(a), axis, keepdims), m.library_of(a))

    return row


def _indexed(op: str) -> Any:
    def row(m: M, a: Value, axis: Value = NONE, out: Value = NONE, *, keepdims: Value = FALSE) -> Value:
        return m.array(extreme_index(m, op, m.tensor(a), axis, keepdims), m.library_of(a))

    return row


def _logical_reduce(is_any: bool) -> Any:
    def row(m: M, a: Value, axis: Value = NONE, out: Value = NONE, keepdims: Value = FALSE) -> Value:
        return m.array(logical_reduce(m, is_any, m.tensor(a), axis, keepdims), m.library_of(a))

    return row


for _names, _row in {
    "sum": _sum, "prod": _prod, "mean": _mean, "var": _var, "std": _std, "max amax": _reduced("ReduceMax"), "min amin": _reduced("ReduceMin"),
    "argmax": _indexed("ArgMax"), "argmin": _indexed("ArgMin"), "any": _logical_reduce(True), "all": _logical_reduce(False),
}.items():  # fmt: skip
    functions(*["numpy." + n for n in _names.split()])(_row)
    methods("numpy", _names.split()[0])(_row)


for _name, _op in {"cumsum": "CumSum", "cumprod": "CumProd"}.items():

    def _cumulative(m: M, a: Value, axis: Value = NONE, dtype: Value = NONE, _op: str = _op) -> Value:
        at = sum_type(m, m.tensor(a), dtype_name(m, dtype))
        if is_none(m.settle(axis)):
            at = m.op("Reshape", at, m.ints([-1]))
            axis = Const(0)
        return m.array(m.op(_op, at, m.constant(m.axis(axis, m.rank(at)), "i64")), m.library_of(a))

    functions("numpy." + _name)(_cumulative)
    methods("numpy", _name)(_cumulative)

# ---- Shapes ----


@functions("numpy.reshape")
def reshape_function(m: M, a: Value, newshape: Value) -> Value:
    return reshape(m, _array(m, a), m.size_list(newshape))


def _array(m: M, value: Value) -> Array:
    value = m.settle(value)
    return value if isinstance(value, Array) else m.array(m.tensor(value), m.library)


@methods("numpy", "reshape")
def reshape_method(m: M, a: Array, *shape: Value) -> Value:
    return reshape(m, a, m.size_list(shape[0]) if len(shape) == 1 else shape)


def ordered(m: M, a: Array, axes: Value) -> Value:
    rank = m.rank(m.read_array(a))
    if is_none(m.settle(axes)):
        return transpose(m, a, list(range(rank))[::-1])
    return transpose(m, a, [m.axis(item, rank) for item in m.items_of(axes)])


@functions("numpy.transpose")
def transpose_function(m: M, a: Value, axes: Value = NONE) -> Value:
    return ordered(m, _array(m, a), axes)


@methods("numpy", "transpose")
def transpose_method(m: M, a: Array, *axes: Value) -> Value:
    if not axes:
        return ordered(m, a, NONE)
    return ordered(m, a, axes[0] if len(axes) == 1 else Tuple(axes))


@attributes("numpy", "T")
def transposed(m: M, a: Array) -> Value:
    return ordered(m, a, NONE)


@functions("numpy.swapaxes")
def swapaxes(m: M, a: Value, axis1: Value, axis2: Value) -> Value:
    value = _array(m, a)
    order = list(range(m.rank(m.read_array(value))))
    i, j = m.axis(axis1, len(order)), m.axis(axis2, len(order))
    order[i], order[j] = order[j], order[i]
    return transpose(m, value, order)


methods("numpy", "swapaxes")(swapaxes)


@functions("numpy.expand_dims")
def expand_dims(m: M, a: Value, axis: Value) -> Value:
    value = _array(m, a)
    axes = axes_of(m, axis, m.rank(m.read_array(value)) + 1) or []
    return shape_view(m, value, lambda base: m.op("Unsqueeze", base, m.ints(axes)), lambda own: expanded(own, axes))


@functions("numpy.squeeze")
def squeeze(m: M, a: Value, axis: Value = NONE) -> Value:
    value = _array(m, a)
    axes = axes_of(m, axis, m.rank(m.read_array(value)))
    return shape_view(m, value, lambda base: m.op("Squeeze", base, m.ints(axes) if axes is not None else None), lambda own: squeezed(own, axes))


methods("numpy", "squeeze")(squeeze)


@methods("numpy", "flatten")
def flatten(m: M, a: Array) -> Value:
    return m.array(m.op("Reshape", m.read_array(a), m.ints([-1])), a.library)


@methods("numpy", "ravel")
def ravel(m: M, a: Array) -> Value:
    return reshape(m, a, (Const(-1),))


functions("numpy.ravel")(lambda m, a: ravel(m, _array(m, a)))


@functions("numpy.broadcast_to")
def broadcast_to(m: M, array: Value, shape: Value) -> Value:
    value = _array(m, array)
    sizes = m.sizes(m.size_list(shape))
    return m.view(value, lambda base: m.op("Expand", base, sizes), None)


@functions("numpy.concatenate")
def concatenate(m: M, arrays: Value, axis: Value = Const(0)) -> Value:
    if is_none(m.settle(axis)):
        arrays = m.new_list([reshape(m, _array(m, item), (Const(-1),)) for item in m.items_of(arrays)])
        axis = Const(0)
    return concat(m, arrays, axis, N)


@functions("numpy.stack")
def stack_function(m: M, arrays: Value, axis: Value = Const(0)) -> Value:
    return stack(m, arrays, axis, N)


@functions("numpy.hstack")
def hstack(m: M, tup: Value) -> Value:
    return hstacked(m, tup, N)


def hstacked(m: M, values: Value, library: str) -> Value:
    items = [m.array(m.tensor(item), library) for item in m.items_of(values)]
    rank = m.rank(m.read_array(items[0]))
    if rank == 0:
        items = [m.array(m.op("Reshape", m.read_array(i), m.ints([1])), library) for i in items]
    return concat(m, Tuple(tuple(items)), Const(0 if rank <= 1 else 1), library)


@functions("numpy.vstack")
def vstack(m: M, tup: Value) -> Value:
    return vstacked(m, tup, N)


def vstacked(m: M, values: Value, library: str) -> Value:
    items = []
    for item in m.items_of(values):
        at = m.tensor(item)
        if m.rank(at) < 2:
            at = m.op("Reshape", at, m.ints([1, -1]))
        items.append(m.array(at, library))
    return concat(m, Tuple(tuple(items)), Const(0), library)


def split_bounds(m: M, at: Any, axis: int, sections: Value, exact: bool) -> list[tuple[Value, Value]]:
    """Return the ranges of a split by a number of pieces, or by the indices between them."""
    sections = m.settle(sections)
    if m.kind_of(sections):
        count = m.constant_of(sections, "number of pieces")
        size = m.dimension(at, axis)
        if exact and isinstance(size, Const) and size.value % count:
            raise PythonError(ValueError("array split does not result in an equal division"))
        whole, extra = m.binary("//", size, Const(count)), m.binary("%", size, Const(count))
        bounds: list[tuple[Value, Value]] = []
        start: Value = Const(0)
        for index in range(count):
            more = m.branch(m.truth_of(m.compare("<", Const(index), extra)), lambda: Const(1), lambda: Const(0)) if not exact else Const(0)
            stop = m.binary("+", m.binary("+", start, whole), more)
            bounds.append((start, stop))
            start = stop
        return bounds
    if isinstance(sections, Array):
        sections = m.new_list([m.number(m.number_value(m.item(sections, Const(i)), "i64"), "int") for i in range(m.constant_of(m.length(sections)))])
    cuts = list(m.items_of(sections))
    return list(zip([Const(0), *cuts], [*cuts, NONE]))


@functions("numpy.split")
def split(m: M, ary: Value, indices_or_sections: Value, axis: Value = Const(0)) -> Value:
    value = _array(m, ary)
    number = m.axis(axis, m.rank(m.read_array(value)))
    return m.new_list(pieces(m, value, number, split_bounds(m, m.read_array(value), number, indices_or_sections, True)))


@functions("numpy.array_split")
def array_split(m: M, ary: Value, indices_or_sections: Value, axis: Value = Const(0)) -> Value:
    value = _array(m, ary)
    number = m.axis(axis, m.rank(m.read_array(value)))
    return m.new_list(pieces(m, value, number, split_bounds(m, m.read_array(value), number, indices_or_sections, False)))


@functions("numpy.where")
def where(m: M, condition: Value, *choices: Value) -> Value:
    test = m.cast(m.tensor(condition), "bool")
    if not choices:
        found = m.op("NonZero", test)
        rank = m.rank(test)
        return Tuple(tuple(m.array(m.op("Gather", found, m.constant(i, "i64"), axis=0), N) for i in range(rank)))
    library = m.joint_library(choices[0], choices[1])
    x, y = m.matched([m.operand(v, library) for v in choices], library)
    return m.array(m.op("Where", test, x, y), library)


@functions("numpy.clip")
def clip(m: M, a: Value, a_min: Value, a_max: Value) -> Value:
    return clamped(m, a, a_min, a_max)


def clamped(m: M, a: Value, low: Value, high: Value) -> Value:
    library = m.library_of(a)
    bounds = [m.settle(v) for v in (low, high)]
    kind = m.promoted([m.operand(v, library) for v in (a, *bounds) if not is_none(v)], library)
    at = m.cast(m.tensor(a), kind)
    for op, bound in zip(("Max", "Min"), bounds):
        if not is_none(bound):
            at = m.op(op, at, m.element(m.operand(bound, library), kind))
    return m.array(at, library)


methods("numpy", "clip")(lambda m, a, min=NONE, max=NONE: clamped(m, a, min, max))


@methods("numpy", "take")
@functions("numpy.take")
def take(m: M, a: Value, indices: Value, axis: Value = NONE) -> Value:
    at = m.tensor(a)
    if is_none(m.settle(axis)):
        return m.array(m.op("Gather", m.op("Reshape", at, m.ints([-1])), m.tensor(indices, "i64"), axis=0), N)
    return m.array(m.op("Gather", at, m.tensor(indices, "i64"), axis=m.axis(axis, m.rank(at))), N)


@functions("numpy.tile")
def tile(m: M, A: Value, reps: Value) -> Value:
    at = m.tensor(A)
    sizes = list(m.size_list(reps))
    rank = m.rank(at)
    if len(sizes) > rank:
        at = m.op("Unsqueeze", at, m.ints(range(len(sizes) - rank)))
    sizes = [Const(1)] * (m.rank(at) - len(sizes)) + sizes
    return m.array(m.op("Tile", at, m.sizes(sizes)), N)


@functions("numpy.pad")
def pad(m: M, array: Value, pad_width: Value, mode: Value = Const("constant"), constant_values: Value = Const(0)) -> Value:
    at = m.tensor(array)
    import numpy

    widths = numpy.broadcast_to(numpy.asarray(m.constant_of(pad_width, "padding")), (m.rank(at), 2))
    name = m.constant_of(mode, "mode")
    pads = m.ints([*widths[:, 0].tolist(), *widths[:, 1].tolist()])
    if name == "constant":
        return m.array(m.op("Pad", at, pads, m.number_value(constant_values, at.type.dtype), mode="constant"), N)
    if name in ("reflect", "edge", "wrap"):
        return m.array(m.op("Pad", at, pads, mode=name), N)
    raise NeedsConstant(f"the padding '{name}' is not supported")


# ---- Attributes and methods ----


@attributes("numpy", "shape")
def shape(m: M, a: Array) -> Value:
    return m.shape_of(m.read_array(a))


@attributes("numpy", "ndim")
def ndim(m: M, a: Array) -> Value:
    return Const(m.rank(m.read_array(a)))


def count_of(m: M, a: Array) -> Value:
    at = m.read_array(a)
    dims = at.type.dims
    if dims is not None and all(isinstance(d, int) for d in dims):
        import math

        return Const(math.prod(dims))
    return m.number(m.op("Size", at), "int")


attributes("numpy", "size")(count_of)
functions("numpy.size")(count_of)


@functions("numpy.shape")
def shape_function(m: M, a: Value) -> Value:
    return m.shape_of(m.tensor(a))


@functions("numpy.ndim")
def ndim_function(m: M, a: Value) -> Value:
    return Const(m.rank(m.tensor(a)))


@attributes("numpy", "dtype")
def dtype(m: M, a: Array) -> Value:
    from .. import emit

    return Const(emit.numpy_dtype(m.array_type(a).dtype))


@methods("numpy", "astype")
def astype(m: M, a: Array, dtype: Value, copy: Value = TRUE) -> Value:
    if not m.constant_of(copy, "copy") and dtype_name(m, dtype) == m.array_type(a).dtype:
        return a
    return m.array(m.cast(m.read_array(a), dtype_name(m, dtype) or "f64"), a.library)


@methods("numpy", "copy")
def copy(m: M, a: Array) -> Value:
    return m.array(m.read_array(a), a.library)


@methods("numpy", "item")
def item(m: M, a: Array, *index: Value) -> Value:
    if index:
        a = m.array_item(a, Tuple(index))
    at = m.read_array(a)
    kind = {0: "bool", 1: "int", 2: "float"}[_category(at.type.dtype)]
    return m.number(m.number_value(a, {"bool": "bool", "int": "i64", "float": "f64"}[kind]), kind)


def _category(dtype: str) -> int:
    from ..templates import CATEGORY

    return CATEGORY[dtype]


@methods("numpy", "tolist")
def tolist(m: M, a: Array) -> Value:
    at = m.read_array(a)
    rank = m.rank(at)
    if rank == 0:
        return item(m, a)
    if rank == 1:
        iteration = m.iterate(a)
        from ..values import Iteration

        return m.new_list(m.contents_of(Iteration(iteration.length, lambda i: item(m, iteration.item(i)), False)))
    return m.new_list([tolist(m, one) for one in m.items_of(a)])


@methods("numpy", "fill")
def fill(m: M, a: Array, value: Value) -> Value:
    at = m.read_array(a)
    m.write_array(a, m.op("Expand", m.number_value(value, at.type.dtype), m.op("Shape", at)))
    return NONE


for _table in (METHODS, ATTRIBUTES):
    _table.setdefault("numpy", {})

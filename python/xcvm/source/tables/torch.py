"""Rows of torch: functions and methods of tensors. `torch_nn` has torch.nn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core import FALSE, NONE, TRUE
from ..errors import NeedsConstant, PythonError, Refusal
from ..templates import CATEGORY
from ..values import Array, Const, Iteration, Reference, Slice, Tuple, Value
from . import CONSTANTS, CONTEXTS, PURE, Row, attributes, functions, methods
from . import torch_nn as torch_nn
from .einsum import contracted
from .numpy import clamped, count_of, filled, hstacked, ranged, split_bounds, vstacked
from .numpy_selection import diagonal_of
from .shared import (
    axes_of,
    concat,
    dtype_name,
    expanded,
    extreme_index,
    floating,
    is_none,
    logical_reduce,
    moved,
    padded,
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
T = "torch"

PURE.update(["torch.device", "torch.Size", "torch.finfo", "torch.iinfo"])
CONTEXTS.update(
    {
        "torch.no_grad": "nothing", "torch.enable_grad": "nothing", "torch.set_grad_enabled": "nothing", "torch.autograd.no_grad": "nothing",
        "torch.inference_mode": "nothing", "torch.autograd.grad_mode.no_grad": "nothing", "torch.autocast": "nothing",
        "torch.autograd.profiler.record_function": "nothing",
    }
)  # fmt: skip


def method_and_function(name: str, function: bool = True, in_place: bool = True) -> Callable[[Row], Row]:
    """Make a row a function of torch, a method, and a method that changes its tensor."""

    def add(row: Row) -> Row:
        if function:
            functions("torch." + name)(row)
        methods(T, name)(row)
        if in_place:
            methods(T, name + "_")(changing(row))
        return row

    return add


def changing(row: Any) -> Any:
    """Return the row of the method with an underscore, which stores the result in its tensor."""

    def changed(m: M, input: Value, *values: Value, **named: Value) -> Value:
        made = m.call_row(row, [input, *values], named)
        m.check_in_place(input, made)
        m.write_array(input, m.read_array(made))
        return input

    return changed


for _names, _op in {
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tan": "Tan", "tanh": "Tanh", "sinh": "Sinh", "cosh": "Cosh",
    "asin arcsin": "Asin", "acos arccos": "Acos", "atan arctan": "Atan", "asinh arcsinh": "Asinh", "acosh arccosh": "Acosh",
    "atanh arctanh": "Atanh", "erf": "Erf", "sigmoid": "Sigmoid", "ceil": "Ceil", "floor": "Floor", "round": "Round", "isnan": "IsNaN",
    "isinf": "IsInf", "reciprocal": "Reciprocal",
}.items():  # fmt: skip
    for _name in _names.split():
        method_and_function(_name)(unary(_op))
for _names, _op in {"abs absolute": "Abs", "sign": "Sign", "neg negative": "Neg", "relu": "Relu", "bitwise_not": "BitwiseNot"}.items():
    for _name in _names.split():
        method_and_function(_name)(unary(_op, as_float=False))


@method_and_function("erfc")
def erfc(m: M, input: Value) -> Value:
    at = floating(m, input)
    return m.array(m.op("Sub", m.constant(1.0, at.type.dtype), m.op("Erf", at)), T)


@method_and_function("logical_not")
def logical_not(m: M, input: Value) -> Value:
    return m.array(m.op("Not", m.cast(m.tensor(input), "bool")), T)


@method_and_function("square")
def square(m: M, input: Value) -> Value:
    return m.binary("*", input, input)


@method_and_function("rsqrt")
def rsqrt(m: M, input: Value) -> Value:
    return m.array(m.op("Reciprocal", m.op("Sqrt", floating(m, input))), T)


@method_and_function("log2")
def log2(m: M, input: Value) -> Value:
    import math

    return m.binary("*", m.array(m.op("Log", floating(m, input)), T), Const(1 / math.log(2)))


@method_and_function("log10")
def log10(m: M, input: Value) -> Value:
    import math

    return m.binary("*", m.array(m.op("Log", floating(m, input)), T), Const(1 / math.log(10)))


@method_and_function("log1p")
def log1p(m: M, input: Value) -> Value:
    return m.array(m.op("Log", m.read_array(m.binary("+", input, Const(1.0)))), T)


@method_and_function("expm1")
def expm1(m: M, input: Value) -> Value:
    return m.binary("-", m.array(m.op("Exp", floating(m, input)), T), Const(1.0))


@method_and_function("logaddexp", in_place=False)
def logaddexp(m: M, input: Value, other: Value) -> Value:
    a, b = (floating(m, m.array(at, T)) for at in m.matched([m.operand(input, T), m.operand(other, T)], T))
    top, one = m.op("Max", a, b), m.constant(1.0, a.type.dtype)
    # Equal infinities have no difference.
    distance = m.op("Where", m.op("Equal", a, b), m.constant(0.0, a.type.dtype), m.op("Abs", m.op("Sub", a, b)))
    return m.array(m.op("Add", top, m.op("Log", m.op("Add", one, m.op("Exp", m.op("Neg", distance))))), T)


@functions("torch.cdist")
def cdist(m: M, x1: Value, x2: Value, p: Value = Const(2.0), compute_mode: Value = NONE) -> Value:
    a, b = floating(m, x1), floating(m, x2)
    order = float(m.constant_of(p, "order"))
    away = m.op("Sub", m.op("Unsqueeze", a, m.ints([m.rank(a) - 1])), m.op("Unsqueeze", b, m.ints([m.rank(b) - 2])))
    axes = m.ints([-1])
    if order == 0:
        return m.array(m.op("ReduceSum", m.cast(m.op("Not", m.op("Equal", away, m.constant(0, a.type.dtype))), a.type.dtype), axes, keepdims=0), T)
    if order in (1, 2):
        return m.array(m.op(f"ReduceL{int(order)}", away, axes, keepdims=0), T)
    away = m.op("Abs", away)
    if order == float("inf"):
        return m.array(m.op("ReduceMax", away, axes, keepdims=0), T)
    total = m.op("ReduceSum", m.op("Pow", away, m.constant(order, a.type.dtype)), axes, keepdims=0)
    return m.array(m.op("Pow", total, m.constant(1 / order, a.type.dtype)), T)


functions("torch._C._VariableFunctions.cdist")(cdist)


@method_and_function("trunc")
def trunc(m: M, input: Value) -> Value:
    at = m.tensor(input)
    return m.array(m.op("Mul", m.op("Sign", at), m.op("Floor", m.op("Abs", at))), T)


@method_and_function("add")
def add(m: M, input: Value, other: Value, *, alpha: Value = Const(1)) -> Value:
    if not (isinstance(alpha, Const) and alpha.value == 1):
        other = m.binary("*", other, alpha)
    return m.array_binary("+", input, other)


@method_and_function("sub")
def sub(m: M, input: Value, other: Value, *, alpha: Value = Const(1)) -> Value:
    if not (isinstance(alpha, Const) and alpha.value == 1):
        other = m.binary("*", other, alpha)
    return m.array_binary("-", input, other)


functions("torch.subtract")(sub)


@method_and_function("div")
def div(m: M, input: Value, other: Value, *, rounding_mode: Value = NONE) -> Value:
    mode = m.constant_of(rounding_mode, "rounding mode")
    if mode == "floor":
        return m.array_binary("//", input, other)
    made = m.array_binary("/", input, other)
    return trunc(m, made) if mode == "trunc" else made


functions("torch.divide", "torch.true_divide")(div)

for _names, _symbol in {
    "mul multiply": "*", "floor_divide": "//", "remainder": "%", "pow": "**", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
}.items():  # fmt: skip
    for _name in _names.split():

        def _binary(m: M, input: Value, other: Value, _symbol: str = _symbol) -> Value:
            return m.array_binary(_symbol, input, other)

        method_and_function(_name)(_binary)
methods(T, "rsub")(lambda m, a, b: m.array_binary("-", b, a))

for _names, _symbol in {
    "eq": "==", "ne not_equal": "!=", "lt less": "<", "le less_equal": "<=", "gt greater": ">", "ge greater_equal": ">=",
}.items():  # fmt: skip
    for _name in _names.split():

        def _compare(m: M, input: Value, other: Value, _symbol: str = _symbol) -> Value:
            return m.array_compare(_symbol, input, other)

        method_and_function(_name)(_compare)

for _names in ("matmul", "mm", "bmm", "mv"):

    def _matmul(m: M, input: Value, other: Value) -> Value:
        return m.array_binary("@", input, other)

    method_and_function(_names, in_place=False)(_matmul)


@method_and_function("dot", in_place=False)
def dot(m: M, input: Value, other: Value) -> Value:
    return m.array_binary("@", input, other)


@method_and_function("addmm")
def addmm(m: M, input: Value, a: Value, b: Value, *, beta: Value = Const(1), alpha: Value = Const(1)) -> Value:
    return m.binary("+", m.binary("*", input, beta), m.binary("*", m.array_binary("@", a, b), alpha))


functions("torch.baddbmm")(addmm)


@functions("torch.einsum", "torch.functional.einsum")
def einsum(m: M, equation: Value, *operands: Value) -> Value:
    if len(operands) == 1 and m.is_list(operands[0]):
        operands = tuple(m.items_of(operands[0]))
    return m.array(contracted(m, m.constant_of(equation, "equation"), m.matched([m.operand(o, T) for o in operands], T)), T)


@functions("torch.where")
def where(m: M, condition: Value, *choices: Value) -> Value:
    test = m.cast(m.tensor(condition), "bool")
    if not choices:
        found = m.op("NonZero", test)
        return Tuple(tuple(m.array(m.op("Gather", found, m.constant(i, "i64"), axis=0), T) for i in range(m.rank(test))))
    x, y = m.matched([m.operand(v, T) for v in choices], T)
    return m.array(m.op("Where", test, x, y), T)


methods(T, "where")(lambda m, a, condition, other: where(m, condition, a, other))


@method_and_function("clamp")
def clamp(m: M, input: Value, min: Value = NONE, max: Value = NONE) -> Value:
    return clamped(m, input, min, max)


functions("torch.clip")(clamp)
methods(T, "clip")(clamp)


@method_and_function("clamp_min")
def clamp_min(m: M, input: Value, min: Value) -> Value:
    return clamped(m, input, min, NONE)


@method_and_function("clamp_max")
def clamp_max(m: M, input: Value, max: Value) -> Value:
    return clamped(m, input, NONE, max)


for _name, _op in {"maximum": "Max", "minimum": "Min"}.items():

    def _extreme(m: M, input: Value, other: Value, _op: str = _op) -> Value:
        return m.array(m.op(_op, *m.matched([m.operand(input, T), m.operand(other, T)], T)), T)

    method_and_function(_name, in_place=False)(_extreme)


@method_and_function("lerp")
def lerp(m: M, input: Value, end: Value, weight: Value) -> Value:
    return m.binary("+", input, m.binary("*", weight, m.binary("-", end, input)))


# ---- Creation ----


@functions("torch.as_tensor", "torch.asarray")
def as_tensor(m: M, data: Value, dtype: Value = NONE, device: Value = NONE) -> Value:
    data = m.settle(data)
    kind = dtype_name(m, dtype)
    if isinstance(data, Array) and kind in (None, m.array_type(data).dtype):
        return Array(data.storage, T, data.view)
    return m.array(m.tensor(data, kind, T), T)


@functions("torch.tensor")
def tensor(m: M, data: Value, dtype: Value = NONE, device: Value = NONE, requires_grad: Value = NONE) -> Value:
    return m.array(m.tensor(data, dtype_name(m, dtype), T), T)


for _name, _dtype in {"FloatTensor Tensor": "f32", "LongTensor": "i64", "BoolTensor": "bool", "DoubleTensor": "f64"}.items():

    def _typed(m: M, *data: Value, _dtype: str = _dtype) -> Value:
        if len(data) != 1 or m.kind_of(data[0]):
            return filled(m, Tuple(data), Const(0), _dtype, T)
        return m.array(m.tensor(data[0], _dtype, T), T)

    functions(*["torch." + n for n in _name.split()])(_typed)


@functions("torch.from_numpy")
def from_numpy(m: M, ndarray: Value) -> Value:
    ndarray = m.settle(ndarray)
    if isinstance(ndarray, Array):
        return Array(ndarray.storage, T, ndarray.view)
    return m.array(m.tensor(ndarray), T)


def _sizes(m: M, size: tuple[Value, ...]) -> Value:
    return size[0] if len(size) == 1 and not m.kind_of(m.settle(size[0])) else Tuple(size)


def _filled(value: int) -> Any:
    def row(m: M, *size: Value, dtype: Value = NONE, **options: Value) -> Value:
        if "size" in options:
            size = (options["size"],)
        return filled(m, _sizes(m, size), Const(value), dtype_name(m, dtype) or "f32", T)

    return row


functions("torch.zeros", "torch.empty")(_filled(0))
functions("torch.ones")(_filled(1))


@functions("torch.full")
def full(m: M, size: Value, fill_value: Value, *, dtype: Value = NONE, **options: Value) -> Value:
    fill = m.settle(fill_value)
    own = m.array_type(fill).dtype if isinstance(fill, Array) else m.default_dtype(m.kind_of(fill), T)
    return filled(m, size, fill, dtype_name(m, dtype) or own, T)


def _like(value: int) -> Any:
    def row(m: M, input: Value, *, dtype: Value = NONE, **options: Value) -> Value:
        at = m.tensor(input)
        return m.array(m.op("Expand", m.constant(value, dtype_name(m, dtype) or at.type.dtype), m.op("Shape", at)), T)

    return row


functions("torch.zeros_like", "torch.empty_like")(_like(0))
functions("torch.ones_like")(_like(1))


@functions("torch.full_like")
def full_like(m: M, input: Value, fill_value: Value, *, dtype: Value = NONE, **options: Value) -> Value:
    at = m.tensor(input)
    return m.array(m.op("Expand", m.number_value(m.settle(fill_value), dtype_name(m, dtype) or at.type.dtype), m.op("Shape", at)), T)


for _name, _value in {"new_zeros": 0, "new_ones": 1, "new_empty": 0}.items():

    def _new(m: M, a: Array, *size: Value, dtype: Value = NONE, _value: int = _value, **options: Value) -> Value:
        return filled(m, _sizes(m, size), Const(_value), dtype_name(m, dtype) or m.array_type(a).dtype, T)

    methods(T, _name)(_new)


@methods(T, "new_full")
def new_full(m: M, a: Array, size: Value, fill_value: Value, dtype: Value = NONE, **options: Value) -> Value:
    return filled(m, size, fill_value, dtype_name(m, dtype) or m.array_type(a).dtype, T)


@methods(T, "new_tensor")
def new_tensor(m: M, a: Array, data: Value, dtype: Value = NONE, **options: Value) -> Value:
    return m.array(m.tensor(data, dtype_name(m, dtype) or m.array_type(a).dtype, T), T)


@functions("torch.arange")
def arange(m: M, start: Value, end: Value = NONE, step: Value = Const(1), *, dtype: Value = NONE, **options: Value) -> Value:
    return m.array(ranged(m, start, end, step, dtype_name(m, dtype), T), T)


@functions("torch.linspace")
def linspace(m: M, start: Value, end: Value, steps: Value, *, dtype: Value = NONE, **options: Value) -> Value:
    import sys

    made = sys.modules["torch"].linspace(*[m.constant_of(v, "bound") for v in (start, end, steps)])
    return m.array(m.constant(made.numpy(), dtype_name(m, dtype)), T)


@functions("torch.eye")
def eye(m: M, n: Value, columns: Value = NONE, *, dtype: Value = NONE, **options: Value) -> Value:
    import numpy

    rows = m.constant_of(n, "size")
    return m.array(m.constant(numpy.eye(rows, rows if is_none(columns) else m.constant_of(columns)), dtype_name(m, dtype) or "f32"), T)


for _name, _op in {"randn": "RandomNormal", "rand": "RandomUniform"}.items():

    def _random(m: M, *size: Value, dtype: Value = NONE, _op: str = _op, **options: Value) -> Value:
        return m.array(m.op(_op, m.sizes(m.size_list(_sizes(m, size or (options["size"],)))), dtype=dtype_name(m, dtype) or "f32"), T)

    def _random_like(m: M, input: Value, *, dtype: Value = NONE, _op: str = _op, **options: Value) -> Value:
        at = m.tensor(input)
        return m.array(m.op(_op, m.op("Shape", at), dtype=dtype_name(m, dtype) or at.type.dtype), T)

    functions("torch." + _name)(_random)
    functions(f"torch.{_name}_like")(_random_like)


@functions("torch.bernoulli")
@methods(T, "bernoulli")
def bernoulli(m: M, input: Value, *, generator: Value = NONE) -> Value:
    return m.array(m.op("Bernoulli", floating(m, input)), T)


@functions("torch.normal")
def normal(m: M, mean: Value, std: Value = Const(1.0), size: Value = NONE, *, dtype: Value = NONE, **options: Value) -> Value:
    if is_none(size):
        base = m.binary("+", mean, m.binary("*", std, Const(0.0)))
        if not isinstance(base, Array):
            raise Refusal("these arguments of 'normal' are not supported", "Give the size")
        shape, kind = m.op("Shape", m.read_array(base)), m.array_type(base).dtype
    else:
        shape, kind = m.sizes(m.size_list(size)), dtype_name(m, dtype) or "f32"
    drawn = m.array(m.op("RandomNormal", shape, dtype=kind), T)
    return m.binary("+", mean, m.binary("*", std, drawn))

# ---- Reductions ----


def _reduced(op: str, as_float: bool = False, as_sum: bool = False) -> Any:
    def row(m: M, input: Value, dim: Value = NONE, keepdim: Value = FALSE, *, dtype: Value = NONE, **names: Value) -> Value:
        dim, keepdim = names.get("axis", dim), names.get("keepdims", keepdim)
        at = floating(m, input) if as_float else m.tensor(input)
        kind = dtype_name(m, dtype)
        at = sum_type(m, at, kind) if as_sum else m.cast(at, kind) if kind else at
        return m.array(reduce(m, op, at, dim, keepdim), T)

    row.__name__ = op
    return row


for _names, _row in {
    "sum": _reduced("ReduceSum", as_sum=True), "prod": _reduced("ReduceProd", as_sum=True), "mean": _reduced("ReduceMean", as_float=True),
    "amax": _reduced("ReduceMax"), "amin": _reduced("ReduceMin"), "logsumexp": _reduced("ReduceLogSumExp", as_float=True),
}.items():  # fmt: skip
    method_and_function(_names, in_place=False)(_row)


def _extremes(op: str, index: str, pair: str) -> Any:
    def row(m: M, input: Value, dim: Value = NONE, keepdim: Value = FALSE, **names: Value) -> Value:
        dim = m.settle(names.get("axis", names.get("other", dim)))
        at = m.tensor(input)
        if is_none(dim):
            return m.array(reduce(m, op, at, NONE, FALSE), T)
        if isinstance(dim, Array):
            return m.array(m.op(pair, *m.matched([m.operand(input, T), dim], T)), T)
        return _pair(m, [m.array(reduce(m, op, at, dim, keepdim), T), m.array(extreme_index(m, index, at, dim, keepdim), T)])

    row.__name__ = op
    return row


def _pair(m: M, items: list[Value]) -> Value:
    return Tuple(tuple(items), ValuesIndices)


from typing import NamedTuple  # noqa: E402


class ValuesIndices(NamedTuple):
    """What torch returns for max, min, sort and topk along an axis."""

    values: Any
    indices: Any


method_and_function("max", in_place=False)(_extremes("ReduceMax", "ArgMax", "Max"))
method_and_function("min", in_place=False)(_extremes("ReduceMin", "ArgMin", "Min"))


def _indexed(op: str) -> Any:
    def row(m: M, input: Value, dim: Value = NONE, keepdim: Value = FALSE, **names: Value) -> Value:
        return m.array(extreme_index(m, op, m.tensor(input), names.get("axis", dim), keepdim), T)

    row.__name__ = op
    return row


method_and_function("argmax", in_place=False)(_indexed("ArgMax"))
method_and_function("argmin", in_place=False)(_indexed("ArgMin"))


def _logical(is_any: bool) -> Any:
    def row(m: M, input: Value, dim: Value = NONE, keepdim: Value = FALSE) -> Value:
        return m.array(logical_reduce(m, is_any, m.tensor(input), dim, keepdim), T)

    return row


method_and_function("any", in_place=False)(_logical(True))
method_and_function("all", in_place=False)(_logical(False))


def _spread(root: bool) -> Any:
    def row(m: M, input: Value, dim: Value = NONE, unbiased: Value = TRUE, keepdim: Value = FALSE, *, correction: Value = NONE) -> Value:
        if isinstance(dim, Const) and isinstance(dim.value, bool):
            dim, unbiased = NONE, dim
        number = float(bool(m.constant_of(unbiased))) if is_none(correction) else m.constant_of(correction)
        made = variance(m, floating(m, input), dim, keepdim, int(number))
        return m.array(m.op("Sqrt", made) if root else made, T)

    return row


method_and_function("var", in_place=False)(_spread(False))
method_and_function("std", in_place=False)(_spread(True))


@functions("torch.norm", "torch.functional.norm", "torch.linalg.norm", "torch.linalg.vector_norm")
def norm(m: M, input: Value, p: Value = Const(2), dim: Value = NONE, keepdim: Value = FALSE, **options: Value) -> Value:
    order = m.constant_of(options.get("ord", p), "order of a norm")
    at = floating(m, input)
    if order in (2, 2.0, "fro", None):
        return m.array(reduce(m, "ReduceL2", at, dim, keepdim), T)
    if order == 1:
        return m.array(reduce(m, "ReduceL1", at, dim, keepdim), T)
    if order == float("inf"):
        return m.array(reduce(m, "ReduceMax", m.op("Abs", at), dim, keepdim), T)
    total = reduce(m, "ReduceSum", m.op("Pow", m.op("Abs", at), m.constant(order, at.type.dtype)), dim, keepdim)
    return m.array(m.op("Pow", total, m.constant(1 / order, at.type.dtype)), T)


methods(T, "norm")(norm)


@method_and_function("cumsum")
def cumsum(m: M, input: Value, dim: Value = NONE, *, dtype: Value = NONE, axis: Value = NONE) -> Value:
    at = sum_type(m, m.tensor(input), dtype_name(m, dtype))
    return m.array(m.op("CumSum", at, m.constant(m.axis(dim if is_none(axis) else axis, m.rank(at)), "i64")), T)


@method_and_function("cumprod")
def cumprod(m: M, input: Value, dim: Value) -> Value:
    at = sum_type(m, m.tensor(input), None)
    return m.array(m.op("CumProd", at, m.constant(m.axis(dim, m.rank(at)), "i64")), T)


@method_and_function("topk", in_place=False)
def topk(m: M, input: Value, k: Value, dim: Value = Const(-1), largest: Value = TRUE, sorted: Value = TRUE) -> Value:
    at = m.tensor(input)
    size = m.op("Reshape", m.number_value(m.integer(k), "i64"), m.ints([1]))
    made = m.op("TopK", at, size, count=2, axis=m.axis(dim, m.rank(at)), largest=int(m.constant_of(largest)))
    return _pair(m, [m.array(v, T) for v in made])


@method_and_function("sort", in_place=False)
def sort(m: M, input: Value, dim: Value = Const(-1), descending: Value = FALSE, stable: Value = NONE) -> Value:
    at = m.tensor(input)
    axis = m.axis(dim, m.rank(at))
    size = m.sizes([m.dimension(at, axis)])
    made = m.op("TopK", at, size, count=2, axis=axis, largest=int(m.constant_of(descending)))
    return _pair(m, [m.array(v, T) for v in made])


@method_and_function("argsort", in_place=False)
def argsort(m: M, input: Value, dim: Value = Const(-1), descending: Value = FALSE) -> Value:
    return m.item(sort(m, input, dim, descending), Const(1))


# ---- Shapes ----


@functions("torch.cat", "torch.concat")
def cat(m: M, tensors: Value, dim: Value = Const(0), *, axis: Value = NONE) -> Value:
    return concat(m, tensors, dim if is_none(axis) else axis, T)


@functions("torch.stack")
def stack_(m: M, tensors: Value, dim: Value = Const(0)) -> Value:
    return stack(m, tensors, dim, T)


functions("torch.hstack")(lambda m, tensors: hstacked(m, tensors, T))
functions("torch.vstack")(lambda m, tensors: vstacked(m, tensors, T))


def _array(m: M, value: Value) -> Array:
    value = m.settle(value)
    return value if isinstance(value, Array) else m.array(m.tensor(value), T)


@functions("torch.reshape")
def reshape_(m: M, input: Value, shape: Value) -> Value:
    return reshape(m, _array(m, input), m.size_list(shape))


@methods(T, "reshape", "view")
def view(m: M, a: Array, *shape: Value, **options: Value) -> Value:
    if len(shape) == 1 and isinstance(shape[0], Const) and not m.kind_of(shape[0]):
        return m.array(m.op("BitCast", m.read_array(a), to=dtype_name(m, shape[0])), T)
    return reshape(m, a, m.size_list(_sizes(m, shape or (options["shape"],))))


methods(T, "view_as", "reshape_as")(lambda m, a, other: reshape(m, a, m.shape_of(m.read_array(other)).items))


@method_and_function("flatten", in_place=False)
def flatten(m: M, input: Value, start_dim: Value = Const(0), end_dim: Value = Const(-1)) -> Value:
    a = _array(m, input)
    at = m.read_array(a)
    rank = m.rank(at)
    if rank == 0:
        return reshape(m, a, (Const(1),))
    first, last = m.axis(start_dim, rank), m.axis(end_dim, rank)
    sizes = [m.dimension(at, i) for i in range(first)] + [Const(-1)] + [m.dimension(at, i) for i in range(last + 1, rank)]
    if first and all(not isinstance(s, Const) or s.value != 0 for s in sizes[:first]) and any(not isinstance(s, Const) for s in sizes):
        size: Value = Const(1)
        for index in range(first, last + 1):
            size = m.binary("*", size, m.dimension(at, index))
        sizes[first] = size
    return reshape(m, a, tuple(sizes))


@method_and_function("unflatten", function=False, in_place=False)
def unflatten(m: M, input: Value, dim: Value, sizes: Value) -> Value:
    a = _array(m, input)
    at = m.read_array(a)
    axis = m.axis(dim, m.rank(at))
    parts = [m.dimension(at, i) for i in range(m.rank(at))]
    return reshape(m, a, tuple([*parts[:axis], *m.size_list(sizes), *parts[axis + 1 :]]))


@method_and_function("squeeze", in_place=False)
def squeeze(m: M, input: Value, dim: Value = NONE) -> Value:
    a = _array(m, input)
    at = m.read_array(a)
    axes = axes_of(m, dim, m.rank(at))
    dims = at.type.dims or ()
    if axes is None:
        if any(not isinstance(d, int) for d in dims):
            raise NeedsConstant("squeeze() without dim needs sizes that are known when the program is compiled")
        axes = [i for i, d in enumerate(dims) if d == 1]
    else:
        if any(not isinstance(dims[i], int) for i in axes):
            raise NeedsConstant("squeeze() needs a size that is known when the program is compiled")
        axes = [i for i in axes if dims[i] == 1]
    return shape_view(m, a, lambda base: m.op("Squeeze", base, m.ints(axes)), lambda own: squeezed(own, axes)) if axes else a


@method_and_function("unsqueeze", in_place=False)
def unsqueeze(m: M, input: Value, dim: Value) -> Value:
    a = _array(m, input)
    axis = m.axis(dim, m.rank(m.read_array(a)) + 1)
    return shape_view(m, a, lambda base: m.op("Unsqueeze", base, m.ints([axis])), lambda own: expanded(own, [axis]))


@functions("torch.permute")
def permute(m: M, input: Value, dims: Value) -> Value:
    a = _array(m, input)
    rank = m.rank(m.read_array(a))
    return transpose(m, a, [m.axis(item, rank) for item in m.items_of(dims)])


@methods(T, "permute")
def permute_method(m: M, a: Array, *dims: Value) -> Value:
    return permute(m, a, _sizes(m, dims))


@method_and_function("transpose", in_place=False)
def transpose_(m: M, input: Value, dim0: Value, dim1: Value) -> Value:
    a = _array(m, input)
    order = list(range(m.rank(m.read_array(a))))
    if not order:
        return a
    i, j = m.axis(dim0, len(order)), m.axis(dim1, len(order))
    order[i], order[j] = order[j], order[i]
    return transpose(m, a, order)


functions("torch.swapaxes", "torch.swapdims")(transpose_)
methods(T, "swapaxes", "swapdims")(transpose_)


@method_and_function("t", in_place=False)
def t(m: M, input: Value) -> Value:
    a = _array(m, input)
    return transpose(m, a, list(range(m.rank(m.read_array(a))))[::-1])


attributes(T, "T")(t)
attributes(T, "mT")(lambda m, a: transpose_(m, a, Const(-2), Const(-1)))


@method_and_function("movedim", in_place=False)
def movedim(m: M, input: Value, source: Value, destination: Value) -> Value:
    return moved(m, _array(m, input), source, destination)


@methods(T, "expand")
def expand(m: M, a: Array, *sizes: Value) -> Value:
    at = m.read_array(a)
    wanted = list(m.size_list(_sizes(m, sizes)))
    rank, more = m.rank(at), len(wanted) - m.rank(at)
    parts = [m.dimension(at, i - more) if isinstance(s, Const) and s.value == -1 and i >= more else s for i, s in enumerate(wanted)]
    if more < 0:
        raise PythonError(RuntimeError(f"expand(): {len(wanted)} sizes for a tensor of rank {rank}"))
    shape = m.sizes(parts)
    return m.view(a, lambda base: m.op("Expand", base, shape), None)


@methods(T, "expand_as")
def expand_as(m: M, a: Array, other: Array) -> Value:
    shape = m.op("Shape", m.read_array(other))
    return m.view(a, lambda base: m.op("Expand", base, shape), None)


functions("torch.broadcast_to")(lambda m, input, size: expand(m, input, size))


@methods(T, "repeat", "tile")
def repeat(m: M, a: Array, *sizes: Value) -> Value:
    at = m.read_array(a)
    wanted = list(m.size_list(_sizes(m, sizes)))
    more = len(wanted) - m.rank(at)
    if more > 0:
        at = m.op("Unsqueeze", at, m.ints(range(more)))
    wanted = [Const(1)] * -more + wanted
    return m.array(m.op("Tile", at, m.sizes(wanted)), T)


functions("torch.tile")(lambda m, input, dims: repeat(m, input, dims))


def _pieces(m: M, a: Array, bounds: list[tuple[Value, Value]], axis: int) -> Value:
    return Tuple(tuple(pieces(m, a, axis, bounds)))


@functions("torch.split", "torch.functional.split")
def split(m: M, tensor: Value, split_size_or_sections: Value, dim: Value = Const(0)) -> Value:
    a = _array(m, tensor)
    at = m.read_array(a)
    axis = m.axis(dim, m.rank(at))
    sections = m.settle(split_size_or_sections)
    if m.kind_of(sections):
        size = m.dimension(at, axis)
        if not isinstance(size, Const) or not isinstance(sections, Const):
            made = m.op("SplitToSequence", at, m.number_value(sections, "i64"), axis=axis)
            from ..templates import ArrayOf
            from ..values import Sequence

            return Sequence((made,), ArrayOf(m.op("SequenceAt", made, m.constant(0, "i64")).type, T), tuple)
        step = sections.value
        return _pieces(m, a, [(Const(i), Const(min(i + step, size.value))) for i in range(0, size.value, step)], axis)
    sizes = m.contents_of(sections)
    if not isinstance(sizes, Tuple):
        made = m.op("SplitToSequence", at, m.stack_sequence(m.array_sequence(sizes, T), 0), axis=axis)
        from ..templates import ArrayOf
        from ..values import Sequence

        return Sequence((made,), ArrayOf(m.op("SequenceAt", made, m.constant(0, "i64")).type, T), tuple)
    start: Value = Const(0)
    bounds = []
    for one in sizes.items:
        stop = m.binary("+", start, m.integer(one))
        bounds.append((start, stop))
        start = stop
    return _pieces(m, a, bounds, axis)


methods(T, "split", "split_with_sizes")(split)
functions("torch.split_with_sizes")(split)


@method_and_function("chunk", in_place=False)
def chunk(m: M, input: Value, chunks: Value, dim: Value = Const(0)) -> Value:
    a = _array(m, input)
    at = m.read_array(a)
    axis = m.axis(dim, m.rank(at))
    count, size = m.constant_of(chunks, "number of chunks"), m.dimension(at, axis)
    if not isinstance(size, Const):
        step = m.binary("//", m.binary("+", size, Const(count - 1)), Const(count))
        return _pieces(m, a, [(m.binary("*", step, Const(i)), m.binary("*", step, Const(i + 1))) for i in range(count)], axis)
    step = max(-(-size.value // count), 1)
    return _pieces(m, a, [(Const(i), Const(min(i + step, size.value))) for i in range(0, size.value, step)], axis)


@method_and_function("tensor_split", in_place=False)
def tensor_split(m: M, input: Value, indices_or_sections: Value, dim: Value = Const(0)) -> Value:
    a = _array(m, input)
    axis = m.axis(dim, m.rank(m.read_array(a)))
    return _pieces(m, a, split_bounds(m, m.read_array(a), axis, indices_or_sections, False), axis)


@method_and_function("unbind", in_place=False)
def unbind(m: M, input: Value, dim: Value = Const(0)) -> Value:
    a = _array(m, input)
    at = m.read_array(a)
    axis = m.axis(dim, m.rank(at))
    size = m.dimension(at, axis)
    dots = [Slice(NONE, NONE, NONE)] * axis
    if isinstance(size, Const):
        return Tuple(tuple(m.array_item(a, Tuple((*dots, Const(i)))) for i in range(size.value)))
    return m.as_tuple(m.contents_of(Iteration(size, lambda i: m.array_item(a, Tuple((*dots, i))), False)))


@method_and_function("select", in_place=False)
def select(m: M, input: Value, dim: Value, index: Value) -> Value:
    a = _array(m, input)
    axis = m.axis(dim, m.rank(m.read_array(a)))
    return m.array_item(a, Tuple((*[Slice(NONE, NONE, NONE)] * axis, index)))


@method_and_function("narrow", in_place=False)
def narrow(m: M, input: Value, dim: Value, start: Value, length: Value) -> Value:
    a = _array(m, input)
    axis = m.axis(dim, m.rank(m.read_array(a)))
    return m.array_item(a, Tuple((*[Slice(NONE, NONE, NONE)] * axis, Slice(start, m.binary("+", start, length), NONE))))


@method_and_function("flip", in_place=False)
def flip(m: M, input: Value, *dims: Value) -> Value:
    at = m.tensor(input)
    rank = m.rank(at)
    axes = axes_of(m, _sizes(m, dims), rank) or []
    last = (1 << 63) - 1
    count = len(axes)
    return m.array(m.op("Slice", at, m.ints([last] * count), m.ints([-last] * count), m.ints(axes), m.ints([-1] * count)), T)


for _name, _upper in {"triu": 1, "tril": 0}.items():

    def _triangle(m: M, input: Value, diagonal: Value = Const(0), _upper: int = _upper) -> Value:
        return m.array(m.op("Trilu", m.tensor(input), m.number_value(diagonal, "i64"), upper=_upper), T)

    method_and_function(_name)(_triangle)


@method_and_function("diagonal", in_place=False)
def diagonal(m: M, input: Value, offset: Value = Const(0), dim1: Value = Const(0), dim2: Value = Const(1)) -> Value:
    return diagonal_of(m, _array(m, input), offset, dim1, dim2)


@methods(T, "unfold")
def unfold(m: M, a: Array, dimension: Value, size: Value, step: Value) -> Value:
    rank = m.rank(m.read_array(a))
    axis, count, stride = m.axis(dimension, rank), m.constant_of(size, "size"), m.constant_of(step, "step")

    def read(base: Any) -> Any:
        windows = m.binary("+", m.binary("//", m.binary("-", m.dimension(base, axis), Const(count)), Const(stride)), Const(1))
        first = m.op("Range", m.constant(0, "i64"), m.number_value(m.binary("*", windows, Const(stride)), "i64"), m.constant(stride, "i64"))
        places = m.op("Add", m.op("Unsqueeze", first, m.ints([1])), m.constant([list(range(count))], "i64"))
        made = m.op("Gather", base, places, axis=axis)
        return m.op("Transpose", made, perm=[i for i in range(rank + 1) if i != axis + 1] + [axis + 1])

    return shape_view(m, a, read)


# ---- Selection ----


@method_and_function("gather", in_place=False)
def gather(m: M, input: Value, dim: Value, index: Value, *, sparse_grad: Value = NONE) -> Value:
    at, where_ = m.tensor(input), m.tensor(index, "i64")
    axis = m.axis(dim, m.rank(at))
    dims, own = where_.type.dims, at.type.dims
    if any(i != axis and a != b for i, (a, b) in enumerate(zip(dims, own))):
        # Torch lets the index be smaller on other axes.
        others = [i for i in range(len(own)) if i != axis]
        shape = m.op("Shape", where_)
        ends = m.op("Gather", shape, m.ints(others), axis=0)
        at = m.op("Slice", at, m.ints([0] * len(others)), ends, m.ints(others))
    return m.array(m.op("GatherElements", at, where_, axis=axis), T)


@method_and_function("index_select", in_place=False)
def index_select(m: M, input: Value, dim: Value, index: Value) -> Value:
    at = m.tensor(input)
    return m.array(m.op("Gather", at, m.tensor(index, "i64"), axis=m.axis(dim, m.rank(at))), T)


@method_and_function("take_along_dim", in_place=False)
def take_along_dim(m: M, input: Value, indices: Value, dim: Value) -> Value:
    return gather(m, input, dim, indices)


@method_and_function("masked_fill")
def masked_fill(m: M, input: Value, mask: Value, value: Value) -> Value:
    at = m.tensor(input)
    return m.array(m.op("Where", m.cast(m.tensor(mask), "bool"), m.number_value(m.settle(value), at.type.dtype), at), T)


@method_and_function("masked_select", in_place=False)
def masked_select(m: M, input: Value, mask: Value) -> Value:
    at, test = m.tensor(input), m.tensor(mask)
    shape = m.broadcast_shape([at, m.cast(test, at.type.dtype)])
    return m.array(m.op("Compress", m.op("Reshape", m.op("Expand", at, shape), m.ints([-1])), m.op("Reshape", m.op("Expand", test, shape), m.ints([-1])), axis=0), T)


@method_and_function("nonzero", in_place=False)
def nonzero(m: M, input: Value, *, as_tuple: Value = FALSE) -> Value:
    at = m.tensor(input)
    found = m.op("NonZero", at)
    if m.constant_of(as_tuple):
        return Tuple(tuple(m.array(m.op("Gather", found, m.constant(i, "i64"), axis=0), T) for i in range(m.rank(at))))
    return m.array(m.op("Transpose", found, perm=[1, 0]), T)


def _scatter(reduction: str) -> Any:
    def row(m: M, input: Value, dim: Value, index: Value, src: Value = NONE, value: Value = NONE) -> Value:
        at, where_ = m.tensor(input), m.tensor(index, "i64")
        source = m.settle(src if is_none(value) else value)
        if m.kind_of(source):
            updates = m.op("Expand", m.number_value(source, at.type.dtype), m.op("Shape", where_))
        else:
            updates = m.cast(m.tensor(source), at.type.dtype)
            if updates.type.dims != where_.type.dims:
                rank = m.rank(where_)
                updates = m.op("Slice", updates, m.ints([0] * rank), m.op("Shape", where_))
        return m.array(m.op("ScatterElements", at, where_, updates, axis=m.axis(dim, m.rank(at)), reduction=reduction), T)

    return row


method_and_function("scatter")(_scatter("none"))
method_and_function("scatter_add")(_scatter("add"))


@method_and_function("index_add")
def index_add(m: M, input: Value, dim: Value, index: Value, source: Value) -> Value:
    at, updates = m.tensor(input), m.tensor(source)
    axis, rank = m.axis(dim, m.rank(at)), m.rank(at)
    where_ = m.op("Reshape", m.tensor(index, "i64"), m.ints([-1 if i == axis else 1 for i in range(rank)]))
    where_ = m.op("Expand", where_, m.op("Shape", updates))
    return m.array(m.op("ScatterElements", at, where_, updates, axis=axis, reduction="add"), T)


@functions("torch.meshgrid", "torch.functional.meshgrid")
def meshgrid(m: M, *tensors: Value, indexing: Value = Const("ij")) -> Value:
    if len(tensors) == 1 and m.is_list(tensors[0]):
        tensors = tuple(m.items_of(tensors[0]))
    parts = [m.tensor(one) for one in tensors]
    swapped = m.constant_of(indexing) == "xy" and len(parts) > 1
    order = [1, 0, *range(2, len(parts))] if swapped else list(range(len(parts)))
    shaped = [m.op("Reshape", parts[p], m.ints([-1 if i == order.index(p) else 1 for i in range(len(parts))])) for p in range(len(parts))]
    shape = m.sizes([m.dimension(parts[p], 0) for p in order])
    return Tuple(tuple(m.array(m.op("Expand", s, shape), T) for s in shaped))


# ---- Attributes and methods ----


@attributes(T, "shape")
def shape(m: M, a: Array) -> Value:
    return m.shape_of(m.read_array(a))


@methods(T, "size")
def size(m: M, a: Array, dim: Value = NONE) -> Value:
    at = m.read_array(a)
    return m.shape_of(at) if is_none(dim) else m.dimension(at, m.axis(dim, m.rank(at)))


attributes(T, "ndim")(lambda m, a: Const(m.rank(m.read_array(a))))
methods(T, "dim", "ndimension")(lambda m, a: Const(m.rank(m.read_array(a))))
methods(T, "numel", "nelement")(count_of)
functions("torch.numel")(count_of)


def _torch_dtype(dtype: str) -> Any:
    import sys

    names = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8", "bool": "bool"}
    return getattr(sys.modules["torch"], names[dtype])


attributes(T, "dtype")(lambda m, a: Const(_torch_dtype(m.array_type(a).dtype)))


@attributes(T, "device")
def device(m: M, a: Array) -> Value:
    import sys

    return Const(sys.modules["torch"].device("cpu"))


for _name, _value in {"is_cuda": False, "is_sparse": False, "is_quantized": False, "requires_grad": False, "is_nested": False, "is_mkldnn": False, "is_leaf": True, "is_meta": False}.items():
    attributes(T, _name)(lambda m, a, _value=_value: Const(_value))
attributes(T, "data")(lambda m, a: a)
attributes(T, "grad")(lambda m, a: NONE)


@methods(T, "is_floating_point")
def is_floating_point(m: M, a: Array) -> Value:
    return Const(CATEGORY[m.array_type(a).dtype] == 2)


functions("torch.is_floating_point")(is_floating_point)
functions("torch.is_tensor")(lambda m, obj: Const(isinstance(m.settle(obj), Array)))


@methods(T, "is_contiguous")
def is_contiguous(m: M, a: Array, **options: Value) -> Value:
    if a.view is None:
        return TRUE
    own = a.view.layout
    if own is None:
        raise Refusal("the order of the elements of this array in memory is not known")
    return Const(bool(own.flags.c_contiguous))


methods(T, "is_complex")(lambda m, a: FALSE)
functions("torch.is_grad_enabled")(lambda m: FALSE)


@methods(T, "contiguous")
def contiguous(m: M, a: Array, **options: Value) -> Value:
    if a.view is None:
        return a
    own = a.view.layout
    if own is not None:
        return a if own.flags.c_contiguous else m.array(m.read_array(a), T)
    # Whether it is a copy depends on strides that are not known.
    return m.view(a, lambda base: m.op("Identity", base), None, None, False)


@methods(T, "detach", "cpu", "requires_grad_", "detach_", "pin_memory")
def same(m: M, a: Array, *values: Value, **options: Value) -> Value:
    return a


@methods(T, "clone")
def clone(m: M, a: Array, **options: Value) -> Value:
    return m.array(m.read_array(a), T)


functions("torch.clone")(lambda m, input, **o: clone(m, input))


@methods(T, "numpy")
def numpy_(m: M, a: Array) -> Value:
    return Array(a.storage, "numpy", a.view)


@methods(T, "to", "type")
def to(m: M, a: Array, *values: Value, dtype: Value = NONE, **options: Value) -> Value:
    kind = dtype_name(m, dtype)
    for value in values:
        value = m.settle(value)
        if isinstance(value, Array):
            kind = m.array_type(value).dtype
        elif isinstance(value, Const) and str(value.value).startswith("torch."):
            kind = dtype_name(m, value)
    if kind is None or kind == m.array_type(a).dtype:
        return a
    return m.array(m.cast(m.read_array(a), kind), T)


methods(T, "type_as")(lambda m, a, other: to(m, a, other))
for _names, _dtype in {"float": "f32", "double": "f64", "half": "f16", "long": "i64", "int": "i32", "bool": "bool", "byte": "u8", "short": "i16", "char": "i8"}.items():

    def _cast(m: M, a: Array, _dtype: str = _dtype) -> Value:
        return a if m.array_type(a).dtype == _dtype else m.array(m.cast(m.read_array(a), _dtype), T)

    methods(T, _names)(_cast)


@methods(T, "item")
def item(m: M, a: Array) -> Value:
    kind = {0: "bool", 1: "int", 2: "float"}[CATEGORY[m.array_type(a).dtype]]
    return m.number(m.number_value(a, {"bool": "bool", "int": "i64", "float": "f64"}[kind]), kind)


@methods(T, "tolist")
def tolist(m: M, a: Array) -> Value:
    from .numpy import tolist as other

    return other(m, a)


@methods(T, "copy_")
def copy_(m: M, a: Array, src: Value, *rest: Value) -> Value:
    made = m.cast(m.tensor(src), m.array_type(a).dtype)
    m.write_array(a, m.broadcast_like(made, a))
    return a


@methods(T, "fill_")
def fill_(m: M, a: Array, value: Value) -> Value:
    at = m.read_array(a)
    m.write_array(a, m.op("Expand", m.number_value(m.settle(value), at.type.dtype), m.op("Shape", at)))
    return a


methods(T, "zero_")(lambda m, a: fill_(m, a, Const(0)))


@methods(T, "set_data")
def set_data(m: M, a: Array, value: Value) -> Value:
    m.write_array(a, m.tensor(value))
    return a


for _name in ("torch.jit.is_scripting", "torch.jit.is_tracing", "torch._C._get_tracing_state", "torch.overrides.has_torch_function",
              "torch._jit_internal.is_scripting", "torch.is_autocast_enabled", "torch.overrides.has_torch_function_unary",
              "torch.overrides.has_torch_function_variadic", "torch._C._has_torch_function", "torch._C._has_torch_function_unary",
              "torch._C._has_torch_function_variadic", "torch.nn.functional.has_torch_function", "torch._C._is_tracing",
              "torch.cuda.is_available", "torch.onnx.is_in_onnx_export"):  # fmt: skip

    def _no(m: M, *values: Value, **options: Value) -> Value:
        return FALSE

    functions(_name)(_no)
functions("torch._assert")(lambda m, condition, message: m.run_check(condition, message))


@functions("torch.nn.utils.rnn.pad_sequence")
def pad_sequence(m: M, sequences: Value, batch_first: Value = FALSE, padding_value: Value = Const(0.0)) -> Value:
    at = padded(m, sequences, None, padding_value, T)
    if not m.constant_of(batch_first):
        rank = m.rank(at)
        at = m.op("Transpose", at, perm=[1, 0, *range(2, rank)])
    return m.array(at, T)


__all__ = ["CONSTANTS", "Reference"]

"""Rows of NumPy that sort, select, and take diagonals."""

from __future__ import annotations

from typing import Any

from ..core import FALSE, NONE
from ..errors import PythonError
from ..values import Array, Const, Tuple, Value
from . import functions, methods
from .einsum import contracted
from .numpy import _array
from .shared import is_none, moved, shape_view, transpose

M = Any
N = "numpy"


def _in_order(m: M, a: Value, axis: Value) -> tuple[Any, Any]:
    """Return the elements sorted along an axis, and their indices. Equal ones stay in order."""
    at = m.tensor(a)
    if is_none(m.settle(axis)):
        at, axis = m.op("Reshape", at, m.ints([-1])), Const(-1)
    number = m.axis(axis, m.rank(at))
    own = at.type.dtype
    if own == "bool":
        at = m.cast(at, "u8")
    values, indices = m.op("TopK", at, m.sizes([m.dimension(at, number)]), count=2, axis=number, largest=0)
    return m.cast(values, own), indices


@functions("numpy.sort")
def sort(m: M, a: Value, axis: Value = Const(-1), kind: Value = NONE) -> Value:
    return m.array(_in_order(m, a, axis)[0], N)


@functions("numpy.argsort")
@methods("numpy", "argsort")
def argsort(m: M, a: Value, axis: Value = Const(-1), kind: Value = NONE) -> Value:
    return m.array(_in_order(m, a, axis)[1], N)


@methods("numpy", "sort")
def sort_method(m: M, a: Array, axis: Value = Const(-1), kind: Value = NONE) -> Value:
    m.write_array(a, _in_order(m, a, axis)[0])
    return NONE


@functions("numpy.unique")
def unique(
    m: M, ar: Value, return_index: Value = FALSE, return_inverse: Value = FALSE, return_counts: Value = FALSE, axis: Value = NONE
) -> Value:
    at = m.tensor(ar)
    where = {} if is_none(m.settle(axis)) else {"axis": m.axis(axis, m.rank(at))}
    own = at.type.dtype
    if own == "bool":
        at = m.cast(at, "u8")
    made = m.op("Unique", at, count=4, **where)
    wanted = [True, *[bool(m.constant_of(flag, "flag")) for flag in (return_index, return_inverse, return_counts)]]
    found = [m.array(m.cast(one, own) if i == 0 else one, N) for i, one in enumerate(made) if wanted[i]]
    return found[0] if len(found) == 1 else Tuple(tuple(found))


@functions("numpy.moveaxis")
def moveaxis(m: M, a: Value, source: Value, destination: Value) -> Value:
    return moved(m, _array(m, a), source, destination)


@functions("numpy.rollaxis")
def rollaxis(m: M, a: Value, axis: Value, start: Value = Const(0)) -> Value:
    value = _array(m, a)
    order = list(range(m.rank(m.read_array(value))))
    source, target = m.axis(axis, len(order)), m.constant_of(start, "start")
    target += len(order) if target < 0 else 0
    order.remove(source)
    order.insert(target - (1 if source < target else 0), source)
    return transpose(m, value, order)


for _name, _upper in {"triu": 1, "tril": 0}.items():

    def _triangle(m: M, m_: Value, k: Value = Const(0), _upper: int = _upper) -> Value:
        return m.array(m.op("Trilu", m.tensor(m_), m.number_value(k, "i64"), upper=_upper), N)

    functions("numpy." + _name)(_triangle)


def diagonal_of(m: M, a: Value, offset: Value, axis1: Value, axis2: Value) -> Array:
    """Return a view of a diagonal, which is the last axis."""
    value = _array(m, a)
    rank = m.rank(m.read_array(value))
    first, second = m.axis(axis1, rank), m.axis(axis2, rank)
    if first == second:
        raise PythonError(ValueError("axis1 and axis2 cannot be the same"))
    shift = m.constant_of(offset, "offset")
    order = [i for i in range(rank) if i not in (first, second)] + [first, second]

    def read(base: Any) -> Any:
        at = m.op("Transpose", base, perm=order)
        rows, columns = m.dimension(at, rank - 2), m.dimension(at, rank - 1)
        count = m.minimum(m.binary("-", rows, Const(max(-shift, 0))), m.binary("-", columns, Const(max(shift, 0))))
        zero, one = m.constant(0, "i64"), m.constant(1, "i64")
        places = m.op("Range", zero, m.op("Max", m.number_value(count, "i64"), zero), one)
        cell = m.op("Add", m.op("Mul", m.op("Add", places, m.constant(max(-shift, 0), "i64")), m.number_value(columns, "i64")),
                    m.op("Add", places, m.constant(max(shift, 0), "i64")))  # fmt: skip
        flat = m.reshape(at, [*[m.dimension(at, i) for i in range(rank - 2)], m.binary("*", rows, columns)])
        return m.op("Gather", flat, cell, axis=rank - 2)

    return shape_view(m, value, read)


@functions("numpy.diagonal")
@methods("numpy", "diagonal")
def diagonal(m: M, a: Value, offset: Value = Const(0), axis1: Value = Const(0), axis2: Value = Const(1)) -> Value:
    return diagonal_of(m, a, offset, axis1, axis2)


@functions("numpy.take_along_axis")
def take_along_axis(m: M, arr: Value, indices: Value, axis: Value) -> Value:
    at, where = m.tensor(arr), m.tensor(indices, "i64")
    if is_none(m.settle(axis)):
        return m.array(m.op("GatherElements", m.op("Reshape", at, m.ints([-1])), where, axis=0), N)
    number = m.axis(axis, m.rank(at))
    others = [i for i in range(m.rank(at)) if i != number]
    if any((at.type.dims or ())[i] != (where.type.dims or ())[i] for i in others):
        rank = m.rank(at)
        parts = [m.op("Shape", one, start=i, end=i + 1) for i in range(rank) for one in (at, where)]
        shared = [m.op("Max", parts[2 * i], parts[2 * i + 1]) for i in range(rank)]
        at = m.op("Expand", at, m.op("Concat", *[parts[2 * i] if i == number else shared[i] for i in range(rank)], axis=0))
        where = m.op("Expand", where, m.op("Concat", *[parts[2 * i + 1] if i == number else shared[i] for i in range(rank)], axis=0))
    return m.array(m.op("GatherElements", at, where, axis=number), N)


@functions("numpy.fmod")
def fmod(m: M, x1: Value, x2: Value) -> Value:
    library = m.joint_library(x1, x2)
    return m.array(m.op("Mod", *m.matched([m.operand(x1, library), m.operand(x2, library)], library), fmod=1), library)


@functions("numpy.einsum", "numpy.core.einsumfunc.c_einsum")
def einsum(m: M, subscripts: Value, *operands: Value, optimize: Value = FALSE) -> Value:
    return m.array(contracted(m, m.constant_of(subscripts, "subscripts"), m.matched([m.operand(o, N) for o in operands], N)), N)


@functions("numpy.linalg.det")
def det(m: M, a: Value) -> Value:
    at = m.tensor(a)
    return m.array(m.op("Det", at if at.type.dtype in ("f32", "f64") else m.cast(at, "f64")), N)



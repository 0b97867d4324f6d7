"""Operations that rows of several libraries share. Their operands are abstract values."""

from __future__ import annotations

from typing import Any

from ..core import NONE
from ..errors import PythonError
from ..graph import GraphValue
from ..templates import CATEGORY
from ..values import Array, Const, Slice, Tuple, Value

M = Any


def is_none(value: Value) -> bool:
    return isinstance(value, Const) and value.value is None


def elements(m: M, value: Value) -> GraphValue:
    """Return the elements of an operand that must be an array, or a number."""
    return m.tensor(value)


def floating(m: M, value: Value) -> GraphValue:
    """Return an operand as floats, by the library's default if it has integers."""
    at = m.tensor(value)
    if CATEGORY.get(at.type.dtype) == 2:
        return at
    return m.cast(at, "f32" if m.library_of(value) == "torch" else "f64")


def unary(op: str, as_float: bool = True) -> Any:
    """Return a row of an element-wise instruction of one operand."""

    def row(m: M, input: Value, *, out: Value = NONE) -> Value:
        settled = m.settle(input)
        at = floating(m, settled) if as_float else m.tensor(settled)
        if op in ("Ceil", "Floor", "Round") and CATEGORY.get(at.type.dtype) != 2:
            return m.array(at, m.library_of(input))
        return m.array(m.op(op, at), m.library_of(input))

    row.__name__ = op.lower()
    return row


def axes_of(m: M, axis: Value, rank: int) -> list[int] | None:
    """Return axes that count from 0, or None for all."""
    axis = m.settle(axis)
    if is_none(axis):
        return None
    if m.kind_of(axis):
        return [m.axis(axis, rank)]
    return [m.axis(item, rank) for item in m.items_of(axis)]


def reduce(m: M, op: str, at: GraphValue, axis: Value, keepdims: Value, empty: bool = False) -> GraphValue:
    """Return a reduction along axes. `empty` allows the maximum or minimum of no elements."""
    rank = m.rank(at)
    axes = axes_of(m, axis, rank)
    keep = int(bool(m.constant_of(keepdims, "keepdims")))
    if rank == 0:
        return at if op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd") else m.op(op, at, keepdims=0)
    if op in ("ReduceMax", "ReduceMin") and not empty:
        check_not_empty(m, at, axes)
    if axes is None:
        return m.op(op, at, keepdims=keep)
    return m.op(op, at, m.ints(axes), keepdims=keep)


def logical_reduce(m: M, is_any: bool, at: GraphValue, axis: Value, keepdims: Value) -> GraphValue:
    """Return any() or all() along axes. Of no elements they are False and True."""
    at = m.cast(at, "bool")
    # The least of no elements is the largest number, which is true, so any() is made of all().
    at = m.op("Not", at) if is_any else at
    made = m.cast(reduce(m, "ReduceMin", m.cast(at, "i32"), axis, keepdims, True), "bool")
    return m.op("Not", made) if is_any else made


def check_not_empty(m: M, at: GraphValue, axes: list[int] | None) -> None:
    """Raise for the maximum or minimum of no elements."""
    dims = at.type.dims
    if dims is None or not dims:
        return
    reduced = [dims[axis] for axis in (axes if axes is not None else range(len(dims)))]
    if 0 in reduced and 0 not in [d for i, d in enumerate(dims) if axes is not None and i not in axes]:
        text = "a maximum or minimum of no elements has no value"
        raise PythonError((RuntimeError if m.library == "torch" and axes is None else IndexError if m.library == "torch" else ValueError)(text))


def sum_type(m: M, at: GraphValue, dtype: str | None) -> GraphValue:
    """Return the operand of a sum: integers are added as i64."""
    if dtype is not None:
        return m.cast(at, dtype)
    unsigned = m.library != "torch" and at.type.dtype[0] == "u"
    return m.cast(at, "u64" if unsigned else "i64") if CATEGORY.get(at.type.dtype, 2) < 2 and at.type.dtype != "u64" else at


def extreme_index(m: M, op: str, at: GraphValue, axis: Value, keepdims: Value) -> GraphValue:
    if at.type.dtype == "bool":
        at = m.cast(at, "i32")
    keep = int(bool(m.constant_of(keepdims, "keepdims")))
    if is_none(m.settle(axis)):
        rank = m.rank(at)
        made = m.op(op, m.op("Reshape", at, m.ints([-1])), axis=0, keepdims=0)
        return m.op("Reshape", made, m.ints([1] * rank)) if keep else made
    if m.rank(at) == 0:
        return m.constant(0, "i64")
    return m.op(op, at, axis=m.axis(axis, m.rank(at)), keepdims=keep)


def variance(m: M, at: GraphValue, axis: Value, keepdims: Value, correction: float) -> GraphValue:
    mean = reduce(m, "ReduceMean", at, axis, Const(True))
    squares = m.op("Sub", at, mean)
    squares = m.op("Mul", squares, squares)
    if not correction:
        return reduce(m, "ReduceMean", squares, axis, keepdims)
    total = reduce(m, "ReduceSum", squares, axis, keepdims)
    axes = axes_of(m, axis, m.rank(at))
    count: Value = Const(1)
    for index in axes if axes is not None else range(m.rank(at)):
        count = m.binary("*", count, m.dimension(at, index))
    rest = m.binary("-", count, Const(correction))
    return m.op("Div", total, m.number_value(rest, at.type.dtype))


def concat(m: M, values: Value, axis: Value, library: str) -> Array:
    contents = m.items_value(values)
    if not isinstance(contents, Tuple):
        if not m.is_list(contents):
            return concat(m, m.new_list(m.contents_of(values)), axis, library)
        first = m.array_sequence(contents, library)
        rank = len(first.type.dims or ())
        number = m.axis(axis, rank)
        dims = [d if isinstance(d, int) else 0 for d in first.type.dims or ()]
        dims[number] = 0
        return m.array(m.op("ConcatFromSequence", first, axis=number, empty_dims=dims, empty_dtype=first.type.dtype), library)
    items = [m.array(m.tensor(item), library) for item in contents.items]
    if not items:
        raise PythonError(RuntimeError("expected a non-empty list of arrays"))
    parts = m.matched(items, library)
    if library == "torch" and len({m.rank(p) for p in parts}) > 1:
        parts = [p for p in parts if p.type.dims != (0,)]
    if len(parts) == 1:
        return m.array(parts[0], library)
    return m.array(m.op("Concat", *parts, axis=m.axis(axis, m.rank(parts[0]))), library)


def stack(m: M, values: Value, axis: Value, library: str) -> Array:
    contents = m.items_value(values)
    if not isinstance(contents, Tuple):
        if not m.is_list(contents):
            return stack(m, m.new_list(m.contents_of(values)), axis, library)
        return m.array(m.stack_sequence(m.array_sequence(contents, library), m.constant_of(axis, "axis")), library)
    items = [m.array(m.tensor(item), library) for item in contents.items]
    if not items:
        raise PythonError(RuntimeError("stack expects a non-empty list of arrays"))
    parts = m.matched(items, library)
    number = m.axis(axis, m.rank(parts[0]) + 1)
    return m.array(m.op("Concat", *[m.op("Unsqueeze", p, m.ints([number])) for p in parts], axis=number), library)


def padded(m: M, sequences: Value, length: int | None, fill: Value, library: str) -> Any:
    """Return arrays of a list stacked, each padded at its end to a length, by default the largest."""
    contents = m.contents_of(sequences)
    if isinstance(contents, Tuple) and contents.items:
        parts = m.matched([m.array(m.tensor(item), library) for item in contents.items], library)
        sizes = [part.type.dims[0] if part.type.dims else None for part in parts]
        if all(isinstance(size, int) for size in sizes):
            # Sizes that are known make sizes of the result that are known.
            size = max(sizes) if length is None else length
            if size < max(sizes):
                raise PythonError(ValueError(f"a sequence of length {max(sizes)} does not fit in {size}"))
            value = m.number_value(m.settle(fill), parts[0].type.dtype)
            rows = []
            for part, own in zip(parts, sizes):
                rank = m.rank(part)
                if own < size:
                    part = m.op("Pad", part, m.ints([0] * rank + [size - own] + [0] * (rank - 1)), value, mode="constant")
                rows.append(m.op("Unsqueeze", part, m.ints([0])))
            return m.op("Concat", *rows, axis=0) if len(rows) > 1 else rows[0]
    sequence = m.array_sequence(contents, library)
    return m.op("SequencePad", sequence, m.number_value(m.settle(fill), sequence.type.dtype), length=length or 0)


def pieces(m: M, value: Array, axis: int, bounds: list[tuple[Value, Value]]) -> list[Value]:
    """Return views of ranges along an axis."""
    dots = [Slice(NONE, NONE, NONE)] * axis
    return [m.array_item(value, Tuple((*dots, Slice(start, stop, NONE)))) for start, stop in bounds]


def shape_view(m: M, value: Array, read: Any, layout: Any = None, certain: bool = True) -> Array:
    """Return a view of rearranged elements."""
    return m.view(value, read, m.position_writer(read), layout, certain)


def reshape(m: M, value: Array, sizes: tuple[Value, ...]) -> Array:
    """Return an array of another shape: a view where the strides allow it, else a copy, as in both libraries."""
    known = [m.settle(s) for s in sizes]
    read = lambda base: m.reshape(base, known)  # noqa: E731
    if value.view is None:
        certain = m.layout_of(value) is not None or value.storage.live is None
    else:
        own = value.view.layout
        dims = read(m.read_array(value)).type.dims if own is not None else None
        if dims is not None and all(isinstance(d, int) for d in dims):
            try:
                # An assignment to the shape fails where a reshape would copy.
                own.view().shape = dims
            except AttributeError:
                return m.array(read(m.read_array(value)), value.library)
            certain = True
        else:
            certain = False

    def layout(own: Any) -> Any:
        dims = read(m.read_array(value)).type.dims
        return own.reshape(dims) if dims is not None and all(isinstance(d, int) for d in dims) else None

    return shape_view(m, value, read, layout, certain)


def squeezed(own: Any, axes: list[int] | None) -> Any:
    """Return the layout of a view without some dimensions of size 1."""
    return own.squeeze(None if axes is None else tuple(axis for axis in axes if own.shape[axis] == 1))


def expanded(own: Any, axes: list[int]) -> Any:
    """Return the layout of a view with more dimensions of size 1."""
    import numpy

    return numpy.expand_dims(own, tuple(axes))


def transpose(m: M, value: Array, order: list[int]) -> Array:
    if order == list(range(len(order))):
        return value
    return shape_view(m, value, lambda base: m.op("Transpose", base, perm=order), lambda own: own.transpose(order))


def moved(m: M, a: Array, source: Value, destination: Value) -> Array:
    """Return the array with axes at other places, and the others in their order."""
    rank = m.rank(m.read_array(a))
    sources, targets = axes_of(m, source, rank) or [], axes_of(m, destination, rank) or []
    order = [-1] * rank
    for s, d in zip(sources, targets):
        order[d] = s
    rest = iter(i for i in range(rank) if i not in sources)
    return transpose(m, a, [next(rest) if o < 0 else o for o in order])


def same_padding(m: M, sizes: list[int], dilations: list[int]) -> list[int]:
    """Return pads for padding="same" of stride 1; an odd one goes to the end."""
    totals = [(s - 1) * d for s, d in zip(sizes, dilations)]
    return [t // 2 for t in totals] + [t - t // 2 for t in totals]


def numbers(m: M, value: Value, count: int) -> list[int]:
    """Return `count` compile-time integers from one or from a list of them."""
    value = m.settle(value)
    if m.kind_of(value):
        return [int(m.constant_of(value, "size"))] * count
    items = [int(m.constant_of(v, "size")) for v in m.size_list(value)]
    return items * count if len(items) == 1 else items


def dtype_name(m: M, value: Value) -> str | None:
    """Return the element type that an argument names: a dtype of torch or NumPy, a Python type, or a text."""
    value = m.settle(value)
    if is_none(value):
        return None
    name = m.constant_of(value, "dtype")
    # A dtype equals the Python type that it comes from.
    if isinstance(name, type) and name in (int, float, bool):
        library_float = "f32" if m.library == "torch" else "f64"
        return {int: "i64", float: library_float, bool: "bool"}[name]
    text = str(name).rsplit(".", 1)[-1]
    import numpy

    from .. import emit

    if str(name).startswith("torch."):
        text = {"long": "int64", "float": "float32", "double": "float64", "half": "float16", "int": "int32", "short": "int16"}.get(text, text)
        if text == "bfloat16":
            return "bf16"
    elif isinstance(name, str) and text in ("f", "d", "i", "q"):
        text = {"f": "float32", "d": "float64", "i": "int32", "q": "int64"}[text]
    else:
        text = str(numpy.dtype(name))
    return emit.dtype_of(text)

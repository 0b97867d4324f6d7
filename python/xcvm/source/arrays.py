"""Arrays: operators with each library's types of results, indexing, and assignment to parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence as Items
from typing import Any

from . import emit
from .core import NONE
from .errors import NeedsConstant, PythonError, Refusal
from .graph import GraphValue
from .statements import Statements
from .templates import CATEGORY
from .templates import ArrayOf, NumberOf
from .values import (
    NUMBER_DTYPES,
    Array,
    Choice,
    Const,
    Number,
    Reference,
    Sequence,
    Slice,
    Tuple,
    Value,
)

_WIDTH = {"bool": 1, "u8": 8, "i8": 8, "u16": 16, "i16": 16, "i32": 32, "u32": 32, "i64": 64, "u64": 64, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}
_BINARY = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "**": "Pow"}
_ORDER = {"<": "Less", "<=": "LessOrEqual", ">": "Greater", ">=": "GreaterOrEqual"}
_BITS = {"&": "BitwiseAnd", "|": "BitwiseOr", "^": "BitwiseXor"}
_LOGIC = {"&": "And", "|": "Or", "^": "Xor"}
LAST = (1 << 63) - 1


class Arrays(Statements):
    """Operations on arrays that operators and several libraries share."""

    # ---- Conversion ----

    def library_of(self, *values: Value) -> str:
        for value in values:
            if isinstance(value, Array):
                return value.library
        return self.library

    def tensor(self, value: Value, dtype: str | None = None, library: str = "") -> GraphValue:
        """Return the elements of an array, a number, or nested lists of them."""
        value = self.settle(value)
        if isinstance(value, Choice):
            made = self.each(value, lambda v: self.array(self.tensor(v, dtype, library), library or self.library))
            if isinstance(made, Array):
                return self.read_array(made)
            self.refuse(f"an array is needed, but this may be {self.describe(made)}")
        if isinstance(value, Array):
            at = self.read_array(value)
        elif self.kind_of(value):
            at = self.number_value(value)
            if dtype is None:
                at = self.cast(at, self.default_dtype(self.kind_of(value), library or self.library))
        elif self.is_list(value) or isinstance(value, Const) and isinstance(value.value, (range, tuple)):
            at = self.stacked(value, dtype, library)
        else:
            self.usable(value)
            raise PythonError(TypeError(f"expected an array, not {self.type_name(value)}"))
        return self.cast(at, dtype) if dtype else at

    def default_dtype(self, kind: str, library: str) -> str:
        """Return the type of an array that is made of Python numbers."""
        return {"bool": "bool", "int": "i64", "float": "f32" if library == "torch" else "f64"}[kind]

    def stacked(self, value: Value, dtype: str | None = None, library: str = "") -> GraphValue:
        """Return the array of nested lists."""
        contents = self.items_value(value)
        if isinstance(contents, Tuple):
            if all(isinstance(item, Const) for item in contents.items):
                import numpy

                made = numpy.asarray([self.constant_of(item) for item in contents.items])
                if made.size == 0 or made.dtype.kind == "f":
                    made = made.astype(emit.numpy_dtype(self.default_dtype("float", library or self.library)))
                return self.constant(made)
            parts = [self.tensor(item, dtype, library) for item in contents.items]
            common = dtype or self.promoted([self.array(part, library) for part in parts], library or self.library)
            zero = self.ints([0])
            return self.op("Concat", *[self.op("Unsqueeze", self.cast(part, common), zero) for part in parts], axis=0)  # type: ignore[no-any-return]
        sequence = self.as_sequence(contents)
        if len(sequence.parts) != 1:
            raise NeedsConstant("a list of tuples of run-time length cannot become an array")
        kind = type(sequence.item).__name__
        at = self.stack_sequence(sequence.parts[0], 0)
        if kind == "NumberOf" and dtype is None:
            at = self.cast(at, self.default_dtype(sequence.item.kind, library or self.library))
        return at

    def array_sequence(self, contents: Value, library: str = "") -> GraphValue:
        """Return the arrays of a list of run-time length. Raises the program's TypeError where an item is no array."""
        sequence = self.as_sequence(contents)
        if isinstance(sequence.item, (ArrayOf, NumberOf)):
            return sequence.parts[0]
        frame = self.new_object("frame").object
        self.heap.write(frame, "made", Tuple((), list))

        def go(index: GraphValue) -> GraphValue:
            item = self.array(self.tensor(self.sequence_item(sequence, index), None, library), library)

            def add() -> None:
                made = self.heap.read(frame, "made") or Tuple((), list)
                self.heap.write(frame, "made", self.concatenated(made, Tuple((item,), list)))

            self.when_normal(add)
            return self.constant(True)

        self.run_items(self.op("SequenceLength", sequence.parts[0]), go)
        found = self.as_sequence(self.heap.read(frame, "made") or Tuple((), list))
        if not isinstance(found.item, ArrayOf):
            self.refuse("the items of this list are arrays on some paths only, in a way that a program cannot tell apart")
        return found.parts[0]

    def stack_sequence(self, sequence: GraphValue, axis: int) -> GraphValue:
        dims = [d if isinstance(d, int) else 0 for d in sequence.type.dims or ()]
        dims.insert(axis if axis >= 0 else len(dims) + 1 + axis, 0)
        return self.op(  # type: ignore[no-any-return]
            "ConcatFromSequence", sequence, axis=axis, new_axis=1, empty_dims=dims, empty_dtype=sequence.type.dtype
        )

    def rank(self, at: GraphValue) -> int:
        if at.type.dims is None:
            self.refuse("the rank of this array differs between paths, and the operation depends on it")
        return len(at.type.dims)

    def axis(self, value: Value, rank: int) -> int:
        """Return an axis that counts from 0."""
        axis = self.constant_of(value, "axis")
        if not isinstance(axis, int) or not -max(rank, 1) <= axis < max(rank, 1):
            raise PythonError(IndexError(f"dimension out of range: {axis} for an array of rank {rank}"))
        return axis + rank if axis < 0 else axis

    def sizes(self, values: Items[Value]) -> GraphValue:
        """Return numbers as a tensor of i64."""
        if all(isinstance(self.settle(v), Const) for v in values):
            return self.ints([int(self.constant_of(v, "size")) for v in values])
        zero = self.ints([0])
        parts = [self.op("Unsqueeze", self.number_value(self.settle(v), "i64"), zero) for v in values]
        return self.op("Concat", *parts, axis=0)  # type: ignore[no-any-return]

    def size_list(self, value: Value) -> tuple[Value, ...]:
        """Return the numbers of a size: one number, or a list of them."""
        value = self.settle(value)
        if self.kind_of(value):
            return (value,)
        if isinstance(value, Array):
            dims = self.array_type(value).dims
            if dims == ():
                return (self.number(self.number_value(value, "i64"), "int"),)
        items = self.items_of(value)
        return tuple(self.number(self.number_value(i, "i64"), "int") if isinstance(i, Array) else i for i in items)

    def shape_of(self, at: GraphValue) -> Tuple:
        return Tuple(tuple(self.dimension(at, axis) for axis in range(self.rank(at))))

    def reshape(self, at: GraphValue, sizes: Items[Value]) -> GraphValue:
        return self.op("Reshape", at, self.sizes(sizes), allowzero=1)  # type: ignore[no-any-return]

    # ---- Types of results ----

    def promoted(self, values: Items[Value], library: str) -> str:
        """Return the element type of a result of these operands, by the rules of a library."""
        if library == "torch":
            return self._promoted_torch(values)
        import numpy

        operands: list[Any] = []
        variables = [self.array_type(v).dtype for v in values if isinstance(v, Array) and v.library == "chainer"]
        if variables and all(CATEGORY[dtype] == 2 for dtype in variables):
            # Numbers and NumPy's scalars take the type of Chainer's variables, also of those of rank 0.
            values = [v for v in values if isinstance(v, Array) and (v.library == "chainer" or self.array_type(v).dims != ())]
        for value in values:
            if isinstance(value, Array):
                kind = self.array_type(value)
                if kind.dtype == "bf16":
                    return "bf16"
                operands.append(numpy.zeros((1,) if kind.dims != () else (), emit.numpy_dtype(kind.dtype)))
            elif isinstance(value, Const):
                operands.append(value.value)
            else:
                operands.append({"bool": False, "int": 0, "float": 0.0}[self.kind_of(value)])
        return emit.dtype_of(numpy.result_type(*operands))

    def _promoted_torch(self, values: Items[Value]) -> str:
        groups: dict[int, str] = {}
        for value in values:
            if isinstance(value, Array):
                kind = self.array_type(value)
                level, dtype = (0 if kind.dims != () else 1), kind.dtype
            else:
                level, dtype = 2, {"bool": "bool", "int": "i64", "float": "f32"}[self.kind_of(value)]
            groups[level] = dtype if level not in groups else self._wider(groups[level], dtype)
        result = ""
        for level in sorted(groups):
            dtype = groups[level]
            if not result:
                result = dtype
            elif CATEGORY[dtype] > CATEGORY[result]:
                result = dtype
        return result

    @staticmethod
    def _wider(a: str, b: str) -> str:
        if a == b:
            return a
        if CATEGORY[a] != CATEGORY[b]:
            return a if CATEGORY[a] > CATEGORY[b] else b
        if {a, b} == {"f16", "bf16"}:
            return "f32"
        if "u8" in (a, b) and CATEGORY[a] == 1:
            other = b if a == "u8" else a
            return "i16" if other == "i8" else other
        return a if _WIDTH[a] >= _WIDTH[b] else b

    # ---- Operators ----

    def operand(self, value: Value, library: str) -> Value:
        """Return an operand of an operator as an array or a number."""
        value = self.settle(value)
        if isinstance(value, Array) or self.kind_of(value):
            return value
        if self.is_list(value):
            if library == "torch":
                raise PythonError(TypeError("unsupported operand type(s): 'Tensor' and 'list'"))
            return self.array(self.stacked(value, None, library), library)
        raise PythonError(TypeError(f"unsupported operand type(s) for an array and {self.type_name(value)}"))

    def array_binary(self, symbol: str, a: Value, b: Value) -> Value:
        library = self.joint_library(a, b)
        a, b = self.operand(a, library), self.operand(b, library)
        if symbol == "@":
            return self.array(self.op("MatMul", *self.matched([a, b], library)), library)
        dtype = self.promoted([a, b], library)
        if symbol == "/" and CATEGORY[dtype] != 2:
            dtype = "f32" if library == "torch" else "f64"
        if dtype == "bool" and symbol in ("+", "*"):
            name = "Or" if symbol == "+" else "And"
            return self.array(self.op(name, self.element(a, dtype), self.element(b, dtype)), library)
        if dtype == "bool" and symbol in ("-", "//", "%", "**"):
            if library == "torch" or symbol == "-":
                raise PythonError(RuntimeError(f"the operator {symbol} is not supported for bool arrays"))
            dtype = "i8"
        if symbol == "**" and CATEGORY[dtype] == 1:
            self.check_exponent(b, library)
        x, y = self.element(a, dtype), self.element(b, dtype)
        if symbol in _BITS:
            return self.array(self.op((_LOGIC if dtype == "bool" else _BITS)[symbol], x, y), library)
        if symbol in ("//", "%"):
            quotient, rest = self.floor_mod_arrays(x, y)
            return self.array(quotient if symbol == "//" else rest, library)
        if symbol in ("<<", ">>"):
            power = self.op("Pow", self.constant(2, dtype), y)
            return self.array(self.op("Mul", x, power) if symbol == "<<" else self.floor_mod_arrays(x, power)[0], library)
        return self.array(self.op(_BINARY[symbol], x, y), library)

    def check_exponent(self, b: Value, library: str) -> None:
        """Raise for integers to negative integer powers."""

        def fail() -> Value:
            raise PythonError((RuntimeError if library == "torch" else ValueError)("Integers to negative integer powers are not allowed."))

        at = self.element(b, self.array_type(b).dtype if isinstance(b, Array) else "i64")
        if at.type.dtype[0] == "u" or at.type.dtype == "bool":
            return
        if at.array is not None:
            if (at.array < 0).any():
                fail()
            return
        negative = self.op("Less", at, self.constant(0, at.type.dtype))
        self.branch(self.any_true(negative) if at.type.dims != () else negative, fail, lambda: NONE)

    def floor_mod_arrays(self, x: GraphValue, y: GraphValue) -> tuple[GraphValue, GraphValue]:
        if not self.float_dtype(x.type.dtype):
            return self.floor_mod(x, y)
        quotient, rest = self.floor_mod(x, y)
        # Division by zero is infinite or NaN.
        zero = self.op("Equal", y, self.constant(0, y.type.dtype))
        return self.op("Where", zero, self.op("Div", x, y), quotient), rest

    def joint_library(self, a: Value, b: Value) -> str:
        libraries = {value.library for value in (a, b) if isinstance(value, Array)}
        for name in ("torch", "chainer", "numpy"):
            if name in libraries:
                return name
        return self.library

    def element(self, value: Value, dtype: str) -> GraphValue:
        return self.cast(self.read_array(value), dtype) if isinstance(value, Array) else self.number_value(value, dtype)

    def matched(self, values: Items[Value], library: str) -> list[GraphValue]:
        """Return operands converted to their joint element type."""
        dtype = self.promoted(values, library)
        return [self.element(value, dtype) for value in values]

    def array_compare(self, symbol: str, a: Value, b: Value) -> Value:
        library = self.joint_library(a, b)
        x, y = self.matched([self.operand(a, library), self.operand(b, library)], library)
        if symbol in ("==", "!="):
            equal = self.op("Equal", x, y)
            return self.array(equal if symbol == "==" else self.op("Not", equal), library)
        if x.type.dtype == "bool":
            x, y = self.cast(x, "i32"), self.cast(y, "i32")
        return self.array(self.op(_ORDER[symbol], x, y), library)

    # ---- Indexing ----

    def array_item(self, value: Array, index: Value) -> Value:
        parts = self.index_parts(index)
        at = self.read_array(value)
        if self.is_basic(parts):
            self.check_index(at, parts)
            if value.library == "numpy" and all(self.kind_of(p) == "int" for p in parts) and len(parts) == self.rank(at):
                # An item is a number of NumPy, which shares no memory.
                return self.array(self.basic_index(at, parts), "numpy")
            read = lambda base: self.basic_index(base, parts)  # noqa: E731
            return self.view(value, read, self.position_writer(read), lambda own: _layout_item(own, parts))
        return self.array(self.advanced_index(at, parts), value.library)

    def index_parts(self, index: Value) -> list[Value]:
        """Return the parts of an index, with lists made arrays."""
        index = self.settle(index)
        items = list(index.items) if isinstance(index, Tuple) else [index]
        parts: list[Value] = []
        for item in items:
            item = self.settle(item)
            if isinstance(item, Const) and isinstance(item.value, slice):
                item = Slice(Const(item.value.start), Const(item.value.stop), Const(item.value.step))
            if isinstance(item, Choice):
                self.refuse("this index can be of several kinds", "Assign it in one way")
            if self.kind_of(item) == "bool":
                self.refuse("an index that is a bool adds a dimension, which is not supported", "Use int() for a position")
            if self.kind_of(item) == "float":
                self.float_for_int(item, IndexError("only integers, slices, ellipsis, None and arrays are valid indices"))
            if isinstance(item, (Reference, Sequence, Tuple)) or isinstance(item, Const) and isinstance(item.value, range):
                item = self.array(self.stacked(item))
            if isinstance(item, Array):
                kind = self.array_type(item)
                if kind.dims == () and kind.dtype != "bool":
                    item = self.number(self.number_value(item, "i64"), "int")
            elif not (
                isinstance(item, Slice) or self.kind_of(item) in ("int", "bool") or isinstance(item, Const) and item.value in (None, Ellipsis)
            ):
                self.usable(item)
                raise PythonError(IndexError(f"an index cannot be {self.describe(item)}"))
            parts.append(item)
        return parts

    def is_basic(self, parts: list[Value]) -> bool:
        return not any(isinstance(part, Array) for part in parts)

    def check_index(self, at: GraphValue, parts: list[Value]) -> None:
        used = sum(1 for p in parts if not (isinstance(p, Const) and p.value in (None, Ellipsis) and not isinstance(p.value, (int, bool))))
        if used > self.rank(at):
            raise PythonError(IndexError(f"too many indices for an array of rank {self.rank(at)}"))

    def basic_index(self, at: GraphValue, parts: list[Value]) -> GraphValue:
        """Return x[...] of integers, slices, None and an ellipsis."""
        slices: list[tuple[int, Slice]] = []
        picks: list[tuple[int, Value]] = []
        new: list[int] = []
        for kind, axis, where, part in self.placed(at, parts):
            if kind == "new":
                new.append(where)
            elif kind == "slice":
                assert isinstance(part, Slice)
                slices.append((axis, part))
            else:
                picks.append((axis, part))
        at = self.sliced(at, slices)
        for axis, part in reversed(picks):
            dims = at.type.dims
            if isinstance(part, Const) and dims is not None and isinstance(dims[axis], int) and not -dims[axis] <= part.value < dims[axis]:
                raise PythonError(IndexError(f"index {part.value} is out of bounds for axis {axis} with size {dims[axis]}"))
            at = self.op("Gather", at, self.number_value(part, "i64"), axis=axis)
        if new:
            at = self.op("Unsqueeze", at, self.ints(new))
        return at

    def placed(self, at: GraphValue, parts: list[Value]) -> list[tuple[str, int, int, Value]]:
        """Return (kind, axis of x, axis of the result, part) for each part, the ellipsis expanded."""
        rank = self.rank(at)
        is_none = [isinstance(p, Const) and p.value is None for p in parts]
        is_dots = [isinstance(p, Const) and p.value is Ellipsis for p in parts]
        used = sum(
            self.rank(self.read_array(p)) if isinstance(p, Array) and self.array_type(p).dtype == "bool" else 1
            for p, n, d in zip(parts, is_none, is_dots)
            if not n and not d
        )
        found: list[tuple[str, int, int, Value]] = []
        axis = where = 0
        for part, none, dots in zip(parts, is_none, is_dots):
            if none:
                found.append(("new", axis, where, part))
                where += 1
            elif dots:
                axis += rank - used
                where += rank - used
            elif isinstance(part, Slice):
                if not all(isinstance(b, Const) and b.value is None for b in (part.start, part.stop, part.step)):
                    found.append(("slice", axis, where, part))
                axis += 1
                where += 1
            elif isinstance(part, Array):
                found.append(("array", axis, where, part))
                is_mask = self.array_type(part).dtype == "bool"
                axis += self.rank(self.read_array(part)) if is_mask else 1
                where += 1
            else:
                found.append(("pick", axis, where, part))
                axis += 1
        if axis > rank:
            raise PythonError(IndexError(f"too many indices for an array of rank {rank}"))
        return found

    def sliced(self, at: GraphValue, slices: list[tuple[int, Slice]]) -> GraphValue:
        if not slices:
            return at
        starts: list[Value] = []
        ends: list[Value] = []
        steps: list[int] = []
        for _, part in slices:
            step = 1 if part.step == NONE or isinstance(part.step, Const) and part.step.value is None else self.constant_of(part.step, "step")
            if step == 0:
                raise PythonError(ValueError("slice step cannot be zero"))
            steps.append(step)
            starts.append(self.bound(part.start, 0 if step > 0 else LAST))
            ends.append(self.bound(part.stop, LAST if step > 0 else -LAST))
        axis = slices[0][0]
        if len(slices) == 1 and steps == [1] and self.known_count(starts[0], ends[0], at, axis) == 1:
            return self.op("Gather", at, self.sizes(starts), axis=axis)  # type: ignore[no-any-return]
        axes = self.ints([axis for axis, _ in slices])
        return self.op("Slice", at, self.sizes(starts), self.sizes(ends), axes, self.ints(steps))  # type: ignore[no-any-return]

    def known_count(self, start: Value, end: Value, at: GraphValue, axis: int) -> int | None:
        """Return how many elements a slice such as x[i:i + 2] has, if the bounds of the index say that all exist."""
        size = (at.type.dims or ())[axis]
        if not isinstance(start, Number) or not isinstance(end, Number) or start.at.bounds is None or not isinstance(size, int):
            return None
        node = end.at.node
        if node is None or node.op != "Add" or start.at not in node.inputs:
            return None
        counts = [one.array for one in node.inputs if one is not None and one.array is not None and one.array.shape == ()]
        if len(counts) != 1 or counts[0] < 0 or start.at.bounds[0] < 0 or start.at.bounds[1] + int(counts[0]) > size:
            return None
        return int(counts[0])

    def bound(self, value: Value, default: int) -> Value:
        value = self.settle(value)
        if isinstance(value, Const) and value.value is None:
            return Const(default)
        if isinstance(value, Array):
            return self.number(self.number_value(value, "i64"), "int")
        if isinstance(value, Choice):
            return self.each(value, lambda v: self.bound(v, default))
        if self.kind_of(value) not in ("int", "bool"):
            raise PythonError(TypeError("slice indices must be integers or None"))
        return value

    def advanced_index(self, at: GraphValue, parts: list[Value]) -> GraphValue:
        """Return x[...] with masks or arrays of indices."""
        placed = self.placed(at, parts)
        at = self.sliced(at, [(axis, part) for kind, axis, _, part in placed if kind == "slice" and isinstance(part, Slice)])
        indices: list[tuple[int, GraphValue]] = []
        places: list[int] = []
        for position, (kind, axis, _, part) in enumerate(placed):
            if kind == "array":
                assert isinstance(part, Array)
                tensor = self.read_array(part)
                places.append(position)
                if tensor.type.dtype == "bool":
                    rank = self.rank(tensor)
                    if rank == 0:
                        self.refuse("a mask of rank 0 is not supported")
                    self.check_mask(at, axis, tensor)
                    columns = self.op("NonZero", tensor)
                    for column in range(rank):
                        indices.append((axis + column, self.op("Gather", columns, self.constant(column, "i64"), axis=0)))
                else:
                    indices.append((axis, self.cast(tensor, "i64")))
            elif kind == "pick":
                places.append(position)
                indices.append((axis, self.number_value(part, "i64")))
        axes = [axis for axis, _ in indices]
        rank = self.rank(at)
        if len(indices) == 1:
            at = self.op("Gather", at, indices[0][1], axis=axes[0])
            index_rank = self.rank(indices[0][1])
            first = axes[0]
        else:
            tensors = [index for _, index in indices]
            index_rank = max(map(self.rank, tensors))
            shape = self.broadcast_shape(tensors)
            last = self.ints([-1])
            columns = [self.op("Unsqueeze", self.op("Expand", tensor, shape), last) for tensor in tensors]
            rest = [axis for axis in range(rank) if axis not in axes]
            order = axes + rest
            if order != list(range(rank)):
                at = self.op("Transpose", at, perm=order)
            at = self.op("GatherND", at, self.op("Concat", *columns, axis=index_rank))
            adjacent = places == list(range(places[0], places[0] + len(places)))
            first = axes[0] if adjacent else 0
            if first:
                made = list(range(index_rank, index_rank + first)) + list(range(index_rank))
                made += list(range(index_rank + first, index_rank + len(rest)))
                at = self.op("Transpose", at, perm=made)
        new: list[int] = []
        for kind, axis, _, _ in placed:
            if kind == "new":
                before = sum(1 for a in axes if a < axis)
                new.append(axis - before + (index_rank if axis > axes[0] else 0) + len(new))
        return self.op("Unsqueeze", at, self.ints(new)) if new else at

    def check_mask(self, at: GraphValue, axis: int, mask: GraphValue) -> None:
        """Raise if a mask has not the sizes of the dimensions that it selects from."""

        def fail() -> Value:
            raise PythonError(IndexError("the sizes of a mask differ from those of the array that it selects from"))

        rank = self.rank(mask)
        sizes, own = (at.type.dims or ())[axis : axis + rank], mask.type.dims or ()
        if len(sizes) != rank or any(isinstance(x, int) and isinstance(y, int) and x != y for x, y in zip(sizes, own)):
            fail()
        for index, (x, y) in enumerate(zip(sizes, own)):
            if x is None or x != y:
                same = self.compare("==", self.dimension(at, axis + index), self.dimension(mask, index))
                self.branch(self.truth_of(same), lambda: NONE, fail)

    def broadcast_shape(self, tensors: Items[GraphValue]) -> GraphValue:
        """Return the shape that tensors have together."""
        total = tensors[0]
        if all(t.type.dims is not None and all(isinstance(d, int) for d in t.type.dims) for t in tensors):
            import numpy

            return self.ints(numpy.broadcast_shapes(*[t.type.dims or () for t in tensors]))
        for tensor in tensors[1:]:
            total = self.op("Add", self.op("Mul", total, self.constant(0, total.type.dtype)), self.op("Mul", tensor, self.constant(0, tensor.type.dtype)))
        return self.op("Shape", total)  # type: ignore[no-any-return]

    # ---- Assignment ----

    def position_writer(self, read: Callable[[GraphValue], GraphValue]) -> Callable[[GraphValue, GraphValue], GraphValue]:
        """Return how elements are written back, from how they are read: the same reading of their positions."""

        def write(base: GraphValue, new: GraphValue) -> GraphValue:
            return self.written(base, read(self.positions(base)), new)

        return write

    def positions(self, at: GraphValue) -> GraphValue:
        """Return an array of the same shape that numbers the elements."""
        dims = at.type.dims
        if dims is not None and all(isinstance(d, int) for d in dims):
            import numpy

            return self.constant(numpy.arange(int(numpy.prod(dims, dtype=numpy.int64)), dtype=numpy.int64).reshape(dims))
        count = self.op("Range", self.constant(0, "i64"), self.op("Size", at), self.constant(1, "i64"))
        return self.op("Reshape", count, self.op("Shape", at), allowzero=1)  # type: ignore[no-any-return]

    def written(self, base: GraphValue, positions: GraphValue, new: GraphValue) -> GraphValue:
        """Return `base` with the elements at these positions replaced."""
        flat = self.ints([-1])
        if positions.type.dims is None or positions.type.dims != new.type.dims or None in positions.type.dims:
            rank, new_rank = self.rank(positions), self.rank(new)
            if new_rank > rank:
                # Leading ones are dropped, as both libraries do.
                new = self.op("Squeeze", new, self.ints(range(new_rank - rank)))
            new = self.op("Expand", new, self.op("Shape", positions))
        elements = self.op("ScatterElements", self.op("Reshape", base, flat), self.op("Reshape", positions, flat), self.op("Reshape", new, flat), axis=0)
        return self.reshape(elements, self.shape_of(base).items)

    def with_rows(self, base: GraphValue, part: Value, new: GraphValue) -> GraphValue:
        """Return `base` with rows replaced: one at a position, or those of a slice."""
        dims = base.type.dims or ()
        rest = self.shape_of(base).items[1:]
        if isinstance(part, Slice):
            rows = self.sliced(self.op("Range", self.constant(0, "i64"), self.number_value(self.dimension(base, 0), "i64"), self.constant(1, "i64")), [(0, part)])
            sizes = (self.dimension(rows, 0), *rest)
        else:
            if isinstance(part, Const) and isinstance(dims[0], int) and not -dims[0] <= part.value < dims[0]:
                raise PythonError(IndexError(f"index {part.value} is out of bounds for axis 0 with size {dims[0]}"))
            rows = self.op("Unsqueeze", self.number_value(part, "i64"), self.ints([0]))
            sizes = rest
        if self.rank(new) > len(sizes):
            # Leading ones are dropped, as both libraries do.
            new = self.op("Squeeze", new, self.ints(range(self.rank(new) - len(sizes))))
        if any(not isinstance(size, Const) for size in sizes) or new.type.dims != tuple(size.value for size in sizes):  # type: ignore[attr-defined]
            new = self.op("Expand", new, self.sizes(sizes)) if sizes else new
        if not isinstance(part, Slice):
            new = self.op("Unsqueeze", new, self.ints([0]))
        return self.op("ScatterND", base, self.op("Unsqueeze", rows, self.ints([1])), new)  # type: ignore[no-any-return]

    def set_array_item(self, value: Array, index: Value, new: Value) -> None:
        parts = self.index_parts(index)
        at = self.read_array(value)
        new = self.settle(new)
        if isinstance(new, Choice):
            self.each(new, lambda v: (self.set_array_item(value, index, v), NONE)[1])
            return
        source = self.tensor(new, at.type.dtype, value.library)
        if self.is_basic(parts):
            self.check_index(at, parts)
            placed = self.placed(at, parts)
            if len(placed) == 1 and placed[0][0] in ("pick", "slice") and placed[0][1] == 0:
                self.write_array(value, self.with_rows(at, placed[0][3], source))
                return
            positions = self.basic_index(self.positions(at), parts)
        elif len(parts) == 1 and isinstance(parts[0], Array) and self.array_type(parts[0]).dtype == "bool" and source.type.dims == ():
            mask = self.read_array(parts[0])
            self.check_mask(at, 0, mask)
            missing = self.rank(at) - self.rank(mask)
            if missing > 0:
                mask = self.op("Unsqueeze", mask, self.ints(range(self.rank(mask), self.rank(at))))
            self.write_array(value, self.op("Where", mask, source, at))
            return
        else:
            positions = self.advanced_index(self.positions(at), parts)
        self.write_array(value, self.written(at, positions, source))


def _layout_item(own: Any, parts: list[Value]) -> Any:
    """Return the layout of a basic index, or None if its sizes are not known. A run-time position does not matter."""
    index: list[Any] = []
    for part in parts:
        if isinstance(part, Slice):
            bounds = (part.start, part.stop, part.step)
            if not all(isinstance(bound, Const) for bound in bounds):
                return None
            index.append(slice(*[bound.value for bound in bounds]))  # type: ignore[attr-defined]
        else:
            index.append(part.value if isinstance(part, Const) else 0)
    try:
        return own[tuple(index)]
    except IndexError:
        return None


__all__ = ["Arrays", "NUMBER_DTYPES", "Number", "Refusal"]

"""Arrays on a tape: operators, indexing, exchange with other libraries."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any

from ._context import DType, Tape, bfloat16, current_tape, find_dtype, float16, float32, int64
from ._tape import Variable
from .errors import TypeMismatch

_raw_dtype: Any = Variable.dtype.__get__
_raw_shape: Any = Variable.shape.__get__

# ---- Promotion ----


def promote(a: DType, b: DType) -> DType:
    """Return the type of the result of two types, by the rules of the array API standard."""
    if a == b:
        return a
    kinds = {a.kind, b.kind}
    if kinds == {"float"}:
        if {a, b} == {float16, bfloat16}:
            return float32
        return a if a.bits > b.bits else b
    if len(kinds) == 1 and kinds <= {"signed", "unsigned", "complex"}:
        return a if a.bits > b.bits else b
    if kinds == {"signed", "unsigned"}:
        signed, unsigned = (a, b) if a.kind == "signed" else (b, a)
        if signed.bits > unsigned.bits:
            return signed
        if unsigned.bits < 64:
            return find_dtype(f"i{2 * unsigned.bits}")
    raise TypeError(f"there is no common type of {a.name} and {b.name}; convert one with astype")


def scalar_array(number: Any, like: Array) -> Array:
    """Return a Python number as an array of the type that it has beside `like`."""
    dtype = find_dtype(_raw_dtype(like))
    if isinstance(number, bool):
        if dtype.kind != "bool":
            number = int(number)
    elif isinstance(number, int):
        if dtype.kind == "bool":
            raise TypeError("an int beside an array of bool; convert the array with astype")
        if dtype.kind == "float":
            number = float(number)
    elif dtype.kind != "float":
        raise TypeError(f"a float beside an array of {dtype.name}; convert the array with astype")
    if dtype.kind == "float" and dtype.bits == 16:
        made = like.tape.call("Cast", (like.tape.constant(float(number), "f32"),), {"to": str(dtype)})
        return made
    tape = like.tape
    return tape.scalar(number, str(dtype)) if isinstance(tape, Tape) else tape.constant(number, str(dtype))


def operand(value: Any, like: Array) -> Array:
    """Return the other operand of an array as an array of its tape."""
    if isinstance(value, Variable):
        return value  # type: ignore[return-value]
    if isinstance(value, (bool, int, float)):
        return scalar_array(value, like)
    return like.tape.constant(value)


def cast(x: Array, dtype: DType) -> Array:
    """Convert the elements; an array of the type is returned as it is."""
    name = str(dtype)
    return x if _raw_dtype(x) == name else x.tape.call("Cast", (x,), {"to": name})


def pair(a: Any, b: Any) -> tuple[Array, Array]:
    """Return two operands, one of which is an array, as arrays of their common type."""
    if not isinstance(a, Variable):
        if not isinstance(b, Variable):
            a = current_tape().constant(a, _list_dtype(a))
            return pair(a, b)
        a = operand(a, b)  # type: ignore[arg-type]
    b = operand(b, a)
    first, second = _raw_dtype(a), _raw_dtype(b)
    if first != second:
        common = promote(find_dtype(first), find_dtype(second))
        a, b = cast(a, common), cast(b, common)
    return a, b


def binary(name: str, a: Any, b: Any) -> Array:
    """Call an element-wise instruction of two operands, one of which is an array."""
    if type(a) is Array and type(b) is Array:
        try:
            return a.tape.call(name, (a, b))
        except TypeMismatch:
            if _raw_dtype(a) == _raw_dtype(b):
                raise
    a, b = pair(a, b)
    return a.tape.call(name, (a, b))


def _list_dtype(value: Any) -> str | None:
    """Return f32 for Python floats, which NumPy would make f64."""
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return "f32" if isinstance(value, float) else None


def shape_constant(tape: Any, shape: tuple[int, ...]) -> Any:
    return tape.constant(list(shape), "i64") if shape else _no_axes(tape)


def _no_axes(tape: Any) -> Any:
    """An empty tensor of i64."""
    one = tape.constant([0], "i64")
    zero = tape.constant([0], "i64")
    return tape.call("Slice", (one, zero, zero))


def reshape(x: Array, shape: tuple[int, ...]) -> Array:
    if x.shape == shape:
        return x
    return x.tape.call("Reshape", (x, shape_constant(x.tape, shape)), {"allowzero": 1})


def wrong_type(name: str, x: Array, kinds: str) -> TypeError:
    return TypeError(f"{name}: an array of {x.dtype.name}; {kinds} are needed")


# ---- Indexing ----


def _expand_key(x: Array, key: Any) -> list[Any]:
    """Return an index for each axis: the ellipsis as full slices, lists and masks as variables."""
    rank = x.ndim
    # A bool is a mask without axes, also if it is Python's or NumPy's.
    keys = [_index_array(x, k) for k in (key if isinstance(key, tuple) else (key,))]
    taken = 0
    for k in keys:
        if k is None or k is Ellipsis:
            continue
        taken += k.ndim if isinstance(k, Variable) and k.dtype == "bool" else 1
    ellipses = [i for i, k in enumerate(keys) if k is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("an index has at most one ellipsis")
    if taken > rank:
        raise IndexError(f"{taken} indices for an array of {rank} axes")
    fill = [slice(None)] * (rank - taken)
    if ellipses:
        keys[ellipses[0] : ellipses[0] + 1] = fill
    else:
        keys += fill
    return keys


def _slice_bounds(k: slice, size: int) -> tuple[int, int, int]:
    start, stop, step = k.indices(size)
    length = len(range(start, stop, step))
    if length == 0:
        return 0, 0, 1
    if step < 0 and stop < 0:
        stop = -size - 1
    return start, stop, step


def _basic(x: Array, keys: list[Any]) -> Array:
    """Apply slices, integers and None."""
    shape, tape = x.shape, x.tape
    bounds: list[tuple[int, int, int, int]] = []
    result = []
    axis = 0
    for k in keys:
        if k is None:
            result.append(1)
            continue
        size = shape[axis]
        if isinstance(k, slice):
            start, stop, step = _slice_bounds(k, size)
            result.append(len(range(*k.indices(size))))
            if (start, stop, step) != (0, size, 1):
                bounds.append((start, stop, axis, step))
        else:
            index = operator.index(k)
            if not -size <= index < size:
                raise IndexError(f"index {index} is out of bounds for axis {axis} of size {size}")
            index %= size
            bounds.append((index, index + 1, axis, 1))
        axis += 1
    if bounds:
        lists = [tape.constant(list(numbers), "i64") for numbers in zip(*bounds)]
        x = tape.call("Slice", (x, *lists))
    return reshape(x, tuple(result))


def _mask(x: Array, mask: Array, before: int) -> Array:
    """Select by an array of bool that covers its rank of axes, from axis `before` on."""
    shape = x.shape
    if mask.ndim == 0:
        x, mask = reshape(x, (*shape[:before], 1, *shape[before:])), reshape(mask, (1,))
        shape = x.shape
    covered = shape[before : before + mask.ndim]
    if mask.shape != covered:
        raise IndexError(f"a mask of shape {mask.shape} for axes of shape {covered}")
    x = reshape(x, (*shape[:before], math.prod(covered), *shape[before + mask.ndim :]))
    return x.tape.call("Compress", (x, reshape(mask, (math.prod(covered),))), {"axis": before})


def _arrays(x: Array, keys: list[Any]) -> Array:
    """Apply integer arrays, one or several, beside slices, integers and None, as NumPy does."""
    advanced = [i for i, k in enumerate(keys) if k is not None and not isinstance(k, slice)]
    together = advanced[-1] - advanced[0] + 1 == len(advanced)
    if not together or sum(isinstance(k, Variable) for k in keys) > 1:
        # Integers are index arrays without axes. Apart from the others, they move the axes of the result to the front.
        keys = [x.tape.constant(operator.index(k), "i64") if i in advanced and not isinstance(k, Variable) else k for i, k in enumerate(keys)]
    rest = [slice(None) if isinstance(k, Variable) else k for k in keys]
    places: list[tuple[int, Array]] = []
    axis = 0
    for k in keys:
        if k is None or isinstance(k, (slice, Variable)):
            if isinstance(k, Array):
                places.append((axis, k))
            axis += 1
    x = _basic(x, rest)
    tape = x.tape
    if len(places) == 1:
        axis, index = places[0]
        _check_bounds(index, x.shape[axis], axis)
        return tape.call("Gather", (x, cast(index, int64)), {"axis": axis})
    axes = [axis for axis, _ in places]
    indices = [cast(index, int64) for _, index in places]
    for axis, index in zip(axes, indices):
        _check_bounds(index, x.shape[axis], axis)
    common = broadcast_shapes(*(index.shape for index in indices))
    target = shape_constant(tape, (*common, 1))
    columns = [tape.call("Expand", (reshape(index, (*index.shape, 1)), target)) for index in indices]
    others = [axis for axis in range(x.ndim) if axis not in axes]
    moved = tape.call("Transpose", (x,), {"perm": [*axes, *others]})
    result = tape.call("GatherND", (moved, tape.call("Concat", (columns,), {"axis": -1})))
    first = axes[0]
    if axes == list(range(first, first + len(axes))) and first > 0:
        n = len(common)
        result = tape.call("Transpose", (result,), {"perm": [*range(n, n + first), *range(n), *range(n + first, result.ndim)]})
    return result


def _check_bounds(index: Any, size: int, axis: int) -> None:
    if index.dtype.kind not in ("signed", "unsigned"):
        raise IndexError(f"an index array of {index.dtype.name}; integers or bool are needed")
    if index.tape.mode == "building" or 0 in index.shape:
        return
    numbers = index.value()
    least, greatest = (numbers.numpy().min(), numbers.numpy().max()) if numbers.size > 1 else (numbers.item(), numbers.item())
    if least < -size or greatest >= size:
        raise IndexError(f"an index array has {least} to {greatest}, out of bounds for axis {axis} of size {size}")


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the result of arrays of these shapes."""
    result: list[int] = [1] * max((len(shape) for shape in shapes), default=0)
    for shape in shapes:
        for i, size in enumerate(reversed(shape)):
            own = result[-1 - i]
            if own != size and own != 1 and size != 1:
                raise ValueError(f"shapes {', '.join(map(str, shapes))} do not broadcast")
            result[-1 - i] = size if own == 1 else own
    return tuple(result)


def get_item(x: Array, key: Any) -> Array:
    if type(key) is int:  # the common case
        shape = x.shape
        if not shape:
            raise IndexError("an array without axes has no items")
        if not -shape[0] <= key < shape[0]:
            raise IndexError(f"index {key} is out of bounds for axis 0 of size {shape[0]}")
        return x.tape.call("Gather", (x, x.tape.constant(key % shape[0], "i64")), {"axis": 0})
    keys = _expand_key(x, key if not _is_list(key) else (key,))
    masks = [i for i, k in enumerate(keys) if isinstance(k, Variable) and k.dtype == "bool"]
    if len(masks) > 1 or (masks and any(isinstance(k, Variable) for i, k in enumerate(keys) if i != masks[0])):
        raise IndexError("a mask beside other index arrays")
    if masks:
        rank = keys[masks[0]].ndim
        before = [slice(None)] * rank
        basic = keys[: masks[0]] + before + keys[masks[0] + 1 :]
        axis = sum(1 for k in keys[: masks[0]] if k is None or isinstance(k, slice))
        return _mask(_basic(x, basic), keys[masks[0]], axis)
    if any(isinstance(k, Variable) for k in keys):
        return _arrays(x, keys)
    return _basic(x, keys)


def _is_list(key: Any) -> bool:
    return isinstance(key, list) or (not isinstance(key, (tuple, Variable)) and hasattr(key, "__array_interface__"))


def _index_array(x: Array, k: Any) -> Any:
    if k is None or k is Ellipsis or isinstance(k, slice):
        return k
    if isinstance(k, (bool, list)) or hasattr(k, "__array_interface__"):
        k = x.tape.constant(k)
    if not isinstance(k, Variable) or k.ndim > 0 or k.dtype == "bool":
        return k
    return int(k.value().item())


def set_item(x: Array, key: Any, value: Any) -> None:
    tape = x.tape
    if x.requires_grad:
        raise ValueError("elements of an array that requires a gradient cannot be set; use where")
    shape = x.shape
    size = math.prod(shape)
    value = operand(value, x)
    if _raw_dtype(value) != _raw_dtype(x):
        if promote(value.dtype, x.dtype) != x.dtype:
            raise TypeError(f"elements of {value.dtype.name} cannot be stored in an array of {x.dtype.name}")
        value = cast(value, x.dtype)
    recording = tape.set_recording(False)
    try:
        numbers = tape.call("Range", (tape.constant(0, "i64"), tape.constant(size, "i64"), tape.constant(1, "i64")))
        places = get_item(reshape(numbers, shape), key)
        value = tape.call("Expand", (value, shape_constant(tape, places.shape))) if value.shape != places.shape else value
        if value.shape != places.shape:
            raise ValueError(f"elements of shape {value.shape} for an index of shape {places.shape}")
        count = math.prod(places.shape)
        if count == 0:
            return
        flat = tape.call("ScatterElements", (reshape(x, (size,)), reshape(places, (count,)), reshape(value, (count,))), {"axis": 0})
        tape.call("Reshape", (flat, shape_constant(tape, shape)), {"allowzero": 1}, into=x)
    finally:
        tape.set_recording(recording)


# ---- The class ----


class Array(Variable):
    """An array on a tape: a result of functions and operators, or of `asarray`.

    It has the attributes and operators of the array API standard, and those of automatic differentiation:
    `requires_grad`, `grad`, `backward`, `detach`.
    """

    __slots__ = ()
    __array_ufunc__ = None
    __hash__ = object.__hash__

    # -- Attributes --

    @property
    def dtype(self) -> DType:
        """The element type, as ``xcvm.float32``."""
        return find_dtype(_raw_dtype(self))

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return _raw_shape(self)

    @property
    def device(self) -> str:
        """The device, "cpu"."""
        return "cpu"

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def T(self) -> Array:
        """The transpose of a matrix."""
        if self.ndim != 2:
            raise ValueError(f"T needs an array of 2 axes, not of {self.ndim}; see mT and permute_dims")
        return self.tape.call("Transpose", (self,), {"perm": [1, 0]})

    @property
    def mT(self) -> Array:
        """The transposes of the matrices of the last two axes."""
        if self.ndim < 2:
            raise ValueError(f"mT needs an array of at least 2 axes, not of {self.ndim}")
        n = self.ndim
        return self.tape.call("Transpose", (self,), {"perm": [*range(n - 2), n - 1, n - 2]})

    # -- Exchange --

    def numpy(self) -> Any:
        """Return the elements as a NumPy array: a copy, unless `asarray` made this array of memory that it shares."""
        return self.value().numpy()

    def item(self) -> Any:
        """Return the only element as a Python number."""
        return self.value().item()

    def tolist(self) -> Any:
        """Return the elements as a nested list of Python numbers."""
        return self.value().tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.value().__array__(dtype, copy)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None) -> Any:
        return self.value().__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            raise ValueError(f"version {api_version} of the array API is not supported; 2024.12 is")
        from . import array

        return array

    def to_device(self, device: str, /, *, stream: Any = None) -> Array:
        """Return the array; the only device is "cpu"."""
        if device != "cpu" or stream is not None:
            raise ValueError(f"there is no device {device!r}, and there are no streams; arrays are on 'cpu'")
        return self

    def astype(self, dtype: Any) -> Array:
        """Return the array with its elements converted."""
        return cast(self, find_dtype(dtype))

    def reshape(self, *shape: Any) -> Array:
        """Return the array with another shape; one size may be -1."""
        from .array import reshape as function

        return function(self, shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)

    def sum(self, axis: Any = None, keepdims: bool = False) -> Array:
        """Return the sum of the elements."""
        from .array import sum as function

        return function(self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Array:
        """Return the mean of the elements."""
        from .array import mean as function

        return function(self, axis=axis, keepdims=keepdims)

    # -- Differentiation --

    def backward(self, seed: Any = None, retain_graph: bool = False, create_graph: bool = False) -> None:
        """Add the gradients of this array to the arrays that require one.

        Parameters
        ----------
        seed : Array, optional
            The gradient of this array; 1 if it has one element.
        retain_graph : bool
            Keep what another backward pass needs.
        create_graph : bool
            Record the backward pass, so that gradients can be differentiated.
        """
        if seed is not None and not isinstance(seed, Variable):
            seed = operand(seed, self)
        self.tape.backward(self, seed, retain_graph, create_graph)

    def requires_grad_(self, wanted: bool = True) -> Array:
        """Set whether the array requires a gradient, and return it."""
        self.requires_grad = wanted
        return self

    def zero_grad(self) -> None:
        """Remove the accumulated gradient."""
        self.clear_grad()

    # -- Python's protocols --

    def _number(self, wanted: str) -> Any:
        if self.size != 1 or self.ndim != 0 and wanted == "index":
            raise TypeError(f"an array of shape {self.shape} is not one number")
        return self.value().item()

    def __float__(self) -> float:
        return float(self._number("float"))

    def __int__(self) -> int:
        return int(self._number("int"))

    def __bool__(self) -> bool:
        return bool(self._number("bool"))

    def __complex__(self) -> complex:
        return complex(self._number("complex"))

    def __index__(self) -> int:
        if self.dtype.kind not in ("signed", "unsigned"):
            raise TypeError(f"an array of {self.dtype.name} is no index")
        return int(self._number("index"))

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        if not self.ndim:
            raise TypeError("an array without axes has no items")
        return (get_item(self, i) for i in range(self.shape[0]))

    def __getitem__(self, key: Any) -> Array:
        return get_item(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        set_item(self, key, value)

    def __repr__(self) -> str:
        try:
            return self._describe()
        except Exception as error:  # a released or unevaluated array has a repr too
            return f"Array({type(error).__name__})"

    def _describe(self) -> str:
        if self.kind != "tensor" or self.tape.mode == "building":
            return f"Array(kind={self.kind!r})" if self.kind != "tensor" else f"Array(shape={self.shape}, dtype={self.dtype.name})"
        suffix = f", dtype={self.dtype.name}" + (", requires_grad=True" if self.requires_grad else "")
        if self.size <= 1000:
            try:
                import numpy

                elements = self.numpy()
                if elements.dtype.kind == "u" and self.dtype.kind != "unsigned":  # bits of a type that NumPy lacks
                    elements = numpy.asarray(self.tolist())
                return "Array(" + numpy.array2string(elements, separator=", ", prefix="Array(") + suffix + ")"
            except ImportError:
                return f"Array({self.tolist()}{suffix})"
        return f"Array(shape={self.shape}{suffix})"

    def __reduce__(self) -> Any:
        return _restore, (self.value(), self.requires_grad and self.creator is None)

    # -- Operators --

    def __neg__(self) -> Array:
        if self.dtype.kind == "unsigned":
            zero = scalar_array(0, self)
            return binary("Sub", zero, self)
        return self.tape.call("Neg", (self,))

    def __pos__(self) -> Array:
        if self.dtype.kind == "bool":
            raise wrong_type("+x", self, "numbers")
        return self

    def __abs__(self) -> Array:
        return self.tape.call("Abs", (self,))

    def __add__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return binary("Add", self, other)

    def __radd__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return binary("Add", other, self)

    def __sub__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return binary("Sub", self, other)

    def __rsub__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return binary("Sub", other, self)

    def __mul__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return binary("Mul", self, other)

    def __rmul__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return binary("Mul", other, self)

    def __truediv__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return divide(self, other)

    def __rtruediv__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return divide(other, self)

    def __floordiv__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return floor_divide(other, self)

    def __mod__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return remainder(self, other)

    def __rmod__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return remainder(other, self)

    def __pow__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        if isinstance(other, int) and other < 0 and self.dtype.kind in ("signed", "unsigned"):
            raise ValueError("integers to negative integer powers are not integers; convert the array with astype")
        return binary("Pow", self, other)

    def __rpow__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return binary("Pow", other, self)

    def __matmul__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return matmul(self, other)

    def __rmatmul__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return matmul(other, self)

    def __lt__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return binary("Less", self, other)

    def __le__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return binary("LessOrEqual", self, other)

    def __gt__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return binary("Greater", self, other)

    def __ge__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return binary("GreaterOrEqual", self, other)

    def __eq__(self, other: Any) -> Array:  # type: ignore[override]
        if not _known(other):
            return NotImplemented
        return binary("Equal", self, other)

    def __ne__(self, other: Any) -> Array:  # type: ignore[override]
        if not _known(other):
            return NotImplemented
        return self.tape.call("Not", (binary("Equal", self, other),))

    def __and__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return bitwise("And", self, other)

    def __rand__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return bitwise("And", other, self)

    def __or__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return bitwise("Or", self, other)

    def __ror__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return bitwise("Or", other, self)

    def __xor__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return bitwise("Xor", self, other)

    def __rxor__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return bitwise("Xor", other, self)

    def __invert__(self) -> Array:
        return invert(self)

    def __lshift__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return shift(self, other, "LEFT")

    def __rlshift__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return shift(other, self, "LEFT")

    def __rshift__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return shift(self, other, "RIGHT")

    def __rrshift__(self, other: Any) -> Array:
        if not _known(other):
            return NotImplemented
        return shift(other, self, "RIGHT")


def _known(other: Any) -> bool:
    return isinstance(other, (Variable, bool, int, float)) or hasattr(other, "__array_interface__")


def _restore(value: Any, requires_grad: bool) -> Any:
    tape = current_tape()
    return tape.parameter(value) if requires_grad else tape.constant(value)


# ---- Functions of several instructions, which operators need ----


def divide(a: Any, b: Any) -> Array:
    x, y = pair(a, b)
    if x.dtype.kind != "float":
        raise wrong_type("divide", x, "floats")
    return x.tape.call("Div", (x, y))


def remainder(a: Any, b: Any) -> Array:
    x, y = pair(a, b)
    if x.dtype.kind == "bool":
        raise wrong_type("remainder", x, "numbers")
    return x.tape.call("Mod", (x, y), {"fmod": 0})


def floor_divide(a: Any, b: Any) -> Array:
    x, y = pair(a, b)
    if x.dtype.kind == "bool":
        raise wrong_type("floor_divide", x, "numbers")
    call = x.tape.call
    if x.dtype.kind == "unsigned":
        return call("Div", (x, y))
    zero = operand(0, x)
    if x.dtype.kind == "float":
        # The steps of NumPy and CPython: the quotient of 1.0 and 0.1 is 10.0 after rounding, but its floor is 9.
        rest = call("Mod", (x, y), {"fmod": 1})
        exact = call("Div", (call("Sub", (x, rest)), y))
        negative = call("Xor", (call("Less", (rest, zero)), call("Less", (y, zero))))
        one = call("And", (call("Not", (call("Equal", (rest, zero)),)), negative))
        rounded = call("Sub", (call("Round", (exact,)), cast(one, x.dtype)))
        # The standard has the floor of the quotient also for infinities and zeros, where the remainder says nothing.
        direct = [call("Equal", (x, zero)), call("Equal", (y, zero)), call("IsInf", (x,)), call("IsInf", (y,))]
        special = call("Or", (call("Or", (direct[0], direct[1])), call("Or", (direct[2], direct[3]))))
        return call("Where", (special, call("Floor", (call("Div", (x, y)),)), rounded))
    # Subtracting the remainder from x first would overflow for the smallest integers.
    rest = call("Mod", (x, y), {"fmod": 0})
    negative = call("Xor", (call("Less", (x, zero)), call("Less", (y, zero))))
    one = call("And", (call("Not", (call("Equal", (rest, zero)),)), negative))
    return call("Sub", (call("Div", (x, y)), cast(one, x.dtype)))


def matmul(a: Any, b: Any) -> Array:
    x, y = pair(a, b)
    if x.ndim == 0 or y.ndim == 0:
        raise ValueError("matmul needs arrays with axes; multiply by numbers with *")
    if x.dtype.kind == "bool":
        raise wrong_type("matmul", x, "numbers")
    dtype = x.dtype
    if dtype.kind in ("signed", "unsigned") and dtype.bits < 32:
        wide = find_dtype("i32" if dtype.kind == "signed" else "u32")
        return cast(x.tape.call("MatMul", (cast(x, wide), cast(y, wide))), dtype)
    return x.tape.call("MatMul", (x, y))


def bitwise(name: str, a: Any, b: Any) -> Array:
    x, y = pair(a, b)
    if x.dtype.kind == "float":
        raise wrong_type("bitwise " + name.lower(), x, "integers or bool")
    return x.tape.call(name if x.dtype.kind == "bool" else "Bitwise" + name, (x, y))


def invert(x: Array) -> Array:
    if x.dtype.kind == "float":
        raise wrong_type("bitwise invert", x, "integers or bool")
    return x.tape.call("Not" if x.dtype.kind == "bool" else "BitwiseNot", (x,))


def shift(a: Any, b: Any, direction: str) -> Array:
    x, y = pair(a, b)
    if x.dtype.kind not in ("signed", "unsigned"):
        raise wrong_type("bitwise shift", x, "integers")
    if x.dtype.kind == "unsigned":
        return x.tape.call("BitShift", (x, y), {"direction": direction})
    # Two's complement: x << y is x * 2^y, and x >> y is floor(x / 2^y).
    bits = x.dtype.bits
    unsigned = find_dtype(f"u{bits}")
    if direction == "LEFT":
        moved = x.tape.call("BitShift", (cast(x, unsigned), cast(y, unsigned)), {"direction": direction})
        return cast(moved, x.dtype)
    negative = binary("Less", x, 0)
    flipped = x.tape.call("Where", (negative, x.tape.call("BitwiseNot", (x,)), x))
    moved = cast(x.tape.call("BitShift", (cast(flipped, unsigned), cast(y, unsigned)), {"direction": direction}), x.dtype)
    return x.tape.call("Where", (negative, x.tape.call("BitwiseNot", (moved,)), moved))

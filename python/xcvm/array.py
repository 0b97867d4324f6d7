"""The functions of the Python array API standard, 2024.12, without linalg, fft and complex numbers.

>>> import xcvm.array as xp
>>> x = xp.linspace(0, 1, 5)
>>> xp.sum(xp.exp(x))

Arrays are made on the tape of the current thread, or of the ``with`` block (`xcvm.lazy`). Functions of arrays are
recorded, so that gradients flow through them. The default types are float32 and int64. Numbers and lists beside an array
are converted to its type.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ._array import Array, _list_dtype, binary, bitwise, broadcast_shapes, cast, divide, floor_divide, invert, matmul, operand, pair, promote, remainder, reshape as _reshape, scalar_array, shape_constant, shift, wrong_type
from ._context import DType, bfloat16, bool_ as bool, complex64, complex128, current_tape, find_dtype, float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64
from ._tape import Variable

__array_api_version__ = "2024.12"
e, pi, inf, nan, newaxis = math.e, math.pi, math.inf, math.nan, None

_FLOATS, _INTS, _REALS = "floats", "integers", "numbers"
_kinds = {_FLOATS: ("float",), _INTS: ("signed", "unsigned"), _REALS: ("float", "signed", "unsigned")}


def _array(x: Any) -> Array:
    return x if isinstance(x, Array) else asarray(x)


def _need(name: str, x: Any, kinds: str) -> Array:
    x = _array(x)
    if x.dtype.kind not in _kinds[kinds]:
        raise wrong_type(name, x, kinds)
    return x


def _call(name: str, x: Array, *others: Any, **attributes: Any) -> Any:
    return x.tape.call(name, (x, *others), attributes)


def _axis(axis: int, rank: int) -> int:
    axis = axis.__index__()
    if not -rank <= axis < builtins.max(rank, 0) or rank == 0:
        raise ValueError(f"axis {axis} of an array of {rank} axes")
    return axis % rank


def _axes(axis: Any, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    axes = tuple(_axis(a, rank) for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    if len(set(axes)) != len(axes):
        raise ValueError(f"axes {axis} name one twice")
    return axes


def _shape(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, (tuple, list)):
        return tuple(int(size.__index__()) for size in shape)
    return (int(shape.__index__()),)


def _check_device(device: Any) -> None:
    if device not in (None, "cpu"):
        raise ValueError(f"there is no device {device!r}; arrays are on 'cpu'")


# ---- Creation ----


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None, requires_grad: Any = False) -> Array:
    """Return an array of a number, a nested list, or an object with a buffer, DLPack or __array__.

    Parameters
    ----------
    obj : object
        The elements. Floats of Python become float32, ints int64.
    dtype : element type, optional
    copy : bool, optional
        True: the result shares no memory with an array; False: a copy is an error.
    requires_grad : bool
        Make a parameter: an array that gradients are accumulated for.
    """
    _check_device(device)
    wanted = find_dtype(dtype) if dtype is not None else None
    tape = current_tape()
    if isinstance(obj, Array):
        made = obj if wanted is None else cast(obj, wanted)
        if requires_grad:
            return obj.tape.parameter(made.value())
        if copy and made is obj:
            made = tape.constant(obj.value())
        if copy is False and made is not obj:
            raise ValueError("the conversion needs a copy")
        return made
    if copy is False:
        raise ValueError("an array of another object is a copy")
    if isinstance(obj, (list, tuple)) and _has_arrays(obj):
        made = stack([asarray(item, dtype=dtype) for item in obj])
        return made if not requires_grad else asarray(made, requires_grad=True)
    if isinstance(obj, complex) and not isinstance(obj, (int, float)):
        raise TypeError("complex numbers are not supported")
    short = None if wanted is None else str(wanted)
    plain = isinstance(obj, (builtins.bool, int, float, list, tuple))
    if plain and wanted is not None and wanted.kind == "float" and wanted.bits == 16:
        made = cast(tape.constant(obj, "f32"), wanted)
    elif plain and wanted is not None and isinstance(obj, (float, builtins.bool)) and wanted.kind != "float":
        made = cast(tape.constant(obj), wanted)
    elif plain:
        made = tape.constant(obj, short or _list_dtype(obj))
    else:
        made = tape.constant(obj)
        if wanted is not None:
            made = cast(made, wanted)
    return tape.parameter(made.value()) if requires_grad else made


def _has_arrays(obj: Any) -> builtins.bool:
    return builtins.any(isinstance(item, Array) or (isinstance(item, (list, tuple)) and _has_arrays(item)) for item in obj)


def parameter(obj: Any, /, *, dtype: Any = None) -> Array:
    """Return an array that requires a gradient; see asarray."""
    return asarray(obj, dtype=dtype, requires_grad=True)


def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Array:
    """Return an array of the elements of an object with DLPack."""
    _check_device(device)
    return current_tape().constant(x if not isinstance(x, Array) else x.value())


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """Return an array of equal elements."""
    _check_device(device)
    value = asarray(fill_value, dtype=dtype)
    return _call("Expand", value, shape_constant(value.tape, _shape(shape)))


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """Return an array of zeros."""
    return full(shape, 0, dtype=float32 if dtype is None else dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """Return an array of ones."""
    return full(shape, 1, dtype=float32 if dtype is None else dtype, device=device)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """Return an array of zeros."""
    return zeros(shape, dtype=dtype, device=device)


def full_like(x: Array, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """Return an array of the shape and type of x, of equal elements."""
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=device)


def zeros_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Return zeros of the shape and type of x."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Return ones of the shape and type of x."""
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Return zeros of the shape and type of x."""
    return full_like(x, 0, dtype=dtype, device=device)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Array:
    """Return evenly spaced numbers from start, included, to stop, excluded."""
    _check_device(device)
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        dtype = int64 if builtins.all(isinstance(v, int) for v in (start, stop, step)) else float32
    dtype = find_dtype(dtype)
    count = builtins.max(0, math.ceil((stop - start) / step))
    tape = current_tape()
    steps = tape.call("Range", (tape.constant(0, "i64"), tape.constant(count, "i64"), tape.constant(1, "i64")))
    wide = float64 if dtype.kind == "float" or not builtins.all(isinstance(v, int) for v in (start, step)) else int64
    numbers = cast(steps, wide) * tape.constant(wide.kind == "float" and float(step) or step, str(wide)) + tape.constant(
        float(start) if wide.kind == "float" else start, str(wide)
    )
    return cast(numbers, dtype)


def linspace(start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: builtins.bool = True) -> Array:
    """Return `num` evenly spaced numbers from start to stop."""
    _check_device(device)
    dtype = float32 if dtype is None else find_dtype(dtype)
    parts = num - 1 if endpoint else num
    steps = cast(arange(num), float64)
    numbers = steps * ((stop - start) / parts if parts > 0 else 0.0) + float(start)
    if endpoint and num > 1:
        numbers = where(arange(num) == num - 1, full((), float(stop), dtype=float64), numbers)
    return cast(numbers, dtype)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Array:
    """Return a matrix of ones on diagonal k and zeros elsewhere."""
    _check_device(device)
    columns = n_rows if n_cols is None else n_cols
    rows, places = arange(n_rows)[:, None], arange(columns)[None, :]
    k = builtins.min(builtins.max(k, -n_rows), columns)  # beyond these there is no element, however far
    return cast(places - rows == k, float32 if dtype is None else find_dtype(dtype))


def tril(x: Array, /, *, k: int = 0) -> Array:
    """Return the lower triangles of matrices, zeros above diagonal k."""
    return _triangle(x, k, 0)


def triu(x: Array, /, *, k: int = 0) -> Array:
    """Return the upper triangles of matrices, zeros below diagonal k."""
    return _triangle(x, k, 1)


def _triangle(x: Array, k: int, upper: int) -> Array:
    if x.ndim < 2:
        raise ValueError(f"a triangle of an array of {x.ndim} axes; 2 are needed")
    k = builtins.min(builtins.max(k, -x.shape[-2]), x.shape[-1])
    return _call("Trilu", x, x.tape.constant(k, "i64"), upper=upper)


def meshgrid(*arrays: Array, indexing: str = "xy") -> list[Array]:
    """Return coordinate arrays of coordinate vectors."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing is 'xy' or 'ij', not {indexing!r}")
    if len({x.dtype for x in arrays}) > 1:
        raise ValueError("the arrays have different types")
    n = len(arrays)
    order = list(range(n))
    if indexing == "xy" and n > 1:
        order[0], order[1] = 1, 0
    shaped = [_reshape(x, tuple(x.size if axis == order[i] else 1 for axis in range(n))) for i, x in enumerate(arrays)]
    return list(broadcast_arrays(*shaped))


# ---- Types ----


def astype(x: Array, dtype: Any, /, *, copy: builtins.bool = True, device: Any = None) -> Array:
    """Return the array with its elements converted; `copy` also copies an array of the type."""
    _check_device(device)
    made = cast(x, find_dtype(dtype))
    return _call("Identity", x) if made is x and copy else made


def result_type(*arrays_and_dtypes: Any) -> DType:
    """Return the common type of arrays and types."""
    types = [v.dtype if isinstance(v, Array) else find_dtype(v) for v in arrays_and_dtypes if not isinstance(v, (builtins.bool, int, float)) or isinstance(v, type)]
    if not types:
        raise ValueError("result_type needs an array or a type")
    result = types[0]
    for dtype in types[1:]:
        result = promote(result, dtype)
    return result


def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    """Return whether promotion can convert a type to another one."""
    source = from_.dtype if isinstance(from_, Array) else find_dtype(from_)
    try:
        return promote(source, find_dtype(to)) == to
    except TypeError:
        return False


class finfo_object(NamedTuple):
    """Properties of a type of floats."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class iinfo_object(NamedTuple):
    """Properties of a type of integers."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any, /) -> finfo_object:
    """Return the precision and the range of a type of floats."""
    dtype = type.dtype if isinstance(type, Array) else find_dtype(type)
    digits = {float16: (10, 15), bfloat16: (7, 127), float32: (23, 127), float64: (52, 1023)}
    if dtype not in digits:
        raise TypeError(f"{dtype.name} is no type of floats")
    fraction, exponent = digits[dtype]
    greatest = (2.0 - 2.0**-fraction) * 2.0**exponent
    return finfo_object(dtype.bits, 2.0**-fraction, greatest, -greatest, 2.0 ** (1 - exponent), dtype)


def iinfo(type: Any, /) -> iinfo_object:
    """Return the range of a type of integers."""
    dtype = type.dtype if isinstance(type, Array) else find_dtype(type)
    if dtype.kind not in ("signed", "unsigned"):
        raise TypeError(f"{dtype.name} is no type of integers")
    bits = dtype.bits
    if dtype.kind == "unsigned":
        return iinfo_object(bits, 2**bits - 1, 0, dtype)
    return iinfo_object(bits, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), dtype)


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Return whether a type is of a kind: a type, a name as "real floating", or a tuple of them."""
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, k) for k in kind)
    own = find_dtype(dtype)
    if isinstance(kind, DType):
        return own == kind
    kinds = {
        "bool": ("bool",),
        "signed integer": ("signed",),
        "unsigned integer": ("unsigned",),
        "integral": ("signed", "unsigned"),
        "real floating": ("float",),
        "complex floating": ("complex",),
        "numeric": ("signed", "unsigned", "float", "complex"),
    }
    if kind not in kinds:
        raise ValueError(f"there is no kind {kind!r}; there are {', '.join(kinds)}")
    return own.kind in kinds[kind]


class _Info:
    """What the namespace can do."""

    def capabilities(self) -> dict[str, Any]:
        """Return optional features."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self) -> str:
        """Return "cpu"."""
        return "cpu"

    def devices(self) -> list[str]:
        """Return the devices."""
        return ["cpu"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """Return the default types."""
        return {"real floating": float32, "complex floating": complex64, "integral": int64, "indexing": int64}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """Return the types by name, of a kind."""
        types = [bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64]
        return {dtype.name: dtype for dtype in types if kind is None or isdtype(dtype, kind)}


def __array_namespace_info__() -> _Info:
    """Return what the namespace can do."""
    return _Info()


# ---- Element-wise functions ----


def _unary(name: str, instruction: str, kinds: str, doc: str) -> Any:
    def function(x: Array, /) -> Array:
        x = _need(name, x, kinds)
        return x.tape.call(instruction, (x,))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _binary(name: str, function: Any, doc: str, kinds: tuple[str, ...] = ()) -> Any:
    def both(x1: Array, x2: Array, /) -> Array:
        if kinds:
            a, b = pair(x1, x2)
            if a.dtype.kind not in kinds:
                raise wrong_type(name, a, " or ".join(kinds))
            x1, x2 = a, b
        return function(x1, x2)

    both.__name__ = both.__qualname__ = name
    both.__doc__ = doc
    return both


def _instruction(name: str) -> Any:
    return lambda a, b: binary(name, a, b)


_real = ("float", "signed", "unsigned")
_float = ("float",)

acos = _unary("acos", "Acos", _FLOATS, "Return the inverse cosine.")
acosh = _unary("acosh", "Acosh", _FLOATS, "Return the inverse hyperbolic cosine.")
asin = _unary("asin", "Asin", _FLOATS, "Return the inverse sine.")
asinh = _unary("asinh", "Asinh", _FLOATS, "Return the inverse hyperbolic sine.")
atan = _unary("atan", "Atan", _FLOATS, "Return the inverse tangent.")
atanh = _unary("atanh", "Atanh", _FLOATS, "Return the inverse hyperbolic tangent.")
cos = _unary("cos", "Cos", _FLOATS, "Return the cosine.")
cosh = _unary("cosh", "Cosh", _FLOATS, "Return the hyperbolic cosine.")
exp = _unary("exp", "Exp", _FLOATS, "Return e to the power of the elements.")
log = _unary("log", "Log", _FLOATS, "Return the natural logarithm.")
sin = _unary("sin", "Sin", _FLOATS, "Return the sine.")
sinh = _unary("sinh", "Sinh", _FLOATS, "Return the hyperbolic sine.")
sqrt = _unary("sqrt", "Sqrt", _FLOATS, "Return the square root.")
tan = _unary("tan", "Tan", _FLOATS, "Return the tangent.")
tanh = _unary("tanh", "Tanh", _FLOATS, "Return the hyperbolic tangent.")

add = _binary("add", _instruction("Add"), "Return the sum.", _real)
subtract = _binary("subtract", _instruction("Sub"), "Return the difference.", _real)
multiply = _binary("multiply", _instruction("Mul"), "Return the product.", _real)
divide = _binary("divide", divide, "Return the quotient of floats.")
floor_divide = _binary("floor_divide", floor_divide, "Return the quotient rounded down.")
remainder = _binary("remainder", remainder, "Return the remainder, with the sign of the divisor.")
pow = _binary("pow", _instruction("Pow"), "Return x1 to the power of x2.", _real)
matmul = _binary("matmul", matmul, "Return the matrix product.")
equal = _binary("equal", _instruction("Equal"), "Return where the elements are equal.")
less = _binary("less", _instruction("Less"), "Return where x1 < x2.", _real)
less_equal = _binary("less_equal", _instruction("LessOrEqual"), "Return where x1 <= x2.", _real)
greater = _binary("greater", _instruction("Greater"), "Return where x1 > x2.", _real)
greater_equal = _binary("greater_equal", _instruction("GreaterOrEqual"), "Return where x1 >= x2.", _real)
maximum = _binary("maximum", lambda a, b: _extreme("Max", a, b), "Return the greater elements.", _real)
minimum = _binary("minimum", lambda a, b: _extreme("Min", a, b), "Return the lesser elements.", _real)
bitwise_and = _binary("bitwise_and", lambda a, b: bitwise("And", a, b), "Return the bits that both have.")
bitwise_or = _binary("bitwise_or", lambda a, b: bitwise("Or", a, b), "Return the bits that either has.")
bitwise_xor = _binary("bitwise_xor", lambda a, b: bitwise("Xor", a, b), "Return the bits that one has.")
bitwise_left_shift = _binary("bitwise_left_shift", lambda a, b: shift(a, b, "LEFT"), "Return x1 shifted left.")
bitwise_right_shift = _binary("bitwise_right_shift", lambda a, b: shift(a, b, "RIGHT"), "Return x1 shifted right.")
logical_and = _binary("logical_and", _instruction("And"), "Return where both are true.", ("bool",))
logical_or = _binary("logical_or", _instruction("Or"), "Return where either is true.", ("bool",))
logical_xor = _binary("logical_xor", _instruction("Xor"), "Return where one is true.", ("bool",))


def _extreme(name: str, a: Any, b: Any) -> Array:
    x, y = pair(a, b)
    rows = x.tape.call(name, (x, y))
    return rows


def not_equal(x1: Array, x2: Array, /) -> Array:
    """Return where the elements differ."""
    return logical_not(equal(x1, x2))


def logical_not(x: Array, /) -> Array:
    """Return where x is false."""
    if x.dtype.kind != "bool":
        raise wrong_type("logical_not", x, "bool")
    return invert(x)


def bitwise_invert(x: Array, /) -> Array:
    """Return x with every bit inverted."""
    return invert(x)


def abs(x: Array, /) -> Array:
    """Return the absolute value."""
    return _call("Abs", _need("abs", x, _REALS))


def negative(x: Array, /) -> Array:
    """Return -x."""
    return -_need("negative", x, _REALS)


def positive(x: Array, /) -> Array:
    """Return x."""
    return _call("Identity", _need("positive", x, _REALS))


def sign(x: Array, /) -> Array:
    """Return -1, 0 or 1; NaN stays."""
    x = _need("sign", x, _REALS)
    signs = _call("Sign", x)
    return where(isnan(x), x, signs) if x.dtype.kind == "float" else signs


def square(x: Array, /) -> Array:
    """Return the square."""
    x = _need("square", x, _REALS)
    return binary("Mul", x, x)


def reciprocal(x: Array, /) -> Array:
    """Return 1 / x."""
    return _call("Reciprocal", _need("reciprocal", x, _FLOATS))


def _rounding(name: str, instruction: str, x: Array) -> Array:
    x = _need(name, x, _REALS)
    return _call(instruction, x) if x.dtype.kind == "float" else x


def ceil(x: Array, /) -> Array:
    """Return the least integers above."""
    return _rounding("ceil", "Ceil", x)


def floor(x: Array, /) -> Array:
    """Return the greatest integers below."""
    return _rounding("floor", "Floor", x)


def round(x: Array, /) -> Array:
    """Return the nearest integers, of two the even one."""
    return _rounding("round", "Round", x)


def trunc(x: Array, /) -> Array:
    """Return the nearest integers towards zero."""
    x = _need("trunc", x, _REALS)
    if x.dtype.kind != "float":
        return x
    return where(signbit(x), _call("Ceil", x), _call("Floor", x))


def isnan(x: Array, /) -> Array:
    """Return where x is NaN."""
    x = _need("isnan", x, _REALS)
    return _call("IsNaN", x) if x.dtype.kind == "float" else full(x.shape, False)


def isinf(x: Array, /) -> Array:
    """Return where x is infinite."""
    x = _need("isinf", x, _REALS)
    return _call("IsInf", x) if x.dtype.kind == "float" else full(x.shape, False)


def isfinite(x: Array, /) -> Array:
    """Return where x is neither infinite nor NaN."""
    x = _need("isfinite", x, _REALS)
    return logical_not(isnan(x) | isinf(x)) if x.dtype.kind == "float" else full(x.shape, True)


def signbit(x: Array, /) -> Array:
    """Return where the sign bit is set, as in -0.0."""
    x = _need("signbit", x, _FLOATS)
    return binary("Less", _call("BitCast", x.detach() if x.requires_grad else x, to=f"i{x.dtype.bits}"), 0)


def copysign(x1: Array, x2: Array, /) -> Array:
    """Return the magnitude of x1 with the sign of x2."""
    a, b = pair(x1, x2)
    a = _need("copysign", a, _FLOATS)
    return where(signbit(a) == signbit(b), a, -a)


def nextafter(x1: Array, x2: Array, /) -> Array:
    """Return the neighbors of the elements of x1 in the direction of x2."""
    a, b = pair(x1, x2)
    _need("nextafter", a, _FLOATS)
    bits = find_dtype(f"i{a.dtype.bits}")
    code = _call("BitCast", a, to=str(bits))
    # The bits of floats of one sign are ordered as their magnitudes. A zero's neighbor is the least number of x2's sign.
    step = where(greater(b, a) == greater(a, 0), scalar_array(1, code), scalar_array(-1, code))
    least = where(less(b, 0), scalar_array(-(2 ** (bits.bits - 1)) + 1, code), scalar_array(1, code))
    moved = _call("BitCast", where(equal(a, 0), least, add(code, step)), to=str(a.dtype))
    return where(equal(a, b), b, where(logical_or(isnan(a), isnan(b)), add(a, b), moved))


def clip(x: Array, /, min: Any = None, max: Any = None) -> Array:
    """Return x limited to [min, max]."""
    x = _need("clip", x, _REALS)
    for bound, function in ((min, maximum), (max, minimum)):
        if bound is not None:
            x = cast(function(x, bound), x.dtype)
    return x


def expm1(x: Array, /) -> Array:
    """Return exp(x) - 1, also precisely near zero."""
    x = _need("expm1", x, _FLOATS)
    near = less(abs(x), 0.5)
    half = where(near, x, zeros_like(x)) * 0.5
    t = tanh(half)
    return where(near, 2 * t / (1 - t), exp(x) - 1)


def log1p(x: Array, /) -> Array:
    """Return log(1 + x), also precisely near zero."""
    x = _need("log1p", x, _FLOATS)
    near = less(abs(x), 0.5)
    small = where(near, x, zeros_like(x))
    return where(near, 2 * atanh(small / (2 + small)), log(1 + where(near, zeros_like(x), x)))


def log2(x: Array, /) -> Array:
    """Return the logarithm to base 2."""
    return log(x) * (1 / math.log(2))


def log10(x: Array, /) -> Array:
    """Return the logarithm to base 10."""
    return log(x) * (1 / math.log(10))


def logaddexp(x1: Array, x2: Array, /) -> Array:
    """Return log(exp(x1) + exp(x2))."""
    a, b = pair(x1, x2)
    _need("logaddexp", a, _FLOATS)
    rows = stack([*broadcast_arrays(a, b)])
    return _call("ReduceLogSumExp", rows, rows.tape.constant([0], "i64"), keepdims=0)


def hypot(x1: Array, x2: Array, /) -> Array:
    """Return sqrt(x1^2 + x2^2) without overflow."""
    a, b = pair(x1, x2)
    a, b = abs(_need("hypot", a, _FLOATS)), abs(b)
    great, small = maximum(a, b), minimum(a, b)
    safe = where(equal(great, 0.0) | isinf(great), ones_like(great), great)
    ratio = small / safe
    result = great * sqrt(1 + ratio * ratio)
    return where(isinf(a) | isinf(b), full_like(result, inf), result)


def atan2(x1: Array, x2: Array, /) -> Array:
    """Return the angle of the points (x2, x1)."""
    y, x = pair(x1, x2)
    y, x = broadcast_arrays(_need("atan2", y, _FLOATS), x)
    both_infinite = isinf(y) & isinf(x)
    y1, x_1 = where(both_infinite, copysign(ones_like(y), y), y), where(both_infinite, copysign(ones_like(x), x), x)
    a, b = abs(y1), abs(x_1)
    steep = greater(a, b)
    top, bottom = where(steep, b, a), where(steep, a, b)
    angle = atan(top / where(equal(bottom, 0.0), ones_like(bottom), bottom))
    angle = where(steep, math.pi / 2 - angle, angle)
    angle = where(signbit(x), math.pi - angle, angle)
    result = where(signbit(y), -angle, angle)
    return where(isnan(y) | isnan(x), full_like(result, nan), result)


# ---- Searching and sorting ----


def where(condition: Array, x1: Any, x2: Any, /) -> Array:
    """Return elements of x1 where the condition is true, of x2 elsewhere."""
    if isinstance(x1, Variable) or isinstance(x2, Variable):
        a, b = pair(x1, x2)
    else:
        a, b = pair(asarray(x1), x2)
    if condition.dtype.kind != "bool":
        raise wrong_type("where", condition, "bool")
    return a.tape.call("Where", (condition, a, b))


def _arg(name: str, x: Array, axis: int | None, keepdims: builtins.bool) -> Array:
    x = _need(name.lower(), x, _REALS)
    if x.size == 0:
        raise ValueError(f"{name.lower()} of no elements")
    if axis is None:
        result = _call(name, _reshape(x, (x.size,)), axis=0, keepdims=0)
        return _reshape(result, (1,) * x.ndim) if keepdims else result
    return _call(name, x, axis=_axis(axis, x.ndim), keepdims=int(keepdims))


def argmax(x: Array, /, *, axis: int | None = None, keepdims: builtins.bool = False) -> Array:
    """Return the index of the greatest element, of equal ones the first."""
    return _arg("ArgMax", x, axis, keepdims)


def argmin(x: Array, /, *, axis: int | None = None, keepdims: builtins.bool = False) -> Array:
    """Return the index of the least element, of equal ones the first."""
    return _arg("ArgMin", x, axis, keepdims)


def nonzero(x: Array, /) -> tuple[Array, ...]:
    """Return the indices of elements that are not zero, for each axis."""
    if x.ndim == 0:
        raise ValueError("nonzero of an array without axes")
    places = _call("NonZero", x)
    return tuple(places[i] for i in range(x.ndim))


def count_nonzero(x: Array, /, *, axis: Any = None, keepdims: builtins.bool = False) -> Array:
    """Return the number of elements that are not zero."""
    return sum(cast(_truth(x), int64), axis=axis, keepdims=keepdims)


def searchsorted(x1: Array, x2: Array, /, *, side: str = "left", sorter: Array | None = None) -> Array:
    """Return where elements of x2 belong in the sorted x1."""
    if side not in ("left", "right"):
        raise ValueError(f"side is 'left' or 'right', not {side!r}")
    if sorter is not None:
        x1 = take(x1, sorter)
    a, b = pair(x1, x2)
    compared = less(a, b[..., None]) if side == "left" else less_equal(a, b[..., None])
    return sum(cast(compared, int64), axis=-1)


def _sorted(x: Array, axis: int, descending: builtins.bool, which: str) -> Array:
    x = _need("sort", x, _REALS)
    axis = _axis(axis, x.ndim)
    count = x.tape.constant([x.shape[axis]], "i64")
    attributes = {"axis": axis, "largest": int(descending), "sorted": 1}
    return x.tape.call("TopK", (x, count), attributes, [which])[0]


def sort(x: Array, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True) -> Array:
    """Return the elements in order along an axis."""
    return _sorted(x, axis, descending, "values")


def argsort(x: Array, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True) -> Array:
    """Return the indices that sort the elements along an axis."""
    return _sorted(x, axis, descending, "indices")


# ---- Sets ----


class unique_all_result(NamedTuple):
    """The result of unique_all."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class unique_counts_result(NamedTuple):
    """The result of unique_counts."""

    values: Array
    counts: Array


class unique_inverse_result(NamedTuple):
    """The result of unique_inverse."""

    values: Array
    inverse_indices: Array


def unique_all(x: Array, /) -> unique_all_result:
    """Return the distinct elements, their first places, the place of each element among them, and their counts."""
    flat = _reshape(x, (x.size,))
    narrow = flat if flat.dtype.kind != "bool" else cast(flat, uint8)
    values, indices, inverse, counts = flat.tape.call("Unique", (narrow,), {"axis": 0}, 4)
    return unique_all_result(cast(values, x.dtype), indices, _reshape(inverse, x.shape), counts)


def unique_counts(x: Array, /) -> unique_counts_result:
    """Return the distinct elements and their counts."""
    result = unique_all(x)
    return unique_counts_result(result.values, result.counts)


def unique_inverse(x: Array, /) -> unique_inverse_result:
    """Return the distinct elements and the place of each element among them."""
    result = unique_all(x)
    return unique_inverse_result(result.values, result.inverse_indices)


def unique_values(x: Array, /) -> Array:
    """Return the distinct elements."""
    return unique_all(x).values


# ---- Reductions ----


def _reduce(instruction: str, x: Array, axis: Any, keepdims: builtins.bool) -> Array:
    axes = _axes(axis, x.ndim)
    if not axes:
        return x if instruction != "ReduceSumSquare" else x * x
    if axis is None:
        return x.tape.call(instruction, (x,), {"keepdims": int(keepdims)})
    return x.tape.call(instruction, (x, x.tape.constant(list(axes), "i64")), {"keepdims": int(keepdims)})


def _accumulator(x: Array, dtype: Any) -> Array:
    if dtype is not None:
        return cast(x, find_dtype(dtype))
    if x.dtype.kind == "bool":
        return cast(x, int64)
    if x.dtype.kind == "signed":
        return cast(x, int64)
    return cast(x, uint64) if x.dtype.kind == "unsigned" else x


def sum(x: Array, /, *, axis: Any = None, dtype: Any = None, keepdims: builtins.bool = False) -> Array:
    """Return the sum; of integers as int64 or uint64."""
    return _reduce("ReduceSum", _accumulator(_array(x), dtype), axis, keepdims)


def prod(x: Array, /, *, axis: Any = None, dtype: Any = None, keepdims: builtins.bool = False) -> Array:
    """Return the product; of integers as int64 or uint64."""
    return _reduce("ReduceProd", _accumulator(_array(x), dtype), axis, keepdims)


def mean(x: Array, /, *, axis: Any = None, keepdims: builtins.bool = False) -> Array:
    """Return the mean of floats."""
    return _reduce("ReduceMean", _need("mean", x, _FLOATS), axis, keepdims)


def _no_elements(name: str, x: Array, axis: Any) -> None:
    if builtins.any(x.shape[a] == 0 for a in _axes(axis, x.ndim)):
        raise ValueError(f"{name} of no elements")


def max(x: Array, /, *, axis: Any = None, keepdims: builtins.bool = False) -> Array:
    """Return the greatest element."""
    x = _need("max", x, _REALS)
    _no_elements("max", x, axis)
    return _reduce("ReduceMax", x, axis, keepdims)


def min(x: Array, /, *, axis: Any = None, keepdims: builtins.bool = False) -> Array:
    """Return the least element."""
    x = _need("min", x, _REALS)
    _no_elements("min", x, axis)
    return _reduce("ReduceMin", x, axis, keepdims)


def var(x: Array, /, *, axis: Any = None, correction: float = 0.0, keepdims: builtins.bool = False) -> Array:
    """Return the variance: the sum of squared deviations divided by the count minus `correction`."""
    x = _need("var", x, _FLOATS)
    count = math.prod(x.shape[a] for a in _axes(axis, x.ndim))
    deviation = x - _reduce("ReduceMean", x, axis, True)
    squares = _reduce("ReduceSumSquare", deviation, axis, keepdims)
    left = builtins.max(count - correction, 0)
    return squares * (1 / left if left else nan)


def std(x: Array, /, *, axis: Any = None, correction: float = 0.0, keepdims: builtins.bool = False) -> Array:
    """Return the square root of the variance."""
    return sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def _truth(x: Array) -> Array:
    return x if x.dtype.kind == "bool" else x != 0


def all(x: Array, /, *, axis: Any = None, keepdims: builtins.bool = False) -> Array:
    """Return whether all elements are true."""
    return _quantify("ReduceMin", x, axis, keepdims, 1)


def any(x: Array, /, *, axis: Any = None, keepdims: builtins.bool = False) -> Array:
    """Return whether an element is true."""
    return _quantify("ReduceMax", x, axis, keepdims, 0)


def _quantify(instruction: str, x: Array, axis: Any, keepdims: builtins.bool, start: int) -> Array:
    numbers = cast(_truth(_array(x)), int32)
    axes = _axes(axis, numbers.ndim)
    if builtins.any(numbers.shape[a] == 0 for a in axes):
        shape = [1 if a in axes else size for a, size in enumerate(numbers.shape) if keepdims or a not in axes]
        return full(tuple(shape), start == 1)
    return cast(_reduce(instruction, numbers, axis, keepdims), bool)


def cumulative_sum(x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: builtins.bool = False) -> Array:
    """Return the sums of the first elements along an axis."""
    return _cumulative("CumSum", x, axis, dtype, include_initial, 0)


def cumulative_prod(x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: builtins.bool = False) -> Array:
    """Return the products of the first elements along an axis."""
    return _cumulative("CumProd", x, axis, dtype, include_initial, 1)


def _cumulative(instruction: str, x: Array, axis: int | None, dtype: Any, initial: builtins.bool, first: int) -> Array:
    if axis is None:
        if x.ndim > 1:
            raise ValueError(f"an array of {x.ndim} axes; name one")
        axis = 0
    x = _accumulator(x, dtype)
    if x.ndim == 0:
        x = _reshape(x, (1,))
    axis = _axis(axis, x.ndim)
    result = _call(instruction, x, x.tape.constant(axis, "i64"))
    if initial:
        shape = tuple(1 if a == axis else size for a, size in enumerate(x.shape))
        result = concat([full(shape, first, dtype=x.dtype), result], axis=axis)
    return result


def diff(x: Array, /, *, axis: int = -1, n: int = 1, prepend: Array | None = None, append: Array | None = None) -> Array:
    """Return the differences of neighbors along an axis, n times."""
    axis = _axis(axis, x.ndim)
    x = concat([part for part in (prepend, x, append) if part is not None], axis=axis)
    for _ in range(n):
        before: list[Any] = [slice(None)] * x.ndim
        after: list[Any] = [slice(None)] * x.ndim
        before[axis], after[axis] = slice(None, -1), slice(1, None)
        x = subtract(x[tuple(after)], x[tuple(before)])
    return x


# ---- Products ----


def matrix_transpose(x: Array, /) -> Array:
    """Return the transposes of matrices."""
    return x.mT


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Return the sums of products along an axis."""
    a, b = pair(x1, x2)
    _need("vecdot", a, _REALS)
    if a.shape[axis] != b.shape[axis]:
        raise ValueError(f"axis {axis} has sizes {a.shape[axis]} and {b.shape[axis]}")
    product = a * b
    return cast(sum(product, axis=axis), product.dtype)


def tensordot(x1: Array, x2: Array, /, *, axes: Any = 2) -> Array:
    """Return the sums of products over axes: the last of x1 and the first of x2, or two lists of axes."""
    a, b = pair(x1, x2)
    _need("tensordot", a, _REALS)
    if isinstance(axes, int):
        first, second = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        first, second = ([_axis(v, x.ndim) for v in (w if isinstance(w, Sequence) else [w])] for w, x in zip(axes, (a, b)))
    if [a.shape[i] for i in first] != [b.shape[i] for i in second]:
        raise ValueError(f"axes {axes} of arrays of shapes {a.shape} and {b.shape} have different sizes")
    left, right = [i for i in range(a.ndim) if i not in first], [i for i in range(b.ndim) if i not in second]
    size = math.prod(a.shape[i] for i in first)
    rows = _reshape(permute_dims(a, (*left, *first)), (math.prod(a.shape[i] for i in left), size))
    columns = _reshape(permute_dims(b, (*second, *right)), (size, math.prod(b.shape[i] for i in right)))
    result = matmul(rows, columns)
    return _reshape(result, (*(a.shape[i] for i in left), *(b.shape[i] for i in right)))


# ---- Shapes ----


def reshape(x: Array, /, shape: Any, *, copy: Any = None) -> Array:
    """Return the elements in another shape; one size may be -1."""
    shape = _shape(shape)
    unknown = [i for i, size in enumerate(shape) if size < 0]
    if len(unknown) > 1 or builtins.any(size < -1 for size in shape):
        raise ValueError(f"shape {shape}: one size may be -1")
    if unknown:
        rest = math.prod(size for size in shape if size >= 0)
        if rest == 0 or x.size % rest:
            raise ValueError(f"{x.size} elements do not fit shape {shape}")
        shape = tuple(x.size // rest if size < 0 else size for size in shape)
    if math.prod(shape) != x.size:
        raise ValueError(f"{x.size} elements do not fit shape {shape}")
    result = _reshape(x, shape)
    return _call("Identity", x) if result is x else result


def permute_dims(x: Array, /, axes: Any) -> Array:
    """Return the array with its axes in another order."""
    axes = tuple(_axis(a, x.ndim) for a in axes)
    if sorted(axes) != list(range(x.ndim)):
        raise ValueError(f"axes {axes} are no order of {x.ndim} axes")
    return _call("Transpose", x, perm=list(axes)) if x.ndim else _call("Identity", x)


def moveaxis(x: Array, source: Any, destination: Any, /) -> Array:
    """Return the array with axes moved to other places."""
    sources, places = _axes(source, x.ndim), _axes(destination, x.ndim)
    if len(sources) != len(places):
        raise ValueError("source and destination have different lengths")
    order = [a for a in range(x.ndim) if a not in sources]
    for place, axis in sorted(zip(places, sources)):
        order.insert(place, axis)
    return permute_dims(x, order)


def expand_dims(x: Array, /, axis: Any = 0) -> Array:
    """Return the array with axes of size 1 inserted."""
    axes = _axes(axis, x.ndim + (len(axis) if isinstance(axis, (tuple, list)) else 1)) if not isinstance(axis, int) else (axis,)
    if isinstance(axis, int):
        if not -x.ndim - 1 <= axis <= x.ndim:
            raise IndexError(f"axis {axis} of an array of {x.ndim} axes")
        axes = (axis % (x.ndim + 1),)
    sizes = iter(x.shape)
    return _reshape(x, tuple(1 if a in axes else next(sizes) for a in range(x.ndim + len(axes))))


def squeeze(x: Array, /, axis: Any) -> Array:
    """Return the array without axes of size 1."""
    axes = _axes(axis, x.ndim)
    if builtins.any(x.shape[a] != 1 for a in axes):
        raise ValueError(f"axes {axis} of an array of shape {x.shape} are not of size 1")
    return _reshape(x, tuple(size for a, size in enumerate(x.shape) if a not in axes))


def broadcast_to(x: Array, /, shape: Any) -> Array:
    """Return the array repeated to a shape."""
    shape = _shape(shape)
    if broadcast_shapes(x.shape, shape) != shape:
        raise ValueError(f"an array of shape {x.shape} does not broadcast to {shape}")
    return x if x.shape == shape else _call("Expand", x, shape_constant(x.tape, shape))


def broadcast_arrays(*arrays: Array) -> list[Array]:
    """Return the arrays repeated to their common shape."""
    shape = broadcast_shapes(*(x.shape for x in arrays))
    return [broadcast_to(x, shape) for x in arrays]


def concat(arrays: Sequence[Array], /, *, axis: int | None = 0) -> Array:
    """Return the arrays joined along an axis; None joins their elements."""
    arrays = [_array(x) for x in arrays]
    dtype = result_type(*arrays)
    if axis is None:
        arrays, axis = [_reshape(x, (x.size,)) for x in arrays], 0
    axis = _axis(axis, arrays[0].ndim)
    return arrays[0].tape.call("Concat", ([cast(x, dtype) for x in arrays],), {"axis": axis})


def stack(arrays: Sequence[Array], /, *, axis: int = 0) -> Array:
    """Return the arrays joined along a new axis."""
    if len({x.shape for x in arrays}) > 1:
        raise ValueError("the arrays have different shapes")
    return concat([expand_dims(x, axis=axis) for x in arrays], axis=axis)


def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Return the slices along an axis."""
    axis = _axis(axis, x.ndim)
    shape = tuple(size for a, size in enumerate(x.shape) if a != axis)
    if x.shape[axis] == 0:
        return ()
    return tuple(_reshape(part, shape) for part in x.tape.call("Split", (x,), {"axis": axis}, x.shape[axis]))


def flip(x: Array, /, *, axis: Any = None) -> Array:
    """Return the elements in reverse order along axes."""
    axes = _axes(axis, x.ndim)
    return x[tuple(slice(None, None, -1) if a in axes else slice(None) for a in range(x.ndim))] if x.ndim else x


def roll(x: Array, /, shift: Any, *, axis: Any = None) -> Array:
    """Return the elements moved along axes; those that leave at the end come back at the start."""
    if axis is None:
        return _reshape(roll(_reshape(x, (x.size,)), shift, axis=0), x.shape)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,)
    places = axis if isinstance(axis, (tuple, list)) else (axis,)
    if len(shifts) == 1:
        shifts = tuple(shifts) * len(places)
    if len(shifts) != len(places):
        raise ValueError("shift and axis have different lengths")
    for count, place in zip(shifts, places):
        a = _axis(place, x.ndim)
        size = x.shape[a]
        if size and count % size:
            head: tuple[Any, ...] = (slice(None),) * a
            x = concat([x[(*head, slice(size - count % size, None))], x[(*head, slice(0, size - count % size))]], axis=a)
    return x


def repeat(x: Array, repeats: Any, /, *, axis: int | None = None) -> Array:
    """Return each element repeated, next to itself."""
    if axis is None:
        x, axis = _reshape(x, (x.size,)), 0
    axis = _axis(axis, x.ndim)
    counts = repeats.tolist() if isinstance(repeats, Array) else repeats
    counts = [counts] * x.shape[axis] if isinstance(counts, int) else counts * x.shape[axis] if len(counts) == 1 else counts
    if len(counts) != x.shape[axis] or builtins.any(count < 0 for count in counts):
        raise ValueError(f"repeats {repeats} for an axis of size {x.shape[axis]}")
    places = [i for i, count in enumerate(counts) for _ in range(count)]
    return _call("Gather", x, shape_constant(x.tape, tuple(places)), axis=axis)


def tile(x: Array, repetitions: Any, /) -> Array:
    """Return the array repeated along its axes."""
    repetitions = _shape(repetitions)
    rank = builtins.max(len(repetitions), x.ndim)
    x = _reshape(x, (1,) * (rank - x.ndim) + x.shape)
    counts = (1,) * (rank - len(repetitions)) + repetitions
    return _call("Tile", x, shape_constant(x.tape, counts)) if rank else x


def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """Return the slices at indices along an axis."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"an array of {x.ndim} axes; name one")
        axis = 0
    indices = operand(indices, x) if isinstance(indices, Variable) else x.tape.constant(indices, "i64")
    key: list[Any] = [slice(None)] * x.ndim
    key[_axis(axis, x.ndim)] = indices
    return x[tuple(key)]


def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """Return the elements at indices along an axis."""
    axis = _axis(axis, x.ndim)
    others = tuple(1 if a == axis else size for a, size in enumerate(x.shape))
    own = tuple(1 if a == axis else size for a, size in enumerate(indices.shape))
    common = broadcast_shapes(others, own)
    x = broadcast_to(x, tuple(x.shape[axis] if a == axis else size for a, size in enumerate(common)))
    indices = broadcast_to(indices, tuple(indices.shape[axis] if a == axis else size for a, size in enumerate(common)))
    return _call("GatherElements", x, cast(indices, int64), axis=axis)


__all__ = sorted(
    name
    for name, value in globals().items()
    if not name.startswith("_")
    and name not in {"annotations", "builtins", "math", "Sequence", "Any", "NamedTuple", "DType", "Variable", "binary", "bitwise", "cast", "current_tape", "find_dtype", "invert", "operand", "pair", "promote", "scalar_array", "shape_constant", "shift", "wrong_type", "broadcast_shapes"}
    and not name.endswith(("_result", "_object"))
) + ["__array_api_version__", "__array_namespace_info__"]

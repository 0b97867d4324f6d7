"""Element types of arrays, and the tapes that new arrays are made on: one for each thread, and others within `with`."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

from ._tape import Tape as _CTape


class DType:
    """An element type. It equals its short name: ``xcvm.float32 == "f32"``. ``str(xcvm.float32)`` is that name.

    Attributes
    ----------
    name : str
        The name that NumPy and the array API use, as "float32".
    kind : str
        One of "bool", "signed", "unsigned", "float", "complex", "other".
    bits : int
        The size of an element.
    """

    __slots__ = ("_short", "name", "kind", "bits")

    _short: str
    name: str
    kind: str
    bits: int

    def __init__(self, short: str, name: str, kind: str, bits: int) -> None:
        for attribute, value in zip(self.__slots__, (short, name, kind, bits)):
            object.__setattr__(self, attribute, value)

    def __setattr__(self, attribute: str, value: Any) -> None:
        raise AttributeError(f"an element type has no attribute {attribute!r} that can be set")

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, str) and other == self._short)

    def __hash__(self) -> int:
        return hash(self._short)

    def __str__(self) -> str:
        return self._short

    def __repr__(self) -> str:
        return f"xcvm.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return find_dtype, (self._short,)


bool_ = DType("bool", "bool", "bool", 8)
int8, int16, int32, int64 = (DType(f"i{n}", f"int{n}", "signed", n) for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (DType(f"u{n}", f"uint{n}", "unsigned", n) for n in (8, 16, 32, 64))
float16, float32, float64 = (DType(f"f{n}", f"float{n}", "float", n) for n in (16, 32, 64))
bfloat16 = DType("bf16", "bfloat16", "float", 16)
complex64, complex128 = (DType(f"c{n}", f"complex{n}", "complex", n) for n in (64, 128))

_dtypes: dict[str, DType] = {}
for _dtype in [bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64, bfloat16, complex64, complex128]:
    _dtypes[str(_dtype)] = _dtypes[_dtype.name] = _dtype


def find_dtype(dtype: Any) -> DType:
    """Return the element type of a name, of NumPy's object, or of a Python type."""
    if isinstance(dtype, DType):
        return dtype
    if dtype in (bool, int, float):
        return {bool: bool_, int: int64, float: float32}[dtype]
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    if name in _dtypes:
        return _dtypes[name]
    if isinstance(name, str) and name in {"str", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "f4e2m1", "i4", "u4", "i2", "u2", "f24"}:
        return _dtypes.setdefault(name, DType(name, name, "other", 0))
    raise TypeError(f"{dtype!r} is no element type")


class Tape(_CTape):
    """A tape whose results are arrays. ``with tape:`` makes new arrays on it.

    Parameters
    ----------
    mode : str
        "eager", "lazy", "batched" (lazy with batching) or "building".
    **options
        threads, memory_limit, seed, check_nan, batching, print, functions.
    """

    _scalars: dict[tuple[Any, str], Any]

    def __new__(cls, mode: str = "eager", **options: Any) -> Tape:
        from ._array import Array

        created: Any = super().__new__(cls, mode, variable_type=Array, **options)
        created._scalars = {}
        return created

    def __init__(self, mode: str = "eager", **options: Any) -> None:
        pass

    def __enter__(self) -> Tape:
        _stack().append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        _stack().pop()

    def scalar(self, number: Any, dtype: str) -> Any:
        """Return a constant of one number. An eager tape keeps the first 256."""
        key = (number, dtype)
        found = self._scalars.get(key)
        if found is not None and type(found[0]) is type(number):
            return found[1]
        made = self.constant(number, dtype)
        if len(self._scalars) < 256 and self.mode == "eager" and number == number and number != 0:
            self._scalars[key] = (number, made)
        return made


class _Local(threading.local):
    def __init__(self) -> None:
        self.stack: list[Tape] = []


_local = _Local()


def _stack() -> list[Tape]:
    stack = _local.stack
    if not stack:
        stack.append(Tape("eager"))
    return stack


def current_tape() -> Tape:
    """Return the tape that new arrays of this thread are made on."""
    stack = _local.stack
    return stack[-1] if stack else _stack()[-1]


def seed(number: int) -> None:
    """Give this thread an eager tape whose random instructions start with a seed."""
    stack = _stack()
    stack[0] = Tape("eager", seed=number)

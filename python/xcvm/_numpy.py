"""The part of `xcvm.Tensor` that needs NumPy, imported when it is used first."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ._run import Tensor

# Element types that NumPy lacks: the name in ml_dtypes, and the NumPy type that holds the raw bits or the numbers.
_extension_types = {
    "bf16": ("bfloat16", "uint16"),
    "f8e4m3fn": ("float8_e4m3fn", "uint8"),
    "f8e4m3fnuz": ("float8_e4m3fnuz", "uint8"),
    "f8e5m2": ("float8_e5m2", "uint8"),
    "f8e5m2fnuz": ("float8_e5m2fnuz", "uint8"),
    "f8e8m0": ("float8_e8m0fnu", "uint8"),
    "f4e2m1": ("float4_e2m1fn", "uint8"),
    "i4": ("int4", "int8"),
    "u4": ("uint4", "uint8"),
    "i2": ("int2", "int8"),
    "u2": ("uint2", "uint8"),
}
_packed_bits = {"f4e2m1": 4, "i4": 4, "u4": 4, "i2": 2, "u2": 2}


def _unpack(codes: np.ndarray[Any, Any], bits: int, count: int, signed: bool) -> np.ndarray[Any, Any]:
    """Return one byte for each element of `bits` bits, the first in the lowest bits of a byte."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    elements = ((codes[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:count]
    if not signed:
        return elements
    sign = 1 << (bits - 1)
    return ((elements ^ sign).astype(np.int8) - np.int8(sign)).astype(np.int8)


def array(tensor: Tensor, request: tuple[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a tensor as an array; `request` is the dtype and copy of ``__array__``."""
    dtype, copy = request
    name = tensor.dtype
    buffer: Any = tensor  # typeshed has no type of buffers before Python 3.12
    result: np.ndarray[Any, Any]
    if name == "str":
        result = np.empty(tensor.shape, dtype=object)
        flat = np.array(tensor.tolist(), dtype=object)
        result[...] = flat.reshape(tensor.shape)
    elif name == "f24":
        raw = np.frombuffer(buffer, dtype=np.uint8).reshape(-1, 3)
        wide = np.zeros((raw.shape[0], 4), dtype=np.uint8)
        wide[:, 1:] = raw
        result = wide.view(np.float32).reshape(tensor.shape)
    elif name in _extension_types:
        extension, plain = _extension_types[name]
        if name in _packed_bits:
            codes = np.frombuffer(tensor.tobytes(), dtype=np.uint8)
            result = _unpack(codes, _packed_bits[name], tensor.size, plain == "int8").reshape(tensor.shape)
        else:
            result = np.frombuffer(buffer, dtype=plain).reshape(tensor.shape)
        ml_dtypes = sys.modules.get("ml_dtypes")
        if ml_dtypes is not None and hasattr(ml_dtypes, extension):
            result = result.view(getattr(ml_dtypes, extension))
    else:
        result = np.asarray(memoryview(buffer))
    if dtype is not None and result.dtype != dtype:
        return result.astype(dtype)
    return result.copy() if copy else result


def item(tensor: Tensor, key: Any) -> Any:
    """Return ``tensor[key]`` by NumPy's rules."""
    return array(tensor, (None, None))[key]

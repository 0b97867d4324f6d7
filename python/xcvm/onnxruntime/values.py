"""OrtValue, OrtDevice and their types: values in CPU memory.

ONNX Runtime has each class twice: in its extension module (`capi.onnxruntime_pybind11_state`), and around that in Python.
Here the Python class extends the other one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._run import Tensor
from ._model import ELEMENT_TYPES
from .capi.onnxruntime_pybind11_state import InvalidArgument

__all__ = ["NativeDevice", "NativeValue", "OrtArenaCfg", "OrtDevice", "OrtMemoryInfo", "OrtValue", "OrtValueVector"]

_numpy_types = {
    "float32": "float", "float64": "double", "float16": "float16", "int8": "int8", "uint8": "uint8", "int16": "int16",
    "uint16": "uint16", "int32": "int32", "uint32": "uint32", "int64": "int64", "uint64": "uint64", "bool": "bool",
    "complex64": "complex64", "complex128": "complex128", "bfloat16": "bfloat16",
}  # fmt: skip
_onnx_numbers = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "uint16", 17: "uint8", 18: "uint8", 19: "uint8", 20: "uint8",
}  # fmt: skip


def type_of_array(array: Any, number: int | None = None) -> str:
    """Return ONNX Runtime's type string of an array. `number` is its TensorProto.DataType where NumPy has no such type."""
    if number is not None:
        return f"tensor({ELEMENT_TYPES[number]})"
    name = array.dtype.name
    return f"tensor({_numpy_types.get(name, 'string' if array.dtype.kind in 'OUS' else name)})"


def numpy_dtype(element_type: Any) -> np.dtype[Any]:
    """Return the dtype of a NumPy type, or of a number of TensorProto.DataType."""
    if isinstance(element_type, int):
        if element_type not in _onnx_numbers:
            raise InvalidArgument.of(f"element type {element_type} is not supported")
        return np.dtype(_onnx_numbers[element_type])
    return np.dtype(element_type)


def require_cpu(device_type: str) -> None:
    if device_type.lower() not in ("cpu", "cuda_pinned"):
        raise RuntimeError(f"there is no device {device_type!r}: every session computes on the CPU")


class NativeDevice:
    """A device, as the extension module has it: numbers of a type, a memory, a device and a vendor. There is the CPU alone."""

    def __init__(self, device_type: int, memory_type: int, device_id: int, vendor_id: int = 0) -> None:
        self._numbers = (int(device_type), int(memory_type), int(device_id), int(vendor_id))

    @staticmethod
    def cpu() -> int:
        return 0

    @staticmethod
    def cuda() -> int:
        return 1

    gpu = cuda
    dml = cuda

    @staticmethod
    def cann() -> int:
        return 3

    npu = cann

    @staticmethod
    def default_memory() -> int:
        return 0

    def device_type(self) -> int:
        return self._numbers[0]

    def mem_type(self) -> int:
        return self._numbers[1]

    def device_id(self) -> int:
        return self._numbers[2]

    def vendor_id(self) -> int:
        return self._numbers[3]


class OrtDevice(NativeDevice):
    """A device: always the CPU."""

    def __init__(self, c_ort_device: NativeDevice) -> None:
        if not isinstance(c_ort_device, NativeDevice):
            raise ValueError("`Provided object` needs to be of type `onnxruntime.capi.onnxruntime_pybind11_state.OrtDevice`")
        super().__init__(*c_ort_device._numbers)

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = 0) -> OrtDevice:
        require_cpu(ort_device_name)
        return OrtDevice(NativeDevice(NativeDevice.cpu(), NativeDevice.default_memory(), device_id, max(0, vendor_id)))

    def _get_c_device(self) -> NativeDevice:
        return self

    @property
    def _ort_device(self) -> NativeDevice:
        return self


class OrtMemoryInfo:
    """The name of a memory, which means nothing here."""

    def __init__(self, name: str, allocator_type: Any, device_id: int, mem_type: Any) -> None:
        self.name = name
        self.allocator_type = allocator_type
        self.device_id = device_id
        self.mem_type = mem_type


class OrtArenaCfg:
    """Sizes of an arena, which mean nothing here."""

    _names = ("max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk")

    def __init__(self, *values: Any) -> None:
        given = dict(values[0]) if len(values) == 1 else dict(zip(self._names, values))
        self.max_mem = int(given.get("max_mem", 0))
        self.arena_extend_strategy = int(given.get("arena_extend_strategy", -1))
        self.initial_chunk_size_bytes = int(given.get("initial_chunk_size_bytes", -1))
        self.max_dead_bytes_per_chunk = int(given.get("max_dead_bytes_per_chunk", -1))
        self.initial_growth_chunk_size_bytes = int(given.get("initial_growth_chunk_size_bytes", -1))
        self.max_power_of_two_extend_bytes = int(given.get("max_power_of_two_extend_bytes", -1))


def as_array(value: Any) -> Any:
    """Return a result of a run as ONNX Runtime gives it: an array, a list or a dict."""
    if isinstance(value, Tensor):
        return np.asarray(value)
    if isinstance(value, list):
        return [as_array(item) for item in value]
    return value


class NativeValue:
    """A tensor, a list of tensors or a dict in CPU memory."""

    _value: Any
    _type: int | None  # TensorProto.DataType, where NumPy's type does not say it

    @classmethod
    def _of(cls, value: Any, element_type: int | None = None) -> Any:
        """Return an instance that holds a value of a run, or an array."""
        made = cls.__new__(cls)
        made._value, made._type = value, element_type
        return made

    @classmethod
    def ortvalue_from_numpy(cls, array: Any, device: Any = None) -> Any:
        return cls._of(np.asarray(array))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Any, onnx_element_type: int) -> Any:
        array = np.asarray(data)
        if array.dtype.itemsize != numpy_dtype(onnx_element_type).itemsize:
            raise RuntimeError(f"elements of {array.dtype} have not the size of the ONNX type {onnx_element_type}")
        return cls._of(array, onnx_element_type)

    @classmethod
    def ortvalue_from_shape_and_type(cls, shape: Any, element_type: Any, device: Any = None) -> Any:
        return cls._of(np.zeros(tuple(shape), numpy_dtype(element_type)), element_type if isinstance(element_type, int) else None)

    @classmethod
    def ortvalue_from_shape_and_onnx_type(cls, shape: Any, element_type: int, device: Any = None) -> Any:
        return cls._of(np.zeros(tuple(shape), numpy_dtype(int(element_type))), int(element_type))

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: Any) -> Any:
        raise NotImplementedError("sparse tensors are not supported")

    @classmethod
    def from_dlpack(cls, data: Any, is_bool_tensor: bool = False) -> Any:
        array = np.from_dlpack(data)
        return cls._of(array.view(np.bool_) if is_bool_tensor else array)

    def as_sparse_tensor(self) -> Any:
        raise NotImplementedError("sparse tensors are not supported")

    def numpy(self) -> Any:
        if not self.is_tensor():
            raise RuntimeError("Only OrtValues that are Tensors/SparseTensors are currently supported")
        return self._value

    def to_dlpack(self) -> Any:
        return self.numpy().__dlpack__()

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.numpy(), dtype)

    def update_inplace(self, numpy_obj: Any) -> None:
        array = np.asarray(numpy_obj)
        if array.shape != self._value.shape or array.dtype != self._value.dtype:
            raise RuntimeError("The shape and type of the array must be those of the OrtValue")
        np.copyto(self._value, array)

    def device_name(self) -> str:
        return "cpu"

    def shape(self) -> list[int]:
        return list(self.numpy().shape)

    def data_type(self) -> str:
        if isinstance(self._value, list):
            return f"seq({type_of_array(self._value[0]) if self._value else 'tensor(float)'})"
        return type_of_array(self.numpy(), self._type)

    def element_type(self) -> int:
        names = {name: number for number, name in ELEMENT_TYPES.items()}
        return names[type_of_array(self.numpy(), self._type)[len("tensor(") : -1]]

    def data_ptr(self) -> int:
        return int(self.numpy().ctypes.data)

    def tensor_size_in_bytes(self) -> int:
        return int(self.numpy().nbytes)

    def has_value(self) -> bool:
        return self._value is not None

    def is_tensor(self) -> bool:
        return isinstance(self._value, np.ndarray)

    def is_sparse_tensor(self) -> bool:
        return False

    def is_tensor_sequence(self) -> bool:
        return isinstance(self._value, list)


class OrtValue(NativeValue):
    """A tensor, a list of tensors or a dict in CPU memory."""

    def __init__(self, ortvalue: NativeValue, numpy_obj: Any = None) -> None:
        if not isinstance(ortvalue, NativeValue):
            raise ValueError("`Provided ortvalue` needs to be of type `onnxruntime.capi.onnxruntime_pybind11_state.OrtValue`")
        self._value, self._type = ortvalue._value, ortvalue._type

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj: Any, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1) -> Any:
        require_cpu(device_type)
        return super().ortvalue_from_numpy(numpy_obj)

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape: Any, element_type: Any, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> Any:
        require_cpu(device_type)
        return super().ortvalue_from_shape_and_type(shape, element_type)

    @property
    def _ortvalue(self) -> NativeValue:
        return self

    def _get_c_value(self) -> NativeValue:
        return self


class OrtValueVector(list[NativeValue]):
    """A list of values with the methods of the extension module's class."""

    def push_back(self, value: Any, is_bool_tensor: bool = False) -> None:
        self.append(value if isinstance(value, NativeValue) else NativeValue.from_dlpack(value, is_bool_tensor))

    def reserve(self, count: int) -> None:
        """There is nothing to reserve."""

    def shrink_to_fit(self) -> None:
        """There is nothing to release."""

    def element_type_at(self, idx: int) -> int:
        return self[idx].element_type()

    def bool_tensor_indices(self) -> list[int]:
        return [i for i, value in enumerate(self) if value.is_tensor() and value._value.dtype == np.bool_]

    def dlpack_at(self, idx: int) -> Any:
        return self[idx].to_dlpack()

    def to_dlpacks(self, to_tensor: Any) -> list[Any]:
        capsules: Iterable[Any] = (value.to_dlpack() for value in self)
        return [capsule if to_tensor is None else to_tensor(capsule) for capsule in capsules]

"""OrtValue, OrtDevice and IOBinding: values in CPU memory, and inputs and outputs bound to them."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from .._run import Tensor
from .capi.onnxruntime_pybind11_state import InvalidArgument

if TYPE_CHECKING:
    from .session import InferenceSession

__all__ = ["IOBinding", "OrtDevice", "OrtMemoryInfo", "OrtValue"]

_numpy_types = {
    "float32": "float", "float64": "double", "float16": "float16", "int8": "int8", "uint8": "uint8", "int16": "int16",
    "uint16": "uint16", "int32": "int32", "uint32": "uint32", "int64": "int64", "uint64": "uint64", "bool": "bool",
    "complex64": "complex64", "complex128": "complex128", "bfloat16": "bfloat16",
}  # fmt: skip
_onnx_numbers = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "uint16",
}  # fmt: skip


def type_of_array(array: Any) -> str:
    """Return ONNX Runtime's type string of an array."""
    name = array.dtype.name
    return f"tensor({_numpy_types.get(name, 'string' if array.dtype.kind in 'OUS' else name)})"


def numpy_dtype(element_type: Any) -> np.dtype[Any]:
    """Return the dtype of a NumPy type, or of a number of TensorProto.DataType."""
    if isinstance(element_type, int):
        if element_type not in _onnx_numbers:
            raise InvalidArgument.of(f"element type {element_type} is not supported")
        return np.dtype(_onnx_numbers[element_type])
    return np.dtype(element_type)


def _require_cpu(device_type: str) -> None:
    if device_type.lower() not in ("cpu", "cuda_pinned"):
        raise RuntimeError(f"there is no device {device_type!r}: every session computes on the CPU")


class OrtDevice:
    """A device: always the CPU."""

    def __init__(self, device_type: str = "cpu", device_id: int = 0) -> None:
        self._type = device_type
        self._id = device_id

    @staticmethod
    def make(name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        _require_cpu(name)
        return OrtDevice(name, device_id)

    def device_type(self) -> str:
        return self._type

    def device_id(self) -> int:
        return self._id


class OrtMemoryInfo:
    """The name of a memory, which means nothing here."""

    def __init__(self, name: str, allocator_type: Any, device_id: int, memory_type: Any) -> None:
        self.name = name
        self.device_id = device_id


def as_array(value: Any) -> Any:
    """Return a result of a run as ONNX Runtime gives it: an array, a list or a dict."""
    if isinstance(value, Tensor):
        return np.asarray(value)
    if isinstance(value, list):
        return [as_array(item) for item in value]
    return value


class OrtValue:
    """A tensor, a list of tensors or a dict in CPU memory."""

    def __init__(self, value: Any, numpy_obj: Any = None) -> None:
        self._value: Any = value._value if isinstance(value, OrtValue) else value

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj: Any, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1) -> OrtValue:
        _require_cpu(device_type)
        return cls(np.asarray(numpy_obj))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Any, onnx_element_type: int) -> OrtValue:
        return cls(np.asarray(data))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape: Any, element_type: Any, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        _require_cpu(device_type)
        return cls(np.zeros(tuple(shape), numpy_dtype(element_type)))

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: Any) -> OrtValue:
        raise NotImplementedError("sparse tensors are not supported")

    @property
    def _ortvalue(self) -> OrtValue:
        return self

    def _get_c_value(self) -> OrtValue:
        return self

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
        return type_of_array(self.numpy())

    def element_type(self) -> int:
        from ._model import ELEMENT_TYPES

        names = {name: number for number, name in ELEMENT_TYPES.items()}
        return names[type_of_array(self.numpy())[len("tensor(") : -1]]

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


class IOBinding:
    """Inputs and outputs of a session bound to arrays. Outputs without memory of their own are new arrays."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._targets: dict[str, Any] = {}  # name: array to write into, or None
        self._results: list[OrtValue] = []

    @property
    def _iobinding(self) -> IOBinding:
        return self

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        self._check_input(name)
        self._inputs[name] = np.asarray(arr_on_cpu)

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Any, buffer_ptr: int) -> None:
        _require_cpu(device_type)
        self._check_input(name)
        self._inputs[name] = _memory_at(buffer_ptr, shape, element_type)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._check_input(name)
        self._inputs[name] = ortvalue._value

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Any = None,
        buffer_ptr: int | None = None,
    ) -> None:
        _require_cpu(device_type)
        self._check_output(name)
        self._targets[name] = None if buffer_ptr is None else _memory_at(buffer_ptr, shape, element_type)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self._check_output(name)
        self._targets[name] = ortvalue._value

    def get_outputs(self) -> list[OrtValue]:
        return list(self._results)

    get_outputs_as_ortvaluevector = get_outputs

    def copy_outputs_to_cpu(self) -> list[Any]:
        return [value._value for value in self._results]

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._targets.clear()
        self._results = []

    def synchronize_inputs(self) -> None:
        """There is nothing to wait for."""

    def synchronize_outputs(self) -> None:
        """There is nothing to wait for."""

    def _check_input(self, name: str) -> None:
        if name not in self._session._feed_names:
            raise RuntimeError(str(InvalidArgument.of(f"Failed to find input name in model: {name}")))

    def _check_output(self, name: str) -> None:
        if name not in self._session._output_names:
            raise RuntimeError(str(InvalidArgument.of(f"Failed to find output name in model: {name}")))

    def _run(self, run_options: Any) -> None:
        names = list(self._targets)
        values = self._session._run(names, self._inputs, run_options)
        self._results = []
        for name, value in zip(names, values):
            target = self._targets[name]
            if target is not None:
                if tuple(target.shape) != tuple(value.shape):
                    raise InvalidArgument.of(f"Output {name} has shape {list(value.shape)}; the bound memory has {list(target.shape)}")
                np.copyto(target, value)
                value = target
            self._results.append(OrtValue(value))


def _memory_at(pointer: int, shape: Any, element_type: Any) -> Any:
    dtype = numpy_dtype(element_type)
    count = int(np.prod(tuple(shape), dtype=np.int64)) * dtype.itemsize
    if count == 0:
        return np.zeros(tuple(shape), dtype)
    memory: Any = (ctypes.c_char * count).from_address(pointer)
    return np.frombuffer(memory, dtype).reshape(tuple(shape))

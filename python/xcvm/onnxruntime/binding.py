"""IOBinding: inputs and outputs of a session bound to memory."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from .capi.onnxruntime_pybind11_state import InvalidArgument
from .values import NativeValue, OrtValue, OrtValueVector, numpy_dtype, require_cpu

if TYPE_CHECKING:
    from .session import InferenceSession

__all__ = ["IOBinding", "SessionIOBinding"]


class SessionIOBinding:
    """The bindings, as the extension module has them. Outputs without memory of their own are new arrays."""

    def __init__(self, session: Any) -> None:
        self._session: InferenceSession = getattr(session, "_python_session", session)
        self._inputs: dict[str, NativeValue] = {}
        self._targets: dict[str, NativeValue | None] = {}  # name: memory to write into
        self._results = OrtValueVector()

    def bind_input(self, name: str, array: Any, element_type: Any = None, shape: Any = None, buffer_ptr: int | None = None) -> None:
        """Bind an array; or memory of a device, an element type, a shape and an address."""
        self._check_input(name)
        if buffer_ptr is None:
            self._inputs[name] = NativeValue.ortvalue_from_numpy(array)
        else:
            self._inputs[name] = _memory_at(buffer_ptr, shape, element_type)

    def bind_ortvalue_input(self, name: str, ortvalue: NativeValue) -> None:
        self._check_input(name)
        self._inputs[name] = ortvalue

    def bind_output(self, name: str, device: Any, element_type: Any = None, shape: Any = None, buffer_ptr: int | None = None) -> None:
        self._check_output(name)
        self._targets[name] = None if buffer_ptr is None else _memory_at(buffer_ptr, shape, element_type)

    def bind_ortvalue_output(self, name: str, ortvalue: NativeValue) -> None:
        self._check_output(name)
        self._targets[name] = ortvalue

    def get_outputs(self) -> OrtValueVector:
        return OrtValueVector(self._results)

    def copy_outputs_to_cpu(self) -> list[Any]:
        return [value._value for value in self._results]

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._targets.clear()
        self._results = OrtValueVector()

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
        results = OrtValueVector()
        for name, value in zip(names, values):
            target = self._targets[name]
            if target is None:
                results.append(NativeValue._of(value))
                continue
            if tuple(target._value.shape) != tuple(value.shape):
                raise InvalidArgument.of(f"Output {name} has shape {list(value.shape)}; the bound memory has {list(target._value.shape)}")
            np.copyto(target._value, value)
            results.append(target)
        self._results = results


class IOBinding:
    """Inputs and outputs of a session bound to memory. Every device is the CPU."""

    def __init__(self, session: InferenceSession) -> None:
        self._iobinding = SessionIOBinding(session)

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        self._iobinding.bind_input(name, arr_on_cpu)

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Any, buffer_ptr: int) -> None:
        require_cpu(device_type)
        self._iobinding.bind_input(name, None, element_type, shape, buffer_ptr)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._iobinding.bind_ortvalue_input(name, ortvalue._ortvalue)

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Any = None,
        buffer_ptr: int | None = None,
    ) -> None:
        require_cpu(device_type)
        if buffer_ptr is not None and (element_type is None or shape is None):
            raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
        self._iobinding.bind_output(name, None, element_type, shape, buffer_ptr)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self._iobinding.bind_ortvalue_output(name, ortvalue._ortvalue)

    def synchronize_inputs(self) -> None:
        self._iobinding.synchronize_inputs()

    def synchronize_outputs(self) -> None:
        self._iobinding.synchronize_outputs()

    def get_outputs(self) -> list[OrtValue]:
        return [OrtValue(value) for value in self._iobinding.get_outputs()]

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        return self._iobinding.get_outputs()

    def copy_outputs_to_cpu(self) -> list[Any]:
        return self._iobinding.copy_outputs_to_cpu()

    def clear_binding_inputs(self) -> None:
        self._iobinding.clear_binding_inputs()

    def clear_binding_outputs(self) -> None:
        self._iobinding.clear_binding_outputs()


def _memory_at(pointer: int, shape: Any, element_type: Any) -> NativeValue:
    """Return a value that uses memory at an address, which must stay valid while it is bound."""
    dtype = numpy_dtype(element_type)
    number = element_type if isinstance(element_type, int) else None
    count = int(np.prod(tuple(shape), dtype=np.int64)) * dtype.itemsize
    if count == 0:
        array = np.zeros(tuple(shape), dtype)
    else:
        memory: Any = (ctypes.c_char * count).from_address(pointer)
        array = np.frombuffer(memory, dtype).reshape(tuple(shape))
    value: NativeValue = NativeValue._of(array, number)
    return value

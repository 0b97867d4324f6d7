"""The interface of onnx.backend.base: ``onnx.backend.test`` and programs written for it.

>>> import onnx, xcvm.backend
>>> xcvm.backend.prepare(onnx.load("model.onnx")).run([x])
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, mapping
from onnx.backend.base import Backend as _Backend
from onnx.backend.base import BackendRep as _BackendRep

from ._run import Tensor
from .compiling import compile as compile_model
from .program import Program

__all__ = ["Backend", "BackendRep", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]


def _as_array(value: Any) -> Any:
    if isinstance(value, Tensor):
        return np.asarray(value)
    return [_as_array(item) for item in value] if isinstance(value, list) else value


class BackendRep(_BackendRep):  # type: ignore[misc]
    """A compiled model."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """Run the model on arrays in the order of its inputs, a dict, or one array; return a named tuple."""
        program = self.program
        if isinstance(inputs, dict):
            feed = inputs
        else:
            arrays = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
            feed = dict(zip([parameter.name for parameter in program.inputs], arrays))
        results = program._run(feed)
        kind = namedtuple("Outputs", [output.name for output in program.outputs], rename=True)  # type: ignore[misc]
        return kind(*map(_as_array, results))


class Backend(_Backend):  # type: ignore[misc]
    """Compiles models, and runs single nodes as models of their own."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        from .compiling import check

        return bool(check(model))

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> BackendRep:
        """Compile a model; the options are those of `xcvm.compile`."""
        if not cls.supports_device(device):
            raise ValueError(f"there is no device {device!r}; there is the CPU")
        return BackendRep(compile_model(model, **kwargs))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> Any:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Sequence[Any] | None = None, **kwargs: Any
    ) -> Any:
        """Run a node on arrays. `outputs_info` has the dtype and shape of each output."""
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        names = [name for name in node.input if name]
        arrays = dict(zip(names, inputs)) if not isinstance(inputs, dict) else inputs

        def info(name: str, dtype: Any, shape: Any) -> Any:
            return helper.make_tensor_value_info(name, mapping.NP_TYPE_TO_TENSOR_TYPE[np.dtype(dtype)], shape)

        graph_inputs = [info(name, np.asarray(arrays[name]).dtype, np.asarray(arrays[name]).shape) for name in names]
        if outputs_info is not None:
            graph_outputs = [info(name, *pair) for name, pair in zip(node.output, outputs_info)]
        else:
            graph_outputs = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in node.output if name]
        graph = helper.make_graph([node], "node", graph_inputs, graph_outputs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, opset)])
        return cls.run_model(model, [np.asarray(arrays[name]) for name in names], device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.split(":")[0] == "CPU"


is_compatible = Backend.is_compatible
prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device

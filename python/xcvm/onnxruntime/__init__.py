"""The interface of ONNX Runtime for programs that were written for it.

Three ways serve a program without an edit, or with one:

- ``import xcvm.onnxruntime as ort`` in place of ``import onnxruntime as ort``;
- ``python -m xcvm.onnxruntime program.py ...`` for a program as it is;
- ``xcvm.onnxruntime.install()`` before the program imports onnxruntime.

Models are compiled when a session is created. Every session computes on the CPU.
"""

from __future__ import annotations

import sys
from typing import Any

from . import capi
from .binding import IOBinding, SessionIOBinding
from .capi import _pybind_state, onnxruntime_inference_collection, onnxruntime_pybind11_state
from .options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtAllocatorType,
    OrtMemType,
    RunOptions,
    SessionOptions,
)
from .session import InferenceSession, ModelMetadata, NodeArg
from .values import OrtArenaCfg, OrtDevice, OrtMemoryInfo, OrtValue

# The version whose interface this is; programs compare it.
__version__ = "1.23.2"
__author__ = "XCVM"
package_name = "onnxruntime"
version = __version__
cuda_version = ""

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtDevice",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtValue",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "create_and_register_allocator",
    "create_and_register_allocator_v2",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_version_string",
    "has_collective_ops",
    "install",
    "preload_dlls",
    "print_debug_info",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
    "uninstall",
]


def get_available_providers() -> list[str]:
    return ["CPUExecutionProvider"]


def get_all_providers() -> list[str]:
    return ["CPUExecutionProvider"]


def get_device() -> str:
    return "CPU"


def get_version_string() -> str:
    return __version__


def get_build_info() -> str:
    from .. import __version__ as own

    return f"ORT Build Info: XCVM {own}"


def set_default_logger_severity(severity: int) -> None:
    """Accepted: nothing is logged; failures are exceptions and notes are warnings."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """Accepted: nothing is logged."""


def set_seed(seed: int) -> None:
    """Accepted: models with random operators have seeds of their own."""


def enable_telemetry_events() -> None:
    """Accepted: there is no telemetry."""


def disable_telemetry_events() -> None:
    """Accepted: there is no telemetry."""


def has_collective_ops() -> bool:
    return False


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None) -> None:
    """Accepted: there is nothing to load."""


def print_debug_info() -> None:
    print(get_build_info())


def create_and_register_allocator(memory_info: Any, arena_config: Any = None) -> None:
    """Accepted: each session has its own memory."""


def create_and_register_allocator_v2(provider_type: str, memory_info: Any, provider_options: Any = None, arena_config: Any = None) -> None:
    """Accepted: each session has its own memory."""


# Names out of scope, and why.
_refused = {
    "LoraAdapter": "LoRA adapters are not supported; merge them into the model",
    "AdapterFormat": "LoRA adapters are not supported; merge them into the model",
    "ModelCompiler": "models are compiled when a session is created; xcvm.compile writes programs",
    "SparseTensor": "sparse tensors are not supported",
    "OrtSparseFormat": "sparse tensors are not supported",
    "copy_tensors": "there are no devices to copy between",
    "get_ep_devices": "there are no devices of execution providers",
    "register_execution_provider_library": "there are no execution providers",
    "unregister_execution_provider_library": "there are no execution providers",
    "OrtEpDevice": "there are no devices of execution providers",
}


def __getattr__(name: str) -> Any:
    if name in _refused:
        raise NotImplementedError(f"onnxruntime.{name}: {_refused[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_aliases = {
    "onnxruntime": sys.modules[__name__],
    "onnxruntime.capi": capi,
    "onnxruntime.capi.onnxruntime_pybind11_state": onnxruntime_pybind11_state,
    "onnxruntime.capi._pybind_state": _pybind_state,
    "onnxruntime.capi.onnxruntime_inference_collection": onnxruntime_inference_collection,
}


def install() -> None:
    """Make ``import onnxruntime`` give this module, in this process. It has to be called before that import."""
    present = sys.modules.get("onnxruntime")
    if present is not None and present is not sys.modules[__name__]:
        raise RuntimeError("onnxruntime is imported already; call install() before the first import of it")
    sys.modules.update(_aliases)
    if not any(isinstance(finder, _MetadataFinder) for finder in sys.meta_path):
        sys.meta_path.append(_MetadataFinder())


def uninstall() -> None:
    """Undo `install`."""
    for name, module in _aliases.items():
        if sys.modules.get(name) is module:
            del sys.modules[name]
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _MetadataFinder)]


class _MetadataFinder:
    """Gives `importlib.metadata` the version of onnxruntime, which programs compare."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        return None

    def find_distributions(self, context: Any = None) -> Any:
        from importlib.metadata import Distribution

        class Own(Distribution):
            def read_text(self, filename: str) -> str | None:
                return f"Metadata-Version: 2.1\nName: onnxruntime\nVersion: {__version__}\n" if filename == "METADATA" else None

            def locate_file(self, path: Any) -> Any:
                return path

        if context is None or context.name in (None, "onnxruntime"):
            yield Own()

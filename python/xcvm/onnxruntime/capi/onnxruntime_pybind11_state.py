"""Exceptions and classes of ONNX Runtime's extension module, by its names."""

from __future__ import annotations

from typing import Any

from ...errors import Error

__all__ = [
    "EPFail",
    "EngineError",
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoadCanceled",
    "ModelLoaded",
    "NoModel",
    "NoSuchFile",
    "NotImplemented",
    "RuntimeException",
    "from_xcvm",
]


class _OrtError(Exception):
    """A failure, with ONNX Runtime's text: "[ONNXRuntimeError] : code : NAME : message"."""

    code = 1
    status = "FAIL"

    @classmethod
    def of(cls, message: str) -> _OrtError:
        return cls(f"[ONNXRuntimeError] : {cls.code} : {cls.status} : {message}")


class Fail(_OrtError):
    """A general failure."""

    code, status = 1, "FAIL"


class InvalidArgument(_OrtError):
    """An input, output or option is not what the model has."""

    code, status = 2, "INVALID_ARGUMENT"


class NoSuchFile(_OrtError):
    """The model's file does not exist."""

    code, status = 3, "NO_SUCHFILE"


class NoModel(_OrtError):
    """There is no model."""

    code, status = 4, "NO_MODEL"


class EngineError(_OrtError):
    """An engine failed."""

    code, status = 5, "ENGINE_ERROR"


class RuntimeException(_OrtError):
    """A run failed."""

    code, status = 6, "RUNTIME_EXCEPTION"


class InvalidProtobuf(_OrtError):
    """The file is no serialized model."""

    code, status = 7, "INVALID_PROTOBUF"


class ModelLoaded(_OrtError):
    """A model is loaded already."""

    code, status = 8, "MODEL_LOADED"


class NotImplemented(_OrtError):  # noqa: A001 - ONNX Runtime's name
    """The model has an operator or a form that is not supported."""

    code, status = 9, "NOT_IMPLEMENTED"


class InvalidGraph(_OrtError):
    """The model contradicts itself."""

    code, status = 10, "INVALID_GRAPH"


class EPFail(_OrtError):
    """An execution provider failed."""

    code, status = 11, "EP_FAIL"


class ModelLoadCanceled(_OrtError):
    """Loading was cancelled."""

    code, status = 12, "MODEL_LOAD_CANCELED"


# The class for a failure while a model is loaded, and while it runs.
_loading: dict[str, type[_OrtError]] = {"UNSUPPORTED": NotImplemented, "INVALID_MODEL": InvalidGraph, "IO": NoSuchFile, "INVALID_ARGUMENT": InvalidArgument}
_running: dict[str, type[_OrtError]] = {"SHAPE_MISMATCH": InvalidArgument, "TYPE_MISMATCH": InvalidArgument, "INVALID_ARGUMENT": InvalidArgument}


def from_xcvm(error: Error, loading: bool) -> _OrtError:
    """Return ONNX Runtime's exception for a failure."""
    kinds = _loading if loading else _running
    kind = kinds.get(error.status, Fail if loading else RuntimeException)
    # A failure of an instruction is no fault of the arguments themselves.
    if not loading and error.instruction:
        kind = RuntimeException
    return kind.of(str(error))


def __getattr__(name: str) -> Any:
    """The classes of the package itself."""
    import importlib

    package = importlib.import_module(__name__.rsplit(".", 2)[0])
    if name.startswith("__") or not hasattr(package, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(package, name)

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
    "ModelRequiresCompilation",
    "NoModel",
    "NoSuchFile",
    "NotFound",
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


class ModelRequiresCompilation(_OrtError):
    """The model has to be compiled before."""

    code, status = 13, "MODEL_REQUIRES_COMPILATION"


class NotFound(_OrtError):
    """There is no such thing."""

    code, status = 14, "NOT_FOUND"


# The class for a failure while a model is loaded, and while it runs. A model that contradicts itself is a Fail.
_loading: dict[str, type[_OrtError]] = {"UNSUPPORTED": NotImplemented, "IO": NoSuchFile}
_running: dict[str, type[_OrtError]] = {
    "SHAPE_MISMATCH": InvalidArgument,
    "TYPE_MISMATCH": InvalidArgument,
    "INVALID_ARGUMENT": InvalidArgument,
    "OUT_OF_RANGE": InvalidArgument,
    "CANCELLED": Fail,
}


def from_xcvm(error: Error, loading: bool) -> _OrtError:
    """Return ONNX Runtime's exception for a failure."""
    text = str(error)
    if loading:
        # ONNX Runtime rejects operators that no standard defines as an invalid graph.
        if "there is no such operator" in text:
            return InvalidGraph.of(f"This is an invalid model. {text}")
        if error.status == "UNSUPPORTED" and not error.instruction:
            return Fail.of(text)
        return _loading.get(error.status, Fail).of(text)
    if not error.instruction:
        return _running.get(error.status, RuntimeException).of(text)
    # Elements that are out of range are the argument's fault; shapes that do not fit are found while the model runs.
    kind = InvalidArgument if error.status == "OUT_OF_RANGE" else RuntimeException
    operator = error.instruction.rstrip(")").rpartition("(")[2]
    return kind.of(f"Non-zero status code returned while running {operator} node. Name:'{error.node}' Status Message: {text}")


# Classes that ONNX Runtime has twice, and where the extension module's are here.
_native = {
    "InferenceSession": ("native", "NativeSession"),
    "OrtDevice": ("values", "NativeDevice"),
    "OrtValue": ("values", "NativeValue"),
    "OrtValueVector": ("values", "OrtValueVector"),
}


def __getattr__(name: str) -> Any:
    """The other names of the extension module."""
    import importlib

    package = __name__.rsplit(".", 2)[0]
    if name in _native:
        module, own = _native[name]
        return getattr(importlib.import_module(f"{package}.{module}"), own)
    if name == "get_default_session_options":
        return importlib.import_module(f"{package}.options").SessionOptions
    found = importlib.import_module(package)
    if name.startswith("__") or not hasattr(found, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(found, name)

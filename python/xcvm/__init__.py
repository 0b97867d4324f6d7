"""XCVM: compile, run and train neural networks.

>>> import xcvm
>>> program = xcvm.compile("model.onnx")
>>> scores = program(image)

Importing this package imports neither NumPy nor the compiler: both follow when they are used first.
"""

from __future__ import annotations

try:
    from . import _run
except ImportError as error:
    raise ImportError(
        f"{error}\nThe extension module of xcvm, or a library that it needs, cannot be loaded from {__path__[0]}. "
        "Install the package again: pip install --force-reinstall ./python",
        name="xcvm._run",
    ) from error
from ._run import Parameter, Tensor, assemble, available_threads
from .program import Program, Session, load

__version__: str = _run.version()

# Names that are imported when they are used first, and their modules.
_lazy = {
    "errors": "errors",
    "Error": "errors",
    "InvalidArgument": "errors",
    "InvalidProgram": "errors",
    "InvalidModel": "errors",
    "Unsupported": "errors",
    "ShapeMismatch": "errors",
    "TypeMismatch": "errors",
    "OutOfRange": "errors",
    "OutOfMemory": "errors",
    "OutOfTime": "errors",
    "Cancelled": "errors",
    "InputOutputError": "errors",
    "Internal": "errors",
    "Profile": "profile",
    **dict.fromkeys(["CFiles", "Check", "Report", "check", "compile", "const", "default_inputs", "dim", "export_c", "image", "to_onnx"], "compiling"),
    **dict.fromkeys(["SourceErrors", "host"], "source"),
    **dict.fromkeys(["Quantization", "quantize"], "quantizing"),
    **{name: name for name in ("array", "autograd", "nn", "ops", "optim")},
    "Array": "_array",
    **dict.fromkeys(["DType", "Tape", "current_tape", "seed"], "_context"),
    **dict.fromkeys(["custom_function", "grad", "hvp", "jacobian", "jvp", "lazy", "no_grad"], "autograd"),
    **dict.fromkeys(["check_gradients", "static", "value_and_grad", "vjp"], "autograd"),
    **dict.fromkeys(["Trainer", "Training", "train"], "training"),
}

__all__ = ["Parameter", "Program", "Session", "Tensor", "assemble", "available_threads", "load", *_lazy]


def __getattr__(name: str) -> object:
    from importlib import import_module

    module_name = _lazy.get(name)
    if module_name is None:
        # The functions of the array API, as xcvm.sum.
        array = None if name.startswith("__") else import_module(".array", __name__)
        if array is None or name not in array.__all__:
            raise AttributeError(f"module 'xcvm' has no attribute {name!r}")
        module_name = "array"
    module = import_module("." + module_name, __name__)
    value = module if name == module_name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_lazy})

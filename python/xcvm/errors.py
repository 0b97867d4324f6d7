"""Exceptions of failures, one class for each status of the C libraries.

Every class derives from `Error` and, where one fits, from a built-in exception, so that ``except ValueError`` works.
"""

from __future__ import annotations

from . import _run

__all__ = [
    "Error",
    "InvalidArgument",
    "InvalidProgram",
    "InvalidModel",
    "Unsupported",
    "ShapeMismatch",
    "TypeMismatch",
    "OutOfRange",
    "OutOfMemory",
    "OutOfTime",
    "Cancelled",
    "InputOutputError",
    "Internal",
]


class Error(Exception):
    """A failure of XCVM.

    Attributes
    ----------
    status : str
        Name of the status, as "SHAPE_MISMATCH".
    message : str
        The sentence without the place of the failure.
    pc : int or None
        Index of the instruction that failed, if there is one.
    instruction : str
        Its name, as "Conv"; "" if there is none.
    node : str
        The node of the model that the instruction was made of; "" if unknown.
    """

    status: str = "INTERNAL"

    def __init__(self, message: str = "", pc: int | None = None, instruction: str = "", node: str = "") -> None:
        text = message
        if instruction:
            place = f"instruction {pc} ({instruction})" if pc is not None else f"instruction {instruction}"
            text += f" [{place}, node {node!r}]" if node else f" [{place}]"
        elif node:
            text += f" [node {node!r}]"
        super().__init__(text)
        self.message = message
        self.pc = pc
        self.instruction = instruction
        self.node = node

    def __reduce__(self) -> tuple[type[Error], tuple[str, int | None, str, str]]:
        return type(self), (self.message, self.pc, self.instruction, self.node)


class InvalidArgument(Error, ValueError):
    """An argument is not what the function takes."""

    status = "INVALID_ARGUMENT"


class InvalidProgram(Error, ValueError):
    """The program is broken or contradicts itself."""

    status = "INVALID_PROGRAM"


class InvalidModel(Error, ValueError):
    """The model is broken or contradicts itself."""

    status = "INVALID_MODEL"


class Unsupported(Error, NotImplementedError):
    """The request is valid, but this build cannot do it."""

    status = "UNSUPPORTED"


class ShapeMismatch(Error, ValueError):
    """The shape of a value is not the expected one."""

    status = "SHAPE_MISMATCH"


class TypeMismatch(Error, TypeError):
    """The type of a value is not the expected one."""

    status = "TYPE_MISMATCH"


class OutOfRange(Error, IndexError):
    """An index or a size is outside its range."""

    status = "OUT_OF_RANGE"


class OutOfMemory(Error, MemoryError):
    """Memory or the memory limit is used up."""

    status = "OUT_OF_MEMORY"


class OutOfTime(Error, TimeoutError):
    """The deadline has passed or the fuel is used up."""

    status = "OUT_OF_TIME"


class Cancelled(Error):
    """The run was cancelled."""

    status = "CANCELLED"


class InputOutputError(Error, OSError):
    """A file cannot be read or written."""

    status = "IO"


class Internal(Error, RuntimeError):
    """A defect in the library."""

    status = "INTERNAL"


_names = {number: name for number, name, _ in _run._statuses()}
_classes = {kind.status: kind for kind in list(globals().values()) if isinstance(kind, type) and issubclass(kind, Error)}


def from_status(status: int, message: str, pc: int, instruction: str, node: str) -> Error:
    """Return the exception of a failure; called by the C extension."""
    kind = _classes.get(_names.get(status, ""), Error)
    return kind(message, pc if pc >= 0 else None, instruction, node)

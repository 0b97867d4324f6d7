"""A function for each instruction, made of its definition when it is used first.

>>> from xcvm import ops
>>> y = ops.Conv(x, w, pads=[1, 1, 1, 1])
>>> values, indices = ops.TopK(x, [2])

Operands come in their order, attributes by name. An operand that is no array becomes a constant of the type that the
instruction needs. `outputs` selects results: names, or how many (required for a list of results). Otherwise a function
returns all results that are not optional. `into` writes the first result into an array, through which no gradient may
flow. ``dir(ops)`` lists all functions.
"""

from __future__ import annotations

import inspect
from typing import Any

from ._context import Tape, current_tape
from ._tape import INSTRUCTIONS, Variable

_INDEX = {"I64": "i64", "INDEX": "i64", "BOOL": "bool", "STRING": "str", "F32": "f32", "F64": "f64", "I32": "i32", "U8": "u8"}


def _tape_of(operands: tuple[Any, ...]) -> Tape:
    for operand in operands:
        if isinstance(operand, Variable):
            return operand.tape  # type: ignore[return-value]
        if isinstance(operand, (list, tuple)):
            for item in operand:
                if isinstance(item, Variable):
                    return item.tape  # type: ignore[return-value]
    return current_tape()


class _Function:
    """The operands of an instruction, for calls."""

    __slots__ = ("name", "operands")

    def __init__(self, name: str, operands: tuple[tuple[str, str, str], ...]) -> None:
        self.name = name
        self.operands = operands

    def call(self, operands: tuple[Any, ...], attributes: dict[str, Any], outputs: Any, into: Any) -> Any:
        for operand in operands:
            if operand is not None and not isinstance(operand, Variable):
                return self._call_converted(operands, attributes, outputs, into)
        tape = operands[0].tape if operands and operands[0] is not None else _tape_of(operands)
        return tape.call(self.name, operands, attributes, outputs, into)

    def _call_converted(self, operands: tuple[Any, ...], attributes: dict[str, Any], outputs: Any, into: Any) -> Any:
        tape = _tape_of(operands)
        # The element type of each type variable, from the operands that are arrays.
        types: dict[str, str] = {}
        for operand, (_, _, kind) in zip(operands, self.operands):
            for item in operand if isinstance(operand, (list, tuple)) else [operand]:
                if isinstance(item, Variable) and kind not in types and item.kind == "tensor":
                    types[kind] = item.dtype
        converted = [self._convert(tape, operand, row, types) for operand, row in zip(operands, self.operands)]
        return tape.call(self.name, converted, attributes, outputs, into)

    def _convert(self, tape: Tape, operand: Any, row: tuple[str, str, str], types: dict[str, str]) -> Any:
        name, kind, type_name = row
        if operand is None or isinstance(operand, Variable):
            return operand
        if kind in ("LIST", "ANYS"):
            if not isinstance(operand, (list, tuple)):
                raise TypeError(f"{self.name}: operand '{name}' is a list of arrays, not {type(operand).__name__}")
            return [self._convert(tape, item, (name, "TENSOR", type_name), types) for item in operand]
        if kind in ("SEQUENCE", "ANY") and isinstance(operand, (list, tuple)) and any(isinstance(item, Variable) for item in operand):
            return tape.call("SequenceConstruct", [list(operand)])
        try:
            if isinstance(operand, (bool, int, float, list, tuple, str)):
                return tape.constant(operand, types.get(type_name) or _INDEX.get(type_name) or _default(operand))
            return tape.constant(operand)
        except (TypeError, ValueError, OverflowError) as error:
            raise type(error)(f"{self.name}: operand '{name}': {error}") from None


def _default(operand: Any) -> str | None:
    """Return f32 for floats, which NumPy would make f64."""
    while isinstance(operand, (list, tuple)) and operand:
        operand = operand[0]
    return "f32" if isinstance(operand, float) else None


def _signature(row: dict[str, Any]) -> inspect.Signature:
    parameters = []
    optional = False
    for name, kind, _ in row["operands"]:
        optional = optional or kind == "OPTIONAL"
        parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None if optional else inspect.Parameter.empty))
    for name, _, default, _ in row["attributes"]:
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default))
    for name in ["outputs"] if not row["into"] else ["outputs", "into"]:
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None))
    return inspect.Signature(parameters)


_KINDS = {
    "TENSOR": "array",
    "OPTIONAL": "array, optional",
    "SEQUENCE": "sequence",
    "ANY": "array or other value",
    "LIST": "list of arrays",
    "ANYS": "list of values",
}


def describe(name: str) -> str:
    """Return the docstring of an instruction's function."""
    row = INSTRUCTIONS[name]
    types = dict(entry.split("=") for entry in row["types"])

    def elements(kind: str) -> str:
        text = types.get(kind, kind).lower().replace("_", " ")
        return f"{kind}: {text}" if kind in types else text

    lines = [f"{name}: {row['summary']}.", ""]
    if row["operands"] or row["attributes"]:
        lines += ["Parameters", "----------"]
    for operand, kind, element in row["operands"]:
        lines.append(f"{operand} : {_KINDS[kind]} ({elements(element)})")
    for attribute, kind, default, values in row["attributes"]:
        shown = " | ".join(values) if values else kind
        lines.append(f"{attribute} : {shown}, default {default!r}")
    if row["results"]:
        lines += ["", "Returns", "-------"]
    for result, kind, element in row["results"]:
        lines.append(f"{result} : {_KINDS[kind]} ({elements(element)})")
    lines += ["", {"yes": "Differentiable.", "zero": "The gradient is zero.", "step": "The gradient is zero.", "none": "Not differentiable."}[row["gradient"]]]
    return "\n".join(lines)


def _make(name: str) -> Any:
    row = INSTRUCTIONS[name]
    names, optional = [], False
    for operand, kind, _ in row["operands"]:
        optional = optional or kind == "OPTIONAL"
        names.append(operand + "=None" if optional else operand)
    operands = "".join(operand + ", " for operand, _, _ in row["operands"])
    head = "".join(text + ", " for text in names)
    source = f"def {name}({head}*, outputs=None, into=None, **attributes):\n    return _call(({operands}), attributes, outputs, into)\n"
    scope: dict[str, Any] = {"_call": _Function(name, row["operands"]).call, "__name__": __name__}
    exec(source, scope)
    function = scope[name]
    function.__doc__ = describe(name)
    function.__signature__ = _signature(row)
    return function


def __getattr__(name: str) -> Any:
    if name not in INSTRUCTIONS:
        raise AttributeError(f"module 'xcvm.ops' has no function {name!r}; dir(xcvm.ops) lists the instructions")
    function = globals()[name] = _make(name)
    return function


def __dir__() -> list[str]:
    return list(INSTRUCTIONS)


def stub() -> str:
    """Return the type stub of this module, which the build writes."""
    kinds = {"int": "int", "ints": "Sequence[int]", "float": "float", "floats": "Sequence[float]", "text": "str", "texts": "Sequence[str]", "dtype": "Any", "choice": "Any"}
    lines = ['"""A function for each instruction; made by the build of the instructions\' definitions."""', ""]
    lines += ["from collections.abc import Sequence", "from typing import Any, Literal", "", "def describe(name: str) -> str: ...", "def stub() -> str: ..."]
    for name, row in INSTRUCTIONS.items():
        parameters, optional = [], False
        for operand, kind, _ in row["operands"]:
            optional = optional or kind == "OPTIONAL"
            wanted = "Sequence[Any]" if kind in ("LIST", "ANYS") else "Any"
            parameters.append(f"{operand}: {wanted}" + (" | None = None" if optional and wanted != "Any" else " = None" if optional else ""))
        parameters.append("*")
        for attribute, kind, default, values in row["attributes"]:
            wanted = "Literal[" + ", ".join(repr(value) for value in values) + "]" if values else kinds[kind]
            parameters.append(f"{attribute}: {wanted}" + (" | None" if default is None and wanted != "Any" else "") + f" = {default!r}")
        parameters.append("outputs: int | Sequence[str] | None = None")
        if row["into"]:
            parameters.append("into: Any = None")
        text = f"def {name}({', '.join(parameters)}) -> Any: ..."
        if len(text) > 118:
            text = f"def {name}(\n    " + ",\n    ".join(parameters) + ",\n) -> Any: ..."
        lines.append(text)
    return "\n".join(lines) + "\n"

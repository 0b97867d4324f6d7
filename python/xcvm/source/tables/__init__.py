"""Tables of library calls: a row for each function, method, attribute and module that the interpreter knows."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

from ..errors import Refusal, nearest
from ..values import Array, Choice, Const, Reference, Tuple, Value

Row = Callable[..., Value]

# By dotted name of the library; by library or class and name of method; by dotted name of a module's class.
FUNCTIONS: dict[str, Row] = {}
METHODS: dict[str, dict[str, Row]] = {}
ATTRIBUTES: dict[str, dict[str, Row]] = {}
MODULES: dict[str, Row] = {}
# Names of functions that are written in terms of others.
WRITTEN: set[str] = set()
# Dotted names of functions that are called on constants when the program is compiled.
PURE: set[str] = set()
# Dotted names of context managers, with what they do: "nothing", "skip" the body, or "unroll" loops.
CONTEXTS: dict[str, str] = {}
# Attributes of modules whose value depends on the program: (dotted owner, name).
CONSTANTS: dict[tuple[str, str], Callable[[Any], Value]] = {}


def functions(*names: str) -> Callable[[Row], Row]:
    """Make a function the row of library functions."""

    def add(row: Row) -> Row:
        for name in names:
            FUNCTIONS[name] = row
        return row

    return add


def methods(owner: str, *names: str) -> Callable[[Row], Row]:
    """Make a function the row of methods; the first operand is the object."""

    def add(row: Row) -> Row:
        for name in names:
            METHODS.setdefault(owner, {})[name] = row
        return row

    return add


def attributes(owner: str, *names: str) -> Callable[[Row], Row]:
    def add(row: Row) -> Row:
        for name in names:
            ATTRIBUTES.setdefault(owner, {})[name] = row
        return row

    return add


def modules(*names: str) -> Callable[[Row], Row]:
    """Make a function the row of a class of modules; the first operand is the module."""

    def add(row: Row) -> Row:
        for name in names:
            MODULES[name] = row
        return row

    return add


def written(*names: str, method: str = "") -> Callable[[Any], Any]:
    """Make a function of NumPy, written in terms of others, the row of library functions. The interpreter compiles it as it does
    users' functions. `method` is also the name of a method of NumPy's arrays."""

    def add(function: Any) -> Any:
        def row(m: Any, *arguments: Value, **keywords: Value) -> Value:
            made: Value = m.call_written(function, list(arguments), keywords)
            return made

        _signed(row, function)
        functions(*names)(row)
        WRITTEN.update(names)
        if method:
            methods("numpy", method)(row)
        return function

    return add


# Classes that are written for the interpreter, with the classes that instances are taken for.
STAND_INS: dict[type, type] = {}


def stands_for(cls: type) -> Callable[[type], type]:
    """Make a class, whose source the interpreter compiles, the row of a class of the standard library."""

    def add(stand_in: type) -> type:
        def row(m: Any, *arguments: Value, **keywords: Value) -> Value:
            made: Value = m.instantiate(stand_in, list(arguments), keywords)
            return made

        row.__name__ = cls.__name__
        # The constructor refuses what it does not have.
        row.keywords = None  # type: ignore[attr-defined]
        functions(f"collections.{cls.__name__}")(row)
        STAND_INS[stand_in] = cls
        return stand_in

    return add


def written_for_torch(name: str, *others: str, method: bool = True, function: bool = True) -> Callable[[Any], Any]:
    """Make a function of NumPy's arrays, written in terms of others, a row of torch: its tensors are arrays inside, and arrays that
    it returns are tensors. By default it is a method of tensors, too."""

    def add(body: Any) -> Any:
        def row(m: Any, *arguments: Value, **keywords: Value) -> Value:
            inside = [_of_library(m, value, "torch", "numpy") for value in arguments]
            named = {key: _of_library(m, value, "torch", "numpy") for key, value in keywords.items()}
            return _of_library(m, m.call_written(body, inside, named), "numpy", "torch")

        _signed(row, body)
        if function:
            functions("torch." + name, *others)(row)
        WRITTEN.update(["torch." + name, *others])
        if method:
            methods("torch", name)(row)
        return body

    return add


def _signed(row: Any, function: Any) -> None:
    """Give a row the signature of a function, so that other arguments are refused as unknown."""
    signature = inspect.signature(function)
    machine = inspect.Parameter("_machine", inspect.Parameter.POSITIONAL_ONLY)
    row.__signature__ = signature.replace(parameters=[machine, *signature.parameters.values()])
    row.__name__ = function.__name__


def _of_library(m: Any, value: Value, old: str, new: str) -> Value:
    """Return a value in which the arrays of a library are another's. They share their memory."""
    value = m.settle(value)
    if isinstance(value, Array):
        return Array(value.storage, new, value.view) if value.library == old else value
    if isinstance(value, Tuple):
        return Tuple(tuple(_of_library(m, item, old, new) for item in value.items), value.cls)
    if isinstance(value, Reference) and value.object.cls is list and old == "torch":
        return m.new_list([_of_library(m, item, old, new) for item in m.items_of(value)])  # type: ignore[no-any-return]
    if isinstance(value, Choice):
        return m.each(value, lambda one: _of_library(m, one, old, new))  # type: ignore[no-any-return]
    return value


def _resolve(name: str) -> Any:
    """Return the object of a dotted name if its library is loaded, else None."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        found: Any = sys.modules.get(".".join(parts[:length]))
        if found is None:
            continue
        for part in parts[length:]:
            found = getattr(found, part, None)
        return found
    return None


# Keywords that rows take by the name of their parameter for more of them. Others take any.
_KEYWORDS = {
    "names": frozenset(["axis", "keepdims", "other"]),
    "options": frozenset(
        [
            "device", "requires_grad", "layout", "pin_memory", "memory_format", "non_blocking", "copy", "size", "shape", "ord", "generator",
            "sep", "end", "file", "flush", "key", "default", "cudnn_fast", "stacklevel", "category", "extra", "exc_info", "finetune", "axis", "keepdims",
        ]
    ),
}  # fmt: skip


class Tables:
    """The tables, resolved to the live objects of the libraries that are loaded."""

    def __init__(self) -> None:
        for name in ("python", "numpy", "numpy_selection", "numpy_written", "torch", "torch_written", "torch_nn_written", "collections_written", "torchvision", "chainer"):
            importlib.import_module(f"{__name__}.{name}")
        self.methods = {owner: METHODS.get(owner, {}) for owner in ("torch", "numpy", "chainer")}
        self.attributes = {owner: ATTRIBUTES.get(owner, {}) for owner in ("torch", "numpy", "chainer")}
        self.rows: dict[int, Row] = {}
        self.names: dict[int, str] = {}
        self.kept: list[Any] = []
        self.pure: set[int] = set()
        self.contexts: dict[int, str] = {}
        self.module_rows: dict[int, Row] = {}
        self.signatures: dict[Row, inspect.Signature] = {}
        self.constants: dict[tuple[int, str], Callable[[Any], Value]] = {}
        for name, row in FUNCTIONS.items():
            self._add(name, self.rows, row)
        for name in sorted(PURE):
            found = _resolve(name)
            if found is not None:
                self.pure.add(id(found))
                self.kept.append(found)
        for name, effect in CONTEXTS.items():
            self._add(name, self.contexts, effect)
        for name, row in MODULES.items():
            self._add(name, self.module_rows, row)
        for (owner, name), value in CONSTANTS.items():
            found = _resolve(owner)
            if found is not None:
                self.constants[(id(found), name)] = value

    def _add(self, name: str, table: dict[int, Any], row: Any) -> None:
        found = _resolve(name)
        if found is not None:
            table[id(found)] = row
            self.names.setdefault(id(found), name)
            self.kept.append(found)

    def function(self, function: Any) -> Row | None:
        return self.rows.get(id(function))

    def is_pure(self, function: Any) -> bool:
        if id(function) in self.pure:
            return True
        owner = getattr(function, "__self__", None)
        if isinstance(owner, (str, bytes, int, float)) and not isinstance(owner, type):
            return True
        module = getattr(function, "__module__", None) or ""
        return module in ("math", "_operator", "_random", "random", "_struct", "time") or isinstance(owner, sys.modules["random"].Random if "random" in sys.modules else ())

    def generator(self, function: Any) -> Any:
        """Return the generator of random numbers whose method a function is, or None."""
        owner = getattr(function, "__self__", None)
        random = sys.modules.get("random")
        return owner if random is not None and isinstance(owner, random.Random) else None

    def name_of(self, function: Any) -> str:
        if id(function) in self.names:
            return self.names[id(function)]
        module = getattr(function, "__module__", None)
        name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or type(function).__name__
        if module == "io" and name == "open":
            return "open"
        name = str(name).removeprefix("_VariableFunctionsClass.")
        return f"{module}.{name}" if module and module != "builtins" else name

    def nearest(self, name: str) -> str:
        short = name.rsplit(".", 1)[-1]
        by_short = {known.rsplit(".", 1)[-1]: known for known in FUNCTIONS}
        hint = nearest(short, by_short)
        if hint and "'" in hint:
            return f"Did you mean '{by_short[hint.split(chr(39))[1]]}'?"
        return ""

    def method_of(self, cls: Any, name: str) -> Row | None:
        for base in getattr(cls, "__mro__", ()):
            row = METHODS.get(base.__name__, {}).get(name)
            if row is not None and base.__module__ == "builtins":
                return row
        return None

    def module_row(self, cls: Any) -> Row | None:
        for base in getattr(cls, "__mro__", ()):
            row = self.module_rows.get(id(base))
            if row is not None:
                return row
            if "forward" in base.__dict__ or "__call__" in base.__dict__:
                return None
        return None

    def is_module_class(self, cls: type) -> bool:
        torch = sys.modules.get("torch")
        return torch is not None and issubclass(cls, torch.nn.Module) and cls.__module__.startswith("torch.")

    def bind(self, row: Row, machine: Any, arguments: list[Value], keywords: dict[str, Value], name: str = "") -> inspect.BoundArguments:
        """Bind arguments to a row. Refuses those that the row does not have, which the library may have."""
        signature = self.signatures.get(row)
        if signature is None:
            signature = self.signatures[row] = inspect.signature(row)
        name = name or row.__name__.rstrip("_")
        parameters = signature.parameters
        rest = [p.name for p in parameters.values() if p.kind is p.VAR_KEYWORD]
        others = getattr(row, "keywords", _KEYWORDS.get(rest[0])) if rest else frozenset()
        unknown = [key for key in keywords if others is not None and key not in parameters and key not in others]
        if unknown:
            known = [key for key in parameters if key[0] != "_" and key != "m"]
            raise Refusal(f"the argument '{unknown[0]}' of '{name}' is not supported", nearest(unknown[0], [*known, *(others or ())]))
        try:
            return signature.bind(machine, *arguments, **keywords)
        except TypeError as error:
            raise Refusal(f"these arguments of '{name}' are not supported: {error}") from None

    def context(self, machine: Any, manager: Value) -> str | None:
        """Return the effect of a context manager of a library, or None."""
        from ..values import Reference

        cls = None
        if isinstance(manager, Const):
            cls = manager.value if id(manager.value) in self.contexts else type(manager.value)
        elif isinstance(manager, Reference):
            cls = manager.object.cls
        return self.contexts.get(id(cls))

    def host_call(self, machine: Any, function: Any, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        from .python import host_call

        return host_call(machine, function, arguments, keywords)

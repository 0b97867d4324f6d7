"""Abstract values: what a Python expression can be while a program is interpreted.

Objects with identity (`Object`, `Storage`) have serial numbers in the order of creation. Their contents are in the heap.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from .graph import GraphValue, Type


class Value:
    """Base of all abstract values. Values are immutable."""

    __slots__ = ()


class Const(Value):
    """A Python value that is fixed at compile time: number, text, None, type, module, library function."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Const({self.value!r})"


class Number(Value):
    """A Python int, float or bool of the run: a tensor of rank 0, of i64, f64 or bool.

    `choices` has all that it can be, if that is a small known set.
    """

    __slots__ = ("at", "kind", "choices")

    def __init__(self, at: GraphValue, kind: str, choices: frozenset[int] | None = None) -> None:
        self.at = at
        self.kind = kind
        self.choices = choices

    def __repr__(self) -> str:
        return f"Number({self.kind})"


NUMBER_DTYPES = {"bool": "bool", "int": "i64", "float": "f64"}


class Storage:
    """Memory of an array. The heap has its current elements if it was changed in place; `initial` are the first ones."""

    __slots__ = ("serial", "initial", "links", "live", "borrowed", "captured")

    def __init__(self, serial: int, initial: GraphValue, live: Any = None) -> None:
        self.serial = serial
        self.initial = initial
        # Arrays that have the same memory if a condition is true: changes in place are written to them too.
        self.links: list[tuple[Array, GraphValue]] = []
        # The live array of a constant or parameter, which must not be changed in place.
        self.live = live
        # True for an item of a sequence, whose changes would not reach the list.
        self.borrowed = False
        # True if a sequence has its elements, which a later change would not reach.
        self.captured = False


class View:
    """A part or rearrangement of the elements of a storage: how to read it, and how to write it back."""

    __slots__ = ("parent", "read", "write", "base", "seen", "layout", "certain")

    def __init__(
        self,
        parent: View | None,
        read: Callable[[GraphValue], GraphValue],
        write: Callable[[GraphValue, GraphValue], GraphValue] | None,
        base: GraphValue,
        seen: GraphValue,
        layout: Any = None,
        certain: bool = True,
    ) -> None:
        self.parent = parent
        self.read = read
        self.write = write
        # The elements of the storage at creation, and what the view read from them.
        self.base = base
        self.seen = seen
        # A NumPy array with the strides of the view, if they are known. Its elements mean nothing.
        self.layout = layout
        # False if the library may have made a copy, which depends on strides that are not known.
        self.certain = certain


class Array(Value):
    """An array of a library: "torch", "numpy" or "chainer"."""

    __slots__ = ("storage", "view", "library")

    def __init__(self, storage: Storage, library: str, view: View | None = None) -> None:
        self.storage = storage
        self.library = library
        self.view = view

    def __repr__(self) -> str:
        return f"Array({self.library} {self.storage.initial.type})"


class Tuple(Value):
    """A tuple of known length; `cls` is its class, which may be a named tuple."""

    __slots__ = ("items", "cls")

    def __init__(self, items: tuple[Value, ...], cls: type = tuple) -> None:
        self.items = items
        self.cls = cls

    def __repr__(self) -> str:
        return f"Tuple{self.items!r}"


class Sequence(Value):
    """The contents of a list or tuple of run-time length: a sequence for each leaf of an item."""

    __slots__ = ("parts", "item", "cls")

    def __init__(self, parts: tuple[GraphValue, ...], item: Any, cls: type = list) -> None:
        self.parts = parts
        self.item = item
        self.cls = cls

    def __repr__(self) -> str:
        return f"Sequence({self.item!r})"


class Object:
    """The identity of a list, dict, set, instance, or frame. `live` is the Python object that it stands for, if any."""

    __slots__ = ("serial", "cls", "live", "keys")

    def __init__(self, serial: int, cls: Any, live: Any = None) -> None:
        self.serial = serial
        self.cls = cls
        self.live = live
        # Every key that was written, in order.
        self.keys: dict[Any, None] = {}


class Reference(Value):
    """A reference to an object."""

    __slots__ = ("object",)

    def __init__(self, object: Object) -> None:
        self.object = object

    def __repr__(self) -> str:
        return f"Reference({getattr(self.object.cls, '__name__', self.object.cls)} #{self.object.serial})"


class Choice(Value):
    """`yes` if the condition is true at run time, else `no`: None or an array, a number or an array, two objects."""

    __slots__ = ("condition", "yes", "no")

    def __init__(self, condition: GraphValue, yes: Value, no: Value) -> None:
        self.condition = condition
        self.yes = yes
        self.no = no

    def __repr__(self) -> str:
        return f"Choice({self.yes!r}, {self.no!r})"


class Entries(Value):
    """The contents of a dict or a set: keys are Python values or objects, in order of insertion."""

    __slots__ = ("keys", "values")

    def __init__(self, keys: tuple[Any, ...], values: tuple[Value, ...]) -> None:
        self.keys = keys
        self.values = values

    def __repr__(self) -> str:
        return f"Entries({dict(zip(self.keys, self.values))!r})"


class Elements(Value):
    """The current elements of a storage that was changed in place."""

    __slots__ = ("at",)

    def __init__(self, at: GraphValue) -> None:
        self.at = at


class Undefined(Value):
    """The value of a name that was not assigned."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Undefined"


UNDEFINED = Undefined()


class Absent(Value):
    """The contents of an object that does not exist on this path. Nobody reads them."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Absent"


ABSENT = Absent()


class Poison(Value):
    """The result of something that cannot be compiled. `reason` is empty if it was reported."""

    __slots__ = ("reason",)

    def __init__(self, reason: str = "") -> None:
        self.reason = reason

    def __repr__(self) -> str:
        return f"Poison({self.reason})"


class RunText(str):
    """A text that shows values of the run as <int> and the like."""


class Text(Poison):
    """A text of values of the run. It can be used in messages only."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        super().__init__("a text of values of the run is not known when the program is compiled, so only messages can have it")
        self.text = RunText(text)


class Scope:
    """What a function's code refers to besides its own names: the enclosing frames, and live globals and cells."""

    __slots__ = ("frame", "names", "parent", "globals", "cells", "file", "cls")

    def __init__(
        self,
        frame: Object | None,
        names: frozenset[str],
        parent: Scope | None,
        globals: dict[str, Any],
        cells: dict[str, Any],
        file: str,
        cls: Any,
    ) -> None:
        self.frame = frame
        self.names = names
        self.parent = parent
        self.globals = globals
        # Names of live closures, with their cells.
        self.cells = cells
        self.file = file
        # The class whose method this is, for super().
        self.cls = cls

    def frames(self) -> tuple[Object, ...]:
        """Return the frames of the enclosing functions, the innermost first."""
        above = self.parent.frames() if self.parent is not None else ()
        return above if self.frame is None else (self.frame, *above)

    def renamed(self, frames: dict[Object, Object]) -> Scope:
        """Return this scope with other frames in the place of some."""
        if not any(frame in frames for frame in self.frames()):
            return self
        parent = self.parent.renamed(frames) if self.parent is not None else None
        frame = frames.get(self.frame, self.frame) if self.frame is not None else None
        return Scope(frame, self.names, parent, self.globals, self.cells, self.file, self.cls)


class Function(Value):
    """A function with Python source."""

    __slots__ = ("node", "scope", "defaults", "keyword_defaults", "live", "name")

    def __init__(
        self,
        node: ast.FunctionDef | ast.Lambda,
        scope: Scope,
        defaults: tuple[Value, ...],
        keyword_defaults: dict[str, Value],
        name: str,
        live: Any = None,
    ) -> None:
        self.node = node
        self.scope = scope
        self.defaults = defaults
        self.keyword_defaults = keyword_defaults
        self.name = name
        self.live = live

    def __repr__(self) -> str:
        return f"Function({self.name})"


class Method(Value):
    """A function bound to its first argument."""

    __slots__ = ("owner", "function")

    def __init__(self, owner: Value, function: Value) -> None:
        self.owner = owner
        self.function = function


class NativeMethod(Value):
    """A method of a built-in type, or of an array, by name."""

    __slots__ = ("owner", "name")

    def __init__(self, owner: Value, name: str) -> None:
        self.owner = owner
        self.name = name

    def __repr__(self) -> str:
        return f"NativeMethod({self.owner!r}.{self.name})"


class Super(Value):
    """super(): attributes of `owner` looked up behind `cls` in the order of its classes."""

    __slots__ = ("cls", "owner")

    def __init__(self, cls: Any, owner: Value) -> None:
        self.cls = cls
        self.owner = owner


class Iteration(Value):
    """What a loop runs over: a number of rounds and the item of each round.

    `length` is an int, a Number, or None if it has no end. `item` accepts Const or Number. `unroll` says that items differ
    in more than elements, so that rounds must be compiled one by one.
    """

    __slots__ = ("length", "item", "unroll", "step", "once", "renew", "contents")

    def __init__(
        self, length: Value | None, item: Callable[[Value], Value], unroll: bool, step: Callable[[], Value | None] | None = None
    ) -> None:
        self.length = length
        self.item = item
        self.unroll = unroll
        # For a live list: called before each round; returns None at the end.
        self.step = step
        # For an iterator, which can be consumed once: an object whose cell says whether it was. None for what may be repeated.
        self.once: Object | None = None
        # For a view of a dict: returns what it has now.
        self.renew: Callable[[], Iteration] | None = None
        # The contents of the list that an iterator runs over, if nothing else can change it.
        self.contents: Value | None = None


class Partial(Value):
    """functools.partial of a callable."""

    __slots__ = ("function", "arguments", "keywords")

    def __init__(self, function: Value, arguments: tuple[Value, ...], keywords: dict[str, Value]) -> None:
        self.function = function
        self.arguments = arguments
        self.keywords = keywords


class Slice(Value):
    """A slice with bounds that may be run-time numbers."""

    __slots__ = ("start", "stop", "step")

    def __init__(self, start: Value, stop: Value, step: Value) -> None:
        self.start = start
        self.stop = stop
        self.step = step


class LocalClass(Value):
    """A class defined in interpreted code."""

    __slots__ = ("name", "bases", "members")

    def __init__(self, name: str, bases: tuple[Any, ...], members: dict[str, Value]) -> None:
        self.name = name
        self.bases = bases
        self.members = members


def type_of_array(array: Array) -> Type:
    """Return the type of the elements at creation; in-place changes keep it."""
    return (array.view.seen if array.view else array.storage.initial).type


def map_value(value: Value, leaf: Callable[[Value], Value]) -> Value:
    """Return a value with all references and functions in it replaced by what `leaf` returns for them.

    `leaf` is called for a function after its defaults were replaced. A value without changes stays the same object.
    """
    if isinstance(value, Reference):
        return leaf(value)
    if isinstance(value, Tuple):
        items = tuple(map_value(item, leaf) for item in value.items)
        return value if all(map(_is, items, value.items)) else Tuple(items, value.cls)
    if isinstance(value, Entries):
        keys = tuple(_map_key(key, leaf) for key in value.keys)
        values = tuple(map_value(item, leaf) for item in value.values)
        return value if all(map(_is, values, value.values)) and all(map(_is, keys, value.keys)) else Entries(keys, values)
    if isinstance(value, Choice):
        yes, no = map_value(value.yes, leaf), map_value(value.no, leaf)
        return value if yes is value.yes and no is value.no else Choice(value.condition, yes, no)
    if isinstance(value, Function):
        defaults = tuple(map_value(item, leaf) for item in value.defaults)
        named = {name: map_value(item, leaf) for name, item in value.keyword_defaults.items()}
        if not all(map(_is, defaults, value.defaults)) or not all(map(_is, named.values(), value.keyword_defaults.values())):
            value = Function(value.node, value.scope, defaults, named, value.name, value.live)
        return leaf(value)
    if isinstance(value, Method):
        owner, function = map_value(value.owner, leaf), map_value(value.function, leaf)
        return value if owner is value.owner and function is value.function else Method(owner, function)
    if isinstance(value, NativeMethod):
        owner = map_value(value.owner, leaf)
        return value if owner is value.owner else NativeMethod(owner, value.name)
    if isinstance(value, Super):
        owner = map_value(value.owner, leaf)
        return value if owner is value.owner else Super(value.cls, owner)
    if isinstance(value, Partial):
        function = map_value(value.function, leaf)
        arguments = tuple(map_value(item, leaf) for item in value.arguments)
        named = {name: map_value(item, leaf) for name, item in value.keywords.items()}
        return Partial(function, arguments, named)
    return value


def _is(a: Any, b: Any) -> bool:
    return a is b


def _map_key(key: Any, leaf: Callable[[Value], Value]) -> Any:
    if isinstance(key, Object):
        made = leaf(Reference(key))
        return made.object if isinstance(made, Reference) else key
    return key

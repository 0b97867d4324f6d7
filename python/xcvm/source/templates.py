"""Templates: what two values have in common, so that one graph value can be either.

A template has leaves, each a graph value of a known type, and a fixed structure around them. `widen` joins templates.
Branches and loops convert their values to leaves, and rebuild a value from the leaves of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

from .graph import Dims, Type
from .values import (
    NUMBER_DTYPES,
    Array,
    Choice,
    Const,
    Function,
    Method,
    NativeMethod,
    Number,
    Object,
    Partial,
    Reference,
    Sequence,
    Tuple,
    Value,
)


class Template:
    """Base of all templates. They are compared by structure."""


@dataclass(frozen=True, eq=False)
class Same(Template):
    """A value that does not change: no leaves."""

    value: Value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and same_value(self.value, other.value)

    def __hash__(self) -> int:
        return 0


@dataclass(frozen=True)
class NumberOf(Template):
    kind: str
    choices: Optional[frozenset[int]] = None


@dataclass(frozen=True)
class ArrayOf(Template):
    type: Type
    library: str


@dataclass(frozen=True)
class ElementsOf(Template):
    type: Type


@dataclass(frozen=True)
class TupleOf(Template):
    items: tuple[Template, ...]
    cls: type


@dataclass(frozen=True)
class SequenceOf(Template):
    item: Template
    cls: type


@dataclass(frozen=True)
class EntriesOf(Template):
    keys: tuple[Any, ...]
    values: tuple[Template, ...]


@dataclass(frozen=True)
class FunctionOf(Template):
    """A function whose defaults vary."""

    function: Function
    defaults: tuple[Template, ...]
    keyword_defaults: tuple[Template, ...]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FunctionOf)
            and same_code(self.function, other.function)
            and self.defaults == other.defaults
            and self.keyword_defaults == other.keyword_defaults
        )

    def __hash__(self) -> int:
        return 0


@dataclass(frozen=True)
class Either(Template):
    yes: Template
    no: Template


@dataclass(frozen=True)
class Missing(Template):
    """Undefined."""


@dataclass(frozen=True)
class Unjoinable(Template):
    """Values that have nothing in common; an error if the result is used."""

    reason: str


RANK = {"bool": 0, "int": 1, "float": 2}
CATEGORY = {"bool": 0, **dict.fromkeys(["u8", "i8", "u16", "i16", "i32", "i64", "u32", "u64"], 1), **dict.fromkeys(["f16", "bf16", "f32", "f64"], 2)}
# Of one value. Each conversion compares all of them, so that 92 took 52 s in a loop, and 24 take 2 s.
MOST_ALTERNATIVES = 24


def number_kind(value: Any) -> str:
    """Return "bool", "int" or "float" for a Python number, "" for anything else."""
    kind = type(value)
    return "bool" if kind is bool else "int" if kind is int else "float" if kind is float else ""


def same_value(a: Value, b: Value) -> bool:
    """Tell whether two values are the same at run time for certain, with the same identity."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, Const) and isinstance(b, Const):
        if a.value is b.value:
            return True
        if type(a.value) is not type(b.value) or not isinstance(a.value, (int, float, str, bytes, tuple, slice, frozenset, complex)):
            return False
        return bool(a.value == b.value) and repr(a.value) == repr(b.value)
    if isinstance(a, Number) and isinstance(b, Number):
        return a.at is b.at and a.kind == b.kind
    if isinstance(a, Array) and isinstance(b, Array):
        return a.storage is b.storage and a.view is b.view and a.library == b.library
    if isinstance(a, Tuple) and isinstance(b, Tuple):
        return a.cls is b.cls and len(a.items) == len(b.items) and all(map(same_value, a.items, b.items))
    if isinstance(a, Sequence) and isinstance(b, Sequence):
        return len(a.parts) == len(b.parts) and all(x is y for x, y in zip(a.parts, b.parts)) and a.item == b.item
    if isinstance(a, Reference) and isinstance(b, Reference):
        return a.object is b.object
    if isinstance(a, Choice) and isinstance(b, Choice):
        return a.condition is b.condition and same_value(a.yes, b.yes) and same_value(a.no, b.no)
    if isinstance(a, Function) and isinstance(b, Function):
        return (
            same_code(a, b)
            and len(a.defaults) == len(b.defaults)
            and all(map(same_value, a.defaults, b.defaults))
            and all(map(same_value, a.keyword_defaults.values(), b.keyword_defaults.values()))
        )
    if isinstance(a, Method) and isinstance(b, Method):
        return same_value(a.owner, b.owner) and same_value(a.function, b.function)
    if isinstance(a, NativeMethod) and isinstance(b, NativeMethod):
        return a.name == b.name and same_value(a.owner, b.owner)
    if isinstance(a, Partial) and isinstance(b, Partial):
        return same_value(a.function, b.function) and len(a.arguments) == len(b.arguments) and all(map(same_value, a.arguments, b.arguments))
    return False


def same_code(a: Function, b: Function) -> bool:
    """Tell whether two functions have the same source and the same enclosing variables."""
    first, second = a.scope.frames(), b.scope.frames()
    return a.node is b.node and len(first) == len(second) and all(x is y for x, y in zip(first, second))


def leaf_types(template: Template) -> list[Type]:
    """Return the types of the leaves."""
    if isinstance(template, NumberOf):
        return [Type(NUMBER_DTYPES[template.kind], ())]
    if isinstance(template, (ArrayOf, ElementsOf)):
        return [template.type]
    if isinstance(template, TupleOf):
        return [leaf for item in template.items for leaf in leaf_types(item)]
    if isinstance(template, EntriesOf):
        return [leaf for item in template.values for leaf in leaf_types(item)]
    if isinstance(template, SequenceOf):
        # Items without leaves are counted by a sequence of zeros.
        return [Type(leaf.dtype, leaf.dims, True) for leaf in leaf_types(template.item) or [Type("i64", ())]]
    if isinstance(template, FunctionOf):
        return [leaf for item in (*template.defaults, *template.keyword_defaults) for leaf in leaf_types(item)]
    if isinstance(template, Either):
        return [Type("bool", ()), *leaf_types(template.yes), *leaf_types(template.no)]
    return []


def same_form(a: Template, b: Template) -> bool:
    """Tell whether the leaves of two templates mean the same; sizes of arrays may differ."""
    if isinstance(a, ArrayOf) and isinstance(b, ArrayOf):
        return a.library == b.library and a.type.dtype == b.type.dtype
    if isinstance(a, TupleOf) and isinstance(b, TupleOf):
        return a.cls is b.cls and len(a.items) == len(b.items) and all(map(same_form, a.items, b.items))
    if isinstance(a, Either) and isinstance(b, Either):
        return same_form(a.yes, b.yes) and same_form(a.no, b.no)
    return a == b


def _join_dims(a: Dims, b: Dims) -> Dims:
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b))


def structure(template: Template) -> Template:
    """Replace a fixed value by its template, as far as it can vary."""
    if not isinstance(template, Same):
        return template
    value = template.value
    if isinstance(value, Number):
        return NumberOf(value.kind, value.choices)
    if isinstance(value, Tuple):
        return TupleOf(tuple(Same(item) for item in value.items), value.cls)
    if isinstance(value, Sequence):
        return SequenceOf(value.item, value.cls)
    if isinstance(value, Choice):
        return Either(Same(value.yes), Same(value.no))
    if isinstance(value, Function) and (value.defaults or value.keyword_defaults):
        return FunctionOf(value, tuple(map(Same, value.defaults)), tuple(map(Same, value.keyword_defaults.values())))
    return template


def _either(a: Template, b: Template) -> Template:
    if _alternatives(a) + _alternatives(b) > MOST_ALTERNATIVES:
        return Unjoinable(f"the value can be too many different things, more than {MOST_ALTERNATIVES}")
    return Either(a, b)


class Widener:
    """Joins templates. `dummy` lets a missing value be anything; `choices` keeps the sets of small integers.

    `pair` returns the object that is one object on one path and another on the other path, or None.
    """

    def __init__(
        self,
        array_type: Any,
        dummy: bool = False,
        choices: bool = False,
        pair: Callable[[Object, Object], Object | None] | None = None,
        mix: Callable[[], None] | None = None,
    ) -> None:
        self.array_type = array_type
        # Called where an int becomes a float, since it is one on another path.
        self.mix = mix
        self.pair = pair
        self.dummy = dummy
        self.choices = choices

    def expand(self, template: Template) -> Template:
        template = structure(template)
        if isinstance(template, Same):
            if isinstance(template.value, Array):
                return ArrayOf(self.array_type(template.value), template.value.library)
            if type(template.value).__name__ == "Elements":
                return ElementsOf(template.value.at.type)  # type: ignore[attr-defined]
            if type(template.value).__name__ == "Entries":
                entries: Any = template.value
                return EntriesOf(entries.keys, tuple(Same(v) for v in entries.values))
            if type(template.value).__name__ == "Undefined":
                return Missing()
            if type(template.value).__name__ == "Poison":
                return Unjoinable(template.value.reason)  # type: ignore[attr-defined]
        return template

    def widen(self, a: Template, b: Template) -> Template:
        if a == b:
            return a
        a, b = self.expand(a), self.expand(b)
        if a == b:
            return a
        for one in (a, b):
            if isinstance(one, Unjoinable):
                return one
        plain = self.plain(a, b)
        if plain is not None:
            return plain
        if isinstance(b, Either) and not isinstance(a, Either):
            return self.widen(b, a)
        if isinstance(a, Either):
            if isinstance(b, Either):
                return self.widen(self.widen(a, b.yes), b.no)
            yes = self.joined(a.yes, b)
            if yes is not None:
                return Either(yes, a.no)
            rest = self.widen(a.no, b)
            return rest if isinstance(rest, Unjoinable) else _either(a.yes, rest)
        return _either(a, b)

    def joined(self, a: Template, b: Template) -> Template | None:
        a, b = self.expand(a), self.expand(b)
        return a if a == b else self.plain(a, b)

    def plain(self, a: Template, b: Template) -> Template | None:
        """Join templates without a choice between them, or return None."""
        if self.dummy:
            if isinstance(a, Missing):
                return b
            if isinstance(b, Missing):
                return a
        kind_a, kind_b = self.kind(a), self.kind(b)
        if kind_a and kind_b:
            kind = kind_a if RANK[kind_a] >= RANK[kind_b] else kind_b
            if kind_a != kind_b and kind == "float" and self.mix is not None:
                self.mix()
            return NumberOf(kind, _choices(a) | _choices(b) if self.choices else None)
        if isinstance(a, ArrayOf) and isinstance(b, ArrayOf):
            if a.library != b.library or a.type.dtype != b.type.dtype or a.type.rank != b.type.rank:
                return None
            return ArrayOf(Type(a.type.dtype, _join_dims(a.type.dims, b.type.dims)), a.library)
        if isinstance(a, ElementsOf) and isinstance(b, ElementsOf):
            return ElementsOf(Type(a.type.dtype, _join_dims(a.type.dims, b.type.dims)))
        if isinstance(b, ArrayOf) and kind_a:
            return self.plain(b, a)
        if isinstance(a, ArrayOf) and kind_b and a.type.dims == () and RANK[kind_b] <= CATEGORY.get(a.type.dtype, -1):
            return a
        if isinstance(a, (TupleOf, SequenceOf)) and isinstance(b, (TupleOf, SequenceOf)):
            return self.join_items(a, b)
        if isinstance(a, EntriesOf) and isinstance(b, EntriesOf) and a.keys == b.keys:
            return EntriesOf(a.keys, tuple(map(self.widen, a.values, b.values)))
        if isinstance(a, FunctionOf) and isinstance(b, FunctionOf) and same_code(a.function, b.function):
            defaults = tuple(map(self.widen, a.defaults, b.defaults))
            return FunctionOf(a.function, defaults, tuple(map(self.widen, a.keyword_defaults, b.keyword_defaults)))
        if self.pair is not None and isinstance(a, Same) and isinstance(b, Same):
            if isinstance(a.value, Reference) and isinstance(b.value, Reference):
                made = self.pair(a.value.object, b.value.object)
                return None if made is None else Same(Reference(made))
        return None

    def join_items(self, a: TupleOf | SequenceOf, b: TupleOf | SequenceOf) -> Template | None:
        if a.cls is not b.cls:
            return None
        if isinstance(a, TupleOf) and isinstance(b, TupleOf) and len(a.items) == len(b.items):
            return TupleOf(tuple(map(self.widen, a.items, b.items)), a.cls)
        item: Template | None = None
        for part in (a, b):
            for one in part.items if isinstance(part, TupleOf) else (part.item,):
                item = self.runtime(one) if item is None else self.widen(item, self.runtime(one))
        if item is None or not _storable(item):
            return None
        return SequenceOf(item, a.cls)

    def runtime(self, template: Template) -> Template:
        """Make numbers run-time ones, since items differ."""
        template = self.expand(template)
        kind = self.kind(template)
        if kind:
            return NumberOf(kind)
        if isinstance(template, TupleOf):
            return TupleOf(tuple(map(self.runtime, template.items)), template.cls)
        return template

    @staticmethod
    def kind(template: Template) -> str:
        if isinstance(template, NumberOf):
            return template.kind
        if isinstance(template, Same) and isinstance(template.value, Const):
            return number_kind(template.value.value)
        return ""


def _choices(template: Template) -> frozenset[int]:
    if isinstance(template, NumberOf):
        return template.choices or frozenset()
    assert isinstance(template, Same) and isinstance(template.value, Const)
    return frozenset([template.value.value])


def _alternatives(template: Template) -> int:
    return _alternatives(template.yes) + _alternatives(template.no) if isinstance(template, Either) else 1


def _storable(template: Template) -> bool:
    """Tell whether a sequence can have such items."""
    if isinstance(template, (NumberOf, ArrayOf)):
        return True
    if isinstance(template, TupleOf):
        return all(map(_storable, template.items))
    if isinstance(template, Either):
        return _storable(template.yes) and _storable(template.no)
    return isinstance(template, Same) and isinstance(template.value, Const)



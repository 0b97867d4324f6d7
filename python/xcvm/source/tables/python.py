"""Rows of Python itself: built-in functions, and methods of its types."""

from __future__ import annotations

from typing import Any

from ..core import FALSE, NONE, TRUE
from ..errors import NeedsConstant, PythonError, Undecided
from ..heap import DICT, ITEMS
from ..templates import same_value
from ..values import (
    Array,
    Choice,
    Const,
    Entries,
    Function,
    Iteration,
    LocalClass,
    Method,
    NativeMethod,
    Number,
    Partial,
    Reference,
    Sequence,
    Slice,
    Super,
    Text,
    Tuple,
    Value,
)
from . import CONTEXTS, PURE, STAND_INS, functions, methods
from .shared import is_none

M = Any

PURE.update(
    "builtins." + name
    for name in ["chr", "ord", "hex", "bin", "oct", "ascii", "format", "hash", "id", "frozenset", "complex", "bytes", "slice"]
)
CONTEXTS.update({"contextlib.nullcontext": "nothing", "contextlib.suppress": "nothing"})


@functions("builtins.len", "operator.length_hint")
def len_(m: M, value: Value) -> Value:
    return m.length(value)  # type: ignore[no-any-return]


@functions("builtins.print", "logging.info", "logging.debug", "logging.warning", "logging.error", "warnings.warn", "logging.log")
def print_(m: M, *values: Value, **options: Value) -> Value:
    from ..tables import FUNCTIONS

    assert FUNCTIONS
    label = " ".join(str(m.shown(value)) for value in values if isinstance(m.settle(value), (Const, Text)))
    shown = []
    for value in values:
        value = m.settle(value)
        if isinstance(value, Array):
            shown.append(m.read_array(value))
        elif isinstance(value, Number):
            shown.append(value.at)
    m.op("Print", *shown, count=0, label=label)
    return NONE


for _name in ("info", "debug", "warning", "error", "critical", "exception", "log"):

    def _ignored(m: M, *values: Value, **options: Value) -> Value:
        return NONE

    functions(f"logging.{_name}", f"logging.Logger.{_name}")(_ignored)
functions("warnings.warn")(_ignored)


@functions("builtins.range")
def range_(m: M, start: Value, stop: Value = NONE, step: Value = Const(1)) -> Value:
    if stop is NONE:
        start, stop = Const(0), start
    parts = [m.integer(part) for part in (start, stop, step)]
    if all(isinstance(part, Const) for part in parts):
        try:
            return Const(range(*[part.value for part in parts]))
        except ValueError as error:
            raise PythonError(error) from None
    start, stop, step = parts
    if isinstance(step, Const) and step.value == 1:
        length = m.binary("-", stop, start)
    elif isinstance(step, Const) and step.value > 0:
        length = m.binary("//", m.binary("-", m.binary("+", stop, Const(step.value - 1)), start), step)
    elif isinstance(step, Const) and step.value < 0:
        length = m.binary("//", m.binary("-", m.binary("+", start, Const(-step.value - 1)), stop), Const(-step.value))
    else:
        length = _range_length(m, start, stop, step)
    at = m.op("Max", m.number_value(length, "i64"), m.constant(0, "i64"))
    return m.range_iteration(start, step, m.number(at, "int"))  # type: ignore[no-any-return]


def _range_length(m: M, start: Value, stop: Value, step: Value) -> Value:
    """Return the rounds of a range whose step is a value of the run."""

    def fail() -> Value:
        raise PythonError(ValueError("range() arg 3 must not be zero"))

    rising = m.truth_of(m.compare(">", step, Const(0)))
    m.branch(m.truth_of(m.compare("==", step, Const(0))), fail, lambda: NONE)
    distance = m.branch(rising, lambda: m.binary("-", stop, start), lambda: m.binary("-", start, stop))
    # A step of zero raises; the size keeps the division defined.
    size = m.number(m.op("Max", m.op("Abs", m.number_value(step, "i64")), m.constant(1, "i64")), "int")
    return m.binary("//", m.binary("+", distance, m.binary("-", size, Const(1))), size)  # type: ignore[no-any-return]


@functions("builtins.enumerate")
def enumerate_(m: M, iterable: Value, start: Value = Const(0)) -> Value:
    inner = m.iterate(iterable)
    return m.iterator(  # type: ignore[no-any-return]
        Iteration(inner.length, lambda i: Tuple((m.binary("+", i, start), inner.item(i))), inner.unroll, inner.step)
    )


@functions("builtins.zip")
def zip_(m: M, *iterables: Value, strict: Value = FALSE) -> Value:
    inner = [m.iterate(iterable) for iterable in iterables]
    if not inner:
        return m.iterator(m.known_iteration(()))  # type: ignore[no-any-return]
    lengths = [one.length for one in inner if one.length is not None]
    length = lengths[0] if lengths else None
    for other in lengths[1:]:
        length = m.minimum(length, other)
    if m.constant_of(strict, "strict"):
        for other in lengths:
            same = m.compare("==", other, lengths[0])
            m.branch(m.truth_of(same), lambda: NONE, _lengths_differ)
    unroll = any(one.unroll for one in inner)

    def step() -> Value | None:
        least: Value | None = None
        for one in inner:
            now = one.step() if one.step is not None else one.length
            least = now if least is None or now is None else m.minimum(least, now)
        return least

    grows = step if any(one.step is not None for one in inner) else None
    return m.iterator(Iteration(length, lambda i: Tuple(tuple(one.item(i) for one in inner)), unroll, grows))  # type: ignore[no-any-return]


def _lengths_differ() -> Value:
    raise PythonError(ValueError("zip(): the arguments have different lengths"))


@functions("builtins.reversed")
def reversed_(m: M, value: Value) -> Value:
    inner = m.iterate(value)
    if inner.length is None:
        raise PythonError(TypeError("object is not reversible"))
    length = inner.length
    return m.iterator(  # type: ignore[no-any-return]
        Iteration(length, lambda i: inner.item(m.binary("-", m.binary("-", length, Const(1)), i)), inner.unroll)
    )


@functions("builtins.iter")
def iter_(m: M, value: Value) -> Value:
    return m.iterator(m.iterate(value))  # type: ignore[no-any-return]


@functions("builtins.next")
def next_(m: M, iterator: Value, *default: Value) -> Value:
    made = m.settle(iterator)
    if not isinstance(made, Iteration) or made.once is None:
        method = m.find_method(made, "__next__")
        if method is not None:
            return m.call(method, [], {})  # type: ignore[no-any-return]
        raise PythonError(TypeError(f"'{m.type_name(made)}' object is not an iterator"))

    def end() -> Value:
        if default:
            return default[0]
        raise PythonError(StopIteration())

    return m.next_item(made, end)  # type: ignore[no-any-return]


@functions("itertools.count")
def count(m: M, start: Value = Const(0), step: Value = Const(1)) -> Value:
    return m.iterator(Iteration(None, lambda i: m.binary("+", start, m.binary("*", i, step)), False))  # type: ignore[no-any-return]


@functions("builtins.slice")
def slice_(m: M, *bounds: Value) -> Value:
    known = [m.settle(bound) for bound in bounds]
    if not 1 <= len(known) <= 3:
        raise PythonError(TypeError(f"slice expected 1 to 3 arguments, got {len(known)}"))
    if all(isinstance(bound, Const) for bound in known):
        return Const(slice(*[bound.value for bound in known]))
    start, stop, step = [NONE, known[0], NONE] if len(known) == 1 else [*known, NONE][:3]
    return Slice(start, stop, step)


@functions("itertools.repeat")
def repeat(m: M, object: Value, times: Value = NONE) -> Value:
    if times is NONE:
        return m.iterator(Iteration(None, lambda i: object, False))  # type: ignore[no-any-return]
    return m.iterator_over(m.contents_of(m.binary("*", m.new_list([object]), m.integer(times))))  # type: ignore[no-any-return]


@functions("itertools.chain")
def chain(m: M, *iterables: Value) -> Value:
    contents: Value = Tuple((), list)
    for iterable in iterables:
        contents = m.concatenated(contents, m.contents_of(iterable))
    return m.iterator_over(contents)  # type: ignore[no-any-return]


@functions("itertools.product")
def product(m: M, *iterables: Value) -> Value:
    import itertools

    return m.iterator(m.known_iteration(tuple(Tuple(one) for one in itertools.product(*[m.items_of(i) for i in iterables]))))  # type: ignore[no-any-return]


for _name, _least in {"combinations": 1, "combinations_with_replacement": 1, "permutations": 0}.items():

    def _selections(m: M, iterable: Value, r: Value = NONE, _name: str = _name, _least: int = _least) -> Value:
        import itertools

        if _least and r is NONE:
            raise PythonError(TypeError(f"{_name}() missing required argument 'r' (pos 2)"))
        count = None if r is NONE else m.constant_of(r, "number of items")
        chosen = getattr(itertools, _name)(m.items_of(iterable), count)
        return m.iterator(m.known_iteration(tuple(Tuple(one) for one in chosen)))  # type: ignore[no-any-return]

    functions("itertools." + _name)(_selections)


@functions("itertools.islice")
def islice(m: M, iterable: Value, *bounds: Value) -> Value:
    limits = slice(*[m.constant_of(bound, "bound") for bound in bounds])
    whole = m.iterate(iterable)
    if whole.length is not None:
        return m.iterator(m.known_iteration(m.items_of(iterable)[limits]))  # type: ignore[no-any-return]
    if limits.stop is None:
        raise NeedsConstant("an iteration without end needs a stop here")
    chosen = range(limits.start or 0, limits.stop, limits.step or 1)
    return m.iterator(m.known_iteration(tuple(whole.item(Const(i)) for i in chosen)))  # type: ignore[no-any-return]


@functions("itertools.accumulate")
def accumulate(m: M, iterable: Value, func: Value = NONE, *, initial: Value = NONE) -> Value:
    items = list(m.items_of(iterable))
    if not is_none(initial):
        items.insert(0, initial)
    made: list[Value] = items[:1]
    for item in items[1:]:
        made.append(m.binary("+", made[-1], item) if is_none(func) else m.call(func, [made[-1], item], {}))
    return m.iterator(m.known_iteration(tuple(made)))  # type: ignore[no-any-return]


@functions("itertools.zip_longest")
def zip_longest(m: M, *iterables: Value, fillvalue: Value = NONE) -> Value:
    import itertools

    rows = itertools.zip_longest(*[m.items_of(one) for one in iterables], fillvalue=fillvalue)
    return m.iterator(m.known_iteration(tuple(Tuple(row) for row in rows)))  # type: ignore[no-any-return]


@functions("itertools.starmap")
def starmap(m: M, function: Value, iterable: Value) -> Value:
    made = tuple(m.call(function, list(m.items_of(row)), {}) for row in m.items_of(iterable))
    return m.iterator(m.known_iteration(made))  # type: ignore[no-any-return]


@functions("itertools.pairwise")
def pairwise(m: M, iterable: Value) -> Value:
    items = m.items_of(iterable)
    return m.iterator(m.known_iteration(tuple(Tuple(pair) for pair in zip(items, items[1:]))))  # type: ignore[no-any-return]


@functions("builtins.map")
def map_(m: M, function: Value, *iterables: Value) -> Value:
    inner = zip_(m, *iterables)
    assert isinstance(inner, Iteration)
    # The function is called when an item is asked for, as in Python.
    return m.iterator(  # type: ignore[no-any-return]
        Iteration(inner.length, lambda i: m.call(function, list(inner.item(i).items), {}), inner.unroll)  # type: ignore[attr-defined]
    )


@functions("builtins.filter")
def filter_(m: M, function: Value, iterable: Value) -> Value:
    test = (lambda v: v) if function is NONE or isinstance(function, Const) and function.value is None else (lambda v: m.call(function, [v], {}))
    with m.without_effects("a function that filters"):
        return m.iterator_over(m.filtered(iterable, test))  # type: ignore[no-any-return]


@functions("builtins.sum")
def sum_(m: M, iterable: Value, start: Value = Const(0)) -> Value:
    if isinstance(m.settle(iterable), Array):
        iterable = m.iterate(iterable)
    return m.fold(iterable, start, lambda total, item: m.binary("+", total, item))  # type: ignore[no-any-return]


@functions("builtins.any")
def any_(m: M, iterable: Value) -> Value:
    return m.first_with(iterable, True)  # type: ignore[no-any-return]


@functions("builtins.all")
def all_(m: M, iterable: Value) -> Value:
    return m.first_with(iterable, False)  # type: ignore[no-any-return]


def _extreme(m: M, symbol: str, values: tuple[Value, ...], options: dict[str, Value]) -> Value:
    key = options.get("key", NONE)
    of = (lambda v: v) if key is NONE else (lambda v: m.call(key, [v], {}))

    def better(best: Value, item: Value) -> Value:
        return m.branch(m.truth_of(m.compare(symbol, of(item), of(best))), lambda: item, lambda: best)  # type: ignore[no-any-return]

    if len(values) > 1:
        best = values[0]
        for item in values[1:]:
            best = better(best, item)
        return best
    contents = m.contents_of(values[0])
    if isinstance(contents, Tuple):
        if not contents.items:
            if "default" in options:
                return options["default"]
            raise PythonError(ValueError("max() arg is an empty sequence" if symbol == ">" else "min() arg is an empty sequence"))
        return _extreme(m, symbol, contents.items, options) if len(contents.items) > 1 else contents.items[0]
    empty = m.negation(m.truth_of(m.length(contents)))

    def none() -> Value:
        if "default" in options:
            return options["default"]
        raise PythonError(ValueError("max() arg is an empty sequence" if symbol == ">" else "min() arg is an empty sequence"))

    return m.branch(empty, none, lambda: m.fold(contents, m.item(contents, Const(0)), better))  # type: ignore[no-any-return]


@functions("builtins.max")
def max_(m: M, *values: Value, **options: Value) -> Value:
    return _extreme(m, ">", values, options)


@functions("builtins.min")
def min_(m: M, *values: Value, **options: Value) -> Value:
    return _extreme(m, "<", values, options)


@functions("builtins.sorted")
def sorted_(m: M, iterable: Value, *, key: Value = NONE, reverse: Value = FALSE) -> Value:
    reference = m.new_list(m.contents_of(iterable))
    sort(m, reference, key=key, reverse=reverse)
    return reference  # type: ignore[no-any-return]


@functions("builtins.abs")
def abs_(m: M, value: Value) -> Value:
    value = m.settle(value)
    if isinstance(value, Const):
        return m.call_live(abs, [value], {})  # type: ignore[no-any-return]
    if isinstance(value, Array):
        return m.array(m.op("Abs", m.read_array(value)), value.library)  # type: ignore[no-any-return]
    if isinstance(value, Choice):
        return m.each(value, lambda v: abs_(m, v))  # type: ignore[no-any-return]
    kind = m.kind_of(value)
    if kind:
        kind = "int" if kind == "bool" else kind
        return m.number(m.op("Abs", m.number_value(value, "i64" if kind == "int" else "f64")), kind)  # type: ignore[no-any-return]
    method = m.find_method(value, "__abs__")
    if method is None:
        raise PythonError(TypeError(f"bad operand type for abs(): '{m.type_name(value)}'"))
    return m.call(method, [], {})  # type: ignore[no-any-return]


@functions("builtins.int")
def int_(m: M, value: Value = Const(0), base: Value = Const(10)) -> Value:
    value = m.settle(value)
    if isinstance(value, Const):
        return m.call_live(int, [value, *([base] if isinstance(value.value, str) else [])], {})  # type: ignore[no-any-return, attr-defined, index]
    if isinstance(value, Choice):
        return m.each(value, lambda v: int_(m, v))  # type: ignore[no-any-return]
    if m.kind_of(value) == "float" or isinstance(value, Array):
        return m.whole_number(m.number_value(value))  # type: ignore[no-any-return]
    return m.number(m.number_value(value, "i64"), "int")  # type: ignore[no-any-return]


@functions("builtins.float")
def float_(m: M, value: Value = Const(0.0)) -> Value:
    value = m.settle(value)
    if isinstance(value, Const):
        return m.call_live(float, [value], {})  # type: ignore[no-any-return]
    if isinstance(value, Choice):
        return m.each(value, lambda v: float_(m, v))  # type: ignore[no-any-return]
    return m.number(m.number_value(value, "f64"), "float")  # type: ignore[no-any-return]


@functions("builtins.bool")
def bool_(m: M, value: Value = FALSE) -> Value:
    return m.number(m.truth_of(value), "bool")  # type: ignore[no-any-return]


@functions("builtins.str", "builtins.repr")
def str_(m: M, value: Value = Const("")) -> Value:
    return m.text(str(m.shown(value)), m.shows_run(value))  # type: ignore[no-any-return]


@functions("builtins.round")
def round_(m: M, value: Value, digits: Value = NONE) -> Value:
    value = m.settle(value)
    if isinstance(value, Const):
        return m.call_live(round, [value, *([] if digits is NONE else [digits])], {})  # type: ignore[no-any-return]
    if isinstance(value, Array):
        return m.array(m.op("Round", m.read_array(value)), value.library)  # type: ignore[no-any-return]
    if digits is not NONE and not (isinstance(digits, Const) and digits.value is None):
        m.refuse("round() of a run-time number to digits is not supported")
    if m.kind_of(value) == "float":
        return m.whole_number(m.number_value(value, "f64"), "Round")  # type: ignore[no-any-return]
    return m.number(m.number_value(value, "i64"), "int")  # type: ignore[no-any-return]


@functions("builtins.divmod")
def divmod_(m: M, a: Value, b: Value) -> Value:
    return Tuple((m.binary("//", a, b), m.binary("%", a, b)))


@functions("builtins.pow", "operator.pow")
def pow_(m: M, a: Value, b: Value) -> Value:
    return m.binary("**", a, b)  # type: ignore[no-any-return]


@functions("math.pow")
def math_pow(m: M, a: Value, b: Value) -> Value:
    a, b = m.settle(a), m.settle(b)
    if isinstance(a, Const) and isinstance(b, Const):
        import math

        return m.call_live(math.pow, [a, b], {})  # type: ignore[no-any-return]
    return m.float_power(float_(m, a), float_(m, b))  # type: ignore[no-any-return]


for _symbol, _names in {
    "+": ["add", "iadd", "concat"], "-": ["sub"], "*": ["mul"], "/": ["truediv"], "//": ["floordiv"], "%": ["mod"], "@": ["matmul"],
}.items():  # fmt: skip

    def _operator(m: M, a: Value, b: Value, _symbol: str = _symbol) -> Value:
        return m.binary(_symbol, a, b)  # type: ignore[no-any-return]

    functions(*["operator." + name for name in _names])(_operator)


@functions("builtins.list")
def list_(m: M, iterable: Value = Tuple(())) -> Value:
    return m.new_list(m.contents_of(iterable))  # type: ignore[no-any-return]


@functions("builtins.tuple")
def tuple_(m: M, iterable: Value = Tuple(())) -> Value:
    return m.as_tuple(m.contents_of(iterable))  # type: ignore[no-any-return]


@functions("builtins.set")
def set_(m: M, iterable: Value = Tuple(())) -> Value:
    iterable = m.settle(iterable)
    if isinstance(iterable, Choice):
        return m.each(iterable, lambda one: set_(m, one))  # type: ignore[no-any-return]
    keys = dict.fromkeys(m.key_of(item) for item in m.items_of(iterable))
    return m.new_dict(tuple(keys), (NONE,) * len(keys), set)  # type: ignore[no-any-return]


@functions("builtins.dict", "collections.OrderedDict")
def dict_(m: M, source: Value = NONE, **items: Value) -> Value:
    made: dict[Any, Value] = {}
    source = m.settle(source)
    if isinstance(source, Choice):
        return m.each(source, lambda one: dict_(m, one, **items))  # type: ignore[no-any-return]
    if isinstance(source, Reference) and source.object.cls is dict:
        entries = m.entries(source)
        made.update(zip(entries.keys, entries.values))
    elif not (isinstance(source, Const) and source.value is None):
        for pair in m.items_of(source):
            key, value = m.items_of(pair)
            made[m.key_of(key)] = value
    made.update(items)
    return m.new_dict(tuple(made), tuple(made.values()))  # type: ignore[no-any-return]


@functions("collections.namedtuple")
def namedtuple(m: M, typename: Value, field_names: Value, *, defaults: Value = NONE) -> Value:
    import collections

    names = [m.constant_of(name, "name of a field") for name in m.items_of(field_names)] if m.is_list(field_names) or isinstance(field_names, Tuple) else m.constant_of(field_names)
    given = None if is_none(defaults) else [m.plain_constant(one) for one in m.items_of(defaults)]
    return Const(collections.namedtuple(m.constant_of(typename, "name"), names, defaults=given))  # noqa: PYI024


@methods("tuple", "_replace")
def replace_fields(m: M, owner: Tuple, **fields: Value) -> Value:
    names: tuple[str, ...] = getattr(owner.cls, "_fields")  # noqa: B009 (the class is one that namedtuple made)
    unknown = [name for name in fields if name not in names]
    if unknown:
        raise PythonError(ValueError(f"Got unexpected field names: {unknown!r}"))
    return Tuple(tuple(fields.get(name, item) for name, item in zip(names, owner.items)), owner.cls)


@methods("tuple", "_asdict")
def fields_as_dict(m: M, owner: Tuple) -> Value:
    return m.new_dict(getattr(owner.cls, "_fields"), owner.items)  # type: ignore[no-any-return] # noqa: B009


@functions("builtins.isinstance")
def isinstance_(m: M, value: Value, classes: Value) -> Value:
    value = m.settle(value)
    if isinstance(value, Choice):
        return m.each(value, lambda v: isinstance_(m, v, classes))  # type: ignore[no-any-return]
    wanted = m.settle(classes)
    several = wanted.items if isinstance(wanted, Tuple) else (wanted,)
    return Const(any(_is_instance(m, value, one) for one in several))


def _is_instance(m: M, value: Value, wanted: Value) -> bool:
    if isinstance(wanted, Tuple):
        return any(_is_instance(m, value, one) for one in wanted.items)
    if isinstance(value, Text):
        value = Const(value.text)
    if isinstance(wanted, LocalClass):
        return isinstance(value, Reference) and _derives(value.object.cls, wanted)
    cls: Any = wanted.value if isinstance(wanted, Const) else object
    if not isinstance(cls, type):
        origins = getattr(cls, "__args__", ())
        return any(_is_instance(m, value, Const(one)) for one in origins)
    if isinstance(value, Const):
        return isinstance(value.value, cls)
    if isinstance(value, Number):
        return issubclass({"int": int, "float": float, "bool": bool}[value.kind], cls)
    if isinstance(value, Array):
        return cls is object or cls.__name__ in {
            "torch": ("Tensor",), "numpy": ("ndarray",), "chainer": ("Variable",),
        }[value.library] and m.tables is not None  # fmt: skip
    if isinstance(value, Tuple):
        return issubclass(value.cls, cls)
    if isinstance(value, Sequence):
        return issubclass(value.cls, cls)
    if isinstance(value, Reference):
        own = STAND_INS.get(value.object.cls, value.object.cls)
        return cls is object or (issubclass(own, cls) if isinstance(own, type) else _derives(own, cls))
    if isinstance(value, (Function, Method, NativeMethod, Partial)):
        return cls.__name__ in ("function", "Callable", "object")
    return cls is object


def _derives(cls: Any, wanted: Any) -> bool:
    if cls is wanted:
        return True
    if isinstance(cls, LocalClass):
        return any(_derives(base.value if isinstance(base, Const) else base, wanted) for base in cls.bases)
    return isinstance(cls, type) and isinstance(wanted, type) and issubclass(cls, wanted)


@functions("builtins.issubclass")
def issubclass_(m: M, cls: Value, classes: Value) -> Value:
    wanted = classes.items if isinstance(classes, Tuple) else (classes,)
    mine = cls.value if isinstance(cls, Const) else cls
    return Const(any(_derives(mine, one.value if isinstance(one, Const) else one) for one in wanted))


@functions("builtins.type")
def type_(m: M, value: Value) -> Value:
    value = m.settle(value)
    if isinstance(value, Choice):
        return m.each(value, lambda v: type_(m, v))  # type: ignore[no-any-return]
    if isinstance(value, Number):
        return Const({"int": int, "float": float, "bool": bool}[value.kind])
    if isinstance(value, (Tuple, Sequence)):
        return Const(value.cls)
    if isinstance(value, Reference):
        return value.object.cls if isinstance(value.object.cls, LocalClass) else Const(STAND_INS.get(value.object.cls, value.object.cls))
    if isinstance(value, Const):
        return Const(type(value.value))
    if isinstance(value, Array):
        import sys

        return Const(sys.modules["torch"].Tensor if value.library == "torch" else sys.modules["numpy"].ndarray)
    m.refuse(f"the type of {m.describe(value)} is not known")
    return NONE


@functions("builtins.callable")
def callable_(m: M, value: Value) -> Value:
    value = m.settle(value)
    if isinstance(value, Reference):
        return Const(m.find_method(value, "__call__") is not None)
    return Const(callable(value.value) if isinstance(value, Const) else isinstance(value, (Function, Method, NativeMethod, Partial, LocalClass)))


def _missing(m: M, written: Value) -> bool:
    return written is None


@functions("builtins.hasattr")
def hasattr_(m: M, value: Value, name: Value) -> Value:
    value = m.settle(value)
    if isinstance(value, Choice):
        return m.each(value, lambda v: hasattr_(m, v, name))  # type: ignore[no-any-return]
    key = m.constant_of(name, "name")
    if isinstance(value, Reference):
        written = m.settle(m.heap.read(value.object, key) or NONE)
        if isinstance(written, Choice) and (m.is_undefined(written.yes) or m.is_undefined(written.no)):
            at = written.condition if m.is_undefined(written.no) else m.negation(written.condition)
            return m.number(at, "bool")  # type: ignore[no-any-return]
    try:
        return Const(m.find_attribute(value, key) is not None)
    except PythonError as error:
        if isinstance(error.error, AttributeError):
            return FALSE
        raise


@functions("builtins.getattr")
def getattr_(m: M, value: Value, name: Value, *default: Value) -> Value:
    key = m.constant_of(name, "name")
    if not default:
        return m.attribute(value, key)  # type: ignore[no-any-return]
    has = m.truth_of(hasattr_(m, value, name))
    return m.branch(has, lambda: m.attribute(value, key), lambda: default[0])  # type: ignore[no-any-return]


@functions("builtins.setattr")
def setattr_(m: M, value: Value, name: Value, new: Value) -> Value:
    m.set_attribute(value, m.constant_of(name, "name"), new)
    return NONE


@functions("builtins.super")
def super_(m: M, cls: Value, owner: Value) -> Value:
    return Super(cls.value if isinstance(cls, Const) else cls, owner)


@functions("functools.partial")
def partial(m: M, function: Value, *arguments: Value, **keywords: Value) -> Value:
    return Partial(function, arguments, keywords)


@functions("functools.wraps")
def wraps(m: M, wrapped: Value, **options: Value) -> Value:
    return Const(_same)


def _same(function: Any) -> Any:
    return function


@functions("xcvm.source.tables.python._same")
def _same_row(m: M, function: Value) -> Value:
    return function


@functions("functools.reduce")
def reduce_(m: M, function: Value, iterable: Value, *start: Value) -> Value:
    items = list(m.items_of(iterable)) if not start else []
    if start:
        return m.fold(iterable, start[0], lambda total, item: m.call(function, [total, item], {}))  # type: ignore[no-any-return]
    if not items:
        raise PythonError(TypeError("reduce() of empty iterable with no initial value"))
    total = items[0]
    for item in items[1:]:
        total = m.call(function, [total, item], {})
    return total


@functions("copy.copy", "copy.deepcopy")
def copy_(m: M, value: Value) -> Value:
    value = m.settle(value)
    if isinstance(value, Choice):
        return m.each(value, lambda one: copy_(m, one))  # type: ignore[no-any-return]
    if isinstance(value, Reference) and value.object.cls is list:
        return m.new_list(m.contents(value))  # type: ignore[no-any-return]
    if isinstance(value, Reference) and value.object.cls in (dict, set):
        entries = m.entries(value)
        return m.new_dict(entries.keys, entries.values, value.object.cls)  # type: ignore[no-any-return]
    if isinstance(value, Array):
        return m.array(m.read_array(value), value.library)  # type: ignore[no-any-return]
    if isinstance(value, Reference):
        m.refuse("copies of instances are not supported")
    return value


# ---- math ----

for _name, _op in {
    "exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos", "tan": "Tan", "tanh": "Tanh", "sqrt": "Sqrt", "sinh": "Sinh", "cosh": "Cosh",
    "asin": "Asin", "acos": "Acos", "atan": "Atan", "erf": "Erf", "fabs": "Abs",
}.items():  # fmt: skip

    def _math(m: M, value: Value, *more: Value, _name: str = _name, _op: str = _op) -> Value:
        import math

        value = m.settle(value)
        if isinstance(value, Const):
            return m.call_live(getattr(math, _name), [value, *more], {})  # type: ignore[no-any-return]
        at = m.number_value(value, "f64")
        if _name == "log" and more:
            return m.binary("/", _math(m, value, _name=_name, _op=_op), _math(m, more[0], _name=_name, _op=_op))  # type: ignore[no-any-return]
        if more:
            raise PythonError(TypeError(f"{_name}() takes exactly one argument"))
        result = m.op(_op, at)
        made = lambda: m.number(result, "float")  # noqa: E731
        if _name in ("sqrt", "log", "asin", "acos", "sin", "cos", "tan"):
            # NaN from a number that is not NaN, and -inf from log(0).
            wrong = m.op("And", m.negation(m.op("Equal", result, result)), m.op("Equal", at, at))
            if _name == "log":
                wrong = m.op("Or", wrong, m.op("Equal", at, m.constant(0.0, "f64")))
            return m.branch(wrong, _domain_error, made)  # type: ignore[no-any-return]
        if _name in ("exp", "sinh", "cosh"):
            infinite = m.constant(float("inf"), "f64")
            wrong = m.op("Less", m.op("Abs", at), infinite)
            wrong = m.op("And", wrong, m.op("Equal", m.op("Abs", result), infinite))
            return m.branch(wrong, _range_error, made)  # type: ignore[no-any-return]
        return made()

    functions("math." + _name)(_math)


def _domain_error() -> Value:
    raise PythonError(ValueError("math domain error"))


def _range_error() -> Value:
    raise PythonError(OverflowError("math range error"))


for _name, _op in {"ceil": "Ceil", "floor": "Floor", "trunc": ""}.items():

    def _whole(m: M, value: Value, _name: str = _name, _op: str = _op) -> Value:
        import math

        value = m.settle(value)
        if isinstance(value, Const):
            return m.call_live(getattr(math, _name), [value], {})  # type: ignore[no-any-return]
        if m.kind_of(value) in ("int", "bool"):
            return m.number(m.number_value(value, "i64"), "int")  # type: ignore[no-any-return]
        return m.whole_number(m.number_value(value, "f64"), _op)  # type: ignore[no-any-return]

    functions("math." + _name)(_whole)


# ---- Methods of lists ----


@methods("list", "append")
def append(m: M, owner: Reference, item: Value) -> Value:
    m.heap.write(owner.object, ITEMS, m.appended(m.contents(owner), item))
    return NONE


@methods("list", "extend")
def extend(m: M, owner: Reference, iterable: Value) -> Value:
    m.heap.write(owner.object, ITEMS, m.concatenated(m.contents(owner), m.contents_of(iterable)))
    return NONE


@methods("list", "insert")
def insert(m: M, owner: Reference, index: Value, item: Value) -> Value:
    contents = m.contents(owner)
    if isinstance(contents, Tuple) and isinstance(index, Const):
        items = list(contents.items)
        items.insert(index.value, item)
        m.heap.write(owner.object, ITEMS, Tuple(tuple(items), list))
        return NONE
    head = m.list_slice(contents, Slice(NONE, index, NONE), False)
    tail = m.list_slice(contents, Slice(index, NONE, NONE), False)
    m.heap.write(owner.object, ITEMS, m.concatenated(m.appended(_as_list(head), item), _as_list(tail)))
    return NONE


def _as_list(contents: Value) -> Value:
    if isinstance(contents, Tuple):
        return Tuple(contents.items, list)
    assert isinstance(contents, Sequence)
    return Sequence(contents.parts, contents.item)


@methods("list", "pop")
def pop(m: M, owner: Reference, index: Value = Const(-1)) -> Value:
    contents = m.contents(owner)
    if isinstance(contents, Tuple) and isinstance(index, Const):
        items = list(contents.items)
        try:
            item = items.pop(index.value)
        except IndexError as error:
            raise PythonError(error) from None
        m.heap.write(owner.object, ITEMS, Tuple(tuple(items), list))
        return item  # type: ignore[no-any-return]
    sequence = m.as_sequence(contents)
    at = m.number_value(index, "i64")
    inside = m.in_range(at, m.op("SequenceLength", sequence.parts[0]))

    def taken() -> Value:
        item = m.sequence_item(sequence, at)
        parts = tuple(m.op("SequenceErase", part, at) for part in sequence.parts)
        m.heap.write(owner.object, ITEMS, Sequence(parts, sequence.item))
        return item  # type: ignore[no-any-return]

    return m.branch(inside, taken, m._index_error)  # type: ignore[no-any-return]


@methods("list", "clear")
def clear(m: M, owner: Reference) -> Value:
    m.heap.write(owner.object, ITEMS, Tuple((), list))
    return NONE


@methods("list", "copy")
def copy_list(m: M, owner: Reference) -> Value:
    return m.new_list(m.contents(owner))  # type: ignore[no-any-return]


@methods("list", "reverse")
def reverse(m: M, owner: Reference) -> Value:
    contents = m.contents(owner)
    if isinstance(contents, Tuple):
        m.heap.write(owner.object, ITEMS, Tuple(contents.items[::-1], list))
    else:
        m.heap.write(owner.object, ITEMS, m.contents_of(reversed_(m, m.new_list(contents))))
    return NONE


@methods("list", "index")
def index_(m: M, owner: Value, item: Value) -> Value:
    items = m.contents_of(owner)
    if not isinstance(items, Tuple):
        raise NeedsConstant("index() needs a list of known length")
    result = lambda: (_ for _ in ()).throw(PythonError(ValueError("value is not in list")))  # noqa: E731
    for position in reversed(range(len(items.items))):
        test = m.truth_of(m.compare("==", items.items[position], item))
        result = lambda t=test, p=position, r=result: m.branch(t, lambda: Const(p), r)  # type: ignore[misc] # noqa: E731
    return result()  # type: ignore[return-value]


@methods("list", "count")
def count_(m: M, owner: Value, item: Value) -> Value:
    return m.fold(owner, Const(0), lambda total, one: m.binary("+", total, int_(m, m.compare("==", one, item))))  # type: ignore[no-any-return]


methods("tuple", "index")(index_)
methods("tuple", "count")(count_)


@methods("list", "remove")
def remove(m: M, owner: Reference, item: Value) -> Value:
    position = index_(m, owner, item)
    pop(m, owner, position)
    return NONE


@methods("list", "sort")
def sort(m: M, owner: Reference, *, key: Value = NONE, reverse: Value = FALSE) -> Value:
    contents = m.contents(owner)
    plain = isinstance(key, Const) and key.value is None
    of = (lambda v: v) if plain else (lambda v: m.call(key, [v], {}))
    backwards = m.constant_of(reverse, "order")
    keys: Value = contents
    if isinstance(contents, Tuple):
        keys = Tuple(tuple(of(item) for item in contents.items), list)
        known = _known_keys(m, keys.items)
        if known is not None:
            order = sorted(range(len(known)), key=known.__getitem__, reverse=backwards)
            m.heap.write(owner.object, ITEMS, Tuple(tuple(contents.items[i] for i in order), list))
            return NONE
    elif not plain:
        keys = m.contents_of(Iteration(m.length(contents), lambda i: of(m.sequence_item(contents, m.number_value(i, "i64"))), False))
    m.heap.write(owner.object, ITEMS, _ordered(m, contents, keys, backwards))
    return NONE


def _known_keys(m: M, keys: tuple[Value, ...]) -> list[Any] | None:
    """Return keys whose order is known when the program is compiled: constants, or tuples that differ in constants before anything else."""
    if len(keys) <= 1:
        return [0] * len(keys)
    keys = tuple(m.settle(key) for key in keys)
    if all(isinstance(k, Const) or isinstance(k, Tuple) and all(isinstance(i, Const) for i in k.items) for k in keys):
        return [m.constant_of(k) for k in keys]
    for count in range(1, min(len(k.items) if isinstance(k, Tuple) else 0 for k in keys) + 1):
        heads = [k.items[:count] for k in keys]  # type: ignore[attr-defined]
        if not all(isinstance(item, Const) for head in heads for item in head):
            return None
        values = [tuple(m.constant_of(item) for item in head) for head in heads]
        if len(set(values)) == len(values):
            return values
    return None


def _ordered(m: M, contents: Value, keys: Value, backwards: bool) -> Value:
    """Return items in the order of keys that are numbers of the run. Equal ones stay in order."""
    sequence, by = m.as_sequence(contents), m.as_sequence(keys)
    if type(by.item).__name__ != "NumberOf" and getattr(getattr(by.item, "type", None), "dims", None) != ():
        m.refuse("only numbers can be sorted at run time")
    at = m.stack_sequence(by.parts[0], 0)
    at = m.cast(at, "i64") if at.type.dtype == "bool" else at
    order = m.op("TopK", at, m.op("Shape", at), count=2, largest=int(backwards), axis=0)[1]

    def item(index: Value) -> Value:
        position = m.op("Gather", order, m.number_value(index, "i64"), axis=0)
        return m.sequence_item(sequence, position)  # type: ignore[no-any-return]

    if isinstance(contents, Tuple):
        return Tuple(tuple(item(Const(i)) for i in range(len(contents.items))), list)
    return m.contents_of(Iteration(m.length(contents), item, False))  # type: ignore[no-any-return]


# ---- Methods of dicts and sets ----


def _dict_view(m: M, owner: Reference, item: Any) -> Value:
    """Return a view of a dict. It shows what the dict has when it is used."""

    def renew() -> Iteration:
        made: Iteration = m.entries_iteration(owner, lambda: tuple(item(key) for key in m.entries(owner).keys))
        if isinstance(made.length, Const) and made.unroll:
            keys = m.entries(owner).keys
            made.item = lambda index: item(keys[m.constant_of(index)])
        made.renew = renew
        return made

    return renew()


@methods("dict", "keys")
def keys_(m: M, owner: Reference) -> Value:
    return _dict_view(m, owner, m.key_value)


@methods("dict", "values")
def values_(m: M, owner: Reference) -> Value:
    return _dict_view(m, owner, lambda key: _entry(m, owner, key))


@methods("dict", "items")
def items_(m: M, owner: Reference) -> Value:
    return _dict_view(m, owner, lambda key: Tuple((m.key_value(key), _entry(m, owner, key))))


def _entry(m: M, owner: Reference, key: Any) -> Value:
    entries = m.entries(owner)
    if key not in entries.keys:
        raise PythonError(RuntimeError("dictionary changed size during iteration"))
    return entries.values[entries.keys.index(key)]  # type: ignore[no-any-return]


@methods("dict", "get")
def get(m: M, owner: Reference, key: Value, default: Value = NONE) -> Value:
    m.entries(owner)
    has = m.truth_of(m.contains(key, owner))
    return m.branch(has, lambda: m.dict_item(owner, key), lambda: default)  # type: ignore[no-any-return]


@methods("dict", "pop")
def pop_dict(m: M, owner: Reference, key: Value, *default: Value) -> Value:
    name = m.key_of(key)
    entries = m.entries(owner)
    made = dict(zip(entries.keys, entries.values))
    if name not in made:
        if default:
            return default[0]
        raise PythonError(KeyError(name))
    value = made.pop(name)
    m.heap.write(owner.object, DICT, Entries(tuple(made), tuple(made.values())))
    return value


@methods("dict", "setdefault")
def setdefault(m: M, owner: Reference, key: Value, default: Value = NONE) -> Value:
    entries = m.entries(owner)
    if m.key_of(key) not in entries.keys:
        m.set_item(owner, key, default)
    return m.dict_item(owner, key)  # type: ignore[no-any-return]


@methods("dict", "update")
def update(m: M, owner: Reference, source: Value = NONE, **items: Value) -> Value:
    more = m.entries(dict_(m, source, **items))
    for key, value in zip(more.keys, more.values):
        m.set_item(owner, m.key_value(key), value)
    return NONE


@methods("dict", "copy")
def copy_dict(m: M, owner: Reference) -> Value:
    return copy_(m, owner)


@methods("dict", "clear")
def clear_dict(m: M, owner: Reference) -> Value:
    m.heap.write(owner.object, DICT, Entries((), ()))
    return NONE


@methods("set", "add")
def add(m: M, owner: Reference, item: Value) -> Value:
    keys = dict.fromkeys([*m.entries(owner).keys, m.key_of(item)])
    m.heap.write(owner.object, DICT, Entries(tuple(keys), (NONE,) * len(keys)))
    return NONE


@methods("set", "discard", "remove")
def discard(m: M, owner: Reference, item: Value) -> Value:
    keys = [key for key in m.entries(owner).keys if key != m.key_of(item)]
    m.heap.write(owner.object, DICT, Entries(tuple(keys), (NONE,) * len(keys)))
    return NONE


@methods("str", "join")
def join(m: M, owner: Const, iterable: Value) -> Value:
    items = m.items_of(iterable)
    for item in items:
        item = m.settle(item)
        if not isinstance(item, Text) and not (isinstance(item, Const) and isinstance(item.value, str)):
            raise PythonError(TypeError(f"sequence item: expected str instance, {m.type_name(item)} found"))
    return m.text(owner.value.join(str(m.shown(item)) for item in items), m.shows_run(*items))  # type: ignore[no-any-return]


@methods("str", "format")
def format_(m: M, owner: Const, *values: Value, **named: Value) -> Value:
    try:
        text = owner.value.format(*map(m.shown, values), **{k: m.shown(v) for k, v in named.items()})
        return m.text(text, m.shows_run(*values, *named.values()))  # type: ignore[no-any-return]
    except (ValueError, KeyError, IndexError) as error:
        raise PythonError(error) from None


@methods("float", "is_integer")
def is_integer(m: M, owner: Value) -> Value:
    at = m.number_value(owner, "f64")
    return m.number(m.op("Equal", at, m.op("Floor", at)), "bool")  # type: ignore[no-any-return]


def host_call(m: M, function: Any, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """Call a function of the host at run time. Its results have the types that the mark states."""
    if keywords:
        m.refuse("a host function accepts positional arguments only")
    from .. import emit

    results = function.__xcvm_host__
    name = f"{function.__module__}.{function.__qualname__}"
    m.host_functions[name] = function
    operands = [m.tensor(argument) for argument in arguments]
    dtypes = [emit.HOST_CODES[dtype] for dtype, _ in results]
    made = m.op("HostCall", *operands, count=len(results), function=name, dtypes=dtypes, ranks=[rank for _, rank in results])
    values = tuple(m.array(at) for at in ((made,) if len(results) == 1 else made))
    return values[0] if len(values) == 1 else Tuple(values)


__all__ = ["host_call", "same_value"]

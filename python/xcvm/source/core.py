"""The state of an interpretation: graph, heap, facts, errors; and the access to numbers, arrays and objects."""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Sequence as Items
from contextlib import contextmanager
from collections.abc import Iterator
from typing import Any, NoReturn, TypeVar

from . import emit
from .errors import NeedsConstant, Place, Problem, PythonError, Refusal, Undecided
from .graph import Graph, GraphValue, Type
from .heap import DATA, DICT, ITEMS, KIND, Heap
from .read import place_of
from .templates import CATEGORY, number_kind
from .values import (
    NUMBER_DTYPES,
    UNDEFINED,
    Array,
    Choice,
    Const,
    Elements,
    Entries,
    Function,
    Number,
    Object,
    Poison,
    Reference,
    Scope,
    Sequence,
    Storage,
    Tuple,
    Value,
    View,
)

NORMAL, BREAK, CONTINUE, RETURN, RAISE = 0, 1, 2, 3, 4

NONE = Const(None)
TRUE = Const(True)
FALSE = Const(False)

M = TypeVar("M", bound=Callable[..., Any])

_RANDOM = frozenset(["RandomNormal", "RandomUniform", "Bernoulli", "Multinomial", "Dropout", "Print", "HostCall"])


class Options:
    """Limits of the interpretation."""

    def __init__(self, unroll: int = 8, most_rounds: int = 20000, depth: int = 150) -> None:
        # Loops over a constant range of at most this many rounds are unrolled.
        self.unroll = unroll
        self.plain_unroll = unroll
        self.most_rounds = most_rounds
        self.depth = depth


def narrowing(method: M) -> M:
    """Run a method once for each of the contents that a list or dict may have, in branches.

    The method must have no effects before it reads the contents.
    """

    @functools.wraps(method)
    def run(self: Any, *arguments: Any) -> Any:
        try:
            return method(self, *arguments)
        except Undecided as found:
            owner, key, choice = found.owner, found.key, found.choice

        def side(contents: Value) -> Callable[[], Value]:
            def go() -> Value:
                self.heap.write(owner, key, contents)
                made = run(self, *arguments)
                return NONE if made is None else made

            return go

        return self.branch(choice.condition, side(choice.yes), side(choice.no))

    return run  # type: ignore[return-value]


def known_sizes(sizes: GraphValue) -> list[int | None]:
    """Return those numbers of a vector that are known, also if others are values of the run."""
    if sizes.array is not None:
        return [int(size) for size in sizes.array]
    node = sizes.node
    if node is not None and node.op == "Concat":
        return [size for part in node.inputs for size in known_sizes(part)]  # type: ignore[arg-type]
    if node is not None and node.op == "Shape" and node.inputs[0].type.dims is not None:  # type: ignore[union-attr]
        dims = node.inputs[0].type.dims  # type: ignore[union-attr]
        found = dims[node.attributes.get("start", 0) : node.attributes.get("end", len(dims))]  # type: ignore[index, arg-type]
        return [size if isinstance(size, int) else None for size in found]
    count = sizes.type.dims[0] if sizes.type.dims else None
    return [None] * count if isinstance(count, int) else []


def refined(type: Type, sizes: list[int | None], op: str) -> Type:
    """Return the type of a reshaped or expanded array, with the sizes that are known beside those of the run."""
    if type.dims is None or len(type.dims) != len(sizes):
        return type
    # A size of 0 may copy the dimension, and one of 1 keeps it.
    least = 1 if op == "Reshape" else 2
    dims = [size if not isinstance(dim, int) and size is not None and size >= least else dim for dim, size in zip(type.dims, sizes)]
    return Type(type.dtype, tuple(dims))


class Core:
    """Base of the interpreter."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.graph = Graph()
        self.root = self.graph
        self.heap = Heap()
        self.facts: dict[int, bool] = {}
        self.problems: list[Problem] = []
        self.calls: list[tuple[str, Place]] = []
        # How many calls led to a library function that is written in Python (tables.written), or None outside of them.
        self.written_from: int | None = None
        self.node: ast.AST | None = None
        self.scope: Scope = Scope(None, frozenset(), None, {}, {}, "", None)
        self.frame: Object = Object(0, "frame")
        # Objects, storages and constants by the identity of the live object; the object is kept alive.
        self.live_objects: dict[int, tuple[Any, Object]] = {}
        self.live_storages: dict[int, tuple[Any, Storage]] = {}
        self.constants: dict[Any, GraphValue] = {}
        # Exceptions that the program can raise; codes start at RAISE.
        self.exceptions: list[BaseException] = []
        # Generators of Python's random numbers that were drawn from, with their states before.
        self.generators: dict[int, tuple[Any, Any]] = {}
        # Try statements with handlers around the current statement.
        self.trying = 0
        # Where they are first raised, by index: place and calls.
        self.raised_at: dict[int, tuple[Place, tuple[tuple[str, Place], ...]]] = {}
        # What was reported in an earlier interpretation of a loop.
        self.dropped: list[Problem] = []
        # Storages whose elements sequences have.
        self.captures: list[Storage] = []
        # Cells of live objects whose values were read before the program wrote to them.
        self.live_reads: dict[tuple[Object, Any], Value] = {}
        self.read_at: dict[tuple[Object, Any], tuple[Place, tuple[tuple[str, Place], ...]]] = {}
        # Storages of NumPy arrays of rank 0 that are no scalars, so that they can be changed in place.
        self.boxes: set[Storage] = set()
        self.library = "numpy"
        self.parameter_names: dict[int, str] = {}
        self.attempts = 0

    def settle(self, value: Value) -> Value:
        """Resolve choices that are decided here."""
        while isinstance(value, Choice):
            known = self.truth(value.condition)
            if known is None:
                return value
            value = value.yes if known else value.no
        return value

    # ---- Errors ----

    def place(self) -> Place:
        return place_of(self.node, self.scope.file) if self.node is not None else Place("", 0, 0, 0, 0, "")

    def spot(self) -> tuple[Place, tuple[tuple[str, Place], ...]]:
        """Return the place of the current node in the user's source, and the calls that led there."""
        if self.written_from is None:
            return self.place(), tuple(self.calls)
        return self.calls[self.written_from][1], tuple(self.calls[: self.written_from])

    def report(self, refusal: Refusal) -> None:
        """Note a problem at the current node, once."""
        place, calls = self.spot()
        if not refusal.reason:
            # It was reported before, maybe in an earlier interpretation of a loop, of which the problems were dropped.
            if not self.problems:
                self.problems += self.dropped or [Problem(place, "a value that cannot be compiled is used", "", calls)]
            return
        problem = Problem(place, refusal.reason, refusal.hint, calls)
        if problem not in self.problems:
            self.problems.append(problem)

    def refuse(self, reason: str, hint: str = "") -> NoReturn:
        raise Refusal(reason, hint)

    def live_read(self, owner: Object, key: Any, value: Value) -> Value:
        """Note that the program depends on what a live object has before the call."""
        if (owner, key) not in self.live_reads:
            self.live_reads[(owner, key)] = value
            self.read_at[(owner, key)] = self.spot()
        return value

    # ---- Graph values ----

    def constant(self, array: Any, dtype: str | None = None) -> GraphValue:
        """Return the graph value of a NumPy array, a number, or a list of numbers."""
        import numpy

        made = numpy.asarray(array, dtype=None if dtype is None else emit.numpy_dtype(dtype))
        key = (made.dtype.str, made.shape, made.tobytes()) if made.nbytes <= 1024 else None
        if key is not None and key in self.constants:
            return self.constants[key]
        value = GraphValue(Type(emit.dtype_of(made.dtype), tuple(made.shape)), None, array=made)
        if key is not None:
            self.constants[key] = value
        return value

    def ints(self, numbers: Items[int]) -> GraphValue:
        return self.constant(list(numbers), "i64")

    def op(self, name: str, *inputs: GraphValue | None, count: int = 1, **attributes: Any) -> Any:
        """Record an instruction; equal ones in sight are recorded once. Returns its result, or a tuple of `count`."""
        operands = list(inputs)
        while operands and operands[-1] is None:
            operands.pop()
        if name in ("Shape", "Size") and operands[0] is not None and not operands[0].type.sequence:
            dims = operands[0].type.dims
            part = None if dims is None else dims[slice(attributes.get("start", 0), attributes.get("end"))]
            if part is not None and all(isinstance(size, int) for size in part):
                return self.ints(part) if name == "Shape" else self.constant(math.prod(part), "i64")
        key = None
        if name not in _RANDOM:
            key = (name, tuple(map(id, operands)), count, tuple(sorted((k, repr(v)) for k, v in attributes.items())))
            graph: Graph | None = self.graph
            while graph is not None:
                if key in graph.cache:
                    found = graph.cache[key]
                    return found[0] if count == 1 else tuple(found)
                graph = graph.parent
        for operand in operands:
            assert operand is None or operand.graph is None or operand.graph.encloses(self.graph), f"{name}: value out of scope"
        if key is not None:
            folded = emit.fold(name, operands, attributes, count)
            if folded is not None:
                made = [self.constant(array) for array in folded]
                return made[0] if count == 1 else tuple(made)
        try:
            types = emit.infer(name, operands, attributes, count)
        except emit.UnknownRank as error:
            raise Refusal(str(error)) from None
        except ValueError as error:
            raise PythonError(RuntimeError(str(error))) from None
        if name in ("Reshape", "Expand"):
            types = [refined(types[0], known_sizes(operands[1]), name)]  # type: ignore[arg-type]
        results = self.graph.node(name, operands, attributes, types)
        if key is not None:
            # The operands are kept alive by the node, so that their identities stay theirs.
            self.graph.cache[key] = results
        return results[0] if count == 1 else tuple(results)

    def cast(self, value: GraphValue, dtype: str) -> GraphValue:
        if value.type.dtype == dtype:
            return value
        if value.array is not None and value.array.size <= 64:
            return self.constant(value.array.astype(emit.numpy_dtype(dtype)))
        result: GraphValue = self.op("Cast", value, to=dtype)
        return result

    def truth(self, value: GraphValue) -> bool | None:
        """Return whether a bool is true, if that is known here."""
        if value.array is not None:
            return bool(value.array)
        return self.facts.get(id(value))

    def negation(self, value: GraphValue) -> GraphValue:
        if value.array is not None:
            return self.constant(~value.array)
        result: GraphValue = self.op("Not", value)
        result.implies = (((value, False), *value.implies[1]), ((value, True), *value.implies[0]))
        return result

    # ---- Numbers ----

    def number(self, at: GraphValue, kind: str, choices: frozenset[int] | None = None) -> Value:
        if at.array is not None:
            return Const({"bool": bool, "int": int, "float": float}[kind](at.array))
        return Number(at, kind, choices)

    def kind_of(self, value: Value) -> str:
        """Return "bool", "int" or "float" for a Python number, "" for anything else."""
        if isinstance(value, Number):
            return value.kind
        return number_kind(value.value) if isinstance(value, Const) else ""

    def number_value(self, value: Value, dtype: str | None = None) -> GraphValue:
        """Return the tensor of rank 0 of a number, or of an array of one element."""
        if isinstance(value, Const):
            kind = number_kind(value.value)
            if not kind:
                self.refuse(f"a number is needed, not {self.describe(value)}")
            try:
                return self.constant(value.value, dtype or NUMBER_DTYPES[kind])
            except OverflowError:
                self.refuse(f"the number {value.value} does not fit in 64 bits")
        if isinstance(value, Number):
            return self.cast(value.at, dtype or NUMBER_DTYPES[value.kind])
        if isinstance(value, Array):
            at = self.read_array(value)
            if at.type.dims != ():
                at = self.op("Reshape", at, self.ints([]))
            return self.cast(at, dtype) if dtype else at
        self.refuse(f"a number is needed, not {self.describe(value)}")

    def constant_of(self, value: Value, what: str = "value") -> Any:
        """Return the Python value of a constant, also of tuples and lists of them. Raises NeedsConstant for others."""
        if isinstance(value, Const):
            return value.value
        if isinstance(value, Tuple):
            items = [self.constant_of(item, what) for item in value.items]
            return value.cls(items) if value.cls in (tuple, list) or not hasattr(value.cls, "_make") else value.cls._make(items)
        if isinstance(value, Reference) and value.object.cls in (list, tuple):
            return [self.constant_of(item, what) for item in self.known_items(value)]
        if isinstance(value, Reference) and value.object.cls in (dict, set):
            entries = self.entries(value)
            if value.object.cls is set:
                return set(entries.keys)
            return {key: self.constant_of(item, what) for key, item in zip(entries.keys, entries.values)}
        if isinstance(value, Array):
            at = self.read_array(value)
            if at.array is not None:
                return at.array
        if isinstance(value, Poison):
            raise Refusal(value.reason)
        raise NeedsConstant(f"the {what} must be known when the program is compiled, but {self.describe(value)} is a value of the run")

    def describe(self, value: Value) -> str:
        """Return a short text of a value for messages."""
        if isinstance(value, Const):
            text = getattr(value.value, "__name__", None) or repr(value.value)
            return text if len(text) < 60 else text[:57] + "..."
        if isinstance(value, Number):
            return f"a run-time {value.kind}"
        if isinstance(value, Array):
            return f"an array {self.array_type(value)}"
        if isinstance(value, Tuple):
            return f"a tuple of {len(value.items)}"
        if isinstance(value, Sequence):
            return "a list of run-time length"
        if isinstance(value, Reference):
            return f"an object of class {getattr(value.object.cls, '__name__', value.object.cls)}"
        if isinstance(value, Choice):
            return f"{self.describe(value.yes)} or {self.describe(value.no)}"
        if isinstance(value, Function):
            return f"the function {value.name}"
        return type(value).__name__.lower()

    # ---- Arrays ----

    def array(self, at: GraphValue, library: str = "", live: Any = None) -> Array:
        """Return a new array with its own storage."""
        return Array(Storage(self.heap.next_serial(), at, live), library or self.library)

    def boxed(self, array: Array) -> Array:
        """Note that an array of rank 0 is no scalar of NumPy, which would be immutable."""
        self.boxes.add(array.storage)
        return array

    def storage_value(self, storage: Storage) -> GraphValue:
        value = self.heap.read(storage, DATA)
        return value.at if isinstance(value, Elements) else storage.initial

    def read_array(self, array: Array) -> GraphValue:
        """Return the current elements of an array."""
        base = self.storage_value(array.storage)
        return self._read_view(array.view, base)

    def _read_view(self, view: View | None, base: GraphValue) -> GraphValue:
        if view is None:
            return base
        if view.base is not base and not view.certain:
            self.refuse(
                "this array may share its memory with one that was changed, which depends on the order of elements in memory",
                "Copy it before the change",
            )
        if view.base is base and (view.seen.graph is None or view.seen.graph.encloses(self.graph)):
            return view.seen
        return view.read(self._read_view(view.parent, base))

    def array_type(self, array: Array) -> Type:
        if array.view is None:
            return self.storage_value(array.storage).type
        return array.view.seen.type

    def view(
        self,
        array: Array,
        read: Callable[[GraphValue], GraphValue],
        write: Callable[[GraphValue, GraphValue], GraphValue] | None,
        layout: Callable[[Any], Any] | None = None,
        certain: bool = True,
    ) -> Array:
        """Return an array that shares the memory of another.

        `write(parent, new)` returns the parent's new elements. `layout` makes the same view of a NumPy array.
        """
        base = self.storage_value(array.storage)
        seen = read(self.read_array(array))
        own = self.layout_of(array) if layout is not None else None
        shape = layout(own) if layout is not None and own is not None else None
        return Array(array.storage, array.library, View(array.view, read, write, base, seen, shape, certain))

    def layout_of(self, array: Array) -> Any:
        """Return a NumPy array with the strides of an array, or None if they are not known."""
        if array.view is not None:
            return array.view.layout
        dims = array.storage.initial.type.dims
        if dims is None or not all(isinstance(d, int) for d in dims):
            return None
        import numpy

        live = array.storage.live
        strides = getattr(live, "strides", None) if array.library == "numpy" else None
        if strides is not None or hasattr(live, "stride"):
            steps = strides if strides is not None else [s * live.element_size() for s in live.stride()]
            size = live.itemsize if strides is not None else live.element_size()
            if list(steps) != [s * size for s in numpy.empty(dims, numpy.int8).strides]:
                return None
        return numpy.empty(dims, numpy.int8)

    def write_array(self, array: Array, value: GraphValue, visited: frozenset[int] = frozenset()) -> None:
        """Change the elements of an array, of those that it is a view of, and of those that share its memory."""
        storage = array.storage
        if storage.live is not None:
            self.refuse(
                "a constant or a parameter would be changed in place, which the program cannot keep",
                "Copy it first, or pass it as an argument",
            )
        if storage.captured:
            self.refuse(
                "an array would be changed in place that a list of run-time length has, or a list with a run-time index, or that is the "
                "array of another name on a path that is not followed",
                "Use a copy, or x = x + y instead of x += y",
            )
        if storage.borrowed:
            self.refuse("an array that a run-time index or loop took from a list would be changed in place", "Assign the changed array to the item")
        if id(storage) in visited:
            return
        before = self.array_type(array)
        if value.type.dtype != before.dtype:
            value = self.cast(value, before.dtype)
        if before.dims is not None and value.type.dims != before.dims:
            if value.type.rank > before.rank:
                raise PythonError(RuntimeError("the result of an in-place operation does not have the shape of the array"))
            value = self.broadcast_like(value, array)
        new = self._written(array.view, self.storage_value(storage), value)
        self.heap.write(storage, DATA, Elements(new))
        for other, condition in list(storage.links):
            if condition.graph is not None and not condition.graph.encloses(self.graph):
                continue
            known = self.truth(condition)
            if known is False or id(other.storage) in visited:
                continue
            reached = visited | {id(storage)}
            whole = self.read_array(Array(storage, array.library))
            if known:
                self.write_array(other, whole, reached)
            else:
                old = self.read_array(other)
                changed = self.select(condition, lambda w=whole: w, lambda o=old: o)  # type: ignore[misc]
                self.write_array(other, changed, reached)

    def capture(self, value: Value) -> None:
        """Note that a sequence gets the elements of an item's arrays as they are now."""
        if isinstance(value, Array):
            if not value.storage.captured:
                value.storage.captured = True
                self.captures.append(value.storage)
        elif isinstance(value, Tuple):
            for item in value.items:
                self.capture(item)
        elif isinstance(value, Choice):
            self.capture(value.yes)
            self.capture(value.no)

    def _written(self, view: View | None, base: GraphValue, value: GraphValue) -> GraphValue:
        if view is None:
            return value
        if not view.certain:
            self.refuse(
                "this array may share its memory with another, which depends on the order of elements in memory", "Copy it before the change"
            )
        if view.write is None:
            self.refuse("an array that repeats elements cannot be changed in place", "Copy it first")
        return self._written(view.parent, base, view.write(self._read_view(view.parent, base), value))

    def broadcast_like(self, value: GraphValue, array: Array) -> GraphValue:
        at = self.read_array(array)
        if value.type.dims == at.type.dims and None not in (at.type.dims or (None,)):
            return value
        shape = self.op("Shape", at)
        result: GraphValue = self.op("Expand", value, shape)
        return result

    def select(self, condition: GraphValue, yes: Callable[[], GraphValue], no: Callable[[], GraphValue]) -> GraphValue:
        raise NotImplementedError

    # ---- Objects ----

    def new_object(self, cls: Any) -> Reference:
        return Reference(Object(self.heap.next_serial(), cls))

    def new_list(self, items: Items[Value] | Value, cls: type = list) -> Reference:
        reference = self.new_object(cls)
        contents = items if isinstance(items, Value) else Tuple(tuple(items), list)
        self.heap.write(reference.object, ITEMS, contents)
        return reference

    def new_dict(self, keys: Items[Any], values: Items[Value], cls: type = dict) -> Reference:
        reference = self.new_object(cls)
        self.heap.write(reference.object, DICT, Entries(tuple(keys), tuple(values)))
        return reference

    def contents(self, reference: Reference) -> Value:
        """Return the contents of a list: Tuple or Sequence."""
        value = self.heap.read(reference.object, ITEMS)
        if value is None:
            live = reference.object.live
            value = self.live_read(reference.object, ITEMS, Tuple(tuple(self.wrap(item) for item in live), list))
        if isinstance(value, Poison):
            raise Refusal(value.reason)
        value = self.settle(value)
        if isinstance(value, Choice):
            raise Undecided(reference.object, ITEMS, value)
        return value

    def known_items(self, reference: Reference) -> tuple[Value, ...]:
        contents = self.contents(reference)
        if not isinstance(contents, Tuple):
            raise NeedsConstant("the length of this list must be known when the program is compiled")
        return contents.items

    def entries(self, reference: Reference) -> Entries:
        value = self.heap.read(reference.object, DICT)
        if value is None:
            live = reference.object.live
            if isinstance(live, dict):
                value = Entries(tuple(live), tuple(self.wrap(item) for item in live.values()))
            else:
                value = Entries(tuple(sorted(live, key=repr)), (NONE,) * len(live))
            self.live_read(reference.object, DICT, value)
        if isinstance(value, Poison):
            raise Refusal(value.reason)
        value = self.settle(value)
        if isinstance(value, Choice):
            raise Undecided(reference.object, DICT, value)
        assert isinstance(value, Entries)
        return value

    def wrap(self, value: Any) -> Value:
        """Return the abstract value of a live Python object."""
        raise NotImplementedError

    # ---- How blocks end ----

    def ending(self) -> Value:
        """Return how the current block of the frame ended: a Const, or a Number with choices."""
        return self.heap.read(self.frame, KIND) or Const(NORMAL)

    def endings(self) -> frozenset[int]:
        value = self.ending()
        if isinstance(value, Const):
            return frozenset([value.value])
        assert isinstance(value, Number) and value.choices is not None
        return value.choices

    def set_ending(self, kind: int) -> None:
        self.heap.write(self.frame, KIND, Const(kind))

    def ending_is(self, kinds: frozenset[int]) -> GraphValue:
        """Return whether the block ended in one of these ways, as a bool."""
        value = self.ending()
        if isinstance(value, Const):
            return self.constant(value.value in kinds)
        assert isinstance(value, Number)
        result: GraphValue | None = None
        for kind in sorted(kinds & (value.choices or frozenset())):
            test = self.op("Equal", value.at, self.constant(kind, "i64"))
            result = test if result is None else self.op("Or", result, test)
        return result if result is not None else self.constant(False)

    def raise_python(self, error: BaseException) -> None:
        """End the current block with an exception of the interpreted program, on the paths on which it has not ended."""
        for index, known in enumerate(self.exceptions):
            if type(known) is type(error) and known.args == error.args:
                break
        else:
            index = len(self.exceptions)
            self.exceptions.append(error)
            self.raised_at[index] = self.spot()
        before = self.ending()
        if isinstance(before, Const):
            if before.value == NORMAL:
                self.set_ending(RAISE + index)
            return
        assert isinstance(before, Number) and before.choices is not None
        if NORMAL in before.choices:
            at = self.op("Where", self.ending_is(frozenset([NORMAL])), self.constant(RAISE + index, "i64"), before.at)
            self.heap.write(self.frame, KIND, Number(at, "int", before.choices - {NORMAL} | {RAISE + index}))

    @contextmanager
    def in_graph(self, graph: Graph, overlay: dict[Any, Value], facts: dict[int, bool]) -> Iterator[None]:
        """Record in another graph, on its overlay, with what is known there."""
        saved = self.graph, self.facts
        self.graph, self.facts = graph, facts
        self.heap.overlays.append(overlay)
        try:
            yield
        finally:
            self.heap.overlays.pop()
            self.graph, self.facts = saved

    def defined(self, value: Value) -> bool:
        return value is not UNDEFINED

    def float_dtype(self, dtype: str) -> bool:
        return CATEGORY.get(dtype) == 2

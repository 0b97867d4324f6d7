"""The interpreter: all layers together, arguments and results of a program."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import emit
from .arrays import Arrays
from .calls import check_partial, library_of, numpy_array
from .core import FALSE, NONE, RAISE, TRUE, Options
from ..errors import InvalidArgument
from .errors import Problem, PythonError, Refusal, SourceErrors
from .graph import Graph, GraphValue, Type
from .heap import DICT, ITEMS, RESULT
from .tables import Tables
from .templates import leaf_types, number_kind, same_value
from .values import (
    NUMBER_DTYPES,
    UNDEFINED,
    Array,
    Choice,
    Const,
    Entries,
    Iteration,
    Method,
    Number,
    Poison,
    Reference,
    Sequence,
    Tuple,
    Value,
)

# Lists, tuples and dicts of an example argument around each other.
MOST_NESTED = 100


class Dim:
    """An open dimension, by name. Equal names are equal sizes."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError("the name of a dimension must be a text that is not empty")
        self.name = name

    def __repr__(self) -> str:
        return f"dim({self.name!r})"


class Constant:
    """Marks an example argument as a constant of the program."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Machine(Arrays):
    """Interprets a function and records what it does with its arguments."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.tables = Tables()
        self.parameters = []
        self.handling = []
        self.outer_graph = self.graph
        self.host_functions: dict[str, Callable[..., Any]] = {}

    # ---- Helpers of the tables ----

    def is_undefined(self, value: Value) -> bool:
        return value is UNDEFINED

    def integer(self, value: Value) -> Value:
        """Return an int for a bound or a count."""
        value = self.settle(value)
        if isinstance(value, Array):
            return self.number(self.number_value(value, "i64"), "int")
        if isinstance(value, Choice):
            return self.each(value, self.integer)
        if self.kind_of(value) not in ("int", "bool"):
            self.usable(value)
            self.float_for_int(value, TypeError(f"'{self.type_name(value)}' object cannot be interpreted as an integer"))
        return Const(int(value.value)) if isinstance(value, Const) else value

    def minimum(self, a: Value | None, b: Value | None) -> Value:
        assert a is not None and b is not None
        if isinstance(a, Const) and isinstance(b, Const):
            return a if a.value <= b.value else b
        return self.number(self.op("Min", self.number_value(a, "i64"), self.number_value(b, "i64")), "int")

    def either_of(self, total: Value, item: Value) -> Value:
        return self.any_of([total, self.number(self.truth_of(item), "bool")])

    def both_of(self, total: Value, item: Value) -> Value:
        return self.all_of([total, self.number(self.truth_of(item), "bool")])

    def run_check(self, condition: Value, message: Value) -> Value:
        """Check a condition as assert does."""

        def fail() -> Value:
            raise PythonError(AssertionError(self.shown(message)))

        return self.branch(self.truth_of(condition), lambda: NONE, fail)

    def fold(self, iterable: Value, start: Value, step: Callable[[Value, Value], Value]) -> Value:
        """Return what a function makes of the items, one after the other."""
        contents = self.contents_of(iterable)
        if isinstance(contents, Tuple):
            total = start
            for item in contents.items:
                total = step(total, item)
            return total
        sequence = self.as_sequence(contents)
        frame = self.new_object("frame")
        self.heap.write(frame.object, "total", start)

        def go(index: GraphValue) -> GraphValue:
            before = self.heap.read(frame.object, "total") or NONE
            self.heap.write(frame.object, "total", step(before, self.sequence_item(sequence, index)))
            return self.constant(True)

        self.run_items(self.op("SequenceLength", sequence.parts[0]), go)
        return self.heap.read(frame.object, "total") or NONE

    def first_with(self, iterable: Value, wanted: bool) -> Value:
        """Return `wanted` if an item has this truth, else the opposite. Later items are not computed."""
        found, none = (TRUE, FALSE) if wanted else (FALSE, TRUE)
        iteration = self.iterate(iterable)
        length = iteration.length
        if length is None:
            self.refuse("an iteration without end cannot be searched")

        def truth(index: Value) -> GraphValue:
            at = self.truth_of(iteration.item(index))
            return at if wanted else self.negation(at)

        def rest(index: int) -> Value:
            if index == length.value:  # type: ignore[union-attr]
                return none
            at = truth(Const(index))
            return self.branch(at, lambda: found, lambda: rest(index + 1))

        if isinstance(length, Const) and (iteration.unroll or length.value <= 64):
            if length.value > 1000:
                self.refuse("too many items of known structure are searched")
            return rest(0)
        frame = self.new_object("frame")
        self.heap.write(frame.object, "found", FALSE)

        def go(index: GraphValue) -> GraphValue:
            at = truth(self.number(index, "int"))
            self.heap.write(frame.object, "found", self.number(at, "bool"))
            return self.negation(at)

        self.run_items(self.number_value(length, "i64"), go)
        at = self.truth_of(self.heap.read(frame.object, "found") or FALSE)
        return self.number(at if wanted else self.negation(at), "bool")

    def filtered(self, iterable: Value, test: Callable[[Value], Value]) -> Value:
        """Return the contents of a list of the items that pass a test."""

        def step(total: Value, item: Value) -> Value:
            return self.branch(self.truth_of(test(item)), lambda: self.appended(total, item), lambda: total)

        return self.fold(iterable, Tuple((), list), step)

    # ---- State ----

    def check_state(self) -> None:
        """Refuse programs whose next call would have to see what this one changed in a live object."""
        for (owner, key), before in self.live_reads.items():
            after = self.heap.read(owner, key)
            if after is None or same_value(before, after):
                continue
            name = "a list" if key == ITEMS else "a dict or set" if key == DICT else f"'{key}'" if owner.cls != "cell" else "a variable"
            place, calls = self.read_at[(owner, key)]
            reason = f"{name} that exists before the call is read here and changed, but a program keeps nothing from call to call"
            hint = (
                "Keep an attribute with keep=[name], pass it as an argument and return it, or compile with fresh=True if each call "
                "starts from what it is now"
            )
            self.problems.append(Problem(place, reason, hint, calls))

    # ---- Arguments ----

    def argument(self, example: Any, name: str, dims: Any, flat: list[tuple[str, Any]], within: tuple[int, ...] = ()) -> Value:
        """Return the value of an argument, and add the inputs that it needs. `within` has the containers around it."""
        if isinstance(example, Constant):
            return self.wrap(example.value)
        library = library_of(example)
        numpy = sys.modules.get("numpy")
        scalar = False
        if not library and numpy is not None and isinstance(example, numpy.generic):
            library, example, scalar = "numpy", numpy.asarray(example), True
        if library:
            array = numpy_array(example, library)
            sizes = [self.size_name(dims, axis, size) for axis, size in enumerate(array.shape)]
            at = self.graph.parameter(Type(emit.dtype_of(array.dtype), tuple(sizes)), name)
            flat.append((name, library))
            return self.array(at, library) if scalar else self.boxed(self.array(at, library))
        kind = number_kind(example)
        if kind:
            at = self.graph.parameter(Type(NUMBER_DTYPES[kind], ()), name)
            flat.append((name, kind))
            return Number(at, kind)
        if isinstance(example, (list, tuple, dict)):
            if id(example) in within:
                raise Refusal(f"the argument '{name}' contains itself")
            if len(within) == MOST_NESTED:
                raise Refusal(f"an argument is nested more than {MOST_NESTED} deep")
            within = (*within, id(example))
        if isinstance(example, (list, tuple)):
            parts = [
                self.argument(item, f"{name}_{index}", self.part_dims(dims, index), flat, within)
                for index, item in enumerate(example)
            ]
            return self.new_list(parts) if isinstance(example, list) else Tuple(tuple(parts), type(example))
        if isinstance(example, dict):
            values = [self.argument(item, f"{name}_{key}", self.part_dims(dims, key), flat, within) for key, item in example.items()]
            return self.new_dict(tuple(example), values)
        return self.wrap(example)

    @staticmethod
    def part_dims(dims: Any, key: Any) -> Any:
        """Return the dimensions of an item of a list, tuple or dict: its own, or those that each item has."""
        if not isinstance(dims, Mapping):
            return None
        return dims if dims and all(isinstance(dim, Dim) for dim in dims.values()) else dims.get(key)

    def size_name(self, dims: Any, axis: int, size: int) -> Any:
        if dims is None:
            return size
        found = dims.get(axis, size) if isinstance(dims, Mapping) else dims[axis] if axis < len(dims) else size
        if isinstance(found, Dim):
            return found.name
        return size if found is None else found

    # ---- Results ----

    def result(self, value: Value, out: list[GraphValue], within: tuple[Any, ...] = ()) -> Any:
        """Append the graph values of a result, and return its structure."""
        value = self.settle(value)
        if isinstance(value, Poison):
            raise Refusal(f"the result has no single meaning: {value.reason}" if value.reason else "")
        if isinstance(value, Const):
            return ("constant", value.value)
        if isinstance(value, Number):
            out.append(value.at)
            return ("number", value.kind)
        if isinstance(value, Array):
            out.append(self.read_array(value))
            return ("array",)
        if isinstance(value, Tuple):
            return ("tuple", value.cls, [self.result(item, out, within) for item in value.items])
        if isinstance(value, Sequence):
            types = leaf_types(value.item)
            out += value.parts
            return ("sequence", tuple if value.cls is tuple else list, _item_structure(value.item), max(len(types), 1))
        if isinstance(value, Iteration):
            return self.result(self.new_list(self.contents_of(value)), out, within)
        if isinstance(value, Choice):
            yes, no = value.yes, value.no
            if isinstance(yes, Array) and isinstance(no, Array) and self.array_type(yes).dtype == self.array_type(no).dtype:
                # Arrays of different libraries are one result.
                arrays = yes, no
                out.append(self.select(value.condition, lambda: self.read_array(arrays[0]), lambda: self.read_array(arrays[1])))
                return ("array",)
            out.append(value.condition)
            return ("choice", self.result(value.yes, out, within), self.result(value.no, out, within))
        if value is UNDEFINED:
            return ("constant", None)
        if isinstance(value, Reference):
            if value.object in within:
                raise Refusal("the result contains itself")
            reached = (*within, value.object)
            if value.object.cls is list:
                return self.contents_result(self.heap.read(value.object, ITEMS) or self.contents(value), out, reached)
            if value.object.cls in (dict, set):
                return self.contents_result(self.heap.read(value.object, DICT) or self.entries(value), out, reached, value.object.cls)
            if dataclasses.is_dataclass(value.object.cls):
                names = [field.name for field in dataclasses.fields(value.object.cls)]
                return ("object", value.object.cls, {name: self.result(self.attribute(value, name), out, reached) for name in names})
        raise Refusal(f"the result has {self.describe(value)}, which a program cannot return", "Return arrays, numbers, and lists, tuples, dicts or dataclasses of them")

    def contents_result(self, value: Value, out: list[GraphValue], within: tuple[Any, ...], cls: Any = list) -> Any:
        value = self.settle(value)
        if isinstance(value, Choice):
            out.append(value.condition)
            sides = [self.contents_result(one, out, within, cls) for one in (value.yes, value.no)]
            return ("choice", *sides)
        if isinstance(value, Entries):
            if cls is set:
                return ("constant", set(value.keys))
            return ("dict", list(value.keys), [self.result(item, out, within) for item in value.values])
        return ("list", self.result(value, out, within))


def _item_structure(template: Any) -> Any:
    kind = type(template).__name__
    if kind == "NumberOf":
        return ("number", template.kind)
    if kind == "ArrayOf":
        return ("array",)
    if kind == "TupleOf":
        return ("tuple", template.cls, [_item_structure(item) for item in template.items])
    if kind == "Either":
        return ("choice", _item_structure(template.yes), _item_structure(template.no))
    return ("constant", template.value.value if hasattr(template, "value") else None)


def rebuild_result(structure: Any, values: Any) -> Any:
    """Return a result of Python from the outputs of a run."""
    kind = structure[0]
    if kind == "constant":
        return structure[1]
    if kind == "number":
        return {"int": int, "float": float, "bool": bool}[structure[1]](next(values).item())
    if kind == "array":
        return next(values).numpy()
    if kind == "tuple":
        items = [rebuild_result(part, values) for part in structure[2]]
        cls = structure[1]
        return cls._make(items) if hasattr(cls, "_make") else cls(items)
    if kind == "list":
        return list(rebuild_result(structure[1], values))
    if kind == "dict":
        return {key: rebuild_result(part, values) for key, part in zip(structure[1], structure[2])}
    if kind == "object":
        made = object.__new__(structure[1])
        for name, part in structure[2].items():
            object.__setattr__(made, name, rebuild_result(part, values))
        return made
    if kind == "choice":
        condition = next(values).item()
        yes, no = rebuild_result(structure[1], values), rebuild_result(structure[2], values)
        return yes if condition else no
    columns = [next(values) for _ in range(structure[3])]
    return structure[1](rebuild_result(structure[2], iter(row)) for row in zip(*columns))


@dataclasses.dataclass
class Recorded:
    """What the interpreter recorded: a graph, and how arguments and results belong to its inputs and outputs."""

    graph: Graph
    names: list[str]
    structure: Any
    parameters: list[tuple[str, Any]]
    inputs: list[tuple[str, Any]]
    exceptions: list[BaseException]
    functions: dict[str, Callable[..., Any]]
    defaults: dict[str, Any]
    # True if the last output tells which exception the program raised.
    raises: bool
    # Attributes that are kept from call to call: their paths, inputs and first values; and the structure of their results.
    kept: list[tuple[str, str, Any]] = dataclasses.field(default_factory=list)
    kept_structure: list[Any] = dataclasses.field(default_factory=list)

    def compile(self, options: dict[str, Any], callbacks: dict[str, Any]) -> tuple[bytes, bytes, dict[str, Any]]:
        return emit.build(self.graph, self.names, options, callbacks, self.functions)


def parameter_names(target: Any) -> dict[int, str]:
    """Return the names of the parameters that training changes, by their identity.

    Buffers, except running statistics, and frozen parameters are constants.
    """
    names: dict[int, str] = {}
    if callable(getattr(target, "namedparams", None)):
        # Chainer's names have slashes.
        names.update((id(value), name.strip("/").replace("/", ".")) for name, value in target.namedparams())
    for method in ("named_parameters", "named_buffers"):
        if callable(getattr(target, method, None)):
            try:
                for name, value in getattr(target, method)():
                    if value.requires_grad or name.split(".")[-1] in ("running_mean", "running_var"):
                        names[id(value)] = name
            except (AttributeError, TypeError, ValueError):
                # A method of the user's that means something else.
                pass
    return names


def record(
    target: Any,
    examples: tuple[Any, ...],
    keywords: Mapping[str, Any],
    dims: Mapping[str, Any] | None,
    unroll: int,
    fresh: bool = False,
    keep: str | Iterable[str] = (),
) -> Recorded:
    """Interpret the source of a function, module or object with these example arguments.

    `keep` names attributes of the object that are inputs and results, so that their values go from call to call.

    Raises SourceErrors with everything that cannot be compiled.
    """
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 40000))
    try:
        return _record(target, examples, keywords, dims, unroll, fresh, [keep] if isinstance(keep, str) else list(keep))
    finally:
        sys.setrecursionlimit(limit)
        emit.forget()


def kept_attribute(target: Any, path: str) -> tuple[Any, str, Any]:
    """Return the object, the name and the value of an attribute, by its path."""
    *parts, name = path.split(".")
    owner = getattr(target, "__self__", target)
    try:
        for part in parts:
            owner = getattr(owner, part)
        return owner, name, getattr(owner, name)
    except AttributeError as error:
        raise InvalidArgument(f"keep: {path}: {error}. Name attributes of the object, as 'state' or 'cell.state'") from None


def _record(
    target: Any,
    examples: tuple[Any, ...],
    keywords: Mapping[str, Any],
    dims: Mapping[str, Any] | None,
    unroll: int,
    fresh: bool,
    keep: list[str],
) -> Recorded:
    machine = Machine(Options(unroll=unroll))
    machine.parameter_names = parameter_names(target)
    for example in (*examples, *keywords.values()):
        library = library_of(example)
        if library:
            machine.library = library
            break
    else:
        machine.library = "torch" if hasattr(target, "named_parameters") else "numpy"
    flat: list[tuple[str, Any]] = []
    names = argument_names(target, len(examples))
    dims = dims or {}
    frame = machine.new_object("frame")
    machine.frame = frame.object
    result: Value = NONE
    structure: Any = ("constant", None)
    out: list[GraphValue] = []
    kept: list[tuple[str, str, Any]] = []
    kept_structure: list[Any] = []
    owners: list[tuple[Any, str]] = []
    count = 0
    try:
        arguments = [machine.argument(example, name, dims.get(name), flat) for example, name in zip(examples, names)]
        named = {name: machine.argument(example, name, dims.get(name), flat) for name, example in keywords.items()}
        for path in keep:
            owner, attribute, example = kept_attribute(target, path)
            name = "self_" + path.replace(".", "_")
            if example is None or isinstance(example, str):
                machine.refuse(f"the attribute '{path}' is {example!r}, so that it cannot be an input", "Set it to an array or a number first")
            reference = machine.wrap(owner)
            if not isinstance(reference, Reference):
                machine.refuse(f"'{path}' is no attribute of an object with Python source")
            machine.heap.write(reference.object, attribute, machine.argument(example, name, dims.get(path), flat))
            kept.append((path, name, example))
            owners.append((reference.object, attribute))

        def run() -> None:
            nonlocal result
            result = machine.call(machine.wrap(target), arguments, named)

        machine.guarded(run)
        kinds = machine.endings()
        if not machine.problems:
            raised = sorted(kind for kind in kinds if kind >= RAISE)
            if kinds and not kinds - set(raised) and raised:
                for kind in raised:
                    error = machine.exceptions[kind - RAISE]
                    place, calls = machine.raised_at[kind - RAISE]
                    always = "always raises" if len(raised) == 1 else "always raises an exception, here"
                    machine.problems.append(Problem(place, f"the program {always} {type(error).__name__}: {error}", "", calls))
            else:
                structure = machine.result(result, out)
                count = len(out)
                for owner, attribute in owners:
                    kept_structure.append(machine.result(machine.heap.read(owner, attribute) or NONE, out))
                if not fresh:
                    machine.check_state()
    except PythonError as error:
        machine.report(Refusal(f"the program always raises {type(error.error).__name__}: {error.error}"))
    except Refusal as refusal:
        machine.report(refusal)
    except (AssertionError, AttributeError, IndexError, KeyError, RecursionError, TypeError) as error:
        machine.report(Refusal(f"the compiler fails here: {type(error).__name__}: {error}", "This is a defect of XCVM; please report it"))
    if machine.problems:
        raise SourceErrors(machine.problems)
    taken = {name for name, _ in flat}
    outputs = [unused_name(f"y{index}" if count != 1 else "y", taken) for index in range(count)]
    outputs += [unused_name(f"next{index}", taken) for index in range(len(out) - count)]
    raises = len(kinds) > 1 or next(iter(kinds)) >= RAISE
    if raises:
        ending = machine.ending()
        out.append(machine.number_value(ending, "i64"))
        outputs.append(unused_name("error", taken))
    if not out:
        # A program has an output, even if its result is known.
        out.append(machine.constant(0, "i64"))
        outputs = [unused_name("none", taken)]
    machine.root.results = out
    known = [*zip(names, examples), *keywords.items()]
    return Recorded(machine.root, outputs, structure, known, flat, list(machine.exceptions), machine.host_functions, {}, raises, kept, kept_structure)


def unused_name(name: str, taken: set[str]) -> str:
    """Return a name that no input has, and note it."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def argument_names(target: Any, count: int) -> list[str]:
    """Return the names of the first arguments of a callable."""
    import inspect

    function = getattr(target, "forward", None) or target
    try:
        check_partial(function)
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError, Refusal):
        # Without names, what is wrong shows when the target is called.
        parameters = []
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}_{index}" for index in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    names += [f"x{index}" for index in range(count - len(names))]
    return names[:count]


__all__ = ["Constant", "Dim", "Machine", "Recorded", "record", "rebuild_result", "Method", "RESULT", "FALSE", "TRUE"]

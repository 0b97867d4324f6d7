"""Programs that were compiled from source: called with Python's arguments, they return Python's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import InvalidArgument
from ..program import Program, Session
from .calls import library_of, numpy_array
from .errors import nearest
from .machine import Constant, Recorded, rebuild_result
from .templates import number_kind

F = TypeVar("F", bound=Callable[..., Any])


def host(*results: tuple[str, int] | str) -> Callable[[F], F]:
    """Mark a function that the program calls back: ``@xcvm.host(("f32", 2))`` returns a matrix.

    Parameters
    ----------
    results : (dtype, rank) or dtype
        The type of each result; a dtype alone has rank 0.
    """

    def mark(function: F) -> F:
        function.__xcvm_host__ = [(r, 0) if isinstance(r, str) else r for r in results]  # type: ignore[attr-defined]
        return function

    return mark


def flatten(example: Any, value: Any, name: str, out: dict[str, Any]) -> None:
    """Add the inputs that an argument stands for, by the structure of the example."""
    if isinstance(example, Constant):
        return
    if library_of(example) or number_kind(example):
        library = library_of(value)
        out[name] = numpy_array(value, library) if library else value
    elif isinstance(example, (list, tuple)):
        if not isinstance(value, (list, tuple)) or len(value) != len(example):
            raise InvalidArgument(f"{name}: a list of {len(example)} is expected, as in the example")
        for index, (one, item) in enumerate(zip(example, value)):
            flatten(one, item, f"{name}_{index}", out)
    elif isinstance(example, dict):
        if not isinstance(value, dict) or set(value) != set(example):
            raise InvalidArgument(f"{name}: a dict with the keys {', '.join(map(repr, example))} is expected, as in the example")
        for key, one in example.items():
            flatten(one, value[key], f"{name}_{key}", out)
    elif hasattr(example, "dtype") and hasattr(example, "shape"):
        out[name] = value
    elif isinstance(example, (str, type(None))) and value != example:
        raise InvalidArgument(f"{name}: {value!r} is not the constant {example!r} that the program was compiled for")


def _first_value(example: Any) -> Any:
    """Return a copy of the value that an attribute has, with NumPy arrays."""
    library = library_of(example)
    if library:
        return numpy_array(example, library).copy()
    if isinstance(example, (list, tuple)):
        return type(example)(map(_first_value, example))
    return {key: _first_value(value) for key, value in example.items()} if isinstance(example, dict) else example


class SourceProgram(Program):
    """A program with the arguments and results of the function that it was compiled from.

    Calls accept arrays, numbers, and lists, tuples and dicts of them, as in the example. They return NumPy arrays, numbers,
    and structures of them, and raise the exceptions that the source raises.
    """

    __slots__ = ("recorded", "kept")

    def __init__(self, source: Any, recorded: Recorded, **options: Any) -> None:
        super().__init__(source, **options)
        self.recorded = recorded
        #: Values of the attributes that `keep` names, after the last call.
        self.kept: dict[str, Any] = {}
        self.reset()

    def reset(self) -> None:
        """Give the attributes that `keep` names their values at the time of compiling."""
        self.kept = {path: _first_value(example) for path, _, example in self.recorded.kept}

    def __new__(cls, source: Any, recorded: Recorded, **options: Any) -> Any:
        return super().__new__(cls, source, **options)

    def arguments(self, *values: Any, **named: Any) -> dict[str, Any]:
        """Return the arrays of a call by the names of the program's inputs."""
        examples = self.recorded.parameters
        given = dict(zip([name for name, _ in examples], values))
        if len(values) > len(examples):
            raise InvalidArgument(f"{len(values)} arguments are given; the program has {len(examples)}")
        known = {parameter.name for parameter in self.inputs}
        inputs: dict[str, Any] = {}
        for name, value in named.items():
            if name in given:
                raise InvalidArgument(f"the argument '{name}' is given twice")
            if any(name == own for own, _ in examples):
                given[name] = value
            elif name in known:
                # An input of training, such as the learning rate.
                inputs[name] = value
            else:
                raise InvalidArgument(f"there is no argument '{name}'. {nearest(name, [own for own, _ in examples])}".rstrip())
        for name, example in examples:
            if name not in given:
                if isinstance(example, (Constant, str, type(None))):
                    continue
                raise InvalidArgument(f"the argument '{name}' is missing")
            flatten(example, given[name], name, inputs)
        for path, name, example in self.recorded.kept:
            flatten(example, self.kept[path], name, inputs)
        kinds = dict(self.recorded.inputs)
        import numpy

        dtypes = {"int": numpy.int64, "float": numpy.float64, "bool": numpy.bool_}
        return {
            name: numpy.asarray(value, dtypes[kinds[name]]) if kinds.get(name) in dtypes else value
            for name, value in inputs.items()
            if name in known
        }

    def finish(self, outputs: list[Any]) -> Any:
        """Return the result of a call from the outputs of the run, or raise the source's exception."""
        # Gradients follow the results.
        values = list(outputs[: len(self.recorded.names)])
        code = 0
        if self.recorded.raises:
            code = int(values.pop().item())
        left = iter(values)
        if code >= 4 and not self.recorded.kept:
            raise self.recorded.exceptions[code - 4]
        result = rebuild_result(self.recorded.structure, left)
        for (path, _, _), structure in zip(self.recorded.kept, self.recorded.kept_structure):
            self.kept[path] = rebuild_result(structure, left)
        if code >= 4:
            raise self.recorded.exceptions[code - 4]
        return result

    def __call__(self, *values: Any, **named: Any) -> Any:
        inputs = self.arguments(*values, **named)
        functions = self.recorded.functions
        # Host functions belong to sessions.
        outputs = Session(self, functions=functions)._run(inputs) if functions else self._run(inputs)
        return self.finish(outputs)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a program that was compiled from source cannot be pickled; save its bytes")


__all__ = ["Session", "SourceProgram", "host"]

"""Automatic differentiation: modes, transforms of functions, functions with own gradients, static functions.

The transforms take and return arrays in nested lists, tuples and dicts. A gradient that is zero by structure is an array
of zeros.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar

from ._array import Array, operand
from ._context import Tape, current_tape
from ._tape import Static, Variable

__all__ = [
    "CustomFunction",
    "StaticFunction",
    "check_gradients",
    "custom_function",
    "grad",
    "hvp",
    "jacobian",
    "jvp",
    "lazy",
    "no_grad",
    "static",
    "value_and_grad",
    "vjp",
]

_T = TypeVar("_T")

# ---- Nested arguments ----


class _Leaf:
    """The place of an array in a structure."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "array"


_LEAF = _Leaf()


def _is_array(value: Any) -> bool:
    return isinstance(value, Variable) or hasattr(value, "__array_interface__")


def _flatten(tree: Any, leaves: list[Any]) -> Any:
    """Append the arrays of a tree to `leaves` and return its structure, which can be a key."""
    if _is_array(tree):
        leaves.append(tree)
        return _LEAF
    if isinstance(tree, dict):
        return dict, tuple((key, _flatten(value, leaves)) for key, value in tree.items())
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree), tuple(_flatten(value, leaves) for value in tree)
    if isinstance(tree, (list, tuple)):
        return type(tree), tuple(_flatten(value, leaves) for value in tree)
    return None, type(tree), tree


def _unflatten(structure: Any, leaves: Any) -> Any:
    """Return a tree of a structure with arrays from an iterator."""
    if structure is _LEAF:
        return next(leaves)
    kind = structure[0]
    if kind is None:
        return structure[2]
    if kind is dict:
        return {key: _unflatten(part, leaves) for key, part in structure[1]}
    items = [_unflatten(part, leaves) for part in structure[1]]
    return kind(*items) if hasattr(kind, "_fields") else kind(items)


def _arrays(tree: Any) -> tuple[list[Array], Any]:
    """Return the arrays of a tree, numbers included, and its structure."""

    def convert(value: Any) -> Any:
        if isinstance(value, Variable):
            return value
        if isinstance(value, (float, int)) or _is_array(value):
            return current_tape().constant(value if not isinstance(value, int) else float(value))
        if isinstance(value, dict):
            return {key: convert(part) for key, part in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(convert, value))
        return type(value)(map(convert, value)) if isinstance(value, (list, tuple)) else value

    leaves: list[Array] = []
    structure = _flatten(convert(tree), leaves)
    if not leaves:
        raise TypeError("there is no array to differentiate with respect to")
    return leaves, structure


def _zeros(gradients: Sequence[Any], xs: Sequence[Array]) -> list[Array]:
    return [g if g is not None else x.tape.call("ZerosLike", (x,)) for g, x in zip(gradients, xs)]


# ---- Modes ----


class no_grad:
    """Switch recording off on the current tape, as a context manager or a decorator.

    >>> with xcvm.no_grad():
    ...     y = model(x)
    """

    def __init__(self) -> None:
        self._before: list[tuple[Tape, bool]] = []

    def __enter__(self) -> no_grad:
        tape = current_tape()
        self._before.append((tape, tape.set_recording(False)))
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        tape, before = self._before.pop()
        tape.set_recording(before)

    def __call__(self, function: Callable[..., _T]) -> Callable[..., _T]:
        """Return a function whose calls are not recorded."""

        @functools.wraps(function)
        def unrecorded(*args: Any, **keywords: Any) -> _T:
            with no_grad():
                return function(*args, **keywords)

        return unrecorded


def lazy(*, batching: str | None = None, **options: Any) -> Tape:
    """Return a lazy tape: calls run when a value is needed, and with `batching` many together.

    Parameters
    ----------
    batching : str, optional
        "agenda", "depth" or "timed"; None runs calls one by one.
    **options
        Those of `Tape`.

    >>> with xcvm.lazy(batching="agenda"):
    ...     model = Model()
    ...     loss = xcvm.sum(xcvm.stack([model(tree) for tree in trees]))
    ...     loss.backward()
    """
    return Tape("lazy", batching=batching or "none", **options)


# ---- Transforms ----


def value_and_grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function of the value and the gradients of a function of one number.

    Parameters
    ----------
    function : callable
        Returns an array of one element; with `has_aux` a pair of it and something else.
    argnums : int or sequence of int
        The arguments to differentiate with respect to. Each is an array or a nest of arrays.

    Returns
    -------
    callable
        Its result is (value, gradients), or ((value, aux), gradients).
    """
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)

    @functools.wraps(function)
    def both(*args: Any, **keywords: Any) -> Any:
        for number in numbers:
            if not -len(args) <= number < len(args):
                raise TypeError(f"argument {number} to differentiate by was not given")
        xs, structure = _arrays([args[number] for number in numbers])
        aux: list[Any] = []

        def call(*variables: Any) -> Any:
            own = list(args)
            for number, part in zip(numbers, _unflatten(structure, iter(variables))):
                own[number] = part
            result = function(*own, **keywords)
            if has_aux:
                result, extra = result
                aux[:] = [extra]
            return result

        value, gradients = xs[0].tape.vjp(call, xs)
        tree = _unflatten(structure, iter(_zeros(gradients, xs)))
        result = (value.detach(), aux[0]) if has_aux else value.detach()
        return result, tree[0] if isinstance(argnums, int) else tuple(tree)

    return both


def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """Return the gradient of a function of one number, as a function; see value_and_grad.

    >>> xcvm.grad(lambda x: xcvm.sum(x**3))(xcvm.asarray([1.0, 2.0]))
    """
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)

    @functools.wraps(function)
    def gradient(*args: Any, **keywords: Any) -> Any:
        for number in numbers:
            if not -len(args) <= number < len(args):
                raise TypeError(f"argument {number} to differentiate by was not given")
        xs, structure = _arrays([args[number] for number in numbers])

        def call(*variables: Any) -> Any:
            own = list(args)
            for number, part in zip(numbers, _unflatten(structure, iter(variables))):
                own[number] = part
            return function(*own, **keywords)

        tree = _unflatten(structure, iter(_zeros(xs[0].tape.vjp(call, xs)[1], xs)))
        return tree[0] if isinstance(argnums, int) else tuple(tree)

    return gradient


def _seed(seed: Any, like: Array) -> Any:
    return seed if seed is None or isinstance(seed, Variable) else operand(seed, like)


def vjp(function: Callable[..., Any], xs: Sequence[Any], seed: Any = None) -> tuple[Array, tuple[Array, ...]]:
    """Return the value of a function at arrays xs and its vector-Jacobian products with `seed`."""
    arrays, _ = _arrays(list(xs))
    value, gradients = arrays[0].tape.vjp(function, arrays, _seed(seed, arrays[0]))
    return value, tuple(_zeros(gradients, arrays))


def jvp(function: Callable[..., Any], xs: Sequence[Any], directions: Sequence[Any]) -> tuple[Array, Array]:
    """Return the value of a function at arrays xs and its change along directions."""
    arrays, _ = _arrays(list(xs))
    value, change = arrays[0].tape.jvp(function, arrays, [_seed(d, arrays[0]) for d in directions])
    return value, _zeros([change], [value])[0]


def hvp(function: Callable[..., Any], x: Any, vector: Any) -> Array:
    """Return the Hessian of a function of one number at x, times a vector."""
    (array,), _ = _arrays([x])
    return _zeros([array.tape.hvp(function, array, _seed(vector, array))], [array])[0]


def jacobian(function: Callable[..., Any], x: Any) -> Array:
    """Return the Jacobian of a function at x: the dimensions of the value, then those of x."""
    (array,), _ = _arrays([x])
    return array.tape.jacobian(function, array)


def check_gradients(function: Callable[..., Any], xs: Sequence[Any], *, order: int = 1, step: float = 0.0, rtol: float = 0.0, atol: float = 0.0, seed: int = 0) -> None:
    """Compare the derivatives of a function of one number with central differences; OutOfRange if they differ."""
    arrays, _ = _arrays(list(xs))
    arrays[0].tape.check_gradients(function, arrays, order, step, rtol, atol, seed)


# ---- Functions with own gradients ----


class CustomFunction:
    """A function with its own gradient; see custom_function."""

    def __init__(self, forward: Callable[..., Any], backward: Callable[..., Any] | None, results: int | None) -> None:
        self._forward, self._backward, self._results = forward, backward, results
        functools.update_wrapper(self, forward)

    def backward(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Set the function of the gradients, as a decorator."""
        self._backward = function
        return function

    def __call__(self, *inputs: Any) -> Any:
        tape: Any = next((v.tape for v in inputs if isinstance(v, Variable)), None) or current_tape()
        made = tape.__dict__.setdefault("_operations", {})
        operation = made.get(id(self))
        if operation is None:
            name = getattr(self._forward, "__name__", "custom")

            def gradients(*args: Any) -> Any:
                if self._backward is None:
                    raise TypeError(f"the function '{name}' has no gradient; set one with @{name}.backward")
                return self._backward(*args)

            operation = tape.operation(name, self._forward, gradients)
            made[id(self)] = operation
            made[-id(self)] = self  # so that no other function gets its number
        arrays = [v if v is None or isinstance(v, Variable) else tape.constant(v) for v in inputs]
        return operation(arrays) if self._results is None else operation(arrays, self._results)


def custom_function(forward: Callable[..., Any] | None = None, *, backward: Callable[..., Any] | None = None, results: int | None = None) -> Any:
    """Give a function its own gradient, as a decorator.

    Parameters
    ----------
    forward : callable
        Computes the result, or `results` of them, of arrays. Its calls are not recorded.
    backward : callable
        Called with (inputs, results, gradients of the results), three tuples. Returns the gradients of the inputs, None
        for zero.

    >>> @xcvm.custom_function
    ... def double(x):
    ...     return x + x
    >>> @double.backward
    ... def _(inputs, results, gradients):
    ...     return [2 * gradients[0]]
    """
    if forward is None:
        return lambda function: CustomFunction(function, backward, results)
    return CustomFunction(forward, backward, results)


# ---- Static functions ----


class _Entry:
    """The static function of one structure of arguments."""

    def __init__(self, owner: StaticFunction[Any], structure: Any) -> None:
        self.owner, self.structure = owner, structure
        self.output: Any = None
        self.count = 0
        self.static: Static | None = None
        self.tape: Any = None

    def learn(self, tape: Any, arrays: list[Any]) -> Any:
        """Run the function once to see what it returns."""
        args, keywords = _unflatten(self.structure, iter(arrays))
        result = self.owner._function(*args, **keywords)
        leaves: list[Any] = []
        self.output, self.count = _flatten(result, leaves), len(leaves)
        self.tape = tape
        made: Static = tape.static(self._run, name=self.owner.__name__, log=self.owner._note, **self.owner._options)
        made.set_enabled(self.owner._enabled)
        made.set_checking(self.owner._checking)
        self.static = made
        return result

    def _run(self, *variables: Any) -> list[Any]:
        args, keywords = _unflatten(self.structure, iter(variables))
        leaves: list[Any] = []
        output = _flatten(self.owner._function(*args, **keywords), leaves)
        if output != self.output:
            raise TypeError(f"static function '{self.owner.__name__}' returned {output}, and {self.output} before")
        return leaves


class StaticFunction(Generic[_T]):
    """A function that makes the same calls each time, which run as a compiled program; see static."""

    __name__: str

    def __init__(self, function: Callable[..., _T], entries: int, options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.__name__ = getattr(function, "__name__", "static")
        self._function, self._limit, self._options = function, entries, options
        self._entries: dict[Any, _Entry] = {}
        self._log: list[str] = []
        self._enabled, self._checking = True, False

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _note(self, level: int, text: str) -> None:
        self._log.append(text)
        del self._log[:-100]

    def __call__(self, *args: Any, **keywords: Any) -> _T:
        leaves: list[Any] = []
        structure = _flatten((args, keywords), leaves)
        tape = next((v.tape for v in leaves if isinstance(v, Variable)), None) or current_tape()
        arrays = [v if isinstance(v, Variable) else tape.constant(v) for v in leaves]
        try:
            entry = self._entries.get((structure, id(tape)))
        except TypeError:
            raise TypeError(f"static function '{self.__name__}': arguments that are no arrays must be hashable") from None
        if entry is None:
            if len(self._entries) >= self._limit:
                del self._entries[next(iter(self._entries))]
            entry = self._entries[structure, id(tape)] = _Entry(self, structure)
            return entry.learn(tape, arrays)
        assert entry.static is not None
        return _unflatten(entry.output, iter(entry.static(arrays, entry.count)))

    def enable(self, enabled: bool = True) -> None:
        """Set whether programs run; otherwise each call runs the function."""
        self._enabled = enabled
        for entry in self._entries.values():
            if entry.static is not None:
                entry.static.set_enabled(enabled)

    def check(self, checking: bool = True) -> None:
        """Set whether each call also runs the function and compares it with what was recorded; see report."""
        self._checking = checking
        for entry in self._entries.values():
            if entry.static is not None:
                entry.static.set_checking(checking)

    def end_forward(self) -> None:
        """Free the activations of calls that no backward pass will visit."""
        for entry in self._entries.values():
            if entry.static is not None:
                entry.static.end_forward()

    def reset(self) -> None:
        """Remove all programs."""
        self._entries.clear()

    def report(self) -> dict[str, Any]:
        """Return counts of runs, recordings, replays and differences, and the latest messages in `log`."""
        total: dict[str, Any] = {}
        for entry in self._entries.values():
            for key, count in entry.static.info().items() if entry.static is not None else ():
                total[key] = total.get(key, 0) + count
        total["structures"] = len(self._entries)
        total["log"] = list(self._log)
        return total

    def dump(self) -> str:
        """Return all programs as text."""
        return "\n".join(entry.static.dump() for entry in self._entries.values() if entry.static is not None)

    def save(self, *, states: bool = False, continue_states: bool = False) -> bytes:
        """Return the program that was used last, for `xcvm.load`; see docs/tape-static.md."""
        if not self._entries:
            raise ValueError(f"static function '{self.__name__}' was not called")
        last = list(self._entries.values())[-1].static
        assert last is not None
        return last.save(states, continue_states)


def static(
    function: Callable[..., Any] | None = None,
    *,
    cache_limit: int = 0,
    minimize_cache_size: bool = False,
    force_test_define_by_run: bool = False,
    double_backprop: bool = False,
    optimization: int = 0,
    verbosity: int = 0,
    structures: int = 16,
) -> Any:
    """Make a function static, as a decorator: it is recorded, and later calls run a compiled program.

    The first call with arguments of a structure runs the function; the second records it. Arguments are arrays, nests of
    them, and hashable values. Another value, structure, type or shape is another recording. The function may compute
    gradients and take an optimizer step. What it decides by elements on the host stays as it was recorded; `check` finds
    such decisions.

    Parameters
    ----------
    cache_limit : int
        Most programs to keep for a structure; 0 is 16.
    structures : int
        Most structures of arguments to keep.
    double_backprop : bool
        Allow gradients of gradients; such calls run one by one.
    verbosity : int
        What `report()["log"]` has: 0 warnings, 1 recordings too, 2 every call.

    >>> @xcvm.static
    ... def step(x, y):
    ...     loss = cross_entropy(model(x), y)
    ...     loss.backward()
    ...     optimizer.step()
    ...     optimizer.zero_grad()
    ...     return loss
    """
    options = {
        "cache_limit": cache_limit,
        "minimize_cache_size": minimize_cache_size,
        "force_test_define_by_run": force_test_define_by_run,
        "double_backprop": double_backprop,
        "optimization": optimization,
        "verbosity": verbosity,
    }
    if function is None:
        return lambda own: StaticFunction(own, structures, options)
    return StaticFunction(function, structures, options)

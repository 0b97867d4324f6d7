"""Programs and sessions."""

from __future__ import annotations

from . import _run
from ._run import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from typing import Any

    from .profile import Profile

__all__ = ["Program", "Session", "load"]


def _shape_text(parameter: _run.Parameter) -> str:
    shape = parameter.shape
    if parameter.kind != "tensor" or shape is None:
        return f"{parameter.name}: {parameter.kind} {parameter.dtype}".rstrip()
    return f"{parameter.name}: {parameter.dtype}[{', '.join('?' if size is None else str(size) for size in shape)}]"


class Program(_run.Program):
    """A loaded program, which can be called.

    A call takes arrays by position or by name and returns a `Tensor`, or a tuple of them if the program has several
    outputs. Any number of threads may call a program at once. A program with states starts each call with their initial
    values; a `Session` keeps them.

    Parameters
    ----------
    source : path or bytes
        The program. A file is mapped and must not change while the program lives.
    copy : bool
        Read the file instead of mapping it.
    libraries : bool
        Open the kernel library of the program, if it has one.
    library_dir : str, optional
        The directory of kernel libraries; by default that of the file.
    isa : str, optional
        The instruction set of the kernels; by default the best of this CPU.
    threads : int
        Threads of a run; 0 means as many as the machine allows.
    memory_limit : int
        Bytes that a session may hold; 0 means no limit.

    Attributes
    ----------
    inputs, outputs, states : tuple of Parameter
        Names, element types and shapes.
    info : dict
        Facts about the program, such as the number of instructions.
    """

    __slots__ = ("_arguments", "report", "__weakref__")

    report: Any

    def __init__(self, source: str | bytes | os.PathLike[str], **options: Any) -> None:
        self._arguments: tuple[Any, dict[str, Any]] = (source, options)

    @property
    def source(self) -> Any:
        """The path or bytes that the program was loaded from."""
        return self._arguments[0]

    def run(
        self, inputs: Mapping[str, Any] | None = None, /, *, timeout: float | None = None, fuel: int = 0
    ) -> dict[str, Any]:
        """Run the program.

        Parameters
        ----------
        inputs : mapping
            Arrays by the names of the inputs.
        timeout : float, optional
            Seconds after which the run ends with `OutOfTime`.
        fuel : int
            The most instructions to execute; 0 means no limit.

        Returns
        -------
        dict
            Tensors by the names of the outputs.
        """
        outputs = self._run(dict(inputs or {}), timeout=timeout, fuel=fuel)
        return {output.name: value for output, value in zip(self.outputs, outputs)}

    def session(self, **options: Any) -> Session:
        """Return a new session. The options are those of `Session`."""
        return Session(self, **options)

    def profile(self, *args: Any, runs: int = 1, **inputs: Any) -> Profile:
        """Run the program in a new session and return the times of its instructions."""
        return Session(self).profile(*args, runs=runs, **inputs)

    def disassemble(self, literal_limit: int = 0, explain: bool = False) -> str:
        """Return the program's text assembly."""
        source = self._arguments[0]
        path = None
        if not isinstance(source, bytes):
            import os

            path = os.fspath(source)
            with open(path, "rb") as file:
                source = file.read()
        return _run._disassemble(source, literal_limit, explain, path)

    def __repr__(self) -> str:
        inputs = ", ".join(map(_shape_text, self.inputs))
        outputs = ", ".join(map(_shape_text, self.outputs))
        return f"<xcvm.Program ({inputs}) -> ({outputs})>"

    def _repr_svg_(self) -> str:
        from .show import program_svg

        return program_svg(self)

    def __reduce__(self) -> tuple[Any, ...]:
        source, options = self._arguments
        return _restore_program, (type(self), source, options)

    def __copy__(self) -> Program:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Program:
        return self


def _restore_program(kind: type[Program], source: Any, options: dict[str, Any]) -> Program:
    return kind(source, **options)


class Session(_run.Session):
    """A program in execution: its states, memory, threads and bound outputs.

    A session serves one call at a time. A second call at the same time raises `InvalidArgument`.

    Parameters
    ----------
    program : Program
    threads : int
        Threads of a run; 0 means as many as the machine allows.
    memory_limit : int
        Bytes that the session may hold; 0 means no limit.
    seed : int
        Seed of random instructions that have none of their own.
    strict_types : bool
        Check every result against the compiler's types.
    flush_subnormals : bool
        Treat subnormal numbers as zero.
    release_lock : bool
        Release the interpreter lock during runs. Without it, short runs do not wait for other Python threads.
    functions : dict
        Host functions by name: callables that take tensors and return an array, or a tuple of arrays.
    print : callable
        Receives the text of Print instructions.
    states_of : Session
        A session whose states of the same name and type are shared.
    """

    __slots__ = ("_options", "__weakref__")

    def __init__(self, program: Program, **options: Any) -> None:
        self._options = options

    def run(
        self, inputs: Mapping[str, Any] | None = None, /, *, timeout: float | None = None, fuel: int = 0
    ) -> dict[str, Any]:
        """Run the program once; parameters and result as of `Program.run`."""
        outputs = self._run(dict(inputs or {}), timeout=timeout, fuel=fuel)
        return {output.name: value for output, value in zip(self.program.outputs, outputs)}

    def profile(
        self, *args: Any, runs: int = 1, spans: bool = False, timeout: float | None = None, **inputs: Any
    ) -> Profile:
        """Run the program `runs` times and return the times of its instructions.

        With `spans`, the profile has the work of each thread.
        """
        from .profile import Profile

        feeds = {parameter.name: array for parameter, array in zip(self.program.inputs, args)}
        if len(args) > len(self.program.inputs):
            raise TypeError(f"the program has {len(self.program.inputs)} inputs, but {len(args)} were given")
        for name, array in inputs.items():
            if name in feeds:
                raise TypeError(f"input {name!r} is given twice")
            feeds[name] = array
        events, _ = self._profile(feeds, runs=runs, spans=spans, timeout=timeout)
        return Profile(events)

    @property
    def states(self) -> dict[str, Tensor]:
        """Copies of all states by name."""
        return {state.name: self.state(state.name) for state in self.program.states}

    def __repr__(self) -> str:
        return f"<xcvm.Session of {self.program!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._options.get("states_of") is not None:
            raise TypeError("a session that shares states cannot be pickled")
        states = bytes(self.save_states()) if self.program.states else None
        return _restore_session, (type(self), self.program, self._options, states)


def _restore_session(
    kind: type[Session], program: Program, options: dict[str, Any], states: bytes | None
) -> Session:
    session = kind(program, **options)
    if states is not None:
        session.restore_states(states)
    return session


def load(source: str | bytes | os.PathLike[str], **options: Any) -> Program:
    """Load a program from a path or bytes.

    Parameters
    ----------
    source : path or bytes
        A program, as `xcvm compile` and `xcvm.compile` make.
    **options
        The options of `Program`.

    Returns
    -------
    Program

    Raises
    ------
    InvalidProgram
        The file is no program, or it is damaged.
    InputOutputError
        The file cannot be read.
    """
    return Program(source, **options)

"""Compiling, checking and exporting models."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from . import _compiler
from ._options import compiler_options
from ._run import Parameter, Tensor
from .errors import InvalidModel, from_status
from .program import Program
from .show import Progress

__all__ = ["CFiles", "Check", "Report", "check", "compile", "default_inputs", "export_c", "image", "lists"]

Names = str | Iterable[str]
Pairs = str | Mapping[str, str] | Iterable[Any]


class Report(SimpleNamespace):
    """Memory and arithmetic of a compilation, with the members of xcc_report, and the compiler's diagnostics.

    Attributes
    ----------
    nodes_before, nodes_after, flops_before, flops_after, peak_bytes_before, peak_bytes_after, ... : int
        Counts before and after the compilation; dynamic dimensions count as 1, and `exact` is False then.
    diagnostics : list of (str, str)
        Kind and text of each diagnostic, as ("state", "..."): the kinds of xcc_diagnostic_kind in lower case.
    """

    diagnostics: list[tuple[str, str]]


def _source(model: Any) -> Any:
    """Return the path or bytes of a model: a path, a directory with one model, bytes, or an onnx.ModelProto; or a recording."""
    if type(model).__name__ == "Recorded":
        return model
    if hasattr(model, "SerializeToString"):
        return model.SerializeToString()
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    path = os.fspath(model)
    if os.path.isdir(path):
        found = sorted(name for name in os.listdir(path) if name.endswith(".onnx"))
        if len(found) != 1 and "model.onnx" not in found:
            raise InvalidModel(f"{path}: the directory has {len(found)} files of models (*.onnx); expected one, or model.onnx")
        return os.path.join(path, found[0] if len(found) == 1 else "model.onnx")
    return path


@contextmanager
def _as_file(model: Any) -> Iterator[str]:
    source = _source(model)
    if not isinstance(source, bytes):
        yield source
        return
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(source)
        file.flush()
        yield file.name


def _replace_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file that appears whole or not at all."""
    name = os.fspath(path)
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(name) or ".", prefix=os.path.basename(name))
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, name)
    except BaseException:
        os.unlink(temporary)
        raise


def _warn(kind: str, text: str) -> None:
    import warnings

    if kind in ("training_form", "statistics"):
        hint = "; inference=True takes the model in inference form" if kind == "training_form" else ""
        warnings.warn(text + hint, stacklevel=3)


def _compile_once(source: Any, options: dict[str, Any], callbacks: dict[str, Any]) -> tuple[bytes, bytes, Report]:
    diagnostics: list[tuple[str, str]] = []
    functions: dict[str, Any] = {**callbacks, "diagnostics": lambda kind, text: diagnostics.append((kind, text))}
    with Progress("compile") as bar:
        if functions.get("progress") is None and bar.visible:
            functions["progress"] = bar.report
        if isinstance(source, (str, bytes)):
            program, data, numbers = _compiler.compile(source, options, functions)
        else:
            program, data, numbers = source.compile(options, functions)
    for kind, text in diagnostics:
        _warn(kind, text)
    return program, data, Report(**numbers, diagnostics=diagnostics)


def is_source(model: Any) -> bool:
    """Tell whether a model is a function, module or object with Python source, not a file."""
    if isinstance(model, (str, bytes, bytearray, memoryview, os.PathLike)) or hasattr(model, "SerializeToString"):
        return False
    return callable(model) or hasattr(model, "forward")


def _recorded(
    model: Any,
    examples: tuple[Any, ...],
    keywords: Mapping[str, Any] | None,
    dims: Mapping[str, Any] | None,
    unroll: int,
    fresh: bool,
    keep: str | Iterable[str],
) -> Any:
    from .source import record

    return record(model, examples, keywords or {}, dims, unroll, fresh, keep)


def compile(
    model: Any,
    *examples: Any,
    keywords: Mapping[str, Any] | None = None,
    dims: Mapping[str, Any] | None = None,
    unroll: int = 8,
    fresh: bool = False,
    keep: str | Iterable[str] = (),
    output: str | os.PathLike[str] | None = None,
    emit: str = "program",
    schedule: str | None = None,
    target: str | None = None,
    cc: str | None = None,
    keep_c: str | os.PathLike[str] | None = None,
    backprop: bool = False,
    train: str | None = None,
    wrt: Names | None = None,
    loss: str | None = None,
    state: Pairs | None = None,
    state_pairs: Names | None = None,
    caches: str | None = None,
    cache_rows: int | None = None,
    two_phase: bool = False,
    order: int | None = None,
    straight_through: bool = False,
    vjp: Pairs | None = None,
    strip: bool = False,
    report: bool = False,
    dump_after: str | None = None,
    list_passes: bool = False,
    weights_file: str | os.PathLike[str] | None = None,
    arena_in: str | None = None,
    with_main: bool = False,
    dim: str | Mapping[str, int] | Iterable[Any] | None = None,
    flush_subnormals: bool = False,
    optimize: int | None = None,
    inference: bool = False,
    layout: str | None = None,
    weights: str | None = None,
    activations: str | None = None,
    compute: str | None = None,
    integer: str | None = None,
    keep_input: Names | None = None,
    group: str | Mapping[str, Any] | Iterable[str] | None = None,
    clip_norm: float | None = None,
    clip_value: float | None = None,
    average: float | None = None,
    loss_scale: float | None = None,
    ignore_label: int | None = None,
    accumulate: bool = False,
    all_reduce: bool = False,
    local_batch_normalization: bool = False,
    evaluate: bool = False,
    train_batch_normalization: bool = False,
    recompute: str | None = None,
    memory_budget: int | str | None = None,
    tune: bool = False,
    kernel_library: bool = False,
    max_memory: int | str | None = None,
    timeout_ms: float | None = None,
    progress: Callable[[str, float], object] | None = None,
    dump: Callable[[str], object] | None = None,
) -> Any:
    """Compile a model.

    The options are those of ``xcvm compile``, whose manual page describes them, with ``_`` for ``-``. Lists may be lists,
    pairs dicts, and sizes integers.

    Parameters
    ----------
    model : path, bytes, onnx.ModelProto, or callable
        An ONNX model, or a directory that has one. Or a torch.nn.Module, an object with a method ``forward`` or
        ``__call__``, or a function: its Python source is compiled, with control flow.
    *examples : array, int, float, bool, str, None, list, tuple, dict
        For source: arguments like those that the program will have. Arrays and numbers are inputs, texts and None
        constants; ``xcvm.const(x)`` makes anything a constant.
    keywords : mapping, optional
        For source: keyword arguments, as `examples`.
    dims : mapping, optional
        For source: open dimensions, as ``{"x": {0: xcvm.dim("n")}}``. Other sizes are those of the examples.
    unroll : int
        For source: loops over constant ranges of at most this many rounds are unrolled.
    fresh : bool
        For source: each call starts from the attributes, globals and lists that exist when the program is compiled, and its
        changes of them are dropped. Without it, source that reads and changes them is refused.
    keep : str or list of str
        For source: attributes of the object, as ``["h", "cell.c"]``, that keep their values from call to call. They are inputs
        ``self_h`` and outputs ``next0`` of the program; calls pass them on. ``program.kept`` has the values, and
        ``program.reset()`` the first ones.
    output : path, optional
        A file that the result is written to as well. With `emit` "c", NAME.c, beside which NAME.h is written.
    emit : {"program", "c", "onnx"}
        What is made.
    progress : callable, optional
        Called with the name of the current pass and the finished fraction. An exception ends the compilation. By default a
        bar is shown in terminals and notebooks.
    dump : callable, optional
        Called with the text of `dump_after`, which is printed otherwise.

    Returns
    -------
    Program
        With attribute `report`. With `emit` "c", a `CFiles`; with "onnx", the bytes of the model; with `two_phase`, the
        forward and the backward program; with `list_passes`, the list of passes.

    Raises
    ------
    InvalidModel
        The file is no model, or it contradicts itself.
    Unsupported
        The model has nodes that cannot be compiled; the message names all.
    """
    given = dict(locals())
    if is_source(model):
        model = _recorded(model, examples, keywords, dims, unroll, fresh, keep)
    elif examples or keywords or dims or keep:
        raise TypeError("example arguments belong to functions and modules, not to files of models")
    own = ("model", "examples", "keywords", "dims", "unroll", "fresh", "keep", "output", "emit", "two_phase", "report", "list_passes", "weights_file", "arena_in", "with_main", "kernel_library", "progress", "dump")
    if list_passes:
        return lists()["passes"]
    options = compiler_options({name: value for name, value in given.items() if name not in own})
    callbacks = {"progress": progress, "dump": dump or (lambda text: print(text, end="")) if dump_after else None}
    source = _source(model)
    if emit not in ("program", "c", "onnx"):
        raise ValueError(f"emit: {emit!r} is not one of program, c, onnx")
    if emit == "onnx":
        return _emit_onnx(source, options, callbacks, output, weights_file)
    if emit == "c":
        options.pop("target", None)
        data, _, _ = _compile_once(source, options, callbacks)
        own_weights = weights_file is not None
        return export_c(
            data, output=output, target=target, arena_in=arena_in, with_main=with_main, weights_file=weights_file, own_weights=own_weights
        )
    if (kernel_library or keep_c is not None) and output is None:
        raise ValueError("a kernel library goes beside its program, which needs a file: give output")
    if two_phase:
        return tuple(
            _finish_program(source, {**options, "phase": phase}, callbacks, _phase_path(output, phase), False)
            for phase in ("forward", "backward")
        )
    return _finish_program(source, options, callbacks, output, kernel_library or keep_c is not None)


def _phase_path(output: str | os.PathLike[str] | None, phase: str) -> str | None:
    if output is None:
        return None
    stem, extension = os.path.splitext(os.fspath(output))
    return os.fspath(output) if phase == "forward" else f"{stem}.backward{extension}"


def _finish_program(
    source: Any, options: dict[str, Any], callbacks: dict[str, Any], output: str | os.PathLike[str] | None, kernel_library: bool
) -> Program:
    if kernel_library and output is not None:
        options["kernel_library"] = os.path.splitext(os.fspath(output))[0] + ".so"
    content, _, report = _compile_once(source, options, callbacks)
    if output is not None:
        _replace_file(output, content)
    where: Any = os.fspath(output) if output is not None else content
    program: Program
    if isinstance(source, (str, bytes)):
        program = Program(where)
    else:
        from .source import SourceProgram

        program = SourceProgram(where, source)
    program.report = report
    return program


def _emit_onnx(
    source: Any,
    options: dict[str, Any],
    callbacks: dict[str, Any],
    output: str | os.PathLike[str] | None,
    weights_file: str | os.PathLike[str] | None,
) -> bytes:
    options = {"optimization": 1, **options, "onnx": True}
    if weights_file is not None:
        options["onnx_data_location"] = os.path.basename(os.fspath(weights_file))
    content, data, _ = _compile_once(source, options, callbacks)
    if weights_file is not None:
        _replace_file(weights_file, data)
    if output is not None:
        _replace_file(output, content)
    return content


def to_onnx(model: Any, *examples: Any, **options: Any) -> bytes:
    """Write a function, module or object as an ONNX model, with its control flow.

    The arguments are those of `compile`.

    Returns
    -------
    bytes
        The model. Operators beyond ONNX belong to the domain of ONNX+.
    """
    every: dict[str, Any] = {"emit": "onnx", **options}
    return bytes(compile(model, *examples, **every))


def const(value: Any) -> Any:
    """Mark an example argument of `compile` as a constant of the program."""
    from .source import Constant

    return Constant(value)


def dim(name: str) -> Any:
    """Name an open dimension for the option ``dims`` of `compile`. Equal names are equal sizes."""
    from .source import Dim

    return Dim(name)


class Check(SimpleNamespace):
    """Whether a model compiles. True if it does.

    Attributes
    ----------
    status : str
        "OK", or the name of the status of compiling.
    text : str
        The reasons, or the model's opsets, inputs, outputs, parameters, flops and memory.
    """

    status: str
    text: str

    def __bool__(self) -> bool:
        return self.status == "OK"

    def __str__(self) -> str:
        return self.text


def check(
    model: Any,
    *,
    backprop: bool = False,
    loss: str | None = None,
    dim: str | Mapping[str, int] | Iterable[Any] | None = None,
    flush_subnormals: bool = False,
    optimize: int | None = None,
    inference: bool = False,
    layout: str | None = None,
    weights: str | None = None,
    activations: str | None = None,
    compute: str | None = None,
    integer: str | None = None,
    keep_input: Names | None = None,
    state_pairs: Names | None = None,
    cache_rows: int | None = None,
    caches: str | None = None,
    max_memory: int | str | None = None,
    timeout_ms: float | None = None,
    copy: bool = False,
    no_libraries: bool = False,
    library_dir: str | None = None,
    isa: str | None = None,
) -> Check:
    """Tell whether a model compiles, and what it is; or verify a program.

    The options are those of ``xcvm check``. The last four apply to programs.

    Returns
    -------
    Check
        True if the model compiles; otherwise its text has every reason.
    """
    given = dict(locals())
    if isinstance(model, (str, os.PathLike)) and os.path.isfile(model):
        with open(model, "rb") as file:
            start = file.read(1 << 16)
    else:
        start = bytes(model)[: 1 << 16] if isinstance(model, (bytes, bytearray)) else b""
    if _compiler.recognize(start) == "program":
        program = Program(model, copy=copy, libraries=not no_libraries, library_dir=library_dir, isa=isa)
        facts = "".join(f"{name}: {value}\n" for name, value in program.info.items())
        return Check(status="OK", text=f"{program!r}\n{facts}")
    own = ("model", "copy", "no_libraries", "library_dir", "isa")
    options = compiler_options({name: value for name, value in given.items() if name not in own})
    with _as_file(model) as path:
        status, name, text, message = _compiler.check(path, options)
    if name not in ("OK", "UNSUPPORTED"):
        raise from_status(status, message, -1, "", "")
    return Check(status=name, text=text)


class CFiles(SimpleNamespace):
    """A program as C.

    Attributes
    ----------
    source, header : str
        C99 that needs only libm.
    weights : bytes
        The constants, if they have a file of their own.
    """

    source: str
    header: str
    weights: bytes


def export_c(
    program: Any,
    *,
    output: str | os.PathLike[str] | None = None,
    name: str | None = None,
    header_name: str | None = None,
    target: str | None = None,
    arena_in: str | None = None,
    with_main: bool = False,
    weights_file: str | os.PathLike[str] | None = None,
    own_weights: bool = False,
) -> CFiles:
    """Export a program as reentrant C99 that needs only libm and does not allocate.

    Parameters
    ----------
    program : Program or bytes
    output : path, optional
        NAME.c, which the source is written to; the header is written to NAME.h beside it.
    name : str, optional
        The prefix of all declarations; by default the name of the file, or "net".
    header_name : str, optional
        The name of the included header.
    target : str, optional
        The instruction set of vector code, as "x86-64-v3"; by default C for any processor.
    arena_in : str, optional
        The name of an array of the host that holds the working memory, or of a section of the linker.
    with_main : bool
        Add a main that reads the inputs from files.
    weights_file : path, optional
        A file that the constants are written to, instead of into the source.
    own_weights : bool
        Return the constants apart from the source.
    """
    if output is not None:
        stem = os.path.splitext(os.path.basename(os.fspath(output)))[0]
        name = name or stem
        header_name = header_name or stem + ".h"
    source, header, weights = _compiler.export_c(
        _program_bytes(program), name, header_name, target, arena_in, with_main, own_weights or weights_file is not None
    )
    if output is not None:
        _replace_file(os.path.join(os.path.dirname(os.fspath(output)), header_name or "net.h"), header)
        _replace_file(output, source)
    if weights_file is not None:
        _replace_file(weights_file, weights)
    return CFiles(source=source.decode(), header=header.decode(), weights=weights)


def _program_bytes(program: Any) -> bytes:
    source = program.source if isinstance(program, Program) else program
    if isinstance(source, bytes):
        return source
    with open(source, "rb") as file:
        return file.read()


def default_inputs(model: Any) -> list[str]:
    """Return the names of the inputs of a model that have a default, which `keep_input` keeps."""
    return list(_compiler.default_inputs(_source(model)))


def image(source: str | bytes | os.PathLike[str], parameter: Parameter | None = None) -> Tensor:
    """Read an image as a tensor.

    Parameters
    ----------
    source : path or bytes
        PNG, JPEG, WebP, TIFF, BMP, PGM, PPM or JPEG 2000.
    parameter : Parameter, optional
        The input that the image is for, as ``program.inputs[0]``: its type and shape decide element type, layout and
        size. Floats range from 0 to 1. By default u8, height x width x channels.
    """
    if not isinstance(source, bytes):
        with open(source, "rb") as file:
            source = file.read()
    wanted = None
    if parameter is not None:
        shape = parameter.shape
        if shape is not None and len(shape) == 4 and not isinstance(shape[0], int):
            shape = (1, *shape[1:])
        wanted = (1, parameter.dtype, shape)
    return _compiler.image(source, wanted)


def lists() -> dict[str, list[Any]]:
    """Return what the compiler has: passes, operators, optimizers, losses, recomputations, metrics, schedules."""
    return _compiler.lists()

"""Quantizing models to integers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

from . import _compiler, _data, _options
from ._run import Parameter
from .compiling import Names, _replace_file, _source, compile as compile_model
from .program import Program
from .show import Progress

__all__ = ["Quantization", "QuantizedNode", "QuantizedOutput", "QuantizedTensor", "quantize"]


class QuantizedTensor(NamedTuple):
    """A quantized activation. Errors are magnitudes, and `sqnr` is in dB."""

    name: str
    op: str
    low: float
    high: float
    least: float
    greatest: float
    scale: float
    zero_point: int
    sqnr: float
    max_error: float
    mean_error: float


class QuantizedNode(NamedTuple):
    """A node considered for quantization, and why it stayed float.

    `kept` is true if a bound keeps the node in float, and `weights_alone` if it keeps only its activations so. The errors `..._after` are those
    of the outputs with this node and all more harmful ones in floats. `weights_harm` is the harm of its weights alone. They are NaN where they
    were not measured.
    """

    name: str
    op: str
    quantized: bool
    reason: str
    harm: float
    kept: bool = False
    max_error_after: float = float("nan")
    mean_error_after: float = float("nan")
    agree_after: float = float("nan")
    weights_alone: bool = False
    weights_harm: float = float("nan")


class QuantizedOutput(NamedTuple):
    """An output compared with the float model; errors are shares of its range."""

    name: str
    least: float
    greatest: float
    max_error: float
    mean_error: float
    sqnr: float
    agree: float
    decisions: bool
    predicted_error: float
    predicted_agree: float


class Quantization:
    """A quantized model and what was measured.

    Attributes
    ----------
    model : bytes
        The quantized ONNX model.
    report : dict
        Counts, as of xcc_quantizer_report.
    tensors, nodes, outputs : list
        Of `QuantizedTensor`, `QuantizedNode` and `QuantizedOutput`. Tensors come in ascending order of `sqnr`.
    """

    def __init__(self, model: bytes, report: dict[str, Any], tensors: Any, nodes: Any, outputs: Any, rows: int = 10) -> None:
        self.model = model
        self.report = report
        self.tensors = [QuantizedTensor(*row) for row in tensors]
        self.nodes = [QuantizedNode(*row) for row in nodes]
        self.outputs = [QuantizedOutput(*row) for row in outputs]
        self._rows = rows

    def program(self, **options: Any) -> Program:
        """Compile the quantized model; the options are those of `xcvm.compile`."""
        program: Program = compile_model(self.model, **options)
        return program

    def __repr__(self) -> str:
        return f"<xcvm.Quantization: {self.report['quantized_nodes']} of {self.report['node_count']} nodes>"

    def __str__(self) -> str:
        shown = self._rows or len(self.tensors)
        lines = [repr(self)]
        lines += [f"{o.name}: error {o.max_error:.2%} of the range, {o.sqnr:.1f} dB, agree {o.agree:.2%}" for o in self.outputs]
        lines += [f"{t.name}: {t.sqnr:.1f} dB, scale {t.scale:g}" for t in self.tensors[:shown]]
        lines += [f"{n.name} ({n.op}) stays float: {n.reason}" for n in self.nodes if not n.quantized]
        return "\n".join(lines)


def _agreement(value: str | float | None) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, str):
        return {"min_agreement": float(value)}
    output, _, share = value.rpartition("=")
    return {"min_agreement": float(share), "agreement_output": output or None}


def _batches(data: Any, columns: list[_data.Column], batch: int, samples: int, stack: ExitStack) -> Callable[[list[Parameter]], Any]:
    """Return a function that opens the data once the inputs of the model are known."""

    def prepare(inputs: list[Parameter]) -> Any:
        if data is None:
            return None
        if not isinstance(data, (str, os.PathLike, Mapping)) and not all(isinstance(item, (str, os.PathLike)) for item in data):
            batches = [[item[p.name] for p in inputs] if isinstance(item, Mapping) else list(item) for item in data]
            return len(batches), lambda index: batches[index]
        opened = _compiler.Dataset(_data.declared(inputs), stack.enter_context(_data.paths(data)), columns)
        first = inputs[0].shape[0] if inputs[0].shape else None
        size = batch or (first if isinstance(first, int) else 8)
        count = min(opened.examples, samples or opened.examples)

        def read(index: int) -> list[Any]:
            begin = index * size
            return opened.read(begin, min(size, count - begin))

        # A model of a fixed size cannot read what is left over.
        return (count // size if isinstance(first, int) else -(-count // size)), read

    return prepare


def quantize(
    model: Any,
    *,
    data: Any = None,
    input: str | Mapping[str, str] | Iterable[Any] | None = None,  # noqa: A002 - the command's name
    batch: int = 0,
    samples: int = 0,
    held_out: float | None = None,
    method: str | None = None,
    percentile: float | None = None,
    averaging: float | None = None,
    form: str | None = None,
    activations: str | None = None,
    weights: str | None = None,
    block: int | None = None,
    rounding: str | None = None,
    per_tensor: bool = False,
    symmetric_activations: bool = False,
    asymmetric_weights: bool = False,
    equalize: bool = False,
    no_channel_scaling: bool = False,
    correct_bias: bool = False,
    training_form: bool = False,
    nodes: Names | None = None,
    exclude_nodes: Names | None = None,
    types: Names | None = None,
    exclude_types: Names | None = None,
    max_error: float | None = None,
    max_mean_error: float | None = None,
    min_agreement: str | float | None = None,
    sensitivity: bool = False,
    output: str | os.PathLike[str] | None = None,
    picture: str | os.PathLike[str] | None = None,
    rows: int = 10,
    dim: str | Mapping[str, int] | Iterable[Any] | None = None,
    threads: int = 0,
    max_memory: int | str | None = None,
    timeout: float | None = None,
    trainable: bool = False,
    progress: Callable[[str, float], object] | None = None,
) -> Quantization:
    """Quantize a float model to one that computes on integers.

    The options are those of ``xcvm quantize``, whose manual page describes them, with ``_`` for ``-``.

    Parameters
    ----------
    model : path, bytes or onnx.ModelProto
    data : path, list of paths, dict of arrays, or list of batches, optional
        Calibration data. A batch is a dict or a list of arrays, one for each input. Without data, the ranges of
        activations are computed in each run, and nothing is measured.
    input : dict, optional
        Names of the arrays of inputs, where they differ.
    output : path, optional
        The quantized model, or, if the name does not end in .onnx, a program of it.
    trainable : bool
        Prepare the model for training with rounding.
    progress : callable, optional
        Called with what is done and the finished fraction. An exception ends the work.

    Returns
    -------
    Quantization
    """
    if picture is not None:
        raise NotImplementedError("picture: the command draws it: xcvm quantize --picture")
    given = dict(locals())
    own = ("model", "data", "input", "batch", "samples", "min_agreement", "output", "picture", "rows", "dim", "max_memory", "timeout", "progress")
    options = {name: value for name, value in given.items() if name not in own and value is not None and value is not False}
    for name in ("nodes", "exclude_nodes", "types", "exclude_types"):
        if name in options:
            options[name] = _options.names(options[name])
    options.update(_agreement(min_agreement))
    if dim is not None:
        options["dims"] = _options.dims(dim)
    if max_memory is not None:
        options["memory_limit"] = _options.size(max_memory)
    if timeout is not None:
        options["timeout_ns"] = int(timeout * 1e9)
    with ExitStack() as stack:
        prepare = _batches(data, _data.columns(input), batch, samples, stack)
        bar = stack.enter_context(Progress("quantize"))
        if progress is None and bar.visible:
            progress = bar.report
        result = Quantization(*_compiler.quantize(_source(model), options, {"progress": progress}, prepare), rows)
    if output is not None:
        if os.fspath(output).endswith(".onnx"):
            _replace_file(output, result.model)
        else:
            compile_model(result.model, output=output)
    return result

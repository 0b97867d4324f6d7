"""Training models."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

from . import _compiler, _data, _options
from ._run import Parameter, Tensor
from .compiling import Names, _replace_file, _source, compile as compile_model
from .program import Program
from .show import Progress

__all__ = ["Trainer", "Training", "train"]


class Training:
    """A trained model and its history.

    Attributes
    ----------
    model : bytes
        The trained ONNX model, in inference form unless `training_form` was given.
    report : dict
        The end, the steps and epochs, and the results of the last epoch.
    steps : list of dict
        Number, epoch, learning rate, loss and metrics of each step.
    epochs : list of dict
        Means over each epoch, and its validation.
    """

    def __init__(self, model: bytes, report: dict[str, Any], steps: list[dict[str, Any]], epochs: list[dict[str, Any]]) -> None:
        self.model = model
        self.report = report
        self.steps = steps
        self.epochs = epochs

    @property
    def history(self) -> dict[str, Any]:
        """Arrays over the steps: "step", "epoch", "rate", "loss" and each metric."""
        import numpy as np

        names = list(dict.fromkeys(name for step in self.steps for name in step))
        return {name: np.array([step.get(name, np.nan) for step in self.steps]) for name in names}

    def program(self, **options: Any) -> Program:
        """Compile the trained model; the options are those of `xcvm.compile`."""
        program: Program = compile_model(self.model, **options)
        return program

    def __repr__(self) -> str:
        result = self.report.get("validation") or self.report.get("training") or {}
        metrics = "".join(f", {name} {value:.4g}" for name, value in result.get("metrics", {}).items())
        loss = f", loss {result['loss']:.4g}" if "loss" in result else ""
        return f"<xcvm.Training: {self.report['steps']} steps, {self.report['epochs']} epochs{loss}{metrics}>"


class Trainer:
    """A model in training, for loops of one's own.

    Parameters
    ----------
    model : path, bytes or onnx.ModelProto
    optimizer : str
        As "adam:lr=1e-3".
    loss : str, optional
        An output of one element, or a loss to add, as "softmax_cross_entropy".
    **options
        Options of `train` that do not concern data, files and epochs.
    """

    def __init__(self, model: Any, optimizer: str = "adam:lr=1e-3", loss: str | None = None, **options: Any) -> None:
        left = {**options, "optimizer": optimizer, "loss": loss}
        compile_options, own = _split(left)
        if left:
            raise TypeError(f"Trainer has no option {sorted(left)[0]!r}")
        self._trainer = _compiler.Trainer(_source(model), compile_options, own, {"diagnostics": _warn})

    @property
    def inputs(self) -> list[Parameter]:
        """The values of a batch: the model's inputs, and the labels of an added loss."""
        return self._trainer.inputs

    @property
    def steps(self) -> int:
        """The number of steps taken."""
        return self._trainer.steps

    def step(self, *batch: Any, rate_factor: float = 0.0, gather: bool = False) -> dict[str, Any]:
        """Train on a batch, one array for each of `inputs`, and return loss, metrics and the norm of the gradients.

        The norm is NaN if the options neither clip by it nor scale the loss.
        """
        return self._trainer.step(list(batch), rate_factor, gather)

    def evaluate(self, *batch: Any) -> dict[str, Any]:
        """Return loss and metrics of a batch, in inference form."""
        return self._trainer.evaluate(list(batch))

    @property
    def parameters(self) -> dict[str, Tensor]:
        """Copies of all parameters by name."""
        return self._trainer.parameters()

    def set_parameter(self, name: str, array: Any) -> None:
        """Replace a parameter."""
        self._trainer.set_parameter(name, array)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save a checkpoint, from which training goes on bit for bit."""
        self._trainer.save(path)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Restore a checkpoint."""
        self._trainer.restore(path)

    def export(self) -> bytes:
        """Return the trained model as bytes of ONNX."""
        return self._trainer.export()


def _warn(kind: str, text: str) -> None:
    if kind in ("statistics", "weights"):
        warnings.warn(text, stacklevel=2)


_own_names = ("threads", "seed", "init", "weights", "training_form")
_compile_names = (
    "loss", "group", "clip_norm", "clip_value", "average", "loss_scale", "ignore_label", "recompute", "memory_budget", "dim",
    "optimize", "max_memory", "local_batch_normalization",
)  # fmt: skip


def _split(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return options of the compiler and of the trainer, and take them out of the dict."""
    compile_options = _options.compiler_options({name: options.get(name) for name in _compile_names})
    compile_options["train"] = options.pop("optimizer")
    if options.get("train") is not None:
        compile_options["wrt"] = _options.names(options["train"])
    compile_options["train_batch_normalization"] = not options.pop("keep_batch_normalization", False)
    compile_options["accumulate"] = options.pop("accumulate", 1) > 1
    compile_options["straight_through"] = bool(options.pop("quantize", False))
    own = {name: options[name] for name in _own_names if options.get(name) not in (None, False)}
    metric = options.pop("metric", None)
    own["metrics"] = _options.names(metric) if metric is not None else ["auto"]
    _, label = _data.label_column(options.pop("label", None))
    own["label"] = label
    if options.get("max_memory") is not None:
        own["memory_limit"] = _options.size(options["max_memory"])
    for name in (*_own_names, *_compile_names, "train"):
        options.pop(name, None)
    return compile_options, own


class _History:
    """Collects progress, and calls the functions of the caller."""

    def __init__(self, progress: Callable[[dict[str, Any]], object] | None, epoch: Callable[[dict[str, Any]], object] | None) -> None:
        self.steps: list[dict[str, Any]] = []
        self.epochs: list[dict[str, Any]] = []
        self._progress = progress
        self._epoch = epoch

    def __call__(self, event: dict[str, Any]) -> object:
        batch = event["batch"] or {"loss": float("nan"), "metrics": {}}
        self.steps.append(
            {"step": event["step"], "epoch": event["epoch"], "rate": event["rate"], "loss": batch["loss"], **batch["metrics"]}
        )
        results: list[object] = []
        if self._progress is not None:
            results.append(self._progress(event))
        if event["epoch_ends"]:
            self.epochs.append({"epoch": event["epoch"], "training": event["training"], "validation": event["validation"]})
            if self._epoch is not None:
                results.append(self._epoch(self.epochs[-1]))
        return False if False in results else None


def train(
    model: Any,
    *,
    data: Any,
    input: str | Mapping[str, str] | Iterable[Any] | None = None,  # noqa: A002 - the command's name
    label: str | None = None,
    batch: int = 0,
    no_shuffle: bool = False,
    validation: Any = None,
    loss: str | None = None,
    optimizer: str = "adam:lr=1e-3",
    schedule: str | None = None,
    epochs: int = 0,
    steps: int = 0,
    accumulate: int = 1,
    train: Names | None = None,
    keep_batch_normalization: bool = False,
    local_batch_normalization: bool = False,
    quantize: bool = False,
    init: str | None = None,
    weights: str | os.PathLike[str] | None = None,
    metric: Names | None = None,
    patience: int = 0,
    end_weights: str | None = None,
    overfit_batch: bool = False,
    seed: int = 0,
    group: str | Mapping[str, Any] | Iterable[str] | None = None,
    clip_norm: float | None = None,
    clip_value: float | None = None,
    average: float | None = None,
    loss_scale: float | None = None,
    ignore_label: int | None = None,
    recompute: str | None = None,
    memory_budget: int | str | None = None,
    output: str | os.PathLike[str] | None = None,
    training_form: bool = False,
    log: str | os.PathLike[str] | None = None,
    curve: str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 0,
    keep: int = 3,
    resume: bool = False,
    dry_run: bool = False,
    dim: str | Mapping[str, int] | Iterable[Any] | None = None,
    threads: int = 0,
    optimize: int | None = None,
    max_memory: int | str | None = None,
    progress: Callable[[dict[str, Any]], object] | None = None,
    epoch: Callable[[dict[str, Any]], object] | None = None,
) -> Training:
    """Train a model on data.

    The options are those of ``xcvm train``, whose manual page describes them, with ``_`` for ``-``.

    Parameters
    ----------
    model : path, bytes or onnx.ModelProto
    data : path, list of paths, or dict of arrays
        The examples.
    input, label : dict and str, optional
        Names of the arrays of inputs, as {"image": "images"}, and of the labels, as "label=labels".
    validation : path, dict of arrays, or float, optional
        Data to evaluate after each epoch, or the share of the data that is kept for it.
    output : path, optional
        The trained model, or, if the name does not end in .onnx, a program of it.
    progress, epoch : callable, optional
        Called after each step, and after each epoch. False ends the training after the step; an exception ends it as
        well, and is raised.

    Returns
    -------
    Training
    """
    options = dict(locals())
    for name in ("model", "data", "input", "batch", "no_shuffle", "validation", "schedule", "epochs", "steps", "patience", "end_weights",
                 "overfit_batch", "output", "log", "curve", "checkpoint", "checkpoint_every", "keep", "resume", "dry_run", "progress", "epoch"):  # fmt: skip
        del options[name]
    if resume and checkpoint is None:
        raise ValueError("resume needs checkpoint, the directory to go on from")
    source = _source(model)
    columns = _data.columns(input) + _data.label_column(label)[0]
    share = validation if isinstance(validation, float) else 0.0
    writes = not dry_run
    fit = {
        "epochs": epochs, "steps": steps, "batch": batch, "no_shuffle": no_shuffle, "accumulate": accumulate, "schedule": schedule,
        "held_out": share, "patience": patience, "weights": end_weights, "overfit_batch": overfit_batch,
        "log": log if writes else None, "curve": curve if writes else None, "checkpoints": checkpoint if writes else None,
        "checkpoint_every": checkpoint_every, "keep": keep, "resume": resume,
    }  # fmt: skip
    with ExitStack() as stack:
        files = stack.enter_context(_data.paths(data))
        if quantize:
            source = _rounded(source, files, columns, dim, threads, max_memory)
        compile_options, own = _split(options)
        bar = stack.enter_context(Progress("train"))
        if progress is None and bar.visible:
            progress = bar.report_step
        history = _History(progress, epoch)
        functions = {"diagnostics": _warn, "progress": history}
        trainer = _compiler.Trainer(source, compile_options, own, functions)
        training_data = trainer.open(files, columns)
        held = None
        if validation is not None and not share:
            held = trainer.open(stack.enter_context(_data.paths(validation)), columns)
        report = trainer.fit(training_data, held, fit)
        result = Training(trainer.export(), report, history.steps, history.epochs)
    if output is not None and writes:
        if os.fspath(output).endswith(".onnx"):
            _replace_file(output, result.model)
        else:
            compile_model(result.model, output=output)
    return result


def _rounded(source: Any, files: list[str], columns: list[_data.Column], dim: Any, threads: int, max_memory: Any) -> bytes:
    """Return the model with rounding, whose ranges come from the first examples."""
    from .quantizing import quantize as quantize_model

    names = {name: array for name, array, _ in columns if array is not None}
    return quantize_model(source, data=files, input=names, samples=512, dim=dim, threads=threads, max_memory=max_memory, trainable=True).model

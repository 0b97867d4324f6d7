"""InferenceSession: a compiled model with the interface of ONNX Runtime's."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiling import compile as compile_model
from ..errors import Error
from ..program import Program, Session as XcvmSession
from . import _model
from .binding import IOBinding
from .capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidProtobuf,
    ModelLoadCanceled,
    NoModel,
    NoSuchFile,
    RuntimeException,
    from_xcvm,
)
from .native import NativeSession
from .options import GraphOptimizationLevel, RunOptions, SessionOptions
from .values import NativeValue, OrtValue, OrtValueVector, as_array, type_of_array

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["InferenceSession", "ModelMetadata", "NodeArg", "Session"]

_PROVIDERS = ["CPUExecutionProvider"]


class NodeArg:
    """An input or output of a model.

    Attributes
    ----------
    name : str
    type : str
        As "tensor(float)".
    shape : list of int, str or None
        Numbers, names of dynamic dimensions, and None for others.
    """

    __slots__ = ("_name", "_shape", "_type")

    def __init__(self, name: str, type: str, shape: list[int | str | None]) -> None:  # noqa: A002 - ONNX Runtime's name
        self._name = name
        self._type = type
        self._shape = shape

    @property
    def name(self) -> str:
        return self._name

    @property
    def type(self) -> str:
        return self._type

    @property
    def shape(self) -> list[int | str | None]:
        return list(self._shape)

    def __repr__(self) -> str:
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"

    __str__ = __repr__


class ModelMetadata:
    """What a model says about itself."""

    def __init__(self, model: _model.Model) -> None:
        self.producer_name = model.producer_name
        self.graph_name = model.graph_name
        self.domain = model.domain
        self.description = model.description
        self.graph_description = model.graph_description
        self.version = model.version
        self.custom_metadata_map = dict(model.metadata)


def check_providers(providers: Sequence[Any] | None, options: Sequence[Any] | None = None) -> None:
    """Check providers, and warn of those that are not available, as ONNX Runtime does."""
    if providers is None:
        return
    if not isinstance(providers, Sequence):
        raise ValueError("'providers' should be a sequence.")
    if options is not None:
        if not isinstance(options, Sequence):
            raise ValueError("'provider_options' should be a sequence.")
        if len(options) != len(providers):
            raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
        if not all(isinstance(item, str) for item in providers):
            raise ValueError("Only string values for 'providers' are supported if 'provider_options' is given.")
        if not all(isinstance(item, dict) for item in options):
            raise ValueError("'provider_options' values must be dicts.")
    seen: set[str] = set()
    for item in providers:
        name = item[0] if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], dict) else item
        if not isinstance(name, str):
            raise ValueError("'providers' values must be either strings or (string, dict) tuples.")
        if name not in _PROVIDERS:
            available = ", ".join(_PROVIDERS)
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names.Available providers: '{available}'", stacklevel=3
            )
        if name in seen:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", stacklevel=3)
        seen.add(name)


def _read(path_or_bytes: Any) -> tuple[bytes, str | None]:
    if isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
        return bytes(path_or_bytes), None
    if not isinstance(path_or_bytes, (str, os.PathLike)):
        raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
    path = os.fspath(path_or_bytes)
    if os.path.isdir(path):
        raise InvalidProtobuf.of(f"Load model from {path} failed:it is a directory")
    if not os.path.exists(path):
        raise NoSuchFile.of(f"Load model from {path} failed:Load model {path} failed. File doesn't exist")
    with open(path, "rb") as file:
        return file.read(), path


class InferenceSession:
    """A model, ready to run. It may be run from many threads at once.

    Parameters
    ----------
    path_or_bytes : str, path or bytes
        An ONNX model.
    sess_options : SessionOptions, optional
    providers : sequence, optional
        Names, or pairs of a name and a dict. There is the CPU alone; others give a warning.
    """

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if sess_options is not None and sess_options._load_cancelled:
            raise ModelLoadCanceled.of("Model loading was cancelled by set_load_cancellation_flag")
        data, self._model_path = _read(path_or_bytes)
        if not data:
            kind = InvalidArgument if self._model_path is None else Fail
            raise kind.of("No graph was found in the protobuf: the model is empty")
        self._model_bytes: bytes | None = None if self._model_path is not None else data
        self._sess_options = sess_options or SessionOptions()
        self._sess_options_initial = sess_options
        check_providers(providers, provider_options)
        self._enable_fallback = True
        try:
            self._model = _model.read(data)
        except (IndexError, ValueError):
            raise InvalidProtobuf.of("Load model failed:Protobuf parsing failed.") from None
        self._defaults = {info.name for info in self._model.inputs} & self._model.initializers
        self._dims = dict(self._sess_options._dims)
        for info in self._model.inputs:
            for size, denotation in zip(info.shape or (), info.denotations):
                if isinstance(size, str) and denotation in self._sess_options._denotations:
                    self._dims.setdefault(size, self._sess_options._denotations[denotation])
        self._programs: dict[frozenset[str], Program] = {}
        self._idle: dict[Program, list[XcvmSession]] = {}
        self._lock = threading.Lock()
        self._events: list[tuple[Any, ...]] = []
        self._profiling_start = time.monotonic_ns()
        program = self._program(frozenset(self._sess_options._initializers) & self._defaults)
        self._inputs_meta = self._node_args(self._model.inputs, program.inputs, exclude=self._defaults)
        self._outputs_meta = self._node_args(self._model.outputs, program.outputs)
        self._overridable = self._node_args([info for info in self._model.inputs if info.name in self._defaults], ())
        self._input_names = [item.name for item in self._inputs_meta]
        self._output_names = [item.name for item in self._outputs_meta]
        self._feed_names = {*self._input_names, *self._defaults}
        self._expected = {item.name: item for item in [*self._inputs_meta, *self._overridable]}
        self._optional = set(self._sess_options._initializers)
        self._optional |= {item.name for item in self._inputs_meta if item.type.startswith("optional(")}
        if self._sess_options.optimized_model_filepath:
            compile_model(self._compile_source(), emit="onnx", output=self._sess_options.optimized_model_filepath)

    # ---- Compiling ----

    def _compile_source(self) -> Any:
        return self._model_path if self._model_bytes is None else self._model_bytes

    def _program(self, kept: frozenset[str]) -> Program:
        """Return the program that keeps some inputs with defaults as inputs."""
        with self._lock:
            program = self._programs.get(kept)
            if program is None:
                program = self._programs[kept] = self._compile(kept)
            return program

    def _compile(self, kept: frozenset[str]) -> Program:
        options = self._sess_options
        level = options.graph_optimization_level
        optimize = {GraphOptimizationLevel.ORT_DISABLE_ALL: 0, GraphOptimizationLevel.ORT_ENABLE_BASIC: 1}.get(level, 2)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compiled = compile_model(
                    self._compile_source(), optimize=optimize, dim=self._dims or None, keep_input=sorted(kept) or None
                )
            return Program(compiled.source, threads=max(0, options.intra_op_num_threads))
        except Error as error:
            if error.status == "INVALID_MODEL" and not self._model.outputs:
                kind = InvalidProtobuf if not self._model.graph_name else NoModel
                raise kind.of(f"Load model failed:{error}") from error
            raise from_xcvm(error, loading=True) from error

    def _node_args(self, declared: list[_model.Info], compiled: Any, exclude: set[str] = frozenset()) -> list[NodeArg]:  # type: ignore[assignment]
        """Merge what the model declares with what the compiler inferred."""
        inferred = {item.name: item for item in compiled}
        result = []
        for info in declared:
            if info.name in exclude:
                continue
            shape = info.shape
            own = inferred.get(info.name)
            known = list(own.shape) if own is not None and own.shape is not None else None
            if shape is None:
                shape = known or []
            elif known is not None and len(known) == len(shape):
                # A number that is inferred replaces a name, and a name replaces nothing.
                better = [guess if size is None or isinstance(guess, int) else size for size, guess in zip(shape, known)]
                shape = [size if isinstance(size, int) else guess for size, guess in zip(shape, better)]
            result.append(NodeArg(info.name, info.type, [self._dims.get(size, size) if isinstance(size, str) else size for size in shape]))
        return result

    # ---- Runs ----

    def run(self, output_names: Sequence[str] | None, input_feed: dict[str, Any], run_options: RunOptions | None = None) -> list[Any]:
        """Run the model.

        Parameters
        ----------
        output_names : sequence of str
            The outputs to return; None or an empty one means all.
        input_feed : dict
            Arrays by the names of the inputs.

        Returns
        -------
        list
            Arrays, lists and dicts, in the order of the names.
        """
        self._validate_input(list(input_feed.keys()))
        return self._run(list(output_names or self._output_names), input_feed, run_options)

    def _validate_input(self, names: list[str]) -> None:
        missing = [name for name in self._input_names if name not in names and name not in self._optional]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({names}).")

    def _run(self, names: list[str], feed: Any, run_options: RunOptions | None) -> list[Any]:
        if run_options is not None and run_options.terminate:
            raise Fail.of("Exiting due to terminate flag being set to true.")
        for name in names:
            if name not in self._output_names:
                raise InvalidArgument.of(f"Invalid output name: {name}")
        values = {name: self._convert(name, value) for name, value in feed.items()}
        for name, value in self._sess_options._initializers.items():
            if name in self._feed_names:
                values.setdefault(name, value._value if isinstance(value, NativeValue) else value)
        for name in self._optional.intersection(self._input_names):
            values.setdefault(name, None)
        program = self._program(frozenset(values) & frozenset(self._defaults))
        try:
            if self._sess_options.enable_profiling:
                events, results = XcvmSession(program)._profile(values)
                self._events.extend(events)
            elif run_options is not None:
                results = self._run_terminable(program, values, run_options)
            else:
                results = program._run(values)
        except Error as error:
            if error.status == "CANCELLED":
                raise Fail.of("Exiting due to terminate flag being set to true.") from error
            raise from_xcvm(error, loading=False) from error
        outputs = dict(zip(self._output_names, results))
        return [as_array(outputs[name]) for name in names]

    def _run_terminable(self, program: Program, values: dict[str, Any], run_options: RunOptions) -> list[Any]:
        """Run in a session that `terminate` of the options can cancel."""
        with self._lock:
            idle = self._idle.setdefault(program, [])
            session = idle.pop() if idle else None
        session = session or XcvmSession(program, threads=max(0, self._sess_options.intra_op_num_threads))
        run_options._running.add(session)
        try:
            # The flag may have been set between the check and the line above.
            if run_options.terminate:
                session.cancel()
            results: list[Any] = session._run(values)
        finally:
            run_options._running.discard(session)
            with self._lock:
                idle.append(session)
        return results

    def _convert(self, name: str, value: Any) -> Any:
        """Check an input as ONNX Runtime does, with its messages."""
        number = None
        if isinstance(value, NativeValue):
            value, number = value._value, value._type
        expected = self._expected.get(name)
        if expected is None:
            raise InvalidArgument.of(f"Invalid input name: {name}")
        if not expected.type.startswith("tensor("):
            return value
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
        if expected.type == "tensor(string)" and array.dtype.kind in "OUS":
            return array
        actual = type_of_array(array, number)
        raw = {"tensor(bfloat16)": "tensor(uint16)"}.get(expected.type, "tensor(uint8)" if "float8" in expected.type else "")
        if actual not in (expected.type, raw):
            if not isinstance(value, np.ndarray) and array.dtype.kind in "fiub":  # a list or number of Python
                return array.astype(_numpy_name(expected.type))
            raise InvalidArgument.of(f"Unexpected input data type. Actual: ({actual}) , expected: ({expected.type})")
        self._check_shape(expected, array.shape)
        return array

    def _check_shape(self, expected: NodeArg, shape: tuple[int, ...]) -> None:
        if not expected.shape and not any(info.name == expected.name and info.shape == [] for info in self._model.inputs):
            return
        if len(shape) != len(expected.shape):
            raise InvalidArgument.of(
                f"Invalid rank for input: {expected.name} Got: {len(shape)} Expected: {len(expected.shape)} "
                "Please fix either the inputs/outputs or the model."
            )
        wrong = [
            f" index: {i} Got: {size} Expected: {declared}"
            for i, (size, declared) in enumerate(zip(shape, expected.shape))
            if isinstance(declared, int) and declared >= 0 and declared != size
        ]
        if wrong:
            raise InvalidArgument.of(
                f"Got invalid dimensions for input: {expected.name} for the following indices\n"
                + "\n".join(wrong)
                + "\n Please fix either the inputs/outputs or the model."
            )

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, input_dict_ort_values: dict[str, OrtValue], run_options: RunOptions | None = None
    ) -> list[OrtValue]:
        """Run the model on OrtValues, and return such."""
        return [OrtValue._of(value) for value in self.run(output_names, input_dict_ort_values, run_options)]

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[NativeValue],
        fetch_names: Sequence[str],
        fetches: OrtValueVector,
        fetch_devices: Sequence[Any] = (),
    ) -> None:
        """Run the model on a vector of values, and fill another."""
        self._sess.run_with_ortvaluevector(run_options, feed_names, feeds, fetch_names, fetches, fetch_devices)

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: dict[str, Any],
        callback: Callable[[list[Any], Any, str], object],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run the model on another thread, which calls ``callback(outputs, user_data, error)``."""
        self._validate_input(list(input_feed.keys()))

        def work() -> None:
            try:
                results, message = self.run(output_names, input_feed, run_options), ""
            except Exception as error:
                results, message = [], str(error)
            callback(results, user_data, message)

        threading.Thread(target=work, daemon=True).start()

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        iobinding._iobinding._run(run_options)

    # ---- What it is ----

    @property
    def _sess(self) -> NativeSession:
        return NativeSession.of(self)

    def get_inputs(self) -> list[NodeArg]:
        return list(self._inputs_meta)

    def get_outputs(self) -> list[NodeArg]:
        return list(self._outputs_meta)

    def get_overridable_initializers(self) -> list[NodeArg]:
        return list(self._overridable)

    def get_modelmeta(self) -> ModelMetadata:
        return ModelMetadata(self._model)

    def get_session_options(self) -> SessionOptions:
        return self._sess_options

    def get_providers(self) -> list[str]:
        return list(_PROVIDERS)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return {name: {} for name in _PROVIDERS}

    def set_providers(self, providers: Sequence[Any] | None = None, provider_options: Sequence[Any] | None = None) -> None:
        check_providers(providers, provider_options)

    def disable_fallback(self) -> None:
        self._enable_fallback = False

    def enable_fallback(self) -> None:
        self._enable_fallback = True

    def get_profiling_start_time_ns(self) -> int:
        return self._profiling_start

    def end_profiling(self) -> str:
        """Write the events of all runs in ONNX Runtime's form of a Chrome trace, and return the name of the file."""
        if not self._sess_options.enable_profiling:
            return ""
        name = f"{self._sess_options.profile_file_prefix}_{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        _write_trace(name, self._events, self._profiling_start)
        return name

    def get_tuning_results(self) -> list[Any]:
        return []

    def set_tuning_results(self, results: list[Any], *, error_on_invalid: bool = False) -> None:
        """There is nothing that such results tune."""

    def __reduce__(self) -> tuple[Any, ...]:
        if self._sess_options_initial is not None:
            raise RuntimeException("a session with SessionOptions cannot be pickled; pickle its path or bytes")
        return InferenceSession, (self._compile_source(),)


Session = InferenceSession


def _write_trace(path: str, rows: Sequence[tuple[Any, ...]], origin: int) -> None:
    """Write a list of events, one a line: the runs, and in them the nodes."""
    import json

    from ..profile import Event

    def line(category: str, name: str, start: int, end: int, arguments: dict[str, str]) -> str:
        times = {"dur": (end - start) // 1000, "ts": max(0, start - origin) // 1000}
        event = {"cat": category, "pid": os.getpid(), "tid": 0, **times, "ph": "X", "name": name, "args": arguments}
        return json.dumps(event, separators=(",", " :"))

    runs: dict[int, list[Event]] = {}
    for row in rows:
        event = Event(*row)
        runs.setdefault(event.run, []).append(event)
    lines = []
    for events in runs.values():
        lines.append(line("Session", "model_run", events[0].start_ns, events[-1].end_ns, {}))
        for event in events:
            arguments = {"op_name": event.instruction, "provider": _PROVIDERS[0], "node_index": str(event.pc)}
            lines.append(line("Node", f"{event.node or event.instruction}_kernel_time", event.start_ns, event.end_ns, arguments))
    with open(path, "w") as file:
        file.write("[\n" + ",\n".join(lines) + "\n]\n")


def _numpy_name(type_string: str) -> str:
    name = type_string[len("tensor(") : -1]
    return {"float": "float32", "double": "float64"}.get(name, name)

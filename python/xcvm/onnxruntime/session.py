"""InferenceSession: a compiled model with the interface of ONNX Runtime's."""

from __future__ import annotations

import os
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiling import compile as compile_model
from ..errors import Error
from ..program import Program, Session as XcvmSession
from . import _model
from .binding import IOBinding, OrtValue, as_array, type_of_array
from .capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidProtobuf,
    NoModel,
    NoSuchFile,
    RuntimeException,
    from_xcvm,
)
from .options import GraphOptimizationLevel, RunOptions, SessionOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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

    def __init__(self, name: str, type: str, shape: list[int | str | None]) -> None:  # noqa: A002 - ONNX Runtime's name
        self.name = name
        self.type = type
        self.shape = shape

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
    """Warn of providers that are not available, as ONNX Runtime does."""
    if providers is None:
        return
    if options is not None and len(options) != len(providers):
        raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
    for item in providers:
        name = item[0] if isinstance(item, tuple) else item
        if not isinstance(name, str):
            raise ValueError(f"'providers' values must be either strings or (string, dict) tuples, not {item!r}")
        if name not in _PROVIDERS:
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names."
                f"Available providers: '{', '.join(_PROVIDERS)}'",
                stacklevel=3,
            )


def _read(path_or_bytes: Any) -> tuple[bytes, str | None]:
    if isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
        return bytes(path_or_bytes), None
    if not isinstance(path_or_bytes, (str, os.PathLike)):
        raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
    path = os.fspath(path_or_bytes)
    if not os.path.isfile(path):
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
        data, self._model_path = _read(path_or_bytes)
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
        self._programs: dict[frozenset[str], Program] = {}
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
                    self._compile_source(), optimize=optimize, dim=options._dims or None, keep_input=sorted(kept) or None
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
                shape = [size if size is not None else guess for size, guess in zip(shape, known)]
            dims = self._sess_options._dims
            result.append(NodeArg(info.name, info.type, [dims.get(size, size) if isinstance(size, str) else size for size in shape]))
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
        missing = [name for name in self._input_names if name not in names]
        missing = [name for name in missing if name not in self._optional_inputs()]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({names}).")

    def _optional_inputs(self) -> set[str]:
        added = set(self._sess_options._initializers)
        return added | {item.name for item in self._inputs_meta if item.type.startswith("optional(")}

    def _run(self, names: list[str], feed: Any, run_options: RunOptions | None) -> list[Any]:
        if run_options is not None and run_options.terminate:
            raise Fail.of("Exiting due to terminate flag being set to true.")
        for name in names:
            if name not in self._output_names:
                raise InvalidArgument.of(f"Invalid output name:{name}")
        values = {name: self._convert(name, value) for name, value in feed.items()}
        for name, value in self._sess_options._initializers.items():
            if name in self._feed_names:
                values.setdefault(name, value._value if isinstance(value, OrtValue) else value)
        for name in self._input_names:
            if name not in values and name in self._optional_inputs():
                values[name] = None
        program = self._program(frozenset(values) & frozenset(self._defaults))
        try:
            if self._sess_options.enable_profiling:
                events, results = XcvmSession(program)._profile(values)
                self._events.extend(events)
            else:
                results = program._run(values)
        except Error as error:
            raise from_xcvm(error, loading=False) from error
        outputs = dict(zip(self._output_names, results))
        return [as_array(outputs[name]) for name in names]

    def _convert(self, name: str, value: Any) -> Any:
        """Check an input as ONNX Runtime does, with its messages."""
        if isinstance(value, OrtValue):
            value = value._value
        expected = next((item for item in [*self._inputs_meta, *self._overridable] if item.name == name), None)
        if expected is None:
            raise InvalidArgument.of(f"Invalid input name: {name}")
        if not expected.type.startswith("tensor("):
            return value
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
        if expected.type == "tensor(string)" and array.dtype.kind in "OUS":
            return array
        actual = type_of_array(array)
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
        return [OrtValue(value) for value in self.run(output_names, input_dict_ort_values, run_options)]

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
        iobinding._run(run_options)

    # ---- What it is ----

    @property
    def _sess(self) -> InferenceSession:
        return self

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
        """Write the events of all runs as a Chrome trace, and return the name of the file."""
        from ..profile import Profile

        if not self._sess_options.enable_profiling:
            return ""
        name = f"{self._sess_options.profile_file_prefix}_{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        Profile(self._events).to_chrome_trace(name)
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


def _numpy_name(type_string: str) -> str:
    name = type_string[len("tensor(") : -1]
    return {"float": "float32", "double": "float64"}.get(name, name)

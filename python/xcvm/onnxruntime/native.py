"""The session class of ONNX Runtime's extension module, which some programs reach as `session._sess`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .values import NativeValue, OrtValueVector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .options import RunOptions, SessionOptions
    from .session import InferenceSession, ModelMetadata, NodeArg

__all__ = ["NativeSession"]


class NativeSession:
    """A session that is created in two steps. It delegates to an InferenceSession."""

    _python_session: InferenceSession

    def __init__(self, options: SessionOptions, model: Any, is_path: bool = True, read_config: bool = False) -> None:
        self._arguments = (model, options)

    @classmethod
    def of(cls, session: InferenceSession) -> NativeSession:
        """Return the session behind an InferenceSession."""
        made = cls.__new__(cls)
        made._python_session = session
        return made

    def initialize_session(self, providers: Sequence[str] = (), provider_options: Sequence[Any] = (), disabled: Any = ()) -> None:
        from .session import InferenceSession

        self._python_session = InferenceSession(*self._arguments, list(providers), list(provider_options) or None)

    def run(self, output_names: Sequence[str], input_feed: dict[str, Any], run_options: RunOptions | None = None) -> list[Any]:
        return self._python_session._run(list(output_names), input_feed, run_options)

    def run_with_ort_values(
        self, input_dict: dict[str, NativeValue], output_names: Sequence[str], run_options: RunOptions | None = None
    ) -> OrtValueVector:
        values = self._python_session._run(list(output_names), input_dict, run_options)
        return OrtValueVector(NativeValue._of(value) for value in values)

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[NativeValue],
        fetch_names: Sequence[str],
        fetches: OrtValueVector,
        fetch_devices: Sequence[Any] = (),
    ) -> None:
        fetches[:] = self.run_with_ort_values(dict(zip(feed_names, feeds)), fetch_names, run_options)

    def run_async(
        self,
        output_names: Sequence[str],
        input_feed: dict[str, Any],
        callback: Callable[[list[Any], Any, str], object],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        self._python_session.run_async(output_names, input_feed, callback, user_data, run_options)

    def run_with_iobinding(self, iobinding: Any, run_options: RunOptions | None = None) -> None:
        iobinding._run(run_options)

    def end_profiling(self) -> str:
        return self._python_session.end_profiling()

    def get_providers(self) -> list[str]:
        return self._python_session.get_providers()

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return self._python_session.get_provider_options()

    def get_tuning_results(self) -> list[Any]:
        return []

    def set_tuning_results(self, results: list[Any], error_on_invalid: bool = False) -> None:
        """There is nothing that such results tune."""

    @property
    def get_profiling_start_time_ns(self) -> int:
        return self._python_session.get_profiling_start_time_ns()

    @property
    def inputs_meta(self) -> list[NodeArg]:
        return self._python_session.get_inputs()

    @property
    def outputs_meta(self) -> list[NodeArg]:
        return self._python_session.get_outputs()

    @property
    def overridable_initializers(self) -> list[NodeArg]:
        return self._python_session.get_overridable_initializers()

    @property
    def model_meta(self) -> ModelMetadata:
        return self._python_session.get_modelmeta()

    @property
    def session_options(self) -> SessionOptions:
        return self._python_session.get_session_options()

"""SessionOptions, RunOptions and their enumerations."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "OrtAllocatorType",
    "OrtMemType",
    "RunOptions",
    "SessionOptions",
]


class _Enumeration(IntEnum):
    """An enumeration that prints as one of an extension class."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class GraphOptimizationLevel(_Enumeration):
    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(_Enumeration):
    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(_Enumeration):
    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class OrtAllocatorType(_Enumeration):
    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(_Enumeration):
    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class _Attributes:
    """Attributes of fixed names and types, as of an extension class."""

    _defaults: dict[str, Any] = {}

    def __init__(self) -> None:
        object.__setattr__(self, "_entries", {})
        for name, value in self._defaults.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        default = self._defaults.get(name)
        if default is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if isinstance(default, IntEnum):
            accepted = isinstance(value, type(default))
        elif isinstance(default, int):
            accepted = isinstance(value, int) or hasattr(value, "__index__") or (isinstance(default, bool) and hasattr(value, "__bool__"))
        else:
            accepted = True
        if not accepted:
            raise TypeError(f"{name} must be {type(default).__name__}, not {type(value).__name__}")
        if isinstance(default, bool):
            value = bool(value)
        if isinstance(default, str) and not isinstance(value, str):
            import os

            if not isinstance(value, os.PathLike):
                raise TypeError(f"{name} must be str, not {type(value).__name__}")
            value = os.fspath(value)
        object.__setattr__(self, name, value)

    def _add_entry(self, key: str, value: str) -> None:
        self._entries[str(key)] = str(value)

    def _get_entry(self, key: str, what: str) -> str:
        if key not in self._entries:
            raise RuntimeError(f"{what} does not have configuration with key: {key}")
        return str(self._entries[key])

    _entries: dict[str, str]


class SessionOptions(_Attributes):
    """Options of a session.

    `intra_op_num_threads`, `graph_optimization_level`, `enable_profiling`, `profile_file_prefix` and
    `optimized_model_filepath` have an effect, as have free dimension overrides and added initializers. The other
    attributes are accepted: what they tune does not exist here.
    """

    enable_cpu_mem_arena: bool
    enable_mem_pattern: bool
    enable_mem_reuse: bool
    enable_profiling: bool
    execution_mode: ExecutionMode
    execution_order: ExecutionOrder
    graph_optimization_level: GraphOptimizationLevel
    inter_op_num_threads: int
    intra_op_num_threads: int
    log_severity_level: int
    log_verbosity_level: int
    logid: str
    optimized_model_filepath: str
    profile_file_prefix: str
    use_deterministic_compute: bool
    use_per_session_threads: bool

    _defaults = {
        "enable_cpu_mem_arena": True,
        "enable_mem_pattern": True,
        "enable_mem_reuse": True,
        "enable_profiling": False,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": ExecutionOrder.DEFAULT,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "inter_op_num_threads": 0,
        "intra_op_num_threads": 0,
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "optimized_model_filepath": "",
        "profile_file_prefix": "onnxruntime_profile_",
        "use_deterministic_compute": False,
        "use_per_session_threads": True,
    }

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "_dims", {})
        object.__setattr__(self, "_denotations", {})
        object.__setattr__(self, "_initializers", {})

    _dims: dict[str, int]
    _denotations: dict[str, int]
    _initializers: dict[str, Any]

    def add_session_config_entry(self, key: str, value: str) -> None:
        self._add_entry(key, value)

    def get_session_config_entry(self, key: str) -> str:
        return self._get_entry(key, "SessionOptions")

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        self._dims[name] = int(size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Set the size of the named dimensions of inputs that have this denotation."""
        self._denotations[denotation] = int(size)

    def add_initializer(self, name: str, value: Any) -> None:
        self._initializers[name] = value

    def add_external_initializers(self, names: list[str], values: list[Any]) -> None:
        if len(names) != len(values):
            raise RuntimeError("Expecting initializers and names to be of the same length")
        self._initializers.update(zip(names, values))

    def add_external_initializers_from_files_in_memory(self, names: Any, buffers: Any, lengths: Any) -> None:
        raise NotImplementedError("files of weights in memory are not supported; write them beside the model")

    def register_custom_ops_library(self, path: str) -> None:
        raise NotImplementedError("libraries of custom operators are not supported: they are built for ONNX Runtime's C API")

    def add_provider(self, name: str, options: dict[str, str]) -> None:
        """Accepted: every session computes on the CPU."""

    def add_provider_for_devices(self, devices: Any, options: dict[str, str]) -> None:
        """Accepted: every session computes on the CPU."""

    def set_provider_selection_policy(self, policy: Any) -> None:
        """Accepted: every session computes on the CPU."""

    def set_provider_selection_policy_delegate(self, delegate: Any) -> None:
        """Accepted: every session computes on the CPU."""

    def set_load_cancellation_flag(self, flag: bool) -> None:
        """End sessions that are being created with these options, and refuse new ones."""
        object.__setattr__(self, "_load_cancelled", bool(flag))

    _load_cancelled = False

    def has_providers(self) -> bool:
        return False


class RunOptions(_Attributes):
    """Options of runs. `terminate` ends the runs that use them, and lets further ones fail."""

    log_severity_level: int
    log_verbosity_level: int
    logid: str
    only_execute_path_to_fetches: bool
    terminate: bool
    training_mode: bool

    _defaults = {
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "only_execute_path_to_fetches": False,
        "terminate": False,
        "training_mode": False,
    }

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "_running", set())

    _running: set[Any]  # sessions that run with these options

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "terminate" and self.terminate:
            for session in list(self._running):
                session.cancel()

    def add_run_config_entry(self, key: str, value: str) -> None:
        self._add_entry(key, value)

    def get_run_config_entry(self, key: str) -> str:
        return self._get_entry(key, "RunOptions")

    def add_active_adapter(self, adapter: Any) -> None:
        raise NotImplementedError("LoRA adapters are not supported")

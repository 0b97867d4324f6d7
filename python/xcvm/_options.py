"""The command's options as the compiler's: names as of `xcvm compile`, with ``_`` for ``-``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Options = dict[str, Any]


def size(value: int | str) -> int:
    """Return bytes of 1000, "64K", "512M" or "2G"."""
    if isinstance(value, int):
        return value
    match = re.fullmatch(r"(\d+)([KMG]?)", value)
    if match is None:
        raise ValueError(f"{value!r} is no size; wanted 1000, '64K', '512M' or '2G'")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]


def names(value: str | Iterable[str]) -> list[str]:
    """Return a list of "a,b" or ["a", "b"]."""
    parts = [value] if isinstance(value, str) else value
    return [name for part in parts for name in part.split(",") if name]


def pairs(value: str | Mapping[str, str] | Iterable[Any], separator: str) -> list[tuple[str, str]]:
    """Return pairs of a dict, of pairs, or of texts with a separator."""
    if isinstance(value, Mapping):
        return list(value.items())
    result = []
    for item in [value] if isinstance(value, str) else value:
        if isinstance(item, str):
            first, found, second = item.rpartition(separator)
            if not found:
                raise ValueError(f"{item!r}: two names with {separator!r} between them are needed")
            result.append((first, second))
        else:
            first, second = item
            result.append((first, second))
    return result


def dims(value: str | Mapping[str, int] | Iterable[Any]) -> list[tuple[str, int]]:
    return [(name, int(number)) for name, number in pairs(value, "=")]


def groups(value: str | Mapping[str, Any] | Iterable[str]) -> list[tuple[str, float, float | None]]:
    """Return (pattern, rate, weight decay) of "PATTERN:lr=0.1,weight_decay=0", or of a dict of dicts."""
    result = []
    for pattern, settings in pairs(value, ":"):
        read: Any = settings
        numbers = dict(part.split("=") for part in read.split(",")) if isinstance(read, str) else dict(read)
        unknown = set(numbers) - {"lr", "weight_decay"}
        if unknown:
            raise ValueError(f"group {pattern!r}: there is no setting {unknown.pop()!r}; there are lr and weight_decay")
        decay = numbers.get("weight_decay")
        result.append((pattern, float(numbers.get("lr", 1.0)), None if decay is None else float(decay)))
    return result


def _weights(value: str) -> Options:
    return {"weight_blocks": value} if value in ("q8", "q4", "q4a") else {"weights": value}


def _choice(member: str, **values: Any) -> Callable[[str], Options]:
    def convert(value: str) -> Options:
        if value not in values:
            raise ValueError(f"{value!r} is not one of {', '.join(values)}")
        return {member: values[value]}

    return convert


# What an option of the command sets, if that is not the option of the same name.
_conversions: dict[str, Callable[[Any], Options]] = {
    "schedule": lambda value: {"scheduling": value},
    "optimize": lambda value: {"optimization": int(value) or -1},
    "layout": _choice("plain_layout", blocked=False, plain=True),
    "activations": _choice("integer_activations", f32=False, int8=True),
    "weights": _weights,
    "dim": lambda value: {"dims": dims(value)},
    "keep_input": lambda value: {"default_inputs": names(value)},
    "wrt": lambda value: {"wrt": names(value)},
    "state": lambda value: {"states": pairs(value, ":")},
    "state_pairs": lambda value: {"state_patterns": names(value)},
    "vjp": lambda value: {"vjps": pairs(value, "=")},
    "group": lambda value: {"groups": groups(value)},
    "ignore_label": lambda value: {"ignore_label": int(value), "own_ignore_label": True},
    "memory_budget": lambda value: {"memory_budget": size(value)},
    "max_memory": lambda value: {"memory_limit": size(value)},
    "timeout_ms": lambda value: {"timeout_ns": int(value * 1000000)},
}


def compiler_options(given: Mapping[str, Any]) -> Options:
    """Return the compiler's options of the command's. None and False stand for what is not given."""
    result: Options = {}
    for name, value in given.items():
        if value is None or value is False:
            continue
        try:
            result.update(_conversions[name](value) if name in _conversions else {name: value})
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None
    return result

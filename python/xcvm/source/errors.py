"""Errors of compiling from source: collected with their places, and raised together."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..errors import Unsupported


class Place(NamedTuple):
    """A span of source: lines count from 1, columns (in characters) from 1, and `end_column` is behind the last."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str

    def __str__(self) -> str:
        if self.end_line == self.line:
            return f"{self.file}:{self.line}:{self.column}-{self.end_column}"
        return f"{self.file}:{self.line}:{self.column}-{self.end_line}:{self.end_column}"


class Problem(NamedTuple):
    """One thing that cannot be compiled."""

    place: Place
    reason: str
    hint: str
    calls: tuple[tuple[str, Place], ...]  # innermost last: function and where it was called

    def __str__(self) -> str:
        lines = [f"{self.place}: {self.reason}" if self.place.line else self.reason]
        if self.hint:
            lines[0] += f". {self.hint}"
        if self.place.text:
            lines.append(f"    {self.place.text}")
        calls = [f"  in {name}, called at {place}" if place.line else f"  in {name}" for name, place in reversed(self.calls)]
        lines += calls if len(calls) <= 8 else [*calls[:4], f"  ... {len(calls) - 7} more calls", *calls[-3:]]
        return "\n".join(lines)


class SourceErrors(Unsupported):
    """What cannot be compiled, all at once.

    Attributes
    ----------
    problems : list of Problem
        Place, reason, hint and call stack of each.
    """

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        count = len(problems)
        head = "the source has a construct" if count == 1 else f"the source has {count} constructs"
        super().__init__(f"{head} that cannot be compiled\n" + "\n".join(map(str, problems)))


class Refusal(Exception):
    """Raised inside the interpreter where something cannot be compiled. An empty reason means it was reported."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


class NeedsConstant(Refusal):
    """A run-time value where a compile-time one is needed. A loop of known length is then unrolled."""


class Undecided(Refusal):
    """A list or dict has other contents on other paths, which a branch must tell apart."""

    def __init__(self, owner: Any, key: Any, choice: Any) -> None:
        super().__init__("this list or dict has other contents on another path", "Give it as many items, or the same keys, on both")
        self.owner = owner
        self.key = key
        self.choice = choice


class PythonError(Exception):
    """An exception that the interpreted program raises at this point."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known name that is nearest, or nothing."""
    found = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.7)
    return f"Did you mean '{found[0]}'?" if found else ""

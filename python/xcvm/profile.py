"""Profiles: the events of runs as a table, and as a trace for Perfetto."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["Event", "Profile", "Row"]


class Event(NamedTuple):
    """One executed instruction. Times are nanoseconds of the monotonic clock."""

    run: int
    pc: int
    instruction: str
    node: str
    start_ns: int
    end_ns: int
    flops: int
    bytes_read: int
    bytes_written: int
    live_bytes: int
    spans: tuple[tuple[int, int, int], ...]  # worker, start_ns, end_ns

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


class Row(NamedTuple):
    """All events of one instruction, or of one kind of instruction."""

    name: str
    node: str
    calls: int
    total_ns: int
    share: float
    flops: int

    @property
    def gflops(self) -> float:
        """Floating-point operations per nanosecond; 0 if unknown."""
        return self.flops / self.total_ns if self.total_ns else 0.0


class Profile:
    """Times of instructions, over one or more runs.

    Iteration gives the rows of `table`. `print(profile)` prints them.

    Attributes
    ----------
    events : list of Event
        In the order of execution.
    """

    def __init__(self, events: Sequence[tuple[Any, ...]]) -> None:
        self.events = [Event(*event) for event in events]

    @property
    def total_ns(self) -> int:
        """Time within instructions, of all runs."""
        return sum(event.duration_ns for event in self.events)

    @property
    def runs(self) -> int:
        return max((event.run for event in self.events), default=-1) + 1

    def table(self, by: str = "instruction") -> list[Row]:
        """Return rows, the greatest time first.

        Parameters
        ----------
        by : {"instruction", "kind", "node"}
            Whether a row is one instruction of the program, all instructions of a name, or all of a node of the model.
        """
        keys: dict[str, Callable[[Event], tuple[int, str, str]]] = {
            "instruction": lambda event: (event.pc, event.instruction, event.node),
            "kind": lambda event: (0, event.instruction, ""),
            "node": lambda event: (0, event.node, event.node),
        }
        if by not in keys:
            raise ValueError(f"by must be one of {sorted(keys)}, not {by!r}")
        sums: dict[tuple[int, str, str], list[int]] = {}
        for event in self.events:
            row = sums.setdefault(keys[by](event), [0, 0, 0])
            row[0] += 1
            row[1] += event.duration_ns
            row[2] += event.flops
        total = self.total_ns or 1
        rows = [
            Row(name, node, count, time, time / total, flops) for (_, name, node), (count, time, flops) in sums.items()
        ]
        return sorted(rows, key=lambda row: -row.total_ns)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.table())

    def __len__(self) -> int:
        return len(self.events)

    def __str__(self) -> str:
        lines = [f"{'instruction':24} {'calls':>7} {'us':>10} {'share':>7} {'GFLOP/s':>8}  node"]
        for row in self.table():
            speed = f"{row.gflops:8.2f}" if row.flops else " " * 8
            microseconds = row.total_ns / 1000
            lines.append(f"{row.name:24} {row.calls:7} {microseconds:10.1f} {row.share:7.1%} {speed}  {row.node}".rstrip())
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<xcvm.Profile of {self.runs} runs, {len(self.events)} events, {self.total_ns / 1000:.1f} us>"

    def _repr_html_(self) -> str:
        from .show import profile_html

        return profile_html(self)

    def to_chrome_trace(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the events as JSON of Chrome's trace format, for https://ui.perfetto.dev.

        Parameters
        ----------
        path : path, optional
            A file to write the JSON to as well.
        """
        import json

        origin = min((event.start_ns for event in self.events), default=0)
        events: list[dict[str, Any]] = []
        for event in self.events:
            arguments = {
                "pc": event.pc,
                "node": event.node,
                "flops": event.flops,
                "bytes_read": event.bytes_read,
                "bytes_written": event.bytes_written,
                "live_bytes": event.live_bytes,
            }
            events.append(_trace_event(event.instruction, "instruction", 0, event.start_ns, event.end_ns, origin))
            events[-1]["args"] = arguments
            for worker, start, end in event.spans:
                events.append(_trace_event(event.instruction, "thread", worker + 1, start, end, origin))
        text = json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return text


def _trace_event(name: str, category: str, thread: int, start: int, end: int, origin: int) -> dict[str, Any]:
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "pid": 1,
        "tid": thread,
        "ts": (start - origin) / 1000,
        "dur": (end - start) / 1000,
    }

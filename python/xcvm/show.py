"""Pictures and tables for notebooks, and the progress of long work.

A program shows its graph, a profile its timeline and table, and an array its values, since IPython calls their `_repr_svg_` and
`_repr_html_`. The functions here return the same text for files.
"""

from __future__ import annotations

import re
import sys
import time
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ._run import Tensor
    from .profile import Event, Profile
    from .program import Program

__all__ = ["Progress", "profile_html", "program_svg", "tensor_html"]


# ---- The graph of a program ----

MOST_BOXES = 400  # a larger program is drawn up to this instruction
_BOX_HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 34, 16, 26, 12
_LINE = re.compile(
    r"(?:(?P<results>[^=()\"]+) = )?(?P<name>\w+)\((?P<operands>(?:\"(?:[^\"\\]|\\.)*\"|[^()\"])*)\)(?P<rest>.*)"
)
_REGISTER = re.compile(r"\$(\d+)")
_TARGET = re.compile(r"to=(\w+)")
_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_COLORS = {"data": "#dbe9f9", "state": "#e6def5", "control": "#fdf0cf", "product": "#d9f0dc", "other": "#f1f1f1"}


class _Box:
    """An instruction in the picture."""

    def __init__(self, name: str, caption: str, title: str, kind: str) -> None:
        self.name, self.caption, self.title, self.kind = name, caption, title, kind
        self.sources: list[_Box] = []
        self.targets: list[_Box] = []  # of jumps
        self.rank = 0
        self.x = self.y = 0.0
        self.width = max(len(name) * 7.6, len(caption) * 5.6) + 18


def _kind(name: str) -> str:
    if name in ("In", "Out"):
        return "data"
    if name in ("Load", "Store"):
        return "state"
    if name.startswith("Jmp"):
        return "control"
    return "product" if any(part in name for part in ("Conv", "Gemm", "MatMul", "Attention", "LSTM", "GRU", "RNN")) else "other"


class _Step:
    """An instruction of the text: its box (none for Free), the registers that it reads, writes and frees, and its jump."""

    def __init__(self, box: _Box | None, reads: list[str], writes: list[str], frees: list[str], target: str | None, falls: bool) -> None:
        self.box, self.reads, self.writes, self.frees, self.target, self.falls = box, reads, writes, frees, target, falls


def _read_steps(text: str) -> tuple[list[_Step], dict[str, int], int]:
    """Read text assembly. Returns instructions, labels, and the number of instructions that are not drawn."""
    steps: list[_Step] = []
    labels: dict[str, int] = {}
    count = left = 0
    for line in text.split("\n\n", 1)[-1].splitlines():
        if re.fullmatch(r"\w+:", line):
            labels[line[:-1]] = len(steps)
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        name, operands, rest = match["name"], match["operands"], match["rest"]
        registers = list(dict.fromkeys(_REGISTER.findall(operands)))
        if count == MOST_BOXES:
            left += name != "Free"
        elif name == "Free":
            steps.append(_Step(None, [], [], registers, None, True))
        else:
            count += 1
            declared = re.search(r" type=(\S+)", rest)
            argument = re.search(f"name={_QUOTED}", operands)
            node = re.search(f" node={_QUOTED}", rest)
            caption = argument[1] if argument is not None else declared[1].split(",")[0] if declared is not None else ""
            caption = caption if len(caption) <= 28 else caption[:27] + "…"
            box = _Box(name, caption, line if node is None else f"{node[1]}\n{line}", _kind(name))
            target = _TARGET.search(operands)
            written = _REGISTER.findall(match["results"] or "")
            steps.append(_Step(box, registers, written, [], target[1] if target is not None else None, name != "Jmp"))
    return steps, labels, left


def _connect(steps: list[_Step], labels: dict[str, int]) -> None:
    """Find the writers that reach each reader, along all jumps (reaching definitions), and connect the boxes."""
    reaching: list[dict[str, set[int]]] = [{} for _ in steps]
    waiting = [0] if steps else []
    seen: set[int] = set()
    while waiting:
        at = waiting.pop()
        seen.add(at)
        step = steps[at]
        after = {register: set(writers) for register, writers in reaching[at].items() if register not in step.frees}
        after.update({register: {at} for register in step.writes})
        following = [at + 1] if step.falls else []
        if step.target in labels:
            following.append(labels[step.target])
        for to in following:
            if to >= len(steps):
                continue
            known = reaching[to]
            before = sum(map(len, known.values()))
            for register, writers in after.items():
                known.setdefault(register, set()).update(writers)
            if to not in seen or sum(map(len, known.values())) != before:
                waiting.append(to)
    for at, step in enumerate(steps):
        if step.box is None:
            continue
        found = sorted({writer for register in step.reads for writer in reaching[at].get(register, ())})
        step.box.sources = [box for box in (steps[writer].box for writer in found) if box is not None]
        if step.target in labels:
            step.box.targets = [later.box for later in steps[labels[step.target] :] if later.box is not None][:1]


def _read_boxes(text: str) -> tuple[list[_Box], int]:
    """Read text assembly. Returns the boxes in the order of the program, and the number of instructions that are not drawn."""
    steps, labels, left = _read_steps(text)
    _connect(steps, labels)
    return [step.box for step in steps if step.box is not None], left


def _place(boxes: list[_Box]) -> tuple[float, float]:
    """Place boxes in rows: each below its sources, and after the jumps before it. Returns the size of the picture."""
    floor = 0
    placed: set[int] = set()
    for box in boxes:
        # Sources further down are those of a loop's earlier rounds.
        box.rank = max([floor, *(source.rank + 1 for source in box.sources if id(source) in placed)])
        placed.add(id(box))
        if box.kind == "control":
            floor = box.rank + 1
    rows: dict[int, list[_Box]] = {}
    for box in boxes:
        rows.setdefault(box.rank, []).append(box)
    for number, rank in enumerate(sorted(rows)):
        row = rows[rank]
        middle = {id(box): sum(source.x for source in box.sources) / len(box.sources) if box.sources else 0.0 for box in row}
        row.sort(key=lambda box: middle[id(box)])
        x = -(sum(box.width for box in row) + _GAP_X * (len(row) - 1)) / 2
        for box in row:
            box.x, box.y = x + box.width / 2, float(number * (_BOX_HEIGHT + _GAP_Y))
            x += box.width + _GAP_X
    left = min((box.x - box.width / 2 for box in boxes), default=0.0) - _MARGIN
    for box in boxes:
        box.x -= left
        box.y += _MARGIN
    width = max((box.x + box.width / 2 for box in boxes), default=0.0) + _MARGIN
    height = max((box.y + _BOX_HEIGHT for box in boxes), default=0.0) + _MARGIN
    return width, height


def _edge(source: _Box, to: _Box, dashed: bool) -> str:
    y, end = source.y + _BOX_HEIGHT, to.y
    bend = max(12.0, abs(end - y) / 2)
    style = ' stroke-dasharray="4 3"' if dashed else ""
    return (
        f'<path d="M{source.x:.0f} {y:.0f}C{source.x:.0f} {y + bend:.0f} {to.x:.0f} {end - bend:.0f} {to.x:.0f} {end:.0f}"'
        f'{style} marker-end="url(#xcvm-arrow)"/>'
    )


def program_svg(program: Program) -> str:
    """Return a picture of a program's instructions and of the values between them, as SVG.

    Constants and Free are left out. Dashed lines are jumps. A program of more than `MOST_BOXES` instructions is drawn up to there.
    """
    boxes, left = _read_boxes(program.disassemble(1))
    width, height = _place(boxes)
    note = f"{left} more instructions are not drawn" if left else ""
    if note:
        height += 20
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        'font-family="sans-serif" text-anchor="middle">',
        '<defs><marker id="xcvm-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#888"/></marker></defs>',
        '<rect width="100%" height="100%" fill="#fff"/>',
        '<g fill="none" stroke="#888">',
    ]
    lines += [_edge(source, box, False) for box in boxes for source in box.sources]
    lines += [_edge(box, target, True) for box in boxes for target in box.targets]
    lines.append("</g>")
    for box in boxes:
        x, y = box.x - box.width / 2, box.y
        lines.append(
            f'<g><title>{escape(box.title)}</title><rect x="{x:.0f}" y="{y:.0f}" width="{box.width:.0f}" height="{_BOX_HEIGHT}" rx="5" '
            f'fill="{_COLORS[box.kind]}" stroke="#999"/>'
            f'<text x="{box.x:.0f}" y="{y + (15 if box.caption else 21):.0f}" font-size="13">{escape(box.name)}</text>'
            f'<text x="{box.x:.0f}" y="{y + 28:.0f}" font-size="10" fill="#555">{escape(box.caption)}</text></g>'
        )
    if note:
        lines.append(f'<text x="{width / 2:.0f}" y="{height - 8:.0f}" font-size="11" fill="#555">{note}</text>')
    return "\n".join([*lines, "</svg>"])


# ---- Profiles ----

_WIDTH, _LANE, MOST_ROWS, MOST_BARS = 720, 18, 30, 2000
_BAR_COLORS = ["#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#eeca3b"]


def _bars(events: Sequence[Event]) -> Iterator[tuple[int, int, int, Event]]:
    """Give lane, start and end of each piece of work."""
    for event in events:
        for worker, start, end in event.spans or ((0, event.start_ns, event.end_ns),):
            yield worker, start, end, event


def _timeline(events: Sequence[Event]) -> str:
    bars = list(_bars(events))[:MOST_BARS]
    if not bars:
        return ""
    begin, end = min(bar[1] for bar in bars), max(bar[2] for bar in bars)
    scale = _WIDTH / max(1, end - begin)
    lanes = sorted({bar[0] for bar in bars})
    kinds = list(dict.fromkeys(event.instruction for *_, event in bars))
    height = _LANE * len(lanes) + 16
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="10">']
    for worker, start, stop, event in bars:
        color = _BAR_COLORS[kinds.index(event.instruction) % len(_BAR_COLORS)]
        title = f"{event.instruction} {event.node}: {(stop - start) / 1000:.1f} us"
        lines.append(
            f'<rect x="{(start - begin) * scale:.1f}" y="{lanes.index(worker) * _LANE}" width="{max(0.5, (stop - start) * scale):.1f}" '
            f'height="{_LANE - 3}" fill="{color}"><title>{escape(title)}</title></rect>'
        )
    lines.append(f'<text x="0" y="{height - 4}" fill="#777">0</text>')
    lines.append(f'<text x="{_WIDTH}" y="{height - 4}" fill="#777" text-anchor="end">{(end - begin) / 1000:.1f} us</text></svg>')
    return "".join(lines)


def profile_html(profile: Profile) -> str:
    """Return the timeline of a profile's last run, and the table of all runs, as HTML."""
    last = [event for event in profile.events if event.run == profile.runs - 1]
    rows = profile.table()
    cells = "".join(
        f"<tr><td>{escape(row.name)}</td><td>{row.calls}</td><td>{row.total_ns / 1000:.1f}</td><td>{row.share:.1%}</td>"
        f"<td>{f'{row.gflops:.2f}' if row.flops else ''}</td><td>{escape(row.node)}</td></tr>"
        for row in rows[:MOST_ROWS]
    )
    if len(rows) > MOST_ROWS:
        rest = rows[MOST_ROWS:]
        cells += (
            f"<tr><td>{len(rest)} others</td><td>{sum(row.calls for row in rest)}</td><td>{sum(row.total_ns for row in rest) / 1000:.1f}</td>"
            f"<td>{sum(row.share for row in rest):.1%}</td><td></td><td></td></tr>"
        )
    head = "<tr><th>instruction</th><th>calls</th><th>us</th><th>share</th><th>GFLOP/s</th><th>node</th></tr>"
    return f"<div>{escape(repr(profile).strip('<>'))}</div>{_timeline(last)}<table>{head}{cells}</table>"


# ---- Arrays ----

_SHOWN = 6  # first and last elements of an axis


def _shown(size: int) -> list[int | None]:
    """Return the indices of an axis that are shown, with None for those between."""
    return list(range(size)) if size <= 2 * _SHOWN else [*range(_SHOWN), None, *range(size - _SHOWN, size)]


def _number(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, (float, complex)) else str(value)


def tensor_html(tensor: Tensor) -> str:
    """Return type, shape and values of a tensor as HTML. Of more than two axes, the first matrix is shown; of long ones, both ends."""
    shape = tensor.shape
    head = f"<div>Tensor, {escape(tensor.dtype)}, shape {shape}</div>"
    if 0 in shape:
        return head
    if not shape:
        return f"{head}<code>{escape(_number(tensor.item()))}</code>"
    matrix = tensor.numpy() if _has_array(tensor) else tensor.tolist()
    for _ in shape[:-2]:
        matrix = matrix[0]
    rows = matrix if len(shape) > 1 else [matrix]
    columns = _shown(shape[-1])

    def row_text(row: Any) -> str:
        values = ("…" if j is None else escape(_number(row[j].item() if hasattr(row[j], "item") else row[j])) for j in columns)
        return "<tr>" + "".join(f'<td style="text-align:right">{value}</td>' for value in values) + "</tr>"

    body = "".join(
        f'<tr><td colspan="{len(columns)}">⋮</td></tr>' if i is None else row_text(rows[i]) for i in _shown(len(rows))
    )
    where = f"<div>[{', '.join('0' for _ in shape[:-2])}, :, :]</div>" if len(shape) > 2 else ""
    return f"{head}{where}<table>{body}</table>"


def _has_array(tensor: Tensor) -> bool:
    """Whether NumPy is imported and has the numbers of the type, so that nothing is copied."""
    return sys.modules.get("numpy") is not None and tensor.dtype[0] in "fiub" and tensor.dtype not in ("bf16", "i4", "u4", "i2", "u2") and tensor.dtype[:2] != "f8"


# ---- Progress ----

_DELAY, _EVERY = 0.5, 0.1  # seconds before the first text, and between two


class Progress:
    """A bar for work that takes long: in a notebook as HTML, in a terminal on standard error, elsewhere nothing.

    Nothing appears in the first half second. Call it with the finished fraction and a text; `close` removes the bar.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._begun = time.monotonic()
        self._shown_at = 0.0
        self._handle: Any = None
        self._write = _terminal() if _notebook() is None else None
        self._display = _notebook()
        self._length = 0

    @property
    def visible(self) -> bool:
        """Whether a text can appear at all."""
        return self._write is not None or self._display is not None

    def __call__(self, fraction: float, text: str = "") -> None:
        now = time.monotonic()
        if not self.visible or now - self._begun < _DELAY or now - self._shown_at < _EVERY:
            return
        self._shown_at = now
        fraction = min(1.0, max(0.0, fraction))
        if self._display is not None:
            html = f'{escape(self.title)} <progress value="{fraction:.3f}"></progress> {fraction:.0%} {escape(text)}'
            self._show_html(html)
        elif self._write is not None:
            done = round(fraction * 24)
            line = f"{self.title} [{'#' * done}{'.' * (24 - done)}] {fraction:4.0%} {text}"[:100]
            self._write("\r" + line.ljust(self._length))
            self._length = len(line)

    def report(self, what: str, fraction: float) -> None:
        """Show the progress of a compilation or quantization."""
        self(fraction, what)

    def report_step(self, event: dict[str, Any]) -> None:
        """Show the progress of a training."""
        steps = event["steps"]
        loss = f", loss {event['batch']['loss']:.4g}" if event["batch"] else ""
        self(event["step"] / steps if steps else 0.0, f"epoch {event['epoch']} of {event['epochs']}{loss}")

    def _show_html(self, html: str) -> None:
        if self._handle is None:
            self._handle = self._display.display(self._display.HTML(html), display_id=True)
        elif self._handle is not None:
            self._handle.update(self._display.HTML(html))

    def close(self) -> None:
        """Remove the bar."""
        if self._handle is not None:
            self._handle.update(self._display.HTML(""))
        if self._length and self._write is not None:
            self._write("\r" + " " * self._length + "\r")
        self._length = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()


def _notebook() -> Any:
    """Return the module IPython.display in a notebook, which has a kernel; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    return sys.modules.get("IPython.display")


def _terminal() -> Any:
    """Return a function that writes to standard error, if that is a terminal; else None."""
    stream = sys.stderr
    if stream is None or not stream.isatty():
        return None

    def write(text: str) -> None:
        stream.write(text)
        stream.flush()

    return write

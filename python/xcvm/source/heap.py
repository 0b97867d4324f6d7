"""The heap: cells of objects, with a journal of changes.

A cell is (object, key). Each branch and each round of a loop runs on an overlay, which is a dictionary of the cells that it
changed, in order. State is therefore what changed, also through calls.
"""

from __future__ import annotations

from typing import Any, Union

from .values import Object, Storage, Value

Cell = tuple[Union[Object, Storage], Any]

# Keys of cells that are no attributes or names.
ITEMS = "[items]"  # of a list: Tuple or Sequence
DICT = "[dict]"  # of a dict or set: Entries
DATA = "[data]"  # of a storage: GraphCell
KIND = "[kind]"  # of a frame: how its block ended
RESULT = "[result]"  # of a frame: the value that is returned
YIELDED = "[yielded]"


class Heap:
    """Overlays of cells, the bottom one first."""

    def __init__(self) -> None:
        self.overlays: list[dict[Cell, Value]] = [{}]
        self.serial = 0

    def next_serial(self) -> int:
        self.serial += 1
        return self.serial

    def read(self, owner: Object | Storage, key: Any) -> Value | None:
        """Return the value of a cell, or None if nothing was written to it."""
        cell = (owner, key)
        for overlay in reversed(self.overlays):
            value = overlay.get(cell)
            if value is not None:
                return value
        return None

    def write(self, owner: Object | Storage, key: Any, value: Value) -> None:
        self.overlays[-1][(owner, key)] = value
        if isinstance(owner, Object):
            owner.keys[key] = None

    def push(self) -> None:
        self.overlays.append({})

    def pop(self) -> dict[Cell, Value]:
        return self.overlays.pop()

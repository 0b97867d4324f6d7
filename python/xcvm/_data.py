"""Data for quantizing and training: files as of the command, or arrays in memory."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ._options import pairs
from ._run import Parameter

Column = tuple[str, str | None, float]


def columns(value: str | Mapping[str, str] | Iterable[Any] | None) -> list[Column]:
    """Return (input, array, factor) of "INPUT=ARRAY" and "INPUT=ARRAY*FACTOR"."""
    result: list[Column] = []
    for name, array in pairs(value or [], "="):
        match = re.fullmatch(r"(.*)\*([0-9./eE+-]+)", array)
        factor = 0.0
        if match is not None:
            array = match[1]
            top, _, bottom = match[2].partition("/")
            factor = float(top) / float(bottom or 1)
        result.append((name, array, factor))
    return result


def label_column(value: str | None) -> tuple[list[Column], str | None]:
    """Return the column and the input of "NAME=ARRAY" or "NAME"."""
    if value is None:
        return [], None
    name, equals, array = value.partition("=")
    return ([(name, array, 0.0)] if equals else [(name, None, 0.0)]), name


@contextmanager
def paths(data: Any) -> Iterator[list[str]]:
    """Give the paths of data: a path, several, or a dict of arrays, which are written to a directory for the time being."""
    if not isinstance(data, Mapping):
        single = isinstance(data, (str, os.PathLike))
        yield [os.fspath(path) for path in ([data] if single else data)]
        return
    import numpy as np

    folder = tempfile.mkdtemp(prefix="xcvm-data-")
    try:
        files = []
        for name, array in data.items():
            files.append(os.path.join(folder, f"{name}.npy"))
            np.save(files[-1], np.asarray(array))
        yield files
    finally:
        shutil.rmtree(folder)


def declared(parameters: Iterable[Parameter]) -> list[tuple[str, tuple[int, str, Any]]]:
    """Return parameters as the extension module reads them."""
    kinds = {"null": 0, "tensor": 1, "sequence": 2, "optional": 3, "map": 4}
    return [(item.name, (kinds.get(item.kind, 0), item.dtype, item.shape)) for item in parameters]

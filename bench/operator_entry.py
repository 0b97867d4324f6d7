"""Entries of the table of operators: what an operator is given, and how its operands are drawn."""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "differential"))
from case import FLOATS, KINDS, rounded  # noqa: E402

OPSET = 22
TABLE = {}


class Operand:
    """An operand to be drawn: constant or input, of a kind, with what makes its elements of a random generator."""

    def __init__(self, kind, draw, constant=False):
        self.kind, self.draw, self.constant = kind, draw, constant


def x(shape, kind="f32", low=-3.0, high=3.0):
    """An input with elements between two bounds; of integers both are reached."""
    def draw(rng):
        if kind == "bool":
            return rng.random(shape) < 0.5
        if kind in FLOATS + ("bf16",):
            return rounded(rng.uniform(low, high, shape), kind)
        least = max(low, np.iinfo(KINDS[kind][1]).min)
        return rng.integers(int(least), int(high), shape, endpoint=True).astype(KINDS[kind][1])

    return Operand(kind, draw)


def w(shape, kind="f32", low=-0.5, high=0.5):
    """The same as a constant."""
    return Operand(kind, x(shape, kind, low, high).draw, True)


def c(items, kind="i64"):
    """A constant with these elements."""
    return Operand(kind, lambda rng: np.array(items, KINDS[kind][1]), True)


def given(kind, draw):
    """An input whose elements a function draws."""
    return Operand(kind, draw)


def indices(shape, count, kind="i64"):
    return x(shape, kind, 0, count - 1)


def permutations(shape, axis):
    """Along an axis each number once."""
    def draw(rng):
        return np.argsort(rng.random(shape), axis).astype(np.int64)

    return Operand("i64", draw)


def entry(name, operands, results=1, opset=OPSET, domain="", **attributes):
    assert name not in TABLE, name
    TABLE[name] = (operands, results, opset, domain, attributes)


def kinds_of(name, kinds, operands, **rest):
    """The same entry for several types; operands is a function of the type."""
    for kind in kinds.split():
        entry(f"{name}.{kind}", operands(kind), **rest)

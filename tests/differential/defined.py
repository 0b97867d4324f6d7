"""Element-wise operators that the op definitions add and no other module draws. ONNX Runtime decides."""
import os
import sys

from case import Dropped
from table import NEWEST, OPERATORS, operator

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import definitions  # noqa: E402


def declare(instruction, since):
    @operator(instruction.name, since)
    def draw(case):
        kind = case.kind(instruction.types["y"])
        shape = case.shape()
        shapes = [shape] if len(instruction.operands) == 1 else [shape, case.broadcastable(shape)]
        if kind not in ("f16", "f32", "f64", "bool", "str") and kind[0] not in "iu":
            raise Dropped
        y = case.node(instruction.name, [case.feed(case.values(s, kind), kind) for s in shapes])
        case.output(y, kind)


for _instruction, _since in definitions.elementwise():
    if _instruction.name not in OPERATORS and _since <= NEWEST:
        declare(_instruction, _since)

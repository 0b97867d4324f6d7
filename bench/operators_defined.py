"""Element-wise operators that the op definitions add and no other module measures."""
import os
import sys

from operator_entry import TABLE, entry, x

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests"))
import definitions  # noqa: E402

SQUARE = [1024, 1024]


def declare():
    measured = {name.split(".")[0] for name in TABLE}
    for instruction, since in definitions.elementwise():
        kinds = instruction.types["y"]
        if instruction.name not in measured and "str" not in kinds:
            kind = "f32" if "f32" in kinds else kinds[0]
            entry(f"{instruction.name}..{kind}", [x(SQUARE, kind) for _ in instruction.operands], opset=max(since, 22))

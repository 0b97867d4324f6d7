#!/usr/bin/python3
"""generate.py OUT SEED FIRST COUNT [OPERATOR...]: writes cases FIRST to FIRST + COUNT - 1 of a seed, each as a folder
OUT/RTOL_ATOL/OPERATOR-SEED-INDEX in ONNX's layout, and prints those whose outputs the peer has to make. A case depends on the seed, its
index and the table alone. OPERATORs are names of the table (default: all, in turn); --list [MODULE] prints them, or those that a module registers."""
import math
import os
import random
import sys

from case import Case, Dropped
from retype import retype
from table import OPERATORS
import contrib  # noqa: F401 (these fill the table)
import contrib_attention  # noqa: F401
import contrib_quantized  # noqa: F401
import control  # noqa: F401
import earliest  # noqa: F401
import elementwise  # noqa: F401
import graphs  # noqa: F401
import quantized_graphs  # noqa: F401
import language  # noqa: F401
import layouts  # noqa: F401
import learning  # noqa: F401
import modern  # noqa: F401
import movement  # noqa: F401
import neural  # noqa: F401
import newest  # noqa: F401
import plus  # noqa: F401
import pooling  # noqa: F401
import quantized  # noqa: F401
import recurrent  # noqa: F401
import reductions  # noqa: F401
import sequences  # noqa: F401
import signals  # noqa: F401
import text  # noqa: F401
import vision  # noqa: F401
import defined  # noqa: F401 (after the others)

RETYPED = 0.3  # the share of cases that get another type, if they can


def step(value):
    """A tolerance, rounded up to 1, 2 or 5 times a power of ten, so that cases share folders."""
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(value))
    digit = next(d for d in (1, 2, 5, 10) if value <= d * 10.0 ** exponent * (1 + 1e-9))
    return f"{digit * 10.0 ** exponent:.0e}"


def draw(name, seed, index):
    function, since, until, _ = OPERATORS[name]
    for attempt in range(100):
        label = f"{seed}-{index}" + (f"-{attempt}" if attempt else "")
        opset = random.Random(f"{name}-{label}").randint(since, until)
        case = Case(name.rstrip("_"), label, opset)
        try:
            function(case)
            if case.chance(RETYPED):
                retype(case)
            return case
        except Dropped:
            pass
    sys.exit(f"generate.py: {name} of seed {seed}, index {index} cannot be drawn")


def main():
    if sys.argv[1:2] == ["--list"]:
        print("\n".join(sorted({name.rstrip("_") for name, (draw_one, *_) in OPERATORS.items()
                                if sys.argv[2:] in ([], [draw_one.__module__])})))
        return
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    out, seed, first, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    wanted = sys.argv[5:]
    names = [name for name in sorted(OPERATORS) for _ in range(OPERATORS[name][3])
             if not wanted or name.rstrip("_") in wanted]
    if not names:
        sys.exit("generate.py: no such operator")
    # The same order for every seed's first cases would leave short runs with the same operators.
    random.Random(seed).shuffle(names)
    for index in range(first, first + count):
        name = names[index % len(names)]
        case = draw(name, seed, index)
        relative, absolute = case.tolerances()
        folder = os.path.join(out, f"{step(relative)}_{step(absolute)}", f"{case.name}-{seed}-{index}")
        case.write(folder)
        if case.peer:
            print(folder)


if __name__ == "__main__":
    main()

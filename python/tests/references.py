"""References that calls keep, by a debug interpreter (Debian's python3-dbg).

The extension modules must be compiled with -DPy_DEBUG, so that they count as the interpreter does:

    CFLAGS=-DPy_DEBUG python3 python/backend.py inplace
    PYTHONPATH=python:python/tests python3-dbg python/tests/references.py
"""

import array
import gc
import sys

from support import ADD, program

import xcvm

CALLS = 2000


def kept_references(call, calls):
    for _ in range(100):
        call()
    gc.collect()
    before = sys.gettotalrefcount()
    for _ in range(calls):
        call()
    gc.collect()
    return sys.gettotalrefcount() - before


def main():
    add = program(ADD, threads=1)
    session = add.session(threads=1)
    x, wrong = array.array("f", [0, 1, 2, 3]), array.array("f", [0])
    data = xcvm.assemble("xcvm 1\n" + ADD)

    def fail():
        try:
            add(wrong)
        except xcvm.ShapeMismatch:
            pass

    cases = {
        "call": lambda: add(x),
        "run": lambda: session.run({"x": x}),
        "failure": fail,
        "tolist": lambda: add(x).tolist(),
        "dlpack": lambda: add(x).__dlpack__(),
        "load": lambda: xcvm.load(data).session(threads=1)(x),
        "parameters": lambda: (add.inputs, add.info, add.states),
        "profile": lambda: session.profile(x),
    }
    kept = {name: kept_references(call, CALLS) for name, call in cases.items()}
    print(kept)
    sys.exit(any(count > 20 for count in kept.values()))


if __name__ == "__main__":
    main()

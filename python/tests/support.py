"""Programs and helpers of the tests."""

import os
import pathlib
import signal
import subprocess
import sys

import xcvm

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples/digits"


def program(text, **options):
    """Load a program from its text assembly, without the first line."""
    return xcvm.load(xcvm.assemble("xcvm 1\n" + text), **options)


def unary(dtype, shape, instruction="Identity"):
    """A program of one input and one output of a type."""
    return program(
        f'input x {dtype}[{shape}]\noutput y {dtype}[{shape}]\n$1 = In(name="x")\n$2 = {instruction}($1)\n'
        'Out($2, name="y")\n'
    )


# Counts to n, which takes seconds for some ten million.
LONG_LOOP = """input n i64[]
output y i64[]
$1 = In(name="n")
$2 = Identity(i64[] 0)
again:
$3 = GreaterOrEqual($2, $1)
JmpTrue($3, to=done)
Free($3)
$4 = Add($2, i64[] 1)
Free($2)
$2 = Identity($4)
Free($4)
Jmp(to=again)
done:
Out($2, name="y")
"""
FOREVER = 1 << 40

ADD = 'input x f32[4]\noutput y f32[4]\n$1 = In(name="x")\n$2 = Add($1, f32[4] 1 2 3 4)\nOut($2, name="y")\n'

COUNTER = (
    'input x f32[]\noutput y f32[]\nstate total f32[]\n$1 = In(name="x")\n$2 = Load(name="total")\n$3 = Add($1, $2)\n'
    'Store($3, name="total")\nOut($3, name="y")\n'
)


def environment(**own):
    """Return an environment in which an interpreter finds the package and the tests' modules."""
    path = os.pathsep.join([str(pathlib.Path(xcvm.__file__).parents[1]), str(pathlib.Path(__file__).parent)])
    return {**os.environ, "PYTHONPATH": path, **own}


def python(code, *args, timeout=120, **own):
    """Run code in a new interpreter and return the completed process."""
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        env=environment(**own),
        capture_output=True,
        text=True,
        timeout=timeout,
        # A shell lets what it runs in the background ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )

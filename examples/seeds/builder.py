"""A program that is made without a model: a tape that builds, with a loop, compiled, loaded and run. Newton's square root of
each element, until no element changes much."""

import numpy as np
from show import show

import xcvm
from xcvm import ops

with xcvm.Tape("building") as tape:
    x = tape.input("x", "f32", ["n"])

    def newton(iteration, root):
        better = 0.5 * (root + x / root)
        change = ops.ReduceMax(abs(better - root), keepdims=0)
        return change > 1e-6, [better]

    (root,) = tape.loop(tape.constant(50), None, newton, [x])
    program, _, _ = tape.compile([("root", root)])
show("root", xcvm.load(program)(np.array([1, 2, 9, 100, 0.25], np.float32)))

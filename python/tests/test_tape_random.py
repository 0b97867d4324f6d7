"""Random sequences of calls on tapes, mostly wrong ones: each raises an exception or succeeds, and nothing crashes."""

import gc
import random
import threading
import unittest

import numpy as np

import xcvm
from xcvm import _tape

NAMES = list(_tape.INSTRUCTIONS)
LAYERS = [("linear", 2, 3), ("mlp", 3, 2, 2), ("lstm", 3, 3), ("gru", 2, 3), ("batch_normalization", 3), ("embedding", 3, 2), ("dropout", 0.5), ("chain",)]


class Sequence:
    """A tape, its variables and objects, and a generator."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        mode = self.r.choice(["eager", "eager", "lazy", "batched", "building"])
        self.tape = _tape.Tape(mode, threads=1, memory_limit=self.r.choice([0, 1 << 20]))
        self.other = _tape.Tape(threads=1)
        self.variables, self.objects = [], []

    def junk(self):
        return self.r.choice([None, 0, -1, 3.5, "x", b"ab", [], [1, 2], ["a"], (), {}, True, 1 << 70, object(), np.ones(3), [None], "f32"])

    def tensor(self):
        shape = tuple(self.r.choice([0, 1, 2, 3]) for _ in range(self.r.randrange(4)))
        return (self.numbers.normal(size=shape) * 3).astype(self.r.choice(["f4", "f4", "f8", "i8", "?"]))

    def variable(self):
        return self.r.choice(self.variables) if self.variables and self.r.random() < 0.95 else self.junk()

    def several(self, count=3):
        return [self.variable() for _ in range(self.r.randrange(count))]

    def keep(self, result):
        self.variables.extend(result if isinstance(result, (tuple, list)) else [result])

    def function(self, *xs):
        """A callback: computes something, raises, or returns junk."""
        if self.r.random() < 0.1:
            raise ValueError("own")
        if self.r.random() < 0.1:
            return self.junk()
        y = self.tape.call(self.r.choice(["Mul", "Add", "Tanh"]), [xs[0], xs[0]])
        if self.r.random() < 0.3:
            self.variables.append(y)
        return self.tape.call("ReduceSum", [y], {"keepdims": 0})

    def instruction(self):
        name = self.r.choice(NAMES)
        row = _tape.INSTRUCTIONS[name]
        operands = [self.several() if kind in ("LIST", "ANYS") else self.variable() for _, kind, _ in row["operands"]]
        attributes = {}
        for attribute, _, _, values in row["attributes"]:
            if self.r.random() < 0.3:
                attributes[attribute] = self.r.choice([self.r.randrange(-2, 4), [1, 2], 0.5, "f32", self.junk(), *values])
        outputs = self.r.choice([None, None, 1, 2, [result[0] for result in row["results"]], self.junk()])
        self.keep(self.tape.call(name, operands, attributes, outputs, self.variable() if self.r.random() < 0.05 else None))

    def use(self):
        if not self.objects:
            return
        o = self.r.choice(self.objects)
        if isinstance(o, _tape.Operation):
            self.keep(o([self.variable()]))
        elif isinstance(o, _tape.Static):
            self.keep(o(self.several(), self.r.choice([0, 1, 1, 2])))
        elif isinstance(o, _tape.Layer):
            calls = [o.reset, o.unchain, o.clear_grads, o.save, lambda: o.add("c", o), lambda: o.add_parameter("p", self.variable()), lambda: o.load(b"junk"), lambda: self.keep([row[1] for row in o.tensors()])]
            self.keep(o(self.variable())) if self.r.random() < 0.6 else self.r.choice(calls)()
        else:
            self.r.choice([o.step, o.clear_grads, o.save, o.swap_averages, lambda: o.add("p", self.variable()), lambda: o.add_layer(self.r.choice(self.objects)), lambda: o.add_hook(self.function)])()

    def body(self, iteration, *states):
        if self.r.random() < 0.2:
            return self.junk()
        return self.r.choice([None, self.variable()]), [self.tape.call("Tanh", [s]) for s in states]

    def act(self):
        t, r = self.tape, self.r
        r.choice(
            [
                lambda: self.keep(r.choice([t.constant, t.parameter])(self.tensor())),
                lambda: self.keep(t.constant(self.junk())),
                self.instruction,
                self.instruction,
                self.instruction,
                lambda: self.keep(t.call(r.choice(["Mul", "Add", "MatMul"]), [self.variable(), self.variable()])),
                lambda: t.backward(self.variable(), None, r.random() < 0.5, r.random() < 0.3),
                lambda: self.keep(t.gradients(self.several(), self.several())),
                lambda: self.keep(self.variable().grad),
                lambda: self.variables.pop(),
                lambda: self.keep(getattr(self.variable(), r.choice(["detach", "value", "unchain", "keep", "grad_rows"]))()),
                lambda: repr((self.variable().shape, self.variable().creator, self.variable())),
                lambda: self.keep(t.vjp(self.function, self.several())[1]),
                lambda: self.keep(t.jvp(self.function, [self.variable()], [self.variable()])),
                lambda: self.keep(t.jacobian(self.function, self.variable())),
                lambda: self.variable().add_hook(self.function),
                lambda: self.objects.append(t.operation("op", self.function, r.choice([None, lambda i, o, g: [g[0]], self.function]))),
                lambda: self.objects.append(t.static(lambda *xs: [self.function(*xs)])),
                lambda: self.objects.append(t.layer(*r.choice([*LAYERS, (self.junk(), 1)]))),
                lambda: self.objects.append(t.optimizer(r.choice(["sgd:lr=0.1", "adam", "nope"]))),
                self.use,
                self.use,
                self.use,
                lambda: self.keep(t.branch(self.variable(), self.variable, self.several, r.choice([0, 1, 2]))),
                lambda: self.keep(t.loop(t.constant(2, "i64"), None, self.body, self.several())),
                lambda: r.choice([t.reset, t.checkpoint, t.revert, t.forward, t.invalidate, t.draw, t.memory_info])(),
                lambda: self.keep(t.input(r.choice("ab"), "f32", [r.choice([2, "n", None])])),
                lambda: t.compile([("y", self.variable())]) if r.random() < 0.1 else None,
                lambda: self.variable().set_data(self.tensor()),
                lambda: self.keep(self.other.constant(1.0)),
                lambda: self.objects.pop(),
            ]
        )()


class Random(unittest.TestCase):
    def test_sequences(self):
        succeeded = failed = 0
        for seed in range(250):
            with self.subTest(seed):
                sequence = Sequence(seed)
                for _ in range(40):
                    try:
                        sequence.act()
                        succeeded += 1
                    except (SystemError, xcvm.errors.Internal):
                        raise
                    except Exception:
                        failed += 1
                if seed % 3 == 0:  # the last references may end on another thread
                    thread = threading.Thread(target=sequence.variables.clear)
                    thread.start()
                    thread.join()
        gc.collect()
        self.assertGreater(succeeded, 2000)
        self.assertGreater(failed, 2000)


if __name__ == "__main__":
    unittest.main()

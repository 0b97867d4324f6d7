"""The tape's extension module: calls, variables, gradients, control flow, programs, and misuse."""

import gc
import threading
import unittest
import weakref

import numpy as np

import xcvm
from xcvm import _tape

EXECUTING = ("eager", "lazy", "batched")


def tape(mode="eager", **options):
    return _tape.Tape(mode, threads=1, **options)


def total(t, v):
    return t.call("ReduceSum", [v], {"keepdims": 0})


def square(t):
    return lambda v: total(t, t.call("Mul", [v, v]))


X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Calls(unittest.TestCase):
    def test_operands_attributes_and_results(self):
        for mode in EXECUTING:
            t = tape(mode)
            x = t.constant(X)
            np.testing.assert_array_equal(t.call("Transpose", [x], {"perm": [1, 0]}).value(), X.T)
            np.testing.assert_array_equal(t.call("Concat", [[x, x]], {"axis": 1}).value(), np.hstack([X, X]))
            pieces = t.call("Split", [x], {"axis": 1}, 3)
            self.assertEqual([p.shape for p in pieces], [(2, 1)] * 3)
            values, indices = t.call("TopK", [x, t.constant([2], "i64")])
            self.assertEqual((values.dtype, indices.dtype), ("f32", "i64"))
            (indices,) = t.call("TopK", [x, t.constant([1], "i64")], outputs=["indices"])
            self.assertEqual(indices.value().tolist(), [[2], [2]])
            self.assertEqual(t.call("Cast", [x], {"to": np.int64}).dtype, "i64")
            self.assertEqual(t.call("Clip", [x, None, t.constant(2.0)]).value().tolist()[1], [2, 2, 2])
            dropped = t.call("Dropout", [x, t.constant(0.5), t.constant(True)])
            self.assertEqual(dropped.shape, (2, 3))
            self.assertEqual(len(t.call("Dropout", [x, t.constant(0.5), t.constant(True)], outputs=2)), 2)

    def test_into(self):
        t = tape()
        w = t.parameter(X)
        recording = t.set_recording(False)
        self.assertIs(t.call("Sub", [w, t.constant(X)], into=w), w)
        t.set_recording(recording)
        np.testing.assert_array_equal(w.value(), 0 * X)

    def test_every_instruction_is_described(self):
        self.assertGreater(len(_tape.INSTRUCTIONS), 220)
        for name, row in _tape.INSTRUCTIONS.items():
            self.assertTrue(row["summary"], name)
            self.assertIn(row["gradient"], {"yes", "zero", "step", "none"})
            for _, kind, default, values in row["attributes"]:
                self.assertTrue(default in values if kind == "choice" else values == (), name)

    def test_text_and_functions(self):
        lines = []
        t = tape(print=lines.append, functions={"twice": lambda a: a.numpy() * 2})
        self.assertIsNone(t.call("Print", [[t.constant(2.0)]], {"label": "x"}))
        self.assertIn("2", "".join(lines))
        (y,) = t.call("HostCall", [[t.constant(X)]], {"function": "twice", "dtypes": [1], "ranks": [2]}, 1)
        np.testing.assert_array_equal(y.value(), 2 * X)

    def test_values_of_other_kinds(self):
        t = tape()
        sequence = t.value([X, X])
        self.assertEqual((sequence.kind, sequence.shape), ("sequence", None))
        self.assertEqual(len(sequence.value()), 2)
        self.assertEqual(t.constant(["a", "b"], "str").value().tolist(), ["a", "b"])
        self.assertIsNone(t.value(None).value())

    def test_misuse(self):
        t, other = tape(), tape()
        x = t.constant(X)
        for call, kind, text in [
            (lambda: t.call("NoSuch", [x]), AttributeError, "no instruction 'NoSuch'"),
            (lambda: t.call("Add", [x]), xcvm.InvalidArgument, "b is absent"),
            (lambda: t.call("Add", [x, 3]), TypeError, "Add: operand 'b'"),
            (lambda: t.call("Add", [x, other.constant(X)]), ValueError, "another tape"),
            (lambda: t.call("Add", [x, x, x]), TypeError, "3 operands"),
            (lambda: t.call("Add", x), TypeError, "list or tuple"),
            (lambda: t.call("Add", [x, t.constant(X.T)]), xcvm.ShapeMismatch, "broadcast"),
            (lambda: t.call("Conv", [x, x], {"stride": 1}), TypeError, "no attribute 'stride'.*strides"),
            (lambda: t.call("Gelu", [x], {"approximate": "no"}), ValueError, "approximate.*none"),
            (lambda: t.call("Softmax", [x], {"axis": 9}), xcvm.OutOfRange, "axis"),
            (lambda: t.call("Softmax", [x], {"axis": 1.5}), TypeError, "axis"),
            (lambda: t.call("Softmax", [x], {"axis": 1 << 70}), OverflowError, "axis"),
            (lambda: t.call("Split", [x]), TypeError, "number of results"),
            (lambda: t.call("Split", [x], outputs=-1), ValueError, "-1 outputs"),
            (lambda: t.call("Relu", [x], outputs=["z"]), ValueError, "'z'"),
            (lambda: t.call("Cast", [x], {"to": "f99"}), ValueError, "f99"),
            (lambda: t.call("Print", [[x]], into=x), TypeError, "cannot write"),
            (lambda: t.input("x", "f32", [1]), xcvm.InvalidArgument, "building"),
            (lambda: t.constant(object()), TypeError, ""),
            (lambda: t.parameter([1, 2]), xcvm.TypeMismatch, "float type"),
            (lambda: _tape.Tape("fast"), ValueError, "fast"),
            (lambda: _tape.Tape(variable_type=int), TypeError, "Variable"),
            (lambda: _tape.Variable(), TypeError, "Variable"),
        ]:
            with self.assertRaisesRegex(kind, text):
                call()
            self.assertEqual(t.call("Relu", [x]).shape, (2, 3))  # the tape stays usable

    def test_threads(self):
        t = tape()
        x = t.constant(X)
        failures = []

        def work():
            try:
                t.call("Relu", [x])
            except RuntimeError as error:
                failures.append(str(error))
            y = tape()  # a tape of its own
            failures.append(square(y)(y.constant(X)).value().item())

        held = [t.call("Relu", [x])]
        thread = threading.Thread(target=lambda: (work(), held.clear()))
        thread.start()
        thread.join()
        self.assertEqual(failures, ["the tape belongs to another thread", 55.0])
        t.call("Relu", [x])

    def test_lifetimes(self):
        t = tape()
        w = t.parameter(X)
        for _ in range(3):
            loss = square(t)(w)
            t.backward(loss)
            w.clear_grad()
        net = t.layer("mlp", 3, 4, 2)
        before = t.info()["variables"]
        for _ in range(50):
            t.backward(square(t)(w))
            w.clear_grad()
            t.vjp(square(t), [w])
            t.call("Dropout", [w, t.constant(0.5), t.constant(True)])
            t.loop(t.constant(3), None, lambda i, s: (None, [s], [s]), [w], 1)
            net(w)
        gc.collect()
        self.assertLessEqual(t.info()["variables"], before + 1)
        self.assertEqual(t.info()["recorded"], 0)
        reference = weakref.ref(w)
        kept = w.tape
        del w, loss
        self.assertIsNone(reference())
        del t
        self.assertEqual(kept.mode, "eager")


class Gradients(unittest.TestCase):
    def test_backward(self):
        for mode in EXECUTING:
            t = tape(mode)
            w = t.parameter(X)
            hooked = []
            y = t.call("Mul", [w, w])
            y.add_hook(lambda g: hooked.append(g.value().tolist()))
            loss = total(t, y)
            self.assertEqual(y.creator["name"], "Mul")
            t.backward(loss)
            np.testing.assert_array_equal(w.grad.value(), 2 * X)
            self.assertEqual(loss.value().item(), 55.0)
            self.assertEqual(hooked, [[[1.0] * 3] * 2])
            kept = w.grad
            w.clear_grad()
            self.assertIsNone(w.grad)
            np.testing.assert_array_equal(kept.value(), 2 * X)

    def test_higher_orders(self):
        t = tape()
        x = t.parameter(X)
        cube = total(t, t.call("Mul", [x, t.call("Mul", [x, x])]))
        (first,) = t.gradients([cube], [x], create_graph=True)
        (second,) = t.gradients([total(t, first)], [x])
        np.testing.assert_array_equal(second.value(), 6 * X)
        value, (gradient,) = t.vjp(square(t), [x])
        self.assertEqual(value.value().item(), 55.0)
        np.testing.assert_array_equal(gradient.value(), 2 * X)
        value, change = t.jvp(square(t), [x], [t.constant(np.ones_like(X))])
        self.assertEqual(change.value().item(), 30.0)
        np.testing.assert_array_equal(t.hvp(square(t), x, t.constant(X)).value(), 2 * X)
        self.assertEqual(t.jacobian(lambda v: t.call("Mul", [v, v]), x).shape, (2, 3, 2, 3))
        t.check_gradients(square(t), [x], order=2)
        outer = t.constant(3.0)
        self.assertIs(t.vjp(lambda v: outer, [x])[0], outer)

    def test_same_target_twice(self):
        t = tape()
        x = t.parameter(X)
        y = square(t)(x)
        first, second = t.gradients([y], [x, x], retain_graph=True)
        seed = t.constant(2.0)
        (root,) = t.gradients([y], [y], [seed])
        del seed
        gc.collect()
        self.assertEqual(root.value().item(), 2.0)
        del first
        np.testing.assert_array_equal(second.value(), 2 * X)

    def test_operation(self):
        t = tape()
        x = t.parameter(X)
        triple = t.operation(
            "triple",
            lambda a: t.call("Mul", [a, t.constant(3.0)]),
            lambda inputs, results, gradients: [t.call("Mul", [gradients[0], t.constant(3.0)])],
        )
        y = triple([x])
        np.testing.assert_array_equal(y.value(), 3 * X)
        t.backward(total(t, y))
        np.testing.assert_array_equal(x.grad.value(), 3 + 0 * X)
        wrong = t.operation("wrong", lambda a: [a, a])
        with self.assertRaisesRegex(ValueError, "forward returned 2"):
            wrong([x])

    def test_exceptions(self):
        class Own(Exception):
            pass

        def fail(*_):
            raise Own

        for mode in EXECUTING:
            t = tape(mode)
            x = t.parameter(X)
            y = t.call("Mul", [x, x])
            y.add_hook(fail)
            loss = total(t, y)
            with self.assertRaises(Own):
                t.backward(loss)
            for call in [
                lambda: t.vjp(fail, [x]),
                lambda: t.jacobian(fail, x),
                lambda: t.operation("fails", fail)([x]),
                lambda: t.branch(t.constant(True), fail, fail),
                lambda: t.branch(t.constant(True), fail, fail, 0),
                lambda: t.loop(t.constant(2), None, fail, [x]),
            ]:
                with self.assertRaises(Own):
                    call()
            self.assertEqual(square(t)(x).value().item(), 55.0)


class ControlFlow(unittest.TestCase):
    def test_branches_and_loops(self):
        for mode in EXECUTING:
            t = tape(mode)
            x, y = t.constant(X), t.constant(-X)
            (taken,) = t.branch(t.constant(False), lambda: x, lambda: y)
            self.assertIs(taken, y)
            state, rows = t.loop(
                t.constant(3), None, lambda i, s: (None, [t.call("Add", [s, s])], [t.call("Cast", [i], {"to": "f32"})]), [x], 1
            )
            np.testing.assert_array_equal(state.value(), 8 * X)
            self.assertEqual(rows.value().tolist(), [0, 1, 2])
            (same, count) = t.loop(
                None, None,
                lambda i, a, n: (t.call("Less", [i, t.constant(4)]), [a, t.call("Add", [n, t.constant(1)])]),
                [x, t.constant(0)],
            )
            self.assertIs(same, x)
            self.assertEqual(count.value().item(), 5)

    def test_wrong_bodies(self):
        t = tape()
        x = t.constant(X)
        for body, text in [(lambda i, s: None, "returns"), (lambda i, s: (None, []), "0 states"), (lambda i, s: (3, [s]), "go_on")]:
            with self.assertRaisesRegex((TypeError, ValueError), text):
                t.loop(t.constant(2), None, body, [x])
        with self.assertRaisesRegex(ValueError, "then returned 2"):
            t.branch(t.constant(True), lambda: (x, x), lambda: x)


class Programs(unittest.TestCase):
    def build(self, **options):
        t = tape("building")
        x = t.input("x", "f32", ["n", 3])
        w = t.parameter(np.ones((3, 2), np.float32))
        y = t.call("MatMul", [x, w])
        self.assertEqual((x.shape, y.shape, y.dtype), (("n", 3), ("n", 2), "f32"))
        self.assertEqual(x.dims[0], y.dims[0])
        self.assertLess(y.dims[0], 0)
        cost = total(t, y)
        (r,) = t.branch(t.call("Greater", [cost, t.constant(0.0)]), lambda: t.call("Neg", [y]), lambda: y)
        s, rows = t.loop(t.constant(3), None, lambda i, s: (None, [t.call("Add", [s, s])], [i]), [r], 1)
        (g,) = t.gradients([cost], [x])
        return t, t.compile([("s", s), ("rows", rows), ("g", g)], options)

    def test_program(self):
        t, (program, _, report) = self.build()
        s, rows, g = xcvm.load(program)(X)
        np.testing.assert_array_equal(s, -8 * (X @ np.ones((3, 2), np.float32)))
        self.assertEqual(rows.tolist(), [0, 1, 2])
        np.testing.assert_array_equal(g, 2 + 0 * X)
        self.assertGreater(report["nodes_after"], 0)
        with self.assertRaisesRegex(xcvm.InvalidArgument, "compiled"):
            t.constant(1.0)

    def test_onnx(self):
        _, (model, _, _) = self.build(onnx=True)
        s, rows, g = xcvm.compile(model)(X)
        self.assertEqual(s.shape, (2, 2))

    def test_broken_graph(self):
        t = tape("building")
        x = t.input("x", "f32", [2])
        condition = t.call("Greater", [total(t, x), t.constant(0.0)])
        with self.assertRaises(ZeroDivisionError):
            t.branch(condition, lambda: x, lambda: 1 / 0)
        with self.assertRaisesRegex(xcvm.InvalidArgument, "incomplete"):
            t.compile([("x", x)])
        t = tape("building")
        x = t.input("x", "f32", [2])
        kept = []
        t.branch(condition := t.call("Greater", [total(t, x), t.constant(0.0)]), lambda: kept.append(t.call("Relu", [x])) or x, lambda: x)
        with self.assertRaisesRegex(xcvm.InvalidArgument, "made in a branch"):
            t.call("Relu", kept)
        with self.assertRaisesRegex(xcvm.Unsupported, "no elements"):
            x.value()
        for call in [
            lambda: t.input("", "f32", [1]),
            lambda: t.input("x", "f32", [1]),
            lambda: t.input("z", "f32", [-1]),
            lambda: t.input("z", "f32", [1] * 9),
            lambda: t.compile([]),
            lambda: t.compile([("y", 1)]),
            lambda: t.compile([("y", x)], {"no_option": 1}),
        ]:
            with self.assertRaises((ValueError, TypeError)):
                call()


class Inspection(unittest.TestCase):
    def test_observer_scopes_checkpoints(self):
        t = tape()
        events = []
        t.set_observer(lambda *event: events.append(event[0]))
        w = t.parameter(X)
        y = square(t)(w)
        t.set_observer(None)
        self.assertEqual(events, ["Mul", "Mul", "ReduceSum", "ReduceSum"])
        self.assertIn("digraph", t.draw())
        self.assertEqual(t.memory_info()["parameters"], 64)
        t.checkpoint()
        t.revert()
        scope = t.scope_begin()
        t.scope_end(scope, [y])
        self.assertEqual(y.value().item(), 55.0)
        t.reset()
        self.assertEqual(t.info()["recorded"], 0)

    def test_lazy_errors_name_the_call(self):
        t = tape("lazy", check_nan=True)
        y = t.call("Log", [t.constant([-1.0], "f32")])
        with self.assertRaisesRegex(xcvm.Error, "Log"):
            y.value()


if __name__ == "__main__":
    unittest.main()

"""If, Loop, Scan, Identity and Optional of the types that opsets 18 to 25 brought; recurrent networks of opset 22."""
import numpy as np
from onnx import TensorProto, helper

from .common import TYPES, Narrow, info, node
from .shapes import MOVED


def graph(nodes, inputs, outputs, name="body"):
    return helper.make_graph(nodes, name, inputs, outputs)


def branches(suite, rng):
    for kind, since in MOVED.items():
        x = Narrow(kind, rng.integers(0, 4, (2, 4)))
        for opset in sorted({since, max(since, 21), 23, 24, 25}):
            if opset < since:
                continue
            then = graph([node("Identity", ["x0"], ["t"])], [], [info("t", kind, [2, 4])])
            other = graph([node("Reshape", ["x0", "shape"], ["e"])], [], [info("e", kind, [2, 4])])
            for flag in (True, False):
                suite.model(f"if_{opset}_{kind}_{flag}", [node("If", ["x1"], ["y0"], then_branch=then, else_branch=other)],
                            [x, np.bool_(flag)], [x], opset, [("shape", np.array([2, 4]))])
            body = graph([node("Identity", ["c"], ["c1"]), node("Identity", ["v"], ["v1"]), node("Identity", ["v"], ["s"])],
                         [info("i", "i64", []), info("c", "bool", []), info("v", kind, [2, 4])],
                         [info("c1", "bool", []), info("v1", kind, [2, 4]), info("s", kind, [2, 4])])
            stacked = Narrow(kind, np.stack([x.bits] * 3))
            suite.model(f"loop_{opset}_{kind}", [node("Loop", ["n", "", "x0"], ["y0", "y1"], body=body)], [x], [x, stacked],
                        opset, [("n", np.array(3))])
            step = graph([node("Identity", ["a"], ["a1"]), node("Identity", ["b"], ["b1"])],
                         [info("a", kind, [4]), info("b", kind, [4])], [info("a1", kind, [4]), info("b1", kind, [4])])
            first = Narrow(kind, x.bits[0])
            suite.model(f"scan_{opset}_{kind}", [node("Scan", ["x1", "x0"], ["y0", "y1"], body=step, num_scan_inputs=1)],
                        [x, first], [first, x], opset)


def old_scan(suite, rng):
    """Opset 8: batches, each with a length of its own."""
    body = graph([node("Add", ["s", "x"], ["s1"]), node("Identity", ["s1"], ["y"])],
                 [info("s", "f32", [2]), info("x", "f32", [2])], [info("s1", "f32", [2]), info("y", "f32", [2])])
    x, start = rng.standard_normal((3, 4, 2)).astype(np.float32), rng.standard_normal((3, 2)).astype(np.float32)
    for label, lengths in (("all", None), ("lengths", [4, 2, 1]), ("zero", [1, 0, 3])):
        used = [4] * 3 if lengths is None else lengths
        y = np.zeros_like(x)
        last = start.copy()
        for b in range(3):
            y[b, :used[b]] = start[b] + np.cumsum(x[b, :used[b]], 0)
            last[b] = y[b, used[b] - 1] if used[b] else start[b]
        for kind in ("", "_reverse"):
            directions = [1] if kind else [0]
            expected, final = y, last
            if kind:
                expected, final = np.zeros_like(x), start.copy()
                for b in range(3):
                    part = x[b, :used[b]][::-1]
                    expected[b, :used[b]] = start[b] + np.cumsum(part, 0)
                    final[b] = expected[b, used[b] - 1] if used[b] else start[b]
            if lengths is None:
                suite.model(f"scan_8_{label}{kind}", [node("Scan", ["", "x0", "x1"], ["y0", "y1"], body=body, num_scan_inputs=1, directions=directions)],
                            [start, x], [final, expected], 8)
            else:
                suite.model(f"scan_8_{label}{kind}", [node("Scan", ["x0", "x1", "x2"], ["y0", "y1"], body=body, num_scan_inputs=1, directions=directions)],
                            [np.array(lengths), start, x], [final, expected], 8)


def optionals(suite, rng):
    x = rng.standard_normal(3).astype(np.float32)
    some = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [3]))
    for label, value, expected in (("f32", x, x), ("i64", np.arange(3), np.arange(3)), ("str", np.array(["a"], object), np.array(["a"], object))):
        suite.model(f"optionalgetelement_18_{label}", [node("Optional", ["x0"], ["o"]), node("OptionalGetElement", ["o"], ["y0"])],
                    [value], [expected], 18)
        suite.op(18, "OptionalGetElement", f"{label}_tensor", [value], [expected])
        suite.op(18, "OptionalHasElement", f"{label}_tensor", [value], [np.bool_(True)])
    suite.model("optionalhaselement_18_absent", [node("OptionalHasElement", [""], ["y0"])], [], [np.bool_(False)], 18)
    suite.model("optionalhaselement_18_nothing", [node("OptionalHasElement", [], ["y0"])], [], [np.bool_(False)], 18)
    empty = node("Optional", [], ["o"])
    empty.attribute.append(helper.make_attribute("type", some.optional_type.elem_type) if hasattr(some, "optional_type") else None)
    suite.model("optionalhaselement_18_empty", [empty, node("OptionalHasElement", ["o"], ["y0"])], [], [np.bool_(False)], 18)


def recurrent(suite, rng):
    steps, batch, size, hidden = 4, 2, 3, 5

    def sigmoid(v):
        return 1 / (1 + np.exp(-v))

    for name, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        x = rng.standard_normal((steps, batch, size)) * 0.5
        w, r = rng.standard_normal((1, gates * hidden, size)) * 0.5, rng.standard_normal((1, gates * hidden, hidden)) * 0.5
        b = rng.standard_normal((1, 2 * gates * hidden)) * 0.5
        # Numbers that f16 holds exactly.
        x, w, r, b = (np.rint(64 * v) / 64 for v in (x, w, r, b))
        wb, rb = b[0, :gates * hidden], b[0, gates * hidden:]
        h, c, ys = np.zeros((batch, hidden)), np.zeros((batch, hidden)), []
        for v in x:
            a, q = v @ w[0].T + wb, h @ r[0].T + rb
            if name == "RNN":
                h = np.tanh(a + q)
            elif name == "GRU":
                z, reset = sigmoid(a + q)[:, :hidden], sigmoid(a + q)[:, hidden:2 * hidden]
                new = np.tanh(a[:, 2 * hidden:] + (reset * h) @ r[0, 2 * hidden:].T + rb[2 * hidden:])
                h = (1 - z) * new + z * h
            else:
                i, o, f, g = np.split(a + q, 4, 1)
                c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                h = sigmoid(o) * np.tanh(c)
            ys.append(h)
        outputs = [np.stack(ys)[:, None], h[None]] + ([c[None]] if name == "LSTM" else [])
        for dtype in (np.float32, np.float64, np.float16):
            suite.op(22, name, np.dtype(dtype).name, [v.astype(dtype) for v in (x, w, r, b)],
                     [v.astype(dtype) for v in outputs], hidden_size=hidden)


def training(suite, rng):
    """BatchNormalization's results of training, opsets 1 to 9 and 14."""
    x = rng.standard_normal((4, 3, 2, 5)).astype(np.float32)
    scale, bias, mean = rng.standard_normal((3, 3)).astype(np.float32)
    var = rng.random(3).astype(np.float32) + 0.5
    seen, spread = x.astype(np.float64).mean((0, 2, 3)), x.astype(np.float64).var((0, 2, 3))
    column = lambda v: np.asarray(v, np.float64)[:, None, None]
    y = (x - column(seen)) / np.sqrt(column(spread) + 1e-5) * column(scale) + column(bias)
    running = [(old * 0.9 + new * (1 - 0.9)).astype(np.float32) for old, new in ((mean, seen), (var, spread))]
    for opset in (14, 15):
        suite.op(opset, "BatchNormalization", "training", [x, scale, bias, mean, var], [y.astype(np.float32), *running], training_mode=1)
    for opset in (7, 9):
        suite.op(opset, "BatchNormalization", "training", [x, scale, bias, mean, var],
                 [y.astype(np.float32), *running, seen.astype(np.float32), spread.astype(np.float32)])
    suite.op(6, "BatchNormalization", "training", [x, scale, bias, mean, var],
             [y.astype(np.float32), *running, seen.astype(np.float32), spread.astype(np.float32)], is_test=0)


def make(suite):
    rng = np.random.default_rng(25)
    branches(suite, rng)
    old_scan(suite, rng)
    optionals(suite, rng)
    recurrent(suite, rng)
    training(suite, rng)

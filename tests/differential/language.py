"""Random networks on sequences, recurrent and of attention, for the passes that pack constant matrices and merge attention,
normalization and activations."""
import math

import numpy as np

from table import operator


class Network:
    """Layers on values [batch, steps, width], whose results stay near 1."""

    def __init__(self, case):
        self.case = case
        self.batch, self.steps = case.choice([1, 1, 2, 3]), case.choice([1, 2, 3, 5, 8, 17, 33])
        self.width = case.choice([4, 8, 12, 16, 24, 32, 48, 64])
        self.shared = {}  # matrices that other layers may use too
        self.ends = []

    def uniform(self, shape, bound):
        return self.case.constant(self.case.values(shape, "f32", -bound, bound), "f32")

    def number(self, value, kind="f32"):
        return self.case.constant(np.array(value, np.float32 if kind == "f32" else np.int64), kind)

    def matrix(self, rows, columns):
        kept = self.shared.setdefault((rows, columns), [])
        if kept and self.case.chance(0.3):
            return self.case.choice(kept)
        kept.append(self.uniform([rows, columns], math.sqrt(3 / rows)))
        return kept[-1]

    def shaped(self, x, dims):
        """A Reshape that leaves batch and steps open where it can."""
        dims = list(dims)
        choice = self.case.integer(0, 2)
        if choice == 1:
            dims[0] = 0
        elif choice == 2:
            dims[1] = -1
        return self.case.node("Reshape", [x, self.number(dims, "i64")])

    def product(self, x, rows, columns, bias=None):
        case = self.case
        biased = case.chance(0.7) if bias is None else bias
        if case.chance(0.15):  # as a Gemm on all steps at once
            y = case.node("Reshape", [x, self.number([-1, rows], "i64")])
            y = case.node("Gemm", [y, self.uniform([columns, rows], math.sqrt(3 / rows)), self.uniform([columns], 0.5)], transB=1)
            return case.node("Reshape", [y, self.number(case.choice([[self.batch, -1, columns], [-1, self.steps, columns]]), "i64")])
        y = case.node("MatMul", [x, self.matrix(rows, columns)])
        if biased:
            pair = [y, self.uniform([columns], 0.5)]
            case.random.shuffle(pair)
            y = case.node("Add", pair)
        return y

    def mean(self, x):
        operand = self.case.opset >= 18
        return self.case.node("ReduceMean", [x] + ([self.number([-1], "i64")] if operand else []), axes=None if operand else [2])

    def normalized(self, x):
        case = self.case
        scale, shift = self.uniform([self.width], 1.5), self.uniform([self.width], 0.5)
        if case.opset >= 17 and case.chance(0.5):
            return case.node("LayerNormalization", [x, scale, shift], axis=-1, epsilon=1e-3)
        rms = case.chance(0.3)
        centered = x if rms else case.node("Sub", [x, self.mean(x)])
        square = case.node("Pow", [centered, self.number(2)]) if case.chance(0.5) else case.node("Mul", [centered, centered])
        deviation = case.node("Sqrt", [case.node("Add", [self.mean(square), self.number(1e-3)])])
        y = case.node("Mul", [centered, case.node("Reciprocal", [deviation])]) if case.chance(0.3) else \
            case.node("Div", [centered, deviation])
        y = case.node("Mul", [y, scale])
        return y if rms else case.node("Add", [y, shift])

    def activation(self, x):
        case = self.case
        kind = case.choice(["Relu", "Tanh", "gelu", "gelu", "fast", "swish"])
        if kind == "gelu" and case.opset >= 9:
            inner = case.node("Erf", [case.node("Div", [x, self.number(math.sqrt(2))])])
            return case.node("Mul", [case.node("Mul", [x, case.node("Add", [inner, self.number(1)])]), self.number(0.5)])
        if kind == "fast":
            cube = case.node("Pow", [x, self.number(3)])
            inner = case.node("Add", [x, case.node("Mul", [cube, self.number(0.044715)])])
            inner = case.node("Tanh", [case.node("Mul", [inner, self.number(math.sqrt(2 / math.pi))])])
            return case.node("Mul", [case.node("Mul", [x, self.number(0.5)]), case.node("Add", [inner, self.number(1)])])
        if kind == "swish":
            return case.node("Mul", [x, case.node("Sigmoid", [x])])
        return case.node(kind if kind in ("Relu", "Tanh") else "Relu", [x])


def recurrent(net, x):
    case = net.case
    kind, gates = case.choice([("RNN", 1), ("GRU", 3), ("LSTM", 4), ("LSTM", 4)])
    direction = case.choice([None, "forward", "reverse", "bidirectional", "bidirectional"])
    directions = 2 if direction == "bidirectional" else 1
    hidden = case.choice([4, 8, 15, 16, 17, 24, 32])
    bound = math.sqrt(2 / max(net.width, hidden))
    operands = [case.node("Transpose", [x], perm=[1, 0, 2]), net.uniform([directions, gates * hidden, net.width], bound),
                net.uniform([directions, gates * hidden, hidden], bound)]
    if case.chance(0.7):
        operands.append(net.uniform([directions, 2 * gates * hidden], 0.5))
    states = case.node(kind, operands, 3 if kind == "LSTM" else 2, hidden_size=hidden, direction=direction,
                       linear_before_reset=case.choice([None, 0, 1]) if kind == "GRU" else None)
    net.width = directions * hidden
    if case.chance(0.2):
        net.ends.append(case.choice(states[1:]))
    if directions == 1 and case.chance(0.6):
        y = case.node("Squeeze", [states[0]], axes=[1]) if case.opset < 13 else case.node("Squeeze", [states[0], net.number([1], "i64")])
        return case.node("Transpose", [y], perm=[1, 0, 2])
    return net.shaped(case.node("Transpose", [states[0]], perm=[2, 0, 1, 3]), [net.batch, net.steps, net.width])


def heads(net, x):
    """Attention; queries, keys and values come from one product or from three."""
    case = net.case
    count = case.choice([item for item in (1, 2, 4) if net.width % item == 0])
    size, width = net.width // count, net.width
    if case.chance(0.4):
        y = net.product(x, width, 3 * width)
        axis = case.choice([2, -1]) if case.opset >= 11 else 2
        parts = case.node("Split", [y] + ([net.number([width] * 3, "i64")] if case.opset >= 13 else []), 3, axis=axis,
                          split=[width] * 3 if case.opset < 13 else None)
    else:
        parts = [net.product(x, width, width) for _ in range(3)]
    turned = [case.node("Transpose", [net.shaped(part, [net.batch, net.steps, count, size])], perm=order)
              for part, order in zip(parts, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))]
    if case.chance(0.5):
        scores = case.node("MatMul", turned[:2])
        scores = case.node("Div", [scores, net.number(math.sqrt(size))]) if case.chance(0.5) else \
            case.node("Mul", [scores, net.number(1 / math.sqrt(size))])
    else:
        scores = case.node("MatMul", [case.node("Mul", [turned[0], net.number(1 / math.sqrt(size))]), turned[1]])
    if case.chance(0.4):
        mask = np.triu(np.full([net.steps, net.steps], -1e4, np.float32), 1)
        scores = case.node("Add", [scores, case.constant(mask.reshape(case.choice([[net.steps] * 2, [1, 1] + [net.steps] * 2])), "f32")])
    y = case.node("MatMul", [case.node("Softmax", [scores], axis=3 if case.opset < 13 else case.choice([3, -1])), turned[2]])
    y = net.shaped(case.node("Transpose", [y], perm=[0, 2, 1, 3]), [net.batch, net.steps, width])
    return net.product(y, width, width)


def wide(net, x):
    """Two products with an activation between, or with a gate."""
    case = net.case
    inner = net.width * case.choice([1, 2, 4])
    y = net.activation(net.product(x, net.width, inner))
    if case.chance(0.3):
        y = case.node("Mul", [y, net.product(x, net.width, inner, bias=False)])
    return net.product(y, inner, net.width)


def residual(net, x):
    """A transformer's layer, or half of it; normalized before or after."""
    case = net.case
    before = case.chance(0.5)
    for layer in case.choice([[heads, wide], [heads], [wide]]):
        y = layer(net, net.normalized(x) if before else x)
        x = case.node("Add", [x, y] if case.chance(0.5) else [y, x])
        x = x if before else net.normalized(x)
    return x


def convolved(net, x):
    """A convolution over time."""
    case = net.case
    out, kernel = case.choice([net.width, 8, 16, 24]), case.choice([1, 3, 5])
    groups = net.width if out == net.width and case.chance(0.4) else 1
    y = case.node("Transpose", [x], perm=[0, 2, 1])
    terms = net.width // groups * kernel
    y = case.node("Conv", [y, net.uniform([out, net.width // groups, kernel], math.sqrt(3 / terms)), net.uniform([out], 0.5)],
                  pads=[kernel // 2] * 2, group=groups)
    net.width = out
    return case.node("Transpose", [net.activation(y)], perm=[0, 2, 1])


def plain(net, x):
    columns = net.case.choice([3, 8, 9, 16, 17, 33, 48])
    y = net.activation(net.product(x, net.width, columns))
    net.width = columns
    return y


def head(net, x):
    case = net.case
    kind = case.choice(["steps", "last", "mean", "tied"])
    if kind == "last":
        x = case.node("Gather", [x, net.number(-1 if case.opset >= 11 else net.steps - 1, "i64")], axis=1)
        return case.node("Gemm", [x, net.matrix(net.width, 10), net.uniform([10], 0.5)])
    if kind == "mean":
        operand = case.opset >= 18
        x = case.node("ReduceMean", [x] + ([net.number([1], "i64")] if operand else []), axes=None if operand else [1], keepdims=0)
        return case.node("MatMul", [x, net.matrix(net.width, 10)])
    if kind == "tied":
        table = net.uniform([33, net.width], math.sqrt(3 / net.width))
        y = case.node("MatMul", [x, case.node("Transpose", [table], perm=[1, 0])])
        net.ends.append(case.node("Gather", [table, net.number([0, 3], "i64")]))
    else:
        y = net.product(x, net.width, case.choice([1, 7, 16, 40]))
    return case.node(case.choice(["Softmax", "LogSoftmax"]), [y], axis=2) if case.chance(0.4) else y


LAYERS = [recurrent, recurrent, residual, residual, residual, convolved, plain]


@operator("Language", weight=24)
def language(case):
    net = Network(case)
    if case.declaring == "nothing":
        case.declaring = "rank"
    if case.chance(0.5):
        words = case.feed(case.ints([net.batch, net.steps], "i64", 0, 32), "i64", 0)
        x = case.node("Gather", [net.uniform([33, net.width], 1.5), words])
        if case.chance(0.5):
            x = case.node("Add", [x, net.uniform([1, net.steps, net.width], 0.5)])
    else:
        x = case.feed(case.values([net.batch, net.steps, net.width], "f32"), "f32", 0)
    for _ in range(case.integer(1, 4)):
        x = case.choice(LAYERS)(net, x)
        if case.chance(0.15):
            net.ends.append(x)
    for name in dict.fromkeys([head(net, x)] + net.ends):
        case.output(name, "f32")
    case.within(1e-3, 5e-4)

"""Small random networks that are quantized and dequantized around every operator, which the compiler makes integer
instructions of. Scales are powers of two, with which floats are exact, so that steps do not add up; what is compared is
the last tensor, within a step."""
import numpy as np

from table import operator


class Region:
    def __init__(self, case):
        self.case = case
        self.kind = case.choice(["u8", "u8", "i8"])
        self.values = []  # names of dequantized tensors, and their shapes
        self.steps = {}   # their scales

    def zero(self, low, high):
        """A zero point, of which `low` and `high` are bounds as of u8."""
        return np.array(self.case.integer(low, high) - (128 if self.kind == "i8" else 0), np.uint8 if self.kind == "u8" else np.int8)

    def rounded(self, name, shape, step, low=0, high=255):
        case, number = self.case, self.case.constant
        scale, zero = number(np.float32(step), "f32"), number(self.zero(low, high), self.kind)
        name = case.node("QuantizeLinear", [name, scale, zero])
        self.step = step
        name = case.node("DequantizeLinear", [name, scale, zero])
        self.values.append((name, list(shape)))
        self.steps[name] = step
        return name

    def weights(self, shape, axis):
        """Dequantized, by a scale for each output or one; sometimes u8 around 128."""
        case = self.case
        kind = "u8" if case.chance(0.2) else "i8"
        middle = 128 if kind == "u8" else 0
        limit = case.choice([5, 20, 127])
        w = (case.numpy.integers(-limit, limit, shape, endpoint=True) + middle).astype(np.uint8 if kind == "u8" else np.int8)
        if case.chance(0.7):
            scale = (2.0 ** case.numpy.integers(-9, -6, shape[axis], endpoint=True)).astype(np.float32)
            zero = np.full(shape[axis], middle, w.dtype)
        else:
            scale, zero = np.float32(2.0 ** -7), np.array(middle, w.dtype)
        self.scale = np.broadcast_to(scale, shape[axis])
        return case.node("DequantizeLinear", [case.constant(w, kind), case.constant(scale, "f32"), case.constant(zero, kind)],
                         axis=axis)

    def bias(self, name):
        """Of the sums of x, called `name`, with the last weights."""
        case = self.case
        b = case.ints([len(self.scale)], "i32", -3000, 3000)
        scale = (self.scale * self.steps[name]).astype(np.float32)
        return case.node("DequantizeLinear", [case.constant(b, "i32"), case.constant(scale, "f32")], axis=0)

    def bounded(self, name):
        """What often stands behind a convolution, a product or a sum."""
        case = self.case
        kind = case.choice(["", "", "Relu", "Clip"])
        if kind == "Relu":
            return case.node("Relu", [name])
        if kind == "Clip":
            return case.node("Clip", [name, case.constant(np.float32(case.choice([0, -0.5])), "f32"),
                                      case.constant(np.float32(case.choice([1, 6])), "f32")])
        return name


def convolution(g, case, name, shape):
    if len(shape) != 4:
        return False
    channels, form = shape[1], case.choice(["dense", "dense", "point", "depthwise", "groups"])
    kernel = [1, 1] if form == "point" else [case.integer(1, min(3, size)) for size in shape[2:]]
    groups = channels if form == "depthwise" else 2 if form == "groups" and channels % 2 == 0 else 1
    outputs = channels if form == "depthwise" else groups * case.choice([1, 3, 8, 9, 16, 33])
    strides, dilations = [case.integer(1, 2), case.integer(1, 2)], [1, 1]
    pads = [case.integer(0, k - 1) for k in kernel + kernel]
    size = [(n + pads[i] + pads[2 + i] - kernel[i]) // strides[i] + 1 for i, n in enumerate(shape[2:])]
    operands = [name, g.weights([outputs, channels // groups] + kernel, 0)]
    if case.chance(0.7):
        operands.append(g.bias(operands[0]))
    name = case.node("Conv", operands, kernel_shape=kernel, strides=strides, pads=pads, dilations=dilations, group=groups)
    g.rounded(g.bounded(name), [shape[0], outputs] + size, 2.0 ** case.integer(-5, -2))
    return True


def product(g, case, name, shape):
    if len(shape) < 2:
        return False
    columns, depth = case.choice([1, 4, 16, 17, 40]), shape[-1]
    if len(shape) == 2 and case.chance(0.5):
        transposed = case.chance(0.5)
        operands = [name, g.weights([columns, depth] if transposed else [depth, columns], 0 if transposed else 1)]
        if case.chance(0.7):
            operands.append(g.bias(operands[0]))
        name = case.node("Gemm", operands, transB=int(transposed))
    else:
        x, name = name, case.node("MatMul", [name, g.weights([depth, columns], 1)])
        if case.chance(0.6):
            name = case.node("Add", [name, g.bias(x)])
    g.rounded(g.bounded(name), shape[:-1] + [columns], 2.0 ** case.integer(-5, -1))
    return True


def binary(g, case, name, shape):
    others = [value for value in g.values if value[1] == shape or (len(shape) == 4 and value[1] == shape[:2] + [1, 1])]
    pair = [name, case.choice(others)[0]]
    if case.chance(0.5):
        pair.reverse()
    name = case.node(case.choice(["Add", "Add", "Mul"]), pair)
    g.rounded(g.bounded(name), shape, 2.0 ** case.integer(-5, -2))
    return True


def function(g, case, name, shape):
    kind = case.choice(["Relu", "Sigmoid", "HardSigmoid", "Tanh", "LeakyRelu", "Abs", "Neg"])
    made = case.node(kind, [name])
    if case.chance(0.3):
        made = case.node("Mul", [made, name])
    g.rounded(made, shape, 2.0 ** case.integer(-7, -4))
    return True


def pool(g, case, name, shape):
    if len(shape) != 4:
        return False
    kind = case.choice(["MaxPool", "MaxPool", "AveragePool", "GlobalAveragePool", "ReduceMax"])
    step = g.step if kind == "MaxPool" and case.chance(0.7) else 2.0 ** case.integer(-6, -3)
    if kind == "GlobalAveragePool":
        g.rounded(case.node(kind, [name]), shape[:2] + [1, 1], step)
        return True
    if kind == "ReduceMax":
        return False
    kernel = [case.integer(1, min(3, size)) for size in shape[2:]]
    strides = [case.integer(1, 2), case.integer(1, 2)]
    pads = [case.integer(0, k - 1) for k in kernel + kernel]
    size = [(n + pads[i] + pads[2 + i] - kernel[i]) // strides[i] + 1 for i, n in enumerate(shape[2:])]
    more = {"count_include_pad": case.integer(0, 1)} if kind == "AveragePool" else {}
    g.rounded(case.node(kind, [name], kernel_shape=kernel, strides=strides, pads=pads, **more), shape[:2] + size, step)
    return True


def concat(g, case, name, shape):
    axis = case.integer(0, len(shape) - 1)
    same = [value for value in g.values if len(value[1]) == len(shape) and
            all(a == b for i, (a, b) in enumerate(zip(value[1], shape)) if i != axis)]
    parts = [case.choice(same) for _ in range(case.integer(1, 3))]
    total = sum(part[1][axis] for part in parts)
    name = case.node("Concat", [part[0] for part in parts], axis=axis)
    g.rounded(name, shape[:axis] + [total] + shape[axis + 1:], 2.0 ** case.integer(-5, -3))
    return True


def move(g, case, name, shape):
    step = g.step if case.chance(0.7) else 2.0 ** case.integer(-5, -3)
    kind = case.choice(["Transpose", "Flatten", "Reshape"])
    if kind == "Transpose":
        order = list(range(len(shape)))
        case.random.shuffle(order)
        g.rounded(case.node(kind, [name], perm=order), [shape[i] for i in order], step)
    elif kind == "Flatten":
        g.rounded(case.node(kind, [name], axis=1), [shape[0], int(np.prod(shape[1:]))], step)
    else:
        g.rounded(case.node(kind, [name, case.constant(np.array([0, -1], np.int64), "i64")]),
                  [shape[0], int(np.prod(shape[1:]))], step)
    return True


@operator("QuantizedGraph", 13, weight=12)
def quantized_graph(case):
    g = Region(case)
    case.declaring = "sizes"
    shape = case.choice([[case.integer(1, 2), case.choice([1, 3, 4, 16, 18]), case.integer(1, 9), case.integer(1, 9)],
                         [case.integer(1, 4), case.choice([1, 5, 16, 33])]])
    g.rounded(case.feed(case.values(shape, "f32", -2, 2), "f32", 0), shape, 2.0 ** -5, 60, 200)
    steps = [convolution, convolution, convolution, product, binary, function, pool, concat, move]
    for _ in range(case.integer(1, 6)):
        for _ in range(20):
            name, shape = case.choice(g.values[-3:])
            if int(np.prod(shape)) <= 4000 and case.choice(steps)(g, case, name, shape):
                break
    case.output(g.values[-1][0], "f32")
    case.within(0, g.step * 1.001)

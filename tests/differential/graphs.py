"""Small random graphs, for the compiler's passes: whatever they merge, fold or leave out, results must not change."""
import math

import numpy as np

from table import operator


class Growing:
    """A graph to which random nodes are added; every value is f32 and bounded, with its shape known here."""

    def __init__(self, case):
        self.case = case
        self.values = []  # names and shapes
        self.scale = {}   # a bound of each value's size

    def add(self, name, shape, bound):
        self.values.append((name, list(shape)))
        self.scale[name] = bound
        return name

    def pick(self, condition=lambda shape: True):
        fitting = [value for value in self.values[-8:] if condition(value[1])]
        return self.case.choice(fitting) if fitting else None

    def constant(self, shape, low=-1.0, high=1.0):
        return self.case.constant(self.case.values(shape, "f32", low, high), "f32")


def unary(g, case):
    name, shape = g.pick()
    bound = g.scale[name]
    kind = case.choice(["Relu", "Tanh", "Sigmoid", "Neg", "Abs", "LeakyRelu", "Clip", "Identity", "Erf", "Elu", "HardSigmoid",
                        "Softplus", "Sqrt", "Cast", "Dropout", "HardSwish"])
    attributes, operands = {}, [name]
    if kind == "Clip":
        if case.opset < 11:
            attributes = {"min": -0.5, "max": 1.5}
        else:
            operands += [case.constant(np.array(-0.5, np.float32), "f32"), case.constant(np.array(1.5, np.float32), "f32")]
    elif kind == "LeakyRelu":
        attributes["alpha"] = case.real(0.01, 0.5)
    elif kind == "Sqrt":
        operands = [case.node("Add", [case.node("Abs", [name]), case.constant(np.array([0.5], np.float32), "f32")])]
        bound += 1
    elif kind == "Cast":
        double = case.node("Cast", [name], to=11)
        if case.chance(0.5):
            double = case.node("Mul", [double, case.constant(np.array(0.5), "f64")])
        operands, attributes = [double], {"to": 1}
    elif (kind == "Erf" and case.opset < 9) or (kind == "HardSwish" and case.opset < 14):
        kind = "Tanh"
    if kind == "Clip" and bound < 0.4:
        kind, operands, attributes = "Neg", [name], {}
    g.add(case.node(kind, operands, **attributes), shape, bound + 1)


def binary(g, case):
    name, shape = g.pick()
    kind = case.choice(["Add", "Sub", "Mul", "Add", "Mul", "Div", "Max", "Min"])
    other = g.pick(lambda item: compatible(item, shape)) if case.chance(0.6) else None
    if other is None:
        dims = case.broadcastable(shape, 0.5)
        low = 0.5 if kind == "Div" else -1
        other = (g.constant(dims, low, 1.5) if case.chance(0.7) else case.feed(case.values(dims, "f32", low, 1.5), "f32"), dims)
        g.scale[other[0]] = 1.5
    elif kind == "Div":
        kind = "Sub"
    if kind in ("Max", "Min") and case.opset < 8:
        kind = "Add"
    bound = g.scale[name] + g.scale[other[0]] if kind in ("Add", "Sub", "Max", "Min") else \
        g.scale[name] * (2 if kind == "Div" else g.scale[other[0]])
    if bound > 1000:
        return
    pair = [name, other[0]]
    if case.chance(0.5) and kind != "Div":
        pair.reverse()
    g.add(case.node(kind, pair), np.broadcast_shapes(tuple(shape), tuple(other[1])), bound)


def compatible(first, second):
    try:
        return math.prod(np.broadcast_shapes(tuple(first), tuple(second))) <= 20000
    except ValueError:
        return False


def reduce(g, case):
    value = g.pick(lambda shape: len(shape) >= 1)
    if value is None:
        return
    name, shape = value
    kind = case.choice(["ReduceMean", "ReduceMean", "ReduceMax", "ReduceSum", "ReduceL2", "ReduceMin"])
    axes = sorted(axis % len(shape) for axis in case.axes(len(shape)))
    keep = case.choice([None, 0, 1])
    count = math.prod(shape[axis] for axis in axes)
    if count == 0:
        return
    if kind in ("ReduceSum", "ReduceL2") and count > 64:
        kind = "ReduceMean"
    operand = case.opset >= (13 if kind == "ReduceSum" else 18)
    operands = [name] + ([case.constant(np.array(axes, np.int64), "i64")] if operand else [])
    y = case.node(kind, operands, keepdims=keep, axes=None if operand else axes)
    result = [1 if axis in axes else size for axis, size in enumerate(shape) if keep != 0 or axis not in axes]
    g.add(y, result, g.scale[name] * (count if kind in ("ReduceSum", "ReduceL2") else 1))


def transpose(g, case):
    name, shape = g.pick()
    order = case.random.sample(range(len(shape)), len(shape))
    g.add(case.node("Transpose", [name], perm=order or None), [shape[axis] for axis in order], g.scale[name])


def reshape(g, case):
    name, shape = g.pick()
    kind = case.choice(["merge", "flatten", "unsqueeze", "squeeze", "from_shape", "all"])
    count = math.prod(shape)
    if kind == "merge" and len(shape) >= 2 and count:
        at = case.integer(0, len(shape) - 2)
        target = shape[:at] + [shape[at] * shape[at + 1]] + shape[at + 2:]
        asked = list(target)
        asked[at] = -1
        y = case.node("Reshape", [name, case.constant(np.array(asked, np.int64), "i64")])
    elif kind == "flatten" and len(shape) >= 1:
        axis = case.integer(0, len(shape))
        target = [math.prod(shape[:axis]), math.prod(shape[axis:])]
        y = case.node("Flatten", [name], axis=axis)
    elif kind == "unsqueeze" and len(shape) < 5:
        axis = case.integer(0, len(shape))
        target = shape[:axis] + [1] + shape[axis:]
        y = case.node("Unsqueeze", [name], axes=[axis]) if case.opset < 13 else \
            case.node("Unsqueeze", [name, case.constant(np.array([axis], np.int64), "i64")])
    elif kind == "squeeze" and 1 in shape:
        axis = shape.index(1)
        target = shape[:axis] + shape[axis + 1:]
        y = case.node("Squeeze", [name], axes=[axis]) if case.opset < 13 else \
            case.node("Squeeze", [name, case.constant(np.array([axis], np.int64), "i64")])
    elif kind == "from_shape" and len(shape) >= 2 and count:  # as exporters write a flattening
        dims = case.node("Shape", [name])
        first = case.node("Gather", [dims, case.constant(np.array(0, np.int64), "i64")], axis=0)
        one = case.node("Unsqueeze", [first], axes=[0]) if case.opset < 13 else \
            case.node("Unsqueeze", [first, case.constant(np.array([0], np.int64), "i64")])
        asked = case.node("Concat", [one, case.constant(np.array([math.prod(shape[1:])], np.int64), "i64")], axis=0)
        target = [shape[0], math.prod(shape[1:])]
        y = case.node("Reshape", [name, asked])
    else:
        target = [count]
        y = case.node("Reshape", [name, case.constant(np.array([-1], np.int64), "i64")])
    g.add(y, target, g.scale[name])


def concat(g, case):
    value = g.pick(lambda shape: 1 <= len(shape) and math.prod(shape) < 4000)
    if value is None:
        return
    name, shape = value
    axis = case.integer(0, len(shape) - 1)
    parts = [name]
    size = shape[axis]
    for _ in range(case.integer(1, 3)):
        dims = list(shape)
        other = g.pick(lambda item: len(item) == len(shape) and
                       all(a == b for i, (a, b) in enumerate(zip(item, shape)) if i != axis))
        if other is None or case.chance(0.3):
            dims[axis] = case.integer(1, 5)
            other = (g.constant(dims), dims)
            g.scale[other[0]] = 1
        parts.append(other[0])
        size += other[1][axis]
    case.random.shuffle(parts)
    result = list(shape)
    result[axis] = size
    g.add(case.node("Concat", parts, axis=axis), result, max(g.scale[part] for part in parts))


def split(g, case):
    value = g.pick(lambda shape: any(size > 1 for size in shape))
    if value is None:
        return
    name, shape = value
    axis = case.choice([axis for axis, size in enumerate(shape) if size > 1])
    cut = case.integer(1, shape[axis] - 1)
    sizes = [cut, shape[axis] - cut]
    if case.opset < 13:
        results = case.node("Split", [name], 2, axis=axis, split=sizes)
    else:
        results = case.node("Split", [name, case.constant(np.array(sizes, np.int64), "i64")], 2, axis=axis)
    for result, size in zip(results, sizes):
        g.add(result, shape[:axis] + [size] + shape[axis + 1:], g.scale[name])


def cut(g, case):
    value = g.pick(lambda shape: any(size > 1 for size in shape))
    if value is None or case.opset < 10:
        return
    name, shape = value
    axis = case.choice([axis for axis, size in enumerate(shape) if size > 1])
    begin, step = case.integer(0, shape[axis] - 1), case.choice([1, 1, 2])
    y = case.node("Slice", [name] + [case.constant(np.array([item], np.int64), "i64")
                                     for item in (begin, 2 ** 31 - 1, axis, step)])
    g.add(y, shape[:axis] + [len(range(begin, shape[axis], step))] + shape[axis + 1:], g.scale[name])


def image(g, case):
    """An operand for convolutions and pools: what there is, or a new input."""
    value = g.pick(lambda shape: len(shape) == 4 and all(1 <= size <= 40 for size in shape) and math.prod(shape) <= 8000)
    if value is None or case.chance(0.1):
        shape = [case.choice([1, 1, 2]), case.choice([1, 3, 4, 8, 16, 17]), case.choice([5, 7, 8, 14, 16]), case.choice([5, 8, 9, 16])]
        value = (g.add(case.feed(case.values(shape, "f32"), "f32", 0), shape, 2), shape)
    return value


def convolution(g, case):
    name, shape = image(g, case)
    kernel = case.choice([[1, 1], [3, 3], [3, 3], [1, 3], [5, 5], [2, 2]])
    stride = case.choice([1, 1, 2])
    pads = [kernel[0] // 2, kernel[1] // 2] * 2
    if shape[2] + 2 * pads[0] < kernel[0] or shape[3] + 2 * pads[1] < kernel[1]:
        return
    depthwise = case.chance(0.3)
    out = shape[1] if depthwise else case.choice([1, 4, 8, 16, 17, 24, shape[1]])
    into = 1 if depthwise else shape[1]
    scale = 1 / math.sqrt(into * kernel[0] * kernel[1])
    explicit = case.chance(0.2) and case.opset >= 11
    if explicit:
        name_padded = case.node("Pad", [name, case.constant(np.array([0, 0] + pads[:2] + [0, 0] + pads[:2], np.int64), "i64")])
    operands = [name_padded if explicit else name, g.constant([out, into] + kernel, -scale, scale)]
    if case.chance(0.5):
        operands.append(g.constant([out]))
    y = case.node("Conv", operands, strides=[stride, stride], pads=[0] * 4 if explicit else pads, group=shape[1] if depthwise else 1)
    result = [shape[0], out] + [(shape[2 + i] + 2 * pads[i] - kernel[i]) // stride + 1 for i in range(2)]
    bound = g.scale[name] * into * kernel[0] * kernel[1] * scale + 1
    if case.chance(0.5):
        parameters = [g.constant([out], -1, 1), g.constant([out], -1, 1), g.constant([out], -0.5, 0.5), g.constant([out], 0.5, 2)]
        y = case.node("BatchNormalization", [y] + parameters)
        bound = bound * 2 + 2
    elif case.chance(0.3):
        y = case.node("Mul", [y, g.constant([out, 1, 1])])
        y = case.node("Add", [y, g.constant([1, out, 1, 1])])
        bound += 1
    if case.chance(0.3):
        residual = g.pick(lambda item: item == result)
        if residual is not None:
            y = case.node("Add", [y, residual[0]])
            bound += g.scale[residual[0]]
    if bound > 3000:
        return
    g.add(y, result, bound)
    if case.chance(0.5):
        g.add(case.node(case.choice(["Relu", "Sigmoid", "LeakyRelu", "Tanh"]), [y]), result, bound)
    elif case.chance(0.2):
        g.add(case.node("Mul", [y, case.node("Sigmoid", [y])]), result, bound)


def pool(g, case):
    name, shape = image(g, case)
    if shape[2] < 2 or shape[3] < 2:
        return
    kind = case.choice(["MaxPool", "AveragePool", "GlobalAveragePool"])
    if kind == "GlobalAveragePool":
        g.add(case.node(kind, [name]), shape[:2] + [1, 1], g.scale[name])
        return
    y = case.node(kind, [name], kernel_shape=[2, 2], strides=[2, 2])
    g.add(y, shape[:2] + [shape[2] // 2, shape[3] // 2], g.scale[name])


def product(g, case):
    value = g.pick(lambda shape: len(shape) >= 2 and shape[-1] <= 600 and math.prod(shape) >= 1)
    if value is None:
        return
    name, shape = value
    inner, columns = shape[-1], case.choice([1, 3, 8, 16, 17, 33])
    if inner == 0:
        return
    scale = 1 / math.sqrt(inner)
    kind = case.choice(["MatMul", "MatMul", "Gemm", "self"])
    if kind == "self" and math.prod(shape) * shape[-2] <= 40000 and g.scale[name] ** 2 * inner < 500:
        order = list(range(len(shape)))
        order[-1], order[-2] = order[-2], order[-1]
        y = case.node("MatMul", [name, case.node("Transpose", [name], perm=order)])
        if case.chance(0.5):
            y = case.node("Mul", [y, case.constant(np.array(scale, np.float32), "f32")])
        bound, result = g.scale[name] ** 2 * inner, shape[:-1] + [shape[-2]]
        if case.chance(0.5):
            y, bound = case.node("Softmax", [y], axis=len(shape) - 1), 1
        g.add(y, result, bound)
        return
    bound = g.scale[name] * inner * scale + 1
    if bound > 3000:
        return
    if kind == "Gemm" and len(shape) == 2:
        turned = case.choice([0, 1])
        operands = [name, g.constant([columns, inner] if turned else [inner, columns], -scale, scale)]
        if case.opset < 11 or case.chance(0.6):
            operands.append(g.constant(case.broadcastable([shape[0], columns], 0.5)))
        y = case.node("Gemm", operands, transB=turned)
    else:
        y = case.node("MatMul", [name, g.constant([inner, columns], -scale, scale)])
        if case.chance(0.6):
            y = case.node("Add", [y, g.constant([columns])])
    g.add(y, shape[:-1] + [columns], bound)
    if case.chance(0.4):
        g.add(case.node(case.choice(["Relu", "Tanh", "Sigmoid"]), [y]), shape[:-1] + [columns], bound)


def normalize(g, case):
    value = g.pick(lambda shape: len(shape) >= 1 and shape[-1] >= 3)
    if value is None:
        return
    name, shape = value
    if g.scale[name] > 50:
        return
    if case.chance(0.5):
        g.add(case.node("Softmax", [name], axis=len(shape) - 1), shape, 1)
        return
    # Layer normalization, as exporters write it.
    operand = case.opset >= 18
    axes = [case.constant(np.array([-1], np.int64), "i64")] if operand else []
    attribute = None if operand else [len(shape) - 1]
    mean = case.node("ReduceMean", [name] + axes, axes=attribute)
    centered = case.node("Sub", [name, mean])
    square = case.node("Pow", [centered, case.constant(np.array(2, np.float32), "f32")]) if case.chance(0.5) else \
        case.node("Mul", [centered, centered])
    variance = case.node("ReduceMean", [square] + axes, axes=attribute)
    deviation = case.node("Sqrt", [case.node("Add", [variance, case.constant(np.array(0.01, np.float32), "f32")])])
    y = case.node("Div", [centered, deviation])
    if case.chance(0.7):
        y = case.node("Add", [case.node("Mul", [y, g.constant([shape[-1]])]), g.constant([shape[-1]])])
    g.add(y, shape, math.sqrt(shape[-1]) + 1)


def select(g, case):
    value = g.pick(lambda shape: len(shape) >= 1 and all(shape))
    if value is None:
        return
    name, shape = value
    if case.chance(0.5):
        axis = case.integer(0, len(shape) - 1)
        chosen = case.ints(case.choice([[], [1], [3]]), "i64", 0, shape[axis] - 1)
        y = case.node("Gather", [name, case.constant(chosen, "i64")], axis=axis)
        g.add(y, shape[:axis] + list(chosen.shape) + shape[axis + 1:], g.scale[name])
    elif case.opset >= 9:
        mask = case.node("Greater", [name, case.constant(np.array(100 + g.scale[name], np.float32), "f32")])
        g.add(case.node("Where", [mask, case.constant(np.array(-1, np.float32), "f32"), name]), shape, g.scale[name] + 1)


def gelu(g, case):
    """As exporters of before the operator write it."""
    name, shape = g.pick()
    number = lambda value: case.constant(np.array(value, np.float32), "f32")
    if case.opset < 9:
        return
    inner = case.node("Erf", [case.node("Div", [name, number(math.sqrt(2))])])
    y = case.node("Mul", [name, case.node("Add", [inner, number(1)])])
    g.add(case.node("Mul", [y, number(0.5)]), shape, g.scale[name])


def heads(g, case):
    """Attention, as exporters write it."""
    value = g.pick(lambda shape: len(shape) == 3 and shape[2] % 2 == 0 and 2 <= shape[2] <= 64 and 0 < math.prod(shape) <= 4000)
    if value is None:
        shape = [case.integer(1, 2), case.choice([1, 3, 8, 17]), case.choice([4, 8, 16])]
        value = (g.add(case.feed(case.values(shape, "f32"), "f32", 0), shape, 2), shape)
    name, (batch, steps, width) = value
    if g.scale[name] > 50:
        return
    number, size = 2, width // 2
    scale = 1 / math.sqrt(width)
    parts = []
    for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        x = case.node("MatMul", [name, g.constant([width, width], -scale, scale)])
        if case.chance(0.6):
            x = case.node("Add", [x, g.constant([width])])
        x = case.node("Reshape", [x, case.constant(np.array([0, -1 if case.chance(0.5) else steps, number, size], np.int64), "i64")])
        parts.append(case.node("Transpose", [x], perm=order))
    scores = case.node("MatMul", parts[:2])
    scores = case.node("Div", [scores, case.constant(np.array(math.sqrt(size), np.float32), "f32")])
    if case.chance(0.4):
        scores = case.node("Add", [scores, g.constant([steps, steps], -2, 0)])
    y = case.node("MatMul", [case.node("Softmax", [scores], axis=3), parts[2]])
    y = case.node("Transpose", [y], perm=[0, 2, 1, 3])
    y = case.node("Reshape", [y, case.constant(np.array([batch if case.chance(0.5) else 0, -1, width], np.int64), "i64")])
    g.add(y, [batch, steps, width], g.scale[name] * math.sqrt(width) + 1)


def spread(g, case):
    name, shape = g.pick()
    if case.opset < 8 or math.prod(shape) > 4000:
        return
    if case.chance(0.5):
        target = [case.integer(1, 3)] + [case.integer(2, 4) if size == 1 else size for size in shape]
        y = case.node("Expand", [name, case.constant(np.array(target, np.int64), "i64")])
    else:
        repeats = [case.integer(1, 2) for _ in shape]
        target = [size * times for size, times in zip(shape, repeats)]
        y = case.node("Tile", [name, case.constant(np.array(repeats, np.int64), "i64")])
    g.add(y, target, g.scale[name])


def halved(g, case):
    """Parts of a value that are put together again, in the same order or another."""
    value = g.pick(lambda shape: any(size > 1 and size % 2 == 0 for size in shape))
    if value is None or case.opset < 10:
        return
    name, shape = value
    axis = case.choice([axis for axis, size in enumerate(shape) if size > 1 and size % 2 == 0])
    half = shape[axis] // 2
    number = lambda item: case.constant(np.array([item], np.int64), "i64")
    if case.chance(0.5):
        parts = [case.node("Slice", [name, number(0), number(half), number(axis)]),
                 case.node("Slice", [name, number(half), number(2 ** 62), number(axis)])]
    elif case.opset < 13:
        parts = case.node("Split", [name], 2, axis=axis)
    else:
        parts = case.node("Split", [name, case.constant(np.array([half, half], np.int64), "i64")], 2, axis=axis)
    if case.chance(0.4):  # as rotary embeddings do
        parts[1] = case.node("Neg", parts[1:])
    if case.chance(0.5):
        parts.reverse()
    g.add(case.node("Concat", parts, axis=axis), shape, g.scale[name])


STEPS = [gelu, heads, spread] + [halved] * 2 + [unary] * 5 + [binary] * 6 + [reduce] * 2 + [transpose] * 3 + [reshape] * 3 + \
    [concat] * 2 + [split] * 2 + [cut] * 2 + [convolution] * 4 + [pool] * 2 + [product] * 3 + [normalize] * 2 + [select] * 2


@operator("Graph", weight=60)
def graph(case):
    g = Growing(case)
    if case.declaring == "nothing":
        case.declaring = "rank"
    for _ in range(case.integer(1, 2)):
        shape = case.shape(low=1, limit=2000, zero=0.01)
        g.add(case.feed(case.values(shape, "f32"), "f32", 0), shape, 2)
    steps = case.choice([STEPS, STEPS, [unary, binary, reduce, transpose, reshape], [convolution, convolution, pool, unary, binary, cut],
                         [product, normalize, transpose, reshape, split, binary, heads, gelu]])
    length = case.integer(5, 30)
    while len(case.nodes) < length and case.counter < 300:
        case.choice(steps)(g, case)
        case.counter += 1
    used = {name for node in case.nodes for name in node.input}
    made = {name for node in case.nodes for name in node.output}
    ends = [name for name, _ in g.values if name in made and (name not in used or case.chance(0.1))][:20]
    for name in ends:
        case.output(name, "f32")
    largest = max([g.scale[name] for name in ends] or [1])
    case.within(1e-3, 1e-5 * max(10, min(largest, 1000)))

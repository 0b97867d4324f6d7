"""Random networks of convolutions and their neighbors over lines, planes and volumes, for the passes that change the layout
of channels: layouts.sh compiles each with every option that chooses a layout."""
import math

import numpy as np

from table import operator

CHANNELS = [1, 2, 3, 4, 8, 12, 15, 16, 16, 17, 24, 32, 32, 48, 64]
MOST_ELEMENTS = 60000
MOST_TERMS = 3e7  # products of a convolution


class Network:
    """A network under construction: each value's name, shape and use count. Values are f32 of about size 1."""

    def __init__(self, case, axes):
        self.case, self.axes = case, axes
        self.values = []

    def add(self, name, shape):
        self.values.append((name, [int(size) for size in shape]))

    def image(self, condition=lambda shape: True):
        """A recent value, often the newest; the same one may be drawn again, so that it has several readers."""
        fitting = [value for value in self.values[-7:] if len(value[1]) == self.axes + 2 and condition(value[1])]
        if not fitting:
            return None
        return fitting[-1] if self.case.chance(0.5) else self.case.choice(fitting)

    def constant(self, shape, low=-1.0, high=1.0):
        return self.case.constant(self.case.values([int(size) for size in shape], "f32", low, high), "f32")

    def numbers(self, items):
        return self.case.constant(np.array(items, np.int64), "i64")


def window(net, shape, most=5):
    """Window, strides, pads and dilations that fit to the shape, and the sizes of the result."""
    case = net.case
    kernel, strides, dilations, pads, sizes = [], [], [], [], []
    same = case.chance(0.6)
    all_of = case.choice([1, 3, 3, 5, 2]) if same else None
    stride = case.choice([1, 1, 1, 2])
    for size in shape[2:]:
        k = min(all_of or case.integer(1, most), most, size + 2)
        d = case.choice([1, 1, 1, 1, 2])
        low, high = (k // 2, k // 2) if case.chance(0.7) else (case.integer(0, k // 2), case.integer(0, k // 2))
        if size + low + high < d * (k - 1) + 1:
            k, d, low, high = 1, 1, 0, 0
        kernel.append(k)
        dilations.append(d)
        strides.append(stride)
        pads.append((low, high))
        sizes.append((size + low + high - d * (k - 1) - 1) // stride + 1)
    return kernel, strides, [low for low, _ in pads] + [high for _, high in pads], dilations, sizes


def convolution(net):
    case = net.case
    name, shape = net.image()
    channels = shape[1]
    kernel, strides, pads, dilations, sizes = window(net, shape, 7)
    kind = case.choice(["plain", "plain", "plain", "depthwise", "grouped"])
    groups = {"plain": 1, "depthwise": channels}.get(kind) or case.choice([g for g in (1, 2, 4, 8) if channels % g == 0])
    outputs = channels if kind != "plain" and case.chance(0.7) else groups * case.choice([1, 2, 8, 16])
    outputs = case.choice(CHANNELS) if kind == "plain" else outputs
    terms = channels // groups * math.prod(kernel)
    if shape[0] * outputs * math.prod(sizes) > MOST_ELEMENTS or shape[0] * outputs * math.prod(sizes) * terms > MOST_TERMS:
        return
    scale = 1.5 / math.sqrt(terms)
    operands = [name, net.constant([outputs, channels // groups] + kernel, -scale, scale)]
    if case.chance(0.6):
        operands.append(net.constant([outputs], -0.3, 0.3))
    net.add(case.node("Conv", operands, kernel_shape=kernel, strides=strides, pads=pads, dilations=dilations, group=groups),
            [shape[0], outputs] + sizes)


def transposed(net):
    case = net.case
    name, shape = net.image(lambda shape: math.prod(shape) < 8000)  or (None, None)
    if name is None:
        return
    stride, k = case.choice([1, 2, 2]), case.choice([1, 2, 3, 4])
    pad = case.integer(0, (k - 1) // 2)
    more = case.integer(0, stride - 1) if k >= stride else 0
    groups = case.choice([1, 1, 1, 2]) if shape[1] % 2 == 0 else 1
    each = case.choice([1, 3, 8, 16, 17])
    sizes = [(size - 1) * stride + k - 2 * pad + more for size in shape[2:]]
    if min(sizes) < 1 or shape[0] * groups * each * math.prod(sizes) > MOST_ELEMENTS:
        return
    scale = 1.5 / math.sqrt(shape[1] // groups * math.ceil(k / stride) ** net.axes)
    operands = [name, net.constant([shape[1], each] + [k] * net.axes, -scale, scale)]
    if case.chance(0.5):
        operands.append(net.constant([groups * each], -0.3, 0.3))
    net.add(case.node("ConvTranspose", operands, strides=[stride] * net.axes, kernel_shape=[k] * net.axes,
                      pads=[pad] * (2 * net.axes), output_padding=[more] * net.axes if more else None, group=groups),
            [shape[0], groups * each] + sizes)


def normalization(net):
    case = net.case
    name, shape = net.image()
    count = [shape[1]]
    kind = case.choice(["batch", "batch", "batch", "batch", "instance"])
    scale, shift = net.constant(count, 0.5, 1.5), net.constant(count, -0.5, 0.5)
    if kind == "instance":
        if math.prod(shape[2:]) < 2:
            return
        net.add(case.node("InstanceNormalization", [name, scale, shift], epsilon=0.1), shape)
        return
    net.add(case.node("BatchNormalization", [name, scale, shift, net.constant(count, -0.5, 0.5), net.constant(count, 0.5, 2)],
                      epsilon=1e-3), shape)


def activation(net):
    case = net.case
    name, shape = net.image()
    kind = case.choice(["Relu", "Relu", "Relu", "LeakyRelu", "Clip", "Sigmoid", "HardSwish", "Elu", "Tanh", "Silu", "PRelu", "Abs",
                        "Softplus", "HardSigmoid", "Neg", "Selu", "Erf"])
    operands, attributes = [name], {}
    if kind == "Silu":
        net.add(case.node("Mul", [name, case.node("Sigmoid", [name])]), shape)
        return
    if kind == "HardSwish" and case.opset < 14:
        kind = "Relu"
    if kind == "Clip":
        operands += [case.constant(np.array(0, np.float32), "f32"), case.constant(np.array(6, np.float32), "f32")]
    elif kind == "LeakyRelu":
        attributes["alpha"] = 0.1
    elif kind == "PRelu":
        operands.append(net.constant(case.choice([[shape[1]] + [1] * net.axes, [1] * (net.axes + 1), [1], [1] * net.axes,
                                                  [1, shape[1]] + [1] * net.axes]), 0.05, 0.5))
    net.add(case.node(kind, operands, **attributes), shape)


def addition(net):
    """A residual connection, or a constant for each channel or for all."""
    case = net.case
    name, shape = net.image()
    others = [value for value in net.values if value[1] == shape]
    if case.chance(0.7) and others:
        other = case.choice(others)[0]
    else:
        other = net.constant(case.choice([[shape[1]] + [1] * net.axes, [1, shape[1]] + [1] * net.axes, [1], [], shape[1:],
                                          [1] * (net.axes + 1) + shape[-1:]]), -0.5, 0.5)
    pair = [name, other]
    if case.chance(0.3):
        pair.reverse()
    kind = case.choice(["Add", "Add", "Add", "Sub", "Max", "Min"])
    value = case.node(kind, pair)
    if kind in ("Add", "Sub") and case.chance(0.5):
        value = case.node("Mul", [value, case.constant(np.array(0.7, np.float32), "f32")])
    net.add(value, shape)


def gate(net):
    """Squeeze and excitation: factors for each channel, from the mean over space."""
    case = net.case
    name, shape = net.image()
    kind = case.choice(["pool", "reduce", "flat"])
    axes = list(range(2, net.axes + 2))
    if kind == "pool":
        mean = case.node("GlobalAveragePool", [name])
    elif case.opset < 18:
        mean = case.node("ReduceMean", [name], axes=axes, keepdims=1 if kind == "reduce" else 0)
    else:
        mean = case.node("ReduceMean", [name, net.numbers(axes)], keepdims=1 if kind == "reduce" else 0)
    if kind == "flat":
        mean = case.node("Unsqueeze", [mean, net.numbers(axes)])
    scale = 1.5 / math.sqrt(shape[1])
    factors = case.node("Conv", [mean, net.constant([shape[1], shape[1]] + [1] * net.axes, -scale, scale)])
    net.add(case.node("Mul", [name, case.node("Sigmoid", [factors])]), shape)


def concatenation(net):
    case = net.case
    name, shape = net.image()
    parts = [(name, shape)] + [value for value in net.values if value[1][2:] == shape[2:] and value[1][:1] == shape[:1] and
                               len(value[1]) == len(shape) and case.chance(0.5)][:3]
    if case.chance(0.15):
        other = [shape[0], case.choice(CHANNELS)] + shape[2:]
        parts.append((net.constant(other), other))
    case.random.shuffle(parts)
    total = sum(part[1][1] for part in parts)
    if shape[0] * total * math.prod(shape[2:]) > MOST_ELEMENTS or total > 200:
        return
    net.add(case.node("Concat", [part[0] for part in parts], axis=case.choice([1, 1, -1 - net.axes])),
            [shape[0], total] + shape[2:])


def parts_of(net):
    case = net.case
    name, shape = net.image(lambda shape: shape[1] > 1) or (None, None)
    if name is None:
        return
    first = case.choice([size for size in (16, 32, shape[1] // 2, case.integer(1, shape[1] - 1)) if 0 < size < shape[1]])
    sizes = [first, shape[1] - first]
    if case.chance(0.4):
        results = case.node("Split", [name, net.numbers(sizes)], 2, axis=1)
        # A part that nothing reads stays one.
        for result, size in list(zip(results, sizes))[:case.choice([1, 2, 2])]:
            net.add(result, [shape[0], size] + shape[2:])
        return
    axis = case.integer(1, net.axes + 1)
    begin = case.integer(0, shape[axis] - 1) if axis != 1 else case.choice([0, first])
    end = shape[axis] if case.chance(0.5) else case.integer(begin + 1, shape[axis])
    step = case.choice([1, 1, 2]) if axis != 1 else 1
    size = (end - begin + step - 1) // step
    value = case.node("Slice", [name, net.numbers([begin]), net.numbers([end]), net.numbers([axis]), net.numbers([step])])
    net.add(value, shape[:axis] + [size] + shape[axis + 1:])


def pool(net):
    case = net.case
    name, shape = net.image()
    kind = case.choice(["MaxPool", "MaxPool", "AveragePool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"])
    if kind.startswith("Global"):
        net.add(case.node(kind, [name]), shape[:2] + [1] * net.axes)
        return
    kernel, strides, pads, dilations, sizes = window(net, shape, 3)
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    if kind == "MaxPool":
        attributes["dilations"] = dilations
    else:
        sizes = [(size + pads[i] + pads[i + net.axes] - kernel[i]) // strides[i] + 1 for i, size in enumerate(shape[2:])]
        attributes["count_include_pad"] = case.integer(0, 1)
    # The maximum of a window without elements differs between implementations.
    if any(pads[i] >= kernel[i] or pads[i + net.axes] >= kernel[i] for i in range(net.axes)) or \
            (any(pads) and kind == "MaxPool" and any(item > 1 for item in dilations)):
        return
    net.add(case.node(kind, [name], **attributes), shape[:2] + sizes)


def resize(net):
    case = net.case
    name, shape = net.image(lambda shape: math.prod(shape) < 8000) or (None, None)
    if name is None:
        return
    mode = case.choice(["nearest", "linear"])
    attributes = {"mode": mode, "coordinate_transformation_mode": case.choice(["asymmetric", "half_pixel", "align_corners"])
                  if mode == "linear" else "asymmetric"}
    if mode == "nearest":
        attributes["nearest_mode"] = "floor"
    sizes = [size * 2 for size in shape[2:]] if case.chance(0.7) else [case.integer(1, size + 3) for size in shape[2:]]
    if case.chance(0.5) and all(size == 2 * old for size, old in zip(sizes, shape[2:])):
        scales = case.constant(np.array([1, 1] + [2] * net.axes, np.float32), "f32")
        value = case.node("Resize", [name, "", scales], **attributes)
    else:
        value = case.node("Resize", [name, "", "", net.numbers(shape[:2] + sizes)], **attributes)
    net.add(value, shape[:2] + sizes)


def turn(net):
    """What no blocked layout goes through: padding, shuffled channels, another order of axes, a softmax."""
    case = net.case
    name, shape = net.image()
    kind = case.choice(["pad", "shuffle", "turn", "softmax"])
    if kind == "pad":
        ends = [case.integer(0, 2) if axis > 1 else 0 for axis in list(range(net.axes + 2)) * 2]
        net.add(case.node("Pad", [name, net.numbers(ends)], mode="constant"),
                [size + ends[i] + ends[i + net.axes + 2] for i, size in enumerate(shape)])
    elif kind == "shuffle" and shape[1] % 2 == 0 and case.declaring == "sizes":
        split = case.node("Reshape", [name, net.numbers([shape[0], 2, shape[1] // 2] + shape[2:])])
        order = [0, 2, 1] + list(range(3, net.axes + 3))
        net.add(case.node("Reshape", [case.node("Transpose", [split], perm=order), net.numbers(shape)]), shape)
    elif kind == "turn":
        order = [0, 1] + list(reversed(range(2, net.axes + 2)))
        net.add(case.node("Transpose", [name], perm=order), [shape[axis] for axis in order])
    elif kind == "softmax":
        net.add(case.node("Softmax", [name], axis=1), shape)


STEPS = [convolution] * 9 + [transposed] * 2 + [normalization] * 5 + [activation] * 6 + [addition] * 4 + [gate] + \
    [concatenation] * 2 + [parts_of] * 2 + [pool] * 2 + [resize] + [turn]


@operator("Layout", since=13, weight=10)
def layout(case):
    axes = case.integer(1, 3)
    net = Network(case, axes)
    if case.declaring == "nothing":
        case.declaring = "rank"
    most = {1: 40, 2: 20, 3: 7}[axes]
    for _ in range(case.choice([1, 1, 1, 2])):
        size = case.integer(2, most)
        shape = [case.integer(1, 2), case.choice(CHANNELS)] + [max(1, size + case.integer(-1, 1)) for _ in range(axes)]
        net.add(case.feed(case.values(shape, "f32", -1, 1), "f32", 0), shape)
    length = case.integer(3, 25)
    steps = case.choice([STEPS, STEPS, [convolution, normalization, activation, addition], STEPS + [parts_of, concatenation] * 4])
    convolution(net)
    for _ in range(100):
        if len(case.nodes) >= length:
            break
        case.choice(steps)(net)
    if not case.nodes:
        convolution_of_one(net)
    used = {name for node in case.nodes for name in node.input}
    made = {name for node in case.nodes for name in node.output}
    ends = [name for name, _ in net.values if name in made and (name not in used or case.chance(0.08))][:12]
    for name in ends:
        case.output(name, "f32")
    case.within(1e-3, 1e-3)


def convolution_of_one(net):
    name, shape = net.values[0]
    net.add(net.case.node("Conv", [name, net.constant([1, shape[1]] + [1] * net.axes)]), [shape[0], 1] + shape[2:])

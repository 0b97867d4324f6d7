"""Random convolutional networks of the blocks that published ones are made of, for the passes that merge convolutions with
what follows and keep channels in blocks."""
import math
from collections import namedtuple

import numpy as np

from table import operator

Map = namedtuple("Map", "name channels height width")  # one batch size for a whole network


class Network:
    """Layers whose results stay near 1, whatever their widths are."""

    def __init__(self, case):
        self.case, self.batch = case, case.choice([1, 1, 1, 2, 3])
        self.ends = []  # results besides the last

    def weights(self, shape, terms):
        bound = math.sqrt(3 / terms)
        return self.case.constant(self.case.values(shape, "f32", -bound, bound), "f32")

    def numbers(self, shape, low=-0.5, high=0.5):
        return self.case.constant(self.case.values(shape, "f32", low, high), "f32")

    def made(self, name, channels, height, width):
        if self.case.chance(0.06):
            self.ends.append(name)
        return Map(name, channels, height, width)

    def like(self, x, name):
        return self.made(name, *x[1:])

    def convolution(self, x, out, kernel=(3, 3), stride=1, groups=1, normalize=True):
        case = self.case
        dilation = 2 if kernel != (1, 1) and min(x.height, x.width) > 6 and case.chance(0.1) else 1
        reach = [(size - 1) * dilation + 1 for size in kernel]
        pads = [(size - 1) // 2 for size in reach] + [size // 2 for size in reach]
        operands = [x.name, self.weights([out, x.channels // groups, *kernel], x.channels // groups * math.prod(kernel))]
        if case.chance(0.6):
            operands.append(self.numbers([out]))
        if case.declaring == "sizes" and dilation == 1 and case.chance(0.2):
            attributes = {"auto_pad": "SAME_UPPER"}
        else:
            attributes = {"pads": pads}
        y = case.node("Conv", operands, strides=[stride] * 2 if stride > 1 or case.chance(0.5) else None,
                      dilations=[dilation] * 2 if dilation > 1 else None, group=groups, kernel_shape=list(kernel), **attributes)
        y = self.made(y, out, -(-x.height // stride), -(-x.width // stride))
        return self.normalized(y) if normalize and case.chance(0.5) else y

    def normalized(self, x):
        case = self.case
        count = x.channels
        kind = case.choice(["batch", "batch", "batch", "affine", "instance"])
        if kind == "instance" and x.height * x.width < 8:
            kind = "affine"
        if kind == "batch":
            y = case.node("BatchNormalization", [x.name, self.numbers([count], 0.5, 1.5), self.numbers([count]),
                                                 self.numbers([count]), self.numbers([count], 0.5, 2)])
        elif kind == "affine":
            y = case.node("Mul", [x.name, self.numbers([1, count, 1, 1], 0.5, 1.5)])
            y = case.node("Add", [y, self.numbers(case.choice([[count, 1, 1], [1], [1, count, 1, 1]]))])
        else:
            y = case.node("InstanceNormalization", [x.name, self.numbers([count], 0.5, 1.5), self.numbers([count])])
        return self.like(x, y)

    def activation(self, x):
        case = self.case
        kind = case.choice(["Relu", "Relu", "Relu", "LeakyRelu", "Clip", "Swish", "HardSwish", "Sigmoid", "Tanh", "PRelu", "Elu", "none"])
        if kind == "none":
            return x
        if kind == "Clip":
            y = case.node("Clip", [x.name], min=0.0, max=6.0) if case.opset < 11 else \
                case.node("Clip", [x.name] + [case.constant(np.array(bound, np.float32), "f32") for bound in (0, 6)])
        elif kind == "Swish":
            y = case.node("Mul", [x.name, case.node("Sigmoid", [x.name])])
        elif kind == "HardSwish":
            y = case.node("HardSwish", [x.name]) if case.opset >= 14 else \
                case.node("Mul", [x.name, case.node("HardSigmoid", [x.name], alpha=1 / 6)])
        elif kind == "PRelu":
            y = case.node("PRelu", [x.name, self.numbers([x.channels, 1, 1])])
        else:
            y = case.node(kind, [x.name])
        return self.like(x, y)

    def layer(self, x, out, **shape):
        return self.activation(self.convolution(x, out, **shape))

    def joined(self, parts):
        parts = list(parts)
        y = self.case.node("Concat", [part.name for part in parts], axis=self.case.choice([1, 1, -3 if self.case.opset >= 11 else 1]))
        return self.made(y, sum(part.channels for part in parts), *parts[0][2:])

    def added(self, x, y):
        pair = [x.name, y.name]
        self.case.random.shuffle(pair)
        return self.like(x, self.case.node(self.case.choice(["Add", "Add", "Add", "Sub", "Max"]) if self.case.opset >= 8 else "Add", pair))


def width(case):
    return case.choice([8, 12, 16, 16, 17, 24, 32, 32, 48, 64])


def basic(net, x):
    """As in ResNet, with a projection where sizes differ."""
    stride = net.case.choice([1, 1, 2])
    out = x.channels if stride == 1 and net.case.chance(0.6) else width(net.case)
    y = net.convolution(net.layer(x, out, stride=stride), out)
    if stride > 1 or out != x.channels:
        x = net.convolution(x, out, kernel=(1, 1), stride=stride)
    return net.activation(net.added(y, x))


def bottleneck(net, x):
    inner, groups = net.case.choice([8, 16, 32]), net.case.choice([1, 1, 2, 4])
    y = net.layer(net.layer(x, inner, kernel=(1, 1)), inner, groups=groups)
    return net.activation(net.added(net.convolution(y, x.channels, kernel=(1, 1)), x))


def squeezed(net, x):
    """Squeeze and excitation."""
    case = net.case
    y = case.node("GlobalAveragePool", [x.name]) if case.chance(0.6) or case.opset >= 18 else \
        case.node("ReduceMean", [x.name], axes=[2, 3], keepdims=1)
    y = net.activation(net.convolution(Map(y, x.channels, 1, 1), case.choice([4, 8, 16]), kernel=(1, 1), normalize=False))
    y = net.convolution(y, x.channels, kernel=(1, 1), normalize=False)
    gate = case.node(case.choice(["Sigmoid", "HardSigmoid"]), [y.name])
    return net.like(x, case.node("Mul", [x.name, gate]))


def inverted(net, x):
    """As in MobileNet: wider, depthwise, narrower."""
    case = net.case
    inner, stride = x.channels * case.choice([1, 2, 3]), case.choice([1, 1, 2])
    y = net.layer(x, inner, kernel=(1, 1))
    y = net.layer(y, inner, kernel=case.choice([(3, 3), (5, 5)]), stride=stride, groups=inner)
    if case.chance(0.4):
        y = squeezed(net, y)
    if stride == 1:
        return net.added(net.convolution(y, x.channels, kernel=(1, 1)), x)
    return net.convolution(y, width(case), kernel=(1, 1))


def dense(net, x):
    for _ in range(net.case.integer(2, 4)):
        grown = net.layer(net.activation(net.normalized(x)), net.case.choice([8, 12, 16]))
        x = net.joined([x, grown])
    return net.layer(x, width(net.case), kernel=(1, 1))


def pooled(net, x, stride=1):
    case = net.case
    kind = case.choice(["MaxPool", "AveragePool"])
    y = case.node(kind, [x.name], kernel_shape=[3, 3], strides=[stride, stride], pads=[1, 1, 1, 1],
                  count_include_pad=case.choice([None, 0, 1]) if kind == "AveragePool" else None)
    return net.made(y, x.channels, (x.height - 1) // stride + 1, (x.width - 1) // stride + 1)


def inception(net, x):
    case = net.case
    branches = [lambda: net.layer(x, case.choice([8, 16, 24]), kernel=(1, 1)),
                lambda: net.layer(net.layer(x, 16, kernel=(1, 1)), case.choice([16, 32])),
                lambda: net.layer(pooled(net, x), 16, kernel=(1, 1)),
                lambda: net.layer(net.layer(x, 16, kernel=(1, 7)), 16, kernel=(7, 1)),
                lambda: x]
    return net.joined(branch() for branch in case.random.sample(branches, case.integer(2, 4)))


def halves(net, x):
    """Two halves of the channels, one of which is computed on; shuffled at the end, as in ShuffleNet."""
    case = net.case
    if x.channels % 2:
        return net.layer(x, width(case) // 2 * 2, kernel=(1, 1))
    half = x.channels // 2
    if case.opset >= 13:
        names = case.node("Split", [x.name] + ([case.constant(np.array([half, half], np.int64), "i64")] if case.opset < 18 else []), 2,
                          axis=1, num_outputs=2 if case.opset >= 18 else None)
    else:
        names = case.node("Split", [x.name], 2, axis=1)
    first, second = (Map(name, half, x.height, x.width) for name in names)
    y = net.joined([first, net.layer(net.convolution(net.layer(second, half, kernel=(1, 1)), half, groups=half), half, kernel=(1, 1))])
    if case.chance(0.5):
        name = case.node("Reshape", [y.name, case.constant(np.array([net.batch, 2, half, x.height, x.width], np.int64), "i64")])
        name = case.node("Transpose", [name], perm=[0, 2, 1, 3, 4])
        name = case.node("Reshape", [name, case.constant(np.array([0, -1, x.height, x.width], np.int64), "i64")])
        y = net.like(y, name)
    return y


def downwards(net, x):
    return pooled(net, x, 2) if net.case.chance(0.5) else net.layer(x, width(net.case), stride=2)


def hourglass(net, x):
    """As in U-Net: down, and up again to what was there."""
    case = net.case
    if x.height % 2 or x.width % 2 or x.height < 4 or x.width < 4:
        return basic(net, x)
    y = net.layer(downwards(net, x), width(case))
    out = width(case)
    if case.chance(0.5):
        name = case.node("ConvTranspose", [y.name, net.weights([y.channels, out, 2, 2], y.channels)] +
                         ([net.numbers([out])] if case.chance(0.5) else []), strides=[2, 2])
        y = net.made(name, out, x.height, x.width)
    elif case.opset >= 11:
        name = case.node("Resize", [y.name, case.constant(np.zeros(0, np.float32), "f32"),
                                    case.constant(np.array([1, 1, 2, 2], np.float32), "f32")],
                         mode=case.choice(["nearest", "linear"]), coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        y = net.made(name, y.channels, x.height, x.width)
    else:
        return basic(net, x)
    return net.layer(net.joined([y, x]), width(case))


def scaled(net, x):
    """A branch with another one's gate, as in attention over places."""
    gate = net.case.node("Sigmoid", [net.convolution(x, 1, kernel=(1, 1), normalize=False).name])
    return net.like(x, net.case.node("Mul", [net.layer(x, x.channels).name, gate]))


BLOCKS = [basic, basic, bottleneck, inverted, inverted, dense, inception, halves, hourglass, scaled, squeezed, downwards]


def head(net, x):
    """What a network ends with: classes, or the map itself."""
    case = net.case
    kind = case.choice(["classes", "classes", "map", "flat"])
    if kind == "map":
        return net.convolution(x, case.choice([1, 3, 21]), kernel=(1, 1)).name
    y, terms = x.name, x.channels
    if kind == "classes":
        y = case.node(case.choice(["GlobalAveragePool", "GlobalMaxPool"]), [x.name])
    else:
        terms *= x.height * x.width
    y = case.node("Flatten", [y]) if case.chance(0.5) else case.node("Reshape", [y, case.constant(np.array([net.batch, -1], np.int64), "i64")])
    classes = case.choice([3, 10, 33])
    y = case.node("Gemm", [y, net.weights([classes, terms], terms), net.numbers([classes])], transB=1)
    return case.node("Softmax", [y], axis=1) if case.chance(0.5) else y


@operator("Vision", weight=24)
def vision(case):
    net = Network(case)
    if case.declaring == "nothing":
        case.declaring = "rank"
    size = case.choice([(8, 8), (13, 15), (16, 16), (20, 28), (28, 28), (33, 32)])
    image = Map(case.feed(case.values([net.batch, case.choice([1, 3, 3, 16]), *size], "f32"), "f32", 0), 0, *size)
    x = net.layer(image._replace(channels=case.inputs[0][1].shape[1]), width(case), kernel=case.choice([(3, 3), (7, 7), (5, 5)]),
                  stride=case.choice([1, 1, 2]))
    repeated = case.choice([None, None, case.choice(BLOCKS)])
    for _ in range(case.integer(1, 5)):
        if min(x.height, x.width) < 2:
            break
        x = (repeated or case.choice(BLOCKS))(net, x)
        if case.chance(0.1):
            net.ends.append(x.name)
    for name in dict.fromkeys([head(net, x)] + net.ends[:6]):
        case.output(name, "f32")
    case.within(1e-3, 5e-4)

"""ONNX Runtime's contributed operators on quantized values."""
import math

import numpy as np

from contrib import contrib, narrow, node, value
from neural import image_of, window
from quantized import LIMITS, scale_of


def number(case, array, kind):
    return case.feed(np.asarray(array), kind, 0.8)


def quantized(case, shape, kind, constant=None):
    """Names of a value, its scale and its zero point; the scale is a power of two."""
    low, high = LIMITS[kind]
    return [case.feed(case.ints(shape, kind, low, high), kind, constant), number(case, scale_of(case, []), "f32"),
            number(case, case.ints([], kind, low // 2 + high // 2 - 9, low // 2 + high // 2 + 9), kind)]


def result(case, kind, scale=None, zero=None):
    """Names of a result's scale and zero point."""
    low, high = LIMITS[kind]
    case.step = float(2.0 ** case.integer(-5, 0) if scale is None else scale)
    zero = case.ints([], kind, low // 2, high // 2) if zero is None else np.array(zero, np.int16).astype(np.uint8 if kind == "u8" else np.int8)
    case.zero = zero
    return [number(case, np.float32(case.step), "f32"), number(case, zero, kind)]


def out(case, name, to, reference=None):
    """A quotient that lies between two steps is a matter of the last bit: what is compared is the value that comes back."""
    case.output(case.node("DequantizeLinear", [name] + to), "f32", reference)
    case.within(0, case.step * 1.001)


def byte(case):
    return case.choice(["u8", "i8"])


def binary(case, name):
    kind = byte(case)
    shape = case.shape(zero=0)
    operands, to = quantized(case, shape, kind) + quantized(case, case.broadcastable(shape), kind), result(case, kind)
    out(case, node(case, name, operands + to), to)


@contrib("QLinearAdd", weight=3)
def qlinear_add(case):
    binary(case, "QLinearAdd")


@contrib("QLinearMul", weight=3)
def qlinear_mul(case):
    binary(case, "QLinearMul")


@contrib("QLinearLeakyRelu")
def qlinear_leaky_relu(case):
    kind = byte(case)
    to = result(case, kind)
    out(case, node(case, "QLinearLeakyRelu", quantized(case, case.shape(zero=0), kind) + to, alpha=case.choice([None, 0.25])), to)


@contrib("QLinearSigmoid")
def qlinear_sigmoid(case):
    kind = byte(case)
    to = result(case, kind, 1 / 256, 0)
    out(case, node(case, "QLinearSigmoid", quantized(case, case.shape(zero=0), kind) + to), to)


@contrib("QLinearSoftmax")
def qlinear_softmax(case):
    kind = byte(case)
    shape = case.shape(low=2, zero=0, limit=2000)
    opset = case.choice([11, 13])
    to = result(case, kind, 1 / 128, LIMITS[kind][0])
    axis = case.integer(1, len(shape) - 1) if opset == 11 else case.axis(len(shape))
    case.known("sizes")
    out(case, node(case, "QLinearSoftmax", quantized(case, shape, kind) + to, axis=axis, opset=opset), to)


@contrib("QLinearConcat")
def qlinear_concat(case):
    kind = byte(case)
    shape = case.shape(low=1, zero=0, limit=500)
    axis = case.integer(0, len(shape) - 1)
    to = result(case, kind)
    operands = list(to)
    for _ in range(case.integer(1, 3)):
        part = list(shape)
        part[axis] = case.choice([1, 2, 3, 5])
        operands += quantized(case, part, kind)
    out(case, node(case, "QLinearConcat", operands, axis=axis), to)


@contrib("QLinearWhere")
def qlinear_where(case):
    kind = byte(case)
    shape = case.shape(zero=0)
    operands = [case.feed(case.values(shape, "bool"), "bool", 0)]
    for dims in (shape, case.broadcastable(shape)):  # the peer crashes over scales that are not known
        operands += [case.feed(case.ints(dims, kind), kind, 0), case.constant(scale_of(case, []), "f32"), case.constant(case.ints([], kind, 0, 99), kind)]
    case.step = 2.0 ** case.integer(-5, 0)
    to = [case.constant(np.float32(case.step), "f32"), case.constant(case.ints([], kind, 0, 99), kind)]
    out(case, node(case, "QLinearWhere", operands + to), to)


@contrib("QLinearAveragePool", weight=2)
def qlinear_average_pool(case):
    kind = byte(case)
    image = [min(size, 17) for size in image_of(case, 2)]
    kernel, attributes = window(case, 2, image, 3)
    attributes["dilations"] = None
    attributes["auto_pad"] = None
    if attributes["pads"]:
        attributes["pads"] = [min(pad, kernel[axis % 2] - 1) for axis, pad in enumerate(attributes["pads"])]
    image = [max(size, reach) for size, reach in zip(image, kernel)]
    last = case.choice([0, 1])
    case.known("sizes")
    shape = [case.integer(1, 2)] + (image + [case.choice([1, 3, 16])] if last else [case.choice([1, 3, 16])] + image)
    to = result(case, kind)
    out(case, node(case, "QLinearAveragePool", quantized(case, shape, kind) + to, kernel_shape=kernel, channels_last=last,
                   count_include_pad=case.choice([0, 1]), **attributes), to)


@contrib("QLinearGlobalAveragePool")
def qlinear_global_average_pool(case):
    kind, last = byte(case), case.choice([0, 1])
    image = [min(size, 17) for size in image_of(case, 2)]
    channels = case.choice([1, 3, 16, 17])
    to = result(case, kind)
    operands = quantized(case, [case.integer(1, 2)] + (image + [channels] if last else [channels] + image), kind) + to
    out(case, node(case, "QLinearGlobalAveragePool", operands, channels_last=last), to)


@contrib("QLinearReduceMean")
def qlinear_reduce_mean(case):
    """Which the peer does not have on this processor."""
    kind = byte(case)
    shape = case.shape(low=1, zero=0, limit=500)
    axes, keep = case.axes(len(shape)), case.choice([0, 1])
    x = case.ints(shape, kind)
    scale, zero = np.float32(2.0 ** case.integer(-4, 0)), case.ints([], kind, -9, 9)
    to = result(case, kind, None, case.integer(-9, 9) if kind == "i8" else case.integer(0, 9))
    mean = ((x.astype(float) - zero) * scale).mean(tuple(axes), keepdims=bool(keep))
    bound = np.array(LIMITS[kind]) - float(case.zero)
    operands = [case.feed(x, kind), number(case, scale, "f32"), number(case, zero, kind)] + to
    out(case, node(case, "QLinearReduceMean", operands, axes=axes, keepdims=keep), to, np.clip(np.rint(mean / case.step), *bound) * case.step)


@contrib("QLinearConv", weight=2)
def qlinear_conv(case):
    image = [min(size, 12) for size in image_of(case, 2)]
    kernel, attributes = window(case, 2, image, 3)
    groups, into, out_ = case.choice([1, 1, 2]), case.choice([1, 3, 8, 16]), case.choice([1, 3, 8, 16])
    last = case.choice([0, 1])
    first, second = case.choice([("u8", "u8"), ("u8", "i8"), ("i8", "i8")])
    case.known("sizes")
    shape = [case.integer(1, 2)] + (image + [into * groups] if last else [into * groups] + image)
    operands = quantized(case, shape, first) + [case.feed(case.ints([out_ * groups, into] + kernel, second, -128, 255), second, 1),
                                                case.constant(scale_of(case, []), "f32"), case.constant(np.array(0, np.uint8 if second == "u8" else np.int8), second)]
    to = result(case, first)
    operands += to + ([case.constant(case.ints([out_ * groups], "i32", -1000, 1000), "i32")] if case.chance(0.5) else [])
    out(case, node(case, "QLinearConv", operands, channels_last=last, group=groups, kernel_shape=kernel, **attributes), to)


@contrib("NhwcMaxPool")
def nhwc_max_pool(case):
    kind = byte(case)
    image = [min(size, 12) for size in image_of(case, 2)]
    kernel, attributes = window(case, 2, image, 3)
    attributes["auto_pad"] = None
    if attributes["pads"]:
        attributes["pads"] = [min(pad, kernel[axis % 2] - 1) for axis, pad in enumerate(attributes["pads"])]
    image = [max(size, (reach - 1) * (attributes["dilations"] or [1, 1])[axis] + 1) for axis, (size, reach) in enumerate(zip(image, kernel))]
    x = case.feed(case.ints([case.integer(1, 2)] + image + [case.choice([1, 3, 16])], kind), kind)
    case.output(node(case, "NhwcMaxPool", [x], kernel_shape=kernel, **attributes), kind)


def columns(case, count):
    return [count] if case.chance(0.4) else []


@contrib("MatMulIntegerToFloat", weight=3)
def mat_mul_integer_to_float(case):
    m, k, n = (case.choice([1, 2, 3, 5, 8, 16, 17, 33]) for _ in range(3))
    first, second = case.choice([("u8", "u8"), ("u8", "i8"), ("i8", "i8")])
    shape = columns(case, n)
    operands = [case.feed(case.ints([m, k], first, -128, 255), first), case.feed(case.ints([k, n], second, -128, 255), second, 0.7),
                number(case, scale_of(case, []), "f32"), number(case, scale_of(case, shape), "f32")]
    operands.append(number(case, case.ints([], first, -9, 200), first) if case.chance(0.6) else "")
    operands.append(number(case, case.ints(shape, second, -9, 200), second) if case.chance(0.6) else "")
    if case.chance(0.5):
        operands.append(value(case, [n])[0])
    case.output(node(case, "MatMulIntegerToFloat", operands), "f32")
    case.within(1e-5, 1e-3)


@contrib("DynamicQuantizeMatMul", weight=3)
def dynamic_quantize_mat_mul(case):
    m, k, n = (case.choice([1, 2, 3, 5, 8, 16, 17, 33]) for _ in range(3))
    second = byte(case)
    shape = columns(case, n)
    a = case.values([m, k], "f32")
    operands = [case.feed(a, "f32", 0), case.feed(case.ints([k, n], second, -128, 255), second, 0.7), number(case, scale_of(case, shape), "f32")]
    operands.append(number(case, case.ints(shape, second, -9, 200), second) if case.chance(0.6) else "")
    if case.chance(0.5):
        operands.append(value(case, [n])[0])
    case.output(node(case, "DynamicQuantizeMatMul", operands), "f32")
    # If a quotient is between two steps, a may differ by one step, times the largest weight.
    case.within(1e-4, (float(a.max()) - float(a.min()) + 2) / 255 * 0.125 * 260)


@contrib("QGemm", weight=2)
def qgemm(case):
    m, k, n = (case.choice([1, 2, 3, 5, 8, 16, 17, 33]) for _ in range(3))
    first, second = case.choice([("u8", "u8"), ("u8", "i8"), ("i8", "i8")])
    exchange = [case.chance(0.4), case.chance(0.4)]
    shape = columns(case, n)
    operands = [case.feed(case.ints([k, m] if exchange[0] else [m, k], first, -128, 255), first), number(case, scale_of(case, []), "f32"),
                number(case, case.ints([], first, -9, 100), first), case.feed(case.ints([n, k] if exchange[1] else [k, n], second, -128, 255), second, 0.7),
                number(case, scale_of(case, shape), "f32"), number(case, case.ints(shape, second, -9, 100), second),
                case.feed(case.ints(case.choice([[n], [m, n], [1, n]]), "i32", -1000, 1000), "i32", 0.5) if case.chance(0.5) else ""]
    attributes = {"transA": int(exchange[0]), "transB": int(exchange[1]), "alpha": case.choice([None, 0.5])}
    if case.chance(0.6):
        to = result(case, first)
        return out(case, node(case, "QGemm", operands + to, **attributes), to)
    case.output(node(case, "QGemm", operands, **attributes), "f32")
    case.within(1e-5, 1e-3)


@contrib("QAttention", weight=3)
def qattention(case):
    batch, length, heads, size = case.integer(1, 3), case.choice([1, 3, 8]), case.choice([1, 2, 4]), case.choice([4, 8])
    into, width = case.choice([4, 8, 16]), heads * size
    second = byte(case)
    shape = columns(case, 3 * width)
    past = case.choice([0, 0, 3])
    case.known("sizes")
    operands = [case.feed(case.ints([batch, length, into], "u8"), "u8", 0), case.feed(case.ints([into, 3 * width], second), second, 1), value(case, [3 * width])[0],
                number(case, np.float32(2.0 ** -7), "f32"), number(case, scale_of(case, shape), "f32")]
    operands.append(case.feed(case.ints([batch], "i32", 1, length), "i32", 0) if not past and case.chance(0.5) else "")
    operands += [number(case, case.ints([], "u8", 100, 150), "u8"), number(case, case.ints(shape, second, 0, 9), second)]
    if past:
        operands.append(value(case, [2, batch, heads, past, size])[0])
    results = node(case, "QAttention", operands, 2, num_heads=heads, unidirectional=case.choice([0, 1]))
    case.output(results[0], "f32")
    if past:
        case.output(results[1], "f32")
    case.within(1e-3, 1e-3)


@contrib("QEmbedLayerNormalization")
def qembed_layer_normalization(case):
    batch, length, width = case.choice([1, 2, 3]), case.choice([1, 2, 5]), case.choice([4, 8, 15])
    case.known("sizes")
    ids = [case.feed(case.ints([batch, length], "i32", 0, high), "i32", 0) for high in (9, 1)]
    tables = [quantized(case, shape, "u8") for shape in ([10, width], [length + 2, width], [2, width], [width], [width])]
    operands = ids + [table[0] for table in tables] + [""] + [table[1] for table in tables] + [table[2] for table in tables]
    results = node(case, "QEmbedLayerNormalization", operands, 2, epsilon=1e-5)
    case.output(results[0], "f32")
    case.output(results[1], "i32")
    case.within(1e-4, 1e-3)


@contrib("DynamicQuantizeLSTM", weight=2)
def dynamic_quantize_lstm(case):
    steps, batch, into, hidden = case.choice([1, 3, 5]), case.integer(1, 2), case.choice([3, 8]), case.choice([4, 8])
    direction = case.choice([None, "forward", "reverse", "bidirectional"])
    directions = 2 if direction == "bidirectional" else 1
    kind = byte(case)
    case.known("sizes")
    per_column = case.chance(0.4)
    scales = [directions, 4 * hidden] if per_column else [directions]
    operands = [value(case, [steps, batch, into], low=-1, high=1, constant=0)[0]]
    operands += [case.feed(case.ints([directions, rows, 4 * hidden], kind, -100 if kind == "i8" else 28, 100 if kind == "i8" else 228), kind, 1) for rows in (into, hidden)]
    operands += [value(case, [directions, 8 * hidden], low=-0.5, high=0.5)[0] if case.chance(0.6) else "", "", "", "", ""]
    middle = np.full(scales, 0 if kind == "i8" else 128, np.int8 if kind == "i8" else np.uint8)
    for _ in range(2):
        operands += [case.constant(np.full(scales, 1 / 128, np.float32), "f32"), case.constant(middle, kind)]
    results = node(case, "DynamicQuantizeLSTM", operands, 3, hidden_size=hidden, direction=direction)
    for name in results:
        case.output(name, "f32")
    case.within(0, 0.05)  # the peer rounds the input and each state to bytes


@contrib("DequantizeLinear", weight=2)
def dequantize(case):
    kind = case.choice(["u8", "i8", "u16", "i16", "i32"])
    low, high = LIMITS.get(kind, (-10000, 10000))
    shape = case.shape(low=1, zero=0)
    axis = case.axis(len(shape)) if case.chance(0.5) else None
    scaled = [] if axis is None else [shape[axis]]
    operands = [case.feed(case.ints(shape, kind, low, high), kind), case.feed(case.floats(scaled, "f32", 0.01, 1), "f32", 0.6)]
    if kind != "i32":
        operands.append(case.feed(case.ints(scaled, kind, low, high), kind, 0.6))
    case.output(node(case, "DequantizeLinear", operands, axis=axis), "f32")


@contrib("QuantizeLinear", weight=2)
def quantize(case):
    kind = case.choice(["u8", "i8", "u16", "i16"])
    low, high = LIMITS[kind]
    shape = case.shape(low=1, zero=0)
    axis = case.axis(len(shape)) if case.chance(0.5) else None
    scaled = [] if axis is None else [shape[axis]]
    operands = [case.feed(case.values(shape, "f32", low / 16 - 1, high / 16 + 1), "f32"), case.feed(scale_of(case, scaled), "f32", 0.6),
                case.feed(case.ints(scaled, kind, low // 2, high // 2), kind, 0.6)]
    case.output(node(case, "QuantizeLinear", operands, axis=axis), kind)
    case.kinds_seen = set()


# ---- Weights in blocks ----


@contrib("MatMulNBits", weight=6)
def mat_mul_nbits(case):
    bits = case.choice([4, 4, 4, 8, 2])
    m, k, n, block = case.choice([1, 2, 5, 17]), case.choice([16, 32, 40, 64, 100, 128]), case.choice([1, 3, 16, 33]), case.choice([16, 32, 64, 128])
    blocks = -(-k // block)
    case.known("rank")
    number_kind = narrow(case) if bits == 4 else "f32"
    a = value(case, case.choice([[m, k], [2, m, k]]), number_kind)[0]
    b = case.constant(case.ints([n, blocks, block * bits // 8], "u8"), "u8")
    scales = case.constant(case.floats([n, blocks], number_kind, 0.01, 0.1), number_kind)
    operands = [a, b, scales]
    kind = case.choice(["none", "packed", "packed"] + ["floats"] * (bits == 4))
    if kind == "packed":
        operands.append(case.constant(case.ints([n, -(-blocks * bits // 8)], "u8"), "u8"))
    elif kind == "floats":
        operands.append(case.constant(case.floats([n, blocks], number_kind, 0, 2 ** bits - 1), number_kind))
    if case.chance(0.3):
        operands += [""] * (5 - len(operands)) + [value(case, [n], number_kind, constant=1)[0]]
    case.output(node(case, "MatMulNBits", operands, K=k, N=n, bits=bits, block_size=block, accuracy_level=case.choice([None, 0, 1])), number_kind)
    case.within(1e-3 if number_kind == "f32" else 1e-2, (2e-3 if number_kind == "f32" else 3e-2) * 2 ** bits)


@contrib("MatMulBnb4", weight=2)
def mat_mul_bnb4(case):
    m, k, n, block = case.choice([1, 2, 5]), case.choice([16, 24, 33, 64]), case.choice([1, 3, 16]), case.choice([16, 32, 64])
    count = k * n
    operands = [value(case, [m, k])[0], case.constant(case.ints([(count + 1) // 2], "u8"), "u8"), case.constant(case.floats([-(-count // block)], "f32", 0.1, 2), "f32")]
    case.output(node(case, "MatMulBnb4", operands, K=k, N=n, block_size=block, quant_type=case.choice([0, 1])), "f32")
    case.sums(k, 8)


@contrib("GatherBlockQuantized", weight=4)
def gather_block_quantized(case):
    kind = case.choice(["u8", "u8", "u4", "i4"])
    bits = case.choice([4, 8]) if kind == "u8" else 4
    block = case.choice([16, 32])
    rows, width = case.choice([1, 4, 9]), case.choice([16, 32, 48, 64, 80])
    indexed = case.choice(["i32", "i64"])
    axis = 0 if kind == "u8" else case.choice([0, 0, 1])
    indices = case.feed(case.ints(case.shape(high=2, zero=0, limit=12), indexed, 0, (width if axis else rows) - 1), indexed, 0.3)
    blocks = -(-width // block)
    data = case.constant(case.ints([rows, width * bits // 8 if kind == "u8" else width], kind), kind)
    operands = [data, indices, case.constant(case.floats([rows, blocks], "f32", 0.01, 0.5), "f32")]
    if case.chance(0.6):
        operands.append(case.constant(case.ints([rows, -(-blocks * bits // 8) if kind == "u8" else blocks], kind), kind))
    case.known("rank")
    case.opset = max(case.opset, 21) if kind != "u8" else case.opset
    case.domains[""] = case.opset
    case.output(node(case, "GatherBlockQuantized", operands, gather_axis=axis, quantize_axis=1, block_size=block, bits=bits), "f32")
    case.within(1e-5, 1e-5)


@contrib("QMoE", weight=2)
def quantized_mixture(case):
    tokens, hidden, inner, experts = case.choice([1, 3, 8]), case.choice([16, 32]), case.choice([16, 32]), case.choice([2, 4])
    bits = case.choice([4, 8])
    kind = case.choice(["relu", "gelu", "silu", "identity", "swiglu"])
    case.known("sizes")
    wide = 2 if kind == "swiglu" else 1

    def layer(rows, columns):
        return [case.constant(case.ints([experts, rows, columns * bits // 8], "u8"), "u8"), case.constant(case.floats([experts, rows], "f32", 0.005, 0.02), "f32"),
                value(case, [experts, rows], constant=1)[0] if case.chance(0.5) else ""]

    operands = [value(case, [tokens, hidden], constant=0)[0], value(case, [tokens, experts], constant=0)[0]] + layer(wide * inner, hidden) + layer(hidden, inner)
    case.output(node(case, "QMoE", operands, k=case.integer(1, 2), activation_type=kind, normalize_routing_weights=case.choice([0, 1]), expert_weight_bits=bits,
                     swiglu_fusion=1 if wide == 2 else None, activation_alpha=1.0 if wide == 2 else None, activation_beta=0.0 if wide == 2 else None,
                     swiglu_limit=7.0 if wide == 2 else None), "f32")
    case.within(1e-2, 2e-2)

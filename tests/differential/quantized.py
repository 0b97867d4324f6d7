"""Quantized operators."""
import math

import numpy as np

from neural import image_of, window
from table import operator

LIMITS = {"u8": (0, 255), "i8": (-128, 127), "u16": (0, 65535), "i16": (-32768, 32767), "i4": (-8, 7), "u4": (0, 15)}


def scale_of(case, shape, low=0.005, high=0.1):
    """Powers of two: quotients are exact, so that no rounding is a matter of the last bit."""
    return (2.0 ** case.numpy.integers(math.floor(math.log2(low)), math.ceil(math.log2(high)), shape, endpoint=True)).astype(np.float32)


def quantization(case):
    """Shape of x, axis, shape of scale, attributes."""
    shape = case.shape(low=1, zero=0)
    attributes = {}
    if case.opset >= 13 and case.chance(0.4):
        axis = case.axis(len(shape))
        attributes["axis"] = axis
        if axis % len(shape) == 1 and case.chance(0.3):
            attributes["axis"] = None
        if case.opset >= 21 and case.chance(0.4):
            block = case.integer(1, 5)
            scaled = list(shape)
            scaled[axis] = (shape[axis] + block - 1) // block
            if -(-shape[axis] // scaled[axis]) > block or (shape[axis] - 1) // max(1, scaled[axis] - 1 or 1) < block:
                block = -(-shape[axis] // scaled[axis])
                scaled[axis] = -(-shape[axis] // block)
            if scaled != [1]:  # which the peer takes for the scale of all
                attributes["block_size"] = block
                return shape, scaled, attributes
        return shape, [shape[axis]], attributes
    return shape, [], attributes


def kinds_at(opset):
    kinds = ["u8", "i8"]
    if opset >= 21:
        kinds += ["u16", "i16", "u4", "i4"]
    return kinds


@operator("QuantizeLinear", 10, weight=3)
def quantize_linear(case):
    kind = case.choice(kinds_at(case.opset))
    low, high = LIMITS[kind]
    shape, scaled, attributes = quantization(case)
    scale = scale_of(case, scaled)
    x = case.values(shape, "f32", low / 16 - 1, high / 16 + 1)
    operands = [case.feed(x, "f32"), case.feed(scale, "f32", 0.6)]
    if case.chance(0.8) or kind != "u8":
        operands.append(case.feed(case.ints(scaled, kind, low // 2 + high // 2 - 3, low // 2 + high // 2 + 3), kind, 0.6))
    case.output(case.node("QuantizeLinear", operands, **attributes), kind)
    case.kinds_seen = set()


@operator("DequantizeLinear", 10, weight=3)
def dequantize_linear(case):
    kind = case.choice(kinds_at(case.opset) + ["i32"])
    low, high = LIMITS.get(kind, (-10000, 10000))
    shape, scaled, attributes = quantization(case)
    operands = [case.feed(case.ints(shape, kind, low, high), kind), case.feed(case.floats(scaled, "f32", 0.01, 1), "f32", 0.6)]
    if case.chance(0.7) and kind != "i32":
        operands.append(case.feed(case.ints(scaled, kind, low, high), kind, 0.6))
    case.output(case.node("DequantizeLinear", operands, **attributes), "f32")


@operator("DynamicQuantizeLinear", 11)
def dynamic_quantize_linear(case):
    low, high = sorted([case.real(-5, 5), case.real(-5, 5)])
    x = case.values(case.shape(zero=0, low=1), "f32", low, high + 0.5)
    y, scale, zero = case.node("DynamicQuantizeLinear", [case.feed(x, "f32")], 3)
    case.output(scale, "f32")
    case.output(zero, "u8")
    # A quotient between two steps depends on the last bit, so the dequantized value is compared.
    back = case.node("DequantizeLinear", [y, scale, zero])
    case.output(case.node("Sub", [back, case.feed(x, "f32", 0)]) if case.chance(0.5) else back, "f32")
    case.within(1e-5, (high - low + 5.5) / 255 * 1.01)


@operator("MatMulInteger", 10, weight=3)
def mat_mul_integer(case):
    m, k, n = (case.choice([1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100]) for _ in range(3))
    batch = case.shape(high=2, limit=8, zero=0)
    first, second = case.choice(["u8", "i8"]), case.choice(["u8", "i8"])
    a = case.ints(batch + [m, k], first, -128, 255)
    b = case.ints((batch if case.chance(0.5) else []) + [k, n], second, -128, 255)
    operands = [case.feed(a, first), case.feed(b, second, 0.6)]
    a_zero = b_zero = 0
    if case.chance(0.6):
        a_zero = case.ints([], first, -128, 255)
        operands.append(case.feed(a_zero, first, 0.6))
        if case.chance(0.7):
            b_zero = case.ints([n] if case.chance(0.4) and b.ndim == 2 else [], second, -128, 255)
            operands.append(case.feed(b_zero, second, 0.6))
    y = case.node("MatMulInteger", operands)
    case.output(y, "i32", np.matmul(a.astype(np.int32) - np.int32(a_zero), b.astype(np.int32) - np.asarray(b_zero, np.int32)))


@operator("ConvInteger", 10, weight=2)
def conv_integer(case):
    rank = case.choice([1, 2, 2, 2, 3])
    image = [min(size, 14) for size in image_of(case, rank)]
    kernel, attributes = window(case, rank, image, 3, far=True)
    groups = case.choice([1, 1, 2, 3])
    into, out = case.choice([1, 2, 3, 8, 16, 17]), case.choice([1, 2, 3, 8, 16, 17])
    first, second = case.choice(["u8"]), case.choice(["u8", "i8"])
    operands = [case.feed(case.ints([case.integer(1, 2), into * groups] + image, first, 0, 255), first),
                case.feed(case.ints([out * groups, into] + kernel, second, -128, 255), second, 0.6)]
    if case.chance(0.6):
        operands.append(case.feed(case.ints([], first, 0, 255), first, 0.6))
        if case.chance(0.6):
            operands.append(case.feed(case.ints([], second, -128, 255), second, 0.6))
    case.output(case.node("ConvInteger", operands, group=groups, kernel_shape=kernel, **attributes), "i32")


@operator("QLinearMatMul", 10, weight=2)
def qlinear_mat_mul(case):
    m, k, n = (case.choice([1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64]) for _ in range(3))
    first, second = case.choice(["u8", "i8"]), case.choice(["u8", "i8"])
    if first == "u8" and second == "i8":
        kind = "u8"
    else:
        second = kind = first
    batch = case.shape(high=1, limit=4, zero=0)
    channels = [n] if case.chance(0.3) and not batch else []
    a_scale, b_scale = scale_of(case, []), scale_of(case, channels)
    y_scale = np.float32(2.0 ** case.integer(-4, 2))
    def number(array, kind):
        return case.feed(np.asarray(array), kind, 0.8)
    y_scale_name = number(y_scale, "f32")
    y_zero = number(case.ints([], kind, -128, 255), kind)
    operands = [case.feed(case.ints(batch + [m, k], first, -128, 255), first), number(a_scale, "f32"),
                number(case.ints([], first, -128, 255), first),
                case.feed(case.ints(batch + [k, n], second, -128, 255), second, 0.6), number(b_scale, "f32"),
                number(case.ints(channels, second, -128, 255), second), y_scale_name, y_zero]
    y = case.node("QLinearMatMul", operands)
    case.output(y, kind)
    case.kinds_seen = set()


@operator("QLinearConv", 10, weight=3)
def qlinear_conv(case):
    rank = case.choice([1, 2, 2, 2, 3])
    image = [min(size, 14) for size in image_of(case, rank)]
    kernel, attributes = window(case, rank, image, 3, far=True)
    groups = case.choice([1, 1, 1, 2, 3])
    into, out = case.choice([1, 2, 3, 8, 16, 17]), case.choice([1, 2, 3, 8, 16, 17])
    first = case.choice(["u8", "i8"])
    second = case.choice(["u8", "i8"]) if first == "u8" else "i8"
    if case.chance(0.2):
        groups, into, out = into, 1, 1
    channels = [out * groups] if case.chance(0.4) and case.opset >= 10 else []
    def number(array, kind):
        return case.feed(np.asarray(array), kind, 0.8)
    middle = {"u8": 128, "i8": 0}
    operands = [case.feed(case.ints([case.integer(1, 2), into * groups] + image, first, -128, 255), first), number(scale_of(case, []), "f32"),
                number(case.ints([], first, middle[first] - 9, middle[first] + 9), first),
                case.feed(case.ints([out * groups, into] + kernel, second, -128, 255), second, 0.7), number(scale_of(case, channels), "f32"),
                number(np.full(channels, middle[second] + case.integer(-5, 5) * (not channels), np.uint8 if second == "u8" else np.int8), second),
                number(np.float32(2.0 ** case.integer(-4, 2)), "f32"), number(case.ints([], first, -128, 255), first)]
    if case.chance(0.5):
        operands.append(case.feed(case.ints([out * groups], "i32", -1000, 1000), "i32", 0.7))
    case.output(case.node("QLinearConv", operands, group=groups, kernel_shape=kernel, **attributes), first)
    case.kinds_seen = set()

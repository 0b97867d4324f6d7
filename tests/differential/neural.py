"""Convolutions, products, normalization and resampling."""
import math

import numpy as np

from case import FLOATS, Dropped
from table import operator


def window(case, rank, image, limit=5, far=False):
    """Kernel sizes, strides, dilations, and pads or auto_pad, that leave at least one place for the window. Some that may
    be far apart have positions that meet nothing but padding."""
    kernel = [case.choice([1, 2, 3, 3, 5, 7][:limit + 1]) for _ in range(rank)]
    strides = [case.choice([1, 1, 2, 3]) for _ in range(rank)] if case.chance(0.6) else None
    dilations = [case.choice([1, 1, 2, 3]) for _ in range(rank)] if case.chance(0.3) else None
    auto_pad, pads = None, None
    if case.chance(0.3):
        auto_pad = case.choice(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
        if auto_pad.startswith("SAME"):
            dilations = None
    elif case.chance(0.6):
        pads = [case.integer(0, 2) for _ in range(2 * rank)]
    if far and auto_pad is None and case.chance(0.2):
        kernel = [min(size, 3) for size in kernel]
        dilations = [case.choice([1, 2, 4, 5, 12, 24, 36]) for _ in range(rank)]
        ends = [(kernel[axis] - 1) * dilations[axis] for axis in range(rank)] * 2
        pads = [end // 2 if case.chance(0.7) else case.integer(0, end) for end in ends]
    for axis in range(rank):
        reach = (kernel[axis] - 1) * (dilations[axis] if dilations else 1) + 1
        room = image[axis] + (pads[axis] + pads[axis + rank] if pads else 0)
        if reach > room:
            image[axis] += reach - room
    if auto_pad and auto_pad.startswith("SAME"):
        case.known("rank")
    return kernel, {"strides": strides, "dilations": dilations, "pads": pads, "auto_pad": auto_pad}


def image_of(case, rank):
    top = {1: 300, 2: 40, 3: 12}[rank]
    return [case.choice([size for size in (1, 3, 4, 5, 7, 8, 9, 14, 16, 17, 28, 31, 33, 40, 64, 100, 257, 300) if size <= top])
            for _ in range(rank)]


def channels(case, heavy):
    return case.choice([1, 2, 3, 4, 5, 8, 12, 16, 17, 24, 32, 33] + ([64, 65, 96] if heavy else []))


def padding_of(attributes, image, kernel):
    """Pads as numbers, of attributes as window() makes them."""
    rank = len(image)
    mode = attributes["auto_pad"] or "NOTSET"
    if not mode.startswith("SAME"):
        return attributes["pads"] if attributes["pads"] and mode == "NOTSET" else [0] * (2 * rank)
    pads = [0] * (2 * rank)
    for axis in range(rank):
        stride = attributes["strides"][axis] if attributes["strides"] else 1
        total = max(0, (-(-image[axis] // stride) - 1) * stride + kernel[axis] - image[axis])
        pads[axis] = total // 2 if mode == "SAME_UPPER" else total - total // 2
        pads[axis + rank] = total - pads[axis]
    return pads


def convolution(x, w, bias, attributes, groups):
    rank = x.ndim - 2
    kernel = w.shape[2:]
    pads = padding_of(attributes, x.shape[2:], kernel)
    strides, dilations = attributes["strides"] or [1] * rank, attributes["dilations"] or [1] * rank
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0)] + [(pads[i], pads[i + rank]) for i in range(rank)])
    x = x.reshape([x.shape[0], groups, x.shape[1] // groups] + list(x.shape[2:]))
    w = w.astype(np.float64).reshape([groups, len(w) // groups] + list(w.shape[1:]))
    counts = [(x.shape[3 + i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(rank)]
    y = 0
    for at in np.ndindex(*kernel):
        places = tuple(slice(at[i] * dilations[i], at[i] * dilations[i] + (counts[i] - 1) * strides[i] + 1, strides[i])
                       for i in range(rank))
        y = y + np.einsum("ngc...,goc->ngo...", x[(slice(None),) * 3 + places], w[(slice(None),) * 3 + at])
    y = y.reshape([y.shape[0], y.shape[1] * y.shape[2]] + counts)
    return y if bias is None else y + bias.astype(np.float64).reshape([-1] + [1] * rank)


@operator("Conv", weight=8)
def conv(case):
    kind = case.kind(FLOATS if case.chance(0.3) else ["f32"])
    rank = case.choice([1, 2, 2, 2, 2, 3])
    image = image_of(case, rank)
    kernel, attributes = window(case, rank, image, far=True)
    heavy = math.prod(image) * math.prod(kernel) < 10000
    groups = case.choice([1, 1, 1, 2, 3, 4])
    into, out = channels(case, heavy), channels(case, heavy)
    if case.chance(0.2):  # depthwise
        groups = into
        into, out = 1, case.choice([1, 1, 1, 2, 3])
    elif groups > 1:
        into, out = max(1, into // groups), max(1, out // groups)
    batch = case.choice([1, 1, 1, 2, 3, 0 if case.chance(0.05) else 1])
    x = case.values([batch, into * groups] + image, kind, -1, 1)
    w = case.values([out * groups, into] + kernel, kind, -1, 1)
    operands = [case.feed(x, kind), case.feed(w, kind, constant=0.7)]
    bias = case.values([out * groups], kind, -1, 1) if case.chance(0.5) else None
    if bias is not None:
        operands.append(case.feed(bias, kind, constant=0.7))
    named = case.chance(0.8)
    if not named:  # the kernel is that of the weights
        case.known("rank")
    y = case.node("Conv", operands, group=groups if groups > 1 or case.chance(0.3) else None,
                  kernel_shape=kernel if named else None, **attributes)
    expected = convolution(x, w, bias, attributes, groups) if kind != "f32" else None
    if case.chance(0.2):
        y = case.node("Relu", [y])
        expected = np.maximum(expected, 0) if expected is not None else None
    case.output(y, kind, expected)
    case.sums(into * math.prod(kernel))
    if kind == "f16":
        case.within(1e-2, 2e-2)
    elif kind == "f32":  # Winograd's way has larger errors than adding the products one by one
        case.within(2e-5, max(2e-5, case.tolerance[1] * 2))


@operator("ConvTranspose", weight=4)
def conv_transpose(case):
    kind = "f32"
    rank = case.choice([1, 2, 2, 3])
    image = [min(size, 17) for size in image_of(case, rank)]
    kernel = [case.choice([1, 2, 3, 4, 5]) for _ in range(rank)]
    strides = [case.choice([1, 2, 3]) for _ in range(rank)] if case.chance(0.7) else None
    dilations = [case.choice([1, 2]) for _ in range(rank)] if case.chance(0.3) else None
    groups = case.choice([1, 1, 2, 3])
    into, out = case.choice([1, 2, 3, 8, 16, 17]), case.choice([1, 2, 3, 8, 16, 17])
    attributes = {"strides": strides, "dilations": dilations}
    step = strides or [1] * rank
    reach = [(kernel[i] - 1) * (dilations[i] if dilations else 1) + 1 for i in range(rank)]
    full = [(image[i] - 1) * step[i] + reach[i] for i in range(rank)]
    extra = [0] * rank
    if case.chance(0.4):
        extra = [case.integer(0, step[i] - 1) for i in range(rank)]
        attributes["output_padding"] = extra
    choice = case.integer(0, 4)
    if choice == 0:
        attributes["auto_pad"] = case.choice(["VALID", "NOTSET"])
    elif choice == 1:
        pads = [case.integer(0, 2) for _ in range(2 * rank)]
        for i in range(rank):
            if full[i] + extra[i] - pads[i] - pads[i + rank] < 1:
                pads[i] = pads[i + rank] = 0
        attributes["pads"] = pads
    elif choice == 2 and all(full[i] >= image[i] * step[i] for i in range(rank)):
        attributes["auto_pad"] = case.choice(["SAME_UPPER", "SAME_LOWER"])
    elif choice == 3:
        attributes["output_shape"] = [case.integer(max(1, full[i] + extra[i] - 4), full[i] + extra[i]) for i in range(rank)]
        attributes["auto_pad"] = case.choice([None, "NOTSET", "SAME_UPPER", "SAME_LOWER"])
    case.known("rank")
    x = case.values([case.integer(1, 3), into * groups] + image, kind, -1, 1)
    w = case.values([into * groups, out] + kernel, kind, -1, 1)
    operands = [case.feed(x, kind), case.feed(w, kind, constant=0.7)]
    if case.chance(0.5):
        operands.append(case.feed(case.values([out * groups], kind, -1, 1), kind, constant=0.7))
    y = case.node("ConvTranspose", operands, group=groups if groups > 1 else None,
                  kernel_shape=kernel if case.chance(0.8) else None, **attributes)
    case.output(y, kind)
    case.sums(into * math.prod(kernel))


@operator("Gemm", weight=5)
def gemm(case):
    kinds = ["f32", "f64", "f16"]
    kind = case.kind(kinds)
    sizes = [0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 200]
    m, k, n = (case.choice(sizes[1:] if case.chance(0.97) else sizes) for _ in range(3))
    k = max(k, 1)
    if case.chance(0.2):
        m = 1
    a_turned, b_turned = case.choice([None, 0, 1]), case.choice([None, 0, 1])
    a = case.values([k, m] if a_turned else [m, k], kind, -1, 1)
    b = case.values([n, k] if b_turned else [k, n], kind, -1, 1)
    alpha, beta = case.choice([None, None, case.real(-2, 2)]), case.choice([None, None, case.real(-2, 2), 0.0])
    operands = [case.feed(a, kind), case.feed(b, kind, constant=0.6)]
    if case.opset < 11 or case.chance(0.7):
        operands.append(case.feed(case.values(case.broadcastable([m, n], 0.4), kind, -1, 1), kind))
    y = case.node("Gemm", operands, transA=a_turned, transB=b_turned, alpha=alpha, beta=beta)
    if case.chance(0.2):
        y = case.node("Relu", [y])
    case.output(y, kind)
    case.sums(k)
    if kind == "f16":
        case.within(1e-2, 2e-2 + 1e-3 * math.sqrt(k))


@operator("MatMul", weight=6)
def mat_mul(case):
    kind = case.kind(["f32", "f64", "i32", "i64", "u32", "u64"] + (["f16"] if case.chance(0.3) else []))
    if case.opset < 9 and kind not in FLOATS:
        raise Dropped
    m, k, n = (case.choice([1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 48, 63, 64, 65, 100, 129]) for _ in range(3))
    if case.chance(0.03):
        m = 0
    batch = case.shape(high=3, limit=24)
    first, second = [m, k], [k, n]
    if case.chance(0.1):
        first = [k]
    else:
        first = case.broadcastable(batch) + first
    if case.chance(0.1):
        second = [k]
    else:
        second = case.broadcastable(batch) + second
    a, b = case.values(first, kind, -1, 1), case.values(second, kind, -1, 1)
    y = case.node("MatMul", [case.feed(a, kind), case.feed(b, kind, constant=0.5)])
    case.output(y, kind, np.matmul(a, b))
    if min(len(first), len(second)) == 1 and 0 in first + second:
        case.without_peer()  # it refuses a vector beside an empty batch
    if kind in FLOATS:
        case.sums(k)
    if kind == "f16":
        case.within(1e-2, 2e-2 + 1e-3 * math.sqrt(k))


LETTERS = "abcdefghijkABC"


@operator("Einsum", 12, weight=4)
def einsum(case):
    kind = case.choice(["f32", "f32", "f64", "i32", "i64"])
    count = case.choice([1, 2, 2, 2, 3])
    letters = case.random.sample(LETTERS, case.integer(1, 5))
    sizes = {letter: case.choice([1, 2, 3, 4, 5, 7, 8, 9, 16, 17] if len(letters) < 4 else [1, 2, 3, 4, 5]) for letter in letters}
    terms = [case.random.sample(letters, case.integer(1, min(4, len(letters)))) for _ in range(count)]
    used = sorted({letter for term in terms for letter in term})
    result = case.random.sample(used, case.integer(0, len(used)))
    ellipsis = case.shape(low=1, high=2, limit=6) if case.chance(0.2) else None
    if case.chance(0.1) and count == 1 and ellipsis is None:
        terms[0].append(case.choice(terms[0]))  # a diagonal
    operands, texts, broadcast = [], [], False
    for term in terms:
        dims, text = [sizes[letter] for letter in term], "".join(term)
        if count > 1 and case.chance(0.2):  # broadcast to the others'
            dims[case.integer(0, len(dims) - 1)] = 1
            broadcast = True
        if ellipsis is not None:
            at = case.integer(0, len(term))
            dims[at:at] = ellipsis
            text = text[:at] + "..." + text[at:]
        texts.append(text)
        operands.append(case.values(dims, kind, -1, 1))
    equation = ",".join(texts)
    if case.chance(0.85) or ellipsis is not None:
        equation += "->" + ("..." if ellipsis is not None else "") + "".join(result)
    if case.chance(0.2):
        equation = equation.replace(",", " , ").replace("->", " -> ")
    if broadcast:  # what is 1 in the model
        case.known("sizes")
    y = case.node("Einsum", [case.feed(operand, kind) for operand in operands], equation=equation)
    case.output(y, kind, np.einsum(equation.replace(" ", ""), *operands))
    if kind in FLOATS:
        count = math.prod(sizes.values())
        case.sums(count)


def normalized(case, low):
    shape = case.shape(rank=case.integer(low, 4), limit=6000, zero=0)
    if low == 3 and math.prod(shape[2:]) < 3:
        shape[-1] = 7
    return shape


@operator("BatchNormalization", weight=2)
def batch_normalization(case):
    kind = case.kind(FLOATS)
    shape = case.shape(low=2, zero=0.02, limit=6000)
    count = shape[1]
    operands = [case.feed(case.values(shape, kind), kind)]
    for low, high in ((-2, 2), (-2, 2), (-1, 1), (0.3, 3)):
        operands.append(case.feed(case.values([count], kind, low, high), kind, constant=0.6))
    y = case.node("BatchNormalization", operands, epsilon=case.choice([None, 1e-3]), momentum=case.choice([None, 0.8]))
    case.output(y, kind)
    if kind == "f16":
        case.within(1e-2, 3e-2)
    elif kind == "f32":
        case.within(1e-5, 5e-6)
    else:
        case.within(1e-6, 1e-6)


@operator("InstanceNormalization")
def instance_normalization(case):
    kind = "f32"
    shape = case.shape(rank=case.integer(3, 5), zero=0, limit=6000)
    shape[-1] = max(shape[-1], 4)
    operands = [case.feed(case.values(shape, kind), kind)]
    operands += [case.feed(case.values([shape[1]], kind), kind) for _ in range(2)]
    case.output(case.node("InstanceNormalization", operands, epsilon=case.choice([None, 1e-3])), kind)
    case.within(1e-4, 1e-4)


@operator("LayerNormalization", 17, weight=2)
def layer_normalization(case):
    kind = case.kind(FLOATS)
    shape = case.shape(low=1, zero=0, limit=6000)
    shape[-1] = max(shape[-1], 3)
    axis = case.axis(len(shape))
    scaled = shape[axis:]
    operands = [case.feed(case.values(shape, kind), kind), case.feed(case.values(scaled, kind), kind, 0.6)]
    if case.chance(0.7):
        operands.append(case.feed(case.values(scaled, kind), kind, 0.6))
    y = case.node("LayerNormalization", operands, axis=None if axis == -1 and case.chance(0.5) else axis,
                  epsilon=case.choice([None, 1e-3]))
    case.output(y, kind)
    case.within(*{"f16": (1e-2, 2e-2), "f32": (1e-4, 5e-5), "f64": (1e-6, 1e-6)}[kind])


@operator("RMSNormalization", 23)
def rms_normalization(case):
    kind = case.kind(FLOATS)
    shape = case.shape(low=1, zero=0, limit=6000)
    axis = case.axis(len(shape))
    operands = [case.feed(case.values(shape, kind), kind), case.feed(case.values(shape[axis:], kind), kind, 0.6)]
    y = case.node("RMSNormalization", operands, axis=axis, epsilon=case.choice([None, 1e-3]))
    case.output(y, kind)
    case.within(*{"f16": (1e-2, 2e-2), "f32": (2e-5, 1e-5), "f64": (1e-6, 1e-6)}[kind])


@operator("GroupNormalization", 21)
def group_normalization(case):
    kind = case.kind(["f32"])
    groups = case.choice([1, 2, 3, 4])
    shape = case.shape(rank=case.integer(2, 4), zero=0, limit=3000)
    shape[1] = groups * case.integer(1, 4)
    shape.append(5)
    operands = [case.feed(case.values(shape, kind), kind)]
    operands += [case.feed(case.values([shape[1]], kind), kind) for _ in range(2)]
    case.output(case.node("GroupNormalization", operands, num_groups=groups, epsilon=case.choice([None, 1e-3])), kind)
    case.within(1e-4, 1e-4)


@operator("LRN")
def lrn(case):
    shape = case.shape(rank=4, zero=0)
    y = case.node("LRN", [case.feed(case.values(shape, "f32"), "f32")], size=case.choice([1, 3, 5, 7]),
                  alpha=case.choice([None, case.real(1e-4, 0.5)]), beta=case.choice([None, case.real(0.3, 1.2)]),
                  bias=case.choice([None, case.real(0.5, 2)]))
    case.output(y, "f32")
    case.within(1e-5, 2e-6)


@operator("Dropout")
def dropout(case):
    kind = case.kind(FLOATS)
    x = case.values(case.shape(), kind)
    operands = [case.feed(x, kind)]
    ratio = case.real(0, 0.9) if case.chance(0.5) else None
    if case.opset >= 12 and ratio is not None:
        operands.append(case.feed(np.array(ratio, np.float32), "f32", 0.7))
    mask = case.chance(0.3) and case.opset >= 12
    results = case.node("Dropout", operands, 2 if mask else 1, ratio=ratio if case.opset < 12 else None)
    case.output(results[0] if mask else results, kind)
    if mask:
        case.output(results[1], "bool")


def near_ties(shape, sizes, scales):
    """Whether a nearest sample is a matter of the last bit, with pixels' centers or corners in place."""
    for axis, (size, result) in enumerate(zip(shape, sizes)):
        scale = scales[axis] if scales else result / size
        if scale in (0.5, 1, 2, 3, 4):
            continue
        for at in range(result):
            places = [(at + 0.5) / scale - 0.5, at / scale, at * (size - 1) / max(1, result - 1)]
            if any(0 < abs(2 * place - round(2 * place)) < 1e-3 or (place and 2 * place == round(2 * place)) for place in places):
                return True
    return False


@operator("Resize", 10, weight=8)
def resize(case):
    kind = case.kind(["f32", "f32", "i8", "u8", "i32", "f16"])
    mode = case.choice(["nearest", "nearest", "linear", "linear", "cubic"] if case.opset >= 11 else ["nearest", "linear"])
    rank = case.choice([2, 4, 4, 4, 3, 5] if mode == "nearest" else [4])
    if kind == "f16" or (mode == "cubic" and kind != "f32"):
        kind = "f32"
    image = [case.choice([1, 2, 3, 4, 5, 7, 8, 13, 16, 17]) for _ in range(min(rank, 2 if mode != "nearest" else rank))]
    shape = ([1] * rank)[:rank - len(image)] + image
    if rank > 2 and case.chance(0.8):
        shape[0], shape[1] = case.integer(1, 3), case.integer(1, 9)
    over = range(rank - 2, rank) if rank >= 4 or mode != "nearest" else range(rank)
    sized = case.opset >= 11 and case.chance(0.4)
    whole = kind != "f32" and mode == "linear"  # exact in any precision, so that cutting off shows
    factors_of = [case.choice([1, 2, 0.5, 3, 1.5, 0.75, 2.5, 0.34, case.real(0.3, 3)]) if axis in over else 1 for axis in range(rank)]
    # If no size changes, ONNX Runtime copies, whatever the scales are.
    factors_of = [factor if math.floor(np.float32(shape[axis]) * np.float32(factor)) not in (0, shape[axis]) else 1
                  for axis, factor in enumerate(factors_of)]
    sizes = [case.integer(1, 20) if axis in over else shape[axis] for axis in range(rank)]
    if whole:
        sized = False
        factors_of = [case.choice([1, 2, 4]) if axis in over else 1 for axis in range(rank)]
    attributes = {"mode": mode if mode != "nearest" or case.chance(0.5) else None}
    transform = "asymmetric"
    if case.opset >= 11:
        transform = case.choice([None, "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"] +
                                (["half_pixel_symmetric"] if case.opset >= 19 else []))
        attributes["coordinate_transformation_mode"] = transform
        if mode == "nearest":
            attributes["nearest_mode"] = case.choice([None, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
        if mode == "cubic":
            attributes["cubic_coeff_a"] = case.choice([None, -0.5, -0.75])
            attributes["exclude_outside"] = case.choice([None, 0, 1])
        if transform == "tf_crop_and_resize":
            attributes["extrapolation_value"] = case.choice([None, case.real(-2, 2)])
        if whole:
            transform = attributes["coordinate_transformation_mode"] = case.choice(["half_pixel", "asymmetric"])
        if transform in ("align_corners", "tf_crop_and_resize"):
            # ONNX's reference has the unrounded size in the formula, the peer the rounded one; and the peer leaves the
            # region of interest aside where the scale is 1.
            factors_of = [case.choice([2, 3, 4]) if axis in over else 1 for axis in range(rank)]
            if transform == "tf_crop_and_resize":
                sizes = [size + 1 if axis in over and size == shape[axis] else size for axis, size in enumerate(sizes)]
    antialias = case.opset >= 18 and mode != "nearest" and not whole and case.chance(0.3) and transform != "tf_crop_and_resize"
    if antialias:
        attributes["antialias"] = 1
    axes = None
    if case.opset >= 18 and case.chance(0.3):
        axes = list(over)
        if case.chance(0.5):
            axes = [axis - rank for axis in axes]
        attributes["axes"] = axes
        if sized and case.chance(0.5) and mode != "cubic":
            policy = attributes["keep_aspect_ratio_policy"] = case.choice(["not_larger", "not_smaller", "stretch"])
            ratios = [sizes[axis] / shape[axis] for axis in over]
            if policy != "stretch":  # the peer mistakes negative axes here
                attributes["axes"] = axes = list(over)
                if transform in ("align_corners", "tf_crop_and_resize") or any(
                        abs(ratio * shape[axis] % 1 - 0.5) < 1e-3 or ratio * shape[axis] < 0.6
                        for ratio in (min(ratios), max(ratios)) for axis in over):
                    attributes["keep_aspect_ratio_policy"] = None
    scales = None if sized else factors_of
    if mode == "nearest" and near_ties(shape, sizes if sized else [int(size * scale) for size, scale in zip(shape, factors_of)], scales):
        raise Dropped
    x = case.feed(case.values(shape, kind, -10, 10), kind)
    if case.opset < 11:
        y = case.node("Resize", [x, case.setting(factors_of, "f32")], mode=attributes["mode"])
    else:
        roi = ""
        if transform == "tf_crop_and_resize":
            region = np.zeros(2 * rank, np.float32)
            region[rank:] = 1
            for axis in over:
                region[axis], region[axis + rank] = case.real(-0.1, 0.4), case.real(0.6, 1.1)
            if axes is not None:
                region = region[[axis % rank for axis in axes] + [axis % rank + rank for axis in axes]]
            roi = case.feed(region, "f32", 0.7)
        elif case.opset < 13:
            roi = case.constant(np.zeros(0, np.float32), "f32")
        keep = [axis % rank for axis in axes] if axes is not None else range(rank)
        if sized:
            scales = "" if case.opset >= 13 else case.constant(np.zeros(0, np.float32), "f32")
            operands = [x, roi, scales, case.setting([sizes[axis] for axis in keep])]
        else:
            operands = [x, roi, case.setting([factors_of[axis] for axis in keep], "f32")]
        y = case.node("Resize", operands, **attributes)
    case.output(y, kind)
    case.within(1e-4, 1e-4)


@operator("Upsample", 7, 9)
def upsample(case):
    mode = case.choice([None, "nearest", "linear"])
    shape = [case.integer(1, 3), case.integer(1, 4), case.integer(1, 17), case.integer(1, 17)]
    scales = [1.0, 1.0, case.choice([1.0, 2.0, 3.0, 1.5, 2.5]), case.choice([1.0, 2.0, 3.0, 1.5])]
    x = case.feed(case.values(shape, "f32"), "f32")
    y = case.node("Upsample", [x], mode=mode, scales=scales) if case.opset < 9 else \
        case.node("Upsample", [x, case.setting(scales, "f32")], mode=mode)
    case.output(y, "f32")
    case.within(1e-5, 1e-5)


@operator("GridSample", 16, weight=3)
def grid_sample(case):
    kind = "f32" if case.opset < 20 else case.kind(["f32", "f64"])
    rank = 2 if case.opset < 20 else case.choice([2, 2, 3])
    modes = ["bilinear", "nearest", "bicubic"] if case.opset < 20 else ["linear", "nearest", "cubic"]
    mode = case.choice([None] + modes)
    if rank == 3 and mode == "cubic":
        mode = "linear"
    image, places = [case.integer(1, 12) for _ in range(rank)], [case.integer(1, 9) for _ in range(rank)]
    batch = case.integer(1, 3)
    x = case.values([batch, case.integer(1, 5)] + image, kind)
    grid = case.values([batch] + places + [rank], kind, -1.3, 1.3)
    padding = case.choice([None, "zeros", "border", "reflection"])
    if mode in ("cubic", "bicubic") and padding == "border":
        padding = None  # the peer clamps the neighbors; ONNX's reference clamps the point first
    y = case.node("GridSample", [case.feed(x, kind), case.feed(grid, kind)], mode=mode,
                  padding_mode=padding, align_corners=case.choice([None, 0, 1]))
    case.output(y, kind)
    case.within(1e-4, 1e-4)


@operator("Det", 11)
def det(case):
    kind = case.choice(["f32", "f64"])
    size = case.choice([1, 2, 3, 4, 5, 8])
    x = case.values(case.shape(high=2, limit=50) + [size, size], kind)
    case.output(case.node("Det", [case.feed(x, kind)]), kind, np.linalg.det(x))
    case.within(*((1e-4, 1e-4 * 3 ** (size / 2)) if kind == "f32" else (1e-9, 1e-9 * 3 ** (size / 2))))

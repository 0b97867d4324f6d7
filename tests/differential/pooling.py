"""Pooling and regions."""
import math

import numpy as np

from case import FLOATS
from neural import image_of, window
from table import operator


def pooled(case, name, kinds):
    kind = case.kind(kinds)
    rank = case.choice([1, 2, 2, 2, 3])
    image = image_of(case, rank)
    kernel, attributes = window(case, rank, image)
    dilated = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[name]
    if case.opset < dilated:
        attributes["dilations"] = None
    if str(attributes["auto_pad"]).startswith("SAME"):  # the peer takes cutting off for an error
        attributes["strides"] = attributes["strides"] and [min(stride, size) for stride, size in zip(attributes["strides"], kernel)]
    ceil = {"MaxPool": 10, "AveragePool": 10, "LpPool": 18}[name]
    if case.opset >= ceil and case.chance(0.3) and attributes["auto_pad"] in (None, "NOTSET"):
        attributes["ceil_mode"] = case.choice([0, 1])
    if attributes["pads"]:  # no window may lie in the padding alone
        for axis in range(rank):
            for place in (axis, axis + rank):
                attributes["pads"][place] = min(attributes["pads"][place], kernel[axis] - 1)
    for axis in range(rank):
        reach = (kernel[axis] - 1) * (attributes["dilations"][axis] if attributes["dilations"] else 1) + 1
        image[axis] = max(image[axis], reach)
    x = case.values([case.integer(1, 3), case.choice([1, 2, 3, 8, 16, 17, 33])] + image, kind)
    return kind, case.feed(x, kind), kernel, attributes


@operator("MaxPool", weight=4)
def max_pool(case):
    kind, x, kernel, attributes = pooled(case, "MaxPool", ["f32"] if case.opset < 8 else FLOATS if case.opset < 12 else list(FLOATS) + ["i8", "u8"])
    indexed = case.opset >= 8 and case.chance(0.3) and kind in ("f32", "f64", "i8", "u8")
    if indexed:
        attributes["storage_order"] = case.choice([None, 0, 1])
    results = case.node("MaxPool", [x], 2 if indexed else 1, kernel_shape=kernel, **attributes)
    case.output(results[0] if indexed else results, kind)
    if indexed:
        case.output(results[1], "i64")


@operator("AveragePool", weight=4)
def average_pool(case):
    kind, x, kernel, attributes = pooled(case, "AveragePool", ["f32", "f16"])
    if case.chance(0.5):
        attributes["count_include_pad"] = case.choice([0, 1])
    case.output(case.node("AveragePool", [x], kernel_shape=kernel, **attributes), kind)
    case.sums(math.prod(kernel))
    if kind == "f16":
        case.within(2e-3, 2e-3)


@operator("LpPool", weight=2)
def lp_pool(case):
    kind, x, kernel, attributes = pooled(case, "LpPool", ["f32"])
    attributes["p"] = case.choice([None, 1, 2, 3])
    case.output(case.node("LpPool", [x], kernel_shape=kernel, **attributes), kind)
    case.within(2e-5, 5e-6)


def declare_global(name):
    @operator(name)
    def draw(case):
        kind = case.kind(["f32", "f16"] if name != "GlobalLpPool" else ["f32"])
        shape = case.shape(rank=case.integer(3, 5), zero=0)
        p = case.choice([None, 1, 2, 3]) if name == "GlobalLpPool" else None
        case.as_before(21)
        case.output(case.node(name, [case.feed(case.values(shape, kind), kind)], p=p), kind)
        if name != "GlobalMaxPool":
            case.sums(math.prod(shape[2:]))
        if kind == "f16":
            case.within(5e-3, 2e-3)
        elif name == "GlobalLpPool":
            case.within(1e-4, 1e-5)


for _name in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
    declare_global(_name)


@operator("MaxUnpool", 9)
def max_unpool(case):
    rank = case.choice([1, 2, 2, 3])
    kernel = [case.integer(1, 3) for _ in range(rank)]
    image = [case.integer(1, 5) * size for size in kernel]
    x = case.values([case.integer(1, 2), case.integer(1, 3)] + image, "f32")
    values, indices = case.node("MaxPool", [case.feed(x, "f32")], 2, kernel_shape=kernel, strides=kernel)
    y = case.node("MaxUnpool", [values, indices], kernel_shape=kernel, strides=kernel)
    case.output(y, "f32")


def regions(case, count, height, width, scale):
    corners = np.sort(case.numpy.uniform(0, 1, (count, 2, 2)), axis=1)
    return (corners.reshape(count, 4) * np.array([width, height, width, height]) / scale).astype(np.float32)


@operator("MaxRoiPool")
def max_roi_pool(case):
    batch, height, width, count = case.integer(1, 3), case.integer(2, 20), case.integer(2, 20), case.integer(1, 5)
    scale = case.choice([1.0, 0.5, 0.25])
    rois = np.concatenate([case.ints([count, 1], "i64", 0, batch - 1), np.round(regions(case, count, height - 1, width - 1, scale))], 1)
    x = case.values([batch, case.integer(1, 4), height, width], "f32")
    case.as_before(21)
    y = case.node("MaxRoiPool", [case.feed(x, "f32"), case.feed(rois.astype(np.float32), "f32")],
                  pooled_shape=[case.integer(1, 5), case.integer(1, 5)], spatial_scale=scale)
    case.output(y, "f32")


@operator("RoiAlign", 10, weight=2)
def roi_align(case):
    kind = case.kind(["f32", "f64"])
    batch, height, width, count = case.integer(1, 3), case.integer(2, 20), case.integer(2, 20), case.integer(1, 5)
    scale = case.choice([1.0, 0.5, 0.25])
    x = case.values([batch, case.integer(1, 4), height, width], kind)
    mode = case.choice([None, "avg", "avg"])
    case.as_before(21)
    y = case.node("RoiAlign", [case.feed(x, kind), case.feed(regions(case, count, height, width, scale), kind),
                               case.feed(case.ints([count], "i64", 0, batch - 1), "i64")],
                  mode=mode, output_height=case.integer(1, 5), output_width=case.integer(1, 5),
                  sampling_ratio=case.integer(0, 3), spatial_scale=scale,
                  coordinate_transformation_mode=case.choice([None, "half_pixel", "output_half_pixel"]) if case.opset >= 16 else None)
    case.output(y, kind)
    case.within(1e-4, 1e-4)


@operator("NonMaxSuppression", 10)
def non_max_suppression(case):
    batch, classes, boxes = case.integer(1, 3), case.integer(1, 3), case.choice([1, 3, 8, 17, 40, 200])
    corners = case.floats([batch, boxes, 4], "f32", 0, 10)
    center = case.choice([None, 0, 1])
    if center == 1:
        corners[..., 2:] = np.abs(corners[..., 2:]) / 2 + 0.1
    elif case.chance(0.4):  # in groups far from each other, as exporters place the boxes of different classes
        corners += 100 * case.ints([batch, boxes, 1], "i64", 0, 9).astype(np.float32)
    scores = case.floats([batch, classes, boxes], "f32", 0, 1)
    operands = [case.feed(corners, "f32"), case.feed(scores, "f32")]
    if case.chance(0.9):
        operands.append(case.setting([case.integer(0, 9)]))
        if case.chance(0.7):
            operands.append(case.feed(np.array([case.real(0.1, 0.9)], np.float32), "f32"))
            if case.chance(0.5):
                operands.append(case.feed(np.array([case.real(0, 0.9)], np.float32), "f32"))
    case.output(case.node("NonMaxSuppression", operands, center_point_box=center), "i64")

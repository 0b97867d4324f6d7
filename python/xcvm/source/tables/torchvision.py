"""Rows of torchvision.ops."""

from __future__ import annotations

from typing import Any

from ..core import FALSE, NONE
from ..values import Const, Value
from . import functions
from .shared import numbers

M = Any
T = "torch"


@functions("torchvision.utils._log_api_usage_once", "torch._C._log_api_usage_once")
def log_api_usage_once(m: M, *values: Value) -> Value:
    return NONE


@functions("torchvision.ops.nms", "torchvision.ops.boxes.nms")
def nms(m: M, boxes: Value, scores: Value, iou_threshold: Value) -> Value:
    at, values = m.tensor(boxes), m.tensor(scores)
    zero = m.ints([0])
    made = m.op(
        "NonMaxSuppression", m.op("Unsqueeze", at, zero), m.op("Unsqueeze", values, m.ints([0, 1])), m.constant((1 << 31) - 1, "i64"),
        m.number_value(m.settle(iou_threshold), "f32"), center_point_box=0,
    )  # fmt: skip
    return m.array(m.op("Gather", made, m.constant(2, "i64"), axis=1), T)


def regions(m: M, boxes: Value) -> tuple[Any, Any]:
    """Return the boxes and the index of the image of each, from K x 5 or a list with a tensor for each image."""
    boxes = m.settle(boxes)
    if m.is_list(boxes):
        rows, batches = [], []
        for index, item in enumerate(m.items_of(boxes)):
            at = m.tensor(item)
            rows.append(at)
            batches.append(m.op("Expand", m.constant(index, "i64"), m.op("Shape", at, start=0, end=1)))
        if len(rows) == 1:
            return rows[0], batches[0]
        return m.op("Concat", *rows, axis=0), m.op("Concat", *batches, axis=0)
    at = m.tensor(boxes)
    batch = m.op("Gather", at, m.constant(0, "i64"), axis=1)
    return m.op("Slice", at, m.ints([1]), m.ints([5]), m.ints([1])), m.cast(batch, "i64")


@functions("torchvision.ops.roi_align", "torchvision.ops.roi_align.roi_align")
def roi_align(
    m: M, input: Value, boxes: Value, output_size: Value, spatial_scale: Value = Const(1.0), sampling_ratio: Value = Const(-1),
    aligned: Value = FALSE,
) -> Value:  # fmt: skip
    rois, batches = regions(m, boxes)
    height, width = numbers(m, output_size, 2)
    made = m.op(
        "RoiAlign", m.tensor(input), rois, batches, output_height=height, output_width=width,
        sampling_ratio=max(m.constant_of(sampling_ratio), 0), spatial_scale=float(m.constant_of(spatial_scale)),
        coordinate_transformation_mode="half_pixel" if m.constant_of(aligned) else "output_half_pixel",
    )  # fmt: skip
    return m.array(made, T)


@functions("torchvision.ops.roi_pool", "torchvision.ops.roi_pool.roi_pool")
def roi_pool(m: M, input: Value, boxes: Value, output_size: Value, spatial_scale: Value = Const(1.0)) -> Value:
    rois, batches = regions(m, boxes)
    at = m.tensor(input)
    column = m.op("Unsqueeze", m.cast(batches, at.type.dtype), m.ints([1]))
    made = m.op(
        "MaxRoiPool", at, m.op("Concat", column, rois, axis=1), pooled_shape=numbers(m, output_size, 2),
        spatial_scale=float(m.constant_of(spatial_scale)),
    )  # fmt: skip
    return m.array(made, T)

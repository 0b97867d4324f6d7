"""Reductions, and what normalizes or orders along an axis."""
import math

import numpy as np

from case import FLOATS, Dropped
from table import operator


def log_sum_exp(x, **how):
    return np.log(np.sum(np.exp(x), **how))


# name: (opset since which the axes are an operand, types, reference)
REDUCTIONS = {
    "ReduceSum": (13, ["f16", "f32", "f64", "i32", "i64", "u32", "u64"], np.sum),
    "ReduceMean": (18, ["f16", "f32", "f64", "i32", "i64"], None),
    "ReduceMax": (18, None, np.max),
    "ReduceMin": (18, None, np.min),
    "ReduceProd": (18, ["f16", "f32", "f64", "i32", "i64"], np.prod),
    "ReduceL1": (18, ["f16", "f32", "f64", "i32", "i64"], lambda x, **how: np.sum(np.abs(x), **how)),
    "ReduceL2": (18, ["f16", "f32", "f64"], lambda x, **how: np.sqrt(np.sum(np.square(x), **how))),
    "ReduceLogSum": (18, ["f16", "f32", "f64", "i32", "i64"], lambda x, **how: np.log(np.sum(x, **how))),
    "ReduceLogSumExp": (18, ["f16", "f32", "f64"], log_sum_exp),
    "ReduceSumSquare": (18, ["f16", "f32", "f64", "i32", "i64", "u32", "u64"],
                        lambda x, **how: np.sum(np.square(x), **how)),
}


def declare_reduction(name, operand_since, kinds, reference):
    @operator(name, weight=2)
    def draw(case):
        kind = case.kind(kinds or (["f16", "f32", "f64", "i32", "i64"] + (["i8", "u8"] if case.opset >= 12 else []) +
                                   (["bool"] if case.opset >= 20 else [])))
        empty = case.opset >= 20 and name in ("ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare")
        shape = case.shape(low=0, high=5, zero=0.05 if empty else 0)
        low, high = {"ReduceProd": (0.8, 1.25), "ReduceLogSum": (0.1, 4)}.get(name, (-3, 3))
        x = case.values(shape, kind, low, high)
        if name == "ReduceProd" and kind not in FLOATS:  # few factors other than 1: an overflow is undefined
            x = np.where(case.numpy.random(shape) < 12 / max(1, math.prod(shape)), x.clip(-3, 3), 1).astype(x.dtype)
        if name in ("ReduceMax", "ReduceMin") and kind in FLOATS and case.chance(0.1):
            x = np.where(case.numpy.random(shape) < 0.02, np.array(np.inf, x.dtype), x)
        axes = case.axes(len(shape)) if shape and case.chance(0.85) else None
        if axes is not None and 0 in shape:  # the peer mistakes negative and unordered axes of empty tensors
            axes = sorted(axis % len(shape) for axis in axes)
        keep = case.choice([None, 0, 1])
        attributes = {"keepdims": keep}
        operands = [case.feed(x, kind)]
        nothing = False
        if case.opset < operand_since:
            attributes["axes"] = axes
        else:
            attributes["noop_with_empty_axes"] = noop = case.choice([None, None, 0, 1])
            if axes is not None:
                operands.append(case.setting(axes))
            elif case.chance(0.3):
                operands.append(case.setting([]))
            # "No operation" has two interpretations for operators that do more than reduce.
            nothing = axes is None and noop == 1
            if nothing and name not in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"):
                attributes["noop_with_empty_axes"], nothing = 0, False
        y = case.node(name, operands, **attributes)
        expected = None
        if reference is not None:
            wide = x.astype(np.float64) if kind in FLOATS else x
            over = tuple(axis % len(shape) for axis in axes) if axes is not None else None
            with np.errstate(all="ignore"):
                expected = x if nothing else reference(wide, axis=over, keepdims=keep != 0)
                if not nothing and name == "ReduceSum" and kind not in FLOATS:
                    expected = np.sum(x, axis=over, keepdims=keep != 0, dtype=x.dtype)
        case.output(y, kind, expected)
        count = math.prod(shape)
        if kind in FLOATS and name not in ("ReduceMax", "ReduceMin"):
            scale = {"ReduceSumSquare": 9, "ReduceL1": 3, "ReduceSum": 3}.get(name, 1)
            case.sums(count, scale)
            if kind == "f16":
                case.within(5e-3, 2e-3 * scale)
            if name == "ReduceProd":
                case.within(case.tolerance[0] * (4 + math.sqrt(count)), case.tolerance[1])


for _name, _entry in REDUCTIONS.items():
    declare_reduction(_name, *_entry)


def declare_arg(name):
    @operator(name)
    def draw(case):
        kind = case.kind(["f16", "f32", "f64", "i32", "i64", "i8", "u8"])
        shape = case.shape(low=1, zero=0)
        x = case.values(shape, kind, -3, 3)
        if case.chance(0.5):
            x = np.round(x)
        y = case.node(name, [case.feed(x, kind)], axis=case.choice([None, case.axis(len(shape))]),
                      keepdims=case.choice([None, 0, 1]),
                      select_last_index=case.choice([None, 0, 1]) if case.opset >= 12 else None)
        case.output(y, "i64")


declare_arg("ArgMax")
declare_arg("ArgMin")


@operator("CumSum", 11)
def cum_sum(case):
    kind = case.kind(["f32", "f64", "i32", "i64"])
    shape = case.shape(low=1)
    axis = case.axis(len(shape))
    x = case.values(shape, kind)
    y = case.node("CumSum", [case.feed(x, kind), case.setting(axis, case.choice(["i32", "i64"]), 0)],
                  exclusive=case.choice([None, 0, 1]), reverse=case.choice([None, 0, 1]))
    case.output(y, kind)
    if kind in FLOATS:
        case.sums(shape[axis], 2)


def declare_softmax(name):
    @operator(name, weight=2)
    def draw(case):
        kind = case.kind(FLOATS if name != "Hardmax" else ["f32"])
        shape = case.shape(low=1, zero=0.03)
        axis = case.axis(len(shape)) if case.opset >= 11 else case.integer(0, len(shape) - 1)
        if case.chance(0.3) and (case.opset >= 13 or len(shape) > 1):
            axis = None
        x = case.values(shape, kind, -6, 6)
        if name == "Hardmax" and case.chance(0.5):
            x = np.round(x)
        case.output(case.node(name, [case.feed(x, kind)], axis=axis), kind)
        if name == "LogSoftmax":
            case.within(*{"f16": (5e-3, 1e-2), "f32": (1e-5, 5e-6), "f64": (1e-10, 1e-10)}[kind])


for _name in ("Softmax", "LogSoftmax", "Hardmax"):
    declare_softmax(_name)


@operator("LpNormalization")
def lp_normalization(case):
    kind = case.kind(["f32", "f64"])
    shape = case.shape(low=1, zero=0)
    x = case.values(shape, kind, 0.1, 3) * case.numpy.choice([-1, 1], shape)
    y = case.node("LpNormalization", [case.feed(x.astype(x.dtype), kind)], p=case.choice([None, 1, 2]),
                  axis=case.choice([None, case.axis(len(shape))]))
    case.output(y, kind)


@operator("TopK", weight=2)
def top_k(case):
    kind = case.kind(FLOATS if case.opset < 11 else ["f32", "f64", "i32", "i64"])
    shape = case.shape(low=1, zero=0)
    axis = case.axis(len(shape))
    x = case.values(shape, kind, -5, 5)
    size = shape[axis]
    k = case.choice([1, size, case.integer(0, size), case.integer(0, min(size, 9))])
    attributes = {"axis": axis if axis % len(shape) != len(shape) - 1 or case.chance(0.5) else None}
    operands = [case.feed(x, kind)]
    if case.opset < 10:
        attributes["k"] = max(k, 1)
    else:
        operands.append(case.setting([k]))
    if case.opset >= 11:
        attributes["largest"] = case.choice([None, 0, 1])
        attributes["sorted"] = case.choice([None, 1])
    values, indices = case.node("TopK", operands, 2, **attributes)
    case.output(values, kind)
    case.output(indices, "i64")


@operator("MeanVarianceNormalization", 9)
def mean_variance(case):
    kind = "f32"
    shape = case.shape(rank=4, zero=0)
    axes = sorted(axis % 4 for axis in case.axes(4)) if case.chance(0.7) else None
    if math.prod(shape[axis] for axis in axes or (0, 2, 3)) < 3:  # a variance of 0 is rounding errors
        raise Dropped
    y = case.node("MeanVarianceNormalization", [case.feed(case.values(shape, kind), kind)], axes=axes)
    case.output(y, kind)
    case.within(1e-3, 2e-4)


@operator("Unique", 11)
def unique(case):
    kind = case.kind(["f32", "f64", "i8", "i64", "str"])
    shape = case.shape(low=1, zero=0, limit=400)
    x = case.values(shape, kind, -0.8, 0.8)
    if kind in FLOATS:
        x = np.round(x * 3) + np.array(0, x.dtype)
    axis = case.choice([None, case.axis(len(shape))])
    results = case.node("Unique", [case.feed(x, kind)], 4, axis=axis, sorted=case.choice([None, 0, 1]))
    for name, result in zip(results, (kind, "i64", "i64", "i64")):
        case.output(name, result)


@operator("NonZero", 9)
def non_zero(case):
    kind = case.kind(["f32", "i32", "i64", "u8", "bool"])
    x = case.values(case.shape(low=1), kind, -0.2, 0.2)
    if kind == "f32":
        x = np.round(x * 4)
    case.output(case.node("NonZero", [case.feed(x, kind)]), "i64")

"""Reductions of opset 18, whose axes are an operand, and of opset 20, which compare booleans; CumProd."""
import numpy as np

OPERATORS = {
    "ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceProd": np.prod,
    "ReduceL1": lambda x, **o: np.sum(np.abs(x), **o), "ReduceL2": lambda x, **o: np.sqrt(np.sum(x * x, **o)),
    "ReduceSumSquare": lambda x, **o: np.sum(x * x, **o), "ReduceLogSum": lambda x, **o: np.log(np.sum(x, **o)),
    "ReduceLogSumExp": lambda x, **o: np.log(np.sum(np.exp(x), **o)),
}


def noop(name, x):
    """The element-wise part goes on where no axis is reduced."""
    return OPERATORS[name](x[..., None], axis=-1).astype(x.dtype)


def make(suite):
    rng = np.random.default_rng(18)
    x = (rng.random((3, 4, 5)) + 0.5).astype(np.float32)
    for name, f in OPERATORS.items():
        for opset in (18, 20) if name in ("ReduceMax", "ReduceMin") else (18,):
            for label, axes, keep in (("one", (1,), 1), ("two", (0, -1), 1), ("dropped", (-2,), 0), ("all", (0, 1, 2), 0)):
                y = np.asarray(f(x, axis=axes, keepdims=bool(keep)), np.float32)
                suite.op(opset, name, label, [x, np.array(axes)], [y], keepdims=keep)
                suite.op(opset, name, f"{label}_constant", [x, np.array(axes)], [y], constant=(1,), keepdims=keep)
            suite.op(opset, name, "absent", [x], [np.asarray(f(x, axis=(0, 1, 2), keepdims=True), np.float32)])
            none = np.zeros(0, np.int64)
            suite.op(opset, name, "empty_axes", [x, none], [np.asarray(f(x, axis=(0, 1, 2), keepdims=True), np.float32)])
            suite.op(opset, name, "noop", [x, none], [noop(name, x)], noop_with_empty_axes=1)
            suite.op(opset, name, "noop_absent", [x], [noop(name, x)], noop_with_empty_axes=1)
        if name not in ("ReduceMax", "ReduceMin"):
            start = {"ReduceProd": 1.0, "ReduceLogSum": -np.inf, "ReduceLogSumExp": -np.inf, "ReduceMean": np.nan}.get(name, 0.0)
            suite.op(18, name, "empty_set", [x[:, :0], np.array([1])], [np.full((3, 1, 5), start, np.float32)])
    # The maximum of no elements is the minimum of the type.
    for dtype in (np.float32, np.float64, np.float16, np.int32, np.int64, np.uint8, np.int8, np.uint32, np.uint64):
        low, high = (-np.inf, np.inf) if np.dtype(dtype).kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        empty = np.zeros((2, 0, 4), dtype)
        for name, value in (("ReduceMax", low), ("ReduceMin", high)):
            suite.op(20, name, f"empty_set_{np.dtype(dtype).name}", [empty, np.array([1])], [np.full((2, 1, 4), value, dtype)])
    suite.op(20, "ReduceMax", "empty_set_bool", [np.zeros((2, 0), bool), np.array([1])], [np.zeros((2, 1), bool)])
    suite.op(20, "ReduceMin", "empty_set_bool", [np.zeros((2, 0), bool), np.array([1])], [np.ones((2, 1), bool)])
    for name in OPERATORS:
        suite.op(18, name, "other_axis_empty", [np.zeros((2, 0, 4), np.float32), np.array([2])], [np.zeros((2, 0, 1), np.float32)])
    flags = rng.random((3, 4, 5)) > 0.5
    for name, f in (("ReduceMax", np.max), ("ReduceMin", np.min)):
        for label, axes in (("bool", (1,)), ("bool_two", (0, 2)), ("bool_all", (0, 1, 2))):
            suite.op(20, name, label, [flags, np.array(axes)], [f(flags, axis=axes, keepdims=True)])
        suite.op(20, name, "u8", [(flags * 7).astype(np.uint8), np.array([0])], [f((flags * 7).astype(np.uint8), axis=0, keepdims=True)])

    for dtype in (np.float32, np.float64, np.float16, np.int32, np.int64, np.uint32, np.uint64):
        values = (rng.integers(1, 4, (2, 3, 4))).astype(dtype)
        for label, axis, exclusive, reverse in (("first", 0, 0, 0), ("last", -1, 0, 0), ("exclusive", 1, 1, 0),
                                                ("reverse", 2, 0, 1), ("both", 1, 1, 1)):
            y = np.flip(values, axis) if reverse else values
            if exclusive:
                y = np.concatenate([np.ones_like(np.take(y, [0], axis)), np.take(y, range(y.shape[axis] - 1), axis)], axis)
            y = np.cumprod(y, axis, dtype=dtype)
            suite.op(26, "CumProd", f"{np.dtype(dtype).name}_{label}", [values, np.array(axis, np.int32)],
                     [np.flip(y, axis).copy() if reverse else y], exclusive=exclusive, reverse=reverse)

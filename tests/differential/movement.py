"""Operators that move, select, convert or make elements."""
import math

import numpy as np

from case import FLOATS, INTEGERS, NUMBERS, SIGNED, Dropped, tensor
from table import operator

ANY = list(NUMBERS) + ["bool", "str"]


@operator("Cast", weight=3)
def cast(case, name="Cast"):
    kinds = list(NUMBERS) + ["bool"] + (["bf16"] if case.opset >= 13 else [])
    source, target = case.kind(kinds), case.choice(kinds)
    if name == "Cast" and case.opset >= 9 and case.chance(0.15):
        return strings(case)
    # Conversions out of range are undefined, except between integers.
    if source in INTEGERS and target in INTEGERS:
        x = case.ints(case.shape(), source, -2 ** 62, 2 ** 62)
    elif target in INTEGERS:
        low = 0 if target not in SIGNED else -100
        x = case.values(case.shape(), source, low, 100) if source in FLOATS + ("bf16",) else \
            case.values(case.shape(), source)
    else:
        x = case.values(case.shape(), source, -300, 300, 0.03 if case.chance(0.3) and target in FLOATS else 0)
        if target == "f16" and source in ("f32", "f64", "bf16") and case.chance(0.3):
            x = (x * np.array(10.0, x.dtype) ** case.numpy.integers(-7, 4, x.shape).astype(x.dtype)).astype(x.dtype)
            x = x if source != "bf16" else case.floats(x.shape, "bf16", -1e-6, 1e-6)
    if name == "Cast":
        number = {"f32": 1, "bool": 9, "f16": 10, "f64": 11, "bf16": 16, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6,
                  "i64": 7, "u32": 12, "u64": 13}[target]
        y = case.node("Cast", [case.feed(x, source)], to=number)
    else:
        y = case.node("CastLike", [case.feed(x, source), case.feed(case.values([1], target), target)])
    with np.errstate(all="ignore"):
        expected = x.astype(np.float32) if target == "bf16" else x != 0 if target == "bool" else \
            x.astype(np.int64 if target in INTEGERS and source not in INTEGERS else x.dtype)
    case.output(y, target, expected)


def strings(case):
    if case.chance(0.5):
        kind = case.choice(SIGNED)
        x = case.ints(case.shape(limit=200), kind)
        y = case.node("Cast", [case.feed(x, kind)], to=8)
        case.output(y, "str", np.vectorize(str, otypes=[object])(x) if x.size else x.astype(object))
        return
    kind = case.choice(["f32", "f64", "i32", "i64"])
    words = ["0", "1", "-7", "123"] + (["3.25", "-1e-3", "1E4", "NaN", "INF", "-INF", "+0.5"] if kind in FLOATS else [])
    x = np.array(words, object)[case.numpy.integers(0, len(words), case.shape(low=1, limit=200))]
    case.output(case.node("Cast", [case.feed(x, "str")], to={"f32": 1, "f64": 11, "i32": 6, "i64": 7}[kind]), kind)


@operator("CastLike", 15)
def cast_like(case):
    cast(case, "CastLike")


@operator("Identity")
def identity(case):
    kind = case.kind(ANY + (["bf16"] if case.opset >= 13 else []))
    x = case.values(case.shape(), kind)
    case.output(case.node("Identity", [case.feed(x, kind)]), kind, x)


@operator("Compress", 9)
def compress(case):
    kind = case.kind(ANY)
    shape = case.shape(low=1, zero=0)
    axis = case.axis(len(shape)) if case.chance(0.6) else None
    if axis is not None and case.opset < 11:
        axis %= len(shape)
    length = math.prod(shape) if axis is None else shape[axis]
    condition = case.values([case.integer(1, length)], "bool")
    y = case.node("Compress", [case.feed(case.values(shape, kind), kind), case.feed(condition, "bool")], axis=axis)
    case.output(y, kind)


@operator("Concat", weight=2)
def concat(case):
    kind = case.kind(ANY)
    shape = case.shape(low=1, limit=case.limit() // 2 + 1)
    axis = case.axis(len(shape)) if case.opset >= 11 else case.integer(0, len(shape) - 1)
    parts = []
    for _ in range(case.integer(1, 6)):
        part = list(shape)
        part[axis] = case.choice([0, 1, 1, 2, 3, 7, 16, 17])
        parts.append(case.feed(case.values(part, kind), kind))
    case.output(case.node("Concat", parts, axis=axis), kind)


@operator("ConstantOfShape", 9)
def constant_of_shape(case):
    kind = case.kind(list(NUMBERS) + ["bool"])
    value = tensor(case.values([1], kind), kind) if case.chance(0.8) else None
    shape = case.shape(zero=0.1)
    y = case.node("ConstantOfShape", [case.setting(shape)], value=value)
    case.output(y, kind if value is not None else "f32")


@operator("DepthToSpace")
def depth_to_space(case):
    kind = case.kind(["f32", "f64"])
    block = case.integer(1, 4)
    shape = [case.integer(1, 3), case.integer(1, 9) * block * block, case.integer(1, 17), case.integer(1, 17)]
    y = case.node("DepthToSpace", [case.feed(case.values(shape, kind), kind)], blocksize=block,
                  mode=case.choice([None, "DCR", "CRD"]) if case.opset >= 11 else None)
    case.output(y, kind)


@operator("SpaceToDepth")
def space_to_depth(case):
    kind = case.kind(["f32", "f64"])
    block = case.integer(1, 4)
    shape = [case.integer(1, 3), case.integer(1, 9), case.integer(1, 8) * block, case.integer(1, 8) * block]
    case.output(case.node("SpaceToDepth", [case.feed(case.values(shape, kind), kind)], blocksize=block), kind)


@operator("Expand", 8, weight=2)
def expand(case):
    kind = case.kind(ANY + (["bf16"] if case.opset >= 13 else []))
    shape = case.shape()
    source = case.broadcastable(shape, 0.4)
    target = [1 if case.chance(0.2) else size for size in shape][case.integer(0, len(shape)) if case.chance(0.2) else 0:]
    expected = np.broadcast_shapes(source, target)
    x = case.values(source, kind)
    y = case.node("Expand", [case.feed(x, kind), case.setting(target)])
    case.output(y, kind, np.broadcast_to(x, expected))


@operator("EyeLike", 9)
def eye_like(case):
    kind, to = case.choice(["f32", "f64", "i32", "i64", "u64"]), case.choice([None, "f32", "f64", "i64", "i32", "u64"])
    shape = case.shape(rank=2)
    y = case.node("EyeLike", [case.feed(case.values(shape, kind), kind)], k=case.choice([None, case.integer(-9, 9)]),
                  dtype=to and {"f32": 1, "f64": 11, "i64": 7, "i32": 6, "u64": 13}[to])
    case.output(y, to or kind)


@operator("Flatten")
def flatten(case):
    kind = case.kind(ANY if case.opset >= 9 else FLOATS)
    shape = case.shape(low=0 if case.opset >= 13 else 1)
    low = -len(shape) if case.opset >= 11 else 0
    axis = case.choice([case.integer(low, len(shape)), None if shape else 0])
    case.output(case.node("Flatten", [case.feed(case.values(shape, kind), kind)], axis=axis), kind)


def indices(case, shape, size, negative=True):
    """A kind of indices, and some of them."""
    kind = case.choice(["i32", "i64"])
    return kind, case.ints(shape, kind, -size if negative else 0, size - 1)


@operator("Gather", weight=2)
def gather(case):
    kind = case.kind(ANY)
    shape = case.shape(low=1, zero=0, limit=case.limit() // 2 + 1)
    axis = case.axis(len(shape))
    if case.opset < 11:
        axis %= len(shape)
    picked = case.shape(high=2, limit=max(1, min(40, 100000 // math.prod(shape))))
    index_kind, chosen = indices(case, picked, shape[axis], case.opset >= 11)
    x = case.values(shape, kind)
    y = case.node("Gather", [case.feed(x, kind), case.feed(chosen, index_kind)], axis=axis if axis or case.chance(0.5) else None)
    case.output(y, kind, np.take(x, chosen, axis))
    if kind == "str":  # the peer copies the first string of each slice only
        case.without_peer()


@operator("GatherElements", 11)
def gather_elements(case):
    kind = case.kind(ANY)
    shape = case.shape(low=1, zero=0)
    axis = case.axis(len(shape))
    picked = [case.integer(1, size) for size in shape]
    picked[axis] = case.choice([1, 2, shape[axis], shape[axis] + 3])
    index_kind, chosen = indices(case, picked, shape[axis])
    y = case.node("GatherElements", [case.feed(case.values(shape, kind), kind), case.feed(chosen, index_kind)],
                  axis=axis if axis or case.chance(0.5) else None)
    case.output(y, kind)


def index_tuples(case, shape, batch, unique=False):
    """Indices for GatherND and ScatterND: how many of the shape's axes they take, and the array."""
    depth = case.integer(1, len(shape) - batch)
    spread = case.shape(high=2, limit=30, zero=0.03)
    sizes = shape[batch:batch + depth]
    if unique:
        count = min(math.prod(spread), math.prod(sizes))
        flat = case.numpy.permutation(math.prod(sizes))[:count]
        array = np.stack(np.unravel_index(flat, sizes), -1).reshape([count, depth])
    else:
        dims = shape[:batch] + spread
        array = np.stack([case.numpy.integers(0, size, dims) for size in sizes], -1)
    signs = case.numpy.random(array.shape) < 0.3
    return depth, np.where(signs, array - np.array(sizes), array).astype(np.int64)


@operator("GatherND", 11)
def gather_nd(case):
    kind = case.kind(ANY)
    shape = case.shape(low=1, zero=0)
    batch = case.integer(0, len(shape) - 1) if case.opset >= 12 and case.chance(0.4) else 0
    _, array = index_tuples(case, shape, batch)
    y = case.node("GatherND", [case.feed(case.values(shape, kind), kind), case.feed(array, "i64")],
                  batch_dims=batch if batch or (case.opset >= 12 and case.chance(0.3)) else None)
    case.output(y, kind)


def reduction(case):
    if case.opset < 16 or case.chance(0.4):
        return None
    return case.choice(["none", "add", "mul"] + (["min", "max"] if case.opset >= 18 else []))


@operator("ScatterND", 11, weight=2)
def scatter_nd(case):
    how = reduction(case)
    kind = case.kind(ANY if how in (None, "none") else ["f32", "f64", "i32", "i64"])
    shape = case.shape(low=1, zero=0)
    depth, array = index_tuples(case, shape, 0, how in (None, "none"))
    updates = case.values(list(array.shape[:-1]) + shape[depth:], kind, -1.5, 1.5)
    y = case.node("ScatterND", [case.feed(case.values(shape, kind), kind), case.feed(array, "i64"),
                                case.feed(updates, kind)], reduction=how)
    case.output(y, kind)
    if how in ("add", "mul") and kind in FLOATS:
        case.within(*{"f16": (3e-2, 3e-2), "f32": (2e-5, 1e-5), "f64": (1e-10, 1e-10)}[kind])


def scatter_elements(case, name):
    how = reduction(case) if name == "ScatterElements" else None
    kind = case.kind(ANY if how in (None, "none") else ["f32", "f64", "i32", "i64"])
    shape = case.shape(low=1, zero=0)
    axis = case.axis(len(shape))
    if case.opset < 11:
        axis %= len(shape)
    picked = [case.integer(1, size) for size in shape]
    if how in (None, "none"):  # the order of two writes to one place is undefined
        order = np.argsort(case.numpy.random(shape), axis)
        array = order[tuple(slice(0, size) for size in picked)]
    else:
        array = case.numpy.integers(0, shape[axis], picked)
    if case.opset >= 11:
        array = np.where(case.numpy.random(picked) < 0.3, array - shape[axis], array)
    index_kind = case.choice(["i32", "i64"])
    y = case.node(name, [case.feed(case.values(shape, kind), kind), case.feed(array.astype("i4" if index_kind == "i32" else "i8"), index_kind),
                         case.feed(case.values(picked, kind, -1.5, 1.5), kind)],
                  axis=axis if axis or case.chance(0.5) else None, reduction=how)
    case.output(y, kind)
    if how in ("add", "mul") and kind in FLOATS:
        case.within(*{"f16": (3e-2, 3e-2), "f32": (2e-5, 1e-5), "f64": (1e-10, 1e-10)}[kind])


@operator("ScatterElements", 11, weight=2)
def scatter_elements_now(case):
    scatter_elements(case, "ScatterElements")


@operator("Scatter", 9, 10)
def scatter(case):
    scatter_elements(case, "Scatter")


@operator("OneHot", 9)
def one_hot(case):
    index_kind, kind = case.choice([("i64", "f32"), ("i32", "f32"), ("i64", "i64"), ("f32", "f32"), ("i64", "i32"),
                                    ("i32", "i32"), ("i64", "str")])
    depth = case.choice([1, 2, 5, 9, 16, 33])
    shape = case.shape(low=1, high=3, limit=300)
    array = case.values(shape, index_kind, -depth / 10, depth / 10)
    array = np.clip(np.round(array), -depth - 1 if case.opset >= 11 else 0, depth).astype(array.dtype)
    axis = case.choice([None, case.integer(-1 - len(shape) if case.opset >= 11 else -1, len(shape))])
    depth_kind = case.choice(["i64", "i64", "i32"]) if index_kind != "f32" else "i64"
    pair = case.values([2], kind)
    y = case.node("OneHot", [case.feed(array, index_kind), case.setting(depth, depth_kind, case.choice([0, 1])),
                             case.feed(pair, kind)], axis=axis)
    wrapped = np.where(array < 0, array + depth, array).astype(np.int64)
    hot = np.moveaxis(wrapped[..., None] == np.arange(depth), -1, -1 if axis is None else axis)
    case.output(y, kind, np.where(hot, pair[1], pair[0]))


@operator("Pad", weight=3)
def pad(case):
    mode = case.choice([None, "constant", "reflect", "edge"] + (["wrap"] if case.opset >= 19 else []))
    kind = case.kind(["f32", "f64"] if case.opset < 11 else ["f32", "f64", "i32", "i64", "u32", "u64", "i8", "u8"] + (["bool"] if case.opset >= 13 else []))
    shape = case.shape(low=1, zero=0)
    rank = len(shape)
    axes = sorted(axis % rank for axis in case.axes(rank)) if case.opset >= 18 and case.chance(0.4) else list(range(rank))
    begins, ends = [], []
    for axis in axes:
        size = shape[axis]
        high = {"reflect": size - 1, "wrap": size}.get(mode, 9)
        begin, end = (case.choice([0, 0, 1, case.integer(0, max(high, 0)), case.integer(-size, 0) if case.chance(0.5) else 0])
                      for _ in range(2))
        begin, end = min(begin, high), min(end, high)
        if begin + end + size < 1 or (min(begin, end) < 0 and mode not in (None, "constant")):
            begin = end = 0
        # the peer cuts off more than there is when one side's cut reaches into the other's padding
        if min(begin, end) < 0 and -min(begin, end) >= size:
            begin = end = 0
        begins.append(begin)
        ends.append(end)
    attributes = {"mode": mode}
    x = case.values(shape, kind)
    operands = [case.feed(x, kind)]
    if case.opset < 11:
        attributes["pads"] = begins + ends
        attributes["value"] = case.choice([None, case.real(-1, 1)])
    else:
        operands.append(case.setting(begins + ends))
        value = case.chance(0.5)
        operands.append(case.feed(case.values([], kind), kind) if value else "")
        if axes != list(range(rank)) or (case.opset >= 18 and case.chance(0.2)):
            operands.append(case.setting([axis - rank if case.chance(0.3) else axis for axis in axes]))
    case.output(case.node("Pad", operands, **attributes), kind)


@operator("Range", 11)
def range_(case):
    kind = case.choice(["f32", "f64", "i16", "i32", "i64"])
    delta = case.choice([1, 2, -1, -3, 7] if kind not in FLOATS else [0.5, 1, -0.25, 2, -3])
    count = case.choice([0, 1, 2, 5, 9, 17, 33, 100, 1000])
    start = case.integer(-50, 50)
    limit = start + delta * count - (0 if kind not in FLOATS else delta / 4 if count else 0)
    if case.chance(0.1):
        limit = start - 2 * delta
    array = np.array([start, limit, delta], {"f32": "f4", "f64": "f8", "i16": "i2", "i32": "i4", "i64": "i8"}[kind])
    case.output(case.node("Range", [case.feed(item.reshape(()), kind, 0.5) for item in array]), kind)


def factors(case, count, rank):
    """A shape of so many elements."""
    dims = [1] * rank
    for prime in (2, 3, 5, 7, 11, 13, 17):
        while rank and count % prime == 0:
            count //= prime
            dims[case.integer(0, rank - 1)] *= prime
    if rank:
        dims[case.integer(0, rank - 1)] *= count
    return dims


@operator("Reshape", weight=2)
def reshape(case):
    kind = case.kind(ANY)
    shape = case.shape()
    count = math.prod(shape)
    target = factors(case, count, case.integer(0 if count == 1 else 1, 5)) if count else list(shape)
    asked = list(target)
    allow = case.choice([None, 0, 1]) if case.opset >= 14 else None
    if asked and count and case.chance(0.5):
        asked[case.integer(0, len(asked) - 1)] = -1
    if allow != 1:
        for axis in range(min(len(asked), len(shape))):
            if shape[axis] == target[axis] and case.chance(0.4):
                asked[axis] = 0
        if count == 0:
            asked = [0 if size == 0 else size for size in asked]
    y = case.node("Reshape", [case.feed(case.values(shape, kind), kind), case.setting(asked)], allowzero=allow)
    case.output(y, kind)


@operator("ReverseSequence", 10)
def reverse_sequence(case):
    kind = case.kind(["f32", "f64", "i32", "i64", "bool", "str", "u8"])
    shape = case.shape(low=2, zero=0)
    time, batch = case.choice([(0, 1), (1, 0)])
    lengths = case.ints([shape[batch]], "i64", 0 if case.chance(0.3) else 1, shape[time])
    y = case.node("ReverseSequence", [case.feed(case.values(shape, kind), kind), case.feed(lengths, "i64")],
                  time_axis=time if time or case.chance(0.5) else None, batch_axis=None if batch == 1 and case.chance(0.5) else batch)
    case.output(y, kind)


@operator("Shape")
def shape_(case):
    kind = case.kind(ANY)
    shape = case.shape(zero=0.1)
    rank = len(shape)
    start, end = None, None
    if case.opset >= 15:
        start, end = (case.choice([None, case.integer(-rank - 2, rank + 2)]) for _ in range(2))
        if kind is not None and start is not None and end is not None and start > end:
            start, end = end, start
    case.output(case.node("Shape", [case.feed(case.values(shape, kind), kind)], start=start, end=end), "i64")


@operator("Size")
def size(case):
    kind = case.kind(ANY)
    case.output(case.node("Size", [case.feed(case.values(case.shape(zero=0.1), kind), kind)]), "i64")


@operator("Slice", weight=3)
def slice_(case):
    kind = case.kind(ANY)
    shape = case.shape(low=1)
    axes = case.axes(len(shape)) if case.chance(0.7) else None
    if axes is not None and case.opset < 10:
        axes = [axis % len(shape) for axis in axes]
    over = axes if axes is not None else range(len(shape))
    starts, ends, steps = [], [], []
    for axis in over:
        size = shape[axis]
        step = case.choice([1, 1, 1, 2, 3, -1, -2, -5]) if case.opset >= 10 else 1
        bounds = [case.integer(-size - 2, size + 2), case.integer(-size - 2, size + 2)]
        if case.chance(0.3):
            bounds = [0, 2 ** 31 - 1] if step > 0 else [2 ** 31 - 1, -2 ** 31]
        starts.append(bounds[0])
        ends.append(bounds[1])
        steps.append(step)
    x = case.feed(case.values(shape, kind), kind)
    if case.opset < 10:
        y = case.node("Slice", [x], starts=starts, ends=ends, axes=axes)
    else:
        index = case.choice(["i32", "i64"])
        operands = [x, case.setting(starts, index), case.setting(ends, index),
                    case.setting(axes, index) if axes is not None else ""]
        if any(step != 1 for step in steps) or case.chance(0.3):
            operands.append(case.setting(steps, index))
        y = case.node("Slice", operands)
    case.output(y, kind)


@operator("Split", weight=2)
def split(case):
    kind = case.kind(ANY)
    shape = case.shape(low=1)
    axis = case.axis(len(shape)) if case.opset >= 11 else case.integer(0, len(shape) - 1)
    count = case.integer(1, 5)
    attributes = {"axis": axis if axis or case.chance(0.5) else None}
    operands = []
    if case.chance(0.5):
        shape[axis] = count * case.integer(1, 9)
        if case.opset >= 18:
            attributes["num_outputs"] = count
            shape[axis] -= case.integer(0, min(count - 1, shape[axis] // count - 1)) if shape[axis] > count else 0
    else:
        sizes = [case.choice([0, 1, 2, 3, 8, 17]) for _ in range(count)]
        shape[axis] = sum(sizes)
        if case.opset < 13:
            attributes["split"] = sizes
        else:
            operands = [case.setting(sizes)]
    results = case.node("Split", [case.feed(case.values(shape, kind), kind)] + operands, count, **attributes)
    for name in [results] if count == 1 else results:
        case.output(name, kind)


@operator("Squeeze")
def squeeze(case):
    kind = case.kind(ANY)
    shape = case.shape(high=5)
    axes = [axis for axis, size in enumerate(shape) if size == 1 and case.chance(0.7)]
    if case.opset >= 11:
        axes = [axis - len(shape) if case.chance(0.4) else axis for axis in axes]
    given = bool(axes) or case.chance(0.0)
    x = case.feed(case.values(shape, kind), kind)
    if case.opset < 13:
        y = case.node("Squeeze", [x], axes=axes if given else None)
    else:
        y = case.node("Squeeze", [x] + ([case.setting(axes)] if given else []))
    case.output(y, kind)


@operator("Unsqueeze")
def unsqueeze(case):
    kind = case.kind(ANY)
    shape = case.shape(high=3)
    added = case.integer(1, 3)
    axes = case.random.sample(range(len(shape) + added), added)
    if case.opset >= 11:
        axes = [axis - len(shape) - added if case.chance(0.4) else axis for axis in axes]
    else:
        axes.sort()
    x = case.feed(case.values(shape, kind), kind)
    y = case.node("Unsqueeze", [x], axes=axes) if case.opset < 13 else case.node("Unsqueeze", [x, case.setting(axes)])
    case.output(y, kind)


@operator("Tile")
def tile(case):
    kind = case.kind(["f32", "f64", "i8", "u8", "i16", "i32", "i64", "bool", "str"])
    shape = case.shape(limit=min(case.limit(), 3000))
    repeats = [case.choice([1, 1, 1, 2, 3, 0 if case.chance(0.1) else 4]) for _ in shape]
    case.output(case.node("Tile", [case.feed(case.values(shape, kind), kind), case.setting(repeats)]), kind)


@operator("Transpose", weight=3)
def transpose(case):
    kind = case.kind(ANY + (["bf16"] if case.opset >= 13 else []))
    shape = case.shape(high=6)
    order = None if case.chance(0.2) else case.random.sample(range(len(shape)), len(shape))
    x = case.values(shape, kind)
    case.output(case.node("Transpose", [case.feed(x, kind)], perm=order or None), kind, np.transpose(x, order or None))


@operator("Trilu", 14)
def trilu(case):
    kind = case.kind(["f32", "f64", "i64", "i32", "bool"])
    shape = case.shape(low=2)
    x = case.values(shape, kind)
    upper, k = case.choice([None, 0, 1]), case.choice([None, case.integer(-9, 9)])
    operands = [case.feed(x, kind)] + ([case.setting(k, rank=0)] if k is not None else [])
    case.output(case.node("Trilu", operands, upper=upper), kind,
                (np.tril if upper == 0 else np.triu)(x, k or 0) if x.size else x)


@operator("CenterCropPad", 18)
def center_crop_pad(case):
    kind = case.kind(["f32", "f64", "i32", "i64"])
    shape = case.shape(low=1, zero=0)
    axes = case.axes(len(shape)) if case.chance(0.6) else None
    target = [case.integer(1, 20) for _ in (axes if axes is not None else shape)]
    y = case.node("CenterCropPad", [case.feed(case.values(shape, kind), kind), case.setting(target)], axes=axes)
    case.output(y, kind)


def image_of_columns(x, image, block, pads, strides, dilations):
    rank = len(image)
    counts = [(image[i] + pads[i] + pads[i + rank] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(rank)]
    columns = x.reshape([x.shape[0], -1] + block + counts)
    padded = np.zeros(list(columns.shape[:2]) + [image[i] + pads[i] + pads[i + rank] for i in range(rank)])
    for at in np.ndindex(*block):
        places = tuple(slice(at[i] * dilations[i], at[i] * dilations[i] + (counts[i] - 1) * strides[i] + 1, strides[i])
                       for i in range(rank))
        padded[(slice(None), slice(None)) + places] += columns[(slice(None), slice(None)) + at]
    return padded[(slice(None), slice(None)) + tuple(slice(pads[i], pads[i] + image[i]) for i in range(rank))]


@operator("Col2Im", 18)
def col_to_image(case):
    rank = case.choice([1, 2, 2, 2, 3])
    image = [case.integer(3, 12) for _ in range(rank)]
    block = [case.integer(1, 3) for _ in range(rank)]
    pads = [case.integer(0, 2) for _ in range(2 * rank)]
    strides = [case.integer(1, 3) for _ in range(rank)]
    dilations = [case.integer(1, 2) for _ in range(rank)]
    count = 1
    for axis in range(rank):
        reach = image[axis] + pads[axis] + pads[axis + rank] - dilations[axis] * (block[axis] - 1) - 1
        if reach < 0:
            raise Dropped
        count *= reach // strides[axis] + 1
    x = case.values([case.integer(1, 3), case.integer(1, 4) * math.prod(block), count], "f32")
    y = case.node("Col2Im", [case.feed(x, "f32"), case.setting(image), case.setting(block)], pads=pads, strides=strides,
                  dilations=dilations)
    case.output(y, "f32", image_of_columns(x, image, block, pads, strides, dilations))
    if rank != 2:  # the peer mistakes dilations
        case.without_peer()
    case.within(1e-5, 1e-5)


@operator("Constant", 12)
def constant(case):
    form = case.choice(["value", "value", "value_float", "value_floats", "value_int", "value_ints", "value_strings"])
    kind = {"value_float": "f32", "value_floats": "f32", "value_int": "i64", "value_ints": "i64", "value_strings": "str"}.get(form)
    kind = kind or case.kind(ANY)
    x = case.values([] if form in ("value_float", "value_int") else case.shape(low=1, high=1, limit=40, zero=0) if form != "value" else
                    case.shape(limit=200), kind)
    attribute = tensor(x, kind) if form == "value" else [str(item) for item in x] if kind == "str" else np.asarray(x).tolist()
    y = case.node("Constant", [], **{form: attribute})
    case.output(case.node("Identity", [y]) if case.chance(0.5) else y, kind, np.asarray(x))

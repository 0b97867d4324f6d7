"""ONNX+, the operators of org.chainer, of which the peer has nothing: NumPy is the judge."""
import numpy as np

from case import FLOATS, KINDS, tensor
from table import operator

PLUS = "org.chainer"


def plus(name, weight=1):
    """An entry for an operator of the domain, whose references decide."""

    def register(function):
        def draw(case):
            case.domains[PLUS] = 1
            case.without_peer()
            function(case)

        operator(name, 9, 15, weight)(draw)
        return function

    return register


def node(case, name, operands, results=1, **attributes):
    return case.node(name, operands, results, domain=PLUS, **attributes)


def number(case, value, kind="i64"):
    return case.feed(np.array(value, KINDS[kind][1]).reshape(case.choice([[], [1]])), kind, 0.5)


def sequence_of(case, kind="f32", same=False, rank=None):
    """A sequence of one to five tensors, alike but for their first size: its name and its items."""
    inner = case.shape(rank=case.integer(0, 2) if rank is None else rank - 1, limit=12, zero=0)
    length = case.integer(1, 5)
    items = [case.values([length if same else case.integer(1, 5)] + inner, kind) for _ in range(case.integer(1, 5))]
    return node(case, "SequenceCreate", [case.feed(item, kind) for item in items]), items


def flattened(x, axes):
    return x.reshape(list(x.shape[:axes]) + [-1])


@plus("Linear", 2)
def linear(case):
    shape, axes = case.shape(rank=case.integer(2, 4), limit=700, zero=0), case.choice([None, 1, 2])
    axes = None if len(shape) == 2 else axes
    x = case.values(shape, "f32", -1, 1)
    rows = flattened(x, axes or 1)
    w = case.values([case.choice([1, 3, 8, 9, 16, 17, 33]), rows.shape[-1]], "f32", -1, 1)
    operands = [case.feed(x, "f32"), case.feed(w, "f32", 0.6)]
    y = np.matmul(rows.astype(float), w.T.astype(float))
    if case.chance(0.6):
        bias = case.values([len(w)], "f32")
        operands.append(case.feed(bias, "f32", 0.6))
        y = y + bias
    case.known("rank")
    case.output(node(case, "Linear", operands, n_batch_axes=axes), "f32", y)
    case.sums(rows.shape[-1])


@plus("ReluGrad")
def relu_grad(case):
    kind = case.kind(FLOATS)
    x = case.values(case.shape(), kind)
    gradient = case.values(x.shape, kind)
    case.output(node(case, "ReluGrad", [case.feed(x, kind), case.feed(gradient, kind)]), kind, np.where(x > 0, gradient, 0))


@plus("Square")
def square(case):
    kind = case.kind(FLOATS + ("i32", "i64"))
    x = case.values(case.shape(), kind)
    case.output(node(case, "Square", [case.feed(x, kind)]), kind, x * x)


@plus("ReduceSumTo", 2)
def reduce_sum_to(case):
    shape = case.shape(zero=0, limit=700)
    to = [1 if case.chance(0.4) else size for size in shape][case.integer(0, len(shape)):]
    x = case.values(shape, "f32")
    rest = len(shape) - len(to)
    summed = x.astype(float).sum(tuple(range(rest))) if rest else x.astype(float)
    axes = tuple(axis for axis, size in enumerate(to) if size == 1)
    summed = summed.sum(axes, keepdims=True) if axes else summed
    case.output(node(case, "ReduceSumTo", [case.feed(x, "f32"), case.setting(to)]), "f32", summed)
    case.sums(x.size, 2)


@plus("PadBatchSize")
def pad_batch_size(case):
    kind = case.choice(["f32", "f64", "i32", "i64"])
    x = case.values(case.shape(low=1, limit=300), kind)
    y = np.zeros([len(x) + case.choice([0, 1, 5])] + list(x.shape[1:]), x.dtype)
    y[:len(x)] = x
    case.output(node(case, "PadBatchSize", [case.feed(x, kind)], size=len(y)), kind, y)


@plus("SelectItem")
def select_item(case):
    shape, kind = [case.choice([1, 3, 17]), case.choice([1, 2, 9, 33])], case.choice(["i32", "i64"])
    x, chosen = case.values(shape, "f32"), case.ints(shape[:1], kind, 0, shape[1] - 1)
    case.output(node(case, "SelectItem", [case.feed(x, "f32"), case.feed(chosen, kind)]), "f32", x[np.arange(len(x)), chosen])


@plus("SoftmaxCrossEntropy")
def softmax_cross_entropy(case):
    batch, classes = case.integer(1, 9), case.integer(1, 9)
    x, labels = case.values([batch, classes], "f32", -3, 3), case.ints([batch], "i64", -1, classes - 1)
    labels[0] = classes - 1
    wide = x.astype(float)
    kept = np.flatnonzero(labels >= 0)
    losses = np.log(np.exp(wide).sum(1))[kept] - wide[kept, labels[kept]]
    case.output(node(case, "SoftmaxCrossEntropy", [case.feed(x, "f32"), case.feed(labels, "i64")]), "f32", np.array(losses.mean()))
    case.within(1e-5, 1e-5)


@plus("ResizeImages")
def resize_images(case):
    shape, size = case.shape(rank=2, limit=6, zero=0) + [case.integer(2, 9), case.integer(2, 9)], [case.integer(2, 12), case.integer(2, 12)]
    x = case.values(shape, "f32")
    y = x.astype(float)
    for axis in (2, 3):  # corners lie on corners
        places = np.arange(size[axis - 2]) * (shape[axis] - 1) / (size[axis - 2] - 1)
        low = np.minimum(places.astype(int), shape[axis] - 2)
        part = (places - low).reshape([-1] + [1] * (3 - axis))
        y = y.take(low, axis) * (1 - part) + y.take(low + 1, axis) * part
    case.output(node(case, "ResizeImages", [case.feed(x, "f32")], output_shape=size), "f32", y)
    case.within(1e-4, 1e-5)


@plus("GetItem", 3)
def get_item(case):
    shape = case.shape(low=1, limit=700, zero=0)
    x = case.values(shape, "f32")
    specs, operands, index = [], [], []
    for size in shape[:case.integer(1, len(shape))]:
        spec = case.integer(0, 3)
        specs.append(spec)
        if spec == 0:
            index.append(slice(None))
        elif spec == 1:
            index.append(case.integer(-size, size - 1))
            operands.append(index[-1])
        else:
            bounds = [case.integer(-size, size), case.integer(-size, size)] + ([case.choice([1, 2, 3])] if spec == 3 else [])
            index.append(slice(*bounds))
            operands += bounds
    names = [case.constant(np.array(item, np.int64), "i64") for item in operands]
    case.known("rank")
    case.output(node(case, "GetItem", [case.feed(x, "f32")] + names, slice_specs=specs), "f32", x[tuple(index)])


@plus("SetItem", 2)
def set_item(case):
    shape = case.shape(low=1, limit=700, zero=0)
    x = case.values(shape, "f32")
    specs, operands, index = [], [], []
    for size in shape[:case.integer(1, len(shape))]:
        at = case.integer(0, size - 1)
        specs.append(case.choice([1, 2]))
        index.append(at if specs[-1] == 1 else slice(at, size))
        operands += [at] if specs[-1] == 1 else [at, size]
    y = x.copy()
    value = case.values(y[tuple(index)].shape if case.chance(0.6) else [], "f32")
    y[tuple(index)] = value
    names = [case.constant(np.array(item, np.int64), "i64") for item in operands]
    case.known("sizes")
    case.output(node(case, "SetItem", [case.feed(x, "f32")] + names + [case.feed(value, "f32")], slice_specs=specs), "f32", y)


# ---- Regions ----

def away(v):
    return np.floor(abs(v) + 0.5) * np.sign(v)


def pooled_regions(x, rois, batch, size, scale, reduce):
    y = np.zeros([len(rois), x.shape[1]] + size)
    for r, (roi, image) in enumerate(zip(rois, batch)):
        top, left, bottom, right = (int(away(v * scale)) for v in roi)
        steps = max(bottom - top, 1) / size[0], max(right - left, 1) / size[1]
        for i, j in np.ndindex(*size):
            spans = [[int(np.clip(v + begin, 0, limit)) for v in (np.floor(at * step), np.ceil((at + 1) * step))]
                     for at, step, begin, limit in ((i, steps[0], top, x.shape[2]), (j, steps[1], left, x.shape[3]))]
            cell = x[image, :, slice(*spans[0]), slice(*spans[1])].reshape(x.shape[1], -1)
            if cell.shape[1]:
                y[r, :, i, j] = reduce(cell, axis=1)
    return y


def aligned_regions(x, rois, batch, size, samples, reduce):
    y = np.zeros([len(rois), x.shape[1]] + size)
    for r, (roi, image) in enumerate(zip(rois, batch)):
        step = np.maximum(roi[2:] - roi[:2], 1) / size
        for i, j in np.ndindex(*size):
            found = []
            for a, b in np.ndindex(*samples):
                v, u = (np.clip(begin + (at + (n + 0.5) / count) * width, 0, limit - 1) for begin, at, n, count, width, limit in (
                    (roi[0], i, a, samples[0], step[0], x.shape[2]), (roi[1], j, b, samples[1], step[1], x.shape[3])))
                low, left = int(v), int(u)
                high, right = min(low + 1, x.shape[2] - 1), min(left + 1, x.shape[3] - 1)
                dv, du = v - low, u - left
                plane = x[image].astype(float)
                found.append((1 - dv) * ((1 - du) * plane[:, low, left] + du * plane[:, low, right]) +
                             dv * ((1 - du) * plane[:, high, left] + du * plane[:, high, right]))
            y[r, :, i, j] = reduce(found, axis=0)
    return y


def declare_regions(name, reduce):
    @plus(name)
    def draw(case):
        shape = [case.integer(1, 2), case.integer(1, 5), case.integer(3, 9), case.integer(3, 9)]
        size, count = [case.integer(1, 4), case.integer(1, 4)], case.integer(1, 4)
        x, batch = case.values(shape, "f32"), case.ints([count], "i32", 0, shape[0] - 1)
        corners = np.sort(case.numpy.uniform(0, 1, [count, 2, 2]), axis=1).reshape(count, 4)
        # Multiples of an eighth: corners are exact, and none is between two positions.
        rois = (np.floor(corners * np.tile([shape[2] - 1, shape[3] - 1], 2) * 8) / 8).astype(np.float32)
        attributes = {"output_shape": size, "spatial_scale": 1.0}
        if "Align" in name:
            samples = attributes["sampling_ratio"] = [case.integer(1, 3), case.integer(1, 3)]
            expected = aligned_regions(x, rois.astype(float), batch, size, samples, reduce)
        else:
            expected = pooled_regions(x, rois, batch, size, 1.0, reduce)
        y = node(case, name, [case.feed(x, "f32"), case.feed(rois, "f32"), case.feed(batch, "i32")], **attributes)
        case.output(y, "f32", expected)
        case.within(1e-4, 1e-4)


for _name, _reduce in {"ROIMaxPool2D": np.max, "ROIAveragePool2D": np.mean, "ROIMaxAlign2D": np.max, "ROIAverageAlign2D": np.mean}.items():
    declare_regions(_name, _reduce)


# ---- Sequences ----

@plus("SequenceExtend", 2)
def sequence_extend(case):
    kind = case.choice(["f32", "i64"])
    first, a = sequence_of(case, kind)
    if case.chance(0.3):
        case.output(node(case, "GenericAdd", [first, first]), kind, a + a)
        return
    x = case.values(a[0].shape, kind)
    y = node(case, "SequenceAppend", [node(case, "SequenceExtend", [first, first]), case.feed(x, kind)])
    case.output(node(case, case.choice(["SequenceCopy", "SequenceMove"]), [y]), kind, a + a + [x])


@plus("SequencePop")
def sequence_pop(case):
    name, items = sequence_of(case)
    rest, item = node(case, "SequencePop", [name], 2)
    case.output(item, "f32", items[-1])
    case.output(node(case, case.choice(["SequenceSize", "GenericLen"]), [rest]), "i64", np.array(len(items) - 1))


@plus("SequenceUpdate", 2)
def sequence_update(case):
    name, items = sequence_of(case)
    at, x = case.integer(-len(items), len(items) - 1), case.values(items[0].shape, "f32")
    y = node(case, "SequenceUpdate", [name, number(case, at), case.feed(x, "f32")])
    items = list(items)
    items[at] = x
    at = case.integer(-len(items), len(items) - 1)
    case.output(y, "f32", items)
    case.output(node(case, case.choice(["SequenceLookup", "GenericGetItem"]), [y, number(case, at)]), "f32", items[at])


@plus("SequencePad", 2)
def sequence_pad(case):
    name, items = sequence_of(case)
    longest = max(len(item) for item in items)
    length, value = case.choice([None, longest + 2]), case.choice([None, -4.0])
    y = np.full([len(items), length or longest] + list(items[0].shape[1:]), value or 0, np.float32)
    for row, item in zip(y, items):
        row[:len(item)] = item
    padded = node(case, "SequencePad", [name], length=length, value=value)
    lengths = node(case, "SequenceLengths", [name])
    case.output(padded, "f32", y)
    case.output(lengths, "i64", [np.array(len(item)) for item in items])
    case.output(node(case, "SequenceUnpad", [padded, lengths]), "f32", items)


@plus("SequenceGetSlice", 2)
def sequence_get_slice(case):
    name, items = sequence_of(case)
    bounds = [case.integer(-6, 6), case.integer(-6, 6), case.choice([1, 2, -1, -2])][:case.integer(1, 3)]
    if len(bounds) == 1:  # Python's slice of one number ends there
        bounds.append(2 ** 40)
    y = node(case, case.choice(["SequenceGetSlice", "GenericGetSlice"]), [name] + [number(case, item) for item in bounds])
    kept = items[slice(*bounds)]
    if kept:
        case.output(y, "f32", kept)
    case.output(node(case, "GenericLen", [y]), "i64", np.array(len(kept)))


@plus("SequenceRange")
def sequence_range(case):
    bounds = [case.integer(-6, 6), case.integer(-6, 6), case.choice([1, 2, 3, -1, -2])][:case.integer(1, 3)]
    y = node(case, "SequenceRange", [case.feed(np.array(item, np.int64), "i64", 0.3) for item in bounds])
    if len(range(*bounds)):
        case.output(y, "i64", [np.array(item, np.int64) for item in range(*bounds)])
    case.output(node(case, "SequenceSize", [y]), "i64", np.array(len(range(*bounds))))


@plus("SequenceStack", 2)
def sequence_stack(case):
    name, items = sequence_of(case, same=True)
    axis = case.integer(-1, items[0].ndim - 1)
    case.output(node(case, "SequenceConcat", [name], axis=axis), "f32", np.concatenate(items, axis))
    stacked = np.stack(items, axis)
    y = node(case, "SequenceStack", [name], axis=axis)
    case.output(y, "f32", stacked)
    case.output(node(case, "SequenceSeparate", [y], axis=axis), "f32", [item.squeeze(axis) for item in np.split(stacked, len(items), axis)])


@plus("SequenceSplitAxis")
def sequence_split_axis(case):
    shape = case.shape(low=1, limit=200, zero=0)
    axis = case.integer(0, len(shape) - 1)
    places = sorted(case.random.sample(range(1, shape[axis]), case.integer(0, min(3, shape[axis] - 1))))
    x = case.values(shape, "f32")
    case.known("rank")
    y = node(case, "SequenceSplitAxis", [case.feed(x, "f32"), case.setting(places)], axis=axis)
    case.output(y, "f32", np.split(x, places, axis))


@plus("SequenceClear")
def sequence_clear(case):
    name, items = sequence_of(case)
    x = case.values(items[0].shape, "f32")
    case.output(node(case, "SequenceAppend", [node(case, "SequenceClear", [name]), case.feed(x, "f32")]), "f32", [x])


@plus("SequenceConstants")
def sequence_constants(case):
    kind = case.choice(["f32", "i64"])
    items = [case.values(case.shape(limit=20), kind) for _ in range(case.integer(1, 4))]
    case.output(node(case, "SequenceConstants", [], tensor_values=[tensor(item, kind) for item in items]), kind, items)


# ---- Operators of tensors or sequences ----

@plus("GenericAdd")
def generic_add(case):
    shape = case.shape(limit=300)
    a, b = case.values(shape, "f32"), case.values(case.broadcastable(shape), "f32")
    case.output(node(case, "GenericAdd", [case.feed(a, "f32"), case.feed(b, "f32")]), "f32", a + b)


@plus("GenericAccumulateGrad")
def generic_accumulate_grad(case):
    if case.chance(0.5):
        name, items = sequence_of(case)
        case.output(node(case, "GenericAccumulateGrad", [name, name]), "f32", [item + item for item in items])
        return
    x = case.values(case.shape(limit=300), "f32")
    null = node(case, "NullConstant", [])
    pair = [case.feed(x, "f32"), null]
    case.random.shuffle(pair)
    case.output(node(case, "GenericAccumulateGrad", pair), "f32", x)


@plus("GenericLen")
def generic_len(case):
    x = case.values(case.shape(low=1, limit=300), "f32")
    case.output(node(case, "GenericLen", [case.feed(x, "f32")]), "i64", np.array(len(x)))


@plus("GenericGetItem")
def generic_get_item(case):
    x = case.values(case.shape(low=1, limit=300, zero=0), "f32")
    at = case.integer(-len(x), len(x) - 1)
    case.output(node(case, "GenericGetItem", [case.feed(x, "f32"), number(case, at)]), "f32", x[at])


@plus("GenericIs")
def generic_is(case):
    a, b = case.values([], "bool"), case.values([], "bool")
    case.output(node(case, "GenericIs", [case.feed(a, "bool"), case.feed(b, "bool")]), "bool", np.array(a == b))


@plus("DynamicCast")
def dynamic_cast(case):
    kind = case.choice(["f16", "f64", "i32", "i64", "u8"])
    x, like = case.values(case.shape(limit=300), "f32", 0, 9), case.values([2], kind)
    number_of = node(case, "Dtype", [case.feed(like, kind)])
    case.output(node(case, "DynamicCast", [case.feed(x, "f32"), number_of]), kind, x)
    case.output(number_of, "i64", np.array(KINDS[kind][0]))
    if kind != "f16":
        case.within(0, 0)


@plus("Print")
def print_(case):
    x = case.values(case.shape(limit=20), "f32")
    y = case.node("Neg", [case.feed(x, "f32")])
    case.nodes.append(type(case.nodes[0])(op_type="Print", domain=PLUS, input=[y]))
    case.output(y, "f32", -x)

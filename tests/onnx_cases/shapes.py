"""Pad, Split, Resize, CenterCropPad, Col2Im, Scatter*, TopK, and moving elements of the types that opsets 19 to 25
brought."""
import numpy as np

from .common import TYPES, Narrow, bf16, info, node

# A few elements of each type that the operators which only move elements took up, and the opset that did it.
MOVED = {"f8e4m3fn": 19, "f8e5m2": 19, "f8e4m3fnuz": 19, "f8e5m2fnuz": 19, "u4": 21, "i4": 21, "f4e2m1": 23,
         "f8e8m0": 24, "u2": 25, "i2": 25}


def moving(suite, rng):
    for kind, since in MOVED.items():
        bits = rng.integers(0, 4 if kind in ("u2", "i2") else 16, (2, 3, 5))
        x = Narrow(kind, bits)
        for opset in sorted({since, max(since, 21), max(since, 23), 24, 25}):
            cases = {
                "Identity": ([x], bits, {}),
                "Reshape": ([x, np.array([5, -1])], bits.reshape(5, 6), {}),
                "Shape": ([x], None, {}),
                "Size": ([x], None, {}),
                "Pad": ([x, np.array([0, 1, 2, 0, 0, 1])], np.pad(bits, ((0, 0), (1, 0), (2, 1))), {}),
            }
            if opset >= 21:
                cases.update({
                    "Transpose": ([x], bits.transpose(2, 0, 1), {"perm": [2, 0, 1]}),
                    "Flatten": ([x], bits.reshape(6, 5), {"axis": 2}),
                    "Unsqueeze": ([x, np.array([0, -1])], bits[None, ..., None], {}),
                    "Squeeze": ([Narrow(kind, bits[:1]), np.array([0])], bits[0], {}),
                })
            for operator, (inputs, out, attributes) in cases.items():
                y = {"Shape": np.array([2, 3, 5]), "Size": np.array(30)}.get(operator)
                suite.op(opset, operator, kind, inputs, [Narrow(kind, out) if y is None else y], **attributes)
    x = np.zeros((2, 3, 5), np.float32)
    for opset in (19, 21, 23, 24, 25):
        suite.op(opset, "Shape", "part", [x], [np.array([3])], start=1, end=-1)
        suite.op(opset, "Reshape", "allowzero", [x[:0], np.array([3, 0, 5])], [x[:0].reshape(3, 0, 5)], allowzero=1)
        suite.op(opset, "Reshape", "zero", [x, np.array([0, -1])], [x.reshape(2, 15)])


def pad(suite, rng):
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    for opset in (18, 19, 21, 24):
        for mode in ("constant", "reflect", "edge") + (("wrap",) if opset >= 19 else ()):
            suite.op(opset, "Pad", mode, [x, np.array([0, 1, 2, 1, 0, 3])],
                     [np.pad(x, ((0, 1), (1, 0), (2, 3)), mode)], mode=mode)
            suite.op(opset, "Pad", f"{mode}_axes", [x, np.array([2, 0, 1, 1]), None, np.array([-1, 1])],
                     [np.pad(x, ((0, 0), (0, 1), (2, 1)), mode)], mode=mode)
        suite.op(opset, "Pad", "value", [x, np.array([1, 1]), np.float32(7), np.array([1], np.int32)],
                 [np.pad(x, ((0, 0), (1, 1), (0, 0)), constant_values=7)])
        suite.op(opset, "Pad", "crop", [x, np.array([-1, 1]), None, np.array([2])], [np.pad(x[:, :, 1:], ((0, 0), (0, 0), (0, 1)))])
        suite.op(opset, "Pad", "bool", [x > 0, np.array([1, 0]), np.bool_(True), np.array([0])],
                 [np.pad(x > 0, ((1, 0), (0, 0), (0, 0)), constant_values=True)])
    suite.op(19, "Pad", "wrap_far", [x, np.array([0, 0, 9, 0, 0, 7])], [np.pad(x, ((0, 0), (0, 0), (9, 7)), "wrap")],
             mode="wrap")


def split(suite, rng):
    x = rng.standard_normal((7, 4)).astype(np.float32)
    for label, pieces, axis, values in (("even", 2, 1, np.split(x, 2, 1)), ("uneven", 3, 0, [x[:3], x[3:6], x[6:]]),
                                        ("negative", 4, -1, np.split(x, 4, 1)), ("all", 7, 0, np.split(x, 7))):
        suite.op(18, "Split", label, [x], values, num_outputs=pieces, axis=axis)
    suite.op(18, "Split", "sizes", [x, np.array([1, 0, 6])], [x[:1], x[1:1], x[1:]])
    suite.op(18, "Split", "last_smaller", [x[:5]], [x[:3], x[3:5]], num_outputs=2)


def search_sorted(suite, rng):
    """Opset 28."""
    for label, dtype, shape in (("f32", np.float32, (7,)), ("i64", np.int64, (3, 4)), ("u8", np.uint8, ()),
                                ("f64", np.float64, (2, 0, 3)), ("f16", np.float16, (5, 2, 3))):
        x = np.sort(rng.integers(0, 9, 11)).astype(dtype)
        values, order = rng.integers(0, 12, shape).astype(dtype), rng.permutation(11)
        for side in ("left", "right"):
            y = np.searchsorted(x, values, side)
            suite.op(28, "Searchsorted", f"{label}_{side}", [x, values], [np.int64(y)], side=side)
            mixed = x[order]
            suite.op(28, "Searchsorted", f"{label}_{side}_sorter", [mixed, values, np.argsort(order)], [np.int64(y)],
                     open_dims=True, side=side)
    suite.op(28, "Searchsorted", "default", [np.array([1, 2, 2, 3]), np.array([2])], [np.array([1])])


# ---- Resize ----

def cubic(t, a=-0.75):
    t = abs(t)
    if t <= 1:
        return ((a + 2) * t - (a + 3)) * t * t + 1
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a if t < 2 else 0.0


def resize_axis(x, axis, size, scale, mode, coordinate, nearest="round_prefer_floor", antialias=False, exclude=False):
    """One axis after the other, by the formulas of the operator's page."""
    length = x.shape[axis]
    rows = []
    for i in range(size):
        real = size if scale is None else length * scale
        step = size / length if scale is None else scale
        if coordinate == "half_pixel":
            at = (i + 0.5) / step - 0.5
        elif coordinate == "asymmetric":
            at = i / step
        elif coordinate == "align_corners":
            at = i * (length - 1) / (real - 1) if real != 1 else 0
        elif coordinate == "pytorch_half_pixel":
            at = (i + 0.5) / step - 0.5 if real > 1 else 0
        else:
            adjustment = size / real
            at = length / 2 * (1 - adjustment) + (i + 0.5) / step - 0.5
        if mode == "nearest":
            pick = {"round_prefer_floor": np.ceil(at - 0.5), "round_prefer_ceil": np.floor(at + 0.5), "floor": np.floor(at),
                    "ceil": np.ceil(at)}[nearest]
            rows.append(np.take(x, int(np.clip(pick, 0, length - 1)), axis))
            continue
        stretch = min(step, 1.0) if antialias else 1.0
        reach = (1 if mode == "linear" else 2) / stretch
        taps = range(int(np.floor(at - reach)), int(np.ceil(at + reach)) + 1)
        weights = np.array([max(0.0, 1 - abs((k - at) * stretch)) if mode == "linear" else cubic((k - at) * stretch)
                            for k in taps])
        if exclude:
            weights *= [0 <= k < length for k in taps]
        weights /= weights.sum()
        rows.append(sum(w * np.take(x, int(np.clip(k, 0, length - 1)), axis) for w, k in zip(weights, taps) if w != 0))
    return np.stack(rows, axis)


def resize(suite, rng):
    x = rng.standard_normal((1, 2, 6, 9)).astype(np.float32)

    def expected(sizes, scales=(None, None), axes=(2, 3), **options):
        y = x.astype(np.float64)
        for axis, size, scale in zip(axes, sizes, scales):
            y = resize_axis(y, axis, size, scale, **options)
        return y.astype(np.float32)

    for opset in (18, 19):
        for mode in ("linear", "cubic"):
            for anti in (0, 1):
                for label, sizes in (("down", (3, 5)), ("up", (11, 12)), ("mixed", (4, 13))):
                    suite.op(opset, "Resize", f"{mode}_{label}_antialias{anti}", [x, None, None, np.array(sizes)],
                             [expected(sizes, mode=mode, coordinate="half_pixel", antialias=bool(anti))],
                             mode=mode, antialias=anti, axes=[2, 3])
        suite.op(opset, "Resize", "axes_swapped", [x, None, None, np.array([12, 3])],
                 [expected((12, 3), axes=(3, 2), mode="linear", coordinate="half_pixel")], mode="linear", axes=[3, 2])
        suite.op(opset, "Resize", "axes_scales", [x, None, np.array([0.5, 2], np.float32)],
                 [expected((3, 18), (0.5, 2.0), mode="nearest", coordinate="half_pixel")], axes=[2, 3])
        for policy, scale in (("not_larger", min(7 / 6, 15 / 9)), ("not_smaller", max(7 / 6, 15 / 9))):
            sizes = tuple(int(np.floor(scale * n + 0.5)) for n in (6, 9))
            suite.op(opset, "Resize", policy, [x, None, None, np.array([7, 15])],
                     [expected(sizes, (scale, scale), mode="linear", coordinate="half_pixel")], mode="linear",
                     axes=[2, 3], keep_aspect_ratio_policy=policy)
        for label, coordinate in (("corners", "align_corners"), ("asymmetric", "asymmetric"), ("pytorch", "pytorch_half_pixel")):
            suite.op(opset, "Resize", label, [x, None, None, np.array([1, 2, 9, 4])],
                     [expected((9, 4), mode="linear", coordinate=coordinate)], mode="linear",
                     coordinate_transformation_mode=coordinate)
        for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            suite.op(opset, "Resize", f"nearest_{nearest}", [x, None, None, np.array([1, 2, 9, 4])],
                     [expected((9, 4), mode="nearest", coordinate="half_pixel", nearest=nearest)], nearest_mode=nearest)
        suite.op(opset, "Resize", "exclude_outside", [x, None, None, np.array([1, 2, 8, 4])],
                 [expected((8, 4), mode="cubic", coordinate="half_pixel", exclude=True)], mode="cubic", exclude_outside=1)
    # Cropping: positions between the corners of a region, which is given for the axes alone.
    roi, y = np.array([0.2, 0.1, 0.9, 1.3], np.float32), np.zeros((1, 2, 4, 5), np.float32)
    for i, j in np.ndindex(4, 5):
        at = [float(roi[d]) * (n - 1) + k * (float(roi[d + 2]) - float(roi[d])) * (n - 1) / (size - 1)
              for d, (n, k, size) in enumerate(((6, i, 4), (9, j, 5)))]
        if any(not 0 <= p <= n - 1 for p, n in zip(at, (6, 9))):
            y[:, :, i, j] = 10
            continue
        r, c = int(at[0]), int(at[1])
        r2, c2 = min(r + 1, 5), min(c + 1, 8)
        y[:, :, i, j] = ((x[:, :, r, c] * (c + 1 - at[1]) + x[:, :, r, c2] * (at[1] - c)) * (r + 1 - at[0])
                         + (x[:, :, r2, c] * (c + 1 - at[1]) + x[:, :, r2, c2] * (at[1] - c)) * (at[0] - r))
    for opset in (18, 19):
        suite.op(opset, "Resize", "crop_axes", [x, roi, None, np.array([4, 5])], [y], mode="linear", axes=[2, 3],
                 coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=10.0)
        suite.op(opset, "Resize", "crop", [x, np.array([0, 0, *roi[:2], 1, 1, *roi[2:]], np.float32), None, np.array([1, 2, 4, 5])],
                 [y], mode="linear", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=10.0)
    scales = (0.7, 0.7)
    sizes = (4, 6)
    suite.op(19, "Resize", "half_pixel_symmetric", [x, None, np.array([1, 1, *scales], np.float32)],
             [expected(sizes, [float(np.float32(s)) for s in scales], mode="linear", coordinate="half_pixel_symmetric")],
             mode="linear", coordinate_transformation_mode="half_pixel_symmetric")
    suite.op(19, "Resize", "half_pixel_symmetric_up", [x, None, np.array([1, 1, 1.3, 2.1], np.float32)],
             [expected((7, 18), [float(np.float32(1.3)), float(np.float32(2.1))], mode="linear",
                       coordinate="half_pixel_symmetric")],
             mode="linear", coordinate_transformation_mode="half_pixel_symmetric")


def crop_and_scatter(suite, rng):
    x = rng.standard_normal((20, 8, 3)).astype(np.float32)

    def centered(x, axis, size):
        n = x.shape[axis]
        if size <= n:
            start = (n - size) // 2
            return np.take(x, np.arange(start, start + size), axis)
        widths = [(0, 0)] * x.ndim
        widths[axis] = ((size - n) // 2, size - n - (size - n) // 2)
        return np.pad(x, widths)

    for label, shape in (("crop", (10, 7, 3)), ("pad", (21, 11, 6)), ("both", (5, 13, 3))):
        y = x
        for axis, size in enumerate(shape):
            y = centered(y, axis, size)
        suite.op(18, "CenterCropPad", label, [x, np.array(shape)], [y])
    suite.op(18, "CenterCropPad", "axes", [x, np.array([10, 9])], [centered(centered(x, 1, 10), 0, 9)], axes=[1, -3])

    data = rng.standard_normal((3, 4)).astype(np.float32)
    rows = np.array([[0, 1, 1, 2], [1, 1, 0, 0]])
    for reduction, combine in (("add", np.add.at), ("mul", np.multiply.at), ("max", np.maximum.at), ("min", np.minimum.at)):
        updates = rng.standard_normal(rows.shape).astype(np.float32)
        y = data.copy()
        combine(y, (rows, np.arange(4)[None]), updates)
        suite.op(18, "ScatterElements", reduction, [data, rows, updates], [y], axis=0, reduction=reduction)
        points = np.array([[0], [2], [0]])
        updates = rng.standard_normal((3, 4)).astype(np.float32)
        y = data.copy()
        combine(y, (points[:, 0],), updates)
        suite.op(18, "ScatterND", reduction, [data, points, updates], [y], reduction=reduction)

    image, block = (5, 6), (2, 3)
    for label, strides, dilations, pads in (("plain", (1, 1), (1, 1), (0, 0, 0, 0)), ("strides", (2, 1), (1, 1), (0, 0, 0, 0)),
                                            ("pads", (1, 1), (1, 1), (1, 0, 1, 2)), ("dilations", (1, 1), (2, 1), (0, 1, 0, 1))):
        places = [(image[i] + pads[i] + pads[i + 2] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in (0, 1)]
        columns = rng.standard_normal((2, 3 * 6, places[0] * places[1])).astype(np.float32)
        y = np.zeros((2, 3, image[0] + pads[0] + pads[2], image[1] + pads[1] + pads[3]), np.float32)
        parts = columns.reshape(2, 3, *block, *places)
        for r in range(block[0]):
            for c in range(block[1]):
                for i in range(places[0]):
                    for j in range(places[1]):
                        y[:, :, i * strides[0] + r * dilations[0], j * strides[1] + c * dilations[1]] += parts[:, :, r, c, i, j]
        y = y[:, :, pads[0]:pads[0] + image[0], pads[1]:pads[1] + image[1]]
        suite.op(18, "Col2Im", label, [columns, np.array(image), np.array(block)], [y], strides=list(strides),
                 dilations=list(dilations), pads=list(pads))


def order(suite, rng):
    """TopK takes all numbers since opset 24, SplitToSequence too."""
    for kind in (np.uint8, np.int16, np.int32, np.uint64, np.float16, np.float64):
        x = rng.permutation(20).reshape(4, 5).astype(kind)
        at = np.argsort(-x.astype(np.float64), 1, "stable")[:, :3]
        suite.op(24, "TopK", np.dtype(kind).name, [x, np.array([3])], [np.take_along_axis(x, at, 1), at.astype(np.int64)])
        at = np.argsort(x.astype(np.float64), 0, "stable")[:2]
        suite.op(24, "TopK", f"{np.dtype(kind).name}_smallest", [x, np.array([2])],
                 [np.take_along_axis(x, at, 0), at.astype(np.int64)], axis=0, largest=0)
    x = bf16(np.array([3.0, -1.0, 7.0, 7.0]))
    suite.op(24, "TopK", "bf16", [x, np.array([2])], [Narrow("bf16", x.bits[[2, 3]]), np.array([2, 3])])
    x = rng.standard_normal((5, 2)).astype(np.float32)
    for label, value, at, expected in (("f32", x, 1, x[2:4]), ("bf16", Narrow("bf16", bf16(x).bits), 2, Narrow("bf16", bf16(x).bits[4:])),
                                       ("i64", np.arange(6), 0, np.arange(2))):
        suite.model(f"splittosequence_24_{label}",
                    [node("SplitToSequence", ["x0", "size"], ["s"], axis=0), node("SequenceAt", ["s", "at"], ["y0"])],
                    [value], [expected], 24, [("size", np.array(2)), ("at", np.array(at))])


def make(suite):
    rng = np.random.default_rng(18)
    moving(suite, rng)
    pad(suite, rng)
    split(suite, rng)
    resize(suite, rng)
    crop_and_scatter(suite, rng)
    order(suite, rng)
    search_sorted(suite, rng)

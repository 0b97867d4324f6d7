"""Convolutions, pooling, sampling and regions of opsets 18 to 22."""
import itertools

import numpy as np

from .common import bf16, decode


def windows(x, kernel, strides, pads, dilations, ceil=False, count=None):
    """For each output position its place and the values of its window, NaN where it is outside x."""
    n = len(kernel)
    out = []
    for i in range(n):
        reach = (kernel[i] - 1) * dilations[i] + 1
        room = x.shape[2 + i] + pads[i] + pads[i + n] - reach
        size = (-(-room // strides[i]) if ceil else room // strides[i]) + 1
        # A window must not begin in the padding after x.
        if ceil and (size - 1) * strides[i] >= x.shape[2 + i] + pads[i]:
            size -= 1
        out.append(size)
    for place in itertools.product(*map(range, out)):
        values, inside = [], 0
        for tap in itertools.product(*map(range, kernel)):
            at = [place[i] * strides[i] + tap[i] * dilations[i] - pads[i] for i in range(n)]
            inside += all(at[i] < x.shape[2 + i] + pads[i + n] for i in range(n))
            ok = all(0 <= at[i] < x.shape[2 + i] for i in range(n))
            values.append(x[(slice(None), slice(None), *at)] if ok else np.full(x.shape[:2], np.nan))
        yield out, place, np.stack(values, -1), inside


def pool(x, f, kernel, strides=None, pads=None, dilations=None, ceil=False):
    n = len(kernel)
    y = None
    for out, place, values, inside in windows(x.astype(np.float64), kernel, strides or [1] * n, pads or [0] * 2 * n,
                                              dilations or [1] * n, ceil):
        if y is None:
            y = np.zeros((*x.shape[:2], *out))
        y[(slice(None), slice(None), *place)] = f(values, inside)
    return y


def mean(values, inside):
    return np.nanmean(values, -1)


def mean_with_pads(values, inside):
    return np.nansum(values, -1) / inside


def pooling(suite, rng):
    x1, x2, x3 = (rng.standard_normal(s).astype(np.float32) for s in ((1, 2, 9), (1, 3, 8, 9), (1, 2, 5, 6, 5)))
    settings = {
        "1d": (x1, dict(kernel=[2])), "1d_strides": (x1, dict(kernel=[3], strides=[2])),
        "2d_dilations": (x2, dict(kernel=[2, 3], dilations=[2, 2])),
        "2d_pads": (x2, dict(kernel=[3, 3], pads=[1, 2, 2, 1])),
        "2d_dilations_pads": (x2, dict(kernel=[2, 2], dilations=[3, 2], pads=[1, 1, 1, 1], strides=[2, 1])),
        "2d_ceil": (x2, dict(kernel=[3, 3], strides=[2, 2], ceil=True)),
        "2d_ceil_pads": (x2, dict(kernel=[3, 3], strides=[3, 3], pads=[1, 1, 1, 1], ceil=True)),
        "2d_ceil_last_in_pads": (x2[:, :, :4, :4], dict(kernel=[1, 1], strides=[2, 2], pads=[0, 0, 1, 1], ceil=True)),
        "3d": (x3, dict(kernel=[2, 2, 2], strides=[1, 2, 1], dilations=[2, 1, 2])),
        "3d_ceil": (x3, dict(kernel=[3, 2, 2], strides=[2, 3, 2], ceil=True)),
    }
    for label, (x, s) in settings.items():
        attributes = {"kernel_shape": s["kernel"], **{k: s[k] for k in ("strides", "pads", "dilations") if k in s},
                      "ceil_mode": int(s.get("ceil", False))}
        for opset in (19, 22):
            suite.op(opset, "AveragePool", label, [x], [pool(x, mean, **s).astype(np.float32)], **attributes)
            suite.op(opset, "AveragePool", f"{label}_count_pads", [x], [pool(x, mean_with_pads, **s).astype(np.float32)],
                     count_include_pad=1, **attributes)
        for opset in (18, 22):
            for p in (1, 2, 3):
                y = pool(x, lambda v, _: np.nansum(np.abs(v) ** p, -1) ** (1 / p), **s)
                suite.op(opset, "LpPool", f"{label}_p{p}", [x], [y.astype(np.float32)], p=p, **attributes)
        y = pool(x, lambda v, _: np.nanmax(v, -1), **s)
        suite.op(22, "MaxPool", label, [x], [y.astype(np.float32)], **attributes)
        suite.op(22, "MaxPool", f"{label}_f64", [x.astype(np.float64)], [y], **attributes)
    half = bf16(x2)
    wide = decode("bf16", half.bits)
    suite.op(22, "MaxPool", "bf16", [half], [bf16(pool(wide, lambda v, _: np.nanmax(v, -1), [2, 2]))], kernel_shape=[2, 2])
    suite.op(22, "AveragePool", "bf16", [half], [bf16(pool(wide, mean, [2, 2]))], kernel_shape=[2, 2])
    suite.op(22, "LpPool", "bf16", [half], [bf16(pool(wide, lambda v, _: np.sqrt(np.nansum(v * v, -1)), [2, 2]))], kernel_shape=[2, 2])
    for dtype in (np.float32, np.float64, np.float16):
        v = x2.astype(dtype)
        name = np.dtype(dtype).name
        suite.op(22, "GlobalAveragePool", name, [v], [v.astype(np.float64).mean((2, 3), keepdims=True).astype(dtype)])
        suite.op(22, "GlobalMaxPool", name, [v], [v.max((2, 3), keepdims=True)])
        suite.op(22, "GlobalLpPool", name, [v], [np.sqrt((v.astype(np.float64) ** 2).sum((2, 3), keepdims=True)).astype(dtype)])
    same(suite, rng)


def same(suite, rng):
    """auto_pad where sizes are known only when the model runs."""
    for size in ((7, 9), (8, 5), (1, 2)):
        x = rng.standard_normal((2, 2, *size)).astype(np.float32)
        w = rng.standard_normal((3, 2, 3, 2)).astype(np.float32)
        for mode in ("SAME_UPPER", "SAME_LOWER"):
            for strides in ([2, 3], [1, 2]):
                kernel = [3, 2]
                total = [max((-(-size[i] // strides[i]) - 1) * strides[i] + kernel[i] - size[i], 0) for i in (0, 1)]
                less = [t // 2 for t in total]
                more = [t - l for t, l in zip(total, less)]
                pads = less + more if mode == "SAME_UPPER" else more + less
                label = f"{mode.lower()}_{size[0]}x{size[1]}_{strides[0]}{strides[1]}"
                options = dict(kernel=kernel, strides=strides, pads=pads)
                attributes = dict(auto_pad=mode, strides=strides)
                y = pool(x, mean, **options).astype(np.float32)
                counted = pool(x, mean_with_pads, **options).astype(np.float32)
                best = pool(x, lambda v, _: np.nanmax(v, -1), **options).astype(np.float32)
                norm = pool(x, lambda v, _: np.sqrt(np.nansum(v * v, -1)), **options).astype(np.float32)
                conv = convolve(x, w, strides=strides, pads=pads).astype(np.float32)
                for open_dims in (False, True):
                    suffix = label + ("_open" if open_dims else "")
                    suite.op(22, "AveragePool", suffix, [x], [y], open_dims=open_dims, kernel_shape=kernel, **attributes)
                    suite.op(22, "AveragePool", f"{suffix}_count_pads", [x], [counted], open_dims=open_dims,
                             kernel_shape=kernel, count_include_pad=1, **attributes)
                    suite.op(22, "MaxPool", suffix, [x], [best], open_dims=open_dims, kernel_shape=kernel, **attributes)
                    suite.op(22, "LpPool", suffix, [x], [norm], open_dims=open_dims, kernel_shape=kernel, **attributes)
                    suite.op(22, "Conv", suffix, [x, w], [conv], constant=(1,), open_dims=open_dims, **attributes)
                bytes_x = rng.integers(0, 256, (1, 2, *size)).astype(np.uint8)
                bytes_w = rng.integers(0, 256, (3, 2, 3, 2)).astype(np.uint8)
                exact = convolve(bytes_x.astype(np.float64) - 5, bytes_w.astype(np.float64) - 9, strides=strides, pads=pads)
                suite.op(10, "ConvInteger", f"{label}_open", [bytes_x, bytes_w, np.uint8(5), np.uint8(9)],
                         [exact.astype(np.int32)], constant=(1,), open_dims=True, **attributes)


def convolve(x, w, b=None, strides=None, pads=None, dilations=None, group=1):
    n = w.ndim - 2
    strides, pads, dilations = strides or [1] * n, pads or [0] * 2 * n, dilations or [1] * n
    outputs, channels = w.shape[0] // group, w.shape[1]
    y = None
    for out, place, values, _ in windows(x.astype(np.float64), w.shape[2:], strides, pads, dilations):
        if y is None:
            y = np.zeros((x.shape[0], w.shape[0], *out))
        values = np.nan_to_num(values)
        for g in range(group):
            part = np.einsum("nck,mck->nm", values[:, g * channels:(g + 1) * channels],
                             w[g * outputs:(g + 1) * outputs].reshape(outputs, channels, -1).astype(np.float64))
            y[(slice(None), slice(g * outputs, (g + 1) * outputs), *place)] = part
    return y + (0 if b is None else b.reshape(-1, *[1] * n))


def convolutions(suite, rng):
    x, w = rng.standard_normal((2, 4, 7, 8)), rng.standard_normal((6, 2, 3, 3))
    b = rng.standard_normal(6)
    options = dict(strides=[2, 1], pads=[1, 0, 1, 2], dilations=[1, 2], group=2)
    for dtype in (np.float16, np.float32, np.float64):
        v = [t.astype(dtype) for t in (x, w, b)]
        suite.op(22, "Conv", np.dtype(dtype).name, v, [convolve(*v, **options).astype(dtype)], **options)
    v = [bf16(t) for t in (x, w, b)]
    exact = convolve(*[decode("bf16", t.bits) for t in v], **options)
    suite.op(22, "Conv", "bf16", v, [bf16(exact)], **options)
    # The adjoint: each input position contributes to the outputs under its window.
    f = rng.standard_normal((4, 3, 3, 2))
    y = np.zeros((2, 6, 7 * 2 + 1, 8 + 1))
    for g in range(2):
        for i, j, r, c in itertools.product(range(7), range(8), range(3), range(2)):
            y[:, g * 3:g * 3 + 3, i * 2 + r, j + c] += x[:, g * 2:g * 2 + 2, i, j] @ f[g * 2:g * 2 + 2, :, r, c]
    y += b[:, None, None]
    for dtype in (np.float32, np.float64):
        suite.op(22, "ConvTranspose", np.dtype(dtype).name, [t.astype(dtype) for t in (x, f, b)], [y.astype(dtype)],
                 strides=[2, 1], group=2)
    suite.op(22, "ConvTranspose", "pads", [t.astype(np.float32) for t in (x, f, b)], [y[:, :, 1:-2, 1:].astype(np.float32)],
             strides=[2, 1], group=2, pads=[1, 1, 2, 0])


def bilinear(plane, y, x):
    """Zero outside."""
    top, left = int(np.floor(y)), int(np.floor(x))
    total = 0.0
    for r, c in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
        if 0 <= r < plane.shape[0] and 0 <= c < plane.shape[1]:
            total += plane[r, c] * (1 - abs(y - r)) * (1 - abs(x - c))
    return total


def deform(x, w, offset, b, mask, strides, pads, dilations, group, offset_group):
    n, channels, height, width = x.shape
    kh, kw = w.shape[2:]
    oh, ow = offset.shape[2:]
    shifts = offset.reshape(n, offset_group, kh, kw, 2, oh, ow)
    factors = np.ones((n, offset_group, kh, kw, oh, ow)) if mask is None else mask.reshape(n, offset_group, kh, kw, oh, ow)
    columns = np.zeros((n, channels, kh, kw, oh, ow))
    for i, c, r, s, p, q in np.ndindex(columns.shape):
        g = c // (channels // offset_group)
        dy, dx = shifts[i, g, r, s, :, p, q]
        columns[i, c, r, s, p, q] = factors[i, g, r, s, p, q] * bilinear(
            x[i, c], p * strides[0] - pads[0] + r * dilations[0] + dy, q * strides[1] - pads[1] + s * dilations[1] + dx)
    per, outputs = channels // group, w.shape[0] // group
    y = np.concatenate([np.einsum("nckspq,mcks->nmpq", columns[:, g * per:(g + 1) * per], w[g * outputs:(g + 1) * outputs])
                        for g in range(group)], 1)
    return y + (0 if b is None else b[:, None, None])


def deformable(suite, rng):
    settings = {
        "plain": dict(), "strides": dict(strides=[2, 1]), "pads": dict(pads=[1, 0, 2, 1]),
        "dilations": dict(dilations=[2, 1], pads=[1, 1, 1, 1]), "groups": dict(group=2), "offset_groups": dict(offset_group=2),
        "everything": dict(strides=[1, 2], pads=[1, 1, 1, 1], dilations=[1, 2], group=2, offset_group=4),
    }
    for label, s in settings.items():
        full = {"strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1], "group": 1, "offset_group": 1, **s}
        x = rng.standard_normal((2, 4, 6, 7))
        w = rng.standard_normal((6, 4 // full["group"], 3, 2))
        out = [(x.shape[2 + i] + full["pads"][i] + full["pads"][i + 2] - (w.shape[2 + i] - 1) * full["dilations"][i] - 1)
               // full["strides"][i] + 1 for i in (0, 1)]
        offset = rng.standard_normal((2, full["offset_group"] * 12, *out)) * 1.5
        mask, b = rng.random((2, full["offset_group"] * 6, *out)), rng.standard_normal(6)
        attributes = {**s, "kernel_shape": [3, 2]}
        for opset in (19, 22):
            for suffix, given in (("", (None, None)), ("_mask", (None, mask)), ("_bias_mask", (b, mask))):
                y = deform(x, w, offset, *given, **full)
                inputs = [None if v is None else v.astype(np.float32) for v in (x, w, offset, *given)]
                while inputs[-1] is None:
                    inputs.pop()
                suite.op(opset, "DeformConv", label + suffix, inputs, [y.astype(np.float32)], **attributes)
        suite.op(22, "DeformConv", f"{label}_f64", [x, w, offset, b, mask], [deform(x, w, offset, b, mask, **full)], **attributes)
    half = [v.astype(np.float16) for v in (x, w, offset, b, mask)]
    suite.op(22, "DeformConv", "f16", half, [deform(*[v.astype(np.float64) for v in half], **full).astype(np.float16)], **attributes)


def affine(suite, rng):
    for label, size in (("2d", (2, 3, 5, 6)), ("3d", (2, 3, 4, 5, 3)), ("one", (1, 1, 1, 4))):
        n = len(size) - 2
        for corners in (0, 1):
            axes = []
            for s in size[2:]:
                i = np.arange(s)
                axes.append((2 * i - (s - 1)) / (max(s - 1, 1) if corners else s))
            mesh = np.meshgrid(*axes, indexing="ij")
            points = np.stack([*mesh[::-1], np.ones_like(mesh[0])], -1)
            theta = rng.standard_normal((size[0], n, n + 1))
            y = np.einsum("...k,nik->n...i", points, theta)
            for dtype in (np.float32, np.float64):
                for constant in ((), (1,)):
                    suite.op(20, "AffineGrid", f"{label}_{np.dtype(dtype).name}_corners{corners}{'_constant' * bool(constant)}",
                             [theta.astype(dtype), np.array(size)], [y.astype(dtype)], constant=constant, align_corners=corners)
    suite.op(20, "AffineGrid", "open", [theta.astype(np.float32), np.array(size)], [y.astype(np.float32)], align_corners=1)


# ---- GridSample ----

def reflect(v, low, high):
    if high <= low:
        return low
    v = (v - low) % (2 * (high - low))
    return low + (v if v <= high - low else 2 * (high - low) - v)


def sample(x, grid, mode, padding, corners):
    n = x.ndim - 2
    y = np.zeros((*x.shape[:2], *grid.shape[1:-1]))

    def fetch(i, at):
        where = []
        for d, (p, size) in enumerate(zip(at, x.shape[2:])):
            if padding == "border":
                p = min(max(p, 0), size - 1)
            elif padding == "reflection":
                p = reflect(p, 0, size - 1) if corners else min(max(reflect(p, -0.5, size - 0.5), 0), size - 1)
            if not 0 <= p < size:
                return np.zeros(x.shape[1])
            where.append(int(p))
        return x[(i, slice(None), *where)]

    def cubic(t, a=-0.75):
        t = abs(t)
        if t <= 1:
            return ((a + 2) * t - (a + 3)) * t * t + 1
        return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a if t < 2 else 0.0

    for place in np.ndindex(grid.shape[0], *grid.shape[1:-1]):
        point = []
        for d, size in enumerate(x.shape[2:]):
            g = grid[place][n - 1 - d]
            p = (g + 1) / 2 * (size - 1) if corners else ((g + 1) * size - 1) / 2
            if mode == "nearest":
                p = np.rint(p)
            low, high = (0, size - 1) if corners else (-0.5, size - 0.5)
            # With cubic interpolation each neighbor is clamped (fetch), as in PyTorch, and the position is not.
            if padding == "border" and mode != "cubic" and not low <= p <= high:
                p = min(max(p, 0), size - 1)
            elif padding == "reflection" and not low <= p <= high:
                p = reflect(p, low, high)
            point.append(p)
        total = np.zeros(x.shape[1])
        if mode == "nearest":
            total = fetch(place[0], [np.rint(p) for p in point])
        else:
            taps = (0, 1) if mode == "linear" else (-1, 0, 1, 2)
            for steps in itertools.product(taps, repeat=n):
                at = [np.floor(p) + s for p, s in zip(point, steps)]
                weight = np.prod([(1 - abs(p - a)) if mode == "linear" else cubic(p - a) for p, a in zip(point, at)])
                total = total + weight * fetch(place[0], at)
        y[(place[0], slice(None), *place[1:])] = total
    return y


def sampling(suite, rng):
    x2, x3 = rng.standard_normal((2, 2, 5, 6)), rng.standard_normal((1, 2, 3, 4, 5))
    g2, g3 = rng.uniform(-1.3, 1.3, (2, 4, 3, 2)), rng.uniform(-1.3, 1.3, (1, 2, 3, 4, 3))
    for opset in (20, 22):
        for label, x, grid, modes in (("2d", x2, g2, ("linear", "nearest", "cubic")), ("3d", x3, g3, ("linear", "nearest"))):
            for mode, padding, corners in itertools.product(modes, ("zeros", "border", "reflection"), (0, 1)):
                v = [t.astype(np.float32) for t in (x, grid)]
                y = sample(*[t.astype(np.float64) for t in v], mode, padding, corners)
                suite.op(opset, "GridSample", f"{label}_{mode}_{padding}_{corners}", v, [y.astype(np.float32)], mode=mode,
                         padding_mode=padding, align_corners=corners)
    suite.op(22, "GridSample", "f64", [x2, g2], [sample(x2, g2, "linear", "zeros", 0)])


def regions(suite, rng):
    x = rng.standard_normal((2, 3, 8, 9)).astype(np.float32)
    rois = np.array([[0, 1, 1, 5, 6], [1, 0, 2, 8, 7], [0, 3, 3, 3, 3]], np.float32)
    y = np.zeros((3, 3, 2, 3), np.float32)
    for k, (batch, x1, y1, x2, y2) in enumerate(rois):
        high, wide = max(y2 - y1 + 1, 1), max(x2 - x1 + 1, 1)
        for i, j in np.ndindex(2, 3):
            r = slice(int(np.clip(y1 + np.floor(i * high / 2), 0, 8)), int(np.clip(y1 + np.ceil((i + 1) * high / 2), 0, 8)))
            c = slice(int(np.clip(x1 + np.floor(j * wide / 3), 0, 9)), int(np.clip(x1 + np.ceil((j + 1) * wide / 3), 0, 9)))
            part = x[int(batch), :, r, c].reshape(3, -1)
            y[k, :, i, j] = part.max(1) if part.size else 0
    for dtype in (np.float32, np.float64, np.float16):
        suite.op(22, "MaxRoiPool", np.dtype(dtype).name, [x.astype(dtype), rois.astype(dtype)], [y.astype(dtype)], pooled_shape=[2, 3])

    boxes, batches = np.array([[0.5, 1, 5.2, 6.1], [1, 0, 7.7, 6]], np.float32), np.array([1, 0])
    for mode in ("avg", "max"):
        for coordinate, shift in (("half_pixel", 0.5), ("output_half_pixel", 0.0)):
            y = np.zeros((2, 3, 2, 2))
            for k, (x1, y1, x2, y2) in enumerate(boxes.astype(np.float64) - shift):
                high, wide = (y2 - y1) / 2, (x2 - x1) / 2
                if not shift:
                    high, wide = max(y2 - y1, 1) / 2, max(x2 - x1, 1) / 2
                for c, i, j in np.ndindex(3, 2, 2):
                    samples = []
                    for a, b in np.ndindex(2, 2):
                        v, h = y1 + (i + (a + 0.5) / 2) * high, x1 + (j + (b + 0.5) / 2) * wide
                        plane = x[batches[k], c].astype(np.float64)
                        if v < -1 or v > 8 or h < -1 or h > 9:
                            samples.append([0.0])
                            continue
                        v, h = max(v, 0), max(h, 0)
                        r, s = min(int(v), 7), min(int(h), 8)
                        v, h = (v if r < 7 else 7.0), (h if s < 8 else 8.0)
                        r2, s2 = min(r + 1, 7), min(s + 1, 8)
                        samples.append([plane[r, s] * (1 - v + r) * (1 - h + s), plane[r, s2] * (1 - v + r) * (h - s),
                                        plane[r2, s] * (v - r) * (1 - h + s), plane[r2, s2] * (v - r) * (h - s)])
                    y[k, c, i, j] = np.mean([sum(t) for t in samples]) if mode == "avg" else max(max(t) for t in samples)
            suite.op(22, "RoiAlign", f"{mode}_{coordinate}", [x, boxes, batches], [y.astype(np.float32)], mode=mode,
                     coordinate_transformation_mode=coordinate, output_height=2, output_width=2, sampling_ratio=2)
    pooled = pool(x, lambda v, _: np.nanmax(v, -1), [2, 2], [2, 2])
    at = np.zeros(pooled.shape, np.int64)
    spread = np.zeros((2, 3, 8, 8))
    for n, c, i, j in np.ndindex(pooled.shape):
        best = np.argmax(x[n, c, 2 * i:2 * i + 2, 2 * j:2 * j + 2])
        r, s = 2 * i + best // 2, 2 * j + best % 2
        at[n, c, i, j] = ((n * 3 + c) * 8 + r) * 8 + s
        spread[n, c, r, s] = pooled[n, c, i, j]
    for dtype in (np.float32, np.float64, np.float16):
        v = pooled.astype(np.float32).astype(dtype)
        suite.op(22, "MaxUnpool", np.dtype(dtype).name, [v, at], [spread.astype(np.float32).astype(dtype)], kernel_shape=[2, 2], strides=[2, 2])


def make(suite):
    rng = np.random.default_rng(19)
    pooling(suite, rng)
    convolutions(suite, rng)
    deformable(suite, rng)
    affine(suite, rng)
    sampling(suite, rng)
    regions(suite, rng)

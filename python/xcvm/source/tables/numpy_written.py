"""Functions of NumPy that are written in terms of others. The interpreter compiles them as it does users' source, so they use what it
knows: no sizes are assumed to be known, but ranks, axes and element types are. Each computes what NumPy's function of that name
does; arguments that are not there are refused by name."""

from __future__ import annotations

import numpy as np

from . import written

# ---- Element by element ----


def _float(x):
    """Return an array of floats, of which NumPy makes f64 if they are integers."""
    x = np.asarray(x)
    return x if x.dtype.kind == "f" else x.astype(np.float64)


@written("numpy.log1p")
def log1p(x):
    x = _float(x)
    u = 1 + x
    # W. Kahan: what rounding takes from 1 + x, the quotient gives back. No quotient divides by 0, as its gradient would be NaN.
    plain = np.logical_or(u == 1, np.isinf(x))
    return np.where(plain, x, np.log(u) * x / np.where(plain, 1, u - 1)).astype(x.dtype)


@written("numpy.expm1")
def expm1(x):
    x = _float(x)
    u = np.exp(x)
    less = u - 1
    outer = np.logical_or(less == -1, np.isinf(u))
    inner = np.where(np.logical_or(u == 1, outer), 2, u)
    return np.where(u == 1, x, np.where(outer, less, less * x / np.log(inner))).astype(x.dtype)


@written("numpy.exp2")
def exp2(x):
    return np.power(_float(2), _float(x)).astype(_float(x).dtype)


@written("numpy.log2")
def log2(x):
    return np.log(_float(x)) * 1.4426950408889634


@written("numpy.log10")
def log10(x):
    return np.log(_float(x)) * 0.4342944819032518


@written("numpy.logaddexp")
def logaddexp(x1, x2):
    x1, x2 = np.asarray(x1), np.asarray(x2)
    top = np.maximum(x1, x2)
    # Equal infinities have no difference.
    return np.where(x1 == x2, top + 0.6931471805599453, top + log1p(np.exp(-np.abs(x1 - x2))))


@written("numpy.isfinite")
def isfinite(x):
    x = np.asarray(x)
    if x.dtype.kind != "f":
        return x == x
    return np.logical_not(np.logical_or(np.isnan(x), np.isinf(x)))


@written("numpy.isposinf")
def isposinf(x):
    return np.logical_and(np.isinf(_float(x)), _float(x) > 0)


@written("numpy.isneginf")
def isneginf(x):
    return np.logical_and(np.isinf(_float(x)), _float(x) < 0)


@written("numpy.nan_to_num")
def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    x = np.asarray(x)
    if x.dtype.kind != "f":
        return x.copy()
    limits = np.finfo(x.dtype)
    most = float(limits.max) if posinf is None else posinf
    least = float(limits.min) if neginf is None else neginf
    y = np.where(np.isnan(x), nan, x)
    y = np.where(isposinf(x), most, y)
    return np.where(isneginf(x), least, y).astype(x.dtype)


@written("numpy.signbit")
def signbit(x):
    x = _float(x)
    return np.logical_or(x < 0, np.logical_and(x == 0, np.reciprocal(x) < 0))


@written("numpy.copysign")
def copysign(x1, x2):
    size = np.abs(_float(x1))
    return np.where(signbit(x2), -size, size)


@written("numpy.arctan2")
def arctan2(x1, x2):
    y, x = _float(x1), _float(x2)
    both = np.logical_and(np.isinf(y), np.isinf(x))
    y, x = np.where(both, np.sign(y), y), np.where(both, np.sign(x), x)
    turn = np.arctan(y / np.where(x == 0, 1, x))
    turn = np.where(x < 0, turn + copysign(3.141592653589793, y), turn)
    turn = np.where(np.logical_and(x == 0, np.abs(y) > 0), copysign(1.5707963267948966, y), turn)
    zero = np.logical_and(x == 0, y == 0)
    turn = np.where(zero, np.where(signbit(x), copysign(3.141592653589793, y), y), turn)
    return turn.astype((y + x).dtype)


@written("numpy.hypot")
def hypot(x1, x2):
    a, b = np.abs(_float(x1)), np.abs(_float(x2))
    top = np.maximum(a, b)
    low = np.minimum(a, b)
    rest = low / np.where(top == 0, 1, top)
    infinite = np.logical_or(np.isinf(a), np.isinf(b))
    return np.where(infinite, np.inf, top * np.sqrt(1 + rest * rest)).astype((a + b).dtype)


@written("numpy.fmax")
def fmax(x1, x2):
    x1, x2 = np.asarray(x1), np.asarray(x2)
    return np.where(x1 != x1, x2, np.where(x2 != x2, x1, np.maximum(x1, x2)))


@written("numpy.fmin")
def fmin(x1, x2):
    x1, x2 = np.asarray(x1), np.asarray(x2)
    return np.where(x1 != x1, x2, np.where(x2 != x2, x1, np.minimum(x1, x2)))


@written("numpy.heaviside")
def heaviside(x1, x2):
    x = _float(x1)
    return np.where(x < 0, 0, np.where(x == 0, x2, np.where(x > 0, 1, x))).astype(x.dtype)


@written("numpy.deg2rad", "numpy.radians")
def deg2rad(x):
    return _float(x) * 0.017453292519943295


@written("numpy.rad2deg", "numpy.degrees")
def rad2deg(x):
    return _float(x) * 57.29577951308232


@written("numpy.cbrt")
def cbrt(x):
    x = _float(x)
    return np.sign(x) * np.abs(x) ** (1 / 3)


@written("numpy.trunc", "numpy.fix")
def trunc(x):
    x = _float(x)
    return np.sign(x) * np.floor(np.abs(x))


@written("numpy.round", "numpy.around", "numpy.round_", method="round")
def round_(a, decimals=0):
    a = np.asarray(a)
    if decimals == 0 or a.dtype.kind != "f":
        return np.rint(a)
    if decimals > 0:
        return np.rint(a * 10.0**decimals) / 10.0**decimals
    return np.rint(a / 10.0**-decimals) * 10.0**-decimals


@written("numpy.sinc")
def sinc(x):
    x = _float(x)
    y = x * 3.141592653589793
    return np.where(x == 0, 1, np.sin(y) / np.where(x == 0, 1, y)).astype(x.dtype)


@written("numpy.float_power")
def float_power(x1, x2):
    return np.asarray(x1).astype(np.float64) ** np.asarray(x2).astype(np.float64)


@written("numpy.divmod")
def divmod_(x1, x2):
    return np.floor_divide(x1, x2), np.remainder(x1, x2)


@written("numpy.positive")
def positive(x):
    return np.asarray(x).copy()


@written("numpy.isclose")
def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    a, b = np.asarray(a).astype(np.float64), np.asarray(b).astype(np.float64)
    close = np.logical_and(np.abs(a - b) <= atol + rtol * np.abs(b), np.logical_not(np.isinf(b)))
    close = np.logical_or(close, a == b)
    return np.logical_or(close, np.logical_and(np.isnan(a), np.isnan(b))) if equal_nan else close


@written("numpy.allclose")
def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    return bool(np.all(isclose(a, b, rtol, atol, equal_nan)))


@written("numpy.array_equal")
def array_equal(a1, a2, equal_nan=False):
    a1, a2 = np.asarray(a1), np.asarray(a2)
    if a1.ndim != a2.ndim or a1.shape != a2.shape:
        return False
    same = a1 == a2
    if equal_nan:
        same = np.logical_or(same, np.logical_and(a1 != a1, a2 != a2))
    return bool(np.all(same))


@written("numpy.isin")
def isin(element, test_elements, assume_unique=False, invert=False):
    element = np.asarray(element)
    found = np.any(element[..., None] == np.ravel(test_elements), axis=-1)
    return np.logical_not(found) if invert else found


@written("numpy.select")
def select(condlist, choicelist, default=0):
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist)):
        result = np.where(condition, choice, result)
    return result


# ---- Reductions ----


@written("numpy.count_nonzero")
def count_nonzero(a, axis=None, *, keepdims=False):
    return np.sum(np.asarray(a) != 0, axis=axis, keepdims=keepdims)


@written("numpy.ptp", method="ptp")
def ptp(a, axis=None, out=None, keepdims=False):
    return np.max(a, axis=axis, keepdims=keepdims) - np.min(a, axis=axis, keepdims=keepdims)


@written("numpy.average")
def average(a, axis=None, weights=None, returned=False, *, keepdims=False):
    a = np.asarray(a)
    if weights is None:
        mean = np.mean(a, axis=axis, keepdims=keepdims)
        return (mean, mean * 0 + a.size / mean.size) if returned else mean
    weights = np.asarray(weights)
    if weights.ndim != a.ndim:
        if weights.ndim != 1 or axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        weights = np.reshape(weights, [-1 if i == axis % a.ndim else 1 for i in range(a.ndim)])
    weights = np.broadcast_to(weights, a.shape)
    total = np.sum(weights, axis=axis, keepdims=keepdims)
    mean = np.sum(a * weights, axis=axis, keepdims=keepdims) / total
    return (mean, total) if returned else mean


def _in_order(a, axis):
    """Return the elements sorted along the last axis: those of the given axis, of several, or all; and which axes these are."""
    if axis is None:
        return np.sort(np.ravel(a)), tuple(range(a.ndim))
    axes = (axis % a.ndim,) if isinstance(axis, int) else tuple(one % a.ndim for one in axis)
    rest = tuple(i for i in range(a.ndim) if i not in axes)
    moved = np.transpose(a, (*rest, *axes))
    return np.sort(np.reshape(moved, (*[a.shape[i] for i in rest], -1))), axes


def _kept(result, axes, keepdims):
    return np.expand_dims(result, axes) if keepdims else result


def _quantile(a, part, axis, keepdims):
    values, axes = _in_order(a, axis)
    place = part * (values.shape[-1] - 1)
    low = np.floor(place).astype(np.int64)
    high = np.minimum(low + 1, values.shape[-1] - 1)
    below, above = np.take(values, low, axis=-1), np.take(values, high, axis=-1)
    result = below + (above - below) * np.reshape(place - low, (1,) * below.ndim).astype(np.float64)
    # The largest is NaN if one is.
    result = np.where(np.isnan(values[..., -1]), values[..., -1], result)
    return _kept(result, axes, keepdims)


@written("numpy.quantile")
def quantile(a, q, axis=None, *, keepdims=False):
    a, q = _float(a), np.asarray(q).astype(np.float64)
    if q.ndim == 0:
        return _quantile(a, q, axis, keepdims)
    return np.stack([_quantile(a, part, axis, keepdims) for part in q])


@written("numpy.percentile")
def percentile(a, q, axis=None, *, keepdims=False):
    return quantile(a, np.asarray(q) / 100, axis, keepdims=keepdims)


@written("numpy.median")
def median(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    a = _float(a)
    values, axes = _in_order(a, axis)
    count = values.shape[-1]
    result = ((values[..., (count - 1) // 2] + values[..., count // 2]) / 2).astype(a.dtype)
    result = np.where(np.isnan(values[..., -1]), values[..., -1], result)
    return _kept(result, axes, keepdims)


@written("numpy.nansum")
def nansum(a, axis=None, dtype=None, out=None, keepdims=False):
    a = np.asarray(a)
    return np.sum(np.where(a != a, 0, a).astype(a.dtype), axis=axis, dtype=dtype, keepdims=keepdims)


@written("numpy.nanmean")
def nanmean(a, axis=None, dtype=None, out=None, keepdims=False):
    a = _float(a)
    count = np.sum(np.logical_not(np.isnan(a)), axis=axis, keepdims=keepdims).astype(a.dtype)
    return nansum(a, axis=axis, dtype=dtype, keepdims=keepdims) / count


@written("numpy.nanmax")
def nanmax(a, axis=None, out=None, keepdims=False):
    a = _float(a)
    most = np.max(np.where(np.isnan(a), -np.inf, a).astype(a.dtype), axis=axis, keepdims=keepdims)
    return np.where(np.all(np.isnan(a), axis=axis, keepdims=keepdims), np.nan, most).astype(a.dtype)


@written("numpy.nanmin")
def nanmin(a, axis=None, out=None, keepdims=False):
    return -nanmax(-_float(a), axis=axis, keepdims=keepdims)


@written("numpy.trapz")
def trapz(y, x=None, dx=1.0, axis=-1):
    y = np.asarray(y)
    step = dx
    if x is not None:
        step = diff(x)
        if np.asarray(x).ndim == 1:
            step = np.reshape(step, [-1 if i == axis % y.ndim else 1 for i in range(y.ndim)])
        else:
            step = diff(x, axis=axis)
    return np.sum(step * (_range(y, axis, 1, None) + _range(y, axis, 0, -1)) / 2.0, axis=axis)


# ---- Parts along an axis ----


def _range(a, axis, start, stop):
    """Return the part of an array between two indices of an axis."""
    return a[(slice(None),) * (axis % a.ndim) + (slice(start, stop),)]


@written("numpy.diff")
def diff(a, n=1, axis=-1, prepend=None, append=None):
    a = np.asarray(a)
    parts = [a]
    if prepend is not None:
        parts = [_beside(prepend, a, axis)] + parts
    if append is not None:
        parts = parts + [_beside(append, a, axis)]
    if len(parts) > 1:
        a = np.concatenate(parts, axis=axis)
    for _ in range(n):
        later, earlier = _range(a, axis, 1, None), _range(a, axis, 0, -1)
        a = later != earlier if a.dtype.kind == "b" else later - earlier
    return a


def _beside(value, a, axis):
    value = np.asarray(value)
    return np.broadcast_to(value, [1 if i == axis % a.ndim else a.shape[i] for i in range(a.ndim)]) if value.ndim == 0 else value


@written("numpy.ediff1d")
def ediff1d(ary):
    return diff(np.ravel(ary))


@written("numpy.flip")
def flip(m, axis=None):
    m = np.asarray(m)
    axes = range(m.ndim) if axis is None else [axis % m.ndim] if isinstance(axis, int) else [one % m.ndim for one in axis]
    return m[tuple([slice(None, None, -1) if i in axes else slice(None) for i in range(m.ndim)])]


@written("numpy.fliplr")
def fliplr(m):
    return np.asarray(m)[:, ::-1]


@written("numpy.flipud")
def flipud(m):
    return np.asarray(m)[::-1]


@written("numpy.rot90")
def rot90(m, k=1, axes=(0, 1)):
    m = np.asarray(m)
    turns = k % 4
    if turns == 0:
        return m[:]
    if turns == 2:
        return flip(flip(m, axes[0]), axes[1])
    if turns == 1:
        return np.swapaxes(flip(m, axes[1]), axes[0], axes[1])
    return flip(np.swapaxes(m, axes[0], axes[1]), axes[1])


@written("numpy.roll")
def roll(a, shift, axis=None):
    a = np.asarray(a)
    if axis is None:
        return np.reshape(roll(np.ravel(a), shift, 0), a.shape)
    if isinstance(axis, int):
        shifts, axes = (shift,) if isinstance(shift, int) else shift, (axis,)
        axes = axes * len(shifts)
    else:
        axes = axis
        shifts = (shift,) * len(axes) if isinstance(shift, int) else shift
    for one, along in zip(shifts, axes):
        size = a.shape[along]
        cut = size - one % size if size != 0 else 0
        a = np.concatenate((_range(a, along, cut, None), _range(a, along, 0, cut)), axis=along)
    return a


@written("numpy.repeat", method="repeat")
def repeat(a, repeats, axis=None):
    a = np.asarray(a)
    if axis is None:
        a, axis = np.ravel(a), 0
    counts = np.asarray(repeats)
    size = a.shape[axis]
    if counts.ndim == 0:
        # Where there is nothing, nothing is divided by 0.
        return np.take(a, np.arange(size * repeats) // np.maximum(repeats, 1), axis=axis)
    counts = np.broadcast_to(counts, (size,))
    at = np.sum(np.cumsum(counts)[None, :] <= np.arange(np.sum(counts))[:, None], axis=1)
    return np.take(a, at, axis=axis)


@written("numpy.append")
def append(arr, values, axis=None):
    if axis is None:
        return np.concatenate((np.ravel(arr), np.ravel(values)), axis=0)
    return np.concatenate((np.asarray(arr), np.asarray(values)), axis=axis)


@written("numpy.delete")
def delete(arr, obj, axis=None):
    arr = np.asarray(arr)
    if axis is None:
        arr, axis = np.ravel(arr), 0
    size = arr.shape[axis]
    if isinstance(obj, int):
        if not -size <= obj < size:
            raise IndexError("index is out of bounds for axis")
        at = obj % size
        return np.concatenate((_range(arr, axis, 0, at), _range(arr, axis, at + 1, None)), axis=axis)
    keep = np.ones(size, dtype=bool)
    keep[obj] = False
    return np.take(arr, np.where(keep)[0], axis=axis)


@written("numpy.insert")
def insert(arr, obj, values, axis=None):
    arr = np.asarray(arr)
    if axis is None:
        arr, axis = np.ravel(arr), 0
    size = arr.shape[axis]
    if not isinstance(obj, int):
        raise NotImplementedError("numpy.insert at several positions")
    if not -size <= obj <= size:
        raise IndexError("index is out of bounds for axis")
    at = obj % size if obj < 0 else obj
    new = np.asarray(values).astype(arr.dtype)
    if new.ndim == arr.ndim:
        # NumPy puts the values' first axis there.
        new = np.moveaxis(new, 0, axis)
        count = new.shape[axis]
    else:
        new = np.expand_dims(new, axis) if new.ndim > 0 else new
        count = 1
    new = np.broadcast_to(new, [count if i == axis % arr.ndim else arr.shape[i] for i in range(arr.ndim)])
    return np.concatenate((_range(arr, axis, 0, at), new, _range(arr, axis, at, None)), axis=axis)


@written(method="compress")
def compress_method(a, condition, axis=None):
    return compress(condition, a, axis)


@written("numpy.compress")
def compress(condition, a, axis=None):
    a = np.asarray(a)
    if axis is None:
        a, axis = np.ravel(a), 0
    return np.take(a, np.where(np.asarray(condition))[0], axis=axis)


@written("numpy.extract")
def extract(condition, arr):
    return np.take(np.ravel(arr), np.where(np.ravel(condition))[0], axis=0)


@written("numpy.nonzero", method="nonzero")
def nonzero(a):
    return np.where(np.atleast_1d(a))


@written("numpy.argwhere")
def argwhere(a):
    return np.stack(np.where(a), axis=1)


@written("numpy.flatnonzero")
def flatnonzero(a):
    return np.where(np.ravel(a))[0]


@written("numpy.searchsorted")
def searchsorted(a, v, side="left"):
    a, v = np.asarray(a), np.asarray(v)
    below = a < v[..., None] if side == "left" else a <= v[..., None]
    return np.sum(below, axis=-1)


@written("numpy.digitize")
def digitize(x, bins, right=False):
    return searchsorted(bins, x, "left" if right else "right")


@written("numpy.bincount")
def bincount(x, weights=None, minlength=0):
    x = np.asarray(x)
    count = minlength
    if x.shape[0] > 0:
        count = max(int(np.max(x)) + 1, minlength)
    same = x[:, None] == np.arange(count)
    return np.sum(same, axis=0) if weights is None else np.sum(same * np.asarray(weights).astype(np.float64)[:, None], axis=0)


@written("numpy.interp")
def interp(x, xp, fp, left=None, right=None):
    x, xp, fp = np.asarray(x).astype(np.float64), np.asarray(xp).astype(np.float64), np.asarray(fp).astype(np.float64)
    last = xp.shape[0] - 1
    at = np.clip(searchsorted(xp, x, "right") - 1, 0, last - 1)
    x0, x1, y0, y1 = np.take(xp, at), np.take(xp, at + 1), np.take(fp, at), np.take(fp, at + 1)
    y = y0 + (y1 - y0) / (x1 - x0) * (x - x0)
    y = np.where(x == xp[-1], fp[-1], y)
    y = np.where(x < xp[0], fp[0] if left is None else left, y)
    return np.where(x > xp[-1], fp[-1] if right is None else right, y)


# ---- Shapes ----


@written("numpy.atleast_1d")
def atleast_1d(*arys):
    made = [np.reshape(a, (1,)) if np.ndim(a) == 0 else np.asarray(a) for a in arys]
    return made[0] if len(made) == 1 else made


@written("numpy.atleast_2d")
def atleast_2d(*arys):
    made = [np.reshape(a, (1, -1)) if np.ndim(a) < 2 else np.asarray(a) for a in arys]
    return made[0] if len(made) == 1 else made


@written("numpy.atleast_3d")
def atleast_3d(*arys):
    made = [_three(np.asarray(a)) for a in arys]
    return made[0] if len(made) == 1 else made


def _three(a):
    if a.ndim < 2:
        return np.reshape(a, (1, -1, 1))
    return a[:, :, None] if a.ndim == 2 else a


@written("numpy.column_stack")
def column_stack(tup):
    return np.concatenate([np.reshape(a, (-1, 1)) if np.ndim(a) < 2 else np.asarray(a) for a in tup], axis=1)


@written("numpy.dstack")
def dstack(tup):
    return np.concatenate([_three(np.asarray(a)) for a in tup], axis=2)


@written("numpy.broadcast_arrays")
def broadcast_arrays(*args):
    shape = _broadcast_shape(args)
    return [np.broadcast_to(a, shape) for a in args]


def _broadcast_shape(arrays):
    total = np.zeros(np.shape(arrays[0]), dtype=bool)
    for a in arrays[1:]:
        total = np.logical_or(total, np.zeros(np.shape(a), dtype=bool))
    return total.shape


@written("numpy.meshgrid")
def meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    count = len(xi)
    flat = [np.ravel(x) for x in xi]
    order = [1, 0, *range(2, count)] if indexing == "xy" and count > 1 else list(range(count))
    made = [np.reshape(x, [-1 if axis == order[i] else 1 for axis in range(count)]) for i, x in enumerate(flat)]
    if sparse:
        return made
    sizes = [flat[i].shape[0] for i in order]
    return [np.broadcast_to(x, sizes).copy() for x in made]


@written("numpy.indices")
def indices(dimensions, dtype=int):
    count = len(dimensions)
    parts = [np.reshape(np.arange(size), [-1 if i == axis else 1 for axis in range(count)]) for i, size in enumerate(dimensions)]
    return np.stack([np.broadcast_to(part, dimensions) for part in parts]).astype(dtype)


@written("numpy.ix_")
def ix_(*args):
    made = []
    for i, one in enumerate(args):
        one = np.asarray(one)
        at = np.where(one)[0] if one.dtype.kind == "b" else one
        made.append(np.reshape(at, [-1 if axis == i else 1 for axis in range(len(args))]))
    return tuple(made)


@written("numpy.linspace")
def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0):
    start, stop = np.asarray(start) * 1.0, np.asarray(stop) * 1.0
    steps = num - 1 if endpoint else num
    step = (stop - start) / steps if steps > 0 else (stop - start) * np.nan
    places = np.reshape(np.arange(num).astype(step.dtype), [-1] + [1] * step.ndim)
    made = start + places * step if steps > 0 else start + places
    if endpoint and num > 1:
        made = np.where(places == num - 1, stop, made)
    if axis != 0:
        made = np.moveaxis(made, 0, axis)
    if dtype is not None:
        made = np.floor(made).astype(dtype) if np.dtype(dtype).kind in "iu" else made.astype(dtype)
    return (made, step) if retstep else made


@written("numpy.logspace")
def logspace(start, stop, num=50, endpoint=True, base=10.0):
    return np.power(base, linspace(start, stop, num, endpoint))


@written("numpy.tri")
def tri(N, M=None, k=0, dtype=float):
    columns = N if M is None else M
    return (np.arange(columns)[None, :] <= np.arange(N)[:, None] + k).astype(dtype)


@written("numpy.diag")
def diag(v, k=0):
    v = np.asarray(v)
    if v.ndim == 2:
        return np.diagonal(v, k)
    side = np.pad(v, (0, abs(k)))
    at = np.arange(side.shape[0])
    return np.where(at[None, :] == at[:, None] + k, side[:, None] if k >= 0 else side[None, :], np.zeros((), v.dtype))


@written("numpy.diagflat")
def diagflat(v, k=0):
    return diag(np.ravel(v), k)


@written("numpy.trace", method="trace")
def trace(a, offset=0, axis1=0, axis2=1, dtype=None):
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


@written("numpy.triu_indices")
def triu_indices(n, k=0, m=None):
    return np.where(tri(n, m, k - 1, bool) == False)  # noqa: E712


@written("numpy.tril_indices")
def tril_indices(n, k=0, m=None):
    return np.where(tri(n, m, k, bool))


@written("numpy.diag_indices")
def diag_indices(n, ndim=2):
    return (np.arange(n),) * ndim


@written("numpy.unravel_index")
def unravel_index(indices, shape):
    rest = np.asarray(indices)
    made = []
    for size in reversed(shape):
        made = [rest % size] + made
        rest = rest // size
    return tuple(made)


@written("numpy.vander")
def vander(x, N=None, increasing=False):
    x = np.asarray(x)
    powers = np.arange(x.shape[0] if N is None else N)
    return x[:, None] ** (powers if increasing else powers[::-1])


# ---- Products ----


@written("numpy.dot", method="dot")
def dot(a, b):
    a, b = np.asarray(a), np.asarray(b)
    if a.ndim == 0 or b.ndim == 0:
        return _scaled(a, b)
    if b.ndim == 1 or a.ndim <= 2 and b.ndim == 2:
        return np.matmul(a, b)
    return tensordot(a, b, ([-1], [-2]))


@written("numpy.outer")
def outer(a, b):
    return np.ravel(a)[:, None] * np.ravel(b)[None, :]


@written("numpy.inner")
def inner(a, b):
    a, b = np.asarray(a), np.asarray(b)
    if a.ndim == 0 or b.ndim == 0:
        return _scaled(a, b)
    return tensordot(a, b, ([-1], [-1]))


def _scaled(a, b):
    """Return the product with a number, which counts with its own type here."""
    both = np.promote_types(a.dtype, b.dtype)
    return a.astype(both) * b.astype(both)


@written("numpy.vdot")
def vdot(a, b):
    return np.matmul(np.ravel(a), np.ravel(b))


@written("numpy.tensordot")
def tensordot(a, b, axes=2):
    a, b = np.asarray(a), np.asarray(b)
    if isinstance(axes, int):
        of_a, of_b = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        of_a, of_b = ([one] if isinstance(one, int) else list(one) for one in axes)
        of_a, of_b = [i % a.ndim for i in of_a], [i % b.ndim for i in of_b]
    rest_a, rest_b = [i for i in range(a.ndim) if i not in of_a], [i for i in range(b.ndim) if i not in of_b]
    inside = 1
    for i in of_a:
        inside = inside * a.shape[i]
    rows, columns = 1, 1
    for i in rest_a:
        rows = rows * a.shape[i]
    for i in rest_b:
        columns = columns * b.shape[i]
    product = np.matmul(np.reshape(np.transpose(a, rest_a + of_a), (rows, inside)), np.reshape(np.transpose(b, of_b + rest_b), (inside, columns)))
    return np.reshape(product, [a.shape[i] for i in rest_a] + [b.shape[i] for i in rest_b])


@written("numpy.kron")
def kron(a, b):
    a, b = np.asarray(a), np.asarray(b)
    rank = max(a.ndim, b.ndim)
    a, b = np.reshape(a, [1] * (rank - a.ndim) + list(a.shape)), np.reshape(b, [1] * (rank - b.ndim) + list(b.shape))
    left, right, sizes = [], [], []
    for i in range(rank):
        left, right, sizes = left + [a.shape[i], 1], right + [1, b.shape[i]], sizes + [a.shape[i] * b.shape[i]]
    return np.reshape(np.reshape(a, left) * np.reshape(b, right), sizes)


@written("numpy.cross")
def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    if axis is not None:
        axisa, axisb, axisc = axis, axis, axis
    a, b = np.moveaxis(np.asarray(a), axisa, -1), np.moveaxis(np.asarray(b), axisb, -1)
    if a.shape[-1] == 2 and b.shape[-1] == 2:
        return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    x, y = a[..., 0], a[..., 1]
    u, v = b[..., 0], b[..., 1]
    z = a[..., 2] if a.shape[-1] == 3 else x * 0
    w = b[..., 2] if b.shape[-1] == 3 else u * 0
    return np.moveaxis(np.stack([y * w - z * v, z * u - x * w, x * v - y * u], axis=-1), -1, axisc)


@written("numpy.convolve")
def convolve(a, v, mode="full"):
    a, v = np.ravel(a), np.ravel(v)
    if len(v) > len(a):
        a, v = v, a
    n, k = len(a), len(v)
    wide = np.pad(a, (k - 1, k - 1))
    made = [wide[i : i + n + k - 1] * v[k - 1 - i] for i in range(k)]
    total = made[0]
    for part in made[1:]:
        total = total + part
    if mode == "full":
        return total
    if mode == "same":
        return total[(k - 1) // 2 : (k - 1) // 2 + n]
    return total[k - 1 : n]


@written("numpy.correlate")
def correlate(a, v, mode="valid"):
    return convolve(a, np.ravel(v)[::-1], mode)


@written("numpy.linalg.norm")
def norm(x, ord=None, axis=None, keepdims=False):
    x = _float(x)
    if axis is None and (ord is None or x.ndim == 1 and ord == 2):
        return np.sqrt(np.sum(x * x, keepdims=keepdims))
    if axis is None:
        axis = 0 if x.ndim == 1 else (0, 1)
    size = np.abs(x)
    if isinstance(axis, int) or len(axis) == 1:
        if ord is None or ord == 2:
            return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))
        if ord == np.inf:
            return np.max(size, axis=axis, keepdims=keepdims)
        if ord == -np.inf:
            return np.min(size, axis=axis, keepdims=keepdims)
        if ord == 0:
            return np.sum((x != 0).astype(x.dtype), axis=axis, keepdims=keepdims)
        if ord == 1:
            return np.sum(size, axis=axis, keepdims=keepdims)
        return (np.sum(size**ord, axis=axis, keepdims=keepdims) ** (1 / ord)).astype(x.dtype)
    if ord is None or ord == "fro":
        return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))
    if ord not in (1, -1, np.inf, -np.inf):
        raise NotImplementedError("this norm of a matrix")
    rows, columns = axis[0] % x.ndim, axis[1] % x.ndim
    first, second = (rows, columns) if ord in (1, -1) else (columns, rows)
    sums = np.sum(size, axis=first, keepdims=True)
    made = np.max(sums, axis=second, keepdims=True) if ord > 0 else np.min(sums, axis=second, keepdims=True)
    return made if keepdims else np.squeeze(made, (first, second))


@written("numpy.linalg.matrix_power")
def matrix_power(a, n):
    a = np.asarray(a)
    if n < 0:
        raise NotImplementedError("a negative power of a matrix")
    made = np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
    for _ in range(n):
        made = np.matmul(made, a)
    return made


@written("numpy.linalg.multi_dot")
def multi_dot(arrays):
    made = np.asarray(arrays[0])
    for one in arrays[1:]:
        made = np.matmul(made, one)
    return made


@written("numpy.linalg.inv")
def inv(a):
    """Gauss and Jordan, with pivots. The size of the matrix is known when the program is compiled."""
    a = _float(a)
    size = a.shape[-1]
    wide = np.concatenate((a, np.broadcast_to(np.eye(size, dtype=a.dtype), a.shape)), axis=-1)
    return _eliminated(wide, size)[..., size:]


@written("numpy.linalg.solve")
def solve(a, b):
    a, b = _float(a), _float(b)
    vector = b.ndim == a.ndim - 1
    right = b[..., None] if vector else b
    size = a.shape[-1]
    made = _eliminated(np.concatenate((a, right), axis=-1), size)[..., size:]
    return made[..., 0] if vector else made


def _eliminated(wide, size):
    """Return the matrix whose first columns elimination has made the identity."""
    rows = np.arange(size)
    for i in range(size):
        column = np.where(rows >= i, np.abs(wide[..., i]), -1)
        pivot = np.argmax(column, axis=-1)[..., None]
        # Row i and that of the pivot change places.
        order = np.where(rows == i, pivot, np.where(rows == pivot, i, rows))
        wide = np.take_along_axis(wide, np.broadcast_to(order[..., None], wide.shape), -2)
        line = wide[..., i : i + 1, :] / wide[..., i : i + 1, i : i + 1]
        wide = np.where(rows[:, None] == i, line, wide - wide[..., :, i : i + 1] * line)
    return wide

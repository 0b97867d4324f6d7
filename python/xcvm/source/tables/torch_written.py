"""Functions and methods of torch that are written in terms of NumPy's."""

from __future__ import annotations

import numpy as np

from . import numpy_written as own
from . import written_for_torch
from .torch import ValuesIndices


def _float(x):
    """Return a tensor of floats, of which torch makes f32 if they are integers."""
    x = np.asarray(x)
    return x if x.dtype.kind == "f" else x.astype(np.float32)


def _like(made, *given):
    """Return a result in the type of its operands: NumPy computes with a number in f64."""
    return made.astype(given[0].dtype if len(given) == 1 else (given[0] + given[1]).dtype)


# ---- Element by element ----


@written_for_torch("atan2")
def atan2(input, other):
    return own.arctan2(_float(input), _float(other))


@written_for_torch("arctan2")
def arctan2(input, other):
    return own.arctan2(_float(input), _float(other))


@written_for_torch("hypot")
def hypot(input, other):
    return own.hypot(input, other)


@written_for_torch("isfinite")
def isfinite(input):
    return own.isfinite(input)


@written_for_torch("isposinf")
def isposinf(input):
    return own.isposinf(input)


@written_for_torch("isneginf")
def isneginf(input):
    return own.isneginf(input)


@written_for_torch("nan_to_num")
def nan_to_num(input, nan=None, posinf=None, neginf=None):
    return own.nan_to_num(input, True, 0.0 if nan is None else nan, posinf, neginf)


@written_for_torch("signbit")
def signbit(input):
    return own.signbit(input)


@written_for_torch("copysign")
def copysign(input, other):
    return _like(own.copysign(_float(input), other), _float(input))


@written_for_torch("fmod")
def fmod(input, other):
    return np.fmod(input, other)


@written_for_torch("frac")
def frac(input):
    return input - own.trunc(input)


@written_for_torch("exp2")
def exp2(input):
    return own.exp2(_float(input))


@written_for_torch("sinc")
def sinc(input):
    return own.sinc(_float(input))


@written_for_torch("xlogy")
def xlogy(input, other):
    x, y = _float(input), _float(other)
    made = np.where(x == 0, 0, x * np.log(np.where(x == 0, 1, y)))
    return _like(np.where(y != y, y, made), x, y)


@written_for_torch("logit")
def logit(input, eps=None):
    x = _float(input)
    if eps is not None:
        x = np.clip(x, eps, 1 - eps)
    return np.log(x / (1 - x))


@written_for_torch("deg2rad")
def deg2rad(input):
    return own.deg2rad(_float(input))


@written_for_torch("rad2deg")
def rad2deg(input):
    return own.rad2deg(_float(input))


@written_for_torch("heaviside")
def heaviside(input, values):
    return own.heaviside(input, values)


@written_for_torch("fmax")
def fmax(input, other):
    return own.fmax(input, other)


@written_for_torch("fmin")
def fmin(input, other):
    return own.fmin(input, other)


@written_for_torch("sgn")
def sgn(input):
    return np.sign(input)


@written_for_torch("float_power")
def float_power(input, exponent):
    return own.float_power(input, exponent)


@written_for_torch("round")
def round_(input, *, decimals=0):
    return own.round_(input, decimals)


@written_for_torch("true_divide", function=False)
def true_divide(input, other):
    return _float(input) / other


@written_for_torch("divide", function=False)
def divide(input, other, *, rounding_mode=None):
    if rounding_mode == "floor":
        return np.floor_divide(input, other)
    made = _float(input) / other
    return own.trunc(made) if rounding_mode == "trunc" else made


@written_for_torch("subtract", function=False)
def subtract(input, other, *, alpha=1):
    return input - other * alpha if alpha != 1 else input - other


@written_for_torch("addcmul")
def addcmul(input, tensor1, tensor2, *, value=1):
    return input + value * tensor1 * tensor2


@written_for_torch("addcdiv")
def addcdiv(input, tensor1, tensor2, *, value=1):
    return input + value * tensor1 / tensor2


@written_for_torch("threshold", "torch.nn.functional._threshold", method=False)
def threshold(input, threshold, value, inplace=False):
    return np.where(input > threshold, input, np.asarray(value).astype(input.dtype))


@written_for_torch("hardshrink", "torch.nn.functional.hardshrink")
def hardshrink(input, lambd=0.5):
    return np.where(np.abs(input) > lambd, input, input * 0)


@written_for_torch("_C._nn.softshrink", "torch.nn.functional.softshrink", method=False)
def softshrink(input, lambd=0.5):
    return np.where(input > lambd, input - lambd, np.where(input < -lambd, input + lambd, input * 0))


@written_for_torch("isclose")
def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    return own.isclose(input, other, rtol, atol, equal_nan)


@written_for_torch("allclose")
def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    return own.allclose(input, other, rtol, atol, equal_nan)


@written_for_torch("equal")
def equal(input, other):
    return own.array_equal(input, other)


@written_for_torch("isin", method=False)
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    return own.isin(elements, test_elements, assume_unique, invert)


# ---- Products ----


@written_for_torch("addmv")
def addmv(input, mat, vec, *, beta=1, alpha=1):
    return beta * input + alpha * np.matmul(mat, vec)


@written_for_torch("addr")
def addr(input, vec1, vec2, *, beta=1, alpha=1):
    return beta * input + alpha * own.outer(vec1, vec2)


@written_for_torch("outer", "torch.ger")
def outer(input, vec2):
    return own.outer(input, vec2)


@written_for_torch("inner")
def inner(input, other):
    return own.inner(input, other)


@written_for_torch("vdot")
def vdot(input, other):
    return own.vdot(input, other)


@written_for_torch("tensordot", "torch.functional.tensordot", method=False)
def tensordot(a, b, dims=2):
    return own.tensordot(a, b, dims)


@written_for_torch("kron")
def kron(input, other):
    return own.kron(input, other)


@written_for_torch("cross")
def cross(input, other, dim=None):
    # Without dim it is the first one of three elements.
    threes = [i for i in range(input.ndim) if input.shape[i] == 3] if dim is None else [dim]
    return own.cross(input, other, axis=threes[0])


@written_for_torch("linalg.cross", "torch._C._linalg.linalg_cross", method=False)
def linalg_cross(input, other, *, dim=-1):
    return own.cross(input, other, axis=dim)


@written_for_torch("chain_matmul", "torch.functional.chain_matmul", method=False)
def chain_matmul(*matrices):
    return own.multi_dot(matrices)


@written_for_torch("det", "torch.linalg.det", "torch._C._linalg.linalg_det")
def det(input):
    return np.linalg.det(input)


@written_for_torch("logdet")
def logdet(input):
    return np.log(np.linalg.det(input))


@written_for_torch("inverse", "torch.linalg.inv", "torch._C._linalg.linalg_inv")
def inverse(input):
    return own.inv(input)


@written_for_torch("linalg.solve", "torch._C._linalg.linalg_solve", method=False)
def solve(A, B):
    return own.solve(A, B)


@written_for_torch("matrix_power", "torch.linalg.matrix_power", "torch._C._linalg.linalg_matrix_power")
def matrix_power(input, n):
    return own.matrix_power(input, n)


@written_for_torch("dist")
def dist(input, other, p=2):
    return own.norm(np.ravel(input - other), p)


# ---- Reductions and orders ----


@written_for_torch("count_nonzero")
def count_nonzero(input, dim=None):
    return own.count_nonzero(input, dim)


@written_for_torch("std_mean", "torch.functional.std_mean", method=False)
def std_mean(input, dim=None, unbiased=True, keepdim=False):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    return np.std(input, axis=dim, ddof=1 if unbiased else 0, keepdims=keepdim), np.mean(input, axis=dim, keepdims=keepdim)


@written_for_torch("var_mean", "torch.functional.var_mean", method=False)
def var_mean(input, dim=None, unbiased=True, keepdim=False):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    return np.var(input, axis=dim, ddof=1 if unbiased else 0, keepdims=keepdim), np.mean(input, axis=dim, keepdims=keepdim)


@written_for_torch("aminmax")
def aminmax(input, *, dim=None, keepdim=False):
    return np.min(input, axis=dim, keepdims=keepdim), np.max(input, axis=dim, keepdims=keepdim)


@written_for_torch("nansum")
def nansum(input, dim=None, keepdim=False, *, dtype=None):
    return own.nansum(input, dim, dtype, None, keepdim)


@written_for_torch("nanmean")
def nanmean(input, dim=None, keepdim=False, *, dtype=None):
    return own.nanmean(input, dim, dtype, None, keepdim)


@written_for_torch("quantile")
def quantile(input, q, dim=None, keepdim=False):
    return own.quantile(input, q, dim, keepdims=keepdim).astype(input.dtype)


def _chosen(input, dim, keepdim, place):
    """Return the elements at a place of the order along an axis, and their indices."""
    order = np.argsort(input, axis=dim)
    at = np.take(order, np.asarray(place)[None], axis=dim)
    values = np.take_along_axis(input, at, dim)
    return ValuesIndices(values, at) if keepdim else ValuesIndices(np.squeeze(values, dim), np.squeeze(at, dim))


@written_for_torch("median")
def median(input, dim=None, keepdim=False):
    # The lower of two medians; NaN if an element is.
    if dim is None:
        flat = np.sort(np.ravel(input))
        return np.where(flat[-1] != flat[-1], flat[-1], flat[(flat.shape[0] - 1) // 2])
    return _chosen(input, dim, keepdim, (input.shape[dim] - 1) // 2)


@written_for_torch("kthvalue")
def kthvalue(input, k, dim=-1, keepdim=False):
    return _chosen(input, dim, keepdim, k - 1)


@written_for_torch("cummax")
def cummax(input, dim):
    return _running(input, dim, True)


@written_for_torch("cummin")
def cummin(input, dim):
    return _running(input, dim, False)


def _running(input, dim, largest):
    """Return the largest or smallest element so far along an axis, and where it was last."""
    x = np.moveaxis(input, dim, -1)
    size = x.shape[-1]
    seen = np.arange(size)[None, :] <= np.arange(size)[:, None]
    wide = np.broadcast_to(x[..., None, :], (*x.shape, size))
    edge = -np.inf if largest else np.inf
    if x.dtype.kind in "iu":
        edge = np.iinfo(x.dtype).min if largest else np.iinfo(x.dtype).max
    masked = np.where(seen, wide, np.asarray(edge).astype(x.dtype))
    best = np.max(masked, axis=-1, keepdims=True) if largest else np.min(masked, axis=-1, keepdims=True)
    at = np.max(np.where(np.logical_and(seen, wide == best), np.arange(size), 0), axis=-1)
    return ValuesIndices(np.moveaxis(best[..., 0], -1, dim), np.moveaxis(at, -1, dim))


@written_for_torch("unique", "torch.functional._return_output", "torch.functional.unique")
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    if not return_inverse and not return_counts:
        return np.unique(input, axis=dim)
    made = np.unique(input, return_inverse=True, return_counts=True, axis=dim)
    inverse = np.reshape(made[1], input.shape) if dim is None else made[1]
    if return_inverse and return_counts:
        return made[0], inverse, made[2]
    return (made[0], inverse) if return_inverse else (made[0], made[2])


@written_for_torch("bincount")
def bincount(input, weights=None, minlength=0):
    return own.bincount(input, weights, minlength)


@written_for_torch("searchsorted", method=False)
def searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None):
    after = right or side == "right"
    a, v = sorted_sequence, np.asarray(input)
    below = a[..., None, :] <= v[..., None] if after else a[..., None, :] < v[..., None]
    if a.ndim == 1:
        below = a <= v[..., None] if after else a < v[..., None]
    found = np.sum(below, axis=-1)
    return found.astype(np.int32) if out_int32 else found


@written_for_torch("bucketize", method=False)
def bucketize(input, boundaries, *, out_int32=False, right=False):
    found = own.searchsorted(boundaries, input, "right" if right else "left")
    return found.astype(np.int32) if out_int32 else found


@written_for_torch("logcumsumexp")
def logcumsumexp(input, dim):
    top = np.max(input, axis=dim, keepdims=True)
    return np.log(np.cumsum(np.exp(input - top), axis=dim)) + top


@written_for_torch("diff")
def diff(input, n=1, dim=-1, prepend=None, append=None):
    return own.diff(input, n, dim, prepend, append)


@written_for_torch("trapz", "torch.trapezoid", method=False)
def trapz(y, x=None, *, dx=1.0, dim=-1):
    return own.trapz(y, x, dx, dim).astype(y.dtype)


# ---- Shapes and selection ----


@written_for_torch("roll")
def roll(input, shifts, dims=None):
    return own.roll(input, shifts, dims)


@written_for_torch("rot90")
def rot90(input, k=1, dims=(0, 1)):
    return own.rot90(input, k, dims).copy()


@written_for_torch("fliplr")
def fliplr(input):
    return own.fliplr(input).copy()


@written_for_torch("flipud")
def flipud(input):
    return own.flipud(input).copy()


@written_for_torch("repeat_interleave")
def repeat_interleave(input, repeats, dim=None, *, output_size=None):
    return own.repeat(input, repeats, dim)


@written_for_torch("moveaxis")
def moveaxis(input, source, destination):
    return np.moveaxis(input, source, destination)


@written_for_torch("ravel")
def ravel(input):
    return np.ravel(input)


@written_for_torch("atleast_1d", "torch.functional.atleast_1d", method=False)
def atleast_1d(*tensors):
    return own.atleast_1d(*tensors)


@written_for_torch("atleast_2d", "torch.functional.atleast_2d", method=False)
def atleast_2d(*tensors):
    return own.atleast_2d(*tensors)


@written_for_torch("atleast_3d", "torch.functional.atleast_3d", method=False)
def atleast_3d(*tensors):
    return own.atleast_3d(*tensors)


@written_for_torch("column_stack", method=False)
def column_stack(tensors):
    return own.column_stack(tensors)


@written_for_torch("dstack", method=False)
def dstack(tensors):
    return own.dstack(tensors)


@written_for_torch("broadcast_tensors", "torch.functional.broadcast_tensors", method=False)
def broadcast_tensors(*tensors):
    return tuple(own.broadcast_arrays(*tensors))


@written_for_torch("block_diag", "torch.functional.block_diag", method=False)
def block_diag(*tensors):
    rows = []
    width = 0
    for one in tensors:
        width = width + own.atleast_2d(one).shape[1]
    before = 0
    for one in tensors:
        block = own.atleast_2d(one)
        left = np.zeros((block.shape[0], before), dtype=block.dtype)
        right = np.zeros((block.shape[0], width - before - block.shape[1]), dtype=block.dtype)
        rows = rows + [np.concatenate((left, block, right), axis=1)]
        before = before + block.shape[1]
    return np.concatenate(rows, axis=0)


@written_for_torch("cartesian_prod", "torch.functional.cartesian_prod", method=False)
def cartesian_prod(*tensors):
    if len(tensors) == 1:
        return tensors[0]
    return np.stack([np.ravel(one) for one in own.meshgrid(*tensors, indexing="ij")], axis=1)


@written_for_torch("diag")
def diag(input, diagonal=0):
    return own.diag(input, diagonal).copy()


@written_for_torch("diag_embed")
def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    size = input.shape[-1] + abs(offset)
    at = np.arange(size)
    side = np.pad(input, [(0, 0)] * (input.ndim - 1) + [(0, abs(offset))])
    made = np.where(at[None, :] == at[:, None] + offset, side[..., :, None] if offset >= 0 else side[..., None, :], np.zeros((), input.dtype))
    return np.moveaxis(made, (-2, -1), (dim1, dim2))


@written_for_torch("trace")
def trace(input):
    return own.trace(input)


@written_for_torch("tril_indices", method=False)
def tril_indices(row, col, offset=0):
    return np.stack(own.tril_indices(row, offset, col))


@written_for_torch("triu_indices", method=False)
def triu_indices(row, col, offset=0):
    return np.stack(own.triu_indices(row, offset, col))


@written_for_torch("take")
def take(input, index):
    return np.take(np.ravel(input), index)


@written_for_torch("index_fill")
def index_fill(input, dim, index, value):
    made = input.copy()
    made[(slice(None),) * (dim % input.ndim) + (index,)] = value
    return made


@written_for_torch("index_copy")
def index_copy(input, dim, index, source):
    made = input.copy()
    made[(slice(None),) * (dim % input.ndim) + (index,)] = source
    return made


@written_for_torch("index_put")
def index_put(input, indices, values, accumulate=False):
    if accumulate:
        raise NotImplementedError("index_put with accumulate=True")
    made = input.copy()
    made[tuple(indices)] = values
    return made


@written_for_torch("masked_scatter")
def masked_scatter(input, mask, source):
    mask = np.broadcast_to(mask, input.shape)
    places = np.cumsum(np.ravel(mask).astype(np.int64)) - 1
    drawn = np.take(np.ravel(source), np.clip(places, 0, source.size - 1))
    return np.where(mask, np.reshape(drawn, input.shape), input)


@written_for_torch("logspace", method=False)
def logspace(start, end, steps, base=10.0):
    return own.logspace(start, end, steps, True, base).astype(np.float32)


@written_for_torch("pixel_unshuffle", "torch.nn.functional.pixel_unshuffle", method=False)
def pixel_unshuffle(input, downscale_factor):
    factor = downscale_factor
    *batch, channels, height, width = input.shape
    cells = np.reshape(input, (-1, channels, height // factor, factor, width // factor, factor))
    moved = np.transpose(cells, (0, 1, 3, 5, 2, 4))
    return np.reshape(moved, (*batch, channels * factor * factor, height // factor, width // factor))


@written_for_torch("channel_shuffle", "torch.nn.functional.channel_shuffle", method=False)
def channel_shuffle(input, groups):
    batch, channels, *rest = input.shape
    return np.reshape(np.swapaxes(np.reshape(input, (batch, groups, channels // groups, *rest)), 1, 2), (batch, channels, *rest))

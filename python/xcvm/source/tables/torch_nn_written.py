"""Functions of torch.nn.functional that are written in terms of NumPy's. The names of implementation modules are what torch's own
sources call; their reductions are 0 (none), 1 (mean) and 2 (sum)."""

from __future__ import annotations

import numpy as np

from . import numpy_written as own
from . import written_for_torch


def _reduced(loss, reduction):
    if reduction in (0, "none"):
        return loss
    return np.mean(loss) if reduction in (1, "mean") else np.sum(loss)


def _pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


# ---- Windows ----


@written_for_torch("_C._nn.im2col", "torch.nn.functional.unfold", method=False)
def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride)
    x = input[None] if input.ndim == 3 else input
    x = np.pad(x, [(0, 0), (0, 0), (ph, ph), (pw, pw)])
    batch, channels, height, width = x.shape
    rows, columns = (height - dh * (kh - 1) - 1) // sh + 1, (width - dw * (kw - 1) - 1) // sw + 1
    parts = []
    for i in range(kh):
        for j in range(kw):
            part = x[:, :, i * dh : i * dh + sh * (rows - 1) + 1 : sh, j * dw : j * dw + sw * (columns - 1) + 1 : sw]
            parts.append(np.reshape(part, (batch, channels, rows * columns)))
    made = np.reshape(np.stack(parts, axis=2), (batch, channels * kh * kw, rows * columns))
    return made[0] if input.ndim == 3 else made


@written_for_torch("nn.functional.lp_pool2d", method=False)
def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    if ceil_mode:
        raise NotImplementedError("lp_pool2d with ceil_mode=True")
    kh, kw = _pair(kernel_size)
    sh, sw = (kh, kw) if stride is None else _pair(stride)
    height, width = input.shape[-2:]
    rows, columns = (height - kh) // sh + 1, (width - kw) // sw + 1
    total = 0
    for i in range(kh):
        for j in range(kw):
            total = total + input[..., i : i + sh * (rows - 1) + 1 : sh, j : j + sw * (columns - 1) + 1 : sw] ** norm_type
    return np.sign(total) * np.maximum(np.abs(total), 0) ** (1.0 / norm_type)


@written_for_torch("nn.functional.lp_pool1d", method=False)
def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    step = kernel_size if stride is None else stride
    return lp_pool2d(input[..., None, :], norm_type, (1, kernel_size), (1, step), ceil_mode)[..., 0, :]


@written_for_torch("affine_grid_generator", "torch.nn.functional.affine_grid", method=False)
def affine_grid(theta, size, align_corners=None):
    places = []
    for count in size[2:]:
        line = own.linspace(-1.0, 1.0, count) if count > 1 else np.zeros((1,))
        places.append((line if align_corners else line * (count - 1) / count).astype(theta.dtype))
    grids = own.meshgrid(*places, indexing="ij")
    ones = np.zeros_like(grids[0]) + 1
    # Coordinates are x, y, (z,) 1.
    base = np.stack([*reversed(grids), ones.astype(theta.dtype)], axis=-1)
    flat = np.matmul(np.reshape(base, (1, -1, len(places) + 1)), np.swapaxes(theta, 1, 2))
    return np.reshape(flat, (theta.shape[0], *size[2:], len(places)))


# ---- Layers ----


@written_for_torch("bilinear", "torch.nn.functional.bilinear", method=False)
def bilinear(input1, input2, weight, bias=None):
    made = np.einsum("...i,oij,...j->...o", input1, weight, input2)
    return made if bias is None else made + bias


@written_for_torch("nn.functional.local_response_norm", method=False)
def local_response_norm(input, size, alpha=0.0001, beta=0.75, k=1.0):
    channels = input.shape[1]
    squares = np.pad(input * input, [(0, 0), (size // 2, (size - 1) // 2)] + [(0, 0)] * (input.ndim - 2))
    total = squares[:, 0:channels]
    for i in range(1, size):
        total = total + squares[:, i : i + channels]
    return input / (k + alpha * (total / size)) ** beta


@written_for_torch("nn.functional.embedding_bag", method=False)
def embedding_bag(
    input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean", sparse=False,
    per_sample_weights=None, include_last_offset=False, padding_idx=None,
):  # fmt: skip
    if input.ndim != 2 or offsets is not None or max_norm is not None or padding_idx is not None:
        raise NotImplementedError("embedding_bag of bags of several lengths, with max_norm or with padding_idx")
    rows = np.take(weight, input, axis=0)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[..., None]
    if mode == "sum":
        return np.sum(rows, axis=1)
    return np.max(rows, axis=1) if mode == "max" else np.mean(rows, axis=1)


@written_for_torch("nn.functional.gumbel_softmax", method=False)
def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    drawn = -np.log(-np.log(_uniform(logits)))
    scaled = (logits + drawn) / tau
    scaled = np.exp(scaled - np.max(scaled, axis=dim, keepdims=True))
    soft = scaled / np.sum(scaled, axis=dim, keepdims=True)
    if not hard:
        return soft
    best = np.argmax(soft, axis=dim, keepdims=True)
    places = np.reshape(np.arange(soft.shape[dim]), [-1 if i == dim % soft.ndim else 1 for i in range(soft.ndim)])
    return (places == best).astype(soft.dtype)


def _uniform(x):
    """Return numbers between 0 and 1, both excluded."""
    import torch

    return np.clip(np.asarray(torch.rand_like(torch.as_tensor(x)).numpy()), 1e-20, 1 - 1e-7)


# ---- Losses ----


@written_for_torch("_C._nn.huber_loss", "torch.nn.functional.huber_loss", method=False)
def huber_loss(input, target, reduction=1, delta=1.0):
    away = np.abs(input - target)
    return _reduced(np.where(away <= delta, 0.5 * away * away, delta * (away - 0.5 * delta)), reduction)


@written_for_torch("_C._nn.multi_margin_loss", method=False)
def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, reduction=1):
    own_class = np.take_along_axis(input, target[:, None], 1)
    missing = np.maximum(margin - own_class + input, 0) ** p
    if weight is not None:
        missing = missing * np.take(weight, target)[:, None]
    others = np.arange(input.shape[1])[None, :] != target[:, None]
    return _reduced(np.sum(missing * others.astype(input.dtype), axis=1) / input.shape[1], reduction)


@written_for_torch("cosine_embedding_loss", method=False)
def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=1):
    product = np.sum(input1 * input2, axis=-1)
    sizes = np.sqrt((np.sum(input1 * input1, axis=-1) + 1e-12) * (np.sum(input2 * input2, axis=-1) + 1e-12))
    cosine = product / sizes
    return _reduced(np.where(target == 1, 1 - cosine, np.maximum(cosine - margin, 0)), reduction)


@written_for_torch("pairwise_distance", "torch.nn.functional.pairwise_distance", method=False)
def pairwise_distance(x1, x2, p=2.0, eps=1e-06, keepdim=False):
    return own.norm(x1 - x2 + eps, p, -1, keepdim)


@written_for_torch("triplet_margin_loss", method=False)
def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-06, swap=False, reduction=1):
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = np.minimum(far, pairwise_distance(positive, negative, p, eps))
    return _reduced(np.maximum(margin + near - far, 0), reduction)


@written_for_torch("poisson_nll_loss", method=False)
def poisson_nll_loss(input, target, log_input=True, full=False, eps=1e-08, reduction=1):
    loss = np.exp(input) - target * input if log_input else input - target * np.log(input + eps)
    if full:
        stirling = target * np.log(np.where(target > 1, target, 1)) - target + 0.5 * np.log(6.283185307179586 * np.where(target > 1, target, 1))
        loss = loss + np.where(target > 1, stirling, 0).astype(loss.dtype)
    return _reduced(loss, reduction)

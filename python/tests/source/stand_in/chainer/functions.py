"""Functions of the stand-in for Chainer, with Chainer's names and defaults."""

import numpy as np
import torch
import torch.nn.functional as T

from . import Variable, config, tensor


def _all(axis, x):
    return tuple(range(x.ndim)) if axis is None else axis


def _pair(value, count=2):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * count


for _names, _function in {
    "relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "sin": torch.sin, "sinh": torch.sinh, "sign": torch.sign,
    "cos": torch.cos, "cosh": torch.cosh, "tan": torch.tan, "arcsin": torch.asin, "arccos": torch.acos, "arctan": torch.atan,
    "exp": torch.exp, "log": torch.log, "absolute": torch.abs, "sqrt": torch.sqrt, "flatten": torch.flatten,
}.items():  # fmt: skip
    globals()[_names] = lambda x, f=_function: Variable(f(tensor(x)))


def clipped_relu(x, z=20.0):
    return Variable(tensor(x).clamp(0, z))


def leaky_relu(x, slope=0.2):
    return Variable(T.leaky_relu(tensor(x), slope))


def elu(x, alpha=1.0):
    return Variable(T.elu(tensor(x), alpha))


def selu(x, alpha=1.6732632423543772, scale=1.0507009873554805):
    return Variable(scale * T.elu(tensor(x), alpha))


def softmax(x, axis=1):
    return Variable(torch.softmax(tensor(x), axis))


def log_softmax(x, axis=1):
    return Variable(torch.log_softmax(tensor(x), axis))


def clip(x, x_min, x_max):
    return Variable(tensor(x).clamp(x_min, x_max))


def maximum(*xs):
    return Variable(torch.maximum(*map(tensor, xs)))


def minimum(*xs):
    return Variable(torch.minimum(*map(tensor, xs)))


def max(x, axis=None, keepdims=False):
    return Variable(torch.amax(tensor(x), _all(axis, x), keepdims))


def min(x, axis=None, keepdims=False):
    return Variable(torch.amin(tensor(x), _all(axis, x), keepdims))


def sum(x, axis=None, keepdims=False):
    return Variable(torch.sum(tensor(x), _all(axis, x), keepdims))


def average(x, axis=None, weights=None, keepdims=False):
    return Variable(torch.mean(tensor(x), _all(axis, x), keepdims))


mean = average


def argmax(x, axis=None):
    return Variable(torch.argmax(tensor(x), axis).int())


def argmin(x, axis=None):
    return Variable(torch.argmin(tensor(x), axis).int())


def matmul(a, b, transa=False, transb=False):
    a, b = tensor(a), tensor(b)
    return Variable((a.mT if transa else a) @ (b.mT if transb else b))


def concat(xs, axis=1):
    return Variable(torch.cat([tensor(x) for x in xs], axis))


def stack(xs, axis=0):
    return Variable(torch.stack([tensor(x) for x in xs], axis))


def hstack(xs):
    return Variable(torch.hstack([tensor(x) for x in xs]))


def vstack(xs):
    return Variable(torch.vstack([tensor(x) for x in xs]))


def separate(x, axis=0):
    return tuple(Variable(part) for part in tensor(x).unbind(axis))


def split_axis(x, indices_or_sections, axis, force_tuple=True):
    if not isinstance(indices_or_sections, int):
        indices_or_sections = [int(i) for i in indices_or_sections]
    return tuple(Variable(part) for part in torch.tensor_split(tensor(x), indices_or_sections, axis))


def reshape(x, shape):
    return Variable(tensor(x).reshape([int(s) for s in shape]))


def transpose(x, axes=None):
    return Variable(tensor(x).permute(axes if axes is not None else tuple(range(x.ndim))[::-1]))


def swapaxes(x, axis1, axis2):
    return Variable(tensor(x).swapaxes(axis1, axis2))


def expand_dims(x, axis):
    return Variable(tensor(x).unsqueeze(axis))


def squeeze(x, axis=None):
    return Variable(tensor(x).reshape(np.squeeze(np.empty(x.shape), axis).shape))


def broadcast_to(x, shape):
    return Variable(tensor(x).expand(shape))


def pad_sequence(xs, length=None, padding=0):
    size = length or np.max([len(x) for x in xs])
    rows = [T.pad(tensor(x), [0, 0] * (x.ndim - 1) + [0, int(size - len(x))], value=padding) for x in xs]
    return Variable(torch.stack(rows))


def resize_images(x, output_shape, mode="bilinear", align_corners=True):
    return Variable(T.interpolate(tensor(x), output_shape, mode=mode, align_corners=align_corners))


def linear(x, W, b=None, n_batch_axes=1):
    rows = tensor(x).flatten(n_batch_axes)
    return Variable(T.linear(rows, tensor(W), None if b is None else tensor(b)))


def embed_id(x, W, ignore_label=None):
    return Variable(tensor(W)[tensor(x).long()])


def convolution_nd(x, W, b=None, stride=1, pad=0, cover_all=False, *, dilate=1, groups=1):
    function = (T.conv1d, T.conv2d, T.conv3d)[x.ndim - 3]
    return Variable(function(tensor(x), tensor(W), None if b is None else tensor(b), stride, pad, dilate, groups))


def convolution_2d(x, W, b=None, stride=1, pad=0, cover_all=False, *, dilate=1, groups=1):
    return convolution_nd(x, W, b, stride, pad, cover_all, dilate=dilate, groups=groups)


def average_pooling_2d(x, ksize, stride=None, pad=0):
    # The padding of torch is at most half of the window.
    (ph, pw), ksize = _pair(pad), _pair(ksize)
    return Variable(T.avg_pool2d(T.pad(tensor(x), (pw, pw, ph, ph)), ksize, _pair(stride) if stride is not None else ksize))


def max_pooling_2d(x, ksize, stride=None, pad=0, cover_all=True):
    sizes, pads = _pair(ksize), _pair(pad)
    strides = _pair(stride) if stride is not None else sizes
    made = tensor(x)
    ends = []
    for axis in range(2):
        have = made.shape[2 + axis] + 2 * pads[axis] - sizes[axis]
        rounds = -(-have // strides[axis]) if cover_all else have // strides[axis]
        ends.append(np.maximum(rounds * strides[axis] - have, 0) + pads[axis])
    made = T.pad(made, (pads[1], int(ends[1]), pads[0], int(ends[0])), value=-np.inf)
    return Variable(T.max_pool2d(made, sizes, strides))


def unpooling_2d(x, ksize, stride=None, pad=0, outsize=None, cover_all=True):
    height, width = _pair(ksize)
    made = tensor(x).repeat_interleave(height, 2).repeat_interleave(width, 3)
    return Variable(made[:, :, : -(height - 1), : -(width - 1)] if cover_all else made)


def local_response_normalization(x, n=5, k=2, alpha=1e-4, beta=0.75):
    x = tensor(x)
    square = T.pad(x.square().movedim(1, -1), (n // 2, n // 2)).unfold(-1, n, 1).sum(-1).movedim(-1, 1)
    return Variable(x / (k + alpha * square) ** beta)


def dropout(x, ratio=0.5):
    assert not config.train
    return Variable(tensor(x))


def fixed_batch_normalization(x, gamma, beta, mean, var, eps=2e-5, axis=None):
    return Variable(T.batch_norm(tensor(x), tensor(mean), tensor(var), tensor(gamma), tensor(beta), False, 0.0, eps))


def softmax_cross_entropy(x, t, normalize=True, cache_score=True, class_weight=None, ignore_label=-1, reduce="mean"):
    return Variable(T.cross_entropy(tensor(x), tensor(t).long(), ignore_index=ignore_label, reduction=reduce))


def accuracy(y, t, ignore_label=None):
    y, t = tensor(y), tensor(t)
    used = t != ignore_label if ignore_label is not None else torch.ones_like(t, dtype=torch.bool)
    return Variable((y.argmax(1) == t)[used].float().mean())


def lstm(c_prev, x):
    rows = tensor(x).reshape(len(x), -1, 4)
    a, i, f, o = torch.tanh(rows[:, :, 0]), *torch.sigmoid(rows[:, :, 1:]).unbind(2)
    c = a * i + f * tensor(c_prev)
    return Variable(c), Variable(o * torch.tanh(c))


def _regions(x, rois, indices, outsize, scale, aligned, samples, reduce):
    """Reduce cells of regions (top, left, bottom, right): pixels of rounded cells, or bilinear samples."""
    x, (rows, columns) = np.asarray(x), _pair(outsize)
    height, width = x.shape[2:]
    made = np.zeros((len(rois), x.shape[1], rows, columns), x.dtype)
    for number, (roi, image) in enumerate(zip(rois, indices)):
        if aligned:
            top, left, bottom, right = (roi * np.float32(scale)).astype(np.float64)
        else:
            top, left, bottom, right = (int(round(float(v) * scale)) for v in roi)
        sizes = [np.maximum(bottom - top, 1), np.maximum(right - left, 1)]
        for i in range(rows):
            for j in range(columns):
                if not aligned:
                    ys = [np.floor(top + i * sizes[0] / rows), np.ceil(top + (i + 1) * sizes[0] / rows)]
                    xs = [np.floor(left + j * sizes[1] / columns), np.ceil(left + (j + 1) * sizes[1] / columns)]
                    ys, xs = np.clip(ys, 0, height).astype(int), np.clip(xs, 0, width).astype(int)
                    cell = x[image, :, ys[0] : ys[1], xs[0] : xs[1]].reshape(x.shape[1], -1)
                    made[number, :, i, j] = reduce(cell, 1) if cell.size else 0
                    continue
                values = []
                for u in range(samples):
                    for v in range(samples):
                        y = top + i * sizes[0] / rows + (u + 0.5) * sizes[0] / rows / samples
                        z = left + j * sizes[1] / columns + (v + 0.5) * sizes[1] / columns / samples
                        values.append(_bilinear(x[image], y, z))
                made[number, :, i, j] = reduce(np.stack(values), 0)
    return Variable(made)


def _bilinear(image, y, x):
    height, width = image.shape[1:]
    if y < -1 or y > height or x < -1 or x > width:
        return np.zeros(len(image))
    y, x = np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)
    a, b = int(y), int(x)
    c, d = np.minimum(a + 1, height - 1), np.minimum(b + 1, width - 1)
    p, q = y - a, x - b
    return (1 - p) * ((1 - q) * image[:, a, b] + q * image[:, a, d]) + p * ((1 - q) * image[:, c, b] + q * image[:, c, d])


def roi_max_pooling_2d(x, rois, roi_indices, outsize, spatial_scale):
    return _regions(x, rois, roi_indices, outsize, spatial_scale, False, 0, np.max)


def roi_average_pooling_2d(x, rois, roi_indices, outsize, spatial_scale):
    return _regions(x, rois, roi_indices, outsize, spatial_scale, False, 0, np.mean)


def roi_max_align_2d(x, rois, roi_indices, outsize, spatial_scale, sampling_ratio=None):
    return _regions(x, rois, roi_indices, outsize, spatial_scale, True, sampling_ratio, np.max)


def roi_average_align_2d(x, rois, roi_indices, outsize, spatial_scale, sampling_ratio=None):
    return _regions(x, rois, roi_indices, outsize, spatial_scale, True, sampling_ratio, np.mean)

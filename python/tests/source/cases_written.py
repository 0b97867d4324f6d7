"""Calls of functions of NumPy and torch that the front end has written in terms of others (tables/*_written.py), and of their neighbors."""

import numpy as np

R = np.random.default_rng(7)
# Special numbers, and numbers as they come. Sizes are small: elimination and windows are unrolled.
E = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-8, -3.5, 2.5, 1e30], np.float32)
NUMPY_OPERANDS = {
    "x": R.standard_normal((4, 5)).astype(np.float32),
    "y": R.standard_normal((4, 5)).astype(np.float32),
    "v": R.standard_normal(6).astype(np.float32),
    "s": (R.standard_normal((4, 4)) + 3 * np.eye(4)).astype(np.float32),
    "e": E,
    "i": np.array([[2, 0, 1], [1, 1, 3]]),
    "n": np.array([1, 3, 0, 3, 2]),
    "b": np.array([True, False, True, True]),
    "t": R.standard_normal((2, 3, 4)).astype(np.float32),
    "u": R.standard_normal((2, 4, 3)).astype(np.float32),
}

# One for each row, by what it shows. Where an operand is `x`, the number of its rows may be open.
NUMPY = """
np.log1p(np.abs(x)); np.log1p(e[[0, 1, 2, 3, 4, 6, 7, 9, 10]]); np.log1p(i); np.expm1(x); np.expm1(e[:10]); np.exp2(x); np.exp2(i); np.log2(np.abs(x)); np.log10(np.abs(x) + 1)
np.logaddexp(x, y); np.logaddexp(e, e); np.logaddexp(e, 0.0); np.isfinite(e); np.isfinite(i); np.isposinf(e); np.isneginf(e); np.nan_to_num(e); np.nan_to_num(e, nan=2.0, posinf=5.0, neginf=-5.0); np.nan_to_num(i)
np.signbit(e); np.copysign(e, e[::-1]); np.copysign(x, -1); np.arctan2(x, y); np.arctan2(e[:, None], e[None, :]); np.hypot(x, y); np.hypot(e[:, None], e[None, :9]); np.fmax(e, e[::-1]); np.fmin(e, 0); np.fmod(x, 0.3); np.fmod(i, 2)
np.heaviside(e, 0.5); np.deg2rad(x); np.radians(x); np.rad2deg(x); np.degrees(i); np.cbrt(x); np.trunc(x); np.fix(x * 3); np.trunc(i); np.round(x, 1); np.around(x * 50, -1); np.round(x); np.round_(x, 2); np.rint(x); x.round(2); np.sinc(x); np.sinc(e[[0, 1, 2, 7]])
np.float_power(np.abs(x), 2); np.divmod(x, 0.3); np.positive(x); np.isclose(x, x + 1e-9); np.isclose(e, e[::-1]); np.isclose(e, e, equal_nan=True); np.allclose(x, y); np.allclose(x, x); np.array_equal(x, x.copy()); np.array_equal(x, v); np.array_equal(e, e, equal_nan=True)
np.isin(i, [1, 3]); np.isin(i, n, invert=True); np.select([x > 1, x > 0], [x, y], -1); np.count_nonzero(x > 0); np.count_nonzero(x > 0, axis=1); np.ptp(x, axis=1); x.ptp(); np.average(x); np.average(x, axis=0); np.average(x, axis=1, weights=np.arange(1, 6)); np.average(x, weights=y ** 2, returned=True)
np.quantile(x, 0.3); np.quantile(x, [0.1, 0.5, 1], axis=1); np.quantile(x, 0.5, axis=(0, 1)); np.percentile(x, 75, axis=0); np.percentile(x, 25, axis=1, keepdims=True); np.median(x); np.median(x, axis=1); np.median(i, axis=0, keepdims=True); np.median(e); np.median(t, axis=(0, 2))
np.nansum(e[[0, 2, 6, 8]]); np.nansum(x, axis=1); np.nanmean(e[[2, 6, 8]]); np.nanmax(e); np.nanmax(x, axis=0); np.nanmin(e[[2, 6, 8]]); np.trapz(x); np.trapz(x, dx=0.5, axis=0); np.trapz(v, np.arange(6)); np.prod(x, axis=1); np.std(x, ddof=1)
np.diff(x); np.diff(x, axis=0); np.diff(x, n=2); np.diff(v, prepend=0, append=[1.0, 2.0]); np.diff(b); np.ediff1d(x); np.flip(x); np.flip(x, 1); np.flip(t, (0, -1)); np.fliplr(x); np.flipud(x); np.rot90(x); np.rot90(x, 2); np.rot90(t, -1, (1, 2))
np.roll(x, 1); np.roll(x, -2, axis=1); np.roll(x, (1, 2), axis=(0, 1)); np.roll(x, 7, axis=0); np.repeat(x, 2); np.repeat(x, 3, axis=1); np.repeat(v, 0); np.repeat(n, [2, 0, 1, 3, 1]); x.repeat(2, axis=0); np.append(x, y); np.append(x, y, axis=0); np.append(v, 1.0)
np.delete(x, 1, axis=0); np.delete(x, -1, axis=1); np.delete(v, [0, 3]); np.delete(v, slice(1, 3)); np.delete(x, 4); np.insert(v, 2, 9); np.insert(v, -1, [7.0, 8.0]); np.insert(x, 1, 0, axis=0); np.insert(x, 0, np.arange(4), axis=1); np.compress(b, x, axis=0); np.compress([False, True], v); x.compress(b, 0); np.extract(x > 0, x)
np.nonzero(x > 0); (i > 1).nonzero(); np.argwhere(x > 0); np.flatnonzero(v > 0); np.searchsorted(np.sort(v), x); np.searchsorted([1, 3], n, side='right'); np.digitize(x, [-1.0, 0.0, 1.0]); np.digitize(n, [1, 2], right=True); np.bincount(n); np.bincount(n, minlength=8); np.bincount(n, v[:5]); np.interp(x, [-1.0, 0.0, 2.0], [3.0, 1.0, 5.0]); np.interp(v, [-1.0, 1.0], [0.0, 1.0], left=-9, right=9)
np.atleast_1d(x[0, 0], v); np.atleast_1d(2.0); np.atleast_2d(v); np.atleast_3d(x); np.atleast_3d(v); np.column_stack((v, v * 2)); np.column_stack((x, y)); np.dstack((x, y)); np.dstack((v, v)); np.broadcast_arrays(x, x[0]); np.meshgrid(v, n); np.meshgrid(v, n, x[0], indexing='ij'); np.meshgrid(v, n, sparse=True); np.indices((2, 3)); x[np.ix_([0, 2], [1, 3])]; x[np.ix_(b, [0])]
np.linspace(0, 1, 5); np.linspace(2, -3, 4, endpoint=False); np.linspace(0, 10, 4, dtype=int); np.linspace(x[0], y[0], 3); np.linspace(0, 1, 5, retstep=True); np.linspace(3, 4, 1); np.logspace(0, 2, 3); np.tri(3, 4, 1); np.diag(v); np.diag(v, 2); np.diag(v, -1); np.diag(x); np.diag(x, 1); np.diagflat(i); np.diagonal(t, 1, 1, 2); x.diagonal(-1); np.trace(x); t.trace(0, 1, 2); np.eye(3, 4, 1); np.identity(2)
np.triu_indices(4, 1); np.tril_indices(3, 0, 5); np.diag_indices(3); np.unravel_index(n, (2, 3)); np.vander(v, 3); np.vander(v, increasing=True); np.triu(x, 1); np.tril(t); np.sort(x); np.sort(x, axis=0); np.sort(x, axis=None); np.sort(b); np.sort(e); np.argsort(x); np.argsort(n); n.argsort(); np.argsort(x, axis=0); np.unique(i); np.unique(n, return_index=True, return_inverse=True, return_counts=True); np.unique(b); np.unique(i, axis=0)
np.moveaxis(t, 0, -1); np.moveaxis(t, [0, 1], [-1, 0]); np.rollaxis(t, 2); np.rollaxis(t, 0, 3); np.swapaxes(t, 0, 2); np.take_along_axis(x, np.argsort(x, 1), 1); np.take_along_axis(x, i[:1, :1], 0); np.take(x, [1, 2], axis=1); x.take([0, 7]); np.cumprod(x, axis=1); np.cumprod(v); x.cumprod(0); np.concatenate((x, y), axis=None)
np.dot(x, v[:5]); np.dot(x, y.T); np.dot(t, s); np.dot(t, u); np.dot(2.0, x); v.dot(v); np.outer(v, n); np.inner(x, y); np.inner(v, v); np.inner(x, 2.0); np.vdot(x, y); np.tensordot(x, y, axes=([1], [1])); np.tensordot(t, u, axes=([0, 2], [0, 1])); np.tensordot(x, y.T, 1); np.tensordot(v, n, 0); np.kron(v, n); np.kron(i, x); np.cross(x[:, :3], y[:, 2:]); np.cross(x[:, :2], y[:, :2]); np.cross(t, t[::-1], axis=1)
np.convolve(v, x[0, :3]); np.convolve(x[0, :3], v, 'valid'); np.convolve(v, v[:4], 'same'); np.correlate(v, v[:3]); np.correlate(v, v[:2], 'full'); np.linalg.norm(x); np.linalg.norm(x, axis=1); np.linalg.norm(v, 1); np.linalg.norm(v, np.inf); np.linalg.norm(v, 3); np.linalg.norm(v, 0); np.linalg.norm(x, 1); np.linalg.norm(x, np.inf); np.linalg.norm(x, 'fro', keepdims=True); np.linalg.norm(x, axis=0, keepdims=True); np.linalg.norm(t, axis=(1, 2)); np.linalg.norm(i)
np.linalg.matrix_power(s, 3); np.linalg.matrix_power(s, 0); np.linalg.multi_dot([x.T, s, x]); np.linalg.inv(s); np.linalg.inv(s[::-1]); np.linalg.solve(s, x); np.linalg.solve(s, b); np.linalg.det(s)
np.einsum('ij,kj->ik', x, y); np.einsum('ij->j', x); np.einsum('ij', x); np.einsum('ji', x); np.einsum('ii', s); np.einsum('ii->i', s); np.einsum('...ij,...jk->...ik', t, u); np.einsum('bij,bjk,kl->bil', t, u, i.T[:, :2]); np.einsum('i,j->ij', v, n); np.einsum('i,i->', n, n); np.einsum('b...->...', t); np.einsum('ij,ij->i', x, y); np.einsum('bii->bi', t[:, :3, :3])
np.arange(6) // 4; np.arange(-3, 4) % 2; np.ravel([[1, 2], [3, 4]]); np.promote_types(np.float32, np.int8).itemsize
"""

TORCH_OPERANDS = NUMPY_OPERANDS
TORCH = """
torch.atan2(x, y); torch.atan2(e[:, None], e[None, :]); x.arctan2(y); torch.hypot(x, y); torch.isfinite(e); e.isposinf(); torch.isneginf(e); torch.nan_to_num(e); e.nan_to_num(1.0, 2.0); e.signbit(); torch.copysign(x, e[3]); x.copysign(-1.0); torch.fmod(x, 0.3); i.fmod(2); torch.frac(x); torch.exp2(i); torch.sinc(x)
torch.xlogy(x.abs(), y.abs()); torch.logit(x.sigmoid()); torch.logit(x, eps=0.1); torch.deg2rad(x); x.rad2deg(); torch.heaviside(x, y); torch.fmax(e, e.flip(0)); x.fmin(y); x.sgn(); torch.float_power(x.abs(), 2); torch.round(x, decimals=1); x.round(); x.true_divide(2); i.divide(2); i.divide(2, rounding_mode='floor'); x.divide(0.3, rounding_mode='trunc'); x.subtract(y, alpha=2); torch.addcmul(x, x, y, value=0.5); x.addcdiv(y, y.abs() + 1)
torch.threshold(x, 0.1, 20.0); torch.hardshrink(x); x.hardshrink(0.1); F.softshrink(x, 0.2); torch.isclose(x, x + 1e-9); torch.allclose(x, y); x.equal(x); torch.isin(i, torch.tensor([1, 3])); torch.erfc(x); torch.celu(x); torch.log1p(x.abs()); torch.expm1(x)
torch.addmv(x[:, 0], x, x[0]); torch.addr(x, x[:, 0], x[0], beta=0.5); torch.outer(v, v); torch.ger(v, v); torch.inner(x, y); torch.vdot(v, v); torch.tensordot(x, y, dims=([1], [1])); torch.tensordot(t, u, dims=2) if t.shape[1] == u.shape[0] else x; torch.kron(v, x[0]); torch.cross(x[:, :3], y[:, 2:], dim=1); torch.cross(x[:3, :3], y[:3, :3]); torch.linalg.cross(x[:3, :3], y[:3, :3]); torch.chain_matmul(s, s, x); torch.det(s); torch.linalg.det(s); torch.logdet(s @ s.T); torch.inverse(s); torch.linalg.inv(s); torch.linalg.solve(s, x); torch.matrix_power(s, 2); torch.dist(x, y); torch.dist(x, y, 1)
torch.count_nonzero(x > 0); x.count_nonzero(1); torch.std_mean(x); torch.std_mean(x, False); torch.var_mean(x, dim=1, unbiased=False, keepdim=True); torch.aminmax(x); x.aminmax(dim=1); torch.nansum(e[:7:2]); x.nansum(1); x.nanmean(0); torch.quantile(x, 0.3); torch.quantile(x, 0.5, dim=1); x.median(); torch.median(x, 1); i.median(dim=1, keepdim=True); torch.kthvalue(x, 2).values; x.median(1).indices; torch.cummax(x, 1); torch.cummin(i, 0)
torch.unique(i); torch.unique(n, return_inverse=True, return_counts=True); i.unique(return_inverse=True); torch.bincount(n); torch.bincount(n, minlength=7); torch.searchsorted(v.sort()[0], x); torch.searchsorted(x.sort(1)[0], y, right=True); torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])); torch.logcumsumexp(x, 1); torch.diff(x); x.diff(dim=0); torch.trapezoid(x); torch.trapz(v, dx=0.5)
torch.roll(x, 1); x.roll(1, 0); x.roll((1, -1), (0, 1)); torch.rot90(x); x.rot90(3); torch.fliplr(x); x.flipud(); torch.repeat_interleave(x, 2); x.repeat_interleave(2, dim=1); torch.repeat_interleave(n, torch.tensor([1, 0, 2, 1, 3])); torch.moveaxis(t, 0, 2); x.ravel(); torch.atleast_1d(v); torch.atleast_2d(v); torch.atleast_3d(x); torch.column_stack((v, v)); torch.dstack((x, y)); torch.broadcast_tensors(x, x[0]); torch.block_diag(x, s); torch.cartesian_prod(v, n.float())
torch.diag(v, 1); x.diag(-1); torch.diag_embed(x); torch.diag_embed(x, 1, 0, 2); torch.trace(s); torch.tril_indices(3, 4, -1); torch.triu_indices(3, 3); torch.take(x, i); x.index_fill(1, n[:2], 5.0); x.index_copy(0, n[:2], y[:2]); torch.index_put(x, (n[:2], n[1:3]), torch.tensor([9.0, 8.0])); x.masked_scatter(y > 0, y); torch.logspace(0, 2, 3); F.pixel_unshuffle(t[:, None].repeat(1, 2, 2, 1), 2); F.channel_shuffle(t[:, :2, :, None].repeat(1, 2, 1, 1), 2)
torch.diagonal(t, 1, 1, 2); x.diagonal(); x.unfold(1, 2, 2); t.unfold(2, 3, 1); torch.einsum('...ij,...jk->...ik', t, u); torch.einsum('ii->i', s)
F.unfold(t[:, None], 2); F.unfold(t[:, None], (2, 3), padding=1, stride=2); F.unfold(t[:, None], 2, dilation=2); F.fold(F.unfold(t[:, None], 2), (3, 4), 2); F.lp_pool2d(t[:, None].abs(), 2, 2); F.lp_pool1d(t.abs(), 3, 2); F.affine_grid(t[:, :2, :3], [2, 1, 3, 2]); F.affine_grid(t[:, :2, :3], [2, 1, 3, 2], align_corners=True)
F.bilinear(x, y, torch.arange(50.0).reshape(2, 5, 5) / 50, torch.ones(2)); F.local_response_norm(t, 2); F.local_response_norm(t, 3); F.embedding_bag(i, x); F.embedding_bag(i, x, mode='sum'); F.huber_loss(x, y); F.huber_loss(x, y, reduction='sum', delta=0.5); F.multi_margin_loss(x, n[:4]); F.multi_margin_loss(x, n[:4], p=2, margin=0.5, reduction='none'); F.cosine_embedding_loss(x, y, torch.tensor([1, -1, 1, -1])); F.pairwise_distance(x, y); F.pairwise_distance(x, y, 1.0, keepdim=True)
F.triplet_margin_loss(x, y, x * 0.5); F.triplet_margin_loss(x, y, x, swap=True, reduction='none'); F.poisson_nll_loss(x, y.abs()); F.poisson_nll_loss(x.abs(), y.abs() * 3, log_input=False, full=True); F.kl_div(x.log_softmax(1), y.softmax(1), reduction='batchmean')
"""


def expressions(text):
    """Return the expressions of a table."""
    return [one.strip() for line in text.strip().splitlines() for one in line.split(";")]

"""Cases of torch: expressions of tensors, functions, and modules, by the families of Elichika's tests."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import xcvm

torch.manual_seed(0)
X = torch.randn(2, 3, 6, 8)
M = torch.randn(3, 5)
V = torch.randn(7)
I = torch.tensor([[2, 0], [1, 2]])  # noqa: E741

# Family: sources of one expression each, of x (2x3x6x8), m (3x5), v (7) and i (2x2 integers).
EXPRESSIONS = {
    "activations": [
        "torch.relu(x)", "F.leaky_relu(x, 0.2)", "F.leaky_relu(x)", "F.elu(x)", "F.elu(x, 0.5)", "F.selu(x)", "torch.sigmoid(x)",
        "F.softmax(x, dim=1)", "F.log_softmax(x, dim=-1)", "x.clamp(0, 2)", "torch.clamp(x, max=1)", "torch.tanh(x)", "F.gelu(x)", "F.silu(x)",
        "F.softplus(x)", "F.hardtanh(x)", "F.relu6(x * 9)", "F.hardsigmoid(x)", "F.hardswish(x)", "F.logsigmoid(x)", "F.softsign(x)", "F.mish(x)",
        "F.glu(x, 3)", "F.celu(x)", "x.softmax(-1)",
    ],
    "arg_min_max": [
        "x.argmax()", "x.argmax(1)", "x.argmin(dim=2, keepdim=True)", "torch.argmin(x)", "x.max(1)", "x.min(dim=2)", "x.max()", "torch.max(m, m * 2)",
        "x.amax((1, 2))", "x.amin(3, keepdim=True)", "torch.minimum(m, -m)", "x.max(1, keepdim=True)[0]", "x.max(1).indices",
    ],
    "math": [
        "x.sin()", "x.sinh()", "x.sign()", "x.cos()", "x.cosh()", "x.tan()", "torch.asin(x.tanh())", "torch.acos(x.tanh())", "torch.atan(x)",
        "x.exp()", "x.abs().log()", "x.abs()", "abs(x)", "x.abs().sqrt()", "x.round()", "x.ceil()", "x.floor()", "x.abs().rsqrt()", "x.reciprocal()",
        "x.erf()", "torch.log1p(x.abs())", "x.trunc()", "x ** 2", "x // 0.7", "x % 0.7", "2 ** m", "1 / x", "1 - x", "i // 2", "i / 2", "i % 2",
        "i + 1.5", "i * True", "-i", "i == 2", "m > 0", "(m > 0) & (m < 1)", "~(m > 0)", "m @ m.t()", "torch.add(m, m, alpha=2)", "x.square()",
        "torch.logaddexp(m, m * 2)", "torch.logaddexp(v - torch.inf, v - torch.inf)", "torch.cdist(m, m[1:] * 2)", "torch.cdist(m, m, p=1)",
        "torch.cdist(m, m * 2, 3.0)", "torch.where(m > 0, m, -m)", "torch.where(m > 0, m, 0.0)", "torch.lerp(m, m * 2, 0.3)", "m.pow(3)", "torch.isnan(m)", "m.log2()",
    ],
    "reductions": [
        "x.sum()", "x.sum(1)", "x.sum((1, 2))", "x.sum(dim=1, keepdim=True)", "torch.sum(x, dim=(0, 3), keepdim=True)", "x.mean()", "x.mean(2)",
        "x.mean((2, 3), keepdim=True)", "i.sum()", "(i > 1).sum()", "i.float().mean()", "m.prod(1)", "m.var(1)", "m.std(dim=1, unbiased=False)",
        "m.norm()", "m.norm(dim=1)", "m.logsumexp(1)", "v.cumsum(0)", "(m > 0).any()", "(m > 0).all(1)", "m.var()", "v.cumprod(0)", "torch.norm(m, p=1)",
    ],
    "shapes": [
        "torch.cat([m, m * 2], dim=0)", "torch.cat((m, m), 1)", "torch.stack([m, m])", "torch.stack((m, m), dim=-1)", "torch.hstack([v, v])",
        "torch.vstack([v, v])", "m.unbind(0)", "m.unbind(1)[2]", "m.split(2, dim=1)", "torch.split(m, [1, 4], dim=1)", "m.chunk(2, dim=1)",
        "torch.tensor_split(v, 3)", "torch.tensor_split(v, (2, 5))", "x.reshape(2, -1)", "x.view(2, 3, 48)", "x.reshape(x.shape[0], x.size(1), -1)",
        "x.transpose(1, 2)", "x.permute(3, 0, 1, 2)", "m.t()", "m.T", "m.unsqueeze(1)", "m[None].squeeze(0)", "m[:, None].squeeze()", "v.expand(3, 7)",
        "m[:, :1].expand(-1, 5)", "m.expand_as(torch.zeros(2, 3, 5))", "m.repeat(2, 1)", "x.flatten(1)", "x.flatten()", "torch.flip(m, [0])",
        "m.roll(1, 0)", "x.movedim(1, -1)", "m.narrow(1, 1, 2)", "m.select(0, 1)", "m.repeat_interleave(2, dim=0)", "torch.triu(m)", "m.tril(-1)",
        "x.numel()", "x.dim()", "x.shape", "list(x.shape)", "len(x)", "x.size()", "x.shape[1:]", "x.shape + (1,)", "m.swapaxes(0, 1)",
    ],
    "indexing": [
        "x[0]", "x[:, 1]", "x[..., -1]", "x[0, 1:, ::2]", "x[:, [0, 2]]", "m[i[0]]", "m[i]", "m[m > 0]", "x[i[1] - 1, :, 1]", "m[0, 1].item()", "m.gather(1, i)",
        "m[:, 1:3]", "torch.index_select(m, 1, i[0])", "m.masked_fill(m > 0, 9.0)", "m.topk(2)", "m.sort(1)[0]", "v.argsort()", "torch.nonzero(m > 0)",
        "F.one_hot(i, 4)", "F.embedding(i, m)", "m.masked_select(m > 0)", "torch.zeros(3, 5).scatter(1, i, 1.0)", "x[0][1]", "m[-1]", "m[-2:]", "m[None]",
        "i.tolist()", "v.tolist()[1:3]", "m[i[0, 0]]", "m[:, i[1]]",
    ],
    "creation": [
        "torch.zeros(2, 3)", "torch.ones((2, 3))", "torch.full((2, 2), 1.5)", "torch.zeros_like(m)", "torch.arange(5)", "torch.arange(1, 2, 0.25)",
        "torch.tensor([1, 2])", "torch.tensor([[1.0, 2], [3, 4]])", "torch.tensor([m[0, 0], m[1, 1]])", "torch.eye(3)", "m.new_zeros(2)",
        "torch.zeros(x.shape[0], m.size(1), dtype=torch.int64)", "m.long()", "m.to(torch.float64)", "i.float()", "m.type_as(i)", "torch.ones_like(i)",
        "torch.linspace(0, 1, 5)", "torch.full_like(m, 2)", "m.double().dtype == torch.float64",
    ],
    "layers": [
        "F.max_pool2d(x, 2)", "F.max_pool2d(x, 3, stride=2, padding=1)", "F.max_pool2d(x, 3, 2, ceil_mode=True)", "F.avg_pool2d(x, 2)",
        "F.avg_pool2d(x, 3, 2, 1)", "F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)", "F.adaptive_avg_pool2d(x, 1)", "F.adaptive_avg_pool2d(x, (3, 5))",
        "F.interpolate(x, scale_factor=2)", "F.interpolate(x, size=(9, 11), mode='bilinear', align_corners=True)",
        "F.interpolate(x, size=(9, 11), mode='bilinear', align_corners=False)", "F.pad(x, (1, 2))", "F.pad(x, (1, 1, 2, 2), mode='reflect')",
        "F.pad(m, (1, 0), value=3.0)", "F.local_response_norm(x, 3)", "F.layer_norm(x, (8,))", "F.normalize(m, dim=1)", "F.dropout(x, training=False)",
        "F.linear(m, m)", "F.conv2d(x, torch.ones(4, 3, 3, 3), padding=1)", "F.conv2d(x, torch.ones(4, 3, 3, 3), stride=(2, 1), padding='valid')",
        "F.conv2d(x, torch.ones(3, 1, 3, 3), groups=3, dilation=2)", "F.conv_transpose2d(x, torch.ones(3, 2, 3, 3), stride=2)",
        "F.conv1d(x[:, :, 0], torch.ones(2, 3, 3))", "F.pixel_shuffle(torch.cat([x, x[:, :1]], 1), 2)", "F.group_norm(x, 3)", "F.instance_norm(x)",
        "F.cosine_similarity(m, m * 2 + 1)", "F.max_pool1d(x[:, :, 0], 2)", "F.adaptive_max_pool2d(x, 2)",
    ],
    "losses": [
        "F.cross_entropy(m, i.flatten()[:3])", "F.nll_loss(F.log_softmax(m, 1), i.flatten()[:3], reduction='sum')", "F.mse_loss(m, m * 2)",
        "F.l1_loss(m, m * 2)", "F.smooth_l1_loss(m, m * 2)", "F.binary_cross_entropy(m.sigmoid(), (m > 0).float())",
        "F.binary_cross_entropy_with_logits(m, (m > 0).float())", "F.cross_entropy(m, i.flatten()[:3], label_smoothing=0.1)",
        "F.kl_div(F.log_softmax(m, 1), F.softmax(m * 2, 1), reduction='batchmean')", "F.cross_entropy(m, i.flatten()[:3], reduction='none')",
    ],
    "einsum": ["torch.einsum('ij,kj->ik', m, m)", "torch.einsum('bchw,cd->bdhw', x, m)", "torch.einsum('i,j->ij', v, v)", "torch.einsum('ij->j', m)"],
}  # fmt: skip


class Residual(nn.Module):
    def __init__(self, channels, down=False):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, stride=2 if down else 1)
        self.bn = nn.BatchNorm2d(channels)
        self.down = nn.Conv2d(channels, channels, 1, stride=2) if down else None

    def forward(self, x):
        y = F.relu(self.bn(self.conv(x)), inplace=True)
        if self.down is not None:
            x = self.down(x)
        y += x
        return y


class Chain(nn.Module):
    """Modules in lists, dicts and sequences; attributes by formatted names; children; hasattr."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Residual(3), Residual(3, True)])
        self.heads = nn.ModuleDict({"a": nn.Linear(36, 4), "b": nn.Sequential(nn.Flatten(), nn.Linear(36, 2))})
        self.fc0, self.fc1 = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, n):
        for block in self.blocks:
            x = block(x)
        out = {name: head(x.flatten(1)) for name, head in self.heads.items()}
        y = out["a"]
        for i in range(n):
            y = getattr(self, "fc%d" % (1 if i % 2 else 0))(y) if False else (self.fc0 if i % 2 == 0 else self.fc1)(y)
        return out, y, len(self.blocks), hasattr(self, "none")


class Decoder(nn.Module):
    """An attention decoder with state on self, lists of states, and a loop over output steps."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(10, 5)
        self.attend = nn.Linear(5, 5)
        self.out = nn.Linear(5, 4)
        self.embed = nn.Embedding(4, 5)
        self.memory = None

    def reset(self):
        self.memory = None

    def context(self, enc, h):
        if self.memory is None:
            self.memory = torch.tanh(self.attend(enc))
        weights = torch.softmax((self.memory * h.unsqueeze(1)).sum(2), dim=1)
        return (weights.unsqueeze(2) * enc).sum(1)

    def forward(self, enc, steps):
        self.reset()
        h = c = enc.new_zeros(enc.size(0), 5)
        y = torch.zeros(enc.size(0), dtype=torch.int64)
        scores = []
        for t in range(steps):
            z = torch.cat([self.embed(y), self.context(enc, h)], dim=1)
            h, c = self.cell(z, (h, c))
            s = self.out(h)
            y = s.argmax(1)
            scores.append(s)
            if (y == 3).all():
                break
        return torch.stack(scores, 1), y


class States(nn.Module):
    """States that are None at first, in lists that are stacked. The last list has None on some paths."""

    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList([nn.GRUCell(5, 5), nn.GRUCell(5, 5)])
        self.net = nn.RNN(5, 5)

    def forward(self, x, n: int):
        states, every, some, h = [None, None], [], [], None
        for i in range(n):
            y = x
            for k, cell in enumerate(self.cells):
                states[k] = y = cell(y, states[k])
            every.append(states[-1])
            _, h = self.net(y[None], h)
            some.append(None if i == 1 else y)
        if n == 0:
            return x
        some[0] = x
        return torch.stack(every, 1), torch.cat(states, 0), h, torch.cat(some)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 4, 3, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(8, 3, 2)
        self.rnn = nn.RNN(8, 3)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        z, g = self.gru(x.transpose(0, 1))
        return y, h, c, z, g, self.rnn(x.transpose(0, 1))[0]


class Packed(nn.Module):
    """Sequences of different lengths, which the lengths of the call pack."""

    def __init__(self, kind, **options):
        super().__init__()
        self.net = getattr(nn, kind)(5, 4, 2, **options)

    def forward(self, x, lengths, h):
        first = self.net.batch_first
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=first, enforce_sorted=False)
        packed = nn.utils.rnn.PackedSequence(packed.data * 2, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
        y, last = self.net(packed, (h, h * 2) if isinstance(self.net, nn.LSTM) else h)
        y, sizes = nn.utils.rnn.pad_packed_sequence(y, batch_first=first, padding_value=0.5, total_length=7)
        return y, sizes, last


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
        self.mha = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        y = self.encoder(x)
        z, w = self.mha(y, x, x)
        return y, z, w


class Routed(nn.Module):
    """Control flow on tensors."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 5)

    def forward(self, m, limit: float):
        steps = 0
        while m.norm() > limit and steps < 20:
            m = m * 0.5 if m.sum() > 0 else self.a(m) * 0.3
            steps += 1
        if bool(m[0, 0] > 0):
            return self.b(m), steps
        rows = [row for row in m if row.sum() > 0]
        m = m.clone()
        m[0] += 1
        return m, len(rows)


def modules():
    """Return modules with the arguments of several calls, in evaluation mode."""
    torch.manual_seed(1)
    E = torch.randn(2, 6, 5)
    lengths = [torch.tensor([4, 6]), torch.tensor([3, 1]), torch.tensor([5, 0])]
    return [
        (Chain().eval(), [(X, 0), (X * 2, 3)]),
        (Decoder().eval(), [(E, 1), (E, 5)]),
        (States().eval(), [(E[0], 1), (E[0], 0), (E[0], 2), (E[0], 4)]),
        (Recurrent().eval(), [(torch.randn(2, 7, 8),)]),
        (Packed("LSTM", batch_first=True, bidirectional=True).eval(), [(E, n, torch.ones(4, 2, 4)) for n in lengths]),
        (Packed("GRU").eval(), [(E.transpose(0, 1), n, torch.ones(2, 2, 4)) for n in lengths[:2]]),
        (Attention().eval(), [(torch.randn(2, 4, 8),)]),
        (Routed().eval(), [(M, 3.0), (M, 0.1), (-M, 0.5), (M * 3, 1.0), (-M, 9.0)]),
    ]


class Loss(nn.Module):
    """The mean of squares of what a module returns, times a buffer, which training does not change."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.register_buffer("scale", torch.tensor(1.5))

    def forward(self, *xs):
        made = self.inner(*xs)
        parts = [made]
        if isinstance(made, tuple):
            parts = [made[0], *(made[-1] if isinstance(made[-1], tuple) else made[-1:])]
        return sum((part * self.scale).square().mean() for part in parts)


def trained():
    """Return losses of modules whose weights are put together for an instruction, with arguments."""
    torch.manual_seed(2)
    x = torch.randn(3, 2, 4)
    made = [
        getattr(nn, kind)(4, 3, **options)
        for kind in ("LSTM", "GRU", "RNN")
        for options in ({}, {"num_layers": 2, "bidirectional": True, "batch_first": True}, {"bias": False})
    ]
    packed = Packed("LSTM", batch_first=True)
    frozen = nn.GRU(4, 3)
    frozen.bias_hh_l0.requires_grad_(False)
    attention = [nn.MultiheadAttention(4, 2, bias=bias) for bias in (True, False)] + [nn.MultiheadAttention(4, 2, kdim=5, vdim=6)]
    return [
        *((Loss(module).eval(), (x,)) for module in (*made, frozen)),
        (Loss(packed).eval(), (torch.randn(2, 6, 5), xcvm.const(torch.tensor([4, 6])), torch.ones(2, 2, 4))),
        *((Loss(module).eval(), (x, x, x)) for module in attention[:2]),
        (Loss(attention[2]).eval(), (x, torch.randn(5, 2, 5), torch.randn(5, 2, 6))),
    ]


__all__ = ["EXPRESSIONS", "modules", "np", "trained"]

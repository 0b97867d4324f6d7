"""Rows of torch.nn.functional, and of the modules of torch.nn whose source does not say what they compute."""

from __future__ import annotations

import math
from typing import Any

from ..core import FALSE, NONE, TRUE
from ..errors import NeedsConstant, PythonError, Refusal
from ..values import Array, Const, Reference, Slice, Tuple, Value
from . import functions, methods, modules
from .shared import axes_of, dtype_name, floating, is_none, numbers, reduce, same_padding, unary

M = Any
T = "torch"
F = "torch.nn.functional."


def _flag(m: M, value: Value) -> bool:
    return bool(m.constant_of(value, "flag"))


# ---- Activations ----

for _names, _op in {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "softsign": "Softsign", "hardswish": "HardSwish", "mish": "Mish"}.items():
    _row = unary(_op, as_float=_op not in ("Relu",))

    def _activation(m: M, input: Value, inplace: Value = FALSE, _row: Any = _row) -> Value:
        made = _row(m, input)
        if _flag(m, inplace) and isinstance(m.settle(input), Array):
            m.write_array(m.settle(input), m.read_array(made))
            return m.settle(input)
        return made

    functions(F + _names)(_activation)
functions("torch.relu_")(lambda m, input: _activation(m, input, TRUE))


def _parametric(names: str, op: str, **spelled: tuple[str, float]) -> None:
    """Make rows of activations with numbers: attribute=(torch's name, default)."""

    def row(m: M, input: Value, *values: Value, **named: Value) -> Value:
        rest = list(values)
        attributes = {}
        for attribute, (name, default) in spelled.items():
            value = rest.pop(0) if rest else named.get(name)
            attributes[attribute] = default if value is None else float(m.constant_of(value, name))
        made = m.array(m.op(op, floating(m, input), **attributes), T)
        inplace = rest.pop(0) if rest else named.get("inplace", FALSE)
        if _flag(m, inplace):
            m.write_array(m.settle(input), m.read_array(made))
            return m.settle(input)
        return made

    row.__name__ = op
    row.keywords = frozenset([*(name for name, _ in spelled.values()), "inplace"])  # type: ignore[attr-defined]
    functions(*[(F + n if "." not in n else n) for n in names.split()])(row)


_parametric("leaky_relu", "LeakyRelu", alpha=("negative_slope", 0.01))
_parametric("elu", "Elu", alpha=("alpha", 1.0))
_parametric("celu torch.celu", "Celu", alpha=("alpha", 1.0))
_parametric("selu torch.selu", "Selu")


@functions(F + "hardtanh", F + "relu6")
def hardtanh(m: M, input: Value, min_val: Value = Const(-1.0), max_val: Value = Const(1.0), inplace: Value = FALSE) -> Value:
    from .numpy import clamped

    return clamped(m, input, min_val, max_val)


functions(F + "relu6")(lambda m, input, inplace=FALSE: hardtanh(m, input, Const(0.0), Const(6.0)))
functions(F + "hardsigmoid")(lambda m, input, inplace=FALSE: m.array(m.op("HardSigmoid", floating(m, input), alpha=1 / 6, beta=0.5), T))


@functions(F + "silu")
def silu(m: M, input: Value, inplace: Value = FALSE) -> Value:
    at = floating(m, input)
    return m.array(m.op("Mul", at, m.op("Sigmoid", at)), T)


@functions(F + "gelu", "torch._C._nn.gelu")
def gelu(m: M, input: Value, approximate: Value = Const("none")) -> Value:
    return m.array(m.op("Gelu", floating(m, input), approximate=m.constant_of(approximate)), T)


@functions(F + "softplus", "torch._C._nn.softplus")
def softplus(m: M, input: Value, beta: Value = Const(1), threshold: Value = Const(20)) -> Value:
    number = m.constant_of(beta)
    at = floating(m, input)
    if number == 1:
        return m.array(m.op("Softplus", at), T)
    scale = m.constant(float(number), at.type.dtype)
    return m.array(m.op("Div", m.op("Softplus", m.op("Mul", at, scale)), scale), T)


@functions(F + "logsigmoid", "torch._C._nn.log_sigmoid")
def logsigmoid(m: M, input: Value) -> Value:
    return m.array(m.op("Neg", m.op("Softplus", m.op("Neg", floating(m, input)))), T)


@functions(F + "glu")
def glu(m: M, input: Value, dim: Value = Const(-1)) -> Value:
    from .torch import chunk

    a, b = chunk(m, input, Const(2), dim).items  # type: ignore[attr-defined]
    return m.binary("*", a, m.array(m.op("Sigmoid", m.read_array(b)), T))


@functions(F + "prelu", "torch.prelu")
def prelu(m: M, input: Value, weight: Value) -> Value:
    at, slope = m.tensor(input), m.tensor(weight)
    if m.rank(at) > 2 or m.rank(at) == 2:
        slope = m.op("Reshape", slope, m.ints([-1] + [1] * (m.rank(at) - 2)))
    return m.array(m.op("PRelu", at, slope), T)


def _soft(op: str) -> Any:
    def row(m: M, input: Value, dim: Value = NONE, _stacklevel: Value = NONE, dtype: Value = NONE) -> Value:
        at = m.tensor(input)
        kind = dtype_name(m, dtype)
        at = m.cast(at, kind) if kind else floating(m, input)
        if m.rank(at) == 0:
            at = m.op("Unsqueeze", at, m.ints([0]))
            return m.array(m.op("Squeeze", m.op(op, at, axis=0), m.ints([0])), T)
        axis = m.axis(dim, m.rank(at)) if not is_none(dim) else (0 if m.rank(at) in (0, 1, 3) else 1)
        return m.array(m.op(op, at, axis=axis), T)

    row.__name__ = op
    return row


for _name, _op in {"softmax": "Softmax", "log_softmax": "LogSoftmax"}.items():
    functions(F + _name)(_soft(_op))
    _plain = _soft(_op)

    def _typed(m: M, input: Value, dim: Value = NONE, dtype: Value = NONE, _plain: Any = _plain) -> Value:
        return _plain(m, input, dim, NONE, dtype)

    functions("torch." + _name)(_typed)
    methods(T, _name)(_typed)


@functions(F + "softmin")
def softmin(m: M, input: Value, dim: Value = NONE, *rest: Value) -> Value:
    return _soft("Softmax")(m, m.unary("-", input), dim)


@functions(F + "dropout", F + "dropout1d", F + "dropout2d", F + "dropout3d", F + "alpha_dropout", F + "feature_alpha_dropout", "torch.dropout")
def dropout(m: M, input: Value, p: Value = Const(0.5), training: Value = TRUE, inplace: Value = FALSE) -> Value:
    if _flag(m, training) and m.constant_of(p) > 0:
        m.refuse("dropout in training mode is random", "Call model.eval() first")
    return input


# ---- Linear, convolutions, pools ----


@functions(F + "linear", "torch._C._nn.linear")
def linear(m: M, input: Value, weight: Value, bias: Value = NONE) -> Value:
    at, w = m.tensor(input), m.tensor(weight)
    b = None if is_none(bias) else m.tensor(bias)
    if m.rank(at) == 2:
        return m.array(m.op("Gemm", at, w, b, transB=1), T)
    made = m.op("MatMul", at, m.op("Transpose", w, perm=[1, 0]))
    return m.array(made if b is None else m.op("Add", made, b), T)


def _conv(rank: int) -> Any:
    def row(
        m: M, input: Value, weight: Value, bias: Value = NONE, stride: Value = Const(1), padding: Value = Const(0),
        dilation: Value = Const(1), groups: Value = Const(1),
    ) -> Value:  # fmt: skip
        at, w = m.tensor(input), m.tensor(weight)
        single = m.rank(at) == rank + 1
        if single:
            at = m.op("Unsqueeze", at, m.ints([0]))
        dilations = numbers(m, dilation, rank)
        padding = m.settle(padding)
        if isinstance(padding, Const) and isinstance(padding.value, str):
            pads = same_padding(m, list(w.type.dims[2:]), dilations) if padding.value == "same" else [0] * 2 * rank
        else:
            pads = numbers(m, padding, rank) * 2
        made = m.op(
            "Conv", at, w, None if is_none(bias) else m.tensor(bias), strides=numbers(m, stride, rank), pads=pads, dilations=dilations,
            group=m.constant_of(groups),
        )  # fmt: skip
        return m.array(m.op("Squeeze", made, m.ints([0])) if single else made, T)

    row.__name__ = f"conv{rank}d"
    return row


def _conv_transpose(rank: int) -> Any:
    def row(
        m: M, input: Value, weight: Value, bias: Value = NONE, stride: Value = Const(1), padding: Value = Const(0),
        output_padding: Value = Const(0), groups: Value = Const(1), dilation: Value = Const(1),
    ) -> Value:  # fmt: skip
        return m.array(
            m.op(
                "ConvTranspose", m.tensor(input), m.tensor(weight), None if is_none(bias) else m.tensor(bias),
                strides=numbers(m, stride, rank), pads=numbers(m, padding, rank) * 2, output_padding=numbers(m, output_padding, rank),
                group=m.constant_of(groups), dilations=numbers(m, dilation, rank),
            ),
            T,
        )  # fmt: skip

    row.__name__ = f"conv_transpose{rank}d"
    return row


def _pool(op: str, rank: int) -> Any:
    def finish(m: M, input: Value, attributes: dict[str, Any]) -> Value:
        at = m.tensor(input)
        single = m.rank(at) == rank + 1
        if single:
            at = m.op("Unsqueeze", at, m.ints([0]))
        made = m.op(op, at, **attributes)
        return m.array(m.op("Squeeze", made, m.ints([0])) if single else made, T)

    def average(
        m: M, input: Value, kernel_size: Value, stride: Value = NONE, padding: Value = Const(0), ceil_mode: Value = FALSE,
        count_include_pad: Value = TRUE, divisor_override: Value = NONE,
    ) -> Value:  # fmt: skip
        if not is_none(divisor_override):
            m.refuse("divisor_override is not supported")
        return finish(m, input, _window(m, rank, kernel_size, stride, padding, ceil_mode) | {"count_include_pad": int(_flag(m, count_include_pad))})

    def maximum(
        m: M, input: Value, kernel_size: Value, stride: Value = NONE, padding: Value = Const(0), dilation: Value = Const(1),
        ceil_mode: Value = FALSE, return_indices: Value = FALSE,
    ) -> Value:  # fmt: skip
        window = _window(m, rank, kernel_size, stride, padding, ceil_mode) | {"dilations": numbers(m, dilation, rank)}
        if _flag(m, return_indices):
            made = m.op(op, m.tensor(input), count=2, **window)
            return Tuple(tuple(m.array(v, T) for v in made))
        return finish(m, input, window)

    return average if op == "AveragePool" else maximum


def _window(m: M, rank: int, kernel: Value, stride: Value, padding: Value, ceil_mode: Value) -> dict[str, Any]:
    sizes = numbers(m, kernel, rank)
    stride = m.settle(stride)
    empty = is_none(stride) or (m.is_list(stride) and not m.items_of(stride))
    return {
        "kernel_shape": sizes,
        "strides": sizes if empty else numbers(m, stride, rank),
        "pads": numbers(m, padding, rank) * 2,
        "ceil_mode": int(_flag(m, ceil_mode)),
    }


def _adaptive(op: str, rank: int) -> Any:
    def row(m: M, input: Value, output_size: Value, return_indices: Value = FALSE) -> Value:
        at = m.tensor(input)
        first = m.rank(at) - rank
        output_size = m.settle(output_size)
        wanted = [m.constant_of(output_size)] * rank if m.kind_of(output_size) else [m.constant_of(v) for v in m.items_of(output_size)]
        axes = list(range(first, first + rank))
        if all(size == 1 for size in wanted):
            return m.array(m.op("ReduceMean" if op == "AveragePool" else "ReduceMax", at, m.ints(axes), keepdims=1), T)
        for axis, size in zip(axes, wanted):
            have = m.dimension(at, axis)
            if size is None:
                continue
            if not isinstance(have, Const):
                raise NeedsConstant("adaptive pooling needs sizes that are known when the program is compiled")
            parts = [(i * have.value // size, -(-(i + 1) * have.value // size)) for i in range(size)]
            if have.value % size == 0 and False:
                continue
            rows = []
            for start, stop in parts:
                piece = m.op("Slice", at, m.ints([start]), m.ints([stop]), m.ints([axis]))
                rows.append(m.op("ReduceMean" if op == "AveragePool" else "ReduceMax", piece, m.ints([axis]), keepdims=1))
            if have.value != size:
                at = m.op("Concat", *rows, axis=axis)
        return m.array(at, T)

    return row


for _rank in (1, 2, 3):
    functions(f"{F}conv{_rank}d", f"torch.conv{_rank}d")(_conv(_rank))
    functions(f"{F}conv_transpose{_rank}d", f"torch.conv_transpose{_rank}d")(_conv_transpose(_rank))
    functions(f"{F}avg_pool{_rank}d", f"torch._C._nn.avg_pool{_rank}d", f"torch.avg_pool{_rank}d")(_pool("AveragePool", _rank))
    functions(f"{F}max_pool{_rank}d", f"torch.max_pool{_rank}d")(_pool("MaxPool", _rank))
    functions(f"{F}adaptive_avg_pool{_rank}d")(_adaptive("AveragePool", _rank))
    functions(f"{F}adaptive_max_pool{_rank}d")(_adaptive("MaxPool", _rank))

# ---- Normalization ----


@functions(F + "batch_norm", "torch.batch_norm")
def batch_norm(
    m: M, input: Value, running_mean: Value, running_var: Value, weight: Value = NONE, bias: Value = NONE, training: Value = FALSE,
    momentum: Value = Const(0.1), eps: Value = Const(1e-5),
) -> Value:  # fmt: skip
    at = m.tensor(input)
    if _flag(m, training):
        m.refuse("batch normalization in training mode changes its statistics", "Call model.eval() first")
    mean, variance = m.tensor(running_mean), m.tensor(running_var)
    import numpy

    def vector(value: Value, fill: float) -> Any:
        return m.constant(numpy.full(mean.type.dims, fill, "float32"), at.type.dtype) if is_none(value) else m.tensor(value)

    return m.array(
        m.op("BatchNormalization", at, vector(weight, 1), vector(bias, 0), mean, variance, epsilon=float(m.constant_of(eps))), T
    )


@functions(F + "layer_norm", "torch.layer_norm")
def layer_norm(m: M, input: Value, normalized_shape: Value, weight: Value = NONE, bias: Value = NONE, eps: Value = Const(1e-5), *rest: Value) -> Value:
    at = m.tensor(input)
    scale = None if is_none(weight) else m.tensor(weight)
    shift = None if is_none(bias) else m.tensor(bias)
    axis = m.rank(at) - len(m.size_list(normalized_shape))
    return m.array(m.op("LayerNormalization", at, scale, shift, axis=axis, epsilon=float(m.constant_of(eps))), T)


@functions(F + "group_norm", "torch.group_norm")
def group_norm(m: M, input: Value, num_groups: Value, weight: Value = NONE, bias: Value = NONE, eps: Value = Const(1e-5), *rest: Value) -> Value:
    at = m.tensor(input)
    import numpy

    channels = (at.type.dims[1],)
    scale = m.constant(numpy.ones(channels, "float32")) if is_none(weight) else m.tensor(weight)
    shift = m.constant(numpy.zeros(channels, "float32")) if is_none(bias) else m.tensor(bias)
    return m.array(m.op("GroupNormalization", at, scale, shift, num_groups=m.constant_of(num_groups), epsilon=float(m.constant_of(eps))), T)


@functions(F + "instance_norm", "torch.instance_norm")
def instance_norm(
    m: M, input: Value, running_mean: Value = NONE, running_var: Value = NONE, weight: Value = NONE, bias: Value = NONE,
    use_input_stats: Value = TRUE, momentum: Value = Const(0.1), eps: Value = Const(1e-5), *rest: Value,
) -> Value:  # fmt: skip
    at = m.tensor(input)
    if not _flag(m, use_input_stats):
        return batch_norm(m, input, running_mean, running_var, weight, bias, FALSE, momentum, eps)
    import numpy

    channels = (at.type.dims[1],)
    scale = m.constant(numpy.ones(channels, "float32")) if is_none(weight) else m.tensor(weight)
    shift = m.constant(numpy.zeros(channels, "float32")) if is_none(bias) else m.tensor(bias)
    return m.array(m.op("InstanceNormalization", at, scale, shift, epsilon=float(m.constant_of(eps))), T)


@functions(F + "fold", "torch._C._nn.col2im")
def fold(
    m: M, input: Value, output_size: Value, kernel_size: Value, dilation: Value = Const(1), padding: Value = Const(0), stride: Value = Const(1)
) -> Value:
    at = m.tensor(input)
    single = m.rank(at) == 2
    if single:
        at = m.op("Unsqueeze", at, m.ints([0]))
    size = m.sizes(m.size_list(output_size)) if not m.kind_of(m.settle(output_size)) else m.ints(numbers(m, output_size, 2))
    made = m.op(
        "Col2Im", at, size, m.ints(numbers(m, kernel_size, 2)), strides=numbers(m, stride, 2), pads=numbers(m, padding, 2) * 2,
        dilations=numbers(m, dilation, 2),
    )  # fmt: skip
    return m.array(m.op("Squeeze", made, m.ints([0])) if single else made, T)


@functions(F + "normalize")
def normalize(m: M, input: Value, p: Value = Const(2.0), dim: Value = Const(1), eps: Value = Const(1e-12), out: Value = NONE) -> Value:
    from .numpy import clamped
    from .torch import norm

    return m.binary("/", input, clamped(m, norm(m, input, p, dim, TRUE), eps, NONE))


# ---- Embedding, losses ----


@functions(F + "embedding", "torch.embedding")
def embedding(
    m: M, input: Value, weight: Value, padding_idx: Value = NONE, max_norm: Value = NONE, norm_type: Value = NONE,
    scale_grad_by_freq: Value = NONE, sparse: Value = NONE,
) -> Value:  # fmt: skip
    if not is_none(m.settle(max_norm)):
        m.refuse("an embedding with max_norm changes its weights")
    first, second = m.tensor(input), m.tensor(weight)
    if m.float_dtype(first.type.dtype):
        first, second = second, first
    return m.array(m.op("Gather", second, m.cast(first, "i64"), axis=0), T)


@functions(F + "one_hot")
def one_hot(m: M, tensor: Value, num_classes: Value = Const(-1)) -> Value:
    at = m.tensor(tensor)
    count = m.constant_of(num_classes)
    size = m.op("Add", m.op("ReduceMax", at, keepdims=0), m.constant(1, "i64")) if count < 0 else m.constant(count, "i64")
    return m.array(m.op("OneHot", at, size, m.constant([0, 1], "i64"), axis=-1), T)


def _reduced_loss(m: M, at: Any, reduction: Value) -> Value:
    kind = m.constant_of(reduction)
    return m.array(at if kind == "none" else m.op("ReduceMean" if kind == "mean" else "ReduceSum", at, keepdims=0), T)


@functions(F + "nll_loss")
def nll_loss(
    m: M, input: Value, target: Value, weight: Value = NONE, size_average: Value = NONE, ignore_index: Value = Const(-100),
    reduce: Value = NONE, reduction: Value = Const("mean"),
) -> Value:  # fmt: skip
    at, labels = m.tensor(input), m.tensor(target)
    if m.rank(at) == 1:
        at, labels = m.op("Unsqueeze", at, m.ints([0])), m.op("Reshape", labels, m.ints([1]))
    made = m.op(
        "NegativeLogLikelihoodLoss", at, labels, None if is_none(weight) else m.tensor(weight), ignore_index=m.constant_of(ignore_index),
        reduction=m.constant_of(reduction),
    )  # fmt: skip
    return m.array(made, T)


@functions(F + "cross_entropy", "torch._C._nn.cross_entropy_loss")
def cross_entropy(
    m: M, input: Value, target: Value, weight: Value = NONE, size_average: Value = NONE, ignore_index: Value = Const(-100),
    reduce: Value = NONE, reduction: Value = Const("mean"), label_smoothing: Value = Const(0.0),
) -> Value:  # fmt: skip
    at = m.tensor(input)
    labels = m.tensor(target)
    axis = 1 if m.rank(at) > 1 else 0
    scores = m.array(m.op("LogSoftmax", at, axis=axis), T)
    if m.float_dtype(labels.type.dtype):
        product = m.op("ReduceSum", m.op("Mul", labels, m.read_array(scores)), m.ints([axis]), keepdims=0)
        return _reduced_loss(m, m.op("Neg", product), reduction)
    smoothing = m.constant_of(label_smoothing)
    plain = nll_loss(m, scores, target, weight, NONE, ignore_index, NONE, reduction)
    if not smoothing:
        return plain
    if not is_none(weight) or m.constant_of(reduction) == "none":
        m.refuse("label smoothing with weights or without reduction is not supported")
    spread = m.op("Neg", m.op("ReduceMean", m.read_array(scores), m.ints([axis]), keepdims=0))
    smooth = _reduced_loss(m, spread, reduction)
    return m.binary("+", m.binary("*", plain, Const(1 - smoothing)), m.binary("*", smooth, Const(float(smoothing))))


@functions(F + "mse_loss")
def mse_loss(m: M, input: Value, target: Value, *rest: Value, reduction: Value = Const("mean")) -> Value:
    difference = m.tensor(m.binary("-", input, target))
    return _reduced_loss(m, m.op("Mul", difference, difference), reduction)


@functions(F + "l1_loss")
def l1_loss(m: M, input: Value, target: Value, *rest: Value, reduction: Value = Const("mean")) -> Value:
    return _reduced_loss(m, m.op("Abs", m.tensor(m.binary("-", input, target))), reduction)


@functions(F + "smooth_l1_loss")
def smooth_l1_loss(m: M, input: Value, target: Value, *rest: Value, reduction: Value = Const("mean"), beta: Value = Const(1.0)) -> Value:
    at = m.op("Abs", m.tensor(m.binary("-", input, target)))
    b = m.constant(float(m.constant_of(beta)), at.type.dtype)
    half = m.constant(0.5, at.type.dtype)
    squares = m.op("Div", m.op("Mul", half, m.op("Mul", at, at)), b)
    return _reduced_loss(m, m.op("Where", m.op("Less", at, b), squares, m.op("Sub", at, m.op("Mul", half, b))), reduction)


@functions(F + "binary_cross_entropy")
def binary_cross_entropy(m: M, input: Value, target: Value, weight: Value = NONE, *rest: Value, reduction: Value = Const("mean")) -> Value:
    p, t = m.tensor(input), m.tensor(target)
    one, low = m.constant(1, p.type.dtype), m.constant(-100, p.type.dtype)
    yes = m.op("Mul", t, m.op("Max", m.op("Log", p), low))
    no = m.op("Mul", m.op("Sub", one, t), m.op("Max", m.op("Log", m.op("Sub", one, p)), low))
    loss = m.op("Neg", m.op("Add", yes, no))
    return _reduced_loss(m, loss if is_none(weight) else m.op("Mul", loss, m.tensor(weight)), reduction)


@functions(F + "binary_cross_entropy_with_logits")
def bce_with_logits(
    m: M, input: Value, target: Value, weight: Value = NONE, *rest: Value, reduction: Value = Const("mean"), pos_weight: Value = NONE
) -> Value:
    x, t = m.tensor(input), m.tensor(target)
    if not is_none(pos_weight):
        m.refuse("pos_weight is not supported")
    loss = m.op("Sub", m.op("Softplus", x), m.op("Mul", x, t))
    return _reduced_loss(m, loss if is_none(weight) else m.op("Mul", loss, m.tensor(weight)), reduction)


@functions(F + "kl_div")
def kl_div(m: M, input: Value, target: Value, *rest: Value, reduction: Value = Const("mean"), log_target: Value = FALSE) -> Value:
    x, t = m.tensor(input), m.tensor(target)
    if _flag(m, log_target):
        made = m.op("Mul", m.op("Exp", t), m.op("Sub", t, x))
    else:
        zero = m.constant(0, t.type.dtype)
        made = m.op("Where", m.op("Equal", t, zero), zero, m.op("Mul", t, m.op("Sub", m.op("Log", t), x)))
    if m.constant_of(reduction) == "batchmean":
        return m.binary("/", m.array(m.op("ReduceSum", made, keepdims=0), T), m.dimension(x, 0))
    return _reduced_loss(m, made, reduction)


@functions(F + "cosine_similarity", "torch.cosine_similarity")
def cosine_similarity(m: M, x1: Value, x2: Value, dim: Value = Const(1), eps: Value = Const(1e-8)) -> Value:
    product = m.array(reduce(m, "ReduceSum", m.tensor(m.binary("*", x1, x2)), dim, FALSE), T)
    from .numpy import clamped

    lengths = [clamped(m, m.array(reduce(m, "ReduceL2", m.tensor(x), dim, FALSE), T), eps, NONE) for x in (x1, x2)]
    return m.binary("/", product, m.binary("*", lengths[0], lengths[1]))


# ---- Images ----


@functions(F + "pad", "torch._C._nn.pad")
def pad(m: M, input: Value, pad: Value, mode: Value = Const("constant"), value: Value = NONE) -> Value:
    at = m.tensor(input)
    rank = m.rank(at)
    sizes = [m.integer(v) for v in m.items_of(pad)]
    starts: list[Value] = [Const(0)] * rank
    ends: list[Value] = [Const(0)] * rank
    for index in range(len(sizes) // 2):
        starts[rank - 1 - index], ends[rank - 1 - index] = sizes[2 * index], sizes[2 * index + 1]
    name = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[m.constant_of(mode)]
    fill = m.number_value(Const(0) if is_none(value) else value, at.type.dtype) if name == "constant" else None
    return m.array(m.op("Pad", at, m.sizes([*starts, *ends]), fill, mode=name), T)


@functions(F + "interpolate", F + "upsample")
def interpolate(
    m: M, input: Value, size: Value = NONE, scale_factor: Value = NONE, mode: Value = Const("nearest"), align_corners: Value = NONE,
    recompute_scale_factor: Value = NONE, antialias: Value = FALSE,
) -> Value:  # fmt: skip
    at = m.tensor(input)
    rank = m.rank(at) - 2
    name = m.constant_of(mode)
    axes = list(range(2, rank + 2))
    aligned = not is_none(align_corners) and _flag(m, align_corners)
    attributes: dict[str, Any] = {"axes": axes, "mode": {"nearest": "nearest", "bicubic": "cubic"}.get(name, "linear")}
    if name == "nearest":
        attributes |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    else:
        attributes["coordinate_transformation_mode"] = "align_corners" if aligned else "pytorch_half_pixel"
    if name == "area":
        m.refuse("interpolate(mode='area') is not supported", "Use adaptive_avg_pool2d")
    if not is_none(size):
        wanted = m.size_list(size)
        sizes = m.sizes(wanted * rank if len(wanted) == 1 else wanted)
        return m.array(m.op("Resize", at, None, None, sizes, **attributes), T)
    factor = m.settle(scale_factor)
    factors = [m.constant_of(factor)] * rank if m.kind_of(factor) else [m.constant_of(v) for v in m.items_of(factor)]
    return m.array(m.op("Resize", at, None, m.constant([float(f) for f in factors], "f32"), **attributes), T)


@functions(F + "pixel_shuffle", "torch.pixel_shuffle")
def pixel_shuffle(m: M, input: Value, upscale_factor: Value) -> Value:
    return m.array(m.op("DepthToSpace", m.tensor(input), blocksize=m.constant_of(upscale_factor), mode="CRD"), T)


@functions(F + "grid_sample")
def grid_sample(m: M, input: Value, grid: Value, mode: Value = Const("bilinear"), padding_mode: Value = Const("zeros"), align_corners: Value = FALSE) -> Value:
    name = {"bilinear": "linear", "bicubic": "cubic"}.get(m.constant_of(mode), "nearest")
    aligned = 0 if is_none(align_corners) else int(_flag(m, align_corners))
    return m.array(m.op("GridSample", m.tensor(input), m.tensor(grid), mode=name, padding_mode=m.constant_of(padding_mode), align_corners=aligned), T)


# ---- Attention ----


@functions(F + "scaled_dot_product_attention", "torch._C._nn.scaled_dot_product_attention", F + "_scaled_dot_product_attention")
def attention(
    m: M, query: Value, key: Value, value: Value, attn_mask: Value = NONE, dropout_p: Value = Const(0.0), is_causal: Value = FALSE,
    scale: Value = NONE, **options: Value,
) -> Value:  # fmt: skip
    q, k, v = m.tensor(query), m.tensor(key), m.tensor(value)
    width = q.type.dims[-1]
    factor = 1 / math.sqrt(width) if is_none(scale) else m.constant_of(scale)
    order = list(range(m.rank(k)))
    order[-1], order[-2] = order[-2], order[-1]
    scores = m.op("MatMul", m.op("Mul", q, m.constant(float(factor), q.type.dtype)), m.op("Transpose", k, perm=order))
    mask = m.settle(attn_mask)
    if _flag(m, is_causal):
        size = m.op("Shape", scores, start=m.rank(scores) - 2)
        ones = m.op("Expand", m.constant(1, "i32"), size)
        mask = m.array(m.cast(m.op("Trilu", ones, m.constant(0, "i64"), upper=0), "bool"), T)
    if not is_none(mask):
        at = m.tensor(mask)
        if at.type.dtype == "bool":
            scores = m.op("Where", at, scores, m.constant(-math.inf, scores.type.dtype))
        else:
            scores = m.op("Add", scores, at)
    return m.array(m.op("MatMul", m.op("Softmax", scores, axis=-1), v), T)


# ---- Containers ----


@functions("torch.nn.Sequential.__getitem__", "torch.nn.ModuleList.__getitem__")
def container_item(m: M, module: Reference, idx: Value) -> Value:
    live, idx = module.object.live, m.settle(idx)
    if isinstance(idx, Slice):
        return m.wrap(live[slice(*[m.constant_of(v, "bound") for v in (idx.start, idx.stop, idx.step)])])
    # An index of the run chooses one of the modules.
    return m.item(m.new_list([m.wrap(child) for child in live]), idx)


def _members(of: str, named: bool) -> Any:
    """Return a row of a method that lists members of a module, whose names are those of the live module."""

    def row(m: M, module: Reference, *values: Value, **options: Value) -> Value:
        live = module.object.live
        if live is None:
            m.refuse(f"'named_{of}' of a module that the program creates is not supported")
        arguments = [m.constant_of(value) for value in values]
        named_ = {name: m.constant_of(value) for name, value in options.items()}
        prefix = named_.get("prefix", arguments[0] if arguments else "") if named else ""
        if not named and arguments:
            named_["recurse"] = arguments.pop()
        items = []
        for name, _ in getattr(live, f"named_{of}")(*arguments, **named_):
            value: Value = module
            # By attributes, since the program may have set one.
            path: list[str] = name.removeprefix(prefix).split(".")
            for part in filter(None, path):
                value = m.attribute(value, part)
            items.append(Tuple((Const(name), value)) if named else value)
        return m.iterator_over(Tuple(tuple(items), list))

    row.__name__ = f"named_{of}" if named else of
    row.keywords = frozenset(["prefix", "recurse", "remove_duplicate"])  # type: ignore[attr-defined]
    return row


for _of in ("parameters", "buffers", "children", "modules"):
    functions(f"torch.nn.Module.{_of}")(_members(_of, False))
    functions(f"torch.nn.Module.named_{_of}")(_members(_of, True))


# ---- Recurrent modules ----


def is_packed(value: Value) -> bool:
    return isinstance(value, Tuple) and value.cls.__name__ == "PackedSequence"


def _recurrent(m: M, module: Reference, input: Value, hx: Value, kind: str) -> Value:
    live = module.object.live
    if live.training and live.dropout and live.num_layers > 1:
        m.refuse("dropout in training mode is random", "Call model.eval() first")
    if getattr(live, "proj_size", 0):
        m.refuse("an LSTM with proj_size is not supported")
    input = m.settle(input)
    lengths: Any = None
    packed: Any = None
    if is_packed(input):
        # Rows in order of length, as the batch sizes tell.
        packed = input
        at, lengths = _unpacked(m, m.tensor(packed.items[0]), m.tensor(packed.items[1]))
    else:
        at = m.tensor(input)
    single = m.rank(at) == 2
    batch_first = live.batch_first and packed is None
    batch_axis = 0 if batch_first else 1
    if single:
        at = m.op("Unsqueeze", at, m.ints([batch_axis]))
    if batch_first:
        at = m.op("Transpose", at, perm=[1, 0, 2])
    directions = 2 if live.bidirectional else 1
    hx = m.settle(hx)
    starts: list[Any] = []
    if not is_none(hx):
        parts = m.items_of(hx) if kind == "LSTM" else (hx,)
        starts = [m.tensor(part) for part in parts]
        if single:
            starts = [m.op("Unsqueeze", s, m.ints([1])) for s in starts]
        if packed is not None and not is_none(packed.items[2]):
            starts = [m.op("Gather", s, m.tensor(packed.items[2]), axis=1) for s in starts]
    finals: list[list[Any]] = [[], []]
    order = {"LSTM": [0, 3, 1, 2], "GRU": [1, 0, 2], "RNN": [0]}[kind]
    for layer in range(live.num_layers):
        w, r, b = (_gates(m, module, layer, directions, name, order) for name in ("weight_ih", "weight_hh", "bias"))
        initial = [m.op("Slice", s, m.ints([layer * directions]), m.ints([(layer + 1) * directions]), m.ints([0])) for s in starts]
        attributes: dict[str, Any] = {"hidden_size": live.hidden_size, "direction": "bidirectional" if directions == 2 else "forward"}
        if kind == "GRU":
            attributes["linear_before_reset"] = 1
        if kind == "RNN":
            attributes["activations"] = [{"tanh": "Tanh", "relu": "Relu"}[live.nonlinearity]] * directions
        made = m.op(kind, at, w, r, b, lengths, *initial, count=3 if kind == "LSTM" else 2, **attributes)
        for target, value in zip(finals, made[1:]):
            target.append(value)
        at = m.op("Transpose", made[0], perm=[0, 2, 1, 3])
        at = m.op("Reshape", at, m.ints([0, 0, directions * live.hidden_size]))
    if batch_first:
        at = m.op("Transpose", at, perm=[1, 0, 2])
    states = [m.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0] for parts in finals if parts]
    if single:
        at = m.op("Squeeze", at, m.ints([batch_axis]))
        states = [m.op("Squeeze", s, m.ints([1])) for s in states]
    if packed is not None and not is_none(packed.items[3]):
        states = [m.op("Gather", s, m.tensor(packed.items[3]), axis=1) for s in states]
    last = [m.array(s, T) for s in states]
    result: Value = m.array(at, T)
    if packed is not None:
        result = Tuple((m.array(_packed(m, at, lengths), T), *packed.items[1:]), packed.cls)
    return Tuple((result, Tuple(tuple(last)) if kind == "LSTM" else last[0]))


def _gates(m: M, module: Reference, layer: int, directions: int, name: str, order: list[int]) -> Any:
    """Return weights of a layer in the order of gates that the instructions have, stacked by direction."""
    live = module.object.live
    rows = []
    for direction in range(directions):
        suffix = f"_l{layer}" + ("_reverse" if direction else "")
        parts = []
        for one in ["bias_ih", "bias_hh"] if name == "bias" else [name]:
            if name == "bias" and not live.bias:
                parts.append(m.op("Expand", m.constant(0.0, rows_type(m, module)), m.ints([len(order) * live.hidden_size])))
                continue
            at = m.tensor(m.attribute(module, one + suffix))
            if len(order) > 1:
                gates = m.op("Split", at, m.ints([live.hidden_size] * len(order)), count=len(order), axis=0)
                at = m.op("Concat", *[gates[gate] for gate in order], axis=0)
            parts.append(at)
        row = m.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]
        rows.append(m.op("Unsqueeze", row, m.ints([0])))
    return m.op("Concat", *rows, axis=0) if len(rows) > 1 else rows[0]


def rows_type(m: M, module: Reference) -> str:
    return str(m.tensor(m.attribute(module, "weight_ih_l0")).type.dtype)


# ---- Packed sequences ----


def _is_valid(m: M, steps: Any, lengths: Any) -> Any:
    """Return the steps x batch mask of the steps that sequences have."""
    index = m.op("Range", m.constant(0, "i64"), m.cast(steps, "i64"), m.constant(1, "i64"))
    return m.op("Less", m.op("Unsqueeze", index, m.ints([1])), m.op("Unsqueeze", m.cast(lengths, "i64"), m.ints([0])))


def _packed(m: M, at: Any, lengths: Any) -> Any:
    """Return the valid rows of a steps x batch x ... tensor, step by step."""
    valid = _is_valid(m, m.number_value(m.dimension(at, 0), "i64"), lengths)
    rows = m.binary("*", m.dimension(at, 0), m.dimension(at, 1))
    flat = m.reshape(at, [rows, *(m.dimension(at, axis) for axis in range(2, m.rank(at)))])
    return m.op("Compress", flat, m.op("Reshape", valid, m.ints([-1])), axis=0)


def _unpacked(m: M, data: Any, batch_sizes: Any, padding: Any = None, steps: Any = None) -> tuple[Any, Any]:
    """Return the steps x batch x ... tensor of packed rows, and the lengths, in the order of the rows, as i32."""
    batch = m.op("Gather", batch_sizes, m.constant(0, "i64"), axis=0)
    index = m.op("Range", m.constant(0, "i64"), batch, m.constant(1, "i64"))
    valid = m.op("Less", m.op("Unsqueeze", index, m.ints([0])), m.op("Unsqueeze", batch_sizes, m.ints([1])))
    lengths = m.op("ReduceSum", m.cast(valid, "i64"), m.ints([0]), keepdims=0)
    if steps is not None:
        valid = _is_valid(m, steps, lengths)
    sizes = m.sizes([*(m.dimension(valid, axis) for axis in (0, 1)), *(m.dimension(data, axis) for axis in range(1, m.rank(data)))])
    blank = m.op("Expand", m.constant(0.0, data.type.dtype) if padding is None else padding, sizes)
    where = m.op("Transpose", m.op("NonZero", valid), perm=[1, 0])
    return m.op("ScatterND", blank, where, data), m.cast(lengths, "i32")


@functions("torch._pack_padded_sequence", "torch._C._VariableFunctions._pack_padded_sequence")
def pack_padded(m: M, input: Value, lengths: Value, batch_first: Value) -> Value:
    at, sizes = m.tensor(input), m.cast(m.tensor(lengths), "i64")
    if _flag(m, batch_first):
        at = m.op("Transpose", at, perm=[1, 0, *range(2, m.rank(at))])

    def pack() -> Value:
        steps = m.op("ReduceMax", sizes, m.ints([0]), keepdims=0)
        counts = m.op("ReduceSum", m.cast(_is_valid(m, steps, sizes), "i64"), m.ints([1]), keepdims=0)
        return Tuple((m.array(_packed(m, at, sizes), T), m.array(counts, T)))

    def fail(text: str) -> Any:
        def go() -> Value:
            raise PythonError(RuntimeError(text))

        return go

    last = m.op("Gather", sizes, m.constant(-1, "i64"), axis=0)
    longest = m.op("Gather", sizes, m.constant(0, "i64"), axis=0)
    steps = m.number_value(m.dimension(at, 0), "i64")
    falls = m.op("LessOrEqual", m.op("Slice", sizes, m.ints([1]), m.ints([1 << 31])), m.op("Slice", sizes, m.ints([0]), m.ints([-1])))
    sorted_ = m.cast(m.op("ReduceMin", m.cast(falls, "i32"), m.ints([0]), keepdims=0), "bool")
    single = at.type.dims[1] == 1
    outside = "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
    order = "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True"
    checked = pack if single else lambda: m.branch(sorted_, pack, fail(order))
    fits = m.op("LessOrEqual", longest, steps)
    checked_length = lambda: m.branch(fits, checked, fail("Expected the lengths to be at most the number of steps"))  # noqa: E731
    return m.branch(m.op("Greater", last, m.constant(0, "i64")), checked_length, fail(outside))  # type: ignore[no-any-return]


@functions("torch._pad_packed_sequence", "torch._C._VariableFunctions._pad_packed_sequence")
def pad_packed(m: M, data: Value, batch_sizes: Value, batch_first: Value, padding_value: Value, total_length: Value) -> Value:
    at = m.tensor(data)
    made, lengths = _unpacked(m, at, m.tensor(batch_sizes), m.number_value(padding_value, at.type.dtype), m.number_value(total_length, "i64"))
    if _flag(m, batch_first):
        made = m.op("Transpose", made, perm=[1, 0, *range(2, m.rank(made))])
    return Tuple((m.array(made, T), m.array(m.cast(lengths, "i64"), T)))


@functions("torch.nn.utils.rnn.PackedSequence", "torch.nn.utils.rnn._packed_sequence_init")
def packed_sequence(
    m: M, data: Value, batch_sizes: Value = NONE, sorted_indices: Value = NONE, unsorted_indices: Value = NONE
) -> Value:
    from torch.nn.utils.rnn import PackedSequence, invert_permutation

    if is_none(m.settle(unsorted_indices)) and not is_none(m.settle(sorted_indices)):
        unsorted_indices = m.call(m.wrap(invert_permutation), [sorted_indices], {})
    return Tuple((data, batch_sizes, m.settle(sorted_indices), m.settle(unsorted_indices)), PackedSequence)


for _kind in ("LSTM", "GRU", "RNN"):

    def _module(m: M, module: Reference, input: Value, hx: Value = NONE, _kind: str = _kind) -> Value:
        # A state that is None on some paths.
        return m.each(hx, lambda one: _recurrent(m, module, input, one, _kind))  # type: ignore[no-any-return]

    modules(f"torch.nn.{_kind}")(_module)


def _cell(m: M, module: Reference, input: Value, hx: Value, kind: str) -> Value:
    at = m.tensor(input)
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    w, r, b, c = (m.attribute(module, name) for name in names)
    live = module.object.live
    size = live.hidden_size
    if is_none(m.settle(hx)):
        zero = m.op("Expand", m.constant(0.0, at.type.dtype), m.sizes([m.dimension(at, 0), Const(size)] if m.rank(at) == 2 else [Const(size)]))
        state = [m.array(zero, T)] * 2
    else:
        state = list(m.items_of(hx)) if kind == "LSTM" else [m.settle(hx)]
    x, h = linear(m, input, w, b), linear(m, state[0], r, c)
    axis = m.rank(at) - 1

    def gates(value: Value, count: int) -> list[Any]:
        return list(m.op("Split", m.tensor(value), m.ints([size] * count), count=count, axis=axis))

    if kind == "LSTM":
        i, f, g, o = gates(m.binary("+", x, h), 4)
        sigmoid = lambda v: m.op("Sigmoid", v)  # noqa: E731
        cell = m.op("Add", m.op("Mul", sigmoid(f), m.tensor(state[1])), m.op("Mul", sigmoid(i), m.op("Tanh", g)))
        return Tuple((m.array(m.op("Mul", sigmoid(o), m.op("Tanh", cell)), T), m.array(cell, T)))
    if kind == "GRU":
        xr, xz, xn = gates(x, 3)
        hr, hz, hn = gates(h, 3)
        reset, update = m.op("Sigmoid", m.op("Add", xr, hr)), m.op("Sigmoid", m.op("Add", xz, hz))
        new = m.op("Tanh", m.op("Add", xn, m.op("Mul", reset, hn)))
        return m.array(m.op("Add", new, m.op("Mul", update, m.op("Sub", m.tensor(state[0]), new))), T)
    return m.array(m.op({"tanh": "Tanh", "relu": "Relu"}[live.nonlinearity], m.tensor(m.binary("+", x, h))), T)


for _kind in ("LSTM", "GRU", "RNN"):

    def _cell_module(m: M, module: Reference, input: Value, hx: Value = NONE, _kind: str = _kind) -> Value:
        return m.each(hx, lambda one: _cell(m, module, input, one, _kind))  # type: ignore[no-any-return]

    modules(f"torch.nn.{_kind}Cell")(_cell_module)


@modules("torch.nn.MultiheadAttention")
def multihead_attention(
    m: M, module: Reference, query: Value, key: Value, value: Value, key_padding_mask: Value = NONE, need_weights: Value = TRUE,
    attn_mask: Value = NONE, average_attn_weights: Value = TRUE, is_causal: Value = FALSE,
) -> Value:  # fmt: skip
    live = module.object.live
    if live.bias_k is not None or live.add_zero_attn:
        m.refuse("MultiheadAttention with add_bias_kv or add_zero_attn is not supported")
    if live.training and live.dropout:
        m.refuse("dropout in training mode is random", "Call model.eval() first")
    heads, width = live.num_heads, live.embed_dim
    parts = [m.tensor(v) for v in (query, key, value)]
    single = m.rank(parts[0]) == 2
    if single:
        parts = [m.op("Unsqueeze", p, m.ints([0])) for p in parts]
    elif not live.batch_first:
        parts = [m.op("Transpose", p, perm=[1, 0, 2]) for p in parts]
    thirds = lambda name: list(m.op("Split", m.tensor(m.attribute(module, name)), m.ints([width] * 3), count=3, axis=0))  # noqa: E731
    if live._qkv_same_embed_dim:
        weights = thirds("in_proj_weight")
    else:
        weights = [m.tensor(m.attribute(module, f"{name}_proj_weight")) for name in "qkv"]
    biases = [None] * 3 if live.in_proj_bias is None else thirds("in_proj_bias")
    heads_of = []
    for at, w, b in zip(parts, weights, biases):
        made = m.op("MatMul", at, m.op("Transpose", w, perm=[1, 0]))
        made = made if b is None else m.op("Add", made, b)
        made = m.op("Reshape", made, m.ints([0, 0, heads, width // heads]))
        heads_of.append(m.op("Transpose", made, perm=[0, 2, 1, 3]))
    q, k, v = heads_of
    scores = m.op("MatMul", m.op("Mul", q, m.constant(1 / math.sqrt(width // heads), "f32")), m.op("Transpose", k, perm=[0, 1, 3, 2]))
    minus = m.constant(-math.inf, "f32")
    for mask, axes in ((attn_mask, None), (key_padding_mask, [1, 2])):
        mask = m.settle(mask)
        if is_none(mask):
            continue
        at = m.tensor(mask)
        if axes:
            at = m.op("Unsqueeze", at, m.ints(axes))
        elif m.rank(at) == 3:
            at = m.op("Reshape", at, m.sizes([Const(-1), Const(heads), m.dimension(at, 1), m.dimension(at, 2)]))
        scores = m.op("Where", at, minus, scores) if at.type.dtype == "bool" else m.op("Add", scores, at)
    probabilities = m.op("Softmax", scores, axis=-1)
    made = m.op("Transpose", m.op("MatMul", probabilities, v), perm=[0, 2, 1, 3])
    made = m.op("Reshape", made, m.ints([0, 0, width]))
    result = linear(m, m.array(made, T), m.attribute(m.attribute(module, "out_proj"), "weight"), m.attribute(m.attribute(module, "out_proj"), "bias"))
    at = m.read_array(result)
    if single:
        at = m.op("Squeeze", at, m.ints([0]))
    elif not live.batch_first:
        at = m.op("Transpose", at, perm=[1, 0, 2])
    if not _flag(m, need_weights):
        return Tuple((m.array(at, T), NONE))
    if _flag(m, average_attn_weights):
        probabilities = m.op("ReduceMean", probabilities, m.ints([1]), keepdims=0)
    if single:
        probabilities = m.op("Squeeze", probabilities, m.ints([0]))
    return Tuple((m.array(at, T), m.array(probabilities, T)))


def _forward_slow(m: M, module: Reference, src: Value, src_mask: Value = NONE, src_key_padding_mask: Value = NONE, is_causal: Value = FALSE) -> Value:
    """TransformerEncoderLayer without its fast path, which computes the same."""
    live = module.object.live
    x = src
    attend = lambda v: m.call(m.attribute(module, "_sa_block"), [v, src_mask, src_key_padding_mask], {})  # noqa: E731
    feed = lambda v: m.call(m.attribute(module, "_ff_block"), [v], {})  # noqa: E731
    norm1, norm2 = m.attribute(module, "norm1"), m.attribute(module, "norm2")
    if live.norm_first:
        x = m.binary("+", x, attend(m.call(norm1, [x], {})))
        return m.binary("+", x, feed(m.call(norm2, [x], {})))
    x = m.call(norm1, [m.binary("+", x, attend(x))], {})
    return m.call(norm2, [m.binary("+", x, feed(x))], {})


modules("torch.nn.TransformerEncoderLayer")(_forward_slow)


@modules("torch.nn.TransformerEncoder")
def _encoder(m: M, module: Reference, src: Value, mask: Value = NONE, src_key_padding_mask: Value = NONE, is_causal: Value = NONE) -> Value:
    x = src
    for layer in m.items_of(m.attribute(module, "layers")):
        x = m.call(layer, [x], {"src_mask": mask, "src_key_padding_mask": src_key_padding_mask})
    norm = m.attribute(module, "norm")
    return x if is_none(norm) else m.call(norm, [x], {})


__all__ = ["PythonError", "axes_of"]

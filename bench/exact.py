"""exact.py: what an ONNX model computes, in float64: the reference that results in float32 are measured against.

evaluate(PATH, INPUTS) reads the model file itself, so that the weights and constants are to the bit those that the
runtimes read: the exporter folds batch norms into convolutions in float32, and a module in double precision would
not. Every tensor of floats is double, all arithmetic is PyTorch's. It knows the operators of the models that
make_models.py makes; another one, or an attribute it does not know, is an error.
"""
import onnx
import torch
from onnx import helper, numpy_helper

functional = torch.nn.functional


def tensor(proto):
    value = torch.from_numpy(numpy_helper.to_array(proto).copy())
    return value.double() if value.is_floating_point() else value


def numbers(value):
    return [int(n) for n in value.reshape(-1)]


def windows(kernel_shape=None, pads=(0, 0, 0, 0), strides=(1, 1), dilations=(1, 1)):
    """Attributes that windows share, for a map padded by itself: strides, dilations, and pads as functional.pad has them."""
    if len(pads) != 4:
        raise ValueError("only windows over two axes are known")
    return tuple(strides), tuple(dilations), (pads[1], pads[3], pads[0], pads[2])


def conv(x, w, b=None, group=1, **attributes):
    strides, dilations, pads = windows(**attributes)
    return functional.conv2d(functional.pad(x, pads), w, b, strides, 0, dilations, group)


def max_pool(x, kernel_shape, ceil_mode=0, **attributes):
    strides, dilations, pads = windows(**attributes)
    return functional.max_pool2d(functional.pad(x, pads, value=-torch.inf), kernel_shape, strides, 0, dilations, bool(ceil_mode))


def average_pool(x, kernel_shape, ceil_mode=0, **attributes):
    strides, dilations, pads = windows(**attributes)
    if any(pads) or ceil_mode or dilations != (1, 1):
        raise ValueError("an AveragePool with pads, dilations or ceil_mode is not known")
    return functional.avg_pool2d(x, kernel_shape, strides)


def batch_norm(x, scale, bias, mean, variance, epsilon=1e-5, momentum=0.9):
    return functional.batch_norm(x, mean, variance, scale, bias, False, 0, epsilon)


def gemm(a, b, c=0, alpha=1.0, beta=1.0, transA=0, transB=0):
    return alpha * (a.T if transA else a) @ (b.T if transB else b) + beta * c


def pad(x, pads, value=None, mode=b"constant"):
    if mode != b"constant":
        raise ValueError("only a Pad by a constant is known")
    begin, end = numbers(pads)[: x.dim()], numbers(pads)[x.dim() :]
    pairs = [n for pair in reversed(list(zip(begin, end))) for n in pair]
    return functional.pad(x, pairs, value=0 if value is None else value.item())


def cut(x, starts, ends, axes=None, steps=None):
    axes = range(x.dim()) if axes is None else numbers(axes)
    for axis, start, end, step in zip(axes, numbers(starts), numbers(ends), [1] * x.dim() if steps is None else numbers(steps)):
        x = x[(slice(None),) * (axis % x.dim()) + (slice(start, end, step),)]
    return x


def gather(x, indices, axis=0):
    axis %= x.dim()
    indices = torch.where(indices < 0, indices + x.shape[axis], indices)
    return x.index_select(axis, indices.reshape(-1)).reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def unsqueeze(x, axes):
    rank = x.dim() + len(numbers(axes))
    for axis in sorted(a % rank for a in numbers(axes)):
        x = x.unsqueeze(axis)
    return x


def squeeze(x, axes):
    for axis in sorted((a % x.dim() for a in numbers(axes)), reverse=True):
        x = x.squeeze(axis)
    return x


def reshape(x, shape):
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(numbers(shape))])


def lstm(x, w, r, b, lengths, h, c, hidden_size):
    if lengths is not None or w.shape[0] != 1:
        raise ValueError("only an LSTM of one direction over whole sequences is known")
    h, c, results = h[0], c[0], []
    for each in x:
        gates = each @ w[0].T + h @ r[0].T + b[0, : 4 * hidden_size] + b[0, 4 * hidden_size :]
        i, o, f, g = gates.split(hidden_size, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        results.append(h)
    return torch.stack(results).unsqueeze(1), h.unsqueeze(0), c.unsqueeze(0)


OPERATORS = dict(
    Add=torch.add,
    AveragePool=average_pool,
    BatchNormalization=batch_norm,
    Clip=torch.clamp,
    Concat=lambda *xs, axis: torch.cat(xs, axis),
    Constant=lambda value: tensor(value),
    Conv=conv,
    Div=lambda a, b: a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc"),
    Erf=torch.erf,
    Expand=lambda x, shape: x * torch.ones(numbers(shape), dtype=x.dtype),
    Flatten=lambda x, axis=1: x.reshape(x.shape[:axis].numel(), -1),
    Gather=gather,
    Gemm=gemm,
    GlobalAveragePool=lambda x: x.mean(tuple(range(2, x.dim())), keepdim=True),
    HardSigmoid=lambda x, alpha=0.2, beta=0.5: torch.clamp(alpha * x + beta, 0, 1),
    Identity=lambda x: x,
    LSTM=lstm,
    MatMul=torch.matmul,
    MaxPool=max_pool,
    Mul=torch.mul,
    Pad=pad,
    Pow=torch.pow,
    ReduceMean=lambda x, axes, keepdims=1: x.mean(axes, keepdim=bool(keepdims)),
    Relu=torch.relu,
    Reshape=reshape,
    Shape=lambda x: torch.tensor(x.shape),
    Sigmoid=torch.sigmoid,
    Slice=cut,
    Softmax=lambda x, axis=-1: torch.softmax(x, axis),
    Split=lambda x, sizes, axis=0: x.split(numbers(sizes), axis),
    Sqrt=torch.sqrt,
    Squeeze=squeeze,
    Sub=torch.sub,
    Tanh=torch.tanh,
    Transpose=lambda x, perm: x.permute(perm),
    Unsqueeze=unsqueeze,
)


def evaluate(path, inputs):
    """The first output of the model at `path` for `inputs`, TensorProtos in the order of the model's inputs."""
    graph = onnx.load(path).graph
    values = {each.name: tensor(each) for each in graph.initializer}
    values.update((each.name, tensor(given)) for each, given in zip(graph.input, inputs))
    for node in graph.node:
        if node.op_type not in OPERATORS:
            raise ValueError(f"{path}: {node.op_type} is not among the operators known here")
        attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        results = OPERATORS[node.op_type](*(values[name] if name else None for name in node.input), **attributes)
        values.update(zip(node.output, results if isinstance(results, (tuple, list)) else (results,)))
    return values[graph.output[0].name]

#!/usr/bin/python3
"""make_gradient_cases.py OUT: fragments of networks with a loss, as test directories in OUT for xcvm test --backprop.

Losses and gradients, by the inputs whose names are those of gradient_N.pb, are PyTorch's: each fragment is written down
twice, as nodes and as what PyTorch computes. Where PyTorch is known to be wrong, tests/ops has cases of the right values.
"""
import os

import numpy as np
import onnx
import torch
import torch.nn.functional as F
import torchvision
from onnx import helper, numpy_helper

import case_models
import definitions
from case_models import BOOL, F32, I64, i64, node

rng = np.random.RandomState(5)


def floats(*shape, low=-2.0, high=2.0):
    return rng.uniform(low, high, shape).astype(np.float32)


def positive(*shape):
    return floats(*shape, low=0.25)


def ranked(*shape, step=0.03):
    """Numbers that differ by `step` at least, so that rounding changes no order."""
    count = int(np.prod(shape))
    return ((rng.permutation(count) - count / 2 + 0.25) * step).astype(np.float32).reshape(shape)


def write(name, nodes, inputs, function, wrt=None, constants=None, opset=case_models.OPSET, weight=True,
          sized=False):
    """The nodes compute y of the inputs, function(*inputs) does it in PyTorch; the loss is the mean of y times weights
    of its own or, unless `weight`, y itself. `wrt`: names of inputs; all of floats if it is left out. `constants` are
    initializers that the nodes have besides. There is a second model whose inputs have no sizes, unless
    the gradient needs them (`sized`)."""
    constants = constants or {}
    tensors = {k: torch.from_numpy(np.array(v)) for k, v in inputs.items()}
    wrt = wrt if wrt is not None else [k for k, v in inputs.items() if np.asarray(v).dtype.kind == "f"]
    for k in wrt:
        tensors[k].requires_grad_()
    y = function(*tensors.values())
    extra = {}
    nodes = list(nodes)
    if weight:
        extra["weight_of_y"] = floats(*y.shape)
        loss = (y * torch.from_numpy(extra["weight_of_y"])).mean()
        nodes += [node("Mul", ["y", "weight_of_y"], ["weighted"]), node("ReduceMean", ["weighted"], ["loss"], keepdims=0)]
    else:
        loss = y
        nodes.append(node("Identity", ["y"], ["loss"]))
    loss.backward()
    tensors_of_nodes = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    for suffix in ("",) if sized else ("", "_open"):
        case_models.write(name + suffix, nodes, {**inputs, **extra}, {"loss": loss.detach().numpy()},
                          opsets=[("", opset)], initializers=tensors_of_nodes)
        if suffix:
            open_sizes(name + suffix)
        folder = os.path.join(case_models.folder_of_cases, name + suffix, "test_data_set_0")
        for i, k in enumerate(wrt):
            g = tensors[k].grad
            g = np.zeros_like(inputs[k]) if g is None else g.numpy()
            with open(f"{folder}/gradient_{i}.pb", "wb") as f:
                f.write(case_models.to_proto(np.array(g, order="C"), "grad_out@" + k).SerializeToString())


def open_sizes(name):
    """Gives every axis of the model's inputs a name in place of its size."""
    path = os.path.join(case_models.folder_of_cases, name, "model.onnx")
    model = onnx.load(path)
    for value in model.graph.input:
        for i, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"{value.name}_{i}"
    onnx.save(model, path)


def elementwise():
    x = floats(3, 4)
    for op, f in {
            "Abs": torch.abs, "Neg": torch.neg, "Exp": torch.exp, "Sin": torch.sin, "Cos": torch.cos, "Atan": torch.atan,
            "Sinh": torch.sinh, "Cosh": torch.cosh, "Tanh": torch.tanh, "Asinh": torch.asinh, "Erf": torch.erf,
            "Sigmoid": torch.sigmoid, "Softplus": F.softplus, "Softsign": F.softsign, "Relu": torch.relu, "Elu": F.elu,
            "Selu": F.selu, "Celu": F.celu, "HardSwish": F.hardswish, "Mish": F.mish, "LeakyRelu": F.leaky_relu
    }.items():
        opset = 18 if op == "Mish" else case_models.OPSET
        write(op.lower(), [node(op, ["x"], ["y"])], {"x": x * 2}, lambda x, f=f: f(x), opset=opset)
    for op, f in {"Sqrt": torch.sqrt, "Log": torch.log, "Reciprocal": torch.reciprocal}.items():
        write(op.lower(), [node(op, ["x"], ["y"])], {"x": positive(5)}, lambda x, f=f: f(x))
    for op, f in {"Tan": torch.tan, "Asin": torch.asin, "Acos": torch.acos, "Atanh": torch.atanh}.items():
        write(op.lower(), [node(op, ["x"], ["y"])], {"x": floats(5, low=-0.75, high=0.75)}, lambda x, f=f: f(x))
    zeros = np.array([-1, 0, 0, 2], np.float32)
    for op, f in {"Abs": torch.abs, "Relu": torch.relu, "Elu": F.elu, "Selu": F.selu, "Celu": F.celu,
                  "LeakyRelu": F.leaky_relu}.items():
        write(op.lower() + "_at_zero", [node(op, ["x"], ["y"])], {"x": zeros}, lambda x, f=f: f(x))
    write("prelu_at_zero", [node("PRelu", ["x", "s"], ["y"])], {"x": zeros, "s": np.array([0.25], np.float32)}, F.prelu)
    write("clip_at_bounds", [node("Clip", ["x", "low", "high"], ["y"])], {"x": np.array([-2, -1, 0, 1, 2], np.float32)},
          lambda x: torch.clamp(x, -1, 1), constants={"low": np.float32(-1), "high": np.float32(1)})


def broadcast():
    for op, f in {"Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Max": torch.maximum,
                  "Min": torch.minimum, "Pow": torch.pow}.items():
        for i, (a, b) in enumerate((((2, 3), (3,)), ((3, 1), (1, 4)), ((), (2, 2)), ((2, 1, 3), (4, 1)))):
            write(f"{op.lower()}_{i}", [node(op, ["a", "b"], ["y"])], {"a": positive(*a), "b": positive(*b)}, f)
    ties = {"a": np.array([1, 2, 3], np.float32), "b": np.array([1, 3, 3], np.float32)}
    write("max_of_equals", [node("Max", ["a", "b"], ["y"])], ties, torch.maximum)
    write("min_of_equals", [node("Min", ["a", "b"], ["y"])], ties, torch.minimum)
    write("pow_of_zero", [node("Pow", ["a", "b"], ["y"])],
          {"a": np.zeros(3, np.float32), "b": np.array([2, 1, 3], np.float32)}, torch.pow)
    write("where", [node("Where", ["c", "a", "b"], ["y"])],
          {"c": np.array([True, False, True]), "a": floats(2, 3), "b": floats(1)}, torch.where)
    write("expand", [node("Expand", ["x", "shape"], ["y"])], {"x": floats(2, 1)}, lambda x: x.expand(3, 2, 4),
          constants={"shape": i64([3, 2, 4])})


def movement():
    x = floats(2, 3, 4)
    write("transpose", [node("Transpose", ["x"], ["y"], perm=[2, 0, 1])], {"x": x}, lambda x: x.permute(2, 0, 1))
    write("reshape", [node("Reshape", ["x", "shape"], ["y"])], {"x": x}, lambda x: x.reshape(4, 6),
          constants={"shape": i64([4, -1])})
    write("concat", [node("Concat", ["a", "b", "a"], ["y"], axis=1)], {"a": floats(2, 2), "b": floats(2, 3)},
          lambda a, b: torch.cat([a, b, a], 1))
    write("split", [node("Split", ["x"], ["p", "q"], axis=0), node("Mul", ["p", "q"], ["y"])], {"x": floats(4, 3)},
          lambda x: x[:2] * x[2:])
    for axis in (0, 1, 2):
        write(f"gather_{axis}", [node("Gather", ["x", "i"], ["y"], axis=axis)], {"x": x, "i": i64([[0, 1], [1, 1]])},
              lambda x, i, axis=axis: torch.index_select(x, axis, i.flatten()).reshape(
                  x.shape[:axis] + i.shape + x.shape[axis + 1:]))
    write("gather_elements", [node("GatherElements", ["x", "i"], ["y"], axis=1)],
          {"x": floats(3, 3), "i": i64([[0, 2], [1, 1], [2, 0]])}, lambda x, i: torch.gather(x, 1, i))
    write("scatter_add", [node("ScatterElements", ["x", "i", "u"], ["y"], axis=0, reduction="add")],
          {"x": floats(3, 2), "i": i64([[0, 2], [0, 1]]), "u": floats(2, 2)}, lambda x, i, u: x.scatter_add(0, i, u))
    for mode, name in (("edge", "replicate"), ("reflect", "reflect")):
        write(f"pad_{mode}", [node("Pad", ["x", "pads"], ["y"], mode=mode)], {"x": floats(1, 2, 4, 5)},
              lambda x, name=name: F.pad(x, (2, 1, 1, 2), mode=name), constants={"pads": i64([0, 0, 1, 2, 0, 0, 2, 1])})
    write("tile", [node("Tile", ["x", "r"], ["y"])], {"x": floats(2, 3)}, lambda x: x.repeat(2, 3),
          constants={"r": i64([2, 3])})
    write("slice", [node("Slice", ["x", "s", "e", "a", "t"], ["y"])], {"x": floats(5, 6)}, lambda x: x[1:, ::2],
          constants={"s": i64([1, 0]), "e": i64([9, 6]), "a": i64([0, 1]), "t": i64([1, 2])})
    write("pixel_shuffle", [node("DepthToSpace", ["x"], ["y"], blocksize=2, mode="CRD")], {"x": floats(1, 8, 2, 3)},
          lambda x: F.pixel_shuffle(x, 2))
    write("topk", [node("TopK", ["x", "k"], ["y", "i"], axis=1)], {"x": ranked(3, 6)}, lambda x: x.topk(2, 1)[0],
          constants={"k": i64([2])})


def reductions():
    x = ranked(2, 3, 4)
    for op, f in {
            "ReduceSum": torch.sum, "ReduceMean": torch.mean, "ReduceMax": torch.amax, "ReduceMin": torch.amin,
            "ReduceLogSumExp": torch.logsumexp, "ReduceL2": lambda x, dim, keepdim: torch.norm(x, 2, dim, keepdim),
            "ReduceL1": lambda x, dim, keepdim: torch.norm(x, 1, dim, keepdim)
    }.items():
        for keep in (0, 1):
            axes = {"axes": [0, 2]} if op != "ReduceSum" else {}
            write(f"{op.lower()}_{keep}", [node(op, ["x"] + (["axes"] if not axes else []), ["y"], keepdims=keep, **axes)],
                  {"x": x}, lambda x, f=f, keep=keep: f(x, (0, 2), bool(keep)),
                  constants={"axes": i64([0, 2])} if not axes else {})
    write("reduce_prod_zero", [node("ReduceProd", ["x"], ["y"], axes=[1], keepdims=0)],
          {"x": np.array([[0, 2, 3], [0, 0, 3], [1, 2, 3]], np.float32)}, lambda x: x.prod(1))
    write("reduce_max_ties", [node("ReduceMax", ["x"], ["y"], axes=[1])], {"x": np.ones((2, 4), np.float32)},
          lambda x: torch.amax(x, 1, True))
    write("reduce_l2_zero", [node("ReduceL2", ["x"], ["y"], axes=[1])], {"x": np.zeros((2, 3), np.float32)},
          lambda x: torch.norm(x, 2, 1, True))
    write("cumsum", [node("CumSum", ["x", "a"], ["y"], reverse=1)], {"x": floats(3, 4)},
          lambda x: x.flip(1).cumsum(1).flip(1), constants={"a": np.int64(1)})


def products():
    for i, (a, b) in enumerate((((2, 3), (3, 4)), ((2, 2, 3), (3, 4)), ((2, 3), (2, 3, 4)), ((5, 1, 2, 3), (4, 3, 2)),
                                ((3,), (3, 2)), ((2, 3), (3,)), ((3,), (3,)))):
        write(f"matmul_{i}", [node("MatMul", ["a", "b"], ["y"])], {"a": floats(*a), "b": floats(*b)}, torch.matmul)
    write("gemm", [node("Gemm", ["a", "b", "c"], ["y"], alpha=0.5, beta=2.0, transA=1, transB=1)],
          {"a": floats(3, 2), "b": floats(4, 3), "c": floats(4)}, lambda a, b, c: 0.5 * a.T @ b.T + 2 * c)
    write("det", [node("Det", ["x"], ["y"])], {"x": floats(2, 3, 3)}, torch.det, sized=True)


def windows():
    for i, (x, w, keys) in enumerate((
        ((2, 3, 7, 6), (4, 3, 3, 3), {"strides": [2, 1], "pads": [1, 1, 1, 1]}),
        ((1, 4, 6, 6), (6, 2, 3, 2), {"group": 2, "strides": [1, 2]}),
        ((2, 4, 6, 5), (4, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ((1, 2, 8, 8), (3, 2, 3, 3), {"dilations": [2, 2], "pads": [2, 2, 2, 2]}),
        ((1, 2, 9), (3, 2, 4), {"strides": [3]}),
    )):
        rank = len(x) - 2
        torch_keys = {"stride": keys.get("strides", 1), "padding": keys.get("pads", [0] * rank)[:rank],
                      "dilation": keys.get("dilations", 1), "groups": keys.get("group", 1)}
        conv = F.conv1d if rank == 1 else F.conv2d
        write(f"conv_{i}", [node("Conv", ["x", "w", "b"], ["y"], **keys)],
              {"x": floats(*x), "w": floats(*w), "b": floats(w[0])},
              lambda x, w, b, conv=conv, k=torch_keys: conv(x, w, b, **k))
    for i, (x, w, keys, k) in enumerate((
        ((2, 3, 4, 4), (3, 2, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
         {"stride": 2, "padding": 1, "output_padding": 1}),
        ((1, 4, 3, 3), (4, 2, 2, 2), {"group": 2, "dilations": [2, 2]}, {"groups": 2, "dilation": 2}),
    )):
        write(f"conv_transpose_{i}", [node("ConvTranspose", ["x", "w", "b"], ["y"], **keys)],
              {"x": floats(*x), "w": floats(*w), "b": floats(w[1] * keys.get("group", 1))},
              lambda x, w, b, k=k: F.conv_transpose2d(x, w, b, **k))
    x = ranked(2, 2, 7, 6)
    write("max_pool", [node("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0])], {"x": x},
          lambda x: F.max_pool2d(x, (3, 2), 2, (1, 0)))
    write("max_pool_ties", [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])], {"x": np.zeros((1, 1, 3, 3), np.float32)},
          lambda x: F.max_pool2d(x, 2, 1))
    for include in (0, 1):
        for ceil in (0, 1):
            write(f"average_pool_{include}{ceil}",
                  [node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1],
                        count_include_pad=include, ceil_mode=ceil)], {"x": x},
                  lambda x, i=include, c=ceil: F.avg_pool2d(x, 3, 2, 1, bool(c), bool(i)),
                  opset=19 if ceil else case_models.OPSET)
    write("global_average_pool", [node("GlobalAveragePool", ["x"], ["y"])], {"x": x}, lambda x: F.adaptive_avg_pool2d(x, 1))


def normalizations():
    x = floats(3, 4, 5)
    write("batch_norm_training", [node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "rm", "rv"],
                                       training_mode=1)],
          {"x": x, "s": floats(4), "b": floats(4), "m": floats(4), "v": positive(4)},
          lambda x, s, b, m, v: F.batch_norm(x, m.clone(), v.clone(), s, b, True), wrt=["x", "s", "b"])
    write("batch_norm_inference", [node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])],
          {"x": x, "s": floats(4), "b": floats(4), "m": floats(4), "v": positive(4)},
          lambda x, s, b, m, v: (x - m[:, None]) / (v[:, None] + 1e-5).sqrt() * s[:, None] + b[:, None])
    write("instance_norm", [node("InstanceNormalization", ["x", "s", "b"], ["y"])],
          {"x": x, "s": floats(4), "b": floats(4)}, lambda x, s, b: F.instance_norm(x, weight=s, bias=b))
    write("layer_norm", [node("LayerNormalization", ["x", "s", "b"], ["y"], axis=-2)],
          {"x": x, "s": floats(4, 5), "b": floats(4, 5)}, lambda x, s, b: F.layer_norm(x, (4, 5), s, b))
    write("layer_norm_constant", [node("LayerNormalization", ["x", "s", "b"], ["y"])],
          {"x": np.ones((2, 4), np.float32), "s": floats(4), "b": floats(4)}, lambda x, s, b: F.layer_norm(x, (4,), s, b))
    write("group_norm", [node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)],
          {"x": floats(2, 4, 3), "s": floats(4), "b": floats(4)}, lambda x, s, b: F.group_norm(x, 2, s, b), opset=21)
    write("lrn", [node("LRN", ["x"], ["y"], size=3, alpha=0.5, beta=0.75, bias=1.0)], {"x": floats(2, 5, 3)},
          lambda x: F.local_response_norm(x, 3, 0.5, 0.75, 1.0))
    write("lp_normalization", [node("LpNormalization", ["x"], ["y"], axis=1, p=2)], {"x": x},
          lambda x: F.normalize(x, 2.0, 1))


def losses():
    x, target = floats(4, 5), i64([1, 0, 4, 2])
    for reduction in ("mean", "sum"):
        write(f"cross_entropy_{reduction}", [node("SoftmaxCrossEntropyLoss", ["x", "t"], ["y"], reduction=reduction)],
              {"x": x, "t": target}, lambda x, t, r=reduction: F.cross_entropy(x, t, reduction=r), weight=False)
    write("cross_entropy_weighted",
          [node("SoftmaxCrossEntropyLoss", ["x", "t", "w"], ["y"], reduction="mean", ignore_index=0)],
          {"x": x, "t": target, "w": positive(5)}, lambda x, t, w: F.cross_entropy(x, t, w, ignore_index=0),
          wrt=["x"], weight=False)
    write("nll_of_images", [node("NegativeLogLikelihoodLoss", ["x", "t"], ["y"], reduction="none")],
          {"x": floats(2, 3, 2, 2), "t": i64(rng.randint(0, 3, (2, 2, 2)))}, lambda x, t: F.nll_loss(x, t, reduction="none"))
    for op, f in {"Softmax": F.softmax, "LogSoftmax": F.log_softmax}.items():
        write(op.lower(), [node(op, ["x"], ["y"], axis=1)], {"x": floats(2, 3, 4)}, lambda x, f=f: f(x, 1))
    write("mean_square", [node("Sub", ["x", "t"], ["d"]), node("Mul", ["d", "d"], ["q"]),
                          node("ReduceMean", ["q"], ["y"], keepdims=0)], {"x": floats(3, 2), "t": floats(3, 2)}, F.mse_loss,
          weight=False)


def networks():
    write("residual", [node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["r"]),
                       node("Add", ["r", "x"], ["y"])],
          {"x": floats(1, 2, 5, 5), "w": floats(2, 2, 3, 3), "b": floats(2)},
          lambda x, w, b: torch.relu(F.conv2d(x, w, b, padding=1)) + x)
    write("attention_by_hand",
          [node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]), node("MatMul", ["q", "kt"], ["s"]),
           node("Where", ["mask", "s", "least"], ["m"]), node("Softmax", ["m"], ["p"], axis=-1),
           node("MatMul", ["p", "v"], ["y"])],
          {"q": floats(2, 3, 4), "k": floats(2, 3, 4), "v": floats(2, 3, 4), "mask": np.tril(np.ones((3, 3), bool))},
          lambda q, k, v, mask: torch.softmax((q @ k.transpose(1, 2)).masked_fill(~mask, -1e9), -1) @ v,
          constants={"least": np.float32(-1e9)})
    write("shared_weight", [node("MatMul", ["x", "w"], ["h"]), node("Tanh", ["h"], ["t"]), node("MatMul", ["t", "w"], ["y"])],
          {"x": floats(2, 3), "w": floats(3, 3)}, lambda x, w: torch.tanh(x @ w) @ w)
    write("embedding_tied", [node("Gather", ["w", "i"], ["e"]), node("Transpose", ["w"], ["wt"], perm=[1, 0]),
                             node("MatMul", ["e", "wt"], ["y"])],
          {"w": floats(4, 3), "i": i64([1, 1, 3])}, lambda w, i: w[i] @ w.T)


def recurrent():
    for name, cell, gates, order in (("LSTM", torch._VF.lstm, 4, (0, 2, 3, 1)), ("GRU", torch._VF.gru, 3, (1, 0, 2)),
                                     ("RNN", torch._VF.rnn_tanh, 1, (0,))):
        for directions in (1, 2):
            inputs = {"x": floats(3, 2, 4), "w": floats(directions, gates * 3, 4), "r": floats(directions, gates * 3, 3),
                      "b": floats(directions, gates * 6), "h": floats(directions, 2, 3)}
            if name == "LSTM":
                inputs["c"] = floats(directions, 2, 3)

            def run(x, w, r, b, h, c=None, cell=cell, directions=directions, gates=gates, order=order):
                """PyTorch's gates stand in another order."""
                weights = [torch.cat([v[3 * i:3 * i + 3] for i in order]) for k in range(directions)
                           for v in (w[k], r[k], b[k][:3 * gates], b[k][3 * gates:])]
                y = cell(x, h if c is None else (h, c), weights, True, 1, 0.0, False, directions == 2, False)[0]
                return y.reshape(3, 2, directions, 3).permute(0, 2, 1, 3)

            keys = {"linear_before_reset": 1} if name == "GRU" else {}
            operands = ["x", "w", "r", "b", "", "h"] + (["c"] if name == "LSTM" else [])
            write(f"{name.lower()}_{directions}", [node(name, operands, ["y"], hidden_size=3,
                                                direction=("forward", "bidirectional")[directions - 1], **keys)],
                  inputs, run, sized=True)


def resampling():
    x = floats(1, 2, 4, 5)
    for mode, name in (("nearest", "nearest"), ("linear", "bilinear"), ("cubic", "bicubic")):
        keys = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"} if mode == "nearest" else {}
        write(f"resize_{mode}", [node("Resize", ["x", "", "scales"], ["y"], mode=mode, **keys)], {"x": x},
              lambda x, name=name: F.interpolate(x, scale_factor=2, mode=name),
              constants={"scales": np.array([1, 1, 2, 2], np.float32)})
    write("fold", [node("Col2Im", ["x", "image", "block"], ["y"], pads=[1, 1, 1, 1], strides=[1, 2])],
          {"x": floats(2, 8, 10)}, lambda x: F.fold(x, (4, 3), 2, padding=1, stride=(1, 2)), opset=18,
          constants={"image": i64([4, 3]), "block": i64([2, 2])})


    for mode, name in (("bilinear", "bilinear"), ("nearest", "nearest"), ("bicubic", "bicubic")):
        for padding in ("zeros", "border", "reflection"):
            for align in (0, 1):
                if (mode, padding) == ("bicubic", "border"):
                    continue  # ONNX moves the points to the border, PyTorch the elements around them
                write(f"grid_sample_{mode}_{padding}_{align}",
                      [node("GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode=padding, align_corners=align)],
                      {"x": floats(2, 3, 4, 5), "grid": floats(2, 3, 2, 2, low=-1.7, high=1.7)},
                      lambda x, grid, n=name, p=padding, a=align: F.grid_sample(x, grid, n, p, bool(a)))


def attention():
    """By their formula; PyTorch 1.13 has no operator that gives these."""

    def attend(q, k, v, mask, softcap=0.0):
        group = q.shape[1] // k.shape[1]
        k, v = (z.repeat_interleave(group, 1) for z in (k, v))
        scores = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        return torch.softmax(scores + mask, -1) @ v

    q, k, v = floats(2, 4, 3, 5), floats(2, 2, 6, 5), floats(2, 2, 6, 4)
    write("attention_grouped", [node("Attention", ["q", "k", "v", "mask"], ["y"])],
          {"q": q, "k": k, "v": v, "mask": floats(3, 6)}, attend, opset=23, sized=True)
    write("attention_softcap", [node("Attention", ["q", "k", "v", "mask"], ["y"], softcap=1.5)],
          {"q": q, "k": k, "v": v, "mask": floats(2, 1, 3, 6)}, lambda q, k, v, mask: attend(q, k, v, mask, 1.5), opset=23,
          sized=True)
    causal = torch.full((3, 3), -np.inf).triu(1)
    write("attention_causal", [node("Attention", ["q", "k", "v"], ["y"], is_causal=1)],
          {"q": floats(1, 2, 3, 4), "k": floats(1, 2, 3, 4), "v": floats(1, 2, 3, 4)},
          lambda q, k, v: attend(q, k, v, causal), opset=23, sized=True)
    write("rms_normalization", [node("RMSNormalization", ["x", "s"], ["y"])], {"x": floats(3, 4), "s": floats(4)},
          lambda x, s: x * torch.rsqrt((x * x).mean(-1, True) + 1e-5) * s, opset=23)
    for kind in ("none", "tanh"):
        write(f"gelu_{kind}", [node("Gelu", ["x"], ["y"], approximate=kind)], {"x": floats(3, 4)},
              lambda x, k=kind: F.gelu(x, approximate=k), opset=20)


def control():
    def graph(name, nodes, inputs, outputs, initializers=()):
        values = [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs]
        results = [helper.make_tensor_value_info(n, t, s) for n, t, s in outputs]
        return helper.make_graph(nodes, name, values, results, initializers)

    # A parameter that one branch alone uses has zeros from the other.
    for choice in (True, False):
        branches = {"then_branch": graph("then", [node("Mul", ["a", "b"], ["t"])], [], [("t", F32, [3])]),
                    "else_branch": graph("else", [node("Sin", ["a"], ["e"])], [], [("e", F32, [3])])}
        write(f"if_{choice}".lower(), [node("If", ["c"], ["y"], **branches)],
              {"c": np.array(choice), "a": floats(3), "b": floats(3)},
              lambda c, a, b: a * b if bool(c) else torch.sin(a), sized=True)
    # States and stacked results, values from outside, any number of rounds.
    body = graph("body", [node("MatMul", ["s", "w"], ["m"]), node("Tanh", ["m"], ["next"]), node("Mul", ["next", "v"], ["scan"]),
                          node("Identity", ["go"], ["on"])],
                 [("i", I64, []), ("go", BOOL, []), ("s", F32, [2, 3])],
                 [("on", BOOL, []), ("next", F32, [2, 3]), ("scan", F32, [2, 3])])

    def rounds(count):
        def run(s, w, v):
            scans = []
            for _ in range(count):
                s = torch.tanh(s @ w)
                scans.append(s * v)
            stacked = torch.stack(scans) if scans else torch.zeros(0, 2, 3)
            return s + stacked.sum(0)
        return run

    for count in (0, 1, 3):
        write(f"loop_{count}", [node("Loop", ["n", "", "s"], ["last", "scans"], body=body),
                                node("ReduceSum", ["scans", "axes"], ["sums"], keepdims=0), node("Add", ["last", "sums"], ["y"])],
              {"s": floats(2, 3), "w": floats(3, 3), "v": floats(2, 3)}, rounds(count),
              constants={"n": i64(count), "axes": i64([0])}, sized=True)
    # The condition ends it: after three rounds the state is too large.
    growing = graph("body", [node("Mul", ["s", "a"], ["next"]), node("ReduceMax", ["next"], ["most"], keepdims=0),
                             node("Less", ["most", "limit"], ["on"])],
                    [("i", I64, []), ("go", BOOL, []), ("s", F32, [2])], [("on", BOOL, []), ("next", F32, [2])])

    def grow(s, a):
        while True:
            s = s * a
            if s.max() >= 10:
                return s

    write("loop_while", [node("Loop", ["", "yes", "s"], ["y"], body=growing)],
          {"s": np.array([1, 1.5], np.float32), "a": np.array([1.5, 2], np.float32)}, grow,
          constants={"yes": np.array(True), "limit": np.float32(10)}, sized=True)
    step = graph("step", [node("Mul", ["x", "w"], ["p"]), node("Add", ["s", "p"], ["next"]), node("Sin", ["next"], ["scan"])],
                 [("s", F32, [3]), ("x", F32, [3])], [("next", F32, [3]), ("scan", F32, [3])])

    def scan(s, x, w):
        rows = []
        for row in x:
            s = s + row * w
            rows.append(torch.sin(s))
        return torch.stack(rows) * s

    write("scan", [node("Scan", ["s", "x"], ["last", "rows"], body=step, num_scan_inputs=1), node("Mul", ["rows", "last"], ["y"])],
          {"s": floats(3), "x": floats(4, 3), "w": floats(3)}, scan, sized=True)
    # An If in a Loop.
    inner = {"then_branch": graph("even", [node("Mul", ["s", "w"], ["t"])], [], [("t", F32, [3])]),
             "else_branch": graph("odd", [node("Add", ["s", "w"], ["e"])], [], [("e", F32, [3])])}
    mixed = graph("body", [node("Mod", ["i", "two"], ["rest"]), node("Equal", ["rest", "zero"], ["even"]),
                           node("If", ["even"], ["next"], **inner), node("Identity", ["go"], ["on"])],
                  [("i", I64, []), ("go", BOOL, []), ("s", F32, [3])], [("on", BOOL, []), ("next", F32, [3])])

    def alternate(s, w):
        for i in range(4):
            s = s * w if i % 2 == 0 else s + w
        return s

    write("if_in_loop", [node("Loop", ["n", "", "s"], ["y"], body=mixed)], {"s": floats(3), "w": floats(3)}, alternate,
          constants={"n": i64(4), "two": i64(2), "zero": i64(0)}, sized=True)


def regions():
    x = ranked(2, 3, 7, 8)
    boxes = np.array([[0.3, 0.7, 5.1, 4.2], [1.4, 2.3, 7.2, 6.6], [2.2, 0.4, 4.9, 5.7]], np.float32)
    images = np.array([0, 1, 0])
    with_images = np.concatenate([images[:, None], boxes], 1).astype(np.float32)
    for mode, aligned in (("half_pixel", True), ("output_half_pixel", False)):
        for ratio in (0, 2):
            write(f"roi_align_{mode}_{ratio}",
                  [node("RoiAlign", ["x", "boxes", "images"], ["y"], output_height=2, output_width=3,
                        sampling_ratio=ratio, spatial_scale=0.9, coordinate_transformation_mode=mode)], {"x": x},
                  lambda x, aligned=aligned, ratio=ratio: torchvision.ops.roi_align(
                      x, torch.from_numpy(with_images), (2, 3), 0.9, ratio or -1, aligned),
                  constants={"boxes": boxes, "images": images})
    write("max_roi_pool", [node("MaxRoiPool", ["x", "rois"], ["y"], pooled_shape=[2, 3], spatial_scale=0.9)], {"x": x},
          lambda x: torchvision.ops.roi_pool(x, torch.from_numpy(with_images), (2, 3), 0.9),
          constants={"rois": with_images})
    for name, inputs, keys in (
            ("", {"x": (2, 4, 5, 6), "w": (6, 4, 3, 2), "offset": (2, 12, 3, 5), "b": (6,), "mask": (2, 6, 3, 5)}, {}),
            ("_groups", {"x": (1, 4, 5, 6), "w": (6, 2, 2, 2), "offset": (1, 16, 4, 5)}, {"group": 2, "offset_group": 2}),
            ("_strides", {"x": (1, 2, 7, 6), "w": (3, 2, 2, 2), "offset": (1, 8, 4, 6)},
             {"strides": [2, 1], "pads": [1, 1, 1, 1], "dilations": [1, 2]})):
        if name == "_strides":
            inputs["offset"] = (1, 8, 4, 6)

        def deformed(x, w, offset, b=None, mask=None, keys=keys):
            return torchvision.ops.deform_conv2d(x, offset, w, b, keys.get("strides", 1), keys.get("pads", [0, 0])[:2],
                                                 keys.get("dilations", 1), mask)

        write("deform_conv" + name, [node("DeformConv", list(inputs), ["y"], **{"pads": [0] * 4, **keys})],
              {k: floats(*v) for k, v in inputs.items()}, deformed, opset=19)


def signals():
    for onesided in (1, 0):
        write(f"stft_{onesided}", [node("STFT", ["x", "step", "window"], ["y"], onesided=onesided)],
              {"x": floats(2, 12, 1), "window": floats(5)},
              lambda x, w, onesided=onesided: torch.stft(x[..., 0], 5, 3, window=w, center=False, onesided=onesided == 1,
                                                         return_complex=False).permute(0, 2, 1, 3),
              constants={"step": i64(3)})


def recurrences():
    """Linear attention: a state for each head that tokens decay, correct, add to and read."""
    batch, tokens, q_heads, heads, width, v_width = 2, 4, 4, 2, 3, 5
    operands = {"q": (batch, tokens, q_heads * width), "k": (batch, tokens, heads * width),
                "v": (batch, tokens, heads * v_width), "state": (batch, heads, width, v_width),
                "decay": (batch, tokens, heads * width), "beta": (batch, tokens, heads)}
    for rule in ("linear", "gated", "delta", "gated_delta"):
        used = [k for k in operands if (k != "decay" or "gated" in rule) and (k != "beta" or "delta" in rule)]

        def attend(*values, used=used):
            given = dict(zip(used, values))
            state, rows = given["state"], []
            for t in range(tokens):
                part = {k: v[:, t] for k, v in given.items() if k != "state"}
                key = part["k"].reshape(batch, heads, width, 1)
                value = part["v"].reshape(batch, heads, 1, v_width)
                if "decay" in part:
                    state = state * part["decay"].reshape(batch, heads, width, 1).exp()
                if "beta" in part:
                    value = part["beta"][..., None, None] * (value - key.transpose(2, 3) @ state)
                state = state + key @ value
                query = part["q"].reshape(batch, heads, q_heads // heads, width)
                rows.append((query @ state).reshape(batch, 1, -1) / width ** 0.5)
            return torch.cat(rows, 1)

        names = [k if k in used else "" for k in operands]
        write(f"linear_attention_{rule}", [node("LinearAttention", names, ["y"], q_num_heads=q_heads,
                                                kv_num_heads=heads, update_rule=rule)],
              {k: floats(*operands[k], low=-1, high=1) for k in used}, attend, opset=27, sized=True)


def sequences():
    write("split_to_sequence", [node("SplitToSequence", ["x", "two"], ["s"], axis=1), node("SequenceAt", ["s", "one"], ["a"]),
                                node("SequenceInsert", ["s", "b"], ["t"]), node("SequenceErase", ["t", "zero"], ["u"]),
                                node("ConcatFromSequence", ["u"], ["c"], axis=1), node("ReduceSum", ["a"], ["d"], keepdims=0),
                                node("Mul", ["c", "d"], ["y"])],
          {"x": floats(3, 5), "b": floats(3, 2)}, lambda x, b: torch.cat([x[:, 2:], b], 1) * x[:, 2:4].sum(),
          constants={"two": i64(2), "one": i64(1), "zero": i64(0)})
    write("sequence_construct", [node("SequenceConstruct", ["a", "b", "a"], ["s"]),
                                 node("ConcatFromSequence", ["s"], ["y"], axis=1, new_axis=1)],
          {"a": floats(3), "b": floats(3)}, lambda a, b: torch.stack([a, b, a], 1))
    # Each item by itself, of sizes that differ; and a list that a loop makes.
    body = helper.make_graph([node("Mul", ["r", "w"], ["p"]), node("Tanh", ["p"], ["q"])], "body",
                             [helper.make_tensor_value_info("r", F32, [3, None])],
                             [helper.make_tensor_value_info("q", F32, [3, None])])
    write("sequence_map", [node("SplitToSequence", ["x", "sizes"], ["s"], axis=1), node("SequenceMap", ["s"], ["t"], body=body),
                           node("ConcatFromSequence", ["t"], ["y"], axis=1)],
          {"x": floats(3, 5), "w": floats(3, 1)}, lambda x, w: torch.tanh(x * w), constants={"sizes": i64([2, 3])}, opset=18)
    sequence = helper.make_tensor_sequence_value_info("s", F32, None)
    taken = helper.make_tensor_sequence_value_info("t", F32, None)
    body = helper.make_graph(
        [node("Sin", ["h"], ["k"]), node("SequenceInsert", ["s", "k"], ["t"]), node("Concat", ["k", "w"], ["g"], axis=0),
         node("Identity", ["go"], ["on"])], "body",
        [helper.make_tensor_value_info("i", I64, []), helper.make_tensor_value_info("go", BOOL, []), sequence,
         helper.make_tensor_value_info("h", F32, [None])],
        [helper.make_tensor_value_info("on", BOOL, []), taken, helper.make_tensor_value_info("g", F32, [None])])

    def longer(h, w):
        rows = []
        for _ in range(3):
            h = torch.sin(h)
            rows.append(h)
            h = torch.cat([h, w])
        return torch.cat(rows) * h.sum()

    write("loop_of_sequences", [node("SequenceEmpty", [], ["none"]), node("Loop", ["n", "", "none", "h"], ["all", "last"], body=body),
                                node("ConcatFromSequence", ["all"], ["c"], axis=0), node("ReduceSum", ["last"], ["d"], keepdims=0),
                                node("Mul", ["c", "d"], ["y"])],
          {"h": floats(2), "w": floats(1)}, longer, constants={"n": i64(3)})
    write("optional", [node("Optional", ["x"], ["o"]), node("OptionalGetElement", ["o"], ["g"]), node("Mul", ["g", "x"], ["y"])],
          {"x": floats(4)}, lambda x: x * x, opset=18)


def quantization():
    q = rng.randint(-9, 9, (3, 4)).astype(np.int8)
    zero_point = np.array([1, -2, 0], np.int8)
    write("dequantize", [node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=0)], {"s": positive(3)},
          lambda s: (torch.from_numpy(q).float() - torch.from_numpy(zero_point)[:, None]) * s[:, None],
          constants={"q": q, "z": zero_point})
    write("round", [node("Round", ["x"], ["r"]), node("Mul", ["r", "x"], ["y"])], {"x": floats(5) * 3},
          lambda x: torch.round(x) * x)


def activations():
    x = floats(4, 5) * 2
    for op, f, opset, keys in (("ThresholdedRelu", lambda x: F.threshold(x, 0.5, 0), 17, {"alpha": 0.5}),
                               ("HardSigmoid", F.hardsigmoid, 17, {"alpha": 1 / 6, "beta": 0.5}),
                               ("Shrink", F.softshrink, 17, {"lambd": 0.5, "bias": 0.5}), ("Swish", F.silu, 24, {})):
        write(op.lower(), [node(op, ["x"], ["y"], **keys)], {"x": x}, f, opset=opset)


def rearrangements():
    x, image = floats(3, 4), ranked(1, 1, 4, 6)
    write("squeeze", [node("Squeeze", ["x", "axes"], ["y"])], {"x": floats(3, 1, 2)}, lambda x: x.squeeze(1),
          constants={"axes": i64([1])})
    write("trilu", [node("Trilu", ["x", "k"], ["y"], upper=1)], {"x": x}, lambda x: torch.triu(x, 1), constants={"k": i64(1)})
    indices = i64([[0, 1], [2, 3], [0, 1]])
    write("gather_nd", [node("GatherND", ["x", "i"], ["y"])], {"x": x}, lambda x: x[[0, 2, 0], [1, 3, 1]],
          constants={"i": indices})
    write("scatter_nd", [node("ScatterND", ["x", "i", "u"], ["y"])], {"x": x, "u": floats(2)},
          lambda x, u: x.index_put((torch.tensor([0, 2]), torch.tensor([1, 3])), u), constants={"i": indices[:2]})
    write("one_hot", [node("OneHot", ["i", "depth", "v"], ["y"])], {"v": floats(2)},
          lambda v: F.one_hot(torch.tensor([2, 0]), 3) * (v[1] - v[0]) + v[0], constants={"i": i64([2, 0]), "depth": i64(3)})
    write("compress", [node("Compress", ["x", "c"], ["y"], axis=1)], {"x": x}, lambda x: x[:, [0, 2]],
          constants={"c": np.array([True, False, True, False])})
    write("reverse_sequence", [node("ReverseSequence", ["x", "n"], ["y"], time_axis=1, batch_axis=0)], {"x": floats(2, 3)},
          lambda x: torch.stack([torch.cat([x[0, :2].flip(0), x[0, 2:]]), x[1].flip(0)]), constants={"n": i64([2, 3])})
    write("space_to_depth", [node("SpaceToDepth", ["x"], ["y"], blocksize=2)], {"x": image},
          lambda x: x.reshape(1, 1, 2, 2, 3, 2).permute(0, 3, 5, 1, 2, 4).reshape(1, 4, 2, 3))
    write("max_unpool", [node("MaxUnpool", ["x", "i"], ["y"], kernel_shape=[2, 2], strides=[2, 2])],
          {"x": floats(1, 1, 2, 2), "i": i64([[[[0, 3], [9, 14]]]])}, lambda x, i: F.max_unpool2d(x, i, 2))
    write("lp_pool", [node("LpPool", ["x"], ["y"], kernel_shape=[2, 3], strides=[2, 3], p=2)], {"x": positive(1, 1, 4, 6)},
          lambda x: F.lp_pool2d(x, 2.0, (2, 3)))
    write("reduce_sum_square", [node("ReduceSumSquare", ["x"], ["y"], axes=[1], keepdims=0)], {"x": x},
          lambda x: (x * x).sum(1))
    write("cumprod", [node("CumProd", ["x", "a"], ["y"])], {"x": positive(3, 4)}, lambda x: x.cumprod(1), opset=26,
          constants={"a": i64(1)})
    write("dft", [node("DFT", ["x", "", "a"], ["y"])], {"x": floats(2, 5, 1)},
          lambda x: torch.view_as_real(torch.fft.fft(x[..., 0])), opset=20, constants={"a": i64(1)})


def defined():
    """Element-wise instructions that have no fragment, where PyTorch has a function of the same name."""
    for instruction, since in definitions.elementwise():
        function = getattr(torch, instruction.name.lower(), None) or getattr(F, instruction.name.lower(), None)
        names = instruction.operands
        folder = os.path.join(case_models.folder_of_cases, instruction.name.lower())
        if function is None or "f32" not in instruction.types["y"] or instruction.gradient in ("none", "zero") or \
                os.path.exists(folder):
            continue
        for low, high in ((-0.75, 0.75), (1.25, 3)):  # within the domain of the function
            inputs = {name: floats(3, 4, low=low, high=high) for name in names}
            if np.isfinite(function(*map(torch.from_numpy, inputs.values())).numpy()).all():
                break
        write(instruction.name.lower(), [node(instruction.name, names, ["y"])], inputs, lambda *x, f=function: f(*x),
              opset=max(since, case_models.OPSET))


if __name__ == "__main__":
    case_models.main(__doc__, (elementwise, broadcast, movement, reductions, products, windows, normalizations, losses,
                               networks, recurrent, resampling, attention, control, regions, signals, recurrences,
                               sequences, quantization, activations, rearrangements,
                               defined))

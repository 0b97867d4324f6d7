#!/usr/bin/python3
"""tfjs_to_onnx.py MODEL -o OUT.onnx [--batch N]: converts a TensorFlow.js model to ONNX.

MODEL is a graph model or a layers model: model.json beside its binary shards, or the same files wrapped as JavaScript
modules (NAME.min.js, as nsfwjs ships them). Weights that are stored as float16, uint8 or uint16 become float32. Inputs and
outputs keep their names and the layout NHWC; convolutions compute in NCHW, and a Transpose is written only where the layout
changes. The output has opset 13. --batch fixes an open batch size.

An operator, layer or option without a conversion is an error that names the node. Needs Debian's python3-onnx.
"""
import argparse
import base64
import json
import os
import re
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class ConversionError(Exception):
    pass


# ---- Files ----

LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"|!0|!1|void 0|[A-Za-z_$][\w$]*(?=\s*:)|(?<![\w.])\.\d|[^"!A-Za-z_$.]+|.', re.S)
CONSTANTS = {"!0": "true", "!1": "false", "void 0": "null"}


def read_javascript(path):
    """The value that a wrapped module exports, which is a literal: an object, or a string of base64."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    begin = re.search(r'\.exports=(?=["{])', text[: 1 << 16])
    begin = begin and re.compile(r'\.exports=(?=\{modelTopology|\{format|\{generatedBy|"|\{"|\{convertedBy)').search(text)
    if not begin:
        raise ConversionError(f"{path}: no literal is exported; a module that exports a model or a shard is needed")
    start = begin.end()
    if text[start] == '"':
        return base64.b64decode(text[start + 1 : text.index('"', start + 1)])
    depth, pieces = 0, []
    for match in LITERAL.finditer(text, start):
        piece = match.group()
        if piece in CONSTANTS:
            piece = CONSTANTS[piece]
        elif piece[0].isalpha() or piece[0] in "_$":
            following = text[match.end() : match.end() + 1]
            piece = json.dumps(piece) if following == ":" else piece
        elif piece[0] == "." and len(piece) == 2:
            piece = "0" + piece
        if piece[0] != '"':
            end = None
            for at, letter in enumerate(piece):
                depth += (letter in "{[") - (letter in "}]")
                if depth == 0:
                    end = at + 1
                    break
            pieces.append(piece[:end])
            if end is not None:
                break
        else:
            pieces.append(piece)
    return json.loads("".join(pieces))


def read_model(path):
    """model.json, whichever way it is written, and the bytes of its weights."""
    wrapped = path.endswith(".js")
    if wrapped:
        model = read_javascript(path)
    else:
        with open(path, encoding="utf-8") as file:
            try:
                model = json.load(file)
            except ValueError as error:
                raise ConversionError(f"{path}: no JSON ({error}); model.json of a TensorFlow.js model is needed") from None
    if not isinstance(model, dict) or "modelTopology" not in model or "weightsManifest" not in model:
        raise ConversionError(f"{path}: no modelTopology and weightsManifest; model.json of a TensorFlow.js model is needed")
    weights = {}
    for group in model["weightsManifest"]:
        data = b""
        for shard in group["paths"]:
            file = os.path.join(os.path.dirname(path), re.sub(r"\.bin$", "", shard) + ".min.js" if wrapped else shard)
            if wrapped:
                data += read_javascript(file)
                continue
            with open(file, "rb") as stream:
                data += stream.read()
        at = 0
        for entry in group["weights"]:
            weights[entry["name"]], at = read_weight(entry, data, at)
    return model["modelTopology"], weights


def read_weight(entry, data, at):
    packed = entry.get("quantization")
    dtype = np.dtype((packed or entry)["dtype"].replace("bool", "uint8"))
    count = int(np.prod(entry["shape"], dtype=np.int64))
    end = at + count * dtype.itemsize
    if end > len(data):
        raise ConversionError(f'weights end before "{entry["name"]}": {len(data)} bytes; expected {end} or more')
    x = np.frombuffer(data[at:end], dtype).reshape(entry["shape"])
    if packed and packed["dtype"] != "float16":
        x = x * np.float32(packed["scale"]) + np.float32(packed["min"])
    return x.astype(entry["dtype"]), end


# ---- Writing ONNX ----


class Value:
    """A tensor: its name in ONNX, its rank (None: unknown), whether it is NCHW, and its elements if it is a constant."""

    def __init__(self, name, rank=None, nchw=False, constant=None):
        self.name, self.rank, self.nchw, self.constant = name, rank, nchw, constant
        self.other = None


class Writer:
    def __init__(self):
        self.nodes, self.constants, self.used = [], {}, set()

    def fresh(self, stem):
        name, number = stem, 1
        while name in self.used:
            name, number = f"{stem}_{number}", number + 1
        self.used.add(name)
        return name

    def constant(self, x, stem="constant"):
        x = np.asarray(x)
        name = self.fresh(stem)
        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(x), name)
        return name

    def put(self, op, inputs, stem, outputs=1, **attributes):
        names = [self.fresh(stem) for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=self.fresh(f"{stem}/{op}"), **attributes))
        return names[0] if outputs == 1 else names

    def lay(self, v, nchw):
        """The tensor in one of the layouts, and a Transpose for it once."""
        if v.constant is not None:
            x = v.constant
            if nchw and x.ndim == 4:
                x = x.transpose(0, 3, 1, 2)
            elif nchw and 1 <= x.ndim <= 3:
                x = np.moveaxis(x.reshape((1,) * (3 - x.ndim) + x.shape), 2, 0)
            key = f"{v.name}/{'nchw' if nchw else 'nhwc'}"
            if v.other is None:
                v.other = {}
            if key not in v.other:
                v.other[key] = self.constant(x, v.name)
            return v.other[key]
        if v.nchw == nchw:
            return v.name
        if v.rank != 4:
            raise ConversionError(f'"{v.name}" has no layout of images')
        if v.other is None:
            v.other = self.put("Transpose", [v.name], v.name, perm=[0, 3, 1, 2] if nchw else [0, 2, 3, 1])
        return v.other

    def nhwc(self, v):
        return self.lay(v, False)

    def nchw(self, v):
        return self.lay(v, True)

    # ---- What graph and layers models have in common ----

    def activate(self, name, kind, stem, alpha=None, slope=None):
        if kind in (None, "linear"):
            return name
        simple = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "elu": "Elu", "softplus": "Softplus"}
        if kind in simple:
            return self.put(simple[kind], [name], stem)
        if kind == "relu6":
            return self.put("Clip", [name, self.constant(np.float32(0)), self.constant(np.float32(6))], stem)
        if kind == "leaky_relu":
            return self.put("LeakyRelu", [name], stem, alpha=alpha)
        if kind == "prelu":
            return self.put("PRelu", [name, slope], stem)
        if kind == "softmax":
            return self.put("Softmax", [name], stem, axis=-1)
        if kind == "swish":
            return self.put("Mul", [name, self.put("Sigmoid", [name], stem)], stem)
        raise ConversionError(f'"{stem}": activation "{kind}" has no conversion')

    def conv(self, x, weights, bias, strides, dilations, padding, stem, group=1):
        """`weights` OIHW; `padding` "same", "valid" or ONNX's pads."""
        pads = {"auto_pad": "SAME_UPPER" if padding == "same" else "VALID"} if isinstance(padding, str) else {"pads": padding}
        inputs = [self.nchw(x), self.constant(weights, f"{stem}/weights")]
        if bias is not None:
            inputs.append(self.constant(bias, f"{stem}/bias"))
        return self.put("Conv", inputs, stem, kernel_shape=list(weights.shape[2:]), strides=strides, dilations=dilations,
                        group=group, **pads)

    def pool(self, op, x, size, strides, padding, stem):
        more = {"count_include_pad": 0} if op == "AveragePool" else {}
        name = self.put(op, [self.nchw(x)], stem, kernel_shape=size, strides=strides,
                        auto_pad="SAME_UPPER" if padding == "same" else "VALID", **more)
        return Value(name, 4, True)

    def flat(self, x, shape, stem):
        return self.put("Reshape", [self.nhwc(x), self.constant(np.asarray(shape, np.int64))], stem)

    def mean(self, x, axes, keep, stem, op="ReduceMean"):
        """Over the axes of NHWC; images stay NCHW where their axes remain."""
        if x.rank == 4 and x.nchw and sorted(a % 4 for a in axes) == [1, 2]:
            name = self.reduce(op, x.name, [2, 3], keep, stem)
            return Value(name, 4 if keep else 2, keep)
        name = self.reduce(op, self.nhwc(x), axes, keep, stem)
        return Value(name, x.rank if keep or x.rank is None else x.rank - len(axes))

    def reduce(self, op, name, axes, keep, stem):
        if op == "ReduceSum":
            return self.put(op, [name, self.constant(np.asarray(axes, np.int64))], stem, keepdims=int(keep))
        return self.put(op, [name], stem, axes=axes, keepdims=int(keep))

    def pad(self, x, pads, value, stem):
        """`pads` a row of two for each axis of NHWC."""
        pads = np.asarray(pads, np.int64)
        nchw = x.rank == 4 and x.nchw
        if nchw:
            pads = pads[[0, 3, 1, 2]]
        name = self.put("Pad", [x.name if nchw else self.nhwc(x), self.constant(pads.T.reshape(-1)),
                                self.constant(np.float32(value))], stem)
        return Value(name, len(pads), nchw)

    def concat(self, values, axis, stem):
        ranks = [v.rank for v in values]
        if all(rank == 4 for rank in ranks) and any(v.nchw for v in values):
            name = self.put("Concat", [self.nchw(v) for v in values], stem, axis=[0, 2, 3, 1][axis % 4])
            return Value(name, 4, True)
        return Value(self.put("Concat", [self.nhwc(v) for v in values], stem, axis=axis), ranks[0])

    def binary(self, op, a, b, stem):
        """Element by element, in NCHW if an operand is an image in NCHW and the other one can be."""
        def fits(v):
            return v.rank == 4 or (v.constant is not None and v.rank <= 4)

        nchw = (a.nchw or b.nchw) and fits(a) and fits(b)
        name = self.put(op, [self.lay(a, nchw), self.lay(b, nchw)], stem)
        known = a.rank is not None and b.rank is not None
        return Value(name, max(a.rank, b.rank) if known else None, nchw)

    def model(self, inputs, outputs):
        graph = helper.make_graph(self.nodes, "tfjs", inputs, outputs, list(self.constants.values()))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], producer_name="tfjs_to_onnx")
        model.ir_version = 7
        return model


# ---- Graph models ----

DTYPES = {"DT_FLOAT": TensorProto.FLOAT, "DT_INT32": TensorProto.INT32, "DT_INT64": TensorProto.INT64, "DT_BOOL": TensorProto.BOOL}
UNARY = {"Relu": "Relu", "Sigmoid": "Sigmoid", "Tanh": "Tanh", "Sqrt": "Sqrt", "Exp": "Exp", "Log": "Log", "Neg": "Neg", "Abs": "Abs",
         "Floor": "Floor", "Elu": "Elu", "Softplus": "Softplus", "Identity": "Identity", "StopGradient": "Identity"}
BINARY = {"Add": "Add", "AddV2": "Add", "BiasAdd": "Add", "Sub": "Sub", "Mul": "Mul", "RealDiv": "Div", "Maximum": "Max", "Minimum": "Min",
          "FloorDiv": "Div", "Pow": "Pow", "Greater": "Greater", "Less": "Less"}
IGNORED = {"NoOp"}


class Node:
    def __init__(self, proto):
        self.name, self.op, self.attributes = proto["name"], proto["op"], proto.get("attr", {})
        self.inputs = [i for i in proto.get("input", []) if not i.startswith("^")]

    def get(self, name, otherwise=None):
        if name not in self.attributes:
            return otherwise
        a = self.attributes[name]
        if "s" in a:
            return base64.b64decode(a["s"]).decode()
        if "list" in a:
            items = a["list"]
            if "s" in items:
                return [base64.b64decode(s).decode() for s in items["s"]]
            return [int(i) for i in items.get("i", [])]
        if "i" in a:
            return int(a["i"])
        if "shape" in a:
            return [int(d["size"]) for d in a["shape"].get("dim", [])]
        return next(iter(a.values()), otherwise)

    def fail(self, what):
        raise ConversionError(f'node "{self.name}" ({self.op}): {what}')


class GraphModel:
    def __init__(self, topology, weights, batch):
        self.w, self.values, self.batch, self.inputs = Writer(), {}, batch, []
        self.weights = weights
        nodes = [Node(n) for n in topology["node"]]
        read = {i.split(":")[0] for n in nodes for i in n.inputs}
        self.outputs = [n.name for n in nodes if n.name not in read and n.op not in IGNORED | {"Const"}]
        self.w.used.update(self.outputs)
        missing = sorted({n.op for n in nodes if n.op not in IGNORED and not self.converts(n.op)})
        if missing:
            first = next(n for n in nodes if n.op == missing[0])
            raise ConversionError(f'operators without a conversion: {", ".join(missing)} (the first is node "{first.name}")')
        for n in self.ordered(nodes):
            self.convert(n)

    def converts(self, op):
        return op in UNARY or op in BINARY or hasattr(self, "op_" + op.lstrip("_"))

    @staticmethod
    def ordered(nodes):
        """Producers before consumers; the file need not have that order."""
        by_name, done, order = {n.name: n for n in nodes}, set(), []
        for start in nodes:
            stack = [(start, False)]
            while stack:
                n, after = stack.pop()
                if after:
                    order.append(n)
                elif n.name not in done:
                    done.add(n.name)
                    stack.append((n, True))
                    for name in n.inputs:
                        if name.split(":")[0] not in by_name:
                            n.fail(f'input "{name}" is no node')
                        stack.append((by_name[name.split(":")[0]], False))
        return order

    def convert(self, n):
        if n.op in IGNORED:
            return
        x = [self.values[i.split(":")[0]][int(i.split(":")[1]) if ":" in i else 0] for i in n.inputs]
        if n.op in UNARY:
            made = Value(self.w.put(UNARY[n.op], [x[0].name if x[0].constant is None else self.w.nhwc(x[0])], n.name), x[0].rank, x[0].nchw)
        elif n.op in BINARY:
            if n.op == "FloorDiv" and n.get("T") != "DT_INT32":
                n.fail("floor division of floats has no conversion")
            made = self.w.binary(BINARY[n.op], x[0], x[1], n.name)
        else:
            made = getattr(self, "op_" + n.op.lstrip("_"))(n, *x)
        self.values[n.name] = made if isinstance(made, list) else [made]

    def number(self, n, v):
        if v.constant is None:
            n.fail(f'operand "{v.name}" is computed; a constant is needed')
        return v.constant

    # Each receives the node and its operands.

    def op_Placeholder(self, n):
        shape = n.get("shape") or n.fail("its shape is unknown")
        shape = [self.batch if i == 0 and d < 0 and self.batch else d for i, d in enumerate(shape)]
        self.inputs.append(helper.make_tensor_value_info(n.name, DTYPES[n.get("dtype")], [d if d >= 0 else f"dim_{i}" for i, d in enumerate(shape)]))
        self.w.used.add(n.name)
        return Value(n.name, len(shape))

    def op_Const(self, n):
        if n.name not in self.weights:
            n.fail("the weights have no such constant")
        x = self.weights[n.name]
        return Value(n.name, x.ndim, constant=x)

    def pair(self, n, name):
        values = n.get(name) or [1, 1, 1, 1]
        if n.get("data_format", "NHWC") != "NHWC":
            n.fail("data_format NCHW has no conversion")
        return values[1:3]

    def padding(self, n):
        padding = n.get("padding", "VALID").lower()
        if padding == "explicit":
            pads = n.get("explicit_paddings")
            return [pads[2], pads[4], pads[3], pads[5]]
        return padding

    def convolve(self, n, x, w, more, depthwise):
        w = self.number(n, w)
        group = w.shape[2] if depthwise else 1
        w = w.transpose(2, 3, 0, 1).reshape(-1, 1, *w.shape[:2]) if depthwise else w.transpose(3, 2, 0, 1)
        fused = n.get("fused_ops") or []
        bias = self.number(n, more[0]) if fused[:1] == ["BiasAdd"] else None
        name = self.w.conv(x, w, bias, self.pair(n, "strides"), self.pair(n, "dilations"), self.padding(n), n.name, group)
        return Value(self.fused(n, name, fused, more, True), 4, True)

    def fused(self, n, name, fused, more, nchw):
        for kind in fused:
            if kind == "BiasAdd":
                continue
            names = {"Relu": "relu", "Relu6": "relu6", "Elu": "elu", "Prelu": "prelu", "LeakyRelu": "leaky_relu", "Sigmoid": "sigmoid"}
            if kind not in names:
                n.fail(f"fused operator {kind} has no conversion")
            slope = self.w.lay(more[1], nchw) if kind == "Prelu" else None
            name = self.w.activate(name, names[kind], n.name, n.get("leakyrelu_alpha", 0.2), slope)
        return name

    def op_Conv2D(self, n, x, w, *more):
        return self.convolve(n, x, w, more, False)

    op_FusedConv2D = op_Conv2D

    def op_DepthwiseConv2dNative(self, n, x, w, *more):
        return self.convolve(n, x, w, more, True)

    op_FusedDepthwiseConv2dNative = op_DepthwiseConv2dNative

    def op_Conv2DBackpropInput(self, n, shape, w, x):
        w, strides = self.number(n, w), self.pair(n, "strides")
        if self.padding(n) not in ("same", "valid"):
            n.fail("explicit padding has no conversion")
        total = [max(k - s, 0) if self.padding(n) == "same" else 0 for k, s in zip(w.shape[:2], strides)]
        name = self.w.put("ConvTranspose", [self.w.nchw(x), self.w.constant(w.transpose(3, 2, 0, 1), f"{n.name}/weights")], n.name,
                          kernel_shape=list(w.shape[:2]), strides=strides, pads=[t // 2 for t in total] + [t - t // 2 for t in total])
        return Value(name, 4, True)

    def op_MatMul(self, n, x, w, *more):
        w, fused = self.number(n, w), n.get("fused_ops") or []
        if n.get("transpose_a", False):
            n.fail("a transposed first operand has no conversion")
        w = w.T if n.get("transpose_b", False) else w
        inputs = [self.w.nhwc(x), self.w.constant(w, f"{n.name}/weights")]
        if fused[:1] == ["BiasAdd"]:
            inputs.append(self.w.constant(self.number(n, more[0]), f"{n.name}/bias"))
        return Value(self.fused(n, self.w.put("Gemm", inputs, n.name), fused, more, False), 2)

    op_FusedMatMul = op_MatMul

    def op_Relu6(self, n, x):
        return Value(self.w.activate(x.name, "relu6", n.name), x.rank, x.nchw)

    def op_LeakyRelu(self, n, x):
        return Value(self.w.activate(x.name, "leaky_relu", n.name, n.get("alpha", 0.2)), x.rank, x.nchw)

    def op_Prelu(self, n, x, slope):
        return Value(self.w.activate(x.name, "prelu", n.name, slope=self.w.lay(slope, x.nchw)), x.rank, x.nchw)

    def op_Softmax(self, n, x):
        return Value(self.w.activate(self.w.nhwc(x), "softmax", n.name), x.rank)

    def op_Square(self, n, x):
        return Value(self.w.put("Mul", [x.name, x.name], n.name), x.rank, x.nchw)

    def op_Rsqrt(self, n, x):
        return Value(self.w.put("Reciprocal", [self.w.put("Sqrt", [x.name], n.name)], n.name), x.rank, x.nchw)

    def op_SquaredDifference(self, n, a, b):
        return self.op_Square(n, self.w.binary("Sub", a, b, n.name))

    def op_AddN(self, n, *x):
        total = x[0]
        for more in x[1:]:
            total = self.w.binary("Add", total, more, n.name)
        return total

    def op_FusedBatchNormV3(self, n, x, scale, offset, mean, variance):
        scale, offset, mean, variance = (self.number(n, v) for v in (scale, offset, mean, variance))
        names = [self.w.constant(v, f"{n.name}/{s}") for v, s in ((scale, "scale"), (offset, "offset"), (mean, "mean"), (variance, "variance"))]
        return Value(self.w.put("BatchNormalization", [self.w.nchw(x)] + names, n.name, epsilon=n.get("epsilon", 1e-3)), 4, True)

    def op_MaxPool(self, n, x):
        return self.w.pool("MaxPool", x, self.pair(n, "ksize"), self.pair(n, "strides"), self.padding(n), n.name)

    def op_AvgPool(self, n, x):
        return self.w.pool("AveragePool", x, self.pair(n, "ksize"), self.pair(n, "strides"), self.padding(n), n.name)

    def op_Mean(self, n, x, axes, op="ReduceMean"):
        return self.w.mean(x, [int(a) for a in self.number(n, axes).reshape(-1)], n.get("keep_dims", False), n.name, op)

    def op_Max(self, n, x, axes):
        return self.op_Mean(n, x, axes, "ReduceMax")

    def op_Sum(self, n, x, axes):
        return self.op_Mean(n, x, axes, "ReduceSum")

    def op_Pad(self, n, x, pads):
        return self.w.pad(x, self.number(n, pads), 0, n.name)

    def op_PadV2(self, n, x, pads, value):
        return self.w.pad(x, self.number(n, pads), self.number(n, value), n.name)

    def op_ConcatV2(self, n, *x):
        return self.w.concat(x[:-1], int(self.number(n, x[-1])), n.name)

    def op_Reshape(self, n, x, shape):
        if shape.constant is None:
            name = self.w.put("Cast", [self.w.nhwc(shape)], n.name, to=TensorProto.INT64)
            return Value(self.w.put("Reshape", [self.w.nhwc(x), name], n.name))
        return Value(self.w.flat(x, shape.constant, n.name), shape.constant.size)

    def op_Squeeze(self, n, x):
        axes = n.get("squeeze_dims") or n.get("axis")
        if not axes:
            return Value(self.w.put("Squeeze", [self.w.nhwc(x)], n.name))
        return Value(self.w.put("Squeeze", [self.w.nhwc(x), self.w.constant(np.asarray(axes, np.int64))], n.name),
                     None if x.rank is None else x.rank - len(axes))

    def op_ExpandDims(self, n, x, axis):
        name = self.w.put("Unsqueeze", [self.w.nhwc(x), self.w.constant(self.number(n, axis).reshape(1).astype(np.int64))], n.name)
        return Value(name, None if x.rank is None else x.rank + 1)

    def op_Transpose(self, n, x, axes):
        axes = [int(a) for a in self.number(n, axes)]
        if axes == [0, 3, 1, 2] and x.rank == 4 and x.nchw:
            return Value(self.w.put("Identity", [x.name], n.name), 4)
        if axes == [0, 2, 3, 1] and x.rank == 4 and not x.nchw:
            made = Value(self.w.put("Identity", [x.name], n.name), 4, True)
            return made
        return Value(self.w.put("Transpose", [self.w.nhwc(x)], n.name, perm=axes), len(axes))

    def op_Cast(self, n, x):
        if n.get("DstT") not in DTYPES:
            n.fail(f'type {n.get("DstT")} has no conversion')
        return Value(self.w.put("Cast", [x.name if x.constant is None else self.w.nhwc(x)], n.name, to=DTYPES[n.get("DstT")]), x.rank, x.nchw)

    def op_Unpack(self, n, x):
        count, axis = n.get("num"), n.get("axis", 0)
        parts = self.w.put("Split", [self.w.nhwc(x)], n.name, outputs=count, axis=axis) if count > 1 else [self.w.nhwc(x)]
        axes = self.w.constant(np.array([axis], np.int64))
        return [Value(self.w.put("Squeeze", [part, axes], n.name), None if x.rank is None else x.rank - 1) for part in parts]

    def op_Pack(self, n, *x):
        axis = n.get("axis", 0)
        axes = self.w.constant(np.array([axis], np.int64))
        parts = [self.w.put("Unsqueeze", [self.w.nhwc(v), axes], n.name) for v in x]
        return Value(self.w.put("Concat", parts, n.name, axis=axis), None if x[0].rank is None else x[0].rank + 1)

    def op_GatherNd(self, n, x, indices):
        wide = self.w.put("Cast", [self.w.nhwc(indices)], n.name, to=TensorProto.INT64)
        return Value(self.w.put("GatherND", [self.w.nhwc(x), wide], n.name))

    def op_ArgMax(self, n, x, axis):
        name = self.w.put("ArgMax", [self.w.nhwc(x)], n.name, axis=int(self.number(n, axis)), keepdims=0)
        kind = DTYPES[n.get("output_type", "DT_INT64")]
        return Value(self.w.put("Cast", [name], n.name, to=kind), None if x.rank is None else x.rank - 1)

    def op_Split(self, n, axis, x):
        return [Value(v, x.rank) for v in self.w.put("Split", [self.w.nhwc(x)], n.name, outputs=n.get("num_split"), axis=int(self.number(n, axis)))]

    def op_SplitV(self, n, x, sizes, axis):
        sizes = self.number(n, sizes).astype(np.int64)
        parts = self.w.put("Split", [self.w.nhwc(x), self.w.constant(sizes)], n.name, outputs=len(sizes), axis=int(self.number(n, axis)))
        return [Value(v, x.rank) for v in parts]

    def resize(self, n, x, size, **attributes):
        size = self.number(n, size).astype(np.int64)
        align, half = n.get("align_corners", False), n.get("half_pixel_centers", False)
        shape = self.w.put("Shape", [self.w.nchw(x)], n.name)
        head = self.w.put("Slice", [shape, self.w.constant(np.array([0], np.int64)), self.w.constant(np.array([2], np.int64))], n.name)
        sizes = self.w.put("Concat", [head, self.w.constant(size)], n.name, axis=0)
        name = self.w.put("Resize", [self.w.nchw(x), "", "", sizes], n.name,
                          coordinate_transformation_mode="align_corners" if align else "half_pixel" if half else "asymmetric", **attributes)
        return Value(name, 4, True)

    def op_ResizeBilinear(self, n, x, size):
        return self.resize(n, x, size, mode="linear")

    def op_ResizeNearestNeighbor(self, n, x, size):
        if n.get("align_corners", False):
            n.fail("align_corners has no conversion")
        return self.resize(n, x, size, mode="nearest", nearest_mode="floor" if not n.get("half_pixel_centers", False) else "round_prefer_ceil")

    def model(self):
        outputs = []
        for name in self.outputs:
            for i, v in enumerate(self.values[name]):
                made = self.w.nhwc(v)
                public = name if i == 0 else f"{name}:{i}"
                self.w.nodes.append(helper.make_node("Identity", [made], [f"{public}/output"]))
                outputs.append(f"{public}/output")
        return self.w.model(self.inputs, [helper.make_tensor_value_info(o, TensorProto.UNDEFINED, None) for o in outputs])


# ---- Layers models ----


class LayersModel:
    def __init__(self, topology, weights, batch):
        self.w, self.batch, self.inputs, self.values, self.shared = Writer(), batch, [], {}, weights
        config = topology.get("model_config", topology)
        layers = config["config"]["layers"] if isinstance(config["config"], dict) else config["config"]
        missing = sorted({layer["class_name"] for layer in layers if not hasattr(self, "layer_" + layer["class_name"])})
        if missing:
            first = next(layer for layer in layers if layer["class_name"] == missing[0])
            raise ConversionError(f'layers without a conversion: {", ".join(missing)} (the first is "{first["config"]["name"]}")')
        previous = None
        for layer in layers:
            c = layer["config"]
            if config["class_name"] == "Sequential" and previous is None and layer["class_name"] != "InputLayer":
                previous = self.layer_InputLayer({"name": f'{c["name"]}_input', **c}, [])
            nodes = layer.get("inbound_nodes") or []
            if len(nodes) > 1:
                raise ConversionError(f'layer "{c["name"]}" ({layer["class_name"]}) is used {len(nodes)} times; once has a conversion')
            x = [self.values[entry[0]] for entry in nodes[0]] if nodes else [previous] if previous is not None else []
            previous = self.values[c["name"]] = getattr(self, "layer_" + layer["class_name"])(c, x)
        named = config["config"].get("output_layers") if isinstance(config["config"], dict) else None
        self.outputs = [entry[0] for entry in named] if named else [layers[-1]["config"]["name"]]

    def weight(self, c, name, needed=True):
        found = self.shared.get(f'{c["name"]}/{name}')
        if found is None and needed:
            raise ConversionError(f'the weights have no "{c["name"]}/{name}"')
        return found

    def activation(self, c, name):
        return self.w.activate(name, c.get("activation"), c["name"])

    def check(self, c):
        if c.get("data_format", "channels_last") != "channels_last":
            raise ConversionError(f'layer "{c["name"]}": data_format {c["data_format"]} has no conversion')

    def layer_InputLayer(self, c, _):
        shape = c["batch_input_shape"]
        dims = [self.batch if i == 0 and d is None and self.batch else d if d is not None else f"dim_{i}" for i, d in enumerate(shape)]
        self.inputs.append(helper.make_tensor_value_info(c["name"], TensorProto.FLOAT, dims))
        self.w.used.add(c["name"])
        return Value(c["name"], len(shape))

    def layer_Conv2D(self, c, x):
        self.check(c)
        w = self.weight(c, "kernel").transpose(3, 2, 0, 1)
        name = self.w.conv(x[0], w, self.weight(c, "bias", c["use_bias"]), c["strides"], c["dilation_rate"], c["padding"], c["name"])
        return Value(self.activation(c, name), 4, True)

    def layer_DepthwiseConv2D(self, c, x):
        self.check(c)
        w = self.weight(c, "depthwise_kernel")
        channels = w.shape[2]
        w = w.transpose(2, 3, 0, 1).reshape(-1, 1, *w.shape[:2])
        name = self.w.conv(x[0], w, self.weight(c, "bias", c["use_bias"]), c["strides"], c.get("dilation_rate", [1, 1]), c["padding"],
                           c["name"], channels)
        return Value(self.activation(c, name), 4, True)

    def layer_Dense(self, c, x):
        inputs = [self.w.nhwc(x[0]), self.w.constant(self.weight(c, "kernel"), f'{c["name"]}/weights')]
        if c["use_bias"]:
            inputs.append(self.w.constant(self.weight(c, "bias"), f'{c["name"]}/bias'))
        if x[0].rank != 2:
            raise ConversionError(f'layer "{c["name"]}": Dense of a tensor that is no matrix has no conversion')
        return Value(self.activation(c, self.w.put("Gemm", inputs, c["name"])), 2)

    def layer_BatchNormalization(self, c, x):
        mean, variance = self.weight(c, "moving_mean"), self.weight(c, "moving_variance")
        scale, offset = self.weight(c, "gamma", c["scale"]), self.weight(c, "beta", c["center"])
        scale = np.ones_like(mean) if scale is None else scale
        offset = np.zeros_like(mean) if offset is None else offset
        if x[0].rank not in (2, 4) or c["axis"] not in (-1, x[0].rank - 1, [x[0].rank - 1]):
            raise ConversionError(f'layer "{c["name"]}": axis {c["axis"]} of rank {x[0].rank} has no conversion')
        names = [self.w.constant(v, f'{c["name"]}/{s}') for v, s in ((scale, "scale"), (offset, "offset"), (mean, "mean"), (variance, "variance"))]
        image = x[0].rank == 4
        name = self.w.put("BatchNormalization", [self.w.lay(x[0], image)] + names, c["name"], epsilon=c["epsilon"])
        return Value(name, x[0].rank, image)

    def layer_Activation(self, c, x):
        if c["activation"] == "softmax":
            return Value(self.activation(c, self.w.nhwc(x[0])), x[0].rank)
        return Value(self.activation(c, x[0].name), x[0].rank, x[0].nchw)

    def layer_ReLU(self, c, x):
        if c.get("negative_slope") or c.get("threshold"):
            raise ConversionError(f'layer "{c["name"]}": a slope or threshold has no conversion')
        limit = c.get("max_value")
        if limit is None:
            return Value(self.w.put("Relu", [x[0].name], c["name"]), x[0].rank, x[0].nchw)
        bounds = [self.w.constant(np.float32(0)), self.w.constant(np.float32(limit))]
        return Value(self.w.put("Clip", [x[0].name] + bounds, c["name"]), x[0].rank, x[0].nchw)

    def layer_ZeroPadding2D(self, c, x):
        self.check(c)
        return self.w.pad(x[0], [[0, 0], *c["padding"], [0, 0]], 0, c["name"])

    def layer_MaxPooling2D(self, c, x):
        self.check(c)
        return self.w.pool("MaxPool", x[0], c["pool_size"], c["strides"], c["padding"], c["name"])

    def layer_AveragePooling2D(self, c, x):
        self.check(c)
        return self.w.pool("AveragePool", x[0], c["pool_size"], c["strides"], c["padding"], c["name"])

    def layer_GlobalAveragePooling2D(self, c, x):
        self.check(c)
        return self.w.mean(x[0], [1, 2], False, c["name"])

    def layer_Add(self, c, x):
        total = x[0]
        for more in x[1:]:
            total = self.w.binary("Add", total, more, c["name"])
        return total

    def layer_Concatenate(self, c, x):
        return self.w.concat(x, c["axis"], c["name"])

    def layer_Flatten(self, c, x):
        return Value(self.w.flat(x[0], [0, -1], c["name"]), 2)

    def layer_Reshape(self, c, x):
        return Value(self.w.flat(x[0], [0, *c["target_shape"]], c["name"]), 1 + len(c["target_shape"]))

    def layer_Dropout(self, _, x):
        return x[0]

    def model(self):
        outputs = []
        for name in self.outputs:
            self.w.nodes.append(helper.make_node("Identity", [self.w.nhwc(self.values[name])], [f"{name}/output"]))
            outputs.append(f"{name}/output")
        return self.w.model(self.inputs, [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs])


def convert(path, batch=None):
    topology, weights = read_model(path)
    kind = GraphModel if "node" in topology else LayersModel
    model = kind(topology, weights, batch).model()
    # Types of the outputs are those that follow from the nodes.
    for output, found in zip(model.graph.output, infer(model).graph.output):
        output.CopyFrom(found)
        if not output.type.tensor_type.elem_type:
            output.type.tensor_type.elem_type = TensorProto.FLOAT
    onnx.checker.check_model(model)
    return model


def infer(model):
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for output in bare.graph.output:
        output.ClearField("type")
    return onnx.shape_inference.infer_shapes(bare)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--batch", type=int)
    arguments = parser.parse_args()
    try:
        onnx.save(convert(arguments.model, arguments.batch), arguments.output)
    except (ConversionError, OSError) as error:
        print(f"tfjs_to_onnx.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

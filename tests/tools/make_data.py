#!/usr/bin/python3
"""Makes the models, test cases and tensor files under data/ that the tests of the command use.

They are committed; run this (with python3-onnx and python3-numpy) only to change them."""
import os
import zlib
import struct

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def save(path, nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs,
                              [numpy_helper.from_array(a, n) for n, a in constants])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], producer_name="make_data")
    model.ir_version = 8
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(model.SerializeToString())


def case(name, nodes, inputs, outputs, sets, constants=(), place="cases"):
    save(f"{HERE}/{place}/{name}/model.onnx", nodes, inputs, outputs, constants)
    for i, (ins, outs) in enumerate(sets):
        folder = f"{HERE}/{place}/{name}/test_data_set_{i}"
        os.makedirs(folder, exist_ok=True)
        for kind, arrays in (("input", ins), ("output", outs)):
            for k, array in enumerate(arrays):
                with open(f"{folder}/{kind}_{k}.pb", "wb") as f:
                    f.write(numpy_helper.from_array(array).SerializeToString())


F, I = TensorProto.FLOAT, TensorProto.INT64
x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
w = np.array([10, 20, 30], np.float32)
add = [helper.make_node("Add", ["x", "w"], ["s"], name="adding"), helper.make_node("Relu", ["s"], ["y"], name="relu")]
good = np.maximum(x + w, 0)
case("add", add, [value("x", F, ["N", 3])], [value("y", F, ["N", 3])], [([x], [good]), ([x[:1]], [good[:1]])],
     [("w", w)])
bad = good.copy()
bad[1, 1] += 1
case("wrong", add, [value("x", F, ["N", 3])], [value("y", F, ["N", 3])], [([x], [bad])], [("w", w)])
case("unknown", [helper.make_node("Frobnicate", ["x"], ["y"], name="a"), helper.make_node("Befuddle", ["y"], ["z"], name="b")],
     [value("x", F, [2, 3])], [value("z", F, [2, 3])], [([x], [x])])
case("random", [helper.make_node("RandomNormalLike", ["x"], ["y"])], [value("x", F, [2, 3])], [value("y", F, [2, 3])],
     [([x], [x])])
case("sums", [helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("Shape", ["c"], ["d"])],
     [value("a", F, ["N", 2]), value("b", F, ["N", 2])], [value("c", F, ["N", 2]), value("d", I, [2])],
     [([x[:, :2].copy(), x[:, :2].copy()], [2 * x[:, :2], np.array([2, 2])])])

# A loss, sum(relu(x + fc.bias) * fc.weight), and its gradients.
weight, bias = np.array([2, 3, 4], np.float32), np.array([1, 1, 1], np.float32)
network = [helper.make_node("Add", ["x", "fc.bias"], ["s"], name="adding"), helper.make_node("Relu", ["s"], ["r"], name="relu"),
           helper.make_node("Mul", ["r", "fc.weight"], ["p"], name="product"),
           helper.make_node("ReduceSum", ["p"], ["loss"], keepdims=0, name="sum")]
relu = np.maximum(x + bias, 0)
of_bias = ((relu > 0) * weight).sum(0)
for name, gradients in (("right", {"fc.weight": relu.sum(0), "fc.bias": of_bias, "x": (relu > 0) * weight}),
                        ("wrong", {"fc.weight": relu.sum(0), "fc.bias": of_bias + 1}), ("nobody", {"nobody": weight})):
    case(name, network, [value("x", F, ["N", 3])], [value("loss", F, [])], [([x], [(relu * weight).sum()])],
         [("fc.weight", weight), ("fc.bias", bias)], "gradients")
    for k, (parameter, array) in enumerate(gradients.items()):
        with open(f"{HERE}/gradients/{name}/test_data_set_0/gradient_{k}.pb", "wb") as f:
            f.write(numpy_helper.from_array(array.astype(np.float32), "grad_out@" + parameter).SerializeToString())

# A model in training form: a case by the letter of ONNX, whose results are of the batch; and one that can learn.
statistics = [("scale", np.array([1, 2], np.float32)), ("shift", np.array([0, 1], np.float32)),
              ("mean", np.array([1, 3], np.float32)), ("var", np.array([4, 16], np.float32))]


def normalization(x, y):
    return helper.make_node("BatchNormalization", [x, "scale", "shift", "mean", "var"],
                            [y, "new_mean", "new_var", "saved_mean", "saved_var"], name="norm", epsilon=0.0)


case("letter", [normalization("x", "y")], [value("x", F, ["N", 2])], [value("y", F, ["N", 2])],
     [([np.array([[3, 7], [-1, 3]], np.float32)], [np.array([[1, 3], [-1, -1]], np.float32)])], statistics, "training")
save(f"{HERE}/training/learns.onnx",
     [helper.make_node("Conv", ["x", "filter"], ["c"], name="conv"), normalization("c", "n"),
      helper.make_node("Dropout", ["n", "ratio", "on"], ["d"], name="drop"),
      helper.make_node("GlobalAveragePool", ["d"], ["g"], name="mean"), helper.make_node("Flatten", ["g"], ["y"], name="flat")],
     [value("x", F, ["N", 1, 5])], [value("y", F, ["N", 2])],
     [("filter", np.array([[[1, 0, -1]], [[1, 1, 1]]], np.float32)), *statistics, ("ratio", np.float32(0.5)),
      ("on", np.array(True))])

save(f"{HERE}/examples/model.onnx", add, [value("x", F, ["batch", 3])], [value("y", F, ["batch", 3])], [("w", w)])

files = f"{HERE}/files"
os.makedirs(files, exist_ok=True)
for dtype in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
              "bool", "complex64", "complex128"):
    np.save(f"{files}/{dtype}.npy", np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype))
np.save(f"{files}/big_endian.npy", np.arange(6, dtype=">f4").reshape(2, 3))
np.save(f"{files}/fortran.npy", np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)))
np.save(f"{files}/scalar.npy", np.float32(2.5))
np.save(f"{files}/empty.npy", np.zeros((0, 3), np.float32))
np.save(f"{files}/text.npy", np.array([["a", "bcé"], ["", "dd"]]))
np.save(f"{files}/bytes.npy", np.array([b"ab", b"c"]))
np.savez(f"{files}/stored.npz", x=np.arange(3, dtype=np.float32), y=np.arange(2))
np.savez_compressed(f"{files}/deflated.npz", x=np.arange(300, dtype=np.float32), only=np.arange(2))
np.savez(f"{files}/single.npz", z=np.float32([7, 8]))


def png(path, pixels):
    height, width, channels = pixels.shape
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


png(f"{files}/gray.png", np.array([[[0], [51], [102]], [[153], [204], [255]]], np.uint8))
png(f"{files}/color.png", np.arange(18, dtype=np.uint8).reshape(2, 3, 3))

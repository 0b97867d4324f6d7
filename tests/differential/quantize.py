#!/usr/bin/python3
"""quantize.py XCVM FOLDER: small float models, quantized by the command in every form, each as a case of ONNX's layout in
FOLDER/TOLERANCE_NAME, with inputs. Prints the folders. What onnx.checker knows of a model it must accept."""
import os
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(3)
STATIC = ["", "--form qoperator", "--activations i8", "--activations i8 --form qoperator", "--activations i16",
          "--activations u16 --symmetric-activations", "--activations f32", "--weights u8 --asymmetric-weights",
          "--weights u8 --asymmetric-weights --form qoperator", "--symmetric-activations --form qoperator",
          "--per-tensor --equalize --correct-bias", "--per-tensor --form qoperator", "--types Conv", "--types MatMul"]
DYNAMIC = ["", "--weights u8 --asymmetric-weights", "--per-tensor", "--weights i4", "--weights u4 --asymmetric-weights --block 16"]


def weights(*shape):
    return (RANDOM.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def node(*arguments, **attributes):
    return helper.make_node(*arguments, **attributes)


def images(opset):
    bounds = dict(min=0.0, max=6.0) if opset < 11 else {}
    nodes = [node("Conv", ["x", "w1"], ["c1"], pads=[1, 1, 1, 1]),
             node("BatchNormalization", ["c1", "s", "b", "m", "v"], ["n1"]), node("Relu", ["n1"], ["r1"]),
             node("Conv", ["r1", "w2", "b2"], ["c2"], pads=[1, 1, 1, 1], group=8),
             node("LeakyRelu", ["c2"], ["l2"], alpha=0.1), node("Conv", ["l2", "w3", "b3"], ["c3"]),
             node("Clip", ["c3"] if bounds else ["c3", "lo", "hi"], ["c4"], **bounds), node("Add", ["c4", "r1"], ["a"]),
             node("Relu", ["a"], ["ar"]), node("MaxPool", ["ar"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
             node("Sigmoid", ["p"], ["sg"]), node("Mul", ["p", "sg"], ["sw"]), node("Concat", ["sw", "p"], ["cc"], axis=1),
             node("Conv", ["cc", "w4", "b4"], ["c5"]),
             node("AveragePool", ["c5"], ["ap"], kernel_shape=[2, 2], strides=[2, 2]),
             node("GlobalAveragePool", ["ap"], ["gp"]), node("Flatten", ["gp"], ["f"]),
             node("Gemm", ["f", "w5", "b5"], ["y"], transB=1)]
    constants = dict(w1=weights(8, 3, 3, 3), s=RANDOM.uniform(.5, 2, 8).astype(np.float32), b=weights(8), m=weights(8),
                     v=RANDOM.uniform(.5, 2, 8).astype(np.float32), w2=weights(8, 1, 3, 3), b2=weights(8),
                     w3=weights(8, 8, 1, 1), b3=weights(8), w4=weights(12, 16, 1, 1), b4=weights(12), w5=weights(10, 12),
                     b5=weights(10))
    if not bounds:
        constants.update(lo=np.float32(0), hi=np.float32(6))
    return nodes, constants, (3, 16, 16), 2


def attention(opset):
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["q"]), node("MatMul", ["x", "w2"], ["k"]),
             node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]), node("MatMul", ["q", "kt"], ["s"]),
             node("Softmax", ["s"], ["p"], axis=-1 if opset >= 11 else 2), node("MatMul", ["p", "x"], ["o"]),
             node("Reshape", ["o", "flat"], ["o2"]), node("Gemm", ["o2", "w3", "b3"], ["y"], alpha=0.5, beta=2.0)]
    return nodes, dict(w=weights(40, 40), b=weights(40), w2=weights(40, 40), w3=weights(40, 24), b3=weights(24),
                       flat=np.array([-1, 40], np.int64)), (12, 40), 2


def values(*names):
    return [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]


def bodies(opset):
    """Branches that state weights under the same names, one of them within a loop, whose weights a node Constant gives."""
    state, weight = numpy_helper.from_array(weights(40, 40), "v"), weights(40, 40)
    step = helper.make_graph(
        [node("Constant", [], ["u"], value=numpy_helper.from_array(weight)), node("MatMul", ["s", "u"], ["t"]),
         node("Tanh", ["t"], ["s2"]), node("Identity", ["go"], ["go2"])], "step",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         *values("s")], [helper.make_tensor_value_info("go2", TensorProto.BOOL, []), *values("s2")])
    then = helper.make_graph([node("MatMul", ["m", "v"], ["t0"]), node("Loop", ["three", "", "t0"], ["o"], body=step)], "then", [],
                             values("o"), [state])
    other = helper.make_graph([node("Gemm", ["m", "v", "b"], ["t1"], transB=1), node("LSTM", ["t2", "wl", "rl"], ["", "h"], hidden_size=40),
                               node("Squeeze", ["h", "front"], ["e"])], "else", [], values("e"),
                              [numpy_helper.from_array(weights(40, 40), "v"), numpy_helper.from_array(weights(1, 160, 40), "wl"),
                               numpy_helper.from_array(weights(1, 160, 40), "rl")])
    other.node.insert(1, node("Unsqueeze", ["t1", "front"], ["t2"]))
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("ReduceSum", ["x"], ["sum"], keepdims=0), node("Greater", ["sum", "zero"], ["c"]),
             node("If", ["c"], ["r"], then_branch=then, else_branch=other), node("Gemm", ["r", "w2", "b2"], ["y"])]
    return nodes, dict(w=weights(40, 40), b=weights(40), w2=weights(40, 24), b2=weights(24), zero=np.float32(0),
                       three=np.int64(3), front=np.array([0], np.int64)), (40,), 2


def make(name, opset, build):
    nodes, constants, shape, rank = build(opset)
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *shape])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [f"d{i}" for i in range(rank)])],
                              [numpy_helper.from_array(v, k) for k, v in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    onnx.save(model, name)
    return shape


def main(xcvm, folder):
    os.makedirs(folder, exist_ok=True)
    for name, opset, build in (("images", 9, images), ("images", 13, images), ("images", 17, images),
                               ("attention", 13, attention), ("attention", 21, attention), ("bodies", 13, bodies),
                               ("bodies", 17, bodies)):
        model, data = f"{folder}/model.onnx", f"{folder}/data.npz"
        shape = make(model, opset, build)
        x = RANDOM.normal(size=(64, *shape)).astype(np.float32)
        np.savez(data, x=x)
        for index, (options, static) in enumerate([(o, True) for o in STATIC] + [(o, False) for o in DYNAMIC]):
            # Opset 9 has Clip with attributes, which the forms that need opset 11 do not take for the same.
            if opset == 9 and ("qoperator" in options or not static and "4" not in options):
                continue
            if name != "images" and "Conv" in options or name == "images" and "--types MatMul" in options:
                continue
            case = f"{folder}/1e-4_1e-4_{name}{opset}-{index}"
            os.makedirs(f"{case}/test_data_set_0", exist_ok=True)
            subprocess.run([xcvm, "quantize", model, *(["-d", data] if static else []), *options.split(), "-o",
                            f"{case}/model.onnx"], check=True, stdout=subprocess.DEVNULL)
            if name == "bodies" and not any(word in options for word in ("qoperator", "types", "i4", "u4")):
                whole = onnx.load(f"{case}/model.onnx").SerializeToString()
                assert len(whole) < 30000, f"{case}: {len(whole)} bytes; the weights of the bodies are floats"
            if opset < 18:
                onnx.checker.check_model(onnx.load(f"{case}/model.onnx"))
            with open(f"{case}/test_data_set_0/input_0.pb", "wb") as file:
                file.write(numpy_helper.from_array(x[:4], "x").SerializeToString())
            print(case)
        os.remove(model)
        os.remove(data)


main(sys.argv[1], sys.argv[2])

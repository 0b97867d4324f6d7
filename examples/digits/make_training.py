#!/usr/bin/python3
"""make_training.py: writes untrained.onnx and digits.npz, which train.sh learns from, beside itself.

Needs Debian's python3-onnx and python3-sklearn. The data are the 1,797 handwritten digits of 8x8 pixels that
scikit-learn ships (E. Alpaydin, C. Kaynak, UCI Optical Recognition of Handwritten Digits, 1998), with their 17 shades as
integers. The network has no loss, and its weights are zeros: `xcvm train` adds the one and draws the others.
"""
import os

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save
from sklearn.datasets import load_digits

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    digits = load_digits()
    np.savez_compressed(os.path.join(HERE, "digits.npz"), images=digits.images.astype(np.uint8)[:, None],
                        labels=digits.target.astype(np.uint8))
    weights, nodes = [], []

    def weight(name, *dims, value=0):
        weights.append(numpy_helper.from_array(np.full(dims, value, np.float32), name))
        return name

    def convolution(name, x, inputs, outputs):
        nodes.append(helper.make_node("Conv", [x, weight(f"{name}.weight", outputs, inputs, 3, 3)], [f"{name}.sums"], name,
                                      kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
        scale, shift = weight(f"{name}.scale", outputs, value=1), weight(f"{name}.shift", outputs)
        mean, variance = weight(f"{name}.mean", outputs), weight(f"{name}.variance", outputs, value=1)
        nodes.append(helper.make_node("BatchNormalization", [f"{name}.sums", scale, shift, mean, variance],
                                      [f"{name}.normal"], f"{name}.normalization"))
        nodes.append(helper.make_node("Relu", [f"{name}.normal"], [f"{name}.y"], f"{name}.relu"))
        return f"{name}.y"

    def pool(name, x):
        nodes.append(helper.make_node("MaxPool", [x], [f"{name}.y"], name, kernel_shape=[2, 2], strides=[2, 2]))
        return f"{name}.y"

    shade = numpy_helper.from_array(np.array(1 / 16, np.float32))
    nodes.append(helper.make_node("Constant", [], ["shade"], "shade", value=shade))
    nodes.append(helper.make_node("Mul", ["image", "shade"], ["light"], "scale"))
    x = pool("pool1", convolution("conv2", convolution("conv1", "light", 1, 16), 16, 32))
    x = pool("pool2", convolution("conv3", x, 32, 64))
    nodes.append(helper.make_node("Flatten", [x], ["flat"], "flatten"))
    nodes.append(helper.make_node("Gemm", ["flat", weight("head.weight", 10, 256), weight("head.bias", 10)], ["scores"],
                                  "head", transB=1))
    graph = helper.make_graph(
        nodes, "digits", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 10])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], producer_name="make_training.py")
    model.ir_version = 8
    checker.check_model(model)
    save(model, os.path.join(HERE, "untrained.onnx"))


if __name__ == "__main__":
    main()

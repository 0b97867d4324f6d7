#!/usr/bin/python3
"""make_defaults.py: writes data/defaults, models with inputs that have defaults (initializers that are inputs, too), and
test cases of them."""
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "defaults")


def model(names, ir_version=8, dim=2):
    """y = x * k + b, with the inputs in that order."""
    inputs = {"x": helper.make_tensor_value_info("x", TensorProto.FLOAT, [dim]),
              "k": helper.make_tensor_value_info("k", TensorProto.FLOAT, []),
              "b": helper.make_tensor_value_info("b", TensorProto.FLOAT, [2])}
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "k"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])], "g",
        [inputs[name] for name in names], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [dim])],
        [numpy_helper.from_array(np.float32(2), "k"), numpy_helper.from_array(np.float32([10, 20]), "b")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], producer_name="make_defaults")
    made.ir_version = ir_version
    return made


def case(name, made, inputs, outputs):
    there = os.path.join(folder, name, "test_data_set_0")
    os.makedirs(there, exist_ok=True)
    onnx.save(made, os.path.join(folder, name, "model.onnx"))
    for kind, arrays in (("input", inputs), ("output", outputs)):
        for i, array in enumerate(arrays):
            with open(os.path.join(there, f"{kind}_{i}.pb"), "wb") as file:
                file.write(numpy_helper.from_array(np.float32(array)).SerializeToString())


os.makedirs(folder, exist_ok=True)
onnx.save(model("xkb"), os.path.join(folder, "last.onnx"))
onnx.save(model("kxb"), os.path.join(folder, "between.onnx"))
onnx.save(model("xkb", ir_version=3), os.path.join(folder, "ir3.onnx"))
onnx.save(model("xkb", dim=-1), os.path.join(folder, "minus_one.onnx"))
case("plain", model("xkb"), [[1, 1]], [[12, 22]])
case("one_more", model("xkb"), [[1, 1], 5], [[15, 25]])
case("all", model("kxb"), [5, [1, 1], [0, 0]], [[5, 5]])
case("some", model("kxb"), [[1, 1], 5], [[15, 25]])
case("wrong", model("xkb"), [[1, 1], 5], [[12, 22]])
case("left_input", model("xkb"), [[1, 1], 5, [0, 0], 7], [[5, 5]])
case("left_output", model("xkb"), [[1, 1]], [[12, 22], [1, 1]])
case("left_ir3", model("xkb", ir_version=3), [[1, 1], 5], [[15, 25]])

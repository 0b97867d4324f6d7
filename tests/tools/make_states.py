#!/usr/bin/python3
"""make_states.py DIR: writes small models with states. Needs Debian's python3-onnx.

attention.onnx has attention that is written out as products, with the names of Hugging Face optimum. lstm.onnx has the
names of PyTorch. DIR/expected.txt has what NumPy computes for attention.onnx: tokens 1, 2 and 3, one in each run.
"""
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HEADS, WIDTH = 2, 4


def tensor(name, *dims):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(dims))


def save(folder, name, nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, name, inputs, outputs, [numpy_helper.from_array(a, n) for n, a in constants])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="test")
    onnx.checker.check_model(model)
    onnx.save(model, folder / f"{name}.onnx")


def attention(folder):
    nodes, inputs, outputs = [], [tensor("x", "batch", HEADS, "rows", WIDTH)], [tensor("y", "batch", HEADS, "rows", WIDTH)]
    for what in ("key", "value"):
        past, present = f"past_key_values.0.{what}", f"present.0.{what}"
        inputs.append(tensor(past, "batch", HEADS, "past", WIDTH))
        outputs.append(tensor(present, "batch", HEADS, "total", WIDTH))
        nodes.append(helper.make_node("Concat", [past, "x"], [present], axis=2))
    nodes += [helper.make_node("Transpose", ["present.0.key"], ["keys"], perm=[0, 1, 3, 2]),
              helper.make_node("MatMul", ["x", "keys"], ["scores"]),
              helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
              helper.make_node("MatMul", ["shares", "present.0.value"], ["y"])]
    save(folder, "attention", nodes, inputs, outputs)


def lstm(folder):
    rng = np.random.default_rng(1)
    constants = [("w", rng.normal(size=(1, 16, 3)).astype(np.float32)), ("r", rng.normal(size=(1, 16, 4)).astype(np.float32))]
    nodes = [helper.make_node("LSTM", ["x", "w", "r", "", "", "h0", "c0"], ["y", "hn", "cn"], hidden_size=4)]
    inputs = [tensor("x", "length", 1, 3), tensor("h0", 1, 1, 4), tensor("c0", 1, 1, 4)]
    outputs = [tensor("y", "length", 1, 1, 4), tensor("hn", 1, 1, 4), tensor("cn", 1, 1, 4)]
    save(folder, "lstm", nodes, inputs, outputs, constants)


def branches(folder):
    """Two LSTMs in the branches of an If, as a voice detector has for two rates. h and c are one tensor. Its batch has the
    name of x's, or none, or it is of a shape that only a run knows. Writes what NumPy computes: the second branch, for x
    of ones in two runs."""
    rng = np.random.default_rng(2)
    constants, bodies = [], []
    for name in ("then", "else"):
        w, r = rng.normal(size=(1, 16, 3)).astype(np.float32), rng.normal(size=(1, 16, 4)).astype(np.float32)
        constants += [(f"w_{name}", w), (f"r_{name}", r)]
        nodes = [helper.make_node("Split", ["state"], [f"h_{name}", f"c_{name}"], axis=0),
                 helper.make_node("LSTM", ["rows", f"w_{name}", f"r_{name}", "", "", f"h_{name}", f"c_{name}"],
                                  ["", f"hn_{name}", f"cn_{name}"], hidden_size=4),
                 helper.make_node("Concat", [f"hn_{name}", f"cn_{name}"], [f"next_{name}"], axis=0)]
        bodies.append(helper.make_graph(nodes, name, [], [helper.make_empty_tensor_value_info(f"next_{name}")]))
    for name, batch in (("branches", None), ("branches_named", "batch"), ("branches_reshaped", None)):
        reshaped = name == "branches_reshaped"
        nodes = [helper.make_node("Reshape", ["x", "shape"], ["rows"]) if reshaped else helper.make_node("Identity", ["x"], ["rows"]),
                 helper.make_node("If", ["fast"], ["stateN"], then_branch=bodies[0], else_branch=bodies[1]),
                 helper.make_node("Identity", ["stateN"], ["y"])]
        inputs = [tensor("x", "length", batch, 3), tensor("state", 2, batch, 4),
                  helper.make_tensor_value_info("fast", TensorProto.BOOL, [])]
        inputs += [helper.make_tensor_value_info("shape", TensorProto.INT64, [3])] if reshaped else []
        outputs = [tensor("stateN", None, None, None), tensor("y", None, None, None)]
        save(folder, name, nodes, inputs, outputs, constants)
    h, c = np.zeros(4), np.zeros(4)
    for _ in range(2):
        i, o, f, g = np.split(constants[2][1][0].astype(np.float64) @ np.ones(3) + constants[3][1][0].astype(np.float64) @ h, 4)
        sigmoid = lambda z: 1 / (1 + np.exp(-z))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    (folder / "branches.txt").write_text(" ".join(map(repr, map(float, [*h, *c]))) + "\n")


def expected():
    """The last row of y for rows that are 1, 2 and 3 everywhere: attention to all three."""
    keys = np.array([1.0, 2.0, 3.0])
    weights = np.exp(3.0 * keys * WIDTH - (3.0 * keys * WIDTH).max())
    return float((weights * keys).sum() / weights.sum())


folder = Path(sys.argv[1])
attention(folder)
lstm(folder)
branches(folder)
(folder / "expected.txt").write_text(f"{expected():.6f}\n")

#!/usr/bin/python3
"""Makes the models under data/broken/, each wrong in one way, that cli_bad_input.sh gives the command.

They are committed; run this (with python3-onnx and python3-numpy) only to change them."""
import os

import numpy as np
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "broken")
F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
value = helper.make_tensor_value_info
x, y = value("x", F, [2, 3]), value("y", F, [2, 3])


def node(kind, inputs, outputs, name, **attributes):
    return helper.make_node(kind, inputs, outputs, name=name, **attributes)


def save(name, nodes, inputs=(x,), outputs=(y,), tensors=(), opset=13):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(tensors))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], producer_name="make_broken")
    model.ir_version = 8
    with open(os.path.join(HERE, name + ".onnx"), "wb") as f:
        f.write(model.SerializeToString())


def external(name, location, **more):
    tensor = TensorProto(name="w", data_type=F, dims=[3], data_location=TensorProto.EXTERNAL)
    for key, text in dict(location=location, **more).items():
        tensor.external_data.add(key=key, value=text)
    save(name, [node("Add", ["x", "w"], ["y"], "adding")], tensors=[tensor])


os.makedirs(HERE, exist_ok=True)
save("cycle", [node("Add", ["x", "c"], ["a"], "first"), node("Neg", ["a"], ["b"], "second"),
               node("Relu", ["b"], ["c"], "third"), node("Neg", ["c"], ["y"], "last")])
save("duplicate", [node("Neg", ["x"], ["y"], "first"), node("Relu", ["x"], ["y"], "second")])
save("missing", [node("Add", ["x", "w"], ["y"], "adding")])
save("no_output", [node("Neg", ["x"], ["z"], "negating")])
save("wrong_rank", [node("Conv", ["x", "w"], ["y"], "convolving")],
     tensors=[numpy_helper.from_array(np.ones((2, 3, 3), np.float32), "w")])
save("wrong_shape", [node("MatMul", ["x", "w"], ["y"], "multiplying")],
     tensors=[numpy_helper.from_array(np.ones((2, 3), np.float32), "w")])
save("wrong_type", [node("Add", ["x", "w"], ["y"], "adding")],
     tensors=[numpy_helper.from_array(np.ones(3, np.int64), "w")])
save("short_tensor", [node("Add", ["x", "w"], ["y"], "adding")],
     tensors=[TensorProto(name="w", data_type=F, dims=[1000], raw_data=b"12345678")])
save("huge_tensor", [node("Add", ["x", "w"], ["y"], "adding")],
     tensors=[TensorProto(name="w", data_type=F, dims=[1 << 40, 1 << 40], raw_data=b"12345678")])
save("negative_tensor", [node("Add", ["x", "w"], ["y"], "adding")],
     tensors=[TensorProto(name="w", data_type=F, dims=[-3], raw_data=b"123456789012")])
save("huge_input", [node("Neg", ["x"], ["y"], "negating")], [value("x", F, [1 << 40, 1 << 40])], [value("y", F, None)])
save("huge_result", [node("Expand", ["x", "to"], ["z"], "expanding"), node("ReduceSum", ["z"], ["y"], "summing")],
     [value("x", F, [1]), value("to", I, [2])], [value("y", F, None)])
save("zero", [node("Concat", ["x", "x"], ["y"], "joining", axis=0)], [value("x", F, [0, 3])], [value("y", F, [0, 3])])
save("newer_opset", [node("Neg", ["x"], ["y"], "negating")], opset=9999)
save("attribute", [node("Concat", ["x", "x"], ["y"], "joining", axis=7)])

inner = helper.make_graph([node("Neg", ["x"], ["r"], "innermost")], "b", [], [value("r", F, None)])
for depth in range(100):
    inner = helper.make_graph([node("If", ["c"], ["r"], f"if{depth}", then_branch=inner,
                                    else_branch=helper.make_graph([node("Relu", ["x"], ["r"], "other")], "e", [],
                                                                  [value("r", F, None)]))],
                              "b", [], [value("r", F, None)])
save("deep", [node("If", ["c"], ["y"], "outermost", then_branch=inner, else_branch=inner)],
     [x, value("c", B, [])])

# `c` stays true and the trip count is absent.
body = helper.make_graph([node("Identity", ["go"], ["on"], "again"), node("Neg", ["v"], ["w"], "negating")], "b",
                         [value("i", I, []), value("go", B, []), value("v", F, [2, 3])],
                         [value("on", B, []), value("w", F, [2, 3])])
save("endless", [node("Loop", ["", "c", "x"], ["y"], "looping", body=body)], [x, value("c", B, [])])

external("external_parent", "../outside.bin")
external("external_inside_out", "inner/../../outside.bin")
external("external_absolute", "/etc/passwd")
external("external_link", "link.bin")
external("external_linked_folder", "linked/w.bin")
external("external_absent", "absent.bin")
external("external_range", "w.bin", offset="8", length="12")
external("external_good", "w.bin")

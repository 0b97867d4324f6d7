"""Models for tests, as ONNX test directories: what the make_..._cases.py share."""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

PLUS = "org.chainer"
OPSET = 17
F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
folder_of_cases = None
rng = np.random.RandomState(0)


class Opt:
    """An optional's value; None is empty. `kind` is the type of what it may hold."""

    def __init__(self, value, kind):
        self.value, self.kind = value, kind


def dtype_of(array):
    return onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[np.asarray(array).dtype]


def type_of(value):
    if isinstance(value, Opt):
        return helper.make_optional_type_proto(type_of(value.kind))
    if isinstance(value, list):
        return helper.make_sequence_type_proto(type_of(value[0]) if value and isinstance(value[0], list) else
                                               helper.make_tensor_type_proto(dtype_of(value[0]) if value else F32, None))
    a = np.asarray(value)
    return helper.make_tensor_type_proto(dtype_of(a), a.shape)


def info(name, value, known=True):
    t = type_of(value)
    if not known and not isinstance(value, (list, Opt)):
        t = helper.make_tensor_type_proto(dtype_of(value), None)
    return helper.make_value_info(name, t)


def to_proto(value, name):
    if isinstance(value, Opt):
        p = onnx.OptionalProto(name=name, elem_type=0)
        if value.value is not None:
            list_of = isinstance(value.value, list)
            p.elem_type = 3 if list_of else 1
            (p.sequence_value if list_of else p.tensor_value).CopyFrom(to_proto(value.value, name))
        return p
    if isinstance(value, list):
        nested = bool(value) and isinstance(value[0], list)
        p = onnx.SequenceProto(name=name, elem_type=3 if nested else 1)
        for item in value:
            (p.sequence_values if nested else p.tensor_values).add().CopyFrom(to_proto(item, ""))
        return p
    return numpy_helper.from_array(np.asarray(value), name)


def write(name, nodes, inputs, outputs, functions=(), opsets=(), known=True, initializers=()):
    """Writes a model of the nodes as case `name`. inputs, outputs: dicts of values, lists being sequences. `known`:
    whether the model declares their shapes."""
    graph = helper.make_graph(
        list(nodes), name, [info(n, v, known) for n, v in inputs.items()],
        [info(n, v, known) for n, v in outputs.items()], list(initializers))
    imports = dict([("", OPSET), (PLUS, 1)] + list(opsets))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(d, v) for d, v in imports.items()],
                              ir_version=8, functions=list(functions))
    folder = os.path.join(folder_of_cases, name, "test_data_set_0")
    os.makedirs(folder)
    onnx.save(model, os.path.join(folder_of_cases, name, "model.onnx"))
    for kind, values in (("input", inputs), ("output", outputs)):
        for i, (n, value) in enumerate(values.items()):
            with open(os.path.join(folder, f"{kind}_{i}.pb"), "wb") as f:
                f.write(to_proto(value, n).SerializeToString())


def node(op, inputs, outputs, domain="", **attributes):
    return helper.make_node(op, inputs, outputs, domain=domain, **attributes)


def plus(op, inputs, outputs, **attributes):
    return node(op, inputs, outputs, PLUS, **attributes)


def f32(*shape):
    return rng.randn(*shape).astype(np.float32)


def i64(values):
    return np.array(values, np.int64)


def main(usage, families):
    """Writes the cases of all families into the folder that is the program's argument."""
    global folder_of_cases
    if len(sys.argv) != 2:
        sys.exit(usage)
    folder_of_cases = sys.argv[1]
    for family in families:
        family()

#!/usr/bin/python3
"""parameters_as_inputs.py MODEL OUT: the model with its float initializers as inputs, as a step finds parameters that learning has
changed since; nothing can be packed or folded ahead. Prints the names of those that have a gradient, all but running statistics."""
import sys

import onnx
from onnx import helper

FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)


def main(source, target):
    model = onnx.load(source)
    graph = model.graph
    statistics = {name for n in graph.node if n.op_type == "BatchNormalization" for name in n.input[3:5]}
    parameters = [t for t in graph.initializer if t.data_type in FLOATS]
    others = [t for t in graph.initializer if t.data_type not in FLOATS]
    names = {t.name for t in parameters}
    inputs = [i for i in graph.input if i.name not in names]
    del graph.initializer[:], graph.input[:]
    graph.initializer.extend(others)
    graph.input.extend(inputs + [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in parameters])
    onnx.save(model, target)
    print(",".join(t.name for t in parameters if t.name not in statistics))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])

"""
operators.py FOLDER [NAME...]: writes a model of a single operator, and its inputs, for each entry of the table (or
for those whose name begins with a NAME), as FOLDER/NAME/model.onnx and FOLDER/NAME/test_data_set_0/input_N.pb. Prints
the names. A name is OPERATOR.FORM.TYPE; operators.sh measures them.

operators.py --operators prints the operators that have an entry.

Operands are large, about a million elements, and realistic: indices are in range, roots are of positive numbers. What
models have as constants (weights, axes, sizes) is an initializer, all else is an input, "x0", "x1" and so on.
"""
import os
import sys
import zlib

import numpy as np
from onnx import ModelProto

from operator_entry import TABLE
from case import KINDS, make_node, tensor
import operators_compute
import operators_defined
import operators_move


def write(folder, name):
    operands, results, opset, domain, attributes = TABLE[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    model = ModelProto(ir_version=10, producer_name="operators")
    for key, version in {"": opset, domain: 3 if domain else opset}.items():
        imported = model.opset_import.add()
        imported.domain, imported.version = key, version
    graph = model.graph
    graph.name = name
    names, data = [], os.path.join(folder, name, "test_data_set_0")
    os.makedirs(data, exist_ok=True)
    for operand in operands:
        if operand is None:
            names.append("")
            continue
        array = operand.draw(rng)
        if operand.constant:
            names.append(f"c{len(names)}")
            graph.initializer.append(tensor(array, operand.kind, names[-1]))
            continue
        index = len(graph.input)
        names.append(f"x{index}")
        declared = graph.input.add(name=names[-1]).type.tensor_type
        declared.elem_type = KINDS[operand.kind][0]
        declared.shape.SetInParent()
        for size in array.shape:
            declared.shape.dim.add().dim_value = size
        with open(os.path.join(data, f"input_{index}.pb"), "wb") as file:
            file.write(tensor(array, operand.kind, names[-1]).SerializeToString())
    outputs = [f"y{i}" for i in range(results)]
    graph.node.append(make_node(name.split(".")[0], names, outputs, domain, attributes))
    for output in outputs:
        graph.output.add(name=output)
    with open(os.path.join(folder, name, "model.onnx"), "wb") as file:
        file.write(model.SerializeToString())


def main():
    operators_compute.declare()
    operators_move.declare()
    operators_defined.declare()
    if sys.argv[1] == "--operators":
        print("\n".join(sorted({name.split(".")[0] for name in TABLE})))
        return
    chosen = [name for name in TABLE if len(sys.argv) == 2 or any(name.startswith(prefix) for prefix in sys.argv[2:])]
    for name in chosen:
        write(sys.argv[1], name)
        print(name, flush=True)


if __name__ == "__main__":
    main()

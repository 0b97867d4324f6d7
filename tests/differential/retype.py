"""A drawn case of f32 in another float type: the peer, which often has no kernel for it, computes with f32 between casts."""
import numpy as np
from onnx import GraphProto, defs, numpy_helper

from case import KINDS, make_node, rounded, tensor

SCHEMAS = 17  # the newest opset of the installed onnx package
OTHERS = {"tensor(float16)": "f16", "tensor(bfloat16)": "bf16", "tensor(double)": "f64"}
TOLERANCES = {"f16": (1e-2, 1e-2), "bf16": (6e-2, 6e-2), "f64": (0, 0)}
# What is drawn at random, and what jumps where a value changes by its last bit.
LEFT_OUT = ("Random", "Bernoulli", "Multinomial", "Quantize", "QLinear", "Cast", "Dropout")


def variables(formal, names):
    """The type variable of each operand or result, the last of which may stand for several."""
    return {name: formal[min(index, len(formal) - 1)].typeStr for index, name in enumerate(names) if name}


def retype(case):
    """Gives the operands and results that share the first f32 operand's type variable one of its other types, if there
    are any."""
    if len(case.nodes) != 1 or not case.peer or case.for_peer or len(case.domains) > 1 or case.name.startswith(LEFT_OUT):
        return
    node = case.nodes[0]
    try:
        schema = defs.get_schema(node.op_type, min(case.opset, SCHEMAS))
    except defs.SchemaError:  # of a newer opset
        return
    if any(attribute.HasField("g") for attribute in node.attribute) or not schema.inputs:
        return
    of = variables(schema.inputs, node.input)
    narrow = {name for name, _, kind in case.inputs if kind == "f32"} | {item.name for item in case.initializers if item.data_type == 1}
    first = next((of[name] for name in node.input if name in narrow), None)
    allowed = [kind for item in schema.type_constraints if item.type_param_str == first
               for text, kind in OTHERS.items() if text in item.allowed_type_strs]
    if not allowed:
        return
    kind = case.choice(allowed)
    of.update(variables(schema.outputs, node.output))
    chosen = {name for name, variable in of.items() if variable == first}
    case.inputs = [(name, rounded(array, kind), kind) if name in chosen else (name, array, old) for name, array, old in case.inputs]
    case.initializers = [tensor(rounded(numpy_helper.to_array(item), kind), kind, item.name) if item.name in chosen else item
                         for item in case.initializers]
    case.outputs = [(name, kind if name in chosen else old) for name, old in case.outputs]
    case.references = [None] * len(case.references)
    case.within(*np.maximum(case.tolerances(), TOLERANCES[kind]))
    case.for_peer = lambda model: with_casts(model, kind, chosen)


def with_casts(model, kind, chosen):
    """The peer's model: the node's operands and results of that kind are cast from it to f32, and back."""
    node = model.graph.node[0]
    before, after = {}, {}
    for names, casts in ((node.input, before), (node.output, after)):
        for index, name in enumerate(names):
            if name in chosen:
                names[index] = casts[name] = f"{name}_f32"
    nodes = [make_node("Cast", [name], [wide], attributes={"to": KINDS["f32"][0]}) for name, wide in before.items()]
    nodes += [node] + [make_node("Cast", [wide], [name], attributes={"to": KINDS[kind][0]}) for name, wide in after.items()]
    changed = GraphProto(node=nodes)
    del model.graph.node[:]
    model.graph.node.extend(changed.node)
    return model

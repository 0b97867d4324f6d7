"""A drawn case of f32 in another type: the peer, which often has no kernel for it, computes with f32 between casts."""
import numpy as np
from onnx import GraphProto, defs, numpy_helper

from case import INTEGERS, KINDS, UNSIGNED, make_node, rounded, tensor

SCHEMAS = 17  # the newest opset of the installed onnx package
TEXTS = {"f16": "float16", "bf16": "bfloat16", "f64": "double", "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32",
         "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64"}
TOLERANCES = {"f16": (1e-2, 1e-2), "bf16": (6e-2, 6e-2)}
# Operators that move elements, and operators whose results for integers are integers within the smallest type's range.
MOVES = ("Compress", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Pad",
         "Reshape", "Resize", "ReverseSequence", "Scatter", "ScatterElements", "ScatterND", "Shape", "Size", "Slice", "SpaceToDepth",
         "Split", "Squeeze", "Tile", "Transpose", "Trilu", "Unsqueeze", "Upsample", "Where")
WHOLE = ("Abs", "ArgMax", "ArgMin", "Clip", "CumSum", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "NonZero",
         "ReduceL1", "ReduceMax", "ReduceMin", "ReduceSum", "Relu", "Sign", "TopK", "Unique")
# Random operators, operators that are discontinuous, and operators with results of another type variable.
LEFT_OUT = ("Random", "Bernoulli", "Multinomial", "Quantize", "QLinear", "Cast", "Dropout", "GridSample", "Sequence", "Optional",
            "ConcatFromSequence", "SplitToSequence")


def variables(formal, names):
    """The type variable of each operand or result, of which the last formal one may stand for several. Those that came
    with a newer opset are no floats."""
    several = formal[-1].option == defs.OpSchema.FormalParameterOption.Variadic if formal else False
    return {name: formal[min(index, len(formal) - 1)].typeStr for index, name in enumerate(names)
            if name and (index < len(formal) or several)}


def kinds_for(node):
    """The kinds that a node of f32 may have and still be judged by f32."""
    given = {attribute.name: attribute.s for attribute in node.attribute}
    exact = "reduction" not in given and given.get("mode", b"nearest") not in (b"linear", b"cubic")
    return ("f16", "bf16", "f64") + (INTEGERS if exact and node.op_type in MOVES + WHOLE else ()) + \
        (("bool",) if exact and node.op_type in MOVES else ())


def converted(array, kind):
    if kind in ("f16", "bf16", "f64"):
        return rounded(array, kind)
    whole = np.rint(np.clip(np.nan_to_num(array), -10, 10) * 4)
    return whole > 0 if kind == "bool" else (np.abs(whole) if kind in UNSIGNED else whole).astype(KINDS[kind][1])


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
               for kind in kinds_for(node) if f"tensor({TEXTS[kind]})" in item.allowed_type_strs]
    if not allowed:
        return
    kind = case.choice(allowed)
    of.update(variables(schema.outputs, node.output))
    chosen = {name for name, variable in of.items() if variable == first}
    case.inputs = [(name, converted(array, kind), kind) if name in chosen else (name, array, old) for name, array, old in case.inputs]
    case.initializers = [tensor(converted(numpy_helper.to_array(item), kind), kind, item.name) if item.name in chosen else item
                         for item in case.initializers]
    case.outputs = [(name, kind if name in chosen else old) for name, old in case.outputs]
    case.references = [None] * len(case.references)
    case.within(*np.maximum(case.tolerances(), TOLERANCES.get(kind, (0, 0))))
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

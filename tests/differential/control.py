"""If, Loop and Scan with random bodies."""
import numpy as np
from onnx import GraphProto

from case import KINDS, Dropped, make_node, tensor
from table import operator


class Body:
    """A graph inside a node."""

    def __init__(self, case, prefix):
        self.case, self.prefix, self.count = case, prefix, 0
        self.graph = GraphProto(name=prefix)

    def input(self, kind, shape=None):
        name = self.fresh()
        info = self.graph.input.add(name=name)
        info.type.tensor_type.elem_type = KINDS[kind][0]
        if shape is not None:
            info.type.tensor_type.shape.SetInParent()
            for size in shape:
                info.type.tensor_type.shape.dim.add().dim_value = size
        return name

    def fresh(self):
        self.count += 1
        return f"{self.prefix}_{self.count}"

    def constant(self, array, kind):
        name = self.fresh()
        self.graph.initializer.append(tensor(array, kind, name))
        return name

    def node(self, operator_name, inputs, results=1, **attributes):
        names = [self.fresh() for _ in range(results)]
        self.graph.node.append(make_node(operator_name, inputs, names, "", attributes))
        return names[0] if results == 1 else names

    def output(self, name, kind):
        self.graph.output.add(name=name).type.tensor_type.elem_type = KINDS[kind][0]


def chain(body, case, name, shape, outer=(), length=None):
    """Element-wise nodes on a float value; its shape stays."""
    for _ in range(length or case.integer(1, 5)):
        kind = case.choice(["Tanh", "Sigmoid", "Add", "Mul", "Neg", "Relu", "outer", "Abs"])
        if kind == "outer" and outer:
            name = body.node(case.choice(["Add", "Mul", "Sub"]), [name, case.choice(outer)])
            name = body.node("Tanh", [name])
        elif kind in ("Add", "Mul"):
            dims = case.broadcastable(shape, 0.5)
            name = body.node(kind, [name, body.constant(case.values(dims, "f32", -1, 1), "f32")])
        else:
            name = body.node(kind if kind != "outer" else "Neg", [name])
    return name


@operator("If", weight=3)
def if_(case):
    shape = case.shape(limit=300)
    x = case.feed(case.values(shape, "f32"), "f32", 0)
    outer = case.node("Tanh", [x])
    if case.chance(0.5):
        condition = case.feed(case.values(case.choice([[], [1]]), "bool"), "bool", 0.2)
    else:
        total = case.node("ReduceMean", [x], keepdims=0)
        if 0 in shape:
            raise Dropped
        condition = case.node("Greater", [total, case.constant(np.array(0, np.float32), "f32")])
    branches = {}
    count = case.integer(1, 2)
    for name in ("then_branch", "else_branch"):
        body = Body(case, f"{name[:4]}{case.integer(0, 999)}")
        for _ in range(count):
            source = case.choice([x, outer])
            y = body.node("Identity", [source])
            body.output(chain(body, case, y, shape, [x, outer]), "f32")
        branches[name] = body.graph
    results = case.node("If", [condition], count, **branches)
    for result in [results] if count == 1 else results:
        case.output(case.node("Add", [result, x]) if case.chance(0.3) else result, "f32")
    case.within(1e-4, 1e-4)


@operator("Loop", weight=4)
def loop(case):
    shape = case.shape(limit=100)
    x = case.feed(case.values(shape, "f32", -1, 1), "f32", 0)
    trips = case.choice([0, 1, 2, 3, 7, 20])
    stop = case.choice([None, None, case.integer(0, 5)])
    carried = case.integer(1, 3)
    scanned = case.integer(0, 2)
    if trips == 0:  # the shapes of no slices at all are anybody's guess
        scanned = 0
    body = Body(case, "body")
    number, condition = body.input("i64", []), body.input("bool", [])
    states = [body.input("f32", shape if case.chance(0.5) else None) for _ in range(carried)]
    if stop is None:
        going = body.node("Identity", [condition])
    else:
        going = body.node("Less", [number, body.constant(np.array(stop, np.int64), "i64")])
    body.output(going, "bool")
    results = []
    for state in states:
        y = chain(body, case, state, shape, [x] + states)
        if case.chance(0.3):
            scale = body.node("Cast", [number], to=1)
            y = body.node("Tanh", [body.node("Add", [y, scale])])
        results.append(y)
        body.output(body.node("Tanh", [y]), "f32")
    for _ in range(scanned):
        kind = case.choice(["value", "number", "mean"])
        if kind == "number":
            body.output(body.node("Identity", [number]), "i64")
        elif kind == "mean" and 0 not in shape:
            body.output(body.node("ReduceMean", [case.choice(results)], keepdims=0), "f32")
        else:
            body.output(body.node("Identity", [case.choice(results)]), "f32")
    limit = case.setting(trips, rank=0) if stop is None or case.chance(0.7) else ""
    start = case.feed(np.array(True), "bool", 0.5) if case.chance(0.6) else ""
    initial = [x if case.chance(0.4) else case.feed(case.values(shape, "f32", -1, 1), "f32") for _ in range(carried)]
    if case.opset < 9 and stop is not None:
        raise Dropped
    names = case.node("Loop", [limit, start] + initial, carried + scanned, body=body.graph)
    for name in [names] if carried + scanned == 1 else names:
        case.output(name)
    case.within(1e-4, 1e-4)


@operator("Scan", 9, weight=4)
def scan(case):
    states, scans, outs = case.integer(0, 2), case.integer(1, 2), case.integer(1, 2)
    steps = case.choice([1, 2, 3, 8, 17])
    shape = case.shape(low=1, high=2, limit=40, zero=0)
    axes = [case.choice([0, 0, case.integer(0, len(shape))]) for _ in range(scans)]
    out_axes = [case.choice([0, 0, case.integer(0, len(shape))]) for _ in range(outs)]
    body = Body(case, "body")
    carried = [body.input("f32", shape) for _ in range(states)]
    slices = [body.input("f32", shape) for _ in range(scans)]
    for state in carried:
        y = body.node("Add", [state, case.choice(slices)])
        body.output(body.node("Tanh", [chain(body, case, y, shape, slices + carried)]), "f32")
    for _ in range(outs):
        body.output(chain(body, case, case.choice(carried + slices), shape, slices + carried), "f32")
    operands = [case.feed(case.values(shape, "f32", -1, 1), "f32") for _ in range(states)]
    for axis in axes:
        operands.append(case.feed(case.values(shape[:axis] + [steps] + shape[axis:], "f32", -1, 1), "f32"))
    case.known("rank")
    attributes = {"num_scan_inputs": scans, "body": body.graph}
    if any(axes) or case.chance(0.3):
        attributes["scan_input_axes"] = [axis - len(shape) - 1 if case.opset >= 11 and case.chance(0.4) else axis for axis in axes]
    if any(out_axes) or case.chance(0.3):
        attributes["scan_output_axes"] = [axis - len(shape) - 1 if case.opset >= 11 and case.chance(0.4) else axis for axis in out_axes]
    if case.chance(0.5):
        attributes["scan_input_directions"] = [case.integer(0, 1) for _ in range(scans)]
    if case.chance(0.5):
        attributes["scan_output_directions"] = [case.integer(0, 1) for _ in range(outs)]
    names = case.node("Scan", operands, states + outs, **attributes)
    for name in [names] if states + outs == 1 else names:
        case.output(name, "f32")
    case.within(1e-4, 1e-4)


@operator("SequenceMap", 17)
def sequence_map(case):
    shape = case.shape(limit=60)
    count = case.integer(1, 4)
    parts = [case.feed(case.values(shape, "f32"), "f32") for _ in range(count)]
    sequence = case.node("SequenceConstruct", parts)
    body = Body(case, "body")
    operands = [sequence]
    inputs = [body.input("f32")]
    if case.chance(0.5):
        operands.append(case.feed(case.values(shape, "f32"), "f32"))
        inputs.append(body.input("f32"))
    body.output(chain(body, case, body.node("Identity", inputs[:1]), shape, inputs), "f32")
    mapped = case.node("SequenceMap", operands, body=body.graph)
    case.output(case.node("ConcatFromSequence", [mapped], axis=0, new_axis=1), "f32")
    case.within(1e-4, 1e-4)

#!/usr/bin/python3
"""make_control_cases.py OUT: writes models with functions of their own, and with sequences and optionals under control
flow, as ONNX test directories.

The models are built with onnx.helper; expected values are NumPy's, or plain Python's for lists."""
import numpy as np
import onnx
from onnx import helper

from case_models import BOOL, F32, I64, OPSET, Opt, f32, i64, info, main, node, type_of, write


# ---- Functions ----


def function(name, inputs, outputs, nodes, attributes=(), domain="custom", **fields):
    f = helper.make_function(domain, name, inputs, outputs, nodes,
                             [helper.make_opsetid("", OPSET), helper.make_opsetid("custom", 1)], list(attributes))
    return f


def reference(n, name, attribute, kind):
    """Attribute `name` of a node is attribute `attribute` of the function that it stands in."""
    n.attribute.append(onnx.AttributeProto(name=name, ref_attr_name=attribute, type=kind))
    return n


def with_field(message, number, payload):
    """The message with a field that this version of onnx does not know."""
    key = bytes([number << 3 | 2])
    size = len(payload)
    length = b""
    while True:
        length += bytes([size & 127 | (128 if size > 127 else 0)])
        size >>= 7
        if size == 0:
            break
    message.MergeFromString(key + length + payload)
    return message


def custom(name, inputs, outputs, **attributes):
    return node(name, inputs, outputs, "custom", **attributes)


def functions():
    x, y = f32(2, 3), f32(2, 3)
    use = dict(opsets=[("custom", 1)])
    add = function("twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])])
    write("function", [custom("twice", ["x"], ["y"])], {"x": x}, {"y": 2 * x}, [add], **use)
    nested = function("eight", ["a"], ["b"],
                      [custom("twice", ["a"], ["p"]), custom("twice", ["p"], ["q"]), custom("twice", ["q"], ["b"])])
    write("function_nested", [custom("eight", ["x"], ["y"])], {"x": x}, {"y": 8 * x}, [nested, add], **use)
    several = function("both", ["a", "b"], ["s", "d"], [node("Add", ["a", "b"], ["s"]), node("Sub", ["a", "b"], ["d"])])
    write("function_several", [custom("both", ["x", "y"], ["p", "q"]), custom("both", ["q", "p"], ["", "r"])],
          {"x": x, "y": y}, {"p": x + y, "q": x - y, "r": (x - y) - (x + y)}, [several], **use)
    optional = function("clip", ["a", "lo", "hi"], ["b"], [node("Clip", ["a", "lo", "hi"], ["b"])])
    write("function_absent_operand", [custom("clip", ["x", "", "hi"], ["y"])], {"x": x, "hi": np.float32(0.1)},
          {"y": np.minimum(x, np.float32(0.1))}, [optional], **use)
    names = function("names", ["x"], ["y"], [node("Neg", ["x"], ["t"]), node("Exp", ["t"], ["y"])])
    write("function_same_names", [node("Abs", ["x"], ["t"]), custom("names", ["t"], ["y"]), node("Add", ["y", "t"], ["z"])],
          {"x": x}, {"z": np.exp(-abs(x)) + abs(x)}, [names], **use)

    leaky = function("leaky", ["a"], ["b"], [reference(node("LeakyRelu", ["a"], ["b"]), "alpha", "slope", 1)], ["slope"])
    write("function_attribute", [custom("leaky", ["x"], ["y"], slope=0.25)], {"x": x}, {"y": np.where(x < 0, x / 4, x)},
          [leaky], **use)
    write("function_attribute_absent", [custom("leaky", ["x"], ["y"])], {"x": x},
          {"y": np.where(x < 0, x * np.float32(0.01), x)}, [leaky], **use)
    through = function("through", ["a"], ["b"], [reference(custom("leaky", ["a"], ["b"]), "slope", "s", 1)], ["s"])
    write("function_attribute_passed_on", [custom("through", ["x"], ["y"], s=0.5)], {"x": x},
          {"y": np.where(x < 0, x / 2, x)}, [through, leaky], **use)
    ints = function("sums", ["a"], ["b"], [
        reference(node("Constant", [], ["axes"]), "value_ints", "axes", 7),
        reference(node("ReduceSum", ["a", "axes"], ["b"]), "keepdims", "keep", 2)], ["axes", "keep"])
    write("function_attribute_ints", [custom("sums", ["x"], ["y"], axes=[1], keep=0)], {"x": x}, {"y": x.sum(1)}, [ints],
          **use)
    given = function("leaky", ["a"], ["b"], [reference(node("LeakyRelu", ["a"], ["b"]), "alpha", "slope", 1)])
    with_field(given, 11, helper.make_attribute("slope", 0.125).SerializeToString())
    write("function_attribute_default", [custom("leaky", ["x"], ["y"])], {"x": x}, {"y": np.where(x < 0, x / 8, x)},
          [given], **use)
    write("function_attribute_not_default", [custom("leaky", ["x"], ["y"], slope=0.5)], {"x": x},
          {"y": np.where(x < 0, x / 2, x)}, [given], **use)

    # Control flow in functions: bodies see the function's names, and their nodes its attributes.
    then = helper.make_graph([custom("twice", ["a"], ["t"])], "then", [], [info("t", x)])
    other = helper.make_graph([reference(node("LeakyRelu", ["a"], ["e"]), "alpha", "slope", 1)], "else", [], [info("e", x)])
    choose = function("choose", ["c", "a"], ["b"], [node("If", ["c"], ["b"], then_branch=then, else_branch=other)], ["slope"])
    for c in (False, True):
        write(f"function_if_{c}", [custom("choose", ["c", "x"], ["y"], slope=0.5)], {"c": np.array(c), "x": x},
              {"y": 2 * x if c else np.where(x < 0, x / 2, x)}, [choose, add], **use)
    body = helper.make_graph(
        [node("Identity", ["cond"], ["cond_out"]), custom("twice", ["s"], ["s_out"]), node("Add", ["s_out", "a"], ["scan"])],
        "body", [helper.make_tensor_value_info("i", I64, []), helper.make_tensor_value_info("cond", BOOL, []), info("s", x)],
        [helper.make_tensor_value_info("cond_out", BOOL, []), info("s_out", x), info("scan", x)])
    power = function("power", ["n", "a"], ["last", "all"], [node("Loop", ["n", "", "a"], ["last", "all"], body=body)])
    write("function_loop", [custom("power", ["n", "x"], ["y", "z"])], {"n": i64(3), "x": x},
          {"y": 8 * x, "z": np.stack([3 * x, 5 * x, 9 * x])}, [power, add], **use)
    body = helper.make_graph(
        [node("Identity", ["cond"], ["cond_out"]), custom("power", ["two", "s"], ["s_out", ""])], "body",
        [helper.make_tensor_value_info("i", I64, []), helper.make_tensor_value_info("cond", BOOL, []), info("s", x)],
        [helper.make_tensor_value_info("cond_out", BOOL, []), info("s_out", x)])
    write("function_in_loop", [node("Loop", ["n", "", "x"], ["y"], body=body)],
          {"n": i64(3), "two": i64(2), "x": x}, {"y": 64 * x}, [power, add], **use)
    sequences = function("pairs", ["a", "b"], ["s"], [node("SequenceConstruct", ["a", "b"], ["p"]),
                                                      node("SequenceInsert", ["p", "a"], ["s"])])
    write("function_sequence", [custom("pairs", ["x", "y"], ["z"])], {"x": x, "y": y}, {"z": [x, y, x]}, [sequences], **use)
    replaced = function("Relu", ["a"], ["b"], [node("Neg", ["a"], ["b"])], domain="custom")
    write("function_of_a_known_name", [custom("Relu", ["x"], ["y"]), node("Relu", ["x"], ["z"])], {"x": x},
          {"y": -x, "z": np.maximum(x, 0)}, [replaced], **use)

    # Overloads, which came with version 10 of the file format.
    plain = function("act", ["a"], ["b"], [node("Neg", ["a"], ["b"])])
    one = with_field(function("act", ["a"], ["b"], [node("Abs", ["a"], ["b"])]), 13, b"first")
    two = with_field(function("act", ["a"], ["b"], [node("Relu", ["a"], ["b"])]), 13, b"second")
    write("function_overloads", [custom("act", ["x"], ["p"]), with_field(custom("act", ["x"], ["q"]), 8, b"first"),
                                 with_field(custom("act", ["x"], ["r"]), 8, b"second")],
          {"x": x}, {"p": -x, "q": abs(x), "r": np.maximum(x, 0)}, [one, plain, two], **use)


# ---- Sequences and optionals of ai.onnx under control flow ----


def branch(name, nodes, outputs):
    return helper.make_graph(nodes, name, [], [info(n, v) for n, v in outputs.items()])


def control():
    a, b, c = f32(2, 3), f32(4), f32(1, 2)
    for cond in (False, True):
        write(f"if_sequences_{cond}", [node("If", ["c"], ["y"], then_branch=branch(
            "then", [node("SequenceConstruct", ["a", "b", "a"], ["s"])], {"s": [a, b, a]}), else_branch=branch(
            "else", [node("SequenceConstruct", ["b"], ["t"])], {"t": [b]}))],
            {"c": np.array(cond), "a": a, "b": b}, {"y": [a, b, a] if cond else [b]})
        write(f"if_empty_sequence_{cond}", [
            node("If", ["c"], ["y"], then_branch=branch("then", [node("SequenceEmpty", [], ["s"], dtype=F32)], {"s": [a]}),
                 else_branch=branch("else", [node("SequenceConstruct", ["a"], ["t"])], {"t": [a]})),
            node("SequenceLength", ["y"], ["n"]), node("SequenceInsert", ["y", "b"], ["z"])],
            {"c": np.array(cond), "a": a, "b": b}, {"n": i64(0 if cond else 1), "z": [b] if cond else [a, b]})
        write(f"if_appends_{cond}", [node("If", ["c"], ["y"], then_branch=branch(
            "then", [node("SequenceInsert", ["s", "a"], ["p"])], {"p": [a]}), else_branch=branch(
            "else", [node("SequenceErase", ["s"], ["q"])], {"q": [a]}))],
            {"c": np.array(cond), "a": a, "s": [b, a]}, {"y": [b, a, a] if cond else [b]})
        write(f"if_optionals_{cond}", [
            node("If", ["c"], ["y"], then_branch=branch("then", [node("Optional", ["a"], ["p"])], {"p": Opt(a, a)}),
                 else_branch=branch("else", [node("Optional", [], ["q"], type=type_of(a))], {"q": Opt(None, a)})),
            node("OptionalHasElement", ["y"], ["has"])],
            {"c": np.array(cond), "a": a}, {"y": Opt(a if cond else None, a), "has": np.array(cond)})
        write(f"if_optional_sequences_{cond}", [
            node("SequenceConstruct", ["a", "b"], ["s"]),
            node("If", ["c"], ["y"], then_branch=branch("then", [node("Optional", ["s"], ["p"])], {"p": Opt([a], [a])}),
                 else_branch=branch("else", [node("SequenceEmpty", [], ["e"], dtype=F32), node("Optional", ["e"], ["q"])],
                                    {"q": Opt([a], [a])})),
            node("OptionalGetElement", ["y"], ["z"]), node("SequenceLength", ["z"], ["n"])],
            {"c": np.array(cond), "a": a, "b": b}, {"y": Opt([a, b] if cond else [], [a]), "n": i64(2 if cond else 0)})
        write(f"if_nested_{cond}", [node("If", ["c"], ["y"], then_branch=branch("then", [
            node("Not", ["c"], ["d"]),
            node("If", ["d"], ["s"], then_branch=branch("then2", [node("SequenceConstruct", ["a"], ["u"])], {"u": [a]}),
                 else_branch=branch("else2", [node("SequenceConstruct", ["b", "b"], ["v"])], {"v": [b, b]}))],
            {"s": [a]}), else_branch=branch("else", [node("SequenceConstruct", ["a", "b", "a"], ["t"])], {"t": [a]}))],
            {"c": np.array(cond), "a": a, "b": b}, {"y": [b, b] if cond else [a, b, a]})

    def map_body(inputs, nodes, outputs):
        return helper.make_graph(nodes, "map", [info(n, v) for n, v in inputs.items()],
                                 [info(n, v) for n, v in outputs.items()])

    p, q = [f32(3), f32(3), f32(3)], [f32(3), f32(3), f32(3)]
    s = f32(3)
    write("map_two_sequences", [node("SequenceMap", ["p", "q"], ["y"], body=map_body(
        {"u": s, "v": s}, [node("Mul", ["u", "v"], ["w"])], {"w": s}))], {"p": p, "q": q},
        {"y": [u * v for u, v in zip(p, q)]})
    write("map_sequence_and_tensor", [node("SequenceMap", ["p", "t"], ["y"], body=map_body(
        {"u": s, "v": s}, [node("Add", ["u", "v"], ["w"])], {"w": s}))], {"p": p, "t": s}, {"y": [u + s for u in p]})
    write("map_several_results", [node("SequenceMap", ["p", "q", "t"], ["y", "z"], body=map_body(
        {"u": s, "v": s, "k": s}, [node("Add", ["u", "v"], ["w0"]), node("Sub", ["w0", "k"], ["w"]),
                                   node("Size", ["u"], ["n"])], {"w": s, "n": i64(0)}))], {"p": p, "q": q, "t": s},
        {"y": [u + v - s for u, v in zip(p, q)], "z": [i64(3)] * 3})
    write("map_captures", [node("Exp", ["t"], ["e"]), node("SequenceMap", ["p"], ["y"], body=map_body(
        {"u": s}, [node("Mul", ["u", "e"], ["w"])], {"w": s}))], {"p": p, "t": s}, {"y": [u * np.exp(s) for u in p]})
    mixed = [f32(2), f32(5, 1), f32(1)]
    write("map_shapes", [node("SequenceMap", ["p"], ["y"], body=helper.make_graph(
        [node("Shape", ["u"], ["w"])], "map", [helper.make_tensor_value_info("u", F32, None)],
        [helper.make_tensor_value_info("w", I64, None)]))], {"p": mixed}, {"y": [i64(v.shape) for v in mixed]})
    write("map_with_if", [node("SequenceMap", ["p"], ["y"], body=map_body(
        {"u": s}, [node("ReduceSum", ["u"], ["m"], keepdims=0), node("Constant", [], ["o"], value_float=0.0),
                   node("Greater", ["m", "o"], ["g"]),
                   node("If", ["g"], ["w"], then_branch=branch("then", [node("Neg", ["u"], ["w1"])], {"w1": s}),
                        else_branch=branch("else", [node("Identity", ["u"], ["w2"])], {"w2": s}))], {"w": s}))],
        {"p": p}, {"y": [-u if u.sum() > 0 else u for u in p]})

    # A loop over a sequence, whose states are a sum and the sequence of the sums so far.
    total = np.zeros(3, np.float32)
    body = helper.make_graph(
        [node("Identity", ["cond"], ["cond_out"]), node("SequenceAt", ["p", "i"], ["x"]),
         node("Add", ["sum", "x"], ["sum_out"]), node("SequenceInsert", ["sums", "sum_out"], ["sums_out"])], "body",
        [helper.make_tensor_value_info("i", I64, []), helper.make_tensor_value_info("cond", BOOL, []), info("sum", total),
         info("sums", [total])],
        [helper.make_tensor_value_info("cond_out", BOOL, []), info("sum_out", total), info("sums_out", [total])])
    write("loop_over_sequence", [node("SequenceLength", ["p"], ["n"]), node("SequenceEmpty", [], ["e"], dtype=F32),
                                 node("Loop", ["n", "", "zero", "e"], ["y", "z"], body=body)],
          {"p": p, "zero": total}, {"y": sum(p), "z": [p[0], p[0] + p[1], p[0] + p[1] + p[2]]})
    body = helper.make_graph(
        [node("SequenceErase", ["s"], ["s_out"]), node("SequenceLength", ["s_out"], ["n"]),
         node("Constant", [], ["one"], value_int=1), node("Greater", ["n", "one"], ["cond_out"])], "body",
        [helper.make_tensor_value_info("i", I64, []), helper.make_tensor_value_info("cond", BOOL, []), info("s", p)],
        [helper.make_tensor_value_info("cond_out", BOOL, []), info("s_out", p)])
    write("loop_until_short", [node("Loop", ["", "", "p"], ["y"], body=body)], {"p": p + q}, {"y": p[:1]})
    # A state that is swapped with another every time, and an append on one side only.
    body = helper.make_graph(
        [node("Identity", ["cond"], ["cond_out"]), node("SequenceInsert", ["s", "x"], ["r_out"]),
         node("Identity", ["r"], ["s_out"])], "body",
        [helper.make_tensor_value_info("i", I64, []), helper.make_tensor_value_info("cond", BOOL, []), info("s", p),
         info("r", p)],
        [helper.make_tensor_value_info("cond_out", BOOL, []), info("s_out", p), info("r_out", p)])
    write("loop_swaps", [node("Loop", ["n", "", "p", "q"], ["y", "z"], body=body)],
          {"n": i64(3), "p": p, "q": q, "x": s}, {"y": q + [s], "z": p + [s, s]})
    body = helper.make_graph(
        [node("Identity", ["cond"], ["cond_out"]), node("OptionalHasElement", ["o"], ["has"]),
         node("If", ["has"], ["v"], then_branch=branch("then", [
             node("OptionalGetElement", ["o"], ["g"]), node("Add", ["g", "x"], ["h"])], {"h": s}),
             else_branch=branch("else", [node("Identity", ["x"], ["k"])], {"k": s})),
         node("Optional", ["v"], ["o_out"])], "body",
        [helper.make_tensor_value_info("i", I64, []), helper.make_tensor_value_info("cond", BOOL, []),
         info("o", Opt(None, s))],
        [helper.make_tensor_value_info("cond_out", BOOL, []), info("o_out", Opt(None, s))])
    for trips in (0, 1, 3):
        write(f"loop_optional_state_{trips}", [node("Optional", [], ["none"], type=type_of(s)),
                                               node("Loop", ["n", "", "none"], ["y"], body=body)],
              {"n": i64(trips), "x": s}, {"y": Opt(s * trips if trips else None, s)})

    write("optional_of_sequence", [node("Optional", ["p"], ["o"]), node("OptionalGetElement", ["o"], ["s"]),
                                   node("SequenceAt", ["s", "i"], ["y"]), node("OptionalHasElement", ["o"], ["h"])],
          {"p": p, "i": i64(-1)}, {"y": p[-1], "h": np.array(True)})
    write("optional_input", [node("OptionalGetElement", ["o"], ["y"]), node("OptionalHasElement", ["o"], ["h"])],
          {"o": Opt(a, a)}, {"y": a, "h": np.array(True)})
    write("optional_sequence_input", [node("OptionalGetElement", ["o"], ["s"]), node("SequenceLength", ["s"], ["y"])],
          {"o": Opt([a, b], [a])}, {"y": i64(2)})
    write("optional_empty_input", [node("OptionalHasElement", ["o"], ["y"])], {"o": Opt(None, a)}, {"y": np.array(False)})
    write("sequence_of_sequences", [node("SequenceConstruct", ["p", "q"], ["s"]), node("SequenceInsert", ["s", "p"], ["y"])],
          {"p": p, "q": q}, {"y": [p, q, p]})
    write("sequence_input_output", [node("SequenceInsert", ["p", "c", "i"], ["y"])], {"p": [a, b], "c": c, "i": i64(1)},
          {"y": [a, c, b]})


main(__doc__, (functions, control))

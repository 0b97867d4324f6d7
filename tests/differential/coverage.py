#!/usr/bin/python3
"""coverage.py note CASES: prints what the models below a folder draw, a line each: domain, operator, version of its opset, and
the type of its first operand ("-": not told by the model). coverage.py tell XCVM [all]: of such lines on standard input, how
many of the compiler's operators, of their versions, and of the types that ONNX's definitions allow were drawn; with "all",
what was not."""
import os
import subprocess
import sys

import onnx
from onnx import TensorProto

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import definitions  # noqa: E402

# As numbers of TensorProto.DataType; complex types are no element types of ONNX operators here.
NAMED = {f"tensor({name})": number for name, number in (
    ("float", 1), ("uint8", 2), ("int8", 3), ("uint16", 4), ("int16", 5), ("int32", 6), ("int64", 7), ("string", 8), ("bool", 9),
    ("float16", 10), ("double", 11), ("uint32", 12), ("uint64", 13), ("bfloat16", 16))}


def nodes_of(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes_of(attribute.g)


def note(folder):
    for place, _, files in os.walk(folder):
        if "model.onnx" not in files:
            continue
        model = onnx.load(os.path.join(place, "model.onnx"))
        opsets = {entry.domain: entry.version for entry in model.opset_import}
        types = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
        types.update({value.name: value.data_type for value in model.graph.initializer})
        for node in nodes_of(model.graph):
            print(node.domain or "ai.onnx", node.op_type, opsets.get(node.domain, 1),
                  types.get(node.input[0], "-") if node.input else "-")


def operators(xcvm):
    """Domain, name and versions of what the compiler knows, from the page about it."""
    page = subprocess.run([xcvm, "ops", "--onnx", "--markdown"], capture_output=True, text=True, check=True).stdout
    for domain, name, versions, _ in definitions.operators(page):
        yield domain, name, versions


def allowed(domain, name):
    """The types of an operator's first operand, in its newest version that the installed package knows."""
    try:
        schema = onnx.defs.get_schema(name, "" if domain == "ai.onnx" else domain)
    except onnx.defs.SchemaError:
        return set()
    first = schema.inputs[0].types if schema.inputs else ()
    return {NAMED[item] for item in first if item in NAMED}


def tell(xcvm):
    drawn = {}
    for line in set(sys.stdin):
        domain, name, opset, kind = line.split()
        drawn.setdefault((domain, name), []).append((int(opset), kind))
    totals, missing = {}, []
    for domain, name, versions in operators(xcvm):
        seen = drawn.get((domain, name), [])
        reached = {max(version for version in versions if version <= opset) for opset, _ in seen if opset >= versions[0]}
        kinds, types = allowed(domain, name), {int(kind) for _, kind in seen if kind != "-"}
        count = totals.setdefault(domain, [0, 0])
        count[0] += bool(seen)
        count[1] += 1
        for key, part, whole in (("versions", len(reached), len(versions)), ("types", len(kinds & types), len(kinds))):
            count = totals.setdefault(key, [0, 0])
            count[0] += part
            count[1] += whole
        if not seen:
            missing.append(name)
        elif kinds - types:
            missing.append(f"{name} of {' '.join(TensorProto.DataType.Name(kind).lower() for kind in sorted(kinds - types))}")
    parts = [f"{part} of {whole} {key if key in ('versions', 'types') else f'operators of {key}'}" for key, (part, whole) in totals.items()]
    print("drawn: " + ", ".join(parts))
    if missing and len(sys.argv) > 3:
        print("not drawn: " + ", ".join(missing))


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("note", "tell"):
        sys.exit(__doc__)
    (note if sys.argv[1] == "note" else tell)(sys.argv[2])

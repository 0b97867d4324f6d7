"""Write docs/python/constructs.md to standard output, from the tables of the tests. Needs Python alone."""

import ast
import json
from pathlib import Path

FOLDER = Path(__file__).parent
PEERS = ("`torch.jit.script`", "`torch.jit.trace`", "`torch.onnx.export`")
HEAD = """# Constructs of Python

Constructs of Python in models of torch, and whether programs that are compiled from [source](source.md) give Python's results for
inputs that take every path. The tests of the Python package check the column XCVM. They also make this page (`make generated`).

The other columns were determined with torch {version}. `torch.jit.trace` was given the first call's arguments, and
`torch.onnx.export` the scripted module (opset 16). The exported models were run with XCVM.

- yes: all results are those of eager execution.
- no: refused, with an error. For XCVM the reason follows.
- wrong: compiles, and some result differs.
- frozen: right for the paths of the traced call only, without an error.
- constants: tracing needs tensors, but an argument is a number of Python.
- invalid: exported, but a model that is refused, such as one with branches of different types.
- -: not reached, since scripting fails.
"""


def rows():
    """Yield group, name, title and reason of refusal of each construct, as the source states them."""
    for node in ast.parse((FOLDER / "constructs.py").read_text()).body:
        for decorator in getattr(node, "decorator_list", []):
            if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "construct":
                refused = [keyword.value.value for keyword in decorator.keywords if keyword.arg == "refused"]
                yield decorator.args[0].value, node.name, ast.get_docstring(node), refused[0] if refused else ""


def page():
    peers = json.loads((FOLDER / "constructs.json").read_text())
    lines = [HEAD.format(version=peers["torch"])]
    group, count, right = "", 0, [0, 0, 0, 0]
    for heading, name, title, refused in rows():
        if heading != group:
            group = heading
            lines += [f"\n## {group}\n", "| construct | XCVM | " + " | ".join(PEERS) + " |", "| --- | --- | --- | --- | --- |"]
        answers = ["no: " + refused if refused else "yes", *peers["constructs"][name]]
        lines.append(f"| {title} | " + " | ".join(answers) + " |")
        count += 1
        right = [total + (answer == "yes") for total, answer in zip(right, answers)]
    lines += ["\n## Total\n", "| constructs | XCVM | " + " | ".join(PEERS) + " |", "| --- | --- | --- | --- | --- |"]
    lines.append(f"| {count} | " + " | ".join(map(str, right)) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")

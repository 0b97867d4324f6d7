#!/usr/bin/python3
"""uncovered.py: fails if an instruction or an operator of the import lacks a random case, a benchmark entry or a gradient
fragment, or a pass lacks a test, without a reason in tests/uncovered.txt, or if a reason there is no longer needed. It also
fails for a pass that is declared or defined and not in the table of passes.

An operator that becomes instructions needs a random case, and so does every instruction. An instruction is covered by an
operator that becomes it. Element-wise instructions get all three from their definitions (tests/definitions.py)."""
import ast
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests"))
import definitions  # noqa: E402

HOME = {"random": "a case to tests/differential/", "bench": "an entry to bench/operators_compute.py or operators_move.py",
        "gradient": "a fragment to tests/make_gradient_cases.py", "pass": "a test to tests/compiler/"}


def words(pattern):
    """The words in the strings of Python files, but for documentation."""
    found = set()
    for path in glob.glob(os.path.join(ROOT, pattern)):
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
        texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
                found.update(re.findall(r"\w+", node.value))
    return found


def measured():
    """The operators of the benchmark."""
    command = ["/usr/bin/python3", "-B", os.path.join(ROOT, "bench", "operators.py"), "--operators"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def source(pattern):
    """The texts of files, joined."""
    texts = []
    for path in glob.glob(os.path.join(ROOT, pattern), recursive=True):
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    return "\n".join(texts)


def passes():
    """Passes of the table, and passes that are declared or defined."""
    table = re.findall(r"^    X\((\w+), \d", source("compiler/driver/pass_table.h"), re.M)
    made = source("compiler/*/*.h") + source("compiler/*/*.c")
    return set(table), set(re.findall(r"^xcvm_status xcc_pass_(\w+)\(xcc_module \*m\)", made, re.M))


def untested(table):
    """Passes without a test file of their name, which no test names either."""
    tests = source("tests/compiler/**/*.[ch]") + source("tests/tools/*.sh")
    return {name for name in table if not glob.glob(os.path.join(ROOT, f"tests/compiler/*/test_{name}*.c"))
            and not re.search(rf'xcc_pass_{name}\b|"{name}"|--dump-after {name}\b', tests)}


def reasons():
    """(kind, name) of what tests/uncovered.txt allows."""
    allowed = set()
    with open(os.path.join(ROOT, "tests", "uncovered.txt")) as file:
        for number, line in enumerate(file, 1):
            if line.strip() and not line.startswith("#"):
                parts = [part.strip() for part in line.split(":", 2)]
                if len(parts) < 3 or not parts[2] or not set(parts[0].split()) <= set(HOME):
                    sys.exit(f"tests/uncovered.txt:{number}: expected KINDS: NAMES: REASON")
                allowed.update((kind, name) for kind in parts[0].split() for name in parts[1].split())
    return allowed


def main():
    instructions, operators = definitions.instructions(), list(definitions.operators())
    defined = {instruction.name for instruction, _ in definitions.elementwise()}
    if not instructions or not operators or not defined:
        sys.exit("uncovered.py: docs/instructions.md and docs/onnx-operators.md are not understood")

    def reached(names):
        return {word for _, name, _, becomes in operators if name in names for word in re.findall(r"\w+", becomes)}

    drawn, fragments = words("tests/differential/*.py") | defined, words("tests/make_gradient_cases.py") | defined
    missing = {("random", name) for _, name, _, becomes in operators
               if name not in drawn and not becomes.startswith("nothing: ")}
    missing |= {("random", name) for name in set(instructions) - reached(drawn)}
    missing |= {("bench", name) for name in set(instructions) - reached(measured())}
    missing |= {("gradient", name) for name, instruction in instructions.items()
                if instruction.gradient not in ("none", "zero") and name not in reached(fragments)}
    table, declared = passes()
    missing |= {("pass", name) for name in untested(table)}
    allowed = reasons()
    for kind, name in sorted(missing - allowed):
        print(f"{name} has no case of kind {kind}: add {HOME[kind]}, or a reason to tests/uncovered.txt")
    for kind, name in sorted(allowed - missing):
        print(f"tests/uncovered.txt: {name} needs no reason for {kind}: it has a case, or does not exist")
    for name in sorted(declared - table):
        print(f"there is xcc_pass_{name}, and compiler/driver/pass_table.h does not list it, so that it never runs")
    print(f"{len(instructions)} instructions, {len(operators)} operators and {len(table)} passes, {len(allowed)} exempt, "
          f"{len(missing - allowed)} uncovered, {len(allowed - missing)} reasons too many")
    sys.exit(missing != allowed or bool(declared - table) or not table)


if __name__ == "__main__":
    main()

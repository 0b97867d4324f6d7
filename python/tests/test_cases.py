"""The project's case files through xcvm.ops: values, and gradients beside central differences or stated values."""

import re
import unittest

import numpy as np
from support import ROOT

import xcvm
from xcvm import _tape, ops
from xcvm._context import Tape

# Instructions of several processes, whose cases have two, while a tape is one. `Single` calls them.
SEVERAL = {"AllReduce", "AllReduceBegin", "AllReduceEnd", "SyncBatchNormalization", "SyncBatchNormalizationGradient"}
NUMPY = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "i32": np.int32, "bool": np.bool_, "u8": np.uint8, "i8": np.int8}
NUMBERS = re.compile(r"[-+0-9.e \t]*\Z|[infa+\-0-9.e \t]*\Z")


def fail(*_):
    raise OSError("the disk is on fire")


# The functions of HostCall.xcvm. The gradient of "products" is a function, which test_learning.py has for Python.
FUNCTIONS = {
    "twice": lambda *xs: tuple(np.asarray(2 * np.asarray(x), np.float32) for x in xs),
    "same": lambda *xs: xs,
    "fails": fail,
    "products": lambda a, b: (np.asarray(a) * np.asarray(b), np.asarray(a) ** 2),
}


class Skip(Exception):
    """The case has something that a tape lacks."""


class Reader:
    """Reads the parts of an instruction's line."""

    def __init__(self, text):
        self.text, self.at = text, 0

    def skip(self):
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        return self.text[self.at : self.at + 1]

    def take(self, pattern):
        self.skip()
        found = re.compile(pattern).match(self.text, self.at)
        if found is None:
            raise Skip(f"{pattern} at {self.text[self.at:self.at + 40]!r}")
        self.at = found.end()
        return found[0]

    def until(self, ends):
        """The text up to a character outside of quotes and brackets."""
        start, depth, quoted = self.at, 0, False
        while self.at < len(self.text):
            c = self.text[self.at]
            if quoted:
                self.at += c == "\\"
                quoted = c != '"'
            elif c == '"':
                quoted = True
            elif depth == 0 and c in ends:
                break
            else:
                depth += (c in "([") - (c in ")]")
            self.at += 1
        return self.text[start : self.at].strip()


def split(text):
    reader, parts = Reader(text), []
    while reader.at < len(text):
        parts.append(reader.until(","))
        reader.at += 1
    return parts


def literals(texts, folder):
    """The values of literals: plain numbers by NumPy, others, as those of files, by the assembler."""
    values, others = {}, []
    for text in texts:
        found = re.match(r"(f32|f64|i64|i32|bool|u8|i8)(\[([0-9x]*)\])? ?(.*)\Z", text, re.S)
        if found and NUMBERS.match(found[4]):
            shape = tuple(map(int, found[3].split("x"))) if found[3] else ()
            numbers = found[4].split()
            if found[1] == "bool" or found[1] in ("i64", "u8", "i8", "i32"):
                numbers = [int(n) for n in numbers]
            array = np.array(numbers, NUMPY[found[1]])
            if array.size == int(np.prod(shape)):
                values[text] = array.reshape(shape)
                continue
        others.append(text)
    if others:
        lines, outputs = [], []
        for i, text in enumerate(others):
            outputs.append(f"output y{i} ?")
            lines += [f"${i + 1} = Identity({text})", f"Out(${i + 1}, name=\"y{i}\")"]
        made = xcvm.load(xcvm.assemble("\n".join(["xcvm 1", *outputs, *lines]), str(folder)))()
        for text, value in zip(others, made if len(others) > 1 else [made]):
            values[text] = value
    return values


def attribute(text):
    if text.startswith("["):
        return [attribute(part) for part in re.findall(r'"(?:\\.|[^"\\])*"|[^\s]+', text[1:-1])]
    if text.startswith('"'):
        return text[1:-1].replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"').replace("\\\\", "\\")
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(np.float32(text[:-1])) if re.match(r"[-0-9.]", text) and text.endswith("f") else float(text)
    except ValueError:
        return text


class Case:
    """A case: instructions, expectations, gradients."""

    def __init__(self, lines, folder):
        self.constants = {}
        self.instructions, self.expected, self.gradients, self.refused = [], [], [], False
        text = set()
        for line in lines:
            word = line.split(" ", 1)[0]
            if word == "expect":
                self.expected.append(line[7:])
            elif word == "gradient":
                self.gradients.append(line[9:])
            elif word == "refuse":
                self.refused = True
            elif word == "constant":
                found = re.match(r"constant (\S+) (\S+) =\s*(.*)\Z", line, re.S)
                if found is None:
                    raise Skip(line[:40])
                self.constants[found[1]] = f"{found[2]} {found[3]}"
            elif word in ("input", "output", "state", "library", "producer", "metadata") or line.endswith(":"):
                raise Skip(word)
            elif not line.startswith("Free("):
                self.instructions.append(self.read(line, text))
        for line in self.expected:
            if (found := self.expectation(line)) and found[3]:
                text.update(self.parts(found[3]))
        for line in self.gradients:
            if "=" in line.split("rtol")[0]:
                text.update(part for part in split(line.split("=", 1)[1].strip()))
        self.values = literals(sorted(text), folder)

    @staticmethod
    def parts(text):
        found = re.match(r"(seq|optional)\((.*)\)\Z", text, re.S)
        if found:
            return split(found[2])
        return [] if text == "null" else [text]

    @staticmethod
    def expectation(line):
        found = re.match(r"\$(\d+)((?: (?:rtol|atol)=\S+)*) (?!type |between )(.*)\Z", line, re.S)
        if not found:
            return None
        tolerances = dict(part.split("=") for part in found[2].split())
        return int(found[1]), float(tolerances.get("rtol", -1)), float(tolerances.get("atol", -1)), found[3]

    def read(self, line, text):
        reader = Reader(line)
        results = []
        if line[0] in "$_":
            results = re.split(r"\s*,\s*", reader.until("="))
            reader.at += 1
        name = reader.take(r"\w+")
        # A function in Python returns as many results as there are.
        if name not in _tape.INSTRUCTIONS or name in SEVERAL or (name == "HostCall" and not results):
            raise Skip(name)
        kinds = {row[0]: row[1] for row in _tape.INSTRUCTIONS[name]["attributes"]}
        reader.take(r"\(")
        operands, attributes = [], {}
        for part in split(reader.until(")")):
            named = re.match(r"(\w+)=(.*)\Z", part, re.S)
            if named and not re.match(r"(f|i|u|bool|str|c)\d*\[", part):
                attributes[named[1]] = None if kinds.get(named[1]) == "dtype" and named[2] == "none" else attribute(named[2])
                continue
            operand = [self.operand(item, text) for item in split(part[1:-1])] if part.startswith("[") else self.operand(part, text)
            operands.append(operand)
        return name, operands, attributes, results

    def operand(self, part, text):
        if part == "_":
            return None
        if part.startswith("$"):
            return int(part[1:])
        if part.startswith("@"):
            if part[1:] not in self.constants:
                raise Skip(part)
            part = self.constants[part[1:]]
        text.add(part)
        return part

    # -- Running --

    def run(self, tape, leaves):
        """Call the instructions. Returns the registers; `leaves` receives arrays for f64 literals by occurrence."""
        registers = {}
        place = 0

        def make(operand):
            nonlocal place
            if operand is None or isinstance(operand, int):
                return registers[operand] if operand is not None else None
            value = self.values[operand]
            if isinstance(value, np.ndarray) and value.dtype == np.float64:
                place += 1
                return leaves(place - 1, value)
            return tape.constant(value)

        for name, operands, attributes, results in self.instructions:
            arrays = [[make(o) for o in operand] if isinstance(operand, list) else make(operand) for operand in operands]
            rows = _tape.INSTRUCTIONS[name]
            arrays += [None] * (sum(kind not in ("LIST", "ANYS") for _, kind, _ in rows["operands"]) - len(arrays))
            listed = any(kind == "LIST" for _, kind, _ in rows["results"])
            names = [row[0] for row in rows["results"]]
            wanted = len(results) if listed else [n for n, r in zip(names, results) if r != "_"]
            if not results:
                wanted = None
            made = getattr(ops, name)(*arrays[: len(rows["operands"])], outputs=wanted, **attributes)
            if results:
                for result, array in zip([r for r in results if listed or r != "_"], made):
                    if result != "_":
                        registers[int(result[1:])] = array
        return registers


def compare(test, got, expected, rtol, atol, where):
    if isinstance(expected, (list, tuple)):
        test.assertEqual(len(got), len(expected), where)
        for a, b in zip(got, expected):
            compare(test, a, b, rtol, atol, where)
        return
    test.assertEqual(tuple(got.shape), tuple(expected.shape), where)
    kind = str(expected.dtype)
    if kind in ("str", "object"):
        test.assertEqual(got.tolist(), expected.tolist(), where)
        return
    wide = kind in ("float64", "f64", "complex128", "c128")
    rtol = rtol if rtol >= 0 else 1e-12 if wide else {"f16": 1e-3, "bf16": 8e-3}.get(kind, 1e-5)
    atol = atol if atol >= 0 else 1e-15 if wide else 1e-6
    if isinstance(expected, xcvm.Tensor) and got.dtype == kind:
        if got.tobytes() == expected.tobytes():
            return
        a, b = (np.array(v.tolist(), np.complex128 if kind[0] == "c" else np.float64) for v in (got, expected))
    else:
        a, b = np.asarray(got), np.asarray(expected)
        test.assertEqual(a.dtype, b.dtype, where)
    if a.dtype.kind in "biu":
        test.assertTrue(np.array_equal(a, b), where)
    else:
        test.assertTrue(np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True), f"{where}: {a} is not {b}")


def cases_of(path):
    """(name, lines) of each case; lines joined where brackets are open or a backslash ends them."""
    cases, pending = [], ""
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            continue
        pending += line
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        bare = re.sub(r'"(\\.|[^"\\])*"', "", pending)
        if bare.count("(") + bare.count("[") > bare.count(")") + bare.count("]"):
            pending += " "
            continue
        line, pending = pending.strip(), ""
        if line.startswith("case "):
            cases.append((line[5:], []))
        elif line and cases:
            cases[-1][1].append(re.sub(r"\) (type|slot|node|name|flops)=.*\Z", ")", line) if line[0] in "$_" else line)
    return cases


class Cases(unittest.TestCase):
    def check_values(self, case, tape, where):
        registers = case.run(tape, lambda _, value: tape.constant(value))
        for line in case.expected:
            found = case.expectation(line)
            if found is None:
                continue
            register, rtol, atol, text = found
            if text.startswith(("seq(", "optional(")) or text == "null":
                expected = [case.values[part] for part in case.parts(text)]
                got = registers[register].value()
                got = [got] if text.startswith("optional(") and got is not None else got or []
            else:
                expected, got = case.values[text], registers[register].value()
            compare(self, got, expected, rtol, atol, f"{where}: ${register}")

    def check_gradient(self, case, line, where):
        stated = "=" in line.split("rtol")[0]
        if line.startswith("straight") or any(name == "HostCall" for name, *_ in case.instructions):
            return False
        head = line.split("=", 1)[0] if stated else line
        registers = [int(r) for r in re.findall(r"\$(\d+)", head)]
        tolerances = dict(re.findall(r"(rtol|atol|step)=(\S+)", line if not stated else ""))
        step = float(tolerances.get("step", 1e-5))

        def loss_of(tape, results):
            total = None
            for register in registers:
                for y in self.tensors(results[register], tape):
                    z = y if stated else y + y * y * 0.25
                    z = ops.ReduceSum(z, keepdims=0)
                    total = z if total is None else total + z
            return total

        leaves = []
        with Tape(threads=1) as tape:

            def leaf(place, value):
                made = tape.parameter(value)
                leaves.append((place, value, made))
                return made

            loss = loss_of(tape, case.run(tape, leaf))
            try:
                if loss.requires_grad:
                    loss.backward()
            except xcvm.Unsupported:  # a rule that needs a loop
                return False
            gradients = [np.asarray(v.grad.value()) if v.grad is not None else np.zeros_like(value) for _, value, v in leaves]
            if stated:
                wanted = [case.values[part] for part in split(line.split("=", 1)[1].strip())]
                for i, (got, expected) in enumerate(zip(gradients, wanted)):
                    compare(self, got, expected, 1e-9, 1e-12, f"{where}: gradient {i}")
                return True
        generator = np.random.default_rng(len(line))
        directions = {place: np.where(g != 0, generator.uniform(-1, 1, g.shape), 0) for (place, _, _), g in zip(leaves, gradients)}
        moved = []
        for sign in (1, -1):
            with Tape(threads=1) as tape:
                loss = loss_of(tape, case.run(tape, lambda place, value: tape.constant(value + sign * step * directions[place])))
                moved.append(float(loss.value().item()))
        expected = (moved[0] - moved[1]) / (2 * step)
        got = sum(float((g * directions[place]).sum()) for (place, _, _), g in zip(leaves, gradients))
        scale = sum(float(np.abs(g * directions[place]).sum()) for (place, _, _), g in zip(leaves, gradients))
        rtol, atol = float(tolerances.get("rtol", 1e-6)), float(tolerances.get("atol", 1e-7))
        self.assertLessEqual(abs(got - expected), 1e-6 + 10 * (atol + rtol * max(1, scale)), f"{where}: {got} beside {expected}")
        return True

    def tensors(self, value, tape):
        if value.kind == "tensor":
            return [value]
        count = int(tape.call("SequenceLength", [value]).value().item())
        return [tape.call("SequenceAt", [value, tape.constant(i)]) for i in range(count)]

    def test_all(self):
        counts = {"values": 0, "gradients": 0, "refused": 0, "skipped": 0}
        names = set()
        for path in sorted(ROOT.glob("tests/ops/*/*.xcvm")):
            for name, lines in cases_of(path):
                where = f"{path.stem}, {name}"
                try:
                    case = Case(lines, path.parent)
                except (Skip, xcvm.Error):
                    counts["skipped"] += 1
                    continue
                with self.subTest(where):
                    self.check(case, where, counts, names)
        self.assertEqual(set(_tape.INSTRUCTIONS) - names, SEVERAL, "instructions without a case that ran")
        self.assertGreater(counts["values"], 3400)
        self.assertGreater(counts["gradients"], 480)
        self.assertLess(counts["skipped"], 500)

    def check(self, case, where, counts, names):
        try:
            with Tape(threads=1, seed=1, functions=FUNCTIONS) as tape:
                self.check_values(case, tape, where)
        except (xcvm.Error, ValueError, TypeError, OverflowError, OSError) as error:
            if case.refused:
                counts["refused"] += 1
                return
            raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
        names.update(row[0] for row in case.instructions)
        counts["values"] += 1
        for line in case.gradients:
            counts["gradients"] += self.check_gradient(case, line, where)


class Single(unittest.TestCase):
    """Instructions of several processes on a tape, which is one process: sums are those of its own operands."""

    def test_sums(self):
        x, y = xcvm.asarray([1.0, 2.0]), xcvm.asarray([[3.0]])
        for array, expected in zip(ops.AllReduce(x, [y], outputs=2), (x, y)):
            self.assertEqual(array.tolist(), expected.tolist())
        message = ops.AllReduceBegin(x, [y], [])
        for array, expected in zip(ops.AllReduceEnd(message, ranks=[1, 2], dims=[2, 1, 1], outputs=2), (x, y)):
            self.assertEqual(array.tolist(), expected.tolist())
        message = ops.AllReduceBegin(x, [], [x])
        self.assertEqual(ops.AllReduceEnd(message, ranks=[1], dims=[2], outputs=1)[0].tolist(), [2.0, 4.0])

    def test_normalization(self):
        rng = np.random.default_rng(1)
        x, gy = (rng.random((4, 3, 2)).astype(np.float32) for _ in range(2))
        scale, b, mean, var = (rng.random(3).astype(np.float32) + 0.5 for _ in range(4))
        results = []
        for name in ("BatchNormalization", "SyncBatchNormalization"):
            rows = _tape.INSTRUCTIONS[name]["attributes"]
            mode = {"training_mode": 1} if any(row[0] == "training_mode" for row in rows) else {}
            operands = [xcvm.parameter(a) for a in (x, scale, b)]
            y = getattr(ops, name)(*operands, mean, var, **mode)
            xcvm.sum((y[0] if isinstance(y, tuple) else y) * gy).backward()
            results.append([y[0] if isinstance(y, tuple) else y, *(operand.grad for operand in operands)])
        for got, expected in zip(*results):
            np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    unittest.main()

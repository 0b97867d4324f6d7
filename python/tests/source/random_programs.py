"""Random programs, compared with CPython: python random_programs.py [COUNT] [SEED] [PROCESSES].

Each program has if, while, for, break, continue, return, try, lists, lists in lists, dicts, objects, closures, generators, comprehensions,
slices, arrays and their views, aliases, None, and numbers that turn from int to float, up to depth 4. It is compiled from its source and run
for several inputs. Results and exceptions must be those of CPython. Programs that the compiler refuses are counted with their reasons.
"""

import collections
import concurrent.futures
import importlib.util
import os
import random
import signal
import sys
import tempfile

import xcvm

INPUTS = [(0, 0, 0.0), (1, 2, 0.5), (-1, 3, -2.25), (5, -4, 8.0), (7, 7, 1.5), (2, 1, -0.125), (12, 0, 3.0), (-6, 9, 100.0)]

# What may be refused. docs/python/source.md describes each.
REASONS = (
    "^skipped|used after it|have nothing in common|must be known when the program is compiled|can be too many different things"
    "|has no single meaning|whose number is not known|cannot be set|changes its length in the loop over it"
    "|has other contents on another path|an int is needed, but|would be changed in place"
)


class Writer:
    """Writes one program."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.loops = 0
        self.counter = 0

    def line(self, depth, text):
        self.lines.append("    " * depth + text)

    def pick(self, *choices):
        return self.random.choice(choices)

    def number(self, level=0):
        r = self.random.random()
        if level > 2 or r < 0.3:
            return self.pick("a", "b", "i0", "i1", "i2", str(self.random.randint(-3, 6)))
        if r < 0.5:
            return f"({self.number(level + 1)} {self.pick('+', '-')} {self.number(level + 1)})"
        if r < 0.6:
            # Integers of a program have 64 bits, so that products must not grow without end.
            return f"(({self.number(level + 1)} * {self.number(level + 1)}) % 10007)"
        if r < 0.7:
            return f"({self.number(level + 1)} {self.pick('//', '%')} {self.random.randint(2, 5)})"
        if r < 0.75:
            return f"len({self.pick('l0', 'l1', 'd', 'rows', 'rows[0]')})"
        if r < 0.8:
            return f"d['{self.pick('x', 'y')}']"
        if r < 0.84:
            return f"(m0 if m0 is not None else {self.number(level + 1)})"
        if r < 0.88:
            return f"({self.number(level + 1)} if {self.condition(level + 1)} else {self.number(level + 1)})"
        if r < 0.9:
            return f"add({self.number(level + 1)})"
        if r < 0.92:
            return f"f0({self.number(level + 1)})"
        if r < 0.94:
            return f"sum({self.pick('l0', 'l1', 'rows[1]', 'd.values()', '[v % 7 for v in l0]', '(v for v in l1 if v > 0)')})"
        if r < 0.96:
            return self.pick("t0[0]", "t0[1]", "d.get('z', i1)", "(o0.v if o0 is not None else i1)", "(rows[0][0] if rows[0] else 0)")
        if r < 0.965:
            return f"fact({self.pick('3', '4', 'len(t0)')})"
        if r < 0.98:
            return self.pick(
                "s0.total", "len(s0)", "s0.mean", "s0[-1]", "fs[1](i0)", "w0", "l0[::2].count(1)", "sum(v for v in some(i0, i1))",
                "sum(u * v for u in l0[:2] for v in l1[-2:] if u != v) % 31", "len([1 for r in rows for v in r if v > i0])", f"scale(k=i0)({self.pick('2', 'i1')})",
            )  # fmt: skip
        return f"{self.pick('min', 'max')}({self.number(level + 1)}, {self.number(level + 1)})"

    def small(self):
        return f"({self.number(1)} % 5)"

    def real(self):
        return self.pick("c", "n0", "(n0 * 0.5)", f"(n0 + {self.number(1)})", "(c - n0)", f"({self.number(1)} / 2)", self.number(1))

    def list(self):
        return self.pick("l0", "l1", "rows[0]", "rows[1]", "p.l", "q.l")

    def condition(self, level=0):
        r = self.random.random()
        if level > 2 or r < 0.5:
            return f"{self.number(level + 1)} {self.pick('<', '>', '==', '!=', '<=', '>=')} {self.number(level + 1)}"
        if r < 0.6:
            return f"({self.condition(level + 1)} {self.pick('and', 'or')} {self.condition(level + 1)})"
        if r < 0.66:
            return f"not ({self.condition(level + 1)})"
        if r < 0.74:
            return self.pick("m0 is None", "m0 is not None", "o0 is None", "o0 is p", "o0 is not q")
        if r < 0.82:
            return f"{self.number(2)} < {self.number(2)} <= {self.number(2)}"
        if r < 0.88:
            return self.pick("l0", "l1", "not l0", "l0 is l1", "rows[0] is l0", "rows[0] is rows[1]", "p.l is q.l", "p is q")
        if r < 0.92:
            return self.pick("'z' in d", "i0 in l0", "m0 in (1, 2, None)", "l0 == l1", "any(v > 3 for v in l1)", "all(l0)")
        if r < 0.95:
            return self.pick("(w0 := i0 + 1) > i1", "i0 < (w0 := i1 * 2) < 9", "x0[0] > i1", "x0.sum() > 3", "0 < i0 != i1 <= 5 > i2", "0 in l0[1:3]", "bool(s0)")
        return f"n0 > {self.number(2)}"

    def statement(self, depth, nesting):
        if nesting < 4 and self.random.random() < 0.31:
            self.compound(depth, nesting)
        else:
            self.simple(depth, nesting)

    def compound(self, depth, nesting):
        r = self.random.random()
        if nesting == 3 or r < 0.55:
            self.line(depth, f"if {self.condition()}:")
            self.block(depth + 1, nesting + 1)
            if self.random.random() < 0.3:
                self.line(depth, f"elif {self.condition()}:")
                self.block(depth + 1, nesting + 1)
            if self.random.random() < 0.5:
                self.line(depth, "else:")
                self.block(depth + 1, nesting + 1)
            return
        name = f"k{self.counter}"
        self.counter += 1
        if r < 0.7:
            self.line(depth, f"for {name} in range({self.pick(self.small(), '3', '2', '10', f'1, {self.small()}', f'{self.small()}, 0, -1')}):")
            self.loop(depth, nesting, name)
        elif r < 0.8:
            items = self.pick("some(i0, i1)", "l0[::-2][:3]", "[u for u in l1 if u > 0][:3]", "list(l0)[:5]", "l1[:3]", "[a, b, i0]", "reversed([1, a, 3])", "sorted(l0)[:4]", "d.values()", "l1[-2:]", "set([1, 2])")
            self.line(depth, f"for {name} in {items}:")
            self.loop(depth, nesting, name)
        elif r < 0.84:
            self.line(depth, f"for {name}, v{name} in {self.pick('enumerate(l0[:4])', 'zip(l0[:3], range(5))', 'zip(list(l1), [a, b])')}:")
            self.loop(depth, nesting, f"{name} + v{name}")
        elif r < 0.95:
            self.line(depth, f"{name} = {self.pick('0', self.small())}")
            if self.random.random() < 0.2:
                self.line(depth, f"while ({name} := {name} + 1) < {self.random.randint(2, 6)}:")
                return self.loop(depth, nesting, name)
            self.line(depth, f"while {name} < {self.random.randint(1, 6)}{self.pick('', f' and {self.condition(2)}')}:")
            self.line(depth + 1, f"{name} += 1")
            self.loop(depth, nesting, name)
        else:
            self.line(depth, "try:")
            self.block(depth + 1, nesting + 1)
            if self.random.random() < 0.5:
                self.line(depth + 1, f"if {self.condition(1)}:")
                self.line(depth + 2, self.pick("raise ValueError('no')", "raise KeyError(1)", "i0 = l0[40]"))
            self.line(depth, f"except {self.pick('ValueError', '(KeyError, IndexError)', 'Exception')}:")
            self.block(depth + 1, nesting + 1)
            if self.random.random() < 0.3:
                self.line(depth, "finally:")
                self.line(depth + 1, "i2 += 1")

    def array(self, depth):
        """Write a change in place, a view, or another name of an array."""
        number = self.pick("i0", "n0", "i1 % 7", "c", "2", "x0[1]", "y0[-1]")
        self.line(depth, self.pick(
            f"x0[{self.pick('0', '-1', 'i0 % 4', '1:3', '::2', '::-1', '-2:', 'i1 % 3:', 'x0 > 1', '[0, 2]')}] = {number}",
            f"x0[{self.pick('1', 'i0 % 4', '1:3', '::3', ':i1 % 4')}] {self.pick('+', '-', '*')}= {self.pick('i0 % 5', 'c', '2')}",
            f"y0 = x0[{self.pick('1:', '::2', '::-1', ':-1')}]", "y0[0] = i0 % 9", "y0 += 1", "y0 = x0", "y0 = x0.copy()", "x0 = y0 * 1",
            "x0 = x0 + 1", "z0[i0 % 2] = x0[:3]", "z0[:, 1] += c", "z0[0], i1 = 1, i0", "r0 = z0[1]", "r0 += 1", "r0[i1 % 3] = 4",
            "z0[1, 1:] = z0[0, :2]", "x0[:3] += z0[0]", "z0.T[0] = 2", "z0 = z0[::-1] + 0",
        ))  # fmt: skip

    def more(self, depth):
        self.line(depth, self.pick(
            f"s0.add({self.number(1)})", "s0 = s0.add(1).add(i0)", "s0 = Sums()", "s0[0] = i1", "s0.items = l0", "l0 = s0.items", "s0 += i0 % 7", "s1 = s0", "s1.add(2)",
            "l0 = l0[::-1]", "l1 = l0[1::2]", "l1 = l0[-3:-1]", "l0 = l1[:-1] + [i1]", "l1[:1] = [i0, i1]", "l1[len(l1):] = l0[:2]",
            "l1 = [u + v for u in l0[:3] for v in l1[:2] if u < v or v > 2]", "rows = [[v + 1 for v in r[:3]] for r in rows]", "d = {k: v + i0 for k, v in d.items()}",
            "l1 = [v if v > 0 else -v for v in l0 if v != i0 if v < 50]", "l0 = list(some(i0, i1))", "l1 = [w0 := v + 1 for v in l0[:2]]",
            "fs[0] = fs[1]", "fs = [add, step]", "fs = [lambda v, k=k: v + k for k in range(2)]", f"i1 = fs[0]({self.number(1)})", "f0 = scale(k=i1)",
            "i0, *l1 = [i1, i0, 3]", "(i0, i1), w0 = (i1, 2), i0", "d |= {'x': i0}", "i2 += find(l0, i0)", "i1 = find(rows[0], 1)", "l0 = sorted(l1)[:4]", "w0 = (i1 := i1 + 1)",
            "m0 = next((v for v in l0 if v > i0), None)", "i1 = d.setdefault('x', 2)", "l0[1:] = l1[:2]", "l0 = [*l0[:2], *l1[:2]]", "d = {**d, 'x': i1}",
        ))  # fmt: skip

    def simple(self, depth, nesting):
        r = self.random.random()
        if r < 0.04:
            return self.array(depth)
        if r < 0.14:
            return self.more(depth)
        r = self.random.random()
        if r < 0.2:
            self.line(depth, f"{self.pick('i0', 'i1', 'i2')} {self.pick('=', '+=', '-=')} {self.number()}")
        elif r < 0.27:
            self.line(depth, f"n0 = {self.real()}")
        elif r < 0.36:
            self.line(depth, f"{self.list()}.append({self.number()})")
        elif r < 0.41:
            self.line(depth, self.pick("l0 = l1", "l1 = l0", "l0 = list(l1)", "l1 = l0 + [a]", "l0 = []", "l1 = [i0, i1]", "l0 += l1[:2]", "l0, l1 = l1, l0"))
        elif r < 0.45:
            number = self.number(1)
            self.line(depth, self.pick(
                "rows[0] = l0", "rows[1] = rows[0]", "l1 = rows[1]", f"rows[0] = [{number}]", "rows = [l0, l1]", "p.l = l0", "q.l = p.l",
                "l0 = q.l", f"q.l = [{number}]", "o0 = p", "o0 = None", f"o0 = Pair({number})", "p = o0 if o0 is not None else q",
            ))  # fmt: skip
        elif r < 0.49:
            self.line(depth, f"if len({self.pick('l0', 'l1')}) > 1 and len(l1) > 1:")
            self.line(depth + 1, self.pick(f"l1[0] = {self.number(1)}", f"l1[-1] += {self.number(1)}", "i0 = l1.pop()", "i1 = l1[1]", "l1 = l1[1:]", "del l1[0]", "l1.insert(0, i0)", "l1.reverse()"))
        elif r < 0.54:
            self.line(depth, f"m0 = {self.pick('None', self.number(1), 'm0', f'{self.number(1)} if {self.condition(1)} else None')}")
        elif r < 0.6:
            self.line(depth, f"d['{self.pick('x', 'y')}'] {self.pick('=', '+=')} {self.number(1)}")
        elif r < 0.62:
            self.line(depth, self.pick(f"d['z'] = {self.number(1)}", "d = {'x': i0, 'y': 2}", "e = d", "d, e = e, d", "d.update(x=i1)", "d = dict(e)"))
        elif r < 0.65:
            self.line(depth, f"{self.pick('i0', 'i1')} = step({self.number(1)})")
        elif r < 0.68:
            self.line(depth, self.pick(
                f"f0 = lambda v, k={self.number(1)}: v + k", f"f0 = adder({self.number(1)})", "f0 = add", "f0 = counter(i0)", "f0 = lambda v: v + i1",
            ))  # fmt: skip
        elif r < 0.71:
            self.line(depth, f"i0, i1 = {self.pick('i1, i0', f'{self.number(1)}, {self.number(1)}')}")
        elif r < 0.74:
            self.line(depth, f"t0 = {self.pick(f'(i0, {self.number(1)})', 't0[1], t0[0]', '(t0[0], i1)', f'({self.number(1)}, n0)')}")
        elif r < 0.77 and nesting > 0:
            self.line(depth, f"return {self.pick('i0', 'n0', 'i0, i1', 'None', 'l0', 'i1', 'rows', 'd')}")
        elif r < 0.8:
            self.line(depth, f"l1 = [v * 2 for v in l0{self.pick('', ' if v > 1', f' if v != ({self.number(2)})')}]")
        elif r < 0.81 and nesting > 1:
            self.line(depth, self.pick("raise ValueError('no')", f"assert {self.condition(1)}, 'no'"))
        elif r < 0.85:
            self.line(depth, f"b0 = bump({self.list()})")
        elif r < 0.9:
            self.line(depth, f"{self.pick('p', 'q')}.v = {self.number(1)}")
        elif r < 0.94:
            self.line(depth, f"i2 = {self.pick('p', 'q')}.twice(){self.pick('', ' + q.v')}")
        elif r < 0.97:
            self.line(depth, self.pick("q = p", "q = Pair(i0)", "p.v, q.v = q.v, p.v", "p, q = q, p"))
        else:
            self.line(depth, self.pick("u0 = i0", "i1 = u0", "if o0 is not None:\n" + "    " * (depth + 1) + "o0.v += 1", "if o0 is p:\n" + "    " * (depth + 1) + "i1 = o0.twice()"))

    def loop(self, depth, nesting, name):
        self.loops += 1
        self.line(depth + 1, f"i0 = (i0 + {name}) % 97")
        self.block(depth + 1, nesting + 1)
        if self.random.random() < 0.5:
            self.line(depth + 1, f"if {self.condition(1)}:")
            self.line(depth + 2, self.pick("break", "continue", "break", "return i1"))
            if self.random.random() < 0.5:
                self.block(depth + 1, nesting + 1)
        if self.random.random() < 0.2:
            self.line(depth, "else:")
            self.block(depth + 1, nesting + 1)
        self.loops -= 1

    def block(self, depth, nesting):
        for _ in range(self.random.randint(1, 3 if nesting < 3 else 2)):
            self.statement(depth, nesting)

    def program(self):
        self.line(0, "import numpy as np")
        self.line(0, "class Sums:\n    def __init__(self):\n        self.items = [1]\n        self.total = 0")
        self.line(1, "def add(self, v):\n        self.items.append(v % 13)\n        self.total += v % 13\n        return self")
        self.line(1, "def __iadd__(self, v):\n        self.add(v)\n        return self\n    def __len__(self):\n        return len(self.items)")
        self.line(1, "def __getitem__(self, i):\n        return self.items[i] if self.items else 0")
        self.line(1, "def __setitem__(self, i, v):\n        if self.items:\n            self.items[i] = v")
        self.line(1, "@property\n    def mean(self):\n        return self.total / max(1, len(self))")
        self.line(0, "class More(Sums):\n    def add(self, v):\n        if v > 3:\n            self.total -= 1\n        return super().add(v)")
        self.line(0, "def some(u, v):\n    yield u % 5\n    if u > v:\n        yield v % 7\n    for j in range(2):\n        yield u + j")
        self.line(0, "def scale(*, k=2):\n    def times(v):\n        nonlocal k\n        k = (k + 1) % 11\n        return v * k % 101\n    return times")
        self.line(0, "def find(xs, v):\n    for i, x in enumerate(xs):\n        for y in xs[:2]:\n            if x + y == v:\n                return i\n            if y > 50:\n                break\n        else:\n            continue\n        return -2\n    return -1")
        self.line(0, "class Pair:")
        self.line(1, "def __init__(self, v):\n        self.v = v\n        self.l = [v]")
        self.line(1, "def twice(self):\n        self.v = (self.v * 2) % 101\n        return self.v")
        self.line(0, "def bump(xs):\n    xs.append(len(xs))\n    return len(xs)")
        self.line(0, "def fact(n):\n    return 1 if n < 2 else n * fact(n - 1)")
        self.line(0, "def adder(k):\n    return lambda v: v + k")
        self.line(0, "def counter(n):\n    def count(v):\n        nonlocal n\n        n = (n + v) % 50\n        return n\n    return count")
        self.line(0, "def f(a, b, c):")
        self.line(1, "i0, i1, i2 = a, b, 1")
        self.line(1, "n0 = 0\n    m0 = None\n    b0 = 0\n    p = Pair(a)\n    q = Pair(3)\n    o0 = None\n    t0 = (0, a)")
        self.line(1, "l0 = [a, 1]\n    l1 = " + self.pick("l0", "[]", "[b]"))
        self.line(1, "rows = [[b], " + self.pick("l0", "[1, 2]", "[]") + "]")
        self.line(1, "d = {'x': 1, 'y': b}\n    e = " + self.pick("d", "{'x': 5, 'y': 6}"))
        self.line(1, "total = 0")
        self.line(1, "def add(v):\n        return v + a")
        self.line(1, "def step(v):\n        nonlocal total\n        total = (total + v) % 1009\n        return total")
        self.line(1, "f0 = add\n    fs = [add, lambda v: v - 1]\n    w0 = 0\n    s0 = " + self.pick("Sums()", "More()") + "\n    s1 = " + self.pick("s0", "Sums()"))
        self.line(1, "x0 = np.array([1.0, 2.0, a, c])\n    y0 = " + self.pick("x0", "x0[1:]", "x0.copy()"))
        self.line(1, "z0 = np.zeros((2, 3)) + b\n    r0 = " + self.pick("z0[0]", "z0[1].copy()"))
        for _ in range(self.random.randint(3, 7)):
            self.statement(1, 0)
        self.line(1, "return i0, i1, i2, n0, m0, l0, l1, rows, d, e, total, b0, p.v, q.v, p.l, q.l, t0, f0(1), None if o0 is None else o0.v, "
                     "w0, s0.items, s0.total, s1.total, fs[0](1), x0, y0, z0, r0")
        return "\n".join(self.lines) + "\n"


def load(text, directory, number):
    path = os.path.join(directory, f"program_{number}.py")
    with open(path, "w") as file:
        file.write(text)
    spec = importlib.util.spec_from_file_location(f"program_{number}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


def outcome(function, arguments):
    try:
        return "value", function(*arguments)
    except Exception as error:
        return "raises", type(error).__name__


def overflows(value):
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return any(map(overflows, value))
    if isinstance(value, dict):
        return any(map(overflows, value.values()))
    return isinstance(value, (int, float)) and abs(value) > 2**53


def same(a, b):
    if hasattr(a, "tolist") and hasattr(b, "tolist"):
        a, b = a.tolist(), b.tolist()
    if isinstance(a, (list, tuple)) and type(a) is type(b):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, float) or isinstance(b, float):
        return a is not None and b is not None and abs(a - b) <= 1e-9 * max(1, abs(a), abs(b))
    return a == b


def compare(seed, directory):
    """Return "same", "refused: ..." or "wrong: ..." for one program."""
    text = Writer(seed).program()
    function = load(text, directory, seed)
    wanted = [outcome(function, arguments) for arguments in INPUTS]
    if any(kind == "value" and overflows(value) for kind, value in wanted):
        return "skipped"  # integers of more than 64 bits, or inexact ones
    try:
        program = xcvm.compile(function, *INPUTS[1], optimize=0)
    except xcvm.SourceErrors as error:
        if "the compiler fails" in str(error):
            return f"wrong: {error.problems[0].reason}"
        if all(kind == "raises" for kind, _ in wanted):
            return "same"
        return f"refused: {error.problems[0].reason}"
    for arguments, (kind, value) in zip(INPUTS, wanted):
        got_kind, got = outcome(program, arguments)
        if got_kind != kind or not same(got, value):
            return f"wrong: {arguments}: {got!r}, not {value!r}"
    return "same"


SECONDS = 120


def hangs(number, frame):
    raise TimeoutError(f"the program is not compiled and run after {SECONDS} s")


def main(count=200, seed=0, processes=1):
    """Return the programs that are wrong, with their numbers, and the reasons of those that are refused."""
    reasons = collections.Counter()
    wrong = []
    if processes > 1:
        # Small parts, so that the processes end together.
        parts = [(min(50, seed + count - first), first) for first in range(seed, seed + count, 50)]
        with concurrent.futures.ProcessPoolExecutor(processes) as pool:
            for failed, refused in pool.map(main, *zip(*parts)):
                wrong += failed
                reasons.update(refused)
        return wrong, reasons
    with tempfile.TemporaryDirectory() as directory:
        signal.signal(signal.SIGALRM, hangs)
        for number in range(seed, seed + count):
            signal.alarm(SECONDS)
            try:
                found = compare(number, directory)
            except Exception as error:
                found = f"wrong: {type(error).__name__}: {str(error)[:200]}"
            signal.alarm(0)
            if found.startswith("wrong"):
                wrong.append((number, found))
            elif found != "same":
                reasons[found] += 1
    return wrong, reasons


if __name__ == "__main__":
    failures, refused = main(*map(int, sys.argv[1:]))
    for number, text in failures:
        print(number, text)
    for text, times in refused.most_common():
        print(times, text)
    print(f"{len(failures)} wrong, {sum(refused.values())} refused")
    sys.exit(bool(failures))

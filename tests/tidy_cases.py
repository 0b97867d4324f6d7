#!/usr/bin/python3
"""tidy_cases.py CASE_FILE...: makes lines of case files that have more than 120 columns legible.

Long operands become named constants. Lists of more than 300 characters move into the safetensors file beside the case file.
What remains is wrapped. Programs and expected values of the cases stay the same."""
import os
import re
import sys

from case_values import TYPES, Values, word
from definitions import instructions

WIDTH, LONG, NAMED = 120, 300, 40
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s",()\[\]]+(?:\[[^\s\]]*\])?|[(),\[\]]|\s+')
TYPE = re.compile(r"(f32|f64|f16|bf16|f24|[iu](?:8|16|32|64|4|2)|bool|str|c64|c128|f8\w+|f4\w+)\[(\d+(?:x\d+)*)?\]")


class Literal:
    """A literal of a statement: its type, its elements and its span in the text."""

    def __init__(self, kind, dims, first, last, elements):
        self.kind, self.dims, self.first, self.last, self.elements = kind, dims, first, last, elements
        self.shape = [int(size) for size in (dims or "").split("x") if size]
        self.type = f"{kind}[{dims or ''}]"

    def listed(self):
        return " ".join(self.elements)


def literals_of(text):
    """The literals of a statement, in their order. A pair of a complex number is one element."""
    tokens, at = [], 0
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"not understood: {text[at:at + 60]}")
        tokens.append((found[0], at))
        at = found.end()
    tokens, found, i = [token for token in tokens if not token[0].isspace()], [], 0
    while i < len(tokens):
        kind = TYPE.fullmatch(tokens[i][0])
        i += 1
        if kind is None or (i > 1 and tokens[i - 2][0] == "type"):
            continue
        first, last, elements = tokens[i - 1][1], tokens[i - 1][1] + len(kind[0]), []
        if i < len(tokens) and tokens[i][0] == "=":
            last, i = tokens[i][1] + 1, i + 1
        while i < len(tokens) and tokens[i][0] not in ",)[]" and "=" not in tokens[i][0]:
            count = 5 if tokens[i][0] == "(" else 1
            elements.append("".join(token for token, _ in tokens[i:i + count]))
            last = tokens[i + count - 1][1] + len(tokens[i + count - 1][0])
            i += count
        found.append(Literal(kind[1], kind[2], first, last, elements))
    return found


def wrap(text, brackets):
    """The text in lines of WIDTH columns. Without brackets around the breaks, lines end with a backslash."""
    lines, line, end = [], "", "" if brackets else " \\"
    for piece in re.findall(r'(?:"(?:[^"\\]|\\.)*"|[^\s"]+)+|\s+', text):
        if piece.isspace():
            line += " " if line.strip() else ""
            continue
        if line.strip() and len(line) + len(piece) + len(end) > WIDTH:
            lines.append(line.rstrip() + end)
            line = "    "
        while len(line) + len(piece) + len(end) > WIDTH:
            cut = WIDTH - len(line) - 2
            while piece[cut - 1] == "\\" or re.search(r"\\x.?$", piece[:cut]):
                cut -= 1
            lines.append(line + piece[:cut] + "\\")
            line, piece = "", piece[cut:]
        line += piece
    return lines + [line.rstrip()]


class Tidy:
    """One case file."""

    def __init__(self, path, operands):
        self.path, self.operands, self.case, self.constants = path, operands, "", set()
        self.file = os.path.splitext(os.path.basename(path))[0] + ".safetensors"
        self.values = Values(os.path.splitext(path)[0] + ".safetensors")

    def elements(self, literal, name):
        if len(literal.listed()) <= LONG or literal.kind not in TYPES:
            return literal.listed()
        return f'@"{self.file}":{self.values.add(f"{word(self.case)}.{name}", literal.kind, literal.shape, literal.elements)}'

    def constant(self, literal, name):
        number, unique = 2, name
        while unique in self.constants:
            unique, number = f"{name}_{number}", number + 1
        self.constants.add(unique)
        return unique, wrap(f"constant {unique} {literal.type} = {self.elements(literal, unique)}", False)

    def operand_of(self, text, literal):
        """The name of the operand that a literal is, with its index in a list."""
        head = re.search(r"(\w+)\(", text)
        depth, position, index = 0, 0, None
        for token in TOKEN.findall(text[head.end():literal.first]):
            if token == "[":
                depth, index = depth + 1, 0
            elif token == "]":
                depth, index = depth - 1, None
            elif token == ",":
                position, index = (position, index + 1) if depth else (position + 1, index)
        names = self.operands.get(head[1], [])
        name = names[position] if position < len(names) else "operand"
        return word(name if index is None else f"{name}{index}")

    def instruction(self, text):
        """Constants for all literals up to the last long one, so that constants keep their order."""
        found, lines = literals_of(text), []
        last = max((i for i, literal in enumerate(found) if len(literal.listed()) > NAMED), default=-1)
        for literal in reversed(found[:last + 1]):
            name, statement = self.constant(literal, self.operand_of(text, literal))
            text = text[:literal.first] + "@" + name + text[literal.last:]
            lines = statement + lines
        return lines + wrap(text, True)

    def values_of(self, text, name):
        """A statement that has its values at its end: expect, gradient, input."""
        found = literals_of(text)
        for i, literal in reversed(list(enumerate(found))):
            elements = self.elements(literal, name if len(found) == 1 else f"{name}_{i + 1}")
            equals = " =" if text[literal.first:].startswith(literal.type + " =") else ""
            text = text[:literal.first] + f"{literal.type}{equals} {elements}".rstrip() + text[literal.last:]
        return wrap(text, False)

    def statement(self, text):
        first = text.split(None, 2)
        if first[0] == "case":
            self.case, self.constants = text[5:].strip('" '), set()
        elif first[0] == "constant":
            self.constants.add(first[1])
        if len(text) <= WIDTH:
            return [text]
        if first[0] == "constant":
            literal = literals_of(text)[0]
            return wrap(f"constant {first[1]} {literal.type} = {self.elements(literal, first[1])}", False)
        if first[0] in ("expect", "gradient", "input"):
            name = first[2].split()[0] if first[1] == "state" else first[1]
            return self.values_of(text, {"expect": "expected_", "gradient": "gradient", "input": ""}[first[0]] +
                                  (word(name).strip("_") if first[0] != "gradient" else ""))
        if text.startswith("#"):
            return [text]
        if first[0] == "refuse":
            return wrap(text, False)
        return self.instruction(text)

    def run(self):
        lines, seen = [], 0
        with open(self.path) as file:
            text = file.read().split("\n")
        while seen < len(text):
            line, seen = text[seen], seen + 1
            lines += self.statement(line) if line.strip() and not line.startswith(" ") else [line]
        with open(self.path, "w") as file:
            file.write("\n".join(lines))
        if self.values.tensors:
            self.values.save()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    names = {name: instruction.operands for name, instruction in instructions().items()}
    for case_file in sys.argv[1:]:
        Tidy(case_file, names).run()

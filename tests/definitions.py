"""The op definitions and the operators of the import, as the generated reference pages state them."""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Instruction:
    """An op definition: names of results, operands and attributes, element types by name, shape rule and gradient."""

    def __init__(self, name, signature):
        self.name, self.results, self.operands, self.attributes, self.types = name, [], [], [], {}
        self.rule = self.gradient = None
        for part in signature.split(","):
            part = part.strip("[] ")
            if part:
                (self.attributes if "=" in part else self.operands).append(part.rstrip("="))

    def elementwise(self):
        """True if each element of the only result depends on one element of each of one or two operands, and nothing else."""
        rules = {1: "same", 2: "broadcast"}
        return not self.attributes and rules.get(len(self.operands)) == self.rule and self.types["y"] == self.types[self.operands[0]]


def page(name):
    with open(os.path.join(ROOT, "docs", name), encoding="utf-8") as file:
        return file.read()


def instructions():
    """Name to Instruction."""
    found, current = {}, None
    for line in page("instructions.md").splitlines():
        head = re.match(r"`(?:.* = )?(\w+)\((.*)\)` \(number", line)
        if head:
            current = found[head[1]] = Instruction(head[1], head[2])
        row = re.match(r"\| (\w+) \| (output|input|optional input)[^|]* \| \w+ \| ([^|]*) \|", line)
        if row and current:
            current.types[row[1]] = row[3].split()
        rule = re.match(r"Shape rule: (.*)\. Gradient: (.*)\.$", line)
        if rule:
            current.rule, current.gradient = rule[1], rule[2]
    return found


def operators(text=None):
    """(domain, name, versions, instructions) of each operator, from the page about them."""
    for line in (text or page("onnx-operators.md")).splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 5 and cells[3][:1].isdigit():
            yield cells[2], cells[1], [int(version) for version in cells[3].split()], cells[4]


def elementwise():
    """Element-wise operators that one instruction of the same name computes: (instruction, first opset)."""
    known = instructions()
    return [(known[name], versions[0]) for domain, name, versions, becomes in operators()
            if domain == "ai.onnx" and becomes == name and name in known and known[name].elementwise()]

"""Pictures and tables for notebooks, and progress."""

import os
import pathlib
import pty
import sys
import tempfile
import types
import unittest
import xml.etree.ElementTree as ElementTree

import numpy as np
from support import ADD, DIGITS, LONG_LOOP, environment, program

import xcvm
from xcvm import show


def boxes_of(svg):
    """Return the names in the boxes, and the numbers of plain and dashed lines."""
    root = ElementTree.fromstring(svg)
    space = {"s": "http://www.w3.org/2000/svg"}
    names = [group.find("s:text", space).text for group in root.findall("s:g", space) if group.find("s:title", space) is not None]
    lines = root.findall("s:g", space)[0].findall("s:path", space)
    return names, sum("stroke-dasharray" not in line.attrib for line in lines), sum("stroke-dasharray" in line.attrib for line in lines)


class Graphs(unittest.TestCase):
    def test_a_program(self):
        self.assertEqual(boxes_of(program(ADD)._repr_svg_()), (["In", "Add", "Out"], 2, 0))

    def test_a_loop(self):
        names, lines, jumps = boxes_of(program(LONG_LOOP)._repr_svg_())
        self.assertEqual(names, ["In", "Identity", "GreaterOrEqual", "JmpTrue", "Add", "Identity", "Jmp", "Out"])
        # Comparison, addition and Out read both writers of the counter.
        self.assertEqual((lines, jumps), (9, 2))

    def test_every_instruction_of_a_model_is_drawn(self):
        compiled = xcvm.compile(DIGITS / "model.onnx")
        expected = [
            line.split(" = ")[-1].split("(")[0]
            for line in compiled.disassemble(1).split("\n\n", 1)[1].splitlines()
            if "(" in line and not line.startswith("Free")
        ]
        self.assertEqual(boxes_of(compiled._repr_svg_())[0], expected)
        self.assertGreater(len(expected), 8)

    def test_names_are_escaped_and_large_programs_cut(self):
        text = ADD.replace('"x"', '"<a&b>"').replace("input x", 'input "<a&b>"')
        self.assertIn("&lt;a&amp;b&gt;", program(text)._repr_svg_())
        many = 'input x f32[4]\noutput y f32[4]\n$1 = In(name="x")\n'
        many += "".join(f"${i + 1} = Neg(${i})\nFree(${i})\n" for i in range(1, 500)) + 'Out($500, name="y")\n'
        svg = program(many)._repr_svg_()
        self.assertEqual(len(boxes_of(svg)[0]), show.MOST_BOXES)
        self.assertIn("101 more instructions are not drawn", svg)


class Tables(unittest.TestCase):
    def test_profiles(self):
        profile = xcvm.compile(DIGITS / "model.onnx").profile(np.zeros((1, 1, 8, 8), np.float32), runs=2)
        html = profile._repr_html_()
        ElementTree.fromstring(f"<all>{html}</all>")
        last = [event for event in profile.events if event.run == 1]
        self.assertEqual(html.count("<title>"), len(last))
        self.assertEqual(html.count("<tr>"), 1 + len(profile.table()))
        self.assertIn("Softmax", html)
        self.assertIn("2 runs", html)

    def test_tensors(self):
        cases = [
            (xcvm.Tensor(2.5), ["2.5", "shape ()"]),
            (xcvm.Tensor(np.arange(3)), ["<td style=\"text-align:right\">2</td>", "i64, shape (3,)"]),
            (xcvm.Tensor(["<a", "b"], dtype="str"), ["&lt;a"]),
            (xcvm.Tensor(np.zeros((0, 4))), ["shape (0, 4)"]),
            (xcvm.Tensor(np.array([1 + 2j])), ["1+2j"]),
            (xcvm.Tensor(np.array([True, False])), ["True", "False"]),
        ]
        for tensor, parts in cases:
            html = tensor._repr_html_()
            ElementTree.fromstring(f"<all>{html}</all>")
            for part in parts:
                self.assertIn(part, html)
        html = xcvm.Tensor(np.arange(3000.0).reshape(3, 20, 50))._repr_html_()
        self.assertEqual((html.count("<tr>"), html.count("…"), html.count("<td")), (13, 12, 12 * 13 + 1))
        self.assertIn("[0, :, :]", html)
        self.assertNotIn("1000", html)
        bits = np.array([0x3F80, 0xC000], np.uint16)
        from support import unary

        self.assertIn(">-2<", unary("bf16", "2")(bits)._repr_html_())

    def test_texts_are_short(self):
        compiled = xcvm.compile(DIGITS / "model.onnx")
        for thing in (compiled, compiled.session(), xcvm.Tensor(np.zeros((99, 99))), compiled.profile(np.zeros((1, 1, 8, 8), "f4"))):
            self.assertLess(len(repr(thing)), 160)


class Shell:
    kernel = object()


class Progress(unittest.TestCase):
    def bar(self):
        bar = show.Progress("work")
        bar._begun -= 1
        return bar

    def test_nothing_without_a_terminal(self):
        self.assertFalse(show.Progress("work").visible)

    def test_notebooks(self):
        shown = []

        class Handle:
            def update(self, html):
                shown.append(html)

        def display(html, display_id):
            shown.append(html)
            return Handle()

        modules = {"IPython": types.ModuleType("IPython"), "IPython.display": types.ModuleType("IPython.display")}
        modules["IPython"].get_ipython = Shell
        modules["IPython.display"].display, modules["IPython.display"].HTML = display, str
        sys.modules.update(modules)
        try:
            with self.bar() as bar:
                bar(0.25, "<first>")
                bar._shown_at = 0
                bar(0.5, "second")
        finally:
            for name in modules:
                del sys.modules[name]
        self.assertEqual(len(shown), 3)
        self.assertIn('value="0.250"></progress> 25% &lt;first&gt;', shown[0])
        self.assertEqual(shown[2], "")

    def test_terminals(self):
        code = (
            "from xcvm.show import Progress\n"
            "with Progress('work') as bar:\n"
            "    bar._begun += 9; bar(0.1, 'early')\n    bar._begun -= 10; bar(0.5, 'half')\n"
            "    bar._shown_at += 9; bar(0.6, 'at once')\n    bar._shown_at = 0; bar(1, 'whole')"
        )
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "p.py")
            path.write_text(code)
            pieces = []

            def read(descriptor):
                data = os.read(descriptor, 4096)
                pieces.append(data)
                return data

            before = dict(os.environ)
            os.environ.update(environment())
            standard = os.dup(1)
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            try:
                status = pty.spawn([sys.executable, str(path)], read)
            finally:
                os.dup2(standard, 1)
                os.environ.clear()
                os.environ.update(before)
        self.assertEqual(status, 0)
        text = b"".join(pieces).decode()
        self.assertIn("work [############............]  50% half", text)
        self.assertIn("work [########################] 100% whole", text)
        self.assertNotIn("early", text)
        self.assertNotIn("at once", text)
        self.assertTrue(text.endswith("\r"))


if __name__ == "__main__":
    unittest.main()

"""Library functions that the front end has written in terms of others, compared with the libraries."""

import linecache
import re
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

import numpy as np
from test_source import Case

import xcvm
from xcvm.source import tables

sys.path.insert(0, str(Path(__file__).parent / "source"))
import cases_written as cases  # noqa: E402

try:
    import torch
except ImportError:
    torch = None
TOGETHER = 12  # expressions of one program
# Functions whose result is drawn, or that torch calls from functions of its own by other names.
NO_VALUE = {"gumbel_softmax", "_threshold", "_return_output", "im2col", "col2im", "affine_grid_generator"}


class Written(Case):
    def functions_of(self, texts, operands, directory):
        """Return a function for each expression, and one of all of them."""
        path = Path(directory, f"written_{abs(hash(tuple(texts)))}.py")
        names = ", ".join(operands)
        lines = ["import numpy as np"] + (["import torch", "import torch.nn.functional as F"] if torch else [])
        lines += [f"def f{k}({names}):\n    return {text}" for k, text in enumerate(texts)]
        lines.append(f"def together({names}):\n    return " + ", ".join(f"f{k}({names})" for k in range(len(texts))) + ",")
        path.write_text("\n".join(lines) + "\n")
        space = {}
        exec(compile(path.read_text(), str(path), "exec"), space)
        linecache.checkcache(str(path))
        return [space[f"f{k}"] for k in range(len(texts))], space["together"]

    def compare(self, texts, operands, **options):
        arguments = tuple(operands.values())
        with tempfile.TemporaryDirectory() as directory, np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for first in range(0, len(texts), TOGETHER):
                part = texts[first : first + TOGETHER]
                each, together = self.functions_of(part, operands, directory)
                try:
                    results = xcvm.compile(together, *arguments, optimize=0, **options)(*arguments)
                except Exception as error:
                    for text, function in zip(part, each):
                        with self.subTest(text):
                            self.same(xcvm.compile(function, *arguments, optimize=0, **options)(*arguments), function(*arguments), text)
                    with self.subTest(part):
                        raise error
                    continue
                for text, got, function in zip(part, results, each):
                    with self.subTest(text):
                        self.same(got, function(*arguments), text)

    def test_numpy(self):
        self.compare(cases.expressions(cases.NUMPY), cases.NUMPY_OPERANDS)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_torch(self):
        self.compare(cases.expressions(cases.TORCH), {name: torch.tensor(value) for name, value in cases.TORCH_OPERANDS.items()})

    def test_every_written_function_has_a_case(self):
        shown = set(re.findall(r"\.(\w+)", cases.NUMPY + cases.TORCH))
        missing = {name.rsplit(".", 1)[1] for name in tables.WRITTEN if "._" not in name} - shown - NO_VALUE
        self.assertEqual(missing, set())

    def test_problems_are_those_of_the_call(self):
        def unknown(x):
            return np.diff(x, order=2)

        def inside(x):
            return np.insert(x, [0, 1], 2.0)

        with self.assertRaisesRegex(xcvm.SourceErrors, r"the argument 'order' of 'numpy.diff' is not supported"):
            xcvm.compile(unknown, np.ones(3))
        with self.assertRaises(xcvm.SourceErrors) as raised:
            xcvm.compile(inside, np.ones(3))
        self.assertIn("NotImplementedError: numpy.insert at several positions", str(raised.exception))
        self.assertIn("np.insert(x, [0, 1], 2.0)", str(raised.exception))
        self.assertNotIn("numpy_written", str(raised.exception))


if __name__ == "__main__":
    unittest.main()

"""ONNX's backend test suite, of the installed onnx, through xcvm.backend.

tests/conformance.txt lists the cases that pass with a looser tolerance only, or not at all.
"""

import os
import pathlib
import subprocess
import unittest

import numpy as np
import onnx
import onnx.backend.test
import onnx.backend.test.runner
from onnx import TensorProto, helper
from support import ROOT

import xcvm
import xcvm.backend
from xcvm import _compiler


class Interface(unittest.TestCase):
    def test_nodes_and_models(self):
        node = helper.make_node("Add", ["a", "b"], ["c"])
        a = np.array([1, 2], np.float32)
        self.assertEqual(xcvm.backend.run_node(node, [a, a])[0].tolist(), [2, 4])
        self.assertEqual(xcvm.backend.run_node(node, [a, a], outputs_info=[(np.float32, (2,))]).c.tolist(), [2, 4])
        info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "abc"]
        model = helper.make_model(helper.make_graph([node], "g", info[:2], info[2:]))
        self.assertEqual(xcvm.backend.run_model(model, [a, a])[0].tolist(), [2, 4])
        self.assertEqual(xcvm.backend.prepare(model).run({"a": a, "b": a})[0].tolist(), [2, 4])
        self.assertTrue(xcvm.backend.is_compatible(model))
        self.assertTrue(xcvm.backend.supports_device("CPU"))
        self.assertFalse(xcvm.backend.supports_device("CUDA:1"))
        with self.assertRaises(ValueError):
            xcvm.backend.prepare(model, "CUDA")
        with self.assertRaises(xcvm.Error):
            xcvm.backend.run_node(helper.make_node("NoSuchOperator", ["a"], ["c"]), [a])


def exceptions():
    """The names of conformance.txt: with a tolerance, and those that fail."""
    loose, failing = {}, []
    for line in (ROOT / "tests/conformance.txt").read_text().splitlines():
        words = line.partition(":")[0].split()
        if line.startswith("#") or not words:
            continue
        if len(words) == 3:
            loose[words[0]] = (float(words[1]), float(words[2]))
        else:
            failing.append(words[0])
    return loose, failing


LOOSE, FAILING = exceptions()
BUILD = pathlib.Path(os.environ.get("XCVM_BUILD", ROOT / "build/release"))


def case_directory():
    """The directory of ONNX's cases, which Debian's package does not ship; scripts/conformance.sh uses the same."""
    cases = BUILD / "onnx-cases"
    if not (cases / "complete").exists():
        subprocess.run(["/usr/bin/python3", ROOT / "tests/make_onnx_cases.py", cases], check=True, capture_output=True)
        (cases / "complete").touch()
    return cases


KINDS = {"tensor": 1, "sequence": 2, "optional": 3, "map": 4}


def version_cases():
    """The directories of cases of opsets 18 to 26, which scripts/versions.sh uses too."""
    cases = BUILD / "version-cases"
    if not (cases / "complete").exists():
        command = ["/usr/bin/python3", "-W", "ignore", ROOT / "tests/make_version_cases.py", cases]
        subprocess.run(command, check=True, capture_output=True)
        (cases / "complete").touch()
    return sorted(path.parent for path in cases.glob("*/model.onnx"))


def load_value(path, parameter):
    """Read a serialized value as a parameter's type; the installed onnx does not know all element types."""
    shape = parameter.shape if parameter.kind == "tensor" else None
    wanted = (KINDS[parameter.kind], parameter.dtype, shape) if parameter.kind in KINDS else None
    return _compiler.load_value(path.read_bytes(), wanted)


def comparable(value):
    """Return numbers, strings or lists of them: NumPy lacks some types, whose results are bits."""
    if isinstance(value, xcvm.Tensor):
        numbers = value.tolist()
        return np.array(numbers, object if value.dtype == "str" else None).reshape(value.shape)
    return [comparable(item) for item in value] if isinstance(value, list) else value


class NewestOperators(unittest.TestCase):
    def check(self, folder):
        program = xcvm.backend.prepare((folder / "model.onnx").read_bytes()).program
        data = folder / "test_data_set_0"
        feeds = {p.name: load_value(data / f"input_{i}.pb", p) for i, p in enumerate(program.inputs)}
        results = program._run(feeds)
        for i, (parameter, result) in enumerate(zip(program.outputs, results)):
            expected = load_value(data / f"output_{i}.pb", parameter)
            if isinstance(expected, xcvm.Tensor):
                self.assertEqual((result.dtype, result.shape), (expected.dtype, expected.shape))
            self.compare(comparable(result), comparable(expected))

    def compare(self, result, expected):
        if isinstance(expected, list):
            self.assertEqual(len(result), len(expected))
            for a, b in zip(result, expected):
                self.compare(a, b)
        elif isinstance(expected, np.ndarray) and expected.dtype != object:
            np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-7)
        else:
            np.testing.assert_equal(result, expected)

    def test_cases_of_opsets_18_to_26(self):
        folders = version_cases()
        self.assertGreater(len(folders), 2000)
        for folder in folders:
            with self.subTest(folder.name):
                self.check(folder)


def load_cases(data_dir=None, kind=None):
    return load_installed(str(case_directory()), kind) if (case_directory() / kind).is_dir() else []


load_installed = onnx.backend.test.runner.load_model_tests
onnx.backend.test.runner.load_model_tests = load_cases


class Runner(onnx.backend.test.BackendTest):
    """Compares with the tolerances of the list, and random results by their shape."""

    @classmethod
    def assert_similar_outputs(cls, reference, outputs, rtol, atol):
        np.testing.assert_equal(len(outputs), len(reference))
        for wanted, given in zip(reference, outputs):
            if isinstance(wanted, list):
                cls.assert_similar_outputs(wanted, given, rtol, atol)
            elif wanted is not None and wanted.dtype.kind in "OU":
                np.testing.assert_array_equal(np.asarray(wanted, object), np.asarray(given, object))
            else:
                np.testing.assert_equal(given.dtype, wanted.dtype)
                np.testing.assert_allclose(given, wanted, rtol=max(rtol, LOOSE_NOW[0]), atol=max(atol, LOOSE_NOW[1]))


LOOSE_NOW = [0.0, 0.0]

suite = Runner(xcvm.backend, __name__)
# Models of the zoo need a download. Random operators have no expected values.
suite.exclude("_cuda|test_(resnet50|bvlc_alexnet|densenet121|inception_v|shufflenet|squeezenet|vgg19|zfnet512)")
suite.exclude("test_bernoulli|test_training_dropout")
for _name in FAILING:
    suite.exclude(f"^{_name}_cpu$")
cases = suite.test_cases
for _case in cases.values():
    # ONNX's runner skips what is excluded. A test that can never run is none.
    for _name in [name for name in dir(_case) if getattr(getattr(_case, name), "__unittest_skip__", False)]:
        delattr(_case, _name)
globals().update(cases)


def _loosen(case, name, tolerance):
    original = getattr(case, name)

    def run(self):
        LOOSE_NOW[:] = tolerance
        try:
            original(self)
        finally:
            LOOSE_NOW[:] = [0.0, 0.0]

    setattr(case, name, run)


for _case in cases.values():
    for _name, _tolerance in LOOSE.items():
        if hasattr(_case, f"{_name}_cpu"):
            _loosen(_case, f"{_name}_cpu", _tolerance)


if __name__ == "__main__":
    unittest.main()

"""Programs written for onnxruntime (drivers/) give ONNX Runtime's results; and what the drop-in says of models and errors is what
ONNX Runtime says, by its C library (peer.py)."""

import contextlib
import importlib
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import warnings

import numpy as np
import peer
from drivers import DRIVERS, models
from onnx import TensorProto, helper
from support import ROOT, environment
from test_onnxruntime import MODEL, model_of, tensor

import xcvm.onnxruntime as ort

HAS_PEER = peer.find_library() is not None
_packages = ROOT / "bench/out/packages"


@contextlib.contextmanager
def imported(module):
    """Let `import onnxruntime` give a module."""
    before = sys.modules.get("onnxruntime")
    sys.modules["onnxruntime"] = module
    try:
        yield
    finally:
        if before is None:
            del sys.modules["onnxruntime"]
        else:
            sys.modules["onnxruntime"] = before


def peer_module():
    """ONNX Runtime's sessions, with the options of this package, which they ignore."""
    module = types.ModuleType("onnxruntime")
    module.__dict__.update({name: value for name, value in vars(ort).items() if not name.startswith("__")})
    module.InferenceSession = peer.InferenceSession
    return module


@unittest.skipUnless(HAS_PEER, "ONNX Runtime has no library for this machine")
class Drivers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        models.collect(cls.folder.name, _packages)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_results(self):
        for name in DRIVERS:
            with self.subTest(name):
                driver = importlib.import_module(f"drivers.{name}")
                with imported(ort):
                    own = driver.run(self.folder.name)
                with imported(peer_module()):
                    expected = driver.run(self.folder.name)
                self.assertEqual(len(own), len(expected))
                self.assertGreater(len(own), 0)
                for a, b in zip(own, expected):
                    self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
                    np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)

    def test_facts_of_models(self):
        for path in sorted(pathlib.Path(self.folder.name).glob("*.onnx")):
            with self.subTest(path.name):
                compare_facts(self, str(path))

    def test_a_driver_as_a_program(self):
        code = "import sys; from drivers import pipecat; print(float(sum(x.sum() for x in pipecat.run(sys.argv[1]))))"
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "program.py")
            program.write_text(code)
            command = [sys.executable, "-m", "xcvm.onnxruntime", str(program), self.folder.name]
            done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
        with imported(peer_module()):
            expected = importlib.import_module("drivers.pipecat").run(self.folder.name)
        self.assertAlmostEqual(float(done.stdout), float(sum(x.sum() for x in expected)), delta=1e-2)


def compare_facts(test, model):
    own, other = ort.InferenceSession(model), peer.InferenceSession(model)
    for method in ("get_inputs", "get_outputs", "get_overridable_initializers"):
        mine, expected = getattr(own, method)(), getattr(other, method)()
        test.assertEqual([(item.name, item.type) for item in mine], [(item.name, item.type) for item in expected])
        for item, peers in zip(mine, expected):
            # XCVM's inference finds some names of dimensions that ONNX Runtime's does not.
            more = [size if isinstance(size, str) and known is None else known for size, known in zip(item.shape, peers.shape)]
            test.assertEqual(item.shape, more, f"{method}: {item.name}")
    own_meta, other_meta = own.get_modelmeta(), other.get_modelmeta()
    for name, value in vars(other_meta).items():
        test.assertEqual(getattr(own_meta, name), value, name)


def node(kind, inputs, outputs=("y",), **attributes):
    return helper.make_node(kind, inputs, list(outputs), **attributes)



INT64, STRING = TensorProto.INT64, TensorProto.STRING
RELU = node("Relu", ["x"])

# Models whose inputs and outputs are compared.
FACTS = {
    "open dimensions": model_of([RELU], [tensor("x", ["n", 3, None])], [tensor("y", None)]),
    "negative, zero and empty dimensions": model_of([RELU], [tensor("x", [-1, 0, 3, ""])], [tensor("y", None)]),
    "a scalar": model_of([RELU], [tensor("x", [])], [tensor("y", [])]),
    "no shape": model_of([RELU], [tensor("x", None)], [tensor("y", None)]),
    "names replaced by sizes": model_of([node("Transpose", ["x"])], [tensor("x", ["n", 3, None])], [tensor("y", ["a", "b", "c"])]),
    "inferred shapes": model_of([node("NonZero", ["x"])], [tensor("x", ["n", 3])], [tensor("y", None, INT64)]),
    "an inferred concatenation": model_of([node("Concat", ["x", "x"], axis=0)], [tensor("x", ["n", 3])], [tensor("y", None)]),
    "a computed shape": model_of(
        [node("Reshape", ["x", "r"])], [tensor("x", ["n", 3])], [tensor("y", None)], [helper.make_tensor("r", INT64, [2], [3, -1])]
    ),
    "an overridable initializer": model_of(
        [node("Add", ["x", "w"])], [tensor("x", [2]), tensor("w", [2])], [tensor("y", [2])], [helper.make_tensor("w", 1, [2], [1, 2])]
    ),
    "strings": model_of([node("Identity", ["x"])], [tensor("x", ["n"], STRING)], [tensor("y", ["n"], STRING)]),
    "a sequence": model_of(
        [node("SequenceConstruct", ["x", "x"])], [tensor("x", [2])], [helper.make_tensor_sequence_value_info("y", 1, None)]
    ),
    "an unused input": model_of([RELU], [tensor("x", [2]), tensor("unused", [2, "k"])], [tensor("y", [2])]),
    "metadata": model_of([RELU], [tensor("x", [2])], [tensor("y", [2])], producer_name="p", model_version=3, domain="d", doc_string="text"),
}  # fmt: skip
FACTS.update(
    {
        f"type {kind}": model_of([node("Identity", ["x"])], [tensor("x", ["n", 2], number)], [tensor("y", None, number)])
        for number, (kind, _) in peer.ELEMENT_TYPES.items()
    }
)

# Models that cannot be loaded. ONNX Runtime raises the exception of the same class.
UNLOADABLE = {
    "a file that is not there": "/nowhere/model.onnx",
    "bytes that are no model": b"\xff\xff\xff no model",
    "no bytes": b"",
    "an unknown operator": model_of([node("NoSuchOperator", ["x"])], [tensor("x", [2])], [tensor("y", [2])]),
    "an unknown domain": model_of([node("Foo", ["x"], domain="a.b")], [tensor("x", [2])], [tensor("y", [2])]),
    "a cycle": model_of([node("Add", ["x", "z"]), node("Relu", ["y"], ["z"])], [tensor("x", [2])], [tensor("y", [2])]),
    "types that differ": model_of([node("Add", ["x", "w"])], [tensor("x", [2]), tensor("w", [2], INT64)], [tensor("y", [2])]),
    "a wrong attribute": model_of([node("Transpose", ["x"], perm=[0, 5])], [tensor("x", [2, 2])], [tensor("y", [2, 2])]),
    "an opset of the future": model_of([RELU], [tensor("x", [2])], [tensor("y", [2])], opset=99),
}

TWO = model_of([node("Add", ["x", "w"])], [tensor("x", ["n", 2]), tensor("w", ["m", 2])], [tensor("y", None)])
GATHER = model_of([node("Gather", ["x", "i"])], [tensor("x", ["n"]), tensor("i", ["m"], INT64)], [tensor("y", None)])
IMAGE = np.zeros((3, 1, 8, 8), np.float32)
# Runs that fail: model, inputs, names of outputs. The last column is whether the text is ONNX Runtime's too.
FAILING_RUNS = {
    "an input that there is not": (MODEL, {"image": IMAGE, "z": IMAGE}, None, True),
    "another type": (MODEL, {"image": IMAGE.astype("f8")}, None, True),
    "an integer type": (MODEL, {"image": IMAGE.astype("i4")}, None, True),
    "another rank": (MODEL, {"image": IMAGE[0]}, None, True),
    "one wrong size": (MODEL, {"image": IMAGE[:, :, :4]}, None, True),
    "two wrong sizes": (MODEL, {"image": IMAGE[:, :, :4, :5]}, None, True),
    "an output that there is not": (MODEL, {"image": IMAGE}, ["none"], True),
    "an index out of range": (GATHER, {"x": np.zeros(2, "f4"), "i": np.array([7])}, None, False),
}


def loadable(model):
    return model if isinstance(model, (str, bytes)) else model.SerializeToString()


@unittest.skipUnless(HAS_PEER, "ONNX Runtime has no library for this machine")
class Facts(unittest.TestCase):
    def test_inputs_outputs_and_metadata(self):
        for name, model in FACTS.items():
            with self.subTest(name):
                compare_facts(self, loadable(model))
        compare_facts(self, MODEL)

    def test_overridden_dimensions(self):
        options = ort.SessionOptions()
        options.add_free_dimension_override_by_name("n", 4)
        model = loadable(TWO)
        own, other = ort.InferenceSession(model, options), peer.InferenceSession(model, dims={"n": 4})
        for method in ("get_inputs", "get_outputs"):
            self.assertEqual(*[[(item.name, item.shape) for item in getattr(session, method)()] for session in (own, other)])

    def test_exceptions_of_loading(self):
        for name, model in UNLOADABLE.items():
            with self.subTest(name):
                with self.assertRaises(peer.PeerError) as expected:
                    peer.InferenceSession(loadable(model))
                with self.assertRaises(Exception) as own, warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    ort.InferenceSession(loadable(model))
                self.assertEqual(own.exception.code, expected.exception.code, f"{own.exception}\n{expected.exception}")
                start = f"[ONNXRuntimeError] : {own.exception.code} : {own.exception.status} : "
                self.assertTrue(str(own.exception).startswith(start), str(own.exception))

    def test_exceptions_of_runs(self):
        for name, (model, feed, names, same_text) in FAILING_RUNS.items():
            with self.subTest(name):
                with self.assertRaises(peer.PeerError) as expected:
                    peer.InferenceSession(loadable(model)).run(names, feed)
                with self.assertRaises(Exception) as own:
                    ort.InferenceSession(loadable(model)).run(names, feed)
                self.assertEqual(own.exception.code, expected.exception.code, f"{own.exception}\n{expected.exception}")
                text = str(own.exception).split(" : ", 3)[3]
                start = str(expected.exception) if same_text else "Non-zero status code returned while running Gather node."
                self.assertTrue(text.startswith(start), text)

    def test_values(self):
        rng = np.random.default_rng(0)
        for model, feed, names in [
            (MODEL, {"image": rng.random((3, 1, 8, 8), np.float32)}, []),
            (loadable(TWO), {"x": rng.random((1, 2), np.float32), "w": rng.random((4, 2), np.float32)}, None),
            (loadable(TWO), {"x": np.zeros((0, 2), np.float32), "w": rng.random((1, 2), np.float32)}, None),
            (loadable(FACTS["a sequence"]), {"x": np.ones(2, np.float32)}, ["y", "y"]),
        ]:
            own, other = ort.InferenceSession(model).run(names, feed), peer.InferenceSession(model).run(names, feed)
            self.assertEqual(len(own), len(other))
            for a, b in zip(own, other):
                self.assertIs(type(a), type(b))
                for x, y in zip(a, b) if isinstance(a, list) else [(a, b)]:
                    self.assertEqual((x.dtype, x.shape), (y.dtype, y.shape))
                    np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6)


if __name__ == "__main__":
    unittest.main()

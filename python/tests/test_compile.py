"""Compiling, checking and exporting from Python, and the options of the command under the same names."""

import inspect
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
import warnings

import numpy as np
from onnx import TensorProto, helper
from support import DIGITS, ROOT, python

import xcvm

MODEL = DIGITS / "model.onnx"
COMMAND = pathlib.Path(os.environ.get("XCVM_BUILD", ROOT / "build/release")) / "tools/xcvm"


def command_options(command):
    """The names of a command's options, from its help."""
    text = subprocess.run([COMMAND, command, "--help"], check=True, capture_output=True, text=True).stdout
    return {name.replace("-", "_") for name in re.findall(r"^  (?:-\w, |    )--([a-z0-9-]+)", text, re.M)} - {"help"}


class Options(unittest.TestCase):
    """Every option of the command is an option of the function, and the other way round."""

    def check(self, command, function, own):
        options = command_options(command)
        self.assertGreater(len(options), 10)
        names = {name for name, item in inspect.signature(function).parameters.items() if item.kind == item.KEYWORD_ONLY}
        self.assertEqual(options - names, set(), "options of the command that the function lacks")
        self.assertEqual(names - options, own, "options of the function alone")

    def test_compile(self):
        self.check("compile", xcvm.compile, {"progress", "dump", "dims", "keywords", "unroll", "fresh", "keep"})

    def test_check(self):
        self.check("check", xcvm.check, set())

    def test_quantize(self):
        self.check("quantize", xcvm.quantize, {"progress", "trainable"})

    def test_train(self):
        self.check("train", xcvm.train, {"progress", "epoch"})

    def test_every_option_of_the_compiler_is_used(self):
        from xcvm import _options
        from xcvm.compiling import lists

        reached = set(_options.compiler_options(dict.fromkeys(["tune"], True)))
        samples = {
            "schedule": "naive", "optimize": 1, "layout": "plain", "activations": "int8", "dim": "a=1", "keep_input": "x",
            "wrt": "w", "state": "a:b", "state_pairs": "auto", "vjp": "f=g", "group": "a:lr=1", "ignore_label": 3,
            "memory_budget": "1M", "max_memory": "1M", "timeout_ms": 5,
        }  # fmt: skip
        for name in inspect.signature(xcvm.compile).parameters:
            reached.update(_options.compiler_options({name: samples.get(name, True)} if name != "weights" else {name: "f16"}))
        reached.update(_options.compiler_options({"weights": "q4"}))
        # These follow from emit, two_phase, kernel_library and weights_file; a cache is the command's.
        reached |= {"onnx", "onnx_data_location", "phase", "kernel_library", "cache_dir"}
        self.assertEqual(set(lists()["options"]) - reached, set())


class Compile(unittest.TestCase):
    def setUp(self):
        self.data = MODEL.read_bytes()
        self.x = np.random.default_rng(0).random((3, 1, 8, 8), np.float32)
        self.expected = np.asarray(xcvm.compile(MODEL)(self.x))

    def test_forms_of_a_model(self):
        class Proto:
            def SerializeToString(proto):  # noqa: N802, N805
                return self.data

        for model in (str(MODEL), self.data, bytearray(self.data), Proto(), DIGITS):
            with self.subTest(type(model)):
                if model is DIGITS:
                    with tempfile.TemporaryDirectory() as folder:
                        pathlib.Path(folder, "net.onnx").write_bytes(self.data)
                        program = xcvm.compile(folder)
                else:
                    program = xcvm.compile(model)
                np.testing.assert_array_equal(np.asarray(program(self.x)), self.expected)
        self.assertGreater(program.report.nodes_before, program.report.nodes_after)

    def test_output_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "digits.bin")
            program = xcvm.compile(MODEL, output=path, dim={"batch": 3}, strip=True, optimize=0, schedule="naive")
            self.assertEqual(program.inputs[0].shape, (3, 1, 8, 8))
            np.testing.assert_allclose(np.asarray(xcvm.load(path)(self.x)), self.expected, rtol=1e-5, atol=1e-6)
            with self.assertRaises(xcvm.InvalidModel):
                xcvm.compile(b"no model", output=path)
            self.assertEqual(sorted(os.listdir(folder)), ["digits.bin"])

    def test_weights(self):
        sizes = {}
        for weights in ("f32", "f24", "f16", "bf16", "q8", "q4", "q4a"):
            program = xcvm.compile(MODEL, weights=weights)
            sizes[weights] = len(program.source)
            tolerance = 1e-6 if weights == "f32" else 0.4
            np.testing.assert_allclose(np.asarray(program(self.x)), self.expected, atol=tolerance)
        self.assertLess(sizes["f16"], sizes["f32"])

    def test_progress_and_interrupts(self):
        seen = []
        xcvm.compile(MODEL, progress=lambda name, fraction: seen.append((name, fraction)))
        self.assertGreater(len(seen), 5)
        self.assertTrue(all(0 <= fraction <= 1 for _, fraction in seen))

        def stop(name, fraction):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            xcvm.compile(MODEL, progress=stop)

    def test_dump(self):
        lines = []
        xcvm.compile(MODEL, dump_after="all", dump=lines.append)
        self.assertIn("Conv", "".join(lines))

    def test_gradients_and_training(self):
        program = xcvm.compile(DIGITS / "untrained.onnx", train="sgd:lr=0.1", loss="softmax_cross_entropy", dim="batch=4")
        self.assertTrue(program.states)
        self.assertIn("sgd", program.metadata("train"))
        groups = xcvm.compile(
            DIGITS / "untrained.onnx", train="sgd:lr=0.1", loss="softmax_cross_entropy", group={"*": {"lr": 0.5, "weight_decay": 0}}
        )
        self.assertTrue(groups.states)
        forward, backward = xcvm.compile(MODEL, backprop=True, two_phase=True)
        self.assertTrue(any(p.name.startswith("retained_") for p in forward.outputs))
        self.assertTrue(any(p.name.startswith("grad_out@") for p in backward.outputs))

    def test_wrong_options(self):
        with self.assertRaisesRegex(TypeError, "no_such_option"):
            xcvm.compile(MODEL, no_such_option="f16")
        for wrong in ({"layout": "round"}, {"schedule": "none"}, {"caches": "f99"}, {"max_memory": "1T"}, {"emit": "x"}):
            with self.subTest(wrong), self.assertRaises(ValueError):
                xcvm.compile(MODEL, **wrong)
        with self.assertRaisesRegex(ValueError, "group"):
            xcvm.compile(MODEL, group={"*": {"rate": 1}})
        with self.assertRaises(xcvm.OutOfTime):
            xcvm.compile(MODEL, timeout_ms=0.001)
        with self.assertRaises(xcvm.OutOfMemory):
            xcvm.compile(MODEL, max_memory=1000)

    def test_emit(self):
        files = xcvm.compile(MODEL, emit="c", dim={"batch": 1}, with_main=True)
        self.assertIn("int main", files.source)
        self.assertIn("#ifndef", files.header)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "digits.c")
            xcvm.compile(MODEL, emit="c", dim={"batch": 1}, output=path, weights_file=pathlib.Path(folder, "w.bin"))
            self.assertEqual(sorted(os.listdir(folder)), ["digits.c", "digits.h", "w.bin"])
            subprocess.run(["cc", "-c", path, "-o", os.devnull], check=True)
        model = xcvm.compile(MODEL, emit="onnx")
        np.testing.assert_allclose(np.asarray(xcvm.compile(model)(self.x)), self.expected, rtol=1e-5, atol=1e-6)

    def test_kernel_library(self):
        with self.assertRaisesRegex(ValueError, "output"):
            xcvm.compile(MODEL, kernel_library=True)
        with tempfile.TemporaryDirectory() as folder:
            program = xcvm.compile(MODEL, kernel_library=True, dim="batch=3", output=pathlib.Path(folder, "d.bin"), target="generic")
            np.testing.assert_allclose(np.asarray(program(self.x)), self.expected, rtol=1e-4, atol=1e-6)

    def test_check(self):
        self.assertTrue(xcvm.check(MODEL))
        self.assertIn("Conv", str(xcvm.check(self.data)))
        self.assertTrue(xcvm.check(xcvm.compile(MODEL).source))
        with self.assertRaises(xcvm.InvalidModel):
            xcvm.check(b"no model")

    def test_passes(self):
        self.assertTrue(any(name == "layout" for name, *_ in xcvm.compile(MODEL, list_passes=True)))

    def test_training_form_warns(self):
        info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
        constants = [helper.make_tensor(name, TensorProto.FLOAT, [3], [1.0] * 3) for name in "sbmv"]
        node = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "rm", "rv"], training_mode=1)
        graph = helper.make_graph([node], "g", info[:1], info[1:], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)])
        with self.assertWarnsRegex(UserWarning, "training form.*inference=True"):
            program = xcvm.compile(model)
        self.assertEqual([kind for kind, _ in program.report.diagnostics], ["training_form"])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(xcvm.compile(model, inference=True).report.diagnostics, [])
            self.assertEqual(xcvm.compile(MODEL).report.diagnostics, [])

    def test_states_are_reported(self):
        info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xpy"]
        graph = helper.make_graph([helper.make_node("Add", ["x", "p"], ["y"])], "g", info[:2], info[2:])
        program = xcvm.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)]), state={"y": "p"}, cache_rows=4)
        self.assertEqual([item.name for item in program.states], ["p"])
        self.assertEqual({kind for kind, _ in program.report.diagnostics}, {"state", "state_pair"})
        self.assertIn("state p", program.report.diagnostics[0][1])

    def test_image(self):
        program = xcvm.compile(MODEL)
        for digit in range(10):
            scores = program(xcvm.image(DIGITS / f"images/{digit}.png", program.inputs[0])).tolist()[0]
            self.assertEqual(max(range(10), key=scores.__getitem__), digit)
        self.assertEqual(xcvm.image(DIGITS / "images/7.png").dtype, "u8")
        with self.assertRaises(xcvm.InvalidArgument):
            xcvm.image(b"no image")

    def test_module_and_function_names_do_not_collide(self):
        done = python("import xcvm\nxcvm.check\nprint(callable(xcvm.compile), callable(xcvm.image))")
        self.assertEqual(done.stdout, "True True\n")


if __name__ == "__main__":
    unittest.main()

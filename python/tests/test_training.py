"""Quantizing and training from Python."""

import os
import pathlib
import tempfile
import unittest

import numpy as np
from support import DIGITS

import xcvm

MODEL, UNTRAINED = DIGITS / "model.onnx", DIGITS / "untrained.onnx"


def digits():
    with np.load(DIGITS / "digits.npz") as file:
        return {name: file[name] for name in file.files}


class Quantize(unittest.TestCase):
    def setUp(self):
        data = digits()
        images = next(array for array in data.values() if array.ndim == 4)
        self.images = images[:64].astype(np.float32) / (255 if images.dtype == np.uint8 else 1)

    def check(self, result):
        self.assertGreater(result.report["quantized_nodes"], 0)
        program = result.program()
        np.testing.assert_allclose(
            np.asarray(program(self.images)), np.asarray(xcvm.compile(MODEL)(self.images)), atol=0.15
        )

    def test_dict_of_arrays(self):
        seen = []
        result = xcvm.quantize(MODEL, data={"image": self.images}, batch=8, progress=lambda *a: seen.append(a))
        self.check(result)
        self.assertTrue(seen and result.tensors and result.outputs)
        self.assertIn("dB", str(result))

    def test_batches(self):
        self.check(xcvm.quantize(MODEL, data=[[self.images[i : i + 8]] for i in range(0, 64, 8)]))
        self.check(xcvm.quantize(MODEL, data=[{"image": self.images[i : i + 8]} for i in range(0, 64, 8)], method="minmax"))

    def test_without_data_and_to_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "q.onnx")
            result = xcvm.quantize(MODEL, output=path)
            self.assertEqual(path.read_bytes(), result.model)
            xcvm.quantize(MODEL, output=pathlib.Path(folder, "q.bin"))
            self.assertEqual(xcvm.load(pathlib.Path(folder, "q.bin"))(self.images).shape, (64, 10))

    def test_failures(self):
        with self.assertRaises(xcvm.InvalidArgument):
            xcvm.quantize(MODEL, nodes="no such node")
        with self.assertRaises(ValueError):
            xcvm.quantize(MODEL, method="guess")

        def stop(what, fraction):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            xcvm.quantize(MODEL, data={"image": self.images}, progress=stop)
        with self.assertRaises(xcvm.TypeMismatch):
            xcvm.quantize(MODEL, data=[[self.images.astype(complex)]])


class Train(unittest.TestCase):
    def setUp(self):
        self.data = digits()
        self.images = next(name for name, array in self.data.items() if array.ndim == 4)
        self.labels = next(name for name, array in self.data.items() if array.ndim == 1)
        self.columns = {"input": {"image": self.images}, "label": f"label={self.labels}", "loss": "softmax_cross_entropy"}

    def test_a_file(self):
        epochs = []
        with tempfile.TemporaryDirectory() as folder:
            result = xcvm.train(
                UNTRAINED, data=DIGITS / "digits.npz", **self.columns, epochs=2, batch=64, validation=0.2, seed=1,
                epoch=epochs.append, output=f"{folder}/t.onnx", log=f"{folder}/log.csv", checkpoint=f"{folder}/saved", init="he",
            )  # fmt: skip
            self.assertEqual(sorted(os.listdir(folder)), ["log.csv", "saved", "t.onnx"])
        self.assertEqual((len(epochs), result.report["end"]), (2, "done"))
        self.assertLess(result.epochs[-1]["validation"]["loss"], result.epochs[0]["validation"]["loss"])
        self.assertEqual(len(result.history["loss"]), result.report["steps"])
        self.assertIn("accuracy", result.history)
        self.assertIn("accuracy", repr(result))
        self.assertTrue(result.program().outputs)

    def test_arrays_learn_to_97_percent(self):
        result = xcvm.train(UNTRAINED, data=self.data, **self.columns, epochs=8, batch=32, init="he", optimizer="adam:lr=3e-3", seed=3)
        self.assertGreater(result.report["training"]["metrics"]["accuracy"], 0.97)

    def test_weights_of_a_file_are_reported(self):
        trainer = xcvm.Trainer(UNTRAINED, loss="softmax_cross_entropy", init="he")
        with tempfile.TemporaryDirectory() as folder:
            np.savez(f"{folder}/w.npz", **{name: np.asarray(value) for name, value in trainer.parameters.items()})
            with self.assertWarnsRegex(UserWarning, "w.npz"):
                other = xcvm.Trainer(UNTRAINED, loss="softmax_cross_entropy", weights=f"{folder}/w.npz")
        for name, value in trainer.parameters.items():
            np.testing.assert_array_equal(np.asarray(other.parameters[name]), np.asarray(value))

    def test_stopping(self):
        result = xcvm.train(UNTRAINED, data=self.data, **self.columns, epochs=5, batch=64, progress=lambda e: e["step"] < 3)
        self.assertEqual((result.report["end"], result.report["steps"]), ("stopped", 3))

        def fail(event):
            raise LookupError("stop")

        with self.assertRaises(LookupError):
            xcvm.train(UNTRAINED, data=self.data, **self.columns, steps=5, progress=fail)

    def test_a_loop_of_ones_own(self):
        trainer = xcvm.Trainer(UNTRAINED, "sgd:lr=0.05", "softmax_cross_entropy", init="he", seed=1)
        self.assertEqual([item.name for item in trainer.inputs][0], "image")
        images = self.data[self.images][:32].astype(np.float32) / 255
        labels = self.data[self.labels][:32].astype(np.int64)
        losses = [trainer.step(images, labels)["loss"] for _ in range(20)]
        self.assertLess(losses[-1], losses[0])
        self.assertEqual(trainer.steps, 20)
        with tempfile.TemporaryDirectory() as folder:
            trainer.save(f"{folder}/c.safetensors")
            after = trainer.step(images, labels)["loss"]
            trainer.restore(f"{folder}/c.safetensors")
            self.assertEqual(trainer.step(images, labels)["loss"], after)
        name, value = next(iter(trainer.parameters.items()))
        trainer.set_parameter(name, np.zeros_like(np.asarray(value)))
        self.assertFalse(np.asarray(trainer.parameters[name]).any())
        self.assertIn("loss", trainer.evaluate(images, labels))
        self.assertTrue(xcvm.check(trainer.export()))
        with self.assertRaises(TypeError):
            trainer.step(images)
        with self.assertRaises(xcvm.Error):
            trainer.step(images, labels[:3])
        with self.assertRaisesRegex(TypeError, "no_such"):
            xcvm.Trainer(UNTRAINED, no_such=1)

    def test_wrong_options(self):
        with self.assertRaises(xcvm.InvalidArgument):
            xcvm.train(UNTRAINED, data=self.data, **self.columns, optimizer="none")
        with self.assertRaisesRegex(ValueError, "checkpoint"):
            xcvm.train(UNTRAINED, data=self.data, **self.columns, resume=True)
        with self.assertRaises(xcvm.Error):
            xcvm.train(UNTRAINED, data="/nowhere.npz", **self.columns)


if __name__ == "__main__":
    unittest.main()

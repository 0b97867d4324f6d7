#!/usr/bin/python3
"""make_tones.py: writes tones.npz and untrained.onnx, which train.sh learns from, beside itself.

Needs Debian's python3-onnx and python3-numpy. A tone has 32 frames of 8 samples, from -128 to 127, and one of four shapes:
it rises, falls, stays, or trembles. Pitch, loudness, phase and noise vary. What a tone does shows over many frames only,
so the network has to remember: an LSTM reads the frames, and its last state is classified.
"""
import os

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

HERE = os.path.dirname(os.path.abspath(__file__))
FRAMES, SAMPLES, UNITS, CLASSES, COUNT = 32, 8, 32, 4, 800


def tones(generator):
    time = np.linspace(0, 1, FRAMES * SAMPLES, endpoint=False)
    labels = generator.integers(0, CLASSES, COUNT)
    pitch, loudness = generator.uniform(12, 24, (COUNT, 1)), generator.uniform(40, 110, (COUNT, 1))
    slope = np.choose(labels, [0.5, -0.5, 0, 0])[:, None]
    cycles = pitch * (time + slope * (time ** 2 - time))
    tremble = 1 - 0.4 * (labels == 3)[:, None] * (1 + np.sin(2 * np.pi * 5 * time))
    sound = loudness * tremble * np.sin(2 * np.pi * (cycles + generator.uniform(0, 1, (COUNT, 1))))
    sound += generator.normal(0, 6, sound.shape)
    return np.clip(np.round(sound), -128, 127).astype(np.int8).reshape(COUNT, FRAMES, SAMPLES), labels.astype(np.uint8)


def model():
    weights = []

    def weight(name, *dims):
        weights.append(numpy_helper.from_array(np.zeros(dims, np.float32), name))
        return name

    nodes = [
        helper.make_node("Constant", [], ["scale"], "scale", value=numpy_helper.from_array(np.array(1 / 64, np.float32))),
        helper.make_node("Constant", [], ["first"], "first", value=numpy_helper.from_array(np.array([0], np.int64))),
        helper.make_node("Mul", ["sound", "scale"], ["scaled"], "loudness"),
        helper.make_node("Transpose", ["scaled"], ["frames"], "frames", perm=[1, 0, 2]),
        helper.make_node("LSTM", ["frames", weight("lstm.weight", 1, 4 * UNITS, SAMPLES),
                                  weight("lstm.recurrence", 1, 4 * UNITS, UNITS), weight("lstm.bias", 1, 8 * UNITS)],
                         ["", "last"], "lstm", hidden_size=UNITS),
        helper.make_node("Squeeze", ["last", "first"], ["state"], "state"),
        helper.make_node("Gemm", ["state", weight("head.weight", CLASSES, UNITS), weight("head.bias", CLASSES)], ["scores"],
                         "head", transB=1),
    ]
    graph = helper.make_graph(
        nodes, "tones", [helper.make_tensor_value_info("sound", TensorProto.FLOAT, ["batch", FRAMES, SAMPLES])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", CLASSES])], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], producer_name="make_tones.py")
    made.ir_version = 8
    checker.check_model(made)
    return made


def main():
    sounds, labels = tones(np.random.default_rng(1))
    np.savez_compressed(os.path.join(HERE, "tones.npz"), sounds=sounds, labels=labels)
    save(model(), os.path.join(HERE, "untrained.onnx"))


if __name__ == "__main__":
    main()

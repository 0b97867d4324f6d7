"""Reading of text as RapidOCR's onnxruntime engine: options from a configuration, providers that are verified, a character list
from the metadata, names from the session, images of many sizes."""

import os

import numpy as np


class Engine:
    def __init__(self, path):
        from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions, get_available_providers, get_device

        options = SessionOptions()
        options.log_severity_level = 4
        options.enable_cpu_mem_arena = False
        options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        threads = 1
        if 1 <= threads <= (os.cpu_count() or 1):
            options.intra_op_num_threads = threads
            options.inter_op_num_threads = threads
        providers = [("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"})]
        if get_device() == "GPU" and "CUDAExecutionProvider" in get_available_providers():
            providers.insert(0, ("CUDAExecutionProvider", {"device_id": 0}))
        self.session = InferenceSession(path, sess_options=options, providers=providers)
        if self.session.get_providers()[0] != providers[0][0]:
            raise RuntimeError("another provider than wanted")

    def __call__(self, content):
        names = [item.name for item in self.session.get_inputs()]
        return self.session.run([item.name for item in self.session.get_outputs()], dict(zip(names, [content])))[0]

    def characters(self, key="character"):
        return self.session.get_modelmeta().custom_metadata_map[key].splitlines()

    def has(self, key="character"):
        return key in self.session.get_modelmeta().custom_metadata_map


def lines(height, width, seed):
    """A picture with dark strokes on white, as planes from -1 to 1."""
    rng = np.random.default_rng(seed)
    picture = np.ones((height, width), np.float32)
    for _ in range(width // 8):
        x, y = rng.integers(0, width - 6), rng.integers(0, height - 12)
        picture[y : y + rng.integers(2, 12), x : x + rng.integers(1, 6)] = 0
    return ((np.stack([picture] * 3)[np.newaxis] - 0.5) / 0.5).astype(np.float32)


def run(folder):
    detector = Engine(f"{folder}/ch_PP-OCRv4_det_infer.onnx")
    classifier = Engine(f"{folder}/ch_ppocr_mobile_v2.0_cls_infer.onnx")
    recognizer = Engine(f"{folder}/ch_PP-OCRv4_rec_infer.onnx")
    results = [detector(lines(96, 160, 0)), detector(lines(64, 128, 1))]
    results.append(classifier(np.concatenate([lines(48, 192, seed) for seed in range(3)])))
    results += [recognizer(lines(48, 160, 2)), recognizer(np.concatenate([lines(48, 96, seed) for seed in (3, 4)]))]
    known = recognizer.characters() if recognizer.has() else []
    return [*results, np.array([len(known), ord(known[1]) if known else 0])]

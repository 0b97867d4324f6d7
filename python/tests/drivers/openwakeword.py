"""openWakeWord: its vad.py, and the classifier of a wake word on windows of features whose shape the session tells."""

import numpy as np

from .signals import speech_like


def run(folder):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.inter_op_num_threads = 1
    options.intra_op_num_threads = 1
    model = ort.InferenceSession(f"{folder}/silero_vad_legacy.onnx", sess_options=options, providers=["CPUExecutionProvider"])
    h, c = np.zeros((2, 1, 64)).astype("float32"), np.zeros((2, 1, 64)).astype("float32")
    rate = np.array(16000).astype(np.int64)
    samples = (speech_like(1.0, seed=1) * 32767).astype(np.int16)
    scores = []
    for i in range(0, len(samples) - 480 + 1, 480):
        chunk = (samples[i : i + 480] / 32767).astype(np.float32)
        out, h, c = model.run(None, {"input": chunk[None,], "h": h, "c": c, "sr": rate})
        scores.append(out[0][0])
    word = ort.InferenceSession(f"{folder}/hello_deepa.onnx", sess_options=options, providers=["CPUExecutionProvider"])
    _, frames, width = word.get_inputs()[0].shape
    features = np.random.default_rng(2).normal(size=(40, width)).astype(np.float32)
    name = word.get_inputs()[0].name
    found = [word.run(None, {name: features[None, i : i + frames]})[0][0][0] for i in range(40 - frames)]
    return [np.array(scores), h, c, np.array(found)]

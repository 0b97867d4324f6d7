"""Voice activity as livekit-agents' silero plugin: entries of the configuration, one context before each window, a state in and out."""

import numpy as np

from .signals import speech_like


class Model:
    def __init__(self, session, rate):
        self.session = session
        self.window, self.context_size = (512, 64) if rate == 16000 else (256, 32)
        self.rate = np.array(rate, dtype=np.int64)
        self.context = np.zeros((1, self.context_size), dtype=np.float32)
        self.state = np.zeros((2, 1, 128), dtype=np.float32)
        self.buffer = np.zeros((1, self.context_size + self.window), dtype=np.float32)

    def __call__(self, x):
        self.buffer[:, : self.context_size] = self.context
        self.buffer[:, self.context_size :] = x
        out, self.state = self.session.run(None, {"input": self.buffer, "state": self.state, "sr": self.rate})
        self.context = self.buffer[:, -self.context_size :]
        return out.item()


def run(folder):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.inter_op_num_threads = 1
    options.intra_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    if "CPUExecutionProvider" in onnxruntime.get_available_providers():
        session = onnxruntime.InferenceSession(f"{folder}/silero_vad_v5.onnx", providers=["CPUExecutionProvider"], sess_options=options)
    else:
        session = onnxruntime.InferenceSession(f"{folder}/silero_vad_v5.onnx", sess_options=options)
    results = []
    for rate in (16000, 8000):
        model = Model(session, rate)
        audio = speech_like(1.0, rate)
        results.append(np.array([model(audio[i : i + model.window]) for i in range(0, len(audio) - model.window, model.window)]))
        results.append(model.state)
    return results

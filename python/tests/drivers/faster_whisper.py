"""Voice activity as faster-whisper's vad.py: options of one thread, state tensors that the caller carries, one window a call."""

import numpy as np

from .signals import speech_like


def run(folder):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = 1
    options.intra_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(f"{folder}/silero_vad_legacy.onnx", providers=["CPUExecutionProvider"], sess_options=options)
    h, c = np.zeros((2, 1, 64), np.float32), np.zeros((2, 1, 64), np.float32)
    audio = speech_like(2.0)
    probabilities = []
    for start in range(0, len(audio) - 1536 + 1, 1536):
        window = audio[start : start + 1536][np.newaxis]
        if window.shape[-1] < 1536:
            window = np.pad(window, ((0, 0), (0, 1536 - window.shape[-1])))
        output, h, c = session.run(None, {"input": window, "sr": np.array(16000, dtype="int64"), "h": h, "c": c})
        probabilities.append(output[0, 0])
    # A batch of windows in one call, as its later versions do.
    windows = audio[: 8 * 1536].reshape(8, 1536)
    zeros = np.zeros((2, 8, 64), np.float32)
    batch = session.run(None, {"input": windows, "sr": np.array(16000, dtype="int64"), "h": zeros, "c": zeros})
    return [np.array(probabilities), h, c, *batch]

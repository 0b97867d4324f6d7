"""Voice activity as pipecat's audio/vad/silero.py: checks of the sample rate, context by concatenation, states that are reset."""

import numpy as np

from .signals import speech_like


def run(folder):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = 1
    options.intra_op_num_threads = 1
    providers = ["CPUExecutionProvider"] if "CPUExecutionProvider" in onnxruntime.get_available_providers() else None
    session = onnxruntime.InferenceSession(f"{folder}/silero_vad_v6.onnx", providers=providers, sess_options=options)
    results = []
    for rate, batch in ((16000, 1), (8000, 2)):
        count, size = (512, 64) if rate == 16000 else (256, 32)
        context, state = np.zeros((batch, size), dtype="float32"), np.zeros((2, batch, 128), dtype="float32")
        audio = np.stack([speech_like(0.6, rate, seed) for seed in range(batch)])
        for i in range(0, audio.shape[1] - count, count):
            x = np.concatenate((context, audio[:, i : i + count]), axis=1)
            outputs = session.run(None, {"input": x, "state": state, "sr": np.array(rate, dtype="int64")})
            out, state = outputs
            context = x[..., -size:]
            results.append(out)
        results.append(state)
    return results

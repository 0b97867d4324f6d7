#!/usr/bin/python3
"""tfjs.py XCVM MODULES FOLDER MODEL...: compares models that scripts/tfjs_to_onnx.py converts, as XCVM computes them, with
TensorFlow.js on random input. FOLDER is for files in between. Each output has to agree to 1e-4 of its range."""
import json
import os
import subprocess
import sys

import numpy as np
import onnx

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "scripts"))
import tfjs_to_onnx

TOLERANCE = 1e-4


def compare(xcvm, modules, folder, path):
    name = os.path.basename(os.path.dirname(path)) if path.endswith(".js") else os.path.basename(path)[:-5]
    model = tfjs_to_onnx.convert(path, 1)
    onnx.save(model, f"{folder}/{name}.onnx")
    entry = model.graph.input[0]
    shape = [d.dim_value for d in entry.type.tensor_type.shape.dim]
    rng = np.random.default_rng(1)
    whole = entry.type.tensor_type.elem_type == onnx.TensorProto.INT32
    x = rng.integers(0, 256, shape).astype(np.int32) if whole else rng.random(shape, np.float32)
    np.save(f"{folder}/x.npy", x)
    with open(f"{folder}/x.json", "w") as file:
        json.dump({"shape": shape, "dtype": "int32" if whole else "float32", "data": x.reshape(-1).tolist()}, file)
    right = json.loads(subprocess.run(["node", os.path.join(os.path.dirname(__file__), "tfjs_peer.js"), modules, path, f"{folder}/x.json"],
                                      stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()[-1])
    outputs = [o.name for o in model.graph.output]
    if len(outputs) != len(right):
        raise SystemExit(f"{name}: {len(outputs)} outputs; TensorFlow.js has {len(right)}")
    command = [xcvm, "run", f"{folder}/{name}.onnx", "-i", f"{entry.name}=@{folder}/x.npy"]
    for i, output in enumerate(outputs):
        command += ["-o", f"{output}=@{folder}/y{i}.npy"]
    subprocess.run(command, check=True)
    failed = False
    for i, peer in enumerate(right):
        y, expected = np.load(f"{folder}/y{i}.npy"), np.array(peer["data"]).reshape(peer["shape"])
        if y.shape != expected.shape:
            raise SystemExit(f'{name}: output "{outputs[i]}" has shape {y.shape}; TensorFlow.js has {expected.shape}')
        error = np.abs(y - expected).max() / max(np.ptp(expected), np.abs(expected).max(), 1e-30)
        bad = not error <= TOLERANCE
        failed |= bad
        print(f'{name}: "{outputs[i]}" {"x".join(map(str, y.shape))}, off by {error:.1e} of its range{" FAILED" if bad else ""}')
    return failed


def main():
    xcvm, modules, folder = sys.argv[1:4]
    os.makedirs(folder, exist_ok=True)
    failed = [path for path in sys.argv[4:] if compare(xcvm, modules, folder, path)]
    print(f"{len(sys.argv) - 4 - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

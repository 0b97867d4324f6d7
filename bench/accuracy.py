#!/usr/bin/python3
"""accuracy.py MODEL OURS.npy THEIRS.raw: a row of accuracy.sh's table.

MODEL is a folder of make_models.py. Errors are those of the model's first output, of XCVM (a NumPy array) and of ONNX
Runtime (its float32 elements), against the same in float64, relative to the reference's root mean square.
"""
import os
import sys

import exact
import numpy as np
import onnx
import torch

# PyTorch's own float32 result may differ from the reference by rounding alone; where it does by more, the reference is
# wrong.
ROUNDING = 1e-4


def read(folder, name):
    return onnx.load_tensor(os.path.join(folder, "test_data_set_0", name))


def rms(x):
    return x.square().mean().sqrt().item()


def main(folder, ours, theirs):
    with torch.no_grad():
        reference = exact.evaluate(os.path.join(folder, "model.onnx"), [read(folder, "input_0.pb")])
    scale = rms(reference)

    def error(result):
        if result.numel() != reference.numel():
            sys.exit(f"accuracy.py: {folder}: {result.numel()} elements, {reference.numel()} expected")
        difference = result.double().reshape(reference.shape) - reference
        return rms(difference) / scale, difference.abs().max().item() / scale

    own = error(exact.tensor(read(folder, "output_0.pb")))
    if not own[0] < ROUNDING:
        sys.exit(f"accuracy.py: {folder}: PyTorch's result is {own[0]:.2g} from the reference, at most {ROUNDING:g} expected")
    xcvm = error(torch.from_numpy(np.load(ours)))
    peer = error(torch.from_numpy(np.fromfile(theirs, np.float32)))
    ratios = [a / b for a, b in zip(xcvm, peer)]
    print(f"| {os.path.basename(folder)} | {reference.abs().max().item():.3g} | {peer[0]:.2e} | {xcvm[0]:.2e} | "
          f"**{ratios[0]:.2f}** | {peer[1]:.2e} | {xcvm[1]:.2e} | {ratios[1]:.2f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])

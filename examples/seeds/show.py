"""Prints arrays as the samples in C do."""

import numpy as np


def show(name, array):
    print(name, *(f"{float(v) + 0.0:.4f}" if abs(v) >= 5e-5 else "0.0000" for v in np.asarray(array).ravel()))

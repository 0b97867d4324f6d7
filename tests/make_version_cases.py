#!/usr/bin/python3
"""make_version_cases.py OUT: writes cases of what opsets 18 to 26 changed as ONNX test directories.

Expected values are computed here with NumPy (and Pillow, for images) from the definitions of the operators."""
import importlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from onnx_cases.common import Suite

FAMILIES = ("quantization", "strings", "shapes", "reductions", "elementwise", "spatial", "control")

if len(sys.argv) < 2:
    sys.exit(__doc__)
suite = Suite(sys.argv[1])
for family in sys.argv[2:] or FAMILIES:
    importlib.import_module(f"onnx_cases.{family}").make(suite)
print(f"{suite.count} cases")

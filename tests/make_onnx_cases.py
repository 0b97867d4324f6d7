#!/usr/bin/python3
"""make_onnx_cases.py OUT: writes the operator cases that ship with Debian's python3-onnx as test directories."""
import sys

import numpy as np

# The cases are older than NumPy's removal of these names.
for name, kind in (("float", float), ("bool", bool), ("int", int), ("object", object)):
    if name not in np.__dict__:
        setattr(np, name, kind)
from onnx.backend.test import cmd_tools

if len(sys.argv) != 2:
    sys.exit(__doc__)
sys.argv = ["generate-data", "generate-data", "-o", sys.argv[1]]
cmd_tools.main()

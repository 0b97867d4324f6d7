"""Writes requests of one row for an input of FP32: bodies.py INPUT SHAPE DIRECTORY, with SHAPE such as 1,1,28,28."""
import json
import sys

import numpy as np

name, shape, folder = sys.argv[1], [int(d) for d in sys.argv[2].split(",")], sys.argv[3]
data = np.random.RandomState(1).rand(*shape).astype("f")


def write(path, content):
    with open(f"{folder}/{path}", "wb") as f:
        f.write(content)


tensor = {"name": name, "shape": shape, "datatype": "FP32"}
write("json", json.dumps({"inputs": [{**tensor, "data": [float(str(v)) for v in data.ravel()]}]}).encode())
head = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": data.nbytes}}],
                   "parameters": {"binary_data_output": True}}).encode()
write("binary", head + data.tobytes())
write("binary-peer", data.tobytes())
write("binary-head", str(len(head)).encode())

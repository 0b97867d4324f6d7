"""Writes requests of one row for an input of FP32: bodies.py MODEL INPUT SHAPE DIRECTORY, with SHAPE such as 1,1,28,28."""
import json
import struct
import sys

import numpy as np

model, name, shape, folder = sys.argv[1], sys.argv[2], [int(d) for d in sys.argv[3].split(",")], sys.argv[4]
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


# ModelInferRequest in a frame of gRPC (server/grpc/definitions/inference.proto).
def varint(number):
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


described = field(1, name.encode()) + field(2, b"FP32") + field(3, b"".join(varint(d) for d in shape))
message = field(1, model.encode()) + field(5, described) + field(7, data.tobytes())
write("grpc", b"\0" + struct.pack(">I", len(message)) + message)

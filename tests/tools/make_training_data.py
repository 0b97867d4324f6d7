#!/usr/bin/python3
"""Writes tests/tools/data/training: small models, data and images for what xcvm train says, and PyTorch's losses with labels that
are left out. Needs python3-onnx, python3-numpy and python3-torch."""
import os
import struct
import zlib

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "training")
F = TensorProto.FLOAT
random = np.random.default_rng(30)


def save(path, nodes, inputs, outputs, weights, external=None):
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    model = helper.make_model(helper.make_graph(nodes, "graph", inputs, outputs, tensors), opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    path = os.path.join(HERE, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    options = {"save_as_external_data": True, "location": external, "size_threshold": 0} if external else {}
    onnx.save_model(model, path, **options)


def png(path, shade):
    pixels = np.full((8, 8, 3), shade, np.uint8)
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    path = os.path.join(HERE, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


value = helper.make_tensor_value_info
w, b = random.normal(size=(3, 3)).astype(np.float32), np.zeros(3, np.float32)
gemm = [helper.make_node("Gemm", ["x", "fc.weight", "fc.bias"], ["scores"], transB=1)]
weights = {"fc.weight": w, "fc.bias": b}
save("scores.onnx", gemm, [value("x", F, ["N", 3])], [value("scores", F, ["N", 3])], weights)
save("far/scores.onnx", gemm, [value("x", F, ["N", 3])], [value("scores", F, ["N", 3])], weights, "weights.bin")
save("own.onnx", gemm + [helper.make_node("SoftmaxCrossEntropyLoss", ["scores", "y"], ["loss"], ignore_index=-100)],
     [value("x", F, ["N", 3]), value("y", TensorProto.INT64, ["N"])], [value("loss", F, []), value("scores", F, ["N", 3])], weights)
v = random.normal(size=(3, 4)).astype(np.float32)
save("tokens.onnx", [helper.make_node("MatMul", ["x", "v"], ["scores"])], [value("x", F, ["N", "T", 3])],
     [value("scores", F, ["N", "T", 4])], {"v": v})
save("one.onnx", [helper.make_node("Gemm", ["x", "w", "b"], ["y"])], [value("x", F, ["N", 3])], [value("y", F, ["N", 1])],
     {"w": np.ones((3, 1), np.float32), "b": np.zeros(1, np.float32)})
save("pixels.onnx", [helper.make_node("Flatten", ["image"], ["flat"]), helper.make_node("Gemm", ["flat", "w", "b"], ["scores"])],
     [value("image", F, ["N", 3, 8, 8])], [value("scores", F, ["N", 3])],
     {"w": (0.01 * random.normal(size=(192, 3))).astype(np.float32), "b": np.zeros(3, np.float32)})

# Labels, some of which are ignored: the batches of 4 have 3, 0 and 2 others.
x = random.normal(size=(10, 3)).astype(np.float32)
y = np.array([0, -100, 1, 2, -100, -100, -100, -100, 2, 1])
np.savez(f"{HERE}/ignored.npz", x=x, y=y)
np.savez(f"{HERE}/ignored255.npz", x=x, y=np.where(y < 0, 255, y).astype(np.uint8))
np.savez(f"{HERE}/from1.npz", x=x, y=np.where(y < 0, 1, y + 1))
np.savez(f"{HERE}/target.npz", x=x, y=(x @ [[1.0], [2.0], [3.0]]).astype(np.float32))
tx = random.normal(size=(4, 5, 3)).astype(np.float32)
ty = random.integers(0, 4, (4, 5))
ty[0, 2:], ty[1, 1:], ty[3, 4] = -100, -100, -100
np.savez(f"{HERE}/tokens.npz", x=tx, y=ty)
np.savez(f"{HERE}/bytes.npz", image=random.integers(0, 256, (6, 3, 8, 8)).astype(np.uint8), labels=np.arange(6) % 3)


def losses(parameters, forward, xs, ys, batch):
    """Of epochs of steps of SGD: PyTorch's loss of each step, 0 where no label counts, and the means over labels that count."""
    parameters = [torch.tensor(p, requires_grad=True) for p in parameters]
    for epoch in range(3):
        total, count = 0.0, 0
        for at in range(0, len(xs), batch):
            bx, by = torch.tensor(xs[at:at + batch]), torch.tensor(ys[at:at + batch])
            counted = int((by != -100).sum())
            loss = torch.nn.functional.cross_entropy(forward(parameters, bx), by.reshape(-1))
            if counted:
                for p in parameters:
                    p.grad = None
                loss.backward()
                with torch.no_grad():
                    for p in parameters:
                        p -= 0.5 * p.grad
            # Each example counts by the share of its batch's labels that do.
            weight = counted / by.numel() * len(by)
            total, count = total + (float(loss.detach()) * weight if counted else 0), count + weight
            yield f"{float(loss.detach()) if counted else 0:.6f}"
        yield f"mean {total / count:.6f}"


def write(path, lines):
    with open(f"{HERE}/{path}", "w") as f:
        f.write("".join(line + "\n" for line in lines))


write("ignored.txt", losses([w, b], lambda p, bx: bx @ p[0].T + p[1], x, y, 4))
write("tokens.txt", losses([v], lambda p, bx: (bx @ p[0]).reshape(-1, 4), tx, ty, 2))

# Weights of other types, some that are missing and one that is not the model's.
np.savez(f"{HERE}/f64.npz", **{"fc.weight": w.astype(np.float64) + 1e-12, "fc.bias": b.astype(np.float64)})
np.savez(f"{HERE}/f16.npz", **{"fc.weight": w.astype(np.float16), "fc.bias": b.astype(np.float16)})
np.savez(f"{HERE}/part.npz", **{"fc.weight": w, "head.weight": w})
np.savez(f"{HERE}/prefix.npz", **{"module.fc.weight": w, "module.fc.bias": b})
np.savez(f"{HERE}/beyond.npz", **{"fc.bias": np.array([1e300, 0, 0])})

for name, shade in (("cat", 20), ("dog", 130), ("emu", 240)):
    for i in range(4):
        png(f"images/{name}/{i}.png", shade + i)
for name, shade in (("dog", 130), ("emu", 240)):
    png(f"held/{name}/0.png", shade)

# ---- Cases of cli_train_advice.sh ----

random = np.random.default_rng(31)
weights = {"w": random.normal(size=(3, 3)).astype(np.float32), "b": np.zeros(3, np.float32)}
fc = helper.make_node("Gemm", ["x", "w", "b"], ["s"])
for name, node in (("softmax", helper.make_node("Softmax", ["s"], ["y"], axis=1)), ("logsoftmax", helper.make_node("LogSoftmax", ["s"], ["y"], axis=1)),
                   ("sigmoid", helper.make_node("Sigmoid", ["s"], ["y"])), ("linear", helper.make_node("Identity", ["s"], ["y"]))):
    save(f"advice/{name}.onnx", [fc, node], [value("x", F, ["N", 3])], [value("y", F, ["N", 3])], weights)
save("advice/two.onnx", [helper.make_node("Gemm", ["x", "w", "b"], ["kind"]), helper.make_node("MatMul", ["x", "v"], ["size"])],
     [value("x", F, ["N", 3])], [value("kind", F, ["N", 3]), value("size", F, ["N", 1])], {**weights, "v": np.ones((3, 1), np.float32)})
pool = [helper.make_node("Conv", ["image", "k"], ["c"], kernel_shape=[3, 3]), helper.make_node("GlobalAveragePool", ["c"], ["p"]),
        helper.make_node("Flatten", ["p"], ["y"])]
for name, sizes, count in (("open", ["height", "width"], 3), ("score", [8, 8], 1)):
    save(f"advice/{name}.onnx", pool, [value("image", F, ["N", 3, *sizes])], [value("y", F, ["N", count])],
         {"k": random.normal(size=(count, 3, 3, 3)).astype(np.float32)})
gru = [helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]), helper.make_node("GRU", ["t", "w", "r", "", "", "h0"], ["", "h"], hidden_size=4),
       helper.make_node("Squeeze", ["h", "axis"], ["q"]), helper.make_node("MatMul", ["q", "v"], ["y"])]
gru_weights = {"w": random.normal(size=(1, 12, 3)).astype(np.float32), "r": random.normal(size=(1, 12, 4)).astype(np.float32),
               "v": random.normal(size=(4, 3)).astype(np.float32), "axis": np.array([0])}
save("advice/gru.onnx", gru, [value("x", F, ["N", "T", 3]), value("h0", F, [1, "N", 4])], [value("y", F, ["N", 3])], gru_weights)
save("advice/fixed.onnx", gemm, [value("x", F, [4, 3])], [value("scores", F, [4, 3])], {"fc.weight": w, "fc.bias": b})
save("advice/lost.onnx", gemm, [value("x", F, ["N", 3])], [value("scores", F, ["N", 3])], {"fc.weight": w, "fc.bias": b}, "lost.bin")
os.remove(f"{HERE}/advice/lost.bin")
drop = [helper.make_node("Gemm", ["x", "w", "b"], ["s"]), helper.make_node("Dropout", ["s", "ratio", "on"], ["d", "mask"]),
        helper.make_node("Gemm", ["d", "v"], ["y"])]
dropout = {**weights, "v": random.normal(size=(3, 3)).astype(np.float32), "ratio": np.array(0.25, np.float32)}
for name, on in (("dropout", True), ("dropout_off", False)):
    save(f"advice/{name}.onnx", drop, [value("x", F, ["N", 3])], [value("y", F, ["N", 3])], {**dropout, "on": np.array(on)})

x = random.normal(size=(8, 3)).astype(np.float32)
classes, numbers = np.arange(8) % 3, (x @ [1.0, 2.0, 3.0]).astype(np.float32)
arrays = {"x": x, "i1": classes, "i2": classes[:, None], "f1": classes.astype(np.float32), "hot": np.eye(3, dtype=np.float32)[classes],
          "n1": numbers, "n2": numbers[:, None], "yes": (numbers > 0).astype(np.int64), "ignored": np.full(8, -100), "x64": x.astype(np.float64),
          "h0": np.zeros((8, 4), np.float32), "steps": random.normal(size=(8, 5, 3)).astype(np.float32)}
np.savez(f"{HERE}/advice/data.npz", **arrays)
out = torch.tensor(x) @ torch.ones(3, 1)  # one.onnx
write("advice/mse.txt", [f"{float(torch.nn.functional.mse_loss(out, torch.tensor(numbers)[:, None])):.6f}"])
scores = torch.tensor(x) @ torch.tensor(weights["w"])
write("advice/cross_entropy.txt", [f"{float(torch.nn.functional.cross_entropy(scores, torch.tensor(classes))):.6f}"])
np.savez(f"{HERE}/advice/turned.npz", **{"fc.weight": w[:, :2].T.astype(np.float16)})
np.savez(f"{HERE}/advice/held.npz", x=x, y=np.full(8, -100))

#!/usr/bin/python3
"""make_model.py: trains the example's network and writes model.onnx beside itself.

Needs Debian's python3-torch and python3-onnx. The network is a decoder-only transformer that reads and writes bytes, one
a token, and learns the names of the numbers from zero to ninety-nine in order, so that what it says can be checked. It is
exported as runtimes for generation have it: GroupQueryAttention with rotated positions (do_rotary) and a cache of keys
and values whose length the caller chooses (dimension "bound").
"""
import os

import numpy as np
import torch
from onnx import TensorProto, helper, numpy_helper, save

HERE = os.path.dirname(os.path.abspath(__file__))
BYTES, WIDTH, HEADS, KEY_HEADS, LAYERS, HIDDEN, MOST = 128, 64, 4, 2, 2, 128, 1024
SIZE = WIDTH // HEADS
EPSILON = 1e-5


def text():
    small = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
             "seventeen eighteen nineteen").split()
    tens = "twenty thirty forty fifty sixty seventy eighty ninety".split()
    names = [small[i] if i < 20 else tens[i // 10 - 2] + ("-" + small[i % 10] if i % 10 else "") for i in range(100)]
    return " ".join(names) + " "


def angles():
    at = np.arange(MOST)[:, None] / 10000 ** (np.arange(SIZE // 2)[None] * 2 / SIZE)
    return np.cos(at).astype(np.float32), np.sin(at).astype(np.float32)


def turn(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        def matrix(*shape):
            return torch.nn.Parameter(torch.randn(*shape) * (0.7 / shape[0] ** 0.5))
        self.embedding = torch.nn.Parameter(torch.randn(BYTES, WIDTH) * 0.5)
        self.layers = torch.nn.ModuleList()
        for _ in range(LAYERS):
            self.layers.append(torch.nn.ParameterDict({
                "norm1": torch.nn.Parameter(torch.ones(WIDTH)), "norm2": torch.nn.Parameter(torch.ones(WIDTH)),
                "qkv": matrix(WIDTH, (HEADS + 2 * KEY_HEADS) * SIZE), "out": matrix(WIDTH, WIDTH),
                "up": matrix(WIDTH, HIDDEN), "down": matrix(HIDDEN, WIDTH)}))
        self.norm = torch.nn.Parameter(torch.ones(WIDTH))
        self.head = matrix(WIDTH, BYTES)

    def forward(self, tokens):
        def normal(x, scale):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON) * scale
        batch, length = tokens.shape
        cos, sin = (torch.tensor(a[:length]) for a in angles())
        hidden = torch.triu(torch.full((length, length), float("-inf")), 1)
        x = self.embedding[tokens]
        for layer in self.layers:
            qkv = (normal(x, layer["norm1"]) @ layer["qkv"]).reshape(batch, length, -1, SIZE).transpose(1, 2)
            q, k, v = qkv.split([HEADS, KEY_HEADS, KEY_HEADS], 1)
            q, k = turn(q, cos, sin), turn(k, cos, sin)
            k, v = (t.repeat_interleave(HEADS // KEY_HEADS, 1) for t in (k, v))
            y = torch.softmax(q @ k.transpose(2, 3) / SIZE ** 0.5 + hidden, -1) @ v
            x = x + y.transpose(1, 2).reshape(batch, length, WIDTH) @ layer["out"]
            x = x + torch.nn.functional.gelu(normal(x, layer["norm2"]) @ layer["up"]) @ layer["down"]
        return normal(x, self.norm) @ self.head


def train():
    torch.manual_seed(0)
    data = torch.tensor(list(text().encode()))
    data = data.repeat(3)
    network, length, steps = Network(), 112, 300
    optimizer = torch.optim.AdamW(network.parameters(), 3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, steps)
    for step in range(steps):
        starts = torch.randint(0, len(data) - length - 1, (8,))
        batch = torch.stack([data[i:i + length + 1] for i in starts])
        logits = network(batch[:, :-1])
        # The first bytes of a sample cannot be known.
        loss = torch.nn.functional.cross_entropy(logits[:, 24:].flatten(0, 1), batch[:, 25:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss.item():.4f}")
    return network


def export(network):
    nodes, constants = [], []

    def constant(name, array):
        constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def add(op, inputs, outputs, domain="", **attributes):
        nodes.append(helper.make_node(op, inputs, outputs, name=outputs[0], domain=domain, **attributes))
        return outputs[0]

    def normal(x, scale, name):
        return add("SimplifiedLayerNormalization", [x, constant(name + ".scale", scale.detach().numpy())], [name], axis=-1,
                   epsilon=EPSILON)

    def product(x, w, name):
        return add("MatMul", [x, constant(name + ".weight", w.detach().numpy())], [name])

    cos, sin = (constant(name, a) for name, a in zip(("cos", "sin"), angles()))
    inputs = [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", "length"]),
              helper.make_tensor_value_info("last", TensorProto.INT32, ["batch"]),
              helper.make_tensor_value_info("total", TensorProto.INT32, [])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "length", BYTES])]
    x = add("Gather", [constant("embedding", network.embedding.detach().numpy()), "tokens"], ["embedded"])
    for i, layer in enumerate(network.layers):
        past, present = ([f"{when}.{i}.{what}" for what in ("key", "value")] for when in ("past", "present"))
        for name in past:
            inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", KEY_HEADS, "bound", SIZE]))
        for name in present:
            outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", KEY_HEADS, "bound", SIZE]))
        qkv = product(normal(x, layer["norm1"], f"norm1.{i}"), layer["qkv"], f"qkv.{i}")
        y = add("GroupQueryAttention", [qkv, "", ""] + past + ["last", "total", cos, sin], [f"attention.{i}"] + present,
                domain="com.microsoft", num_heads=HEADS, kv_num_heads=KEY_HEADS, do_rotary=1)
        x = add("Add", [x, product(y, layer["out"], f"out.{i}")], [f"middle.{i}"])
        up = product(normal(x, layer["norm2"], f"norm2.{i}"), layer["up"], f"up.{i}")
        x = add("Add", [x, product(add("Gelu", [up], [f"gelu.{i}"], domain="com.microsoft"), layer["down"], f"down.{i}")],
                [f"block.{i}"])
    nodes.append(helper.make_node("MatMul", [normal(x, network.norm, "norm"),
                                             constant("head", network.head.detach().numpy())], ["logits"], name="logits"))
    graph = helper.make_graph(nodes, "numbers", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    model.ir_version = 8
    save(model, os.path.join(HERE, "model.onnx"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    export(train())

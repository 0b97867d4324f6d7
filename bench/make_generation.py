#!/usr/bin/python3
"""make_generation.py DIR [LAYERS WIDTH BITS LEVEL]: a decoder-only transformer with weights in blocks of 32
(MatMulNBits) and caches of keys and values (GroupQueryAttention), as exporters for generation write them, with random
weights: DIR/decode.onnx reads one token behind 511, DIR/prefill.onnx a prompt of 512. DIR/decode and DIR/prefill have the
inputs for ort_bench --set. LEVEL is the attribute accuracy_level: 0, or 4 for activations of 8 bits.
"""
import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

CONTEXT, VOCABULARY, HEAD, GROUP = 512, 16000, 64, 4


def make(folder, name, length, layers, width, bits, level):
    rng = np.random.default_rng(1)
    heads, key_heads, hidden = width // HEAD, width // HEAD // GROUP, 4 * width
    nodes, constants = [], []

    def constant(label, array):
        constants.append(numpy_helper.from_array(np.ascontiguousarray(array), label))
        return label

    def add(op, inputs, output, more=(), domain="", **attributes):
        nodes.append(helper.make_node(op, inputs, [output, *more], name=output, domain=domain, **attributes))
        return output

    def normal(x, label):
        return add("SimplifiedLayerNormalization", [x, constant(label + ".scale", np.ones(width, np.float32))], label,
                   axis=-1, epsilon=1e-5)

    def product(x, k, n, label):
        codes = rng.integers(0, 256, (n, k // 32, 32 * bits // 8), dtype=np.uint8)
        scale = (rng.random((n, k // 32), dtype=np.float32) + 0.5) * np.float32(0.3 / (1 << bits) / np.sqrt(k) * 4)
        return add("MatMulNBits", [x, constant(label + ".codes", codes), constant(label + ".scales", scale)], label,
                   domain="com.microsoft", K=k, N=n, bits=bits, block_size=32, accuracy_level=level)

    angles = np.arange(1024)[:, None] / 10000 ** (np.arange(HEAD // 2)[None] * 2 / HEAD)
    cos, sin = constant("cos", np.cos(angles).astype(np.float32)), constant("sin", np.sin(angles).astype(np.float32))
    cache = [1, key_heads, CONTEXT, HEAD]
    inputs = [helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, length]),
              helper.make_tensor_value_info("last", TensorProto.INT32, [1]),
              helper.make_tensor_value_info("total", TensorProto.INT32, [])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 1, VOCABULARY])]
    x = add("Gather", [constant("embedding", rng.normal(size=(VOCABULARY, width)).astype(np.float32)), "tokens"], "embedded")
    for i in range(layers):
        past, present = ([f"{when}.{i}.{what}" for what in ("key", "value")] for when in ("past", "present"))
        inputs += [helper.make_tensor_value_info(p, TensorProto.FLOAT, cache) for p in past]
        outputs += [helper.make_tensor_value_info(p, TensorProto.FLOAT, cache) for p in present]
        qkv = product(normal(x, f"norm1.{i}"), width, (heads + 2 * key_heads) * HEAD, f"qkv.{i}")
        y = add("GroupQueryAttention", [qkv, "", "", *past, "last", "total", cos, sin], f"attention.{i}", present,
                domain="com.microsoft", num_heads=heads, kv_num_heads=key_heads, do_rotary=1)
        x = add("Add", [x, product(y, width, width, f"out.{i}")], f"middle.{i}")
        up = product(normal(x, f"norm2.{i}"), width, hidden, f"up.{i}")
        active = add("Gelu", [up], f"gelu.{i}", domain="com.microsoft")
        x = add("Add", [x, product(active, hidden, width, f"down.{i}")], f"block.{i}")
    at = constant("end", np.array([length - 1], np.int64))
    x = add("Gather", [normal(x, "norm"), at], "chosen", axis=1)
    product(x, width, VOCABULARY, "logits")
    graph = helper.make_graph(nodes, name, inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    model.ir_version = 8
    save(model, os.path.join(folder, name + ".onnx"))
    os.makedirs(os.path.join(folder, name), exist_ok=True)
    values = [rng.integers(0, VOCABULARY, (1, length), dtype=np.int64), np.array([CONTEXT - 1], np.int32),
              np.array(CONTEXT, np.int32)]
    for i, value in enumerate(values):
        value.tofile(os.path.join(folder, name, f"input_{i}.i64"))
    for i in range(2 * layers):
        cached = rng.normal(size=cache).astype(np.float32) if length == 1 else np.zeros(cache, np.float32)
        cached.tofile(os.path.join(folder, name, f"input_{3 + i}.f32"))


def main():
    folder = sys.argv[1]
    layers, width, bits, level = (int(a) for a in (sys.argv[2:] + ["8", "1024", "4", "0"][len(sys.argv) - 2:]))
    os.makedirs(folder, exist_ok=True)
    make(folder, "decode", 1, layers, width, bits, level)
    make(folder, "prefill", CONTEXT, layers, width, bits, level)


if __name__ == "__main__":
    main()

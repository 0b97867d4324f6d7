#!/usr/bin/python3
"""make_decoders.py DIR: writes small decoders into DIR, one for each kind of export, and what they generate.

Needs Debian's python3-torch and python3-onnx. The weights are random. DIR/cases.txt has a line for each model: the file,
options of decode, "|", the ids of the prompt and the ids that greedy decoding gives, which PyTorch computes from all
tokens at once, without a cache.
"""
import os
import sys

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

VOCABULARY, WIDTH, HEADS, KEY_HEADS, LAYERS, PLACES = 48, 32, 4, 2, 2, 64
SIZE = WIDTH // HEADS
PROMPT, COUNT = [3, 17, 5, 40, 11], 12


def repeated(x, times):
    batch, heads, rows, size = x.shape
    return x[:, :, None].expand(batch, heads, times, rows, size).reshape(batch, heads * times, rows, size)


class Decoder(torch.nn.Module):
    """A transformer with learned positions. `forward` takes and gives keys and values as a cache."""

    def __init__(self, stacked=False, slopes=None):
        super().__init__()
        self.stacked = stacked
        self.slopes = slopes
        self.tokens = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.places = torch.nn.Embedding(PLACES, WIDTH)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2 * LAYERS + 1))
        self.qkv = torch.nn.ModuleList(torch.nn.Linear(WIDTH, (HEADS + 2 * KEY_HEADS) * SIZE) for _ in range(LAYERS))
        self.out = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.up = torch.nn.ModuleList(torch.nn.Linear(WIDTH, 64) for _ in range(LAYERS))
        self.down = torch.nn.ModuleList(torch.nn.Linear(64, WIDTH) for _ in range(LAYERS))

    def forward(self, input_ids, attention_mask, *past):
        batch, length = input_ids.shape
        before = 0 if not past else past[0].shape[-2]
        at = torch.arange(length) + before
        x = self.tokens(input_ids) + self.places(at)
        key_at = torch.arange(attention_mask.shape[1])
        hidden = (key_at[None, :] > at[:, None])[None, None] | (attention_mask == 0)[:, None, None, :]
        present = []
        for i in range(LAYERS):
            qkv = self.qkv[i](self.norms[2 * i](x)).view(batch, length, HEADS + 2 * KEY_HEADS, SIZE).transpose(1, 2)
            q, k, v = qkv.split([HEADS, KEY_HEADS, KEY_HEADS], 1)
            if past:
                old = (past[i][0], past[i][1]) if self.stacked else past[2 * i:2 * i + 2]
                k, v = torch.cat([old[0], k], 2), torch.cat([old[1], v], 2)
            present += [torch.stack([k, v])] if self.stacked else [k, v]
            k, v = (repeated(t, HEADS // KEY_HEADS) for t in (k, v))
            scores = q @ k.transpose(2, 3) / SIZE ** 0.5
            if self.slopes is not None:
                scores = scores + self.slopes[None, :, None, None] * (key_at[None, :] - at[:, None])
            scores = scores.masked_fill(hidden, -1e9)
            y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, WIDTH)
            x = x + self.out[i](y)
            x = x + self.down[i](torch.relu(self.up[i](self.norms[2 * i + 1](x))))
        return (self.head(self.norms[-1](x)), *present)


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.lstm = torch.nn.LSTM(WIDTH, WIDTH, LAYERS, batch_first=True)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)

    def forward(self, input_ids, h0, c0):
        y, (hn, cn) = self.lstm(self.tokens(input_ids), (h0, c0))
        return self.head(y), hn, cn


def generate(logits_of):
    """Greedy ids, each from all ids before it."""
    ids = list(PROMPT)
    with torch.no_grad():
        for _ in range(COUNT):
            ids.append(int(logits_of(torch.tensor([ids]))[0, -1].argmax()))
    return ids[len(PROMPT):]


def export(model, path, inputs, input_names, output_names, axes):
    torch.onnx.export(model, inputs, path, input_names=input_names, output_names=output_names, dynamic_axes=axes,
                      opset_version=14, do_constant_folding=True)


def export_decoder(model, path, past_names, present_names, with_past=True):
    """torch.onnx.export as Hugging Face's optimum calls it."""
    shape = (2, 2, KEY_HEADS, 3, SIZE) if model.stacked else (2, KEY_HEADS, 3, SIZE)
    past = tuple(torch.randn(*shape) for _ in past_names) if with_past else ()
    rows, batch = (3, 1) if model.stacked else (2, 0)
    axes = {"input_ids": {0: "batch_size", 1: "sequence_length"}, "logits": {0: "batch_size", 1: "sequence_length"},
            "attention_mask": {0: "batch_size", 1: "total_sequence_length"}}
    axes.update({name: {batch: "batch_size", rows: "past_sequence_length"} for name in past_names if with_past})
    axes.update({name: {batch: "batch_size", rows: "total_sequence_length"} for name in present_names})
    ids, mask = torch.tensor([[1, 2], [3, 4]]), torch.ones(2, 5 if with_past else 2, dtype=torch.int64)
    export(model, path, (ids, mask, *past), ["input_ids", "attention_mask", *(past_names if with_past else [])],
           ["logits", *present_names], axes)


def prefixed(graph, prefix, shared):
    """The nodes of a graph as a branch of If: names of its own, but for `shared`. Its constants go outside."""
    def name(n):
        return n if n == "" or n in shared else prefix + n
    nodes = []
    for node in graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = prefix + node.name
        copy.input[:] = [name(n) for n in node.input]
        copy.output[:] = [name(n) for n in node.output]
        nodes.append(copy)
    constants = []
    for constant in graph.initializer:
        copy = onnx.TensorProto()
        copy.CopyFrom(constant)
        copy.name = name(constant.name)
        constants.append(copy)
    outputs = []
    for output in graph.output:
        copy = onnx.ValueInfoProto()
        copy.CopyFrom(output)
        copy.name = name(output.name)
        outputs.append(copy)
    return helper.make_graph(nodes, prefix, [], outputs), constants


def merge(folder, without, within, path):
    """decoder_model_merged.onnx: an If between the decoder without and with a past."""
    first, later = (onnx.load(os.path.join(folder, name)) for name in (without, within))
    shared = {value.name for value in later.graph.input}
    (then, own), (otherwise, others) = (prefixed(m.graph, p, shared) for m, p in ((later, "past."), (first, "no_past.")))
    outputs = [value.name for value in later.graph.output]
    node = helper.make_node("If", ["use_cache_branch"], outputs, name="optimum::if", then_branch=then,
                            else_branch=otherwise)
    inputs = list(later.graph.input) + [helper.make_tensor_value_info("use_cache_branch", TensorProto.BOOL, [1])]
    graph = helper.make_graph([node], "merged", inputs, list(later.graph.output), own + others)
    model = helper.make_model(graph, opset_imports=later.opset_import)
    model.ir_version = 8
    onnx.save(model, os.path.join(folder, path))


def rename(folder, path, to, names):
    """Other names of inputs and outputs."""
    model = onnx.load(os.path.join(folder, path))
    for node in model.graph.node:
        node.input[:] = [names.get(n, n) for n in node.input]
        node.output[:] = [names.get(n, n) for n in node.output]
    for value in [*model.graph.input, *model.graph.output]:
        value.name = names.get(value.name, value.name)
    onnx.save(model, os.path.join(folder, to))


def write_attention(model, path, contrib, shared=False):
    """By hand: GroupQueryAttention, as onnxruntime-genai writes it, or Attention of opset 23."""
    nodes, constants = [], []

    def constant(name, array):
        constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def tensor(name, parameter):
        return constant(name, parameter.detach().numpy())

    def add(op, inputs, outputs, domain="", **attributes):
        nodes.append(helper.make_node(op, inputs, outputs, name=outputs[0], domain=domain, **attributes))
        return outputs[0]

    def normal(x, layer, name):
        return add("LayerNormalization", [x, tensor(name + ".scale", layer.weight), tensor(name + ".bias", layer.bias)],
                   [name], axis=-1, epsilon=layer.eps)

    def linear(x, layer, name, rows=slice(None)):
        y = add("MatMul", [x, constant(name + ".weight", layer.weight.detach().numpy()[rows].T)], [name + ".product"])
        return add("Add", [y, constant(name + ".bias", layer.bias.detach().numpy()[rows])], [name])

    rows = ("bound", "bound") if shared else ("past_sequence_length", "total_sequence_length")
    past_form, present_form = (("past_key_values.{}.{}", "present.{}.{}") if contrib
                               else ("{1}_cache_{0}", "new_{1}_cache_{0}"))
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"]),
              helper.make_tensor_value_info("position_ids", TensorProto.INT64, ["batch_size", "sequence_length"])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch_size", "sequence_length", VOCABULARY])]
    if contrib:
        inputs.append(helper.make_tensor_value_info("attention_mask", TensorProto.INT64,
                                                    ["batch_size", "total_sequence_length"]))
        one = constant("one", np.array([1], np.int64))
        count = add("ReduceSum", ["attention_mask", one], ["mask_sum"], keepdims=0)
        add("Cast", [add("Sub", [count, one], ["last64"])], ["seqlens_k"], to=TensorProto.INT32)
        total = add("Gather", [add("Shape", ["attention_mask"], ["mask_shape"]), constant("axis", np.array(1, np.int64))],
                    ["total64"], axis=0)
        add("Cast", [total], ["total"], to=TensorProto.INT32)
        bias = []
        if model.slopes is not None:
            zero, step = constant("zero", np.array(0, np.int64)), constant("step", np.array(1, np.int64))
            numbers = add("Range", [zero, "total64", step],
                          ["key_places"])
            at = add("Unsqueeze", [add("Gather", ["position_ids", zero], ["places.0"], axis=0),
                                   one], ["query_places"])
            distance = add("Cast", [add("Sub", [numbers, at], ["distance64"])], ["distance"], to=TensorProto.FLOAT)
            slopes = constant("slopes", model.slopes.numpy().reshape(1, HEADS, 1, 1))
            bias = ["", "", "", add("Mul", [slopes, distance], ["bias"])]
    x = add("Add", [add("Gather", [tensor("tokens", model.tokens.weight), "input_ids"], ["embedded"]),
                    add("Gather", [tensor("places", model.places.weight), "position_ids"], ["placed"])], ["x"])
    for i in range(LAYERS):
        past, present = ([form.format(i, what) for what in ("key", "value")] for form in (past_form, present_form))
        for names, length, values in ((past, rows[0], inputs), (present, rows[1], outputs)):
            values += [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch_size", KEY_HEADS, length, SIZE])
                       for n in names]
        normed = normal(x, model.norms[2 * i], f"norm.{2 * i}")
        ends = [HEADS * SIZE, (HEADS + KEY_HEADS) * SIZE, (HEADS + 2 * KEY_HEADS) * SIZE]
        q, k, v = (linear(normed, model.qkv[i], f"{what}.{i}", slice(begin, end))
                   for what, begin, end in zip("qkv", [0, *ends], ends))
        if contrib:
            y = add("GroupQueryAttention", [q, k, v, *past, "seqlens_k", "total", *bias], [f"attention.{i}", *present],
                    domain="com.microsoft", num_heads=HEADS, kv_num_heads=KEY_HEADS)
        else:
            y = add("Attention", [q, k, v, "", *past], [f"attention.{i}", *present], is_causal=1, q_num_heads=HEADS,
                    kv_num_heads=KEY_HEADS)
        x = add("Add", [x, linear(y, model.out[i], f"out.{i}")], [f"middle.{i}"])
        up = add("Relu", [linear(normal(x, model.norms[2 * i + 1], f"norm.{2 * i + 1}"), model.up[i], f"up.{i}")],
                 [f"relu.{i}"])
        x = add("Add", [x, linear(up, model.down[i], f"down.{i}")], [f"block.{i}"])
    add("MatMul", [normal(x, model.norms[-1], "norm.last"), constant("head", model.head.weight.detach().numpy().T)],
        ["logits"])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)] if contrib \
        else [helper.make_opsetid("", 23)]
    result = helper.make_model(helper.make_graph(nodes, "decoder", inputs, outputs, constants), opset_imports=opsets)
    result.ir_version = 8 if contrib else 11
    onnx.save(result, path)


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(5)
    at = lambda name: os.path.join(folder, name)
    past, present = ([f"{form}.{i}.{what}" for i in range(LAYERS) for what in ("key", "value")]
                     for form in ("past_key_values", "present"))
    cases = []
    model = Decoder().eval()
    greedy = generate(lambda ids: model(ids, torch.ones_like(ids))[0])
    export_decoder(model, at("classic.onnx"), past, present)
    export_decoder(model, at("first.onnx"), past, present, with_past=False)
    merge(folder, "first.onnx", "classic.onnx", "merged.onnx")
    rename(folder, "classic.onnx", "dynamo.onnx",
           {**{name: f"past_key_values_{i}" for i, name in enumerate(past)},
            **{name: f"cat_{2 * i + 1}" for i, name in enumerate(present)}})
    write_attention(model, at("genai.onnx"), True)
    write_attention(model, at("opset23.onnx"), False)
    for name in ("classic", "merged", "dynamo", "genai", "opset23"):
        cases.append((name, "", greedy))
    for name in ("classic", "dynamo", "opset23"):
        cases.append((name, "--dim batch_size=1 --cache-rows 32", greedy))
    cases.append(("classic", "--states present.*:past_key_values.*", greedy))
    biased = Decoder(slopes=torch.tensor([-2.0, -1.0, 0.5, 3.0])).eval()
    biased.load_state_dict(model.state_dict())
    write_attention(biased, at("genai_bias.onnx"), True)
    write_attention(biased, at("shared_bias.onnx"), True, shared=True)
    ids = generate(lambda ids: biased(ids, torch.ones_like(ids))[0])
    assert ids != greedy
    cases.append(("genai_bias", "", ids))
    cases.append(("shared_bias", "--dim batch_size=1 --dim bound=32", ids))
    stacked = Decoder(stacked=True).eval()
    stacked.load_state_dict(model.state_dict())
    export_decoder(stacked, at("stacked.onnx"), [f"past_{i}" for i in range(LAYERS)],
                   [f"present_{i}" for i in range(LAYERS)])
    cases.append(("stacked", "", greedy))
    recurrent = Recurrent().eval()
    # Makes the ids depend on the state.
    for parameter in recurrent.parameters():
        parameter.data *= 4
    zeros = torch.zeros(LAYERS, 1, WIDTH)
    export(recurrent, at("recurrent.onnx"), (torch.tensor([[1, 2]]), zeros, zeros), ["input_ids", "h0", "c0"],
           ["logits", "hn", "cn"], {"input_ids": {0: "batch", 1: "length"}, "h0": {1: "batch"}, "c0": {1: "batch"}})
    cases.append(("recurrent", "", generate(lambda ids: recurrent(ids, zeros, zeros)[0])))
    # Other names, no cache, and the sizes of the example.
    export(recurrent, at("other_names.onnx"), (torch.tensor([[1, 2]]), zeros, zeros), ["words", "a", "b"],
           ["scores", "a_then", "b_then"], {"words": {0: "batch", 1: "length"}, "a": {1: "batch"}, "b": {1: "batch"}})
    cases.append(("other_names", "", cases[-1][2]))
    cases.append(("first", "--states none", greedy))
    values = tuple(torch.randn(1, KEY_HEADS, 3, SIZE) for _ in past)
    export(model, at("example_sizes.onnx"), (torch.tensor([[1, 2]]), torch.ones(1, 5, dtype=torch.int64), *values),
           ["input_ids", "attention_mask", *past], ["logits", *present], {})
    with open(at("cases.txt"), "w") as file:
        for name, options, ids in cases:
            file.write(f"{name}.onnx {options}|{','.join(map(str, PROMPT))}|{' '.join(map(str, ids))}\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()

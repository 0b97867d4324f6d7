#!/usr/bin/python3
"""make_attention_cases.py OUT: cases of Attention and the operators around it, as test directories in OUT/node.

The operators are newer than Debian's python3-onnx; the expected outputs follow their definitions (docs/Operators.md of
onnx/onnx), written down here in NumPy. Softmax comes after softcap and mask, in that order, as the definition has been
corrected to say; so qk_matmul_output_mode counts the scores, after the softcap, after the mask, and their softmax."""
import math

import numpy as np

from onnx import helper, numpy_helper

import case_models

random = np.random.RandomState(20240601)


def write(name, op, opset, inputs, outputs, **attributes):
    """inputs: arrays or None, in the operator's order; outputs likewise, None where not asked for."""

    def names(arrays, letter):
        return ["" if a is None else f"{letter}{i}" for i, a in enumerate(arrays)]

    def named(arrays, letter):
        return {n: a for n, a in zip(names(arrays, letter), arrays) if n}

    node = case_models.node(op, names(inputs, "x"), names(outputs, "y"), **attributes)
    case_models.write(name, [node], named(inputs, "x"), named(outputs, "y"), opsets=[("", opset)])


def floats(*shape, dtype=np.float32):
    return random.standard_normal(shape).astype(dtype)


# ---- Attention ----


def heads(x, count):
    return x.reshape(x.shape[0], x.shape[1], count, -1).transpose(0, 2, 1, 3)


def attention(q, k, v, mask=None, past_key=None, past_value=None, nonpad=None, scale=None, causal=False, softcap=0.0,
              q_heads=None, kv_heads=None, mode=0, left=-1, right=-1):
    """(y, present_key, present_value, qk), computed in f64."""
    dtype, flat = q.dtype, q.ndim == 3
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    if flat:
        q, k, v = heads(q, q_heads), heads(k, kv_heads), heads(v, kv_heads)
    past = 0
    if past_key is not None:
        past = past_key.shape[2]
        k = np.concatenate([past_key.astype(np.float64), k], 2)
        v = np.concatenate([past_value.astype(np.float64), v], 2)
    present = k, v
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    queries, keys = q.shape[2], k.shape[2]
    scale = q.shape[3] ** -0.5 if scale is None else scale
    stages = [q @ k.swapaxes(2, 3) * scale]
    stages.append(softcap * np.tanh(stages[0] / softcap) if softcap > 0 else stages[0])
    bias = np.zeros((q.shape[0], 1, queries, keys))
    if mask is not None:
        added = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
        short = keys - added.shape[-1]
        added = np.pad(added, [(0, 0)] * (added.ndim - 1) + [(0, short)], constant_values=-np.inf)
        bias = bias + added
    place = np.full(q.shape[0], past)
    if nonpad is not None and past_key is None:
        place = nonpad - queries
    place = place[:, None, None, None] + np.arange(queries)[:, None]
    at = np.arange(keys)
    hidden = np.zeros(bias.shape, dtype=bool)
    if causal:
        hidden |= at > place
    if left >= 0:
        hidden |= at < place - left
    if right >= 0:
        hidden |= at > place + right
    if nonpad is not None:
        hidden |= at >= nonpad[:, None, None, None]
    stages.append(stages[1] + np.where(hidden, -np.inf, bias))
    greatest = stages[2].max(-1, keepdims=True, initial=-np.inf)
    weights = np.exp(stages[2] - np.where(np.isinf(greatest), 0, greatest))
    with np.errstate(invalid="ignore"):
        stages.append(weights / weights.sum(-1, keepdims=True))
    # A query without visible keys gives 0.
    y = np.where(np.isnan(stages[3]), 0, stages[3]) @ v
    if flat:
        y = y.transpose(0, 2, 1, 3).reshape(y.shape[0], queries, -1)
    return [x.astype(dtype) for x in (y, *present, stages[mode])]


def attention_case(name, q, k, v, outputs=1, opset=23, mask=None, past=None, nonpad=None, attributes=None, dtype=None):
    attributes = attributes or {}
    renamed = {"is_causal": "causal", "q_num_heads": "q_heads", "kv_num_heads": "kv_heads",
               "qk_matmul_output_mode": "mode", "left_window_size": "left", "right_window_size": "right"}
    known = {renamed.get(n, n): a for n, a in attributes.items() if n != "softmax_precision"}
    past_key, past_value = past if past is not None else (None, None)
    results = attention(q, k, v, mask, past_key, past_value, nonpad, **known)
    inputs = [q, k, v, mask, past_key, past_value, nonpad]
    while inputs[-1] is None:
        inputs.pop()
    # 2: y and qk; 3: y and present keys and values; 4: all.
    wanted = {1: [0], 2: [0, 3], 3: [0, 1, 2], 4: [0, 1, 2, 3]}[outputs]
    results = [r if i in wanted else None for i, r in enumerate(results)][: wanted[-1] + 1]
    write(f"attention_{opset}_{name}", "Attention", opset, inputs, results, **attributes)


def attention_cases():
    def qkv(b=2, h=3, s=4, t=6, d=8, kv=None, dv=None, dtype=np.float32):
        kv, dv = kv or h, dv or d
        return floats(b, h, s, d, dtype=dtype), floats(b, kv, t, d, dtype=dtype), floats(b, kv, t, dv, dtype=dtype)

    def flat(b=2, h=3, s=4, t=6, d=8, kv=None, dv=None):
        kv, dv = kv or h, dv or d
        return floats(b, s, h * d), floats(b, t, kv * d), floats(b, t, kv * dv)

    def with_heads(h, kv, **more):
        return dict(q_num_heads=h, kv_num_heads=kv, **more)

    for opset in (23, 24):
        case = lambda name, *a, **more: attention_case(name, *a, opset=opset, **more)
        case("4d", *qkv())
        case("gqa", *qkv(h=9, kv=3))
        case("mqa", *qkv(h=4, kv=1))
        case("value_width", *qkv(dv=10))
        case("scale", *qkv(), attributes={"scale": 0.01})
        case("causal", *qkv(), attributes={"is_causal": 1})
        case("causal_tall", *qkv(s=6, t=4), attributes={"is_causal": 1})
        case("mask_2d", *qkv(), mask=floats(4, 6))
        case("mask_3d", *qkv(), mask=floats(3, 1, 6))
        case("mask_4d", *qkv(), mask=floats(2, 1, 4, 6))
        case("mask_1d", *qkv(), mask=floats(6))
        case("mask_causal", *qkv(), mask=floats(2, 3, 4, 6), attributes={"is_causal": 1})
        bools = random.uniform(size=(2, 3, 4, 6)) < 0.6
        bools[0, 0, 1] = False
        case("mask_bool", *qkv(), mask=bools)
        case("mask_bool_causal", *qkv(), mask=bools[0, 0], attributes={"is_causal": 1})
        infinite = np.where(bools, 0, -np.inf).astype(np.float32)
        case("mask_infinite_softcap", *qkv(), mask=infinite, attributes={"softcap": 2.0})
        case("softcap", *qkv(), attributes={"softcap": 0.5})
        case("softmax_precision", *qkv(), attributes={"softmax_precision": 11})
        case("3d", *flat(), attributes=with_heads(3, 3))
        case("3d_gqa", *flat(h=9, kv=3), attributes=with_heads(9, 3))
        case("3d_value_width", *flat(dv=10), attributes=with_heads(3, 3, is_causal=1))
        case("3d_mask", *flat(), mask=floats(4, 6), attributes=with_heads(3, 3, scale=0.3))
        past = floats(2, 3, 12, 8), floats(2, 3, 12, 8)
        case("past", *qkv(), outputs=3, past=past)
        case("past_mask_causal", *qkv(), outputs=3, past=past, mask=floats(4, 18), attributes={"is_causal": 1})
        case("past_gqa", *qkv(h=9, kv=3), outputs=3, past=past, mask=floats(4, 18))
        case("past_3d", *flat(), outputs=3, past=past, attributes=with_heads(3, 3, is_causal=1))
        for mode in range(4):
            case(f"qk_{mode}", *qkv(), outputs=2, mask=floats(4, 6),
                 attributes={"qk_matmul_output_mode": mode, "softcap": 1.5, "is_causal": 1})
        case("qk_past", *qkv(h=6, kv=3), outputs=4, past=past, attributes={"qk_matmul_output_mode": 3})
        case("one_query", *qkv(h=8, kv=2, s=1, t=33, d=16), attributes={"is_causal": 0})
        case("one_query_past", *qkv(h=8, kv=2, s=1, t=1), outputs=3, past=(floats(2, 2, 40, 8), floats(2, 2, 40, 8)),
             mask=floats(2, 8, 1, 41), attributes={"is_causal": 1})
        case("long", *qkv(b=1, h=2, s=150, t=900, d=24, dv=40))
        case("long_causal", *qkv(b=1, h=4, kv=2, s=500, t=500, d=16), attributes={"is_causal": 1})
        case("long_mask", *qkv(b=1, h=2, s=70, t=450, d=64), mask=random.uniform(size=(70, 450)) < 0.3)
        case("f16", *qkv(dtype=np.float16))
        half = floats(2, 3, 12, 8, dtype=np.float16), floats(2, 3, 12, 8, dtype=np.float16)
        for outputs in (1, 2, 3, 4):
            case(f"past_f16_{outputs}", *qkv(h=9, kv=3, dtype=np.float16), outputs=outputs, past=half)
        case("f64", *qkv(dtype=np.float64), mask=floats(4, 6, dtype=np.float64), attributes={"is_causal": 1})
    full = np.array([6, 3])
    attention_case("nonpad", *qkv(), opset=24, nonpad=full)
    attention_case("nonpad_causal", *qkv(s=2), opset=24, nonpad=full, attributes={"is_causal": 1})
    attention_case("nonpad_mask", *qkv(), opset=24, nonpad=np.array([4, 3]), mask=floats(4, 5))
    attention_case("nonpad_gqa_one", *qkv(h=4, kv=2, s=1, t=9), opset=24, nonpad=np.array([7, 2]),
                   attributes={"is_causal": 1})
    attention_case("mask_short", *qkv(), opset=24, mask=random.uniform(size=(4, 5)) < 0.7)
    attention_case("window", *qkv(s=9, t=9), opset=25, attributes={"left_window_size": 2, "right_window_size": 1})
    attention_case("window_causal", *qkv(s=9, t=9), opset=25, attributes={"left_window_size": 3, "is_causal": 1})
    attention_case("window_past", *qkv(s=3, t=3), opset=25, outputs=3, past=(floats(2, 3, 7, 8), floats(2, 3, 7, 8)),
                   attributes={"left_window_size": 4, "is_causal": 1})


# ---- RotaryEmbedding ----


def rotary(x, cosine, sine, positions=None, interleaved=0, rotary_embedding_dim=0, num_heads=None):
    flat = x.ndim == 3
    rows = heads(x, num_heads) if flat else x
    turned = rotary_embedding_dim or rows.shape[-1]
    if positions is not None:
        cosine, sine = cosine[positions], sine[positions]
    angle = (cosine.astype(np.float64) + 1j * sine)[:, None]
    if interleaved:
        first, second = slice(0, turned, 2), slice(1, turned, 2)
    else:
        first, second = slice(0, turned // 2), slice(turned // 2, turned)
    pairs = (rows[..., first] + 1j * rows[..., second].astype(np.float64)) * angle
    y = rows.copy()
    y[..., first], y[..., second] = pairs.real.astype(x.dtype), pairs.imag.astype(x.dtype)
    return y.transpose(0, 2, 1, 3).reshape(x.shape) if flat else y


def rotary_cases():
    positions = random.randint(0, 50, (2, 3))
    for name, shape, dtype, attributes in (
        ("4d", (2, 4, 3, 8), np.float32, {}),
        ("3d", (2, 3, 32), np.float32, {"num_heads": 4}),
        ("interleaved", (2, 4, 3, 8), np.float32, {"interleaved": 1}),
        ("partial", (2, 4, 3, 8), np.float32, {"rotary_embedding_dim": 4}),
        ("partial_interleaved", (2, 4, 3, 8), np.float32, {"rotary_embedding_dim": 4, "interleaved": 1}),
        ("partial_3d", (2, 3, 40), np.float32, {"rotary_embedding_dim": 6, "num_heads": 5}),
        ("f16", (2, 4, 3, 8), np.float16, {}),
    ):
        width = shape[-1] // attributes.get("num_heads", 1)
        pairs = attributes.get("rotary_embedding_dim", width) // 2
        x = floats(*shape, dtype=dtype)
        table = random.uniform(-3, 3, (50, pairs))
        cosine, sine = np.cos(table).astype(dtype), np.sin(table).astype(dtype)
        y = rotary(x, cosine, sine, positions, **attributes)
        write(f"rotary_embedding_{name}", "RotaryEmbedding", 23, [x, cosine, sine, positions], [y], **attributes)
        own = random.uniform(-3, 3, (2, 3, pairs))
        cosine, sine = np.cos(own).astype(dtype), np.sin(own).astype(dtype)
        y = rotary(x, cosine, sine, None, **attributes)
        write(f"rotary_embedding_{name}_own", "RotaryEmbedding", 23, [x, cosine, sine], [y], **attributes)


# ---- LinearAttention ----


def linear_attention(q, k, v, state, decay, beta, erase, rule, q_heads, kv_heads, scale):
    dtype = q.dtype
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    q, k, v = heads(q, q_heads), heads(k, kv_heads), heads(v, kv_heads)
    state_dtype = dtype if state is None else state.dtype
    state = np.zeros((*k.shape[:2], k.shape[3], v.shape[3])) if state is None else state.astype(np.float64)
    scale = scale or q.shape[3] ** -0.5
    y = np.zeros((*q.shape[:3], v.shape[3]))
    for t in range(q.shape[2]):
        value = v[:, :, t]
        if decay is not None:
            state = state * np.exp(heads(decay, kv_heads)[:, :, t, :, None].astype(np.float64))
        if beta is not None:
            key = k[:, :, t] * (heads(erase, kv_heads)[:, :, t] if erase is not None else 1)
            value = beta[:, t, :, None] * (value - np.einsum("bhdm,bhd->bhm", state, key))
        state = state + k[:, :, t, :, None] * value[:, :, None, :]
        read = np.repeat(state, q_heads // kv_heads, 1)
        y[:, :, t] = scale * np.einsum("bhd,bhdm->bhm", q[:, :, t], read)
    y = y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)
    return y.astype(dtype), state.astype(state_dtype)


def linear_attention_cases():
    for rule in ("linear", "gated", "delta", "gated_delta"):
        for name, hq, hk, d, dv, wide, with_state, with_erase, dtype in (
            ("plain", 2, 2, 8, 8, False, False, False, np.float32),
            ("gqa_state", 4, 2, 8, 6, True, True, False, np.float32),
            ("wide", 2, 1, 16, 70, True, True, True, np.float32),
            ("f16", 2, 2, 4, 4, False, True, False, np.float16),
        ):
            b, t = 2, 5
            q, k, v = floats(b, t, hq * d, dtype=dtype), floats(b, t, hk * d, dtype=dtype) / 4, floats(b, t, hk * dv, dtype=dtype)
            k = k.astype(dtype)
            state = floats(b, hk, d, dv) if with_state else None
            decay = -random.uniform(size=(b, t, hk * d if wide else hk)).astype(dtype) if "gated" in rule else None
            beta = random.uniform(size=(b, t, 1 if wide else hk)).astype(dtype) if "delta" in rule else None
            erase = floats(b, t, hk * d, dtype=dtype) if with_erase and "delta" in rule else None
            scale = 0.25 if wide else 0.0
            y, present = linear_attention(q, k, v, state, decay, beta, erase, rule, hq, hk, scale)
            inputs = [q, k, v, state, decay, beta, erase]
            while inputs[-1] is None:
                inputs.pop()
            attributes = {"scale": scale} if scale else {}
            if rule != "gated_delta":
                attributes["update_rule"] = rule
            write(f"linear_attention_{rule}_{name}", "LinearAttention", 27, inputs, [y, present], q_num_heads=hq,
                  kv_num_heads=hk, chunk_size=64, **attributes)


# ---- The rest ----


def sigmoid(x):
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def causal_conv_cases():
    for name, length, width, with_bias, with_past, activation in (
        ("plain", 7, 4, False, False, None),
        ("bias_silu", 7, 3, True, False, "silu"),
        ("past_swish", 1, 4, True, True, "swish"),
        ("past", 5, 4, False, True, "none"),
        ("width_1", 4, 1, True, False, "silu"),
    ):
        x, w = floats(2, 6, length), floats(6, 1, width)
        bias = floats(6) if with_bias else None
        past = floats(2, 6, width - 1) if with_past else None
        whole = np.concatenate([np.zeros((2, 6, width - 1), np.float32) if past is None else past, x], 2)
        y = sum(whole[:, :, i : i + length].astype(np.float64) * w[:, 0, i, None] for i in range(width))
        y = y if bias is None else y + bias[:, None]
        y = y * sigmoid(y) if activation in ("silu", "swish") else y
        inputs = [x, w, bias, past]
        while inputs[-1] is None:
            inputs.pop()
        attributes = {} if activation is None else {"activation": activation}
        write(f"causal_conv_with_state_{name}", "CausalConvWithState", 27, inputs,
              [y.astype(np.float32), whole[:, :, whole.shape[2] - (width - 1) :]], **attributes)


# ---- FlexAttention ----


def changed(name, dtype, nodes, constants):
    """A graph that maps `at` to `out`, both of four dimensions."""
    kind = case_models.dtype_of(np.zeros(1, dtype))
    ends = [helper.make_tensor_value_info(n, kind, ["B", "H", "L", "S"]) for n in ("at", "out")]
    return helper.make_graph([case_models.node(*n[:3], **(n[3] if len(n) > 3 else {})) for n in nodes], name, ends[:1],
                             ends[1:], [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()])


def causal_graph(dtype):
    return changed("causal", dtype, [
        ("Shape", ["at"], ["shape"]), ("Gather", ["shape", "two"], ["l"]), ("Gather", ["shape", "three"], ["s"]),
        ("Range", ["zero", "l", "one"], ["rows"]), ("Reshape", ["rows", "down"], ["query"]),
        ("Range", ["zero", "s", "one"], ["columns"]), ("Reshape", ["columns", "across"], ["key"]),
        ("GreaterOrEqual", ["query", "key"], ["seen"]), ("Where", ["seen", "at", "never"], ["out"]),
    ], {"zero": np.int64(0), "one": np.int64(1), "two": np.int64(2), "three": np.int64(3), "never": dtype(-np.inf),
        "down": np.array([1, 1, -1, 1]), "across": np.array([1, 1, 1, -1])})


def flex_attention_cases():
    cap = changed("cap", np.float32, [("Div", ["at", "c"], ["d"]), ("Tanh", ["d"], ["t"]), ("Mul", ["t", "c"], ["out"])],
                  {"c": np.float32(2)})
    same = changed("same", np.float32, [("Identity", ["at"], ["out"])], {})
    half = changed("half", np.float32, [("Mul", ["at", "h"], ["out"])], {"h": np.float32(0.5)})
    hide = lambda s: np.where(np.tri(*s.shape[2:], dtype=bool), s, -np.inf)
    for name, heads_of, dtype, width, scale, score, prob, score_graph, prob_graph in (
        ("plain", (4, 4), np.float32, 8, None, None, None, None, None),
        ("scale", (4, 4), np.float32, 8, 0.1, None, None, None, None),
        ("gqa", (8, 2), np.float32, 8, None, None, None, None, None),
        ("width", (3, 3), np.float32, 16, None, None, None, None, None),
        ("f16", (4, 2), np.float16, 8, None, None, None, None, None),
        ("f64", (4, 4), np.float64, 8, 0.3, None, None, None, None),
        ("cap", (4, 4), np.float32, 8, None, lambda s: 2 * np.tanh(s / 2), None, cap, None),
        ("same", (2, 2), np.float32, 8, None, None, None, same, same),
        ("prob", (4, 4), np.float32, 16, 0.7, None, lambda p: p / 2, None, half),
        ("both_gqa", (6, 3), np.float32, 5, None, lambda s: 2 * np.tanh(s / 2), lambda p: p / 2, cap, half),
        ("causal", (4, 2), np.float32, 8, None, hide, None, causal_graph(np.float32), None),
        ("causal_f16", (4, 2), np.float16, 8, None, hide, None, causal_graph(np.float32), None),
        ("causal_f64", (2, 2), np.float64, 8, None, hide, None, causal_graph(np.float64), None),
    ):
        q_heads, kv_heads = heads_of
        q, k, v = (floats(2, h, length, d, dtype=dtype) for h, length, d in (
            (q_heads, 5, 8), (kv_heads, 6, 8), (kv_heads, 6, width)))
        wide = [np.repeat(x.astype(np.float64), q_heads // x.shape[1], 1) for x in (q, k, v)]
        scores = wide[0] @ wide[1].swapaxes(2, 3) * (8 ** -0.5 if scale is None else scale)
        scores = scores if score is None else score(scores)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = weights / weights.sum(-1, keepdims=True)
        y = ((weights if prob is None else prob(weights)) @ wide[2]).astype(dtype)
        attributes = {n: a for n, a in (("scale", scale), ("score_mod", score_graph), ("prob_mod", prob_graph))
                      if a is not None}
        for known in (True, False):
            case_models.write(f"flex_attention_{name}" + ("" if known else "_open"), [case_models.node(
                "FlexAttention", ["q", "k", "v"], ["y"], "ai.onnx.preview", **attributes)], {"q": q, "k": k, "v": v},
                {"y": y}, opsets=[("", 26), ("ai.onnx.preview", 1)], known=known)


def small_cases():
    for name, shape, dtype, alpha in (("default", (3, 4, 5), np.float32, None), ("alpha", (2, 7), np.float32, 1.7),
                                      ("f16", (4, 4), np.float16, None), ("f64", (6,), np.float64, 0.5)):
        a, b = floats(*shape, dtype=dtype), floats(*shape, dtype=dtype)
        attributes = {} if alpha is None else {"alpha": alpha}
        gate = a * sigmoid((alpha or 1) * a.astype(np.float64))
        write(f"swiglu_{name}", "SwiGLU", 28, [a, b], [(gate * b).astype(dtype)], **attributes)
        write(f"swish_{name}", "Swish", 24, [a], [gate.astype(dtype)], **attributes)
        for approximate in (None, "none", "tanh"):
            wide = a.astype(np.float64)
            inside = np.tanh((2 / np.pi) ** 0.5 * (wide + 0.044715 * wide**3)) if approximate == "tanh" else \
                np.vectorize(math.erf)(wide / 2**0.5)
            write(f"geglu_{name}_{approximate}", "GeGLU", 28, [a, b], [(wide / 2 * (1 + inside) * b).astype(dtype)],
                  **({} if approximate is None else {"approximate": approximate}))
    for name, axis, x_type, scale_type, scale_shape in (
        ("last", -1, np.float32, np.float32, (5,)),
        ("middle", 1, np.float32, np.float32, (4, 5)),
        ("all", 0, np.float32, np.float32, (3, 4, 5)),
        ("broadcast", 1, np.float32, np.float32, (5,)),
        ("f16", -1, np.float16, np.float16, (5,)),
        ("f16_f32", -1, np.float16, np.float32, (5,)),
        ("f32_f64", -2, np.float32, np.float64, (4, 5)),
    ):
        x, scale = floats(3, 4, 5, dtype=x_type), floats(*scale_shape, dtype=scale_type)
        wide = x.astype(np.float64)
        axes = tuple(range(axis % 3, 3))
        y = wide / np.sqrt((wide * wide).mean(axes, keepdims=True) + 1e-3) * scale
        write(f"rms_normalization_{name}", "RMSNormalization", 23, [x, scale], [y.astype(scale_type)], axis=axis,
              epsilon=1e-3)
    for name, mode, axis, starts, shape, count in (
        ("linear", "linear", -2, [1, 2], (2, 3, 6, 4), 2),
        ("circular", "circular", -2, [5, 3], (2, 3, 6, 4), 3),
        ("no_indices", "linear", -2, None, (2, 3, 6, 4), 4),
        ("axis", "linear", 1, [0, 2], (2, 5, 4), 3),
        ("last_axis", "circular", -1, [9, 4], (2, 2, 5), 2),
    ):
        cache = floats(*shape)
        update_shape = list(shape)
        update_shape[axis] = count
        update, y = floats(*update_shape), cache.copy()
        for b in range(shape[0]):
            for i in range(count):
                at = (0 if starts is None else starts[b]) + i
                to = np.moveaxis(y[b], axis if axis < 0 else axis - 1, 0)
                to[at % shape[axis]] = np.moveaxis(update[b], axis if axis < 0 else axis - 1, 0)[i]
        inputs = [cache, update] + ([] if starts is None else [np.array(starts)])
        write(f"tensor_scatter_{name}", "TensorScatter", 24, inputs, [y], mode=mode, axis=axis)


if __name__ == "__main__":
    case_models.main(__doc__, [attention_cases, rotary_cases, linear_attention_cases, causal_conv_cases,
                               flex_attention_cases, small_cases])

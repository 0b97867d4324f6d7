"""Operators of opsets that the peer does not have yet; NumPy is the judge."""
import numpy as np

from case import FLOATS, KINDS
from elementwise import erf, sigmoid
from table import operator


@operator("BitCast", 26, 28, weight=2)
def bit_cast(case):
    case.without_peer()
    width = case.choice([1, 2, 4, 8])
    kinds = {1: ["i8", "u8"], 2: ["i16", "u16", "f16"], 4: ["i32", "u32", "f32"], 8: ["i64", "u64", "f64"]}[width]
    source, target = case.choice(kinds), case.choice(kinds)
    x = np.ascontiguousarray(case.values(case.shape(), source))
    y = case.node("BitCast", [case.feed(x, source)], to=KINDS[target][0])
    case.output(y, target, np.frombuffer(x.tobytes(), KINDS[target][1]).reshape(x.shape))
    case.within(0, 0)


@operator("CumProd", 26, 28, weight=2)
def cum_prod(case):
    case.without_peer()
    kind = case.kind(FLOATS + ("i32", "i64", "u32", "u64"))
    shape = case.shape(low=1, limit=700)
    axis = case.axis(len(shape))
    x = case.values(shape, kind, 0.5, 1.5) if kind in FLOATS else case.ints(shape, kind, 1, 3)
    exclusive, reverse = case.choice([None, 0, 1]), case.choice([None, 0, 1])
    y = case.node("CumProd", [case.feed(x, kind), case.setting(axis, case.choice(["i32", "i64"]), 0)], exclusive=exclusive, reverse=reverse)
    turned = np.flip(x, axis) if reverse else x
    with np.errstate(all="ignore"):
        products = np.cumprod(turned.astype(np.float64) if kind in FLOATS else turned, axis, dtype=None if kind in FLOATS else x.dtype)
    if exclusive:
        products = np.concatenate([np.ones_like(products.take([0], axis)), products], axis).take(range(shape[axis]), axis) \
            if shape[axis] else products
    case.output(y, kind, np.flip(products, axis) if reverse else products)
    case.within(*{"f16": (5e-2, 1e-2), "f32": (1e-4, 1e-5), "f64": (1e-10, 1e-12)}.get(kind, (0, 0)))


@operator("SwiGLU", 28, 28, weight=2)
def swiglu(case):
    case.without_peer()
    kind = case.kind(FLOATS)
    shape = case.shape()
    a, b = case.values(shape, kind, -5, 5), case.values(shape, kind)
    alpha = case.choice([None, case.real(0.2, 2)])
    y = case.node("SwiGLU", [case.feed(a, kind), case.feed(b, kind)], alpha=alpha)
    wide = a.astype(np.float64)
    case.output(y, kind, wide * sigmoid((alpha or 1) * wide) * b)
    case.within(*{"f16": (1e-2, 1e-2), "f32": (1e-5, 1e-6), "f64": (1e-6, 1e-6)}[kind])


@operator("CausalConvWithState", 27, 28, weight=2)
def causal_conv_with_state(case):
    case.without_peer()
    batch, channels, length, width = case.integer(1, 3), case.choice([1, 3, 8, 16, 17]), case.choice([1, 2, 5, 17, 33]), case.integer(1, 5)
    x, w = case.values([batch, channels, length], "f32"), case.values([channels, 1, width], "f32", -1, 1)
    case.known("sizes")  # of the weights
    operands = [case.feed(x, "f32"), case.feed(w, "f32", 0.6), "", ""]
    whole = np.zeros([batch, channels, width - 1], np.float32)
    bias = np.zeros(channels)
    if case.chance(0.5):
        bias = case.values([channels], "f32")
        operands[2] = case.feed(bias, "f32", 0.6)
    if case.chance(0.5):
        whole = case.values([batch, channels, width - 1], "f32")
        operands[3] = case.feed(whole, "f32")
    whole = np.concatenate([whole, x], 2)
    activation = case.choice([None, "none", "silu", "swish"])
    y, present = case.node("CausalConvWithState", operands, 2, activation=activation)
    expected = sum(whole[:, :, i:i + length].astype(np.float64) * w[:, 0, i, None] for i in range(width)) + bias[:, None]
    case.output(y, "f32", expected * sigmoid(expected) if activation in ("silu", "swish") else expected)
    case.output(present, "f32", whole[:, :, length:])
    case.within(1e-5, 1e-5)


def heads(x, count):
    return x.reshape(x.shape[0], x.shape[1], count, -1).transpose(0, 2, 1, 3).astype(np.float64)


@operator("LinearAttention", 27, 28, weight=2)
def linear_attention(case):
    case.without_peer()
    rule = case.choice(["linear", "gated", "delta", "gated_delta"])
    batch, steps, kv_heads = case.integer(1, 2), case.choice([1, 2, 5, 9]), case.integer(1, 3)
    q_heads, size, width = kv_heads * case.integer(1, 2), case.choice([1, 4, 8, 15, 16, 17]), case.choice([1, 4, 8, 16, 17, 33])
    q, k, v = (case.values([batch, steps, count], "f32", -1, 1)
               for count in (q_heads * size, kv_heads * size, kv_heads * width))
    k = (k / size ** 0.5).astype(np.float32)
    operands = [case.feed(array, "f32") for array in (q, k, v)] + ["", "", ""]
    state = np.zeros([batch, kv_heads, size, width])
    if case.chance(0.5):
        state = case.values([batch, kv_heads, size, width], "f32", -1, 1)
        operands[3] = case.feed(state, "f32")
    decay = beta = None
    if "gated" in rule:
        decay = case.values([batch, steps, kv_heads * case.choice([1, size])], "f32", -1, 0)
        operands[4] = case.feed(decay, "f32")
        decay = heads(decay, kv_heads)
    if "delta" in rule:
        beta = case.values([batch, steps, case.choice([1, kv_heads])], "f32", 0, 1)
        operands[5] = case.feed(beta, "f32")
    scale = case.choice([None, case.real(0.1, 1)])
    y, present = case.node("LinearAttention", operands, 2, q_num_heads=q_heads, kv_num_heads=kv_heads, scale=scale,
                           update_rule=rule if rule != "gated_delta" or case.chance(0.5) else None)
    q, k, v = heads(q, q_heads), heads(k, kv_heads), heads(v, kv_heads)
    expected = np.zeros([batch, steps, q_heads, width])
    for t in range(steps):
        value = v[:, :, t]
        if decay is not None:
            state = state * np.exp(decay[:, :, t, :, None])
        if beta is not None:
            value = beta[:, t, :, None] * (value - np.einsum("bhdm,bhd->bhm", state, k[:, :, t]))
        state = state + k[:, :, t, :, None] * value[:, :, None, :]
        read = np.repeat(state, q_heads // kv_heads, 1)
        expected[:, t] = (scale or size ** -0.5) * np.einsum("bhd,bhdm->bhm", q[:, :, t], read)
    case.output(y, "f32", expected.reshape(batch, steps, -1))
    case.output(present, "f32", state)
    case.within(1e-4, 5e-5)


@operator("GeGLU", 28, 28, weight=2)
def geglu(case):
    case.without_peer()
    kind = case.kind(FLOATS)
    shape = case.shape()
    a, b = case.values(shape, kind, -5, 5), case.values(shape, kind)
    approximate = case.choice([None, "none", "tanh"])
    y = case.node("GeGLU", [case.feed(a, kind), case.feed(b, kind)], approximate=approximate)
    wide = a.astype(np.float64)
    inside = np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide ** 3)) if approximate == "tanh" else erf(wide / np.sqrt(2))
    case.output(y, kind, wide / 2 * (1 + inside) * b)
    case.within(*{"f16": (1e-2, 1e-2), "f32": (1e-5, 2e-6), "f64": (1e-6, 1e-6)}[kind])


@operator("Searchsorted", 28, 28, weight=2)
def searchsorted(case):
    case.without_peer()
    kind = case.choice(["f32", "f64", "i32", "i64"])
    x = np.sort(case.values([case.choice([1, 2, 7, 17, 100])], kind, -1, 1))
    values, side = case.values(case.shape(limit=300), kind, -1.2, 1.2), case.choice([None, "left", "right"])
    values = np.where(case.numpy.random(values.shape) < 0.3, x[0], values)
    operands, places = [x, values], np.searchsorted(x, values, side or "left")
    if case.chance(0.4):
        order = case.numpy.permutation(len(x))
        operands = [x[order], values, np.argsort(order)]
    names = [case.feed(array, "i64" if at == 2 else kind) for at, array in enumerate(operands)]
    case.output(case.node("Searchsorted", names, side=side), "i64", np.asarray(places))

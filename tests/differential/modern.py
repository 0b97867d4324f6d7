"""Operators of opset 19 and later, those of training, and random ones, of which only types and shapes are compared."""
import math

import numpy as np

from table import operator


@operator("AffineGrid", 20)
def affine_grid(case):
    kind = case.kind(["f32", "f64"])
    rank = case.choice([2, 2, 3])
    batch, size = case.integer(1, 3), [case.integer(2, 9) for _ in range(rank)]
    theta = case.values([batch, rank, rank + 1], kind)
    y = case.node("AffineGrid", [case.feed(theta, kind), case.setting([batch, case.integer(1, 3)] + size)],
                  align_corners=case.choice([None, 0, 1]))
    case.output(y, kind)
    case.within(1e-5, 1e-5)


@operator("DeformConv", 19)
def deform_conv(case):
    case.known("rank")
    groups, offset_groups = case.choice([1, 1, 2]), case.choice([1, 1, 2])
    into, out = 2 * case.integer(1, 3), 2 * case.integer(1, 3)
    kernel = [case.integer(1, 3), case.integer(1, 3)]
    strides, dilations = [case.integer(1, 2), case.integer(1, 2)], [case.integer(1, 2), case.integer(1, 2)]
    pads = [case.integer(0, 2) for _ in range(4)]
    image = [case.integer(5, 12), case.integer(5, 12)]
    result = [(image[i] + pads[i] + pads[i + 2] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(2)]
    batch, places = case.integer(1, 2), kernel[0] * kernel[1]
    operands = [case.feed(case.values([batch, into] + image, "f32", -1, 1), "f32"),
                case.feed(case.values([out, into // groups] + kernel, "f32", -1, 1), "f32", 0.6),
                case.feed(case.values([batch, offset_groups * places * 2] + result, "f32", -2, 2), "f32"), ""]
    if case.chance(0.5):
        operands[3] = case.feed(case.values([out], "f32", -1, 1), "f32", 0.6)
    if case.chance(0.5):
        operands.append(case.feed(case.values([batch, offset_groups * places] + result, "f32", 0, 1), "f32"))
    y = case.node("DeformConv", operands, group=groups, offset_group=offset_groups, strides=strides, dilations=dilations,
                  pads=pads, kernel_shape=kernel)
    case.output(y, "f32")
    case.within(1e-4, 1e-4)


@operator("RotaryEmbedding", 23)
def rotary_embedding(case):
    batch, heads, length = case.integer(1, 3), case.integer(1, 4), case.integer(1, 9)
    size = 2 * case.choice([1, 2, 4, 8, 9, 16])
    # The peer wants all of a head turned where there are positions.
    rotated = case.choice([0, 0, 2 * case.integer(1, size // 2)])
    half = (rotated or size) // 2
    packed = case.chance(0.4)
    x = case.values([batch, length, heads * size] if packed else [batch, heads, length, size], "f32")
    operands = [case.feed(x, "f32")]
    if case.chance(0.6):
        top = length + case.integer(0, 5)
        operands += [case.feed(case.values([top, half], "f32", -1, 1), "f32") for _ in range(2)]
        operands.append(case.feed(case.ints([batch, length], "i64", 0, top - 1), "i64"))
    else:
        operands += [case.feed(case.values([batch, length, half], "f32", -1, 1), "f32") for _ in range(2)]
    y = case.node("RotaryEmbedding", operands, interleaved=case.choice([None, 0, 1]), rotary_embedding_dim=rotated or None,
                  num_heads=heads if packed else None)
    case.output(y, "f32")
    case.within(1e-5, 1e-5)


@operator("Attention", 23, weight=4)
def attention(case):
    groups, shared = case.integer(1, 3), case.integer(1, 3)
    q_heads, batch = groups * shared, case.integer(1, 2)
    length, total = case.choice([1, 2, 3, 8, 17, 33]), case.choice([1, 2, 5, 8, 17, 33, 64])
    size, v_size = case.choice([4, 8, 15, 16, 32, 64]), case.choice([4, 8, 16, 17, 32])
    packed = case.chance(0.3)
    past = case.chance(0.25)
    earlier = case.integer(1, 6) if past else 0
    causal = case.choice([None, 0, 1])
    if length == 1:  # the peer then looks at all places
        causal = None
    def three(heads, steps, width):
        array = case.values([batch, steps, heads * width] if packed else [batch, heads, steps, width], "f32", -1, 1)
        return case.feed(array, "f32")
    operands = [three(q_heads, length, size), three(groups, total, size), three(groups, total, v_size)]
    mask = case.choice([None, None, "bool", "f32"])
    if mask:
        dims = case.choice([[length, total + earlier], [batch, 1, length, total + earlier], [batch, q_heads, length, total + earlier]])
        array = case.values(dims, mask, -2, 2)
        if mask == "bool":  # a row without any place to look at is undefined
            array[..., 0] = True
        operands.append(case.feed(array, mask))
    else:
        operands.append("")
    if past:
        operands += [case.feed(case.values([batch, groups, earlier, width], "f32", -1, 1), "f32") for width in (size, v_size)]
    count = 3 if past else 1
    names = case.node("Attention", operands, count, is_causal=causal, scale=case.choice([None, case.real(0.1, 1)]),
                      softcap=case.choice([None, None, case.real(1, 5)]), q_num_heads=q_heads if packed else None,
                      kv_num_heads=groups if packed else None)
    for name in [names] if count == 1 else names:
        case.output(name, "f32")
    case.within(1e-4, 1e-4)


@operator("TensorScatter", 24)
def tensor_scatter(case):
    kind = case.kind(["f32", "f64", "i32", "i64"])
    batch, steps, added = case.integer(1, 3), case.integer(4, 9), case.integer(1, 4)
    shape = [batch, case.integer(1, 3), steps, case.integer(1, 9)]
    circular = case.chance(0.4)
    operands = [case.feed(case.values(shape, kind), kind), case.feed(case.values(shape[:2] + [added] + shape[3:], kind), kind)]
    if case.chance(0.6):
        operands.append(case.feed(case.ints([batch], "i64", 0, steps - 1 if circular else steps - added), "i64"))
    y = case.node("TensorScatter", operands, mode="circular" if circular else case.choice([None, "linear"]), axis=case.choice([None, 2, -2]))
    case.output(y, kind)


def declare_random(name, since, attributes):
    @operator(name, since)
    def draw(case):
        kind = case.choice(["f32", "f64"])
        given = {key: case.real(*bounds) for key, bounds in attributes.items() if case.chance(0.7)}
        given["dtype"] = case.choice([None, 1, 11])
        if case.chance(0.5):
            given["seed"] = case.real(1, 100)
        if name.endswith("Like"):
            y = case.node(name, [case.feed(case.values(case.shape(), kind), kind)], **given)
        else:
            y = case.node(name, [], shape=case.shape(low=1, zero=0), **given)
        case.as_before(21)
        result = {1: "f32", 11: "f64"}.get(given["dtype"], kind if name.endswith("Like") else "f32")
        case.output(y, result)


for _name in ("RandomNormal", "RandomNormalLike"):
    declare_random(_name, 7, {"mean": (-1, 1), "scale": (0.1, 2)})
for _name in ("RandomUniform", "RandomUniformLike"):
    declare_random(_name, 7, {"low": (-1, 0), "high": (0.5, 2)})


@operator("Bernoulli", 15)
def bernoulli(case):
    kind = case.choice(["f32", "f64"])
    x = case.floats(case.shape(), kind, 0, 1)
    case.as_before(21)
    case.output(case.node("Bernoulli", [case.feed(x, kind)], dtype=case.choice([None, 1, 11, 9, 7]), seed=case.choice([None, 3.0])))


@operator("Multinomial")
def multinomial(case):
    x = case.floats([case.integer(1, 4), case.integer(1, 9)], "f32", -3, 0)
    to = case.choice([None, 6, 7])
    case.as_before(21)
    case.output(case.node("Multinomial", [case.feed(x, "f32")], sample_size=case.integer(1, 9), dtype=to), "i64" if to == 7 else "i32")


# ---- Training, which ONNX Runtime does not support ----

TRAINING = "ai.onnx.preview.training"


def stepped(case, name, states, attributes):
    case.domains[TRAINING] = 1
    case.without_peer()
    shape = case.shape(limit=700)
    rate, count = np.float32(case.real(0.01, 0.5)), np.int64(case.choice([0, 1, 7]))
    x, gradient = case.values(shape, "f32"), case.values(shape, "f32")
    held = [np.abs(case.values(shape, "f32")) for _ in range(states)]
    y = case.node(name, [case.feed(rate, "f32"), case.feed(count, "i64")] + [case.feed(array, "f32") for array in [x, gradient] + held],
                  1 + states, domain=TRAINING, **attributes)
    case.within(1e-5, 1e-6)
    return float(rate), int(count), x.astype(float), gradient.astype(float), [array.astype(float) for array in held], y


@operator("Momentum", 12)
def momentum(case):
    alpha, beta, decay = case.real(0.1, 0.9), case.real(0.1, 1), case.real(0, 0.1)
    mode = case.choice(["standard", "nesterov"])
    rate, count, x, gradient, (v,), (y, w) = stepped(case, "Momentum", 1, {"alpha": alpha, "beta": beta, "norm_coefficient": decay, "mode": mode})
    gradient = decay * x + gradient
    new = alpha * v + (beta if count > 0 else 1) * gradient
    case.output(y, "f32", x - rate * (gradient + alpha * new if mode == "nesterov" else new))
    case.output(w, "f32", new)


@operator("Adagrad", 12)
def adagrad(case):
    decay, slower, epsilon = case.real(0, 0.1), case.real(0, 0.5), 1e-3
    rate, count, x, gradient, (h,), (y, w) = stepped(case, "Adagrad", 1, {"norm_coefficient": decay, "decay_factor": slower, "epsilon": epsilon})
    gradient = decay * x + gradient
    squares = h + gradient * gradient
    case.output(y, "f32", x - rate / (1 + count * slower) * gradient / (np.sqrt(squares) + epsilon))
    case.output(w, "f32", squares)


@operator("Adam", 12)
def adam(case):
    alpha, beta, epsilon = case.real(0.5, 0.9), case.real(0.5, 0.99), 1e-2
    before, after = case.real(0, 0.1), case.real(0, 0.1)
    rate, count, x, gradient, (v, h), (y, w, s) = stepped(
        case, "Adam", 2, {"alpha": alpha, "beta": beta, "epsilon": epsilon, "norm_coefficient": before, "norm_coefficient_post": after})
    gradient = before * x + gradient
    v, h = alpha * v + (1 - alpha) * gradient, beta * h + (1 - beta) * gradient * gradient
    adjusted = rate * math.sqrt(1 - beta ** count) / (1 - alpha ** count) if count > 0 else rate
    case.output(y, "f32", (1 - after) * (x - adjusted * v / (np.sqrt(h) + epsilon)))
    case.output(w, "f32", v)
    case.output(s, "f32", h)

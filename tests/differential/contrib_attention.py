"""ONNX Runtime's contributed attention."""
import math

import numpy as np

from case import KINDS, rounded
from contrib import contrib, narrow, node, softmax, value


def sizes(case):
    """Batch, length, heads, size of a head."""
    return case.choice([1, 2, 3]), case.choice([1, 2, 3, 5, 9, 17]), case.choice([1, 2, 3, 4]), case.choice([2, 4, 8, 16, 20])


def mask_of(case, batch, queries, keys, shapes):
    """A mask, whose kind is one of `shapes`: that of numbers for each key, or lengths, ends and beginnings."""
    shape = case.choice(shapes)
    if shape == "lengths":
        return case.feed(case.ints([batch], "i32", 1, keys), "i32", 0)
    if shape == "ends":
        begins = case.ints([batch], "i32", 0, max(0, keys - 2))
        return case.feed(np.concatenate([np.minimum(begins + 1 + case.ints([batch], "i32", 0, keys), keys), begins]).astype(np.int32), "i32", 0)
    mask = case.ints([batch] + ([queries] if shape == "pairs" else []) + [keys], "i32", 0, 1)
    mask[..., 0] = 1
    return case.feed(mask, "i32", 0)


@contrib("Attention", weight=6)
def attention(case):
    batch, length, heads, size = sizes(case)
    width, into = heads * size, case.choice([4, 8, 15, 32])
    case.known("sizes")
    value_width = heads * case.choice([size, size, 4]) if case.chance(0.3) else width
    past = case.choice([0, 0, 1, 4]) if value_width == width else 0
    operands = [value(case, [batch, length, into])[0], value(case, [into, 2 * width + value_width], low=-1, high=1, constant=0.7)[0],
                value(case, [2 * width + value_width], constant=0.7)[0]]
    causal = case.chance(0.4)
    masked = case.chance(0.6)
    operands.append(mask_of(case, batch, length, past + length, ["numbers", "pairs"] + ["lengths", "ends"] * (past == 0)) if masked else "")
    operands.append(value(case, [2, batch, heads, past, size])[0] if past else "")
    if not past and case.chance(0.3):
        operands.append(value(case, [case.choice([1, batch]), case.choice([1, heads]), length, past + length])[0])
    present = value_width == width and (past or case.chance(0.3))
    results = node(case, "Attention", operands, 2 if present else 1, num_heads=heads, unidirectional=int(causal), scale=case.choice([None, 0.3]),
                   mask_filter_value=case.choice([None, None, -500.0]),
                   qkv_hidden_sizes=[width, width, value_width] if value_width != width or case.chance(0.2) else None)
    for name in results if present else [results]:
        case.output(name, "f32")
    case.within(1e-4, 5e-4)


@contrib("MultiHeadAttention", weight=6)
def multi_head_attention(case):
    batch, length, heads, size = sizes(case)
    width, keys = heads * size, case.choice([length, case.choice([1, 3, 7])])
    value_width = heads * case.choice([size, size, 6])
    cross = case.chance(0.2)
    past = 0 if cross else case.choice([0, 0, 1, 4])
    if past:
        keys = length
    if past or cross:
        value_width = width
    case.known("sizes")
    operands = [value(case, [batch, length, width])[0]]
    if cross:
        operands += [value(case, [batch, heads, keys, size])[0], value(case, [batch, heads, keys, value_width // heads])[0], ""]
    else:
        operands += [value(case, [batch, keys, width])[0], value(case, [batch, keys, value_width])[0],
                     value(case, [2 * width + value_width])[0] if case.chance(0.5) else ""]
    operands.append(mask_of(case, batch, length, past + keys, ["numbers", "pairs"]) if case.chance(0.4) else "")
    operands.append(value(case, [case.choice([1, batch]), case.choice([1, heads]), length, past + keys])[0] if case.chance(0.3) else "")
    if past:
        operands += [value(case, [batch, heads, past, size])[0], value(case, [batch, heads, past, value_width // heads])[0]]
    results = node(case, "MultiHeadAttention", operands, 3, num_heads=heads, scale=case.choice([None, 0.3]),
                   unidirectional=int(not cross and keys == length and case.chance(0.3)))
    case.output(results[0], "f32")
    if past or (not cross and case.chance(0.3)):
        case.output(results[1], "f32")
        case.output(results[2], "f32")
    case.within(1e-4, 5e-4)


@contrib("DecoderMaskedMultiHeadAttention", weight=2)
def decoder_masked(case):
    batch, _, heads, size = sizes(case)
    keys = case.choice([1, 4, 9])
    case.known("sizes")
    operands = [value(case, [batch, 1, heads * size])[0], value(case, [batch, heads, keys, size])[0], value(case, [batch, heads, keys, size])[0],
                mask_of(case, batch, 1, keys, ["numbers"]) if case.chance(0.5) else ""]
    case.output(node(case, "DecoderMaskedMultiHeadAttention", operands, num_heads=heads, scale=case.choice([None, 0.3])), "f32")
    case.within(1e-4, 5e-4)


def cache(case, positions, size, kind="f32"):
    angles = case.values([positions, size // 2], "f32", -3, 3)
    return [case.feed(rounded(np.cos(angles), kind), kind, 0.6), case.feed(rounded(np.sin(angles), kind), kind, 0.6)]


def close(case, kind):
    case.within(*((1e-4, 5e-4) if kind == "f32" else (1e-2, 2e-2)))


@contrib("DecoderMaskedMultiHeadAttention", weight=2)
def decoder_masked_in_place(case):
    """Into buffers with room. Of a past of 0 the peer takes the room for the past, and writes behind it."""
    batch, _, heads, size = sizes(case)
    room = case.choice([2, 5, 9])
    past = case.integer(1, room - 1)
    case.known("sizes")
    operands = [value(case, [batch, 1, heads * size])[0] for _ in range(3)] + ["", ""]
    operands += [value(case, [batch, heads, room, size])[0] for _ in range(2)]
    operands += [case.feed(np.array([past], np.int32), "i32", 0.3)]
    results = node(case, "DecoderMaskedMultiHeadAttention", operands, 3, num_heads=heads, past_present_share_buffer=1)
    for name in results:
        case.output(name, "f32")
    case.within(1e-4, 5e-4)


@contrib("RotaryEmbedding", weight=4)
def rotary_embedding(case):
    batch, length, heads, size = sizes(case)
    size = max(4, size)
    turned = size if case.chance(0.6) else size // 2 - size // 2 % 2
    case.known("sizes")
    flat, kind = case.chance(0.6), narrow(case)
    x = value(case, [batch, length, heads * size] if flat else [batch, heads, length, size], kind)[0]
    if case.chance(0.5):
        ids = case.feed(np.array([case.integer(0, 3)], np.int64), "i64", 0.3)
    else:
        ids = case.feed(case.ints([batch, length], "i64", 0, length + 2), "i64", 0)
    case.output(node(case, "RotaryEmbedding", [x, ids] + cache(case, length + 4, turned, kind), interleaved=case.choice([None, 0, 1]),
                     num_heads=heads if turned != size else None, rotary_embedding_dim=turned if turned != size else None), kind)
    close(case, kind)


@contrib("GroupQueryAttention", weight=8)
def group_query_attention(case):
    batch, length, heads, size = sizes(case)
    size = case.choice([16, 32])
    groups = case.choice([heads] + [g for g in (1, 2) if heads % g == 0])
    past, kind = case.choice([None, None, 0, 1, 5]), narrow(case)
    room = (past or 0) + case.choice([0, 0, 3, 20])  # the caches may have more of it than the past fills
    case.known("sizes")
    if past and length > 1:  # which the peer takes for one sequence alone
        batch = 1
    packed = case.chance(0.4)
    if packed:
        operands = [value(case, [batch, length, (heads + 2 * groups) * size], kind)[0], "", ""]
    else:
        operands = [value(case, [batch, length, count * size], kind)[0] for count in (heads, groups, groups)]
    before = np.full([batch], past or 0)
    if past is None:
        operands += ["", ""]
    else:
        if past > 1 and length == 1 and case.chance(0.5):
            before = case.ints([batch], "i64", 0, past)
            before[0] = past
        held = np.arange(room)[None, None, :, None] < before[:, None, None, None]
        operands += [case.feed(np.where(held, case.values([batch, groups, room, size], kind), 0).astype(KINDS[kind][1]), kind, 0) for _ in range(2)]
    total = (past or 0) + length
    operands += [case.feed((before + length - 1).astype(np.int32), "i32", 0), case.feed(np.array(total, np.int32), "i32", 0.3)]
    rotary = case.chance(0.5)
    operands += cache(case, total + 2, size, kind) if rotary else ["", ""]
    operands.append("")
    biased = case.chance(0.2)
    operands.append(value(case, [case.choice([1, batch]), case.choice([1, heads]), length, total], kind)[0] if biased else "")
    sink = case.chance(0.2)
    if sink:
        operands.append(value(case, [heads], kind)[0])
    results = node(case, "GroupQueryAttention", operands, 3, num_heads=heads, kv_num_heads=groups, do_rotary=int(rotary),
                   rotary_interleaved=case.choice([0, 1]) if rotary else None, scale=case.choice([None, 0.3]), softcap=case.choice([None, None, 5.0]),
                   local_window_size=case.choice([None, None, 1, 2, 4]), smooth_softmax=int(not sink and case.chance(0.2)))
    for name in results:
        case.output(name, kind)
    close(case, kind)


@contrib("SparseAttention", weight=2)
def sparse_attention(case):
    batch, _, _, size = sizes(case)
    size, block, blocks = 16, 16, case.choice([2, 3])
    heads, layouts = case.choice([2, 4]), case.choice([1, 2])
    groups = case.choice([heads, heads // 2])
    room = block * blocks
    length = case.choice([1, 1, 5, 20])
    past = 0 if length > 1 else case.integer(0, room - 1)
    masks = [np.tril(case.values([blocks, blocks], "bool") | np.eye(blocks, dtype=bool)) for _ in range(layouts)]
    most = max(int(mask.sum()) for mask in masks)
    rows = [np.concatenate([[0], np.cumsum(mask.sum(1))]) for mask in masks]
    columns = [np.concatenate([np.nonzero(mask)[1], np.full(most - int(mask.sum()), -1)]) for mask in masks]
    total = past + length
    case.known("sizes")
    held = (np.arange(room) < past)[None, None, :, None]
    (q, a), (k, b), (v, c) = (value(case, [batch, length, count * size]) for count in (heads, groups, groups))
    caches = [case.values([batch, groups, room, size], "f32") * held for _ in range(2)]
    operands = [q, k, v] + [case.feed(cache, "f32", 0) for cache in caches]
    operands += [case.constant(np.array(rows, np.int32), "i32"), case.constant(np.array(columns, np.int32), "i32"),
                 case.feed(np.array([total], np.int32), "i32", 0.3), case.feed(np.full([batch], total, np.int32), "i32", 0)]
    fresh = [x.reshape(batch, length, -1, size).transpose(0, 2, 1, 3).astype(float) for x in (a, b, c)]
    keys, values = (np.concatenate([cache[:, :, :past], new], 2).repeat(heads // groups, 1) for cache, new in zip(caches, fresh[1:]))
    place, key = np.arange(past, total)[:, None], np.arange(total)
    seen = np.stack([masks[head % layouts][place // block, key // block] & (key <= place) for head in range(heads)])
    scores = np.where(seen, fresh[0] @ keys.swapaxes(2, 3) / math.sqrt(size), -np.inf)
    # The peer wants the present caches in the past ones' memory, which cannot be said here.
    results = node(case, "SparseAttention", operands, 3, num_heads=heads, kv_num_heads=groups, sparse_block_size=block)
    case.output(results[0], "f32", (softmax(scores) @ values).transpose(0, 2, 1, 3).reshape(batch, length, -1))
    case.within(1e-4, 5e-4)


# ---- Without padding: for graphics processors alone, so that the definition decides ----


def lengths(case):
    batch, length, heads, size = sizes(case)
    counts = case.ints([batch], "i32", 1, length)
    there = np.arange(length) < counts[:, None]
    offset = np.concatenate([np.flatnonzero(there), np.flatnonzero(~there)]).astype(np.int32).reshape(batch, length)
    return batch, length, heads, size, counts, there, offset


def attended(q, k, v, there, heads, scale=None):
    """q, k, v: [tokens, width]; the result of those of each sequence with each other."""
    y, at = np.zeros([len(q), v.shape[1]]), 0
    for count in there.sum(1):
        for head in range(heads):
            parts = [x[at:at + count, head * x.shape[1] // heads:(head + 1) * x.shape[1] // heads].astype(float) for x in (q, k, v)]
            scores = parts[0] @ parts[1].T * (scale or 1 / math.sqrt(parts[0].shape[1]))
            y[at:at + count, head * v.shape[1] // heads:(head + 1) * v.shape[1] // heads] = softmax(scores) @ parts[2]
        at += count
    return y


@contrib("PackedAttention")
def packed_attention(case):
    batch, length, heads, size, counts, there, offset = lengths(case)
    width, tokens = heads * size, int(counts.sum())
    case.known("sizes")
    (x, a), (w, b), (bias, c) = value(case, [tokens, 8]), value(case, [8, 3 * width], low=-1, high=1), value(case, [3 * width])
    q, k, v = np.split(a.astype(float) @ b + c, 3, -1)
    cumulative = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    operands = [x, w, bias, case.feed(offset, "i32", 0), case.feed(cumulative, "i32", 0)]
    case.output(node(case, "PackedAttention", operands, num_heads=heads), "f32", attended(q, k, v, there, heads))
    case.within(1e-4, 5e-4)


@contrib("PackedMultiHeadAttention")
def packed_multi_head_attention(case):
    batch, length, heads, size, counts, there, offset = lengths(case)
    width, tokens = heads * size, int(counts.sum())
    case.known("sizes")
    (q, a), (k, b), (v, c) = (value(case, [tokens, width]) for _ in range(3))
    cumulative = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    operands = [q, k, v, "", case.feed(offset, "i32", 0), case.feed(cumulative, "i32", 0)]
    case.output(node(case, "PackedMultiHeadAttention", operands, num_heads=heads, scale=0.4), "f32", attended(a, b, c, there, heads, 0.4))
    case.within(1e-4, 5e-4)


@contrib("RemovePadding")
def remove_padding(case):
    batch, length, heads, size, counts, there, offset = lengths(case)
    x, a = value(case, [batch, length, size])
    results = node(case, "RemovePadding", [x, case.feed(counts, "i32", 0)], 4)
    case.output(results[0], "f32", a[there])
    case.output(results[1], "i32", offset)
    case.output(results[2], "i32", np.concatenate([[0], np.cumsum(counts)]))
    case.output(results[3], "i32", counts.max(keepdims=True))


@contrib("RestorePadding")
def restore_padding(case):
    batch, length, heads, size, counts, there, offset = lengths(case)
    x, a = value(case, [int(counts.sum()), size])
    y = np.zeros([batch, length, size], np.float32)
    y[there] = a
    case.output(node(case, "RestorePadding", [x, case.feed(offset, "i32", 0)]), "f32", y)

#!/usr/bin/python3
"""make_plus_cases.py OUT: writes models of ONNX+ (domain org.chainer) as ONNX test directories.

The models are built with onnx.helper; expected values are NumPy's and PyTorch's, or plain Python's for lists."""
import numpy as np
import torch
from onnx import helper, numpy_helper

from case_models import BOOL, F32, I64, PLUS, Opt, dtype_of, f32, i64, info, main, node, plus, rng, type_of, write


def case(op, tag, inputs, expected, prefix=True, **attributes):
    """One node with all inputs given, and all outputs expected; once with declared shapes, once without."""
    expected = expected if isinstance(expected, dict) else {"y": expected}
    for known in (True, False):
        write(f"{op.lower()}_{tag}" + ("" if known else "_open"), [plus(op, list(inputs), list(expected), **attributes)],
              inputs, expected, known=known)


# ---- Layers ----


def layers():
    linear = torch.nn.functional.linear
    t = torch.from_numpy
    x, w, b = f32(4, 6), f32(5, 6), f32(5)
    case("Linear", "bias", {"x": x, "w": w, "b": b}, linear(t(x), t(w), t(b)).numpy())
    case("Linear", "plain", {"x": x, "w": w}, linear(t(x), t(w)).numpy())
    x = f32(4, 2, 3)
    case("Linear", "flattened", {"x": x, "w": w, "b": b}, linear(t(x.reshape(4, 6)), t(w), t(b)).numpy())
    x = f32(2, 3, 6)
    case("Linear", "two_batch_axes", {"x": x, "w": w, "b": b}, linear(t(x), t(w), t(b)).numpy(), n_batch_axes=2)
    x = f32(2, 3, 2, 3)
    case("Linear", "two_batch_axes_flattened", {"x": x, "w": w, "b": b},
         linear(t(x.reshape(2, 3, 6)), t(w), t(b)).numpy(), n_batch_axes=2)

    for tag, x in (("matrix", f32(3, 4)), ("f64", rng.randn(5)), ("zeros", np.array([0, -0.0, 1, -1], np.float32))):
        g = rng.randn(*x.shape).astype(x.dtype)
        case("ReluGrad", tag, {"x": x, "gy": g}, np.where(x > 0, g, 0).astype(x.dtype))
        case("Square", tag, {"x": x}, x * x)
    case("Square", "int", {"x": i64([-3, 2])}, i64([9, 4]))

    for tag, shape, to in (("leading", (2, 3, 4), (4,)), ("ones", (2, 3, 4), (2, 1, 4)), ("both", (2, 3, 4), (1, 4)),
                           ("same", (2, 3), (2, 3)), ("scalar", (2, 3), ())):
        x = f32(*shape)
        probe = torch.zeros(to, requires_grad=True)
        (probe + t(x)).backward(t(x))
        case("ReduceSumTo", tag, {"x": x, "shape": i64(list(to))}, probe.grad.numpy())
        write(f"reducesumto_{tag}_constant", [plus("ReduceSumTo", ["x", "s"], ["y"])], {"x": x},
              {"y": probe.grad.numpy()}, initializers=[numpy_helper.from_array(i64(list(to)), "s")])

    for tag, shape, size in (("up", (2, 3, 4, 5), [7, 9]), ("down", (1, 2, 8, 6), [3, 4]), ("one", (1, 1, 4, 4), [1, 1]),
                             ("same", (1, 2, 3, 3), [3, 3])):
        x = f32(*shape)
        case("ResizeImages", tag, {"x": x},
             torch.nn.functional.interpolate(t(x), size, mode="bilinear", align_corners=True).numpy(), output_shape=size)

    for tag, x, size in (("more", f32(2, 3), 5), ("enough", f32(4, 2, 2), 4), ("int", i64([1, 2]), 3),
                         ("none", np.zeros((0, 2), np.float32), 2)):
        y = np.zeros((size,) + x.shape[1:], x.dtype)
        y[: len(x)] = x
        case("PadBatchSize", tag, {"x": x}, y, size=size)

    x, picks = f32(4, 3), i64([1, 2, 0, 1])
    case("SelectItem", "i64", {"x": x, "t": picks}, x[np.arange(4), picks])
    case("SelectItem", "i32", {"x": x, "t": picks.astype(np.int32)}, x[np.arange(4), picks])
    case("SelectItem", "one", {"x": x[:1], "t": picks[:1]}, x[:1, 1])

    loss = torch.nn.functional.cross_entropy
    for tag, x, labels in (("mean", f32(5, 4), i64([0, 3, 2, 1, 1])), ("ignored", f32(5, 4), i64([0, -1, 2, -1, 1])),
                           ("images", f32(2, 3, 4), i64([[0, 1, 2, 1], [2, 2, 0, -1]])), ("one", f32(1, 2), i64([1]))):
        case("SoftmaxCrossEntropy", tag, {"x": x, "t": labels}, loss(t(x), t(labels), ignore_index=-1).numpy())


# ---- Regions: loops over the definition ----


def half_away(v):
    return np.floor(abs(v) + 0.5) * np.sign(v)


def roi_pool(x, rois, batch, size, scale, reduce):
    y = np.zeros((len(rois), x.shape[1], *size), np.float64)
    for r, (roi, n) in enumerate(zip(rois, batch)):
        top, left, bottom, right = (int(half_away(v * scale)) for v in roi)
        step = max(bottom - top, 1) / size[0], max(right - left, 1) / size[1]
        for i in range(size[0]):
            for j in range(size[1]):
                rows, columns = (
                    slice(*(int(np.clip(v + o, 0, limit)) for v in (np.floor(p * s), np.ceil((p + 1) * s))))
                    for p, s, o, limit in ((i, step[0], top, x.shape[2]), (j, step[1], left, x.shape[3])))
                cell = x[n, :, rows, columns].reshape(x.shape[1], -1)
                if cell.shape[1]:
                    y[r, :, i, j] = reduce(cell, axis=1)
    return y.astype(np.float32)


def roi_align(x, rois, batch, size, scale, samples, greatest):
    y = np.zeros((len(rois), x.shape[1], *size), np.float64)
    height, width = x.shape[2:]
    for r, (roi, n) in enumerate(zip(rois, batch)):
        begin = roi[:2].astype(np.float64) * scale
        step = np.maximum(roi[2:].astype(np.float64) * scale - begin, 1) / size
        grid = [int(np.ceil(s)) if k == 0 else k for s, k in zip(step, samples)]
        for i in range(size[0]):
            for j in range(size[1]):
                found = []
                for a in range(grid[0]):
                    for b in range(grid[1]):
                        v = begin[0] + (i + (a + 0.5) / grid[0]) * step[0]
                        u = begin[1] + (j + (b + 0.5) / grid[1]) * step[1]
                        if v < -1 or v > height or u < -1 or u > width:
                            continue
                        v, u = np.clip(v, 0, height - 1), np.clip(u, 0, width - 1)
                        v0, u0 = int(v), int(u)
                        v1, u1 = min(v0 + 1, height - 1), min(u0 + 1, width - 1)
                        dv, du = v - v0, u - u0
                        image = x[n].astype(np.float64)
                        found.append((1 - dv) * ((1 - du) * image[:, v0, u0] + du * image[:, v0, u1])
                                     + dv * ((1 - du) * image[:, v1, u0] + du * image[:, v1, u1]))
                y[r, :, i, j] = np.max(found, axis=0) if greatest else np.sum(found, axis=0) / (grid[0] * grid[1])
    return y.astype(np.float32)


def regions():
    x = f32(2, 3, 9, 11)
    rois = np.array([[0, 0, 8, 10], [1.4, 2.6, 5.5, 7.1], [6, 3, 6, 3], [-2, -1, 4, 5], [4, 6, 12, 14]], np.float32)
    batch = np.array([0, 1, 1, 0, 1], np.int32)
    inside = rois[:3]
    for tag, size, scale in (("square", [3, 3], 1.0), ("scaled", [2, 4], 0.5), ("fine", [6, 5], 1.0)):
        given = {"x": x, "rois": rois / np.float32(scale), "i": batch}
        for op, reduce in (("ROIMaxPool2D", np.max), ("ROIAveragePool2D", np.mean)):
            case(op, tag, given, roi_pool(x, given["rois"], batch, size, scale, reduce), output_shape=size,
                 spatial_scale=scale)
        for samples in ([2, 2], [1, 3], [0, 0]):
            name = f"{tag}_{samples[0]}x{samples[1]}"
            case("ROIAverageAlign2D", name, given,
                 roi_align(x, given["rois"], batch, size, scale, samples, False), output_shape=size,
                 spatial_scale=scale, sampling_ratio=samples)
            given_inside = {"x": x, "rois": inside / np.float32(scale), "i": batch[:3].astype(np.int64)}
            case("ROIMaxAlign2D", name, given_inside,
                 roi_align(x, given_inside["rois"], batch, size, scale, samples, True), output_shape=size,
                 spatial_scale=scale, sampling_ratio=samples)


# ---- Items ----


def subscripts(x):
    """(tag, Python's index, slice_specs, operands)"""
    s = np.s_
    return [
        ("all", s[:], [0], []),
        ("index", s[1], [1], [1]),
        ("last", s[-1], [1], [-1]),
        ("two_indices", s[1, 2], [1, 1], [1, 2]),
        ("second_axis", s[:, 2], [0, 1], [2]),
        ("slice", s[1:3], [2], [1, 3]),
        ("negative_slice", s[-2:-1, 1:], [2, 2], [-2, -1, 1, 2**62]),
        ("strided", s[:, 0:4:2], [0, 3], [0, 4, 2]),
        ("reversed", s[3:0:-1], [3], [3, 0, -1]),
        ("index_of_slice", s[1:3, 0, ::2], [2, 1, 3], [1, 3, 0, 0, 2**62, 2]),
        ("list", s[[2, 0, 2]], [4], [[2, 0, 2]]),
        ("list_second", s[:, [1, -1]], [0, 4], [[1, -1]]),
        ("list_of_slice", s[1:3, [0, 3]], [2, 4], [1, 3, [0, 3]]),
        ("two_lists", s[[0, 2], [1, 3]], [4, 4], [[0, 2], [1, 3]]),
        ("lists_behind", s[:, [0, 2], [1, 1]], [0, 4, 4], [[0, 2], [1, 1]]),
        ("lists_apart", s[[0, 2], :, [1, 0]], [4, 0, 4], [[0, 2], [1, 0]]),
        ("index_and_list", s[1, :, [0, 1, 1]], [1, 0, 4], [1, [0, 1, 1]]),
        ("index_beside_list", s[:, 1, [0, 1, 1]], [0, 1, 4], [1, [0, 1, 1]]),
        ("one_long_list", s[[1], [0, 2, 3]], [4, 4], [[1], [0, 2, 3]]),
    ]


def item_operands(operands):
    """Indices as constants, given in turn as scalars, as tensors of one element, and lists as sequences of scalars or as
    tensors; returns (nodes, initializers, names)."""
    nodes, tensors, names = [], [], []
    for i, v in enumerate(operands):
        name = f"i{i}"
        if isinstance(v, list) and i % 2 == 0:
            nodes.append(plus("SequenceConstants", [], [name], tensor_values=[numpy_helper.from_array(i64(k)) for k in v]))
        else:
            array = i64(v) if isinstance(v, list) or i % 3 else i64([v])
            tensors.append(numpy_helper.from_array(array, name))
        names.append(name)
    return nodes, tensors, names


def items():
    x = f32(4, 5, 3)
    for tag, index, specs, operands in subscripts(x):
        nodes, tensors, names = item_operands(operands)
        get = plus("GetItem", ["x"] + names, ["y"], slice_specs=specs)
        write("getitem_" + tag, nodes + [get], {"x": x}, {"y": x[index]}, initializers=tensors)
        write("getitem_" + tag + "_prefixed", nodes + [plus("ChainerGetItem", ["x"] + names, ["y"], slice_specs=specs)],
              {"x": x}, {"y": x[index]}, initializers=tensors)
        if all(not isinstance(v, list) for v in operands):
            given = {"x": x, **{n: i64(v) for n, v in zip(names, operands)}}
            write("getitem_" + tag + "_given", [get], given, {"y": x[index]}, known=len(operands) % 2 == 0)
        for what, value in (("scalar", np.float32(7)), ("whole", rng.randn(*x[index].shape).astype(np.float32))):
            y = x.copy()
            y[index] = value
            write(f"setitem_{tag}_{what}", nodes + [plus("SetItem", ["x"] + names + ["v"], ["y"], slice_specs=specs)],
                  {"x": x, "v": np.array(value)}, {"y": y}, initializers=tensors)
    write("setitem_int", [plus("ChainerSetItem", ["x", "i", "v"], ["y"], slice_specs=[1])],
          {"x": i64([1, 2, 3]), "i": i64(1), "v": i64(42)}, {"y": i64([1, 42, 3])})


# ---- Sequences ----


def sequence_of(lengths, *rest, dtype=np.float32):
    return [rng.randint(-9, 9, (k, *rest)).astype(dtype) for k in lengths]


def padded(items, length, value):
    length = length or max(len(v) for v in items)
    y = np.full((len(items), length, *items[0].shape[1:]), value, items[0].dtype)
    for row, v in zip(y, items):
        row[: len(v)] = v
    return y


def sequences():
    write("sequenceconstants_ints", [plus("SequenceConstants", [], ["y"],
                                          tensor_values=[numpy_helper.from_array(i64(v)) for v in (4, 2, 3)])],
          {}, {"y": [i64(4), i64(2), i64(3)]})
    write("sequenceconstants_shapes", [plus("ChainerSequenceConstants", [], ["y"], tensor_values=[
        numpy_helper.from_array(v) for v in (np.zeros((2, 0), np.float32), np.ones(3, np.float32))])],
        {}, {"y": [np.zeros((2, 0), np.float32), np.ones(3, np.float32)]})
    write("sequenceconstants_none", [plus("SequenceConstants", [], ["s"]), node("SequenceLength", ["s"], ["y"])],
          {}, {"y": i64(0)})

    for tag, a in (("three", sequence_of([2, 1, 3])), ("ints", sequence_of([1, 2], dtype=np.int64)),
                   ("rows", sequence_of([2, 2, 2, 2], 3))):
        b = sequence_of([1, 2], *a[0].shape[1:], dtype=a[0].dtype)
        case("SequenceExtend", tag, {"a": a, "b": b}, a + b)
        write(f"sequenceextend_{tag}_itself", [plus("SequenceExtend", ["a", "a"], ["y"])], {"a": a}, {"y": a + a})
        case("GenericAdd", tag + "_sequences", {"a": a, "b": b}, a + b)
        case("SequencePop", tag, {"s": a}, {"y": a[:-1], "item": a[-1]})
        case("SequenceAppend", tag, {"s": a, "x": b[0]}, a + [b[0]])
        case("SequenceLengths", tag, {"s": a}, [i64(len(v)) for v in a])
        case("SequenceSize", tag, {"s": a}, i64(len(a)))
        case("GenericLen", tag + "_sequence", {"s": a}, i64(len(a)))
        write(f"sequenceclear_{tag}", [plus("SequenceClear", ["s"], ["e"]), plus("SequenceAppend", ["e", "x"], ["y"])],
              {"s": a, "x": b[0]}, {"y": [b[0]]})
        case("SequenceCopy", tag, {"s": a}, a)
        case("SequenceMove", tag, {"s": a}, a)
        case("SequenceCreate", tag, {"p": a[0], "q": a[1]}, a[:2])
        for i in (0, -1):
            updated = list(a)
            updated[i] = b[0]
            case("SequenceUpdate", f"{tag}_{i % len(a)}", {"s": a, "i": i64(i), "x": b[0]}, updated)
            case("SequenceLookup", f"{tag}_{i % len(a)}", {"s": a, "i": i64([i])}, a[i])
            case("GenericGetItem", f"{tag}_sequence_{i % len(a)}", {"s": a, "i": i64(i)}, a[i])
        for length in (0, 4):
            case("SequencePad", f"{tag}_{length}", {"s": a}, padded(a, length, -42), length=length, value=-42.0)
        case("SequencePad", tag + "_zero", {"s": a}, padded(a, 0, 0))
        whole, lengths = padded(a, 0, -1), [i64(len(v)) for v in a]
        case("SequenceUnpad", tag, {"x": whole, "l": lengths}, a)
        case("SequenceUnpad", tag + "_tensor", {"x": whole, "l": i64(lengths)}, a)

    s = sequence_of([1, 2, 3])
    write("sequencepop_twice", [plus("SequencePop", ["s"], ["a", "p"]), plus("SequencePop", ["a"], ["b", "q"]),
                                plus("SequenceSize", ["a"], ["n"])],
          {"s": s}, {"a": s[:2], "b": s[:1], "p": s[2], "q": s[1], "n": i64(2)})
    s = sequence_of([2, 1, 3, 2, 1, 2])
    everything = 2**40
    for tag, (a, b, c) in {"plain": (1, 3, None), "from": (2, None, None), "up_to": (None, -1, None), "all": (None,) * 3,
                           "steps": (0, 6, 2), "backwards": (None, None, -1), "backwards_part": (4, 0, -2),
                           "beyond": (-100, everything, 1), "empty": (4, 2, 1), "negative": (-3, -1, None),
                           "far": (100, None, -3)}.items():
        names, given = ["s"], {"s": s}
        for n, v in (("a", a), ("b", b), ("c", c)):
            names.append(n if v is not None else "")
            if v is not None:
                given[n] = i64(v)
        while not names[-1]:
            names.pop()
        expected = s[a:b:c]
        tensor = f32(6, 2)
        open_step = c is not None and (a is None or b is None)
        constants = [numpy_helper.from_array(given["c"], "c")] if open_step else []
        given_tensor = {"s": tensor, **{k: v for k, v in given.items() if k != "s" and not (open_step and k == "c")}}
        if expected:
            write("sequencegetslice_" + tag, [plus("SequenceGetSlice", names, ["y"])], given, {"y": expected})
            write("genericgetslice_sequence_" + tag, [plus("GenericGetSlice", names, ["y"])], given, {"y": expected})
        else:
            write("sequencegetslice_" + tag, [plus("SequenceGetSlice", names, ["z"]), plus("GenericLen", ["z"], ["y"])],
                  given, {"y": i64(0)})
        write("genericgetslice_tensor_" + tag, [plus("GenericGetSlice", names, ["y"])], given_tensor,
              {"y": tensor[a:b:c]}, initializers=constants)

    for args in ((4,), (3, 8), (1, 16, 3), (1, 17, 3), (5, -2, -1), (-3, 3, 2)):
        given = {f"a{i}": i64(v) for i, v in enumerate(args)}
        case("SequenceRange", "_".join(map(str, args)).replace("-", "m"), given, [i64(v) for v in range(*args)])
    for args in ((-4,), (5, 2), (9, 15, -1)):
        given = {f"a{i}": i64(v) for i, v in enumerate(args)}
        write("sequencerange_empty_" + "_".join(map(str, args)).replace("-", "m"),
              [plus("SequenceRange", list(given), ["s"]), plus("SequenceSize", ["s"], ["y"])], given, {"y": i64(0)})

    x = f32(3, 4, 2)
    for axis in (0, 1, 2, -1):
        tag = str(axis).replace("-", "m")
        pieces = [np.squeeze(v, axis) for v in np.split(x, x.shape[axis], axis)]
        case("SequenceSeparate", tag, {"x": x}, pieces, axis=axis)
        case("SequenceStack", tag, {"s": pieces}, x, axis=axis)
        case("SequenceConcat", tag, {"s": [x, x * 2]}, np.concatenate([x, x * 2], axis), axis=axis)
    for axis, where in ((0, 3), (1, 2), (1, [1, 3]), (0, [2]), (-1, [0, 1]), (1, [])):
        tag = f"{axis}_{where}".translate(str.maketrans("-[], ", "m____"))
        pieces = np.split(x, where, axis)
        if (axis % 3) != axis:
            write("sequencesplitaxis_" + tag, [plus("SequenceSplitAxis", ["x", "w"], ["y"], axis=axis)],
                  {"x": x, "w": i64(where)}, {"y": pieces})
        else:
            write("sequencesplitaxis_" + tag, [plus("SequenceSplitAxis", ["x", "w"], ["y"], axis=axis)],
                  {"x": x, "w": i64(where)}, {"y": pieces})
            write("sequencesplitaxis_" + tag + "_constant", [plus("ChainerSequenceSplitAxis", ["x", "w"], ["y"], axis=axis)],
                  {"x": x}, {"y": pieces}, initializers=[numpy_helper.from_array(i64(where), "w")])


def list_loop(tag, body, expected, trips, states, captures=()):
    """A loop whose states are the given dict; `body` lists the nodes that make NAME_out of each NAME."""
    names = list(states)
    graph = helper.make_graph(
        [node("Identity", ["cond"], ["cond_out"])] + body, "body",
        [helper.make_tensor_value_info("iter", I64, []), helper.make_tensor_value_info("cond", BOOL, [])]
        + [info(n, states[n]) for n in names],
        [helper.make_tensor_value_info("cond_out", BOOL, [])] + [info(n + "_out", states[n]) for n in names])
    write(tag, [node("Loop", ["trips", ""] + [n + "_in" for n in names], [n + "_final" for n in names], body=graph)],
          {"trips": i64(trips), **{n + "_in": v for n, v in states.items()}},
          {n + "_final": v for n, v in expected.items()})


def sequence_loops():
    for trips in (0, 1, 20):
        s = [np.float32(7)]
        append = [node("Cast", ["iter"], ["x"], to=F32), plus("SequenceAppend", ["s", "x"], ["s_out"])]
        list_loop(f"loop_append_{trips}", append, {"s": s + [np.float32(v) for v in range(trips)]}, trips, {"s": s})
        insert = [node("Cast", ["iter"], ["x"], to=F32), node("SequenceInsert", ["s", "x", "zero"], ["s_out"])]
        insert.insert(0, node("Constant", [], ["zero"], value=numpy_helper.from_array(i64(0))))
        list_loop(f"loop_insert_front_{trips}", insert,
                  {"s": [np.float32(v) for v in reversed(range(trips))] + s}, trips, {"s": s})
        extend = [plus("SequenceExtend", ["s", "t"], ["s_out"]), node("Identity", ["t"], ["t_out"])]
        t = sequence_of([1, 2])
        list_loop(f"loop_extend_{trips}", extend, {"s": s + t * trips, "t": t}, trips, {"s": s, "t": t})
    stack = sequence_of([1] * 12)
    pop = [plus("SequencePop", ["s"], ["s_out", "x"]), plus("SequenceAppend", ["r", "x"], ["r_out"])]
    r = [np.zeros(1, np.float32)]
    list_loop("loop_pop_to_append", pop, {"s": stack[:3], "r": r + stack[:2:-1]}, 9, {"s": stack, "r": r})
    update = [node("Cast", ["iter"], ["x"], to=F32), plus("SequenceUpdate", ["s", "iter", "x"], ["s_out"])]
    s = [np.float32(v) for v in range(10, 18)]
    list_loop("loop_update", update, {"s": [np.float32(v) for v in range(5)] + s[5:]}, 5, {"s": s})


# ---- Generic operators, null, types ----


def generic():
    x = f32(4, 5, 3)
    case("GenericLen", "tensor", {"x": x}, i64(4))
    case("GenericLen", "vector", {"x": x[0, :, 0]}, i64(5))
    for i in (-2, 0, 3):
        case("GenericGetItem", f"tensor_{i % 4}", {"x": x, "i": i64(i)}, x[i])
        case("GenericGetItem", f"tensor_one_{i % 4}", {"x": x, "i": i64([i])}, x[i])
    a, b = f32(3, 4), f32(3, 1)
    rows = [v for v in b]
    case("GenericAdd", "tensors", {"a": a, "b": b}, a + b)
    case("GenericAdd", "tensor_sequence", {"a": a, "b": rows}, a + b)
    case("GenericAdd", "sequence_tensor", {"a": rows, "b": a}, a + b)

    for p in (False, True):
        for q in (False, True):
            case("GenericIs", f"{p}_{q}", {"a": np.array(p), "b": np.array(q)}, np.array(p == q))
    case("GenericIs", "kinds", {"a": a, "b": rows}, np.array(False))
    case("GenericIs", "numbers", {"a": a, "b": a}, np.array(False))
    write("genericis_null", [plus("NullConstant", [], ["n"]), plus("GenericIs", ["a", "n"], ["y"]),
                             plus("GenericIs", ["n", "n"], ["z"])],
          {"a": a}, {"y": np.array(False), "z": np.array(True)})

    c = f32(3, 4)
    case("GenericAccumulateGrad", "tensors", {"a": a, "b": c}, a + c)
    case("GenericAccumulateGrad", "sequences", {"a": [a, b], "b": [c, b]}, [a + c, b + b])
    case("GenericAccumulateGrad", "one_item", {"a": [a], "b": [c]}, [a + c])
    write("genericaccumulategrad_null_left", [plus("NullConstant", [], ["n"]),
                                              plus("GenericAccumulateGrad", ["n", "a"], ["y"])], {"a": a}, {"y": a})
    write("genericaccumulategrad_null_right", [plus("NullConstant", [], ["n"]),
                                               plus("GenericAccumulateGrad", ["a", "n"], ["y"])], {"a": [a]}, {"y": [a]})
    for here in (False, True):
        # A gradient that only one branch has.
        then = helper.make_graph([node("Identity", ["a"], ["g"])], "then", [], [info("g", a)])
        other = helper.make_graph([plus("NullConstant", [], ["h"])], "else", [],
                                  [helper.make_value_info("h", helper.make_optional_type_proto(type_of(a)))])
        branch = node("If", ["cond"], ["maybe"], then_branch=then, else_branch=other)
        write(f"genericaccumulategrad_maybe_{here}",
              [branch, plus("GenericAccumulateGrad", ["maybe", "c"], ["y"]),
               plus("GenericAccumulateGrad", ["c", "maybe"], ["z"]), plus("NullConstant", [], ["n"]),
               plus("GenericIs", ["maybe", "n"], ["is_null"])],
              {"cond": np.array(here), "a": a, "c": c},
              {"y": a + c if here else c, "z": a + c if here else c, "is_null": np.array(not here)})
        write(f"nullconstant_output_{here}", [branch], {"cond": np.array(here), "a": a},
              {"maybe": Opt(a if here else None, a)})
    write("nullconstant_bias", [plus("NullConstant", [], ["n"]), plus("Linear", ["x", "w", "n"], ["y"])],
          {"x": a, "w": c}, {"y": a @ c.T})

    for to in (np.float64, np.int64, np.float16, np.uint8):
        like = np.zeros(2, to)
        write(f"dtype_{np.dtype(to).name}", [plus("Dtype", ["x"], ["y"])], {"x": like}, {"y": i64(dtype_of(like))})
        x = np.array([1.5, 2, 3], np.float32)
        write(f"dynamiccast_{np.dtype(to).name}", [plus("Dtype", ["l"], ["d"]), plus("DynamicCast", ["x", "d"], ["y"])],
              {"x": x, "l": like}, {"y": x.astype(to)})
    write("print", [node("Mul", ["x", "x"], ["y"]), plus("Print", ["y", "x"], [])], {"x": a}, {"y": a * a})
    write("print_sequence", [plus("Print", ["s"], []), plus("SequenceStack", ["s"], ["y"])], {"s": [a, a]},
          {"y": np.stack([a, a])})
    write("print_in_function", [node("f", ["x"], ["y"], "custom")], {"x": a}, {"y": a + a}, opsets=[("custom", 1)],
          functions=[helper.make_function("custom", "f", ["x"], ["y"],
                                          [plus("Print", ["x"], []), plus("ChainerGenericAdd", ["x", "x"], ["y"])],
                                          [helper.make_opsetid(PLUS, 1)])])


# ---- What Chainer Compiler's models say of ONNX's own operators ----


def annotations():
    x = f32(2, 3)
    step = f32(2, 3)
    for axis in (0, 1, 2, -1):
        body = helper.make_graph(
            [node("Identity", ["cond"], ["cond_out"]), node("Add", ["s", "step"], ["s_out"]),
             node("Identity", ["s_out"], ["scan"])], "body",
            [helper.make_tensor_value_info("iter", I64, []), helper.make_tensor_value_info("cond", BOOL, []),
             info("s", x)],
            [helper.make_tensor_value_info("cond_out", BOOL, []), info("s_out", x), info("scan", x)])
        states = [x + step * (k + 1) for k in range(4)]
        write(f"loop_stack_axis_{axis % 3}_{'m' if axis < 0 else ''}",
              [node("Loop", ["trips", "", "x"], ["last", "all"], body=body, chainer_stack_axis=axis)],
              {"trips": i64(4), "x": x, "step": step}, {"last": states[-1], "all": np.stack(states, axis)})
    for cond in (False, True):
        then = helper.make_graph([node("Identity", ["p"], ["r"])], "then", [info("p", x)], [info("r", x)])
        other = helper.make_graph([node("Neg", ["q"], ["r2"])], "else", [info("q", x)], [info("r2", x)])
        write(f"if_with_inputs_{cond}", [node("If", ["c", "x"], ["y"], then_branch=then, else_branch=other)],
              {"c": np.array(cond), "x": x}, {"y": x if cond else -x})
    x = f32(2, 3, 4)
    softmax = torch.softmax(torch.from_numpy(x), 1).numpy()
    write("softmax_along_one_axis",
          [node("Softmax", ["x"], ["y"], axis=1, chainer_is_onnx_semantics=0, chainer_order=3, chainer_fusion_group=1)],
          {"x": x}, {"y": softmax}, opsets=[("", 11)])
    flat = torch.softmax(torch.from_numpy(x.reshape(2, 12)), 1).numpy().reshape(x.shape)
    write("softmax_flattened", [node("Softmax", ["x"], ["y"], axis=1, chainer_is_onnx_semantics=1)], {"x": x},
          {"y": flat}, opsets=[("", 11)])
    x = f32(1, 3, 6, 6)
    for cover in (False, True):
        y = torch.nn.functional.max_pool2d(torch.from_numpy(x), 3, 2, ceil_mode=cover).numpy()
        write(f"maxpool_cover_all_{cover}",
              [node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], chainer_cover_all=int(cover))],
              {"x": x}, {"y": y}, opsets=[("", 9)])
    # The first models have no domain for their own operators.
    w = f32(5, 12)
    x = f32(2, 3, 4)
    write("no_domain", [node("ChainerLinear", ["x", "w"], ["y"], n_batch_axes=1)], {"x": x, "w": w},
          {"y": x.reshape(2, 12) @ w.T}, opsets=[("", 9)])


main(__doc__, (layers, regions, items, sequences, sequence_loops, generic, annotations))

"""What the families of cases have in common: tensors of any element type, and writing a case as a test directory."""
import os

import numpy as np
from onnx import ModelProto, TensorProto, TypeProto, helper, numpy_helper

# Element types by the names of this suite; python3-onnx does not have the newer ones.
TYPES = {
    "f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "str": 8, "bool": 9, "f16": 10, "f64": 11,
    "u32": 12, "u64": 13, "bf16": 16, "f8e4m3fn": 17, "f8e4m3fnuz": 18, "f8e5m2": 19, "f8e5m2fnuz": 20, "u4": 21,
    "i4": 22, "f4e2m1": 23, "f8e8m0": 24, "u2": 25, "i2": 26,
}
NUMPY = {
    np.dtype(n): t
    for n, t in {"f4": "f32", "u1": "u8", "i1": "i8", "u2": "u16", "i2": "i16", "i4": "i32", "i8": "i64", "?": "bool",
                 "f2": "f16", "f8": "f64", "u4": "u32", "u8": "u64", "O": "str"}.items()
}
BITS = {"u4": 4, "i4": 4, "f4e2m1": 4, "u2": 2, "i2": 2}


class Narrow:
    """A tensor whose type NumPy lacks, as the bits of its elements."""

    def __init__(self, kind, bits):
        self.kind, self.bits = kind, np.asarray(bits)
        self.shape = self.bits.shape

    def raw(self):
        if self.kind == "bf16":
            return self.bits.astype("<u2").tobytes()
        flat = self.bits.astype(np.uint8).ravel()
        if self.kind not in BITS:
            return flat.tobytes()
        width = BITS[self.kind]
        each = 8 // width
        flat = np.concatenate([flat & (2**width - 1), np.zeros(-len(flat) % each, np.uint8)]).reshape(-1, each)
        return sum(flat[:, i].astype(np.uint16) << (width * i) for i in range(each)).astype(np.uint8).tobytes()


def kind_of(value):
    return value.kind if isinstance(value, Narrow) else NUMPY[np.asarray(value).dtype]


def tensor(value, name=""):
    if isinstance(value, Narrow):
        t = TensorProto(name=name, dims=value.shape, raw_data=value.raw())
        t.data_type = TYPES[value.kind]
        return t
    value = np.asarray(value)
    if value.dtype == object:
        t = TensorProto(name=name, dims=value.shape, data_type=TensorProto.STRING)
        t.string_data.extend(x if isinstance(x, bytes) else x.encode() for x in value.ravel())
        return t
    return numpy_helper.from_array(value, name)


def info(name, kind, shape):
    """shape: None for an unknown rank, with names or None for open dimensions."""
    v = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    v.type.tensor_type.elem_type = TYPES[kind]
    return v


def node(op, inputs, outputs, **attributes):
    """Attributes that are NumPy arrays or Narrow become tensors."""
    for key, value in attributes.items():
        if isinstance(value, (Narrow, np.ndarray)):
            attributes[key] = tensor(value)
    return helper.make_node(op, inputs, outputs, **attributes)


class Suite:
    def __init__(self, out):
        self.out, self.count = out, 0

    def model(self, name, nodes, inputs, outputs, opset, constants=(), open_dims=False, output_infos=None):
        """inputs, outputs: lists of values; they are called x0, x1 ... and y0, y1 ... `constants`: (name, value).
        With open_dims, the model says nothing of its inputs' dimensions but how many there are."""
        def shape(v):
            dims = list(v.shape if isinstance(v, Narrow) else np.asarray(v).shape)
            return [None] * len(dims) if open_dims else dims

        named = {"input": [(f"x{i}", v) for i, v in enumerate(inputs) if v is not None],
                 "output": [(f"y{i}", v) for i, v in enumerate(outputs)]}
        graph = helper.make_graph(
            nodes, name, [info(n, kind_of(v), shape(v)) for n, v in named["input"]],
            output_infos or [info(n, kind_of(v), None) for n, v in named["output"]],
            [tensor(v, n) for n, v in constants],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 10
        data = os.path.join(self.out, name, "test_data_set_0")
        os.makedirs(data)
        with open(os.path.join(self.out, name, "model.onnx"), "wb") as f:
            f.write(model.SerializeToString())
        for kind, pairs in named.items():
            for i, (n, v) in enumerate(pairs):
                with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as f:
                    f.write(tensor(v, n).SerializeToString())
        self.count += 1

    def op(self, opset, operator, label, inputs, outputs, constant=(), open_dims=False, **attributes):
        """One node. inputs: values, None where absent; those whose index is in `constant` are initializers."""
        names = [f"x{i}" if v is not None else "" for i, v in enumerate(inputs)]
        given = [None if i in constant else v for i, v in enumerate(inputs)]
        nodes = [node(operator, names, [f"y{i}" for i in range(len(outputs))], **attributes)]
        self.model(f"{operator.lower()}_{opset}_{label}", nodes, given, outputs, opset,
                   [(f"x{i}", inputs[i]) for i in constant], open_dims)


# ---- Narrow floats ----

# exponent bits, mantissa bits, bias, and whether there are infinities; "fn" has NaN at all ones alone, "fnuz" at minus
# zero alone.
FORMATS = {
    "f8e4m3fn": (4, 3, 7), "f8e4m3fnuz": (4, 3, 8), "f8e5m2": (5, 2, 15), "f8e5m2fnuz": (5, 2, 16), "f4e2m1": (2, 1, 1),
    "bf16": (8, 7, 127),
}


def decode(kind, bits):
    """The values of bits, by the definition of the format."""
    bits = np.asarray(bits).astype(np.int64)
    if kind == "f8e8m0":
        return np.where(bits == 255, np.nan, 2.0 ** (bits - 127.0))
    if kind == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    e, m, bias = FORMATS[kind]
    sign, exponent, mantissa = bits >> (e + m) & 1, bits >> m & (2**e - 1), bits & (2**m - 1)
    value = np.where(exponent == 0, mantissa * 2.0 ** (1 - bias - m), (1 + mantissa / 2.0**m) * 2.0 ** (exponent - bias))
    value = np.where(sign == 1, -value, value)
    if kind == "f8e4m3fn":
        value = np.where(bits & 127 == 127, np.nan, value)
    elif kind.endswith("fnuz"):
        value = np.where(bits == 128, np.nan, value)
    elif kind == "f8e5m2":
        value = np.where(exponent == 31, np.where(mantissa != 0, np.nan, np.where(sign == 1, -np.inf, np.inf)), value)
    return value


def encode(kind, values, saturate=True):
    """The nearest, ties to even mantissas, looked up among all values of the format; the tables of Cast decide what is
    beyond the greatest."""
    values = np.asarray(values, dtype=np.float64)
    if kind == "bf16":
        word = values.astype(np.float32).view(np.uint32).astype(np.int64)
        rounded = (word + 0x7FFF + (word >> 16 & 1)) >> 16
        return Narrow(kind, np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16))
    e, m, bias = FORMATS[kind]
    half = 2 ** (e + m)
    table = decode(kind, np.arange(half))
    finite = np.flatnonzero(np.isfinite(table))
    table, top = table[finite], finite[-1]
    result = np.zeros(values.shape, np.uint8)
    for i in np.ndindex(values.shape):
        v = values[i]
        sign = half if np.signbit(v) else 0
        if np.isnan(v):
            result[i] = {"f8e4m3fn": 127 | sign, "f8e5m2": 126 | sign, "f4e2m1": 8}.get(kind, 128)
            continue
        a = abs(v)
        step = table[-1] - table[-2]
        if a >= table[-1] + step / 2 and kind != "f4e2m1" or a > table[-1] and saturate or np.isinf(a):
            if saturate or kind == "f4e2m1":
                result[i] = top | sign
            else:
                result[i] = {"f8e4m3fn": 127 | sign, "f8e5m2": 124 | sign}.get(kind, 128)
            continue
        k = np.argmin(np.abs(table - a))
        near = np.flatnonzero(np.abs(table - a) == np.abs(table - a)[k])
        k = next((n for n in near if finite[n] % 2 == 0), near[0])
        result[i] = finite[k] | (sign if finite[k] != 0 or not kind.endswith("fnuz") else 0)
    return Narrow(kind, result)


def bf16(values):
    return encode("bf16", values)

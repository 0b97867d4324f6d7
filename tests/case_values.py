"""Values of case files (docs/assembly.md, "Case files"): the safetensors file beside a case file, and random literals."""
import json
import os
import re
import struct

import numpy as np

# Name in texts: name in files, bits, bits of the mantissa.
TYPES = {
    "f32": ("F32", 32, 23), "f64": ("F64", 64, 52), "f16": ("F16", 16, 10), "bf16": ("BF16", 16, 7),
    "i8": ("I8", 8, 0), "i16": ("I16", 16, 0), "i32": ("I32", 32, 0), "i64": ("I64", 64, 0),
    "u8": ("U8", 8, 0), "u16": ("U16", 16, 0), "u32": ("U32", 32, 0), "u64": ("U64", 64, 0), "bool": ("BOOL", 8, 0)}


def random(seed, shape, low=None, high=None, integers=False):
    """The elements of `random[seed]` or `random[seed low high]`: multiples of 1/16, or integers.

    The defaults are those of floats and of signed integers."""
    low, high = (low, high) if low is not None else (-8, 8) if integers else (-2, 2)
    steps, mask = 1 if integers else 16, 2**64 - 1
    numbers = []
    for _ in range(int(np.prod(shape))):
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = seed
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
        z ^= z >> 31
        numbers.append(low + ((z >> 32) * ((high - low) * steps) >> 32) / steps)
    return np.array(numbers, np.int64 if integers else np.float64).reshape(shape)


def element(kind, text):
    """The bytes of one element of a literal."""
    name, bits, mantissa = TYPES[kind]
    if kind == "bool":
        return bytes([{"true": 1, "false": 0, "1": 1, "0": 0}[text]])
    if text.lower().startswith("0x") or mantissa == 0:
        return (int(text, 0) & (1 << bits) - 1).to_bytes(bits // 8, "little")
    if kind == "bf16":
        word = int(np.float32(text).view(np.uint32))
        word = 0x7FC00000 if np.isnan(float(text)) else word + 0x7FFF + (word >> 16 & 1)
        return struct.pack("<H", word >> 16)
    return np.array(text).astype({"f16": "<f2", "f32": "<f4", "f64": "<f8"}[kind]).tobytes()


class Values:
    """The tensors of a safetensors file: name to (type in files, shape, bytes)."""

    def __init__(self, path):
        self.path, self.tensors, self.names = path, {}, {}
        if os.path.exists(path):
            with open(path, "rb") as file:
                data = file.read()
            size = struct.unpack("<Q", data[:8])[0]
            for name, entry in json.loads(data[8:8 + size]).items():
                first, last = entry["data_offsets"]
                self.put(name, entry["dtype"], entry["shape"], data[8 + size + first:8 + size + last])

    def put(self, name, kind, shape, data):
        self.tensors[name] = (kind, shape, data)
        self.names.setdefault((kind, tuple(shape), data), name)

    def add(self, name, kind, shape, elements):
        """Adds the elements of a literal under this name, unless the file has the same tensor. Returns its name."""
        data, kind, unique = b"".join(element(kind, text) for text in elements), TYPES[kind][0], name
        known = self.names.get((kind, tuple(shape), data))
        number = 2
        while known is None and unique in self.tensors:
            unique, number = f"{name}_{number}", number + 1
        if known is None:
            self.put(unique, kind, shape, data)
        return known or unique

    def save(self):
        header, at = {}, 0
        for name, (kind, shape, data) in self.tensors.items():
            header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + len(data)]}
            at += len(data)
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(self.path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.writelines(data for _, _, data in self.tensors.values())


def word(name):
    """The name as a word of the assembly."""
    name = re.sub(r"\W+", "_", name).strip("_")
    return "_" + name if name[:1].isdigit() else name

"""The parts of a serialized ONNX model that a session tells about: metadata, and types of inputs and outputs.

A walk over the protobuf wire format that skips everything else, nodes and weights in particular.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

Shape = list[int | str | None]

# The version of a model that states none.
NO_VERSION = (1 << 63) - 1

# TensorProto.DataType as ONNX Runtime names it.
ELEMENT_TYPES = {
    1: "float", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
    10: "float16", 11: "double", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
    17: "float8e4m3fn", 18: "float8e4m3fnuz", 19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4", 22: "int4",
    23: "float4e2m1", 24: "float8e8m0", 25: "uint2", 26: "int2",
}  # fmt: skip


class Info(NamedTuple):
    """Name, type string and shape of an input or output; the shape is None if it is not declared."""

    name: str
    type: str
    shape: Shape | None
    denotations: list[str]  # of the dimensions, "" where there is none


class Model(NamedTuple):
    producer_name: str
    domain: str
    version: int
    description: str
    graph_name: str
    graph_description: str
    metadata: dict[str, str]
    inputs: list[Info]
    outputs: list[Info]
    initializers: set[str]


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """Give the number and content of each field: an int, or a memoryview."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
        elif kind == 2:
            length, at = _varint(data, at)
            yield key >> 3, data[at : at + length]
            at += length
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError(f"a protobuf field of kind {kind}")


def _text(data: Any) -> str:
    return bytes(data).decode("utf-8", "replace")


def _first(data: memoryview, number: int) -> Any:
    return next((value for field, value in _fields(data) if field == number), None)


def _shape(data: memoryview) -> Shape:
    result: Shape = []
    for number, dimension in _fields(data):
        if number == 1:
            size: int | str | None = None
            for field, value in _fields(dimension):
                # ONNX Runtime takes negative sizes and empty names for absent.
                if field == 1:
                    size = value if value < 1 << 63 else None
                elif field == 2:
                    size = _text(value) or None
            result.append(size)
    return result


def _type(data: memoryview) -> tuple[str, Shape | None]:
    for number, value in _fields(data):
        if number == 1:
            element, shape = _first(value, 1) or 0, _first(value, 2)
            return f"tensor({ELEMENT_TYPES.get(element, '?')})", None if shape is None else _shape(shape)
        if number in (4, 9):
            inner = _first(value, 1)
            name = _type(inner)[0] if inner is not None else "?"
            return f"{'seq' if number == 4 else 'optional'}({name})", []
        if number == 5:
            inner = _first(value, 2)
            name = _type(inner)[0] if inner is not None else "?"
            return f"map({ELEMENT_TYPES.get(_first(value, 1) or 0, '?')},{name})", []
    return "", None


def _denotations(declared: memoryview) -> list[str]:
    tensor = _first(declared, 1)
    shape = _first(tensor, 2) if tensor is not None else None
    if shape is None:
        return []
    return [_text(_first(dimension, 3) or b"") for number, dimension in _fields(shape) if number == 1]


def _info(data: memoryview) -> Info:
    name = _first(data, 1)
    declared = _first(data, 2)
    kind, shape = _type(declared) if declared is not None else ("", None)
    return Info(_text(name) if name is not None else "", kind, shape, _denotations(declared) if declared is not None else [])


def read(data: bytes) -> Model:
    """Read a serialized model."""
    texts: dict[int, str] = {}
    version = NO_VERSION
    metadata: dict[str, str] = {}
    graph = memoryview(b"")
    for number, value in _fields(memoryview(data)):
        if number in (2, 4, 6):
            texts[number] = _text(value)
        elif number == 5:
            version = value if value < 1 << 63 else value - (1 << 64)
        elif number == 7:
            graph = value
        elif number == 14:
            key, text = _first(value, 1), _first(value, 2)
            metadata[_text(key or b"")] = _text(text or b"")
    graph_name = graph_description = ""
    inputs, outputs, initializers = [], [], set()
    for number, value in _fields(graph):
        if number == 2:
            graph_name = _text(value)
        elif number == 10:
            graph_description = _text(value)
        elif number == 11:
            inputs.append(_info(value))
        elif number == 12:
            outputs.append(_info(value))
        elif number == 5:
            initializers.add(_text(_first(value, 8) or b""))
    return Model(
        texts.get(2, ""), texts.get(4, ""), version, texts.get(6, ""), graph_name, graph_description, metadata, inputs, outputs,
        initializers,
    )  # fmt: skip

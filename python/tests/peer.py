"""ONNX Runtime's C library as a small module with the interface of its Python package, for comparisons.

The library is the one of npm's package onnxruntime-node, which scripts/onnxruntime.sh finds or installs. Only a part of
the interface is here: sessions of tensors, what they say of inputs and outputs, metadata, and errors.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p
from types import SimpleNamespace

import numpy as np
from support import ROOT

# Slots of the table of functions, which never move.
SLOTS = {
    "error_code": 1, "error_message": 2, "create_environment": 3, "create_session": 7, "create_session_from_bytes": 8, "run": 9,
    "create_options": 10, "set_severity": 22, "set_level": 23, "set_threads": 24, "input_count": 30, "output_count": 31,
    "overridable_count": 32, "input_type": 33, "output_type": 34, "overridable_type": 35, "input_name": 36, "output_name": 37,
    "overridable_name": 38, "create_tensor": 49, "tensor_data": 51, "as_tensor_info": 55, "kind_of_type": 56, "element_type": 60,
    "dim_count": 61, "dims": 62, "dim_names": 63, "tensor_info": 65, "kind_of_value": 67, "cpu_memory": 69, "allocator": 78,
    "get_value": 80, "value_count": 81, "release_status": 93, "release_session": 95, "release_value": 96, "release_type": 98,
    "release_tensor_info": 99, "as_map": 103, "as_sequence": 104, "key_type": 105, "map_value_type": 106, "item_type": 107,
    "metadata": 111, "producer_name": 112, "graph_name": 113, "domain": 114, "description": 115, "look_up": 116, "version": 117,
    "keys": 123, "override_dim": 124,
}  # fmt: skip
API_VERSION = 16
TENSOR, SEQUENCE, MAP, OPTIONAL = 1, 2, 3, 6
ELEMENT_TYPES = {
    1: ("float", "f4"), 2: ("uint8", "u1"), 3: ("int8", "i1"), 4: ("uint16", "u2"), 5: ("int16", "i2"), 6: ("int32", "i4"),
    7: ("int64", "i8"), 8: ("string", "O"), 9: ("bool", "?"), 10: ("float16", "f2"), 11: ("double", "f8"), 12: ("uint32", "u4"),
    13: ("uint64", "u8"), 16: ("bfloat16", "u2"),
}  # fmt: skip
NUMBERS = {np.dtype(code): number for number, (_, code) in ELEMENT_TYPES.items() if number not in (8, 16)}


class PeerError(Exception):
    """An error of ONNX Runtime: its code and message."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def find_library():
    """Return the path of ONNX Runtime's library, or None where there is none for this machine."""
    done = subprocess.run([ROOT / "scripts/onnxruntime.sh"], capture_output=True, text=True)
    if done.returncode == 77:
        return None
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.strip()


class Library:
    """The table of functions."""

    def __init__(self, path):
        library = ctypes.CDLL(path)
        library.OrtGetApiBase.restype = POINTER(c_void_p)
        base = library.OrtGetApiBase()
        get_api = ctypes.CFUNCTYPE(POINTER(c_void_p), ctypes.c_uint32)(base[0])
        self._table = get_api(API_VERSION)
        self.version_string = ctypes.CFUNCTYPE(c_char_p)(base[1])().decode()
        self._functions = {}
        self.environment, self.memory, self.allocator = c_void_p(), c_void_p(), c_void_p()
        self.call("create_environment", c_int(3), b"peer", byref(self.environment))
        self.call("cpu_memory", c_int(0), c_int(0), byref(self.memory))
        self.call("allocator", byref(self.allocator))

    def function(self, name, result):
        if name not in self._functions:
            function = ctypes.cast(self._table[SLOTS[name]], ctypes.CFUNCTYPE(result))
            self._functions[name] = function
        return self._functions[name]

    def call(self, name, *arguments):
        status = self.function(name, c_void_p)(*arguments)
        if status:
            status = c_void_p(status)
            code = self.function("error_code", c_int)(status)
            message = self.function("error_message", c_char_p)(status).decode()
            self.release("status", status)
            raise PeerError(code, message)

    def get(self, name, kind, *arguments):
        result = kind()
        self.call(name, *arguments, byref(result))
        return result if kind is c_void_p else result.value

    def release(self, name, pointer):
        self.function("release_" + name, None)(pointer)

    def text(self, name, *arguments):
        return ctypes.cast(self.get(name, c_void_p, *arguments, self.allocator), c_char_p).value.decode()


_library = None


def library():
    global _library
    if _library is None:
        _library = Library(find_library())
    return _library


def _type_text(api, info):
    """Return a type string as ONNX Runtime's Python package has it, and the shape."""
    kind = api.get("kind_of_type", c_int, info)
    if kind == SEQUENCE:
        inner = api.get("item_type", c_void_p, api.get("as_sequence", c_void_p, info))
        return f"seq({_type_text(api, inner)[0]})", []
    if kind == MAP:
        own = api.get("as_map", c_void_p, info)
        key = ELEMENT_TYPES[api.get("key_type", c_int, own)][0]
        return f"map({key},{_type_text(api, api.get('map_value_type', c_void_p, own))[0]})", []
    if kind != TENSOR:
        return {OPTIONAL: "optional"}.get(kind, "?"), []
    own = api.get("as_tensor_info", c_void_p, info)
    count = api.get("dim_count", c_size_t, own)
    dims, names = (c_int64 * count)(), (c_char_p * count)()
    api.call("dims", own, dims, c_size_t(count))
    api.call("dim_names", own, names, c_size_t(count))
    shape = [name.decode() if name else None if size < 0 else size for size, name in zip(dims, names)]
    return f"tensor({ELEMENT_TYPES[api.get('element_type', c_int, own)][0]})", shape


class NodeArg(SimpleNamespace):
    """Name, type and shape of an input or output."""


class InferenceSession:
    """A session of the C library. Options have an effect on threads and the level of optimization alone."""

    def __init__(self, path_or_bytes, sess_options=None, providers=None, provider_options=None, level=None, dims=None):
        api = self._api = library()
        options = api.get("create_options", c_void_p)
        api.call("set_threads", options, c_int(1))
        api.call("set_severity", options, c_int(4))
        if level is not None:
            api.call("set_level", options, c_int(level))
        for name, size in (dims or {}).items():
            api.call("override_dim", options, name.encode(), c_int64(size))
        if isinstance(path_or_bytes, bytes):
            create = ("create_session_from_bytes", api.environment, path_or_bytes, c_size_t(len(path_or_bytes)), options)
        else:
            create = ("create_session", api.environment, os.fspath(path_or_bytes).encode(), options)
        self._session = api.get(create[0], c_void_p, *create[1:])

    def _describe(self, what):
        api = self._api
        result = []
        for i in range(api.get(what + "_count", c_size_t, self._session)):
            info = api.get(what + "_type", c_void_p, self._session, c_size_t(i))
            kind, shape = _type_text(api, info)
            api.release("type", info)
            result.append(NodeArg(name=api.text(what + "_name", self._session, c_size_t(i)), type=kind, shape=shape))
        return result

    def get_inputs(self):
        return self._describe("input")

    def get_outputs(self):
        return self._describe("output")

    def get_overridable_initializers(self):
        return self._describe("overridable")

    def get_providers(self):
        return ["CPUExecutionProvider"]

    def get_modelmeta(self):
        api = self._api
        own = api.get("metadata", c_void_p, self._session)
        texts = {name: api.text(name, own) for name in ("producer_name", "graph_name", "domain", "description")}
        keys, count = POINTER(c_char_p)(), c_int64()
        api.call("keys", own, api.allocator, byref(keys), byref(count))
        custom = {}
        for i in range(count.value):
            value = c_void_p()
            api.call("look_up", own, api.allocator, keys[i], byref(value))
            custom[keys[i].decode()] = ctypes.cast(value, c_char_p).value.decode()
        return SimpleNamespace(**texts, version=api.get("version", c_int64, own), custom_metadata_map=custom)

    def run(self, output_names, input_feed, run_options=None):
        api = self._api
        outputs = list(output_names or [item.name for item in self.get_outputs()])
        arrays = [np.ascontiguousarray(array) for array in input_feed.values()]
        inputs = (c_void_p * len(arrays))()
        for i, array in enumerate(arrays):
            dims = (c_int64 * array.ndim)(*array.shape)
            number = c_int(NUMBERS[array.dtype])
            data, size = c_void_p(array.ctypes.data), c_size_t(array.nbytes)
            value = api.get("create_tensor", c_void_p, api.memory, data, size, dims, c_size_t(array.ndim), number)
            inputs[i] = value.value
        results = (c_void_p * len(outputs))()
        input_names = (c_char_p * len(arrays))(*[name.encode() for name in input_feed])
        names = (c_char_p * len(outputs))(*[name.encode() for name in outputs])
        try:
            api.call("run", self._session, None, input_names, inputs, c_size_t(len(arrays)), names, c_size_t(len(outputs)), results)
            return [self._value(c_void_p(result)) for result in results]
        finally:
            for value in [*inputs, *results]:
                if value:
                    api.release("value", c_void_p(value))

    def _value(self, value):
        api = self._api
        if api.get("kind_of_value", c_int, value) == SEQUENCE:
            count = api.get("value_count", c_size_t, value)
            items = [api.get("get_value", c_void_p, value, c_int(i), api.allocator) for i in range(count)]
            arrays = [self._value(item) for item in items]
            for item in items:
                api.release("value", item)
            return arrays
        info = api.get("tensor_info", c_void_p, value)
        rank = api.get("dim_count", c_size_t, info)
        dims = (c_int64 * rank)()
        api.call("dims", info, dims, c_size_t(rank))
        dtype = np.dtype(ELEMENT_TYPES[api.get("element_type", c_int, info)][1])
        api.release("tensor_info", info)
        count = int(np.prod(dims, dtype=np.int64))
        if count == 0:
            return np.zeros(tuple(dims), dtype)
        data = api.get("tensor_data", c_void_p, value)
        memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(data.value)
        return np.frombuffer(memory, dtype).reshape(tuple(dims)).copy()

    def __del__(self):
        if getattr(self, "_session", None):
            self._api.release("session", self._session)
            self._session = None

"""A case under construction: random draws, the model's nodes, and how both become files."""
import math
import os
import random

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper

# ONNX's number of each element type, and the NumPy type of its values here. Types that NumPy lacks have a wider type
# whose values are exact.
KINDS = {
    "f32": (1, np.float32), "u8": (2, np.uint8), "i8": (3, np.int8), "u16": (4, np.uint16), "i16": (5, np.int16),
    "i32": (6, np.int32), "i64": (7, np.int64), "str": (8, object), "bool": (9, np.bool_), "f16": (10, np.float16),
    "f64": (11, np.float64), "u32": (12, np.uint32), "u64": (13, np.uint64), "bf16": (16, np.float32),
    "u4": (21, np.uint8), "i4": (22, np.int8),
}
FLOATS = ("f16", "f32", "f64")
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTEGERS
# Sizes that vector loops of 4 to 64 lanes, their tails and blocks of 2 to 256 treat differently.
SIZES = [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 15, 16, 17, 20, 24, 31, 32, 33, 48, 63, 64, 65, 96,
         100, 127, 128, 129, 200, 255, 256, 257, 300, 511, 513, 1000, 1025, 4097]
EPSILON = {"f64": 2.0 ** -52, "f32": 2.0 ** -23, "f16": 2.0 ** -10, "bf16": 2.0 ** -7}


class Dropped(Exception):
    """What was drawn cannot be had, as a type before the opset that has it."""


def rounded(array, kind):
    """The nearest values that a kind has, as NumPy holds them."""
    array = np.asarray(array)
    if kind != "bf16":
        with np.errstate(all="ignore"):
            return array.astype(KINDS[kind][1])
    bits = np.atleast_1d(array.astype(np.float32)).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)
    result = bits.astype(np.uint32).view(np.float32)
    result[np.isnan(np.atleast_1d(array))] = np.nan
    return result.reshape(array.shape)


def tensor(array, kind, name=""):
    """A TensorProto with raw_data, or string_data."""
    array = np.asarray(array)
    proto = TensorProto(data_type=KINDS[kind][0], dims=array.shape, name=name)
    if kind == "str":
        proto.string_data.extend(str(item).encode() for item in array.ravel())
    elif kind == "bf16":
        bits = np.atleast_1d(array.astype(np.float32)).view(np.uint32)
        proto.raw_data = (bits >> np.uint32(16)).astype("<u2").tobytes()
    elif kind in ("u4", "i4"):
        nibbles = array.ravel().astype(np.uint8) & 15
        nibbles = np.append(nibbles, np.zeros(len(nibbles) % 2, np.uint8))
        proto.raw_data = (nibbles[0::2] | nibbles[1::2] << 4).astype(np.uint8).tobytes()
    else:
        proto.raw_data = np.ascontiguousarray(array, KINDS[kind][1]).tobytes()
    return proto


class Case:
    def __init__(self, name, seed, opset):
        self.name, self.seed, self.opset = name, seed, opset
        self.random = random.Random(f"{name}:{seed}")
        self.numpy = np.random.default_rng(self.random.getrandbits(63))
        self.nodes, self.initializers, self.inputs, self.outputs, self.references = [], [], [], [], []
        self.tolerance = None
        self.peer = True
        self.for_peer = None  # makes the model that the peer is given out of the case's
        self.settings = set()
        self.kinds_seen = set()
        self.domains = {"": opset}
        self.counter = 0
        # Declarations of the inputs' shapes: the compiler knows all sizes, some, only the rank, or nothing.
        self.declaring = self.random.choice(["sizes", "sizes", "sizes", "some", "rank", "nothing"])
        self.constant_share = self.random.choice([0, 0, 0.3, 0.6])

    # ---- Draws ----

    def chance(self, p):
        return self.random.random() < p

    def choice(self, items):
        return self.random.choice(list(items))

    def integer(self, low, high):
        return self.random.randint(low, high)

    def real(self, low, high):
        return float(np.float32(self.random.uniform(low, high)))

    def kind(self, kinds):
        """One of the kinds, the plain float most often."""
        kinds = list(kinds)
        return "f32" if "f32" in kinds and self.chance(0.45) else self.choice(kinds)

    def limit(self):
        """Elements that a tensor may have; few have so many that kernels use threads."""
        return self.random.choices([80, 700, 6000, 100000], [30, 50, 17, 3])[0]

    def shape(self, rank=None, low=0, high=4, limit=None, zero=0.02, sizes=SIZES):
        rank = self.integer(low, high) if rank is None else rank
        limit = limit or self.limit()
        dims = [1] * rank
        for axis in self.random.sample(range(rank), rank):
            dims[axis] = self.choice([size for size in sizes if size <= max(1, limit // math.prod(dims))] or [1])
        if rank and self.chance(zero):
            dims[self.integer(0, rank - 1)] = 0
        return dims

    def broadcastable(self, shape, share=0.35):
        """A shape that numpy broadcasts to `shape`."""
        dims = [1 if self.chance(share) else size for size in shape]
        if self.chance(share):
            dims = dims[self.integer(0, len(dims)):]
        return dims if self.chance(share * 2) else list(shape)

    def axis(self, rank):
        axis = self.integer(0, rank - 1)
        return axis - rank if self.chance(0.4) else axis

    def axes(self, rank, low=1):
        chosen = self.random.sample(range(rank), self.integer(min(low, rank), rank))
        if self.chance(0.5):
            chosen.sort()
        return [axis - rank if self.chance(0.3) else axis for axis in chosen]

    def floats(self, shape, kind="f32", low=-2.0, high=2.0, special=0.0):
        array = self.numpy.uniform(low, high, shape)
        if special and array.size:
            places = self.numpy.random(shape) < special
            # The last two are subnormal in f32 and bf16.
            array = np.where(places, self.numpy.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-39, -1e-39], shape), array)
        return rounded(array, kind)

    def ints(self, shape, kind="i64", low=None, high=None):
        info = np.iinfo(KINDS[kind][1])
        least, most = {"i4": (-8, 7), "u4": (0, 15)}.get(kind, (info.min, info.max))
        low = max(least, -100) if low is None else max(low, least)
        high = min(most, 100) if high is None else min(high, most)
        return self.numpy.integers(low, high, shape, dtype=np.int64 if kind != "u64" else np.uint64,
                                   endpoint=True).astype(KINDS[kind][1])

    def values(self, shape, kind, low=-2.0, high=2.0, special=0.0):
        """Values of any kind: floats within the bounds, integers within the bounds times ten."""
        if kind == "bool":
            return self.numpy.random(shape) < 0.5
        if kind == "str":
            words = np.array(["", "a", "b", "ab", "abc", "A", "zebra", "0", "-1.5", "ü", "日本", "a longer string, past any "
                              "short-string space"], object)
            return words[self.numpy.integers(0, len(words), shape)] if math.prod(shape) or shape else \
                np.empty(shape, object)
        if kind in ("f16", "f32", "f64", "bf16"):
            return self.floats(shape, kind, low, high, special)
        return self.ints(shape, kind, math.floor(low * 10) if low > -1e9 else None, math.ceil(high * 10))

    # ---- The graph ----

    def fresh(self, prefix="v"):
        self.counter += 1
        return f"{prefix}{self.counter}"

    def constant(self, array, kind):
        name = self.fresh("c")
        self.initializers.append(tensor(array, kind, name))
        return name

    def feed(self, array, kind, constant=None):
        """The name of a graph input, or an initializer, with these elements."""
        self.kinds_seen.add(kind)
        if self.chance(self.constant_share if constant is None else constant):
            return self.constant(array, kind)
        name = self.fresh("x")
        self.inputs.append((name, np.asarray(array), kind))
        return name

    def setting(self, items, kind="i64", rank=1):
        """An operand that is mostly constant in practice: axes, sizes, pads."""
        array = np.array(items, KINDS[kind][1])
        array = array.reshape(-1) if rank == 1 else array.reshape(())
        name = self.feed(array, kind, constant=0.7)
        self.kinds_seen.discard(kind)
        self.settings.add(name)
        return name

    def node(self, operator, inputs, results=1, domain="", **attributes):
        """Adds a node; the name of its result, or a list of them. Attributes that are None are left out; a name that is
        "" is no operand."""
        inputs = list(inputs)
        while inputs and inputs[-1] == "":
            inputs.pop()
        names = [self.fresh() for _ in range(results)]
        self.nodes.append(make_node(operator, inputs, names, domain, attributes))
        return names[0] if results == 1 else names

    def output(self, name, kind=None, reference=None):
        """Makes a value an output. `reference` is what it should be (a list: of a sequence), for models that the peer
        refuses."""
        self.outputs.append((name, None if isinstance(reference, list) else kind))
        self.references.append(None if reference is None else (reference, kind))
        if kind is not None:
            self.kinds_seen.add(kind)

    def without_peer(self):
        """The references decide: the peer is wrong, or does not say what it is given."""
        self.peer = False

    def as_before(self, opset):
        """The peer is given the model as one of this opset, which means the same, where it has no newer one."""
        def changed(model):
            next(entry for entry in model.opset_import if entry.domain == "").version = opset
            return model

        if self.opset > opset:
            self.for_peer = changed

    def known(self, what):
        """The compiler has to know all "sizes" of inputs, or at least the "rank"."""
        if self.declaring == "nothing" or what == "sizes":
            self.declaring = what

    def within(self, relative, absolute=None):
        """Tolerances other than those of the least precise float that takes part."""
        self.tolerance = (relative, relative if absolute is None else absolute)

    def sums(self, count, scale=1.0):
        """Tolerances for sums of so many terms of such a size, added in any order."""
        worst = max([EPSILON.get(kind, 0) for kind in self.kinds_seen] + [2.0 ** -52])
        accumulated = max(worst, 2.0 ** -23) if worst > 2.0 ** -40 else worst
        self.within(8 * worst + 4e-6 if worst > 2.0 ** -40 else 1e-10,
                    scale * (accumulated * (4 + math.sqrt(max(count, 1)) * 4) + worst * 2))

    # ---- Files ----

    def model(self):
        self.random.seed(f"model {self.name} {self.seed}")
        model = ModelProto(ir_version=8 if self.opset < 21 else 10, producer_name="differential")
        for domain, version in self.domains.items():
            entry = model.opset_import.add()
            entry.domain, entry.version = domain, version
        graph = model.graph
        graph.name = "case"
        graph.node.extend(self.nodes)
        graph.initializer.extend(self.initializers)
        for name, array, kind in self.inputs:
            info = graph.input.add(name=name)
            declared = info.type.tensor_type
            declared.elem_type = KINDS[kind][0]
            # ONNX Runtime treats lists without a declared length as empty.
            declaring = "sizes" if name in self.settings else self.declaring
            if declaring == "nothing":
                continue
            declared.shape.SetInParent()
            for index, size in enumerate(array.shape):
                dim = declared.shape.dim.add()
                if declaring == "sizes" or (declaring == "some" and self.chance(0.5)):
                    dim.dim_value = size
                elif self.chance(0.5):
                    dim.dim_param = f"{name}_{index}"
        for name, kind in self.outputs:
            info = graph.output.add(name=name)
            if kind is not None:
                info.type.tensor_type.elem_type = KINDS[kind][0]
        return model

    def tolerances(self):
        if self.tolerance is not None:
            return self.tolerance
        worst = max([EPSILON.get(kind, 0) for kind in self.kinds_seen] + [0])
        if worst == 0:
            return 0, 0
        return (1e-11, 1e-12) if worst < 2.0 ** -40 else (8 * worst + 1e-5 if worst > 1e-6 else 1e-5, worst * 8)

    def write(self, folder):
        data = os.path.join(folder, "test_data_set_0")
        os.makedirs(data)
        with open(os.path.join(folder, "model.onnx"), "wb") as file:
            file.write(self.model().SerializeToString())
        if self.for_peer is not None:
            with open(os.path.join(folder, "peer.onnx"), "wb") as file:
                file.write(self.for_peer(self.model()).SerializeToString())
        for index, (name, array, kind) in enumerate(self.inputs):
            with open(os.path.join(data, f"input_{index}.pb"), "wb") as file:
                file.write(tensor(array, kind, name).SerializeToString())
        if self.references and all(reference is not None for reference in self.references):
            place = os.path.join(folder, "reference") if self.peer else data
            os.makedirs(place, exist_ok=True)
            for index, (reference, kind) in enumerate(self.references):
                parts = [(f"_{i}", item) for i, item in enumerate(reference)] if isinstance(reference, list) else [("", reference)]
                for ending, array in parts:
                    with open(os.path.join(place, f"output_{index}{ending}.pb"), "wb") as file:
                        file.write(tensor(array if kind == "str" else rounded(array, kind), kind).SerializeToString())


def make_node(operator, inputs, outputs, domain="", attributes=None):
    node = NodeProto(op_type=operator, input=inputs, output=outputs, domain=domain)
    for name, value in sorted((attributes or {}).items()):
        if value is None:
            continue
        if isinstance(value, (list, tuple)) and not value:
            node.attribute.add(name=name, type=AttributeProto.INTS)
        else:
            node.attribute.append(helper.make_attribute(name, value))
    return node

"""The only module that uses the tape: types of results, and the recorded graph played on a building tape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _tape
from ..errors import Error, Unsupported
from .graph import Dims, Graph, GraphValue, Node, Type, remove_unused

_NUMPY = {
    "f32": "float32", "f64": "float64", "f16": "float16", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
    "u16": "uint16", "u32": "uint32", "u64": "uint64", "bool": "bool", "c64": "complex64", "c128": "complex128",
}  # fmt: skip
_NAMES = {value: key for key, value in _NUMPY.items()}
# Names by types of NumPy, whose texts take long to make.
_KNOWN: dict[Any, str] = {}

# Constants of at most this many bytes take part in the inference of shapes.
_SMALL = 1024


def numpy_dtype(dtype: str) -> Any:
    """Return NumPy's type of elements."""
    import numpy

    return numpy.dtype(_NUMPY[dtype])


def dtype_of(dtype: Any) -> str:
    """Return the name of a type of NumPy."""
    name = _KNOWN.get(dtype)
    if name is None:
        name = _NAMES.get(str(dtype))
        if name is None:
            raise ValueError(f"arrays of {dtype} cannot be part of a program")
        _KNOWN[dtype] = name
    return name


# ---- Inference ----


def _item_dims(a: Dims, b: Dims) -> Dims:
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b))


def _infer_sequence(name: str, types: Sequence[Type], attributes: dict[str, Any]) -> list[Type] | None:
    """Types of the instructions on sequences, whose items may differ in shape."""
    if name == "SequenceUnpad" and types[0].dims is not None:
        return [Type(types[0].dtype, (None, *types[0].dims[2:]), True)]
    if name == "SequenceConstruct":
        if not types:
            return [Type(attributes["dtype"], None, True)]
        dims = types[0].dims
        for other in types[1:]:
            dims = _item_dims(dims, other.dims)
        return [Type(types[0].dtype, dims, True)]
    if name == "SplitToSequence" and types[0].dims is not None:
        axis, parts = attributes.get("axis", 0), list(types[0].dims)
        if len(types) == 1 and not attributes.get("keepdims", 1):
            del parts[axis]
        else:
            parts[axis] = None
        return [Type(types[0].dtype, tuple(parts), True)]
    if not types or not types[0].sequence:
        return None
    first = types[0]
    if name in ("SequenceInsert", "SequenceExtend", "SequenceUpdate"):
        item = types[2 if name == "SequenceUpdate" else 1]
        known = _item_dims(first.dims, item.dims) if first.dims is not None else item.dims
        return [Type(first.dtype, known, True)]
    if name in ("SequenceErase", "SequenceGetSlice"):
        return [first]
    if name == "SequenceAt":
        return [Type(first.dtype, first.dims)]
    if name == "SequenceLength":
        return [Type("i64", ())]
    if name == "ConcatFromSequence" and first.dims is not None:
        axis, sizes = attributes["axis"], list(first.dims)
        if attributes.get("new_axis"):
            sizes.insert(axis if axis >= 0 else axis + len(sizes) + 1, None)
        else:
            sizes[axis] = None
        return [Type(first.dtype, tuple(sizes))]
    if name == "SequencePad" and first.dims is not None:
        return [Type(first.dtype, (None, None, *first.dims[1:]))]
    return None


class UnknownRank(ValueError):
    """The type of a result cannot be inferred."""


class _Inference:
    """Infers types with the tape's own rules, once for each instruction, operand types, constants and attributes."""

    def __init__(self) -> None:
        self.tape = _tape.Tape("building", threads=1)
        self.operands: dict[Any, Any] = {}
        self.known: dict[Any, list[Type]] = {}

    def operand(self, value: GraphValue | None) -> tuple[Any, Any]:
        if value is None:
            return None, None
        array = value.array
        if array is not None and array.nbytes <= _SMALL:
            key: Any = (array.dtype.str, array.shape, array.tobytes())
        else:
            key = value.type
        if key in self.operands:
            return self.operands[key], key
        kind = value.type
        if isinstance(key, Type):
            if kind.dims is None:
                raise UnknownRank("the rank of an operand is not known, since it differs between the paths to this point")
            if kind.sequence:
                item = self.tape.input(f"x{len(self.operands)}", kind.dtype, [_tape_dim(d) for d in kind.dims])
                made = self.tape.call("SequenceConstruct", [[item]])
            else:
                made = self.tape.input(f"x{len(self.operands)}", kind.dtype, [_tape_dim(d) for d in kind.dims])
        else:
            made = self.tape.constant(array)
        self.operands[key] = made
        return made, key

    def infer(self, name: str, inputs: Sequence[GraphValue | None], attributes: dict[str, Any], count: int) -> list[Type]:
        pairs = [self.operand(value) for value in inputs]
        key = (name, tuple(p[1] for p in pairs), tuple(sorted((k, repr(v)) for k, v in attributes.items())), count)
        if key not in self.known:
            try:
                results = _call(self.tape, name, [p[0] for p in pairs], attributes, count)
            except Error as error:
                raise ValueError(_reason(str(error))) from None
            self.known[key] = [Type(v.dtype, v.shape, v.kind == "sequence") for v in results]
        return self.known[key]


def _tape_dim(dim: Any) -> Any:
    return dim


def _reason(text: str) -> str:
    return text.split("\n")[0]


_inference: list[_Inference] = []


def infer(name: str, inputs: Sequence[GraphValue | None], attributes: dict[str, Any], count: int) -> list[Type]:
    """Return the types of the results of an instruction. Raises ValueError if it does not accept the operands."""
    if name == "Print":
        return []
    found = _infer_sequence(name, [value.type for value in inputs if value is not None], attributes)
    if found is not None:
        return found
    if name == "HostCall":
        return [
            Type(_HOST[d], None if r < 0 else (None,) * r) for d, r in zip(attributes["dtypes"], attributes["ranks"])
        ]
    if not _inference:
        _inference.append(_Inference())
    return _inference[0].infer(name, inputs, attributes, count)


_folding: list[_tape.Tape] = []
_MOST_FOLDED = 4096


def fold(name: str, inputs: Sequence[GraphValue | None], attributes: dict[str, Any], count: int) -> list[Any] | None:
    """Return the arrays that an instruction makes of small constants, or None if its operands are no such constants."""
    if not inputs or name == "HostCall" or name.startswith("Sequence"):
        return None
    if not all(value is None or value.array is not None and not value.name and value.array.nbytes <= _MOST_FOLDED for value in inputs):
        return None
    import numpy

    if not _folding:
        _folding.append(_tape.Tape("eager", threads=1))
    try:
        operands = [None if v is None else _folding[0].constant(numpy.ascontiguousarray(v.array).reshape(v.array.shape)) for v in inputs]
        made = _call(_folding[0], name, operands, attributes, count)
        arrays = [numpy.array(variable.value()) for variable in made]
    except (Error, TypeError, ValueError):
        # The program fails in the same way when it runs.
        _folding.clear()
        return None
    return arrays if all(str(array.dtype) in _NAMES and array.nbytes <= _MOST_FOLDED for array in arrays) else None


def forget() -> None:
    """Release what inference and folding remember."""
    _inference.clear()
    _folding.clear()


_HOST = {1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 9: "bool", 10: "f16", 11: "f64", 12: "u32", 13: "u64"}
HOST_CODES = {value: key for key, value in _HOST.items()}


def _takes_list(name: str) -> bool:
    operands = _tape.INSTRUCTIONS[name]["operands"]
    return len(operands) == 1 and operands[0][1] in ("LIST", "ANYS")


def _gives_list(name: str) -> bool:
    results = _tape.INSTRUCTIONS[name]["results"]
    return len(results) == 1 and results[0][1] == "LIST"


def _call(tape: _tape.Tape, name: str, inputs: list[Any], attributes: dict[str, Any], count: int) -> list[Any]:
    operands: list[Any] = [inputs] if _takes_list(name) else inputs
    if count == 1 and not _gives_list(name):
        made = tape.call(name, operands, attributes, 1)
    else:
        made = tape.call(name, operands, attributes, count)
    if made is None:
        return []
    return list(made) if isinstance(made, (tuple, list)) else [made]


# ---- Playing ----


class _Player:
    """Plays a graph on a building tape."""

    def __init__(self, functions: dict[str, Callable[..., Any]]) -> None:
        self.tape = _tape.Tape("building", threads=1, functions=functions or None)
        self.variables: dict[int, Any] = {}
        # Dimensions that later rounds or other branches change are hidden from the types of states.
        self.zero: Any = None

    def variable(self, value: GraphValue | None) -> Any:
        if value is None:
            return None
        found = self.variables.get(id(value))
        if found is None:
            assert value.array is not None, "a value is used out of its scope"
            import numpy

            array = numpy.ascontiguousarray(value.array).reshape(value.array.shape)
            if value.name and array.dtype.kind == "f":
                found = self.variables[id(value)] = self.tape.parameter(array, name=value.name)
            else:
                found = self.variables[id(value)] = self.tape.constant(array)
        return found

    def play(self, graph: Graph) -> None:
        for node in graph.nodes:
            if node.op == "If":
                made = self.branch(node)
            elif node.op == "Loop":
                made = self.loop(node)
            else:
                made = _call(self.tape, node.op, [self.variable(v) for v in node.inputs], node.attributes, len(node.results))
            for result, variable in zip(node.results, made):
                self.variables[id(result)] = variable

    def branch(self, node: Node) -> list[Any]:
        def side(graph: Graph) -> Callable[[], Any]:
            def run() -> Any:
                self.play(graph)
                return tuple(self.variable(value) for value in graph.results)

            return run

        condition = self.variable(node.inputs[0])
        self.constants_of(node)
        return list(self.tape.branch(condition, side(node.graphs[0]), side(node.graphs[1]), len(node.results)))

    def loop(self, node: Node) -> list[Any]:
        body = node.graphs[0]
        self.constants_of(node)
        states = [self.variable(value) for value in node.inputs[2:]]

        def run(index: Any, *now: Any) -> Any:
            for parameter, variable in zip(body.parameters, (index, *now)):
                self.variables[id(parameter)] = variable
            self.play(body)
            return self.variable(body.results[0]), [self.variable(value) for value in body.results[1:]]

        return list(self.tape.loop(self.variable(node.inputs[0]), self.variable(node.inputs[1]), run, states))

    def constants_of(self, node: Node) -> None:
        """Create constants outside of branches and loops, so that each exists once."""
        for graph in node.graphs:
            for value in graph.results:
                if value.array is not None:
                    self.variable(value)
            for inner in graph.nodes:
                for operand in inner.inputs:
                    if operand is not None and operand.array is not None:
                        self.variable(operand)
                self.constants_of(inner)


def build(
    graph: Graph, names: Sequence[str], options: dict[str, Any], callbacks: dict[str, Any], functions: dict[str, Callable[..., Any]]
) -> tuple[bytes, bytes, dict[str, Any]]:
    """Compile a graph to a program, or to an ONNX model if the options say so. `names` are those of the results."""
    try:
        return _build(graph, names, options, callbacks, functions)
    except RecursionError:
        reason = "the source nests branches and loops deeper than Python's recursion limit allows. Use fewer, or raise it with sys.setrecursionlimit"
        raise Unsupported(reason) from None


def _build(
    graph: Graph, names: Sequence[str], options: dict[str, Any], callbacks: dict[str, Any], functions: dict[str, Callable[..., Any]]
) -> tuple[bytes, bytes, dict[str, Any]]:
    remove_unused(graph)
    player = _Player(functions)
    for parameter in graph.parameters:
        dims = parameter.type.dims or ()
        player.variables[id(parameter)] = player.tape.input(parameter.name, parameter.type.dtype, list(dims))
    player.play(graph)
    outputs: list[tuple[str, Any]] = []
    for name, value in zip(names, graph.results):
        variable = player.variable(value)
        if value.graph is graph and value.node is None or value.array is not None or any(variable is other for _, other in outputs):
            variable = player.tape.call("Identity", [variable])
        outputs.append((name, variable))
    return player.tape.compile(outputs, options, callbacks)

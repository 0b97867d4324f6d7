"""Graphs that the interpreter records: values with types, nodes, and nested graphs of branches and loops.

A graph is plain data. Abandoned rounds of a loop are dropped, unused results are removed, and `emit` then plays what is
left on a building tape.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

Dims = Optional[tuple[Any, ...]]


class Type(NamedTuple):
    """Type of a graph value. `dims` has an integer, a name, or None for each dimension; of items if `sequence`."""

    dtype: str
    dims: Dims
    sequence: bool = False

    @property
    def rank(self) -> int:
        return -1 if self.dims is None else len(self.dims)

    def __str__(self) -> str:
        dims = "*" if self.dims is None else ", ".join("?" if d is None else str(d) for d in self.dims)
        return f"{'sequence of ' if self.sequence else ''}{self.dtype}[{dims}]"


class GraphValue:
    """A result of a node, a parameter of a graph, or a constant (`array` is set, graph and node are None)."""

    __slots__ = ("type", "graph", "node", "array", "name", "implies", "bounds")

    def __init__(self, type: Type, graph: Graph | None, node: Node | None = None, array: Any = None, name: str = "") -> None:
        self.type = type
        self.graph = graph
        self.node = node
        self.array = array
        self.name = name
        # For bools: values whose truth follows if this value is true, and if it is false.
        self.implies: tuple[tuple[tuple[GraphValue, bool], ...], tuple[tuple[GraphValue, bool], ...]] = ((), ())
        # For an index of rounds: the least and the greatest number that it can be, if they are known.
        self.bounds: Optional[tuple[int, int]] = None


class Node:
    """An instruction, "If" or "Loop". `graphs` has the branches, or the body."""

    __slots__ = ("op", "inputs", "attributes", "results", "graphs")

    def __init__(self, op: str, inputs: list[GraphValue | None], attributes: dict[str, Any], graphs: tuple[Graph, ...] = ()) -> None:
        self.op = op
        self.inputs = inputs
        self.attributes = attributes
        self.graphs = graphs
        self.results: list[GraphValue] = []


class Graph:
    """Nodes in order, with parameters and results. The parent's values may be used."""

    __slots__ = ("parent", "nodes", "parameters", "results", "depth", "cache")

    def __init__(self, parent: Graph | None = None) -> None:
        self.parent = parent
        self.nodes: list[Node] = []
        self.parameters: list[GraphValue] = []
        self.results: list[GraphValue] = []
        self.depth: int = parent.depth + 1 if parent else 0
        self.cache: dict[Any, list[GraphValue]] = {}

    def parameter(self, type: Type, name: str = "") -> GraphValue:
        value = GraphValue(type, self, name=name)
        self.parameters.append(value)
        return value

    def node(
        self, op: str, inputs: list[GraphValue | None], attributes: dict[str, Any], types: list[Type], graphs: tuple[Graph, ...] = ()
    ) -> list[GraphValue]:
        node = Node(op, inputs, attributes, graphs)
        node.results = [GraphValue(type, self, node) for type in types]
        self.nodes.append(node)
        return node.results

    def encloses(self, other: Graph | None) -> bool:
        """Tell whether values of this graph may be used in `other`."""
        while other is not None and other.depth > self.depth:
            other = other.parent
        return other is self


# Nodes that are kept though nobody uses their results.
EFFECTS = frozenset(["Print", "HostCall"])


def remove_unused(root: Graph) -> None:
    """Remove nodes, results of branches and states of loops that no result of the root graph depends on."""
    used: set[int] = set()
    _mark_graph(root, used, [True] * len(root.results))
    _sweep(root, used)


def _has_effects(node: Node) -> bool:
    return node.op in EFFECTS or any(_has_effects(inner) for graph in node.graphs for inner in graph.nodes)


def _use(value: GraphValue | None, used: set[int]) -> None:
    if value is not None:
        used.add(id(value))


def _mark_graph(graph: Graph, used: set[int], wanted: list[bool]) -> None:
    """Mark what the wanted results of a graph, and its effects, depend on."""
    for value, is_wanted in zip(graph.results, wanted):
        if is_wanted:
            _use(value, used)
    for node in reversed(graph.nodes):
        results_used = [id(result) in used for result in node.results]
        if not any(results_used) and not _has_effects(node):
            continue
        used.add(id(node))
        for operand in node.inputs if node.op != "Loop" else node.inputs[:2]:
            _use(operand, used)
        if node.op == "If":
            for branch in node.graphs:
                _mark_graph(branch, used, results_used)
        elif node.op == "Loop":
            _mark_loop(node, used, results_used)


def _mark_loop(node: Node, used: set[int], results_used: list[bool]) -> None:
    body = node.graphs[0]
    states = body.parameters[1:]
    wanted = list(results_used)
    while True:
        _mark_graph(body, used, [True, *wanted])
        more = [w or id(state) in used for w, state in zip(wanted, states)]
        if more == wanted:
            break
        wanted = more
    for index, is_wanted in enumerate(wanted):
        if is_wanted:
            used.add(id(node.results[index]))
            used.add(id(states[index]))
            _use(node.inputs[2 + index], used)


def _sweep(graph: Graph, used: set[int]) -> None:
    graph.nodes = [node for node in graph.nodes if id(node) in used]
    for node in graph.nodes:
        if node.op == "If":
            kept = [i for i, result in enumerate(node.results) if id(result) in used]
            node.results = [node.results[i] for i in kept]
            for branch in node.graphs:
                branch.results = [branch.results[i] for i in kept]
        elif node.op == "Loop":
            body = node.graphs[0]
            kept = [i for i, result in enumerate(node.results) if id(result) in used]
            node.results = [node.results[i] for i in kept]
            node.inputs = node.inputs[:2] + [node.inputs[2 + i] for i in kept]
            body.parameters = body.parameters[:1] + [body.parameters[1 + i] for i in kept]
            body.results = body.results[:1] + [body.results[1 + i] for i in kept]
        for inner in node.graphs:
            _sweep(inner, used)


def all_nodes(graph: Graph) -> Iterator[Node]:
    """Return the nodes of a graph and its nested graphs."""
    for node in graph.nodes:
        yield node
        for inner in node.graphs:
            yield from all_nodes(inner)

"""Branches and loops: both sides run on overlays, and the cells that differ become results of an If or states of a Loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Union

from .core import NORMAL, RAISE, Core
from .errors import PythonError, Refusal
from .graph import Graph, GraphValue, Type
from .heap import DATA, DICT, ITEMS, KIND, RESULT, YIELDED, Cell
from .slots import Slots
from .templates import (
    CATEGORY,
    RANK,
    ArrayOf,
    Either,
    ElementsOf,
    EntriesOf,
    FunctionOf,
    Missing,
    NumberOf,
    Same,
    SequenceOf,
    Template,
    TupleOf,
    Unjoinable,
    Widener,
    leaf_types,
    same_code,
    same_form,
    same_value,
    structure,
)
from .values import (
    ABSENT,
    UNDEFINED,
    Array,
    Choice,
    Const,
    Elements,
    Entries,
    Function,
    Iteration,
    Method,
    NativeMethod,
    Number,
    Object,
    Partial,
    Poison,
    Reference,
    Sequence,
    Storage,
    Super,
    Tuple,
    Value,
    map_value,
)

Owner = Union[Object, Storage]
# Conditions that hold, or do not.
Chosen = list[tuple[GraphValue, bool]]
MOST_ROUNDS = 24


class Side:
    """One branch: its graph, overlay and facts, and the value of the expression."""

    def __init__(self, graph: Graph, overlay: dict[Cell, Value], facts: dict[int, bool], value: Value) -> None:
        self.graph = graph
        self.overlay = overlay
        self.facts = facts
        self.value = value


class Flow(Core):
    """If, Loop, and how their values are joined."""

    # ---- Branches ----

    def branch(self, condition: GraphValue, yes: Callable[[], Value], no: Callable[[], Value]) -> Value:
        """Run one side if the condition is known, else both, and join their values and changes."""
        known = self.truth(condition)
        if known is not None:
            return yes() if known else no()
        mark = self.heap.serial
        sides = self.run_side(condition, True, yes), self.run_side(condition, False, no)
        return self.merge(condition, sides, mark)

    def select(self, condition: GraphValue, yes: Callable[[], GraphValue], no: Callable[[], GraphValue]) -> GraphValue:
        """Return one of two graph values, each computed only if it is chosen."""
        known = self.truth(condition)
        if known is not None:
            return yes() if known else no()
        graphs = []
        for truth, make in ((True, yes), (False, no)):
            graph = Graph(self.graph)
            with self.in_graph(graph, {}, self.facts_if(condition, truth)):
                graph.results = [make()]
            graphs.append(graph)
        a, b = graphs[0].results[0].type, graphs[1].results[0].type
        if a.dims is None or b.dims is None or len(a.dims) != len(b.dims):
            dims = None
        else:
            dims = tuple(x if x == y else None for x, y in zip(a.dims, b.dims))
        return self.graph.node("If", [condition], {}, [Type(a.dtype, dims, a.sequence)], tuple(graphs))[0]

    def facts_if(self, condition: GraphValue, truth: bool) -> dict[int, bool]:
        facts = dict(self.facts)
        facts[id(condition)] = truth
        pending = list(condition.implies[0 if truth else 1])
        while pending:
            value, implied = pending.pop()
            if id(value) not in facts:
                facts[id(value)] = implied
                pending += value.implies[0 if implied else 1]
        return facts

    def run_side(self, condition: GraphValue, truth: bool, run: Callable[[], Value]) -> Side:
        side = Side(Graph(self.graph), {}, self.facts_if(condition, truth), UNDEFINED)
        self.extend_side(side, run)
        return side

    def extend_side(self, side: Side, run: Callable[[], Value]) -> None:
        """Run more on a side."""
        with self.in_graph(side.graph, side.overlay, side.facts):
            try:
                side.value = run()
            except PythonError as error:
                self.raise_python(error.error)

    def merge(self, condition: GraphValue, sides: tuple[Side, Side], mark: int) -> Value:
        """Join two sides: emit the If, write the changed cells, and return the joined value.

        Objects that a side created go on to exist. One of each side may become one object, which is either.
        """
        cells: dict[Cell, None] = {}
        for side in sides:
            for cell in side.overlay:
                if cell[0].serial <= mark:
                    cells[cell] = None
        olds = {cell: self.outer_value(cell) for cell in cells}
        jobs: list[tuple[Cell | None, list[Value]]] = [
            (cell, [side.overlay.get(cell, olds[cell]) for side in sides]) for cell in cells
        ]
        # A side that raised has no value.
        jobs.append((None, [side.value for side in sides]))
        templates: list[Template] = []
        created = Created(self, sides, mark)
        # Cells of objects that were created follow those that refer to them.
        for place, values in jobs:
            templates.append(self.joined_template(place, values, sides, mark, created))
            jobs += created.cells_of(values)
        templates = [created.renamed_template(template) for template in templates]
        leaves: list[list[GraphValue]] = []
        for side_index, side in enumerate(sides):
            with self.in_graph(side.graph, side.overlay, side.facts):
                out: list[GraphValue] = []
                for (_, values), template in zip(jobs, templates):
                    self.convert(created.renamed(values[side_index]), template, out, mark)
                leaves.append(out)
        types = [leaf for template in templates for leaf in leaf_types(template)]
        values_out = self.emit_if(condition, sides, leaves, types)
        position = 0
        result: Value = UNDEFINED
        rebuilt: list[tuple[Cell | None, Value]] = []
        links = Links(self, sides, (condition, self.negation(condition)), mark)
        for (key, values), template in zip(jobs, templates):
            count = len(leaf_types(template))
            value = self.rebuild(template, iter(values_out[position : position + count]))
            position += count
            links.add(value, values)
            rebuilt.append((key, value))
        links.connect()
        for key, value in rebuilt:
            if key is None:
                result = value
            else:
                self.heap.write(key[0], key[1], value)
        return result

    def joined_template(self, cell: Cell | None, values: list[Value], sides: tuple[Side, Side], mark: int, created: Created) -> Template:
        self.outer_graph = self.graph
        if same_value(values[0], values[1]) and self.is_outer(values[0], mark):
            return Same(values[0])
        parts = []
        created.find(values)
        for side, value in zip(sides, values):
            if value is not ABSENT:
                with self.in_graph(side.graph, side.overlay, side.facts):
                    parts.append(self.template_of(created.renamed(value), mark))
        if len(parts) == 1:
            return parts[0]
        return self.widener(cell or (Object(0, "frame"), RESULT), created.pair).widen(parts[0], parts[1])

    def widener(self, cell: Cell | None, pair: Any = None) -> Widener:
        """Return what joins the values of a cell. A result that is missing on a path is not used after it."""
        key = cell[1] if cell else None
        return Widener(self.array_type, dummy=key == RESULT, choices=key == KIND, pair=pair, mix=self.mix)

    # True if the program has a number that is an int on one path and a float on another.
    mixed = False

    def mix(self) -> None:
        self.mixed = True

    def float_for_int(self, value: Value, error: Exception) -> NoReturn:
        """Raise what Python raises for a float in the place of an int. Refuses one that may be an int in Python."""
        if self.mixed and isinstance(value, Number):
            self.refuse("an int is needed, but this number may be a float on another path, where an int becomes one", "Use int()")
        raise PythonError(error)

    def emit_if(
        self, condition: GraphValue, sides: tuple[Side, Side], leaves: list[list[GraphValue]], types: list[Type]
    ) -> list[GraphValue]:
        """Record the If. Leaves that do not depend on the side, and copies of the condition, need no result."""
        found: list[GraphValue | None] = []
        results: tuple[list[GraphValue], list[GraphValue]] = ([], [])
        kept: list[Type] = []
        for a, b, type in zip(leaves[0], leaves[1], types):
            direct: GraphValue | None = None
            if a is b and (a.graph is None or a.graph.encloses(self.graph)):
                direct = a
            elif a.array is not None and b.array is not None and type.dtype == "bool" and a.array.shape == b.array.shape == ():
                truths = bool(a.array), bool(b.array)
                direct = self.constant(truths[0]) if truths[0] == truths[1] else condition if truths[0] else self.negation(condition)
            found.append(direct)
            if direct is None:
                results[0].append(a)
                results[1].append(b)
                kept.append(type)
        sides[0].graph.results, sides[1].graph.results = results
        if kept or sides[0].graph.nodes or sides[1].graph.nodes:
            made = iter(self.graph.node("If", [condition], {}, kept, (sides[0].graph, sides[1].graph)))
        else:
            made = iter(())
        joined = [value if value is not None else next(made) for value in found]
        for value, direct, a, b in zip(joined, found, leaves[0], leaves[1]):
            # A flag that is fixed on one side is known again where the condition is.
            if direct is None and value.type.dtype == "bool" and value.type.dims == ():
                sides_known = [((value, bool(leaf.array)),) if leaf.array is not None else () for leaf in (a, b)]
                condition.implies = (condition.implies[0] + sides_known[0], condition.implies[1] + sides_known[1])
        return joined

    # ---- Templates of values ----

    def outer_value(self, cell: Cell) -> Value:
        """Return the value of a cell, or what it has without ever having been written."""
        owner, key = cell
        value = self.heap.read(owner, key)
        if value is not None:
            return value
        if isinstance(owner, Storage):
            return Elements(owner.initial)
        value = self.unwritten(owner, key)
        return value if value is UNDEFINED or owner.cls == "frame" else self.live_read(owner, key, value)

    def unwritten(self, owner: Object, key: Any) -> Value:
        """Return what a cell of an object has without ever having been written."""
        if key == KIND:
            return Const(NORMAL)
        if owner.live is not None:
            if key == ITEMS:
                return Tuple(tuple(self.wrap(item) for item in owner.live), list)
            if key == DICT:
                return self.entries(Reference(owner))
            if owner.cls == "cell":
                return self.wrap_cell(owner)
            if owner.cls == "globals":
                return self.wrap(owner.live[key]) if key in owner.live else UNDEFINED
            if isinstance(key, str):
                try:
                    return self.wrap(getattr(owner.live, key))
                except AttributeError:
                    return UNDEFINED
        return UNDEFINED

    def wrap_cell(self, owner: Object) -> Value:
        try:
            return self.wrap(owner.live.cell_contents)
        except ValueError:
            return UNDEFINED

    def is_outer(self, value: Value, mark: int) -> bool:
        """Tell whether a value exists outside of the graph that is recorded now, or of its sides."""
        if isinstance(value, (Number,)):
            return self._visible(value.at)
        if isinstance(value, Elements):
            return self._visible(value.at)
        if isinstance(value, Array):
            return value.storage.serial <= mark and (value.view is None or self._visible(value.view.seen))
        if isinstance(value, Tuple):
            return all(self.is_outer(item, mark) for item in value.items)
        if isinstance(value, Entries):
            return all(self.is_outer(item, mark) for item in value.values)
        if isinstance(value, Sequence):
            return all(map(self._visible, value.parts))
        if isinstance(value, Choice):
            return self._visible(value.condition) and self.is_outer(value.yes, mark) and self.is_outer(value.no, mark)
        if isinstance(value, Function):
            return all(self.is_outer(item, mark) for item in (*value.defaults, *value.keyword_defaults.values()))
        if isinstance(value, Method):
            return self.is_outer(value.owner, mark) and self.is_outer(value.function, mark)
        if isinstance(value, (NativeMethod, Super)):
            return self.is_outer(value.owner, mark)
        if isinstance(value, Partial):
            return all(self.is_outer(item, mark) for item in (value.function, *value.arguments, *value.keywords.values()))
        return not isinstance(value, Iteration)

    def _visible(self, value: GraphValue) -> bool:
        return value.graph is None or value.graph.encloses(self.outer_graph)

    outer_graph: Graph

    def template_of(self, value: Value, mark: int) -> Template:
        """Return the template of a value at the end of a side or round."""
        self.outer_graph = self.graph.parent or self.graph
        return self._template(value, mark)

    def _template(self, value: Value, mark: int) -> Template:
        if self.is_outer(value, mark):
            return Same(value)
        if isinstance(value, Number):
            return NumberOf(value.kind, value.choices)
        if isinstance(value, Array):
            return ArrayOf(self.array_type(value), value.library)
        if isinstance(value, Elements):
            return ElementsOf(value.at.type)
        if isinstance(value, Tuple):
            return TupleOf(tuple(self._template(item, mark) for item in value.items), value.cls)
        if isinstance(value, Sequence):
            return SequenceOf(value.item, value.cls)
        if isinstance(value, Entries):
            return EntriesOf(value.keys, tuple(self._template(item, mark) for item in value.values))
        if isinstance(value, Choice):
            known = self.truth(value.condition)
            if known is not None:
                return self._template(value.yes if known else value.no, mark)
            return self.widener(None).widen(self._template(value.yes, mark), self._template(value.no, mark))
        if isinstance(value, Function):
            defaults = tuple(self._template(item, mark) for item in value.defaults)
            return FunctionOf(value, defaults, tuple(self._template(item, mark) for item in value.keyword_defaults.values()))
        if isinstance(value, (Method, NativeMethod, Super, Partial)):
            return Unjoinable("a method or partial function that was created in a branch or loop is used after it")
        return Unjoinable(f"{self.describe(value)} that was created in a branch or loop is used after it")

    # ---- Leaves ----

    def dummies(self, template: Template, out: list[GraphValue]) -> None:
        """Append leaves that nobody reads."""
        for leaf in leaf_types(template):
            if leaf.sequence:
                out.append(self.op("SequenceConstruct", dtype=leaf.dtype))
            else:
                dims = [d if isinstance(d, int) else 0 for d in leaf.dims or ()]
                total = 1
                for d in dims:
                    total *= d
                if total > 256:
                    zero = self.constant(0, leaf.dtype)
                    out.append(self.op("Expand", zero, self.ints(dims)))
                else:
                    import numpy

                    from . import emit

                    out.append(self.constant(numpy.zeros(dims, emit.numpy_dtype(leaf.dtype))))

    def fits(self, value: Value, template: Template) -> bool:
        """Tell whether a value is one of those that a template describes."""
        value = self.settle(value)
        if isinstance(template, Same):
            return same_value(value, template.value)
        if isinstance(value, Choice):
            return self.fits(value.yes, template) and self.fits(value.no, template)
        if isinstance(template, Either):
            return self.fits(value, template.yes) or self.fits(value, template.no)
        if isinstance(template, Unjoinable):
            return True
        if isinstance(template, Missing):
            return value is UNDEFINED
        kind = self.kind_of(value)
        if isinstance(template, NumberOf):
            return bool(kind) and RANK[kind] <= RANK[template.kind]
        if isinstance(template, ArrayOf):
            if kind:
                return template.type.dims == () and RANK[kind] <= CATEGORY.get(template.type.dtype, -1)
            if not isinstance(value, Array) or value.library != template.library:
                return False
            own = self.array_type(value)
            return own.dtype == template.type.dtype and own.rank == template.type.rank
        if isinstance(template, ElementsOf):
            return isinstance(value, Elements)
        if isinstance(template, TupleOf):
            if not isinstance(value, Tuple) or value.cls is not template.cls or len(value.items) != len(template.items):
                return False
            return all(map(self.fits, value.items, template.items))
        if isinstance(template, SequenceOf):
            if isinstance(value, Tuple):
                return value.cls is template.cls and all(self.fits(item, template.item) for item in value.items)
            if not isinstance(value, Sequence) or value.cls is not template.cls:
                return False
            return same_form(self.widener(None).widen(template.item, value.item), template.item)
        if isinstance(template, EntriesOf):
            return isinstance(value, Entries) and value.keys == template.keys and all(map(self.fits, value.values, template.values))
        if isinstance(template, FunctionOf):
            if not isinstance(value, Function) or not same_code(value, template.function):
                return False
            named = map(self.fits, value.keyword_defaults.values(), template.keyword_defaults)
            return all(map(self.fits, value.defaults, template.defaults)) and all(named)
        return False

    def convert(self, value: Value, template: Template, out: list[GraphValue], mark: int) -> None:
        """Append the leaves of a value in the form of a template."""
        if isinstance(template, (Same, Missing, Unjoinable)):
            return
        if isinstance(value, Choice):
            known = self.truth(value.condition)
            if known is not None:
                self.convert(value.yes if known else value.no, template, out, mark)
                return
        if value is ABSENT or value is UNDEFINED and not isinstance(template, Either):
            self.dummies(template, out)
            return
        if isinstance(template, Either):
            self._convert_either(value, template, out, mark)
        elif isinstance(value, Choice):
            self._convert_choice(value, template, out, mark)
        elif isinstance(template, NumberOf):
            from .values import NUMBER_DTYPES

            out.append(self.number_value(value, NUMBER_DTYPES[template.kind]))
        elif isinstance(template, ArrayOf):
            out.append(self.number_value(value, template.type.dtype) if self.kind_of(value) else self.read_array(value))  # type: ignore[arg-type]
        elif isinstance(template, ElementsOf):
            assert isinstance(value, Elements)
            out.append(value.at)
        elif isinstance(template, TupleOf):
            assert isinstance(value, Tuple)
            for item, part in zip(value.items, template.items):
                self.convert(item, part, out, mark)
        elif isinstance(template, EntriesOf):
            assert isinstance(value, Entries)
            for item, part in zip(value.values, template.values):
                self.convert(item, part, out, mark)
        elif isinstance(template, FunctionOf):
            assert isinstance(value, Function)
            for item, part in zip(value.defaults, template.defaults):
                self.convert(item, part, out, mark)
            for item, part in zip(value.keyword_defaults.values(), template.keyword_defaults):
                self.convert(item, part, out, mark)
        elif isinstance(template, SequenceOf):
            out += self.sequence_parts(value, template, mark)
        else:
            raise AssertionError(template)

    def _convert_choice(self, value: Choice, template: Template, out: list[GraphValue], mark: int) -> None:
        """Append leaves that an If selects."""
        leaves: list[list[GraphValue]] = []
        sides = []
        for truth, one in ((True, value.yes), (False, value.no)):
            side = Side(Graph(self.graph), {}, self.facts_if(value.condition, truth), one)
            with self.in_graph(side.graph, side.overlay, side.facts):
                part: list[GraphValue] = []
                self.convert(one, template, part, mark)
                leaves.append(part)
            sides.append(side)
        out += self.emit_if(value.condition, (sides[0], sides[1]), leaves, leaf_types(template))

    def _convert_either(self, value: Value, template: Either, out: list[GraphValue], mark: int) -> None:
        if isinstance(value, Choice):
            if self.fits(value.yes, template.yes) and self.fits(value.no, template.no):
                out.append(value.condition)
                self.convert(value.yes, template.yes, out, mark)
                self.convert(value.no, template.no, out, mark)
            elif self.fits(value.no, template.yes) and self.fits(value.yes, template.no):
                out.append(self.negation(value.condition))
                self.convert(value.no, template.yes, out, mark)
                self.convert(value.yes, template.no, out, mark)
            else:
                self._convert_choice(value, template, out, mark)
        elif self.fits(value, template.yes):
            out.append(self.constant(True))
            self.convert(value, template.yes, out, mark)
            self.dummies(template.no, out)
        else:
            out.append(self.constant(False))
            self.dummies(template.yes, out)
            self.convert(value, template.no, out, mark)

    def sequence_parts(self, value: Value, template: SequenceOf, mark: int) -> list[GraphValue]:
        """Return the sequences of a list in the form of a template."""
        types = leaf_types(template)
        if isinstance(value, Sequence):
            if same_form(value.item, template.item):
                return list(value.parts)
            return self.converted_sequence(value, template, mark)
        assert isinstance(value, Tuple)
        columns: list[list[GraphValue]] = [[] for _ in types]
        for item in value.items:
            leaves: list[GraphValue] = []
            self.capture(item)
            self.convert(item, template.item, leaves, mark)
            for column, leaf in zip(columns, leaves or [self.constant(0, "i64")]):
                column.append(leaf)
        return [self.op("SequenceConstruct", *column, dtype=t.dtype) for column, t in zip(columns, types)]

    def converted_sequence(self, value: Sequence, template: SequenceOf, mark: int) -> list[GraphValue]:
        """Return a sequence whose items are converted one by one, such as ints to floats."""
        types = leaf_types(template)
        body = Graph(self.graph)
        index = body.parameter(Type("i64", ()))
        states = [body.parameter(t) for t in types]
        with self.in_graph(body, {}, dict(self.facts)):
            leaves: list[GraphValue] = []
            self.convert(self.sequence_item(value, index), template.item, leaves, mark)
            leaves = leaves or [self.constant(0, "i64")]
            body.results = [self.constant(True)] + [self.op("SequenceInsert", s, leaf) for s, leaf in zip(states, leaves)]
        empty = [self.op("SequenceConstruct", dtype=t.dtype) for t in types]
        length = self.op("SequenceLength", value.parts[0])
        return self.graph.node("Loop", [length, self.constant(True), *empty], {}, types, (body,))

    def sequence_item(self, value: Sequence, index: GraphValue) -> Value:
        """Return an item of a sequence."""
        types = leaf_types(value.item)
        parts = [self.op("SequenceAt", part, index) for part in value.parts[: len(types)]]
        return self.rebuild(value.item, iter(parts))

    def rebuild(self, template: Template, leaves: Any, merged: bool = False) -> Value:
        """Return a value of a template from its leaves."""
        if isinstance(template, Same):
            return template.value
        if isinstance(template, Missing):
            return UNDEFINED
        if isinstance(template, Unjoinable):
            return Poison(template.reason or "")
        if isinstance(template, NumberOf):
            return self.number(next(leaves), template.kind, template.choices)
        if isinstance(template, ArrayOf):
            return self.array(next(leaves), template.library, live="merged" if merged else None)
        if isinstance(template, ElementsOf):
            return Elements(next(leaves))
        if isinstance(template, TupleOf):
            return Tuple(tuple(self.rebuild(item, leaves, merged) for item in template.items), template.cls)
        if isinstance(template, EntriesOf):
            return Entries(template.keys, tuple(self.rebuild(item, leaves, merged) for item in template.values))
        if isinstance(template, SequenceOf):
            return Sequence(tuple(next(leaves) for _ in leaf_types(template)), template.item, template.cls)
        if isinstance(template, FunctionOf):
            old = template.function
            defaults = tuple(self.rebuild(item, leaves, merged) for item in template.defaults)
            named = [self.rebuild(item, leaves, merged) for item in template.keyword_defaults]
            return Function(old.node, old.scope, defaults, dict(zip(old.keyword_defaults, named)), old.name, old.live)
        assert isinstance(template, Either)
        condition = next(leaves)
        yes = self.rebuild(template.yes, leaves, merged)
        no = self.rebuild(template.no, leaves, merged)
        known = self.truth(condition)
        return Choice(condition, yes, no) if known is None else yes if known else no

    # ---- Choices ----

    def each(self, value: Value, use: Callable[[Value], Value]) -> Value:
        """Apply a function to what a value is; if it is a choice, to each, in a branch."""
        value = self.settle(value)
        if not isinstance(value, Choice):
            return use(value)
        choice = value
        return self.branch(choice.condition, lambda: self.each(choice.yes, use), lambda: self.each(choice.no, use))

    def freeze(self, *arrays: Array) -> None:
        """Refuse changes in place of arrays that may share memory in a way that links do not describe."""
        for array in arrays:
            self.capture(array)

    # ---- Loops ----

    def split_ending(self, kinds: frozenset[int], yes: Callable[[], Value], no: Callable[[], Value]) -> Value:
        """Branch on how the block ended, and narrow that in both sides."""
        value = self.ending()
        if isinstance(value, Const):
            return yes() if value.value in kinds else no()
        assert isinstance(value, Number) and value.choices is not None
        number = value
        unchanged: list[bool] = []

        def narrowed(left: frozenset[int], run: Callable[[], Value]) -> Callable[[], Value]:
            def go() -> Value:
                assert number.choices is not None
                # In a branch only: values of this graph may be dropped, with facts about them.
                for kind in sorted(number.choices) if left != number.choices else ():
                    if kind not in left or len(left) == 1:
                        self.facts[id(self.op("Equal", number.at, self.constant(kind, "i64")))] = kind in left
                before: Value = Const(next(iter(left))) if len(left) == 1 else Number(number.at, "int", left)
                self.heap.write(self.frame, KIND, before)
                made = run()
                unchanged.append(same_value(before, self.ending()))
                return made

            return go

        inside, outside = value.choices & kinds, value.choices - kinds
        if not outside:
            return narrowed(inside, yes)()
        if not inside:
            return narrowed(outside, no)()
        made = self.branch(self.ending_is(kinds), narrowed(inside, yes), narrowed(outside, no))
        if unchanged == [True, True]:
            # The block ended as before, so that what is known by how it ended stays known.
            self.heap.write(self.frame, KIND, number)
        return made

    def when_normal(self, run: Callable[[], None]) -> None:
        """Run something on the paths on which the block has not ended."""
        self.split_ending(frozenset([NORMAL]), lambda: (run(), Const(None))[1], lambda: Const(None))

    def loop_round(self, body: Callable[[], None], test: Callable[[], GraphValue]) -> GraphValue:
        """Run a round of a Loop and return whether another follows."""
        raise NotImplementedError

    def run_items(self, trips: GraphValue, run: Callable[[GraphValue], GraphValue]) -> None:
        """Record a loop over items. It ends with the exception of a round that raises."""

        def go(index: GraphValue) -> GraphValue:
            found: list[GraphValue] = []
            return self.loop_round(lambda: found.append(run(index)), lambda: found[0])

        self.run_loop(trips, self.constant(True), go)

    def run_loop(self, trips: GraphValue | None, first: GraphValue, run: Callable[[GraphValue], GraphValue]) -> None:
        """Record a loop. `run` interprets a round and returns whether to go on.

        Rounds are repeated until the templates of the changed cells are stable; only the last is kept.
        """
        if self.endings() != frozenset([NORMAL]):
            # An earlier part of the statement may have raised.
            self.when_normal(lambda: self.run_loop(trips, first, run))
            return
        states: dict[Cell, Template] = {}
        groups: frozenset[tuple[int, int]] = frozenset()
        problems = len(self.problems)
        # Slots are younger than everything that existed before the loop.
        serial = self.heap.next_serial()
        slots = Slots(self, serial)
        # States with arrays that may share memory in a way that links do not describe.
        frozen: set[Cell] = set()
        reason = ""
        for _ in range(MOST_ROUNDS):
            self.dropped = self.problems[problems:] or self.dropped
            del self.problems[problems:]
            self.heap.serial = serial
            captures = len(self.captures)
            body = Graph(self.graph)
            index = body.parameter(Type("i64", ()))
            overlay: dict[Cell, Value] = {}
            initial = {cell: ABSENT if cell[0] in slots.members else self.outer_value(cell) for cell in states}
            with self.in_graph(body, overlay, dict(self.facts)):
                heads: list[Value] = []
                for cell, template in states.items():
                    leaves = iter([body.parameter(t) for t in leaf_types(template)])
                    value = self.rebuild(template, leaves, cell[0] in slots.members)
                    heads.append(value)
                    if cell[1] == KIND:
                        value = Const(NORMAL)
                    elif cell[1] == RESULT:
                        value = UNDEFINED
                    self.heap.write(cell[0], cell[1], value)
                self.link_heads(list(states), heads, list(initial.values()), groups, index, serial)
                for cell, value in zip(states, heads):
                    if cell in frozen:
                        self.freeze_value(value)
                go_on = run(index)
                old = [*states, *[cell for cell in overlay if cell[0].serial <= serial]]
                values = slots.settle({cell: overlay[cell] for cell in old})
                changed = list(dict.fromkeys([*old, *values]))
                ends = {cell: self.template_of(values[cell], serial) for cell in changed if values[cell] is not ABSENT}
            new: dict[Cell, Template] = {}
            self.outer_graph = self.graph
            for cell in changed:
                before = states.get(cell)
                if before is None and cell[0] not in slots.members:
                    before = Same(self.outer_value(cell))
                if before is None or cell not in ends:
                    found = before or ends.get(cell)
                    if found is not None:
                        new[cell] = found
                else:
                    new[cell] = self.widener(cell).widen(before, ends[cell])
            new_groups = _shared([(i, values[cell]) for i, cell in enumerate(new)], serial)
            new_frozen = frozen | self.frozen_cells({cell: values[cell] for cell in new}, initial, serial)
            # A change of an array comes after its capture in the next round, if the array is older than the loop.
            captured = any(storage.serial <= serial for storage in self.captures[captures:])
            if new == states and new_groups <= groups and new_frozen == frozen and not captured:
                self._finish_loop(trips, first, body, overlay, values, states, initial, go_on, serial, slots)
                for cell in frozen:
                    self.freeze_value(self.heap.read(cell[0], cell[1]) or UNDEFINED)
                return
            states, groups, frozen = new, groups | new_groups, new_frozen
            reason = ", ".join(str(cell[1]) for cell in states if new.get(cell) != states.get(cell))
        self.refuse(f"the state of this loop never settles{': ' + reason if reason else ''}")

    def freeze_value(self, value: Value) -> None:
        for leaves in _arrays(value).values():
            self.freeze(*[array for array, _ in leaves])

    def frozen_cells(self, ends: dict[Cell, Value], initial: dict[Cell, Value], serial: int) -> set[Cell]:
        """Return the states whose arrays may share memory with others when a round ends, beyond what links describe.

        Links describe arrays that are states themselves, not parts of one: with their first array in the first round, and
        with each other if one round created both.
        """
        found: set[Cell] = set()
        users: dict[int, list[tuple[Cell, bool]]] = {}
        storages: dict[int, Storage] = {}
        for cell, value in ends.items():
            before = initial[cell] if cell in initial else self.outer_value(cell)
            first = {path: [array.storage for array, _ in leaves] for path, leaves in _arrays(before).items()}
            direct = isinstance(value, Array)
            for path, leaves in _arrays(value).items():
                if [array.storage for array, _ in leaves] == first.get(path):
                    # The position keeps its arrays.
                    continue
                for storage in first.get(path, []):
                    if not (direct and isinstance(before, Array)) and self.is_used_by_others(storage, cell):
                        found.add(cell)
                for array, chosen in leaves:
                    for storage in [array.storage, *[other.storage for other in _partners(array.storage)]]:
                        storages[id(storage)] = storage
                        users.setdefault(id(storage), []).append((cell, direct and not chosen and storage is array.storage))
        for key, cells in users.items():
            storage = storages[key]
            names = dict.fromkeys(cell for cell, _ in cells)
            if storage.serial <= serial:
                # An array that is older than the loop.
                if storage.live is None and (len(names) > 1 or self.is_used_by_others(storage, cells[0][0])):
                    found.update(names)
                    self.capture(Array(storage, ""))
            elif len(names) > 1 and not all(direct for _, direct in cells):
                found.update(names)
        return found

    def is_used_by_others(self, storage: Storage, cell: Cell) -> bool:
        """Tell whether another cell than one has an array of a storage."""
        seen: set[Cell] = set()
        for overlay in reversed(self.heap.overlays):
            for other, value in overlay.items():
                if other in seen:
                    continue
                seen.add(other)
                if other != cell and any(array.storage is storage for leaves in _arrays(value).values() for array, _ in leaves):
                    return True
        return False

    def link_heads(
        self, cells: list[Cell], heads: list[Value], initial: list[Value], groups: frozenset[tuple[int, int]], index: GraphValue, mark: int
    ) -> None:
        """Note which arrays at the head of a loop share memory in the first round, and in later ones."""
        for head, before in zip(heads, initial):
            if isinstance(head, Array) and isinstance(before, Array):
                _link(head, before, self.op("Equal", index, self.constant(0, "i64")))
        for a, b in sorted(groups):
            if a < len(heads) and b < len(heads) and isinstance(heads[a], Array) and isinstance(heads[b], Array):
                _link(heads[a], heads[b], self.op("Greater", index, self.constant(0, "i64")))  # type: ignore[arg-type]

    def _finish_loop(
        self,
        trips: GraphValue | None,
        first: GraphValue,
        body: Graph,
        overlay: dict[Cell, Value],
        values: dict[Cell, Value],
        states: dict[Cell, Template],
        initial: dict[Cell, Value],
        go_on: GraphValue,
        serial: int,
        slots: Slots,
    ) -> None:
        with self.in_graph(body, overlay, dict(self.facts)):
            results: list[GraphValue] = []
            for cell, template in states.items():
                self.convert(values[cell], template, results, serial)
            body.results = [go_on, *results]
        starts: list[GraphValue] = []
        for cell, template in states.items():
            self.outer_graph = self.graph
            self.convert(initial[cell], template, starts, serial)
        types = [leaf for template in states.values() for leaf in leaf_types(template)]
        made = self.graph.node("Loop", [trips, first, *starts], {}, types, (body,))
        runs = trips is None or (trips.array is not None and int(trips.array) > 0)
        runs = runs and self.truth(first) is True
        # A result that is the same constant after every round is known if there is one.
        finals = [end if runs and end.array is not None and end.array.size <= 1 else result for end, result in zip(results, made)]
        leaves = iter(finals)
        exits = [(cell, self.rebuild(template, leaves, cell[0] in slots.members)) for cell, template in states.items()]
        none = self.constant(False) if runs else self.negation(first)
        if trips is not None and not runs:
            none = self.op("Or", none, self.op("LessOrEqual", trips, self.constant(0, "i64")))
        for cell, value in exits:
            before = initial[cell]
            if isinstance(value, Array) and isinstance(before, Array):
                _link(value, before, none)
        shared = _shared([(i, values[cell]) for i, (cell, _) in enumerate(exits)], serial)
        for a, b in sorted(shared):
            x, y = exits[a][1], exits[b][1]
            if isinstance(x, Array) and isinstance(y, Array):
                _link(x, y, self.negation(none))
        for cell, value in exits:
            self.heap.write(cell[0], cell[1], value)


class Created:
    """Objects that the sides of a branch created, and which of them become one object."""

    def __init__(self, flow: Flow, sides: tuple[Side, Side], mark: int) -> None:
        self.flow = flow
        self.sides = sides
        self.mark = mark
        self.pairs: dict[Object, Object] = {}
        self.joined: dict[Object, Object] = {}
        # Objects whose cells are joined, or will be.
        self.seen: set[Object] = set()
        # The side of each object that was created.
        self.side_of: dict[Object, int] = {}

    def find(self, values: list[Value]) -> None:
        for side, value in enumerate(values):
            for one in self.objects(value):
                if one.serial > self.mark:
                    self.side_of[one] = side

    def pair(self, a: Object, b: Object) -> Object | None:
        """Return the object that is `a` on one side and `b` on the other, or None if they stay two."""
        if self.side_of.get(a) == 1:
            a, b = b, a
        if self.pairs.get(a) is b:
            return self.joined[a]
        if a in self.seen or b in self.seen or a in self.joined or b in self.joined:
            return None
        if self.side_of.get(a) != 0 or self.side_of.get(b) != 1 or a.cls is not b.cls or a.cls in ("frame", set):
            return None
        key = ITEMS if a.cls is list else DICT if a.cls is dict else None
        if key is not None and not self.contents_join(self.read(0, a, key), self.read(1, b, key)):
            return None
        self.pairs[a] = b
        self.joined[a] = self.joined[b] = made = self.flow.new_object(a.cls).object
        return made

    def read(self, side: int, owner: Object, key: Any) -> Value:
        one = self.sides[side]
        with self.flow.in_graph(one.graph, one.overlay, one.facts):
            return self.flow.settle(self.flow.outer_value((owner, key)))

    @staticmethod
    def contents_join(a: Value, b: Value) -> bool:
        if isinstance(a, Entries) or isinstance(b, Entries):
            return isinstance(a, Entries) and isinstance(b, Entries) and a.keys == b.keys
        if isinstance(a, Tuple) and isinstance(b, Tuple) and len(a.items) == len(b.items):
            return True
        return not any(isinstance(item, (Reference, Function)) for one in (a, b) if isinstance(one, Tuple) for item in one.items)

    def cells_of(self, values: list[Value]) -> list[tuple[Cell | None, list[Value]]]:
        """Return the cells of the objects that values refer to and that were not seen, with their values on both sides."""
        found: list[tuple[Cell | None, list[Value]]] = []
        for side, value in enumerate(values):
            for one in self.objects(value):
                if one.serial <= self.mark or one in self.seen:
                    continue
                owners: list[Object | None] = [None, None]
                owners[side] = one
                if one in self.joined:
                    owners = next([a, b] for a, b in self.pairs.items() if one in (a, b))
                self.seen.update(owner for owner in owners if owner is not None)
                keys: dict[Any, None] = {}
                for index, owner in enumerate(owners):
                    if owner is not None:
                        with self.flow.in_graph(self.sides[index].graph, self.sides[index].overlay, self.sides[index].facts):
                            keys.update((key, None) for key in owner.keys if self.flow.heap.read(owner, key) is not None)
                for key in keys:
                    if key not in (KIND, RESULT, YIELDED):
                        parts = [ABSENT if owner is None else self.read(index, owner, key) for index, owner in enumerate(owners)]
                        found.append(((self.joined.get(one, one), key), parts))
        return found

    def objects(self, value: Value) -> list[Object]:
        found: list[Object] = []

        def leaf(inner: Value) -> Value:
            if isinstance(inner, Reference):
                found.append(inner.object)
            elif isinstance(inner, Function):
                found.extend(inner.scope.frames())
            return inner

        map_value(value, leaf)
        return found

    def renamed(self, value: Value) -> Value:
        """Return a value with joined objects in the place of those that they are."""
        if not self.joined:
            return value

        def leaf(inner: Value) -> Value:
            return Reference(self.joined[inner.object]) if isinstance(inner, Reference) and inner.object in self.joined else inner

        return map_value(value, leaf)

    def renamed_template(self, template: Template) -> Template:
        if not self.joined:
            return template
        if isinstance(template, Same):
            made = self.renamed(template.value)
            return template if made is template.value else Same(made)
        if isinstance(template, TupleOf):
            return TupleOf(tuple(map(self.renamed_template, template.items)), template.cls)
        if isinstance(template, EntriesOf):
            return EntriesOf(template.keys, tuple(map(self.renamed_template, template.values)))
        if isinstance(template, Either):
            return Either(self.renamed_template(template.yes), self.renamed_template(template.no))
        if isinstance(template, FunctionOf):
            defaults = tuple(map(self.renamed_template, template.defaults))
            return FunctionOf(template.function, defaults, tuple(map(self.renamed_template, template.keyword_defaults)))
        return template


class Links:
    """Finds joined arrays that share memory with others, so that later changes in place reach all of them."""

    def __init__(self, flow: Flow, sides: tuple[Side, Side], conditions: tuple[GraphValue, GraphValue], mark: int) -> None:
        self.flow = flow
        self.conditions = conditions
        self.mark = mark
        self.found: tuple[dict[int, list[Array]], dict[int, list[Array]]] = ({}, {})
        self.pairs: list[tuple[Array, Array, GraphValue]] = []

    def add(self, value: Value, sources: list[Value]) -> None:
        found = [_arrays(source) for source in sources]
        for path, leaves in _arrays(value).items():
            for array, chosen in leaves:
                for side, arrays in enumerate(found):
                    self.add_array(array, chosen, side, [one for one, _ in arrays.get(path, [])])

    def add_array(self, value: Array, chosen: Chosen, side: int, sources: list[Array]) -> None:
        flow = self.flow
        condition = self.conditions[side]
        for part, truth in chosen:
            condition = flow.op("And", condition, part if truth else flow.negation(part))
        storages = {id(source.storage): source for source in sources}
        for source in storages.values():
            if source.storage is value.storage:
                continue
            if len(storages) > 1 or chosen and source.storage.serial > self.mark:
                flow.freeze(value, source)
            elif source.storage.serial <= self.mark:
                self.pairs.append((value, source, condition))
            else:
                self.found[side].setdefault(id(source.storage), []).append(value)
            # A side may have linked its array to older ones, under a condition that is not known here.
            for other in _partners(source.storage):
                if other.storage.serial <= self.mark and source.storage.serial > self.mark:
                    flow.freeze(value, other)

    def connect(self) -> None:
        for a, b, condition in self.pairs:
            _link(a, b, condition)
        for side, found in enumerate(self.found):
            for arrays in found.values():
                for other in arrays[1:]:
                    _link(arrays[0], other, self.conditions[side])


def _arrays(value: Value) -> dict[tuple[Any, ...], list[tuple[Array, Chosen]]]:
    """Return the arrays at each position of a value, with the conditions under which the value is that array."""
    found: dict[tuple[Any, ...], list[tuple[Array, Chosen]]] = {}

    def visit(one: Value, path: tuple[Any, ...], chosen: Chosen) -> None:
        if isinstance(one, Array):
            found.setdefault(path, []).append((one, chosen))
        elif isinstance(one, Tuple):
            for index, item in enumerate(one.items):
                visit(item, (*path, index), chosen)
        elif isinstance(one, Entries):
            for key, item in zip(one.keys, one.values):
                visit(item, (*path, key), chosen)
        elif isinstance(one, Choice):
            visit(one.yes, path, [*chosen, (one.condition, True)])
            visit(one.no, path, [*chosen, (one.condition, False)])

    visit(value, (), [])
    return found


def _partners(storage: Storage) -> list[Array]:
    """Return the arrays that a storage may share memory with, through links."""
    found: list[Array] = []
    seen = {id(storage)}
    pending = [storage]
    while pending:
        for other, _ in pending.pop().links:
            if id(other.storage) not in seen:
                seen.add(id(other.storage))
                found.append(other)
                pending.append(other.storage)
    return found


def _link(a: Array, b: Array, condition: GraphValue) -> None:
    if a.storage is b.storage or b.storage.live is not None:
        return
    if a.view is not None or b.view is not None:
        a.storage.captured = b.storage.captured = True
        return
    a.storage.links.append((b, condition))
    b.storage.links.append((a, condition))


def _shared(values: list[tuple[int, Value]], mark: int) -> frozenset[tuple[int, int]]:
    """Return the pairs of cells whose arrays have the same new storage."""
    found: dict[int, int] = {}
    pairs = set()
    for index, value in values:
        if isinstance(value, Array) and value.storage.serial > mark:
            if id(value.storage) in found:
                pairs.add((found[id(value.storage)], index))
            else:
                found[id(value.storage)] = index
    return frozenset(pairs)


__all__ = ["Flow", "Side", "RAISE", "Refusal", "structure"]

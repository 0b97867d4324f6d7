"""Objects that a loop creates in its rounds, and their identity from round to round.

A round ends with references to objects that this round or an earlier one created. Each position that has such a reference,
such as a name or an attribute, has a slot: an object that stands for what the position refers to when a round begins. Two
positions that refer to one object share the slot of the first; if that depends on the run, the reference is a choice. The
number of positions is fixed, so that the slots are. Slots are older than the rounds: their cells are states of the loop.
"""

from __future__ import annotations

from typing import Any

from .graph import GraphValue
from .heap import KIND, RESULT, YIELDED, Cell
from .values import ABSENT, UNDEFINED, Choice, Const, Entries, Function, Object, Poison, Reference, Tuple, Value, map_value

MOST_SLOTS = 40
MOST_DEPTH = 6
# Each reference is compared with the choices of all slots.
MOST_CHOICES = 60
CHAIN = "each round of a loop creates an object that refers to those of earlier rounds, whose number is not known"
TOO_MANY = "what a loop creates can be too many different things"


class Slots:
    """The slots of a loop. They are kept while its rounds are interpreted again until the states are stable."""

    def __init__(self, flow: Any, serial: int) -> None:
        self.flow = flow
        self.serial = serial
        self.objects: dict[Any, Object] = {}
        self.members: set[Object] = set()
        # How many references lead from a name to what a slot stands for.
        self.depths: dict[Object, int] = {}
        # Of the current end of a round: the slots that were taken, with what they are taken for.
        self.taken: list[tuple[Object, Value]] = []

    def is_local(self, value: Object) -> bool:
        """Tell whether an object was created by a round."""
        return value.serial > self.serial or value in self.members

    def settle(self, cells: dict[Cell, Value]) -> dict[Cell, Value]:
        """Return the values of the cells at the end of a round, with slots in the place of the round's objects."""
        self.taken = []
        done: dict[Cell, Value] = {}
        pending = [cell for cell in cells if cell[0] not in self.members]
        values = {cell: cells[cell] for cell in pending}
        while pending:
            cell = pending.pop(0)
            known = len(self.taken)
            done[cell] = self.rewrite(values[cell], (cell,))
            for slot, tree in self.taken[known:]:
                self.depths[slot] = self.depths.get(cell[0], 0) + 1  # type: ignore[arg-type]
                for key in self.keys(tree):
                    values[slot, key] = self.content(tree, key)
                    pending.append((slot, key))
        for cell in cells:
            # Nothing refers to a slot that was not taken.
            done.setdefault(cell, ABSENT)
        return done

    # ---- References ----

    def rewrite(self, value: Value, path: tuple[Any, ...]) -> Value:
        """Return a value with references to slots, and take those of its positions."""
        value = self.flow.settle(value)
        if isinstance(value, Choice):
            return self.rewritten_choice(value, path)
        if isinstance(value, Reference):
            return self.placed(value, path)
        if isinstance(value, Function):
            return self.rewritten_function(value, path)
        if isinstance(value, Tuple):
            return Tuple(tuple(self.rewrite(item, (*path, index)) for index, item in enumerate(value.items)), value.cls)
        if isinstance(value, Entries):
            return self.rewritten_entries(value, path)
        count = 0

        def leaf(inner: Value) -> Value:
            nonlocal count
            count += 1
            return self.rewrite(inner, (*path, count))

        return map_value(value, leaf)

    def rewritten_choice(self, value: Choice, path: tuple[Any, ...]) -> Value:
        """Return a choice with both sides rewritten; its slots are taken for one thing or another."""
        flow, facts, known = self.flow, self.flow.facts, len(self.taken)
        made, taken = [], []
        for truth, one in ((True, value.yes), (False, value.no)):
            flow.facts = flow.facts_if(value.condition, truth)
            try:
                made.append(self.rewrite(one, path))
            finally:
                flow.facts = facts
            taken.append(dict(self.taken[known:]))
            del self.taken[known:]
        for slot in dict.fromkeys([*taken[0], *taken[1]]):
            tree = Choice(value.condition, taken[0].get(slot, ABSENT), taken[1].get(slot, ABSENT))
            if _has_more_choices(tree, MOST_CHOICES):
                del self.taken[known:]
                return Poison(TOO_MANY)
            self.taken.append((slot, tree))
        return _choice(value.condition, made[0], made[1])

    def rewritten_entries(self, value: Entries, path: tuple[Any, ...]) -> Value:
        keys = []
        for index, key in enumerate(value.keys):
            made = self.rewrite(Reference(key), (*path, "key", index)) if isinstance(key, Object) else key
            if isinstance(made, (Choice, Poison)):
                return Poison("a dict or set has a key that a loop creates")
            keys.append(made.object if isinstance(made, Reference) else made)
        values = tuple(self.rewrite(item, (*path, key)) for key, item in zip(value.keys, value.values))
        return Entries(tuple(keys), values)

    def rewritten_function(self, function: Function, path: tuple[Any, ...]) -> Value:
        """Return a function with slots in the place of the frames that a round created."""
        if function.defaults or function.keyword_defaults:
            defaults = tuple(self.rewrite(item, (*path, index)) for index, item in enumerate(function.defaults))
            named = {name: self.rewrite(item, (*path, name)) for name, item in function.keyword_defaults.items()}
            function = Function(function.node, function.scope, defaults, named, function.name, function.live)
        made: list[tuple[Object, Value]] = []
        for frame in function.scope.frames():
            if self.is_local(frame):
                made.append((frame, self.placed(Reference(frame), (*path, function.node, len(made)))))
        return _with_frames(function, made, {})

    def placed(self, value: Reference, path: tuple[Any, ...]) -> Value:
        """Return the reference of a position. Its slot is taken if no earlier one was taken for the object."""
        flow = self.flow
        if not self.is_local(value.object):
            return value
        tests: list[tuple[GraphValue, Object]] = []
        for slot, tree in self.taken:
            known = self.known_identical(tree, value.object)
            if known is None:
                # The test is the same under all facts, so that it is a fact on the other side.
                same = self.identical(tree, value.object)
                known = flow.truth(same)
                if known is None:
                    tests.append((same, slot))
            if known:
                return self.choice_of(tests, Reference(slot))
        own = self.objects.get((path, value.object.cls))
        if own is None:
            if len(self.objects) >= MOST_SLOTS or self.depths.get(path[0][0], 0) >= MOST_DEPTH:
                return Poison(CHAIN)
            self.objects[path, value.object.cls] = own = Object(self.serial, value.object.cls)
            self.members.add(own)
        taken_for: Value = value
        for same, _ in reversed(tests):
            taken_for = Choice(same, ABSENT, taken_for)
        self.taken.append((own, taken_for))
        return self.choice_of(tests, Reference(own))

    def choice_of(self, tests: list[tuple[GraphValue, Object]], last: Value) -> Value:
        for same, slot in reversed(tests):
            last = Choice(same, Reference(slot), last)
        return last

    # Choices share sides, so that a tree may have exponentially more paths than choices. A walk goes into each choice once; its results
    # are kept by the choice's id.

    def identical(self, tree: Value, wanted: Object, done: dict[int, GraphValue] | None = None) -> GraphValue:
        """Return whether what a slot was taken for is an object, as a bool."""
        if not isinstance(tree, Choice):
            return self.flow.constant(isinstance(tree, Reference) and tree.object is wanted)  # type: ignore[no-any-return]
        done = {} if done is None else done
        if id(tree) not in done:
            done[id(tree)] = self.either(tree, self.identical(tree.yes, wanted, done), self.identical(tree.no, wanted, done))
        return done[id(tree)]

    def either(self, tree: Choice, yes: GraphValue, no: GraphValue) -> GraphValue:
        """Return one bool or the other."""
        flow = self.flow
        a, b = (None if one.array is None else bool(one.array) for one in (yes, no))
        if a is not None and a is b:
            return yes
        if a is True and b is False:
            return tree.condition
        if a is False and b is True:
            return flow.negation(tree.condition)  # type: ignore[no-any-return]
        return flow.op("Or", flow.op("And", tree.condition, yes), flow.op("And", flow.negation(tree.condition), no))  # type: ignore[no-any-return]

    def known_identical(self, tree: Value, wanted: Object, done: dict[int, bool | None] | None = None) -> bool | None:
        """Return whether what a slot was taken for is an object, if that is known here."""
        tree = self.flow.settle(tree)
        if not isinstance(tree, Choice):
            return isinstance(tree, Reference) and tree.object is wanted
        done = {} if done is None else done
        if id(tree) not in done:
            yes, no = self.known_identical(tree.yes, wanted, done), self.known_identical(tree.no, wanted, done)
            done[id(tree)] = yes if yes is no else None
        return done[id(tree)]

    # ---- Contents ----

    def keys(self, tree: Value) -> list[Any]:
        """Return the keys of all objects that a slot is taken for."""
        found: dict[Any, None] = {}
        for one in _objects(tree):
            for key in one.keys:
                if key not in (KIND, RESULT, YIELDED) and self.flow.heap.read(one, key) is not None:
                    found[key] = None
        return list(found)

    def content(self, tree: Value, key: Any, done: dict[int, Value] | None = None) -> Value:
        if isinstance(tree, Choice):
            # The absent sides are kept until the value is rewritten, which knows more on the other sides.
            done = {} if done is None else done
            if id(tree) not in done:
                yes, no = self.content(tree.yes, key, done), self.content(tree.no, key, done)
                done[id(tree)] = yes if yes is no else Choice(tree.condition, yes, no)
            return done[id(tree)]
        if isinstance(tree, Reference):
            return self.flow.heap.read(tree.object, key) or UNDEFINED
        return ABSENT


def _with_frames(function: Function, pending: list[tuple[Object, Value]], frames: dict[Object, Object]) -> Value:
    if not pending:
        if not frames:
            return function
        scope = function.scope.renamed(frames)
        return Function(function.node, scope, function.defaults, function.keyword_defaults, function.name, function.live)
    frame, made = pending[0]
    if isinstance(made, Choice):
        sides = [_with_frames(function, [(frame, one), *pending[1:]], frames) for one in (made.yes, made.no)]
        return Choice(made.condition, sides[0], sides[1])
    if not isinstance(made, Reference):
        return made
    return _with_frames(function, pending[1:], {**frames, frame: made.object})


def _choice(condition: GraphValue, yes: Value, no: Value) -> Value:
    if no is ABSENT:
        return yes
    return no if yes is ABSENT or yes is no else Choice(condition, yes, no)


def _has_more_choices(tree: Value, most: int) -> bool:
    pending, count = [tree], 0
    while pending and count <= most:
        one = pending.pop()
        if isinstance(one, Choice):
            count += 1
            pending += [one.yes, one.no]
    return count > most


def _objects(tree: Value) -> list[Object]:
    found: dict[Object, None] = {}
    seen: set[int] = set()
    pending = [tree]
    while pending:
        one = pending.pop()
        if isinstance(one, Reference):
            found[one.object] = None
        elif isinstance(one, Choice) and id(one) not in seen:
            seen.add(id(one))
            pending += [one.no, one.yes]
    return list(found)

"""Expressions: one function for each node of the syntax tree, and iteration."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import Any

from .calls import Calls
from .core import FALSE, NONE, NORMAL, TRUE, narrowing
from .errors import NeedsConstant, PythonError, Refusal, Undecided, nearest
from .graph import GraphValue
from .heap import DICT, ITEMS, YIELDED
from .read import local_names
from .templates import SequenceOf, same_value
from .values import (
    UNDEFINED,
    Array,
    Choice,
    Const,
    Entries,
    Function,
    Iteration,
    Number,
    Object,
    Poison,
    Reference,
    Scope,
    Sequence,
    Slice,
    Super,
    Text,
    Tuple,
    Value,
)

BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.MatMult: "@",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip
COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
UNARY = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not"}


class Expressions(Calls):
    """Evaluates expressions."""

    def eval(self, node: ast.expr) -> Value:
        """Return the value of an expression."""
        method = getattr(self, "eval_" + type(node).__name__, None)
        saved = self.node
        self.node = node
        if method is None:
            raise Refusal(f"{_construct(node)} is not supported")
        value: Value = method(node)
        # After an error the place stays, so that the innermost expression is reported.
        self.node = saved
        return value

    # ---- Names ----

    def eval_Constant(self, node: ast.Constant) -> Value:
        return Const(node.value)

    def eval_Name(self, node: ast.Name) -> Value:
        return self.read_name(node.id)

    def read_name(self, name: str) -> Value:
        scope: Scope | None = self.scope
        while scope is not None:
            if scope.frame is not None and name in scope.names:
                value = self.heap.read(scope.frame, name)
                if value is None or value is UNDEFINED:
                    raise PythonError(UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value"))
                value = self.settle(value)
                if isinstance(value, Choice) and (value.yes is UNDEFINED or value.no is UNDEFINED):
                    error = UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")
                    return self.defined_or_raise(value, error)
                if isinstance(value, Poison) and not isinstance(value, Text):
                    raise Refusal(f"'{name}' has no single meaning here: {value.reason}" if value.reason else "")
                return value
            if scope.frame is None:
                return self.read_global(scope, name)
            scope = scope.parent
        raise PythonError(NameError(f"name '{name}' is not defined"))

    def named(self, name: str) -> Value:
        """Return what a name that is assigned here has, which may be nothing."""
        scope: Scope | None = self.scope
        while scope is not None and scope.frame is not None:
            if name in scope.names:
                return self.heap.read(scope.frame, name) or UNDEFINED
            scope = scope.parent
        try:
            return self.read_name(name)
        except PythonError:
            return UNDEFINED

    def read_global(self, scope: Scope, name: str) -> Value:
        if name == "__class__" and scope.cls is not None:
            return self.wrap(scope.cls)
        if name in scope.cells:
            owner = self.new_cell_object(scope.cells[name])
            return self.heap.read(owner, "cell_contents") or self.outer_value((owner, "cell_contents"))
        space = self.globals_object(scope.globals)
        written = self.heap.read(space, name)
        if written is not None:
            return written
        if name in scope.globals:
            return self.live_read(space, name, self.wrap(scope.globals[name]))
        if hasattr(builtins, name):
            return Const(getattr(builtins, name))
        known = [*scope.globals, *dir(builtins)]
        inner: Scope | None = self.scope
        while inner is not None:
            known += inner.names
            inner = inner.parent
        hint = nearest(name, known)
        raise PythonError(NameError(f"name '{name}' is not defined" + (f". {hint}" if hint else "")))

    def globals_object(self, space: dict[str, Any]) -> Object:
        found = self.live_objects.get(id(space))
        if found is None:
            self.live_objects[id(space)] = found = (space, Object(0, "globals", space))
        return found[1]

    def write_name(self, name: str, value: Value) -> None:
        scope: Scope | None = self.scope
        while scope is not None:
            if scope.frame is None:
                break
            if name in scope.names:
                self.heap.write(scope.frame, name, value)
                return
            scope = scope.parent
        assert scope is not None
        if name in scope.cells:
            self.heap.write(self.new_cell_object(scope.cells[name]), "cell_contents", value)
        else:
            self.heap.write(self.globals_object(scope.globals), name, value)

    def assign_name(self, name: str, value: Value) -> None:
        """Assign to a name, on the paths on which the statement has not raised."""
        if self.endings() != frozenset([NORMAL]):
            if NORMAL not in self.endings():
                return
            value = Choice(self.ending_is(frozenset([NORMAL])), value, self.named(name))
        self.write_name(name, value)

    def eval_NamedExpr(self, node: ast.NamedExpr) -> Value:
        value = self.eval(node.value)
        self.assign_name(node.target.id, value)
        return value

    # ---- Operators ----

    def eval_BinOp(self, node: ast.BinOp) -> Value:
        left, right = self.eval(node.left), self.eval(node.right)
        return self.binary(BINARY[type(node.op)], left, right)

    def eval_UnaryOp(self, node: ast.UnaryOp) -> Value:
        return self.unary(UNARY[type(node.op)], self.eval(node.operand))

    def eval_BoolOp(self, node: ast.BoolOp) -> Value:
        return self.bool_values(isinstance(node.op, ast.And), node.values)

    def bool_values(self, is_and: bool, nodes: list[ast.expr]) -> Value:
        value = self.eval(nodes[0])
        if len(nodes) == 1:
            return value
        truth = self.truth_of(value)
        known = self.truth(truth)
        if known is not None:
            return self.bool_values(is_and, nodes[1:]) if known is is_and else value
        more = lambda: self.bool_values(is_and, nodes[1:])  # noqa: E731
        seen: list[GraphValue] = []

        def rest() -> Value:
            result = more()
            if self.kind_of(result) == "bool":
                seen.append(self.number_value(result))
            return result

        # A value that is false and a bool is False: the other side need not carry it.
        short: Callable[[], Value] = lambda: value  # noqa: E731
        if self.kind_of(value) == "bool":
            short = (lambda: FALSE) if is_and else (lambda: TRUE)
        result = self.branch(truth, rest if is_and else short, short if is_and else rest)
        if isinstance(result, Number) and result.kind == "bool":
            implied = [(truth, is_and), *truth.implies[0 if is_and else 1]]
            for at in seen:
                if at.graph is None or at.graph.encloses(self.graph):
                    implied += [(at, is_and), *at.implies[0 if is_and else 1]]
            result.at.implies = (tuple(implied), ()) if is_and else ((), tuple(implied))
        return result

    def eval_Compare(self, node: ast.Compare) -> Value:
        return self.compare_chain(self.eval(node.left), node.ops, node.comparators)

    def compare_chain(self, left: Value, ops: list[ast.cmpop], nodes: list[ast.expr]) -> Value:
        right = self.eval(nodes[0])
        result = self.compare_one(left, ops[0], right)
        if len(ops) == 1:
            return result
        return self.branch(self.truth_of(result), lambda: self.compare_chain(right, ops[1:], nodes[1:]), lambda: result)

    def compare_one(self, left: Value, op: ast.cmpop, right: Value) -> Value:
        if isinstance(op, (ast.Is, ast.IsNot)):
            result = self.identical(left, right)
            return result if isinstance(op, ast.Is) else self.unary("not", result)
        if isinstance(op, (ast.In, ast.NotIn)):
            result = self.contains(left, right)
            return result if isinstance(op, ast.In) else self.unary("not", result)
        return self.compare(COMPARE[type(op)], left, right)

    def eval_IfExp(self, node: ast.IfExp) -> Value:
        test = self.truth_of(self.eval(node.test))
        return self.branch(test, lambda: self.eval(node.body), lambda: self.eval(node.orelse))

    # ---- Attributes, items, calls ----

    def eval_Attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(self.eval(node.value), node.attr)

    def eval_Subscript(self, node: ast.Subscript) -> Value:
        return self.item(self.eval(node.value), self.eval(node.slice))

    def eval_Slice(self, node: ast.Slice) -> Value:
        parts = [self.eval(part) if part is not None else NONE for part in (node.lower, node.upper, node.step)]
        return Slice(*parts)

    def eval_Call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and self.scope.cls is not None:
            return self.current_super()
        function = self.eval(node.func)
        arguments: list[Value] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                arguments += self.items_of(self.eval(argument.value))
            else:
                arguments.append(self.eval(argument))
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.eval(keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
                continue
            entries = self.mapping(value)
            keywords.update(zip(entries.keys, entries.values))
        return self.call(function, arguments, keywords)

    def mapping(self, value: Value) -> Entries:
        """Return what ** adds: the entries of a dict."""

        def copy(one: Value) -> Value:
            self.usable(one)
            if not isinstance(one, Reference) or one.object.cls is not dict:
                raise PythonError(TypeError(f"'{self.type_name(one)}' object is not a mapping"))
            entries = self.entries(one)
            return self.new_dict(entries.keys, entries.values)

        value = self.settle(value)
        if isinstance(value, Choice):
            value = self.each(value, copy)
            self.usable(value)
        else:
            copy(value)
        assert isinstance(value, Reference)
        return self.entries(value)

    def current_super(self) -> Value:
        scope: Scope | None = self.scope
        while scope is not None and (scope.parent is None or scope.parent.frame is not None):
            scope = scope.parent
        first = next(iter(self.calling_parameters()), None)
        if first is None:
            raise PythonError(RuntimeError("super(): no arguments"))
        return Super(self.scope.cls, self.read_name(first))

    def calling_parameters(self) -> list[str]:
        raise NotImplementedError

    # ---- Displays ----

    def eval_Tuple(self, node: ast.Tuple) -> Value:
        contents = self.display(node.elts)
        return Tuple(contents.items) if isinstance(contents, Tuple) else self.as_tuple(contents)

    def eval_List(self, node: ast.List) -> Value:
        return self.new_list(self.display(node.elts))

    def display(self, nodes: list[ast.expr]) -> Value:
        contents: Value = Tuple((), list)
        for node in nodes:
            if isinstance(node, ast.Starred):
                contents = self.concatenated(contents, self.contents_of(self.eval(node.value)))
            else:
                contents = self.appended(contents, self.eval(node))
        return contents

    def appended(self, contents: Value, item: Value) -> Value:
        if isinstance(contents, Tuple):
            return Tuple((*contents.items, item), list)
        return self.concatenated(contents, Tuple((item,), list))

    def eval_Set(self, node: ast.Set) -> Value:
        keys = dict.fromkeys(self.key_of(self.eval(part)) for part in node.elts)
        return self.new_dict(tuple(keys), (NONE,) * len(keys), set)

    def eval_Dict(self, node: ast.Dict) -> Value:
        made: dict[Any, Value] = {}
        for key, part in zip(node.keys, node.values):
            if key is None:
                entries = self.mapping(self.eval(part))
                made.update(zip(entries.keys, entries.values))
            else:
                name = self.key_of(self.eval(key))
                made[name] = self.eval(part)
        return self.new_dict(tuple(made), tuple(made.values()))

    def eval_JoinedStr(self, node: ast.JoinedStr) -> Value:
        parts = [self.text_of(part) for part in node.values]
        return self.text("".join(text for text, _ in parts), any(shows_run for _, shows_run in parts))

    def text_of(self, node: ast.expr) -> tuple[str, bool]:
        """Return a part of a formatted text, and whether it shows values of the run."""
        if isinstance(node, ast.Constant):
            return str(node.value), False
        assert isinstance(node, ast.FormattedValue)
        value = self.eval(node.value)
        shown = self.shown(value)
        shows_run = self.shows_run(value)
        if node.conversion > 0:
            shown = {"r": repr(shown), "s": str(shown), "a": ascii(shown)}[chr(node.conversion)]
        form = ""
        for part in node.format_spec.values if isinstance(node.format_spec, ast.JoinedStr) else []:
            text, run = self.text_of(part)
            form, shows_run = form + text, shows_run or run
        try:
            return format(shown, form), shows_run
        except (TypeError, ValueError) as error:
            if isinstance(shown, str):
                return shown, shows_run
            raise PythonError(error) from None

    def eval_FormattedValue(self, node: ast.FormattedValue) -> Value:
        return self.text(*self.text_of(node))

    # ---- Functions ----

    def eval_Lambda(self, node: ast.Lambda) -> Value:
        return self.make_function(node, "<lambda>")

    def make_function(self, node: ast.FunctionDef | ast.Lambda, name: str) -> Function:
        defaults = tuple(self.eval(default) for default in node.args.defaults)
        keyword_defaults = {
            argument.arg: self.eval(default) for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults) if default is not None
        }
        return Function(node, self.scope, defaults, keyword_defaults, name)

    def eval_Yield(self, node: ast.Yield) -> Value:
        value = self.eval(node.value) if node.value is not None else NONE
        contents = self.heap.read(self.frame, YIELDED)
        if contents is None:
            self.refuse("yield outside of a function")
        self.heap.write(self.frame, YIELDED, self.appended(contents, value))
        return NONE

    def eval_YieldFrom(self, node: ast.YieldFrom) -> Value:
        contents = self.heap.read(self.frame, YIELDED)
        if contents is None:
            self.refuse("yield outside of a function")
        self.heap.write(self.frame, YIELDED, self.concatenated(contents, self.contents_of(self.eval(node.value))))
        return NONE

    # ---- Comprehensions ----

    def eval_ListComp(self, node: ast.ListComp) -> Value:
        return self.new_list(self.comprehension(node.elt, node.generators))

    def eval_GeneratorExp(self, node: ast.GeneratorExp) -> Value:
        generator = node.generators[0]
        if len(node.generators) == 1 and not generator.ifs and not generator.is_async:
            return self.lazy_generator(node.elt, generator)
        # Others run at once, which makes no difference as long as they change nothing.
        with self.without_effects("a generator expression"):
            return self.iterator_over(self.comprehension(node.elt, node.generators))

    def lazy_generator(self, element: ast.expr, generator: ast.comprehension) -> Iteration:
        """Return a generator whose items are computed when they are asked for."""
        source = self.iterate(self.eval(generator.iter))
        outer = self.scope
        names = frozenset(n.id for n in ast.walk(generator.target) if isinstance(n, ast.Name))
        # Functions that are made in the element share its names; without them each item has its own.
        shared = self.new_object("frame").object if any(isinstance(n, ast.Lambda) for n in ast.walk(element)) else None

        def item(index: Value) -> Value:
            frame = shared or self.new_object("frame").object
            saved = self.scope
            self.scope = Scope(frame, names, outer, outer.globals, outer.cells, outer.file, outer.cls)
            try:
                self.assign(generator.target, source.item(index))
                return self.eval(element)
            finally:
                self.scope = saved

        return self.iterator(Iteration(source.length, item, source.unroll, source.step))

    def assign(self, target: ast.expr, value: Value) -> None:
        raise NotImplementedError


    def eval_SetComp(self, node: ast.SetComp) -> Value:
        contents = self.comprehension(node.elt, node.generators)
        if not isinstance(contents, Tuple):
            raise NeedsConstant("a set must have constants")
        keys = dict.fromkeys(self.key_of(item) for item in contents.items)
        return self.new_dict(tuple(keys), (NONE,) * len(keys), set)

    def eval_DictComp(self, node: ast.DictComp) -> Value:
        pair = ast.copy_location(ast.Tuple([node.key, node.value], ast.Load()), node.key)
        contents = self.comprehension(pair, node.generators)
        if not isinstance(contents, Tuple):
            raise NeedsConstant("the number of keys of a dict must be known when the program is compiled")
        made: dict[Any, Value] = {}
        for item in contents.items:
            assert isinstance(item, Tuple)
            made[self.key_of(item.items[0])] = item.items[1]
        return self.new_dict(tuple(made), tuple(made.values()))

    def comprehension(self, element: ast.expr, generators: list[ast.comprehension]) -> Value:
        """Return the contents of a list comprehension."""
        first = self.iterate(self.eval(generators[0].iter))
        saved = self.scope
        names = frozenset(n.id for g in generators for n in ast.walk(g.target) if isinstance(n, ast.Name))
        frame = Object(self.heap.next_serial(), "frame")
        outer = self.scope
        self.scope = Scope(frame, names | {"[made]"}, outer, outer.globals, outer.cells, outer.file, outer.cls)
        self.heap.write(frame, "[made]", Tuple((), list))
        try:
            self._generate(element, generators, 0, first, frame)
        finally:
            self.scope = saved
        made = self.heap.read(frame, "[made]")
        assert made is not None
        if isinstance(made, Poison):
            raise Refusal(made.reason)
        return made

    def _generate(self, element: ast.expr, generators: list[ast.comprehension], depth: int, source: Iteration | None, frame: Object) -> None:
        if depth == len(generators):
            item = self.eval(element)
            made = self.settle(self.heap.read(frame, "[made]") or Tuple((), list))
            if isinstance(made, Poison):
                raise Refusal(made.reason)
            self.heap.write(frame, "[made]", self.appended(made, item))
            return
        generator = generators[depth]
        if generator.is_async:
            self.refuse("async has no meaning in a graph")
        iteration = source if source is not None else self.iterate(self.eval(generator.iter))

        def body() -> None:
            self._filtered(element, generators, depth, generator.ifs, frame)

        self.loop_over(iteration, generator.target, body)

    def _filtered(self, element: ast.expr, generators: list[ast.comprehension], depth: int, tests: list[ast.expr], frame: Object) -> None:
        if not tests:
            self._generate(element, generators, depth + 1, None, frame)
            return

        def go_on() -> Value:
            self._filtered(element, generators, depth, tests[1:], frame)
            return NONE

        self.branch(self.truth_of(self.eval(tests[0])), go_on, lambda: NONE)

    def loop_over(self, iteration: Iteration, target: ast.expr, body: Callable[[], None]) -> None:
        raise NotImplementedError

    def minimum(self, a: Value, b: Value) -> Value:
        """Return the least of two numbers."""
        raise NotImplementedError

    # ---- Iteration ----

    def iterate(self, value: Value) -> Iteration:
        """Return how a loop runs over a value."""
        value = self.settle(value)
        self.usable(value)
        if isinstance(value, Iteration):
            return self.consume(value) if value.renew is None else value.renew()
        if isinstance(value, Const):
            if isinstance(value.value, range):
                return self.range_iteration(Const(value.value.start), Const(value.value.step), Const(len(value.value)))
            if isinstance(value.value, (str, tuple, frozenset, bytes)):
                return self.known_iteration(tuple(self.wrap(item) for item in value.value))
            if isinstance(value.value, type) and issubclass(value.value, self._enum()):
                return self.known_iteration(tuple(self.wrap(item) for item in list(value.value)))  # type: ignore[call-overload]
        if isinstance(value, Tuple):
            return self.known_iteration(value.items)
        if isinstance(value, Sequence):
            sequence = value
            return Iteration(self.length(value), lambda i: self.borrow(self.sequence_item(sequence, self.number_value(i, "i64"))), False)
        if isinstance(value, Array):
            array = value
            if self.array_type(array).dims == ():
                raise PythonError(TypeError("iteration over a 0-d tensor"))
            return Iteration(self.length(value), lambda i: self.item(array, i), False)
        if isinstance(value, Reference) and value.object.cls is list:
            return self.list_iteration(value)
        if isinstance(value, Reference) and value.object.cls in (dict, set):
            keyed = value
            return self.entries_iteration(keyed, lambda: tuple(self.key_value(key) for key in self.entries(keyed).keys))
        if isinstance(value, Choice):
            return self.iterate(self.contents_of(value))
        method = self.find_method(value, "__iter__")
        if method is not None:
            made = self.settle(self.call(method, [], {}))
            if self.find_method(made, "__iter__") is not None and not isinstance(made, Iteration):
                # It may be the same object again.
                name = self.type_name(made)
                raise Refusal(f"'{name}' is an iterator of its own, which cannot be compiled", "Write __iter__ as a generator, with yield")
            return self.iterate(made)
        method = self.find_method(value, "__getitem__")
        if method is not None:
            found = method
            length = self.length(value)
            return Iteration(length, lambda i: self.call(found, [i], {}), isinstance(length, Const))
        raise PythonError(TypeError(f"'{self.type_name(value)}' object is not iterable"))

    def iterator(self, iteration: Iteration) -> Iteration:
        """Return an iterator: an iteration that can be consumed once."""
        made = Iteration(iteration.length, iteration.item, iteration.unroll, iteration.step)
        made.once = self.new_object("frame").object
        self.heap.write(made.once, "consumed", FALSE)
        return made

    def iterator_over(self, contents: Value) -> Iteration:
        """Return an iterator over a list of its own."""
        made = self.iterator(self.iterate(self.new_list(contents)))
        made.contents = contents
        return made

    def consume(self, iteration: Iteration) -> Iteration:
        """Return what is left of an iterator. Refuses one that may have been consumed before."""
        if iteration.once is None:
            return iteration
        taken = self.items_taken(iteration)
        self.heap.write(iteration.once, "consumed", TRUE)
        if not taken:
            return Iteration(iteration.length, iteration.item, iteration.unroll, iteration.step)
        start, step = Const(taken), iteration.step

        def left(count: Value | None) -> Value | None:
            return None if count is None else self.binary("-", count, self.minimum(start, count))

        grows = None if step is None else lambda: left(step())
        return Iteration(left(iteration.length), lambda i: iteration.item(self.binary("+", i, start)), iteration.unroll, grows)

    def items_taken(self, iteration: Iteration) -> int:
        """Return how many items next() took of an iterator that no loop has consumed."""
        taken = self.heap.read(iteration.once, "consumed")  # type: ignore[arg-type]
        if not isinstance(taken, Const) or taken.value is True:
            self.refuse("an iterator is used again after it was consumed, here or in an earlier round", "Make a list of it first")
        return int(taken.value)

    def next_item(self, iteration: Iteration, end: Callable[[], Value]) -> Value:
        """Return the next item of an iterator, or what a function returns at its end."""
        taken = self.items_taken(iteration)
        length = iteration.step() if iteration.step is not None else iteration.length
        self.heap.write(iteration.once, "consumed", Const(taken + 1))  # type: ignore[arg-type]
        if length is None:
            return iteration.item(Const(taken))
        return self.branch(self.truth_of(self.compare("<", Const(taken), length)), lambda: iteration.item(Const(taken)), end)

    def key_value(self, key: Any) -> Value:
        if isinstance(key, Object):
            return Reference(key)
        return self.wrap(key)

    def known_iteration(self, items: tuple[Value, ...]) -> Iteration:
        def item(index: Value) -> Value:
            if isinstance(index, Const):
                return items[index.value]
            return self.item(Tuple(items), index)

        return Iteration(Const(len(items)), item, True)

    def entries_iteration(self, value: Reference, items: Callable[[], tuple[Value, ...]]) -> Iteration:
        """Return an iteration over what a function makes of the entries of a dict or set, which must keep its size."""
        try:
            inner = self.known_iteration(items())
            inner.step = self.size_check(lambda: self.length(value), self.length(value))
        except Undecided:
            inner = self.sized_iteration(lambda: self.length(value), lambda: self.iterate(self.narrowed_items(items)))
        return inner

    def size_check(self, length: Callable[[], Value], first: Value) -> Callable[[], Value]:
        def check() -> Value:
            same = self.truth_of(self.compare("==", length(), first))
            self.when_normal(lambda: (self.branch(same, lambda: NONE, self._size_error), None)[1])
            return first

        return check

    def sized_iteration(self, length: Callable[[], Value], items: Callable[[], Iteration]) -> Iteration:
        first = length()
        check = self.size_check(length, first)

        def item(index: Value) -> Value:
            # Values are those at the time of the round.
            check()
            return items().item(index)

        return Iteration(first, item, items().unroll, check)

    def _size_error(self) -> Value:
        raise PythonError(RuntimeError("dictionary changed size during iteration"))

    @narrowing
    def narrowed_items(self, items: Callable[[], tuple[Value, ...]]) -> Value:
        return Tuple(items(), list)

    def list_iteration(self, value: Reference) -> Iteration:
        try:
            contents = self.contents(value)
        except Undecided:
            contents = self.contents_of(value)
            if isinstance(contents, Choice):
                raise
        if isinstance(contents, Tuple):
            return Iteration(
                Const(len(contents.items)),
                lambda i: self.item(value, i),
                True,
                step=lambda: self.length(value),
            )
        sequence = contents

        def item(index: Value) -> Value:
            now = self.settle(self.heap.read(value.object, ITEMS) or UNDEFINED)
            if isinstance(sequence, Sequence) and same_value(now, sequence):
                # The list was not changed, so that the index is inside.
                return self.borrow(self.sequence_item(sequence, self.number_value(index, "i64")))
            return self.item(value, index)

        return Iteration(self.length(contents), item, False, step=lambda: self.length(value))

    def range_iteration(self, start: Value, step: Value, length: Value) -> Iteration:
        def item(index: Value) -> Value:
            made = self.binary("+", start, self.binary("*", index, step))
            if isinstance(made, Number) and isinstance(index, Number) and index.at.bounds and isinstance(start, Const) and isinstance(step, Const):
                ends = [start.value + bound * step.value for bound in index.at.bounds]
                made.at.bounds = min(ends), max(ends)
            return made

        return Iteration(length, item, False)

    def items_of(self, value: Value) -> tuple[Value, ...]:
        """Return the items of an iterable of known length."""
        value = self.settle(value)
        if isinstance(value, Tuple):
            return value.items
        iteration = self.iterate(value)
        if not isinstance(iteration.length, Const):
            raise NeedsConstant("the number of items must be known when the program is compiled")
        return tuple(iteration.item(Const(index)) for index in range(iteration.length.value))

    @narrowing
    def contents_of(self, value: Value) -> Value:
        """Return the items of an iterable as contents of a list: Tuple or Sequence."""
        value = self.settle(value)
        if isinstance(value, Tuple):
            return Tuple(value.items, list)
        if isinstance(value, Sequence):
            return Sequence(value.parts, value.item)
        if isinstance(value, Reference) and value.object.cls is list:
            return self.contents(value)
        if isinstance(value, Choice):
            return self.each(value, self.contents_of)
        iteration = self.iterate(value)
        if isinstance(value, Iteration) and value.contents is not None:
            return value.contents
        if isinstance(iteration.length, Const) and (iteration.unroll or iteration.length.value <= self.options.most_rounds):
            return Tuple(self.items_of(iteration), list)
        frame = Object(self.heap.next_serial(), "frame")
        self.heap.write(frame, "made", Tuple((), list))

        def go(index: GraphValue) -> GraphValue:
            made = self.heap.read(frame, "made") or Tuple((), list)
            self.heap.write(frame, "made", self.appended(made, iteration.item(self.number(index, "int"))))
            return self.constant(True)

        if iteration.length is None:
            self.refuse("an iteration without end cannot become a list")
        self.run_items(self.number_value(iteration.length, "i64"), go)
        return self.heap.read(frame, "made") or Tuple((), list)

    # ---- Items ----

    @narrowing
    def item(self, value: Value, index: Value) -> Value:
        """Return value[index]."""
        value, index = self.settle(value), self.settle(index)
        self.usable(value)
        if isinstance(value, Choice):
            return self.each(value, lambda v: self.item(v, index))
        if isinstance(index, Choice):
            return self.each(index, lambda i: self.item(value, i))
        self.usable(index)
        if isinstance(value, Array):
            return self.array_item(value, index)
        if isinstance(value, (Tuple, Sequence)) or (isinstance(value, Reference) and value.object.cls is list):
            return self.list_item(value, index)
        if isinstance(value, Reference) and value.object.cls is dict:
            return self.dict_item(value, index)
        if isinstance(value, Const):
            if isinstance(value.value, (str, range, bytes)):
                if isinstance(index, Slice):
                    return self.wrap(value.value[slice(*[self.constant_of(part, "bound") for part in (index.start, index.stop, index.step)])])
                if isinstance(index, Number):
                    return self.list_item(Tuple(tuple(self.wrap(v) for v in value.value)), index)
            if isinstance(value.value, type):
                return value
            return self.call_live(lambda v, i: v[i], [value, index], {})
        method = self.find_method(value, "__getitem__")
        if method is not None:
            if isinstance(index, Number) and isinstance(value, Reference) and hasattr(value.object.live, "_modules"):
                return self.list_item(Tuple(self.items_of(value)), index)
            return self.call(method, [index], {})
        raise PythonError(TypeError(f"'{self.type_name(value)}' object is not subscriptable"))

    def array_item(self, value: Array, index: Value) -> Value:
        raise NotImplementedError

    def dict_item(self, value: Reference, index: Value) -> Value:
        entries = self.entries(value)
        if isinstance(index, Number):
            result: Callable[[], Value] = self._key_error
            for key, one in reversed(list(zip(entries.keys, entries.values))):
                if isinstance(key, (int, float)):
                    test = self.compare("==", index, Const(key))
                    result = lambda t=test, o=one, r=result: self.branch(self.truth_of(t), lambda: o, r)  # type: ignore[misc]
            return result()
        key = self.key_of(index)
        if key in entries.keys:
            return entries.values[entries.keys.index(key)]
        raise PythonError(KeyError(key))

    def _key_error(self) -> Value:
        raise PythonError(KeyError("no such key"))

    def list_item(self, value: Value, index: Value) -> Value:
        contents = self.items_value(value)
        is_list = isinstance(value, Reference)
        if isinstance(index, Slice) or (isinstance(index, Const) and isinstance(index.value, slice)):
            if isinstance(index, Const):
                index = Slice(Const(index.value.start), Const(index.value.stop), Const(index.value.step))
            return self.list_slice(contents, index, is_list)
        if isinstance(index, Array):
            index = self.number(self.number_value(index, "i64"), "int")
        if self.kind_of(index) not in ("int", "bool"):
            self.float_for_int(index, TypeError(f"{self.type_name(value)} indices must be integers or slices, not {self.type_name(index)}"))
        if isinstance(contents, Tuple) and isinstance(index, Const):
            try:
                return contents.items[index.value]
            except IndexError as error:
                raise PythonError(error) from None
        if isinstance(contents, Tuple):
            try:
                sequence = self.as_sequence(contents)
            except Refusal:
                return self.chosen_item(contents.items, index)
        else:
            assert isinstance(contents, Sequence)
            sequence = contents
        at = self.number_value(index, "i64")
        length = self.op("SequenceLength", sequence.parts[0])
        inside = self.in_range(at, length)
        return self.borrow(self.branch(inside, lambda: self.sequence_item(sequence, at), self._index_error))

    def borrow(self, value: Value) -> Value:
        """Return an item of a sequence, whose arrays must not be changed in place."""
        if isinstance(value, Array):
            value.storage.borrowed = True
        elif isinstance(value, Tuple):
            for item in value.items:
                self.borrow(item)
        elif isinstance(value, Choice):
            self.borrow(value.yes)
            self.borrow(value.no)
        return value

    def in_range(self, at: GraphValue, length: GraphValue) -> GraphValue:
        """Return whether an index, which may count from the end, is inside."""
        below = self.op("Less", at, length)
        if at.array is not None and int(at.array) >= 0:
            result: GraphValue = below
        else:
            result = self.op("And", below, self.op("GreaterOrEqual", at, self.op("Neg", length)))
        return result

    def _index_error(self) -> Value:
        raise PythonError(IndexError("list index out of range"))

    def chosen_item(self, items: tuple[Value, ...], index: Value) -> Value:
        """Return one of objects by a run-time index: a choice."""
        if self.attempts:
            raise NeedsConstant("the index of a list of objects must be known when the program is compiled")
        if len(items) > 64:
            self.refuse("a run-time index selects one of too many objects")
        result: Callable[[], Value] = self._index_error
        for position in reversed(range(len(items))):
            test = self.any_of([self.compare("==", index, Const(position)), self.compare("==", index, Const(position - len(items)))])
            result = lambda t=test, o=items[position], r=result: self.branch(self.truth_of(t), lambda: o, r)  # type: ignore[misc]
        return result()

    def list_slice(self, contents: Value, index: Slice, is_list: bool) -> Value:
        bounds = [index.start, index.stop, index.step]
        bounds = [self.number(self.number_value(b, "i64"), "int") if isinstance(b, Array) else b for b in bounds]
        if isinstance(contents, Tuple) and all(isinstance(bound, Const) for bound in bounds):
            items = contents.items[slice(*[self.constant_of(bound, "bound") for bound in bounds])]
            return self.new_list(items) if is_list else Tuple(items)
        sequence = self.as_sequence(contents)
        step = bounds[2]
        if not isinstance(step, Const) or step.value not in (None, 1):
            if not isinstance(step, Const):
                raise NeedsConstant("the step of a slice must be known when the program is compiled")
        length = self.length(sequence)
        number = 1 if step.value is None else step.value
        if number == 0:
            raise PythonError(ValueError("slice step cannot be zero"))
        if number < 0 and not (bounds[0] == NONE or isinstance(bounds[0], Const)):
            raise NeedsConstant("bounds of a slice with a negative step must be known when the program is compiled")
        start = self.clamped(bounds[0], length, Const(0)) if number > 0 else bounds[0]
        stop = self.clamped(bounds[1], length, length) if number > 0 else bounds[1]
        operands: list[GraphValue | None] = [
            None if isinstance(b, Const) and b.value is None else self.number_value(b, "i64") for b in (start, stop, Const(number))
        ]
        parts = tuple(self.op("SequenceGetSlice", part, *operands) for part in sequence.parts)
        made = Sequence(parts, sequence.item)
        return self.new_list(made) if is_list else self.as_tuple(made)

    def spliced(self, contents: Value, index: Slice, new: Value) -> Value:
        """Return contents of a list with a slice replaced."""
        if self.constant_of(index.step, "step of a slice") not in (None, 1):
            raise NeedsConstant("a slice with a step of a list of run-time length cannot be assigned")
        bounds = [self.number(self.number_value(b, "i64"), "int") if isinstance(b, Array) else b for b in (index.start, index.stop)]
        length = self.length(contents)
        start, stop = self.clamped(bounds[0], length, Const(0)), self.clamped(bounds[1], length, length)
        stop = self.number(self.op("Max", self.number_value(start, "i64"), self.number_value(stop, "i64")), "int")
        head, tail = (self.contents(self.list_slice(contents, part, True)) for part in (Slice(NONE, start, NONE), Slice(stop, NONE, NONE)))  # type: ignore[arg-type]
        return self.concatenated(self.concatenated(head, new), tail)

    def clamped(self, bound: Value, length: Value, default: Value) -> Value:
        """Return a bound of a slice as Python counts it, between 0 and the length."""
        if isinstance(bound, Const) and bound.value is None:
            return default
        at, size = self.number_value(bound, "i64"), self.number_value(length, "i64")
        zero = self.constant(0, "i64")
        if isinstance(bound, Const):
            at = at if bound.value >= 0 else self.op("Add", at, size)
        else:
            at = self.op("Where", self.op("Less", at, zero), self.op("Add", at, size), at)
        return self.number(self.op("Max", self.op("Min", at, size), zero), "int")

    # ---- Assignment of items ----

    @narrowing
    def set_item(self, value: Value, index: Value, new: Value) -> None:
        value, index = self.settle(value), self.settle(index)
        self.usable(value)
        if isinstance(value, Choice):
            self.each(value, lambda v: (self.set_item(v, index, new), NONE)[1])
            return
        if isinstance(index, Choice):
            self.each(index, lambda i: (self.set_item(value, i, new), NONE)[1])
            return
        if isinstance(value, Array):
            self.set_array_item(value, index, new)
        elif isinstance(value, Reference) and value.object.cls is list:
            self.set_list_item(value, index, new)
        elif isinstance(value, Reference) and value.object.cls is dict:
            key = self.key_of(index)
            entries = self.entries(value)
            made = dict(zip(entries.keys, entries.values))
            made[key] = new
            self.heap.write(value.object, DICT, Entries(tuple(made), tuple(made.values())))
        else:
            method = self.find_method(value, "__setitem__")
            if method is None:
                raise PythonError(TypeError(f"'{self.type_name(value)}' object does not support item assignment"))
            self.call(method, [index, new], {})

    def set_array_item(self, value: Array, index: Value, new: Value) -> None:
        raise NotImplementedError

    def set_list_item(self, value: Reference, index: Value, new: Value) -> None:
        contents = self.contents(value)
        if isinstance(index, Slice):
            new = self.contents_of(new)
            known = isinstance(contents, Tuple) and isinstance(new, Tuple)
            if not known or not all(isinstance(bound, Const) for bound in (index.start, index.stop)):
                self.heap.write(value.object, ITEMS, self.spliced(contents, index, new))
                return
            assert isinstance(contents, Tuple)
            bounds = slice(*[self.constant_of(bound, "bound") for bound in (index.start, index.stop, index.step)])
            items = list(contents.items)
            try:
                items[bounds] = self.items_of(new)
            except ValueError as error:
                raise PythonError(error) from None
            self.heap.write(value.object, ITEMS, Tuple(tuple(items), list))
            return
        if isinstance(index, Array):
            index = self.number(self.number_value(index, "i64"), "int")
        if isinstance(contents, Tuple) and isinstance(index, Const):
            items = list(contents.items)
            try:
                items[index.value] = new
            except IndexError as error:
                raise PythonError(error) from None
            self.heap.write(value.object, ITEMS, Tuple(tuple(items), list))
            return
        whole = contents if isinstance(contents, Sequence) else self.as_sequence(Tuple((*self.known_items(value), new), list))
        sequence = self.as_sequence(contents)
        self.outer_graph = self.graph
        template = self.widener(None).join_items(SequenceOf(whole.item, list), SequenceOf(self.item_template(new), list))
        if not isinstance(template, SequenceOf):
            self.refuse("the new item has nothing in common with the others of a list of run-time length")
        parts = self.sequence_parts(sequence, template, self.heap.serial)
        leaves: list[GraphValue] = []
        self.capture(new)
        self.convert(new, template.item, leaves, self.heap.serial)
        at = self.number_value(index, "i64")
        inside = self.in_range(at, self.op("SequenceLength", parts[0]))

        item = template.item

        def change() -> Value:
            made = tuple(self.op("SequenceUpdate", part, at, leaf) for part, leaf in zip(parts, leaves)) if leaves else tuple(parts)
            self.heap.write(value.object, ITEMS, Sequence(made, item))
            return NONE

        self.branch(inside, change, self._index_error)


def _construct(node: ast.AST) -> str:
    names = {"Await": "await", "Starred": "a starred expression"}
    return names.get(type(node).__name__, f"the construct {type(node).__name__}")


__all__ = ["Expressions", "NORMAL", "local_names"]

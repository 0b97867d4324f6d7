"""Statements: one function for each node of the syntax tree, blocks, and loops over iterations."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from typing import Any

from .core import BREAK, CONTINUE, FALSE, NONE, NORMAL, RAISE, RETURN, narrowing
from .errors import NeedsConstant, PythonError, Refusal
from .expressions import BINARY, Expressions
from .flow import Side
from .graph import Graph, GraphValue
from .heap import DICT, ITEMS, KIND, RESULT
from .read import arguments_of, is_generator
from .values import (
    UNDEFINED,
    Array,
    Choice,
    Const,
    Entries,
    Function,
    Iteration,
    LocalClass,
    NativeMethod,
    Number,
    Poison,
    Reference,
    Scope,
    Slice,
    Tuple,
    Value,
)

GO_ON = frozenset([NORMAL, CONTINUE])


class Statements(Expressions):
    """Executes statements."""

    parameters: list[list[str]]

    def run_body(self, node: ast.FunctionDef | ast.Lambda) -> None:
        self.parameters.append([argument.arg for argument in arguments_of(node)])
        try:
            if isinstance(node, ast.Lambda):
                body = node.body
                self.guarded(lambda: self.finish(self.eval(body)))
            else:
                self.block(node.body)
        finally:
            self.parameters.pop()

    def calling_parameters(self) -> list[str]:
        return self.parameters[-1]

    def finish(self, value: Value) -> None:
        self.heap.write(self.frame, RESULT, value)
        if self.endings() == frozenset([NORMAL]):
            self.set_ending(RETURN)
        else:
            self.split_ending(frozenset([NORMAL]), lambda: (self.set_ending(RETURN), NONE)[1], lambda: NONE)

    def guarded(self, run: Callable[[], None]) -> None:
        """Run a statement; exceptions of the program end its block, and problems are noted."""
        try:
            run()
        except PythonError as error:
            self.raise_python(error.error)
        except Refusal as refusal:
            if self.attempts and refusal.reason:
                raise
            self.report(refusal)
            self.poison()

    statement: ast.stmt | None = None

    def poison(self) -> None:
        """Make what a failed statement assigns unusable, without another report."""
        statement = self.statement
        if statement is None:
            return
        if isinstance(statement, ast.Return):
            self.heap.write(self.frame, RESULT, Poison())
            self.set_ending(RETURN)
            return
        for inner in ast.walk(statement):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                self.write_name(inner.id, Poison())

    # ---- Blocks ----

    def block(self, statements: list[ast.stmt]) -> None:
        """Run statements until one leaves the block. The rest of mixed endings runs in a branch."""
        for position, statement in enumerate(statements):
            rest = statements[position + 1 :]
            if isinstance(statement, ast.If):
                if self.run_if(statement, rest):
                    return
            else:
                self.run(statement)
            kinds = self.endings()
            if kinds == frozenset([NORMAL]):
                continue
            if NORMAL not in kinds:
                return
            if rest:
                self.split_ending(frozenset([NORMAL]), lambda: (self.block(rest), NONE)[1], lambda: NONE)  # noqa: B023
            return

    def run(self, statement: ast.stmt) -> None:
        method = getattr(self, "run_" + type(statement).__name__, None)
        saved, self.node = self.node, statement
        outer, self.statement = self.statement, statement

        def go() -> None:
            if method is None:
                raise Refusal(f"the statement {type(statement).__name__} is not supported")
            method(statement)

        try:
            self.guarded(go)
        finally:
            self.node, self.statement = saved, outer

    def run_if(self, statement: ast.If, rest: list[ast.stmt]) -> bool:
        """Run an if. Returns True if the rest of the block ran inside one of its sides."""
        tests: list[GraphValue] = []
        saved, self.node = self.node, statement
        outer, self.statement = self.statement, statement
        self.guarded(lambda: tests.append(self.truth_of(self.eval(statement.test))))
        self.node, self.statement = saved, outer
        if not tests:
            return False
        if self.endings() != frozenset([NORMAL]):

            def both() -> Value:
                if not self.run_sides(statement, tests[0], rest):
                    self.split_ending(frozenset([NORMAL]), lambda: (self.block(rest), NONE)[1], lambda: NONE)
                return NONE

            self.split_ending(frozenset([NORMAL]), both, lambda: NONE)
            return True
        known = self.truth(tests[0])
        if known is not None:
            self.block(statement.body if known else statement.orelse)
            return False
        return self.run_sides(statement, tests[0], rest)

    def run_sides(self, statement: ast.If, test: GraphValue, rest: list[ast.stmt]) -> bool:
        known = self.truth(test)
        if known is not None:
            self.block([*(statement.body if known else statement.orelse), *rest])
            return True
        mark = self.heap.serial
        kinds = []
        sides: list[Side] = []
        for truth, body in ((True, statement.body), (False, statement.orelse)):
            ended: list[frozenset[int]] = []

            def go(body: list[ast.stmt] = body, ended: list[frozenset[int]] = ended) -> Value:
                self.block(body)
                ended.append(self.endings())
                return NONE

            sides.append(self.run_side(test, truth, go))
            kinds.append(ended[0] if ended else frozenset([RAISE]))
        moved = bool(rest) and (NORMAL in kinds[0]) != (NORMAL in kinds[1])
        if moved:
            side = sides[0] if NORMAL in kinds[0] else sides[1]

            def more() -> Value:
                self.split_ending(frozenset([NORMAL]), lambda: (self.block(rest), NONE)[1], lambda: NONE)
                return NONE

            self.extend_side(side, more)
        self.merge(test, (sides[0], sides[1]), mark)
        return moved or bool(rest) and NORMAL not in kinds[0] | kinds[1]

    # ---- Simple statements ----

    def run_Expr(self, statement: ast.Expr) -> None:
        if not isinstance(statement.value, ast.Constant):
            self.eval(statement.value)

    def run_Pass(self, statement: ast.Pass) -> None:
        pass

    def run_Assign(self, statement: ast.Assign) -> None:
        value = self.eval(statement.value)
        for target in statement.targets:
            self.assign(target, value)

    def run_AnnAssign(self, statement: ast.AnnAssign) -> None:
        if statement.value is not None:
            self.assign(statement.target, self.eval(statement.value))

    def assign(self, target: ast.expr, value: Value) -> None:
        """Assign to a name, attribute, item, or pattern of them."""
        if isinstance(target, ast.Name):
            self.assign_name(target.id, value)
        elif isinstance(target, ast.Attribute):
            self.assign_attribute(self.eval(target.value), target.attr, value)
        elif isinstance(target, ast.Subscript):
            self.assign_item(self.eval(target.value), self.eval(target.slice), value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target.elts, value)
        else:
            self.refuse(f"an assignment to {type(target).__name__} is not supported")

    def unpack(self, targets: list[ast.expr], value: Value) -> None:
        value = self.settle(value)
        starred = [index for index, target in enumerate(targets) if isinstance(target, ast.Starred)]
        contents = self.unpacked(value, len(targets) if not starred else None)
        items = list(contents)
        if not starred:
            if len(items) != len(targets):
                few = "not enough" if len(items) < len(targets) else "too many"
                raise PythonError(ValueError(f"{few} values to unpack (expected {len(targets)})"))
        else:
            first, behind = starred[0], len(targets) - starred[0] - 1
            if len(items) < first + behind:
                raise PythonError(ValueError("not enough values to unpack"))
            middle = self.new_list(items[first : len(items) - behind])
            items = [*items[:first], middle, *items[len(items) - behind :]]
        for target, item in zip(targets, items):
            self.assign(target.value if isinstance(target, ast.Starred) else target, item)

    def unpacked(self, value: Value, count: int | None) -> tuple[Value, ...]:
        if isinstance(value, Choice):
            joined = self.each(value, lambda v: Tuple(self.unpacked(v, count)))
            if isinstance(joined, Tuple):
                return joined.items
            value = joined
        contents = self.contents_of(value) if not isinstance(value, (Array, Iteration)) else value
        if isinstance(contents, Tuple):
            return contents.items
        length = self.length(contents)
        if isinstance(length, Const):
            return self.items_of(contents)
        if count is None:
            raise NeedsConstant("the number of values to unpack must be known when the program is compiled")
        # The program checks the length.
        right = self.truth_of(self.compare("==", length, Const(count)))
        iteration = self.iterate(contents)
        known = count
        made = self.branch(right, lambda: Tuple(tuple(iteration.item(Const(i)) for i in range(known))), _unpack_error)
        if not isinstance(made, Tuple):
            raise PythonError(ValueError("wrong number of values to unpack"))
        return made.items

    def run_AugAssign(self, statement: ast.AugAssign) -> None:
        target, symbol = statement.target, BINARY[type(statement.op)]
        if isinstance(target, ast.Name):
            name = target.id
            old = self.read_name(name)
            value = self.eval(statement.value)
            if self.kind_of(old):
                self.assign_name(name, self.in_place(symbol, old, value))
            else:
                self.when_normal(lambda: self.assign_name(name, self.in_place(symbol, old, value)))
        elif isinstance(target, ast.Attribute):
            owner, name = self.eval(target.value), target.attr
            old, value = self.attribute(owner, name), self.eval(statement.value)
            self.when_normal(lambda: self.assign_attribute(owner, name, self.in_place(symbol, old, value)))
        else:
            assert isinstance(target, ast.Subscript)
            owner, index = self.eval(target.value), self.eval(target.slice)
            old, value = self.item(owner, index), self.eval(statement.value)
            self.when_normal(lambda: self.assign_item(owner, index, self.in_place(symbol, old, value)))

    def assign_attribute(self, owner: Value, name: str, value: Value) -> None:
        """Set an attribute, unless an earlier part of the statement raised."""
        self.when_normal(lambda: self.set_attribute(owner, name, value))

    def assign_item(self, owner: Value, index: Value, value: Value) -> None:
        """Set an item, unless an earlier part of the statement raised."""
        self.when_normal(lambda: self.set_item(owner, index, value))

    @narrowing
    def in_place(self, symbol: str, old: Value, value: Value) -> Value:
        """Return the result of an augmented assignment, which changes arrays and lists in place."""
        old = self.settle(old)
        if isinstance(old, Choice):
            return self.each(old, lambda v: self.in_place(symbol, v, value))
        if isinstance(old, Array) and symbol != "@":
            if old.library == "numpy" and old.storage.live is None and old.storage not in self.boxes and self.array_type(old).dims == ():
                # NumPy's scalars are immutable, and its functions return them for arrays of rank 0.
                return self.binary(symbol, old, value)
            if old.library == "chainer":
                return self.binary(symbol, old, value)
            made = self.binary(symbol, old, value)
            assert isinstance(made, Array)
            self.check_in_place(old, made)
            self.write_array(old, self.read_array(made))
            return old
        if isinstance(old, Reference) and old.object.cls is list:
            contents = self.contents(old)
            if symbol == "+":
                made_contents = self.concatenated(contents, self.contents_of(value))
            elif symbol == "*":
                value = self.settle(value)
                if isinstance(value, Choice):
                    return self.each(value, lambda times: self.in_place(symbol, old, times))
                made_contents = self.contents(self.repeated_list(old, value))
            else:
                raise PythonError(TypeError(f"unsupported operand type(s) for {symbol}="))
            self.heap.write(old.object, ITEMS, made_contents)
            return old
        if isinstance(old, Reference) and old.object.cls in (dict, set):
            owner = old.object

            def store(made: Value) -> Value:
                assert isinstance(made, Reference)
                self.heap.write(owner, DICT, self.entries(made))
                return NONE

            # The keys may depend on the path.
            self.each(self.binary(symbol, old, value), store)
            return old
        if isinstance(old, Reference):
            from .operators import DUNDER

            method = self.find_method(old, f"__i{DUNDER[symbol]}__")
            if method is not None:
                return self.call(method, [value], {})
        return self.binary(symbol, old, value)

    def repeated_list(self, old: Value, value: Value) -> Reference:
        made = self.repeated(old, value, True)
        assert isinstance(made, Reference)
        return made

    def check_in_place(self, old: Array, made: Array) -> None:
        from .templates import CATEGORY

        before, after = self.array_type(old).dtype, self.array_type(made).dtype
        if CATEGORY.get(after, 0) > CATEGORY.get(before, 0):
            raise PythonError(RuntimeError(f"result type {after} cannot be stored in an array of {before}"))

    def run_Delete(self, statement: ast.Delete) -> None:
        for target in statement.targets:
            if isinstance(target, ast.Name):
                self.read_name(target.id)
                self.write_name(target.id, UNDEFINED)
            elif isinstance(target, ast.Attribute):
                owner = self.settle(self.eval(target.value))
                self.attribute(owner, target.attr)
                if isinstance(owner, Reference):
                    self.heap.write(owner.object, target.attr, UNDEFINED)
            elif isinstance(target, ast.Subscript):
                owner, index = self.eval(target.value), self.eval(target.slice)
                self.when_normal(lambda: (self.each(owner, lambda one: (self.delete_item(one, index), NONE)[1]), None)[1])  # noqa: B023

    @narrowing
    def delete_item(self, owner: Value, index: Value) -> None:
        if isinstance(owner, Reference) and owner.object.cls is dict:
            entries = self.entries(owner)
            made = dict(zip(entries.keys, entries.values))
            key = self.key_of(index)
            if key not in made:
                raise PythonError(KeyError(key))
            del made[key]
            self.heap.write(owner.object, DICT, Entries(tuple(made), tuple(made.values())))
        elif isinstance(owner, Reference) and owner.object.cls is list:
            contents = self.contents(owner)
            if not isinstance(contents, Tuple) or isinstance(index, Number):
                if isinstance(index, Slice) or isinstance(index, Const) and isinstance(index.value, slice):
                    raise NeedsConstant("a slice of a list of run-time length cannot be deleted")
                self.call(NativeMethod(owner, "pop"), [index], {})
                return
            items = list(contents.items)
            try:
                if isinstance(index, Const):
                    del items[index.value]
                else:
                    del items[slice(*[self.constant_of(b, "bound") for b in (index.start, index.stop, index.step)])]  # type: ignore[attr-defined]
            except IndexError as error:
                raise PythonError(error) from None
            self.heap.write(owner.object, ITEMS, Tuple(tuple(items), list))
        else:
            self.refuse(f"an item of {self.describe(owner)} cannot be deleted")

    def run_Global(self, statement: ast.Global) -> None:
        pass

    def run_Nonlocal(self, statement: ast.Nonlocal) -> None:
        pass

    def run_Return(self, statement: ast.Return) -> None:
        self.finish(self.eval(statement.value) if statement.value is not None else NONE)

    def run_Break(self, statement: ast.Break) -> None:
        self.set_ending(BREAK)

    def run_Continue(self, statement: ast.Continue) -> None:
        self.set_ending(CONTINUE)

    def run_Import(self, statement: ast.Import) -> None:
        for alias in statement.names:
            module = importlib.import_module(alias.name)
            if alias.asname is None:
                module = importlib.import_module(alias.name.split(".")[0])
            self.write_name(alias.asname or alias.name.split(".")[0], Const(module))

    def run_ImportFrom(self, statement: ast.ImportFrom) -> None:
        package = self.scope.globals.get("__package__") or ""
        name = "." * statement.level + (statement.module or "")
        try:
            module = importlib.import_module(name, package)
        except ImportError as error:
            raise PythonError(error) from None
        for alias in statement.names:
            if not hasattr(module, alias.name):
                raise PythonError(ImportError(f"cannot import name '{alias.name}' from '{name}'"))
            self.write_name(alias.asname or alias.name, self.wrap(getattr(module, alias.name)))

    def run_Assert(self, statement: ast.Assert) -> None:
        test = self.truth_of(self.eval(statement.test))

        def fail() -> Value:
            text = self.shown(self.eval(statement.msg)) if statement.msg is not None else None
            raise PythonError(AssertionError(text) if text is not None else AssertionError())

        self.when_normal(lambda: (self.branch(test, lambda: NONE, fail), None)[1])

    def run_Raise(self, statement: ast.Raise) -> None:
        if statement.exc is None:
            if self.handling:
                raise PythonError(self.handling[-1])
            raise PythonError(RuntimeError("No active exception to reraise"))
        value = self.settle(self.eval(statement.exc))
        if isinstance(value, Const) and isinstance(value.value, type) and issubclass(value.value, BaseException):
            value = Const(value.value())
        if not isinstance(value, Const) or not isinstance(value.value, BaseException):
            if isinstance(value, Reference) and isinstance(value.object.cls, type) and issubclass(value.object.cls, BaseException):
                value = Const(value.object.cls())
            else:
                raise PythonError(TypeError("exceptions must derive from BaseException"))
        assert isinstance(value, Const)
        raise PythonError(value.value)

    handling: list[BaseException] = []

    # ---- Functions and classes ----

    def run_FunctionDef(self, statement: ast.FunctionDef) -> None:
        function: Value = self.make_function(statement, statement.name)
        for decorator in reversed(statement.decorator_list):
            function = self.call(self.eval(decorator), [function], {})
        self.write_name(statement.name, function)

    def run_ClassDef(self, statement: ast.ClassDef) -> None:
        if statement.keywords:
            self.refuse("a class with a metaclass is not supported")
        bases = tuple(self.settle(self.eval(base)) for base in statement.bases)
        members: dict[str, Value] = {}
        cls = LocalClass(statement.name, bases, members)
        outer = self.scope
        for inner in statement.body:
            if isinstance(inner, ast.FunctionDef):
                scope = Scope(outer.frame, outer.names, outer.parent, outer.globals, outer.cells, outer.file, cls)
                self.scope = scope
                try:
                    function: Value = self.make_function(inner, f"{statement.name}.{inner.name}")
                finally:
                    self.scope = outer
                for decorator in reversed(inner.decorator_list):
                    function = self.decorated(self.eval(decorator), function)
                members[inner.name] = function
            elif isinstance(inner, ast.Assign) and all(isinstance(target, ast.Name) for target in inner.targets):
                for target in inner.targets:
                    members[target.id] = self.eval(inner.value)  # type: ignore[attr-defined]
            elif isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                if inner.value is not None:
                    members[inner.target.id] = self.eval(inner.value)
            elif not isinstance(inner, (ast.Pass, ast.Expr)):
                self.refuse(f"the statement {type(inner).__name__} in a class that is defined in a function is not supported")
        self.write_name(statement.name, cls)

    def decorated(self, decorator: Value, function: Value) -> Value:
        if isinstance(decorator, Const) and decorator.value in (property, staticmethod, classmethod):
            self.refuse(f"{decorator.value.__name__} in a class that is defined in a function is not supported", "Define the class outside")
        return self.call(decorator, [function], {})

    # ---- with, try, match ----

    def run_With(self, statement: ast.With) -> None:
        self.enter(statement.items, statement.body)

    def enter(self, items: list[ast.withitem], body: list[ast.stmt]) -> None:
        if not items:
            self.block(body)
            return
        item = items[0]
        row = self.context_function(item.context_expr)
        manager: Value = NONE
        if row is None:
            manager = self.settle(self.eval(item.context_expr))
            row = self.tables.context(self, manager)
        if row is not None:
            if row == "skip":
                return
            entered: Value = NONE
            leave: Callable[[], None] = lambda: None  # noqa: E731
            if row in ("unroll", "plain"):
                saved, self.options.unroll = self.options.unroll, self.options.most_rounds if row == "unroll" else self.options.plain_unroll
                leave = lambda: setattr(self.options, "unroll", saved)  # noqa: E731
            if item.optional_vars is not None:
                self.assign(item.optional_vars, entered)
            self.enter(items[1:], body)
            leave()
            return
        enter, exit_method = self.find_method(manager, "__enter__"), self.find_method(manager, "__exit__")
        if enter is None or exit_method is None:
            raise PythonError(TypeError(f"'{self.type_name(manager)}' object does not support the context manager protocol"))
        entered = self.call(enter, [], {})
        if item.optional_vars is not None:
            self.assign(item.optional_vars, entered)
        self.enter(items[1:], body)
        self.after_all(lambda: (self.call(exit_method, [NONE, NONE, NONE], {}), None)[1])  # type: ignore[arg-type]

    def context_function(self, expression: ast.expr) -> str | None:
        """Return the effect of a context manager that a function of a library makes, or None."""
        if not isinstance(expression, ast.Call) or not isinstance(expression.func, (ast.Name, ast.Attribute)):
            return None
        owner: ast.expr = expression.func
        while isinstance(owner, ast.Attribute):
            owner = owner.value
        if not isinstance(owner, ast.Name):
            return None
        function = self.settle(self.eval(expression.func))
        effect = self.tables.contexts.get(id(function.value)) if isinstance(function, Const) else None
        if effect == "unroll" and not all(self.constant_of(self.eval(v), "flag") for v in [*expression.args, *(k.value for k in expression.keywords)]):
            return "plain"
        return effect

    def after_all(self, run: Callable[[], None]) -> None:
        """Run something however the block ended, and keep how it ended, unless that raises."""
        ending = self.heap.read(self.frame, KIND)
        result = self.heap.read(self.frame, RESULT)
        if ending is None or self.endings() == frozenset([NORMAL]):
            run()
            return
        self.set_ending(NORMAL)
        self.guarded(run)
        if self.endings() == frozenset([NORMAL]):
            self.heap.write(self.frame, KIND, ending)
            if result is not None:
                self.heap.write(self.frame, RESULT, result)
            return

        def restore() -> Value:
            assert ending is not None
            self.heap.write(self.frame, KIND, ending)
            if result is not None:
                self.heap.write(self.frame, RESULT, result)
            return NONE

        self.split_ending(frozenset([NORMAL]), restore, lambda: NONE)

    def run_Try(self, statement: ast.Try) -> None:
        self.trying += bool(statement.handlers)
        try:
            self.block(statement.body)
        finally:
            self.trying -= bool(statement.handlers)
        self.handle(statement)
        if statement.finalbody:
            self.after_all(lambda: self.block(statement.finalbody))

    def handle(self, statement: ast.Try) -> None:
        """Run the handler of each exception that the body can raise, and the else block if it raised none."""
        kinds = self.endings()
        jobs: list[tuple[frozenset[int], Callable[[], Value]]] = []
        taken: frozenset[int] = frozenset()
        for handler in statement.handlers:
            classes: Any = BaseException
            if handler.type is not None:
                classes = self.constant_of(self.eval(handler.type), "exception class")
            matched = frozenset(
                kind for kind in kinds - taken if kind >= RAISE and isinstance(self.exceptions[kind - RAISE], classes)
            )
            taken |= matched
            for kind in sorted(matched):
                jobs.append((frozenset([kind]), lambda h=handler, k=kind: self.run_handler(h, k)))  # type: ignore[misc]
        if statement.orelse and NORMAL in kinds:
            jobs.append((frozenset([NORMAL]), lambda: (self.block(statement.orelse), NONE)[1]))
        self.dispatch(jobs)

    def dispatch(self, jobs: list[tuple[frozenset[int], Callable[[], Value]]]) -> None:
        if not jobs or not (self.endings() & frozenset().union(*[kinds for kinds, _ in jobs])):
            return
        kinds, run = jobs[0]
        self.split_ending(kinds, run, lambda: (self.dispatch(jobs[1:]), NONE)[1])

    def run_handler(self, handler: ast.ExceptHandler, kind: int) -> Value:
        error = self.exceptions[kind - RAISE]
        self.set_ending(NORMAL)
        if handler.name:
            self.write_name(handler.name, Const(error))
        self.handling.append(error)
        try:
            self.block(handler.body)
        finally:
            self.handling.pop()
        if handler.name:
            self.write_name(handler.name, UNDEFINED)
        return NONE

    def run_Match(self, statement: ast.Match) -> None:
        subject = self.eval(statement.subject)
        self.match_cases(subject, statement.cases)

    def match_cases(self, subject: Value, cases: list[ast.match_case]) -> None:
        if not cases:
            return
        case = cases[0]
        test = self.pattern(subject, case.pattern)
        more = lambda: (self.match_cases(subject, cases[1:]), NONE)[1]  # noqa: E731

        def run_case() -> Value:
            if case.guard is not None:
                guard = self.truth_of(self.eval(case.guard))
                return self.branch(guard, lambda: (self.block(case.body), NONE)[1], more)
            self.block(case.body)
            return NONE

        self.branch(test, run_case, more)

    def pattern(self, subject: Value, pattern: ast.pattern) -> GraphValue:
        if isinstance(pattern, ast.MatchValue):
            return self.truth_of(self.compare("==", subject, self.eval(pattern.value)))
        if isinstance(pattern, ast.MatchSingleton):
            return self.truth_of(self.identical(subject, Const(pattern.value)))
        if isinstance(pattern, ast.MatchAs):
            inside = self.pattern(subject, pattern.pattern) if pattern.pattern is not None else self.constant(True)
            if pattern.name:
                self.write_name(pattern.name, subject)
            return inside
        if isinstance(pattern, ast.MatchOr):
            return self.truth_of(self.any_of([self.number(self.pattern(subject, p), "bool") for p in pattern.patterns]))
        if isinstance(pattern, ast.MatchSequence) and self.is_list(self.settle(subject)):
            contents = self.items_value(subject)
            if isinstance(contents, Tuple) and not any(isinstance(p, ast.MatchStar) for p in pattern.patterns):
                if len(contents.items) != len(pattern.patterns):
                    return self.constant(False)
                tests = [self.number(self.pattern(i, p), "bool") for i, p in zip(contents.items, pattern.patterns)]
                return self.truth_of(self.all_of(tests))
        self.refuse(f"the pattern {type(pattern).__name__} is not supported")

    # ---- Loops ----

    def run_For(self, statement: ast.For) -> None:
        iteration = self.iterate(self.eval(statement.iter))

        def loop() -> None:
            self.loop_over(iteration, statement.target, lambda: self.block(statement.body))
            self.after_loop(statement.orelse)

        self.when_normal(loop)

    def after_loop(self, orelse: list[ast.stmt]) -> None:
        if orelse and NORMAL in self.endings():
            self.split_ending(frozenset([NORMAL]), lambda: (self.block(orelse), NONE)[1], lambda: NONE)
        self.replace_endings(frozenset([BREAK]))

    def replace_endings(self, kinds: frozenset[int]) -> None:
        """Turn some ways to end the block into its normal end."""
        value = self.ending()
        if isinstance(value, Const):
            if value.value in kinds:
                self.set_ending(NORMAL)
            return
        assert isinstance(value, Number) and value.choices is not None
        if not value.choices & kinds:
            return
        left = (value.choices - kinds) | {NORMAL}
        if left == {NORMAL}:
            self.set_ending(NORMAL)
            return
        at = self.op("Where", self.ending_is(kinds), self.constant(NORMAL, "i64"), value.at)
        self.heap.write(self.frame, KIND, Number(at, "int", left))

    def loop_over(self, iteration: Iteration, target: ast.expr, body: Callable[[], None]) -> None:
        """Run a loop: unrolled if its structure asks for that, else as a Loop."""
        length = iteration.length
        if isinstance(length, Const):
            count = int(length.value)
            if iteration.unroll or count <= self.options.unroll:
                self.unroll(iteration, target, body, 0)
                return
            if count <= self.options.most_rounds:
                if not self.attempt(lambda: self.runtime_loop(iteration, target, body)):
                    self.unroll(iteration, target, body, 0)
                return
        self.runtime_loop(iteration, target, body)

    def unroll(self, iteration: Iteration, target: ast.expr, body: Callable[[], None], first: int) -> None:
        """Run rounds one by one; after a round that may have left the loop, the others run in a branch."""
        index = first
        while True:
            length = iteration.step() if iteration.step is not None else iteration.length
            if isinstance(length, Choice) or not isinstance(length, Const):
                if length is None:
                    length = Const(self.options.most_rounds)
                else:
                    self.refuse("the list changes its length in the loop over it")
            if index >= length.value:
                return
            if index > self.options.most_rounds:
                self.refuse(f"a loop of more than {self.options.most_rounds} rounds cannot be unrolled")
            self.assign(target, iteration.item(Const(index)))
            index += 1
            if not self.round_ends(body):
                return
            if self.endings() != frozenset([NORMAL]):

                def others(index: int = index) -> Value:
                    self.set_ending(NORMAL)
                    self.unroll(iteration, target, body, index)
                    return NONE

                self.split_ending(GO_ON, others, lambda: NONE)
                return

    def round_ends(self, body: Callable[[], None]) -> bool:
        """Run a round. Returns False if it left the loop for certain; its ending is normal if it did not for certain."""
        if self.endings() != frozenset([NORMAL]):
            self.split_ending(frozenset([NORMAL]), lambda: (body(), NONE)[1], lambda: NONE)
        else:
            body()
        kinds = self.endings()
        if kinds <= GO_ON:
            self.set_ending(NORMAL)
            return True
        return bool(kinds & GO_ON)

    def runtime_loop(self, iteration: Iteration, target: ast.expr, body: Callable[[], None]) -> None:
        before = self.number_value(iteration.length, "i64") if iteration.length is not None else None

        def test() -> GraphValue:
            return self.constant(True)

        def go(index: GraphValue) -> GraphValue:
            if isinstance(iteration.length, Const):
                index.bounds = 0, iteration.length.value - 1

            def whole() -> None:
                self.assign(target, iteration.item(self.number(index, "int")))
                self.when_normal(body)

            return self.loop_round(whole, test)

        self.run_loop(before, self.constant(True), go)
        if iteration.step is not None and before is not None:
            after = self.number_value(iteration.step() or NONE, "i64")
            if after is not before and not (after.array is not None and before.array is not None and int(after.array) == int(before.array)):
                self.refuse("the list changes its length in the loop over it", "Loop over a copy")

    def loop_round(self, body: Callable[[], None], test: Callable[[], GraphValue]) -> GraphValue:
        """Run a round of a Loop and return whether another follows."""
        self.guarded(body)
        kinds = self.endings()
        if not kinds & GO_ON:
            return self.constant(False)

        def tested() -> Value:
            self.set_ending(NORMAL)
            found: list[GraphValue] = []
            self.guarded(lambda: found.append(test()))
            if not found:
                return FALSE
            if self.endings() == frozenset([NORMAL]):
                return self.number(found[0], "bool")
            return self.split_ending(frozenset([NORMAL]), lambda: self.number(found[0], "bool"), lambda: FALSE)

        return self.truth_of(self.split_ending(GO_ON, tested, lambda: FALSE))

    def run_While(self, statement: ast.While) -> None:
        if not self.attempt(lambda: self.unroll_while(statement)):
            self.runtime_while(statement)
        self.after_loop(statement.orelse)

    def unroll_while(self, statement: ast.While) -> None:
        """Run a loop whose condition is known in each round; gives up by NeedsConstant."""
        for _ in range(self.options.unroll + 1):
            known = self.truth(self.truth_of(self.eval(statement.test)))
            if known is None or self.endings() != frozenset([NORMAL]):
                raise NeedsConstant("the condition is a value of the run")
            if not known:
                return
            more = self.round_ends(lambda: self.block(statement.body))
            if not more:
                return
            if self.endings() != frozenset([NORMAL]):
                raise NeedsConstant("the loop is left by a value of the run")
        raise NeedsConstant("the loop has many rounds")

    def runtime_while(self, statement: ast.While) -> None:
        def test() -> GraphValue:
            self.node = statement.test
            return self.truth_of(self.eval(statement.test))

        first = test()
        if self.endings() != frozenset([NORMAL]):
            self.split_ending(frozenset([NORMAL]), lambda: (self._while_loop(first, statement, test), NONE)[1], lambda: NONE)
        else:
            self._while_loop(first, statement, test)

    def _while_loop(self, first: GraphValue, statement: ast.While, test: Callable[[], GraphValue]) -> None:
        if self.truth(first) is False:
            return
        self.run_loop(None, first, lambda index: self.loop_round(lambda: self.block(statement.body), test))

    def attempt(self, run: Callable[[], None]) -> bool:
        """Run something that may turn out impossible. Returns False, with everything as before, if it did."""
        graph = self.graph
        marks = len(graph.nodes), len(graph.cache), len(self.problems), self.heap.serial, len(self.exceptions), len(self.calls)
        state = self.frame, self.scope, self.node, self.facts, self.statement, len(self.parameters), len(self.heap.overlays), self.attempts
        captures = len(self.captures)
        drawn = {key: generator.getstate() for key, (generator, _) in self.generators.items()}
        self.heap.push()
        self.attempts += 1
        try:
            run()
        except Refusal as refusal:
            self.frame, self.scope, self.node, self.facts, self.statement, parameters, overlays, self.attempts = state
            del self.parameters[parameters:], self.heap.overlays[overlays:]
            self.graph = graph
            for key, (generator, first) in self.generators.items():
                generator.setstate(drawn.get(key, first))
            for storage in self.captures[captures:]:
                storage.captured = False
            del self.captures[captures:]
            del graph.nodes[marks[0] :], self.problems[marks[2] :], self.exceptions[marks[4] :], self.calls[marks[5] :]
            for key in list(graph.cache)[marks[1] :]:
                del graph.cache[key]
            if not refusal.reason:
                raise
            return False
        except PythonError:
            self.attempts = state[-1]
            self.heap.overlays[-2].update(self.heap.pop())
            raise
        self.attempts = state[-1]
        top = self.heap.pop()
        self.heap.overlays[-1].update(top)
        return True


def _unpack_error() -> Value:
    raise PythonError(ValueError("wrong number of values to unpack"))


__all__ = ["Statements", "Function", "Graph", "is_generator"]

"""Python's operators on abstract values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from . import emit
from .core import FALSE, NONE, TRUE, narrowing
from .errors import PythonError, Refusal
from .flow import Flow
from .graph import GraphValue
from .templates import CATEGORY, RANK, Either, SequenceOf, TupleOf, leaf_types, same_value
from .values import (
    NUMBER_DTYPES,
    UNDEFINED,
    Array,
    Choice,
    Const,
    Entries,
    Function,
    Iteration,
    LocalClass,
    Method,
    Number,
    Poison,
    Reference,
    RunText,
    Sequence,
    Text,
    Tuple,
    Value,
)

PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "@": operator.matmul,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
UNARY: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "+": operator.pos, "~": operator.invert}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
DUNDER = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "truediv",
    "//": "floordiv",
    "%": "mod",
    "**": "pow",
    "@": "matmul",
    "<<": "lshift",
    ">>": "rshift",
    "&": "and",
    "|": "or",
    "^": "xor",
    "==": "eq",
    "!=": "ne",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
}
# Constants and lists of known length cannot have more items.
MOST_ITEMS = 1 << 20
_ORDER = {"<": "Less", "<=": "LessOrEqual", ">": "Greater", ">=": "GreaterOrEqual"}


class Operators(Flow):
    """Operators, truth, comparison and membership."""

    # Provided by higher layers.
    def call(self, function: Value, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        raise NotImplementedError

    def find_method(self, value: Value, name: str) -> Value | None:
        raise NotImplementedError

    def contents_of(self, value: Value) -> Value:
        """Return the items of an iterable as contents of a list: Tuple or Sequence."""
        raise NotImplementedError

    def iterate(self, value: Value) -> Iteration:
        raise NotImplementedError

    def first_with(self, iterable: Value, wanted: bool) -> Value:
        raise NotImplementedError

    def array_binary(self, symbol: str, a: Value, b: Value) -> Value:
        raise NotImplementedError

    def array_compare(self, symbol: str, a: Value, b: Value) -> Value:
        raise NotImplementedError

    # ---- Truth ----

    def truth_of(self, value: Value) -> GraphValue:
        """Return whether a value is true, as a bool."""
        value = self.settle(value)
        if isinstance(value, Number):
            if value.kind == "bool":
                return value.at
            zero = self.constant(0, NUMBER_DTYPES[value.kind])
            return self.negation(self.op("Equal", value.at, zero))
        if isinstance(value, Const):
            return self.constant(bool(value.value))
        if isinstance(value, Array):
            at = self.read_array(value)
            dims = at.type.dims
            if dims is None or any(isinstance(d, int) and d != 1 for d in dims):
                if dims is not None and 0 not in dims:
                    raise PythonError(ValueError("the truth value of an array with more than one element is ambiguous"))
            if dims != ():
                at = self.op("Reshape", at, self.ints([]))
            return self.cast(at, "bool")
        if isinstance(value, Choice):
            made = self.each(value, lambda v: self.number(self.truth_of(v), "bool"))
            return self.number_value(made, "bool")
        if isinstance(value, (Tuple, Sequence)) or (isinstance(value, Reference) and value.object.cls in (list, dict, set)):
            return self.truth_of(self.length(value))
        if isinstance(value, Reference):
            for name in ("__bool__", "__len__"):
                method = self.find_method(value, name)
                if method is not None:
                    return self.truth_of(self.call(method, [], {}))
            return self.constant(True)
        self.usable(value)
        return self.constant(True)

    def usable(self, value: Value) -> None:
        """Refuse values that stand for a reported problem, or for something that was never assigned."""
        if isinstance(value, Poison):
            raise Refusal(value.reason)
        if value is UNDEFINED:
            raise PythonError(UnboundLocalError("a name is used before it is assigned"))

    # ---- Binary operators ----

    @narrowing
    def binary(self, symbol: str, a: Value, b: Value) -> Value:
        """Return the result of an operator."""
        a, b = self.settle(a), self.settle(b)
        if isinstance(a, Choice):
            return self.each(a, lambda v: self.binary(symbol, v, b))
        if isinstance(b, Choice):
            return self.each(b, lambda v: self.binary(symbol, a, v))
        if isinstance(a, Text) or isinstance(b, Text) or symbol == "%" and isinstance(a, Const) and isinstance(a.value, str):
            return self.text_binary(symbol, a, b)
        self.usable(a)
        self.usable(b)
        if isinstance(a, Const) and isinstance(b, Const):
            return self.python_binary(symbol, a, b)
        if isinstance(a, Array) or isinstance(b, Array):
            for one, other in ((a, b), (b, a)):
                if isinstance(one, Array) and isinstance(other, Reference) and other.object.cls not in (list, tuple):
                    return self.object_binary(symbol, a, b)
            return self.array_binary(symbol, a, b)
        if self.kind_of(a) and self.kind_of(b):
            return self.number_binary(symbol, a, b)
        if self.is_list(a) or self.is_list(b):
            return self.list_binary(symbol, a, b)
        return self.object_binary(symbol, a, b)

    def python_binary(self, symbol: str, a: Const, b: Const) -> Value:
        if symbol == "**" and isinstance(a.value, int) and isinstance(b.value, int) and abs(b.value) > 4096:
            self.refuse("the power is too large")
        if symbol == "<<" and isinstance(b.value, int) and b.value > 65536:
            self.refuse("the number is too large")
        for text, count in ((a.value, b.value), (b.value, a.value)):
            if symbol == "*" and isinstance(text, (str, bytes, tuple)) and isinstance(count, int) and len(text) * count > MOST_ITEMS:
                self.refuse("the text is too long")
        try:
            return self.wrap(PYTHON[symbol](a.value, b.value))
        except (ArithmeticError, TypeError, ValueError) as error:
            raise PythonError(error) from None

    def text_binary(self, symbol: str, a: Value, b: Value) -> Value:
        """Return a text that an operator makes of texts, one of which shows values of the run, or of a format."""
        x, y = self.shown(a), self.shown(b)
        if symbol == "%" and isinstance(x, str):
            made = self.format_percent(x, b)
            return self.text(made.value, isinstance(x, RunText) or self.shows_run(b))
        if symbol == "+" and isinstance(x, str) and isinstance(y, str):
            return Text(x + y)
        self.usable(a)
        self.usable(b)
        return self.object_binary(symbol, a, b)

    def text(self, text: str, shows_run: bool) -> Value:
        """Return a text; one that shows values of the run is good for messages only."""
        return Text(text) if shows_run else Const(text)

    def shows_run(self, *values: Value) -> bool:
        """Return whether the text of a value depends on the run."""
        for value in values:
            value = self.settle(value)
            if isinstance(value, Const):
                error = value.value
                if isinstance(error, BaseException) and any(isinstance(a, RunText) for a in error.args):
                    return True
            elif not isinstance(value, Tuple) or self.shows_run(*value.items):
                return True
        return False

    def format_percent(self, text: str, value: Value) -> Const:
        items = value.items if isinstance(value, Tuple) else (value,)
        shown = tuple(self.shown(item) for item in items)
        try:
            return Const(text % shown)
        except (TypeError, ValueError) as error:
            if any(not isinstance(item, Const) for item in items):
                # Numbers of the run have no text when the program is compiled.
                import re

                return Const(re.sub(r"%[-+ #0-9.]*[a-zA-Z]", "{}", text).format(*shown))
            raise PythonError(error) from None

    def shown(self, value: Value) -> Any:
        """Return what a value looks like in a text; values of the run are shown as <int> and the like."""
        value = self.settle(value)
        if isinstance(value, Const):
            return value.value
        if isinstance(value, Number):
            return f"<{value.kind}>"
        if isinstance(value, Text):
            return value.text
        if isinstance(value, Tuple):
            return tuple(self.shown(item) for item in value.items)
        return f"<{self.describe(value)}>"

    def number_binary(self, symbol: str, a: Value, b: Value) -> Value:
        kinds = self.kind_of(a), self.kind_of(b)
        if symbol in ("&", "|", "^") and kinds == ("bool", "bool"):
            name = {"&": "And", "|": "Or", "^": "Xor"}[symbol]
            return self.number(self.op(name, self.number_value(a), self.number_value(b)), "bool")
        kind = max((*kinds, "int"), key=RANK.__getitem__)
        if symbol in ("&", "|", "^", "<<", ">>"):
            if kind == "float":
                one = a if self.kind_of(a) == "float" else b
                self.float_for_int(one, TypeError(f"unsupported operand type(s) for {symbol}: 'float'"))
            return self.integer_bits(symbol, a, b)
        if symbol == "/":
            kind = "float"
        if symbol == "@":
            raise PythonError(TypeError("unsupported operand type(s) for @"))
        if symbol == "**":
            return self.number_power(a, b, kind)
        dtype = NUMBER_DTYPES[kind]
        if symbol in ("/", "//", "%"):
            if isinstance(b, Const) and not b.value:
                raise PythonError(ZeroDivisionError("division by zero"))
            if not isinstance(b, Const):
                return self.branch(self.truth_of(b), lambda: self._divided(symbol, a, b, kind, dtype), self._divided_by_zero)
            return self._divided(symbol, a, b, kind, dtype)
        name = {"+": "Add", "-": "Sub", "*": "Mul"}[symbol]
        return self.number(self.op(name, self.number_value(a, dtype), self.number_value(b, dtype)), kind)

    def _divided_by_zero(self) -> Value:
        raise PythonError(ZeroDivisionError("division by zero"))

    def _divided(self, symbol: str, a: Value, b: Value, kind: str, dtype: str) -> Value:
        x, y = self.number_value(a, dtype), self.number_value(b, dtype)
        if symbol == "/":
            return self.number(self.op("Div", x, y), kind)
        return self.number(self.floor_mod(x, y)[0 if symbol == "//" else 1], kind)

    def floor_mod(self, x: GraphValue, y: GraphValue) -> tuple[GraphValue, GraphValue]:
        """Return floor division and remainder, with the sign of the divisor."""
        if self.float_dtype(x.type.dtype):
            # The steps of CPython's float_divmod: the sign is corrected after the division, so that infinities stay exact.
            rest = self.op("Mod", x, y, fmod=1)
            quotient = self.op("Round", self.op("Div", self.op("Sub", x, rest), y))
            differs = self.signs_differ(rest, y)
            quotient = self.op("Sub", quotient, self.op("Cast", differs, to=x.type.dtype))
            return quotient, self.op("Where", differs, self.op("Add", rest, y), rest)
        rest = self.op("Mod", x, y)
        quotient = self.op("Div", x, y)
        if x.type.dtype[0] == "u":
            return quotient, rest
        # Subtracting the remainder from x first would overflow for the smallest integers.
        zero = self.constant(0, x.type.dtype)
        inexact = self.negation(self.op("Equal", rest, zero))
        negative = self.op("Xor", self.op("Less", x, zero), self.op("Less", y, zero))
        return self.op("Sub", quotient, self.op("Cast", self.op("And", inexact, negative), to=x.type.dtype)), rest

    def signs_differ(self, rest: GraphValue, y: GraphValue) -> GraphValue:
        """Return whether a remainder is not zero and has not the sign of the divisor."""
        zero = self.constant(0, y.type.dtype)
        differs = self.op("Xor", self.op("Less", rest, zero), self.op("Less", y, zero))
        return self.op("And", self.negation(self.op("Equal", rest, zero)), differs)  # type: ignore[no-any-return]

    def integer_bits(self, symbol: str, a: Value, b: Value) -> Value:
        x, y = self.number_value(a, "i64"), self.number_value(b, "i64")
        if symbol in ("<<", ">>"):
            counts = self.truth_of(self.compare(">=", b, Const(0)))
            return self.branch(counts, lambda: self._shifted(symbol, x, y), self._negative_shift)
        return self.number(self.op({"&": "BitwiseAnd", "|": "BitwiseOr", "^": "BitwiseXor"}[symbol], x, y), "int")

    def _shifted(self, symbol: str, x: GraphValue, y: GraphValue) -> Value:
        two, most = self.constant(2, "i64"), self.constant(62, "i64")
        if symbol == "<<":
            return self.number(self.op("Mul", x, self.op("Pow", two, y)), "int")
        shifted = self.floor_mod(x, self.op("Pow", two, self.op("Min", y, most)))[0]
        # Of a number that is shifted by 63 and more, the sign is left.
        sign = self.op("Neg", self.op("Cast", self.op("Less", x, self.constant(0, "i64")), to="i64"))
        return self.number(self.op("Where", self.op("Greater", y, most), sign, shifted), "int")

    def _negative_shift(self) -> Value:
        raise PythonError(ValueError("negative shift count"))

    def number_power(self, a: Value, b: Value, kind: str) -> Value:
        if kind == "float":
            return self.float_power(a, b)
        if isinstance(b, Const):
            if b.value >= 0:
                return self.number(self.op("Pow", self.number_value(a, "i64"), self.number_value(b, "i64")), "int")
            return self.float_power(a, b)
        positive = self.truth_of(self.compare(">=", b, Const(0)))
        return self.branch(
            positive,
            lambda: self.number(self.op("Pow", self.number_value(a, "i64"), self.number_value(b, "i64")), "int"),
            lambda: self.float_power(a, b),
        )

    def float_power(self, a: Value, b: Value) -> Value:
        """Return a power of floats. 0 to a negative power and complex results raise."""
        x, y = self.number_value(a, "f64"), self.number_value(b, "f64")
        result = lambda: self.number(self.op("Pow", x, y), "float")  # noqa: E731
        zero = Const(0.0)
        if isinstance(b, Const) and b.value >= 0 and float(b.value).is_integer() or isinstance(a, Const) and a.value > 0:
            return result()
        if isinstance(b, Const):
            inside = self.compare(">=" if b.value > 0 else ">" if not float(b.value).is_integer() else "!=", a, zero)
        else:
            whole = self.number(self.op("Equal", y, self.op("Floor", y)), "bool")
            not_complex = self.any_of([self.compare(">=", a, zero), whole])
            inside = self.all_of([not_complex, self.any_of([self.compare("!=", a, zero), self.compare(">=", b, zero)])])
        if self.kind_of(a) == "float":
            # NaN and infinities raise nothing.
            special = self.op("Equal", self.op("Sub", x, x), self.constant(0, "f64"))
            inside = self.any_of([inside, self.number(self.negation(special), "bool")])

        def fail() -> Value:
            def complex_result() -> Value:
                raise PythonError(ValueError("a negative number to a fractional power is complex, which a program cannot have"))

            return self.branch(self.truth_of(self.compare("==", a, zero)), self._zero_power, complex_result)

        return self.branch(self.truth_of(inside), result, fail)

    def _zero_power(self) -> Value:
        raise PythonError(ZeroDivisionError("0.0 cannot be raised to a negative power"))

    def whole_number(self, at: GraphValue, op: str = "") -> Value:
        """Return a float as an int, as int() does: NaN and infinities raise."""
        if not self.float_dtype(at.type.dtype):
            return self.number(self.cast(at, "i64"), "int")
        at = self.cast(at, "f64")
        at = self.op(op, at) if op else at

        def fail() -> Value:
            def infinite() -> Value:
                raise PythonError(OverflowError("cannot convert float infinity to integer of 64 bits"))

            def nan() -> Value:
                raise PythonError(ValueError("cannot convert float NaN to integer"))

            return self.branch(self.op("Equal", at, at), infinite, nan)

        inside = self.op("Less", self.op("Abs", at), self.constant(2.0**63, "f64"))
        return self.branch(inside, lambda: self.number(self.cast(at, "i64"), "int"), fail)

    def object_binary(self, symbol: str, a: Value, b: Value) -> Value:
        name = DUNDER[symbol]
        tries = [(a, b, f"__{name}__"), (b, a, f"__r{name}__")]
        if isinstance(a, Reference) and isinstance(b, Reference) and self.overrides(b, a, f"__r{name}__"):
            tries.reverse()
        for one, other, method_name in tries:
            if isinstance(one, Reference) and one.object.cls not in (list, dict, set):
                method = self.find_method(one, method_name)
                if method is not None:
                    result = self.implemented(self.call(method, [other], {}))
                    if result is not None:
                        return result
        if isinstance(a, Reference) and isinstance(b, Reference) and a.object.cls in (dict, set) and a.object.cls is b.object.cls:
            return self.keyed_binary(symbol, a, b)
        raise PythonError(
            TypeError(f"unsupported operand type(s) for {symbol}: {self.type_name(a)!r} and {self.type_name(b)!r}")
        )

    def implemented(self, result: Value) -> Value | None:
        """Return the result of an operator's method, or None if it is NotImplemented."""
        result = self.settle(result)
        if isinstance(result, Choice) and any(isinstance(one, Const) and one.value is NotImplemented for one in (result.yes, result.no)):
            self.refuse("an operator is implemented on one path only", "Return NotImplemented by the types of operands only")
        return None if isinstance(result, Const) and result.value is NotImplemented else result

    @staticmethod
    def overrides(right: Reference, left: Reference, name: str) -> bool:
        """Return whether the method of the right operand is tried first: its class is derived from the left's and has its own."""
        own, other = right.object.cls, left.object.cls
        if own is other or not (isinstance(own, type) and isinstance(other, type) and issubclass(own, other)):
            return False
        return getattr(own, name, None) is not getattr(other, name, None)

    def keyed_binary(self, symbol: str, a: Reference, b: Reference) -> Value:
        first, second = self.entries(a), self.entries(b)
        x, y = dict(zip(first.keys, first.values)), dict(zip(second.keys, second.values))
        if symbol == "|":
            x.update(y)
            return self.new_dict(tuple(x), tuple(x.values()), a.object.cls)
        if a.object.cls is set and symbol in "&-^":
            keys = {"&": [k for k in x if k in y], "-": [k for k in x if k not in y]}.get(
                symbol, [k for k in x if k not in y] + [k for k in y if k not in x]
            )
            return self.new_dict(keys, [NONE] * len(keys), set)
        raise PythonError(TypeError(f"unsupported operand type(s) for {symbol}"))

    def type_name(self, value: Value) -> str:
        value = self.settle(value)
        if isinstance(value, Const):
            return type(value.value).__name__
        if isinstance(value, Number):
            return value.kind
        if isinstance(value, (Tuple, Sequence)):
            return value.cls.__name__
        if isinstance(value, Reference):
            return str(getattr(value.object.cls, "__name__", value.object.cls))
        if isinstance(value, Array):
            return "Tensor" if value.library == "torch" else "ndarray"
        return type(value).__name__.lower()

    # ---- Lists and tuples ----

    def is_list(self, value: Value) -> bool:
        return isinstance(value, (Tuple, Sequence, Iteration)) or (isinstance(value, Reference) and value.object.cls is list)

    def items_value(self, value: Value) -> Value:
        """Return the contents of a list or tuple: Tuple or Sequence."""
        value = self.settle(value)
        if isinstance(value, Reference):
            return self.contents(value) if value.object.cls is list else self.contents_of(value)
        if isinstance(value, Const) and isinstance(value.value, (tuple, range, str, list)):
            return Tuple(tuple(self.wrap(item) for item in value.value), list)
        if isinstance(value, Choice):
            return self.each(value, self.items_value)
        return value

    def list_binary(self, symbol: str, a: Value, b: Value) -> Value:
        is_list = isinstance(a, Reference) or isinstance(b, Reference)
        if symbol == "+":
            if self.is_list(a) and self.is_list(b) and isinstance(a, Reference) == isinstance(b, Reference):
                made = self.concatenated(self.items_value(a), self.items_value(b))
                return self.new_list(made) if is_list else self.as_tuple(made)
            if isinstance(b, Const) and isinstance(b.value, tuple) or isinstance(a, Const) and isinstance(a.value, tuple):
                if not is_list:
                    return self.as_tuple(self.concatenated(self.items_value(a), self.items_value(b)))
        elif symbol == "*":
            many, count = (a, b) if self.is_list(a) else (b, a)
            if self.kind_of(count) in ("int", "bool"):
                return self.repeated(many, count, is_list)
        return self.object_binary(symbol, a, b)

    def as_tuple(self, contents: Value) -> Value:
        if isinstance(contents, Tuple):
            return Tuple(contents.items)
        assert isinstance(contents, Sequence)
        return Sequence(contents.parts, contents.item, tuple)

    def repeated(self, value: Value, count: Value, is_list: bool) -> Value:
        contents = self.items_value(value)
        if isinstance(count, Const) and self.kind_of(count) not in ("int", "bool"):
            raise PythonError(TypeError(f"can't multiply sequence by non-int of type '{self.type_name(count)}'"))
        if isinstance(count, Const) and isinstance(contents, Tuple):
            if len(contents.items) * count.value > MOST_ITEMS:
                self.refuse(f"a list of more than {MOST_ITEMS} items cannot be compiled", "Use an array")
            items = contents.items * count.value
            return self.new_list(items) if is_list else Tuple(items)
        frame = self.new_object("frame")
        self.heap.write(frame.object, "made", Tuple((), list))
        trips = self.number_value(count, "i64")

        def go(index: GraphValue) -> GraphValue:
            made = self.heap.read(frame.object, "made")
            assert made is not None
            self.heap.write(frame.object, "made", self.concatenated(made, contents))
            return self.constant(True)

        self.run_items(trips, go)
        made = self.heap.read(frame.object, "made")
        assert made is not None
        return self.new_list(made) if is_list else self.as_tuple(made)

    def concatenated(self, a: Value, b: Value) -> Value:
        """Join the contents of two lists."""
        if isinstance(a, Tuple) and isinstance(b, Tuple):
            return Tuple(a.items + b.items, list)
        if isinstance(a, Tuple) and not a.items and isinstance(b, Sequence):
            return Sequence(b.parts, b.item)
        if isinstance(b, Tuple) and not b.items:
            return a
        x = self.as_sequence(a)
        y = self.as_sequence(b)
        template = self.widener(None).join_items(SequenceOf(x.item, list), SequenceOf(y.item, list))
        if not isinstance(template, SequenceOf):
            self.refuse("the items of these lists have nothing in common, so that a list of run-time length cannot have them")
        p = self.sequence_parts(x, template, self.heap.serial)
        q = self.sequence_parts(y, template, self.heap.serial)
        return Sequence(tuple(self.op("SequenceExtend", i, j) for i, j in zip(p, q)), template.item)

    def as_sequence(self, contents: Value, what: str = "list") -> Sequence:
        """Return the contents of a list as sequences of run-time length."""
        if isinstance(contents, Sequence):
            return Sequence(contents.parts, contents.item)
        if not isinstance(contents, Tuple):
            self.refuse(f"a list is needed, not {self.describe(contents)}")
        self.outer_graph = self.graph
        widener = self.widener(None)
        template = widener.join_items(
            TupleOf(tuple(self.item_template(item) for item in contents.items), list),
            SequenceOf(self.item_template(contents.items[0]), list) if contents.items else TupleOf((), list),
        )
        if not isinstance(template, SequenceOf):
            self.refuse(f"the items of this {what} have nothing in common, so that the program cannot choose one of them")
        return Sequence(tuple(self.sequence_parts(Tuple(contents.items, list), template, self.heap.serial)), template.item)

    def item_template(self, value: Value) -> Any:
        """Return the template of an item of a list, in which nothing is fixed but texts and None."""
        from .templates import ArrayOf, NumberOf, Same

        kind = self.kind_of(value)
        if kind:
            return NumberOf(kind)
        if isinstance(value, Array):
            return ArrayOf(self.array_type(value), value.library)
        if isinstance(value, Tuple):
            return TupleOf(tuple(map(self.item_template, value.items)), value.cls)
        if isinstance(value, Choice):
            return self.widener(None).widen(self.item_template(value.yes), self.item_template(value.no))
        if isinstance(value, Reference):
            self.refuse("a list of run-time length cannot have lists or objects as items", "Use tuples or arrays")
        return Same(value)

    @narrowing
    def length(self, value: Value) -> Value:
        """Return len()."""
        value = self.settle(value)
        if isinstance(value, Choice):
            return self.each(value, self.length)
        if isinstance(value, Tuple):
            return Const(len(value.items))
        if isinstance(value, Sequence):
            return self.number(self.op("SequenceLength", value.parts[0]), "int")
        if isinstance(value, Const):
            try:
                return Const(len(value.value))
            except TypeError as error:
                raise PythonError(error) from None
        if isinstance(value, Array):
            at = self.read_array(value)
            if at.type.dims == ():
                raise PythonError(TypeError("len() of a 0-d tensor"))
            return self.dimension(at, 0)
        if isinstance(value, Iteration) and value.renew is not None:
            value = value.renew()
        if isinstance(value, Iteration) and value.length is not None:
            return value.length
        if isinstance(value, Reference):
            if value.object.cls is list:
                return self.length(self.contents(value))
            if value.object.cls in (dict, set):
                return Const(len(self.entries(value).keys))
            method = self.find_method(value, "__len__")
            if method is not None:
                return self.call(method, [], {})
        self.usable(value)
        raise PythonError(TypeError(f"object of type '{self.type_name(value)}' has no len()"))

    def dimension(self, at: GraphValue, axis: int) -> Value:
        """Return a dimension of a tensor as a number."""
        dims = at.type.dims
        if dims is not None:
            if axis < 0:
                axis += len(dims)
            if not 0 <= axis < len(dims):
                raise PythonError(IndexError("Dimension out of range"))
            if isinstance(dims[axis], int):
                return Const(dims[axis])
        shape = self.op("Shape", at, start=axis, end=axis + 1)
        return self.number(self.op("Squeeze", shape, self.ints([0])), "int")

    # ---- Comparison ----

    @narrowing
    def compare(self, symbol: str, a: Value, b: Value) -> Value:
        """Return the result of ==, !=, <, <=, > or >=."""
        a, b = self.settle(a), self.settle(b)
        if isinstance(a, Choice):
            return self.each(a, lambda v: self.compare(symbol, v, b))
        if isinstance(b, Choice):
            return self.each(b, lambda v: self.compare(symbol, a, v))
        self.usable(a)
        self.usable(b)
        if isinstance(a, Const) and isinstance(b, Const):
            try:
                return self.wrap(COMPARE[symbol](a.value, b.value))
            except TypeError as error:
                raise PythonError(error) from None
        if isinstance(a, Array) or isinstance(b, Array):
            other = b if isinstance(a, Array) else a
            if isinstance(other, (Array, Number)) or self.kind_of(other) or isinstance(other, (Tuple, Reference)):
                return self.array_compare(symbol, a, b)
            return Const(symbol == "!=") if symbol in ("==", "!=") else self._no_order(symbol, a, b)
        if self.kind_of(a) and self.kind_of(b):
            return self.number_compare(symbol, a, b)
        if self.is_list(a) and self.is_list(b) and isinstance(a, Reference) == isinstance(b, Reference):
            return self.list_compare(symbol, a, b)
        for one, other, used in ((a, b, symbol), (b, a, {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(symbol, symbol))):
            if isinstance(one, Reference) and one.object.cls not in (list, dict, set):
                method = self.find_method(one, f"__{DUNDER[used]}__")
                result = self.implemented(self.call(method, [other], {})) if method is not None else None
                if result is not None:
                    return result
                if used == "!=":
                    method = self.find_method(one, "__eq__")
                    result = self.implemented(self.call(method, [other], {})) if method is not None else None
                    if result is not None:
                        return self.number(self.negation(self.truth_of(result)), "bool")
        if symbol in ("==", "!="):
            if isinstance(a, Reference) and isinstance(b, Reference) and a.object.cls is b.object.cls and a.object.cls in (dict, set):
                equal = self.entries_equal(self.entries(a), self.entries(b))
            else:
                equal = Const(same_value(a, b))
            return equal if symbol == "==" else self.number(self.negation(self.truth_of(equal)), "bool")
        return self._no_order(symbol, a, b)

    def entries_equal(self, a: Entries, b: Entries) -> Value:
        x, y = dict(zip(a.keys, a.values)), dict(zip(b.keys, b.values))
        if set(x) != set(y):
            return FALSE
        return self.all_of([self.compare("==", x[key], y[key]) for key in x])

    def all_of(self, tests: list[Value]) -> Value:
        """Return whether all tests are true."""
        return self._joined(tests, "And", neutral=True)

    def any_of(self, tests: list[Value]) -> Value:
        """Return whether a test is true."""
        return self._joined(tests, "Or", neutral=False)

    def _joined(self, tests: list[Value], op: str, *, neutral: bool) -> Value:
        """Join tests. One that is known to be the other value than `neutral` decides."""
        result = self.constant(neutral)
        for test in tests:
            at = self.truth_of(test)
            known = self.truth(at)
            if known is (not neutral):
                return FALSE if neutral else TRUE
            if known is None:
                result = at if result.array is not None else self.op(op, result, at)
        return self.number(result, "bool")

    def _no_order(self, symbol: str, a: Value, b: Value) -> Value:
        raise PythonError(
            TypeError(f"'{symbol}' not supported between instances of {self.type_name(a)!r} and {self.type_name(b)!r}")
        )

    def number_compare(self, symbol: str, a: Value, b: Value) -> Value:
        kind = max(self.kind_of(a), self.kind_of(b), key=RANK.__getitem__)
        if kind == "bool" and symbol in _ORDER:
            kind = "int"
        x, y = self.number_value(a, NUMBER_DTYPES[kind]), self.number_value(b, NUMBER_DTYPES[kind])
        if symbol in ("==", "!="):
            equal = self.op("Equal", x, y)
            return self.number(equal if symbol == "==" else self.negation(equal), "bool")
        return self.number(self.op(_ORDER[symbol], x, y), "bool")

    def list_compare(self, symbol: str, a: Value, b: Value) -> Value:
        x, y = self.items_value(a), self.items_value(b)
        if not isinstance(x, Tuple) or not isinstance(y, Tuple):
            return self.sequence_compare(symbol, x, y)
        if symbol in ("==", "!="):
            equal: Value = FALSE
            if len(x.items) == len(y.items):
                equal = self.all_of([self.compare("==", i, j) for i, j in zip(x.items, y.items)])
            return equal if symbol == "==" else self.number(self.negation(self.truth_of(equal)), "bool")
        result: Value = self.wrap(COMPARE[symbol](len(x.items), len(y.items)))
        for i, j in reversed(list(zip(x.items, y.items))):
            rest = result
            result = self.branch(
                self.truth_of(self.compare("==", i, j)), lambda r=rest: r, lambda i=i, j=j: self.compare(symbol, i, j)  # type: ignore[misc]
            )
        return result

    def sequence_compare(self, symbol: str, a: Value, b: Value) -> Value:
        if symbol not in ("==", "!="):
            self.refuse("lists of run-time length can be compared for equality only")
        x, y = self.as_sequence(a), self.as_sequence(b)
        frame = self.new_object("frame")

        def items() -> Value:
            self.heap.write(frame.object, "equal", TRUE)

            def go(index: GraphValue) -> GraphValue:
                equal = self.compare("==", self.sequence_item(x, index), self.sequence_item(y, index))
                self.heap.write(frame.object, "equal", equal)
                return self.truth_of(equal)

            self.run_items(self.op("SequenceLength", x.parts[0]), go)
            return self.heap.read(frame.object, "equal") or FALSE

        same_length = self.truth_of(self.compare("==", self.length(x), self.length(y)))
        result = self.branch(same_length, items, lambda: FALSE)
        return result if symbol == "==" else self.number(self.negation(self.truth_of(result)), "bool")

    def identical(self, a: Value, b: Value) -> Value:
        """Return `a is b`."""
        a, b = self.settle(a), self.settle(b)
        if isinstance(a, Choice):
            return self.each(a, lambda v: self.identical(v, b))
        if isinstance(b, Choice):
            return self.each(b, lambda v: self.identical(a, v))
        self.usable(a)
        self.usable(b)
        if self.kind_of(a) == "bool" and self.kind_of(b) == "bool":
            return self.number_compare("==", a, b) if not (isinstance(a, Const) and isinstance(b, Const)) else Const(a.value is b.value)
        if self.kind_of(a) and self.kind_of(b) and (isinstance(a, Number) or isinstance(b, Number)):
            self.refuse("'is' of two run-time numbers has no meaning in a graph", "Use ==")
        if isinstance(a, Const) and isinstance(b, Const):
            return Const(a.value is b.value or (type(a.value) is type(b.value) and isinstance(a.value, (int, str)) and a.value == b.value))
        return Const(same_value(a, b))

    @narrowing
    def contains(self, item: Value, container: Value) -> Value:
        """Return `item in container`."""
        item, container = self.settle(item), self.settle(container)
        if isinstance(container, Choice):
            return self.each(container, lambda v: self.contains(item, v))
        if isinstance(container, Const):
            if isinstance(item, Const):
                try:
                    return Const(item.value in container.value)
                except TypeError as error:
                    raise PythonError(error) from None
            if isinstance(container.value, range) and container.value.step == 1 and self.kind_of(item) in ("int", "bool"):
                low = self.compare(">=", item, Const(container.value.start))
                return self.all_of([low, self.compare("<", item, Const(container.value.stop))])
            container = self.items_value(container)
        if isinstance(container, Iteration) and container.once is not None and container.length is not None:
            # Items after the one that is found are not computed.
            source = self.iterate(container)
            equal = lambda index: self.compare("==", item, source.item(index))  # noqa: E731
            return self.first_with(Iteration(source.length, equal, source.unroll, source.step), True)
        if isinstance(container, Reference) and container.object.cls in (dict, set):
            if isinstance(item, Choice):
                return self.each(item, lambda v: self.contains(v, container))
            entries = self.entries(container)
            if self.kind_of(item) and not isinstance(item, Const):
                return self.any_of([self.compare("==", item, Const(k)) for k in entries.keys if isinstance(k, (int, float))])
            return Const(self.key_of(item) in entries.keys)
        if isinstance(container, Array):
            return self.number(self.any_true(self.flat_bools(self.compare("==", container, item))), "bool")
        if isinstance(container, Iteration):
            container = self.new_list(self.contents_of(container))
        if self.is_list(container):
            contents = self.items_value(container)
            if isinstance(contents, Sequence):
                return self.in_sequence(item, contents)
            assert isinstance(contents, Tuple)
            tests = []
            for one in contents.items:
                tests.append(self.compare("==", item, one))
            return self.any_of(tests)
        if isinstance(container, Reference):
            method = self.find_method(container, "__contains__")
            if method is not None:
                return self.number(self.truth_of(self.call(method, [item], {})), "bool")
        self.usable(container)
        raise PythonError(TypeError(f"argument of type '{self.type_name(container)}' is not iterable"))

    def any_true(self, at: GraphValue, axes: GraphValue | None = None, keepdims: int = 0) -> GraphValue:
        """Return whether a bool is true anywhere; of no elements, none is."""
        operands = [self.cast(self.op("Not", at), "i32")] + ([axes] if axes is not None else [])
        return self.op("Not", self.cast(self.op("ReduceMin", *operands, keepdims=keepdims), "bool"))  # type: ignore[no-any-return]

    def flat_bools(self, value: Value) -> GraphValue:
        assert isinstance(value, Array)
        return self.cast(self.read_array(value), "bool")

    def in_sequence(self, item: Value, contents: Sequence) -> Value:
        frame = self.new_object("frame")
        self.heap.write(frame.object, "found", FALSE)

        def go(index: GraphValue) -> GraphValue:
            found = self.compare("==", item, self.sequence_item(contents, index))
            at = self.truth_of(found)
            self.heap.write(frame.object, "found", self.number(at, "bool"))
            return self.negation(at)

        self.run_items(self.op("SequenceLength", contents.parts[0]), go)
        return self.heap.read(frame.object, "found") or FALSE

    def key_of(self, value: Value) -> Any:
        """Return the key of a dict for a value: a Python value, or an object."""
        value = self.settle(value)
        if isinstance(value, Reference):
            if value.object.cls in (list, dict, set):
                raise PythonError(TypeError(f"unhashable type: '{value.object.cls.__name__}'"))
            return value.object.live if value.object.live is not None else value.object
        if isinstance(value, Tuple):
            return tuple(self.key_of(item) for item in value.items)
        if isinstance(value, LocalClass):
            return value
        key = self.constant_of(value, "key")
        try:
            hash(key)
        except TypeError as error:
            raise PythonError(error) from None
        return key

    # ---- Unary operators ----

    def unary(self, symbol: str, value: Value) -> Value:
        value = self.settle(value)
        if symbol == "not":
            return self.number(self.negation(self.truth_of(value)), "bool")
        if isinstance(value, Choice):
            return self.each(value, lambda v: self.unary(symbol, v))
        self.usable(value)
        if isinstance(value, Const):
            try:
                return self.wrap(UNARY[symbol](value.value))
            except TypeError as error:
                raise PythonError(error) from None
        if isinstance(value, Number):
            kind = "int" if value.kind == "bool" else value.kind
            at = self.cast(value.at, NUMBER_DTYPES[kind])
            if symbol == "+":
                return self.number(at, kind)
            if symbol == "~":
                return self.number(self.op("Sub", self.op("Neg", at), self.constant(1, "i64")), "int")
            return self.number(self.op("Neg", at), kind)
        if isinstance(value, Array):
            at = self.read_array(value)
            if symbol == "+":
                return value if value.library == "torch" else self.array(at, value.library)
            if symbol == "~":
                return self.array(self.op("Not" if at.type.dtype == "bool" else "BitwiseNot", at), value.library)
            return self.array(self.op("Neg", at), value.library)
        method = self.find_method(value, {"-": "__neg__", "+": "__pos__", "~": "__invert__"}[symbol])
        if method is not None:
            return self.call(method, [], {})
        raise PythonError(TypeError(f"bad operand type for unary {symbol}: '{self.type_name(value)}'"))


__all__ = ["Operators", "CATEGORY", "Either", "Function", "Method", "emit", "leaf_types"]

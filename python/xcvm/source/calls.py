"""Live objects, attributes, and calls: binding of arguments, inlining of functions with source, rows of the tables."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from . import emit
from .core import BREAK, CONTINUE, NONE, NORMAL, RAISE, RETURN, narrowing
from .errors import NeedsConstant, PythonError, Refusal, nearest
from .graph import GraphValue, Type
from .heap import DICT, ITEMS, KIND, RESULT, YIELDED
from .operators import Operators
from .read import definition_of, is_generator, local_names
from .tables import Tables
from .values import (
    UNDEFINED,
    Array,
    Choice,
    Const,
    Function,
    Iteration,
    LocalClass,
    Method,
    NativeMethod,
    Number,
    Object,
    Partial,
    Poison,
    Reference,
    Scope,
    Sequence,
    Slice,
    Storage,
    Super,
    Text,
    Tuple,
    Value,
)

_PLAIN = (
    type(None), bool, int, float, complex, str, bytes, type, types.ModuleType, types.BuiltinFunctionType, type(Ellipsis), range, slice,
    frozenset, type(NotImplemented),
)  # fmt: skip


# Functions without effects whose results branches cannot join.
ITERATIONS = (range, enumerate, zip, reversed, iter)


def library_of(value: Any) -> str:
    """Return "torch", "numpy" or "chainer" for an array of that library, "" for anything else."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return "torch"
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return "numpy"
    cls = type(value)
    if cls.__name__ in ("Variable", "Parameter") and cls.__module__.split(".")[0] == "chainer":
        return "chainer"
    return ""


def numpy_array(value: Any, library: str) -> Any:
    """Return the elements of a live array. Refuses those that a program cannot have."""
    import numpy

    if library == "torch":
        if value.is_sparse or value.is_quantized:
            raise Refusal("a sparse or quantized tensor cannot be part of a program", "Use .to_dense() or .dequantize()")
        if value.device.type != "cpu":
            raise Refusal(f"a tensor is on the device '{value.device}'", "Move the module and the tensors to the CPU first")
        if value.dtype is sys.modules["torch"].bfloat16:
            raise Refusal("a bfloat16 tensor cannot be read", "Use .float()")
        return numpy.asarray(value.detach().numpy())
    if library == "chainer":
        return numpy.asarray(value.array)
    return value


def check_partial(value: Any, within: tuple[int, ...] = ()) -> None:
    """Refuse a functools.partial that contains itself; __setstate__ can make one."""
    if isinstance(value, (functools.partial, tuple)):
        if id(value) in within:
            raise Refusal("a functools.partial contains itself")
        parts = value if isinstance(value, tuple) else (value.func, *value.args, *value.keywords.values())
        for part in parts:
            check_partial(part, (*within, id(value)))


class Calls(Operators):
    """Attributes and calls."""

    tables: Tables

    # Provided by the statements and expressions.
    def run_body(self, node: ast.FunctionDef | ast.Lambda) -> None:
        raise NotImplementedError

    def iterate(self, value: Value) -> Iteration:
        raise NotImplementedError

    def iterator_over(self, contents: Value) -> Iteration:
        """Return an iterator over a list of its own."""
        raise NotImplementedError

    def items_of(self, value: Value) -> tuple[Value, ...]:
        """Return the items of an iterable of known length."""
        raise NotImplementedError

    # ---- Live objects ----

    def wrap(self, value: Any) -> Value:
        if isinstance(value, Value):
            return value
        if isinstance(value, _PLAIN):
            return Const(value)
        library = library_of(value)
        if library:
            return self.wrap_array(value, library)
        if isinstance(value, types.FunctionType):
            return Const(value)
        if isinstance(value, types.MethodType):
            return Method(self.wrap(value.__self__), self.wrap(value.__func__))
        if isinstance(value, functools.partial):
            check_partial(value)
            keywords = {name: self.wrap(item) for name, item in value.keywords.items()}
            return Partial(self.wrap(value.func), tuple(map(self.wrap, value.args)), keywords)
        if isinstance(value, tuple):
            if all(isinstance(item, (int, float, str, type(None))) for item in value) and type(value) is tuple:
                return Tuple(tuple(map(Const, value)))
            return Tuple(tuple(map(self.wrap, value)), self.tuple_class(value))
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.generic):
            return self.array(self.constant(numpy.asarray(value)), "numpy")
        if self.is_opaque(value):
            return Const(value)
        found = self.live_objects.get(id(value))
        if found is None:
            # Live objects are older than any round of a loop in which they are first seen.
            made = Object(0, type(value) if type(value) not in (list, dict, set) else type(value), value)
            if isinstance(value, dict) and type(value) is not dict:
                made.cls = dict
            self.live_objects[id(value)] = found = (value, made)
        return Reference(found[1])

    @staticmethod
    def tuple_class(value: Any) -> Any:
        """Return the class of a live tuple; torch.Size is a tuple like others."""
        return tuple if type(value).__module__ == "torch" else type(value)

    def is_opaque(self, value: Any) -> bool:
        """Tell whether a live object is a constant without state that matters: dtypes, devices, exceptions, and the like."""
        cls = type(value)
        if isinstance(value, (list, dict, set)):
            return False
        module = cls.__module__.split(".")[0]
        if isinstance(value, (BaseException, functools.partial, property, types.MethodWrapperType, types.WrapperDescriptorType)):
            return True
        if module == "numpy":
            return True
        if module == "torch" and not hasattr(value, "_modules"):
            return not hasattr(value, "__dict__") or cls.__name__ in ("dtype", "device", "Size", "finfo", "iinfo", "OpOverloadPacket")
        return module in ("logging", "builtins", "enum", "re", "itertools", "operator") or isinstance(value, self._enum())

    @staticmethod
    def _enum() -> type:
        import enum

        return enum.Enum

    def wrap_array(self, value: Any, library: str) -> Array:
        found = self.live_storages.get(id(value))
        if found is None:
            array = numpy_array(value, library)
            name = self.parameter_names.get(id(value), "")
            if name:
                # Parameters of equal elements are not one value: each has its gradient.
                at = GraphValue(Type(emit.dtype_of(array.dtype), tuple(array.shape)), None, name=name, array=array)
            else:
                at = self.constant(array)
            storage = Storage(0, at, value)
            self.live_storages[id(value)] = found = (value, storage)
        return Array(found[1], library)

    def new_cell_object(self, cell: Any) -> Object:
        found = self.live_objects.get(id(cell))
        if found is None:
            self.live_objects[id(cell)] = found = (cell, Object(0, "cell", cell))
        return found[1]

    # ---- Attributes ----

    def attribute(self, value: Value, name: str) -> Value:
        """Return an attribute. Raises the interpreted program's AttributeError if there is none."""
        found = self.find_attribute(value, name)
        if found is not None:
            return found
        value = self.settle(value)
        hint = nearest(name, self.attribute_names(value))
        if isinstance(value, Array):
            raise Refusal(f"'{name}' of a {'torch tensor' if value.library == 'torch' else value.library + ' array'} is not supported", hint)
        text = f"'{self.type_name(value)}' object has no attribute '{name}'"
        if isinstance(value, Const) and isinstance(value.value, types.ModuleType):
            text = f"module '{value.value.__name__}' has no attribute '{name}'"
            if not self.trying:
                # The program would raise here, but the walk goes on and finds other problems.
                raise Refusal(text, hint)
        raise PythonError(AttributeError(text + (f". {hint}" if hint else "")))

    def attribute_names(self, value: Value) -> list[str]:
        if isinstance(value, Array):
            return sorted({*self.tables.methods.get(value.library, {}), *self.tables.attributes.get(value.library, {})})
        if isinstance(value, Const):
            return dir(value.value)
        if isinstance(value, Reference):
            names = [key for key in value.object.keys if isinstance(key, str)]
            return names + (dir(value.object.live) if value.object.live is not None else [])
        return []

    def find_attribute(self, value: Value, name: str) -> Value | None:
        value = self.settle(value)
        self.usable(value)
        if isinstance(value, Choice):
            return self.each(value, lambda v: self.attribute(v, name))
        if isinstance(value, Array):
            row = self.tables.attributes.get(value.library, {}).get(name)
            if row is not None:
                return row(self, value)
            return NativeMethod(value, name) if name in self.tables.methods.get(value.library, {}) else None
        if isinstance(value, Reference):
            return self.object_attribute(value, name)
        if isinstance(value, Super):
            return self.super_attribute(value, name)
        if isinstance(value, Const):
            return self.constant_attribute(value, name)
        if isinstance(value, (Tuple, Sequence)):
            fields = getattr(value.cls, "_fields", ())
            if isinstance(value, Tuple) and name in fields:
                return value.items[fields.index(name)]
            return NativeMethod(value, name) if hasattr(value.cls, name) else None
        if isinstance(value, Number):
            kind = {"int": int, "float": float, "bool": bool}[value.kind]
            return NativeMethod(value, name) if hasattr(kind, name) else None
        if isinstance(value, Function):
            return {"__name__": Const(value.name), "__doc__": NONE}.get(name)
        if isinstance(value, LocalClass):
            return value.members.get(name) or self.inherited(value, name)
        if isinstance(value, Method) and name == "__self__":
            return value.owner
        if isinstance(value, (Iteration, Slice)):
            return {"start": value.start, "stop": value.stop, "step": value.step}.get(name) if isinstance(value, Slice) else None
        return None

    def inherited(self, cls: LocalClass, name: str) -> Value | None:
        for base in cls.bases:
            found = self.find_attribute(base if isinstance(base, Value) else Const(base), name)
            if found is not None:
                return found
        return None

    def constant_attribute(self, value: Const, name: str) -> Value | None:
        owner = value.value
        row = self.tables.constants.get((id(owner), name))
        if row is not None:
            return row(self)
        if isinstance(owner, (str, bytes, range, frozenset, int, float, slice)) and not isinstance(owner, type):
            found = inspect.getattr_static(type(owner), name, None)
            if found is None and not hasattr(owner, name):
                return None
            if callable(getattr(owner, name)):
                return NativeMethod(value, name)
            return self.wrap(getattr(owner, name))
        try:
            if isinstance(owner, type):
                static = inspect.getattr_static(owner, name)
                if isinstance(static, property):
                    return Const(static)
            return self.wrap(getattr(owner, name))
        except AttributeError:
            return None

    def object_attribute(self, value: Reference, name: str) -> Value | None:
        """Return an attribute of an instance, in Python's order: data descriptors, own attributes, those of its class."""
        cls = value.object.cls
        if cls in (list, dict, set) or not (isinstance(cls, (type, LocalClass))):
            return NativeMethod(value, name) if isinstance(cls, type) and hasattr(cls, name) else None
        static = self.class_attribute(cls, name)
        if isinstance(static, property):
            if static.fget is None:
                raise PythonError(AttributeError(f"unreadable attribute '{name}'"))
            return self.call(self.wrap(static.fget), [value], {})
        if name == "__class__":
            return Const(cls) if isinstance(cls, type) else cls
        written = self.heap.read(value.object, name)
        if written is not None:
            if written is UNDEFINED:
                return None
            written = self.settle(written)
            if isinstance(written, Choice) and (written.yes is UNDEFINED or written.no is UNDEFINED):
                return self.defined_or_raise(written, AttributeError(f"'{self.type_name(value)}' object has no attribute '{name}'"))
            self.usable(written)
            return written
        live = value.object.live
        if live is not None and name == "__dict__":
            return self.wrap(vars(live))
        if live is not None and (name in getattr(live, "__dict__", {}) or (static is None and not self.user_getattr(cls))):
            try:
                return self.live_read(value.object, name, self.wrap(getattr(live, name)))
            except AttributeError:
                return None
        if static is not None:
            return self.bind(static, value, cls)
        hook = self.class_attribute(cls, "__getattr__")
        if isinstance(hook, types.FunctionType):
            return self.call(Method(value, self.wrap(hook)), [Const(name)], {})
        return None

    def user_getattr(self, cls: Any) -> bool:
        hook = self.class_attribute(cls, "__getattr__")
        return isinstance(hook, types.FunctionType) and hook.__module__.split(".")[0] not in ("torch", "chainer")

    def defined_or_raise(self, value: Choice, error: Exception) -> Value:
        """Return what a name was assigned; on paths where it was not, the program raises."""

        def check(one: Value) -> Value:
            if one is UNDEFINED:
                raise PythonError(error)
            return one

        return self.each(value, check)

    def class_attribute(self, cls: Any, name: str) -> Any:
        """Return what a class defines under a name, unbound, or None."""
        if isinstance(cls, LocalClass):
            if name in cls.members:
                return cls.members[name]
            for base in cls.bases:
                found = self.class_attribute(base.value if isinstance(base, Const) else base, name)
                if found is not None:
                    return found
            return None
        if not isinstance(cls, type):
            return None
        for base in cls.__mro__:
            if name in base.__dict__ and base is not object:
                return base.__dict__[name]
        return None

    def bind(self, static: Any, value: Value, cls: Any) -> Value:
        """Return an attribute of a class as an instance has it."""
        if isinstance(static, Function):
            return Method(value, static)
        if isinstance(static, Value):
            return static
        if isinstance(static, (types.FunctionType, types.BuiltinFunctionType)):
            return Method(value, self.wrap(static)) if isinstance(static, types.FunctionType) else Const(static)
        if isinstance(static, staticmethod):
            return self.wrap(static.__func__)
        if isinstance(static, classmethod):
            return Method(Const(cls) if isinstance(cls, type) else cls, self.wrap(static.__func__))
        if isinstance(static, functools.cached_property):
            return self.call(self.wrap(static.func), [value], {})
        if isinstance(static, types.MemberDescriptorType):
            live = value.object.live if isinstance(value, Reference) else None
            return self.wrap(getattr(live, static.__name__)) if live is not None else UNDEFINED
        if hasattr(static, "__get__") and not isinstance(static, type) and not callable(static):
            self.refuse(f"a descriptor of class {type(static).__name__} is not supported")
        return self.wrap(static)

    def super_attribute(self, value: Super, name: str) -> Value | None:
        owner = value.owner
        if isinstance(value.cls, LocalClass):
            for base in value.cls.bases:
                found = self.class_attribute(base.value if isinstance(base, Const) else base, name)
                if found is not None:
                    return self.bind(found, owner, value.cls)
            return Const(object.__init__) if name == "__init__" else None
        cls = owner.object.cls if isinstance(owner, Reference) else owner.value if isinstance(owner, Const) else None
        mro: tuple[Any, ...] = cls.__mro__ if isinstance(cls, type) else value.cls.__mro__
        if isinstance(cls, LocalClass):
            mro = (cls, *value.cls.__mro__)
        for base in mro[mro.index(value.cls) + 1 :]:
            if name in base.__dict__:
                static = base.__dict__[name]
                if isinstance(static, property):
                    return self.call(self.wrap(static.fget), [owner], {})
                if base is object:
                    return NativeMethod(owner, "object." + name)
                return self.bind(static, owner, cls)
        return None

    def find_method(self, value: Value, name: str) -> Value | None:
        """Return a special method of an instance's class, bound, or None."""
        value = self.settle(value)
        if not isinstance(value, Reference) or value.object.cls in (list, dict, set):
            return None
        static = self.class_attribute(value.object.cls, name)
        return None if static is None else self.bind(static, value, value.object.cls)

    def set_attribute(self, value: Value, name: str, new: Value) -> None:
        value = self.settle(value)
        self.usable(value)
        if isinstance(value, Choice):
            choice = value
            self.each(choice, lambda v: (self.set_attribute(v, name, new), NONE)[1])
            return
        if not isinstance(value, Reference) or value.object.cls in (list, dict, set):
            if isinstance(value, Array):
                row = self.tables.methods.get(value.library, {}).get("set_" + name)
                if row is not None:
                    row(self, value, new)
                    return
            self.refuse(f"the attribute '{name}' of {self.describe(value)} cannot be set")
        static = self.class_attribute(value.object.cls, name)
        if isinstance(static, property):
            if static.fset is None:
                raise PythonError(AttributeError(f"can't set attribute '{name}'"))
            self.call(self.wrap(static.fset), [value, new], {})
            return
        hook = self.class_attribute(value.object.cls, "__setattr__")
        if isinstance(hook, types.FunctionType) and hook.__module__.split(".")[0] not in ("torch", "chainer"):
            self.call(Method(value, self.wrap(hook)), [Const(name), new], {})
            return
        self.heap.write(value.object, name, new)

    # ---- Calls ----

    def call(self, function: Value, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        """Call a value."""
        function = self.settle(function)
        self.usable(function)
        for item in (*arguments, *keywords.values()):
            if not isinstance(item, Text):
                self.usable(item)
        if isinstance(function, Choice) and not arguments and not keywords and self.is_dict_view(function):
            return self.chosen_view(function)
        pure = self.is_dict_view(function) or isinstance(function, Const) and any(function.value is one for one in ITERATIONS)
        if self.endings() != frozenset([NORMAL]) and not pure:
            # An earlier part of the statement may have raised.
            return self.split_ending(frozenset([NORMAL]), lambda: self.call(function, arguments, keywords), lambda: UNDEFINED)
        if isinstance(function, Choice):
            return self.each(function, lambda f: self.call(f, list(arguments), dict(keywords)))
        if isinstance(function, Method):
            inner = function.function
            if isinstance(inner, Const):
                row = self.tables.function(inner.value)
                if row is not None:
                    return self.call_row(row, [function.owner, *arguments], keywords)
            return self.call(inner, [function.owner, *arguments], keywords)
        if isinstance(function, Function):
            return self.inline(function, arguments, keywords)
        if isinstance(function, Partial):
            return self.call(function.function, [*function.arguments, *arguments], {**function.keywords, **keywords})
        if isinstance(function, NativeMethod):
            return self.call_native_method(function, arguments, keywords)
        if isinstance(function, Const):
            return self.call_constant(function.value, arguments, keywords)
        if isinstance(function, LocalClass):
            return self.instantiate(function, arguments, keywords)
        if isinstance(function, Reference):
            return self.call_object(function, arguments, keywords)
        raise PythonError(TypeError(f"'{self.type_name(function)}' object is not callable"))

    @narrowing
    def call_row(self, row: Callable[..., Value], arguments: list[Value], keywords: dict[str, Value], name: str = "") -> Value:
        """Call a row of a table, whose signature has the library's names and defaults."""
        bound = self.tables.bind(row, self, arguments, keywords, name)
        out = bound.arguments.get("out", NONE)
        if not (isinstance(out, Const) and out.value is None):
            self.refuse("the argument 'out' is not supported", "Assign the result")
        return row(*bound.args, **bound.kwargs)

    def call_native_method(self, method: NativeMethod, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        owner = method.owner
        if isinstance(owner, Array):
            row = self.tables.methods[owner.library].get(method.name)
        else:
            row = self.tables.method_of(self.method_class(owner), method.name)
            if row is None and isinstance(owner, Const):
                return self.call_live(getattr(owner.value, method.name), arguments, keywords)
        if method.name == "object.__init__" and not arguments and not keywords:
            return NONE
        if method.name == "object.__setattr__" and len(arguments) == 2 and isinstance(owner, Reference):
            self.heap.write(owner.object, self.constant_of(arguments[0], "name"), arguments[1])
            return NONE
        if row is None:
            raise Refusal(f"the method '{method.name}' of {self.describe(owner)} is not supported")
        return self.call_row(row, [owner, *arguments], keywords, method.name)

    def is_dict_view(self, function: Value) -> bool:
        """Tell whether a value is keys(), values() or items() of a dict, on every path."""
        if isinstance(function, Choice):
            return self.is_dict_view(function.yes) and self.is_dict_view(function.no)
        if not isinstance(function, NativeMethod) or function.name not in ("keys", "values", "items"):
            return False
        return isinstance(function.owner, Reference) and function.owner.object.cls is dict

    def chosen_view(self, function: Choice) -> Iteration:
        """Return a view of the dict that a name has on the path that was taken."""

        def length() -> Value:
            return self.each(function, lambda one: self.length(one.owner))  # type: ignore[attr-defined]

        def items() -> Iteration:
            return self.iterate(self.each(function, lambda one: self.new_list(self.items_of(self.call(one, [], {})))))

        def renew() -> Iteration:
            made = self.sized_iteration(length, items)
            made.renew = renew
            return made

        return renew()

    def sized_iteration(self, length: Callable[[], Value], items: Callable[[], Iteration]) -> Iteration:
        """Return an iteration over items that are computed in each round. Their number must not change."""
        raise NotImplementedError

    def method_class(self, owner: Value) -> Any:
        if method_owner := (owner.object.cls if isinstance(owner, Reference) else None):
            return method_owner
        if isinstance(owner, (Tuple, Sequence)):
            return tuple
        if isinstance(owner, Const):
            return type(owner.value)
        return {"int": int, "float": float, "bool": bool}[owner.kind] if isinstance(owner, Number) else object

    def call_constant(self, function: Any, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        row = self.tables.function(function)
        if row is not None:
            return self.call_row(row, arguments, keywords, self.tables.name_of(function))
        if isinstance(function, types.FunctionType):
            host = getattr(function, "__xcvm_host__", None)
            if host is not None:
                return self.tables.host_call(self, function, arguments, keywords)
            wrapped = getattr(function, "__wrapped__", None)
            if wrapped is not None and function.__code__.co_filename.endswith(("torch/autograd/grad_mode.py", "torch/utils/_contextlib.py")):
                return self.call_constant(wrapped, arguments, keywords)
            if (function.__module__ or "").split(".")[0] == "numpy":
                raise Refusal(f"'{self.tables.name_of(function)}' is not supported", self.tables.nearest(self.tables.name_of(function)))
            if is_contextmanager(function):
                self.refuse("a context manager made by @contextmanager is a generator, which is not supported", "Write a class")
            return self.inline(self.live_function(function), arguments, keywords)
        if isinstance(function, type) and id(function) not in self.tables.pure:
            if self.tables.is_module_class(function):
                return self.instantiate_live(function, arguments, keywords)
            return self.instantiate(function, arguments, keywords)
        if self.tables.is_pure(function):
            self.note_draw(function)
            return self.call_live(function, arguments, keywords)
        name = self.tables.name_of(function)
        hint = self.tables.nearest(name)
        if not callable(function):
            raise PythonError(TypeError(f"'{type(function).__name__}' object is not callable"))
        raise Refusal(f"'{name}' is not supported", hint)

    def note_draw(self, function: Any) -> None:
        """Note a call that draws random numbers, which happens once, when the program is compiled."""
        generator = self.tables.generator(function)
        if generator is None:
            return
        graph: Any = self.graph
        while graph.parent is not None:
            if graph.parameters:
                raise NeedsConstant("Python's random numbers are drawn when the program is compiled, which has no rounds of a run-time loop")
            graph = graph.parent
        self.generators.setdefault(id(generator), (generator, generator.getstate()))

    def call_live(self, function: Any, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        """Call a function of Python on constants."""
        values = [self.plain_constant(a) for a in arguments]
        named = {name: self.plain_constant(a) for name, a in keywords.items()}
        try:
            return self.wrap(function(*values, **named))
        except Refusal:
            raise
        except Exception as error:
            raise PythonError(error) from None

    def plain_constant(self, value: Value) -> Any:
        value = self.settle(value)
        if isinstance(value, Iteration):
            return [self.plain_constant(item) for item in self.items_of(value)]
        if isinstance(value, Number):
            raise NeedsConstant(f"this call needs constants, but {self.describe(value)} is a value of the run")
        return self.constant_of(value, "argument")

    def call_object(self, value: Reference, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        """Call an instance."""
        live = value.object.live
        if live is not None and hasattr(live, "_forward_hooks"):
            self.check_module(live)
            row = self.tables.module_row(type(live))
            if row is not None:
                return self.call_row(row, [value, *arguments], keywords)
            return self.call(self.attribute(value, "forward"), arguments, keywords)
        method = self.find_method(value, "__call__")
        if method is None and self.class_attribute(value.object.cls, "forward") is not None:
            method = self.attribute(value, "forward")
        if isinstance(method, Method) and isinstance(method.function, Const):
            if getattr(method.function.value, "__module__", "").split(".")[0] == "chainer":
                row = self.tables.module_row(value.object.cls)
                if row is not None:
                    return self.call_row(row, [value, *arguments], keywords)
                forward = self.find_attribute(value, "forward")
                if forward is not None:
                    return self.call(forward, arguments, keywords)
        if method is None:
            raise PythonError(TypeError(f"'{self.type_name(value)}' object is not callable"))
        return self.call(method, arguments, keywords)

    def check_module(self, module: Any) -> None:
        for kind in ("_forward_hooks", "_forward_pre_hooks"):
            if getattr(module, kind, None):
                self.refuse(f"the module {type(module).__name__} has hooks, which a program cannot call", "Remove them first")

    # ---- Inlining ----

    def live_function(self, function: types.FunctionType) -> Function:
        """Return the abstract function of a live one."""
        node = definition_of(function)
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        cls = None
        if "__class__" in cells:
            cls = cells["__class__"].cell_contents
        scope = Scope(None, frozenset(), None, function.__globals__, cells, function.__code__.co_filename, cls)
        defaults = tuple(map(self.wrap, function.__defaults__ or ()))
        keyword_defaults = {name: self.wrap(value) for name, value in (function.__kwdefaults__ or {}).items()}
        return Function(node, scope, defaults, keyword_defaults, function.__qualname__.replace("<locals>.", ""), function)

    def bind_arguments(self, function: Function, arguments: list[Value], keywords: dict[str, Value]) -> dict[str, Value]:
        """Bind arguments to parameters as Python does."""
        a = function.node.args
        positional = [*a.posonlyargs, *a.args]
        bound: dict[str, Value] = {}
        rest = list(arguments)
        left = dict(keywords)
        for argument in positional:
            if rest:
                bound[argument.arg] = rest.pop(0)
                if argument.arg in left and argument not in a.posonlyargs:
                    raise PythonError(TypeError(f"{function.name}() got multiple values for argument '{argument.arg}'"))
            elif argument.arg in left and argument not in a.posonlyargs:
                bound[argument.arg] = left.pop(argument.arg)
        first_default = len(positional) - len(function.defaults)
        missing = []
        for index, argument in enumerate(positional):
            if argument.arg not in bound:
                if index >= first_default:
                    bound[argument.arg] = function.defaults[index - first_default]
                else:
                    missing.append(argument.arg)
        for argument in a.kwonlyargs:
            if argument.arg in left:
                bound[argument.arg] = left.pop(argument.arg)
            elif argument.arg in function.keyword_defaults:
                bound[argument.arg] = function.keyword_defaults[argument.arg]
            else:
                missing.append(argument.arg)
        if missing:
            raise PythonError(TypeError(f"{function.name}() missing {len(missing)} required arguments: {', '.join(missing)}"))
        if a.vararg:
            bound[a.vararg.arg] = Tuple(tuple(rest))
        elif rest:
            raise PythonError(
                TypeError(f"{function.name}() takes {len(positional)} positional arguments but {len(arguments)} were given")
            )
        if a.kwarg:
            bound[a.kwarg.arg] = self.new_dict(tuple(left), tuple(left.values()))
        elif left:
            raise PythonError(TypeError(f"{function.name}() got an unexpected keyword argument '{next(iter(left))}'"))
        return bound

    def inline(self, function: Function, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        """Interpret the body of a function with these arguments."""
        if len(self.calls) >= self.options.depth:
            self.refuse(
                f"the recursion of '{function.name}' is deeper than {self.options.depth} calls when the program is compiled",
                "A recursion must end by values that are known when the program is compiled",
            )
        node = function.node
        bound = self.bind_arguments(function, arguments, keywords)
        saved = self.frame, self.scope, self.node
        place = self.place()
        frame = Object(self.heap.next_serial(), "frame")
        outer = function.scope
        cls = outer.cls
        self.calls.append((function.name, place))
        self.frame = frame
        self.scope = Scope(frame, local_names(node), outer, outer.globals, outer.cells, outer.file, cls)
        try:
            for name, value in bound.items():
                self.heap.write(frame, name, value)
            generator = is_generator(node)
            if generator:
                self.heap.write(frame, YIELDED, Tuple((), list))
            if generator:
                with self.without_effects("a generator", frame):
                    self.run_body(node)
            else:
                self.run_body(node)
            ending = self.ending()
            result = self.heap.read(frame, RESULT) or UNDEFINED
            if generator:
                result = self.iterator_over(self.heap.read(frame, YIELDED) or Tuple((), list))
            kinds = self.endings()
            result = self.returned(result, kinds, generator)
        finally:
            self.frame, self.scope, self.node = saved
            self.calls.pop()
        self.propagate(ending, kinds)
        return result

    def call_written(self, function: types.FunctionType, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        """Interpret a library function that is written in terms of others. Its problems are those of its call."""
        outer = self.written_from
        if outer is None:
            self.written_from = len(self.calls)
        try:
            return self.inline(self.live_function(function), arguments, keywords)
        finally:
            self.written_from = outer

    def returned(self, result: Value, kinds: frozenset[int], generator: bool) -> Value:
        if generator or kinds <= {NORMAL} or BREAK in kinds or CONTINUE in kinds:
            return result if generator else NONE
        if NORMAL in kinds and RETURN in kinds:
            return self.split_ending(frozenset([RETURN]), lambda: self.heap.read(self.frame, RESULT) or NONE, lambda: NONE)
        if NORMAL in kinds:
            return NONE
        return result

    def propagate(self, ending: Value, kinds: frozenset[int]) -> None:
        """Let exceptions of a called function end the statement of the caller."""
        raised = frozenset(kind for kind in kinds if kind >= RAISE)
        if not raised:
            return
        if raised == kinds:
            if len(raised) == 1:
                raise PythonError(self.exceptions[next(iter(raised)) - RAISE])
            self.heap.write(self.frame, KIND, ending)
            return
        assert isinstance(ending, Number)
        is_raised = self.op("GreaterOrEqual", ending.at, self.constant(RAISE, "i64"))
        at = self.op("Mul", ending.at, self.op("Cast", is_raised, to="i64"))
        self.heap.write(self.frame, KIND, Number(at, "int", raised | {NORMAL}))

    @contextmanager
    def without_effects(self, what: str, own: Object | None = None) -> Iterator[None]:
        """Refuse changes of what existed before: the block runs at once, but Python would run it in steps."""
        mark, overlay = self.heap.serial, self.heap.overlays[-1]
        before = dict(overlay)
        yield
        for (owner, key), value in overlay.items():
            if owner.serial <= mark and owner is not own and before.get((owner, key)) is not value and key not in (KIND, RESULT, "consumed"):
                self.refuse(f"{what} changes something outside of it", "Use a list")

    # ---- Instances ----

    def instantiate(self, cls: Any, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        """Create an instance of a class with Python source."""
        if isinstance(cls, type):
            if issubclass(cls, BaseException):
                texts = [self.shown(argument) for argument in arguments]
                try:
                    return Const(cls(*texts))
                except Exception as error:
                    raise PythonError(error) from None
            if issubclass(cls, tuple) and hasattr(cls, "_fields"):
                return self.named_tuple(cls, arguments, keywords)
            if cls.__module__ == "builtins" or issubclass(cls, (int, str, float, list, dict, tuple)):
                raise Refusal(f"the class '{cls.__name__}' is not supported", self.tables.nearest(cls.__name__))
            if type(cls) is not type and type(cls).__module__ != "abc":
                self.refuse(f"the class '{cls.__name__}' has a metaclass, which is not supported")
            new = self.class_attribute(cls, "__new__")
            if new is not None:
                self.refuse(f"the class '{cls.__name__}' has __new__, which is not supported")
        reference = self.new_object(cls)
        init = self.class_attribute(cls, "__init__")
        if dataclasses.is_dataclass(cls) and isinstance(cls, type) and "__init__" in cls.__dict__:
            self.init_dataclass(reference, cls, arguments, keywords)
        elif init is not None:
            self.call(self.bind(init, reference, cls), arguments, keywords)
        elif arguments or keywords:
            name = cls.name if isinstance(cls, LocalClass) else cls.__name__
            raise PythonError(TypeError(f"{name}() takes no arguments"))
        return reference

    def named_tuple(self, cls: Any, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        values = dict(zip(cls._fields, arguments))
        values.update(keywords)
        for name, default in cls._field_defaults.items():
            values.setdefault(name, self.wrap(default))
        if set(values) != set(cls._fields) or len(arguments) > len(cls._fields):
            raise PythonError(TypeError(f"{cls.__name__}() has the fields {', '.join(cls._fields)}"))
        return Tuple(tuple(values[name] for name in cls._fields), cls)

    def init_dataclass(self, reference: Reference, cls: Any, arguments: list[Value], keywords: dict[str, Value]) -> None:
        rest, left = list(arguments), dict(keywords)
        for field in dataclasses.fields(cls):
            if not field.init:
                value: Value | None = None
            elif rest and not field.kw_only:
                value = rest.pop(0)
            else:
                value = left.pop(field.name, None)
            if value is None:
                if field.default is not dataclasses.MISSING:
                    value = self.wrap(field.default)
                elif field.default_factory is not dataclasses.MISSING:
                    value = self.call(self.wrap(field.default_factory), [], {})
                elif field.init:
                    raise PythonError(TypeError(f"{cls.__name__}() misses the argument '{field.name}'"))
            if value is not None:
                self.heap.write(reference.object, field.name, value)
        if rest or left:
            raise PythonError(TypeError(f"{cls.__name__}() got too many arguments"))
        if "__post_init__" in cls.__dict__:
            self.call(self.bind(cls.__dict__["__post_init__"], reference, cls), [], {})

    def instantiate_live(self, cls: Any, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        """Create a module without parameters, such as nn.ReLU(), in the body of a function."""
        made = cls(*[self.plain_constant(a) for a in arguments], **{k: self.plain_constant(v) for k, v in keywords.items()})
        if any(True for _ in made.parameters()):
            self.refuse(f"a {cls.__name__} that is created here has new random parameters in each run", "Create it in __init__")
        return self.wrap(made)


def is_contextmanager(function: types.FunctionType) -> bool:
    return function.__code__.co_filename.endswith("contextlib.py") and hasattr(function, "__wrapped__")


__all__ = ["Calls", "DICT", "ITEMS", "Poison", "emit"]

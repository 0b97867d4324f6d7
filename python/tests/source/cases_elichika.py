"""The cases of Elichika's tests, written anew: functions, and classes in the manner of Chainer on the stand-in for it.

`CASES` has (name of the file and case, what makes the object, arguments). A name that ends with "+" is compared in gradients too.
"""

import functools
import itertools
import operator

import cases_elichika_models as models
import chainer
import chainer.functions as F
import chainer.links as L
import helper_of_cases
import numpy as np
from chainer_compiler.elichika.parser import flags
from helper_of_cases import Adder as ImportedAdder

CASES = []
RANDOM = np.random.RandomState(314)


def f32(*shape):
    return RANDOM.rand(*shape).astype(np.float32)


def case(name, *arguments):
    """Add a function, or a class whose instances are called, with the arguments of a call."""

    def add(made):
        CASES.append((name, made if isinstance(made, type) else lambda: made, arguments))
        return made

    return add


def cases(file, function, rows):
    """Add a function with arguments by name."""
    for name, arguments in rows.items():
        CASES.append((f"{file}:{name}", lambda: function, arguments))


def expressions(file, rows, *arguments):
    """Add lambdas by name, all with the same arguments."""
    for name, function in rows.items():
        CASES.append((f"{file}:{name}", lambda function=function: function, arguments))


# ---- syntax ----


def add_to_alias(x):
    y = x
    y += 3
    return x


def alias_in_branches(x, cond):
    y = x
    if cond:
        y += 3
    else:
        y += 10
    return x


def extend_alias(x, a):
    y = x
    y += a
    return x


cases("syntax/Alias", add_to_alias, {"add_int": (42,), "add_np": (np.array(42),)})
cases(
    "syntax/Alias", alias_in_branches,
    {"if_false_int": (42, False), "if_true_int": (42, True), "if_false_np": (np.array(42), False), "if_true_np": (np.array(42), True)},
)  # fmt: skip
cases("syntax/Alias", extend_alias, {"add_list": ([42], [3])})
cases("disabled/Alias", extend_alias, {"add_tuple": ((42,), (3,))})


def bool_values(x, y):
    both, either = x and y, x or y
    chain = y and x or True
    longer = y and x and False or True
    return both or either and chain or longer


def bool_conditions(x, y):
    points = 0
    if x and y:
        points += 1
    if x or y:
        points += 2
    if y and x or True:
        points += 3
    if y and x and False or True:
        points += 4
    return points, x or y


for _index, _pair in enumerate(itertools.product([True, False], repeat=2)):
    cases("syntax/BoolOp", bool_values, {f"boolop{_index}": _pair})
    cases("syntax/BoolOp", bool_conditions, {f"boolop_if{_index}": _pair})


@case("syntax/Break:break", 10, 5)
def leave(x, y):
    total = 0
    for i in range(x):
        if i == y:
            break
        total = total + i
    return total


@case("syntax/Break:break_nested", 10, 5)
def leave_nested(x, y):
    total = 0
    for i in range(x):
        if i == y - 1:
            break
        for j in range(x):
            if i == y:
                if j == y:
                    break
            total = total + j
    return total


@case("syntax/Break:break_continue_mixed", 10, 5)
def leave_and_skip(x, y):
    total = 0
    for i in range(x):
        if i == y:
            break
        if i == y - 1:
            continue
        total = total + i
    return total


for _name, _function in {
    "eq": operator.eq, "neq": operator.ne, "gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le,
}.items():  # fmt: skip
    _source = {
        "eq": lambda x, y: x == y, "neq": lambda x, y: x != y, "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y, "lt": lambda x, y: x < y,
        "le": lambda x, y: x <= y,
    }[_name]  # fmt: skip
    for _y in (5, 4, 3):
        assert _source(4, _y) == _function(4, _y)
        cases("syntax/Cmp", _source, {f"4_{_name}_{_y}": (4, _y)})
for _name, _source in {"is": lambda x, y: x is y, "isnt": lambda x, y: x is not y}.items():
    for _text, _values in {
        "None_{}_None": (None, None), "42_{}_None": (42, None), "True_{}_None": (True, None), "True_{}_False": (True, False),
        "True_{}_True": (True, True), "False_{}_False": (False, False), "True_{}_42": (True, [42]), "43_{}_43": ([43], [43]),
        "45_{}_45": (np.array(45), np.array(45)),
    }.items():  # fmt: skip
        cases("syntax/Cmp", _source, {_text.format(_name): _values})


@case("syntax/Continue:continue", 10, 5)
def skip(x, y):
    total = 0
    for i in range(x):
        if i == y:
            continue
        total = total + i
    return total


@case("syntax/Continue:continue_nested", 10, 5)
def skip_nested(x, y):
    total = 0
    for i in range(x):
        for j in range(x):
            if i == y:
                if j == y:
                    continue
            total = total + j
    return total


@case("syntax/Continue:continue_nested_multiple", 10, 5)
def skip_at_two_levels(x, y):
    total = 0
    for i in range(x):
        if i == y - 1:
            continue
        for j in range(x):
            if i == y:
                if j == y:
                    continue
            total = total + j
    return total


@case("syntax/Dict:simple_dictionary")
def dict_literals():
    by_text, by_number = {"one": 1, "two": 2}, {1: 1, 2: 2, 1.0: 3}
    return by_text["one"] * by_number[1]


@case("syntax/Dict:dictionary_subscript")
def dict_assignments():
    made, value = {}, 1
    for key in [True, 2, "Three", 2, True, 1]:
        made[key] = value
        value += 1
    return made[True] * made[2] * made["Three"]


@case("syntax/Dict:assign_by_value_ref")
def dict_of_shared_values():
    shared, number = [1], 1
    lists, numbers = {"x": shared, "y": shared}, {"x": number, "y": number}
    lists["x"].append(2)
    numbers["x"] += 1
    return lists["y"][1] * numbers["y"]


@case("syntax/Dict:dictionary_iterate_keys")
def dict_keys():
    made = {1: 1, "two": 2, 3: 3, "four": 4, True: 5}
    made["five"] = 5
    total = 0
    for key in made.keys():
        total += made[key]
    return total


@case("syntax/Dict:dictionary_iterate_values")
def dict_values():
    made = {1: 1, "two": 2, 3: 3, "four": 4, True: 5}
    made["five"] = 5
    total = 0
    for value in made.values():
        total += value
    return total


@case("disabled/Dict:dictionary_iterate_items")
def dict_items():
    total = 0
    for key, value in {"one": 1, "two": 2, "three": 3}.items():
        total += value if key != "two" else 20
    return total


@case("syntax/Dict:dictionary_nested")
def dict_in_itself():
    made = {"one": 1}
    made["two"] = made
    return made["two"]["two"]["two"]["one"]


@case("syntax/Dict:dictionary_in_constructor")
class DictOfInit(chainer.Chain):
    def __init__(self):
        super().__init__()
        self.made = {"x": 1, "y": 2}

    def forward(self):
        return self.made["x"]


@case("syntax/For:basic1")
def last_assignment():
    x = 0
    for i in range(2):
        x = i + 1
    return x


@case("syntax/For:a", f32(10), np.int64(5))
def slices_of_a_batch(xs, p):
    made = []
    for i in range(p):
        made.append(xs[:i])
    return made


@case("syntax/For:closure_bug", [f32(4, 5) for _ in range(4)], 4)
def columns_with_a_start(xs, length):
    inputs = F.pad_sequence(xs)
    h = inputs[:, 0]
    for time in range(length):
        h = inputs[:, time]
    return h


@case("syntax/For:forloop_bug", [f32(4, 5) for _ in range(4)], 4)
def columns(xs, length):
    inputs = F.pad_sequence(xs)
    for time in range(length):
        h = inputs[:, time]
    return h


@case("syntax/For:multi_ref")
def two_names():
    b = c = 0
    for i in range(4):
        c = i
        b = c
    return b, c


@case("syntax/For:leak")
def first_assigned_in_the_loop():
    for i in range(4):
        last = i
    return last


@case("syntax/For:update_self", 42)
class UpdatedAttribute(chainer.Chain):
    def forward(self, x):
        self.x = x
        for i in range(5):
            self.x += i
        return self.x


@case("disabled/For:update_self_local")
def added_in_a_loop():
    y = 0
    for i in range(5):
        y += i
    return y


@case("syntax/For:for_unroll")
class UpdatedByList(chainer.Chain):
    def forward(self):
        self.x = 42
        for i in [0, 1, 2, 3, 4]:
            self.x += i
        return self.x


@case("syntax/For:update_self_literal")
class UpdatedLiteral(chainer.Chain):
    def forward(self):
        self.x = 42
        for i in range(5):
            self.x += i
        return self.x


@case("syntax/For:update_self_literal_in_init")
class UpdatedOfInit(chainer.Chain):
    def __init__(self):
        super().__init__()
        self.x = 42

    def forward(self):
        for i in range(5):
            self.x += i
        return self.x


@case("syntax/For:for+", f32(4, 3), 2)
class LinearInLoop(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(None, 3)

    def forward(self, x, n):
        for i in range(n):
            x = self.l(x)
        return x


@case("syntax/For:double_for+", f32(4, 3), 2, 5)
class LinearInLoops(LinearInLoop):
    def forward(self, x, n, m):
        for i in range(n):
            for j in range(m):
                x = self.l(x)
        return x


@case("syntax/For:gen_bool")
def loop_makes_bool():
    for i in range(4):
        o = True
    return o


@case("syntax/For:gen_none")
def loop_makes_none():
    for i in range(4):
        o = None
    return o


@case("syntax/For:gen_tuple")
def loop_makes_tuple():
    for i in range(4):
        o = (1, 2)
    return o


@case("syntax/For:gen_list")
def loop_makes_list():
    for i in range(4):
        o = [1, 2]
    return o


@case("syntax/ForAndIf:lazy_init", 5)
def none_before_the_loop(x):
    y = None
    for i in range(x):
        if y is None:
            y = 42
        y += i
    return y


@case("syntax/ForAndIf:lazy_self_init", 5)
class NoneOfInit(chainer.Chain):
    def __init__(self):
        super().__init__()
        self.y = None

    def forward(self, x):
        for i in range(x):
            if self.y is None:
                self.y = 42
            self.y += i
        return self.y


@case("syntax/GetItem:GetItemSimple")
class ItemsOfSelf(chainer.Chain):
    def __init__(self):
        super().__init__()
        self.x = 1

    def forward(self):
        self.y = 2
        return self["x"] * self["y"]


@case("disabled/GetItem:GetItemCustom")
class CountedItems(ItemsOfSelf):
    def __getitem__(self, name):
        self.x += 1
        return getattr(self, name)


@case("syntax/GetItem:GetItemFunction")
class MethodByName(chainer.Chain):
    def same(self, n):
        return n

    def forward(self):
        self.x = 3
        return self["same"](self["x"])


@case("syntax/GetItem:GetItemGetter")
class PropertyByName(chainer.Chain):
    def __init__(self):
        super().__init__()
        self._x = 1

    @property
    def x(self):
        return self._x

    def forward(self):
        return self["x"]


@case("syntax/GetItem:StrConstantPropagation")
class FormattedNames(chainer.Chain):
    def __init__(self):
        super().__init__()
        self.x1, self.x2, self.x3 = 1, 2, 3
        self.x121hello1 = 4

    def forward(self):
        total = 0
        for i in [1, 2, 3]:
            total += self["x%d" % i]
        total += self["x%s" % "%d%s" % (121, "%s%d" % ("hello", True))]
        return total


@case("syntax/HasItem:has_item_simple")
class HasAttribute(chainer.Chain):
    def __init__(self):
        super().__init__()
        self.x = 1

    def forward(self):
        return hasattr(self, "x"), hasattr(self, "z")


@case("syntax/HasItem:has_item_property")
class HasProperty(PropertyByName):
    def forward(self):
        return hasattr(self, "x")


@case("syntax/If:duplicate_input")
def one_value_for_two():
    a = 1
    b = a
    if True:
        b = a + 1
    assert b == 2
    return a


@case("syntax/If:static_true", 42)
def known_true(x):
    if True:
        x += 3
    else:
        x += 10
    return x


@case("syntax/If:static_false", 42)
def known_false(x):
    if False:
        x += 3
    else:
        x += 10
    return x


@case("syntax/If:static_true_no_else", 42)
def known_true_alone(x):
    if True:
        x += 3
    return x


@case("syntax/If:static_false_no_else", 42)
def known_false_alone(x):
    if False:
        x += 3
    return x


def condition(x, cond):
    if cond:
        x += 3
    else:
        x += 10
    return x


def condition_alone(x, cond):
    if cond:
        x += 3
    return x


def defined_in_branches(x, cond):
    if cond:
        y = x + 3
    else:
        y = x + 10
    return y


def alias_of_condition(x, cond):
    y = x
    if cond:
        y += 3
    else:
        y += 10
    return y


for _function, _false, _true in (
    (condition, "false", "true"), (condition_alone, "false_no_else", "true_no_else"), (defined_in_branches, "leak_false", "leak_true"),
    (alias_of_condition, "alias_false", "alias_true"),
):  # fmt: skip
    cases("syntax/If", _function, {_false: (42, False), _true: (42, True)})


@case("syntax/If:update_self_true", 42, True)
@case("syntax/If:update_self_false", 42, False)
class UpdatedInBranch(chainer.Chain):
    def forward(self, x, cond):
        self.x = x
        if cond:
            self.x += 10
        return self.x


@case("syntax/If:lazy_init", 10)
class Lazy(chainer.Chain):
    def __init__(self):
        super().__init__()
        self.x = None

    def forward(self, x):
        if self.x is None:
            self.x = x
        return self.x


@case("syntax/If:lazy_init_use", 10)
class LazyTwice(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.li = Lazy()

    def forward(self, x):
        return self.li(x) + self.li(x * 2)


@case("syntax/If:if_bp+", f32(3, 5), 1)
class OptionalLinear(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(None, 4)

    def forward(self, x, cond):
        if cond is not None:
            x = self.l(x)
        return x


hidden = 2


@case("syntax/If:global", f32(2, 2), f32(2, 2))
def parameter_hides_global(hidden, x):
    y = x
    if hidden is None:
        hidden = 1
    return (y, hidden)


def one_more(y):
    return y + 1


@case("syntax/If:user_func", 42)
class FunctionInBranch(chainer.Chain):
    def __init__(self):
        super().__init__()
        self.w = None

    def forward(self, z):
        if z is not None:
            self.w = one_more(z)
        return self.w


@case("syntax/If:nparray_shape", f32(2, 2))
def shape_behind_branch(x):
    if x is not None:
        x = F.relu(x)
    return list(x.shape)


@case("syntax/If:nparray_shape_self", f32(2, 2))
class ShapeOfAttribute(chainer.Chain):
    def forward(self, x):
        if x is not None:
            self.x = F.relu(x)
        return list(self.x.shape)


def activated(x):
    y = F.relu(x)
    return y


class LazyByFunction(Lazy):
    def forward(self, x):
        if self.x is None:
            self.x = activated(x)
        return self.x


@case("syntax/If:lazy_init_with_func_use", f32(2, 2))
class LazyByFunctionTwice(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.li = LazyByFunction()

    def forward(self, x):
        a = self.li(x)
        return a + self.li(a * 2)


@case("disabled/If:list_modify_elem")
def list_element_in_branch():
    x = [1]
    if True:
        x[0] = 2
    return x[0]


product = lambda x, y: x * y  # noqa: E731
composed = lambda function, m: lambda x: function(x) * m  # noqa: E731


@case("syntax/Lambda:lambda_local_simple", 3, 4)
def local_lambda(x, y):
    times = lambda a, b: a * b  # noqa: E731
    return times(x, y)


@case("syntax/Lambda:lambda_local_with_outside_variable", 3, 4)
def capturing_lambda(x, y):
    outside = x - y
    combined = lambda a, b: a * b + outside  # noqa: E731
    return combined(x, y)


@case("syntax/Lambda:lambda_global_simple", 3, 4)
def global_lambda(x, y):
    return product(x, y)


@case("syntax/Lambda:lambda_constructor", 3, 4)
class LambdaAttributes(chainer.Chain):
    def __init__(self):
        super().__init__()
        self.times = lambda a, b: a * b
        self.three = lambda: 3

    def forward(self, x, y):
        return self.times(x, y) * self.three()


@case("disabled/Lambda:lambda_local_nested", 3, 4)
def nested_lambdas(x, y):
    square = lambda x: x**2  # noqa: E731
    scaled = lambda function, m: lambda x: function(x) * m  # noqa: E731
    return scaled(square, x)(y)


@case("disabled/Lambda:lambda_global_nested", 3, 4)
def nested_global_lambda(x, y):
    square = lambda x: x**2  # noqa: E731
    return composed(square, x)(y)


@case("disabled/Lambda:lambda_inside_iterable", 3, 4)
def lambdas_in_lists(x, y):
    in_list = [lambda x, y: x * y, lambda x, y: x - y, lambda x, y: x + y]
    in_tuple = (lambda x, y: x * y, lambda x, y: x - y, lambda x, y: x + y)
    total = 0
    with flags.for_unroll():
        for function in in_list:
            total += function(x, y)
        for function in in_tuple:
            total += function(x, y)
    return total


@case("disabled/Lambda:lambda_constructor_nested", 3, 4)
class NestedLambdaAttributes(chainer.Chain):
    def __init__(self):
        super().__init__()
        self.square = lambda x: x**2
        self.scaled = lambda function, m: lambda x: function(x) * m

    def forward(self, x, y):
        return self.scaled(self.square, x)(y)


@case("disabled/Lambda:lambda_constructor_with_outside_variable", 3, 4)
class CapturingAttribute(chainer.Chain):
    def __init__(self):
        super().__init__()
        outside = 1
        self.combined = lambda a, b: a * b + outside

    def forward(self, x, y):
        return self.combined(x, y)


@case("syntax/LinkInFor:main", f32(3, 4, 5), f32(3, 5), np.arange(4))
class LinearOfIndices(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(5, 5)

    def forward(self, x, h, indices):
        for i in indices:
            h = h + self.l(x[:, i])
        return h


@case("syntax/List:simple_list")
def list_literals():
    x, y = [1, 2], [0, 1, 2]
    return x[0] * y[1]


@case("syntax/List:list_iterate")
def list_by_index():
    x = [1, 2, 3, 4, 5]
    x.append(6)
    total = 0
    for index in range(len(x)):
        total += x[index]
    return total


@case("syntax/List:list_in_constructor")
class ListOfInit(chainer.Chain):
    def __init__(self):
        super().__init__()
        self.made = [1, 2]

    def forward(self):
        return self.made[0]


@case("syntax/List:list_subscript")
def list_elements():
    made = [0, 1, 2]
    made[1] = 3
    made[2] += 2
    return made


@case("syntax/List:if_list_subscript_assign")
def list_turns_to_element():
    made = [0, 1, 2]
    if True:
        made = made[1]
    return made


@case("syntax/List:array_subscript")
def array_elements():
    made = np.array([0, 1, 2])
    x = made[2]
    made[1] = x
    made[1:2] = made[0:1]
    return made, x


@case("syntax/List:array_subscript_fancy", *(np.arange(120).reshape(2, 3, 4, 5) for _ in range(2)))
def array_parts(x, y):
    y[1, 2, 3, 4] = x[0, 1, 2, 3]
    part = x[:, 1, :3, -4:]
    y[1, 1:3, :3, :4] = part
    return part, y, y[:, 1, np.array([2, 1]), :-4:]


@case("syntax/List:tensor_to_list", np.array([1, 2, 3, 4, 5]))
def list_of_array(tensor):
    x = list(tensor)
    x.append(1)
    return x


@case("disabled/List:list_assign_by_value_ref")
def list_of_shared_values():
    shared, number = [1], 1
    lists, numbers = [shared], [number]
    lists[0].append(2)
    numbers[0] = 2
    return lists[0][1] * numbers[0]


@case("disabled/List:list_nested")
def list_in_itself():
    x = [0]
    x.append(x)
    return x[1][1][1][0]


@case("syntax/ListComp:Basic1")
def comprehension_of_range():
    r = range(2)
    return [y for y in r]


@case("syntax/ListComp:A", f32(10, 20), np.array([3, 4]), np.int64(5), np.array([1, 2, 3, 4, 5]))
def comprehensions(xs, ps, p, qs):
    first = [x[3:5] for x in xs]
    second = [x[ps[0] : ps[0] + 3] for x in xs]
    third = [x[p : p + 4] for x in xs]
    fourth = [xs[i][:i] for i in range(p)]
    fifth = [3 for x in xs]
    return first, second, third, fourth, fifth


@case("disabled/ListComp:listcomp_bug", f32(10, 20))
def shapes_of_rows(xs):
    y = [x.shape for x in xs]
    return y[0]


class ScaledLinear(chainer.Chain):
    def __init__(self, n_out, p):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(None, n_out)
        self.p = p

    def forward(self, x):
        return self.l(x) * self.p


@case("syntax/MultiClass:main", f32(3, 7))
class AttributesOfOthers(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l0 = L.Linear(3)
            self.l1 = ScaledLinear(5, np.float32(3.1))
            self.l2 = ScaledLinear(4, np.float32(4.2))

    def forward(self, x):
        x = self.l0(x)
        x = self.l1(x) + self.l2.p
        return self.l2(x) + self.l1.p


@case("syntax/MultiFunction:main", f32(10, 20))
class SelfByAnotherName(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l0 = L.Linear(7)
            self.l1 = L.Linear(5)

    def g(self, y):
        return self.l1(y)

    def forward(sl, x):  # noqa: N805
        return sl.g(sl.l0(x))


@case("syntax/Print:main", 10)
def prints(x):
    print("test", x)
    return 0


@case("syntax/Print:const_prop")
def prints_text():
    print("foo", "test %d" % 3)
    return 0


cases("syntax/Range", lambda x: range(x), {"main": (5,)})
cases("syntax/Range", lambda x, y: range(x, y), {"stop": (5, 8)})
cases("syntax/Range", lambda x, y, z: range(x, y, z), {"step": (5, 19, 2)})


@case("syntax/Range:list_comp", f32(10, 20), RANDOM.randint(0, 5, size=5), np.int64(5))
def items_of_ranges(xs, ps, p):
    return [xs[x, x + 2] for x in range(p)], [xs[ps[x], ps[x] + 3] for x in range(p)]


@case("syntax/Return:return_middle", f32(2, 2))
def returns_early(x):
    a = F.relu(x)
    b = F.relu(a)
    return b
    c = F.relu(a * 2)
    return a + c


@case("syntax/Return:return", 10, 5)
def returns_in_loop(x, y):
    for i in range(x):
        if i == y:
            return i
    return 0


@case("disabled/Return:return_nested", 10, 5)
def returns_in_nested_function(x, y):
    def func(a, b):
        for i in range(a):
            if i == b:
                return i + 1
        return 0

    z = func(x, y)
    for i in range(z):
        if i == y:
            return i
    return 0


@case("syntax/Return:return_continue_mixed", 10, 5, 4)
def returns_and_skips(x, y, z):
    total = 0
    for i in range(x):
        if i == y:
            continue
        for j in range(x):
            if j == z:
                continue
            if j == y:
                return total
            total += i * j
    return total


@case("syntax/Return:return_continue_break_mixed", 10, 5, 4)
def returns_skips_and_leaves(x, y, z):
    total = 0
    for i in range(x):
        if i == y:
            continue
        for j in range(x):
            if j == z:
                break
            if j == y:
                return total
            total += i * j
    return total


cases("syntax/Sequence", lambda v: [v], {"Basic": (10,)})
cases("syntax/Sequence", lambda v: [v, v + 1, v + 2, v + 3][1], {"Index": (10,)})
cases("syntax/Sequence", lambda v: [v, v + 1, v + 2, v + 3][1:2], {"Slice": (10,)})


@case("syntax/Sequence:Append", 10)
def appended(v):
    x = []
    x.append(v)
    x.append(v)
    return x


@case("syntax/Sequence:A", f32(10), RANDOM.randint(0, 5, size=1), np.int64(1))
def slices_of_slices(xs, ps, p):
    t = [xs[: i + 1] for i in range(p)]
    y = [v[-2:-1] for v in t]
    v = []
    v.append(xs[2])
    v.append(xs[0])
    return y, v


@case("syntax/Slice:main", f32(16), f32(16, 16), RANDOM.randint(0, 10, size=2))
def slices(xs, xss, ps):
    return (
        xs[2], xs[3:5], xs[ps[0]], xs[ps[0] : ps[0] + 2], xss[ps[0] : 10, ps[1] : ps[1] + 4], xss[ps[0], ps[1] : ps[1] + 4], xss[3, ps[0]],
        xs[-1], xs[-2], xs[[1, 3, 5]],
    )  # fmt: skip


@case("syntax/Slice:list", RANDOM.rand(7, 5, 3, 4))
def slices_of_shape(x):
    xs = x.shape
    return np.array(xs[2]), np.array(xs[-2]), np.array(xs[:2]), np.array(xs[1:3]), np.array(xs[1::2])


expressions(
    "syntax/Slice",
    {"step": lambda xs: xs[1:6:2], "step_second": lambda xs: xs[:, 1:-2:2], "all": lambda xs: xs[:], "all_second": lambda xs: xs[:, :]},
    RANDOM.rand(7, 5, 3, 4),
)


@case("syntax/Tuple:ret_tuple")
def returns_tuple():
    return (1, 2)


@case("syntax/Tuple:substitute_tuple")
class Unpacked(chainer.Chain):
    def pair(self):
        return (1, 2)

    def forward(self):
        x, y = self.pair()
        return x


@case("syntax/Tuple:substitute_tuple_self")
class UnpackedOfSelf(Unpacked):
    def __init__(self):
        super().__init__()
        self.a = 1

    def pair(self):
        return (self.a + 1, self.a + 2)


class Adder:
    def __init__(self, a):
        self.a = a

    def g(self, x):
        return self.a + x


def added(x, y):
    return x + y


class Holder:
    def __init__(self, a, do):
        self.a = a
        self.do = do

    def either(self):
        if self.do:
            found = self.a
        else:
            found = self
        return found

    def me(self):
        return self

    def value(self):
        return self.a


_three = f32(3, 4), f32(3, 4), f32(3, 4)
cases("syntax/UserDefinedFunc", lambda x, y, z: added(Adder(x).g(y), z), {"main": _three})
cases("syntax/UserDefinedFunc", lambda x, y, z: helper_of_cases.added(x, y), {"external_func": _three})
cases("syntax/UserDefinedFunc", lambda x, y, z: added(ImportedAdder(x).g(y), z), {"external_class": _three})


@case("disabled/UserDefinedFunc:bug")
def objects_of_methods():
    total = 0
    made = Holder(total, False)
    total += made.either().a
    total += made.me().a
    total += made.value()
    return total


@case("disabled/UserDefinedFunc:class_func_bug")
class ChangedByMethod(chainer.Chain):
    def __init__(self):
        super().__init__()
        self.a = 1

    def change(self):
        self.a += 1

    def forward(self):
        self.change()
        return self.a


class Plain:
    def __init__(self, a):
        self.a = a

    def __enter__(self):
        return self

    def __exit__(self, type, value, traceback):
        return False


class Counting(Plain):
    def __enter__(self):
        self.a = self.a + 1
        return self

    def __exit__(self, type, value, traceback):
        self.a = self.a + 2
        return False


class Giving(Plain):
    def __enter__(self):
        return self.a


@case("syntax/With:basic")
def with_object():
    with Plain(3) as made:
        return made.a


@case("syntax/With:multiple")
def with_two():
    total = 0
    with Plain(3) as first, Plain(4) as second:
        total += first.a
    total += second.a
    return total


@case("syntax/With:enter_exit")
def with_effects():
    total = 0
    other = Counting(4)
    with Counting(3) as made:
        total += made.a
    return total + other.a, made.a


@case("syntax/With:self_not_returned")
def with_another_result():
    with Giving(3) as made:
        return made


def cannot_be_compiled():
    yield 42


@case("syntax/With:ignore_branch")
def ignored_block():
    total = 0
    with flags.ignore_branch():
        cannot_be_compiled()
    total += 1
    return total


@case("syntax/With:for_unroll")
class Unrolled(chainer.Chain):
    def __init__(self):
        super().__init__()
        self.x1, self.x2, self.x3 = 1, 2, 3
        self.dict = {"x1": 1, "x2": 2, "x3": 3}

    def forward(self):
        total = 0
        with flags.for_unroll():
            for i in list([1, 2, 3]):
                total += 1 * self["x%d" % i]
            for i in range(1, 4):
                total += 2 * self["x%d" % i]
            for i in self.dict.keys():
                total += 3 * self[i]
            for i in self.dict.values():
                total += 4 * self["x%d" % i]
            with flags.for_unroll(unroll=False):
                for i in range(5):
                    total += i
        return total


# ---- node ----

cases("node/AddMul", lambda x, y: (0.5 * 0.2) + 0.3 * x + y, {"main": (f32(3, 5), f32(3, 5))})


class PoolOfAttributes(chainer.Chain):
    def __init__(self):
        super().__init__()
        self.v1, self.v2 = (1, 1), (2, 3)

    def forward(self, x):
        return F.average_pooling_2d(x, (3, 4), stride=self.v1, pad=self.v2)


_image = f32(2, 5, 15, 17)
expressions(
    "node/AveragePool2d",
    {
        "default": lambda x: F.average_pooling_2d(x, 1, stride=2), "withpad": lambda x: F.average_pooling_2d(x, 3, stride=1, pad=2),
        "withoutstride": lambda x: F.average_pooling_2d(x, 3), "withpadtuple": lambda x: F.average_pooling_2d(x, (3, 4), stride=(1, 1), pad=(2, 3)),
    },
    _image,
)  # fmt: skip
case("node/AveragePool2d:withpadtupleinit", _image)(PoolOfAttributes)


class OneLink(chainer.Chain):
    """Calls one link."""

    def __init__(self, link):
        super().__init__()
        with self.init_scope():
            self.l1 = link

    def forward(self, *xs):
        return self.l1(*xs)


def link(name, make, *arguments):
    CASES.append((name, lambda: OneLink(make()), arguments))


link("node/BatchNorm:main", lambda: L.BatchNormalization(3), f32(2, 3, 5, 5))
link("node/Convolution2D:main", lambda: L.Convolution2D(None, 6, (5, 7), stride=(2, 3)), _image)
link("node/Convolution2D:single_param", lambda: L.Convolution2D(5, 10, 3, stride=1, pad=1, nobias=True), _image)
link("node/Convolution2D:single_param_lambda", lambda: L.Convolution2D(5, 10, 3, stride=1, pad=1, nobias=True), _image)
for _rank in (1, 2, 3):
    for _nobias in (False, True):
        link(
            f"node/ConvolutionND:{_rank}d{'_nobias' if _nobias else ''}",
            functools.partial(L.ConvolutionND, _rank, 7, 10, 3, stride=1, pad=1, nobias=_nobias), f32(2, 7, *[5 + 2 * i for i in range(_rank)]),
        )  # fmt: skip
cases("node/Id", lambda x: x, {"main": (f32(5, 7),)})


@case("node/Linear:main", f32(5, 7))
class TwoLinears(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(None, 3)
            self.l2 = L.Linear(7, nobias=True)

    def forward(self, x):
        return self.l1(x), self.l2(x)


@case("node/Linear:axes", f32(2, 4, 3))
@case("node/Linear:axes+", f32(2, 4, 3))
class LinearOfLastAxis(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(3, 5)

    def forward(self, x):
        return self.l1(x, n_batch_axes=2)


@case("node/Linear:none_param", [f32(n, 5) for n in (4, 3, 2)], np.zeros((3, 5), np.float32))
class LinearOfPadded(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(10, 20)

    def forward(self, xs, h):
        inputs = F.pad_sequence(xs)
        return self.l(F.concat((inputs[:, 0], h), axis=1))


_rows = [f32(n) for n in (5, 8, 1, 4, 6)]
expressions(
    "node/PadSequence",
    {
        "basic": lambda xs: F.pad_sequence(xs), "length": lambda xs: F.pad_sequence(xs, length=20),
        "padding": lambda xs: F.pad_sequence(xs, padding=-1), "slice": lambda xs: F.pad_sequence(xs)[:, 0],
    },
    _rows,
)  # fmt: skip
cases("node/SoftmaxCrossEntropy", lambda x, t: F.softmax_cross_entropy(x, t), {"main": (f32(3, 2), np.array([1, -1, 0]))})
cases("node/Unpooling2D", lambda x: F.unpooling_2d(x, 2, cover_all=False), {"main": (f32(2, 3, 11, 7),), "large": (f32(1, 16, 100, 100),)})
cases("node/Unpooling2D", lambda x: F.unpooling_2d(x, (3, 4), cover_all=False), {"3x4": (f32(2, 3, 11, 7),)})
cases("node/Variable", lambda x: chainer.Variable(x), {"main": (np.array(42),)})


@case("node/Variable:self")
class VariableAttribute(chainer.Chain):
    def __init__(self):
        super().__init__()
        self.x = chainer.Variable(np.array(42))

    def forward(self):
        return self.x


class Block(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(10, 10)

    def forward(self, x):
        return F.relu(self.l(x))


class CalledBlock(Block):
    def __call__(self, x):
        return F.relu(self.l(x))


class Blocks(chainer.ChainList):
    def forward(self, x):
        for f in self.children():
            x = f(x)
        return x


CASES.append(("node/ChainList:chain", lambda: Blocks(Block(), Block()), (f32(5, 10),)))
CASES.append(("node/ChainList:chain_call", lambda: Blocks(CalledBlock(), CalledBlock()), (f32(5, 10),)))
cases("node/LRN", lambda x: F.local_response_normalization(x), {"basic": (f32(2, 3),)})
cases("node/Len", lambda x: len(x), {"basic": (RANDOM.rand(3, 5, 4),), "list": ([np.array(x) for x in [3, 5, 4]],)})

# ---- node/ndarray ----

expressions(
    "node/ndarray/NpArray",
    {"default": lambda: np.array([4.0, 2.0, 3.0], dtype=np.float32), "cast": lambda: np.array([4.0, 2.0, 3.0], dtype=np.int32)},
)
expressions("node/ndarray/NpFull", {"none": lambda: np.full((3, 4), 42), "dtype": lambda: np.full((3, 4), 42, dtype=np.float32)})
expressions("node/ndarray/NpZeros", {"main": lambda: np.zeros((3, 4), dtype=np.float32)})
expressions("node/ndarray/Size", {"main": lambda x: x.size}, f32(12, 6, 4))
expressions(
    "node/ndarray/Shape", {"main": lambda x: list(x.shape), "concat": lambda x: np.array(x.shape + (42,)), "index": lambda x: x.shape[0]}, f32(12, 6, 4)
)
expressions("node/ndarray/Ceil", {"main": lambda x: np.ceil(x)}, (f32(6, 4) - 0.5) * 100)
cases("node/ndarray/Cumsum", lambda ps: np.cumsum(ps), {"main": ([3, 1, 4, 1, 5, 9, 2],)})
cases("node/ndarray/Cumsum", lambda ps: ps.cumsum(), {"self": (np.array([3, 1, 4, 1, 5, 9, 2]),)})
# Three more, in files that upstream disables altogether.
expressions("more/NpArray", {"2d": lambda: np.array([[1, 2], [3, 4]], dtype=np.float32)})


def sums_and_extremes(x, y, z, xs):
    total = 1
    total *= sum(xs)
    total += max(x, y, z)
    total -= min(x, y, z)
    total += max(xs)
    total -= min(xs)
    return total


cases("more/MinMax", sums_and_extremes, {"basic": (2, 1, 3, [3, 5, 4]), "with_tensor": (np.array(2), 1, 3, np.array([3, 5, 4]))})

# ---- node/Links ----

CASES.append(("node/Links/EmbedID:main+", lambda: OneLink(L.EmbedID(7, 3)), (RANDOM.randint(7, size=5),)))
_sequences = [f32(n, 4) for n in (3, 2, 5, 4)]
for _class in (L.NStepLSTM, L.NStepBiLSTM):
    link(f"node/Links/{_class.__name__}:main", functools.partial(_class, 3, 4, 3, 0.1), None, None, _sequences)

# ---- node/Functions ----

_v = f32(6, 2, 3)
for _name, _function, _other in (("argmin", F.argmin, np.argmin), ("argmax", F.argmax, np.argmax)):
    for _suffix, _one in (("", _function), ("_np", _other)):
        expressions(
            "node/Functions/ArgMinMax",
            {f"{_name}{_suffix}": lambda v, f=_one: f(v), f"{_name}_axis{_suffix}": lambda v, f=_one: f(v, axis=1)}, _v,
        )  # fmt: skip
cases("node/Functions/BroadcastTo", lambda x: F.broadcast_to(x, (2, 6, 4, 3)), {"main": (f32(6, 4, 1),)})


@case("node/Functions/BroadcastTo:main+", f32(6, 3))
class BroadcastLinear(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(None, 5)

    def forward(self, x):
        x = F.reshape(self.l1(x), (6, 5, 1))
        return F.broadcast_to(x, (2, 6, 5, 3))


expressions("node/Functions/Concat", {"main": lambda x, y: F.concat((x, y)), "list": lambda x, y: F.concat([x, y])}, f32(7, 4, 2), f32(7, 3, 2))
expressions("node/Functions/Dropout", {"main": lambda x: F.dropout(x)}, f32(6, 4))
expressions("node/Functions/ExpandDims", {"main": lambda x: (F.expand_dims(x, axis=1), F.expand_dims(x, 1))}, f32(6, 4))
for _name, _stacked, _one, _two in (("Hstack", F.hstack, f32(5, 3, 2), f32(5, 4, 2)), ("Vstack", F.vstack, f32(7, 4, 2), f32(5, 4, 2))):
    cases(f"node/Functions/{_name}", lambda x, y, f=_stacked: f((x, y)), {"main": (_one, _two)})
    cases(f"node/Functions/{_name}", lambda xs, f=_stacked: f(xs), {"list": ([_one, _two],)})
cases("node/Functions/Matmul", lambda x, y: F.matmul(x, y), {"main": (f32(5, 7), f32(7, 4))})
for _name in ("Maximum", "Minimum"):
    _own, _numpy = getattr(F, _name.lower()), getattr(np, _name.lower())
    expressions(f"node/Functions/{_name}", {"main": lambda a, b, f=_own: f(a, b), "np": lambda a, b, f=_numpy: f(a, b)}, _v, f32(6, 2, 3))
expressions(
    "node/Functions/MaxPool2d",
    {
        "main": lambda x: F.max_pooling_2d(x, (1, 3), stride=(1, 4)), "pad": lambda x: F.max_pooling_2d(x, (1, 3), stride=(1, 4), pad=(0, 1)),
        "no_stride": lambda x: F.max_pooling_2d(x, (3, 4)),
    },
    f32(2, 3, 19, 13),
)  # fmt: skip
expressions(
    "node/Functions/Mean",
    {
        "main": lambda x: F.mean(x, axis=1), "keepdims": lambda x: F.mean(x, axis=0, keepdims=True),
        "tuple_axis": lambda x: F.mean(x, axis=(1, 2)), "all_axis": lambda x: F.mean(x),
    },
    f32(3, 5, 4),
)  # fmt: skip
_shapes = {
    "main": lambda x, p: (
        F.reshape(x, (24, 12)), F.reshape(x, (6, -1, 12)), F.reshape(x, (-1, p)), np.reshape(x, (24, 12)), np.reshape(x, (6, -1, 12)),
        np.reshape(x, (-1, p)),
    ),
    "B": lambda x, p: (x.reshape((24, 12)), x.reshape((6, -1, 12)), x.reshape((-1, p))),
}  # fmt: skip
expressions("node/Functions/Reshape", _shapes, f32(12, 6, 4), np.int64(3))
expressions("node/Functions/ResizeImages", {"main": lambda x: F.resize_images(x, (57, 113))}, f32(1, 1, 29, 57))
_rois = np.array([[0, 1, 3, 4], [1, 0.3, 4, 2.6]], np.float32), np.array([0, 1], np.int32)
expressions(
    "node/Functions/Roi",
    {
        "max_pool": lambda x, r, i: F.roi_max_pooling_2d(x, r, i, 7, 1.2), "avg_pool": lambda x, r, i: F.roi_average_pooling_2d(x, r, i, 7, 1.2),
        "max_align": lambda x, r, i: F.roi_max_align_2d(x, r, i, 7, 0.25, 2), "avg_align": lambda x, r, i: F.roi_average_align_2d(x, r, i, 7, 0.25, 2),
    },
    np.arange(150, dtype=np.float32).reshape(2, 3, 5, 5), *_rois,
)  # fmt: skip
expressions(
    "node/Functions/Separate",
    {
        "main": lambda x: list(F.separate(x)), "axis_0": lambda x: list(F.separate(x, axis=0)), "axis_1": lambda x: list(F.separate(x, axis=1)),
        "axis_2": lambda x: list(F.separate(x, axis=2)),
    },
    f32(2, 3, 4),
)  # fmt: skip
expressions("node/Functions/Sigmoid", {"main": lambda x: F.sigmoid(x)}, f32(6, 4))
_m = f32(6, 4)
for _name in "sin sinh sign cos cosh tan tanh arcsin arccos arctan exp log".split():
    expressions("node/Functions/MathMisc", {_name: lambda x, f=getattr(F, _name): f(x)}, _m)
expressions(
    "node/Functions/MathMisc",
    {
        "clip": lambda x: F.clip(x, -1.0, 1.0), "clip_np": lambda x: np.clip(x, -1.0, 1.0), "abs": lambda x: F.absolute(x),
        "abs_np": lambda x: np.absolute(x), "sqrt": lambda x: (F.sqrt(x), np.sqrt(x)), "round": lambda x: np.round(x),
        "abs_builtin": lambda x: abs(x),
    },
    _m,
)  # fmt: skip
cases("node/Functions/MathMisc", lambda x: abs(x), {"abs_builtin_scalar_float": (np.array(10.0),), "abs_builtin_scalar_int": (np.array(-10),)})


class Reduced(chainer.Chain):
    """Calls a function that is an attribute."""

    def __init__(self, function, **options):
        super().__init__()
        self.function = function
        self.options = options

    def forward(self, v):
        return self.function(v, **self.options)


for _name in ("min", "max"):
    for _suffix, _options in {"simple": {}, "axis": {"axis": 1}, "keepdims": {"keepdims": True}, "axiskeepdims": {"axis": 1, "keepdims": True}}.items():
        CASES.append((f"node/Functions/MinMax:{_name}_{_suffix}", functools.partial(Reduced, getattr(F, _name), **_options), (_v,)))
_square = f32(20, 20)
cases("node/Functions/SplitAxis", lambda xs, i: [x for x in F.split_axis(xs, i, axis=0)], {"main": (_square, [1, 3, 5, 8, 14])})
cases("node/Functions/SplitAxis", lambda xs, i: [x for x in F.split_axis(xs, i, axis=1)], {"axis1": (_square, [1, 3, 5, 8, 14])})
cases("node/Functions/SplitAxis", lambda xs: [x for x in F.split_axis(xs, 2, 0)], {"sections": (_square,)})
cases("node/Functions/SplitAxis", lambda xs: [x for x in F.split_axis(xs, 2, axis=1)], {"sections_axis1": (_square,)})
expressions(
    "node/Functions/Squeeze",
    {"main": lambda x: F.squeeze(x, 1), "axes": lambda x: F.squeeze(x, axis=(1, 3)), "noaxes": lambda x: F.squeeze(x)},
    f32(3, 1, 4, 1, 5, 1),
)
expressions(
    "node/Functions/Stack",
    {
        "main": lambda x, y: (F.stack((x, y)), np.stack([x, y])), "axis0": lambda x, y: (F.stack((x, y), axis=0), np.stack([x, y], axis=0)),
        "axis1": lambda x, y: (F.stack((x, y), axis=1), np.stack([x, y], axis=1)),
        "axis2": lambda x, y: (F.stack((x, y), axis=2), np.stack([x, y], axis=2)),
    },
    f32(5, 4, 2), f32(5, 4, 2),
)  # fmt: skip
expressions(
    "node/Functions/Sum",
    {
        "main": lambda x: F.sum(x, axis=1), "self": lambda x: x.sum(axis=1), "keepdims": lambda x: F.sum(x, axis=0, keepdims=True),
        "tuple_axis": lambda x: F.sum(x, axis=(1, 2)), "all_axis": lambda x: F.sum(x),
    },
    _v,
)  # fmt: skip


class SummedLinear(chainer.Chain):
    def __init__(self, axis, keepdims):
        super().__init__()
        self.axis, self.keepdims = axis, keepdims
        with self.init_scope():
            self.l = L.Linear(None, 5)

    def forward(self, x):
        x = F.reshape(self.l(x), (3, 2, 5))
        return F.sum(x, axis=self.axis, keepdims=self.keepdims)


for _axis in (0, 1, 2, (0, 2), (1, 2), None):
    for _keep in (False, True):
        _text = str(_axis).replace(" ", "")
        CASES.append((f"node/Functions/Sum:axis{_text}_kd{_keep}+", functools.partial(SummedLinear, _axis, _keep), (f32(6, 2, 3),)))
_four = f32(6, 4, 2, 7)
expressions(
    "node/Functions/SwapAxes",
    {"main": lambda x: (F.swapaxes(x, 1, 3), F.swapaxes(x, 0, 1)), "self": lambda x: (x.swapaxes(1, 3), x.swapaxes(0, 1))}, _four,
)  # fmt: skip
expressions(
    "node/Functions/Transpose",
    {
        "main": lambda x: (
            F.transpose(x, (0, 2, 1)), F.transpose(x, (1, 0, 2)), F.transpose(x, (2, 1, 0)), x.transpose((0, 2, 1)), np.transpose(x, (1, 0, 2)),
            x.transpose((2, 1, 0)),
        )
    },
    f32(12, 6, 4),
)  # fmt: skip
_signed = f32(6, 4, 3) - 0.5
for _name in ("clipped_relu", "leaky_relu", "log_softmax", "elu", "relu", "selu", "sigmoid", "softmax"):
    CASES.append((f"node/Functions/Activations:{_name}_simple", functools.partial(Reduced, getattr(F, _name)), (_signed,)))
for _name, _options in {
    "clipped_relu_param1": {"z": 10.0}, "leaky_relu_param1": {"slope": 0.1}, "log_softmax_param1": {"axis": 2}, "elu_param1": {"alpha": 0.9},
    "selu_param1": {"alpha": 2.0}, "softmax_param1": {"axis": 2}, "selu_param2": {"alpha": 2.0, "scale": 2.0},
}.items():  # fmt: skip
    _function = getattr(F, _name.rsplit("_", 1)[0])
    CASES.append((f"node/Functions/Activations:{_name}", functools.partial(Reduced, _function, **_options), (_signed,)))

# ---- model ----

CASES += models.cases(f32, RANDOM)

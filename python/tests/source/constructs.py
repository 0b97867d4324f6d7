"""Constructs of Python in models of torch: each one small function or module, with calls that take every path of it.

docs/python/constructs.md is made of the titles and groups (source/constructs_page.py), and of what other compilers of torch do
with the same construct (source/constructs.json, which source/constructs_of_torch.py makes).
"""

import functools
from typing import Dict, List, Optional

import torch
import torch.nn.functional as F
from torch import nn

CONSTRUCTS = []


def construct(group, *calls, refused=None):
    """Add a function or a module. `refused` is a part of the reason why it cannot be compiled."""

    def add(made):
        CONSTRUCTS.append((group, made, calls, refused))
        return made

    return add


torch.manual_seed(0)
X = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.25, -1.0]])
SQUARE = torch.arange(25.0).reshape(5, 5)
POSITIVE, NEGATIVE = (X.abs(),), (-X.abs(),)
SIGNS = POSITIVE, NEGATIVE
COUNTS = (X, 0), (X, 1), (X, 4)
CHOICES = (X, True), (X, False)
LENGTHS = (X, torch.tensor(0)), (X, torch.tensor(3))

# ---- Conditions ----


@construct("Conditions", *SIGNS)
def if_tensor(x):
    """if on a tensor"""
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 1
    return y


@construct("Conditions", *SIGNS)
def if_bool_of_tensor(x):
    """if on bool(tensor)"""
    if bool(x.sum() > 0):
        x = x * 2
    return x


@construct("Conditions", *CHOICES)
def if_bool(x, flag: bool):
    """if on a bool argument"""
    if flag:
        return x + 1
    return x - 1


@construct("Conditions", *COUNTS)
def if_int(x, n: int):
    """if on an int argument"""
    if n > 2:
        x = x * n
    return x


@construct("Conditions", *COUNTS)
def conditional_expression(x, n: int):
    """conditional expression"""
    return x * 2 if n > 2 else x - n


@construct("Conditions", *COUNTS)
def chain_of_elif(x, n: int):
    """elif chain"""
    if n == 0:
        y = x
    elif n == 1:
        y = x + 1
    else:
        y = x * 3
    return y


@construct("Conditions", *CHOICES)
def branches_of_shapes(x, flag: bool):
    """branches of different shape"""
    if flag:
        y = x[:1]
    else:
        y = x
    return y * 2


@construct("Conditions", *CHOICES)
def branches_of_ranks(x, flag: bool):
    """branches of different rank"""
    if flag:
        y = x.sum()
    else:
        y = x
    return y * 2


@construct("Conditions", *CHOICES)
def branches_of_dtypes(x, flag: bool):
    """branches of different dtype"""
    if flag:
        y = x.long()
    else:
        y = x
    return y + 1


@construct("Conditions", (X,))
class IfTraining(nn.Module):
    """if self.training"""

    def forward(self, x):
        if self.training:
            x = x * 2
        return x + 1


@construct("Conditions", *CHOICES)
def defined_in_one_branch(x, flag: bool):
    """name defined in one branch only"""
    if flag:
        y = x + 1
    return y if flag else x


@construct("Conditions", *CHOICES)
def branches_of_types(x, flag: bool):
    """branches of int and float"""
    if flag:
        y = 1
    else:
        y = 2.5
    return x * y


@construct("Conditions", *COUNTS)
def and_or(x, n: int):
    """and, or, not in conditions"""
    if n > 0 and not n > 3 or n == 0:
        return x
    return -x


@construct("Conditions", *COUNTS)
def chained_comparison(x, n: int):
    """chained comparison"""
    if 0 < n <= 3:
        return x
    return -x


@construct("Conditions", *[(X, a, b) for a in (0, 2) for b in (0, 3)])
def or_of_ints(x, a: int, b: int):
    """x or y of ints as a value"""
    return x * (a or b)


# ---- for ----


@construct("for", *COUNTS)
def for_range(x, n: int):
    """for over range(n)"""
    for i in range(n):
        x = x + i
    return x


@construct("for", *COUNTS)
def for_two_states(x, n: int):
    """loop-carried tensors"""
    y = x
    for i in range(n):
        x, y = y, x * 2
    return x, y


@construct("for", *COUNTS)
def for_growing(x, n: int):
    """shape that grows in the loop"""
    for i in range(n):
        x = torch.cat([x, x[:1]], dim=0)
    return x


@construct("for", *LENGTHS)
def for_range_of_tensor(x, t):
    """for over range(int(tensor))"""
    for i in range(int(t)):
        x = x + i
    return x


@construct("for", (X,), (SQUARE,))
def for_rows(x):
    """for over the rows of a tensor"""
    y = torch.zeros(x.size(1))
    for row in x:
        y = y * 2 + row
    return y


@construct("for", (X, X * 2), (SQUARE, SQUARE + 1))
def for_zip(x, z):
    """for over zip of tensors"""
    y = torch.zeros(x.size(1))
    for a, b in zip(x, z):
        y = y + a * b
    return y


@construct("for", (X,), (SQUARE,))
def for_enumerate(x):
    """for over enumerate(tensor)"""
    y = torch.zeros(x.size(1))
    for i, row in enumerate(x):
        y = y + i * row
    return y


@construct("for", *COUNTS)
def loop_variable_defined_before(x, n: int):
    """loop variable after the loop, defined before"""
    i = 7
    for i in range(n):
        x = x + 1
    return x * i


@construct("for", (X, 1), (X, 4))
def loop_variable_afterwards(x, n: int):
    """loop variable after the loop, not defined before"""
    for i in range(n):
        x = x + 1
    return x * i


@construct("for", *COUNTS)
def state_turns_float(x, n: int):
    """loop state that turns from int to float"""
    s = 0
    for i in range(n):
        s = s + i / 2
    return x * s


@construct("for", *COUNTS)
def for_reversed(x, n: int):
    """reversed(range(n))"""
    for i in reversed(range(n)):
        x = x * 2 + i
    return x


@construct("for", (X, 0, 9, 2), (X, 9, 1, -3), (X, 3, 3, 1))
def for_range_of_three(x, a: int, b: int, c: int):
    """range(start, stop, step)"""
    for i in range(a, b, c):
        x = x * 2 + i
    return x


@construct("for", *COUNTS)
def for_nested(x, n: int):
    """nested loops"""
    for i in range(n):
        for j in range(i):
            x = x + i * j
    return x


@construct("for", (X,))
def for_list(x):
    """for over a list literal"""
    for i in [1, 2, 5]:
        x = x * i - 1
    return x


@construct("for", *COUNTS)
def for_else(x, n: int):
    """else of a loop"""
    for i in range(n):
        if i == 2:
            break
    else:
        x = x * 10
    return x


# ---- while, break, continue, return ----


@construct("while, break, continue, return", *SIGNS)
def while_tensor(x):
    """while on a tensor"""
    while x.sum() > 1:
        x = x / 2
    return x


@construct("while, break, continue, return", *COUNTS)
def while_int(x, n: int):
    """while on an int"""
    while n > 0:
        x = x + n
        n -= 2
    return x


@construct("while, break, continue, return", *COUNTS)
def while_true(x, n: int):
    """while True with break"""
    i = 0
    while True:
        if i >= n:
            break
        x = x * 2
        i += 1
    return x


@construct("while, break, continue, return", *COUNTS)
def for_break(x, n: int):
    """break"""
    for i in range(n):
        if i == 2:
            break
        x = x + 1
    return x


@construct("while, break, continue, return", *COUNTS)
def for_continue(x, n: int):
    """continue"""
    for i in range(n):
        if i % 2 == 0:
            continue
        x = x + i
    return x


@construct("while, break, continue, return", *SIGNS)
def break_on_tensor(x):
    """break on a tensor"""
    for i in range(5):
        x = x + 1
        if x.sum() > 8:
            break
    return x


@construct("while, break, continue, return", *COUNTS)
def return_in_the_middle(x, n: int):
    """return in mid-body"""
    if n == 0:
        return x
    x = x * n
    return x + 1


@construct("while, break, continue, return", *COUNTS)
def return_in_loop(x, n: int):
    """return inside a loop"""
    for i in range(n):
        if i == 2:
            return x * 10
        x = x + 1
    return x


@construct("while, break, continue, return", *COUNTS)
def return_in_nested_loop(x, n: int):
    """return inside nested loops"""
    for i in range(n):
        for j in range(n):
            if i * j == 2:
                return x + i
            x = x + 1
    return x


# ---- Lists ----


@construct("Lists", *COUNTS[1:])
def list_append(x, n: int):
    """append in a loop"""
    made = []
    for i in range(n):
        made.append(x * i)
    return torch.stack(made)


@construct("Lists", *COUNTS)
def list_index(x, n: int):
    """index by a run-time int"""
    made = [x, x + 1, x + 2, x + 3, x + 4]
    return made[n]


@construct("Lists", *COUNTS)
def list_comprehension(x, n: int):
    """comprehension over range"""
    made = [x * i for i in range(n)]
    return made


@construct("Lists", (X,), (SQUARE,))
def comprehension_of_rows(x):
    """comprehension over rows"""
    return torch.stack([row * 2 for row in x])


@construct("Lists", *COUNTS)
def comprehension_with_if(x, n: int):
    """comprehension with if"""
    return [x * i for i in range(n) if i % 2 == 0]


@construct("Lists", *COUNTS)
def comprehension_with_two_fors(x, n: int):
    """comprehension with two fors"""
    return [x * i * j for i in range(n) for j in range(i)]


@construct("Lists", (X,))
def list_element(x):
    """list element assigned"""
    made = [x, x]
    made[0] = x + 1
    return made[0] * made[1]


@construct("Lists", *COUNTS[1:])
def list_element_in_loop(x, n: int):
    """list element assigned in a loop"""
    made = [x, x + 1]
    for i in range(n):
        made[i % 2] = made[1 - i % 2] * 2
    return made[0] - made[1]


@construct("Lists", ([X, X * 2],))
def list_argument(xs: List[torch.Tensor]):
    """list of tensors as an input"""
    return xs[0] + xs[1]


@construct("Lists", (X,))
def list_slice(x):
    """slice of a list of ints"""
    sizes = [1, 2, 3, 4]
    return x * sizes[1:3][0]


@construct("Lists", (X,))
def list_extended(x):
    """l += other"""
    made = [x]
    made += [x * 2, x * 3]
    return torch.cat(made)


@construct("Lists", (X,))
def list_shared(x):
    """shared reference to a list"""
    made = [x]
    other = made
    other.append(x * 2)
    return torch.cat(made)


@construct("Lists", (X,))
def list_methods(x):
    """insert, pop, extend, reverse"""
    made = [x]
    made.insert(0, x + 1)
    made.extend([x + 2, x + 3])
    made.pop(1)
    made.reverse()
    return torch.cat(made)


@construct("Lists", (X,))
def unpacking(x):
    """unpacking with a star"""
    first, *rest = [x, x + 1, x + 2]
    return first * len(rest) + rest[-1]


@construct("Lists", *COUNTS)
def list_of_lists(x, n: int):
    """lists in lists"""
    made = [[x], [x * 2, x * 3]]
    made[0].append(x * n)
    return made[0][1] + made[1][1]


@construct("Lists", *COUNTS)
def in_list(x, n: int):
    """in for ints"""
    return x * 2 if n in [1, 2, 3] else x


@construct("Lists", *COUNTS)
def sum_of_list(x, n: int):
    """sum of a list"""
    return x * sum([n, 2, 3])


@construct("Lists", *COUNTS)
def max_of_list(x, n: int):
    """max of a list"""
    return x * max([n, 2])


@construct("Lists", *COUNTS)
def sum_of_generator(x, n: int):
    """sum of a generator"""
    return x * sum(i * i for i in range(n))


@construct("Lists", *COUNTS)
def any_and_all(x, n: int):
    """any, all"""
    return x if any(i > 2 for i in range(n)) and all(i < 9 for i in range(n)) else -x


@construct("Lists", (X,))
def sorted_list(x):
    """sorted with a key"""
    order = sorted([3, 1, 2], key=lambda v: -v)
    return x * order[0] + order[2]


@construct("Lists", *COUNTS)
def map_and_filter(x, n: int):
    """map, filter"""
    return x * sum(map(lambda v: v + 1, filter(lambda v: v != 2, [n, 2, 3])))


# ---- Indices and changes in place ----


@construct("Indices and changes in place", (SQUARE, torch.tensor([3, 0])), (SQUARE, torch.tensor([1, 1])))
def columns_of_indices(x, indices):
    """for over a tensor of indices, x[:, i]"""
    y = torch.zeros(5)
    for i in indices:
        y = y * 2 + x[:, i]
    return y


@construct("Indices and changes in place", (SQUARE,))
def set_row(x):
    """x[1] = value"""
    x = x.clone()
    x[1] = x[0] + 1
    return x


@construct("Indices and changes in place", (SQUARE,))
def set_rows(x):
    """x[1:3] = value"""
    x = x.clone()
    x[1:3] = -1.0
    return x


@construct("Indices and changes in place", (torch.arange(60.0).reshape(3, 4, 5),))
def set_mixed(x):
    """x[1, 2:4, :3] = value"""
    x = x.clone()
    x[1, 2:4, :3] = x[0, :2, :3]
    return x


@construct("Indices and changes in place", (X,))
def set_mask(x):
    """x[mask] = value"""
    x = x.clone()
    x[x < 0] = 0.0
    return x


@construct("Indices and changes in place", (X,), (SQUARE,))
def set_in_loop(x):
    """set an item in a loop over a run-time size"""
    x = x.clone()
    for i in range(x.size(0)):
        x[i] = x[i] * i
    return x


@construct("Indices and changes in place", (SQUARE, torch.tensor([4, 0])))
def fancy_index(x, i):
    """index arrays"""
    return x[i, 1:3] + x[:, i][:2]


@construct("Indices and changes in place", (X,), (-X,))
def mask_index(x):
    """mask, whose result has a run-time size"""
    return x[x > 0]


@construct("Indices and changes in place", (X,))
def change_through_alias(x):
    """change in place through an alias"""
    x = x.clone()
    y = x
    y += 3
    return x


@construct("Indices and changes in place", *CHOICES)
def change_in_branches(x, flag: bool):
    """change in place through an alias in both branches"""
    x = x.clone()
    y = x
    if flag:
        y += 3
    else:
        y += 10
    return x


@construct("Indices and changes in place", (X,))
def change_through_view(x):
    """change in place through a view"""
    x = x.clone()
    row = x[0]
    row.add_(1).mul_(2)
    return x


@construct("Indices and changes in place", *COUNTS)
def change_in_loop(x, n: int):
    """change in place in a loop"""
    x = x.clone()
    row = x[1]
    for i in range(n):
        row += i
    return x


@construct("Indices and changes in place", (SQUARE, torch.tensor(2)), (SQUARE, torch.tensor(4)))
def item_as_bound(x, t):
    """t.item() as a bound"""
    n = int(t.item())
    return x[:n]


@construct("Indices and changes in place", (SQUARE, torch.tensor([1, 3])), (SQUARE, torch.tensor([0, 5])))
def int_as_bound(x, t):
    """int(t[i]) as bounds"""
    return x[int(t[0]) : int(t[1])]


@construct("Indices and changes in place", (SQUARE, torch.tensor([1, 4])), (SQUARE, torch.tensor([3, 2])))
def sizes_of_tensor(x, t):
    """t.tolist() as sizes of split"""
    sizes: List[int] = t.tolist()
    a, b = x.split(sizes)
    return a.sum() - b.sum()


# ---- Dicts ----


@construct("Dicts", (X,))
def dict_literal(x):
    """dict with str keys"""
    made = {"a": x, "b": x + 1}
    return made["a"] * made["b"]


@construct("Dicts", (X,))
def dict_items(x):
    """items()"""
    made = {"a": x, "b": x + 1}
    y = x
    for name, value in made.items():
        y = y * value
    return y


@construct("Dicts", (X,))
def dict_assigned(x):
    """dict built by assignment"""
    made: Dict[str, torch.Tensor] = {}
    made["a"] = x
    made["a"] = made["a"] + 1
    return made["a"]


@construct("Dicts", (X,))
def dict_returned(x):
    """dict returned"""
    return {"a": x, "b": x + 1}


@construct("Dicts", (X,))
def dict_of_mixed_keys(x):
    """keys of different types"""
    made = {"a": 1, 2: 2, 2.5: 3, True: 4}
    return x * made["a"] * made[2] * made[2.5] * made[1]


@construct("Dicts", (X,))
def dict_in_itself(x):
    """dict that holds itself"""
    made = {"x": x}
    made["me"] = made
    return made["me"]["me"]["x"]


@construct("Dicts", (X,))
def dict_get(x):
    """get with a default"""
    made = {"a": 2}
    return x * made.get("a", 3) * made.get("b", 4)


@construct("Dicts", (X,))
def dict_comprehension(x):
    """dict comprehension"""
    made = {k: x * k for k in [1, 2, 3]}
    return made[2] + made[3]


@construct("Dicts", *COUNTS)
def dict_of_run(x, n: int):
    """key that the run decides"""
    made = {0: 5, 1: 6, 4: 7}
    return x * made[n]


# ---- Attributes ----


@construct("Attributes", (X,))
class SetBuffer(nn.Module):
    """self.x = tensor, a buffer"""

    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.zeros(2, 3))

    def forward(self, x):
        self.last = x * 2
        return self.last + 1


@construct("Attributes", (X,))
class NoneThenTensor(nn.Module):
    """self.x = None, later a tensor"""

    def __init__(self):
        super().__init__()
        self.memory = None

    def reset(self):
        self.memory = None

    def forward(self, x):
        self.reset()
        if self.memory is None:
            self.memory = x * 2
        return self.memory + 1


@construct("Attributes", *COUNTS[1:])
def none_before_loop(x, n: int):
    """y = None before a loop"""
    y: Optional[torch.Tensor] = None
    for i in range(n):
        if y is None:
            y = x
        else:
            y = y + x
    assert y is not None
    return y


@construct("Attributes", (X, 3))
def optional_int(x, n: Optional[int]):
    """Optional[int] argument"""
    if n is None:
        n = 1
    return x * n


@construct("Attributes", (X,))
class GetAttribute(nn.Module):
    """getattr with a literal"""

    def __init__(self):
        super().__init__()
        self.scale = 3

    def forward(self, x):
        return x * getattr(self, "scale")  # noqa: B009


@construct("Attributes", *COUNTS)
class GetFormatted(nn.Module):
    """getattr with a formatted name"""

    def __init__(self):
        super().__init__()
        self.fc0, self.fc1 = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x, n: int):
        for i in range(2):
            x = getattr(self, f"fc{i}")(x) * n
        return x


@construct("Attributes", (X,))
class HasAttribute(nn.Module):
    """hasattr"""

    def __init__(self):
        super().__init__()
        self.scale = 3

    def forward(self, x):
        if hasattr(self, "scale"):
            x = x * self.scale
        if hasattr(self, "shift"):
            x = x + self.shift
        return x


@construct("Attributes", (X,))
class Property(nn.Module):
    """property"""

    @property
    def scale(self):
        return 4

    def forward(self, x):
        return x * self.scale


@construct("Attributes", *COUNTS)
class OptionalModule(nn.Module):
    """self.down is not None"""

    def __init__(self):
        super().__init__()
        self.down = None
        self.up = nn.Linear(3, 3)

    def forward(self, x, n: int):
        if self.down is not None:
            x = self.down(x)
        if self.up is not None:
            x = self.up(x)
        return x * n


@construct("Attributes", (X,), refused="keeps nothing from call to call")
class Counter(nn.Module):
    """state that the next call sees"""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


# ---- Functions and classes ----

double = lambda v: v * 2  # noqa: E731
LIMIT = 3


def helper(x, scale: float = 2.0):
    return x * scale


def collect(*values, **named):
    return sum(values) + sum(named.values())


def factorial(n):
    return 1 if n <= 1 else n * factorial(n - 1)


class Box:
    def __init__(self, x):
        self.x = x

    def doubled(self):
        return self.x * 2


class Scaled:
    def __init__(self, scale):
        self.scale = scale

    def __enter__(self):
        return self.scale

    def __exit__(self, *rest):
        self.scale = 0


def logged(function):
    @functools.wraps(function)
    def wrapper(x):
        return function(x) + 1

    return wrapper


@logged
def decorated(x):
    return x * 3


@construct("Functions and classes", (X,))
def lambda_local(x):
    """lambda"""
    square = lambda v: v * v  # noqa: E731
    return square(x)


@construct("Functions and classes", (X,))
def lambda_global(x):
    """lambda of the module"""
    return double(x)


@construct("Functions and classes", (X,))
class LambdaAttribute(nn.Module):
    """lambda as an attribute"""

    def __init__(self):
        super().__init__()
        self.activation = lambda v: v.relu()

    def forward(self, x):
        return self.activation(x)


@construct("Functions and classes", (X,))
def list_of_functions(x):
    """list of functions"""
    for function in [torch.relu, torch.tanh, double]:
        x = function(x)
    return x


@construct("Functions and classes", *COUNTS)
def nested_def(x, n: int):
    """nested def with a closure"""

    def scaled(v):
        return v * n

    return scaled(x) + scaled(x + 1)


@construct("Functions and classes", *COUNTS)
def nonlocal_name(x, n: int):
    """nonlocal"""
    total = 0

    def add(v):
        nonlocal total
        total += v
        return total

    add(n)
    return x * add(2)


@construct("Functions and classes", (X,))
def recursion(x):
    """recursion of compile-time depth"""
    return x * factorial(4)


@construct("Functions and classes", (X,))
def star_arguments(x):
    """*args and **kwargs"""
    return collect(x, x + 1, last=x + 2)


@construct("Functions and classes", (X,))
def user_class(x):
    """user class"""
    return Box(x).doubled()


@construct("Functions and classes", (X,))
def user_decorator(x):
    """decorator that returns a function"""
    return decorated(x)


@construct("Functions and classes", (X,))
class CallsSuper(GetAttribute):
    """super().forward"""

    def forward(self, x):
        return super().forward(x) + 1


@construct("Functions and classes", (X,))
class FunctionAttribute(nn.Module):
    """F.relu as an attribute"""

    def __init__(self):
        super().__init__()
        self.activation = F.relu

    def forward(self, x):
        return self.activation(x)


@construct("Functions and classes", (X,))
def partial_function(x):
    """functools.partial"""
    return functools.partial(helper, scale=3.0)(x)


# ---- Statements ----


@construct("Statements", (X,))
def try_except(x):
    """try around what cannot fail"""
    try:
        y = x + 1
    except ValueError:
        y = x
    return y


@construct("Statements", (X, 1), (X, 9))
def walrus(x, n: int):
    """walrus"""
    if (m := n * 2) > 5:
        return x * m
    return x - m


@construct("Statements", (X,))
def import_in_body(x):
    """import in the body"""
    import math

    return x * math.pi


@construct("Statements", (X,))
def global_constant(x):
    """global constant"""
    return x * LIMIT


@construct("Statements", (X,))
def context_manager(x):
    """user context manager"""
    with Scaled(3) as scale:
        x = x * scale
    return x


@construct("Statements", (X,))
def is_instance(x):
    """isinstance"""
    if isinstance(x, torch.Tensor):
        x = x * 2
    return x


@construct("Statements", *COUNTS)
def assertion(x, n: int):
    """assert, checked at run time"""
    assert n < 2, "too many"
    return x * n


@construct("Statements", *COUNTS)
def raise_in_branch(x, n: int):
    """raise in a branch"""
    if n > 2:
        raise ValueError("too many")
    return x * n


@construct("Statements", (X,))
def no_grad(x):
    """torch.no_grad()"""
    with torch.no_grad():
        x = x * 2
    return x


@construct("Statements", (X,))
def formatted(x):
    """f-string and % of constants"""
    names = {"a1": 2, "b2": 3}
    i = 1
    return x * names[f"a{i}"] * names["b%d" % (i + 1)]


@construct("Statements", *COUNTS, refused="a text of values of the run is not known")
def formatted_run(x, n: int):
    """f-string of a run-time value as a key"""
    names = {"a0": 2, "a1": 3, "a4": 4}
    return x * names[f"a{n}"]


@construct("Statements", (X,))
def printing(x):
    """print"""
    print("value", x.shape)
    return x


# ---- Modules ----


@construct("Modules", *COUNTS)
class IndexedList(nn.Module):
    """ModuleList[i] with a loop variable"""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])

    def forward(self, x, n: int):
        for i in range(3):
            x = self.layers[i](x) + n
        return x


@construct("Modules", (X,))
class SlicedSequential(nn.Module):
    """slice of Sequential"""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))

    def forward(self, x):
        return self.layers[:2](x)


@construct("Modules", (X,))
class IteratedList(nn.Module):
    """ModuleList iterated"""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 4)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@construct("Modules", (X,))
class DictOfModules(nn.Module):
    """ModuleDict"""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 4)})

    def forward(self, x):
        for name, layer in self.layers.items():
            x = layer(x)
        return x


@construct("Modules", (X,))
class Children(nn.Module):
    """children()"""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 4)

    def forward(self, x):
        for layer in self.children():
            x = layer(x)
        return x


@construct("Modules", (torch.randn(5, 2, 3),))
class Recurrent(nn.Module):
    """LSTM"""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4)

    def forward(self, x):
        y, state = self.lstm(x)
        return y, state[0]


@construct("Modules", (torch.randn(5, 2, 3),))
class RecurrentCell(nn.Module):
    """LSTMCell in a loop over time"""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)

    def forward(self, x):
        h = torch.zeros(x.size(1), 4)
        c = torch.zeros(x.size(1), 4)
        outputs = []
        for step in x:
            h, c = self.cell(step, (h, c))
            outputs.append(h)
        return torch.stack(outputs)


# ---- Numbers ----


@construct("Numbers", (X, -7, 2), (X, 7, -2), (X, 7, 2))
def floor_division(x, a: int, b: int):
    """// of ints"""
    return x * (a // b)


@construct("Numbers", (X, -7, 3), (X, 7, -3))
def remainder(x, a: int, b: int):
    """% of ints"""
    return x * (a % b)


@construct("Numbers", (X, 7, 2))
def true_division(x, a: int, b: int):
    """/ of ints"""
    return x * (a / b)


@construct("Numbers", (X, 2.7), (X, -2.7))
def conversions(x, value: float):
    """int, round, abs of a float"""
    return x * int(value) + round(value) + abs(value)

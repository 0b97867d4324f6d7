"""Cases in which a program could silently mean something else than its source. REFUSED has what a program cannot express.

The results are those of Python, NumPy and torch themselves.
"""

import math

import numpy as np

X = np.arange(12, dtype=np.float32).reshape(3, 4)
CASES = []
REFUSED = []


def case(*arguments):
    """Add a function with the arguments of several calls."""

    def add(function):
        CASES.append((function, arguments))
        return function

    return add


def refused(reason, *arguments):
    """Add a function that is refused, with a part of the reason."""

    def add(function):
        REFUSED.append((function, arguments, reason))
        return function

    return add


# ---- Numbers ----


@case((-5.0, math.inf), (5.0, math.inf), (5.0, -math.inf), (-7.5, 2.0), (7.5, -2.0), (-1e-200, 3e-200), (1.0, 0.1))
def floor_division_of_floats(a, b):
    return a // b, a % b


@case((-(2**63), 7), (2**63 - 1, -7), (-7, 3), (7, -3), (0, -3))
def floor_division_of_ints(a, b):
    return a // b, a % b


@case((np.array([-128, -127, 127, -1], np.int8),))
def floor_division_of_small_ints(x):
    return x // 3, x % 3, x // -3, x % -3, x // np.array([7, -7, 1, 2], np.int8)


@case((np.array([1.0, -1.0, 5.5, np.inf]), 0.1), (np.array([1.0, -2.5, 0.0, -0.3]), -0.3))
def floor_division_of_arrays(x, b):
    return x // b, x % b


@case((1, -1), (1, 3), (-5, 1), (-5, 70), (5, 63))
def shifts_right(a, b):
    return a >> b


@case((1, -1), (-5, 2))
def shifts_left(a, b):
    return a << b


@case((0.0, -1.0), (2.0, -1.0), (-8.0, 2.0), (-8.0, -3.0), (0.0, 0.0), (math.inf, 0.5))
def powers_of_floats(a, b):
    return a**b


@case((2,), (0,))
def powers_of_ints(a):
    return a**-1, a**0.5


@case((2.5,), (-0.5,), (math.nan,), (math.inf,), (-2.7,))
def whole_numbers(a):
    return int(a), round(a), math.floor(a), math.ceil(a), math.trunc(a)


@case((1.0, 2.0), (1000.0, 2.0), (0.5, 10.0), (-1.0, 2.0), (0.0, 2.0))
def functions_of_math(a, b):
    values = math.exp(a), math.log(a, b), math.pow(a, b), math.asin(a / 2000)
    return [int(1000 * v) for v in values]


@case((1.5,), (1.0,), (-1.0,))
def member_of_range(a):
    return a in range(0, 3)


@case((np.array([2, 3]), 2), (np.array([2, 3]), -1))
def powers_of_int_arrays(x, n):
    return x**n


# ---- Arrays ----


@case((X,))
def plus_copies(x):
    y = +x
    y += 1
    return x


@refused("adds a dimension", X, True)
def index_of_bool(x, b):
    return x[b]


@refused("adds a dimension", X, 1)
def assigned_index_of_bool(x, n):
    x = x * 1
    x[n == 1] = 0
    return x


@refused("always raises IndexError", X, np.array([True, False]))
def mask_of_other_size(x, m):
    return x[m]


@refused("always raises IndexError", X, np.array([True]))
def assigned_mask_of_other_size(x, m):
    x = x * 1
    x[m] = 0
    return x


@case((X,))
def reshapes_that_copy(x):
    x = x * 1
    a, b, c, d = x.T.reshape(-1), x.T.ravel(), x[:, ::2].reshape(-1), np.ascontiguousarray(x.T)
    for y in (a, b, c, d):
        y += 1
    return x, a, b, c, d


@case((X,))
def reshapes_that_share(x):
    x = x * 1
    a, b, c = x[1:].reshape(-1), x.reshape(2, 6), x.T.T.reshape(12)
    a += 1
    b *= 2
    c -= 3
    return x


@case((X, 0), (X, 2))
def reshapes_of_rows(x, i):
    x = x * 1
    y = x[i].reshape(2, 2)
    y += 1
    return x


@refused("may share its memory", X, 2)
def reshape_of_unknown_order(x, n):
    x = x * 1
    y = x[:n].T.reshape(-1)
    y += 1
    return x, y


@refused("may share its memory", X, 2)
def reshape_of_unknown_order_read_after_a_change(x, n):
    x = x * 1
    y = x[:n].T.reshape(-1)
    x += 1
    return y


@case((X,))
def conversions_that_share(x):
    x = x * 1
    a, b = np.asarray(x), x.astype(np.float32, copy=False)
    a += 1
    b *= 2
    c, d = np.array(x), x.astype(np.float32)
    c += 100
    d += 100
    return x


@case((np.zeros((0, 4), np.float32),))
def reductions_of_nothing(x):
    return x.any(), x.any(axis=0), x.all(), x.all(axis=1), 1.0 in x, x.sum(), x.max(axis=1)


def maximum_of_nothing(x):
    return x[3:].max()


def minimum_of_nothing(x):
    return np.min(x[:, 4:], axis=1)


@case((np.arange(4, dtype=np.uint8),))
def sums_of_unsigned(x):
    return x.sum(), x.cumsum(), x.prod()


@refused("'out'", X)
def argument_out(x):
    total = np.zeros(4, np.float32)
    np.sum(x, axis=0, out=total)
    return total


@refused("changed in place", X, 2)
def array_of_a_list_changed(x, n):
    items = [x * 1, x * 2]
    for i in range(n):
        items[i % 2][0] += 1
    return items


@refused("changed in place", X, 2)
def array_of_a_list_changed_by_a_name(x, n):
    items = [x * 1, x * 2]
    item = items[n]
    item += 1
    return items


@case((X, 2), (X, 0))
def array_of_a_list_replaced(x, n):
    items = [x * 1, x * 2]
    for i in range(n):
        items[i % 2] = items[i % 2] + 1
    return items


@refused("changed in place", X, 2)
def array_changed_after_append(x, n):
    items, y = [], x * 1
    for _ in range(n):
        items.append(y)
        y += 1
    return items


@refused("changed in place", X, 2)
def array_changed_before_append(x, n):
    items, y = [], x * 1
    for _ in range(n):
        y += 1
        items.append(y)
    return items


@refused("changed in place", X, 2)
def array_changed_after_a_loop_of_views(x, n):
    items, y = [], x * 1
    for _ in range(n):
        items.append(y[0])
    y += 1
    return items


@refused("changed in place", X, 1)
def array_changed_after_selection(x, n):
    y = x * 1
    z = [y, y * 2][n]
    y += 1
    return z


@case((X, 2), (X, 10), (X, 0))
def arrays_changed_before_append_only(x, n):
    items = []
    for i in range(n):
        y = x * 1
        y[0] += i
        items.append(y)
    return items


@refused("more than", 3)
def long_list(n):
    return len([0] * 10**11) + n


@refused("too long", 3)
def long_text(n):
    return len("a" * 10**12) + n


@refused("too large", 3)
def large_number(n):
    return (1 << 10**12) > n


# ---- Texts of the run ----


@refused("only messages", 5)
def text_compared(n):
    return str(n) == "5"


@refused("only messages", 5)
def text_returned(n):
    return f"{n}"


@refused("only messages", 5)
def text_measured(n):
    return len("%d" % n)


@refused("only messages", 5)
def text_searched(n):
    return "5" in "{}".format(n)


@refused("only messages", 5)
def text_as_key(n):
    return {"k5": 1}[f"k{n}"]


@refused("only messages", 5)
def text_as_condition(n):
    return 1 if "".join([str(n)]) else 0


@refused("only messages", 9)
def text_of_an_exception(n):
    try:
        if n > 5:
            raise ValueError(f"{n}")
    except ValueError as error:
        return str(error) == "9"
    return False


def messages(n):
    text = f"{n} is"
    if n > 5:
        raise RuntimeError(text + " too large: %d" % n)
    return "".join(["a", "b"]) == "ab", "%d" % 3 == "3"


CASES.append((messages, ((3,), (9,))))

# ---- Iterators ----


@refused("used again", 3)
def iterator_twice(n):
    items = iter([1, n])
    return list(items), list(items)


@refused("used again", 3)
def iterator_of_pairs(n):
    items = iter([1, n, 3, 4])
    return list(zip(items, items))


@refused("used again", 3)
def iterator_in_rounds(n):
    items, total = map(abs, [1, n]), 0
    for _ in range(n):
        total += sum(items)
    return total


@refused("used again", 3)
def iterator_in_rounds_of_a_value(n):
    items, total = map(abs, [1, n]), 0
    while total < n:
        total = total + sum(items)
    return total


@refused("'poly'|not supported", X, 3)
def problem_of_a_value_that_a_loop_carries(x, n):
    for _ in range(n):
        x = x + np.poly(x, x)
    return x


@refused("used again", 3)
def generator_twice(n):
    def items():
        yield n
        yield 2

    made = items()
    return sum(made), sum(made)


@refused("used again", 3)
def enumeration_goes_on(n):
    items, total = enumerate([n, 2]), 0
    for _, v in items:
        total += v
        break
    for _, v in items:
        total += 100 * v
    return total


@refused("changes something outside", 3)
def generator_with_effects(n):
    log = []

    def items():
        log.append(1)
        yield n
        log.append(2)

    for v in items():
        log.append(v)
    return log


@refused("changes something outside", 3)
def filter_with_effects(n):
    log = []

    def seen(v):
        log.append(v)
        return v > 1

    return list(filter(seen, [1, n])), log


@case((3,), (4,))
def iterator_in_branches(n):
    items = zip([1, 2], [n, 3])
    if n > 3:
        return [a * b for a, b in items]
    return [a + b for a, b in items]


@case((5,), (2,))
def values_bound_late(n):
    k = 1
    made, mapped = (i * k for i in range(3)), map(lambda i: i * k, [1, 2])
    k = n
    return list(made), list(mapped)


@case((5,), (2,))
def items_computed_late(n):
    log = []

    def seen(v):
        log.append(v)
        return v

    for v in map(seen, [1, n, 3]):
        if v == 2:
            break
    return log, any(seen(v) > 2 for v in [n, 7, 8]), all(seen(v) < 4 for v in [n, 9]), log


@case((5, 0), (0, 5), (1, 1))
def any_stops(a, b):
    return any(10 // x > 1 for x in [a, b])


@case((3,), (1,), (0,))
def any_of_a_run_time_length(n):
    return any(i > 2 for i in range(n * 2)), all(i < 4 for i in range(n)), n in map(abs, [1, 3])


@case((3,), (4,))
def views_of_dicts(n):
    d = {"a": n}
    keys, values, items = d.keys(), d.values(), d.items()
    d["b"] = 2
    d["a"] = 2 * n
    log = []
    for key, value in items:
        d["b"] = n * 7
        log.append(value)
    return list(keys), list(values), list(items), len(keys), log


@case((3,), (0,))
def zip_of_equal_lengths(n):
    try:
        return list(zip([1, 2, 3], range(n), strict=True))
    except ValueError:
        return []


# ---- Operators of classes ----


class Amount:
    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        return Amount(self.value + other.value) if isinstance(other, Amount) else NotImplemented

    def __radd__(self, other):
        return Amount(self.value + 1)

    def __eq__(self, other):
        return self.value == other.value if isinstance(other, Amount) else NotImplemented


class Other:
    def __radd__(self, other):
        return 1000


class Special(Amount):
    def __radd__(self, other):
        return Amount(-1)


@case((3,), (4,))
def operators_not_implemented(n):
    a = Amount(n)
    return (a + Amount(2)).value, a + Other(), a == 3, a != 3, a == Amount(3), a != Amount(3), (a + Special(1)).value


# ---- State ----

COUNTS = [1]
COUNT = 0


def remembers(n, seen=[]):  # noqa: B006
    seen.append(n)
    return len(seen)


@refused("keeps nothing from call to call", 3)
def default_that_grows(n):
    return remembers(n)


@refused("keeps nothing from call to call", 3)
def global_that_counts(n):
    global COUNT
    COUNT += n
    return COUNT


@refused("keeps nothing from call to call", 3)
def global_list(n):
    COUNTS[0] += n
    return COUNTS[0]


class Counter:
    def __init__(self):
        self.count = 0
        self.last = None

    def __call__(self, n):
        self.count += n
        return self.count


class Cache(Counter):
    def __call__(self, n):
        self.last = n * 2
        return self.last + self.count


COUNTER, CACHE = Counter(), Cache()


@refused("keeps nothing from call to call", 3)
def attribute_that_counts(n):
    return COUNTER(n)


@case((3,), (4,))
def attribute_that_is_written_first(n):
    return CACHE(n)

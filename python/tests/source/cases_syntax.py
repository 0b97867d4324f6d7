"""Language cases: functions of numbers and NumPy arrays, each with the arguments to try. The families are those of Elichika's tests."""

import collections
import itertools

import numpy as np

X = np.arange(12, dtype=np.float32).reshape(3, 4)
CASES = []


def case(*arguments):
    """Add a function with the arguments of several calls."""

    def add(function):
        CASES.append((function, arguments))
        return function

    return add


# ---- Alias ----


@case((3,))
def alias_int(x):
    y = x
    y += 3
    return x, y


@case((X,))
def alias_array(x):
    x = x + 0
    y = x
    y += 3
    return x


@case((1,))
def alias_list(a):
    x = [a]
    y = x
    y += [3]
    return x


@case((1, True), (1, False))
def alias_list_in_branches(a, c):
    x = [a]
    y = x
    if c:
        y += [3]
    else:
        y += [4, 5]
    return x


@case((X, True), (X, False))
def alias_array_in_branches(x, c):
    x = x * 1
    if c:
        y = x
        y += 3
    else:
        y = x
        y += 5
    return x, y


@case((X, True), (X, False))
def alias_array_of_one_branch(x, c):
    x = x * 1
    y = x
    if c:
        y = x * 2
    y += 1
    return x, y


@case((X, 2))
def alias_view_in_loop(x, n):
    x = x * 1
    y = x[1]
    for i in range(n):
        y += i + 1
    return x


# ---- BoolOp and Cmp ----


@case((0, 0), (0, 3), (2, 0), (2, 3))
def boolop_values(a, b):
    return a and b, a or b, not a, (a or b) and 7


@case((True, True), (True, False), (False, True), (False, False))
def boolop_conditions(a, b):
    r = 0
    if a and b:
        r += 1
    if a or b:
        r += 10
    if not a and b:
        r += 100
    return r


@case((1, 2), (2, 2), (3, 2))
def compare_ints(a, b):
    return a == b, a != b, a < b, a <= b, a > b, a >= b, 1 < a <= b


@case((1, X))
def compare_identity(a, x):
    l = [a]
    return l is l, l is not [a], x is x, x is not None, None is None, (a > 0) is True, [a] == l, l != [2]


# ---- Break, continue, return ----


@case((0,), (3,), (20,))
def break_in_loop(n):
    s = 0
    for i in range(n):
        s += i
        if s > 6:
            break
    else:
        s += 1000
    return s


@case((0,), (4,), (9,))
def break_nested(n):
    s = 0
    for i in range(n):
        for j in range(i):
            if j > 2:
                break
            if i == 3:
                continue
            s += i * j
        if s > 20:
            break
    return s


@case((0,), (5,), (12,))
def return_in_nested_loop(n):
    for i in range(n):
        for j in range(n):
            if i * j == 12:
                return i, j
            if j > i:
                break
            if j == 1:
                continue
    return -1, -1


@case((3,), (-3,))
def return_in_the_middle(a):
    if a > 0:
        return a * 2
    a -= 1
    return a
    return 7


# ---- If ----


@case((1,), (-1,))
def if_defined_in_both(a):
    if a > 0:
        b = a
    else:
        b = 2 * a
    return b


@case((1,), (-1,))
def if_defined_in_one(a):
    if a > 0:
        b = a
    if a > 0:
        return b
    return 0


@case((1,), (-1,))
def if_undefined(a):
    if a > 0:
        b = 5
    return b


@case((1,), (-1,))
def if_none(a):
    b = None
    if a > 0:
        b = a
    if b is None:
        return "none"
    return "some" if b == 1 else None


@case((X, 1), (X, -1))
def if_shapes(x, a):
    if a > 0:
        y = x[:2]
    else:
        y = x
    return y.shape, list(y.shape), y


@case((X, 1), (X, -1))
def if_ranks(x, a):
    if a > 0:
        y = x
    else:
        y = x.sum()
    return y * 2


# ---- For ----


@case((X, 0), (X, 1), (X, 6))
def for_state_turns_float(x, n):
    s = 0
    for i in range(n):
        s = s + i / 2
    return s


@case((X, 0), (X, 3))
def for_append_slices(x, n):
    xs = []
    for i in range(n):
        xs.append(x[:i])
    return xs


@case((4,), (1,))
def for_variable_afterwards(n):
    for i in range(n):
        pass
    return i


@case((0,))
def for_variable_never(n):
    for i in range(n):
        pass
    return i


@case((X, 0), (X, 2), (X, 5))
def for_none_first(x, n):
    y = None
    for i in range(n):
        y = x if y is None else y + x
    return y


@case((X, 0), (X, 2))
def for_shape_grows(x, n):
    for i in range(n):
        x = np.concatenate([x, x[:1]], axis=0)
    return x


@case((X,))
def for_rows_zip_enumerate(x):
    out = []
    for i, (row, k) in enumerate(zip(x, [1, 2, 3])):
        out.append(row * k + i)
    for row in reversed(out):
        out.append(row) if False else None
    return out, sum(range(5))


@case((X, 2), (X, 9))
def for_state_kinds(x, n):
    a, b, c = None, 0, []
    for i in range(n):
        a, b, c = i > 2, [i], (i, x)
    return a, b, c


@case((10,), (100,))
def while_collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@case((3,), (0,))
def swap_lists_in_loop(n):
    a, b = [1], [2]
    for i in range(n):
        a, b = b, a
        a.append(i)
    return a, b


# ---- Lists, comprehensions, slices, tuples, dicts ----


@case((X, 1), (X, -1))
def list_elements(x, i):
    l = [1, x, 3.5]
    l[0] = i
    l[-1] += 2
    m = [i, 2, 3]
    m[i] = 9
    return l, len(l), m, m[i], m[:i], m[::-1], m + [4], m * 2


@case((X, 3))
def comprehensions(x, n):
    a = [i * i for i in range(n)]
    b = [row + 1 for row in x]
    c = [x[:, :i] for i in range(1, n)]
    d = [i + j for i in range(n) for j in range(2) if i != j]
    return a, b, c, d, {k: k * n for k in (1, 2)}, sorted([3, n, 1]), [0 for _ in range(n)]


@case((1, 2), (-3, 20), (0, -1))
def slices_of_lists(i, j):
    l = [0, 1, 2, 3, 4, 5]
    return l[i:j], l[i:], l[:j], l[-2:], tuple(l)[1:3]


@case((X, 1, 3), (X, -2, 9))
def slices_of_arrays(x, i, j):
    return x[i], x[-1], x[:, 1:3], x[i:j, 0], x[::2, ::-1], x[..., None, 1], x[[0, 2]], x[np.array([0, 1]), np.array([1, 2])]


@case((X,))
def assignments_to_parts(x):
    y = x * 1
    y[1] = 7
    y[0, 1:3] = x[2, :2]
    y[:, 3] = 0
    y[y > 8] = -1
    z = x * 1
    z[[0, 2]] = 5
    z[1][2] = 3
    return y, z


@case((3,))
def tuples(n):
    a, (b, *c) = n, (1, 2, 3)
    t = (a, b)
    t += (n,)
    return t, c, t[1:], len(t), (1, n) < (1, 4)


@case((3,))
def dicts(n):
    d = {"a": n, 1: 2, 2.5: "x", True: 4}
    d["b"] = [n]
    d["a"] += 1
    e = dict(d, z=0)
    keys = [k for k in d]
    del e["b"]
    total = 0
    for k, v in {"p": 1, "q": n}.items():
        total += v
    return d, keys, list(e), d.get("none", 5), "a" in d, total, d.setdefault("s", n), e.pop("z")


@case((2,), (7,))
def dict_shared_list(n):
    l = [n]
    d = {"l": l, "m": l}
    d["l"].append(1)
    return d["m"], len({1, 2, 2})


# ---- Functions ----


@case((3,))
def lambdas(n):
    f = lambda a, b=2: a * b + n  # noqa: E731
    g = [lambda v: v + 1, lambda v: v * n]
    return f(1), f(1, b=3), g[0](2), g[1](2), list(map(f, [1, 2])), list(filter(lambda v: v > 1, [1, n]))


@case((3, True), (3, False))
def choice_of_functions(n, c):
    f = (lambda v: v + 1) if c else (lambda v: v * 10)
    return f(n)


@case((4,))
def closures(n):
    count = 0

    def step(by=1, *more, scale=2, **named):
        nonlocal count
        count += by * scale + len(more) + named.get("z", 0)
        return count

    step()
    step(2, 3, 4, scale=1, z=5)
    step(*[1, 2], **{"scale": n})
    return count


@case((5,))
def recursion(n):
    def power(x, k):
        return 1 if k == 0 else x * power(x, k - 1)

    return power(n, 4)


def decorator(function):
    def inner(*values):
        return function(*values) + 1

    return inner


@decorator
def decorated(a):
    return a * 2


@case((5,))
def decorators(n):
    return decorated(n)


class Counter:
    step = 2

    def __init__(self, start):
        self.value = start

    @property
    def double(self):
        return self.value * 2

    def __call__(self, n=1):
        self.value += n * self.step
        return self

    def __getitem__(self, key):
        return getattr(self, key)

    def __len__(self):
        return 3

    def __add__(self, other):
        return type(self)(self.value + other.value)

    def __enter__(self):
        self.value += 100
        return self

    def __exit__(self, *rest):
        self.value += 1000
        return False


class Sub(Counter):
    step = 3

    def __init__(self, start):
        super().__init__(start)
        self.extra = None

    def __call__(self, n=1):
        super().__call__(n)
        if n > 1:
            self.extra = n
        return self


@case((1,), (4,))
def classes(n):
    a, b = Counter(n), Sub(n)
    a(2)(3)
    b(n)
    c = a + b
    return a.value, b.double, c.value, b["step"], len(a), b.extra, hasattr(b, "extra"), hasattr(a, "extra"), isinstance(b, Counter)


@case((1,))
def contexts(n):
    c = Counter(n)
    with c as d, Counter(2):
        d.value *= 2
    return c.value


@case((3,), (0,))
def object_in_loop(n):
    c = Counter(0)
    for i in range(n):
        c(i)
    return c.value


@case((3,), (-3,))
def exceptions(n):
    try:
        if n < 0:
            raise ValueError("negative")
        r = n
    except ValueError:
        r = 0
    else:
        r += 10
    finally:
        r += 100
    return r


@case((3,), (-3,))
def raises(n):
    if n < 0:
        raise ValueError("negative: %d" % 1)
    assert n != 4, "four"
    return n


@case((3, 0), (3, 2))
def division(a, b):
    return a // b, a % b, a / b, -a // b, divmod(-a, b)


@case((7, 2), (-7, 2), (7, -2))
def arithmetic(a, b):
    return a // b, a % b, a**2, -a, abs(a), a << 1, a & 6, a | 1, a ^ 3, ~a, round(a / 2), int(a / 2), float(a), max(a, b), min([a, b])


@case((3,))
def formatting(n):
    name = "x%d" % 3 + f"{4:02d}" + "{}-{}".format(1, "b")
    return name, name.upper(), "," .join(["a", "b"]), (k := n + 1), k


@case((3, X))
def builtins(n, x):
    return sum([1, n]), any([n > 5, n == 3]), all([n > 5]), list(zip([1, 2], (n, 4))), len(x), sorted([n, 1, 2], reverse=True), max(1, n, 2)


@case((2,), (5,))
def generators(n):
    def numbers():
        yield 1
        for i in range(n):
            yield i * n

    return list(numbers()), sum(i for i in range(n))


@case((2,), (5,))
def match_statement(n):
    match n:
        case 1 | 2:
            return "small"
        case k if k > 4:
            return k
    return None


@case((X, 2), (-X, 1))
def sorted_by_keys_of_the_run(x, n):
    rows = sorted(x, key=lambda row: float(row.sum()), reverse=True)
    pairs = [(float(row[0]), i) for i, row in enumerate(x)]
    pairs.sort(key=lambda pair: -pair[0])
    numbers = [(n * i) % 3 for i in range(n + 2)]
    named = [v.sum() for name, v in sorted({"b": x[1], "a": x[0]}.items())]
    return rows, pairs, sorted(range(len(x)), key=lambda i: x[i, 0]), sorted(numbers, key=lambda v: -v), sorted(numbers), named


@case((X,), (-X,))
def tools_of_iteration(x):
    pairs = [float(a @ b) for a, b in itertools.combinations(list(x), 2)]
    steps = [later - earlier for earlier, later in itertools.pairwise(x)]
    sums = list(itertools.accumulate([r.sum() for r in x])), list(itertools.accumulate([1, 2, 3], lambda a, b: a * b, initial=2))
    longest = [(a, b) for a, b in itertools.zip_longest([1, 2], [3], fillvalue=0)]
    counted = list(itertools.islice(itertools.count(2, 3), 4)), list(itertools.islice([1, 2, 3, 4], 1, None, 2))
    return pairs, steps, sums, longest, counted, list(itertools.repeat(1, 3)), list(itertools.starmap(pow, [(2, 3), (3, 2)])), len(list(itertools.permutations("abc")))


@case((X, 1), (X, 2))
def slices_that_are_made(x, n):
    rest = slice(x.shape[0] - n, None)
    return x[rest], x[(slice(None), slice(0, n))], x[slice(n)]


@case((X, 3), (-X, 2))
def collections_of_values(x, n):
    window = collections.deque(maxlen=2)
    for row in x:
        window.append(row)
    window.rotate()
    groups = collections.defaultdict(list)
    for i, row in enumerate(x):
        groups[i % 2].append(row * n)
    counts = collections.Counter("abca")
    counts.update(["b"], d=2)
    queue = collections.deque([(0, n)])
    visited = []
    while queue:
        depth, k = queue.popleft()
        visited.append(k)
        if depth < 2:
            queue.extend([(depth + 1, k * 2), (depth + 1, k + 1)])
    Pair = collections.namedtuple("Pair", "a b", defaults=[1])
    pair = Pair(x)._replace(b=n)
    kinds = isinstance(window, collections.deque), isinstance(groups, dict), type(counts) is collections.Counter, 5 in groups
    sums = {key: sum(rows) for key, rows in groups.items()}
    return list(window), sums, counts["a"], counts["z"], counts.most_common(2), visited, pair.a * pair.b, pair._asdict()["b"], kinds, len(groups)

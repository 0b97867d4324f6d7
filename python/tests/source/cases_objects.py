"""Objects that branches and loops create: their identity is Python's, whatever path the run takes.

`CASES` has functions with calls. Changes through one name must be seen through all others, and through no more.
"""

import numpy as np


class Pair:
    def __init__(self, a, b):
        self.a = a
        self.b = b

    def swap(self):
        self.a, self.b = self.b, self.a


def two_names_in_a_branch(n):
    a, b = [0], [1]
    if n > 2:
        a = b = []
    a.append(n)
    b.append(5)
    return a, b, a is b


def two_names_on_both_sides(n):
    if n > 2:
        a = [n]
        b = a
    else:
        a = [1]
        b = [2]
    a.append(3)
    return a, b, a is b


def crossed_names(n):
    x, y = [n], [n, 1]
    if n > 0:
        a, b, c = x, y, [0]
    else:
        c = [9]
        a, b = c, x
    a.append(4)
    b.append(5)
    return a, b, c, x, y, a is c


def one_object_in_two_containers(n):
    a, d, p = [1], {"x": [2]}, Pair([3], None)
    if n:
        new = [n]
        d["x"] = new
        p.a = new
        p.b = p
    d["x"].append(7)
    p.a.append(8)
    return a, d, p.a, p.b is p


def objects_of_both_sides_refer_to_each_other(n):
    if n > 1:
        p = Pair(None, 1)
        q = Pair(p, 2)
        p.a = q
    else:
        q = Pair(None, 3)
        p = Pair(q, 4)
        q.a = q
    p.b += 10
    q.b += 20
    return p.b, q.b, p.a is q, q.a is q, q.a.b


def nested_branches(n, m):
    a, b = [], []
    if n:
        if m:
            a = b
        else:
            b = [1]
    elif m > 1:
        b = a
    a.append(n)
    b.append(m)
    return a, b, a is b


def a_new_list_in_each_round(n):
    last, kept = [], []
    for i in range(n):
        new = [i]
        if i % 3 == 0:
            kept = new
        last = new
        kept.append(i)
        last.append(10 * i)
    return last, kept, last is kept


def lists_change_places(n):
    a, b = [1], [2, 2]
    for i in range(n):
        a.append(i)
        a, b = b, a
    return a, b


def new_lists_change_places(n):
    a, b, c = [1], [2], [3]
    i = 0
    while i < n:
        i += 1
        if i % 2:
            c = [i]
        a, b, c = b, c, a
        a.append(i)
        if c is b or i > 6:
            b.append(-1)
    return a, b, c, a is b


def alias_from_an_earlier_round(n):
    a = [0]
    b = a
    for i in range(n):
        b = a
        if i % 2:
            a = [i]
        b.append(i)
    a.append(100)
    return a, b, a is b


def objects_in_a_loop(n):
    p = Pair(0, [0])
    q = p
    for i in range(n):
        q = p
        p = Pair(i, q.b if i % 2 else [i])
        p.b.append(q.a)
    q.a = 77
    return p.a, p.b, q.a, q.b, p is q


def object_of_either_class(n):
    x = None
    for i in range(n):
        if i == 1:
            x = [i]
        elif i > 2:
            x = Pair(i, x if isinstance(x, list) else None)
    return x is None, isinstance(x, Pair), x.a if isinstance(x, Pair) else None


def self_reference_in_a_loop(n):
    p = Pair(1, None)
    for i in range(n):
        p = Pair(i, None)
        p.b = p
    p.a += 1
    return p.a, p.b is p, 0 if p.b is None else p.b.a


def the_object_before(n):
    p = Pair(-1, None)
    for i in range(n):
        p = Pair(i, p.a)
    return p.a, p.b


def closures_of_a_loop(n, x):
    def adder(k):
        def add(v):
            return v + k

        return add

    f = adder(100)
    for i in range(n):
        f = adder(i)
    return f(x)


def closures_of_a_branch(n, x):
    def counter(start):
        count = start

        def more():
            nonlocal count
            count += 1
            return count

        return more

    if n > 1:
        f = counter(n)
        g = f
    else:
        f = counter(5)
        g = counter(7)
    return f(), g(), f(), g() + x


def counter_kept_by_a_loop(n):
    def counter(start):
        count = start

        def more(step=start):
            nonlocal count
            count += step
            return count

        return more

    f = g = counter(1)
    for i in range(n):
        if i % 2 == 0:
            f = counter(i)
        else:
            g = f
        f()
    return f(), g(), f()


def defaults_of_a_branch(n):
    if n > 1:
        f = lambda v, k=n * 2: v + k
    else:
        f = lambda v, k=7: v * k
    return f(3), f(3, 4)


def bound_method_of_a_branch(n):
    p, q = Pair(1, 2), Pair(3, 4)
    if n > 1:
        q = Pair(n, 6)
        p = q
    p.swap()
    q.swap()
    return p.a, p.b, q.a, q.b


def lists_in_lists(n):
    rows = [[1], [2], [3]]
    if n > 2:
        row = [n]
        rows[0] = row
        rows[2] = row
    else:
        rows[1] = rows[0]
    rows[0].append(4)
    rows[1].append(5)
    return rows


def lists_in_lists_in_a_loop(n):
    rows = [[1], [2]]
    for i in range(n):
        rows[0] = rows[1]
        if i % 2:
            rows[1] = [i]
        rows[0].append(i)
        rows[1].append(10 + i)
    return rows, rows[0] is rows[1]


def dict_of_lists_in_a_loop(n):
    d = {"x": [0], "y": [1]}
    for i in range(n):
        d["x"] = d["y"]
        if i == 2:
            d["y"] = [i]
        d["x"].append(i)
    return d


def nested_loops(n):
    a, b = [0], [1]
    for i in range(n):
        inner = [i]
        for j in range(i):
            if j % 2:
                inner = [j]
            else:
                a = inner
            inner.append(i * j)
        if i % 2:
            b = inner
        b.append(-1)
    return a, b, a is b


def break_with_a_new_object(n):
    found = None
    for i in range(n):
        p = Pair(i, [i])
        if i * i > 10:
            found = p
            break
        p.b.append(9)
    return None if found is None else (found.a, found.b)


def returned_from_a_loop(n):
    a = []
    for i in range(n):
        b = [i]
        a.append(i)
        if i == 3:
            return a, b, b
        b = a
    return a, a, []


def raised_in_a_branch(n):
    a = b = [1]
    try:
        if n > 2:
            a = [2]
            b = a
            if n > 4:
                raise ValueError("no")
        a.append(n)
    except ValueError:
        b.append(0)
    b.append(8)
    return a, b, a is b


def one_name_lost(n):
    a = [1]
    for i in range(n):
        a = [i, len(a)]
    return a


def array_of_a_choice(x, n):
    y = None
    if n > 0:
        y = x
    if y is not None:
        y += 1
    return x, y


def array_of_a_list_changed_in_a_loop(x, n):
    items = [x * 2, x * 3]
    first = items[0]
    for i in range(n):
        items[0] += 1
    return items, first


def array_replaced_and_changed_in_a_loop(x, n):
    y = x * 1
    for i in range(n):
        if i % 2:
            y = y * 2
        y += 1
    return x, y


def array_of_either_entry(x, n):
    d = {"k": x * 2}
    if n > 1:
        d["k"] = x
    d["k"] += 1
    return d, x


def array_of_a_nested_branch(x, n):
    a, y = x * 2, x * 3
    if n > 1:
        if n > 2:
            y = a
    y += 1
    return a, y


def array_of_a_later_round(x, n):
    a, y = x * 2, x * 3
    for i in range(n):
        if i == 1:
            y = a
        else:
            y += 1
    return a, y


def array_kept_by_the_first_round(x, n):
    a = x * 2
    b = None
    for i in range(n):
        if b is None:
            b = a
        else:
            b += 1
    return a, b


def array_of_a_dict_in_a_loop(x, n):
    d = {"k": x * 2}
    a = d["k"]
    for i in range(n):
        d["k"] += i
        if i == 3:
            d["k"] = x * 5
    a += 100
    return d, a


def view_of_a_branch(x, n):
    y = x * 1
    if n > 1:
        y = x[1:]
    x += 1
    return x, y


def dict_that_changes_in_the_loop_over_it(n):
    d, seen = {"x": 1, "y": n}, []
    if n > 1:
        d["z"] = 5
    for v in d.values():
        seen.append(v)
        d["y"] = d["x"] + 10
    return d, seen


def int_that_becomes_a_float(n):
    k, total = 1, 0
    for i in range(n):
        for j in range(k):
            total += j
        k = k + 1 if i < 2 else 2.5
    return total


def int_that_becomes_a_float_index(n):
    rows, k = np.zeros((4, 2)), 1
    if n > 3:
        k = 2.5
    try:
        rows[k] = 7
    except IndexError:
        k = 0
    return rows, k


CALLS = [(1,), (0,), (2,), (3,), (5,), (8,), (-1,)]
ARRAYS = [(np.arange(4.0), n) for n in (1, 0, 2, 3, 6)]
PAIRS = [(1, 1), (0, 0), (0, 1), (1, 0), (0, 2), (3, 2)]
def either_dict(a, b):
    """Views and copies of the dict that a name has on the path that was taken."""
    d, e = {"x": a, "y": b}, {"x": b, "y": 3}
    if a > b:
        d = e
    total = 0
    for name, value in d.items():
        total = total * 2 + value
        if value == 3:
            e["x"] = 9
    third = d if a < 4 else None
    return total, list(d.keys()), {n: v + 1 for n, v in d.items()}, {**d, "q": 1}, dict(**d), {**third}


def merged_in_place(a, b):
    """A dict that has other keys on another path, and a list that is repeated by a number or nothing."""
    d, e = {"x": a}, {"y": b, "x": 3}
    if a > b:
        d, e["z"] = e, a
    d |= {"q": 5} if b > 1 else {"x": 7}
    times = None if b > 5 else 2
    found = [a, b]
    found *= times
    return d, e, found


def assigned_slices(a, b):
    """Slices of a list of run-time length, or with run-time bounds."""
    first = [a, b, 1, 2]
    if a > 1:
        first.append(7)
    first[a:b] = [9, 8, 7]
    first[-1:] = first[:a]
    first[2:1] = [4]
    return first


def first_of_some(a, b):
    """The first item that a generator has, a default, or StopIteration."""
    found = [a, b, 1]
    return next((v for v in found if v > a), None), next(iter(found)), next(v * 2 for v in found), next(v for v in found if v > 1)


def raised_by_an_item(a, b):
    """Functions of items that are computed when they are asked for end with the exception of an item."""
    found = [a]
    for i in range(b):
        found.append(a - i - 1)

    def attempt(use):
        try:
            return use(12 // v for v in found)
        except ZeroDivisionError:
            return -1

    uses = [list, sum, max, lambda items: any(v > 3 for v in items), lambda items: [*map(abs, items)], lambda items: 12 in items, next]
    return [attempt(use) for use in uses]


def shape_of_a_changed_array(x, n):
    """A change of elements in a loop keeps the sizes known."""
    y = x + 0
    for k in range(n):
        y[1:] = y[:-1] * 0.5 + k
    return y.tolist(), len(y), [row * 2 for row in y]


CASES = [
    (either_dict, [(1, 2), (2, 1), (5, 6), (6, 5), (3, 1), (1, 3)]),
    (raised_by_an_item, [(5, 1), (1, 0), (1, 1), (2, 4), (0, 0), (0, 2)]),
    (merged_in_place, [(1, 2), (2, 1), (1, 1), (3, 2), (6, 7)]),
    (assigned_slices, [(1, 2), (0, 3), (3, 1), (-2, 9), (9, 9), (-9, -1)]),
    (first_of_some, [(1, 2), (0, 3), (3, 1), (-2, 0), (1, 1)]),
    (shape_of_a_changed_array, ARRAYS),
    (two_names_in_a_branch, CALLS),
    (two_names_on_both_sides, CALLS),
    (crossed_names, CALLS),
    (one_object_in_two_containers, CALLS),
    (objects_of_both_sides_refer_to_each_other, CALLS),
    (nested_branches, PAIRS),
    (a_new_list_in_each_round, CALLS),
    (lists_change_places, CALLS),
    (new_lists_change_places, CALLS),
    (alias_from_an_earlier_round, CALLS),
    (objects_in_a_loop, CALLS),
    (object_of_either_class, CALLS),
    (self_reference_in_a_loop, CALLS),
    (the_object_before, CALLS),
    (closures_of_a_loop, PAIRS),
    (closures_of_a_branch, PAIRS),
    (counter_kept_by_a_loop, CALLS),
    (defaults_of_a_branch, CALLS),
    (bound_method_of_a_branch, CALLS),
    (lists_in_lists, CALLS),
    (lists_in_lists_in_a_loop, CALLS),
    (dict_of_lists_in_a_loop, CALLS),
    (nested_loops, CALLS),
    (break_with_a_new_object, CALLS),
    (returned_from_a_loop, CALLS),
    (raised_in_a_branch, CALLS),
    (one_name_lost, CALLS),
    (dict_that_changes_in_the_loop_over_it, CALLS),
    (array_of_a_choice, ARRAYS),
    (array_of_a_list_changed_in_a_loop, ARRAYS),
    (array_replaced_and_changed_in_a_loop, ARRAYS),
    (array_of_either_entry, ARRAYS),
]
# Refused. Links between arrays do not describe which of these share memory when one is changed in place.
REFUSED = [
    (array_of_a_nested_branch, ARRAYS[0], "changed in place"),
    (array_of_a_later_round, ARRAYS[0], "changed in place"),
    (array_kept_by_the_first_round, ARRAYS[0], "changed in place"),
    (array_of_a_dict_in_a_loop, ARRAYS[0], "changed in place"),
    (view_of_a_branch, ARRAYS[0], "changed in place"),
    # Python raises TypeError only when the float comes.
    (int_that_becomes_a_float, (1,), "an int is needed"),
    (int_that_becomes_a_float_index, (1,), "an int is needed"),
]

"""Sources that cannot be compiled. The comment behind a line is what is reported at it, from the first to the last column."""

import numpy as np


def calls_of_unknown_functions(x):
    a = np.fft.fft(x)  # 9-22: not supported
    b = np.poly(x, x)  # 9-22: not supported
    return x


def attributes(x):
    return x.no_such_thing  # 12-27: 'no_such_thing' of a numpy array is not supported


def nearest_name(x):
    y = x.reshap(3)  # 9-17: Did you mean 'reshape'?
    return y


def generators_without_end(x):
    import itertools

    return list(itertools.count())  # 12-35: without end


class Endless:
    def __iter__(self):
        return self

    def __next__(self):
        return 1


def iterators_of_their_own(x):
    for i in Endless():  # 5-24: Write __iter__ as a generator
        x = x + i
    return x


def text_of_the_run(x, n: int):
    return {n: x}  # 12-18: key must be known


def set_of_the_run(x, n: int):
    return {n, 1}  # 12-18: key must be known


def recursion(x, n: int):
    def down(k):
        return 0 if k == 0 else down(k - 1)  # 33-44: recursion of 'down' is deeper

    return down(n)


def step_of_the_run(x, n: int):
    return x[::n]  # 12-18: step must be known


def several(x, n: int):
    for i in range(n):
        y = np.poly(x, x)  # 13-26: not supported
    z = x.flatten_it()  # 9-21: Did you mean 'flatten'?
    return z


def in_a_callee(x):
    return helper(x)


def helper(x):
    return np.poly(x, x)  # 12-25: not supported


def axis_of_the_run(x, n: int):
    return x.sum(axis=n)  # 12-25: the axis must be known


def metaclass(x):
    class Local(metaclass=type):  # 5-33: metaclass
        pass

    return Local()


def deleted_item(x, n: int):
    del x[0]  # 5-13: cannot be deleted
    return x


FUNCTIONS = [
    calls_of_unknown_functions, attributes, nearest_name, generators_without_end, iterators_of_their_own, text_of_the_run, set_of_the_run, recursion,
    step_of_the_run, several, in_a_callee, axis_of_the_run, metaclass, deleted_item,
]  # fmt: skip

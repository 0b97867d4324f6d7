"""What cases import: a function and a class, which uses another module."""

import operator


def added(x, y):
    return operator.add(x, y)


class Adder:
    def __init__(self, a):
        self.a = a

    def g(self, x):
        return added(self.a, x)

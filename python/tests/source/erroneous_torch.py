"""More sources that cannot be compiled, with modules and tensors of torch. erroneous.txt has what is reported."""

import numpy as np
import torch
from torch import nn

ERRONEOUS = []


def erroneous(*arguments):
    """Add a function or a class of modules, with example arguments."""

    def add(made):
        ERRONEOUS.append((made, arguments))
        return made

    return add


T = torch.ones(2, 3)
A = np.ones((2, 3), np.float32)
SHARED = [0]


@erroneous(T)
def misspelled_function(x):
    y = torch.softmx(x, dim=1)
    z = torch.nn.functional.rellu(x)
    return y + z


@erroneous(T)
def misspelled_keyword(x):
    return x.sum(dims=1)


@erroneous(T)
def unknown_method_in_callee(x):
    def outer(v):
        return inner(v * 2)

    def inner(v):
        return v.sigmid()

    return outer(x)


@erroneous(T)
class Training(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        x = self.drop(x)
        return self.norm(x)


@erroneous(T)
class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.fc.register_forward_hook(print)

    def forward(self, x):
        return self.fc(x)


@erroneous(T)
class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.eye(3).to_sparse()

    def forward(self, x):
        return x @ self.weight


@erroneous(T)
class OtherDevice(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3, device="meta")

    def forward(self, x):
        return self.fc(x)


@erroneous(T)
class ChangesWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x):
        self.weight += 1
        return x * self.weight


@erroneous(T)
class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


@erroneous(T, 3)
def rank_grows(x, n: int):
    for i in range(n):
        x = x.unsqueeze(0)
    return x.transpose(0, 1)


@erroneous(T, 3)
def never_settles(x, n: int):
    made = x
    for i in range(n):
        made = (made,)
    return made


class Created:
    def __new__(cls, x):
        return object.__new__(cls)


@erroneous(T)
def class_with_new(x):
    return Created(x).x


@erroneous(T, 3)
def lists_in_a_growing_list(x, n: int):
    made = []
    for i in range(n):
        made.append([x] * i)
    return made


@erroneous(T)
def changes_what_exists(x):
    SHARED[0] += 1
    return x * SHARED[0]


@erroneous(T, 2)
def consumed_twice(x, n: int):
    pairs = zip(range(n), range(n))
    a = list(pairs)
    return x * len(a) + len(list(pairs))


@erroneous(T, True)
def bool_as_index(x, flag: bool):
    return x[flag]


@erroneous(A)
def output_argument(x):
    y = np.zeros((2, 3))
    np.add(x, x, out=y)
    return y


@erroneous(T, 3, 3)
def identity_of_numbers(x, a: int, b: int):
    return x if a is b else -x


@erroneous(T)
def undefined_name(x):
    return x * missing_name  # noqa: F821


@erroneous(T)
def wrong_arguments(x):
    def pair(a, b):
        return a + b

    return pair(x)


@erroneous(T)
def attribute_of_none(x):
    state = None
    return x * state.value


@erroneous(T)
def evaluated_text(x):
    y = eval("x * 2")
    exec("y = 3")
    return y


@erroneous(T, 3)
def text_as_result(x, n: int):
    return f"{n} rows"


@erroneous(A)
def decompositions(x):
    values = np.linalg.svd(x)
    return np.linalg.eig(x @ x.T), values


@erroneous(T)
def file_of_the_run(x):
    with open("weights.txt") as file:
        return x * float(file.read())


@erroneous(T)
def list_as_key(x):
    return {[1]: x}


@erroneous(T, 2)
def everything_at_once(x, n: int):
    a = x.flaten()
    for i in range(n):
        b = torch.mode(x, x)
    if n > 1:
        c = x.reshap(3, 2)
    else:
        c = np.fft.fft(x)
    return [x.no_such for _ in range(3)], a, b, c

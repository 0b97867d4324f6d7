"""A small stand-in for Chainer, for tests: links, variables and functions with Chainer's defaults, computed by torch."""

import contextlib

import numpy as np
import torch


class Config:
    train = False


config = Config()


@contextlib.contextmanager
def using_config(name, value):
    before = getattr(config, name)
    setattr(config, name, value)
    yield
    setattr(config, name, before)


def tensor(x):
    """Return the torch tensor of a variable, array or number."""
    return x.tensor if isinstance(x, Variable) else torch.as_tensor(np.asarray(x))


class Variable:
    """An array with a gradient. It has no in-place operators, so that += makes a new variable."""

    __array_priority__ = 200

    def __init__(self, data):
        self.tensor = data if isinstance(data, torch.Tensor) else tensor(data)

    @property
    def array(self):
        return self.tensor.detach().numpy()

    data = array

    @property
    def shape(self):
        return tuple(self.tensor.shape)

    @property
    def dtype(self):
        return self.array.dtype

    @property
    def ndim(self):
        return self.tensor.ndim

    @property
    def size(self):
        return self.tensor.numel()

    def __len__(self):
        return len(self.tensor)

    def __getitem__(self, index):
        parts = index if isinstance(index, tuple) else (index,)
        parts = tuple(torch.as_tensor(p) if isinstance(p, (np.ndarray, list)) else int(p) if isinstance(p, np.integer) else p for p in parts)
        return Variable(self.tensor[parts])

    def __neg__(self):
        return Variable(-self.tensor)

    def __abs__(self):
        return Variable(abs(self.tensor))

    def reshape(self, *shape):
        from . import functions

        return functions.reshape(self, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes):
        from . import functions

        return functions.transpose(self, axes[0] if len(axes) == 1 else axes or None)

    def sum(self, axis=None, keepdims=False):
        from . import functions

        return functions.sum(self, axis, keepdims)


for _name, _operator in {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "truediv": lambda a, b: a / b, "pow": lambda a, b: a**b,
    "matmul": lambda a, b: a @ b,
}.items():  # fmt: skip

    def _own(other):
        return other if isinstance(other, (int, float)) else tensor(other)

    setattr(Variable, f"__{_name}__", lambda self, other, f=_operator: Variable(f(self.tensor, _own(other))))
    setattr(Variable, f"__r{_name}__", lambda self, other, f=_operator: Variable(f(_own(other), self.tensor)))


class Parameter(Variable):
    """A parameter, whose elements are made when its shape is known."""

    def __init__(self, shape=None, fill=None):
        self.fill = fill
        self.tensor = None
        if shape is not None:
            self.initialize(shape)

    def initialize(self, shape):
        if self.fill is None:
            made = (torch.rand(shape, generator=RANDOM) - 0.5) * (2.0 / max(shape[-1], 1) ** 0.5)
        else:
            made = torch.full(shape, float(self.fill))
        self.tensor = made.requires_grad_()

    @property
    def array(self):
        return None if self.tensor is None else self.tensor.detach().numpy()


RANDOM = torch.Generator().manual_seed(5)


class Link:
    """Base of links. Parameters and links that are assigned in init_scope belong to it."""

    def __init__(self):
        self.__dict__["_children"] = []
        self.__dict__["_params"] = []
        self.__dict__["_within"] = False

    @property
    def xp(self):
        return np

    @contextlib.contextmanager
    def init_scope(self):
        self.__dict__["_within"] = True
        yield
        self.__dict__["_within"] = False

    def __setattr__(self, name, value):
        if self._within and isinstance(value, Parameter):
            self._params.append(name)
        if self._within and isinstance(value, Link):
            self._children.append(name)
        object.__setattr__(self, name, value)

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def namedparams(self):
        for name in sorted(self._params):
            yield "/" + name, getattr(self, name)
        for name, child in self.named_children():
            for path, parameter in child.namedparams():
                yield f"/{name}{path}", parameter


class Chain(Link):
    def __getitem__(self, name):
        return getattr(self, name)

    def named_children(self):
        return [(name, getattr(self, name)) for name in sorted(self._children)]

    def children(self):
        for name in sorted(self._children):
            yield getattr(self, name)


Link.named_children = Chain.named_children


class ChainList(Link):
    def __init__(self, *links):
        super().__init__()
        self.__dict__["_links"] = list(links)

    def __getitem__(self, index):
        return self._links[index]

    def __len__(self):
        return len(self._links)

    def named_children(self):
        return [(str(index), child) for index, child in enumerate(self._links)]

    def children(self):
        for child in self._links:
            yield child


from . import functions, links  # noqa: E402

__all__ = ["Chain", "ChainList", "Link", "Parameter", "Variable", "config", "functions", "links", "tensor", "using_config"]

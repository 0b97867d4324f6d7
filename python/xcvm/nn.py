"""Modules in PyTorch's manner: layers, containers, activations and losses.

>>> class Net(nn.Module):
...     def __init__(self):
...         super().__init__()
...         self.l1 = nn.Linear(784, 100)
...         self.l2 = nn.Linear(100, 10)
...     def forward(self, x):
...         return self.l2(nn.relu(self.l1(x)))

Parameters are made on the current tape. Their names, axis orders, initial values and defaults are Chainer's, so that
Chainer's .npz files can be read: ``W`` and ``b`` of Linear, ``gamma`` and ``beta`` of normalizations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ._array import Array
from ._context import current_tape
from ._tape import Layer, Variable
from .array import asarray, parameter

Parameter = parameter

__all__ = [
    "GELU", "GRU", "LSTM", "MLP", "BatchNorm", "Conv", "ConvTranspose", "Dropout", "Embedding", "Flatten", "LayerNorm", "Linear",
    "Module", "ModuleList", "Parameter", "ReLU", "Sequential", "Sigmoid", "Softmax", "Tanh", "cross_entropy", "flatten", "gelu",
    "hinge", "log_softmax", "max_pool", "average_pool", "mse_loss", "nll_loss", "pick_neg_log_softmax", "relu", "sigmoid", "softmax", "tanh",
]  # fmt: skip


def _is_tensor(value: Any) -> bool:
    """True for arrays that can be parameters, frozen ones too."""
    return isinstance(value, Variable) and value.kind == "tensor" and value.dtype in ("f16", "bf16", "f32", "f64")


class Module:
    """The base of modules: a tree of parameters, modules and the computation that uses them.

    Attributes that are modules, lists of modules (ModuleList) or arrays of floats belong to the tree. Those that
    require gradients are its parameters.
    """

    training: bool = True
    _layer: Layer | None = None

    def __init__(self) -> None:
        pass

    def forward(self, *args: Any, **keywords: Any) -> Any:
        """Compute the result; a derived class defines it."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.forward(*args, **keywords)

    # -- The tree --

    def children(self) -> Iterator[tuple[str, Module]]:
        """Yield the modules of this one, with their names."""
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield name, value

    def own_parameters(self) -> Iterator[tuple[str, Any]]:
        """Yield the parameters of this module alone, with their names."""
        if self._layer is not None:
            for path, variable, learned in self._layer.tensors():
                if learned:
                    yield path.replace("/", "."), variable
        for name, value in vars(self).items():
            if isinstance(value, Variable) and value.requires_grad:
                yield name, value

    def modules(self) -> Iterator[Module]:
        """Yield this module and all below it."""
        yield self
        for _, child in self.children():
            yield from child.modules()

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """Yield each parameter once, with its name, as "l1.W"."""
        yield from self._named(prefix, set(), self.own_parameters_of)

    @staticmethod
    def own_parameters_of(module: Module) -> Iterator[tuple[str, Any]]:
        """Yield the parameters of a module alone."""
        return module.own_parameters()

    def _named(self, prefix: str, seen: set[int], tensors: Callable[[Module], Iterable[tuple[str, Any]]]) -> Iterator[tuple[str, Any]]:
        if id(self) in seen:
            return
        seen.add(id(self))
        for name, value in tensors(self):
            if self._layer is None:  # objects of a layer's tensors are made anew
                if id(value) in seen:
                    continue
                seen.add(id(value))
            yield prefix + name, value
        for name, child in self.children():
            yield from child._named(f"{prefix}{name}.", seen, tensors)

    def parameters(self) -> Iterator[Any]:
        """Yield each parameter once."""
        for _, value in self.named_parameters():
            yield value

    def _tensors(self) -> Iterable[tuple[str, Any]]:
        if self._layer is not None:
            yield from ((path.replace("/", "."), variable) for path, variable, _ in self._layer.tensors())
        yield from self._attributes()

    def state_dict(self) -> dict[str, Any]:
        """Return all tensors by name: parameters, and statistics such as "bn.avg_mean"."""
        return {name: variable.value() for name, variable in self._named("", set(), Module._tensors)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Set all tensors. Names, types and shapes must be those of the module; otherwise nothing changes."""
        own = dict(self._named("", set(), Module._tensors))
        wrong = [f"{name!r} is missing" for name in own if name not in state] + [f"{name!r} is unknown" for name in state if name not in own]
        arrays = {name: asarray(state[name]) for name in own if name in state}
        wrong += [f"{name!r} has shape {a.shape} and type {a.dtype.name}, not {own[name].shape} and {own[name].dtype}" for name, a in arrays.items() if (a.shape, a.dtype) != (own[name].shape, own[name].dtype)]
        if wrong:
            raise ValueError("the state does not fit: " + "; ".join(wrong))
        for name, array in arrays.items():
            own[name].set_data(array.value())

    def _tree(self) -> Layer:
        """Return the tree as a layer, with copies of the parameters that are attributes."""
        tape: Any = next((v.tape for _, v in self._named("", set(), Module._tensors)), None) or current_tape()
        tree = tape.layer("chain")
        for name, value in vars(self).items():
            if _is_tensor(value):
                tree.add_parameter(name, tape.parameter(value.value()))
            elif isinstance(value, Module):
                tree.add(name, value._layer if value._layer is not None else value._tree())
        return tree

    def save(self, path: str | Path) -> None:
        """Write all tensors: .npz with Chainer's names ("l1/W"), otherwise safetensors."""
        layer = self._layer if self._layer is not None else self._tree()
        Path(path).write_bytes(layer.save("npz" if str(path).endswith(".npz") else "safetensors"))

    def load(self, path: str | Path) -> None:
        """Read all tensors, from safetensors or Chainer's .npz. A failure changes nothing."""
        data = Path(path).read_bytes()
        if self._layer is not None:
            self._layer.load(data)
            return
        tree = self._tree()
        tree.load(data)
        for name, variable in self._named("", set(), Module._attributes):
            variable.set_data(tree.parameter(name.replace(".", "/")).value())

    def _attributes(self) -> Iterable[tuple[str, Any]]:
        return ((name, value) for name, value in vars(self).items() if _is_tensor(value))

    # -- Modes --

    def train(self, mode: bool = True) -> Module:
        """Set training mode, which dropout and batch normalization depend on, and return the module."""
        for module in self.modules():
            module.training = mode
            if module._layer is not None:
                module._layer.set_training(mode)
        return self

    def eval(self) -> Module:
        """Set inference mode and return the module."""
        return self.train(False)

    def requires_grad_(self, wanted: bool = True) -> Module:
        """Set whether the parameters have gradients, and return the module."""
        for module in self.modules():
            if module._layer is not None:
                module._layer.set_frozen(not wanted)
            for value in vars(module).values():
                if _is_tensor(value):
                    value.requires_grad = wanted
        return self

    def zero_grad(self) -> None:
        """Remove the gradients of the parameters."""
        for value in self.parameters():
            value.clear_grad()

    def reset(self) -> None:
        """Reset the states of recurrent layers."""
        for module in self.modules():
            if module._layer is not None:
                module._layer.reset()

    def unchain(self) -> None:
        """Make the states of recurrent layers constants, so that no gradient flows to earlier calls."""
        for module in self.modules():
            if module._layer is not None:
                module._layer.unchain()

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={child!r}" for name, child in self.children())
        return f"{type(self).__name__}({inner})"


class _LayerModule(Module):
    """A module that is a layer of the library."""

    def __init__(self, kind: str, *sizes: Any, **options: Any) -> None:
        self._layer = current_tape().layer(kind, *sizes, **{key: value for key, value in options.items() if value is not None})
        self._sizes = sizes
        # The call of the layer itself: an instance of Layer is called faster than a method.
        self.__dict__["forward"] = self._layer

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self._sizes))})"

    def __getattr__(self, name: str) -> Any:
        layer = self.__dict__.get("_layer")
        if layer is not None and not name.startswith("_"):
            try:
                return layer.parameter(name)
            except KeyError:
                pass
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


class Linear(_LayerModule):
    """x W^T + b, of x with its axes after the first flattened. W is [outputs, inputs].

    Parameters
    ----------
    inputs, outputs : int
    bias : bool
    weight, initial_bias : str, tuple or array
        Initial values: a name, (name, scale) or (name, scale, seed), as ("normal", 0.1); or the elements.
    dtype : element type
    """

    def __init__(self, inputs: int, outputs: int, bias: bool = True, *, weight: Any = None, initial_bias: Any = None, dtype: Any = None) -> None:
        super().__init__("linear", inputs, outputs, no_bias=not bias, weight=weight, bias=initial_bias, dtype=dtype)


class MLP(_LayerModule):
    """Linear layers l1, l2 ... with relu between them, and dropout after each relu."""

    def __init__(self, *sizes: int, dropout: float = 0.0, dtype: Any = None) -> None:
        super().__init__("mlp", *sizes, dropout=dropout, dtype=dtype)


class Conv(_LayerModule):
    """A convolution of [batch, inputs, ...]. W is [outputs, inputs / groups, kernel ...].

    Parameters
    ----------
    inputs, outputs : int
    kernel : int or tuple of int
        The size of the filter for each spatial axis; (3, 3) for images.
    stride, padding, dilation : int or tuple of int
    groups : int
    bias : bool
    """

    def __init__(self, inputs: int, outputs: int, kernel: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True, *, weight: Any = None, initial_bias: Any = None, dtype: Any = None) -> None:
        super().__init__(self._kind, inputs, outputs, *_windows(kernel), **_window_options(kernel, stride, padding, dilation), groups=groups, no_bias=not bias, weight=weight, bias=initial_bias, dtype=dtype)

    _kind = "convolution"


class ConvTranspose(Conv):
    """A transposed convolution. W is [inputs, outputs / groups, kernel ...]."""

    _kind = "deconvolution"


def _windows(kernel: Any) -> tuple[tuple[int, ...]]:
    return (tuple(kernel) if isinstance(kernel, (tuple, list)) else (kernel, kernel),)


def _window_options(kernel: Any, stride: Any, padding: Any, dilation: Any) -> dict[str, Any]:
    rank = len(_windows(kernel)[0])
    return {name: list(value) if isinstance(value, (tuple, list)) else [value] * rank for name, value in (("strides", stride), ("pads", padding), ("dilations", dilation))}


class BatchNorm(_LayerModule):
    """Batch normalization of [batch, channels, ...]: gamma, beta; statistics avg_mean, avg_var, N."""

    def __init__(self, channels: int, eps: float = 2e-5, decay: float = 0.9, *, dtype: Any = None) -> None:
        super().__init__("batch_normalization", channels, epsilon=eps, decay=decay, dtype=dtype)


class LayerNorm(_LayerModule):
    """Layer normalization over the last axis: gamma, beta."""

    def __init__(self, size: int, eps: float = 1e-6, *, dtype: Any = None) -> None:
        super().__init__("layer_normalization", size, epsilon=eps, dtype=dtype)


class Embedding(_LayerModule):
    """Rows of W [count, width] at indices. The gradient has only the rows that were read, unless `dense`."""

    def __init__(self, count: int, width: int, *, dense: bool = False, weight: Any = None, dtype: Any = None) -> None:
        super().__init__("embedding", count, width, dense=dense, weight=weight, dtype=dtype)


class LSTM(_LayerModule):
    """One LSTM step on x [batch, inputs]; the module keeps h and c until `reset`."""

    def __init__(self, inputs: int, outputs: int, *, dtype: Any = None) -> None:
        super().__init__("lstm", inputs, outputs, dtype=dtype)


class GRU(_LayerModule):
    """One GRU step on x [batch, inputs]; the module keeps h until `reset`."""

    def __init__(self, inputs: int, outputs: int, *, dtype: Any = None) -> None:
        super().__init__("gru", inputs, outputs, dtype=dtype)


class Dropout(_LayerModule):
    """In training: zero with probability `ratio`, otherwise x / (1 - ratio)."""

    def __init__(self, ratio: float = 0.5) -> None:
        super().__init__("dropout", ratio)


class Sequential(Module):
    """Calls modules and functions in order."""

    def __init__(self, *modules: Any) -> None:
        self._steps = list(modules)
        for i, module in enumerate(modules):
            if isinstance(module, Module):
                setattr(self, str(i), module)

    def forward(self, x: Any) -> Any:
        """Return the result of the last module."""
        for step in self._steps:
            x = step(x)
        return x

    def __getitem__(self, index: int) -> Any:
        return self._steps[index]

    def __len__(self) -> int:
        return len(self._steps)


class ModuleList(Module):
    """A list of modules that belongs to the tree."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self._count = 0
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> None:
        """Add a module at the end."""
        setattr(self, str(self._count), module)
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Module]:
        return (child for _, child in self.children())

    def __getitem__(self, index: int) -> Module:
        return list(self)[index]


# ---- Functions ----


def relu(x: Array) -> Array:
    """Return max(x, 0)."""
    return x.tape.call("Relu", (x,))


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x))."""
    return x.tape.call("Sigmoid", (x,))


def tanh(x: Array) -> Array:
    """Return the hyperbolic tangent."""
    return x.tape.call("Tanh", (x,))


def gelu(x: Array, approximate: str = "none") -> Array:
    """Return x times the normal distribution function of x, or its tanh approximation."""
    return x.tape.call("Gelu", (x,), {"approximate": approximate})


def softmax(x: Array, axis: int = -1) -> Array:
    """Return exp(x) divided by its sum along an axis."""
    return x.tape.call("Softmax", (x,), {"axis": axis})


def log_softmax(x: Array, axis: int = -1) -> Array:
    """Return the logarithm of the softmax."""
    return x.tape.call("LogSoftmax", (x,), {"axis": axis})


def flatten(x: Array, axis: int = 1) -> Array:
    """Return a matrix: the axes before `axis`, and the others."""
    return x.tape.call("Flatten", (x,), {"axis": axis})


def max_pool(x: Array, kernel: Any, stride: Any = None, padding: Any = 0) -> Array:
    """Return the greatest elements of windows of [batch, channels, ...]."""
    return _pool("MaxPool", x, kernel, stride, padding)


def average_pool(x: Array, kernel: Any, stride: Any = None, padding: Any = 0) -> Array:
    """Return the means of windows of [batch, channels, ...]."""
    return _pool("AveragePool", x, kernel, stride, padding)


def _pool(name: str, x: Array, kernel: Any, stride: Any, padding: Any) -> Array:
    rank = x.ndim - 2
    sizes, strides, pads = (list(v) if isinstance(v, (tuple, list)) else [v] * rank for v in (kernel, kernel if stride is None else stride, padding))
    return x.tape.call(name, (x,), {"kernel_shape": sizes, "strides": strides, "pads": pads + pads})


def _classes(target: Any, like: Array) -> Any:
    if not isinstance(target, Variable):
        return like.tape.constant(target, "i64") if isinstance(target, (int, list)) else like.tape.constant(target)
    return target


def nll_loss(scores: Array, target: Any, weight: Any = None, reduction: str = "mean", ignore_index: int | None = None) -> Array:
    """Return the negative log likelihood of classes, of logarithms of probabilities [batch, classes, ...]."""
    attributes: dict[str, Any] = {"reduction": reduction}
    if ignore_index is not None:
        attributes.update(ignore_index=ignore_index, has_ignore_index=1)
    return scores.tape.call("NegativeLogLikelihoodLoss", (scores, _classes(target, scores), weight), attributes)


def cross_entropy(scores: Array, target: Any, weight: Any = None, reduction: str = "mean", ignore_index: int | None = None) -> Array:
    """Return the negative log likelihood of classes, of unnormalized scores [batch, classes, ...]."""
    return nll_loss(scores.tape.call("LogSoftmax", (scores,), {"axis": 1}), target, weight, reduction, ignore_index)


def mse_loss(x: Array, y: Array, reduction: str = "mean") -> Array:
    """Return the mean, sum or elements of (x - y)^2."""
    d = x - y
    square = d * d
    return square if reduction == "none" else square.mean() if reduction == "mean" else square.sum()


def pick_neg_log_softmax(scores: Array, target: Any) -> Array:
    """Return -log(softmax(scores)[target]) over the last axis: of [classes] and an index, or of [batch, classes]."""
    return scores.tape.pick_neg_log_softmax(scores, _classes(target, scores))


def hinge(scores: Array, target: Any, margin: float = 1.0) -> Array:
    """Return the sum over other classes of max(0, margin - scores[target] + scores)."""
    return scores.tape.hinge(scores, _classes(target, scores), margin)


class _Function(Module):
    """A module of a function without parameters."""

    _function: Any

    def forward(self, x: Any) -> Any:
        """Return the function of x."""
        return type(self)._function(x)


class ReLU(_Function):
    """max(x, 0)."""

    _function = staticmethod(relu)


class Sigmoid(_Function):
    """1 / (1 + exp(-x))."""

    _function = staticmethod(sigmoid)


class Tanh(_Function):
    """The hyperbolic tangent."""

    _function = staticmethod(tanh)


class GELU(_Function):
    """x times the normal distribution function of x."""

    _function = staticmethod(gelu)


class Softmax(_Function):
    """exp(x) divided by its sum along the last axis."""

    _function = staticmethod(softmax)


class Flatten(_Function):
    """A matrix: the first axis, and the others."""

    _function = staticmethod(flatten)

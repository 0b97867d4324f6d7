"""Optimizers with the names, settings and formulas of PyTorch.

>>> optimizer = xcvm.optim.Adam(model.parameters(), lr=1e-3)
>>> loss.backward()
>>> optimizer.step()
>>> optimizer.zero_grad()
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ._tape import Variable

__all__ = ["SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "LARS", "Lion", "Optimizer", "RMSprop"]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return "/".join(_text(part) for part in value)
    return repr(float(value)) if isinstance(value, (int, float)) else str(value)


class Optimizer:
    """The base of optimizers; `Optimizer(parameters, "adam:lr=1e-3")` takes the command's text.

    Parameters
    ----------
    parameters : Module, or iterable of arrays or of pairs of name and array
    text : str
        The optimizer and its settings.
    clip_norm : float
        The greatest 2-norm of all gradients together; 0: no limit.
    clip_value : float
        The greatest magnitude of an element of a gradient; 0: no limit.
    average : float
        The decay of a moving average of each parameter; 0: none.
    """

    def __init__(self, parameters: Any, text: str, *, clip_norm: float = 0.0, clip_value: float = 0.0, average: float = 0.0) -> None:
        named = list(parameters.named_parameters() if hasattr(parameters, "named_parameters") else parameters)
        if not named:
            raise ValueError("an optimizer needs parameters")
        pairs = [(f"p{i}", item) if isinstance(item, Variable) else (str(item[0]), item[1]) for i, item in enumerate(named)]
        for name, parameter in pairs:
            if not isinstance(parameter, Variable):
                raise TypeError(f"parameter {name!r} is no array but {type(parameter).__name__}")
        tape: Any = pairs[0][1].tape
        self._optimizer = tape.optimizer(text, clip_norm=clip_norm, clip_value=clip_value, average=average)
        for name, parameter in pairs:
            self._optimizer.add(name, parameter)
        # A step is called often: these are the C functions.
        self.step: Callable[[], None] = self._optimizer.step
        self.zero_grad: Callable[[], None] = self._optimizer.clear_grads

    @property
    def lr(self) -> float:
        """The learning rate."""
        return self._optimizer.rate

    @lr.setter
    def lr(self, rate: float) -> None:
        self._optimizer.rate = rate

    @property
    def gradient_norm(self) -> float:
        """The 2-norm of all gradients before the last clipping; NaN if there was none."""
        return self._optimizer.gradient_norm

    def set_gradient_scale(self, scale: float) -> None:
        """Set the factor of gradients; for a scaled loss, the reciprocal of its scale."""
        self._optimizer.set_gradient_scale(scale)

    def add_hook(self, function: Callable[[str, Any, Any, int], Any]) -> None:
        """Call function(name, parameter, gradient, step) before each update; it may return another gradient."""
        self._optimizer.add_hook(function)

    def average(self, parameter: Any) -> Any:
        """Return the moving average of a parameter."""
        return self._optimizer.average(parameter)

    def swap_averages(self) -> None:
        """Swap the parameters and their averages, for evaluation and back."""
        self._optimizer.swap_averages()

    def state_dict(self) -> bytes:
        """Return a checkpoint: parameters, moments, rate and generator, as a safetensors file."""
        return self._optimizer.save("safetensors")

    def load_state_dict(self, checkpoint: bytes) -> None:
        """Restore a checkpoint. Training then continues with the same bits."""
        self._optimizer.load(checkpoint)

    def save(self, path: str | Path) -> None:
        """Write a checkpoint; .npz or safetensors by the name."""
        Path(path).write_bytes(self._optimizer.save("npz" if str(path).endswith(".npz") else "safetensors"))

    def load(self, path: str | Path) -> None:
        """Read a checkpoint."""
        self._optimizer.load(Path(path).read_bytes())


def _init(name: str, settings: dict[str, Any], owner: Any) -> Any:
    def __init__(self: Any, parameters: Any, **options: Any) -> None:
        common = {key: options.pop(key) for key in ("clip_norm", "clip_value", "average") if key in options}
        unknown = set(options) - set(settings)
        if unknown:
            raise TypeError(f"{owner} has no setting {', '.join(sorted(unknown))}; it has {', '.join(settings)}")
        text = ",".join(f"{key}={_text(value)}" for key, value in options.items())
        Optimizer.__init__(self, parameters, name + (":" + text if text else ""), **common)

    return __init__


class SGD(Optimizer):
    """Stochastic gradient descent. Settings: lr=0.01, momentum, dampening, nesterov, weight_decay, maximize."""

    __init__ = _init("sgd", dict.fromkeys(["lr", "weight_decay", "momentum", "dampening", "nesterov", "maximize"]), "SGD")


class Adam(Optimizer):
    """Adam. Settings: lr=0.001, betas=(0.9, 0.999), eps=1e-8, weight_decay, amsgrad, maximize."""

    __init__ = _init("adam", dict.fromkeys(["lr", "weight_decay", "betas", "eps", "amsgrad", "maximize"]), "Adam")


class AdamW(Optimizer):
    """Adam with decoupled weight decay. Settings: those of Adam, weight_decay=0.01."""

    __init__ = _init("adamw", dict.fromkeys(["lr", "weight_decay", "betas", "eps", "amsgrad", "maximize"]), "AdamW")


class RMSprop(Optimizer):
    """RMSprop. Settings: lr=0.01, alpha=0.99, eps=1e-8, momentum, centered, weight_decay, maximize."""

    __init__ = _init("rmsprop", dict.fromkeys(["lr", "weight_decay", "alpha", "eps", "momentum", "centered", "maximize"]), "RMSprop")


class Adagrad(Optimizer):
    """Adagrad. Settings: lr=0.01, lr_decay, initial_accumulator_value, eps=1e-10, weight_decay, maximize."""

    __init__ = _init("adagrad", dict.fromkeys(["lr", "weight_decay", "lr_decay", "initial_accumulator_value", "eps", "maximize"]), "Adagrad")


class Adadelta(Optimizer):
    """Adadelta. Settings: lr=1, rho=0.9, eps=1e-6, weight_decay, maximize."""

    __init__ = _init("adadelta", dict.fromkeys(["lr", "weight_decay", "rho", "eps", "maximize"]), "Adadelta")


class LARS(Optimizer):
    """LARS. Settings: lr=0.1, momentum, nesterov, trust_coefficient=0.001, eps=1e-8, weight_decay, maximize."""

    __init__ = _init("lars", dict.fromkeys(["lr", "weight_decay", "momentum", "nesterov", "trust_coefficient", "eps", "maximize"]), "LARS")


class Lion(Optimizer):
    """Lion. Settings: lr=0.0001, betas=(0.9, 0.99), weight_decay, maximize."""

    __init__ = _init("lion", dict.fromkeys(["lr", "weight_decay", "betas", "maximize"]), "Lion")

"""Element-wise operators of one, two and many operands."""
import math

import numpy as np

from case import FLOATS, INTEGERS, NUMBERS, SIGNED, UNSIGNED, Dropped
from table import operator


def exact(function):
    """A reference computed in double precision."""
    return lambda x: function(x.astype(np.float64))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


# name: (first opset, types, least and greatest operand, share of NaN and infinities, reference)
UNARY = {
    "Abs": (7, NUMBERS, -5, 5, 0.05, np.abs),
    "Acos": (7, FLOATS, -1, 1, 0, exact(np.arccos)),
    "Acosh": (9, FLOATS, 1, 50, 0, exact(np.arccosh)),
    "Asin": (7, FLOATS, -1, 1, 0, exact(np.arcsin)),
    "Asinh": (9, FLOATS, -20, 20, 0.02, exact(np.arcsinh)),
    "Atan": (7, FLOATS, -20, 20, 0.02, exact(np.arctan)),
    "Atanh": (9, FLOATS, -0.99, 0.99, 0, exact(np.arctanh)),
    "Ceil": (7, FLOATS, -20, 20, 0.05, np.ceil),
    "Cos": (7, FLOATS, -10, 10, 0, exact(np.cos)),
    "Cosh": (9, FLOATS, -5, 5, 0.02, exact(np.cosh)),
    "Erf": (9, FLOATS, -4, 4, 0, exact(erf)),
    "Exp": (7, FLOATS, -10, 10, 0.02, exact(np.exp)),
    "Floor": (7, FLOATS, -20, 20, 0.05, np.floor),
    "HardSwish": (14, FLOATS, -6, 6, 0, exact(lambda x: x * np.clip(x / 6 + 0.5, 0, 1))),
    "IsNaN": (9, FLOATS, -5, 5, 0.3, np.isnan),
    "Log": (7, FLOATS, 0.001, 50, 0, exact(np.log)),
    "Mish": (18, FLOATS, -10, 10, 0, exact(lambda x: x * np.tanh(np.logaddexp(0, x)))),
    "Neg": (7, FLOATS + SIGNED, -5, 5, 0.05, np.negative),
    "Not": (7, ["bool"], 0, 1, 0, np.logical_not),
    "Reciprocal": (7, FLOATS, 0.1, 20, 0, exact(np.reciprocal)),
    "Relu": (7, FLOATS, -5, 5, 0, lambda x: np.maximum(x, 0)),
    "Round": (11, FLOATS, -20, 20, 0.05, np.rint),
    "Sigmoid": (7, FLOATS, -20, 20, 0, exact(sigmoid)),
    "Sign": (9, NUMBERS, -2, 2, 0, np.sign),
    "Sin": (7, FLOATS, -10, 10, 0, exact(np.sin)),
    "Sinh": (9, FLOATS, -5, 5, 0.02, exact(np.sinh)),
    "Softplus": (7, FLOATS, -20, 20, 0, exact(lambda x: np.logaddexp(0, x))),
    "Softsign": (7, FLOATS, -20, 20, 0, exact(lambda x: x / (1 + np.abs(x)))),
    "Sqrt": (7, FLOATS, 0, 50, 0, exact(np.sqrt)),
    "Tan": (7, FLOATS, -1.4, 1.4, 0, exact(np.tan)),
    "Tanh": (7, FLOATS, -12, 12, 0.02, exact(np.tanh)),
    "BitwiseNot": (18, INTEGERS, -5, 5, 0, np.invert),
}
# Operators whose results for NaN and infinities in ONNX Runtime agree with their definition.
DEFINED_OF_NAN = ("LeakyRelu", "Shrink", "ThresholdedRelu")
# name: (first opset, attributes with bounds, reference)
ACTIVATIONS = {
    "Celu": (12, {"alpha": (0.3, 2)}, lambda x, alpha=1.0: np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha))),
    "Elu": (7, {"alpha": (0, 2)}, lambda x, alpha=1.0: np.where(x < 0, alpha * np.expm1(x), x)),
    "HardSigmoid": (7, {"alpha": (0.1, 1), "beta": (0, 1)},
                    lambda x, alpha=0.2, beta=0.5: np.clip(alpha * x + beta, 0, 1)),
    "LeakyRelu": (7, {"alpha": (-1, 1)}, lambda x, alpha=0.01: np.where(x < 0, alpha * x, x)),
    "Selu": (7, {"alpha": (0.5, 2), "gamma": (0.5, 2)},
             lambda x, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875:
             gamma * np.where(x > 0, x, alpha * np.expm1(x))),
    "Shrink": (9, {"lambd": (0.1, 2), "bias": (-1, 1)},
               lambda x, lambd=0.5, bias=0.0: np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))),
    "ThresholdedRelu": (10, {"alpha": (0, 2)}, lambda x, alpha=1.0: np.where(x > alpha, x, 0)),
}


LOWEST = {"f16": -65504.0, "bf16": -(2.0 - 2.0 ** -7) * 2.0 ** 127, "f32": -(2.0 - 2.0 ** -23) * 2.0 ** 127,
          "f64": -np.finfo(np.float64).max}


def declare_unary(name, since, kinds, low, high, special, reference):
    @operator(name, since)
    def draw(case):
        kind = case.kind(kinds)
        x = case.values(case.shape(), kind, low, high, special if case.chance(0.3) else 0)
        if kind in SIGNED and name in ("Abs", "Neg"):
            x = np.maximum(x, np.iinfo(x.dtype).min + 1)
        if kind == "f16" and name in ("Exp", "Cosh", "Sinh"):
            x = np.where(np.isfinite(x), np.clip(x, -9, 9), x)
        y = case.node(name, [case.feed(x, kind)])
        result = "bool" if name == "IsNaN" else kind
        with np.errstate(all="ignore"):
            case.output(y, result, reference(x))
        if name == "HardSwish" and kind == "f64":
            case.within(1e-6)  # the factor is a single-precision attribute of HardSigmoid
        if name in ("Tan", "Atanh", "Acosh"):
            case.within(5e-3 if kind == "f16" else 2e-5 if kind == "f32" else 1e-11)


def declare_activation(name, since, bounds, reference):
    @operator(name, since)
    def draw(case):
        kind = case.kind(FLOATS)
        x = case.values(case.shape(), kind, -5, 5, 0.1 if name in DEFINED_OF_NAN and case.chance(0.3) else 0)
        attributes = {key: case.real(*value) for key, value in bounds.items() if case.chance(0.6)}
        y = case.node(name, [case.feed(x, kind)], **attributes)
        with np.errstate(all="ignore"):
            case.output(y, kind, reference(x.astype(np.float64), **attributes))
        if kind == "f64" and name in ("HardSigmoid", "Shrink", "Selu", "Celu", "LeakyRelu"):
            case.within(1e-6)  # the peer computes in single precision


for _name, _entry in UNARY.items():
    declare_unary(_name, *_entry)
for _name, _entry in ACTIVATIONS.items():
    declare_activation(_name, *_entry)


@operator("Gelu", 20)
def gelu(case):
    kind = case.kind(FLOATS)
    x = case.values(case.shape(), kind, -5, 5)
    approximate = case.choice([None, "none", "tanh"])
    y = case.node("Gelu", [case.feed(x, kind)], approximate=approximate)
    x = x.astype(np.float64)
    inner = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)) if approximate == "tanh" else erf(x / math.sqrt(2))
    case.output(y, kind, 0.5 * x * (1 + inner))
    if kind == "f64":
        case.within(1e-6)  # the constants of the definition's function are in single precision


@operator("Swish", 24)
def swish(case):
    kind = case.kind(FLOATS)
    x = case.values(case.shape(), kind, -5, 5)
    alpha = case.choice([None, case.real(-1, 2)])
    y = case.node("Swish", [case.feed(x, kind)], alpha=alpha)
    x = x.astype(np.float64)
    case.output(y, kind, x * sigmoid((1.0 if alpha is None else alpha) * x))


@operator("IsInf", 10)
def is_inf(case):
    kind = case.kind(["f32", "f64"] + (["f16"] if case.opset >= 20 else []))
    x = case.values(case.shape(), kind, -5, 5, 0.4)
    positive, negative = case.choice([None, 0, 1]), case.choice([None, 0, 1])
    y = case.node("IsInf", [case.feed(x, kind)], detect_positive=positive, detect_negative=negative)
    case.output(y, "bool", (np.isposinf(x) & (positive != 0)) | (np.isneginf(x) & (negative != 0)))


@operator("Clip", weight=2)
def clip(case):
    kind = case.kind(FLOATS if case.opset < 12 else NUMBERS)
    shape = case.shape()
    x = case.values(shape, kind, -5, 5, 0.02 if case.chance(0.3) and kind in FLOATS else 0)
    low, high = sorted(case.values([2], kind, -4, 4))
    bounded = case.choice(["both", "both", "low", "high", "neither"])
    low = low if bounded in ("both", "low") else None
    high = high if bounded in ("both", "high") else None
    if case.opset < 11:
        if kind == "f64":
            raise Dropped
        y = case.node("Clip", [case.feed(x, kind)], min=None if low is None else float(low),
                      max=None if high is None else float(high))
    else:
        y = case.node("Clip", [case.feed(x, kind)] + ["" if b is None else case.feed(np.array(b), kind, 0.7)
                                                      for b in (low, high)])
    if kind in FLOATS:  # bounds that are left out are finite
        low = LOWEST[kind] if low is None else low
        high = -LOWEST[kind] if high is None else high
    lowest = x if low is None else np.where(np.isnan(x.astype(float)), x, np.maximum(x, low))
    case.output(y, kind, lowest if high is None else np.where(np.isnan(x.astype(float)), x, np.minimum(lowest, high)))


# ---- Two operands ----

def kinds_of(case, name):
    opset = case.opset
    if name in ("And", "Or", "Xor"):
        return ["bool"]
    if name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        return INTEGERS
    if name == "BitShift":
        return UNSIGNED
    if name == "Equal":
        return ["bool", "i32", "i64"] + (list(NUMBERS) if opset >= 11 else []) + (["str"] if opset >= 19 else [])
    if name in ("Less", "Greater"):
        return FLOATS if opset < 9 else NUMBERS
    if name in ("LessOrEqual", "GreaterOrEqual", "Mod"):
        return NUMBERS
    if name == "Pow":
        return FLOATS if opset < 12 else ["f16", "f32", "f64", "i32", "i64"]
    return list(FLOATS) + ["i32", "i64", "u32", "u64"] if opset < 14 else NUMBERS


BINARY = {
    "Add": (7, np.add), "Sub": (7, np.subtract), "Mul": (7, np.multiply), "Div": (7, None), "And": (7, np.logical_and),
    "Or": (7, np.logical_or), "Xor": (7, np.logical_xor), "Equal": (7, np.equal), "Less": (7, np.less),
    "Greater": (7, np.greater), "LessOrEqual": (12, np.less_equal), "GreaterOrEqual": (12, np.greater_equal),
    "BitwiseAnd": (18, np.bitwise_and), "BitwiseOr": (18, np.bitwise_or), "BitwiseXor": (18, np.bitwise_xor),
    "Pow": (7, None), "Mod": (10, None), "BitShift": (11, None),
}
TRUTHS = ("And", "Or", "Xor", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")


def truncated(x, y):
    if x.dtype.kind == "f":
        return x / y
    if x.dtype.kind == "u":
        return x // y
    x, y = x.astype(np.int64), y.astype(np.int64)
    return np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))


def operands(case, kind, low=-5.0, high=5.0, special=0.0):
    shape = case.shape(high=5 if case.chance(0.1) else 4)
    first, second = case.broadcastable(shape), case.broadcastable(shape)
    if case.chance(0.3):
        first = second = shape
    return case.values(first, kind, low, high, special), case.values(second, kind, low, high, special)


def declare_binary(name, since, function):
    @operator(name, since, weight=2)
    def draw(case):
        kind = case.kind(kinds_of(case, name))
        attributes = {}
        special = 0.03 if case.chance(0.2) and kind in FLOATS and name not in ("Pow", "Mod") else 0
        x, y = operands(case, kind, special=special)
        y_kind = kind
        if name in TRUTHS and kind in FLOATS:
            x, y = np.round(x * 2) / 2, np.round(y * 2) / 2
        reference = function
        if name == "Div":
            if kind not in FLOATS:
                y = np.where(y == 0, np.array(3, y.dtype), y)
            elif not special:
                y = np.where(np.abs(y) < 0.01, np.array(0.5, y.dtype), y)
            reference = truncated
        elif name == "Pow":
            reference = None
            if kind in FLOATS:
                x = np.abs(x) + np.array(0.1, x.dtype)
                y = y.clip(-3, 3)
            else:
                x, y = x.clip(-9, 9), (np.abs(y) % np.array(6, y.dtype)).astype(y.dtype)
            if case.opset >= 12 and case.chance(0.4):
                y_kind = case.choice(["f32", "f64", "i32", "i64"])
                y = y.astype({"f32": "f4", "f64": "f8", "i32": "i4", "i64": "i8"}[y_kind])
            if case.chance(0.3):  # exponents that the compiler has a shorter way for
                y = np.array(case.choice([0, 1, 2, 3, 4] + ([-1, -2] if kind in FLOATS else [])), y.dtype)
        elif name == "Mod":
            fmod = 1 if kind in FLOATS else case.choice([None, 0, 1])
            attributes["fmod"] = fmod
            y = np.where(y == 0, np.array(3, y.dtype), y) if kind not in FLOATS else \
                np.where(np.abs(y) < 0.2, np.array(0.75, y.dtype), y)
            reference = np.fmod if fmod else np.mod
        elif name == "BitShift":
            attributes["direction"] = case.choice(["LEFT", "RIGHT"])
            y = (y % np.array(x.dtype.itemsize * 8, y.dtype)).astype(y.dtype)
            reference = np.left_shift if attributes["direction"] == "LEFT" else np.right_shift
        z = case.node(name, [case.feed(x, kind), case.feed(y, y_kind)], **attributes)
        with np.errstate(all="ignore"):
            expected = reference(x, y) if reference is not None else None
        case.output(z, "bool" if name in TRUTHS else kind, expected)
        if name == "Pow":
            case.within(*{"f16": (1e-2, 1e-2), "f32": (2e-5, 2e-6), "f64": (1e-6, 1e-6)}.get(kind, (0, 0)))
        if name == "Mod" and kind in FLOATS:
            case.within(1e-6, {"f16": 1e-3, "f32": 1e-6, "f64": 1e-12}[kind])


for _name, _entry in BINARY.items():
    declare_binary(_name, *_entry)


@operator("PRelu")
def prelu(case):
    kind = case.kind(FLOATS if case.opset < 9 else list(FLOATS) + ["i32", "i64", "u32", "u64"])
    shape = case.shape()
    x, slope = case.values(shape, kind, -5, 5), case.values(case.broadcastable(shape), kind, -2, 2)
    case.output(case.node("PRelu", [case.feed(x, kind), case.feed(slope, kind)]), kind,
                np.where(x < 0, (slope * x).astype(x.dtype), x))


def declare_variadic(name, function):
    @operator(name, 8)
    def draw(case):
        kind = case.kind(FLOATS if name in ("Sum", "Mean") or case.opset < 12 else NUMBERS)
        shape = case.shape()
        arrays = [case.values(case.broadcastable(shape, 0.25), kind, -5, 5) for _ in range(case.integer(1, 6))]
        y = case.node(name, [case.feed(array, kind) for array in arrays])
        expected = arrays[0]
        for array in arrays[1:]:
            expected = function(expected, array)
        case.output(y, kind, expected / len(arrays) if name == "Mean" else expected)
        if kind == "f16" and name in ("Sum", "Mean"):
            case.within(1e-2)
        elif name in ("Sum", "Mean") and kind == "f32":
            case.within(1e-5, 5e-6)


for _name, _function in {"Max": np.maximum, "Min": np.minimum, "Sum": np.add, "Mean": np.add}.items():
    declare_variadic(_name, _function)


@operator("Where", 9, weight=2)
def where(case):
    kind = case.kind(list(NUMBERS) + ["bool", "str"])
    shape = case.shape()
    condition, x, y = (case.values(case.broadcastable(shape), k, -5, 5) for k in ("bool", kind, kind))
    z = case.node("Where", [case.feed(condition, "bool"), case.feed(x, kind), case.feed(y, kind)])
    case.output(z, kind, np.where(condition, x, y))


# ---- Half-precision types that ONNX Runtime does not support ----

BFLOAT = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum, "Min": np.minimum, "Abs": np.abs,
          "Neg": np.negative, "Exp": np.exp, "Tanh": np.tanh, "Sqrt": lambda x: np.sqrt(np.abs(x)),
          "Sigmoid": sigmoid, "Relu": lambda x: np.maximum(x, 0), "Floor": np.floor, "Less": np.less,
          "Equal": np.equal, "Sign": np.sign, "Cos": np.cos, "Erf": erf, "Reciprocal": np.reciprocal,
          "Log": lambda x: np.log(np.abs(x))}


def declare_bfloat(name, function):
    @operator(name, 14)
    def draw(case):
        two = isinstance(function, np.ufunc) and function.nin == 2
        x, y = operands(case, "bf16", -3, 3)
        if name in ("Sqrt", "Log", "Reciprocal"):
            x = np.maximum(np.abs(x), np.float32(0.125))
        z = case.node(name, [case.feed(x, "bf16")] + ([case.feed(y, "bf16")] if two else []))
        case.output(z, "bool" if name in TRUTHS else "bf16", function(x, y) if two else function(x))
        if name not in TRUTHS:
            case.within(2.0 ** -6, 2.0 ** -8)


for _name, _function in BFLOAT.items():
    declare_bfloat(_name, _function)

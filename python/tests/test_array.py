"""The array API functions and the operators beside NumPy's."""

import operator
import pickle
import re
import unittest

import numpy as np
from support import ROOT

import xcvm
import xcvm.array as xp

FLOATS = ("float32", "float64")
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
generator = np.random.default_rng(0)


def draw(dtype, *shape):
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype in FLOATS:
        return generator.uniform(-3, 3, shape).astype(dtype)
    return generator.integers(0 if dtype[0] == "u" else -9, 10, shape).astype(dtype)


class Base(unittest.TestCase):
    def same(self, got, expected, what="", rtol=None):
        expected = np.asarray(expected)
        got = np.asarray(got)
        self.assertEqual(got.shape, expected.shape, what)
        self.assertEqual(got.dtype, expected.dtype, what)
        if expected.dtype.kind == "f":
            rtol = rtol or (2e-6 if expected.dtype == np.float32 else 1e-13)
            np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol, err_msg=what)
        else:
            np.testing.assert_array_equal(got, expected, what)


class Elementwise(Base):
    def test_unary_floats(self):
        inputs = {
            "acos": np.linspace(-1, 1, 9), "acosh": np.linspace(1, 9, 9), "asin": np.linspace(-1, 1, 9), "atanh": np.linspace(-0.9, 0.9, 9),
            "log": np.linspace(0.1, 9, 9), "log2": np.linspace(0.1, 9, 9), "log10": np.linspace(0.1, 9, 9), "sqrt": np.linspace(0, 9, 9),
            "log1p": np.array([1e-7, -1e-7, 0.3, -0.4, 0.6, 5, -0.9]), "expm1": np.array([1e-7, -1e-7, 0.3, -0.4, 0.6, 5, -9]),
        }
        names = {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atanh": "arctanh"}
        for name in ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log", "log1p", "log2", "log10", "sin", "sinh", "sqrt", "tan", "tanh"]:
            for dtype in FLOATS:
                x = inputs.get(name, np.linspace(-3, 3, 13)).astype(dtype)
                self.same(getattr(xp, name)(xp.asarray(x)), getattr(np, names.get(name, name))(x), name)
            with self.assertRaises(TypeError, msg=name):
                getattr(xp, name)(xp.asarray([1, 2]))

    def test_nextafter(self):
        for dtype in FLOATS:
            values = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -2.5, 1e-45, -1e-45, np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal]).astype(dtype)
            a, b = (axis.reshape(-1) for axis in np.meshgrid(values, values))
            with np.errstate(over="ignore"):
                expected = np.nextafter(a, b)
            got = np.asarray(xp.nextafter(xp.asarray(a), xp.asarray(b)))
            self.assertEqual(got.dtype, expected.dtype)
            np.testing.assert_array_equal(got, expected)
            np.testing.assert_array_equal(np.signbit(got)[~np.isnan(expected)], np.signbit(expected)[~np.isnan(expected)])
        with self.assertRaises(TypeError):
            xp.nextafter(xp.asarray([1]), xp.asarray([2]))

    def test_diagonals_far_outside(self):
        for k in (10**30, -(10**30)):
            self.same(xp.eye(2, 3, k=k), np.zeros((2, 3), "float32"))
            self.same(xp.tril(xp.ones((2, 3)), k=k), np.full((2, 3), k > 0, "float32"))
            self.same(xp.triu(xp.ones((2, 3)), k=k), np.full((2, 3), k < 0, "float32"))

    def test_unary_numbers(self):
        for dtype in FLOATS + INTS:
            x = draw(dtype, 3, 4)
            for name in ["abs", "sign", "square", "positive", "ceil", "floor", "trunc", "round", "isnan", "isinf", "isfinite", "negative"]:
                expected = getattr(np, name)(x)
                if name in ("ceil", "floor", "trunc"):
                    expected = expected.astype(dtype)
                self.same(getattr(xp, name)(xp.asarray(x)), expected, f"{name} {dtype}")
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 2.5, -2.5, 0.5, -0.5], np.float32)
        for name in ["sign", "ceil", "floor", "trunc", "round", "isnan", "isinf", "isfinite", "signbit", "abs"]:
            if name == "signbit":
                self.same(xp.signbit(xp.asarray(special[:4])), np.signbit(special[:4]))
            else:
                self.same(getattr(xp, name)(xp.asarray(special)), getattr(np, name)(special), name)

    def test_binary(self):
        for dtype in FLOATS + INTS:
            a, b = draw(dtype, 3, 1, 4), draw(dtype, 2, 1)
            b[b == 0] = 3
            x, y = xp.asarray(a), xp.asarray(b)
            for name in ["add", "subtract", "multiply", "maximum", "minimum", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "remainder", "floor_divide"]:
                self.same(getattr(xp, name)(x, y), getattr(np, name)(a, b), f"{name} {dtype}")
            if dtype in FLOATS:
                self.same(xp.divide(x, y), a / b)
                for name, other in [("atan2", "arctan2"), ("hypot", "hypot"), ("copysign", "copysign"), ("logaddexp", "logaddexp")]:
                    self.same(getattr(xp, name)(x, y), getattr(np, other)(a, b), name)
                self.same(xp.pow(xp.abs(x), y), np.abs(a) ** b)
            else:
                for name, other in [("bitwise_and",) * 2, ("bitwise_or",) * 2, ("bitwise_xor",) * 2]:
                    self.same(getattr(xp, name)(x, y), getattr(np, other)(a, b), name)
                s = np.abs(b) % 5
                s = s.astype(dtype)
                self.same(xp.bitwise_left_shift(x, xp.asarray(s)), np.left_shift(a, s), f"<< {dtype}")
                self.same(xp.bitwise_right_shift(x, xp.asarray(s)), np.right_shift(a, s), f">> {dtype}")
                self.same(xp.bitwise_invert(x), ~a)
        a, b = draw("bool", 5), draw("bool", 5)
        x, y = xp.asarray(a), xp.asarray(b)
        for name in ["logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "equal", "not_equal"]:
            self.same(getattr(xp, name)(x, y), getattr(np, name)(a, b), name)
        self.same(xp.logical_not(x), ~a)

    def test_floor_division_at_the_limits(self):
        with np.errstate(all="ignore"):
            for dtype in ("int8", "int16", "int32", "int64"):
                x = np.array([np.iinfo(dtype).min, np.iinfo(dtype).min + 1, np.iinfo(dtype).max, -1, 0], dtype)
                for y in (3, -3, 7, 1):
                    y = np.array(y, dtype)
                    self.same(xp.asarray(x) // xp.asarray(y), x // y, (dtype, y))
                    self.same(xp.asarray(x) % xp.asarray(y), x % y, (dtype, y))
            for dtype in FLOATS:
                x = np.array([1, -1, 0.3, 7, 5.5, np.inf, np.nan, 0, -0.5], dtype)
                for y in (0.1, -0.1, 0.3, -2, np.inf, -np.inf, 0, np.nan):
                    y = np.array(y, dtype)
                    # Where one of the two is infinite the standard has the quotient, and NumPy has NaN or -1.
                    one = (np.isinf(x) & np.isfinite(y) & (y != 0)) | (np.isfinite(x) & np.isinf(y))
                    expected = np.where(one, x / y, x // y)
                    self.same(xp.asarray(x) // xp.asarray(y), expected, (dtype, y))

    def test_negative_powers_of_integers(self):
        for x in (np.array([2, 3]), np.array([2, 3], np.uint8)):
            with self.assertRaises(ValueError):
                xp.asarray(x) ** -1
        self.same(xp.asarray(np.array([2.0, 4.0])) ** -1, np.array([0.5, 0.25]))

    def test_special_values(self):
        v = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], np.float64)
        a, b = (g.ravel() for g in np.meshgrid(v, v))
        x, y = xp.asarray(a), xp.asarray(b)
        with np.errstate(all="ignore"):
            for name, other in [("atan2", "arctan2"), ("hypot", "hypot"), ("maximum", "maximum"), ("minimum", "minimum"), ("pow", "power"), ("logaddexp", "logaddexp")]:
                self.same(getattr(xp, name)(x, y), getattr(np, other)(a, b), name)
        self.assertTrue(np.signbit(np.asarray(xp.atan2(xp.asarray(-0.0), xp.asarray(1.0)))))

    def test_operators(self):
        for dtype in ("float32", "int32", "uint8"):
            a, b = draw(dtype, 4), draw(dtype, 4) + np.asarray(10, dtype)
            x, y = xp.asarray(a), xp.asarray(b)
            for op in [operator.add, operator.sub, operator.mul, operator.mod, operator.floordiv, operator.lt, operator.eq, operator.ne]:
                self.same(op(x, y), op(a, b), f"{op} {dtype}")
                self.same(op(x, 3), op(a, 3), f"{op} {dtype}")
                self.same(op(30, y), op(30, b), f"{op} {dtype}")
        x, a = xp.asarray([1.0, 2.0]), np.array([1, 2], np.float32)
        self.same(1 / x, 1 / a)
        self.same(2.5**x, np.float32(2.5) ** a)
        self.same(np.array([3, 4], np.float32) - x, np.array([3, 4], np.float32) - a)
        self.same(x @ x, a @ a)
        self.same(abs(-x), a)
        self.assertEqual((float(x[1]), int(x[1]), bool(x[0]), operator.index(xp.asarray(7))), (2.0, 2, True, 7))
        self.assertEqual([float(v) for v in x], [1.0, 2.0])
        for call in [lambda: xp.asarray([1]) + 1.5, lambda: xp.asarray([True]) + 1, lambda: ~x, lambda: xp.asarray([1]) / 2, lambda: x + "a", lambda: float(x), lambda: operator.index(x[0]), lambda: len(x[0]), lambda: xp.asarray([1]) << 1.5, lambda: x + 1j]:
            with self.assertRaises(TypeError):
                call()
        with self.assertRaises(OverflowError):
            xp.asarray([1], dtype="int8") + 300
        with self.assertRaises(ValueError):
            x + xp.ones(3)
        self.assertTrue(hash(x) is not None)

    def test_promotion(self):
        for a in FLOATS + INTS:
            for b in FLOATS + INTS:
                x, y = xp.ones(1, dtype=a), xp.ones(1, dtype=b)
                mixed = (a in FLOATS) != (b in FLOATS) or {a, b} & {"uint64"} and {a, b} & {"int8", "int16", "int32", "int64"}
                if mixed:
                    with self.assertRaises(TypeError):
                        x + y
                else:
                    self.assertEqual((x + y).dtype.name, np.result_type(a, b).name)
                    self.assertEqual(xp.result_type(a, b).name, np.result_type(a, b).name)
        self.assertTrue(xp.can_cast(xp.int8, xp.int16))
        self.assertFalse(xp.can_cast(xp.int16, xp.int8))
        self.assertEqual((xp.float16, xp.bfloat16), ("f16", "bf16"))
        self.assertEqual((xp.asarray([1.0], dtype="bf16") + 1).dtype, xp.bfloat16)

    def test_clip_and_where(self):
        a = draw("float32", 3, 4)
        x = xp.asarray(a)
        self.same(xp.clip(x, -1, 1), np.clip(a, np.float32(-1), np.float32(1)))
        self.same(xp.clip(x, max=0.5), np.minimum(a, np.float32(0.5)))
        self.same(xp.where(x > 0, x, 0), np.where(a > 0, a, np.float32(0)))


class Structure(Base):
    def test_creation(self):
        self.same(xp.arange(5), np.arange(5))
        self.same(xp.arange(2, 9, 3), np.arange(2, 9, 3))
        self.same(xp.arange(5, 0, -2), np.arange(5, 0, -2))
        self.same(xp.arange(0, 1, 0.25), np.arange(0, 1, 0.25, np.float32))
        self.same(xp.arange(0), np.arange(0))
        self.same(xp.linspace(0, 1, 5), np.linspace(0, 1, 5, dtype=np.float32))
        self.same(xp.linspace(0, 1, 4, endpoint=False), np.linspace(0, 1, 4, endpoint=False, dtype=np.float32))
        self.same(xp.linspace(1, 3, 7, dtype="float64"), np.linspace(1, 3, 7))
        self.same(xp.eye(3), np.eye(3, dtype=np.float32))
        self.same(xp.eye(2, 4, k=1, dtype="int32"), np.eye(2, 4, k=1, dtype=np.int32))
        for shape in [(), (0,), (2, 3), 4]:
            self.same(xp.zeros(shape), np.zeros(shape, np.float32))
            self.same(xp.ones(shape, dtype="bool"), np.ones(shape, bool))
            self.same(xp.full(shape, 7), np.full(shape, 7))
        x = xp.asarray(draw("float64", 2, 3))
        self.same(xp.zeros_like(x), np.zeros((2, 3)))
        self.same(xp.full_like(x, 2, dtype="int16"), np.full((2, 3), 2, np.int16))
        self.same(xp.tril(x, k=-1), np.tril(np.asarray(x), -1))
        self.same(xp.triu(x), np.triu(np.asarray(x)))
        for indexing in ("xy", "ij"):
            for got, expected in zip(xp.meshgrid(xp.arange(2), xp.arange(3), xp.arange(4), indexing=indexing), np.meshgrid(*map(np.arange, (2, 3, 4)), indexing=indexing)):
                self.same(got, expected)
        self.same(xp.from_dlpack(np.arange(3.0)), np.arange(3.0))
        self.same(np.from_dlpack(x), np.asarray(x))
        self.same(xp.asarray([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]]))
        self.same(xp.asarray([x[0, 0], x[0, 1]]), np.asarray(x)[0, :2])
        self.same(xp.asarray(3, dtype="float64"), np.float64(3))
        copy = xp.asarray(x, copy=True)
        copy[0, 0] = 9
        self.assertNotEqual(float(x[0, 0]), 9)

    def test_indexing(self):
        a = draw("float32", 4, 5, 6)
        x = xp.asarray(a)
        for key in [0, -1, (1, 2), (1, 2, 3), slice(1, 3), slice(None, None, -1), slice(10, 0, -2), slice(-3, None), slice(3, 1), (slice(None), 2), (Ellipsis, 1), (0, Ellipsis, slice(None, None, 2)),
                    None, (None, 0, None, slice(1, 2)), (slice(None), None, Ellipsis), Ellipsis, (slice(4, None, -1), slice(None), slice(-1, -9, -3)), slice(-9, 99)]:
            self.same(x[key], a[key], str(key))
        i, j = np.array([[0, 3], [-1, 2]]), np.array([1, 0])
        for key in [i, (slice(None), i), (i, j), (i, slice(None), j), (slice(1, None), i, j), (Ellipsis, i), [0, 2], (slice(None), j, None)]:
            own = tuple(xp.asarray(k) if isinstance(k, np.ndarray) else k for k in key) if isinstance(key, tuple) else xp.asarray(key)
            self.same(x[own], a[key], str(key))
        self.same(x[x > 0], a[a > 0])
        mask = draw("bool", 4, 5)
        self.same(x[xp.asarray(mask)], a[mask])
        self.same(x[xp.asarray(mask[:, 0]), 1], a[mask[:, 0], 1])
        self.same(x[0, xp.asarray(mask[0])], a[0, mask[0]])
        self.same(x[xp.asarray(True)], a[True])
        self.same(xp.take(x, xp.asarray([1, 0]), axis=1), np.take(a, [1, 0], 1))
        order = np.argsort(a, axis=1)
        self.same(xp.take_along_axis(x, xp.asarray(order), axis=1), np.take_along_axis(a, order, 1))
        for key in [4, -5, (0, 9), (0, 0, 0, 0), (Ellipsis, Ellipsis), xp.asarray([9]), xp.asarray(mask.T), xp.asarray([1.0])]:
            with self.assertRaises(IndexError, msg=str(key)):
                x[key]
        with self.assertRaises(TypeError):
            x[1.5]

    def test_integers_beside_index_arrays(self):
        a = draw("float32", 4, 5, 6)
        x = xp.asarray(a)
        i, j = np.array([0, 3]), np.array([[1], [-2]])
        for key in [(0, slice(None), i), (i, slice(None), 0), (i, 0), (0, i), (i, j, 0), (0, i, j), (i, -1, j), (i, None, 0), (None, i, 0), (Ellipsis, i, 2), (0, None, i), (i, j, -1), (slice(1, 3), 0, i)]:
            own = tuple(xp.asarray(k) if isinstance(k, np.ndarray) else k for k in key)
            self.same(x[own], a[key], str(key))
        with self.assertRaises(IndexError):
            x[xp.asarray(i), 5, xp.asarray(j)]

    def test_a_bool_is_not_a_position(self):
        a = np.arange(6.0).reshape(2, 3)
        for key in (True, False, np.bool_(True), np.array(True), np.array(False)):
            with self.subTest(key=repr(key)):
                self.same(xp.asarray(a)[key], a[key])
                x, y = xp.asarray(a), a.copy()
                x[key] = 9.0
                y[key] = 9.0
                self.same(x, y)
        self.same(xp.asarray(a)[np.array(1)], a[1])

    def test_assignment(self):
        for key, value in [(0, 1), ((slice(1, 3), 2), 5.0), (slice(None, None, -2), np.arange(5, dtype=np.float32)), ((Ellipsis, 0), 7)]:
            a = draw("float32", 4, 5)
            x = xp.asarray(a)
            a = a.copy()
            a[key] = value
            x[key] = value if not isinstance(value, np.ndarray) else xp.asarray(value)
            self.same(x, a)
        a = draw("float32", 4, 5)
        x, a = xp.asarray(a), a.copy()
        x[x > 0] = 0
        a[a > 0] = 0
        self.same(x, a)
        with self.assertRaises((TypeError, ValueError)):
            x[0] = xp.ones(5, dtype="float64")
        with self.assertRaises(ValueError):
            xp.parameter([1.0])[0] = 2

    def test_manipulation(self):
        a = draw("float32", 2, 3, 4)
        x = xp.asarray(a)
        self.same(xp.reshape(x, (4, -1)), a.reshape(4, -1))
        self.same(x.reshape(6, 4), a.reshape(6, 4))
        self.same(xp.permute_dims(x, (2, 0, 1)), a.transpose(2, 0, 1))
        self.same(xp.moveaxis(x, 0, -1), np.moveaxis(a, 0, -1))
        self.same(xp.expand_dims(x, axis=1), a[:, None])
        self.same(xp.expand_dims(x, 1), a[:, None])
        self.same(xp.squeeze(xp.expand_dims(x, axis=-1), -1), a)
        self.same(xp.concat([x, x], axis=2), np.concatenate([a, a], 2))
        self.same(xp.concat([x, x], axis=None), np.concatenate([a, a], None))
        self.same(xp.stack([x, x], axis=-1), np.stack([a, a], -1))
        for got, expected in zip(xp.unstack(x, axis=1), np.moveaxis(a, 1, 0)):
            self.same(got, expected)
        self.same(xp.flip(x), np.flip(a))
        self.same(xp.flip(x, axis=(0, 2)), np.flip(a, (0, 2)))
        for shift, axis in [(2, None), (-1, 1), ((1, 2), (0, 2)), (9, 2)]:
            self.same(xp.roll(x, shift, axis=axis), np.roll(a, shift, axis))
        self.same(xp.repeat(x, 2, axis=1), np.repeat(a, 2, 1))
        self.same(xp.repeat(x, xp.asarray([0, 2, 1]), axis=1), np.repeat(a, [0, 2, 1], 1))
        self.same(xp.tile(x, (2, 1, 1, 3)), np.tile(a, (2, 1, 1, 3)))
        self.same(xp.broadcast_to(x, (5, 2, 3, 4)), np.broadcast_to(a, (5, 2, 3, 4)))
        self.same(x.mT, np.swapaxes(a, -1, -2))
        self.same(x[0].T, a[0].T)
        for call in [lambda: xp.reshape(x, (5, 5)), lambda: xp.squeeze(x, 0), lambda: xp.permute_dims(x, (0, 0, 1)), lambda: xp.broadcast_to(x, (3, 3, 4)), lambda: xp.concat([x, x], axis=3), lambda: x.T]:
            with self.assertRaises(ValueError):
                call()

    def test_reductions(self):
        for dtype in ("float32", "float64", "int32", "uint8", "int64"):
            a = draw(dtype, 3, 4, 5)
            x = xp.asarray(a)
            for axis in [None, 0, -1, (0, 2)]:
                for keep in (False, True):
                    for name in ["sum", "prod", "max", "min"]:
                        if name == "prod" and dtype == "float32":
                            continue
                        self.same(getattr(xp, name)(x, axis=axis, keepdims=keep), getattr(np, name)(a, axis=axis, keepdims=keep), f"{name} {dtype} {axis}", 1e-5 if dtype == "float32" else None)
            for name in ["argmax", "argmin"]:
                for axis in [None, 1]:
                    self.same(getattr(xp, name)(x, axis=axis), getattr(np, name)(a, axis=axis), name)
            self.same(xp.cumulative_sum(x, axis=1), np.cumsum(a, 1), "cumsum", 1e-5)
            self.same(xp.all(x, axis=0), np.all(a, 0))
            self.same(xp.any(x), np.any(a))
            self.same(xp.count_nonzero(x, axis=1), np.count_nonzero(a, 1))
            self.same(xp.diff(x, axis=0), np.diff(a, axis=0))
            self.same(xp.sort(x, axis=1), np.sort(a, 1))
            self.same(xp.sort(x, descending=True), -np.sort(-a) if dtype != "uint8" else np.sort(a)[..., ::-1])
            self.same(xp.argsort(x, axis=0), np.argsort(a, 0, kind="stable"))
        a = draw("float64", 3, 4)
        x = xp.asarray(a)
        self.same(xp.mean(x, axis=1), a.mean(1))
        self.same(xp.var(x, axis=0, correction=1), a.var(0, ddof=1))
        self.same(xp.std(x), a.std())
        self.same(xp.cumulative_sum(x[0], include_initial=True), np.concatenate([[0], np.cumsum(a[0])]))
        self.same(xp.sum(xp.zeros((0, 2))), np.float32(0))
        self.same(xp.all(xp.zeros((0, 2)), axis=0), np.array([True, True]))
        self.same(xp.sum(xp.asarray([True, True])), np.int64(2))
        for call in [lambda: xp.max(xp.zeros((0,))), lambda: xp.sum(x, axis=2), lambda: xp.sum(x, axis=(0, 0)), lambda: xp.cumulative_sum(x)]:
            with self.assertRaises(ValueError):
                call()

    def test_sets_and_searching(self):
        a = np.array([[3, 1, 2], [1, 3, 3]])
        for dtype in ("int64", "float32"):
            x = xp.asarray(a.astype(dtype))
            values, indices, inverse, counts = xp.unique_all(x)
            expected = np.unique(a.astype(dtype), return_index=True, return_counts=True)
            for got, want in zip((values, indices, counts), expected):
                self.same(got, want)
            self.same(xp.take(values, inverse), a.astype(dtype))
            self.same(xp.unique_values(x), expected[0])
        for got, want in zip(xp.nonzero(xp.asarray(a > 1)), np.nonzero(a > 1)):
            self.same(got, want)
        for side in ("left", "right"):
            self.same(xp.searchsorted(xp.asarray([1.0, 2, 2, 5]), xp.asarray([[2.0, 0], [9, 5]]), side=side), np.searchsorted([1.0, 2, 2, 5], [[2.0, 0], [9, 5]], side))

    def test_products(self):
        a, b = draw("float32", 2, 3, 4), draw("float32", 4, 5)
        x, y = xp.asarray(a), xp.asarray(b)
        self.same(xp.matmul(x, y), a @ b, rtol=1e-5)
        self.same(xp.tensordot(x, y, axes=1), np.tensordot(a, b, 1), rtol=1e-5)
        self.same(xp.tensordot(x, x, axes=((0, 2), (0, 2))), np.tensordot(a, a, ((0, 2), (0, 2))), rtol=1e-5)
        self.same(xp.vecdot(x, x), (a * a).sum(-1), rtol=1e-5)
        for dtype in ("int8", "int64", "uint8"):
            c = draw(dtype, 3, 3)
            self.same(xp.asarray(c) @ xp.asarray(c), c @ c, dtype)
        with self.assertRaises(ValueError):
            xp.matmul(x, xp.asarray(3.0))

    def test_information(self):
        x = xp.asarray([[1.0, 2.0]])
        self.assertEqual((x.ndim, x.shape, x.size, x.dtype, x.device), (2, (1, 2), 2, xp.float32, "cpu"))
        self.assertIs(x.__array_namespace__(), xp)
        self.assertIs(x.to_device("cpu"), x)
        info = xp.__array_namespace_info__()
        self.assertEqual(info.default_dtypes()["integral"], xp.int64)
        self.assertIn("float32", info.dtypes(kind="real floating"))
        # Libraries take a str for the name of a type.
        self.assertNotIsInstance(xp.float32, str)
        self.assertEqual((str(xp.float32), repr(xp.float32), xp.float32 == "f32", {"f32": 1}[xp.float32]), ("f32", "xcvm.float32", True, 1))
        self.assertIs(pickle.loads(pickle.dumps(xp.int8)), xp.int8)
        with self.assertRaises(AttributeError):
            xp.int8.name = "int9"
        for dtype in (xp.float64, "f64", "float64", np.dtype("float64")):
            self.assertEqual(xcvm.Tensor([1.0, 2.0], dtype=dtype).dtype, "f64")
        with self.assertRaisesRegex(ValueError, "no element type 'f65'"):
            xcvm.Tensor(1.0, dtype="f65")
        self.assertEqual((xp.finfo("float32").eps, xp.iinfo("int8").min), (np.finfo(np.float32).eps, -128))
        self.assertEqual(xp.finfo(xp.float64).max, np.finfo(np.float64).max)
        self.assertTrue(xp.isdtype(xp.int8, ("bool", "integral")))
        self.assertIn("Array([[1., 2.]], dtype=float32)", repr(x))
        for dtype in ("bfloat16", "f8e4m3fn"):
            self.assertIn("Array([[1., 2.]], dtype=", repr(xp.astype(x, dtype)))
        restored = pickle.loads(pickle.dumps(x))
        self.same(restored, np.asarray(x))
        self.assertTrue(pickle.loads(pickle.dumps(xp.parameter([1.0]))).requires_grad)
        self.same(xp.astype(x, "int32"), np.array([[1, 2]], np.int32))
        for name in xp.__all__:
            value = getattr(xp, name)
            self.assertTrue(not callable(value) or value.__doc__, name)
        self.assertEqual(set(xp.__all__) - set(dir(xp)), set())

    def test_the_page_lists_all_names(self):
        page = (ROOT / "docs/python/arrays.md").read_text()
        table = [line.split("|")[2] for line in page.splitlines() if line.startswith("| ") and "`" in line]
        listed = [name for line in table for name in re.findall(r"`(\w+)`", line)]
        self.assertEqual(sorted(listed), sorted(xp.__all__))

    def test_gradients(self):
        for f in [xp.expm1, xp.log1p, xp.tanh, lambda v: xp.var(v), lambda v: xp.logaddexp(v, v * 2), lambda v: xp.hypot(v, v + 1), lambda v: xp.atan2(v, v + 2), lambda v: v[1:] * v[:-1], lambda v: v[xp.asarray([0, 0, 2])], lambda v: xp.clip(v, 0.2, 0.7), lambda v: v[v > 0.3], lambda v: xp.roll(v, 1) * v, lambda v: xp.sort(v) * xp.arange(3, dtype="float64")]:
            x = xp.parameter([0.1, 0.5, 0.9], dtype="float64")
            x.tape.check_gradients(lambda v: xp.sum(f(v)), [x])


if __name__ == "__main__":
    unittest.main()

"""Arrays in and out: element types, layouts, byte orders, DLPack, and arrays that must be refused."""

import array
import pickle
import sys
import unittest

import numpy as np
from support import program, unary

import xcvm

NUMPY_TYPES = {
    "f32": "f4", "f64": "f8", "f16": "f2", "i8": "i1", "u8": "u1", "i16": "i2", "u16": "u2", "i32": "i4", "u32": "u4",
    "i64": "i8", "u64": "u8", "bool": "?", "c64": "c8", "c128": "c16",
}  # fmt: skip


def sample(dtype, shape):
    count = int(np.prod(shape))
    values = np.arange(count) % 2 if dtype == "?" else np.arange(count)
    return values.astype(dtype).reshape(shape)


class Types(unittest.TestCase):
    def test_every_type_of_numpy_round_trips(self):
        for name, numpy_type in NUMPY_TYPES.items():
            with self.subTest(name):
                x = sample(numpy_type, (2, 3))
                y = unary(name, "2x3")(x)
                self.assertEqual((y.dtype, y.shape, y.ndim, y.size, y.nbytes), (name, (2, 3), 2, 6, x.nbytes))
                back = np.asarray(y)
                self.assertEqual(back.dtype, x.dtype)
                np.testing.assert_array_equal(back, x)
                self.assertEqual(y.tolist(), x.tolist())
                np.testing.assert_array_equal(np.asarray(pickle.loads(pickle.dumps(y))), x)
                self.assertEqual(y.tobytes(), x.tobytes())

    def test_raw_bits_of_small_floats(self):
        for name, kind in [("bf16", "u2"), ("f8e4m3fn", "u1"), ("f8e4m3fnuz", "u1"), ("f8e5m2", "u1"), ("f8e5m2fnuz", "u1"),
                           ("f8e8m0", "u1")]:  # fmt: skip
            with self.subTest(name):
                bits = np.arange(256).astype(kind) * (1 if kind == "u1" else 257)
                y = unary(name, "256")(bits.astype(kind))
                self.assertEqual(y.dtype, name)
                np.testing.assert_array_equal(np.asarray(y), bits.astype(kind))

    def test_numbers_of_bf16(self):
        bits = np.array([0x3F80, 0xC000, 0x7F80, 0x0001], np.uint16)
        wide = (bits.astype(np.uint32) << 16).view(np.float32)
        self.assertEqual(unary("bf16", "4")(bits).tolist(), wide.tolist())

    def test_numbers_of_float8(self):
        # Values of the OCP specification of 8-bit floating point, and of ONNX for the FNUZ forms.
        self.assertEqual(xcvm_numbers("f8e4m3fn", [0x38, 0x7E, 0x01, 0x80]), [1.0, 448.0, 2.0**-9, 0.0])
        self.assertEqual(xcvm_numbers("f8e5m2", [0x3C, 0x7B, 0x7C, 0x01]), [1.0, 57344.0, float("inf"), 2.0**-16])
        self.assertEqual(xcvm_numbers("f8e4m3fnuz", [0x40, 0x7F, 0x01]), [1.0, 240.0, 2.0**-10])
        self.assertEqual(xcvm_numbers("f8e5m2fnuz", [0x40, 0x7F, 0x01]), [1.0, 57344.0, 2.0**-17])
        self.assertEqual(xcvm_numbers("f8e8m0", [127, 0, 254]), [1.0, 2.0**-127, 2.0**127])
        self.assertNotEqual(*2 * xcvm_numbers("f8e4m3fnuz", [0x80]))  # NaN

    def test_packed_types(self):
        for name, kind, low, high in [("i4", "i1", -8, 7), ("u4", "u1", 0, 15), ("i2", "i1", -2, 1), ("u2", "u1", 0, 3)]:
            with self.subTest(name):
                x = np.arange(low, high + 1).astype(kind)
                y = unary(name, str(len(x)))(x)
                np.testing.assert_array_equal(np.asarray(y), x)
                self.assertEqual(y.tolist(), x.tolist())
                np.testing.assert_array_equal(np.asarray(pickle.loads(pickle.dumps(y))), x)
                np.testing.assert_array_equal(np.asarray(unary(name, str(len(x)))(y)), x)
                with self.assertRaisesRegex(OverflowError, 'input "x": element 0'):
                    unary(name, "1")(np.array([high + 1], kind))
                with self.assertRaises(BufferError):
                    y.__dlpack__()

    def test_strings(self):
        same = unary("str", "2")
        for x in (["a", "\xe9"], np.array(["a", "\xe9"]), np.array(["a", "\xe9"], object), [b"a", "\xe9".encode()]):
            y = same(x)
            self.assertEqual(y.tolist(), ["a", "\xe9"])
            self.assertEqual(np.asarray(y).tolist(), ["a", "\xe9"])
        self.assertEqual(pickle.loads(pickle.dumps(y)).tolist(), ["a", "\xe9"])
        for bad in ([["a"], "b"], ["a", 3], [["a"], ["b", "c"]]):
            with self.assertRaises((TypeError, ValueError)):
                same(bad)

    def test_numbers(self):
        self.assertEqual(unary("f32", "")(3).tolist(), 3.0)
        self.assertEqual(unary("i64", "")(3).tolist(), 3)
        self.assertEqual(unary("bool", "")(True).tolist(), True)
        with self.assertRaisesRegex(OverflowError, 'input "x": 300 is outside the range of i8'):
            unary("i8", "")(300)
        with self.assertRaises(TypeError):
            unary("i64", "")(3.5)


    def test_lists_of_numbers(self):
        cases = [
            ("f32", "2x3", [[1, 2.5, True], (4, -0.0, 6)]), ("i64", "2x1", ((3,), [2**62])), ("bool", "3", [0, 2, True]), ("u8", "2", [0, 255]),
            ("f64", "?x?x2", [[[1, 2], [3, 4]]] * 3), ("f32", "?", []), ("f32", "?x?", [[], []]), ("f16", "2", [0.5, 2]),
        ]
        for dtype, shape, numbers in cases:
            with self.subTest(dtype, shape=shape):
                expected = np.asarray(numbers, {"f32": "f4", "i64": "i8", "bool": "?", "u8": "u1", "f64": "f8", "f16": "f2"}[dtype])
                got = unary(dtype, shape)(numbers)
                self.assertEqual(got.shape, expected.shape)
                np.testing.assert_array_equal(np.asarray(got), expected)
        for numbers, kind, text in (
            ([[1], 2], ValueError, "different depths"), ([1, []], ValueError, "different depths"), ([[], 1], ValueError, "different depths"),
            ([[1], [1, 2]], ValueError, "different lengths"), ([[], [1]], ValueError, "different lengths"), ([1, 2**70], OverflowError, ""),
        ):
            with self.subTest(numbers), self.assertRaisesRegex(kind, f'input "x".*{text}'):
                unary("i64", "?")(numbers)
        with self.assertRaises(TypeError):
            unary("i64", "1")([2.5])
        for numbers in ([2**63], [2**63, 0], [2**63, -1]):
            self.assertEqual(np.asarray(xcvm.Tensor(numbers)).dtype, np.asarray(numbers).dtype)
        for numbers, dtype in (([1, 2], np.int64), ([1, 2.5], np.float64), ([True], np.bool_), ([], np.float64)):
            self.assertEqual(np.asarray(xcvm.Tensor(numbers)).dtype, dtype)


def xcvm_numbers(name, bits):
    return unary(name, str(len(bits)))(np.array(bits, np.uint8)).tolist()


class Layouts(unittest.TestCase):
    def setUp(self):
        self.program = unary("f32", "?x?")
        self.x = np.arange(12, dtype=np.float32).reshape(3, 4)

    def check(self, x):
        np.testing.assert_array_equal(np.asarray(self.program(x)), np.asarray(x, np.float32))

    def test_strided_reversed_and_transposed(self):
        for x in (self.x[:, ::2], self.x[::-1], self.x.T, np.asfortranarray(self.x), np.broadcast_to(self.x[0], (5, 4))):
            self.check(x)

    def test_byte_order(self):
        self.check(self.x.astype(">f4"))
        np.testing.assert_array_equal(np.asarray(unary("c64", "2")(np.array([1 + 2j, 3 - 4j], ">c8"))), [1 + 2j, 3 - 4j])

    def test_read_only_unaligned_and_empty(self):
        self.check(np.frombuffer(self.x.tobytes(), np.float32).reshape(3, 4))
        raw = np.zeros(49, np.uint8)
        unaligned = raw[1:].view(np.float32).reshape(3, 4)
        unaligned[:] = self.x
        self.check(unaligned)
        self.check(np.zeros((0, 4), np.float32))
        self.check(np.zeros((3, 0), np.float32))

    def test_other_buffers(self):
        flat = unary("f32", "?")
        self.assertEqual(flat(array.array("f", [1, 2])).tolist(), [1, 2])
        self.assertEqual(unary("u8", "?")(b"\x01\x02").tolist(), [1, 2])
        self.assertEqual(flat(memoryview(array.array("f", [1, 2, 3]))[::2]).tolist(), [1, 3])

    def test_refused_objects(self):
        for bad in (np.array([object()]), np.zeros(2, [("a", "f4")]), np.zeros(2, "M8[s]"), object(), {}, None, {1}):
            with self.subTest(repr(bad)), self.assertRaisesRegex((TypeError, ValueError, BufferError), 'input "x"'):
                self.program(bad)
        with self.assertRaisesRegex(ValueError, "9 axes"):
            self.program(np.zeros((1,) * 9, np.float32))
        with self.assertRaises(ValueError):
            self.program([[1.0], [2.0, 3.0]])


class Exchange(unittest.TestCase):
    def setUp(self):
        self.y = unary("f32", "2x3")(np.arange(6, dtype=np.float32).reshape(2, 3))

    def test_buffer(self):
        view = memoryview(self.y)
        self.assertEqual((view.format, view.shape, view.strides, view.readonly), ("f", (2, 3), (12, 4), False))
        del self.y
        self.assertEqual(view.tolist(), [[0, 1, 2], [3, 4, 5]])

    def test_numpy_shares_memory(self):
        a = np.asarray(self.y)
        a[0, 0] = 9
        self.assertEqual(self.y.tolist()[0][0], 9)
        self.assertEqual(np.array(self.y, np.float64).dtype, np.float64)
        self.assertEqual(self.y.numpy()[1, 2], 5)
        self.assertEqual(self.y[1, 2], 5)
        self.assertEqual(len(self.y), 2)

    def test_dlpack_to_numpy(self):
        a = np.from_dlpack(self.y)
        self.assertEqual(a.ctypes.data, self.y.data_ptr)
        self.assertEqual(self.y.__dlpack_device__(), (1, 0))
        self.assertIn("dltensor_versioned", repr(self.y.__dlpack__(max_version=(1, 0))))
        with self.assertRaises(BufferError):
            self.y.__dlpack__(dl_device=(2, 0))
        for _ in range(3):
            self.y.__dlpack__()  # capsules that nobody consumes

    def test_dlpack_from_an_object(self):
        class Wrapped:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **options):
                return self.array.__dlpack__()

            def __dlpack_device__(self):
                return (1, 0)

        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        self.assertEqual(unary("f32", "2x3")(Wrapped(x)).tolist(), x.tolist())
        self.assertEqual(unary("f32", "3x2")(Wrapped(x.T)).tolist(), x.T.tolist())

        class Elsewhere(Wrapped):
            def __dlpack_device__(self):
                return (2, 0)

        with self.assertRaisesRegex(BufferError, 'input "x": .*another device'):
            unary("f32", "2x3")(Elsewhere(x))

    def test_scalars(self):
        one = unary("f32", "1")([2.5])
        self.assertEqual((float(one), int(one), bool(one), one.item()), (2.5, 2, True, 2.5))
        for convert in (float, int, bool, xcvm.Tensor.item):
            with self.assertRaisesRegex(ValueError, "6 elements"):
                convert(self.y)

    def test_tensor_copies(self):
        a = np.zeros(3, np.float32)
        t = xcvm.Tensor(a)
        a[:] = 1
        self.assertEqual(t.tolist(), [0, 0, 0])
        self.assertEqual(xcvm.Tensor([1, 2], dtype="i8").dtype, "i8")
        with self.assertRaises(xcvm.TypeMismatch):
            xcvm.Tensor(a, dtype="f64")
        with self.assertRaises(ValueError):
            xcvm.Tensor(a, dtype="float")
        self.assertEqual(repr(t), "Tensor([0.0, 0.0, 0.0], dtype='f32')")
        self.assertEqual(repr(xcvm.Tensor(np.zeros((9, 9)))), "Tensor(shape=(9, 9), dtype='f64')")


@unittest.skipUnless("torch" in sys.modules or __import__("importlib.util").util.find_spec("torch"), "PyTorch is not installed")
class Torch(unittest.TestCase):
    def test_tensors(self):
        import torch

        x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
        y = unary("f32", "2x3")(x)
        self.assertEqual(torch.from_dlpack(y).tolist(), x.tolist())
        self.assertEqual(unary("f32", "3x2")(x.t()).tolist(), x.t().tolist())
        half = torch.tensor([1.5, -2.0]).bfloat16()
        self.assertEqual(torch.from_dlpack(unary("bf16", "2")(half)).dtype, torch.bfloat16)
        self.assertEqual(unary("bf16", "2")(half).tolist(), [1.5, -2.0])
        with self.assertRaisesRegex(BufferError, r'input "x": .*x.detach\(\)'):
            unary("f32", "2x3")(x.requires_grad_())


if __name__ == "__main__":
    unittest.main()

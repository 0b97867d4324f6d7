"""Bad input: arrays, objects, callbacks, threads and libraries. Each gives one exception that says what and where.

scripts/python_memory.sh runs this file with the address sanitizer, too.
"""

import array
import gc
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref

import numpy as np
from support import ADD, COUNTER, FOREVER, LONG_LOOP, environment, program, python, unary

import xcvm

HOST = (
    'input x f32[2]\noutput y f32[2]\n$1 = In(name="x")\n'
    '$2 = HostCall([$1], function="f", dtypes=[1], ranks=[1])\nOut($2, name="y")\n'
)
SEQUENCE = 'input s sequence f32\noutput n i64[]\n$1 = In(name="s")\n$2 = SequenceLength($1)\nOut($2, name="n")\n'


def nested(depth):
    value = [1.0]
    for _ in range(depth):
        value = [value]
    return value


class Broken:
    """An object whose attribute raises, or is what it should not be."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class RaisingArray:
    def __array__(self, *args, **options):
        raise LookupError("no array today")


class RaisingCapsule:
    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **options):
        raise LookupError("no capsule today")


class WrongCapsule(RaisingCapsule):
    def __dlpack__(self, **options):
        return 3


class Arrays(unittest.TestCase):
    def setUp(self):
        self.x = np.arange(6, dtype=np.float32).reshape(2, 3)
        self.same = unary("f32", "2x3")

    def test_wrong_types_and_shapes_name_the_input(self):
        cases = [
            (self.x.astype("f8"), xcvm.TypeMismatch, "f64"),
            (self.x.astype("i4"), xcvm.TypeMismatch, "i32"),
            (self.x[0], xcvm.ShapeMismatch, r"\[3\]"),
            (self.x.T, xcvm.ShapeMismatch, r"\[3,2\]|3x2"),
            (np.zeros((0, 3), np.float32), xcvm.ShapeMismatch, "0"),
            (np.zeros((1,) * 9, np.float32), ValueError, "9 axes"),
            (np.array([[object()] * 3] * 2), TypeError, "cannot be a tensor"),
            (np.zeros((2, 3), [("a", "f4"), ("b", "i4")]), TypeError, "cannot be a tensor"),
            (np.zeros((2, 3), "M8[s]"), (TypeError, ValueError, BufferError), ""),
            (np.zeros((2, 3), "V7"), TypeError, ""),
            (np.zeros((2, 3), np.longdouble), TypeError, ""),
            (np.array([["a"] * 3] * 2), TypeError, ""),
            (None, TypeError, ""),
            ({}, (TypeError, ValueError), ""),
            ("text", (TypeError, ValueError), ""),
            (nested(40), ValueError, ""),
            ([[1.0, 2.0], [3.0]], ValueError, ""),
            (iter([1.0]), TypeError, ""),
            (RaisingArray(), LookupError, "no array today"),
            (RaisingCapsule(), LookupError, "no capsule today"),
            (WrongCapsule(), (TypeError, ValueError, BufferError), ""),
            (Broken(__array_interface__={"data": None, "shape": (2, 3)}, dtype=Broken(name="bfloat16")), (TypeError, ValueError), ""),
            (Broken(__array_interface__={"data": (0,), "shape": ("a", 3)}, dtype=Broken(name="bfloat16")), (TypeError, ValueError), ""),
        ]
        for bad, kind, text in cases:
            with self.subTest(type(bad).__name__, dtype=getattr(bad, "dtype", None), shape=getattr(bad, "shape", None)):
                with self.assertRaises(kind) as raised:
                    self.same(bad)
                if kind is not LookupError:
                    self.assertRegex(str(raised.exception), 'input "?x"?')
                self.assertRegex(str(raised.exception), text or ".")
        np.testing.assert_array_equal(np.asarray(self.same(self.x)), self.x)

    def test_layouts_byte_orders_and_read_only_arrays_are_right(self):
        read_only = self.x.copy()
        read_only.flags.writeable = False
        for good in (self.x[:, ::-1][:, ::-1], np.asfortranarray(self.x), self.x.astype(">f4"), read_only, np.repeat(self.x, 2, 1)[:, ::2]):
            np.testing.assert_array_equal(np.asarray(self.same(good)), self.x)
        np.testing.assert_array_equal(np.asarray(unary("f32", "?x3")(np.zeros((0, 3), np.float32))), np.zeros((0, 3), np.float32))

    def test_self_referencing_and_deep_lists(self):
        own = []
        own.append(own)
        deep = nested(100000)
        for make in (lambda: unary("str", "2"), lambda: unary("f32", "2"), lambda: program(SEQUENCE)):
            for bad in (own, deep):
                with self.assertRaises((ValueError, RecursionError)):
                    make()(bad)
        # A list of this depth takes the interpreter's own recursion to free.
        while deep:
            deep = deep[0] if isinstance(deep[0], list) else None

    def test_lists_that_compute_their_items(self):
        class Computed(list):
            def __getitem__(self, index):
                return "computed %d" % index

            def __iter__(self):
                return iter(["iterated"] * len(self))

        self.assertEqual(unary("str", "2")(Computed(["a", "b"])).tolist(), ["a", "b"])

    @unittest.skipUnless(__import__("importlib.util").util.find_spec("torch"), "PyTorch is not installed")
    def test_tensors_of_pytorch(self):
        import torch

        x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
        cases = [
            (x.clone().requires_grad_(), BufferError, r"x.detach\(\)"),
            (torch.empty((2, 3), device="meta"), (BufferError, TypeError, ValueError, RuntimeError), "device|meta"),
            (x.to_sparse(), (BufferError, TypeError, ValueError, RuntimeError), ""),
            (torch.conj(torch.zeros((2, 3), dtype=torch.complex64)), Exception, ""),
        ]
        for bad, kind, text in cases:
            with self.assertRaises(kind) as raised:
                self.same(bad)
            self.assertRegex(str(raised.exception), text or ".")

    def test_bound_outputs(self):
        session = self.same.session()
        wrong = [
            np.zeros((3, 2), np.float32),
            np.zeros((2, 3), np.float64),
            np.zeros((2, 6), np.float32)[:, ::2],
            np.zeros((2, 3), ">f4"),
            np.frombuffer(bytes(24), np.float32).reshape(2, 3),
            [[0.0] * 3] * 2,
            np.array([[object()] * 3] * 2),
        ]
        for bad in wrong:
            with self.subTest(getattr(bad, "dtype", type(bad))), self.assertRaises((TypeError, ValueError, BufferError, xcvm.Error)):
                session.bind_output("y", bad)
                session(self.x)
        session.bind_output("y", None)
        np.testing.assert_array_equal(np.asarray(session(self.x)), self.x)


class Life(unittest.TestCase):
    def test_a_buffer_is_resized_or_freed_during_a_run(self):
        session = program(HOST).session(functions={"f": lambda v: self.call(v)})
        data = array.array("f", [1, 2])

        def resize(value):
            with self.assertRaises(BufferError):
                data.append(3)
            return value

        self.call = resize
        self.assertEqual(session(data).tolist(), [1, 2])
        held = [np.array([5, 6], np.float32)]
        seen = weakref.ref(held[0])

        def free(value):
            held.clear()
            gc.collect()
            self.assertIsNotNone(seen())
            return value

        self.call = free
        self.assertEqual(session(held[0]).tolist(), [5, 6])
        del self.call
        gc.collect()
        self.assertIsNone(seen())

    def test_objects_outlive_what_they_are_of(self):
        p = program(COUNTER)
        s = p.session()
        y, state, parameter, view = s(2.0), s.state("total"), p.inputs[0], memoryview(s(1.0))
        profile = s.profile(1.0)
        del p, s
        gc.collect()
        self.assertEqual((float(y), float(state), parameter.name, view.tolist(), len(profile)), (2.0, 2.0, "x", 3.0, profile.runs * 5))

    def test_a_callback_drops_its_session(self):
        holder = {}

        def drop(value):
            holder.clear()
            gc.collect()
            return value

        holder["session"] = program(HOST).session(functions={"f": drop})
        self.assertEqual(holder["session"]([1, 2]).tolist(), [1, 2])
        gc.collect()

    def test_a_file_that_is_cut_while_it_is_mapped_can_be_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "p.bin")
            path.write_bytes(xcvm.assemble("xcvm 1\n" + ADD))
            copied = xcvm.load(path, copy=True)
            path.write_bytes(b"")
            self.assertEqual(copied([0, 0, 0, 0]).tolist(), [1, 2, 3, 4])
            with self.assertRaises(xcvm.Error):
                xcvm.load(path)

    def test_arguments_that_are_nonsense(self):
        p = program(LONG_LOOP)
        s = p.session()
        nonsense = [
            lambda: s.run({"n": 1}, timeout=-1),
            lambda: s.run({"n": 1}, timeout=float("nan")),
            lambda: s.run({"n": 1}, timeout="long"),
            lambda: s.run({"n": 1}, fuel=-1),
            lambda: s.run({"n": 1}, fuel=1 << 70),
            lambda: s.run([1]),
            lambda: s.run({3: 1}),
            lambda: p.session(threads="two"),
            lambda: p.session(threads=1 << 40),
            lambda: p.session(memory_limit=1 << 80),
            lambda: p.session(memory_limit=-1),
            lambda: p.session(seed=-1),
            lambda: p.session(threads=-1),
            lambda: p.session(nothing=1),
            lambda: xcvm.load(xcvm.assemble("xcvm 1\n" + ADD), memory_limit=-1),
            lambda: p.session(states_of=3),
            lambda: xcvm.Session(3),
            lambda: xcvm.load(3),
            lambda: xcvm.load(b""),
            lambda: xcvm.load("/nowhere\0"),
            lambda: xcvm.Tensor([1], dtype="f99"),
            lambda: s.bind_output(3, None),
            lambda: s.state("none"),
            lambda: s.pair("none", "n"),
            lambda: s.restore_states(b"no states"),
            lambda: s.profile(1, runs=0),
        ]
        for number, bad in enumerate(nonsense):
            with self.subTest(number), self.assertRaises((TypeError, ValueError, OverflowError, xcvm.Error)):
                bad()
        self.assertEqual(int(s(3)), 3)


class Callbacks(unittest.TestCase):
    def test_exceptions_of_every_kind_arrive_as_they_are(self):
        class Own(BaseException):
            pass

        for kind in (ValueError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, Own, RecursionError):
            def fail(value):
                raise kind("as it is")

            session = program(HOST).session(functions={"f": fail})
            with self.assertRaises(kind) as raised:
                session([1, 2])
            self.assertEqual(raised.exception.args, ("as it is",))
            talk = program('input x f32[2]\noutput y f32[2]\n$1 = In(name="x")\nPrint([$1])\nOut($1, name="y")\n')
            with self.assertRaises(kind):
                talk.session(print=fail)([1, 2])

    def test_results_of_host_functions(self):
        for bad in (None, [], [1, 2, 3], "text", object(), np.zeros(3, "M8[s]"), nested(40), lambda: 3):
            session = program(HOST).session(functions={"f": lambda v: bad})
            with self.subTest(repr(bad)[:20]), self.assertRaises((TypeError, ValueError, BufferError, xcvm.Error)):
                session([1, 2])

    def test_an_interrupt_during_a_callback(self):
        code = (
            "import os, signal\nfrom support import *\nfrom test_bad_input import HOST\n"
            "def f(value):\n    os.kill(os.getpid(), signal.SIGINT)\n    for i in range(1000): pass\n    return value\n"
            "s = program(HOST).session(functions={'f': f})\n"
            "try: s([1, 2]); print('nothing')\nexcept KeyboardInterrupt: print('interrupted')\n"
            "s = program(HOST).session(functions={'f': lambda v: v})\nprint(s([1, 2]).tolist())"
        )
        done = python(code)
        self.assertEqual((done.stdout, done.stderr), ("interrupted\n[1.0, 2.0]\n", ""))

    def test_threads_and_nested_programs_in_callbacks(self):
        add = unary("f32", "2", "Neg")

        def work(value):
            results = []
            thread = threading.Thread(target=lambda: results.append(add(value)))
            thread.start()
            thread.join()
            return results[0]

        self.assertEqual(program(HOST).session(functions={"f": work})([1, 2]).tolist(), [-1, -2])

    def test_progress_and_dumps_that_raise(self):
        model = pathlib.Path(__file__).resolve().parents[2] / "examples/digits/model.onnx"

        def fail(*args):
            raise LookupError("enough")

        for options in ({"progress": fail}, {"dump_after": "all", "dump": fail}):
            with self.assertRaisesRegex(LookupError, "enough"):
                xcvm.compile(model, **options)
        with self.assertRaises(TypeError):
            xcvm.compile(model, progress=3)


class Threads(unittest.TestCase):
    def test_two_threads_on_one_session(self):
        session, errors, wrong = program(ADD).session(), [], []
        until = time.monotonic() + 1

        def work():
            while time.monotonic() < until:
                try:
                    if session([0, 0, 0, 0]).tolist() != [1, 2, 3, 4]:
                        wrong.append(1)
                except xcvm.InvalidArgument as error:
                    errors.append(str(error))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertTrue(all("in use by another call" in error for error in errors))

    def test_a_session_is_dropped_while_another_thread_runs_it(self):
        session = program(LONG_LOOP).session()
        failures = []

        def work(own):
            try:
                own(FOREVER)
            except xcvm.Cancelled as error:
                failures.append(error)

        thread = threading.Thread(target=work, args=(session,))
        thread.start()
        time.sleep(0.05)
        cancel = session.cancel
        del session
        gc.collect()
        cancel()
        thread.join()
        self.assertEqual(len(failures), 1)


class Libraries(unittest.TestCase):
    def run_copy(self, change, **own):
        """Import a copy of the package that `change` has changed; return the text on standard error."""
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder, "xcvm")
            shutil.copytree(pathlib.Path(xcvm.__file__).parent, copy, symlinks=False)
            change(copy)
            done = subprocess.run(
                [sys.executable, "-c", "import xcvm"], env={**environment(), "PYTHONPATH": folder, **own}, cwd=folder, capture_output=True, text=True
            )
            return done.returncode, done.stderr

    def test_a_missing_extension_module(self):
        code, text = self.run_copy(lambda copy: [path.unlink() for path in copy.glob("_run*.so")])
        self.assertEqual(code, 1)
        self.assertIn("ImportError", text)
        self.assertIn("Install the package again", text)

    def test_a_missing_library(self):
        if not (pathlib.Path(xcvm.__file__).parent / "lib").exists():
            self.skipTest("the libraries are not in the package")
        code, text = self.run_copy(lambda copy: shutil.rmtree(copy / "lib"))
        self.assertEqual(code, 1)
        self.assertIn("libxcvm", text)
        self.assertIn("Install the package again", text)

    def test_a_library_of_another_version(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "v.c")
            source.write_text('const char *xcvm_version(void); const char *xcvm_version(void) { return "0.99.1"; }\n')
            subprocess.run(["cc", "-shared", "-fPIC", source, "-o", f"{folder}/v.so"], check=True)
            # A sanitizer's library stays the first one.
            preload = " ".join(filter(None, [os.environ.get("LD_PRELOAD"), f"{folder}/v.so"]))
            code, text = self.run_copy(lambda copy: None, LD_PRELOAD=preload)
        self.assertEqual(code, 1)
        self.assertIn("libxcvm has version 0.99.1, but this package was built for", text)
        self.assertNotIn("Segmentation", text)


class Shutdown(unittest.TestCase):
    def test_live_objects_of_every_kind(self):
        code = (
            "import atexit, builtins, sys, threading\nimport numpy as np\nfrom support import *\nfrom test_bad_input import HOST\n"
            "import xcvm.onnxruntime as ort\n"
            "class Late:\n"
            "    def __init__(self, call): self.call = call\n"
            "    def __del__(self):\n"
            "        try: self.call()\n"
            "        except BaseException: pass\n"
            "p = program(ADD); s = p.session(); y = s([1, 2, 3, 4]); m = memoryview(y); a = np.asarray(y); d = y.__dlpack__()\n"
            "h = program(HOST).session(functions={'f': lambda v: v})\n"
            "o = ort.InferenceSession(str(DIGITS / 'model.onnx'))\n"
            "x = np.zeros((1, 1, 8, 8), np.float32)\n"
            "builtins.kept = [p, s, y, m, a, d, h, o, Late(lambda: s([1, 2, 3, 4])), Late(lambda: o.run(None, {'image': x}))]\n"
            "sys.modules['kept'] = builtins.kept\n"
            "atexit.register(lambda: print(o.run(None, {'image': x})[0].shape, h([1, 2]).tolist()))\n"
            "cycle = [p]; cycle.append(cycle)\n"
            "for i in range(2): threading.Thread(target=program(LONG_LOOP).session(), args=(FOREVER,), daemon=True).start()"
        )
        done = python(code)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "(1, 10) [1.0, 2.0]\n", ""))


if __name__ == "__main__":
    unittest.main()

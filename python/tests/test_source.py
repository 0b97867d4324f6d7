"""Programs compiled from Python source, compared with Python."""

import functools
import linecache
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import numpy as np

import xcvm

sys.path.insert(0, str(Path(__file__).parent / "source"))
import cases_meaning  # noqa: E402
import cases_objects  # noqa: E402
import cases_syntax  # noqa: E402
import erroneous  # noqa: E402
import random_programs  # noqa: E402


def copied(value):
    return value.copy() if isinstance(value, np.ndarray) else [copied(v) for v in value] if isinstance(value, list) else value


def outcome(function, arguments):
    try:
        return function(*[copied(a) for a in arguments])
    except Exception as error:
        text = str(error) if isinstance(error, (ValueError, AssertionError)) else ""
        return f"{type(error).__name__}: {text}"


class Case(unittest.TestCase):
    def same(self, got, wanted, where):
        if hasattr(wanted, "detach"):
            wanted = wanted.detach().numpy()
        if isinstance(wanted, (np.ndarray, np.generic)):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5, err_msg=str(where))
            self.assertEqual(np.asarray(got).dtype, wanted.dtype, where)
            self.assertEqual(np.shape(got), np.shape(wanted), where)
        elif isinstance(wanted, (list, tuple)):
            self.assertIsInstance(got, list if isinstance(wanted, list) else tuple, where)
            self.assertEqual(len(got), len(wanted), where)
            for one, other in zip(got, wanted):
                self.same(one, other, where)
        elif isinstance(wanted, dict):
            self.assertEqual(list(got), list(wanted), where)
            for key in wanted:
                self.same(got[key], wanted[key], where)
        else:
            self.assertEqual(got, wanted, where)

    def check(self, function, calls):
        program = xcvm.compile(function, *[copied(a) for a in calls[0]])
        for arguments in calls:
            self.same(outcome(program, arguments), outcome(function, arguments), (getattr(function, "__name__", ""), arguments))


class Syntax(Case):
    def test_cases(self):
        for function, calls in cases_syntax.CASES:
            with self.subTest(function.__name__):
                self.check(function, calls)

    def test_objects(self):
        for function, calls in cases_objects.CASES:
            with self.subTest(function.__name__):
                self.check(function, calls)
        for function, arguments, reason in cases_objects.REFUSED:
            with self.subTest(function.__name__), self.assertRaisesRegex(xcvm.SourceErrors, reason):
                xcvm.compile(function, *arguments)

    def test_meaning(self):
        for function, calls in cases_meaning.CASES:
            with self.subTest(function.__name__), np.errstate(all="ignore"):
                self.check(function, calls)

    def test_meaning_that_is_refused(self):
        for function, arguments, reason in cases_meaning.REFUSED:
            with self.subTest(function.__name__), self.assertRaisesRegex(xcvm.SourceErrors, reason):
                xcvm.compile(function, *arguments)
        for function in (cases_meaning.maximum_of_nothing, cases_meaning.minimum_of_nothing):
            with self.assertRaises(ValueError):
                function(cases_meaning.X)
            with self.subTest(function.__name__), self.assertRaisesRegex(xcvm.SourceErrors, "always raises ValueError"):
                xcvm.compile(function, cases_meaning.X)


try:
    import cases_torch
    import torch
except ImportError:
    cases_torch = None


@unittest.skipIf(cases_torch is None, "torch is not installed")
class Torch(Case):
    def test_expressions(self):
        """The expressions of a family are one program, and one each if that fails."""
        c = cases_torch
        for family, expressions in c.EXPRESSIONS.items():
            with tempfile.TemporaryDirectory() as directory:
                path = Path(directory, f"{family}.py")
                lines = ["import torch", "import torch.nn.functional as F"]
                lines += [f"def f{n}(x, m, v, i):\n    return {text}" for n, text in enumerate(expressions)]
                lines.append("def together(x, m, v, i):\n    return " + ", ".join(f"f{n}(x, m, v, i)" for n in range(len(expressions))) + ",")
                path.write_text("\n".join(lines) + "\n")
                space = {}
                exec(compile(path.read_text(), str(path), "exec"), space)
                linecache.checkcache(str(path))
                arguments = c.X, c.M, c.V, c.I
                try:
                    program = xcvm.compile(space["together"], *arguments, optimize=0)
                    results = program(*arguments)
                except Exception as error:
                    for n, text in enumerate(expressions):
                        with self.subTest(f"{family}: {text}"):
                            program = xcvm.compile(space[f"f{n}"], *arguments, optimize=0)
                            self.same(program(*arguments), space[f"f{n}"](*arguments), text)
                    with self.subTest(family):
                        raise error
                    continue
                for text, got, wanted in zip(expressions, results, space["together"](*arguments)):
                    with self.subTest(f"{family}: {text}"):
                        self.same(got, wanted, text)

    def test_numbers_that_are_drawn(self):
        def drawn(x, n: int):
            noise = torch.randn_like(x), torch.randn(n, 3), torch.rand(x.shape), torch.bernoulli(torch.full((50,), 0.5)), torch.normal(x, 2.0)
            return noise, torch.nn.functional.gumbel_softmax(x, dim=1)

        x = torch.zeros(40, 50)
        program = xcvm.compile(drawn, x, 5)
        for n in (5, 7):
            (normal, some, uniform, coins, wide), gumbel = program(x, n)
            self.assertEqual([normal.shape, some.shape, uniform.shape, wide.shape], [(40, 50), (n, 3), (40, 50), (40, 50)])
            self.assertLess(abs(normal.mean()) + abs(normal.std() - 1) + abs(wide.std() - 2), 0.3)
            self.assertLess(abs(uniform.mean() - 0.5) + abs(uniform.std() - 12**-0.5), 0.05)
            self.assertTrue(0 <= uniform.min() and uniform.max() < 1 and set(coins.tolist()) == {0.0, 1.0})
            np.testing.assert_allclose(gumbel.sum(1), np.ones(40), rtol=1e-5)
        self.assertFalse(np.array_equal(program(x, 5)[0][0], program(x, 5)[0][0]))

    def test_torchvision(self):
        try:
            import torchvision
        except ImportError:
            self.skipTest("torchvision is not installed")
        torch.manual_seed(0)
        x = torch.randn(1, 3, 64, 64)
        for name in ["resnet18", "squeezenet1_1", "mobilenet_v3_small", "shufflenet_v2_x0_5", "mnasnet0_5"]:
            with self.subTest(name), torch.no_grad():
                model = getattr(torchvision.models, name)().eval()
                self.same(xcvm.compile(model, x)(x), model(x), name)
        boxes, scores = torch.rand(6, 4) * 20, torch.rand(6)
        boxes[:, 2:] += boxes[:, :2] + 1
        for function in [
            lambda x, b, s: torchvision.ops.roi_align(x, [b], (3, 3), 1.0, 2),
            lambda x, b, s: torchvision.ops.roi_align(x, [b], 4, 0.5, 2, True),
            lambda x, b, s: torchvision.ops.roi_pool(x, [b], 2),
            lambda x, b, s: torchvision.ops.nms(b, s, 0.2),
            lambda x, b, s: torchvision.ops.box_iou(b, b),
        ]:
            self.same(xcvm.compile(function, x, boxes, scores)(x, boxes, scores), function(x, boxes, scores), function.__code__.co_firstlineno)

    def test_modules(self):
        for module, calls in cases_torch.modules():
            with self.subTest(type(module).__name__), torch.no_grad():
                program = xcvm.compile(module, *calls[0])
                for arguments in calls:
                    self.same(outcome(program, arguments), outcome(module, arguments), arguments[1:])


@xcvm.host(("f32", 1))
def doubled(a):
    return a.numpy() * 2


def with_options(x, mode, k, *, s=1):
    y = doubled(x)
    return {"y": y + x.shape[0] if mode == "a" else y, "k": [k, s]}


def first_item(x):
    return x[0]


def summed(x, n: int):
    total = 0.0
    for i in range(n):
        x = x * 0.5
        total = total + np.tanh(x).sum()
    return total


class Running:
    """An object whose attributes go from call to call."""

    def __init__(self):
        self.h = np.zeros(3, np.float32)
        self.n = 0
        self.log = [np.ones(2), 1]
        self.inner = None

    def __call__(self, x, k: int):
        self.h = self.h * 0.5 + x
        self.n += k
        self.log[1] += self.n
        if self.inner is not None:
            self.inner.n -= k
        if self.n > 5:
            raise ValueError("too many")
        return self.h.sum(), self.n


class Interface(Case):
    def test_kept_attributes(self):
        """Attributes keep their values from call to call, also if the call raises."""
        x = np.arange(3, dtype=np.float32)
        running, wanted = Running(), Running()
        for one in (running, wanted):
            one.inner = Running()
        names = ["h", "n", "log", "inner.n"]
        program = xcvm.compile(running, x, 1, keep=names)
        for k in (1, 2, 2, 1, 1):
            self.same(outcome(program, (x, k)), outcome(wanted, (x, k)), k)
            self.same(program.kept, dict(zip(names, (wanted.h, wanted.n, wanted.log, wanted.inner.n))), k)
        program.reset()
        self.same(program(x, 1), (np.float32(3), 1), "after reset")
        self.assertEqual(running.n, 0)
        self.assertIn("self_h", [p.name for p in program.inputs])
        with self.assertRaisesRegex(xcvm.SourceErrors, "read here and changed"):
            xcvm.compile(running, x, 1, keep="h")
        with self.assertRaisesRegex(xcvm.InvalidArgument, "keep: m: .*has no attribute 'm'"):
            xcvm.compile(running, x, 1, keep="m")
        with self.assertRaisesRegex(xcvm.SourceErrors, "'inner' is None"):
            xcvm.compile(Running(), x, 1, keep="inner")

    def test_work_of_unrolled_loops(self):
        """What is decided when the program is compiled leaves nothing: an instruction for each operation of the data."""

        def rounds(x):
            kinds, count = [], 0
            for k in range(300):
                name = f"kind{k % 3}"
                kinds.append(name)
                count += {"kind0": 1}.get(name, 0)
                if name == "kind1" and len(kinds) % 2:
                    x = x + count
            return x

        program = xcvm.compile(rounds, np.ones(2), unroll=1000, optimize=0)
        lines = [line for line in program.disassemble().splitlines() if line.startswith("$")]
        self.assertEqual(sum("Add(" in line for line in lines), 50)
        self.assertLessEqual(len(lines), 52)
        self.same(program(np.ones(2)), rounds(np.ones(2)), "")

    def test_constants_dimensions_keywords_and_host_functions(self):
        x = np.ones(3, np.float32)
        program = xcvm.compile(with_options, x, "a", xcvm.const(5), keywords={"s": 2}, dims={"x": {0: xcvm.dim("n")}})
        for size in (0, 1, 4):
            x = np.arange(size, dtype=np.float32)
            self.same(program(x, "a", 5, s=7), {"y": 2 * x + size, "k": [5, 7]}, size)
        self.assertEqual(program.inputs[0].shape, ("n",))
        with self.assertRaisesRegex(xcvm.InvalidArgument, "mode"):
            program(x, "b", 5, s=7)
        with self.assertRaisesRegex(xcvm.InvalidArgument, "missing"):
            program(x, "a", 5)

    def test_structures(self):
        def swapped(pair, named):
            (a, b), c = pair, named["c"]
            return [b, (a, {"c": c * 2})]

        one, two = np.ones(2, np.float32), np.zeros(3, np.int64)
        program = xcvm.compile(swapped, (one, two), {"c": one})
        self.same(program((one, two), {"c": one}), swapped((one, two), {"c": one}), "")

    def test_gradients_through_a_loop(self):
        x = np.linspace(-1, 2, 6).reshape(2, 3)
        program = xcvm.compile(summed, x, 3, backprop=True, wrt=["x"])
        for n in (0, 3, 5):
            got = program.run({"x": x, "n": np.int64(n)})["grad_out@x"].numpy()
            wanted = sum((1 - np.tanh(x * 0.5 ** (i + 1)) ** 2) * 0.5 ** (i + 1) for i in range(n)) + 0 * x
            np.testing.assert_allclose(got, wanted, rtol=1e-6)

    def test_onnx_and_c(self):
        x = np.ones((2, 3), np.float32)
        program = xcvm.compile(xcvm.to_onnx(summed, x, 3))
        np.testing.assert_allclose(program(x, np.int64(4))[()] if False else program(x, np.int64(4)).numpy(), summed(x, 4), rtol=1e-5)
        files = xcvm.compile(summed, x, 3, emit="c")
        self.assertIn("net_run", files.source)

    def test_nothing_is_done_for_what_is_decided(self):
        def decided(x, n: int):
            mode = "double" if len(x.shape) == 2 else "none"
            for k in range(3):
                if mode == "double" and k != 1:
                    x = x * 2
            return x

        program = xcvm.compile(decided, np.ones((2, 2), np.float32), 1, optimize=0)
        self.assertLessEqual(program.disassemble().count("Mul("), 2)
        self.assertNotIn("Jmp", program.disassemble())

    def test_files_take_no_arguments(self):
        with self.assertRaises(TypeError):
            xcvm.compile("model.onnx", 1)


class Errors(unittest.TestCase):
    def test_every_error_has_its_place_and_reason(self):
        """The comments in the file state the columns and a part of the text of each problem."""
        import inspect

        lines = Path(erroneous.__file__).read_text().splitlines()
        for function in erroneous.FUNCTIONS:
            with self.subTest(function.__name__):
                arguments = (np.ones(3, np.float32), 2)[: len(inspect.signature(function).parameters)]
                with self.assertRaises(xcvm.SourceErrors) as caught:
                    xcvm.compile(function, *arguments)
                first = function.__code__.co_firstlineno
                if function is erroneous.in_a_callee:
                    first = erroneous.helper.__code__.co_firstlineno
                wanted = {}
                for number, line in enumerate(lines[first:], first + 1):
                    if line.startswith("def "):
                        break
                    found = re.search(r"  # (\d+)-(\d+): (.*)$", line)
                    if found:
                        wanted[number] = found.groups()
                got = {p.place.line: (str(p.place.column), str(p.place.end_column), p) for p in caught.exception.problems}
                self.assertEqual(sorted(got), sorted(wanted), caught.exception)
                for number, (column, end, text) in wanted.items():
                    self.assertEqual(got[number][:2], (column, end), caught.exception)
                    self.assertIn(text, f"{got[number][2].reason}. {got[number][2].hint}")
                    self.assertIn(got[number][2].calls[0][0], function.__name__)
                    self.assertIn(str(got[number][2].place), str(caught.exception))

    def test_only_similar_names_are_suggested(self):
        with self.assertRaises(xcvm.SourceErrors) as caught:
            xcvm.compile(erroneous.calls_of_unknown_functions, np.ones(3, np.float32))
        hints = {p.reason: p.hint for p in caught.exception.problems}
        self.assertEqual(hints["'numpy.poly' is not supported"], "")

    def test_a_problem_of_the_whole_function_has_no_place(self):
        async def wait(x):
            return x

        with self.assertRaises(xcvm.SourceErrors) as caught:
            xcvm.compile(wait, np.ones(3, np.float32))
        self.assertRegex(str(caught.exception).splitlines()[1], "^'.*wait' is a coroutine")

    def test_arguments_that_contain_themselves(self):
        """Such arguments, and deep ones, are refused before they need memory."""
        inner = [np.ones(3, np.float32)]
        inner.append({"inner": (inner,)})
        deep = [np.ones(3, np.float32)]
        for _ in range(3000):
            deep = [deep]
        twice = [np.ones(3, np.float32)]
        for argument, reason in ((inner, "the argument 'x_1_inner_0' contains itself"), (deep, "an argument is nested more than 100 deep")):
            with self.assertRaisesRegex(xcvm.SourceErrors, reason):
                xcvm.compile(first_item, argument)
        result = xcvm.compile(first_item, (twice, twice))((twice, twice))
        self.assertEqual(result[0].tolist(), [1, 1, 1])

    def test_branches_in_each_other(self):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "nested.py")
            sides = "".join(f"    elif x.sum() > {i}: x = x * {i}\n" for i in range(250))
            path.write_text(f"def f(x):\n    if x.sum() > 1000: x = x + 1\n{sides}    return x\n")
            values: dict = {}
            exec(compile(path.read_text(), path, "exec"), values)
            with self.assertRaisesRegex(xcvm.Unsupported, "nests branches and loops deeper"):
                xcvm.compile(values["f"], np.ones(3, np.float32))

    def test_files_that_are_no_source(self):
        """A code object names any file: only regular files of a sensible size are opened."""
        from xcvm.source import read

        def opens(*_):
            raise AssertionError("the file was opened")

        with tempfile.TemporaryDirectory() as folder:
            pipe, huge, relative = Path(folder, "pipe.py"), Path(folder, "huge.py"), "a_pipe_of_the_path.py"
            os.mkfifo(pipe)
            os.mkfifo(Path(folder, relative))
            with open(huge, "wb") as file:
                file.truncate(read.MOST_SOURCE_BYTES + 1)
            missing = "is not to be had"
            for name, reason in (("/dev/zero", missing), (str(pipe), missing), (relative, missing), ("/proc/self/maps", missing),
                                 (str(huge), f"has {read.MOST_SOURCE_BYTES + 1} bytes")):  # fmt: skip
                function = type(first_item)(first_item.__code__.replace(co_filename=name), {})
                with self.subTest(name), unittest.mock.patch.object(linecache, "updatecache", opens), \
                        unittest.mock.patch.object(sys, "path", [*sys.path, folder]):  # fmt: skip
                    with self.assertRaisesRegex(xcvm.SourceErrors, reason):
                        xcvm.compile(function, np.ones(3, np.float32))

    def test_partial_functions_that_contain_themselves(self):
        def calls(function):
            return lambda x: function(x)

        for place in ("func", "args", "keywords"):
            within = functools.partial(first_item)
            state = {"func": (within, (), {}), "args": (first_item, (within,), {}), "keywords": (first_item, (), {"y": within})}[place]
            within.__setstate__((*state, {}))
            for target in (within, calls(within)):
                with self.subTest(place), self.assertRaisesRegex(xcvm.SourceErrors, "a functools.partial contains itself"):
                    xcvm.compile(target, np.ones(3, np.float32))

    def test_same_bytes_for_every_hash_seed(self):
        code = (
            "import sys; sys.path.insert(0, sys.argv[1]); import random_programs as r, cases_objects as c, tempfile, xcvm, hashlib\n"
            "with tempfile.TemporaryDirectory() as d:\n"
            "    for n in (3, 7):\n"
            "        p = xcvm.compile(r.load(r.Writer(n).program(), d, n), *r.INPUTS[1], optimize=0)\n"
            "        print(hashlib.sha256(p.source).hexdigest())\n"
            "for function, calls in c.CASES:\n"
            "    print(hashlib.sha256(xcvm.compile(function, *calls[0], optimize=0).source).hexdigest())"
        )
        folder = str(Path(__file__).parent / "source")
        runs = [subprocess.run([sys.executable, "-c", code, folder], env={**os.environ, "PYTHONHASHSEED": str(seed)},
                               capture_output=True, text=True, check=True).stdout for seed in range(2)]  # fmt: skip
        self.assertEqual(len(set(runs)), 1, runs)


class Alternatives(Case):
    def test_a_value_of_a_loop_has_a_bound(self):
        """Compilation took time with the fourth power of what a value of a loop can be, and no limit held for chains."""
        for count in (20, 30):
            ways = "".join(f"        if n == {i}:\n            text = '{i}'\n" for i in range(count))
            source = f"def f(x, n: int):\n    text = None\n    while n > 0:\n{ways}        n = n - 7\n    return x * 2 if text == '12' else x\n"
            with tempfile.TemporaryDirectory() as folder, self.subTest(count):
                function = random_programs.load(source, folder, count)
                if count == 20:
                    self.check(function, [(np.ones(3, np.float32), n) for n in (0, 12, 13, 19)])
                else:
                    with self.assertRaisesRegex(xcvm.SourceErrors, "can be too many different things, more than 24"):
                        xcvm.compile(function, np.ones(3, np.float32), 1)


class RandomPrograms(unittest.TestCase):
    def test_choices_of_a_loop_have_a_bound(self):
        """A program whose compilation took minutes, since what its loop creates had hundreds of choices."""
        self.assertEqual(random_programs.main(1, 908152), ([], {}))

    def test_random_programs(self):
        """A fixed seed and a new one; random_programs.py runs more."""
        fresh = random.SystemRandom().randrange(10**6, 10**9)
        for seed in (1000, fresh):
            wrong, refused = random_programs.main(50, seed)
            self.assertEqual(wrong, [], f"seed {seed}")
            for reason in refused:
                self.assertRegex(reason, random_programs.REASONS, f"seed {seed}")
            # On average, less than 1 of 100 is refused.
            self.assertLessEqual(sum(refused.values()) - refused["skipped"], 5, refused)


if __name__ == "__main__":
    unittest.main()

"""Programs compiled from Python source, compared with Python."""

import sys
import unittest
from pathlib import Path

import numpy as np

import xcvm

sys.path.insert(0, str(Path(__file__).parent / "source"))
import cases_syntax  # noqa: E402
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


class RandomPrograms(unittest.TestCase):
    def test_random_programs(self):
        wrong, refused = random_programs.main(60, 1000)
        self.assertEqual(wrong, [])
        self.assertLess(sum(times for reason, times in refused.items() if reason != "skipped"), 3, refused)


if __name__ == "__main__":
    unittest.main()

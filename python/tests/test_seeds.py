"""The samples of the systems that XCVM follows, beside the values that PyTorch computed (examples/seeds/expected.txt)."""

import contextlib
import io
import runpy
import sys
import unittest

from support import ROOT

import xcvm

SEEDS = ROOT / "examples/seeds"


class Seeds(unittest.TestCase):
    def test_samples(self):
        # The first call of a static function in Python only runs it, to see what it returns; the second records it.
        text = (SEEDS / "expected.txt").read_text().replace("ran 1 time,", "ran 2 times,")
        samples = ["pytorch", "chainer", "dynet", "paddle", "builder", "autograd", "static", "rnnlm"]
        got = io.StringIO()
        sys.path.insert(0, str(SEEDS))
        try:
            with contextlib.redirect_stdout(got):
                for sample in samples:
                    print(sample)
                    with xcvm.Tape(threads=1):
                        runpy.run_path(str(SEEDS / f"{sample}.py"))
        finally:
            sys.path.remove(str(SEEDS))
        self.assertEqual(got.getvalue(), text)


if __name__ == "__main__":
    unittest.main()

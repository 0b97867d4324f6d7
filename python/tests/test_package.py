"""The package itself: the source distribution, portability, leaks."""

import gc
import importlib
import importlib.util
import os
import pathlib
import re
import resource
import subprocess
import tarfile
import tempfile
import unittest

import numpy as np
from support import ADD, ROOT, program

import xcvm

CALLS = int(os.environ.get("XCVM_CALLS", 100000))  # of the shortest test; for a release, a million


def load_backend():
    spec = importlib.util.spec_from_file_location("backend", ROOT / "python/backend.py")
    backend = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(backend)
    return backend


class Package(unittest.TestCase):
    def test_source_distribution_configures(self):
        backend = load_backend()
        with tempfile.TemporaryDirectory() as folder:
            name = backend.build_sdist(folder)
            with tarfile.open(pathlib.Path(folder, name)) as archive:
                archive.extractall(folder)
            top = pathlib.Path(folder, name.removesuffix(".tar.gz"))
            self.assertTrue((top / "src/module.c").exists() and (top / "PKG-INFO").exists())
            configure = ["cmake", "-S", top / "source", "-B", pathlib.Path(folder, "b"), "-DXCVM_TESTS=OFF"]
            done = subprocess.run(configure, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_installed_libraries_are_portable(self):
        folder = pathlib.Path(xcvm.__file__).parent
        files = [*folder.glob("*.so"), *folder.glob("lib/*")]
        if not (folder / "lib").exists():
            self.skipTest("the package is not installed from a wheel")
        self.assertEqual(load_backend().check_portable(files), [])

    def test_every_name_can_be_imported(self):
        for name in xcvm.__all__:
            self.assertIsNotNone(getattr(xcvm, name), name)
            self.assertTrue(getattr(xcvm, name).__doc__, name)
        self.assertEqual(set(xcvm.__all__) - set(dir(xcvm)), set())
        with self.assertRaises(AttributeError):
            xcvm.no_such_name

    def test_the_reference_lists_every_name(self):
        page = (ROOT / "docs/python/reference.md").read_text()
        table = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
        listed = {name for line in table for name in re.findall(r"`(\w+)", line)}
        array = set(importlib.import_module("xcvm.array").__all__)
        errors = {name for name in xcvm.__all__ if isinstance(getattr(xcvm, name), type) and issubclass(getattr(xcvm, name), xcvm.Error)}
        self.assertEqual(set(xcvm.__all__) - errors - array - listed, set())


class Leaks(unittest.TestCase):
    """Repeated calls keep no memory; references.py counts references."""

    def check(self, call, calls=CALLS):
        for _ in range(1000):
            call()
        gc.collect()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(calls):
            call()
        gc.collect()
        # Kilobytes: less than one byte a call.
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory, max(1024, calls // 1024))

    def test_calls(self):
        add, x = program(ADD, threads=1), np.zeros(4, np.float32)
        session = add.session(threads=1)
        self.check(lambda: add(x))
        self.check(lambda: session.run({"x": x}), CALLS // 4)

    def test_failures(self):
        add, x = program(ADD, threads=1), np.zeros(3, np.float32)

        def fail():
            try:
                add(x)
            except xcvm.ShapeMismatch:
                pass

        self.check(fail, CALLS // 10)

    def test_copies_and_exchange(self):
        add, x = program(ADD, threads=1), np.zeros((4, 2), np.float32)[:, 0]
        self.check(lambda: np.from_dlpack(add(x)), CALLS // 10)
        self.check(lambda: add([1, 2, 3, 4]).tolist(), CALLS // 10)

    def test_programs_and_sessions(self):
        data = xcvm.assemble("xcvm 1\n" + ADD)
        self.check(lambda: xcvm.load(data).session(threads=1)([1, 2, 3, 4]), 3000)


if __name__ == "__main__":
    unittest.main()

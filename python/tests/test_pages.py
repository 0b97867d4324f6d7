"""The commands of pages of the documentation, with the outputs that the pages show.

A fenced block of Python or C whose first line is a comment with a file's name is that file. In a block of the console, a line that
begins with "$ " is a command, and the lines after it are its output. With --renew the pages get the outputs."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import ROOT

PAGES = ["docs/python/source-tutorial.md"]
NUMBER = re.compile(r"-?\d+\.\d+")
FILE = re.compile(r"(?:# |/\* )([\w.-]+\.(?:py|c))(?: \*/)?$")


def blocks(text):
    """Return the fenced blocks: first line, last line, language and lines."""
    found, start = [], None
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("```"):
            if start is None:
                start = number
            else:
                found.append((start, number, lines[start][3:], lines[start + 1 : number]))
                start = None
    return found


def commands(lines):
    """Return commands with their outputs."""
    found = []
    for line in lines:
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def environment(directory):
    """Return an environment with this interpreter, the command, and pkg-config for the libraries of the build."""
    build = Path(os.environ["XCVM_BUILD"]).resolve()
    programs = Path(directory, "bin")
    programs.mkdir()
    flags = f"-I{ROOT}/include -L{build} -Wl,-rpath,{build} -lxcvm"
    for name, line in {"python3": f'exec "{sys.executable}" "$@"', "xcvm": f'exec "{build}/tools/xcvm" "$@"', "pkg-config": f'echo "{flags}"'}.items():
        program = programs / name
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}


def run(page):
    """Return the blocks of a page's console with the outputs that the commands have now."""
    made = []
    with tempfile.TemporaryDirectory() as directory:
        around = environment(directory)
        for first, last, language, lines in blocks(page.read_text()):
            name = FILE.match(lines[0]) if lines else None
            if name and language in ("python", "c"):
                Path(directory, name.group(1)).write_text("\n".join(lines) + "\n")
            if language == "console":
                now = []
                for command, _ in commands(lines):
                    done = subprocess.run(["sh", "-c", command], cwd=directory, env=around, capture_output=True, text=True)
                    now += [f"$ {command}", *done.stdout.splitlines(), *done.stderr.splitlines()]
                    if done.returncode:
                        now.append(f"exit code {done.returncode}")
                made.append((first, last, lines, now))
    return made


@unittest.skipUnless(os.environ.get("XCVM_BUILD") and shutil.which("gcc"), "the build or gcc is missing")
class Pages(unittest.TestCase):
    maxDiff = None

    def test_outputs(self):
        try:
            import torch  # noqa: F401
        except ImportError:
            self.skipTest("torch is not installed")
        for name in PAGES:
            found = run(ROOT / name)
            self.assertGreater(len(found), 4, name)
            for first, _, shown, now in found:
                with self.subTest(f"{name}:{first + 1}"):
                    self.assert_same("\n".join(now), "\n".join(shown))

    def assert_same(self, now, shown):
        """Fail unless texts are equal, with floats that may differ in the last digit between processors."""
        self.assertEqual(NUMBER.sub("#", now), NUMBER.sub("#", shown))
        for a, b in zip(NUMBER.findall(now), NUMBER.findall(shown)):
            self.assertAlmostEqual(float(a), float(b), delta=2e-5, msg=f"{now}\n\nand\n\n{shown}")


def renew():
    for name in PAGES:
        page = ROOT / name
        lines = page.read_text().splitlines()
        for first, last, _, now in reversed(run(page)):
            lines[first + 1 : last] = now
        page.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--renew"]:
        renew()
    else:
        unittest.main()

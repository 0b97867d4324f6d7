"""``python -m xcvm.onnxruntime [-m MODULE | PROGRAM] [ARGUMENT...]``: run a program that imports onnxruntime."""

from __future__ import annotations

import os
import runpy
import sys

from . import install


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if arguments else 2)
    install()
    if arguments[0] == "-m":
        if len(arguments) < 2:
            sys.exit("python -m xcvm.onnxruntime: -m needs a module")
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()

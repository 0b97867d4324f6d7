"""Write docs/python/calls.md to standard output: the library calls that the tables of python/xcvm/source know. Needs Python alone."""

import collections
import importlib
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HEAD = """# Library calls in Python source

Functions, methods, attributes and modules that programs compiled from [source](source.md) know. This page is made of the tables
(`make generated`). Modules of `torch.nn` that are not listed, and functions of users, are compiled from their own source. A call that
is neither listed nor has source is refused by name. `@xcvm.host` marks functions that the program calls back.
"""
LIBRARIES = {
    "torch": "torch", "torchvision": "torchvision", "numpy": "NumPy", "chainer": "Chainer", "chainer_compiler": "Chainer Compiler",
    "builtins": "Python", "math": "Python", "operator": "Python", "itertools": "Python", "functools": "Python", "collections": "Python",
    "contextlib": "Python", "copy": "Python", "random": "Python", "logging": "Python", "warnings": "Python", "typing": "Python",
}  # fmt: skip


def load():
    """Return the module of the tables, without the package's extension modules, which it does not call."""
    for name in ("xcvm", "xcvm.source"):
        package = types.ModuleType(name)
        package.__path__ = [str(ROOT / "python" / name.replace(".", "/"))]
        sys.modules[name] = package
    for name in ("xcvm._tape", "xcvm._run", "xcvm._compiler"):
        extension = types.ModuleType(name)
        extension.INSTRUCTIONS = {}
        extension._statuses = list
        sys.modules[name] = extension
        setattr(sys.modules["xcvm"], name.rsplit(".", 1)[1], extension)
    try:
        importlib.import_module("numpy")
    except ImportError:
        # Functions that are written in terms of NumPy's are not called.
        sys.modules["numpy"] = types.ModuleType("numpy")
    tables = importlib.import_module("xcvm.source.tables")
    for path in sorted(Path(tables.__file__).parent.glob("*.py")):
        if path.stem not in ("__init__", "shared"):
            importlib.import_module(f"xcvm.source.tables.{path.stem}")
    return tables


def listed(names):
    return ", ".join(f"`{name}`" for name in sorted(names)) + "."


def page(tables):
    lines = [HEAD]
    groups = collections.defaultdict(lambda: collections.defaultdict(set))
    for title, names in (("functions", [*tables.FUNCTIONS, *tables.PURE]), ("modules", tables.MODULES), ("context managers", tables.CONTEXTS)):
        for name in names:
            library, _, rest = name.partition(".")
            owner, _, short = rest.rpartition(".")
            # Names of implementation modules are the same functions under other names.
            if "._" in "." + rest or short.startswith("_"):
                continue
            prefix = f"{library}.{owner}" if owner else library
            groups[LIBRARIES.get(library, library)][f"{prefix}: {title}"].add(short)
    for title, table in (("methods", tables.METHODS), ("attributes", tables.ATTRIBUTES)):
        for owner, names in table.items():
            library = LIBRARIES.get(owner, "Python")
            kind = {"torch": "torch.Tensor", "numpy": "numpy.ndarray", "chainer": "chainer.Variable"}.get(owner, owner)
            shown = {name for name in names if not name.startswith("_") and not name.startswith("set_")}
            if shown:
                groups[library][f"{kind}: {title}"] |= shown
    for library in sorted(groups):
        lines.append(f"\n## {library}\n")
        lines += [f"- {title}: {listed(names)}" for title, names in sorted(groups[library].items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(load()), end="")

"""The source of functions: syntax trees, the exact lambda among several on one line, and spans."""

from __future__ import annotations

import ast
import functools
import linecache
import os
import stat
import sys
import textwrap
import types
from typing import Any, Union

from .errors import Place, Refusal

Definition = Union[ast.FunctionDef, ast.Lambda]

MOST_SOURCE_BYTES = 16 << 20


@functools.lru_cache(maxsize=None)
def _parse(file: str, content: tuple[str, ...]) -> ast.Module:
    return ast.parse("".join(content), file)


def _definitions(tree: ast.AST) -> list[Definition]:
    return [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.Lambda))]


def _first_line(node: Definition) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _lines_of(function: types.FunctionType) -> list[str]:
    """Return the lines of the file of a function, or none.

    A code object can name any file. A device or a pipe might never end, and files of /proc have no size.
    """
    file = function.__code__.co_filename
    # The file is read now if the cache has no lines of it. A lazy entry has none yet: it is a tuple of one function.
    entry = linecache.cache.get(file)
    if not isinstance(entry, tuple) or len(entry) == 1:
        for path in [file] if os.path.isabs(file) else [file, *(os.path.join(folder, file) for folder in sys.path if isinstance(folder, str))]:
            try:
                about = os.stat(path)
            except (OSError, ValueError):
                continue
            if not stat.S_ISREG(about.st_mode) or about.st_size == 0:
                return []
            if about.st_size > MOST_SOURCE_BYTES:
                raise Refusal(
                    f"the source of '{function.__qualname__}' has {about.st_size} bytes ({file}), more than {MOST_SOURCE_BYTES}",
                    "Define it in a smaller file",
                )
            break
    return linecache.getlines(file, function.__globals__)


def definition_of(function: types.FunctionType) -> Definition:
    """Return the syntax tree of a live function.

    Raises Refusal if its source is not to be had, is async, or is a generator of run-time state.
    """
    code = function.__code__
    lines = _lines_of(function)
    if not lines:
        raise Refusal(
            f"the source of '{function.__qualname__}' is not to be had ({code.co_filename})",
            "Define it in a file, a notebook cell or the interactive interpreter, not by exec",
        )
    try:
        tree = _parse(code.co_filename, tuple(lines))
    except SyntaxError as error:
        raise Refusal(f"the source of '{function.__qualname__}' cannot be parsed: {error.msg}") from None
    wanted = ast.Lambda if code.co_name == "<lambda>" else ast.FunctionDef
    found = [
        node
        for node in _by_line(code.co_filename, tuple(lines)).get(code.co_firstlineno, [])
        if isinstance(node, wanted) and (isinstance(node, ast.Lambda) or node.name == code.co_name)
    ]
    if len(found) > 1:
        spans = {position[:2] for position in code.co_positions() if position[0] is not None}
        columns = {position[2] for position in code.co_positions() if position[2] is not None}
        found = [node for node in found if _contains(node, code, spans, columns)] or found
    if not found:
        if code.co_flags & 0x80:
            raise Refusal(f"'{function.__qualname__}' is a coroutine, which has no meaning in a graph")
        raise Refusal(
            f"the source of '{function.__qualname__}' has changed since it was loaded ({code.co_filename}:{code.co_firstlineno})",
            "Load the module again",
        )
    return found[0]


@functools.lru_cache(maxsize=None)
def _by_line(file: str, content: tuple[str, ...]) -> dict[int, list[Definition]]:
    found: dict[int, list[Definition]] = {}
    for node in _definitions(_parse(file, content)):
        found.setdefault(_first_line(node), []).append(node)
    return found


def _contains(node: Definition, code: types.CodeType, spans: set[Any], columns: set[int]) -> bool:
    """Tell whether the positions of the code are those of the body of this lambda."""
    body = node.body
    if isinstance(body, list):
        return True
    positions = [p for p in code.co_positions() if p[0] is not None and p[2] is not None and p[3] != p[2]]
    if not positions:
        return False
    return any(
        p[0] == body.lineno and p[2] == body.col_offset and p[1] == body.end_lineno and p[3] == body.end_col_offset for p in positions
    )


def place_of(node: ast.AST, file: str) -> Place:
    """Return the span of a node, with columns in characters, and its text."""
    line = getattr(node, "lineno", 1)
    end_line = getattr(node, "end_lineno", None) or line
    source = linecache.getline(file, line)
    column = _characters(source, getattr(node, "col_offset", 0))
    end_column = _characters(linecache.getline(file, end_line), getattr(node, "end_col_offset", 0) or 0)
    if isinstance(node, (ast.For, ast.While, ast.If, ast.With, ast.FunctionDef, ast.ClassDef, ast.Try)):
        end_line, end_column = line, len(source.split("  #")[0].rstrip())
    text = source.rstrip("\n")[column:end_column] if end_line == line else source[column:].rstrip() + " ..."
    return Place(file, line, column + 1, end_line, end_column + 1, textwrap.shorten(text, 100, placeholder=" ..."))


def _characters(line: str, offset: int) -> int:
    return len(line.encode()[:offset].decode(errors="replace"))


@functools.lru_cache(maxsize=None)
def local_names(node: Definition) -> frozenset[str]:
    """Return the names that are local to a function."""
    names: set[str] = {argument.arg for argument in arguments_of(node)}
    free: set[str] = set()
    body: list[ast.AST] = list(node.body) if isinstance(node, ast.FunctionDef) else [node.body]
    while body:
        inner = body.pop()
        if isinstance(inner, (ast.Global, ast.Nonlocal)):
            free.update(inner.names)
        elif isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(inner.name)
            body += inner.decorator_list
            if not isinstance(inner, ast.ClassDef):
                body += [d for d in [*inner.args.defaults, *inner.args.kw_defaults] if d]
            continue
        elif isinstance(inner, ast.Lambda):
            body += [d for d in [*inner.args.defaults, *inner.args.kw_defaults] if d]
            continue
        elif isinstance(inner, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            # Only walrus targets leave a comprehension.
            names.update(n.target.id for n in ast.walk(inner) if isinstance(n, ast.NamedExpr) and isinstance(n.target, ast.Name))
            continue
        elif isinstance(inner, ast.Name) and isinstance(inner.ctx, (ast.Store, ast.Del)):
            names.add(inner.id)
        elif isinstance(inner, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name).split(".")[0] for alias in inner.names)
        elif isinstance(inner, ast.ExceptHandler) and inner.name:
            names.add(inner.name)
        elif isinstance(inner, (ast.MatchAs, ast.MatchStar)) and inner.name:
            names.add(inner.name)
        body += list(ast.iter_child_nodes(inner))
    return frozenset(names - free)


def arguments_of(node: Definition) -> list[ast.arg]:
    """Return all parameters of a function."""
    a = node.args
    return [*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else []), *a.kwonlyargs, *([a.kwarg] if a.kwarg else [])]


@functools.lru_cache(maxsize=None)
def is_generator(node: Definition) -> bool:
    """Tell whether a function has a yield of its own."""
    body: list[ast.AST] = list(node.body) if isinstance(node, ast.FunctionDef) else [node.body]
    while body:
        inner = body.pop()
        if isinstance(inner, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            body += list(ast.iter_child_nodes(inner))
    return False

"""Einstein's sums: pairs of operands are contracted in turn, by products of matrices where that is possible."""

from __future__ import annotations

from typing import Any

from ..errors import PythonError

M = Any
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def contracted(m: M, equation: str, tensors: list[Any]) -> Any:
    """Return the sum that an equation says, with its meaning in NumPy and torch: "..." are broadcast axes, an index that one operand
    has twice is its diagonal, and without "->" the indices that occur once are the result's, in order."""
    terms, right = _terms(m, equation.replace(" ", ""), tensors)
    parts = [_diagonals(m, term, at) for term, at in zip(terms, tensors)]
    parts = _expanded(m, parts)
    term, at = parts[0]
    for position, (other, b) in enumerate(parts[1:], 1):
        rest = set(right).union(*[t for t, _ in parts[position + 1 :]])
        term, at = _pair(m, (term, at), (other, b), rest)
    gone = [i for i, c in enumerate(term) if c not in right]
    if gone:
        at = m.op("ReduceSum", at, m.ints(gone), keepdims=0)
        term = "".join(c for c in term if c in right)
    order = [term.index(c) for c in right]
    return at if order == list(range(len(order))) else m.op("Transpose", at, perm=order)


def _terms(m: M, equation: str, tensors: list[Any]) -> tuple[list[str], str]:
    """Return the indices of each operand and of the result, with letters for "..."."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(tensors):
        raise PythonError(ValueError(f"einsum: the equation has {len(terms)} operands, but {len(tensors)} are given"))
    free = [c for c in _LETTERS if c not in equation]
    wide = max([m.rank(at) - len(term.replace("...", "")) for term, at in zip(terms, tensors) if "..." in term] + [0])
    dots = "".join(free[:wide])
    for i, at in enumerate(tensors):
        count = m.rank(at) - len(terms[i].replace("...", ""))
        if count < 0 or (count > 0 and "..." not in terms[i]):
            raise PythonError(ValueError(f"einsum: operand {i} has {m.rank(at)} dimensions, but the equation names {terms[i]!r}"))
        terms[i] = terms[i].replace("...", dots[len(dots) - count :])
    if arrow:
        right = right.replace("...", dots)
    else:
        letters = "".join(terms)
        right = dots + "".join(sorted(c for c in set(letters) if letters.count(c) == 1 and c not in dots))
    unknown = [c for c in right if c not in "".join(terms)]
    if unknown or len(set(right)) != len(right):
        raise PythonError(ValueError(f"einsum: the result's indices {right!r} are not those of operands, each once"))
    return terms, right


def _diagonals(m: M, term: str, at: Any) -> tuple[str, Any]:
    """Return an operand of which each index is one axis."""
    for c in sorted(set(term)):
        while term.count(c) > 1:
            first, second = term.index(c), term.rindex(c)
            order = [i for i in range(len(term)) if i not in (first, second)] + [first, second]
            at = m.op("Transpose", at, perm=order)
            rank = len(term)
            places = m.op("Range", m.constant(0, "i64"), m.number_value(m.dimension(at, rank - 1), "i64"), m.constant(1, "i64"))
            shape = m.op("Shape", at, end=rank - 1)
            index = m.op("Expand", m.op("Unsqueeze", places, m.ints([1])), m.op("Concat", shape, m.ints([1]), axis=0))
            at = m.op("Squeeze", m.op("GatherElements", at, index, axis=rank - 1), m.ints([rank - 1]))
            term = "".join(term[i] for i in order[:-1])
    return term, at


def _expanded(m: M, parts: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the operands without axes of size 1 that another operand has longer: these are broadcast."""
    sizes: dict[str, set[Any]] = {}
    for term, at in parts:
        for c, size in zip(term, at.type.dims or ()):
            sizes.setdefault(c, set()).add(size)
    made = []
    for term, at in parts:
        ones = [i for i, (c, size) in enumerate(zip(term, at.type.dims or ())) if size == 1 and len(sizes[c]) > 1]
        if ones:
            at = m.op("Squeeze", at, m.ints(ones))
            term = "".join(c for i, c in enumerate(term) if i not in ones)
        made.append((term, at))
    return made


def _pair(m: M, first: tuple[str, Any], second: tuple[str, Any], rest: set[str]) -> tuple[str, Any]:
    """Return the contraction of two operands; `rest` are the indices that are needed later."""
    (term, at), (other, b) = first, second
    both = [c for c in term if c in other]
    batch, inner = [c for c in both if c in rest], [c for c in both if c not in rest]
    only_a, only_b = [c for c in term if c not in other], [c for c in other if c not in term]
    if len(inner) == 1 and len(only_a) <= 1 and len(only_b) <= 1:
        x = m.op("Transpose", at, perm=[term.index(c) for c in [*batch, *only_a, *inner]])
        y = m.op("Transpose", b, perm=[other.index(c) for c in [*batch, *inner, *only_b]])
        if not only_a:
            x = m.op("Unsqueeze", x, m.ints([len(batch)]))
        if not only_b:
            y = m.op("Unsqueeze", y, m.ints([len(batch) + 1]))
        made = m.op("MatMul", x, y)
        drop = ([len(batch)] if not only_a else []) + ([len(batch) + 1] if not only_b else [])
        return "".join([*batch, *only_a, *only_b]), m.op("Squeeze", made, m.ints(drop)) if drop else made
    whole = list(dict.fromkeys(term + other))
    made = m.op("Mul", _aligned(m, at, term, whole), _aligned(m, b, other, whole))
    gone = [i for i, c in enumerate(whole) if c not in rest]
    if gone:
        made = m.op("ReduceSum", made, m.ints(gone), keepdims=0)
    return "".join(c for c in whole if c in rest), made


def _aligned(m: M, at: Any, term: str, whole: list[str]) -> Any:
    """Return an operand with an axis for each index of both."""
    order = sorted(range(len(term)), key=lambda i: whole.index(term[i]))
    at = m.op("Transpose", at, perm=order)
    missing = [i for i, c in enumerate(whole) if c not in term]
    return m.op("Unsqueeze", at, m.ints(missing)) if missing else at

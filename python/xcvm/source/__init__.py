"""Models compiled from their Python source, by abstract interpretation of the syntax tree with the live objects."""

from __future__ import annotations

from .errors import Place, Problem, SourceErrors
from .machine import Constant, Dim, Recorded, record
from .program import SourceProgram, host

__all__ = ["Constant", "Dim", "Place", "Problem", "Recorded", "SourceErrors", "SourceProgram", "host", "record"]

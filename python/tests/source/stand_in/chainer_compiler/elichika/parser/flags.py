"""A stand-in for Elichika's flags: context managers that do nothing in Python."""

import contextlib


def ignore_branch():
    return contextlib.nullcontext()


def for_unroll(unroll=True):
    return contextlib.nullcontext()

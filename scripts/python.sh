#!/bin/sh
# python.sh BUILD VENV [--test]: installs the Python package, with the C libraries of BUILD, into the virtual environment
# VENV, which is created if it is missing and sees Debian's packages. With --test also checks types and runs the tests.
set -eu
cd "$(dirname "$0")/.."
build=$PWD/$1 venv=$2
[ -x "$venv/bin/python" ] || /usr/bin/python3 -m venv --system-site-packages "$venv"
XCVM_BUILD=$build "$venv/bin/pip" install --quiet --no-index --disable-pip-version-check --force-reinstall --no-deps ./python
[ "${3:-}" = --test ] || exit 0

(cd python && mypy)
# From the repository's root the installed package is imported, not the sources.
XCVM_BUILD=$build scripts/unittest.sh "$venv/bin/python" discover -s python/tests

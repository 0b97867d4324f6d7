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
log=$(mktemp)
trap 'rm -f "$log"' EXIT
code=0
XCVM_BUILD=$build "$venv/bin/python" -m unittest discover -s python/tests >"$log" 2>&1 || code=$?
cat "$log"
[ "$code" != 0 ] || awk '/^Ran [0-9]+ tests/ { ran = $2 }
    /^OK/ { skipped = /skipped=/ ? $0 : 0; gsub(/[^0-9]/, "", skipped); print ran - skipped " passed, 0 failed, " skipped + 0 " skipped" }' "$log"
exit "$code"

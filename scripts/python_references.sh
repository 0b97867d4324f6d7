#!/bin/sh
# python_references.sh BUILD [CALLS]: references that calls of the Python package keep, counted by a debug interpreter (Debian's
# python3-dbg), which also checks its objects. The extension modules are compiled as that interpreter is.
set -eu
cd "$(dirname "$0")/.."
package=$1/python-debug
CFLAGS=-DPy_DEBUG scripts/python_package.sh "$1" "$package"
PYTHONPATH=$package:python/tests PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3-dbg -X dev -W ignore python/tests/references.py ${2:-}

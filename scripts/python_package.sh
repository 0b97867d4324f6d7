#!/bin/sh
# python_package.sh BUILD FOLDER: makes a copy of the Python package in FOLDER with the libraries of BUILD, and compiles its
# extension modules with $CC and $CFLAGS. For tests with sanitizers and with a debug interpreter.
set -eu
cd "$(dirname "$0")/.."
case $1 in /*) build=$1 ;; *) build=$PWD/$1 ;; esac
rm -rf "$2"
mkdir -p "$2"
cp -r python/xcvm python/src python/backend.py "$2"
rm -f "$2"/xcvm/*.so
mkdir "$2/xcvm/lib"
cp -P "$build"/libxcvm.so* "$build"/libxcvm-compiler.so* "$2/xcvm/lib"
XCVM_BUILD="$build" PYTHONPATH=python PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 - "$2" <<'PYTHON'
import pathlib
import sys

import backend

backend.compile_modules(backend.find_libraries(), "$ORIGIN/lib", pathlib.Path(sys.argv[1], "xcvm"))
PYTHON

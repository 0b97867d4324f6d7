#!/bin/sh
# versions.sh BUILD: tests the changes of opsets 18 to 26, which are newer than Debian's python3-onnx; expected values
# from NumPy.
set -eu
build=$1
cases=$build/version-cases
if ! /usr/bin/python3 -c 'import numpy, onnx' 2>/dev/null; then
    echo "python3-onnx is not installed; make test installs it"
    exit 1
fi
if [ ! -f "$cases/complete" ] || [ -n "$(find tests/make_version_cases.py tests/onnx_cases -newer "$cases/complete")" ]; then
    rm -rf "$cases"
    /usr/bin/python3 -W ignore tests/make_version_cases.py "$cases"
    touch "$cases/complete"
fi
"$build/tools/xcvm" test "$cases" --rtol 1e-3 --atol 1e-7 --list-failures

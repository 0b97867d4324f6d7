#!/bin/sh
# ml.sh BUILD: scikit-learn's models as operators of ai.onnx.ml, compared with scikit-learn's own predictions.
set -eu
build=$1
cases=$build/ml-cases
if ! /usr/bin/python3 -c 'import onnx, sklearn' 2>/dev/null; then
    echo "python3-onnx or python3-sklearn is not installed; make test installs it"
    exit 1
fi
if [ ! -f "$cases/complete" ]; then
    rm -rf "$cases"
    /usr/bin/python3 tests/make_ml_cases.py "$cases" 2>"$build/ml-cases.log" || { cat "$build/ml-cases.log"; exit 1; }
    touch "$cases/complete"
fi
# The probabilities of support vector machines are those of an iteration that stops early.
"$build/tools/xcvm" test "$cases" --rtol 1e-3 --atol 1e-4 --list-failures

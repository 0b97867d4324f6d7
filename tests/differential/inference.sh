#!/bin/sh
# inference.sh BUILD: trains networks with BatchNormalization and Dropout by `xcvm train`. Compares program, ONNX, C and
# quantized forms with PyTorch's eval() of the same weights, one example at a time and in batches; the ONNX files also
# in ONNX Runtime. Fails without PyTorch, ONNX Runtime or python3-onnx.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
work=$build/inference
export PYTHONDONTWRITEBYTECODE=1
/usr/bin/python3 -c 'import numpy, onnx, torch' 2>/dev/null || { echo "python3-onnx or python3-torch is not installed; make test installs it"; exit 1; }
library=$("$here/../../scripts/onnxruntime.sh" 2>"$build/onnxruntime.log") || { code=$?; tail -n 1 "$build/onnxruntime.log"; exit $code; }
rm -rf "$work"
mkdir -p "$work"
cc -O2 "$here/ort_run.c" -o "$work/ort_run" "$library" "-Wl,-rpath,$(dirname "$library")"
/usr/bin/python3 -W ignore "$here/inference.py" "$build/tools/xcvm" "$work/cases" make >"$work/list.txt"
"$work/ort_run" <"$work/list.txt" >"$work/judged.txt"
if grep -v '^ok ' "$work/judged.txt"; then
    echo "ONNX Runtime refuses models"
    exit 1
fi
/usr/bin/python3 -W ignore "$here/inference.py" "$build/tools/xcvm" "$work/cases" judge

#!/bin/sh
# quantize.sh BUILD: models that `xcvm quantize` writes, in every form, in ONNX Runtime and in XCVM, which have to agree,
# and for onnx.checker. Fails without ONNX Runtime or python3-onnx.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1
work=$build/quantized
export PYTHONDONTWRITEBYTECODE=1
/usr/bin/python3 -c 'import numpy, onnx' 2>/dev/null || { echo "python3-onnx is not installed; make test installs it"; exit 1; }
library=$("$here/../../scripts/onnxruntime.sh" 2>"$build/onnxruntime.log") || { code=$?; tail -n 1 "$build/onnxruntime.log"; exit $code; }
rm -rf "$work"
mkdir -p "$work"
cc -O2 "$here/ort_run.c" -o "$work/ort_run" "$library" "-Wl,-rpath,$(dirname "$library")"
/usr/bin/python3 "$here/quantize.py" "$build/tools/xcvm" "$work/cases" >"$work/list.txt"
"$work/ort_run" <"$work/list.txt" >"$work/judged.txt"
refused=$(grep -cv '^ok ' "$work/judged.txt" || true)
grep -v '^ok ' "$work/judged.txt" || true
# judge OPTION...: options of xcvm test; prints failures, and the count.
judge() {
    "$build/tools/xcvm" test "$@" >"$work/tested.txt" && passed=0 || passed=1
    grep -v '^PASS' "$work/tested.txt" || true
    return $passed
}
# Computed with dequantized floats, like the QDQ forms in ONNX Runtime. Integers may differ by one step at ties, which
# the softmax in `attention` amplifies.
judge "$work/cases" --integer never --rtol 1e-4 --atol 1e-4
judge "$work"/cases/*images* --rtol 1e-4 --atol 1e-4
judge "$work"/cases/*attention* --rtol 1e-4 --atol 0.15
echo "$(wc -l <"$work/list.txt") models, $refused that ONNX Runtime refuses"
[ "$refused" = 0 ]

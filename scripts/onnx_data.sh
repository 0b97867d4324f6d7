#!/bin/sh
# onnx_data.sh BUILD DATA: the test data of a newer ONNX than python3-onnx makes: DATA is the folder that holds node/, simple/
# and pytorch-*/, as Debian's later releases install it with libonnx-testdata (usr/share/libonnx-testdata/data).
#
# tests/onnx_data.txt lists, with reasons, the cases that are known to differ with one release or another.
set -eu
build=$1
data=$2
"$build/tools/xcvm" test "$data"/node "$data"/simple "$data"/pytorch-* --rtol 1e-3 --atol 1e-7 \
    --shape-only 'test_bernoulli*' --shape-only 'test_training_dropout*' >"$build/onnx_data.txt" && code=0 || code=$?
tail -n 1 "$build/onnx_data.txt"
# 1: some failed, which the list below is about.
[ "$code" -le 1 ] || { echo "xcvm test ended with $code"; exit 1; }
sed '/^#/d; /^$/d; s/:.*//' tests/onnx_data.txt tests/conformance.txt | sed 's/ .*//' >"$build/onnx_data-known.txt"
failed=$(awk '$1 == "FAIL" { print $2 }' "$build/onnx_data.txt" | sed 's|.*/||; s/:$//' | sort)
unexpected=$(echo "$failed" | grep -v -x -f "$build/onnx_data-known.txt" || true)
[ -z "$unexpected" ] || { echo "fail, but are not in tests/onnx_data.txt:"; echo "$unexpected"; exit 1; }

#!/bin/sh
# Builds ort_bench against ONNX Runtime, in bench/out.
set -eu
cd "$(dirname "$0")/.."
out=bench/out
mkdir -p "$out"
library=$(scripts/onnxruntime.sh)
cc -O2 bench/ort_bench.c -o "$out/ort_bench" "$library" -Wl,-rpath,"$(dirname "$library")"

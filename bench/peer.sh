#!/bin/sh
# Fetches ONNX Runtime (package onnxruntime-node) and builds ort_bench against it, both in bench/out.
set -eu
cd "$(dirname "$0")/.."
out=bench/out
mkdir -p "$out"
if [ ! -d "$out/node_modules/onnxruntime-node" ]; then
    scripts/install-packages.sh npm
    (cd "$out" && npm install --ignore-scripts --no-audit --no-fund onnxruntime-node >/dev/null)
fi
library=$PWD/$out/node_modules/onnxruntime-node/bin/napi-v6/linux/x64
cc -O2 bench/ort_bench.c -o "$out/ort_bench" "$library/libonnxruntime.so.1" -Wl,-rpath,"$library"

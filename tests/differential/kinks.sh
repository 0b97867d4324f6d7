#!/bin/sh
# kinks.sh BUILD: gradients of networks with kinks, which are at most twice as far from PyTorch's in f64 as PyTorch's in f32.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
work=$build/kinks
export PYTHONDONTWRITEBYTECODE=1
/usr/bin/python3 -c 'import numpy, onnx, torch' 2>/dev/null || { echo "python3-onnx or python3-torch is not installed; make test installs it"; exit 1; }
rm -rf "$work"
mkdir -p "$work"
/usr/bin/python3 -W ignore "$here/kinks.py" "$build/tools/xcvm" "$work"

#!/bin/sh
# onnxruntime.sh: prints the path of ONNX Runtime's shared library: $ONNXRUNTIME if that is set, else that of the npm package
# onnxruntime-node in bench/out, which is installed there if it is not. Exit code 1 if it cannot be had, 77 if there is none
# for this machine.
set -eu
cd "$(dirname "$0")/.."
machine=$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')
find_library() {
    find "$PWD/bench/out/node_modules/onnxruntime-node" -name libonnxruntime.so.1 -path "*$machine*" 2>/dev/null | head -n 1
}
library=${ONNXRUNTIME:-$(find_library)}
if [ -z "$library" ]; then
    scripts/npm-package.sh onnxruntime-node >&2 || {
        code=$?
        echo "ONNX Runtime is not there: scripts/npm-package.sh onnxruntime-node installs it, or ONNXRUNTIME names its library" >&2
        exit "$code"
    }
    library=$(find_library)
fi
[ -n "$library" ] || { echo "onnxruntime-node has no library for $(uname -m) in bench/out/node_modules" >&2; exit 1; }
echo "$library"

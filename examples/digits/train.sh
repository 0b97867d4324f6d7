#!/bin/sh
# train.sh [BUILD [OUT]]: trains a small convolutional network on handwritten digits, from scratch, and measures it on a fifth
# of them that it has not seen. Pixels of digits.npz are from 0 to 16. OUT gets the model, a curve, a log and checkpoints. The
# last line is the accuracy.
set -eu
build=${1:-build/release} out=${2:-demo/training}
here=$(dirname "$0")
xcvm=$build/tools/xcvm
mkdir -p "$out"
rm -rf "$out/checkpoints"

"$xcvm" train "$here/untrained.onnx" --data "$here/digits.npz" --input 'image=images*1/16' --label label=labels \
    --loss softmax_cross_entropy --init he --optimizer adam:lr=3e-3 --schedule onecycle \
    --epochs 12 --batch 64 --validation 0.2 --seed 1 --checkpoint "$out/checkpoints" \
    --log "$out/digits.csv" --curve "$out/digits.svg" -o "$out/digits.onnx" | tee "$out/train.txt"
sed -n 's/^validation accuracy/accuracy/p' "$out/train.txt"

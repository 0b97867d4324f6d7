#!/bin/sh
# accuracy.sh [MODEL...]: errors of XCVM's and ONNX Runtime's results against the model computed in float64, as a Markdown
# table. Models as for compare.sh, compiled as there; each needs its test_data_set_0.
set -eu
cd "$(dirname "$0")/.."
out=bench/out
models=${XCVM_MODELS:-$out/models}
xcvm=build/release/tools/xcvm
bench/peer.sh
scripts/install-packages.sh python3-torch python3-onnx >&2
[ $# != 0 ] || set -- "$models"/*

printf '| model | largest value | ONNX Runtime: rms error | XCVM | ratio | ONNX Runtime: largest error | XCVM | ratio |\n'
printf '| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n'
for model; do
    [ -f "$model/model.onnx" ] || continue
    case $model in *_dynamic) continue ;; esac
    data=$model/test_data_set_0
    "$xcvm" compile "$model/model.onnx" --kernel-library -o "$out/accuracy.bin"
    "$xcvm" run "$out/accuracy.bin" --input "@$data/input_0.pb" --output "y=@$out/accuracy.npy"
    "$out/ort_bench" "$model/model.onnx" 1 0 --data "$data" --set "$out" >/dev/null
    /usr/bin/python3 bench/accuracy.py "$model" "$out/accuracy.npy" "$out/ort_output_0.raw"
    rm -f "$out/accuracy.bin" "$out/accuracy.so" "$out/accuracy.npy" "$out/ort_output_0.raw"
done

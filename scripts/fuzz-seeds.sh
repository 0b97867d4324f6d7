#!/bin/sh
# fuzz-seeds.sh XCVM OUT: programs and their texts from the cases of all instructions (tests/ops), and ONNX's small models
# where python3-onnx is installed, for the fuzz targets to begin with.
set -eu
xcvm=$1
out=$2
[ ! -f "$out/complete" ] || exit 0
mkdir -p "$out/text" "$out/program" "$out/model"
awk -v out="$out/text" '
    FNR == 1 { name = FILENAME; sub(/.*\//, "", name); sub(/\.xcvm$/, "", name) }
    /^case / { close(file); file = out "/" name "-" FNR ".xcvm"; print "xcvm 1" >file; skip = 0; next }
    /^(expect|refuse)/ { skip = 1; next }
    /^[$a-zA-Z]/ { skip = 0 }
    file != "" && !skip { print >file }' tests/ops/*.xcvm
for text in "$out"/text/*.xcvm; do
    "$xcvm" asm "$text" -o "$out/program/$(basename "$text" .xcvm).bin" 2>/dev/null || rm "$text"
done
if /usr/bin/python3 -c 'import onnx' 2>/dev/null; then
    /usr/bin/python3 tests/make_onnx_cases.py "$out/onnx" >/dev/null 2>&1
    for model in "$out"/onnx/node/*/model.onnx "$out"/onnx/simple/*/model.onnx; do
        [ "$(wc -c <"$model")" -gt 16000 ] || cp "$model" "$out/model/$(basename "$(dirname "$model")").onnx"
    done
    rm -rf "$out/onnx"
fi
touch "$out/complete"

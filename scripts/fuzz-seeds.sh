#!/bin/sh
# fuzz-seeds.sh BUILD OUT: programs and their texts from the cases of all instructions (tests/ops), and the small models of
# all generators of cases and their programs where python3-onnx is installed, for the fuzz targets to begin with.
set -eu
xcvm=$1/tools/xcvm
cases=$1/tests/xcvm_export_cases
out=$2
[ ! -f "$out/complete" ] || exit 0
mkdir -p "$out/text" "$out/program" "$out/model"
"$cases" --programs "$out" tests/ops/*/*.xcvm
for generator in onnx version plus attention control ml; do
    # A generator whose modules are not installed adds nothing.
    /usr/bin/python3 -B -W ignore "tests/make_${generator}_cases.py" "$out/onnx/$generator" >/dev/null 2>&1 || true
done
contributed=$(/usr/bin/python3 -B tests/differential/generate.py --list contrib 2>/dev/null) || true
# shellcheck disable=SC2086
[ -z "$contributed" ] || /usr/bin/python3 -B tests/differential/generate.py "$out/onnx/contrib" 1 0 400 $contributed >/dev/null
find "$out/onnx" -name model.onnx -size -16k 2>/dev/null | while read -r model; do
    name=$(basename "$(dirname "$model")")
    cp "$model" "$out/model/$name.onnx"
    "$xcvm" compile "$model" -o "$out/program/model-$name.bin" >/dev/null 2>&1 || true
done
find "$out/program" -type f -size +31 -delete # in 512 bytes: longer than what is fuzzed
rm -rf "$out/onnx"
touch "$out/complete"

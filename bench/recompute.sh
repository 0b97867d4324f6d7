#!/bin/sh
# recompute.sh [NAME...]: recomputation on the networks of make_recompute.py, as Markdown. Columns: the planned peak of
# a step without it, and the lowest peak of each method, in MB; the gradients of the parameters, which each step
# computes. Then the slowdown of a step, estimated and measured, for a budget of the gradients plus half of the other
# memory of the peak. One thread, ROUNDS (2) of 3 runs each in turn.
set -eu
cd "$(dirname "$0")/.."
out=bench/out/recompute
xcvm=build/release/tools/xcvm
python=${PYTHON:-/usr/bin/python3}
rounds=${ROUNDS:-2}

mkdir -p "$out"
printf '| network | all kept | chen | time | memory | gradients | half the activations | estimate | measured |\n'
printf '| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n'
for name in ${*:-resnet50 resnet152 densenet121 vgg19 googlenet unet pspnet}; do
    [ -f "$out/$name.onnx" ] || "$python" bench/make_recompute.py "$out" "$name" >&2
    wrt=$("$python" bench/parameters_as_inputs.py "$out/$name.onnx" "$out/inputs.onnx")
    # METHOD and budget: the three numbers in the line about recomputation.
    plan() {
        method=$1
        shift
        "$xcvm" compile "$out/inputs.onnx" -o "$out/step.bin" --backprop --wrt "$wrt" --recompute "$method" "$@" 2>&1 |
            sed -n 's/.* peak \([0-9.]*\) MB, \([0-9.]*\) MB without.* takes \([0-9.]*\) times.*/\1 \2 \3/p'
    }
    row="| $name"
    for method in chen time memory; do
        figures=$(plan "$method")
        [ "$method" != chen ] || row="$row | $(echo "$figures" | awk '{ print $2 }')"
        row="$row | $(echo "$figures" | awk '{ printf "%s (%.0f %%)", $1, 100 * ($1 / $2 - 1) }')"
    done
    gradients=$("$xcvm" check "$out/$name.onnx" --backprop | sed -n 's/^gradients .* \([0-9.]*\) MB$/\1/p')
    row="$row | $gradients"
    half=$(echo "$figures $gradients" | awk '{ printf "%d", ($2 + $4) * 1e6 / 2 }')
    figures=$(plan time --memory-budget "$half")
    if [ -n "$figures" ]; then
        "$xcvm" compile "$out/inputs.onnx" -o "$out/kept.bin" --backprop --wrt "$wrt"
        : >"$out/kept.txt"
        : >"$out/step.txt"
        for round in $(seq "$rounds"); do
            for kind in kept step; do
                "$xcvm" bench "$out/$kind.bin" --threads 1 --int-max 8 -w 0 -n 3 | sed -n 's/.* median_ms=\([0-9.]*\).*/\1/p' >>"$out/$kind.txt"
            done
        done
        measured=$(paste "$out/kept.txt" "$out/step.txt" | awk '{ kept += $1; step += $2 } END { printf "%.2f", step / kept }')
        row="$row | $(echo "$figures" | awk -v measured="$measured" '{ printf "%s | %.2f | %s", $1, $3, measured }')"
    else
        row="$row | no way | |"
    fi
    echo "$row |"
    rm -f "$out/inputs.onnx" "$out/step.bin" "$out/kept.bin" "$out/kept.txt" "$out/step.txt"
done

#!/bin/sh
# process.sh: compares whole processes with ONNX Runtime, from exec to exit: load a model, run it once, print the
# result. Prints a Markdown table with the median of 21 alternating runs each.
set -eu
cd "$(dirname "$0")/.."
out=bench/out
xcvm=build/release/tools/xcvm
bench/peer.sh

once() { # COMMAND...: milliseconds
    begin=$(date +%s%N)
    "$@" >/dev/null 2>&1
    end=$(date +%s%N)
    echo $(((end - begin) / 1000))
}
median() { sort -n "$1" | awk '{ t[NR] = $1 } END { printf "%.2f", t[int((NR + 1) / 2)] / 1000 }'; }

printf '| model | ONNX Runtime ms | XCVM ms | ratio |\n| --- | ---: | ---: | ---: |\n'
for model in examples/digits ../shared/models/mnist_8 "${XCVM_MODELS:-$out/models}/resnet18"; do
    [ -f "$model/model.onnx" ] || continue
    "$xcvm" compile "$model/model.onnx" -o "$out/process.bin"
    : >"$out/ours.txt"
    : >"$out/theirs.txt"
    for round in $(seq 21); do
        once "$xcvm" run "$out/process.bin" --random --threads 1 >>"$out/ours.txt"
        once "$out/ort_bench" "$model/model.onnx" 1 0 >>"$out/theirs.txt"
    done
    ours=$(median "$out/ours.txt") theirs=$(median "$out/theirs.txt")
    echo "$ours $theirs" | awk -v name="$(basename "$model")" '{ printf "| %s | %.2f | %.2f | %.1f |\n", name, $2, $1, $2 / $1 }'
    rm -f "$out/process.bin" "$out/ours.txt" "$out/theirs.txt"
done

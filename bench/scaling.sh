#!/bin/sh
# scaling.sh: how time grows with batch size, sequence length and depth, compared with ONNX Runtime, and with concurrent
# sessions, as Markdown tables. Models as for compare.sh.
set -eu
cd "$(dirname "$0")/.."
out=bench/out
models=${XCVM_MODELS:-$out/models}
runs=${XCVM_RUNS:-20}
xcvm=build/release/tools/xcvm
bench/peer.sh

field() { sed -n "s/.* $1=\([0-9.]*\).*/\1/p"; }

# rows MODEL DIMENSION SIZE...
rows() {
    model=$1 dimension=$2
    shift 2
    for size; do
        ours=$("$xcvm" bench "$models/$model/model.onnx" --dim "$dimension=$size" --iterations "$runs" | tail -1 | field median_ms)
        peer=$("$out/ort_bench" "$models/$model/model.onnx" 1 "$runs" --open "$size" | field median_ms)
        echo "$size $ours $peer"
    done | awk '{ printf "| %d | %.3f | %.3f | %.3f | %.2f |\n", $1, $2, $2 / $1, $3, $3 / $2 }'
}

table() { # TITLE UNIT
    printf '\n### %s\n\n| %s | XCVM ms | ms each | ONNX Runtime ms | ratio |\n| ---: | ---: | ---: | ---: | ---: |\n' "$1" "$2"
}

table 'mlp by batch' batch
rows mlp_dynamic batch 1 2 4 8 16 32 64 128
table 'resnet18 by batch' batch
rows resnet18_dynamic batch 1 2 4 8
table 'transformer_small by sequence length' tokens
rows transformer_small_dynamic length 8 16 32 64 128

printf '\n### A chain of Tanh over 256 elements, by depth\n\n| instructions | us | ns each |\n| ---: | ---: | ---: |\n'
for depth in 1 10 100 1000 10000; do
    awk -v n="$depth" 'BEGIN {
        print "xcvm 1\ninput x f32[256]\noutput y f32[256]\n$1 = In(name=\"x\")"
        for (i = 1; i <= n; i++) printf "$%d = Tanh($%d)\nFree($%d)\n", i + 1, i, i
        printf "Out($%d, name=\"y\")\nFree($%d)\n", n + 1, n + 1
    }' >"$out/depth.txt"
    "$xcvm" asm "$out/depth.txt" -o "$out/depth.bin"
    echo "$depth $("$xcvm" bench "$out/depth.bin" --iterations "$runs" | tail -1 | field median_ms)"
done | awk '{ printf "| %d | %.1f | %.1f |\n", $1, $2 * 1e3, $2 * 1e6 / $1 }'
rm -f "$out/depth.txt" "$out/depth.bin"

printf '\n### Processes of one thread side by side, resnet18\n\n| processes | ms a run, each | runs a second in all |\n| ---: | ---: | ---: |\n'
"$xcvm" compile "$models/resnet18/model.onnx" -o "$out/side.bin"
for processes in 1 2 4; do
    for p in $(seq "$processes"); do
        "$xcvm" bench "$out/side.bin" --duration 2 | tail -1 | field median_ms >"$out/side.$p" &
    done
    wait
    cat "$out"/side.[0-9]* | awk -v n="$processes" '{ sum += $1 } END { printf "| %d | %.2f | %.1f |\n", n, sum / NR, n * 1000 * NR / sum }'
    rm -f "$out"/side.[0-9]*
done
rm -f "$out/side.bin"

#!/bin/sh
# neighbor.sh [MODEL...]: XCVM and ONNX Runtime while another process keeps one processor busy. Prints a Markdown table
# of the time of two threads over that of one, with and without the other process. Models as for compare.sh. All
# processes are bound to two processors.
set -eu
cd "$(dirname "$0")/.."
out=bench/out
models=${XCVM_MODELS:-$out/models}
runs=${XCVM_RUNS:-60}
rounds=${XCVM_ROUNDS:-5}
xcvm=build/release/tools/xcvm
bench/peer.sh
[ $# != 0 ] || set -- "$models/resnet18" "$models/mobilenet_v2" "$models/transformer_small"
[ "$(nproc)" -ge 2 ] || { echo 'neighbor.sh: one processor cannot be shared with a neighbor and left, too' >&2; exit 2; }
[ "$(nproc)" -eq 2 ] || exec taskset -c 0,1 "$0" "$@"

neighbor=
trap '[ -z "$neighbor" ] || kill "$neighbor"' EXIT

field() { sed -n "s/.* median_ms=\([0-9.]*\).*/\1/p"; }
ours() { "$xcvm" bench "$model/model.onnx" --threads "$1" --iterations "$runs" | tail -1 | field; }
peer() { "$out/ort_bench" "$model/model.onnx" "$1" "$runs" | field; }

# time_rounds WORD: one line for each round: WORD and the medians of one and two threads, ours and the peer's.
time_rounds() {
    for round in $(seq "$rounds"); do
        echo "$1 $(ours 1) $(ours 2) $(peer 1) $(peer 2)"
    done
}

printf '| model | alone: ms, 1 thread | 2 threads | over 1 | ONNX Runtime | neighbor: ms, 1 thread | 2 threads | over 1 | ONNX Runtime |\n'
printf '| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n'
for model; do
    {
        time_rounds alone
        sh -c 'while :; do :; done' &
        neighbor=$!
        time_rounds beside
        kill "$neighbor"
        wait "$neighbor" 2>/dev/null || true
        neighbor=
    } >"$out/neighbor.txt"
    # The median round.
    for word in alone beside; do
        for column in 2 3 4 5; do
            grep "^$word" "$out/neighbor.txt" | cut -d' ' -f"$column" | sort -n | sed -n "$(((rounds + 1) / 2))p"
        done
    done | paste -sd' ' - | awk -v model="$(basename "$model")" '{
        printf "| %s | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |\n",
            model, $1, $2, $2 / $1, $4 / $3, $5, $6, $6 / $5, $8 / $7 }'
done

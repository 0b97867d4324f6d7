#!/bin/sh
# compare.sh [MODEL...]: XCVM beside ONNX Runtime on the same models, interleaved, at 1 and 2 threads.
#
# A MODEL is a folder that holds model.onnx; without any, those in $XCVM_MODELS, which bench/make_models.sh fills. The
# table goes to standard output and to bench/out/table.txt. Needs npm for the package onnxruntime-node, and
# build/release (make).
set -eu
cd "$(dirname "$0")/.."
out=bench/out
models=${XCVM_MODELS:-$out/models}
runs=${XCVM_RUNS:-30}
rounds=${XCVM_ROUNDS:-5}
mkdir -p "$out"

bench/peer.sh

if [ $# = 0 ]; then
    [ -d "$models" ] || { echo "compare.sh: no models in $models; bench/make_models.sh makes them" >&2; exit 2; }
    set -- "$models"/*
fi

xcvm=build/release/tools/xcvm
lines=$out/lines.txt
: >"$lines"
for model; do
    [ -f "$model/model.onnx" ] || continue
    case $model in *_dynamic) continue ;; esac
    name=$(basename "$model")
    begin=$(date +%s.%N)
    if ! "$xcvm" compile "$model/model.onnx" --kernel-library -o "$out/$name.bin"; then
        continue
    fi
    echo "$name sizes model_bytes=$(stat -c %s "$model/model.onnx") program_bytes=$(stat -c %s "$out/$name.bin")" \
        "compile_s=$(echo "$(date +%s.%N) $begin" | awk '{ print $1 - $2 }')" >>"$lines"
    # Some dozens of runs of a tiny model are over before the processor is awake.
    case $("$xcvm" bench "$out/$name.bin" --iterations 20 | tail -1) in
    *median_ms=0.*) count=$((runs * 50)) ;;
    *) count=$runs ;;
    esac
    for threads in 1 2; do
        for round in $(seq "$rounds"); do
            # Not through pipes: their readers would start while the first run is measured.
            "$xcvm" bench "$out/$name.bin" --threads "$threads" --iterations "$count" >"$out/last.txt"
            tail -1 "$out/last.txt" | sed "s/^/$name /" >>"$lines"
            "$out/ort_bench" "$model/model.onnx" "$threads" "$count" >"$out/last.txt"
            sed "s/^/$name /" "$out/last.txt" >>"$lines"
        done
    done
    # The time by instruction on one thread: the first table of the profile, down to one percent.
    "$xcvm" profile "$out/$name.bin" --threads 1 | awk -v model="$name" '
        NF == 0 { exit }
        NR > 1 && $5 >= 1 { print model, "part", "name=" $1, "share=" $5, "gflops=" $6, "gbs=" $7 }' >>"$lines"
    rm -f "$out/$name.bin" "$out/$name.so" "$out/last.txt"
    [ ! -t 2 ] || printf '\r%-40s' "$name" >&2
done
[ ! -t 2 ] || printf '\r%-40s\r' '' >&2
awk -f bench/table.awk "$lines" | tee "$out/table.txt"

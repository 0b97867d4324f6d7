#!/bin/sh
# operators.sh [NAME...]: compares each operator with ONNX Runtime on one thread, in alternation. NAMEs select the
# entries of operators.py whose names begin with them. Each number is the median of the best round. The table, slowest
# first, is printed as Markdown; the measurements are in bench/out/operators.txt. Needs npm as compare.sh does, Debian's
# python3-onnx, and build/release (make). All entries take about seven minutes and 4 GB in bench/out.
#
# XCVM is the command to measure, XCVM_ROUNDS the rounds (2), XCVM_DURATION the seconds of each (0.03).
set -eu
cd "$(dirname "$0")/.."
out=bench/out
folder=$out/operators
lines=$out/operators.txt
xcvm=${XCVM:-build/release/tools/xcvm}
rounds=${XCVM_ROUNDS:-2}
duration=${XCVM_DURATION:-0.03}
bench/peer.sh
trap 'rm -rf "$folder"' EXIT

# last FILE NAME SIDE ERRORS: the figures, or why there are none.
last() {
    if grep "^$3 threads=" "$1" >"$1.figures"; then
        sed "s/^/$2 /" "$1.figures"
    else
        echo "$2 $3 refused $(head -c 300 "$1.errors" | tr '\n' ' ')"
    fi
}

rm -rf "$folder"
PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 bench/operators.py "$folder" "$@" >"$out/operators.names"
: >"$lines"
while read -r name; do
    data=$folder/$name/test_data_set_0
    set --
    for input in "$data"/input_*.pb; do
        [ -f "$input" ] || continue
        index=${input##*_}
        set -- "$@" -i "x${index%.pb}=@$input"
    done
    for round in $(seq "$rounds"); do
        "$xcvm" bench "$folder/$name/model.onnx" --warmup 1 --duration "$duration" "$@" >"$out/last.txt" 2>"$out/last.txt.errors" || true
        last "$out/last.txt" "$name" xcvm >>"$lines"
        "$out/ort_bench" "$folder/$name/model.onnx" 1 100000 --data "$data" --duration "$duration" >"$out/last.txt" \
            2>"$out/last.txt.errors" || true
        last "$out/last.txt" "$name" ort >>"$lines"
    done
    rm -rf "${folder:?}/$name"
    [ ! -t 2 ] || printf '\r%-40s' "$name" >&2
done <"$out/operators.names"
[ ! -t 2 ] || printf '\r%-40s\r' '' >&2
rm -f "$out"/last.txt* "$out/operators.names"
awk -f bench/operators.awk "$lines"

#!/bin/sh
# fuzz.sh [SECONDS [TARGET...]]: runs fuzz targets, by default all of tests/fuzz/fuzz_*.c, for SECONDS each (600), one after the
# other. They start from the committed corpus, from what earlier runs found, from the cases of all instructions, and from ONNX's own
# operator cases if python3-onnx is installed.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-600}
[ $# = 0 ] || shift
all=$(basename -s .c -a tests/fuzz/fuzz_*.c | sed 's/^fuzz_//')
# shellcheck disable=SC2086 # a list of words
[ $# != 0 ] || set -- $all
cmake --preset fuzz >/dev/null
# shellcheck disable=SC2046 # a list of words
cmake --build --preset fuzz --target $(printf 'fuzz_%s ' "$@") xcvm_command xcvm_export_cases
scripts/fuzz-seeds.sh build/fuzz build/fuzz/seeds
found=0
for target; do
    units=build/fuzz/found/$target
    mkdir -p "$units" "build/fuzz/seeds/$target"
    "build/fuzz/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -max_len=16384 \
        -print_final_stats=1 -artifact_prefix="build/fuzz/found/$target-" \
        "$units" "tests/fuzz/corpus/$target" "build/fuzz/seeds/$target" >"build/fuzz/$target.log" 2>&1 || found=1
    echo "$target:"
    tail -n 6 "build/fuzz/$target.log"
done
exit $found

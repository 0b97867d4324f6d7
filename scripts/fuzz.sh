#!/bin/sh
# fuzz.sh [SECONDS [TARGET...]]: runs the fuzz targets (program, text, model, json, http, grpc, trace, tape) for so long each (600), one after the
# other, from the committed corpus, what earlier runs found, the cases of all instructions, and ONNX's own operator cases where
# python3-onnx is installed.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-600}
[ $# = 0 ] || shift
[ $# != 0 ] || set -- program text model json http grpc trace tape
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target fuzz_program fuzz_text fuzz_model fuzz_json fuzz_http fuzz_grpc fuzz_trace fuzz_tape xcvm_command xcvm_export_cases
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

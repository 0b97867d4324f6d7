#!/bin/sh
# fuzz.sh [SECONDS]: runs each fuzz target for so long (600) from the committed corpus, both cores at work.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-600}
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target fuzz_program fuzz_text fuzz_model
for target in program text model; do
    found=build/fuzz/found/$target
    mkdir -p "$found"
    "build/fuzz/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 \
        -artifact_prefix="$found/crash-" "$found" "tests/fuzz/corpus/$target" 2>&1 | tail -n 12
done

#!/bin/sh
# tape.sh: the cost of calls on a tape, XCVM and PyTorch side by side, as a Markdown table in nanoseconds.
set -eu
cd "$(dirname "$0")/.."
cmake --build build/release --target tape_bench >/dev/null
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
build/release/bench/tape_bench >"$out/ours"
"${PYTHON:-python3}" bench/tape.py >"$out/peer" || : >"$out/peer"
echo '| | XCVM | PyTorch | ratio |'
echo '| --- | ---: | ---: | ---: |'
awk 'FNR == NR { peer[$1] = $2; next }
     { printf "| %s | %.0f | %s | %s |\n", $1, $2, $1 in peer ? sprintf("%.0f", peer[$1]) : "",
              $1 in peer ? sprintf("%.1f", peer[$1] / $2) : "" }' "$out/peer" "$out/ours"

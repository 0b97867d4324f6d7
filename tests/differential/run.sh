#!/bin/sh
# run.sh BUILD [COUNT [SEED [OPERATOR...]]]: random models, computed by XCVM and by ONNX Runtime, or NumPy where that is
# the judge (table.py and the modules that fill it say where).
#
# COUNT cases (default 500) of a seed (default 1) are drawn, run at -O0 with one thread and at -O2 with two, and compared
# with the tolerance that each case names. The last line counts the cases. Those that differ stay in BUILD/differential,
# with the command that repeats one; those that neither ONNX Runtime nor a reference decides are skipped, and counted for
# each operator. Needs Debian's python3-onnx and the npm package onnxruntime-node, of which one that is there is used
# (ONNXRUNTIME names its library, else bench/out is looked through); exit code 77 without.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1 count=${2:-500} seed=${3:-1}
[ $# -lt 3 ] || shift 2
shift
work=$build/differential
chunk=1000

if ! /usr/bin/python3 -c 'import numpy, onnx' 2>/dev/null; then
    echo "python3-onnx is not installed"
    exit 77
fi
library=${ONNXRUNTIME:-}
for place in "$here"/../../bench/out "$build"; do
    [ -z "$library" ] || break
    library=$(find "$place/node_modules/onnxruntime-node" -name 'libonnxruntime.so.1' -path "*$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')*" 2>/dev/null | head -n 1)
done
if [ -z "$library" ] && command -v npm >/dev/null 2>&1; then
    (cd "$build" && npm install --no-save --ignore-scripts --no-audit --no-fund onnxruntime-node >/dev/null 2>&1) || true
    library=$(find "$build/node_modules/onnxruntime-node" -name 'libonnxruntime.so.1' 2>/dev/null | head -n 1)
fi
if [ -z "$library" ]; then
    echo "ONNX Runtime is not there: npm install onnxruntime-node"
    exit 77
fi

rm -rf "$work"
mkdir -p "$work/failed"
cc -O2 "$here/ort_run.c" -o "$work/ort_run" "$library" "-Wl,-rpath,$(dirname "$library")"
: >"$work/refused.txt"
: >"$work/failures.txt"
passed=0 failed=0 skipped=0 first=0
export PYTHONDONTWRITEBYTECODE=1
while [ "$first" -lt "$count" ]; do
    size=$((count - first < chunk ? count - first : chunk))
    cases=$work/cases
    rm -rf "$cases"
    /usr/bin/python3 "$here/generate.py" "$cases" "$seed" "$first" "$size" "$@" >"$work/list.txt"
    "$work/ort_run" <"$work/list.txt" >"$work/peer.txt"
    # What the peer refuses is decided by the reference, if there is one, else dropped.
    grep -v '^ok ' "$work/peer.txt" >"$work/not-ok.txt" || true
    while read -r word folder why; do
        if [ -d "$folder/reference" ]; then
            mv "$folder"/reference/* "$folder/test_data_set_0/"
        else
            echo "$word ${folder##*/} $why" >>"$work/refused.txt"
            rm -rf "$folder"
            skipped=$((skipped + 1))
        fi
    done <"$work/not-ok.txt"
    : >"$work/results.txt"
    for folder in "$cases"/*; do
        tolerance=${folder##*/}
        [ -n "$(ls "$folder")" ] || continue
        for level in "-O0 --threads 1" "-O2 --threads 2"; do
            # shellcheck disable=SC2086 # the options are words
            "${XCVM:-$build/tools/xcvm}" test "$folder" --isolate always --case-timeout 60 --rtol "${tolerance%_*}" --atol "${tolerance#*_}" \
                --shape-only 'Random*' --shape-only 'Bernoulli*' --shape-only 'Multinomial*' $level |
                sed "/^[0-9]* passed/d; s|\$| ($level)|; s|^\([A-Z]*\) \([^:]*\)|\1 $tolerance/\2|" >>"$work/results.txt"
        done
    done
    grep -a '^FAIL' "$work/results.txt" >"$work/chunk-failures.txt" || true
    cat "$work/chunk-failures.txt" >>"$work/failures.txt"
    awk '{ sub(/:.*/, "", $2); print $2 }' "$work/chunk-failures.txt" | sort -u >"$work/chunk-failed.txt"
    while read -r name; do
        mv "$cases/$name" "$work/failed/${name##*/}"
        failed=$((failed + 1))
        tolerance=${name%/*}
        echo "repeat with: ${XCVM:-$build/tools/xcvm} test $work/failed/${name##*/} --rtol ${tolerance%_*} --atol ${tolerance#*_} -O0" \
            >>"$work/failures.txt"
    done <"$work/chunk-failed.txt"
    first=$((first + size))
    passed=$((first - failed - skipped))
    [ ! -t 2 ] || printf '\r%d of %d cases, %d differ' "$first" "$count" "$failed" >&2
done
[ ! -t 2 ] || printf '\r%40s\r' '' >&2
rm -rf "$work/cases"
cut -c1-600 "$work/failures.txt"
awk '{ sub(/-.*/, "", $2); n[$2]++ } END { for (name in n) printf " %s %d", name, n[name] }' "$work/refused.txt" >"$work/skipped.txt"
[ "$skipped" = 0 ] || echo "refused by ONNX Runtime, and without a reference:$(cat "$work/skipped.txt")"
echo "seed $seed"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

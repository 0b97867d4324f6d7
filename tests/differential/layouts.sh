#!/bin/sh
# layouts.sh BUILD [COUNT [SEED]]: random networks over lines, planes and volumes (layouts.py), compiled with every
# option that selects a layout or a computation type. A network that compiles at -O 0 must compile with all of them, and
# give ONNX Runtime's results.
#
# COUNT networks (default 250) of a seed (default 1). Those that fail stay in BUILD/layouts, with their options. Exit
# code 77 without ONNX Runtime or python3-onnx.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1 count=${2:-250} seed=${3:-1}
xcvm=${XCVM:-$build/tools/xcvm}
work=$build/layouts
cases=$work/cases
export PYTHONDONTWRITEBYTECODE=1
/usr/bin/python3 -c 'import numpy, onnx' 2>/dev/null || { echo "python3-onnx is not installed"; exit 77; }
library=$("$here/../../scripts/onnxruntime.sh" 2>"$build/onnxruntime.log") || { tail -n 1 "$build/onnxruntime.log"; exit 77; }
rm -rf "$work"
mkdir -p "$work"
cc -O2 "$here/ort_run.c" -o "$work/ort_run" "$library" "-Wl,-rpath,$(dirname "$library")"
/usr/bin/python3 "$here/generate.py" "$cases" "$seed" 0 "$count" Layout >"$work/list.txt"
"$work/ort_run" <"$work/list.txt" >"$work/judged.txt"
grep -v '^ok ' "$work/judged.txt" >"$work/refused.txt" || true
while read -r _ folder _; do
    rm -rf "$folder"
done <"$work/refused.txt"
[ "$(wc -l <"$work/refused.txt")" -lt $((count / 5 + 1)) ] || { echo "ONNX Runtime refuses too many:"; cat "$work/refused.txt"; exit 1; }

# check RTOL ATOL OPTION...: a line for each case that fails.
check() {
    rtol=$1 atol=$2
    shift 2
    "$xcvm" test "$cases" -q --isolate always --case-timeout 60 --rtol "$rtol" --atol "$atol" "$@" >"$work/results.txt" 2>&1 || true
    sed -n "s|^FAIL.*|& ($*)|p" "$work/results.txt" >>"$work/failures.txt"
    grep -E '^[0-9]+ passed' "$work/results.txt" >>"$work/counts.txt" ||
        { echo "xcvm test $*:"; cat "$work/results.txt"; exit 1; }
}

: >"$work/failures.txt"
check 1e-3 1e-3 -O 0 --threads 1
check 1e-3 1e-3 -O 1 --threads 1
check 1e-3 1e-3 -O 2 --threads 2 --strict-types
check 1e-3 1e-3 -O 2 --layout plain --threads 1
check 1e-3 1e-3 -O 2 --integer always --threads 1
check 1e-2 1e-2 -O 2 --weights f24 --threads 1
check 2e-2 2e-2 -O 2 --weights f16 --threads 1
check 1e-1 2e-1 -O 2 --weights bf16 --threads 1
check 1e-1 2e-1 -O 2 --compute bf16 --threads 1
check 1e-3 1e-3 -O 2 --tune --threads 1 --filter 'Layout-*0'
check 1e-3 1e-3 -O 2 --kernel-library --threads 1 --filter 'Layout-*77'
cut -c1-400 "$work/failures.txt"
awk '{ print $2 }' "$work/failures.txt" | sed 's/:$//' | sort -u >"$work/failed.txt"
find "$cases" -mindepth 2 -maxdepth 2 -type d | while read -r folder; do
    grep -qF "/${folder##*/}" "$work/failed.txt" || rm -rf "$folder"
done
awk '{ passed += $1; failed += $3 } END { print passed + 0 " passed, " failed + 0 " failed"; exit failed > 0 || passed == 0 }' \
    "$work/counts.txt"

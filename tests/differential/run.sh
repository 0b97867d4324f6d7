#!/bin/sh
# run.sh BUILD [COUNT [SEED [OPERATOR...]]]: random models, computed by XCVM and by ONNX Runtime, or by NumPy if that is
# the reference (table.py and the modules that fill it decide).
#
# COUNT cases (default 500) of a seed (default 1) are drawn and run at -O0 with one thread, at -O2 with two, and one in
# five whole networks with a kernel library, too. Results are compared with the tolerance of each case. The last lines
# show the share of supported operators that were drawn (coverage.py lists the others), and count the cases. Cases that
# differ stay in BUILD/differential, with the command that repeats one. Cases without a result of ONNX Runtime or a
# reference are skipped, and counted for each operator.
#
# Seeds 1, 2, 3 and 4 with 2500 cases each passed, none skipped, with ONNX Runtime 1.30. A case depends on the seed, its
# index and the entries only, so a change of the entries changes the cases.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1 count=${2:-500} seed=${3:-1}
shift $(($# < 3 ? $# : 3))
xcvm=${XCVM:-$build/tools/xcvm}
work=$build/differential
cases=$work/cases
chunk=1000
export PYTHONDONTWRITEBYTECODE=1 XDG_CACHE_HOME="$work/cache"

missing() {
    echo "$1"
    exit "${2:-1}"
}

# results OPTION...: a line for each case: PASS or FAIL, then TOLERANCE/CASE.
results() {
    for folder in "$cases"/*; do
        tolerance=${folder##*/}
        [ -n "$(ls "$folder")" ] || continue
        "$xcvm" test "$folder" --isolate always --case-timeout 60 --strict-types \
            --rtol "${tolerance%_*}" --atol "${tolerance#*_}" \
            --shape-only 'Random*' --shape-only 'Bernoulli*' --shape-only 'Multinomial*' "$@" |
            sed "/^[0-9]* passed/d; s|\$| ($*)|; s|^\([A-Z]*\) \([^:]*\)|\1 $tolerance/\2|"
    done
}

# If ONNX Runtime refuses a case, the reference decides if there is one; otherwise the case is dropped.
judge() {
    "$work/ort_run" <"$work/list.txt" >"$work/judged.txt" || true
    if [ "$(wc -l <"$work/judged.txt")" != "$(wc -l <"$work/list.txt")" ]; then
        echo "ONNX Runtime has ended behind case $(wc -l <"$work/judged.txt")"
        exit 1
    fi
    grep -v '^ok ' "$work/judged.txt" >"$work/not-ok.txt" || true
    while read -r word folder why; do
        if [ -d "$folder/reference" ]; then
            mv "$folder"/reference/* "$folder/test_data_set_0/"
        else
            echo "$word ${folder##*/} $why" >>"$work/refused.txt"
            rm -rf "$folder"
            skipped=$((skipped + 1))
        fi
    done <"$work/not-ok.txt"
}

/usr/bin/python3 -c 'import numpy, onnx' 2>/dev/null || missing "python3-onnx is not installed; make test installs it"
command -v cc >/dev/null 2>&1 || missing "there is no C compiler"
library=$("$here/../../scripts/onnxruntime.sh" 2>"$build/onnxruntime.log") || {
    code=$?
    missing "$(tail -n 1 "$build/onnxruntime.log")" $code
}

rm -rf "$work"
mkdir -p "$work/failed"
cc -O2 "$here/ort_run.c" -o "$work/ort_run" "$library" "-Wl,-rpath,$(dirname "$library")"
for file in refused failures drawn; do
    : >"$work/$file.txt"
done
passed=0 failed=0 skipped=0 first=0
while [ "$first" -lt "$count" ]; do
    size=$((count - first < chunk ? count - first : chunk))
    rm -rf "$cases"
    /usr/bin/python3 "$here/generate.py" "$cases" "$seed" "$first" "$size" "$@" >"$work/list.txt"
    /usr/bin/python3 "$here/coverage.py" note "$cases" >>"$work/drawn.txt"
    judge
    # A program with a kernel library is compiled into the case's directory in advance.
    find "$cases" -name 'Graph-*[05]' -o -name 'Vision-*[05]' -o -name 'Language-*[05]' >"$work/fused.txt"
    while read -r folder; do
        "$xcvm" compile "$folder/model.onnx" -o "$folder/fused.bin" --kernel-library 2>>"$work/compile.txt" || true
    done <"$work/fused.txt"
    {
        results -O0 --threads 1
        results -O2 --threads 2
        results --program fused.bin --filter 'Graph-*[05]' --filter 'Vision-*[05]' --filter 'Language-*[05]'
    } 2>"$work/errors.txt" >"$work/results.txt" || true
    # A case that nothing is said of has not passed.
    told=$(grep -acE '^(PASS|FAIL) ' "$work/results.txt" || true)
    due=$((2 * $(find "$cases" -mindepth 2 -maxdepth 2 -type d | wc -l) + $(wc -l <"$work/fused.txt")))
    if [ "$told" != "$due" ]; then
        echo "$told results were told of, not $due:"
        cat "$work/errors.txt"
        exit 1
    fi
    grep -a '^FAIL' "$work/results.txt" >"$work/chunk.txt" || true
    cat "$work/chunk.txt" >>"$work/failures.txt"
    awk '{ sub(/:.*/, "", $2); print $2 }' "$work/chunk.txt" | sort -u >"$work/names.txt"
    while read -r name; do
        mv "$cases/$name" "$work/failed/${name##*/}"
        failed=$((failed + 1))
        tolerance=${name%/*}
        echo "repeat with: $xcvm test $work/failed/${name##*/} --rtol ${tolerance%_*} --atol ${tolerance#*_} -O0" \
            >>"$work/failures.txt"
    done <"$work/names.txt"
    first=$((first + size))
    passed=$((first - failed - skipped))
    [ ! -t 2 ] || printf '\r%d of %d cases, %d differ' "$first" "$count" "$failed" >&2
done
[ ! -t 2 ] || printf '\r%40s\r' '' >&2
rm -rf "$cases"
cut -c1-600 "$work/failures.txt"
[ "$skipped" = 0 ] || awk '{ sub(/-.*/, "", $2); n[$2]++ } END { for (name in n) printf " %s %d", name, n[name]; print "" }' \
    "$work/refused.txt" | sed 's/^/refused by ONNX Runtime, and without a reference:/'
[ $# -gt 0 ] || /usr/bin/python3 "$here/coverage.py" tell "$xcvm" <"$work/drawn.txt"
echo "seed $seed"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

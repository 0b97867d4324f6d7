#!/bin/sh
# contrib.sh BUILD: cases of ONNX Runtime's contributed operators, a few of each, in BUILD/contrib-cases, with the results
# that ONNX Runtime has, or NumPy where that is the judge, and whether they agree. They are drawn as those of run.sh, with a
# seed of their own. Fails without ONNX Runtime or python3-onnx.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1 seed=1 each=24
work=$build/contrib
cases=$build/contrib-cases
export PYTHONDONTWRITEBYTECODE=1
/usr/bin/python3 -c 'import numpy, onnx' 2>/dev/null || { echo "python3-onnx is not installed; make test installs it"; exit 1; }
library=$("$here/../../scripts/onnxruntime.sh" 2>"$build/onnxruntime.log") || { code=$?; tail -n 1 "$build/onnxruntime.log"; exit $code; }
if [ ! -f "$cases/complete" ] || [ -n "$(find "$here" \( -name '*.py' -o -name contrib.sh \) -newer "$cases/complete")" ]; then
    rm -rf "$work" "$cases"
    mkdir -p "$work"
    cc -O2 "$here/ort_run.c" -o "$work/ort_run" "$library" "-Wl,-rpath,$(dirname "$library")"
    names=$(/usr/bin/python3 "$here/generate.py" --list contrib)
    count=$(($(echo "$names" | wc -l) * each))
    # shellcheck disable=SC2086
    /usr/bin/python3 "$here/generate.py" "$cases" "$seed" 0 "$count" $names >"$work/list.txt"
    "$work/ort_run" <"$work/list.txt" >"$work/judged.txt"
    grep -v '^ok ' "$work/judged.txt" | while read -r _ folder _; do
        if [ -d "$folder/reference" ]; then
            mv "$folder"/reference/* "$folder/test_data_set_0/"
        else
            rm -rf "$folder"
        fi
    done
    touch "$cases/complete"
fi
for folder in "$cases"/*_*; do
    tolerance=${folder##*/}
    "$build/tools/xcvm" test "$folder" --strict-types --rtol "${tolerance%_*}" --atol "${tolerance#*_}" || true
done >"$work/results.txt"
grep '^FAIL' "$work/results.txt" || true
awk '$2 ~ /^passed/ { passed += $1; failed += $3 }
END { print passed + 0 " passed, " failed + 0 " failed"; exit failed > 0 || passed == 0 }' "$work/results.txt"

#!/bin/sh
# onnx_written.sh BUILD [STEP]: every STEP-th of ONNX's own operator cases (conformance.sh makes them), and the models that
# bench/make_models.sh has made, if it has, are written as ONNX models again (xcvm compile --emit onnx), which give what the
# cases expect. All are written but those of tests/onnx_written.txt.
set -eu
build=$(cd "$1" && pwd)
step=${2:-1}
here=$(cd "$(dirname "$0")/.." && pwd)
cases=$build/onnx-cases
[ -f "$cases/complete" ] || { echo "conformance.sh makes the cases, and has not"; exit 1; }
written=$(mktemp -d)
trap 'rm -rf "$written"' EXIT
failed=0
# write KIND FOLDER...
write() {
    kind=$written/$1
    mkdir "$kind"
    shift
    for folder in "$@"; do
        name=$(basename "$folder")
        [ -f "$folder/model.onnx" ] || continue
        mkdir "$kind/$name"
        if "$build/tools/xcvm" compile "$folder/model.onnx" --emit onnx -o "$kind/$name/model.onnx" 2>"$written/errors"; then
            ln -s "$folder"/test_data_set_* "$kind/$name"
        elif ! grep -q "^$name:" "$here/tests/onnx_written.txt"; then
            echo "$name: $(head -n 1 "$written/errors")"
            failed=1
        fi
    done
    find "$kind" -mindepth 1 -maxdepth 1 -type d -empty -delete
}

write models "$here"/bench/out/models/*
if [ -n "$(ls "$written/models")" ]; then
    "$build/tools/xcvm" test "$written/models" --rtol 1e-3 --atol 1e-4 --list-failures || failed=1
fi
write cases $(ls -d "$cases"/node/* | awk -v step="$step" 'NR % step == 0')
"$build/tools/xcvm" test "$written/cases" --rtol 1e-3 --atol 1e-6 --shape-only 'test_bernoulli*' --shape-only 'test_training_dropout*' \
    >"$build/onnx-written.txt" || true
tail -n 1 "$build/onnx-written.txt"
# Cases that fail without this conversion fail here, too.
sed '/^#/d; /^$/d; s/[ :].*//' "$here/tests/conformance.txt" >"$build/onnx-written-known.txt"
grep '^FAIL' "$build/onnx-written.txt" | grep -vwFf "$build/onnx-written-known.txt" && failed=1
exit $failed

#!/bin/sh
# decoders.sh BUILD: makes small decoders as exporters write them, generates with each, and compares the ids with those
# of PyTorch without a cache.
set -eu
build=$1
here=$(dirname "$0")
if ! /usr/bin/python3 -c 'import onnx, torch' 2>/dev/null; then
    echo "skipped: python3-onnx or python3-torch is not installed"
    exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
decode=$build/examples/decode xcvm=$build/tools/xcvm
/usr/bin/python3 -B -W ignore "$here/make_decoders.py" "$folder" >"$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }

failed=0
check() { # WHAT EXPECTED SAID
    [ "$2" = "$3" ] && echo "$1: $3" && return
    echo "$1: '$3', expected '$2'" >&2
    failed=1
}
while IFS='|' read -r model ids expected; do
    # The options behind the file are words of their own.
    set -- $model
    file=$folder/$1
    shift
    check "$model" "$expected" "$("$decode" "$file" "$@" --ids "$ids" --count 12 2>"$folder/error" || cat "$folder/error")"
    # One candidate leaves nothing to chance.
    check "$model, one of one" "$expected" \
        "$("$decode" "$file" "$@" --ids "$ids" --count 12 --temperature 0.7 --top-k 1 --seed 3 2>&1 | tail -n 1)"
done <"$folder/cases.txt"

# The same as a program, and as the command has it.
"$xcvm" compile "$folder/classic.onnx" -o "$folder/classic.bin" --state-pairs auto --dim batch_size=1 --cache-rows 32 2>/dev/null
first=$(head -n 1 "$folder/cases.txt")
check "a program" "${first##*|}" "$("$decode" "$folder/classic.bin" --ids 3,17,5,40,11 --count 12 2>&1)"
a=$("$decode" "$folder/classic.bin" --ids 3,17 --count 20 --temperature 1.5 --top-k 20 --seed 3)
b=$("$decode" "$folder/classic.bin" --ids 3,17 --count 20 --temperature 1.5 --top-k 20 --seed 3)
check "one seed" "$a" "$b"
# The cache holds 32 rows.
if "$decode" "$folder/classic.bin" --ids 3,17 --count 40 >/dev/null 2>"$folder/error"; then
    echo "a cache of 32 rows holds 41" >&2
    failed=1
fi
grep -q 'the cache holds 32 rows' "$folder/error" || { cat "$folder/error" >&2; failed=1; }
exit $failed

#!/bin/sh
# decoders.sh [BUILD]: makes small decoders as exporters write them, generates with each, and compares the ids with those
# of PyTorch without a cache.
set -eu
build=${1:-build/release}
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
    # The options after the file are separate words.
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
# The cache holds 32 rows. The message has lines of its own, and names the file and the remedy.
refused() { # LINES OF OUTPUT, THEN WORDS OF THE MESSAGE, THEN -- AND THE ARGUMENTS OF decode
    lines=$1
    shift
    : >"$folder/words"
    while [ "$1" != -- ]; do
        echo "$1" >>"$folder/words"
        shift
    done
    shift
    if "$decode" "$@" >"$folder/both" 2>&1; then
        echo "decode $*: succeeds" >&2
        failed=1
    fi
    while read -r word; do
        grep -qF -e "$word" "$folder/both" || { echo "decode $*: does not say: $word" >&2; cat "$folder/both" >&2; failed=1; }
    done <"$folder/words"
    said=$(grep -cvE '^(decode|usage): ' "$folder/both" || true)
    [ "$said" = "$lines" ] || { echo "decode $*: $said lines of ids, expected $lines" >&2; cat "$folder/both" >&2; failed=1; }
}
refused 1 'classic.bin: ' 'the cache holds 32 rows' 'Compile the model with a larger --cache-rows' -- "$folder/classic.bin" --ids 3,17 --count 40
refused 1 'classic.onnx: ' 'Call decode with a larger --cache-rows' -- \
    "$folder/classic.onnx" --dim batch_size=1 --cache-rows 8 --ids 3,17 --count 40
refused 0 'first.onnx: ' 'exported without a cache' 'decode: --states none reads all tokens again' -- "$folder/first.onnx"
refused 0 'example_sizes.onnx: ' 'Output "present.0.key" follows input "past_key_values.0.key", but their sizes are those of the example' 'dynamic_axes' -- \
    "$folder/example_sizes.onnx"
refused 0 'example_sizes.onnx: ' 'export it with open sizes (dynamic_axes)' -- "$folder/example_sizes.onnx" --states none
refused 0 'missing.bin' -- "$folder/missing.bin"
refused 0 '--cache-rows needs a whole number of at least 1' -- "$folder/classic.onnx" --cache-rows 0
refused 0 '--count needs a whole number' -- "$folder/classic.onnx" --count ten
refused 0 '--seed needs a value' -- "$folder/classic.onnx" --seed
"$xcvm" compile "$folder/classic.onnx" -o "$folder/stateless.bin"
refused 0 'stateless.bin: the program has no states' '--state-pairs auto' '--states none' -- "$folder/stateless.bin"
# Without room for rows the caches are copied, which a note says.
"$decode" "$folder/classic.onnx" --dim batch_size=1 --count 1 2>&1 >/dev/null | grep -q -e '--cache-rows N' ||
    { echo "decode does not mention --cache-rows" >&2; failed=1; }
exit $failed

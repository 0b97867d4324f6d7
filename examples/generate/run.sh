#!/bin/sh
# run.sh [BUILD]: compiles the network that make_model.py has trained, with caches of 128 tokens as states and weights in
# several forms, lets it continue a sequence of numbers, and checks the text.
set -eu
build=${1:-build/release}
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
xcvm=$build/tools/xcvm generate=$build/examples/generate
expected='nineteen twenty twenty-one twenty-two twenty-three twenty-four twenty-five twe'

check() { # WHAT SAID
    echo "$1: $2"
    [ "$2" = "$expected" ] || { echo "expected: $expected" >&2; exit 1; }
}

for weights in f32 q8 q4a; do
    program=$folder/$weights.bin
    "$xcvm" compile "$here/model.onnx" -o "$program" --weights $weights --dim batch=1 --dim bound=128 \
        --state-pairs auto 2>/dev/null
    check "$weights, the likeliest" "$("$generate" "$program" 'sixteen seventeen eighteen ' 78)"
    # One candidate leaves nothing to chance.
    check "$weights, one of one" "$("$generate" "$program" 'sixteen seventeen eighteen ' 78 0.8 1)"
    check "$weights, least share" "$("$generate" "$program" 'sixteen seventeen eighteen ' 78 0.8 0 1e-9 5)"
done
"$xcvm" compile "$here/model.onnx" -o "$folder/int8.bin" --weights q8 --activations int8 --dim batch=1 --dim bound=128 \
    --state-pairs 'present.*:past.*'
check "q8 with activations of 8 bits" "$("$generate" "$folder/int8.bin" 'sixteen seventeen eighteen ' 78)"

# The same seed gives the same text. More tokens than the cache's capacity are an error.
a=$("$generate" "$folder/f32.bin" 'ten eleven ' 60 1.5 20 0.95 3)
b=$("$generate" "$folder/f32.bin" 'ten eleven ' 60 1.5 20 0.95 3)
[ "$a" = "$b" ] || { echo "one seed says '$a' and '$b'" >&2; exit 1; }
if "$generate" "$folder/f32.bin" 'ten eleven ' 200 >"$folder/out" 2>&1; then
    echo "a cache of 128 tokens holds 211" >&2
    exit 1
fi
# The message begins a line, and names the file and the remedy.
grep -q "^generate: $folder/f32.bin: .*the cache holds 128 rows" "$folder/out"
grep -q '^generate: .*--dim bound' "$folder/out"
if "$generate" "$folder/f32.bin" 'ten ' many 2>"$folder/error"; then
    exit 1
fi
grep -q 'TOKENS' "$folder/error"
echo "all is as expected"

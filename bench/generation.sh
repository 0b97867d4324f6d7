#!/bin/sh
# generation.sh [products|token|prompt]...: the cost of generation, as Markdown; without any, all three, and the page
# says so.
#
# products: products of one row with weights in 8 and 4 bits, as a share of the memory bandwidth of one core. token,
# prompt: the decoder of make_generation.py, 4 bits in blocks of 32, one token after 511 and a prompt of 512, compared
# with ONNX Runtime on the same weights: with accuracy_level 0, f32 on both sides, and with accuracy_level 4, which
# rounds activations to 8 bits, as XCVM does with --activations int8. Both sides keep their caches. They run in turn.
#
# Needs npm as compare.sh does, Debian's python3-numpy and python3-onnx, and build/release (make). All take about four
# minutes and 550 MB in bench/out/generation, where lines.txt has the measurements.
#
# XCVM_ROUNDS: rounds of measuring time (5), of XCVM_DURATION seconds each (1). XCVM_THREADS: numbers of threads ("1
# 2"). XCVM_LEVELS: accuracy levels ("0 4").
set -eu
cd "$(dirname "$0")/.."
out=bench/out/generation
xcvm=build/release/tools/xcvm
rounds=${XCVM_ROUNDS:-5}
duration=${XCVM_DURATION:-1}
threads=${XCVM_THREADS:-1 2}
levels=${XCVM_LEVELS:-0 4}
layers=8
python="env PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3"
whole=
[ $# != 0 ] || whole=yes
[ $# != 0 ] || set -- products token prompt
for part; do
    case $part in
    products | token | prompt) ;;
    *) echo "generation.sh: no part is called '$part': products, token or prompt" >&2; exit 2 ;;
    esac
done
mkdir -p "$out"

# prepare LEVEL: models and programs, kept as long as what they are made by.
prepare() {
    folder=$out/level$1
    if [ -z "$(find "$folder/made" -newer bench/make_generation.py 2>/dev/null)" ]; then
        rm -rf "$folder"
        $python bench/make_generation.py "$folder" "$layers" 1024 4 "$1"
        touch "$folder/made"
    fi
    states=
    for i in $(seq 0 $((layers - 1))); do
        states="$states --state present.$i.key:past.$i.key --state present.$i.value:past.$i.value"
    done
    activations=f32
    [ "$1" != 4 ] || activations=int8
    for what in decode prefill; do
        # States are words of their own.
        # shellcheck disable=SC2086
        "$xcvm" compile "$folder/$what.onnx" -o "$folder/$what.bin" --activations $activations $states
    done
}

# measure PART MODEL LENGTH: lines "PART LEVEL SIDE FIELD=NUMBER..."; and how far apart the logits of a first prompt are.
measure() {
    for level in $levels; do
        folder=$out/level$level
        for count in $threads; do
            for round in $(seq "$rounds"); do
                # Not through pipes: their readers would start while the first run is measured.
                "$xcvm" bench "$folder/$2.bin" --threads "$count" --duration "$duration" \
                    -i "tokens=1x$3xi64=@$folder/$2/input_0.i64" -i last=511 -i total=512 >"$out/last.txt"
                sed -n "s/^xcvm threads/$1 $level xcvm threads/p" "$out/last.txt" >>"$lines"
                "$out/../ort_bench" "$folder/$2.onnx" "$count" 100000 --duration "$duration" --set "$folder/$2" \
                    --share present:past >"$out/last.txt"
                sed "s/^/$1 $level /" "$out/last.txt" >>"$lines"
            done
        done
        [ "$2" = prefill ] || continue
        "$xcvm" run "$folder/$2.bin" -i "tokens=1x$3xi64=@$folder/$2/input_0.i64" -i last=511 -i total=512 \
            -o "logits=@$out/logits.bin"
        $python bench/generation.py difference "$folder/$2/ort_output_0.raw" "$out/logits.bin" |
            sed "s/^/$1 $level /" >>"$lines"
        rm -f "$out/logits.bin"
    done
    rm -f "$out/last.txt"
}

lines=$out/lines.txt
: >"$lines"
for part; do
    case $part in
    products)
        cmake --build build/release --target block_bench >/dev/null
        build/release/bench/block_bench "$duration" 1 | sed 's/^/products /' >>"$lines" ;;
    *)
        bench/peer.sh
        scripts/install-packages.sh python3-numpy python3-onnx >&2
        for level in $levels; do
            prepare "$level"
        done
        if [ "$part" = token ]; then
            measure token decode 1
        else
            measure prompt prefill 512
        fi ;;
    esac
done
if [ -n "$whole" ]; then
    echo '# Generation, measured'
    echo
    echo "Written by \`make bench-generation\`. Machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores;" \
        "$("$xcvm" --version | head -1). [generation.md](generation.md) says what is measured and why."
    echo
fi
$python bench/generation.py table "$lines"

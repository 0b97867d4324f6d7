#!/bin/sh
# quantized.sh [NAME...]: models as `xcvm quantize` makes them: how far they are off on inputs that nothing was chosen by, and
# their time, interleaved with ONNX Runtime on the same file and with their own floats. A NAME is a model of make_models.py;
# without any, the nine that are quantised with integers for activations. Markdown goes to standard output, what was measured
# to bench/out/quantized/lines.txt. Models are found as by compare.sh; needs npm as that does, Debian's python3-numpy, and
# build/release (make). All takes some fifteen minutes and 3 GB in bench/out.
#
# XCVM_QUANTIZE: the options (--max-error 0.02). XCVM_ROUNDS: rounds of measuring time (3), of XCVM_DURATION seconds each
# (0.5); 0: none.
set -eu
cd "$(dirname "$0")/.."
out=bench/out/quantized
models=${XCVM_MODELS:-bench/out/models}
xcvm=build/release/tools/xcvm
options=${XCVM_QUANTIZE:---max-error 0.02}
rounds=${XCVM_ROUNDS:-3}
duration=${XCVM_DURATION:-0.5}
python="env PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 bench/quantized.py"
[ $# != 0 ] || set -- resnet18 resnet50 mobilenet_v2 mobilenet_v3_large efficientnet_b0 squeezenet1_1 vgg16 transformer_base6 lstm
bench/peer.sh
scripts/install-packages.sh python3-numpy >&2
mkdir -p "$out"
# Inputs are kept: they are the same each time.
if [ ! -f "$out/inputs/done" ] || [ bench/quantized.py -nt "$out/inputs/done" ]; then
    rm -rf "$out/inputs"
    $python inputs "$out/inputs"
    touch "$out/inputs/done"
fi

# results PROGRAM FOLDER: what it makes of the inputs.
results() {
    rm -rf "$2"
    mkdir "$2"
    for input in "$out/inputs/$kind"/*.npy; do
        "$xcvm" run "$1" -i "x=@$input" -o "y=@$2/$(basename "$input")"
    done
}

lines=$out/lines.txt
: >"$lines"
for name; do
    model=$models/$name/model.onnx
    [ -f "$model" ] || { echo "quantized.sh: no $model; bench/make_models.sh makes it" >&2; exit 2; }
    case $name in
    transformer*) kind=words ;;
    lstm) kind=signals ;;
    *) kind=images ;;
    esac
    begin=$(date +%s.%N)
    # shellcheck disable=SC2086
    "$xcvm" quantize "$model" -d "$out/inputs/$kind.npz" --held-out 0.3334 $options -o "$out/integers.onnx" >"$out/report.txt"
    end=$(date +%s.%N)
    "$xcvm" compile "$model" --fuse -o "$out/floats.bin"
    "$xcvm" compile "$out/integers.onnx" --fuse -o "$out/integers.bin"
    nodes=$(sed -n 's/^nodes \([0-9]*\) of \([0-9]*\) quantised.*/nodes=\1 all=\2/p' "$out/report.txt")
    kept=$(sed -n 's/^nodes .*, \([0-9]*\) sums of products in float for the bounds.*/\1/p' "$out/report.txt")
    echo "$name sizes $nodes kept=${kept:-0} model=$(stat -c %s "$out/integers.onnx") float_model=$(stat -c %s "$model")" \
        "program=$(stat -c %s "$out/integers.bin") float_program=$(stat -c %s "$out/floats.bin")" \
        "seconds=$(echo "$end $begin" | awk '{ print $1 - $2 }')" >>"$lines"
    results "$out/floats.bin" "$out/right"
    results "$out/integers.bin" "$out/given"
    $python errors "$out/right" "$out/given" | sed "s/^/$name /" >>"$lines"
    for threads in 1 2; do
        for round in $(seq "$rounds"); do
            for side in floats integers; do
                # Not through pipes: what reads them would be starting while the first run is measured.
                "$xcvm" bench "$out/$side.bin" --threads "$threads" --duration "$duration" >"$out/last.txt"
                sed -n "s/^xcvm threads/$name $side threads/p" "$out/last.txt" >>"$lines"
            done
            "$out/../ort_bench" "$out/integers.onnx" "$threads" 100000 --duration "$duration" >"$out/last.txt"
            sed "s/^/$name /" "$out/last.txt" >>"$lines"
        done
    done
    rm -rf "$out/right" "$out/given" "$out/integers.onnx" "$out"/*.bin "$out"/*.so "$out/last.txt" "$out/report.txt"
    [ ! -t 2 ] || printf '\r%-40s' "$name" >&2
done
[ ! -t 2 ] || printf '\r%-40s\r' '' >&2
$python table "$lines"

#!/bin/sh
# quantized.sh [NAME...]: models that `xcvm quantize` writes: their errors on held-out inputs, and their time compared
# with ONNX Runtime on the same file and with the float models. A NAME is a model of make_models.py; without any, nine
# models, and the page says so. Markdown is printed; the measurements are in bench/out/quantized/lines.txt. Models are
# found as by compare.sh, and made if there are none. Needs npm as compare.sh does, Debian's python3-numpy, and
# build/release (make). All models take about fifteen minutes on an idle machine, and 2 GB in bench/out.
#
# XCVM_QUANTIZE: the options (--max-error 0.02). XCVM_ROUNDS: rounds of measuring time (3), of XCVM_DURATION seconds
# each (0.5); 0: none.
set -eu
cd "$(dirname "$0")/.."
out=bench/out/quantized
models=${XCVM_MODELS:-bench/out/models}
xcvm=build/release/tools/xcvm
options=${XCVM_QUANTIZE:---max-error 0.02}
rounds=${XCVM_ROUNDS:-3}
duration=${XCVM_DURATION:-0.5}
python="env PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 bench/quantized.py"
[ -d "$models" ] || bench/make_models.sh >&2
whole=
[ $# != 0 ] || whole=yes
[ $# != 0 ] || set -- resnet18 resnet50 mobilenet_v2 mobilenet_v3_large efficientnet_b0 squeezenet1_1 vgg16 transformer_base6 lstm
bench/peer.sh
scripts/install-packages.sh python3-numpy >&2
mkdir -p "$out"
# Inputs are kept: they are the same each time.
if [ -z "$(find "$out/inputs/done" -newer bench/quantized.py 2>/dev/null)" ]; then
    rm -rf "$out/inputs"
    $python inputs "$out/inputs"
    touch "$out/inputs/done"
fi

# results PROGRAM FOLDER: writes the outputs for the inputs.
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
    # A bound may be impossible for a model. It then has no row, and the reason is on standard error.
    # shellcheck disable=SC2086
    "$xcvm" quantize "$model" -d "$out/inputs/$kind.npz" --held-out 0.3334 $options -o "$out/integers.onnx" >"$out/report.txt" || continue
    end=$(date +%s.%N)
    "$xcvm" compile "$model" --kernel-library -o "$out/floats.bin"
    "$xcvm" compile "$out/integers.onnx" --kernel-library -o "$out/integers.bin"
    nodes=$(sed -n 's/^nodes \([0-9]*\) of \([0-9]*\) quantized.*/nodes=\1 all=\2/p' "$out/report.txt")
    kept=$(sed -n 's/^nodes .*, \([0-9]*\) kept in float for the bounds.*/\1/p' "$out/report.txt")
    echo "$name sizes $nodes kept=${kept:-0} model=$(stat -c %s "$out/integers.onnx") float_model=$(stat -c %s "$model")" \
        "program=$(stat -c %s "$out/integers.bin") float_program=$(stat -c %s "$out/floats.bin")" \
        "seconds=$(echo "$end $begin" | awk '{ print $1 - $2 }')" >>"$lines"
    results "$out/floats.bin" "$out/right"
    results "$out/integers.bin" "$out/given"
    $python errors "$out/right" "$out/given" | sed "s/^/$name /" >>"$lines"
    for threads in 1 2; do
        for round in $(seq "$rounds"); do
            for side in floats integers; do
                # Not through pipes: their readers would start while the first run is measured.
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
if [ -n "$whole" ]; then
    echo '# Quantized models'
    echo
    echo "Written by \`make bench-quantized\`. Machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores;" \
        "$("$xcvm" --version | head -1). Models of bench/make_models.py, with random weights, made integers by" \
        "\`xcvm quantize --held-out 0.3334 $options\` with 200 inputs to calibrate with and 100 more to choose nodes by. Errors are" \
        "those on another 100 inputs, against XCVM's floats, as shares of the range of the outputs; \"same greatest\" is the share of" \
        "rows, for classifiers of inputs, whose greatest element is that of floats. Inputs are images with the spectrum of" \
        "photographs, words by Zipf's law and signals that go on (bench/quantized.py). Sizes are shares of those of floats." \
        "Times are medians in milliseconds, the best of $rounds rounds, all three sides in turn; ONNX Runtime runs the same QDQ" \
        "file. Ratios above 1 mean that XCVM with integers is faster."
    echo
fi
$python table "$lines"

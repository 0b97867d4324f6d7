#!/bin/sh
# pictures.sh BUILD REPORTS [PICTURES]: profiles the programs of docs/profiling.md, with their reports in REPORTS, and takes
# pictures of the reports in Chromium. `make pictures` renews those in docs/figures, and `make docs` those of the site.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$2"
build=$(cd "$1" && pwd) reports=$(cd "$2" && pwd)
xcvm=$build/tools/xcvm
command -v chromium >/dev/null || { echo "chromium is not installed; make docs and make test install it"; exit 1; }

# The models of scripts/dynamic.sh, if they exist.
resnet=$build/dynamic-models/resnet18_dynamic/model.onnx
if [ ! -e "$resnet" ]; then
    resnet=$reports/models/resnet18_dynamic/model.onnx
    [ -e "$resnet" ] || /usr/bin/python3 bench/make_models.py "$reports/models" resnet18_dynamic >"$reports/models.txt" 2>&1 ||
        { cat "$reports/models.txt" && exit 1; }
fi
ln -sf "$(realpath "$resnet")" "$reports/resnet18.onnx"
cp examples/generate/model.onnx "$reports/decoder.onnx"
cp examples/digits/untrained.onnx "$reports/training.onnx"
report() { # NAME OPTION...
    name=$1
    shift
    (cd "$reports" && "$xcvm" profile "$name.onnx" "$@" --html "$name.html" >"$name.txt" 2>&1) ||
        { cat "$reports/$name.txt" && exit 1; }
}
report resnet18 --dim batch=1 -n 2 -w 1
report decoder --dim batch=1 --dim bound=128 --dim length=1 --state-pairs auto --int-max 128
report training --dim batch=8 --train sgd --loss softmax_cross_entropy -t 1
[ $# = 3 ] || exit 0

mkdir -p "$3"
pictures=$(cd "$3" && pwd)
take() { # NAME WIDTH HEIGHT [OPTION...]
    name=$1 width=$2 height=$3 picture=$pictures/profile-$1.png
    shift 3
    rm -f "$picture"
    timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-background-networking --hide-scrollbars \
        --user-data-dir="$reports/user" --window-size="$width,$height" --virtual-time-budget=4000 "$@" \
        --screenshot="$picture" "file://$reports/$name.html" 2>"$reports/chromium.txt" || { cat "$reports/chromium.txt" && exit 1; }
    # A page without pictures has about 10 KB.
    [ "$(wc -c <"$picture")" -gt 20000 ] || { echo "$picture shows nothing" && exit 1; }
}
take resnet18 1000 1400
take training 1000 900
take decoder 500 1000 --blink-settings=preferredColorScheme=0

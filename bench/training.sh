#!/bin/sh
# training.sh [NAME...]: compares training steps with PyTorch's, as Markdown. Networks are those of make_training.py,
# and steps consist of forward, backward and optimizer. Both run in separate processes, in alternation. ROUNDS (3) of
# SECONDS_EACH (4) for each number of THREADS ("1 2"); a number is the median of the rounds' medians.
set -eu
cd "$(dirname "$0")/.."
out=bench/out/training
xcvm=build/release/tools/xcvm
python=${PYTHON:-/usr/bin/python3}
rounds=${ROUNDS:-3}
threads=${THREADS:-1 2}
seconds=${SECONDS_EACH:-4}
names=${*:-mlp_b64 lenet_b64 resnet18_b8 mobilenet_v2_b8 transformer_b4 lstm_b16 autoencoder_b16}
unset OPENBLAS_CORETYPE

mkdir -p "$out"
: >"$out/lines.txt"
for name in $names; do
    [ -f "$out/$name/model.onnx" ] || "$python" bench/make_training.py "$out" "$name" >&2
    optimizer=$(cat "$out/$name/optimizer.txt")
    for round in $(seq "$rounds"); do
        for t in $threads; do
            "$python" bench/make_training.py --time "$t" "$name" | sed "s/^$name/$name torch/" >>"$out/lines.txt"
            "$xcvm" bench "$out/$name/model.onnx" --train "$optimizer" --threads "$t" --int-max 10 --duration "$seconds" | sed -n "s/^xcvm threads/$name xcvm threads/p" >>"$out/lines.txt"
        done
    done
done
# Memory of Python with PyTorch, before a network exists.
"$python" -c 'import resource, torch, torchvision; print("base torch peak_rss_mb=%.1f" % (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))' >>"$out/lines.txt"
awk -v threads="$threads" -f bench/training.awk "$out/lines.txt" >"$out/tables.md"
"$python" bench/stamp.py "$out/tables.md" docs/training-benchmark.md
cat "$out/tables.md"

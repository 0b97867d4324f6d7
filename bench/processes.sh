#!/bin/sh
# processes.sh [FOLDER]: training of a network of make_training.py (resnet18_b8) in several processes of one thread on
# this machine, each with batches of the network's size. Prints a Markdown table of samples per second for one process,
# two processes of mpirun, two that send messages because they cannot share memory, and two independent ones, which show
# what the cores can do. Numbers are medians of ROUNDS (5), in turn. XCVM is the command, and WAYS selects from the four
# ("alone together messages apart"). The time is that of LONG (13) steps minus that of SHORT (3) steps, so that
# preparations do not count.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-bench/out/training/resnet18_b8}
rounds=${ROUNDS:-5}
short=${SHORT:-3}
long=${LONG:-13}
xcvm=${XCVM:-$PWD/build/release/tools/xcvm}
ways=${WAYS:-alone together messages apart}
batch=${folder##*_b}
out=bench/out/processes
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

mkdir -p "$out"
[ -f "$folder/model.onnx" ] || "${PYTHON:-/usr/bin/python3}" bench/make_training.py "$(dirname "$folder")" "$(basename "$folder")" >&2

# learn BATCH STEPS [COMMAND...]: COMMAND precedes the training command.
learn() {
    size=$1 steps=$2
    shift 2
    "$@" "$xcvm" train "$folder/model.onnx" --data "$folder/data.npz" --optimizer "$(cat "$folder/optimizer.txt")" --no-shuffle \
        --threads 1 --dry-run --batch "$size" --epochs 1000 --steps "$steps" >"$out/said.txt" 2>&1 || { cat "$out/said.txt" >&2; exit 1; }
}
alone() { learn "$batch" "$1" taskset -c 0; }
together() { learn $((2 * batch)) "$1" mpirun -n 2 --bind-to core; }
messages() (
    ulimit -v $((4 << 20))
    together "$1"
    grep -q 'sums by messages' "$out/said.txt"
)
apart() {
    (out=$out/other && mkdir -p "$out" && learn "$batch" "$1" taskset -c 1) &
    learn "$batch" "$1" taskset -c 0
    wait $!
}
ms() { # HOW STEPS
    begin=$(date +%s%N)
    "$@"
    echo $((($(date +%s%N) - begin) / 1000000))
}

: >"$out/lines.txt"
for round in $(seq "$rounds"); do
    for how in $ways; do
        echo "$how $(ms $how "$short") $(ms $how "$long")" >>"$out/lines.txt"
    done
done
median() { awk -v how="$1" '$1 == how { print ($3 - $2) }' "$out/lines.txt" | sort -n | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }'; }
speed() { # HOW PROCESSES: samples a second, and how many times those of one process
    echo "$(median "$1") $(median alone) $2" | awk -v samples=$((batch * (long - short))) \
        'NF == 3 { printf "%.1f (%.2f times)", $3 * samples / $1 * 1000, $3 * $2 / $1 }'
}
echo '| one process | two, by mpirun | two, by messages | two that share nothing |'
echo '| ---: | ---: | ---: | ---: |'
echo "| $(speed alone 1) | $(speed together 2) | $(speed messages 2) | $(speed apart 2) |"
sort -s -k 1,1 "$out/lines.txt" | awk '{ print $1, $3 - $2, "ms" }'

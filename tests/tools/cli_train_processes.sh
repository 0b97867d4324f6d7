# Processes that train together, where there is an mpirun: losses are those of one, one that dies ends all, and any number
# of them resumes.
. "$(dirname "$0")/expect.sh"
tones=$data/../../../examples/tones
if ! command -v mpirun >/dev/null; then
    echo "cli_train_processes: there is no mpirun"
    exit 0
fi
# What Open MPI itself does not give back is none of the command's leaks.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
arguments=(train "$tones/untrained.onnx" -d "$tones/tones.npz" -i sound=sounds -l label=labels --loss softmax_cross_entropy
    -b 33 --validation 0.1 --optimizer adam:lr=3e-3 --clip-norm 1 --threads 1)
as_it_is=("${arguments[@]}")
arguments+=(--init orthogonal)
# train N ARGUMENTS...
train() {
    count=$1
    shift
    last="mpirun -n $count xcvm train $*"
    timeout 100 mpirun --oversubscribe -n "$count" "$xcvm" "${arguments[@]}" "$@" >"$work/.out" 2>"$work/.err" </dev/null
    status=$?
}
# Whether two logs have the same numbers to a millionth.
same_losses() {
    paste -d, "$1" "$2" | awk -F, 'NR > 1 {
        for (i = 1; i <= NF / 2; i++)
            if (($i - $(i + NF / 2)) ^ 2 > 1e-10 * (1 + $i ^ 2)) wrong++
    } END { exit NR < 5 || wrong > 0 }'
}
for count in 1 2 3; do
    train $count --epochs 2 --log log$count.csv
    code 0
    out_has 'steps 44'
    [ "$count" = 1 ] || out_has "processes $count, sums by shared memory"
done
check same_losses log1.csv log2.csv
check same_losses log1.csv log3.csv

# Processes that cannot share memory, as those of several machines, send messages. Addresses for as much as the machine
# has, which nothing else needs, are not to be had; a sanitizer takes more.
limit=$((4 << 20))
if (ulimit -v "$limit" && "$xcvm" --version) >/dev/null 2>&1; then
    (ulimit -v "$limit" && train 2 --epochs 2 --log messages.csv && exit "$status")
    check test $? -eq 0
    out_has 'processes 2, sums by messages'
    check same_losses log1.csv messages.csv
fi

# F1 of the data for validation is that of all processes' parts.
for count in 1 2 3; do
    train $count --epochs 1 --metric f1 --metric accuracy --seed 3
    code 0
    sed -n 's/^validation \([af]\)/\1/p' "$work/.out" >"held$count.txt"
    check test "$(wc -l <"held$count.txt")" -eq 2
    check cmp held1.txt "held$count.txt"
done

# One that is killed: the job ends, and its checkpoint is good for another number of processes.
last='mpirun with a process that is killed'
timeout 100 mpirun --oversubscribe -n 2 "$xcvm" "${arguments[@]}" --epochs 10000 --checkpoint saved --checkpoint-every 4 \
    >"$work/.out" 2>"$work/.err" </dev/null &
job=$!
for wait in $(seq 1 300); do
    [ -n "$(ls saved 2>/dev/null)" ] && break
    sleep 0.1
done
ranks=$(pgrep -P "$(pgrep -P "$job")" xcvm)
check kill -9 "$(echo "$ranks" | tail -1)"
wait "$job"
# Not that of timeout.
status=$?
check test "$status" -ne 0
check test "$status" -ne 124
train 3 --epochs 1 --steps 22 --checkpoint saved --resume
check test "$status" -eq 0

# One that is given other options: all end, and it is said once. differ WHAT OPTIONS...
differ() {
    what=$1
    shift
    last="mpirun with processes, one of them with $*"
    timeout 100 mpirun --oversubscribe -n 1 "$xcvm" "${as_it_is[@]}" --epochs 1 : \
        -n 1 "$xcvm" "${as_it_is[@]}" --epochs 1 "$@" >"$work/.out" 2>"$work/.err" </dev/null
    status=$?
    check test "$status" -ne 0
    check test "$status" -ne 124
    check test "$(grep -c "the processes do not have the same $what: all must be given the same options" "$work/.err")" -eq 1
}
differ optimizer --optimizer sgd:lr=0.1
differ 'rounding of weights and activations, or normalisation of batches' --quantize

# What all of them meet is said once.
train 2 --schedule sine
check test "$status" -ne 0
check test "$(grep -c 'there is no schedule "sine"' "$work/.err")" -eq 1
finish

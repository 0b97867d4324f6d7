# Processes that train together: losses are those of one, one that dies ends all, and any number
# of them resumes.
. "$(dirname "$0")/expect.sh"
tones=$data/../../../examples/tones
if ! command -v mpirun >/dev/null; then
    echo "cli_train_processes: there is no mpirun; make test installs it (Debian: openmpi-bin)"
    exit 1
fi
# Memory that Open MPI does not release is no leak of the command.
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
    case " $* " in
    *" -o "* | *" --checkpoint "*) ;;
    *) set -- "$@" -o any.bin ;;
    esac
    last="mpirun -n $count xcvm train $*"
    timeout 100 mpirun --oversubscribe -n "$count" "$xcvm" "${arguments[@]}" "$@" >"$work/.out" 2>"$work/.err" </dev/null
    status=$?
}
# The same if processes cannot share memory, like those of several machines, and send messages. A limit of the address
# space prevents the shared mapping; a sanitizer needs more.
limit=$((4 << 20))
ways=shared counts=2 accumulated=2
if (ulimit -v "$limit" && "$xcvm" --version) >/dev/null 2>&1; then
    # Without a sanitizer, which looks at memory, also other numbers.
    ways='shared messages' counts='2 3' accumulated='1 2'
fi
# way shared|messages COMMAND...
way() {
    if [ "$1" = messages ]; then
        ulimit -v "$limit"
    fi
    shift
    "$@"
}
# Returns true if two logs have the same numbers to a millionth.
same_losses() {
    paste -d, "$1" "$2" | awk -F, 'NR > 1 {
        for (i = 1; i <= NF / 2; i++)
            if (($i - $(i + NF / 2)) ^ 2 > 1e-10 * (1 + $i ^ 2)) wrong++
    } END { exit NR < 5 || wrong > 0 }'
}
for count in 1 $counts; do
    train $count --epochs 2 --log log$count.csv
    code 0
    out_has 'steps 44'
    [ "$count" = 1 ] || out_has "processes $count, sums by shared memory"
done
for count in $counts; do
    check same_losses log1.csv log$count.csv
done

# Writes parts of models in protobuf's wire format.
cat >messages.py <<'END'
def number(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + number(n >> 7)
def field(n, value):
    if isinstance(value, int):
        return number(n << 3) + number(value)
    value = value.encode() if isinstance(value, str) else value
    return number(n << 3 | 2) + number(len(value)) + value
def value(name, *dims):
    sizes = b"".join(field(1, field(2 if isinstance(d, str) else 1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, sizes)))
def save(path, graph):
    open(path, "wb").write(field(1, 8) + field(7, graph) + field(8, field(2, 13)))
END

# wide.onnx is a network in which the gradients of one layer fill a bucket, so there are three.
wide=(train wide.onnx -d wide.npz --loss mse -l y --init glorot --optimizer adam:lr=1e-3 --clip-norm 1 -b 8 --threads 1
    --epochs 2 -o any.bin)
if command -v python3 >/dev/null; then
    python3 - <<'END'
from messages import field, save, value
sizes = [64, 1100, 1100, 1100, 4]
graph, last = field(2, "wide"), "x"
for i, (rows, columns) in enumerate(zip(sizes, sizes[1:])):
    graph += field(5, field(1, rows) + field(1, columns) + field(2, 1) + field(8, "w%d" % i) + field(9, bytes(4 * rows * columns)))
    graph += field(1, field(1, last) + field(1, "w%d" % i) + field(2, "p%d" % i) + field(4, "MatMul"))
    graph += field(1, field(1, "p%d" % i) + field(2, "t%d" % i) + field(4, "Tanh"))
    last = "t%d" % i
graph += field(11, value("x", "N", 64)) + field(12, value(last, "N", 4))
save("wide.onnx", graph)
END
    printf 'xcvm 1\ninput x f32[Nx64]\ninput y f32[Mx4]\noutput u f32[Nx64]\noutput v f32[Mx4]\n$1 = In(name="x")\n$2 = In(name="y")\nOut($1, name="u")\nOut($2, name="v")\n' |
        assemble two.bin
    run run two.bin -i x=48x64xf32=random:1 -i y=48x4xf32=random:2 -o u=@wide.npz:x -o v=@wide.npz:y
    code 0
    # learn WAY N ARGUMENTS...
    learn() {
        how=$1
        count=$2
        shift 2
        last="mpirun -n $count xcvm ${wide[*]} $* ($how)"
        (way "$how" timeout 100 mpirun --oversubscribe -n "$count" "$xcvm" "${wide[@]}" "$@" >"$work/.out" 2>"$work/.err" </dev/null)
        status=$?
        code 0
    }
    for batches in $accumulated; do
        learn shared 1 --accumulate $batches --log alone.csv
        for how in $ways; do
            for count in $counts; do
                learn "$how" $count --accumulate $batches --log together.csv -o first.onnx
                # Three a step, however many batches it has.
                out_line "gradient sums $((36 / batches))"
                check same_losses alone.csv together.csv
                learn "$how" $count --accumulate $batches -o again.onnx
                check cmp first.onnx again.onnx
            done
        done
    done
fi

# BatchNormalization uses the statistics of all parts of a batch, which have 3, 3 and 1 examples at the end of an epoch.
if command -v python3 >/dev/null; then
    python3 - <<'END'
import random, struct
from messages import field, save, value
def tensor(name, dims, numbers):
    return field(5, b"".join(field(1, d) for d in dims) + field(2, 1) + field(8, name) + field(9, struct.pack("<%df" % len(numbers), *numbers)))
def node(kind, output, *inputs):
    return field(1, b"".join(field(1, i) for i in inputs) + field(2, output) + field(4, kind))
random.seed(5)
graph, last = field(2, "normal"), "x"
for i, (rows, columns) in enumerate(((64, 12), (12, 4))):
    graph += tensor("w%d" % i, (rows, columns), [random.uniform(-0.3, 0.3) for _ in range(rows * columns)])
    for name, start in (("s", 1.0), ("o", 0.25), ("m", 0.0), ("v", 1.0)):
        graph += tensor("%s%d" % (name, i), (columns,), [start] * columns)
    graph += node("MatMul", "p%d" % i, last, "w%d" % i)
    graph += node("BatchNormalization", "n%d" % i, "p%d" % i, *(name + str(i) for name in "somv"))
    graph += node("Tanh", "t%d" % i, "n%d" % i)
    last = "t%d" % i
graph += field(11, value("x", "N", 64)) + field(12, value(last, "N", 4))
save("normal.onnx", graph)
END
    run run two.bin -i x=47x64xf32=random:3 -i y=47x4xf32=random:4 -o u=@normal.npz:x -o v=@normal.npz:y
    code 0
    wide=(train normal.onnx -d normal.npz --loss mse -l y --optimizer sgd:lr=0.05,momentum=0.9 -b 8 --threads 1 --dry-run --epochs 3
        --validation 0.15)
    learn shared 1 --log alone.csv
    for how in $ways; do
        for count in $counts; do
            learn "$how" $count --log together.csv -o first.onnx
            check same_losses alone.csv together.csv
            learn "$how" $count -o again.onnx
            check cmp first.onnx again.onnx
        done
    done
    # With those of its own part a process learns otherwise.
    learn shared 2 --local-batch-normalization --log local.csv
    if same_losses alone.csv local.csv; then bad 'learns the same with local statistics'; else good; fi
fi

# Another MPI's processes would each train alone.
last='xcvm train with PMI_SIZE=2'
PMI_SIZE=2 "$xcvm" "${arguments[@]}" >"$work/.out" 2>"$work/.err" </dev/null
status=$?
code 4
err_has "another mpirun than Open MPI's has started 2 processes"

for how in $ways; do
    [ "$how" = messages ] || continue
    (way messages train 2 --epochs 2 --log messages.csv && exit "$status")
    check test $? -eq 0
    out_has 'processes 2, sums by messages'
    check same_losses log1.csv messages.csv
done

# A process fails while the other continues and waits: the job ends, and the reason is printed once.
if [ -c /dev/full ]; then
    for how in $ways; do
        (way "$how" train 2 --epochs 100 --log /dev/full && exit "$status")
        status=$?
        last="mpirun -n 2 xcvm train --log /dev/full ($how)"
        check test "$status" -ne 0
        check test "$status" -ne 124
        check test "$(grep -c '/dev/full: cannot be written' "$work/.err")" -eq 1
    done
fi

# F1 of the data for validation is that of all processes' parts.
for count in 1 $counts; do
    train $count --epochs 1 --metric f1 --metric accuracy --seed 3
    code 0
    sed -n 's/^validation \([af]\)/\1/p' "$work/.out" >"held$count.txt"
    check test "$(wc -l <"held$count.txt")" -eq 2
    check cmp held1.txt "held$count.txt"
done

# One that is killed: the job ends, and its checkpoint is good for another number of processes.
for how in $ways; do
    last="mpirun with a process that is killed ($how)"
    (way "$how" exec timeout 100 mpirun --oversubscribe -n 2 "$xcvm" "${arguments[@]}" --epochs 10000 \
        --checkpoint "saved-$how" --checkpoint-every 4 >"$work/.out" 2>"$work/.err" </dev/null) &
    job=$!
    for wait in $(seq 1 300); do
        [ -n "$(ls "saved-$how" 2>/dev/null)" ] && break
        sleep 0.1
    done
    ranks=$(pgrep -P "$(pgrep -P "$job")" xcvm)
    check kill -9 "$(echo "$ranks" | tail -1)"
    wait "$job"
    # Not that of timeout.
    status=$?
    check test "$status" -ne 0
    check test "$status" -ne 124
    train 3 --epochs 1 --steps 22 --checkpoint "saved-$how" --resume
    check test "$status" -eq 0
done

# One that is given other options: all end, and it is said once. differ WHAT OPTIONS...
differ() {
    what=$1
    shift
    last="mpirun with processes, one of them with $*"
    timeout 100 mpirun --oversubscribe -n 1 "$xcvm" "${as_it_is[@]}" -o any.bin --epochs 1 : \
        -n 1 "$xcvm" "${as_it_is[@]}" -o any.bin --epochs 1 "$@" >"$work/.out" 2>"$work/.err" </dev/null
    status=$?
    check test "$status" -ne 0
    check test "$status" -ne 124
    check test "$(grep -c "the processes do not have the same $what: all must be given the same options" "$work/.err")" -eq 1
}
differ optimizer --optimizer sgd:lr=0.1
differ 'rounding of weights and activations, or normalization of batches' --quantize

# A failure of all processes is printed once.
train 2 --schedule sine
check test "$status" -ne 0
check test "$(grep -c 'there is no schedule "sine"' "$work/.err")" -eq 1
finish

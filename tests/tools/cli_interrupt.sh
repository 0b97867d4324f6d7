# Ctrl-C: every subcommand ends with exit code 130, as in shells, and leaves no partial file. Training finishes its
# step.
. "$(dirname "$0")/expect.sh"
digits=$data/../../../examples/digits
cat >reader.sh <<'X'
# Seconds that a process has computed for, in hundredths.
awk '{ print $14 + $15 }' "/proc/$1/stat" 2>/dev/null || echo 1000000
X
# interrupt FILE ARGUMENTS...: runs the command until FILE is there, or, if it is -, until it has computed for a while, and
# sends SIGINT to it alone.
interrupt() {
    awaited=$1
    shift
    last="xcvm $* (interrupted)"
    # Background processes of a script ignore SIGINT, unless it has job control.
    set -m
    "$xcvm" "$@" >"$work/.out" 2>"$work/.err" </dev/null &
    job=$!
    set +m
    for _ in $(seq 1 1200); do
        if [ "$awaited" != - ]; then
            compgen -G "$awaited" >/dev/null && break
        else
            [ "$(bash reader.sh $job)" -ge 30 ] && break
        fi
        sleep 0.05
    done
    kill -INT $job 2>/dev/null
    wait $job 2>/dev/null
    status=$?
}

# A long chain of nodes takes long to compile.
chain 600000 >chain.onnx
"$xcvm" compile "$digits/model.onnx" -o digits.bin
mkdir -p case/test_data_set_0
ln -s ../chain.onnx case/model.onnx
ls >before.txt
for command in 'compile chain.onnx -o chain.bin' 'check chain.onnx' 'quantize chain.onnx -o chain.q.onnx' \
    'run chain.onnx --random -o @y.npy' 'profile chain.onnx -o trace.json' 'diff chain.onnx digits.bin --random' \
    'strip chain.onnx -o chain.bin' 'dump chain.onnx -o chain.txt' 'bench digits.bin --duration 1000' \
    'run digits.bin --random -n 1000000000 -o @y.npy' 'test case --isolate never'; do
    # shellcheck disable=SC2086 # words
    interrupt - $command
    code 130
    ls >after.txt
    sed -i '/after.txt/d' after.txt
    check cmp before.txt after.txt
done

# A process that works for another ends with it.
# shellcheck disable=SC2009 # of this test's file alone
left() { ps -eo args | grep -c "[t]est $work/case --isolate always"; }
set -m
"$xcvm" test "$work/case" --isolate always >"$work/.out" 2>"$work/.err" </dev/null &
job=$!
set +m
last='xcvm test --isolate always (interrupted)'
for _ in $(seq 1 1200); do
    [ "$(left)" -ge 2 ] && break
    sleep 0.05
done
kill -INT $job
wait $job 2>/dev/null
status=$?
code 130
for _ in $(seq 1 100); do
    [ "$(left)" -eq 0 ] && break
    sleep 0.1
done
check test "$(left)" -eq 0

# Training finishes its step, and writes its results.
learn=(train "$digits/untrained.onnx" -d "$digits/digits.npz" -i image=images -l label=labels --loss softmax_cross_entropy
    --init he --epochs 1000000 --checkpoint saved --checkpoint-every 1 -o learned.onnx)
interrupt 'saved/step-*.safetensors' "${learn[@]}"
code 130
out_like '^steps [0-9]+$'
check test -e learned.onnx
check test -z "$(ls saved | grep '\.new$')"
# It resumes from there.
steps=$(sed -n 's/^steps //p' .out)
run "${learn[@]}" --resume --steps $((steps + 1))
code 0
out_line "steps $((steps + 1))"
finish

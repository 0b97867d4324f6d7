# Output targets: standard output for a single target, input files, links, pipes, and limits.
. "$(dirname "$0")/expect.sh"
digits=$data/../../../examples/digits

printf 'xcvm 1\ninput x f32[Nx3]\ninput y i64[M]\noutput u f32[Nx3]\noutput v i64[M]\n$1 = In(name="x")\n$2 = In(name="y")\nOut($1, name="u")\nOut($2, name="v")\n' |
    assemble two.bin
run run two.bin -i x=40x3xf32=random:1 -i y=40xi64=1 -o u=@line.npz:x -o v=@line.npz:y
code 0
cp "$data/gradients/right/model.onnx" network.onnx
cat >count.xcvm <<'END'
xcvm 1
input x f32[2]
output y f32[2]
state total f32[2]
$1 = In(name="x")
$2 = Load(name="total")
$3 = Add($1, $2)
Store($3, name="total")
Print([$3], label="sum")
Out($3, name="y")
END

learn=(train network.onnx -d line.npz --optimizer sgd:lr=0.01 --epochs 2 -b 8)
keeps=("${learn[@]}" -o kept.bin)
kept() { check test "$before" = "$(cat "$@" | sha256sum)"; }
keep() { before=$(cat "$@" | sha256sum); }

# ---- Standard output has the bytes of a target, and text is printed to standard error ----

run "${learn[@]}" -o file.bin
code 0
out_has 'steps 10'
cp .out text
run "${learn[@]}" -o -
code 0
check cmp .out file.bin
err_has 'epoch 2  step 10'
err_has 'steps 10'
check test "$(grep -v samples .err)" = "$(grep -v samples text)"
run quantize "$digits/model.onnx" -d "$digits/digits.npz" -i image=images --samples 40 -o file.q.bin --picture errors.svg
code 0
out_has 'nodes '
run quantize "$digits/model.onnx" -d "$digits/digits.npz" -i image=images --samples 40 -o - --picture errors.svg
code 0
check cmp .out file.q.bin
err_has 'nodes '
run quantize "$digits/model.onnx" -d "$digits/digits.npz" -i image=images --samples 40 -o file.q.bin --picture -
code 0
check cmp .out errors.svg
run run count.xcvm -i '2xf32=1 2' --save-state file.safetensors
code 0
out_line 'y=2xf32=1 2'
run run count.xcvm -i '2xf32=1 2' --save-state - --trace-shapes
code 0
check cmp .out file.safetensors
err_has 'y=2xf32=1 2'
err_has 'Add'
err_has 'sum'
run profile two.bin -i x=2x3xf32=1 -i y=2xi64=1 -o - -n 1
code 0
check test "$(head -c 1 .out)" = '{'
check test "$(tail -c 2 .out)" = '}'
err_has 'memory: planned'
run compile network.onnx -o file.prog.bin --report
code 0
run compile network.onnx -o - --report --dump-after all
code 0
check cmp .out file.prog.bin
err_has 'weight bytes'
"$xcvm" train network.onnx -d line.npz --optimizer sgd:lr=0.01 --epochs 2 -b 8 -o - 2>&- >.out
check test $? = 0
check cmp .out file.bin
run quantize network.onnx -d line.npz -o - --picture -
code 2
err_has '--output and --picture name the same file, -'

# ---- Files that are read, and each other ----

keep network.onnx line.npz
ln -s network.onnx model.link
ln -s line.npz line.link
ln -s held.npz held.link
for target in --log --curve -o; do
    run "${learn[@]}" --checkpoint none $target model.link
    code 2
    err_has 'the model and '
    run "${learn[@]}" --checkpoint none $target line.npz
    code 2
    err_has 'line.npz: the suffix .npz belongs to another format'
    run "${learn[@]}" --checkpoint none $target line.link
    code 2
    err_has 'line.link is a file of the data'
    run train network.onnx -d 'lin*.npz' --checkpoint none $target ./line.link
    code 2
    err_has './line.link is a file of the data'
    run train network.onnx -d . --checkpoint none $target line.link
    code 2
    cp line.npz held.npz
    run train network.onnx -d line.npz --validation held.npz --checkpoint none $target held.link
    code 2
    err_has 'held.link is a file of the data'
    run train network.onnx -d line.npz --weights held.npz --checkpoint none $target held.link
    code 2
    err_has "--weights and "
    check cmp line.npz held.npz
    rm held.npz
done
run "${keeps[@]}" --log new --curve ./new
code 2
err_has '--curve and --log are the same file, new'
check test ! -e new
run "${learn[@]}" --log new --curve new.svg -o "$PWD/new"
code 2
check test ! -e new
run "${keeps[@]}" --log /dev/null --curve /dev/null
code 0
run quantize network.onnx -o network.onnx
code 2
err_has 'network.onnx is the model itself'
run quantize network.onnx -d line.npz --picture line.link -o q.onnx
code 2
err_has 'line.link is a file of the data'
kept network.onnx line.npz

# A file that is no log is refused, and nothing is written to a log before the command line is checked.
run "${learn[@]}" --checkpoint saved --log log.csv
code 0
keep line.npz log.csv
run train network.onnx -d line.npz --optimizer sgd:lr=0.01 --epochs 3 -b 9 --checkpoint saved --resume --log log.csv
code 2
echo 'a letter' >letter
run train network.onnx -d line.npz --optimizer sgd:lr=0.01 --epochs 3 -b 8 --checkpoint saved --resume --log letter
code 2
err_has 'letter cannot be gone on with, as it does not begin with step,epoch,loss,learning_rate'
check test "$(cat letter)" = 'a letter'
for option in log curve; do
    run "${learn[@]}" -o t.bin --$option -
    code 2
    err_has "--$option=-: standard output has the messages. Name a file"
    check test ! -e ./-
done
# A new log replaces a log, but nothing else.
run "${keeps[@]}" --log letter
code 2
err_has 'letter is no log of a training, and is not overwritten. Name another file, or remove it'
check test "$(cat letter)" = 'a letter'
echo 'step,epoch,loss,f1,learning_rate' >older.csv
: >empty.csv
printf 'step,epoch,of my thesis' >thesis
run "${keeps[@]}" --log thesis
code 2
check test "$(cat thesis)" = 'step,epoch,of my thesis'
for log in older empty; do
    run "${keeps[@]}" --log $log.csv
    code 0
    check test "$(head -n 1 $log.csv)" = step,epoch,loss,learning_rate
done
kept line.npz log.csv

# Without remaining steps there is no loss to report.
run "${learn[@]}" --checkpoint saved --resume
code 0
out 'steps 10'
err_has 'nothing to do: saved/step-000000000010.safetensors is of step 10'

# ---- The curve ----

echo old >real.svg
chmod 640 real.svg
ln -s real.svg curve.svg
run "${keeps[@]}" --curve curve.svg
code 0
check test -L curve.svg
check grep -q '</svg>' real.svg
check test "$(stat -c %a real.svg)" = 640
mkfifo pipe
exec 3<>pipe
run "${keeps[@]}" --curve pipe
code 0
read -r -t 60 line <&3
check grep -q '^<svg' <<<"$line"
exec 3>&-
check test -p pipe

# ---- Outputs of a run ----

run run two.bin -i x=2x3xf32=1 -i y=2xi64=1 -o u=@one.npy -o v=@./one.npy
code 2
err_has '"u" and "v" would be the same file of ./one.npy'
run run two.bin -i x=2x3xf32=1 -i y=2xi64=1 -o u=@one.npz:a -o v=@one.npz:a
code 2
err_has '"u" and "v" would be the same array of one.npz'
check test -z "$(ls one.* 2>/dev/null)"
run run two.bin -i x=2x3xf32=1 -i y=2xi64=1 -o u=@one.npz:a -o v=@./one.npz:b
code 0
run run two.bin -i x=@one.npz:a -i y=@one.npz:b
code 0
out_has 'v=2xi64=1 1'

# What is read stays, and a wrong reference does not become right.
cp one.npz kept.npz
run run two.bin -i x=@one.npz:a -i y=2xi64=1 -o u=@./one.npz
code 2
err_has '--output: ./one.npz is also the file of input x; output "u" needs a file of its own'
run run two.bin -i x=2x3xf32=1 -i y=2xi64=1 -o u=@one.npz:a --expect u=@one.npz:a
code 2
err_has 'one.npz is also the file of expected u'
run run two.bin -i x=2x3xf32=1 -i y=2xi64=1 -o u=@two.bin
code 2
err_has 'two.bin is also the file of the program'
cp two.bin program
run run program -i x=2x3xf32=1 -i y=2xi64=1 --save-state ./program
code 2
err_has '--save-state: ./program is also the file of the program'
check cmp two.bin program
check cmp one.npz kept.npz

# ---- Signals and limits ----

# A pipe without a reader, from the start or later, does not stop a training.
for option in --log --curve; do
    timeout --foreground 60 "$xcvm" "${keeps[@]}" $option pipe >.out 2>.err
    status=$?
    last="train $option pipe, without a reader"
    code 0
    out_has 'steps 10'
    head -c 10 pipe >/dev/null &
    timeout --foreground 60 "$xcvm" "${keeps[@]}" --epochs 200 $option pipe >.out 2>.err
    status=$?
    last="train $option pipe, whose reader ends"
    code 0
    out_has 'steps 1000'
    wait
    exec 3<>pipe
    timeout --foreground 60 "$xcvm" "${keeps[@]}" --epochs 500 $option pipe >.out 2>.err
    status=$?
    last="train $option pipe, whose reader does not read"
    code 0
    out_has 'steps 2500'
    exec 3>&-
done
# All lines get to a reader that reads.
cat pipe >piped.csv &
run "${keeps[@]}" --log pipe
code 0
wait
check test "$(wc -l <piped.csv)" = 11
# The reader of the printed text may exit. The training continues, and its end reports that not all text was printed.
"$xcvm" "${keeps[@]}" --epochs 50 -o piped.bin 2>.err | head -1 >.out
status=${PIPESTATUS[0]}
last='train | head -1'
code 6
check test -s piped.bin
(
    ulimit -f 1
    "$xcvm" "${learn[@]}" --curve small.svg -o /dev/null >.out 2>.err
)
status=$?
last='train with a limit of file sizes'
code 6
err_has 'small.svg: cannot be written: File too large'
(
    ulimit -f 1
    "$xcvm" "${learn[@]}" -o small.bin >.out 2>.err
)
status=$?
last='train with a limit of file sizes, before it begins'
code 6
err_has 'small.bin: cannot be written: File too large'
out ''
check test -z "$(ls small.* 2>/dev/null)"
(
    ulimit -f 1
    "$xcvm" run two.bin -i x=4000x3xf32=random -i y=2xi64=1 -o u=@small.npy -o v=- >.out 2>.err
)
status=$?
last='run with a limit of file sizes'
code 6
err_has 'small.npy: cannot be written: File too large'
check test -z "$(ls small.* 2>/dev/null)"
"$xcvm" help train >/dev/full 2>.err
status=$?
last='help train, on a full disk'
code 6
err 'xcvm: standard output cannot be written: No space left on device'
finish

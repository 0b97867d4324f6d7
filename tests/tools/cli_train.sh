# xcvm train: training, output files and refusals.
. "$(dirname "$0")/expect.sh"
digits=$data/../../../examples/digits

# two TYPE SPEC TYPE SPEC FILE: an archive of arrays x and y.
two() {
    printf 'xcvm 1\ninput x %s\ninput y %s\noutput u %s\noutput v %s\n$1 = In(name="x")\n$2 = In(name="y")\nOut($1, name="u")\nOut($2, name="v")\n' \
        "$1" "$3" "$1" "$3" | assemble two.bin
    run run two.bin -i "x=$2" -i "y=$4" -o "u=@$5:x" -o "v=@$5:y"
    code 0
}
sum() { cat "$@" | sha256sum; }

two 'f32[Nx3]' '40x3xf32=random:1' 'i64[M]' '40xi64=1' line.npz
cp "$data/gradients/right/model.onnx" network.onnx

# A model with its own loss: parameters, log, curve, checkpoints and the new model.
run train network.onnx -d line.npz --optimizer sgd:lr=0.01 --epochs 3 -b 8 --log log.csv --curve curve.svg \
    --checkpoint saved -o trained.onnx
code 0
out_has 'steps 15'
out_like '^loss [0-9]'
check test "$(head -1 log.csv)" = step,epoch,loss,learning_rate
check test "$(wc -l <log.csv)" = 16
check grep -q '</svg>' curve.svg
check test "$(ls saved)" = "$(printf 'step-%012d.safetensors\n' 5 10 15)"
run run trained.onnx -i '1x3xf32=1 2 3'
code 0
run diff network.onnx trained.onnx --random
code 1

# Closed standard streams do not give their numbers to files, so no file contains printed text.
"$xcvm" train network.onnx -d line.npz --optimizer sgd:lr=0.01 --epochs 3 -b 8 --log closed.csv --checkpoint closed \
    -o closed.onnx >&- 2>.err
check test $? = 6
check test "$(wc -l <closed.csv)" = 16
check test "$(grep -c loss closed.csv)" = 1
check cmp trained.onnx closed.onnx
"$xcvm" train network.onnx -d line.npz --optimizer sgd:lr=0.01 --epochs 3 -b 8 --log closed.csv -o closed.onnx \
    <&- >/dev/null 2>&-
check test $? = 0
check test "$(wc -l <closed.csv)" = 16
check cmp trained.onnx closed.onnx

# The same command again refuses to mix trainings; --resume continues with the same bits.
run train network.onnx -d line.npz --optimizer sgd:lr=0.01 --epochs 6 -b 8 --checkpoint saved
code 2
err_has 'saved has checkpoints of an earlier training; continue it with --resume, or choose another folder'
run train network.onnx -d line.npz --optimizer sgd:lr=0.01 --epochs 6 -b 8 --checkpoint saved --resume --log log.csv -o resumed.onnx
code 0
out_has 'steps 30'
check test "$(wc -l <log.csv)" = 31
run train network.onnx -d line.npz --optimizer sgd:lr=0.01 --epochs 6 -b 8 --log whole.csv -o whole.onnx --threads 2
code 0
check cmp resumed.onnx whole.onnx
check cmp log.csv whole.csv

# A program for inference.
run train network.onnx -d line.npz --optimizer sgd:lr=0.01 --epochs 6 -b 8 -o whole.bin
code 0
run run whole.bin -i '1x3xf32=1 2 3'
code 0

# A loss that is added, labels, metrics, a share for validation, and a schedule.
run train "$digits/untrained.onnx" -d "$digits/digits.npz" -i image=images -l label=labels --loss softmax_cross_entropy --init he \
    --optimizer adam:lr=3e-3 --schedule cosine:warmup=5% --epochs 2 -b 128 --validation 0.2 --metric accuracy --metric top5 \
    --metric f1 --metric perplexity --log digits.csv -o digits.onnx
code 0
check test "$(head -1 digits.csv)" = step,epoch,loss,accuracy,top5,f1,perplexity,validation_loss,validation_accuracy,validation_top5,validation_f1,validation_perplexity,learning_rate
out_like '^validation accuracy 0\.[89]'
run train "$digits/untrained.onnx" -d "$digits/digits.npz" -i image=images -l label=labels --loss softmax_cross_entropy --init he \
    --overfit-batch --steps 60 -b 16 --optimizer adam:lr=3e-3
code 0
out_like '^accuracy 1$'

# Recomputation changes the memory, and no bit of the results.
run train network.onnx -d line.npz --optimizer sgd:lr=0.01 --epochs 6 -b 8 --recompute time -o recomputed.onnx
code 0
err_has 'recomputation: '
err_has ' MB without'
check cmp recomputed.onnx whole.onnx
run train network.onnx -d line.npz --epochs 1 -b 16 --recompute time --dry-run
code 0
check test "$(grep -c recomputation: "$work/.err")" = 1 # the last batch has 8 examples
run train network.onnx -d line.npz --validation 20% --dry-run
code 2
err_has 'A fifth is 0.2'
run train network.onnx -d line.npz --validation 20 --dry-run
code 2
err_has 'A fifth is 0.2'
run train network.onnx -d line.npz --dry-run --memory-budget 1M
code 2
err_has '--memory-budget has no effect without --recompute'
run train network.onnx -d line.npz --dry-run --recompute often
code 2
err_has "the recomputation method is 'often'"
run train network.onnx -d line.npz --dry-run --recompute time --memory-budget 1
code 5
err_has 'budget'

# Models and data that cannot be trained.
refuse() {
    expected=$1 message=$2
    shift 2
    case " $* " in
    *" -o "* | *" --checkpoint "*) ;;
    *) set -- "$@" --dry-run ;;
    esac
    run train "$@"
    code "$expected"
    err_has "$message"
}
refuse 2 '--data is needed' network.onnx
refuse 2 '--resume needs --checkpoint' network.onnx -d line.npz --resume
refuse 2 'wanted NAME=ARRAY' network.onnx -d line.npz -i =x
refuse 2 'wanted NAME=ARRAY' network.onnx -d line.npz -i x
refuse 2 'wanted NAME=ARRAY or NAME' network.onnx -d line.npz -l =x
refuse 2 'above 0 and below 1' network.onnx -d line.npz --validation 1.5
refuse 2 "nothing.*" network.onnx -d line.npz --train 'nothing.*'
refuse 2 "nothing" network.onnx -d line.npz --loss nothing
refuse 2 "adm" network.onnx -d line.npz --optimizer adm
refuse 2 "speed" network.onnx -d line.npz --optimizer adam:speed=1
refuse 2 'there is no schedule "sine"; there is: constant' network.onnx -d line.npz --schedule sine
refuse 2 'there is no metric "auc"' network.onnx -d line.npz --metric auc
refuse 2 'has no array "z"; it holds: x, y. Name the array with --input, or that of labels with --label' network.onnx -d line.npz -i x=z
refuse 2 'there is no input "z"; there is: x' network.onnx -d line.npz -i z=x
refuse 2 'a batch of 41 examples is larger than the data set, which has 40' network.onnx -d line.npz -b 41
refuse 6 'none.npz: No such file' network.onnx -d none.npz
refuse 6 'no file has such a name' network.onnx -d 'none-*.npz'
refuse 6 'none.onnx' none.onnx -d line.npz
refuse 6 'cannot be written' network.onnx -d line.npz -o nowhere/x.onnx
two 'f32[Nx4]' '40x4xf32=random:1' 'i64[M]' '40xi64=1' wide.npz
refuse 3 'array "x" is [40x4], input "x" wants' network.onnx -d wide.npz
two 'f64[Nx3]' '40x3xf64=random:1' 'i64[M]' '40xi64=1' double.npz
refuse 3 'array "x" is of f64, input "x" wants f32' network.onnx -d double.npz
two 'f32[Nx3]' '0x3xf32=' 'i64[M]' '0xi64=' empty.npz
refuse 2 'the data set is empty' network.onnx -d empty.npz
two 'f32[Nx3]' '2x3xf32=1 2 3 4 nan 6' 'i64[M]' '2xi64=1' nan.npz
refuse 2 'array "x" has NaN (not a number) in example 1' network.onnx -d nan.npz --no-shuffle -b 2
two 'f32[Nx1x8x8]' '20x1x8x8xf32=random:1' 'i64[M]' '19xi64=1' uneven.npz
refuse 3 'has 19 examples, but array "x" 20' "$digits/untrained.onnx" -d uneven.npz -i image=x -l label=y --loss softmax_cross_entropy
two 'f32[Nx1x8x8]' '20x1x8x8xf32=random:1' 'i64[M]' '20xi64=12' range.npz
run train "$digits/untrained.onnx" -d range.npz -i image=x -l label=y --loss softmax_cross_entropy --init he --dry-run
check test "$status" -ge 2
err_has '12'
two 'f32[Nx3]' '2x3xf32=3e38 3e38 3e38 -3e38 -3e38 -3e38' 'i64[M]' '2xi64=1' huge.npz
refuse 2 'step 1: the loss is not finite; the first number that is infinite was made by instruction' network.onnx -d huge.npz --checkpoint never
check test -z "$(ls never)"
refuse 5 'memory' "$digits/untrained.onnx" -d "$digits/digits.npz" -i image=images -l label=labels --loss softmax_cross_entropy --max-memory 600K
echo '{}' >saved/step-000000000099.safetensors
refuse 2 'not a safetensors file' network.onnx -d line.npz --optimizer sgd:lr=0.01 --epochs 9 -b 8 --checkpoint saved --resume
rm saved/step-000000000099.safetensors
refuse 2 'of a training with 0 examples held out, this one has 8 examples held out' network.onnx -d line.npz --validation 0.2 --optimizer sgd:lr=0.01 --epochs 9 -b 8 --checkpoint saved --resume
refuse 2 'of another model or optimizer' network.onnx -d line.npz --optimizer adam --epochs 9 -b 8 --checkpoint saved --resume

# The disk is full while a checkpoint is written: the previous one stays.
before=$(sum saved/*)
(
    trap '' XFSZ
    ulimit -f 1
    "$xcvm" train "$digits/untrained.onnx" -d "$digits/digits.npz" -i image=images -l label=labels --loss softmax_cross_entropy \
        --init he --steps 2 --checkpoint small -o small.onnx >"$work/.out" 2>"$work/.err"
)
status=$?
last='train with a full disk'
code 6
err_has 'cannot be written: File too large'
check test -z "$(ls small)"
check test ! -e small.onnx
check test "$before" = "$(sum saved/*)"

# The disk is full while the log is written: the weights so far are kept. The log needs 16 KB after about 300 steps.
(
    trap '' XFSZ
    ulimit -f 16
    "$xcvm" train network.onnx -d line.npz --epochs 200 -b 8 --log long.csv -o early.onnx >"$work/.out" 2>"$work/.err"
)
status=$?
last='train with a full disk for the log'
code 6
err_has 'long.csv: cannot be written: File too large'
err_has 'note: early.onnx has the weights after step '
run check early.onnx
code 0
finish

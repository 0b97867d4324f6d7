# xcvm train: messages before, during and after training: losses, labels, classes, weights, scales and output files.
# Losses with ignored labels are PyTorch's (make_training_data.py).
. "$(dirname "$0")/expect.sh"
here=$data/training
scores=(train "$here/scores.onnx" -l labels=y)
classes=(--loss softmax_cross_entropy --optimizer sgd:lr=0.5)

# has_losses LOG FILE: whether the losses of all steps are those of the file.
has_losses() {
    awk -F, -v file="$2" 'BEGIN {
        while ((getline line <file) > 0) if (line !~ /mean/) wanted[++count] = line
    } NR > 1 { if (($3 - wanted[NR - 1]) ^ 2 > 1e-11) wrong++ } END { exit wrong > 0 || NR != count + 1 }' "$1"
}

# ---- Losses ----

run "${scores[@]}" -d "$here/ignored.npz" -o t.onnx
code 2
err_has "the loss 'scores' is f32[?x3]; it has to be one number, so end the model with a sum or a mean, or name a loss that is added with --loss: 'softmax_cross_entropy' suits integer labels"
for loss in softmax_cross_entropy token_cross_entropy nll bce bce_with_logits mse l1 smooth_l1; do
    err_has "$loss"
done
err_has '--loss softmax_cross_entropy suits the labels in array "y", which are of i64 with 1 axis'
run train "$here/one.onnx" -d "$here/target.npz" -l labels=y -o t.onnx
code 2
err_has '--loss mse suits the labels in array "y", which are of f32 with 2 axes'
run train "$here/tokens.onnx" -d "$here/tokens.npz" -l labels=y -o t.onnx
code 2
err_has '--loss token_cross_entropy suits the labels in array "y", which are of i64 with 2 axes'
run "${scores[@]}" -d "$here/ignored.npz" --loss mse -o t.onnx
code 3
err_has '--loss softmax_cross_entropy takes these labels'
check test ! -e t.onnx
run check "$here/scores.onnx" --backprop
code 2
err_has '--loss'
run check "$here/scores.onnx" --backprop --loss 'softmax_cross_entropy(scores,labels)'
code 0
out_like '^gradients +2, 48 bytes'
run check "$here/scores.onnx" --backprop --loss 'softmax_cross_entropy(scores,labels)'
cp .out whole
for short in 'softmax_cross_entropy(,labels)' 'softmax_cross_entropy(scores)' softmax_cross_entropy; do
    run check "$here/scores.onnx" --backprop --loss "$short"
    code 0
    check cmp .out whole
done
run check "$here/scores.onnx" --backprop --loss 'softmax_cross_entropy(nothing)'
code 2
err_has "no output 'nothing' to have a loss"
run check "$here/scores.onnx" --backprop --loss nonsense
code 2
err_has 'losses that can be added are softmax_cross_entropy'

# ---- Where results go ----

run "${scores[@]}" -d "$here/ignored.npz" "${classes[@]}"
code 2
err_has 'the trained weights would be lost. Name a file with --output or a folder with --checkpoint, or train without a result with --dry-run'
out ''
mkdir dry
cd dry || exit 2
run "${scores[@]}" -d "$here/ignored.npz" "${classes[@]}" --dry-run -o t.onnx --log t.csv --curve t.svg --checkpoint saved
code 0
out_has 'epoch 1'
check test -z "$(ls)"
cd ..
run "${scores[@]}" -d "$here/ignored.npz" "${classes[@]}" --dry-run -o none/t.onnx
code 6
out ''
for name in none/t.onnx "$(printf '%0255d' 1).onnx" dry; do
    run "${scores[@]}" -d "$here/ignored.npz" "${classes[@]}" -o "$name"
    code 6
    err_has 'cannot be written'
    out ''
done
for name in t.pt t.tflite t.safetensors t.npz t.h5 t.c; do
    run "${scores[@]}" -d "$here/ignored.npz" "${classes[@]}" -o $name
    code 2
    [ $name = t.c ] && err_has 'Write t.onnx' || err_has 'belongs to another format'
    out ''
done
# External weights are included in the new model, wherever it is written.
mkdir out
for form in onnx bin; do
    run train "$here/far/scores.onnx" -d "$here/ignored.npz" -l labels=y "${classes[@]}" --train fc.bias -o "out/t.$form"
    code 0
    run run "out/t.$form" -i '1x3xf32=1 2 3' -o scores=@far.npy
    code 0
    run "${scores[@]}" -d "$here/ignored.npz" "${classes[@]}" --train fc.bias -o "near.$form"
    code 0
    run run "near.$form" -i '1x3xf32=1 2 3' --expect scores=@far.npy
    code 0
done
run train "$here/far/scores.onnx" -d "$here/ignored.npz" -l labels=y "${classes[@]}" --train fc.bias -o -
code 0
check cmp .out out/t.bin
run train "$here/far/scores.onnx" -d "$here/ignored.npz" -l labels=y "${classes[@]}" --init he -o out/t.onnx
code 0
run run out/t.onnx -i '1x3xf32=1 2 3'
code 0

# ---- A line for each epoch ----

run "${scores[@]}" -d "$here/ignored.npz" "${classes[@]}" --epochs 3 -b 4 --no-shuffle --log log.csv -o t.onnx
code 0
check test "$(grep -c '^epoch [123]  step ' .out)" = 3
# Losses of steps, and means of epochs over labels that count.
check has_losses log.csv "$here/ignored.txt"
means=$(sed -n 's/^mean //p' "$here/ignored.txt")
lines=$(sed -n 's/^epoch .*  loss \([0-9.]*\).*/\1/p' .out)
check awk -v a="$means" -v b="$lines" 'BEGIN {
    n = split(a, x); m = split(b, y); for (i = 1; i <= n; i++) if ((x[i] - y[i]) ^ 2 > 1e-6) exit 1; exit n != m || n != 3 }'
last_mean=$(tail -1 "$here/ignored.txt" | cut -d' ' -f2)
check awk -v a="$last_mean" -v b="$(sed -n 's/^loss //p' .out)" 'BEGIN { exit (a - b) ^ 2 > 1e-9 }'
run "${scores[@]}" -d "$here/ignored.npz" "${classes[@]}" --epochs 3 -b 4 --steps 5 -o t.onnx
code 0
out_like '^epoch 1  step 3 '
out_like '^epoch 2 \(a part of it\)  step 5 '
# One example in the last batch, and in all.
for batch in 9 1; do
    run train "$here/one.onnx" -d "$here/target.npz" -l labels=y --loss mse --optimizer sgd:lr=0.01 -b $batch --log one.csv --validation 0.1 -o t.onnx
    code 0
    out_lacks nan
    out_like '^validation mae [0-9]'
    check awk -F, 'NR > 1 && $4 == "" { exit 1 }' one.csv
done

# ---- Labels ----

run "${scores[@]}" -d "$here/ignored255.npz" "${classes[@]}" --ignore-label 255 --epochs 3 -b 4 --no-shuffle --log log255.csv -o t.onnx
code 0
check cmp log.csv log255.csv
run train "$here/tokens.onnx" -d "$here/tokens.npz" -l labels=y --loss token_cross_entropy --optimizer sgd:lr=0.5 --epochs 3 -b 2 --no-shuffle --log tokens.csv -o t.onnx
code 0
check has_losses tokens.csv "$here/tokens.txt"
check awk -v a="$(tail -1 "$here/tokens.txt" | cut -d' ' -f2)" -v b="$(sed -n 's/^loss //p' .out)" 'BEGIN { exit (a - b) ^ 2 > 1e-9 }'
run "${scores[@]}" -d "$here/ignored255.npz" "${classes[@]}" -o t.onnx
code 3
err_has 'ignored255.npz: array "y" has the label 255 in example 1, counted from 0 (expected 0 to 2, as the model has scores of 3 classes, or -100, which is left out)'
out ''
run "${scores[@]}" -d "$here/from1.npz" "${classes[@]}" -o t.onnx
code 3
err_has 'array "y" has the label 3 in example 3'
err_has 'Subtract 1 from labels that count from 1'
run "${scores[@]}" -d "$here/ignored.npz" --validation "$here/from1.npz" "${classes[@]}" -o t.onnx
code 3
err_has 'from1.npz: array "y" has the label 3'
out ''
run train "$here/one.onnx" -d "$here/target.npz" -l labels=y --loss mse --ignore-label 3 -o t.onnx
code 2
err_has 'is for a loss of classes that is added'
run "${scores[@]}" -d "$here/ignored.npz" "${classes[@]}" --ignore-label some -o t.onnx
code 2
err_has 'expected an integer'

# A loss that the model has itself says which label it leaves out.
run train "$here/own.onnx" -d "$here/ignored.npz" -i y=y --optimizer sgd:lr=0.5 --epochs 3 -b 4 --no-shuffle --steps 1 --log own.csv -o t.onnx
code 0
out_like '^loss 0\.957679$'
out_like '^accuracy '
run train "$here/own.onnx" -d "$here/from1.npz" --optimizer sgd:lr=0.5 -o t.onnx
code 3
err_has 'from1.npz: array "y" has the label 3 in example 3'
err_has 'the attribute ignore_index'

# ---- Classes ----

pixels=(-i image=images -l labels "${classes[@]}" --epochs 400 -b 8 --optimizer adam:lr=0.003)
run train "$here/pixels.onnx" -d "$here/images" --validation "$here/held" "${pixels[@]}" -o named.onnx
code 0
out_line 'validation accuracy 1'
run train "$here/pixels.onnx" -d "$here/images" "${pixels[@]}" -o named.bin
code 0
run dump named.bin
out_has 'metadata "class_names" "cat\ndog\nemu"'
out_has 'metadata "class_output" "scores"'
for program in named.onnx named.bin; do
    run run $program -i 'image=2x3x8x8xf32=0.9'
    code 0
    out_like '^scores\[0\]: class 2 "emu" '
    out_like '^scores\[1\]: class 2 "emu" '
    run run $program -i 'image=1x3x8x8xf32=0.08'
    out_like '^scores: class 0 "cat" '
done
run compile named.onnx --emit onnx -o again.onnx
code 0
run run again.onnx -i 'image=1x3x8x8xf32=0.9'
out_like '^scores: class 2 "emu" '
# A model with class names keeps its numbers of them.
mkdir two
cp -r "$here/images/dog" "$here/images/emu" two
run train named.onnx -d two --validation "$here/held" "${pixels[@]}" --epochs 1 --optimizer sgd:lr=1e-9 -o more.onnx
code 0
out_line 'validation accuracy 1'
run run more.onnx -i 'image=1x3x8x8xf32=0.9'
out_like '^scores: class 2 "emu" '
mkdir two/fox
run train "$here/pixels.onnx" -d two "${pixels[@]}" -o t.onnx
code 2
err_has 'two/fox: the folder of the class "fox" has no images'
cp "$here"/images/cat/* two/fox
run train "$here/pixels.onnx" -d "$here/images" --validation two "${pixels[@]}" -o t.onnx
code 2
err_has 'two/fox: there is no class "fox" (expected one of cat, dog, emu)'
out ''
run train named.onnx -d two "${pixels[@]}" -o t.onnx
code 2
err_has 'there is no class "fox"'
mkdir four
cp -r "$here/images/cat" "$here/images/dog" "$here/images/emu" two/fox four
run train "$here/pixels.onnx" -d four "${pixels[@]}" -o t.onnx
code 2
err_has 'has scores of 3; "fox" would be number 3'
# The classes of expected scores, in test.
mkdir -p case/test_data_set_0
cp named.onnx case/model.onnx
run run named.onnx -i 'image=1x3x8x8xf32=0.9' -o scores=@case/test_data_set_0/output_0.pb
printf 'xcvm 1\ninput x f32[1x3x8x8]\noutput y f32[1x3x8x8]\n$1 = In(name="x")\nOut($1, name="y")\n' | assemble copy.bin
run run copy.bin -i 'x=1x3x8x8xf32=0.9' -o y=@case/test_data_set_0/input_0.pb
run test case
code 0
out_has '; class 2 "emu"'
run run copy.bin -i 'x=1x3x8x8xf32=0.08' -o y=@case/test_data_set_0/input_0.pb
run test case
code 1
out_has 'class 0 "cat", expected class 2 "emu"'

# ---- Weights, scales and resumption ----

run "${scores[@]}" -d "$here/ignored.npz" "${classes[@]}" --steps 1 --weights "$here/f64.npz" -o t64.onnx
code 0
err_has 'f64.npz: 2 of 2 parameters taken'
err_has 'f64.npz: numbers of 1 arrays are rounded from f64 to f32'
run "${scores[@]}" -d "$here/ignored.npz" "${classes[@]}" --steps 1 -o t.onnx
check cmp t.onnx t64.onnx
run "${scores[@]}" -d "$here/ignored.npz" "${classes[@]}" --weights "$here/f16.npz" -o t.onnx
code 0
err_has 'f16.npz: 2 of 2 parameters taken'
run "${scores[@]}" -d "$here/ignored.npz" "${classes[@]}" --weights "$here/part.npz" -o t.onnx
code 0
err_has 'part.npz: 1 of 2 parameters taken'
err_has 'part.npz: has no array for 1 parameters, which stay as they are: "fc.bias"'
err_has 'part.npz: 1 arrays have names of no parameter and are not used: "head.weight"'
run "${scores[@]}" -d "$here/ignored.npz" "${classes[@]}" --weights "$here/prefix.npz" -o t.onnx
code 2
err_has 'Name "module.fc.weight" as "fc.weight"'
run "${scores[@]}" -d "$here/ignored.npz" "${classes[@]}" --weights "$here/beyond.npz" -o t.onnx
code 3
err_has '"fc.bias" has the number 1e+300, which is beyond the greatest of f32'
run train "$here/far/scores.onnx" -d "$here/ignored.npz" -l labels=y "${classes[@]}" --weights "$here/part.npz" -o t.onnx
code 0
run train "$here/pixels.onnx" -d "$here/bytes.npz" -l labels "${classes[@]}" --steps 1 -b 6 -o raw.onnx
code 0
err_has 'note: array "image" is of u8; input "image" takes its numbers as they are'
raw=$(sed -n 's/^loss //p' .out)
run train "$here/pixels.onnx" -d "$here/bytes.npz" -i 'image=image*1' -l labels "${classes[@]}" --steps 1 -b 6 -o raw.onnx
err ''
check test "$(sed -n 's/^loss //p' .out)" = "$raw"
run train "$here/pixels.onnx" -d "$here/bytes.npz" -i 'image=image*1/255' -l labels "${classes[@]}" --steps 1 -b 6 -o scaled.onnx
code 0
err ''
# A quantized model has the same scales, and the same note.
run quantize "$here/pixels.onnx" -d "$here/bytes.npz" -o raw.q.onnx
code 0
err_has 'note: array "image" is of u8; input "image" takes its numbers as they are'
run quantize "$here/pixels.onnx" -d "$here/bytes.npz" -i 'image=image*1/255' -o scaled.q.onnx
code 0
err ''
run train "$here/pixels.onnx" -d "$here/bytes.npz" -i 'image=image*1/255' -l labels "${classes[@]}" --steps 1 -b 6 -o scaled.onnx
code 0
check awk -v a="$raw" -v b="$(sed -n 's/^loss //p' .out)" 'BEGIN { exit !(b < 1.2 && a > 1.2) }'
run "${scores[@]}" -d "$here/ignored.npz" "${classes[@]}" --epochs 2 --checkpoint saved -o t.onnx
code 0
run "${scores[@]}" -d "$here/ignored.npz" "${classes[@]}" --epochs 2 --checkpoint saved --resume -o t.onnx
code 0
err_has 'nothing to do: saved/step-000000000002.safetensors is of step 2'
err_has 'Ask for more with --epochs or --steps. The model is written again to t.onnx'
check test -s t.onnx
finish

# xcvm train: advice for data, labels, losses, models and checkpoints that do not match. Losses are PyTorch's
# (make_training_data.py).
. "$(dirname "$0")/expect.sh"
here=$data/training
advice=$here/advice
scores=(train "$here/scores.onnx" -d "$advice/data.npz" -o t.onnx --loss softmax_cross_entropy)
numbers=(train "$here/one.onnx" -d "$advice/data.npz" -o t.onnx)
first_loss() { awk -F, -v wanted="$(cat "$2")" 'NR == 2 { found = ($3 - wanted) ^ 2 < 1e-10 * (1 + wanted ^ 2) } END { exit !found }' "$1"; }

# ---- Labels of another shape or type ----

# A number per example has shape [N] or [N,1]: both are trained equally, and a note mentions the difference.
for labels in n1 n2; do
    run "${numbers[@]}" -l "labels=$labels" --loss mse --no-shuffle --log "$labels.csv"
    code 0
    check first_loss "$labels.csv" "$advice/mse.txt"
    [ $labels = n2 ] || err_has 'note: '"$advice"'/data.npz: array "n1" is [8] and is used as [8x1], the shape of input "labels"'
done
check test ! -s .err
check cmp n1.csv n2.csv
for labels in i1 i2; do
    run train "$advice/linear.onnx" -d "$advice/data.npz" -o t.onnx --loss softmax_cross_entropy -l "labels=$labels" --no-shuffle --log "$labels.csv"
    code 0
    check first_loss "$labels.csv" "$advice/cross_entropy.txt"
    [ $labels = i1 ] || err_has 'array "i2" is [8x1] and is used as [8]'
done
check cmp i1.csv i2.csv
# The note is of the first file.
cp "$advice/data.npz" one.npz
cp "$advice/data.npz" two.npz
run train "$here/one.onnx" -d one.npz -d two.npz -l labels=n1 --loss mse -o t.onnx
code 0
check test "$(grep -c 'is used as' .err)" = 1

refuse() {
    run "$@"
    check test "$status" -ne 0
    out ''
    check test ! -e none.onnx
}
refuse "${scores[@]}" -l labels=f1
err_has 'array "f1" is of f32, input "labels" wants i64. Labels of classes are integers: save f1.astype("int64")'
refuse "${scores[@]}" -l labels=hot
err_has 'This loss takes the number of the class, not one number for each class: save hot.argmax(1). For numbers there is --loss mse'
refuse train "$here/scores.onnx" -d "$advice/data.npz" -o t.onnx --loss mse -l labels=i1
err_has '. --loss softmax_cross_entropy takes these labels'
refuse train "$here/scores.onnx" -d "$advice/data.npz" -o t.onnx --loss mse -l labels=f1
err_has 'If the labels are classes, save f1.astype("int64") and use --loss softmax_cross_entropy'
for loss in bce_with_logits mse l1; do
    refuse "${numbers[@]}" --loss $loss -l labels=yes
    err_has 'array "yes" is of i64, input "labels" wants f32. This loss takes labels of floats: save yes.astype("float32")'
done
refuse "${numbers[@]}" --loss softmax_cross_entropy -l labels=yes
err_has 'the model has one score for each example. For labels 0 and 1 use --loss bce_with_logits with yes.astype("float32")'
refuse train "$here/tokens.onnx" -d "$here/tokens.npz" -l labels=y --loss softmax_cross_entropy -o t.onnx
err_has '. --loss token_cross_entropy takes these labels'
refuse "${scores[@]}" -i x=x64 -l labels=i1
err_has 'array "x64" is of f64, input "x" wants f32. Convert the data first, as x64.astype("float32") does in NumPy'
refuse "${scores[@]}" -i x=n1 -l labels=i1
err_has 'array "n1" is [8], input "x" wants [?x3], the first axis counting examples'
# Images and sequences with channels last, for models with channels first.
printf 'xcvm 1\ninput x f32\ninput y f32\noutput u f32\noutput v f32\n$1 = In(name="x")\n$2 = In(name="y")\nOut($1, name="u")\nOut($2, name="v")\n' |
    sed 's/f32/f32[...]/' | assemble two.bin
axes() { # MODEL INPUT SHAPE ADVICE
    run run two.bin -i "x=$3xf32=random" -i y=4x1xf32=0 -o "u=@axes.npz:$2" -o v=@axes.npz:labels
    code 0
    refuse train "$1" -d axes.npz --loss mse -o t.onnx
    err_has "the first axis counting examples. Move the axes: save $4"
}
axes "$advice/score.onnx" image 4x8x8x3 'image.transpose(0, 3, 1, 2)'
axes "$data/../../../examples/tones/untrained.onnx" sound 4x8x32 'sound.transpose(0, 2, 1)'
# Without --loss, too.
for labels in n1 n2; do
    refuse "${numbers[@]}" -l "labels=$labels"
    err_has "--loss mse suits the labels in array \"$labels\", which are of f32 with "
done
for labels in i1 i2; do
    refuse train "$here/scores.onnx" -d "$advice/data.npz" -o t.onnx -l "labels=$labels"
    err_has "--loss softmax_cross_entropy suits the labels in array \"$labels\", which are of i64 with "
done
refuse train "$here/scores.onnx" -d "$advice/data.npz" -o t.onnx -l labels=f1
err_has 'If the labels are classes, save f1.astype("int64") and use --loss softmax_cross_entropy'
refuse "${numbers[@]}" -l labels=yes
err_has '--loss bce_with_logits suits the labels in array "yes", which are of i64 with 1 axis; save them as floats'

run run two.bin -i x=4x3xf32=random -i 'y=4x1xf32=0 1 1 0' -o u=@bits.npz:x -o v=@bits.npz:bits
code 0
refuse train "$here/one.onnx" -d bits.npz -o t.onnx -l labels=bits
err_has 'All are 0 or 1: if these are two classes, --loss bce_with_logits suits them, or bce behind Sigmoid'

# ---- Labels that are all ignored ----

refuse "${scores[@]}" -l labels=ignored
err_has 'data.npz: array "ignored" has no label that counts: all are -100, the label to ignore. Check the labels, or ignore another label with --ignore-label'
refuse "${scores[@]}" -l labels=i1 --validation "$advice/data.npz" --ignore-label 7 -l labels=ignored
err_has 'has the label -100'
run train "$here/own.onnx" -d "$advice/data.npz" -i y=ignored -o t.onnx
check test "$status" -ne 0
err_has "Check the labels and the attribute ignore_index of the model's loss"
# Data for validation must have labels, too.
run train "$here/scores.onnx" -d "$here/ignored.npz" -l labels=y --loss softmax_cross_entropy --validation "$advice/held.npz" --no-shuffle -o t.onnx
check test "$status" -ne 0
err_has 'held.npz: array "y" has no label that counts'

# ---- Losses and the outputs that they suit ----

# note LOSS MODEL TEXT
note() {
    run train "$advice/$2.onnx" -d "$advice/data.npz" -l "labels=$(case $1 in bce*) echo hot ;; *) echo i1 ;; esac)" --loss "$1" -o t.onnx
    # The logarithm of a score may be no number.
    [ "$1" = bce ] || code 0
    check test "$(grep -c "note: .*$1 is applied to output 'y', the result of" .err)" = 1
    err_has "$3"
}
note softmax_cross_entropy softmax 'the loss computes Softmax itself, so the model learns slowly. End the model with the scores before it'
note softmax_cross_entropy sigmoid 'the loss computes Softmax itself'
note softmax_cross_entropy logsoftmax 'which changes nothing; nll saves the time'
note nll softmax 'the loss takes logarithms of probabilities. End the model with LogSoftmax, or with the scores before the Softmax and use softmax_cross_entropy'
note nll linear 'Use softmax_cross_entropy for scores'
note bce linear 'Use bce_with_logits for scores'
note bce_with_logits sigmoid 'Use bce, or end the model with the scores before it'
note bce_with_logits softmax 'the loss takes scores and computes Sigmoid'
note bce logsoftmax 'the loss takes probabilities'
for fit in 'softmax_cross_entropy linear i1' 'nll logsoftmax i1' 'bce sigmoid hot' 'bce softmax hot' 'bce_with_logits linear hot' 'mse softmax hot'; do
    read -r loss model labels <<<"$fit"
    run train "$advice/$model.onnx" -d "$advice/data.npz" -l "labels=$labels" --loss "$loss" -o t.onnx
    code 0
    check test ! -s .err
done
run check "$advice/softmax.onnx" --backprop --loss nll
code 0
err_has 'nll is applied to output'

refuse train "$advice/two.onnx" -d "$advice/data.npz" -l labels=i1 -o t.onnx
err_has "the model has 2 outputs of float types (kind, size)"
err_has "--loss 'mse(size,labels)'"
refuse train "$advice/two.onnx" -d "$advice/data.npz" -l labels=i1 --loss softmax_cross_entropy -o t.onnx
err_has "2 outputs of float types ('kind', 'size'); name the one that the loss is of and the labels, as --loss 'softmax_cross_entropy(kind,labels)'"
run train "$advice/two.onnx" -d "$advice/data.npz" -l labels=i1 --loss 'softmax_cross_entropy(kind,labels)' -o t.onnx
code 0
refuse train "$advice/two.onnx" -d "$advice/data.npz" -l labels=i1 --loss 'mse(weight,labels)' -o t.onnx
err_has "no output 'weight' to have a loss; its outputs of float types are 'kind', 'size'"
for name in cross_entropy=softmax_cross_entropy nll_loss=nll mse_loss=mse binary_cross_entropy=bce mae=l1; do
    refuse train "$here/scores.onnx" -d "$advice/data.npz" -l labels=i1 --loss "${name%=*}" -o t.onnx
    err_has "Its name here is '${name#*=}'"
done

# ---- Folders, images, sizes ----

for order in "-d $here/images -d $advice/data.npz" "-d $advice/data.npz -d $here/images"; do
    # shellcheck disable=SC2086
    refuse train "$here/pixels.onnx" $order --loss softmax_cross_entropy -o t.onnx
    err_has "$here/images: a folder of images is a data set by itself and cannot be joined with \"$advice/data.npz\""
done
refuse train "$here/pixels.onnx" -d "$here/images/cat/0.png" -d "$advice/data.npz" --loss softmax_cross_entropy -o t.onnx
err_has 'one data set cannot have both'
refuse train "$here/pixels.onnx" -d "$here/images/*" --loss softmax_cross_entropy -o t.onnx
err_has 'matches the folder'
# A directory of arrays may have subdirectories.
mkdir -p arrays/saved
cp "$advice/data.npz" arrays
run train "$here/scores.onnx" -d arrays --loss softmax_cross_entropy -l labels=i1 -o t.onnx
code 0
refuse train "$advice/score.onnx" -d "$here/images" --loss bce_with_logits -o t.onnx
err_has 'Use --loss softmax_cross_entropy with a model that has a score for each of the 3 classes'
refuse train "$advice/score.onnx" -d "$here/images" -o t.onnx
err_has 'needs a model with a score for each class'
refuse train "$advice/open.onnx" -d "$here/images" --loss softmax_cross_entropy -o t.onnx
err_has 'input "image" is [?x3x?x?], but images need known channels, height and width. Fix them with --dim height=SIZE --dim width=SIZE'
run train "$advice/open.onnx" -d "$here/images" --loss softmax_cross_entropy --dim height=8 --dim width=8 -o t.onnx
code 0
gru=(train "$advice/gru.onnx" -d "$advice/data.npz" -i x=steps --loss softmax_cross_entropy -l labels=i1 -o t.onnx)
refuse "${gru[@]}"
err_has 'GRU has a gradient that needs the number of steps, up to 1024, to be known; fix it with --dim T=NUMBER'
refuse "${gru[@]}" --dim T=5
err_has 'array "h0" is [8x4], input "h0" wants [1x?x4]'
err_has 'as with initial states of recurrent networks. Export the model without the input, so that states start as zeros'
refuse "${gru[@]}" --dim T=5000
err_has 'at most 1024 steps, not 5000'
refuse train "$advice/fixed.onnx" -d "$advice/data.npz" -l labels=i1 --loss softmax_cross_entropy -b 8 -o t.onnx
err_has 'the model takes batches of 4 examples, not of 8. Leave the size of batches out, or export the model with an open first dimension'
refuse train "$advice/fixed.onnx" -d "$advice/data.npz" -l labels=i1 --loss softmax_cross_entropy --validation 0.1 -o t.onnx
err_has 'Keep more examples for validation'
/usr/bin/python3 -c "import numpy as n; n.savez('left.npz', x=n.ones((6, 3), 'f4'), labels=n.zeros(6, 'i8'))"
run train "$advice/fixed.onnx" -d left.npz --loss softmax_cross_entropy --epochs 1 --dry-run
code 0
err_has "note: the last examples of each epoch are left out, because they do not fill a batch of the model's fixed size"

# ---- Models and weights ----

refuse train "$advice/lost.onnx" -d "$advice/data.npz" -l labels=i1 --loss softmax_cross_entropy -o t.onnx
err_has 'lost.bin'
err_has "Put it into the model's directory under this name"
head -c 100 "$here/scores.onnx" >part.onnx
for command in "train part.onnx -d $advice/data.npz -o t.onnx" 'check part.onnx' 'compile part.onnx -o t.bin'; do
    # shellcheck disable=SC2086
    run $command
    code 3
    err_has 'a part of it is missing. Copy, download or export it again'
done
refuse "${scores[@]}" -l labels=i1 --weights "$advice/turned.npz"
err_has '"fc.weight" is f16[2x3], the model has f32[3x3]. Leave the array out to keep the model'
gzip -c "$here/scores.onnx" >packed.onnx
run check packed.onnx
err_has 'unpack it with "gunzip" (an archive with "tar xzf") first'

# ---- Checkpoints ----

learn=("${scores[@]}" -l labels=i1 --optimizer sgd:lr=0.1)
refuse "${learn[@]}" --checkpoint none --resume
err_has 'none: there is no such folder, so there is nothing to resume. Begin without --resume'
check test ! -e none
mkdir nothing
refuse "${learn[@]}" --checkpoint nothing --resume
err_has 'nothing: the folder has no checkpoint, so there is nothing to resume'
for folder in saved_b saved_a; do
    run "${learn[@]}" --checkpoint $folder
    code 0
done
refuse "${learn[@]}" --checkpoint saved --resume
err_has 'saved: there is no such folder, so there is nothing to resume. Begin without --resume, or resume from a folder with checkpoints: saved_a, saved_b'
refuse "${learn[@]}" --checkpoint "$work/saved" --resume
err_has "resume from a folder with checkpoints: $work/saved_a, $work/saved_b"
cp t.onnx before.onnx
run "${learn[@]}" --checkpoint saved_a --resume
code 0
err_has 'nothing to do: saved_a/step-000000000001.safetensors is of step 1, where this training ends. Ask for more with --epochs or --steps. The model is written again to t.onnx from that checkpoint'
check cmp t.onnx before.onnx

# ---- Dropout ----

# Masks that nothing reads keep no node from being quantized. The note on the inference form is of the file, so it comes last.
run train "$advice/dropout.onnx" -d "$advice/data.npz" -l labels=i1 --loss softmax_cross_entropy -o drop.onnx
code 0
check test "$(tail -1 .err | grep -c 'note: drop.onnx: 1 node is in inference form now')" = 1
run train "$advice/dropout.onnx" -d "$advice/data.npz" -l labels=i1 --loss softmax_cross_entropy --dry-run
code 0
check test ! -s .err
for model in drop.onnx "$advice/dropout.onnx" "$advice/dropout_off.onnx"; do
    run quantize "$model" -d "$advice/data.npz" -o small.onnx
    code 0
    out_like '^nodes 3 of 3 quantized'
    run run small.onnx -i x=@"$advice/data.npz":x
    code 0
done
finish

# Models in training form: warnings, --inference, and the form of the models that train and quantize write.
. "$(dirname "$0")/expect.sh"
learns=$data/training/learns.onnx
letter=$data/training/letter/model.onnx
warning="warning: $letter: 1 node is in training form, so that results depend on the batch: 'norm' (BatchNormalization). --inference"

# By ONNX's definition, the batch determines the result. Every subcommand that reads a model reports this and names the
# nodes.
pair='2x2xf32=3 7 -1 3'
run run "$letter" -i "x=$pair" --expect 'y=2x2xf32=1 3 -1 -1'
code 0
err_has "$warning"
run run "$letter" -i "x=$pair" --inference --expect 'y=2x2xf32=1 3 -1 1'
code 0
err ''
# A half of the batch has the same results as in the whole batch.
run run "$letter" -i 'x=1x2xf32=-1 3' --inference --expect 'y=1x2xf32=-1 1'
code 0
for command in "check $letter" "compile $letter -o letter.bin" "compile $letter --emit onnx -o plain.onnx" \
    "compile $letter --emit c --dim N=2 -o letter.c" "bench $letter --dim N=2 -n 3" "profile $letter --dim N=2" \
    "diff $letter $letter --random --dim N=2" "dump $letter"; do
    run $command
    code 0
    err_has "$warning"
    case $command in
    diff*) ;; # options are of both models
    *)
        run $command --inference
        code 0
        err ''
        ;;
    esac
done
run_in check - <"$letter"
err_has "warning: -: 1 node is in training form"
run_in compile - -o piped.bin <"$letter"
err_has "warning: -: 1 node is in training form"
run_in run - -i "x=$pair" <"$letter"
err_has "warning: -: 1 node is in training form"
run check "$learns"
out_like '^form +training'
err_has "2 nodes are in training form, so that results depend on the batch and on random numbers: 'norm' (BatchNormalization), 'drop' (Dropout). --inference"
run check "$learns" --inference
out_lacks 'training'
err ''
# Gradients and training programs use the training form.
run compile "$learns" -o step.bin --train sgd --loss mse
code 0
err ''
run compile "$learns" -o step.bin --train sgd --loss mse --inference
code 2
err_has 'ask for training or for the inference form'
# A program has one form.
run run letter.bin -i "x=$pair" --inference
code 0
err_has 'the program is compiled already, so that options for models have no effect (--inference)'

# Cases are tested by the letter. What is quiet is quiet about models, too.
mkdir many
cp -r "$data/training/letter" many/a
cp -r "$data/training/letter" many/b
run test many
code 0
out_has '2 passed, 0 failed'
check test "$(grep -c 'in training form' .err)" = 2
run test many -q
code 0
err ''
run test many --inference
code 1
out_has '0 passed, 2 failed'

# Trained models are in inference form: the result of an example does not depend on others, in every format.
printf 'xcvm 1\ninput x f32[Nx1x5]\ninput y f32[Nx2]\noutput u f32[Nx1x5]\noutput v f32[Nx2]\n$1 = In(name="x")\n$2 = In(name="y")\nOut($1, name="u")\nOut($2, name="v")\n' |
    assemble data.bin
run run data.bin -i x=40x1x5xf32=random:1 -i y=40x2xf32=random:2 -o u=@data.npz:x -o v=@data.npz:labels
code 0
train="train $learns -d data.npz --loss mse --epochs 3 -b 8 --optimizer sgd:lr=0.01"
run $train -o learned.onnx
code 0
err_has "note: learned.onnx: 2 nodes are in inference form now: 'norm' (BatchNormalization), 'drop' (Dropout)"
run $train -o learned.bin
code 0
run $train -o kept.onnx --training-form
code 0
err ''
run check learned.onnx
err ''
out_has 'opset        ai.onnx 13'
out_has 'producer     make_data'
run check kept.onnx
err_has '2 nodes are in training form'
run quantize learned.onnx -d data.npz -o learned.q.onnx
code 0
out_has '1 normalizations folded'
run quantize kept.onnx -d data.npz -o kept.q.onnx
code 0
out_has '2 put into inference form, 1 normalizations folded'
check cmp learned.q.onnx kept.q.onnx
run quantize kept.onnx -d data.npz -o kept.t.onnx --training-form
code 0
out_lacks 'folded'
run check kept.t.onnx
err_has '2 nodes are in training form'
run diff kept.onnx learned.onnx --random --inference
code 0
run diff learned.bin learned.onnx --random
code 0
for model in learned.onnx learned.bin learned.q.onnx; do
    run run "$model" -i x=2x1x5xf32=random:3 -o y=@two.npy
    code 0
    run run "$model" -i x=1x1x5xf32=random:3 -o y=@one.npy
    code 0
    # The first of two rows equals the single row: the same bytes after the header.
    check test "$(tail -c 16 two.npy | head -c 8 | sha256sum)" = "$(tail -c 8 one.npy | sha256sum)"
done

finish

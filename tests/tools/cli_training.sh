# compile --train and related options.
. "$(dirname "$0")/expect.sh"

cp "$data/gradients/right/model.onnx" network.onnx
batch='2x3xf32=1 -2 3 -4 5 -6'
run compile network.onnx -o train.bin --train sgd:lr=0.5,momentum=0.5
code 0
run run train.bin -i "x=$batch" -i learning_rate=0.5 --save-state one.safetensors
code 0
out_line 'loss=f32=38'
check grep -q '"optimizer@fc.bias.momentum_buffer":{"dtype":"F32","shape":\[3\]' one.safetensors
check grep -q '"optimizer@step":{"dtype":"I64"' one.safetensors
run run train.bin -i "x=$batch" -i learning_rate=0.5 --state one.safetensors
code 0
out_line 'loss=f32=5'
# Several runs are several steps.
run run train.bin -i "x=$batch" -i learning_rate=0.5 -n 2
out_line 'loss=f32=5'
run dump train.bin
out_has 'metadata "train" "sgd:lr=0.5,weight_decay=0,momentum=0.5,dampening=0,nesterov=false,maximize=false"'
out_has 'SGD(['

# A parameter that is not trained is a constant; a group has its own learning rate.
run compile network.onnx -o part.bin --train sgd --wrt 'fc.w*'
code 0
run run part.bin -i "x=$batch" -i learning_rate=0.5 -n 2
out_line 'loss=f32=10'
run compile network.onnx -o part.bin --train sgd --group '*.bias:lr=0' --group '*:lr=0.5,weight_decay=0'
code 0
run run part.bin -i "x=$batch" -i learning_rate=1 -n 2
out_line 'loss=f32=10'

# Clipping returns the norm; accumulation needs another input.
run compile network.onnx -o clip.bin --train adam --clip-norm 1 --accumulate
code 0
run run clip.bin -i "x=$batch" -i learning_rate=0.001 -i apply=1
code 0
out_line 'gradient_norm=f32=9.219544'


run compile network.onnx -o other.bin --train sdg
code 2
err_has "there is no optimizer 'sdg'; there are sgd, adam"
run compile network.onnx -o other.bin --train adam:beta=1
code 2
err_has "adam has no setting 'beta'; it has lr, weight_decay, betas, eps, amsgrad, maximize"
run compile network.onnx -o other.bin --train sgd --wrt 'conv*'
code 2
err_has "no parameter is called 'conv*'"
run compile network.onnx -o other.bin --train sgd --loss accuracy
code 2
err_has "the model has no output 'accuracy' to be the loss; losses that can be added are softmax_cross_entropy"
run compile network.onnx -o other.bin --train sgd --group fc
code 2
err_has '--group=fc: expected PATTERN:lr=FACTOR'
run compile network.onnx -o other.bin --train sgd --train-batch-normalization
code 4
err_has 'the model has no BatchNormalization to be put into training form'
run compile network.onnx -o other.bin --clip-norm 1
code 2
err_has '--clip-norm has no effect without --train'
run compile network.onnx -o other.bin --train sgd --backprop
code 2
err_has '--backprop and --train exclude each other'
check test ! -e other.bin
# Without a learning rate the program does not run.
run run train.bin -i "x=$batch"
code 2
err_has learning_rate
# The counterpart for validation reads the same states and changes none.
run compile network.onnx -o evaluate.bin --train sgd:lr=0.5 --evaluate
code 0
run run evaluate.bin -i "$batch" -n 3
out_line 'loss=f32=38'
finish

# --backprop of compile and test.
. "$(dirname "$0")/expect.sh"

run test --backprop "$data/gradients"
code 1
out_has 'PASS right: 13 elements agree'
out_has 'FAIL wrong: test_data_set_0: output grad_out@fc.bias: 3 of 3 elements differ'
out_has "FAIL nobody: no parameter or input 'nobody'"
out_line '1 passed, 2 failed, 0 skipped'
for level in 0 1 2; do
    run test --backprop -O "$level" "$data/gradients/right"
    code 0
done
# Without the option, or without gradients, only existing files are compared.
run test "$data/gradients/wrong"
code 0
out_has 'PASS wrong: 1 elements agree'
run test --backprop "$data/cases/add"
code 1
out_has 'the data sets have no gradients (gradient_0.pb)'

cp "$data/gradients/right/model.onnx" network.onnx
run compile network.onnx -o grad.bin --backprop
code 0
run run grad.bin -i '2x3xf32=1 -2 3 -4 5 -6'
out_line 'loss=f32=38'
out_line 'grad_out@fc.weight=3xf32=2 6 4'
out_line 'grad_out@fc.bias=3xf32=2 3 4'
run compile network.onnx -o grad.bin --backprop --wrt x,fc.bias --loss loss
code 0
run run grad.bin -i '1x3xf32=1 -2 3'
out_line 'grad_out@x=1x3xf32=2 0 4'
out_line 'grad_out@fc.bias=3xf32=2 0 4'
out_lacks fc.weight
run compile network.onnx -o grad.bin --backprop --wrt x --wrt fc.weight
code 0

run compile network.onnx -o other.bin --backprop --wrt fc.weigth
code 2
err_has "no parameter or input 'fc.weigth'"
check test ! -e other.bin
run compile network.onnx -o other.bin --backprop --loss accuracy
code 2
err_has "the model has no output 'accuracy'"
run compile network.onnx -o other.bin --wrt x
code 2
err_has '--wrt has no effect without --backprop'
run compile network.onnx -o other.bin --loss loss
code 2
err_has '--loss has no effect without --backprop'
run compile network.onnx -o other.bin --backprop --recompute time
code 4
err_has 'recomputation needs known sizes'
run compile network.onnx -o again.bin --dim N=2 --backprop --recompute time
code 0
err_has 'recomputation: '
err_has 'a step takes'
run run again.bin -i '2x3xf32=1 -2 3 -4 5 -6'
out_line 'grad_out@fc.weight=3xf32=2 6 4'
run compile network.onnx -o other.bin --dim N=2 --backprop --recompute time --memory-budget 1
code 5
err_has 'more than the memory budget of 1'
check test ! -e other.bin
run compile network.onnx -o other.bin --backprop --recompute often
code 2
err_has "the recomputation method is 'often'; expected none, chen, time, memory or custom:NAMES"
run compile network.onnx -o other.bin --backprop --recompute custom:nobody
code 2
err_has "unknown value 'nobody'"
run compile network.onnx -o other.bin --recompute time
code 2
err_has '--recompute has no effect without --backprop'
run compile network.onnx -o other.bin --backprop --memory-budget 1M
code 2
err_has '--memory-budget has no effect without --recompute'
run compile "$data/cases/add/model.onnx" -o other.bin --backprop
code 2
err_has 'it has to be one number, so end the model with a sum or a mean'
# Forward and backward as two programs, which appear together or not at all.
run compile network.onnx -o fwd.bin --backprop --two-phase --loss loss
code 0
check test -s fwd.bin
check test -s fwd.backward.bin
run check fwd.bin
out_has 'output  retained_'
run check fwd.backward.bin
out_has 'input   grad_in@loss'
out_has 'output  grad_out@fc.weight'
run compile network.onnx -o - --backprop --two-phase
code 2
err_has '--two-phase writes two programs'
mkdir taken.backward.bin
run compile network.onnx -o taken.bin --backprop --two-phase --loss loss
code 6
check test ! -e taken.bin
# The second order.
run compile network.onnx -o second.bin --backprop --order 2
code 0
run check second.bin
out_has 'vector@fc.weight'
out_has 'hvp_out@fc.weight'
run compile network.onnx -o other.bin --backprop --order 2 --two-phase
code 2
err_has '--order 2 and --two-phase exclude each other'
run compile network.onnx -o other.bin --two-phase
code 2
err_has '--two-phase has no effect without --backprop'
run compile network.onnx -o other.bin --backprop --vjp f
code 2
err_has '--vjp needs FUNCTION=NAME'
# Inputs of a training program.
run check --backprop network.onnx
code 0
out_has 'gradients    '
out_has 'retained     '
out_has 'flops forward'
out_has 'in training'
run check --loss loss network.onnx
code 2
run check --backprop fwd.bin
code 2
err_has '--backprop needs a model, but this is a program'
finish

# Inputs that have defaults: initializers that are inputs of the model, too (make_defaults.py), y = x * k + b.
. "$(dirname "$0")/expect.sh"

models=$data/defaults

for model in last between; do
    run run "$models/$model.onnx" -i x='1 1' --expect y='12 22'
    code 0
    run run "$models/$model.onnx" -i x='1 1' -i k=5 --expect y='15 25'
    code 0
    run run "$models/$model.onnx" -i x='1 1' -i k=5 -i b='0 0' --expect y='5 5'
    code 0
    for command in bench profile; do
        run $command "$models/$model.onnx" -i k=5 -i x='1 1'
        code 0
    done
    run diff "$models/$model.onnx" "$models/$model.onnx" -i k=5 -i x='1 1'
    code 0
done
run_in run - -i x='1 1' -i k=5 --expect y='15 25' <"$models/last.onnx"
code 0
run run "$models/last.onnx" -i x='1 1' -i n=5
code 2
err_has 'n'

# A program has no default values: inputs with a kept default must be set, and others are constants.
run compile "$models/last.onnx" -o k.bin --keep-input k
code 0
run run k.bin -i x='1 1' -i k=5 --expect y='15 25'
code 0
run run k.bin -i x='1 1'
code 2
err_has '--input k=...'
run compile "$models/last.onnx" -o plain.bin
code 0
run run plain.bin -i x='1 1' --expect y='12 22'
code 0
for given in k=5 b=3; do
    run run plain.bin -i x='1 1' -i $given
    code 2
    err_has "there is no input \"${given%=*}\" (inputs: x). An input of a model that has a default is a constant of the program"
    err_has '--keep-input'
done
# The only input may be given without its name, which a text with a sign of equality is not.
run run plain.bin -i b=3
code 2
err_has 'there is no input "b" (inputs: x)'
# check lists them, also with an element type that is not that of x.
run check "$models/last.onnx"
code 0
out_line 'input        x f32[2]'
out_line 'input        k f32[], with a default; a constant unless --keep-input names it'
out_line 'input        b f32[2], with a default; a constant unless --keep-input names it'
run check "$models/last.onnx" --keep-input k
code 0
out_line 'input        k f32[]'
out_line 'input        b f32[2], with a default; a constant unless --keep-input names it'
run check "$models/ir3.onnx"
code 0
out_lacks 'with a default'
run compile "$models/between.onnx" -o b.bin --keep-input b --keep-input k
code 0
run run b.bin -i x='1 1' -i k=5 -i b='0 0' --expect y='5 5'
code 0
run compile "$models/last.onnx" -o e.onnx --emit onnx --keep-input k
code 0
run run e.onnx -i x='1 1' -i k=5 --expect y='15 25'
code 0
for name in x z; do
    run compile "$models/last.onnx" -o x.bin --keep-input $name
    code 2
    err_has "\"$name\" is not an input with a default (inputs with defaults: \"k\", \"b\")"
    check test ! -e x.bin
done
# Before version 4 of the IR every initializer had to be an input.
run run "$models/ir3.onnx" -i x='1 1' --expect y='12 22'
code 0
run compile "$models/ir3.onnx" -o x.bin --keep-input k
code 2
err_has 'IR version 3, in which initializers are no defaults'

# ---- Test data ----

for name in plain one_more all some; do
    run test "$models/$name"
    code 0
    out_has '1 passed'
done
run test "$models/wrong"
code 1
out_has 'output y'
for name in left_input left_output left_ir3; do
    run test "$models/$name"
    code 1
    out_has 'is left over: the model has '
done
run test "$models/left_input"
out_has 'input_3.pb is left over: the model has 3 inputs'
run test "$models/left_output"
out_has 'output_1.pb is left over: the model has 1 output'
cp -r "$models/plain" npy
: >npy/test_data_set_0/input_0.npy
run test npy
code 1
out_has 'input_0.npy is left over'

# ---- A dimension of -1 is open ----

for count in 2 1; do
    run run "$models/minus_one.onnx" -i "x=${count}xf32=ones"
    code 0
    out 'y=2xf32=12 22'
done
run check "$models/minus_one.onnx"
code 0
out_line 'input        x f32[?]'

finish

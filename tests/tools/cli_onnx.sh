# --emit onnx: written models compute the same results as their sources.
. "$(dirname "$0")/expect.sh"

run compile "$data/cases/add/model.onnx" --emit onnx -o add/model.onnx
code 6
mkdir add sums gradients
run compile "$data/cases/add/model.onnx" --emit onnx -o add/model.onnx
code 0
cp -r "$data"/cases/add/test_data_set_0 add
run test add
code 0
out_line '1 passed, 0 failed, 0 skipped'
# Written again from the written model: the same bytes.
run compile add/model.onnx --emit onnx -o sums/once.onnx
code 0
run compile sums/once.onnx --emit onnx -o sums/again.onnx
code 0
check cmp sums/once.onnx sums/again.onnx

# Gradients, with a named dimension that stays open.
cp "$data/gradients/right/model.onnx" network.onnx
run compile network.onnx --backprop --emit onnx -o gradients/model.onnx
code 0
run check gradients/model.onnx
code 0
out_has 'N'
run run gradients/model.onnx -i '2x3xf32=1 -2 3 -4 5 -6'
code 0
out_line 'loss=f32=38'
out_line 'grad_out@fc.weight=3xf32=2 6 4'
out_line 'grad_out@fc.bias=3xf32=2 3 4'

# Numbers that nodes state stay nodes, also if they are computed: what is trained are the weights. Weights that begin alike stay two.
check /usr/bin/python3 - <<'MODEL'
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

nodes = [helper.make_node("Constant", [], ["half"], value_float=0.5),
         helper.make_node("Constant", [], ["table"], value=numpy_helper.from_array(np.arange(300, dtype="f"))),
         helper.make_node("Add", ["half", "half"], ["one"]),
         helper.make_node("Mul", ["x", "one"], ["scaled"]),
         helper.make_node("Add", ["scaled", "table"], ["moved"]),
         helper.make_node("Mul", ["moved", "first"], ["a"]),
         helper.make_node("Mul", ["moved", "second"], ["b"]),
         helper.make_node("Mul", ["a", "b"], ["product"]),
         helper.make_node("Gelu", ["product"], ["y"])]
weights = [numpy_helper.from_array(np.full(1, 3, dtype="f"), name) for name in ("first", "second")]
value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 300]) for name in "xy"]
graph = helper.make_graph(nodes, "literals", value[:1], value[1:], weights)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8), "literals.onnx")
np.savez("literals.npz", x=np.linspace(-1e-3, 1e-3, 2400, dtype="f").reshape(8, 300), labels=np.ones((8, 300), dtype="f"))
MODEL
run compile literals.onnx --emit onnx -o literals_written.onnx
code 0
run compile literals.onnx --emit onnx --weights-file literals.data -o literals_outside.onnx
code 0
run compile literals_outside.onnx -o literals.bin
code 0
# What trains or quantizes such a model may write into another directory.
mkdir other
run train literals_outside.onnx -d literals.npz --loss mse --optimizer sgd:lr=1e-12 --epochs 1 -o other/trained.onnx
code 0
check /usr/bin/python3 -c 'import onnx
graph = onnx.load("literals_written.onnx").graph
assert sorted(t.name for t in graph.initializer if t.data_type == 1) == ["first", "second"], graph.initializer'
run diff literals.onnx literals_outside.onnx --random --dim n=2
code 0

# Constants in a separate file, which must be in the directory of the model.
run compile "$data/../../../examples/digits/model.onnx" --emit onnx --weights-file gradients/digits.data -o gradients/digits.onnx
code 0
check test "$(wc -c <gradients/digits.data)" -gt 10000
check test "$(wc -c <gradients/digits.onnx)" -lt 10000
run compile gradients/digits.onnx -o digits.bin
code 0
run compile network.onnx --emit onnx --weights-file elsewhere.data -o gradients/other.onnx
code 2
err_has "elsewhere.data: the constants of an ONNX model must be in the directory of the model"
check test ! -e elsewhere.data

# Instructions without an ONNX operator are named, and nothing is written.
run compile network.onnx --train adam --loss loss --emit onnx -o training.onnx
code 4
err_has 'the model cannot be exported as ONNX: '
err_has 'Adam: ONNX has no such operator'
check test ! -e training.onnx
# Options of later passes are refused, not ignored.
for option in '--weights f16' '--weights q4' '--compute bf16' '--activations int8' '--integer never' \
    '--caches f16 --state y:x' '--cache-rows 4 --state y:x'; do
    run compile network.onnx --emit onnx $option -o other.onnx
    code 2
    err_has 'an ONNX model '
    check test ! -e other.onnx
done
run compile network.onnx --emit onnx --kernel-library -o other.onnx
code 2
err_has 'which an ONNX model does not use'
run compile network.onnx --emit onnx --with-main -o other.onnx
code 2
err_has '--with-main has no effect without --emit c'

# Files that belong together take their places together: where the header cannot, the C stays as it was.
echo old >net.c
mkdir net.h
run compile network.onnx --dim N=1 --emit c -o net.c
code 6
check grep -qx old net.c
rmdir net.h
run compile network.onnx --dim N=1 --emit c -o net.c
code 0
check grep -q net_run net.c
check test -z "$(ls | grep -E 'net\.[ch]\.')"

# A training program as C: one step for each entry of its files, states saved and loaded.
if command -v cc >/dev/null; then
    run compile network.onnx --dim N=2 --train sgd --loss loss --emit c --with-main -o step.c
    code 0
    check cc -std=c99 -Wall -Wextra -Wpedantic -Wconversion -Werror step.c -o step -lm
    xxd -r -p >x.bin <<END
0000803f000000c000004040000080c00000a0400000c0c0
END
    cat x.bin x.bin >xs.bin
    printf '\012\327\043\074' >rate.bin
    ./step --save once.bin x.bin rate.bin >first.bin
    ./step --load once.bin --save twice.bin x.bin rate.bin >second.bin
    ./step --save both.bin xs.bin rate.bin >steps.bin
    check cmp twice.bin both.bin
    cat first.bin second.bin >expected.bin
    check cmp expected.bin steps.bin
    run compile network.onnx --dim N=2 --train sgd --loss loss -o step.bin
    run run step.bin -i 'x=2x3xf32=1 -2 3 -4 5 -6' -i learning_rate=0.01 -n 2 -o loss=@loss.bin
    code 0
    check cmp loss.bin <(tail -c 4 second.bin)
    head -c 20 x.bin >short.bin
    check test "$(./step --load short.bin x.bin rate.bin >/dev/null 2>&1; echo $?)" = 1
    check test "$(./step short.bin rate.bin >/dev/null 2>&1; echo $?)" = 1
fi
finish

# xcvm quantize: written models, measurements and refusals.
. "$(dirname "$0")/expect.sh"
digits=$data/../../../examples/digits
model=$digits/model.onnx

# Static, with a table of errors, the picture, and a model that runs.
run quantize "$model" -d "$digits/digits.npz" -i image=images --samples 400 -o digits.q.onnx --picture errors.svg
code 0
out_like '^probabilities +0 \.\. 1 '
out_like '^nodes 10 of 11 quantized'
out_like '^calibrated with 40 batches, measured on 10 others; predicted: '
out_like '^/14/Softmax +Softmax +- +nothing that computes with integers reads it'
check grep -q '</svg>' errors.svg
check test "$(grep -c '<rect class' errors.svg)" = 7
check test "$(stat -c %s digits.q.onnx)" -lt "$(($(stat -c %s "$model") / 2))"
run run digits.q.onnx -i 2x1x8x8xf32=random:3
code 0
run quantize digits.q.onnx -d "$digits/digits.npz" -i image=images -o again.onnx
code 4
err_has 'the model is quantized already'
check test ! -e again.onnx

# Accuracy on digits that were not calibrated with, as programs: within half a point.
accuracy() {
    "$xcvm" run "$1" -i "image=@$digits/digits.npz:images" -o probabilities=@scores.npy || return 1
    /usr/bin/python3 -c "
import numpy
scores, labels = numpy.load('scores.npy'), numpy.load('$digits/digits.npz')['labels']
print((scores[400:].argmax(1) == labels[400:]).mean() * 100)" 2>/dev/null
}
run quantize "$model" -d "$digits/digits.npz" -i image=images --samples 400 -o digits.bin
code 0
run check digits.bin
code 0
if /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
    float=$(accuracy "$model") integers=$(accuracy digits.bin)
    check awk "BEGIN { exit !($float > 50 && $integers > $float - 0.5) }"
fi

# Every method, form and type.
for options in '--method minmax' '--method mse' '--method tail' '--method moving --averaging 0.1' '--method entropy' '--method percentile --percentile 99.9' \
    '--form qoperator' '--activations i8 --symmetric-activations' '--activations u16' '--activations f32' '--weights u8 --asymmetric-weights' \
    '--per-tensor --equalize --correct-bias' '--rounding nearest' '--rounding gptq --weights i4' '--exclude-types Gemm' '--types Conv' '--held-out 0.5'; do
    # shellcheck disable=SC2086
    run quantize "$model" -d "$digits/digits.npz" -i image=images --samples 80 $options -o way.onnx
    code 0
    out_like '^nodes [1-9]'
    run run way.onnx -i 1x1x8x8xf32=random:3
    code 0
done

# Weights in blocks, and ranges in each run.
run quantize "$model" --weights i4 -o blocks.onnx
code 0
out_lacks 'SQNR'
out_like 'Conv +- +weights in blocks need a product of matrices'
run quantize "$model" -o dynamic.onnx
code 0
out_line 'errors are not measured without --data'
run run dynamic.onnx -i 1x1x8x8xf32=random:3
code 0

# A bound keeps nodes in float, and says which.
run quantize "$model" -d "$digits/digits.npz" -i image=images --max-error 0.2 -o bounded.onnx --rows 0
code 0
out_has 'kept in float, as a bound would not hold otherwise'
out_like '^nodes by harm +operator +in floats +harm % +weights alone % +all so far in floats: max error % +mean error % +same greatest %'
out_like '^/[^ ]+ +(Conv|Gemm) +all +[0-9.e-]+ +[0-9.e-]+ '
# Where weights of 8 bits suffice, they stay.
run quantize "$model" -d "$digits/digits.npz" -i 'image=images*1/16' --max-mean-error 0.00001 -o bounded.onnx
code 0
out_like '^nodes [0-9]+ of 11 quantized, [1-9] of these by their weights alone, [0-9]+ kept in float for the bounds'
out_line 'those by their weights alone compute in floats, with weights of 8 bits'
out_like '^/[^ ]+ +(Conv|Gemm) +activations +[0-9.e-]+ +[0-9.e-]+ '
out_has 'ranges by --method minmax, because a bound of the error did not hold with mse'
check test "$(stat -c %s bounded.onnx)" -lt "$(($(stat -c %s "$model") / 2))"
run run bounded.onnx -i 2x1x8x8xf32=random:3
code 0
run quantize "$model" -d "$digits/digits.npz" -i image=images --samples 80 --max-error 1e-12 -o impossible.onnx
code 2
check grep -qE "no node can be quantized within a greatest error of 1e-12: with '/[^']*/Conv' \(Conv\) alone, .* differs by [0-9.]+e-1[0-9] of its range" "$work/.err"
check test ! -e impossible.onnx
run quantize "$model" -d "$digits/digits.npz" -i image=images --held-out 0.5 --min-agreement probabilities=0.98 -o agreeing.onnx
code 0
out_like 'quantized, .*[0-9]+ kept in float for the bounds'
check awk '/^probabilities / { exit !($NF >= 98 && $(NF - 1) >= $NF) }' "$work/.out"

# All nodes are judged, and none is kept without a bound.
run quantize "$model" -d "$digits/digits.npz" -i 'image=images*1/16' --samples 100 --sensitivity -o judged.onnx
code 0
out_like '^/[^ ]+ +(Conv|Gemm) +[0-9.e-]+ +[0-9.e-]+ +[0-9.e-]+ +[0-9.e-]+ +[0-9.]+$'
check test "$(grep -cE '^/[^ ]+ +(Conv|Gemm) +[0-9.e-]+ ' "$work/.out")" = 4
run quantize "$model" --sensitivity -o judged.onnx
code 2
err_has 'without --data nothing is measured'

# Training with rounding in the model: it learns from where it was, and its weights stay floats between pairs.
figure() { sed -n "s/^$1 //p" "$work/.out"; }
learn() {
    run train "$model" -d "$digits/digits.npz" -i image=images -l label=labels --loss softmax_cross_entropy --optimizer adam:lr=1e-4 -b 64 "$@"
    code 0
}
learn --quantize --epochs 1 --no-shuffle --dry-run
first=$(figure loss)
learn --quantize --epochs 3 -o learned.onnx
check awk "BEGIN { exit !($(figure loss) < $first) }"
check awk "BEGIN { exit !($(figure accuracy) > 0.9) }"
run run learned.onnx -i 1x1x8x8xf32=random:3
code 0
check grep -q QuantizeLinear learned.onnx
learn --quantize --epochs 1 -o learned.bin
run run learned.bin -i 1x1x8x8xf32=random:3
code 0
run train "$model" -d "$digits/digits.npz" -i image=images -l label=labels --loss softmax_cross_entropy --quantize --init he --dry-run
code 2
err_has '--quantize takes its ranges from a trained model'

# Invalid requests.
refuse() {
    expected=$1 message=$2
    shift 2
    run quantize "$@"
    code "$expected"
    err_has "$message"
    check test ! -e refused.onnx
}
set -- -i image=images -o refused.onnx
refuse 2 '-o is needed' "$model"
refuse 2 'without --data nothing is measured' "$model" -o refused.onnx --max-error 0.1
refuse 2 'wanted NAME=ARRAY' "$model" -d "$digits/digits.npz" -i image -o refused.onnx
refuse 2 'image' "$model" -d "$digits/digits.npz" -o refused.onnx
refuse 6 'nothing.npz' "$model" -d nothing.npz "$@"
refuse 2 'no node called "frob"' "$model" -d "$digits/digits.npz" "$@" --exclude-nodes frob
refuse 2 'no node of type "Frob"' "$model" -d "$digits/digits.npz" "$@" --types Frob
refuse 2 'a power of two' "$model" "$@" --weights i4 --block 24
refuse 2 'with --weights i4 activations stay f32: --activations u16 needs weights of 8 bits' "$model" "$@" --weights i4 --activations u16
refuse 2 'above 0' "$model" -d "$digits/digits.npz" "$@" --max-error 0
refuse 2 'Two percent is 0.02' "$model" -d "$digits/digits.npz" "$@" --max-error 2
refuse 2 '--max-mean-error=2%: a share is needed' "$model" -d "$digits/digits.npz" "$@" --max-mean-error 2%
refuse 2 '--held-out=34: a share is needed' "$model" -d "$digits/digits.npz" "$@" --held-out 34
refuse 2 'expected a number from 50 to 100' "$model" -d "$digits/digits.npz" "$@" --method percentile --percentile 0.999
refuse 2 'without --data nothing is measured' "$model" -o refused.onnx --min-agreement 0.9
refuse 2 'above 0' "$model" -d "$digits/digits.npz" "$@" --min-agreement 0
refuse 2 'above 0' "$model" -d "$digits/digits.npz" "$@" --min-agreement probabilities=much
refuse 2 'at most 1' "$model" -d "$digits/digits.npz" "$@" --min-agreement 1.5
refuse 2 'no output "frob"' "$model" -d "$digits/digits.npz" "$@" --samples 80 --min-agreement frob=0.9
refuse 6 'cannot be written' "$model" -d "$digits/digits.npz" -i image=images -o no/where/refused.onnx
refuse 6 'cannot be written' "$model" -d "$digits/digits.npz" -i image=images -o refused.onnx --picture no/where.svg
refuse 5 '' "$model" -d "$digits/digits.npz" "$@" --max-memory 100K
refuse 5 '' "$model" -d "$digits/digits.npz" "$@" --timeout 0.000001
refuse 3 '' "$data/broken/cycle.onnx" "$@"

# Data that is wrong: of another shape, empty, infinite.
# array FILE DIMS LITERAL: an archive with an array image.
array() {
    printf 'xcvm 1\ninput x f32[%s]\noutput y f32[%s]\n$1 = In(name="x")\nOut($1, name="y")\n' "$2" "$2" | assemble array.bin
    run run array.bin -i "x=$3" -o "y=@$1:image"
    code 0
}
array wrong.npz 4x1x7x7 4x1x7x7xf32=random:1
refuse 3 '"image" wants' "$model" -d wrong.npz -o refused.onnx
array empty.npz 0x1x8x8 0x1x8x8xf32=
refuse 2 'empty' "$model" -d empty.npz -o refused.onnx
array zero.npz 4x1x8x8 4x1x8x8xf32=zeros
run quantize "$model" -d zero.npz -o zero.onnx
code 0
run run zero.onnx -i 1x1x8x8xf32=zeros
code 0
array infinite.npz 1x1x8x8 "1x1x8x8xf32=$(printf 'inf %.0s' $(seq 64))"
refuse 2 'has an infinity in batch 0' "$model" -d infinite.npz -o refused.onnx
# Weights in the branches of If and in the body of Loop become integers, and the table lists nodes that stay float.
if /usr/bin/python3 -c 'import onnx, numpy' 2>/dev/null; then
    /usr/bin/python3 - <<'MODEL'
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(5)
value = lambda name, shape=None: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
weight = lambda name: numpy_helper.from_array((rng.normal(size=(64, 64)) / 8).astype(np.float32), name)
step = helper.make_graph([helper.make_node("MatMul", ["s", "w"], ["s2"], name="within"), helper.make_node("Identity", ["go"], ["go2"])], "step",
                         [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []), value("s")],
                         [helper.make_tensor_value_info("go2", TensorProto.BOOL, []), value("s2")], [weight("w")])
then = helper.make_graph([helper.make_node("Loop", ["two", "", "x"], ["a"], name="loop", body=step)], "then", [], [value("a")])
other = helper.make_graph([helper.make_node("MatMul", ["x", "v"], ["b"], name="second"), helper.make_node("MatMul", ["b", "x2"], ["c"], name="computed")],
                          "else", [], [value("c")], [weight("v")])
nodes = [helper.make_node("Transpose", ["x"], ["x2"]), helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
         helper.make_node("Greater", ["sum", "zero"], ["positive"]),
         helper.make_node("If", ["positive"], ["y"], name="choice", then_branch=then, else_branch=other)]
graph = helper.make_graph(nodes, "g", [value("x", [1, 64])], [value("y", None)],
                          [numpy_helper.from_array(np.float32(0), "zero"), numpy_helper.from_array(np.int64(2), "two")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), "bodies.onnx")
x = rng.normal(size=(20, 64)).astype(np.float32)
np.savez("bodies.npz", x=x)
x = np.abs(x[:1])
np.save("bodies_x.npy", x)
np.save("bodies_y.npy", x @ numpy_helper.to_array(step.initializer[0]) @ numpy_helper.to_array(step.initializer[0]))
MODEL
    for options in '' '-d bodies.npz'; do
        # shellcheck disable=SC2086
        run quantize bodies.onnx $options -o bodies.q.onnx --rows 0
        code 0
        out_like '^computed +MatMul +- +its weights are not f32 constants'
        out_lacks '^second '
        out_lacks '^within '
        check test "$(stat -c %s bodies.q.onnx)" -lt 12000
        run run bodies.q.onnx -i x=@bodies_x.npy -o y=@bodies_q.npy
        code 0
        check /usr/bin/python3 -c "
import numpy as np
right, given = np.load('bodies_y.npy'), np.load('bodies_q.npy')
error = np.abs(right - given).max() / np.ptp(right)
raise SystemExit(not 0 < error < 0.02)"
    done
    run quantize bodies.onnx -d bodies.npz --exclude-nodes within -o bodies.q.onnx --rows 0
    code 0
    out_like '^within +MatMul +- +excluded by its name'
    run quantize bodies.onnx -d bodies.npz --exclude-nodes within --exclude-nodes second -o none.onnx
    code 2
    err_has 'no node can be quantized'
    check test ! -e none.onnx
fi
# Weights that nodes Constant give are not written twice.
if /usr/bin/python3 -c 'import onnx, numpy' 2>/dev/null; then
    /usr/bin/python3 - <<'MODEL'
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

w = np.random.default_rng(5).normal(size=(64, 64)).astype(np.float32)
value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64])
graph = helper.make_graph([helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(w)),
                           helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [value("x")], [value("y")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), "stated.onnx")
MODEL
    for options in '' '--activations f32'; do
        # shellcheck disable=SC2086
        run quantize stated.onnx $options -o stated.q.onnx
        code 0
        check test "$(stat -c %s stated.q.onnx)" -lt 6000
    done
fi
finish

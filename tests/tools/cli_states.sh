# States: compile --state, run --state and --save-state.
. "$(dirname "$0")/expect.sh"

cat > count.xcvm <<'END'
xcvm 1
input x f32[2]
output y f32[2]
state total f32[2] = @start
state runs i64[]
constant start f32[2] = 10 20
$1 = In(name="x")
$2 = Load(name="total")
$3 = Add($1, $2)
Store($3, name="total")
Out($3, name="y")
$4 = Load(name="runs")
$5 = Add($4, i64[] 1)
Store($5, name="runs")
END
run run count.xcvm -i '2xf32=1 2' -n 3 --save-state three.safetensors
code 0
out_line 'y=2xf32=13 26'
run run count.xcvm -i '2xf32=1 2' --state three.safetensors --save-state four.safetensors
code 0
out_line 'y=2xf32=14 28'
check grep -q '"runs":{"dtype":"I64","shape":\[\],"data_offsets":\[8,16\]}' four.safetensors
# As a program file, and as text.
run asm count.xcvm -o count.bin
code 0
run dump count.bin -o again.xcvm
code 0
check grep -qx 'state total f32\[2\] = @start' again.xcvm
check grep -qx 'state runs i64\[\]' again.xcvm
run run count.bin -i '2xf32=1 2' --state four.safetensors
out_line 'y=2xf32=15 30'

# A failure leaves no file, and changes no existing one.
run run count.xcvm -i '2xf32=1 2' --fuel 3 --save-state none.safetensors
code 5
check test ! -e none.safetensors
run run count.xcvm -i '2xf32=1 2' --state none.safetensors
code 6
err_has 'none.safetensors'
head -c 50 four.safetensors > cut.safetensors
run run count.xcvm -i '2xf32=1 2' --state cut.safetensors
code 2
err_has 'cut.safetensors: these are no states that --save-state or xcvm_session_save_states wrote: '
printf 'xcvm 1\nstate other f32[2]\n' > other.xcvm
run run other.xcvm --save-state other.safetensors
code 0
run run count.xcvm -i '2xf32=1 2' --state other.safetensors
code 2
err_has "state \"total\" is not among the file's 1 tensors"
printf 'xcvm 1\nstate total f64[2]\nstate runs i64\n' > wrong.xcvm
run run wrong.xcvm --save-state wrong.safetensors
run run count.xcvm -i '2xf32=1 2' --state wrong.safetensors
err_has 'state "total" is f32[2], but'

cp "$data/cases/add/model.onnx" add.onnx
run compile add.onnx -o add.bin --state y:x --dim N=2
code 0
run dump add.bin
out_has 'Store('
run check add.bin
code 0
out_has 'state'
run run add.bin --help
code 0
out_has 'state  x  f32[2x3]'
out_has '--reset-states-every'
# A dimension that no input has: where it would begin is not known.
run compile add.onnx -o no.bin --state y:x
code 2
err_has 'state "x": dimension 0, "N", is open, and no input has it'
err_has 'Fix it: --dim N=1'
check test ! -e no.bin
run compile add.onnx -o no.bin --state y:nobody
code 2
err_has 'there is no input "nobody" to keep as a state'
check test ! -e no.bin
run compile add.onnx -o no.bin --state y
code 2
err_has '--state needs OUTPUT:INPUT, the names of an output and of an input'
run compile add.onnx -o no.bin --state y:x --state y:x
code 2

# The report describes states, and options without effect.
run compile add.onnx -o add.bin --state y:x --dim N=2 --cache-rows 8 --report
code 0
out_line 'state x is written in full in each run: the run computes all of it'
run compile add.onnx -o no.bin --cache-rows 8
code 2
err_has '--cache-rows has no effect without states. Add --state-pairs auto'
run compile add.onnx -o no.bin --caches f16
code 2
err_has '--caches has no effect without states. Add --state-pairs auto'
run compile add.onnx --report --weights q8 --activations int8 --integer always --tune
code 0
out_line 'products with matrices in blocks: 0'
out_line 'forms of convolutions that were measured: 0'
out_line 'convolutions and products with quantized weights: 0 in integers, 0 in floats'
run compile add.onnx --report --compute bf16
code 0
out_line 'products, convolutions, attentions and recurrences: 0 in bf16, 0 in f32'

# A cache of four rows: measurements continue from an empty one, and the report mentions it.
cat > cache.xcvm <<'END'
xcvm 1
input x f32[1x1x1x2]
output y f32[1x1x1x2]
state cache f32[1x1x4x2]
state rows i64[1]
$1 = In(name="x")
$2 = Load(name="rows")
$3 = Add($2, i64[1] 1)
Store($3, name="rows")
$4 = Neg($1)
Out($4, name="y")
$5 = Load(name="cache")
CacheAppend($1, $2, $5)
END
run run cache.xcvm --random -n 4
code 0
run run cache.xcvm --random -n 5
code 3
err_has 'note: a cache is full. Reset the states (--reset-states-every N), or compile the model with a larger --cache-rows'
run run cache.xcvm --random -n 11 --reset-states-every 4 --save-state rows.safetensors
code 0
run run cache.xcvm --random --state rows.safetensors
code 0
run run cache.xcvm --random -n 2 --state rows.safetensors
code 3
run bench cache.xcvm -n 20
code 0
err_has 'note: the states were reset'
err_has 'every 4 runs'
run bench cache.xcvm -n 20 --reset-states-every 3
code 0
err ''
run profile cache.xcvm -n 10
code 0
err_has 'every 4 runs'
out_has 'CacheAppend'
run profile cache.xcvm -n 3 -w 0 -o trace.json
code 0
err ''
# Inputs that never fit are an error. The reset is not repeated.
printf 'xcvm 1\nstate cache f32[1x1x1x1]\n$1 = Load(name="cache")\nCacheAppend(f32[1x1x2x1] 1 2, i64[1] 0, $1)\n' > small.xcvm
run bench small.xcvm
check test "$status" != 0

# Pairs by patterns, with the messages about other outputs.
model=$data/../../../examples/generate/model.onnx
run compile "$model" -o auto.bin --state-pairs auto --dim batch=1 --dim bound=16
code 0
err_has '"auto" found 4 states, the first one is present.0.key:past.0.key'
run check auto.bin
out_line 'state   past.0.key    f32[1x2x16x16]'
run compile "$model" -o pattern.bin --state-pairs 'present.0.*:past.0.*,present.1.*:past.1.*' --dim batch=1 --dim bound=16
code 0
err ''
check cmp auto.bin pattern.bin
run compile "$model" -o half.bin --state-pairs 'present.*.key:past.*.key' --state present.0.value:past.0.value --dim batch=1 --dim bound=16 --report
code 0
out_has 'state past.1.key is a cache of 16 rows'
run compile "$model" -o no.bin --state-pairs 'prsent.*:past.*'
code 2
err_has 'no output and input match it (outputs: logits, present.0.key, present.0.value, present.1.key, present.1.value; inputs: '
run compile "$model" -o no.bin --state-pairs 'present.*'
code 2
err_has 'a pattern is OUTPUT:INPUT'
for rows in '' '--cache-rows=16'; do
    # shellcheck disable=SC2086
    run compile "$model" -o noted.bin --state-pairs auto --dim batch=1 $rows
    code 0
    err_has 'state "past.0.key" is copied in each run, because its number of rows is open. Fix it: --dim bound=N'
done
run compile "$model" -o noted.bin --state-pairs auto --cache-rows 16
code 0
err_has 'state "past.0.key" has an open batch, so that it grows and is copied in each run'
err_has '--dim batch=1'
# With open sizes the caches grow, and the batch is that of the first run.
run compile "$model" -o open.bin --state-pairs auto
code 0
run run open.bin -i tokens='2x1xi64=1 2' -i last='2xi32=0 0' -i total='i32=1' --save-state open.safetensors
code 0
check grep -q '"past.0.key":{"dtype":"F32","shape":\[2,2,1,16\]' open.safetensors
run run open.bin -i tokens='1x1xi64=1' -i last='1xi32=1' -i total='i32=2' --state open.safetensors
code 3
err_has 'dimension batch is 2 in state "past.0.key" (axis 0), but 1 in input "tokens" (axis 0). Reset the states'
run bench auto.bin -i tokens='1x1xi64=1' -i last='1xi32=0' -i total='i32=1' -n 5
code 0

# ---- Options that have no effect ----

states=$data/states
attention=$states/attention.onnx
token() { echo "x=1x2x1x4xf32=$1"; }
run compile "$attention" -o a.bin --state-pairs auto --dim batch=1 --cache-rows 0
code 2
err_has '--cache-rows needs a whole number from 1 to 2147483647 (given: "0")'
check test ! -e a.bin
run compile "$attention" -o a.bin --state-pairs auto --dim batch=1
code 0
err_has 'state "past_key_values.0.key" grows and is copied in each run. Reserve room: --cache-rows N'
run compile "$attention" -o a.bin --state-pairs auto --cache-rows 8
code 0
err_has 'has an open batch, so that it grows and is copied in each run, and its number of rows has no effect. Fix the batch: --dim batch=1'
run compile "$attention" -o a.bin --state-pairs 'present.*:past_key_values.*' --dim batch=1 --cache-rows 8
code 0
err ''
# Attention that is written out reads caches of f32 only.
for type in f16 bf16; do
    run compile "$attention" -o a.bin --state-pairs auto --dim batch=1 --cache-rows 8 --caches $type --report
    code 0
    err_has "--caches $type has no effect: state \"past_key_values.0.key\" is read by matrix products, which take f32 only. Export the model with the operator Attention or GroupQueryAttention"
    out_has 'is a cache of 8 rows of f32, appended in place; it stays f32, because it is read by matrix products'
    run compile "$attention" -o a.bin --state-pairs auto --dim batch=1 --caches $type
    code 0
    err_has "--caches $type has no effect: state \"past_key_values.0.key\" is copied in each run. Reserve room: --cache-rows N"
done
# A recurrent state is no cache.
run compile "$states/lstm.onnx" -o l.bin --state-pairs auto --cache-rows 8
code 0
err_has 'the number of cache rows (8) has no effect: no state is a cache to which the graph only appends rows'
run compile "$states/lstm.onnx" -o l.bin --state-pairs auto --caches f16
code 0
err_has '--caches f16 has no effect: state "h0" is not a cache to which rows are appended. Omit --caches'
# A recurrence in a branch has the same size in each run: that of an input with its name, or one that --dim sets. A
# dimension without a name is that of its input and axis.
wanted="y=2x1x4xf32=$(cat "$states/branches.txt")"
run compile "$states/branches_reshaped.onnx" -o b.bin --state-pairs auto
code 2
err_has 'state "state": dimension 1 is open, and no input has it'
err_has 'Fix it: --dim state.1=1'
run compile "$states/branches_reshaped.onnx" -o b.bin --state-pairs auto --dim state.2=1
code 2
err_has "the model's inputs have no dimension named state.2"
run compile "$states/branches_reshaped.onnx" -o b.bin --state-pairs auto --dim state.1=1
code 0
run run b.bin -i x=1x1x3xf32=1 -i fast=false -i shape='1 1 3' -n 2 --expect "$wanted"
code 0
for each in branches branches_named; do
    run compile "$states/$each.onnx" -o b.bin --state-pairs auto
    code 0
    run run b.bin -i x=1x1x3xf32=1 -i fast=false -n 2 --expect "$wanted"
    code 0
    run run b.bin -i x=1x5x3xf32=1 -i fast=false -n 2 --save-state five.safetensors
    code 0
    check grep -q '"state":{"dtype":"F32","shape":\[2,5,4\]' five.safetensors
done
# --dim sets such a dimension of a program, too.
run run "$states/branches.onnx" --random --dim x.1=2 --dim state.1=2
code 0
err_has 'note: dimension length of input x is set to 1. To choose another size: --dim length=SIZE'
out_like '^stateN=2x2x4xf32='
run compile "$states/branches.onnx" -o open.bin
code 0
run run open.bin --random --dim x.1=2 --dim state.1=2
code 0
out_like '^stateN=2x2x4xf32='
run run open.bin --random --dim state.1=1 --dim length=2
code 0
err_has 'note: dimension x.1 of input x is set to 1. To choose another size: --dim x.1=SIZE'
run run open.bin --random --dim x.0=2
code 2
err_has 'no input of the program has an open dimension "x.0". Open dimensions: length, x.1, state.1'
# Options that have an effect print nothing.
run compile "$model" -o half.bin --state-pairs 'present.*:past.*' --dim batch=1 --dim bound=16 --caches f16 --report
code 0
err ''
out_has 'state past.0.key is a cache of 16 rows of f16, appended in place'

# ---- States of a model that is compiled in memory ----

for pairs in auto 'present.*:past_key_values.*'; do
    run run "$attention" --state-pairs "$pairs" --dim batch=1 --cache-rows 8 -i "$(token 1)" --save-state one.safetensors
    code 0
    run compile "$attention" -o a.bin --state-pairs "$pairs" --dim batch=1 --cache-rows 8
    # Three tokens, one in each run, whose attention NumPy has computed.
    run run a.bin -i "$(token 1)" --save-state 1.safetensors
    run run a.bin -i "$(token 2)" --state 1.safetensors --save-state 2.safetensors
    run run a.bin -i "$(token 3)" --state 2.safetensors --expect y="1x2x1x4xf32=$(cat "$states/expected.txt")"
    code 0
    for command in bench profile; do
        run $command "$attention" --state-pairs "$pairs" --dim batch=1 --dim rows=1 --cache-rows 8 -n 10
        code 0
        err_has 'note: the states were reset'
    done
    run check "$attention" --state-pairs "$pairs" --dim batch=1 --cache-rows 8
    code 0
    out_has 'state past_key_values.0.key is a cache of 8 rows of f32'
    run dump "$attention" --state-pairs "$pairs" --dim batch=1 --cache-rows 8
    code 0
    out_has 'state past_key_values.0.key f32[1x2x8x4]'
done
run run "$states/lstm.onnx" --state-pairs auto --random --dim length=1 -n 3
code 0
run run "$attention" --state-pairs 'present.*:past.*' --random
code 2
err_has 'no output and input match it (outputs: y, present.0.key, present.0.value; inputs: x, past_key_values.0.key, past_key_values.0.value). Use auto, or name each pair as OUTPUT:INPUT'
for command in run bench profile check; do
    run $command "$attention" --cache-rows 8
    code 2
    err_has '--cache-rows has no effect without states. Add --state-pairs auto'
done
run run a.bin --state-pairs auto -i "$(token 1)"
code 0
err_has 'a.bin: the program is compiled already, so that options for models have no effect (--state-pairs)'

# A hint on random integers only where there are some.
run bench "$model" --state-pairs auto --dim batch=1 --dim bound=4 -i tokens='1x8xi64=1' -i last='1xi32=7' -i total='i32=8'
check test "$status" != 0
check sh -c '! grep -q "random integers" .err'
run bench "$model" --state-pairs auto --dim batch=1 --dim bound=16 -i last='1xi32=0' -i total='i32=1'
check test "$status" != 0
err_has 'random integers are from 0 to 7999'

finish

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
# As a program file, and as text again.
run asm count.xcvm -o count.bin
code 0
run dump count.bin -o again.xcvm
code 0
check grep -qx 'state total f32\[2\] = @start' again.xcvm
check grep -qx 'state runs i64\[\]' again.xcvm
run run count.bin -i '2xf32=1 2' --state four.safetensors
out_line 'y=2xf32=15 30'

# What fails leaves no file, and no file is broken.
run run count.xcvm -i '2xf32=1 2' --fuel 3 --save-state none.safetensors
code 5
check test ! -e none.safetensors
run run count.xcvm -i '2xf32=1 2' --state none.safetensors
code 6
err_has 'none.safetensors'
head -c 50 four.safetensors > cut.safetensors
run run count.xcvm -i '2xf32=1 2' --state cut.safetensors
code 2
err_has 'cut.safetensors: '
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
err_has '--state wants the names of an output and an input with a colon between them'
run compile add.onnx -o no.bin --state y:x --state y:x
code 2

# What became of states, and what was asked for and found nothing to do, is told.
run compile add.onnx -o add.bin --state y:x --dim N=2 --cache-rows 8 --report
code 0
out_line 'state x is written whole in each run: it is not itself with rows in the place of others'
run compile add.onnx -o no.bin --cache-rows 8
code 2
err_has '--cache-rows is for states, which --state or --state-pairs asks for'
run compile add.onnx -o no.bin --caches f16
code 2
err_has '--caches is for states, which --state or --state-pairs asks for'
run compile add.onnx --report --weights q8 --activations int8 --integer always --tune
code 0
out_line 'products with matrices in blocks: 0'
out_line 'forms of convolutions that were measured: 0'
out_line 'convolutions and products with quantized weights: 0 in integers, 0 in floats'
run compile add.onnx --report --compute bf16
code 0
out_line 'products, convolutions, attentions and recurrences: 0 in bf16, 0 in f32'

# A cache of four rows: measurements go on from an empty one, and say so.
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
# What does not fit at all is an error, and no reset is tried again and again.
printf 'xcvm 1\nstate cache f32[1x1x1x1]\n$1 = Load(name="cache")\nCacheAppend(f32[1x1x2x1] 1 2, i64[1] 0, $1)\n' > small.xcvm
run bench small.xcvm
check test "$status" != 0

# Pairs by patterns, with what is said of the others.
model=$data/../../../examples/generate/model.onnx
run compile "$model" -o auto.bin --state-pairs auto --dim batch=1 --dim bound=16
code 0
err_has 'note: 4 states by "auto", as present.0.key:past.0.key'
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
err_has 'no output and input fit it (outputs: logits, present.0.key, present.0.value, present.1.key, present.1.value; inputs: '
run compile "$model" -o no.bin --state-pairs 'present.*'
code 2
err_has 'a pattern is OUTPUT:INPUT'
run compile "$model" -o noted.bin --state-pairs auto --cache-rows 16
code 0
err_has 'note: state "past.0.key" has an open batch, so that it grows and is copied in each run'
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
finish

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
run compile add.onnx -o add.bin --state y:x
code 0
run dump add.bin
out_has 'Store('
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
run compile add.onnx -o add.bin --state y:x --cache-rows 8 --report
code 0
out_line 'state x is written whole in each run: it is not itself with rows in the place of others'
run compile add.onnx -o no.bin --cache-rows 8
code 2
err_has '--cache-rows is for states, which --state asks for'
run compile add.onnx -o no.bin --caches f16
code 2
err_has '--caches is for states, which --state asks for'
run compile add.onnx --report --weights q8 --activations int8 --integer always --tune
code 0
out_line 'products with matrices in blocks: 0'
out_line 'forms of convolutions that were measured: 0'
out_line 'convolutions and products with quantised weights: 0 in integers, 0 in floats'
run compile add.onnx --report --compute bf16
code 0
out_line 'products, convolutions, attentions and recurrences: 0 in bf16, 0 in f32'
finish

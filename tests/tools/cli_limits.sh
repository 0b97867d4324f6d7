#!/bin/bash
# Compiling within --max-memory and --timeout-ms: by itself, and where a subcommand is given a model.
. "$(dirname "$0")/expect.sh"

chain 30000 >large.onnx
chain 10 >small.onnx

run compile small.onnx -o small.bin --max-memory 64M --timeout-ms 60000
code 0
run run small.onnx -i '1 2 3 4' --max-memory 64M --timeout-ms 60000
code 0

# The existing file stays, and there is no temporary file.
cp small.bin kept.bin
run compile large.onnx -o kept.bin --max-memory 1M
code 5
err_has 'large.onnx: compiling: '
err_has 'the memory limit of 1048576'
run compile large.onnx -o kept.bin --timeout-ms 2
code 5
err_has 'large.onnx: the compilation exceeds its time limit of 2 ms'
run compile large.onnx -o never.bin --timeout-ms 2
code 5
run compile - -o never.bin --max-memory 1M
code 3
check cmp small.bin kept.bin
check test "$(echo *)" = 'kept.bin large.onnx small.bin small.onnx'

# Every subcommand that reads a model.
mkdir -p case/test_data_set_0
cp large.onnx case/model.onnx
for command in 'run large.onnx --random' 'bench large.onnx --random' 'profile large.onnx --random' 'check large.onnx' \
    'dump large.onnx' 'diff large.onnx small.bin --random'; do
    run $command --max-memory 1M
    code 5
    err_has 'the memory limit of 1048576'
    run $command --timeout-ms 2
    code 5
    err_has 'the compilation exceeds its time limit of 2 ms'
done
run test case --max-memory 1M
code 1
out_has 'the memory limit of 1048576'
run test case --timeout-ms 2
code 1
out_has 'the compilation exceeds its time limit of 2 ms'

# A C compiler that takes too long is killed, with its children.
printf '#!/bin/sh\necho $$ >cc.pid\nsleep 600\n' >slow_cc
chmod +x slow_cc
# On a machine that is busy with others, the time may be up before it has begun.
for limit in 500 4000 32000; do
    run compile small.onnx -o never.bin --kernel-library --cc "$PWD/slow_cc" --timeout-ms $limit
    code 5
    err_has "the compilation exceeds its time limit of $limit ms"
    [ ! -s cc.pid ] || break
done
check test -s cc.pid
check test ! -e "/proc/$(cat cc.pid)"
check test ! -e never.bin
check test ! -e never.so

# If a limit suffices for the emitted program but not for intermediate results, the error names the compilation.
run check large.onnx --max-memory 20M
code 5
err_has 'the memory limit of 20971520'

# Inputs count before they are created, whatever creates them, and together.
assemble eight.bin <<'END'
xcvm 1
input x f32[2000000000]
output y i64[1]
$1 = In(name="x")
$2 = Shape($1)
Out($2, name="y")
END
for command in 'run eight.bin --random' 'bench eight.bin' 'profile eight.bin' 'diff eight.bin eight.bin --random' \
    'run eight.bin -i zeros' 'run eight.bin -i ones' 'run eight.bin -i 1' 'run eight.bin -i 2000000000xu8=random'; do
    run $command --max-memory 64M
    code 5
    err_has 'input x: it takes '
    err_has 'bytes, and the memory limit of 67108864 leaves 67108864 beside the others'
done
assemble two.bin <<'END'
xcvm 1
input a f32[N]
input b str[2000]
output y i64[1]
$1 = In(name="a")
$2 = In(name="b")
$3 = Shape($1)
Out($3, name="y")
END
run run two.bin --random --dim N=2000 --max-memory 200K
code 0
run run two.bin --random --dim N=40000 --max-memory 200K
code 5
err_has 'input b: it takes 80000 bytes, and the memory limit of 204800 leaves 4'
# The session gets the rest of the limit. If the rest is too small for the plan or for a run, the error states the bytes
# in use.
run compile "$data/../../../examples/digits/model.onnx" -o digits.bin
code 0
assemble negate.bin <<'END'
xcvm 1
input x f32[1000]
output y f32[1000]
$1 = In(name="x")
$2 = Neg($1)
Out($2, name="y")
END
for command in 'run digits.bin --random' 'profile digits.bin'; do
    run $command --max-memory 4K
    code 5
    err_has 'note: the inputs need 512 of the 4096 bytes of --max-memory'
done
for command in 'run negate.bin --random' 'bench negate.bin'; do
    run $command --max-memory 6K
    code 5
    err_has 'of the 6144 bytes of --max-memory'
done
# The unpacked size of a file counts.
if command -v python3 >/dev/null; then
    python3 - <<'END'
import struct, zipfile
header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (50000000,), }"
header += b' ' * (117 - len(header)) + b'\n'
with zipfile.ZipFile('bomb.npz', 'w', zipfile.ZIP_DEFLATED) as archive:
    archive.writestr('a.npy', b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + header + bytes(50000000))
END
    run run two.bin -i a=@bomb.npz -i b='"x"' --timeout-ms 1
    code 5
    err_has 'input a: bomb.npz: ' # as it is read, or unpacked, whichever the processor is slow enough for
    run run two.bin -i a=@bomb.npz -i b='"x"' --max-memory 1M
    code 5
    err_has 'input a: it takes 50000'
    err_has 'the memory limit of 1048576'
fi

# Data sets of training and quantization count as well: the unpacked size of their arrays, and their images.
digits=$data/../../../examples/digits
learn=(train "$digits/untrained.onnx" -i image=images -l label=labels --loss softmax_cross_entropy --steps 1 --dry-run)
quantize=(quantize "$digits/model.onnx" -i image=images -o never.onnx)
if command -v python3 >/dev/null; then
    python3 - <<'END'
import struct, zipfile
def array(archive, name, kind, shape, size):
    header = ("{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (kind, shape)).encode()
    header += b' ' * (117 - len(header)) + b'\n'
    archive.writestr(name + '.npy', b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + header + bytes(size))
with zipfile.ZipFile('digits.npz', 'w', zipfile.ZIP_DEFLATED) as archive:
    array(archive, 'images', '<f4', (200000, 1, 8, 8), 200000 * 256)
    array(archive, 'labels', '<i8', (200000,), 200000 * 8)
END
    run "${learn[@]}" -d digits.npz --max-memory 20M
    code 5
    err_has 'digits.npz: array "images": no memory for the 51200128 bytes of a member; the data may take 20971520 bytes'
    run "${learn[@]}" -d digits.npz --max-memory 200M
    code 0
    run "${quantize[@]}" -d digits.npz --samples 16 --max-memory 20M
    code 5
    err_has '--data: it takes 51200128 bytes, and the memory limit of 20971520 leaves 2'
    check test ! -e never.onnx
    run "${quantize[@]}" -d digits.npz --samples 16 --timeout 0.01
    code 5
    err_has 'exceeds its time limit of 10 ms'
    check test ! -e never.onnx
    run "${learn[@]}" -d digits.npz --quantize --max-memory 20M
    code 5
    err_has 'the memory limit of 20971520'
fi
assemble picture.bin <<'END'
xcvm 1
input x u8[3000x3000]
output y u8[3000x3000]
$1 = In(name="x")
Out($1, name="y")
END
mkdir -p photos/one photos/two
run run picture.bin -i zeros -o @photos/one/1.png
code 0
cp photos/one/1.png photos/two
run "${learn[@]}" -d photos --max-memory 8M
code 5
err_has 'photos/one/1.png: '
err_has 'would go past the memory limit of 8388608'
run "${quantize[@]}" -d photos --max-memory 8M
code 5
err_has '/1.png: '
err_has 'would go past the memory limit of 8388608'
check test ! -e never.onnx
run "${quantize[@]}" -d photos --max-memory 200M
code 0
run check never.onnx
code 0
out_has 'QuantizeLinear'

# So do those of test cases, and lists of many items, whose time is not proportional to their bytes.
assemble list.bin <<'END'
xcvm 1
input x seq(f32)
output y i64[]
$1 = In(name="x")
$2 = SequenceLength($1)
Out($2, name="y")
END
mkdir -p lists/test_data_set_0
cp small.onnx lists/model.onnx
cp list.bin lists
yes '*' | tr '\n' '\0' | head -c 2000000 >lists/test_data_set_0/input_0.pb
run test lists --program list.bin --max-memory 16M
code 1
out_has 'input_0.pb: it takes '
out_has 'bytes, and the memory limit of 16777216 leaves 1477'
run test lists --program list.bin --timeout-ms 1
code 1
out_has 'input_0.pb: '
run run list.bin -i x=@lists/test_data_set_0/input_0.pb --timeout-ms 20
code 5
check grep -qE 'input_0.pb: (reading the value exceeds the time limit|reading exceeded the time limit)' "$work/.err"
# Nothing is converted, so there is no second copy of the list.
run run list.bin -i x=@lists/test_data_set_0/input_0.pb --max-memory 300M
code 0

# And names in a file of states.
assemble total.bin <<'END'
xcvm 1
input x f32[2]
output y f32[2]
state total f32[2]
$1 = In(name="x")
$2 = Load(name="total")
$3 = Add($1, $2)
Store($3, name="total")
Out($3, name="y")
END
awk 'BEGIN {
    for (i = 0; i < 12000; i++)
        printf "%s\"tensor%06d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? "," : "{", i
    printf ",\"total\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}"
}' >header
length=$(wc -c <header)
{
    for shift in 0 8 16 24 32 40 48 56; do
        printf "\\x$(printf %x $((length >> shift & 255)))"
    done
    cat header
    printf '\0\0\200\77\0\0\200\77'
} >names.safetensors
run run total.bin -i '1 2' --state names.safetensors
code 0
out 'y=2xf32=2 3'
run run total.bin -i '1 2' --state names.safetensors --max-memory 1M
code 5
err_has "names.safetensors: the names of the file's tensors take more than the "

# One long text makes all others as long in an array file.
assemble texts.bin <<'END'
xcvm 1
input x str[N]
output y str[N]
$1 = In(name="x")
Out($1, name="y")
END
texts=$(awk 'BEGIN { printf "x=\"%20000s\"", ""; for (i = 0; i < 999; i++) printf " \"\"" }')
for file in texts.npy texts.npz; do
    run run texts.bin -i "$texts" -o "y=@$file" --max-memory 4M
    code 5
    err_has "$file: it takes "
    err_has 'the memory limit of 4194304'
    check test ! -e "$file"
done
run run texts.bin -i "$texts" -o y=@texts.npy
code 0

# Random elements take time.
assemble slow.bin <<'END'
xcvm 1
input x f32[400000000]
output y i64[1]
$1 = In(name="x")
$2 = Shape($1)
Out($2, name="y")
END
for command in 'run slow.bin --random' 'bench slow.bin' 'profile slow.bin' 'run slow.bin -i 1' 'run slow.bin -i ones'; do
    run $command --timeout-ms 20
    code 5
    err_has 'input x: making it took more than 20 ms'
done
assemble strings.bin <<'END'
xcvm 1
input x str[5000000]
output y i64[1]
$1 = In(name="x")
$2 = Shape($1)
Out($2, name="y")
END
for command in 'run strings.bin --random' 'run strings.bin -i "a"'; do
    run $command --timeout-ms 1
    code 5
    err_has 'input x: making it took more than 1 ms'
done
assemble any.bin <<'END'
xcvm 1
input x f32[N]
output y f32[N]
$1 = In(name="x")
Out($1, name="y")
END
assemble image.bin <<'END'
xcvm 1
input x f32[1500x1500]
output y f32[1500x1500]
$1 = In(name="x")
Out($1, name="y")
END
run run image.bin -i zeros -o @image.png
code 0
run run image.bin -i @image.png --max-memory 6M
code 5
err_has 'input x: image.png: '
err_has 'would go past the memory limit of '
# The header says that it is wider and higher than any file of this size can be.
{ head -c 16 image.png; printf '\0\0\175\0\0\0\175\0'; tail -c +25 image.png; } >large.png
run run any.bin -i 1x32000x32000xf32=@large.png
code 2
err_has 'large.png: an image of 32000 x 32000 does not fit into '
run run image.bin -i @image.png --timeout-ms 1
code 5
# A slow machine has not come to it by then.
check grep -qE 'image.png: (the deadline has passed|reading exceeded the time limit)' "$work/.err"

# Endless files, and pipes without a writer, are read within the limits, and only as far as necessary.
assemble six.bin <<'END'
xcvm 1
input x f32[2x3]
output y f32[2x3]
$1 = In(name="x")
Out($1, name="y")
END
mkfifo pipe.bin pipe.npy
ln -s /dev/zero zero.bin
for path in /dev/zero zero.bin; do
    run run six.bin -i "x=@$path"
    code 6
    err_has "input x: $path: is a device (expected a file)"
    for command in "run $path" "strip $path -o never.bin" "dump $path" "check $path" "asm $path -o never.bin" \
        "run six.bin --random --state $path"; do
        run $command
        code 6
        err_has "$path: is a device (expected a file)"
    done
done
run run six.bin -i x=@/proc/self/maps
code 2
err_has 'this is a text'
# on_endless ARGUMENTS...: runs the command while zeros are written to the pipe, for a minute at most.
on_endless() {
    timeout 60 cat /dev/zero >pipe.bin 2>/dev/null &
    run "$@"
    kill $! 2>/dev/null
    wait $! 2>/dev/null
}
on_endless run six.bin -i x=@pipe.bin
code 5
err_has 'input x: pipe.bin: has more than 24 bytes, the size of its type and shape'
on_endless run any.bin -i x=@pipe.bin --max-memory 1M
code 5
err_has 'input x: pipe.bin: has more than 1048576 bytes, the rest of the memory limit'
on_endless run any.bin -i x=@pipe.bin --timeout-ms 50
code 5
err_has 'input x: pipe.bin: reading exceeded the time limit'
for command in 'run pipe.bin --random' 'dump pipe.bin' 'check pipe.bin' 'strip pipe.bin -o never.bin' \
    'compile pipe.bin -o never.bin' 'run six.bin -i x=@pipe.npy'; do
    run $command --timeout-ms 50
    code 5
done
for command in 'run -' 'check -' 'dump -' 'compile - -o never.bin'; do
    run_in $command --max-memory 1M < <(timeout 60 cat /dev/zero 2>/dev/null)
    check test $status != 0
    check test $status -lt 7
done
# Elements that come through a pipe in pieces are whole.
{ head -c 5 /dev/zero; sleep 0.05; head -c 19 /dev/zero; } >pipe.bin &
run run six.bin -i x=@pipe.bin --timeout-ms 60000 --max-memory 1M
out 'y=2x3xf32=0 0 0 0 0 0'
# A non-blocking stream is waited for, without polling, which would use processor time.
run run six.bin -i x='2x3xf32=1 2 3 4 5 6' -o y=@six.npy
code 0
# Returns true if a process sleeps at five consecutive checks.
sleeps() {
    in_a_row=0
    for look in $(seq 1 200); do
        if grep -q '^State:.S' "/proc/$1/status"; then in_a_row=$((in_a_row + 1)); else in_a_row=0; fi
        [ "$in_a_row" -lt 5 ] || return 0
        sleep 0.02
    done
    return 1
}
mkfifo begin slow
{ cat begin >/dev/null && cat six.npy; } >slow &
exec 4<slow
dd iflag=nonblock count=0 status=none <&4
last='xcvm run with a stream that does not block'
"$xcvm" run six.bin -i x=@- <&4 >"$work/.out" 2>"$work/.err" &
reader=$!
sleep 0.2
check sleeps "$reader"
: >begin
wait "$reader"
status=$?
exec 4<&-
code 0
out 'y=2x3xf32=1 2 3 4 5 6'
truncate -s 1T large.npy
run run six.bin -i x=@large.npy
code 5
err_has 'input x: large.npy: has more than '
run run six.bin -i x=@large.npy --max-memory 1M
code 5
err_has 'input x: large.npy: has more than 1048576 bytes, the rest of the memory limit'
rm large.npy

finish

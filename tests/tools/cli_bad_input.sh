# Invalid programs, models, inputs and output paths: one message that names the file and the expected form, the exit
# code of the manual, and no partial output.
. "$(dirname "$0")/expect.sh"

files=$data/files
cp "$data"/broken/*.onnx .

# refused CODE TEXT...: the last command failed with this code, wrote nothing to standard output, and said all of it.
refused() {
    code "$1"
    shift
    out ''
    for text; do
        err_has "$text"
    done
}

# ---- Messages ----

# Each message is written at once, so that the output of other processes does not come between its parts.
cat >writes.py <<'X'
import socket, subprocess, sys
here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
subprocess.run(sys.argv[1:], stderr=there, check=False)
here.setblocking(False)
try:
    while True:
        print(repr(here.recv(65536).decode()))
except BlockingIOError:
    pass
X
check test "$(/usr/bin/python3 writes.py "$xcvm" run none.bin)" = "'xcvm run: none.bin: cannot be opened: No such file or directory\\n'"

# ---- Programs ----

assemble relu.bin <<'X'
xcvm 1
producer "hand"
input x f32[2x3]
output y f32[2x3]
$1 = In(name="x")
$2 = Relu($1) node="relu"
Out($2, name="y")
X
run strip relu.bin -o small.bin
size=$(wc -c <small.bin)
run run small.bin -i x=ones
out 'y=2x3xf32=1 1 1 1 1 1'

# A broken program may run, if it happens to be another sound one; else one line names the file. Other tests try every
# bit of a program in process.
examine() {
    case $status in
    0) good ;;
    2 | 3 | 4 | 5)
        if [ "$(wc -l <.err)" -eq 1 ] && grep -q '^xcvm run: bad.bin: ..*' .err && [ ! -s .out ] && [ ! -e bad.npy ]; then
            good
        else
            bad "is no clear refusal: $1"
        fi
        ;;
    *) bad "exit code $status: $1" ;;
    esac
    rm -f bad.npy
}
for ((at = 0; at < size; at += 7)); do
    head -c "$at" small.bin >bad.bin
    run run bad.bin --random --fuel 100 --max-memory 64M --output @bad.npy
    examine "the first $at bytes"
    byte=$(od -An -tu1 -j "$at" -N 1 small.bin)
    cp small.bin bad.bin
    # shellcheck disable=SC2059 # an escape is made here
    printf "\\x$(printf %x $((byte ^ 255)))" | dd of=bad.bin bs=1 seek="$at" conv=notrunc status=none
    run run bad.bin --random --fuel 100 --max-memory 64M --output @bad.npy
    examine "byte $at"
done

# The first field is the format.
check test "$(od -An -tx1 -N 2 small.bin | tr -d ' ')" = 0801
printf '\x08\x02' | cat - <(tail -c +3 small.bin) >newer.bin
for command in run dump; do
    run $command newer.bin
    refused 4 "xcvm $command: newer.bin: program format 2 is newer than this library's 1"
done
run strip newer.bin -o stripped.bin
refused 4 'xcvm strip: newer.bin: program format 2'
check test ! -e stripped.bin
printf 'xcvm 2\n' >newer.txt
run asm newer.txt -o asm.bin
refused 4 'xcvm asm: newer.txt: ' 'format 2'
check test ! -e asm.bin
: >empty.bin
printf 'something else' >else.bin
run run else.bin
refused 3 'xcvm run: else.bin: this is a text'
run run empty.bin
refused 3 'xcvm run: empty.bin: '
head -c $((size - 9)) small.bin >short.bin
run dump short.bin
refused 3 'xcvm dump: short.bin: '
run strip short.bin -o stripped.bin
refused 3 'xcvm strip: short.bin: '
check test ! -e stripped.bin

# ---- Models ----

# model NAME CODE TEXT...: compiling, running and checking it all say so.
model() {
    name=$1
    shift
    run compile "$name.onnx" -o "$name.bin"
    refused "$@" "xcvm compile: $name.onnx: "
    check test ! -e "$name.bin"
    run run "$name.onnx" --random
    refused "$@" "xcvm run: $name.onnx: "
    run check "$name.onnx"
    code "$1"
}
model cycle 3 cycle "'first' 'third' 'second'"
model duplicate 3 "nodes 'first' and 'second' both define a value named 'y'"
model missing 3 "node 'adding' (Add) reads 'w', which no node, input or initializer defines"
model no_output 3 "no node defines the output 'y'"
model wrong_rank 3 "node 'convolving' (Conv, opset 13)" '2 dimensions, 3 are needed'
model wrong_shape 3 "node 'multiplying' (MatMul, opset 13)" '3 and 2 are not equal'
model wrong_type 3 "node 'adding' (Add, opset 13)" 'f32 and b i64, but they must be the same'
model attribute 3 "node 'joining' (Concat, opset 13)" 'axis 7 is not in [-2, 2)'
model short_tensor 3 "initializer 'w': raw_data has 8 bytes, 4000 are needed"
model huge_tensor 3 "initializer 'w'" 'more than memory can hold'
model negative_tensor 3 "initializer 'w': dimension 0 is -3"
model huge_input 3 "input 'x'" 'more than memory can hold'
model newer_opset 4 'opset 9999' 'the newest known'
model deep 3 'nested deeper than 100'
for cut in 1 20 60 100; do
    head -c "$cut" cycle.onnx >cut.onnx
    run compile cut.onnx -o cut.bin
    refused 3 'xcvm compile: cut.onnx: '
    check test ! -e cut.bin
done

# External data in the model's directory or below, also through links.
printf '\0\0\200?\0\0\0@\0\0@@' >w.bin
mkdir inner real
cp w.bin real
ln -s w.bin link.bin
ln -s real linked
mkdir -p ../outside.$$ && cp w.bin ../outside.$$
run run external_good.onnx -i '2x3xf32=0 0 0 10 10 10'
out 'y=2x3xf32=1 2 3 11 12 13'
model external_parent 3 "'../outside.bin' is outside of the model's directory"
model external_inside_out 3 "'inner/../../outside.bin' is outside of the model's directory"
model external_absolute 3 "'/etc/passwd' has an absolute path"
for name in external_link external_linked_folder; do
    run run $name.onnx -i '2x3xf32=0 0 0 10 10 10'
    out 'y=2x3xf32=1 2 3 11 12 13'
done
ln -sfn "$work/../outside.$$/w.bin" link.bin
ln -sfn "$work/../outside.$$" linked
model external_link 6 "'link.bin'" 'it leads to ' "which is neither below the model's folder nor below that of the file that the model is"
model external_linked_folder 6 "'linked/w.bin'" 'it leads to '
ln -sfn /etc/passwd link.bin
model external_link 6 "'link.bin'" 'it leads to /etc/passwd'
ln -sfn loop link.bin && ln -sfn link.bin loop
model external_link 6 "'link.bin'" 'symbolic link'
rm -rf "../outside.$$"
# As in the cache of Hugging Face: the model and its data are links to files in one directory.
mkdir -p hub/blobs hub/snapshots/a hub/b
cp external_good.onnx hub/blobs/0123
cp w.bin hub/blobs/4567
ln -s ../../blobs/0123 hub/snapshots/a/model.onnx
ln -s ../../blobs/4567 hub/snapshots/a/w.bin
ln -s snapshots/a hub/latest
for folder in snapshots/a latest; do
    run run "hub/$folder/model.onnx" -i '2x3xf32=0 0 0 10 10 10'
    out 'y=2x3xf32=1 2 3 11 12 13'
    run check "hub/$folder/model.onnx"
    code 0
done
# A model that is no link may not go there.
cp external_good.onnx hub/b/model.onnx
ln -s ../blobs/4567 hub/b/w.bin
run run hub/b/model.onnx --random
refused 6 'hub/b/model.onnx: ' "'w.bin'" 'it leads to '
model external_absent 6 "'absent.bin'" 'no such file'
model external_range 3 "'w.bin' has 12 bytes, 12 at 8 are needed"
# A model from standard input has no directory.
run_in run - --random <external_good.onnx
refused 3 "initializer 'w': the model has external data, which is only possible for a model that is read from a file"

# ---- Inputs ----

run run relu.bin
refused 2 'relu.bin: inputs are missing' '--input x=...    f32[2x3]'
run run relu.bin -i z=1
refused 2 'relu.bin: ' 'there is no input "z"'
run run relu.bin -i x=2x4xf32=1
refused 2 'relu.bin: ' 'input "x" is declared as f32[2x3], but was given f32[2x4]'
run run relu.bin -i x=3xf32=1
refused 2 'relu.bin: ' 'input "x" is declared as f32[2x3], but was given f32[3]'
for file in text complex64; do
    run run relu.bin -i "x=@$files/$file.npy"
    refused 2 'relu.bin: ' 'x' f32
done
head -c 100 "$files/float32.npy" >short.npy
run run relu.bin -i x=@short.npy
refused 2 'short.npy: the file ends'
run run zero.onnx -i "x=@$files/gray.png"
refused 2 'zero.onnx: input x: ' 'an image cannot become a tensor of [0x3]: it has no elements'
printf 'something else' >broken.pb
run run relu.bin -i x=@broken.pb
refused 2 'relu.bin: input x: broken.pb: '
: >nothing.pb
run run relu.bin -i x=@nothing.pb
refused 2 'relu.bin: input x: nothing.pb: '
run run relu.bin -i x=short.npy
refused 2 "To read a file, write @short.npy"
run_in run - -i x=- <relu.bin
refused 2 'standard input (-) can be read only once, but is named twice'
run_in diff - - --random <relu.bin
refused 2 'standard input (-) can be read only once, but is named twice'
run run relu.bin --random --dim M=2
refused 2 'relu.bin: ' 'has an open dimension "M"'
run run zero.onnx -i x=0x3xf32=
out 'y=0x3xf32='
run run zero.onnx -i x=1x3xf32=1
refused 2 'zero.onnx: ' 'f32[0x3], but was given f32[1x3]'

# ---- Limits ----

run compile huge_result.onnx -o huge.bin
run run huge.bin -i x=1 -i to='1099511627776 1048576'
refused 5 'huge.bin: instruction' 'Expand, node "expanding"' bytes
run run huge.bin -i x=1 -i to='4611686018427387904 4611686018427387904'
refused 3 'huge.bin: instruction' 'Expand, node "expanding"' 'too large'
run run huge.bin -i x=1 -i to='100000 100000' --max-memory 1M
refused 5 'huge.bin: instruction' 'Expand, node "expanding"' 'memory limit of ' 'of the 1048576 bytes of --max-memory'
run run endless.onnx -i x=ones -i c=true --fuel 1000 -o y=@never.npy
refused 5 'endless.onnx: instruction' 'the fuel is used up'
# Compiled before, since compiling has the same limit.
run compile endless.onnx -o endless.bin
run run endless.bin -i x=ones -i c=true --timeout-ms 100 -o y=@never.npy
refused 5 'endless.bin: instruction' 'the deadline has passed'
check test ! -e never.npy
# An output that cannot be written is reported before anything runs.
for target in y=@y.odd y=y.npy y=2 y=random; do
    run run endless.onnx -i x=ones -i c=true --fuel 1000 --output "$target"
    refused 2 'endless.onnx: --output: '
done
run run endless.onnx -i x=ones -i c=true --fuel 1000 --output y=@no/such/y.npy
refused 6 'no/such/y.npy: cannot be written: No such file or directory'
run profile endless.onnx -i x=ones -i c=true --fuel 1000 -o no/such/trace.json
refused 6 'no/such/trace.json: cannot be written'
printf 'xcvm 1\nproducer "\\x1b[31m"\ninput "\\x1b]0;x" f32\n$1 = In(name="\\x1b]0;x")\n' >terminal.txt
run run terminal.txt
refused 2 '?]0;x'
run check terminal.txt
code 0
check sh -c '! grep -q "$(printf "\033")" .out .err'

# ---- Output paths. Permissions do not restrict root, so these are paths that nobody can write. ----

run dump relu.bin -o relu.txt
for place in no/such/folder/out relu.bin/out /proc/out . /dev/full; do
    for command in 'compile endless.onnx' 'asm relu.txt' 'strip relu.bin' 'dump relu.bin' 'profile relu.bin --random'; do
        # shellcheck disable=SC2086 # two words
        run $command -o "$place"
        code 6
        err_has "xcvm ${command%% *}: $place: cannot be written: "
    done
done
err_has 'No space left on device'
for place in no/such/folder/out.npy relu.bin/out.npy /proc/out.npz no/such/folder/out.pb; do
    run run relu.bin -i x=ones --output "y=@$place"
    refused 6 "$place: cannot be written: "
done
if [ "$(id -u)" != 0 ]; then
    mkdir locked
    chmod 555 locked
    run compile endless.onnx -o locked/out.bin
    refused 6 'locked/out.bin: cannot be written: Permission denied'
fi

# A disk that fills up half-way: the old file stays, and the new one is removed. Tested with a limit on the size of
# files, and with a small disk if one may be mounted.
assemble wide.bin <<'X'
xcvm 1
input x f32[10000]
output y f32[10000]
$1 = In(name="x")
Out($1, name="y")
X
{
    echo 'xcvm 1'
    echo 'output y f32[10000]'
    echo "constant c f32[10000] = $(seq -s ' ' 10000)"
    echo 'Out(@c, name="y")'
} >large.txt
run asm large.txt -o large.bin
run dump large.bin --literals 100000 -o large.txt
cat >fill.sh <<'X'
disk=$1
shift
for place in kept fresh; do
    "$xcvm" asm large.txt -o "$disk/$place.bin"
    echo $?
    "$xcvm" strip large.bin -o "$disk/$place.bin"
    echo $?
    "$xcvm" dump large.bin --literals 100000 -o "$disk/$place.txt"
    echo $?
    for kind in npy npz pb bin; do
        "$xcvm" run wide.bin --random -o "y=@$disk/$place.$kind"
        echo $?
    done
done 2>"$disk.err" | tr '\n' ' '
for kind in bin txt npy npz pb; do
    cmp relu.bin "$disk/kept.$kind" || echo "kept.$kind has changed"
done
ls -A "$disk"
X
check_full() {
    last="full disk, $1"
    check test "$(cat "$1.out")" = '6 6 6 6 6 6 6 6 6 6 6 6 6 6 kept.bin
kept.npy
kept.npz
kept.pb
kept.txt'
    check test "$(grep -c "^xcvm [a-z]*:.* $1/[a-z]*[.][a-z]*: cannot be written: $2" "$1.err")" = 14
    cp "$1.out" .out
    cp "$1.err" .err
}
prepare() {
    for kind in bin txt npy npz pb; do
        cp relu.bin "$1/kept.$kind"
    done
}
export xcvm
mkdir limited small_disk
prepare limited
(
    trap '' XFSZ
    ulimit -f 16
    bash fill.sh limited
) >limited.out 2>&1
check_full limited 'File too large'
cat >mounted.sh <<'X'
mount -t tmpfs -o size=40k xcvm small_disk || exit 77
for kind in bin txt npy npz pb; do
    cp relu.bin "small_disk/kept.$kind"
done
exec bash fill.sh small_disk
X
if unshare -m bash mounted.sh >small_disk.out 2>/dev/null; then
    check_full small_disk 'No space left on device'
fi
check test -z "$(find . -name '*.??????' ! -name 'mounted.sh')"

finish

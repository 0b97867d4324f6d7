# Files of other kinds than expected: one message names the kind and the next step.
. "$(dirname "$0")/expect.sh"

files=$data/files

# is_refused CODE TEXT...: the last command failed with this code, wrote nothing to standard output, and said all of it.
is_refused() {
    code "$1"
    shift
    out ''
    for text; do
        err_has "$text"
    done
    check test "$(wc -l <"$work/.err")" -le 2
}

assemble relu.bin <<'X'
xcvm 1
input x f32[2x3]
output y f32[2x3]
$1 = In(name="x")
$2 = Relu($1) node="relu"
Out($2, name="y")
X
cp "$data/../../../examples/digits/model.onnx" model.onnx

# Bytes of other systems' files, by name.
mkdir other
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n' >other/lfs
printf '\n<!DOCTYPE html>\n<html><body>404</body></html>\n' >other/html
printf '<html><head></head></html>' >other/html_short
printf 'x' | gzip >other/gzip
printf '\x28\xb5\x2f\xfd\x00\x00' >other/zstd
printf '\x1c\0\0\0TFL3\0\0\0\0' >other/tflite
printf '\x1c\0\0\0ORTM\0\0\0\0' >other/ort
printf 'GGUF\3\0\0\0' >other/gguf
printf '\x89HDF\r\n\x1a\n\0\0' >other/hdf5
printf '\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02' >other/pickle_torch
printf '\x80\x04\x95\0\0' >other/pickle
printf 'PK\3\4\0\0\0\0archive/data.pklFB' >other/torch
printf 'PK\3\4\0\0\0\0m/code/__torch__.pym/data.pkl' >other/torchscript
printf 'PK\3\4\0\0\0\0model.weights.h5' >other/keras
printf 'PK\3\4\0\0\0\0readme.md' >other/zip
printf '<?xml version="1.0"?>\n<net name="x" version="11">\n' >other/openvino
printf '{"a": 1}\n' >other/json
printf 'a,b\n1,2\n' >other/table
printf 'some words\nand more\n' >other/text
printf '../../blobs/0123abcd' >other/link
printf '\x0a\x12\x0a\x01x\x12\x0bPlaceholder\x18\x00' >other/graphdef
printf '\x08\x01\x12\x04\x0a\x02\x2a\x00' >other/saved
printf '\x08\x05\x12\x02\x0a\x00\xa2\x1f\x01\x00' >other/coreml
: >other/empty
{ head -c 257 /dev/zero && printf 'ustar\0'; } >other/tar

# expectations of a kind: NAME TEXT...
kinds='lfs|git lfs pull
html|HTML page
html_short|HTML page
gzip|gunzip
zstd|unzstd
tflite|TensorFlow Lite
ort|.ort
gguf|GGUF
hdf5|Keras
pickle_torch|torch.onnx.export
pickle|Python pickle
torch|torch.onnx.export
torchscript|torch.jit.load
keras|.keras
zip|unzip
openvino|OpenVINO
json|JSON
table|as in CSV
text|a text
link|symbolic link
graphdef|tf2onnx.convert --graphdef
saved|tf2onnx.convert --saved-model
coreml|Core ML
empty|empty
tar|tar xf'
while IFS='|' read -r name text; do
    cp "other/$name" m.onnx
    cp "other/$name" prog.bin
    for command in run check bench; do
        run "$command" m.onnx
        is_refused 3 'm.onnx: ' "this is " "$text"
    done
    run compile m.onnx -o x.bin
    is_refused 3 'm.onnx: ' "this is " "$text"
    check test ! -e x.bin
    run quantize m.onnx -o x.onnx
    is_refused 3 'm.onnx: ' "this is " "$text"
    run train m.onnx -d "$files/single.npz" -o x.onnx
    code 3
    err_has "$text"
    run run prog.bin
    code 3
    err_has 'prog.bin: '
done <<<"$kinds"
for name in lfs html gzip torch; do
    for command in "asm other/$name -o x.bin" "dump other/$name" "strip other/$name -o x.bin" \
        "run model.onnx --random --state other/$name"; do
        # shellcheck disable=SC2086 # the command has options
        run $command
        check test "$status" -ne 0
        err_has "this is "
        check test ! -e x.bin
    done
done
run asm other/text -o x.bin
is_refused 3 'other/text: line 1: the text must begin with `xcvm 1`'
run asm model.onnx -o x.bin
is_refused 3 'model.onnx: this is an ONNX model; compile it'
# The same for files without the extension of a model, and for a stream.
run run other/lfs
is_refused 3 'other/lfs: this is a Git LFS pointer'
run_in run - <other/tflite
is_refused 3 'TensorFlow Lite'
run_in compile - -o x.bin <other/html
is_refused 3 'HTML page'

# ---- A program where a model is wanted, and the reverse ----

cp relu.bin relu.onnx
run compile relu.onnx -o x.bin
is_refused 3 'relu.onnx: this is an XCVM program, which is compiled already; run it with "xcvm run"'
run quantize relu.bin -o x.onnx
is_refused 3 'relu.bin: this is an XCVM program'
run run relu.onnx -i x=ones
code 0
run run relu.bin -i x=ones --expect y=ones
code 0
cp model.onnx model.bin
run run model.bin --random
code 0
run dump relu.bin
cp "$work/.out" text.bin
run compile text.bin -o x.bin
is_refused 3 'text.bin: this is the text of an XCVM program; "xcvm asm"'
run run text.bin -i x=ones --expect y=ones
code 0

# ---- Folders ----

mkdir saved hub empty
: >saved/saved_model.pb
cp model.onnx hub/
for command in run check 'compile -o x.bin'; do
    # shellcheck disable=SC2086 # the command has options
    run $command saved
    is_refused 6 'saved: this is the folder of a TensorFlow SavedModel; convert it to ONNX'
done
run run hub
is_refused 6 'hub: this is a directory (expected a file). It has a model: model.onnx'
run run empty
is_refused 6 'empty: this is a directory (expected a file)'

# ---- Data ----

run run relu.bin -i x=@other/lfs
is_refused 2 'input x: other/lfs: this is a Git LFS pointer'
for suffix in npy npz safetensors png jpg pb; do
    cp other/lfs "x.$suffix"
    run run relu.bin -i "x=@x.$suffix"
    is_refused 2 "input x: x.$suffix: this is a Git LFS pointer"
    cp other/html "x.$suffix"
    run run relu.bin -i "x=@x.$suffix"
    is_refused 2 "input x: x.$suffix: this is an HTML page"
done
cp other/torch w.npz
run run relu.bin -i x=@w.npz
is_refused 2 'w.npz: this is a PyTorch file (.pt or .pth: a model or its weights); save weights with safetensors'
run run relu.bin -i x=@model.onnx
is_refused 2 'model.onnx: this is an ONNX model'
# The content decides, whatever the name is.
cp "$files/float32.npy" array.png
run run relu.bin -i x=@array.png
out_has 'y=2x3xf32='
root=$data/../../..
train() { run train "$root/examples/digits/untrained.onnx" -i image=images -l label=labels --loss softmax_cross_entropy -o t.onnx "$@"; }
for name in lfs torch html json; do
    cp "other/$name" "d.npz"
    train -d d.npz
    code 2
    err_has 'd.npz: this is '
done
cp other/torch w.pt
train -d "$root/examples/digits/digits.npz" --weights w.pt
code 2
err_has 'w.pt: this is a PyTorch file'

# ---- Names of output files ----

run compile model.onnx -o x.onnx
is_refused 2 'x.onnx: the name is one of an ONNX model. Add --emit onnx, or name the program x.bin'
run compile model.onnx -o x.c
is_refused 2 'x.c: the name is one of C source. Add --emit c'
for suffix in pt npz tflite json so; do
    run compile model.onnx -o "x.$suffix"
    is_refused 2 "x.$suffix: the suffix .$suffix belongs to another format. The output is a program"
    run compile model.onnx --emit onnx -o "x.$suffix"
    is_refused 2 "x.$suffix: the suffix .$suffix belongs to another format. The output is an ONNX model"
    run quantize model.onnx -o "x.$suffix"
    is_refused 2 "x.$suffix: the suffix .$suffix belongs to another format"
    run strip relu.bin -o "x.$suffix"
    is_refused 2 "x.$suffix: the suffix .$suffix belongs to another format"
    run asm text.bin -o "x.$suffix"
    is_refused 2 "x.$suffix: the suffix .$suffix belongs to another format"
done
run compile model.onnx --emit onnx -o x.bin
is_refused 2 'x.bin: the suffix .bin belongs to another format. The output is an ONNX model'
run dump relu.bin -o x.bin
is_refused 2 'x.bin: the suffix .bin belongs to another format. The output is text assembly'
run profile relu.bin --random -o x.html
is_refused 2 'x.html: the suffix .html belongs to another format. --output writes .json'
run profile relu.bin --random --html x.JSON
is_refused 2 'x.JSON: the suffix .json belongs to another format. --html writes .html'
run diff relu.bin relu.bin --random --html x.svg
is_refused 2 'x.svg: the suffix .svg belongs to another format. --html writes .html'
run run relu.bin --random --save-state x.svg
is_refused 2 'x.svg: the suffix .svg belongs to another format. --save-state writes .safetensors'
run train model.onnx -d data --log x.svg
is_refused 2 'x.svg: the suffix .svg belongs to another format. --log writes .csv'
run train model.onnx -d data --curve x.png
is_refused 2 'x.png: the suffix .png belongs to another format. --curve writes .svg'
run quantize model.onnx --picture x.png -o q.onnx
is_refused 2 'x.png: the suffix .png belongs to another format. --picture writes .svg'
run compile model.onnx --kernel-library --keep-c x.so -o x.bin
is_refused 2 'x.so: the suffix .so belongs to another format. --keep-c writes .c'
run compile model.onnx --emit onnx -o x.onnx
code 0
run compile model.onnx -o x.bin
code 0

finish

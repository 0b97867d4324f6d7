# Every command that the manual's pages and the README show, as printed.
. "$(dirname "$0")/expect.sh"
root=$(cd "$data/../../.." && pwd)
PATH=$(dirname "$xcvm"):$PATH

# The files that the examples are about.
cp "$data/examples/model.onnx" model.onnx
cp model.onnx a.onnx
cp model.onnx b.onnx
"$xcvm" compile model.onnx -o resnet50.bin
cp "$root/examples/digits/model.onnx" mnist.onnx
cp "$root/examples/digits/images/3.png" digit.png
cp mnist.onnx detector.onnx
assemble same.bin <<'X'
xcvm 1
input x f32[Nx3]
output y f32[Nx3]
$1 = In(name="x")
Out($1, name="y")
X
"$xcvm" run same.bin --input '2x3xf32=1 2 3 4 5 6' --output @x.npy
mkdir -p models node onnx/backend/test/data docs
cp -r "$data/cases/add" models
cp -r "$data/cases/sums" node/test_conv_sums
cp -r node onnx/backend/test/data
cp "$root/examples/generate/model.onnx" decoder.onnx
cp "$data/gradients/right/model.onnx" network.onnx
cp "$root/examples/digits/untrained.onnx" net.onnx
cp "$root/examples/digits/digits.npz" digits.npz
for file in train-1 train-2 held; do "$xcvm" run same.bin --input '16x3xf32=random' --output @$file.npz:x; done
for class in 1 2 3; do
    mkdir -p "photos/$class"
    cp "$root/examples/digits/images/$class.png" "photos/$class/a.png"
    cp "$root/examples/digits/images/$class.png" "photos/$class/b.png"
done
mkdir training
echo 0123456789abcdef >key.txt
cp model.onnx float.onnx
cp model.onnx quantized.onnx
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -keyout key.pem -out cert.pem 2>/dev/null
echo 'model = prog.bin' >serve.conf
cp -r "$data/gradients/right" training/linear

# A server runs until it serves, at a free port.
serve() {
    case $1 in
    *--http*) line=$(echo "$1" | sed 's/\(--http [0-9.]*\):[0-9]*/\1:0/') ;;
    *) line="$1 --http 127.0.0.1:0" ;;
    esac
    : >"$work/.err" # what an earlier server wrote must not be read before the shell has opened the file
    bash -c "exec $line" >"$work/.out" 2>"$work/.err" </dev/null &
    server=$!
    for _ in $(seq 600); do
        grep -q 'serving at' "$work/.err" && break
        kill -0 "$server" 2>/dev/null || break
        sleep 0.05
    done
    kill "$server" 2>/dev/null
    wait "$server"
}

# example LINE: runs it, which must succeed.
example() {
    last=$1
    case $1 in
    "xcvm serve "* | *"/xcvm serve "*)
        serve "${1%%#*}"
        status=$?
        code 0
        return
        ;;
    esac
    bash -c "$1" >"$work/.out" 2>"$work/.err" </dev/null
    status=$?
    code 0
}
examples=0
for page in "$root"/docs/manual/*.md; do
    "$xcvm" compile model.onnx -o prog.bin
    "$xcvm" dump prog.bin -o prog.txt
    while read -r line; do
        example "$line"
        examples=$((examples + 1))
    done < <(sed -n '/^## Examples/,$ s/^    \(xcvm .*\)/\1/p' "$page")
done
check test "$examples" -ge 25

mkdir -p readme/build/release/tools
ln -s "$xcvm" readme/build/release/tools/xcvm
ln -s "$root/examples" readme/examples
cd readme || exit 2
while read -r line; do
    example "$line"
    examples=$((examples + 1))
done < <(sed -n 's/^    \(build\/release\/tools\/xcvm .*\)/\1/p' "$root/README.md")
check test "$examples" -ge 30
cd "$work" || exit 2

# The programs on the page about assembly.
awk '/^    (xcvm 1|# y = x)/ && !inside { inside = 1; n++ }
     inside && /^    / { print substr($0, 5) >("program" n ".txt") }
     inside && !/^    / { inside = 0 }' "$root/docs/assembly.md"
run run program1.txt -i '2x2xf32=1 2 3 4'
out 'y=2x3xf32=9.5 12.5 15.5 19.5 26.5 33.5'
run run program2.txt
out 'sum=i64=10'

finish

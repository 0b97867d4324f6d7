#!/bin/sh
# run.sh BUILD: serves a model and calls it with npm's @grpc/grpc-js. The packages are installed into build/node_modules.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
xcvm=$(cd "$1" && pwd)/tools/xcvm
cd "$root"
for package in @grpc/grpc-js@1.14.7 @grpc/proto-loader@0.8.1; do
    scripts/npm-package.sh "$package" build
done
work=$(mktemp -d)
. tests/tools/serving.sh
cd "$work"
programs endless
/usr/bin/python3 -c 'import numpy as np; np.save("image.npy", np.random.RandomState(1).rand(3, 1, 8, 8).astype("f"))'
"$xcvm" run "$root/examples/digits/model.onnx" --input image=@image.npy --output probabilities=@wanted.npy >/dev/null
/usr/bin/python3 -c 'import numpy as np
for name in ("image", "wanted"): np.load(name + ".npy").tofile(name + ".raw")'
serve digits="$root/examples/digits/model.onnx" endless.xcvm --http 127.0.0.1:0 --grpc 127.0.0.1:0 --queue 1000
[ -n "$grpc" ] || { cat .err; exit 1; }
timeout 120 node "$here/calls.mjs" "$root/build/node_modules" "$root/server/grpc/definitions" "$grpc" image.raw wanted.raw
kill "$server"
wait "$server"

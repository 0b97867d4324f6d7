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
server=
trap 'if [ -n "$server" ]; then kill -9 "$server" 2>/dev/null || true; fi; rm -rf "$work"' EXIT
cd "$work"
printf 'xcvm 1\ninput x f32[2]\nloop:\n$1 = Neg(f32[1] 1)\nFree($1)\nJmp(to=loop)\n' >endless.xcvm
/usr/bin/python3 -c 'import numpy as np; np.save("image.npy", np.random.RandomState(1).rand(3, 1, 8, 8).astype("f"))'
"$xcvm" run "$root/examples/digits/model.onnx" --input image=@image.npy --output probabilities=@wanted.npy >/dev/null
/usr/bin/python3 -c 'import numpy as np
for name in ("image", "wanted"): np.load(name + ".npy").tofile(name + ".raw")'
"$xcvm" serve digits="$root/examples/digits/model.onnx" endless.xcvm --http 127.0.0.1:0 --grpc 127.0.0.1:0 --queue 1000 >out 2>err </dev/null &
server=$!
for _ in $(seq 600); do
    grep -q 'serving at' err && break
    kill -0 "$server" || { cat err; exit 1; }
    sleep 0.05
done
address=$(sed -n 's/^xcvm serve: serving gRPC at //p' err)
timeout 120 node "$here/calls.mjs" "$root/build/node_modules" "$root/server/grpc/definitions" "$address" image.raw wanted.raw
kill "$server"
wait "$server"
server=

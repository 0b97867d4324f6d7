#!/bin/sh
# run.sh BUILD: serves models behind npm's @stoplight/prism-cli, a proxy that validates requests and answers by the OpenAPI
# description of the REST API. The package is installed into build/node_modules.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
xcvm=$(cd "$1" && pwd)/tools/xcvm
cd "$root"
scripts/npm-package.sh @stoplight/prism-cli@5.16.0 build
work=$(mktemp -d)
. tests/tools/serving.sh
cd "$work"
programs doubles quotients texts endless
program doubles | sed '1a metadata "class_names" "no\\nyes"\nmetadata "class_output" "y"' >classes.xcvm
programs_of bool u8 u16 u32 u64 i8 i16 i32 i64 f64
/usr/bin/python3 -c 'import numpy as np; np.save("image.npy", np.random.RandomState(1).rand(3, 1, 8, 8).astype("f"))'
"$xcvm" run "$root/examples/digits/model.onnx" --input image=@image.npy --output probabilities=@wanted.npy >/dev/null
/usr/bin/python3 -c 'import numpy as np
for name in ("image", "wanted"): np.load(name + ".npy").tofile(name + ".raw")'
printf 'a-key-of-many-characters\n' >key
mkdir models && mv ./*.xcvm models
serve digits="$root/examples/digits/model.onnx" models --http 127.0.0.1:0 --workers 1 --queue 1 --body-limit 20000 --api-key-file key
[ -n "$rest" ] || { cat .err; exit 1; }
# Prism needs the number of a port. Another one is tried if the port is taken.
for attempt in 1 2 3; do
    port=$((20000 + ($$ * 3 + attempt) % 20000))
    node "$root/build/node_modules/@stoplight/prism-cli/dist/index.js" proxy "$root/server/http/definitions/inference.openapi.json" \
        "http://$rest" --host 127.0.0.1 --port "$port" >prism.txt 2>&1 &
    proxy=$!
    started="$started $proxy"
    for _ in $(seq 600); do
        grep -q 'Prism is listening' prism.txt && break 2
        kill -0 "$proxy" 2>/dev/null || break
        sleep 0.05
    done
    [ "$attempt" != 3 ] || { echo "Prism does not start:" >&2 && cat prism.txt >&2 && exit 1; }
done
timeout 120 node "$here/calls.mjs" "http://127.0.0.1:$port" "http://$rest" image.raw wanted.raw
kill "$server"
wait "$server"

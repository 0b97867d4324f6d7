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
started=
trap 'for process in $started; do kill -9 "$process" 2>/dev/null || true; done; rm -rf "$work"' EXIT
cd "$work"

wait_for() { # FILE PATTERN PROCESS
    for _ in $(seq 600); do
        grep -q "$2" "$1" && return
        kill -0 "$3" 2>/dev/null || break
        sleep 0.05
    done
    cat "$1" >&2
    exit 1
}
program() { # FILE TYPE OPERATION
    printf 'xcvm 1\ninput x %s[2]\noutput y %s[2]\n$1 = In(name="x")\n$2 = %s\nOut($2, name="y")\n' "$2" "$2" "$3" >"$1.xcvm"
}
program doubles f32 'Add($1, $1)'
program nans f32 'Div($1, $1)'
program texts str 'StringConcat($1, str[] "x")'
printf 'xcvm 1\ninput x f32[2]\nloop:\n$1 = Neg(f32[1] 1)\nFree($1)\nJmp(to=loop)\n' >endless.xcvm
for type in bool:bool uint8:u8 uint16:u16 uint32:u32 uint64:u64 int8:i8 int16:i16 int32:i32 int64:i64 fp64:f64; do
    printf 'xcvm 1\ninput x %s[2]\noutput y %s[2]\n$1 = In(name="x")\nOut($1, name="y")\n' "${type#*:}" "${type#*:}" >"${type%:*}.xcvm"
done
/usr/bin/python3 -c 'import numpy as np; np.save("image.npy", np.random.RandomState(1).rand(3, 1, 8, 8).astype("f"))'
"$xcvm" run "$root/examples/digits/model.onnx" --input image=@image.npy --output probabilities=@wanted.npy >/dev/null
/usr/bin/python3 -c 'import numpy as np
for name in ("image", "wanted"): np.load(name + ".npy").tofile(name + ".raw")'
printf 'a-key-of-many-characters\n' >key
mkdir models && mv ./*.xcvm models
"$xcvm" serve digits="$root/examples/digits/model.onnx" models --http 127.0.0.1:0 --workers 1 --queue 1 --body-limit 20000 \
    --api-key-file key >out 2>err </dev/null &
server=$!
started=$server
wait_for err 'serving at' "$server"
address=$(sed -n 's/^xcvm serve: serving at //p' err)
# Prism needs the number of a port. Another one is tried if the port is taken.
for attempt in 1 2 3; do
    port=$((20000 + ($$ * 3 + attempt) % 20000))
    node "$root/build/node_modules/@stoplight/prism-cli/dist/index.js" proxy "$root/server/http/definitions/inference.openapi.json" \
        "http://$address" --host 127.0.0.1 --port "$port" >prism.txt 2>&1 &
    proxy=$!
    started="$started $proxy"
    for _ in $(seq 600); do
        grep -q 'Prism is listening' prism.txt && break 2
        kill -0 "$proxy" 2>/dev/null || break
        sleep 0.05
    done
done
timeout 120 node "$here/calls.mjs" "http://127.0.0.1:$port" "http://$address" image.raw wanted.raw
kill "$server"
wait "$server"

#!/bin/sh
# serving.sh [SECONDS]: `xcvm serve` beside fastify with onnxruntime-node, which serve the same models to wrk for SECONDS (5) each:
# one connection and 16, JSON and binary tensors, and rows of the digits model with batches and without. h2load sends the same
# rows by gRPC. "beyond" is the median less that of the bare model, of the same run. The health check, which does nothing, is the
# least that a request takes on this machine: half of it is the time until wrk itself has woken up.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-5}
xcvm=$PWD/build/release/tools/xcvm
[ -x "$xcvm" ] || { echo "build first: make" >&2; exit 1; }
scripts/install-packages.sh wrk nghttp2-client curl nodejs python3-numpy
scripts/npm-package.sh onnxruntime-node && scripts/npm-package.sh fastify
models=${XCVM_MODELS:-bench/out/models}
[ -f "$models/mnist_8/model.onnx" ] || models=../shared/models
[ -f "$models/mnist_8/model.onnx" ] || { echo "mnist_8/model.onnx is in neither bench/out/models nor \$XCVM_MODELS" >&2; exit 1; }
work=$(mktemp -d)
started=
trap 'for process in $started; do kill "$process" 2>/dev/null || true; done; rm -rf "$work"' EXIT

wait_for() { # FILE PATTERN PROCESS
    for _ in $(seq 200); do
        grep -q "$2" "$1" && return
        kill -0 "$3" 2>/dev/null || break
        sleep 0.05
    done
    cat "$1" >&2
    exit 1
}
stop() { kill "$process" && wait "$process" 2>/dev/null || true; }
serve() { # OPTION...: sets $process and $address
    : >"$work/serve.err"
    "$xcvm" serve --http 127.0.0.1:0 --grpc 127.0.0.1:0 "$@" 2>"$work/serve.err" &
    process=$! started="$started $!"
    wait_for "$work/serve.err" 'serving at' "$process"
    address=$(sed -n 's/^xcvm serve: serving at //p' "$work/serve.err")
    grpc=$(sed -n 's/^xcvm serve: serving gRPC at //p' "$work/serve.err")
}
# row NAME FORM CONNECTIONS MEDIAN P99 RATE ERRORS
row() {
    [ "$7" = 0 ] || echo "$1: $7 errors" >&2
    printf '| %-34s | %-6s | %2d | %6d | %6d | %6d | %7d |\n' "$1" "$2" "$3" "$4" "$(($4 - bare))" "$5" "$6"
}
# measure NAME CONNECTIONS FORM URL BODY HEAD; without a body it is a GET
measure() {
    case $3 in binary) type=application/octet-stream ;; *) type=application/json ;; esac
    BODY=$5 TYPE=$type HEAD=$6 wrk -t1 -c"$2" -d1 -s bench/serving/request.lua "$4" >/dev/null
    BODY=$5 TYPE=$type HEAD=$6 wrk -t1 -c"$2" -d"$seconds" -s bench/serving/request.lua "$4" | sed -n 's/^RESULT //p' >"$work/result"
    read -r median p99 rate errors <"$work/result"
    row "$1" "$3" "$2" "$median" "$p99" "$rate" "$errors"
}
# measure_grpc NAME CONNECTIONS: h2load writes a line for each request, with its microseconds.
measure_grpc() {
    rm -f "$work/h2load.log" # it appends
    h2load -c"$2" -m1 -D"$seconds" -d "$work/grpc" -H 'content-type: application/grpc' -H 'te: trailers' \
        --log-file="$work/h2load.log" "http://$grpc/inference.GRPCInferenceService/ModelInfer" >/dev/null
    sort -n -k3,3 "$work/h2load.log" | awk -v seconds="$seconds" '{ us[NR] = $3; errors += $2 != 200 }
        END { print us[int((NR + 1) / 2)], us[int(NR * 0.99) + (NR == 1)], NR / seconds, errors + 0 }' >"$work/result"
    read -r median p99 rate errors <"$work/result"
    row "$1" grpc "$2" "$median" "$p99" "${rate%.*}" "$errors"
}
# model NAME FILE INPUT SHAPE: measures all servers.
model() {
    "$xcvm" compile "$2" --dim batch=1..4096 -o "$work/$1.bin" 2>/dev/null || "$xcvm" compile "$2" -o "$work/$1.bin"
    /usr/bin/python3 bench/serving/bodies.py "$1" "$3" "$4" "$work"
    bare=$("$xcvm" bench "$work/$1.bin" --dim batch=1 2>/dev/null | sed -n 's/.*median_ms=\([0-9.]*\).*/\1/p')
    [ -n "$bare" ] || bare=$("$xcvm" bench "$work/$1.bin" | sed -n 's/.*median_ms=\([0-9.]*\).*/\1/p')
    bare=$(awk "BEGIN { printf \"%.0f\", $bare * 1000 }")
    printf '\n%s: the bare model takes %s microseconds (median)\n\n' "$1" "$bare"
    echo '| server                             | form   |  c | p50 us | beyond | p99 us |   req/s |'
    echo '| ---------------------------------- | ------ | -: | -----: | -----: | -----: | ------: |'
    for batches in 32 1; do
        [ "$batches" = 32 ] && name='xcvm serve' || name='xcvm serve --max-batch 1'
        serve "$work/$1.bin" --max-batch "$batches" --inexact-batches
        [ "$batches" != 32 ] || measure 'xcvm serve, health check' 1 none "http://$address/v2/health/live" "" ""
        for c in 1 16; do
            measure "$name" $c binary "http://$address/v2/models/$1/infer" "$work/binary" "$(cat "$work/binary-head")"
            measure "$name" $c json "http://$address/v2/models/$1/infer" "$work/json" ""
            measure_grpc "$name" $c
        done
        stop
    done
    port=$((20000 + $$ % 20000))
    node bench/serving/peer.js "$2" "$port" "$PWD/bench/out" >"$work/peer.out" 2>&1 &
    process=$! started="$started $!"
    wait_for "$work/peer.out" ready "$process"
    for c in 1 16; do
        measure 'fastify and onnxruntime-node' $c binary "http://127.0.0.1:$port/binary" "$work/binary-peer" ""
        measure 'fastify and onnxruntime-node' $c json "http://127.0.0.1:$port/json" "$work/json" ""
    done
    stop
}

grep -m1 'model name' /proc/cpuinfo | sed 's/.*: //'
model mnist_8 "$models/mnist_8/model.onnx" Input3 1,1,28,28
model digits examples/digits/model.onnx image 1,1,8,8

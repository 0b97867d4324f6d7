# Serving over gRPC: the six calls, datatypes, compression, bad requests, limits, cancellation, and the end under load.
. "$(dirname "$0")/expect.sh"
. "$(dirname "$0")/serving.sh"
folder=$(cd "$(dirname "$0")" && pwd)
client=$folder/grpc_client.py
digits=$folder/../../examples/digits

# start ARGUMENTS...: serves at free ports until stop. Sets $address (of gRPC), $rest and $server.
start() {
    last="xcvm serve $*"
    serve "$@" --http 127.0.0.1:0
    address=$grpc
    [ -n "$address" ] || bad "does not start"
}
stop() {
    kill -"${1:-TERM}" "$server" 2>/dev/null
    wait "$server"
    status=$?
    code 0
}
client() { check /usr/bin/python3 "$client" "$address" "$@"; }

mkdir messages
check protoc -I"$folder/../../server/grpc/definitions" --python_out=messages inference.proto health.proto reflection.proto \
    reflection_v1alpha.proto
export PYTHONPATH=$work/messages GRPC_ENABLE_FORK_SUPPORT=0
programs doubles endless texts empty bytes counts
types='bool u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 f16 bf16'
# shellcheck disable=SC2086
programs_of $types

# Results have the bits of xcvm run.
/usr/bin/python3 -c 'import numpy as np; np.save("image.npy", np.random.RandomState(1).rand(3, 1, 8, 8).astype("f"))'
run run "$digits/model.onnx" --input image=@image.npy --output probabilities=@wanted.npy
code 0
# shellcheck disable=SC2086
start digits="$digits/model.onnx" texts.xcvm counts.xcvm doubles.xcvm triples=doubles.xcvm empty.xcvm bytes.xcvm $(printf '%s.xcvm ' $types) \
    --grpc 127.0.0.1:0 --access-log log.jsonl
client metadata
client digits image.npy wanted.npy
client types
client bad_requests
client large
client reflection
client traces "$rest"
stop
# Each line of the log is an object.
check /usr/bin/python3 -c 'import json
lines = [line for line in map(json.loads, open("log.jsonl")) if line["path"] != "/debug/trace"]
assert sum("trace_id" in line for line in lines) == 4
assert len(lines) > 50 and all({"time", "method", "path", "status", "grpc_status", "us"} <= set(line) for line in lines)
assert any(line.get("id") == "q\"\u00e9" and line["model"] == "digits" and line["sent"] for line in lines)
assert {0, 3, 5, 12, 13} <= {line["grpc_status"] for line in lines}'

# Limits: a queue of one request, one worker, small messages.
start endless.xcvm doubles.xcvm --grpc 127.0.0.1:0 --workers 1 --queue 1 --body-limit 2000
client busy "$rest"
client limits
stop INT

# Clients that misbehave do not disturb others.
start doubles.xcvm bytes.xcvm --grpc 127.0.0.1:0
check /usr/bin/python3 "$folder/grpc_hostile.py" "$address" http messages flow_control slow unanswered streams floods headers leaves
idle() { test "$(curl --silent --max-time 20 "http://$rest/v2/models/bytes/stats" | grep -c '"waiting":0,"running":0')" = 1; }
eventually idle
stop
start doubles.xcvm --grpc 127.0.0.1:0 --connections 20
check /usr/bin/python3 "$folder/grpc_hostile.py" "$address" connections
stop

# Access: keys, and addresses that others can reach.
printf 'a-key-of-many-characters\n' > key
run serve doubles.xcvm --http 127.0.0.1:0 --grpc 0.0.0.0:0
code 2
err_has 'needs an API key: --api-key-file, or --insecure'
run serve doubles.xcvm --http 127.0.0.1:0 --grpc 127.0.0.1
code 2
err_has '"127.0.0.1" is not an address'
start doubles.xcvm --grpc unix:here.sock --api-key-file key
address=unix:$work/here.sock
client key a-key-of-many-characters
stop

# SIGTERM: health checks and watches see it; the end of a watch is that of the server.
start doubles.xcvm --grpc 127.0.0.1:0 --drain-ms 600000
/usr/bin/python3 "$client" "$address" health >said 2>failed &
watches=$!
for _ in $(seq 400); do grep -q watching said && break; sleep 0.05; done
kill -TERM "$server"
for _ in $(seq 400); do grep -q drained said && break; sleep 0.05; done
stop
wait "$watches"
status=$?
code 0
check test ! -s failed

# SIGTERM under load: accepted requests complete.
start doubles.xcvm --grpc 127.0.0.1:0
/usr/bin/python3 "$client" "$address" load >begun 2>failed &
load=$!
for _ in $(seq 400); do [ -s begun ] && break; sleep 0.05; done
sleep 0.3
stop
wait "$load"
status=$?
code 0
check test ! -s failed
finish

# Traces of a server: trace contexts, spans for a collector that works or does not, the last traces, and rights.
. "$(dirname "$0")/expect.sh"
. "$(dirname "$0")/serving.sh"
folder=$(cd "$(dirname "$0")" && pwd)

# start ARGUMENTS...: serves at a free port until stop. Sets $address and $server.
start() {
    last="xcvm serve $*"
    serve doubles.xcvm --http 127.0.0.1:0 "$@"
    address=$rest
    [ -n "$address" ] || bad "does not start"
}
stop() {
    kill -TERM "$server" 2>/dev/null
    wait "$server"
    status=$?
    code 0
}
client() { check /usr/bin/python3 "$folder/trace_client.py" "$address" "$@"; }
get() { curl --silent --max-time 20 "http://$address$1"; }

programs doubles
port=$(/usr/bin/python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')

start --otlp-endpoint "http://127.0.0.1:$port" --otlp-service tests --access-log log.jsonl
client "$port" spans
client "$port" chrome
client "$port" headers
# The log has the identifier of the trace.
eventually grep -q '"trace_id":"0af7651916cd43dd8448eb211c80319c"' log.jsonl
if command -v promtool >/dev/null; then
    get /metrics > metrics.txt
    check sh -c 'promtool check metrics <metrics.txt'
fi
stop

# The end waits two seconds at most for a collector that is silent.
start --otlp-endpoint "http://localhost:$port/v1/traces"
client "$port" failures
stop

printf 'a-key-of-many-characters\n' > key
start --api-key-file key
client 0 key
stop

# Without a context, one request in N is traced.
start --trace-sample 1 --no-page
ask() { curl --silent --max-time 20 "http://$address/v2/models/doubles/infer" -d '{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1,2]}]}' "$@"; }
check test "$(ask --include | grep -c '^Traceresponse: 00-')" = 1
check test "$(ask --include --header "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00" | grep -c '^Traceresponse')" = 0
traced() { test "$(get /debug/trace | grep -c '"cat":"Request"')" = 1; }
eventually traced
check test "$(get / | grep -c 'there is no such path')" = 1
check test "$(get /page.js | grep -c 'there is no such path')" = 1
stop

run serve doubles.xcvm --otlp-endpoint https://127.0.0.1:4318
code 2
err_has 'expected http://HOST:PORT'
run serve doubles.xcvm --otlp-endpoint 127.0.0.1:4318
code 2
err_has 'is not the URL of a collector'
finish

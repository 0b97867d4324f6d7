# Serving: the REST protocol, bad requests, limits, reload, signals, systemd, directories and configuration files.
. "$(dirname "$0")/expect.sh"
. "$(dirname "$0")/serving.sh"
client=$(dirname "$0")/serve_client.py
digits=$(dirname "$0")/../../examples/digits

# start ARGUMENTS...: serves at a free port until stop. Sets $address and $server.
start() {
    last="xcvm serve $*"
    serve "$@"
    address=$rest
    [ -n "$address" ] || bad "does not start"
}
stop() {
    kill -"${1:-TERM}" "$server" 2>/dev/null
    wait "$server"
    status=$?
    code 0
}
client() { check /usr/bin/python3 "$client" "$address" "$@"; }
get() { curl --silent --max-time 20 "http://$address$1"; }

programs doubles triples endless texts counts

# Results have the bits of xcvm run.
run run "$digits/model.onnx" --random --dim batch=3 --save-input image=@image.npy --output probabilities=@wanted.npy
[ -e image.npy ] || /usr/bin/python3 -c 'import numpy as np; np.save("image.npy", np.random.RandomState(1).rand(3, 1, 8, 8).astype("f"))'
run run "$digits/model.onnx" --input image=@image.npy --output probabilities=@wanted.npy
code 0
start digits="$digits/model.onnx" texts.xcvm counts.xcvm doubles.xcvm --http 127.0.0.1:0 --access-log log.jsonl
client digits image.npy wanted.npy
client types
client bad_requests
client bad_http
client repository
check test "$(get /v2/models/digits | grep -c '"shape":\[-1,1,8,8\]')" = 1
if command -v promtool >/dev/null; then
    get /metrics > metrics.txt
    check sh -c 'promtool check metrics <metrics.txt'
fi
stop
# Each line of the log is an object.
check /usr/bin/python3 -c 'import json
lines = [json.loads(line) for line in open("log.jsonl")]
assert len(lines) > 50 and all({"time", "method", "path", "status", "us"} <= set(line) for line in lines)
assert any(line.get("id") == "q\"1" and line["model"] == "digits" for line in lines)'

# Limits: a queue of one request, one worker, small bodies.
start endless.xcvm doubles.xcvm --http 127.0.0.1:0 --workers 1 --queue 1 --body-limit 2000
client busy
client limits
stop INT

# Access: keys, and addresses that others can reach.
printf 'short\n' > short.key
printf 'a-key-of-many-characters\n' > key
run serve doubles.xcvm --http 0.0.0.0:0
code 2
err_has 'needs an API key: --api-key-file, or --insecure'
run serve doubles.xcvm --http 0.0.0.0:0 --api-key-file short.key
code 2
err_has 'Use at least 16'
start doubles.xcvm --http 127.0.0.1:0 --api-key-file key --no-admin
client key a-key-of-many-characters
stop
# A key that others can read is reported. As root, a group may read it.
for mode in 600 604 640; do
    chmod $mode key
    start doubles.xcvm --http 127.0.0.1:0 --api-key-file key
    case $mode$(id -u) in
    600* | 6400) check test "$(grep -c 'has a key' .err)" = 0 ;;
    *) err_has "key has a key that others than its owner can use (mode $mode). Run chmod 600 key" ;;
    esac
    stop
done
start doubles.xcvm --http unix:here.sock
check test "$(curl --silent --max-time 20 --unix-socket here.sock http://x/v2/health/live)" = '{"live":true}'
stop

# Administration at a socket of its own, for the user of the process.
start doubles.xcvm --http 127.0.0.1:0 --admin admin.sock
check test "$(stat -c %a admin.sock)" = 600
post() { curl --silent --output /dev/null --write-out '%{http_code}' --max-time 20 -X POST "$@"; }
check test "$(post "http://$address/v2/repository/models/doubles/unload")" = 403
check test "$(post "http://$address/v2/repository/index")" = 200
check test "$(post --unix-socket admin.sock http://x/v2/repository/models/doubles/unload)" = 200
check test "$(get /v2/models/doubles/ready | grep -c 'no such model')" = 1
check test "$(post --unix-socket admin.sock http://x/v2/repository/models/doubles/load)" = 200
stop
check test ! -e admin.sock

# The sandbox: no new privileges, a filter of system calls, and no files outside of the directories of the models.
mkdir inside outside
cp doubles.xcvm inside/model.xcvm
cp triples.xcvm outside/model.xcvm
start doubles=inside/model.xcvm --http 127.0.0.1:0
if ! grep -q 'no seccomp' .err; then
    check grep -q '^NoNewPrivs:.*1$' "/proc/$server/status"
    check grep -q '^Seccomp:.*2$' "/proc/$server/status"
fi
if ! grep -q 'no Landlock' .err; then
    ln -s ../outside/model.xcvm new.xcvm && mv new.xcvm inside/model.xcvm
    check test "$(post "http://$address/v2/repository/models/doubles/load")" = 400
    check test "$(get /v2/models/doubles/ready | grep -c '"ready":true')" = 1
    cp triples.xcvm new.xcvm && mv new.xcvm inside/model.xcvm
    check test "$(post "http://$address/v2/repository/models/doubles/load")" = 200
fi
stop
start doubles.xcvm --http 127.0.0.1:0 --no-sandbox
check grep -q '^Seccomp:.*0$' "/proc/$server/status"
stop

# A full disk for the log does not stop the service.
if [ -w /dev/full ]; then
    start doubles.xcvm --http 127.0.0.1:0 --access-log /dev/full
    client full_log
    stop
fi
# So does a log at the limit of file sizes. Later lines are whole.
ulimit -S -f 2
start doubles.xcvm --http 127.0.0.1:0 --access-log short.jsonl
client full_log
check test "$(wc -c <short.jsonl)" -le 2048
: >short.jsonl
client full_log
stop
ulimit -S -f unlimited
check sh -c "grep -v '^\$' short.jsonl | head -n 3 | grep -c '}\$' | grep -qx 3"

# Reload under load: a broken file keeps the old model, a good one replaces it, and no request fails.
cp doubles.xcvm model.xcvm
start doubles=model.xcvm --http 127.0.0.1:0 --drain-ms 600000
/usr/bin/python3 "$client" "$address" load 60 >answered 2>failed &
load=$!
printf 'broken\n' > new.xcvm && mv new.xcvm model.xcvm
kill -HUP "$server"
for _ in $(seq 200); do grep -q 'model.xcvm: ' .err && break; sleep 0.05; done
err_has 'model.xcvm: '
for _ in 1 2 3; do
    cp triples.xcvm new.xcvm && mv new.xcvm model.xcvm
    kill -HUP "$server"
    sleep 0.1
done
ask='{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1,2]}]}'
for _ in $(seq 200); do
    answer=$(curl --silent --max-time 20 "http://$address/v2/models/doubles/infer" -d "$ask")
    case $answer in *'"data":[3,6]'*) break ;; esac
    sleep 0.05
done
check test "${answer%'"data":[3,6]}]}'}" != "$answer"
# SIGTERM: not ready, but requests are served until a second signal ends the wait.
kill -TERM "$server"
for _ in $(seq 100); do
    [ "$(curl --silent --output /dev/null --write-out '%{http_code}' --max-time 20 "http://$address/v2/health/ready")" = 503 ] && break
    sleep 0.01
done
check test "$(curl --silent --output /dev/null --write-out '%{http_code}' --max-time 20 "http://$address/v2/models/doubles/infer" -d "$ask")" = 200
stop
wait "$load"
status=$?
code 0
check test ! -s failed

# Directories: Triton's layout, KServe's, and files.
mkdir -p triton/doubles/1 triton/doubles/12 triton/counts/3 kserve/digits files/.hidden
cp doubles.xcvm triton/doubles/1/model.xcvm
cp triples.xcvm triton/doubles/12/model.xcvm
cp counts.xcvm triton/counts/3/counts.xcvm
printf 'name: "doubles"\n' > triton/doubles/config.pbtxt
cp "$digits/model.onnx" kserve/digits/model.onnx
cp doubles.xcvm files/one.xcvm
cp triples.xcvm files/two.xcvm
start triton kserve/digits files --http 127.0.0.1:0
check test "$(get /v2/models/doubles | grep -c '"versions":\["1","12"\]')" = 1
for model in counts/versions/3 digits one two; do
    check test "$(get "/v2/models/$model/ready" | grep -c '"ready":true')" = 1
done
check test "$(curl --silent --max-time 20 "http://$address/v2/models/doubles/infer" -d "$ask" | grep -c '"model_version":"12".*\[3,6\]')" = 1
check test "$(curl --silent --max-time 20 "http://$address/v2/models/doubles/versions/1/infer" -d "$ask" | grep -c '\[2,4\]')" = 1
stop
mkdir empty
run serve empty
code 6
err_has 'empty has no models'
run serve missing.bin
code 6
run serve
code 2
err_has 'there is no model'

# Configuration files; the command line wins.
printf '# service\nmodel = doubles.xcvm\nhttp = 127.0.0.1:1\nqueue=7\n\nno-admin\n' > serve.conf
start --config serve.conf --http 127.0.0.1:0
check test "$(curl --silent --output /dev/null --write-out '%{http_code}' --max-time 20 -X POST "http://$address/v2/repository/models/doubles/unload")" = 403
stop
printf 'model = doubles.xcvm\nqueues = 7\n' > serve.conf
run serve --config serve.conf
code 2
err_has 'queues'
err_has 'serve.conf: the configuration is wrong'

# systemd: a socket from the parent, readiness, the watchdog.
cat > activate.py <<'END'
import os, socket, sys
listening = socket.socket()
listening.bind(("127.0.0.1", 0))
listening.listen(16)
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind("notify.sock")
notify.settimeout(60)
# In the backlog before the server is there.
early = socket.create_connection(listening.getsockname(), timeout=60)
early.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
child = os.fork()
if child == 0:
    os.dup2(listening.fileno(), 3)
    os.set_inheritable(3, True)
    os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", NOTIFY_SOCKET=os.path.abspath("notify.sock"),
                      WATCHDOG_USEC="100000", WATCHDOG_PID=str(os.getpid()))
    os.execv(sys.argv[1], ["xcvm", "serve", "doubles.xcvm"])
listening.close()
assert notify.recv(1000).startswith(b"READY=1")
assert early.recv(65536).startswith(b"HTTP/1.1 200")
assert notify.recv(1000) == b"WATCHDOG=1"
os.kill(child, 15)
while notify.recv(1000) != b"STOPPING=1":
    pass
assert os.waitpid(child, 0)[1] == 0
END
check /usr/bin/python3 activate.py "$xcvm"
finish

# Serving with TLS: REST and gRPC, certificates that are wrong or renewed, and clients that misbehave.
. "$(dirname "$0")/expect.sh"
. "$(dirname "$0")/serving.sh"
folder=$(cd "$(dirname "$0")" && pwd)
digits=$folder/../../examples/digits

# start ARGUMENTS...: serves at free ports until stop. Sets $rest, $grpc and $server.
start() {
    last="xcvm serve $*"
    serve "$@" --http 127.0.0.1:0 --grpc 127.0.0.1:0
    [ -n "$rest" ] || bad "does not start"
}
stop() {
    kill -TERM "$server" 2>/dev/null
    wait "$server"
    status=$?
    code 0
}

# An authority, and certificates of it: certificate NAME DAYS.
new_key() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "$@" 2>/dev/null; }
certificate() {
    new_key -keyout "$1.key" -out request.pem -subj /CN=localhost &&
        openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days "$2" -extfile names -out "$1.pem" 2>/dev/null
}
new_key -x509 -keyout ca.key -out ca.pem -days 30 -subj /CN=authority
printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\n' >names
for of in 'one 30' 'two 30' 'old -1'; do
    # shellcheck disable=SC2086
    check certificate $of
done
openssl ec -in one.key -aes128 -passout pass:abcd -out locked.key 2>/dev/null
export CA=$work/ca.pem

programs doubles bytes

# Files that are missing or wrong.
refused() { # CERTIFICATE KEY CODE MESSAGE
    run serve doubles.xcvm --http 127.0.0.1:0 --tls-cert "$1" --tls-key "$2"
    code "$3"
    err_has "$4"
}
refused none.pem one.key 6 'none.pem: cannot be read: No such file or directory'
refused one.pem none.key 6 'none.key: cannot be read'
mkfifo pipe.pem
refused pipe.pem one.key 2 'pipe.pem: is not a regular file'
refused one.pem . 2 '.: is not a regular file'
refused one.key one.key 2 'one.key: is not a certificate in PEM form'
refused one.pem one.pem 2 'one.pem: is not a private key in PEM form'
refused one.pem locked.key 2 'locked.key: is not a private key in PEM form without a password'
refused one.pem two.key 2 'two.key: is not the private key of the certificate one.pem'
refused old.pem old.key 2 'old.pem: the certificate expired on '
run serve doubles.xcvm --http 127.0.0.1:0 --tls-key one.key
code 2
err_has 'Add --tls-cert FILE'

# The same clients as without TLS.
mkdir messages certificates
check protoc -I"$folder/../../server/grpc/definitions" --python_out=messages inference.proto health.proto reflection.proto \
    reflection_v1alpha.proto
export PYTHONPATH=$work/messages GRPC_ENABLE_FORK_SUPPORT=0
/usr/bin/python3 -c 'import numpy as np; np.save("image.npy", np.random.RandomState(1).rand(3, 1, 8, 8).astype("f"))'
run run "$digits/model.onnx" --input image=@image.npy --output probabilities=@wanted.npy
code 0
cp one.pem certificates/cert.pem
cp one.key certificates/key.pem
start digits="$digits/model.onnx" doubles.xcvm bytes.xcvm --tls-cert certificates/cert.pem --tls-key certificates/key.pem --admin admin.sock
# Handshakes that stop take until the server ends them.
/usr/bin/python3 -W ignore "$folder/tls_client.py" "$rest" hostile >hostile.txt 2>&1 &
hostile=$!
check /usr/bin/python3 "$folder/serve_client.py" "$rest" digits image.npy wanted.npy
check /usr/bin/python3 "$folder/serve_client.py" "$rest" bad_http
check /usr/bin/python3 "$folder/grpc_client.py" "localhost:${grpc##*:}" digits image.npy wanted.npy
check /usr/bin/python3 "$folder/grpc_client.py" "localhost:${grpc##*:}" large
for case in pipelined many; do
    check /usr/bin/python3 "$folder/tls_client.py" "$rest" $case
done
check /usr/bin/python3 "$folder/tls_client.py" "$grpc" large_call
get() { curl --silent --max-time 20 --cacert ca.pem "$@"; }
for version in 1.2 1.3; do
    check test "$(get --tlsv$version --tls-max $version "https://localhost:${rest##*:}/v2/health/live")" = '{"live":true}'
done
# Without an authority the client refuses; the administration has no TLS.
check test "$(curl --silent --max-time 20 "https://localhost:${rest##*:}/v2/health/live")" = ''
check test "$(curl --silent --max-time 20 --unix-socket admin.sock http://x/v2/health/live)" = '{"live":true}'
s_client() { timeout 20 openssl s_client -connect "$1" -CAfile ca.pem "${@:2}" 2>&1; }
check grep -q 'ALPN protocol: h2' <<<"$(s_client "$grpc" -alpn h2 </dev/null | tr -d '\0')"
check grep -qi 'no application protocol' <<<"$(s_client "$grpc" -alpn http/1.1 </dev/null | tr -d '\0')"
check grep -qi 'no renegotiation' <<<"$(echo R | s_client "$rest" -tls1_2 | tr -d '\0')"

# A renewed certificate serves new connections; one that is wrong does not.
mkfifo questions
/usr/bin/python3 "$folder/tls_client.py" "$rest" stays <questions >serials &
stays=$!
exec 7>questions
serial() { openssl x509 -noout -serial -in "$1" | sed 's/serial=//'; }
line() { # NUMBER EXPECTED
    for _ in $(seq 400); do [ "$(wc -l <serials)" -ge "$1" ] && break; sleep 0.05; done
    check test "$(sed -n "$1p" serials)" = "$2"
}
reload() { # MESSAGE
    kill -HUP "$server"
    for _ in $(seq 400); do grep -q "$1" .err && break; sleep 0.05; done
    err_has "$1"
}
line 1 "$(serial one.pem)"
cp two.pem certificates/new && mv certificates/new certificates/cert.pem
reload 'is not the private key of'
echo >&7
line 2 "$(serial one.pem)"
check test "$(grep -c 'has a key' .err)" = 0
cp two.key certificates/new && chmod 644 certificates/new && mv certificates/new certificates/key.pem
reload 'certificates/key.pem has a key that others than its owner can use (mode 644)'
err_has 'certificate was read again'
echo >&7
line 3 "$(serial two.pem)"
exec 7>&-
wait "$stays"
status=$?
code 0
wait "$hostile"
check sh -c "cat hostile.txt; exit $?"
stop
finish

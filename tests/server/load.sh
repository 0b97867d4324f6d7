#!/bin/sh
# load.sh BUILD [RELOADS REQUESTS SECONDS LEAVERS]: `xcvm serve` under load. Nothing may fail while models are reloaded, while the
# server is asked for ten times of what it can do. Prints figures. Without numbers it is short. Those of a whole run are
# 100 100000 20 200.
set -eu
build=$(cd "$1" && pwd)
reloads=${2:-10} requests=${3:-4000} seconds=${4:-1} leavers=${5:-10}
xcvm=$build/tools/xcvm load=$build/tests/server_load
work=$(mktemp -d)
tools=$(cd "$(dirname "$0")/../tools" && pwd)
cd "$work"

die() {
    echo "load.sh: $*" >&2
    tail -n 20 "$work"/.err "$work"/*.err >&2 || true
    exit 1
}
. "$tools/serving.sh"
# start ARGUMENTS...: sets $server and $address.
start() {
    serve --http 127.0.0.1:0 "$@"
    address=$rest
    [ -n "$address" ] || die "the server does not start"
}
stop() {
    kill -TERM "$server"
    wait "$server" || die "the server ended with an error"
}
value() { sed -n "s/.*\\b$1=\\([0-9.]*\\).*/\\1/p" "$2"; }

programs doubles endless
# A few milliseconds.
cat >slow.xcvm <<'END'
xcvm 1
input x f32[2]
output y f32[2]
constant w f32[384x384] = random[1]
$1 = In(name="x")
$2 = MatMul(@w, @w)
$3 = ReduceMax($2, i64[2] 0 1, keepdims=0)
$4 = Mul($3, f32[] 0)
$5 = Add($1, $4)
Out($5, name="y")
END

# Reloads under load: each request is answered with 200.
start doubles.xcvm --admin admin.sock
"$load" "$address" closed 8 "$requests" doubles >reload.txt 2>load.err &
loader=$!
done=0
while [ "$done" -lt "$reloads" ]; do
    status=$(curl --silent --output /dev/null --write-out '%{http_code}' --max-time 60 --unix-socket admin.sock -X POST \
        http://x/v2/repository/models/doubles/load)
    [ "$status" = 200 ] || die "reload: status $status"
    done=$((done + 1))
done
# The load may end before the last reload.
wait "$loader" || die "a request failed during reloads"
[ "$(value accepted reload.txt)" = "$requests" ] || die "reloads: $(cat reload.txt)"
stop
echo "reloads: $reloads, $(cat reload.txt)"

# A client that leaves frees the only worker.
start endless.xcvm doubles.xcvm --workers 1
"$load" "$address" leave "$leavers" endless doubles >leave.txt 2>load.err || die "a client that waits for another to leave"
stop
echo "leave: $(cat leave.txt)"

# Overload: ten times the capacity. Nothing but 200, 429 and 504.
start slow.xcvm --workers 1 --threads 1
"$load" "$address" closed 4 50 slow >/dev/null 2>load.err || die "requests that warm up"
"$load" "$address" closed 4 "$((seconds * 100 + 50))" slow >capacity.txt 2>load.err || die "requests one after the other"
capacity=$(value goodput capacity.txt)
"$load" "$address" open 64 "$(awk "BEGIN { printf \"%d\", $capacity * 10 }")" "$seconds" slow 30000 >overload.txt 2>load.err ||
    die "overload"
# How many are refused depends on what else the machine does.
[ "$(value accepted overload.txt)" -gt 0 ] || die "overload: $(cat overload.txt)"
stop
echo "capacity: $capacity requests a second"
echo "overload: $(cat overload.txt)"
awk "BEGIN { printf \"goodput is %.1f %% of the capacity\\n\", $(value goodput overload.txt) / $capacity * 100 }"

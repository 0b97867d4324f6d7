# Sourced by scripts that test `xcvm serve`: servers, and small programs. The caller sets $xcvm and $work, and is in $work.
#
#   serve ARGUMENTS...      starts a server; sets $server, and the addresses $rest and $grpc (empty: none)
#   eventually COMMAND...   a check of what the server records after it has sent a response
#   programs NAME...        writes NAME.xcvm
#   programs_of TYPE...     writes TYPE.xcvm, which returns two elements of the type
#
# Servers that are left are killed at the end of the script, and $work is removed.
started=
trap 'for process in $started; do kill -9 "$process" 2>/dev/null || true; done; rm -rf "$work"' EXIT

serve() {
    : >.err # the address of an earlier server must not be read before the shell has opened the file
    "$xcvm" serve "$@" >.out 2>.err </dev/null &
    server=$!
    started="$started $server"
    for _ in $(seq 600); do
        rest=$(sed -n 's/^xcvm serve: serving at //p' .err)
        [ -z "$rest" ] && kill -0 "$server" 2>/dev/null || break
        sleep 0.05
    done
    grpc=$(sed -n 's/^xcvm serve: serving gRPC at //p' .err)
}

eventually() {
    for _ in $(seq 400); do
        "$@" >/dev/null 2>&1 && break
        sleep 0.05
    done
    check "$@"
}

# A program of one operation: operation TYPE SHAPE EXPRESSION.
operation() { printf 'xcvm 1\ninput x %s%s\noutput y %s%s\n$1 = In(name="x")\n$2 = %s\nOut($2, name="y")\n' "$1" "$2" "$1" "$2" "$3"; }
copy() { printf 'xcvm 1\ninput x %s\noutput y %s\n$1 = In(name="x")\nOut($1, name="y")\n' "$1" "$1"; }
program() {
    case $1 in
    doubles) operation f32 '[2]' 'Add($1, $1)' ;;
    triples) operation f32 '[2]' 'Mul($1, f32[] 3)' ;;
    quotients) operation f32 '[2]' 'Div($1, $1)' ;;
    texts) operation str '[2]' 'StringConcat($1, str[] "x")' ;;
    endless) printf 'xcvm 1\ninput x f32[2]\nloop:\n$1 = Neg(f32[1] 1)\nFree($1)\nJmp(to=loop)\n' ;;
    empty) copy 'f32[0]' ;;
    bytes) copy 'u8[N]' ;;
    counts) # adds to a state
        cat <<'PROGRAM'
xcvm 1
input x f32[2]
output y f32[2]
state total f32[2] = @start
constant start f32[2] = 10 20
$1 = In(name="x")
$2 = Load(name="total")
$3 = Add($1, $2)
Store($3, name="total")
Out($3, name="y")
PROGRAM
        ;;
    *)
        echo "serving.sh: there is no program $1" >&2
        exit 2
        ;;
    esac
}
programs() { for name; do program "$name" >"$name.xcvm"; done; }
programs_of() { for type; do copy "${type}[2]" >"$type.xcvm"; done; }

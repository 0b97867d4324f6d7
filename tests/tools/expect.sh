# Sourced by the cli_*.sh scripts, which are called as: cli_x.sh XCVM DATA
#
#   run ARGUMENTS...      runs the command; fails no test by itself
#   code N                its exit code
#   out TEXT, out_has TEXT, out_lacks TEXT, out_line TEXT    its standard output: all of it, a part, not there, a line
#   err TEXT, err_has TEXT                                   its standard error
#   check COMMAND...      any other condition
#
# A script ends with `finish`.
xcvm=$1
data=$2
script=$(basename "$0" .sh)
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
passed=0
failed=0
last=
export LC_ALL=C XDG_CACHE_HOME=$work/.cache
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}exitcode=99

run() {
    last="xcvm $*"
    "$xcvm" "$@" >"$work/.out" 2>"$work/.err" </dev/null
    status=$?
}

# With standard input from a file or pipe of the caller's.
run_in() {
    last="xcvm $*"
    "$xcvm" "$@" >"$work/.out" 2>"$work/.err"
    status=$?
}

good() { passed=$((passed + 1)); }

bad() {
    failed=$((failed + 1))
    echo "$script: $last: $1"
    sed 's/^/    out: /' "$work/.out" | head -20
    sed 's/^/    err: /' "$work/.err" | head -20
}

code() { if [ "$status" -eq "$1" ]; then good; else bad "exit code $status, not $1"; fi; }
out() { if [ "$(cat "$work/.out")" = "$1" ]; then good; else bad "prints something else than: $1"; fi; }
err() { if [ "$(cat "$work/.err")" = "$1" ]; then good; else bad "reports something else than: $1"; fi; }
out_has() { if grep -qF -e "$1" "$work/.out"; then good; else bad "does not print: $1"; fi; }
out_lacks() { if grep -qF -e "$1" "$work/.out"; then bad "prints: $1"; else good; fi; }
out_line() { if grep -qxF -e "$1" "$work/.out"; then good; else bad "has no line: $1"; fi; }
out_like() { if grep -qE -e "$1" "$work/.out"; then good; else bad "prints nothing like: $1"; fi; }
err_has() { if grep -qF -e "$1" "$work/.err"; then good; else bad "does not report: $1"; fi; }
check() { if "$@" >"$work/.check" 2>&1; then good; else bad "fails: $*: $(head -3 "$work/.check")"; fi; }

# An expectation that is misspelt fails the script. The shell calls this in a process of its own, so it leaves a file.
command_not_found_handle() {
    echo "$script: there is no $1" | tee -a "$work/.unknown" >&2
    return 127
}

finish() {
    echo "$script: $passed passed, $failed failed"
    [ "$failed" -eq 0 ] && [ ! -e "$work/.unknown" ]
    exit
}

# Assembles standard input.
assemble() { "$xcvm" asm - -o "$1" || bad "cannot assemble $1"; }

# A number as protobuf writes it.
varint() {
    local number=$1
    while [ "$number" -ge 128 ]; do
        printf "\\x$(printf %x $((number % 128 + 128)))"
        number=$((number / 128))
    done
    printf "\\x$(printf %x "$number")"
}

# Prints a model: a chain of N nodes of 29 bytes each. Input and output have 23 bytes, the name of the graph 3.
chain() {
    local nodes=$1
    printf '\x08\x08\x42\x04\x0a\x00\x10\x11\x3a'
    varint $((nodes * 29 + 2 * 23 + 3))
    printf '\x12\x01g'
    awk -v nodes="$nodes" 'BEGIN {
        for (i = 0; i < nodes; i++)
            printf "\012\033\012\007t%06d\022\007t%06d\042\007Sigmoid", i, i + 1
    }'
    printf '\x5a\x15\x0a\x07t000000\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x04'
    printf '\x62\x15\x0a\x07t%06d\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x04' "$nodes"
}

#!/bin/sh
# unittest.sh PYTHON ARGUMENT...: runs `PYTHON -m unittest ARGUMENT...`, prints what it prints, and counts its tests in a last line.
set -eu
log=$(mktemp)
trap 'rm -f "$log"' EXIT
code=0
python=$1
shift
"$python" -m unittest "$@" >"$log" 2>&1 || code=$?
cat "$log"
[ "$code" != 0 ] || awk '/^Ran [0-9]+ tests/ { ran = $2 }
    /^OK/ { skipped = /skipped=/ ? $0 : 0; gsub(/[^0-9]/, "", skipped); print ran - skipped " passed, 0 failed, " skipped + 0 " skipped" }' "$log"
exit "$code"

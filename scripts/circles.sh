#!/bin/sh
# circles.sh: no includes in circles, neither between files, a source and its header being one, nor between the rooms of a
# folder.
set -eu
cd "$(dirname "$0")/.."
# The includes of the project's own files as pairs, "from to": of files, or, with -rooms, of the folders they are in.
pairs() {
    git ls-files '*.c' '*.h' | grep -E '^(base|ops|proto|vm|compiler|tools)/' | xargs awk -v rooms="$1" '
    function place(path) { if (rooms) sub(/\/[^\/]*$/, "", path); else sub(/\.[^.\/]*$/, "", path); return path }
    FNR == 1 { from = place(FILENAME) }
    /^[ \t]*#[ \t]*include[ \t]*"(base|ops|proto|vm|compiler|tools)\// {
        split($0, part, "\"")
        to = place(part[2])
        if (to != from)
            print from, to
    }'
}
for rooms in 0 1; do
    count=$(pairs $rooms | sort -u | wc -l)
    [ "$count" -gt $((rooms ? 20 : 500)) ] || { echo "only $count includes were found" >&2; exit 1; }
    pairs $rooms | sort -u | tsort >/dev/null
done
echo "no includes in circles"

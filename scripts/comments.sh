#!/bin/sh
# comments.sh [HEADER...]: comments and blank lines are at most 45 % of the lines of each public header.
# A line counts as a comment if it has nothing else.
set -eu
cd "$(dirname "$0")/.."
limit=45 bad=0
[ $# -gt 0 ] || set -- include/xcvm/*.h
for header; do
    awk -v limit=$limit '
        { line = $0; total++; code = "" }
        {
            while (line != "") {
                if (inside) {
                    end = index(line, "*/")
                    if (end == 0) break
                    line = substr(line, end + 2)
                    inside = 0
                } else {
                    start = index(line, "/*")
                    if (start == 0) { code = code line; break }
                    code = code substr(line, 1, start - 1)
                    line = substr(line, start + 2)
                    inside = 1
                }
            }
            if (code ~ /^[ \t]*$/) other++
        }
        END {
            share = 100 * other / total
            printf "%s: %d of %d lines are comments or blank, %.1f %%\n", FILENAME, other, total, share
            exit share > limit
        }' "$header" || { echo "$header: more than $limit % comments and blank lines; move reference material to docs/" >&2; bad=1; }
done
exit $bad

#!/bin/sh
# lengths.sh: no function of the C sources is longer than 60 lines, from its name to its closing brace, and no file than 600.
set -eu
cd "$(dirname "$0")/.."
git ls-files -co --exclude-standard '*.c' '*.h' | LC_ALL=C sort | xargs awk -v functions=60 -v files=600 '
# clang-format gives the brace that opens a function a line of its own, and no other at the margin.
FNR == 1 { check_file() }
/^\{$/ { name = first; opened = FNR - 1 }
/^\}/ {
    if (opened > 0) {
        count++
        if (FNR - opened + 1 > functions)
            too_long(FILENAME ":" opened ": " FNR - opened + 1 " lines, " functions " are the most: " name)
    }
    opened = 0
}
# The first line of a declaration has its name.
/^[A-Za-z]/ { first = $0 }
{ file = FILENAME; length_of_file = FNR }
function check_file() {
    if (length_of_file > files)
        too_long(file ": " length_of_file " lines, " files " are the most")
    opened = 0
}
function too_long(what) { print what; wrong++ }
END {
    check_file()
    print count " functions, " wrong + 0 " functions and files too long"
    exit wrong > 0
}'

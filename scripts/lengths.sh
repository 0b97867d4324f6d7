#!/bin/sh
# lengths.sh: fails if a function of the C sources is longer than 60 lines, from its name to its closing brace. A file of more than
# 600 lines is a warning: it may hold two concepts. Never cut one at a number. It also fails for lines of case files of more than
# 120 columns.
set -eu
cd "$(dirname "$0")/.."
if git ls-files -co --exclude-standard 'tests/ops/*.xcvm' | LC_ALL=C.UTF-8 xargs grep -lE '^.{121,}$'; then
    echo 'lengths.sh: lines of case files have up to 120 columns; tests/tidy_cases.py FILE makes them legible' >&2
    exit 1
fi
git ls-files -co --exclude-standard '*.c' '*.h' | LC_ALL=C sort | xargs awk -v functions=60 -v files=600 '
# clang-format puts the opening brace of a function on its own line, and no other brace at the margin.
FNR == 1 { check_file() }
/^\{$/ { name = first; opened = FNR - 1 }
/^\}/ {
    if (opened > 0) {
        count++
        if (FNR - opened + 1 > functions) {
            print FILENAME ":" opened ": " FNR - opened + 1 " lines, " functions " are the most: " name
            wrong++
        }
    }
    opened = 0
}
# The first line of a declaration has its name.
/^[A-Za-z]/ { first = $0 }
{ file = FILENAME; length_of_file = FNR }
function check_file() {
    if (length_of_file > files)
        print file ": warning: " length_of_file " lines, more than " files
    opened = 0
}
END {
    check_file()
    print count " functions, " wrong + 0 " too long"
    exit wrong > 0
}'

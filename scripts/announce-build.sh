#!/bin/sh
# announce-build.sh BUILD: before the first build, prints the number of files to build and an estimate of the time.
set -eu
[ ! -e "$1/tools/xcvm" ] || exit 0
steps=$(ninja -C "$1" -t commands | grep -c .)
cores=$(nproc)
parts='the libraries, the command and the examples'
! grep -q '^XCVM_TESTS:[A-Z]*=ON' "$1/CMakeCache.txt" || parts="$parts, and the tests"
# A step takes 0.24 seconds of one core of a server from 2024. The estimate is for an older one.
echo "building $parts: $steps steps on $cores cores, about $((steps * 4 / 10 / cores / 60 + 1)) min"

#!/bin/sh
# announce-build.sh BUILD: says how much there is to build, and about how long it takes.
set -eu
steps=$(ninja -C "$1" -n 2>/dev/null | sed -n 's|^\[1/\([0-9]*\)\].*|\1|p' | tail -n 1)
[ "${steps:-0}" -gt 10 ] || exit 0
cores=$(nproc)
# A file takes a second or so of one core: most are small, and some kernels take a minute.
echo "building the libraries, the command and the tests: $steps steps on $cores cores, about $((steps * 12 / 10 / cores / 60 + 1)) min"

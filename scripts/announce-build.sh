#!/bin/sh
# announce-build.sh BUILD: before the first build, says how much there is to build, and about how long it takes.
set -eu
[ ! -e "$1/tools/xcvm" ] || exit 0
steps=$(ninja -C "$1" -t commands | grep -c .)
cores=$(nproc)
# A file takes a core 1.2 seconds: most are small, and some kernels take a minute.
echo "building the libraries, the command and the tests: $steps steps on $cores cores, about $((steps * 12 / 10 / cores / 60 + 1)) min"

#!/bin/sh
# docs.sh BUILD: makes the documentation site in BUILD/docs/html from docs/ and the public headers. A warning is an error.
set -eu
cd "$(dirname "$0")/.."
out=$1/docs
rm -rf "$out"
mkdir -p "$out"
{
    cat docs/site/Doxyfile
    echo "INPUT = include/xcvm"
    echo "OUTPUT_DIRECTORY = $out"
    echo 'INPUT_FILTER = "awk -f docs/site/comments.awk"'
} >"$out/Doxyfile"
doxygen "$out/Doxyfile"
XCVM_DOXYGEN_XML="$PWD/$out/xml" sphinx-build -W --keep-going -q -c docs/site -b html docs "$out/html"
echo "$out/html/index.html"

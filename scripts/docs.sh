#!/bin/sh
# docs.sh BUILD [--pictures]: makes the documentation site in BUILD/docs/html from docs/ and the public headers. A warning is an
# error. --pictures: takes the pictures of the site anew with BUILD/tools/xcvm.
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
XCVM_DOXYGEN_XML="$PWD/$out/xml" sphinx-build -W --keep-going -q -c docs/site -d "$out/doctrees" -b html docs "$out/html"
if [ "${2-}" = --pictures ]; then
    scripts/pictures.sh "$1" "$out/reports" "$out/pictures"
    for picture in "$out/pictures"/*.png; do
        [ -e "$out/html/_images/${picture##*/}" ] || { echo "no page shows ${picture##*/}" >&2 && exit 1; }
        cp "$picture" "$out/html/_images/"
    done
fi
echo "$out/html/index.html"

#!/bin/sh
# generated.sh BUILD [--check]: renews the pages, and the lines of pages, that come from the tables and the tree, or says
# which are stale.
set -eu
xcvm=$1/tools/xcvm
fresh=$1/generated-docs
rm -rf "$fresh"
mkdir -p "$fresh/manual"
"$xcvm" ops --markdown >"$fresh/instructions.md"
"$xcvm" ops --onnx --markdown >"$fresh/onnx-operators.md"
scripts/house.sh >"$fresh/house.svg"
awk -f scripts/tape-calls.awk "$1/generated/xcvm/tape_calls.h" >"$fresh/tape-calls.md"
for page in docs/manual/*.md; do
    "$xcvm" help "$(basename "$page" .md)" --markdown >"$fresh/manual/$(basename "$page")"
done
# The order of the passes, where the architecture tells it.
chain=$("$xcvm" compile --list-passes | awk '{ printf "%s -> ", $1 }')
sed "s/^    import -> .*/    import -> ${chain}plan -> emit/" docs/architecture.md >"$fresh/architecture.md"
stale=0
for page in $(cd "$fresh" && echo ./*.md ./*.svg manual/*.md); do
    if [ "${2-}" = --check ]; then
        cmp -s "$fresh/$page" "docs/$page" || { echo "docs/${page#./} is stale: make generated" >&2; stale=1; }
    else
        cp "$fresh/$page" "docs/$page"
    fi
done
exit $stale

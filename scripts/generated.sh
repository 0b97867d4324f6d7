#!/bin/sh
# generated.sh BUILD [--check]: renews the pages and figures that are made from the tables and the tree. With --check it
# names those that are stale.
set -eu
xcvm=$1/tools/xcvm
fresh=$1/generated-docs
rm -rf "$fresh"
mkdir -p "$fresh/manual"
"$xcvm" ops --markdown >"$fresh/instructions.md"
"$xcvm" ops --onnx --markdown >"$fresh/onnx-operators.md"
awk -f scripts/tape-calls.awk "$1/generated/xcvm/tape_calls.h" >"$fresh/tape-calls.md"
mkdir -p "$fresh/figures" "$fresh/architecture"
scripts/layers_figure.sh >"$fresh/layers.svg"
scripts/passes_figure.sh "$xcvm" >"$fresh/figures/passes.svg"
for figure in docs/figures/*.txt; do
    awk -f scripts/figure.awk "$figure" >"$fresh/figures/$(basename "$figure" .txt).svg"
done
for page in docs/manual/*.md; do
    "$xcvm" help "$(basename "$page" .md)" --markdown >"$fresh/manual/$(basename "$page")"
done
# The order of the passes in the page of the compiler.
chain=$("$xcvm" compile --list-passes | awk '{ printf "%s -> ", $1 }')
sed "s/^    import -> .*/    import -> ${chain}plan -> emit/" docs/architecture/compiler.md >"$fresh/architecture/compiler.md"
stale=0
for page in $(cd "$fresh" && echo ./*.md ./*.svg figures/*.svg architecture/*.md manual/*.md); do
    if [ "${2-}" = --check ]; then
        cmp -s "$fresh/$page" "docs/$page" || { echo "docs/${page#./} is stale: make generated" >&2; stale=1; }
    else
        cp "$fresh/$page" "docs/$page"
    fi
done
exit $stale

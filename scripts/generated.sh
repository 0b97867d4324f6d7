#!/bin/sh
# generated.sh BUILD [--check]: writes the pages and figures that are made from the tables and the tree, and the symbols of
# the Debian package. --check writes nothing, and names the pages that are out of date, missing, or without a subcommand or
# header of their name.
set -eu
xcvm=$1/tools/xcvm
fresh=$1/generated-docs
rm -rf "$fresh"
mkdir -p "$fresh/manual" "$fresh/api" "$fresh/python"
"$xcvm" ops --markdown >"$fresh/instructions.md"
"$xcvm" ops --onnx --markdown >"$fresh/onnx-operators.md"
awk -f scripts/tape-calls.awk "$1/generated/xcvm/tape_calls.h" >"$fresh/tape-calls.md"
mkdir -p "$fresh/figures" "$fresh/architecture"
scripts/layers_figure.sh >"$fresh/layers.svg"
scripts/passes_figure.sh "$xcvm" >"$fresh/figures/passes.svg"
for figure in docs/figures/*.txt; do
    awk -f scripts/figure.awk "$figure" >"$fresh/figures/$(basename "$figure" .txt).svg"
done
# A page for each subcommand, and one for tensors.
commands=$("$xcvm" help | awk '/^$/ { listed = 0 } listed && /^  [a-z]/ { print $1 } /^Commands$/ { listed = 1 }')
[ "$(echo "$commands" | wc -w)" -gt 10 ] || { echo 'xcvm help lists fewer subcommands than expected' >&2; exit 1; }
for command in $commands spec; do
    "$xcvm" help "$command" --markdown >"$fresh/manual/$command.md"
done
# A page for each public header.
for header in include/xcvm/*.h; do
    name=$(basename "$header")
    printf '# %s\n\n```{eval-rst}\n.. doxygenfile:: %s\n```\n' "$name" "$name" >"$fresh/api/${name%.h}.md"
done
# What the front end of Python source knows, from its tables and those of its tests.
for page in calls constructs; do
    PYTHONDONTWRITEBYTECODE=1 python3 "python/tests/source/${page}_page.py" >"$fresh/python/$page.md"
done
# The order of the passes in the page of the compiler.
chain=$("$xcvm" compile --list-passes | awk '{ printf "%s -> ", $1 }')
sed "s/^    import -> .*/    import -> ${chain}plan -> emit/" docs/architecture/compiler.md >"$fresh/architecture/compiler.md"
stale=0
for page in $(cd "$fresh" && echo ./*.md ./*.svg figures/*.svg architecture/*.md manual/*.md api/*.md python/*.md); do
    if [ "${2-}" = --check ]; then
        cmp -s "$fresh/$page" "docs/$page" || { echo "docs/${page#./} is stale: make generated" >&2; stale=1; }
    else
        cp "$fresh/$page" "docs/$page"
    fi
done
# Pages that nothing makes any more.
for page in $(cd docs && echo manual/*.md api/*.md); do
    [ -e "$fresh/$page" ] && continue
    if [ "${2-}" = --check ]; then
        echo "docs/$page has no subcommand or header: make generated" >&2
        stale=1
    else
        rm "docs/$page"
    fi
done
[ "${2-}" = --check ] || scripts/debian.sh symbols "$1"
exit $stale

#!/bin/sh
# lowerings.sh BUILD: whether each ONNX operator becomes the instructions that compiler/import_onnx/lower/
# operators.def says. The models of the suites of lowerings and all conformance cases, with those of tests/differential/contrib.sh, are compiled, and the graph is
# looked at as it was imported.
# Without the cases that tests/differential/contrib.sh makes, those of com.microsoft are left out.
# An instruction that an operator becomes but its row does not name, or the other way round, is one line of output.
set -eu
build=$1
xcvm=$build/tools/xcvm
ls "$build"/*-cases/complete >/dev/null 2>&1 || { echo "there are no conformance cases in $build"; exit 1; }
"$xcvm" ops | awk '$1 ~ /^[0-9]+$/ { print $2 }' >"$build/lowerings-instructions.txt"
# OPERATOR|instructions.
"$xcvm" ops --onnx --markdown | awk -F' [|] ' -v contrib="$(ls "$build/contrib-cases/complete" 2>/dev/null)" '
/^\| [A-Z]/ && (contrib != "" || $2 != "com.microsoft") { sub(/^\| /, "", $1); sub(/ \|$/, "", $4); print $1 "|" $4 }' \
    >"$build/lowerings-said.txt"
rm -rf "$build/lowerings-models"
mkdir "$build/lowerings-models"
for suite in tests/compiler/import_onnx/test_*.c; do
    suite=$(basename "$suite" .c)
    XCVM_KEEP_MODELS=$build/lowerings-models "$build/tests/xcvm_tests" "compiler_${suite#test_}" >/dev/null
done
# OPERATOR INSTRUCTION, of nodes as "y: f32[2] = Add(a, b)  # Sum name". One process for all models: starting one for each took
# most of the time.
find -L "$build"/*-cases "$build/lowerings-models" -name '*.onnx' | sort | "$build/tests/onnx_lowerings" >"$build/lowerings-graphs.txt"
sed -n 's/^ *\([^#]* = \)\{0,1\}\([A-Za-z0-9]*\)(.*)  # \([A-Za-z0-9]*\).*/\3 \2/p' "$build/lowerings-graphs.txt" | sort -u \
    >"$build/lowerings-seen.txt"
awk '
FILENAME ~ /instructions/ { instruction[$1]; next }
FILENAME ~ /said/ {
    at = index($0, "|")
    operator = substr($0, 1, at - 1)
    text = substr($0, at + 1)
    operators[operator] = operators[operator] " " text # of all domains that have one of that name
    count = split(text, words, /[^A-Za-z0-9]+/)
    for (i = 1; i <= count; i++)
        if (words[i] in instruction)
            said[operator, words[i]]
    next
}
{ sub(/^Chainer/, "", $1); seen[$1, $2]; there[$1] }
END {
    for (pair in seen) {
        split(pair, part, SUBSEP)
        if (part[1] in operators && part[2] in instruction && !(pair in said)) {
            print part[1] " becomes " part[2] " too: " operators[part[1]]
            wrong++
        }
    }
    for (pair in said) {
        split(pair, part, SUBSEP)
        if (!(part[1] in there)) {
            unseen[part[1]]
        } else if (!(pair in seen)) {
            print part[1] " does not become " part[2] ": " operators[part[1]]
            wrong++
        }
    }
    for (operator in unseen) {
        print "no case has " operator
        wrong++
    }
    print wrong + 0 " differences between what operators become and what is said of them"
    exit wrong > 0
}' "$build/lowerings-instructions.txt" "$build/lowerings-said.txt" "$build/lowerings-seen.txt"

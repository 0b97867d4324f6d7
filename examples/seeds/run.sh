#!/bin/sh
# run.sh [BUILD]: runs the samples in the style of other frameworks, and compares their output with expected.txt, which
# PyTorch has computed.
set -eu
build=${1:-build/release}
here=$(dirname "$0")
got=$(mktemp)
trap 'rm -f "$got"' EXIT
for sample in pytorch chainer dynet paddle builder autograd static rnnlm; do
    echo "$sample"
    "$build/examples/seed_$sample"
done | sed 's/-0\.0000/0.0000/g' >"$got"
diff "$here/expected.txt" "$got" && echo "all samples print what is expected"

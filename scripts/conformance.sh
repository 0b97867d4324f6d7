#!/bin/sh
# conformance.sh BUILD: ONNX's own operator cases, made by Debian's python3-onnx.
#
# tests/conformance.txt lists the cases that pass with a looser tolerance only, or not at all, each with its reason; any
# other failure is one. Then the cases of tests/make_FAMILY_cases.py, which all pass; those of family gradient with their
# gradients, at every level of optimization.
set -eu
build=$1
cases=$build/onnx-cases
if ! /usr/bin/python3 -c 'import onnx' 2>/dev/null; then
    echo "python3-onnx is not installed; make test installs it"
    exit 1
fi
if [ ! -f "$cases/complete" ]; then
    rm -rf "$cases"
    /usr/bin/python3 tests/make_onnx_cases.py "$cases" >/dev/null 2>&1
    touch "$cases/complete"
fi
"$build/tools/xcvm" test "$cases/node" "$cases/simple" --rtol 1e-3 --atol 1e-7 --shape-only 'test_bernoulli*' \
    --shape-only 'test_training_dropout*' >"$build/conformance.txt" && code=0 || code=$?
tail -n 1 "$build/conformance.txt"
# 1: some failed, which the list below is about.
[ "$code" -le 1 ] || { echo "xcvm test ended with $code"; exit 1; }
awk '$1 == "FAIL" { print $2 }' "$build/conformance.txt" | sed 's|.*/||; s/:$//' | sort >"$build/conformance-failed.txt"
sed '/^#/d; /^$/d; s/[ :].*//' tests/conformance.txt | sort >"$build/conformance-known.txt"
unexpected=$(comm -23 "$build/conformance-failed.txt" "$build/conformance-known.txt")
better=$(comm -13 "$build/conformance-failed.txt" "$build/conformance-known.txt")
[ -z "$unexpected" ] || { echo "fail, but are not in tests/conformance.txt:"; echo "$unexpected"; }
[ -z "$better" ] || { echo "pass, but are listed in tests/conformance.txt:"; echo "$better"; }
[ -z "$unexpected$better" ] || exit 1
sed -n 's/^\([a-z_0-9A-Z]*\) \([0-9].*\) \([0-9].*\):.*/\1 \2 \3/p' tests/conformance.txt | while read -r name rtol atol; do
    "$build/tools/xcvm" test "$cases"/*/"$name" --rtol "$rtol" --atol "$atol" --list-failures
done

for family in plus control attention gradient; do
    cases=$build/$family-cases
    case $family in
    plus | gradient)
        if ! /usr/bin/python3 -c 'import torch, torchvision' 2>/dev/null; then
            echo "python3-torch or python3-torchvision is not installed; make test installs it"
            exit 1
        fi
        ;;
    esac
    generator=tests/make_${family}_cases.py
    if [ ! -f "$cases/complete" ] || [ -n "$(find "$generator" tests/case_models.py tests/definitions.py docs/instructions.md -newer "$cases/complete")" ]; then
        rm -rf "$cases"
        /usr/bin/python3 -B -W ignore "$generator" "$cases" 2>"$cases.log" || { cat "$cases.log"; exit 1; }
        touch "$cases/complete"
    fi
    if [ "$family" = gradient ]; then
        for level in 0 1 2; do
            "$build/tools/xcvm" test "$cases" --backprop -O "$level" --rtol 1e-3 --atol 1e-5 --list-failures -q
        done
    else
        "$build/tools/xcvm" test "$cases" --rtol 1e-3 --atol 1e-6 --list-failures
    fi
done

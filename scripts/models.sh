#!/bin/sh
# models.sh BUILD: whole models with known results: the project's digits, the models of ../shared/models, and those that
# bench/make_models.sh made in $XCVM_MODELS or bench/out/models.
set -eu
xcvm=$1/tools/xcvm
set -- examples/digits
for model in ../shared/models/* "${XCVM_MODELS:-bench/out/models}"/*; do
    [ ! -f "$model/model.onnx" ] || set -- "$@" "$model"
done
[ $# -gt 1 ] || echo "note: only the digits, no other models are here"
agree() { "$xcvm" test "$@" --rtol 1e-3 --atol 1e-4; }
agree "$@"
# Nor does it matter how far they are optimized, by how many threads they are run, or by which kernels.
agree "$@" -O0 --threads 1
agree "$@" -O1 --threads 2
agree "$@" -O2 --threads 2
for isa in $(sed -n "/^#define XCVM_ISAS_$(uname -m)(/,/^\$/s/.*ISA(of, [A-Z]*, [^\"]*\"\([^\"]*\)\".*/\1/p" base/isas.h); do
    "$xcvm" run examples/digits/model.onnx --random --isa "$isa" >/dev/null 2>&1 || continue # this CPU has it not
    agree "$@" --isa "$isa"
done

# same_bits PROGRAM: with one thread as with three.
same_bits() {
    for threads in 1 3; do
        "$xcvm" run "$1" --random --seed 1 --threads "$threads" --max-elements 10000000 \
            >"$work/$threads.txt" 2>"$work/notes.txt"
    done
    cmp "$work/1.txt" "$work/3.txt"
}

# A program gives the same bits with any number of threads. It is the same after a trip through text assembly, and any protobuf tool can read it.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for model; do
    "$xcvm" compile "$model/model.onnx" -o "$work/p.bin"
    "$xcvm" dump "$work/p.bin" | "$xcvm" asm - -o "$work/q.bin"
    cmp "$work/p.bin" "$work/q.bin"
    "$xcvm" dump "$work/p.bin" >"$work/p.txt"
    same_bits "$work/p.bin"
    # Weights in half precision are close, and give the same bits with any number of threads, too.
    "$xcvm" compile "$model/model.onnx" -o "$work/h.bin" --weights f16
    "$xcvm" diff --outputs-only --random --seed 1 --rtol 5e-2 --atol 1e-1 "$work/p.bin" "$work/h.bin"
    same_bits "$work/h.bin"
    protoc --decode=xcvm.XCProgram --proto_path="$(dirname "$xcvm")/../generated" xcvm.proto <"$work/p.bin" |
        head -c 1000000 | grep -q '^instructions'
done

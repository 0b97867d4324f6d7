#!/bin/sh
# valgrind.sh BUILD: a load, a run and the errors of both under memcheck. The CPU's widest instructions are hidden from
# the program by valgrind itself, so this runs the narrower kernels.
set -eu
xcvm=$1/tools/xcvm
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
check() {
    expected=$1
    shift
    code=0
    valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite,indirect "$@" \
        >"$work/out" 2>&1 || code=$?
    [ "$code" = "$expected" ] || { cat "$work/out"; echo "exit code $code, expected $expected: $*"; exit 1; }
}
check 0 "$xcvm" compile examples/digits/model.onnx -o "$work/digits.bin"
check 0 "$xcvm" run "$work/digits.bin" --input image=@examples/digits/images/7.png
check 0 "$xcvm" dump "$work/digits.bin" -o "$work/digits.txt"
check 0 "$xcvm" asm "$work/digits.txt" -o "$work/again.bin"
head -c 3000 "$work/digits.bin" >"$work/short.bin"
check 3 "$xcvm" run "$work/short.bin"
head -c 30000 examples/digits/model.onnx >"$work/short.onnx"
check 3 "$xcvm" compile "$work/short.onnx" -o "$work/none.bin"
[ ! -e "$work/none.bin" ]

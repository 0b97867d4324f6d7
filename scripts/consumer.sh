#!/bin/sh
# consumer.sh BUILD: installs into a folder of its own, builds the example against it in both ways, and runs it.
set -eu
build=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/.." && pwd)
root=$build/consumer
rm -rf "$root"
cmake --install "$build" --prefix "$root/prefix" >/dev/null
"$root/prefix/bin/xcvm" compile "$source/examples/digits/model.onnx" -o "$root/digits.bin"

libdir=$(dirname "$(dirname "$(find "$root/prefix" -name xcvm.pc)")")
PKG_CONFIG_PATH=$libdir/pkgconfig
export PKG_CONFIG_PATH
# The tree is elsewhere than it was configured for, which the file has to bear.
flags_of() { pkg-config --cflags --libs "$1"; }
flags=$(flags_of xcvm)
# shellcheck disable=SC2086 # flags are words
cc -Wall -Wextra -Werror "$source/examples/embed.c" $flags -lpthread -Wl,-rpath,"$libdir" -o "$root/embed"
"$root/embed" "$root/digits.bin"
flags=$(flags_of xcvm-compiler)
# shellcheck disable=SC2086 # flags are words
c++ -Wall -Wextra -Wpedantic -Werror "$source/tests/consumer/compile.cpp" $flags -Wl,-rpath,"$libdir" -o "$root/compile"
"$root/compile" "$source/examples/digits/model.onnx"
# shellcheck disable=SC2086 # flags are words
cc -Wall -Wextra -Werror "$source/examples/train.c" $flags -Wl,-rpath,"$libdir" -o "$root/train"
"$root/train" "$source/examples/digits/untrained.onnx" "$source/examples/digits/digits.npz" "$root/trained.onnx"

cmake -S "$source/tests/consumer" -B "$root/cmake" -DCMAKE_PREFIX_PATH="$root/prefix" \
    -DEMBED_SOURCE="$source/examples/embed.c" >/dev/null
cmake --build "$root/cmake" >/dev/null
"$root/cmake/embed" "$root/digits.bin"
"$root/cmake/compile" "$source/examples/digits/model.onnx"
"$root/prefix/bin/xcvm" run "$root/digits.bin" --input image=@"$source/examples/digits/images/3.png"

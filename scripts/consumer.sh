#!/bin/sh
# consumer.sh BUILD: installs into a temporary directory, builds the example against it with pkg-config and CMake, and
# runs it.
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
flags=$(flags_of xcvm-server)
# shellcheck disable=SC2086 # flags are words
cc -Wall -Wextra -Werror "$source/examples/service.c" $flags -lpthread -Wl,-rpath,"$libdir" -o "$root/service"
[ "$(yes 0.5 | head -n 128 | "$root/service" "$root/digits.bin" | grep -c '^greatest element: ')" = 2 ]
flags=$(flags_of xcvm-compiler)
# The calls of the tape are macros in C and functions in C++.
for standard in 11 17 20; do
    # shellcheck disable=SC2086 # flags are words
    c++ -std=c++$standard -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror "$source/tests/consumer/tape.cpp" $flags \
        -Wl,-rpath,"$libdir" -o "$root/tape"
    "$root/tape"
done
# README's snippet is C and C++, as the body of a function.
{
    echo '#include <xcvm/xcvm.h>'
    echo 'int fail(const char *message);'
    echo 'int classify(const int64_t *dims, void *pixels);'
    echo 'int classify(const int64_t *dims, void *pixels)'
    echo '{'
    awk '/^```/ { inside = !inside && /^```c$/; next } inside' "$source/README.md"
    echo '    return result[0] > 0;'
    echo '}'
} >"$root/snippet.c"
cp "$root/snippet.c" "$root/snippet.cpp"
# shellcheck disable=SC2086 # flags are words
cc -std=c11 -Wall -Wextra -Wpedantic -Werror -c "$root/snippet.c" $flags -o "$root/snippet.o"
# shellcheck disable=SC2086 # flags are words
c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -c "$root/snippet.cpp" $flags -o "$root/snippet.o"
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

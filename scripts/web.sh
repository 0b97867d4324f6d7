#!/bin/sh
# web.sh: builds the WebAssembly modules and the npm package in build/web/package, and checks the sizes of the modules.
# Needs the packages of WEB_PACKAGES in the Makefile; `make web` installs them.
set -eu
cd "$(dirname "$0")/.."
for tool in clang-19 wasm-ld-19 wasm-opt brotli; do
    command -v "$tool" >/dev/null 2>&1 || { echo "there is no $tool; run make web, which installs it" >&2; exit 1; }
done
scripts/debian-source.sh protobuf-c 1.4.1
cmake --preset web "$@" >/dev/null
cmake --build --preset web
package=build/web/package
rm -rf "$package"
mkdir -p "$package"
cp -r web/js web/playground web/package.json LICENSE "$package"
mkdir "$package/playground/digits"
cp examples/digits/model.onnx examples/digits/untrained.onnx examples/digits/digits.npz "$package/playground/digits"
cp compiler/export_c/javascript/source.js "$package/js"
cp docs/web.md "$package/README.md"
cp build/web/xcvm.wasm build/web/xcvm-threads.wasm build/web/xcvm-compiler.wasm "$package/js"

# Users download the modules compressed. Thousands of bytes, as of brotli -q 11.
check() {
    bytes=$(brotli -q 11 -w 24 -c "build/web/$1" | wc -c)
    echo "$1: $(stat -c %s "build/web/$1") bytes, $bytes with brotli"
    [ "$bytes" -le $(($2 * 1000)) ] || { echo "build/web/$1 is larger than $2 KB with brotli; cmake/dependencies-wasi.cmake says which sources are compiled for speed" >&2; exit 1; }
}
check xcvm.wasm 450
check xcvm-threads.wasm 450
check xcvm-compiler.wasm 750

#!/bin/sh
# web.sh: builds the WebAssembly modules and the npm package in build/web/package, and checks the sizes of the modules. Builds
# the package of the native addon in build/web/node_modules/@xcvm, unless XCVM_WEB_NATIVE=no.
# Needs the packages of WEB_PACKAGES in the Makefile; `make web` installs them.
set -eu
cd "$(dirname "$0")/.."
for tool in clang-19 wasm-ld-19 llvm-ar-19 brotli; do
    command -v "$tool" >/dev/null 2>&1 || { echo "there is no $tool; run make web, which installs it" >&2; exit 1; }
done
scripts/debian-source.sh protobuf-c 1.4.1
cmake --preset web "$@" >/dev/null
cmake --build --preset web
package=build/web/package
rm -rf "$package"
mkdir -p "$package"
cp -r web/js web/playground web/package.json web/README.md LICENSE "$package"
mkdir "$package/playground/digits"
cp examples/digits/model.onnx examples/digits/untrained.onnx examples/digits/digits.npz "$package/playground/digits"
cp compiler/export_c/javascript/source.js "$package/js"
machines="xcvm xcvm-relaxed xcvm-threads xcvm-threads-relaxed"
compilers="xcvm-compiler xcvm-compiler-relaxed"
for module in $machines $compilers; do cp build/web/$module.wasm "$package/js"; done

# Users download the modules compressed. Thousands of bytes, as of brotli -q 11.
check() {
    bytes=$(brotli -q 11 -w 24 -c "build/web/$1" | wc -c)
    echo "$1: $(stat -c %s "build/web/$1") bytes, $bytes with brotli"
    [ "$bytes" -le $(($2 * 1000)) ] || { echo "build/web/$1 is larger than $2 KB with brotli; cmake/dependencies-wasi.cmake says which sources are compiled for speed" >&2; exit 1; }
}
for module in $machines; do check $module.wasm 450; done
for module in $compilers; do check $module.wasm 750; done

[ "${XCVM_WEB_NATIVE:-}" != no ] || exit 0
case $(uname -m) in
x86_64) arch=x64 ;;
aarch64) arch=arm64 ;;
*) echo "there is no native package for $(uname -m)"; exit 0 ;;
esac
cmake --preset release >/dev/null
grep -q '^NODE_INCLUDE_DIR:PATH=.*NOTFOUND' build/release/CMakeCache.txt && { echo "there is no node_api.h; run make web, which installs it" >&2; exit 1; }
cmake --build --preset release --target xcvm_node
native=build/web/node_modules/@xcvm/linux-$arch
rm -rf "$native"
mkdir -p "$native"
strip -o "$native/xcvm.node" build/release/web/node/xcvm.node
# The addon finds libraries beside itself. Every system with Node has the others.
for library in $(readelf -dW "$native/xcvm.node" | sed -n 's/.*(NEEDED).*\[\(libprotobuf-c.*\)\]/\1/p'); do
    cp "$(/sbin/ldconfig -p | awk -v name="$library" '$1 == name { print $NF; exit }')" "$native"
done
version=$(sed -n 's/^  "version": "\(.*\)",$/\1/p' web/package.json)
sed -e "s/@ARCH@/$arch/g" -e "s/@VERSION@/$version/" web/node/package.json.in >"$native/package.json"
cp LICENSE "$native"
echo "xcvm.node: $(stat -c %s "$native/xcvm.node") bytes"

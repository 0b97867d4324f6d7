#!/bin/sh
# symbols.sh BUILD: what the shared objects export is what the public headers declare, no more and no less.
set -eu
build=$1
exported() { nm -D --defined-only "$build/$1" | awk '$2 ~ /[TDBR]/ { print $3 }' | sort -u; }
# A call of a function pointer in a comment would look like a declaration: only lines with XCVM_API count, joined.
api() { tr '\n' ' ' <"$1" | grep -oE "XCVM_API[^;]*;" | grep -oE "\bxc(vm|c|t)_[a-z0-9_]+\(" | tr -d '('; }
# LIBRARY HEADER...
compare() {
    library=$1
    shift
    for header; do api "$header"; done | sort -u >"$build/symbols/declared"
    exported "$library" >"$build/symbols/exported"
    diff -u "$build/symbols/declared" "$build/symbols/exported" || { echo "$library and its headers differ" >&2; exit 1; }
    echo "$library: $(wc -l <"$build/symbols/exported") functions"
}
mkdir -p "$build/symbols"
compare libxcvm.so include/xcvm/xcvm.h include/xcvm/files.h
# The compiler's library has all others.
compare libxcvm-compiler.so $(ls include/xcvm/*.h | grep -vE "/(xcvm|files).h")

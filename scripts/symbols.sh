#!/bin/sh
# symbols.sh BUILD: what the shared objects export is what the public headers declare, no more and no less.
set -eu
build=$1
exported() { nm -D --defined-only "$build/$1" | awk '$2 ~ /[TDBR]/ { print $3 }' | sort -u; }
# A call of a function pointer in a comment would look like a declaration: only lines with XCVM_API count, joined.
api() { tr '\n' ' ' <"include/xcvm/$1.h" | grep -oE "XCVM_API[^;]*;" | grep -oE "\b$2_[a-z0-9_]+\(" | tr -d '(' | sort -u; }
mkdir -p "$build/symbols"
# Each library, its headers and what their functions begin with.
for line in 'libxcvm.so xcvm:xcvm' 'libxcvm-compiler.so compiler:xcc tape:xcvm'; do
    library=${line%% *}
    for header in ${line#* }; do
        api "${header%%:*}" "${header#*:}"
    done | sort -u >"$build/symbols/declared"
    exported "$library" >"$build/symbols/exported"
    diff -u "$build/symbols/declared" "$build/symbols/exported" || { echo "$library and its header differ" >&2; exit 1; }
    echo "$library: $(wc -l <"$build/symbols/exported") functions"
done

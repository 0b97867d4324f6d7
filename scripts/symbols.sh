#!/bin/sh
# symbols.sh BUILD: what the shared objects export is what the public headers declare, no more and no less.
set -eu
build=$1
exported() { nm -D --defined-only "$build/$1" | awk '$2 ~ /[TDBR]/ { print $3 }' | sort -u; }
# A call of a function pointer in a comment would look like a declaration: only lines with XCVM_API count, joined.
api() { tr '\n' ' ' <"include/xcvm/$1.h" | grep -oE "XCVM_API[^;]*;" | grep -oE "\b$2_[a-z0-9_]+\(" | tr -d '(' | sort -u; }
mkdir -p "$build/symbols"
# Libraries, and behind each the headers whose functions it has, with their prefix.
while read -r library headers; do
    for header in $headers; do api "${header%%:*}" "${header#*:}"; done | sort -u >"$build/symbols/declared"
    exported "$library" >"$build/symbols/exported"
    diff -u "$build/symbols/declared" "$build/symbols/exported" || { echo "$library and its headers differ" >&2; exit 1; }
    echo "$library: $(wc -l <"$build/symbols/exported") functions"
done <<END
libxcvm.so xcvm:xcvm
libxcvm-compiler.so compiler:xcc train:xct tape:xcvm layers:xcvm
END

#!/bin/sh
# symbols.sh BUILD: the shared objects export exactly the functions that the public headers declare, and each of them has an
# example, a test or a page that uses it.
set -eu
build=$1
exported() { nm -D --defined-only "$build/$1" | awk '$2 ~ /[TDBR]/ { print $3 }' | sort -u; }
# A call of a function pointer in a comment would look like a declaration: only lines with XCVM_API count, joined.
api() { tr '\n' ' ' <"$1" | grep -oE "XCVM_API[^;]*;" | grep -oE "\bxc(vm|c|t|s)_[a-z0-9_]+\(" | tr -d '('; }
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
compare libxcvm-server.so $(ls include/xcvm/server*.h)
# The compiler's library has all others.
compare libxcvm-compiler.so $(ls include/xcvm/*.h | grep -vE "/(xcvm|files|server.*).h")

# Each public function is used by an example, a test or a page.
git ls-files examples tests 'docs/*.md' README.md | xargs cat 2>/dev/null | grep -aoE '\bxc(vm|c|t|s)_[A-Za-z0-9_]+' | sort -u >"$build/symbols/used"
for header in include/xcvm/*.h; do api "$header"; done | sort -u | comm -23 - "$build/symbols/used" >"$build/symbols/unused"
[ ! -s "$build/symbols/unused" ] || { cat "$build/symbols/unused"; echo 'no example, test or page uses these functions' >&2; exit 1; }

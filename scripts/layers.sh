#!/bin/sh
# layers.sh: a folder includes those below it in docs/architecture.md's table of floors, never one above it or beside it;
# tools and examples include public headers alone, and none but the compiler sees ONNX.
set -eu
cd "$(dirname "$0")/.."
git ls-files 'include/*.h' '*.c' '*.h' '*.def' '*.in' | grep -E '^(include|base|ops|proto|vm|compiler|tools|examples)/' | xargs awk '
BEGIN { split("include base ops proto vm compiler tools", order); for (i in order) floor[order[i]] = i; floor["examples"] = floor["tools"] }
/^[ \t]*#[ \t]*include[ \t]*["<]/ {
    split(FILENAME, path, "/")
    from = path[1]
    split($0, part, /["<>]/)
    split(part[2], name, "/")
    to = name[1] == "xcvm" ? "include" : name[1]
    seen++
    if (name[1] == "onnx" && from != "compiler") {
        print FILENAME ":" FNR ": " from " must not see " part[2]
        wrong++
    }
    if (!(to in floor) || to == from)
        next
    # The two tables that the tools share with the library depend on the public header alone, or on nothing.
    if (FILENAME == "tools/values/number.c" && part[2] == "base/element.h" || FILENAME == "base/element.h" && to == "include")
        next
    if (floor[from] == floor["tools"] && part[2] == "base/isas.h")
        next
    if (floor[to] >= floor[from] || floor[from] == floor["tools"] && to != "include" || FILENAME == "base/element.h" || FILENAME == "base/isas.h") {
        print FILENAME ":" FNR ": " from " must not include " part[2]
        wrong++
    }
}
END { print seen " includes, " wrong + 0 " against the order of floors"; exit wrong > 0 || seen < 1000 }'

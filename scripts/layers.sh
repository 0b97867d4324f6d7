#!/bin/sh
# layers.sh: the house stands. A folder includes those below it in docs/architecture.md's table of floors, never one above it
# or beside it; a room of a floor includes those that the table below grants it; no two files include each other in a
# circle. A folder of more than 40 sources is a warning. Tools and examples include public headers alone,
# and none but the compiler sees ONNX.
set -eu
cd "$(dirname "$0")/.."

# Each room and the rooms of its floor that it may use, beside itself, the floor's own files and its folder simd. A floor's
# own files use none, but for those named in a line of their own.
rooms='
ops/table: ops/util ops/conv ops/optimizer
ops/util:
ops/simd: ops/util
ops/elementwise: ops/util
ops/reduce: ops/util
ops/norm: ops/util
ops/data: ops/util
ops/text: ops/util
ops/image: ops/util
ops/signal: ops/util
ops/ml: ops/util
ops/random: ops/util
ops/optimizer: ops/util
ops/sequence: ops/util ops/data
ops/matmul: ops/util ops/elementwise
ops/conv: ops/util ops/elementwise ops/matmul
ops/conv_gradient: ops/util ops/conv ops/matmul
ops/pool: ops/util ops/conv
ops/quantize: ops/util ops/conv ops/matmul
ops/attention: ops/util ops/matmul
ops/recurrent: ops/util ops/matmul ops/quantize
tools/main.c: tools/cli tools/io tools/commands
tools/cli:
tools/io: tools/cli
tools/values: tools/cli
tools/tensors: tools/cli tools/io tools/values
tools/run: tools/cli tools/io tools/values tools/tensors
tools/commands: tools/cli tools/io tools/values tools/tensors tools/run
compiler/driver: compiler/ir compiler/import_onnx compiler/export_onnx compiler/onnx_model compiler/passes compiler/states compiler/kernel_library compiler/emit compiler/gradients compiler/layout compiler/recompute compiler/training
compiler/ir:
compiler/passes: compiler/ir
compiler/states: compiler/ir compiler/passes
compiler/layout: compiler/ir compiler/passes
compiler/recompute: compiler/ir compiler/emit
compiler/gradients: compiler/ir
compiler/training: compiler/ir compiler/gradients
compiler/kernel_library: compiler/ir
compiler/export_c: compiler/export_c/c_runtime
compiler/export_c/c_runtime:
compiler/import_onnx: compiler/ir compiler/onnx_model compiler/import_onnx/lower
compiler/import_onnx/contrib: compiler/ir compiler/onnx_model compiler/import_onnx/lower
compiler/import_onnx/lower: compiler/ir compiler/onnx_model compiler/gradients
compiler/export_onnx: compiler/ir compiler/onnx_model compiler/import_onnx/lower
compiler/onnx_model: compiler/ir compiler/import_onnx/lower
compiler/emit: compiler/ir compiler/kernel_library
compiler/quantize: compiler/ir compiler/onnx_model compiler/training compiler/import_onnx/lower
train: train/data
train/data:
tape/layers:
tape/optimizers:
tape/static:
'
# Files that are one thing in several parts, so that a part includes the header of the whole: the products of f32, whose
# special shapes are tried by the general one.
circles='ops/matmul/simd/gemm ops/matmul/simd/gemm_small ops/matmul/simd/gemm_tile ops/matmul/simd/gemv'

git ls-files -co --exclude-standard '*.c' '*.h' '*.def' '*.in' | grep -vE '^(tests|bench|cmake)/' |
    xargs awk -v rooms="$rooms" -v circles="$circles" '
function fail(text) { print text; wrong++ }
function folder(file) { sub(/\/[^\/]*$/, "", file); return file }
# The room that a file is in: its folder, without simd below a family.
function room(file) {
    file = folder(file)
    if (file ~ /\/.*\/simd$/)
        sub(/\/simd$/, "", file)
    return file
}
# A table (.def) is none of the file of its name, which may be made of it.
function module(file) { if (file !~ /\.def$/) sub(/\.[a-z]*$/, "", file); return file }
BEGIN {
    # The table of floors: | 6 | `train/` | ...
    while ((getline line <"docs/architecture.md") > 0)
        if (line ~ /^\| [0-9]+ \| `/) {
            split(line, cell, "|")
            count = split(cell[3], part, "`")
            for (i = 2; i <= count; i += 2) {
                sub(/\/.*/, "", part[i])
                floor[part[i]] = cell[2] + 1
            }
        }
    count = split(rooms, lines, "\n")
    for (i = 1; i <= count; i++) {
        split(lines[i], part, ":")
        known[part[1]] = 1
        granted = split(part[2], names, " ")
        for (j = 1; j <= granted; j++)
            grant[part[1], names[j]] = 1
    }
    count = split(circles, names, " ")
    for (i = 1; i <= count; i++)
        whole[names[i]] = 1
}
FNR == 1 {
    present[FILENAME] = 1
    files[folder(FILENAME)]++
}
/^[ \t]*#[ \t]*include[ \t]*["<]/ {
    split(FILENAME, path, "/")
    from = path[1]
    split($0, part, /["<>]/)
    split(part[2], name, "/")
    to = name[1] == "xcvm" ? "include" : name[1]
    seen++
    if (name[1] == "onnx" && from != "compiler")
        fail(FILENAME ":" FNR ": " from " must not see " part[2])
    target = part[2]
    if (from == "tools" && !(to in floor))
        target = "tools/" target
    if (name[1] == "xcvm")
        target = "include/" target
    else if (from == "include" && !(to in floor))
        target = folder(FILENAME) "/" target
    edge[module(FILENAME), ++edges[module(FILENAME)]] = module(target)
    if (!(to in floor))
        next
    if (to == from) {
        here = room(FILENAME)
        there = room(target)
        if (from != "examples" && there != here && there != from && there != from "/simd" && !((here, there) in grant) &&
            !((FILENAME, there) in grant))
            fail(FILENAME ":" FNR ": " here " must not include " target)
        next
    }
    # The two tables that the tools share with the library depend on the public header alone, or on nothing.
    if (FILENAME == "tools/values/number.c" && part[2] == "base/element.h" || FILENAME == "base/element.h" && to == "include")
        next
    if (FILENAME == "tools/run/isa_choices.h" && part[2] == "base/isas.h")
        next
    if (floor[to] >= floor[from] || floor[from] == floor["tools"] && to != "include" || FILENAME ~ /^base\/(element|isas)\.h$/)
        fail(FILENAME ":" FNR ": " from " must not include " part[2])
}
END {
    for (file in present) {
        here = room(file)
        split(file, path, "/")
        if (here ~ /\// && path[1] != "include" && path[1] != "examples" && !(here in known) && !(here in told)) {
            told[here] = 1
            fail(here ": a room that scripts/layers.sh does not know")
        }
        if (!(path[1] in floor) && !(path[1] in told)) {
            told[path[1]] = 1
            fail(path[1] ": a folder that the table of docs/architecture.md does not know")
        }
        modules[module(file)] = 1
    }
    for (here in files)
        if (files[here] > 40)
            print here ": warning: " files[here] " sources, more than 40"
    # What includes nothing that is left is in no circle.
    do {
        removed = 0
        for (m in modules) {
            free = 1
            for (i = 1; i <= edges[m] && free; i++)
                free = !(edge[m, i] in modules) || edge[m, i] == m || (m in whole && edge[m, i] in whole)
            if (free) {
                delete modules[m]
                removed++
            }
        }
    } while (removed > 0)
    # What nothing that is left includes only leads to one.
    do {
        removed = 0
        split("", used)
        for (m in modules)
            for (i = 1; i <= edges[m]; i++)
                if (edge[m, i] != m)
                    used[edge[m, i]] = 1
        for (m in modules)
            if (!(m in used)) {
                delete modules[m]
                removed++
            }
    } while (removed > 0)
    for (m in modules)
        fail(m ": includes itself through others")
    print seen " includes, " wrong + 0 " against the order of the house"
    exit wrong > 0 || seen < 1000
}'

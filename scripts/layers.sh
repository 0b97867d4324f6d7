#!/bin/sh
# layers.sh [BUILD]: checks the order of the modules. A directory uses the layers below it in the table of
# docs/architecture.md, never one above it or a sibling. Within a layer, a module uses the modules that the table below
# lists for it, and the table has no cycles. Both hold for includes and, with BUILD, for the symbols of the objects.
# Includes of files have no cycles. Tools and examples include public headers only, and only the compiler includes
# ONNX's messages. A directory of more than 40 sources is a warning.
set -eu
cd "$(dirname "$0")/.."

# Each module and the modules of its layer that it may use, besides the layer's own files and its own directory simd. A layer's
# own files use the modules that a line of their own names.
modules='
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
ops/table: ops/util ops/simd ops/elementwise ops/reduce ops/norm ops/data ops/text ops/image ops/signal ops/ml ops/random ops/optimizer ops/sequence ops/matmul ops/conv ops/conv_gradient ops/pool ops/quantize ops/attention ops/recurrent
compiler/ir:
compiler/gradients: compiler/ir
compiler/onnx_model: compiler/ir
compiler/import_onnx/lower: compiler/ir compiler/onnx_model compiler/gradients
compiler/import_onnx/contrib: compiler/ir compiler/onnx_model compiler/import_onnx/lower
compiler/import_onnx/ml: compiler/ir compiler/onnx_model compiler/import_onnx/lower
compiler/import_onnx/plus: compiler/ir compiler/onnx_model compiler/import_onnx/lower
compiler/import_onnx: compiler/ir compiler/onnx_model compiler/import_onnx/lower compiler/import_onnx/contrib compiler/import_onnx/ml compiler/import_onnx/plus
compiler/export_onnx: compiler/ir compiler/onnx_model
compiler/export_c/c_runtime:
compiler/export_c: compiler/export_c/c_runtime
compiler/training: compiler/ir compiler/gradients
compiler/passes: compiler/ir
compiler/states: compiler/ir compiler/passes
compiler/layout: compiler/ir compiler/passes
compiler/kernel_library: compiler/ir
compiler/emit: compiler/ir compiler/kernel_library
compiler/recompute: compiler/ir compiler/emit
compiler/driver: compiler/ir compiler/onnx_model compiler/import_onnx compiler/export_onnx compiler/gradients compiler/training compiler/passes compiler/states compiler/layout compiler/recompute compiler/kernel_library compiler/emit
compiler/quantize: compiler/ir compiler/onnx_model compiler/driver
tape/lazy:
tape/batch: tape/lazy
tape/backward: tape/batch
tape/building: tape/backward
tape/static: tape/backward
tape/layers:
tape/optimizers: tape/backward tape/layers
tape/create.c: tape/lazy tape/batch tape/backward tape/building
server/pool:
server/json:
server/page:
server/trace: server/pool server/json
server/oip: server/pool server/json
server/common: server/pool server/json
server/http: server/pool server/json server/oip server/common server/page server/trace
server/grpc: server/pool server/json server/oip server/common server/trace
train: train/data
train/data:
tools/main.c: tools/cli tools/io tools/commands
tools/cli:
tools/io: tools/cli
tools/values: tools/cli
tools/tensors: tools/cli tools/io tools/values
tools/run: tools/cli tools/io tools/values tools/tensors
tools/profile: tools/cli tools/io tools/values
tools/training: tools/cli tools/io tools/values tools/tensors tools/run
tools/serve: tools/cli tools/io
tools/commands: tools/cli tools/io tools/values tools/tensors tools/run tools/profile tools/serve tools/training
python/bench:
python/src:
python/src/compiler: python/src
python/src/tape: python/src python/src/compiler
web/src:
web/node: web/src
'
# Files that include each other in a circle, because their functions call each other: the product of f32 tries the special
# shapes, which use the product for their rest.
circles='ops/matmul/simd/gemm ops/matmul/simd/gemm_small ops/matmul/simd/gemm_tile ops/matmul/simd/gemv'

# Symbols that the objects define (T, D, B, R, V, W) and use (U, w), a line each: the source, the letter, the name.
symbols=
if [ $# -gt 0 ]; then
    symbols=$(mktemp)
    trap 'rm -f "$symbols"' EXIT
    for objects in "$1"/CMakeFiles/xcvm_*.dir "$1"/tools/CMakeFiles/xcvm_tool_objects.dir; do
        case $objects in */tools/*) prefix=tools/ ;; *) prefix= ;; esac
        (cd "$objects" && find . -name '*.c.o' | xargs -r nm -A -g | sed "s#^\./#$prefix#; s#\.o:[0-9a-f ]*# #")
    done >"$symbols"
fi

git ls-files -co --exclude-standard '*.c' '*.h' '*.def' '*.in' | grep -vE '^(tests|bench|cmake)/' |
    xargs awk -v table="$modules" -v circles="$circles" -v symbols="$symbols" '
function fail(text) { print text; wrong++ }
function directory(file) { sub(/\/[^\/]*$/, "", file); return file }
# The module that a file belongs to: its directory, that of a family for its simd, and that of the files which variants for
# another platform replace.
function module(file) {
    file = directory(file)
    sub(/\/wasi$/, "", file)
    if (file ~ /\/.*\/simd$/)
        sub(/\/simd$/, "", file)
    return file
}
function layer_of(file) { sub(/\/.*/, "", file); return file }
# A header and its source are one. A table (.def) is not one with the source of its name, which may be made from it.
function unit(file) { if (file !~ /\.def$/) sub(/\.[a-z]*$/, "", file); return file }
# True if a file may use another one of its layer.
function may_use(file, other, here, there) {
    here = module(file)
    there = module(other)
    if (there == here || there == layer_of(file) "/simd" || (here, there) in grant || (file, there) in grant)
        return 1
    # The files of a layer itself are below its modules, unless they use some.
    return there == layer_of(file) && !(there in known)
}
BEGIN {
    # The table of layers: | 6 | `train/` | ...
    while ((getline line <"docs/architecture.md") > 0)
        if (line ~ /^\| [0-9]+ \| `/) {
            split(line, cell, "|")
            count = split(cell[3], part, "`")
            for (i = 2; i <= count; i += 2) {
                sub(/\/.*/, "", part[i])
                layer[part[i]] = cell[2] + 1
            }
        }
    count = split(table, lines, "\n")
    for (i = 1; i <= count; i++) {
        split(lines[i], part, ":")
        if (part[1] == "")
            continue
        known[part[1]] = 1
        granted = split(part[2], names, " ")
        for (j = 1; j <= granted; j++) {
            # The lines are in the order of the modules, the lowest first, so the grants form no circle.
            if (!(names[j] in known) && part[1] !~ /^(train|tools\/main\.c)$/)
                fail("scripts/layers.sh: " part[1] " is granted " names[j] ", whose line must be above")
            grant[part[1], names[j]] = 1
        }
    }
    count = split(circles, names, " ")
    for (i = 1; i <= count; i++)
        whole[names[i]] = 1
}
FILENAME == symbols {
    if ($2 == "U" || $2 == "w")
        uses[$1, $3] = 1
    else if (!($3 in definer))
        definer[$3] = $1
    next
}
FNR == 1 {
    present[FILENAME] = 1
    files[directory(FILENAME)]++
}
/^[ \t]*#[ \t]*include[ \t]*["<]/ {
    from = layer_of(FILENAME)
    split($0, part, /["<>]/)
    split(part[2], name, "/")
    to = name[1] == "xcvm" ? "include" : name[1]
    seen++
    if (name[1] == "onnx" && from != "compiler")
        fail(FILENAME ":" FNR ": " from " must not include " part[2])
    target = part[2]
    if (from == "tools" && !(to in layer))
        target = "tools/" target
    if (name[1] == "xcvm")
        target = "include/" target
    else if (from == "include" && !(to in layer))
        target = directory(FILENAME) "/" target
    edge[unit(FILENAME), ++edges[unit(FILENAME)]] = unit(target)
    if (!(to in layer))
        next
    if (to == from) {
        if (from != "examples" && !may_use(FILENAME, target))
            fail(FILENAME ":" FNR ": " module(FILENAME) " must not include " target)
        next
    }
    # The two tables that the tools share with the library depend on the public header alone, or on nothing.
    if (FILENAME == "tools/values/number.c" && part[2] == "base/element.h" || FILENAME == "base/element.h" && to == "include")
        next
    if (FILENAME == "tools/run/isa_choices.h" && part[2] == "base/isas.h")
        next
    if (layer[to] >= layer[from] || layer[from] == layer["tools"] && to != "include" || FILENAME ~ /^base\/(element|isas)\.h$/)
        fail(FILENAME ":" FNR ": " from " must not include " part[2])
}
END {
    for (key in uses) {
        split(key, part, SUBSEP)
        file = part[1]
        other = definer[part[2]]
        # Objects of sources that are gone may be left in the build, and generated sources belong to no module.
        if (!(file in present) || !(other in present))
            continue
        checked++
        if (layer_of(file) == layer_of(other) ? !may_use(file, other) : layer[layer_of(other)] >= layer[layer_of(file)])
            fail(file ": " module(file) " must not use " part[2] " of " other)
    }
    for (file in present) {
        here = module(file)
        in_layer = layer_of(file)
        if (here ~ /\// && in_layer != "include" && in_layer != "examples" && !(here in known) && !(here in told)) {
            told[here] = 1
            fail(here ": scripts/layers.sh does not list this module")
        }
        if (!(in_layer in layer) && !(in_layer in told)) {
            told[in_layer] = 1
            fail(in_layer ": the table of docs/architecture.md does not list this directory")
        }
        units[unit(file)] = 1
    }
    for (here in files)
        if (files[here] > 40)
            print here ": warning: " files[here] " sources, more than 40"
    # A file that includes none of the remaining files is in no cycle.
    do {
        removed = 0
        for (m in units) {
            free = 1
            for (i = 1; i <= edges[m] && free; i++)
                free = !(edge[m, i] in units) || edge[m, i] == m || (m in whole && edge[m, i] in whole)
            if (free) {
                delete units[m]
                removed++
            }
        }
    } while (removed > 0)
    # A file that none of the remaining files includes only leads to a cycle.
    do {
        removed = 0
        split("", used)
        for (m in units)
            for (i = 1; i <= edges[m]; i++)
                if (edge[m, i] != m)
                    used[edge[m, i]] = 1
        for (m in units)
            if (!(m in used)) {
                delete units[m]
                removed++
            }
    } while (removed > 0)
    for (m in units)
        fail(m ": includes itself through others")
    print seen " includes and " checked + 0 " uses of symbols, " wrong + 0 " against the order of the modules"
    exit wrong > 0 || seen < 1000 || symbols != "" && checked < 5000
}' ${symbols:+"$symbols"}

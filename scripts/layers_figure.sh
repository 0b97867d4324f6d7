#!/bin/sh
# layers_figure.sh: draws the layers and their modules as SVG on standard output, from the includes of the tree. An arrow
# goes from a module to a module of the same layer that it includes. A module is drawn above the modules that it uses.
set -eu
cd "$(dirname "$0")/.."
git ls-files -co --exclude-standard '*.c' '*.h' '*.def' | grep -vE '^(tests|bench|examples|python/(bench|tests))/' | LC_ALL=C sort | xargs awk '
function folder(file) {
    sub(/\/[^\/]*$/, "", file)
    sub(/\/wasi$/, "", file)
    if (file ~ /\/.*\/simd$/)
        sub(/\/simd$/, "", file)
    return file == "include/xcvm" ? "include" : file
}
function layer_of(module) { sub(/\/.*/, "", module); return module }
BEGIN {
    layers = split("web python tools server train tape compiler vm proto ops formats base include", order)
    says["web"] = "the npm package"
    says["python"] = "the Python package"
    says["tools"] = "the xcvm command"
    says["server"] = "libxcvm-server: queues, batches, deadlines, reload"
    says["train"] = "data sets, training loop, checkpoints"
    says["tape"] = "define-by-run networks, at the same level as train"
    says["compiler"] = "libxcvm-compiler: models to programs"
    says["vm"] = "libxcvm: load, verify, run"
    says["proto"] = "the codec and the text form"
    says["ops"] = "op definitions and kernels, one module per family"
    says["formats"] = "readers and writers of files of other programs"
    says["base"] = "memory, values, threads"
    says["include"] = "the public headers"
}
FNR == 1 && !(folder(FILENAME) in module_of) {
    module = folder(FILENAME)
    if (!(layer_of(module) in says)) {
        print "layers_figure.sh: " FILENAME ": a layer that is not drawn" >"/dev/stderr"
        exit failed = 1
    }
    module_of[module] = layer_of(module)
    if (module != layer_of(module))
        modules[layer_of(module), ++count[layer_of(module)]] = module
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, part, "\"")
    target = part[2]
    if (FILENAME ~ /^tools\// && target !~ /^base\//)
        target = "tools/" target
    from = folder(FILENAME)
    to = folder(target)
    if (to ~ /\/simd$/ || to == from || !(to ~ /\//) || layer_of(from) != layer_of(to) || from == layer_of(from))
        next
    uses[from, to] = 1
}
# The number of modules below a module. `guard` ends the recursion in an include cycle, which scripts/layers.sh reports.
function depth(module, guard, key, pair, d, most) {
    if (module in depths)
        return depths[module]
    most = 0
    for (key in uses) {
        split(key, pair, SUBSEP)
        if (pair[1] == module && guard < 20 && !((pair[2], module) in uses)) {
            d = depth(pair[2], guard + 1) + 1
            most = d > most ? d : most
        }
    }
    return depths[module] = most
}
END {
    if (failed)
        exit 1
    width = 1080; left = 16; box = 30; gap = 34; top = 16; y = top
    for (f = 1; f <= layers; f++) {
        name = order[f]
        rows = 0
        split("", in_row)
        for (i = 1; i <= count[name]; i++) {
            d = depth(modules[name, i], 0)
            row[modules[name, i]] = d
            column[modules[name, i]] = ++in_row[d]
            rows = d + 1 > rows ? d + 1 : rows
        }
        band = 40 + (rows > 0 ? rows * (box + gap) - gap + 14 : 4)
        out = out sprintf("<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"%s\" stroke=\"#c9cfd6\"/>\n", left, y,
            width - 2 * left, band, f % 2 ? "#f7f9fb" : "#eef2f6")
        out = out sprintf("<text x=\"%d\" y=\"%d\"><tspan font-weight=\"bold\">%s/</tspan><tspan dx=\"12\" fill=\"#555\">%s</tspan></text>\n",
            left + 14, y + 25, name, says[name])
        for (i = 1; i <= count[name]; i++) {
            module = modules[name, i]
            d = row[module]
            each = (width - 2 * left - 28) / in_row[d]
            wide = each - 10 > 132 ? 132 : each - 10
            x = left + 14 + (column[module] - 0.5) * each
            at_x[module] = x
            at_y[module] = y + 40 + (rows - 1 - d) * (box + gap)
            label = module
            sub(/^[^\/]*\//, "", label)
            boxes = boxes sprintf("<rect x=\"%.0f\" y=\"%d\" width=\"%.0f\" height=\"%d\" rx=\"4\" fill=\"white\" stroke=\"#1f6fb2\"/>\n",
                x - wide / 2, at_y[module], wide, box)
            boxes = boxes sprintf("<text x=\"%.0f\" y=\"%d\" text-anchor=\"middle\" font-size=\"13\">%s/</text>\n", x, at_y[module] + 20, label)
        }
        for (i = 1; i <= count[name]; i++)
            for (j = 1; j <= count[name]; j++)
                if ((modules[name, i], modules[name, j]) in uses && row[modules[name, i]] > row[modules[name, j]])
                    lines = lines sprintf("<line x1=\"%.0f\" y1=\"%d\" x2=\"%.0f\" y2=\"%d\" stroke=\"#8fa3b8\" marker-end=\"url(#arrow)\"/>\n",
                        at_x[modules[name, i]], at_y[modules[name, i]] + box, at_x[modules[name, j]], at_y[modules[name, j]] - 2)
        y += band + 10
    }
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"14\">\n", width, y + 24
    print "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#8fa3b8\"/></marker></defs>"
    print "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
    printf "%s%s%s", out, lines, boxes
    printf "<text x=\"%d\" y=\"%d\" font-size=\"12\" fill=\"#555\">A layer uses the layers below it. An arrow means that a module uses another module of its layer.</text>\n</svg>\n", left, y + 12
}'

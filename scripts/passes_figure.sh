#!/bin/sh
# passes_figure.sh XCVM: the order of the passes as SVG, from the compiler's own table.
set -eu
"$1" compile --list-passes | awk '
function box(name, label, sub_label) {
    column = count % 6
    row = int(count / 6)
    printf "box %s %d %d 140 44 | %s | %s\n", name, 10 + (row % 2 ? 5 - column : column) * 160, 10 + row * 74, label, sub_label
    if (count > 0)
        arrows = arrows sprintf("arrow %s %s %s %s\n", last, column == 0 ? "bottom" : row % 2 ? "left" : "right", name,
            column == 0 ? "top" : row % 2 ? "right" : "left")
    last = name
    count++
}
BEGIN { box("import", "import", "ONNX to graph") }
{ box($1, $1, $2 ", " ($3 == "once" ? "once" : $3 " rounds")) }
END {
    box("plan", "plan", "arena slots")
    box("emit", "emit", "XCProgram")
    printf "size 950 %d\n%s", 10 + int((count + 5) / 6) * 74, arrows
}' | awk -f "$(dirname "$0")/figure.awk"

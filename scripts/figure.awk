# figure.awk: draws boxes and arrows as SVG. Lines of the input:
#   size WIDTH HEIGHT
#   box NAME X Y WIDTH HEIGHT | TITLE | LINE...      a box with a bold title and lines of text
#   arrow FROM SIDE TO SIDE [| LABEL]                from the middle of a side (left, right, top, bottom) of a box to another's
#   text X Y | TEXT
# Errors name the line.
function fail(what) { print "figure.awk: line " FNR ": " what >"/dev/stderr"; failed = 1; exit 1 }
function escape(s) { gsub(/&/, "\\&amp;", s); gsub(/</, "\\&lt;", s); gsub(/>/, "\\&gt;", s); return s }
function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }
function side_x(b, side) { return x[b] + (side == "left" ? 0 : side == "right" ? w[b] : w[b] / 2) }
function side_y(b, side) { return y[b] + (side == "top" ? 0 : side == "bottom" ? h[b] : h[b] / 2) }
/^#/ || /^[ \t]*$/ { next }
{ parts = split($0, part, "|"); count = split(trim(part[1]), word, /[ \t]+/) }
word[1] == "size" { width = word[2]; height = word[3]; next }
word[1] == "box" {
    if (count != 6 || parts < 2)
        fail("a box has a name, four numbers and a title")
    b = word[2]; x[b] = word[3]; y[b] = word[4]; w[b] = word[5]; h[b] = word[6]
    boxes = boxes sprintf("<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\" fill=\"#f7f9fb\" stroke=\"#1f6fb2\"/>\n", x[b], y[b], w[b], h[b])
    top = y[b] + h[b] / 2 - (parts - 2) * 8 + 5
    for (i = 2; i <= parts; i++)
        boxes = boxes sprintf("<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" %s>%s</text>\n", x[b] + w[b] / 2, top + (i - 2) * 16,
            i == 2 ? "font-weight=\"bold\"" : "font-size=\"12\" fill=\"#555\"", escape(trim(part[i])))
    next
}
word[1] == "arrow" {
    if (count != 5 || !(word[2] in x) || !(word[4] in x))
        fail("an arrow has two boxes that are there, and their sides")
    x1 = side_x(word[2], word[3]); y1 = side_y(word[2], word[3]); x2 = side_x(word[4], word[5]); y2 = side_y(word[4], word[5])
    lines = lines sprintf("<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#5b7083\" marker-end=\"url(#arrow)\"/>\n", x1, y1, x2, y2)
    if (parts > 1)
        lines = lines sprintf("<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-size=\"12\" fill=\"#555\">%s</text>\n", (x1 + x2) / 2, (y1 + y2) / 2 - 6, escape(trim(part[2])))
    next
}
word[1] == "text" { boxes = boxes sprintf("<text x=\"%d\" y=\"%d\" font-size=\"12\" fill=\"#555\">%s</text>\n", word[2], word[3], escape(trim(part[2]))); next }
{ fail("\"" word[1] "\" is no size, box, arrow or text") }
END {
    if (failed)
        exit 1
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"14\">\n", width, height, width, height
    print "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#5b7083\"/></marker></defs>"
    print "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
    printf "%s%s</svg>\n", boxes, lines
}

#!/usr/bin/awk -f
# The lines of compare.sh into an SVG: for each model, ONNX Runtime's time over XCVM's at 1 and 2 threads, on a logarithmic
# axis, so that twice as fast and half as fast are equally far from the line.
$2 != "xcvm" && $2 != "ort" { next }
{
    for (i = 3; i <= NF; i++) {
        split($i, pair, "=")
        field[pair[1]] = pair[2]
    }
    if (!($1 in seen)) {
        seen[$1] = 1
        order[++models] = $1
    }
    slot = $1 SUBSEP $2 SUBSEP field["threads"]
    if (!(slot in best) || field["median_ms"] + 0 < best[slot])
        best[slot] = field["median_ms"] + 0
}
function at(ratio) { return left + (log(ratio < 0.5 ? 0.5 : ratio) - log(0.5)) / (log(most) - log(0.5)) * width }
END {
    # The axis ends at the power of two beyond the greatest ratio, and the labels have the room of the longest name.
    most = 4
    for (m = 1; m <= models; m++) {
        for (t = 1; t <= 2; t++) {
            o = best[order[m] SUBSEP "ort" SUBSEP t]; x = best[order[m] SUBSEP "xcvm" SUBSEP t]
            while (o > 0 && x > 0 && o / x > most)
                most *= 2
        }
        longest = length(order[m]) > longest ? length(order[m]) : longest
    }
    left = 26 + 8 * longest; width = 560; step = 34; top = 64
    height = top + models * step + 36
    print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" left + width + 70 "\" height=\"" height "\" font-family=\"sans-serif\" font-size=\"13\">"
    print "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
    print "<text x=\"16\" y=\"24\" font-size=\"16\" font-weight=\"bold\">Times faster than ONNX Runtime (median latency)</text>"
    print "<rect x=\"" left "\" y=\"36\" width=\"12\" height=\"12\" fill=\"#1f6fb2\"/><text x=\"" left + 18 "\" y=\"47\">1 thread</text>"
    print "<rect x=\"" left + 100 "\" y=\"36\" width=\"12\" height=\"12\" fill=\"#8fbbe0\"/><text x=\"" left + 118 "\" y=\"47\">2 threads</text>"
    for (r = 0.5; r <= most; r *= 2) {
        color = r == 1 ? "#444" : "#ddd"
        print "<line x1=\"" at(r) "\" x2=\"" at(r) "\" y1=\"" top - 6 "\" y2=\"" height - 30 "\" stroke=\"" color "\"/>"
        print "<text x=\"" at(r) "\" y=\"" height - 14 "\" text-anchor=\"middle\" fill=\"#444\">" r "x</text>"
    }
    for (m = 1; m <= models; m++) {
        y = top + (m - 1) * step
        print "<text x=\"" left - 10 "\" y=\"" y + 16 "\" text-anchor=\"end\">" order[m] "</text>"
        for (t = 1; t <= 2; t++) {
            o = best[order[m] SUBSEP "ort" SUBSEP t]; x = best[order[m] SUBSEP "xcvm" SUBSEP t]
            if (o <= 0 || x <= 0)
                continue
            ratio = o / x
            from = ratio < 1 ? at(ratio) : at(1)
            print "<rect x=\"" from "\" y=\"" y + (t - 1) * 12 "\" width=\"" (ratio < 1 ? at(1) - from : at(ratio) - from) "\" height=\"11\" fill=\"" (t == 1 ? "#1f6fb2" : "#8fbbe0") "\"/>"
            printf "<text x=\"%s\" y=\"%s\" font-size=\"11\" fill=\"#222\">%.2f</text>\n", (ratio < 1 ? at(1) : at(ratio)) + 4, y + (t - 1) * 12 + 10, ratio
        }
    }
    print "</svg>"
}

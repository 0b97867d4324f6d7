#!/usr/bin/awk -f
# Converts the lines of operators.sh, "OPERATOR.FORM.TYPE xcvm|ort median_ms=.. ...", to a Markdown table, slowest
# first, after the geometric means and the entries without numbers.
{
    if (!($1 in seen)) {
        seen[$1] = 1
        order[++entries] = $1
    }
    if ($3 == "refused") {
        why[$1 SUBSEP $2] = $0
        sub(/^[^ ]+ [^ ]+ refused /, "", why[$1 SUBSEP $2])
        next
    }
    for (i = 3; i <= NF; i++)
        if (split($i, pair, "=") == 2 && pair[1] == "median_ms" && (!(($1, $2) in best) || pair[2] + 0 < best[$1, $2]))
            best[$1, $2] = pair[2] + 0
}
function mean(sum, count) { return count ? sprintf("%.2f", exp(sum / count)) : "-" }
END {
    for (i = 1; i <= entries; i++) {
        name = order[i]
        if (!((name, "xcvm") in best) || !((name, "ort") in best)) {
            side = (name, "xcvm") in best ? "ONNX Runtime" : "XCVM"
            missing[++missed] = sprintf("`%s` has no figure of %s: %s", name, side, why[name, side == "XCVM" ? "xcvm" : "ort"])
            continue
        }
        # A run of ONNX Runtime takes at least some microseconds; both times are at least one microsecond.
        ratio[name] = (best[name, "ort"] > 0.001 ? best[name, "ort"] : 0.001) / (best[name, "xcvm"] > 0.001 ? best[name, "xcvm"] : 0.001)
        # Sorted in as it comes.
        for (at = ++count; at > 1 && ratio[sorted[at - 1]] > ratio[name]; at--)
            sorted[at] = sorted[at - 1]
        sorted[at] = name
        float = name ~ /\.b?f[0-9]+$/
        sum[0] += log(ratio[name]); number[0]++
        slower[0] += ratio[name] < 1 ; worse[0] += ratio[name] < 1 / 1.2
        if (float) {
            sum[1] += log(ratio[name]); number[1]++
            slower[1] += ratio[name] < 1; worse[1] += ratio[name] < 1 / 1.2
        }
    }
    print "| entries | number | geometric mean | slower | more than 1.2 times slower |\n| --- | ---: | ---: | ---: | ---: |"
    printf "| all | %d | **%s** | %d | %d |\n", number[0], mean(sum[0], number[0]), slower[0], worse[0]
    printf "| of floats | %d | **%s** | %d | %d |\n", number[1], mean(sum[1], number[1]), slower[1], worse[1]
    print "\n| operator | form | type | ONNX Runtime ms | XCVM ms | ratio |\n| --- | --- | --- | ---: | ---: | ---: |"
    for (i = 1; i <= count; i++) {
        split(sorted[i], part, ".")
        printf "| %s | %s | %s | %.4f | %.4f | **%.2f** |\n", part[1], part[2], part[3], best[sorted[i], "ort"], best[sorted[i], "xcvm"],
            ratio[sorted[i]]
    }
    if (missed)
        print "\nNot compared:\n"
    for (i = 1; i <= missed; i++)
        printf "- %s%s\n", missing[i], i < missed ? ";" : "."
}

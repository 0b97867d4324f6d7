#!/usr/bin/awk -f
# Lines "MODEL xcvm|ort threads=.. median_ms=.. min_ms=.. load_ms=.. first_ms=.. peak_rss_mb=.." into a table of the
# best of the rounds' medians, and the geometric mean of the ratios.
$2 != "xcvm" && $2 != "ort" { next }
{
    side = $2
    for (i = 3; i <= NF; i++) {
        split($i, pair, "=")
        field[pair[1]] = pair[2]
    }
    key = $1 SUBSEP field["threads"]
    if (!($1 in seen)) {
        seen[$1] = 1
        order[++models] = $1
    }
    for (name in field) {
        slot = key SUBSEP side SUBSEP name
        if (!(slot in best) || field[name] + 0 < best[slot])
            best[slot] = field[name] + 0
    }
}
END {
    for (t = 1; t <= 2; t++) {
        printf "\n%d thread%s%*s|       time (ms)               |       load (ms)               |    peak memory (MB)\n", t, (t > 1 ? "s" : " "), 13, ""
        printf "%-22s| %9s %9s %8s  | %9s %9s %8s  | %7s %7s %7s\n", "model", "ort", "xcvm", "ratio", "ort", "xcvm", "ratio", "ort", "xcvm", "share"
        sum = count = others = 0
        for (m = 1; m <= models; m++) {
            k = order[m] SUBSEP t SUBSEP
            o = best[k "ort" SUBSEP "median_ms"]; x = best[k "xcvm" SUBSEP "median_ms"]
            ol = best[k "ort" SUBSEP "load_ms"]; xl = best[k "xcvm" SUBSEP "load_ms"]
            om = best[k "ort" SUBSEP "peak_rss_mb"]; xm = best[k "xcvm" SUBSEP "peak_rss_mb"]
            if (x <= 0 || o <= 0)
                continue
            printf "%-22s| %9.3f %9.3f %7.2fx  | %9.2f %9.3f %7.1fx  | %7.1f %7.1f %6.0f%%\n", order[m], o, x, o / x, ol, xl, (xl > 0 ? ol / xl : 0), om, xm, 100 * xm / om
            sum += log(o / x); count++
            others += order[m] == "chain" ? 0 : log(o / x)
        }
        if (count)
            printf "%-22s| %9s %9s %7.2fx  |\n", "geometric mean", "", "", exp(sum / count)
        if (count > 1 && ("chain" in seen))
            printf "%-22s| %9s %9s %7.2fx  |\n", "  without chain", "", "", exp(others / (count - 1))
    }
}

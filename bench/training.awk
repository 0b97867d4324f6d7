#!/usr/bin/awk -f
# Converts the lines of training.sh to Markdown tables. `threads` has the numbers of threads; memory is that of the
# first.
{
    for (i = 3; i <= NF; i++) {
        split($i, pair, "=")
        field[pair[1]] = pair[2]
    }
    if ($1 == "base") {
        base = field["peak_rss_mb"]
        next
    }
    if (!($1 in seen)) {
        seen[$1] = 1
        order[++networks] = $1
    }
    slot = $1 SUBSEP $2 SUBSEP field["threads"]
    times[slot, ++count[slot]] = field["median_ms"] + 0
    if (field["peak_rss_mb"] + 0 > peak[slot])
        peak[slot] = field["peak_rss_mb"] + 0
}
function median(slot, i, k, n, v) {
    n = count[slot]
    for (i = 1; i <= n; i++) {
        v = times[slot, i]
        for (k = i; k > 1 && sorted[k - 1] > v; k--)
            sorted[k] = sorted[k - 1]
        sorted[k] = v
    }
    return n % 2 ? sorted[(n + 1) / 2] : (sorted[n / 2] + sorted[n / 2 + 1]) / 2
}
END {
    split(threads, t, " ")
    n = 0
    while ((n + 1) in t)
        n++
    print "## Time\n"
    line = "| network |"
    rule = "| --- |"
    for (k = 1; k <= n; k++) {
        line = line " PyTorch ms, " t[k] " thread" (t[k] > 1 ? "s" : "") " | XCVM ms | times faster |"
        rule = rule " ---: | ---: | ---: |"
    }
    print line
    print rule
    for (m = 1; m <= networks; m++) {
        line = "| " order[m] " |"
        for (k = 1; k <= n; k++) {
            theirs = median(order[m] SUBSEP "torch" SUBSEP t[k])
            ours = median(order[m] SUBSEP "xcvm" SUBSEP t[k])
            product[k] += log(theirs / ours)
            line = line sprintf(" %.2f | %.2f | %.2f |", theirs, ours, theirs / ours)
        }
        print line
    }
    line = "| geometric mean |"
    for (k = 1; k <= n; k++)
        line = line sprintf(" | | %.2f |", exp(product[k] / networks))
    print line
    print "\n## Memory\n"
    print "| network | PyTorch MB | beyond Python and PyTorch | XCVM MB | share | share of what is beyond |"
    print "| --- | ---: | ---: | ---: | ---: | ---: |"
    for (m = 1; m <= networks; m++) {
        theirs = peak[order[m] SUBSEP "torch" SUBSEP t[1]]
        ours = peak[order[m] SUBSEP "xcvm" SUBSEP t[1]]
        shares += log(ours / theirs)
        beyond += log(ours / (theirs - base))
        printf "| %s | %.0f | %.0f | %.0f | %.0f %% | %.0f %% |\n", order[m], theirs, theirs - base, ours, 100 * ours / theirs, 100 * ours / (theirs - base)
    }
    printf "| geometric mean | | | | %.0f %% | %.0f %% |\n", 100 * exp(shares / networks), 100 * exp(beyond / networks)
}

#!/usr/bin/awk -f
# The lines of compare.sh into Markdown tables: the best of the rounds for each figure.
{
    for (i = 3; i <= NF; i++) {
        split($i, pair, "=")
        field[pair[1]] = pair[2]
    }
    if (!($1 in seen)) {
        seen[$1] = 1
        order[++models] = $1
    }
    threads = $2 == "sizes" ? 0 : field["threads"]
    for (i = 3; i <= NF; i++) {
        split($i, pair, "=")
        slot = $1 SUBSEP $2 SUBSEP threads SUBSEP pair[1]
        if (!(slot in best) || pair[2] + 0 < best[slot])
            best[slot] = pair[2] + 0
    }
}
function get(model, side, threads, name) { return best[model SUBSEP side SUBSEP threads SUBSEP name] }
END {
    for (t = 1; t <= 2; t++) {
        printf "\n## %d thread%s\n\n", t, (t > 1 ? "s" : "")
        print "| model | ONNX Runtime ms | XCVM ms | ratio | load ms | load ratio | first run ms | first / steady | peak MB | share |"
        print "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
        sum = count = 0
        for (m = 1; m <= models; m++) {
            o = get(order[m], "ort", t, "median_ms"); x = get(order[m], "xcvm", t, "median_ms")
            if (o <= 0 || x <= 0)
                continue
            load = get(order[m], "xcvm", t, "load_ms"); first = get(order[m], "xcvm", t, "first_ms")
            printf "| %s | %.3f | %.3f | **%.2f** | %.2f | %.0f | %.2f | %.2f | %.1f | %.0f%% |\n", order[m], o, x, o / x, load,
                get(order[m], "ort", t, "load_ms") / load, first, first / x, get(order[m], "xcvm", t, "peak_rss_mb"),
                100 * get(order[m], "xcvm", t, "peak_rss_mb") / get(order[m], "ort", t, "peak_rss_mb")
            sum += log(o / x); count++
        }
        if (count)
            printf "| geometric mean | | | **%.2f** | | | | | | |\n", exp(sum / count)
    }
    print "\n## Programs\n\n| model | model MB | program MB | compile s |\n| --- | ---: | ---: | ---: |"
    for (m = 1; m <= models; m++)
        printf "| %s | %.2f | %.2f | %.2f |\n", order[m], get(order[m], "sizes", 0, "model_bytes") / 1e6,
            get(order[m], "sizes", 0, "program_bytes") / 1e6, get(order[m], "sizes", 0, "compile_s")
}

#!/usr/bin/awk -f
# Converts the lines of compare.sh to Markdown tables, with the best round for each number. -v peak=N: the peak of one
# core in GFLOP/s; the text of the file `notes` then follows the models below it.
$2 == "part" {
    for (i = 3; i <= NF; i++) {
        split($i, pair, "=")
        part[pair[1]] = pair[2]
    }
    parts[++part_count] = sprintf("| %s | %s | %s%% | %s | %s | %s |", $1, part["name"], part["share"], part["gflops"],
        part["gflops"] == "-" ? "" : sprintf("%.0f%%", 100 * part["gflops"] / peak), part["gbs"])
    next
}
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
function miss(text) { missed[++misses] = text }
function get(model, side, threads, name) { return best[model SUBSEP side SUBSEP threads SUBSEP name] }
END {
    for (t = 1; t <= 2; t++) {
        printf "\n## %d thread%s\n\n", t, (t > 1 ? "s" : "")
        print "| model | ONNX Runtime ms | XCVM ms | ratio | load ms | load ratio | first run ms | first / steady | peak MB | share |"
        print "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
        sum = count = others = 0
        for (m = 1; m <= models; m++) {
            o = get(order[m], "ort", t, "median_ms"); x = get(order[m], "xcvm", t, "median_ms")
            if (o <= 0 || x <= 0)
                continue
            load = get(order[m], "xcvm", t, "load_ms"); first = get(order[m], "xcvm", t, "first_ms")
            printf "| %s | %.3f | %.3f | **%.2f** | %.2f | %.0f | %.2f | %.2f | %.1f | %.0f%% |\n", order[m], o, x, o / x, load,
                get(order[m], "ort", t, "load_ms") / load, first, first / x, get(order[m], "xcvm", t, "peak_rss_mb"),
                100 * get(order[m], "xcvm", t, "peak_rss_mb") / get(order[m], "ort", t, "peak_rss_mb")
            sum += log(o / x); count++
            others += order[m] == "chain" ? 0 : log(o / x)
            if (o < x)
                miss(sprintf("%s at %d thread%s takes %.2f times as long as ONNX Runtime", order[m], t, t > 1 ? "s" : "", x / o))
            if (get(order[m], "ort", t, "load_ms") < 20 * load)
                miss(sprintf("%s loads %.0f times as fast, not 20", order[m], get(order[m], "ort", t, "load_ms") / load))
            if (first > 1.5 * x)
                miss(sprintf("%s at %d thread%s: the first run takes %.2f ms, %.1f times the steady one", order[m], t, t > 1 ? "s" : "",
                    first, first / x))
            if (t == 1 && get(order[m], "ort", t, "peak_rss_mb") > 50 &&
                get(order[m], "xcvm", t, "peak_rss_mb") > 0.505 * get(order[m], "ort", t, "peak_rss_mb"))
                miss(sprintf("%s peaks at %.0f%% of ONNX Runtime's memory, not at half of it", order[m],
                    100 * get(order[m], "xcvm", t, "peak_rss_mb") / get(order[m], "ort", t, "peak_rss_mb")))
        }
        if (count)
            printf "| geometric mean | | | **%.2f** | | | | | | |\n", exp(sum / count)
        if (count > 1 && ("chain" in seen))
            printf "| without chain, 200 instructions on 8 elements | | | **%.2f** | | | | | | |\n", exp(others / (count - 1))
    }
    print "\n## Programs\n\n| model | model MB | program MB | compile s |\n| --- | ---: | ---: | ---: |"
    for (m = 1; m <= models; m++)
        printf "| %s | %.2f | %.2f | %.2f |\n", order[m], get(order[m], "sizes", 0, "model_bytes") / 1e6,
            get(order[m], "sizes", 0, "program_bytes") / 1e6, get(order[m], "sizes", 0, "compile_s")
    print "\n## Where the time goes\n\nOn one thread, by instruction; the limit is what one core reaches on multiply-adds without memory.\n"
    print "| model | instruction | share of the time | GFLOP/s | of the limit | GB/s |\n| --- | --- | ---: | ---: | ---: | ---: |"
    for (i = 1; i <= part_count; i++)
        print parts[i]
    print "\n## What falls short\n\nThe goals: no model slower than ONNX Runtime, loading 20 times as fast, a first run within 1.5 times a steady"
    print "one, and half of ONNX Runtime's memory where that takes more than 50 MB. " (misses ? "Missed in this run:\n" : "All are met.\n")
    for (i = 1; i <= misses; i++)
        printf "- %s%s\n", missed[i], i < misses ? ";" : "."
    print ""
    while ((getline line < notes) > 0)
        print line
}

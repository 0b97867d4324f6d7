#!/bin/sh
# run.sh BUILD: opens the reports of `xcvm profile --html` and `xcvm diff --html` in Chromium without network: two networks, a training step, a
# decoder with states, and a comparison; on a wide and a narrow screen, in light and dark, and with scripts blocked.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
command -v chromium >/dev/null || { echo "chromium is not installed; make test installs it"; exit 1; }
work=$build/report
rm -rf "$work"
mkdir -p "$work"
xcvm=$build/tools/xcvm
failed=0 passed=0

# browse WIDTH FILE [OPTION...]: what the document has become.
browse() {
    width=$1 page=$2
    shift 2
    timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-background-networking --user-data-dir="$work/user" \
        --window-size="$width,900" --virtual-time-budget=4000 "$@" --dump-dom "file://$page" 2>"$work/chromium.txt"
}

expect() { # WHAT PATTERN: one of the last document's lines
    if grep -qE "$2" "$work/dom.html"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $name: $1: no \"$2\" in: $(grep -o '<html[^>]*>' "$work/dom.html")"
    fi
}

# look NAME WIDTH SECTIONS [OPTION...]: the page as a reader sees it.
look() {
    name=$1 width=$2 sections=$3
    shift 3
    { cat "$work/$name.html"; echo '<script>'; cat "$here/probe.js"; echo '</script>'; } >"$work/probed.html"
    browse "$width" "$work/probed.html" "$@" >"$work/dom.html"
    expect "the script ends" 'data-ready="yes"'
    expect "the pictures" "data-shown=\"$sections\""
    expect "nothing sticks out of the screen" 'data-wide="(-[0-9]+|0)"'
    expect "the graph has boxes" 'data-boxes="[1-9]'
    expect "the graph has edges" 'data-edges="[1-9]'
    expect "the roofline or the errors have circles" 'data-dots="[1-9]'
    case $sections in *timeline*) expect "the timeline is drawn" 'data-colors="([3-9]|[1-9][0-9]+)"' ;; esac
    for word in down up chosen found; do
        expect "$word" "data-$word=\"true\""
    done
    bytes=$(wc -c <"$work/$name.html")
    data=$(sed -n '/id="xcvm-[a-z]*-[0-9]"/,/<\/script>/p; /id="earlier"/,/<\/script>/p' "$work/$name.html" | wc -c)
    [ $((bytes - data)) -le 307200 ] || { failed=$((failed + 1)); echo "FAIL $name: $((bytes - data)) bytes besides the data"; }
}

"$xcvm" profile "$here/../../examples/digits/model.onnx" --dim batch=8 --html "$work/network.html" -t 2 >"$work/network.txt"
look network 1200 'timeline memory roofline graph'
expect "light" 'data-back="rgb\(255, 255, 255\)"'
look network 390 'timeline memory roofline graph'
look network 1200 'timeline memory roofline graph' --blink-settings=preferredColorScheme=0
expect "dark" 'data-back="rgb\(20, 24, 29\)"'
"$xcvm" profile "$here/../../examples/digits/model.onnx" --dim batch=8 --html "$work/compared.html" --compare "$work/network.html" >/dev/null
look compared 1200 'compared timeline memory roofline graph'
"$here/../../scripts/pictures.sh" "$build" "$work" "$work/pictures"
look training 390 'timeline memory roofline graph'
expect "phases" '<td class="text">backward</td>'
look decoder 1200 'timeline memory roofline graph'
look resnet18 390 'timeline memory roofline graph'


# Differences: of a network and its quantized form, which are beyond the tolerance, and of a network and itself.
digits=$here/../../examples/digits
"$xcvm" quantize "$digits/model.onnx" -d "$digits/digits.npz" -i 'image=images*1/16' -o "$work/quantized.onnx" >/dev/null
code=0
"$xcvm" diff "$digits/model.onnx" "$work/quantized.onnx" --dim batch=8 --random --all --html "$work/diff.html" >"$work/diff.txt" || code=$?
[ "$code" = 1 ] || { failed=$((failed + 1)); echo "FAIL diff: exit code $code"; }
look diff 1200 'errors graph'
look diff 390 'errors graph' --blink-settings=preferredColorScheme=0
expect "dark" 'data-back="rgb\(20, 24, 29\)"'
# The page says what the command prints.
found=$(sed -n 's/.*<dt>values that differ<\/dt><dd>\([0-9]*\).*/\1/p' "$work/diff.html")
grep -q ", $found differ" "$work/diff.txt" || { failed=$((failed + 1)); echo "FAIL diff: $found values, but $(tail -n 1 "$work/diff.txt")"; }
beyond=$(grep -oE '<rect class="box beyond"' "$work/dom.html" | wc -l)
[ "$beyond" -gt 0 ] || { failed=$((failed + 1)); echo "FAIL diff: no box is beyond the tolerance"; }
"$xcvm" diff "$digits/model.onnx" "$digits/model.onnx" --dim batch=8 --random --html "$work/equal.html" >"$work/diff.txt"
name=equal
browse 1200 "$work/equal.html" >"$work/dom.html"
expect "nothing differs" '<dt>values that differ</dt><dd>0<'
expect "outputs agree" '<td class="text better">agrees</td>'
! grep -q 'class="box beyond"\|class="worse"' "$work/dom.html" || { failed=$((failed + 1)); echo "FAIL equal: a difference"; }

# An error that is NaN is said, and is at the top.
for factor in 1 nan; do
    printf 'xcvm 1\ninput x f64[1]\noutput y f64[1]\n$1 = In(name="x")\n$2 = Mul($1, f64[] %s) type=f64[1] name="scaled"\nOut($2, name="y")\n' $factor >"$work/$factor.xcvm"
done
code=0
"$xcvm" diff "$work/1.xcvm" "$work/nan.xcvm" -i 1 --html "$work/nan.html" >"$work/diff.txt" || code=$?
[ "$code" = 1 ] || { failed=$((failed + 1)); echo "FAIL nan: exit code $code"; }
name=nan
browse 1200 "$work/nan.html" >"$work/dom.html"
expect "the error" '<circle class="dot" [^>]*cy="14.0"[^>]*><title>1 Mul f64\[1\] : absolute error nan, relative nan, beyond the tolerance<'

# A frame with scripts disabled has as many rows as the report's data, shows the note, and draws nothing.
for report in network training decoder resnet18 diff; do
    name="$report without scripts"
    {
        echo '<!doctype html><html lang="en"><iframe sandbox="allow-same-origin" style="width: 1000px; height: 800px"></iframe><script>'
        echo "const report = '$(base64 -w 0 "$work/$report.html")';"
        cat "$here/disabled.js"
        echo '</script>'
    } >"$work/disabled.html"
    browse 1200 "$work/disabled.html" >"$work/dom.html"
    rows=$(sed -n '/"rows":\[/,/^"\(run\|edges\)"/p' "$work/$report.html" | grep -cE '^\[[0-9]+,')
    expect "rows" "data-rows=\"$rows\""
    expect "no script has run" 'data-ready="undefined"'
    expect "the note" 'data-note="The tables below are complete'
    expect "tables are shown" 'data-high="[1-9][0-9]{2}'
done
# The table on standard output has the same rows.
rows=$(awk 'blank && $1 ~ /^[0-9]+$/ && $3 ~ /^[0-9]+$/ { n++ } /^$/ { blank = 1 } END { print n }' "$work/network.txt")
[ "$(grep -c '<tr data-pc=' "$work/network.html")" = "$rows" ] || { failed=$((failed + 1)); echo "FAIL network: not $rows rows"; }

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]

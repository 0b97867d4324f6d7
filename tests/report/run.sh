#!/bin/sh
# run.sh BUILD [--pictures]: opens the reports of `xcvm profile --html` in Chromium without network: a network, a
# training step, a decoder with states, and a comparison; on a wide and a narrow screen, in light and dark, and with
# scripts blocked. --pictures: also takes the picture of docs/profiling.md.
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
    expect "the roofline has circles" 'data-dots="[1-9]'
    expect "the timeline is drawn" 'data-colors="([3-9]|[1-9][0-9]+)"'
    for word in down up chosen found; do
        expect "$word" "data-$word=\"true\""
    done
    bytes=$(wc -c <"$work/$name.html")
    data=$(sed -n '/id="xcvm-profile-/,/<\/script>/p; /id="earlier"/,/<\/script>/p' "$work/$name.html" | wc -c)
    [ $((bytes - data)) -le 307200 ] || { failed=$((failed + 1)); echo "FAIL $name: $((bytes - data)) bytes besides the data"; }
}

"$xcvm" profile "$here/../../examples/digits/model.onnx" --dim batch=8 --html "$work/network.html" -t 2 >"$work/network.txt"
look network 1200 'timeline memory roofline graph'
expect "light" 'data-back="rgb\(255, 255, 255\)"'
look network 390 'timeline memory roofline graph'
look network 1200 'timeline memory roofline graph' --blink-settings=preferredColorScheme=0
expect "dark" 'data-back="rgb\(20, 24, 29\)"'
# As many rows as the table on standard output has, also without scripts.
rows=$(awk 'blank && $1 ~ /^[0-9]+$/ && $3 ~ /^[0-9]+$/ { n++ } /^$/ { blank = 1 } END { print n }' "$work/network.txt")
name="without scripts"
sed "s/script-src 'unsafe-inline'/script-src 'none'/" "$work/network.html" >"$work/blocked.html"
browse 1200 "$work/blocked.html" >"$work/dom.html"
[ "$(grep -c '<tr data-pc=' "$work/dom.html")" = "$rows" ] || { failed=$((failed + 1)); echo "FAIL $name: not $rows rows"; }
expect "no script has run" '<html lang="en">'
expect "the tables say it" 'The tables below are complete'

"$xcvm" profile "$here/../../examples/digits/model.onnx" --dim batch=8 --html "$work/compared.html" --compare "$work/network.html" >/dev/null
look compared 1200 'compared timeline memory roofline graph'
"$xcvm" profile "$here/../../examples/digits/model.onnx" --dim batch=8 --train sgd --loss softmax_cross_entropy -t 1 --html "$work/training.html" >/dev/null
look training 390 'timeline memory roofline graph'
expect "phases" '<td class="text">backward</td>'
"$xcvm" profile "$here/../../examples/generate/model.onnx" --dim batch=1 --dim bound=128 --dim length=1 --state-pairs auto --int-max 128 --html "$work/decoder.html" >/dev/null 2>&1 ||
    { failed=$((failed + 1)); echo "FAIL decoder: no report"; }
look decoder 1200 'timeline memory roofline graph'

if [ "${2:-}" = --pictures ]; then
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/user" --window-size=1000,1400 \
        --screenshot="$here/../../docs/figures/profile.png" "file://$work/network.html" 2>/dev/null
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]

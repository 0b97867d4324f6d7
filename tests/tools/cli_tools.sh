# test, bench, profile, diff and ops.
. "$(dirname "$0")/expect.sh"

run test "$data/cases"
code 1
out_has 'PASS add: 2 sets, 9 elements agree, worst absolute 0, relative 0'
out_has 'PASS sums: 6 elements agree'
out_has 'FAIL wrong: test_data_set_0: output y: 1 of 6 elements differ, worst at [1,1]: 25 instead of 26 (absolute 1, relative 0.0385)'
out_has 'FAIL unknown: '
out_line '2 passed, 3 failed, 0 skipped'
run test "$data/cases" --jobs 3 --shape-only 'rand*' --skip-unsupported -q --list-failures
code 1
out_lacks PASS
out_has 'SKIP unknown'
out_line '3 passed, 1 failed, 1 skipped'
out_line 'failed:'
run test "$data/cases/add" "$data/cases/sums/"
code 0
out_line '2 passed, 0 failed, 0 skipped'
run test "$data/cases" --filter add --filter 's*' --isolate never
code 0
out_line '2 passed, 0 failed, 0 skipped'
run test "$data/cases" --isolate never --jobs 2
code 2
err_has '--isolate=never'
run test "$data/cases/wrong" --rtol 0.1 --isolate always
code 0
run test "$data/cases" --filter nothing
code 2
run test "$data/files"
code 2
err_has 'contains no case'
run test nowhere
code 6
# The others are tested all the same.
run test "$data/files" "$data/cases/add" nowhere "$data/cases/sums" --isolate never
code 2
err_has 'contains no case'
err_has 'nowhere: cannot be read'
out_line '2 folders without a case'
out_line '2 passed, 0 failed, 0 skipped'
run test "$data/files" "$data/cases/wrong"
code 1
out_line '1 folder without a case'
run test "$data/cases/add/model.onnx"
code 2
err_has 'is a file (expected a directory with model.onnx'
cp -r "$data/cases/sums" own
run test own --program own.bin
code 1
out_has 'own.bin'
run compile own/model.onnx -o own/own.bin
run test own --program own.bin
code 0
out_line '1 passed, 0 failed, 0 skipped'
cp -r "$data/cases/sums" broken
: >broken/test_data_set_0/output_0.pb
rm broken/test_data_set_0/output_1.pb
run test broken
code 1
rm broken/test_data_set_0/input_1.pb
run test broken
code 1
out_has 'input_1.pb, for input b, is missing'

model=$data/cases/add/model.onnx
"$xcvm" compile "$model" -o add.bin
run bench add.bin -n 20 --warmup 2
code 0
check test "$(tail -1 .out | grep -cE '^xcvm threads=1 median_ms=[0-9]+\.[0-9]{4} min_ms=[0-9]+\.[0-9]{4} load_ms=[0-9]+\.[0-9]{4} first_ms=[0-9]+\.[0-9]{4} peak_rss_mb=[0-9.]+$')" = 1
out_has 'add.bin, 20 runs'
out_has '99%'
out_lacks warm
run bench add.bin -n 1 --warm-session
code 0
out_has 'warm-up'
out_has 'first run, warm'
run profile add.bin -n 1 --warmup 0 --warm-session
code 0
# More threads than processors is no error, but is said.
for command in 'bench add.bin -n 1 --dim N=1' 'profile add.bin -n 1 --dim N=1'; do
    run $command --threads 99
    code 0
    err_has 'warning: --threads=99 exceeds the'
    run $command --threads 0
    code 0
    err ''
done
run bench "$model" --duration 0.05 --threads 2 --dim N=8
code 0
out_has compile
out_like '^xcvm threads=2 '
err ''
run bench add.bin -n 1 --threads 0
code 0
out_lacks 'threads=0'
run profile add.bin -n 3 -o several.json --trace-iterations 3 --threads 0
code 0
check grep -qE '"threads":"[1-9][0-9]*"' several.json
# Events of a track are sorted by their beginnings.
check sh -c 'grep "\"ph\":\"X\".*\"tid\":0," several.json | sed "s/.*\"ts\":\([0-9.]*\),.*/\1/" >ts.txt; test "$(wc -l <ts.txt)" -ge 20 && sort -gc ts.txt'
# Reports, one of which is compared with another. Errors are reported before anything is measured or written.
run profile add.bin -n 2 --html page.html -o trace.json
code 0
grep -q 'id="xcvm-profile-1">{"program":"add.bin"' page.html
run profile add.bin -n 2 --html second.html --compare page.html
code 0
grep -q 'id="earlier">{"program":"add.bin"' second.html
run profile add.bin --compare page.html
code 2
err_has '--compare needs --html'
run profile add.bin --html third.html --compare trace.json
code 2
err_has 'trace.json is no report'
run profile add.bin --html third.html --compare nowhere.html
code 6
run profile add.bin -o third.json --html no/such/third.html
code 6
[ ! -e third.html ]
[ ! -e third.json ]
run profile add.bin -n 2 -o -
code 0
out_like '^{'
out_lacks 'memory: planned'
err_has 'memory: planned'
run diff add.bin add.bin --random --dim N=2 --outputs-only
code 0
out '1 value compared, 0 differ'
run diff add.bin add.bin --random --dim N=2
code 0
out '4 values compared, 0 differ'
run diff add.bin add.bin --random --dim N=2 --keep 300
code 0
out '2 values compared, 0 differ'
err_has 'were not compared, because the memory of --keep is used up. Raise it: --keep=SIZE'
run bench nothing.bin
code 6

run profile add.bin -n 5 -o trace.json --dim N=4
code 0
out_like '^instruction +calls +total ms +mean us +share % +GFLOP/s +GB/s$'
out_like '^Relu +5 '
out_like '^pc +instruction +calls'
out_has 'memory: planned'
check grep -qF '"traceEvents":[' trace.json
check grep -qF '"input_type_shape":[{"float":[4,3]},{"float":[3]}]' trace.json
check grep -qF '"name":"live_bytes"' trace.json
check grep -qF '"displayTimeUnit":"ns"' trace.json
if command -v python3 >/dev/null; then
    check python3 - <<'X'
import json
trace = json.load(open("trace.json"))
events = trace["traceEvents"]
tracks = {}
for event in events:
    assert event["ph"] in "XCM" and event["pid"] == 1, event
    if event["ph"] == "X":
        start = round(event["ts"] * 1000)
        tracks.setdefault(event["tid"], []).append((start, -round(event["dur"] * 1000), event["name"]))
for spans in tracks.values():
    open_ends = []
    for start, minus, name in sorted(spans):
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        assert not open_ends or start - minus <= open_ends[-1], (name, start)
        open_ends.append(start - minus)
assert sum(e["name"] == "run" for e in events) == 1
assert any(e["name"] == "thread_name" for e in events)
X
fi
run profile add.bin --top 1 --sort program
code 0
out_has 'and '
run profile add.bin -o no/such/trace.json
code 6

# diff: the first value that differs, by name.
"$xcvm" dump add.bin --literals 100 >add.txt
sed 's/= 10 20 30/= 10 21 30/' add.txt >changed.txt
"$xcvm" asm changed.txt -o changed.bin
run diff add.bin "$model" --random
code 0
out_has ' 0 differ'
run diff add.bin changed.bin -i '1 2 3'
code 1
out_like '^value "(s|y)" differs: 1 of 3 elements differ, worst at \[0,1\]: 23 instead of 22'
out_has 'computed by #'
check test "$(grep -c differs: .out)" = 1
run diff add.bin changed.bin -i '1 2 3' --all
check test "$(grep -c differs: .out)" -ge 2
run diff add.bin changed.bin -i '1 2 3' --outputs-only
code 1
out_has 'output "y" differs'
run diff add.bin changed.bin -i '1 2 3' --html diff.html
code 1
check grep -q 'at \[0,1\]: 23 instead of 22' diff.html
check test "$(grep -c '<tr data-pc=' diff.html)" -ge 2
# An error that is infinite as a number of the page is no JSON, and the pictures would be missing.
for factor in 1 1e-310 nan; do
    assemble scale.$factor.bin <<X
xcvm 1
input x f64[1]
output y f64[1]
\$1 = In(name="x")
\$2 = Mul(\$1, f64[] $factor) node="scale" type=f64[1] name="scaled"
Out(\$2, name="y")
X
done
run diff scale.1.bin scale.1e-310.bin -i 1 --all --html diff.html
code 1
run diff scale.1e-310.bin scale.1.bin -i 1 --all --html reverse.html
code 1
check grep -q '>inf<' diff.html reverse.html
# NaN is an error too, and the largest one.
run diff scale.1.bin scale.nan.bin -i 1 --all --html nan.html
code 1
out_has 'worst at [0]: nan instead of 1 (absolute nan, relative nan)'
check test "$(grep -c '<td data-v="2e+300">nan</td><td data-v="2e+300">nan</td>' nan.html)" = 3 # output, instruction and node
check grep -q '<dt>largest absolute error of outputs</dt><dd>nan<' nan.html
check grep -q ',1,1,null,null\]' nan.html
for page in diff reverse nan; do
    sed -n '/id="xcvm-diff-1"/,/<\/script>/p' $page.html | sed 's/<[^>]*>//g' >$page.json
    check python3 -m json.tool $page.json
    check test "$(grep -c 'data-v="inf"' $page.html)" = 0
done
# A failure leaves the file as it was, and a file that cannot be written is reported before the runs.
echo kept >diff.html
run diff add.bin "$data/cases/sums/model.onnx" --random --html diff.html
check test "$(cat diff.html)" = kept
run diff add.bin add.bin --random --html none/diff.html
code 6
err_has 'none/diff.html'
run diff add.bin changed.bin -i '1 2 3' --rtol 0.5
code 0
run diff add.bin "$data/cases/sums/model.onnx" --random
code 2
err_has 'has 2 inputs and 2 outputs, but the first program has 1 and 1'
run diff add.bin
code 2

run ops
code 0
out_like '^ *[0-9]+  Conv  '
run ops Conv
code 0
out_has 'Conv, number'
run ops Cnov
code 2
err_has 'Did you mean "Conv"?'
run ops --onnx
code 0
out_like '^Relu +ai\.onnx '
run ops --markdown
code 0
out_line '## Conv'
run ops --onnx --markdown
code 0
out_line '# ONNX operators'

finish

#!/bin/sh
# report.sh: measures everything and writes docs/benchmarks.md with its chart, and docs/operators-benchmark.md. Takes some
# twenty minutes on a machine that does nothing else. Each table says on which processor and when it was measured; tables
# of other processors stay (bench/stamp.py). XCVM_MODELS as for compare.sh.
set -eu
cd "$(dirname "$0")/.."
out=bench/out
page=docs/benchmarks.md
operators=docs/operators-benchmark.md
# New pages replace the old ones only after all measurements have succeeded.
trap 'rm -f "$page.new" "$operators.new" docs/benchmarks.svg.new' EXIT
models=${XCVM_MODELS:-$out/models}
[ -d "$models" ] || bench/make_models.sh
cmake --build --preset release --target blocked_bench gemm_bench overhead compile_scaling >/dev/null
build/release/bench/blocked_bench >"$out/kernels.txt"
peak=$(sed -n 's/.*one core reaches \([0-9]*\) GFLOP.*/\1/p' "$out/kernels.txt")
bench/compare.sh
awk -f bench/chart.awk "$out/lines.txt" >docs/benchmarks.svg.new
version=$(sed -n 's/.*"version": "\(.*\)".*/\1/p' "$out/node_modules/onnxruntime-node/package.json" | head -1)
{
    echo '# Benchmarks'
    echo
    echo "Written by \`make bench\`. Machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores," \
        "Linux $(uname -r | cut -d. -f1-2). $(build/release/tools/xcvm --version | head -1), built by $(cc --version | head -1)" \
        "with the release preset; ONNX Runtime $version (npm), CPU provider, all graph optimizations. Both run the same models" \
        "in turn, in several rounds; a figure is the best round's median. Ratios above 1 mean that XCVM is faster." \
        "Programs are compiled with --kernel-library; weights and sums are f32. A first run is that of a new session, which is not" \
        "warmed up."
    echo
    echo '![Times faster than ONNX Runtime](benchmarks.svg)'
    awk -v peak="$peak" -v notes=bench/notes.md -f bench/report.awk "$out/lines.txt"
    printf '\n## Scaling\n'
    bench/scaling.sh
    printf '\n## Accuracy\n\n'
    echo 'Errors against the same model computed in float64 by PyTorch, from the same file and input, relative to the root mean' \
        'square of that reference. The goal: an rms error of at most 1.5 times that of ONNX Runtime.'
    echo
    bench/accuracy.sh
    printf '\n## Models of open sizes\n\nOne thread, without --kernel-library; and a network of grouped convolutions with a batch of 4.\n\n'
    bench/open.sh
    printf '\n## Beside a busy process\n\n'
    echo 'Two threads on two processors, of which another process keeps one busy: their time over that of one thread, beside' \
        'that process and alone.'
    echo
    bench/neighbor.sh
    printf '\n## Whole processes\n\nFrom exec to exit: load, one run, the result printed.\n\n'
    bench/process.sh
    printf '\n## Compile time and the size of a model\n\n'
    echo 'Processor time of compiling models that are made for this, and how many times as long ten times as many take:' \
        'n log n is 12 to 12.5 times, and more where the smaller model still fits into the caches. Memory is the most' \
        'that was held at once, for the largest model.'
    echo
    build/release/bench/compile_scaling
    printf '\n## The machine itself\n\n```\n'
    build/release/bench/overhead "$out"
    printf '```\n\n## Kernels\n\n'
    cat "$out/kernels.txt"
    printf '\n```\n'
    build/release/bench/gemm_bench
    echo '```'
} >"$page.new"
bench/stamp.py "$page.new" "$page"
mv docs/benchmarks.svg.new docs/benchmarks.svg
mv "$page.new" "$page"
{
    echo '# Operators'
    echo
    echo "Written by \`make bench\`, on the machine and with the versions of [benchmarks.md](benchmarks.md): every operator that" \
        "ONNX Runtime has a kernel for on CPUs, by itself on large operands (\`bench/operators.py\` has them all), one thread," \
        "both in turn, the better of two rounds' medians. Ratios above 1 mean that XCVM is faster; the slowest stand first."
    echo
    bench/operators.sh
} >"$operators.new"
bench/stamp.py "$operators.new" "$operators"
mv "$operators.new" "$operators"
echo "written: $page, docs/benchmarks.svg, $operators"

#!/bin/sh
# Everything that has to pass. Each step is one line of output; what a failed step printed follows it.
set -u
cd "$(dirname "$0")/.."
logs=build/test-logs
mkdir -p "$logs"
: >"$logs/results"
started=$(date +%s)

# step NAME COMMAND...: exit code 77 means skipped, with the reason on the last line of output.
step() {
    name=$1
    shift
    log=$logs/$(echo "$name" | tr -c 'a-zA-Z0-9\n' '-').txt
    begin=$(date +%s)
    "$@" >"$log" 2>&1
    code=$?
    case $code in
    0) word=ok ;;
    77) word=skipped ;;
    *) word=FAILED ;;
    esac
    echo "$word" >>"$logs/results"
    # One write: steps of two lanes end side by side.
    told=$(
        printf '%-8s %-52s %4d s  %s\n' "$word" "$name" $(($(date +%s) - begin)) "$(summary "$log" "$code")"
        [ "$code" = 0 ] || [ "$code" = 77 ] || tail -n 60 "$log" | sed 's/^/    /'
    )
    echo "$told"
    return 0
}

# lanes FUNCTION...: runs the steps of each function in order, and the functions side by side. Their steps use one processor
# each; a step may use what an earlier one of its own lane has made, and nothing of another lane's.
lanes() {
    for lane; do
        "$lane" &
    done
    wait
}

summary() {
    if [ "$2" = 77 ]; then
        tail -n 1 "$1"
    else
        grep -aE '^[0-9]+ passed, [0-9]+ failed|tests passed,|^note: |against the order|^failing sequence' "$1" | tail -n 2 | paste -sd' ' -
    fi
}

build() { # PRESET TARGETS [OPTION...]
    preset=$1 targets=$2
    shift 2
    # shellcheck disable=SC2086 # A list.
    cmake --preset "$preset" -DXCVM_WERROR=ON "$@" && cmake --build --preset "$preset" --target $targets
}

# Only the release suites run each test in a process of its own. With sanitizers a fork takes longer than most tests, and an
# error ends the suite anyway.
suites() { # PRESET [CTEST OPTION...]
    preset=$1
    shift
    case $preset in release) fork=yes ;; *) fork=no ;; esac
    # Tests allocate and free arenas all the time. With huge pages of malloc they take up to 38 % less processor time.
    CK_FORK=$fork GLIBC_TUNABLES=glibc.malloc.hugetlb=1 ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1 \
        ctest --test-dir "build/$preset" --output-on-failure --no-tests=error "$@"
}

format() { git ls-files '*.c' '*.h' | xargs clang-format --dry-run -Werror; }

header_alone() {
    for header in include/xcvm/*.h; do
        echo "#include <xcvm/${header##*/}>" >"$logs/header.c"
        cp "$logs/header.c" "$logs/header.cc"
        cc -std=c11 -Wall -Wextra -Wpedantic -Werror -Iinclude -Ibuild/release/generated -c "$logs/header.c" -o "$logs/header.o" &&
            c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -Iinclude -Ibuild/release/generated -c "$logs/header.cc" -o "$logs/header.o" || return 1
    done
}

step 'build: release, gcc' build release all
# Three at once for two processors: some suites wait more than they compute. A later step compiles more cases of exported C.
step 'suites: release' suites release -j3 -E '^c_export$'
step 'build: address and undefined sanitizers, clang' build asan-ubsan all -DCMAKE_C_COMPILER=clang
step 'suites: address and undefined sanitizers' suites asan-ubsan -j3
raced='^(base|server|train|vm)_|^ops_(cases|vector|gemm|kernel)'
# How threads share work does not depend on the instruction set of the kernels.
step 'build: thread sanitizer' build tsan 'xcvm_tests xcvm_command embed' -DXCVM_BASELINE_ONLY=ON "-DXCVM_TEST_SUITES=$raced"
# vm_deadlines has sessions of one thread, which nothing can race with.
step 'suites: thread sanitizer' suites tsan -j3 -R "$raced" -E '^vm_deadlines$'
step 'peer: ONNX Runtime, from npm' scripts/onnxruntime.sh
operators() {
    step 'conformance: operator cases of ONNX' scripts/conformance.sh build/release
    step 'conformance: models written as ONNX' scripts/onnx_written.sh build/release 8
    step 'conformance: operators of opsets 18 to 26' scripts/versions.sh build/release
    [ -z "${XCVM_ONNX_DATA:-}" ] ||
        step 'conformance: test data of another ONNX' scripts/onnx_data.sh build/release "$XCVM_ONNX_DATA"
    step 'conformance: contributed operators of ONNX Runtime' tests/differential/contrib.sh build/release
    step 'conformance: models of scikit-learn' scripts/ml.sh build/release
    step 'operators become what is said of them' scripts/lowerings.sh build/release
    step 'differential: random cases beside ONNX Runtime' tests/differential/run.sh build/release
    step 'differential: layouts of random networks' tests/differential/layouts.sh build/release
    step 'suites: valgrind' scripts/valgrind.sh build/release
}
models() {
    step 'conformance: models that were quantized, in ONNX Runtime' tests/differential/quantize.sh build/release
    step 'quantization: small trained networks beside floats' env XCVM_BUILD=build/release bench/quantized_trained.sh --short
    step 'conformance: models of TensorFlow.js, converted' tests/differential/tfjs.sh build/release
    step 'conformance: trained models beside eval() of PyTorch' tests/differential/inference.sh build/release
    step 'differential: gradients at kinks beside f64' tests/differential/kinks.sh build/release
    step 'conformance: models that ONNX Runtime optimized' tests/differential/optimized.sh build/release
    step 'conformance: models' scripts/models.sh build/release
    step 'conformance: models at several sizes' scripts/dynamic.sh build/release
}
python_package() {
    step 'python: package, types and tests' scripts/python.sh build/release build/venv --test
    step 'python: references, debug interpreter' scripts/python_references.sh build/release 300
    step 'python: arrays, runs, bad input, address sanitizer' scripts/python_memory.sh build/asan-ubsan
    step 'python: threads on one session, thread sanitizer' scripts/python_threads.sh build/tsan 5
    step 'demo: Python' examples/digits/demo_python.sh build/venv demo
    step 'documentation site' scripts/docs.sh build/release
}
outputs() {
    # A minute of processor time for all modes together.
    step 'tape: random sequences of calls while memory fails' build/asan-ubsan/tests/fuzz/replay_tape --seconds 12
    step 'threads: programs, thread sanitizer' scripts/threads.sh build/tsan
    step 'exported C: cases of every instruction, by gcc and clang' tests/c_export/run.sh build/release 8
    step 'installed package, pkg-config and CMake' scripts/consumer.sh build/release
    step 'reports of profiles, in Chromium' tests/report/run.sh build/release
    step 'server: reloads, clients that leave, overload' tests/server/load.sh build/release
    step 'server: SIGTERM under load, SIGKILL with a backlog' /usr/bin/python3 tests/server/ends.py build/release/tools/xcvm 1
    step 'server: its page, in Chromium' tests/server/page/run.sh build/release
    step 'gRPC: calls by grpc-js' tests/grpc/run.sh build/release
    step 'REST: answers by the OpenAPI description, in Prism' tests/openapi/run.sh build/release
    step 'web: npm package in Node and Chromium' tests/web/run.sh
}
# Reads sources, and the release build.
sources() {
    step 'lint' scripts/lint.py build/release base formats ops proto vm compiler train tape server tools examples
    step 'public headers alone, as C and C++' header_alone
    step 'comments and blank lines of headers: at most 45 %' scripts/comments.sh
    step 'exported symbols are the headers, each with a use' scripts/symbols.sh build/release
    step 'public functions of the tape check what they are called on' scripts/entries.sh
    step 'generated pages are up to date' scripts/generated.sh build/release --check
    step 'prose: sentences of headers and pages' scripts/prose.py --docs include/xcvm/*.h README.md CONTRIBUTING.md SECURITY.md
    step 'random cases, benchmarks and gradient fragments are complete' scripts/uncovered.py
    step 'layers: what directories include and use' scripts/layers.sh build/release
    step 'packages: versions, needs and symbols' scripts/debian.sh check build/release
    step 'lengths: of functions and files' scripts/lengths.sh
    step 'subjects of commits' scripts/subjects.sh
    step 'spelling: American, by codespell' scripts/spelling.sh
    step 'words: none of scripts/words.txt' scripts/words.sh
    step 'format' format
}
step 'demo' examples/digits/demo.sh build/release demo
# Of about the same processor time. Three lanes for two processors: some steps wait more than they compute.
operators_and_sources() { operators; sources; }
outputs_and_python() { outputs; python_package; }
lanes operators_and_sources outputs_and_python models

count() { grep -cx "$1" "$logs/results"; }
passed=$(count ok) failed=$(count FAILED) skipped=$(count skipped)
echo "$(($(date +%s) - started)) s in all"
if [ "$skipped" = 0 ]; then
    echo "$passed passed, $failed failed"
else
    echo "$passed passed, $failed failed, $skipped skipped"
fi
[ "$failed" = 0 ]

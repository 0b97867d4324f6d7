#!/bin/sh
# python_memory.sh BUILD [TEST...]: tests of the Python package with the libraries of BUILD, which clang has built with the address
# and undefined-behavior sanitizers, and extension modules that are built with them. Default: arrays, runs, bad input and the
# process around (fork, threads, signals, pickling, subinterpreters). Objects come from malloc, so that the sanitizer sees them.
# Leaks are left to python_references.sh: at its end the interpreter does not free everything.
set -eu
cd "$(dirname "$0")/.."
build=$1 package=$1/python
shift
[ $# -gt 0 ] || set -- test_arrays test_run test_bad_input test_process
CC=clang CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -shared-libasan -g1 -O1" \
    scripts/python_package.sh "$build" "$package"
runtime=$(clang -print-file-name=libclang_rt.asan-$(uname -m).so)
[ -f "$runtime" ] || { echo "clang has no $runtime; the package libclang-rt-14-dev has it"; exit 1; }
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:detect_stack_use_after_return=1:exitcode=66
export UBSAN_OPTIONS=print_stacktrace=1:exitcode=67
export PYTHONMALLOC=malloc XCVM_SANITIZED=1 PYTHONPATH="$package:python/tests" PYTHONDONTWRITEBYTECODE=1 LD_PRELOAD="$runtime"
scripts/unittest.sh /usr/bin/python3 "$@"

#!/bin/sh
# python_threads.sh BUILD [SECONDS]: eight threads on one InferenceSession of xcvm.onnxruntime, with the libraries of BUILD, which
# has the thread sanitizer, and extension modules that are built with it. A race in them ends the run.
#
# The interpreter itself is not built with the sanitizer, which sees its lock: a mutex and a condition variable of libpthread.
set -eu
cd "$(dirname "$0")/.."
package=$1/python
CFLAGS="-fsanitize=thread -g1 -O1" scripts/python_package.sh "$1" "$package"
export TSAN_OPTIONS="halt_on_error=1 exitcode=66"
LD_PRELOAD=$(cc -print-file-name=libtsan.so) PYTHONPATH=$package:python/tests PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1 \
    /usr/bin/python3 python/tests/threads.py "${2:-5}"

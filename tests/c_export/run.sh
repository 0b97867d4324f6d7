#!/bin/sh
# run.sh BUILD [STEP [FLAG...]]: every STEP-th text case of tests/ops that can be exported as C (all without STEP) is exported,
# for any processor and, where this one has AVX2, for x86-64-v3, compiled without a warning by the C compilers that there are, with FLAGs
# beside those that are asked of it, and gives what the machine gives. Those that are refused are counted by their reasons.
set -eu
build=$(cd "$1" && pwd)
step=${2:-1}
[ $# -lt 2 ] || shift
shift
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# check TARGET FLAG...
check() {
    echo "for $1:"
    "$build/tests/xcvm_export_cases" "$folder" "$1" "$step" $(find "$here/../ops" -name '*.xcvm' | sort)
    shift
    for cc in gcc clang; do
        command -v $cc >/dev/null || continue
        ls case_*.c cases.c | xargs -P "$(nproc)" -n 25 \
            $cc -std=c99 -O1 -Wall -Wextra -Wpedantic -Wconversion -Werror "$@" -c
        $cc "$@" case_*.o cases.o -o cases -lm
        echo "$cc: $(./cases)"
        rm -f ./*.o cases
    done
    rm -f case_* cases.c
}

check any "$@"
echo "refused:"
sed 's/.*): //' refused.txt | sort | uniq -c | sort -rn | head -8
if grep -qw avx2 /proc/cpuinfo 2>/dev/null; then
    check x86-64-v3 -march=x86-64-v3 "$@"
fi

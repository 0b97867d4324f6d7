#!/bin/sh
# run.sh BUILD [STEP [FLAG...]]: every STEP-th text case of tests/ops that can be exported as C (all without STEP) is exported,
# compiled without a warning by the C compilers that there are, with FLAGs beside those that are asked of it, and gives what the machine gives.
# Those that are refused are counted by their reasons.
set -eu
build=$(cd "$1" && pwd)
step=${2:-1}
[ $# -lt 2 ] || shift
shift
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$build/tests/xcvm_export_cases" "$folder" "$step" $(find "$here/../ops" -name '*.xcvm' | sort)
echo "refused:"
sed 's/.*): //' "$folder/refused.txt" | sort | uniq -c | sort -rn | head -8
cd "$folder"
for cc in gcc clang; do
    command -v $cc >/dev/null || continue
    ls case_*.c cases.c | xargs -P "$(nproc)" -n 25 \
        $cc -std=c99 -O1 -Wall -Wextra -Wpedantic -Wconversion -Werror "$@" -c
    $cc "$@" case_*.o cases.o -o cases -lm
    echo "$cc: $(./cases)"
    rm -f ./*.o cases
done

#!/bin/sh
# run.sh BUILD [STEP [FLAG...]]: exports text cases of each instruction in tests/ops as C, and compares the results with
# the VM's. Of each instruction it takes the first case and every STEP-th after it (all without STEP). The C is for any
# processor and, if this one has AVX2, for x86-64-v3. The available C compilers must compile it without warnings, with
# additional FLAGs. With a STEP each case is compiled by one compiler for one target and by the other for the other.
# Refused cases are counted by reason; docs/c-export.md lists instructions without C. The size of vector code is checked
# with a network of two blocks of outputs. With STEP "export:N" the C is only written, of every N-th case: a build with
# sanitizers checks the exporter, not the compilers.
set -eu
build=$(cd "$1" && pwd)
step=${2:-1}
[ $# -lt 2 ] || shift
shift
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

"$build/tests/xcvm_export_cases" --without-c | sort >without
sed -n '/^## Instructions without C/,$p' "$here/../../docs/c-export.md" | sed -n '/^| ---/,$p' | grep '^| [a-z]' | cut -d '|' -f 3 | tr -d ' ' |
    tr ',' '\n' | sort >listed
diff listed without || { echo "docs/c-export.md lists other instructions without C (<) than there are (>)" >&2; exit 1; }

case $step in export:*)
    for target in any x86-64-v3; do
        "$build/tests/xcvm_export_cases" "$folder" "$target" "${step#export:}" $(find "$here/../ops" -name '*.xcvm' | sort)
    done
    exit 0
    ;;
esac

compilers=
for cc in gcc clang; do
    ! command -v $cc >/dev/null || compilers="$compilers $cc"
done

# compile CC FLAG...: the sources that are named on standard input
compile() {
    compiler=$1
    shift
    xargs -P "$(nproc)" -n 25 "$compiler" -std=c99 -O1 -Wall -Wextra -Wpedantic -Wconversion -Werror "$@" -c
}

# check TARGET TURN FLAG...: TURN selects the compiler of the first case.
check() {
    target=$1 turn=$2
    echo "for $target:"
    "$build/tests/xcvm_export_cases" "$folder" "$target" "$step" $(find "$here/../ops" -name '*.xcvm' | sort)
    shift 2
    if [ "$step" -gt 1 ]; then
        for cc in $compilers; do
            ls case_*.c | awk -v turn="$turn" -v all="$(echo $compilers | wc -w)" 'NR % all == turn % all' | compile $cc "$@"
            turn=$((turn + 1))
        done
        echo cases.c | compile $cc "$@"
        $cc "$@" case_*.o cases.o -o cases -lm
        told=$(./cases) || { echo "$compilers: $told"; exit 1; }
        echo "$compilers: $told"
    else
        for cc in $compilers; do
            ls case_*.c cases.c | compile $cc "$@"
            $cc "$@" case_*.o cases.o -o cases -lm
            told=$(./cases) || { echo "$cc: $told"; exit 1; }
            echo "$cc: $told"
            rm -f ./*.o cases
        done
    fi
    rm -f case_* cases.c ./*.o cases
}

check any 0 "$@"
echo "refused:"
sed 's/.*): //' refused.txt | sort | uniq -c | sort -rn | head -8
# A run in an endless loop executes at most the number of steps in its context, and does not change states.
cat >endless.xcvm <<'END'
xcvm 1
input x f32[]
output y f32[]
state s f32[] = @five
constant five f32[] = 5
$1 = In(name="x")
$2 = Load(name="s")
$3 = Add($2, $1)
again:
$4 = Greater($1, f32[] 0)
JmpFalse($4, to=done)
Free($4)
Jmp(to=again)
done:
Store($3, name="s")
Out($3, name="y")
END
cat >endless_main.c <<'END'
#include "endless.h"
#include <stdio.h>
#include <string.h>
int main(void)
{
    endless_context context;
    float x = 1, y = 0;
    endless_init(&context);
    context.max_steps = 100;
    const int status = endless_run(&context, &x, &y);
    if (status == 0 || strstr(endless_error(status), "more steps than max_steps") == NULL ||
        *(float *)endless_state_at(&context, 0).elements != 5)
        return 1;
    x = 0; /* the loop ends at once */
    if (endless_run(&context, &x, &y) != 0 || y != 5)
        return 1;
    context.max_steps = 0;
    return endless_run(&context, &x, &y) != 0 || y != 5;
}
END
"$build/tools/xcvm" asm endless.xcvm -o endless.bin
"$build/tools/xcvm" compile endless.bin --emit c -o endless.c
for cc in $compilers; do
    $cc -std=c99 -O1 -Wall -Wextra -Wpedantic -Wconversion -Werror endless.c endless_main.c -o endless -lm
    ./endless || { echo "$cc: a loop that does not end is not bounded" >&2; exit 1; }
done
# The main function accepts a complete file of weights only.
"$build/tools/xcvm" compile "$here/../../examples/digits/model.onnx" --dim batch=1 --emit c --weights-file whole.bin \
    --with-main -o digits_main.c
cc -std=c99 -O1 digits_main.c -o digits_main -lm
head -c 256 /dev/zero >image.bin
: >empty.bin
head -c 1000 whole.bin >short.bin
for weights in empty short; do
    if ./digits_main $weights.bin image.bin >/dev/null 2>told.txt ||
        ! grep -q "$weights.bin: [0-9]* bytes are expected" told.txt; then
        echo "weights that are cut off are taken" >&2
        exit 1
    fi
done
./digits_main whole.bin image.bin >/dev/null
if grep -qw avx2 /proc/cpuinfo 2>/dev/null; then
    check x86-64-v3 1 -march=x86-64-v3 "$@"
    "$build/tools/xcvm" compile "$here/../../examples/digits/model.onnx" --dim batch=1 --emit c --target x86-64-v4 \
        --weights-file digits.bin -o digits.c
    for cc in $compilers; do
        "$cc" -std=c99 -O3 -march=x86-64-v4 -mprefer-vector-width=512 -c digits.c
        code=$(size digits.o | awk 'NR == 2 { print $1 }')
        echo "$cc: the digits' network takes $code bytes of code"
        [ "$code" -lt 40000 ] || { echo "$cc: that is more than 40000" >&2; exit 1; }
    done
fi

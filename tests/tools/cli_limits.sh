#!/bin/bash
# Compiling within --max-memory and --timeout-ms: by itself, and where a subcommand is given a model.
. "$(dirname "$0")/expect.sh"

# A number as protobuf writes it.
varint() {
    local number=$1
    while [ "$number" -ge 128 ]; do
        printf "\\x$(printf %x $((number % 128 + 128)))"
        number=$((number / 128))
    done
    printf "\\x$(printf %x "$number")"
}

# A chain of so many nodes: each is 29 bytes, inputs and outputs 23, the graph's name 3.
chain() {
    local nodes=$1
    printf '\x08\x08\x42\x04\x0a\x00\x10\x11\x3a'
    varint $((nodes * 29 + 2 * 23 + 3))
    printf '\x12\x01g'
    awk -v nodes="$nodes" 'BEGIN {
        for (i = 0; i < nodes; i++)
            printf "\012\033\012\007t%06d\022\007t%06d\042\007Sigmoid", i, i + 1
    }'
    printf '\x5a\x15\x0a\x07t000000\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x04'
    printf '\x62\x15\x0a\x07t%06d\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x04' "$nodes"
}
chain 30000 >large.onnx
chain 10 >small.onnx

run compile small.onnx -o small.bin --max-memory 64M --timeout-ms 60000
code 0
run run small.onnx -i '1 2 3 4' --max-memory 64M --timeout-ms 60000
code 0

# What was there stays, and nothing is left beside it.
cp small.bin kept.bin
run compile large.onnx -o kept.bin --max-memory 1M
code 5
err_has 'large.onnx: compiling: '
err_has 'the memory limit of 1048576'
run compile large.onnx -o kept.bin --timeout-ms 2
code 5
err_has 'large.onnx: compiling takes longer than its 2 ms'
run compile large.onnx -o never.bin --timeout-ms 2
code 5
run compile - -o never.bin --max-memory 1M
code 3
check cmp small.bin kept.bin
check test "$(echo *)" = 'kept.bin large.onnx small.bin small.onnx'

# Every subcommand that takes a model.
mkdir -p case/test_data_set_0
cp large.onnx case/model.onnx
for command in 'run large.onnx --random' 'bench large.onnx --random' 'profile large.onnx --random' 'check large.onnx' \
    'dump large.onnx' 'diff large.onnx small.bin --random'; do
    run $command --max-memory 1M
    code 5
    err_has 'the memory limit of 1048576'
    run $command --timeout-ms 2
    code 5
    err_has 'compiling takes longer than its 2 ms'
done
run test case --max-memory 1M
code 1
out_has 'the memory limit of 1048576'
run test case --timeout-ms 2
code 1
out_has 'compiling takes longer than its 2 ms'

# A C compiler that takes too long is ended, with what it has started.
printf '#!/bin/sh\necho $$ >cc.pid\nsleep 600\n' >slow_cc
chmod +x slow_cc
# On a machine that is busy with others, the time may be up before it has begun.
for limit in 500 4000 32000; do
    run compile small.onnx -o never.bin --fuse --cc "$PWD/slow_cc" --timeout-ms $limit
    code 5
    err_has "compiling takes longer than its $limit ms"
    [ ! -s cc.pid ] || break
done
check test -s cc.pid
check test ! -e "/proc/$(cat cc.pid)"
check test ! -e never.bin
check test ! -e never.so

# A limit that suffices for what is emitted, and not for all on the way, says so of the compilation.
run check large.onnx --max-memory 20M
code 5
err_has 'the memory limit of 20971520'

finish

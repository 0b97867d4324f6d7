# compile, dump, asm, strip and check: the written files, and no partial files after failures.
. "$(dirname "$0")/expect.sh"

model=$data/cases/add/model.onnx
run compile "$model" -o add.bin
code 0
out ''
err ''
check test -s add.bin
run check add.bin
code 0
out_has 'add.bin: valid program, format 1, produced by xcvm'
out_line 'input   x  f32[Nx3]'
out_line 'output  y  f32[Nx3]'

# Text and back, with literals and with references, from other directories too.
mkdir -p sub/deep
run dump add.bin -o add.txt
run asm add.txt -o again.bin
code 0
check cmp add.bin again.bin
"$xcvm" dump add.bin | "$xcvm" asm - -o again.bin
check cmp add.bin again.bin
"$xcvm" dump "$work/add.bin" --literals 1 | (cd sub && "$xcvm" asm ../add.txt -o deep/again.bin)
check cmp add.bin sub/deep/again.bin
(cd sub && "$xcvm" dump ../add.bin --literals 1 | "$xcvm" asm - -o again.bin)
check cmp add.bin sub/again.bin
run dump add.bin --literals 1 -o sub/deep/add.txt
code 0
check grep -qF '../../add.bin' sub/deep/add.txt
run asm sub/deep/add.txt -o again.bin
code 2
err_has 'leaves its folder'
err_has 'xcvm asm --any-path'
run check sub/deep/add.txt
code 2
err_has 'xcvm asm --any-path'
(cd sub/deep && "$xcvm" dump ../../add.bin --literals 1 | "$xcvm" check - >"$work/.out")
out_has 'valid program'
(cd sub/deep && "$xcvm" asm add.txt --any-path -o ../../again.bin)
check cmp add.bin again.bin
run dump "$model"
code 0
out_has 'Out('
run dump add.bin --explain
code 0

# Stripping.
run strip add.bin -o small.bin
code 0
check test "$(wc -c <small.bin)" -le "$(wc -c <add.bin)"
out "removed names of nodes and values, types of results, and flops: $(wc -c <small.bin) bytes, $(wc -c <add.bin) before (the constants start at the same page)"
run strip "$data/../../../examples/digits/model.onnx" -o digits.small.bin
code 0
out_like '^removed names .*: [0-9]+ bytes, [0-9]+ before'
run compile "$model" --strip -o stripped.bin
code 0
check cmp small.bin stripped.bin
run strip small.bin -o small.bin
out "removed nothing: the program of $(wc -c <small.bin) bytes has no debug data"
check cmp small.bin stripped.bin
# The program goes to standard output, and messages go to standard error.
run strip add.bin -o -
code 0
check cmp .out stripped.bin
err_has 'removed '
run run small.bin -i '1 2 3'
out 'y=1x3xf32=11 22 33'

run strip "$model" -o small.bin
code 0
check cmp small.bin stripped.bin
run dump small.bin -o small.txt
run strip small.txt -o small.bin
check cmp small.bin stripped.bin

# The result never replaces its source.
cp "$model" own.onnx
ln -s own.onnx linked.onnx
for target in own.onnx ./own.onnx linked.onnx; do
    run compile own.onnx -o "$target"
    code 2
    err_has "$target is the model itself"
done
check cmp own.onnx "$model"
cp small.txt own.txt
run asm own.txt -o own.txt
code 2
err_has 'own.txt is the text itself'
check cmp own.txt small.txt
run compile add.bin -o other.bin
code 3
err_has 'add.bin: this is an XCVM program, which is compiled already'
run compile small.txt -o other.bin
code 3
err_has 'this is the text of an XCVM program; "xcvm asm"'

# Passes and the report.
run compile --list-passes
code 0
out_like '^simplify +-O1 +4 rounds +[a-z]'
out_like '^prepack +-O2 +once +[a-z]'
run compile "$model" --dump-after infer
code 0
out_has Add
run compile "$model" --dump-after smplify
code 2
err_has 'Did you mean "simplify"?'
run compile "$model" --report --dim N=4
code 0
out_has 'peak bytes'
run compile "$model" --schedule naive -O1 -o other.bin
code 0
run compile "$model" --schedule quick -o other.bin
code 2
err_has '--schedule needs one of memory|naive'
run compile "$model" --weights bf16 --report -o other.bin
code 0
out_like '^weight bytes +0 +0'
run compile "$model" --weights f64 -o other.bin
code 2
err_has '--weights needs one of f32|f24|f16|bf16'
run compile "$model" --compute bf16 --report -o other.bin
code 0
run compile "$model" --compute f16 -o other.bin
code 2
err_has '--compute needs one of f32|bf16'
run compile "$model" --compute bf16 --weights q8 -o other.bin
code 2
err_has 'products in bf16 need a program whose weights are f32 or bf16'
run compile "$model" --caches f8 -o other.bin
code 2
err_has '--caches needs one of f32|f16|bf16'
run compile "$model" --weights q4 --activations int8 --report -o other.bin
code 0
run compile "$model" --weights q8 --activations int4 -o other.bin
code 2
err_has '--activations needs one of f32|int8'
run compile "$model" -O3 -o other.bin
code 2

# Nothing half-written, and nothing replaced that may not be.
run compile "$model"
code 2
err_has 'the output is missing. Add -o PROG'
run compile "$data/cases/unknown/model.onnx" -o unknown.bin
code 4
err_has Frobnicate
err_has Befuddle
err_has 'lists all nodes that keep it from compiling'
check test ! -e unknown.bin
cp add.bin kept.bin
run compile "$data/cases/unknown/model.onnx" -o kept.bin
check cmp add.bin kept.bin
run compile "$model" -o no/such/folder.bin
code 6
err_has 'no/such/folder.bin: cannot be written: No such file or directory'
run compile "$model" -o /dev/full
code 6
err_has '/dev/full: cannot be written: No space left on device'
run compile "$model" -o sub
code 6
err_has 'Is a directory'
run compile missing.onnx -o x.bin
code 6
err_has 'missing.onnx'
run compile "$model" -o /dev/null
code 0
check test -c /dev/null
ln -s kept.bin link.bin
run compile "$model" --strip -o link.bin
check test -L link.bin
check cmp kept.bin stripped.bin
chmod 640 kept.bin
run compile "$model" -o kept.bin
check test "$(stat -c %a kept.bin)" = 640
run asm rubbish.txt -o x.bin
code 6
echo 'xcvm 1
$1 = Nonsense()' >rubbish.txt
run asm rubbish.txt -o x.bin
code 3
err_has 'rubbish.txt: '
err_has Nonsense
check test ! -e x.bin
run asm add.txt
code 2
{ (ulimit -f 1; "$xcvm" compile "$model" -o limited.bin --dim N=4); } >/dev/null 2>&1
check test -z "$(find . -name '*.bin.*')"

# Kernel libraries: next to the program, or nowhere when a model is compiled in memory.
export XDG_CACHE_HOME=$work/cache TMPDIR=$work/tmp
mkdir tmp fused
run compile "$model" --dim N=4 --kernel-library -o fused/add.bin
code 0
err ''
check test "$(cd fused && echo *)" = 'add.bin add.so'
check test "$(echo cache/xcvm/*.so | wc -w)" = 1
run run fused/add.bin -i ones
out 'y=4x3xf32=11 21 31 11 21 31 11 21 31 11 21 31'
err ''
run run "$model" --dim N=4 --kernel-library -i ones --trace-shapes
code 0
out_has KernelCall
run profile "$model" --dim N=4 --kernel-library -n 1
code 0
out_like '^KernelCall '
run test "$data/cases/add" --kernel-library --layout plain --weights bf16
code 0
run diff "$model" fused/add.bin --dim N=4 --random
code 2
err_has 'has an open dimension "N"'
run diff "$model" "$model" --dim N=4 --random --kernel-library
code 0
run bench fused/add.bin -n 1 --fuse -O0
code 0
err_has 'note: fused/add.bin: the program is compiled already'
run compile "$model" --kernel-library -o fused/open.bin
code 0
err_has 'no group of instructions can be compiled'
check test ! -e fused/open.so
run compile "$model" --dim N=4 --kernel-library -o -
code 2
err_has 'which must be a file'
run compile "$model" --dim N=4 --kernel-library --report
code 0
check test ! -e /dev/null.so
for option in --target=generic --cc=cc; do
    run compile "$model" $option -o other.bin
    code 2
    err_has 'has no effect without --kernel-library'
done
run compile "$model" --dim N=4 --kernel-library --cc no-such-compiler -o fused/other.bin
code 4
err_has 'no-such-compiler cannot be run'
printf '#!/bin/sh\nexit 127\n' >missing-cc
chmod +x missing-cc
run compile "$model" --dim N=4 --kernel-library --cc ./missing-cc -o fused/other.bin
code 4
err_has './missing-cc cannot be run'
mkdir 'with blanks'
printf '#!/bin/sh\nexec "$@"\n' >'with blanks/wrap'
chmod +x 'with blanks/wrap'
ln -s 'with blanks/wrap' wrap
printf '#!/bin/sh\nexec cc "$@"\n' >'with blanks/cc'
chmod +x 'with blanks/cc'
for compiler in './wrap cc -O1' 'with blanks/cc'; do
    run compile "$model" --dim N=5 --kernel-library --cc "$compiler" -o fused/other.bin
    code 0
    err ''
    check rm fused/other.bin fused/other.so
done
CC='' run compile "$model" --dim N=6 --kernel-library -o fused/other.bin
code 0
check rm fused/other.bin fused/other.so
run compile "$model" --dim N=5 --kernel-library --cc ' ' -o fused/other.bin
code 2
printf '#!/bin/sh\ntouch started\nsleep 5\n' >slow
chmod +x slow
for made in "compile -o fused/other.bin" bench; do
    rm -f started
    # shellcheck disable=SC2086 # words
    CC=$work/slow XDG_CACHE_HOME=$work/none "$xcvm" $made "$model" --dim N=7 --kernel-library >/dev/null 2>&1 &
    waiting=$!
    for ((i = 0; i < 100; i++)); do
        [ -e started ] && break
        sleep 0.1
    done
    last="xcvm $made, ended by a signal"
    check test -e started
    kill -TERM $waiting
    wait $waiting 2>/dev/null
done
check test "$(cd fused && echo *)" = 'add.bin add.so open.bin'
check test -z "$(ls -A tmp)"

# Checking.
run check "$model"
code 0
run check "$data/cases/unknown/model.onnx"
code 4
out_has Frobnicate
out_has Befuddle
run check rubbish.txt
code 3
run check nothing
code 6
run_in check - <"$model"
code 0
out_has 'compiles'
run_in check - <add.bin
code 0
out_has '-: valid program'
printf 'garbage' >garbage.onnx
run check garbage.onnx
code 3

# Prefixes of a program: a message and an exit code, never more. (Every prefix is tried in process by other tests.)
size=$(wc -c <small.bin)
for ((i = 0; i < size; i += 1 + i / 8)); do
    head -c "$i" small.bin >cut.bin
    run check cut.bin
    if [ "$status" -gt 6 ]; then bad "exit code $status after $i bytes"; else good; fi
done

finish

# compile, dump, asm, strip and check: what they write, and that nothing is left behind when they fail.
. "$(dirname "$0")/expect.sh"

model=$data/cases/add/model.onnx
run compile "$model" -o add.bin
code 0
out ''
err ''
check test -s add.bin
run check add.bin
code 0
out_has 'add.bin: a sound program of format 1, by xcvm'
out_line 'input  x  f32[Nx3]'
out_line 'output  y  f32[Nx3]'

# Text and back, with literals and with references, from other folders too.
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
check test "$status" -ne 0
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
run compile "$model" --strip -o stripped.bin
code 0
check cmp small.bin stripped.bin
run strip small.bin -o small.bin
check cmp small.bin stripped.bin
run run small.bin -i '1 2 3'
out 'y=1x3xf32=11 22 33'

# Passes and the report.
run compile --list-passes
code 0
out_like '^simplify +[a-z]'
run compile "$model" --dump-after infer
code 0
out_has Add
run compile "$model" --dump-after smplify
code 2
err_has 'did you mean "simplify"?'
run compile "$model" --report --dim N=4
code 0
out_has 'peak bytes'
run compile "$model" --schedule naive -O1 -o other.bin
code 0
run compile "$model" --schedule quick -o other.bin
code 2
err_has '--schedule is one of memory|naive'
run compile "$model" --weights bf16 --report -o other.bin
code 0
out_like '^weight bytes +0 +0'
run compile "$model" --weights f64 -o other.bin
code 2
err_has '--weights is one of f32|f16|bf16'
run compile "$model" -O3 -o other.bin
code 2

# Nothing half-written, and nothing replaced that may not be.
run compile "$model"
code 2
err_has 'wants an output: -o PROG'
run compile "$data/cases/unknown/model.onnx" -o unknown.bin
code 4
err_has Frobnicate
err_has Befuddle
err_has 'lists everything'
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

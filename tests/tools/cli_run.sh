. "$(dirname "$0")/expect.sh"

assemble add.bin <<'X'
xcvm 1
producer "hand"
input x f32[Nx3]
output y f32[Nx3]
constant w f32[3] = 10 20 30
$1 = In(name="x")
$2 = Add($1, @w) node="adding" name="s"
$3 = Relu($2) node="relu" name="r"
Out($3, name="y")
X
assemble two.bin <<'X'
xcvm 1
producer "hand"
input a f32[Nx2]
input b f32[Nx2]
output c f32[Nx2]
output d f32[Nx2]
$1 = In(name="a")
$2 = In(name="b")
$3 = Add($1, $2)
$4 = Mul($1, $2)
Out($3, name="c")
Out($4, name="d")
X
assemble log.bin <<'X'
xcvm 1
producer "hand"
input x f32[?]
output y f32[?]
$1 = In(name="x")
$2 = Neg($1)
$3 = Log($2) node="the log" name="logged"
Out($3, name="y")
X
assemble small.bin <<'X'
xcvm 1
input x f32[1]
output y bool[1]
$1 = In(name="x")
$2 = Greater($1, f32[1] 0)
Out($2, name="y")
X
assemble loop.bin <<'X'
xcvm 1
producer "hand"
again:
Jmp(to=again)
X

# Inputs in all forms.
run run add.bin --input x='2x3xf32=1 -20 3 4 5 6'
code 0
out 'y=2x3xf32=11 0 33 14 25 36'
run run add.bin -i '1x3xf32=1 2 3'
out 'y=1x3xf32=11 22 33'
run run add.bin -i '1 2 3'
out 'y=1x3xf32=11 22 33'
run run add.bin -i x=1x3xi64=1
out 'y=1x3xf32=11 21 31'
run run add.bin --input=x=zeros --dim N=2
out 'y=2x3xf32=10 20 30 10 20 30'
run run add.bin -i x=ones
code 0
err_has 'note: dimension N of input x is set to 1'
out 'y=1x3xf32=11 21 31'
run run add.bin --random --seed 7 --dim N=1
cp .out first
run run add.bin --random --seed 7 --dim N=1
check cmp .out first
run run add.bin -i x=random:5 --dim N=1000 --max-elements 4
out_like '^y=1000x3xf32 min=[0-9.]+ max=[0-9.]+ mean=[0-9.]+ std=[0-9.e-]+ first( [0-9.]+){4} \.\.\.$'
run run two.bin -i a='2x2xf32=1 2 3 4' -i b=ones
out 'c=2x2xf32=2 3 4 5
d=2x2xf32=1 2 3 4'
err ''

# A program from its text, from standard input, and a model.
run dump add.bin -o add.txt
run run add.txt -i '1 2 3'
out 'y=1x3xf32=11 22 33'
run_in run - -i '1 2 3' <add.bin
out 'y=1x3xf32=11 22 33'
run_in run - -i '1 2 3' <"$data/cases/add/model.onnx"
out 'y=1x3xf32=11 22 33'
run run "$data/cases/add/model.onnx" -i '1 2 3' -O0
out 'y=1x3xf32=11 22 33'
run run <(cat add.bin) -i '1 2 3'
out 'y=1x3xf32=11 22 33'
run diff <(cat add.bin) <(cat "$data/cases/add/model.onnx") -i '1 2 3' --outputs-only
code 0
run check <(cat add.bin)
out_has 'valid program'
run check <(cat "$data/cases/add/model.onnx")
out_has compiles
run strip <(cat add.bin) -o - >/dev/null
code 0
cp "$data/cases/add/model.onnx" unnamed
run run unnamed -i '1 2 3'
out 'y=1x3xf32=11 22 33'
run run "$data/cases/add/model.onnx" -i x=zeros --dim N=2
out 'y=2x3xf32=10 20 30 10 20 30'
err ''

# Outputs to files, and back from them.
for file in npy npz pb bin; do
    run run add.bin -i '2x3xf32=1 2 3 4 5 6' --output y=@y.$file
    code 0
    out ''
    run run add.bin -i '2x3xf32=1 2 3 4 5 6' --expect "y=@y.$file"
    code 0
    out_has 'PASS y: 6 elements agree'
done
run run two.bin --random --dim N=2 --output c=@both.npz --output d=@both.npz:product
code 0
run run two.bin --random --dim N=2 --expect c=@both.npz:c --expect d=@both.npz:product
code 0
run run two.bin --random --dim N=2 -o c= -o d=-
code 0
out_lacks c=
out_has 'd=2x2xf32='
run run add.bin -i '1 2 3' -o y=@y.nyp
code 2
err_has 'y.nyp: the format of the file is unknown'
run run add.bin -i '1 2 3' -o y=@no/such/y.npy
code 6
err_has 'no/such/y.npy: cannot be written: No such file or directory'
run run add.bin -i '1 2 3' -o y=3
code 2
run run add.bin -i '1 2 3' -o y=@/dev/full
code 2
ln -s /dev/full full.npy
run run add.bin -i '1 2 3' -o y=@full.npy
code 6
err_has 'No space left on device'

# Expectations.
run run add.bin -i '1 2 3' --expect y='11 22 33.5'
code 1
out_has 'FAIL y: 1 of 3 elements differ, worst at [0,2]: 33 instead of 33.5 (absolute 0.5, relative 0.0149)'
run run add.bin -i '1 2 3' --expect '11 22 33.5' --rtol 0.1
code 0
run run add.bin -i '1 2 3' --expect y='3xf32=11 22 33'
code 1
out_has 'another shape: f32[1x3] instead of f32[3]'

# Missing and unsuitable inputs.
run run two.bin
code 2
err_has 'inputs are missing. Set them, or use --random:'
err_has '--input a=...    f32[Nx2]'
err_has '--input b=...    f32[Nx2]'
{
    echo 'xcvm 1'
    for ((i = 1; i <= 40; i++)); do
        echo "input x$i f32[2]"
        echo "\$$i = In(name=\"x$i\")"
    done
} >many.txt
run run many.txt --input x2=1
code 2
err_has '  --input x1=...     f32[2]'
check sh -c 'tail -1 .err | grep -qx "  and [0-9]* more"'
run run two.bin -i a=1x2xf32=1 -i bb=1x2xf32=1
code 2
err_has 'there is no input "bb" (inputs: a, b). Did you mean "b"?'
run run two.bin -i '1 2'
code 2
err_has '--input: "1 2" has no name (inputs: a, b). Write NAME=SPEC'
run run two.bin -i a=1x2xf32=1 -i b=2x2xf32=1
code 2
err_has 'dimension 0, N, is 2, but another input or --dim says 1'
run run two.bin -i a=ones -i a=ones -i b=ones
code 2
err_has '"a" is given twice'
run run add.bin -i x=3xf32=1
code 2
err_has 'input "x" is declared as f32[Nx3], but was given f32[3]'
run run add.bin -i x='1x3xf32=1 2 z'
code 2
err_has '"z" is no number'
run run add.bin -i x=@nothing.npy
code 6
err_has 'nothing.npy: cannot be opened: No such file or directory'
run run add.bin -i '1 2 3' --dim N
code 2
err_has 'expected NAME=SIZE'

# Looking inside.
run run add.bin -i '1 -40 3' --trace-shapes
out '#0 $1 = In() name="x"  f32[1x3]
#1 $2 = Add($1, @0) node "adding"  f32[1x3]
#2 $3 = Relu($2) node "relu"  f32[1x3]
#3 Out($3) name="y"
y=1x3xf32=11 0 33'
run run add.bin -i '1 -40 3' --trace-values
out_line '#1 $2 = Add($1, @0) node "adding"  1x3xf32=11 -20 33'
run run log.bin -i '-1 -1' --check-nan --check-inf
code 0
run run log.bin -i '-1 2 3' --check-nan
code 1
err_has 'instruction 2 (Log, node "the log"): result 0 ($3, "logged") has 2 NaNs, the first at [1]'
err_has '$2 f32[3] min=-3 max=1'
out ''
run run log.bin -i '0 1' --check-nan
code 1
run run log.bin -i '0' --check-inf
code 1
err_has 'has 1 infinity, the first at [0]'
run run log.bin -i '-1' --check-nan --output @y.npy
code 0
run run add.bin -i '1 2 3' --dump-dir dumps
code 0
check test -s dumps/00001_s.npy
check test -s dumps/00002_r.npy
run run add.bin -i '1 2 3' --dump-dir add.bin
code 6
err_has 'add.bin: is not a directory'

# Limits.
run run loop.bin --fuel 1000
code 5
run run loop.bin --timeout-ms 30
code 5
run run add.bin -i x=random --dim N=5000 --max-memory 100K
code 5
err_has 'add.bin: instruction'
err_has 'note: the inputs need 60'
run run add.bin -i '1 2 3' --iterations 5 --threads 2 --strict-types --copy --no-libraries
code 0

# Subnormal numbers are numbers.
run run small.bin -i 1e-40 --expect true
code 0
run run small.bin -i 1e-40 --expect false --flush-subnormals
code 0

# Files that cannot be run.
run run nothing.bin
code 6
err 'xcvm run: nothing.bin: cannot be opened: No such file or directory'
run run .
code 6
err_has 'is a directory'
echo rubbish >rubbish
run run rubbish
code 3
err_has 'xcvm run: rubbish: '
head -c 40 add.bin >short.bin
run run short.bin -i '1 2 3'
code 3
run run "$data/cases/unknown/model.onnx" --random
code 4
err_has Frobnicate
err_has Befuddle
"$xcvm" run add.bin -i '1 2 3' >/dev/full 2>.err
status=$?
last='run > /dev/full'
code 6
err_has 'standard output cannot be written: No space left on device'

assemble table.bin <<'X'
xcvm 1
producer "hand"
input i i64[100]
output y f32[?]
$1 = In(name="i")
$2 = Gather(f32[3] 1 2 3, $1)
Out($2, name="y")
X
assemble shape.bin <<'X'
xcvm 1
input s i64[2]
output y f32[?x?]
$1 = In(name="s")
$2 = Reshape(f32[3] 1 2 3, $1)
Out($2, name="y")
X
run bench shape.bin --random
code 3
err_has 'note: inputs of integers have random elements. If one selects a case or a size, set it: --input'
for command in run bench profile "diff table.bin"; do
    run $command table.bin --random
    code 3
    err_has 'note: random integers are from 0 to 7999. If one is out of range, reduce them: --int-max=N'
    run $command table.bin --random --int-max=3
    code 0
done

# Lists that share their items have exponentially many, so the printed text is limited.
{
    echo 'xcvm 1'
    echo 'output y seq(f32)'
    echo '$1 = SequenceConstruct([f32[] 1, f32[] nan])'
    for i in $(seq 2 14); do
        echo "\$$i = SequenceConstruct([\$$((i - 1)), \$$((i - 1)), \$$((i - 1)), \$$((i - 1)), \$$((i - 1)), \$$((i - 1))])"
    done
    echo 'Out($14, name="y")'
} >nested.xcvm
run asm nested.xcvm -o nested.bin
code 0
run run nested.bin
code 0
out_has '... 6 items)'
run run nested.bin --trace-shapes --trace-values
code 0
run run nested.bin --output y=@nested.pb
code 3
err_has 'more than 4194304 values'
check test ! -e nested.pb

finish

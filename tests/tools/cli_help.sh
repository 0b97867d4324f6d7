# Help, the man page, completion, wrong command lines; and that the manual is up to date.
. "$(dirname "$0")/expect.sh"
manual=$(cd "$data/../../.." && pwd)/docs/manual
scripts=$(cd "$data/.." && pwd)
# Each command has a page and a script that runs it, and each page has a command.
commands=$("$xcvm" help | awk '/^$/ { listed = 0 } listed && /^  [a-z]/ { print $1 } /^Commands$/ { listed = 1 }')
pages=$(find "$manual" -name '*.md' ! -name spec.md -exec basename {} .md \; | sort)

run
code 2
err_has 'Usage: xcvm COMMAND'
check test "$(printf '%s\n' $commands | sort)" = "$pages"
run help
code 0
for command in $commands; do
    out_like "^  $command "
    last="a test of xcvm $command"
    check sh -c "ls $scripts/cli_*.sh | grep -vE '/cli_(help|manual)[.]sh' |
        xargs grep -lE '(^|[ ;(])(run|run_in|\"[\$]xcvm\") $command( |\$)'"
done
run --help
code 0
run --version
code 0
out_like '^xcvm [0-9]+\.[0-9]+\.[0-9]+$'
run rnu
code 2
err_has 'there is no command "rnu". Did you mean "run"?'
run help nothing
code 2

for command in $commands; do
    run help "$command"
    code 0
    out_has "Usage: xcvm $command"
    out_has 'Examples'
    out_has '  6  a file cannot be read or written'
    check test "$(awk 'length > 80' .out | grep -vc '^  xcvm ')" = 0
    cp .out help.txt
    run "$command" --help
    code 0
    check cmp .out help.txt
    run help "$command" --markdown
    code 0
    check diff .out "$manual/$command.md"
    run "$command" --no-such-option
    code 2
    err_has 'unknown option --no-such-option'
    err_has "Try: xcvm help $command"
done
run help spec
code 0
out_has '2x3xf32=1 2 3 4 5 6'
cp .out spec.txt
for type in $("$xcvm" ops Identity | awk '$1 == "x" { for (i = 4; i <= NF; i++) print $i }'); do
    check grep -qw "$type" spec.txt
    check grep -qw "$type" "$manual/../assembly.md"
done
run help spec --markdown
check diff .out "$manual/spec.md"

# A new page of docs/manual or docs/api needs no list but those of subcommands and headers.
root=$(cd "$manual/../.." && pwd)
last='docs/api'
check test "$(cd "$root/docs/api" && ls ./*.md | sed 's/md$/h/')" = "$(cd "$root/include/xcvm" && ls ./*.h)"

# Every mistake at once.
run run --trheads 2 --rtol=x --random=1 a b
code 2
err_has 'unknown option --trheads. Did you mean --threads?'
err_has '--rtol needs a number of at least 0 (given: "x")'
err_has '--random takes no value'
err_has 'unexpected argument "a"'
run run
code 2
err_has 'PROG is missing'

run --man
code 0
out_has '.TH XCVM 1'
for command in $commands; do
    out_line ".SS xcvm $command"
done
if command -v man >/dev/null && command -v groff >/dev/null; then
    last='man page'
    check sh -c 'groff -man -Tascii -ww -z .out 2>&1 | tee groff.txt; test ! -s groff.txt'
fi

# A page of each subcommand, as `man xcvm-run`.
for command in $commands; do
    run --man "$command"
    code 0
    out_like "^\.TH XCVM-$(echo "$command" | tr a-z A-Z) 1 "
    out_like "^xcvm\\\\-$command \\\\- "
    for section in SYNOPSIS DESCRIPTION OPTIONS 'EXIT STATUS' 'SEE ALSO'; do
        out_line ".SH $section"
    done
    if command -v man >/dev/null && command -v groff >/dev/null; then
        check sh -c 'groff -man -Tascii -ww -z .out 2>&1 | tee groff.txt; test ! -s groff.txt'
    fi
done
run --man nothing
code 2
err_has 'there is no command "nothing"'

run --completion bash
code 0
check bash -n .out
cat >complete.sh <<'X'
. ./.out
complete_words() {
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    compopt() { :; }
    _xcvm
    echo "${COMPREPLY[*]}"
}
test "$(complete_words xcvm pro)" = profile || exit 1
test "$(complete_words xcvm run --trace-v)" = --trace-values || exit 2
test "$(complete_words xcvm compile --schedule = n)" = naive || exit 3
test "$(complete_words xcvm compile --schedule=m)" = memory || exit 4
test "$(complete_words xcvm compile --schedule n)" = naive || exit 7
touch model.onnx
test "$(complete_words xcvm run --input x = @mod)" = @model.onnx || exit 8
mkdir model.folder
test "$(complete_words xcvm run --dump-dir mod)" = model.folder || exit 9
rmdir model.folder
test "$(complete_words xcvm run mod)" = model.onnx || exit 5
test "$(complete_words xcvm help com)" = compile || exit 6
# Names in the libraries' tables. Each list is that of the error for an unknown name, so none is omitted.
test "$(complete_words xcvm train --loss = soft)" = softmax_cross_entropy || exit 10
test "$(complete_words xcvm check --loss=ms)" = mse || exit 11
test "$(complete_words xcvm compile --loss bce)" = 'bce bce_with_logits' || exit 12
test "$(complete_words xcvm train --optimizer adag)" = adagrad || exit 13
test "$(complete_words xcvm compile --train = sg)" = sgd || exit 14
test "$(complete_words xcvm train --schedule cos)" = cosine || exit 15
test "$(complete_words xcvm train --metric acc)" = accuracy || exit 16
test "$(complete_words xcvm train --recompute ch)" = chen || exit 17
test "$(complete_words xcvm train --recompute cus)" = custom: || exit 18
test "$(complete_words xcvm train --init he)" = he || exit 19
test "$(complete_words xcvm compile --weights q4)" = 'q4 q4a' || exit 20
test "$(complete_words xcvm quantize --weights i)" = 'i8 i4' || exit 21
test "$(complete_words xcvm quantize --types ConvT)" = ConvTranspose || exit 22
test "$(complete_words xcvm compile --target gen)" = generic || exit 24
test "$(complete_words xcvm run --isa gen)" = generic || exit 25
X
check bash complete.sh
run --completion fish
code 2
run ops
"$xcvm" help >/dev/full 2>.err
status=$?
code 6

finish

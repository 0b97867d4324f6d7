#!/bin/sh
# words.sh: checks that no file uses a word of scripts/words.txt: kind `text` in any file, kind `names` in C code outside
# comments and strings. Every source must begin with a comment, and the guard of a header must be its path. There is one
# macro each for checks and failures. The reason of a gradient that is refused must continue the name of the operator.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# "WORD KIND" for each word of the list.
awk '!/^#/ { print $1, $2 }' scripts/words.txt >"$work/words"
[ "$(wc -l <"$work/words")" -gt 30 ] || { echo 'scripts/words.txt has fewer words than expected' >&2; exit 1; }

git ls-files '*.c' '*.h' '*.def' >"$work/sources"
git ls-files '*.md' '*.sh' '*.awk' '*.py' '*.txt' '*.in' Makefile | grep -vE '^scripts/words\.txt$|^tests/fuzz/corpus/' >"$work/texts"

# Lines "FILE:LINE:" with the kind of the text, and the text.
{
    tr '\n' '\0' <"$work/texts" | xargs -0 awk '{ print FILENAME ":" FNR ": text " $0 }'
    tr '\n' '\0' <"$work/sources" | xargs -0 awk '
        FNR == 1 { inside = 0 }
        {
            print FILENAME ":" FNR ": text " $0
            line = $0
            gsub(/"([^"\\]|\\.)*"/, "", line)
            code = ""
            while (line != "") {
                at = index(line, inside ? "*/" : "/*")
                if (!inside)
                    code = code (at == 0 ? line : substr(line, 1, at - 1))
                if (at == 0)
                    break
                line = substr(line, at + 2)
                inside = !inside
            }
            if (code != "")
                print FILENAME ":" FNR ": names " code
        }'
} >"$work/lines"

bad=0
while read -r word kind; do
    if grep -wF -- "$word" "$work/lines" | grep -F ": $kind " >"$work/hits"; then
        sed "s/^/$word: /" "$work/hits" | cut -c1-160
        bad=1
    fi
done <"$work/words"

while read -r file; do
    case $(head -c 2 "$file") in '/*') ;; *) echo "$file: does not begin with a comment" && bad=1 ;; esac
done <"$work/sources"
# The guard of a header is its path: XCVM_, and XC_ in the texts of exported C, whose names all begin so. What is included
# several times, or made of macros alone, has none.
grep '\.h$' "$work/sources" | tr '\n' '\0' | xargs -0 awk '
    FNR == 1 {
        guard = FILENAME
        if (!sub(/^compiler\/export_c\/c_runtime\//, "XC_", guard)) {
            sub(/^include\/xcvm\//, "", guard)
            guard = "XCVM_" guard
        }
        guard = toupper(guard)
        gsub(/[^A-Z0-9]/, "_", guard)
    }
    /^#ifndef [A-Z0-9_]*_H$/ && $2 != guard { print FILENAME ": its guard is " $2 ", not " guard; wrong = 1 }
    END { exit wrong }' || bad=1
if grep -HE '^#define \w*(CHECK|FAIL|REQUIRE|NEED|REFUSE)\(' $(grep '\.h$' "$work/sources") | grep -vE 'XCVM_(CHECK|FAIL)\('; then
    bad=1
fi
# A rule's reason follows the operator's name in the message, so that it begins with a verb.
git ls-files 'compiler/gradients/*.c' | tr '\n' '\0' | xargs -0 awk '
    { text = wanted ? text $0 : $0 }
    /xcc_refuse\(/ && !/^void/ { wanted = 1; at = FNR; text = $0 }
    wanted && match(text, /"[^"]*"/) {
        reason = substr(text, RSTART + 1, RLENGTH - 2)
        if (reason !~ /^(has|calls)[ ,]/)
            print FILENAME ":" at ": the reason does not begin with \"has\": " reason
        seen++
        wanted = 0
    }
    END { if (seen < 20) print "compiler/gradients: only " seen + 0 " reasons of xcc_refuse were found" }' >"$work/reasons"
[ ! -s "$work/reasons" ] || { cat "$work/reasons"; bad=1; }
echo "$(wc -l <"$work/words") words looked for in $(cat "$work/sources" "$work/texts" | wc -l) files"
exit $bad

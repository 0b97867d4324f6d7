#!/bin/sh
# entries.sh: each public function of the tape, of layers and of static functions has a row in tape/entries.def, and
# begins with the check of its own row; no row is of another function.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for header in tape tape_static layers optimizers functions; do
    tr '\n' ' ' <"include/xcvm/$header.h" | grep -oE 'XCVM_API[^;]*;' | grep -oE '\bxcvm_[a-z0-9_]+\(' | tr -d '('
done | sort -u >"$work/declared"
sed -nE 's/^TAPE_(NO_)?ENTRY\((xcvm_[a-z0-9_]+).*/\2/p' tape/entries.def | sort >"$work/rows"
bad=0
diff "$work/declared" "$work/rows" || { echo 'tape/entries.def has other functions (>) than the headers (<)' >&2; bad=1; }

# "FUNCTION CHECKED" for each definition: the name in TAPE_ENTER or TAPE_BEGIN of its body.
git ls-files 'tape/*.c' | xargs awk '
    /^[a-z]/ && !/^static/ && !/;$/ && match($0, /xcvm_[a-z0-9_]+\(/) { name = substr($0, RSTART, RLENGTH - 1) }
    name != "" && /TAPE_(ENTER|BEGIN)\(/ {
        text = $0
        sub(/.*TAPE_(ENTER|BEGIN)\(/, "", text)
        if (match(text, /, *xcvm_[a-z0-9_]+[,)]/))
            print name, substr(text, RSTART + 2, RLENGTH - 3)
    }
    /^}/ { name = "" }' | sort -u >"$work/checks"
sed -nE 's/^TAPE_ENTRY\((xcvm_[a-z0-9_]+),.*/\1/p' tape/entries.def | while read -r name; do
    grep -qx "$name $name" "$work/checks" || echo "$name does not begin with TAPE_ENTER or TAPE_BEGIN of its name"
done >"$work/missing"
awk '$1 != $2 { print $1 " has the check of " $2 }' "$work/checks" >>"$work/missing"
[ ! -s "$work/missing" ] || { cat "$work/missing" >&2; bad=1; }
[ "$bad" = 0 ]
echo "$(wc -l <"$work/rows") functions"

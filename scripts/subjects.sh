#!/bin/sh
# Commit subjects: "area: summary", 72 characters at most, no full stop. Checks the commits since this file was added.
set -eu
cd "$(dirname "$0")/.."
added=$(git log --diff-filter=A --format=%H -- scripts/subjects.sh | tail -n 1)
[ -n "$added" ] || { echo 'scripts/subjects.sh is not committed yet, or this is no clone' >&2; exit 1; }
git log --no-merges --format='%h%x09%s' "$added^..HEAD" | awk -F '\t' '
    function refuse(why) { print $1 ": " $2 ": " why; bad = 1 }
    length($2) > 72 { refuse("more than 72 characters") }
    $2 !~ /^[a-z][a-z0-9_\/., -]*: [^ ]/ { refuse("expected \"area: summary\"") }
    $2 ~ /\.$/ { refuse("ends with a full stop") }
    END { print NR " subjects"; exit bad }'

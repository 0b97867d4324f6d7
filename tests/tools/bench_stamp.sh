#!/bin/sh
# bench_stamp.sh: tables of benchmark pages say where and when they were measured; a later measurement replaces those of its
# own processor alone.
set -eu
stamp=$(cd "$(dirname "$0")/../.." && pwd)/bench/stamp.py
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

page() { # FIGURE
    printf '# Page\n\nText.\n\n## One\n\n| a |\n| --- |\n| %s.1 |\n\n| a |\n| --- |\n| %s.2 |\n\n## Two\n\n```\n%s.3\n```\n' "$1" "$1" "$1"
}

expect() { # FILE: the expected page on standard input
    cat >expected
    diff -u expected "$1"
}

page old >page.md
STAMP_PROCESSOR='CPU A' STAMP_DATE=2026-01-02 "$stamp" page.md
page new >page.md.new
STAMP_PROCESSOR='CPU B' STAMP_DATE=2026-03-04 "$stamp" page.md.new page.md
expect page.md.new <<'END'
# Page

Text.

## One

Measured on CPU B, 2026-03-04.

| a |
| --- |
| new.1 |

Measured on CPU A, 2026-01-02.

| a |
| --- |
| old.1 |

Measured on CPU B, 2026-03-04.

| a |
| --- |
| new.2 |

Measured on CPU A, 2026-01-02.

| a |
| --- |
| old.2 |

## Two

Measured on CPU B, 2026-03-04.

```
new.3
```

Measured on CPU A, 2026-01-02.

```
old.3
```
END
# CPU A again: its tables are replaced, those of CPU B stay.
mv page.md.new page.md
page last >page.md.new
STAMP_PROCESSOR='CPU A' STAMP_DATE=2026-05-06 "$stamp" page.md.new page.md
! grep -q 'old\|2026-01-02' page.md.new
[ "$(grep -c 'Measured on CPU A, 2026-05-06\.' page.md.new)" = 3 ]
[ "$(grep -c 'Measured on CPU B, 2026-03-04\.' page.md.new)" = 3 ]
[ "$(grep -c 'new\.\|last\.' page.md.new)" = 6 ]
# A page that is stamped stays as it is.
cp page.md.new again.md
"$stamp" again.md
diff page.md.new again.md

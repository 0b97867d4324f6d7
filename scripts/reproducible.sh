#!/bin/sh
# reproducible.sh DEBS OUT: builds the Debian packages once more, in OUT and under other conditions than those in DEBS, a
# result of `debian.sh build` from the same files. Then it makes the image of the server from both. Exit code 1 if a package or the
# image has other bytes.
#
# The conditions are those of https://reproducible-builds.org: path, date, time zone, locale, user, host and kernel name,
# umask, environment, number of processors, address space, and order of directories. A build takes about eight minutes of
# processor time.
set -eu
first=$(cd "$1" && pwd)
ls "$first"/*.deb >/dev/null || { echo "$1 has no packages; make deb builds them" >&2; exit 1; }
mkdir -p "$2"
base=$(cd "$2" && pwd)
cd "$(dirname "$0")/.."

# A directory that lists its files in reverse, where FUSE permits it.
mkdir -p "$base/files" "$base/reversed"
unmount() { ! mountpoint -q "$base/reversed" || fusermount -u "$base/reversed"; }
unmount
if [ "$(id -u)" = 0 ] &&
    disorderfs --multi-user=yes --shuffle-dirents=no --reverse-dirents=yes "$base/files" "$base/reversed" >/dev/null; then
    trap unmount EXIT
else
    echo 'note: the order of directories stays, because disorderfs needs root and FUSE'
fi

# With Turkish, the upper case of "i" is another letter.
localedef -i tr_TR -f UTF-8 --no-archive "$base/tr_TR.UTF-8"
# shellcheck disable=SC2016 # the inner shell expands them
set -- unshare --map-root-user --uts sh -c 'hostname another-host && exec "$@"' - unshare --map-user=4321 --map-group=4321
"$@" true 2>/dev/null || { set -- && echo 'note: user and host stay, because the machine has no user namespaces'; }
# Files keep their times, because ninja compares those.
umask 0002
out=$base/reversed/built-in-a-directory-with-a-longer-name
set -- "$@" setarch --uname-2.6 -R taskset -c 0 env HOME=/nonexistent/of-another-user USER=another LOGNAME=another \
    CAPTURED=environment "PATH=$PATH:/nonexistent/bin" TZ=Etc/GMT-14 "LOCPATH=$base" LC_ALL=tr_TR.UTF-8 LANGUAGE=tr \
    DEB_BUILD_OPTIONS='nocheck parallel=1' NO_FAKE_STAT=1 faketime -f +400d
"$@" scripts/debian.sh packages "$out"

failed=0
for package in "$first"/*.deb "$out"/*.deb; do
    name=$(basename "$package")
    if [ ! -e "$first/$name" ] || [ ! -e "$out/$name" ]; then
        failed=1
        echo "FAIL $name: only one of the builds has it"
    elif [ "$package" = "$out/$name" ]; then
        continue
    elif cmp -s "$package" "$out/$name"; then
        echo "same $name"
    else
        failed=1
        echo "FAIL $name: other bytes"
        ! command -v diffoscope >/dev/null || diffoscope --max-report-size 4000 "$package" "$out/$name" || true
    fi
done
scripts/image.sh build "$first" "$base/first.tar"
"$@" scripts/image.sh build "$out" "$base/second.tar"
if cmp -s "$base/first.tar" "$base/second.tar"; then
    echo 'same image'
else
    failed=1
    echo "FAIL image: other bytes in $base/first.tar and $base/second.tar"
fi
exit $failed

#!/bin/sh
# debian-source.sh PACKAGE VERSION: unpacks the upstream sources of a Debian package into build/sources/PACKAGE, for cross
# builds to platforms that Debian has no library for. The version of the upstream sources is pinned. A source list and
# package lists of its own leave those of the system unchanged. Exit code 1 if the sources cannot be had.
set -eu
cd "$(dirname "$0")/.."
package=$1 version=$2
to=build/sources/$package
[ "$(cat "$to/.version" 2>/dev/null)" != "$version" ] || exit 0
work=build/sources/.apt
rm -rf "$to" "$to.new"
mkdir -p "$work/lists/partial" "$to.new"
# The archives that packages come from, each with its sources. Updates have the same upstream version.
apt-get indextargets --format '$(ORIGIN)|$(REPO_URI)|$(CODENAME)|$(COMPONENT)' 'Created-By: Packages' |
    sort -u | awk -F'|' '$1 == "Debian" && $4 == "main" && $3 !~ /-/ { print "deb-src", $2, $3, $4 }' >"$work/sources.list"
work=$PWD/$work
set -- -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$work/lists" \
    -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache=" -o APT::Sandbox::User=root
{ apt-get "$@" update && (cd "$work" && apt-get "$@" source --download-only "$package"); } >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    echo "the sources of $package cannot be fetched from Debian" >&2
    exit 1
}
archive=$(ls "$work/${package}_$version.orig.tar."* 2>/dev/null | head -1)
[ -n "$archive" ] || { echo "Debian has no version $version of $package: $(cd "$work" && ls "$package"*)" >&2; exit 1; }
tar -xf "$archive" -C "$to.new" --strip-components=1
echo "$version" >"$to.new/.version"
mv "$to.new" "$to"
rm -rf "$work"

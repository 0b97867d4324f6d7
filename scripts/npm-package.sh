#!/bin/sh
# npm-package.sh NAME[@VERSION] [PREFIX]: installs an npm package into PREFIX/node_modules (default: bench/out), and npm
# before it. Does nothing if that version is installed. Without --prefix npm would install into the nearest parent directory
# that has a package.json. Exit code 1 if the package cannot be fetched, 77 if there is none for this machine.
set -eu
cd "$(dirname "$0")/.."
case $(uname -m) in
x86_64 | aarch64) ;;
*)
    echo "npm's packages have nothing for $(uname -m)"
    exit 77
    ;;
esac
# Node.js from other sources has its own npm, which conflicts with Debian's.
command -v npm >/dev/null 2>&1 || scripts/install-packages.sh npm >&2
prefix=${2:-bench/out}
name=$1 version=
case $1 in
?*@*) name=${1%@*} version=${1##*@} ;;
esac
installed=$prefix/node_modules/$name/package.json
if [ -n "$version" ] && grep -q "\"version\": \"$version\"" "$installed" 2>/dev/null; then
    exit 0
fi
mkdir -p "$prefix"
# Packages of one prefix may disagree about the version of a peer, which npm refuses otherwise.
npm install --prefix "$prefix" --legacy-peer-deps --ignore-scripts --no-audit --no-fund "$1" >&2
[ -f "$installed" ] || { echo "npm has not installed $1 into $prefix/node_modules" >&2; exit 1; }

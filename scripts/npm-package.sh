#!/bin/sh
# npm-package.sh NAME: installs an npm package into bench/out/node_modules, and npm if necessary. Without --prefix npm
# would install into the nearest parent directory with a package.json. Exit code 1 if it cannot be downloaded, 77 if
# there is none for this machine.
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
mkdir -p bench/out
npm install --prefix bench/out --ignore-scripts --no-audit --no-fund "$1" >&2
[ -d "bench/out/node_modules/$1" ] || { echo "npm has not installed $1 into bench/out/node_modules" >&2; exit 1; }

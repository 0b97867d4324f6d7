#!/bin/sh
# npm-pack.sh FOLDER NAME VERSION: unpacks one npm package into FOLDER/NAME, without its dependencies, some of which are
# large or not in a registry. Does nothing if it exists.
set -eu
folder=$1 name=$2 version=$3
[ ! -f "$folder/$name/package.json" ] || exit 0
command -v npm >/dev/null 2>&1 || "$(dirname "$0")/install-packages.sh" npm >&2
pack=$(mktemp -d)
trap 'rm -rf "$pack"' EXIT
npm pack --ignore-scripts --silent --pack-destination "$pack" "$name@$version" >&2
mkdir -p "$folder/$name"
tar -xzf "$pack"/*.tgz -C "$folder/$name" --strip-components=1

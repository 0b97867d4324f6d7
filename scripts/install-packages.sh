#!/bin/sh
# Installs the Debian packages that are named as arguments and missing, or says how to.
set -eu

# A library may be installed for several architectures; the plain name selects the machine's own.
native=$(dpkg --print-architecture)
missing=
for package; do
    case $package in
    *:*) wanted=${package#*:} ;;
    *) wanted=$native ;;
    esac
    dpkg-query -W -f '${Status} ${Architecture}\n' "$package" 2>/dev/null |
        grep -qE "^install ok installed ($wanted|all)\$" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

install="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" = 0 ]; then
    run=
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    run=sudo
else
    echo "These packages are needed; install them and run this again:" >&2
    echo "    sudo $install" >&2
    exit 1
fi
# shellcheck disable=SC2086 # the list is meant to be split
set -- $missing
echo "installing $# packages and what they need, which can take minutes:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086 # the list is meant to be split
if ! { $run apt-get update && DEBIAN_FRONTEND=noninteractive $run $install; } >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi

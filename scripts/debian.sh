#!/bin/sh
# debian.sh: the Debian packages.
#   debian.sh build OUT [OPTION...]   builds them in OUT from the files of the repository, as they are; options are those
#                                     of dpkg-buildpackage; lintian checks the packages
#   debian.sh packages OUT [OPTION...]   the same without lintian
#   debian.sh symbols BUILD           renews debian/libxcvm0.symbols from the shared libraries of BUILD
#   debian.sh check BUILD             compares debian/ with the tree: versions, packages that a build needs, symbols
set -eu
cd "$(dirname "$0")/.."
version=$(awk '/^#define XCVM_VERSION_(MAJOR|MINOR|PATCH) / { printf "%s%s", dot, $3; dot = "." }' include/xcvm/xcvm.h)

# For each library a line with its name for the dynamic linker, and one for each symbol. A symbol keeps the
# version that it was added in.
symbols() { # BUILD
    known=debian/libxcvm0.symbols
    [ -f "$known" ] || known=/dev/null
    for library in "$1"/libxcvm*.so; do
        soname=$(readelf -dW "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
        [ -n "$soname" ] || { echo "$1 has no shared libraries" >&2; exit 1; }
        # A minor version may change the binary interface, and the name with it, as long as the major version is 0.
        echo "$soname libxcvm0 #MINVER#, libxcvm0 (<< ${version%%.*}.$(($(echo "$version" | cut -d. -f2) + 1))~)"
        echo '* Build-Depends-Package: libxcvm-dev'
        nm -D --defined-only "$library" | awk '$2 ~ /[TDBR]/ { print $3 }' | LC_ALL=C sort -u |
            awk -v library="$soname" -v version="$version" '
                FILENAME != "-" { if (/^\*/) next; if (/^[^ ]/) own = $1 == library; else if (own) first[$1] = $2; next }
                { print " " $1 "@Base " ($1 "@Base" in first ? first[$1 "@Base"] : version) }' "$known" -
    done
}

case $1 in
build | packages)
    mode=$1 out=$2
    shift 2
    [ $# -gt 0 ] || set -- -b
    rm -rf "$out"
    mkdir -p "$out/xcvm-$version"
    git ls-files -z | xargs -0 cp --parents -Pt "$out/xcvm-$version"
    cd "$out/xcvm-$version"
    log=../build.log
    if ! dpkg-buildpackage -us -uc "$@" >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        exit 1
    fi
    cd .. && rm -rf "xcvm-$version"
    [ "$mode" = packages ] || lintian --fail-on error,warning --allow-root ./*.changes
    for package in *.deb; do echo "$out/$package"; done
    ;;
symbols)
    symbols "$2" >"$2/libxcvm0.symbols"
    mv "$2/libxcvm0.symbols" debian/libxcvm0.symbols
    ;;
check)
    failed=
    packaged=$(sed -n '1s/^xcvm (\([^)]*\)).*/\1/p' debian/changelog)
    [ "$packaged" = "$version" ] || { echo "debian/changelog has version $packaged, and include/xcvm/xcvm.h has $version" && failed=1; }
    # What debhelper and build-essential bring along, and what only tests need.
    for package in $(sed -n '/^BUILD_PACKAGES = /,/[^\\]$/p' Makefile | sed 's/^BUILD_PACKAGES = //; s/\\$//'); do
        case $package in
        gcc | make | libc6-dev | check | libsubunit-dev | python3 | python3-venv) continue ;;
        esac
        sed -n '/^Build-Depends:/,/^Build-Depends-Indep:/p' debian/control | grep -q "^ $package,\$" ||
            { echo "debian/control: Build-Depends lacks $package, which the Makefile has" && failed=1; }
    done
    symbols "$2" | diff -u debian/libxcvm0.symbols - || { echo 'debian/libxcvm0.symbols is out of date; make generated renews it' && failed=1; }
    [ -z "$failed" ] || exit 1
    echo "version $version, $(grep -c '^ ' debian/libxcvm0.symbols) symbols"
    ;;
*)
    echo 'usage: debian.sh build|packages|symbols|check DIRECTORY' >&2
    exit 2
    ;;
esac

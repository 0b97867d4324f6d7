#!/bin/sh
# image.sh: an image of the model server for containers, as an OCI archive (https://github.com/opencontainers/image-spec).
#   image.sh build DEBS FILE   writes it from the packages in DEBS and from the shared libraries of this machine's packages
#   image.sh check FILE        checks the digests, and serves a model from its files
# Two builds from the same packages have the same bytes.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
most=25000000 # bytes of the archive
user=65532

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022

# ---- Files ----

# The package of a file, which a package may list by its path below / or below /usr.
package_of() { # FILE
    dpkg-query -S "$1" 2>/dev/null || dpkg-query -S "/usr$1" 2>/dev/null || dpkg-query -S "${1#/usr}"
}

# Adds a shared library under its name for the dynamic linker, and the copyright of its package.
add_library() { # NAME FILE
    case $1 in *ld-linux*) to=$tree/usr$2 ;; *) to=$tree/usr/lib/$triplet/$1 ;; esac
    [ ! -e "$to" ] || return 0
    file=$(realpath "$2")
    mkdir -p "$(dirname "$to")"
    cp "$file" "$to"
    package=$(package_of "$file") || { echo "no package has $2" >&2; exit 1; }
    add_package "$(echo "$package" | sed -n '1s/:.*//p')"
}

# Scanners for vulnerabilities read the versions in status.d.
add_package() { # PACKAGE
    [ ! -e "$tree/var/lib/dpkg/status.d/$1" ] || return 0
    dpkg-query -s "$1:$architecture" >"$tree/var/lib/dpkg/status.d/$1" 2>/dev/null || dpkg-query -s "$1" >"$tree/var/lib/dpkg/status.d/$1"
    mkdir -p "$tree/usr/share/doc/$1"
    cp -L "/usr/share/doc/$1/copyright" "$tree/usr/share/doc/$1/"
}

# Adds files of a package that was built.
add_built() { # DEBS PACKAGE PATTERN
    file=$(echo "$1/$2"_*_"$architecture".deb)
    dpkg-deb --fsys-tarfile "$file" | tar -x -C "$tree" --wildcards "$3" "./usr/share/doc/$2/copyright"
    dpkg-deb -f "$file" >"$tree/var/lib/dpkg/status.d/$2"
}

# The shared libraries that a file needs, as lines of name and path, without those that the caller preloads.
needed() { # FILE
    LD_PRELOAD='' LD_LIBRARY_PATH=$tree/usr/lib/$triplet ldd "$1" | awk '$2 == "=>" { print $1, $3 } $1 ~ /^\// { print $1, $1 }'
}

# What is opened on first use, by the names in the files. Open MPI is for training in several processes.
opened() {
    LC_ALL=C grep -aohE 'lib[A-Za-z0-9+_-]+\.so\.[0-9]+' "$tree/usr/bin/xcvm" "$tree/usr/lib/$triplet"/libxcvm* |
        grep -vE '^lib(xcvm|mpi)' | sort -u
}

make_tree() { # DEBS
    tree=$work/tree
    mkdir -p "$tree"/var/lib/dpkg/status.d "$tree"/etc "$tree"/tmp "$tree"/run "$tree"/models "$tree"/usr/share
    for directory in bin lib lib64; do
        mkdir -p "$tree/usr/$directory"
        ln -s "usr/$directory" "$tree/$directory"
    done
    add_built "$1" xcvm ./usr/bin/xcvm
    add_built "$1" libxcvm0 './usr/lib/*/libxcvm*.so.*'
    for file in "$tree/usr/bin/xcvm" "$tree/usr/lib/$triplet"/libxcvm*.so.*; do
        needed "$file" | while read -r name path; do
            case $path in "$tree"/*) ;; *) add_library "$name" "$path" ;; esac
        done
    done
    /sbin/ldconfig -p >"$work/known"
    for name in $(opened); do
        path=$(awk -v name="$name" '$1 == name { print $NF; exit }' "$work/known")
        [ -n "$path" ] || { echo "this machine has no $name; install the package that has it" >&2; exit 1; }
        add_library "$name" "$path"
        needed "$path" | while read -r name path; do add_library "$name" "$path"; done
    done
    # Texts of licenses, which the copyright files refer to.
    cp -a /usr/share/common-licenses "$tree/usr/share/"
    cp /usr/lib/os-release "$tree/etc/"
    printf '%s\n' 'root:x:0:0:root:/:/usr/sbin/nologin' "xcvm:x:$user:$user:XCVM:/:/usr/sbin/nologin" >"$tree/etc/passwd"
    printf '%s\n' 'root:x:0:' "xcvm:x:$user:" >"$tree/etc/group"
    chmod -R u=rwX,go=rX "$tree"
    chmod 1777 "$tree/tmp"
}

# ---- The archive ----

# A tar archive whose bytes depend on names, modes and contents alone.
pack() { # DIRECTORY
    LC_ALL=C tar -C "$1" --format=gnu --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -c .
}

digest() { sha256sum "$1" | cut -d' ' -f1; }

# Moves a file into the blobs, and prints its descriptor.
blob() { # FILE TYPE
    hash=$(digest "$1")
    printf '{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%s' "$2" "$hash" "$(stat -c %s "$1")"
    mv "$1" "$work/image/blobs/sha256/$hash"
}

write_image() { # FILE
    created=$(TZ=UTC date -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
    mkdir -p "$work/image/blobs/sha256"
    pack "$work/tree" >"$work/layer.tar"
    layer_hash=$(digest "$work/layer.tar")
    # Smaller than by gzip -9, in less time. The header has neither name nor time.
    libdeflate-gzip -12 -c "$work/layer.tar" >"$work/layer.tar.gz"
    rm "$work/layer.tar"
    layer=$(blob "$work/layer.tar.gz" layer.v1.tar+gzip)
    tr -d '\n' <<JSON | sed 's/  *"/"/g' >"$work/config.json"
{"created":"$created","architecture":"$architecture","os":"linux",
  "config":{"User":"$user:$user","ExposedPorts":{"8000/tcp":{},"8001/tcp":{}},"Env":["PATH=/usr/bin"],
  "Entrypoint":["/usr/bin/xcvm","serve"],
  "Cmd":["/models","--http","0.0.0.0:8000","--grpc","0.0.0.0:8001","--api-key-file","/run/secrets/xcvm-key"],
  "WorkingDir":"/","StopSignal":"SIGTERM",
  "Labels":{"org.opencontainers.image.title":"xcvm-server",
  "org.opencontainers.image.description":"Serves neural networks over HTTP and gRPC with the Open Inference Protocol",
  "org.opencontainers.image.version":"$version","org.opencontainers.image.created":"$created",
  "org.opencontainers.image.licenses":"MIT"}},
  "rootfs":{"type":"layers","diff_ids":["sha256:$layer_hash"]},
  "history":[{"created":"$created","created_by":"make image"}]}
JSON
    config=$(blob "$work/config.json" config.v1+json)
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s},"layers":[%s}]}' \
        "$config" "$layer" >"$work/manifest.json"
    manifest=$(blob "$work/manifest.json" manifest.v1+json)
    # Podman reads the first name, and Docker the second one.
    printf '{"schemaVersion":2,"manifests":[%s,"platform":{"architecture":"%s","os":"linux"},"annotations":{%s,%s}}]}' \
        "$manifest" "$architecture" "\"org.opencontainers.image.ref.name\":\"xcvm-server:$version\"" \
        "\"io.containerd.image.name\":\"docker.io/library/xcvm-server:$version\"" >"$work/image/index.json"
    printf '{"imageLayoutVersion":"1.0.0"}' >"$work/image/oci-layout"
    (cd "$work/image" && LC_ALL=C tar --format=gnu --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 \
        --numeric-owner --mode=u=rwX,go=rX -c blobs index.json oci-layout) >"$1.new"
    mv "$1.new" "$1"
}

# ---- Checks ----

fail() { echo "FAIL $1" >&2 && exit 1; }

# Becomes a command in the image, as its user; for subshells.
inside() { exec unshare --map-user=$user --map-group=$user --root="$work/tree" --wd=/ "$@"; }

check() { # FILE
    size=$(stat -c %s "$1")
    [ "$size" -le "$most" ] || fail "$1: $size bytes, expected at most $most"
    mkdir "$work/image" "$work/tree"
    tar -x -C "$work/image" -f "$1"
    (cd "$work/image/blobs/sha256" && for hash in *; do echo "$hash  $hash"; done | sha256sum --check --quiet)
    ! command -v skopeo >/dev/null || skopeo inspect "oci-archive:$1" >"$work/inspected"
    of() { grep -oE "\"mediaType\":\"application/vnd.oci.image.$1[^}]*" "$2" | grep -oE '[0-9a-f]{64}'; }
    manifest=$work/image/blobs/sha256/$(of manifest "$work/image/index.json")
    layer=$work/image/blobs/sha256/$(of layer "$manifest")
    grep -q "$(gzip -dc "$layer" | sha256sum | cut -d' ' -f1)" "$work/image/blobs/sha256/$(of config "$manifest")" ||
        fail "$1: the configuration has another digest of the layer"
    tar -xz -C "$work/tree" -f "$layer"

    # Every library finds all that it needs.
    linker=$(cd "$work/tree" && echo usr/lib*/ld-linux*)
    libraries=0
    for library in "$work/tree/usr/lib/$triplet"/*.so.*; do
        name=${library#"$work/tree"}
        (inside "/$linker" --list "$name") >"$work/list" 2>&1 || fail "$name: $(cat "$work/list")"
        libraries=$((libraries + 1))
    done

    cp "$root/examples/digits/model.onnx" "$work/tree/models/digits.onnx"
    ! (inside /usr/bin/xcvm serve /models --http 0.0.0.0:0) 2>"$work/refused" || fail 'it serves other machines without a key'
    grep -q -- '--api-key-file' "$work/refused" || fail "$(cat "$work/refused")"
    mkdir -p "$work/tree/run/secrets"
    echo the-key-of-the-check >"$work/tree/run/secrets/xcvm-key"
    inside /usr/bin/xcvm serve /models --http 0.0.0.0:0 --api-key-file /run/secrets/xcvm-key >"$work/log" 2>&1 &
    server=$!
    trap 'kill $server 2>/dev/null || true; rm -rf "$work"' EXIT
    for _ in $(seq 100); do
        port=$(sed -nE 's/.*0\.0\.0\.0:([0-9]+).*/\1/p' "$work/log" | head -n 1)
        [ -n "$port" ] && curl --silent --fail --output /dev/null "http://127.0.0.1:$port/v2/health/ready" && break
        kill -0 $server 2>/dev/null || fail "the server ended: $(cat "$work/log")"
        sleep 0.1
    done
    body="{\"inputs\": [{\"name\": \"image\", \"shape\": [1, 1, 8, 8], \"datatype\": \"FP32\", \"data\": [$(seq -s, 64)]}]}"
    infer=http://127.0.0.1:$port/v2/models/digits/infer
    code=$(curl --silent --output /dev/null --write-out '%{http_code}' "$infer" --data "$body")
    [ "$code" = 401 ] || fail "a request without the key: $code, expected 401"
    answer=$(curl --silent --show-error --fail "$infer" -H 'Authorization: Bearer the-key-of-the-check' --data "$body")
    case $answer in *'"probabilities"'*) ;; *) fail "$answer" ;; esac
    kill -TERM $server
    wait $server || fail "after SIGTERM: exit code $?"
    echo "$1: $size bytes, $libraries libraries, $(du -s --apparent-size -BM "$work/tree" | cut -f1) unpacked; a request: right"
}

architecture=$(dpkg --print-architecture)
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
case ${1-} in
build)
    version=$(dpkg-parsechangelog -l "$root/debian/changelog" -SVersion)
    : "${SOURCE_DATE_EPOCH:=$(dpkg-parsechangelog -l "$root/debian/changelog" -STimestamp)}"
    make_tree "$2"
    write_image "$3"
    ;;
check)
    check "$2"
    ;;
*)
    echo 'usage: image.sh build DEBS FILE, or image.sh check FILE' >&2
    exit 2
    ;;
esac

#!/bin/sh
# size.sh BUILD: bytes of the stripped runtime library, by layer and by module.
set -eu
build=$1
strip -o "$build/stripped.so" "$build/libxcvm.so"
printf 'libxcvm.so, stripped: %d bytes\n' "$(stat -c %s "$build/stripped.so")"
size "$build/stripped.so"
echo
echo "by layer, and by module of ops (text + data, bytes):"
for layer in base proto vm ops ops/simd $(cd "$(dirname "$0")/.." && find ops -mindepth 1 -type d ! -path ops/simd | sort); do
    find "$build" -path "*CMakeFiles/xcvm_runtime.dir/$layer/*" -name '*.o' ! -path "*dir/$layer/*/*" -exec size {} + 2>/dev/null |
        awk -v layer="$layer" '$1 ~ /^[0-9]+$/ && $6 != "(TOTALS)" { sum += $1 + $2 } END { printf "%24s %9d\n", layer, sum }'
done

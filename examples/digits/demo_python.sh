#!/bin/sh
# demo_python.sh [VENV [OUT]]: the example from Python: classifies an image by the program that demo.sh compiled.
set -eu
python=${1:-build/venv}/bin/python out=${2:-demo}
image=$(dirname "$0")/images/7.png
line="import xcvm; p = xcvm.load('$out/digits.bin'); s = p(xcvm.image('$image', p.inputs[0])).tolist()[0]; print('Python sees a', s.index(max(s)))"
printf '\n$ %s -c "%s"\n' "$python" "$line"
"$python" -c "$line"

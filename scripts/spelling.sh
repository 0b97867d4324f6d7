#!/bin/sh
# American spelling and common misspellings, by codespell. scripts/spelling.txt lists words that are right here.
set -eu
cd "$(dirname "$0")/.."
git ls-files | grep -vE '^tests/fuzz/corpus/|\.(npz|npy|onnx|png|jpg|bin|pb|safetensors|svg)$|^LICENSE$|^scripts/(words|spelling)\.txt$' |
    xargs codespell --builtin clear,rare,en-GB_to_en-US --ignore-words scripts/spelling.txt

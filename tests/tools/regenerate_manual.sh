#!/bin/bash
# Writes docs/manual/*.md from the option tables of the command: regenerate_manual.sh XCVM
set -e
folder=$(cd "$(dirname "$0")/../../docs/manual" && pwd)
for command in compile run test bench profile dump asm strip check diff ops spec; do
    "$1" help $command --markdown >"$folder/$command.md"
done

#!/usr/bin/env python3
"""lint.py BUILD DIRECTORY...: runs cppcheck on the C files of directories.

cppcheck spends most of its time on the headers that a file includes. So the files of a module are checked together, in
units that include them. A file starts another unit where it defines a name of an earlier file, or has a macro's name."""
import os
import re
import subprocess
import sys

MOST = 80  # files of a unit
build, *directories = sys.argv[1:]
folder = os.path.join(build, "lint")
os.makedirs(os.path.join(folder, "include/xcvm"), exist_ok=True)
# The generated header of the tape's calls has macros; the others are not for reading.
with open(os.path.join(build, "generated/xcvm/tape_calls.h")) as read, open(os.path.join(folder, "include/xcvm/tape_calls.h"), "w") as write:
    write.write(read.read())

# What a line that begins in the first column declares or defines.
NAME = re.compile(r"^(?:#\s*define\s+(\w+)|(?!extern\b)[A-Za-z_][\w\s*]*?\b(\w+)\s*(?:\(|=|\[|;|,))", re.M)
MACRO = re.compile(r"^\s*#\s*define\s+(\w+)", re.M)
BLOCK = re.compile(r"^(?:typedef\s+)?(?:static\s+const\s+)?(?:struct|union|enum)\s*(\w*)[^;(]*?\{(.*?)^\}\s*(\w*)", re.M | re.S)
SUPPRESSIONS = "scripts/cppcheck.txt"
# A file whose errors are suppressed is checked alone: one that cannot be parsed ends the check of its unit, and some wrong
# errors would appear where its functions are called.
with open(SUPPRESSIONS) as file:
    ALONE = set(re.findall(r"^\w+:(\S+)$", file.read(), re.M))


def names(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = {name for match in NAME.findall(text) for name in match if name}
    for tag, body, alias in BLOCK.findall(text):
        found.update(re.findall(r"\b[A-Z][A-Z0-9_]+\b", body))
        found.update(filter(None, (tag, alias)))
    return found


listed = subprocess.run(["git", "ls-files", *directories], check=True, capture_output=True, text=True).stdout.split()
groups = {}
for path in sorted(p for p in listed if p.endswith(".c")):
    with open(path) as file:
        text = file.read()
    alone = path in ALONE or any(f'#include "{other}"' in text for other in ALONE)
    own, macros, words = names(text), set(MACRO.findall(text)), set(re.findall(r"[A-Za-z_]\w*", text))
    units = groups.setdefault("alone" if alone else path.split("/")[0], [])
    unit = next(
        (u for u in units if not alone and len(u[0]) < MOST and not u[1] & own and not u[2] & words and not u[3] & macros), None
    )
    if unit is None:
        unit = ([], set(), set(), set())
        units.append(unit)
    unit[0].append(path)
    for known, new in zip(unit[1:], (own, macros, words)):
        known.update(new)

written = []
for module, units in groups.items():
    for number, (paths, *_) in enumerate(units):
        written.append(os.path.join(folder, f"{module}-{number}.c"))
        with open(written[-1], "w") as file:
            file.writelines(f'#include "{path}"\n' for path in paths)
print(f"{sum(len(unit[0]) for units in groups.values() for unit in units)} files in {len(written)} units", flush=True)
includes = ["-I.", "-Iinclude", f"-I{folder}/include"]
options = ["--quiet", "--std=c11", "--language=c", "--error-exitcode=1", "--inline-suppr", f"--suppressions-list={SUPPRESSIONS}"]
sys.exit(subprocess.run(["cppcheck", *options, "-D__GNUC__", "-D__x86_64__", *includes, *written]).returncode)

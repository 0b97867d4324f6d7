#!/usr/bin/python3
"""Checks prose: prose.py [--docs] FILE... reports sentences that are too long or begin with a clause used as a noun.

A C header contributes its comments; a Markdown page its paragraphs, list items and table cells, without code blocks.
A sentence may have 30 words. It may not begin with one of OPENERS. --docs adds each page below docs/ but those of TODO.
"""
import re
import subprocess
import sys

MOST_WORDS = 30
# Pages with sentences that are still to be rewritten: texts of instructions, and measurements.
TODO = {"instructions", "tape-calls", "benchmarks", "operators-benchmark", "quantization-benchmark", "training-benchmark"}
OPENERS = ("What", "Whether", "Of", "That", "Where")


def header_texts(text):
    """Yields (line, text) for each comment, with leading stars removed; code samples are indented and left out."""
    for match in re.finditer(r"/\*(.*?)\*/", text, re.S):
        line = text.count("\n", 0, match.start()) + 1
        body = re.sub(r"(?m)^\s*\* ?", "", match[1])
        for paragraph in re.split(r"\n\s*\n|\n(?=- )", body):
            kept = [row for row in paragraph.split("\n") if not row.startswith("    ")]
            yield line, " ".join(kept)


def page_texts(text):
    """Yields (line, text) for each paragraph, list item and table cell."""
    text = re.sub(r"(?ms)^```.*?^```", lambda m: "\n" * m[0].count("\n"), text)
    paragraph, start = [], 0
    for number, row in enumerate(text.split("\n") + [""], 1):
        starts_item = re.match(r"\s*([-*]|\d+\.) ", row)
        if row.startswith("|") or row.startswith("#") or not row.strip() or row.startswith("    ") or starts_item:
            if paragraph:
                yield start, " ".join(paragraph)
            paragraph, start = [], number
        if row.startswith("|"):
            for cell in row.strip("|").split("|"):
                yield number, cell
        elif starts_item:
            paragraph, start = [row[starts_item.end():]], number
        elif row.strip() and not row.startswith("#") and not row.startswith("    "):
            if not paragraph:
                start = number
            paragraph.append(row.strip())


def sentences(text):
    # A list of names in code font is read as one word.
    text = re.sub(r"`[^`]*`(,\s+`[^`]*`)*", "CODE", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.split(r"(?<=[.!?])\s+(?=[A-Z\"*])|(?<=:)\s*\n", text)


def problems(path):
    text = open(path, encoding="utf-8").read()
    texts = page_texts(text) if path.endswith(".md") else header_texts(text)
    for line, paragraph in texts:
        for sentence in sentences(paragraph):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            if len(words) > MOST_WORDS:
                yield f"{path}:{line}: {len(words)} words, at most {MOST_WORDS}: {sentence.strip()[:90]}"
            first = words[0].strip("*_(\"") if words else ""
            if first in OPENERS and len(words) > 1 and not sentence.rstrip().endswith("?"):
                yield f"{path}:{line}: begins with \"{first}\": {sentence.strip()[:90]}"


def main():
    paths = [path for path in sys.argv[1:] if path != "--docs"]
    if "--docs" in sys.argv:
        pages = subprocess.run(["git", "ls-files", "docs/*.md"], check=True, capture_output=True, text=True).stdout.split()
        paths += [page for page in pages if page[len("docs/") : -len(".md")] not in TODO]
    if not paths:
        sys.exit("usage: prose.py [--docs] FILE...")
    found = [problem for path in paths for problem in problems(path)]
    print("\n".join(found + [f"{len(paths)} files, {len(found)} sentences to rewrite"]))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

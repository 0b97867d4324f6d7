#!/usr/bin/python3
"""generation.py difference A B | table LINES: the parts of generation.sh that are about numbers.

difference says how far two files of f32 are apart at most. table makes Markdown of what generation.sh measured.
"""
import sys


def difference(a, b):
    import numpy as np

    a, b = (np.fromfile(path, np.float32) for path in (a, b))
    print(f"logits difference={np.abs(a - b).max():.2e} greatest={np.abs(a).max():.2e}")


# ---- Tables ----

TITLES = {"token": "A token behind 511", "prompt": "A prompt of 512 tokens"}
MODES = {"0": "f32", "4": "int8"}


def fields(words):
    return {name: float(value) for name, value in (word.split("=") for word in words)}


def read(path):
    """Rows of products as block_bench prints them; of each (part, level, threads, side) its rounds in order; of each (part,
    level) how the logits differ."""
    products, times, logits = [], {}, {}
    for line in open(path):
        part, *words = line.split()
        if part == "products":
            if words[0].isdigit():
                products.append(words)
        elif words[1] == "logits":
            logits[part, words[0]] = fields(words[2:])
        else:
            level, side, *rest = words
            found = fields(rest)
            times.setdefault((part, level, int(found["threads"]), side), []).append(found)
    return products, times, logits


def table_of_products(rows):
    print("Products of one row, one core. Shares are of the rate at which it reads memory, measured in turn; matrices that fit")
    print("into a cache are read faster than memory is.\n")
    print("| weights | matrix | memory GB/s | f32 activations GB/s | share | int8 GB/s | share |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for _, n, k, kind, _, f32, f32_share, _, _, int8, int8_share, _, rate in rows:
        print(f"| {kind} | {k} x {n} | {rate} | {f32} | {f32_share} | {int8} | {int8_share} |")
    print()


def table_of_times(part, times, logits):
    print(f"{TITLES[part]}, in ms: the least of the medians of several rounds, and the least of all runs. Ratios above 1 mean that")
    print("XCVM is faster.\n")
    print("| activations | threads | ONNX Runtime | XCVM | ratio | ONNX Runtime, least | XCVM, least | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for _, level, threads, side in sorted(key for key in times if key[0] == part and key[3] == "ort"):
        cells = []
        for field in ("median_ms", "min_ms"):
            peer, ours = (min(found[field] for found in times[part, level, threads, name]) for name in ("ort", "xcvm"))
            cells += [f"{peer:.2f}", f"{ours:.2f}", f"**{peer / ours:.2f}**"]
        print(f"| {MODES[level]} (accuracy_level {level}) | {threads} | {' | '.join(cells)} |")
    print()
    for (of, level), found in logits.items():
        if of == part:
            print(f"With accuracy_level {level} the logits, up to {found['greatest']:.2g}, differ by at most {found['difference']:.1e}.")
            print()


def table(path):
    products, times, logits = read(path)
    if products:
        table_of_products(products)
    for part in TITLES:
        if any(key[0] == part for key in times):
            table_of_times(part, times, logits)


def main():
    {"difference": difference, "table": table}[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()

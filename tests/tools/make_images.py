#!/usr/bin/python3
"""make_images.py: writes data/images, image files of all kinds and what Pillow makes of them, in expected.npz. Keys are
the file's name without its ending, a dot, and the name of the input (rgb, gray, rgba, down, up, scaled) that the model of
cli_images.sh has. All eight orientations of one picture have one result."""
import os
import struct

import numpy as np
from PIL import Image, ImageOps

random = np.random.default_rng(3)
folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "images")
os.makedirs(folder, exist_ok=True)
expected = {}
HEIGHT, WIDTH = 9, 13


def picture(channels):
    small = random.integers(0, 256, (4, 5, channels)).astype(np.uint8).squeeze()
    return Image.fromarray(small).resize((WIDTH, HEIGHT), Image.BICUBIC)


def results(name, image):
    rgb = image.convert("RGB")
    key = os.path.splitext(name)[0]
    expected[key + ".rgb"] = np.array(rgb)[None]
    expected[key + ".gray"] = np.array(rgb.convert("L"))
    expected[key + ".rgba"] = np.array(image.convert("RGBA")).transpose(2, 0, 1)
    expected[key + ".down"] = np.array(rgb.resize((5, 4), Image.BILINEAR)).transpose(2, 0, 1)[None]
    expected[key + ".up"] = np.array(image.convert("RGBA").resize((20, 17), Image.BILINEAR))
    scaled = np.array(rgb.resize((6, 6), Image.BILINEAR)).astype(np.float32) / np.float32(255)
    expected[key + ".scaled"] = scaled.transpose(2, 0, 1)[None]


def write(name, image, **options):
    path = os.path.join(folder, name)
    image.save(path, **options)
    return path


def keep(name, image, **options):
    results(name, Image.open(write(name, image, **options)))


# Transformation of the picture for each orientation: the inverse of ImageOps.exif_transpose.
INVERSE = {2: Image.FLIP_LEFT_RIGHT, 3: Image.ROTATE_180, 4: Image.FLIP_TOP_BOTTOM, 5: Image.TRANSPOSE,
           6: Image.ROTATE_90, 7: Image.TRANSVERSE, 8: Image.ROTATE_270}
rgb, gray, rgba = picture(3), picture(1), picture(4)
for number in range(1, 9):
    stored = rgb.transpose(INVERSE[number]) if number > 1 else rgb
    exif = Image.Exif()
    exif[0x112] = number
    for ending in ("png", "webp", "tif"):
        options = {"tiffinfo": {0x112: number}} if ending == "tif" else {"exif": exif}
        if ending == "webp":
            options["lossless"] = True
        path = write(f"turned_{ending}_{number}.{ending}", stored, **options)
        if ending == "png":  # Pillow agrees
            assert (np.array(ImageOps.exif_transpose(Image.open(path)).convert("RGB")) == np.array(rgb)).all()
    path = write(f"turned_jpg_{number}.jpg", stored, exif=exif, quality=95)
    results(f"turned_jpg_{number}.jpg", ImageOps.exif_transpose(Image.open(path)))
results("turned.png", rgb)
# The same in the other order of bytes, after another segment.
big = b"Exif\0\0MM\0*" + struct.pack(">IHHHIHHI", 8, 1, 0x112, 3, 1, 6, 0, 0)
data = open(os.path.join(folder, "turned_jpg_1.jpg"), "rb").read()
start = 2 + 2 + struct.unpack(">H", data[4:6])[0]
after = data[start:]
if after[:2] == b"\xff\xe1":
    after = after[2 + struct.unpack(">H", after[2:4])[0]:]
comment = b"\xff\xfe\0\x06abcd"
path = os.path.join(folder, "big_endian.jpg")
open(path, "wb").write(data[:start] + comment + b"\xff\xe1" + struct.pack(">H", len(big) + 2) + big + after)
results("big_endian.jpg", ImageOps.exif_transpose(Image.open(path)))

keep("gray.png", gray)
keep("gray_jpg.jpg", gray)
keep("bits.png", gray.convert("1"))
keep("gray_alpha.png", rgba.convert("LA"))
keep("alpha.png", rgba)
keep("alpha_webp.webp", rgba, lossless=True)
keep("palette.png", rgb.quantize(9))
keep("palette_bmp.bmp", rgb.quantize(9))
keep("plain.bmp", rgb)
keep("gray_lzw.tif", gray, compression="tiff_lzw")
keep("plain.ppm", rgb)
keep("gray_map.pgm", gray)
keep("progressive.jpg", rgb, progressive=True)
keep("cmyk.jpg", rgb.convert("CMYK"))
# Adobe's marker says that the colors are YCCK.
data = open(os.path.join(folder, "cmyk.jpg"), "rb").read()
at = data.index(b"Adobe") + 11
path = os.path.join(folder, "ycck.jpg")
open(path, "wb").write(data[:at] + b"\2" + data[at + 1:])
results("ycck.jpg", Image.open(path))
# Of 16 bits per channel the upper 8 are used.
wide = random.integers(0, 65536, (HEIGHT, WIDTH)).astype(np.uint16)
write("wide.png", Image.fromarray(wide))
results("wide.png", Image.fromarray((wide >> 8).astype(np.uint8)))
np.savez_compressed(os.path.join(folder, "expected.npz"), **expected)

"""StringConcat, StringSplit, RegexFullMatch and ImageDecoder of opset 20; Equal of strings, opset 19."""
import io
import re

import numpy as np


def text(values):
    return np.array(values, dtype=object)


def split(x, delimiter="", maxsplit=-1):
    """str.split() of Python, filled up with empty strings."""
    pieces = [s.split(delimiter or None, maxsplit) for s in x.ravel()]
    most = max((len(p) for p in pieces), default=0)
    y = np.empty((len(pieces), most), dtype=object)
    for i, p in enumerate(pieces):
        for k in range(most):
            y[i, k] = p[k] if k < len(p) else ""
    return y.reshape(*x.shape, most), np.array([len(p) for p in pieces], np.int64).reshape(x.shape)


def strings(suite):
    a, b = text([["abc", "", "ü"], ["x", "日本", "last"]]), text(["-1", "", "語"])
    suite.op(20, "StringConcat", "broadcast", [a, b], [a + b])
    suite.op(20, "StringConcat", "same", [a, a], [a + a])
    suite.op(20, "StringConcat", "scalar", [text("pre"), a], [text("pre") + a])
    suite.op(20, "StringConcat", "columns", [a[:, :1], b], [a[:, :1] + b])
    suite.op(20, "StringConcat", "empty", [np.empty((0,), object), text(["a"])], [np.empty((0,), object)])
    suite.op(19, "Equal", "strings", [a, text(["abc", "", "last"])], [a == text(["abc", "", "last"])])
    suite.op(19, "Equal", "strings_same", [a, a], [np.ones(a.shape, bool)])
    suite.op(19, "Equal", "strings_scalar", [a, text("x")], [a == text("x")])

    x = text(["hello world !", "  hello   world ", "", " a\tb\u3000c "])
    for label, attributes in {"default": {}, "one": {"maxsplit": 1}, "none": {"maxsplit": 0},
                              "explicit": {"delimiter": "", "maxsplit": 5}}.items():
        suite.op(20, "StringSplit", f"space_{label}", [x], list(split(x, **attributes)), **attributes)
    y = text([["a,b,c", ",,", ""], ["no", "x,", "ab,cd,ef,gh"]])
    for label, attributes in {"comma": {"delimiter": ","}, "two": {"delimiter": ",", "maxsplit": 2},
                              "long": {"delimiter": ",c"}, "zero": {"delimiter": ",", "maxsplit": 0}}.items():
        suite.op(20, "StringSplit", label, [y], list(split(y, **attributes)), **attributes)
    suite.op(20, "StringSplit", "scalar", [text("a b")], list(split(text("a b"))))
    nothing = np.empty((0,), object)
    suite.op(20, "StringSplit", "empty", [nothing], [np.empty((0, 0), object), np.zeros(0, np.int64)])


def patterns(suite):
    x = text([["www.google.com", "www.facebook.com"], ["www.bbc.co.uk", "aaaa\n"]])
    for i, pattern in enumerate([r"www\.[\w.-]+\.\bcom\b", r".*", r"(?s).*", r"a+\n", r"(www|aaa).{0,20}(com|uk)",
                                 r"[^\n]+$", r"\Aw{3}\..*", r"(?i)WWW\.GOOGLE\.COM", r"a{4}[[:space:]]", r"", r"a*?\n"]):
        expected = np.array([re.fullmatch(pattern.replace("[[:space:]]", r"\s").replace("$", r"\Z"), s) is not None
                             for s in x.ravel()]).reshape(x.shape)
        suite.op(20, "RegexFullMatch", f"pattern{i}", [x], [expected], pattern=pattern)
    mail = text(["account@gmail.com", "account@hotmail.com", "not email", "account@@example.com", "ä@ö.de"])
    pattern = r"(\W|^)[\w.\-]{0,25}@(yahoo|gmail)\.com(\W|$)"
    suite.op(20, "RegexFullMatch", "mail", [mail], [np.array([re.fullmatch(pattern, s) is not None for s in mail])],
             pattern=pattern)
    suite.op(20, "RegexFullMatch", "unicode", [text(["äöü", "aou", "日"])], [np.array([True, False, False])],
             pattern="[ä-ü]{3}")
    suite.op(20, "RegexFullMatch", "exponential", [text(["a" * 60 + "b", "a" * 60])], [np.array([False, True])],
             pattern="(a+)+")
    suite.op(20, "RegexFullMatch", "empty", [np.empty((0, 2), object)], [np.empty((0, 2), bool)], pattern="a")


def images(suite, rng):
    from PIL import Image

    rows, columns = np.mgrid[0:24, 0:37]
    smooth = np.stack([rows * 10 % 256, columns * 6, (rows * columns) % 256], 2).astype(np.uint8)
    noise = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
    for label, pixels in {"smooth": smooth, "noise": noise}.items():
        for kind, options in {"png": {}, "bmp": {}, "ppm": {}, "jpeg": {"quality": 80}, "jpeg444": {"subsampling": 0},
                              "jpegprogressive": {"progressive": True}, "webp": {}, "webplossless": {"lossless": True}, "tiff": {},
                              "tifflzw": {"compression": "tiff_lzw"}, "jpeg2000": {}, "jpeg2000lossy": {"irreversible": True}}.items():
            file = io.BytesIO()
            form = next(f for f in ("jpeg2000", "jpeg", "webp", "tiff", kind) if kind.startswith(f))
            Image.fromarray(pixels).save(file, form, **options)
            encoded = np.frombuffer(file.getvalue(), np.uint8)
            image = Image.open(io.BytesIO(file.getvalue()))
            rgb = np.array(image.convert("RGB"))
            suite.op(20, "ImageDecoder", f"{label}_{kind}", [encoded], [rgb])
            suite.op(20, "ImageDecoder", f"{label}_{kind}_bgr", [encoded], [rgb[:, :, ::-1].copy()], pixel_format="BGR")
            suite.op(20, "ImageDecoder", f"{label}_{kind}_gray", [encoded], [np.array(image.convert("L"))[:, :, None]],
                     pixel_format="Grayscale")
    for kind in ("png", "jpeg", "ppm", "tiff", "jpeg2000"):
        file = io.BytesIO()
        gray = smooth[:, :, 0]
        Image.fromarray(gray).save(file, kind)
        seen = np.array(Image.open(io.BytesIO(file.getvalue())))
        encoded = np.frombuffer(file.getvalue(), np.uint8)
        suite.op(20, "ImageDecoder", f"one_channel_{kind}", [encoded], [np.repeat(seen[:, :, None], 3, 2)],
                 pixel_format="RGB")
        suite.op(20, "ImageDecoder", f"one_channel_{kind}_gray", [encoded], [seen[:, :, None]], pixel_format="Grayscale")


def make(suite):
    strings(suite)
    patterns(suite)
    try:
        images(suite, np.random.default_rng(20))
    except ImportError:
        print("python3-pil is not installed: no cases for ImageDecoder")

"""Cast, CastLike, QuantizeLinear and DequantizeLinear of opsets 19 to 25, and BitCast."""
import numpy as np

from .common import BITS, FORMATS, TYPES, Narrow, bf16, decode, encode, node

RANGES = {"u8": (0, 255), "i8": (-128, 127), "u16": (0, 65535), "i16": (-32768, 32767), "u4": (0, 15), "i4": (-8, 7),
          "u2": (0, 3), "i2": (-2, 1)}
PLAIN = {"u8": np.uint8, "i8": np.int8, "u16": np.uint16, "i16": np.int16, "i32": np.int32}
F8 = ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz")
SINCE = {**{k: 19 for k in F8}, "u4": 21, "i4": 21, "u16": 21, "i16": 21, "f4e2m1": 23, "u2": 25, "i2": 25, "u8": 19,
         "i8": 19}
FLOATS = np.array([0.47892547, 0.48033667, 0.49968487, 0.81910545, 0.47031248, 0.7229038, 1000000.0, 1e-7, np.nan,
                   np.inf, -np.inf, -1e-7, -1e6, 1.0, -0.0, 448.0, 465.0, -57345.0, 0.0625, -5.5, 2.5, 3.5, 5.0, 7.0],
                  np.float32).reshape(4, 6)


def integers(kind, values):
    """Whole values as a tensor of an integer type."""
    if kind in PLAIN:
        return np.asarray(values).astype(PLAIN[kind])
    return Narrow(kind, np.asarray(values).astype(np.int64) & (2 ** BITS[kind] - 1))


def cast(suite):
    for kind in F8:
        for opset in (19, 23, 25):
            suite.op(opset, "Cast", f"f32_to_{kind}", [FLOATS], [encode(kind, FLOATS)], to=TYPES[kind])
        suite.op(19, "Cast", f"f32_to_{kind}_no_saturate", [FLOATS], [encode(kind, FLOATS, False)], to=TYPES[kind],
                 saturate=0)
        half = FLOATS.astype(np.float16)
        suite.op(19, "Cast", f"f16_to_{kind}", [half], [encode(kind, half)], to=TYPES[kind])
        every = Narrow(kind, np.arange(256))
        suite.op(19, "Cast", f"{kind}_to_f32", [every], [decode(kind, every.bits).astype(np.float32)], to=TYPES["f32"])
        suite.op(19, "Cast", f"{kind}_to_f16", [every], [decode(kind, every.bits).astype(np.float16)], to=TYPES["f16"])
        like = Narrow(kind, np.zeros(1))
        suite.op(19, "CastLike", f"f32_to_{kind}", [FLOATS, like], [encode(kind, FLOATS)])
        suite.op(21, "CastLike", f"f32_to_{kind}_no_saturate", [FLOATS, like], [encode(kind, FLOATS, False)], saturate=0)
    whole = np.array([[-9, -8, -3, -1, 0, 1], [2, 3, 7, 8, 15, 16]])
    for kind, opset in (("u4", 21), ("i4", 21), ("u2", 25), ("i2", 25)):
        low, high = RANGES[kind]
        inside = np.clip(whole, low, high)
        suite.op(opset, "Cast", f"f32_to_{kind}", [inside.astype(np.float32)], [integers(kind, inside)], to=TYPES[kind])
        suite.op(opset, "Cast", f"i8_to_{kind}", [inside.astype(np.int8)], [integers(kind, inside)], to=TYPES[kind])
        # Values out of range lose their high bits, as in ONNX's own cases and in ONNX Runtime.
        suite.op(opset, "Cast", f"f32_to_{kind}_wraps", [whole.astype(np.float32)], [integers(kind, whole)],
                 to=TYPES[kind])
        suite.op(opset, "Cast", f"f16_to_{kind}_wraps", [whole.astype(np.float16)], [integers(kind, whole)],
                 to=TYPES[kind])
        for to, dtype in (("f32", np.float32), ("f16", np.float16), ("i8", np.int8), ("u8", np.uint8)):
            value = np.abs(inside) if to == "u8" and low == 0 else inside
            if to != "u8" or low == 0:
                suite.op(opset, "Cast", f"{kind}_to_{to}", [integers(kind, value)], [value.astype(dtype)], to=TYPES[to])
        suite.op(opset, "CastLike", f"f32_to_{kind}", [inside.astype(np.float32), integers(kind, [0])],
                 [integers(kind, inside)])
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.25, 9, -8], np.float32)
    suite.op(23, "Cast", "f32_to_f4e2m1_special", [special], [encode("f4e2m1", special)], to=TYPES["f4e2m1"])
    finite = FLOATS[np.isfinite(FLOATS)]
    suite.op(23, "Cast", "f32_to_f4e2m1", [finite], [encode("f4e2m1", finite)], to=TYPES["f4e2m1"])
    suite.op(23, "Cast", "f16_to_f4e2m1", [finite.astype(np.float16)], [encode("f4e2m1", finite.astype(np.float16))],
             to=TYPES["f4e2m1"])
    every = Narrow("f4e2m1", np.arange(16))
    suite.op(23, "Cast", "f4e2m1_to_f32", [every], [decode("f4e2m1", every.bits).astype(np.float32)], to=TYPES["f32"])
    suite.op(23, "CastLike", "f32_to_f4e2m1", [finite, Narrow("f4e2m1", [0])], [encode("f4e2m1", finite)])
    suite.op(19, "Cast", "f32_to_bf16", [FLOATS], [bf16(FLOATS)], to=TYPES["bf16"])
    suite.op(19, "Cast", "bf16_to_f32", [bf16(FLOATS)], [decode("bf16", bf16(FLOATS).bits).astype(np.float32)],
             to=TYPES["f32"])
    suite.op(19, "CastLike", "f32_to_bf16", [FLOATS, bf16([0.0])], [bf16(FLOATS)])


def cast_e8m0(suite):
    """Only the exponent is left. Opset 24; worked out by comparing with the powers of two on both sides."""
    values = np.array([1.0, 1.25, 1.5, 1.75, 2.0, 3.0, 0.1, 1e-38, 1e38, 2.0**127, 3e38, np.nan, np.inf, 0.75, 6.0, 96.0],
                      np.float32)
    codes = {}
    for mode in ("up", "down", "nearest"):
        out = []
        for v in values.astype(np.float64):
            if not np.isfinite(v):
                out.append(255)
                continue
            low = int(np.floor(np.log2(v)))
            low += 2.0 ** (low + 1) <= v
            low -= 2.0**low > v
            exact = 2.0**low == v
            up = not exact and (mode == "up" or mode == "nearest" and v >= 1.5 * 2.0**low)
            out.append(min(max(low + up, -127) + 127, 254))
        codes[mode] = out
    for mode, out in codes.items():
        suite.op(24, "Cast", f"f32_to_f8e8m0_{mode}", [values], [Narrow("f8e8m0", out)], to=TYPES["f8e8m0"],
                 round_mode=mode)
    suite.op(24, "Cast", "f32_to_f8e8m0", [values], [Narrow("f8e8m0", codes["up"])], to=TYPES["f8e8m0"])
    suite.op(24, "CastLike", "f32_to_f8e8m0", [values, Narrow("f8e8m0", [0])], [Narrow("f8e8m0", codes["up"])])
    every = Narrow("f8e8m0", np.arange(256))
    suite.op(24, "Cast", "f8e8m0_to_f32", [every], [decode("f8e8m0", every.bits).astype(np.float32)], to=TYPES["f32"])
    suite.op(25, "Cast", "f8e8m0_to_f16", [Narrow("f8e8m0", np.arange(110, 143))],
             [decode("f8e8m0", np.arange(110, 143)).astype(np.float16)], to=TYPES["f16"])


def spread(value, shape, axis, block):
    """A scale or zero point as large as x."""
    value = np.asarray(value)
    if value.ndim == 0 or value.size == 1 and not block:
        return value.reshape(())
    if not block:
        return value.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])
    return np.repeat(value, block, axis).take(np.arange(shape[axis]), axis)


def quantized(kind, x, scale, zero=0, axis=1, block=0, saturate=True, precision=np.float32):
    quotient = (x.astype(precision) / spread(scale, x.shape, axis, block).astype(precision)).astype(np.float64)
    zero = spread(zero, x.shape, axis, block)
    if kind in FORMATS:
        return encode(kind, (quotient + zero).astype(np.float32), saturate)
    return integers(kind, np.clip(np.rint(quotient) + zero, *RANGES[kind]))


def quantize(suite, rng):
    x = (rng.standard_normal((3, 4, 5)) * 3).astype(np.float32)
    x[0, 0, 0], x[1, 1, 1] = 1e4, -1e4
    for kind, opset in SINCE.items():
        scale = np.float32(0.25 if kind not in ("u16", "i16") else 0.001)
        for version in sorted({opset, 21, 23, 24, 25}):
            if version < opset:
                continue
            zero = 0 if kind in FORMATS else RANGES[kind][0] // 2 + RANGES[kind][1] // 2
            as_zero = encode(kind, np.float32(0)) if kind in FORMATS else integers(kind, zero)
            suite.op(version, "QuantizeLinear", kind, [x, scale, as_zero], [quantized(kind, x, scale, zero)])
            if version >= 21:
                suite.op(version, "QuantizeLinear", f"{kind}_output_dtype", [x, scale], [quantized(kind, x, scale)],
                         output_dtype=TYPES[kind])
                scales = (rng.random((3, 2, 5)) + 0.25).astype(np.float32)
                suite.op(version, "QuantizeLinear", f"{kind}_blocked", [x, scales], [quantized(kind, x, scales, block=2)],
                         output_dtype=TYPES[kind], block_size=2)
        scales = (rng.random(4) + 0.25).astype(np.float32)
        zeros = np.zeros(4) if kind in FORMATS else rng.integers(RANGES[kind][0], RANGES[kind][1] + 1, 4)
        as_zeros = encode(kind, zeros) if kind in FORMATS else integers(kind, zeros)
        suite.op(max(opset, 21), "QuantizeLinear", f"{kind}_axis", [x, scales, as_zeros],
                 [quantized(kind, x, scales, zeros, axis=-2)], axis=-2)
    for kind in F8:
        suite.op(19, "QuantizeLinear", f"{kind}_no_saturate", [x, np.float32(1e-3), encode(kind, np.float32(0))],
                 [quantized(kind, x, np.float32(1e-3), saturate=False)], saturate=0)
    blocks = (rng.random((3, 2, 5)) + 0.25).astype(np.float32)
    zeros = rng.integers(0, 16, (3, 2, 5))
    suite.op(21, "QuantizeLinear", "u4_blocked_short", [x[:, :3], blocks, integers("u4", zeros)],
             [quantized("u4", x[:, :3], blocks, zeros, block=2)], block_size=2)
    half, step = x.astype(np.float16), np.float16(0.3)
    suite.op(19, "QuantizeLinear", "f16_to_f8e4m3fn", [half, step, encode("f8e4m3fn", np.float32(0))],
             [quantized("f8e4m3fn", half, step)])
    suite.op(23, "QuantizeLinear", "f16", [half, step], [quantized("u8", half, step, precision=np.float16)])
    suite.op(23, "QuantizeLinear", "f16_precision_f32", [half, step], [quantized("u8", half, step)],
             precision=TYPES["f32"])
    suite.op(23, "QuantizeLinear", "f32_precision_f16", [np.clip(x, -9, 9), np.float32(0.01)],
             [quantized("i16", np.clip(x, -9, 9), np.float32(0.01), precision=np.float16)], precision=TYPES["f16"],
             output_dtype=TYPES["i16"])
    whole = rng.integers(-500, 500, (2, 6)).astype(np.int32)
    suite.op(21, "QuantizeLinear", "i32", [whole, np.float32(4), np.int8(3)], [quantized("i8", whole, np.float32(4), 3)])
    suite.op(23, "QuantizeLinear", "f16_to_f8e4m3fn", [half, step, encode("f8e4m3fn", np.float32(0))],
             [quantized("f8e4m3fn", half, step, precision=np.float16)])
    suite.op(21, "QuantizeLinear", "bf16", [bf16(x), bf16(np.float32(0.5)), np.int8(1)],
             [quantized("i8", decode("bf16", bf16(x).bits), np.float32(0.5), 1)])
    powers = Narrow("f8e8m0", rng.integers(124, 130, (3, 2, 5)))
    suite.op(24, "QuantizeLinear", "f8e8m0_scale", [x, powers],
             [quantized("f4e2m1", x, decode("f8e8m0", powers.bits), block=2)], output_dtype=TYPES["f4e2m1"], block_size=2,
             precision=TYPES["f32"])


def dequantize(suite, rng):
    for kind, opset in SINCE.items():
        if kind in FORMATS:
            bits = rng.integers(0, 2 ** (BITS.get(kind, 8)), (3, 4, 5))
            x, values = Narrow(kind, bits), decode(kind, bits)
            zero, as_zero = 0, encode(kind, np.float32(0))
        else:
            values = rng.integers(RANGES[kind][0], RANGES[kind][1] + 1, (3, 4, 5))
            x, zero = integers(kind, values), int(RANGES[kind][1] // 2)
            as_zero = integers(kind, zero)
        for version in sorted({opset, 21, 23, 24, 25}):
            if version < opset:
                continue
            scale = np.float32(0.5)
            suite.op(version, "DequantizeLinear", kind, [x, scale, as_zero],
                     [((values - zero) * float(scale)).astype(np.float32)])
            if version >= 21:
                scales = (rng.random((3, 2, 5)) + 0.25).astype(np.float32)
                suite.op(version, "DequantizeLinear", f"{kind}_blocked", [x, scales],
                         [(values.astype(np.float32) * spread(scales, x.shape, 1, 2)).astype(np.float32)], block_size=2)
            if version >= 23:
                suite.op(version, "DequantizeLinear", f"{kind}_output_dtype", [x, scale, as_zero],
                         [((values - zero) * 0.5).astype(np.float16)], output_dtype=TYPES["f16"])
        scales = (rng.random(5) + 0.25).astype(np.float16)
        suite.op(max(opset, 21), "DequantizeLinear", f"{kind}_axis_f16", [x, scales],
                 [(values.astype(np.float32) * scales.astype(np.float32)).astype(np.float16)], axis=-1)
    powers = Narrow("f8e8m0", rng.integers(120, 134, (4, 2)))
    nibbles = Narrow("f4e2m1", rng.integers(0, 16, (4, 6)))
    suite.op(24, "DequantizeLinear", "f8e8m0_scale", [nibbles, powers],
             [(decode("f4e2m1", nibbles.bits) * np.repeat(decode("f8e8m0", powers.bits), 3, 1)).astype(np.float32)],
             block_size=3, output_dtype=TYPES["f32"])
    suite.op(21, "DequantizeLinear", "i32", [np.array([5, -70000], np.int32), np.float32(0.5)],
             [np.array([2.5, -35000], np.float32)])


def bit_cast(suite, rng):
    f32 = np.array([[1.0, -2.5, np.inf], [np.nan, 0.0, -0.0]], np.float32)
    for kind, dtype in (("i32", np.int32), ("u32", np.uint32)):
        suite.op(26, "BitCast", f"f32_to_{kind}", [f32], [f32.view(dtype)], to=TYPES[kind])
        suite.op(26, "BitCast", f"{kind}_to_f32", [f32.view(dtype)], [f32], to=TYPES["f32"])
    f64 = rng.standard_normal(4)
    suite.op(26, "BitCast", "f64_to_i64", [f64], [f64.view(np.int64)], to=TYPES["i64"])
    suite.op(26, "BitCast", "u64_to_f64", [f64.view(np.uint64)], [f64], to=TYPES["f64"])
    byte = np.arange(256, dtype=np.uint8)
    suite.op(26, "BitCast", "u8_to_i8", [byte], [byte.view(np.int8)], to=TYPES["i8"])
    suite.op(26, "BitCast", "u8_to_f8e4m3fn", [byte], [Narrow("f8e4m3fn", byte)], to=TYPES["f8e4m3fn"])
    suite.op(26, "BitCast", "f16_to_bf16", [np.arange(5, dtype=np.float16)],
             [Narrow("bf16", np.arange(5, dtype=np.float16).view(np.uint16))], to=TYPES["bf16"])
    suite.op(26, "BitCast", "i4_to_u4", [Narrow("i4", np.arange(7))], [Narrow("u4", np.arange(7))], to=TYPES["u4"])
    suite.op(26, "BitCast", "empty", [np.zeros((0, 3), np.int16)], [np.zeros((0, 3), np.uint16)], to=TYPES["u16"])


def constants(suite):
    """Constant and ConstantOfShape of the types that opsets 19 to 25 brought."""
    for kind, opset in {**SINCE, "f8e8m0": 24, "bf16": 20}.items():
        if kind in ("u8", "i8", "u16", "i16"):
            value = integers(kind, [1, 2, 3])
        else:
            value = Narrow(kind, [1, 2, 3])
        for version in sorted({opset, 25}):
            suite.model(f"constant_{version}_{kind}", [node("Constant", [], ["y0"], value=value)], [], [value], version)
            bits = np.full((2, 3), 2)
            whole = Narrow(kind, bits) if isinstance(value, Narrow) else bits.astype(value.dtype)
            one = Narrow(kind, [2]) if isinstance(value, Narrow) else np.array([2], value.dtype)
            suite.op(max(version, 20), "ConstantOfShape", kind, [np.array([2, 3])], [whole], value=one)


def make(suite):
    rng = np.random.default_rng(19)
    cast(suite)
    cast_e8m0(suite)
    quantize(suite, rng)
    dequantize(suite, rng)
    bit_cast(suite, rng)
    constants(suite)

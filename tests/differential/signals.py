"""Transforms and windows."""
import numpy as np

from table import operator


@operator("DFT", 17, weight=2)
def dft(case):
    kind = case.kind(["f32", "f64"])
    length = case.choice([1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 30, 31, 32, 60, 64, 100, 128])
    shape = case.shape(low=0, high=2, limit=12, zero=0)
    axis = case.integer(0, len(shape))
    if case.opset < 20:
        shape = shape[:1] or [1]
        axis = case.choice([1])
        if case.chance(0.5):
            shape += [case.integer(1, 4)]
    else:
        shape = shape or [2]
        axis = case.integer(1, len(shape))
    shape[axis:axis] = [length]
    inverse = case.choice([None, 0, 1])
    parts = 2 if inverse == 1 else case.choice([1, 2])
    onesided = 1 if parts == 1 and not inverse and case.chance(0.4) else case.choice([None, 0])
    shape.append(parts)
    x = case.values(shape, kind, -1, 1)
    operands = [case.feed(x, kind)]
    rank = len(shape)
    attributes = {"inverse": inverse, "onesided": onesided}
    asked = case.choice([None, length, max(1, length - 3), length + 5])
    if asked is not None:
        operands.append(case.setting(asked, rank=0))
    if case.opset < 20:
        attributes["axis"] = axis
    else:
        if asked is None:
            operands.append("")
        operands.append(case.setting(case.choice([axis, axis - rank]), rank=0))
    y = case.node("DFT", operands, **attributes)
    count = asked or length
    z = x[..., 0] + 1j * (x[..., 1] if parts == 2 else 0)
    z = (np.fft.ifft if inverse else np.fft.fft)(z.astype(np.complex128), count, axis)
    if onesided:
        z = np.take(z, range(count // 2 + 1), axis)
    case.output(y, kind, np.stack([z.real, z.imag], -1))
    case.within(*((1e-4, 1e-4) if kind == "f32" else (1e-6, 1e-6)))
    case.without_peer()  # its angles lose bits as they grow


@operator("STFT", 17)
def stft(case):
    kind = "f32"
    frame = case.choice([4, 8, 16, 32])
    signal = frame + case.integer(0, 60)
    hop = case.integer(1, frame)
    x = case.values([case.integer(1, 3), signal, 1], kind, -1, 1)
    operands = [case.feed(x, kind), case.setting(hop, rank=0)]
    if case.chance(0.6):
        operands.append(case.feed(case.values([frame], kind, 0, 1), kind, 0.7))
        if case.chance(0.5):
            operands.append(case.setting(frame, rank=0))
    else:
        operands += ["", case.setting(frame, rank=0)]
    case.output(case.node("STFT", operands, onesided=case.choice([None, 0, 1])), kind)
    case.within(1e-4, 1e-4)


def declare_window(name):
    @operator(name, 17)
    def draw(case):
        size = case.choice([1, 2, 3, 8, 9, 16, 33, 100])
        to = case.choice([None, 1, 11])
        y = case.node(name, [case.setting(size, case.choice(["i32", "i64"]), 0)], output_datatype=to, periodic=case.choice([None, 0, 1]) if size > 1 else None)
        case.output(y, "f64" if to == 11 else "f32")
        case.within(1e-5, 2e-6)


for _name in ("HannWindow", "HammingWindow", "BlackmanWindow"):
    declare_window(_name)


@operator("MelWeightMatrix", 17)
def mel_weight_matrix(case):
    bins, length, rate = case.integer(1, 20), case.choice([16, 32, 64, 128]), case.choice([8000, 16000])
    operands = [case.setting(item, rank=0) for item in (bins, length, rate)]
    operands += [case.feed(np.array(item, np.float32), "f32", 0.7) for item in (case.real(0, 200), case.real(1000, 4000))]
    case.output(case.node("MelWeightMatrix", operands), "f32")
    case.within(1e-5, 1e-5)

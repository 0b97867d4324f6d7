"""Operators that compute: element-wise maths, products, convolutions, pools, normalizations, reductions."""
import numpy as np

from case import KINDS, rounded
from operator_entry import c, entry, given, kinds_of, w, x

SQUARE, IMAGE, MAPS = [1024, 1024], [1, 64, 128, 128], [8, 64, 56, 56]


def elementwise():
    bounds = {"Acos": (-1, 1), "Asin": (-1, 1), "Acosh": (1, 10), "Atanh": (-0.95, 0.95), "Log": (0.01, 10), "Sqrt": (0, 10),
              "Reciprocal": (0.1, 10), "Sin": (-10, 10), "Cos": (-10, 10), "Tan": (-1.5, 1.5)}
    for name in ("Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity "
                 "IsInf IsNaN LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign "
                 "Sqrt Tan Tanh ThresholdedRelu").split():
        low, high = bounds.get(name, (-3, 3))
        entry(f"{name}..f32", [x(SQUARE, low=low, high=high)])
        if name in ("Exp", "Log", "Sqrt", "Abs", "Tanh", "Sigmoid", "Relu", "Sin", "Neg", "Floor", "IsNaN"):
            entry(f"{name}..f64", [x(SQUARE, "f64", low, high)])
        if name in ("Exp", "Sqrt", "Abs", "Tanh", "Sigmoid", "Relu", "Gelu", "IsNaN"):
            entry(f"{name}..f16", [x(SQUARE, "f16", low, high)])
        if name in ("Abs", "Neg", "Sign"):
            entry(f"{name}..i32", [x(SQUARE, "i32", -100, 100)])
            entry(f"{name}..i64", [x(SQUARE, "i64", -100, 100)])
    entry("Gelu.tanh.f32", [x(SQUARE)], approximate="tanh")
    entry("Swish..f32", [x(SQUARE)], opset=24)
    kinds_of("Clip.", "f32 f64 f16 i32 i64", lambda kind: [x(SQUARE, kind), c(-1, kind), c(2, kind)])
    entry("Dropout.inference.f32", [x(SQUARE)])
    entry("Dropout.training.f32", [x(SQUARE), c(0.3, "f32"), c(True, "bool")], seed=3)
    entry("Not..bool", [x(SQUARE, "bool")])
    kinds_of("BitwiseNot.", "u8 i32 i64", lambda kind: [x(SQUARE, kind, 0, 100)])


def casts():
    for pair in ("f32-f16 f16-f32 f32-f64 f64-f32 f32-bf16 bf16-f32 f32-i32 f32-i64 f32-u8 f32-bool i32-f32 i64-f32 u8-f32 bool-f32 "
                 "i64-i32 i32-i64").split():
        source, target = pair.split("-")
        entry(f"Cast.to_{target}.{source}", [x(SQUARE, source, 0, 100)], to=KINDS[target][0])
    entry("CastLike.to_f16.f32", [x(SQUARE), x([1], "f16")])


def binary():
    for name in "Add Sub Mul Div Max Min Pow PRelu Equal Less LessOrEqual Greater GreaterOrEqual".split():
        low = 0.1 if name == "Pow" else -3
        entry(f"{name}.same.f32", [x(SQUARE, low=low), x(SQUARE)])
        if name != "PRelu":
            entry(f"{name}.row.f32", [x(SQUARE, low=low), x([1024])])
            entry(f"{name}.column.f32", [x(SQUARE, low=low), x([1024, 1])])
            entry(f"{name}.scalar.f32", [x(SQUARE, low=low), c(2.0 if name == "Pow" else 1.7, "f32")])
        if name in ("Add", "Mul", "Div", "Max", "Equal", "Less"):
            for kind in "f64 f16 i32 i64".split():
                if kind != "f16" or name in ("Add", "Mul", "Div", "Max"):
                    positive = 1 if kind[0] == "i" else -3
                    entry(f"{name}.same.{kind}", [x(SQUARE, kind, -100), x(SQUARE, kind, positive, 9)])
        if name in ("Add", "Mul"):
            entry(f"{name}.channels.f32", [x(IMAGE), x([1, 64, 1, 1])])
            entry(f"{name}.outer.f32", [x([1024, 1]), x([1, 1024])])
            entry(f"{name}.middle.f32", [x([64, 256, 64]), x([64, 1, 64])])
    entry("PRelu.channels.f32", [x(IMAGE), w([64, 1, 1])])
    entry("Mod.fmod.f32", [x(SQUARE, low=-100, high=100), x(SQUARE, low=1, high=9)], fmod=1)
    entry("Mod.fmod.f64", [x(SQUARE, "f64", low=-100, high=100), x(SQUARE, "f64", low=1, high=9)], fmod=1)
    kinds_of("Mod.same", "i32 i64 u8", lambda kind: [x(SQUARE, kind, 0 if kind == "u8" else -100, 100), x(SQUARE, kind, 1, 9)])
    entry("Mod.scalar.i64", [x(SQUARE, "i64", -1000, 1000), c(7)])
    for name in "And Or Xor".split():
        entry(f"{name}..bool", [x(SQUARE, "bool"), x(SQUARE, "bool")])
    for name in "BitwiseAnd BitwiseOr BitwiseXor".split():
        kinds_of(f"{name}.", "u8 i32", lambda kind: [x(SQUARE, kind, 0, 100), x(SQUARE, kind, 0, 100)])
    kinds_of("BitShift.left", "u8 u32 u64", lambda kind: [x(SQUARE, kind, 0, 100), x(SQUARE, kind, 0, 7)], direction="LEFT")
    for name in "Sum Mean Max Min".split():
        entry(f"{name}.of_three.f32", [x(SQUARE), x(SQUARE), x(SQUARE)])
    kinds_of("Where.same", "f32 f64 i64 u8", lambda kind: [x(SQUARE, "bool"), x(SQUARE, kind, 0), x(SQUARE, kind, 0)])
    entry("Where.scalar.f32", [x(SQUARE, "bool"), x(SQUARE), c(0.0, "f32")])
    entry("Where.row.f32", [x([1, 1024], "bool"), x(SQUARE), c(-1e4, "f32")])


def products():
    entry("MatMul.square.f32", [x([512, 512]), x([512, 512])])
    entry("MatMul.weights.f32", [x([128, 768]), w([768, 768])])
    entry("MatMul.vector.f32", [x([1, 2048]), x([2048, 1024])])
    entry("MatMul.vector_weights.f32", [x([1, 2048]), w([2048, 1024])])
    entry("MatMul.column.f32", [x([2048, 1024]), x([1024])])
    entry("MatMul.tall.f32", [x([10000, 8]), x([8, 8])])
    entry("MatMul.tall_weights.f32", [x([10000, 8]), w([8, 8])])
    entry("MatMul.thin.f32", [x([4096, 64]), x([64, 3])])
    entry("MatMul.deep.f32", [x([16, 20000]), x([20000, 16])])
    entry("MatMul.odd.f32", [x([333, 77]), x([77, 555])])
    entry("MatMul.outer.f32", [x([1024, 1]), x([1, 1024])])
    entry("MatMul.batch.f32", [x([64, 64, 64]), x([64, 64, 64])])
    entry("MatMul.batch_small.f32", [x([4096, 4, 4]), x([4096, 4, 4])])
    entry("MatMul.heads.f32", [x([8, 12, 128, 64]), x([8, 12, 64, 128])])
    entry("MatMul.broadcast.f32", [x([32, 64, 64]), x([64, 64])])
    kinds_of("MatMul.square", "f64 f16 i32 i64 u32", lambda kind: [x([256, 256], kind, 0), x([256, 256], kind, 0)])
    kinds_of("MatMul.vector", "f64", lambda kind: [x([1, 1024], kind), x([1024, 1024], kind)])
    kinds_of("MatMul.tall", "f64", lambda kind: [x([10000, 8], kind), x([8, 8], kind)])
    for name, a, b, attributes in (("plain", [256, 512], [512, 256], {}), ("transB", [256, 512], [256, 512], {"transB": 1}),
                                   ("transA", [512, 256], [512, 256], {"transA": 1}),
                                   ("both", [512, 256], [256, 512], {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0})):
        entry(f"Gemm.{name}.f32", [x(a), x(b), x([256])], **attributes)
    entry("Gemm.weights.f32", [x([64, 1024]), w([1024, 1024]), w([1024])], transB=1)
    entry("Gemm.vector.f32", [x([1, 1024]), w([1000, 1024]), w([1000])], transB=1)
    entry("Gemm.outer.f32", [x([1024, 1]), x([1, 1024]), x([1024])])
    entry("Gemm.small.f32", [x([4096, 4]), w([4, 3]), w([3])])
    kinds_of("Gemm.plain", "f64 f16", lambda kind: [x([256, 256], kind), x([256, 256], kind), x([256], kind)])
    entry("Einsum.batch.f32", [x([16, 64, 128]), x([16, 128, 64])], equation="bij,bjk->bik")
    entry("Einsum.heads.f32", [x([4, 128, 12, 64]), x([4, 128, 12, 64])], equation="bqhd,bkhd->bhqk")
    entry("Einsum.outer.f32", [x([1024]), x([1024])], equation="i,j->ij")
    entry("Einsum.sum.f32", [x([256, 64, 64])], equation="bij->bj")
    entry("Det..f32", [x([1024, 16, 16])])
    entry("MatMulInteger.square.u8", [x([256, 256], "u8", 0, 255), x([256, 256], "u8", 0, 255)])
    entry("MatMulInteger.weights.u8", [x([128, 768], "u8", 0, 255), w([768, 768], "i8", -100, 100), c(100, "u8"), c(0, "i8")])
    scale, zero = c(0.02, "f32"), c(120, "u8")
    entry("QLinearMatMul.square.u8", [x([256, 256], "u8", 0, 255), scale, zero, w([256, 256], "u8", 0, 255), scale, zero, c(1.5, "f32"), zero])


def convolutions():
    def conv(name, image, filters, kind="f32", bias=True, **attributes):
        operands = [x(image, kind), w(filters, kind)] + ([w([filters[0]], kind)] if bias else [])
        entry(f"Conv.{name}.{kind}", operands, **attributes)

    conv("3x3", [1, 64, 56, 56], [64, 64, 3, 3], pads=[1] * 4)
    conv("3x3_small_maps", [1, 256, 14, 14], [256, 256, 3, 3], pads=[1] * 4)
    conv("3x3_stride2", [1, 64, 56, 56], [128, 64, 3, 3], pads=[1] * 4, strides=[2, 2])
    conv("1x1", [1, 128, 56, 56], [128, 128, 1, 1])
    conv("7x7_stride2", [1, 3, 224, 224], [64, 3, 7, 7], pads=[3] * 4, strides=[2, 2])
    conv("5x5", [1, 32, 64, 64], [32, 32, 5, 5], pads=[2] * 4)
    conv("depthwise", [1, 128, 56, 56], [128, 1, 3, 3], pads=[1] * 4, group=128)
    conv("depthwise_stride2", [1, 128, 112, 112], [128, 1, 3, 3], pads=[1] * 4, group=128, strides=[2, 2])
    conv("groups", [1, 128, 56, 56], [128, 32, 3, 3], pads=[1] * 4, group=4)
    conv("dilated", [1, 64, 56, 56], [64, 64, 3, 3], pads=[2] * 4, dilations=[2, 2])
    conv("one_channel", [1, 1, 512, 512], [1, 1, 3, 3], pads=[1] * 4)
    conv("1d", [1, 64, 4096], [64, 64, 3], pads=[1, 1])
    conv("1d_long", [1, 1, 160000], [64, 1, 16], strides=[8])
    conv("1d_long_signal", [1, 1, 480000], [16, 1, 5], pads=[2, 2])
    conv("1d_wide", [1, 16, 50000], [16, 16, 9], pads=[4, 4])
    conv("1d_depthwise", [1, 128, 8192], [128, 1, 7], pads=[3, 3], group=128)
    conv("3d", [1, 16, 16, 32, 32], [32, 16, 3, 3, 3], pads=[1] * 6)
    conv("3x3", [1, 32, 28, 28], [32, 32, 3, 3], "f16", pads=[1] * 4)
    for name, image, filters, attributes in (
            ("2x2_stride2", [1, 64, 56, 56], [64, 32, 2, 2], {"strides": [2, 2]}),
            ("4x4_stride2", [1, 64, 32, 32], [64, 32, 4, 4], {"strides": [2, 2], "pads": [1] * 4}),
            ("3x3", [1, 64, 56, 56], [64, 32, 3, 3], {"pads": [1] * 4}),
            ("1d", [1, 64, 2048], [64, 32, 8], {"strides": [4], "pads": [2, 2]}),
            ("3d", [1, 16, 8, 16, 16], [16, 16, 2, 2, 2], {"strides": [2, 2, 2]}),
            ("groups", [1, 64, 32, 32], [64, 1, 4, 4], {"strides": [2, 2], "pads": [1] * 4, "group": 64})):
        entry(f"ConvTranspose.{name}.f32", [x(image), w(filters)], **attributes)
    entry("DeformConv..f32", [x([1, 32, 64, 64]), w([32, 32, 3, 3]), x([1, 18, 64, 64], low=-2, high=2), w([32]), x([1, 9, 64, 64], low=0, high=1)],
          pads=[1] * 4)
    entry("DeformConv.groups.f32", [x([1, 64, 32, 32]), w([64, 32, 3, 3]), x([1, 36, 32, 32], low=-2, high=2)], pads=[1] * 4, group=2,
          offset_group=2)
    entry("ConvInteger.3x3.u8", [x([1, 64, 28, 28], "u8", 0, 255), w([64, 64, 3, 3], "u8", 0, 255), c(120, "u8"), c(100, "u8")], pads=[1] * 4)
    scale, zero = c(0.02, "f32"), c(120, "u8")
    entry("QLinearConv.3x3.u8", [x([1, 64, 28, 28], "u8", 0, 255), scale, zero, w([64, 64, 3, 3], "i8", -100, 100), scale, c(0, "i8"),
                                 c(0.5, "f32"), zero], pads=[1] * 4)
    entry("Col2Im.3x3.f32", [x([1, 64 * 9, 64 * 64]), c([64, 64]), c([3, 3])], pads=[1] * 4)
    entry("Col2Im.4x4_stride2.f32", [x([1, 32 * 16, 64 * 64]), c([128, 128]), c([4, 4])], pads=[1] * 4, strides=[2, 2])
    entry("Col2Im.patches.f32", [x([1, 3 * 256, 196]), c([224, 224]), c([16, 16])], strides=[16, 16])
    entry("Col2Im.1d.f32", [x([16, 400, 500]), c([80240]), c([400])], strides=[160])


def pools():
    for name, image, attributes in (
            ("2x2", MAPS, {"kernel_shape": [2, 2], "strides": [2, 2]}),
            ("3x3", MAPS, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}),
            ("3x3_stride1", MAPS, {"kernel_shape": [3, 3], "pads": [1] * 4}),
            ("5x5", MAPS, {"kernel_shape": [5, 5], "pads": [2] * 4}),
            ("1d", [8, 64, 4096], {"kernel_shape": [4], "strides": [4]}),
            ("1d_3", [8, 64, 2048], {"kernel_shape": [3], "pads": [1, 1]}),
            ("3d", [1, 32, 32, 32, 32], {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}),
            ("3d_3", [1, 32, 32, 32, 32], {"kernel_shape": [3, 3, 3], "pads": [1] * 6})):
        entry(f"MaxPool.{name}.f32", [x(image)], **attributes)
        entry(f"AveragePool.{name}.f32", [x(image)], **attributes)
        if name in ("2x2", "3x3", "1d"):
            entry(f"LpPool.{name}.f32", [x(image)], opset=18, **attributes)
        entry(f"MaxPool.{name}_indices.f32", [x(image)], results=2, **attributes)
    entry("MaxPool.dilated.f32", [x(MAPS)], kernel_shape=[3, 3], dilations=[2, 2], pads=[2] * 4)
    entry("AveragePool.dilated.f32", [x(MAPS)], kernel_shape=[3, 3], dilations=[2, 2], pads=[2] * 4)
    kinds_of("MaxPool.2x2", "f64 f16 i8 u8", lambda kind: [x(MAPS, kind, 0, 100)], kernel_shape=[2, 2], strides=[2, 2])
    kinds_of("MaxPool.3x3", "f64 f16 i8 u8", lambda kind: [x(MAPS, kind, 0, 100)], kernel_shape=[3, 3], pads=[1] * 4)
    for name in "Average Max Lp".split():
        entry(f"Global{name}Pool..f32", [x(MAPS)], opset=21)
        entry(f"Global{name}Pool.small.f32", [x([32, 512, 7, 7])], opset=21)

    def winners(rng):
        rows, columns = 2 * np.arange(28)[:, None], 2 * np.arange(28)[None, :]
        places = (rows + rng.integers(0, 2, [8, 64, 28, 28])) * 56 + columns + rng.integers(0, 2, [8, 64, 28, 28])
        return (places + 56 * 56 * np.arange(8 * 64).reshape(8, 64, 1, 1)).astype(np.int64)

    entry("MaxUnpool..f32", [x([8, 64, 28, 28]), given("i64", winners)], kernel_shape=[2, 2], strides=[2, 2])

    def regions(rng):
        corners = np.sort(rng.uniform(0, 800, [100, 2, 2]), 1).reshape(100, 4)
        return rounded(corners, "f32")

    entry("MaxRoiPool..f32", [x([1, 64, 50, 50]), given("f32", lambda rng: np.c_[np.zeros(100), regions(rng)].astype(np.float32))],
          opset=21, pooled_shape=[7, 7], spatial_scale=1 / 16)
    for mode in "avg max".split():
        entry(f"RoiAlign.{mode}.f32", [x([1, 64, 50, 50]), given("f32", regions), c(np.zeros(100))], opset=16, mode=mode, output_height=7, output_width=7,
              sampling_ratio=2, spatial_scale=1 / 16)
    entry("RoiAlign.adaptive.f32", [x([1, 64, 50, 50]), given("f32", regions), c(np.zeros(100))], opset=16, output_height=7, output_width=7,
          spatial_scale=1 / 16)
    entry("LRN..f32", [x(MAPS)], size=5)


def normalizations():
    channels = lambda count: [w([count], low=0.5, high=1.5), w([count])]
    entry("BatchNormalization..f32", [x(MAPS)] + channels(64) + [w([64]), w([64], low=0.5, high=2)])
    entry("InstanceNormalization..f32", [x(MAPS)] + channels(64))
    entry("GroupNormalization..f32", [x(MAPS)] + channels(64), num_groups=8)
    kinds_of("LayerNormalization.last", "f32 f16", lambda kind: [x([1024, 768], kind), w([768], kind), w([768], kind)])
    entry("LayerNormalization.narrow.f32", [x([16384, 64])] + channels(64))
    entry("LayerNormalization.axis1.f32", [x([128, 64, 128]), w([64, 128]), w([64, 128])], axis=1)
    entry("RMSNormalization..f32", [x([1024, 768]), w([768])], opset=23)
    for p in (1, 2):
        entry(f"LpNormalization.p{p}.f32", [x(SQUARE)], p=p)
        entry(f"LpNormalization.p{p}_columns.f32", [x(SQUARE)], p=p, axis=0)
    entry("MeanVarianceNormalization..f32", [x(MAPS)])
    for name in "Softmax LogSoftmax Hardmax".split():
        entry(f"{name}.rows.f32", [x(SQUARE)])
        entry(f"{name}.columns.f32", [x(SQUARE)], axis=0)
        entry(f"{name}.middle.f32", [x([16, 64, 1024])], axis=1)
        entry(f"{name}.narrow.f32", [x([65536, 16])])
        entry(f"{name}.long.f32", [x([16, 65536])])
        if name != "Hardmax":
            entry(f"{name}.rows.f64", [x(SQUARE, "f64")])
    entry("Softmax.rows.f16", [x(SQUARE, "f16")])


def reductions():
    for name in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split():
        low = 0.1 if name == "LogSum" else -1
        for form, shape, axes in (("rows", SQUARE, [1]), ("columns", SQUARE, [0]), ("middle", [64, 128, 128], [1]), ("all", SQUARE, None),
                                  ("ends", [64, 128, 128], [0, 2]), ("narrow", [65536, 16], [1])):
            entry(f"Reduce{name}.{form}.f32", [x(shape, low=low, high=1)] + ([] if axes is None else [c(axes)]))
        if name in ("Max", "Mean", "Sum"):
            for kind in "f64 f16 i32 i64".split():
                entry(f"Reduce{name}.rows.{kind}", [x(SQUARE, kind), c([1])])
                entry(f"Reduce{name}.columns.{kind}", [x(SQUARE, kind), c([0])])
    entry("ReduceMean.images.f32", [x(MAPS), c([2, 3])])
    entry("ReduceMax.rows.u8", [x(SQUARE, "u8", 0, 200), c([1])])
    for name in "ArgMax ArgMin".split():
        for form, shape, axis in (("rows", SQUARE, 1), ("columns", SQUARE, 0), ("middle", [16, 64, 1024], 1), ("narrow", [65536, 16], 1),
                                  ("classes", [1, 21, 256, 256], 1)):
            entry(f"{name}.{form}.f32", [x(shape)], axis=axis)
        if name == "ArgMax":
            entry("ArgMax.last_index.f32", [x(SQUARE)], axis=1, select_last_index=1)
            for kind in "f64 f16 i32 i64 u8".split():
                entry(f"ArgMax.rows.{kind}", [x(SQUARE, kind, 0, 100)], axis=1)
                entry(f"ArgMax.columns.{kind}", [x(SQUARE, kind, 0, 100)], axis=0)
    for form, axis in (("rows", 1), ("columns", 0)):
        kinds_of(f"CumSum.{form}", "f32 f64 i32 i64", lambda kind: [x(SQUARE, kind), c(axis)])
    entry("CumSum.middle.f32", [x([64, 128, 128]), c(1)])
    entry("CumSum.long.f32", [x([1000000]), c(0)])
    entry("CumSum.reverse_exclusive.f32", [x(SQUARE), c(1)], reverse=1, exclusive=1)
    for form, shape, count, axis in (("rows_5", SQUARE, 5, 1), ("rows_100", SQUARE, 100, 1), ("rows_all", SQUARE, 1024, 1),
                                     ("rows_1", SQUARE, 1, 1), ("columns_5", SQUARE, 5, 0), ("columns_100", SQUARE, 100, 0),
                                     ("long", [500000], 100, 0), ("long_1000", [500000], 1000, 0), ("boxes", [1, 80, 8400], 300, 2)):
        entry(f"TopK.{form}.f32", [x(shape), c([count])], results=2, axis=axis)
    entry("TopK.smallest.f32", [x(SQUARE), c([10])], results=2, axis=1, largest=0)
    entry("TopK.unsorted.f32", [x(SQUARE), c([10])], results=2, axis=1, sorted=0)
    kinds_of("TopK.rows_10", "f64 i64 i32", lambda kind: [x(SQUARE, kind, -10000, 10000), c([10])], results=2)


def declare():
    for family in (elementwise, casts, binary, products, convolutions, pools, normalizations, reductions):
        family()

"""Operators that move elements, look them up or sort them, and those of vision, signals, sequences and learning."""
import numpy as np

from case import rounded
from operator_entry import c, entry, given, indices, kinds_of, permutations, w, x

SQUARE, IMAGE, MAPS = [1024, 1024], [1, 64, 128, 128], [8, 64, 56, 56]
ML = "ai.onnx.ml"


def movement():
    kinds_of("Concat.last", "f32 u8", lambda kind: [x([1024, 512], kind, 0), x([1024, 512], kind, 0)], axis=1)
    entry("Concat.first.f32", [x([512, 1024]), x([512, 1024])], axis=0)
    entry("Concat.narrow.f32", [x([65536, 4]), x([65536, 4]), x([65536, 8])], axis=1)
    entry("Concat.channels.f32", [x(MAPS), x(MAPS)], axis=1)
    entry("Split.last.f32", [x(SQUARE)], results=4, axis=1, num_outputs=4)
    entry("Split.first.f32", [x(SQUARE)], results=4, axis=0, num_outputs=4)
    entry("Split.narrow.f32", [x([65536, 16]), c([4, 4, 8])], results=3, axis=1)
    entry("SplitToSequence..f32", [x(SQUARE), c(256)], axis=0)
    entry("SequenceConstruct..f32", [x([512, 512]), x([512, 512]), x([512, 512])])
    one = lambda start, end, axis, step: [c([start]), c([end]), c([axis]), c([step])]
    for form, arguments in (("rows", (100, 900, 0, 1)), ("columns", (100, 900, 1, 1)), ("every_second", (0, 1024, 1, 2)),
                            ("backwards", (-1, -2000, 1, -1)), ("rows_backwards", (-1, -2000, 0, -1))):
        kinds_of(f"Slice.{form}", "f32 u8" if form == "every_second" else "f32", lambda kind: [x(SQUARE, kind, 0)] + one(*arguments))
    entry("Slice.window.f32", [x(IMAGE), c([1, 3, 3]), c([50, 100, 100]), c([1, 2, 3])])
    for form, shape, perm in (("matrix", SQUARE, [1, 0]), ("heads", [8, 128, 12, 64], [0, 2, 1, 3]), ("to_last", MAPS, [0, 2, 3, 1]),
                              ("to_first", [8, 56, 56, 64], [0, 3, 1, 2]), ("rgb", [1, 512, 512, 3], [0, 3, 1, 2]),
                              ("to_rgb", [1, 3, 512, 512], [0, 2, 3, 1]), ("reversed", [32, 32, 32, 32], [3, 2, 1, 0]),
                              ("five", [8, 16, 8, 16, 64], [0, 3, 1, 4, 2]), ("thin", [65536, 4], [1, 0]),
                              ("shuffle", [8, 2, 32, 56, 56], [0, 2, 1, 3, 4])):
        entry(f"Transpose.{form}.f32", [x(shape)], perm=perm)
    kinds_of("Transpose.matrix", "f64 f16 i64 u8", lambda kind: [x(SQUARE, kind, 0)], perm=[1, 0])
    for mode in "constant reflect edge wrap".split():
        entry(f"Pad.{mode}.f32", [x(MAPS), c([0, 0, 2, 3, 0, 0, 2, 3])], mode=mode)
    entry("Pad.rows.f32", [x(SQUARE), c([100, 0, 100, 0])])
    entry("Pad.crop.f32", [x(SQUARE), c([-100, -100, -100, -100])])
    for form, shape, repeats in (("rows", [256, 1024], [4, 1]), ("columns", [1024, 256], [1, 4]), ("both", [256, 256], [4, 4]),
                                 ("narrow", [65536, 4], [1, 4]), ("scalars", [1024, 1], [1, 1024]), ("batch", [1, 64, 64, 64], [4, 1, 1, 1])):
        entry(f"Tile.{form}.f32", [x(shape), c(repeats)])
    for form, shape, to in (("rows", [1, 1024], SQUARE), ("columns", [1024, 1], SQUARE), ("middle", [64, 1, 128], [64, 128, 128]),
                            ("scalar", [1], SQUARE)):
        entry(f"Expand.{form}.f32", [x(shape), c(to)])
    for name, second in (("Reshape", [c([-1, 64])]), ("Flatten", []), ("Unsqueeze", [c([0])]), ("Squeeze", [c([0])])):
        entry(f"{name}..f32", [x([1, 1024, 1024])] + second)
    kinds_of("SpaceToDepth.2", "f32 f64 u8", lambda kind: [x(IMAGE, kind, 0)], blocksize=2)
    entry("SpaceToDepth.4.f32", [x(IMAGE)], blocksize=4)
    entry("SpaceToDepth.rgb.f32", [x([1, 3, 512, 512])], blocksize=2)
    for mode in "DCR CRD".split():
        kinds_of(f"DepthToSpace.2_{mode}", "f32 f64 u8", lambda kind: [x(IMAGE, kind, 0)], blocksize=2, mode=mode)
        entry(f"DepthToSpace.4_{mode}.f32", [x(IMAGE)], blocksize=4, mode=mode)
        entry(f"DepthToSpace.3_{mode}.f32", [x([1, 9, 300, 300])], blocksize=3, mode=mode)
    entry("ReverseSequence.time.f32", [x([128, 64, 128]), x([64], "i64", 1, 128)], batch_axis=1, time_axis=0)
    entry("ReverseSequence.batch.f32", [x([64, 128, 128]), x([64], "i64", 1, 128)], batch_axis=0, time_axis=1)
    for upper in (0, 1):
        entry(f"Trilu.{'upper' if upper else 'lower'}.f32", [x([4, 512, 512])], upper=upper)
    entry("CenterCropPad.crop.f32", [x(MAPS), c([40, 48])], axes=[2, 3])
    entry("CenterCropPad.pad.f32", [x(MAPS), c([64, 60])], axes=[2, 3])
    entry("EyeLike..f32", [x(SQUARE)])
    entry("ConstantOfShape..f32", [given("i64", lambda rng: np.array(SQUARE))])
    scalar = lambda value, kind: given(kind, lambda rng: np.array(value).astype({"f32": "f4", "i64": "i8"}[kind]))
    kinds_of("Range.", "f32 i64", lambda kind: [scalar(0, kind), scalar(1000000, kind), scalar(1, kind)])


def lookup():
    entry("Gather.rows.f32", [w([20000, 256]), indices([4096], 20000)])
    kinds_of("Gather.words", "f32 f16", lambda kind: [w([20000, 64], kind), indices([64, 128], 20000)])
    entry("Gather.columns.f32", [x(SQUARE), indices([1024], 1024)], axis=1)
    entry("Gather.middle.f32", [x([64, 128, 64]), indices([256], 128)], axis=1)
    entry("Gather.elements.f32", [x([100000]), indices([1000000], 100000)])
    entry("Gather.rows.u8", [x([20000, 256], "u8", 0, 255), indices([4096], 20000, "i32")])
    for form, axis in (("rows", 1), ("columns", 0)):
        kinds_of(f"GatherElements.{form}", "f32 i64 u8", lambda kind: [x(SQUARE, kind, 0), indices(SQUARE, 1024)], axis=axis)
        for reduction in "none add max".split():
            kind_list = "f32 i64" if reduction != "max" else "f32"
            places = permutations(SQUARE, axis) if reduction == "none" else indices(SQUARE, 1024)
            kinds_of(f"ScatterElements.{form}_{reduction}", kind_list, lambda kind: [x(SQUARE, kind), places, x(SQUARE, kind)], axis=axis,
                     reduction=reduction)
    entry("GatherElements.middle.f32", [x([64, 128, 128]), indices([64, 64, 128], 128)], axis=1)
    entry("GatherElements.narrow_i32.f32", [x([65536, 16]), indices([65536, 4], 16, "i32")], axis=1)
    entry("GatherND.points.f32", [x([512, 512]), indices([100000, 2], 512)])
    entry("GatherND.rows.f32", [x([128, 128, 64]), indices([10000, 2], 128)])
    entry("GatherND.batch.f32", [x([16, 1024, 64]), indices([16, 512, 1], 1024)], batch_dims=1)
    rows = given("i64", lambda rng: rng.permutation(16384)[:8192].reshape(-1, 1))
    points = given("i64", lambda rng: np.stack(np.divmod(rng.permutation(512 * 512)[:100000], 512), 1))
    for reduction in "none add".split():
        entry(f"ScatterND.rows_{reduction}.f32", [x([16384, 64]), rows, x([8192, 64])], reduction=reduction)
        entry(f"ScatterND.points_{reduction}.f32", [x([512, 512]), points, x([100000])], reduction=reduction)
    entry("TensorScatter..f32", [x([8, 8, 256, 64]), x([8, 8, 4, 64]), x([8], "i64", 0, 250)], opset=24)
    kinds_of("Compress.flat", "f32 f64 u8", lambda kind: [x(SQUARE, kind, 0), x([1024 * 1024], "bool")])
    entry("Compress.rows.f32", [x(SQUARE), x([1024], "bool")], axis=0)
    entry("Compress.columns.f32", [x(SQUARE), x([1024], "bool")], axis=1)
    entry("Compress.middle.f32", [x([64, 128, 128]), x([128], "bool")], axis=1)
    entry("OneHot.last.f32", [indices([8192], 128), c(128), c([0, 1], "f32")])
    entry("OneHot.first.f32", [indices([8192], 128), c(128), c([0, 1], "f32")], axis=0)
    kinds_of("NonZero.half", "bool", lambda kind: [x(SQUARE, kind)])
    sparse = lambda rng: np.where(rng.random(SQUARE) < 0.02, 1, 0).astype(np.float32)
    entry("NonZero.sparse.f32", [given("f32", sparse)])
    entry("Unique.many.f32", [x([200000])], results=4)
    kinds_of("Unique.few", "f32 i64", lambda kind: [given(kind, lambda rng: rng.integers(0, 100, 200000).astype("f4" if kind == "f32" else "i8"))],
             results=4)
    entry("Unique.unsorted.i64", [x([200000], "i64", 0, 5000)], sorted=0)
    entry("Unique.rows.f32", [given("f32", lambda rng: rng.integers(0, 4, [4096, 4]).astype(np.float32))], axis=0)


def vision():
    def resize(form, image, sizes=None, scales=None, kind="f32", **attributes):
        entry(f"Resize.{form}.{kind}", [x(image, kind, 0, 100 if kind == "u8" else 1), None, None if scales is None else c(scales, "f32")] +
              ([] if sizes is None else [c(sizes)]), **attributes)

    resize("nearest_2x", [1, 64, 64, 64], scales=[1, 1, 2, 2], coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    resize("nearest_odd", [1, 64, 64, 64], sizes=[1, 64, 150, 97])
    resize("linear_2x", [1, 64, 64, 64], scales=[1, 1, 2, 2], mode="linear")
    resize("linear_corners", [1, 64, 64, 64], sizes=[1, 64, 128, 128], mode="linear", coordinate_transformation_mode="align_corners")
    resize("linear_rgb", [1, 3, 480, 640], sizes=[1, 3, 224, 224], mode="linear")
    resize("linear_down", [1, 64, 128, 128], scales=[1, 1, 0.5, 0.5], mode="linear")
    resize("linear_antialias", [1, 3, 480, 640], sizes=[1, 3, 224, 224], mode="linear", antialias=1)
    resize("linear_last", [1, 480, 640, 3], sizes=[1, 224, 224, 3], mode="linear")
    resize("cubic_2x", [1, 32, 64, 64], scales=[1, 1, 2, 2], mode="cubic")
    resize("linear_3d", [1, 16, 16, 32, 32], scales=[1, 1, 2, 2, 2], mode="linear")
    resize("linear_1d", [1, 64, 4096], scales=[1, 1, 2], mode="linear")
    resize("nearest_2x", [1, 64, 64, 64], scales=[1, 1, 2, 2], kind="u8", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    resize("linear_rgb", [1, 3, 480, 640], sizes=[1, 3, 224, 224], kind="u8", mode="linear")
    entry("Upsample.nearest.f32", [x([1, 64, 64, 64]), c([1, 1, 2, 2], "f32")], opset=9)
    for form, mode, padding, corners in (("linear", "linear", "zeros", 0), ("linear_border", "linear", "border", 1),
                                         ("linear_reflection", "linear", "reflection", 0), ("nearest", "nearest", "zeros", 0),
                                         ("cubic", "cubic", "zeros", 0)):
        entry(f"GridSample.{form}.f32", [x([1, 32, 128, 128]), x([1, 128, 128, 2], low=-1.1, high=1.1)], mode=mode, padding_mode=padding,
              align_corners=corners)
    smooth = np.stack(np.meshgrid(np.linspace(-1, 1, 128), np.linspace(-0.9, 1, 128)), -1)[None]
    entry("GridSample.smooth.f32", [x([1, 32, 128, 128]), given("f32", lambda rng: rounded(smooth + rng.uniform(-0.01, 0.01, smooth.shape), "f32"))])
    entry("GridSample.one_channel.f32", [x([8, 1, 256, 256]), x([8, 256, 256, 2], low=-1, high=1)])
    for mode in "linear nearest".split():
        entry(f"GridSample.3d_{mode}.f32", [x([1, 8, 32, 32, 32]), x([1, 32, 32, 32, 3], low=-1.1, high=1.1)], mode=mode)
    entry("AffineGrid..f32", [x([8, 2, 3]), c([8, 3, 256, 256])])

    def boxes(count):
        def draw(rng):
            corners = rng.uniform(0, 600, [1, count, 2])
            return rounded(np.concatenate([corners, corners + rng.uniform(5, 120, [1, count, 2])], 2), "f32")

        return given("f32", draw)

    limits = [c([100]), c([0.5], "f32"), c([0.3], "f32")]
    entry("NonMaxSuppression.one_class.f32", [boxes(8400), x([1, 1, 8400], low=0, high=1)] + limits)
    entry("NonMaxSuppression.classes.f32", [boxes(2000), x([1, 80, 2000], low=0, high=0.5)] + limits)
    entry("NonMaxSuppression.all.f32", [boxes(2000), x([1, 4, 2000], low=0, high=1), c([2000]), c([0.5], "f32"), c([0], "f32")])
    entry("NonMaxSuppression.center.f32", [boxes(4000), x([1, 1, 4000], low=0, high=1)] + limits, center_point_box=1)


def signals():
    for form, length, shape, axis in (("1024", 1024, [64, 1024, 1], 1), ("400", 400, [128, 400, 1], 1), ("prime", 509, [64, 509, 1], 1),
                                      ("complex", 1024, [64, 1024, 2], 1), ("65536", 65536, [1, 65536, 2], 1)):
        entry(f"DFT.{form}.f32", [x(shape), None, c(axis)])
    entry("DFT.onesided.f32", [x([64, 1024, 1]), None, c(1)], onesided=1)
    entry("DFT.inverse.f32", [x([64, 1024, 2]), None, c(1)], inverse=1)
    entry("DFT.1024.f64", [x([64, 1024, 1], "f64"), None, c(1)])
    entry("STFT.512.f32", [x([1, 64000, 1]), c(160), w([512], low=0, high=1), c(512)])
    entry("STFT.400.f32", [x([1, 64000, 1]), c(160), w([400], low=0, high=1), c(400)])
    size = given("i64", lambda rng: np.array(100000))
    for name in "HannWindow HammingWindow BlackmanWindow".split():
        entry(f"{name}..f32", [size])
    scalar = lambda value, kind: given(kind, lambda rng: np.array(value).astype({"f32": "f4", "i64": "i8"}[kind]))
    entry("MelWeightMatrix..f32", [scalar(80, "i64"), scalar(2048, "i64"), scalar(16000, "i64"), scalar(0, "f32"), scalar(8000, "f32")])


def recurrent():
    for name, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for form, steps, batch, size, ways in (("batch", 32, 16, 128, 1), ("one", 64, 1, 128, 1), ("both_ways", 32, 4, 64, 2)):
            entry(f"{name}.{form}.f32", [x([steps, batch, size], low=-1, high=1), w([ways, gates * size, size], low=-0.1, high=0.1),
                                         w([ways, gates * size, size], low=-0.1, high=0.1), w([ways, 2 * gates * size])], results=2,
                  hidden_size=size, direction="bidirectional" if ways == 2 else None)
    entry("Attention..f32", [x([1, 8, 256, 64]), x([1, 8, 256, 64]), x([1, 8, 256, 64])], opset=23)
    entry("Attention.causal.f32", [x([1, 8, 256, 64]), x([1, 8, 256, 64]), x([1, 8, 256, 64])], opset=23, is_causal=1)
    entry("Attention.one_query.f32", [x([1, 16, 1, 64]), x([1, 16, 1024, 64]), x([1, 16, 1024, 64])], opset=23)
    entry("RotaryEmbedding..f32", [x([4, 8, 512, 64]), w([512, 32]), w([512, 32]), given("i64", lambda rng: np.tile(np.arange(512), (4, 1)))],
          opset=23)


def learning():
    rows = x([4096, 64])
    numbers = lambda rng_seed, count, scale=1.0: [float(v) for v in np.random.default_rng(rng_seed).uniform(-scale, scale, count).astype("f4")]
    entry("NegativeLogLikelihoodLoss..f32", [x([8192, 100], low=-5, high=0), indices([8192], 100)])
    entry("NegativeLogLikelihoodLoss.images.f32", [x([2, 21, 128, 128], low=-5, high=0), indices([2, 128, 128], 21)])
    entry("SoftmaxCrossEntropyLoss..f32", [x([8192, 100]), indices([8192], 100)])
    entry("SoftmaxCrossEntropyLoss.images.f32", [x([2, 21, 128, 128]), indices([2, 128, 128], 21)])
    shape = [1024, 1024]
    for name in "RandomNormal RandomUniform".split():
        entry(f"{name}..f32", [], opset=21, shape=shape, seed=1.0)
        entry(f"{name}Like..f32", [x(shape)], opset=21, seed=1.0)
    entry("Bernoulli..f32", [x(shape, low=0, high=1)], opset=21, seed=1.0)
    entry("Multinomial..f32", [x([64, 1000])], opset=21, sample_size=100, seed=1.0)
    entry("ArrayFeatureExtractor..f32", [x([16384, 64]), c([[1, 5, 7, 20, 33, 60]])], domain=ML)
    entry("Binarizer..f32", [x(SQUARE)], domain=ML, threshold=0.5)
    entry("FeatureVectorizer..f32", [x([16384, 16]), x([16384, 32])], domain=ML, inputdimensions=[16, 32])
    gaps = lambda rng: np.where(rng.random([16384, 64]) < 0.3, np.float32(np.nan), np.float32(1))
    entry("Imputer..f32", [given("f32", gaps)], domain=ML, imputed_value_floats=numbers(1, 64), replaced_value_float=float("nan"))
    entry("LabelEncoder.i64.i64", [x([100000], "i64", 0, 999)], domain=ML, keys_int64s=list(range(0, 1000, 2)), values_int64s=list(range(500)))
    entry("LabelEncoder.strings.str", [given("str", lambda rng: rng.integers(0, 1000, 20000).astype(str).astype(object))], domain=ML,
          keys_strings=[str(i) for i in range(500)], values_int64s=list(range(500)))
    entry("LinearRegressor..f32", [rows], domain=ML, coefficients=numbers(2, 64 * 4), targets=4, intercepts=numbers(3, 4))
    entry("LinearClassifier..f32", [rows], results=2, domain=ML, coefficients=numbers(4, 64 * 10), intercepts=numbers(5, 10),
          classlabels_ints=list(range(10)), post_transform="SOFTMAX", multi_class=1)
    for norm in "MAX L1 L2".split():
        entry(f"Normalizer.{norm}.f32", [x([16384, 64])], domain=ML, norm=norm)
    entry("OneHotEncoder..i64", [x([8192], "i64", 0, 99)], domain=ML, cats_int64s=list(range(100)))
    entry("Scaler..f32", [x([16384, 64])], domain=ML, offset=numbers(6, 64), scale=numbers(7, 64))
    entry("SVMRegressor.rbf.f32", [x([1024, 16])], domain=ML, kernel_type="RBF", kernel_params=[0.1, 0.0, 3.0],
          support_vectors=numbers(8, 200 * 16), coefficients=numbers(9, 200), n_supports=200, rho=[0.1])
    entry("SVMClassifier.rbf.f32", [x([1024, 16])], results=2, domain=ML, kernel_type="RBF", kernel_params=[0.1, 0.0, 3.0],
          support_vectors=numbers(10, 150 * 16), coefficients=numbers(11, 150 * 2), vectors_per_class=[50, 50, 50], rho=numbers(12, 3),
          classlabels_ints=[0, 1, 2])
    forest = complete_trees(100, 6, 32)
    entry("TreeEnsembleRegressor.batch.f32", [x([4096, 32])], domain=ML, n_targets=1, **forest("target"))
    entry("TreeEnsembleRegressor.one.f32", [x([1, 32])], domain=ML, n_targets=1, **forest("target"))
    entry("TreeEnsembleClassifier.batch.f32", [x([4096, 32])], results=2, domain=ML, classlabels_int64s=[0, 1, 2, 3, 4],
          post_transform="SOFTMAX", **forest("class", 5))


def complete_trees(trees, depth, features):
    """A forest of complete trees, as the parallel lists of a TreeEnsemble's attributes; of what a leaf adds to, targets
    or classes."""
    def attributes(what, outputs=1):
        rng = np.random.default_rng(99)
        inner, count = 2 ** depth - 1, 2 ** (depth + 1) - 1
        nodes = range(count)
        ids = [tree for tree in range(trees) for _ in nodes]
        leaf = [node >= inner for _ in range(trees) for node in nodes]
        return {"nodes_treeids": ids, "nodes_nodeids": list(nodes) * trees,
                "nodes_featureids": rng.integers(0, features, trees * count).tolist(),
                "nodes_values": rng.uniform(-2, 2, trees * count).astype("f4").tolist(),
                "nodes_modes": ["LEAF" if end else "BRANCH_LEQ" for end in leaf],
                "nodes_truenodeids": [0 if node >= inner else 2 * node + 1 for _ in range(trees) for node in nodes],
                "nodes_falsenodeids": [0 if node >= inner else 2 * node + 2 for _ in range(trees) for node in nodes],
                f"{what}_treeids": [tree for tree in range(trees) for _ in range(inner, count)],
                f"{what}_nodeids": list(range(inner, count)) * trees,
                f"{what}_ids": rng.integers(0, outputs, trees * (count - inner)).tolist(),
                f"{what}_weights": rng.uniform(-1, 1, trees * (count - inner)).astype("f4").tolist()}

    return attributes


def text():
    words = lambda *shape: given("str", lambda rng: np.array(["the", "Quick", "brown fox", "a,b,c", "jumps over", "user@example.org",
                                                              "x"], object)[rng.integers(0, 7, shape)])
    entry("StringConcat..str", [words(20000), words(20000)], opset=20)
    entry("StringSplit..str", [words(20000)], results=2, opset=20, delimiter=" ")
    entry("StringNormalizer..str", [words(20000)], is_case_sensitive=1, stopwords=["x"])
    entry("RegexFullMatch..str", [words(20000)], opset=20, pattern=r"[a-z]+@[a-z.]+")
    entry("TfIdfVectorizer..i64", [x([1024, 64], "i64", 0, 99)], mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=0,
          ngram_counts=[0, 100], ngram_indexes=list(range(200)), pool_int64s=list(range(100)) + [item for i in range(100) for item in (i, (7 * i + 1) % 100)])


def quantized():
    scale = w([1024], low=0.01, high=0.05)
    entry("QuantizeLinear..u8", [x(SQUARE), c(0.02, "f32"), c(128, "u8")])
    entry("QuantizeLinear.channels.u8", [x(SQUARE), scale, c([128] * 1024, "u8")], axis=1)
    entry("DequantizeLinear..u8", [x(SQUARE, "u8", 0, 255), c(0.02, "f32"), c(128, "u8")])
    entry("DequantizeLinear.channels.i8", [x(SQUARE, "i8", -128, 127), scale, c([0] * 1024, "i8")], axis=1)
    entry("DynamicQuantizeLinear..u8", [x(SQUARE)], results=3)


def declare():
    for family in (movement, lookup, vision, signals, recurrent, learning, text, quantized):
        family()

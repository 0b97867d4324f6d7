"""Operators of ai.onnx.ml, and losses."""
import numpy as np

from case import tensor
from table import operator

ML = "ai.onnx.ml"
TRANSFORMS = [None, "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]


def features(case, kinds=("f32",)):
    kind = case.choice(kinds)
    rows, columns = case.choice([1, 2, 3, 7, 16, 33]), case.choice([1, 2, 3, 5, 8, 17])
    case.domains[ML] = 3 if case.opset < 20 else case.choice([3, 4, 5])
    return kind, rows, columns, case.values([rows, columns], kind)


def floats(case, count, low=-1.0, high=1.0):
    return [case.real(low, high) for _ in range(count)]


@operator("ArrayFeatureExtractor")
def array_feature_extractor(case):
    kind, rows, columns, x = features(case, ("f32", "f64", "i32", "i64"))
    chosen = case.ints([1, case.integer(1, 6)], "i64", 0, columns - 1)
    case.output(case.node("ArrayFeatureExtractor", [case.feed(x, kind), case.feed(chosen, "i64", 0.6)], domain=ML), kind)


@operator("Binarizer")
def binarizer(case):
    kind, _, _, x = features(case)
    case.output(case.node("Binarizer", [case.feed(x, kind)], domain=ML, threshold=case.choice([None, case.real(-1, 1)])), kind)


@operator("CategoryMapper")
def category_mapper(case):
    case.domains[ML] = 1
    names, numbers = ["a", "b", "cat", "dog", "日本"], [3, 1, 4, 15, 9]
    attributes = {"cats_strings": names, "cats_int64s": numbers, "default_int64": case.choice([None, -7]),
                  "default_string": case.choice([None, "none"])}
    shape = case.shape(low=1, limit=60)
    if case.chance(0.5):
        x = np.array(names + ["other"], object)[case.numpy.integers(0, 6, shape)]
        case.output(case.node("CategoryMapper", [case.feed(x, "str")], domain=ML, **attributes), "i64")
    else:
        x = np.array(numbers + [100], np.int64)[case.numpy.integers(0, 6, shape)]
        case.output(case.node("CategoryMapper", [case.feed(x, "i64")], domain=ML, **attributes), "str")


@operator("FeatureVectorizer")
def feature_vectorizer(case):
    kind, rows, _, _ = features(case, ("f32", "f64", "i32", "i64"))
    widths = [case.integer(1, 5) for _ in range(case.integer(1, 4))]
    names = [case.feed(case.values([rows, width], kind), kind) for width in widths]
    case.output(case.node("FeatureVectorizer", names, domain=ML, inputdimensions=widths), "f32")


@operator("Imputer")
def imputer(case):
    kind, _, columns, x = features(case, ("f32", "i64"))
    count = case.choice([1, columns])
    if kind == "f32":
        nan = case.chance(0.5)
        x = np.where(case.numpy.random(x.shape) < 0.3, np.float32(np.nan if nan else -1), x)
        attributes = {"imputed_value_floats": floats(case, count), "replaced_value_float": float("nan") if nan else -1.0}
    else:
        x = np.where(case.numpy.random(x.shape) < 0.3, np.int64(-1), x)
        attributes = {"imputed_value_int64s": [case.integer(-9, 9) for _ in range(count)], "replaced_value_int64": -1}
    case.output(case.node("Imputer", [case.feed(x, kind)], domain=ML, **attributes), kind)


@operator("LabelEncoder", weight=2)
def label_encoder(case):
    case.domains[ML] = case.choice([2, 3]) if case.opset < 20 else 4
    names, numbers, reals = ["a", "b", "cat", "dog", ""], [3, 1, 4, 15, -9], [0.5, -1.0, 3.25, 7.0, 100.0]
    keys = case.choice(["strings", "int64s", "floats"])
    values = case.choice(["strings", "int64s", "floats"])
    if keys == values and keys == "floats" and case.domains[ML] < 4:
        values = "int64s"
    table = {"strings": names, "int64s": numbers, "floats": reals}
    attributes = {f"keys_{keys}": table[keys], f"values_{values}": case.random.sample(table[values], 5)}
    if case.chance(0.5):
        attributes[{"strings": "default_string", "int64s": "default_int64", "floats": "default_float"}[values]] = \
            {"strings": "none", "int64s": 42, "floats": -2.5}[values]
    kind = {"strings": "str", "int64s": "i64", "floats": "f32"}
    others = {"strings": "other", "int64s": 77, "floats": 0.125}[keys]
    pool = np.array(table[keys] + [others], object if keys == "strings" else np.int64 if keys == "int64s" else np.float32)
    x = pool[case.numpy.integers(0, 6, case.shape(low=1, limit=100))]
    case.output(case.node("LabelEncoder", [case.feed(x, kind[keys])], domain=ML, **attributes), kind[values])


@operator("LinearRegressor")
def linear_regressor(case):
    kind, _, columns, x = features(case)
    targets = case.integer(1, 4)
    attributes = {"coefficients": floats(case, targets * columns), "targets": targets, "post_transform": case.choice([None, "NONE"])}
    if case.chance(0.6):
        attributes["intercepts"] = floats(case, targets)
    case.output(case.node("LinearRegressor", [case.feed(x, kind)], domain=ML, **attributes), "f32")
    case.within(1e-5, 1e-5)


def labels(case, count):
    return {"classlabels_int64s" if "Tree" in case.name else "classlabels_ints": case.random.sample(range(-5, 20), count)} \
        if case.chance(0.6) else {"classlabels_strings": [f"class {i}" for i in range(count)]}


@operator("LinearClassifier", weight=2)
def linear_classifier(case):
    kind, _, columns, x = features(case, ("f32", "f32", "i64", "f64"))
    classes = case.integer(2, 5)
    attributes = labels(case, classes)
    attributes.update({"coefficients": floats(case, classes * columns), "intercepts": floats(case, classes),
                       "multi_class": case.choice([None, 0, 1]), "post_transform": case.choice(TRANSFORMS[:4])})
    label, scores = case.node("LinearClassifier", [case.feed(x, kind)], 2, domain=ML, **attributes)
    case.output(label, "str" if "classlabels_strings" in attributes else "i64")
    case.output(scores, "f32")
    case.within(1e-4, 1e-5)


@operator("Normalizer")
def normalizer(case):
    kind, _, _, x = features(case, ("f32", "f64", "i64", "i32"))
    x = np.where(x == 0, np.array(1, x.dtype), x)
    case.output(case.node("Normalizer", [case.feed(x, kind)], domain=ML, norm=case.choice([None, "MAX", "L1", "L2"])), "f32")
    case.within(1e-5, 1e-6)


@operator("OneHotEncoder")
def one_hot_encoder(case):
    case.domains[ML] = 1
    shape = case.shape(low=1, high=2, limit=60, zero=0)
    if case.chance(0.4):
        names = ["a", "b", "cat"]
        x, kind = np.array(names + ["other"], object)[case.numpy.integers(0, 4, shape)], "str"
        attributes = {"cats_strings": names}
    else:
        kind = case.choice(["i64", "f32", "f64"])
        x = case.ints(shape, "i64", 0, 4).astype({"i64": "i8", "i32": "i4", "f32": "f4", "f64": "f8"}[kind])
        attributes = {"cats_int64s": [3, 0, 2]}
    attributes["zeros"] = 1
    case.output(case.node("OneHotEncoder", [case.feed(x, kind)], domain=ML, **attributes), "f32")


@operator("Scaler")
def scaler(case):
    kind, _, columns, x = features(case, ("f32", "f64", "i64", "i32"))
    count = case.choice([1, columns])
    case.output(case.node("Scaler", [case.feed(x, kind)], domain=ML, offset=floats(case, count), scale=floats(case, count)), "f32")
    case.within(1e-5, 1e-6)


def kernel_of(case):
    return {"kernel_type": case.choice(["LINEAR", "POLY", "RBF", "SIGMOID"]),
            "kernel_params": [case.real(0.05, 0.5), case.real(-0.5, 0.5), float(case.integer(1, 3))]}


@operator("SVMRegressor", weight=2)
def svm_regressor(case):
    kind, _, columns, x = features(case)
    vectors = case.integer(1, 8)
    attributes = kernel_of(case)
    if attributes["kernel_type"] == "LINEAR" and case.chance(0.5):
        attributes.update({"coefficients": floats(case, columns), "n_supports": 0})
    else:
        attributes.update({"support_vectors": floats(case, vectors * columns), "coefficients": floats(case, vectors), "n_supports": vectors})
    attributes.update({"rho": floats(case, 1), "one_class": case.choice([None, 0, 1])})
    case.output(case.node("SVMRegressor", [case.feed(x, kind)], domain=ML, **attributes), "f32")
    case.within(1e-4, 1e-5)


@operator("SVMClassifier", weight=2)
def svm_classifier(case):
    kind, _, columns, x = features(case)
    classes = case.integer(2, 4)
    attributes = kernel_of(case)
    per_class = [case.integer(1, 4) for _ in range(classes)]
    vectors, pairs = sum(per_class), classes * (classes - 1) // 2
    attributes.update(labels(case, classes))
    attributes.update({"support_vectors": floats(case, vectors * columns), "coefficients": floats(case, vectors * (classes - 1)),
                       "vectors_per_class": per_class, "rho": floats(case, pairs), "post_transform": case.choice([None, "NONE"])})
    label, scores = case.node("SVMClassifier", [case.feed(x, kind)], 2, domain=ML, **attributes)
    case.output(label, "str" if "classlabels_strings" in attributes else "i64")
    case.output(scores, "f32")
    case.within(1e-4, 1e-4)


MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def trees(case, columns, outputs, label):
    """A random forest as parallel lists."""
    nodes = {key: [] for key in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
                                 "missing_value_tracks_true")}
    leaves = {key: [] for key in ("treeids", "nodeids", "ids", "weights")}
    same = case.choice(MODES) if case.chance(0.6) else None
    tracks = case.chance(0.3)
    for tree in range(case.integer(1, 6)):
        pending, count = [0], 1
        while pending:
            node = pending.pop(0)
            leaf = count > 25 or (node and case.chance(0.35))
            nodes["treeids"].append(tree)
            nodes["nodeids"].append(node)
            nodes["featureids"].append(0 if leaf else case.integer(0, columns - 1))
            nodes["values"].append(0.0 if leaf else float(case.integer(-4, 4)) / 2)
            nodes["modes"].append("LEAF" if leaf else same or case.choice(MODES))
            nodes["missing_value_tracks_true"].append(case.integer(0, 1) if tracks and not leaf else 0)
            nodes["truenodeids"].append(0 if leaf else count)
            nodes["falsenodeids"].append(0 if leaf else count + 1)
            if not leaf:
                pending += [count, count + 1]
                count += 2
                continue
            # Every leaf has all classes: ONNX Runtime uses neither 0 nor the base value for a class without leaves.
            for output in case.random.sample(range(outputs), outputs):
                leaves["treeids"].append(tree)
                leaves["nodeids"].append(node)
                leaves["ids"].append(output)
                leaves["weights"].append(case.real(-1, 1))
    attributes = {f"nodes_{key}": value for key, value in nodes.items() if key != "missing_value_tracks_true" or tracks}
    attributes.update({f"{label}_{key}": value for key, value in leaves.items()})
    return attributes


def tree_features(case, kinds=("f32", "f32", "f64", "i64", "i32")):
    kind, rows, columns, x = features(case, kinds)
    x = np.round(x * 2) / 2 if kind in ("f32", "f64") else np.clip(x, -3, 3)
    if kind in ("f32", "f64") and case.chance(0.2):
        x = np.where(case.numpy.random(x.shape) < 0.1, np.array(np.nan, x.dtype), x)
    return kind, rows, columns, x.astype({"f32": "f4", "f64": "f8", "i64": "i8", "i32": "i4"}[kind])


@operator("TreeEnsembleRegressor", weight=3)
def tree_ensemble_regressor(case):
    kind, _, columns, x = tree_features(case, ("f32",))
    targets = case.integer(1, 3)
    attributes = trees(case, columns, targets, "target")
    attributes.update({"n_targets": targets, "aggregate_function": case.choice([None, "SUM", "AVERAGE", "MIN", "MAX"]),
                       "post_transform": case.choice([None, "NONE"])})
    if case.chance(0.4):
        attributes["base_values"] = floats(case, targets)
    case.domains[ML] = case.choice([1, 3])
    case.output(case.node("TreeEnsembleRegressor", [case.feed(x, kind)], domain=ML, **attributes), "f32")
    case.within(1e-4, 1e-5)


@operator("TreeEnsembleClassifier", weight=3)
def tree_ensemble_classifier(case):
    kind, _, columns, x = tree_features(case)
    classes = case.integer(2, 4)
    # With two classes the leaves have one of them. If they have both, ONNX Runtime's label is 0 or 1, whatever the
    # labels are.
    scored = classes if classes > 2 else 1
    attributes = trees(case, columns, scored, "class")
    attributes.update(labels(case, classes))
    attributes["post_transform"] = case.choice(TRANSFORMS[:4])
    if case.chance(0.4):
        attributes["base_values"] = floats(case, scored)
    case.domains[ML] = case.choice([1, 3])
    label, scores = case.node("TreeEnsembleClassifier", [case.feed(x, kind)], 2, domain=ML, **attributes)
    case.output(label, "str" if "classlabels_strings" in attributes else "i64")
    case.output(scores, "f32")
    case.within(1e-4, 1e-5)


COMPARISONS = [np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal]  # by the number of the mode


@operator("TreeEnsemble", 21, weight=3)
def tree_ensemble(case):
    case.without_peer()
    case.domains[ML] = 5
    kind, rows, columns, targets = case.choice(["f32", "f64"]), case.choice([1, 2, 7, 33]), case.integer(1, 8), case.integer(1, 3)
    x = np.round(case.values([rows, columns], kind) * 2) / 2
    if case.chance(0.2):
        x = np.where(case.numpy.random(x.shape) < 0.1, np.array(np.nan, x.dtype), x)
    lists = {key: [] for key in ("featureids", "splits", "modes", "truenodeids", "falsenodeids", "trueleafs", "falseleafs",
                                 "missing_value_tracks_true")}
    roots, leaves = [], []

    def grow(depth):
        """The number of a node or leaf and whether it is a leaf, and what the rows get there."""
        if depth and (depth == 4 or case.chance(0.3)):
            leaves.append((case.integer(0, targets - 1), case.real(-1, 1)))
            scores = np.zeros([rows, targets])
            scores[:, leaves[-1][0]] = leaves[-1][1]
            return len(leaves) - 1, 1, scores, np.broadcast_to(np.arange(targets) == leaves[-1][0], scores.shape)
        at, feature, mode = len(lists["modes"]), case.integer(0, columns - 1), case.integer(0, 5)
        split, tracks = case.integer(-4, 4) / 2, case.integer(0, 1)
        for key, value in zip(lists, (feature, split, mode, 0, 0, 0, 0, tracks)):
            lists[key].append(value)
        taken = COMPARISONS[mode](x[:, feature], split) | (np.isnan(x[:, feature]) & bool(tracks))
        sides = []
        for side in ("true", "false"):
            child, leaf, *found = grow(depth + 1)
            lists[f"{side}nodeids"][at], lists[f"{side}leafs"][at] = child, leaf
            sides.append(found)
        return (at, 0) + tuple(np.where(taken[:, None], yes, no) for yes, no in zip(*sides))

    scores, given = [], []
    for _ in range(case.integer(1, 5)):
        root, _, found, touched = grow(0)
        roots.append(root)
        scores.append(found)
        given.append(touched)
    aggregate = case.choice([None, 0, 1, 2, 3])
    scores, given = np.array(scores), np.array(given)
    if aggregate in (2, 3):  # of trees that give a target something
        outside = np.inf if aggregate == 2 else -np.inf
        y = np.where(given, scores, outside).min(0) if aggregate == 2 else np.where(given, scores, outside).max(0)
        y = np.where(given.any(0), y, 0)
    else:
        y = scores.sum(0) / (len(roots) if aggregate == 0 else 1)
    attributes = {f"nodes_{key}": value for key, value in lists.items() if key not in ("splits", "modes")}
    attributes.update({"nodes_splits": tensor(lists["splits"], kind), "nodes_modes": tensor(np.array(lists["modes"], np.uint8), "u8"),
                       "leaf_targetids": [target for target, _ in leaves], "leaf_weights": tensor([weight for _, weight in leaves], kind),
                       "tree_roots": roots, "n_targets": targets, "aggregate_function": aggregate})
    case.output(case.node("TreeEnsemble", [case.feed(x, kind)], domain=ML, **attributes), kind, y)
    case.within(1e-5, 1e-6)


@operator("NegativeLogLikelihoodLoss", 12, weight=2)
def negative_log_likelihood(case, name="NegativeLogLikelihoodLoss"):
    classes = case.integer(1, 7)
    batch, places = case.integer(1, 5), case.shape(high=2, limit=30, zero=0)
    x = case.values([batch, classes] + places, "f32", -3, 0)
    ignored = case.choice([None, None, case.integer(0, classes - 1), -1])
    target = case.ints([batch] + places, case.choice(["i32", "i64"]), 0, classes - 1)
    kind = "i32" if target.dtype == np.int32 else "i64"
    if ignored == -1:
        target = np.where(case.numpy.random(target.shape) < 0.3, np.array(-1, target.dtype), target)
    if ignored is not None:
        target.flat[0] = (ignored + 1) % classes if classes > 1 and ignored >= 0 else 0
        if classes == 1 and ignored == 0:
            ignored = None
    operands = [case.feed(x, "f32"), case.feed(target, kind)]
    if case.chance(0.4):
        operands.append(case.feed(case.values([classes], "f32", 0.2, 2), "f32"))
    outputs = 2 if name == "SoftmaxCrossEntropyLoss" and case.chance(0.4) else 1
    names = case.node(name, operands, outputs, reduction=case.choice([None, "mean", "sum", "none"]), ignore_index=ignored)
    for result in [names] if outputs == 1 else names:
        case.output(result, "f32")
    case.within(1e-4, 1e-4)


@operator("SoftmaxCrossEntropyLoss", 12, weight=2)
def softmax_cross_entropy(case):
    negative_log_likelihood(case, "SoftmaxCrossEntropyLoss")

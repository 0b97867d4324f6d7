#!/usr/bin/python3
"""make_ml_cases.py OUT: trains small scikit-learn models and writes them as ONNX test directories.

The nodes are built by hand with onnx.helper from what the models have learnt; the expected outputs are scikit-learn's
own predictions, so a case passes only if the operators of ai.onnx.ml mean the same."""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import Normalizer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, OneClassSVM
from sklearn.tree import DecisionTreeClassifier

ML = "ai.onnx.ml"
ROWS = 60


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, domain="" if op in ("Cast", "Concat", "Sub") else ML, **attributes)


def write(out, name, nodes, inputs, outputs, ml=3):
    """inputs and outputs: lists of (name, array)."""

    def info(pairs):
        return [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype) if hasattr(helper, "np_dtype_to_tensor_dtype")
                                          else onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[a.dtype], ["N", *a.shape[1:]])
            for n, a in pairs
        ]

    graph = helper.make_graph(nodes, name, info(inputs), info(outputs))
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(ML, ml)], ir_version=8
    )
    onnx.checker.check_model(model)
    data = os.path.join(out, name, "test_data_set_0")
    os.makedirs(data)
    onnx.save(model, os.path.join(out, name, "model.onnx"))
    for kind, pairs in (("input", inputs), ("output", outputs)):
        for i, (n, array) in enumerate(pairs):
            with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as f:
                f.write(numpy_helper.from_array(array, n).SerializeToString())


def strings(array):
    return np.array([str(x) for x in array], dtype=object)


class Forest:
    """Attributes of the TreeEnsemble operators, tree by tree."""

    def __init__(self, prefix, double):
        self.prefix, self.double, self.tree = prefix, double, 0
        self.nodes = {k: [] for k in "treeids nodeids featureids modes values truenodeids falsenodeids".split()}
        self.votes = {k: [] for k in "treeids nodeids ids weights".split()}

    def add(self, tree, weights_of):
        """weights_of(node) gives (target, weight) pairs."""
        for i in range(tree.node_count):
            leaf = tree.children_left[i] < 0
            # scikit-learn compares in f32 with thresholds in f64: the greatest f32 that is not above one does the same.
            split = tree.threshold[i]
            if not self.double and not leaf:
                rounded = np.float32(split)
                split = float(np.nextafter(rounded, np.float32(-np.inf)) if rounded > split else rounded)
            row = (self.tree, i, max(tree.feature[i], 0), "LEAF" if leaf else "BRANCH_LEQ", 0.0 if leaf else split,
                   max(tree.children_left[i], 0), max(tree.children_right[i], 0))
            for key, value in zip(self.nodes, row):
                self.nodes[key].append(value)
            for target, weight in weights_of(i) if leaf else ():
                for key, value in zip(self.votes, (self.tree, i, target, float(weight))):
                    self.votes[key].append(value)
        self.tree += 1

    def attributes(self):
        result = {"nodes_" + k: v for k, v in self.nodes.items()}
        result.update({f"{self.prefix}_{k}": v for k, v in self.votes.items()})
        if self.double:
            for key in ("nodes_values", f"{self.prefix}_weights"):
                values = np.array(result.pop(key), dtype=np.float64)
                result[key + "_as_tensor"] = numpy_helper.from_array(values, key)
        return result


def probabilities(tree, scale):
    def weights(i):
        votes = tree.value[i][0] / tree.value[i][0].sum()
        return [(c, v * scale) for c, v in enumerate(votes)]

    return weights


def trees(out):
    iris, cancer, diabetes = (f(return_X_y=True) for f in (load_iris, load_breast_cancer, load_diabetes))
    for double in (False, True):
        kind = np.float64 if double else np.float32
        tag = "_f64" if double else ""
        x = iris[0].astype(np.float32)
        labels = strings(load_iris().target_names)

        model = RandomForestClassifier(20, random_state=0).fit(x, iris[1])
        forest = Forest("class", double)
        for e in model.estimators_:
            forest.add(e.tree_, probabilities(e.tree_, 1 / 20))
        write(out, "random_forest_classifier" + tag,
              [node("TreeEnsembleClassifier", ["x"], ["y", "z"], classlabels_strings=list(labels), **forest.attributes())],
              [("x", x.astype(kind))], [("y", labels[model.predict(x)]), ("z", model.predict_proba(x).astype(np.float32))])

        x = diabetes[0][:ROWS].astype(np.float32)
        for name, estimator in (("random_forest_regressor", RandomForestRegressor(30, random_state=0)),
                                ("extra_trees_regressor", ExtraTreesRegressor(150, max_depth=6, random_state=0))):
            model = estimator.fit(diabetes[0].astype(np.float32), diabetes[1])
            forest = Forest("target", double)
            for e in model.estimators_:
                forest.add(e.tree_, lambda i, t=e.tree_: [(0, t.value[i][0][0])])
            write(out, name + tag,
                  [node("TreeEnsembleRegressor", ["x"], ["y"], n_targets=1, aggregate_function="AVERAGE",
                        **forest.attributes())],
                  [("x", x.astype(kind))], [("y", model.predict(x).astype(np.float32)[:, None])])
            write(out, name + "_one_row" + tag,
                  [node("TreeEnsembleRegressor", ["x"], ["y"], n_targets=1, aggregate_function="AVERAGE",
                        **forest.attributes())],
                  [("x", x[:1].astype(kind))], [("y", model.predict(x[:1]).astype(np.float32)[:, None])])

        model = GradientBoostingRegressor(n_estimators=40, random_state=0).fit(diabetes[0].astype(np.float32), diabetes[1])
        forest = Forest("target", double)
        for e in model.estimators_[:, 0]:
            forest.add(e.tree_, lambda i, t=e.tree_: [(0, t.value[i][0][0] * model.learning_rate)])
        base = model._raw_predict_init(x)[0]
        base = {"base_values_as_tensor": numpy_helper.from_array(base, "b")} if double else {"base_values": list(base)}
        write(out, "gradient_boosting_regressor" + tag,
              [node("TreeEnsembleRegressor", ["x"], ["y"], n_targets=1, **base, **forest.attributes())],
              [("x", x.astype(kind))], [("y", model.predict(x).astype(np.float32)[:, None])])

    x = cancer[0].astype(np.float32)
    model = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(x, cancer[1])
    forest = Forest("class", False)
    for e in model.estimators_[:, 0]:
        forest.add(e.tree_, lambda i, t=e.tree_: [(0, t.value[i][0][0] * model.learning_rate)])
    write(out, "gradient_boosting_binary",
          [node("TreeEnsembleClassifier", ["x"], ["y", "z"], classlabels_int64s=[0, 1], post_transform="LOGISTIC",
                base_values=[float(model._raw_predict_init(x)[0][0])], **forest.attributes())],
          [("x", x)], [("y", model.predict(x)), ("z", model.predict_proba(x).astype(np.float32))])

    x = iris[0].astype(np.float32)
    model = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(x, iris[1])
    forest = Forest("class", False)
    for stage in model.estimators_:
        for c, e in enumerate(stage):
            forest.add(e.tree_, lambda i, t=e.tree_, c=c: [(c, t.value[i][0][0] * model.learning_rate)])
    write(out, "gradient_boosting_multiclass",
          [node("TreeEnsembleClassifier", ["x"], ["y", "z"], classlabels_int64s=[0, 1, 2], post_transform="SOFTMAX",
                base_values=[float(v) for v in model._raw_predict_init(x)[0]], **forest.attributes())],
          [("x", x)], [("y", model.predict(x)), ("z", model.predict_proba(x).astype(np.float32))])

    x = cancer[0].astype(np.float32)
    model = DecisionTreeClassifier(max_depth=4, random_state=0).fit(x, cancer[1])
    forest = Forest("class", False)
    forest.add(model.tree_, lambda i: [(0, probabilities(model.tree_, 1)(i)[1][1])])
    write(out, "decision_tree_binary",
          [node("TreeEnsembleClassifier", ["x"], ["y", "z"], classlabels_int64s=[0, 1], **forest.attributes())],
          [("x", x)], [("y", model.predict(x)), ("z", model.predict_proba(x).astype(np.float32))])


def scaler_node(scaler, given, made):
    return node("Scaler", [given], [made], offset=[float(v) for v in scaler.mean_],
                scale=[float(v) for v in 1 / scaler.scale_])


def linear(out):
    x, y = load_iris(return_X_y=True)
    x = x.astype(np.float32)
    scaler = StandardScaler().fit(x)
    scaled = scaler.transform(x)
    model = LogisticRegression().fit(scaled, y)
    classifier = node("LinearClassifier", ["s"], ["y", "z"], coefficients=[float(v) for v in model.coef_.ravel()],
                      intercepts=[float(v) for v in model.intercept_], classlabels_ints=[0, 1, 2],
                      post_transform="SOFTMAX")
    write(out, "scaler_logistic_regression", [scaler_node(scaler, "x", "s"), classifier],
          [("x", x)], [("y", model.predict(scaled)), ("z", model.predict_proba(scaled).astype(np.float32))])

    x, y = load_breast_cancer(return_X_y=True)
    x = x.astype(np.float32)
    scaler = StandardScaler().fit(x)
    scaled = scaler.transform(x)
    model = LogisticRegression().fit(scaled, y)
    classifier = node("LinearClassifier", ["s"], ["y", "z"],
                      coefficients=[float(v) for v in np.concatenate([-model.coef_, model.coef_]).ravel()],
                      intercepts=[-float(model.intercept_[0]), float(model.intercept_[0])],
                      classlabels_strings=["malignant", "benign"], post_transform="LOGISTIC")
    write(out, "scaler_logistic_regression_binary", [scaler_node(scaler, "x", "s"), classifier],
          [("x", x)], [("y", np.array(["malignant", "benign"], dtype=object)[model.predict(scaled)]),
                       ("z", model.predict_proba(scaled).astype(np.float32))])

    x, y = load_diabetes(return_X_y=True)
    x = x.astype(np.float32)
    model = LinearRegression().fit(x, np.stack([y, -y], 1))
    write(out, "linear_regression",
          [node("LinearRegressor", ["x"], ["y"], coefficients=[float(v) for v in model.coef_.ravel()],
                intercepts=[float(v) for v in model.intercept_], targets=2)],
          [("x", x)], [("y", model.predict(x).astype(np.float32))])


def kernel(model):
    return {
        "kernel_type": {"rbf": "RBF", "poly": "POLY", "linear": "LINEAR", "sigmoid": "SIGMOID"}[model.kernel],
        "kernel_params": [float(model._gamma), float(model.coef0), float(model.degree)],
        "support_vectors": [float(v) for v in model.support_vectors_.ravel()],
    }


def machines(out):
    x, y = load_iris(return_X_y=True)
    x = x.astype(np.float32)
    for name in ("rbf", "poly", "linear"):
        model = SVC(kernel=name, decision_function_shape="ovo").fit(x, y)
        write(out, "svc_" + name,
              [node("SVMClassifier", ["x"], ["y", "z"], classlabels_ints=[0, 1, 2],
                    vectors_per_class=[int(v) for v in model.n_support_],
                    coefficients=[float(v) for v in model.dual_coef_.ravel()],
                    rho=[float(v) for v in model.intercept_], **kernel(model))],
              [("x", x)], [("y", model.predict(x)), ("z", model.decision_function(x).astype(np.float32))])
    model = SVC(probability=True, random_state=0).fit(x, y)
    write(out, "svc_probability",
          [node("SVMClassifier", ["x"], ["y", "z"], classlabels_ints=[0, 1, 2],
                vectors_per_class=[int(v) for v in model.n_support_],
                coefficients=[float(v) for v in model.dual_coef_.ravel()], rho=[float(v) for v in model.intercept_],
                prob_a=[float(v) for v in model.probA_], prob_b=[float(v) for v in model.probB_], **kernel(model))],
          [("x", x)], [("y", model.predict(x)), ("z", model.predict_proba(x).astype(np.float32))])

    model = LinearSVC(random_state=0, max_iter=100000).fit(x, y)
    write(out, "linear_svc",
          [node("LinearClassifier", ["x"], ["y", "z"], classlabels_ints=[0, 1, 2],
                coefficients=[float(v) for v in model.coef_.ravel()], intercepts=[float(v) for v in model.intercept_])],
          [("x", x)], [("y", model.predict(x)), ("z", model.decision_function(x).astype(np.float32))])

    x, y = load_diabetes(return_X_y=True)
    x = x.astype(np.float32)
    for name in ("rbf", "sigmoid"):
        model = SVR(kernel=name, C=10).fit(x, y)
        write(out, "svr_" + name,
              [node("SVMRegressor", ["x"], ["y"], n_supports=len(model.support_),
                    coefficients=[float(v) for v in model.dual_coef_.ravel()], rho=[float(model.intercept_[0])],
                    **kernel(model))],
              [("x", x)], [("y", model.predict(x).astype(np.float32)[:, None])])
    model = OneClassSVM().fit(x)
    write(out, "one_class_svm",
          [node("SVMRegressor", ["x"], ["y"], n_supports=len(model.support_), one_class=1,
                coefficients=[float(v) for v in model.dual_coef_.ravel()], rho=[float(model.intercept_[0])],
                **kernel(model))],
          [("x", x)], [("y", model.predict(x).astype(np.float32)[:, None])])


def features(out):
    x = np.random.RandomState(0).randn(9, 5).astype(np.float32)
    for norm in ("l1", "l2"):
        write(out, "normalizer_" + norm, [node("Normalizer", ["x"], ["y"], norm=norm.upper())],
              [("x", x)], [("y", Normalizer(norm).fit_transform(x))])
    words = np.array([["red"], ["green"], ["blue"], ["green"]], dtype=object)
    model = OneHotEncoder().fit(words)
    write(out, "one_hot_encoder",
          [node("OneHotEncoder", ["x"], ["y"], cats_strings=list(model.categories_[0]))],
          [("x", words)], [("y", model.transform(words).toarray().astype(np.float32)[:, None])])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for family in (trees, linear, machines, features):
        family(sys.argv[1])


main()

/* Lowerings of ai.onnx.ml. Expected values follow from the operators' definitions. */
#include "tests/compiler/import_onnx/onnx_text.h"

#include <check.h>

#define ML(version) "opset 17\nopset ai.onnx.ml " #version "\n"

START_TEST(features)
{
    onnx_expect(ML(1) "input x f32[2x2]\noutput y\ny = ai.onnx.ml::Scaler(x) offset=[1.0 2.0] scale=[0.5 2.0]\n",
                "x f32[2x2] 3 4 1 0\n", "y f32[2x2] 1 4 0 -4\n");
    onnx_expect(ML(1) "input x i64[3]\noutput y\ny = ai.onnx.ml::Scaler(x) offset=[1.0] scale=[0.5]\n",
                "x i64[3] 1 2 3\n", "y f32[3] 0 0.5 1\n");
    onnx_expect(ML(1) "input x f32[4]\ninput i i64[4]\noutput y\noutput z\n"
                      "y = ai.onnx.ml::Binarizer(x) threshold=0.5\nz = ai.onnx.ml::Binarizer(i) threshold=0.5\n",
                "x f32[4] 0.5 0.6 -1 nan\ni i64[4] 0 1 2 -3\n", "y f32[4] 0 1 0 0\nz i64[4] 0 1 1 0\n");
    onnx_expect(ML(1) "input x f32[3x2]\noutput m\noutput a\noutput b\nm = ai.onnx.ml::Normalizer(x)\n"
                      "a = ai.onnx.ml::Normalizer(x) norm=\"L1\"\nb = ai.onnx.ml::Normalizer(x) norm=\"L2\"\n",
                "x f32[3x2] 3 4 0 0 -3 4\n",
                "m f32[3x2] 0.75 1 0 0 -0.75 1\na f32[3x2] 0.42857143 0.57142857 0 0 -0.42857143 0.57142857\n"
                "b f32[3x2] 0.6 0.8 0 0 -0.6 0.8\n");
    onnx_expect(ML(1) "input x f32[2x2]\ninput i i64[2x2]\noutput y\noutput z\n"
                      "y = ai.onnx.ml::Imputer(x) imputed_value_floats=[7.0 8.0] replaced_value_float=-1.0\n"
                      "z = ai.onnx.ml::Imputer(i) imputed_value_int64s=[9] replaced_value_int64=2\n",
                "x f32[2x2] -1 -1 2 3\ni i64[2x2] 1 2 2 3\n", "y f32[2x2] 7 8 2 3\nz i64[2x2] 1 9 9 3\n");
    onnx_expect(ML(1) "input x f32[2x3]\ninput v str[3]\ninput i i64[1x2]\noutput y\noutput z\n"
                      "y = ai.onnx.ml::ArrayFeatureExtractor(x, i)\nz = ai.onnx.ml::ArrayFeatureExtractor(v, i)\n",
                "x f32[2x3] 1 2 3 4 5 6\nv str[3] \"a\" \"b\" \"c\"\ni i64[1x2] 2 0\n",
                "y f32[2x2] 3 1 6 4\nz str[1x2] \"c\" \"a\"\n");
    onnx_expect(ML(1) "input x f32[2x1]\ninput i i64[2x2]\noutput y\n"
                      "y = ai.onnx.ml::FeatureVectorizer(x, i) inputdimensions=[1 2]\n",
                "x f32[2x1] 1 2\ni i64[2x2] 3 4 5 6\n", "y f32[2x3] 1 3 4 2 5 6\n");
    /* Cut off, and filled up with zeros. */
    onnx_expect(ML(1) "input x f32[1x2]\ninput z f32[1x2]\noutput y\n"
                      "y = ai.onnx.ml::FeatureVectorizer(x, z) inputdimensions=[1 3]\n",
                "x f32[1x2] 1 2\nz f32[1x2] 3 4\n", "y f32[1x4] 1 3 4 0\n");
    onnx_expect(ML(1) "input x f32[2]\noutput y\n"
                      "y = ai.onnx.ml::Imputer(x) imputed_value_floats=[7.0] replaced_value_float=-nan\n",
                "x f32[2] nan 2\n", "y f32[2] 7 2\n");
}
END_TEST

START_TEST(lookups)
{
    onnx_expect(ML(1) "input x str[3]\ninput i i64[3]\noutput y\noutput z\n"
                      "y = ai.onnx.ml::LabelEncoder(x) classes_strings=[\"b\" \"a\"] default_int64=9\n"
                      "z = ai.onnx.ml::LabelEncoder(i) classes_strings=[\"b\" \"a\"]\n",
                "x str[3] \"a\" \"b\" \"c\"\ni i64[3] 0 1 2\n", "y i64[3] 1 0 9\nz str[3] \"b\" \"a\" \"_Unused\"\n");
    onnx_expect(ML(2) "input x f32[4]\noutput y\noutput z\n"
                      "y = ai.onnx.ml::LabelEncoder(x) keys_floats=[2.0 1.0 2.0] values_strings=[\"b\" \"a\" \"c\"] "
                      "default_string=\"?\"\n"
                      "z = ai.onnx.ml::LabelEncoder(y) keys_strings=[\"b\" \"a\"] values_floats=[1.5 2.5]\n",
                "x f32[4] 1 2 3 1\n", "y str[4] \"a\" \"b\" \"?\" \"a\"\nz f32[4] 2.5 1.5 0 2.5\n");
    onnx_expect(ML(4) "input x f64[3]\noutput y\ny = ai.onnx.ml::LabelEncoder(x) keys_tensor=f64[2]{3 1} "
                      "values_tensor=i16[2]{30 10} default_tensor=i16[1]{7}\n",
                "x f64[3] 1 2 3\n", "y i16[3] 10 7 30\n");
    onnx_expect(ML(1) "input x str[2]\ninput i i64[2]\noutput y\noutput z\n"
                      "y = ai.onnx.ml::CategoryMapper(x) cats_int64s=[5 4] cats_strings=[\"e\" \"d\"]\n"
                      "z = ai.onnx.ml::CategoryMapper(i) cats_int64s=[5 4] cats_strings=[\"e\" \"d\"]\n",
                "x str[2] \"e\" \"f\"\ni i64[2] 4 6\n", "y i64[2] 5 -1\nz str[2] \"d\" \"_Unused\"\n");
    onnx_expect(ML(1) "input x str[2]\ninput i f32[2x1]\noutput y\noutput z\n"
                      "y = ai.onnx.ml::OneHotEncoder(x) cats_strings=[\"b\" \"a\"]\n"
                      "z = ai.onnx.ml::OneHotEncoder(i) cats_int64s=[3 1 2] zeros=0\n",
                "x str[2] \"a\" \"c\"\ni f32[2x1] 2 3\n", "y f32[2x2] 0 1 0 0\nz f32[2x1x3] 0 0 1 1 0 0\n");
    onnx_refuse(ML(2) "input x f32[4]\noutput y\ny = ai.onnx.ml::LabelEncoder(x) keys_floats=[1.0] "
                      "keys_int64s=[1] values_int64s=[1]\n",
                XCVM_INVALID_MODEL, "exactly one");
    onnx_refuse(ML(2) "input x f32[4]\noutput y\ny = ai.onnx.ml::LabelEncoder(x) keys_int64s=[1] values_int64s=[1]\n",
                XCVM_TYPE_MISMATCH, "f32");
}
END_TEST

START_TEST(linear_models)
{
    onnx_expect(ML(1) "input x f32[2x2]\noutput y\ny = ai.onnx.ml::LinearRegressor(x) coefficients=[1.0 2.0 0.0 -1.0] "
                      "intercepts=[0.5 0.0] targets=2\n",
                "x f32[2x2] 1 2 3 4\n", "y f32[2x2] 5.5 -2 11.5 -4\n");
    onnx_expect(ML(1) "input x f64[2]\noutput y\ny = ai.onnx.ml::LinearRegressor(x) coefficients=[1.0 2.0]\n",
                "x f64[2] 1 2\n", "y f32[1x1] 5\n");
    onnx_expect(ML(1) "input x f32[2x1]\noutput y\noutput z\ny, z = ai.onnx.ml::LinearClassifier(x) "
                      "coefficients=[-1.0 0.0 1.0] intercepts=[0.0 0.0 0.0] classlabels_strings=[\"a\" \"b\" \"c\"] "
                      "post_transform=\"SOFTMAX\"\n",
                "x f32[2x1] 1 -1\n",
                "y str[2] \"c\" \"a\"\nz f32[2x3] 0.09003057 0.24472847 0.66524096 0.66524096 0.24472847 0.09003057\n");
    onnx_expect(ML(1) "input x f32[2x1]\noutput y\noutput z\ny, z = ai.onnx.ml::LinearClassifier(x) "
                      "coefficients=[1.0] intercepts=[0.0] classlabels_ints=[4 5] post_transform=\"LOGISTIC\"\n",
                "x f32[2x1] 1 -1\n", "y i64[2] 5 4\nz f32[2x2] 0.26894142 0.73105858 0.73105858 0.26894142\n");
    onnx_expect(ML(1) "input x f32[1x2]\noutput y\ny = ai.onnx.ml::LinearRegressor(x) coefficients=[1.0 0.0 0.0 1.0] "
                      "targets=2 post_transform=\"SOFTMAX_ZERO\"\n",
                "x f32[1x2] 0 3\n", "y f32[1x2] 0 1\n");
    onnx_expect(ML(1) "input x f32[1x2]\noutput y\ny = ai.onnx.ml::LinearRegressor(x) coefficients=[1.0 0.0 0.0 1.0] "
                      "targets=2 post_transform=\"PROBIT\"\n",
                "x f32[1x2] 0.8413447 0.5\n", "y f32[1x2] 1.00017 0\n");
    onnx_refuse(ML(1) "input x f32[2x2]\noutput y\ny = ai.onnx.ml::LinearRegressor(x) coefficients=[1.0 2.0 3.0] "
                      "targets=2\n",
                XCVM_INVALID_MODEL, "3 coefficients");
}
END_TEST

START_TEST(support_vector_machines)
{
    onnx_expect(ML(1) "input x f32[2x1]\noutput y\ny = ai.onnx.ml::SVMRegressor(x) kernel_type=\"RBF\" n_supports=2 "
                      "kernel_params=[1.0 0.0 3.0] support_vectors=[0.0 1.0] coefficients=[1.0 -1.0] rho=[0.5]\n",
                "x f32[2x1] 0 1\n", "y f32[2x1] 1.1321206 -0.13212056\n");
    onnx_expect(ML(1) "input x f32[2x1]\noutput y\ny = ai.onnx.ml::SVMRegressor(x) kernel_type=\"POLY\" n_supports=1 "
                      "kernel_params=[2.0 1.0 2.0] support_vectors=[1.0] coefficients=[1.0] rho=[-10.0] one_class=1\n",
                "x f32[2x1] 0 3\n", "y f32[2x1] -1 1\n");
    /* Two classes, one vector each: the score is positive for the first. */
    onnx_expect(ML(1) "input x f32[2x1]\noutput y\noutput z\ny, z = ai.onnx.ml::SVMClassifier(x) "
                      "vectors_per_class=[1 1] support_vectors=[1.0 -1.0] coefficients=[1.0 -1.0] rho=[0.0] "
                      "classlabels_strings=[\"p\" \"q\"]\n",
                "x f32[2x1] 2 -1\n", "y str[2] \"p\" \"q\"\nz f32[2x2] -4 4 2 -2\n");
    onnx_expect(ML(1) "input x f32[1x1]\noutput y\noutput z\ny, z = ai.onnx.ml::SVMClassifier(x) "
                      "vectors_per_class=[1 1] support_vectors=[1.0 -1.0] coefficients=[1.0 -1.0] rho=[0.0] "
                      "prob_a=[0.0] prob_b=[0.0] classlabels_ints=[3 4]\n",
                "x f32[1x1] 2\n", "y i64[1] 3\nz f32[1x2] 0.5 0.5\n");
    onnx_expect(ML(1) "input x f32[2x1]\noutput y\noutput z\ny, z = ai.onnx.ml::SVMClassifier(x) "
                      "coefficients=[1.0 0.0 -1.0] rho=[0.5] classlabels_ints=[3 4 5]\n",
                "x f32[2x1] 2 -2\n", "y i64[2] 3 5\nz f32[2x3] 2.5 0.5 -1.5 -1.5 0.5 2.5\n");
    onnx_refuse(ML(1) "input x f32[1x1]\noutput y\ny = ai.onnx.ml::SVMRegressor(x) kernel_type=\"CUBIC\" "
                      "coefficients=[1.0] rho=[0.0]\n",
                XCVM_INVALID_MODEL, "CUBIC");
}
END_TEST

/* x0 > 0.5 ? (x1 != 2 ? b : a) : a, the leaves being nodes 1, 3 and 4. */
#define NODES                                                                                                          \
    " nodes_treeids=[0 0 0 0 0] nodes_nodeids=[0 1 2 3 4] nodes_featureids=[0 0 1 0 0] "                               \
    "nodes_values=[0.5 0.0 2.0 0.0 0.0] nodes_modes=[\"BRANCH_GT\" \"LEAF\" \"BRANCH_NEQ\" \"LEAF\" \"LEAF\"] "        \
    "nodes_truenodeids=[2 0 3 0 0] nodes_falsenodeids=[1 0 4 0 0] "

START_TEST(trees)
{
    onnx_expect(ML(1) "input x f32[5x2]\noutput y\ny = ai.onnx.ml::TreeEnsembleRegressor(x)" NODES
                      "target_treeids=[0 0 0] target_nodeids=[4 1 3] target_ids=[0 0 0] "
                      "target_weights=[3.0 1.0 2.0] n_targets=1 base_values=[10.0]\n",
                "x f32[5x2] 0.5 9 1 9 1 2 nan 2 1 nan\n", "y f32[5x1] 11 12 13 11 12\n");
    onnx_expect(ML(1) "input x f32[1x2]\noutput y\ny = ai.onnx.ml::TreeEnsembleRegressor(x)" NODES
                      "nodes_missing_value_tracks_true=[1 0 0 0 0] target_treeids=[0 0 0] target_nodeids=[4 1 3] "
                      "target_ids=[0 0 0] target_weights=[3.0 1.0 2.0] n_targets=1\n",
                "x f32[1x2] nan 2\n", "y f32[1x1] 3\n");
    onnx_expect(ML(3) "input x f64[2x2]\noutput y\noutput z\ny, z = ai.onnx.ml::TreeEnsembleClassifier(x)" NODES
                      "class_treeids=[0 0 0] class_nodeids=[1 3 4] class_ids=[0 1 2] "
                      "class_weights_as_tensor=f64[3]{1 1 1} classlabels_strings=[\"a\" \"b\" \"c\"]\n",
                "x f64[2x2] 0 0 1 2\n", "y str[2] \"a\" \"c\"\nz f32[2x3] 1 0 0 0 0 1\n");
    onnx_expect(ML(1) "input x f32[3x2]\noutput y\noutput z\ny, z = ai.onnx.ml::TreeEnsembleClassifier(x)" NODES
                      "class_treeids=[0 0 0] class_nodeids=[1 3 4] class_ids=[0 0 0] "
                      "class_weights=[0.25 0.75 0.5] classlabels_int64s=[8 9]\n",
                "x f32[3x2] 0 0 1 0 1 2\n", "y i64[3] 8 9 8\nz f32[3x2] 0.75 0.25 0.25 0.75 0.5 0.5\n");
    onnx_expect(ML(1) "input x f32[2x2]\noutput y\noutput z\ny, z = ai.onnx.ml::TreeEnsembleClassifier(x)" NODES
                      "class_treeids=[0 0 0] class_nodeids=[1 3 4] class_ids=[0 0 0] "
                      "class_weights=[-1.0 1.0 0.5] classlabels_int64s=[8 9] post_transform=\"LOGISTIC\"\n",
                "x f32[2x2] 0 0 1 0\n", "y i64[2] 8 9\nz f32[2x2] 0.73105858 0.26894142 0.26894142 0.73105858\n");
    onnx_refuse(ML(1) "input x f32[1x2]\noutput y\ny = ai.onnx.ml::TreeEnsembleRegressor(x) nodes_treeids=[0] "
                      "nodes_nodeids=[0] nodes_featureids=[0] nodes_values=[1.0] nodes_modes=[\"BRANCH_LT\"] "
                      "nodes_truenodeids=[1] nodes_falsenodeids=[2]\n",
                XCVM_INVALID_MODEL, "a child that is not there");
    onnx_refuse(ML(1) "input x f32[1x2]\noutput y\ny = ai.onnx.ml::TreeEnsembleRegressor(x) nodes_treeids=[0] "
                      "nodes_nodeids=[0] nodes_featureids=[0] nodes_values=[1.0] nodes_modes=[\"BRANCH_LT\"] "
                      "nodes_truenodeids=[0] nodes_falsenodeids=[0]\n",
                XCVM_INVALID_MODEL, "no root");
}
END_TEST

START_TEST(trees_by_position)
{
    /* x0 in {1, 2} ? leaf 0 : (x0 <= 5 ? leaf 1 : leaf 2), and a tree of leaf 3 alone. */
    onnx_expect(ML(5) "input x f64[4x1]\noutput y\ny = ai.onnx.ml::TreeEnsemble(x) n_targets=2 "
                      "nodes_featureids=[0 0 0] nodes_splits=f64[3]{0 5 0} nodes_modes=u8[3]{6 0 0} "
                      "membership_values=f64[3]{1 2 nan} nodes_truenodeids=[0 1 3] nodes_falsenodeids=[1 2 3] "
                      "nodes_trueleafs=[1 1 1] nodes_falseleafs=[0 1 1] leaf_targetids=[0 1 0 1] "
                      "leaf_weights=f64[4]{10 20 30 0.5} tree_roots=[0 2]\n",
                "x f64[4x1] 2 4 6 nan\n", "y f64[4x2] 10 0.5 0 20.5 30 0.5 30 0.5\n");
    onnx_refuse(ML(4) "input x f64[4x1]\noutput y\ny = ai.onnx.ml::TreeEnsemble(x) n_targets=2\n", XCVM_UNSUPPORTED,
                "opset 4");
}
END_TEST

START_TEST(maps)
{
    onnx_expect(ML(1) "input x f32[Nx2]\noutput y\ny = ai.onnx.ml::ZipMap(x) classlabels_strings=[\"a\" \"b\"]\n",
                "x f32[2x2] 1 2 3 4\n",
                "y seq(map(str[2] \"a\" \"b\", f32[2] 1 2), map(str[2] \"a\" \"b\", f32[2] 3 4))\n");
    onnx_expect(ML(1) "input x map(str, i64)\noutput y\n"
                      "y = ai.onnx.ml::DictVectorizer(x) string_vocabulary=[\"a\" \"c\" \"b\" \"z\"]\n",
                "x map(str[2] \"c\" \"a\", i64[2] 8 4)\n", "y i64[1x4] 4 8 0 0\n");
    onnx_expect(ML(1) "input x map(i64, f32)\noutput y\noutput z\ny = ai.onnx.ml::CastMap(x)\n"
                      "z = ai.onnx.ml::CastMap(x) cast_to=\"TO_INT64\" map_form=\"SPARSE\" max_map=4\n",
                "x map(i64[2] 3 1, f32[2] 8 4)\n", "y f32[1x2] 4 8\nz i64[1x4] 0 4 0 8\n");
    onnx_expect(ML(1) "input x map(i64, str)\noutput y\n"
                      "y = ai.onnx.ml::CastMap(x) cast_to=\"TO_FLOAT\" map_form=\"SPARSE\" max_map=3\n",
                "x map(i64[1] 2, str[1] \"1.5\")\n", "y f32[1x3] 0 0 1.5\n");
}
END_TEST

Suite *suite_compiler_lower_ml(void);
Suite *suite_compiler_lower_ml(void)
{
    Suite *s = suite_create("compiler/lower_ml");
    TCase *t = tcase_create("all");
    tcase_add_test(t, features);
    tcase_add_test(t, lookups);
    tcase_add_test(t, linear_models);
    tcase_add_test(t, support_vector_machines);
    tcase_add_test(t, trees);
    tcase_add_test(t, trees_by_position);
    tcase_add_test(t, maps);
    suite_add_tcase(s, t);
    return s;
}

/* Forests of decision trees on their way from attributes to the tables of TreeEnsemble. */
#ifndef XCVM_COMPILER_IMPORT_ONNX_ML_TREES_H
#define XCVM_COMPILER_IMPORT_ONNX_ML_TREES_H

#include "compiler/import_onnx/ml/ml.h"

/* In the order of version 5's numbers. */
typedef enum xcc_tree_mode {
    XCC_TREE_LEQ,
    XCC_TREE_LT,
    XCC_TREE_GTE,
    XCC_TREE_GT,
    XCC_TREE_EQ,
    XCC_TREE_NEQ,
    XCC_TREE_MEMBER
} xcc_tree_mode;

typedef struct xcc_tree_node {
    int64_t feature;
    xcc_tree_mode mode;
    bool missing_true; /* NaN counts as true */
    double split;
    const double *members; /* XCC_TREE_MEMBER: the values that are true */
    size_t member_count;
    int64_t yes, no; /* a node, or below 0 the leaf -1 - yes */
} xcc_tree_node;

typedef struct xcc_forest {
    xcc_tree_node *nodes;
    size_t node_count;
    int64_t *roots; /* as the children of nodes */
    size_t root_count;
    int32_t *leaf_starts; /* leaf_count + 1 */
    size_t leaf_count;
    int32_t *leaf_targets; /* weight_count, below `targets`; as are leaf_weights */
    const double *leaf_weights;
    size_t weight_count;
    int64_t targets;
    int aggregate_function; /* XCVM_AGGREGATE_... */
} xcc_forest;

/* Emits the forest over the matrix x, of f32 or f64. */
xcvm_status xcc_forest_emit(xcc_lowering *n, const xcc_forest *forest, xcc_value *x, xcc_value **y);
/* Reads a list of floats, or since version 3 the tensor that may replace it. */
xcvm_status xcc_ml_reals(xcc_lowering *n, const char *name, const char *as_tensor, xcvm_floats *numbers);

#endif

/* Helpers for the lowerings of ai.onnx.ml. */
#ifndef XCVM_COMPILER_IMPORT_ONNX_ML_ML_H
#define XCVM_COMPILER_IMPORT_ONNX_ML_ML_H

#include "compiler/import_onnx/lower/lower.h"

/* A constant of numbers, as f32, f64 or another real type, of shape [rows, columns], or [columns] if rows is 0. */
xcc_value *xcc_ml_numbers(xcc_lowering *n, xcvm_dtype dtype, size_t rows, size_t columns, const double *numbers);
/* Returns x as a matrix of that type; rank 1 is one row. Fails unless the rank is 1 or 2, or unknown, which is treated
 * as 2. */
xcvm_status xcc_ml_matrix(xcc_lowering *n, xcc_value *x, xcvm_dtype dtype, xcc_value **matrix);
/* The labels of classes from two attributes, exactly one of which must be present: a constant of rank 1. */
xcvm_status xcc_ml_labels(xcc_lowering *n, const char *ints, const char *strings, xcc_value **labels, size_t *count);
/* Result 0 of a classifier: the labels at indices. */
xcvm_status xcc_ml_bind_labels(xcc_lowering *n, xcc_value *labels, xcc_value *indices);
/* The index of the greatest score in each row, the first of equals. */
xcc_value *xcc_ml_best(xcc_lowering *n, xcc_value *scores);
/* 1 where positive is true, else 0: indices of one of two classes, from a matrix of one column. */
xcc_value *xcc_ml_choice(xcc_lowering *n, xcc_value *positive);

typedef enum xcc_ml_transform {
    XCC_ML_NONE,
    XCC_ML_SOFTMAX,
    XCC_ML_LOGISTIC,
    XCC_ML_SOFTMAX_ZERO,
    XCC_ML_PROBIT
} xcc_ml_transform;

/* The attribute post_transform. */
xcvm_status xcc_ml_read_transform(xcc_lowering *n, xcc_ml_transform *transform);
xcc_value *xcc_ml_transformed(xcc_lowering *n, xcc_value *scores, xcc_ml_transform transform);
/* Two columns for the one score s of a model of two classes: the logistic function of -s and s if that is the
 * transform, else 1 - s and s, or -s and s if `mixed`, the score's weights being of both signs. PROBIT leaves one
 * column. */
xcc_value *xcc_ml_two_scores(xcc_lowering *n, xcc_value *score, bool mixed, xcc_ml_transform transform);

#endif

/* Matrix products with MatMul's broadcasting: which matrices of two tensors are multiplied. */
#ifndef XCVM_OPS_MATMUL_PRODUCT_SHAPE_H
#define XCVM_OPS_MATMUL_PRODUCT_SHAPE_H

#include "ops/elementwise/activation.h"
#include "ops/util/kernel.h"

/* `count` products of an m x k by a k x n matrix, with contiguous results. */
typedef struct xcvm_product {
    size_t m, n, k, count;
    int rank;                                  /* number of leading dimensions */
    size_t dims[XCVM_MAX_RANK];                /* their broadcast sizes */
    size_t a[XCVM_MAX_RANK], b[XCVM_MAX_RANK]; /* strides in matrices; 0 for a broadcast dimension */
} xcvm_product;

/* Both operands must have known, compatible dimensions. With `as_one`, if a single matrix b is used for all of a, the
 * rows of all matrices of a form one product. */
xcvm_product xcvm_product_of(const xcvm_value *a, const xcvm_value *b, bool as_one);
/* Returns the indices of the matrices of a and b that product `index` multiplies. */
void xcvm_product_at(const xcvm_product *p, size_t index, size_t *a, size_t *b);

/* Some rows of one product: y = a * b, or added to y, where a[i][p] is a[i * a_row + p * a_column], b likewise, and y
 * is contiguous. */
typedef struct xcvm_product_piece {
    const xcvm_kernel *kernel; /* for polling */
    size_t m, n, k;
    const void *a, *b;
    size_t a_row, a_column, b_row, b_column;
    void *y;
    bool add;
    bool few_rows; /* of the whole product, so that the partition does not affect results */
} xcvm_product_piece;

/* For f64, and integers modulo their width (f16 and bf16 use f32). The result does not depend on m. */
#define xcvm_product_multiply XCVM_PER_ISA(xcvm_product_multiply)
xcvm_status xcvm_product_multiply(xcvm_dtype dtype, const xcvm_product_piece *piece);

/* All products of a task, computed in pieces by `multiply`. The matrices are row-major; transposed operands have rows
 * and columns swapped. */
typedef struct xcvm_product_task {
    xcvm_product shape;
    xcvm_dtype dtype;
    xcvm_status (*multiply)(xcvm_dtype dtype, const xcvm_product_piece *piece);
    const void *a, *b;
    void *y;
    bool transpose_a, transpose_b, add;
} xcvm_product_task;
xcvm_status xcvm_product_run(const xcvm_kernel *k, const xcvm_product_task *task);

#endif

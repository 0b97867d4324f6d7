/* Matrix products as MatMul defines them: which matrices of two tensors meet. */
#ifndef XCVM_OPS_MATMUL_PRODUCT_SHAPE_H
#define XCVM_OPS_MATMUL_PRODUCT_SHAPE_H

#include "ops/elementwise/activation.h"
#include "ops/util/kernel.h"

/* `count` products of an m x k with a k x n matrix, whose results lie one behind the other. */
typedef struct xcvm_product {
    size_t m, n, k, count;
    int rank;                                  /* of the leading dimensions */
    size_t dims[XCVM_MAX_RANK];                /* their broadcast sizes */
    size_t a[XCVM_MAX_RANK], b[XCVM_MAX_RANK]; /* matrices from one entry to the next, 0 where one is broadcast */
} xcvm_product;

/* Both operands have known dimensions that fit each other. Where one matrix b serves all of a, their rows become
 * those of one product, if `as_one`. */
xcvm_product xcvm_product_of(const xcvm_value *a, const xcvm_value *b, bool as_one);
/* The matrices of a and b that product `index` multiplies. */
void xcvm_product_at(const xcvm_product *p, size_t index, size_t *a, size_t *b);

/* Some rows of one product: y = a * b, or added to y, where a[i][p] is a[i * a_row + p * a_column], b likewise, and y
 * has no gaps. */
typedef struct xcvm_product_piece {
    const xcvm_kernel *kernel; /* whose deadline is looked at */
    size_t m, n, k;
    const void *a, *b;
    size_t a_row, a_column, b_row, b_column;
    void *y;
    bool add;
    bool few_rows; /* of all the product, so that how it was cut changes no bits */
} xcvm_product_piece;

/* For the element types other than f32, of which f16 and bf16 are left to it: f64, and integers modulo their width. The
 * bits do not depend on m. */
#define xcvm_product_multiply XCVM_PER_ISA(xcvm_product_multiply)
xcvm_status xcvm_product_multiply(xcvm_dtype dtype, const xcvm_product_piece *piece);

/* All products of a task by `multiply`, in pieces. The matrices are row-major; a and b, transposed, have their rows and
 * columns exchanged. */
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

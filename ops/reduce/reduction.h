/* Reductions over any axes of a tensor. */
#ifndef XCVM_OPS_REDUCE_REDUCTION_H
#define XCVM_OPS_REDUCE_REDUCTION_H

#include "ops/util/kernel.h"

/* Combining operation of a reduction. */
typedef enum xcvm_reduce_op {
    XCVM_REDUCE_SUM,
    XCVM_REDUCE_SUM_SQUARE,
    XCVM_REDUCE_SUM_ABS,
    XCVM_REDUCE_SUM_EXP, /* sum of exp(element - shift); floating point only */
    XCVM_REDUCE_MAX,     /* NaN if there is one */
    XCVM_REDUCE_MIN,
    XCVM_REDUCE_PROD
} xcvm_reduce_op;

/* An intermediate value: f for floating point, i for integers, where sums and products wrap and the highest bit of u64
 * is inverted for comparisons. */
typedef union xcvm_partial {
    double f;
    int64_t i;
} xcvm_partial;

/* Loops for elements of one kind. `first` is an element index of `data`. */
typedef struct xcvm_reduce_loops {
    /* *acc = reduction(*acc, elements [first, first + count)). */
    void (*run)(xcvm_reduce_op reduce_op, xcvm_dtype dtype, const void *data, size_t first, size_t count, double shift,
                xcvm_partial *acc);
    /* acc[i] = reduction(acc[i], elements first + i, first + i + stride ...) for `rows` rows of `count` <=
     * XCVM_REDUCE_COLUMNS columns, with shift[i]. */
    void (*columns)(xcvm_reduce_op reduce_op, xcvm_dtype dtype, const void *data, size_t first, size_t rows,
                    size_t stride, size_t count, const double *shift, xcvm_partial *acc);
    /* The first loop for `count` adjacent lines of `length` <= XCVM_REDUCE_LINE elements, with one acc and shift each.
     * The result of a line does not depend on the others. */
    void (*lines)(xcvm_reduce_op reduce_op, xcvm_dtype dtype, const void *data, size_t first, size_t count,
                  size_t length, const double *shift, xcvm_partial *acc);
} xcvm_reduce_loops;

enum { XCVM_REDUCE_COLUMNS = 256, XCVM_REDUCE_LINE = 256 };

/* The loops of one instruction set. */
typedef struct xcvm_reduce_set {
    const xcvm_reduce_loops *narrow; /* for f32, f16 and bf16 */
    const xcvm_reduce_loops *f64;    /* for f64 and types computed in it */
    const xcvm_reduce_loops *whole;  /* for integers and bool */
} xcvm_reduce_set;

/* The kernel of a reduction. The order of combination depends only on shapes, so results do not depend on the number of
 * threads. */
xcvm_status xcvm_reduce(xcvm_kernel *k, xcvm_opcode opcode, const xcvm_reduce_set *set, xcvm_value *y,
                        const xcvm_value *x, const xcvm_value *axes, bool noop_with_empty_axes);

/* Returns the reduced axes of `rank` in *mask, bit i for axis i: all if `axes` is absent or empty, unless `noop`. */
xcvm_status xcvm_reduction_axes(xcvm_error *error, const xcvm_value *axes, bool noop, int rank, uint32_t *mask,
                                bool *known);

#endif

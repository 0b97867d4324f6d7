/* Index arithmetic of gathering and scattering. */
#ifndef XCVM_OPS_DATA_GATHER_H
#define XCVM_OPS_DATA_GATHER_H

#include "ops/util/index.h"
#include "ops/util/strided.h"

/* Elements of x, one per element of indices: at the same position, except that the index replaces the position on
 * `axis`. */
typedef struct xcvm_elementwise {
    const xcvm_value *x, *indices;
    int axis;
    xcvm_strided rows;        /* all axes of indices but the last, with x's strides; 0 on the axis */
    size_t columns;           /* size of the last axis of indices */
    ptrdiff_t stride, column; /* stride of the axis; stride of the last axis, 0 if it is the axis */
} xcvm_elementwise;

/* `indices` has x's rank, at least 1. `axis` may be negative. Nothing is checked. */
xcvm_elementwise xcvm_elementwise_of(const xcvm_value *x, const xcvm_value *indices, int64_t axis);
/* Checks known ranks and dimensions. */
xcvm_status xcvm_check_elementwise_indices(xcvm_error *error, const xcvm_value *x, const xcvm_value *indices,
                                           int64_t axis);
/* Slices of x at index tuples, which are the last dimension of `indices`, within batches. */
typedef struct xcvm_tuples {
    const xcvm_value *x, *indices;
    int batch, length;            /* common leading dimensions; indices of a tuple */
    size_t count, batches;        /* tuples; batch entries */
    size_t slice, batch_elements; /* elements of x in a slice, and in a batch entry */
} xcvm_tuples;

/* The operands must satisfy the shape rule. */
xcvm_tuples xcvm_tuples_of(const xcvm_value *x, const xcvm_value *indices, int batch);
/* Checks that updates has a slice of x for each tuple. All dimensions are known. */
xcvm_status xcvm_check_scattered_slices(xcvm_error *error, const xcvm_ScatterND_args *a);
/* Fails with OUT_OF_RANGE unless all indices are in range. */
xcvm_status xcvm_tuples_check(xcvm_kernel *k, const xcvm_tuples *u);
/* Computes the offsets of the first elements of the slices of tuples [first, first + count). */
void xcvm_tuples_offsets(const xcvm_tuples *u, size_t first, size_t count, ptrdiff_t *offsets);

#endif

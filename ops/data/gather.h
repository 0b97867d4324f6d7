/* Where indices point: shared by gathering and scattering. */
#ifndef XCVM_OPS_DATA_GATHER_H
#define XCVM_OPS_DATA_GATHER_H

#include "ops/util/index.h"
#include "ops/util/strided.h"

/* Elements of x, one for each of indices: where indices stand, but at their value along axis. */
typedef struct xcvm_elementwise {
    const xcvm_value *x, *indices;
    int axis;
    xcvm_strided rows;        /* the axes of indices but the last, with x's strides, 0 along the axis */
    size_t columns;           /* the last axis of indices */
    ptrdiff_t stride, column; /* of the axis, and of the last one but where it is the axis */
} xcvm_elementwise;

/* `indices` has x's rank, at least 1; `axis` may count from the end. Nothing is checked. */
xcvm_elementwise xcvm_elementwise_of(const xcvm_value *x, const xcvm_value *indices, int64_t axis);
/* Checks ranks and dimensions as far as they are known. */
xcvm_status xcvm_check_elementwise_indices(xcvm_error *error, const xcvm_value *x, const xcvm_value *indices,
                                           int64_t axis);
/* Slices of x at tuples of indices, the last dimension of `indices`, within batches. */
typedef struct xcvm_tuples {
    const xcvm_value *x, *indices;
    int batch, length;            /* leading dimensions in common; indices of a tuple */
    size_t count, batches;        /* tuples; batch entries */
    size_t slice, batch_elements; /* elements of x in a slice, and in a batch entry */
} xcvm_tuples;

/* Of operands that the shape rule has taken. */
xcvm_tuples xcvm_tuples_of(const xcvm_value *x, const xcvm_value *indices, int batch);
/* Checks that the updates hold a slice of x for each tuple. All dimensions are known. */
xcvm_status xcvm_check_scattered_slices(xcvm_error *error, const xcvm_ScatterND_args *a);
/* Whether all indices are in x's range; else OUT_OF_RANGE. */
xcvm_status xcvm_tuples_check(xcvm_kernel *k, const xcvm_tuples *u);
/* The first elements of x in the slices of tuples [first, first + count). */
void xcvm_tuples_offsets(const xcvm_tuples *u, size_t first, size_t count, ptrdiff_t *offsets);

#endif

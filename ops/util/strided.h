/* Copies between strided layouts: the core of Transpose, Slice, Expand, Tile, Concat and Split. */
#ifndef XCVM_OPS_UTIL_STRIDED_H
#define XCVM_OPS_UTIL_STRIDED_H

#include "ops/util/kernel.h"

enum { XCVM_STRIDED_RANK = 2 * XCVM_MAX_RANK };

/* A block of elements in row-major order. Strides count elements; in `from` they may be 0 or negative. */
typedef struct xcvm_strided {
    int rank;
    size_t dims[XCVM_STRIDED_RANK];
    ptrdiff_t to[XCVM_STRIDED_RANK], from[XCVM_STRIDED_RANK];
} xcvm_strided;

/* Appends an axis. */
static inline void xcvm_strided_axis(xcvm_strided *s, size_t dim, ptrdiff_t to, ptrdiff_t from)
{
    s->dims[s->rank] = dim;
    s->to[s->rank] = to;
    s->from[s->rank++] = from;
}
/* Position of an iteration over a block: an index per axis, and the offsets. */
typedef struct xcvm_position {
    size_t index[XCVM_STRIDED_RANK];
    ptrdiff_t to, from;
} xcvm_position;

/* Position of element `unit` in row-major order; no dimension is 0. */
xcvm_position xcvm_position_at(const xcvm_strided *s, size_t unit);
/* Advances to the next position; the last is followed by the first. */
static inline void xcvm_position_advance(const xcvm_strided *s, xcvm_position *p)
{
    for (int i = s->rank - 1; i >= 0; i--) {
        p->to += s->to[i];
        p->from += s->from[i];
        if (++p->index[i] < s->dims[i])
            return;
        p->to -= (ptrdiff_t)s->dims[i] * s->to[i];
        p->from -= (ptrdiff_t)s->dims[i] * s->from[i];
        p->index[i] = 0;
    }
}
/* Computes row-major strides of a shape. */
void xcvm_row_major(int rank, const int64_t *dims, ptrdiff_t strides[XCVM_MAX_RANK]);
/* Copies elements of `size` (1, 2, 4, 8 or 16) bytes. `to` and `from` point to the element of index 0. The blocks must
 * not overlap. Fails as xcvm_kernel_poll does. */
xcvm_status xcvm_strided_copy(const xcvm_kernel *k, const xcvm_strided *s, size_t size, void *to, const void *from);
/* Writes `rows` rows of `columns` elements, `to_stride` apart. Row i consists of element i of each column of `from`,
 * `from_stride` apart. Returns false, without writing, if the panel is not supported. */
typedef bool (*xcvm_strided_panel)(void *to, ptrdiff_t to_stride, const void *from, ptrdiff_t from_stride, size_t rows,
                                   size_t columns);
/* The same with an optional faster function for panels of four-byte elements. */
xcvm_status xcvm_strided_copy_by(const xcvm_kernel *k, const xcvm_strided *s, size_t size, void *to, const void *from,
                                 xcvm_strided_panel panel);

#endif

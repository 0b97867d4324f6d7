/* Transpose: panels of 4-byte elements as squares of vectors. ops/util/strided.c handles all other cases. */
#include "ops/data/transpose.h"
#include "ops/util/move.h"
#include "ops/simd/lanes.h"
#include "ops/util/strided.h"

/* Rows whose elements alternate in `from`; inlined for a constant number of them. */
XCVM_INLINE void split_rows(float *restrict to, ptrdiff_t to_stride, const float *restrict from, size_t rows,
                            size_t columns)
{
    for (size_t j = 0; j < columns; j++)
        for (size_t i = 0; i < rows; i++)
            to[(ptrdiff_t)i * to_stride + (ptrdiff_t)j] = from[j * rows + i];
}

static void split_three(float *restrict a, float *restrict b, float *restrict c, const float *restrict from,
                        size_t columns)
{
    for (size_t j = 0; j < columns; j++) {
        a[j] = from[3 * j];
        b[j] = from[3 * j + 1];
        c[j] = from[3 * j + 2];
    }
}

static void split_four(float *to, ptrdiff_t to_stride, const float *from, size_t columns)
{
    size_t j = 0;
    /* Selects every second element, twice. */
    for (; j + XCVM_LANES <= columns; j += XCVM_LANES) {
        xcvm_lanes v[4];
        for (size_t i = 0; i < 4; i++)
            v[i] = xcvm_lanes_load(from + 4 * j + i * XCVM_LANES);
        const xcvm_lanes even[2] = {xcvm_lanes_even(v[0], v[1]), xcvm_lanes_even(v[2], v[3])};
        const xcvm_lanes odd[2] = {xcvm_lanes_odd(v[0], v[1]), xcvm_lanes_odd(v[2], v[3])};
        xcvm_lanes_store(to + j, xcvm_lanes_even(even[0], even[1]));
        xcvm_lanes_store(to + to_stride + (ptrdiff_t)j, xcvm_lanes_even(odd[0], odd[1]));
        xcvm_lanes_store(to + 2 * to_stride + (ptrdiff_t)j, xcvm_lanes_odd(even[0], even[1]));
        xcvm_lanes_store(to + 3 * to_stride + (ptrdiff_t)j, xcvm_lanes_odd(odd[0], odd[1]));
    }
    split_rows(to + j, to_stride, from + 4 * j, 4, columns - j);
}

static void turn_square(float *to, ptrdiff_t to_stride, const float *from, ptrdiff_t from_stride)
{
    xcvm_lanes square[XCVM_LANES];
    for (int i = 0; i < XCVM_LANES; i++)
        square[i] = xcvm_lanes_load(from + i * from_stride);
    xcvm_lanes_transpose(square);
    for (int i = 0; i < XCVM_LANES; i++)
        xcvm_lanes_store(to + i * to_stride, square[i]);
}

static bool copy_panel(void *to_elements, ptrdiff_t to_stride, const void *from_elements, ptrdiff_t from_stride,
                       size_t rows, size_t columns)
{
    float *to = to_elements;
    const float *from = from_elements;
    if (rows == 3 && from_stride == 3) {
        split_three(to, to + to_stride, to + 2 * to_stride, from, columns);
        return true;
    }
    if (rows == 4 && from_stride == 4) {
        split_four(to, to_stride, from, columns);
        return true;
    }
    if (rows % XCVM_LANES != 0 || columns % XCVM_LANES != 0)
        return false;
    for (size_t j = 0; j < columns; j += XCVM_LANES)
        for (size_t i = 0; i < rows; i += XCVM_LANES)
            turn_square(to + (ptrdiff_t)i * to_stride + (ptrdiff_t)j, to_stride,
                        from + (ptrdiff_t)j * from_stride + (ptrdiff_t)i, from_stride);
    return true;
}

/* Interleaves three byte planes, as in channels-last images: `inner` positions in each of several triples of planes. */
typedef struct planes {
    const uint8_t *from;
    uint8_t *to;
    size_t inner;
} planes;

static void join_three(uint8_t *restrict to, const uint8_t *restrict a, const uint8_t *restrict b,
                       const uint8_t *restrict c, size_t count)
{
    for (size_t j = 0; j < count; j++) {
        to[3 * j] = a[j];
        to[3 * j + 1] = b[j];
        to[3 * j + 2] = c[j];
    }
}

static void join_planes(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const planes *t = context;
    for (size_t at = begin, count; at < end; at += count) {
        const size_t outer = at / t->inner, inner = at % t->inner;
        const uint8_t *from = t->from + 3 * outer * t->inner + inner;
        count = xcvm_min(end - at, t->inner - inner);
        join_three(t->to + 3 * at, from, from + t->inner, from + 2 * t->inner, count);
    }
}

/* Returns true if an axis of size 3 becomes the last one and the others keep their order. */
static bool joins_three(const xcvm_Transpose_args *a, int rank, size_t *inner)
{
    const int axis = rank > 1 ? xcvm_transposed_axis(a, rank, rank - 1) : rank - 1;
    bool joins = axis < rank - 1 && a->x->dims[axis] == 3;
    *inner = 1;
    for (int i = 0; joins && i < rank - 1; i++)
        joins = xcvm_transposed_axis(a, rank, i) == i + (i >= axis);
    for (int i = axis + 1; joins && i < rank; i++)
        *inner *= (size_t)a->x->dims[i];
    return joins && *inner != 0;
}

static xcvm_status transpose(const xcvm_moving *m, const void *context)
{
    const xcvm_Transpose_args *a = context;
    int rank = a->x->rank;
    ptrdiff_t from[XCVM_MAX_RANK], to[XCVM_MAX_RANK];
    size_t inner;
    if (m->size == 1 && joins_three(a, rank, &inner)) {
        planes t = {m->from[0], m->to[0], inner};
        return xcvm_kernel_parallel(m->k, xcvm_element_count(a->x) / 3, 1 << 14, join_planes, &t);
    }
    xcvm_row_major(rank, a->x->dims, from);
    xcvm_row_major(rank, a->y->dims, to);
    xcvm_strided s = {.rank = 0};
    for (int i = 0; i < rank; i++)
        xcvm_strided_axis(&s, (size_t)a->y->dims[i], to[i], from[xcvm_transposed_axis(a, rank, i)]);
    return xcvm_strided_copy_by(m->k, &s, m->size, m->to[0], m->from[0], copy_panel);
}

XCVM_KERNEL(Transpose) { return xcvm_move_one(k, a->x, a->y, transpose, a); }

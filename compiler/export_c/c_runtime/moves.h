/* Moving elements about. */
#ifndef XC_MOVES_H
#define XC_MOVES_H

#include "compiler/export_c/c_runtime/numbers.h"

/* One element. */
static inline void xc_copy_element(unsigned char *to, const unsigned char *from, size_t size)
{
    if (size == 4)
        memcpy(to, from, 4);
    else if (size == 8)
        memcpy(to, from, 8);
    else if (size == 1)
        *to = *from;
    else
        memcpy(to, from, size);
}

/* Elements of `size` bytes over `rank` axes, outermost first, each with its count and the bytes from one to the next in
 * `to` and in `from`: axes[3 * i ...]. */
static void xc_copy_axes(void *to, const void *from, size_t size, int rank, const int64_t *axes)
{
    const int64_t count = axes[0], to_step = axes[1], from_step = axes[2];
    unsigned char *y = to;
    const unsigned char *x = from;
    if (rank == 1 && to_step == (int64_t)size && from_step == (int64_t)size) {
        if (count > 0)
            memcpy(y, x, (size_t)count * size);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        if (rank == 1)
            xc_copy_element(y + i * to_step, x + i * from_step, size);
        else
            xc_copy_axes(y + i * to_step, x + i * from_step, size, rank - 1, axes + 3);
    }
}

/* For each axis of `to`, `places` has the offset in `from` of each element of the axis. A negative offset selects
 * `fill`. */
static unsigned char *xc_copy_places(unsigned char *to, const unsigned char *from, int outside, size_t size, int rank,
                                     const int64_t *dims, const int64_t *places, const void *fill)
{
    for (int64_t i = 0; i < dims[0]; i++) {
        const int out = outside || places[i] < 0;
        const unsigned char *x = out ? from : from + places[i] * (int64_t)size;
        if (rank > 1) {
            to = xc_copy_places(to, x, out, size, rank - 1, dims + 1, places + dims[0], fill);
        } else {
            xc_copy_element(to, out ? fill : x, size);
            to += size;
        }
    }
    return to;
}

/* ---- Indices: 1 is returned where one is out of range. ---- */

static int xc_gather_value(const void *x, const value_t *indices, void *y, size_t outer, int64_t axis, size_t count,
                           size_t inner)
{
    const unsigned char *from = x;
    unsigned char *to = y;
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < count; i++, to += inner) {
            const int64_t at = (int64_t)indices[i] < 0 ? (int64_t)indices[i] + axis : (int64_t)indices[i];
            if (at < 0 || at >= axis)
                return 1;
            memcpy(to, from + (o * (size_t)axis + (size_t)at) * inner, inner);
        }
    return 0;
}

/* The element that an index along an axis of `length` names, for the other axes at `place`, which then moves on to the
 * next of all places of dims. -1 where it is out of range. */
static int64_t xc_indexed_element(int64_t index, int64_t *place, int rank, const int64_t *dims, const int64_t *steps,
                                  int axis, int64_t length)
{
    int64_t at = 0;
    index += index < 0 ? length : 0;
    if (index < 0 || index >= length)
        return -1;
    for (int k = 0; k < rank; k++)
        at += (k == axis ? index : place[k]) * steps[k];
    for (int k = rank; k-- > 0;) {
        if (++place[k] < dims[k])
            break;
        place[k] = 0;
    }
    return at;
}

/* Element i of indices, which have the shape dims, selects the position along axis. steps are the strides of x in
 * elements. */
static int xc_gather_elements_value(const void *x, const value_t *indices, void *y, size_t size, int rank,
                                    const int64_t *dims, const int64_t *steps, int axis, int64_t length)
{
    int64_t place[8] = {0};
    size_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= (size_t)dims[i];
    for (size_t i = 0; i < count; i++) {
        const int64_t at = xc_indexed_element((int64_t)indices[i], place, rank, dims, steps, axis, length);
        if (at < 0)
            return 1;
        xc_copy_element((unsigned char *)y + i * size, (const unsigned char *)x + (size_t)at * size, size);
    }
    return 0;
}

/* Elements of y combined with as many of x. NaN wins. */
static void xc_combine_add_value(void *y, const void *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ((value_t *)y)[i] = xc_multiply_add_value(((value_t *)y)[i], ((const value_t *)x)[i], 1);
}
static void xc_combine_mul_value(void *y, const void *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ((value_t *)y)[i] = xc_multiply_add_value(0, ((value_t *)y)[i], ((const value_t *)x)[i]);
}
static void xc_combine_max_value(void *y, const void *x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const value_t u = ((value_t *)y)[i], v = ((const value_t *)x)[i];
        ((value_t *)y)[i] = u > v || xc_is_nan_value(u) ? u : v;
    }
}
static void xc_combine_min_value(void *y, const void *x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const value_t u = ((value_t *)y)[i], v = ((const value_t *)x)[i];
        ((value_t *)y)[i] = u < v || xc_is_nan_value(u) ? u : v;
    }
}

/* Updates replace the existing elements. If `combine` is not NULL, they are combined with them. */
static int xc_scatter_elements_value(const value_t *indices, const void *updates, void *y, size_t size, int rank,
                                     const int64_t *dims, const int64_t *steps, int axis, int64_t length,
                                     void (*combine)(void *y, const void *x, size_t count))
{
    int64_t place[8] = {0};
    size_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= (size_t)dims[i];
    for (size_t i = 0; i < count; i++) {
        const int64_t at = xc_indexed_element((int64_t)indices[i], place, rank, dims, steps, axis, length);
        if (at < 0)
            return 1;
        if (combine != NULL)
            combine((unsigned char *)y + (size_t)at * size, (const unsigned char *)updates + i * size, 1);
        else
            xc_copy_element((unsigned char *)y + (size_t)at * size, (const unsigned char *)updates + i * size, size);
    }
    return 0;
}

/* The same for a flat y, whose indices are element offsets. */
static int xc_scatter_add_value(const int64_t *indices, const value_t *updates, value_t *y, size_t count,
                                int64_t length)
{
    for (size_t i = 0; i < count; i++) {
        const int64_t at = indices[i] < 0 ? indices[i] + length : indices[i];
        if (at < 0 || at >= length)
            return 1;
        y[at] = xc_multiply_add_value(y[at], updates[i], 1);
    }
    return 0;
}

/* Tuples of `depth` indices into the first axes, of `dims`, of each of `batches` parts of x of `part` bytes; each names
 * a slice of `inner` bytes. With `scatter`, slices go from `from` to their places in `to`, or, with `combine`, are
 * combined with the `elements` there. */
static int xc_gather_tuples(const unsigned char *from, const int64_t *indices, unsigned char *to, size_t batches,
                            size_t tuples, size_t depth, const int64_t *dims, size_t part, size_t inner, int scatter,
                            void (*combine)(void *y, const void *x, size_t count), size_t elements)
{
    for (size_t b = 0; b < batches; b++)
        for (size_t t = 0; t < tuples; t++, indices += depth) {
            size_t at = 0;
            for (size_t k = 0; k < depth; k++) {
                const int64_t index = indices[k] < 0 ? indices[k] + dims[k] : indices[k];
                if (index < 0 || index >= dims[k])
                    return 1;
                at = at * (size_t)dims[k] + (size_t)index;
            }
            if (combine != NULL)
                combine(to + b * part + at * inner, from + (b * tuples + t) * inner, elements);
            else if (scatter)
                memcpy(to + b * part + at * inner, from + (b * tuples + t) * inner, inner);
            else
                memcpy(to + (b * tuples + t) * inner, from + b * part + at * inner, inner);
        }
    return 0;
}

/* The second of `values` if the position on the axis equals the index, else the first. */
static void xc_one_hot_value(const value_t *indices, void *y, size_t outer, int64_t depth, size_t inner, size_t size,
                             const void *values)
{
    unsigned char *to = y;
    for (size_t o = 0; o < outer; o++)
        for (int64_t d = 0; d < depth; d++)
            for (size_t i = 0; i < inner; i++, to += size) {
                const int64_t given = (int64_t)indices[o * inner + i];
                const int64_t index = given < 0 ? given + depth : given;
                memcpy(to, (const unsigned char *)values + (index == d ? size : 0), size);
            }
}

/* The triangles of matrices from diagonal k on, zero elsewhere. */
static void xc_triangle(const void *x, void *y, size_t matrices, int64_t rows, int64_t columns, size_t size, int64_t k,
                        int upper)
{
    const unsigned char *from = x;
    unsigned char *to = y;
    for (size_t m = 0; m < matrices; m++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++, from += size, to += size) {
                if (upper ? j - i >= k : j - i <= k)
                    memmove(to, from, size);
                else
                    memset(to, 0, size);
            }
}

/* The first lengths[b] of `time` steps of batch entry b in reverse order; batch and time are the first two axes. */
static int xc_reverse_sequences(const unsigned char *x, const int64_t *lengths, unsigned char *y, int64_t batch,
                                int64_t time, int time_first, size_t inner)
{
    for (int64_t b = 0; b < batch; b++) {
        if (lengths[b] < 0 || lengths[b] > time)
            return 1;
        for (int64_t t = 0; t < time; t++) {
            const int64_t s = t < lengths[b] ? lengths[b] - 1 - t : t;
            const int64_t to = time_first ? t * batch + b : b * time + t,
                          from = time_first ? s * batch + b : b * time + s;
            memcpy(y + (size_t)to * inner, x + (size_t)from * inner, inner);
        }
    }
    return 0;
}

#endif

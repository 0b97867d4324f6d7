/* Instructions that move elements, as C: copies over axes whose counts and steps are known. */
#include "compiler/export_c/export_c.h"

#include <string.h>

/* ---- Copies ---- */

/* An axis that continues where the axis inside it ends is merged with it. */
void xcc_c_add_axis(xcc_c_axes *axes, int64_t count, int64_t to, int64_t from)
{
    const int last = axes->rank - 1;
    if (count == 1)
        return;
    if (last >= 0 && axes->to[last] == to * count && axes->from[last] == from * count) {
        axes->counts[last] *= count;
        axes->to[last] = to;
        axes->from[last] = from;
        return;
    }
    axes->counts[axes->rank] = count;
    axes->to[axes->rank] = to;
    axes->from[axes->rank++] = from;
}

static bool is_empty(const xcc_c_axes *axes)
{
    for (int i = 0; i < axes->rank; i++)
        if (axes->counts[i] == 0)
            return true;
    return false;
}

void xcc_c_write_copy(xcc_c_export *x, const xcc_c_axes *axes, size_t size, const char *to, int64_t to_bytes,
                      const char *from, int64_t from_bytes)
{
    xcc_c_axes a = *axes;
    if (is_empty(&a))
        return;
    if (a.rank == 0) {
        a.rank = 1;
        a.counts[0] = 1;
        a.to[0] = a.from[0] = (int64_t)size;
    }
    const char *const y = to_bytes == 0 ? to : xcc_c_format(x, "(unsigned char *)(%s) + %lld", to, (long long)to_bytes);
    const char *const v =
        from_bytes == 0 ? from : xcc_c_format(x, "(const unsigned char *)(%s) + %lld", from, (long long)from_bytes);
    if (a.rank == 1 && a.to[0] == (int64_t)size && a.from[0] == (int64_t)size) {
        xcc_c_line(x, "        memcpy(%s, %s, %lld);\n", y, v, (long long)a.counts[0] * (long long)size);
        return;
    }
    int64_t numbers[6 * XCVM_MAX_RANK];
    for (int i = 0; i < a.rank; i++) {
        numbers[3 * i] = a.counts[i];
        numbers[3 * i + 1] = a.to[i];
        numbers[3 * i + 2] = a.from[i];
    }
    xcc_c_line(x, "        xc_copy_axes(%s, %s, %zu, %d, %s);\n", y, v, size, a.rank,
               xcc_c_table(x, "int64_t", numbers, (size_t)(3 * a.rank)));
}

static size_t size_of(const xcvm_value *v) { return xcvm_dtype_size((xcvm_dtype)v->dtype); }

static bool write_same(xcc_c_export *x, xcc_c_step *step)
{
    if (step->out[0]->bytes > 0)
        xcc_c_line(x, "        memcpy(%s, %s, %zu);\n", xcc_c_write(x, step->out[0]), xcc_c_read(x, step->in[0]),
                   step->out[0]->bytes);
    return true;
}

/* The bits of a boolean are one. */
static bool write_bits(xcc_c_export *x, xcc_c_step *step)
{
    if (xcc_c_is(step->out[0], XCVM_BOOL))
        return xcc_c_refuse(x, "C export does not support bits as bool");
    return write_same(x, step);
}

static bool write_transpose(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_Transpose_args *a = step->args;
    int64_t from[XCVM_MAX_RANK], to[XCVM_MAX_RANK];
    xcc_c_axes axes = {.rank = 0};
    xcc_c_strides(a->x, from);
    xcc_c_strides(a->y, to);
    for (int i = 0; i < a->y->rank; i++) {
        const int64_t axis = a->perm.count > 0 ? a->perm.at[i] : a->y->rank - 1 - i;
        xcc_c_add_axis(&axes, a->y->dims[i], to[i], from[axis]);
    }
    xcc_c_write_copy(x, &axes, size_of(a->y), xcc_c_write(x, a->y), 0, xcc_c_read(x, a->x), 0);
    return true;
}

/* A piece of one tensor that is the whole of the other, at `place` of an axis. */
static void write_piece(xcc_c_export *x, const xcvm_value *y, const xcvm_value *v, int axis, int64_t place, bool into)
{
    int64_t from[XCVM_MAX_RANK], to[XCVM_MAX_RANK];
    xcc_c_axes axes = {.rank = 0};
    if (v->bytes == 0 || y->bytes == 0)
        return;
    xcc_c_strides(v, from);
    xcc_c_strides(y, to);
    for (int i = 0; i < y->rank; i++)
        xcc_c_add_axis(&axes, into ? v->dims[i] : y->dims[i], to[i], from[i]);
    xcc_c_write_copy(x, &axes, size_of(y), xcc_c_write(x, y), into ? place * to[axis] : 0, xcc_c_read(x, v),
                     into ? 0 : place * from[axis]);
}

static bool write_concat(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_Concat_args *a = step->args;
    const int axis = xcc_c_axis(a->axis, a->y->rank);
    int64_t place = 0;
    for (size_t i = 0; i < a->xs.count; i++) {
        write_piece(x, a->y, a->xs.at[i], axis, place, true);
        place += a->xs.at[i]->dims[axis];
    }
    return true;
}

static bool write_split(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_Split_args *a = step->args;
    const int axis = xcc_c_axis(a->axis, a->x->rank);
    int64_t place = 0;
    for (size_t i = 0; i < a->ys.count; i++) {
        write_piece(x, a->ys.at[i], a->x, axis, place, false);
        place += a->ys.at[i]->dims[axis];
    }
    return true;
}

static bool write_slice(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_Slice_args *a = step->args;
    const int rank = a->x->rank;
    int64_t starts[XCVM_MAX_RANK], axes_of[XCVM_MAX_RANK], steps[XCVM_MAX_RANK], from[XCVM_MAX_RANK], to[XCVM_MAX_RANK];
    size_t count, axis_count, step_count;
    if (!xcc_c_ints(x, a->starts, "starts", starts, XCVM_MAX_RANK, &count) ||
        !xcc_c_ints(x, a->axes, "axes", axes_of, XCVM_MAX_RANK, &axis_count) ||
        !xcc_c_ints(x, a->steps, "steps", steps, XCVM_MAX_RANK, &step_count))
        return false;
    xcc_c_strides(a->x, from);
    xcc_c_strides(a->y, to);
    int64_t begin = 0;
    for (size_t i = 0; i < count; i++) {
        const int axis = a->axes != NULL ? xcc_c_axis(axes_of[i], rank) : (int)i;
        const int64_t size = a->x->dims[axis], by = a->steps != NULL ? steps[i] : 1;
        int64_t start = starts[i] < 0 ? starts[i] + size : starts[i];
        const int64_t last = by < 0 ? size - 1 : size;
        start = start < 0 ? 0 : start > last ? last : start;
        begin += start * from[axis];
        /* A step that is never taken may have any value. */
        from[axis] *= a->y->dims[axis] > 1 ? by : 0;
    }
    xcc_c_axes axes = {.rank = 0};
    for (int i = 0; i < rank; i++)
        xcc_c_add_axis(&axes, a->y->dims[i], to[i], from[i]);
    xcc_c_write_copy(x, &axes, size_of(a->y), xcc_c_write(x, a->y), 0, xcc_c_read(x, a->x), begin);
    return true;
}

static bool write_expand(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_value *v = step->in[0], *y = step->out[0];
    int64_t from[XCVM_MAX_RANK], to[XCVM_MAX_RANK];
    xcc_c_axes axes = {.rank = 0};
    xcc_c_strides(v, from);
    xcc_c_strides(y, to);
    for (int i = 0; i < y->rank; i++) {
        const int own = i - (y->rank - v->rank);
        xcc_c_add_axis(&axes, y->dims[i], to[i], own >= 0 && v->dims[own] != 1 ? from[own] : 0);
    }
    xcc_c_write_copy(x, &axes, size_of(y), xcc_c_write(x, y), 0, xcc_c_read(x, v), 0);
    return true;
}

static bool write_tile(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_value *v = step->in[0], *y = step->out[0];
    int64_t from[XCVM_MAX_RANK], to[XCVM_MAX_RANK];
    xcc_c_axes axes = {.rank = 0};
    xcc_c_strides(v, from);
    xcc_c_strides(y, to);
    for (int i = 0; i < y->rank; i++) {
        const int64_t repeats = v->dims[i] > 0 ? y->dims[i] / v->dims[i] : 0;
        xcc_c_add_axis(&axes, repeats, to[i] * v->dims[i], 0);
        xcc_c_add_axis(&axes, v->dims[i], to[i], from[i]);
    }
    xcc_c_write_copy(x, &axes, size_of(y), xcc_c_write(x, y), 0, xcc_c_read(x, v), 0);
    return true;
}

/* ---- Padding ---- */

/* The element of an axis at a position before, after or on it; -1: none. */
static int64_t source(int mode, int64_t at, int64_t size)
{
    if (at >= 0 && at < size)
        return at;
    switch (mode) {
    case XCVM_PAD_MODE_edge:
        return size == 0 ? -1 : at < 0 ? 0 : size - 1;
    case XCVM_PAD_MODE_wrap:
        return size == 0 ? -1 : (at % size + size) % size;
    case XCVM_PAD_MODE_reflect: {
        const int64_t period = size > 1 ? 2 * (size - 1) : 1;
        const int64_t place = size > 0 ? (at % period + period) % period : -1;
        return place < size ? place : period - place;
    }
    default:
        return -1;
    }
}

static bool write_pad(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_Pad_args *a = step->args;
    const int rank = a->y->rank;
    int64_t pads[2 * XCVM_MAX_RANK], axes_of[XCVM_MAX_RANK], before[XCVM_MAX_RANK] = {0}, from[XCVM_MAX_RANK];
    size_t count, axis_count, total = 0;
    if (!xcc_c_ints(x, a->pads, "pads", pads, 2 * XCVM_MAX_RANK, &count) ||
        !xcc_c_ints(x, a->axes, "axes", axes_of, XCVM_MAX_RANK, &axis_count))
        return false;
    if (rank == 0)
        return write_same(x, step);
    for (size_t i = 0; i < count / 2; i++)
        before[a->axes != NULL ? (size_t)xcc_c_axis(axes_of[i], rank) : i] = pads[i];
    for (int i = 0; i < rank; i++)
        total += (size_t)a->y->dims[i];
    int64_t *places = xcvm_arena_allocate(&x->arena, (total + 1) * sizeof *places);
    if (places == NULL) {
        x->body.failed = true;
        return false;
    }
    xcc_c_strides(a->x, from);
    for (int i = 0, at = 0; i < rank; i++)
        for (int64_t k = 0; k < a->y->dims[i]; k++, at++) {
            const int64_t place = source(a->mode, k - before[i], a->x->dims[i]);
            places[at] = place < 0 ? -1 : place * (from[i] / (int64_t)size_of(a->x));
        }
    const char *const dims = xcc_c_table(x, "int64_t", a->y->dims, (size_t)rank);
    xcc_c_line(x, "        static const unsigned char zero[8] = {0};\n        (void)zero;\n");
    xcc_c_line(x,
               "        xc_copy_places((unsigned char *)(%s), (const unsigned char *)(%s), 0, %zu, %d, %s, %s, %s);\n",
               xcc_c_write(x, a->y), xcc_c_read(x, a->x), size_of(a->x), rank, dims,
               xcc_c_table(x, "int64_t", places, total), a->value != NULL ? xcc_c_read(x, a->value) : "zero");
    return true;
}

/* ---- Blocks of pixels ---- */

static bool write_depth_to_space(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_DepthToSpace_args *a = step->args;
    const int64_t n = a->x->dims[0], c = a->y->dims[1], h = a->x->dims[2], w = a->x->dims[3], b = a->blocksize;
    const int64_t size = (int64_t)size_of(a->x), plane = h * w * size, row = w * b * size;
    const bool deep = a->mode == XCVM_DEPTH_MODE_DCR;
    xcc_c_axes axes = {.rank = 0};
    xcc_c_add_axis(&axes, n, c * h * b * row, a->x->dims[1] * plane);
    xcc_c_add_axis(&axes, c, h * b * row, deep ? plane : b * b * plane);
    xcc_c_add_axis(&axes, h, b * row, w * size);
    xcc_c_add_axis(&axes, b, row, deep ? b * c * plane : b * plane);
    xcc_c_add_axis(&axes, w, b * size, size);
    xcc_c_add_axis(&axes, b, size, deep ? c * plane : plane);
    xcc_c_write_copy(x, &axes, (size_t)size, xcc_c_write(x, a->y), 0, xcc_c_read(x, a->x), 0);
    return true;
}

static bool write_space_to_depth(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_SpaceToDepth_args *a = step->args;
    const int64_t n = a->x->dims[0], c = a->x->dims[1], h = a->y->dims[2], w = a->y->dims[3], b = a->blocksize;
    const int64_t size = (int64_t)size_of(a->x), plane = h * w * size, row = w * b * size;
    xcc_c_axes axes = {.rank = 0};
    xcc_c_add_axis(&axes, n, a->y->dims[1] * plane, c * h * b * row);
    xcc_c_add_axis(&axes, b, b * c * plane, row);
    xcc_c_add_axis(&axes, b, c * plane, size);
    xcc_c_add_axis(&axes, c, plane, h * b * row);
    xcc_c_add_axis(&axes, h, w * size, b * row);
    xcc_c_add_axis(&axes, w, size, b * size);
    xcc_c_write_copy(x, &axes, (size_t)size, xcc_c_write(x, a->y), 0, xcc_c_read(x, a->x), 0);
    return true;
}

/* ---- What follows from shapes ---- */

static bool write_ints(xcc_c_export *x, const xcvm_value *y, const int64_t *ints, size_t count)
{
    if (count > 0)
        xcc_c_line(x, "        memcpy(%s, %s, %zu);\n", xcc_c_write(x, y), xcc_c_table(x, "int64_t", ints, count),
                   count * sizeof *ints);
    return true;
}

static bool write_shape(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_Shape_args *a = step->args;
    const int64_t rank = a->x->rank;
    int64_t start = a->start < 0 ? a->start + rank : a->start;
    start = start < 0 ? 0 : start > rank ? rank : start;
    return write_ints(x, a->y, a->x->dims + start, (size_t)a->y->dims[0]);
}

static bool write_size(xcc_c_export *x, xcc_c_step *step)
{
    const int64_t count = (int64_t)xcvm_element_count(step->in[0]);
    return write_ints(x, step->out[0], &count, 1);
}

static bool write_range(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_value *y = step->out[0];
    xcc_c_line(x,
               "        %s *const y = %s;\n        for (size_t i = 0; i < %zu; i++)\n"
               "            y[i] = (%s)((%s)[0] + (%s)i * (%s)[0]);\n",
               xcc_c_type((xcvm_dtype)y->dtype), xcc_c_write(x, y), xcvm_element_count(y),
               xcc_c_type((xcvm_dtype)y->dtype), xcc_c_read(x, step->in[0]), xcc_c_type((xcvm_dtype)y->dtype),
               xcc_c_read(x, step->in[2]));
    return true;
}

static bool write_eye(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_EyeLike_args *a = step->args;
    xcc_c_line(x,
               "        %s *const y = %s;\n        for (int64_t i = 0; i < %lld; i++)\n"
               "            for (int64_t j = 0; j < %lld; j++)\n                y[i * %lld + j] = j - i == %lld;\n",
               xcc_c_type((xcvm_dtype)a->y->dtype), xcc_c_write(x, a->y), (long long)a->y->dims[0],
               (long long)a->y->dims[1], (long long)a->y->dims[1], (long long)a->k);
    return a->k > -INT32_MAX && a->k < INT32_MAX ? true : xcc_c_refuse(x, "k is out of range");
}

static bool write_triangle(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_Trilu_args *a = step->args;
    int64_t k = 0;
    size_t count;
    if (a->x->rank < 2)
        return xcc_c_refuse(x, "it has rank %d, at least 2 is needed", a->x->rank);
    if (!xcc_c_ints(x, a->k, "k", &k, 1, &count))
        return false;
    const int64_t rows = a->x->dims[a->x->rank - 2], columns = a->x->dims[a->x->rank - 1];
    k = k > columns ? columns : k < -rows ? -rows : k;
    xcc_c_line(x, "        xc_triangle(%s, %s, %lld, %lld, %lld, %zu, %lld, %d);\n", xcc_c_read(x, a->x),
               xcc_c_write(x, a->y), (long long)xcc_c_product(a->x->dims, 0, a->x->rank - 2), (long long)rows,
               (long long)columns, size_of(a->x), (long long)k, (int)a->upper);
    return true;
}

static const xcc_c_row rows[] = {{XCVM_OP_Identity, write_same},
                                 {XCVM_OP_Reshape, write_same},
                                 {XCVM_OP_Flatten, write_same},
                                 {XCVM_OP_Squeeze, write_same},
                                 {XCVM_OP_Unsqueeze, write_same},
                                 {XCVM_OP_BitCast, write_bits},
                                 {XCVM_OP_Transpose, write_transpose},
                                 {XCVM_OP_Concat, write_concat},
                                 {XCVM_OP_Split, write_split},
                                 {XCVM_OP_Slice, write_slice},
                                 {XCVM_OP_Expand, write_expand},
                                 {XCVM_OP_Tile, write_tile},
                                 {XCVM_OP_Pad, write_pad},
                                 {XCVM_OP_DepthToSpace, write_depth_to_space},
                                 {XCVM_OP_SpaceToDepth, write_space_to_depth},
                                 {XCVM_OP_Shape, write_shape},
                                 {XCVM_OP_Size, write_size},
                                 {XCVM_OP_Range, write_range},
                                 {XCVM_OP_EyeLike, write_eye},
                                 {XCVM_OP_Trilu, write_triangle}};
const xcc_c_rows xcc_c_move_rows = {rows, sizeof rows / sizeof *rows};

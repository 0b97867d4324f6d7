/* Gather, GatherElements and GatherND: slices and elements at indices. */
#include "ops/data/gather.h"
#include "ops/util/index.h"
#include "ops/util/move.h"

enum {
    GRAIN_BYTES = 64 * 1024, /* minimum bytes of a range */
    OFFSETS = 256            /* offsets computed together */
};

XCVM_SHAPE_RULE_OF(Gather)
{
    const xcvm_value *x = a->x, *indices = a->indices;
    int64_t dims[2 * XCVM_MAX_RANK];
    int axis, rank = 0;
    if (x->rank < 0) {
        xcvm_set_unknown(a->y, a->y->dtype, -1);
        return XCVM_OK;
    }
    XCVM_TRY(xcvm_resolve_axis(t->error, a->axis, x->rank, &axis));
    if (indices->rank < 0) {
        xcvm_set_unknown(a->y, a->y->dtype, -1);
        return XCVM_OK;
    }
    int total = x->rank - 1 + indices->rank;
    XCVM_CHECK(t->error, total <= XCVM_MAX_RANK, UNSUPPORTED,
               "the result has an unsupported rank (%d; expected at most %d)", total, XCVM_MAX_RANK);
    for (int i = 0; i < axis; i++)
        dims[rank++] = x->dims[i];
    for (int i = 0; i < indices->rank; i++)
        dims[rank++] = indices->dims[i];
    for (int i = axis + 1; i < x->rank; i++)
        dims[rank++] = x->dims[i];
    xcvm_value_set_tensor(a->y, a->y->dtype, rank, dims);
    return XCVM_OK;
}

typedef struct gathering {
    const xcvm_moving *m;
    const xcvm_value *indices;
    xcvm_around x;
    size_t index_count;
    size_t run; /* bytes of one slice */
} gathering;

static void gather_slices(void *context, size_t begin, size_t end, int worker)
{
    const gathering *g = context;
    (void)worker;
    char *to = (char *)g->m->to[0] + begin * g->run;
    if (begin == end)
        return;
    size_t outer = begin / g->index_count, at = begin % g->index_count;
    for (size_t i = begin; i < end; i++, to += g->run, at++) {
        if (at == g->index_count) {
            at = 0;
            outer++;
        }
        const size_t index = xcvm_index_wrapped(g->indices, at, (int64_t)g->x.dim);
        const char *from = (const char *)g->m->from[0] + (outer * g->x.dim + index) * g->run;
        (void)xcvm_kernel_copy(g->m->k, to, from, g->run);
    }
}

/* Slices of one element. Offsets are computed in blocks, and reused for all rows if a block is a whole row. */
static void gather_elements(void *context, size_t begin, size_t end, int worker)
{
    const gathering *g = context;
    (void)worker;
    const size_t count = g->index_count;
    ptrdiff_t offsets[OFFSETS];
    while (begin < end) {
        const size_t outer = begin / count, at = begin % count;
        const size_t n = xcvm_min(xcvm_min(count - at, end - begin), OFFSETS);
        for (size_t i = 0; i < n; i++)
            offsets[i] = (ptrdiff_t)xcvm_index_wrapped(g->indices, at + i, (int64_t)g->x.dim);
        const size_t rows = n == count ? (end - begin) / count : 1;
        xcvm_move_gather_rows((char *)g->m->to[0] + begin * g->run,
                              (const char *)g->m->from[0] + outer * g->x.dim * g->run, g->run, rows, g->x.dim, n,
                              offsets);
        begin += rows * n;
    }
}

static xcvm_status gather(const xcvm_moving *m, const void *context)
{
    gathering g = *(const gathering *)context;
    g.m = m;
    g.run = g.x.inner * m->size;
    size_t slices = g.run != 0 ? g.x.outer * g.index_count : 0;
    return xcvm_kernel_parallel(m->k, slices, GRAIN_BYTES / (g.run + 1) + 1,
                                g.x.inner == 1 ? gather_elements : gather_slices, &g);
}

/* Slices of a packed type that are whole bytes are moved as bytes, so that only these bytes of a large table are read.
 */
static bool gather_bytes(xcvm_kernel *k, const xcvm_Gather_args *a, gathering *g, xcvm_status *status)
{
    const xcvm_dtype dtype = a->x->dtype;
    const size_t bits = g->x.inner * (size_t)xcvm_dtype_bits(dtype);
    if (xcvm_dtype_size(dtype) != 0 || bits % 8 != 0)
        return false;
    const void *const from[] = {a->x->data};
    void *const to[] = {a->y->data};
    const xcvm_moving m = {.k = k, .size = 1, .from = from, .to = to};
    g->x.inner = bits / 8;
    *status = gather(&m, g);
    return true;
}

XCVM_KERNEL(Gather)
{
    const int axis = (int)(a->axis < 0 ? a->axis + a->x->rank : a->axis);
    gathering g = {
        .indices = a->indices, .x = xcvm_around_axis(a->x, axis), .index_count = xcvm_element_count(a->indices)};
    xcvm_status status;
    XCVM_TRY(xcvm_indices_check(k, a->indices, "indices", g.index_count, a->x->dims[axis]));
    return gather_bytes(k, a, &g, &status) ? status : xcvm_move_one(k, a->x, a->y, gather, &g);
}

xcvm_status xcvm_check_elementwise_indices(xcvm_error *error, const xcvm_value *x, const xcvm_value *indices,
                                           int64_t attribute)
{
    int axis;
    if (x->rank < 0 || indices->rank < 0)
        return XCVM_OK;
    XCVM_TRY(xcvm_resolve_axis(error, attribute, x->rank, &axis));
    XCVM_CHECK(error, x->rank == indices->rank, SHAPE_MISMATCH,
               "x has rank %d and indices %d, but they must be the same", x->rank, indices->rank);
    for (int i = 0; i < x->rank; i++)
        XCVM_CHECK(error, i == axis || indices->dims[i] < 0 || x->dims[i] < 0 || indices->dims[i] <= x->dims[i],
                   SHAPE_MISMATCH, "dimension %d of indices is %lld, of x only %lld", i, (long long)indices->dims[i],
                   (long long)x->dims[i]);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(GatherElements)
{
    XCVM_TRY(xcvm_check_elementwise_indices(t->error, a->x, a->indices, a->axis));
    xcvm_value_set_tensor(a->y, a->y->dtype, a->indices->rank, a->indices->dims);
    return XCVM_OK;
}

xcvm_elementwise xcvm_elementwise_of(const xcvm_value *x, const xcvm_value *indices, int64_t axis)
{
    xcvm_elementwise e = {.x = x, .indices = indices, .axis = (int)(axis < 0 ? axis + x->rank : axis)};
    const int last = x->rank - 1;
    ptrdiff_t strides[XCVM_MAX_RANK];
    xcvm_row_major(x->rank, x->dims, strides);
    e.stride = strides[e.axis];
    e.columns = (size_t)indices->dims[last];
    e.column = e.axis == last ? 0 : 1;
    for (int i = 0; i < last; i++)
        xcvm_strided_axis(&e.rows, (size_t)indices->dims[i], 0, i == e.axis ? 0 : strides[i]);
    return e;
}

/* ---- Index tuples ---- */

XCVM_SHAPE_RULE_OF(GatherND)
{
    const xcvm_value *x = a->x, *indices = a->indices;
    int64_t dims[2 * XCVM_MAX_RANK];
    int batch = (int)a->batch_dims, rank = 0;
    if (x->rank < 0 || indices->rank < 0 || indices->dims[indices->rank > 0 ? indices->rank - 1 : 0] < 0) {
        xcvm_set_unknown(a->y, a->y->dtype, -1);
        return XCVM_OK;
    }
    XCVM_CHECK(t->error, indices->rank > 0 && x->rank > 0, SHAPE_MISMATCH, "x and indices need at least one dimension");
    XCVM_CHECK(t->error, batch < indices->rank && batch < x->rank, OUT_OF_RANGE,
               "batch_dims %d is not below the ranks %d of x and %d of indices", batch, x->rank, indices->rank);
    int64_t tuple = indices->dims[indices->rank - 1];
    XCVM_CHECK(t->error, tuple >= 1 && tuple <= x->rank - batch, SHAPE_MISMATCH,
               "the last dimension of indices is %lld, not in [1, %d]", (long long)tuple, x->rank - batch);
    for (int i = 0; i < batch; i++)
        XCVM_CHECK(t->error, !xcvm_dims_differ(x->dims[i], indices->dims[i]), SHAPE_MISMATCH,
                   "batch dimension %d of x is %lld, of indices %lld", i, (long long)x->dims[i],
                   (long long)indices->dims[i]);
    for (int i = 0; i < indices->rank - 1; i++)
        dims[rank++] = indices->dims[i];
    for (int i = batch + (int)tuple; i < x->rank; i++)
        dims[rank++] = x->dims[i];
    XCVM_CHECK(t->error, rank <= XCVM_MAX_RANK, UNSUPPORTED,
               "the result has an unsupported rank (%d; expected at most %d)", rank, XCVM_MAX_RANK);
    xcvm_value_set_tensor(a->y, a->y->dtype, rank, dims);
    return XCVM_OK;
}

xcvm_tuples xcvm_tuples_of(const xcvm_value *x, const xcvm_value *indices, int batch)
{
    xcvm_tuples u = {.x = x, .indices = indices, .batch = batch};
    u.length = (int)indices->dims[indices->rank - 1];
    u.count = u.batches = u.slice = u.batch_elements = 1;
    for (int i = 0; i < indices->rank - 1; i++)
        u.count *= (size_t)indices->dims[i];
    for (int i = 0; i < batch; i++)
        u.batches *= (size_t)x->dims[i];
    for (int i = batch; i < x->rank; i++)
        u.batch_elements *= (size_t)x->dims[i];
    for (int i = batch + u.length; i < x->rank; i++)
        u.slice *= (size_t)x->dims[i];
    return u;
}

/* True if `count` tuples of i64 are in range. */
static bool are_in_range(const int64_t *at, size_t length, const int64_t *dims, size_t count)
{
    bool out = false;
    for (size_t j = 0; j < length; j++)
        for (size_t i = 0; i < count; i++)
            out |= (uint64_t)at[i * length + j] + (uint64_t)dims[j] >= 2 * (uint64_t)dims[j];
    return !out;
}

xcvm_status xcvm_tuples_check(xcvm_kernel *k, const xcvm_tuples *u)
{
    const size_t length = (size_t)u->length;
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t first = 0, count; first < u->count; first += count) {
        count = xcvm_min(u->count - first, OFFSETS);
        XCVM_TRY(xcvm_poll_after(&poller, count * length));
        if (u->indices->dtype == XCVM_I64 &&
            are_in_range(XCVM_CDATA(int64_t, u->indices) + first * length, length, u->x->dims + u->batch, count))
            continue;
        for (size_t i = first * length; i < (first + count) * length; i++) {
            const int64_t index = xcvm_index_at(u->indices, i), dim = u->x->dims[u->batch + (int)(i % length)];
            XCVM_CHECK(k->error, index >= -dim && index < dim, OUT_OF_RANGE,
                       "element %zu of index tuple %zu is %lld, not in [-%lld, %lld)", i % length, i / length,
                       (long long)index, (long long)dim, (long long)dim);
        }
    }
    return XCVM_OK;
}

/* Offsets, in slices, of tuples of i64. `length` is constant for 1 to 3. */
static inline __attribute__((always_inline)) void find_offsets(const int64_t *at, const size_t length,
                                                               const int64_t *dims, size_t count, ptrdiff_t *offsets)
{
    for (size_t i = 0; i < count; i++) {
        int64_t offset = 0;
        for (size_t j = 0; j < length; j++) {
            const int64_t index = at[i * length + j];
            offset = offset * dims[j] + index + (index < 0 ? dims[j] : 0);
        }
        offsets[i] = (ptrdiff_t)offset;
    }
}

void xcvm_tuples_offsets(const xcvm_tuples *u, size_t first, size_t count, ptrdiff_t *offsets)
{
    const size_t length = (size_t)u->length, each = u->count / u->batches;
    const int64_t *dims = u->x->dims + u->batch;
    if (u->indices->dtype == XCVM_I64) {
        const int64_t *at = XCVM_CDATA(int64_t, u->indices) + first * length;
        if (length == 1)
            find_offsets(at, 1, dims, count, offsets);
        else if (length == 2)
            find_offsets(at, 2, dims, count, offsets);
        else if (length == 3)
            find_offsets(at, 3, dims, count, offsets);
        else
            find_offsets(at, length, dims, count, offsets);
    } else {
        for (size_t i = 0; i < count; i++) {
            size_t offset = 0;
            for (size_t j = 0; j < length; j++)
                offset = offset * (size_t)dims[j] + xcvm_index_wrapped(u->indices, (first + i) * length + j, dims[j]);
            offsets[i] = (ptrdiff_t)offset;
        }
    }
    for (size_t i = 0; i < count && u->slice != 1; i++)
        offsets[i] *= (ptrdiff_t)u->slice;
    for (size_t i = 0; i < count && u->batches != 1; i++)
        offsets[i] += (ptrdiff_t)((first + i) / each * u->batch_elements);
}

typedef struct picking_slices {
    const xcvm_moving *m;
    const xcvm_tuples *u;
} picking_slices;

static void pick_slices(void *context, size_t begin, size_t end, int worker)
{
    const picking_slices *p = context;
    (void)worker;
    const size_t size = p->m->size, run = p->u->slice * size;
    ptrdiff_t offsets[OFFSETS];
    for (size_t first = begin, count; first < end; first += count) {
        count = xcvm_min(end - first, OFFSETS);
        char *to = (char *)p->m->to[0] + first * run;
        xcvm_tuples_offsets(p->u, first, count, offsets);
        if (xcvm_kernel_poll(p->m->k) != XCVM_OK)
            return;
        if (p->u->slice == 1)
            xcvm_move_gather(to, p->m->from[0], size, count, offsets);
        else
            for (size_t i = 0; i < count; i++)
                (void)xcvm_kernel_copy(p->m->k, to + i * run, (const char *)p->m->from[0] + (size_t)offsets[i] * size,
                                       run);
    }
}

static xcvm_status gather_nd(const xcvm_moving *m, const void *context)
{
    const xcvm_tuples *u = context;
    picking_slices p = {m, u};
    if (u->slice == 0 || u->count == 0)
        return XCVM_OK;
    return xcvm_kernel_parallel(m->k, u->count, GRAIN_BYTES / (u->slice * m->size) + 1, pick_slices, &p);
}

XCVM_KERNEL(GatherND)
{
    xcvm_tuples u = xcvm_tuples_of(a->x, a->indices, (int)a->batch_dims);
    XCVM_TRY(xcvm_tuples_check(k, &u));
    return xcvm_move_one(k, a->x, a->y, gather_nd, &u);
}

/* GatherElements, and the index iteration that it shares with ScatterElements. */
#include "ops/data/simd/gather_elements.h"
#include "ops/util/move.h"

enum { BLOCK = 256, MOST_FETCHED = 1 << 14 /* in bytes */ };

/* Computes the offsets of `count` indices from element `first`. Returns true if all are in range. */
#define OFFSETS(type)                                                                                                  \
    do {                                                                                                               \
        const type *restrict at = XCVM_CDATA(type, e->indices) + first;                                                \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const int64_t index = at[i], from_start = index < 0 ? index + dim : index;                                 \
            outside |= (uint64_t)from_start >= (uint64_t)dim;                                                          \
            /* Out of range this may wrap; the offset is then unused. */                                               \
            offsets[i] = (ptrdiff_t)((uint64_t)from_start * (uint64_t)stride);                                         \
        }                                                                                                              \
    } while (0)

static bool find_offsets(const xcvm_elementwise *e, size_t first, size_t count, ptrdiff_t *restrict offsets)
{
    const int64_t dim = e->x->dims[e->axis];
    const ptrdiff_t stride = e->stride;
    uint64_t outside = 0;
    if (e->indices->dtype == XCVM_I64)
        OFFSETS(int64_t);
    else
        OFFSETS(int32_t);
    return outside == 0;
}

/* Prefetches the next row: indices on the last axis read neighboring elements of x in random order, which hardware does
 * not predict. */
static void fetch_next(const xcvm_elementwise *e, ptrdiff_t row)
{
    const size_t size = xcvm_dtype_size((xcvm_dtype)e->x->dtype), dim = (size_t)e->x->dims[e->axis];
    if (e->column != 0 || e->columns < dim / 8 || dim * size > MOST_FETCHED)
        return;
    const char *next = (const char *)e->x->data + ((size_t)row + dim) * size;
    for (size_t at = 0; at < dim * size; at += 64)
        __builtin_prefetch(next + at);
}

xcvm_status xcvm_elementwise_run(const xcvm_kernel *k, const xcvm_elementwise *e, size_t begin, size_t end,
                                 xcvm_elementwise_body body, const void *context)
{
    ptrdiff_t offsets[BLOCK];
    if (begin == end)
        return XCVM_OK;
    xcvm_position row = xcvm_position_at(&e->rows, begin / e->columns);
    size_t column = begin % e->columns;
    xcvm_poller poller = xcvm_poller_of(k);
    while (begin < end) {
        const size_t wanted = end - begin < BLOCK ? end - begin : BLOCK;
        if (!find_offsets(e, begin, wanted, offsets))
            return XCVM_OUT_OF_RANGE;
        for (size_t filled = 0; filled < wanted;) {
            if (column == 0)
                fetch_next(e, row.from);
            const size_t left = e->columns - column, n = wanted - filled < left ? wanted - filled : left;
            const ptrdiff_t base = row.from + (ptrdiff_t)column * e->column;
            for (size_t i = 0; i < n; i++)
                offsets[filled + i] += base + (ptrdiff_t)i * e->column;
            filled += n;
            column += n;
            if (column == e->columns) {
                column = 0;
                xcvm_position_advance(&e->rows, &row);
            }
        }
        body(context, begin, wanted, offsets);
        begin += wanted;
        XCVM_TRY(xcvm_poll_after(&poller, wanted));
    }
    return XCVM_OK;
}

typedef struct picking {
    const xcvm_moving *m;
    const xcvm_elementwise *e;
    uint32_t outside; /* atomic; nonzero: an index is out of range */
} picking;

static void pick_block(const void *context, size_t first, size_t count, const ptrdiff_t *offsets)
{
    const xcvm_moving *m = context;
    xcvm_move_gather((char *)m->to[0] + first * m->size, m->from[0], m->size, count, offsets);
}

static void pick_elements(void *context, size_t begin, size_t end, int worker)
{
    picking *p = context;
    (void)worker;
    if (xcvm_elementwise_run(p->m->k, p->e, begin, end, pick_block, p->m) == XCVM_OUT_OF_RANGE)
        __atomic_store_n(&p->outside, 1, __ATOMIC_RELAXED);
}

static xcvm_status gather_elements(const xcvm_moving *m, const void *context)
{
    picking p = {m, context, 0};
    const size_t count = xcvm_element_count(p.e->indices);
    XCVM_TRY(xcvm_kernel_parallel(m->k, count, 4096, pick_elements, &p));
    return p.outside ? xcvm_indices_check(m->k, p.e->indices, "indices", count, p.e->x->dims[p.e->axis]) : XCVM_OK;
}

XCVM_KERNEL(GatherElements)
{
    xcvm_elementwise e = xcvm_elementwise_of(a->x, a->indices, a->axis);
    return xcvm_move_one(k, a->x, a->y, gather_elements, &e);
}

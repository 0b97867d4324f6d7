/* Expand and Tile: repetition of elements on axes. */
#include "ops/util/move.h"
#include "ops/util/strided.h"

XCVM_SHAPE_RULE_OF(Expand)
{
    const xcvm_value *x = a->x;
    int64_t dims[XCVM_MAX_RANK];
    size_t count;
    bool known;
    XCVM_TRY(xcvm_read_shape(t->error, a->shape, dims, &count, &known));
    if (!known) {
        int64_t length = a->shape->rank == 1 ? a->shape->dims[0] : XCVM_ANY_DIM;
        if (x->rank < 0 || length < 0) {
            xcvm_set_unknown(a->y, a->y->dtype, -1);
            return XCVM_OK;
        }
        count = (size_t)length;
        for (size_t i = 0; i < count; i++)
            dims[i] = XCVM_ANY_DIM;
    }
    for (size_t i = 0; known && i < count; i++)
        XCVM_CHECK(t->error, dims[i] >= 0, OUT_OF_RANGE, "element %zu of shape is %lld", i, (long long)dims[i]);
    xcvm_value shape = {.rank = 0};
    int rank;
    xcvm_value_set_tensor(&shape, XCVM_I64, (int)count, dims);
    XCVM_TRY(xcvm_broadcast_shapes(t->error, x, &shape, &rank, dims));
    xcvm_value_set_tensor(a->y, a->y->dtype, rank, dims);
    return XCVM_OK;
}

static xcvm_status expand(const xcvm_moving *m, const void *context)
{
    const xcvm_Expand_args *a = context;
    ptrdiff_t from[XCVM_MAX_RANK], to[XCVM_MAX_RANK];
    xcvm_row_major(a->x->rank, a->x->dims, from);
    xcvm_row_major(a->y->rank, a->y->dims, to);
    xcvm_strided s = {.rank = 0};
    for (int i = 0, lead = a->y->rank - a->x->rank; i < a->y->rank; i++) {
        bool repeated = i < lead || a->x->dims[i - lead] == 1;
        xcvm_strided_axis(&s, (size_t)a->y->dims[i], to[i], repeated ? 0 : from[i - lead]);
    }
    return xcvm_strided_copy(m->k, &s, m->size, m->to[0], m->from[0]);
}

XCVM_KERNEL(Expand) { return xcvm_move_one(k, a->x, a->y, expand, a); }

XCVM_SHAPE_RULE_OF(Tile)
{
    const xcvm_value *x = a->x;
    int64_t repeats[XCVM_MAX_RANK], dims[XCVM_MAX_RANK];
    size_t count;
    bool known;
    XCVM_TRY(xcvm_read_ints(t->error, a->repeats, "repeats", repeats, XCVM_MAX_RANK, &count, &known));
    if (x->rank < 0 || !known) {
        bool length =
            x->rank < 0 && a->repeats->rank == 1 && a->repeats->dims[0] >= 0 && a->repeats->dims[0] <= XCVM_MAX_RANK;
        xcvm_set_unknown(a->y, a->y->dtype, length ? (int)a->repeats->dims[0] : x->rank);
        return XCVM_OK;
    }
    XCVM_CHECK(t->error, count == (size_t)x->rank, SHAPE_MISMATCH, "repeats has %zu elements, x rank %d", count,
               x->rank);
    for (int i = 0; i < x->rank; i++) {
        XCVM_CHECK(t->error, repeats[i] >= 0, OUT_OF_RANGE, "element %d of repeats is %lld", i, (long long)repeats[i]);
        dims[i] = repeats[i] == 1 ? x->dims[i] : repeats[i] == 0 ? 0 : XCVM_ANY_DIM;
        if (x->dims[i] >= 0)
            XCVM_CHECK(t->error, !__builtin_mul_overflow(x->dims[i], repeats[i], &dims[i]), OUT_OF_RANGE,
                       "dimension %d of the result overflows", i);
    }
    xcvm_value_set_tensor(a->y, a->y->dtype, x->rank, dims);
    return XCVM_OK;
}

/* ---- Tile: runs of adjacent elements, then blocks of the result ---- */

enum {
    SHORT_RUN = 16,           /* maximum bytes of a run; if a power of two, it moves as one element */
    LONG_RUN = 192,           /* bytes copied as one run */
    CHUNK = 256 * 1024,       /* bytes of a block copied together */
    GRAIN_BYTES = 128 * 1024, /* minimum bytes per thread */
};

typedef uint64_t vector __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint64_t word __attribute__((aligned(1), may_alias));
typedef uint32_t half __attribute__((aligned(1), may_alias));

typedef struct tiling {
    const xcvm_moving *m;
    xcvm_strided outer; /* starts of runs in the first repetition; blocks */
    size_t run, times;  /* bytes of the repeated part */
    size_t chunks;      /* of a block */
} tiling;

#define REPEAT_PART(type, at)                                                                                          \
    do {                                                                                                               \
        const type part = *(const type *)(const void *)(from + (at));                                                  \
        for (size_t i = 0; i < times; i++)                                                                             \
            *(type *)(void *)(to + i * bytes + (at)) = part;                                                           \
    } while (0)

/* The copies overlap at the end. */
static inline void repeat_run(char *restrict to, const char *restrict from, size_t bytes, size_t times)
{
    if (bytes > LONG_RUN) {
        for (size_t i = 0; i < times; i++)
            memcpy(to + i * bytes, from, bytes);
    } else if (bytes >= sizeof(vector)) {
        for (size_t at = 0; at + sizeof(vector) <= bytes; at += sizeof(vector))
            REPEAT_PART(vector, at);
        if (bytes % sizeof(vector) != 0)
            REPEAT_PART(vector, bytes - sizeof(vector));
    } else if (bytes >= sizeof(word)) {
        REPEAT_PART(word, 0);
        REPEAT_PART(word, bytes - sizeof(word));
    } else if (bytes >= sizeof(half)) {
        REPEAT_PART(half, 0);
        REPEAT_PART(half, bytes - sizeof(half));
    } else {
        for (size_t at = 0; at < bytes; at++)
            REPEAT_PART(char, at);
    }
}

static void repeat_runs(void *context, size_t begin, size_t end, int worker)
{
    const tiling *t = context;
    (void)worker;
    xcvm_position p = xcvm_position_at(&t->outer, begin);
    for (size_t i = begin; i < end; i++) {
        repeat_run((char *)t->m->to[0] + p.to * (ptrdiff_t)t->m->size, (const char *)t->m->from[0] + i * t->run, t->run,
                   t->times);
        xcvm_position_advance(&t->outer, &p);
    }
}

/* The first of `times` blocks is already present. */
static void repeat_blocks(void *context, size_t begin, size_t end, int worker)
{
    const tiling *t = context;
    const size_t copies = (t->times - 1) * t->chunks;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const xcvm_position p = xcvm_position_at(&t->outer, i / copies);
        const size_t at = i % t->chunks * CHUNK, bytes = t->run - at < CHUNK ? t->run - at : CHUNK;
        char *first = (char *)t->m->to[0] + p.to * (ptrdiff_t)t->m->size + at;
        memcpy(first + (i % copies / t->chunks + 1) * t->run, first, bytes);
    }
}

static size_t unit_count(const xcvm_strided *s)
{
    size_t count = 1;
    for (int i = 0; i < s->rank; i++)
        count *= s->dims[i];
    return count;
}

/* Each dimension becomes two: the repeats, and the original. */
static xcvm_status tile_elements(const xcvm_moving *m, const xcvm_Tile_args *a, const ptrdiff_t *to)
{
    ptrdiff_t from[XCVM_MAX_RANK];
    xcvm_strided s = {.rank = 0};
    xcvm_row_major(a->x->rank, a->x->dims, from);
    for (int i = 0; i < a->x->rank; i++) {
        int64_t dim = a->x->dims[i];
        xcvm_strided_axis(&s, dim != 0 ? (size_t)(a->y->dims[i] / dim) : 0, (ptrdiff_t)dim * to[i], 0);
        xcvm_strided_axis(&s, (size_t)dim, to[i], from[i]);
    }
    return xcvm_strided_copy(m->k, &s, m->size, m->to[0], m->from[0]);
}

/* Repeats x on `last`, the last repeated axis. Then repeats the finished part of y on the preceding axes in turn. */
static xcvm_status tile(const xcvm_moving *m, const void *context)
{
    const xcvm_Tile_args *a = context;
    const int64_t *x = a->x->dims, *y = a->y->dims;
    ptrdiff_t to[XCVM_MAX_RANK];
    int last = a->x->rank - 1;
    size_t run = m->size;
    xcvm_row_major(a->x->rank, y, to);
    for (; last > 0 && x[last] == y[last]; last--)
        run *= (size_t)x[last];
    run *= last >= 0 ? (size_t)x[last] : 1;
    const bool is_empty = xcvm_element_count(a->y) == 0;
    const size_t times = last < 0 || is_empty ? 1 : (size_t)(y[last] / x[last]);
    /* Single elements, and units large enough to be split or interrupted, use strided copies. */
    if (last < 0 || is_empty || run == m->size || (run <= SHORT_RUN && (run & (run - 1)) == 0) || times > CHUNK / run)
        return tile_elements(m, a, to);
    tiling t = {.m = m, .run = run, .times = times};
    for (int i = 0; i < last; i++)
        xcvm_strided_axis(&t.outer, (size_t)x[i], to[i], 0);
    XCVM_TRY(xcvm_kernel_parallel(m->k, unit_count(&t.outer), GRAIN_BYTES / (run * t.times) + 1, repeat_runs, &t));
    for (int axis = last - 1; axis >= 0; axis--) {
        t.outer.rank = axis;
        t.run = (size_t)x[axis] * (size_t)to[axis] * m->size;
        t.times = (size_t)(y[axis] / x[axis]);
        t.chunks = (t.run + CHUNK - 1) / CHUNK;
        const size_t grain = GRAIN_BYTES / (t.run < CHUNK ? t.run : CHUNK) + 1;
        if (t.times > 1)
            XCVM_TRY(
                xcvm_kernel_parallel(m->k, unit_count(&t.outer) * (t.times - 1) * t.chunks, grain, repeat_blocks, &t));
    }
    return XCVM_OK;
}

XCVM_KERNEL(Tile) { return xcvm_move_one(k, a->x, a->y, tile, a); }

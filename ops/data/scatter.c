/* ScatterElements and ScatterND: writes updates to a copy of x, or combines them with its elements. */
#include "ops/data/gather.h"
#include "ops/util/index.h"
#include "ops/util/move.h"
#include "ops/data/simd/gather_elements.h"

/* ---- Combining ---- */

/* Combines `count` elements of updates into x, at `offsets` in order, or contiguously if it is NULL. */
typedef void (*combine)(void *x, const void *updates, size_t count, const ptrdiff_t *offsets);

/* r = x combined with u. NaN wins; it is detected separately by self-comparison, so that the maximum has no branch. */
#define SUM(r, x, u) r = (x) + (u)
#define PRODUCT(r, x, u) r = (x) * (u)
#define GREATER(r, x, u)                                                                                               \
    r = (x) > (u) ? (x) : (u);                                                                                         \
    r = (x) != (x) ? (x) : r
#define LESSER(r, x, u)                                                                                                \
    r = (x) < (u) ? (x) : (u);                                                                                         \
    r = (x) != (x) ? (x) : r
#define DEFINE_COMBINE(name, type, wide, load, store, operation)                                                       \
    static void name(void *x, const void *updates, size_t count, const ptrdiff_t *offsets)                             \
    {                                                                                                                  \
        type *to = x;                                                                                                  \
        const type *from = updates;                                                                                    \
        for (size_t i = 0; i < count && offsets == NULL; i++) {                                                        \
            wide left = load(to[i]), right = load(from[i]), made;                                                      \
            operation(made, left, right);                                                                              \
            to[i] = store(made);                                                                                       \
        }                                                                                                              \
        for (size_t i = 0; i < count && offsets != NULL; i++) {                                                        \
            wide left = load(to[offsets[i]]), right = load(from[i]), made;                                             \
            operation(made, left, right);                                                                              \
            to[offsets[i]] = store(made);                                                                              \
        }                                                                                                              \
    }
#define DEFINE_COMBINES(name, type, wide, load, store, order, load_order)                                              \
    DEFINE_COMBINE(add_##name, type, wide, load, store, SUM)                                                           \
    DEFINE_COMBINE(mul_##name, type, wide, load, store, PRODUCT)                                                       \
    DEFINE_COMBINE(max_##name, type, order, load_order, store, GREATER)                                                \
    DEFINE_COMBINE(min_##name, type, order, load_order, store, LESSER)
#define DEFINE_FLOAT(name, type, wide, load, store) DEFINE_COMBINES(name, type, wide, load, store, wide, load)
/* Integers are added and multiplied as unsigned, so that they wrap. */
#define DEFINE_INTEGER(name, type, order) DEFINE_COMBINES(name, type, uint64_t, (uint64_t), (type), order, (order))

DEFINE_FLOAT(f32, float, float, , )
DEFINE_FLOAT(f64, double, double, , )
DEFINE_FLOAT(f16, uint16_t, float, xcvm_f16_to_f32, xcvm_f32_to_f16)
DEFINE_FLOAT(bf16, uint16_t, float, xcvm_bf16_to_f32, xcvm_f32_to_bf16)
DEFINE_INTEGER(i8, int8_t, int64_t)
DEFINE_INTEGER(i16, int16_t, int64_t)
DEFINE_INTEGER(i32, int32_t, int64_t)
DEFINE_INTEGER(i64, int64_t, int64_t)
DEFINE_INTEGER(u8, uint8_t, uint64_t)
DEFINE_INTEGER(u16, uint16_t, uint64_t)
DEFINE_INTEGER(u32, uint32_t, uint64_t)
DEFINE_INTEGER(u64, uint64_t, uint64_t)

/* NULL if the element type has no reductions. For bools the sum is "or" and the product "and". */
static combine combine_of(xcvm_dtype dtype, int reduction)
{
#define COMBINES(type, name)                                                                                           \
    [XCVM_##type] = {                                                                                                  \
        [XCVM_REDUCTION_add] = add_##name,                                                                             \
        [XCVM_REDUCTION_mul] = mul_##name,                                                                             \
        [XCVM_REDUCTION_max] = max_##name,                                                                             \
        [XCVM_REDUCTION_min] = min_##name                                                                              \
    }
    static const combine table[][XCVM_REDUCTION_COUNT] = {COMBINES(F32, f32),
                                                          COMBINES(F64, f64),
                                                          COMBINES(F16, f16),
                                                          COMBINES(BF16, bf16),
                                                          COMBINES(I8, i8),
                                                          COMBINES(I16, i16),
                                                          COMBINES(I32, i32),
                                                          COMBINES(I64, i64),
                                                          COMBINES(U8, u8),
                                                          COMBINES(U16, u16),
                                                          COMBINES(U32, u32),
                                                          COMBINES(U64, u64),
                                                          [XCVM_BOOL] = {[XCVM_REDUCTION_add] = max_u8,
                                                                         [XCVM_REDUCTION_mul] = min_u8,
                                                                         [XCVM_REDUCTION_max] = max_u8,
                                                                         [XCVM_REDUCTION_min] = min_u8}};
    return dtype < sizeof table / sizeof *table ? table[dtype][reduction] : NULL;
}

/* *with is NULL for overwriting. */
static xcvm_status choose(xcvm_kernel *k, xcvm_dtype dtype, int reduction, combine *with)
{
    *with = NULL;
    if (reduction == XCVM_REDUCTION_none)
        return XCVM_OK;
    *with = combine_of(dtype, reduction);
    char text[256];
    XCVM_CHECK(k->error, *with != NULL, TYPE_MISMATCH, "elements of type %s cannot be combined, but those of %s can",
               xcvm_dtype_name(dtype), xcvm_dtypes_describe(XCVM_TYPES_REAL_OR_BOOL, text, sizeof text));
    return XCVM_OK;
}

/* Copies x to the result, unless they share memory. */
static xcvm_status start(const xcvm_moving *m, size_t count)
{
    return m->to[0] != m->from[0] ? xcvm_kernel_copy(m->k, m->to[0], m->from[0], count * m->size) : XCVM_OK;
}

/* ---- Elements ---- */

typedef struct scattering {
    xcvm_elementwise e;
    combine with;
    const xcvm_moving *m;
} scattering;

static void scatter_block(const void *context, size_t first, size_t count, const ptrdiff_t *offsets)
{
    const scattering *s = context;
    const char *from = (const char *)s->m->from[1] + first * s->m->size;
    if (s->with != NULL)
        s->with(s->m->to[0], from, count, offsets);
    else
        xcvm_move_scatter(s->m->to[0], from, s->m->size, count, offsets);
}

static xcvm_status scatter_elements(const xcvm_moving *m, const void *context)
{
    scattering s = *(const scattering *)context;
    s.m = m;
    XCVM_TRY(start(m, xcvm_element_count(s.e.x)));
    return xcvm_elementwise_run(m->k, &s.e, 0, xcvm_element_count(s.e.indices), scatter_block, &s);
}

XCVM_KERNEL(ScatterElements)
{
    XCVM_TRY(xcvm_check_elementwise_indices(k->error, a->x, a->indices, a->axis));
    XCVM_CHECK(k->error, xcvm_same_shape(a->indices, a->updates), SHAPE_MISMATCH,
               "indices and updates have different shapes");
    size_t count = xcvm_element_count(a->indices);
    const xcvm_value *from[2] = {a->x, a->updates};
    XCVM_CHECK(k->error, a->x->rank > 0, SHAPE_MISMATCH, "x has no dimensions");
    scattering s = {.e = xcvm_elementwise_of(a->x, a->indices, a->axis)};
    XCVM_TRY(choose(k, a->x->dtype, a->reduction, &s.with));
    const xcvm_status status = xcvm_move(k, 2, from, 1, &a->y, scatter_elements, &s);
    if (status == XCVM_OUT_OF_RANGE)
        XCVM_TRY(xcvm_indices_check(k, a->indices, "indices", count, a->x->dims[s.e.axis]));
    return status;
}

/* ---- Slices ---- */

typedef struct scattering_slices {
    xcvm_tuples u;
    combine with;
} scattering_slices;

enum { BLOCK = 256 }; /* offsets computed together */

/* Slices of one element. */
static xcvm_status scatter_points(const xcvm_moving *m, const scattering_slices *s, xcvm_poller *poller)
{
    ptrdiff_t offsets[BLOCK];
    for (size_t done = 0; done < s->u.count; done += BLOCK) {
        const size_t n = s->u.count - done < BLOCK ? s->u.count - done : BLOCK;
        const char *from = (const char *)m->from[1] + done * m->size;
        xcvm_tuples_offsets(&s->u, done, n, offsets);
        if (s->with != NULL)
            s->with(m->to[0], from, n, offsets);
        else
            xcvm_move_scatter(m->to[0], from, m->size, n, offsets);
        XCVM_TRY(xcvm_poll_after(poller, n));
    }
    return XCVM_OK;
}

static xcvm_status scatter_slices(const xcvm_moving *m, const void *context)
{
    const scattering_slices *s = context;
    size_t run = s->u.slice * m->size;
    XCVM_TRY(start(m, xcvm_element_count(s->u.x)));
    xcvm_poller poller = xcvm_poller_of(m->k);
    if (s->u.slice == 1)
        return scatter_points(m, s, &poller);
    ptrdiff_t offsets[BLOCK];
    for (size_t i = 0; i < s->u.count && run != 0; i++) {
        if (i % BLOCK == 0)
            xcvm_tuples_offsets(&s->u, i, xcvm_min(s->u.count - i, BLOCK), offsets);
        char *to = (char *)m->to[0] + (size_t)offsets[i % BLOCK] * m->size;
        const char *from = (const char *)m->from[1] + i * run;
        XCVM_TRY(xcvm_poll_after(&poller, 1 + s->u.slice));
        if (s->with != NULL)
            s->with(to, from, s->u.slice, NULL);
        else
            memcpy(to, from, run);
    }
    return XCVM_OK;
}

xcvm_status xcvm_check_scattered_slices(xcvm_error *error, const xcvm_ScatterND_args *a)
{
    const xcvm_value *x = a->x, *indices = a->indices, *updates = a->updates;
    char text[192];
    XCVM_CHECK(error, x->rank >= 1 && indices->rank >= 1, SHAPE_MISMATCH, "x and indices need at least one dimension");
    int64_t length = indices->dims[indices->rank - 1];
    XCVM_CHECK(error, length >= 0 && length <= x->rank, SHAPE_MISMATCH,
               "the last dimension of indices is %lld, x has rank %d", (long long)length, x->rank);
    int rank = indices->rank - 1 + x->rank - (int)length;
    bool fits = updates->rank == rank;
    for (int i = 0; fits && i < rank; i++)
        fits = updates->dims[i] ==
               (i < indices->rank - 1 ? indices->dims[i] : x->dims[i - (indices->rank - 1) + (int)length]);
    XCVM_CHECK(error, fits, SHAPE_MISMATCH, "updates of shape %s does not hold one slice of x for each index tuple",
               xcvm_dims_describe(updates->rank, updates->dims, text, sizeof text));
    return XCVM_OK;
}

XCVM_KERNEL(ScatterND)
{
    XCVM_TRY(xcvm_check_scattered_slices(k->error, a));
    const xcvm_value *from[2] = {a->x, a->updates};
    scattering_slices s = {.u = xcvm_tuples_of(a->x, a->indices, 0)};
    XCVM_TRY(choose(k, a->x->dtype, a->reduction, &s.with));
    XCVM_TRY(xcvm_tuples_check(k, &s.u));
    return xcvm_move(k, 2, from, 1, &a->y, scatter_slices, &s);
}

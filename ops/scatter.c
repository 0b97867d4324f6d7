/* ScatterElements and ScatterND: updates written into a copy of x, or combined with what is there. */
#include "ops/gather.h"
#include "ops/index.h"
#include "ops/move.h"

/* ---- Combining ---- */

/* Combines `count` elements of updates into x. */
typedef void (*combine)(void *x, const void *updates, size_t count);

#define SUM(x, u) ((x) + (u))
#define PRODUCT(x, u) ((x) * (u))
/* NaN, which alone differs from itself, wins. */
#define GREATER(x, u) ((x) > (u) || (x) != (x) ? (x) : (u))
#define LESSER(x, u) ((x) < (u) || (x) != (x) ? (x) : (u))
#define DEFINE_COMBINE(name, type, wide, load, store, operation)                                                       \
    static void name(void *x, const void *updates, size_t count)                                                       \
    {                                                                                                                  \
        type *to = x;                                                                                                  \
        const type *from = updates;                                                                                    \
        for (size_t i = 0; i < count; i++) {                                                                           \
            wide left = load(to[i]), right = load(from[i]);                                                            \
            to[i] = store(operation(left, right));                                                                     \
        }                                                                                                              \
    }
#define DEFINE_COMBINES(name, type, wide, load, store, order, load_order)                                              \
    DEFINE_COMBINE(add_##name, type, wide, load, store, SUM)                                                           \
    DEFINE_COMBINE(mul_##name, type, wide, load, store, PRODUCT)                                                       \
    DEFINE_COMBINE(max_##name, type, order, load_order, store, GREATER)                                                \
    DEFINE_COMBINE(min_##name, type, order, load_order, store, LESSER)
#define DEFINE_FLOAT(name, type, wide, load, store) DEFINE_COMBINES(name, type, wide, load, store, wide, load)
/* Integers are added and multiplied without a sign, so that they wrap. */
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

/* NULL where the element type cannot be combined. Of bools, the sum is "or" and the product "and". */
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

/* *with is NULL to overwrite. */
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

/* The result starts as x, unless it is x. */
static xcvm_status start(const xcvm_moving *m, size_t count)
{
    return m->to[0] != m->from[0] ? xcvm_kernel_copy(m->k, m->to[0], m->from[0], count * m->size) : XCVM_OK;
}

/* ---- Elements ---- */

typedef struct scattering {
    xcvm_elementwise e;
    combine with;
} scattering;

static xcvm_status scatter_elements(const xcvm_moving *m, const void *context)
{
    const scattering *s = context;
    size_t count = xcvm_element_count(s->e.indices);
    XCVM_TRY(start(m, xcvm_element_count(s->e.x)));
    xcvm_position at = {.to = 0};
    xcvm_poller poller = xcvm_poller_of(m->k);
    for (size_t i = 0; i < count; i++, xcvm_position_advance(&s->e.walk, &at)) {
        char *to = (char *)m->to[0] + xcvm_elementwise_offset(&s->e, &at, i) * m->size;
        const char *from = (const char *)m->from[1] + i * m->size;
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        if (s->with != NULL)
            s->with(to, from, 1);
        else
            xcvm_move_element(to, from, m->size);
    }
    return XCVM_OK;
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
    XCVM_TRY(xcvm_indices_check(k, a->indices, "indices", count, a->x->dims[s.e.axis]));
    return xcvm_move(k, 2, from, 1, &a->y, scatter_elements, &s);
}

/* ---- Slices ---- */

typedef struct scattering_slices {
    xcvm_tuples u;
    combine with;
} scattering_slices;

static xcvm_status scatter_slices(const xcvm_moving *m, const void *context)
{
    const scattering_slices *s = context;
    size_t run = s->u.slice * m->size;
    XCVM_TRY(start(m, xcvm_element_count(s->u.x)));
    xcvm_poller poller = xcvm_poller_of(m->k);
    for (size_t i = 0; i < s->u.count && run != 0; i++) {
        char *to = (char *)m->to[0] + xcvm_tuples_offset(&s->u, i) * m->size;
        const char *from = (const char *)m->from[1] + i * run;
        XCVM_TRY(xcvm_poll_after(&poller, 1 + s->u.slice));
        if (s->with != NULL)
            s->with(to, from, s->u.slice);
        else
            memcpy(to, from, run);
    }
    return XCVM_OK;
}

static xcvm_status check_slices(xcvm_error *error, const xcvm_ScatterND_args *a)
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
    XCVM_TRY(check_slices(k->error, a));
    const xcvm_value *from[2] = {a->x, a->updates};
    scattering_slices s = {.u = xcvm_tuples_of(a->x, a->indices, 0)};
    XCVM_TRY(choose(k, a->x->dtype, a->reduction, &s.with));
    XCVM_TRY(xcvm_tuples_check(k, &s.u));
    return xcvm_move(k, 2, from, 1, &a->y, scatter_slices, &s);
}

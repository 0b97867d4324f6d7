/* Expand and Tile: elements repeated along dimensions. */
#include "ops/move.h"
#include "ops/strided.h"

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

static xcvm_status tile(const xcvm_moving *m, const void *context)
{
    const xcvm_Tile_args *a = context;
    ptrdiff_t from[XCVM_MAX_RANK], to[XCVM_MAX_RANK];
    xcvm_row_major(a->x->rank, a->x->dims, from);
    xcvm_row_major(a->y->rank, a->y->dims, to);
    xcvm_strided s = {.rank = 0};
    /* Each dimension becomes two: the repeats, and what is repeated. */
    for (int i = 0; i < a->x->rank; i++) {
        int64_t dim = a->x->dims[i];
        xcvm_strided_axis(&s, dim != 0 ? (size_t)(a->y->dims[i] / dim) : 0, (ptrdiff_t)dim * to[i], 0);
        xcvm_strided_axis(&s, (size_t)dim, to[i], from[i]);
    }
    return xcvm_strided_copy(m->k, &s, m->size, m->to[0], m->from[0]);
}

XCVM_KERNEL(Tile) { return xcvm_move_one(k, a->x, a->y, tile, a); }

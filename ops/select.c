/* NonZero and Compress: what a condition holds for. */
#include "ops/index.h"
#include "ops/move.h"

XCVM_SHAPE_RULE_OF(NonZero)
{
    (void)t;
    int64_t dims[2] = {a->x->rank, XCVM_ANY_DIM};
    xcvm_value_set_tensor(a->y, XCVM_I64, 2, dims);
    return XCVM_OK;
}

static bool is_zero(const xcvm_value *x, size_t i)
{
    static const uint8_t zeros[8];
    size_t size = xcvm_dtype_size(x->dtype);
    const char *at = XCVM_CDATA(char, x) + i * size;
    if (memcmp(at, zeros, size) == 0)
        return true;
    /* There is a second zero among floats. */
    return xcvm_dtype_is_float(x->dtype) && xcvm_element_as_double(x, i) == 0;
}

XCVM_KERNEL(NonZero)
{
    const xcvm_value *x = a->x;
    size_t count = xcvm_element_count(x), found = 0;
    for (size_t i = 0; i < count; i++)
        found += !is_zero(x, i);
    int64_t dims[2] = {x->rank, (int64_t)found};
    XCVM_TRY(xcvm_kernel_allocate(k, a->y, XCVM_I64, 2, dims));
    int64_t *to = a->y->data;
    size_t column = 0;
    for (size_t i = 0; i < count && x->rank > 0; i++) {
        if (is_zero(x, i))
            continue;
        size_t rest = i;
        for (int d = x->rank - 1; d >= 0; d--) {
            to[(size_t)d * found + column] = (int64_t)(rest % (size_t)x->dims[d]);
            rest /= (size_t)x->dims[d];
        }
        column++;
    }
    return XCVM_OK;
}

/* Compress takes elements of x flattened where the axis is this low. */
static bool flattens(const xcvm_Compress_args *a) { return a->axis < -XCVM_MAX_RANK; }

XCVM_SHAPE_RULE_OF(Compress)
{
    const xcvm_value *x = a->x;
    int axis = 0;
    XCVM_REQUIRE(t, a->condition->rank < 0 || a->condition->rank == 1, SHAPE_MISMATCH,
                 "condition has rank %d, 1 is needed", a->condition->rank);
    if (flattens(a)) {
        xcvm_set_unknown(a->y, a->y->dtype, 1);
        return XCVM_OK;
    }
    if (x->rank < 0) {
        xcvm_set_unknown(a->y, a->y->dtype, -1);
        return XCVM_OK;
    }
    int64_t dims[XCVM_MAX_RANK];
    XCVM_TRY(xcvm_resolve_axis(t->error, a->axis, x->rank, &axis));
    memcpy(dims, x->dims, sizeof dims);
    dims[axis] = XCVM_ANY_DIM;
    xcvm_value_set_tensor(a->y, a->y->dtype, x->rank, dims);
    return XCVM_OK;
}

typedef struct compressing {
    const xcvm_Compress_args *a;
    xcvm_around x;
    size_t conditions;
} compressing;

static xcvm_status compress(const xcvm_moving *m, const void *context)
{
    const compressing *c = context;
    const uint8_t *condition = c->a->condition->data;
    size_t run = c->x.inner * m->size;
    char *to = m->to[0];
    for (size_t o = 0; o < c->x.outer && run != 0; o++)
        for (size_t i = 0; i < c->conditions; i++)
            if (condition[i]) {
                memcpy(to, (const char *)m->from[0] + (o * c->x.dim + i) * run, run);
                to += run;
            }
    return XCVM_OK;
}

XCVM_KERNEL(Compress)
{
    compressing c = {.a = a, .conditions = xcvm_element_count(a->condition)};
    int rank = 1, axis = 0;
    int64_t dims[XCVM_MAX_RANK];
    if (flattens(a)) {
        c.x = (xcvm_around){1, xcvm_element_count(a->x), 1};
    } else {
        XCVM_TRY(xcvm_resolve_axis(k->error, a->axis, a->x->rank, &axis));
        c.x = xcvm_around_axis(a->x, axis);
        rank = a->x->rank;
        memcpy(dims, a->x->dims, sizeof dims);
    }
    dims[axis] = 0;
    for (size_t i = 0; i < c.conditions; i++) {
        bool taken = XCVM_CDATA(uint8_t, a->condition)[i] != 0;
        XCVM_CHECK(k->error, !taken || i < c.x.dim, OUT_OF_RANGE,
                   "element %zu of condition is true, but there are only %zu slices", i, c.x.dim);
        dims[axis] += taken;
    }
    if (a->x->dtype == XCVM_STRING)
        xcvm_value_set_tensor(a->y, XCVM_STRING, rank, dims);
    else
        XCVM_TRY(xcvm_kernel_allocate(k, a->y, a->x->dtype, rank, dims));
    return xcvm_move_one(k, a->x, a->y, compress, &c);
}

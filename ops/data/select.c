/* NonZero and Compress: what a condition holds for. */
#include "ops/index.h"
#include "ops/move.h"
#include "ops/strided.h"

XCVM_SHAPE_RULE_OF(NonZero)
{
    (void)t;
    int64_t dims[2] = {a->x->rank, XCVM_ANY_DIM};
    xcvm_value_set_tensor(a->y, XCVM_I64, 2, dims);
    return XCVM_OK;
}

/* Bits of an element that are all zero in a zero: not the sign of a float, which has two of them. */
static uint64_t significant(xcvm_dtype dtype)
{
    uint64_t all = UINT64_MAX >> (64 - xcvm_dtype_bits(dtype));
    return xcvm_dtype_is_float(dtype) ? all >> 1 : all;
}

/* Whether each of `count` elements is not zero, counted. */
static size_t count_marks(const xcvm_value *x, size_t begin, size_t count, uint8_t *marks)
{
    size_t found = 0;
    uint64_t mask = significant(x->dtype);
#define MARK(type)                                                                                                     \
    for (size_t i = 0; i < count; i++) {                                                                               \
        marks[i] = (XCVM_CDATA(type, x)[begin + i] & (type)mask) != 0;                                                 \
        found += marks[i];                                                                                             \
    }
    switch (xcvm_dtype_size(x->dtype)) {
    case 1:
        MARK(uint8_t)
        break;
    case 2:
        MARK(uint16_t)
        break;
    case 4:
        MARK(uint32_t)
        break;
    default:
        MARK(uint64_t)
        break;
    }
    return found;
}

/* How many elements are marked at once. */
enum { BLOCK = 4096 };

XCVM_KERNEL(NonZero)
{
    const xcvm_value *x = a->x;
    size_t count = xcvm_element_count(x), found = 0, column = 0;
    uint8_t marks[BLOCK];
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        XCVM_TRY(xcvm_poll_after(&poller, BLOCK));
        found += count_marks(x, begin, count - begin < BLOCK ? count - begin : BLOCK, marks);
    }
    int64_t dims[2] = {x->rank, (int64_t)found};
    XCVM_TRY(xcvm_kernel_allocate(k, a->y, XCVM_I64, 2, dims));
    if (found == 0 || x->rank == 0)
        return XCVM_OK;
    xcvm_strided walk = {.rank = 0};
    for (int d = 0; d < x->rank; d++)
        xcvm_strided_axis(&walk, (size_t)x->dims[d], 0, 0);
    xcvm_position at = {.to = 0};
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        size_t length = count - begin < BLOCK ? count - begin : BLOCK;
        XCVM_TRY(xcvm_poll_after(&poller, BLOCK));
        count_marks(x, begin, length, marks);
        for (size_t i = 0; i < length; i++, xcvm_position_advance(&walk, &at)) {
            if (!marks[i])
                continue;
            for (int d = 0; d < x->rank; d++)
                XCVM_DATA(int64_t, a->y)[(size_t)d * found + column] = (int64_t)at.index[d];
            column++;
        }
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

/* Single elements: where to go on with the next one does not depend on a branch that could be foretold wrongly. */
static xcvm_status compress_elements(const xcvm_moving *m, const compressing *c)
{
    enum { AT_ONCE = 256 };
    const uint8_t *condition = c->a->condition->data;
    const size_t count = c->conditions < c->x.dim ? c->conditions : c->x.dim;
    ptrdiff_t offsets[AT_ONCE];
    char *to = m->to[0];
    xcvm_poller poller = xcvm_poller_of(m->k);
    for (size_t o = 0; o < c->x.outer; o++)
        for (size_t i = 0; i < count; i += AT_ONCE) {
            const size_t n = count - i < AT_ONCE ? count - i : AT_ONCE;
            size_t taken = 0;
            for (size_t j = 0; j < n; j++) {
                offsets[taken] = (ptrdiff_t)(o * c->x.dim + i + j);
                taken += condition[i + j] != 0;
            }
            xcvm_move_gather(to, m->from[0], m->size, taken, offsets);
            to += taken * m->size;
            XCVM_TRY(xcvm_poll_after(&poller, n));
        }
    return XCVM_OK;
}

static xcvm_status compress(const xcvm_moving *m, const void *context)
{
    const compressing *c = context;
    if (c->x.inner == 1)
        return compress_elements(m, c);
    const uint8_t *condition = c->a->condition->data;
    size_t run = c->x.inner * m->size;
    char *to = m->to[0];
    xcvm_poller poller = xcvm_poller_of(m->k);
    for (size_t o = 0; o < c->x.outer && run != 0; o++)
        for (size_t i = 0; i < c->conditions; i++) {
            XCVM_TRY(xcvm_poll_after(&poller, condition[i] ? 1 + run / XCVM_STEP_BYTES : 1));
            if (condition[i]) {
                XCVM_TRY(xcvm_kernel_copy(m->k, to, (const char *)m->from[0] + (o * c->x.dim + i) * run, run));
                to += run;
            }
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
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < c.conditions; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
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

/* NonZero and Compress: selection by a condition. */
#include "ops/util/index.h"
#include "ops/util/move.h"
#include "ops/util/strided.h"

XCVM_SHAPE_RULE_OF(NonZero)
{
    (void)t;
    int64_t dims[2] = {a->x->rank, XCVM_ANY_DIM};
    xcvm_value_set_tensor(a->y, XCVM_I64, 2, dims);
    return XCVM_OK;
}

/* Bits of an element that are all zero exactly if it is zero: without the sign bit of floats. */
static uint64_t significant(xcvm_dtype dtype)
{
    uint64_t all = UINT64_MAX >> (64 - xcvm_dtype_bits(dtype));
    return xcvm_dtype_is_float(dtype) ? all >> 1 : all;
}

/* Elements marked together, and marks tested together. */
enum { BLOCK = 4096, WORD = 8 };

/* Marks nonzero elements, clears the marks after them, and returns their number. */
static size_t count_marks(const xcvm_value *x, size_t begin, size_t count, uint8_t marks[BLOCK])
{
    size_t found = 0;
    uint64_t mask = significant(x->dtype);
#define MARK(type)                                                                                                     \
    do {                                                                                                               \
        const type *restrict from = XCVM_CDATA(type, x) + begin;                                                       \
        for (size_t i = 0; i < count; i++)                                                                             \
            to[i] = (from[i] & (type)mask) != 0;                                                                       \
    } while (0)
    uint8_t *restrict to = marks;
    switch (xcvm_dtype_size(x->dtype)) {
    case 1:
        MARK(uint8_t);
        break;
    case 2:
        MARK(uint16_t);
        break;
    case 4:
        MARK(uint32_t);
        break;
    default:
        MARK(uint64_t);
        break;
    }
    memset(marks + count, 0, BLOCK - count);
    for (size_t i = 0; i < count; i += WORD) {
        uint64_t word;
        memcpy(&word, marks + i, WORD);
        found += (size_t)(word * UINT64_C(0x0101010101010101) >> 56);
    }
    return found;
}

/* Lists the positions of set marks among `count`, which are followed by cleared ones. */
static size_t find_marks(const uint8_t marks[BLOCK], size_t count, uint16_t places[BLOCK])
{
    size_t found = 0;
    for (size_t i = 0; i < count; i += WORD) {
        uint64_t word;
        memcpy(&word, marks + i, WORD);
        if (word == 0)
            continue;
        for (size_t j = 0; j < WORD; j++) {
            places[found] = (uint16_t)(i + j);
            found += marks[i + j];
        }
    }
    return found;
}

/* Iteration over the rows of x, along its last axis. */
typedef struct rows {
    xcvm_strided axes; /* all axes but the last */
    xcvm_position at;
    size_t begin, length; /* of the row: its start in x */
} rows;

/* Advances to the row of element `place`, which must not precede the current one. */
static void seek_row(rows *r, size_t place)
{
    enum { NEAR = 4 };
    if ((place - r->begin) / NEAR >= r->length) {
        r->at = xcvm_position_at(&r->axes, place / r->length);
        r->begin = place / r->length * r->length;
    }
    for (; place - r->begin >= r->length; r->begin += r->length)
        xcvm_position_advance(&r->axes, &r->at);
}

XCVM_KERNEL(NonZero)
{
    const xcvm_value *x = a->x;
    const size_t count = xcvm_element_count(x);
    size_t found = 0, column = 0;
    uint8_t marks[BLOCK];
    uint16_t places[BLOCK];
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        XCVM_TRY(xcvm_poll_after(&poller, BLOCK));
        found += count_marks(x, begin, count - begin < BLOCK ? count - begin : BLOCK, marks);
    }
    int64_t dims[2] = {x->rank, (int64_t)found};
    XCVM_TRY(xcvm_kernel_allocate(k, a->y, XCVM_I64, 2, dims));
    if (found == 0 || x->rank == 0)
        return XCVM_OK;
    const int last = x->rank - 1;
    rows row = {.axes = {.rank = 0}, .length = (size_t)x->dims[last]};
    for (int d = 0; d < last; d++)
        xcvm_strided_axis(&row.axes, (size_t)x->dims[d], 0, 0);
    int64_t *y = a->y->data;
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        const size_t length = count - begin < BLOCK ? count - begin : BLOCK;
        XCVM_TRY(xcvm_poll_after(&poller, BLOCK));
        count_marks(x, begin, length, marks);
        const size_t marked = find_marks(marks, length, places);
        for (size_t i = 0; i < marked; i++, column++) {
            const size_t place = begin + places[i];
            if (place - row.begin >= row.length)
                seek_row(&row, place);
            for (int d = 0; d < last; d++)
                y[(size_t)d * found + column] = (int64_t)row.at.index[d];
            y[(size_t)last * found + column] = (int64_t)(place - row.begin);
        }
    }
    return XCVM_OK;
}

/* An axis this low means that Compress flattens x. */
static bool flattens(const xcvm_Compress_args *a) { return a->axis < -XCVM_MAX_RANK; }

XCVM_SHAPE_RULE_OF(Compress)
{
    const xcvm_value *x = a->x;
    int axis = 0;
    XCVM_CHECK(t->error, a->condition->rank < 0 || a->condition->rank == 1, SHAPE_MISMATCH,
               "condition has the wrong rank (%d; expected 1)", a->condition->rank);
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

typedef struct sixteen_bytes {
    uint64_t words[2];
} sixteen_bytes;

/* Elements processed together. */
enum { AT_ONCE = 256 };

/* Single elements: the next output position is computed without a branch, which would be unpredictable. */
static size_t take_elements(void *to, const void *from, size_t size, size_t count, const uint8_t *condition)
{
    size_t taken = 0;
#define TAKE(type)                                                                                                     \
    do {                                                                                                               \
        const type *elements = from;                                                                                   \
        type kept[AT_ONCE];                                                                                            \
        for (size_t i = 0; i < count; i++) {                                                                           \
            kept[taken] = elements[i];                                                                                 \
            taken += condition[i] != 0;                                                                                \
        }                                                                                                              \
        memcpy(to, kept, taken * sizeof(type));                                                                        \
    } while (0)
    switch (size) {
    case 1:
        TAKE(uint8_t);
        break;
    case 2:
        TAKE(uint16_t);
        break;
    case 4:
        TAKE(uint32_t);
        break;
    case 8:
        TAKE(uint64_t);
        break;
    default:
        TAKE(sixteen_bytes);
        break;
    }
#undef TAKE
    return taken;
}

static xcvm_status compress_elements(const xcvm_moving *m, const compressing *c)
{
    const uint8_t *condition = c->a->condition->data;
    const size_t count = c->conditions < c->x.dim ? c->conditions : c->x.dim;
    char *to = m->to[0];
    xcvm_poller poller = xcvm_poller_of(m->k);
    for (size_t o = 0; o < c->x.outer && count != 0; o++)
        for (size_t i = 0; i < count; i += AT_ONCE) {
            const size_t n = count - i < AT_ONCE ? count - i : AT_ONCE;
            const char *from = (const char *)m->from[0] + (o * c->x.dim + i) * m->size;
            to += m->size * take_elements(to, from, m->size, n, condition + i);
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
    for (size_t o = 0; o < c->x.outer && run != 0 && c->conditions != 0; o++)
        for (size_t i = 0; i < c->conditions; i++) {
            XCVM_TRY(xcvm_poll_after(&poller, condition[i] ? 1 + run / XCVM_STEP_BYTES : 1));
            if (condition[i]) {
                XCVM_TRY(xcvm_kernel_copy(m->k, to, (const char *)m->from[0] + (o * c->x.dim + i) * run, run));
                to += run;
            }
        }
    return XCVM_OK;
}

static int64_t count_taken(const uint8_t *condition, size_t count)
{
    int64_t taken = 0;
    for (size_t i = 0; i < count; i++)
        taken += condition[i] != 0;
    return taken;
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
    for (size_t i = 0; i < c.conditions; i += AT_ONCE) {
        const size_t n = c.conditions - i < AT_ONCE ? c.conditions - i : AT_ONCE;
        XCVM_TRY(xcvm_poll_after(&poller, n));
        dims[axis] += count_taken(XCVM_CDATA(uint8_t, a->condition) + i, n);
    }
    for (size_t i = c.x.dim; i < c.conditions; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        XCVM_CHECK(k->error, XCVM_CDATA(uint8_t, a->condition)[i] == 0, OUT_OF_RANGE,
                   "element %zu of condition is true, but there are only %zu slices", i, c.x.dim);
    }
    if (a->x->dtype == XCVM_STRING)
        xcvm_value_set_tensor(a->y, XCVM_STRING, rank, dims);
    else
        XCVM_TRY(xcvm_kernel_allocate(k, a->y, a->x->dtype, rank, dims));
    return xcvm_move_one(k, a->x, a->y, compress, &c);
}

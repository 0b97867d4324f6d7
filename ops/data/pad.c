/* Pad: constant, reflected, replicated and wrapped borders. */
#include "ops/util/move.h"

/* Added sizes of each dimension; negative: removed sizes. */
typedef struct padding {
    int64_t before[XCVM_MAX_RANK], after[XCVM_MAX_RANK];
} padding;

/* *known is set if all pads are known. Otherwise *touched is a bit mask of axes that may change. */
static xcvm_status read_padding(xcvm_error *error, const xcvm_Pad_args *a, int rank, padding *p, bool *known,
                                unsigned *touched)
{
    int64_t pads[2 * XCVM_MAX_RANK], axes[XCVM_MAX_RANK];
    size_t count, axis_count = (size_t)rank;
    bool axes_known = true;
    memset(p, 0, sizeof *p);
    for (int i = 0; i < XCVM_MAX_RANK; i++)
        axes[i] = i;
    *touched = ~0U;
    if (a->axes != NULL)
        XCVM_TRY(xcvm_read_ints(error, a->axes, "axes", axes, XCVM_MAX_RANK, &axis_count, &axes_known));
    XCVM_TRY(xcvm_read_ints(error, a->pads, "pads", pads, 2 * XCVM_MAX_RANK, &count, known));
    *known = *known && axes_known;
    if (!axes_known)
        return XCVM_OK;
    XCVM_CHECK(error, !*known || count == 2 * axis_count, SHAPE_MISMATCH,
               "pads has the wrong number of elements (%zu; expected %zu)", count, 2 * axis_count);
    *touched = 0;
    for (size_t i = 0; i < axis_count; i++) {
        int axis;
        XCVM_TRY(xcvm_resolve_axis(error, axes[i], rank, &axis));
        XCVM_CHECK(error, !(*touched >> axis & 1), INVALID_ARGUMENT, "axis %d is given twice", axis);
        *touched |= 1U << axis;
        if (*known) {
            /* Larger than any memory, but small enough to be added and negated. */
            const int64_t most = INT64_MAX / 4;
            XCVM_CHECK(error,
                       pads[i] >= -most && pads[i] <= most && pads[i + axis_count] >= -most &&
                           pads[i + axis_count] <= most,
                       OUT_OF_RANGE, "pads of axis %d are %lld and %lld", axis, (long long)pads[i],
                       (long long)pads[i + axis_count]);
            p->before[axis] = pads[i];
            p->after[axis] = pads[i + axis_count];
        }
    }
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(Pad)
{
    const xcvm_value *x = a->x;
    int64_t dims[XCVM_MAX_RANK];
    padding p;
    bool known;
    unsigned touched;
    if (a->value != NULL)
        XCVM_TRY(xcvm_scalar_check(t->error, a->value, "value", &known));
    if (x->rank < 0) {
        xcvm_set_unknown(a->y, a->y->dtype, -1);
        return XCVM_OK;
    }
    XCVM_TRY(read_padding(t->error, a, x->rank, &p, &known, &touched));
    for (int i = 0; i < x->rank; i++) {
        int64_t grown;
        dims[i] = x->dims[i];
        if (!known) {
            dims[i] = touched >> i & 1 ? XCVM_ANY_DIM : dims[i];
            continue;
        }
        XCVM_CHECK(t->error, !__builtin_add_overflow(p.before[i], p.after[i], &grown), OUT_OF_RANGE, "pads overflow");
        if (dims[i] < 0) {
            dims[i] = grown == 0 ? dims[i] : XCVM_ANY_DIM;
            continue;
        }
        XCVM_CHECK(t->error, !__builtin_add_overflow(dims[i], grown, &dims[i]) && dims[i] >= 0, OUT_OF_RANGE,
                   "dimension %d of x is %lld, padded by %lld and %lld it would be %lld", i, (long long)x->dims[i],
                   (long long)p.before[i], (long long)p.after[i], (long long)dims[i]);
        XCVM_CHECK(t->error, x->dims[i] > 0 || dims[i] == 0 || a->mode == XCVM_PAD_MODE_constant, OUT_OF_RANGE,
                   "dimension %d of x is empty: there is nothing to pad it with", i);
    }
    xcvm_value_set_tensor(a->y, a->y->dtype, x->rank, dims);
    return XCVM_OK;
}

/* Positions of y on an axis and the positions of x whose units they copy, `step` (-1, 0 or 1) apart. A negative `from`
 * means the constant padding value. */
typedef struct pad_loop {
    int64_t to, count, from, step;
} pad_loop;

/* The longest run from position `i` of a dimension of padded size `grown` with `before` positions before it. */
static pad_loop run_at(int mode, int64_t i, int64_t grown, int64_t before, int64_t dim)
{
    const int64_t at = i - before, rest = grown - i, outside = at < 0 && -at < rest ? -at : rest;
    pad_loop r = {i, outside, at < 0 ? 0 : dim - 1, 0};
    if (at >= 0 && at < dim) {
        r = (pad_loop){i, dim - at, at, 1};
    } else if (mode == XCVM_PAD_MODE_constant) {
        r.from = -1;
    } else if (mode == XCVM_PAD_MODE_wrap) {
        r.from = at % dim < 0 ? at % dim + dim : at % dim;
        r.count = dim - r.from;
        r.step = 1;
    } else if (mode == XCVM_PAD_MODE_reflect && dim > 1) {
        /* Reflection has period 2 * (dim - 1): forward and back. */
        const int64_t period = 2 * (dim - 1), place = at % period < 0 ? at % period + period : at % period;
        r = place < dim ? (pad_loop){i, dim - place, place, 1} : (pad_loop){i, period - place, period - place, -1};
    }
    r.count = r.count < rest ? r.count : rest;
    return r;
}

enum {
    GRAIN_BYTES = 64 * 1024, /* minimum bytes of a range */
    RUNS = 8,
    MOST_UNIT = 64,       /* maximum elements of a unit */
    SHORT_ROW = 64 * 1024 /* bytes that are copied without a poll */
};

/* Rows consist of units on the last padded axis; the axes after it are not padded. */
typedef struct filling {
    const xcvm_kernel *k;
    int mode;
    int outer; /* axes before that of the rows */
    int64_t in[XCVM_MAX_RANK], out[XCVM_MAX_RANK], before[XCVM_MAX_RANK];
    ptrdiff_t stride[XCVM_MAX_RANK]; /* strides of x in elements */
    size_t size, unit;               /* bytes of an element; elements of a unit */
    bool given;                      /* a value is given */
    const char *x, *value;
    char *y;
    pad_loop runs[RUNS]; /* first runs of a row */
    int run_count;
    bool whole; /* the row has no other runs */
} filling;

/* Copies the runs of a short row. */
#define DEFINE_ROW(bits, type)                                                                                         \
    static void put_runs_##bits(const pad_loop *runs, int run_count, type *restrict to, const type *restrict from,     \
                                const type *value)                                                                     \
    {                                                                                                                  \
        for (const pad_loop *r = runs; r < runs + run_count; r++) {                                                    \
            type *restrict at = to + r->to;                                                                            \
            if (r->step == 1) {                                                                                        \
                memcpy(at, from + r->from, (size_t)r->count * sizeof(type));                                           \
            } else if (r->step == 0) {                                                                                 \
                const type v = r->from < 0 ? *value : from[r->from];                                                   \
                for (ptrdiff_t i = 0; i < r->count; i++)                                                               \
                    at[i] = v;                                                                                         \
            } else {                                                                                                   \
                for (ptrdiff_t i = 0; i < r->count; i++)                                                               \
                    at[i] = from[r->from - i];                                                                         \
            }                                                                                                          \
        }                                                                                                              \
    }
DEFINE_ROW(8, uint8_t)
DEFINE_ROW(16, uint16_t)
DEFINE_ROW(32, uint32_t)
DEFINE_ROW(64, uint64_t)

/* Copies one run of units of any size. */
static xcvm_status put_run(const filling *f, xcvm_poller *poller, const pad_loop *r, char *to, const char *from)
{
    size_t size = f->size * f->unit, count = (size_t)r->count;
    to += (size_t)r->to * size;
    XCVM_TRY(xcvm_poll_after(poller, 1));
    if (r->from < 0)
        return xcvm_move_fill(f->k, to, f->value, f->size, count * f->unit);
    from += (size_t)r->from * size;
    if (r->step == 1)
        return xcvm_kernel_copy(f->k, to, from, count * size);
    for (size_t i = 0; i < count; i++) {
        memcpy(to + i * size, from + (ptrdiff_t)(i * size) * (ptrdiff_t)r->step, size);
        XCVM_TRY(xcvm_poll_after(poller, 1 + size / XCVM_STEP_BYTES));
    }
    return XCVM_OK;
}

static xcvm_status put_row(const filling *f, xcvm_poller *poller, size_t bytes, char *to, const char *from)
{
    const int axis = f->outer;
    XCVM_TRY(xcvm_poll_after(poller, 1 + bytes / XCVM_STEP_BYTES));
    if (f->whole && f->unit == 1 && f->size <= 8 && bytes <= SHORT_ROW) {
        if (f->size == 4)
            put_runs_32(f->runs, f->run_count, (uint32_t *)(void *)to, (const uint32_t *)(const void *)from,
                        (const uint32_t *)(const void *)f->value);
        else if (f->size == 1)
            put_runs_8(f->runs, f->run_count, (uint8_t *)to, (const uint8_t *)from, (const uint8_t *)f->value);
        else if (f->size == 2)
            put_runs_16(f->runs, f->run_count, (uint16_t *)(void *)to, (const uint16_t *)(const void *)from,
                        (const uint16_t *)(const void *)f->value);
        else
            put_runs_64(f->runs, f->run_count, (uint64_t *)(void *)to, (const uint64_t *)(const void *)from,
                        (const uint64_t *)(const void *)f->value);
        return XCVM_OK;
    }
    int64_t done = 0;
    for (int i = 0; i < f->run_count; i++) {
        XCVM_TRY(put_run(f, poller, &f->runs[i], to, from));
        done += f->runs[i].count;
    }
    while (done < f->out[axis]) {
        const pad_loop r = run_at(f->mode, done, f->out[axis], f->before[axis], f->in[axis]);
        XCVM_TRY(put_run(f, poller, &r, to, from));
        done += r.count;
    }
    return XCVM_OK;
}

/* Offset of the elements for position `i` of an outer axis; negative for the padding value. */
static ptrdiff_t offset_of(const filling *f, int axis, int64_t i)
{
    const int64_t at = i - f->before[axis];
    if (at >= 0 && at < f->in[axis])
        return (ptrdiff_t)at * f->stride[axis];
    return (ptrdiff_t)run_at(f->mode, i, f->out[axis], f->before[axis], f->in[axis]).from * f->stride[axis];
}

static void put_rows(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const filling *f = context;
    const size_t row_bytes = (size_t)f->out[f->outer] * f->unit * f->size;
    const pad_loop blank = {0, f->out[f->outer], -1, 0};
    int64_t place[XCVM_MAX_RANK];
    ptrdiff_t offset[XCVM_MAX_RANK];
    xcvm_poller poller = xcvm_poller_of(f->k);
    size_t rest = begin;
    for (int d = f->outer - 1; d >= 0; d--) {
        place[d] = (int64_t)(rest % (size_t)f->out[d]);
        offset[d] = offset_of(f, d, place[d]);
        rest /= (size_t)f->out[d];
    }
    char *to = f->y + begin * row_bytes;
    for (size_t row = begin; row < end; row++, to += row_bytes) {
        ptrdiff_t from = 0;
        bool outside = false;
        for (int d = 0; d < f->outer; d++) {
            outside |= offset[d] < 0;
            from += offset[d];
        }
        const xcvm_status status = outside ? put_run(f, &poller, &blank, to, NULL)
                                           : put_row(f, &poller, row_bytes, to, f->x + from * (ptrdiff_t)f->size);
        if (status != XCVM_OK)
            return;
        for (int d = f->outer - 1; d >= 0; d--) {
            place[d] = place[d] + 1 < f->out[d] ? place[d] + 1 : 0;
            offset[d] = offset_of(f, d, place[d]);
            if (place[d] != 0)
                break;
        }
    }
}

/* Plans a Pad. The plan does not depend on the elements. */
static filling plan(const xcvm_kernel *k, const xcvm_Pad_args *a, const padding *p)
{
    const xcvm_value *x = a->x, *y = a->y;
    filling f = {.k = k,
                 .mode = (int)a->mode,
                 .outer = x->rank - 1,
                 .unit = 1,
                 .given = a->value != NULL,
                 .in = {1},
                 .out = {1},
                 .stride = {1}};
    int64_t inner = 1;
    while (f.outer > 0 && p->before[f.outer] == 0 && x->dims[f.outer] == y->dims[f.outer] &&
           inner * x->dims[f.outer] <= MOST_UNIT)
        inner *= x->dims[f.outer--];
    f.unit = (size_t)inner;
    f.outer = f.outer > 0 ? f.outer : 0;
    ptrdiff_t stride = (ptrdiff_t)inner;
    for (int d = f.outer; d >= 0 && x->rank > 0; d--) {
        f.in[d] = x->dims[d];
        f.out[d] = y->dims[d];
        f.before[d] = p->before[d];
        f.stride[d] = stride;
        stride *= (ptrdiff_t)x->dims[d];
    }
    for (int64_t done = 0; done < f.out[f.outer] && f.run_count < RUNS; f.run_count++) {
        f.runs[f.run_count] = run_at(f.mode, done, f.out[f.outer], f.before[f.outer], f.in[f.outer]);
        done += f.runs[f.run_count].count;
        f.whole = done == f.out[f.outer];
    }
    return f;
}

static xcvm_status pad(const xcvm_moving *m, const void *context)
{
    filling f = *(const filling *)context;
    size_t rows = 1;
    f.size = m->size;
    f.x = m->from[0];
    f.value = f.given ? m->from[1] : m->zero;
    f.y = m->to[0];
    for (int d = 0; d < f.outer; d++)
        rows *= (size_t)f.out[d];
    const size_t row_bytes = (size_t)f.out[f.outer] * f.unit * f.size;
    if (rows == 0 || row_bytes == 0)
        return XCVM_OK;
    return xcvm_kernel_parallel(m->k, rows, 1 + GRAIN_BYTES / row_bytes, put_rows, &f);
}

XCVM_KERNEL(Pad)
{
    padding p;
    bool known;
    unsigned touched;
    XCVM_TRY(read_padding(k->error, a, a->x->rank, &p, &known, &touched));
    if (xcvm_element_count(a->y) == 0 && a->y->dtype != XCVM_STRING)
        return XCVM_OK;
    const filling f = plan(k, a, &p);
    const xcvm_value *from[2] = {a->x, a->value};
    return xcvm_move(k, a->value != NULL ? 2 : 1, from, 1, &a->y, pad, &f);
}

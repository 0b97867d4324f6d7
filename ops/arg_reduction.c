#include "ops/arg_reduction.h"

#include "ops/convert.h"
#include "ops/index.h"

#include <math.h>

typedef struct task {
    const xcvm_kernel *k;
    xcvm_arg_line line;
    const xcvm_value *x;
    int64_t *y;
    xcvm_around around;
    size_t blocks; /* of columns */
    bool greatest, last;
} task;

enum { COLUMNS = XCVM_BLOCK };

/* Columns [column, column + count) of one outer index. As f64, which holds all but the 64-bit integers exactly, or as
 * i64, u64 with its highest bit flipped into that order. */
static void run_columns(const task *t, size_t outer, size_t column, size_t count)
{
    const xcvm_around *around = &t->around;
    xcvm_dtype dtype = t->x->dtype;
    bool whole = xcvm_dtype_in(dtype, XCVM_TYPES_INT);
    uint64_t flip = dtype == XCVM_U64 ? UINT64_C(1) << 63 : 0;
    double best[COLUMNS], row[COLUMNS];
    int64_t best_whole[COLUMNS], row_whole[COLUMNS];
    int64_t *to = t->y + outer * around->inner + column;
    xcvm_poller poller = xcvm_poller_of(t->k);
    for (size_t i = 0; i < around->dim && xcvm_poll_after(&poller, 1 + count) == XCVM_OK; i++) {
        size_t first = (outer * around->dim + i) * around->inner + column;
        if (whole)
            xcvm_load_i64(dtype, t->x->data, first, count, row_whole);
        else
            xcvm_load_f64(dtype, t->x->data, first, count, row);
        for (size_t j = 0; j < count; j++) {
            bool better, same;
            if (whole) {
                int64_t v = (int64_t)((uint64_t)row_whole[j] ^ flip), b = i == 0 ? v : best_whole[j];
                row_whole[j] = v;
                better = t->greatest ? v > b : v < b;
                same = v == b;
            } else {
                double v = row[j], b = i == 0 ? v : best[j];
                better = (t->greatest ? v > b : v < b) || (isnan(v) && !isnan(b));
                same = v == b;
            }
            if (i == 0 || better || (same && t->last)) {
                to[j] = (int64_t)i;
                best[j] = row[j];
                best_whole[j] = row_whole[j];
            }
        }
    }
}

static void run_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const task *t = context;
    const xcvm_around *around = &t->around;
    for (size_t i = begin; i < end; i++) {
        if (t->x->dtype == XCVM_F32 && around->inner == 1) {
            const float *x = (const float *)t->x->data + i * around->dim;
            t->y[i] = (int64_t)t->line(x, around->dim, t->greatest, t->last);
        } else {
            size_t outer = i / t->blocks, column = i % t->blocks * COLUMNS;
            run_columns(t, outer, column, around->inner - column < COLUMNS ? around->inner - column : COLUMNS);
        }
    }
}

xcvm_status xcvm_arg_reduce(xcvm_kernel *k, xcvm_arg_line line, xcvm_value *y, const xcvm_value *x, int64_t axis,
                            bool greatest, bool last)
{
    int resolved;
    XCVM_TRY(xcvm_resolve_axis(k->error, axis, x->rank, &resolved));
    task t = {.k = k, .line = line, .x = x, .y = y->data, .greatest = greatest, .last = last};
    t.around = xcvm_around_axis(x, resolved);
    t.blocks = (t.around.inner + COLUMNS - 1) / COLUMNS;
    size_t columns = t.around.inner < COLUMNS ? t.around.inner : COLUMNS;
    return xcvm_kernel_parallel(k, t.around.outer * t.blocks, 32768 / (t.around.dim * columns + 1) + 1, run_range, &t);
}

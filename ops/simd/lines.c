/* Parallel loops over the lines of a tensor. */
#include "ops/simd/lines.h"

#include "ops/simd/halves.h"
#include "ops/util/index.h"

/* Computes the scratch elements of one worker: buffers for a tile's operand and result if they are converted or moved.
 */
static bool slice_of(const xcvm_lines *lines, size_t *elements)
{
    size_t columns = lines->inner < XCVM_TILE_COLUMNS ? lines->inner : XCVM_TILE_COLUMNS, tile = 0;
    if (lines->dtype != XCVM_F32)
        if (!xcvm_size_mul(lines->length, lines->dtype == XCVM_F64 ? 2 : 2 * columns, &tile))
            return false;
    return xcvm_size_add(tile, lines->spare + 16, elements) && *elements < SIZE_MAX / 2;
}

size_t xcvm_lines_scratch(const xcvm_kernel *k, const xcvm_lines *lines)
{
    size_t elements, bytes;
    if (lines->dtype == XCVM_F32 && lines->spare == 0)
        return 0;
    if (!slice_of(lines, &elements) ||
        !xcvm_size_mul(xcvm_round_up(elements, 16), (size_t)xcvm_threads_count(k->threads) * sizeof(double), &bytes))
        return SIZE_MAX;
    return bytes;
}

typedef struct lines_loop {
    const xcvm_kernel *k;
    const xcvm_lines *lines;
    size_t tiles; /* across inner */
    double *scratch;
    size_t slice; /* scratch elements of a worker */
} lines_loop;

static void run_f32(const xcvm_kernel *k, const xcvm_lines *l, size_t outer, size_t column, size_t columns,
                    float *spare)
{
    size_t first = outer * l->length * l->inner + column;
    const xcvm_tile tile = {.k = k,
                            .x = (const float *)l->x + first,
                            .y = (float *)l->y + first,
                            .x_stride = l->inner,
                            .y_stride = l->inner,
                            .length = l->length,
                            .columns = columns,
                            .index = outer * l->inner + column,
                            .spare = spare};
    l->f32(l->context, &tile);
}

static void run_halves(const xcvm_kernel *k, const xcvm_lines *l, size_t outer, size_t column, size_t columns,
                       float *scratch)
{
    /* A single line is read and written in pieces; several lines one row at a time. */
    const size_t first = outer * l->length * l->inner + column,
                 step = l->inner == 1 ? xcvm_min(l->length, XCVM_POLL_STEPS) : 1, apart = l->inner == 1 ? 1 : l->inner;
    float *x = scratch + l->spare, *y = x + l->length * columns;
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < l->length; i += step) {
        const size_t count = l->inner == 1 ? xcvm_min(step, l->length - i) : columns;
        if (xcvm_poll_after(&poller, count) != XCVM_OK)
            return;
        xcvm_halves_load(l->dtype, l->x, first + i * apart, count, x + i * columns);
    }
    const xcvm_tile tile = {.k = k,
                            .x = x,
                            .y = y,
                            .x_stride = columns,
                            .y_stride = columns,
                            .length = l->length,
                            .columns = columns,
                            .index = outer * l->inner + column,
                            .spare = scratch};
    l->f32(l->context, &tile);
    for (size_t i = 0; i < l->length; i += step) {
        const size_t count = l->inner == 1 ? xcvm_min(step, l->length - i) : columns;
        if (xcvm_poll_after(&poller, count) != XCVM_OK)
            return;
        xcvm_halves_store(l->dtype, l->y, first + i * apart, count, y + i * columns);
    }
}

static void run_f64(const xcvm_kernel *k, const xcvm_lines *l, size_t outer, size_t column, double *scratch)
{
    size_t first = outer * l->length * l->inner + column;
    const double *from = (const double *)l->x + first;
    double *to = (double *)l->y + first, *x = scratch + l->spare, *y = x + l->length;
    xcvm_poller poller = xcvm_poller_of(k);
    if (l->inner == 1) {
        /* The operand must stay unchanged until the line is done. */
        if (from == to && xcvm_kernel_copy(k, x, from, l->length * sizeof *x) != XCVM_OK)
            return;
        l->f64(k, l->context, from == to ? x : from, to, l->length, outer + column);
        return;
    }
    for (size_t i = 0; i < l->length; i++) {
        if (xcvm_poll_after(&poller, 1) != XCVM_OK)
            return;
        x[i] = from[i * l->inner];
    }
    l->f64(k, l->context, x, y, l->length, outer * l->inner + column);
    for (size_t i = 0; i < l->length; i++) {
        if (xcvm_poll_after(&poller, 1) != XCVM_OK)
            return;
        to[i * l->inner] = y[i];
    }
}

static void run_range(void *context, size_t begin, size_t end, int worker)
{
    const lines_loop *t = context;
    const xcvm_lines *l = t->lines;
    double *scratch = t->scratch != NULL ? t->scratch + (size_t)worker * t->slice : NULL;
    if (l->rows != NULL && l->dtype == XCVM_F32 && l->inner == 1 && l->length <= XCVM_ROW_LENGTH) {
        const size_t first = begin * l->length;
        l->rows(l->context, (const float *)l->x + first, (float *)l->y + first, l->length, end - begin);
        return;
    }
    for (size_t i = begin; i < end; i++) {
        size_t outer = i / t->tiles, column = i % t->tiles * XCVM_TILE_COLUMNS;
        size_t columns = l->inner - column < XCVM_TILE_COLUMNS ? l->inner - column : XCVM_TILE_COLUMNS;
        if (l->dtype == XCVM_F32)
            run_f32(t->k, l, outer, column, columns, (float *)scratch);
        else if (l->dtype != XCVM_F64)
            run_halves(t->k, l, outer, column, columns, (float *)scratch);
        else
            for (size_t j = column; j < column + columns && xcvm_kernel_poll(t->k) == XCVM_OK; j++)
                run_f64(t->k, l, outer, j, scratch);
    }
}

xcvm_status xcvm_lines_run(xcvm_kernel *k, const xcvm_lines *lines, void *scratch)
{
    lines_loop t = {.k = k,
                    .lines = lines,
                    .tiles = (lines->inner + XCVM_TILE_COLUMNS - 1) / XCVM_TILE_COLUMNS,
                    .scratch = scratch};
    if (lines->outer == 0 || lines->length == 0 || lines->inner == 0)
        return XCVM_OK;
    if (scratch != NULL) {
        (void)slice_of(lines, &t.slice);
        t.slice = xcvm_round_up(t.slice, 16);
    }
    size_t columns = lines->inner < XCVM_TILE_COLUMNS ? lines->inner : XCVM_TILE_COLUMNS;
    size_t work = lines->length * columns * lines->cost;
    return xcvm_kernel_parallel(k, lines->outer * t.tiles, 32768 / (work + 1) + 1, run_range, &t);
}

xcvm_status xcvm_lines_apply(xcvm_kernel *k, const xcvm_lines *lines)
{
    size_t bytes = xcvm_lines_scratch(k, lines);
    XCVM_CHECK(k->error, bytes != SIZE_MAX, OUT_OF_RANGE, "lines of %zu elements are too long", lines->length);
    void *scratch = NULL;
    if (bytes != 0) {
        scratch = xcvm_kernel_scratch(k, bytes);
        if (scratch == NULL)
            return XCVM_OUT_OF_MEMORY;
    }
    return xcvm_lines_run(k, lines, scratch);
}

xcvm_status xcvm_lines_along(xcvm_kernel *k, xcvm_value *y, const xcvm_value *x, int64_t axis, xcvm_lines lines)
{
    /* A scalar is one line of one element. */
    xcvm_around around = {1, 1, 1};
    if (x->rank != 0) {
        int resolved;
        XCVM_TRY(xcvm_resolve_axis(k->error, axis, x->rank, &resolved));
        around = xcvm_around_axis(x, resolved);
    }
    lines.outer = around.outer;
    lines.length = around.dim;
    lines.inner = around.inner;
    lines.dtype = x->dtype;
    lines.x = x->data;
    lines.y = y->data;
    return xcvm_lines_apply(k, &lines);
}

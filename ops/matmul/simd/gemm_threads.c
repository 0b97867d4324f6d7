/* The f32 product on several threads: partition by batch items, rows or columns, whichever is estimated to be fastest.
 */
#include "ops/matmul/packed.h"
#include "ops/matmul/simd/gemm.h"
#include "ops/matmul/simd/gemm_small.h"
#include "ops/matmul/simd/gemv.h"

enum {
    /* Minimum multiply-adds per thread. */
    THREAD_WORK = 400 * 1000,
    /* Parts per thread if parts pack nothing themselves, so that a delayed thread leaves some to others. */
    THREAD_PARTS = 4
};

typedef enum split { SPLIT_ITEMS, SPLIT_ROWS, SPLIT_COLUMNS } split;

typedef struct product_loop {
    const xcvm_kernel *k;
    const xcvm_gemm_batch *batch;
    split split;
    bool gemv, outer, small;
    size_t parts, scratch_bytes;
    char *scratch;   /* scratch_bytes for each thread */
    uint32_t status; /* atomic; the first failure */
} product_loop;

static size_t share(size_t units, size_t parts, size_t i) { return units / parts * i + (units % parts * i) / parts; }

/* Columns are split between panels if the matrix is packed. */
static size_t column_unit(const xcvm_gemm *g)
{
    if (g->b_ahead)
        return g->m == 1 ? XCVM_GEMV_GROUP : XCVM_PACKED_COLUMNS;
    return g->b_packed ? XCVM_GEMM_PANEL : XCVM_LANES;
}

static void run_parts(void *context, size_t begin, size_t end, int worker)
{
    product_loop *w = context;
    const xcvm_gemm_batch *batch = w->batch;
    const xcvm_gemm *shape = &batch->shape;
    char *scratch = w->scratch != NULL ? w->scratch + (size_t)worker * w->scratch_bytes : NULL;
    xcvm_poller poller = xcvm_poller_of(w->k);
    for (size_t i = begin; i < end; i++) {
        size_t first = 0, last = batch->count, m0 = 0, m1 = shape->m, n0 = 0, n1 = shape->n;
        if (w->split == SPLIT_ITEMS) {
            first = share(batch->count, w->parts, i);
            last = share(batch->count, w->parts, i + 1);
        } else if (w->split == SPLIT_ROWS) {
            const size_t units = (shape->m + XCVM_GEMM_ROWS - 1) / XCVM_GEMM_ROWS;
            m0 = xcvm_min(share(units, w->parts, i) * XCVM_GEMM_ROWS, shape->m);
            m1 = xcvm_min(share(units, w->parts, i + 1) * XCVM_GEMM_ROWS, shape->m);
        } else {
            const size_t unit = column_unit(shape), units = (shape->n + unit - 1) / unit;
            n0 = xcvm_min(share(units, w->parts, i) * unit, shape->n);
            n1 = xcvm_min(share(units, w->parts, i + 1) * unit, shape->n);
        }
        for (size_t item = first; item < last; item++) {
            xcvm_gemm g = *shape;
            if (batch->at != NULL)
                batch->at(batch->context, item, &g);
            xcvm_status status = (xcvm_status)__atomic_load_n(&w->status, __ATOMIC_RELAXED);
            if (status != XCVM_OK)
                return;
            if (w->gemv)
                status = xcvm_gemv_part(w->k, &g, m0 + n0, shape->m == 1 ? n1 : m1);
            else if (w->outer && xcvm_gemm_outer_fits(&g)) /* this also depends on pointers */
                status = xcvm_gemm_outer_part(&poller, &g, m0, m1);
            else if (w->small)
                status = xcvm_gemm_small_part(&poller, &g, m0, m1);
            else
                status = xcvm_gemm_part(w->k, &g, m0, m1, n0, n1, scratch);
            if (status != XCVM_OK)
                __atomic_store_n(&w->status, (uint32_t)status, __ATOMIC_RELAXED);
        }
    }
}

/* Time of the slowest thread, in multiply-adds of one product, if units are distributed over threads. */
static double slowest(double total, size_t units, size_t threads)
{
    return total * (double)((units + threads - 1) / threads) / (double)units;
}

static void choose_split(product_loop *w, size_t threads)
{
    const xcvm_gemm *g = &w->batch->shape;
    const double product = (double)g->m * (double)g->n * (double)g->k;
    const double total = product * (double)w->batch->count;
    /* A single matrix-vector product is limited by memory, so threads pay off earlier. */
    const double worth = w->gemv || (g->pairs && g->m == 1) ? THREAD_WORK / 8.0 : THREAD_WORK;
    const size_t rows = (g->m + XCVM_GEMM_ROWS - 1) / XCVM_GEMM_ROWS,
                 columns = (g->n + column_unit(g) - 1) / column_unit(g);
    if (total < worth * (double)threads)
        threads = total < 2.0 * worth ? 1 : (size_t)(total / worth);
    w->split = SPLIT_ITEMS;
    w->parts = 1;
    if (threads == 1)
        return;
    const double packing = w->gemv ? 0 : xcvm_gemm_packing_cost(g) * (double)g->n * (double)g->k;
    const double by_rows = (double)w->batch->count * (slowest(product, rows, threads) + packing / 2.0);
    const double by_columns = (double)w->batch->count * slowest(product, columns, threads);
    double best = slowest(total, w->batch->count, threads);
    size_t units = w->batch->count;
    if (by_rows < best) {
        best = by_rows;
        w->split = SPLIT_ROWS;
        units = rows;
    }
    if (by_columns < best && !w->small && !w->outer) {
        best = by_columns;
        w->split = SPLIT_COLUMNS;
        units = columns;
    }
    if (best > 0.95 * total)
        return;
    w->parts = threads;
    if (w->split != SPLIT_ROWS || packing == 0.0)
        w->parts = xcvm_min(THREAD_PARTS * threads, (size_t)(total / worth));
    w->parts = xcvm_min(w->parts < threads ? threads : w->parts, units);
}

static size_t scratch_per_worker(const xcvm_gemm *g)
{
    return xcvm_round_up(xcvm_gemv_fits(g) ? 0 : xcvm_gemm_part_scratch(g), XCVM_ALIGNMENT);
}

size_t xcvm_gemm_scratch(const xcvm_gemm_batch *batch, int threads)
{
    return scratch_per_worker(&batch->shape) * (size_t)threads;
}

xcvm_status xcvm_gemm_run(const xcvm_kernel *k, const xcvm_gemm_batch *batch, void *scratch)
{
    product_loop w = {.k = k, .batch = batch, .scratch = scratch, .scratch_bytes = scratch_per_worker(&batch->shape)};
    if (batch->count == 0 || batch->shape.m == 0 || batch->shape.n == 0)
        return XCVM_OK;
    w.gemv = xcvm_gemv_fits(&batch->shape);
    w.outer = !w.gemv && xcvm_gemm_outer_fits(&batch->shape);
    w.small = !w.gemv && xcvm_gemm_small_fits(&batch->shape);
    choose_split(&w, (size_t)xcvm_threads_count(k->threads));
    if (w.parts == 1)
        run_parts(&w, 0, 1, 0);
    else
        xcvm_parallel(k->threads, w.parts, 1, run_parts, &w);
    return (xcvm_status)w.status;
}

#include "ops/vector/integer_gemm.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

enum {
    PANEL = XCVM_GEMM_PANEL,
    VECTORS = XCVM_GEMM_VECTORS,
    ROWS = XCVM_GEMM_ROWS,
    DEPTH = 1024,      /* rows of b in a block, even */
    BLOCK = 96 * 1024, /* 16-bit numbers of b in a block */
    THREAD_WORK = 400 * 1000
};

typedef int32_t lanes __attribute__((vector_size(4 * XCVM_LANES)));
typedef int32_t lanes_at __attribute__((vector_size(4 * XCVM_LANES), aligned(2), may_alias));

/* Each 32-bit lane: the sum of the products of its two 16-bit halves. */
static inline __attribute__((always_inline)) lanes multiply_pairs(lanes a, lanes b)
{
#if XCVM_LANES == 16 && defined(__AVX512BW__)
    return (lanes)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif XCVM_LANES == 8 && defined(__AVX2__)
    return (lanes)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif XCVM_LANES == 4 && defined(__SSE2__)
    return (lanes)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
    return (a >> 16) * (b >> 16) + ((a << 16) >> 16) * ((b << 16) >> 16);
#endif
}

static inline lanes load(const void *from) { return *(const lanes_at *)from; }

/* A pair of neighbours as one lane. */
static inline int32_t pair_at(const int16_t *pair)
{
    int32_t bits;
    memcpy(&bits, pair, sizeof bits);
    return bits;
}

/* c (rows PANEL apart) of `rows` rows of a, `depth` apart, and a panel of b: pairs of rows, interleaved. */
static inline __attribute__((always_inline)) void multiply_tile(const int16_t *a, const int16_t *b, size_t depth,
                                                                size_t width, bool add, int32_t *c, const int rows,
                                                                const int vectors)
{
    lanes sum[XCVM_GEMM_ROWS][XCVM_GEMM_VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            sum[i][j] = add ? load(c + i * PANEL + j * XCVM_LANES) : (lanes){0};
    for (size_t p = 0; p < depth; p += 2) {
        lanes v[XCVM_GEMM_VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            v[j] = load(b + 2 * j * XCVM_LANES);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            const lanes x = pair_at(a + (size_t)i * depth + p) - (lanes){0};
#pragma GCC unroll 4
            for (int j = 0; j < vectors; j++)
                sum[i][j] += multiply_pairs(x, v[j]);
        }
        b += 2 * width;
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            *(lanes_at *)(c + i * PANEL + j * XCVM_LANES) = sum[i][j];
}

static void run_tile(const int16_t *a, const int16_t *b, size_t depth, size_t width, bool add, int32_t *c)
{
    if (width == PANEL)
        multiply_tile(a, b, depth, width, add, c, ROWS, VECTORS);
    else if (width == XCVM_LANES)
        multiply_tile(a, b, depth, width, add, c, ROWS, 1);
    else
        multiply_tile(a, b, depth, width, add, c, ROWS, 2);
}

/* ---- One thread's part ---- */

/* Where a thread keeps its block: b as panels, two rows of b, rows of a, and sums in tiles of ROWS x PANEL. */
typedef struct buffers {
    int16_t *panels, *pair, *a;
    int32_t *sums;
} buffers;

static size_t block_width(size_t n)
{
    const size_t most = xcvm_round_up(n, XCVM_LANES), width = BLOCK / DEPTH / PANEL * PANEL;
    return width < most ? width : most;
}

static size_t tiles_of(size_t m) { return (m + ROWS - 1) / ROWS; }

/* The buffers of a thread that computes m rows, at `base`; NULL: only their size, which is returned. */
static size_t lay_out(const xcvm_integer_gemm *g, size_t m, char *base, buffers *b)
{
    const size_t depth = xcvm_round_up(g->k < DEPTH ? g->k : DEPTH, 2), width = xcvm_round_up(block_width(g->n), PANEL);
    const size_t pair = xcvm_round_up(depth * width * sizeof(int16_t), XCVM_ALIGNMENT);
    const size_t a = pair + xcvm_round_up(2 * width * sizeof(int16_t), XCVM_ALIGNMENT);
    const size_t sums = a + xcvm_round_up(ROWS * depth * sizeof(int16_t), XCVM_ALIGNMENT);
    if (base != NULL) {
        b->panels = (int16_t *)(void *)base;
        b->pair = (int16_t *)(void *)(base + pair);
        b->a = (int16_t *)(void *)(base + a);
        b->sums = (int32_t *)(void *)(base + sums);
    }
    return xcvm_round_up(sums + tiles_of(m) * ROWS * width * sizeof(int32_t), XCVM_ALIGNMENT);
}

/* Rows [k0, k1) of columns [n0, n1) of b as panels; a last, odd row is followed by zeros. */
static void pack(const xcvm_integer_gemm *g, size_t k0, size_t k1, size_t n0, size_t n1, const buffers *b)
{
    const size_t count = n1 - n0, depth = xcvm_round_up(k1 - k0, 2), padded = xcvm_round_up(count, XCVM_LANES);
    int16_t *even = b->pair, *odd = even + padded;
    memset(even, 0, 2 * padded * sizeof *even);
    for (size_t p = k0; p < k1; p += 2) {
        g->row(g, p, n0, n1, even);
        if (p + 1 < k1)
            g->row(g, p + 1, n0, n1, odd);
        else
            memset(odd, 0, count * sizeof *odd);
        for (size_t j = 0; j < padded; j += PANEL) {
            const size_t width = xcvm_gemm_panel_width(j, count);
            int16_t *to = b->panels + j * depth + (p - k0) * width;
            for (size_t i = 0; i < width; i++) {
                to[2 * i] = even[j + i];
                to[2 * i + 1] = odd[j + i];
            }
        }
    }
}

/* Rows of tile i, from column k0 on, less the zero points; the rows beyond m and an odd end are zero. */
static void widen_rows(const xcvm_integer_gemm *g, size_t i, size_t m1, size_t k0, size_t k1, int16_t *to)
{
    const size_t depth = xcvm_round_up(k1 - k0, 2);
    for (size_t r = 0; r < ROWS; r++, to += depth) {
        to[depth - 1] = 0;
        if (i + r < m1)
            xcvm_widen_bytes(g->a, g->a_signed, (i + r) * g->k + k0, k1 - k0, NULL, g->a_zero[i + r], to);
        else
            memset(to, 0, depth * sizeof *to);
    }
}

static void finish(const xcvm_integer_gemm *g, size_t m0, size_t m1, size_t n0, size_t n1, const int32_t *sums)
{
    for (size_t i = m0; i < m1; i += ROWS)
        for (size_t j = n0; j < n1; j += PANEL, sums += ROWS * PANEL)
            for (size_t r = 0; r < ROWS && i + r < m1; r++)
                g->finish(g, i + r, j, n1 - j < PANEL ? n1 : j + PANEL, sums + r * PANEL);
}

static xcvm_status run_part(const xcvm_kernel *k, const xcvm_integer_gemm *g, size_t m0, size_t m1, size_t n0,
                            size_t n1, char *scratch)
{
    buffers b = {0};
    lay_out(g, m1 - m0, scratch, &b);
    const size_t width = block_width(g->n);
    for (size_t n = n0; n < n1; n += width) {
        const size_t end = n1 - n < width ? n1 : n + width;
        size_t p = 0;
        do {
            const size_t next = g->k - p < DEPTH ? g->k : p + DEPTH, depth = xcvm_round_up(next - p, 2);
            int32_t *sums = b.sums;
            XCVM_TRY(xcvm_kernel_poll(k));
            pack(g, p, next, n, end, &b);
            for (size_t i = m0; i < m1; i += ROWS) {
                if (depth > 0)
                    widen_rows(g, i, m1, p, next, b.a);
                for (size_t j = n; j < end; j += PANEL, sums += ROWS * PANEL)
                    run_tile(b.a, b.panels + (j - n) * depth, depth, xcvm_gemm_panel_width(j - n, end - n), p > 0,
                             sums);
            }
            p = next;
        } while (p < g->k);
        finish(g, m0, m1, n, end, b.sums);
    }
    return XCVM_OK;
}

/* ---- Threads ---- */

/* Products are cut into row_parts x column_parts. */
typedef struct work {
    const xcvm_kernel *k;
    const xcvm_integer_batch *batch;
    size_t row_parts, column_parts;
    char *scratch;
    size_t scratch_bytes; /* of one worker */
    uint32_t status;      /* atomic */
} work;

static void run_parts(void *context, size_t begin, size_t end, int worker)
{
    work *w = context;
    const size_t parts = w->row_parts * w->column_parts;
    for (size_t i = begin; i < end; i++) {
        xcvm_integer_gemm g = w->batch->shape;
        g.item = i / parts;
        w->batch->at(g.context, g.item, &g);
        const size_t row = i % parts / w->column_parts, column = i % w->column_parts;
        const size_t tiles = tiles_of(g.m), panels = (g.n + PANEL - 1) / PANEL;
        const size_t m0 = tiles * row / w->row_parts * ROWS, m1 = tiles * (row + 1) / w->row_parts * ROWS;
        const size_t n0 = panels * column / w->column_parts * PANEL,
                     n1 = panels * (column + 1) / w->column_parts * PANEL;
        const xcvm_status status = run_part(w->k, &g, m0, m1 < g.m ? m1 : g.m, n0, n1 < g.n ? n1 : g.n,
                                            w->scratch + (size_t)worker * w->scratch_bytes);
        if (status != XCVM_OK) {
            __atomic_store_n(&w->status, (uint32_t)status, __ATOMIC_RELAXED);
            return;
        }
    }
}

static size_t bytes_per_worker(const xcvm_integer_gemm *g) { return lay_out(g, g->m, NULL, NULL); }

size_t xcvm_integer_gemm_scratch(const xcvm_integer_batch *batch, int threads)
{
    return bytes_per_worker(&batch->shape) * (size_t)threads;
}

xcvm_status xcvm_integer_gemm_run(const xcvm_kernel *k, const xcvm_integer_batch *batch, void *scratch)
{
    const xcvm_integer_gemm *g = &batch->shape;
    work w = {.k = k, .batch = batch, .row_parts = 1, .column_parts = 1, .scratch = scratch};
    if (g->m == 0 || g->n == 0 || batch->count == 0)
        return XCVM_OK;
    w.scratch_bytes = bytes_per_worker(g);
    const size_t threads = (size_t)xcvm_threads_count(k->threads);
    const double total = (double)g->m * (double)g->n * (double)g->k * (double)batch->count;
    if (total > 2.0 * THREAD_WORK && batch->count % threads != 0 && batch->count < 4 * threads) {
        if (g->n >= 2 * threads * PANEL || g->n >= g->m)
            w.column_parts = threads;
        else
            w.row_parts = threads;
    }
    const size_t parts = batch->count * w.row_parts * w.column_parts;
    const double each = total / (double)parts;
    xcvm_parallel(k->threads, parts, each > THREAD_WORK ? 1 : (size_t)(THREAD_WORK / (each + 1.0)) + 1, run_parts, &w);
    return (xcvm_status)w.status;
}

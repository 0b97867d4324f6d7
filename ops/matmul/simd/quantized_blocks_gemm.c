/* BlockQuantizedGemm: few rows are multiplied with the codes as they stream by; for many, panels are brought to f32 a
 * block at a time for the f32 product. */
#include "ops/elementwise/simd/activation_rows.h"
#include "ops/matmul/simd/gemm.h"
#include "ops/matmul/simd/quantized_blocks_row.h"

enum {
    /* Up to so many rows, codes are brought to f32 by each group of rows that reads them. */
    FEW_ROWS = 4 * XCVM_QBLOCKS_TALL,
    /* Multiply-adds that are worth a portion of the loop over panels. */
    PORTION = 100 * 1000
};

/* ---- Few rows ---- */

typedef struct row_loop {
    const xcvm_BlockQuantizedGemm_args *a;
    xcvm_qblocks_matrix w;
    xcvm_qblocks_row row[FEW_ROWS];
    size_t rows;
    bool integers;
    xcvm_activation f;
} row_loop;

/* Adds what is added and stores `count` columns from `first` on. */
static void finish(const row_loop *l, float *y, size_t row, size_t first, size_t count)
{
    const xcvm_BlockQuantizedGemm_args *a = l->a;
    const size_t at = row * l->w.layout.n + first;
    for (size_t j = 0; a->c != NULL && j < count; j++)
        y[j] += XCVM_CDATA(float, a->c)[first + j];
    for (size_t j = 0; a->z != NULL && j < count; j++)
        y[j] += XCVM_CDATA(float, a->z)[at + j];
    if (a->activation != XCVM_ACTIVATION_none) {
        for (size_t j = 0; j < count; j++)
            y[j] = xcvm_clamp_f32(y[j], l->f.low, l->f.high);
        xcvm_activate_row(&l->f, y, count);
    }
    memcpy(XCVM_DATA(float, a->y) + at, y, count * sizeof *y);
}

static void run_panels(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const row_loop *l = context;
    float y[XCVM_QBLOCKS_TALL][XCVM_PACKED_COLUMNS] __attribute__((aligned(64)));
    for (size_t panel = begin; panel < end; panel++) {
        const size_t first = panel * XCVM_PACKED_COLUMNS;
        const size_t columns = xcvm_min(l->w.layout.n - first, XCVM_PACKED_COLUMNS);
        for (size_t row = 0, count; row < l->rows; row += count) {
            count = l->integers ? 1 : xcvm_min(l->rows - row, XCVM_QBLOCKS_TALL);
            if (l->integers)
                xcvm_qblocks_panel_integers(&l->w, panel, &l->row[row], y[0]);
            else
                xcvm_qblocks_panel_f32(&l->w, panel, &l->row[row], count, y);
            for (size_t r = 0; r < count; r++)
                finish(l, y[r], row + r, first, columns);
        }
    }
}

static xcvm_status few_rows(xcvm_kernel *k, const xcvm_BlockQuantizedGemm_args *a, const xcvm_qblocks_matrix *w,
                            size_t rows)
{
    row_loop l = {.a = a, .w = *w, .rows = rows, .integers = a->activations == XCVM_BLOCK_ACTIVATIONS_int8};
    l.f = xcvm_activation_of(a->activation, a->activation_params);
    const size_t bytes = xcvm_qblocks_row_bytes(&w->layout, l.integers);
    char *scratch = xcvm_kernel_scratch(k, rows * bytes);
    if (scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t r = 0; r < rows; r++) {
        XCVM_TRY(xcvm_kernel_poll(k));
        xcvm_qblocks_row_make(&w->layout, XCVM_CDATA(float, a->a) + r * w->layout.k, l.integers, scratch + r * bytes,
                              &l.row[r]);
    }
    const size_t grain = PORTION / (rows * w->layout.k * XCVM_PACKED_COLUMNS + 1) + 1;
    return xcvm_kernel_parallel(k, xcvm_qblocks_panels(&w->layout), grain, run_panels, &l);
}

/* ---- Many rows ---- */

XCVM_INLINE xcvm_lanes codes_of(const unsigned bits, xcvm_lanes_bits line, unsigned at)
{
    return __builtin_convertvector((xcvm_lanes_mask)(line >> at & ((UINT32_C(1) << bits) - 1)), xcvm_lanes);
}

/* One vector of columns of rows [k0, k1), `width` floats apart. */
static void widen(const xcvm_qblocks_matrix *w, const unsigned bits, size_t k0, size_t k1, size_t column, float *to,
                  size_t width)
{
    const xcvm_qblocks *b = &w->layout;
    const size_t panel = column / XCVM_PACKED_COLUMNS, within = column % XCVM_PACKED_COLUMNS, of_line = 32 / bits;
    const uint8_t *codes = w->codes + panel * xcvm_qblocks_lines(b) * XCVM_QBLOCKS_LINE + within * 4;
    for (size_t p = k0, end; p < k1; p = end) {
        end = xcvm_min(k1, (p / b->block + 1) * b->block);
        const size_t at = xcvm_qblocks_scale_at(b, p, column);
        const xcvm_lanes scale = xcvm_qblocks_scales(w, at), offset = xcvm_qblocks_offsets(w, bits, at);
        while (p < end) {
            const xcvm_lanes_bits line = xcvm_qblocks_line(codes + p / of_line * XCVM_QBLOCKS_LINE);
            if (p % of_line == 0 && end - p >= of_line) {
#pragma GCC unroll 8
                for (size_t q = 0; q < of_line; q++, to += width)
                    xcvm_lanes_store(to, (codes_of(bits, line, xcvm_qblocks_bit(q)) - offset) * scale);
                p += of_line;
                continue;
            }
            const unsigned bit = xcvm_qblocks_bit(p % of_line);
            xcvm_lanes_store(to, (codes_of(bits, line, bit) - offset) * scale);
            to += width;
            p++;
        }
    }
}

static void make_rows(const xcvm_gemm *g, size_t k0, size_t k1, size_t n0, size_t n1, float *panels)
{
    const xcvm_qblocks_matrix *w = g->source;
    for (size_t j = 0; j < n1 - n0; j += XCVM_GEMM_PANEL) {
        const size_t width = xcvm_gemm_panel_width(j, n1 - n0);
        for (size_t i = 0; i < width; i += XCVM_LANES)
            if (w->layout.bits == 4)
                widen(w, 4, k0, k1, n0 + j + i, panels + j * (k1 - k0) + i, width);
            else
                widen(w, 8, k0, k1, n0 + j + i, panels + j * (k1 - k0) + i, width);
    }
}

static xcvm_status many_rows(xcvm_kernel *k, const xcvm_BlockQuantizedGemm_args *a, const xcvm_qblocks_matrix *w)
{
    const xcvm_activation f = xcvm_activation_of(a->activation, a->activation_params);
    xcvm_gemm g =
        xcvm_gemm_of_rows(a->a->data, w->layout.k, a->c, a->z, a->y, a->activation != XCVM_ACTIVATION_none ? &f : NULL);
    g.b_row = 1;
    g.b_column = 1;
    g.b_rows = make_rows;
    g.source = w;
    const xcvm_gemm_batch batch = {.shape = g, .count = 1};
    void *scratch = xcvm_kernel_scratch(k, xcvm_gemm_scratch(&batch, xcvm_threads_count(k->threads)));
    return scratch != NULL ? xcvm_gemm_run(k, &batch, scratch) : XCVM_OUT_OF_MEMORY;
}

XCVM_KERNEL(BlockQuantizedGemm)
{
    const xcvm_qblocks_matrix w = xcvm_qblocks_matrix_of(a->w, a->scales, a->offsets, (size_t)a->depth,
                                                         (size_t)a->columns, a->bits, a->block_size);
    const size_t rows = xcvm_element_count(a->y) / (size_t)a->columns;
    if (rows == 0)
        return XCVM_OK;
    return rows <= FEW_ROWS ? few_rows(k, a, &w, rows) : many_rows(k, a, &w);
}

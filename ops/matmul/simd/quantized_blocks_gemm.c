/* BlockQuantizedGemm. Few rows are multiplied by the codes as these are streamed; for many, panels are converted to f32
 * in blocks for the f32 product. With 8-bit rows, all products are integer products. */
#include "ops/elementwise/simd/activation_rows.h"
#include "ops/matmul/simd/gemm.h"
#include "ops/matmul/simd/quantized_blocks_integers.h"

enum {
    /* Up to this many rows, each group of rows converts the codes itself. */
    FEW_ROWS = 4 * XCVM_QBLOCKS_TALL,
    /* Minimum multiply-adds per portion of the loop over panels. */
    PORTION = 100 * 1000,
    /* Words of 8-bit rows that all panels are multiplied with in turn: they stay in the second-level cache. */
    CHUNK_WORDS = 96 * 1024
};

/* Operands of a product and the destination of its sums. */
typedef struct result {
    const xcvm_BlockQuantizedGemm_args *a;
    xcvm_qblocks_matrix w;
    size_t rows;
    xcvm_activation f;
} result;

static result result_of(const xcvm_BlockQuantizedGemm_args *a, const xcvm_qblocks_matrix *w, size_t rows)
{
    return (result){a, *w, rows, xcvm_activation_of(a->activation, a->activation_params)};
}

/* Adds c and z and stores the valid columns of a panel. */
static void finish(const result *l, float *y, size_t row, size_t panel)
{
    const xcvm_BlockQuantizedGemm_args *a = l->a;
    const size_t first = panel * XCVM_PACKED_COLUMNS, count = xcvm_min(l->w.layout.n - first, XCVM_PACKED_COLUMNS);
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

/* ---- Few rows ---- */

typedef struct row_loop {
    result to;
    xcvm_qblocks_row row[FEW_ROWS];
} row_loop;

static void run_panels(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const row_loop *l = context;
    float y[XCVM_QBLOCKS_TALL][XCVM_PACKED_COLUMNS] __attribute__((aligned(64)));
    for (size_t panel = begin; panel < end; panel++)
        for (size_t row = 0, count; row < l->to.rows; row += count) {
            count = xcvm_min(l->to.rows - row, XCVM_QBLOCKS_TALL);
            xcvm_qblocks_panel_f32(&l->to.w, panel, &l->row[row], count, y);
            for (size_t r = 0; r < count; r++)
                finish(&l->to, y[r], row + r, panel);
        }
}

static xcvm_status few_rows(xcvm_kernel *k, const xcvm_BlockQuantizedGemm_args *a, const xcvm_qblocks_matrix *w,
                            size_t rows)
{
    row_loop l = {.to = result_of(a, w, rows)};
    const size_t bytes = xcvm_qblocks_row_bytes(&w->layout);
    char *scratch = xcvm_kernel_scratch(k, rows * bytes);
    if (scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t r = 0; r < rows; r++) {
        XCVM_TRY(xcvm_kernel_poll(k));
        xcvm_qblocks_row_make(&w->layout, XCVM_CDATA(float, a->a) + r * w->layout.k, scratch + r * bytes, &l.row[r]);
    }
    const size_t grain = PORTION / (rows * w->layout.k * XCVM_PACKED_COLUMNS + 1) + 1;
    return xcvm_kernel_parallel(k, xcvm_qblocks_panels(&w->layout), grain, run_panels, &l);
}

/* ---- 8-bit rows ---- */

typedef struct integer_loop {
    result to;
    const xcvm_kernel *k;
    int32_t *words; /* the rounded rows */
    size_t quad_words, row_words, chunk, panels;
} integer_loop;

/* Rounds groups of rows. */
static void round_groups(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const integer_loop *l = context;
    const xcvm_qblocks *b = &l->to.w.layout;
    xcvm_poller poller = xcvm_poller_of(l->k);
    const size_t last = xcvm_min(end * XCVM_QBLOCKS_GROUP, l->to.rows);
    for (size_t row = begin * XCVM_QBLOCKS_GROUP, count; row < last; row += count) {
        count = xcvm_qblocks_group(last - row);
        if (xcvm_poll_after(&poller, count * b->k) != XCVM_OK)
            return;
        xcvm_qblocks_round_rows(b, XCVM_CDATA(float, l->to.a->a) + row * b->k, count, l->quad_words,
                                l->words + row * l->row_words);
    }
}

/* Items are panels by chunks of rows; all panels of the first chunk come first. */
static void run_integers(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const integer_loop *l = context;
    float y[XCVM_QBLOCKS_GROUP][XCVM_PACKED_COLUMNS] __attribute__((aligned(64)));
    xcvm_poller poller = xcvm_poller_of(l->k);
    for (size_t item = begin; item < end; item++) {
        const size_t first = item / l->panels * l->chunk, panel = item % l->panels;
        const size_t last = xcvm_min(first + l->chunk, l->to.rows);
        for (size_t row = first, count; row < last; row += count) {
            count = xcvm_qblocks_group(last - row);
            if (xcvm_poll_after(&poller, count * l->to.w.layout.k) != XCVM_OK)
                return;
            xcvm_qblocks_panel_integers(&l->to.w, panel, l->words + row * l->row_words, count, l->quad_words, y);
            for (size_t r = 0; r < count; r++)
                finish(&l->to, y[r], row + r, panel);
        }
    }
}

static xcvm_status integer_rows(xcvm_kernel *k, const xcvm_BlockQuantizedGemm_args *a, const xcvm_qblocks_matrix *w,
                                size_t rows)
{
    integer_loop l = {.to = result_of(a, w, rows), .k = k, .quad_words = xcvm_qblocks_quad_words()};
    l.row_words = xcvm_qblocks_row_words(&w->layout, l.quad_words);
    size_t bytes;
    XCVM_CHECK(k->error, xcvm_size_mul(rows, l.row_words * sizeof(int32_t), &bytes), OUT_OF_RANGE,
               "%zu rows of %zu numbers are too many", rows, w->layout.k);
    l.words = xcvm_kernel_scratch(k, bytes);
    if (l.words == NULL)
        return XCVM_OUT_OF_MEMORY;
    const size_t groups = rows / XCVM_QBLOCKS_GROUP + (rows % XCVM_QBLOCKS_GROUP != 0);
    XCVM_TRY(xcvm_kernel_parallel(k, groups, PORTION / (XCVM_QBLOCKS_GROUP * w->layout.k) + 1, round_groups, &l));
    l.chunk = (CHUNK_WORDS / l.row_words / XCVM_QBLOCKS_GROUP + 1) * XCVM_QBLOCKS_GROUP;
    l.panels = xcvm_qblocks_panels(&w->layout);
    const size_t work = xcvm_min(rows, l.chunk) * w->layout.k * XCVM_PACKED_COLUMNS;
    return xcvm_kernel_parallel(k, l.panels * (rows / l.chunk + (rows % l.chunk != 0)), PORTION / (work + 1) + 1,
                                run_integers, &l);
}

/* ---- Many rows ---- */

XCVM_INLINE xcvm_lanes codes_of(const unsigned bits, xcvm_lanes_bits line, unsigned at)
{
    return __builtin_convertvector((xcvm_lanes_mask)(line >> at & ((UINT32_C(1) << bits) - 1)), xcvm_lanes);
}

/* Converts one vector of columns of rows [k0, k1), `width` floats apart. */
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
    if (a->activations == XCVM_BLOCK_ACTIVATIONS_int8)
        return integer_rows(k, a, &w, rows);
    return rows <= FEW_ROWS ? few_rows(k, a, &w, rows) : many_rows(k, a, &w);
}

/* Products of bytes: packing, tiles and corrections for zero points. */
#include "ops/util/grain.h"
#include "ops/quantize/simd/integer_gemm.h"
#include "ops/util/quads.h"
#include "ops/simd/math.h"
#include "ops/simd/sums.h"

enum {
    PANEL = XCVM_GEMM_PANEL,
    VECTORS = XCVM_GEMM_VECTORS,
    ROWS = XCVM_GEMM_ROWS,
    DEPTH = 1024,                                      /* rows of b in a block, a multiple of LINES */
    BLOCK = XCVM_LANES == 16 ? 192 * 1024 : 96 * 1024, /* 16-bit numbers of b in a block */
    THREAD_WORK = 400 * 1000
};

/* Instructions that multiply and add four bytes are not part of an instruction set level, so their availability is
 * checked at run time. */
#if XCVM_LANES == 16 && defined(__AVX512BW__)
#define HAS_QUADS 1
#define QUADS __attribute__((target("avx512vnni")))
#else
#define HAS_QUADS 0
#endif

typedef int32_t word __attribute__((aligned(1), may_alias));

/* A function for c (rows PANEL apart) of `rows` rows of a and a panel of b, in `steps` words of a pair of 16-bit
 * numbers or of four bytes; and one that dispatches on the panel's width. */
#define TILE_FUNCTIONS(name, attribute, add_products)                                                                  \
    attribute static inline                                                                                            \
        __attribute__((always_inline)) void name##_tile(const word *a, const word *b, size_t steps, size_t width,      \
                                                        bool add, int32_t *c, const int rows, const int vectors)       \
    {                                                                                                                  \
        xcvm_sums sum[XCVM_GEMM_ROWS][XCVM_GEMM_VECTORS];                                                              \
        _Pragma("GCC unroll 8") for (int i = 0; i < rows; i++)                                                         \
            _Pragma("GCC unroll 4") for (int j = 0; j < vectors; j++) sum[i][j] =                                      \
                add ? xcvm_sums_load(c + i * PANEL + j * XCVM_LANES) : (xcvm_sums){0};                                 \
        for (size_t p = 0; p < steps; p++, b += width) {                                                               \
            xcvm_sums v[XCVM_GEMM_VECTORS];                                                                            \
            _Pragma("GCC unroll 4") for (int j = 0; j < vectors; j++) v[j] = xcvm_sums_load(b + j * XCVM_LANES);       \
            _Pragma("GCC unroll 8") for (int i = 0; i < rows; i++)                                                     \
            {                                                                                                          \
                const xcvm_sums x = a[(size_t)i * steps + p] - (xcvm_sums){0};                                         \
                _Pragma("GCC unroll 4") for (int j = 0; j < vectors; j++) sum[i][j] =                                  \
                    add_products(sum[i][j], x, v[j]);                                                                  \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("GCC unroll 8") for (int i = 0; i < rows; i++)                                                         \
                _Pragma("GCC unroll 4") for (int j = 0; j < vectors; j++) *                                            \
            (xcvm_sums_at *)(c + i * PANEL + j * XCVM_LANES) = sum[i][j];                                              \
    }                                                                                                                  \
    attribute static void name(const void *a, const void *b, size_t steps, size_t width, bool add, int32_t *c)         \
    {                                                                                                                  \
        if (width == PANEL)                                                                                            \
            name##_tile(a, b, steps, width, add, c, ROWS, VECTORS);                                                    \
        else if (width == XCVM_LANES)                                                                                  \
            name##_tile(a, b, steps, width, add, c, ROWS, 1);                                                          \
        else if (VECTORS > 3 && width == 3 * XCVM_LANES)                                                               \
            name##_tile(a, b, steps, width, add, c, ROWS, VECTORS > 3 ? 3 : 1);                                        \
        else                                                                                                           \
            name##_tile(a, b, steps, width, add, c, ROWS, 2);                                                          \
    }

TILE_FUNCTIONS(by_pairs, , xcvm_sums_add_pairs)
#if HAS_QUADS
/* Bytes of a are unsigned, those of b signed. */
#define ADD_QUADS(sum, a, b) ((xcvm_sums)_mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(a), (__m512i)(b)))
TILE_FUNCTIONS(by_quads, QUADS, ADD_QUADS)
#endif

typedef void (*tile_function)(const void *a, const void *b, size_t steps, size_t width, bool add, int32_t *c);

/* The method of a product. Byte instructions require unsigned a and signed b; operands of the other signedness are
 * shifted by 128, and so are their zero points. */
typedef struct method {
    bool quads;
    tile_function tile;
} method;

static method choose_method(void)
{
#if HAS_QUADS
    if (xcvm_quads_of_64())
        return (method){true, by_quads};
#endif
    return (method){false, by_pairs};
}

/* ---- One thread's part ---- */

enum { LINES = 4 };

/* Buffers of a thread for a block: b as panels, a few rows of b, rows of a, sums in tiles of ROWS x PANEL, b's zero
 * points, the same for signed bytes, and the sums of b's columns and a's rows. */
typedef struct buffers {
    int16_t *panels, *a, *zeros;
    uint8_t *lines;
    int32_t *sums, *shifted, *columns, *rows;
} buffers;

static size_t block_width(size_t n)
{
    const size_t most = xcvm_round_up(n, XCVM_LANES), width = BLOCK / DEPTH / PANEL * PANEL;
    return width < most ? width : most;
}

static size_t tiles_of(size_t m) { return (m + ROWS - 1) / ROWS; }

/* Assigns the buffers of a thread that computes m rows, from `base`; NULL: returns only their size. */
static size_t lay_out(const xcvm_integer_gemm *g, size_t m, char *base, buffers *b)
{
    const size_t depth = xcvm_round_up(g->k < DEPTH ? g->k : DEPTH, LINES);
    const size_t width = xcvm_round_up(block_width(g->n), PANEL);
    const size_t lines = xcvm_round_up(depth * width * sizeof(int16_t), XCVM_ALIGNMENT);
    const size_t a = lines + xcvm_round_up(LINES * width, XCVM_ALIGNMENT);
    const size_t zeros = a + xcvm_round_up(ROWS * depth * sizeof(int16_t), XCVM_ALIGNMENT);
    const size_t shifted = zeros + xcvm_round_up(width * sizeof(int16_t), XCVM_ALIGNMENT);
    const size_t columns = shifted + xcvm_round_up(width * sizeof(int32_t), XCVM_ALIGNMENT);
    const size_t rows = columns + xcvm_round_up(width * sizeof(int32_t), XCVM_ALIGNMENT);
    const size_t sums = rows + xcvm_round_up(tiles_of(m) * ROWS * sizeof(int32_t), XCVM_ALIGNMENT);
    if (base != NULL) {
        b->panels = (int16_t *)(void *)base;
        b->lines = (uint8_t *)base + lines;
        b->a = (int16_t *)(void *)(base + a);
        b->zeros = (int16_t *)(void *)(base + zeros);
        b->shifted = (int32_t *)(void *)(base + shifted);
        b->columns = (int32_t *)(void *)(base + columns);
        b->rows = (int32_t *)(void *)(base + rows);
        b->sums = (int32_t *)(void *)(base + sums);
    }
    return xcvm_round_up(sums + tiles_of(m) * ROWS * width * sizeof(int32_t), XCVM_ALIGNMENT);
}

/* ---- Packing ---- */

/* Destination of words of a few rows of b: the first of `steps` of each panel, for `columns` columns in total. */
typedef struct packed_words {
    word *panels;
    size_t steps, step, columns;
} packed_words;

static word *words_of_panel(const packed_words *w, size_t j)
{
    return w->panels + j * w->steps + w->step * xcvm_gemm_panel_width(j, w->columns);
}

/* Packs words of two rows of bytes of b, minus their zero points. */
static void pack_pairs(const uint8_t *const rows[LINES], bool is_signed, const int16_t *zeros, size_t count, word *to)
{
    const uint8_t *l0 = rows[0], *l1 = rows[1];
    if (is_signed) {
        XCVM_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            to[i] = (int32_t)((uint32_t)(uint16_t)((int8_t)l0[i] - zeros[i]) |
                              (uint32_t)(uint16_t)((int8_t)l1[i] - zeros[i]) << 16);
    } else {
        XCVM_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            to[i] = (int32_t)((uint32_t)(uint16_t)(l0[i] - zeros[i]) | (uint32_t)(uint16_t)(l1[i] - zeros[i]) << 16);
    }
}

#if HAS_QUADS
/* Packs words of four rows as signed bytes, and adds up `columns`. Four runs of 16 bytes are in one vector: a word
 * permutation groups equal positions, then a byte shuffle interleaves them. */
QUADS static void pack_quads(const uint8_t *const rows[LINES], bool is_signed, int32_t *columns, const packed_words *w)
{
    const __m512i flip = _mm512_set1_epi32(is_signed ? 0 : (int32_t)0x80808080u), ones = _mm512_set1_epi8(1);
    const __m512i words = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const __m512i bytes = _mm512_broadcast_i32x4(_mm_set_epi8(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0));
    for (size_t j = 0; j < w->columns; j += PANEL) {
        word *to = words_of_panel(w, j);
        for (size_t i = j; i < j + PANEL && i < w->columns; i += XCVM_LANES, to += XCVM_LANES) {
            __m512i quads = _mm512_castsi128_si512(_mm_loadu_si128((const void *)(rows[0] + i)));
            quads = _mm512_inserti32x4(quads, _mm_loadu_si128((const void *)(rows[1] + i)), 1);
            quads = _mm512_inserti32x4(quads, _mm_loadu_si128((const void *)(rows[2] + i)), 2);
            quads = _mm512_inserti32x4(quads, _mm_loadu_si128((const void *)(rows[3] + i)), 3);
            quads = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(words, quads), bytes);
            quads = _mm512_xor_si512(quads, flip);
            _mm512_storeu_si512(to, quads);
            const __m512i sums = _mm512_dpbusd_epi32(_mm512_loadu_si512(columns + i), ones, quads);
            _mm512_storeu_si512(columns + i, sums);
        }
    }
}
#endif

static void spread_zeros(const xcvm_integer_gemm *g, size_t n0, size_t n1, const buffers *b)
{
    const size_t padded = xcvm_round_up(n1 - n0, XCVM_LANES);
    for (size_t j = 0; j < padded; j++) {
        b->zeros[j] = g->b_zero == NULL ? g->b_zero_of_all : n0 + j < n1 ? g->b_zero[n0 + j] : 0;
        b->shifted[j] = b->zeros[j] - (g->b_signed ? 0 : 128);
    }
}

/* Packs rows [k0, k1) of columns [n0, n1) of b to panels, several rows per word. The last word is padded with zeros. */
static void pack(const xcvm_integer_gemm *g, bool quads, size_t k0, size_t k1, size_t n0, size_t n1, const buffers *b)
{
    const size_t count = n1 - n0, padded = xcvm_round_up(count, XCVM_LANES), rows = quads ? 4 : 2;
    const size_t steps = (k1 - k0 + rows - 1) / rows;
    /* Zero in the shifted representation. */
    memset(b->lines, g->b_signed ? 0 : 0x80, LINES * padded);
    if (k0 == 0)
        memset(b->columns, 0, padded * sizeof *b->columns);
    for (size_t p = k0; p < k1; p += rows) {
        const uint8_t *lines[LINES];
        for (size_t i = 0; i < rows; i++) {
            uint8_t *line = b->lines + i * padded;
            lines[i] = p + i < k1 ? g->row(g, p + i, n0, n1, line) : memset(line, g->b_signed ? 0 : 0x80, count);
        }
        const packed_words words = {(word *)(void *)b->panels, steps, (p - k0) / rows, count};
#if HAS_QUADS
        if (quads) {
            pack_quads(lines, g->b_signed, b->columns, &words);
            continue;
        }
#endif
        for (size_t j = 0; j < padded; j += PANEL) {
            const uint8_t *const from[LINES] = {lines[0] + j, lines[1] + j};
            pack_pairs(from, g->b_signed, b->zeros + j, xcvm_gemm_panel_width(j, count), words_of_panel(&words, j));
        }
    }
}

/* Converts `count` bytes minus a zero point. */
static void widen(const void *bytes, bool is_signed, size_t first, size_t count, int16_t zero, int16_t *to)
{
    const uint8_t *u = (const uint8_t *)bytes + first;
    const int8_t *s = (const int8_t *)bytes + first;
    if (is_signed)
        for (size_t i = 0; i < count; i++)
            to[i] = (int16_t)(s[i] - zero);
    else
        for (size_t i = 0; i < count; i++)
            to[i] = (int16_t)(u[i] - zero);
}

/* Converts rows of tile i, from column k0, to words. Rows beyond m and padding are zero. Pairs have their zero points
 * subtracted. */
static void widen_rows(const xcvm_integer_gemm *g, size_t i, size_t m1, size_t k0, size_t k1, int16_t *to)
{
    const size_t depth = xcvm_round_up(k1 - k0, 2);
    for (size_t r = 0; r < ROWS; r++, to += depth) {
        to[depth - 1] = 0;
        if (i + r < m1)
            widen(g->a, g->a_signed, (i + r) * g->k + k0, k1 - k0, g->a_zero[i + r], to);
        else
            memset(to, 0, depth * sizeof *to);
    }
}

static void copy_rows(const xcvm_integer_gemm *g, size_t i, size_t m1, size_t k0, size_t k1, uint8_t *to)
{
    const size_t depth = xcvm_round_up(k1 - k0, 4);
    const uint8_t shift = g->a_signed ? 0x80 : 0;
    for (size_t r = 0; r < ROWS; r++, to += depth) {
        const uint8_t *from = (const uint8_t *)g->a + (i + r) * g->k + k0;
        memset(to + depth - 4, 0, 4);
        if (i + r < m1)
            for (size_t p = 0; p < k1 - k0; p++)
                to[p] = from[p] ^ shift;
        else
            memset(to, 0, depth);
    }
}

/* Sums of rows of a as unsigned bytes, minus their zero points. */
static xcvm_status sum_rows(xcvm_poller *poller, const xcvm_integer_gemm *g, size_t m0, size_t m1, int32_t *to)
{
    const uint8_t flip = g->a_signed ? 0x80 : 0;
    for (size_t i = m0; i < m1; i++) {
        const uint8_t *row = (const uint8_t *)g->a + i * g->k;
        uint32_t sum = 0;
        XCVM_TRY(xcvm_poll_after(poller, 1 + g->k / 16));
        for (size_t p = 0; p < g->k; p++)
            sum += (uint8_t)(row[p] ^ flip);
        to[i - m0] = (int32_t)(sum - (uint32_t)g->k * (uint32_t)(g->a_zero[i] + flip));
    }
    return XCVM_OK;
}

/* Corrects byte sums of row i, in whole vectors from column `first` of a block, for zero points and the shift of bytes,
 * modulo 2^32. `to` may be `sums`. */
static void correct(const xcvm_integer_gemm *g, const buffers *b, int32_t row, size_t i, size_t first, size_t count,
                    const int32_t *sums, int32_t *to)
{
    const int32_t zero = g->a_zero[i] + (g->a_signed ? 128 : 0);
    for (size_t c = 0; c < count; c += XCVM_LANES) {
        const xcvm_sums columns = xcvm_sums_load(b->columns + first + c),
                        zeros = xcvm_sums_load(b->shifted + first + c);
        *(xcvm_sums_at *)(to + c) = xcvm_sums_load(sums + c) - zero * columns - row * zeros;
    }
}

/* Stores sums of rows [i, i + height) of a tile whose first column is j. */
static void put_tile(const xcvm_integer_gemm *g, size_t i, size_t height, size_t j, size_t columns, const int32_t *sums)
{
    for (size_t r = 0; r < height; r++, sums += PANEL) {
        if (g->c == NULL) {
            g->finish(g, i + r, j, j + columns, sums);
            continue;
        }
        int32_t *c = g->c + (g->item * g->m + i + r) * g->n + j;
        if (columns == PANEL)
            memcpy(c, sums, PANEL * sizeof *c); /* a constant size compiles to vector moves */
        else
            memcpy(c, sums, columns * sizeof *c);
    }
}

/* The same for all tiles of a block. Byte sums are corrected, and stored directly for whole vectors. */
static void finish(const xcvm_integer_gemm *g, bool quads, size_t m0, size_t m1, size_t n0, size_t n1, const buffers *b)
{
    int32_t *sums = b->sums;
    for (size_t i = m0; i < m1; i += ROWS)
        for (size_t j = n0; j < n1; j += PANEL, sums += ROWS * PANEL) {
            const size_t columns = n1 - j < PANEL ? n1 - j : PANEL, height = m1 - i < ROWS ? m1 - i : ROWS;
            const bool direct = quads && g->c != NULL && columns % XCVM_LANES == 0;
            for (size_t r = 0; r < height && quads; r++)
                correct(g, b, b->rows[i + r - m0], i + r, j - n0, columns, sums + r * PANEL,
                        direct ? g->c + (g->item * g->m + i + r) * g->n + j : sums + r * PANEL);
            if (!direct)
                put_tile(g, i, height, j, columns, sums);
        }
}

static xcvm_status run_part(const xcvm_kernel *k, const xcvm_integer_gemm *g, size_t m0, size_t m1, size_t n0,
                            size_t n1, char *scratch)
{
    buffers b = {0};
    lay_out(g, m1 - m0, scratch, &b);
    const method how = choose_method();
    const size_t width = block_width(g->n), rows = how.quads ? 4 : 2;
    xcvm_poller poller = xcvm_poller_of(k);
    if (how.quads)
        XCVM_TRY(sum_rows(&poller, g, m0, m1, b.rows));
    for (size_t n = n0; n < n1; n += width) {
        const size_t end = n1 - n < width ? n1 : n + width;
        size_t p = 0;
        spread_zeros(g, n, end, &b);
        do {
            const size_t next = g->k - p < DEPTH ? g->k : p + DEPTH, steps = (next - p + rows - 1) / rows;
            int32_t *sums = b.sums;
            XCVM_TRY(xcvm_kernel_poll(k));
            pack(g, how.quads, p, next, n, end, &b);
            for (size_t i = m0; i < m1; i += ROWS) {
                const void *a = b.a;
                XCVM_TRY(xcvm_poll_after(&poller, (end - n) * steps));
                /* Rows of bytes that are whole words are used in place. */
                if (how.quads && !g->a_signed && 4 * steps == g->k && i + ROWS <= m1)
                    a = (const uint8_t *)g->a + i * g->k;
                else if (steps > 0 && how.quads)
                    copy_rows(g, i, m1, p, next, (uint8_t *)b.a);
                else if (steps > 0)
                    widen_rows(g, i, m1, p, next, b.a);
                for (size_t j = n; j < end; j += PANEL, sums += ROWS * PANEL)
                    how.tile(a, (const word *)(const void *)b.panels + (j - n) * steps, steps,
                             xcvm_gemm_panel_width(j - n, end - n), p > 0, sums);
            }
            p = next;
        } while (p < g->k);
        finish(g, how.quads, m0, m1, n, end, &b);
    }
    return XCVM_OK;
}

/* ---- Threads ---- */

/* Products are split into row_parts x column_parts. */
typedef struct integer_product_loop {
    const xcvm_kernel *k;
    const xcvm_integer_batch *batch;
    size_t row_parts, column_parts;
    char *scratch;
    size_t scratch_bytes; /* of one worker */
    uint32_t status;      /* atomic */
} integer_product_loop;

static void run_parts(void *context, size_t begin, size_t end, int worker)
{
    integer_product_loop *w = context;
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
    integer_product_loop w = {.k = k, .batch = batch, .row_parts = 1, .column_parts = 1, .scratch = scratch};
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
    xcvm_parallel(k->threads, parts, xcvm_grain(THREAD_WORK, each), run_parts, &w);
    return (xcvm_status)w.status;
}

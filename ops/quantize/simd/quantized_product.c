/* Products of u8 rows with packed s8 panels: tiles, and their distribution over threads. */
#include "ops/util/grain.h"
#include "ops/quantize/simd/quantized_product.h"
#include "ops/util/quads.h"
#include "ops/simd/sums.h"

enum {
    OUTPUTS = XCVM_QUANTIZED_OUTPUTS,
    LINE = XCVM_QUANTIZED_LINE,
    VECTORS = OUTPUTS / XCVM_LANES, /* of a panel */
    /* Rows and panels that the inner loop keeps in registers. */
    ROWS = XCVM_LANES == 16  ? 8
           : XCVM_LANES == 8 ? 4
                             : 2,
    PANELS = XCVM_LANES == 16 ? 3 : 1,
    CHUNK_BYTES = 128 * 1024, /* bytes of x that stay in the cache while panels are multiplied in turn */
    CHUNK_ROWS = 512,
    THREAD_WORK = 400 * 1000,
    /* For sums only: panels at a time, which are four vectors. */
    GROUP = 4 / VECTORS
};

typedef uint32_t word __attribute__((aligned(1), may_alias));

/* Some rows by some panels, and the destination of their sums. */
typedef struct tile {
    const uint8_t *rows[ROWS];
    size_t count; /* number of rows; further ones are valid but not stored */
    const size_t *offsets;
    size_t segments, quads;
    const int8_t *w;
    size_t panel; /* in bytes */
    const int32_t *bias;
    const float *scale, *shift;
    char *y;
    size_t y_row, columns; /* elements between rows; stored elements per row */
    bool floats;
    float low, high; /* minus zero */
    int32_t zero;
} tile;

XCVM_INLINE void store(const tile *t, size_t row, size_t column, size_t count, xcvm_sums sum, xcvm_lanes scale,
                       const float *shift)
{
    xcvm_lanes v = xcvm_sums_to_floats(sum) * scale;
    if (shift != NULL)
        v += xcvm_lanes_load(shift + column);
    if (t->floats) {
        float *to = (float *)(void *)t->y + row * t->y_row + column;
        if (count >= XCVM_LANES)
            xcvm_lanes_store(to, v);
        else
            for (size_t i = 0; i < count; i++)
                to[i] = v[i];
    } else {
        xcvm_sums_store_bytes((uint8_t *)t->y + row * t->y_row + column, count,
                              xcvm_sums_round(v, t->low, t->high) + t->zero);
    }
}

/* Whole tiles have a loop with unconditional stores. */
XCVM_INLINE void finish(const tile *t, xcvm_sums (*sum)[PANELS * VECTORS], const size_t rows, const size_t vectors)
{
    if (t->count == rows && t->columns == vectors * XCVM_LANES && !t->floats && t->shift == NULL) {
        const float low = t->low, high = t->high;
        const xcvm_sums zero = (xcvm_sums){0} + t->zero;
        uint8_t *y = (uint8_t *)t->y;
        const size_t y_row = t->y_row;
        _Pragma("GCC unroll 4") for (size_t j = 0; j < vectors; j++)
        {
            const xcvm_lanes scale = xcvm_lanes_load(t->scale + j * XCVM_LANES);
            _Pragma("GCC unroll 8") for (size_t i = 0; i < rows; i++)
                xcvm_sums_store_bytes(y + i * y_row + j * XCVM_LANES, XCVM_LANES,
                                      xcvm_sums_round(xcvm_sums_to_floats(sum[i][j]) * scale, low, high) + zero);
        }
        return;
    }
    _Pragma("GCC unroll 8") for (size_t i = 0; i < rows; i++)
        _Pragma("GCC unroll 4") for (size_t j = 0; j < vectors; j++) if (i < t->count && j * XCVM_LANES < t->columns)
            store(t, i, j * XCVM_LANES, t->columns - j * XCVM_LANES, sum[i][j],
                  xcvm_lanes_load(t->scale + j * XCVM_LANES), t->shift);
}

/* Some rows by GROUP panels, or one, for which only sums are needed. */
typedef struct few_sums {
    const uint8_t *x;
    size_t row;
    const int8_t *w;
    size_t quads;
    int32_t *to;
    size_t to_row;
} few_sums;

/* Methods to add the products of a quad of x, the same for all lanes, and quads of w. In 16 bits, even and odd bytes
 * are multiplied separately, because the sum of two products needs 17 bits. */
#define ADD_WIDENED(sum, x, w)                                                                                         \
    xcvm_sums_add_pairs(xcvm_sums_add_pairs(sum, (xcvm_sums){0} + (int32_t)((x)&0x00ff00ffu), xcvm_sums_even(w)),      \
                        (xcvm_sums){0} + (int32_t)((x) >> 8 & 0x00ff00ffu), xcvm_sums_odd(w))

/* The functions of one method: for 8, 4, 2 or 1 rows by 3, 2 or 1 panels, depending on the registers. */
#define WAY(name, attribute, ADD)                                                                                      \
    attribute XCVM_INLINE void name##_tile(const tile *t, const size_t rows, const size_t panels)                      \
    {                                                                                                                  \
        xcvm_sums sum[ROWS][PANELS * VECTORS];                                                                         \
        _Pragma("GCC unroll 8") for (size_t i = 0; i < rows; i++)                                                      \
            _Pragma("GCC unroll 4") for (size_t j = 0; j < panels * VECTORS; j++) sum[i][j] =                          \
                xcvm_sums_load(t->bias + j * XCVM_LANES);                                                              \
        const int8_t *w = t->w;                                                                                        \
        for (size_t s = 0; s < t->segments; s++) {                                                                     \
            const uint8_t *x[ROWS];                                                                                    \
            _Pragma("GCC unroll 8") for (size_t i = 0; i < rows; i++) x[i] = t->rows[i] + t->offsets[s];               \
            for (size_t q = 0; q < t->quads; q++, w += LINE) {                                                         \
                xcvm_sums v[PANELS * VECTORS];                                                                         \
                _Pragma("GCC unroll 4") for (size_t j = 0; j < panels * VECTORS; j++) v[j] =                           \
                    xcvm_sums_load(w + j / VECTORS * t->panel + j % VECTORS * XCVM_LANES * XCVM_QUAD);                 \
                _Pragma("GCC unroll 8") for (size_t i = 0; i < rows; i++)                                              \
                {                                                                                                      \
                    const uint32_t quad = *(const word *)(const void *)(x[i] + q * XCVM_QUAD);                         \
                    _Pragma("GCC unroll 4") for (size_t j = 0; j < panels * VECTORS; j++) sum[i][j] =                  \
                        ADD(sum[i][j], quad, v[j]);                                                                    \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        finish(t, sum, rows, panels *VECTORS);                                                                         \
    }                                                                                                                  \
    attribute XCVM_INLINE void name##_rows(const tile *t, const size_t panels)                                         \
    {                                                                                                                  \
        if (ROWS >= 8 && t->count > 4)                                                                                 \
            name##_tile(t, ROWS >= 8 ? 8 : 1, panels);                                                                 \
        else if (ROWS >= 4 && t->count > 2)                                                                            \
            name##_tile(t, ROWS >= 4 ? 4 : 1, panels);                                                                 \
        else if (t->count > 1)                                                                                         \
            name##_tile(t, 2, panels);                                                                                 \
        else                                                                                                           \
            name##_tile(t, 1, panels);                                                                                 \
    }                                                                                                                  \
    attribute static void name(const tile *t, size_t panels)                                                           \
    {                                                                                                                  \
        if (PANELS >= 3 && panels == 3)                                                                                \
            name##_rows(t, PANELS);                                                                                    \
        else if (PANELS >= 2 && panels == 2)                                                                           \
            name##_rows(t, PANELS >= 2 ? 2 : 1);                                                                       \
        else                                                                                                           \
            name##_rows(t, 1);                                                                                         \
    }                                                                                                                  \
    attribute XCVM_INLINE void name##_group(const few_sums *g, const size_t rows, const size_t panels)                 \
    {                                                                                                                  \
        /* With one row, every other quad has separate sums, so that enough additions are in flight. */                \
        const size_t chains = rows == 1 ? 2 : 1, vectors = panels * VECTORS, last = g->quads / chains * chains;        \
        xcvm_sums sum[4][4] = {{{0}}};                                                                                 \
        for (size_t q = 0; q < g->quads; q += chains)                                                                  \
            _Pragma("GCC unroll 2") for (size_t c = 0; c < chains; c++) if (c == 0 || q < last)                        \
            {                                                                                                          \
                const int8_t *w = g->w + (q + c) * LINE;                                                               \
                xcvm_sums v[4];                                                                                        \
                _Pragma("GCC unroll 4") for (size_t j = 0; j < vectors; j++) v[j] =                                    \
                    xcvm_sums_load(w + j / VECTORS * g->quads * LINE + j % VECTORS * XCVM_LANES * XCVM_QUAD);          \
                _Pragma("GCC unroll 4") for (size_t i = 0; i < rows; i++)                                              \
                {                                                                                                      \
                    const uint32_t quad = *(const word *)(const void *)(g->x + i * g->row + (q + c) * XCVM_QUAD);      \
                    _Pragma("GCC unroll 4") for (size_t j = 0; j < vectors; j++) sum[i + c][j] =                       \
                        ADD(sum[i + c][j], quad, v[j]);                                                                \
                }                                                                                                      \
            }                                                                                                          \
        _Pragma("GCC unroll 4") for (size_t i = 0; i < rows; i++)                                                      \
                _Pragma("GCC unroll 4") for (size_t j = 0; j < vectors; j++) *                                         \
            (xcvm_sums_at *)(void *)(g->to + i * g->to_row + j * XCVM_LANES) =                                         \
            chains == 2 ? sum[0][j] + sum[1][j] : sum[i][j];                                                           \
    }                                                                                                                  \
    attribute static void name##_sums(const few_sums *g, size_t rows, size_t panels)                                   \
    {                                                                                                                  \
        if (rows == 4)                                                                                                 \
            panels == GROUP ? name##_group(g, 4, GROUP) : name##_group(g, 4, 1);                                       \
        else if (rows == 2)                                                                                            \
            panels == GROUP ? name##_group(g, 2, GROUP) : name##_group(g, 2, 1);                                       \
        else                                                                                                           \
            panels == GROUP ? name##_group(g, 1, GROUP) : name##_group(g, 1, 1);                                       \
    }

WAY(by_pairs, , ADD_WIDENED)
typedef struct method {
    void (*multiply)(const tile *t, size_t panels);
    void (*sums)(const few_sums *g, size_t rows, size_t panels); /* 1, 2 or 4 rows */
} method;
#define WAY_OF(name)                                                                                                   \
    {                                                                                                                  \
        name, name##_sums                                                                                              \
    }

/* Instructions that multiply and add four bytes are not part of an instruction set level, so their availability is
 * checked at run time. */
#if XCVM_LANES == 16 && defined(__AVX512BW__)
#define ADD_QUADS(sum, x, w) ((xcvm_sums)_mm512_dpbusd_epi32((__m512i)(sum), _mm512_set1_epi32((int)(x)), (__m512i)(w)))
WAY(by_quads, __attribute__((target("avx512vnni"))), ADD_QUADS)
static bool has_quads(void) { return xcvm_quads_of_64(); }
static const method ways[] = {WAY_OF(by_quads), WAY_OF(by_pairs)};
#elif XCVM_LANES == 8 && defined(__AVX2__)
#define ADD_QUADS(sum, x, w)                                                                                           \
    ((xcvm_sums)_mm256_dpbusd_avx_epi32((__m256i)(sum), _mm256_set1_epi32((int)(x)), (__m256i)(w)))
WAY(by_quads, __attribute__((target("avxvnni"))), ADD_QUADS)
static bool has_quads(void) { return xcvm_quads_of_32(); }
static const method ways[] = {WAY_OF(by_quads), WAY_OF(by_pairs)};
#else
static bool has_quads(void) { return false; }
static const method ways[] = {{NULL, NULL}, WAY_OF(by_pairs)};
#endif
enum { WAYS = sizeof ways / sizeof *ways };

size_t xcvm_quantized_ways(void) { return has_quads() ? WAYS : WAYS - 1; }

void xcvm_quantized_sums_by(const uint8_t *x, size_t row, size_t count, const int8_t *w, size_t quads, size_t panels,
                            int32_t *to, size_t to_row, size_t way)
{
    enum { MOST = XCVM_LANES == 16 ? 4 : 2 };
    const method *by = &ways[WAYS - xcvm_quantized_ways() + way];
    for (size_t at = 0, some; at < panels; at += some) {
        some = panels - at >= GROUP ? GROUP : 1;
        for (size_t i = 0, rows; i < count; i += rows) {
            rows = MOST == 4 && count - i >= 4 ? 4 : count - i >= 2 ? 2 : 1;
            const few_sums g = {.x = x + i * row,
                                .row = row,
                                .w = w + at * quads * LINE,
                                .quads = quads,
                                .to = to + i * to_row + at * OUTPUTS,
                                .to_row = to_row};
            by->sums(&g, rows, some);
        }
    }
}

void xcvm_quantized_sums(const uint8_t *x, size_t row, size_t count, const int8_t *w, size_t quads, size_t panels,
                         int32_t *to, size_t to_row)
{
    xcvm_quantized_sums_by(x, row, count, w, quads, panels, to, to_row, 0);
}

/* ---- Distribution over threads ---- */

/* An item is a chunk of rows of one group by a share of its panels. */
typedef struct product_loop {
    const xcvm_kernel *k;
    const xcvm_quantized_product *p;
    void (*multiply)(const tile *t, size_t panels);
    /* Padded to whole panels. */
    const int32_t *bias;
    const float *scale, *shift;
    size_t rows, chunk, panels, shares;
} product_loop;

static size_t padded_outputs(const xcvm_quantized_product *p)
{
    return p->groups * xcvm_quantized_panels(p->outputs) * OUTPUTS;
}

size_t xcvm_quantized_product_scratch(const xcvm_quantized_product *p)
{
    return xcvm_round_up(3 * padded_outputs(p) * sizeof(float), XCVM_ALIGNMENT);
}

static void pad_numbers(const xcvm_quantized_product *p, const void *from, uint32_t *to)
{
    const size_t padded = xcvm_quantized_panels(p->outputs) * OUTPUTS;
    for (size_t g = 0; g < p->groups; g++, to += padded) {
        memcpy(to, (const uint32_t *)from + g * p->outputs, p->outputs * sizeof *to);
        memset(to + p->outputs, 0, (padded - p->outputs) * sizeof *to);
    }
}

/* Panels of a tile, of `left` remaining ones: three or two, so that no single panel with too few sums remains. */
static size_t panels_of_tile(size_t left)
{
    if (left == 4 && PANELS >= 3)
        return 2;
    return xcvm_min(left, PANELS);
}

static xcvm_status run_item(const product_loop *l, size_t item, xcvm_poller *poller)
{
    const xcvm_quantized_product *p = l->p;
    const size_t share = item % l->shares, group = item / l->shares % p->groups, chunk = item / l->shares / p->groups;
    const size_t begin = chunk * l->chunk, end = xcvm_min(begin + l->chunk, l->rows);
    const size_t first = l->panels * share / l->shares, last = l->panels * (share + 1) / l->shares;
    const size_t positions = p->height * p->width, all = p->groups * p->outputs;
    const size_t element = p->floats ? sizeof(float) : 1;
    tile t = {.offsets = p->offsets,
              .segments = p->runs.segments,
              .quads = p->runs.quads,
              .panel = p->runs.segments * p->runs.quads * LINE,
              .y_row = all,
              .floats = p->floats,
              .low = (float)(p->low - p->zero),
              .high = (float)(p->high - p->zero),
              .zero = p->zero};
    for (size_t at = first, panels; at < last; at += panels) {
        panels = panels_of_tile(last - at);
        const size_t output = at * OUTPUTS, padded = group * l->panels * OUTPUTS + output;
        t.w = p->w + (group * l->panels + at) * t.panel;
        t.bias = l->bias + padded;
        t.scale = l->scale + padded;
        t.shift = l->shift != NULL ? l->shift + padded : NULL;
        t.columns = xcvm_min(panels * OUTPUTS, p->outputs - output);
        size_t column = begin % p->width, row = begin % positions / p->width, image = begin / positions;
        for (size_t r = begin; r < end; r += ROWS) {
            t.count = xcvm_min(ROWS, end - r);
            for (size_t i = 0; i < ROWS; i++) {
                t.rows[i] = p->x + group * p->group + image * p->image + row * p->line + column * p->pixel;
                if (i + 1 >= t.count && r + t.count >= end)
                    continue; /* the last one, again */
                if (++column == p->width) {
                    column = 0;
                    if (++row == p->height) {
                        row = 0;
                        image++;
                    }
                }
            }
            t.y = (char *)p->y + (r * all + group * p->outputs + output) * element;
            l->multiply(&t, panels);
            XCVM_TRY(xcvm_poll_after(poller, t.segments * t.quads * panels));
        }
    }
    return XCVM_OK;
}

static void run_items(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const product_loop *l = context;
    xcvm_poller poller = xcvm_poller_of(l->k);
    for (size_t i = begin; i < end; i++)
        if (run_item(l, i, &poller) != XCVM_OK)
            return;
}

xcvm_status xcvm_quantized_product_by(const xcvm_kernel *k, const xcvm_quantized_product *p, void *scratch, size_t way)
{
    product_loop l = {.k = k,
                      .p = p,
                      .multiply = ways[WAYS - xcvm_quantized_ways() + way].multiply,
                      .rows = p->images * p->height * p->width,
                      .panels = xcvm_quantized_panels(p->outputs),
                      .shares = 1};
    const size_t padded = padded_outputs(p), threads = (size_t)xcvm_threads_count(k->threads);
    if (l.rows == 0 || padded == 0)
        return XCVM_OK;
    uint32_t *numbers = scratch;
    pad_numbers(p, p->bias, numbers);
    pad_numbers(p, p->scale, numbers + padded);
    l.bias = (const int32_t *)numbers;
    l.scale = (const float *)(const void *)(numbers + padded);
    if (p->shift != NULL) {
        pad_numbers(p, p->shift, numbers + 2 * padded);
        l.shift = (const float *)(const void *)(numbers + 2 * padded);
    }
    /* Chunks that stay in the cache, but enough of them for all threads. */
    l.chunk = xcvm_min(CHUNK_BYTES / (p->pixel + 1) + ROWS, CHUNK_ROWS);
    l.chunk = xcvm_min(l.chunk, l.rows / (4 * threads) + ROWS);
    l.chunk = xcvm_round_up(l.chunk, ROWS);
    const size_t chunks = (l.rows + l.chunk - 1) / l.chunk;
    if (chunks * p->groups < 2 * threads && threads > 1)
        l.shares = xcvm_min(2 * threads, l.panels);
    const size_t items = chunks * p->groups * l.shares;
    const double work = (double)l.rows * (double)padded * (double)(p->runs.segments * p->runs.quads * XCVM_QUAD);
    const double each = work / (double)items;
    return xcvm_kernel_parallel(k, items, xcvm_grain(THREAD_WORK, each), run_items, &l);
}

xcvm_status xcvm_quantized_product_run(const xcvm_kernel *k, const xcvm_quantized_product *p, void *scratch)
{
    return xcvm_quantized_product_by(k, p, scratch, 0);
}

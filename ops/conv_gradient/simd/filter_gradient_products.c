/* Filter gradients as a matrix product: g, with one row per channel, times a matrix with one column per channel and
 * window position and one row per output position of each image. The matrix is built block by block. */
#include "ops/conv_gradient/simd/filter_gradient.h"
#include "ops/matmul/simd/gemm.h"

enum {
    CHUNK = 128,  /* positions gathered together */
    PLACES = 1024 /* minimum positions of a product */
};

/* Source of a product's matrix: images from `image`, of one group. */
typedef struct places {
    const xcvm_filter_gradient *f;
    size_t image, group;
} places;

static const float *images_at(const xcvm_filter_gradient *f, size_t image, size_t group)
{
    const xcvm_conv_shape *s = &f->shape;
    return f->x + (image * s->group + group) * s->channels * s->window.in_size;
}

/* Gathers positions [from, from + count) of one column. */
static void gather_column(const places *p, xcvm_conv_tap *tap, size_t from, size_t count, float *line)
{
    const xcvm_conv_shape *s = &p->f->shape;
    const size_t size = s->window.out_size, stride = s->group * s->channels * s->window.in_size;
    const float *plane = tap->plane;
    for (size_t done = 0; done < count;) {
        const size_t place = (from + done) % size;
        const size_t run = size - place < count - done ? size - place : count - done;
        tap->plane = plane + (from + done) / size * stride;
        xcvm_conv_gather(&s->window, tap, place, place + run, line + done);
        done += run;
    }
    tap->plane = plane;
}

/* Writes columns [j, j + LANES) of positions [k0, k1) from `to`, with panel rows `width` apart. */
static void place_columns(const places *p, size_t j, size_t columns, size_t k0, size_t k1, float *to, size_t width)
{
    float lines[XCVM_LANES][CHUNK] __attribute__((aligned(64)));
    xcvm_conv_tap taps[XCVM_LANES];
    const float *image = images_at(p->f, p->image, p->group);
    for (size_t i = 0; i < columns; i++)
        taps[i] = xcvm_conv_tap_of(&p->f->shape.window, image, j + i);
    memset(lines, 0, sizeof lines);
    for (size_t at = k0; at < k1; at += CHUNK) {
        const size_t count = k1 - at < CHUNK ? k1 - at : CHUNK;
        for (size_t i = 0; i < columns; i++)
            gather_column(p, &taps[i], at, count, lines[i]);
        for (size_t q = 0; q < count; q += XCVM_LANES) {
            const size_t rows = count - q < XCVM_LANES ? count - q : XCVM_LANES;
            xcvm_lanes square[XCVM_LANES];
#pragma GCC unroll 16
            for (size_t i = 0; i < XCVM_LANES; i++)
                square[i] = xcvm_lanes_load(lines[i] + q);
            xcvm_lanes_transpose(square);
            for (size_t i = 0; i < rows; i++)
                xcvm_lanes_store(to + (at - k0 + q + i) * width, square[i]);
        }
    }
}

static void gather(const xcvm_gemm *g, size_t k0, size_t k1, size_t n0, size_t n1, float *panels)
{
    for (size_t j = n0; j < n1; j += XCVM_LANES) {
        const size_t panel = (j - n0) / XCVM_GEMM_PANEL * XCVM_GEMM_PANEL;
        place_columns(g->source, j, n1 - j < XCVM_LANES ? n1 - j : XCVM_LANES, k0, k1,
                      panels + panel * (k1 - k0) + (j - n0 - panel), xcvm_gemm_panel_width(panel, n1 - n0));
    }
}

/* Number of images processed together, because small ones give products of few positions. */
static size_t together(const xcvm_conv_shape *s)
{
    const size_t images = (PLACES + s->window.out_size - 1) / s->window.out_size;
    return images < s->batch ? images : s->batch;
}

static xcvm_gemm product_of(const xcvm_conv_shape *s, size_t images)
{
    xcvm_gemm g = {.m = s->outputs, .n = s->channels * s->window.kernel_size, .k = images * s->window.out_size};
    g.alpha = 1.0f;
    g.a_row = g.k;
    g.a_column = 1;
    g.b_row = 1;
    g.b_column = 1;
    g.c_row = g.n;
    g.c_column = 1;
    g.b_rows = gather;
    return g;
}

static size_t rows_bytes(const xcvm_conv_shape *s)
{
    const size_t images = together(s);
    return images > 1 ? xcvm_round_up(s->outputs * images * s->window.out_size * sizeof(float), XCVM_ALIGNMENT) : 0;
}

static size_t scratch_bytes(const xcvm_conv_shape *s, int threads)
{
    const xcvm_gemm_batch batch = {.shape = product_of(s, together(s)), .count = 1};
    return rows_bytes(s) + xcvm_gemm_scratch(&batch, threads);
}

/* Copies g of some images so that the positions of each channel are contiguous. */
static void join_rows(const xcvm_filter_gradient *f, size_t image, size_t images, size_t group, float *rows)
{
    const xcvm_conv_shape *s = &f->shape;
    const size_t size = s->window.out_size;
    for (size_t m = 0; m < s->outputs; m++)
        for (size_t i = 0; i < images; i++)
            memcpy(rows + (m * images + i) * size, f->g + (((image + i) * s->group + group) * s->outputs + m) * size,
                   size * sizeof *rows);
}

static xcvm_status multiply(const xcvm_kernel *k, const xcvm_filter_gradient *f, void *scratch)
{
    const xcvm_conv_shape *s = &f->shape;
    const size_t most = together(s);
    float *rows = scratch;
    for (size_t group = 0; group < s->group; group++)
        for (size_t image = 0; image < s->batch; image += most) {
            const size_t images = s->batch - image < most ? s->batch - image : most;
            const places p = {f, image, group};
            xcvm_gemm_batch batch = {.shape = product_of(s, images), .count = 1};
            xcvm_gemm *g = &batch.shape;
            g->source = &p;
            g->b = f->x;
            g->a = f->g + (image * s->group + group) * s->outputs * s->window.out_size;
            if (most > 1) {
                join_rows(f, image, images, group, rows);
                g->a = rows;
            }
            g->c = f->y + group * s->outputs * g->n;
            g->start = image > 0 ? g->c : NULL;
            XCVM_TRY(xcvm_kernel_poll(k));
            XCVM_TRY(xcvm_gemm_run(k, &batch, (char *)scratch + rows_bytes(s)));
        }
    return XCVM_OK;
}

static bool fits(const xcvm_conv_shape *s)
{
    (void)s;
    return true;
}

const xcvm_filter_gradient_algorithm xcvm_filter_gradient_products = {fits, scratch_bytes, multiply};

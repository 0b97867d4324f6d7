/* Winograd transforms of tiles and filters. */
#include "ops/conv/simd/winograd.h"
#include "ops/elementwise/simd/activation_rows.h"

enum {
    TILE = XCVM_WINOGRAD_TILE,
    SPAN = XCVM_WINOGRAD_SPAN,
    CHUNK = XCVM_WINOGRAD_CHUNK,
    CHUNK_FLOATS = CHUNK + XCVM_LANES,
    LINE = TILE * CHUNK + 2 + 8 * XCVM_LANES,
    BAND = 8 * 1024
};

/* ---- Inputs ---- */

XCVM_INLINE void transform_input(const xcvm_lanes d[SPAN], xcvm_lanes t[SPAN])
{
    const xcvm_lanes a = d[4] - 2.0f * d[2], b = d[3] - 2.0f * d[1];
    const xcvm_lanes c = d[4] - 0.5f * d[2], e = d[3] - 0.5f * d[1];
    t[0] = d[0] - 2.5f * d[2] + d[4];
    t[1] = a + (0.5f * XCVM_ROOT2) * b;
    t[2] = a - (0.5f * XCVM_ROOT2) * b;
    t[3] = c + XCVM_ROOT2 * e;
    t[4] = c - XCVM_ROOT2 * e;
    t[5] = d[1] - 2.5f * d[3] + d[5];
}

/* Copies `count` floats of a row from column `from`, which may be negative; zeros outside. `row` NULL: all zeros. */
static void copy_padded(const float *row, ptrdiff_t from, size_t width, size_t count, float *to)
{
    ptrdiff_t first = from < 0 ? -from : 0, last = (ptrdiff_t)width - from;
    first = first > (ptrdiff_t)count ? (ptrdiff_t)count : first;
    last = last > (ptrdiff_t)count ? (ptrdiff_t)count : last;
    if (row == NULL || last <= first) {
        memset(to, 0, count * sizeof *to);
        return;
    }
    for (ptrdiff_t i = 0; i < first; i++)
        to[i] = 0.0f;
    xcvm_copy_floats(to + first, row + from + first, (size_t)(last - first));
    for (size_t i = (size_t)last; i < count; i++)
        to[i] = 0.0f;
}

/* phases[j][t] = line[TILE * t + j]. */
XCVM_INLINE void split_vectors(const float *line, xcvm_lanes phases[TILE])
{
    const xcvm_lanes a = xcvm_lanes_load(line), b = xcvm_lanes_load(line + XCVM_LANES);
    const xcvm_lanes c = xcvm_lanes_load(line + 2 * XCVM_LANES), d = xcvm_lanes_load(line + 3 * XCVM_LANES);
    const xcvm_lanes even_ab = xcvm_lanes_even(a, b), even_cd = xcvm_lanes_even(c, d);
    const xcvm_lanes odd_ab = xcvm_lanes_odd(a, b), odd_cd = xcvm_lanes_odd(c, d);
    phases[0] = xcvm_lanes_even(even_ab, even_cd);
    phases[1] = xcvm_lanes_even(odd_ab, odd_cd);
    phases[2] = xcvm_lanes_odd(even_ab, even_cd);
    phases[3] = xcvm_lanes_odd(odd_ab, odd_cd);
}

/* tiles[j][at + t] = line[TILE * t + j]. Writes up to one vector past `count`. */
static void split_line(const float *line, size_t count, float tiles[SPAN][CHUNK_FLOATS], size_t at)
{
    xcvm_lanes now[TILE], next[TILE];
    split_vectors(line, now);
    for (size_t t = 0; t < count; t += XCVM_LANES) {
        /* The last two columns of a tile are the first two of the next one. */
        if (t + XCVM_LANES <= count)
            split_vectors(line + TILE * (t + XCVM_LANES), next);
        else
            next[0] = next[1] = next[2] = next[3] = now[0];
        float(*to)[CHUNK_FLOATS] = tiles;
#pragma GCC unroll 4
        for (int j = 0; j < TILE; j++)
            xcvm_lanes_store(to[j] + at + t, now[j]);
        xcvm_lanes_store(to[4] + at + t, xcvm_lanes_shift(now[0], next[0]));
        xcvm_lanes_store(to[5] + at + t, xcvm_lanes_shift(now[1], next[1]));
#pragma GCC unroll 4
        for (int j = 0; j < TILE; j++)
            now[j] = next[j];
    }
}

/* Transforms a run of tiles of one tile row along the image columns to tiles[i][j][at ...]. Its image rows begin at
 * `rows`, `pitch` apart. */
static void transform_run(const float *rows, size_t pitch, size_t count, float tiles[SPAN][SPAN][CHUNK_FLOATS],
                          size_t at)
{
    float lines[SPAN][LINE] __attribute__((aligned(64)));
    for (size_t i = 0; i < TILE * count + 2; i += XCVM_LANES) {
        xcvm_lanes d[SPAN], t[SPAN];
#pragma GCC unroll 6
        for (size_t j = 0; j < SPAN; j++)
            d[j] = xcvm_lanes_load(rows + j * pitch + i);
        transform_input(d, t);
#pragma GCC unroll 6
        for (int j = 0; j < SPAN; j++)
            xcvm_lanes_store(lines[j] + i, t[j]);
    }
    for (int i = 0; i < SPAN; i++)
        split_line(lines[i], count, tiles[i], at);
}

/* Transforms runs of tiles in wide images, in which a chunk is a part of a tile row. */
static void transform_wide(const xcvm_winograd *g, const float *image, size_t row, size_t column, size_t count,
                           float tiles[SPAN][SPAN][CHUNK_FLOATS], size_t at)
{
    const xcvm_window *w = &g->conv->shape.window;
    float rows[SPAN][LINE] __attribute__((aligned(64)));
    for (size_t i = 0; i < SPAN; i++) {
        const ptrdiff_t h = (ptrdiff_t)(TILE * row + i) - w->pad[1];
        const bool inside = h >= 0 && h < (ptrdiff_t)w->in[1];
        copy_padded(inside ? image + (size_t)h * w->in[2] : NULL, (ptrdiff_t)(TILE * column) - w->pad[2], w->in[2],
                    TILE * count + 2, rows[i]);
    }
    transform_run(rows[0], LINE, count, tiles, at);
}

/* Transforms tiles of one image from (row, column), through a padded band of it. */
static void transform_band(const xcvm_winograd *g, size_t plane, size_t row, size_t column, size_t count,
                           float tiles[SPAN][SPAN][CHUNK_FLOATS], size_t at)
{
    const xcvm_conv_shape *s = &g->conv->shape;
    float band[BAND] __attribute__((aligned(64)));
    xcvm_planes planes = g->planes;
    const size_t rows = (column + count + g->columns - 1) / g->columns;
    planes.in_rows = TILE * rows + 2;
    xcvm_planes_fill(&planes, g->conv->x + plane * s->window.in_size,
                     (s->batch * s->group * s->channels - plane) * s->window.in_size, TILE * row, 0.0f, band);
    const float *from = band;
    for (size_t done = 0; done < count; from += TILE * planes.pitch, column = 0) {
        const size_t run = g->columns - column < count - done ? g->columns - column : count - done;
        transform_run(from + TILE * column, planes.pitch, run, tiles, at + done);
        done += run;
    }
}

void xcvm_winograd_make(xcvm_winograd *g, const xcvm_conv *c)
{
    const xcvm_window *w = &c->shape.window;
    *g = (xcvm_winograd){.conv = c, .rows = (w->out[1] + TILE - 1) / TILE, .columns = (w->out[2] + TILE - 1) / TILE};
    g->window = *w;
    g->window.out[1] = TILE * g->rows;
    g->window.out[2] = TILE * g->columns;
    /* Maximum number of tile rows in a chunk. */
    const size_t rows = (CHUNK + g->columns - 2) / g->columns + 1;
    xcvm_planes_make(&g->planes, &g->window, TILE * (rows < g->rows ? rows : g->rows));
    g->wide = g->columns > CHUNK || g->planes.in_floats + SPAN * XCVM_LANES > BAND;
}

void xcvm_winograd_inputs(const xcvm_winograd *g, size_t channel, size_t tile, size_t count, float *to, size_t stride)
{
    const xcvm_conv_shape *s = &g->conv->shape;
    float tiles[SPAN][SPAN][CHUNK_FLOATS] __attribute__((aligned(64)));
    for (size_t done = 0, run; done < count; done += run) {
        const size_t at = tile + done, column = at % g->columns, row = at / g->columns % g->rows;
        const size_t image = at / g->columns / g->rows, plane = (image * s->group + g->group) * s->channels + channel;
        const size_t left = g->wide ? g->columns - column : (image + 1) * g->rows * g->columns - at;
        run = left < count - done ? left : count - done;
        if (g->wide)
            transform_wide(g, g->conv->x + plane * s->window.in_size, row, column, run, tiles, done);
        else
            transform_band(g, plane, row, column, run, tiles, done);
    }
    for (size_t i = 0; i < SPAN; i++)
        for (size_t t = 0; t < count; t += XCVM_LANES) {
            xcvm_lanes d[SPAN], v[SPAN];
#pragma GCC unroll 6
            for (int j = 0; j < SPAN; j++)
                d[j] = xcvm_lanes_load(tiles[i][j] + t);
            transform_input(d, v);
#pragma GCC unroll 6
            for (size_t j = 0; j < SPAN; j++)
                xcvm_lanes_store(to + (i * SPAN + j) * stride + t, v[j]);
        }
}

/* ---- Filters ---- */

/* taps[j] = window position j of `count` channels, up to XCVM_LANES, and zero for the others. `readable` floats of w
 * may be read. */
static void gather_taps(const float *w, size_t count, size_t readable, xcvm_lanes taps[9])
{
    float rest[9][XCVM_LANES] __attribute__((aligned(64)));
    size_t first = 0;
    if (count == XCVM_LANES && readable >= 9 * (XCVM_LANES - 1) + XCVM_LANES) {
        xcvm_lanes square[XCVM_LANES];
#pragma GCC unroll 16
        for (size_t i = 0; i < XCVM_LANES; i++)
            square[i] = xcvm_lanes_load(w + 9 * i);
        xcvm_lanes_transpose(square);
#pragma GCC unroll 9
        for (size_t j = 0; j < 9 && j < XCVM_LANES; j++)
            taps[j] = square[j];
        first = XCVM_LANES;
    }
    for (size_t j = first; j < 9; j++) {
        for (size_t i = 0; i < XCVM_LANES; i++)
            rest[j][i] = i < count ? w[9 * i + j] : 0.0f;
        taps[j] = xcvm_lanes_load(rest[j]);
    }
}

void xcvm_winograd_filters(const xcvm_winograd *g, size_t output, float *to, size_t stride)
{
    const xcvm_conv_shape *s = &g->conv->shape;
    const size_t channels = s->channels, filter = g->group * s->outputs + output;
    const float *w = g->conv->w + filter * channels * 9;
    const size_t readable = (s->group * s->outputs - filter) * channels * 9;
    for (size_t c = 0; c < channels; c += XCVM_LANES) {
        xcvm_lanes taps[9], rows[SPAN][3];
        gather_taps(w + 9 * c, channels - c < XCVM_LANES ? channels - c : XCVM_LANES, readable - 9 * c, taps);
#pragma GCC unroll 3
        for (int j = 0; j < 3; j++) {
            const xcvm_lanes column[3] = {taps[j], taps[j + 3], taps[j + 6]};
            xcvm_lanes u[SPAN];
            xcvm_winograd_taps(column, u);
#pragma GCC unroll 6
            for (int i = 0; i < SPAN; i++)
                rows[i][j] = u[i];
        }
#pragma GCC unroll 6
        for (size_t i = 0; i < SPAN; i++) {
            xcvm_lanes u[SPAN];
            xcvm_winograd_taps(rows[i], u);
#pragma GCC unroll 6
            for (size_t j = 0; j < SPAN; j++)
                xcvm_lanes_store(to + (i * SPAN + j) * stride + c, u[j]);
        }
    }
}

/* ---- Outputs ---- */

XCVM_INLINE void transform_output(const xcvm_lanes m[SPAN], xcvm_lanes y[TILE])
{
    const xcvm_lanes sum = m[1] + m[2], difference = m[1] - m[2];
    const xcvm_lanes sum2 = m[3] + m[4], difference2 = m[3] - m[4];
    y[0] = m[0] + sum + sum2;
    y[1] = (0.5f * XCVM_ROOT2) * (difference + 2.0f * difference2);
    y[2] = 0.5f * sum + 2.0f * sum2;
    y[3] = (0.25f * XCVM_ROOT2) * (difference + 8.0f * difference2) + m[5];
}

/* Stores the outputs of a run of tiles in one tile row: lines[i] has row i of the tiles. */
static void store_run(const xcvm_winograd *g, size_t output, size_t tile, size_t count, float *const lines[TILE])
{
    const xcvm_conv *c = g->conv;
    const xcvm_conv_shape *s = &c->shape;
    const xcvm_window *w = &s->window;
    const size_t column = tile % g->columns * TILE, row = tile / g->columns % g->rows * TILE;
    const size_t image = tile / g->columns / g->rows;
    const size_t width = w->out[2] - column < TILE * count ? w->out[2] - column : TILE * count;
    const size_t plane = ((image * s->group + g->group) * s->outputs + output) * w->out_size;
    for (size_t i = 0; i < TILE && row + i < w->out[1]; i++) {
        const size_t at = plane + (row + i) * w->out[2] + column;
        float *line = lines[i];
        if (c->z != NULL) {
            const float *z = c->z + at;
            for (size_t j = 0; j < width; j++)
                line[j] += z[j];
            if (c->activation != NULL)
                for (size_t j = 0; j < width; j++)
                    line[j] = xcvm_clamp_f32(line[j], c->activation->low, c->activation->high);
        }
        if (c->activation != NULL && c->activation->kind != XCVM_ACTIVATION_none)
            xcvm_activate_row(c->activation, line, width);
        xcvm_copy_floats(c->y + at, line, width);
    }
}

void xcvm_winograd_outputs(const xcvm_winograd *g, size_t output, size_t tile, size_t count, const float *from,
                           size_t stride)
{
    const xcvm_conv *c = g->conv;
    float lines[TILE][TILE * CHUNK_FLOATS] __attribute__((aligned(64)));
    const float bias = c->b != NULL ? c->b[g->group * c->shape.outputs + output] : 0.0f;
    const bool clamp = c->activation != NULL && c->z == NULL;
    const xcvm_lanes low = xcvm_lanes_all(clamp ? c->activation->low : 0.0f);
    const xcvm_lanes high = xcvm_lanes_all(clamp ? c->activation->high : 0.0f);
    for (size_t t = 0; t < count; t += XCVM_LANES) {
        xcvm_lanes rows[TILE][SPAN];
#pragma GCC unroll 6
        for (size_t j = 0; j < SPAN; j++) {
            xcvm_lanes m[SPAN], v[TILE];
#pragma GCC unroll 6
            for (size_t i = 0; i < SPAN; i++)
                m[i] = xcvm_lanes_load(from + (i * SPAN + j) * stride + t);
            transform_output(m, v);
#pragma GCC unroll 4
            for (int i = 0; i < TILE; i++)
                rows[i][j] = v[i];
        }
#pragma GCC unroll 4
        for (int i = 0; i < TILE; i++) {
            xcvm_lanes v[TILE];
            transform_output(rows[i], v);
#pragma GCC unroll 4
            for (int j = 0; j < TILE; j++) {
                v[j] += bias;
                if (clamp)
                    v[j] = xcvm_lanes_min(xcvm_lanes_max(v[j], low), high);
            }
            const xcvm_lanes even_low = xcvm_lanes_interleave_low(v[0], v[2]);
            const xcvm_lanes even_high = xcvm_lanes_interleave_high(v[0], v[2]);
            const xcvm_lanes odd_low = xcvm_lanes_interleave_low(v[1], v[3]);
            const xcvm_lanes odd_high = xcvm_lanes_interleave_high(v[1], v[3]);
            float *to = lines[i] + TILE * t;
            xcvm_lanes_store(to, xcvm_lanes_interleave_low(even_low, odd_low));
            xcvm_lanes_store(to + XCVM_LANES, xcvm_lanes_interleave_high(even_low, odd_low));
            xcvm_lanes_store(to + 2 * XCVM_LANES, xcvm_lanes_interleave_low(even_high, odd_high));
            xcvm_lanes_store(to + 3 * XCVM_LANES, xcvm_lanes_interleave_high(even_high, odd_high));
        }
    }
    for (size_t done = 0; done < count;) {
        size_t run = g->columns - (tile + done) % g->columns;
        run = run < count - done ? run : count - done;
        float *const starts[TILE] = {lines[0] + TILE * done, lines[1] + TILE * done, lines[2] + TILE * done,
                                     lines[3] + TILE * done};
        store_run(g, output, tile + done, run, starts);
        done += run;
    }
}

/* ---- Gradients of outputs ---- */

XCVM_INLINE void transform_gradient(const xcvm_lanes y[TILE], xcvm_lanes m[SPAN])
{
    const xcvm_lanes even = y[0] + 0.5f * y[2], odd = (0.5f * XCVM_ROOT2) * (y[1] + 0.5f * y[3]);
    const xcvm_lanes even2 = y[0] + 2.0f * y[2], odd2 = XCVM_ROOT2 * (y[1] + 2.0f * y[3]);
    m[0] = y[0];
    m[1] = even + odd;
    m[2] = even - odd;
    m[3] = even2 + odd2;
    m[4] = even2 - odd2;
    m[5] = y[3];
}

/* Transforms a run of tiles of one tile row of the plane `from`. */
static void transform_gradients(const xcvm_window *w, const float *from, size_t row, size_t column, size_t count,
                                float *to, size_t stride)
{
    float rows[TILE][LINE] __attribute__((aligned(64))), lines[SPAN][LINE] __attribute__((aligned(64)));
    const size_t floats = TILE * xcvm_round_up(count, XCVM_LANES);
    for (size_t i = 0; i < TILE; i++)
        copy_padded(row + i < w->out[1] ? from + (row + i) * w->out[2] : NULL, (ptrdiff_t)column, w->out[2], floats,
                    rows[i]);
    for (size_t i = 0; i < floats; i += XCVM_LANES) {
        xcvm_lanes y[TILE], m[SPAN];
#pragma GCC unroll 4
        for (size_t j = 0; j < TILE; j++)
            y[j] = xcvm_lanes_load(rows[j] + i);
        transform_gradient(y, m);
#pragma GCC unroll 6
        for (size_t j = 0; j < SPAN; j++)
            xcvm_lanes_store(lines[j] + i, m[j]);
    }
    for (size_t i = 0; i < SPAN; i++)
        for (size_t t = 0; t < count; t += XCVM_LANES) {
            xcvm_lanes y[TILE], m[SPAN];
            split_vectors(lines[i] + TILE * t, y);
            transform_gradient(y, m);
#pragma GCC unroll 6
            for (size_t j = 0; j < SPAN; j++)
                xcvm_lanes_store(to + (i * SPAN + j) * stride + t, m[j]);
        }
}

void xcvm_winograd_gradients(const xcvm_winograd *g, const float *from, size_t output, size_t tile, size_t count,
                             float *to, size_t stride)
{
    const xcvm_conv_shape *s = &g->conv->shape;
    for (size_t done = 0, run; done < count; done += run) {
        const size_t at = tile + done, column = at % g->columns, row = at / g->columns % g->rows;
        const size_t image = at / g->columns / g->rows, plane = (image * s->group + g->group) * s->outputs + output;
        run = g->columns - column < count - done ? g->columns - column : count - done;
        transform_gradients(&s->window, from + plane * s->window.out_size, TILE * row, TILE * column, run, to + done,
                            stride);
    }
}

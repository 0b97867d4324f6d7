#include "ops/vector/winograd.h"
#include "ops/vector/activation.h"

enum {
    TILE = XCVM_WINOGRAD_TILE,
    SPAN = XCVM_WINOGRAD_SPAN,
    CHUNK = XCVM_WINOGRAD_CHUNK,
    CHUNK_FLOATS = CHUNK + XCVM_LANES,
    LINE = TILE * CHUNK + 2 + 8 * XCVM_LANES
};

#define ROOT2 1.41421356237f

/* ---- Inputs ---- */

XCVM_INLINE void transform_input(const xcvm_lanes d[SPAN], xcvm_lanes t[SPAN])
{
    const xcvm_lanes a = d[4] - 2.0f * d[2], b = (0.5f * ROOT2) * d[3] - ROOT2 * d[1];
    const xcvm_lanes c = d[4] - 0.5f * d[2], e = ROOT2 * d[3] - (0.5f * ROOT2) * d[1];
    t[0] = d[0] - 2.5f * d[2] + d[4];
    t[1] = a + b;
    t[2] = a - b;
    t[3] = c + e;
    t[4] = c - e;
    t[5] = d[1] - 2.5f * d[3] + d[5];
}

/* `count` floats of a row of a plane, from column `from` on, which may be below 0; zero outside. `row` NULL: all zero.
 */
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

/* tiles[j][t] = line[TILE * t + j]; writes up to a vector beyond `count`. */
static void split_line(const float *line, size_t count, float tiles[SPAN][CHUNK_FLOATS], size_t at)
{
    for (size_t t = 0; t < count; t += XCVM_LANES) {
        for (int shift = 0; shift < 2; shift++) {
            const float *from = line + TILE * (t + (size_t)shift);
            const xcvm_lanes a = xcvm_lanes_load(from), b = xcvm_lanes_load(from + XCVM_LANES);
            const xcvm_lanes c = xcvm_lanes_load(from + 2 * XCVM_LANES), d = xcvm_lanes_load(from + 3 * XCVM_LANES);
            const xcvm_lanes even_ab = xcvm_lanes_even(a, b), even_cd = xcvm_lanes_even(c, d);
            const xcvm_lanes odd_ab = xcvm_lanes_odd(a, b), odd_cd = xcvm_lanes_odd(c, d);
            float(*to)[CHUNK_FLOATS] = tiles + TILE * shift;
            xcvm_lanes_store(to[0] + at + t, xcvm_lanes_even(even_ab, even_cd));
            xcvm_lanes_store(to[1] + at + t, xcvm_lanes_even(odd_ab, odd_cd));
            if (shift == 0) {
                xcvm_lanes_store(to[2] + at + t, xcvm_lanes_odd(even_ab, even_cd));
                xcvm_lanes_store(to[3] + at + t, xcvm_lanes_odd(odd_ab, odd_cd));
            }
        }
    }
}

/* Tiles [from, from + count) of tile row `row`, transformed along the columns of the image: tiles[i][j][at ...]. */
static void transform_columns(const xcvm_window *w, const float *plane, size_t row, size_t from, size_t count,
                              float tiles[SPAN][SPAN][CHUNK_FLOATS], size_t at)
{
    float lines[SPAN][LINE] __attribute__((aligned(64)));
    const size_t floats = TILE * count + 2;
    for (size_t i = 0; i < SPAN; i++) {
        const ptrdiff_t h = (ptrdiff_t)(TILE * row + i) - w->pad[1];
        const bool inside = h >= 0 && h < (ptrdiff_t)w->in[1];
        copy_padded(inside ? plane + (size_t)h * w->in[2] : NULL, (ptrdiff_t)(TILE * from) - w->pad[2], w->in[2],
                    floats, lines[i]);
    }
    for (size_t i = 0; i < floats; i += XCVM_LANES) {
        xcvm_lanes d[SPAN], t[SPAN];
#pragma GCC unroll 6
        for (int j = 0; j < SPAN; j++)
            d[j] = xcvm_lanes_load(lines[j] + i);
        transform_input(d, t);
#pragma GCC unroll 6
        for (int j = 0; j < SPAN; j++)
            xcvm_lanes_store(lines[j] + i, t[j]);
    }
    for (int i = 0; i < SPAN; i++)
        split_line(lines[i], count, tiles[i], at);
}

void xcvm_winograd_inputs(const xcvm_winograd *g, size_t channel, size_t tile, size_t count, float *to, size_t stride)
{
    const xcvm_conv_shape *s = &g->conv->shape;
    float tiles[SPAN][SPAN][CHUNK_FLOATS] __attribute__((aligned(64)));
    for (size_t done = 0; done < count;) {
        const size_t at = tile + done, column = at % g->columns, row = at / g->columns;
        const size_t run = g->columns - column < count - done ? g->columns - column : count - done;
        const size_t plane = (row / g->rows * s->group + g->group) * s->channels + channel;
        transform_columns(&s->window, g->conv->x + plane * s->window.in_size, row % g->rows, column, run, tiles, done);
        done += run;
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

XCVM_INLINE void transform_filter(const xcvm_lanes g[3], xcvm_lanes u[SPAN])
{
    const xcvm_lanes p = (-2.0f / 3.0f) * g[0] - (1.0f / 3.0f) * g[2], q = (ROOT2 / 3.0f) * g[1];
    const xcvm_lanes r = (1.0f / 6.0f) * g[0] + (1.0f / 3.0f) * g[2], s = (ROOT2 / 6.0f) * g[1];
    u[0] = g[0];
    u[1] = p - q;
    u[2] = p + q;
    u[3] = r + s;
    u[4] = r - s;
    u[5] = g[2];
}

/* taps[j] = window position j of `count` channels, up to XCVM_LANES, zero for those beyond; `readable` floats of w may
 * be read. */
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
            transform_filter(column, u);
#pragma GCC unroll 6
            for (int i = 0; i < SPAN; i++)
                rows[i][j] = u[i];
        }
#pragma GCC unroll 6
        for (size_t i = 0; i < SPAN; i++) {
            xcvm_lanes u[SPAN];
            transform_filter(rows[i], u);
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
    y[1] = (0.5f * ROOT2) * difference + ROOT2 * difference2;
    y[2] = 0.5f * sum + 2.0f * sum2;
    y[3] = (0.25f * ROOT2) * difference + (2.0f * ROOT2) * difference2 + m[5];
}

/* The outputs of a run of tiles in one tile row: lines[i] holds row i of the tiles, side by side. */
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

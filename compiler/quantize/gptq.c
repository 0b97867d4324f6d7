/* GPTQ, as the search for the nearest plane that it is (Babai 1986; Chen et al., "The Geometry of LLM Quantization:
 * GPTQ as Babai's Nearest Plane Algorithm", 2025): with the moments H = R' R, R upper triangular, the error of a sum is
 * |R (w - q)|. Its last row has one weight, which is rounded to the nearest; each row above, from the last to the
 * first, has one more, which can bring the row near zero whatever those below have become. No inverse is needed. */
#include "compiler/quantize/gptq.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_INPUTS = 1024, /* of a block: its triangle is factored in time that grows with the third power */
    LANES = 16,         /* outputs that are rounded side by side */
};

/* Damping: the addition to the diagonal, as a share of its mean, as in Frantar et al. Otherwise inputs that are almost
 * always zero would get unbounded weights as compensation. */
#define DAMPING 0.01

/* ---- Moments ---- */

void xcc_moments_plan(xcc_moments *t, size_t groups, size_t inputs, size_t most)
{
    *t = (xcc_moments){.groups = groups, .inputs = inputs};
    const size_t width = groups * inputs * sizeof *t->sums, fitting = width > 0 ? most / width : 1;
    const size_t block = xcvm_min(xcvm_min(fitting > 0 ? fitting : 1, MOST_INPUTS), inputs > 0 ? inputs : 1);
    t->blocks = xcvm_ceil_div(inputs, block);
    t->block = t->blocks > 0 ? xcvm_ceil_div(inputs, t->blocks) : 1;
    t->bytes = groups * t->blocks * t->block * t->block * sizeof *t->sums;
}

/* Products with input i of four rows, from i on. */
static void add_four(float *restrict sums, const float *rows, size_t stride, size_t i, size_t n)
{
    const float *restrict a = rows, *restrict b = a + stride, *restrict c = b + stride, *restrict d = c + stride;
    const float p = a[i], q = b[i], r = c[i], s = d[i];
    for (size_t k = i; k < n; k++)
        sums[k] += p * a[k] + q * b[k] + (r * c[k] + s * d[k]);
}

static void add_one(float *restrict sums, const float *restrict row, size_t i, size_t n)
{
    const float p = row[i];
    for (size_t k = i; k < n; k++)
        sums[k] += p * row[k];
}

xcvm_status xcc_moments_add(xcc_module *m, xcc_moments *t, const float *rows, size_t count)
{
    const size_t stride = t->groups * t->inputs;
    for (size_t at = 0; at < t->groups * t->blocks; at++) {
        const size_t first = at % t->blocks * t->block, n = xcvm_min(t->block, t->inputs - first);
        const float *from = rows + at / t->blocks * t->inputs + first;
        for (size_t i = 0; i < n; i++) {
            float *sums = t->sums + (at * t->block + i) * t->block;
            size_t row = 0;
            XCVM_TRY(xcc_poll(m));
            for (; row + 4 <= count; row += 4)
                add_four(sums, from + row * stride, stride, i, n);
            for (; row < count; row++)
                add_one(sums, from + row * stride, i, n);
        }
    }
    t->count += count;
    return XCVM_OK;
}

/* ---- Factors ---- */

typedef struct factor {
    size_t n;
    size_t *order;  /* the input of a row */
    double *matrix; /* n x n, from the diagonal on: the moments in that order, then R */
    float *rows;    /* R with each row divided by its diagonal */
} factor;

typedef struct placed {
    double moment;
    size_t input;
} placed;

static int by_moment(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    const int order = (x->moment > y->moment) - (x->moment < y->moment);
    return order != 0 ? order : (x->input > y->input) - (x->input < y->input);
}

/* The input with the largest moment is rounded first, so it is the last row. */
static void put_in_order(factor *f, const xcc_moments *t, const float *sums, placed *places)
{
    double mean = 0;
    for (size_t i = 0; i < f->n; i++) {
        places[i] = (placed){.moment = (double)sums[i * t->block + i], .input = i};
        mean += places[i].moment / (double)f->n;
    }
    qsort(places, f->n, sizeof *places, by_moment);
    for (size_t i = 0; i < f->n; i++)
        f->order[i] = places[i].input;
    const double damping = mean * DAMPING > 0 ? mean * DAMPING : 1;
    for (size_t i = 0; i < f->n; i++)
        for (size_t k = i; k < f->n; k++) {
            const size_t a = xcvm_min(f->order[i], f->order[k]), b = f->order[i] + f->order[k] - a;
            f->matrix[i * f->n + k] = (double)sums[a * t->block + b] + (i == k ? damping : 0);
        }
}

/* Cholesky's factor in place. `ok`: it has one. */
static xcvm_status decompose(xcc_module *m, factor *f, bool *ok)
{
    const size_t n = f->n;
    for (size_t k = 0; k < n; k++) {
        double *restrict row = f->matrix + k * n;
        XCVM_TRY(xcc_poll(m));
        *ok = row[k] > 0 && row[k] <= DBL_MAX;
        if (!*ok)
            return XCVM_OK;
        const double pivot = sqrt(row[k]);
        row[k] = pivot;
        for (size_t i = k + 1; i < n; i++)
            row[i] /= pivot;
        for (size_t i = k + 1; i < n; i++) {
            double *restrict below = f->matrix + i * n;
            const double by = row[i];
            for (size_t j = i; j < n; j++)
                below[j] -= by * row[j];
        }
    }
    return XCVM_OK;
}

static xcvm_status make_factor(xcc_module *m, const xcc_moments *t, size_t at, placed *places, factor *f)
{
    bool ok;
    put_in_order(f, t, t->sums + at * t->block * t->block, places);
    XCVM_TRY(decompose(m, f, &ok));
    for (size_t i = 0; i < f->n; i++)
        for (size_t k = i + 1; k < f->n; k++)
            f->rows[i * f->n + k] = ok ? (float)(f->matrix[i * f->n + k] / f->matrix[i * f->n + i]) : 0.0f;
    return XCVM_OK;
}

/* ---- Rounding ---- */

int32_t xcc_grid_level(const xcc_grid *grid, size_t at, float x)
{
    const double level = rint((double)(x / grid->scales[at])) + grid->zero_points[at];
    return (int32_t)fmin(fmax(level, grid->least), grid->greatest);
}

/* The accumulated error of row i from the rows after it, for each of the outputs. */
static void carry(const float *restrict row, const float (*restrict errors)[LANES], size_t i, size_t n,
                  float left[LANES])
{
    float sums[LANES] = {0};
    for (size_t k = i + 1; k < n; k++)
        for (int lane = 0; lane < LANES; lane++)
            sums[lane] += row[k] * errors[k][lane];
    memcpy(left, sums, sizeof sums);
}

/* Outputs from `first` on, at most LANES of them, and the inputs of a block from `input` on. */
static xcvm_status round_outputs(xcc_module *m, const factor *f, const xcc_grid *grid, const xcc_weight_layout *layout,
                                 size_t first, size_t outputs, size_t input, const float *x, uint8_t *levels,
                                 float (*errors)[LANES])
{
    for (size_t i = f->n; i-- > 0;) {
        float left[LANES];
        const size_t in = input + f->order[i];
        XCVM_TRY(xcc_poll(m));
        carry(f->rows + i * f->n, (const float(*)[LANES])errors, i, f->n, left);
        for (size_t lane = 0; lane < LANES; lane++) {
            if (lane >= outputs) {
                errors[i][lane] = 0;
                continue;
            }
            const size_t at = (first + lane) * layout->output + in * layout->input;
            const size_t number = (first + lane) * grid->step + in / grid->run;
            const int32_t level = xcc_grid_level(grid, number, x[at] + left[lane]);
            errors[i][lane] = x[at] - (float)(level - grid->zero_points[number]) * grid->scales[number];
            levels[at] = (uint8_t)level;
        }
    }
    return XCVM_OK;
}

static xcvm_status round_all(xcc_module *m, const xcc_moments *t, const xcc_grid *grid, const xcc_weight_layout *layout,
                             const float *x, uint8_t *levels, xcvm_arena *arena)
{
    const size_t n = t->block, each = layout->outputs / t->groups;
    factor f = {.order = xcvm_arena_allocate(arena, (n + 1) * sizeof *f.order),
                .matrix = xcvm_arena_allocate(arena, (n * n + 1) * sizeof *f.matrix),
                .rows = xcvm_arena_allocate(arena, (n * n + 1) * sizeof *f.rows)};
    placed *places = xcvm_arena_allocate(arena, (n + 1) * sizeof *places);
    float(*errors)[LANES] = xcvm_arena_allocate(arena, (n + 1) * sizeof *errors);
    if (f.order == NULL || f.matrix == NULL || f.rows == NULL || places == NULL || errors == NULL)
        return xcc_out_of_memory(m);
    for (size_t at = 0; at < t->groups * t->blocks; at++) {
        const size_t input = at % t->blocks * t->block, group = at / t->blocks;
        f.n = xcvm_min(t->block, t->inputs - input);
        XCVM_TRY(make_factor(m, t, at, places, &f));
        for (size_t o = 0; o < each; o += LANES)
            XCVM_TRY(round_outputs(m, &f, grid, layout, group * each + o, xcvm_min(LANES, each - o), input, x, levels,
                                   errors));
    }
    return XCVM_OK;
}

xcvm_status xcc_gptq(xcc_module *m, const xcc_moments *t, const xcc_grid *grid, const xcc_weight_layout *layout,
                     const float *x, uint8_t *levels)
{
    xcvm_arena arena = {.allocator = m->allocator};
    const xcvm_status status = round_all(m, t, grid, layout, x, levels, &arena);
    xcvm_arena_release(&arena);
    return status;
}

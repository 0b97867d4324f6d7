/* Gate arithmetic of recurrent networks, one or a few vectors of hidden units at a time. */
#include "ops/simd/lanes_math.h"
#include "ops/simd/math.h"
#include "ops/recurrent/simd/recurrent.h"

enum { UNITS = XCVM_PACKED_COLUMNS };

static void sigmoids(float *v, size_t count)
{
    for (size_t i = 0; i < count; i += XCVM_LANES)
        xcvm_lanes_store(v + i, xcvm_lanes_sigmoid(xcvm_lanes_load(v + i)));
}

#define EACH(expression)                                                                                               \
    XCVM_INDEPENDENT                                                                                                   \
    for (size_t i = 0; i < UNITS; i++) {                                                                               \
        const float x = v[i];                                                                                          \
        v[i] = (expression);                                                                                           \
    }                                                                                                                  \
    break

static void activate(const xcvm_recurrent_function *f, float clip, float *v)
{
    const float alpha = (float)f->alpha, beta = (float)f->beta;
    if (clip > 0)
        for (size_t i = 0; i < UNITS; i++)
            v[i] = v[i] < -clip ? -clip : v[i] > clip ? clip : v[i];
    switch (f->kind) {
    case XCVM_RECURRENT_AFFINE:
        EACH(alpha * x + beta);
    case XCVM_RECURRENT_ELU:
        EACH(x >= 0 ? x : alpha * (xcvm_exp_f32(x) - 1));
    case XCVM_RECURRENT_HARD_SIGMOID:
        EACH(fminf(fmaxf(alpha * x + beta, 0), 1));
    case XCVM_RECURRENT_LEAKY_RELU:
        EACH(x >= 0 ? x : alpha * x);
    case XCVM_RECURRENT_RELU:
        EACH(x > 0 ? x : 0);
    case XCVM_RECURRENT_SCALED_TANH:
        EACH(alpha * xcvm_tanh_f32(beta * x));
    case XCVM_RECURRENT_SIGMOID:
        sigmoids(v, UNITS);
        break;
    case XCVM_RECURRENT_SOFTPLUS:
        EACH(xcvm_softplus_f32(x));
    case XCVM_RECURRENT_SOFTSIGN:
        EACH(x / (1 + fabsf(x)));
    case XCVM_RECURRENT_TANH:
        EACH(xcvm_tanh_f32(x));
    case XCVM_RECURRENT_THRESHOLDED_RELU:
        EACH(x >= alpha ? x : 0);
    }
}

/* The default functions, in one pass without calls. */
static void default_lstm(float *restrict sums, float *restrict c, float *restrict next_h)
{
    sigmoids(sums, 3 * UNITS);
    XCVM_INDEPENDENT
    for (size_t i = 0; i < UNITS; i++) {
        const float in = sums[i], out = sums[UNITS + i], forget = sums[2 * UNITS + i];
        const float cell = xcvm_tanh_f32(sums[3 * UNITS + i]);
        const float next = forget * c[i] + in * cell;
        c[i] = next;
        next_h[i] = out * xcvm_tanh_f32(next);
    }
}

static bool is_plain(const xcvm_recurrent *n, const xcvm_recurrent_function *f)
{
    return f[0].kind == XCVM_RECURRENT_SIGMOID && f[1].kind == XCVM_RECURRENT_TANH &&
           f[2].kind == XCVM_RECURRENT_TANH && n->clip == 0.0f && !n->input_forget;
}

static void lstm(const xcvm_recurrent *n, const xcvm_recurrent_function *f, const xcvm_recurrent_cell *c)
{
    float *in = c->sums, *out = in + UNITS, *forget = out + UNITS, *cell = forget + UNITS;
    if (c->p == NULL && is_plain(n, f)) {
        default_lstm(c->sums, c->c, c->next_h);
        return;
    }
    if (c->p != NULL)
        for (size_t i = 0; i < UNITS; i++) {
            in[i] += c->p[i] * c->c[i];
            forget[i] += c->p[2 * c->p_stride + i] * c->c[i];
        }
    activate(&f[0], n->clip, in);
    if (n->input_forget)
        for (size_t i = 0; i < UNITS; i++)
            forget[i] = 1 - in[i];
    else
        activate(&f[0], n->clip, forget);
    activate(&f[1], n->clip, cell);
    for (size_t i = 0; i < UNITS; i++)
        c->c[i] = forget[i] * c->c[i] + in[i] * cell[i];
    if (c->p != NULL)
        for (size_t i = 0; i < UNITS; i++)
            out[i] += c->p[c->p_stride + i] * c->c[i];
    activate(&f[0], n->clip, out);
    memcpy(cell, c->c, UNITS * sizeof *cell);
    activate(&f[2], n->clip, cell);
    for (size_t i = 0; i < UNITS; i++)
        c->next_h[i] = out[i] * cell[i];
}

static void gru_update(const xcvm_recurrent *n, const xcvm_recurrent_function *f, const xcvm_recurrent_cell *c,
                       const float *update, float *candidate)
{
    activate(&f[1], n->clip, candidate);
    for (size_t i = 0; i < UNITS; i++)
        c->next_h[i] = (1 - update[i]) * candidate[i] + update[i] * c->h[i];
}

void xcvm_recurrent_reset_run(const xcvm_recurrent *n, const xcvm_recurrent_function *f, const xcvm_recurrent_cell *c)
{
    float *update = c->sums, *reset = update + UNITS;
    activate(&f[0], n->clip, update);
    activate(&f[0], n->clip, reset);
    memcpy(c->update, update, UNITS * sizeof *update);
    for (size_t i = 0; i < UNITS; i++)
        c->reset[i] = reset[i] * c->h[i];
}

void xcvm_recurrent_cell_run(const xcvm_recurrent *n, const xcvm_recurrent_function *f, const xcvm_recurrent_cell *c)
{
    switch (n->op) {
    case XCVM_OP_LSTM:
        lstm(n, f, c);
        break;
    case XCVM_OP_GRU: {
        float *update = c->sums, *reset = update + UNITS, *candidate = reset + UNITS;
        if (!n->linear_before_reset) {
            gru_update(n, f, c, c->update, candidate);
            break;
        }
        activate(&f[0], n->clip, update);
        activate(&f[0], n->clip, reset);
        for (size_t i = 0; i < UNITS; i++)
            candidate[i] = c->x[i] + reset[i] * candidate[i];
        gru_update(n, f, c, update, candidate);
        break;
    }
    default:
        activate(&f[0], n->clip, c->sums);
        memcpy(c->next_h, c->sums, UNITS * sizeof *c->sums);
        break;
    }
}

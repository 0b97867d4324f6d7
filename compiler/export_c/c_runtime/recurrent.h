/* Recurrent networks. */
#ifndef XC_RECURRENT_H
#define XC_RECURRENT_H

#include "compiler/export_c/c_runtime/products.h"
#include "compiler/export_c/c_runtime/quantized.h"
#include "compiler/export_c/c_runtime/workspace.h"
#include "ops/recurrent/recurrent_functions.h"

/* kind 0: RNN, 1: GRU, 2: LSTM. `packed`: weights and products have the VM's packed layout. Sums of a step are in
 * blocks of `length` units, each gate after the other: blocks of 16 if packed, else one block of all units. */
typedef struct xc_recurrent {
    int kind, packed, reverse, batch_first, linear_before_reset, input_forget;
    size_t steps, batch, input, hidden, gates, directions, blocks, length;
    size_t r_bytes; /* between the recurrence weights of two directions */
    double clip;
    xcvm_recurrent_function f[2][XCVM_RECURRENT_OF_CELL]; /* of each direction */
} xc_recurrent;

static void xc_recurrent_function_value(const xcvm_recurrent_function *f, double clip, value_t *v, size_t count)
{
    const value_t alpha = (value_t)f->alpha, beta = (value_t)f->beta, most = (value_t)clip;
    if (clip > 0)
        for (size_t i = 0; i < count; i++)
            v[i] = v[i] < -most ? -most : v[i] > most ? most : v[i];
    if (f->kind == XCVM_RECURRENT_SIGMOID) {
        XCVM_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            v[i] = xc_sigmoid_value(v[i]);
        return;
    }
    if (f->kind == XCVM_RECURRENT_TANH) {
        XCVM_INDEPENDENT
        for (size_t i = 0; i < count; i++)
            v[i] = xc_tanh_value(v[i]);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const value_t x = v[i], inner = alpha * x + beta;
        switch (f->kind) {
        case XCVM_RECURRENT_AFFINE:
            v[i] = inner;
            break;
        case XCVM_RECURRENT_ELU:
            v[i] = x >= 0 ? x : alpha * (xc_exp_value(x) - 1);
            break;
        case XCVM_RECURRENT_HARD_SIGMOID:
            v[i] = inner < 0 ? 0 : inner > 1 ? 1 : inner;
            break;
        case XCVM_RECURRENT_LEAKY_RELU:
            v[i] = x >= 0 ? x : alpha * x;
            break;
        case XCVM_RECURRENT_RELU:
            v[i] = x > 0 ? x : 0;
            break;
        case XCVM_RECURRENT_SCALED_TANH:
            v[i] = alpha * xc_tanh_value(beta * x);
            break;
        case XCVM_RECURRENT_SOFTPLUS:
            v[i] = (x > 0 ? x : 0) + xc_log_value(1 + xc_exp_value(x > 0 ? -x : x));
            break;
        case XCVM_RECURRENT_SOFTSIGN:
            v[i] = x / (1 + (x < 0 ? -x : x));
            break;
        default:
            v[i] = x >= alpha ? x : 0;
            break;
        }
    }
}

/* One step of the units of a block. `s` are the sums of its gates. For the candidate of GRU, `inner` is the sum that is
 * reset. p: peepholes, `hidden` apart, or NULL. */
static void xc_recurrent_cell_value(const xc_recurrent *q, const xcvm_recurrent_function *f, value_t *s,
                                    const value_t *inner, const value_t *p, value_t *h, value_t *c, size_t count)
{
    const size_t n = q->length;
    if (q->kind == 0) {
        xc_recurrent_function_value(f, q->clip, s, count);
        memcpy(h, s, count * sizeof *s);
    } else if (q->kind == 1) {
        if (q->linear_before_reset)
            for (size_t i = 0; i < count; i++)
                s[2 * n + i] += s[n + i] * inner[i];
        xc_recurrent_function_value(f + 1, q->clip, s + 2 * n, count);
        for (size_t i = 0; i < count; i++)
            h[i] = (1 - s[i]) * s[2 * n + i] + s[i] * h[i];
    } else {
        value_t *const out = s + n, *const forget = s + 2 * n, *const cell = s + 3 * n;
        for (size_t i = 0; i < count && p != NULL; i++) {
            s[i] += p[i] * c[i];
            forget[i] += p[2 * q->hidden + i] * c[i];
        }
        xc_recurrent_function_value(f, q->clip, s, count);
        if (q->input_forget)
            for (size_t i = 0; i < count; i++)
                forget[i] = 1 - s[i];
        else
            xc_recurrent_function_value(f, q->clip, forget, count);
        xc_recurrent_function_value(f + 1, q->clip, cell, count);
        for (size_t i = 0; i < count; i++)
            c[i] = forget[i] * c[i] + s[i] * cell[i];
        for (size_t i = 0; i < count && p != NULL; i++)
            out[i] += p[q->hidden + i] * c[i];
        xc_recurrent_function_value(f, q->clip, out, count);
        memcpy(cell, c, count * sizeof *c);
        xc_recurrent_function_value(f + 2, q->clip, cell, count);
        for (size_t i = 0; i < count; i++)
            h[i] = out[i] * cell[i];
    }
}

/* The sums of a step with the state h, in the layout of the input's sums. */
static void xc_recurrent_product_value(const xc_recurrent *q, const void *weights, const value_t *h, value_t *to)
{
    const value_t *const r = weights;
    const size_t width = q->gates * q->hidden;
    for (size_t i = 0; i < width; i++) {
        value_t sum = 0;
        for (size_t k = 0; k < q->hidden; k++)
            sum += r[i * q->hidden + k] * h[k];
        to[i] = sum;
    }
}

/* Packed form: r is in panels. */
static void xc_packed_recurrent_product_f32(const xc_recurrent *q, const void *r, const float *h, float *to)
{
    const size_t width = q->blocks * q->gates * q->length;
    xc_packed_product(h, (const float *)r, NULL, NULL, to, 1, q->hidden, width, -INFINITY, INFINITY);
}

/* Weights of s8 of a direction: panels of quads, and sums and scales of their columns. xc_recurrent_bytes_workspace
 * gives the positions of the others. */
typedef struct xc_recurrent_bytes {
    const int8_t *panels;
    const int32_t *sums;
    const float *scales;
    uint8_t *state; /* in whole quads */
    float *rest;    /* remainder of a state after the first term; NULL: there is only one term */
} xc_recurrent_bytes;

/* Remainder of x after rounding to bytes by this scale and zero point. */
static XC_ROUNDED void xc_quantized_rest(const float *x, const uint8_t *bytes, size_t count, float scale, uint8_t zero,
                                         float *rest)
{
    for (size_t i = 0; i < count; i++) {
        const float v = (float)(bytes[i] - zero) * scale;
        rest[i] = x[i] - v;
    }
}

/* The product with a state that is not finite, as of weights that were brought to f32. */
static XC_ROUNDED void xc_unquantized_recurrent_product(const xc_recurrent *q, const xc_recurrent_bytes *w,
                                                        const float *h, float *to)
{
    const size_t quads = (q->hidden + 3) / 4, panels = q->blocks * q->gates, line = 4 * XC_QUANTIZED_OUTPUTS;
    for (size_t i = 0; i < panels; i++)
        for (size_t j = 0; j < XC_QUANTIZED_OUTPUTS; j++) {
            const size_t at = i * XC_QUANTIZED_OUTPUTS + j;
            float sum = 0;
            for (size_t u = 0; u < q->hidden; u++) {
                const float weight = (float)w->panels[(i * quads + u / 4) * line + j * 4 + u % 4] * w->scales[at];
                const float v = h[u] * weight;
                sum += v;
            }
            to[at] = sum;
        }
}

/* The state is quantized by its own range, and so is what that leaves of it. */
static XC_ROUNDED void xc_quantized_recurrent_product_f32(const xc_recurrent *q, const void *r, const float *h,
                                                          float *to)
{
    const xc_recurrent_bytes *const w = (const xc_recurrent_bytes *)r;
    const size_t quads = (q->hidden + 3) / 4, panels = q->blocks * q->gates;
    for (int term = 0; term < (w->rest != NULL ? 2 : 1); term++) {
        float scale;
        uint8_t zero;
        memset(w->state, 0, quads * 4);
        xc_quantize_dynamic(term == 0 ? h : w->rest, q->hidden, w->state, &scale, &zero);
        if (term == 0 && w->rest != NULL && !isfinite(scale)) {
            xc_unquantized_recurrent_product(q, w, h, to);
            return;
        }
        if (term == 0 && w->rest != NULL)
            xc_quantized_rest(h, w->state, q->hidden, scale, zero, w->rest);
        for (size_t i = 0; i < panels; i++) {
            uint32_t sums[1][XC_QUANTIZED_OUTPUTS];
            xc_quantized_tile_plain(w->state, 0, 1, quads, w->panels + i * quads * 4 * XC_QUANTIZED_OUTPUTS, sums);
            for (size_t j = 0; j < XC_QUANTIZED_OUTPUTS; j++) {
                const size_t at = i * XC_QUANTIZED_OUTPUTS + j;
                const uint32_t sum = sums[0][j] - zero * (uint32_t)w->sums[at];
                const float v = (float)(int32_t)sum * (scale * w->scales[at]);
                to[at] = term == 0 ? v : to[at] + v;
            }
        }
    }
}

/* All steps of one direction and batch entry from state h and cell c on, which receive the last ones. `x` has the sums
 * of the input, biases included, x_step apart; `y` may be NULL. `reset` is the bias that GRU resets, or NULL.
 * `workspace` has twice the width of the sums, plus the units. */
static void xc_recurrent_steps_value(const xc_recurrent *q, const xcvm_recurrent_function *f, const value_t *x,
                                     ptrdiff_t x_step, const void *r, const value_t *reset, const value_t *p,
                                     value_t *h, value_t *c, value_t *y, ptrdiff_t y_step, size_t steps,
                                     value_t *workspace,
                                     void (*product)(const xc_recurrent *, const void *, const value_t *, value_t *))
{
    const size_t n = q->length, block_width = q->gates * n, width = q->blocks * block_width;
    value_t *const sums = workspace, *const inner = workspace + width, *const state = inner + width;
    for (size_t t = 0; t < steps; t++, x += x_step) {
        product(q, r, h, sums);
        for (size_t u = 0; q->kind == 1 && u < q->hidden; u++) {
            const size_t at = u / n * block_width + u % n;
            inner[u] = sums[at + 2 * n] + (reset != NULL ? reset[u] : 0);
            sums[at + 2 * n] = 0;
        }
        for (size_t i = 0; i < width; i++)
            sums[i] += x[i];
        for (size_t block = 0; q->kind == 1 && block < q->blocks; block++)
            xc_recurrent_function_value(f, q->clip, sums + block * block_width, 2 * n);
        if (q->kind == 1 && !q->linear_before_reset) {
            for (size_t u = 0; u < q->hidden; u++)
                state[u] = sums[u / n * block_width + n + u % n] * h[u];
            product(q, r, state, inner);
            for (size_t u = 0; u < q->hidden; u++) {
                const size_t at = u / n * block_width + u % n + 2 * n;
                sums[at] += inner[at] + (reset != NULL ? reset[u] : 0);
            }
        }
        for (size_t block = 0; block < q->blocks; block++) {
            const size_t left = q->hidden - block * n;
            xc_recurrent_cell_value(q, f, sums + block * block_width, inner + block * n,
                                    p != NULL ? p + block * n : NULL, h + block * n, c + block * n,
                                    left < n ? left : n);
        }
        if (y != NULL)
            memcpy(y + (ptrdiff_t)t * y_step, h, q->hidden * sizeof *h);
    }
}

/* x: [steps, batch, ...], or [batch, steps, ...]: the input, or, packed, its products. w, r, b, initial_h, initial_c,
 * p, y, y_h and y_c are the operands of the instruction; b, if packed, is the bias that GRU resets. Absent operands are
 * NULL. Returns 1 if a length is out of range. `product` is xc_recurrent_product, xc_packed_recurrent_product if
 * packed, or xc_quantized_recurrent_product, whose r are the xc_recurrent_bytes of the directions. */
static int xc_recurrent_value(const xc_recurrent *q, const value_t *x, const value_t *w, const void *r,
                              const value_t *b, const int32_t *lengths, const value_t *initial_h,
                              const value_t *initial_c, const value_t *p, value_t *y, value_t *y_h, value_t *y_c,
                              value_t *workspace,
                              void (*product)(const xc_recurrent *, const void *, const value_t *, value_t *))
{
    const size_t hidden = q->hidden, gates = q->gates, width = q->blocks * gates * q->length;
    const size_t units = q->blocks * q->length;
    const xc_recurrent_workspace parts = xc_recurrent_workspace_of(units, width, q->packed ? 0 : q->steps);
    value_t *const h = workspace, *const c = workspace + parts.cell, *const rest = workspace + parts.step,
                   *const sums = workspace + parts.inputs;
    for (size_t entry = 0; entry < q->batch; entry++)
        for (size_t d = 0; d < q->directions; d++) {
            const size_t steps = lengths != NULL ? (size_t)lengths[entry] : q->steps;
            const size_t at = (q->batch_first ? entry * q->directions + d : d * q->batch + entry) * hidden;
            const int back = d == 1 || q->reverse;
            const size_t x_step = q->batch_first ? 1 : q->batch, x_first = q->batch_first ? entry * q->steps : entry;
            const size_t y_step = (q->batch_first ? 1 : q->batch) * q->directions * hidden;
            const size_t y_first =
                q->batch_first ? (entry * q->steps * q->directions + d) * hidden : (d * q->batch + entry) * hidden;
            const value_t *from = NULL, *reset = NULL;
            ptrdiff_t from_step;
            if (lengths != NULL && (lengths[entry] < 0 || steps > q->steps))
                return 1;
            for (size_t u = 0; u < units; u++) {
                h[u] = initial_h != NULL && u < hidden ? initial_h[at + u] : 0;
                c[u] = initial_c != NULL && u < hidden ? initial_c[at + u] : 0;
            }
            if (q->packed) {
                from = x + (x_first * q->directions + d) * width;
                from_step = (ptrdiff_t)(x_step * q->directions * width);
                reset = b != NULL ? b + d * hidden : NULL;
            } else {
                from = sums;
                from_step = (ptrdiff_t)width;
                reset =
                    b != NULL && q->kind == 1 && q->linear_before_reset ? b + (2 * d + 1) * width + 2 * hidden : NULL;
            }
            for (size_t t = 0; t < steps && !q->packed; t++)
                for (size_t i = 0; i < width; i++) {
                    const value_t *const row = x + (x_first + t * x_step) * q->input;
                    value_t sum = b != NULL ? b[2 * d * width + i] : 0;
                    if (b != NULL && (reset == NULL || i < 2 * hidden))
                        sum += b[(2 * d + 1) * width + i];
                    for (size_t k = 0; k < q->input; k++)
                        sum += w[(d * width + i) * q->input + k] * row[k];
                    sums[t * width + i] = sum;
                }
            for (size_t t = steps; t < q->steps && y != NULL; t++)
                memset(y + y_first + t * y_step, 0, hidden * sizeof *y);
            if (steps > 0)
                xc_recurrent_steps_value(q, q->f[d], back ? from + (ptrdiff_t)(steps - 1) * from_step : from,
                                         back ? -from_step : from_step, (const char *)r + d * q->r_bytes, reset,
                                         p != NULL ? p + d * 3 * hidden : NULL, h, c,
                                         y == NULL ? NULL : y + y_first + (back ? (steps - 1) * y_step : 0),
                                         back ? -(ptrdiff_t)y_step : (ptrdiff_t)y_step, steps, rest, product);
            if (y_h != NULL)
                memcpy(y_h + at, h, hidden * sizeof *h);
            if (y_c != NULL)
                memcpy(y_c + at, c, hidden * sizeof *c);
        }
    return 0;
}

#endif

/* Cross-layer equalization (Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction",
 * 2019): a channel is multiplied by a factor in one convolution and divided
 * by it in the next, through Relu but not through Clip. For one scale per weight tensor; channel_scales.c uses data. */
#include "compiler/quantize/quantize.h"

#include <math.h>

enum { ROUNDS = 20 };

/* Two consecutive convolutions, with copies of the scaled constants. */
typedef struct pair {
    xcc_quant_tensor *weights[2], *bias;
    xcc_tensor shapes[2], bias_shape;
    float *w[2], *b;
    size_t channels;
    bool depthwise; /* the second has a filter for each channel */
} pair;

static bool is_own(const xcc_quant_tensor *t)
{
    return xcc_quant_is_weight(t) && t->consumer_count == 1 && !t->captured && !t->is_output;
}

/* Returns the next convolution if it is the only reader of `n`. */
static const xcc_quant_node *next_of(const quantizer *q, const xcc_quant_node *n)
{
    if (n->epilogue != XCC_NO_NODE && !xcc_quant_is(&q->nodes[n->epilogue], "Relu"))
        return NULL;
    const xcc_quant_tensor *t = xcc_quant_output(q, xcc_quant_last(q, n), 0);
    if (t == NULL || t->consumer_count != 1 || t->captured || t->is_output)
        return NULL;
    const xcc_quant_node *next = &q->nodes[t->consumers[0]];
    return xcc_quant_is(next, "Conv") && !next->gone && xcc_quant_input(q, next, 0) == t ? next : NULL;
}

static xcvm_status find_pair(quantizer *q, const xcc_quant_node *n, pair *p, bool *found)
{
    *found = false;
    if (n->gone || !xcc_quant_is(n, "Conv") || !n->candidate)
        return XCVM_OK;
    const xcc_quant_node *next = next_of(q, n);
    if (next == NULL || !next->candidate)
        return XCVM_OK;
    *p = (pair){.weights = {xcc_quant_input(q, n, 1), xcc_quant_input(q, next, 1)}, .bias = xcc_quant_input(q, n, 2)};
    if (!is_own(p->weights[0]) || !is_own(p->weights[1]) || (p->bias != NULL && !is_own(p->bias)))
        return XCVM_OK;
    for (int i = 0; i < 2; i++)
        XCVM_TRY(xcc_quant_floats(q, p->weights[i], &q->m.arena, &p->shapes[i], &p->w[i]));
    if (p->bias != NULL)
        XCVM_TRY(xcc_quant_floats(q, p->bias, &q->m.arena, &p->bias_shape, &p->b));
    if (p->shapes[0].rank < 3 || p->shapes[1].rank < 3)
        return XCVM_OK;
    const int64_t group = xcc_quant_int(next, "group", 1);
    p->channels = (size_t)p->shapes[0].dims[0];
    p->depthwise = group == p->shapes[0].dims[0] && p->shapes[1].dims[0] == group && p->shapes[1].dims[1] == 1;
    *found = p->channels > 0 && p->shapes[0].count > 0 && p->shapes[1].count > 0 &&
             (p->bias == NULL || p->bias_shape.count == p->channels) &&
             (p->depthwise || (group == 1 && p->shapes[1].dims[1] == p->shapes[0].dims[0]));
    return XCVM_OK;
}

/* Elements of the second weights that read a channel: `runs` of `length` elements, `step` apart. */
typedef struct runs {
    size_t first, runs, length, step;
} runs;

static runs second_of(const pair *p, size_t channel)
{
    const size_t outputs = (size_t)p->shapes[1].dims[0], each = p->shapes[1].count / outputs;
    if (p->depthwise)
        return (runs){channel * each, 1, each, 0};
    const size_t inner = each / p->channels;
    return (runs){channel * inner, outputs, inner, each};
}

/* The maximum magnitude, at least `most`; ignores NaN. */
static float largest(const float *x, size_t count, float most)
{
    for (size_t i = 0; i < count; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

/* Scales channels so that both weights have the same range in each; returns the greatest change. */
static double equalize(pair *p)
{
    double most = 0;
    const size_t each = p->shapes[0].count / p->channels;
    for (size_t c = 0; c < p->channels; c++) {
        const runs r = second_of(p, c);
        const float first = largest(&p->w[0][c * each], each, 0);
        float second = 0;
        for (size_t k = 0; k < r.runs; k++)
            second = largest(&p->w[1][r.first + k * r.step], r.length, second);
        if (!(first > 0) || !(second > 0))
            continue;
        const double s = sqrt((double)first / (double)second);
        if (!(s > 1e-6 && s < 1e6))
            continue;
        most = fmax(most, fabs(log(s)));
        for (size_t i = 0; i < each; i++)
            p->w[0][c * each + i] = (float)((double)p->w[0][c * each + i] / s);
        if (p->b != NULL)
            p->b[c] = (float)((double)p->b[c] / s);
        for (size_t k = 0; k < r.runs; k++)
            for (size_t i = 0; i < r.length; i++) {
                float *w = &p->w[1][r.first + k * r.step + i];
                *w = (float)((double)*w * s);
            }
    }
    return most;
}

xcvm_status xcc_quant_equalize(quantizer *q)
{
    for (int round = 0; round < ROUNDS; round++) {
        double most = 0;
        size_t pairs = 0;
        for (size_t i = 0; i < q->node_count; i++) {
            pair p;
            bool found;
            XCVM_TRY(xcc_poll(&q->m));
            XCVM_TRY(find_pair(q, &q->nodes[i], &p, &found));
            if (!found)
                continue;
            pairs++;
            most = fmax(most, equalize(&p));
            for (int k = 0; k < 2; k++)
                XCVM_TRY(xcc_quant_set(q, p.weights[k], p.shapes[k].rank, p.shapes[k].dims, p.w[k]));
            if (p.bias != NULL)
                XCVM_TRY(xcc_quant_set(q, p.bias, p.bias_shape.rank, p.bias_shape.dims, p.b));
        }
        q->equalized = pairs;
        if (most < 0.01)
            break;
    }
    return XCVM_OK;
}

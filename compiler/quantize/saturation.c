/* Saturation: elements outside of the interval that readers distinguish need no integers. For example, the gate of a
 * squeeze and excitation has a range of a hundred, of which HardSigmoid distinguishes six. Elements below -3 become
 * zero in HardSwish. */
#include "compiler/quantize/quantize.h"

#include <math.h>

/* The interval in which a function's result changes by more than a quarter of a step. */
typedef struct interval {
    double low, high;
} interval;

static const interval all = {-INFINITY, INFINITY};

static double steps_of(const quantizer *q)
{
    int32_t least, greatest;
    xcc_quant_limits(q->o.activations, &least, &greatest);
    return (double)greatest - least;
}

/* For a function of one operand; the whole range if it does not saturate. */
static interval of_function(const quantizer *q, const xcc_quant_node *n)
{
    if (xcc_quant_is(n, "Relu"))
        return (interval){0, INFINITY};
    if (xcc_quant_is(n, "HardSwish"))
        return (interval){-3, INFINITY};
    if (xcc_quant_is(n, "HardSigmoid")) {
        const double alpha = xcc_quant_real(n, "alpha", 0.2), beta = xcc_quant_real(n, "beta", 0.5);
        return alpha > 0 ? (interval){-beta / alpha, (1 - beta) / alpha} : all;
    }
    /* 1 - sigmoid(x) < exp(-x), and tanh(x) = 2 sigmoid(2 x) - 1. */
    const double most = log(4 * steps_of(q));
    if (xcc_quant_is(n, "Sigmoid"))
        return (interval){-most, most};
    if (xcc_quant_is(n, "Tanh"))
        return (interval){-most / 2, most / 2};
    return all;
}

/* For t times a gate that is a function of t: the result is zero where the gate is zero. */
static interval of_gated(const quantizer *q, const xcc_quant_node *product, const xcc_quant_tensor *t)
{
    const xcc_quant_tensor *first = xcc_quant_input(q, product, 0), *result = xcc_quant_output(q, product, 0),
                           *gate = first == t ? xcc_quant_input(q, product, 1) : first;
    const xcc_quant_node *by = gate != NULL && gate->producer != XCC_NO_NODE ? &q->nodes[gate->producer] : NULL;
    if (by == NULL || by->gone || xcc_quant_input(q, by, 0) != t || result == NULL)
        return all;
    if (xcc_quant_is(by, "HardSigmoid"))
        return (interval){of_function(q, by).low, INFINITY};
    if (!xcc_quant_is(by, "Sigmoid") || result->seen == NULL)
        return all;
    const double step = (result->seen->greatest - fmin(result->seen->least, 0)) / steps_of(q);
    double low = 1;
    while (low < 100 && !(low * exp(-low) < step / 4))
        low += 0.5;
    return (interval){-low, INFINITY};
}

void xcc_quant_useful(const quantizer *q, const xcc_quant_tensor *t, double *low, double *high)
{
    interval useful = {INFINITY, -INFINITY};
    for (size_t i = 0; i < t->consumer_count; i++) {
        const xcc_quant_node *n = &q->nodes[t->consumers[i]];
        if (n->gone)
            continue;
        const interval one = xcc_quant_is(n, "Mul") ? of_gated(q, n, t) : of_function(q, n);
        useful.low = fmin(useful.low, one.low);
        useful.high = fmax(useful.high, one.high);
    }
    const bool known = useful.low <= 0 && useful.high >= 0 && !t->captured && !t->is_output;
    *low = known ? useful.low : all.low;
    *high = known ? useful.high : all.high;
}

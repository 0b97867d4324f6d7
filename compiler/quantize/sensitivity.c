/* Sensitivity: which sums of products harm the outputs most, and how many of them have to stay float. */
#include "compiler/quantize/quantizer.h"

#include <math.h>
#include <stdlib.h>

enum { LOOKED_AT = 4 }; /* batches that one node is judged by */

/* The share that the bound is about; infinite where an output is no number. */
static double worst(const quantizer *q)
{
    double most = 0;
    for (size_t i = 0; i < q->told_output_count; i++)
        most = fmax(most, isnan(q->told_outputs[i].max_error) ? (double)INFINITY : q->told_outputs[i].max_error);
    return most;
}

static double harm(const quantizer *q)
{
    double most = 0;
    for (size_t i = 0; i < q->told_output_count; i++)
        most = fmax(most, isnan(q->told_outputs[i].mean_error) ? (double)INFINITY : q->told_outputs[i].mean_error);
    return most;
}

static int by_harm(const void *a, const void *b)
{
    const xcc_quant_node *x = *(const xcc_quant_node *const *)a, *y = *(const xcc_quant_node *const *)b;
    const int order = (x->harm < y->harm) - (x->harm > y->harm);
    return order != 0 ? order : (x > y) - (x < y);
}

/* Measures with the first `count` nodes in float. */
static xcvm_status keep(quantizer *q, xcc_quant_node **nodes, size_t all, size_t count, const xcc_calibration *data,
                        size_t first, size_t end, double *error)
{
    for (size_t i = 0; i < all; i++)
        nodes[i]->in_float = i < count;
    XCVM_TRY(xcc_quant_place(q));
    XCVM_TRY(xcc_quant_measure(q, data, first, end, false));
    *error = worst(q);
    return XCVM_OK;
}

static xcvm_status judge_each(quantizer *q, xcc_quant_node **nodes, size_t count, const xcc_calibration *data,
                              size_t first, size_t end)
{
    for (size_t i = 0; i < count; i++)
        nodes[i]->in_float = true;
    for (size_t i = 0; i < count; i++) {
        xcc_quant_progress(q, "judge nodes", (double)i / (double)count);
        nodes[i]->in_float = false;
        XCVM_TRY(xcc_quant_place(q));
        XCVM_TRY(xcc_quant_measure(q, data, first, end - first > LOOKED_AT ? first + LOOKED_AT : end, false));
        nodes[i]->harm = harm(q);
        nodes[i]->in_float = true;
    }
    qsort(nodes, count, sizeof(xcc_quant_node *), by_harm);
    return XCVM_OK;
}

xcvm_status xcc_quant_bound(quantizer *q, const xcc_calibration *data, size_t first, size_t end)
{
    const double bound = q->o.max_error;
    double error;
    size_t count = 0;
    XCVM_TRY(xcc_quant_measure(q, data, first, end, false));
    if (worst(q) <= bound)
        return XCVM_OK;
    xcc_quant_node **nodes = xcc_alloc(&q->m, (q->node_count + 1) * sizeof(xcc_quant_node *));
    if (nodes == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < q->node_count; i++)
        if (q->nodes[i].quantised &&
            (q->nodes[i].rule->kind == XCC_QUANT_WEIGHTED || q->nodes[i].rule->kind == XCC_QUANT_RECURRENT))
            nodes[count++] = &q->nodes[i];
    XCVM_TRY(judge_each(q, nodes, count, data, first, end));
    /* More nodes in float hardly ever make it worse, so the least number is found by doubling, then by halves. With all
     * of them there is no error. */
    size_t low = 0, high = 1;
    for (; high < count; high = high * 2 < count ? high * 2 : count) {
        xcc_quant_progress(q, "keep nodes in float", (double)high / (double)count);
        XCVM_TRY(keep(q, nodes, count, high, data, first, end, &error));
        if (error <= bound)
            break;
        low = high;
    }
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        XCVM_TRY(keep(q, nodes, count, middle, data, first, end, &error));
        if (error <= bound)
            high = middle;
        else
            low = middle;
    }
    XCVM_CHECK(q->m.error, high < count, INVALID_ARGUMENT,
               "the outputs are off by more than %g of their range with any node quantised; a greater bound, or more "
               "bits, are needed",
               bound);
    return keep(q, nodes, count, high, data, first, end, &error);
}

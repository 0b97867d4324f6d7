/* Sensitivity: which sums of products harm the outputs most, and how many of them have to stay float. */
#include "compiler/quantize/quantizer.h"

#include <math.h>
#include <stdlib.h>

/* Batches that one node is judged by: those with the greatest errors of all that are measured on. */
enum { LOOKED_AT = 4 };

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
                        const xcc_batches *batches, double *error)
{
    for (size_t i = 0; i < all; i++)
        nodes[i]->in_float = i < count;
    XCVM_TRY(xcc_quant_place(q));
    XCVM_TRY(xcc_quant_measure(q, data, batches, false, NULL));
    *error = worst(q);
    return XCVM_OK;
}

/* The batches with the greatest errors, of which `errors` has one each and is used up: the bound is about these. Where
 * clipping is what harms, it shows on the few inputs that lie beyond the calibrated ranges, and on no others. */
static xcvm_status take_worst(quantizer *q, const xcc_batches *batches, double *errors, xcc_batches *chosen)
{
    chosen->count = batches->count < LOOKED_AT ? batches->count : LOOKED_AT;
    chosen->at = xcc_alloc(&q->m, chosen->count * sizeof *chosen->at);
    if (chosen->at == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < chosen->count; i++) {
        size_t most = 0;
        for (size_t k = 1; k < batches->count; k++)
            most = errors[k] > errors[most] ? k : most;
        chosen->at[i] = batches->at[most];
        errors[most] = -1;
    }
    return XCVM_OK;
}

static xcvm_status judge_each(quantizer *q, xcc_quant_node **nodes, size_t count, const xcc_calibration *data,
                              const xcc_batches *batches)
{
    for (size_t i = 0; i < count; i++)
        nodes[i]->in_float = true;
    for (size_t i = 0; i < count; i++) {
        xcc_quant_progress(q, "judge nodes", (double)i / (double)count);
        nodes[i]->in_float = false;
        XCVM_TRY(xcc_quant_place(q));
        XCVM_TRY(xcc_quant_measure(q, data, batches, false, NULL));
        nodes[i]->harm = harm(q);
        nodes[i]->in_float = true;
    }
    qsort(nodes, count, sizeof(xcc_quant_node *), by_harm);
    return XCVM_OK;
}

xcvm_status xcc_quant_bound(quantizer *q, const xcc_calibration *data, const xcc_batches *batches)
{
    const double bound = q->o.max_error;
    double error;
    size_t count = 0;
    xcc_batches judged;
    double *errors = xcc_alloc(&q->m, batches->count * sizeof *errors);
    xcc_quant_node **nodes = xcc_alloc(&q->m, (q->node_count + 1) * sizeof(xcc_quant_node *));
    if (errors == NULL || nodes == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(xcc_quant_measure(q, data, batches, false, errors));
    if (worst(q) <= bound)
        return XCVM_OK;
    XCVM_TRY(take_worst(q, batches, errors, &judged));
    for (size_t i = 0; i < q->node_count; i++)
        if (q->nodes[i].quantised &&
            (q->nodes[i].rule->kind == XCC_QUANT_WEIGHTED || q->nodes[i].rule->kind == XCC_QUANT_RECURRENT))
            nodes[count++] = &q->nodes[i];
    XCVM_TRY(judge_each(q, nodes, count, data, &judged));
    /* More nodes in float hardly ever make it worse, so the least number is found by doubling, then by halves. With all
     * of them there is no error. */
    size_t low = 0, high = 1;
    for (; high < count; high = high * 2 < count ? high * 2 : count) {
        xcc_quant_progress(q, "keep nodes in float", (double)high / (double)count);
        XCVM_TRY(keep(q, nodes, count, high, data, batches, &error));
        if (error <= bound)
            break;
        low = high;
    }
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        XCVM_TRY(keep(q, nodes, count, middle, data, batches, &error));
        if (error <= bound)
            high = middle;
        else
            low = middle;
    }
    XCVM_CHECK(q->m.error, high < count, INVALID_ARGUMENT,
               "the outputs are off by more than %g of their range with any node quantised; a greater bound, or more "
               "bits, are needed",
               bound);
    return keep(q, nodes, count, high, data, batches, &error);
}

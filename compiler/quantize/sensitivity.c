/* Sensitivity: which sums of products harm the outputs most, and how many of them have to stay float. */
#include "compiler/quantize/quantizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Batches that one node is judged by, for each bound: those that are furthest from it of all that are measured on. */
enum { LOOKED_AT = 4 };
/* Of the float model's outputs that are kept, so that it need not run again with every choice of nodes. */
enum { MOST_BYTES = 64 << 20 };

/* A search for the nodes that have to stay float. */
typedef struct search {
    quantizer *q;
    const xcc_calibration *data;
    const xcc_batches *all;
    xcc_batches judged;
    xcc_quant_node **nodes; /* sums of products and recurrent nodes */
    size_t count;
} search;

/* ---- The bounds ---- */

/* The share that max_error is about; infinite where an output is no number. */
static double worst(const quantizer *q)
{
    double most = 0;
    for (size_t i = 0; i < q->told_output_count; i++)
        if (!q->told_outputs[i].decisions)
            most = fmax(most, isnan(q->told_outputs[i].max_error) ? (double)INFINITY : q->told_outputs[i].max_error);
    return most;
}

/* The share that min_agreement is about; NaN if no output has rows. */
static double agreement(const quantizer *q)
{
    double least = (double)NAN;
    for (size_t i = 0; i < q->told_output_count; i++)
        if (xcc_quant_must_agree(q, q->told_outputs[i].name))
            least = fmin(least, q->told_outputs[i].agree);
    return least;
}

static bool holds(const quantizer *q)
{
    return !(q->o.max_error > 0 && worst(q) > q->o.max_error) &&
           !(q->o.min_agreement > 0 && agreement(q) < q->o.min_agreement);
}

/* What the bounds are about is there. */
static xcvm_status check_outputs(const quantizer *q)
{
    if (!(q->o.min_agreement > 0) || !isnan(agreement(q)))
        return XCVM_OK;
    const char *name = q->o.agreement_output;
    bool found = name == NULL;
    for (size_t i = 0; i < q->graph->n_output && !found; i++)
        found = strcmp(q->graph->output[i]->name, name) == 0;
    XCVM_CHECK(q->m.error, found, INVALID_ARGUMENT, "the model has no output \"%.200s\", whose rows are to agree",
               name != NULL ? name : "");
    return xcvm_error_set(q->m.error, XCVM_INVALID_ARGUMENT,
                          "%s has rows of two and more numbers of f32, or integers: nothing can agree in a share of "
                          "%g",
                          name != NULL ? name : "no output", q->o.min_agreement);
}

/* ---- Single nodes ---- */

/* The mean error of the worst of the outputs that the bounds are about. */
static double harm(const quantizer *q)
{
    double most = 0;
    for (size_t i = 0; i < q->told_output_count; i++) {
        const xcc_quantize_output *o = &q->told_outputs[i];
        const double error = o->decisions ? 1 - o->agree : o->mean_error;
        if (q->o.max_error > 0 || xcc_quant_must_agree(q, o->name))
            most = fmax(most, isnan(error) ? (double)INFINITY : error);
    }
    return most;
}

static int by_harm(const void *a, const void *b)
{
    const xcc_quant_node *x = *(const xcc_quant_node *const *)a, *y = *(const xcc_quant_node *const *)b;
    const int order = (x->harm < y->harm) - (x->harm > y->harm);
    return order != 0 ? order : (x > y) - (x < y);
}

/* Whether batch `a` is further from what is bounded than `b`. */
static bool is_worse(const xcc_batch_error *a, const xcc_batch_error *b, bool by_agreement)
{
    if (by_agreement && (a->disagreement > b->disagreement || a->disagreement < b->disagreement))
        return a->disagreement > b->disagreement;
    return a->error > b->error;
}

/* The batches that are furthest from the bounds; `errors` has one for each batch and is used up. Where clipping is what
 * harms, it shows on the few inputs that lie beyond the calibrated ranges, and on no others. */
static xcvm_status take_worst(search *s, xcc_batch_error *errors)
{
    const quantizer *q = s->q;
    s->judged.at = xcc_alloc(&s->q->m, 2 * LOOKED_AT * sizeof *s->judged.at);
    if (s->judged.at == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (int by_agreement = 0; by_agreement < 2; by_agreement++) {
        if (!((by_agreement ? q->o.min_agreement : q->o.max_error) > 0))
            continue;
        for (size_t i = 0; i < LOOKED_AT && s->judged.count < s->all->count; i++) {
            size_t most = 0;
            for (size_t k = 1; k < s->all->count; k++)
                most = is_worse(&errors[k], &errors[most], by_agreement) ? k : most;
            s->judged.at[s->judged.count++] = s->all->at[most];
            errors[most] = (xcc_batch_error){.error = -1, .disagreement = -1};
        }
    }
    return XCVM_OK;
}

static xcvm_status judge_each(search *s)
{
    quantizer *q = s->q;
    for (size_t i = 0; i < s->count; i++)
        s->nodes[i]->in_float = true;
    for (size_t i = 0; i < s->count; i++) {
        xcc_quant_progress(q, "judge nodes", (double)i / (double)s->count);
        s->nodes[i]->in_float = false;
        XCVM_TRY(xcc_quant_place(q));
        XCVM_TRY(xcc_quant_measure(q, s->data, &s->judged, false, NULL));
        s->nodes[i]->harm = harm(q);
        s->nodes[i]->in_float = true;
    }
    qsort(s->nodes, s->count, sizeof(xcc_quant_node *), by_harm);
    return XCVM_OK;
}

/* ---- The search ---- */

/* Measures with the first `count` nodes in float. */
static xcvm_status keep(search *s, size_t count)
{
    for (size_t i = 0; i < s->count; i++)
        s->nodes[i]->in_float = i < count;
    XCVM_TRY(xcc_quant_place(s->q));
    return xcc_quant_measure(s->q, s->data, s->all, false, NULL);
}

/* More nodes in float hardly ever make it worse, so the least number is found by doubling, then by halves. With all of
 * them there is no error. */
static xcvm_status keep_fewest(search *s)
{
    size_t low = 0, high = 1;
    for (; high < s->count; high = high * 2 < s->count ? high * 2 : s->count) {
        xcc_quant_progress(s->q, "keep nodes in float", (double)high / (double)s->count);
        XCVM_TRY(keep(s, high));
        if (holds(s->q))
            break;
        low = high;
    }
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        XCVM_TRY(keep(s, middle));
        *(holds(s->q) ? &high : &low) = middle;
    }
    const quantizer *q = s->q;
    XCVM_CHECK(q->m.error, high < s->count || !(q->o.max_error > 0 && worst(q) > q->o.max_error), INVALID_ARGUMENT,
               "the outputs are off by more than %g of their range with any node quantised; a greater bound, or more "
               "bits, are needed",
               q->o.max_error);
    XCVM_CHECK(q->m.error, high < s->count, INVALID_ARGUMENT,
               "the greatest elements of less than %g of the rows stay the same with any node quantised; a smaller "
               "share, or more bits, are needed",
               q->o.min_agreement);
    return keep(s, high);
}

xcvm_status xcc_quant_bound(quantizer *q, const xcc_calibration *data, const xcc_batches *batches)
{
    xcc_batch_error *errors = xcc_alloc(&q->m, batches->count * sizeof *errors);
    search s = {.q = q, .data = data, .all = batches};
    s.nodes = xcc_alloc(&q->m, (q->node_count + 1) * sizeof(xcc_quant_node *));
    if (errors == NULL || s.nodes == NULL)
        return XCVM_OUT_OF_MEMORY;
    q->right = xcc_alloc(&q->m, (data->batch_count + 1) * sizeof *q->right);
    q->right_room = q->o.memory_limit > 0 ? xcvm_min(q->o.memory_limit / 8, MOST_BYTES) : MOST_BYTES;
    if (q->right == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(xcc_quant_measure(q, data, batches, false, errors));
    XCVM_TRY(check_outputs(q));
    if (holds(q))
        return XCVM_OK;
    XCVM_TRY(take_worst(&s, errors));
    for (size_t i = 0; i < q->node_count; i++)
        if (q->nodes[i].quantised &&
            (q->nodes[i].rule->kind == XCC_QUANT_WEIGHTED || q->nodes[i].rule->kind == XCC_QUANT_RECURRENT))
            s.nodes[s.count++] = &q->nodes[i];
    XCVM_TRY(judge_each(&s));
    return keep_fewest(&s);
}

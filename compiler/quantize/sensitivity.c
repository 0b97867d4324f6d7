/* Sensitivity: which sums of products harm the outputs most, and how many of them have to stay float. */
#include "compiler/quantize/quantizer.h"

#include "base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Batches that one node is judged by, for each bound: those that are furthest from it of all that are measured on. */
enum { LOOKED_AT = 4 };
/* Of the float model's outputs that are kept, so that it need not run again with every choice of nodes. */
enum { MOST_BYTES = 64 << 20 };

/* Of what was seen of a tensor, that others may go beyond it before it counts as one whose tail goes on. */
#define MOST_EXCESS 0.2

/* A sum of products or a recurrent node, and what it does if it alone is quantized. */
typedef struct suspect {
    xcc_quant_node *node;
    double error; /* the greatest on the batches that it is judged by */
    size_t place; /* in the order of the model */
} suspect;

/* A search for the nodes that have to stay float. */
typedef struct search {
    quantizer *q;
    const xcc_calibration *data;
    const xcc_batches *all;
    xcc_batches judged;
    suspect *suspects; /* the worst first, when they are judged */
    size_t count;
    /* When a bound did not hold the last time: whether that was max_error, and what the bounds are about. */
    bool too_far;
    double error, agreement;
} search;

/* ---- The bounds ---- */

/* The share that max_error is about; infinite where an output is no number. `likely`: as it is to be expected of
 * others, too. */
static double worst(const quantizer *q, bool likely)
{
    double most = 0;
    for (size_t i = 0; i < q->told_output_count; i++) {
        const xcc_quantizer_output_info *o = &q->told_outputs[i];
        const double error = likely ? fmax(o->max_error, o->likely_error) : o->max_error;
        if (!o->decisions)
            most = fmax(most, isnan(o->max_error) ? (double)INFINITY : error);
    }
    return most;
}

/* The share that min_agreement is about, as it is to be expected of others, too; NaN if no output has rows. */
static double agreement(const quantizer *q)
{
    double least = (double)NAN;
    for (size_t i = 0; i < q->told_output_count; i++)
        if (xcc_quant_must_agree(q, q->told_outputs[i].name))
            least = fmin(least, q->told_outputs[i].likely_agree);
    return least;
}

static bool errors_hold(const quantizer *q) { return !(q->o.max_error > 0 && worst(q, true) > q->o.max_error); }

static bool holds(const quantizer *q)
{
    return errors_hold(q) && !(q->o.min_agreement > 0 && agreement(q) < q->o.min_agreement);
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
        const xcc_quantizer_output_info *o = &q->told_outputs[i];
        const double error = o->decisions ? 1 - o->agree : o->mean_error;
        if (q->o.max_error > 0 || xcc_quant_must_agree(q, o->name))
            most = fmax(most, isnan(error) ? (double)INFINITY : error);
    }
    return most;
}

static int by_harm(const void *a, const void *b)
{
    const suspect *x = a, *y = b;
    const int order = (x->node->harm < y->node->harm) - (x->node->harm > y->node->harm);
    return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
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
        s->suspects[i].node->in_float = true;
    for (size_t i = 0; i < s->count; i++) {
        xcc_quant_node *n = s->suspects[i].node;
        xcc_quant_progress(q, "judge nodes", (double)i / (double)s->count);
        n->in_float = false;
        XCVM_TRY(xcc_quant_place(q));
        XCVM_TRY(xcc_quant_measure(q, s->data, &s->judged, false, NULL));
        n->harm = harm(q);
        s->suspects[i].error = worst(q, false);
        n->in_float = true;
        q->judged_nodes++;
    }
    qsort(s->suspects, s->count, sizeof *s->suspects, by_harm);
    return XCVM_OK;
}

/* ---- The search ---- */

/* Has the first `count` nodes in float. */
static xcvm_status keep_first(search *s, size_t count)
{
    for (size_t i = 0; i < s->count; i++)
        s->suspects[i].node->in_float = i < count;
    return xcc_quant_place(s->q);
}

static xcvm_status measure_all(search *s, xcc_batch_error *errors, bool *kept)
{
    XCVM_TRY(xcc_quant_measure(s->q, s->data, s->all, false, errors));
    s->q->tried_models++;
    *kept = holds(s->q);
    if (*kept)
        return XCVM_OK;
    s->too_far = !errors_hold(s->q);
    s->error = worst(s->q, true);
    s->agreement = agreement(s->q);
    return XCVM_OK;
}

/* How many have to stay float if errors of single nodes add up as independent ones do. */
static size_t expect(const search *s)
{
    const double bound = s->q->o.max_error;
    double squares = 0;
    size_t count = s->count;
    for (; count > 1 && bound > 0; count--) {
        const double error = s->suspects[count - 1].error;
        squares += error * error;
        if (!(squares <= bound * bound))
            return count;
    }
    return 1;
}

/* The last that was measured had the node quantized that harms least, and no other. */
static xcvm_status refuse_bounds(const search *s)
{
    const quantizer *q = s->q;
    XCVM_CHECK(
        q->m.error, !s->too_far, INVALID_ARGUMENT,
        "the outputs are off by more than %g of their range, or likely to be, with any node quantized (by %.3g with "
        "the one that harms least); a greater bound, or more bits, are needed",
        q->o.max_error, s->error);
    XCVM_FAIL(
        q->m.error, INVALID_ARGUMENT,
        "the greatest elements of less than %g of the rows stay the same, or are likely to, with any node quantized "
        "(of %.3g with the one that harms least); a smaller share, or more bits, are needed",
        q->o.min_agreement, s->agreement);
}

/* More nodes in float hardly ever make it worse, so the least number is found by steps that double, from what is
 * expected, and then by halves. With none in float the bounds do not hold, and with all there is no error. */
static xcvm_status keep_fewest(search *s)
{
    const quantizer *q = s->q;
    size_t low = 0, high = s->count, at = expect(s), step = 1;
    bool kept, goes_up = false, goes_down = false;
    while (high - low > 1) {
        xcc_quant_progress(q, "keep nodes in float", (double)at / (double)s->count);
        XCVM_TRY(keep_first(s, at));
        XCVM_TRY(measure_all(s, NULL, &kept));
        *(kept ? &high : &low) = at;
        *(kept ? &goes_down : &goes_up) = true;
        if ((goes_up && goes_down) || high - low <= step)
            at = low + (high - low) / 2;
        else
            at = goes_up ? low + step : high - step;
        step *= 2;
    }
    XCVM_TRY(high < s->count ? XCVM_OK : refuse_bounds(s));
    return keep_first(s, high);
}

/* How far a tensor goes beyond what calibration has seen of it, on the batches that are measured on, as a share of what
 * was seen; what its readers do not tell apart left out. */
static double excess_of(const quantizer *q, const xcc_quant_tensor *t)
{
    double low, high;
    if (t->seen == NULL || t->error == NULL || t->constant != NULL || !(t->seen->greatest > t->seen->least))
        return 0;
    xcc_quant_useful(q, t, &low, &high);
    const double above = fmin(t->error->greatest, high) - t->seen->greatest,
                 below = t->seen->least - fmax(t->error->least, low);
    return fmax(above, below) / (t->seen->greatest - t->seen->least);
}

/* Where the greatest error is what counts, no input may be clipped. Tails alone do not tell whether they go on: what
 * was not calibrated with does. */
static xcvm_status choose_method(search *s)
{
    quantizer *q = s->q;
    double most = 0;
    XCVM_TRY(xcc_quant_measure(q, s->data, s->all, true, NULL));
    q->tried_models++;
    for (size_t i = 0; i < q->tensor_count; i++)
        most = fmax(most, excess_of(q, q->tensors[i]));
    xcc_quant_take_method(q, most > MOST_EXCESS ? XCC_RANGE_TAIL : XCC_RANGE_MINMAX);
    return XCVM_OK;
}

static xcvm_status search_nodes(search *s)
{
    quantizer *q = s->q;
    xcc_batch_error *errors = xcc_alloc(&q->m, s->all->count * sizeof *errors);
    bool kept;
    s->suspects = xcc_alloc(&q->m, (q->node_count + q->body_node_count + 1) * sizeof *s->suspects);
    q->right = xcc_alloc(&q->m, (s->data->batch_count + 1) * sizeof *q->right);
    q->right_room = q->o.memory_limit > 0 ? xcvm_min(q->o.memory_limit / 8, MOST_BYTES) : MOST_BYTES;
    if (errors == NULL || s->suspects == NULL || q->right == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(measure_all(s, errors, &kept));
    XCVM_TRY(check_outputs(q));
    if (!errors_hold(q) && q->o.method == XCC_RANGE_DEFAULT) {
        XCVM_TRY(choose_method(s));
        XCVM_TRY(measure_all(s, errors, &kept));
    }
    if (kept)
        return XCVM_OK;
    XCVM_TRY(take_worst(s, errors));
    for (size_t i = 0; i < q->node_count + q->body_node_count; i++) {
        xcc_quant_node *n = i < q->node_count ? &q->nodes[i] : &q->body_nodes[i - q->node_count];
        if (n->quantized && (n->rule->kind == XCC_QUANT_WEIGHTED || n->rule->kind == XCC_QUANT_RECURRENT))
            s->suspects[s->count++] = (suspect){.node = n, .place = i};
    }
    XCVM_TRY(judge_each(s));
    return keep_fewest(s);
}

xcvm_status xcc_quant_bound(quantizer *q, const xcc_calibration *data, const xcc_batches *batches)
{
    const uint64_t begin = xcvm_clock_ns();
    search s = {.q = q, .data = data, .all = batches};
    XCVM_TRY(search_nodes(&s));
    q->search_ns = xcvm_clock_ns() - begin;
    return XCVM_OK;
}

/* Sensitivity analysis: sorts the sums of products by the error that each alone causes, finds by binary search how many
 * of the most harmful have to compute in floats, and returns those to integers that turn out not to matter. Nodes in
 * floats keep the integers of their weights if the bounds hold. */
#include "compiler/quantize/quantize.h"

#include "base/clock.h"
#include "compiler/onnx_model/onnx_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Held-out batches that measure a single node, for each bound: those with the greatest errors. */
enum { JUDGED_BATCHES = 4 };
/* Nodes that break the bounds in a row before the others are left in float. */
enum { MOST_FAILURES = 6 };
/* Stored outputs of the float model, which need not run again for every model. */
enum { MOST_OUTPUT_BYTES = 64 << 20 };

/* Share of its calibrated range by which a tensor may exceed it before its tail counts as heavy. */
#define MOST_EXCESS 0.2

/* A sum of products or a recurrent node, measured with no other node quantized. */
typedef struct ranked_node {
    xcc_quant_node *node;
    double error; /* greatest error */
    size_t place; /* index in the model */
} ranked_node;

/* The search for the nodes that have to stay float. */
typedef struct search {
    quantizer *q;
    const xcc_calibration *data;
    const xcc_batches *all;
    xcc_batches judged;
    ranked_node *ranked; /* sorted by harm, descending, after judge_each */
    size_t count;
    xcc_quant_level kept; /* level of nodes that do not become integers */
    /* Results of the last model whose outputs broke a bound. */
    bool too_far, too_far_in_mean;
    double error, mean, agreement;
} search;

/* ---- The bounds ---- */

/* Returns the greatest error of an output; infinite for NaN. `predicted`: measured or extrapolated. */
static double worst(const quantizer *q, bool predicted)
{
    double most = 0;
    for (size_t i = 0; i < q->reported_output_count; i++) {
        const xcc_quantizer_output_info *o = &q->reported_outputs[i];
        const double error = predicted ? fmax(o->max_error, o->predicted_error) : o->max_error;
        if (!o->decisions)
            most = fmax(most, isnan(o->max_error) ? (double)INFINITY : error);
    }
    return most;
}

typedef enum agreement_kind {
    MEASURED,  /* on the held-out batches */
    EXPECTED,  /* also by the leads of their rows */
    PREDICTED, /* by as many others in nine of ten cases */
} agreement_kind;

/* Returns the lowest agreement; NaN if no output has rows. */
static double agreement(const quantizer *q, agreement_kind kind)
{
    double least = (double)NAN;
    for (size_t i = 0; i < q->reported_output_count; i++) {
        const xcc_quantizer_output_info *o = &q->reported_outputs[i];
        if (xcc_quant_must_agree(q, o->name))
            least = fmin(least, kind == PREDICTED  ? o->predicted_agree
                                : kind == EXPECTED ? q->expected_agreements[i]
                                                   : o->agree);
    }
    return least;
}

/* The greatest mean error of an output; infinite where an output is no number. */
static double worst_mean(const quantizer *q)
{
    double most = 0;
    for (size_t i = 0; i < q->reported_output_count; i++) {
        const xcc_quantizer_output_info *o = &q->reported_outputs[i];
        if (!o->decisions)
            most = fmax(most, isnan(o->mean_error) ? (double)INFINITY : o->mean_error);
    }
    return most;
}

bool xcc_quant_is_bounded(const quantizer *q)
{
    return q->o.max_error > 0 || q->o.max_mean_error > 0 || q->o.min_agreement > 0;
}

static bool errors_hold(const quantizer *q)
{
    return !(q->o.max_error > 0 && worst(q, !q->measured_only) > q->o.max_error);
}

static bool means_hold(const quantizer *q) { return !(q->o.max_mean_error > 0 && worst_mean(q) > q->o.max_mean_error); }

static bool agrees(const quantizer *q)
{
    return !(q->o.min_agreement > 0 && agreement(q, q->measured_only ? EXPECTED : PREDICTED) < q->o.min_agreement);
}

static bool holds(const quantizer *q) { return errors_hold(q) && means_hold(q) && agrees(q); }

/* Fails if min_agreement applies to no output. */
static xcvm_status check_outputs(const quantizer *q)
{
    if (!(q->o.min_agreement > 0) || !isnan(agreement(q, MEASURED)))
        return XCVM_OK;
    const char *name = q->o.agreement_output;
    bool found = name == NULL;
    for (size_t i = 0; i < q->graph->n_output && !found; i++)
        found = strcmp(q->graph->output[i]->name, name) == 0;
    XCVM_CHECK(q->m.error, found, INVALID_ARGUMENT,
               "the model has no output \"%.200s\", for which agreement is required", name != NULL ? name : "");
    return xcvm_error_set(q->m.error, XCVM_INVALID_ARGUMENT,
                          "%s has rows of two and more numbers of f32, or integers: nothing can agree in a share of "
                          "%g",
                          name != NULL ? name : "no output", q->o.min_agreement);
}

/* ---- Single nodes ---- */

/* Returns the greatest mean error of the bounded outputs, or of all without a bound. */
static double harm(const quantizer *q)
{
    const bool all = q->o.max_error > 0 || q->o.max_mean_error > 0 || !xcc_quant_is_bounded(q);
    double most = 0;
    for (size_t i = 0; i < q->reported_output_count; i++) {
        const xcc_quantizer_output_info *o = &q->reported_outputs[i];
        const double error = o->decisions ? 1 - o->agree : o->mean_error;
        if (all || xcc_quant_must_agree(q, o->name))
            most = fmax(most, isnan(error) ? (double)INFINITY : error);
    }
    return most;
}

static int by_harm(const void *a, const void *b)
{
    const ranked_node *x = a, *y = b;
    const int order = (x->node->harm < y->node->harm) - (x->node->harm > y->node->harm);
    return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

/* True if batch `a` has a greater error than `b`. */
static bool is_worse(const xcc_batch_error *a, const xcc_batch_error *b, bool by_agreement)
{
    if (by_agreement && (a->disagreement > b->disagreement || a->disagreement < b->disagreement))
        return a->disagreement > b->disagreement;
    return a->error > b->error;
}

/* Selects the batches with the greatest errors; overwrites `errors`. Clipping shows only on the few inputs beyond the
 * calibrated ranges. */
static xcvm_status take_worst(search *s, xcc_batch_error *errors)
{
    const quantizer *q = s->q;
    s->judged.at = xcc_alloc(&s->q->m, 2 * JUDGED_BATCHES * sizeof *s->judged.at);
    if (s->judged.at == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (int by_agreement = 0; by_agreement < 2; by_agreement++) {
        const bool by_error = q->o.max_error > 0 || q->o.max_mean_error > 0 || !xcc_quant_is_bounded(q);
        if (!(by_agreement ? q->o.min_agreement > 0 : by_error))
            continue;
        for (size_t i = 0; i < JUDGED_BATCHES && s->judged.count < s->all->count; i++) {
            size_t most = 0;
            for (size_t k = 1; k < s->all->count; k++)
                most = is_worse(&errors[k], &errors[most], by_agreement) ? k : most;
            s->judged.at[s->judged.count++] = s->all->at[most];
            errors[most] = (xcc_batch_error){.error = -1, .disagreement = -1};
        }
    }
    return XCVM_OK;
}

/* Gives a node a level, or FLOAT if it does not have the level WEIGHTS. */
static void set_level(const search *s, size_t i, xcc_quant_level level)
{
    xcc_quant_node *n = s->ranked[i].node;
    const bool has = level != XCC_LEVEL_WEIGHTS || xcc_quant_has_weights_level(s->q, n);
    n->level = has ? level : XCC_LEVEL_FLOAT;
}

/* Measures each node with all others in float. */
static xcvm_status judge_each(search *s)
{
    quantizer *q = s->q;
    for (size_t i = 0; i < s->count; i++)
        s->ranked[i].node->level = XCC_LEVEL_FLOAT;
    for (size_t i = 0; i < s->count; i++) {
        xcc_quant_node *n = s->ranked[i].node;
        xcc_quant_progress(q, "judge nodes", (double)i / (double)s->count);
        n->level = XCC_LEVEL_INTEGER;
        XCVM_TRY(xcc_quant_place(q));
        XCVM_TRY(xcc_quant_measure(q, s->data, &s->judged, false, NULL));
        n->harm = harm(q);
        s->ranked[i].error = worst(q, false);
        n->level = XCC_LEVEL_FLOAT;
        q->judged_nodes++;
    }
    qsort(s->ranked, s->count, sizeof *s->ranked, by_harm);
    return XCVM_OK;
}

/* Measures the weights alone of each node with all others in float: of all nodes, or of those that do not become
 * integers. */
static xcvm_status judge_weights(search *s, bool all)
{
    quantizer *q = s->q;
    xcc_quant_level *found = xcc_alloc(&q->m, (s->count + 1) * sizeof *found);
    if (found == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < s->count; i++) {
        found[i] = s->ranked[i].node->level;
        s->ranked[i].node->level = XCC_LEVEL_FLOAT;
    }
    for (size_t i = 0; i < s->count; i++) {
        xcc_quant_node *n = s->ranked[i].node;
        set_level(s, i, XCC_LEVEL_WEIGHTS);
        if (n->level == XCC_LEVEL_FLOAT || (!all && found[i] == XCC_LEVEL_INTEGER)) {
            n->level = XCC_LEVEL_FLOAT;
            continue;
        }
        xcc_quant_progress(q, "judge weights", (double)i / (double)s->count);
        XCVM_TRY(xcc_quant_place(q));
        XCVM_TRY(xcc_quant_measure(q, s->data, &s->judged, false, NULL));
        n->weights_harm = harm(q);
        n->level = XCC_LEVEL_FLOAT;
    }
    for (size_t i = 0; i < s->count; i++)
        s->ranked[i].node->level = found[i];
    return xcc_quant_place(q);
}

/* ---- The search ---- */

/* Keeps the first `count` nodes from integers. */
static xcvm_status keep_first(search *s, size_t count)
{
    for (size_t i = 0; i < s->count; i++)
        set_level(s, i, i < count ? s->kept : XCC_LEVEL_INTEGER);
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
    s->too_far_in_mean = !means_hold(s->q);
    s->error = worst(s->q, true);
    s->mean = worst_mean(s->q);
    s->agreement = agreement(s->q, PREDICTED);
    return XCVM_OK;
}

/* Measures the model with the first `count` nodes kept from integers. */
static xcvm_status measure_first(search *s, size_t count, bool *kept)
{
    xcc_quant_progress(s->q, "keep nodes from integers", (double)count / (double)s->count);
    XCVM_TRY(keep_first(s, count));
    XCVM_TRY(measure_all(s, NULL, kept));
    if (count > 0)
        s->ranked[count - 1].node->after =
            (xcc_quant_reached){worst(s->q, false), worst_mean(s->q), agreement(s->q, MEASURED), true};
    return XCVM_OK;
}

/* Returns how many nodes have to stay float if errors of single nodes add up as independent ones do. */
static size_t expect(const search *s)
{
    const double bound = s->q->o.max_error, mean_bound = s->q->o.max_mean_error;
    double squares = 0, mean_squares = 0;
    size_t count = s->count;
    for (; count > 1 && (bound > 0 || mean_bound > 0); count--) {
        const double error = s->ranked[count - 1].error, mean = s->ranked[count - 1].node->harm;
        squares += error * error;
        mean_squares += mean * mean;
        if ((bound > 0 && !(squares <= bound * bound)) ||
            (mean_bound > 0 && !(mean_squares <= mean_bound * mean_bound)))
            return count;
    }
    return 1;
}

/* The last measured model has one quantized node, the least harmful. */
static xcvm_status refuse_bounds(const search *s)
{
    const quantizer *q = s->q;
    XCVM_CHECK(q->m.error, s->count > 0, INVALID_ARGUMENT,
               "the bound does not hold, and the model has no sum of products that could stay float");
    const char *name = xcc_node_label(s->ranked[s->count - 1].node->proto),
               *type = s->ranked[s->count - 1].node->proto->op_type;
    XCVM_CHECK(
        q->m.error, !s->too_far, INVALID_ARGUMENT,
        "no node can be quantized within a greatest error of %g: with '%.200s' (%s) alone, the least harmful, an "
        "output differs by %.3g of its range, measured or predicted. Choose a bound above that, or a bound of the "
        "mean error or of the agreement, which single elements do not decide",
        q->o.max_error, name, type, s->error);
    XCVM_CHECK(q->m.error, !s->too_far_in_mean, INVALID_ARGUMENT,
               "no node can be quantized within a mean error of %g: with '%.200s' (%s) alone, the least harmful, an "
               "output differs by %.3g of its range in the mean. Choose a bound above that",
               q->o.max_mean_error, name, type, s->mean);
    XCVM_FAIL(q->m.error, INVALID_ARGUMENT,
              "no node can be quantized with an agreement of %g: with '%.200s' (%s) alone, the least harmful, the "
              "greatest elements of %.3g of the rows stay the same, measured or predicted. Choose a share below that",
              q->o.min_agreement, name, type, s->agreement);
}

/* Gives nodes that are more exact than `level` that level, the least harmful of the first `count` nodes first, if the
 * bounds still hold. *any: some node is quantized. */
static xcvm_status lower(search *s, size_t count, xcc_quant_level level, bool *any)
{
    /* An error names the least harmful node, and not the last one that is tried here. */
    search tried = *s;
    size_t failures = 0;
    for (size_t i = count; i > 0 && (!*any || failures < MOST_FAILURES); i--) {
        xcc_quant_node *n = s->ranked[i - 1].node;
        const xcc_quant_level before = n->level;
        bool kept;
        if (before > level)
            set_level(s, i - 1, level);
        if (n->level == before)
            continue;
        xcc_quant_progress(s->q, "return nodes to integers", 1 - (double)i / (double)s->count);
        XCVM_TRY(xcc_quant_place(s->q));
        XCVM_TRY(measure_all(&tried, NULL, &kept));
        *any = *any || kept;
        failures = kept ? 0 : failures + 1;
        n->level = kept ? n->level : before;
    }
    return xcc_quant_place(s->q);
}

/* Errors of nodes neither add up nor depend on the order by harm alone. So nodes that the binary search kept become
 * integers again, or their weights do, if the bounds still hold. *any: some node is quantized. */
static xcvm_status return_to_integers(search *s, size_t count, bool *any)
{
    *any = count < s->count || s->kept == XCC_LEVEL_WEIGHTS;
    /* The binary search has tried the last one. */
    XCVM_TRY(lower(s, count - xcvm_min(count, 1), XCC_LEVEL_INTEGER, any));
    return s->kept == XCC_LEVEL_FLOAT ? lower(s, count, XCC_LEVEL_WEIGHTS, any) : XCVM_OK;
}

/* Nodes that cannot compute with integers have integers as weights if the bounds hold with all of them so. They take as
 * much time as in float, and a quarter of the space. */
static xcvm_status choose_kept(search *s)
{
    bool has = false, kept;
    s->kept = XCC_LEVEL_FLOAT;
    for (size_t i = 0; i < s->count && !has; i++)
        has = xcc_quant_has_weights_level(s->q, s->ranked[i].node);
    if (!has)
        return XCVM_OK;
    s->kept = XCC_LEVEL_WEIGHTS;
    XCVM_TRY(keep_first(s, s->count));
    search tried = *s;
    XCVM_TRY(measure_all(&tried, NULL, &kept));
    s->kept = kept ? XCC_LEVEL_WEIGHTS : XCC_LEVEL_FLOAT;
    return XCVM_OK;
}

/* More nodes in floats almost never increase the error. So the smallest number is found by galloping from the expected
 * number, and then by bisection. The bounds do not hold with no node kept from integers, but with all. */
static xcvm_status keep_fewest(search *s, bool *any)
{
    size_t low = 0, high = s->count, at = expect(s), step = 1;
    bool kept, goes_up = false, goes_down = false;
    XCVM_TRY(choose_kept(s));
    while (high - low > 1) {
        XCVM_TRY(measure_first(s, at, &kept));
        *(kept ? &high : &low) = at;
        *(kept ? &goes_down : &goes_up) = true;
        if ((goes_up && goes_down) || high - low <= step)
            at = low + (high - low) / 2;
        else
            at = goes_up ? low + step : high - step;
        step *= 2;
    }
    XCVM_TRY(keep_first(s, high));
    return return_to_integers(s, high, any);
}

/* Few inputs hardly ever show that a share of 0.99 is likely for others. If the bounds cannot hold for predicted
 * values, they hold for measured errors and expected agreements. */
static xcvm_status keep_for_bounds(search *s)
{
    quantizer *q = s->q;
    bool any;
    XCVM_TRY(keep_fewest(s, &any));
    if (!any && s->count > 1 && (q->o.max_error > 0 || q->o.min_agreement > 0)) {
        q->measured_only = true;
        XCVM_TRY(keep_fewest(s, &any));
    }
    return any ? XCVM_OK : refuse_bounds(s);
}

/* Measures the models with 1, 2, ... nodes in float, until the bounds hold. */
static xcvm_status measure_each_number(search *s)
{
    bool kept = false;
    for (size_t i = 1; i < s->count && !(kept && xcc_quant_is_bounded(s->q)); i++)
        XCVM_TRY(measure_first(s, i, &kept));
    return xcc_quant_is_bounded(s->q) ? XCVM_OK : keep_first(s, 0);
}

/* Returns by how much a tensor exceeds its calibrated range on the held-out batches, as a share of that range. Elements
 * that saturate its readers do not count. */
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

/* A bound of an error allows no clipping: inputs of other sources leave the calibrated ranges more often than the
 * held-out batches, which resemble those of the calibration. These show whether ranges need extrapolation. */
static xcvm_status choose_method(search *s)
{
    quantizer *q = s->q;
    const bool far = !errors_hold(q);
    double most = 0;
    XCVM_TRY(xcc_quant_measure(q, s->data, s->all, true, NULL));
    q->tried_models++;
    for (size_t i = 0; i < q->tensor_count; i++)
        most = fmax(most, excess_of(q, q->tensors[i]));
    xcc_quant_take_method(q, far && most > MOST_EXCESS ? XCC_RANGE_TAIL : XCC_RANGE_MINMAX);
    return XCVM_OK;
}

static xcvm_status search_nodes(search *s)
{
    quantizer *q = s->q;
    xcc_batch_error *errors = xcc_alloc(&q->m, s->all->count * sizeof *errors);
    bool kept;
    s->ranked = xcc_alloc(&q->m, (q->node_count + q->body_node_count + 1) * sizeof *s->ranked);
    q->float_outputs = xcc_alloc(&q->m, (s->data->batch_count + 1) * sizeof *q->float_outputs);
    q->float_output_room =
        q->o.memory_limit > 0 ? xcvm_min(q->o.memory_limit / 8, MOST_OUTPUT_BYTES) : MOST_OUTPUT_BYTES;
    if (errors == NULL || s->ranked == NULL || q->float_outputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(measure_all(s, errors, &kept));
    XCVM_TRY(check_outputs(q));
    if (!(errors_hold(q) && means_hold(q)) && q->o.method == XCC_RANGE_DEFAULT) {
        XCVM_TRY(choose_method(s));
        XCVM_TRY(measure_all(s, errors, &kept));
    }
    if (kept && !q->o.sensitivity)
        return XCVM_OK;
    const bool all_hold = kept;
    XCVM_TRY(take_worst(s, errors));
    for (size_t i = 0; i < q->node_count + q->body_node_count; i++) {
        xcc_quant_node *n = i < q->node_count ? &q->nodes[i] : &q->body_nodes[i - q->node_count];
        if (n->quantized && (n->rule->kind == XCC_QUANT_WEIGHTED || n->rule->kind == XCC_QUANT_RECURRENT))
            s->ranked[s->count++] = (ranked_node){.node = n, .place = i};
    }
    XCVM_TRY(judge_each(s));
    if (q->o.sensitivity)
        XCVM_TRY(measure_each_number(s));
    XCVM_TRY(all_hold ? keep_first(s, 0) : keep_for_bounds(s));
    return judge_weights(s, q->o.sensitivity);
}

xcvm_status xcc_quant_bound(quantizer *q, const xcc_calibration *data, const xcc_batches *batches)
{
    const uint64_t begin = xcvm_clock_ns();
    search s = {.q = q, .data = data, .all = batches, .kept = XCC_LEVEL_FLOAT};
    XCVM_TRY(search_nodes(&s));
    q->search_ns = xcvm_clock_ns() - begin;
    return XCVM_OK;
}

/* Training on data in parallel: each process takes its part of every batch, and all make the same step. A process's
 * share is its samples over those of all, so parts need not be equally large; the loss times the share is
 * differentiated, and gradients are summed up. */
#include "compiler/training/training.h"

#include "compiler/ir/compose.h"

#include <string.h>

/* Bytes of gradients that travel as one message, as soon as the backward has made them. */
enum { BUCKET_BYTES = 1 << 22 };

static xcc_value *all_reduce(xcc_builder *b, xcc_value *x)
{
    return x != NULL ? xcc_apply(b, AllReduce, y, .x = XCC_IN(x)) : NULL;
}

xcvm_status xcc_processes_share(xcc_training *t)
{
    xcc_graph *g = t->b.graph;
    XCVM_CHECK(t->m->error, g->input_count > 0 && g->inputs[0]->type.rank > 0, INVALID_ARGUMENT,
               "the model's first input has no batch of which processes could take parts");
    xcc_value *samples = xcc_build_cast(&t->b, xcc_build_dim_of(&t->b, g->inputs[0], 0), XCVM_F32);
    samples = xcc_build_squeeze(&t->b, samples, 1, (const int64_t[]){0});
    t->share = xcc_build_div(&t->b, samples, all_reduce(&t->b, samples));
    return t->share != NULL ? XCVM_OK : t->m->error->status;
}

/* The mean over all samples of what a process has of its own, of a real type. */
static xcc_value *mean_of(xcc_training *t, xcc_value *x)
{
    const xcvm_dtype dtype = (xcvm_dtype)x->type.dtype, wide = xcc_training_type(x);
    xcc_value *part = xcc_build_mul(&t->b, xcc_build_cast(&t->b, x, wide), xcc_build_cast(&t->b, t->share, wide));
    return xcc_build_cast(&t->b, all_reduce(&t->b, part), dtype);
}

/* The learner whose gradient is number i in the order in which the backward makes them: the last first. */
static xcc_learner *learner_of(xcc_training *t, size_t i) { return &t->learners[t->count - 1 - i]; }

/* One message for gradients [first, end), which have one type to sum in. */
static xcvm_status reduce_bucket(xcc_training *t, xcc_value **wide, size_t first, size_t end)
{
    xcc_module *m = t->m;
    const size_t count = end - first;
    xcc_value **sums = xcc_alloc(m, count * sizeof *sums);
    if (sums == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        if ((sums[i] = xcc_value_create(m->graph, NULL)) == NULL)
            return XCVM_OUT_OF_MEMORY;
    if (xcc_emit(&t->b, AllReduce, .y = XCC_OUT(sums[0]), .ys = {(xcvm_value *const *)(sums + 1), count - 1},
                 .x = XCC_IN(wide[first]), .xs = {(const xcvm_value *const *)(wide + first + 1), count - 1}) == NULL)
        return m->error->status;
    for (size_t i = 0; i < count; i++) {
        xcc_learner *l = learner_of(t, first + i);
        l->gradient = xcc_build_cast(&t->b, sums[i], (xcvm_dtype)l->parameter->type.dtype);
        if (l->gradient == NULL)
            return m->error->status;
    }
    return XCVM_OK;
}

xcvm_status xcc_processes_gradients(xcc_training *t)
{
    xcc_value **wide = xcc_alloc(t->m, t->count * sizeof *wide);
    if (wide == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < t->count; i++) {
        const xcc_learner *l = learner_of(t, i);
        if ((wide[i] = xcc_build_cast(&t->b, l->gradient, xcc_training_type(l->parameter))) == NULL)
            return t->m->error->status;
    }
    size_t first = 0, bytes = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (i > first && (bytes >= BUCKET_BYTES || wide[i]->type.dtype != wide[first]->type.dtype)) {
            XCVM_TRY(reduce_bucket(t, wide, first, i));
            first = i;
            bytes = 0;
        }
        bytes += learner_of(t, i)->parameter->initial_bytes;
    }
    return reduce_bucket(t, wide, first, t->count);
}

/* What is stored besides the optimizer's states are running statistics. */
xcvm_status xcc_processes_results(xcc_training *t)
{
    xcc_graph *g = t->b.graph;
    const char **names = g->output_names;
    xcc_value **outputs = xcc_alloc(t->m, g->output_count * sizeof *outputs);
    if (outputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < g->output_count; i++) {
        const xcc_value *state = xcc_graph_output_state(g, i);
        const bool is_statistic =
            state != NULL && strncmp(state->name, XCC_OPTIMIZER_PREFIX, sizeof XCC_OPTIMIZER_PREFIX - 1) != 0;
        outputs[i] = g->outputs[i];
        if ((is_statistic || outputs[i] == t->loss) && (outputs[i] = mean_of(t, outputs[i])) == NULL)
            return t->m->error->status;
    }
    XCVM_TRY(xcc_graph_set_outputs(g, g->output_count, outputs));
    g->output_names = names;
    return XCVM_OK;
}

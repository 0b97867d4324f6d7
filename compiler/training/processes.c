/* Data-parallel training: each process computes its part of each batch, and all make the same step. The share of a
 * process is the number of its samples over that of all processes, so parts may differ in size. The loss times the
 * share is differentiated, and gradients are summed. */
#include "compiler/training/training.h"

#include "compiler/ir/compose.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of gradients in one message; more if this would make more than the maximum number of messages. */
enum { BUCKET_BYTES = 1 << 22, MOST_BUCKETS = 1 << 10 };

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

/* ---- Normalization ---- */

/* BatchNormalization in training form uses the statistics of the whole batch of all processes. In bodies it uses those
 * of its process. Processes may run different bodies, and would wait for each other. */
static xcvm_status share_statistics(xcc_module *m, xcc_node *n)
{
    const xcvm_BatchNormalization_args *a = XCC_ARGS(BatchNormalization, n);
    xcc_graph *g = n->graph;
    xcc_value *old[] = {xcc_value_of(a->y), xcc_value_of(a->running_mean), xcc_value_of(a->running_var)}, *made[3];
    for (size_t i = 0; i < 3; i++) {
        made[i] = old[i] != NULL ? xcc_value_create(g, NULL) : NULL;
        if (old[i] != NULL && made[i] == NULL)
            return XCVM_OUT_OF_MEMORY;
    }
    xcc_builder b = {.graph = g, .before = n, .name = n->name, .origin = n->origin};
    if (xcc_emit(&b, SyncBatchNormalization, .y = XCC_OUT(made[0]), .running_mean = XCC_OUT(made[1]),
                 .running_var = XCC_OUT(made[2]), .x = a->x, .scale = a->scale, .b = a->b, .mean = a->mean,
                 .var = a->var, .epsilon = a->epsilon, .momentum = a->momentum) == NULL)
        return m->error->status;
    for (size_t i = 0; i < 3; i++)
        if (old[i] != NULL)
            xcc_replace_uses(g, old[i], made[i]);
    xcc_node_remove(n);
    return XCVM_OK;
}

xcvm_status xcc_processes_normalize(xcc_module *m)
{
    if (m->options->training.local_batch_normalization)
        return XCVM_OK;
    for (xcc_node *n = m->graph->first, *next; n != NULL; n = next) {
        next = n->next;
        XCVM_TRY(xcc_poll(m));
        if (xcc_is(n, XCVM_OP_BatchNormalization) && XCC_ARGS(BatchNormalization, n)->training_mode)
            XCVM_TRY(share_statistics(m, n));
    }
    return XCVM_OK;
}

/* Multiplies a value of a real type by the share of the process: its part of the mean over all samples. */
static xcc_value *part_of_mean(xcc_training *t, xcc_value *x)
{
    const xcvm_dtype wide = xcc_training_type(x);
    return xcc_build_mul(&t->b, xcc_build_cast(&t->b, x, wide), xcc_build_cast(&t->b, t->share, wide));
}

/* ---- Gradients ---- */

/* A trainable parameter, and the position of its gradient in the order of sums. */
typedef struct turn {
    xcc_trainable *trained;
    uint32_t first_reader; /* of the parameter: position of the first of the nodes that the model's node became */
} turn;

/* Returns the node of the top graph that contains a use; NULL for an output. */
static const xcc_node *node_in(const xcc_graph *top, const xcc_use *use)
{
    const xcc_node *n = use->node;
    for (const xcc_graph *g = use->graph; g != top && g != NULL; g = n != NULL ? n->graph : NULL)
        n = g->owner;
    return n;
}

static turn turn_of(const xcc_training *t, xcc_trainable *l)
{
    turn made = {l, UINT32_MAX};
    for (const xcc_use *use = l->parameter->users; use != NULL; use = use->next) {
        const xcc_node *n = node_in(t->m->graph, use);
        if (n == NULL || n->order >= made.first_reader)
            continue;
        while (n->previous != NULL && n->previous->name == n->name)
            n = n->previous;
        made.first_reader = n->order;
    }
    return made;
}

/* The backward pass ends with the nodes that the forward pass begins with. Parameters of one node are in the model's
 * order, because the nodes it became may depend on the batch size, which may differ between processes. */
static int last_reader_first(const void *pa, const void *pb)
{
    const turn *a = pa, *b = pb;
    if (a->first_reader != b->first_reader)
        return a->first_reader > b->first_reader ? -1 : 1;
    return a->trained > b->trained ? -1 : a->trained < b->trained;
}

xcvm_status xcc_processes_order(xcc_training *t)
{
    turn *turns = xcc_alloc(t->m, t->count * sizeof *turns);
    xcc_trainable *trainable = xcc_alloc(t->m, t->count * sizeof *trainable);
    if (turns == NULL || trainable == NULL)
        return XCVM_OUT_OF_MEMORY;
    xcc_graph_number(t->m->graph);
    for (size_t i = 0; i < t->count; i++)
        turns[i] = turn_of(t, &t->parameters[i]);
    qsort(turns, t->count, sizeof *turns, last_reader_first);
    for (size_t i = 0; i < t->count; i++)
        trainable[i] = *turns[i].trained;
    t->parameters = trainable;
    return XCVM_OK;
}

/* Gradients that are summed in one message. */
typedef struct gradient_bucket {
    xcc_trainable *parameters;
    size_t count;
    xcc_value *message;
} gradient_bucket;

/* Position of a sum: after the node that computes the gradient, and after earlier sums at the same position. */
typedef struct bucket_place {
    const xcc_node *producer, *last;
} bucket_place;

static void move_behind(bucket_place *place, const xcc_node *producer)
{
    if (producer != NULL && (place->producer == NULL || producer->order > place->producer->order))
        place->producer = place->last = producer;
}

/* Begins the sum of a bucket after the backward pass has computed the last of its gradients, and after earlier
 * buckets. */
static xcvm_status begin_bucket(xcc_training *t, gradient_bucket *bucket, bucket_place *place)
{
    xcc_module *m = t->m;
    const size_t count = bucket->count;
    xcc_builder b = t->b;
    xcc_value **wide = xcc_alloc(m, 2 * count * sizeof *wide), **summands = wide != NULL ? wide + count : NULL;
    if (wide == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        move_behind(place, bucket->parameters[i].gradient->producer);
    b.before = place->last != NULL ? place->last->next : m->graph->first;
    for (size_t i = 0; i < count; i++) {
        const xcc_trainable *l = &bucket->parameters[i];
        if ((wide[i] = xcc_build_cast(&b, l->gradient, xcc_training_type(l->parameter))) == NULL)
            return m->error->status;
        summands[i] = l->accumulator;
    }
    bucket->message = xcc_apply(
        &b, AllReduceBegin, message, .x = XCC_IN(wide[0]), .xs = {(const xcvm_value *const *)(wide + 1), count - 1},
        .summands = {(const xcvm_value *const *)summands, t->apply != NULL ? count : 0}, .apply = XCC_IN(t->apply));
    if (bucket->message == NULL)
        return m->error->status;
    place->last = bucket->message->producer;
    return XCVM_OK;
}

/* Replaces the gradients of a bucket by the sums, in the computation type and the shapes of the parameters. */
static xcvm_status end_bucket(xcc_training *t, const gradient_bucket *bucket)
{
    xcc_module *m = t->m;
    const size_t count = bucket->count;
    xcc_value **sums = xcc_alloc(m, count * sizeof *sums);
    int64_t *ranks = xcc_alloc(m, count * sizeof *ranks), *dims = xcc_alloc(m, count * XCVM_MAX_RANK * sizeof *dims);
    size_t at = 0;
    if (sums == NULL || ranks == NULL || dims == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const xcvm_value *type = &bucket->parameters[i].parameter->type;
        if ((sums[i] = xcc_value_create(m->graph, NULL)) == NULL)
            return XCVM_OUT_OF_MEMORY;
        ranks[i] = type->rank;
        for (int d = 0; d < type->rank; d++)
            dims[at++] = type->dims[d];
    }
    if (xcc_emit(&t->b, AllReduceEnd, .y = XCC_OUT(sums[0]), .ys = {(xcvm_value *const *)(sums + 1), count - 1},
                 .message = XCC_IN(bucket->message), .dtype = xcc_training_type(bucket->parameters[0].parameter),
                 .ranks = {ranks, count}, .dims = {dims, at}) == NULL)
        return m->error->status;
    for (size_t i = 0; i < count; i++)
        bucket->parameters[i].gradient = sums[i];
    return XCVM_OK;
}

/* Gradients of one type share a message, up to its maximum size. */
static size_t cut_buckets(const xcc_training *t, gradient_bucket *buckets)
{
    size_t count = 0, bytes = 0, total = 0;
    for (size_t i = 0; i < t->count; i++)
        total += t->parameters[i].parameter->initial_bytes;
    const size_t full = total / MOST_BUCKETS > BUCKET_BYTES ? total / MOST_BUCKETS : BUCKET_BYTES;
    for (size_t i = 0; i < t->count; i++) {
        const xcc_value *p = t->parameters[i].parameter,
                        *first = count > 0 ? buckets[count - 1].parameters->parameter : p;
        if (count == 0 || bytes >= full || xcc_training_type(p) != xcc_training_type(first)) {
            buckets[count++] = (gradient_bucket){.parameters = &t->parameters[i]};
            bytes = 0;
        }
        buckets[count - 1].count++;
        bytes += p->initial_bytes;
    }
    return count;
}

xcvm_status xcc_processes_gradients(xcc_training *t)
{
    gradient_bucket *buckets = xcc_alloc(t->m, t->count * sizeof *buckets);
    bucket_place place = {.producer = NULL};
    if (buckets == NULL)
        return XCVM_OUT_OF_MEMORY;
    const size_t count = cut_buckets(t, buckets);
    xcc_graph_number(t->m->graph);
    for (size_t i = 0; i < count; i++)
        XCVM_TRY(begin_bucket(t, &buckets[i], &place));
    for (size_t i = 0; i < count; i++)
        XCVM_TRY(end_bucket(t, &buckets[i]));
    return XCVM_OK;
}

/* ---- Results ---- */

/* Means of one computation type share a message. */
static xcvm_status join_means(xcc_training *t, size_t count, const size_t *indices, xcvm_dtype wide,
                              xcc_value **outputs)
{
    xcc_module *m = t->m;
    xcc_value **parts = xcc_alloc(m, 2 * count * sizeof *parts), **sums = parts != NULL ? parts + count : NULL;
    size_t n = 0;
    if (parts == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        if (xcc_training_type(outputs[indices[i]]) == wide) {
            parts[n] = part_of_mean(t, outputs[indices[i]]);
            if (parts[n] == NULL || (sums[n] = xcc_value_create(m->graph, NULL)) == NULL)
                return m->error->status;
            n++;
        }
    if (n == 0)
        return XCVM_OK;
    if (xcc_emit(&t->b, AllReduce, .y = XCC_OUT(sums[0]), .ys = {(xcvm_value *const *)(sums + 1), n - 1},
                 .x = XCC_IN(parts[0]), .xs = {(const xcvm_value *const *)(parts + 1), n - 1}) == NULL)
        return m->error->status;
    n = 0;
    for (size_t i = 0; i < count; i++) {
        xcc_value **output = &outputs[indices[i]];
        if (xcc_training_type(*output) != wide)
            continue;
        if ((*output = xcc_build_cast(&t->b, sums[n++], (xcvm_dtype)(*output)->type.dtype)) == NULL)
            return m->error->status;
    }
    return XCVM_OK;
}

/* States that are stored and do not belong to the optimizer are running statistics. */
xcvm_status xcc_processes_results(xcc_training *t)
{
    xcc_graph *g = t->b.graph;
    const char **names = g->output_names;
    xcc_value **outputs = xcc_alloc(t->m, g->output_count * sizeof *outputs);
    size_t *means = xcc_alloc(t->m, g->output_count * sizeof *means), count = 0;
    if (outputs == NULL || means == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < g->output_count; i++) {
        const xcc_value *state = xcc_graph_output_state(g, i);
        const bool is_statistic =
            state != NULL && strncmp(state->name, XCC_OPTIMIZER_PREFIX, sizeof XCC_OPTIMIZER_PREFIX - 1) != 0;
        outputs[i] = g->outputs[i];
        if (is_statistic || outputs[i] == t->loss)
            means[count++] = i;
    }
    XCVM_TRY(join_means(t, count, means, XCVM_F32, outputs));
    XCVM_TRY(join_means(t, count, means, XCVM_F64, outputs));
    XCVM_TRY(xcc_graph_set_outputs(g, g->output_count, outputs));
    g->output_names = names;
    return XCVM_OK;
}

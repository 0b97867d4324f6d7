/* Training and evaluation form of normalization and dropout. Running statistics are states that both forms share. */
#include "compiler/training/training.h"

#include "compiler/ir/compose.h"
#include "compiler/ir/training_form.h"

/* Returns true if the program can store the statistic: it is a parameter of the model. */
static bool is_kept(const xcc_module *m, const xcvm_value *operand)
{
    const xcc_value *v = xcc_value_of(operand);
    return v != NULL && xcc_is_variable(v) && v->graph == m->graph;
}

/* Creates the node again, with results for the running statistics. */
static xcc_node *with_statistics(xcc_node *n, xcvm_BatchNormalization_args args)
{
    xcc_graph *g = n->graph;
    xcc_value *y = xcc_value_create(g, NULL), *mean = xcc_value_create(g, NULL), *var = xcc_value_create(g, NULL);
    if (y == NULL || mean == NULL || var == NULL)
        return NULL;
    xcc_value *old[] = {xcc_value_of(args.y), xcc_value_of(args.running_mean), xcc_value_of(args.running_var)};
    args.y = XCC_OUT(y);
    args.running_mean = XCC_OUT(mean);
    args.running_var = XCC_OUT(var);
    xcc_builder b = {.graph = g, .before = n, .name = n->name, .origin = n->origin};
    xcc_node *made = xcc_append(&b, XCVM_OP_BatchNormalization, &args);
    if (made == NULL)
        return NULL;
    xcc_value *const results[] = {y, mean, var};
    for (size_t i = 0; i < 3; i++)
        if (old[i] != NULL)
            xcc_replace_uses(g, old[i], results[i]);
    xcc_node_remove(n);
    return made;
}

/* Latest values of statistics. Nodes that share a statistic update it one after another. */
typedef struct statistics {
    xcc_value **now;  /* latest value, by the id of the model's value; NULL: not visited */
    xcc_value **kept; /* the visited statistics */
    size_t count;
    xcc_node_names fixed; /* number of nodes whose momentum would not change the statistics */
    xcc_node_names still; /* number of nodes in training form whose statistics the program cannot store */
} statistics;

static void follow(statistics *s, const xcvm_value **operand, xcc_value ***now)
{
    xcc_value *v = xcc_value_of(*operand);
    *now = &s->now[v->id];
    if (**now == NULL)
        s->kept[s->count++] = **now = v;
    *operand = XCC_IN(**now);
}

/* ONNX's default momentum. Old exports for inference have 1, which has no meaning in inference and would never change
 * the statistics. */
#define USUAL_MOMENTUM 0.9

static xcvm_status train_normalization(xcc_module *m, statistics *s, xcc_node *n)
{
    xcvm_BatchNormalization_args args = *XCC_ARGS(BatchNormalization, n);
    const bool inference = args.training_mode == 0;
    xcc_value **mean, **var;
    const bool kept = is_kept(m, args.mean) && is_kept(m, args.var);
    if (!inference && !kept)
        xcc_node_names_add(&s->still, n->name, n->schema->name, XCC_USES_BATCH);
    if ((inference && !m->options->training.train_batch_normalization) || !kept)
        return XCVM_OK;
    args.training_mode = 1;
    if (args.momentum >= 1) {
        args.momentum = USUAL_MOMENTUM;
        xcc_node_names_add(&s->fixed, n->name, n->schema->name, 0);
    }
    follow(s, &args.mean, &mean);
    follow(s, &args.var, &var);
    const xcc_node *made = with_statistics(n, args);
    if (made == NULL)
        return m->error->status;
    *mean = xcc_value_of(XCC_ARGS(BatchNormalization, made)->running_mean);
    *var = xcc_value_of(XCC_ARGS(BatchNormalization, made)->running_var);
    return XCVM_OK;
}

/* Programs do not store statistics of nodes in bodies. */
static xcvm_status list_bodies(xcc_module *m, statistics *s, const xcc_graph *g)
{
    for (const xcc_node *n = g->first; n != NULL; n = n->next) {
        XCVM_TRY(xcc_poll(m));
        if (g != m->graph && (xcc_node_training_form(n) & XCC_USES_BATCH) != 0)
            xcc_node_names_add(&s->still, n->name, n->schema->name, XCC_USES_BATCH);
        for (size_t i = 0; i < n->body_count; i++)
            XCVM_TRY(list_bodies(m, s, n->bodies[i]));
    }
    return XCVM_OK;
}

static xcvm_status store(xcc_module *m, const statistics *s)
{
    const char **names = xcc_alloc(m, s->count * sizeof *names);
    xcc_value **values = names != NULL ? xcc_alloc(m, s->count * sizeof *values) : NULL;
    if (values == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < s->count; i++) {
        names[i] = s->kept[i]->name;
        values[i] = s->now[s->kept[i]->id];
    }
    xcc_values_keep(s->count, s->kept);
    return xcc_graph_add_outputs(m->graph, s->count, values, names, s->kept);
}

static xcvm_status train(xcc_module *m)
{
    statistics s = {.now = xcc_alloc(m, 2 * (size_t)m->value_count * sizeof *s.now)};
    bool any = false;
    if (s.now == NULL)
        return XCVM_OUT_OF_MEMORY;
    s.kept = s.now + m->value_count;
    for (xcc_node *n = m->graph->first, *next; n != NULL; n = next) {
        next = n->next;
        XCVM_TRY(xcc_poll(m));
        if (!xcc_is(n, XCVM_OP_BatchNormalization))
            continue;
        any = true;
        XCVM_TRY(train_normalization(m, &s, n));
    }
    XCVM_CHECK(
        m->error, any || !m->options->training.train_batch_normalization, UNSUPPORTED,
        "the model has no BatchNormalization to be put into training form; exporters for inference merge it into "
        "convolutions, so export the model for training");
    XCVM_TRY(list_bodies(m, &s, m->graph));
    xcc_node_names_note(&s.still, m->options, XCC_DIAGNOSTIC_STATISTICS,
                        "normalized by the batch without moving running statistics, which are of no initializer of the "
                        "model's graph or are read in a body, so that the inference form will not fit");
    xcc_node_names_note(&s.fixed, m->options, XCC_DIAGNOSTIC_MOMENTUM,
                        "trained with momentum 0.9 in place of 1, with which running statistics never move");
    return store(m, &s);
}

/* Also in bodies, whose statistics programs do not store. */
static xcvm_status evaluate(xcc_module *m, xcc_graph *g)
{
    for (xcc_node *n = g->first; n != NULL; n = n->next) {
        XCVM_TRY(xcc_poll(m));
        for (size_t i = 0; i < n->body_count; i++)
            XCVM_TRY(evaluate(m, n->bodies[i]));
        const bool moves =
            (xcc_node_training_form(n) & XCC_USES_BATCH) != 0 || m->options->training.train_batch_normalization;
        XCVM_TRY(xcc_node_to_inference(n));
        if (!xcc_is(n, XCVM_OP_BatchNormalization) || !moves || g != m->graph)
            continue;
        const xcvm_BatchNormalization_args *a = XCC_ARGS(BatchNormalization, n);
        const xcvm_value *const operands[] = {a->mean, a->var};
        for (size_t i = 0; i < 2; i++)
            if (is_kept(m, operands[i]))
                xcc_values_keep(1, (xcc_value *[]){xcc_value_of(operands[i])});
    }
    return XCVM_OK;
}

xcvm_status xcc_training_modes(xcc_module *m)
{
    return m->options->training.evaluate ? evaluate(m, m->graph) : train(m);
}

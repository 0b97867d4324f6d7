/* The pass `differentiate`: gradients of a whole model, or seeds and vectors, as inputs and outputs. */
#include "compiler/gradients/gradients.h"
#include "compiler/gradients/rule.h"
#include "compiler/ir/compilation.h"

#include <stdio.h>
#include <string.h>

xcvm_status xcc_find_loss(xcc_module *m, xcc_value **loss)
{
    const xcc_graph *g = m->graph;
    const char *wanted = m->options->loss;
    size_t found = 0;
    *loss = m->compilation->loss;
    if (m->compilation->loss != NULL)
        return XCVM_OK;
    for (size_t i = 0; i < g->output_count; i++) {
        xcc_value *v = g->outputs[i];
        if (xcc_graph_output_state(g, i) != NULL)
            continue;
        if (wanted != NULL ? strcmp(g->output_names[i], wanted) == 0 : xcc_is_differentiable(v)) {
            *loss = v;
            found++;
        }
    }
    XCVM_CHECK(m->error, wanted == NULL || found > 0, INVALID_ARGUMENT,
               "the model has no output '%.200s' to be the loss", wanted);
    XCVM_CHECK(m->error, found > 0, INVALID_ARGUMENT, "the model has no output of a float type to be the loss");
    XCVM_CHECK(m->error, found == 1, INVALID_ARGUMENT,
               "the model has %zu outputs of float types; name the one that is the loss", found);
    XCVM_CHECK(m->error, xcc_is_differentiable(*loss), INVALID_ARGUMENT,
               "the loss '%.200s' is no tensor of a float type", wanted);
    const xcvm_value *type = &(*loss)->type;
    bool scalar = type->rank >= 0;
    for (int i = 0; scalar && i < type->rank; i++)
        scalar = type->dims[i] == 1;
    char text[200];
    XCVM_CHECK(m->error, scalar, INVALID_ARGUMENT,
               "the loss '%.200s' is %s; it has to be one number, so end the model with a sum or a mean over all of it",
               (*loss)->name, xcvm_value_describe(type, text, sizeof text));
    return XCVM_OK;
}

bool xcc_is_statistic(const xcc_value *v)
{
    for (const xcc_use *use = v->users; use != NULL; use = use->next) {
        if (!xcc_is(use->node, XCVM_OP_BatchNormalization))
            return false;
        const xcvm_BatchNormalization_args *a = XCC_ARGS(BatchNormalization, use->node);
        const xcvm_value *operand = XCC_IN(xcc_node_input(use->node, use->index));
        if ((operand != a->mean && operand != a->var) || operand == a->scale || operand == a->b || operand == a->x)
            return false;
    }
    return v->users != NULL;
}

static xcc_value *find_named(const xcc_module *m, const char *name)
{
    for (xcc_value *v = m->variables; v != NULL; v = v->next_owned)
        if (v->kind == XCC_PARAMETER && strcmp(v->name, name) == 0)
            return v;
    for (size_t i = 0; i < m->graph->input_count; i++)
        if (strcmp(m->graph->inputs[i]->name, name) == 0)
            return m->graph->inputs[i];
    return NULL;
}

static xcvm_status list_named(xcc_module *m, xcc_value **wrt, size_t *count)
{
    const xcc_options *o = m->options;
    for (size_t i = 0; i < o->gradients.wrt_count; i++) {
        xcc_value *v = find_named(m, o->gradients.wrt[i]);
        XCVM_CHECK(m->error, v != NULL, INVALID_ARGUMENT,
                   "no parameter or input '%.200s' can be differentiated by: it is not in the model, is no float, or "
                   "determines a shape",
                   o->gradients.wrt[i]);
        XCVM_CHECK(m->error, xcc_is_differentiable(v), INVALID_ARGUMENT,
                   "input '%.200s' is no tensor of a float type, so it has no gradient", o->gradients.wrt[i]);
        for (size_t k = 0; k < *count; k++)
            XCVM_CHECK(m->error, wrt[k] != v, INVALID_ARGUMENT, "'%.200s' is named more than once",
                       o->gradients.wrt[i]);
        wrt[(*count)++] = v;
    }
    return XCVM_OK;
}

static xcvm_status list_wrt(xcc_module *m, xcc_value ***wrt, size_t *count)
{
    size_t capacity = m->options->gradients.wrt_count;
    for (const xcc_value *v = m->variables; v != NULL; v = v->next_owned)
        capacity++;
    *count = 0;
    if ((*wrt = xcc_alloc(m, capacity * sizeof **wrt)) == NULL)
        return XCVM_OUT_OF_MEMORY;
    if (m->options->gradients.wrt_count > 0)
        return list_named(m, *wrt, count);
    for (xcc_value *v = m->variables; v != NULL; v = v->next_owned)
        if (v->kind == XCC_PARAMETER && v->graph == m->graph && !xcc_is_statistic(v))
            (*wrt)[(*count)++] = v;
    XCVM_CHECK(m->error, *count > 0, INVALID_ARGUMENT,
               "the model has no parameters, which are initializers of a float type; name inputs to differentiate by");
    return XCVM_OK;
}

/* Returns "<prefix><name>", which must not be in `taken`. */
static const char *prefixed(xcc_module *m, const xcc_table *taken, const char *prefix, const char *name)
{
    const size_t length = strlen(prefix) + strlen(name) + 1;
    char *text = xcc_alloc(m, length);
    if (text == NULL)
        return NULL;
    snprintf(text, length, "%s%s", prefix, name);
    if (xcc_table_lookup(taken, text) != NULL) {
        xcvm_error_set(m->error, XCVM_INVALID_MODEL, "the model has an input or an output '%.200s' already", text);
        return NULL;
    }
    return text;
}

/* Collects the names of the graph's inputs and outputs. */
static xcvm_status list_names(const xcc_graph *g, xcc_table *names)
{
    *names = (xcc_table){.count = 0};
    for (size_t i = 0; i < g->input_count; i++)
        XCVM_TRY(xcc_table_put(g->module, names, g->inputs[i]->name, (int64_t)i));
    for (size_t i = 0; i < g->output_count; i++)
        XCVM_TRY(xcc_table_put(g->module, names, g->output_names[i], (int64_t)i));
    return XCVM_OK;
}

/* Appends the derivatives as outputs. Structurally zero ones are omitted unless requested by name. */
static xcvm_status add_outputs(xcc_builder *b, const char *prefix, xcc_value *const *wrt, xcc_value *const *gradients,
                               size_t count)
{
    xcc_graph *g = b->graph;
    xcc_module *m = g->module;
    xcc_value **outputs = xcc_alloc(m, (g->output_count + count) * sizeof *outputs);
    if (outputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    const size_t own = g->output_count;
    size_t total = own;
    xcc_table names;
    memcpy(outputs, g->outputs, own * sizeof *outputs);
    XCVM_TRY(list_names(g, &names));
    for (size_t i = 0; i < count; i++) {
        xcc_value *gradient = gradients[i];
        if (gradient == NULL && m->options->gradients.wrt_count == 0)
            continue;
        if (gradient == NULL)
            gradient = xcc_zeros_like(b, wrt[i]);
        xcc_value *named = outputs[total++] = gradient != NULL ? xcc_value_create(g, NULL) : NULL;
        if (named == NULL || (named->name = prefixed(m, &names, prefix, wrt[i]->name)) == NULL ||
            xcc_emit(b, Identity, .y = XCC_OUT(named), .x = XCC_IN(gradient)) == NULL)
            return m->error->status;
    }
    return xcc_graph_set_outputs(g, total, outputs);
}

/* Adds an input of the type of `like`, named with the prefix and its name. */
static xcc_value *add_input(xcc_graph *g, const char *prefix, const xcc_value *like)
{
    xcc_table names;
    xcc_value *v = xcc_value_create(g, NULL);
    xcc_value **inputs = xcc_alloc(g->module, (g->input_count + 1) * sizeof *inputs);
    if (v == NULL || inputs == NULL || list_names(g, &names) != XCVM_OK ||
        (v->name = prefixed(g->module, &names, prefix, like->name)) == NULL)
        return NULL;
    xcvm_value_set_tensor(&v->type, (xcvm_dtype)like->type.dtype, like->type.rank, like->type.dims);
    if (g->input_count > 0)
        memcpy(inputs, g->inputs, g->input_count * sizeof *inputs);
    inputs[g->input_count] = v;
    return xcc_graph_set_inputs(g, g->input_count + 1, inputs) == XCVM_OK ? v : NULL;
}

/* Finds the differentiated outputs: the loss with gradient 1, or, for two programs, outputs whose gradients are inputs.
 */
static xcvm_status find_seeds(xcc_builder *b, xcc_seed *seeds, size_t *count)
{
    xcc_graph *g = b->graph;
    xcc_module *m = g->module;
    xcc_value *loss;
    *count = 0;
    if (m->options->gradients.phase == XCC_PHASE_WHOLE) {
        XCVM_TRY(xcc_find_loss(m, &loss));
        seeds[0] = (xcc_seed){loss, xcc_full_like(b, loss, 1)};
        *count = 1;
        return seeds[0].gradient != NULL ? XCVM_OK : m->error->status;
    }
    for (size_t i = 0; i < g->output_count; i++) {
        xcc_value *v = g->outputs[i];
        const bool wanted = m->compilation->loss != NULL
                                ? v == m->compilation->loss
                                : m->options->loss == NULL || strcmp(m->options->loss, g->output_names[i]) == 0;
        if (!wanted || !xcc_is_differentiable(v))
            continue;
        seeds[*count] = (xcc_seed){v, add_input(g, "grad_in@", v)};
        if (seeds[(*count)++].gradient == NULL)
            return m->error->status;
    }
    XCVM_CHECK(m->error, *count > 0 || m->options->loss == NULL, INVALID_ARGUMENT,
               "the model has no output '%.200s' of a float type to be differentiated", m->options->loss);
    XCVM_CHECK(m->error, *count > 0, INVALID_ARGUMENT, "the model has no output of a float type to be differentiated");
    return XCVM_OK;
}

/* Removes unread inputs from index `first`. */
static xcvm_status drop_inputs(xcc_graph *g, size_t first)
{
    size_t kept = first;
    for (size_t i = first; i < g->input_count; i++)
        if (g->inputs[i]->uses > 0)
            g->inputs[kept++] = g->inputs[i];
    return xcc_graph_set_inputs(g, kept, g->inputs);
}

/* Second derivatives times vectors: the gradients of the gradients with the vectors as seeds. */
static xcvm_status add_second(xcc_builder *b, xcc_value *const *wrt, xcc_value *const *gradients, size_t count)
{
    xcc_module *m = b->graph->module;
    xcc_seed *seeds = xcc_alloc(m, count * sizeof *seeds);
    xcc_value **second = xcc_alloc(m, count * sizeof *second);
    size_t seed_count = 0;
    if (seeds == NULL || second == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        if (gradients[i] == NULL && m->options->gradients.wrt_count == 0)
            continue;
        xcc_value *vector = add_input(b->graph, "vector@", wrt[i]);
        if (vector == NULL)
            return m->error->status;
        if (gradients[i] != NULL)
            seeds[seed_count++] = (xcc_seed){gradients[i], vector};
    }
    XCVM_TRY(xcc_differentiate(b, b->graph, NULL, seeds, seed_count, wrt, count, false, second));
    return add_outputs(b, "hvp_out@", wrt, second, count);
}

xcvm_status xcc_pass_differentiate(xcc_module *m)
{
    const xcc_options *o = m->options;
    xcc_value **wrt, **gradients;
    size_t count, seed_count;
    if (!o->backprop)
        return XCVM_OK;
    xcc_graph *g = m->graph;
    const size_t outputs = m->compilation->forward_outputs = g->output_count;
    m->compilation->forward_inputs = g->input_count;
    xcc_builder b = {.graph = g, .name = "grad_out", .origin = "Gradient"};
    xcc_seed *seeds = xcc_alloc(m, (outputs + 1) * sizeof *seeds);
    if (seeds == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(find_seeds(&b, seeds, &seed_count));
    XCVM_TRY(list_wrt(m, &wrt, &count));
    if ((gradients = xcc_alloc(m, count * sizeof *gradients)) == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(xcc_differentiate(&b, g, NULL, seeds, seed_count, wrt, count, o->gradients.straight_through, gradients));
    XCVM_TRY(add_outputs(&b, "grad_out@", wrt, gradients, count));
    for (size_t i = 0; i < count; i++) {
        m->compilation->gradient_count += gradients[i] != NULL;
        m->compilation->gradient_bytes += gradients[i] != NULL ? wrt[i]->type.bytes : 0;
    }
    XCVM_CHECK(m->error, g->output_count > outputs, INVALID_ARGUMENT,
               "the loss depends on none of the model's parameters");
    XCVM_TRY(drop_inputs(g, m->compilation->forward_inputs));
    if (o->gradients.order == 2)
        XCVM_TRY(add_second(&b, wrt, gradients, count));
    /* A program that only returns gradients trains nothing, so parameters become constants. */
    xcc_parameters_freeze(m);
    return XCVM_OK;
}

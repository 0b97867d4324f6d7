/* The walk back from the loss, and the pass that does it for a whole model. */
#include "compiler/gradients/control_flow.h"
#include "compiler/ir/compose.h"
#include "compiler/passes/passes.h"

#include <stdio.h>
#include <string.h>

/* ---- The walk ---- */

typedef struct walk {
    xcc_module *m;
    xcc_outside *outsides; /* of nodes with bodies, at their marks */
    uint32_t *stamps, controls;
    xcc_builder *b;
    xcc_node *behind, *first; /* the nodes that are walked through are those from first on, behind `behind` */
    /* By value id, for the values that there were when the walk began. */
    uint32_t values;
    bool *reached;         /* depends on what is differentiated by */
    bool *needed;          /* and the loss depends on it */
    xcc_value **gradients; /* as far as they are added up */
    xcc_value **masks;     /* of those */
    char message[480];     /* of problems, a line each */
    size_t shown, problems;
    const xcc_node *first_problem;
} walk;

/* What a gradient may have to go through, though it may be of no use there. */
static bool carries(const xcc_value *v)
{
    return v != NULL && (xcc_is_differentiable(v) || v->type.kind != XCVM_KIND_TENSOR) &&
           (v->type.dtype == XCVM_NO_DTYPE || xcvm_dtype_is_float((xcvm_dtype)v->type.dtype));
}

static bool is_flagged(const walk *w, const bool *flags, const xcc_value *v)
{
    return carries(v) && v->id < w->values && flags[v->id];
}

static bool is_zero(const xcc_node *n) { return n->kind == XCC_INSTRUCTION && n->schema->gradient.zero; }

/* Whether a gradient goes from the node to operand i. What decides a shape has none. */
static bool takes(const walk *w, const xcc_node *n, size_t i)
{
    const xcvm_field *field = xcc_node_input_field(n, i);
    return (field == NULL || field->role != XCVM_ROLE_IN_SHAPE) && is_flagged(w, w->reached, xcc_node_input(n, i));
}

/* What the bodies of a node read; nothing of an instruction. */
static const xcc_outside *outside_of(const walk *w, const xcc_node *n)
{
    static const xcc_outside none;
    return n->kind != XCC_INSTRUCTION ? &w->outsides[n->mark] : &none;
}

static bool depends(const walk *w, const xcc_node *n)
{
    const xcc_outside *outside = outside_of(w, n);
    for (size_t i = 0; i < xcc_node_input_count(n); i++)
        if (takes(w, n, i))
            return true;
    for (size_t i = 0; i < outside->count; i++)
        if (is_flagged(w, w->reached, outside->values[i]))
            return true;
    return false;
}

static bool is_needed(const walk *w, const xcc_node *n)
{
    for (size_t i = 0; i < xcc_node_output_count(n); i++)
        if (is_flagged(w, w->needed, xcc_node_output(n, i)))
            return true;
    return false;
}

static size_t count_controls(const xcc_node *first)
{
    size_t count = 0;
    for (const xcc_node *n = first; n != NULL; n = n->next)
        for (size_t i = 0; i < n->body_count; i++)
            count += (i == 0) + count_controls(n->bodies[i]->first);
    return count;
}

static xcvm_status find_outsides(walk *w, xcc_node *first)
{
    for (xcc_node *n = first; n != NULL; n = n->next) {
        if (n->kind == XCC_INSTRUCTION)
            continue;
        n->mark = w->controls++;
        XCVM_TRY(xcc_outside_find(&w->outsides[n->mark], n, w->stamps, w->values, w->controls));
        for (size_t i = 0; i < n->body_count; i++)
            XCVM_TRY(find_outsides(w, n->bodies[i]->first));
    }
    return XCVM_OK;
}

static void flag(bool *flags, xcc_value *const *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (carries(values[i]))
            flags[values[i]->id] = true;
}

/* Which values depend on what is differentiated by. In bodies these are found for the sake of what has no rule there:
 * any state of a loop may. */
static xcvm_status find_reached(walk *w, const xcc_node *first)
{
    for (const xcc_node *n = first; n != NULL; n = n->next) {
        XCVM_TRY(xcc_poll(w->m));
        if (is_zero(n) || !depends(w, n))
            continue;
        for (size_t i = 0; i < n->body_count; i++) {
            flag(w->reached, n->bodies[i]->inputs, n->bodies[i]->input_count);
            XCVM_TRY(find_reached(w, n->bodies[i]->first));
        }
        for (size_t i = 0; i < xcc_node_output_count(n); i++)
            if (carries(xcc_node_output(n, i)))
                w->reached[xcc_node_output(n, i)->id] = true;
    }
    return XCVM_OK;
}

/* Which of those the loss depends on. */
static xcvm_status find_needed(walk *w, const xcc_node *last, const xcc_node *behind)
{
    for (const xcc_node *n = last; n != behind; n = n->previous) {
        XCVM_TRY(xcc_poll(w->m));
        if (is_zero(n) || !depends(w, n) || !is_needed(w, n))
            continue;
        const xcc_outside *outside = outside_of(w, n);
        for (size_t i = 0; i < xcc_node_input_count(n); i++)
            if (takes(w, n, i))
                w->needed[xcc_node_input(n, i)->id] = true;
        for (size_t i = 0; i < outside->count; i++)
            if (is_flagged(w, w->reached, outside->values[i]))
                w->needed[outside->values[i]->id] = true;
        for (size_t i = 0; i < n->body_count; i++) {
            flag(w->needed, n->bodies[i]->outputs, n->bodies[i]->output_count);
            XCVM_TRY(find_needed(w, n->bodies[i]->last, NULL));
        }
    }
    return XCVM_OK;
}

static const char *kind_of(const xcc_node *n)
{
    return n->kind == XCC_INSTRUCTION ? n->schema->name : n->kind == XCC_IF ? "If" : "Loop";
}

/* All problems are told, as many as fit into the message. */
static void note_problem(walk *w, const xcc_node *n, const char *why)
{
    const size_t used = strlen(w->message), room = sizeof w->message - used;
    const int length = snprintf(w->message + used, room, "%snode '%s' (%s): %s %s", used > 0 ? "\n" : "", n->name,
                                n->origin, kind_of(n), why);
    if (length < 0 || (size_t)length >= room)
        w->message[w->shown == 0 ? sizeof w->message - 1 : used] = '\0';
    if (w->shown == w->problems && (w->shown == 0 || w->message[used] != '\0'))
        w->shown++;
    if (w->problems++ == 0)
        w->first_problem = n;
}

static xcvm_status tell_problems(const walk *w)
{
    char more[48] = "";
    if (w->problems > w->shown)
        snprintf(more, sizeof more, "\nand %zu more nodes", w->problems - w->shown);
    xcvm_error *error = w->m->error;
    xcvm_error_set(error, XCVM_UNSUPPORTED, "%s%s", w->message, more);
    if (error != NULL) {
        strncpy(error->node, w->first_problem->name, sizeof error->node - 1);
        strncpy(error->instruction, kind_of(w->first_problem), sizeof error->instruction - 1);
    }
    return XCVM_UNSUPPORTED;
}

/* Every node on the path must have a rule. */
static void find_problems(walk *w, const xcc_node *first)
{
    for (const xcc_node *n = first; n != NULL; n = n->next) {
        if (is_zero(n) || !depends(w, n) || !is_needed(w, n))
            continue;
        for (size_t i = 0; i < n->body_count; i++)
            find_problems(w, n->bodies[i]->first);
        if (n->kind != XCC_INSTRUCTION)
            continue;
        if (n->schema->gradient.rule == NULL)
            note_problem(w, n, "cannot be differentiated");
        else if (xcc_gradient_rule_of(n->schema->opcode) == NULL)
            note_problem(w, n, "has no gradient yet");
    }
}

/* ---- One node ---- */

static xcvm_status add_up(walk *w, xcc_value *v, xcc_value *gradient, xcc_value *mask)
{
    xcc_value **sum = &w->gradients[v->id], **both = &w->masks[v->id];
    XCVM_CHECK(w->m->error, gradient->type.dtype == v->type.dtype, INTERNAL, "the gradient of %s is %s, not %s",
               v->name, xcvm_dtype_name((xcvm_dtype)gradient->type.dtype), xcvm_dtype_name((xcvm_dtype)v->type.dtype));
    if (*sum == NULL) {
        *sum = gradient;
        *both = mask;
        return XCVM_OK;
    }
    *sum = xcc_build_add(w->b, *sum, gradient);
    if (*sum == NULL)
        return w->m->error->status;
    *both = *both != NULL && mask != NULL ? xcc_build_binary(w->b, XCVM_OP_Or, *both, mask) : NULL;
    return XCVM_OK;
}

/* The name of what is built for a node. */
static const char *backward_name(xcc_module *m, const xcc_node *n)
{
    static const char prefix[] = "grad@";
    const size_t length = sizeof prefix + strlen(n->name);
    char *name = xcc_alloc(m, length);
    if (name != NULL)
        snprintf(name, length, "%s%s", prefix, n->name);
    return name;
}

static xcvm_status differentiate_node(walk *w, xcc_node *n)
{
    xcc_module *m = w->m;
    const xcc_outside *outside = outside_of(w, n);
    const size_t own = xcc_node_input_count(n), ins = own + outside->count, outs = xcc_node_output_count(n);
    xcc_value **all = xcc_alloc(m, 2 * (ins + outs) * sizeof *all);
    bool *wanted = xcc_alloc(m, ins * sizeof *wanted);
    const char *name = backward_name(m, n);
    if (all == NULL || wanted == NULL || name == NULL)
        return XCVM_OUT_OF_MEMORY;
    bool any = false;
    for (size_t i = 0; i < outs; i++) {
        const xcc_value *v = xcc_node_output(n, i);
        if (v == NULL || v->id >= w->values)
            continue;
        all[i] = w->gradients[v->id];
        all[outs + i] = w->masks[v->id];
        any = any || all[i] != NULL;
    }
    for (size_t i = 0; i < ins; i++)
        wanted[i] = i < own ? takes(w, n, i) : is_flagged(w, w->reached, outside->values[i - own]);
    if (!any)
        return XCVM_OK;
    xcc_builder b = *w->b;
    b.name = name;
    b.origin = n->origin;
    xcc_vjp d = {.b = &b,
                 .node = n,
                 .results = all,
                 .masks = all + outs,
                 .result_count = outs,
                 .outside = outside->values,
                 .outside_count = outside->count,
                 .wanted = wanted,
                 .operands = all + 2 * outs,
                 .operand_masks = all + 2 * outs + ins};
    const xcc_gradient_rule rule = n->kind == XCC_IF     ? xcc_gradient_of_if
                                   : n->kind == XCC_LOOP ? xcc_gradient_of_loop
                                                         : xcc_gradient_rule_of(n->schema->opcode);
    rule(&d);
    if (d.refused[0] != '\0') {
        note_problem(w, n, d.refused);
        return XCVM_OK;
    }
    if (d.failed) {
        xcvm_error_prefix(m->error, "gradient of node '%s' (%s)", n->name, kind_of(n));
        return m->error->status;
    }
    for (size_t i = 0; i < ins; i++)
        if (wanted[i] && d.operands[i] != NULL)
            XCVM_TRY(add_up(w, i < own ? xcc_node_input(n, i) : outside->values[i - own], d.operands[i],
                            d.operand_masks[i]));
    return XCVM_OK;
}

/* ---- The graph ---- */

static xcvm_status walk_back(walk *w, xcc_graph *g)
{
    xcc_node *previous;
    for (xcc_node *n = g->last; n != w->behind; n = previous) {
        previous = n->previous;
        XCVM_TRY(xcc_poll(w->m));
        if (!is_zero(n) && depends(w, n) && is_needed(w, n))
            XCVM_TRY(differentiate_node(w, n));
    }
    return w->problems > 0 ? tell_problems(w) : XCVM_OK;
}

xcvm_status xcc_differentiate(xcc_builder *b, xcc_graph *g, xcc_node *behind, const xcc_seed *seeds, size_t seed_count,
                              xcc_value *const *wrt, size_t count, xcc_value **gradients)
{
    xcc_module *m = g->module;
    if (m->recorder != NULL)
        return m->recorder->differentiate(m->recorder, seeds, seed_count, wrt, count, gradients);
    walk w = {.m = m, .b = b, .behind = behind, .values = m->value_count};
    w.first = behind != NULL ? behind->next : g->first;
    w.reached = xcc_alloc(m, 2 * (size_t)w.values * sizeof *w.reached);
    w.gradients = xcc_alloc(m, 2 * (size_t)w.values * sizeof *w.gradients);
    const size_t controls = count_controls(w.first);
    w.outsides = xcc_alloc(m, controls * sizeof *w.outsides);
    w.stamps = xcc_alloc(m, controls > 0 ? w.values * sizeof *w.stamps : 0);
    if (w.reached == NULL || w.gradients == NULL || w.outsides == NULL || w.stamps == NULL)
        return XCVM_OUT_OF_MEMORY;
    w.needed = w.reached + w.values;
    w.masks = w.gradients + w.values;
    for (size_t i = 0; i < count; i++)
        w.reached[wrt[i]->id] = true;
    for (size_t i = 0; i < seed_count; i++) {
        w.needed[seeds[i].value->id] = true;
        XCVM_TRY(add_up(&w, seeds[i].value, seeds[i].gradient, NULL));
    }
    XCVM_TRY(find_outsides(&w, w.first));
    XCVM_TRY(find_reached(&w, w.first));
    XCVM_TRY(find_needed(&w, g->last, behind));
    find_problems(&w, w.first);
    if (w.problems > 0)
        return tell_problems(&w);
    XCVM_TRY(walk_back(&w, g));
    for (size_t i = 0; i < count; i++)
        gradients[i] = w.gradients[wrt[i]->id];
    return XCVM_OK;
}

/* ---- The pass ---- */

/* The output that is differentiated: the one that is asked for, or the only one that can be. */
static xcvm_status find_loss(xcc_module *m, xcc_value **loss)
{
    const xcc_graph *g = m->graph;
    const char *wanted = m->options->loss;
    size_t found = 0;
    *loss = NULL;
    for (size_t i = 0; i < g->output_count; i++) {
        xcc_value *v = g->outputs[i];
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

/* Whether a parameter is nothing but running statistics, which are measured, not learned. */
static bool is_statistic(const xcc_value *v)
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
    for (size_t i = 0; i < o->wrt_count; i++) {
        xcc_value *v = find_named(m, o->wrt[i]);
        XCVM_CHECK(
            m->error, v != NULL, INVALID_ARGUMENT,
            "there is no parameter or input '%.200s' to differentiate by: it is not in the model, is no float, or "
            "decides a shape",
            o->wrt[i]);
        XCVM_CHECK(m->error, xcc_is_differentiable(v), INVALID_ARGUMENT,
                   "input '%.200s' is no tensor of a float type, so it has no gradient", o->wrt[i]);
        for (size_t k = 0; k < *count; k++)
            XCVM_CHECK(m->error, wrt[k] != v, INVALID_ARGUMENT, "'%.200s' is named twice", o->wrt[i]);
        wrt[(*count)++] = v;
    }
    return XCVM_OK;
}

static xcvm_status list_wrt(xcc_module *m, xcc_value ***wrt, size_t *count)
{
    size_t capacity = m->options->wrt_count;
    for (const xcc_value *v = m->variables; v != NULL; v = v->next_owned)
        capacity++;
    *count = 0;
    if ((*wrt = xcc_alloc(m, capacity * sizeof **wrt)) == NULL)
        return XCVM_OUT_OF_MEMORY;
    if (m->options->wrt_count > 0)
        return list_named(m, *wrt, count);
    for (xcc_value *v = m->variables; v != NULL; v = v->next_owned)
        if (v->kind == XCC_PARAMETER && v->graph == m->graph && !is_statistic(v))
            (*wrt)[(*count)++] = v;
    XCVM_CHECK(m->error, *count > 0, INVALID_ARGUMENT,
               "the model has no parameters, which are initializers of a float type; name inputs to differentiate by");
    return XCVM_OK;
}

/* A result named grad_out@<name>, which must not be among the outputs' names. */
static xcc_value *name_gradient(xcc_builder *b, const xcc_table *outputs, const xcc_value *of, xcc_value *gradient)
{
    static const char prefix[] = "grad_out@";
    xcc_module *m = b->graph->module;
    const size_t length = sizeof prefix + strlen(of->name);
    char *name = xcc_alloc(m, length);
    xcc_value *named = xcc_value_create(b->graph, NULL);
    if (name == NULL || named == NULL)
        return NULL;
    snprintf(name, length, "%s%s", prefix, of->name);
    if (xcc_table_lookup(outputs, name) != NULL) {
        xcvm_error_set(m->error, XCVM_INVALID_MODEL, "the model has an output '%.200s' already", name);
        return NULL;
    }
    named->name = name;
    return xcc_emit(b, Identity, .y = XCC_OUT(named), .x = XCC_IN(gradient)) != NULL ? named : NULL;
}

/* The gradients become outputs behind the model's own. One that is zero by structure is left out unless it was asked
 * for by name. */
static xcvm_status add_outputs(xcc_builder *b, xcc_value *const *wrt, xcc_value *const *gradients, size_t count)
{
    xcc_graph *g = b->graph;
    xcc_module *m = g->module;
    xcc_value **outputs = xcc_alloc(m, (g->output_count + count) * sizeof *outputs);
    if (outputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    const size_t own = g->output_count;
    size_t total = own;
    xcc_table names = {.count = 0};
    memcpy(outputs, g->outputs, own * sizeof *outputs);
    for (size_t i = 0; i < own; i++)
        XCVM_TRY(xcc_table_put(m, &names, g->output_names[i], (int64_t)i));
    for (size_t i = 0; i < count; i++) {
        xcc_value *gradient = gradients[i];
        if (gradient == NULL && m->options->wrt_count == 0)
            continue;
        if (gradient == NULL)
            gradient = xcc_build_expand(b, xcc_build_number(b, wrt[i], 0), xcc_build_shape_of(b, wrt[i]));
        outputs[total] = gradient != NULL ? name_gradient(b, &names, wrt[i], gradient) : NULL;
        if (outputs[total++] == NULL)
            return m->error->status;
    }
    XCVM_CHECK(m->error, total > own, INVALID_ARGUMENT, "the loss depends on none of the model's parameters");
    return xcc_graph_set_outputs(g, total, outputs);
}

xcvm_status xcc_pass_differentiate(xcc_module *m)
{
    xcc_value *loss, **wrt, **gradients;
    size_t count;
    if (!m->options->backprop)
        return XCVM_OK;
    XCVM_TRY(find_loss(m, &loss));
    XCVM_TRY(list_wrt(m, &wrt, &count));
    xcc_builder b = {.graph = m->graph, .name = "grad_out", .origin = "Gradient"};
    if ((gradients = xcc_alloc(m, count * sizeof *gradients)) == NULL)
        return XCVM_OUT_OF_MEMORY;
    const xcc_seed seed = {loss, xcc_build_expand(&b, xcc_build_number(&b, loss, 1), xcc_build_shape_of(&b, loss))};
    if (seed.gradient == NULL)
        return m->error->status;
    XCVM_TRY(xcc_differentiate(&b, m->graph, NULL, &seed, 1, wrt, count, gradients));
    XCVM_TRY(add_outputs(&b, wrt, gradients, count));
    /* Nothing is learned by a program that gives gradients alone, so what follows may compute with the values. */
    xcc_parameters_freeze(m);
    return XCVM_OK;
}

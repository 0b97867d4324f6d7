/* The walk back from the loss, and the pass that does it for a whole model. */
#include "compiler/gradients/control_flow.h"
#include "compiler/gradients/rule.h"
#include "compiler/passes/passes.h"
#include "ops/quantize/quantize_shape.h"

#include <stdio.h>
#include <string.h>

/* ---- The walk ---- */

typedef struct walk {
    xcc_module *m;
    xcc_outside *outsides; /* of nodes with bodies, at their marks */
    uint32_t *stamps, controls;
    xcc_builder *b;
    xcc_node *behind, *first; /* the nodes that are walked through are those from first on, behind `behind` */
    /* By value id, for the values that there were when the walk began, from `base` on. */
    uint32_t base, values;
    bool straight_through;
    bool *reached;         /* depends on what is differentiated by */
    bool *needed;          /* and the loss depends on it */
    xcc_value **gradients; /* as far as they are added up */
    xcc_value **masks;     /* of those */
    char message[480];     /* of problems, a line each */
    size_t shown, problems;
    const xcc_node *first_problem;
} walk;

/* Whether the walk has entries for a value: none was there before what is walked through but the rest of the graph. */
static bool has_entries(const walk *w, const xcc_value *v) { return v->id >= w->base && v->id < w->values; }

static size_t entry(const walk *w, const xcc_value *v) { return v->id - w->base; }

/* What quantised numbers may be, and their sums. */
static bool is_quantised(const xcc_value *v)
{
    return v != NULL && v->type.kind == XCVM_KIND_TENSOR &&
           xcvm_dtype_in((xcvm_dtype)v->type.dtype, XCVM_TYPES_QUANTIZED | XCVM_TYPES_I32);
}

/* What a gradient may have to go through, though it may be of no use there. */
static bool carries(const walk *w, const xcc_value *v)
{
    if (v == NULL || (w->straight_through && is_quantised(v)))
        return v != NULL;
    return v->type.dtype == XCVM_NO_DTYPE ? v->type.kind != XCVM_KIND_TENSOR
                                          : xcvm_dtype_is_float((xcvm_dtype)v->type.dtype);
}

static bool is_flagged(const walk *w, const bool *flags, const xcc_value *v)
{
    return carries(w, v) && has_entries(w, v) && flags[entry(w, v)];
}

static bool is_zero(const walk *w, const xcc_node *n)
{
    if (n->kind != XCC_INSTRUCTION)
        return false;
    /* To integers, Cast cuts off without a scale, which is no quantisation. */
    if (n->schema->opcode == XCVM_OP_Cast && !xcc_is_differentiable(xcc_node_output(n, 0)))
        return true;
    return n->schema->gradient.zero || (n->schema->gradient.step != NULL && !w->straight_through);
}

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

static void flag(const walk *w, bool *flags, xcc_value *const *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (carries(w, values[i]) && has_entries(w, values[i]))
            flags[entry(w, values[i])] = true;
}

/* Which values depend on what is differentiated by. In bodies these are found for the sake of what has no rule there:
 * any state of a loop may. */
static xcvm_status find_reached(walk *w, const xcc_node *first)
{
    for (const xcc_node *n = first; n != NULL; n = n->next) {
        XCVM_TRY(xcc_poll(w->m));
        if (is_zero(w, n) || !depends(w, n))
            continue;
        for (size_t i = 0; i < n->body_count; i++) {
            flag(w, w->reached, n->bodies[i]->inputs, n->bodies[i]->input_count);
            XCVM_TRY(find_reached(w, n->bodies[i]->first));
        }
        for (size_t i = 0; i < xcc_node_output_count(n); i++)
            if (carries(w, xcc_node_output(n, i)))
                w->reached[entry(w, xcc_node_output(n, i))] = true;
    }
    return XCVM_OK;
}

/* Which of those the loss depends on. */
static xcvm_status find_needed(walk *w, const xcc_node *last, const xcc_node *behind)
{
    for (const xcc_node *n = last; n != behind; n = n->previous) {
        XCVM_TRY(xcc_poll(w->m));
        if (is_zero(w, n) || !depends(w, n) || !is_needed(w, n))
            continue;
        const xcc_outside *outside = outside_of(w, n);
        for (size_t i = 0; i < xcc_node_input_count(n); i++)
            if (takes(w, n, i))
                w->needed[entry(w, xcc_node_input(n, i))] = true;
        for (size_t i = 0; i < outside->count; i++)
            if (is_flagged(w, w->reached, outside->values[i]))
                w->needed[entry(w, outside->values[i])] = true;
        for (size_t i = 0; i < n->body_count; i++) {
            flag(w, w->needed, n->bodies[i]->outputs, n->bodies[i]->output_count);
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
    if (w->m->report_problem != NULL) {
        char line[480];
        const int written =
            snprintf(line, sizeof line, "node '%.100s' (%.60s): %s %s\n", n->name, n->origin, kind_of(n), why);
        if (written > 0)
            (void)w->m->report_problem(w->m->problem_user, line,
                                       (size_t)written < sizeof line ? (size_t)written : sizeof line - 1);
    }
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

/* Whether a gradient of quantised numbers would have to come out of the node. */
static bool takes_quantised(const walk *w, const xcc_node *n)
{
    const xcc_outside *outside = outside_of(w, n);
    for (size_t i = 0; i < xcc_node_input_count(n); i++)
        if (takes(w, n, i) && is_quantised(xcc_node_input(n, i)))
            return true;
    for (size_t i = 0; i < outside->count; i++)
        if (is_flagged(w, w->reached, outside->values[i]) && is_quantised(outside->values[i]))
            return true;
    return false;
}

/* Whether the node's rule makes gradients that have not their operands' types. */
static bool passes_quantised(const xcc_node *n)
{
    static const xcvm_opcode known[] = {XCVM_OP_DequantizeLinear, XCVM_OP_Cast,     XCVM_OP_Identity,
                                        XCVM_OP_Reshape,          XCVM_OP_Flatten,  XCVM_OP_Squeeze,
                                        XCVM_OP_Unsqueeze,        XCVM_OP_Transpose};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (xcc_is(n, known[i]))
            return true;
    return false;
}

/* Every node on the path must have a rule. */
static void find_problems(walk *w, const xcc_node *first)
{
    for (const xcc_node *n = first; n != NULL; n = n->next) {
        if (is_zero(w, n) || !depends(w, n) || !is_needed(w, n))
            continue;
        for (size_t i = 0; i < n->body_count; i++)
            find_problems(w, n->bodies[i]->first);
        if (n->kind == XCC_INSTRUCTION && xcc_gradient_rule_of(n->schema->opcode) == NULL)
            note_problem(w, n, "cannot be differentiated");
        else if (takes_quantised(w, n) && !passes_quantised(n))
            note_problem(w, n,
                         "takes quantised numbers, whose straight-through gradients come from DequantizeLinear, Cast "
                         "and what moves all of them alone");
    }
}

/* ---- One node ---- */

/* A gradient has the shape of the value that it is of, which inference need not find out. */
static void learn_shape(xcc_value *gradient, const xcc_value *v)
{
    const int rank = v->type.rank;
    int64_t dims[XCVM_MAX_RANK];
    if (gradient->kind != XCC_RESULT || gradient->type.kind != XCVM_KIND_TENSOR || v->type.kind != XCVM_KIND_TENSOR ||
        rank < 0 || (gradient->type.rank >= 0 && gradient->type.rank != rank))
        return;
    for (int i = 0; i < rank; i++) {
        const bool known = gradient->type.rank >= 0 && (gradient->type.dims[i] >= 0 || v->type.dims[i] == XCVM_ANY_DIM);
        dims[i] = known ? gradient->type.dims[i] : v->type.dims[i];
    }
    xcvm_value_set_tensor(&gradient->type, (xcvm_dtype)gradient->type.dtype, rank, dims);
}

static xcvm_status add_up(walk *w, xcc_value *v, xcc_value *gradient, xcc_value *mask)
{
    xcc_value **sum = &w->gradients[entry(w, v)], **both = &w->masks[entry(w, v)];
    XCVM_CHECK(w->m->error,
               gradient->type.dtype == v->type.dtype || v->type.kind != XCVM_KIND_TENSOR ||
                   (w->straight_through && is_quantised(v)),
               INTERNAL, "the gradient of %s is %s, not %s", v->name, xcvm_dtype_name((xcvm_dtype)gradient->type.dtype),
               xcvm_dtype_name((xcvm_dtype)v->type.dtype));
    learn_shape(gradient, v);
    if (*sum == NULL) {
        *sum = gradient;
        *both = mask;
        return XCVM_OK;
    }
    if (is_quantised(v))
        gradient = xcc_build_cast(w->b, gradient, (xcvm_dtype)(*sum)->type.dtype);
    *sum = xcc_accumulate(w->b, *sum, gradient);
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
        if (v == NULL || !has_entries(w, v))
            continue;
        all[i] = w->gradients[entry(w, v)];
        all[outs + i] = w->masks[entry(w, v)];
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
                 .straight_through = w->straight_through,
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
        XCVM_CHECK(w->m->error, w->m->value_limit == 0 || w->m->value_count <= w->m->value_limit, UNSUPPORTED,
                   "the gradients of the model take too many nodes");
        if (!is_zero(w, n) && depends(w, n) && is_needed(w, n))
            XCVM_TRY(differentiate_node(w, n));
    }
    return w->problems > 0 ? tell_problems(w) : XCVM_OK;
}

/* The least id of the values that nodes from `first` on make, or *least if that is less. */
static void find_least(const xcc_node *first, uint32_t *least)
{
    for (const xcc_node *n = first; n != NULL; n = n->next) {
        for (size_t i = 0; i < xcc_node_output_count(n); i++) {
            const xcc_value *v = xcc_node_output(n, i);
            *least = v != NULL && v->id < *least ? v->id : *least;
        }
        for (size_t i = 0; i < n->body_count; i++) {
            for (size_t k = 0; k < n->bodies[i]->input_count; k++)
                *least = n->bodies[i]->inputs[k]->id < *least ? n->bodies[i]->inputs[k]->id : *least;
            find_least(n->bodies[i]->first, least);
        }
    }
}

static xcvm_status run_walk(walk *w, xcc_graph *g, const xcc_seed *seeds, size_t seed_count, xcc_value *const *wrt,
                            size_t count, xcc_value **gradients)
{
    for (size_t i = 0; i < count; i++)
        w->reached[entry(w, wrt[i])] = true;
    for (size_t i = 0; i < seed_count; i++) {
        if (!has_entries(w, seeds[i].value)) /* it depends on nothing here */
            continue;
        w->needed[entry(w, seeds[i].value)] = true;
        XCVM_TRY(add_up(w, seeds[i].value, seeds[i].gradient, NULL));
    }
    XCVM_TRY(find_outsides(w, w->first));
    XCVM_TRY(find_reached(w, w->first));
    XCVM_TRY(find_needed(w, g->last, w->behind));
    find_problems(w, w->first);
    if (w->problems > 0)
        return tell_problems(w);
    XCVM_TRY(walk_back(w, g));
    for (size_t i = 0; i < count; i++)
        gradients[i] = w->gradients[entry(w, wrt[i])];
    return XCVM_OK;
}

/* The walk's tables are given back at its end, as there are walks within walks, of formulas, and one for each Gradient.
 */
xcvm_status xcc_differentiate(xcc_builder *b, xcc_graph *g, xcc_node *behind, const xcc_seed *seeds, size_t seed_count,
                              xcc_value *const *wrt, size_t count, bool straight_through, xcc_value **gradients)
{
    xcc_module *m = g->module;
    if (m->recorder != NULL)
        return m->recorder->differentiate(m->recorder, seeds, seed_count, wrt, count, gradients);
    walk w = {.m = m, .b = b, .behind = behind, .values = m->value_count, .straight_through = straight_through};
    w.first = behind != NULL ? behind->next : g->first;
    if (behind != NULL) {
        w.base = w.values;
        find_least(w.first, &w.base);
        for (size_t i = 0; i < count; i++)
            w.base = wrt[i]->id < w.base ? wrt[i]->id : w.base;
    }
    const size_t entries = w.values - w.base, controls = count_controls(w.first);
    const size_t flags = 2 * entries * sizeof *w.reached, sums = 2 * entries * sizeof *w.gradients,
                 stamps = controls > 0 ? w.values * sizeof *w.stamps : 0;
    w.outsides = xcc_alloc(m, controls * sizeof *w.outsides);
    w.reached = xcvm_allocate_zeroed(m->allocator, flags);
    w.gradients = xcvm_allocate_zeroed(m->allocator, sums);
    w.stamps = xcvm_allocate_zeroed(m->allocator, stamps);
    const bool made = w.outsides != NULL && w.reached != NULL && w.gradients != NULL && w.stamps != NULL;
    w.needed = made ? w.reached + entries : NULL;
    w.masks = made ? w.gradients + entries : NULL;
    const xcvm_status status = made ? run_walk(&w, g, seeds, seed_count, wrt, count, gradients) : xcc_out_of_memory(m);
    xcvm_deallocate(m->allocator, w.reached, flags);
    xcvm_deallocate(m->allocator, w.gradients, sums);
    xcvm_deallocate(m->allocator, w.stamps, stamps);
    return status;
}

/* ---- The pass ---- */

xcvm_status xcc_find_loss(xcc_module *m, xcc_value **loss)
{
    const xcc_graph *g = m->graph;
    const char *wanted = m->options->loss;
    size_t found = 0;
    *loss = NULL;
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
        if (v->kind == XCC_PARAMETER && v->graph == m->graph && !xcc_is_statistic(v))
            (*wrt)[(*count)++] = v;
    XCVM_CHECK(m->error, *count > 0, INVALID_ARGUMENT,
               "the model has no parameters, which are initializers of a float type; name inputs to differentiate by");
    return XCVM_OK;
}

/* "<prefix><name>", which must not be among `taken`. */
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

/* The names of the graph's inputs and outputs. */
static xcvm_status list_names(const xcc_graph *g, xcc_table *names)
{
    *names = (xcc_table){.count = 0};
    for (size_t i = 0; i < g->input_count; i++)
        XCVM_TRY(xcc_table_put(g->module, names, g->inputs[i]->name, (int64_t)i));
    for (size_t i = 0; i < g->output_count; i++)
        XCVM_TRY(xcc_table_put(g->module, names, g->output_names[i], (int64_t)i));
    return XCVM_OK;
}

/* The derivatives become outputs behind those that there are. One that is zero by structure is left out unless it was
 * asked for by name. */
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
        if (gradient == NULL && m->options->wrt_count == 0)
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

/* A further input of the type of `like`, called by its name behind the prefix. */
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

/* What is differentiated: the loss, whose gradient is 1; of two programs, outputs whose gradients are inputs. */
static xcvm_status find_seeds(xcc_builder *b, xcc_seed *seeds, size_t *count)
{
    xcc_graph *g = b->graph;
    xcc_module *m = g->module;
    xcc_value *loss;
    *count = 0;
    if (m->options->phase == XCC_PHASE_WHOLE) {
        XCVM_TRY(xcc_find_loss(m, &loss));
        seeds[0] = (xcc_seed){loss, xcc_full_like(b, loss, 1)};
        *count = 1;
        return seeds[0].gradient != NULL ? XCVM_OK : m->error->status;
    }
    for (size_t i = 0; i < g->output_count; i++) {
        xcc_value *v = g->outputs[i];
        if (!xcc_is_differentiable(v) ||
            (m->options->loss != NULL && strcmp(m->options->loss, g->output_names[i]) != 0))
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

/* Inputs from `first` on that nothing reads are none. */
static xcvm_status drop_inputs(xcc_graph *g, size_t first)
{
    size_t kept = first;
    for (size_t i = first; i < g->input_count; i++)
        if (g->inputs[i]->uses > 0)
            g->inputs[kept++] = g->inputs[i];
    return xcc_graph_set_inputs(g, kept, g->inputs);
}

/* The products of the second derivatives with vectors: the gradients of the gradients, with the vectors as theirs. */
static xcvm_status add_second(xcc_builder *b, xcc_value *const *wrt, xcc_value *const *gradients, size_t count)
{
    xcc_module *m = b->graph->module;
    xcc_seed *seeds = xcc_alloc(m, count * sizeof *seeds);
    xcc_value **second = xcc_alloc(m, count * sizeof *second);
    size_t seed_count = 0;
    if (seeds == NULL || second == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        if (gradients[i] == NULL && m->options->wrt_count == 0)
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
    const size_t outputs = m->forward_outputs = g->output_count;
    m->forward_inputs = g->input_count;
    xcc_builder b = {.graph = g, .name = "grad_out", .origin = "Gradient"};
    xcc_seed *seeds = xcc_alloc(m, (outputs + 1) * sizeof *seeds);
    if (seeds == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(find_seeds(&b, seeds, &seed_count));
    XCVM_TRY(list_wrt(m, &wrt, &count));
    if ((gradients = xcc_alloc(m, count * sizeof *gradients)) == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(xcc_differentiate(&b, g, NULL, seeds, seed_count, wrt, count, o->straight_through, gradients));
    XCVM_TRY(add_outputs(&b, "grad_out@", wrt, gradients, count));
    for (size_t i = 0; i < count; i++) {
        m->gradient_count += gradients[i] != NULL;
        m->gradient_bytes += gradients[i] != NULL ? wrt[i]->type.bytes : 0;
    }
    XCVM_CHECK(m->error, g->output_count > outputs, INVALID_ARGUMENT,
               "the loss depends on none of the model's parameters");
    XCVM_TRY(drop_inputs(g, m->forward_inputs));
    if (o->order == 2)
        XCVM_TRY(add_second(&b, wrt, gradients, count));
    /* Nothing is learned by a program that gives gradients alone, so what follows may compute with the values. */
    xcc_parameters_freeze(m);
    return XCVM_OK;
}

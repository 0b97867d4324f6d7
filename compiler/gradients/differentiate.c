/* Reverse-mode differentiation: builds the backward graph of a loss. */
#include "compiler/gradients/control_flow.h"
#include "compiler/gradients/rule.h"
#include "compiler/ir/compilation.h"
#include "ops/quantize/quantize_shape.h"

#include <stdio.h>
#include <string.h>

/* ---- The traversal ---- */

typedef struct backward_pass {
    xcc_module *m;
    xcc_outside *outsides; /* for nodes with bodies, by mark */
    uint32_t *stamps, controls;
    xcc_builder *b;
    xcc_node *behind, *first; /* the differentiated nodes are those from `first`, after `behind` */
    /* By value id, for values that existed at the start, from `base`. */
    uint32_t base, values;
    bool straight_through;
    bool *reached;         /* depends on a variable of differentiation */
    bool *needed;          /* and the loss depends on it */
    xcc_value **gradients; /* accumulated so far */
    xcc_value **masks;     /* of those */
    char message[480];     /* problems, one per line */
    size_t shown, problems;
    const xcc_node *first_problem;
} backward_pass;

/* True if the value belongs to the differentiated region, so that it has an entry in the tables. */
static bool has_entries(const backward_pass *w, const xcc_value *v) { return v->id >= w->base && v->id < w->values; }

static size_t entry(const backward_pass *w, const xcc_value *v) { return v->id - w->base; }

/* Types of quantized numbers and their sums. */
static bool is_quantized(const xcc_value *v)
{
    return v != NULL && v->type.kind == XCVM_KIND_TENSOR &&
           xcvm_dtype_in((xcvm_dtype)v->type.dtype, XCVM_TYPES_QUANTIZED | XCVM_TYPES_I32);
}

/* Returns true if gradients may pass through the value, even if they are not useful there. */
static bool carries(const backward_pass *w, const xcc_value *v)
{
    if (v == NULL || (w->straight_through && is_quantized(v)))
        return v != NULL;
    return v->type.dtype == XCVM_NO_DTYPE ? v->type.kind != XCVM_KIND_TENSOR
                                          : xcvm_dtype_is_float((xcvm_dtype)v->type.dtype);
}

static bool is_flagged(const backward_pass *w, const bool *flags, const xcc_value *v)
{
    return carries(w, v) && has_entries(w, v) && flags[entry(w, v)];
}

static bool is_zero(const backward_pass *w, const xcc_node *n)
{
    if (n->kind != XCC_INSTRUCTION)
        return false;
    /* Cast to integers truncates without a scale, so it is not quantization. */
    if (n->schema->opcode == XCVM_OP_Cast && !xcc_is_differentiable(xcc_node_output(n, 0)))
        return true;
    return n->schema->gradient.zero || (n->schema->gradient.step != NULL && !w->straight_through);
}

/* Returns true if a gradient flows from the node to operand i. Shape operands have none. */
static bool takes(const backward_pass *w, const xcc_node *n, size_t i)
{
    const xcvm_field *field = xcc_node_input_field(n, i);
    return (field == NULL || field->role != XCVM_ROLE_IN_SHAPE) && is_flagged(w, w->reached, xcc_node_input(n, i));
}

/* Values that the bodies of a node read; empty for an instruction. */
static const xcc_outside *outside_of(const backward_pass *w, const xcc_node *n)
{
    static const xcc_outside none;
    return n->kind != XCC_INSTRUCTION ? &w->outsides[n->mark] : &none;
}

static bool depends(const backward_pass *w, const xcc_node *n)
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

static bool is_needed(const backward_pass *w, const xcc_node *n)
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

static xcvm_status find_outsides(backward_pass *w, xcc_node *first)
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

static void flag(const backward_pass *w, bool *flags, xcc_value *const *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (carries(w, values[i]) && has_entries(w, values[i]))
            flags[entry(w, values[i])] = true;
}

/* Marks values that depend on the variables. Bodies are included to report nodes without rules in them; any loop state
 * may depend. */
static xcvm_status find_reached(backward_pass *w, const xcc_node *first)
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

/* Marks those of them that the loss depends on. */
static xcvm_status find_needed(backward_pass *w, const xcc_node *last, const xcc_node *behind)
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

/* Reports all problems; the message has as many as fit. */
static void add_problem(backward_pass *w, const xcc_node *n, const char *why)
{
    if (w->m->compilation->report_problem.call != NULL) {
        char line[480];
        const int written =
            snprintf(line, sizeof line, "node '%.100s' (%.60s): %s %s\n", n->name, n->origin, kind_of(n), why);
        if (written > 0)
            (void)w->m->compilation->report_problem.call(w->m->compilation->report_problem.user, line,
                                                         (size_t)written < sizeof line ? (size_t)written
                                                                                       : sizeof line - 1);
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

static xcvm_status report_problems(const backward_pass *w)
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

/* Returns true if the node would need gradients of quantized operands. */
static bool takes_quantized(const backward_pass *w, const xcc_node *n)
{
    const xcc_outside *outside = outside_of(w, n);
    for (size_t i = 0; i < xcc_node_input_count(n); i++)
        if (takes(w, n, i) && is_quantized(xcc_node_input(n, i)))
            return true;
    for (size_t i = 0; i < outside->count; i++)
        if (is_flagged(w, w->reached, outside->values[i]) && is_quantized(outside->values[i]))
            return true;
    return false;
}

/* Returns true if the node's rule supports gradients whose types differ from the operands'. */
static bool passes_quantized(const xcc_node *n)
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
static void find_problems(backward_pass *w, const xcc_node *first)
{
    for (const xcc_node *n = first; n != NULL; n = n->next) {
        if (is_zero(w, n) || !depends(w, n) || !is_needed(w, n))
            continue;
        for (size_t i = 0; i < n->body_count; i++)
            find_problems(w, n->bodies[i]->first);
        if (n->kind == XCC_INSTRUCTION && xcc_gradient_rule_of(n->schema->opcode) == NULL)
            add_problem(w, n, "cannot be differentiated");
        else if (takes_quantized(w, n) && !passes_quantized(n))
            add_problem(w, n,
                        "reads quantized numbers; straight-through gradients support only DequantizeLinear, Cast and "
                        "operators that move elements");
    }
}

/* ---- One node ---- */

/* A gradient has the shape of its value, which inference need not find. */
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

static xcvm_status add_up(backward_pass *w, xcc_value *v, xcc_value *gradient, xcc_value *mask)
{
    xcc_value **sum = &w->gradients[entry(w, v)], **both = &w->masks[entry(w, v)];
    XCVM_CHECK(w->m->error,
               gradient->type.dtype == v->type.dtype || v->type.kind != XCVM_KIND_TENSOR ||
                   (w->straight_through && is_quantized(v)),
               INTERNAL, "the gradient of %s is %s, not %s", v->name, xcvm_dtype_name((xcvm_dtype)gradient->type.dtype),
               xcvm_dtype_name((xcvm_dtype)v->type.dtype));
    learn_shape(gradient, v);
    if (*sum == NULL) {
        *sum = gradient;
        *both = mask;
        return XCVM_OK;
    }
    if (is_quantized(v))
        gradient = xcc_build_cast(w->b, gradient, (xcvm_dtype)(*sum)->type.dtype);
    *sum = xcc_accumulate(w->b, *sum, gradient);
    if (*sum == NULL)
        return w->m->error->status;
    *both = *both != NULL && mask != NULL ? xcc_build_binary(w->b, XCVM_OP_Or, *both, mask) : NULL;
    return XCVM_OK;
}

/* Name of nodes built for a node. */
static const char *backward_name(xcc_module *m, const xcc_node *n)
{
    static const char prefix[] = "grad@";
    const size_t length = sizeof prefix + strlen(n->name);
    char *name = xcc_alloc(m, length);
    if (name != NULL)
        snprintf(name, length, "%s%s", prefix, n->name);
    return name;
}

static xcvm_status differentiate_node(backward_pass *w, xcc_node *n)
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
        add_problem(w, n, d.refused);
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

static xcvm_status build_backward(backward_pass *w, xcc_graph *g)
{
    xcc_node *previous;
    for (xcc_node *n = g->last; n != w->behind; n = previous) {
        previous = n->previous;
        XCVM_TRY(xcc_poll(w->m));
        XCVM_CHECK(w->m->error,
                   w->m->compilation->value_limit == 0 || w->m->value_count <= w->m->compilation->value_limit,
                   UNSUPPORTED, "the gradients of the model need too many nodes");
        if (!is_zero(w, n) && depends(w, n) && is_needed(w, n))
            XCVM_TRY(differentiate_node(w, n));
    }
    return w->problems > 0 ? report_problems(w) : XCVM_OK;
}

/* The smallest id of values produced by nodes from `first`, or *least if that is smaller. */
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

static xcvm_status run_backward_pass(backward_pass *w, xcc_graph *g, const xcc_seed *seeds, size_t seed_count,
                                     xcc_value *const *wrt, size_t count, xcc_value **gradients)
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
        return report_problems(w);
    XCVM_TRY(build_backward(w, g));
    for (size_t i = 0; i < count; i++)
        gradients[i] = w->gradients[entry(w, wrt[i])];
    return XCVM_OK;
}

/* The tables are released at the end, because traversals are nested for formulas, and there is one for each Gradient.
 */
xcvm_status xcc_differentiate(xcc_builder *b, xcc_graph *g, xcc_node *behind, const xcc_seed *seeds, size_t seed_count,
                              xcc_value *const *wrt, size_t count, bool straight_through, xcc_value **gradients)
{
    xcc_module *m = g->module;
    if (m->recorder != NULL)
        return m->recorder->differentiate(m->recorder, seeds, seed_count, wrt, count, gradients);
    backward_pass w = {
        .m = m, .b = b, .behind = behind, .values = m->value_count, .straight_through = straight_through};
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
    const xcvm_status status =
        made ? run_backward_pass(&w, g, seeds, seed_count, wrt, count, gradients) : xcc_out_of_memory(m);
    xcvm_deallocate(m->allocator, w.reached, flags);
    xcvm_deallocate(m->allocator, w.gradients, sums);
    xcvm_deallocate(m->allocator, w.stamps, stamps);
    return status;
}

/* Simplification of control flow with conditions known at compile time. */
#include "compiler/passes/rewrite.h"

/* The branch that is always taken replaces the node. */
static bool decided_if(xcc_rewrite *r, xcc_node *n)
{
    double cond;
    if (!xcc_number(n->inputs[0], &cond))
        return false;
    xcc_graph *branch = n->bodies[cond != 0 ? 0 : 1];
    for (size_t i = 0; i < n->output_count; i++)
        if (n->outputs[i] != NULL)
            xcc_replace_uses(n->graph, n->outputs[i], branch->outputs[i]);
    xcc_graph_inline(branch, n);
    xcc_node_remove(n);
    r->m->changes++;
    return true;
}

/* An empty scan result. */
static xcc_value *no_rows(const xcc_node *n, const xcc_value *each)
{
    int64_t dims[XCVM_MAX_RANK] = {0};
    int rank = each->type.rank;
    if (each->type.kind != XCVM_KIND_TENSOR || rank < 0 || rank >= XCVM_MAX_RANK)
        return NULL;
    for (int i = 0; i < rank; i++)
        dims[i + 1] = each->type.dims[i] < 0 ? 0 : each->type.dims[i];
    return xcc_constant(n->graph, NULL, (xcvm_dtype)each->type.dtype, rank + 1, dims, "", false);
}

static bool never_run(xcc_rewrite *r, xcc_node *n)
{
    size_t states = n->input_count - 2;
    for (size_t i = states; i < n->output_count; i++) {
        const xcvm_value *each = &n->bodies[0]->outputs[i + 1]->type;
        if (each->kind != XCVM_KIND_TENSOR || each->rank < 0 || each->rank >= XCVM_MAX_RANK)
            return false;
    }
    for (size_t i = 0; i < n->output_count; i++) {
        xcc_value *v = i < states ? n->inputs[i + 2] : no_rows(n, n->bodies[0]->outputs[i + 1]);
        if (v == NULL)
            return xcc_rewrite_replace(r, NULL, NULL);
        if (n->outputs[i] != NULL)
            xcc_replace_uses(n->graph, n->outputs[i], v);
    }
    xcc_node_remove(n);
    r->m->changes++;
    return true;
}

/* The body replaces the node, with the loop's initial values as its parameters. */
static bool run_once(xcc_rewrite *r, xcc_node *n)
{
    xcc_graph *body = n->bodies[0];
    size_t states = n->input_count - 2;
    xcc_value *iteration = xcc_scalar_i64(n->graph, 0), *cond = xcc_scalar(n->graph, XCVM_BOOL, 1);
    int64_t axis = 0;
    xcc_value *axes = xcc_constant_i64(n->graph, 1, &axis);
    if (iteration == NULL || cond == NULL || axes == NULL)
        return xcc_rewrite_replace(r, NULL, NULL);
    for (size_t i = 0; i < body->input_count; i++)
        xcc_replace_uses(body, body->inputs[i], i == 0 ? iteration : i == 1 ? cond : n->inputs[i]);
    xcc_value **outputs = body->outputs;
    xcc_graph_inline(body, n);
    for (size_t i = 0; i < n->output_count; i++) {
        xcc_value *v = outputs[i + 1];
        if (n->outputs[i] == NULL)
            continue;
        if (i >= states) {
            xcc_builder b = xcc_builder_before(n);
            v = xcc_apply(&b, Unsqueeze, y, .x = XCC_IN(v), .axes = XCC_IN(axes));
        }
        if (v == NULL)
            return xcc_rewrite_replace(r, NULL, NULL);
        xcc_replace_uses(n->graph, n->outputs[i], v);
    }
    xcc_node_remove(n);
    r->m->changes++;
    return true;
}

bool xcc_rule_control(xcc_rewrite *r, xcc_node *n)
{
    int64_t trips;
    if (n->kind == XCC_IF)
        return decided_if(r, n);
    if (!xcc_loop_trips(n, &trips))
        return false;
    return trips == 0 ? never_run(r, n) : trips == 1 && run_once(r, n);
}

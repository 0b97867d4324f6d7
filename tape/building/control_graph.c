/* Branches and loops of building tapes: nodes with subgraphs. */
#include "compiler/ir/compose.h"
#include "tape/building/building.h"

#include <string.h>

/* Sets the outputs of a body. `first`: its condition, or NULL. */
static xcvm_status end_body(xcvm_tape *t, xcc_graph *body, size_t count, const xcvm_var *results, xcc_value *first)
{
    const size_t before = first != NULL ? 1 : 0;
    xcc_value **outputs = xcc_alloc(&t->module, (before + count) * sizeof *outputs);
    if (outputs == NULL)
        return tape_latch_failure(t, XCVM_OUT_OF_MEMORY);
    if (before > 0)
        outputs[0] = first;
    for (size_t i = 0; i < count && !t->failed; i++) {
        outputs[before + i] =
            tape_building_value(t, tape_resolve(t, results[i], "a result of a branch or a loop body"));
        /* A value from outside becomes a result through a node of the body. */
        if (outputs[before + i] != NULL && outputs[before + i]->graph != body)
            outputs[before + i] = xcc_build_unary(&t->building.builder, XCVM_OP_Identity, outputs[before + i]);
        if (outputs[before + i] == NULL)
            tape_latch_failure(t, t->error.status);
    }
    return t->failed ? t->error.status : tape_latch_failure(t, xcc_graph_set_outputs(body, before + count, outputs));
}

/* Appends the node and its results; NULL: a failure. */
static xcc_node *append_control_node(xcvm_tape *t, xcc_node_kind kind, size_t in_count, xcc_value *const *inputs,
                                     size_t out_count, xcc_value **outputs, size_t bodies)
{
    for (size_t i = 0; i < out_count; i++)
        if ((outputs[i] = xcc_value_create(t->building.builder.graph, NULL)) == NULL)
            return NULL;
    return xcc_append_control(&t->building.builder, kind, in_count, inputs, out_count, outputs, bodies);
}

/* Returns the results when the bodies are complete. */
static xcvm_status return_results(xcvm_tape *t, xcc_node *n, xcc_value *const *outputs, size_t count, xcvm_var *results)
{
    XCVM_TRY(tape_latch_failure(t, xcc_node_infer(n)));
    for (size_t i = 0; i < count; i++) {
        const tape_variable *v = tape_building_variable(t, outputs[i]);
        if (v == NULL)
            return t->error.status;
        results[i] = tape_handle(v);
    }
    return XCVM_OK;
}

void tape_building_branch(xcvm_tape *t, const tape_variable *condition, const xcvm_tape_branch *branches, size_t count,
                          xcvm_var *results)
{
    const xcc_builder around = t->building.builder;
    xcc_value *input = tape_building_value(t, condition), **outputs = xcc_alloc(&t->module, count * sizeof *outputs);
    xcc_node *n = t->failed || outputs == NULL ? NULL : append_control_node(t, XCC_IF, 1, &input, count, outputs, 2);
    if (n == NULL) {
        tape_latch_failure(t, t->error.status);
        return;
    }
    for (size_t i = 0; i < 2 && !t->failed; i++) {
        if (count > 0)
            memset(results, 0, count * sizeof *results);
        t->building.builder.graph = n->bodies[i];
        branches[i].call(branches[i].user, t, count, results);
        if (!t->failed)
            end_body(t, n->bodies[i], count, results, NULL);
    }
    t->building.builder = around;
    if (!t->failed)
        return_results(t, n, outputs, count, results);
    t->building.broken = t->building.broken || t->failed;
}

/* ---- Loops ---- */

/* `count` may be 0. */
static void copy_variables(xcvm_var *to, const xcvm_var *from, size_t count)
{
    if (count > 0)
        memcpy(to, from, count * sizeof *to);
}

/* Sets the parameters of the body: iteration, condition, states. */
static xcvm_status begin_round(const tape_loop *l, xcc_graph *body, xcc_value *const *inputs, tape_variable **iteration)
{
    xcvm_tape *t = l->tape;
    const size_t count = 2 + l->state_count;
    xcc_value **parameters = xcc_alloc(&t->module, count * sizeof *parameters);
    if (parameters == NULL)
        return tape_latch_failure(t, XCVM_OUT_OF_MEMORY);
    for (size_t i = 0; i < count; i++) {
        if ((parameters[i] = xcc_value_create(body, NULL)) == NULL)
            return tape_latch_failure(t, XCVM_OUT_OF_MEMORY);
        if (i < 2) {
            xcvm_value_set_tensor(&parameters[i]->type, i == 0 ? XCVM_I64 : XCVM_BOOL, 0, NULL);
        } else {
            parameters[i]->type = inputs[i]->type;
            parameters[i]->type.memory_kind = XCVM_MEMORY_NONE;
            parameters[i]->type.storage = NULL;
            parameters[i]->type.data = NULL;
        }
    }
    XCVM_TRY(tape_latch_failure(t, xcc_graph_set_inputs(body, count, parameters)));
    *iteration = tape_building_variable(t, parameters[0]);
    for (size_t i = 0; i < l->state_count && !t->failed; i++) {
        const tape_variable *state = tape_building_variable(t, parameters[2 + i]);
        l->states[i] = state != NULL ? tape_handle(state) : TAPE_FAILED;
    }
    return t->failed ? t->error.status : XCVM_OK;
}

static xcvm_status build_round(const tape_loop *l, xcc_node *n, xcc_value *const *inputs)
{
    xcvm_tape *t = l->tape;
    tape_variable *iteration = NULL;
    xcvm_var go_on = XCVM_ABSENT;
    t->building.builder.graph = n->bodies[0];
    XCVM_TRY(begin_round(l, n->bodies[0], inputs, &iteration));
    tape_loop_clear_scans(l);
    l->body.call(l->body.user, t, tape_handle(iteration), l->state_count, l->states, l->scan_count, l->scans, &go_on);
    const tape_variable *said = t->failed ? NULL : tape_resolve_scalar(t, go_on, XCVM_BOOL, "go_on");
    xcc_value *cond = t->failed ? NULL : said != NULL ? tape_building_value(t, said) : n->bodies[0]->inputs[1];
    if (cond == NULL)
        return tape_latch_failure(t, t->error.status);
    const size_t bytes = (l->state_count + l->scan_count) * sizeof(xcvm_var);
    xcvm_var *results = xcc_alloc(&t->module, bytes);
    if (results == NULL)
        return tape_latch_failure(t, XCVM_OUT_OF_MEMORY);
    copy_variables(results, l->states, l->state_count);
    copy_variables(results + l->state_count, l->scans, l->scan_count);
    XCVM_TRY(end_body(t, n->bodies[0], l->state_count + l->scan_count, results, cond));
    return tape_latch_failure(t, xcc_loop_infer_body(n));
}

void tape_building_loop(const tape_loop *l)
{
    xcvm_tape *t = l->tape;
    const xcc_builder around = t->building.builder;
    const size_t ins = 2 + l->state_count, outs = l->state_count + l->scan_count;
    xcc_value **inputs = xcc_alloc(&t->module, (ins + outs) * sizeof *inputs);
    xcvm_var *results = inputs != NULL ? xcc_alloc(&t->module, outs * sizeof *results) : NULL;
    if (results == NULL) {
        tape_latch_failure(t, XCVM_OUT_OF_MEMORY);
        return;
    }
    inputs[0] = tape_building_value(t, l->trips);
    inputs[1] = tape_building_value(t, l->cond);
    for (size_t i = 0; i < l->state_count && !t->failed; i++)
        inputs[2 + i] = tape_building_value(t, tape_resolve(t, l->states[i], "a state of the loop"));
    xcc_node *n = t->failed ? NULL : append_control_node(t, XCC_LOOP, ins, inputs, outs, inputs + ins, 1);
    if (n == NULL) {
        tape_latch_failure(t, t->error.status);
        return;
    }
    xcvm_status status = build_round(l, n, inputs);
    t->building.builder = around;
    if (status == XCVM_OK)
        status = return_results(t, n, inputs + ins, outs, results);
    t->building.broken = t->building.broken || status != XCVM_OK;
    if (status != XCVM_OK)
        return;
    copy_variables(l->states, results, l->state_count);
    copy_variables(l->scans, results + l->state_count, l->scan_count);
}

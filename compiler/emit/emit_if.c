/* Emission of If: two branches that set the same registers. */
#include "compiler/emit/emitter.h"

/* The branch writes directly to the registers of the node's results where possible. */
static void share_registers(xcc_emitter *e, const xcc_node *n, const xcc_graph *branch)
{
    for (size_t i = 0; i < n->output_count; i++) {
        const xcc_value *from = branch->outputs[i];
        if (n->outputs[i] == NULL || xcc_is_constant(from) || from->producer == NULL || from->graph != branch)
            continue;
        if (e->code.operands[from->id] == 0)
            e->code.operands[from->id] = xcc_code_register(&e->code, n->outputs[i]);
    }
}

static xcvm_status emit_branch(xcc_emitter *e, const xcc_node *n, xcc_graph *branch, xcc_value *const *last_use,
                               size_t count)
{
    share_registers(e, n, branch);
    XCVM_TRY(xcc_emit_graph(e, branch, last_use, count));
    for (size_t i = 0; i < n->output_count; i++) {
        const xcc_value *from = branch->outputs[i], *to = n->outputs[i];
        int32_t operand;
        if (to == NULL)
            continue;
        XCVM_TRY(xcc_code_operand(&e->code, from, &operand));
        if (operand == xcc_code_register(&e->code, to))
            e->last[from->id] = 0;
        else
            XCVM_TRY(xcc_emit_identity(e, n, operand, xcc_code_register(&e->code, to), to));
    }
    return xcc_emit_free_outputs(e, branch);
}

/* Values whose last use is this node. Each branch frees them as soon as it no longer needs them. */
static xcvm_status collect_last_uses(xcc_emitter *e, const xcc_node *n, xcc_value ***last_use, size_t *count)
{
    *count = 0;
    *last_use = xcc_alloc(e->code.m, (n->input_count + n->capture_count) * sizeof **last_use);
    if (*last_use == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < n->input_count + n->capture_count; i++) {
        xcc_value *v = i < n->input_count ? n->inputs[i] : n->captures[i - n->input_count];
        if (!xcc_emit_owned(e, n->graph, v) || e->last[v->id] != n->order + 1)
            continue;
        (*last_use)[(*count)++] = v;
        e->owner[v->id] = NULL;
    }
    return XCVM_OK;
}

xcvm_status xcc_emit_if(xcc_emitter *e, const xcc_node *n)
{
    xcc_value **last_use;
    size_t count;
    int32_t cond;
    XCVM_TRY(xcc_code_operand(&e->code, n->inputs[0], &cond));
    XCVM_TRY(collect_last_uses(e, n, &last_use, &count));
    size_t to_else = xcc_emit_position(e);
    XCVM_TRY(xcc_emit_jump(e, n, cond, 0));
    XCVM_TRY(emit_branch(e, n, n->bodies[0], last_use, count));
    size_t to_end = xcc_emit_position(e);
    XCVM_TRY(xcc_emit_jump(e, n, 0, 0));
    xcc_emit_land(e, to_else);
    XCVM_TRY(emit_branch(e, n, n->bodies[1], last_use, count));
    xcc_emit_land(e, to_end);
    for (size_t i = 0; i < count; i++)
        e->owner[last_use[i]->id] = NULL;
    return XCVM_OK;
}

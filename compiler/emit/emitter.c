/* Emission of single instructions, and of Frees after the last use of values. */
#include "compiler/emit/emitter.h"
#include "ops/table/table.h"

#include <string.h>

xcvm_status xcc_emit_named(xcc_emitter *e, xcvm_opcode opcode, const char *name, int32_t in, int32_t out,
                           const xcc_value *v)
{
    const xcvm_schema *schema = xcvm_schema_of(opcode);
    xcc_code_debug debug = {.values = &v};
    const bool reads = opcode == XCVM_OP_In || opcode == XCVM_OP_Load;
    const xcvm_text text = {name, strlen(name)};
    union {
        xcvm_In_args in;
        xcvm_Out_args out;
        xcvm_Load_args load;
        xcvm_Store_args store;
    } args = {.in = {.v = NULL}};
    switch (opcode) {
    case XCVM_OP_In:
        args.in.name = text;
        break;
    case XCVM_OP_Out:
        args.out.name = text;
        break;
    case XCVM_OP_Load:
        args.load.name = text;
        break;
    default: /* XCVM_OP_Store */
        args.store.name = text;
        break;
    }
    return xcc_code_append(&e->code, schema, &args, &in, !reads, &out, reads, &debug);
}

xcvm_status xcc_emit_free(xcc_emitter *e, int32_t operand)
{
    xcvm_Free_args args = {NULL};
    return xcc_code_append(&e->code, xcvm_schema_of(XCVM_OP_Free), &args, &operand, 1, NULL, 0, NULL);
}

xcvm_status xcc_emit_identity(xcc_emitter *e, const xcc_node *n, int32_t from, int32_t to, const xcc_value *v)
{
    xcvm_Identity_args args = {NULL, NULL};
    xcc_code_debug debug = {.node = n, .values = v != NULL ? &v : NULL};
    return xcc_code_append(&e->code, xcvm_schema_of(XCVM_OP_Identity), &args, &from, 1, &to, 1, &debug);
}

xcvm_status xcc_emit_jump(xcc_emitter *e, const xcc_node *n, int32_t cond, size_t to)
{
    xcvm_Jmp_args always = {(int64_t)to};
    xcvm_JmpFalse_args unless = {NULL, (int64_t)to};
    xcc_code_debug debug = {.node = n};
    const void *args = cond != 0 ? (const void *)&unless : (const void *)&always;
    return xcc_code_append(&e->code, xcvm_schema_of(cond != 0 ? XCVM_OP_JmpFalse : XCVM_OP_Jmp), args, &cond, cond != 0,
                           NULL, 0, &debug);
}

size_t xcc_emit_position(const xcc_emitter *e) { return e->code.image.instruction_count; }

void xcc_emit_land(xcc_emitter *e, size_t jump)
{
    xcvm_instruction *instruction = &e->code.image.instructions[jump];
    if (instruction->schema->opcode == XCVM_OP_Jmp)
        ((xcvm_Jmp_args *)instruction->args)->to = (int64_t)xcc_emit_position(e);
    else
        ((xcvm_JmpFalse_args *)instruction->args)->to = (int64_t)xcc_emit_position(e);
}

bool xcc_emit_owned(const xcc_emitter *e, const xcc_graph *g, const xcc_value *v)
{
    return v != NULL && !xcc_is_constant(v) && e->owner[v->id] == g;
}

xcvm_status xcc_emit_free_value(xcc_emitter *e, const xcc_value *v)
{
    e->last[v->id] = 0;
    return xcc_emit_free(e, e->code.operands[v->id]);
}

xcvm_status xcc_emit_free_if_last(xcc_emitter *e, const xcc_node *n, const xcc_value *v)
{
    if (xcc_emit_owned(e, n->graph, v) && e->last[v->id] == n->order + 1)
        return xcc_emit_free_value(e, v);
    return XCVM_OK;
}

xcvm_status xcc_emit_fetch(xcc_emitter *e, const xcc_value *v)
{
    if (v == NULL || xcc_is_constant(v) || v->producer != NULL || v->graph->owner != NULL ||
        e->code.operands[v->id] != 0)
        return XCVM_OK;
    return xcc_emit_named(e, v->kind == XCC_STATE ? XCVM_OP_Load : XCVM_OP_In, v->name, 0,
                          xcc_code_register(&e->code, v), v);
}

xcvm_status xcc_emit_free_outputs(xcc_emitter *e, const xcc_graph *g)
{
    for (size_t i = 0; i < g->output_count; i++) {
        const xcc_value *v = g->outputs[i];
        if (xcc_emit_owned(e, g, v) && e->last[v->id] == XCC_KEPT)
            XCVM_TRY(xcc_emit_free_value(e, v));
    }
    return XCVM_OK;
}

/* A state that is written in place is loaded only for that, in the tail. */
static xcvm_status load_written(xcc_emitter *e, const xcc_value *v, int32_t *operand)
{
    *operand = v != NULL ? xcc_code_new_register(&e->code) : 0;
    return v != NULL ? xcc_emit_named(e, XCVM_OP_Load, v->name, 0, *operand, v) : XCVM_OK;
}

xcvm_status xcc_emit_instruction(xcc_emitter *e, const xcc_node *n)
{
    xcc_module *m = e->code.m;
    size_t inputs = xcc_node_input_count(n), outputs = xcc_node_output_count(n);
    int32_t *in = xcc_alloc(m, inputs * sizeof *in), *out = xcc_alloc(m, outputs * sizeof *out);
    const xcc_value **values = xcc_alloc(m, outputs * sizeof *values);
    if (in == NULL || out == NULL || values == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < inputs; i++)
        XCVM_TRY(xcc_writes_input(n, i) ? load_written(e, n->uses[i].value, &in[i])
                                        : xcc_code_operand(&e->code, n->uses[i].value, &in[i]));
    for (size_t i = 0; i < outputs; i++) {
        values[i] = xcc_node_output(n, i);
        out[i] = values[i] != NULL ? xcc_code_register(&e->code, values[i]) : 0;
    }
    xcc_code_debug debug = {.node = n, .values = values, .slots = true};
    XCVM_TRY(xcc_code_append(&e->code, n->schema, n->args, in, inputs, out, outputs, &debug));
    for (size_t i = 0; i < inputs; i++)
        if (in[i] != 0 && xcc_writes_input(n, i))
            XCVM_TRY(xcc_emit_free(e, in[i]));
    return XCVM_OK;
}

/* Emission of Loop: states and the iteration number in registers, scan outputs in sequences, and a backward jump. */
#include "compiler/emit/emitter.h"
#include "ops/table/table.h"

typedef struct loop {
    const xcc_node *node;
    xcc_graph *body;
    size_t states, scans;
    bool counts;                  /* there is a trip count */
    bool checks;                  /* the condition can end the loop */
    bool has_iteration, has_cond; /* the parameters have registers */
    int32_t *sequences;           /* of the scans so far; 0 for unused scans */
    int32_t running;              /* true while the trip count allows another iteration */
} loop;

static bool is_true(const xcc_value *v)
{
    return xcc_is_constant(v) && v->type.dtype == XCVM_BOOL && xcvm_element_count(&v->type) == 1 &&
           *XCVM_CDATA(bool, &v->type);
}

/* Returns true if the body's output `i` is already the value of parameter i + 1. */
static bool unchanged(const loop *l, size_t i) { return l->body->outputs[i] == l->body->inputs[i + 1]; }

static xcvm_status begin_state(xcc_emitter *e, const loop *l, xcc_value *parameter, const xcc_value *initial,
                               const xcc_value *result, bool moves)
{
    int32_t from;
    XCVM_TRY(xcc_code_operand(&e->code, initial, &from));
    if (result != NULL)
        e->code.operands[parameter->id] = xcc_code_register(&e->code, result);
    e->owner[parameter->id] = moves ? l->body : NULL;
    e->last[parameter->id] = 0;
    return xcc_emit_identity(e, l->node, from, xcc_code_register(&e->code, parameter), parameter);
}

static xcvm_status begin_loop(xcc_emitter *e, loop *l)
{
    const xcc_node *n = l->node;
    xcc_module *m = e->code.m;
    xcc_graph *body = l->body;
    l->states = n->input_count - 2;
    l->scans = n->output_count - l->states;
    l->counts = n->inputs[0] != NULL;
    const xcc_value *next = body->outputs[0];
    /* An endless loop also has a check, so that the instructions after it are reachable. */
    l->checks = !l->counts || !(is_true(next) || unchanged(l, 0)) || !(n->inputs[1] == NULL || is_true(n->inputs[1]));
    l->has_iteration = l->counts || body->inputs[0]->uses > 0;
    l->has_cond = l->checks || body->inputs[1]->uses > 0;
    l->sequences = xcc_alloc(m, l->scans * sizeof *l->sequences);
    if (l->sequences == NULL)
        return XCVM_OUT_OF_MEMORY;
    if (l->has_iteration) {
        XCVM_TRY(begin_state(e, l, body->inputs[0], e->zero, NULL, false));
    }
    if (l->has_cond) {
        const xcc_value *initial = n->inputs[1] != NULL ? n->inputs[1] : e->yes;
        XCVM_TRY(begin_state(e, l, body->inputs[1], initial, NULL, !unchanged(l, 0)));
    }
    for (size_t i = 0; i < l->states; i++)
        XCVM_TRY(begin_state(e, l, body->inputs[i + 2], n->inputs[i + 2], n->outputs[i], !unchanged(l, i + 1)));
    for (size_t i = 0; i < l->scans; i++) {
        const xcc_value *each = body->outputs[1 + l->states + i];
        if (n->outputs[l->states + i] == NULL)
            continue;
        xcvm_SequenceConstruct_args args = {.dtype = (xcvm_dtype)each->type.dtype};
        l->sequences[i] = xcc_code_new_register(&e->code);
        xcc_code_debug debug = {.node = n};
        XCVM_TRY(xcc_code_append(&e->code, xcvm_schema_of(XCVM_OP_SequenceConstruct), &args, NULL, 0, &l->sequences[i],
                                 1, &debug));
    }
    return XCVM_OK;
}

/* Frees initial values without other users, so that the body can reuse their memory. */
static xcvm_status free_initial(xcc_emitter *e, const loop *l)
{
    const xcc_node *n = l->node;
    for (size_t i = 0; i < n->input_count; i++)
        if (n->inputs[i] != NULL)
            n->inputs[i]->mark = 0;
    for (size_t i = 0; i < n->capture_count; i++)
        n->captures[i]->mark = 1;
    if (n->inputs[0] != NULL)
        n->inputs[0]->mark = 1;
    for (size_t i = 1; i < n->input_count; i++)
        if (n->inputs[i] != NULL && n->inputs[i]->mark == 0)
            XCVM_TRY(xcc_emit_free_if_last(e, n, n->inputs[i]));
    return XCVM_OK;
}

static xcvm_status append_binary(xcc_emitter *e, const xcc_node *n, xcvm_opcode opcode, int32_t a, const xcc_value *b,
                                 int32_t out)
{
    int32_t in[2] = {a, 0};
    xcvm_Add_args args = {NULL, NULL, NULL}; /* the layout is the same for all binary instructions */
    _Static_assert(sizeof(xcvm_Add_args) == sizeof(xcvm_Less_args), "Add and Less differ");
    XCVM_TRY(xcc_code_operand(&e->code, b, &in[1]));
    xcc_code_debug debug = {.node = n};
    return xcc_code_append(&e->code, xcvm_schema_of(opcode), &args, in, 2, &out, 1, &debug);
}

static xcvm_status append_scan(xcc_emitter *e, const loop *l, size_t i)
{
    int32_t in[3] = {l->sequences[i], 0, 0}, longer = xcc_code_new_register(&e->code);
    xcvm_SequenceInsert_args args = {NULL, NULL, NULL, NULL};
    xcc_code_debug debug = {.node = l->node};
    XCVM_TRY(xcc_code_operand(&e->code, l->body->outputs[1 + l->states + i], &in[1]));
    XCVM_TRY(xcc_code_append(&e->code, xcvm_schema_of(XCVM_OP_SequenceInsert), &args, in, 3, &longer, 1, &debug));
    XCVM_TRY(xcc_emit_free(e, l->sequences[i]));
    XCVM_TRY(xcc_emit_identity(e, l->node, longer, l->sequences[i], NULL));
    return xcc_emit_free(e, longer);
}

/* True if output i must be moved to the parameter of the next iteration. */
static bool moves(const loop *l, size_t i) { return !unchanged(l, i) && (i > 0 || l->has_cond); }

/* All states change simultaneously, so a parameter that is the next value of another one is copied first. */
static xcvm_status move_states(xcc_emitter *e, const loop *l)
{
    const xcc_graph *body = l->body;
    size_t count = l->states + 1;
    int32_t *from = xcc_alloc(e->code.m, count * sizeof *from), *copies = xcc_alloc(e->code.m, count * sizeof *copies);
    if (from == NULL || copies == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const xcc_value *next = body->outputs[i];
        if (!moves(l, i))
            continue;
        XCVM_TRY(xcc_code_operand(&e->code, next, &from[i]));
        if (next->producer == NULL && next->graph == body && !xcc_is_constant(next)) {
            copies[i] = xcc_code_new_register(&e->code);
            XCVM_TRY(xcc_emit_identity(e, l->node, from[i], copies[i], NULL));
            from[i] = copies[i];
        }
    }
    for (size_t i = 0; i < count; i++) {
        const xcc_value *parameter = body->inputs[i + 1];
        if (moves(l, i) && e->last[parameter->id] == XCC_KEPT)
            XCVM_TRY(xcc_emit_free_value(e, parameter));
    }
    for (size_t i = 0; i < count; i++)
        if (moves(l, i))
            XCVM_TRY(
                xcc_emit_identity(e, l->node, from[i], e->code.operands[body->inputs[i + 1]->id], body->inputs[i + 1]));
    for (size_t i = 0; i < count; i++)
        if (copies[i] != 0)
            XCVM_TRY(xcc_emit_free(e, copies[i]));
    return XCVM_OK;
}

static xcvm_status emit_body(xcc_emitter *e, loop *l)
{
    xcc_graph *body = l->body;
    xcc_value **parameters = xcc_alloc(e->code.m, body->input_count * sizeof *parameters);
    size_t count = 0;
    if (parameters == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i <= l->states; i++)
        if (moves(l, i))
            parameters[count++] = body->inputs[i + 1];
    XCVM_TRY(xcc_emit_graph(e, body, parameters, count));
    for (size_t i = 0; i < l->scans; i++)
        if (l->sequences[i] != 0)
            XCVM_TRY(append_scan(e, l, i));
    XCVM_TRY(move_states(e, l));
    if (l->has_iteration) {
        int32_t iteration = e->code.operands[body->inputs[0]->id], next = xcc_code_new_register(&e->code);
        XCVM_TRY(append_binary(e, l->node, XCVM_OP_Add, iteration, e->one, next));
        XCVM_TRY(xcc_emit_free(e, iteration));
        XCVM_TRY(xcc_emit_identity(e, l->node, next, iteration, body->inputs[0]));
        XCVM_TRY(xcc_emit_free(e, next));
    }
    return xcc_emit_free_outputs(e, body);
}

static xcvm_status end_scan(xcc_emitter *e, const loop *l, size_t i)
{
    const xcc_value *result = l->node->outputs[l->states + i];
    const xcvm_value *each = &l->body->outputs[1 + l->states + i]->type;
    int64_t dims[XCVM_MAX_RANK] = {0};
    int rank = each->rank > 0 ? each->rank : 0;
    for (int k = 0; k < rank && k + 1 < XCVM_MAX_RANK; k++)
        dims[k + 1] = each->dims[k] < 0 ? 0 : each->dims[k];
    xcvm_ConcatFromSequence_args args = {
        .new_axis = 1, .empty_dims = {dims, (size_t)rank + 1}, .empty_dtype = (xcvm_dtype)each->dtype};
    xcc_code_debug debug = {.node = l->node, .values = &result};
    int32_t out = xcc_code_register(&e->code, result);
    XCVM_TRY(xcc_code_append(&e->code, xcvm_schema_of(XCVM_OP_ConcatFromSequence), &args, &l->sequences[i], 1, &out, 1,
                             &debug));
    return xcc_emit_free(e, l->sequences[i]);
}

xcvm_status xcc_emit_loop(xcc_emitter *e, const xcc_node *n)
{
    loop l = {.node = n, .body = n->bodies[0]};
    XCVM_TRY(begin_loop(e, &l));
    XCVM_TRY(free_initial(e, &l));
    size_t head = xcc_emit_position(e), uncounted = 0, unchecked = 0;
    int32_t *operands = e->code.operands;
    if (l.counts) {
        l.running = xcc_code_new_register(&e->code);
        XCVM_TRY(append_binary(e, n, XCVM_OP_Less, operands[l.body->inputs[0]->id], n->inputs[0], l.running));
        uncounted = xcc_emit_position(e);
        XCVM_TRY(xcc_emit_jump(e, n, l.running, 0));
    }
    if (l.checks) {
        unchecked = xcc_emit_position(e);
        XCVM_TRY(xcc_emit_jump(e, n, operands[l.body->inputs[1]->id], 0));
    }
    if (l.counts)
        XCVM_TRY(xcc_emit_free(e, l.running));
    XCVM_TRY(emit_body(e, &l));
    XCVM_TRY(xcc_emit_jump(e, n, 0, head));
    if (l.counts)
        xcc_emit_land(e, uncounted);
    if (l.checks)
        xcc_emit_land(e, unchecked);
    if (l.counts)
        XCVM_TRY(xcc_emit_free(e, l.running));
    if (l.has_iteration)
        XCVM_TRY(xcc_emit_free(e, operands[l.body->inputs[0]->id]));
    if (l.has_cond)
        XCVM_TRY(xcc_emit_free(e, operands[l.body->inputs[1]->id]));
    for (size_t i = 0; i < l.states; i++)
        if (n->outputs[i] == NULL)
            XCVM_TRY(xcc_emit_free(e, operands[l.body->inputs[i + 2]->id]));
    for (size_t i = 0; i < l.scans; i++)
        if (l.sequences[i] != 0)
            XCVM_TRY(end_scan(e, &l, i));
    return XCVM_OK;
}

/* Writes a module as a program: each value gets a register that nothing else uses, control flow becomes jumps. Where
 * paths meet, the same registers are set. */
#include "compiler/emit_code.h"
#include "compiler/fuse.h"

#include <string.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define PRODUCER "xcvm " TEXT(XCVM_VERSION_MAJOR) "." TEXT(XCVM_VERSION_MINOR) "." TEXT(XCVM_VERSION_PATCH)

#define KEPT UINT32_MAX

typedef struct emitter {
    xcc_code code;
    const xcc_graph **owner; /* by value id: the graph whose instructions free it; NULL: freed elsewhere */
    xcc_value *zero, *one, *yes;
    uint32_t *last; /* by value id: 1 + position of its last use in the owner; 0: none, or freed; KEPT: its end */
    size_t fused;   /* the last Fused instruction, and its attribute */
    int64_t *fused_results;
} emitter;

static xcvm_status emit_graph(emitter *e, xcc_graph *g, xcc_value *const *inherited, size_t inherited_count);

/* ---- Single instructions ---- */

static xcvm_status append_named(emitter *e, xcvm_opcode opcode, const char *name, int32_t in, int32_t out,
                                const xcc_value *v)
{
    const xcvm_row *row = xcvm_row_of(opcode);
    xcc_code_debug debug = {.values = &v};
    union {
        xcvm_In_args in;
        xcvm_Out_args out;
    } args = {.in = {.v = NULL}};
    if (opcode == XCVM_OP_In)
        args.in.name = (xcvm_text){name, strlen(name)};
    else
        args.out.name = (xcvm_text){name, strlen(name)};
    return xcc_code_append(&e->code, row, &args, &in, opcode == XCVM_OP_Out, &out, opcode == XCVM_OP_In, &debug);
}

static xcvm_status append_free(emitter *e, int32_t operand)
{
    xcvm_Free_args args = {NULL};
    return xcc_code_append(&e->code, xcvm_row_of(XCVM_OP_Free), &args, &operand, 1, NULL, 0, NULL);
}

static xcvm_status append_identity(emitter *e, const xcc_node *n, int32_t from, int32_t to, const xcc_value *v)
{
    xcvm_Identity_args args = {NULL, NULL};
    xcc_code_debug debug = {.node = n, .values = v != NULL ? &v : NULL};
    return xcc_code_append(&e->code, xcvm_row_of(XCVM_OP_Identity), &args, &from, 1, &to, 1, &debug);
}

/* A jump whose target is filled in later, or known already. cond 0: always. */
static xcvm_status append_jump(emitter *e, const xcc_node *n, int32_t cond, size_t to)
{
    xcvm_Jmp_args always = {(int64_t)to};
    xcvm_JmpFalse_args unless = {NULL, (int64_t)to};
    xcc_code_debug debug = {.node = n};
    const void *args = cond != 0 ? (const void *)&unless : (const void *)&always;
    return xcc_code_append(&e->code, xcvm_row_of(cond != 0 ? XCVM_OP_JmpFalse : XCVM_OP_Jmp), args, &cond, cond != 0,
                           NULL, 0, &debug);
}

static size_t position(const emitter *e) { return e->code.image.instruction_count; }

/* Lets the jump at `jump` go to where the next instruction will be. */
static void land(emitter *e, size_t jump)
{
    xcvm_instruction *instruction = &e->code.image.instructions[jump];
    if (instruction->row->opcode == XCVM_OP_Jmp)
        ((xcvm_Jmp_args *)instruction->args)->to = (int64_t)position(e);
    else
        ((xcvm_JmpFalse_args *)instruction->args)->to = (int64_t)position(e);
}

/* ---- Lifetimes ---- */

static bool owned(const emitter *e, const xcc_graph *g, const xcc_value *v)
{
    return v != NULL && !xcc_is_constant(v) && e->owner[v->id] == g;
}

static xcvm_status free_value(emitter *e, const xcc_value *v)
{
    e->last[v->id] = 0;
    return append_free(e, e->code.operands[v->id]);
}

static xcvm_status free_if_last(emitter *e, const xcc_node *n, const xcc_value *v)
{
    if (owned(e, n->graph, v) && e->last[v->id] == n->order + 1)
        return free_value(e, v);
    return XCVM_OK;
}

/* The program's inputs are fetched when they are first needed. */
static xcvm_status fetch(emitter *e, const xcc_value *v)
{
    if (v == NULL || xcc_is_constant(v) || v->producer != NULL || v->graph->owner != NULL ||
        e->code.operands[v->id] != 0)
        return XCVM_OK;
    return append_named(e, XCVM_OP_In, v->name, 0, xcc_code_register(&e->code, v), v);
}

static xcvm_status find_last_uses(emitter *e, xcc_graph *g)
{
    xcc_graph_number(g);
    for (const xcc_node *n = g->first; n != NULL; n = n->next) {
        size_t outputs = xcc_node_output_count(n);
        for (size_t i = 0; i < outputs; i++) {
            const xcc_value *v = xcc_node_output(n, i);
            if (v != NULL) {
                e->owner[v->id] = g;
                e->last[v->id] = 0;
            }
        }
        size_t inputs = xcc_node_input_count(n);
        for (size_t i = 0; i < inputs; i++)
            if (owned(e, g, n->uses[i].value))
                e->last[n->uses[i].value->id] = xcc_last_needed(n, n->uses[i].value)->order + 1;
        for (size_t i = 0; i < n->capture_count; i++)
            if (owned(e, g, n->captures[i]))
                e->last[n->captures[i]->id] = n->order + 1;
    }
    for (size_t i = 0; i < g->output_count; i++)
        if (owned(e, g, g->outputs[i]))
            e->last[g->outputs[i]->id] = KEPT;
    return XCVM_OK;
}

/* Frees what a graph gave as its outputs, once it is no longer needed. */
static xcvm_status free_outputs(emitter *e, const xcc_graph *g)
{
    for (size_t i = 0; i < g->output_count; i++) {
        const xcc_value *v = g->outputs[i];
        if (owned(e, g, v) && e->last[v->id] == KEPT)
            XCVM_TRY(free_value(e, v));
    }
    return XCVM_OK;
}

/* ---- Instructions ---- */

static xcvm_status emit_instruction(emitter *e, const xcc_node *n)
{
    xcc_module *m = e->code.m;
    size_t inputs = xcc_node_input_count(n), outputs = xcc_node_output_count(n);
    int32_t *in = xcc_alloc(m, inputs * sizeof *in), *out = xcc_alloc(m, outputs * sizeof *out);
    const xcc_value **values = xcc_alloc(m, outputs * sizeof *values);
    if (in == NULL || out == NULL || values == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < inputs; i++)
        XCVM_TRY(xcc_code_operand(&e->code, n->uses[i].value, &in[i]));
    for (size_t i = 0; i < outputs; i++) {
        values[i] = xcc_node_output(n, i);
        out[i] = values[i] != NULL ? xcc_code_register(&e->code, values[i]) : 0;
    }
    xcc_code_debug debug = {.node = n, .values = values, .slots = true};
    return xcc_code_append(&e->code, n->row, n->args, in, inputs, out, outputs, &debug);
}

/* ---- If ---- */

/* The branch's instructions write straight into the registers of the node's results where they can. */
static void share_registers(emitter *e, const xcc_node *n, const xcc_graph *branch)
{
    for (size_t i = 0; i < n->output_count; i++) {
        const xcc_value *from = branch->outputs[i];
        if (n->outputs[i] == NULL || xcc_is_constant(from) || from->producer == NULL || from->graph != branch)
            continue;
        if (e->code.operands[from->id] == 0)
            e->code.operands[from->id] = xcc_code_register(&e->code, n->outputs[i]);
    }
}

static xcvm_status emit_branch(emitter *e, const xcc_node *n, xcc_graph *branch, xcc_value *const *dying, size_t count)
{
    share_registers(e, n, branch);
    XCVM_TRY(emit_graph(e, branch, dying, count));
    for (size_t i = 0; i < n->output_count; i++) {
        const xcc_value *from = branch->outputs[i], *to = n->outputs[i];
        int32_t operand;
        if (to == NULL)
            continue;
        XCVM_TRY(xcc_code_operand(&e->code, from, &operand));
        if (operand == xcc_code_register(&e->code, to))
            e->last[from->id] = 0;
        else
            XCVM_TRY(append_identity(e, n, operand, xcc_code_register(&e->code, to), to));
    }
    return free_outputs(e, branch);
}

/* Values whose last use is this node, which each branch frees as soon as it no longer needs them. */
static xcvm_status collect_dying(emitter *e, const xcc_node *n, xcc_value ***dying, size_t *count)
{
    *count = 0;
    *dying = xcc_alloc(e->code.m, (n->input_count + n->capture_count) * sizeof **dying);
    if (*dying == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < n->input_count + n->capture_count; i++) {
        xcc_value *v = i < n->input_count ? n->inputs[i] : n->captures[i - n->input_count];
        if (!owned(e, n->graph, v) || e->last[v->id] != n->order + 1)
            continue;
        (*dying)[(*count)++] = v;
        e->owner[v->id] = NULL;
    }
    return XCVM_OK;
}

static xcvm_status emit_if(emitter *e, const xcc_node *n)
{
    xcc_value **dying;
    size_t count;
    int32_t cond;
    XCVM_TRY(xcc_code_operand(&e->code, n->inputs[0], &cond));
    XCVM_TRY(collect_dying(e, n, &dying, &count));
    size_t to_else = position(e);
    XCVM_TRY(append_jump(e, n, cond, 0));
    XCVM_TRY(emit_branch(e, n, n->bodies[0], dying, count));
    size_t to_end = position(e);
    XCVM_TRY(append_jump(e, n, 0, 0));
    land(e, to_else);
    XCVM_TRY(emit_branch(e, n, n->bodies[1], dying, count));
    land(e, to_end);
    for (size_t i = 0; i < count; i++)
        e->owner[dying[i]->id] = NULL;
    return XCVM_OK;
}

/* ---- Loop ---- */

typedef struct loop {
    const xcc_node *node;
    xcc_graph *body;
    size_t states, scans;
    bool counts;                  /* there is a trip count */
    bool checks;                  /* the condition can end the loop */
    bool has_iteration, has_cond; /* the parameters have registers */
    int32_t *sequences;           /* of the scans so far; 0 where nobody wants them */
    int32_t running;              /* whether the trip count allows one more */
} loop;

static bool is_true(const xcc_value *v)
{
    return xcc_is_constant(v) && v->type.dtype == XCVM_BOOL && xcvm_element_count(&v->type) == 1 &&
           *XCVM_CDATA(bool, &v->type);
}

/* Whether the body's output `i` is the value that parameter i + 1 has anyway. */
static bool unchanged(const loop *l, size_t i) { return l->body->outputs[i] == l->body->inputs[i + 1]; }

static xcvm_status begin_state(emitter *e, const loop *l, xcc_value *parameter, const xcc_value *initial,
                               const xcc_value *result, bool moves)
{
    int32_t from;
    XCVM_TRY(xcc_code_operand(&e->code, initial, &from));
    if (result != NULL)
        e->code.operands[parameter->id] = xcc_code_register(&e->code, result);
    e->owner[parameter->id] = moves ? l->body : NULL;
    e->last[parameter->id] = 0;
    return append_identity(e, l->node, from, xcc_code_register(&e->code, parameter), parameter);
}

static xcvm_status begin_loop(emitter *e, loop *l)
{
    const xcc_node *n = l->node;
    xcc_module *m = e->code.m;
    xcc_graph *body = l->body;
    l->states = n->input_count - 2;
    l->scans = n->output_count - l->states;
    l->counts = n->inputs[0] != NULL;
    const xcc_value *next = body->outputs[0];
    /* A loop without end has a check all the same, so that there is a way to the instructions behind it. */
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
        XCVM_TRY(xcc_code_append(&e->code, xcvm_row_of(XCVM_OP_SequenceConstruct), &args, NULL, 0, &l->sequences[i], 1,
                                 &debug));
    }
    return XCVM_OK;
}

/* Initial values that nothing needs any more, so that the body can write over them. */
static xcvm_status free_initial(emitter *e, const loop *l)
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
            XCVM_TRY(free_if_last(e, n, n->inputs[i]));
    return XCVM_OK;
}

static xcvm_status append_binary(emitter *e, const xcc_node *n, xcvm_opcode opcode, int32_t a, const xcc_value *b,
                                 int32_t out)
{
    int32_t in[2] = {a, 0};
    xcvm_Add_args args = {NULL, NULL, NULL}; /* all of two operands and no attributes are laid out alike */
    _Static_assert(sizeof(xcvm_Add_args) == sizeof(xcvm_Less_args), "Add and Less differ");
    XCVM_TRY(xcc_code_operand(&e->code, b, &in[1]));
    xcc_code_debug debug = {.node = n};
    return xcc_code_append(&e->code, xcvm_row_of(opcode), &args, in, 2, &out, 1, &debug);
}

static xcvm_status append_scan(emitter *e, const loop *l, size_t i)
{
    int32_t in[3] = {l->sequences[i], 0, 0}, longer = xcc_code_new_register(&e->code);
    xcvm_SequenceInsert_args args = {NULL, NULL, NULL, NULL};
    xcc_code_debug debug = {.node = l->node};
    XCVM_TRY(xcc_code_operand(&e->code, l->body->outputs[1 + l->states + i], &in[1]));
    XCVM_TRY(xcc_code_append(&e->code, xcvm_row_of(XCVM_OP_SequenceInsert), &args, in, 3, &longer, 1, &debug));
    XCVM_TRY(append_free(e, l->sequences[i]));
    XCVM_TRY(append_identity(e, l->node, longer, l->sequences[i], NULL));
    return append_free(e, longer);
}

/* One move from what the body gave to the parameter of the next iteration. */
static bool moves(const loop *l, size_t i) { return !unchanged(l, i) && (i > 0 || l->has_cond); }

/* All states change at once, so a parameter that another one's next value is gets copied first. */
static xcvm_status move_states(emitter *e, const loop *l)
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
            XCVM_TRY(append_identity(e, l->node, from[i], copies[i], NULL));
            from[i] = copies[i];
        }
    }
    for (size_t i = 0; i < count; i++) {
        const xcc_value *parameter = body->inputs[i + 1];
        if (moves(l, i) && e->last[parameter->id] == KEPT)
            XCVM_TRY(free_value(e, parameter));
    }
    for (size_t i = 0; i < count; i++)
        if (moves(l, i))
            XCVM_TRY(
                append_identity(e, l->node, from[i], e->code.operands[body->inputs[i + 1]->id], body->inputs[i + 1]));
    for (size_t i = 0; i < count; i++)
        if (copies[i] != 0)
            XCVM_TRY(append_free(e, copies[i]));
    return XCVM_OK;
}

static xcvm_status emit_body(emitter *e, loop *l)
{
    xcc_graph *body = l->body;
    xcc_value **parameters = xcc_alloc(e->code.m, body->input_count * sizeof *parameters);
    size_t count = 0;
    if (parameters == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i <= l->states; i++)
        if (moves(l, i))
            parameters[count++] = body->inputs[i + 1];
    XCVM_TRY(emit_graph(e, body, parameters, count));
    for (size_t i = 0; i < l->scans; i++)
        if (l->sequences[i] != 0)
            XCVM_TRY(append_scan(e, l, i));
    XCVM_TRY(move_states(e, l));
    if (l->has_iteration) {
        int32_t iteration = e->code.operands[body->inputs[0]->id], next = xcc_code_new_register(&e->code);
        XCVM_TRY(append_binary(e, l->node, XCVM_OP_Add, iteration, e->one, next));
        XCVM_TRY(append_free(e, iteration));
        XCVM_TRY(append_identity(e, l->node, next, iteration, body->inputs[0]));
        XCVM_TRY(append_free(e, next));
    }
    return free_outputs(e, body);
}

static xcvm_status end_scan(emitter *e, const loop *l, size_t i)
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
    XCVM_TRY(xcc_code_append(&e->code, xcvm_row_of(XCVM_OP_ConcatFromSequence), &args, &l->sequences[i], 1, &out, 1,
                             &debug));
    return append_free(e, l->sequences[i]);
}

static xcvm_status emit_loop(emitter *e, const xcc_node *n)
{
    loop l = {.node = n, .body = n->bodies[0]};
    XCVM_TRY(begin_loop(e, &l));
    XCVM_TRY(free_initial(e, &l));
    size_t head = position(e), uncounted = 0, unchecked = 0;
    int32_t *operands = e->code.operands;
    if (l.counts) {
        l.running = xcc_code_new_register(&e->code);
        XCVM_TRY(append_binary(e, n, XCVM_OP_Less, operands[l.body->inputs[0]->id], n->inputs[0], l.running));
        uncounted = position(e);
        XCVM_TRY(append_jump(e, n, l.running, 0));
    }
    if (l.checks) {
        unchecked = position(e);
        XCVM_TRY(append_jump(e, n, operands[l.body->inputs[1]->id], 0));
    }
    if (l.counts)
        XCVM_TRY(append_free(e, l.running));
    XCVM_TRY(emit_body(e, &l));
    XCVM_TRY(append_jump(e, n, 0, head));
    if (l.counts)
        land(e, uncounted);
    if (l.checks)
        land(e, unchecked);
    if (l.counts)
        XCVM_TRY(append_free(e, l.running));
    if (l.has_iteration)
        XCVM_TRY(append_free(e, operands[l.body->inputs[0]->id]));
    if (l.has_cond)
        XCVM_TRY(append_free(e, operands[l.body->inputs[1]->id]));
    for (size_t i = 0; i < l.states; i++)
        if (n->outputs[i] == NULL)
            XCVM_TRY(append_free(e, operands[l.body->inputs[i + 2]->id]));
    for (size_t i = 0; i < l.scans; i++)
        if (l.sequences[i] != 0)
            XCVM_TRY(end_scan(e, &l, i));
    return XCVM_OK;
}

/* ---- Fused groups ---- */

/* The Fused instruction in front of a group; what the group reads is fetched before it, so that nothing but the group's
 * instructions follows. */
static xcvm_status begin_fused(emitter *e, const xcc_fusion *f)
{
    int32_t in[XCVM_FUSED_OPERANDS];
    int64_t *elements = xcc_alloc(e->code.m, (f->x_count + f->result_count) * sizeof *elements);
    e->fused_results = xcc_alloc(e->code.m, f->result_count * sizeof *e->fused_results);
    if (elements == NULL || e->fused_results == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < f->x_count; i++) {
        XCVM_TRY(fetch(e, f->xs[i]));
        XCVM_TRY(xcc_code_operand(&e->code, f->xs[i], &in[i]));
    }
    for (size_t i = 0; i < f->x_count; i++)
        elements[i] = (int64_t)xcvm_element_count(&f->xs[i]->type);
    uint64_t flops = 0;
    for (size_t i = 0; i < f->result_count; i++)
        elements[f->x_count + i] = (int64_t)xcvm_element_count(&xcc_node_output(f->nodes[f->results[i]], 0)->type);
    for (size_t i = 0; i < f->node_count; i++)
        flops += xcc_node_flops(f->nodes[i]);
    xcvm_Fused_args args = {.xs = {.count = f->x_count},
                            .kernel = f->kernel,
                            .count = 1,
                            .results = {e->fused_results, f->result_count},
                            .elements = {elements, f->x_count + f->result_count}};
    xcc_code_debug debug = {.node = f->nodes[0]};
    e->fused = position(e);
    XCVM_TRY(xcc_code_append(&e->code, xcvm_row_of(XCVM_OP_Fused), &args, in, f->x_count, NULL, 0, &debug));
    e->code.image.instructions[e->fused].debug.flops = e->code.m->options->strip ? 0 : flops;
    return XCVM_OK;
}

/* One more instruction of the group has been appended, for node `n`. */
static void count_fused(emitter *e, const xcc_node *n, size_t at)
{
    for (size_t i = 0; i < n->fusion->result_count; i++)
        if (n->fusion->nodes[n->fusion->results[i]] == n)
            e->fused_results[i] = (int64_t)(at - e->fused - 1);
}

/* Behind a group; what it read is freed now, as its function reads all of it to the end. */
static xcvm_status end_fused(emitter *e, const xcc_node *last)
{
    xcvm_Fused_args *args = e->code.image.instructions[e->fused].args;
    args->count = (int64_t)(position(e) - e->fused - 1);
    args->results.at = e->fused_results;
    for (size_t i = 0; i < last->fusion->x_count; i++)
        XCVM_TRY(free_if_last(e, last, last->fusion->xs[i]));
    return XCVM_OK;
}

static xcvm_status emit_fused_node(emitter *e, const xcc_node *n)
{
    const xcc_fusion *f = n->fusion;
    if (n == f->nodes[0])
        XCVM_TRY(begin_fused(e, f));
    size_t at = position(e), inputs = xcc_node_input_count(n);
    XCVM_TRY(emit_instruction(e, n));
    count_fused(e, n, at);
    for (size_t i = 0; i < inputs; i++) {
        const xcc_value *v = n->uses[i].value;
        if (v != NULL && v->producer != NULL && v->producer->fusion == f)
            XCVM_TRY(free_if_last(e, n, v));
    }
    return n == f->nodes[f->node_count - 1] ? end_fused(e, n) : XCVM_OK;
}

/* ---- Graphs ---- */

static xcvm_status emit_node(emitter *e, const xcc_node *n)
{
    if (n->fusion != NULL)
        return emit_fused_node(e, n);
    size_t inputs = xcc_node_input_count(n), outputs = xcc_node_output_count(n);
    for (size_t i = 0; i < inputs; i++)
        XCVM_TRY(fetch(e, n->uses[i].value));
    for (size_t i = 0; i < n->capture_count; i++)
        XCVM_TRY(fetch(e, n->captures[i]));
    switch (n->kind) {
    case XCC_INSTRUCTION:
        XCVM_TRY(emit_instruction(e, n));
        break;
    case XCC_IF:
        XCVM_TRY(emit_if(e, n));
        break;
    case XCC_LOOP:
        XCVM_TRY(emit_loop(e, n));
        break;
    }
    for (size_t i = 0; i < inputs; i++)
        XCVM_TRY(free_if_last(e, n, n->uses[i].value));
    for (size_t i = 0; i < n->capture_count; i++)
        XCVM_TRY(free_if_last(e, n, n->captures[i]));
    for (size_t i = 0; i < outputs; i++) {
        const xcc_value *v = xcc_node_output(n, i);
        if (v != NULL && e->last[v->id] == 0)
            XCVM_TRY(free_value(e, v));
    }
    return XCVM_OK;
}

/* `inherited` are values set before, which this graph's instructions free as its own. Its outputs stay set. */
static xcvm_status emit_graph(emitter *e, xcc_graph *g, xcc_value *const *inherited, size_t inherited_count)
{
    for (size_t i = 0; i < inherited_count; i++) {
        e->owner[inherited[i]->id] = g;
        e->last[inherited[i]->id] = 0;
    }
    XCVM_TRY(find_last_uses(e, g));
    for (size_t i = 0; i < inherited_count; i++)
        if (e->last[inherited[i]->id] == 0)
            XCVM_TRY(free_value(e, inherited[i]));
    for (const xcc_node *n = g->first; n != NULL; n = n->next)
        XCVM_TRY(emit_node(e, n));
    return XCVM_OK;
}

static xcvm_status describe_parameters(xcc_module *m, xcvm_image *image)
{
    const xcc_graph *g = m->graph;
    image->inputs = xcc_alloc(m, g->input_count * sizeof *image->inputs);
    image->outputs = xcc_alloc(m, g->output_count * sizeof *image->outputs);
    image->metadata = xcc_alloc(m, sizeof *image->metadata);
    if (image->inputs == NULL || image->outputs == NULL || image->metadata == NULL)
        return XCVM_OUT_OF_MEMORY;
    image->input_count = g->input_count;
    image->output_count = g->output_count;
    for (size_t i = 0; i < g->input_count; i++)
        image->inputs[i] = (xcvm_parameter){g->inputs[i]->name, xcc_value_type(m, g->inputs[i])};
    for (size_t i = 0; i < g->output_count; i++)
        image->outputs[i] = (xcvm_parameter){g->output_names[i], xcc_value_type(m, g->outputs[i])};
    if (m->producer[0] != '\0') {
        image->metadata[0] = (xcvm_metadata){"model", m->producer};
        image->metadata_count = 1;
    }
    return XCVM_OK;
}

static xcvm_status describe_library(xcc_module *m, xcvm_image *image)
{
    if (m->fusion_count == 0)
        return XCVM_OK;
    image->libraries = xcc_alloc(m, sizeof *image->libraries);
    if (image->libraries == NULL)
        return XCVM_OUT_OF_MEMORY;
    const char *slash = strrchr(m->options->fuse, '/');
    image->libraries[0] = (xcvm_library){
        .file = slash != NULL ? slash + 1 : m->options->fuse, .abi = XCVM_LIBRARY_ABI, .isa = xcvm_kernel_isa()};
    memcpy(image->libraries[0].hash, m->library_hash, sizeof image->libraries[0].hash);
    image->library_count = 1;
    return XCVM_OK;
}

static xcvm_status emit_program(emitter *e)
{
    xcc_graph *g = e->code.m->graph;
    for (size_t i = 0; i < g->input_count; i++)
        e->owner[g->inputs[i]->id] = g;
    XCVM_TRY(emit_graph(e, g, NULL, 0));
    for (size_t i = 0; i < g->output_count; i++) {
        int32_t operand;
        XCVM_TRY(fetch(e, g->outputs[i]));
        XCVM_TRY(xcc_code_operand(&e->code, g->outputs[i], &operand));
        XCVM_TRY(append_named(e, XCVM_OP_Out, g->output_names[i], operand, 0, NULL));
    }
    XCVM_TRY(free_outputs(e, g));
    XCVM_TRY(describe_library(e->code.m, &e->code.image));
    return describe_parameters(e->code.m, &e->code.image);
}

xcvm_status xcc_emit_program(xcc_module *m, const xcc_plan *plan, xcvm_sink sink, void *user)
{
    emitter e = {.zero = xcc_scalar_i64(m->graph, 0)};
    e.one = xcc_scalar_i64(m->graph, 1);
    e.yes = xcc_scalar(m->graph, XCVM_BOOL, 1);
    if (e.zero == NULL || e.one == NULL || e.yes == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(xcc_code_begin(&e.code, m, plan));
    e.owner = xcc_alloc(m, m->value_count * sizeof *e.owner);
    e.last = xcc_alloc(m, m->value_count * sizeof *e.last);
    if (e.owner == NULL || e.last == NULL)
        return XCVM_OUT_OF_MEMORY;
    e.code.image.format = XCVM_FORMAT;
    e.code.image.producer = PRODUCER;
    e.code.image.arena_bytes = plan->arena_bytes;
    XCVM_TRY(emit_program(&e));
    return xcvm_image_encode(&e.code.image, m->allocator, sink, user, m->error);
}

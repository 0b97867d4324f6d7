/* Branches and loops: the host's own where calls are executed, graphs where they are built. */
#include "compiler/ir/compose.h"
#include "tape/tape.h"

#include <string.h>

static void fail_all(size_t count, xcvm_var *results)
{
    for (size_t i = 0; i < count; i++)
        results[i] = TAPE_FAILED;
}

/* A scalar of a type, or absent. */
static tape_variable *scalar(xcvm_tape *t, xcvm_var v, xcvm_dtype dtype, const char *what)
{
    tape_variable *variable = tape_operand(t, v, what);
    char text[192];
    if (variable != NULL && (variable->value.type.kind != XCVM_KIND_TENSOR || variable->value.type.dtype != dtype ||
                             (!t->building && xcvm_element_count(&variable->value.type) != 1)))
        tape_fail(t, XCVM_TYPE_MISMATCH, "%s is %s, one element of type %s is needed", what,
                  xcvm_value_describe(&variable->value.type, text, sizeof text), xcvm_dtype_name(dtype));
    if (tape_evaluate(variable) != XCVM_OK)
        return NULL;
    if (t->tracer != NULL && variable != NULL && !t->failed)
        t->tracer->functions->decide(t->tracer, variable);
    return variable;
}

static bool is_true(const tape_variable *v) { return v == NULL || *XCVM_CDATA(bool, &v->value.type); }

/* ---- Building ---- */

/* Builds in a body, whose outputs the variables become. `from` is where the last call began. */
static xcvm_status end_body(xcvm_tape *t, xcc_graph *body, size_t count, const xcvm_var *results, xcc_value *first)
{
    const size_t before = first != NULL ? 1 : 0;
    xcc_value **outputs = xcc_alloc(&t->module, (before + count) * sizeof *outputs);
    if (outputs == NULL)
        return tape_stick(t, XCVM_OUT_OF_MEMORY);
    if (before > 0)
        outputs[0] = first;
    for (size_t i = 0; i < count && !t->failed; i++) {
        outputs[before + i] = tape_built_operand(t, tape_resolve(t, results[i], "a result of a branch or a round"));
        /* What is made outside becomes a result by a node of the body. */
        if (outputs[before + i] != NULL && outputs[before + i]->graph != body)
            outputs[before + i] = xcc_build_unary(&t->builder, XCVM_OP_Identity, outputs[before + i]);
        if (outputs[before + i] == NULL)
            tape_stick(t, t->error.status);
    }
    return t->failed ? t->error.status : tape_stick(t, xcc_graph_set_outputs(body, before + count, outputs));
}

/* The node and its results; NULL: a failure. */
static xcc_node *append(xcvm_tape *t, xcc_node_kind kind, size_t in_count, xcc_value *const *inputs, size_t out_count,
                        xcc_value **outputs, size_t bodies)
{
    for (size_t i = 0; i < out_count; i++)
        if ((outputs[i] = xcc_value_create(t->builder.graph, NULL)) == NULL)
            return NULL;
    return xcc_append_control(&t->builder, kind, in_count, inputs, out_count, outputs, bodies);
}

/* Hands the results of a node out when its bodies are filled. */
static xcvm_status conclude(xcvm_tape *t, xcc_node *n, xcc_value *const *outputs, size_t count, xcvm_var *results)
{
    XCVM_TRY(tape_stick(t, xcc_node_infer(n)));
    for (size_t i = 0; i < count; i++) {
        const tape_variable *v = tape_built(t, outputs[i]);
        if (v == NULL)
            return t->error.status;
        results[i] = tape_handle(v);
    }
    return XCVM_OK;
}

static xcvm_status build_branches(xcvm_tape *t, const tape_variable *cond, const xcvm_tape_branch *branches,
                                  size_t count, xcvm_var *results)
{
    const xcc_builder around = t->builder;
    xcc_value *input = tape_built_operand(t, cond), **outputs = xcc_alloc(&t->module, count * sizeof *outputs);
    xcc_node *n = t->failed || outputs == NULL ? NULL : append(t, XCC_IF, 1, &input, count, outputs, 2);
    if (n == NULL)
        return tape_stick(t, t->error.status);
    for (size_t i = 0; i < 2 && !t->failed; i++) {
        if (count > 0)
            memset(results, 0, count * sizeof *results);
        t->builder.graph = n->bodies[i];
        branches[i].call(branches[i].user, t, count, results);
        if (!t->failed)
            end_body(t, n->bodies[i], count, results, NULL);
    }
    t->builder = around;
    if (!t->failed)
        conclude(t, n, outputs, count, results);
    t->broken = t->broken || t->failed;
    return t->failed ? t->error.status : XCVM_OK;
}

/* ---- If ---- */

void xcvm_tape_if(xcvm_tape *tape, xcvm_var cond, xcvm_tape_branch then_branch, xcvm_tape_branch else_branch,
                  size_t count, xcvm_var *results)
{
    xcvm_tape *t = tape;
    const xcvm_tape_branch branches[] = {then_branch, else_branch};
    const bool usable = TAPE_ENTER(t, xcvm_tape_if);
    if (usable && (then_branch.call == NULL || else_branch.call == NULL || (count > 0 && results == NULL)))
        tape_fail(t, XCVM_INVALID_ARGUMENT, "a branch is missing, or the place for its results");
    const tape_variable *condition = tape_is_unusable(t) ? NULL : scalar(t, cond, XCVM_BOOL, "cond");
    if (condition == NULL && !tape_is_unusable(t))
        tape_fail(t, XCVM_INVALID_ARGUMENT, "cond is absent, but must be given");
    if (tape_is_unusable(t)) {
        fail_all(results != NULL ? count : 0, results);
    } else if (t->building) {
        if (build_branches(t, condition, branches, count, results) != XCVM_OK)
            fail_all(count, results);
    } else {
        if (count > 0)
            memset(results, 0, count * sizeof *results);
        const xcvm_tape_branch taken = branches[is_true(condition) ? 0 : 1];
        taken.call(taken.user, t, count, results);
        for (size_t i = 0; i < count && !t->failed; i++)
            tape_resolve(t, results[i], "a result of a branch");
        if (t->failed)
            fail_all(count, results);
    }
}

/* ---- Loop ---- */

typedef struct loop {
    xcvm_tape *tape;
    const tape_variable *trips, *cond;
    xcvm_tape_loop_body body;
    size_t state_count, scan_count;
    xcvm_var *states, *scans;
} loop;

/* The values of all rounds so far, scan by scan in each round. */
typedef struct rows {
    xcvm_var *at;
    size_t rounds, capacity;
} rows;

static bool keep_rows(const loop *l, rows *r)
{
    xcvm_tape *t = l->tape;
    if (l->scan_count == 0)
        return true;
    if (r->rounds == r->capacity) {
        const size_t capacity = r->capacity > 0 ? 2 * r->capacity : 16;
        xcvm_var *larger = tape_take(t, capacity * l->scan_count * sizeof *larger);
        if (larger == NULL)
            return false;
        if (r->at != NULL) {
            memcpy(larger, r->at, r->rounds * l->scan_count * sizeof *larger);
            tape_give_back(t, r->at, r->capacity * l->scan_count * sizeof *larger);
        }
        r->at = larger;
        r->capacity = capacity;
    }
    const xcvm_var axis = xcvm_tape_constant(t, XCVM_I64, 1, (const int64_t[]){1}, (const int64_t[]){0});
    for (size_t i = 0; i < l->scan_count; i++)
        r->at[r->rounds * l->scan_count + i] = xcvm_Unsqueeze(t, l->scans[i], axis);
    return !t->failed;
}

static void stack_rows(const loop *l, const rows *r)
{
    xcvm_tape *t = l->tape;
    xcvm_var *column = NULL;
    const size_t bytes = r->rounds * sizeof *column;
    if (l->scan_count == 0 || t->failed)
        return;
    if (r->rounds == 0) {
        tape_fail(t, XCVM_INVALID_ARGUMENT, "a loop of no rounds has nothing to stack");
        return;
    }
    if ((column = tape_take(t, bytes)) == NULL)
        return;
    for (size_t i = 0; i < l->scan_count; i++) {
        for (size_t k = 0; k < r->rounds; k++)
            column[k] = r->at[k * l->scan_count + i];
        l->scans[i] = xcvm_Concat(t, {column, r->rounds}, .axis = 0);
    }
    tape_give_back(t, column, bytes);
}

/* There may be none. */
static void copy_variables(xcvm_var *to, const xcvm_var *from, size_t count)
{
    if (count > 0)
        memcpy(to, from, count * sizeof *to);
}

/* Before a round, which may be one of a loop that stacks nothing. */
static void forget_scans(const loop *l)
{
    for (size_t i = 0; i < l->scan_count; i++)
        l->scans[i] = XCVM_ABSENT;
}

static void run_rounds(const loop *l)
{
    xcvm_tape *t = l->tape;
    rows r = {.at = NULL};
    const int64_t trips = l->trips != NULL ? xcvm_element_as_int(&l->trips->value.type, 0) : INT64_MAX;
    bool goes_on = is_true(l->cond);
    for (int64_t i = 0; i < trips && goes_on && !t->failed; i++) {
        xcvm_var go_on = XCVM_ABSENT;
        forget_scans(l);
        l->body.call(l->body.user, t, xcvm_tape_constant(t, XCVM_I64, 0, NULL, &i), l->state_count, l->states,
                     l->scan_count, l->scans, &go_on);
        for (size_t k = 0; k < l->state_count && !t->failed; k++)
            tape_resolve(t, l->states[k], "a state of the loop");
        for (size_t k = 0; k < l->scan_count && !t->failed; k++)
            tape_resolve(t, l->scans[k], "what a round stacks");
        const tape_variable *said = t->failed ? NULL : scalar(t, go_on, XCVM_BOOL, "go_on");
        if (t->failed || !keep_rows(l, &r))
            break;
        r.rounds++;
        goes_on = is_true(said);
    }
    stack_rows(l, &r);
    if (r.at != NULL)
        tape_give_back(t, r.at, r.capacity * l->scan_count * sizeof *r.at);
}

/* The parameters of the body: the iteration, the condition, the states. */
static xcvm_status begin_round(const loop *l, xcc_graph *body, xcc_value *const *inputs, tape_variable **iteration)
{
    xcvm_tape *t = l->tape;
    const size_t count = 2 + l->state_count;
    xcc_value **parameters = xcc_alloc(&t->module, count * sizeof *parameters);
    if (parameters == NULL)
        return tape_stick(t, XCVM_OUT_OF_MEMORY);
    for (size_t i = 0; i < count; i++) {
        if ((parameters[i] = xcc_value_create(body, NULL)) == NULL)
            return tape_stick(t, XCVM_OUT_OF_MEMORY);
        if (i < 2) {
            xcvm_value_set_tensor(&parameters[i]->type, i == 0 ? XCVM_I64 : XCVM_BOOL, 0, NULL);
        } else {
            parameters[i]->type = inputs[i]->type;
            parameters[i]->type.memory_kind = XCVM_MEMORY_NONE;
            parameters[i]->type.storage = NULL;
            parameters[i]->type.data = NULL;
        }
    }
    XCVM_TRY(tape_stick(t, xcc_graph_set_inputs(body, count, parameters)));
    *iteration = tape_built(t, parameters[0]);
    for (size_t i = 0; i < l->state_count && !t->failed; i++) {
        const tape_variable *state = tape_built(t, parameters[2 + i]);
        l->states[i] = state != NULL ? tape_handle(state) : TAPE_FAILED;
    }
    return t->failed ? t->error.status : XCVM_OK;
}

static xcvm_status build_round(const loop *l, xcc_node *n, xcc_value *const *inputs)
{
    xcvm_tape *t = l->tape;
    tape_variable *iteration = NULL;
    xcvm_var go_on = XCVM_ABSENT;
    t->builder.graph = n->bodies[0];
    XCVM_TRY(begin_round(l, n->bodies[0], inputs, &iteration));
    forget_scans(l);
    l->body.call(l->body.user, t, tape_handle(iteration), l->state_count, l->states, l->scan_count, l->scans, &go_on);
    const tape_variable *said = t->failed ? NULL : scalar(t, go_on, XCVM_BOOL, "go_on");
    xcc_value *cond = t->failed ? NULL : said != NULL ? tape_built_operand(t, said) : n->bodies[0]->inputs[1];
    if (cond == NULL)
        return tape_stick(t, t->error.status);
    const size_t bytes = (l->state_count + l->scan_count) * sizeof(xcvm_var);
    xcvm_var *results = xcc_alloc(&t->module, bytes);
    if (results == NULL)
        return tape_stick(t, XCVM_OUT_OF_MEMORY);
    copy_variables(results, l->states, l->state_count);
    copy_variables(results + l->state_count, l->scans, l->scan_count);
    XCVM_TRY(end_body(t, n->bodies[0], l->state_count + l->scan_count, results, cond));
    return tape_stick(t, xcc_loop_infer_body(n));
}

static void build_loop(const loop *l)
{
    xcvm_tape *t = l->tape;
    const xcc_builder around = t->builder;
    const size_t ins = 2 + l->state_count, outs = l->state_count + l->scan_count;
    xcc_value **inputs = xcc_alloc(&t->module, (ins + outs) * sizeof *inputs);
    xcvm_var *results = inputs != NULL ? xcc_alloc(&t->module, outs * sizeof *results) : NULL;
    if (results == NULL) {
        tape_stick(t, XCVM_OUT_OF_MEMORY);
        return;
    }
    inputs[0] = tape_built_operand(t, l->trips);
    inputs[1] = tape_built_operand(t, l->cond);
    for (size_t i = 0; i < l->state_count && !t->failed; i++)
        inputs[2 + i] = tape_built_operand(t, tape_resolve(t, l->states[i], "a state of the loop"));
    xcc_node *n = t->failed ? NULL : append(t, XCC_LOOP, ins, inputs, outs, inputs + ins, 1);
    if (n == NULL) {
        tape_stick(t, t->error.status);
        return;
    }
    xcvm_status status = build_round(l, n, inputs);
    t->builder = around;
    if (status == XCVM_OK)
        status = conclude(t, n, inputs + ins, outs, results);
    t->broken = t->broken || status != XCVM_OK;
    if (status != XCVM_OK)
        return;
    copy_variables(l->states, results, l->state_count);
    copy_variables(l->scans, results + l->state_count, l->scan_count);
}

void xcvm_tape_loop(xcvm_tape *tape, xcvm_var trips, xcvm_var cond, xcvm_tape_loop_body body, size_t state_count,
                    xcvm_var *states, size_t scan_count, xcvm_var *scans)
{
    xcvm_tape *t = tape;
    if (TAPE_ENTER(t, xcvm_tape_loop) &&
        (body.call == NULL || (state_count > 0 && states == NULL) || (scan_count > 0 && scans == NULL) ||
         state_count > UINT32_MAX || scan_count > UINT32_MAX))
        tape_fail(t, XCVM_INVALID_ARGUMENT, "the body of a loop is missing, or the place for its results");
    if (!tape_is_unusable(t)) {
        const loop l = {.tape = t,
                        .trips = scalar(t, trips, XCVM_I64, "trips"),
                        .cond = scalar(t, cond, XCVM_BOOL, "cond"),
                        .body = body,
                        .state_count = state_count,
                        .scan_count = scan_count,
                        .states = states,
                        .scans = scans};
        if (!t->failed)
            (t->building ? build_loop : run_rounds)(&l);
    }
    if (tape_is_unusable(t)) {
        fail_all(states != NULL ? state_count : 0, states);
        fail_all(scans != NULL ? scan_count : 0, scans);
    }
}

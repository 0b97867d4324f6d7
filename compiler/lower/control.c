/* If, Loop, Scan and SequenceMap: the last two are loops whose bodies pick the elements. */
#include "compiler/lower/lower.h"

/* Bodies of loops lowered anew in one import, before states start with open shapes; and attempts for one loop. */
enum { MOST_ATTEMPTS = 64, ATTEMPTS = 3 };

xcvm_status xcc_lower_body(xcc_lowering *n, const Onnx__GraphProto *graph, xcc_graph *body, size_t count,
                           xcc_value *const *arguments, xcc_value ***outputs)
{
    xcc_importer *imp = n->importer;
    xcc_scope scope = {.parent = n->scope, .graph = body};
    XCC_NEED(n, graph->n_input == count, INVALID_MODEL, "the body has %zu inputs, %zu are needed", graph->n_input,
             count);
    for (size_t i = 0; i < count; i++) {
        const char *name = graph->input[i]->name;
        XCC_NEED(n, name != NULL && name[0] != '\0', INVALID_MODEL, "input %zu of the body has no name", i);
        XCVM_TRY(xcc_scope_bind(imp, &scope, name, arguments[i], "the body's input"));
    }
    XCVM_TRY(xcc_import_graph(imp, &scope, graph));
    *outputs = xcc_alloc(n->m, graph->n_output * sizeof **outputs);
    if (*outputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < graph->n_output; i++) {
        XCVM_TRY(xcc_import_output(imp, &scope, graph->output[i]->name, &(*outputs)[i]));
        n->poisoned = n->poisoned || (*outputs)[i] == imp->poison;
    }
    return n->poisoned ? xcvm_error_set(n->m->error, XCVM_UNSUPPORTED, "a node of the body is not supported") : XCVM_OK;
}

static xcvm_status wrap_optional(xcc_lowering *n, xcc_graph *body, xcc_value **value)
{
    xcc_builder b = n->b;
    b.graph = body;
    b.before = NULL;
    const xcvm_value *x = &(*value)->type;
    *value = xcc_apply(&b, Optional, y, .xs = {&x, 1});
    return *value != NULL ? XCVM_OK : xcc_failure(n);
}

static bool is_optional(const xcc_value *v) { return v->type.kind == XCVM_KIND_OPTIONAL; }

/* ---- If ---- */

xcvm_status xcc_lower_if(xcc_lowering *n)
{
    static const char *const names[] = {"then_branch", "else_branch"};
    const Onnx__GraphProto *graphs[2];
    xcc_value **results[2];
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    for (size_t i = 0; i < 2; i++)
        XCVM_TRY(xcc_attribute_graph(n, names[i], &graphs[i]));
    const size_t count = graphs[0]->n_output;
    XCC_NEED(n, graphs[1]->n_output == count, INVALID_MODEL, "the branches give %zu and %zu results", count,
             graphs[1]->n_output);
    XCC_NEED(n, n->output_count <= count, INVALID_MODEL, "%zu results are wanted, the branches give %zu",
             n->output_count, count);
    xcc_value **outputs = xcc_alloc(n->m, count * sizeof *outputs);
    if (outputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        if (xcc_wants(n, i) && (outputs[i] = xcc_result(n, i)) == NULL)
            return xcc_failure(n);
    xcc_node *node = xcc_append_control(&n->b, XCC_IF, 1, n->inputs, count, outputs, 2);
    if (node == NULL)
        return xcc_failure(n);
    for (size_t i = 0; i < 2; i++)
        XCVM_TRY(xcc_lower_body(n, graphs[i], node->bodies[i], 0, NULL, &results[i]));
    /* An optional in one branch makes the result one. */
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0; i < 2; i++)
            if (is_optional(results[1 - i][k]) && !is_optional(results[i][k]))
                XCVM_TRY(wrap_optional(n, node->bodies[i], &results[i][k]));
    for (size_t i = 0; i < 2; i++)
        XCVM_TRY(xcc_graph_set_outputs(node->bodies[i], count, results[i]));
    return xcc_node_infer(node);
}

/* ---- Loops ---- */

/* What a loop's body holds: `fill` makes it, from the types that its parameters have then, and sets its outputs. */
typedef struct loop_body {
    xcvm_status (*fill)(xcc_lowering *n, xcc_node *loop, void *context);
    void *context;
} loop_body;

static void take_type(xcc_value *to, const xcvm_value *from)
{
    if (from->kind == XCVM_KIND_TENSOR && from->rank >= 0) {
        xcvm_value_set_tensor(&to->type, (xcvm_dtype)from->dtype, from->rank, from->dims);
        return;
    }
    to->type.kind = from->kind;
    to->type.dtype = from->dtype;
    to->type.rank = -1;
    to->type.dims[0] = from->dims[0];
}

/* iteration, condition and states. */
static xcvm_status make_parameters(xcc_lowering *n, xcc_node *loop)
{
    xcc_graph *body = loop->bodies[0];
    xcc_value **parameters = xcc_alloc(n->m, loop->input_count * sizeof *parameters);
    if (parameters == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < loop->input_count; i++) {
        const xcc_value *given = loop->inputs[i];
        if ((parameters[i] = xcc_value_create(body, NULL)) == NULL)
            return XCVM_OUT_OF_MEMORY;
        if (i >= 2 || (i == 1 && given != NULL))
            take_type(parameters[i], &given->type);
        else
            xcvm_value_set_tensor(&parameters[i]->type, i == 0 ? XCVM_I64 : XCVM_BOOL, 0, NULL);
    }
    return xcc_graph_set_inputs(body, loop->input_count, parameters);
}

static void open_shapes(xcc_graph *body)
{
    for (size_t i = 2; i < body->input_count; i++)
        if (body->inputs[i]->type.kind == XCVM_KIND_TENSOR)
            body->inputs[i]->type.rank = -1;
}

static bool has_shapes(const xcc_graph *body)
{
    for (size_t i = 2; i < body->input_count; i++)
        if (body->inputs[i]->type.kind == XCVM_KIND_TENSOR && body->inputs[i]->type.rank >= 0)
            return true;
    return false;
}

static xcvm_status empty_body(xcc_graph *body)
{
    XCVM_TRY(xcc_graph_set_outputs(body, 0, NULL));
    while (body->last != NULL)
        xcc_node_remove(body->last);
    return XCVM_OK;
}

static xcvm_status fill_body(xcc_lowering *n, xcc_node *loop, const loop_body *body)
{
    xcc_builder outer = n->b;
    n->b.graph = loop->bodies[0];
    n->b.before = NULL;
    xcvm_status status = body->fill(n, loop, body->context);
    n->b = outer;
    return status;
}

/* One attempt; *changed: the states do not keep the types that the body was lowered for. */
static xcvm_status attempt_body(xcc_lowering *n, xcc_node *loop, const loop_body *body, bool *changed, bool *failed)
{
    const size_t problems = n->importer->problem_count;
    *changed = false;
    xcvm_status status = fill_body(n, loop, body);
    if (status == XCVM_OK)
        status = xcc_loop_widen(loop, changed);
    *failed = status != XCVM_OK || n->importer->problem_count > problems;
    return status;
}

/* The body could not be lowered for the shapes that the states start with: with open ones it may go well. If not, what
 * was wrong with the known shapes says more. */
static xcvm_status attempt_open(xcc_lowering *n, xcc_node *loop, const loop_body *body, xcvm_status status,
                                xcc_problem **last, size_t problems)
{
    xcc_importer *imp = n->importer;
    xcc_problem *noted = *last, **end = imp->last_problem;
    const size_t count = imp->problem_count;
    const xcvm_error error = *n->m->error;
    const bool poisoned = n->poisoned;
    bool changed, failed;
    *last = NULL;
    imp->last_problem = last;
    imp->problem_count = problems;
    n->poisoned = false;
    XCVM_TRY(empty_body(loop->bodies[0]));
    open_shapes(loop->bodies[0]);
    xcvm_status second = attempt_body(n, loop, body, &changed, &failed);
    if (!failed || second == XCVM_OUT_OF_MEMORY)
        return second;
    *last = noted;
    imp->last_problem = end;
    imp->problem_count = count;
    n->poisoned = poisoned;
    *n->m->error = error;
    return status;
}

/* Lowers the body with states of the types that they start with, and if they do not keep them, anew with what is true
 * in every iteration. */
static xcvm_status settle_loop(xcc_lowering *n, xcc_node *loop, const loop_body *body)
{
    xcc_importer *imp = n->importer;
    xcc_graph *graph = loop->bodies[0];
    XCVM_TRY(make_parameters(n, loop));
    if (imp->attempts > MOST_ATTEMPTS)
        open_shapes(graph);
    for (int attempt = 1;; attempt++) {
        xcc_problem **last = imp->last_problem;
        const size_t problems = imp->problem_count;
        const bool shapes = has_shapes(graph);
        bool changed, failed;
        xcvm_status status = attempt_body(n, loop, body, &changed, &failed);
        if (failed && status != XCVM_OUT_OF_MEMORY && shapes) {
            imp->attempts++;
            status = attempt_open(n, loop, body, status, last, problems);
            changed = false;
        }
        if (status != XCVM_OK)
            return status;
        if (!changed)
            break;
        XCC_NEED(n, attempt < 2 * ATTEMPTS, UNSUPPORTED, "the types of the loop's states do not settle");
        imp->attempts++;
        XCVM_TRY(empty_body(graph));
        if (attempt >= ATTEMPTS || imp->attempts > MOST_ATTEMPTS)
            open_shapes(graph);
    }
    return xcc_node_infer(loop);
}

/* A loop at the builder's place over `inputs`; results that nobody wants may be NULL. */
static xcvm_status append_loop(xcc_lowering *n, size_t input_count, xcc_value *const *inputs, size_t output_count,
                               xcc_value *const *outputs, const loop_body *body)
{
    xcc_node *loop = xcc_append_control(&n->b, XCC_LOOP, input_count, inputs, output_count, outputs, 1);
    return loop != NULL ? settle_loop(n, loop, body) : xcc_failure(n);
}

static xcc_value **new_values(xcc_lowering *n, size_t count)
{
    xcc_value **values = xcc_alloc(n->m, count * sizeof *values);
    for (size_t i = 0; values != NULL && i < count; i++)
        if ((values[i] = xcc_value_create(n->b.graph, NULL)) == NULL)
            return NULL;
    return values;
}

/* Outputs of a loop whose condition never ends it. */
static xcvm_status set_endless_outputs(xcc_lowering *n, xcc_node *loop, size_t count, xcc_value *const *values)
{
    xcc_value **all = xcc_alloc(n->m, (count + 1) * sizeof *all);
    if (all == NULL)
        return XCVM_OUT_OF_MEMORY;
    if ((all[0] = xcc_scalar(loop->bodies[0], XCVM_BOOL, 1)) == NULL)
        return xcc_failure(n);
    if (count > 0)
        memcpy(all + 1, values, count * sizeof *all);
    return xcc_graph_set_outputs(loop->bodies[0], count + 1, all);
}

/* ---- Loop ---- */

static xcvm_status fill_loop(xcc_lowering *n, xcc_node *loop, void *context)
{
    const Onnx__GraphProto *graph = context;
    xcc_graph *body = loop->bodies[0];
    xcc_value **outputs;
    XCVM_TRY(xcc_lower_body(n, graph, body, body->input_count, body->inputs, &outputs));
    /* A state that starts as an optional stays one. */
    for (size_t i = 1; i + 1 < body->input_count; i++)
        if (is_optional(body->inputs[i + 1]) && !is_optional(outputs[i]))
            XCVM_TRY(wrap_optional(n, body, &outputs[i]));
    return xcc_graph_set_outputs(body, graph->n_output, outputs);
}

/* Whether the model wants the optional state as what it holds, as the type declared in the body says. */
static bool wants_element(const Onnx__GraphProto *graph, size_t state)
{
    const Onnx__TypeProto *type = graph->output[state + 1]->type;
    return type != NULL && type->value_case != ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE &&
           type->value_case != ONNX__TYPE_PROTO__VALUE__NOT_SET;
}

xcvm_status xcc_lower_loop(xcc_lowering *n)
{
    const Onnx__GraphProto *graph;
    XCVM_TRY(xcc_attribute_graph(n, "body", &graph));
    XCC_NEED(n, graph->n_input >= 2, INVALID_MODEL, "the body has %zu inputs, iteration and condition are needed",
             graph->n_input);
    const size_t states = graph->n_input - 2;
    XCC_NEED(n, graph->n_output > states, INVALID_MODEL, "the body has %zu outputs, %zu are needed", graph->n_output,
             states + 1);
    XCC_NEED(n, n->input_count == states + 2 || (n->input_count < 2 && states == 0), INVALID_MODEL,
             "%zu operands are given, %zu are needed", n->input_count, states + 2);
    for (size_t i = 2; i < n->input_count; i++)
        XCC_NEED(n, n->inputs[i] != NULL, INVALID_MODEL, "operand %zu is missing", i);
    const xcc_value *trips = xcc_input(n, 0), *cond = xcc_input(n, 1);
    XCC_NEED(n, trips == NULL || (trips->type.kind == XCVM_KIND_TENSOR && trips->type.dtype == XCVM_I64), TYPE_MISMATCH,
             "the trip count is no i64 tensor");
    XCC_NEED(n, cond == NULL || (cond->type.kind == XCVM_KIND_TENSOR && cond->type.dtype == XCVM_BOOL), TYPE_MISMATCH,
             "the condition is no boolean tensor");
    const size_t count = graph->n_output - 1;
    XCC_NEED(n, n->output_count <= count, INVALID_MODEL, "%zu results are wanted, the body gives %zu", n->output_count,
             count);
    xcc_value **outputs = xcc_alloc(n->m, count * sizeof *outputs);
    if (outputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        if (!xcc_wants(n, i))
            continue;
        const bool unwrap = i < states && is_optional(n->inputs[i + 2]) && wants_element(graph, i);
        outputs[i] = unwrap ? xcc_value_create(n->b.graph, NULL) : xcc_result(n, i);
        if (outputs[i] == NULL)
            return xcc_failure(n);
    }
    loop_body body = {fill_loop, (void *)(uintptr_t)graph};
    XCVM_TRY(append_loop(n, states + 2, n->inputs, count, outputs, &body));
    for (size_t i = 0; i < states; i++)
        if (xcc_wants(n, i) && n->outputs[i] == NULL)
            XCVM_TRY(xcc_bind(n, i, xcc_low_unary(n, XCVM_OP_OptionalGetElement, outputs[i])));
    return XCVM_OK;
}

/* ---- Scan ---- */

typedef struct scan {
    const Onnx__GraphProto *graph;
    size_t states, inputs, results; /* results: stacked ones */
    xcc_value *const *values;       /* states, then scan inputs */
    int64_t *input_axes;
    const int64_t *input_directions; /* 1: from the end; of `inputs` entries */
    xcc_value *last;                 /* index of the last iteration */
    xcc_value **outputs;             /* states, then results, of the outermost loop */
} scan;

static xcvm_status fill_scan(xcc_lowering *n, xcc_node *loop, void *context)
{
    const scan *s = context;
    xcc_graph *body = loop->bodies[0];
    xcc_value *iteration = body->inputs[0], *reversed = NULL, **outputs;
    xcc_value **arguments = xcc_alloc(n->m, (s->states + s->inputs) * sizeof *arguments);
    if (arguments == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < s->states; i++)
        arguments[i] = body->inputs[i + 2];
    for (size_t i = 0; i < s->inputs; i++) {
        if (s->input_directions[i] != 0 && reversed == NULL)
            reversed = xcc_low_sub(n, s->last, iteration);
        xcc_value *element = xcc_low_gather(n, s->values[s->states + i],
                                            s->input_directions[i] != 0 ? reversed : iteration, s->input_axes[i]);
        if (element == NULL)
            return xcc_failure(n);
        arguments[s->states + i] = element;
    }
    XCVM_TRY(xcc_lower_body(n, s->graph, body, s->states + s->inputs, arguments, &outputs));
    return set_endless_outputs(n, loop, s->states + s->results, outputs);
}

/* The loop over the first scan input's axis, at the builder's place. */
static xcvm_status scan_loop(xcc_lowering *n, scan *s)
{
    xcc_value **inputs = xcc_alloc(n->m, (s->states + 2) * sizeof *inputs);
    s->outputs = new_values(n, s->states + s->results);
    if (inputs == NULL || s->outputs == NULL)
        return xcc_failure(n);
    inputs[0] = xcc_low_dim_of(n, s->values[s->states], (int)s->input_axes[0]);
    inputs[0] = xcc_low_reshape(n, inputs[0], xcc_low_ints(n, 0, NULL));
    s->last = xcc_low_sub(n, inputs[0], xcc_scalar_i64(n->b.graph, 1));
    if (s->last == NULL)
        return xcc_failure(n);
    for (size_t i = 0; i < s->states; i++)
        inputs[i + 2] = s->values[i];
    loop_body body = {fill_scan, s};
    return append_loop(n, s->states + 2, inputs, s->states + s->results, s->outputs, &body);
}

/* A list attribute of `count` entries, 0 where it is left out. */
static xcvm_status list_attribute(xcc_lowering *n, const char *name, size_t count, const int64_t **list)
{
    xcvm_ints given;
    XCVM_TRY(xcc_attribute_ints(n, name, &given));
    XCC_NEED(n, given.count == 0 || given.count == count, INVALID_MODEL,
             "attribute '%s' has %zu entries, %zu are needed", name, given.count, count);
    *list = given.count > 0 ? given.at : xcc_alloc(n->m, count * sizeof **list);
    return *list != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
}

static xcvm_status read_scan(xcc_lowering *n, size_t first, scan *s)
{
    int64_t inputs;
    const size_t given = n->input_count - first;
    XCVM_TRY(xcc_attribute_graph(n, "body", &s->graph));
    XCVM_TRY(xcc_attribute_int(n, "num_scan_inputs", 0, &inputs));
    XCC_NEED(n, inputs >= 1 && (uint64_t)inputs <= given, INVALID_MODEL,
             "attribute 'num_scan_inputs' is %lld, there are %zu operands", (long long)inputs, given);
    s->inputs = (size_t)inputs;
    s->states = given - s->inputs;
    s->values = n->inputs + first;
    XCC_NEED(n, s->graph->n_output >= s->states, INVALID_MODEL, "the body has %zu outputs, %zu or more are needed",
             s->graph->n_output, s->states);
    s->results = s->graph->n_output - s->states;
    XCC_NEED(n, n->output_count <= s->graph->n_output, INVALID_MODEL, "%zu results are wanted, the body gives %zu",
             n->output_count, s->graph->n_output);
    for (size_t i = first; i < n->input_count; i++)
        XCC_NEED(n, n->inputs[i] != NULL, INVALID_MODEL, "operand %zu is missing", i);
    return (s->input_axes = xcc_alloc(n->m, s->inputs * sizeof *s->input_axes)) != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
}

/* A stacked result, whose iterations are dimension 0 in their order, as the attributes want it. */
static xcc_value *arrange(xcc_lowering *n, xcc_value *stacked, bool reversed, int64_t axis)
{
    if (reversed)
        stacked = xcc_low_slice(n, stacked, 0, -1, INT64_MIN + 1, -1);
    if (axis == 0 || stacked == NULL)
        return stacked;
    int64_t perm[XCVM_MAX_RANK], rank = stacked->type.rank;
    for (int64_t i = 0; i < rank; i++)
        perm[i] = i < axis ? i + 1 : i == axis ? 0 : i;
    return xcc_low_transpose(n, stacked, (size_t)rank, perm);
}

/* Opset 8: dimension 0 of everything is a batch, each entry of which is scanned by itself, over dimension 1. */
static xcvm_status fill_batch(xcc_lowering *n, xcc_node *loop, void *context)
{
    const scan *outer = context;
    scan inner = *outer;
    const size_t count = outer->states + outer->inputs;
    xcc_value **values = xcc_alloc(n->m, count * sizeof *values);
    if (values == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        if ((values[i] = xcc_low_gather(n, outer->values[i], loop->bodies[0]->inputs[0], 0)) == NULL)
            return xcc_failure(n);
    inner.values = values;
    XCVM_TRY(scan_loop(n, &inner));
    return set_endless_outputs(n, loop, inner.states + inner.results, inner.outputs);
}

static xcvm_status lower_batched_scan(xcc_lowering *n)
{
    scan s = {.graph = NULL};
    XCC_NEED(n, n->input_count > 1, INVALID_MODEL, "there are no scan inputs");
    XCC_NEED(n, n->inputs[0] == NULL, UNSUPPORTED, "sequence_lens is not supported in Scan of opset 8");
    XCVM_TRY(read_scan(n, 1, &s));
    XCVM_TRY(list_attribute(n, "directions", s.inputs, &s.input_directions));
    const size_t count = s.states + s.results;
    s.outputs = new_values(n, count);
    xcc_value *inputs[2] = {xcc_low_dim_of(n, s.values[s.states], 0), NULL};
    inputs[0] = xcc_low_reshape(n, inputs[0], xcc_low_ints(n, 0, NULL));
    if (s.outputs == NULL || inputs[0] == NULL)
        return xcc_failure(n);
    loop_body body = {fill_batch, &s};
    XCVM_TRY(append_loop(n, 2, inputs, count, s.outputs, &body));
    for (size_t i = 0; i < n->output_count; i++)
        XCVM_TRY(xcc_bind(n, i, s.outputs[i]));
    return XCVM_OK;
}

xcvm_status xcc_lower_scan(xcc_lowering *n)
{
    if (n->version < 9)
        return lower_batched_scan(n);
    scan s = {.graph = NULL};
    const int64_t *axes, *directions, *result_axes;
    XCVM_TRY(read_scan(n, 0, &s));
    XCVM_TRY(list_attribute(n, "scan_input_directions", s.inputs, &s.input_directions));
    XCVM_TRY(list_attribute(n, "scan_input_axes", s.inputs, &axes));
    XCVM_TRY(list_attribute(n, "scan_output_directions", s.results, &directions));
    XCVM_TRY(list_attribute(n, "scan_output_axes", s.results, &result_axes));
    for (size_t i = 0; i < s.inputs; i++) {
        s.input_axes[i] = axes[i];
        if (axes[i] == 0)
            continue;
        XCVM_TRY(xcc_need_rank(n, s.values[s.states + i], "a scan input"));
        XCVM_TRY(xcc_need_axis(n, axes[i], s.values[s.states + i]->type.rank, &s.input_axes[i]));
    }
    XCVM_TRY(scan_loop(n, &s));
    for (size_t i = 0; i < n->output_count; i++) {
        xcc_value *v = s.outputs[i];
        if (i >= s.states) {
            const size_t k = i - s.states;
            int64_t axis = result_axes[k];
            if (axis != 0) {
                XCVM_TRY(xcc_need_rank(n, v, "a scan output"));
                XCVM_TRY(xcc_need_axis(n, axis, v->type.rank, &axis));
            }
            v = arrange(n, v, directions[k] != 0, axis);
        }
        XCVM_TRY(xcc_bind(n, i, v));
    }
    return XCVM_OK;
}

/* ---- SequenceMap ---- */

static xcvm_status fill_map(xcc_lowering *n, xcc_node *loop, void *context)
{
    const Onnx__GraphProto *graph = context;
    xcc_graph *body = loop->bodies[0];
    xcc_value **outputs, **arguments = xcc_alloc(n->m, n->input_count * sizeof *arguments);
    if (arguments == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < n->input_count; i++) {
        const bool sequence = n->inputs[i]->type.kind == XCVM_KIND_SEQUENCE;
        arguments[i] = sequence ? xcc_low_binary(n, XCVM_OP_SequenceAt, n->inputs[i], body->inputs[0]) : n->inputs[i];
        if (arguments[i] == NULL)
            return xcc_failure(n);
    }
    XCVM_TRY(xcc_lower_body(n, graph, body, n->input_count, arguments, &outputs));
    for (size_t i = 0; i < graph->n_output; i++) {
        outputs[i] = xcc_low_binary(n, XCVM_OP_SequenceInsert, body->inputs[i + 2], outputs[i]);
        if (outputs[i] == NULL)
            return xcc_failure(n);
    }
    return set_endless_outputs(n, loop, graph->n_output, outputs);
}

/* One loop over the first sequence that appends each result of the body to a sequence. */
xcvm_status xcc_lower_sequence_map(xcc_lowering *n)
{
    const Onnx__GraphProto *graph;
    XCVM_TRY(xcc_need_inputs(n, n->input_count > 0 ? n->input_count : 1, SIZE_MAX));
    XCVM_TRY(xcc_attribute_graph(n, "body", &graph));
    XCC_NEED(n, n->inputs[0]->type.kind == XCVM_KIND_SEQUENCE, TYPE_MISMATCH, "operand 0 is no sequence");
    XCC_NEED(n, n->output_count <= graph->n_output, INVALID_MODEL, "%zu results are wanted, the body gives %zu",
             n->output_count, graph->n_output);
    const size_t count = graph->n_output;
    xcc_value **outputs = new_values(n, count), **inputs = xcc_alloc(n->m, (count + 2) * sizeof *inputs);
    if (outputs == NULL || inputs == NULL)
        return xcc_failure(n);
    inputs[0] = xcc_low_unary(n, XCVM_OP_SequenceLength, n->inputs[0]);
    for (size_t i = 0; i < count; i++) {
        xcvm_value type = {.rank = -1};
        if (graph->output[i]->type != NULL && xcc_type_read(n->importer, graph->output[i]->type, &type) != XCVM_OK)
            return xcc_failure(n);
        inputs[i + 2] = xcc_apply(&n->b, SequenceConstruct, y, .dtype = (xcvm_dtype)type.dtype);
    }
    for (size_t i = 0; i < count + 2; i++)
        if (inputs[i] == NULL && i != 1)
            return xcc_failure(n);
    loop_body body = {fill_map, (void *)(uintptr_t)graph};
    XCVM_TRY(append_loop(n, count + 2, inputs, count, outputs, &body));
    for (size_t i = 0; i < n->output_count; i++)
        XCVM_TRY(xcc_bind(n, i, outputs[i]));
    return XCVM_OK;
}

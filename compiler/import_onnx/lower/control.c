/* Lowering of If and Loop, and loops that other lowerings make. */
#include "compiler/import_onnx/lower/loop.h"

#include "compiler/ir/compilation.h"

/* Limits: number of loop bodies that one import lowers again before states start with open shapes, and attempts per
 * loop. */
enum { MOST_ATTEMPTS = 64, ATTEMPTS = 3 };

xcvm_status xcc_lower_body(xcc_lowering *n, const Onnx__GraphProto *graph, xcc_graph *body, size_t count,
                           xcc_value *const *arguments, xcc_value ***outputs)
{
    xcc_importer *imp = n->importer;
    xcc_scope scope = {.parent = n->scope, .graph = body};
    XCVM_CHECK(n->m->error, graph->n_input == count, INVALID_MODEL, "the body has %zu inputs, %zu are needed",
               graph->n_input, count);
    for (size_t i = 0; i < count; i++) {
        const char *name = graph->input[i]->name;
        XCVM_CHECK(n->m->error, name != NULL && name[0] != '\0', INVALID_MODEL, "input %zu of the body has no name", i);
        XCVM_TRY(xcc_scope_bind(imp, &scope, name, arguments[i], "the body's input"));
    }
    XCVM_TRY(imp->import_graph(imp, &scope, graph));
    *outputs = xcc_alloc(n->m, graph->n_output * sizeof **outputs);
    if (*outputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < graph->n_output; i++) {
        XCVM_TRY(xcc_import_output(imp, &scope, graph->output[i]->name, &(*outputs)[i]));
        n->is_unsupported = n->is_unsupported || (*outputs)[i] == imp->unsupported_result;
    }
    return n->is_unsupported ? xcvm_error_set(n->m->error, XCVM_UNSUPPORTED, "a node of the body is not supported")
                             : XCVM_OK;
}

static xcvm_status empty_body(xcc_graph *body)
{
    XCVM_TRY(xcc_graph_set_outputs(body, 0, NULL));
    while (body->last != NULL)
        xcc_node_remove(body->last);
    return XCVM_OK;
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

/* A slice of all elements whose ends depend on the condition, so that sizes known outside are open in a branch. */
static xcc_value *open_sizes(xcc_lowering *n, xcc_graph *branch, xcc_value *x)
{
    const size_t rank = (size_t)x->type.rank;
    int64_t starts[XCVM_MAX_RANK] = {0}, ends[XCVM_MAX_RANK];
    xcc_builder b = n->b;
    b.graph = branch;
    b.before = NULL;
    for (size_t i = 0; i < rank; i++)
        ends[i] = INT64_MAX - 1;
    xcc_value *condition = xcc_build_reshape(&b, xcc_build_cast(&b, n->inputs[0], XCVM_I64),
                                             xcc_build_ints(&b, 1, (const int64_t[]){1})),
              *first = xcc_build_ints(&b, rank, starts),
              *last = xcc_build_binary(&b, XCVM_OP_Add, xcc_build_ints(&b, rank, ends), condition);
    return first != NULL && last != NULL
               ? xcc_apply(&b, Slice, y, .x = XCC_IN(x), .starts = XCC_IN(first), .ends = XCC_IN(last))
               : NULL;
}

/* Binds each tensor from outside that the graph reads to one of open sizes. */
static xcvm_status open_captured(xcc_lowering *n, const Onnx__GraphProto *graph, xcc_scope *scope)
{
    for (size_t i = 0; i < graph->n_node; i++) {
        const Onnx__NodeProto *node = graph->node[i];
        XCVM_TRY(xcc_poll(n->m));
        for (size_t k = 0; k < node->n_input; k++) {
            xcc_value *x;
            if (xcc_table_lookup(&scope->names, node->input[k]) != NULL ||
                !xcc_scope_find(n->scope, node->input[k], &x) || x == NULL || x->kind == XCC_CONSTANT ||
                x == n->inputs[0] || x->type.kind != XCVM_KIND_TENSOR || x->type.rank <= 0)
                continue;
            xcc_value *open = open_sizes(n, scope->graph, x);
            if (open == NULL)
                return xcc_failure(n);
            XCVM_TRY(xcc_scope_bind(n->importer, scope, node->input[k], open, "the value"));
        }
        for (size_t k = 0; k < node->n_attribute; k++)
            if (node->attribute[k]->g != NULL)
                XCVM_TRY(open_captured(n, node->attribute[k]->g, scope));
    }
    return XCVM_OK;
}

static xcvm_status lower_branch(xcc_lowering *n, const Onnx__GraphProto *graph, xcc_graph *branch, bool open,
                                xcc_value ***results)
{
    xcc_scope *outer = n->scope;
    xcc_scope opened = {.parent = outer, .graph = branch};
    if (open)
        XCVM_TRY(open_captured(n, graph, &opened));
    n->scope = open ? &opened : outer;
    xcvm_status status = xcc_lower_body(n, graph, branch, n->input_count - 1, n->inputs + 1, results);
    n->scope = outer;
    return status;
}

/* A branch that the run does not take may be impossible for the sizes of this program, as in a model with a branch for
 * each length of its input. Such a branch gets operands of open sizes, and fails when it is taken. If this is
 * impossible, too, the error for the known sizes is more useful. */
static xcvm_status attempt_branch(xcc_lowering *n, const Onnx__GraphProto *graph, xcc_graph *branch,
                                  xcc_value ***results)
{
    xcc_importer *imp = n->importer;
    xcc_problem **last = imp->last_problem;
    const size_t problems = imp->problem_count;
    const bool was_unsupported = n->is_unsupported;
    xcvm_status status = lower_branch(n, graph, branch, n->m->compilation->open_branches, results);
    n->m->compilation->branches++;
    if (n->m->compilation->open_branches || (status == XCVM_OK && imp->problem_count == problems) ||
        status == XCVM_OUT_OF_MEMORY || imp->attempts++ > MOST_ATTEMPTS)
        return status;
    xcc_problem *noted = *last, **end = imp->last_problem;
    const size_t count = imp->problem_count;
    const xcvm_error error = *n->m->error;
    const bool is_unsupported = n->is_unsupported;
    *last = NULL;
    imp->last_problem = last;
    imp->problem_count = problems;
    n->is_unsupported = was_unsupported;
    XCVM_TRY(empty_body(branch));
    xcvm_status second = lower_branch(n, graph, branch, true, results);
    if ((second == XCVM_OK && imp->problem_count == problems) || second == XCVM_OUT_OF_MEMORY)
        return second;
    *last = noted;
    imp->last_problem = end;
    imp->problem_count = count;
    n->is_unsupported = is_unsupported;
    *n->m->error = error;
    return status;
}

static bool is_decided(const xcc_value *v)
{
    return xcc_is_constant(v) && v->type.kind == XCVM_KIND_TENSOR && v->type.dtype == XCVM_BOOL &&
           v->type.data != NULL && xcvm_element_count(&v->type) == 1;
}

static bool is_true(const xcc_value *v) { return *XCVM_CDATA(bool, &v->type); }

/* The condition is known, so that only one branch is imported, in place of the node. */
static xcvm_status lower_taken(xcc_lowering *n, const Onnx__GraphProto *graph)
{
    xcc_value **results;
    XCVM_TRY(xcc_lower_body(n, graph, n->scope->graph, n->input_count - 1, n->inputs + 1, &results));
    for (size_t i = 0; i < n->output_count; i++)
        XCVM_TRY(xcc_bind(n, i, results[i]));
    return XCVM_OK;
}

xcvm_status xcc_lower_if(xcc_lowering *n)
{
    static const char *const names[] = {"then_branch", "else_branch"};
    const Onnx__GraphProto *graphs[2];
    xcc_value **results[2];
    /* In ONNX+ the branches may have inputs, which are the operands after the condition. */
    XCVM_TRY(xcc_need_inputs(n, 1, SIZE_MAX));
    for (size_t i = 0; i < 2; i++)
        XCVM_TRY(xcc_attribute_graph(n, names[i], &graphs[i]));
    const size_t count = graphs[0]->n_output;
    XCVM_CHECK(n->m->error, graphs[1]->n_output == count, INVALID_MODEL, "the branches have %zu and %zu results", count,
               graphs[1]->n_output);
    XCVM_CHECK(n->m->error, n->output_count <= count, INVALID_MODEL,
               "the node has %zu results, and the branches have %zu", n->output_count, count);
    if (is_decided(n->inputs[0]))
        return lower_taken(n, graphs[is_true(n->inputs[0]) ? 0 : 1]);
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
        XCVM_TRY(attempt_branch(n, graphs[i], node->bodies[i], &results[i]));
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

static xcvm_status fill_body(xcc_lowering *n, xcc_node *loop, const xcc_loop_body *body)
{
    xcc_builder outer = n->b;
    n->b.graph = loop->bodies[0];
    n->b.before = NULL;
    xcvm_status status = body->fill(n, loop, body->context);
    n->b = outer;
    return status;
}

/* One attempt; *changed: the states do not keep the types that the body was lowered for. */
static xcvm_status attempt_body(xcc_lowering *n, xcc_node *loop, const xcc_loop_body *body, bool *changed, bool *failed)
{
    const size_t problems = n->importer->problem_count;
    *changed = false;
    xcvm_status status = fill_body(n, loop, body);
    if (status == XCVM_OK)
        status = xcc_loop_widen(loop, changed);
    *failed = status != XCVM_OK || n->importer->problem_count > problems;
    return status;
}

/* The body cannot be lowered for the initial shapes of the states. Open shapes may succeed. If they do not, the error
 * for the known shapes is more useful. */
static xcvm_status attempt_open(xcc_lowering *n, xcc_node *loop, const xcc_loop_body *body, xcvm_status status,
                                xcc_problem **last, size_t problems)
{
    xcc_importer *imp = n->importer;
    xcc_problem *noted = *last, **end = imp->last_problem;
    const size_t count = imp->problem_count;
    const xcvm_error error = *n->m->error;
    const bool is_unsupported = n->is_unsupported;
    bool changed, failed;
    *last = NULL;
    imp->last_problem = last;
    imp->problem_count = problems;
    n->is_unsupported = false;
    XCVM_TRY(empty_body(loop->bodies[0]));
    open_shapes(loop->bodies[0]);
    xcvm_status second = attempt_body(n, loop, body, &changed, &failed);
    if (!failed || second == XCVM_OUT_OF_MEMORY)
        return second;
    *last = noted;
    imp->last_problem = end;
    imp->problem_count = count;
    n->is_unsupported = is_unsupported;
    *n->m->error = error;
    return status;
}

/* Lowers the body with the initial types of the states. If an iteration changes a type, lowers it again with the types
 * that hold in all iterations. */
static xcvm_status lower_to_fixpoint(xcc_lowering *n, xcc_node *loop, const xcc_loop_body *body)
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
        XCVM_CHECK(n->m->error, attempt < 2 * ATTEMPTS, UNSUPPORTED, "the types of the loop's states have no fixpoint");
        imp->attempts++;
        XCVM_TRY(empty_body(graph));
        if (attempt >= ATTEMPTS || imp->attempts > MOST_ATTEMPTS)
            open_shapes(graph);
    }
    return xcc_node_infer(loop);
}

xcvm_status xcc_build_loop(xcc_lowering *n, size_t input_count, xcc_value *const *inputs, size_t output_count,
                           xcc_value *const *outputs, const xcc_loop_body *body)
{
    xcc_node *loop = xcc_append_control(&n->b, XCC_LOOP, input_count, inputs, output_count, outputs, 1);
    return loop != NULL ? lower_to_fixpoint(n, loop, body) : xcc_failure(n);
}

xcc_value **xcc_build_values(xcc_lowering *n, size_t count)
{
    xcc_value **values = xcc_alloc(n->m, count * sizeof *values);
    for (size_t i = 0; values != NULL && i < count; i++)
        if ((values[i] = xcc_value_create(n->b.graph, NULL)) == NULL)
            return NULL;
    return values;
}

xcvm_status xcc_build_loop_outputs(xcc_lowering *n, xcc_node *loop, size_t count, xcc_value *const *values)
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

/* Dimensions from `first` up to, but without, `last` of a shape; counted from its end below 0, to the end at 0. Unlike
 * a slice this fails where there are fewer. */
static xcc_value *dims_of(xcc_lowering *n, xcc_value *shape, int64_t first, int64_t last)
{
    int64_t indices[XCVM_MAX_RANK];
    size_t count = 0;
    for (int64_t i = first; i < last && count < XCVM_MAX_RANK; i++)
        indices[count++] = i;
    return xcc_build_gather(&n->b, shape, xcc_build_ints(&n->b, count, indices), 0);
}

/* Moves the first axis of a tensor of unknown rank to `axis`: the axes before and after that position are merged
 * meanwhile. */
static xcc_value *move_first_axis(xcc_lowering *n, xcc_value *x, int64_t axis)
{
    xcc_value *shape = xcc_build_shape_of(&n->b, x), *size = xcc_build_dim_of(&n->b, x, 0), *before, *behind;
    if (axis > 0) {
        before = dims_of(n, shape, 1, axis + 1);
        behind = xcc_build_slice(&n->b, shape, 0, axis + 1, INT64_MAX, 1);
    } else {
        before = xcc_build_slice(&n->b, shape, 0, 1, axis == -1 ? INT64_MAX : axis + 1, 1);
        behind = dims_of(n, shape, axis + 1, 0);
    }
    xcc_value *parts[] = {size, xcc_build_reduce(&n->b, XCVM_OP_ReduceProd, before, NULL, true),
                          xcc_build_reduce(&n->b, XCVM_OP_ReduceProd, behind, NULL, true)};
    xcc_value *joined = xcc_build_reshape_to(&n->b, x, xcc_build_concat(&n->b, 3, parts, 0));
    xcc_value *moved = xcc_build_transpose(&n->b, joined, 3, (const int64_t[]){1, 0, 2});
    return xcc_build_reshape_to(&n->b, moved, xcc_build_concat(&n->b, 3, (xcc_value *[]){before, size, behind}, 0));
}

xcvm_status xcc_build_stacked(xcc_lowering *n, xcc_value **stacked, bool reversed, int64_t axis)
{
    int64_t perm[XCVM_MAX_RANK];
    if (reversed)
        *stacked = xcc_build_slice(&n->b, *stacked, 0, -1, INT64_MIN + 1, -1);
    if (*stacked == NULL)
        return xcc_failure(n);
    const int rank = (*stacked)->type.rank;
    XCVM_CHECK(n->m->error, axis >= -XCVM_MAX_RANK && axis < XCVM_MAX_RANK, OUT_OF_RANGE, "axis is %lld",
               (long long)axis);
    if (rank >= 0)
        XCVM_TRY(xcc_need_axis(n, axis, rank, &axis));
    for (int i = 0; i < rank; i++)
        perm[i] = i < axis ? i + 1 : i == axis ? 0 : i;
    if (axis != 0)
        *stacked =
            rank >= 0 ? xcc_build_transpose(&n->b, *stacked, (size_t)rank, perm) : move_first_axis(n, *stacked, axis);
    return *stacked != NULL ? XCVM_OK : xcc_failure(n);
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

/* Returns true if the model needs the content of the optional state, according to the type declared in the body. */
static bool wants_element(const Onnx__GraphProto *graph, size_t state)
{
    const Onnx__TypeProto *type = graph->output[state + 1]->type;
    return type != NULL && type->value_case != ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE &&
           type->value_case != ONNX__TYPE_PROTO__VALUE__NOT_SET;
}

xcvm_status xcc_lower_loop(xcc_lowering *n)
{
    const Onnx__GraphProto *graph;
    int64_t axis; /* ONNX+: where scan outputs are stacked */
    XCVM_TRY(xcc_attribute_graph(n, "body", &graph));
    XCVM_TRY(xcc_attribute_int(n, "chainer_stack_axis", 0, &axis));
    XCVM_CHECK(n->m->error, graph->n_input >= 2, INVALID_MODEL,
               "the body has %zu inputs, iteration and condition are needed", graph->n_input);
    const size_t states = graph->n_input - 2;
    XCVM_CHECK(n->m->error, graph->n_output > states, INVALID_MODEL, "the body has %zu outputs, %zu are needed",
               graph->n_output, states + 1);
    XCVM_CHECK(n->m->error, n->input_count == states + 2 || (n->input_count < 2 && states == 0), INVALID_MODEL,
               "%zu operands are given, %zu are needed", n->input_count, states + 2);
    for (size_t i = 2; i < n->input_count; i++)
        XCVM_CHECK(n->m->error, n->inputs[i] != NULL, INVALID_MODEL, "operand %zu is missing", i);
    const xcc_value *trips = xcc_input(n, 0), *cond = xcc_input(n, 1);
    XCVM_CHECK(n->m->error, trips == NULL || (trips->type.kind == XCVM_KIND_TENSOR && trips->type.dtype == XCVM_I64),
               TYPE_MISMATCH, "the trip count is no i64 tensor");
    XCVM_CHECK(n->m->error, cond == NULL || (cond->type.kind == XCVM_KIND_TENSOR && cond->type.dtype == XCVM_BOOL),
               TYPE_MISMATCH, "the condition is no boolean tensor");
    const size_t count = graph->n_output - 1;
    XCVM_CHECK(n->m->error, n->output_count <= count, INVALID_MODEL, "the node has %zu results, and the body has %zu",
               n->output_count, count);
    xcc_value **outputs = xcc_alloc(n->m, count * sizeof *outputs);
    if (outputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        if (!xcc_wants(n, i))
            continue;
        const bool changes = i < states ? is_optional(n->inputs[i + 2]) && wants_element(graph, i) : axis != 0;
        outputs[i] = changes ? xcc_value_create(n->b.graph, NULL) : xcc_result(n, i);
        if (outputs[i] == NULL)
            return xcc_failure(n);
    }
    xcc_loop_body body = {fill_loop, (void *)(uintptr_t)graph};
    XCVM_TRY(xcc_build_loop(n, states + 2, n->inputs, count, outputs, &body));
    for (size_t i = 0; i < count; i++) {
        if (!xcc_wants(n, i) || n->outputs[i] != NULL)
            continue;
        xcc_value *v = outputs[i];
        if (i < states) {
            v = xcc_build_unary(&n->b, XCVM_OP_OptionalGetElement, v);
        } else {
            XCVM_TRY(xcc_build_stacked(n, &v, false, axis));
        }
        XCVM_TRY(xcc_bind(n, i, v));
    }
    return XCVM_OK;
}

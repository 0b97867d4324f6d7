/* Import of nodes, one after the other; calls of the model's own functions are replaced by their nodes. */
#include "compiler/ir/evaluate.h"
#include "compiler/import_onnx/import.h"
#include "compiler/import_onnx/lower/attributes.h"
#include "compiler/import_onnx/lower/lowering.h"

#include <string.h>

enum { DEEPEST_CALL = 32, SPARE_INPUTS = 8 };

/* Limits of the expansion of function calls: nodes beyond those of the model and its functions, and bytes of messages,
 * absolute and as a multiple of the model's size. */
enum { MOST_INLINED = 1 << 18, INLINED_RATIO = 4 };
#define INLINED_BYTES ((size_t)256 << 20)

int64_t xcc_opset_version(const xcc_frame *frame, const char *domain)
{
    const struct xcc_table_entry *entry = xcc_table_lookup(frame->opsets, domain);
    return entry != NULL ? entry->value : 0;
}

/* ---- Problems ---- */

xcvm_status xcc_problem_note(xcc_importer *imp, const Onnx__NodeProto *node, int64_t version)
{
    xcc_module *m = imp->m;
    xcvm_status status = m->error->status;
    if (status == XCVM_OK)
        return xcvm_error_set(m->error, XCVM_INTERNAL, "the lowering of %s failed without a reason", node->op_type);
    if (status != XCVM_UNSUPPORTED && status != XCVM_INVALID_MODEL && status != XCVM_TYPE_MISMATCH &&
        status != XCVM_SHAPE_MISMATCH && status != XCVM_OUT_OF_RANGE && status != XCVM_INVALID_ARGUMENT)
        return status;
    char reason[sizeof m->error->message];
    memcpy(reason, m->error->message, sizeof reason);
    xcc_problem *p = xcc_alloc(m, sizeof *p);
    if (p == NULL || (p->reason = xcc_string(m, reason, strlen(reason))) == NULL)
        return XCVM_OUT_OF_MEMORY;
    p->status = status;
    p->node = xcc_node_label(node);
    p->op = node->op_type;
    p->domain = xcc_domain(node->domain);
    p->version = version;
    *imp->last_problem = p;
    imp->last_problem = &p->next;
    imp->problem_count++;
    return XCVM_OK;
}

/* ---- Survey ---- */

static xcvm_status check_operator(xcc_importer *imp, const xcc_frame *frame, const Onnx__NodeProto *node)
{
    xcvm_error *error = imp->m->error;
    const char *domain = xcc_domain(node->domain);
    int64_t version = xcc_opset_version(frame, domain);
    const xcc_operator_row *op = imp->find_operator(domain, node->op_type);
    if (op == NULL)
        return xcvm_error_set(error, XCVM_UNSUPPORTED, "there is no such operator%s%s", domain[0] != '\0' ? " in " : "",
                              domain);
    XCVM_CHECK(error, version > 0, INVALID_MODEL, "the model does not say which opset of '%s' it uses", domain);
    XCVM_CHECK(error, version >= xcc_operator_since(&op->info), UNSUPPORTED,
               "opset %lld has no such operator, it came with %lld", (long long)version,
               (long long)xcc_operator_since(&op->info));
    return XCVM_OK;
}

static xcvm_status survey_function(xcc_importer *imp, xcc_function *f, const xcc_frame *caller)
{
    if (f->surveyed)
        return XCVM_OK;
    f->surveyed = true;
    /* A chain of calls that is too deep is refused where it is imported. */
    if (caller->depth >= DEEPEST_CALL)
        return XCVM_OK;
    XCVM_TRY(xcc_function_open(imp, f));
    xcc_frame frame = {.caller = caller, .function = f, .opsets = &f->opsets, .depth = caller->depth + 1};
    return xcc_import_survey(imp, &frame, f->proto->node, f->proto->n_node);
}

xcvm_status xcc_import_survey(xcc_importer *imp, const xcc_frame *frame, Onnx__NodeProto *const *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const Onnx__NodeProto *node = nodes[i];
        XCVM_TRY(xcc_poll(imp->m));
        XCVM_CHECK(imp->m->error, node->op_type != NULL && node->op_type[0] != '\0', INVALID_MODEL,
                   "node '%s' has no operator", xcc_node_label(node));
        for (size_t k = 0; k < node->n_attribute; k++) {
            const Onnx__AttributeProto *a = node->attribute[k];
            if (a->g != NULL)
                XCVM_TRY(xcc_import_survey(imp, frame, a->g->node, a->g->n_node));
            for (size_t j = 0; j < a->n_graphs; j++)
                XCVM_TRY(xcc_import_survey(imp, frame, a->graphs[j]->node, a->graphs[j]->n_node));
        }
        const char *domain = xcc_domain(node->domain);
        xcc_function *f;
        XCVM_TRY(xcc_function_find(imp, node, &f));
        if (f != NULL)
            XCVM_TRY(survey_function(imp, f, frame));
        else if (check_operator(imp, frame, node) != XCVM_OK)
            XCVM_TRY(xcc_problem_note(imp, node, xcc_opset_version(frame, domain)));
    }
    return XCVM_OK;
}

/* ---- Lowering ---- */

static xcvm_status gather_inputs(xcc_lowering *n, bool *is_unsupported)
{
    const Onnx__NodeProto *node = n->proto;
    n->input_capacity = node->n_input + SPARE_INPUTS;
    n->inputs = xcc_alloc(n->m, n->input_capacity * sizeof *n->inputs);
    n->outputs = xcc_alloc(n->m, (node->n_output + 1) * sizeof *n->outputs);
    if (n->inputs == NULL || n->outputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    *is_unsupported = false;
    for (size_t i = 0; i < node->n_input; i++) {
        if (node->input[i][0] == '\0')
            continue;
        XCVM_CHECK(n->m->error, xcc_scope_find(n->scope, node->input[i], &n->inputs[i]), INVALID_MODEL,
                   "node '%s' (%s) reads '%s', which no node, input or initializer defines", xcc_node_label(node),
                   node->op_type, node->input[i]);
        if (n->inputs[i] != NULL)
            n->input_count = i + 1;
        *is_unsupported = *is_unsupported || n->inputs[i] == n->importer->unsupported_result;
    }
    for (size_t i = 0; i < node->n_output; i++)
        if (node->output[i][0] != '\0')
            n->output_count = i + 1;
    return XCVM_OK;
}

/* Counts a call of a function, whose nodes, names and constants are there once more for each. */
static xcvm_status count_call(xcc_importer *imp, const xcc_function *f)
{
    xcvm_error *error = imp->m->error;
    const size_t most =
        imp->model_bytes / INLINED_RATIO < INLINED_BYTES ? INLINED_BYTES : imp->model_bytes * INLINED_RATIO;
    imp->inlined += f->proto->n_node;
    XCVM_CHECK(error, imp->inlined <= MOST_INLINED + imp->nodes, UNSUPPORTED,
               "the calls of the model's functions come to more than %zu nodes", MOST_INLINED + imp->nodes);
    XCVM_CHECK(error, f->bytes <= most - imp->inlined_bytes, UNSUPPORTED,
               "the calls of the model's functions come to more than %zu bytes", most);
    imp->inlined_bytes += f->bytes;
    return XCVM_OK;
}

static xcvm_status inline_function(xcc_lowering *n, xcc_function *function)
{
    xcc_importer *imp = n->importer;
    const xcc_frame *caller = imp->frame;
    const Onnx__FunctionProto *f = function->proto;
    XCVM_CHECK(n->m->error, caller->depth < DEEPEST_CALL, INVALID_MODEL,
               "calls of functions are nested deeper than %d, or recursive", DEEPEST_CALL);
    XCVM_CHECK(n->m->error, n->input_count <= f->n_input && n->output_count <= f->n_output, INVALID_MODEL,
               "the function has %zu operands and %zu results, the node %zu and %zu", f->n_input, f->n_output,
               n->input_count, n->output_count);
    XCVM_TRY(count_call(imp, function));
    XCVM_TRY(xcc_function_open(imp, function));
    xcc_frame frame = {
        .caller = caller, .function = function, .opsets = &function->opsets, .call = n, .depth = caller->depth + 1};
    xcc_scope scope = {.graph = n->scope->graph};
    for (size_t i = 0; i < f->n_input; i++)
        XCVM_TRY(xcc_scope_bind(imp, &scope, f->input[i], xcc_input(n, i), "the function's operand"));
    for (size_t i = 0; i < n->attribute_count; i++)
        n->attributes[i].used = true;
    imp->frame = &frame;
    xcvm_status status = xcc_import_nodes(imp, &scope, f->node, f->n_node);
    imp->frame = caller;
    XCVM_TRY(status);
    for (size_t i = 0; i < n->output_count; i++) {
        if (!xcc_wants(n, i))
            continue;
        xcc_value *value;
        XCVM_TRY(xcc_import_output(imp, &scope, f->output[i], &value));
        if (value == imp->unsupported_result)
            n->outputs[i] = value;
        else
            XCVM_TRY(xcc_bind(n, i, value));
    }
    return XCVM_OK;
}

/* Attributes that Chainer Compiler adds for its own use. */
static void ignore_annotations(xcc_lowering *n)
{
    static const char *const names[] = {"chainer_order", "chainer_fusion_group", "chainer_host",
                                        "chainer_in_recomputing"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        xcc_attribute_ignore(n, names[i]);
}

static xcvm_status lower_node(xcc_lowering *n, xcc_function *f)
{
    XCVM_TRY(xcc_attributes_resolve(n));
    if (f != NULL)
        return inline_function(n, f);
    ignore_annotations(n);
    XCVM_TRY(n->op->lower(n));
    XCVM_TRY(xcc_attributes_check(n));
    for (size_t i = 0; i < n->output_count; i++)
        XCVM_CHECK(n->m->error, !xcc_wants(n, i) || n->outputs[i] != NULL, INVALID_MODEL, "%s has no result %zu",
                   n->op->info.name, i);
    return XCVM_OK;
}

static xcvm_status import_node(xcc_importer *imp, xcc_scope *scope, const Onnx__NodeProto *node)
{
    xcc_module *m = imp->m;
    XCVM_TRY(xcc_poll(m));
    const char *domain = xcc_domain(node->domain);
    xcc_lowering n = {.importer = imp, .m = m, .scope = scope, .proto = node, .first_id = m->value_count};
    n.number = ++imp->lowerings;
    n.b = (xcc_builder){.graph = scope->graph, .name = xcc_node_label(node), .origin = node->op_type};
    n.version = xcc_opset_version(imp->frame, domain);
    bool is_unsupported;
    XCVM_TRY(gather_inputs(&n, &is_unsupported));
    xcc_function *f;
    XCVM_TRY(xcc_function_find(imp, node, &f));
    if (f == NULL) {
        n.op = imp->find_operator(domain, node->op_type);
        /* The survey has noted these. */
        is_unsupported = is_unsupported || n.op == NULL || n.version < xcc_operator_since(&n.op->info);
    }
    if (!is_unsupported) {
        xcc_node *last = scope->graph->last;
        *m->error = (xcvm_error){.pc = -1};
        is_unsupported = lower_node(&n, f) != XCVM_OK;
        if (is_unsupported && !n.is_unsupported)
            XCVM_TRY(xcc_problem_note(imp, node, n.version));
        /* The function's own nodes were looked at one by one. */
        if (!is_unsupported && f == NULL)
            xcc_fold_behind(scope->graph, last, XCC_FOLDED_BYTES);
    }
    for (size_t i = 0; i < n.output_count; i++)
        if (xcc_wants(&n, i))
            XCVM_TRY(xcc_scope_bind(imp, scope, node->output[i],
                                    is_unsupported ? imp->unsupported_result : n.outputs[i], "the result"));
    return XCVM_OK;
}

xcvm_status xcc_import_nodes(xcc_importer *imp, xcc_scope *scope, Onnx__NodeProto *const *nodes, size_t count)
{
    size_t *order = xcc_alloc(imp->m, count * sizeof *order);
    if (order == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(xcc_import_order(imp, scope, nodes, count, order));
    for (size_t i = 0; i < count; i++)
        XCVM_TRY(import_node(imp, scope, nodes[order[i]]));
    return XCVM_OK;
}

/* ---- Graphs ---- */

/* Initializers are trainable, except integers, bools and strings, which have no gradient, and empty tensors. Those that
 * decide shapes become constants later (xcc_parameter_fix). */
static xcvm_status bind_tensor(xcc_importer *imp, xcc_scope *scope, const char *name, const xcc_tensor *t)
{
    const bool learned = xcvm_dtype_in(t->dtype, XCVM_TYPES_FLOAT) && t->count > 0;
    xcc_value *v =
        (learned ? xcc_parameter : xcc_constant)(scope->graph, name, t->dtype, t->rank, t->dims, t->data, true);
    if (v == NULL)
        return imp->m->error->status;
    return xcc_scope_bind(imp, scope, name, v, "initializer");
}

xcvm_status xcc_import_graph(xcc_importer *imp, xcc_scope *scope, const Onnx__GraphProto *graph)
{
    xcc_module *m = imp->m;
    for (size_t i = 0; i < graph->n_initializer + graph->n_sparse_initializer; i++) {
        XCVM_TRY(xcc_poll(m));
        bool sparse = i >= graph->n_initializer;
        const Onnx__SparseTensorProto *s = sparse ? graph->sparse_initializer[i - graph->n_initializer] : NULL;
        const Onnx__TensorProto *proto = sparse ? s->values : graph->initializer[i];
        XCVM_CHECK(m->error, proto != NULL && proto->name != NULL && proto->name[0] != '\0', INVALID_MODEL,
                   "initializer %zu of graph '%s' has no name", i, graph->name != NULL ? graph->name : "");
        if (graph == imp->model->graph && xcc_table_lookup(&imp->defaults, proto->name) != NULL)
            continue;
        xcc_tensor t;
        xcvm_status status =
            sparse ? xcc_sparse_read(imp, s, &t) : xcc_tensor_read(proto, &m->arena, &imp->files, &t, m->error);
        if (status != XCVM_OK) {
            xcvm_error_prefix(m->error, "initializer '%s'", proto->name);
            return status;
        }
        XCVM_TRY(bind_tensor(imp, scope, proto->name, &t));
    }
    return xcc_import_nodes(imp, scope, graph->node, graph->n_node);
}

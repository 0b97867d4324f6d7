/* The import: an ONNX model becomes a module, by its opsets, inputs, initializers, nodes and outputs. */
#include "compiler/import_onnx/import_onnx.h"
#include "compiler/import_onnx/import.h"
#include "compiler/import_onnx/operators.h"
#include "compiler/ir/compilation.h"
#include "compiler/onnx_model/onnx_model.h"

#include <stdio.h>
#include <string.h>

enum { NEWEST_OPSET = 28 };

static xcvm_status read_model(xcc_importer *imp, const void *bytes, size_t count)
{
    xcc_module *m = imp->m;
    Onnx__ModelProto *model;
    XCVM_TRY(xcc_model_unpack(bytes, count, xcc_stop_of(m), &m->arena, &model, m->error));
    imp->model = model;
    imp->model_bytes = count;
    xcc_rewritten form;
    if (m->options->inference)
        XCVM_TRY(xcc_inference_form_rewrite(m, model, XCC_USES_BATCH | XCC_USES_RANDOM, &form));
    const char *name = imp->model->producer_name != NULL ? imp->model->producer_name : "";
    const char *version = imp->model->producer_version != NULL ? imp->model->producer_version : "";
    size_t length = strlen(name) + strlen(version) + 2;
    char *producer = xcc_alloc(m, length);
    if (producer == NULL)
        return XCVM_OUT_OF_MEMORY;
    snprintf(producer, length, "%s%s%s", name, version[0] != '\0' ? " " : "", version);
    m->compilation->producer = producer;
    for (size_t i = 0; i < imp->model->n_metadata_props; i++) {
        const Onnx__StringStringEntryProto *entry = imp->model->metadata_props[i];
        if (entry->key == NULL || entry->value == NULL || entry->value[0] == '\0')
            continue;
        if (strcmp(entry->key, XCC_CLASS_NAMES) == 0)
            m->compilation->class_names = entry->value;
        else if (strcmp(entry->key, XCC_CLASS_OUTPUT) == 0)
            m->compilation->class_output = entry->value;
    }
    return XCVM_OK;
}

static xcvm_status read_opsets(xcc_importer *imp, xcc_frame *frame)
{
    const Onnx__ModelProto *model = imp->model;
    XCVM_TRY(xcc_opsets_read(imp->m, model->opset_import, model->n_opset_import, &imp->opsets));
    /* Models of the first versions do not import opsets, there was only one. */
    if (model->n_opset_import == 0 && model->ir_version < 3)
        XCVM_TRY(xcc_table_put(imp->m, &imp->opsets, "", 1));
    XCVM_CHECK(imp->m->error, model->n_opset_import > 0 || imp->opsets.count > 0, INVALID_MODEL,
               "the model does not say which opset it uses");
    frame->opsets = &imp->opsets;
    int64_t version = xcc_opset_version(frame, "");
    XCVM_CHECK(imp->m->error, version <= NEWEST_OPSET, UNSUPPORTED, "the model uses opset %lld, %d is the newest known",
               (long long)version, NEWEST_OPSET);
    return XCVM_OK;
}

static xcvm_status list_initializers(xcc_importer *imp, const Onnx__GraphProto *g, xcc_table *names)
{
    for (size_t i = 0; i < g->n_initializer + g->n_sparse_initializer; i++) {
        const Onnx__TensorProto *t =
            i < g->n_initializer ? g->initializer[i] : g->sparse_initializer[i - g->n_initializer]->values;
        if (t != NULL && t->name != NULL)
            XCVM_TRY(xcc_table_put(imp->m, names, t->name, 0));
    }
    return XCVM_OK;
}

/* Nothing but the model's outputs may have their names in the program. */
static xcvm_status reserve_outputs(xcc_importer *imp, const Onnx__GraphProto *g)
{
    xcc_module *m = imp->m;
    XCVM_CHECK(m->error, g->n_output > 0, INVALID_MODEL, "the model has no outputs");
    for (size_t i = 0; i < g->n_output; i++) {
        const char *name = g->output[i]->name;
        XCVM_CHECK(m->error, name != NULL && name[0] != '\0', INVALID_MODEL, "output %zu has no name", i);
        XCVM_CHECK(m->error, xcc_table_lookup(&imp->outputs, name) == NULL, INVALID_MODEL, "two outputs are named '%s'",
                   name);
        XCVM_TRY(xcc_table_put(m, &imp->outputs, name, (int64_t)i));
        if (xcc_value_create(m->graph, name) == NULL)
            return XCVM_OUT_OF_MEMORY;
    }
    return XCVM_OK;
}

/* Fails for a name that is no input with a default, and lists the inputs with defaults. */
static xcvm_status unknown_default(const xcc_importer *imp, const Onnx__GraphProto *g, const xcc_table *initializers,
                                   const char *name)
{
    enum { LISTED = 8 };
    char list[512] = "";
    size_t length = 0, count = 0;
    for (size_t i = 0; i < g->n_input; i++) {
        const char *input = g->input[i]->name;
        if (input == NULL || xcc_table_lookup(initializers, input) == NULL)
            continue;
        if (count++ < LISTED)
            length +=
                (size_t)snprintf(list + length, sizeof list - length, "%s\"%.50s\"", count > 1 ? ", " : "", input);
    }
    if (count > LISTED)
        snprintf(list + length, sizeof list - length, " and %zu more", count - LISTED);
    return xcvm_error_set(imp->m->error, XCVM_INVALID_ARGUMENT,
                          "\"%.200s\" is not an input with a default (inputs with defaults: %s)", name,
                          count > 0 ? list : "none");
}

/* Finds the initializers that stay inputs: those that the options name. */
static xcvm_status list_defaults(xcc_importer *imp, const Onnx__GraphProto *g)
{
    xcc_module *m = imp->m;
    const xcc_options *o = m->options;
    xcc_table initializers = {.count = 0}, inputs = {.count = 0};
    if (o->default_input_count == 0)
        return XCVM_OK;
    XCVM_CHECK(m->error, imp->model->ir_version >= XCC_DEFAULTS_VERSION, INVALID_ARGUMENT,
               "the model is of IR version %lld, in which initializers are no defaults of inputs; that begins with %d",
               (long long)imp->model->ir_version, XCC_DEFAULTS_VERSION);
    XCVM_TRY(list_initializers(imp, g, &initializers));
    for (size_t i = 0; i < g->n_input; i++)
        if (g->input[i]->name != NULL)
            XCVM_TRY(xcc_table_put(m, &inputs, g->input[i]->name, 0));
    for (size_t i = 0; i < o->default_input_count; i++) {
        const char *name = o->default_inputs != NULL ? o->default_inputs[i] : NULL;
        XCVM_CHECK(m->error, name != NULL, INVALID_ARGUMENT, "the name of a default input is NULL");
        const bool found = xcc_table_lookup(&initializers, name) != NULL && xcc_table_lookup(&inputs, name) != NULL;
        if (!found)
            return unknown_default(imp, g, &initializers, name);
        XCVM_TRY(xcc_table_put(m, &imp->defaults, name, 0));
    }
    return XCVM_OK;
}

/* An open dimension without a name gets a size by the name of the input and the axis, such as "x.1". */
static xcvm_status fix_unnamed_dims(xcc_module *m, const char *name, xcvm_value *type)
{
    const size_t length = strlen(name);
    for (int i = 0; type->kind == XCVM_KIND_TENSOR && i < type->rank; i++)
        for (size_t k = 0; k < m->options->dim_count && type->dims[i] < 0; k++) {
            const char *asked = m->options->dims[k].name;
            char axis[8];
            snprintf(axis, sizeof axis, ".%d", i);
            if (xcc_symbol_name(m, type->dims[i]) != NULL || strncmp(asked, name, length) != 0 ||
                strcmp(asked + length, axis) != 0)
                continue;
            type->dims[i] = xcc_symbol(m, asked);
            XCVM_CHECK(m->error, type->dims[i] != XCVM_ANY_DIM, OUT_OF_MEMORY, "no memory for the dimension");
        }
    return XCVM_OK;
}

static xcvm_status bind_inputs(xcc_importer *imp, xcc_scope *scope, const Onnx__GraphProto *g)
{
    xcc_module *m = imp->m;
    xcc_table initializers = {.count = 0};
    XCVM_TRY(list_defaults(imp, g));
    XCVM_TRY(list_initializers(imp, g, &initializers));
    xcc_value **inputs = xcc_alloc(m, g->n_input * sizeof *inputs);
    if (inputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    size_t count = 0;
    for (size_t i = 0; i < g->n_input; i++) {
        const char *name = g->input[i]->name;
        XCVM_CHECK(m->error, name != NULL && name[0] != '\0', INVALID_MODEL, "input %zu has no name", i);
        if (xcc_table_lookup(&initializers, name) != NULL && xcc_table_lookup(&imp->defaults, name) == NULL)
            continue;
        xcc_value *v = xcc_value_create(m->graph, name);
        if (v == NULL)
            return XCVM_OUT_OF_MEMORY;
        v->name = name;
        if (xcc_type_read(imp->m, g->input[i]->type, &v->type) != XCVM_OK) {
            xcvm_error_prefix(m->error, "input '%s'", name);
            return m->error->status;
        }
        XCVM_TRY(fix_unnamed_dims(m, name, &v->type));
        XCVM_TRY(xcc_scope_bind(imp, scope, name, v, "input"));
        inputs[count++] = v;
    }
    return xcc_graph_set_inputs(m->graph, count, inputs);
}

/* Every output is the result of a node, under the output's name, as that is where the program's outputs get theirs. */
static xcvm_status bind_outputs(xcc_importer *imp, const xcc_scope *scope, const Onnx__GraphProto *g)
{
    xcc_module *m = imp->m;
    xcc_value **outputs = xcc_alloc(m, g->n_output * sizeof *outputs);
    if (outputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < g->n_output; i++) {
        const char *name = g->output[i]->name;
        xcc_value *v;
        XCVM_TRY(xcc_import_output(imp, scope, name, &v));
        outputs[i] = v;
        if (v == imp->unsupported_result || (v->producer != NULL && strcmp(v->name, name) == 0))
            continue;
        xcc_builder b = {.graph = m->graph, .name = name, .origin = "Identity"};
        outputs[i] = xcc_value_create(m->graph, NULL);
        if (outputs[i] == NULL)
            return XCVM_OUT_OF_MEMORY;
        outputs[i]->name = name;
        if (xcc_emit(&b, Identity, .y = XCC_OUT(outputs[i]), .x = XCC_IN(v)) == NULL)
            return m->error->status;
    }
    return imp->problem_count > 0 ? XCVM_OK : xcc_graph_set_outputs(m->graph, g->n_output, outputs);
}

/* Adds the names that a graph's nodes, those of its bodies and its outputs refer to. */
static xcvm_status list_read_names(xcc_module *m, const Onnx__GraphProto *g, xcc_table *names)
{
    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__NodeProto *node = g->node[i];
        XCVM_TRY(xcc_poll(m));
        for (size_t k = 0; k < node->n_input; k++)
            XCVM_TRY(xcc_table_put(m, names, node->input[k], 0));
        for (size_t k = 0; k < node->n_attribute; k++)
            if (node->attribute[k]->g != NULL)
                XCVM_TRY(list_read_names(m, node->attribute[k]->g, names));
    }
    for (size_t i = 0; i < g->n_output; i++)
        if (g->output[i]->name != NULL)
            XCVM_TRY(xcc_table_put(m, names, g->output[i]->name, 0));
    return XCVM_OK;
}

/* An input that is unused, or used only for its element type, may have any shape; ONNX's own cases pass other shapes
 * than they declare. */
static xcvm_status open_unread_inputs(const xcc_importer *imp)
{
    const xcc_graph *g = imp->m->graph;
    xcc_table names = {.count = 0};
    for (size_t i = 0; i < g->input_count; i++) {
        xcc_value *v = g->inputs[i];
        if (v->uses > 0 || v->type.kind != XCVM_KIND_TENSOR)
            continue;
        if (names.count == 0)
            XCVM_TRY(list_read_names(imp->m, imp->model->graph, &names));
        if (xcc_table_lookup(&imp->likes, v->name) != NULL || xcc_table_lookup(&names, v->name) == NULL)
            v->type.rank = -1;
    }
    return XCVM_OK;
}

/* ---- Problems ---- */

static size_t describe_problem(const xcc_problem *p, char *text, size_t size)
{
    int length = snprintf(text, size, "node '%s' (%s%s%s, opset %lld): %s", p->node, p->domain,
                          p->domain[0] != '\0' ? "." : "", p->op, (long long)p->version, p->reason);
    return length < 0 ? 0 : (size_t)length;
}

static void copy_text(char *to, size_t size, const char *text)
{
    size_t length = strlen(text);
    if (length > size - 1)
        length = size - 1;
    memcpy(to, text, length);
    to[length] = '\0';
}

/* All problems go to the sink, one on a line, and as many as fit into the message. */
static xcvm_status fail(xcc_importer *imp, xcvm_sink report)
{
    char message[sizeof imp->m->error->message] = "", line[1024], more[48] = "";
    size_t used = 0, shown = 0;
    bool full = false;
    xcvm_status status = XCVM_UNSUPPORTED;
    for (const xcc_problem *p = imp->problems; p != NULL; p = p->next) {
        if (p->status != XCVM_UNSUPPORTED && status == XCVM_UNSUPPORTED)
            status = p->status;
        size_t length = describe_problem(p, line, sizeof line - 1);
        if (length > sizeof line - 2)
            length = sizeof line - 2;
        full = full || used + length + 1 > sizeof message - (imp->problem_count > 1 ? sizeof more : 1);
        if (!full) {
            if (used > 0)
                message[used++] = '\n';
            memcpy(message + used, line, length);
            used += length;
            message[used] = '\0';
            shown++;
        }
        line[length++] = '\n';
        if (report.call != NULL && !report.call(report.user, line, length))
            return xcvm_error_set(imp->m->error, XCVM_IO, "the report cannot be written");
    }
    if (shown == 0)
        copy_text(message, sizeof message - sizeof more, (describe_problem(imp->problems, line, sizeof line), line));
    if (imp->problem_count > (shown > 0 ? shown : 1))
        snprintf(more, sizeof more, "\nand %zu more nodes", imp->problem_count - (shown > 0 ? shown : 1));
    xcvm_error_set(imp->m->error, status, "%s%s", message, more);
    copy_text(imp->m->error->node, sizeof imp->m->error->node, imp->problems->node);
    copy_text(imp->m->error->instruction, sizeof imp->m->error->instruction, imp->problems->op);
    return status;
}

static xcvm_status import_model(xcc_importer *imp, const void *bytes, size_t count, xcvm_sink report)
{
    xcc_module *m = imp->m;
    XCVM_TRY(read_model(imp, bytes, count));
    const Onnx__GraphProto *g = imp->model->graph;
    xcc_frame frame = {.function = NULL};
    XCVM_TRY(read_opsets(imp, &frame));
    imp->frame = &frame;
    if ((imp->unsupported_result = xcc_alloc(m, sizeof *imp->unsupported_result)) == NULL)
        return XCVM_OUT_OF_MEMORY;
    imp->last_problem = &imp->problems;
    XCVM_TRY(xcc_functions_read(imp));
    XCVM_TRY(xcc_import_survey(imp, &frame, g->node, g->n_node));
    XCVM_TRY(reserve_outputs(imp, g));
    xcc_scope scope = {.graph = m->graph};
    XCVM_TRY(bind_inputs(imp, &scope, g));
    XCVM_TRY(xcc_import_graph(imp, &scope, g));
    XCVM_TRY(bind_outputs(imp, &scope, g));
    XCVM_TRY(open_unread_inputs(imp));
    return imp->problem_count > 0 ? fail(imp, report) : XCVM_OK;
}

xcvm_status xcc_import(xcc_module *m, const void *model, size_t count, const char *dir, xcvm_sink report)
{
    /* The reason of a failure is read from the error, so an error is required. */
    xcvm_error *error = m->error, own = {.pc = -1};
    if (error == NULL)
        m->error = &own;
    *m->error = own;
    xcc_importer imp = {.m = m,
                        .find_operator = xcc_operator_find,
                        .import_graph = xcc_import_graph,
                        .files = {.module = m, .dir = dir}};
    xcvm_status status = import_model(&imp, model, count, report);
    if (status == XCVM_OK)
        *m->error = own;
    m->error = error;
    return status;
}

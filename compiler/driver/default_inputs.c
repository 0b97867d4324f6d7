/* Listing the inputs of a model that have defaults, field by field, without unpacking its weights. */
#include "compiler/onnx_model/onnx_model.h"
#include "proto/recognize.h"

/* Numbers of fields in onnx.proto. */
enum { MODEL_IR_VERSION = 1, GRAPH_SPARSE_INITIALIZER = 15, SPARSE_VALUES = 1 };

static xcvm_status name_of(xcc_module *m, const xcvm_wire_field *field, const char **name)
{
    xcvm_wire message = field->inside, text;
    if (field->number == GRAPH_SPARSE_INITIALIZER)
        XCVM_TRY(xcc_wire_find(message, SPARSE_VALUES, &message, m->error));
    XCVM_TRY(
        xcc_wire_find(message, field->number == XCC_GRAPH_INPUT ? XCC_INFO_NAME : XCC_TENSOR_NAME, &text, m->error));
    *name = xcc_string(m, text.at != NULL ? (const char *)text.at : "", (size_t)(text.end - text.at));
    return *name != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
}

/* Names of initializers go into the table; of inputs that are there, to the visitor. */
static xcvm_status visit_graph(xcc_module *m, xcvm_wire graph, xcc_table *initializers, xcc_name_visitor visit)
{
    for (;;) {
        xcvm_wire_field field;
        bool more;
        const char *name;
        XCVM_TRY(xcc_wire_next(&graph, &field, &more, m->error));
        if (!more)
            return XCVM_OK;
        const bool input = field.number == XCC_GRAPH_INPUT;
        const bool initializer = field.number == XCC_GRAPH_INITIALIZER || field.number == GRAPH_SPARSE_INITIALIZER;
        if (field.type != XCVM_WIRE_BYTES || (visit.call != NULL ? !input : !initializer))
            continue;
        XCVM_TRY(xcc_poll(m));
        XCVM_TRY(name_of(m, &field, &name));
        if (visit.call == NULL)
            XCVM_TRY(xcc_table_put(m, initializers, name, 0));
        else if (xcc_table_lookup(initializers, name) != NULL)
            visit.call(visit.user, name);
    }
}

static xcvm_status visit_model(xcc_module *m, const void *bytes, size_t count, xcc_name_visitor visit)
{
    xcvm_wire model = xcvm_wire_of(bytes, count), graph = {NULL, NULL};
    uint64_t version = 0;
    for (;;) {
        xcvm_wire_field field;
        bool more;
        XCVM_TRY(xcc_wire_next(&model, &field, &more, m->error));
        if (!more)
            break;
        if (field.number == MODEL_IR_VERSION && field.type == XCVM_WIRE_VARINT)
            version = field.value;
        else if (field.number == XCC_MODEL_GRAPH && field.type == XCVM_WIRE_BYTES)
            graph = field.inside;
    }
    XCVM_CHECK(m->error, graph.at != NULL, INVALID_MODEL, "the model has no graph");
    if (version < XCC_DEFAULTS_VERSION || version > INT64_MAX)
        return XCVM_OK;
    xcc_table initializers = {.count = 0};
    XCVM_TRY(visit_graph(m, graph, &initializers, (xcc_name_visitor){0}));
    return visit_graph(m, graph, &initializers, visit);
}

static xcvm_status list(const char *path, const void *bytes, size_t count, const xcc_options *options,
                        xcc_name_visitor visit, xcvm_error *error)
{
    xcc_module m;
    xcc_options o;
    xcc_model_file file = {.bytes = NULL};
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, visit.call != NULL, INVALID_ARGUMENT, "visit is NULL");
    XCVM_TRY(xcc_options_read(&o, options, error));
    xcvm_status status = xcc_module_init(&m, &o, error);
    if (status == XCVM_OK && path != NULL)
        status = xcc_model_file_open(&file, path, &m);
    if (status == XCVM_OK) {
        bytes = path != NULL ? file.bytes : bytes;
        count = path != NULL ? file.count : count;
        status = visit_model(&m, bytes, count, visit);
        (void)xcvm_recognize_failure(status, bytes, count, XCVM_FILE_MODEL, error);
    }
    if (path != NULL)
        xcc_model_file_close(&file);
    xcc_name_limit(&m, status);
    xcc_module_release(&m);
    return status;
}

xcvm_status xcc_visit_default_inputs_file(const char *path, const xcc_options *options, xcc_name_visitor visit,
                                          xcvm_error *error)
{
    XCVM_CHECK(error, path != NULL, INVALID_ARGUMENT, "path is NULL");
    return list(path, NULL, 0, options, visit, error);
}

xcvm_status xcc_visit_default_inputs(const void *model, size_t count, const xcc_options *options,
                                     xcc_name_visitor visit, xcvm_error *error)
{
    XCVM_CHECK(error, model != NULL || count == 0, INVALID_ARGUMENT, "model is NULL");
    return list(NULL, model, count, options, visit, error);
}

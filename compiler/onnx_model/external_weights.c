/* External weights of model files, for models that are written again. */
#include "compiler/onnx_model/external_data.h"
#include "compiler/onnx_model/tensor_proto.h"
#include "compiler/onnx_model/weights.h"
#include "proto/name_index.h"

struct xcc_external_weights {
    const xcvm_allocator *allocator;
    xcc_options options;
    xcc_module module; /* whose arena has all that follows, and which unmaps the files */
    xcc_external_files files;
    xcvm_value *values;
    size_t count;
    xcvm_name_index names;
    const char *nested;
};

static bool is_external(const Onnx__TensorProto *t)
{
    return t != NULL && t->has_data_location && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

static const char *name_of(const Onnx__TensorProto *t) { return t->name != NULL ? t->name : ""; }

/* Returns the first tensor with external data that is not an initializer of the graph. */
static void find_nested(xcc_external_weights *w, const Onnx__GraphProto *g, bool top);

static void find_in_nodes(xcc_external_weights *w, Onnx__NodeProto *const *nodes, size_t count)
{
    for (size_t i = 0; i < count && w->nested == NULL; i++)
        for (size_t k = 0; k < nodes[i]->n_attribute && w->nested == NULL; k++) {
            const Onnx__AttributeProto *a = nodes[i]->attribute[k];
            if (is_external(a->t))
                w->nested = name_of(a->t);
            for (size_t t = 0; t < a->n_tensors; t++)
                if (is_external(a->tensors[t]))
                    w->nested = name_of(a->tensors[t]);
            if (a->g != NULL)
                find_nested(w, a->g, false);
            for (size_t g = 0; g < a->n_graphs; g++)
                find_nested(w, a->graphs[g], false);
        }
}

static void find_nested(xcc_external_weights *w, const Onnx__GraphProto *g, bool top)
{
    for (size_t i = 0; i < g->n_initializer && !top; i++)
        if (is_external(g->initializer[i]))
            w->nested = name_of(g->initializer[i]);
    for (size_t i = 0; i < g->n_sparse_initializer; i++)
        if (is_external(g->sparse_initializer[i]->values) || is_external(g->sparse_initializer[i]->indices))
            w->nested = g->sparse_initializer[i]->values != NULL ? name_of(g->sparse_initializer[i]->values) : "";
    find_in_nodes(w, g->node, g->n_node);
}

static xcvm_status add_weight(xcc_external_weights *w, const Onnx__TensorProto *t, xcvm_error *error)
{
    xcvm_dtype dtype;
    size_t elements, bytes;
    const void *data;
    xcvm_value *value = &w->values[w->count];
    XCVM_TRY(xcc_dtype_read(t->data_type, &dtype, error));
    XCVM_CHECK(error, t->n_dims <= XCVM_MAX_RANK && xcvm_tensor_size(dtype, (int)t->n_dims, t->dims, &elements, &bytes),
               INVALID_MODEL, "initializer '%.200s' has no size", name_of(t));
    XCVM_TRY(xcc_external_data(&w->files, t, bytes, &data, error));
    xcvm_value_set_tensor(value, dtype, (int)t->n_dims, t->dims);
    value->data = (void *)(uintptr_t)data;
    value->bytes = bytes;
    XCVM_CHECK(error, xcvm_name_index_add(&w->names, &w->module.arena, name_of(t), strlen(name_of(t)), w->count),
               OUT_OF_MEMORY, "no memory for the names of weights");
    w->count++;
    return XCVM_OK;
}

static xcvm_status read_model(xcc_external_weights *w, const void *model, size_t count, const char *folder,
                              xcvm_error *error)
{
    ProtobufCMessage *message;
    XCVM_TRY(xcc_message_unpack(&onnx__model_proto__descriptor, model, count, (xcc_stop){0}, &w->module.arena, &message,
                                error));
    const Onnx__ModelProto *proto = (const Onnx__ModelProto *)message;
    XCVM_CHECK(error, proto->graph != NULL, INVALID_MODEL, "the model has no graph");
    const Onnx__GraphProto *g = proto->graph;
    w->files = (xcc_external_files){.module = &w->module, .dir = folder};
    w->values = xcc_alloc(&w->module, (g->n_initializer + 1) * sizeof *w->values);
    XCVM_CHECK(error, w->values != NULL, OUT_OF_MEMORY, "no memory for the names of weights");
    find_nested(w, g, true);
    for (size_t i = 0; i < proto->n_functions; i++)
        find_in_nodes(w, proto->functions[i]->node, proto->functions[i]->n_node);
    for (size_t i = 0; i < g->n_initializer; i++)
        if (is_external(g->initializer[i]))
            XCVM_TRY(add_weight(w, g->initializer[i], error));
    xcvm_name_index_sort(&w->names);
    return XCVM_OK;
}

xcvm_status xcc_external_weights_open(const void *model, size_t count, const char *folder,
                                      const xcvm_allocator *allocator, xcc_external_weights **external,
                                      xcvm_error *error)
{
    xcc_external_weights *w = xcvm_allocate_zeroed(allocator, sizeof *w);
    XCVM_CHECK(error, w != NULL, OUT_OF_MEMORY, "no memory for the names of weights");
    w->allocator = allocator;
    w->options = (xcc_options){.size = sizeof w->options, .allocator = allocator};
    xcvm_status status = xcc_module_init(&w->module, &w->options, error);
    if (status != XCVM_OK) {
        xcvm_deallocate(allocator, w, sizeof *w);
        return status;
    }
    status = read_model(w, model, count, folder, error);
    if (status == XCVM_OK)
        *external = w;
    else
        xcc_external_weights_close(w);
    return status;
}

void xcc_external_weights_close(xcc_external_weights *w)
{
    if (w == NULL)
        return;
    xcc_module_release(&w->module);
    xcvm_deallocate(w->allocator, w, sizeof *w);
}

const xcvm_value *xcc_external_weights_find(void *external, const char *name, size_t length)
{
    const xcc_external_weights *w = external;
    const xcvm_indexed_name *found;
    return w != NULL && xcvm_name_index_find(&w->names, name, length, &found) > 0 ? &w->values[found->number] : NULL;
}

const char *xcc_external_weights_nested(const xcc_external_weights *w) { return w != NULL ? w->nested : NULL; }

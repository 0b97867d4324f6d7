/* A module as an ONNX model: the model, its graphs, types and tensors. */
#include "compiler/export_onnx/export_onnx.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/compilation.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The lowest opset, and the format version that belongs to it. Newer operators raise the opset. */
enum { LEAST_OPSET = 21, IR_VERSION = 10 };

/* ---- Refusals ---- */

xcvm_status xcc_onnx_refuse(xcc_onnx_writer *w, const char *format, ...)
{
    char reason[160], line[300];
    va_list list;
    va_start(list, format);
    vsnprintf(reason, sizeof reason, format, list);
    va_end(list);
    const xcc_node *n = w->node;
    if (n == NULL)
        snprintf(line, sizeof line, "%s", reason);
    else
        snprintf(line, sizeof line, "%.80s%s%s: %s", n->name, n->name[0] != '\0' ? ": " : "",
                 n->kind == XCC_INSTRUCTION ? n->schema->name
                 : n->kind == XCC_IF        ? "If"
                                            : "Loop",
                 reason);
    w->refused++;
    const size_t used = strlen(w->refusals), left = sizeof w->refusals - used;
    if (strlen(line) + 3 < left)
        snprintf(w->refusals + used, left, "%s%s", used > 0 ? "; " : "", line);
    return XCVM_OK;
}

/* ---- Names and nodes ---- */

char *xcc_onnx_new_name(xcc_onnx_writer *w)
{
    char name[48];
    do
        snprintf(name, sizeof name, "onnx_%zu", w->numbered++);
    while (xcc_table_lookup(&w->m->value_names, name) != NULL);
    return (char *)(uintptr_t)xcc_string(w->m, name, strlen(name));
}

/* Several nodes may come from one node of the model; each needs a unique name. */
static char *name_node(xcc_onnx_writer *w, const char *name)
{
    char longer[300];
    if (name[0] == '\0')
        return (char *)(uintptr_t)protobuf_c_empty_string;
    const char *own = name;
    if (xcc_table_lookup(&w->node_names, name) != NULL) {
        do
            snprintf(longer, sizeof longer, "%.250s/%zu", name, w->numbered++);
        while (xcc_table_lookup(&w->node_names, longer) != NULL);
        own = xcc_string(w->m, longer, strlen(longer));
    }
    return own != NULL && xcc_table_put(w->m, &w->node_names, own, 1) == XCVM_OK ? (char *)(uintptr_t)own : NULL;
}

static void **room(xcc_onnx_writer *w, size_t count) { return xcc_alloc(w->m, (count + 1) * sizeof(void *)); }

Onnx__NodeProto *xcc_onnx_node(xcc_onnx_writer *w, xcc_onnx_nodes *nodes, const char *operator_name, size_t inputs,
                               size_t outputs, size_t attributes)
{
    Onnx__NodeProto **at = xcc_grow(w->m, nodes->at, nodes->count, &nodes->capacity, sizeof *at);
    Onnx__NodeProto *node = at != NULL ? xcc_alloc(w->m, sizeof *node) : NULL;
    if (node == NULL)
        return NULL;
    nodes->at = at;
    onnx__node_proto__init(node);
    node->op_type = (char *)(uintptr_t)operator_name;
    node->name = name_node(w, w->node != NULL ? w->node->name : "");
    node->n_input = inputs;
    node->n_output = outputs;
    node->input = (char **)room(w, inputs);
    node->output = (char **)room(w, outputs);
    node->attribute = (Onnx__AttributeProto **)room(w, attributes);
    if (node->name == NULL || node->input == NULL || node->output == NULL || node->attribute == NULL)
        return NULL;
    at[nodes->count++] = node;
    return node;
}

Onnx__AttributeProto *xcc_onnx_attribute(xcc_onnx_writer *w, Onnx__NodeProto *node, const char *name,
                                         Onnx__AttributeProto__AttributeType type)
{
    Onnx__AttributeProto *a = xcc_alloc(w->m, sizeof *a);
    if (a == NULL)
        return NULL;
    onnx__attribute_proto__init(a);
    a->name = (char *)(uintptr_t)name;
    a->has_type = 1;
    a->type = type;
    node->attribute[node->n_attribute++] = a;
    return a;
}

/* ---- Tensors ---- */

Onnx__TensorProto *xcc_onnx_tensor(xcc_onnx_writer *w, const xcvm_value *v, const char *name)
{
    Onnx__TensorProto *t = xcc_alloc(w->m, sizeof *t);
    if (t == NULL)
        return NULL;
    onnx__tensor_proto__init(t);
    t->name = (char *)(uintptr_t)name;
    t->n_dims = (size_t)v->rank;
    t->dims = xcc_alloc(w->m, (size_t)(v->rank + 1) * sizeof *t->dims);
    t->has_data_type = 1;
    t->data_type = v->dtype;
    if (t->dims == NULL)
        return NULL;
    memcpy(t->dims, v->dims, (size_t)v->rank * sizeof *t->dims);
    if (v->dtype != XCVM_STRING) {
        t->has_raw_data = 1;
        t->raw_data = (ProtobufCBinaryData){.len = v->bytes, .data = v->data};
        return t;
    }
    t->n_string_data = xcvm_element_count(v);
    t->string_data = xcc_alloc(w->m, (t->n_string_data + 1) * sizeof *t->string_data);
    for (size_t i = 0; i < t->n_string_data && t->string_data != NULL; i++) {
        size_t length;
        const char *text = xcvm_string_at(v, i, &length);
        t->string_data[i] = (ProtobufCBinaryData){.len = length, .data = (uint8_t *)(uintptr_t)text};
    }
    return t->string_data != NULL ? t : NULL;
}

/* A constant that is an output, too, has another name than that, which is an Identity's result. */
static char *name_constant(xcc_onnx_writer *w, const xcc_value *v)
{
    return xcc_table_lookup(&w->output_names, v->name) != NULL ? xcc_onnx_new_name(w) : (char *)(uintptr_t)v->name;
}

static bool add_initializer(xcc_onnx_writer *w, Onnx__TensorProto *t)
{
    Onnx__TensorProto **at =
        xcc_grow(w->m, w->initializers, w->initializer_count, &w->initializer_capacity, sizeof *at);
    if (at == NULL || t == NULL)
        return false;
    w->initializers = at;
    at[w->initializer_count++] = t;
    return true;
}

static bool add_literal(xcc_onnx_writer *w, Onnx__TensorProto *t, char *name)
{
    const xcc_node *at_hand = w->node;
    w->node = NULL; /* the node at hand gives it no name */
    Onnx__NodeProto *node = t != NULL ? xcc_onnx_node(w, &w->literals, "Constant", 0, 1, 1) : NULL;
    w->node = at_hand;
    Onnx__AttributeProto *a =
        node != NULL ? xcc_onnx_attribute(w, node, "value", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR) : NULL;
    if (a == NULL)
        return false;
    a->t = t;
    node->output[0] = name;
    return true;
}

/* Tools that train a model train its initializers of floats. */
static bool add_constant(xcc_onnx_writer *w, const xcc_value *v)
{
    char *name = w->names[v->id] = name_constant(w, v);
    if (name == NULL)
        return false;
    if (v->type.kind != XCVM_KIND_TENSOR || v->type.dtype == XCVM_F24)
        return xcc_onnx_refuse(w, "ONNX has no constant such as %s", v->name) == XCVM_OK;
    Onnx__TensorProto *t = xcc_onnx_tensor(w, &v->type, name);
    return xcvm_dtype_is_float((xcvm_dtype)v->type.dtype) && !xcc_is_weight(v) ? add_literal(w, t, name)
                                                                               : add_initializer(w, t);
}

char *xcc_onnx_name(xcc_onnx_writer *w, const xcc_value *v)
{
    if (v == NULL)
        return (char *)(uintptr_t)protobuf_c_empty_string;
    if (!xcc_is_constant(v))
        return (char *)(uintptr_t)v->name;
    return w->names[v->id] != NULL || add_constant(w, v) ? w->names[v->id] : NULL;
}

char *xcc_onnx_ints(xcc_onnx_writer *w, size_t count, const int64_t *ints)
{
    const xcc_value *v = xcc_constant_i64(w->m->graph, count, ints);
    return v != NULL && add_initializer(w, xcc_onnx_tensor(w, &v->type, v->name)) ? (char *)(uintptr_t)v->name : NULL;
}

/* ---- Types ---- */

static Onnx__TypeProto *write_type(xcc_onnx_writer *w, const xcvm_value *v, int depth);

static Onnx__TensorShapeProto *write_shape(xcc_onnx_writer *w, const xcvm_value *v)
{
    Onnx__TensorShapeProto *shape = xcc_alloc(w->m, sizeof *shape);
    if (shape == NULL)
        return NULL;
    onnx__tensor_shape_proto__init(shape);
    shape->dim = (Onnx__TensorShapeProto__Dimension **)room(w, (size_t)v->rank);
    for (int i = 0; i < v->rank && shape->dim != NULL; i++) {
        Onnx__TensorShapeProto__Dimension *dim = xcc_alloc(w->m, sizeof *dim);
        if (dim == NULL)
            return NULL;
        onnx__tensor_shape_proto__dimension__init(dim);
        const char *name = v->dims[i] < 0 ? xcc_symbol_name(w->m, v->dims[i]) : NULL;
        if (v->dims[i] >= 0) {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            dim->dim_value = v->dims[i];
        } else if (name != NULL) {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            dim->dim_param = (char *)(uintptr_t)name;
        }
        shape->dim[shape->n_dim++] = dim;
    }
    return shape->dim != NULL ? shape : NULL;
}

/* A list of lists of tensors has the depth of all of them. */
static Onnx__TypeProto *write_list(xcc_onnx_writer *w, Onnx__TypeProto *type, const xcvm_value *v, int depth)
{
    Onnx__TypeProto *item = write_type(w, v, depth - 1);
    if (item == NULL)
        return NULL;
    if (v->kind == XCVM_KIND_OPTIONAL) {
        type->value_case = ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE;
        if ((type->optional_type = xcc_alloc(w->m, sizeof *type->optional_type)) == NULL)
            return NULL;
        onnx__type_proto__optional__init(type->optional_type);
        type->optional_type->elem_type = item;
    } else {
        type->value_case = ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
        if ((type->sequence_type = xcc_alloc(w->m, sizeof *type->sequence_type)) == NULL)
            return NULL;
        onnx__type_proto__sequence__init(type->sequence_type);
        type->sequence_type->elem_type = item;
    }
    return type;
}

static Onnx__TypeProto *write_type(xcc_onnx_writer *w, const xcvm_value *v, int depth)
{
    Onnx__TypeProto *type = xcc_alloc(w->m, sizeof *type);
    if (type == NULL)
        return NULL;
    onnx__type_proto__init(type);
    if (depth > 0)
        return write_list(w, type, v, depth);
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    if ((type->tensor_type = xcc_alloc(w->m, sizeof *type->tensor_type)) == NULL)
        return NULL;
    onnx__type_proto__tensor__init(type->tensor_type);
    type->tensor_type->has_elem_type = 1;
    type->tensor_type->elem_type = v->dtype;
    if (v->kind == XCVM_KIND_TENSOR && v->rank >= 0 && (type->tensor_type->shape = write_shape(w, v)) == NULL)
        return NULL;
    return type;
}

static Onnx__ValueInfoProto *write_info(xcc_onnx_writer *w, const xcvm_value *v, const char *name)
{
    Onnx__ValueInfoProto *info = xcc_alloc(w->m, sizeof *info);
    if (info == NULL)
        return NULL;
    onnx__value_info_proto__init(info);
    info->name = (char *)(uintptr_t)name;
    const bool is_list = xcvm_kind_is_list((xcvm_kind)v->kind) && v->kind != XCVM_KIND_MAP;
    if (v->kind != XCVM_KIND_TENSOR && !is_list)
        return xcc_onnx_refuse(w, "ONNX has no type for %s", name) == XCVM_OK ? info : NULL;
    info->type = write_type(w, v, !is_list ? 0 : v->dims[0] > 1 ? (int)v->dims[0] : 1);
    return info->type != NULL ? info : NULL;
}

/* ---- Graphs ---- */

/* An output of a graph must be the result of one of its nodes, and only once. Otherwise an Identity is added. */
static char *name_output(xcc_onnx_writer *w, const xcc_graph *g, xcc_onnx_nodes *nodes, size_t i)
{
    const xcc_value *v = g->outputs[i];
    const char *name = g->depth == 0 ? g->output_names[i] : v->name;
    const bool own = v->graph == g && (v->kind == XCC_RESULT || (v->kind == XCC_INPUT && g->depth == 0));
    bool direct = own && strcmp(name, v->name) == 0;
    for (size_t k = 0; k < i && g->depth > 0; k++)
        direct = direct && g->outputs[k] != v;
    if (direct)
        return (char *)(uintptr_t)name;
    Onnx__NodeProto *node = xcc_onnx_node(w, nodes, "Identity", 1, 1, 0);
    if (node == NULL || (node->input[0] = xcc_onnx_name(w, v)) == NULL)
        return NULL;
    return node->output[0] = g->depth == 0 ? (char *)(uintptr_t)name : xcc_onnx_new_name(w);
}

xcvm_status xcc_onnx_graph(xcc_onnx_writer *w, xcc_graph *g, Onnx__GraphProto **made)
{
    Onnx__GraphProto *graph = xcc_alloc(w->m, sizeof *graph);
    xcc_onnx_nodes nodes = {NULL, 0, 0};
    if (graph == NULL)
        return XCVM_OUT_OF_MEMORY;
    onnx__graph_proto__init(graph);
    graph->name = (char *)(uintptr_t)(g->name != NULL && g->name[0] != '\0' ? g->name : "graph");
    graph->input = (Onnx__ValueInfoProto **)room(w, g->input_count);
    graph->output = (Onnx__ValueInfoProto **)room(w, g->output_count);
    if (graph->input == NULL || graph->output == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < g->input_count; i++)
        if ((graph->input[graph->n_input++] = write_info(w, &g->inputs[i]->type, g->inputs[i]->name)) == NULL)
            return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(xcc_onnx_write_nodes(w, g, &nodes));
    w->node = NULL;
    for (size_t i = 0; i < g->output_count; i++) {
        if (xcc_graph_output_state(g, i) != NULL) {
            XCVM_TRY(xcc_onnx_refuse(w, "ONNX has no states, as %s is", xcc_graph_output_state(g, i)->name));
            continue;
        }
        char *name = name_output(w, g, &nodes, i);
        if (name == NULL || (graph->output[graph->n_output++] = write_info(w, &g->outputs[i]->type, name)) == NULL)
            return XCVM_OUT_OF_MEMORY;
    }
    graph->n_node = nodes.count;
    graph->node = nodes.at;
    *made = graph;
    return XCVM_OK;
}

/* ---- External data ---- */

typedef struct external {
    const xcc_options *options;
    uint64_t at;
    bool sent;
} external;

static bool send_data(external *e, const void *bytes, size_t count)
{
    e->at += count;
    return count == 0 || e->options->onnx_export.data.call(e->options->onnx_export.data.user, bytes, count);
}

static Onnx__StringStringEntryProto *entry(xcc_onnx_writer *w, const char *key, const char *value)
{
    Onnx__StringStringEntryProto *e = xcc_alloc(w->m, sizeof *e);
    if (e == NULL)
        return NULL;
    onnx__string_string_entry_proto__init(e);
    e->key = (char *)(uintptr_t)key;
    e->value = (char *)(uintptr_t)xcc_string(w->m, value, strlen(value));
    return e->value != NULL ? e : NULL;
}

/* Elements of 1 KB and more go to a file of their own, each on a multiple of 64 bytes. */
static xcvm_status write_external(xcc_onnx_writer *w, external *e, Onnx__TensorProto *t)
{
    enum { LEAST = 1024 };
    static const char zeros[XCVM_ALIGNMENT] = {0};
    char offset[24], length[24];
    if (!t->has_raw_data || t->raw_data.len < LEAST || !e->sent)
        return XCVM_OK;
    e->sent = send_data(e, zeros, xcvm_round_up((size_t)e->at, XCVM_ALIGNMENT) - (size_t)e->at);
    snprintf(offset, sizeof offset, "%" PRIu64, e->at);
    snprintf(length, sizeof length, "%zu", t->raw_data.len);
    e->sent = e->sent && send_data(e, t->raw_data.data, t->raw_data.len);
    t->external_data = (Onnx__StringStringEntryProto **)room(w, 3);
    if (t->external_data == NULL ||
        (t->external_data[0] = entry(w, "location", e->options->onnx_export.data_location)) == NULL ||
        (t->external_data[1] = entry(w, "offset", offset)) == NULL ||
        (t->external_data[2] = entry(w, "length", length)) == NULL)
        return xcc_out_of_memory(w->m);
    t->n_external_data = 3;
    t->has_data_location = 1;
    t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    t->has_raw_data = 0;
    return XCVM_OK;
}

/* Literals stay in the model, since few tools read a tensor of a node from another file. */
static xcvm_status write_all_external(xcc_onnx_writer *w, external *e)
{
    for (size_t i = 0; i < w->initializer_count; i++)
        XCVM_TRY(write_external(w, e, w->initializers[i]));
    return XCVM_OK;
}

/* ---- The model ---- */

/* protobuf-c's buffer over the sink. */
typedef struct sink_buffer {
    ProtobufCBuffer base;
    xcvm_sink sink;
    bool failed;
} sink_buffer;

static void append(ProtobufCBuffer *buffer, size_t count, const uint8_t *bytes)
{
    sink_buffer *b = (sink_buffer *)(void *)buffer;
    b->failed = b->failed || (count > 0 && !b->sink.call(b->sink.user, bytes, count));
}

/* Puts the Constant nodes before the others. */
static bool place_literals(xcc_onnx_writer *w, Onnx__GraphProto *graph)
{
    const size_t count = w->literals.count;
    void **nodes = room(w, count + graph->n_node);
    if (nodes == NULL)
        return false;
    if (count > 0)
        memcpy(nodes, w->literals.at, count * sizeof *nodes);
    if (graph->n_node > 0)
        memcpy(nodes + count, graph->node, graph->n_node * sizeof *nodes);
    graph->node = (Onnx__NodeProto **)nodes;
    graph->n_node += count;
    return true;
}

static xcvm_status send_model(xcc_onnx_writer *w, Onnx__GraphProto *graph, xcvm_sink sink)
{
    xcc_module *m = w->m;
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets[] = {&opset};
    const char *const notes[][2] = {{"model", m->compilation->producer != NULL && m->compilation->producer[0] != '\0'
                                                  ? m->compilation->producer
                                                  : NULL},
                                    {XCC_CLASS_NAMES, m->compilation->class_names},
                                    {XCC_CLASS_OUTPUT, m->compilation->class_output}};
    Onnx__StringStringEntryProto *metadata[sizeof notes / sizeof *notes];
    opset.domain = (char *)(uintptr_t)protobuf_c_empty_string;
    opset.has_version = 1;
    opset.version = w->opset;
    model.has_ir_version = 1;
    model.ir_version = IR_VERSION;
    model.producer_name = (char *)(uintptr_t) "xcvm";
    model.producer_version = (char *)(uintptr_t)xcvm_version();
    model.n_opset_import = 1;
    model.opset_import = opsets;
    model.graph = graph;
    model.metadata_props = metadata;
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (notes[i][1] != NULL && (metadata[model.n_metadata_props++] = entry(w, notes[i][0], notes[i][1])) == NULL)
            return xcc_out_of_memory(m);
    graph->n_initializer = w->initializer_count;
    graph->initializer = w->initializers;
    external e = {.options = m->options, .sent = true};
    if (m->options->onnx_export.data.call != NULL)
        XCVM_TRY(write_all_external(w, &e));
    XCVM_CHECK(m->error, e.sent, IO, "the constants' file cannot be written");
    XCVM_CHECK(m->error, onnx__model_proto__get_packed_size(&model) <= INT32_MAX, UNSUPPORTED,
               "an ONNX model of 2 GB or more needs a separate file for constants. Use --weights-file NAME");
    sink_buffer b = {.base = {.append = append}, .sink = sink};
    (void)onnx__model_proto__pack_to_buffer(&model, &b.base);
    XCVM_CHECK(m->error, !b.failed, IO, "the model cannot be written");
    return XCVM_OK;
}

xcvm_status xcc_onnx_write(xcc_module *m, xcc_operator_info_finder find, xcvm_sink sink)
{
    xcc_onnx_writer w = {.m = m, .find_operator = find, .opset = LEAST_OPSET};
    Onnx__GraphProto *graph = NULL;
    w.node_names.key = w.output_names.key = &m->key;
    for (size_t i = 0; i < m->graph->output_count; i++)
        XCVM_TRY(xcc_table_put(m, &w.output_names, m->graph->output_names[i], 1));
    if ((w.names = xcc_alloc(m, (m->value_count + 1) * sizeof *w.names)) == NULL)
        return XCVM_OUT_OF_MEMORY;
    xcvm_status status = xcc_onnx_graph(&w, m->graph, &graph);
    if (status == XCVM_OUT_OF_MEMORY)
        return xcc_out_of_memory(m);
    XCVM_TRY(status);
    XCVM_CHECK(m->error, w.refused == 0, UNSUPPORTED, "the model cannot be exported as ONNX: %s%s", w.refusals,
               strlen(w.refusals) + 100 > sizeof w.refusals ? " ..." : "");
    return place_literals(&w, graph) ? send_model(&w, graph, sink) : xcc_out_of_memory(m);
}

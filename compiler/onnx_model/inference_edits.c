/* Models in inference form, as bytes: what changes is found and packed, and its neighbors are left where they are. */
#include "compiler/onnx_model/inference_form.h"

#include "base/array.h"
#include "compiler/onnx_model/message.h"
#include "compiler/onnx_model/wire.h"

#include <stdlib.h>
#include <string.h>

/* Initializers of more bytes are no truth value. */
enum { FLAG_BYTES = 512 };

/* A list of messages that have been unpacked. */
typedef struct messages {
    ProtobufCMessage **at;
    size_t count, capacity;
} messages;

static xcvm_status unpack(xcc_module *m, const ProtobufCMessageDescriptor *descriptor, const xcvm_wire *bytes,
                          messages *list)
{
    ProtobufCMessage *message;
    XCVM_TRY(xcc_message_unpack(descriptor, bytes->at, (size_t)(bytes->end - bytes->at), xcc_stop_of(m), &m->arena,
                                &message, m->error));
    ProtobufCMessage **at = xcc_grow(m, list->at, list->count, &list->capacity, sizeof(ProtobufCMessage *));
    if (at == NULL)
        return XCVM_OUT_OF_MEMORY;
    list->at = at;
    at[list->count++] = message;
    return XCVM_OK;
}

/* The parts of a model that decide what changes. */
typedef struct parts {
    messages nodes, initializers, outputs, opsets, functions;
} parts;

static xcvm_status read_graph(xcc_module *m, xcvm_wire graph, parts *p)
{
    for (;;) {
        xcvm_wire_field field;
        bool more;
        XCVM_TRY(xcc_wire_next(&graph, &field, &more, m->error));
        if (!more)
            return XCVM_OK;
        XCVM_TRY(xcc_poll(m));
        if (field.type != XCVM_WIRE_BYTES)
            continue;
        if (field.number == XCC_GRAPH_NODE)
            XCVM_TRY(unpack(m, &onnx__node_proto__descriptor, &field.inside, &p->nodes));
        else if (field.number == XCC_GRAPH_OUTPUT)
            XCVM_TRY(unpack(m, &onnx__value_info_proto__descriptor, &field.inside, &p->outputs));
        else if (field.number == XCC_GRAPH_INITIALIZER && field.value < FLAG_BYTES)
            XCVM_TRY(unpack(m, &onnx__tensor_proto__descriptor, &field.inside, &p->initializers));
    }
}

static xcvm_status read_model(xcc_module *m, const void *model, size_t count, parts *p)
{
    xcvm_wire wire = xcvm_wire_of(model, count);
    for (;;) {
        xcvm_wire_field field;
        bool more;
        XCVM_TRY(xcc_wire_next(&wire, &field, &more, m->error));
        if (!more)
            return XCVM_OK;
        if (field.type != XCVM_WIRE_BYTES)
            continue;
        if (field.number == XCC_MODEL_GRAPH)
            XCVM_TRY(read_graph(m, field.inside, p));
        else if (field.number == XCC_MODEL_OPSET)
            XCVM_TRY(unpack(m, &onnx__operator_set_id_proto__descriptor, &field.inside, &p->opsets));
        else if (field.number == XCC_MODEL_FUNCTION)
            XCVM_TRY(unpack(m, &onnx__function_proto__descriptor, &field.inside, &p->functions));
    }
}

/* ---- Packing ---- */

/* Messages one after the other as fields of that number, in the arena. */
static xcvm_status pack(xcvm_arena *arena, uint32_t number, ProtobufCMessage *const *list, size_t count, xcc_edit *edit,
                        xcvm_error *error)
{
    enum { HEAD = 20 };
    size_t total = 0, bytes;
    for (size_t i = 0; i < count; i++)
        total += HEAD + protobuf_c_message_get_packed_size(list[i]);
    uint8_t *to = xcvm_arena_allocate(arena, total + 1);
    XCVM_CHECK(error, to != NULL, OUT_OF_MEMORY, "no memory for the nodes of the inference form");
    *edit = (xcc_edit){.bytes = to};
    for (size_t i = 0; i < count; i++) {
        bytes = protobuf_c_message_get_packed_size(list[i]);
        to += xcvm_varint_put(to, (uint64_t)number << 3 | XCVM_WIRE_BYTES);
        to += xcvm_varint_put(to, bytes);
        to += protobuf_c_message_pack(list[i], to);
    }
    edit->count = (size_t)(to - (const uint8_t *)edit->bytes);
    return XCVM_OK;
}

/* ---- Edits ---- */

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static xcvm_status keep_names(xcvm_arena *arena, const xcc_rewritten *form, xcc_model_edits *edits, xcvm_error *error)
{
    const char **names = xcvm_arena_allocate(arena, (form->gone_count + 1) * sizeof(const char *));
    bool good = names != NULL;
    for (size_t i = 0; i < form->gone_count && good; i++) {
        names[i] = xcvm_arena_string(arena, form->gone[i], strlen(form->gone[i]));
        good = names[i] != NULL;
    }
    XCVM_CHECK(error, good, OUT_OF_MEMORY, "no memory for the names of the inference form");
    if (form->gone_count > 0)
        qsort(names, form->gone_count, sizeof *names, by_text);
    edits->gone = names;
    edits->gone_count = form->gone_count;
    return XCVM_OK;
}

static xcvm_status find_edits(xcc_module *m, const void *model, size_t count, xcvm_arena *arena, xcc_model_edits *edits)
{
    parts p = {.nodes = {.count = 0}};
    XCVM_TRY(read_model(m, model, count, &p));
    Onnx__GraphProto g = ONNX__GRAPH_PROTO__INIT;
    Onnx__ModelProto message = ONNX__MODEL_PROTO__INIT;
    g.node = (Onnx__NodeProto **)(void *)p.nodes.at;
    g.n_node = p.nodes.count;
    g.initializer = (Onnx__TensorProto **)(void *)p.initializers.at;
    g.n_initializer = p.initializers.count;
    g.output = (Onnx__ValueInfoProto **)(void *)p.outputs.at;
    g.n_output = p.outputs.count;
    message.graph = &g;
    message.opset_import = (Onnx__OperatorSetIdProto **)(void *)p.opsets.at;
    message.n_opset_import = p.opsets.count;
    message.functions = (Onnx__FunctionProto **)(void *)p.functions.at;
    message.n_functions = p.functions.count;
    xcc_edit *nodes = xcvm_arena_allocate(arena, (p.nodes.count + 1) * sizeof *nodes);
    xcc_edit *functions = xcvm_arena_allocate(arena, (p.functions.count + 1) * sizeof *functions);
    XCVM_CHECK(m->error, nodes != NULL && functions != NULL, OUT_OF_MEMORY, "no memory for the inference form");
    xcc_rewritten form;
    XCVM_TRY(xcc_inference_form_rewrite(m, &message, XCC_USES_BATCH | XCC_USES_RANDOM, &form));
    for (size_t i = 0; i < p.nodes.count; i++)
        if (form.nodes[i].changed)
            XCVM_TRY(pack(arena, XCC_GRAPH_NODE, (ProtobufCMessage *const *)(void *)g.node + form.nodes[i].first,
                          form.nodes[i].count, &nodes[i], m->error));
    for (size_t i = 0; i < p.functions.count; i++)
        if (form.functions[i])
            XCVM_TRY(pack(arena, XCC_MODEL_FUNCTION, &p.functions.at[i], 1, &functions[i], m->error));
    XCVM_TRY(keep_names(arena, &form, edits, m->error));
    edits->nodes = nodes;
    edits->node_count = p.nodes.count;
    edits->functions = functions;
    edits->function_count = p.functions.count;
    edits->names = form.names;
    return XCVM_OK;
}

xcvm_status xcc_inference_form_edits(const xcc_options *options, const void *model, size_t count, xcvm_arena *arena,
                                     xcc_model_edits *edits, xcvm_error *error)
{
    xcc_module m;
    *edits = (xcc_model_edits){.node_count = 0};
    xcvm_status status = xcc_module_init(&m, options, error);
    if (status == XCVM_OK)
        status = find_edits(&m, model, count, arena, edits);
    xcc_name_limit(&m, status);
    xcc_module_release(&m);
    return status;
}

bool xcc_model_edits_drop(const xcc_model_edits *edits, const char *name, size_t length)
{
    size_t low = 0, high = edits->gone_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const char *gone = edits->gone[middle];
        const size_t own = strlen(gone), shorter = own < length ? own : length;
        const int order = shorter > 0 ? memcmp(name, gone, shorter) : 0;
        if (order == 0 && own == length)
            return true;
        if (order > 0 || (order == 0 && length > own))
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

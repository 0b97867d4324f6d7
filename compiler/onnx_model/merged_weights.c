/* Exporters store equal initializers once, and read the others by nodes Identity. */
#include "compiler/onnx_model/weights.h"

#include "compiler/onnx_model/wire.h"

#include <string.h>

typedef struct initializer {
    xcvm_wire tensor, input; /* the input of its name, as models before IR version 4 have; empty: none */
    size_t readers;
} initializer;

typedef struct search {
    const xcc_weight *weights;
    size_t count;
    initializer *initializers; /* of the weights */
    size_t node_count, function_count;
    xcc_edit *nodes, *next; /* the edits of the nodes, and that of the next one */
    xcc_node_names names;
    xcvm_arena *arena;
    xcvm_error *error;
} search;

typedef xcvm_status visitor(search *s, const xcvm_wire_field *field);

/* Calls `visit` for each field of bytes of a message. */
static xcvm_status each(search *s, xcvm_wire message, visitor *visit)
{
    for (;;) {
        xcvm_wire_field field;
        bool more;
        XCVM_TRY(xcc_wire_next(&message, &field, &more, s->error));
        if (!more)
            return XCVM_OK;
        if (field.type == XCVM_WIRE_BYTES)
            XCVM_TRY(visit(s, &field));
    }
}

static size_t length_of(xcvm_wire bytes) { return (size_t)(bytes.end - bytes.at); }

static initializer *initializer_of(const search *s, xcvm_wire name)
{
    const xcc_weight *w = xcc_weights_find(s->weights, s->count, (const char *)name.at, length_of(name));
    return w != NULL ? &s->initializers[w - s->weights] : NULL;
}

/* The initializer that a field of a message names; NULL if it names none. */
static xcvm_status find_named(const search *s, xcvm_wire message, uint32_t number, initializer **i)
{
    xcvm_wire name;
    XCVM_TRY(xcc_wire_find(message, number, &name, s->error));
    *i = initializer_of(s, name);
    return XCVM_OK;
}

/* ---- Reading ---- */

static xcvm_status count_reader(search *s, const xcvm_wire_field *field)
{
    initializer *i = field->number == XCC_NODE_INPUT ? initializer_of(s, field->inside) : NULL;
    if (i != NULL)
        i->readers++;
    return XCVM_OK;
}

static xcvm_status read_part(search *s, const xcvm_wire_field *field)
{
    initializer *i = NULL;
    switch (field->number) {
    case XCC_GRAPH_NODE:
        s->node_count++;
        return each(s, field->inside, count_reader);
    case XCC_GRAPH_INITIALIZER:
        XCVM_TRY(find_named(s, field->inside, XCC_TENSOR_NAME, &i));
        if (i != NULL)
            i->tensor = field->inside;
        return XCVM_OK;
    case XCC_GRAPH_INPUT:
        XCVM_TRY(find_named(s, field->inside, XCC_INFO_NAME, &i));
        if (i != NULL)
            i->input = field->inside;
        return XCVM_OK;
    case XCC_GRAPH_OUTPUT:
        XCVM_TRY(find_named(s, field->inside, XCC_INFO_NAME, &i));
        if (i != NULL)
            i->readers++;
        return XCVM_OK;
    default:
        return XCVM_OK;
    }
}

static xcvm_status read_model(search *s, const xcvm_wire_field *field)
{
    s->function_count += field->number == XCC_MODEL_FUNCTION;
    return field->number == XCC_MODEL_GRAPH ? each(s, field->inside, read_part) : XCVM_OK;
}

/* ---- Separating ---- */

/* Appends a message with another name, as a field of the graph. */
static xcvm_status put_renamed(const search *s, uint8_t **to, uint32_t number, xcvm_wire message, uint32_t name_number,
                               xcvm_wire name)
{
    enum { HEAD = 1 + XCVM_VARINT_SIZE };
    uint8_t head[HEAD] = {(uint8_t)(number << 3 | XCVM_WIRE_BYTES)};
    uint8_t *const content = *to + HEAD, *at = content;
    for (;;) {
        const uint8_t *start = message.at;
        xcvm_wire_field field;
        bool more;
        XCVM_TRY(xcc_wire_next(&message, &field, &more, s->error));
        if (!more)
            break;
        if (field.number == name_number)
            continue;
        memcpy(at, start, (size_t)(message.at - start));
        at += message.at - start;
    }
    *at++ = (uint8_t)(name_number << 3 | XCVM_WIRE_BYTES);
    at += xcvm_varint_put(at, length_of(name));
    memcpy(at, name.at, length_of(name));
    at += length_of(name);
    const size_t bytes = (size_t)(at - content), size = 1 + xcvm_varint_put(head + 1, bytes);
    memcpy(*to, head, size);
    memmove(*to + size, content, bytes);
    *to += size + bytes;
    return XCVM_OK;
}

/* The initializer under the name of the node's result, and the input if there is one. */
static xcvm_status separate(search *s, const initializer *i, xcvm_wire name, xcc_edit *edit)
{
    enum { HEADS = 2 * (1 + XCVM_VARINT_SIZE) };
    uint8_t *bytes =
        xcvm_arena_allocate(s->arena, length_of(i->tensor) + length_of(i->input) + 2 * (length_of(name) + HEADS));
    uint8_t *at = bytes;
    const char *text = xcvm_arena_string(s->arena, (const char *)name.at, length_of(name));
    XCVM_CHECK(s->error, bytes != NULL && text != NULL, OUT_OF_MEMORY,
               "no memory for a weight that the model stores with others");
    XCVM_TRY(put_renamed(s, &at, XCC_GRAPH_INITIALIZER, i->tensor, XCC_TENSOR_NAME, name));
    if (length_of(i->input) > 0)
        XCVM_TRY(put_renamed(s, &at, XCC_GRAPH_INPUT, i->input, XCC_INFO_NAME, name));
    *edit = (xcc_edit){bytes, (size_t)(at - bytes)};
    xcc_node_names_add(&s->names, text, "Identity", 0);
    return XCVM_OK;
}

static xcvm_status visit_node(search *s, const xcvm_wire_field *field)
{
    xcvm_wire op, domain, name;
    initializer *i;
    if (field->number != XCC_GRAPH_NODE)
        return XCVM_OK;
    xcc_edit *edit = s->next++;
    XCVM_TRY(xcc_wire_find(field->inside, XCC_NODE_OP_TYPE, &op, s->error));
    XCVM_TRY(xcc_wire_find(field->inside, XCC_NODE_DOMAIN, &domain, s->error));
    if (!xcc_wire_is(&op, "Identity") || (length_of(domain) > 0 && !xcc_wire_is(&domain, "ai.onnx")))
        return XCVM_OK;
    XCVM_TRY(find_named(s, field->inside, XCC_NODE_INPUT, &i));
    XCVM_TRY(xcc_wire_find(field->inside, XCC_NODE_OUTPUT, &name, s->error));
    if (i == NULL || !xcvm_dtype_is_float(s->weights[i - s->initializers].dtype) || i->readers < 2 ||
        length_of(name) == 0)
        return XCVM_OK;
    i->readers--;
    return separate(s, i, name, edit);
}

static xcvm_status visit_graph(search *s, const xcvm_wire_field *field)
{
    return field->number == XCC_MODEL_GRAPH ? each(s, field->inside, visit_node) : XCVM_OK;
}

xcvm_status xcc_merged_weights_edits(const void *model, size_t count, xcvm_arena *arena, xcc_model_edits *edits,
                                     xcvm_error *error)
{
    search s = {.arena = arena, .error = error};
    *edits = (xcc_model_edits){.node_count = 0};
    XCVM_TRY(xcc_weights_list(model, count, arena, &s.weights, &s.count, error));
    s.initializers = xcvm_arena_allocate(arena, (s.count + 1) * sizeof *s.initializers);
    XCVM_CHECK(error, s.initializers != NULL, OUT_OF_MEMORY, "no memory for the names of weights");
    XCVM_TRY(each(&s, xcvm_wire_of(model, count), read_model));
    s.nodes = s.next = xcvm_arena_allocate(arena, (s.node_count + 1) * sizeof *s.nodes);
    xcc_edit *functions = xcvm_arena_allocate(arena, (s.function_count + 1) * sizeof *functions);
    XCVM_CHECK(error, s.nodes != NULL && functions != NULL, OUT_OF_MEMORY, "no memory for the nodes of the model");
    XCVM_TRY(each(&s, xcvm_wire_of(model, count), visit_graph));
    *edits = (xcc_model_edits){.nodes = s.nodes,
                               .node_count = s.node_count,
                               .functions = functions,
                               .function_count = s.function_count,
                               .names = s.names};
    return XCVM_OK;
}

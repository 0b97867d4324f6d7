/* Exporters store equal initializers once, and read the others by nodes Identity. */
#include "compiler/onnx_model/weights.h"

#include "compiler/onnx_model/wire.h"

#include <stdio.h>
#include <string.h>

enum { GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, NODE_OUTPUT = 2, NODE_DOMAIN = 7, INFO_NAME = 1 };

typedef struct initializer {
    xcvm_wire tensor, input; /* the input of its name, as models before IR version 4 have; empty: none */
    size_t readers;
    bool learns; /* its type is trained */
} initializer;

typedef struct search {
    const xcc_weight *weights;
    size_t count;
    initializer *initializers; /* of the weights */
    size_t node_count, function_count;
    xcvm_arena *arena;
    xcc_merged *merged;
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

/* The last field of bytes with that number; empty if there is none. */
static xcvm_status field_of(const search *s, xcvm_wire message, uint32_t number, xcvm_wire *inside)
{
    for (*inside = (xcvm_wire){NULL, NULL};;) {
        xcvm_wire_field field;
        bool more;
        XCVM_TRY(xcc_wire_next(&message, &field, &more, s->error));
        if (!more)
            return XCVM_OK;
        if (field.number == number && field.type == XCVM_WIRE_BYTES)
            *inside = field.inside;
    }
}

/* ---- Reading ---- */

static xcvm_status read_initializer(search *s, xcvm_wire tensor)
{
    xcvm_wire name;
    XCVM_TRY(field_of(s, tensor, XCC_TENSOR_NAME, &name));
    initializer *i = initializer_of(s, name);
    if (i == NULL)
        return XCVM_OK;
    i->tensor = tensor;
    i->learns = xcvm_dtype_is_float(s->weights[i - s->initializers].dtype);
    return XCVM_OK;
}

static xcvm_status read_output(search *s, xcvm_wire info)
{
    xcvm_wire name;
    XCVM_TRY(field_of(s, info, INFO_NAME, &name));
    initializer *i = initializer_of(s, name);
    if (i != NULL)
        i->readers++;
    return XCVM_OK;
}

static xcvm_status read_input(search *s, xcvm_wire info)
{
    xcvm_wire name;
    XCVM_TRY(field_of(s, info, INFO_NAME, &name));
    initializer *i = initializer_of(s, name);
    if (i != NULL)
        i->input = info;
    return XCVM_OK;
}

static xcvm_status count_reader(search *s, const xcvm_wire_field *field)
{
    initializer *i = field->number == XCC_NODE_INPUT ? initializer_of(s, field->inside) : NULL;
    if (i != NULL)
        i->readers++;
    return XCVM_OK;
}

static xcvm_status read_part(search *s, const xcvm_wire_field *field)
{
    switch (field->number) {
    case XCC_GRAPH_NODE:
        s->node_count++;
        return each(s, field->inside, count_reader);
    case XCC_GRAPH_INITIALIZER:
        return read_initializer(s, field->inside);
    case GRAPH_INPUT:
        return read_input(s, field->inside);
    case GRAPH_OUTPUT:
        return read_output(s, field->inside);
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

static void name_separated(xcc_merged *merged, xcvm_wire name)
{
    enum { NAMED = 3, SHOWN = 60 };
    const size_t shown = length_of(name) < SHOWN ? length_of(name) : SHOWN;
    if (merged->count++ < NAMED)
        merged->length +=
            (size_t)snprintf(merged->names + merged->length, sizeof merged->names - merged->length, "%s'%.*s'",
                             merged->length > 0 ? ", " : "", (int)shown, (const char *)name.at);
}

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

/* The initializer under another name, and the input if there is one. */
static xcvm_status separate(search *s, const initializer *i, xcvm_wire name, xcc_edit *edit)
{
    enum { HEADS = 2 * (1 + XCVM_VARINT_SIZE) };
    uint8_t *bytes =
        xcvm_arena_allocate(s->arena, length_of(i->tensor) + length_of(i->input) + 2 * (length_of(name) + HEADS));
    uint8_t *at = bytes;
    XCVM_CHECK(s->error, bytes != NULL, OUT_OF_MEMORY, "no memory for a weight that the model stores with others");
    XCVM_TRY(put_renamed(s, &at, XCC_GRAPH_INITIALIZER, i->tensor, XCC_TENSOR_NAME, name));
    if (length_of(i->input) > 0)
        XCVM_TRY(put_renamed(s, &at, GRAPH_INPUT, i->input, INFO_NAME, name));
    *edit = (xcc_edit){bytes, (size_t)(at - bytes)};
    name_separated(s->merged, name);
    return XCVM_OK;
}

static xcvm_status visit_node(search *s, const xcvm_wire_field *field)
{
    xcvm_wire op, domain, from, to;
    if (field->number != XCC_GRAPH_NODE)
        return XCVM_OK;
    xcc_edit *edit = (xcc_edit *)(uintptr_t)&s->merged->edits.nodes[s->merged->edits.node_count++];
    XCVM_TRY(field_of(s, field->inside, XCC_NODE_OP_TYPE, &op));
    XCVM_TRY(field_of(s, field->inside, NODE_DOMAIN, &domain));
    if (!xcc_wire_is(&op, "Identity") || (length_of(domain) > 0 && !xcc_wire_is(&domain, "ai.onnx")))
        return XCVM_OK;
    XCVM_TRY(field_of(s, field->inside, XCC_NODE_INPUT, &from));
    XCVM_TRY(field_of(s, field->inside, NODE_OUTPUT, &to));
    initializer *i = initializer_of(s, from);
    if (i == NULL || !i->learns || i->readers < 2 || length_of(to) == 0)
        return XCVM_OK;
    i->readers--;
    return separate(s, i, to, edit);
}

static xcvm_status visit_graph(search *s, const xcvm_wire_field *field)
{
    return field->number == XCC_MODEL_GRAPH ? each(s, field->inside, visit_node) : XCVM_OK;
}

xcvm_status xcc_merged_weights_find(const void *model, size_t count, xcvm_arena *arena, xcc_merged *merged,
                                    xcvm_error *error)
{
    search s = {.arena = arena, .merged = merged, .error = error};
    *merged = (xcc_merged){.count = 0};
    XCVM_TRY(xcc_weights_list(model, count, arena, &s.weights, &s.count, error));
    s.initializers = xcvm_arena_allocate(arena, (s.count + 1) * sizeof *s.initializers);
    XCVM_CHECK(error, s.initializers != NULL, OUT_OF_MEMORY, "no memory for the names of weights");
    XCVM_TRY(each(&s, xcvm_wire_of(model, count), read_model));
    merged->edits.nodes = xcvm_arena_allocate(arena, (s.node_count + 1) * sizeof(xcc_edit));
    merged->edits.functions = xcvm_arena_allocate(arena, (s.function_count + 1) * sizeof(xcc_edit));
    XCVM_CHECK(error, merged->edits.nodes != NULL && merged->edits.functions != NULL, OUT_OF_MEMORY,
               "no memory for the nodes of the model");
    merged->edits.function_count = s.function_count;
    return each(&s, xcvm_wire_of(model, count), visit_graph);
}

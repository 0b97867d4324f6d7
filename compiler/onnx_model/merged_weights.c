/* Exporters store equal initializers once, and read the others by nodes Identity. */
#include "compiler/onnx_model/weights.h"

#include "compiler/onnx_model/wire.h"

#include <stdio.h>
#include <string.h>

enum { GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, NODE_OUTPUT = 2, INFO_NAME = 1 };
enum { TENSOR_FLOATS = 4, TENSOR_DOUBLES = 10 };

/* Weights of normalizations and biases, which start as ones and zeros, have no more bytes. */
enum { MOST_BYTES = 1 << 20 };

typedef struct initializer {
    xcvm_wire tensor;
    size_t readers;
    bool uniform, input; /* has equal elements; its name is that of an input, too */
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

static bool is_uniform(xcvm_wire elements, size_t size)
{
    const size_t bytes = length_of(elements);
    return bytes >= size && bytes <= MOST_BYTES && bytes % size == 0 &&
           memcmp(elements.at, elements.at + size, bytes - size) == 0;
}

static xcvm_status read_initializer(search *s, xcvm_wire tensor)
{
    xcvm_wire name, elements;
    XCVM_TRY(field_of(s, tensor, XCC_TENSOR_NAME, &name));
    initializer *i = initializer_of(s, name);
    if (i == NULL)
        return XCVM_OK;
    i->tensor = tensor;
    const xcvm_dtype dtype = s->weights[i - s->initializers].dtype;
    if (!xcvm_dtype_is_float(dtype) || xcvm_dtype_size(dtype) < 2)
        return XCVM_OK;
    XCVM_TRY(field_of(s, tensor, XCC_TENSOR_RAW_DATA, &elements));
    if (length_of(elements) == 0 && (dtype == XCVM_F32 || dtype == XCVM_F64))
        XCVM_TRY(field_of(s, tensor, dtype == XCVM_F32 ? TENSOR_FLOATS : TENSOR_DOUBLES, &elements));
    i->uniform = is_uniform(elements, xcvm_dtype_size(dtype));
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
        i->input = true;
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

/* The tensor under another name, as an initializer of the graph. */
static xcvm_status separate(search *s, xcvm_wire tensor, xcvm_wire name, xcc_edit *edit)
{
    enum { HEAD = 1 + XCVM_VARINT_SIZE };
    uint8_t *bytes = xcvm_arena_allocate(s->arena, length_of(tensor) + length_of(name) + 2 * HEAD);
    XCVM_CHECK(s->error, bytes != NULL, OUT_OF_MEMORY, "no memory for a weight that the model stores with others");
    uint8_t *const content = bytes + HEAD, *at = content;
    for (xcvm_wire rest = tensor;;) {
        const uint8_t *start = rest.at;
        xcvm_wire_field field;
        bool more;
        XCVM_TRY(xcc_wire_next(&rest, &field, &more, s->error));
        if (!more)
            break;
        if (field.number == XCC_TENSOR_NAME)
            continue;
        memcpy(at, start, (size_t)(rest.at - start));
        at += rest.at - start;
    }
    *at++ = XCC_TENSOR_NAME << 3 | XCVM_WIRE_BYTES;
    at += xcvm_varint_put(at, length_of(name));
    memcpy(at, name.at, length_of(name));
    at += length_of(name);
    uint8_t head[HEAD] = {XCC_GRAPH_INITIALIZER << 3 | XCVM_WIRE_BYTES};
    const size_t size = 1 + xcvm_varint_put(head + 1, (uint64_t)(at - content));
    memcpy(content - size, head, size);
    *edit = (xcc_edit){content - size, (size_t)(at - content) + size};
    name_separated(s->merged, name);
    return XCVM_OK;
}

static xcvm_status visit_node(search *s, const xcvm_wire_field *field)
{
    xcvm_wire op, from, to;
    if (field->number != XCC_GRAPH_NODE)
        return XCVM_OK;
    xcc_edit *edit = (xcc_edit *)(uintptr_t)&s->merged->edits.nodes[s->merged->edits.node_count++];
    XCVM_TRY(field_of(s, field->inside, XCC_NODE_OP_TYPE, &op));
    if (!xcc_wire_is(&op, "Identity"))
        return XCVM_OK;
    XCVM_TRY(field_of(s, field->inside, XCC_NODE_INPUT, &from));
    XCVM_TRY(field_of(s, field->inside, NODE_OUTPUT, &to));
    initializer *i = initializer_of(s, from);
    if (i == NULL || !i->uniform || i->input || i->readers < 2 || length_of(to) == 0)
        return XCVM_OK;
    i->readers--;
    return separate(s, i->tensor, to, edit);
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

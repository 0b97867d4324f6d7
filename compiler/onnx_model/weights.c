/* Weights of model files, read and written field by field. */
#include "compiler/onnx_model/weights.h"

#include "base/array.h"
#include "compiler/ir/graph.h"
#include "compiler/onnx_model/wire.h"

#include <stdio.h>
#include <stdlib.h>

/* Numbers of fields in onnx.proto. */
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2, TENSOR_EXTERNAL = 13, TENSOR_LOCATION = 14 };

static size_t length_of(const xcvm_wire *wire) { return (size_t)(wire->end - wire->at); }

/* ---- Tensors ---- */

static xcvm_status add_dim(xcc_weight *weight, uint64_t dim, xcvm_error *error)
{
    XCVM_CHECK(error, weight->rank < XCVM_MAX_RANK, UNSUPPORTED, "an initializer has more than %d dimensions",
               XCVM_MAX_RANK);
    weight->dims[weight->rank++] = (int64_t)dim;
    return XCVM_OK;
}

static xcvm_status read_tensor(xcvm_wire tensor, xcc_weight *weight, xcvm_wire *name, xcvm_error *error)
{
    *weight = (xcc_weight){.name = NULL};
    *name = (xcvm_wire){NULL, NULL};
    for (;;) {
        xcvm_wire_field field;
        bool more;
        XCVM_TRY(xcc_wire_next(&tensor, &field, &more, error));
        if (!more)
            return XCVM_OK;
        if (field.number == XCC_TENSOR_DATA_TYPE && field.type == XCVM_WIRE_VARINT)
            weight->dtype = field.value < 100 ? (xcvm_dtype)field.value : XCVM_NO_DTYPE;
        else if (field.number == TENSOR_LOCATION && field.type == XCVM_WIRE_VARINT)
            weight->external = field.value == 1;
        else if (field.number == XCC_TENSOR_NAME && field.type == XCVM_WIRE_BYTES)
            *name = field.inside;
        else if (field.number == XCC_TENSOR_DIMS && field.type == XCVM_WIRE_VARINT)
            XCVM_TRY(add_dim(weight, field.value, error));
        else if (field.number == XCC_TENSOR_DIMS && field.type == XCVM_WIRE_BYTES)
            for (uint64_t dim; length_of(&field.inside) > 0;) {
                XCVM_CHECK(error, xcvm_wire_varint(&field.inside, &dim), INVALID_MODEL,
                           "the dimensions of an initializer are cut off");
                XCVM_TRY(add_dim(weight, dim, error));
            }
    }
}

/* ---- Listing ---- */

typedef struct list {
    xcvm_arena *arena;
    xcc_weight *items;
    size_t count, capacity;
    xcvm_error *error;
} list;

/* Calls `visit` for each field of that number, of bytes, in a message. */
static xcvm_status each(xcvm_wire message, uint32_t number, xcvm_status (*visit)(list *l, xcvm_wire inside), list *l)
{
    for (;;) {
        xcvm_wire_field field;
        bool more;
        XCVM_TRY(xcc_wire_next(&message, &field, &more, l->error));
        if (!more)
            return XCVM_OK;
        if (field.number == number && field.type == XCVM_WIRE_BYTES)
            XCVM_TRY(visit(l, field.inside));
    }
}

static xcvm_status add_initializer(list *l, xcvm_wire tensor)
{
    xcc_weight weight;
    xcvm_wire name;
    XCVM_TRY(read_tensor(tensor, &weight, &name, l->error));
    xcc_weight *items = xcvm_arena_grow(l->arena, l->items, l->count, &l->capacity, sizeof *items);
    weight.name = xcvm_arena_string(l->arena, (const char *)name.at, length_of(&name));
    XCVM_CHECK(l->error, items != NULL && weight.name != NULL, OUT_OF_MEMORY, "no memory for the names of weights");
    l->items = items;
    items[l->count++] = weight;
    return XCVM_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const xcc_weight *)a)->name, ((const xcc_weight *)b)->name);
}

/* A name inside a message. */
typedef struct key {
    const char *name;
    size_t length;
} key;

static int by_key(const void *a, const void *b)
{
    const key *k = a;
    const char *name = ((const xcc_weight *)b)->name;
    const size_t length = strlen(name), shorter = k->length < length ? k->length : length;
    const int order = shorter > 0 ? memcmp(k->name, name, shorter) : 0;
    return order != 0 ? order : (k->length > length) - (k->length < length);
}

const xcc_weight *xcc_weights_find(const xcc_weight *weights, size_t count, const char *name, size_t length)
{
    const key k = {name, length};
    return count > 0 ? bsearch(&k, weights, count, sizeof *weights, by_key) : NULL;
}

/* ---- Roles ---- */

/* Uses of the inputs of operators from the second on. */
static const struct {
    const char *op;
    xcc_weight_role roles[5];
    int64_t gates;
} takers[] = {
    {"Conv", {XCC_WEIGHT_OTHER, XCC_WEIGHT_OUT_IN, XCC_WEIGHT_SHIFT}, 0},
    {"ConvTranspose", {XCC_WEIGHT_OTHER, XCC_WEIGHT_IN_OUT, XCC_WEIGHT_SHIFT}, 0},
    {"Gemm", {XCC_WEIGHT_OTHER, XCC_WEIGHT_IN_OUT, XCC_WEIGHT_SHIFT}, 0},
    {"MatMul", {XCC_WEIGHT_OUT_IN, XCC_WEIGHT_IN_OUT}, 0},
    {"Transpose", {XCC_WEIGHT_OUT_IN}, 0},
    {"Gather", {XCC_WEIGHT_OUT_IN}, 0},
    {"Add", {XCC_WEIGHT_SHIFT, XCC_WEIGHT_SHIFT}, 0},
    {"LSTM", {XCC_WEIGHT_OTHER, XCC_WEIGHT_GATES, XCC_WEIGHT_GATES, XCC_WEIGHT_SHIFT}, 4},
    {"GRU", {XCC_WEIGHT_OTHER, XCC_WEIGHT_GATES, XCC_WEIGHT_GATES, XCC_WEIGHT_SHIFT}, 3},
    {"RNN", {XCC_WEIGHT_OTHER, XCC_WEIGHT_GATES, XCC_WEIGHT_GATES, XCC_WEIGHT_SHIFT}, 1},
    {"BatchNormalization",
     {XCC_WEIGHT_OTHER, XCC_WEIGHT_SCALE, XCC_WEIGHT_SHIFT, XCC_WEIGHT_SHIFT, XCC_WEIGHT_VARIANCE},
     0},
    {"InstanceNormalization", {XCC_WEIGHT_OTHER, XCC_WEIGHT_SCALE, XCC_WEIGHT_SHIFT}, 0},
    {"GroupNormalization", {XCC_WEIGHT_OTHER, XCC_WEIGHT_SCALE, XCC_WEIGHT_SHIFT}, 0},
    {"LayerNormalization", {XCC_WEIGHT_OTHER, XCC_WEIGHT_SCALE, XCC_WEIGHT_SHIFT}, 0},
};
enum { TAKERS = sizeof takers / sizeof *takers };

static xcc_weight *own_weight(list *l, const xcvm_wire *name)
{
    return (xcc_weight *)(uintptr_t)xcc_weights_find(l->items, l->count, (const char *)name->at, length_of(name));
}

static xcvm_status read_node(list *l, xcvm_wire node)
{
    enum { INPUTS = 5 };
    xcvm_wire inputs[INPUTS], op = {NULL, NULL};
    int input_count = 0;
    int64_t transposed = 0;
    bool named;
    for (;;) {
        xcvm_wire_field field;
        bool more;
        XCVM_TRY(xcc_wire_next(&node, &field, &more, l->error));
        if (!more)
            break;
        if (field.type != XCVM_WIRE_BYTES)
            continue;
        if (field.number == XCC_NODE_INPUT && input_count < INPUTS)
            inputs[input_count++] = field.inside;
        else if (field.number == XCC_NODE_OP_TYPE)
            op = field.inside;
        else if (field.number == XCC_NODE_ATTRIBUTE)
            XCVM_TRY(xcc_wire_int_attribute(field.inside, "transB", &named, &transposed, l->error));
    }
    for (size_t t = 0; t < TAKERS; t++) {
        if (!xcc_wire_is(&op, takers[t].op))
            continue;
        for (int i = 0; i < input_count; i++) {
            xcc_weight *weight = own_weight(l, &inputs[i]);
            if (weight == NULL || weight->role != XCC_WEIGHT_OTHER)
                continue;
            weight->role = takers[t].roles[i];
            weight->gates = takers[t].gates;
            if (transposed != 0 && weight->role == XCC_WEIGHT_IN_OUT)
                weight->role = XCC_WEIGHT_OUT_IN;
        }
    }
    return XCVM_OK;
}

static xcvm_status read_initializers(list *l, xcvm_wire graph)
{
    return each(graph, XCC_GRAPH_INITIALIZER, add_initializer, l);
}
static xcvm_status read_nodes(list *l, xcvm_wire graph) { return each(graph, XCC_GRAPH_NODE, read_node, l); }

xcvm_status xcc_weights_list(const void *model, size_t count, xcvm_arena *arena, const xcc_weight **weights,
                             size_t *weight_count, xcvm_error *error)
{
    list l = {.arena = arena, .error = error};
    XCVM_TRY(each(xcvm_wire_of(model, count), XCC_MODEL_GRAPH, read_initializers, &l));
    if (l.count > 0)
        qsort(l.items, l.count, sizeof *l.items, by_name);
    XCVM_TRY(each(xcvm_wire_of(model, count), XCC_MODEL_GRAPH, read_nodes, &l));
    *weights = l.items;
    *weight_count = l.count;
    return XCVM_OK;
}

/* ---- Replacing ---- */

typedef struct writing {
    const xcc_replacement *how;
    xcvm_sink sink; /* NULL: bytes are only counted */
    uint64_t total;
    uint64_t offset; /* in the file of elements */
    bool failed;
    xcvm_error *error;
} writing;

static void put(writing *w, const void *bytes, size_t count)
{
    w->total += count;
    if (w->sink.call != NULL && !w->failed && count > 0)
        w->failed = !w->sink.call(w->sink.user, bytes, count);
}

static void put_varint(writing *w, uint64_t value)
{
    uint8_t bytes[XCVM_VARINT_SIZE];
    put(w, bytes, xcvm_varint_put(bytes, value));
}

static void put_head(writing *w, uint32_t number, uint64_t count)
{
    put_varint(w, (uint64_t)number << 3 | XCVM_WIRE_BYTES);
    put_varint(w, count);
}

/* Fields that hold elements, or say where they are; raw_data comes in their place. */
static bool holds_elements(uint32_t number)
{
    enum { FLOATS = 4, INTS = 5, STRINGS = 6, LONGS = 7, DOUBLES = 10, UNSIGNED = 11 };
    switch (number) {
    case FLOATS:
    case INTS:
    case STRINGS:
    case LONGS:
    case XCC_TENSOR_RAW_DATA:
    case DOUBLES:
    case UNSIGNED:
    case TENSOR_EXTERNAL:
    case TENSOR_LOCATION:
        return true;
    default:
        return false;
    }
}

static uint64_t varint_size(uint64_t value)
{
    uint64_t size = 1;
    for (; value > 0x7f; value >>= 7)
        size++;
    return size;
}

/* A StringStringEntryProto of short texts, as field `number`. */
static void put_entry(writing *w, uint32_t number, const char *name, const char *value)
{
    const size_t name_length = strlen(name), value_length = strlen(value);
    put_head(w, number, 2 + varint_size(name_length) + varint_size(value_length) + name_length + value_length);
    put_head(w, ENTRY_KEY, name_length);
    put(w, name, name_length);
    put_head(w, ENTRY_VALUE, value_length);
    put(w, value, value_length);
}

/* The elements go to the file of elements, at a multiple of 64 bytes. */
static void put_external(writing *w, const xcvm_value *value)
{
    enum { ALIGNMENT = 64 };
    static const uint8_t zeros[ALIGNMENT];
    char number[24];
    const size_t gap = (size_t)(-w->offset % ALIGNMENT);
    put_entry(w, TENSOR_EXTERNAL, "location", w->how->location);
    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)(w->offset + gap));
    put_entry(w, TENSOR_EXTERNAL, "offset", number);
    (void)snprintf(number, sizeof number, "%zu", value->bytes);
    put_entry(w, TENSOR_EXTERNAL, "length", number);
    put_varint(w, TENSOR_LOCATION << 3);
    put_varint(w, 1);
    if (w->sink.call != NULL && !w->failed)
        w->failed = !w->how->data.call(w->how->data.user, zeros, gap) ||
                    !w->how->data.call(w->how->data.user, value->data, value->bytes);
    w->offset += gap + value->bytes;
}

static xcvm_status write_tensor(writing *w, xcvm_wire tensor, const xcvm_value *value)
{
    for (;;) {
        const uint8_t *start = tensor.at;
        xcvm_wire_field field;
        bool more;
        XCVM_TRY(xcc_wire_next(&tensor, &field, &more, w->error));
        if (!more)
            break;
        if (!holds_elements(field.number))
            put(w, start, (size_t)(tensor.at - start));
    }
    enum { LARGE = 1024 };
    if (w->how->data.call != NULL && value->bytes >= LARGE) {
        put_external(w, value);
        return XCVM_OK;
    }
    put_head(w, XCC_TENSOR_RAW_DATA, value->bytes);
    put(w, value->data, value->bytes);
    return XCVM_OK;
}

static xcvm_status new_value(const writing *w, xcvm_wire tensor, const xcvm_value **value)
{
    xcc_weight weight;
    xcvm_wire name;
    char has[100], wants[100];
    XCVM_TRY(read_tensor(tensor, &weight, &name, w->error));
    const char *text = name.at != NULL ? (const char *)name.at : "";
    *value = w->how->find != NULL ? w->how->find(w->how->find_user, text, length_of(&name)) : NULL;
    if (*value == NULL)
        return XCVM_OK;
    const xcvm_value *v = *value;
    XCVM_CHECK(w->error,
               v->kind == XCVM_KIND_TENSOR && v->dtype == weight.dtype && v->rank == weight.rank &&
                   memcmp(v->dims, weight.dims, (size_t)weight.rank * sizeof *weight.dims) == 0,
               SHAPE_MISMATCH, "the weights of \"%.*s\" are %s%s, the model has %s%s",
               (int)(length_of(&name) < 100 ? length_of(&name) : 100), text, xcvm_dtype_name((xcvm_dtype)v->dtype),
               xcvm_dims_describe(v->rank, v->dims, has, sizeof has), xcvm_dtype_name(weight.dtype),
               xcvm_dims_describe(weight.rank, weight.dims, wants, sizeof wants));
    return XCVM_OK;
}

/* Returns true if the type belongs to a removed value. */
static xcvm_status is_gone(const writing *w, xcvm_wire info, bool *gone)
{
    xcvm_wire name;
    XCVM_TRY(xcc_wire_find(info, XCC_INFO_NAME, &name, w->error));
    *gone = name.at != NULL && xcc_model_edits_drop(w->how->edits, (const char *)name.at, length_of(&name));
    return XCVM_OK;
}

/* Copies a field, or its replacement in `edit`. */
static void put_field(writing *w, const uint8_t *start, const uint8_t *end, const xcc_edit *edit)
{
    if (edit != NULL && edit->bytes != NULL)
        put(w, edit->bytes, edit->count);
    else
        put(w, start, (size_t)(end - start));
}

static xcvm_status write_graph(writing *w, xcvm_wire graph)
{
    size_t nodes = 0;
    for (;;) {
        const uint8_t *start = graph.at;
        xcvm_wire_field field;
        const xcvm_value *value = NULL;
        const xcc_edit *edit = NULL;
        bool more, gone = false;
        XCVM_TRY(xcc_wire_next(&graph, &field, &more, w->error));
        if (!more)
            return XCVM_OK;
        if (field.number == XCC_GRAPH_INITIALIZER && field.type == XCVM_WIRE_BYTES)
            XCVM_TRY(new_value(w, field.inside, &value));
        if (field.number == XCC_GRAPH_NODE && field.type == XCVM_WIRE_BYTES && w->how->edits != NULL)
            edit = &w->how->edits->nodes[nodes++];
        if (field.number == XCC_GRAPH_VALUE_INFO && field.type == XCVM_WIRE_BYTES && w->how->edits != NULL)
            XCVM_TRY(is_gone(w, field.inside, &gone));
        if (value == NULL) {
            if (!gone)
                put_field(w, start, graph.at, edit);
            continue;
        }
        writing counting = *w;
        counting.sink.call = NULL;
        counting.total = 0;
        XCVM_TRY(write_tensor(&counting, field.inside, value));
        put_head(w, XCC_GRAPH_INITIALIZER, counting.total);
        XCVM_TRY(write_tensor(w, field.inside, value));
    }
}

/* Returns true if an entry of metadata has the key. */
static xcvm_status has_key(xcvm_wire entry, const char *name, bool *has, xcvm_wire *value, xcvm_error *error)
{
    for (*has = false;;) {
        xcvm_wire_field field;
        bool more;
        XCVM_TRY(xcc_wire_next(&entry, &field, &more, error));
        if (!more)
            return XCVM_OK;
        if (field.number == ENTRY_KEY && field.type == XCVM_WIRE_BYTES)
            *has = xcc_wire_is(&field.inside, name);
        else if (field.number == ENTRY_VALUE && field.type == XCVM_WIRE_BYTES)
            *value = field.inside;
    }
}

static xcvm_status names_classes(xcvm_wire entry, bool *names, xcvm_error *error)
{
    xcvm_wire value;
    bool output;
    XCVM_TRY(has_key(entry, XCC_CLASS_NAMES, names, &value, error));
    XCVM_TRY(has_key(entry, XCC_CLASS_OUTPUT, &output, &value, error));
    *names |= output;
    return XCVM_OK;
}

static xcvm_status replace_graph(writing *w, xcvm_wire graph)
{
    writing counting = *w;
    counting.sink.call = NULL;
    counting.total = 0;
    XCVM_TRY(write_graph(&counting, graph));
    XCVM_CHECK(w->error, counting.total < INT32_MAX, UNSUPPORTED,
               "with its weights inside the model has 2 GB and more, which no model file can hold");
    put_head(w, XCC_MODEL_GRAPH, counting.total);
    return write_graph(w, graph);
}

xcvm_status xcc_weights_replace(const void *model, size_t count, const xcc_replacement *replacement, xcvm_sink sink,
                                xcvm_error *error)
{
    writing w = {.how = replacement, .sink = sink, .error = error};
    const xcc_model_edits *edits = replacement->edits;
    xcvm_wire wire = xcvm_wire_of(model, count);
    size_t functions = 0;
    for (;;) {
        const uint8_t *start = wire.at;
        xcvm_wire_field field;
        bool more, dropped = false;
        XCVM_TRY(xcc_wire_next(&wire, &field, &more, error));
        if (!more)
            break;
        if (field.number == XCC_MODEL_GRAPH && field.type == XCVM_WIRE_BYTES) {
            XCVM_TRY(replace_graph(&w, field.inside));
            continue;
        }
        if (replacement->class_names != NULL && field.number == XCC_MODEL_METADATA && field.type == XCVM_WIRE_BYTES)
            XCVM_TRY(names_classes(field.inside, &dropped, error));
        const bool function = edits != NULL && field.number == XCC_MODEL_FUNCTION && field.type == XCVM_WIRE_BYTES;
        if (!dropped)
            put_field(&w, start, wire.at, function ? &edits->functions[functions++] : NULL);
    }
    if (replacement->class_names != NULL && replacement->class_names[0] != '\0') {
        put_entry(&w, XCC_MODEL_METADATA, XCC_CLASS_NAMES, replacement->class_names);
        if (replacement->class_output != NULL)
            put_entry(&w, XCC_MODEL_METADATA, XCC_CLASS_OUTPUT, replacement->class_output);
    }
    XCVM_CHECK(error, !w.failed, IO, "the model cannot be written");
    return XCVM_OK;
}

/* ---- Names of classes ---- */

/* A name for each line of the text. */
static xcvm_status split(const xcvm_wire *text, xcvm_arena *arena, const char ***names, size_t *count,
                         xcvm_error *error)
{
    size_t capacity = 0;
    const uint8_t *at = text->at;
    while (at < text->end) {
        const uint8_t *end = memchr(at, '\n', (size_t)(text->end - at));
        end = end != NULL ? end : text->end;
        const char **items = xcvm_arena_grow(arena, *names, *count, &capacity, sizeof *items);
        const char *name = xcvm_arena_string(arena, (const char *)at, (size_t)(end - at));
        XCVM_CHECK(error, items != NULL && name != NULL, OUT_OF_MEMORY, "no memory for the names of classes");
        *names = items;
        items[(*count)++] = name;
        at = end + (end < text->end);
    }
    return XCVM_OK;
}

xcvm_status xcc_classes_read(const void *model, size_t count, xcvm_arena *arena, const char ***names,
                             size_t *name_count, xcvm_error *error)
{
    xcvm_wire wire = xcvm_wire_of(model, count), found = {NULL, NULL};
    *names = NULL;
    *name_count = 0;
    for (;;) {
        xcvm_wire_field field;
        xcvm_wire value = {NULL, NULL};
        bool more, named;
        XCVM_TRY(xcc_wire_next(&wire, &field, &more, error));
        if (!more)
            break;
        if (field.number != XCC_MODEL_METADATA || field.type != XCVM_WIRE_BYTES)
            continue;
        XCVM_TRY(has_key(field.inside, XCC_CLASS_NAMES, &named, &value, error));
        if (named && value.at != NULL)
            found = value;
    }
    return found.at != NULL ? split(&found, arena, names, name_count, error) : XCVM_OK;
}

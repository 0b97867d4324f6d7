/* Values as ONNX serializes them: TensorProto, SequenceProto and OptionalProto. The last two, of onnx-data.proto,
 * number their fields alike: a name, which kind the items have, and the items of each kind. */
#include "base/clock.h"
#include "compiler/onnx_model/tensor_proto.h"
#include "compiler/onnx_model/wire.h"
#include "proto/wire.h"

#include <string.h>

enum {
    FIELD_NAME = 1,
    FIELD_ITEM_KIND = 2,
    FIELD_TENSOR = 3,
    FIELD_SPARSE = 4,
    FIELD_SEQUENCE = 5,
    FIELD_MAP = 6,
    FIELD_OPTIONAL = 7
};
enum { NAME_SIZE = 128 };

static void copy_name(char name[NAME_SIZE], const void *text, size_t length)
{
    if (name == NULL)
        return;
    if (length > NAME_SIZE - 1)
        length = NAME_SIZE - 1;
    if (length > 0)
        memcpy(name, text, length);
    name[length] = '\0';
}

/* ---- Reading ---- */

typedef struct reader {
    const xcvm_allocator *allocator;
    uint64_t deadline_ns; /* monotonic clock; 0: none */
    size_t fields;        /* of lists, that have been looked at */
    xcvm_error *error;
} reader;

/* Checks the deadline once per this number of fields. */
static xcvm_status check_time(reader *r)
{
    enum { FIELDS = 1 << 10 };
    XCVM_CHECK(r->error, r->fields++ % FIELDS != 0 || r->deadline_ns == 0 || xcvm_clock_ns() < r->deadline_ns,
               OUT_OF_TIME, "reading the value exceeds the time limit");
    return XCVM_OK;
}

static xcvm_status make_tensor(const reader *r, const xcc_tensor *t, xcvm_arena *arena, xcvm_value **value)
{
    if (t->dtype != XCVM_STRING) {
        XCVM_TRY(xcvm_tensor_create(r->allocator, t->dtype, t->rank, t->dims, value, r->error));
        if (t->bytes > 0)
            memcpy((*value)->data, t->data, t->bytes);
        return XCVM_OK;
    }
    const xcvm_string *spans = t->data;
    const char **strings = xcvm_arena_allocate(arena, t->count * sizeof *strings);
    size_t *lengths = xcvm_arena_allocate(arena, t->count * sizeof *lengths);
    XCVM_CHECK(r->error, strings != NULL && lengths != NULL, OUT_OF_MEMORY, "no memory for %zu strings", t->count);
    for (size_t i = 0; i < t->count; i++) {
        strings[i] = (const char *)t->data + spans[i].offset;
        lengths[i] = (size_t)spans[i].length;
    }
    return xcvm_string_tensor_create(r->allocator, t->rank, t->dims, strings, lengths, value, r->error);
}

static xcvm_status read_tensor(const reader *r, xcvm_wire wire, char name[NAME_SIZE], xcvm_value **value)
{
    xcvm_arena arena = {.allocator = r->allocator};
    ProtobufCMessage *message;
    xcvm_status status = xcc_message_unpack(&onnx__tensor_proto__descriptor, wire.at, (size_t)(wire.end - wire.at),
                                            (xcc_stop){.deadline_ns = r->deadline_ns}, &arena, &message, r->error);
    if (status == XCVM_OK) {
        const Onnx__TensorProto *proto = (const Onnx__TensorProto *)message;
        xcc_tensor t = {.count = 0};
        copy_name(name, proto->name, proto->name != NULL ? strlen(proto->name) : 0);
        if (proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
            status = xcvm_error_set(r->error, XCVM_UNSUPPORTED, "the value keeps its data in another file");
        if (status == XCVM_OK)
            status = xcc_tensor_read(proto, &arena, NULL, &t, r->error);
        if (status == XCVM_OK)
            status = make_tensor(r, &t, &arena, value);
    }
    xcvm_arena_release(&arena);
    return status;
}

static xcvm_status read_list(reader *r, xcvm_wire wire, xcvm_kind kind, int depth, char name[NAME_SIZE],
                             xcvm_value *list);

/* The handle of a tensor is released after reading. Lists have no handles, because a byte or two can create one. */
static xcvm_status read_item(reader *r, const xcvm_wire_field *field, int depth, xcvm_value *item)
{
    xcvm_value *tensor;
    switch (field->number) {
    case FIELD_TENSOR:
        XCVM_TRY(read_tensor(r, field->inside, NULL, &tensor));
        xcvm_value_share(item, tensor);
        xcvm_value_release(tensor);
        return XCVM_OK;
    case FIELD_SEQUENCE:
        return read_list(r, field->inside, XCVM_KIND_SEQUENCE, depth + 1, NULL, item);
    case FIELD_OPTIONAL:
        return read_list(r, field->inside, XCVM_KIND_OPTIONAL, depth + 1, NULL, item);
    default:
        return xcvm_error_set(r->error, XCVM_UNSUPPORTED, "maps and sparse tensors in a list are not supported");
    }
}

/* Counts the items, or reads them where `items` is not NULL. */
static xcvm_status read_items(reader *r, xcvm_wire wire, int depth, char name[NAME_SIZE], xcvm_value *items,
                              size_t *count)
{
    for (;;) {
        xcvm_wire_field field;
        bool more;
        XCVM_TRY(check_time(r));
        XCVM_TRY(xcc_wire_next(&wire, &field, &more, r->error));
        if (!more)
            return XCVM_OK;
        if (field.number == FIELD_ITEM_KIND || field.number > FIELD_OPTIONAL)
            continue;
        XCVM_CHECK(r->error, field.type == XCVM_WIRE_BYTES, INVALID_MODEL, "field %u of the list is no message",
                   field.number);
        if (field.number == FIELD_NAME)
            copy_name(name, field.inside.at, (size_t)field.value);
        else if (items == NULL)
            ++*count;
        else
            XCVM_TRY(read_item(r, &field, depth, &items[(*count)++]));
    }
}

/* `list` is null. After a failure it holds the items that have been read. */
static xcvm_status read_list(reader *r, xcvm_wire wire, xcvm_kind kind, int depth, char name[NAME_SIZE],
                             xcvm_value *list)
{
    XCVM_CHECK(r->error, depth <= XCVM_MAX_NESTING, INVALID_MODEL, "lists are nested deeper than %d", XCVM_MAX_NESTING);
    size_t count = 0, made = 0;
    XCVM_TRY(read_items(r, wire, depth, name, NULL, &count));
    XCVM_CHECK(r->error, kind != XCVM_KIND_OPTIONAL || count <= 1, INVALID_MODEL, "an optional holds %zu values",
               count);
    XCVM_CHECK(r->error, count <= UINT32_MAX, INVALID_MODEL, "%zu items are too many for a list", count);
    xcvm_storage *storage = xcvm_storage_create_list(r->allocator, count);
    XCVM_CHECK(r->error, storage != NULL, OUT_OF_MEMORY, "no memory for a list of %zu values", count);
    list->kind = (uint8_t)kind;
    list->rank = -1;
    list->count = (uint32_t)count;
    list->memory_kind = XCVM_MEMORY_OWNED;
    list->storage = storage;
    list->data = storage->data;
    XCVM_TRY(read_items(r, wire, depth, NULL, storage->data, &made));
    XCVM_CHECK(r->error, xcvm_list_update(list), INVALID_MODEL, "lists are nested deeper than %d", XCVM_MAX_NESTING);
    return XCVM_OK;
}

/* The same, with a handle. */
static xcvm_status make_list(reader *r, xcvm_wire wire, xcvm_kind kind, char name[NAME_SIZE], xcvm_value **list)
{
    xcvm_value *created;
    XCVM_TRY(xcvm_list_create(r->allocator, kind, 0, NULL, &created, r->error));
    xcvm_value_clear(created);
    const xcvm_status status = read_list(r, wire, kind, 1, name, created);
    if (status == XCVM_OK)
        *list = created;
    else
        xcvm_value_release(created);
    return status;
}

xcvm_status xcc_value_load(const void *bytes, size_t count, const xcvm_type *type, const xcvm_allocator *allocator,
                           uint64_t timeout_ns, char name[128], xcvm_value **value, xcvm_error *error)
{
    reader r = {.allocator = xcvm_allocator_or_default(allocator),
                .deadline_ns = xcvm_clock_deadline(timeout_ns),
                .error = error};
    xcvm_wire wire = xcvm_wire_of(bytes, count);
    copy_name(name, "", 0);
    if (type == NULL || type->kind == XCVM_KIND_TENSOR || type->kind == XCVM_KIND_NULL) {
        XCVM_TRY(read_tensor(&r, wire, name, value));
        /* ONNX's own test data has bfloat16 as the integers of the same bits. */
        if (type != NULL && type->dtype == XCVM_BF16 && (*value)->dtype == XCVM_U16)
            (*value)->dtype = XCVM_BF16;
        return XCVM_OK;
    }
    XCVM_CHECK(error, type->kind == XCVM_KIND_SEQUENCE || type->kind == XCVM_KIND_OPTIONAL, UNSUPPORTED,
               "values other than tensors, sequences and optionals cannot be read");
    XCVM_TRY(make_list(&r, wire, type->kind, name, value));
    if ((*value)->dtype == XCVM_NO_DTYPE)
        (*value)->dtype = (uint8_t)type->dtype;
    return XCVM_OK;
}

/* ---- Writing ---- */

/* Without a sink it only counts, as a message's length comes before it. */
typedef struct writer {
    xcvm_sink sink;
    uint64_t count;
    bool failed;
} writer;

static void put_bytes(writer *w, const void *bytes, size_t count)
{
    w->count += count;
    if (w->sink.call != NULL && count > 0 && !w->failed)
        w->failed = !w->sink.call(w->sink.user, bytes, count);
}

static void put_varint(writer *w, uint64_t value)
{
    uint8_t bytes[XCVM_VARINT_SIZE];
    put_bytes(w, bytes, xcvm_varint_put(bytes, value));
}

static void put_number(writer *w, uint32_t field, uint64_t value)
{
    put_varint(w, (uint64_t)field << 3 | XCVM_WIRE_VARINT);
    put_varint(w, value);
}

static void put_text(writer *w, uint32_t field, const void *bytes, size_t count)
{
    put_varint(w, (uint64_t)field << 3 | XCVM_WIRE_BYTES);
    put_varint(w, count);
    put_bytes(w, bytes, count);
}

static void put_value(writer *w, const xcvm_value *value, const char *name);

static void put_tensor(writer *w, const xcvm_value *value, const char *name)
{
    for (int i = 0; i < value->rank; i++)
        put_number(w, XCC_TENSOR_DIMS, (uint64_t)value->dims[i]);
    put_number(w, XCC_TENSOR_DATA_TYPE, value->dtype);
    if (value->dtype == XCVM_STRING) {
        size_t count = xcvm_element_count(value);
        for (size_t i = 0; i < count; i++) {
            size_t length;
            const char *text = xcvm_string_at(value, i, &length);
            put_text(w, XCC_TENSOR_STRING_DATA, text, length);
        }
    }
    if (name[0] != '\0')
        put_text(w, XCC_TENSOR_NAME, name, strlen(name));
    if (value->dtype != XCVM_STRING)
        put_text(w, XCC_TENSOR_RAW_DATA, value->data, value->bytes);
}

static void put_list(writer *w, const xcvm_value *list, const char *name)
{
    /* Numbers of the kinds in SequenceProto.DataType. */
    static const uint32_t fields[] = {[XCVM_KIND_TENSOR] = FIELD_TENSOR,
                                      [XCVM_KIND_SEQUENCE] = FIELD_SEQUENCE,
                                      [XCVM_KIND_OPTIONAL] = FIELD_OPTIONAL};
    static const uint32_t kinds[] = {[XCVM_KIND_TENSOR] = 1, [XCVM_KIND_SEQUENCE] = 3, [XCVM_KIND_OPTIONAL] = 5};
    const xcvm_value *items = xcvm_items(list);
    if (name[0] != '\0')
        put_text(w, FIELD_NAME, name, strlen(name));
    if (list->count > 0)
        put_number(w, FIELD_ITEM_KIND, kinds[items[0].kind]);
    for (size_t i = 0; i < list->count; i++) {
        writer length = {.sink.call = NULL};
        put_value(&length, &items[i], "");
        put_varint(w, (uint64_t)fields[items[i].kind] << 3 | XCVM_WIRE_BYTES);
        put_varint(w, length.count);
        put_value(w, &items[i], "");
    }
}

static void put_value(writer *w, const xcvm_value *value, const char *name)
{
    if (value->kind == XCVM_KIND_TENSOR)
        put_tensor(w, value, name);
    else
        put_list(w, value, name);
}

/* `left`: values that may still be written; lists that share their items have exponentially many. */
static bool can_be_saved(const xcvm_value *value, size_t *left)
{
    if (*left == 0)
        return false;
    --*left;
    if (value->kind == XCVM_KIND_TENSOR)
        return true;
    if (value->kind != XCVM_KIND_SEQUENCE && value->kind != XCVM_KIND_OPTIONAL)
        return false;
    for (size_t i = 0; i < value->count; i++)
        if (!can_be_saved(&xcvm_items(value)[i], left))
            return false;
    return true;
}

xcvm_status xcc_value_save(const xcvm_value *value, const char *name, xcvm_sink sink, xcvm_error *error)
{
    XCVM_CHECK(error, value != NULL && sink.call != NULL, INVALID_ARGUMENT, "a value and a sink are needed");
    enum { MOST_VALUES = 1 << 22 };
    size_t left = MOST_VALUES;
    const bool whole = can_be_saved(value, &left);
    XCVM_CHECK(error, whole || left != 0, OUT_OF_RANGE, "a list of more than %d values is not saved", MOST_VALUES);
    XCVM_CHECK(error, whole, UNSUPPORTED, "only tensors, and sequences and optionals of them, are saved");
    writer w = {.sink = sink};
    put_value(&w, value, name != NULL ? name : "");
    XCVM_CHECK(error, !w.failed, IO, "the value cannot be written");
    return XCVM_OK;
}

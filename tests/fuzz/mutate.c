/* Mutation of programs and models as protobuf messages. */
#include "tests/fuzz/mutate.h"
#include "compiler/onnx_model/onnx_model.h"

#include "xcvm.pb-c.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SITES = 20000, MOST_MUTATIONS = 4, DEEPEST = 60 };

/* A field that is there: where a mutation can take place, or take a value from. */
typedef struct site {
    ProtobufCMessage *message;
    const ProtobufCFieldDescriptor *field;
} site;

typedef struct mutation {
    xcvm_arena arena;
    uint64_t random;
    site sites[MOST_SITES];
    size_t count;
} mutation;

/* xorshift64* (Vigna, An experimental exploration of Marsaglia's xorshift generators, 2016). */
static uint64_t draw(mutation *m, uint64_t below)
{
    m->random ^= m->random >> 12;
    m->random ^= m->random << 25;
    m->random ^= m->random >> 27;
    return below == 0 ? 0 : (m->random * UINT64_C(2685821657736338717) >> 16) % below;
}

/* ---- Fields ---- */

static void *member_of(const site *s) { return (char *)s->message + s->field->offset; }

/* The count of a repeated field, the case of a oneof. */
static void *quantifier_of(const site *s) { return (char *)s->message + s->field->quantifier_offset; }

static bool is_repeated(const ProtobufCFieldDescriptor *f) { return f->label == PROTOBUF_C_LABEL_REPEATED; }
static bool is_oneof(const ProtobufCFieldDescriptor *f) { return (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0; }

static size_t size_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_ENUM:
        return 4;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 8;
    }
}

/* Returns true if the field has a value; a repeated field may be empty. */
static bool is_set(const site *s)
{
    if (is_repeated(s->field))
        return true;
    if (is_oneof(s->field))
        return *(uint32_t *)quantifier_of(s) == s->field->id;
    if (s->field->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(ProtobufCMessage **)member_of(s) != NULL;
    return true;
}

static void collect(mutation *m, ProtobufCMessage *message, int depth)
{
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;
    for (unsigned i = 0; i < descriptor->n_fields && m->count < MOST_SITES; i++) {
        const site s = {message, &descriptor->fields[i]};
        if (!is_set(&s))
            continue;
        m->sites[m->count++] = s;
        if (s.field->type != PROTOBUF_C_TYPE_MESSAGE || depth == 0)
            continue;
        if (!is_repeated(s.field)) {
            collect(m, *(ProtobufCMessage **)member_of(&s), depth - 1);
            continue;
        }
        ProtobufCMessage **items = *(ProtobufCMessage ***)member_of(&s);
        for (size_t k = 0; k < *(size_t *)quantifier_of(&s); k++)
            collect(m, items[k], depth - 1);
    }
}

/* ---- Values ---- */

static int64_t interesting(mutation *m)
{
    static const int64_t values[] = {0,  1,   -1,   2,         3,          4,         7,          8,
                                     16, 17,  64,   127,       255,        256,       1000,       65535,
                                     -2, -3,  -17,  1 << 20,   2147483647, 1LL << 31, 4294967295, 1LL << 40,
                                     10, 100, -100, INT64_MAX, INT64_MIN,  INT32_MIN, 1LL << 62,  -(1LL << 40)};
    return values[draw(m, sizeof values / sizeof *values)];
}

static double interesting_real(mutation *m)
{
    static const double values[] = {0.0, -0.0, 1.0,      -1.0,      0.5,  1e-40, 1e-310, 1e38,
                                    3e9, 1e19, INFINITY, -INFINITY, -2.5, 1e300, 100.0,  NAN};
    return values[draw(m, sizeof values / sizeof *values)];
}

static void mutate_bytes(mutation *m, ProtobufCBinaryData *b)
{
    uint8_t *copy = xcvm_arena_allocate(&m->arena, b->len + 8);
    if (copy == NULL)
        return;
    if (b->len != 0)
        memcpy(copy, b->data, b->len);
    b->data = copy;
    const size_t width = (size_t)1 << draw(m, 4);
    if (b->len < width || draw(m, 8) == 0) {
        b->len = draw(m, 2) == 0 ? draw(m, b->len + 1) : b->len + draw(m, 9);
        return;
    }
    const size_t at = draw(m, b->len / width) * width;
    const int64_t integer = interesting(m);
    const double real = interesting_real(m);
    const float narrow = (float)real;
    if (draw(m, 2) == 0)
        memcpy(copy + at, &integer, width);
    else
        memcpy(copy + at, width == 8 ? (const void *)&real : &narrow, width < 4 ? width : width == 8 ? 8 : 4);
}

static void mutate_string(mutation *m, char **string)
{
    const size_t length = *string != NULL ? strlen(*string) : 0;
    char *copy = xcvm_arena_string(&m->arena, *string != NULL ? *string : "", length);
    if (copy == NULL)
        return;
    if (length != 0)
        copy[draw(m, length)] = (char)(draw(m, 4) == 0 ? 0 : 32 + draw(m, 95));
    *string = copy;
}

/* One value of the field's type at `at`. */
static void mutate_value(mutation *m, const ProtobufCFieldDescriptor *f, void *at)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_ENUM: {
        const ProtobufCEnumDescriptor *set = f->descriptor;
        *(int *)at = set->values[draw(m, set->n_values)].value;
        return;
    }
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)at = !*(protobuf_c_boolean *)at;
        return;
    case PROTOBUF_C_TYPE_FLOAT:
        *(float *)at = (float)interesting_real(m);
        return;
    case PROTOBUF_C_TYPE_DOUBLE:
        *(double *)at = interesting_real(m);
        return;
    case PROTOBUF_C_TYPE_STRING:
        mutate_string(m, at);
        return;
    case PROTOBUF_C_TYPE_BYTES:
        mutate_bytes(m, at);
        return;
    case PROTOBUF_C_TYPE_MESSAGE:
        return;
    default: {
        int64_t value = 0;
        memcpy(&value, at, size_of(f->type));
        value = draw(m, 3) != 0 ? interesting(m) : (int64_t)((uint64_t)value + draw(m, 5) - 2);
        memcpy(at, &value, size_of(f->type));
    }
    }
}

/* Another site of the same field, or of one whose values are of the same type; the site itself if there is none. */
static const site *alike(mutation *m, const site *s)
{
    const size_t from = draw(m, m->count);
    const bool any = draw(m, 4) == 0;
    for (size_t i = 0; i < m->count; i++) {
        const site *other = &m->sites[(from + i) % m->count];
        if (other->field == s->field ||
            (any && other->field->type == s->field->type && other->field->descriptor == s->field->descriptor))
            return other;
    }
    return s;
}

/* A value of the site, or one of its items if it is repeated; NULL: there is none. */
static void *pick(mutation *m, const site *s)
{
    if (!is_repeated(s->field))
        return member_of(s);
    const size_t count = *(size_t *)quantifier_of(s);
    return count == 0 ? NULL : *(char **)member_of(s) + draw(m, count) * size_of(s->field->type);
}

/* A value for the site, from a similar one; NULL: there is none. */
static const void *pick_alike(mutation *m, const site *s)
{
    const void *value = pick(m, alike(m, s));
    const bool pointer = s->field->type == PROTOBUF_C_TYPE_STRING || s->field->type == PROTOBUF_C_TYPE_MESSAGE;
    return value != NULL && pointer && *(void *const *)value == NULL ? NULL : value;
}

/* Inserts an item from a similar site before another one; or removes, copies or exchanges items. */
static void mutate_items(mutation *m, const site *s)
{
    const size_t size = size_of(s->field->type), count = *(size_t *)quantifier_of(s);
    char *items = *(char **)member_of(s);
    const void *source = pick_alike(m, s);
    char *grown = xcvm_arena_allocate(&m->arena, (count + 1) * size);
    if (grown == NULL)
        return;
    const size_t at = draw(m, count + 1), other = draw(m, count);
    switch (count == 0 ? 0 : draw(m, 3)) {
    case 0:
        if (source == NULL)
            return;
        if (count != 0)
            memcpy(grown, items, at * size);
        memcpy(grown + at * size, source, size);
        if (count != at)
            memcpy(grown + (at + 1) * size, items + at * size, (count - at) * size);
        *(size_t *)quantifier_of(s) = count + 1;
        break;
    case 1:
        memcpy(grown, items, other * size);
        memcpy(grown + other * size, items + (other + 1) * size, (count - other - 1) * size);
        *(size_t *)quantifier_of(s) = count - 1;
        break;
    default:
        memcpy(grown, items, count * size);
        memcpy(grown + other * size, items + (at % count) * size, size);
        memcpy(grown + (at % count) * size, items + other * size, size);
        break;
    }
    *(char **)member_of(s) = grown;
}

/* Copies the value of a oneof to another one, whatever its case. */
static bool mutate_case(mutation *m, const site *s)
{
    const size_t from = draw(m, m->count);
    for (size_t i = 0; i < m->count; i++) {
        const site *other = &m->sites[(from + i) % m->count];
        if (!is_oneof(other->field) || other->message->descriptor != s->message->descriptor ||
            other->field->quantifier_offset != s->field->quantifier_offset || other->message == s->message)
            continue;
        *(uint32_t *)quantifier_of(s) = other->field->id;
        memcpy(member_of(s), member_of(other), size_of(other->field->type));
        return true;
    }
    return false;
}

static void mutate_site(mutation *m, const site *s)
{
    if (is_repeated(s->field) && (s->field->type == PROTOBUF_C_TYPE_MESSAGE || draw(m, 2) == 0)) {
        mutate_items(m, s);
        return;
    }
    if (is_oneof(s->field) && draw(m, 2) == 0 && mutate_case(m, s))
        return;
    void *at = pick(m, s);
    const void *source = draw(m, 2) == 0 || s->field->type == PROTOBUF_C_TYPE_MESSAGE ? pick_alike(m, s) : NULL;
    if (at == NULL)
        return;
    if (source != NULL && source != at)
        memcpy(at, source, size_of(s->field->type));
    else
        mutate_value(m, s->field, at);
}

/* ---- Messages ---- */

static ProtobufCMessage *mutate(mutation *m, const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes,
                                size_t count, unsigned seed)
{
    ProtobufCMessage *message;
    m->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    if (xcc_message_unpack(descriptor, bytes, count, (xcc_stop){0}, &m->arena, &message, NULL) != XCVM_OK)
        return NULL;
    for (uint64_t left = 1 + draw(m, MOST_MUTATIONS); left > 0; left--) {
        /* Messages may be shared by now, and so be met twice. */
        m->count = 0;
        collect(m, message, DEEPEST);
        if (m->count > 0)
            mutate_site(m, &m->sites[draw(m, m->count)]);
    }
    return message;
}

/* A message that was put inside itself would have no end. */
static bool is_deep(const ProtobufCMessage *message, int depth)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const site s = {(ProtobufCMessage *)(uintptr_t)message, &message->descriptor->fields[i]};
        if (s.field->type != PROTOBUF_C_TYPE_MESSAGE || !is_set(&s))
            continue;
        const size_t count = is_repeated(s.field) ? *(size_t *)quantifier_of(&s) : 1;
        ProtobufCMessage *const *items =
            is_repeated(s.field) ? *(ProtobufCMessage ***)member_of(&s) : (ProtobufCMessage **)member_of(&s);
        for (size_t k = 0; k < count; k++)
            if (depth == 0 || is_deep(items[k], depth - 1))
                return true;
    }
    return false;
}

size_t fuzz_mutate_message(const ProtobufCMessageDescriptor *descriptor, uint8_t *bytes, size_t count, size_t capacity,
                           unsigned seed)
{
    mutation *m = calloc(1, sizeof *m);
    size_t packed = 0;
    if (m == NULL)
        return 0;
    const ProtobufCMessage *message = mutate(m, descriptor, bytes, count, seed);
    if (message != NULL && !is_deep(message, DEEPEST)) {
        packed = protobuf_c_message_get_packed_size(message);
        packed = packed <= capacity ? protobuf_c_message_pack(message, bytes) : 0;
    }
    xcvm_arena_release(&m->arena);
    free(m);
    return packed;
}

/* Tag and length of a field of bytes. */
static size_t put_header(uint8_t *to, unsigned number, size_t length)
{
    size_t at = 0;
    to[at++] = (uint8_t)(number << 3 | 2);
    for (; length >= 128; length >>= 7)
        to[at++] = (uint8_t)(length | 128);
    to[at++] = (uint8_t)length;
    return at;
}

size_t fuzz_mutate_program(uint8_t *bytes, size_t count, size_t capacity, unsigned seed)
{
    enum { PADDING = 14, DATA = 15, HEADER = 12 };
    mutation *m = calloc(1, sizeof *m);
    size_t packed = 0;
    if (m == NULL)
        return 0;
    ProtobufCMessage *message = mutate(m, &xcvm__xcprogram__descriptor, bytes, count, seed);
    Xcvm__XCProgram *program = (Xcvm__XCProgram *)message;
    if (message != NULL && !is_deep(message, DEEPEST)) {
        const ProtobufCBinaryData data = program->data;
        program->data = program->padding = (ProtobufCBinaryData){0, NULL};
        program->file_bytes = 1;
        packed = protobuf_c_message_get_packed_size(message);
        const size_t end = packed + HEADER + XCVM_ALIGNMENT + HEADER;
        if (data.len > 0 && end + data.len <= capacity) {
            uint8_t header[HEADER];
            const size_t length = put_header(header, DATA, data.len);
            /* The header of the padding takes two bytes. */
            const size_t before = packed + 2 + length;
            const size_t padding = xcvm_round_up(before, XCVM_ALIGNMENT) - before;
            program->file_bytes = before + padding + data.len;
            uint8_t *at = bytes + protobuf_c_message_pack(message, bytes);
            at += put_header(at, PADDING, padding);
            memset(at, 0, padding);
            memcpy(at + padding, header, length);
            memcpy(at + padding + length, data.data, data.len);
            packed = program->file_bytes;
        } else if (data.len == 0 && packed <= capacity) {
            program->file_bytes = packed;
            protobuf_c_message_pack(message, bytes);
        } else {
            packed = 0;
        }
    }
    xcvm_arena_release(&m->arena);
    free(m);
    return packed;
}

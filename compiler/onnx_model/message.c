/* Unpacking ModelProto: checked by a walk over its fields, then by protobuf-c with memory of the module. */
#include "compiler/onnx_model/message.h"
#include "base/clock.h"
#include "compiler/onnx_model/wire.h"
#include "proto/recognize.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST_MESSAGE = 100, DEEPEST_GRAPH = 32 };

/* When to stop, and the number of polls so far. */
typedef struct timer {
    xcc_stop stop;
    uint32_t polls;
} timer;

static xcvm_status poll_timer(timer *t)
{
    enum { OFTEN = 256 };
    return t->polls++ % OFTEN == 0 ? xcc_stop_status(t->stop) : XCVM_OK;
}

static xcvm_status say_stopped(xcvm_status status, xcvm_error *error)
{
    return xcvm_error_set(error, status, "%s",
                          status == XCVM_CANCELLED ? "reading the model was cancelled" : "the deadline has passed");
}

static xcvm_status scan(const ProtobufCMessageDescriptor *descriptor, xcvm_wire wire, int depth, int graphs, timer *t,
                        xcvm_error *error)
{
    graphs += descriptor == &onnx__graph_proto__descriptor;
    XCVM_CHECK(error, graphs <= DEEPEST_GRAPH + 1, INVALID_MODEL, "subgraphs are nested deeper than %d", DEEPEST_GRAPH);
    XCVM_CHECK(error, depth <= DEEPEST_MESSAGE, INVALID_MODEL, "messages are nested deeper than %d", DEEPEST_MESSAGE);
    uint64_t seen = 0;
    for (;;) {
        xcvm_wire_field field;
        bool more;
        XCVM_TRY(xcc_wire_next(&wire, &field, &more, error));
        if (!more)
            return XCVM_OK;
        const xcvm_status stopped = poll_timer(t);
        if (stopped != XCVM_OK)
            return say_stopped(stopped, error);
        const ProtobufCFieldDescriptor *known =
            protobuf_c_message_descriptor_get_field(descriptor, (unsigned)field.number);
        if (known == NULL || known->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        XCVM_CHECK(error, field.type == XCVM_WIRE_BYTES, INVALID_MODEL, "%s.%s is no message", descriptor->short_name,
                   known->name);
        if (known->label != PROTOBUF_C_LABEL_REPEATED) {
            uint64_t bit = UINT64_C(1) << (known - descriptor->fields) % 64;
            XCVM_CHECK(error, (seen & bit) == 0, INVALID_MODEL, "%s.%s is given more than once", descriptor->short_name,
                       known->name);
            seen |= bit;
        }
        XCVM_TRY(scan(known->descriptor, field.inside, depth + 1, graphs, t, error));
    }
}

/* protobuf-c frees the tables that it parses a message with. They are kept by size for the next message. */
enum { CLASSES = 48 };

typedef struct block {
    _Alignas(16) struct block *next;
    size_t bytes;
} block;

_Static_assert(sizeof(block) == 16, "blocks must keep the arena's alignment");

typedef struct pool {
    xcvm_arena *arena;
    block *free[CLASSES];
    timer timer;
    bool exhausted;
    xcvm_status stopped;
} pool;

static unsigned size_class(size_t bytes)
{
    unsigned class = 0;
    while (class + 1 < CLASSES && (size_t)1 << (class + 1) <= bytes)
        class ++;
    return class;
}

static void *pool_allocate(void *data, size_t bytes)
{
    pool *p = data;
    if (p->stopped == XCVM_OK)
        p->stopped = poll_timer(&p->timer);
    if (p->stopped != XCVM_OK)
        return NULL;
    /* Every block of a size class holds at least the smallest size of the class. */
    unsigned class = size_class(bytes);
    if ((size_t)1 << class < bytes)
        class ++;
    if (class < CLASSES && p->free[class] != NULL) {
        block *b = p->free[class];
        p->free[class] = b->next;
        return b + 1;
    }
    block *b = bytes < SIZE_MAX - sizeof *b ? xcvm_arena_allocate(p->arena, bytes + sizeof *b) : NULL;
    if (b == NULL) {
        p->exhausted = true;
        return NULL;
    }
    b->bytes = bytes;
    return b + 1;
}

static void pool_free(void *data, void *memory)
{
    pool *p = data;
    if (memory == NULL)
        return;
    block *b = (block *)memory - 1;
    unsigned class = size_class(b->bytes);
    b->next = p->free[class];
    p->free[class] = b;
}

xcvm_status xcc_message_unpack(const ProtobufCMessageDescriptor *descriptor, const void *bytes, size_t count,
                               xcc_stop stop, xcvm_arena *arena, ProtobufCMessage **message, xcvm_error *error)
{
    XCVM_CHECK(error, count <= INT_MAX, INVALID_MODEL,
               "%zu bytes: a protobuf message has less than 2 GB; larger weights belong in external data", count);
    pool p = {.arena = arena, .timer = {stop, 0}};
    XCVM_TRY(scan(descriptor, xcvm_wire_of(bytes, count), 1, 0, &p.timer, error));
    ProtobufCAllocator allocator = {pool_allocate, pool_free, &p};
    *message = protobuf_c_message_unpack(descriptor, &allocator, count, count > 0 ? bytes : (const uint8_t *)"");
    if (p.stopped != XCVM_OK)
        return say_stopped(p.stopped, error);
    XCVM_CHECK(error, !p.exhausted, OUT_OF_MEMORY, "no memory for a message of %zu bytes", count);
    XCVM_CHECK(error, *message != NULL, INVALID_MODEL, "the file is no %s", descriptor->name);
    return XCVM_OK;
}

static xcvm_status unpack_model(const void *bytes, size_t count, xcc_stop stop, xcvm_arena *arena,
                                Onnx__ModelProto **model, xcvm_error *error)
{
    ProtobufCMessage *message;
    XCVM_TRY(xcc_message_unpack(&onnx__model_proto__descriptor, bytes, count, stop, arena, &message, error));
    *model = (Onnx__ModelProto *)message;
    XCVM_CHECK(error, (*model)->graph != NULL, INVALID_MODEL, "the model has no graph");
    return XCVM_OK;
}

xcvm_status xcc_model_unpack(const void *bytes, size_t count, xcc_stop stop, xcvm_arena *arena,
                             Onnx__ModelProto **model, xcvm_error *error)
{
    const xcvm_status status = unpack_model(bytes, count, stop, arena, model, error);
    return xcvm_recognize_failure(status, bytes, count, XCVM_FILE_MODEL, error);
}

bool xcc_message_unknown(const ProtobufCMessage *message, uint32_t number, unsigned *next, const uint8_t **bytes,
                         size_t *count)
{
    while (*next < message->n_unknown_fields) {
        const ProtobufCMessageUnknownField *field = &message->unknown_fields[(*next)++];
        if (field->tag != number || field->wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED)
            continue;
        xcvm_wire wire = xcvm_wire_of(field->data, field->len);
        uint64_t length;
        if (!xcvm_wire_varint(&wire, &length) || length != (uint64_t)(wire.end - wire.at))
            continue;
        *bytes = wire.at;
        *count = (size_t)length;
        return true;
    }
    return false;
}

/* ---- Names ---- */

const char *xcc_node_label(const Onnx__NodeProto *node)
{
    if (node->name != NULL && node->name[0] != '\0')
        return node->name;
    for (size_t i = 0; i < node->n_output; i++)
        if (node->output[i][0] != '\0')
            return node->output[i];
    return "";
}

const char *xcc_domain(const char *domain) { return domain == NULL || strcmp(domain, "ai.onnx") == 0 ? "" : domain; }

int64_t xcc_operator_since(const xcc_operator_info *op) { return strtol(op->versions, NULL, 10); }

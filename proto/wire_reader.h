/* A field-by-field reader of protobuf's wire format. Used for programs before protobuf-c unpacks them, and for models
 * and tensors that are inspected before or without unpacking. */
#ifndef XCVM_PROTO_WIRE_READER_H
#define XCVM_PROTO_WIRE_READER_H

#include "base/status.h"

/* Wire types. */
enum { XCVM_WIRE_VARINT = 0, XCVM_WIRE_64BIT = 1, XCVM_WIRE_BYTES = 2, XCVM_WIRE_32BIT = 5 };

typedef struct xcvm_wire {
    const uint8_t *at, *end;
} xcvm_wire;

typedef struct xcvm_wire_field {
    uint32_t number, type;
    uint64_t value;   /* value of a varint or fixed field; for bytes, their count */
    xcvm_wire inside; /* contents of a bytes field */
} xcvm_wire_field;

typedef enum xcvm_wire_state {
    XCVM_WIRE_READ,       /* a field was read */
    XCVM_WIRE_END,        /* no more fields */
    XCVM_WIRE_CUT_OFF,    /* the bytes end inside a field, or a varint exceeds 64 bits */
    XCVM_WIRE_BAD_NUMBER, /* field->number is invalid */
    XCVM_WIRE_BAD_TYPE    /* field->type is not a supported wire type */
} xcvm_wire_state;

static inline xcvm_wire xcvm_wire_of(const void *bytes, size_t count)
{
    return (xcvm_wire){bytes, (const uint8_t *)bytes + count};
}
/* Reads the next field. After any result other than XCVM_WIRE_READ, nothing more can be read. */
xcvm_wire_state xcvm_wire_next(xcvm_wire *wire, xcvm_wire_field *field);
/* Reads a number of a packed field. Returns false if it is truncated or a varint exceeds 64 bits. */
bool xcvm_wire_varint(xcvm_wire *wire, uint64_t *value);
bool xcvm_wire_fixed(xcvm_wire *wire, size_t bytes, uint64_t *value);

enum { XCVM_VARINT_SIZE = 10 };
/* Writes a varint of up to XCVM_VARINT_SIZE bytes and returns its length. */
size_t xcvm_varint_put(uint8_t *to, uint64_t value);

#endif

/* Protobuf's wire format, field by field: of programs before protobuf-c sees them, and of models and tensors for what
 * must be looked at before, or without, being unpacked. */
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
    uint64_t value;   /* of a varint or a fixed field; for bytes, their count */
    xcvm_wire inside; /* of bytes */
} xcvm_wire_field;

typedef enum xcvm_wire_state {
    XCVM_WIRE_READ,       /* a field */
    XCVM_WIRE_END,        /* there is none any more */
    XCVM_WIRE_CUT_OFF,    /* the bytes end within a field, or a varint is longer than 64 bits */
    XCVM_WIRE_BAD_NUMBER, /* field->number is none that a field may have */
    XCVM_WIRE_BAD_TYPE    /* field->type is no wire type that is in use */
} xcvm_wire_state;

static inline xcvm_wire xcvm_wire_of(const void *bytes, size_t count)
{
    return (xcvm_wire){bytes, (const uint8_t *)bytes + count};
}
/* Reads the next field. Behind anything but XCVM_WIRE_READ nothing more can be read. */
xcvm_wire_state xcvm_wire_next(xcvm_wire *wire, xcvm_wire_field *field);
/* Reads a number as it stands in a packed field; false if it is cut off, or a varint of more than 64 bits. */
bool xcvm_wire_varint(xcvm_wire *wire, uint64_t *value);
bool xcvm_wire_fixed(xcvm_wire *wire, size_t bytes, uint64_t *value);

#endif

/* The wire format of XCProgram, checked before protobuf-c unpacks it: protobuf-c recurses as deep as its input,
 * truncates large numbers and strings with NULs, and copies bytes. */
#ifndef XCVM_PROTO_WIRE_H
#define XCVM_PROTO_WIRE_H

#include "proto/wire_reader.h"

/* Field numbers of XCProgram. */
enum {
    XCVM_WIRE_FORMAT = 1,
    XCVM_WIRE_PRODUCER = 2,
    XCVM_WIRE_INPUTS = 3,
    XCVM_WIRE_OUTPUTS = 4,
    XCVM_WIRE_INSTRUCTIONS = 5,
    XCVM_WIRE_CONSTANTS = 6,
    XCVM_WIRE_LIBRARIES = 7,
    XCVM_WIRE_METADATA = 8,
    XCVM_WIRE_ARENA_BYTES = 9,
    XCVM_WIRE_FILE_BYTES = 10,
    XCVM_WIRE_STATES = 11,
    XCVM_WIRE_PADDING = 14,
    XCVM_WIRE_DATA = 15,
    XCVM_WIRE_FIELDS = 16
};

typedef struct xcvm_wire_layout {
    uint64_t format;
    size_t message_bytes; /* bytes before padding and data */
    size_t data_offset;   /* offset of the contents of the last field; `count` if there is none */
    size_t data_bytes;
    size_t counts[XCVM_WIRE_FIELDS]; /* number of messages of each field */
} xcvm_wire_layout;

/* Finds the parts of a program and checks the message before the data: only fields of the schema, of the right types,
 * unique unless repeated, no deeper than the schema, strings without NUL. No input, output, instruction, constant or
 * state may have zero bytes, so that memory stays proportional to the file. */
xcvm_status xcvm_wire_check(const void *bytes, size_t count, xcvm_wire_layout *layout, xcvm_error *error);

#endif

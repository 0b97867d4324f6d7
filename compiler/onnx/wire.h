/* Protobuf's wire format, field by field, for what must be looked at before (or without) being unpacked. */
#ifndef XCVM_COMPILER_WIRE_H
#define XCVM_COMPILER_WIRE_H

#include "base/status.h"

enum { XCC_WIRE_VARINT = 0, XCC_WIRE_FIXED64 = 1, XCC_WIRE_BYTES = 2, XCC_WIRE_FIXED32 = 5 };

typedef struct xcc_wire {
    const uint8_t *at, *end;
} xcc_wire;

typedef struct xcc_wire_field {
    uint32_t number, type;
    uint64_t value;  /* of a varint or fixed field; for bytes, their count */
    xcc_wire inside; /* of bytes */
} xcc_wire_field;

static inline xcc_wire xcc_wire_of(const void *bytes, size_t count)
{
    return (xcc_wire){bytes, (const uint8_t *)bytes + count};
}
/* Reads the next field. At the end *more becomes false. INVALID_MODEL if the bytes are no field or break off. */
xcvm_status xcc_wire_next(xcc_wire *wire, xcc_wire_field *field, bool *more, xcvm_error *error);
/* Reads a varint as it stands in a packed field; false if it breaks off. */
bool xcc_wire_varint(xcc_wire *wire, uint64_t *value);

#endif

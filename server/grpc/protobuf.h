/* Messages of protobuf and frames of gRPC, written into a text. */
#ifndef XCVM_SERVER_GRPC_PROTOBUF_H
#define XCVM_SERVER_GRPC_PROTOBUF_H

#include "server/json/text.h"

/* Bytes before a message: a flag for compression and the length. */
enum { XCS_FRAME_PREFIX = 5 };

void xcs_put_varint(xcs_text *text, uint64_t value);
/* Fields: integers and booleans, bytes, and strings. */
void xcs_put_integer(xcs_text *text, unsigned field, uint64_t value);
void xcs_put_bytes(xcs_text *text, unsigned field, const void *bytes, size_t count);
void xcs_put_string(xcs_text *text, unsigned field, const char *string);
/* A field of unknown length, such as a message: what is added between the two calls. `begin` returns a position for
 * `end`. */
size_t xcs_field_begin(xcs_text *text, unsigned field);
void xcs_field_end(xcs_text *text, size_t begin);
/* A frame with what is added between the two calls. */
size_t xcs_frame_begin(xcs_text *text);
void xcs_frame_end(xcs_text *text, size_t begin);

#endif

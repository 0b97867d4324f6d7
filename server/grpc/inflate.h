/* Decompression of messages by zlib, an optional dependency that is loaded on first use. */
#ifndef XCVM_SERVER_GRPC_INFLATE_H
#define XCVM_SERVER_GRPC_INFLATE_H

#include "base/allocator.h"

typedef struct xcs_inflater xcs_inflater;

/* Receives decompressed bytes. Returns false to stop. */
typedef struct xcs_inflater_sink {
    bool (*call)(void *user, const uint8_t *bytes, size_t count);
    void *user;
} xcs_inflater_sink;

/* Returns true if the encoding ("gzip" or "deflate") can be read, which loads the library. */
bool xcs_inflate_supports(const char *encoding);
/* Creates a reader of messages of an encoding that is supported. */
xcvm_status xcs_inflater_create(const xcvm_allocator *allocator, const char *encoding, xcs_inflater **inflater,
                                xcvm_error *error);
void xcs_inflater_destroy(xcs_inflater *inflater);
/* Begins a message. */
void xcs_inflater_reset(xcs_inflater *inflater);
/* Fails with INVALID_ARGUMENT if the bytes are no valid data, and CANCELLED if the sink stops. */
xcvm_status xcs_inflater_feed(xcs_inflater *inflater, const uint8_t *bytes, size_t count, xcs_inflater_sink sink,
                              xcvm_error *error);
/* Returns true if the data are complete. */
bool xcs_inflater_is_complete(const xcs_inflater *inflater);

#endif

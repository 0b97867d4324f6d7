/* The messages of a call: a prefix of five bytes and the message, which may be compressed. */
#ifndef XCVM_SERVER_GRPC_FRAMING_H
#define XCVM_SERVER_GRPC_FRAMING_H

#include "server/grpc/inflate.h"
#include "server/grpc/protobuf.h"
#include "server/grpc/status.h"

/* Zero-initialized, it expects the first message. */
typedef struct xcs_framing {
    uint8_t prefix[XCS_FRAME_PREFIX];
    unsigned prefix_count;
    bool compressed;
    size_t left;          /* bytes of the message that are to come */
    size_t bytes;         /* of the message so far, decompressed */
    size_t message_count; /* complete messages */
    xcs_inflater *inflater;
    xcs_grpc_status status; /* of a failure */
    const struct xcs_framing_options *options;
} xcs_framing;

/* Receivers return false to stop. */
typedef struct xcs_framing_options {
    const xcvm_allocator *allocator;
    const char *encoding; /* "", "identity", or one that xcs_inflate_supports */
    size_t limit;         /* bytes of a message */
    void *user;
    bool (*receive)(void *user, const uint8_t *bytes, size_t count);
    bool (*end)(void *user);
} xcs_framing_options;

/* Reads bytes of the call. On failure framing->status says which. CANCELLED if a receiver stops. */
xcvm_status xcs_framing_feed(xcs_framing *framing, const xcs_framing_options *options, const uint8_t *bytes,
                             size_t count, xcvm_error *error);
/* Returns true if no message has begun that is not complete. */
bool xcs_framing_is_between(const xcs_framing *framing);
void xcs_framing_release(xcs_framing *framing);

#endif

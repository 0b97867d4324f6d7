/* Bytes that a sink receives: programs, texts and states for JavaScript. */
#ifndef XCVM_WEB_SRC_BYTES_H
#define XCVM_WEB_SRC_BYTES_H

#include "xcvm/xcvm.h"

/* Received bytes, in malloc's memory. */
typedef struct web_bytes {
    size_t count, capacity;
    unsigned char *at;
    bool failed; /* no memory for them */
} web_bytes;

/* Returns NULL with OUT_OF_MEMORY if there is no memory. */
web_bytes *web_bytes_create(xcvm_error *error);
/* Appends to the web_bytes that `user` points to. */
bool web_bytes_add(void *user, const void *piece, size_t count);
/* Returns the received bytes. After a failure it destroys them and returns NULL, with OUT_OF_MEMORY in `error` if there
 * was no memory. */
web_bytes *web_bytes_finish(web_bytes *bytes, xcvm_status status, xcvm_error *error);
void web_bytes_destroy(web_bytes *bytes);

#endif

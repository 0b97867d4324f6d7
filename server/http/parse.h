/* HTTP/1.1 messages (RFC 9112): the head of a request, and chunked bodies. No input and output. */
#ifndef XCVM_SERVER_HTTP_PARSE_H
#define XCVM_SERVER_HTTP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { XCS_HEAD_BYTES = 16 << 10, XCS_HEAD_FIELDS = 64 };

/* Strings are in the text that was parsed. */
typedef struct xcs_head {
    const char *method, *path; /* the path is decoded and has no query */
    size_t length;             /* of the head with its empty line */
    bool keep_alive, chunked, expects_continue;
    bool has_length;
    uint64_t content_length; /* UINT64_MAX: a greater one */
    size_t field_count;
    struct {
        const char *name, *value;
    } fields[XCS_HEAD_FIELDS];
} xcs_head;

/* Parses the head of a request at the start of `text`. Returns 200 if it is complete, and then has changed the text; 0
 * if it has no end yet; else the status of the error: 400, 414, 417, 431, 501, 505. *scanned, initially 0, is how far
 * the text has no end. */
int xcs_head_parse(char *text, size_t count, size_t *scanned, xcs_head *head);
/* Returns the value of a field by its name in any case, or NULL. */
const char *xcs_head_find(const xcs_head *head, const char *name);

/* Zero-initialized before the first byte of a chunked body. */
typedef struct xcs_chunks {
    int state;
    uint64_t left;   /* bytes of the chunk */
    unsigned digits; /* of its size */
    size_t extra;    /* bytes of extensions and trailers */
} xcs_chunks;

typedef enum xcs_chunks_result {
    XCS_CHUNKS_MORE,
    XCS_CHUNKS_DATA,
    XCS_CHUNKS_END,
    XCS_CHUNKS_INVALID
} xcs_chunks_result;

/* Reads on at `*at` and moves it. DATA: the `*length` bytes at `*data` belong to the body. */
xcs_chunks_result xcs_chunks_read(xcs_chunks *chunks, const char **at, const char *end, const char **data,
                                  size_t *length);

#endif

/* A growing text, such as the body of a response. */
#ifndef XCVM_SERVER_JSON_TEXT_H
#define XCVM_SERVER_JSON_TEXT_H

#include "base/allocator.h"

/* Zero-initialized except for the allocator, it is empty. A failed allocation sets `failed` and drops later text. */
typedef struct xcs_text {
    const xcvm_allocator *allocator;
    char *at;
    size_t count, capacity;
    bool failed;
} xcs_text;

/* Returns room for `count` more bytes, or NULL. The caller adds to text->count what it has written. */
char *xcs_text_reserve(xcs_text *text, size_t count);
void xcs_text_add(xcs_text *text, const void *bytes, size_t count);
void xcs_text_put(xcs_text *text, const char *string);
void xcs_text_format(xcs_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD. */
void xcs_text_quote(xcs_text *text, const char *bytes, size_t count);
void xcs_text_free(xcs_text *text);

#endif

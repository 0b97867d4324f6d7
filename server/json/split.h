/* Splits an inference request: the arrays of elements, which are large, and the rest, which is small. */
#ifndef XCVM_SERVER_JSON_SPLIT_H
#define XCVM_SERVER_JSON_SPLIT_H

#include "server/json/text.h"

typedef struct xcs_span {
    const char *at, *end;
} xcs_span;

/* Copies the document to `rest`. The value of each key "data" in an object of the array "inputs" is replaced by its
 * number in `arrays`, which has room for `capacity`. Only the brackets and strings of the arrays are checked, and
 * nothing of the rest. Fails if `rest` would exceed `rest_limit` bytes. */
xcvm_status xcs_json_split(const char *body, size_t length, size_t rest_limit, xcs_text *rest, xcs_span *arrays,
                           size_t capacity, size_t *count, xcvm_error *error);

#endif

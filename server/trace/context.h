/* Trace context of a request (W3C Trace Context): the identifiers that its headers carry. */
#ifndef XCVM_SERVER_TRACE_CONTEXT_H
#define XCVM_SERVER_TRACE_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { XCS_TRACE_ID_BYTES = 16, XCS_SPAN_ID_BYTES = 8, XCS_TRACE_STATE_BYTES = 512, XCS_TRACE_PARENT_BYTES = 56 };

/* The headers "traceparent" and "tracestate" of a request, in any order. Zero-initialized, it has none. */
typedef struct xcs_trace_headers {
    unsigned parents; /* headers "traceparent" */
    bool is_valid;    /* of the last one */
    bool sampled;
    bool state_is_invalid, state_is_full;
    unsigned members; /* of the state */
    uint8_t trace_id[XCS_TRACE_ID_BYTES], parent_id[XCS_SPAN_ID_BYTES];
    size_t state_length;
    char state[XCS_TRACE_STATE_BYTES + 1]; /* the first members that fit, in one list */
} xcs_trace_headers;

void xcs_trace_headers_add_parent(xcs_trace_headers *headers, const char *value);
void xcs_trace_headers_add_state(xcs_trace_headers *headers, const char *value);
/* True if there is exactly one valid parent. Without it, requests begin a trace of their own. */
bool xcs_trace_headers_are_valid(const xcs_trace_headers *headers);
/* Returns the state; "" if it is not valid, which does not affect the parent. */
const char *xcs_trace_headers_state(const xcs_trace_headers *headers);

/* Writes bytes as lower-case hexadecimal digits with a NUL. */
void xcs_trace_hex(const uint8_t *bytes, size_t count, char *to);

#endif

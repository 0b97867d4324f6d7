/* A collector of OTLP/HTTP: one request for each export. */
#ifndef XCVM_SERVER_TRACE_COLLECTOR_H
#define XCVM_SERVER_TRACE_COLLECTOR_H

#include "base/status.h"

typedef struct xcs_collector {
    char host[256], port[8], path[512];
    bool is_bracketed; /* the host is an IPv6 address */
} xcs_collector;

/* Reads "http://HOST:PORT[/PATH]". */
xcvm_status xcs_collector_read(const char *url, xcs_collector *collector, xcvm_error *error);

typedef struct xcs_collector_answer {
    int status;        /* of HTTP; 0: no answer */
    unsigned retry_s;  /* Retry-After; 0: none */
    uint64_t rejected; /* spans, of a partial success */
} xcs_collector_answer;

/* Reads an answer that ends with a NUL. Its status is 0 if it is not HTTP. */
xcs_collector_answer xcs_collector_read_answer(const char *text, size_t count);
/* Sends a body and waits for the answer until `until_ns`, or until *stopping_ns, which other threads may lower. */
xcs_collector_answer xcs_collector_post(const xcs_collector *collector, const char *body, size_t count,
                                        uint64_t until_ns, const uint64_t *stopping_ns);

#endif

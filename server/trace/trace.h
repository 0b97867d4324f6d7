/* Traces of sampled requests: the times of a request's phases, and what is known of it. A request that is not sampled
 * has none (NULL), which all functions accept. */
#ifndef XCVM_SERVER_TRACE_TRACE_H
#define XCVM_SERVER_TRACE_TRACE_H

#include "server/json/text.h"
#include "server/trace/context.h"
#include "xcvm/server_trace.h"

/* The phases of a request in their order: number, name of the span. */
#define XCS_PHASE_LIST(X)                                                                                              \
    X(RECEIVE, "receive") /* head and body arrive */                                                                   \
    X(DECODE, "decode")   /* the body becomes tensors */                                                               \
    X(QUEUE, "queue")                                                                                                  \
    X(BATCH, "batch") /* inputs are joined and bound */                                                                \
    X(RUN, "run")                                                                                                      \
    X(ENCODE, "encode") /* outputs become the response */                                                              \
    X(SEND, "send")

typedef enum xcs_phase {
#define XCS_PHASE(name, text) XCS_PHASE_##name,
    XCS_PHASE_LIST(XCS_PHASE)
#undef XCS_PHASE
        XCS_PHASE_COUNT
} xcs_phase;

typedef struct xcs_trace xcs_trace;

/* What a request was, when it ends. Strings are copied. */
typedef struct xcs_trace_request {
    const char *method, *path;  /* of HTTP */
    const char *route, *scheme; /* of HTTP: the path with names in braces; "http" or "https". Constants */
    const char *rpc_service;    /* gRPC: the service, and `rpc_method`; NULL: HTTP */
    const char *rpc_method;
    int status; /* of HTTP, or of gRPC */
    size_t bytes_in, bytes_out;
    bool sent;              /* the client has received the response */
    bool failed;            /* by the server's fault: the status of the span is an error */
    const xcs_model *model; /* NULL: none */
} xcs_trace_request;

/* Decides whether a request is sampled, and begins its trace. `headers` NULL: none were sent. Returns NULL if it is not
 * sampled, or if there is no memory. `tracer` may be NULL. */
xcs_trace *xcs_trace_begin(xcs_tracer *tracer, const xcs_trace_headers *headers, uint64_t begin_ns);
/* True if the request should ask the pool for a profile. */
bool xcs_trace_wants_profile(const xcs_trace *trace);
void xcs_trace_set_phase(xcs_trace *trace, xcs_phase phase, uint64_t begin_ns, uint64_t end_ns);
void xcs_trace_begin_phase(xcs_trace *trace, xcs_phase phase);
void xcs_trace_end_phase(xcs_trace *trace, xcs_phase phase);
/* Takes the phases and instructions from the pool's result. Other threads must not use the trace meanwhile. */
void xcs_trace_add_result(xcs_trace *trace, const xcs_result *result);
/* Returns the value of the header "traceresponse": the identifiers of the request's own span. NULL without a trace. */
const char *xcs_trace_response(const xcs_trace *trace);
/* Returns the trace's identifier in hexadecimal digits, or NULL. */
const char *xcs_trace_id(const xcs_trace *trace);
/* Ends the trace. The tracer keeps or exports it. */
void xcs_trace_end(xcs_trace *trace, const xcs_trace_request *request);

/* Appends the last traces as Chrome trace JSON. */
void xcs_tracer_describe(xcs_tracer *tracer, xcs_text *text);
/* Appends metrics in the text format of Prometheus. */
void xcs_tracer_describe_metrics(xcs_tracer *tracer, xcs_text *text);

#endif

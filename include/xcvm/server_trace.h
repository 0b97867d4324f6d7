/*
 * XCVM server: traces of requests, which the HTTP and gRPC servers record. A request is sampled if its trace context
 * (W3C "traceparent") says so, or, without one, at a rate. The last sampled requests are at /debug/trace. Spans can be
 * exported by OTLP. docs/serving.md describes the spans.
 */
#ifndef XCVM_SERVER_TRACE_H
#define XCVM_SERVER_TRACE_H

#include <xcvm/server.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct xcs_tracer xcs_tracer;

typedef struct xcs_tracer_options {
    size_t size;
    unsigned sample_every;     /* of requests without a trace context, one in so many is sampled; 0: none */
    const char *otlp_endpoint; /* "http://HOST:PORT[/PATH]" of a collector; no path: /v1/traces; NULL: no export */
    const char *service_name;  /* of exported spans, cut to 127 bytes; NULL: "xcvm" */
    bool no_instructions;      /* leaves the instructions of runs out of traces */
} xcs_tracer_options;

/* Copies the options, and starts a thread that exports if there is an endpoint. Spans that do not arrive are counted
 * and never delay a request. INVALID_ARGUMENT: the endpoint is not such a URL. UNSUPPORTED: it has TLS, or libjansson
 * is missing. */
XCVM_API XCVM_MUST_USE xcvm_status xcs_tracer_create(const xcs_tracer_options *options, xcs_tracer **tracer,
                                                     xcvm_error *error);
/* Exports the spans that wait, for two seconds at most; only the lookup of a host name can take longer. Servers that
 * use the tracer must be destroyed before. NULL is ignored. */
XCVM_API void xcs_tracer_destroy(xcs_tracer *tracer);

#ifdef __cplusplus
}
#endif
#endif

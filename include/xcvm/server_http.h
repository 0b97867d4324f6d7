/*
 * XCVM server over HTTP/1.1: the Open Inference Protocol (v2, REST) and Prometheus metrics for an xcs_server.
 * docs/serving.md lists the paths. Needs libjansson, which is loaded on first use.
 */
#ifndef XCVM_SERVER_HTTP_H
#define XCVM_SERVER_HTTP_H

#include <xcvm/server.h>
#include <xcvm/server_tls.h>
#include <xcvm/server_trace.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct xcs_http xcs_http;

typedef struct xcs_http_options {
    size_t size;
    const char *address;       /* "HOST:PORT", "[IPv6]:PORT" or "unix:PATH"; NULL: "127.0.0.1:8000"; port 0: any */
    int socket;                /* a listening socket in place of the address; 0: none. The library closes it */
    int threads;               /* threads that read requests; 0: as many as the process may use, at most 4 */
    const char *api_key;       /* clients must send it, except for health checks; NULL: none */
    bool insecure;             /* allows addresses other than loopback without a key */
    bool no_admin;             /* refuses to load and unload models */
    size_t body_limit;         /* bytes of a request's body; 0: 64 MiB */
    unsigned connection_limit; /* 0: 1000 */
    unsigned idle_seconds;     /* a connection is closed after this time without data; 0: 60 */
    const char *admin_socket;  /* path of a Unix socket that alone may load and unload models; NULL: none */
    xcvm_sink access_log;      /* receives a line of JSON for each request, one call at a time */
    unsigned busy_poll_us; /* a thread looks for the next request for this time before it sleeps; 0: sleeps at once */
    xcs_tracer *tracer;    /* records sampled requests; NULL: none. It must outlive the server */
    xcs_tls *tls;          /* the API is served with TLS; NULL: without. The server does not own it */
    bool no_page;          /* has no web page at "/" */
} xcs_http_options;

/* Starts to serve. The server must outlive the result. UNSUPPORTED if a library is missing. */
XCVM_API XCVM_MUST_USE xcvm_status xcs_http_create(xcs_server *server, const xcs_http_options *options, xcs_http **http,
                                                   xcvm_error *error);
/* Returns the address with the port in use. */
XCVM_API const char *xcs_http_address(const xcs_http *http);
/* Sets what /v2/health/ready answers. Initially true. Requests are served in either case. */
XCVM_API void xcs_http_set_ready(xcs_http *http, bool ready);
/* Ends the server without loss: it accepts the connections that wait, answers the requests that were sent, and closes
 * idle connections after a moment. This lasts as long as the requests, unless the server was drained before. */
XCVM_API void xcs_http_destroy(xcs_http *http);

#ifdef __cplusplus
}
#endif
#endif

/*
 * XCVM server over gRPC: the Open Inference Protocol (inference.GRPCInferenceService), health checks (grpc.health.v1)
 * and server reflection for an xcs_server. docs/serving.md lists the calls. Needs libnghttp2, which is loaded on first
 * use. Compressed requests also need zlib.
 */
#ifndef XCVM_SERVER_GRPC_H
#define XCVM_SERVER_GRPC_H

#include <xcvm/server.h>
#include <xcvm/server_tls.h>
#include <xcvm/server_trace.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct xcs_grpc xcs_grpc;

typedef struct xcs_grpc_options {
    size_t size;
    const char *address;       /* "HOST:PORT", "[IPv6]:PORT" or "unix:PATH"; NULL: "127.0.0.1:8001"; port 0: any */
    int socket;                /* a listening socket in place of the address; 0: none. The library closes it */
    const char *api_key;       /* clients must send it, except for health checks; NULL: none */
    bool insecure;             /* allows addresses other than loopback without a key */
    size_t message_limit;      /* bytes of a request after decompression; 0: 64 MiB */
    unsigned connection_limit; /* 0: 1000 */
    unsigned stream_limit;     /* calls of a connection at once; 0: 100 */
    unsigned idle_seconds;     /* a connection without calls is closed after this time; 0: 300 */
    xcvm_sink access_log;      /* receives a line of JSON for each call, one at a time */
    unsigned busy_poll_us; /* a thread looks for the next request for this time before it sleeps; 0: sleeps at once */
    xcs_tracer *tracer;    /* records sampled calls; NULL: none. It must outlive the server */
    xcs_tls *tls;          /* calls need TLS; NULL: they are sent without. The server does not own it */
} xcs_grpc_options;

/* Starts to serve, on a thread of its own. The server must outlive the result. UNSUPPORTED if the library is missing.
 */
XCVM_API XCVM_MUST_USE xcvm_status xcs_grpc_create(xcs_server *server, const xcs_grpc_options *options, xcs_grpc **grpc,
                                                   xcvm_error *error);
/* Returns the address with the port in use. */
XCVM_API const char *xcs_grpc_address(const xcs_grpc *grpc);
/* Sets what ServerReady and health checks answer. Initially true. If it becomes false, connections are told to go away,
 * but calls are served in either case. */
XCVM_API void xcs_grpc_set_ready(xcs_grpc *grpc, bool ready);
/* Closes the listening socket, waits for the responses to requests that were read, and closes all connections. Drain
 * the server before, or the wait lasts as long as the requests. */
XCVM_API void xcs_grpc_destroy(xcs_grpc *grpc);

#ifdef __cplusplus
}
#endif
#endif

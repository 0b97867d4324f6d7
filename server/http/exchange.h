/* One HTTP request and its response, independent of the connection. */
#ifndef XCVM_SERVER_HTTP_EXCHANGE_H
#define XCVM_SERVER_HTTP_EXCHANGE_H

#include "server/common/log.h"
#include "server/common/share.h"
#include "server/http/parse.h"
#include "server/http/route.h"
#include "server/json/text.h"
#include "server/oip/infer.h"
#include "server/pool/blocks.h"
#include "server/trace/trace.h"
#include "xcvm/server_http.h"

#include <pthread.h>

typedef struct xcs_exchange xcs_exchange;
typedef struct xcs_connection xcs_connection;
typedef struct xcs_loop xcs_loop;

/* What an HTTP server shares between its threads. */
struct xcs_http {
    xcvm_allocator allocator; /* that of `blocks` */
    xcs_blocks *blocks;
    xcs_server *server;
    xcs_http_options options; /* with defaults; strings are owned or invalid */
    xcs_share share;          /* of bodies until they are decoded, and of unsent responses */
    char *api_key, *admin_path;
    char address[160];
    int sockets[2];     /* listening: of the API, and of administration; -1: none */
    bool ready;         /* atomic */
    size_t deaf_loops;  /* threads that accept no connection any more; atomic */
    bool closed;        /* the listening sockets are closed; atomic */
    bool closing;       /* no connection is accepted any more; atomic */
    size_t connections; /* open; atomic */
    xcs_loop *loops;    /* options.threads */
    size_t loop_count;
    xcs_log log;
    pthread_mutex_t mutex; /* of the access log */
};

typedef enum xcs_exchange_state { XCS_EXCHANGE_RUNS, XCS_EXCHANGE_SUSPENDED, XCS_EXCHANGE_DONE } xcs_exchange_state;

struct xcs_exchange {
    xcs_http *http;
    xcs_connection *connection;
    const xcs_head *head; /* the connection's */
    bool is_admin;        /* received at the socket of administration */
    xcs_route route;
    char method[8], path[256];
    uint64_t begin_ns;
    xcs_trace *trace; /* NULL: the request is not sampled */
    xcs_text body;
    size_t body_bytes;                     /* received */
    size_t held, body_held, response_held; /* of the share; held: their sum */
    bool body_is_lent;                     /* by the connection */
    bool discards;                         /* the response is known; the rest of the body is of no interest */
    bool may_run_here;                     /* no other connection waits for the thread */
    bool suspended;                        /* of the connection's thread */
    int state;                             /* xcs_exchange_state; atomic */
    xcs_model *model;
    xcs_infer_memo *memo; /* of the thread */
    xcs_infer infer;
    xcs_request *request;
    /* The response. */
    int status;
    xcs_text response;
    size_t header_length; /* JSON part of a binary response; 0: none */
    const char *content_type;
    unsigned retry_after_s;
};

/* Creates an exchange from the head. Returns NULL if there is no memory. */
xcs_exchange *xcs_exchange_create(xcs_http *http, xcs_connection *connection, const xcs_head *head, bool is_admin);
/* True if the response is ready although the body has not been read, and the connection must be closed. */
bool xcs_exchange_is_refused(const xcs_exchange *exchange);
/* Adds bytes of the body. Returns false if it is too long; the response is then ready, and the connection must be
 * closed. What is beyond the share of the connection is discarded. */
bool xcs_exchange_receive(xcs_exchange *exchange, const char *bytes, size_t count);
/* Lends the whole body instead, until it has been processed. */
void xcs_exchange_lend_body(xcs_exchange *exchange, char *bytes, size_t count);
/* Returns room for `*count` or less bytes of the body, or NULL. The caller then adds them with count_received. */
char *xcs_exchange_room(xcs_exchange *exchange, size_t *count);
void xcs_exchange_count_received(xcs_exchange *exchange, size_t count);
/* Handles the request after its body. Returns true if the response is ready; otherwise the connection is resumed when
 * it is. */
bool xcs_exchange_process(xcs_exchange *exchange);
/* The client has left while its request runs. */
void xcs_exchange_leave(xcs_exchange *exchange);
/* Before the response is sent, on the connection's thread. */
void xcs_exchange_respond(xcs_exchange *exchange);
/* After the response was sent or the connection was closed. */
void xcs_exchange_destroy(xcs_exchange *exchange, bool sent);

/* Frees the body. */
void xcs_exchange_end_body(xcs_exchange *exchange);
/* Sets an error response. */
void xcs_exchange_fail(xcs_exchange *exchange, int status, const char *message);

/* Handlers of routes. They set the response, or suspend the exchange. */
void xcs_handle_infer(xcs_exchange *exchange);
void xcs_handle_admin(xcs_exchange *exchange);
void xcs_handle_trace(xcs_exchange *exchange);
void xcs_handle_page(xcs_exchange *exchange);
/* Suspends the exchange unless it is done. */
void xcs_exchange_wait(xcs_exchange *exchange);
/* Called by the thread that sets the response of an exchange that may be suspended. Nothing of the exchange may be used
 * afterwards. */
void xcs_exchange_finish(xcs_exchange *exchange);
/* Called by any thread: the response of a suspended exchange is ready. */
void xcs_connection_resume(xcs_connection *connection);

/* ---- Traces ---- */

/* Begins the trace of an inference request, if it is sampled. */
void xcs_exchange_begin_trace(xcs_exchange *exchange);
void xcs_exchange_end_trace(xcs_exchange *exchange, bool sent);

/* ---- Log ---- */

void xcs_log_exchange(xcs_exchange *exchange, bool sent);

#endif

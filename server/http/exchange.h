/* One HTTP request and its response, independent of the library that reads and writes them. */
#ifndef XCVM_SERVER_HTTP_EXCHANGE_H
#define XCVM_SERVER_HTTP_EXCHANGE_H

#include "server/common/log.h"
#include "server/http/route.h"
#include "server/json/text.h"
#include "server/oip/infer.h"
#include "xcvm/server_http.h"

#include <pthread.h>

typedef struct xcs_exchange xcs_exchange;
typedef struct xcs_leave_monitor xcs_leave_monitor;

/* The functions of the library underneath. */
typedef struct xcs_transport {
    const char *(*header)(void *connection, const char *name); /* NULL: not sent */
    int (*descriptor)(void *connection);
    void (*suspend)(void *connection);
    void (*resume)(void *connection);
} xcs_transport;

/* What an HTTP server shares between its threads. */
struct xcs_http {
    xcvm_allocator allocator;
    xcs_server *server;
    xcs_http_options options; /* with defaults; strings are owned or invalid */
    char *api_key;
    char address[160];
    bool ready; /* atomic */
    xcs_transport transport;
    void *daemon;
    xcs_leave_monitor *monitor;
    xcs_log log;
    pthread_mutex_t mutex; /* of the following, and of the access log */
    pthread_cond_t idle;
    size_t open;     /* exchanges that are being answered */
    size_t handling; /* those that have no response yet, so that their connection may be suspended */
    bool closing;    /* requests are refused */
};

typedef enum xcs_exchange_state { XCS_EXCHANGE_RUNS, XCS_EXCHANGE_SUSPENDED, XCS_EXCHANGE_DONE } xcs_exchange_state;

struct xcs_exchange {
    xcs_http *http;
    void *connection;
    xcs_route route;
    char method[8], path[256];
    uint64_t begin_ns;
    xcs_text body;
    size_t body_bytes; /* received */
    bool discards;     /* the response is known; the rest of the body is of no interest */
    bool counted;      /* in http->open */
    bool suspended;    /* of the connection's thread */
    int state;         /* xcs_exchange_state; atomic */
    xcs_model *model;
    xcs_infer infer;
    xcs_request *request;
    bool monitored;
    xcs_exchange *before, *next; /* in the monitor's list */
    uint64_t monitor_id;
    /* The response. */
    int status;
    xcs_text response;
    size_t header_length; /* JSON part of a binary response; 0: none */
    const char *content_type;
    unsigned retry_after_s;
};

/* Creates an exchange from the request line and headers. Returns NULL if there is no memory. */
xcs_exchange *xcs_exchange_create(xcs_http *http, void *connection, const char *method, const char *path);
/* True if the response is ready although the body has not been read, and the connection must be closed. */
bool xcs_exchange_is_refused(const xcs_exchange *exchange);
/* Returns false if the connection must be closed. */
bool xcs_exchange_receive(xcs_exchange *exchange, const char *bytes, size_t count);
/* Handles the request after its body. Returns true if the response is ready; otherwise the connection is suspended, and
 * is resumed when it is. */
bool xcs_exchange_process(xcs_exchange *exchange);
/* Before the response is sent, on the connection's thread. */
void xcs_exchange_respond(xcs_exchange *exchange);
/* After the response was sent or the connection was closed. */
void xcs_exchange_destroy(xcs_exchange *exchange, bool sent);

/* Sets an error response. */
void xcs_exchange_fail(xcs_exchange *exchange, int status, const char *message);

/* Handlers of routes. They set the response, or suspend the exchange. */
void xcs_handle_infer(xcs_exchange *exchange);
void xcs_handle_admin(xcs_exchange *exchange);
/* Suspends the exchange unless it is done. */
void xcs_exchange_wait(xcs_exchange *exchange);
/* Called by the thread that sets the response of an exchange that may be suspended. Nothing of the exchange may be used
 * afterwards. */
void xcs_exchange_finish(xcs_exchange *exchange);

/* ---- Clients that leave ---- */

xcvm_status xcs_leave_monitor_create(const xcvm_allocator *allocator, xcs_leave_monitor **monitor, xcvm_error *error);
void xcs_leave_monitor_destroy(xcs_leave_monitor *monitor);
/* Cancels the request of the exchange if its client closes the connection. */
void xcs_leave_monitor_add(xcs_leave_monitor *monitor, xcs_exchange *exchange, int descriptor);
void xcs_leave_monitor_remove(xcs_leave_monitor *monitor, xcs_exchange *exchange, int descriptor);

/* ---- Log ---- */

void xcs_log_exchange(xcs_exchange *exchange, bool sent);

#endif

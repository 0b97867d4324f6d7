/* Connections of an HTTP server, and the threads that serve them. Each thread has an epoll set; a connection belongs to
 * one thread. */
#ifndef XCVM_SERVER_HTTP_CONNECTION_H
#define XCVM_SERVER_HTTP_CONNECTION_H

#include "server/common/tls.h"
#include "server/common/wait.h"
#include "server/http/exchange.h"

enum { XCS_IN_BYTES = 32 << 10, XCS_OUT_BYTES = 1024 };

typedef enum xcs_connection_state {
    XCS_READS_HEAD,
    XCS_READS_BODY,
    XCS_WAITS,   /* for a request that runs */
    XCS_WRITES,  /* a response */
    XCS_DISCARDS /* discards input until the client ends, so that it can read the last response */
} xcs_connection_state;

struct xcs_connection {
    xcs_loop *loop;
    xcs_connection *before, *next; /* in the thread's list */
    xcs_connection *next_resumed;
    int fd;
    xcs_tls_channel *tls; /* NULL: without TLS */
    uint32_t events;      /* registered; 0: none */
    xcs_connection_state state;
    bool is_admin, is_new; /* is_new: not yet in the list of its thread */
    bool keep_alive, has_left;
    bool served;                /* one request at least */
    bool is_secure;             /* the handshake of TLS is complete */
    char *in;                   /* XCS_IN_BYTES; NULL: nothing is buffered */
    size_t begin, end, scanned; /* of the bytes that were not used */
    xcs_head head;
    xcs_exchange *exchange;
    uint64_t body_left;     /* bytes; not of a chunked body */
    uint64_t body_until_ns; /* when the body must be there */
    xcs_chunks chunks;
    char out[XCS_OUT_BYTES]; /* head of the response, or an interim response */
    size_t out_count, sent;
    uint64_t deadline_ns; /* it is closed then; UINT64_MAX: never */
    ssize_t probed;       /* bytes that the probe has read; 0 or less: the connection has ended */
};

/* Takes a socket over. Returns NULL, with the socket closed, if there is no memory. */
xcs_connection *xcs_connection_create(xcs_loop *loop, int fd, bool is_admin);
/* Sets the first deadline, when the thread has taken the connection over. */
void xcs_connection_begin(xcs_connection *connection, uint64_t now);
/* Closes the socket and releases the connection, which must not wait for a request. */
void xcs_connection_destroy(xcs_connection *connection);
/* Handles events of epoll. Returns false if the connection has ended and must be destroyed. */
bool xcs_connection_handle(xcs_connection *connection, uint32_t events, uint64_t now);
/* Tries to read a request, if none has begun. Returns true if there was something, for xcs_connection_handle_probed. */
bool xcs_connection_probe(xcs_connection *connection);
/* Returns like xcs_connection_handle. */
bool xcs_connection_handle_probed(xcs_connection *connection, uint64_t now);
/* Goes on after the response became ready. Returns like xcs_connection_handle. */
bool xcs_connection_continue(xcs_connection *connection, uint64_t now);
/* Handles a deadline that has passed. Returns like xcs_connection_handle. */
bool xcs_connection_expire(xcs_connection *connection, uint64_t now);

/* Formats the head of a response. */
size_t xcs_response_head(const xcs_connection *connection, char *to);

/* A thread. */
struct xcs_loop {
    xcs_http *http;
    pthread_t thread;
    bool has_thread;
    int epoll, wake; /* wake: an eventfd */
    xcs_waiter waiter;
    xcs_connection *first;
    size_t count;             /* of connections, with those on their way; atomic */
    xcs_connection *resumed;  /* by other threads; atomic, a stack */
    xcs_connection *expected; /* had the last event alone, so the next one is likely its own; or NULL */
    xcs_infer_memo memo;
    char *spare;              /* a buffer that no connection uses */
    bool more_ready;          /* connections are ready beside the one that is handled */
    bool listens[2];          /* to the sockets of the server */
    uint64_t listen_again_ns; /* after the process had no descriptors left; 0: no wait */
    uint64_t until_ns;        /* when the next deadline is looked at */
    uint64_t closing_ns;      /* when the server began to close; 0: it does not */
    char date[40];            /* "Date: ...\r\n" */
    int64_t date_s;
};

xcvm_status xcs_loops_create(xcs_http *http, xcvm_error *error);
/* Ends after the requests that were sent have been answered. */
void xcs_loops_destroy(xcs_http *http);
/* Writes the date line of responses. */
const char *xcs_loop_date(xcs_loop *loop);

#endif

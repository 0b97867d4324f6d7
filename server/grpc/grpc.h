/* The gRPC server: its loop, connections and calls. One thread, that of the loop, uses everything that is not marked
 * otherwise. Threads of the pool fill in a call's response and hand the call back. */
#ifndef XCVM_SERVER_GRPC_GRPC_H
#define XCVM_SERVER_GRPC_GRPC_H

#include "server/common/log.h"
#include "server/common/share.h"
#include "server/common/tls.h"
#include "server/common/wait.h"
#include "server/grpc/framing.h"
#include "server/grpc/infer_read.h"
#include "server/grpc/protobuf.h"
#include "server/grpc/status.h"
#include "server/trace/trace.h"
#include "xcvm/server_grpc.h"

#include <pthread.h>

typedef struct xcs_call xcs_call;
typedef struct xcs_grpc_connection xcs_grpc_connection;

struct xcs_grpc {
    xcvm_allocator allocator;
    xcs_server *server;
    xcs_grpc_options options; /* with defaults; strings are owned or invalid */
    char *api_key;
    char address[160];
    int listener, epoll, event;
    xcs_waiter waiter;
    pthread_t thread;
    bool started;
    bool ready, closing;   /* atomic; the event wakes the loop after a change */
    pthread_mutex_t mutex; /* of `completed` and of the access log; the loop alone uses what follows these */
    xcs_call *completed;   /* calls that the pool hands back */
    xcs_log log;
    xcs_share share; /* of requests until their runs end, and of unsent responses */
    size_t unfilled; /* bytes of tensors that are to arrive */
    xcs_grpc_connection *connections, *dirty;
    size_t connection_count;
    xcs_call *arrived, **arrived_end; /* calls whose request is whole */
    size_t arrived_count;
    size_t pending;            /* calls that are in `arrived` or in the pool */
    uint64_t next_ns;          /* when the loop looks at times next; UINT64_MAX: never */
    uint64_t accepts_again_ns; /* the listener rests, because the process has no descriptors; 0: it does not */
    bool was_ready;
    char *buffer;                  /* XCS_GRPC_BUFFER bytes, for input and output */
    xcs_grpc_connection *expected; /* had the last event alone, so the next one is likely its own; or NULL */
    ssize_t probed;                /* bytes in the buffer that the probe has received from it */
};

enum { XCS_GRPC_BUFFER = 128 << 10, XCS_GRPC_SMALL_MESSAGE = 1 << 20, XCS_GRPC_HEADER_LIMIT = 16 << 10 };

/* How a method receives its messages. */
typedef enum xcs_method_kind {
    XCS_METHOD_UNARY,  /* one message, in call->message */
    XCS_METHOD_INFER,  /* one message, read as it arrives */
    XCS_METHOD_STREAM, /* `handle` is called for each message */
} xcs_method_kind;

typedef struct xcs_method {
    const char *path;
    xcs_method_kind kind;
    bool is_public; /* needs no API key */
    void (*handle)(xcs_call *call);
} xcs_method;

struct xcs_call {
    xcs_grpc *grpc;
    xcs_grpc_connection *connection; /* NULL: the stream is closed */
    int32_t stream;
    xcs_call *before, *next; /* in the connection's list */
    xcs_call *next_arrived, *next_completed;
    const xcs_method *method;
    uint64_t begin_ns, progress_ns;
    uint64_t deadline_ns; /* 0: none */
    /* Headers. */
    char path[160], encoding[32];
    size_t header_bytes;
    bool is_post, is_grpc, has_key, has_bearer, key_matches;
    bool bad_timeout, begun;
    xcs_trace_headers *trace_headers; /* NULL: none were sent */
    xcs_trace *trace;                 /* NULL: the call is not sampled */
    /* The request. */
    xcs_framing framing;
    xcs_text message;
    xcs_infer_reader reader;
    size_t bytes_in, held, response_held;
    bool request_ended; /* the client has sent everything */
    bool arrived, in_pool;
    xcs_request *request;
    /* The response. */
    int status; /* of gRPC */
    int http_status;
    char status_message[700];
    uint64_t retry_after_ns;
    xcs_text response;
    size_t response_sent, bytes_out;
    bool started;  /* the headers of the response were submitted */
    bool finished; /* the status is final, and there will be no more messages */
    bool watching; /* a health watch */
    bool last_ready, watches_unknown;
    bool sent; /* all of it */
};

/* ---- Calls ---- */

/* Returns NULL if there is no memory. */
xcs_call *xcs_call_create(xcs_grpc *grpc, xcs_grpc_connection *connection, int32_t stream);
void xcs_call_header(xcs_call *call, const char *name, size_t name_length, const char *value, size_t value_length);
/* After the headers. */
void xcs_call_begin(xcs_call *call);
void xcs_call_receive(xcs_call *call, const uint8_t *bytes, size_t count);
/* After the last byte of the request. */
void xcs_call_end_request(xcs_call *call);
/* The stream is closed. The call is destroyed, unless the pool has it. */
void xcs_call_close(xcs_call *call);
/* Sets the final status and sends the response, or the rest of it. Does nothing if the call has finished. */
void xcs_call_finish(xcs_call *call, int status, const char *message);
void xcs_call_fail(xcs_call *call, const xcvm_error *error);
/* Sends a message that was added to call->response; more may follow. */
void xcs_call_send(xcs_call *call);
/* Finishes a call with OK after its last message was added to call->response. */
void xcs_call_end(xcs_call *call);
/* Submits a call of the list `arrived` to the pool. */
void xcs_call_submit(xcs_call *call, bool may_run_here);
/* The pool has handed the call back. */
void xcs_call_complete(xcs_call *call);
/* Ends the call if it is too late or stalled. Lowers *next_ns to when to look again. */
void xcs_call_check_time(xcs_call *call, uint64_t now, uint64_t *next_ns);
/* The response of a call was sent in part. */
void xcs_call_sent(xcs_call *call, size_t count);

/* Returns NULL for an unknown path. */
const xcs_method *xcs_method_find(const char *path);
extern const xcs_method xcs_methods[];

void xcs_handle_server_live(xcs_call *call);
void xcs_handle_server_ready(xcs_call *call);
void xcs_handle_model_ready(xcs_call *call);
void xcs_handle_server_metadata(xcs_call *call);
void xcs_handle_model_metadata(xcs_call *call);
void xcs_handle_health_check(xcs_call *call);
void xcs_handle_health_watch(xcs_call *call);
void xcs_handle_reflection(xcs_call *call);
/* Sends the readiness to a watch if it has changed. */
void xcs_health_notify(xcs_call *call);

/* ---- Traces ---- */

/* Takes a header of the trace context. */
void xcs_call_trace_header(xcs_call *call, const char *name, const char *value);
/* After the headers: begins the trace of a call that runs a model, if it is sampled. */
void xcs_call_begin_trace(xcs_call *call);
void xcs_call_end_trace(xcs_call *call);

/* ---- Connections ---- */

xcvm_status xcs_http2_load_library(xcvm_error *error);
/* Takes the descriptor over. Returns NULL if there is no memory. */
xcs_grpc_connection *xcs_grpc_connection_create(xcs_grpc *grpc, int descriptor);
/* Closes all calls. */
void xcs_grpc_connection_destroy(xcs_grpc_connection *connection);
void xcs_grpc_connection_read(xcs_grpc_connection *connection);
/* Tries to receive. Returns true if there was something, for xcs_grpc_connection_read_probed. */
bool xcs_grpc_connection_probe(xcs_grpc_connection *connection);
void xcs_grpc_connection_read_probed(xcs_grpc_connection *connection);
/* Sends as much as the socket takes. */
void xcs_grpc_connection_flush(xcs_grpc_connection *connection);
/* Tells the client to open no more calls. With `at_once`, calls that it opens meanwhile are ignored. */
void xcs_grpc_connection_go_away(xcs_grpc_connection *connection, bool at_once);
void xcs_grpc_connection_check_time(xcs_grpc_connection *connection, uint64_t now, uint64_t *next_ns);
/* Submits the response of a call: its headers, and the messages and status as they come. */
void xcs_grpc_connection_respond(xcs_grpc_connection *connection, xcs_call *call);
/* There are more messages, or the status. */
void xcs_grpc_connection_resume(xcs_grpc_connection *connection, const xcs_call *call);
/* Ends a call without a status. */
void xcs_grpc_connection_reset(xcs_grpc_connection *connection, const xcs_call *call);
/* Calls `visit` for each call; it may close the call. */
void xcs_grpc_connection_visit(xcs_grpc_connection *connection, void (*visit)(void *user, xcs_call *call), void *user);
xcs_grpc_connection *xcs_grpc_connection_next(const xcs_grpc_connection *connection);
/* Takes a connection that has something to send, or is dead, from the list; NULL: there is none. */
xcs_grpc_connection *xcs_grpc_connection_take_dirty(xcs_grpc *grpc);
bool xcs_grpc_connection_is_dead(const xcs_grpc_connection *connection);
bool xcs_grpc_connection_is_idle(const xcs_grpc_connection *connection);
/* The bytes that its calls hold. */
size_t *xcs_grpc_connection_held(xcs_grpc_connection *connection);

/* Makes the loop look at times at `when_ns` at the latest. */
static inline void xcs_grpc_wake_at(xcs_grpc *grpc, uint64_t when_ns)
{
    grpc->next_ns = when_ns < grpc->next_ns ? when_ns : grpc->next_ns;
}

#endif

/* HTTP/2 connections: nghttp2, an optional dependency that is loaded on first use. */
#include "server/grpc/grpc.h"
#include "server/grpc/socket.h"

#include "base/clock.h"
#include "base/lazy_library.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef XCVM_HAVE_NGHTTP2

#include <nghttp2/nghttp2.h>

#define FUNCTIONS(X)                                                                                                   \
    X(nghttp2_session_callbacks_new)                                                                                   \
    X(nghttp2_session_callbacks_del)                                                                                   \
    X(nghttp2_session_callbacks_set_on_begin_frame_callback)                                                           \
    X(nghttp2_session_callbacks_set_on_begin_headers_callback)                                                         \
    X(nghttp2_session_callbacks_set_on_header_callback)                                                                \
    X(nghttp2_session_callbacks_set_on_frame_recv_callback)                                                            \
    X(nghttp2_session_callbacks_set_on_invalid_frame_recv_callback)                                                    \
    X(nghttp2_session_callbacks_set_on_data_chunk_recv_callback)                                                       \
    X(nghttp2_session_callbacks_set_on_frame_send_callback)                                                            \
    X(nghttp2_session_callbacks_set_on_stream_close_callback)                                                          \
    X(nghttp2_session_server_new)                                                                                      \
    X(nghttp2_session_del)                                                                                             \
    X(nghttp2_session_mem_recv)                                                                                        \
    X(nghttp2_session_mem_send)                                                                                        \
    X(nghttp2_session_want_read)                                                                                       \
    X(nghttp2_session_want_write)                                                                                      \
    X(nghttp2_session_resume_data)                                                                                     \
    X(nghttp2_session_terminate_session)                                                                               \
    X(nghttp2_session_get_last_proc_stream_id)                                                                         \
    X(nghttp2_session_get_outbound_queue_size)                                                                         \
    X(nghttp2_session_get_stream_remote_close)                                                                         \
    X(nghttp2_session_get_stream_user_data)                                                                            \
    X(nghttp2_session_set_stream_user_data)                                                                            \
    X(nghttp2_session_set_local_window_size)                                                                           \
    X(nghttp2_submit_settings)                                                                                         \
    X(nghttp2_submit_response)                                                                                         \
    X(nghttp2_submit_trailer)                                                                                          \
    X(nghttp2_submit_rst_stream)                                                                                       \
    X(nghttp2_submit_shutdown_notice)                                                                                  \
    X(nghttp2_submit_goaway)
XCVM_LAZY_LIBRARY(h2, XCVM_NGHTTP2_FILE, FUNCTIONS)

/* Windows of flow control: how much clients may send before they wait for the server. */
enum { STREAM_WINDOW = 1 << 20, CONNECTION_WINDOW = 4 << 20 };
/* Frames that do no work, such as pings and resets, that a connection may send at once, and then each second. */
enum { IDLE_FRAMES = 1000 };
/* Frames that wait for a client that does not read. Beyond that, it floods the server. */
enum { MOST_QUEUED = 2000 };
/* Headers of one request, after which the connection is closed. */
enum { MOST_HEADER_BYTES = 1 << 20 };
/* Until the client has sent its preface and settings. */
#define GREETING_NS UINT64_C(10000000000)

struct xcs_grpc_connection {
    xcs_grpc *grpc;
    xcs_grpc_connection *before, *next, *next_dirty;
    xcs_socket socket;
    bool is_dirty;
    bool is_dead; /* to be destroyed by the loop */
    bool greeted; /* the client has sent its settings */
    bool goes_away;
    bool goes_away_at_once;
    uint64_t created_ns, go_away_ns;
    uint64_t idle_frames_ns; /* when `idle_frames` was counted */
    unsigned idle_frames;    /* that are left */
    size_t held;             /* see xcs_share_hold */
    nghttp2_session *session;
    xcs_call *calls;
};

xcvm_status xcs_http2_load_library(xcvm_error *error) { return load_h2(error); }

xcs_grpc_connection *xcs_grpc_connection_next(const xcs_grpc_connection *connection) { return connection->next; }
bool xcs_grpc_connection_is_dead(const xcs_grpc_connection *connection) { return connection->is_dead; }

bool xcs_grpc_connection_is_idle(const xcs_grpc_connection *c)
{
    return c->calls == NULL && c->socket.unsent.count == 0 && !h2.nghttp2_session_want_write(c->session);
}

size_t *xcs_grpc_connection_held(xcs_grpc_connection *c) { return &c->held; }

static void make_dirty(xcs_grpc_connection *c)
{
    if (c->is_dirty)
        return;
    c->is_dirty = true;
    c->next_dirty = c->grpc->dirty;
    c->grpc->dirty = c;
}

xcs_grpc_connection *xcs_grpc_connection_take_dirty(xcs_grpc *grpc)
{
    xcs_grpc_connection *c = grpc->dirty;
    if (c == NULL)
        return NULL;
    grpc->dirty = c->next_dirty;
    c->is_dirty = false;
    return c;
}

static void kill_connection(xcs_grpc_connection *c)
{
    c->is_dead = true;
    make_dirty(c);
}

/* ---- Callbacks: what the client sends ---- */

/* Returns false if the client sends more frames without work than is sensible. */
static bool count_idle_frame(xcs_grpc_connection *c)
{
    const uint64_t now = xcvm_clock_ns();
    const uint64_t earned = (now - c->idle_frames_ns) / (1000000000 / IDLE_FRAMES);
    if (earned > 0) {
        c->idle_frames = earned + c->idle_frames < IDLE_FRAMES ? (unsigned)earned + c->idle_frames : IDLE_FRAMES;
        c->idle_frames_ns = now;
    }
    if (c->idle_frames == 0)
        return false;
    c->idle_frames--;
    return true;
}

/* Counts the frames that do no work, also those that the library ignores. */
static int begin_frame(nghttp2_session *session, const nghttp2_frame_hd *head, void *user)
{
    const bool works =
        head->type == NGHTTP2_HEADERS || head->type == NGHTTP2_CONTINUATION || head->type == NGHTTP2_WINDOW_UPDATE ||
        (head->type == NGHTTP2_DATA && (head->length > 0 || (head->flags & NGHTTP2_FLAG_END_STREAM) != 0));
    if (!works && !count_idle_frame(user))
        (void)h2.nghttp2_session_terminate_session(session, NGHTTP2_ENHANCE_YOUR_CALM);
    return 0;
}

static int begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    xcs_grpc_connection *c = user;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    if (c->goes_away_at_once)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    xcs_call *call = xcs_call_create(c->grpc, c, frame->hd.stream_id);
    if (call == NULL)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    call->next = c->calls;
    if (call->next != NULL)
        call->next->before = call;
    c->calls = call;
    (void)h2.nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, call);
    return 0;
}

static xcs_call *call_of(const xcs_grpc_connection *c, int32_t stream)
{
    return h2.nghttp2_session_get_stream_user_data(c->session, stream);
}

static int receive_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
                          const uint8_t *value, size_t value_length, uint8_t flags, void *user)
{
    xcs_grpc_connection *c = user;
    xcs_call *call = call_of(c, frame->hd.stream_id);
    (void)session;
    (void)flags;
    if (call == NULL)
        return 0;
    xcs_call_header(call, (const char *)name, name_length, (const char *)value, value_length);
    return call->header_bytes <= MOST_HEADER_BYTES ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int receive_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *bytes, size_t count,
                        void *user)
{
    xcs_call *call = call_of(user, stream);
    (void)session;
    (void)flags;
    if (call != NULL)
        xcs_call_receive(call, bytes, count);
    return 0;
}

/* After a whole frame; for data, after its bytes. */
static int receive_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    xcs_grpc_connection *c = user;
    (void)session;
    if (frame->hd.type == NGHTTP2_SETTINGS)
        c->greeted = true;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    xcs_call *call = call_of(c, frame->hd.stream_id);
    if (call != NULL && frame->hd.type == NGHTTP2_HEADERS && !call->begun)
        xcs_call_begin(call);
    if (call != NULL && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        xcs_call_end_request(call);
    return 0;
}

/* Errors of a stream are answered by RST_STREAM, so they count as well. */
static int receive_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int code, void *user)
{
    (void)frame;
    (void)code;
    if (!count_idle_frame(user))
        (void)h2.nghttp2_session_terminate_session(session, NGHTTP2_ENHANCE_YOUR_CALM);
    return 0;
}

static int close_stream(nghttp2_session *session, int32_t stream, uint32_t code, void *user)
{
    xcs_grpc_connection *c = user;
    xcs_call *call = call_of(c, stream);
    (void)session;
    if (call == NULL)
        return 0;
    *(call->before != NULL ? &call->before->next : &c->calls) = call->next;
    if (call->next != NULL)
        call->next->before = call->before;
    call->before = call->next = NULL;
    call->sent = call->sent && code == NGHTTP2_NO_ERROR;
    c->socket.active_ns = xcvm_clock_ns();
    xcs_call_close(call);
    return 0;
}

/* ---- Callbacks: what the server sends ---- */

#define HEADER(name, value)                                                                                            \
    {                                                                                                                  \
        (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE \
    }

enum { MOST_TRAILERS = 3, MESSAGE_SIZE = 2048 };
typedef struct trailers {
    char status[12], message[MESSAGE_SIZE], retry_after[24];
    nghttp2_nv headers[MOST_TRAILERS];
    size_t count;
} trailers;

static void add_trailer(trailers *t, const char *name, const char *value)
{
    t->headers[t->count++] = (nghttp2_nv)HEADER(name, value);
}

static void make_trailers(const xcs_call *call, trailers *t)
{
    t->count = 0;
    snprintf(t->status, sizeof t->status, "%d", call->status);
    add_trailer(t, "grpc-status", t->status);
    if (xcs_grpc_message_write(call->status_message, t->message, sizeof t->message) > 0)
        add_trailer(t, "grpc-message", t->message);
    if (call->retry_after_ns != 0) {
        snprintf(t->retry_after, sizeof t->retry_after, "%llu",
                 (unsigned long long)(call->retry_after_ns / 1000000 + 1));
        add_trailer(t, "grpc-retry-pushback-ms", t->retry_after);
    }
}

static ssize_t read_response(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room, uint32_t *flags,
                             nghttp2_data_source *source, void *user)
{
    xcs_call *call = source->ptr;
    const size_t left = call->response.count - call->response_sent, count = left < room ? left : room;
    (void)user;
    if (count > 0)
        memcpy(to, call->response.at + call->response_sent, count);
    xcs_call_sent(call, count);
    if (call->response_sent < call->response.count)
        return (ssize_t)count;
    if (!call->finished) {
        call->response.count = call->response_sent = 0;
        return count > 0 ? (ssize_t)count : NGHTTP2_ERR_DEFERRED;
    }
    trailers t;
    make_trailers(call, &t);
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    return h2.nghttp2_submit_trailer(session, stream, t.headers, t.count) == 0 ? (ssize_t)count
                                                                               : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

void xcs_grpc_connection_respond(xcs_grpc_connection *c, xcs_call *call)
{
    char status[12];
    trailers t = {.count = 0};
    snprintf(status, sizeof status, "%d", call->http_status);
    const bool is_grpc = call->http_status == 200;
    nghttp2_nv headers[4 + MOST_TRAILERS] = {HEADER(":status", status)};
    size_t count = 1;
    if (is_grpc) {
        headers[count++] = (nghttp2_nv)HEADER("content-type", "application/grpc");
        headers[count++] = (nghttp2_nv)HEADER("grpc-accept-encoding",
                                              xcs_inflate_supports("gzip") ? "identity,deflate,gzip" : "identity");
        if (call->trace != NULL)
            headers[count++] = (nghttp2_nv)HEADER("traceresponse", xcs_trace_response(call->trace));
    } else if (call->http_status == 405) {
        headers[count++] = (nghttp2_nv)HEADER("allow", "POST");
    }
    const bool has_messages = !call->finished || call->response.count > 0;
    if (is_grpc && !has_messages) {
        make_trailers(call, &t);
        memcpy(headers + count, t.headers, t.count * sizeof *t.headers);
        count += t.count;
    }
    const nghttp2_data_provider provider = {.source.ptr = call, .read_callback = read_response};
    if (h2.nghttp2_submit_response(c->session, call->stream, headers, count, has_messages ? &provider : NULL) != 0)
        kill_connection(c);
    make_dirty(c);
}

void xcs_grpc_connection_resume(xcs_grpc_connection *c, const xcs_call *call)
{
    /* Fails if the data are not deferred. */
    (void)h2.nghttp2_session_resume_data(c->session, call->stream);
    make_dirty(c);
}

void xcs_grpc_connection_reset(xcs_grpc_connection *c, const xcs_call *call)
{
    (void)h2.nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_CANCEL);
    make_dirty(c);
}

/* After the status, a client that still sends its request is told to stop. */
static int after_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    xcs_grpc_connection *c = user;
    if (frame->hd.type != NGHTTP2_HEADERS || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
        return 0;
    xcs_call *call = call_of(c, frame->hd.stream_id);
    if (call != NULL)
        call->sent = true;
    if (h2.nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0)
        (void)h2.nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    return 0;
}

/* ---- Creation and destruction ---- */

static bool create_session(xcs_grpc_connection *c)
{
    nghttp2_session_callbacks *callbacks;
    if (h2.nghttp2_session_callbacks_new(&callbacks) != 0)
        return false;
    h2.nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, begin_frame);
    h2.nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, begin_headers);
    h2.nghttp2_session_callbacks_set_on_header_callback(callbacks, receive_header);
    h2.nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, receive_frame);
    h2.nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, receive_invalid_frame);
    h2.nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, receive_data);
    h2.nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, after_send);
    h2.nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, close_stream);
    const int code = h2.nghttp2_session_server_new(&c->session, callbacks, c);
    h2.nghttp2_session_callbacks_del(callbacks);
    if (code != 0)
        return false;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, c->grpc->options.stream_limit},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, XCS_GRPC_HEADER_LIMIT},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    if (h2.nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, sizeof settings / sizeof *settings) == 0 &&
        h2.nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW) == 0)
        return true;
    h2.nghttp2_session_del(c->session);
    return false;
}

xcs_grpc_connection *xcs_grpc_connection_create(xcs_grpc *grpc, int descriptor)
{
    xcs_grpc_connection *c = xcvm_allocate_zeroed(&grpc->allocator, sizeof *c);
    if (c == NULL) {
        close(descriptor);
        return NULL;
    }
    c->grpc = grpc;
    c->created_ns = c->idle_frames_ns = xcvm_clock_ns();
    c->idle_frames = IDLE_FRAMES;
    const bool is_open = xcs_socket_open(&c->socket, &grpc->allocator, grpc->epoll, descriptor, grpc->options.tls, c);
    if (!is_open || !create_session(c)) {
        if (is_open)
            xcs_socket_close(&c->socket);
        xcvm_deallocate(&grpc->allocator, c, sizeof *c);
        return NULL;
    }
    c->next = grpc->connections;
    if (c->next != NULL)
        c->next->before = c;
    grpc->connections = c;
    grpc->connection_count++;
    xcs_grpc_wake_at(grpc, c->created_ns + GREETING_NS);
    make_dirty(c);
    return c;
}

void xcs_grpc_connection_destroy(xcs_grpc_connection *c)
{
    xcs_grpc *grpc = c->grpc;
    *(c->before != NULL ? &c->before->next : &grpc->connections) = c->next;
    if (c->next != NULL)
        c->next->before = c->before;
    grpc->connection_count--;
    if (grpc->expected == c)
        grpc->expected = NULL;
    for (xcs_call *call; (call = c->calls) != NULL;) {
        c->calls = call->next;
        call->sent = false;
        xcs_call_close(call);
    }
    h2.nghttp2_session_del(c->session);
    xcs_socket_close(&c->socket);
    xcvm_deallocate(&grpc->allocator, c, sizeof *c);
}

/* ---- Input and output ---- */

static void take_received(xcs_grpc_connection *c, ssize_t got)
{
    xcs_grpc *grpc = c->grpc;
    make_dirty(c); /* also without bytes: the handshake of TLS may allow it to send */
    if (c->socket.has_failed)
        kill_connection(c);
    if (got <= 0)
        return;
    /* A failure has been answered by GOAWAY, which the flush sends. */
    if (h2.nghttp2_session_mem_recv(c->session, (const uint8_t *)grpc->buffer, (size_t)got) < 0 ||
        h2.nghttp2_session_get_outbound_queue_size(c->session) > MOST_QUEUED) {
        xcs_grpc_connection_flush(c);
        kill_connection(c);
    }
}

void xcs_grpc_connection_read(xcs_grpc_connection *c)
{
    do {
        if (!c->is_dead)
            take_received(c, xcs_socket_receive(&c->socket, c->grpc->buffer, XCS_GRPC_BUFFER));
    } while (!c->is_dead && xcs_socket_is_pending(&c->socket));
}

bool xcs_grpc_connection_probe(xcs_grpc_connection *c)
{
    if (c->is_dead || c->socket.tls != NULL)
        return false;
    c->grpc->probed = xcs_socket_receive(&c->socket, c->grpc->buffer, XCS_GRPC_BUFFER);
    return c->grpc->probed > 0 || c->socket.has_failed;
}

void xcs_grpc_connection_read_probed(xcs_grpc_connection *c) { take_received(c, c->grpc->probed); }

void xcs_grpc_connection_flush(xcs_grpc_connection *c)
{
    char *buffer = c->grpc->buffer;
    size_t count = 0;
    bool blocked = c->is_dead || !xcs_socket_flush(&c->socket);
    while (!blocked) {
        const uint8_t *bytes;
        const ssize_t length = h2.nghttp2_session_mem_send(c->session, &bytes);
        if (length < 0)
            kill_connection(c);
        if (length <= 0)
            break;
        if ((size_t)length > XCS_GRPC_BUFFER - count) {
            blocked = !xcs_socket_send(&c->socket, buffer, count);
            count = 0;
        }
        if (blocked) {
            xcs_socket_keep(&c->socket, bytes, (size_t)length);
        } else if ((size_t)length > XCS_GRPC_BUFFER) {
            blocked = !xcs_socket_send(&c->socket, (const char *)bytes, (size_t)length);
        } else {
            memcpy(buffer + count, bytes, (size_t)length);
            count += (size_t)length;
        }
    }
    if (count > 0 && !c->is_dead)
        blocked = !xcs_socket_send(&c->socket, buffer, count) || blocked;
    if (c->is_dead)
        return;
    xcs_socket_choose_events(&c->socket, blocked);
    if (c->socket.has_failed ||
        (!blocked && !h2.nghttp2_session_want_read(c->session) && !h2.nghttp2_session_want_write(c->session)))
        kill_connection(c);
}

/* ---- Time, and the end ---- */

void xcs_grpc_connection_go_away(xcs_grpc_connection *c, bool at_once)
{
    if (at_once && !c->goes_away_at_once) {
        const int32_t last = h2.nghttp2_session_get_last_proc_stream_id(c->session);
        (void)h2.nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0);
        c->goes_away_at_once = true;
    } else if (!c->goes_away) {
        (void)h2.nghttp2_submit_shutdown_notice(c->session);
    }
    if (!c->goes_away) {
        c->goes_away = true;
        c->go_away_ns = xcvm_clock_ns();
        xcs_grpc_wake_at(c->grpc, c->go_away_ns + UINT64_C(1000000000));
    }
    make_dirty(c);
}

typedef struct times {
    uint64_t now, *next_ns;
} times;

static void check_call(void *user, xcs_call *call)
{
    const times *t = user;
    xcs_call_check_time(call, t->now, t->next_ns);
}

void xcs_grpc_connection_visit(xcs_grpc_connection *c, void (*visit)(void *user, xcs_call *call), void *user)
{
    for (xcs_call *call = c->calls, *next; call != NULL; call = next) {
        next = call->next;
        visit(user, call);
    }
}

void xcs_grpc_connection_check_time(xcs_grpc_connection *c, uint64_t now, uint64_t *next_ns)
{
    times t = {now, next_ns};
    uint64_t limit_ns = UINT64_MAX;
    const uint64_t idle_ns = (uint64_t)c->grpc->options.idle_seconds * 1000000000;
    if (!c->greeted)
        limit_ns = c->created_ns + GREETING_NS;
    else if (c->calls == NULL || c->socket.unsent.count > 0)
        limit_ns = c->socket.active_ns + idle_ns;
    if (limit_ns <= now && c->greeted && !c->goes_away_at_once && c->socket.unsent.count == 0) {
        xcs_grpc_connection_go_away(c, true);
        limit_ns = now + idle_ns;
    } else if (limit_ns <= now) {
        kill_connection(c);
    }
    /* The client has had the time to see that it must open no more calls. */
    if (c->goes_away && !c->goes_away_at_once) {
        if (now >= c->go_away_ns + UINT64_C(1000000000))
            xcs_grpc_connection_go_away(c, true);
        else
            limit_ns = c->go_away_ns + UINT64_C(1000000000);
    }
    *next_ns = limit_ns < *next_ns ? limit_ns : *next_ns;
    xcs_grpc_connection_visit(c, check_call, &t);
}

#else

xcvm_status xcs_http2_load_library(xcvm_error *error)
{
    XCVM_FAIL(error, UNSUPPORTED, "this build has no gRPC server (libnghttp2-dev was missing)");
}

/* Without the library nothing is created, so none of these is called. */
xcs_grpc_connection *xcs_grpc_connection_create(xcs_grpc *grpc, int descriptor)
{
    (void)grpc;
    close(descriptor);
    return NULL;
}
void xcs_grpc_connection_destroy(xcs_grpc_connection *c) { (void)c; }
void xcs_grpc_connection_read(xcs_grpc_connection *c) { (void)c; }
bool xcs_grpc_connection_probe(xcs_grpc_connection *c) { return c == NULL; }
void xcs_grpc_connection_read_probed(xcs_grpc_connection *c) { (void)c; }
void xcs_grpc_connection_flush(xcs_grpc_connection *c) { (void)c; }
void xcs_grpc_connection_go_away(xcs_grpc_connection *c, bool at_once)
{
    (void)c;
    (void)at_once;
}
void xcs_grpc_connection_check_time(xcs_grpc_connection *c, uint64_t now, uint64_t *next_ns)
{
    (void)c;
    (void)now;
    (void)next_ns;
}
void xcs_grpc_connection_respond(xcs_grpc_connection *c, xcs_call *call)
{
    (void)c;
    (void)call;
}
void xcs_grpc_connection_resume(xcs_grpc_connection *c, const xcs_call *call)
{
    (void)c;
    (void)call;
}
void xcs_grpc_connection_reset(xcs_grpc_connection *c, const xcs_call *call)
{
    (void)c;
    (void)call;
}
void xcs_grpc_connection_visit(xcs_grpc_connection *c, void (*visit)(void *user, xcs_call *call), void *user)
{
    (void)c;
    (void)visit;
    (void)user;
}
xcs_grpc_connection *xcs_grpc_connection_next(const xcs_grpc_connection *c)
{
    (void)c;
    return NULL;
}
xcs_grpc_connection *xcs_grpc_connection_take_dirty(xcs_grpc *grpc)
{
    (void)grpc;
    return NULL;
}
bool xcs_grpc_connection_is_dead(const xcs_grpc_connection *c) { return c == NULL; }
bool xcs_grpc_connection_is_idle(const xcs_grpc_connection *c) { return c != NULL; }
size_t *xcs_grpc_connection_held(xcs_grpc_connection *c)
{
    (void)c;
    return NULL;
}

#endif

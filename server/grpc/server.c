/* The gRPC server: its creation, its loop, and its end. */
#include "server/grpc/grpc.h"

#include "base/clock.h"
#include "server/common/listen.h"
#include "vm/options.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* Connections that are accepted before others are served. */
enum { MOST_ACCEPTED = 64, MOST_EVENTS = 64 };
/* At the end, a client that does not read its responses must not keep the process. */
#define LONGEST_FAREWELL_NS UINT64_C(10000000000)
/* Without descriptors, the listener rests. */
#define REST_NS UINT64_C(100000000)

/* ---- Connections ---- */

static void accept_connections(xcs_grpc *grpc)
{
    const int one = 1;
    for (int i = 0; i < MOST_ACCEPTED; i++) {
        const int descriptor = accept4(grpc->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (descriptor < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            struct epoll_event none = {.events = 0, .data.ptr = &grpc->listener};
            (void)epoll_ctl(grpc->epoll, EPOLL_CTL_MOD, grpc->listener, &none);
            grpc->accepts_again_ns = xcvm_clock_ns() + REST_NS;
            xcs_grpc_wake_at(grpc, grpc->accepts_again_ns);
        }
        if (descriptor < 0)
            return;
        if (grpc->connection_count >= grpc->options.connection_limit) {
            close(descriptor);
            continue;
        }
        (void)setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        (void)setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
        (void)xcs_grpc_connection_create(grpc, descriptor);
    }
}

static void visit_connections(xcs_grpc *grpc, void (*visit)(xcs_grpc_connection *connection, const void *user),
                              const void *user)
{
    for (xcs_grpc_connection *c = grpc->connections, *next; c != NULL; c = next) {
        next = xcs_grpc_connection_next(c);
        if (!xcs_grpc_connection_is_dead(c))
            visit(c, user);
    }
}

/* ---- Readiness and the end ---- */

static void notify(void *user, xcs_call *call)
{
    (void)user;
    if (call->watching)
        xcs_health_notify(call);
}

static void change_readiness(xcs_grpc_connection *c, const void *ready)
{
    xcs_grpc_connection_visit(c, notify, NULL);
    if (!*(const bool *)ready)
        xcs_grpc_connection_go_away(c, false);
}

static void refuse_rest(void *user, xcs_call *call)
{
    (void)user;
    if (!call->arrived && !call->in_pool)
        xcs_call_finish(call, XCS_GRPC_UNAVAILABLE, "the server is shutting down and accepts no requests");
}

/* Calls that the pool has are completed. */
static void close_connection(xcs_grpc_connection *c, const void *user)
{
    (void)user;
    xcs_grpc_connection_go_away(c, true);
    xcs_grpc_connection_visit(c, refuse_rest, NULL);
}

static void look_at_readiness(xcs_grpc *grpc)
{
    const bool ready = __atomic_load_n(&grpc->ready, __ATOMIC_ACQUIRE);
    if (ready == grpc->was_ready)
        return;
    grpc->was_ready = ready;
    visit_connections(grpc, change_readiness, &ready);
}

/* ---- Time ---- */

typedef struct sweep {
    uint64_t now, *next_ns;
} sweep;

static void check_time(xcs_grpc_connection *c, const void *user)
{
    const sweep *s = user;
    xcs_grpc_connection_check_time(c, s->now, s->next_ns);
}

static void look_at_times(xcs_grpc *grpc)
{
    const uint64_t now = xcvm_clock_ns();
    if (grpc->next_ns > now)
        return;
    grpc->next_ns = UINT64_MAX;
    if (grpc->accepts_again_ns != 0 && grpc->accepts_again_ns <= now && grpc->listener >= 0) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &grpc->listener};
        (void)epoll_ctl(grpc->epoll, EPOLL_CTL_MOD, grpc->listener, &event);
        grpc->accepts_again_ns = 0;
    } else if (grpc->accepts_again_ns != 0) {
        xcs_grpc_wake_at(grpc, grpc->accepts_again_ns);
    }
    const sweep s = {now, &grpc->next_ns};
    visit_connections(grpc, check_time, &s);
}

static int milliseconds_until(uint64_t when_ns)
{
    const uint64_t now = xcvm_clock_ns();
    if (when_ns == UINT64_MAX)
        return -1;
    if (when_ns <= now)
        return 0;
    const uint64_t ms = (when_ns - now) / 1000000 + 1;
    return ms < 3600000 ? (int)ms : 3600000;
}

/* ---- The loop ---- */

static xcs_call *take_completed(xcs_grpc *grpc)
{
    pthread_mutex_lock(&grpc->mutex);
    xcs_call *list = grpc->completed;
    grpc->completed = NULL;
    pthread_mutex_unlock(&grpc->mutex);
    return list;
}

/* A single request may run on this thread. Several are left to the pool, which runs them together. */
static void submit_arrived(xcs_grpc *grpc, bool is_alone)
{
    const bool may_run_here = is_alone && grpc->arrived_count == 1;
    for (xcs_call *call; (call = grpc->arrived) != NULL;) {
        grpc->arrived = call->next_arrived;
        if (grpc->arrived == NULL)
            grpc->arrived_end = &grpc->arrived;
        grpc->arrived_count--;
        xcs_call_submit(call, may_run_here);
    }
}

/* Does what the events have caused, and what this causes in turn. */
static void serve_changed(xcs_grpc *grpc, bool is_alone)
{
    for (bool more = true; more;) {
        more = grpc->arrived != NULL;
        submit_arrived(grpc, is_alone);
        for (xcs_call *call = take_completed(grpc), *next; call != NULL; call = next) {
            next = call->next_completed;
            more = true;
            xcs_call_complete(call);
        }
        for (xcs_grpc_connection *c; (c = xcs_grpc_connection_take_dirty(grpc)) != NULL;) {
            more = true;
            if (xcs_grpc_connection_is_dead(c))
                xcs_grpc_connection_destroy(c);
            else
                xcs_grpc_connection_flush(c);
        }
    }
}

static void handle_event(xcs_grpc *grpc, const struct epoll_event *event)
{
    eventfd_t value;
    if (event->data.ptr == &grpc->listener)
        accept_connections(grpc);
    else if (event->data.ptr == &grpc->event)
        (void)eventfd_read(grpc->event, &value);
    else {
        if ((event->events & EPOLLOUT) != 0)
            xcs_grpc_connection_flush(event->data.ptr);
        if ((event->events & ~(uint32_t)EPOLLOUT) != 0)
            xcs_grpc_connection_read(event->data.ptr);
    }
}

static void stop_listening(xcs_grpc *grpc)
{
    if (grpc->listener >= 0)
        close(grpc->listener);
    grpc->listener = -1;
}

static bool all_are_idle(const xcs_grpc *grpc)
{
    for (const xcs_grpc_connection *c = grpc->connections; c != NULL; c = xcs_grpc_connection_next(c))
        if (!xcs_grpc_connection_is_idle(c))
            return false;
    return true;
}

/* Returns true if the loop has ended: the pool has no call, and the clients have read their responses. */
static bool is_over(xcs_grpc *grpc, uint64_t *until_ns)
{
    if (!__atomic_load_n(&grpc->closing, __ATOMIC_ACQUIRE))
        return false;
    if (*until_ns == 0) {
        stop_listening(grpc);
        visit_connections(grpc, close_connection, NULL);
        serve_changed(grpc, false);
    }
    const uint64_t now = xcvm_clock_ns();
    if (grpc->pending > 0 || *until_ns == 0)
        *until_ns = now + LONGEST_FAREWELL_NS;
    xcs_grpc_wake_at(grpc, *until_ns);
    return grpc->pending == 0 && (all_are_idle(grpc) || now >= *until_ns);
}

static bool probe(void *user)
{
    const xcs_grpc *grpc = user;
    return grpc->expected != NULL && xcs_grpc_connection_probe(grpc->expected);
}

static void handle_events(xcs_grpc *grpc, const struct epoll_event *events, int count)
{
    if (count == XCS_WAIT_PROBED) {
        xcs_grpc_connection_read_probed(grpc->expected);
        return;
    }
    void *source = count == 1 ? events[0].data.ptr : NULL;
    grpc->expected = source != &grpc->listener && source != &grpc->event ? source : NULL;
    for (int i = 0; i < count; i++)
        handle_event(grpc, &events[i]);
}

static void *run_loop(void *argument)
{
    xcs_grpc *grpc = argument;
    uint64_t until_ns = 0;
    if (grpc->options.tls != NULL)
        xcs_tls_block_signal();
    while (!is_over(grpc, &until_ns)) {
        struct epoll_event events[MOST_EVENTS];
        const int count =
            xcs_waiter_wait(&grpc->waiter, grpc->epoll, events, MOST_EVENTS, milliseconds_until(grpc->next_ns));
        handle_events(grpc, events, count);
        look_at_readiness(grpc);
        serve_changed(grpc, count == 1 || count == XCS_WAIT_PROBED);
        look_at_times(grpc);
        serve_changed(grpc, false);
    }
    while (grpc->connections != NULL)
        xcs_grpc_connection_destroy(grpc->connections);
    return NULL;
}

/* ---- Creation and destruction ---- */

static void destroy_grpc(xcs_grpc *grpc)
{
    const xcvm_allocator allocator = grpc->allocator;
    stop_listening(grpc);
    if (grpc->epoll >= 0)
        close(grpc->epoll);
    if (grpc->event >= 0)
        close(grpc->event);
    pthread_mutex_destroy(&grpc->mutex);
    if (grpc->api_key != NULL)
        xcvm_deallocate(&allocator, grpc->api_key, strlen(grpc->api_key) + 1);
    xcvm_deallocate(&allocator, grpc->buffer, XCS_GRPC_BUFFER);
    xcvm_deallocate(&allocator, grpc, sizeof *grpc);
}

static xcvm_status open_grpc(xcs_grpc *grpc, xcvm_error *error)
{
    const xcs_grpc_options *o = &grpc->options;
    if (o->api_key != NULL) {
        const size_t bytes = strlen(o->api_key) + 1;
        grpc->api_key = xcvm_allocate(&grpc->allocator, bytes);
        XCVM_CHECK(error, grpc->api_key != NULL, OUT_OF_MEMORY, "no memory for a gRPC server");
        memcpy(grpc->api_key, o->api_key, bytes);
    }
    grpc->buffer = xcvm_allocate(&grpc->allocator, XCS_GRPC_BUFFER);
    XCVM_CHECK(error, grpc->buffer != NULL, OUT_OF_MEMORY, "no memory for a gRPC server");
    grpc->epoll = epoll_create1(EPOLL_CLOEXEC);
    grpc->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &grpc->event};
    struct epoll_event listener = {.events = EPOLLIN, .data.ptr = &grpc->listener};
    XCVM_CHECK(error,
               grpc->epoll >= 0 && grpc->event >= 0 &&
                   epoll_ctl(grpc->epoll, EPOLL_CTL_ADD, grpc->event, &event) == 0 &&
                   epoll_ctl(grpc->epoll, EPOLL_CTL_ADD, grpc->listener, &listener) == 0,
               OUT_OF_MEMORY, "the system has no descriptor for a gRPC server");
    pthread_mutex_lock(&grpc->mutex); /* the loop sees grpc->thread */
    const int code = pthread_create(&grpc->thread, NULL, run_loop, grpc);
    pthread_mutex_unlock(&grpc->mutex);
    XCVM_CHECK(error, code == 0, OUT_OF_MEMORY, "the system has no thread for a gRPC server");
    return XCVM_OK;
}

static void fill_defaults(xcs_grpc_options *o)
{
    o->address = o->address != NULL ? o->address : "127.0.0.1:8001";
    o->message_limit = o->message_limit != 0 ? o->message_limit : (size_t)64 << 20;
    o->connection_limit = o->connection_limit != 0 ? o->connection_limit : 1000;
    o->stream_limit = o->stream_limit != 0 ? o->stream_limit : 100;
    o->idle_seconds = o->idle_seconds != 0 ? o->idle_seconds : 300;
}

xcvm_status xcs_grpc_create(xcs_server *server, const xcs_grpc_options *options, xcs_grpc **grpc, xcvm_error *error)
{
    xcs_grpc_options o;
    XCVM_TRY(xcvm_options_read(&o, sizeof o, options, error));
    XCVM_CHECK(error, server != NULL && grpc != NULL, INVALID_ARGUMENT, "server or grpc is NULL");
    XCVM_TRY(xcs_http2_load_library(error));
    const xcvm_allocator *allocator = xcvm_allocator_or_default(NULL);
    xcs_grpc *created = xcvm_allocate_zeroed(allocator, sizeof *created);
    XCVM_CHECK(error, created != NULL, OUT_OF_MEMORY, "no memory for a gRPC server");
    fill_defaults(&o);
    created->allocator = *allocator;
    created->server = server;
    created->options = o;
    created->share.limit = xcs_share_limit(o.message_limit);
    created->ready = created->was_ready = true;
    created->epoll = created->event = created->listener = -1;
    created->arrived_end = &created->arrived;
    created->next_ns = UINT64_MAX;
    created->waiter = xcs_waiter_make(o.busy_poll_us);
    created->waiter.probe = (xcs_probe){probe, created};
    created->log = (xcs_log){.sink = o.access_log, .mutex = &created->mutex};
    pthread_mutex_init(&created->mutex, NULL);
    xcvm_status status = xcs_listen_open(o.address, o.socket, o.api_key != NULL || o.insecure, created->address,
                                         sizeof created->address, &created->listener, error);
    if (status != XCVM_OK)
        created->listener = -1;
    else
        status = open_grpc(created, error);
    if (status != XCVM_OK) {
        destroy_grpc(created);
        return status;
    }
    *grpc = created;
    return XCVM_OK;
}

const char *xcs_grpc_address(const xcs_grpc *grpc) { return grpc->address; }

void xcs_grpc_set_ready(xcs_grpc *grpc, bool ready)
{
    __atomic_store_n(&grpc->ready, ready, __ATOMIC_RELEASE);
    (void)eventfd_write(grpc->event, 1);
}

void xcs_grpc_destroy(xcs_grpc *grpc)
{
    if (grpc == NULL)
        return;
    xcs_grpc_set_ready(grpc, false);
    __atomic_store_n(&grpc->closing, true, __ATOMIC_RELEASE);
    (void)eventfd_write(grpc->event, 1);
    pthread_join(grpc->thread, NULL);
    destroy_grpc(grpc);
}

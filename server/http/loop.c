/* The threads of an HTTP server: epoll, accepting, deadlines, and the end. */
#include "server/http/connection.h"

#include "base/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_EVENTS = 64 };

/* How long connections may bring a request after the server began to close, those that brought none yet and others. */
#define FIRST_REQUEST_NS UINT64_C(1000000000)
#define NEXT_REQUEST_NS UINT64_C(100000000)
/* A response that a client does not read, or a request that it does not complete, must not keep the process. */
#define CLOSING_NS UINT64_C(10000000000)
/* How long no connection is accepted after the process had no descriptors left. */
#define NO_DESCRIPTOR_NS UINT64_C(100000000)

static void wake(const xcs_loop *loop)
{
    const uint64_t one = 1;
    /* It fails only if it is about to wake up anyway. */
    if (write(loop->wake, &one, sizeof one) != sizeof one)
        return;
}

/* ---- Connections from other threads ---- */

static void hand_over(xcs_loop *loop, xcs_connection *connection)
{
    xcs_connection *first = __atomic_load_n(&loop->resumed, __ATOMIC_RELAXED);
    do
        connection->next_resumed = first;
    while (!__atomic_compare_exchange_n(&loop->resumed, &first, connection, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
    if (first == NULL)
        wake(loop);
}

void xcs_connection_resume(xcs_connection *connection) { hand_over(connection->loop, connection); }

/* ---- The list ---- */

static void insert(xcs_loop *loop, xcs_connection *c)
{
    c->is_new = false;
    c->before = NULL;
    c->next = loop->first;
    if (c->next != NULL)
        c->next->before = c;
    loop->first = c;
}

static void end_connection(xcs_loop *loop, xcs_connection *c)
{
    *(c->before != NULL ? &c->before->next : &loop->first) = c->next;
    if (c->next != NULL)
        c->next->before = c->before;
    if (loop->expected == c)
        loop->expected = NULL;
    xcs_connection_destroy(c);
    __atomic_sub_fetch(&loop->count, 1, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&loop->http->connections, 1, __ATOMIC_RELAXED);
}

/* While the server closes, connections that have no request get a deadline. */
static void hurry(const xcs_loop *loop, xcs_connection *c, uint64_t now)
{
    if (loop->closing_ns == 0 || c->state == XCS_WAITS)
        return;
    const bool is_idle = c->state == XCS_READS_HEAD && c->in == NULL;
    const uint64_t until = !is_idle      ? loop->closing_ns + CLOSING_NS
                           : c->served   ? loop->closing_ns + NEXT_REQUEST_NS
                           : c->is_admin ? now
                                         : loop->closing_ns + FIRST_REQUEST_NS;
    c->deadline_ns = c->deadline_ns < until ? c->deadline_ns : until;
}

static void keep_or_end(xcs_loop *loop, xcs_connection *c, bool alive, uint64_t now)
{
    if (!alive) {
        end_connection(loop, c);
        return;
    }
    hurry(loop, c, now);
    if (c->deadline_ns < loop->until_ns)
        loop->until_ns = c->deadline_ns;
}

/* ---- Accepting ---- */

static bool set_listening(xcs_loop *loop, int index, bool listens)
{
    const int fd = loop->http->sockets[index];
    struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data.u64 = (uint64_t)index + 1};
    if (fd < 0 || loop->listens[index] == listens)
        return true;
    loop->listens[index] = listens;
    return epoll_ctl(loop->epoll, listens ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &event) == 0;
}

/* The thread with the fewest connections. */
static xcs_loop *least_busy(xcs_loop *loop)
{
    xcs_http *http = loop->http;
    size_t least = __atomic_load_n(&loop->count, __ATOMIC_RELAXED);
    for (size_t i = 0; i < http->loop_count; i++) {
        const size_t count = __atomic_load_n(&http->loops[i].count, __ATOMIC_RELAXED);
        if (count < least) {
            least = count;
            loop = &http->loops[i];
        }
    }
    return loop;
}

/* Accepts a connection. Returns false if there is none, or no descriptor for it (errno). */
static bool accept_one(xcs_loop *loop, int index)
{
    xcs_http *http = loop->http;
    const int fd = accept4(http->sockets[index], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        return errno == ECONNABORTED || errno == EINTR;
    }
    if (__atomic_add_fetch(&http->connections, 1, __ATOMIC_RELAXED) > http->options.connection_limit) {
        static const char full[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
                                   "Content-Length: 42\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
                                   "{\"error\":\"too many connections are open\"}\n";
        if (http->options.tls == NULL)
            (void)!send(fd, full, sizeof full - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        close(fd);
        __atomic_sub_fetch(&http->connections, 1, __ATOMIC_RELAXED);
        return true;
    }
    const int one = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    xcs_loop *to = least_busy(loop);
    xcs_connection *c = xcs_connection_create(to, fd, index == 1);
    if (c == NULL) {
        __atomic_sub_fetch(&http->connections, 1, __ATOMIC_RELAXED);
        return true;
    }
    __atomic_add_fetch(&to->count, 1, __ATOMIC_RELAXED);
    hand_over(to, c);
    return true;
}

static void accept_or_pause(xcs_loop *loop, int index, uint64_t now)
{
    if (accept_one(loop, index) || (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM))
        return;
    loop->listen_again_ns = now + NO_DESCRIPTOR_NS;
    loop->until_ns = loop->listen_again_ns < loop->until_ns ? loop->listen_again_ns : loop->until_ns;
    (void)set_listening(loop, index, false);
}

/* ---- Turns of a thread ---- */

static void handle_resumed(xcs_loop *loop, uint64_t now)
{
    for (xcs_connection *c = __atomic_exchange_n(&loop->resumed, NULL, __ATOMIC_ACQ_REL), *next; c != NULL; c = next) {
        next = c->next_resumed;
        bool alive = true;
        if (c->is_new) {
            insert(loop, c);
            xcs_connection_begin(c, now);
            struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
            c->events = event.events;
            alive = epoll_ctl(loop->epoll, EPOLL_CTL_ADD, c->fd, &event) == 0;
        } else {
            alive = xcs_connection_continue(c, now);
        }
        keep_or_end(loop, c, alive, now);
    }
}

/* Looks at all deadlines. */
static void handle_deadlines(xcs_loop *loop, uint64_t now)
{
    loop->until_ns = UINT64_MAX;
    if (loop->listen_again_ns != 0 && loop->listen_again_ns <= now && loop->closing_ns == 0) {
        loop->listen_again_ns = 0;
        (void)set_listening(loop, 0, true);
        (void)set_listening(loop, 1, true);
    }
    for (xcs_connection *c = loop->first, *next; c != NULL; c = next) {
        next = c->next;
        keep_or_end(loop, c, c->deadline_ns > now || xcs_connection_expire(c, now), now);
    }
    if (loop->listen_again_ns != 0 && loop->listen_again_ns < loop->until_ns)
        loop->until_ns = loop->listen_again_ns;
}

/* From now on the connections of the backlog are those of xcs_loops_destroy. */
static void begin_closing(xcs_loop *loop, uint64_t now)
{
    loop->closing_ns = now;
    for (int i = 0; i < 2; i++)
        (void)set_listening(loop, i, false);
    loop->until_ns = now;
    __atomic_add_fetch(&loop->http->deaf_loops, 1, __ATOMIC_RELEASE);
}

/* True if the server is closed and no connection is left. */
static bool has_ended(const xcs_loop *loop)
{
    return loop->closing_ns != 0 && __atomic_load_n(&loop->http->closed, __ATOMIC_ACQUIRE) &&
           __atomic_load_n(&loop->count, __ATOMIC_RELAXED) == 0;
}

/* Milliseconds for epoll, rounded up. */
static int time_left(const xcs_loop *loop, uint64_t now)
{
    if (loop->until_ns == UINT64_MAX)
        return -1;
    const uint64_t left_ms = loop->until_ns > now ? (loop->until_ns - now + 999999) / 1000000 : 0;
    return left_ms < 60000 ? (int)left_ms : 60000;
}

static void handle_event(xcs_loop *loop, const struct epoll_event *event, uint64_t now)
{
    if (event->data.u64 == 0) {
        uint64_t count;
        (void)!read(loop->wake, &count, sizeof count);
    } else if (event->data.u64 <= 2) {
        accept_or_pause(loop, (int)event->data.u64 - 1, now);
    } else {
        xcs_connection *c = event->data.ptr;
        keep_or_end(loop, c, xcs_connection_handle(c, event->events, now), now);
    }
}

static bool probe(void *user)
{
    const xcs_loop *loop = user;
    return loop->expected != NULL && xcs_connection_probe(loop->expected);
}

static void handle_events(xcs_loop *loop, const struct epoll_event *events, int count, uint64_t now)
{
    if (count == XCS_WAIT_PROBED) {
        xcs_connection *c = loop->expected;
        keep_or_end(loop, c, xcs_connection_handle_probed(c, now), now);
        return;
    }
    loop->expected = count == 1 && events[0].data.u64 > 2 ? events[0].data.ptr : NULL;
    for (int i = 0; i < count; i++) {
        loop->more_ready = i + 1 < count;
        handle_event(loop, &events[i], now);
    }
    loop->more_ready = false;
}

static void *serve(void *argument)
{
    xcs_loop *loop = argument;
    struct epoll_event events[MOST_EVENTS];
    uint64_t now = xcvm_clock_ns();
    if (loop->http->options.tls != NULL)
        xcs_tls_block_signal();
    while (!has_ended(loop)) {
        const int count = xcs_waiter_wait(&loop->waiter, loop->epoll, events, MOST_EVENTS, time_left(loop, now));
        now = xcvm_clock_ns();
        handle_events(loop, events, count, now);
        if (__atomic_load_n(&loop->resumed, __ATOMIC_RELAXED) != NULL)
            handle_resumed(loop, now);
        if (loop->closing_ns == 0 && __atomic_load_n(&loop->http->closing, __ATOMIC_ACQUIRE))
            begin_closing(loop, now);
        if (loop->until_ns <= now)
            handle_deadlines(loop, now);
    }
    return NULL;
}

/* ---- Start and stop ---- */

static xcvm_status create_loop(xcs_http *http, xcs_loop *loop, xcvm_error *error)
{
    *loop = (xcs_loop){.http = http, .until_ns = UINT64_MAX, .date_s = -1};
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->waiter = xcs_waiter_make(http->options.busy_poll_us);
    loop->waiter.probe = (xcs_probe){probe, loop};
    http->loop_count++;
    struct epoll_event event = {.events = EPOLLIN};
    XCVM_CHECK(error,
               loop->epoll >= 0 && loop->wake >= 0 && epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->wake, &event) == 0 &&
                   set_listening(loop, 0, true) && set_listening(loop, 1, true),
               OUT_OF_MEMORY, "the system has no descriptors for the threads of the HTTP server");
    return XCVM_OK;
}

xcvm_status xcs_loops_create(xcs_http *http, xcvm_error *error)
{
    const size_t wanted = (size_t)http->options.threads;
    http->loops = xcvm_allocate_zeroed(&http->allocator, wanted * sizeof *http->loops);
    XCVM_CHECK(error, http->loops != NULL, OUT_OF_MEMORY, "no memory for %zu threads", wanted);
    for (size_t i = 0; i < wanted; i++)
        XCVM_TRY(create_loop(http, &http->loops[i], error));
    for (size_t i = 0; i < wanted; i++) {
        xcs_loop *loop = &http->loops[i];
        loop->has_thread = pthread_create(&loop->thread, NULL, serve, loop) == 0;
        XCVM_CHECK(error, loop->has_thread, OUT_OF_MEMORY, "the system has no thread for the HTTP server");
    }
    return XCVM_OK;
}

static size_t count_threads(const xcs_http *http)
{
    size_t count = 0;
    for (size_t i = 0; i < http->loop_count; i++)
        count += http->loops[i].has_thread;
    return count;
}

/* Hands the connections of the backlog to the threads and closes the sockets at once, so that no connection begins in
 * between, which would be reset. */
static void close_sockets(xcs_http *http)
{
    const size_t threads = count_threads(http);
    const struct timespec pause = {.tv_nsec = 100000};
    while (__atomic_load_n(&http->deaf_loops, __ATOMIC_ACQUIRE) < threads)
        nanosleep(&pause, NULL);
    for (int i = 0; i < 2; i++) {
        while (http->sockets[i] >= 0 && threads > 0 && accept_one(&http->loops[0], i))
            continue;
        if (http->sockets[i] >= 0)
            close(http->sockets[i]);
        http->sockets[i] = -1;
    }
    __atomic_store_n(&http->closed, true, __ATOMIC_RELEASE);
}

static void wake_all(const xcs_http *http)
{
    for (size_t i = 0; i < http->loop_count; i++)
        wake(&http->loops[i]);
}

void xcs_loops_destroy(xcs_http *http)
{
    __atomic_store_n(&http->closing, true, __ATOMIC_RELEASE);
    wake_all(http);
    close_sockets(http);
    wake_all(http);
    for (size_t i = 0; i < http->loop_count; i++)
        if (http->loops[i].has_thread)
            pthread_join(http->loops[i].thread, NULL);
    for (size_t i = 0; i < http->loop_count; i++) {
        xcs_loop *loop = &http->loops[i];
        xcvm_deallocate(&http->allocator, loop->spare, XCS_IN_BYTES);
        xcs_infer_memo_free(&loop->memo);
        if (loop->epoll >= 0)
            close(loop->epoll);
        if (loop->wake >= 0)
            close(loop->wake);
    }
    if (http->loops != NULL)
        xcvm_deallocate(&http->allocator, http->loops, (size_t)http->options.threads * sizeof *http->loops);
}

const char *xcs_loop_date(xcs_loop *loop)
{
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"},
                      months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    struct timespec now;
    struct tm utc;
    if (clock_gettime(CLOCK_REALTIME_COARSE, &now) != 0 || now.tv_sec == loop->date_s ||
        gmtime_r(&now.tv_sec, &utc) == NULL)
        return loop->date;
    loop->date_s = now.tv_sec;
    snprintf(loop->date, sizeof loop->date, "Date: %s, %02d %s %04d %02d:%02d:%02d GMT\r\n", days[utc.tm_wday],
             utc.tm_mday, months[utc.tm_mon], (utc.tm_year + 1900) % 10000, utc.tm_hour, utc.tm_min, utc.tm_sec);
    return loop->date;
}

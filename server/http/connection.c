/* The states of a connection: head, body, wait, response, and again. */
#include "server/http/connection.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* A client that needs longer to send a body is cut off. */
#define BODY_NS UINT64_C(120000000000)
#define DISCARD_NS UINT64_C(2000000000)
/* So is one that needs longer for the handshake of TLS. */
#define HANDSHAKE_NS UINT64_C(10000000000)

/* The last run of a turn begins this long after the first at most, so that a client that sends many requests at once
 * does not hold up other connections. */
#define RUN_HERE_NS UINT64_C(200000)

static const xcvm_allocator *allocator_of(const xcs_connection *c) { return &c->loop->http->allocator; }

/* ---- Life ---- */

xcs_connection *xcs_connection_create(xcs_loop *loop, int fd, bool is_admin)
{
    xcs_connection *created = xcvm_allocate_zeroed(&loop->http->allocator, sizeof *created);
    if (created == NULL) {
        close(fd);
        return NULL;
    }
    created->loop = loop;
    created->fd = fd;
    created->is_admin = is_admin;
    created->is_new = true;
    if (is_admin || loop->http->options.tls == NULL)
        return created;
    created->tls = xcs_tls_open(loop->http->options.tls, fd, "http/1.1");
    if (created->tls != NULL)
        return created;
    xcvm_deallocate(&loop->http->allocator, created, sizeof *created);
    close(fd);
    return NULL;
}

static void release_buffer(xcs_connection *c)
{
    if (c->in != NULL && c->loop->spare == NULL)
        c->loop->spare = c->in;
    else
        xcvm_deallocate(allocator_of(c), c->in, XCS_IN_BYTES);
    c->in = NULL;
    c->begin = c->end = c->scanned = 0;
}

void xcs_connection_destroy(xcs_connection *connection)
{
    if (connection->exchange != NULL)
        xcs_exchange_destroy(connection->exchange, false);
    release_buffer(connection);
    xcs_tls_close(connection->tls);
    close(connection->fd);
    xcvm_deallocate(allocator_of(connection), connection, sizeof *connection);
}

/* ---- Deadlines and events ---- */

static uint64_t idle_end(const xcs_connection *c, uint64_t now)
{
    return now + (uint64_t)c->loop->http->options.idle_seconds * 1000000000;
}

static void set_deadline(xcs_connection *c, uint64_t when)
{
    c->deadline_ns = when;
    if (when < c->loop->until_ns)
        c->loop->until_ns = when;
}

/* Registers for events. Without any, not even the end of the connection is told. */
static bool listen_for(xcs_connection *c, uint32_t events)
{
    if (c->events == events)
        return true;
    struct epoll_event event = {.events = events, .data.ptr = c};
    const int action = events == 0 ? EPOLL_CTL_DEL : c->events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    c->events = events;
    return epoll_ctl(c->loop->epoll, action, c->fd, &event) == 0;
}

void xcs_connection_begin(xcs_connection *connection, uint64_t now)
{
    set_deadline(connection, connection->tls != NULL ? now + HANDSHAKE_NS : idle_end(connection, now));
}

/* ---- Responses ---- */

/* Sends bytes of two texts. Returns like send. */
static ssize_t send_parts(const xcs_connection *c, const struct iovec *parts)
{
    /* With TLS, what fits becomes one record, which a repeated call makes anew. */
    char record[4096];
    if (c->tls == NULL) {
        const bool only_second = parts[0].iov_len == 0;
        const struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts + only_second,
                                       .msg_iovlen = 1 + (size_t)(!only_second && parts[1].iov_len > 0)};
        return sendmsg(c->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (parts[0].iov_len == 0)
        return xcs_tls_send(c->tls, parts[1].iov_base, parts[1].iov_len);
    const size_t room = sizeof record - parts[0].iov_len;
    const size_t second = parts[1].iov_len < room ? parts[1].iov_len : room;
    memcpy(record, parts[0].iov_base, parts[0].iov_len);
    if (second > 0)
        memcpy(record + parts[0].iov_len, parts[1].iov_base, second);
    return xcs_tls_send(c->tls, record, parts[0].iov_len + second);
}

/* Sends the head and the text. Returns false if the connection has ended; otherwise c->sent tells how much was sent. */
static bool send_some(xcs_connection *c, const char *text, size_t count)
{
    while (c->sent < c->out_count + count) {
        const size_t head = c->sent < c->out_count ? c->sent : c->out_count, of_text = c->sent - head;
        const struct iovec parts[2] = {{c->out + head, c->out_count - head},
                                       {(char *)(uintptr_t)text + of_text, count - of_text}};
        const ssize_t sent = send_parts(c, parts);
        if (sent < 0)
            return errno == EAGAIN || errno == EINTR;
        c->sent += (size_t)sent;
    }
    return true;
}

/* Ends the connection after the client has read what was sent. */
static bool begin_discarding(xcs_connection *c, uint64_t now)
{
    if (c->has_left || shutdown(c->fd, SHUT_WR) != 0)
        return false;
    c->state = XCS_DISCARDS;
    set_deadline(c, now + DISCARD_NS);
    return listen_for(c, EPOLLIN | EPOLLRDHUP);
}

/* The end of a response: the connection ends, or reads the next request. */
static bool end_response(xcs_connection *c, uint64_t now)
{
    xcs_exchange_destroy(c->exchange, true);
    c->exchange = NULL;
    c->served = true;
    if (!c->keep_alive) {
        if (c->tls != NULL && !c->has_left)
            xcs_tls_end(c->tls);
        return begin_discarding(c, now);
    }
    c->state = XCS_READS_HEAD;
    set_deadline(c, idle_end(c, now));
    return true;
}

static bool write_response(xcs_connection *c, uint64_t now)
{
    const xcs_text *text = &c->exchange->response;
    const size_t count = strcmp(c->exchange->method, "HEAD") == 0 ? 0 : text->count;
    if (!send_some(c, text->at, count))
        return false;
    if (c->sent < c->out_count + count) {
        set_deadline(c, idle_end(c, now));
        return listen_for(c, EPOLLOUT);
    }
    return end_response(c, now);
}

static bool begin_response(xcs_connection *c, uint64_t now)
{
    xcs_http *http = c->loop->http;
    xcs_exchange_respond(c->exchange);
    if (!__atomic_load_n(&http->ready, __ATOMIC_RELAXED) || c->loop->closing_ns != 0)
        c->keep_alive = false;
    c->state = XCS_WRITES;
    c->sent = 0;
    c->out_count = xcs_response_head(c, c->out);
    return write_response(c, now);
}

/* Answers what is not a request. */
static bool refuse(xcs_connection *c, int status, const char *message, uint64_t now)
{
    c->keep_alive = false;
    if (c->exchange == NULL) {
        c->head = (xcs_head){.method = "", .path = ""};
        c->exchange = xcs_exchange_create(c->loop->http, c, &c->head, c->is_admin);
        if (c->exchange == NULL)
            return false;
    }
    xcs_exchange_fail(c->exchange, status, message);
    return begin_response(c, now);
}

/* ---- Requests ---- */

static const char *message_of(int status)
{
    switch (status) {
    case 414:
        return "the path is too long";
    case 417:
        return "the expectation is not supported";
    case 431:
        return "the head of the request is too long, or has too many fields";
    case 501:
        return "the transfer encoding is not supported; expected \"chunked\"";
    case 505:
        return "the version of HTTP is not supported; expected HTTP/1.1";
    default:
        return "the request is not valid HTTP";
    }
}

static bool handle_request(xcs_connection *c, uint64_t now)
{
    c->deadline_ns = UINT64_MAX;
    c->exchange->may_run_here = !c->loop->more_ready && xcvm_clock_ns() - now < RUN_HERE_NS;
    c->exchange->memo = &c->loop->memo;
    if (xcs_exchange_process(c->exchange))
        return begin_response(c, now);
    c->state = XCS_WAITS;
    return true;
}

/* Removes the empty lines that some clients send after a body. */
static void skip_empty_lines(xcs_connection *c)
{
    while (c->end - c->begin >= 2 && c->in[c->begin] == '\r' && c->in[c->begin + 1] == '\n')
        c->begin += 2;
}

/* Moves the bytes to the start, so that a head and a part of its body have room. */
static void compact(xcs_connection *c)
{
    if (c->begin == 0)
        return;
    memmove(c->in, c->in + c->begin, c->end - c->begin);
    c->end -= c->begin;
    c->begin = 0;
}

/* Returns false if the connection has ended. Sets *more if the bytes that are there may be enough for the next state.
 */
static bool read_head(xcs_connection *c, uint64_t now, bool *more)
{
    skip_empty_lines(c);
    if (c->begin == c->end) {
        release_buffer(c);
        return listen_for(c, EPOLLIN | EPOLLRDHUP);
    }
    compact(c);
    const int status = xcs_head_parse(c->in, c->end, &c->scanned, &c->head);
    if (status == 0)
        return listen_for(c, EPOLLIN | EPOLLRDHUP);
    c->scanned = 0;
    if (status != 200)
        return refuse(c, status, message_of(status), now);
    c->begin = c->head.length;
    c->keep_alive = c->head.keep_alive;
    c->exchange = xcs_exchange_create(c->loop->http, c, &c->head, c->is_admin);
    if (c->exchange == NULL)
        return false;
    if (xcs_exchange_is_refused(c->exchange)) {
        c->keep_alive = false;
        return begin_response(c, now);
    }
    c->state = XCS_READS_BODY;
    c->body_left = c->head.content_length;
    c->chunks = (xcs_chunks){0};
    c->body_until_ns = now + BODY_NS;
    *more = true;
    if (c->head.expects_continue && c->begin == c->end && (c->head.chunked || c->body_left > 0)) {
        static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
        const struct iovec parts[2] = {{(char *)(uintptr_t)interim, sizeof interim - 1}, {NULL, 0}};
        return send_parts(c, parts) == sizeof interim - 1;
    }
    return true;
}

/* Uses the bytes of the body that are there. Returns the status of an error, or 0; *complete tells if it is complete.
 */
static int take_body(xcs_connection *c, bool *complete)
{
    const char *data;
    size_t length;
    if (!c->head.chunked) {
        length = c->body_left < c->end - c->begin ? (size_t)c->body_left : c->end - c->begin;
        *complete = c->body_left == length;
        if (*complete && length == c->head.content_length) { /* without a copy */
            xcs_exchange_lend_body(c->exchange, c->in + c->begin, length);
            c->begin += length;
            c->body_left = 0;
            return 0;
        }
        const bool accepted = length == 0 || xcs_exchange_receive(c->exchange, c->in + c->begin, length);
        c->begin += length;
        c->body_left -= length;
        return accepted ? 0 : 413;
    }
    const char *at = c->in + c->begin;
    xcs_chunks_result result;
    while ((result = xcs_chunks_read(&c->chunks, &at, c->in + c->end, &data, &length)) == XCS_CHUNKS_DATA)
        if (!xcs_exchange_receive(c->exchange, data, length))
            return 413;
    c->begin = (size_t)(at - c->in);
    *complete = result == XCS_CHUNKS_END;
    return result == XCS_CHUNKS_INVALID ? 400 : 0;
}

static bool read_body(xcs_connection *c, uint64_t now, bool *more)
{
    bool complete = false;
    const int status = take_body(c, &complete);
    if (status == 413) { /* the exchange has the message */
        c->keep_alive = false;
        return begin_response(c, now);
    }
    if (status != 0)
        return refuse(c, status, "the chunked body is not valid", now);
    if (complete) {
        *more = true;
        return handle_request(c, now);
    }
    /* The head stays where it is, for its fields. */
    c->begin = c->end = c->head.length;
    const uint64_t idle = idle_end(c, now);
    set_deadline(c, idle < c->body_until_ns ? idle : c->body_until_ns);
    return listen_for(c, EPOLLIN | EPOLLRDHUP);
}

/* Goes through the states until there is nothing to do. */
static bool advance(xcs_connection *c, uint64_t now)
{
    bool alive = true, more = true;
    while (alive && more) {
        more = false;
        if (c->state == XCS_READS_HEAD)
            alive = read_head(c, now, &more);
        else if (c->state == XCS_READS_BODY)
            alive = read_body(c, now, &more);
    }
    return alive;
}

/* ---- Events ---- */

/* A client of HTTP at a port with TLS reads why it gets no answer. */
static bool refuse_plain(xcs_connection *c, uint64_t now)
{
    static const char text[] = "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n"
                               "Content-Length: 51\r\nConnection: close\r\n\r\n"
                               "{\"error\":\"this port expects TLS. Use https://...\"}\n";
    if (send(c->fd, text, sizeof text - 1, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof text - 1)
        return false;
    return begin_discarding(c, now);
}

/* Reads once. Returns the number of bytes, 0 at the end of the connection, or -1 if there are none. */
static ssize_t receive(xcs_connection *c, char *to, size_t room, uint64_t now)
{
    const ssize_t got = c->tls != NULL ? xcs_tls_receive(c->tls, to, room) : recv(c->fd, to, room, MSG_DONTWAIT);
    if (c->tls != NULL && !c->is_secure && xcs_tls_is_secure(c->tls)) {
        c->is_secure = true;
        set_deadline(c, idle_end(c, now));
    }
    return got < 0 && errno != EAGAIN && errno != EINTR ? 0 : got;
}

static bool take_buffer(xcs_connection *c)
{
    if (c->in != NULL)
        return true;
    c->in = c->loop->spare != NULL ? c->loop->spare : xcvm_allocate(allocator_of(c), XCS_IN_BYTES);
    c->loop->spare = NULL;
    return c->in != NULL;
}

static bool handle_input(xcs_connection *c, uint64_t now)
{
    if (!take_buffer(c))
        return false;
    /* A long body is read to where it stays. */
    const bool direct = c->state == XCS_READS_BODY && !c->head.chunked && c->body_left > XCS_IN_BYTES;
    size_t room = direct ? (size_t)c->body_left : 0;
    char *to = direct ? xcs_exchange_room(c->exchange, &room) : NULL;
    const bool in_place = to != NULL;
    if (!in_place) {
        to = c->in + c->end;
        room = XCS_IN_BYTES - c->end;
    }
    const bool begins = c->state == XCS_READS_HEAD && c->end == 0;
    const ssize_t got = receive(c, to, room, now);
    if (got <= 0) {
        if (got < 0 && begins)
            release_buffer(c);
        if (got == 0 && c->tls != NULL && xcs_tls_is_plain(c->tls))
            return refuse_plain(c, now);
        return got < 0 && (c->tls == NULL || listen_for(c, EPOLLIN | EPOLLRDHUP |
                                                               (xcs_tls_waits_write(c->tls) ? (uint32_t)EPOLLOUT : 0)));
    }
    if (in_place) {
        xcs_exchange_count_received(c->exchange, (size_t)got);
        c->body_left -= (size_t)got;
    } else {
        c->end += (size_t)got;
    }
    if (begins)
        set_deadline(c, idle_end(c, now)); /* for the whole head */
    return advance(c, now);
}

/* Input of no interest. */
static bool discard(xcs_connection *c)
{
    char bytes[4096];
    for (int i = 0; i < 16; i++) {
        const ssize_t got = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got <= 0)
            return got < 0 && (errno == EAGAIN || errno == EINTR);
    }
    return true;
}

/* Handles what TLS has received already, which epoll does not report. */
static bool handle_pending(xcs_connection *c, bool alive, uint64_t now)
{
    while (alive && c->tls != NULL && (c->state == XCS_READS_HEAD || c->state == XCS_READS_BODY) &&
           xcs_tls_is_pending(c->tls))
        alive = handle_input(c, now);
    return alive;
}

bool xcs_connection_handle(xcs_connection *connection, uint32_t events, uint64_t now)
{
    xcs_connection *c = connection;
    switch (c->state) {
    case XCS_READS_HEAD:
    case XCS_READS_BODY:
        return handle_pending(c, handle_input(c, now), now);
    case XCS_WAITS:
        if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0)
            return listen_for(c, EPOLLRDHUP); /* the next request waits in the socket */
        c->has_left = true;
        c->keep_alive = false;
        (void)listen_for(c, 0);
        xcs_exchange_leave(c->exchange);
        return true; /* destroyed after the request */
    case XCS_WRITES:
        return (events & (EPOLLHUP | EPOLLERR)) == 0 &&
               handle_pending(c, write_response(c, now) && advance(c, now), now);
    case XCS_DISCARDS:
        return discard(c);
    }
    return false;
}

bool xcs_connection_probe(xcs_connection *connection)
{
    xcs_connection *c = connection;
    if (c->state != XCS_READS_HEAD || c->in != NULL || c->tls != NULL || !take_buffer(c))
        return false;
    c->probed = recv(c->fd, c->in, XCS_IN_BYTES, MSG_DONTWAIT);
    if (c->probed >= 0 || (errno != EAGAIN && errno != EINTR))
        return true;
    release_buffer(c);
    return false;
}

bool xcs_connection_handle_probed(xcs_connection *connection, uint64_t now)
{
    xcs_connection *c = connection;
    if (c->probed <= 0)
        return false;
    c->end = (size_t)c->probed;
    set_deadline(c, idle_end(c, now));
    return advance(c, now);
}

bool xcs_connection_continue(xcs_connection *connection, uint64_t now)
{
    return handle_pending(connection, begin_response(connection, now) && advance(connection, now), now);
}

bool xcs_connection_expire(xcs_connection *connection, uint64_t now)
{
    xcs_connection *c = connection;
    const bool begun = c->state == XCS_READS_BODY || (c->state == XCS_READS_HEAD && c->in != NULL && c->end > 0);
    if (!begun)
        return c->state == XCS_WAITS;
    return refuse(c, 408, "the request did not arrive in time", now);
}

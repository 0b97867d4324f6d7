/* Input and output of connections. */
#include "server/grpc/socket.h"

#include "base/clock.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

bool xcs_socket_open(xcs_socket *socket, const xcvm_allocator *allocator, int epoll, int descriptor, xcs_tls *tls,
                     void *data)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = data};
    *socket = (xcs_socket){.epoll = epoll,
                           .descriptor = descriptor,
                           .data = data,
                           .tls = tls != NULL ? xcs_tls_open(tls, descriptor, "h2") : NULL,
                           .unsent.allocator = allocator,
                           .active_ns = xcvm_clock_ns()};
    if ((tls == NULL || socket->tls != NULL) && epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0)
        return true;
    xcs_socket_close(socket);
    return false;
}

void xcs_socket_close(xcs_socket *socket)
{
    xcs_tls_close(socket->tls);
    close(socket->descriptor);
    xcs_text_free(&socket->unsent);
}

ssize_t xcs_socket_receive(xcs_socket *s, void *to, size_t room)
{
    const ssize_t got = s->tls != NULL ? xcs_tls_receive(s->tls, to, room) : recv(s->descriptor, to, room, 0);
    if (got > 0)
        s->active_ns = xcvm_clock_ns();
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
        s->has_failed = true;
    return got;
}

bool xcs_socket_is_pending(const xcs_socket *s) { return s->tls != NULL && xcs_tls_is_pending(s->tls); }

/* Sends bytes until the socket takes no more. Returns their number. */
static size_t send_some(xcs_socket *s, const char *bytes, size_t count)
{
    size_t done = 0;
    while (done < count) {
        const ssize_t sent = s->tls != NULL ? xcs_tls_send(s->tls, bytes + done, count - done)
                                            : send(s->descriptor, bytes + done, count - done, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0) {
            s->has_failed = s->has_failed || errno != EAGAIN;
            break;
        }
        s->active_ns = xcvm_clock_ns();
        done += (size_t)sent;
    }
    return done;
}

void xcs_socket_keep(xcs_socket *s, const void *bytes, size_t count)
{
    xcs_text_add(&s->unsent, bytes, count);
    s->has_failed = s->has_failed || s->unsent.failed;
}

bool xcs_socket_send(xcs_socket *s, const char *bytes, size_t count)
{
    const size_t sent = send_some(s, bytes, count);
    if (sent < count)
        xcs_socket_keep(s, bytes + sent, count - sent);
    return sent == count;
}

bool xcs_socket_flush(xcs_socket *s)
{
    const size_t count = s->unsent.count - s->unsent_at;
    if (count == 0)
        return true;
    s->unsent_at += send_some(s, s->unsent.at + s->unsent_at, count);
    if (s->unsent_at < s->unsent.count)
        return false;
    xcs_text_free(&s->unsent);
    s->unsent_at = 0;
    return true;
}

void xcs_socket_choose_events(xcs_socket *s, bool is_blocked)
{
    /* During the handshake of TLS, output may wait for input. */
    const bool waits_write = s->tls != NULL ? xcs_tls_waits_write(s->tls) : is_blocked;
    struct epoll_event event = {.events = waits_write ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = s->data};
    if (s->waits_write == waits_write)
        return;
    s->waits_write = waits_write;
    s->has_failed = s->has_failed || epoll_ctl(s->epoll, EPOLL_CTL_MOD, s->descriptor, &event) != 0;
}

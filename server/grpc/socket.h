/* The socket of a connection, with or without TLS, and the bytes that it has not taken yet. */
#ifndef XCVM_SERVER_GRPC_SOCKET_H
#define XCVM_SERVER_GRPC_SOCKET_H

#include "server/common/tls.h"
#include "server/json/text.h"

#include <stdint.h>

typedef struct xcs_socket {
    int epoll, descriptor;
    void *data;           /* of its events */
    xcs_tls_channel *tls; /* NULL: without TLS */
    xcs_text unsent;
    size_t unsent_at;
    bool waits_write; /* epoll reports when it can be written */
    bool has_failed;
    uint64_t active_ns; /* when bytes were received or sent last */
} xcs_socket;

/* Takes the descriptor over and waits for input. `tls` may be NULL. Returns false, with the descriptor closed, if there
 * is no memory. */
bool xcs_socket_open(xcs_socket *socket, const xcvm_allocator *allocator, int epoll, int descriptor, xcs_tls *tls,
                     void *data);
void xcs_socket_close(xcs_socket *socket);
/* Like recv without waiting. Sets has_failed at the end of the connection. */
ssize_t xcs_socket_receive(xcs_socket *socket, void *to, size_t room);
/* Returns true if bytes are left that were received already, which epoll does not report. */
bool xcs_socket_is_pending(const xcs_socket *socket);
/* Sends bytes, and keeps those that the socket does not take. Returns false if there are some. */
bool xcs_socket_send(xcs_socket *socket, const char *bytes, size_t count);
/* Keeps bytes that are to be sent after the others. */
void xcs_socket_keep(xcs_socket *socket, const void *bytes, size_t count);
/* Sends the bytes that were kept. Returns false if some are left. */
bool xcs_socket_flush(xcs_socket *socket);
/* Makes epoll report when more can be sent, if `is_blocked`. */
void xcs_socket_choose_events(xcs_socket *socket, bool is_blocked);

#endif

/* TLS connections on non-blocking sockets. */
#ifndef XCVM_SERVER_COMMON_TLS_H
#define XCVM_SERVER_COMMON_TLS_H

#include "xcvm/server_tls.h"

#include <sys/types.h>

/* The end of one connection. A thread uses it at a time. */
typedef struct xcs_tls_channel xcs_tls_channel;

/* Begins a connection of the protocol "h2" or "http/1.1", which its client may select by ALPN. The socket stays the
 * caller's. Returns NULL if there is no memory. */
xcs_tls_channel *xcs_tls_open(xcs_tls *tls, int descriptor, const char *protocol);
/* Tells the client that the connection ends, if that is possible, and releases the channel. */
void xcs_tls_close(xcs_tls_channel *channel);
/* Tells the client that nothing more will be sent. */
void xcs_tls_end(xcs_tls_channel *channel);
/* Like recv without waiting: returns -1 with errno EAGAIN if there is nothing, and 0 at the end of the connection.
 * Returns only what was received already, if there is any. Otherwise it reads until the room is full or the socket is
 * empty. A loop while xcs_tls_is_pending therefore ends, even if the client sends without pause. */
ssize_t xcs_tls_receive(xcs_tls_channel *channel, void *to, size_t room);
/* Like send without waiting. A caller that repeats a call after EAGAIN must begin with the same bytes, and at least as
 * many. */
ssize_t xcs_tls_send(xcs_tls_channel *channel, const void *bytes, size_t count);
/* Returns true if bytes are left that were received already, which epoll does not report. */
bool xcs_tls_is_pending(const xcs_tls_channel *channel);
/* Returns true if the last call that failed with EAGAIN waits until the socket can be written. */
bool xcs_tls_waits_write(const xcs_tls_channel *channel);
/* Returns true if the client and the server have agreed on keys. */
bool xcs_tls_is_secure(const xcs_tls_channel *channel);
/* Returns true if the client has sent a request without TLS. */
bool xcs_tls_is_plain(const xcs_tls_channel *channel);
/* Blocks SIGPIPE for the calling thread, because the library writes to sockets without MSG_NOSIGNAL. */
void xcs_tls_block_signal(void);

#endif

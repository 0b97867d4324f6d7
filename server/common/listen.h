/* Listening sockets. */
#ifndef XCVM_SERVER_COMMON_LISTEN_H
#define XCVM_SERVER_COMMON_LISTEN_H

#include "base/status.h"

/* Opens a listening socket at "HOST:PORT", "[IPv6]:PORT" or "unix:PATH". */
xcvm_status xcs_listen(const char *address, int *descriptor, xcvm_error *error);
/* Writes the address of a listening socket, with its port, to `text`. *loopback tells if only this machine can connect.
 */
xcvm_status xcs_listen_address(int descriptor, char *text, size_t size, bool *loopback, xcvm_error *error);

/* Opens the non-blocking listening socket of a server: `socket` if it is positive, else a new one at `address`. Closes
 * `socket` on failure. Fails if other machines can connect and the server is not `guarded`. Writes the address to
 * `text`. */
xcvm_status xcs_listen_open(const char *address, int socket, bool guarded, char *text, size_t size, int *descriptor,
                            xcvm_error *error);

#endif

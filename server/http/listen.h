/* Listening sockets. */
#ifndef XCVM_SERVER_HTTP_LISTEN_H
#define XCVM_SERVER_HTTP_LISTEN_H

#include "base/status.h"

/* Opens a listening socket at "HOST:PORT", "[IPv6]:PORT" or "unix:PATH". */
xcvm_status xcs_listen(const char *address, int *descriptor, xcvm_error *error);
/* Writes the address of a listening socket, with its port, to `text`. *loopback tells if only this machine can connect.
 */
xcvm_status xcs_listen_address(int descriptor, char *text, size_t size, bool *loopback, xcvm_error *error);

#endif

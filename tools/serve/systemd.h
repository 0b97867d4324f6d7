/* The protocols of systemd: socket activation, notification of the state, and the watchdog. */
#ifndef XCVM_TOOLS_SERVE_SYSTEMD_H
#define XCVM_TOOLS_SERVE_SYSTEMD_H

#include <stdint.h>

/* Returns socket `index` that the parent process passed (LISTEN_FDS), or 0. */
int systemd_socket(int index);
/* Sends a state such as "READY=1" to NOTIFY_SOCKET, if there is one. */
void systemd_notify(const char *state);
/* Returns the time between signs of life in nanoseconds, half of what the watchdog allows; 0: no watchdog. */
uint64_t systemd_watchdog_ns(void);

#endif

/* sd_listen_fds(3), sd_notify(3) and sd_watchdog_enabled(3), without their library. */
#include "serve/systemd.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_SOCKET = 3 };

static unsigned long long number_of(const char *variable)
{
    const char *text = getenv(variable);
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

/* True if the variable is not set or names this process. */
static int is_for_us(const char *variable)
{
    return getenv(variable) == NULL || number_of(variable) == (unsigned long long)getpid();
}

int systemd_socket(int index)
{
    if (getenv("LISTEN_PID") == NULL || !is_for_us("LISTEN_PID") || number_of("LISTEN_FDS") < (unsigned)index + 1)
        return 0;
    (void)fcntl(FIRST_SOCKET + index, F_SETFD, FD_CLOEXEC);
    return FIRST_SOCKET + index;
}

void systemd_notify(const char *state)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    const size_t length = path != NULL ? strlen(path) : 0;
    if (length < 2 || length >= sizeof at.sun_path || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(at.sun_path, path, length);
    if (path[0] == '@')
        at.sun_path[0] = '\0';
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&at,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
    close(fd);
}

uint64_t systemd_watchdog_ns(void)
{
    return is_for_us("WATCHDOG_PID") ? (uint64_t)number_of("WATCHDOG_USEC") * 500 : 0;
}

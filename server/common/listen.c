/* Listening sockets: IPv4, IPv6 and Unix. */
#include "server/common/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

static xcvm_status finish_socket(int fd, const struct sockaddr *at, socklen_t length, const char *address,
                                 int *descriptor, xcvm_error *error)
{
    const int one = 1;
    if (fd >= 0 && at->sa_family != AF_UNIX) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* inherited by connections */
    }
    if (fd < 0 || bind(fd, at, length) != 0 || listen(fd, BACKLOG) != 0) {
        const int why = errno;
        if (fd >= 0)
            close(fd);
        XCVM_FAIL(error, IO, "cannot listen at \"%.100s\": %s", address, strerror(why));
    }
    *descriptor = fd;
    return XCVM_OK;
}

static xcvm_status listen_unix(const char *address, int *descriptor, xcvm_error *error)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct stat old;
    const char *path = address + 5;
    XCVM_CHECK(error, strlen(path) > 0 && strlen(path) < sizeof at.sun_path, INVALID_ARGUMENT,
               "\"%.100s\": the path of a socket has 1 to %zu bytes", address, sizeof at.sun_path - 1);
    strcpy(at.sun_path, path);
    /* A socket that an earlier process left. */
    if (lstat(path, &old) == 0 && S_ISSOCK(old.st_mode))
        (void)unlink(path);
    return finish_socket(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), (const struct sockaddr *)&at, sizeof at,
                         address, descriptor, error);
}

xcvm_status xcs_listen(const char *address, int *descriptor, xcvm_error *error)
{
    char host[128];
    if (strncmp(address, "unix:", 5) == 0)
        return listen_unix(address, descriptor, error);
    const char *colon = strrchr(address, ':');
    const bool bracketed = address[0] == '[' && colon != NULL && colon > address + 1 && colon[-1] == ']';
    const char *begin = address + bracketed, *end = colon != NULL ? colon - bracketed : begin;
    XCVM_CHECK(error, colon != NULL && colon[1] != '\0' && end > begin && (size_t)(end - begin) < sizeof host,
               INVALID_ARGUMENT, "\"%.100s\" is not an address; expected HOST:PORT, [IPv6]:PORT or unix:PATH", address);
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found;
    const int code = getaddrinfo(host, colon + 1, &hints, &found);
    XCVM_CHECK(error, code == 0, INVALID_ARGUMENT, "\"%.100s\" is not an address: %s", address, gai_strerror(code));
    xcvm_status status = finish_socket(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), found->ai_addr,
                                       found->ai_addrlen, address, descriptor, error);
    freeaddrinfo(found);
    return status;
}

xcvm_status xcs_listen_address(int descriptor, char *text, size_t size, bool *loopback, xcvm_error *error)
{
    struct sockaddr_storage at;
    socklen_t length = sizeof at;
    char host[INET6_ADDRSTRLEN];
    memset(&at, 0, sizeof at);
    XCVM_CHECK(error, getsockname(descriptor, (struct sockaddr *)&at, &length) == 0, IO,
               "descriptor %d is not a socket: %s", descriptor, strerror(errno));
    *loopback = true;
    if (at.ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&at;
        *loopback = ntohl(v4->sin_addr.s_addr) >> 24 == 127;
        snprintf(text, size, "%s:%d", inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host), ntohs(v4->sin_port));
    } else if (at.ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&at;
        *loopback = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
        snprintf(text, size, "[%s]:%d", inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host), ntohs(v6->sin6_port));
    } else {
        snprintf(text, size, "unix:%.*s", (int)sizeof((const struct sockaddr_un *)&at)->sun_path,
                 ((const struct sockaddr_un *)&at)->sun_path);
    }
    return XCVM_OK;
}

xcvm_status xcs_listen_open(const char *address, int socket, bool guarded, char *text, size_t size, int *descriptor,
                            xcvm_error *error)
{
    bool loopback;
    *descriptor = socket;
    if (socket <= 0)
        XCVM_TRY(xcs_listen(address, descriptor, error));
    xcvm_status status = xcs_listen_address(*descriptor, text, size, &loopback, error);
    if (status == XCVM_OK && !loopback && !guarded)
        status = xcvm_error_set(error, XCVM_INVALID_ARGUMENT,
                                "%s can be reached from other machines, which needs an API key", text);
    /* Several threads or processes may accept its connections. */
    if (status == XCVM_OK && fcntl(*descriptor, F_SETFL, fcntl(*descriptor, F_GETFL) | O_NONBLOCK) != 0)
        status = xcvm_error_set(error, XCVM_IO, "the socket of %s cannot be made non-blocking", text);
    if (status != XCVM_OK)
        close(*descriptor);
    return status;
}

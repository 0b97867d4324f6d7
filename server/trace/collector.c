/* The connection to a collector: HTTP/1.1 with a connection for each request. All waits are bounded. */
#include "server/trace/collector.h"

#include "base/allocator.h"
#include "base/clock.h"
#include "server/json/document.h"
#include "server/json/text.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* A longer answer is cut; MOST_WAIT_MS is how often a wait looks whether the process ends. */
enum { MOST_ANSWER = 64 << 10, MOST_WAIT_MS = 100, MOST_RETRY_S = 3600 };

/* ---- The address ---- */

/* Characters of an URL that need no escape and cannot end a line of the request. */
static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text <= ' ' || *text > '~' || *text == '#')
            return false;
    return true;
}

xcvm_status xcs_collector_read(const char *url, xcs_collector *collector, xcvm_error *error)
{
    static const char form[] = "expected http://HOST:PORT[/PATH]";
    memset(collector, 0, sizeof *collector);
    XCVM_CHECK(error, strncasecmp(url, "https://", 8) != 0, UNSUPPORTED,
               "\"%.200s\": spans are exported without TLS; %s. Use a collector on this machine", url, form);
    XCVM_CHECK(error, strncasecmp(url, "http://", 7) == 0 && is_plain(url) && strchr(url, '@') == NULL,
               INVALID_ARGUMENT, "\"%.200s\" is not the URL of a collector; %s", url, form);
    const char *host = url + 7, *path = host + strcspn(host, "/?");
    const char *bracket = *host == '[' ? memchr(host, ']', (size_t)(path - host)) : NULL;
    const char *colon =
        memchr(bracket != NULL ? bracket : host, ':', (size_t)(path - (bracket != NULL ? bracket : host)));
    const char *begin = host + (bracket != NULL), *end = bracket != NULL ? bracket : colon;
    const size_t digits = colon != NULL ? strspn(colon + 1, "0123456789") : 0;
    XCVM_CHECK(error,
               colon != NULL && end > begin && (size_t)(end - begin) < sizeof collector->host && digits > 0 &&
                   digits < 6 && colon + 1 + digits == path && atoi(colon + 1) > 0 && atoi(colon + 1) < 65536 &&
                   (bracket == NULL || colon == bracket + 1),
               INVALID_ARGUMENT, "\"%.200s\" has no host and port; %s, such as http://127.0.0.1:4318", url, form);
    const char *sent = *path == '\0' || strcmp(path, "/") == 0 ? "/v1/traces" : path;
    XCVM_CHECK(error, strlen(sent) < sizeof collector->path && *sent == '/', INVALID_ARGUMENT,
               "\"%.200s\" has a path that is too long, or none before its query; %s", url, form);
    memcpy(collector->host, begin, (size_t)(end - begin));
    memcpy(collector->port, colon + 1, digits);
    strcpy(collector->path, sent);
    collector->is_bracketed = bracket != NULL;
    return XCVM_OK;
}

/* ---- Waits ---- */

typedef struct patience {
    uint64_t until_ns;
    const uint64_t *stopping_ns;
} patience;

/* Returns 0 if the time is over. */
static uint64_t time_left(const patience *p)
{
    const uint64_t stopping = __atomic_load_n(p->stopping_ns, __ATOMIC_RELAXED), now = xcvm_clock_ns();
    const uint64_t until = stopping < p->until_ns ? stopping : p->until_ns;
    return until > now ? until - now : 0;
}

/* Waits for events. Returns false if the time is over. */
static bool wait_for(int fd, short events, const patience *p)
{
    for (;;) {
        const uint64_t left_ns = time_left(p);
        if (left_ns == 0)
            return false;
        struct pollfd one = {.fd = fd, .events = events};
        const uint64_t left_ms = left_ns / 1000000 + 1;
        const int count = poll(&one, 1, left_ms < MOST_WAIT_MS ? (int)left_ms : MOST_WAIT_MS);
        if (count > 0)
            return true;
        if (count < 0 && errno != EINTR)
            return false;
    }
}

/* ---- The connection ---- */

/* A lookup of a host name. The system's resolver may take minutes, so a thread that can be left behind waits for it. */
typedef struct lookup {
    int references;         /* of the thread and of who waits for it; atomic */
    int done;               /* eventfd */
    struct addrinfo *found; /* NULL: nothing; atomic */
    char host[256], port[8];
} lookup;

static const struct addrinfo by_name = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV},
                             by_number = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_NUMERICHOST};

/* Lookups that a resolver which hangs may leave behind. Each holds a thread. */
enum { MOST_PENDING = 4 };
static int pending_lookups; /* atomic */

static void release_lookup(lookup *l)
{
    if (__atomic_sub_fetch(&l->references, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    if (l->found != NULL)
        freeaddrinfo(l->found);
    close(l->done);
    xcvm_deallocate(xcvm_allocator_or_default(NULL), l, sizeof *l);
}

static void *look_up(void *argument)
{
    lookup *l = argument;
    struct addrinfo *found;
    if (getaddrinfo(l->host, l->port, &by_name, &found) == 0)
        __atomic_store_n(&l->found, found, __ATOMIC_RELEASE);
    (void)eventfd_write(l->done, 1);
    release_lookup(l);
    __atomic_sub_fetch(&pending_lookups, 1, __ATOMIC_RELAXED);
    return NULL;
}

static bool start_lookup(lookup *l)
{
    pthread_t thread;
    __atomic_store_n(&l->references, 2, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&pending_lookups, 1, __ATOMIC_RELAXED) <= MOST_PENDING &&
        pthread_create(&thread, NULL, look_up, l) == 0)
        return pthread_detach(thread) == 0;
    __atomic_sub_fetch(&pending_lookups, 1, __ATOMIC_RELAXED);
    l->references = 1;
    return false;
}

/* Returns the addresses of the collector, or NULL. The name is looked up each time, because a collector may move. */
static lookup *find_addresses(const xcs_collector *collector, const patience *p)
{
    lookup *l = xcvm_allocate_zeroed(xcvm_allocator_or_default(NULL), sizeof *l);
    if (l == NULL)
        return NULL;
    l->references = 1;
    l->done = eventfd(0, EFD_CLOEXEC);
    strcpy(l->host, collector->host);
    strcpy(l->port, collector->port);
    const bool is_number = getaddrinfo(l->host, l->port, &by_number, &l->found) == 0;
    if (is_number || (l->done >= 0 && start_lookup(l) && wait_for(l->done, POLLIN, p)))
        return l;
    release_lookup(l);
    return NULL;
}

static bool connect_to(int fd, const struct addrinfo *at, const patience *p)
{
    int code = 0;
    socklen_t size = sizeof code;
    if (connect(fd, at->ai_addr, at->ai_addrlen) == 0)
        return true;
    return errno == EINPROGRESS && wait_for(fd, POLLOUT, p) &&
           getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) == 0 && code == 0;
}

static int open_connection(const xcs_collector *collector, const patience *p)
{
    int fd = -1;
    lookup *addresses = time_left(p) > 0 ? find_addresses(collector, p) : NULL;
    if (addresses == NULL)
        return -1;
    const struct addrinfo *at = __atomic_load_n(&addresses->found, __ATOMIC_ACQUIRE);
    for (; at != NULL && fd < 0 && time_left(p) > 0; at = at->ai_next) {
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0 && !connect_to(fd, at, p)) {
            close(fd);
            fd = -1;
        }
    }
    release_lookup(addresses);
    return fd;
}

static bool send_all(int fd, const char *bytes, size_t count, const patience *p)
{
    while (count > 0) {
        const ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (sent < 0 && !wait_for(fd, POLLOUT, p))
            return false;
        if (sent > 0) {
            bytes += sent;
            count -= (size_t)sent;
        }
    }
    return true;
}

/* ---- The answer ---- */

/* Returns the value of a field of the head, or NULL. */
static const char *find_field(const char *head, const char *end, const char *name)
{
    const size_t length = strlen(name);
    for (const char *line = head; line < end;) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        if ((size_t)(end - line) > length && strncasecmp(line, name, length) == 0 && line[length] == ':')
            return line + length + 1;
        line = next != NULL ? next + 1 : end;
    }
    return NULL;
}

/* Reads until the connection ends, or the length that the head announces is there. */
static void receive(int fd, xcs_text *text, const patience *p)
{
    while (text->count < MOST_ANSWER && wait_for(fd, POLLIN, p)) {
        char *room = xcs_text_reserve(text, 4096);
        const ssize_t got = room != NULL ? recv(fd, room, 4095, 0) : 0;
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (got <= 0)
            return;
        text->count += (size_t)got;
        text->at[text->count] = '\0';
        const char *body = strstr(text->at, "\r\n\r\n");
        const char *length = body != NULL ? find_field(text->at, body, "Content-Length") : NULL;
        if (length != NULL && text->count - (size_t)(body + 4 - text->at) >= strtoull(length, NULL, 10))
            return;
    }
}

/* {"partialSuccess": {"rejectedSpans": "3"}}: a string, by the JSON mapping of protobuf, or a number. */
static uint64_t read_rejected(const char *body, size_t length)
{
    xcs_json *document;
    int64_t count = 0;
    if (length == 0 || xcs_json_parse(body, length, &document, NULL) != XCVM_OK)
        return 0;
    const xcs_json *rejected = xcs_json_get(xcs_json_get(document, "partialSuccess"), "rejectedSpans");
    const char *text = xcs_json_string(rejected);
    if (!xcs_json_integer(rejected, &count) && text != NULL)
        count = strtoll(text, NULL, 10);
    xcs_json_release(document);
    return count > 0 ? (uint64_t)count : 0;
}

xcs_collector_answer xcs_collector_read_answer(const char *text, size_t count)
{
    xcs_collector_answer answer = {.status = 0};
    if (count < 12 || strncmp(text, "HTTP/1.", 7) != 0 || text[8] != ' ')
        return answer;
    const char *body = strstr(text, "\r\n\r\n");
    if (body == NULL || strspn(text + 9, "0123456789") != 3)
        return answer;
    answer.status = atoi(text + 9);
    const char *retry = find_field(text, body, "Retry-After");
    const unsigned long seconds = retry != NULL ? strtoul(retry, NULL, 10) : 0;
    answer.retry_s = (unsigned)(seconds < MOST_RETRY_S ? seconds : MOST_RETRY_S);
    if (answer.status == 200)
        answer.rejected = read_rejected(body + 4, count - (size_t)(body + 4 - text));
    return answer;
}

xcs_collector_answer xcs_collector_post(const xcs_collector *collector, const char *body, size_t count,
                                        uint64_t until_ns, const uint64_t *stopping_ns)
{
    const patience p = {until_ns, stopping_ns};
    xcs_collector_answer answer = {.status = 0};
    xcs_text head = {.allocator = xcvm_allocator_or_default(NULL)}, text = head;
    xcs_text_format(&head,
                    "POST %s HTTP/1.1\r\nHost: %s%s%s:%s\r\nUser-Agent: xcvm/%s\r\nContent-Type: application/json\r\n"
                    "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                    collector->path, collector->is_bracketed ? "[" : "", collector->host,
                    collector->is_bracketed ? "]" : "", collector->port, xcvm_version(), count);
    const int fd = head.failed ? -1 : open_connection(collector, &p);
    if (fd >= 0 && send_all(fd, head.at, head.count, &p) && send_all(fd, body, count, &p)) {
        receive(fd, &text, &p);
        answer = text.at != NULL ? xcs_collector_read_answer(text.at, text.count) : answer;
    }
    if (fd >= 0)
        close(fd);
    xcs_text_free(&head);
    xcs_text_free(&text);
    return answer;
}

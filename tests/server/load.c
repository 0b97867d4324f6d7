/* A load generator for tests/server/load.sh: threads with a connection each send the same request and count answers.
 *
 *   server_load ADDRESS closed CONNECTIONS COUNT MODEL [TIMEOUT_US]
 *       Sends COUNT requests as fast as they are answered. Prints their number a second.
 *   server_load ADDRESS open CONNECTIONS RATE SECONDS MODEL TIMEOUT_US
 *       Sends RATE requests a second, whether or not earlier ones are answered.
 *   server_load ADDRESS leave COUNT ENDLESS MODEL
 *       The server has one worker. A client of the model ENDLESS leaves; another client waits for MODEL. Prints how
 * long.
 *
 * Prints one line "name=value ...". Exit code 1: a connection failed, or an answer was neither 200, 429 nor 504. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_in address;
static char request[2000];
static size_t request_length;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "server_load: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- Requests ---- */

static size_t make_request(char *to, size_t room, const char *model, const char *timeout_us)
{
    char body[400];
    const int length = snprintf(body, sizeof body,
                                "{\"inputs\":[{\"name\":\"x\",\"shape\":[2],\"datatype\":\"FP32\",\"data\":[1,2]}],"
                                "\"parameters\":{\"timeout\":%s}}",
                                timeout_us);
    return (size_t)snprintf(to, room, "POST /v2/models/%s/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s",
                            model, length, body);
}

static int open_connection(void)
{
    const int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) != 0)
        fail("connect");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void send_all(int fd, const char *text, size_t length)
{
    if (send(fd, text, length, MSG_NOSIGNAL) != (ssize_t)length)
        fail("send");
}

/* Returns the status; *closes tells if the server closes the connection. */
static int read_answer(int fd, bool *closes)
{
    char text[4000];
    size_t count = 0, needed = SIZE_MAX;
    while (count < needed) {
        const ssize_t got = recv(fd, text + count, sizeof text - 1 - count, 0);
        if (got <= 0)
            fail("the connection ended without an answer");
        count += (size_t)got;
        text[count] = '\0';
        const char *end = strstr(text, "\r\n\r\n"), *length = strstr(text, "Content-Length: ");
        if (needed == SIZE_MAX && end != NULL && length != NULL)
            needed = (size_t)(end + 4 - text) + strtoul(length + 16, NULL, 10);
    }
    *closes = strstr(text, "Connection: close") != NULL;
    const int status = atoi(text + 9);
    if (status == 429 && strstr(text, "Retry-After: ") == NULL)
        fail("429 without Retry-After");
    return status;
}

/* ---- Counting ---- */

enum { STATUSES = 4, ACCEPTED = 0, REFUSED = 1, LATE = 2, OTHER = 3 };

typedef struct client {
    pthread_t thread;
    uint32_t *times[STATUSES]; /* in units of 0.1 microseconds */
    size_t counts[STATUSES], room[STATUSES];
} client;

static struct {
    size_t count, next;           /* requests; next: atomic */
    uint64_t begin_ns, period_ns; /* period_ns: 0: as fast as they are answered */
} plan;

static void count_answer(client *c, int status, uint64_t ns)
{
    const int kind = status == 200 ? ACCEPTED : status == 429 ? REFUSED : status == 504 ? LATE : OTHER;
    if (kind == OTHER)
        fprintf(stderr, "server_load: status %d\n", status);
    if (c->counts[kind] == c->room[kind]) {
        c->room[kind] = c->room[kind] * 2 + 1000;
        c->times[kind] = realloc(c->times[kind], c->room[kind] * sizeof *c->times[kind]);
        if (c->times[kind] == NULL)
            fail("memory");
    }
    c->times[kind][c->counts[kind]++] = (uint32_t)(ns / 100 < UINT32_MAX ? ns / 100 : UINT32_MAX);
}

static void wait_until(uint64_t when_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(when_ns / 1000000000), .tv_nsec = (long)(when_ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

static void *send_requests(void *user)
{
    client *c = user;
    int fd = open_connection();
    for (size_t i; (i = __atomic_fetch_add(&plan.next, 1, __ATOMIC_RELAXED)) < plan.count;) {
        bool closes;
        if (plan.period_ns != 0)
            wait_until(plan.begin_ns + i * plan.period_ns);
        const uint64_t begin = now_ns();
        send_all(fd, request, request_length);
        const int status = read_answer(fd, &closes);
        count_answer(c, status, now_ns() - begin);
        if (closes) {
            close(fd);
            fd = open_connection();
        }
    }
    close(fd);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Prints the number, the median and the 99th percentile of a kind of answers. Returns the number. */
static size_t print_kind(const client *clients, size_t count, int kind, const char *name)
{
    size_t total = 0, at = 0;
    for (size_t i = 0; i < count; i++)
        total += clients[i].counts[kind];
    uint32_t *all = malloc((total + 1) * sizeof *all);
    if (all == NULL)
        fail("memory");
    for (size_t i = 0; i < count; i++) {
        if (clients[i].counts[kind] > 0)
            memcpy(all + at, clients[i].times[kind], clients[i].counts[kind] * sizeof *all);
        at += clients[i].counts[kind];
    }
    qsort(all, total, sizeof *all, compare);
    printf("%s=%zu %s_p50_us=%.1f %s_p99_us=%.1f ", name, total, name, total > 0 ? all[total / 2] / 10.0 : 0, name,
           total > 0 ? all[total * 99 / 100] / 10.0 : 0);
    free(all);
    return total;
}

static int run_plan(size_t connections)
{
    client *clients = calloc(connections, sizeof *clients);
    if (clients == NULL)
        fail("memory");
    plan.begin_ns = now_ns();
    for (size_t i = 0; i < connections; i++)
        if (pthread_create(&clients[i].thread, NULL, send_requests, &clients[i]) != 0)
            fail("thread");
    for (size_t i = 0; i < connections; i++)
        pthread_join(clients[i].thread, NULL);
    const double seconds = (double)(now_ns() - plan.begin_ns) / 1e9;
    const size_t accepted = print_kind(clients, connections, ACCEPTED, "accepted");
    (void)print_kind(clients, connections, REFUSED, "refused");
    (void)print_kind(clients, connections, LATE, "late");
    const size_t other = print_kind(clients, connections, OTHER, "other");
    printf("goodput=%.1f\n", (double)accepted / seconds);
    for (size_t i = 0; i < connections; i++)
        for (int kind = 0; kind < STATUSES; kind++)
            free(clients[i].times[kind]);
    free(clients);
    return other != 0;
}

/* ---- Clients that leave ---- */

static int leave(size_t count, const char *endless, const char *model)
{
    client c = {.counts = {0}};
    char other[2000];
    const size_t other_length = make_request(other, sizeof other, endless, "0");
    request_length = make_request(request, sizeof request, model, "0");
    for (size_t i = 0; i < count; i++) {
        bool closes;
        const int leaver = open_connection(), waiter = open_connection();
        send_all(leaver, other, other_length);
        usleep(20000); /* it runs */
        send_all(waiter, request, request_length);
        usleep(5000);
        const uint64_t begin = now_ns();
        close(leaver);
        count_answer(&c, read_answer(waiter, &closes), now_ns() - begin);
        close(waiter);
    }
    (void)print_kind(&c, 1, ACCEPTED, "free");
    printf("\n");
    const bool failed = c.counts[ACCEPTED] != count;
    for (int kind = 0; kind < STATUSES; kind++)
        free(c.times[kind]);
    return failed;
}

int main(int argc, char **argv)
{
    const char *colon = argc > 1 ? strrchr(argv[1], ':') : NULL;
    const char *mode = argc > 2 ? argv[2] : "";
    if (colon == NULL)
        return 2;
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(colon + 1));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (strcmp(mode, "leave") == 0 && argc == 6)
        return leave(strtoul(argv[3], NULL, 10), argv[4], argv[5]);
    const bool open_loop = strcmp(mode, "open") == 0;
    if (argc < 6 + open_loop)
        return 2;
    const char *const timeout = argc > 6 + open_loop ? argv[6 + open_loop] : "0";
    request_length = make_request(request, sizeof request, argv[5 + open_loop], timeout);
    plan.count = strtoul(argv[4], NULL, 10);
    if (open_loop) {
        plan.period_ns = 1000000000 / plan.count;
        plan.count *= strtoul(argv[5], NULL, 10);
    }
    return run_plan(strtoul(argv[3], NULL, 10));
}

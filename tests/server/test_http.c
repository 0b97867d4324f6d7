/* Tests of the HTTP server as a library: address, readiness, a request, and the end while a request runs. */
#include "server/http/exchange.h"
#include "tests/server/support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>

static int connect_to(const xcs_http *http)
{
    const char *address = xcs_http_address(http), *colon = strrchr(address, ':');
    ck_assert_ptr_nonnull(colon);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(colon + 1))};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static void send_request(int fd, const char *line, const char *body)
{
    char text[1000];
    const int length =
        snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
                 line, strlen(body), body);
    ck_assert_int_eq(send(fd, text, (size_t)length, 0), length);
}

/* The answer until the connection ends; of a long one only the first bytes. */
static void expect(int fd, const char *first, const char *part)
{
    char text[4000];
    size_t count = 0;
    ssize_t got;
    while (count < sizeof text - 1 && (got = recv(fd, text + count, sizeof text - 1 - count, 0)) > 0)
        count += (size_t)got;
    text[count] = '\0';
    ck_assert_msg(strstr(text, first) != NULL && strstr(text, part) != NULL, "%s", text);
    close(fd);
}

static void ask(const xcs_http *http, const char *line, const char *body, const char *first, const char *part)
{
    const int fd = connect_to(http);
    send_request(fd, line, body);
    expect(fd, first, part);
}

static xcs_http *open_http(xcs_server *server)
{
    const xcs_http_options options = {
        .size = sizeof options, .address = "127.0.0.1:0", .threads = 2, .busy_poll_us = 50};
    xcs_http *http = NULL;
    xcvm_error error = {0};
    ck_assert_msg(xcs_http_create(server, &options, &http, &error) == XCVM_OK, "%s", error.message);
    return http;
}

static const char body[] = "{\"inputs\":[{\"name\":\"x\",\"shape\":[2],\"datatype\":\"FP32\",\"data\":[1.5,2]}]}";

START_TEST(answers)
{
    xcs_server *server = create_server(2);
    add_model(server, "doubles", DOUBLES, NULL);
    xcs_http *http = open_http(server);
    ask(http, "GET /v2/health/ready", "", "HTTP/1.1 200", "{\"ready\":true}");
    for (int i = 0; i < 20; i++)
        ask(http, "POST /v2/models/doubles/infer", body, "HTTP/1.1 200", "\"data\":[3,4]");
    xcs_http_set_ready(http, false);
    ask(http, "GET /v2/health/ready", "", "HTTP/1.1 503", "{\"ready\":false}");
    ask(http, "GET /metrics", "", "HTTP/1.1 200",
        "xcvm_requests_total{model=\"doubles\",version=\"1\",outcome=\"succeeded\"} 20");
    xcs_http_destroy(http);
    xcs_http_destroy(NULL);
    xcs_server_destroy(server);
}
END_TEST

START_TEST(refuses_addresses)
{
    static const struct {
        const char *address, *message;
    } cases[] = {{"127.0.0.1", "is not an address"}, {"127.0.0.1:x", "is not an address"},
                 {":80", "is not an address"},       {"unix:", "the path of a socket"},
                 {"0.0.0.0:0", "needs an API key"},  {"unix:/no/such/directory/x", "cannot listen"}};
    xcs_server *server = create_server(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const xcs_http_options options = {.size = sizeof options, .address = cases[i].address};
        xcs_http *http = NULL;
        xcvm_error error = {0};
        ck_assert_int_ne(xcs_http_create(server, &options, &http, &error), XCVM_OK);
        ck_assert_msg(strstr(error.message, cases[i].message) != NULL, "%s", error.message);
        ck_assert_ptr_null(http);
    }
    xcs_server_destroy(server);
}
END_TEST

/* A client that leaves cancels its run, and so does the end of the server. */
START_TEST(clients_leave)
{
    xcs_server *server = create_server(1);
    add_model(server, "endless", ENDLESS, NULL);
    xcs_http *http = open_http(server);
    for (uint64_t i = 0; i < 3; i++) {
        const int fd = connect_to(http);
        send_request(fd, "POST /v2/models/endless/infer", body);
        while (statistics_of(server, "endless").running == 0)
            usleep(200);
        close(fd);
        while (statistics_of(server, "endless").cancelled == i || statistics_of(server, "endless").running > 0)
            usleep(200);
    }
    xcs_http_destroy(http);
    xcs_server_destroy(server);
}
END_TEST

/* The end of a connection is noticed also if it arrives together with the last bytes: it is not kept until it is idle
 * for a minute. */
START_TEST(clients_end)
{
    static const struct {
        const char *sent, *answer;
    } cases[] = {{"\r\n", ""},
                 {"GET /v2/health/live HTT", ""},
                 {"POST /v2/models/doubles/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{", ""},
                 {"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200"},
                 {"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\nGET /", "HTTP/1.1 200"}};
    xcs_server *server = create_server(1);
    add_model(server, "doubles", DOUBLES, NULL);
    xcs_http *http = open_http(server);
    for (size_t i = 0; i < 20 * sizeof cases / sizeof *cases; i++) {
        const char *sent = cases[i / 20].sent;
        const struct timeval patience = {.tv_sec = 30};
        const int fd = connect_to(http);
        char text[4000];
        size_t count = 0;
        ssize_t got;
        ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
        ck_assert_int_eq(send(fd, sent, strlen(sent), MSG_MORE), (ssize_t)strlen(sent));
        ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
        while ((got = recv(fd, text + count, sizeof text - 1 - count, 0)) > 0)
            count += (size_t)got;
        text[count] = '\0';
        ck_assert_msg(got == 0, "after \"%s\": %s", sent, strerror(errno));
        ck_assert_msg(strncmp(text, cases[i / 20].answer, strlen(cases[i / 20].answer)) == 0, "%s", text);
        close(fd);
    }
    xcs_http_destroy(http);
    xcs_server_destroy(server);
}
END_TEST

/* An announced body takes memory as it arrives. */
START_TEST(announced_bodies)
{
    static const char head[] = "POST /v2/models/doubles/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 33554432\r\n\r\n{";
    enum { CLIENTS = 4, PIECE = 65536, PIECES = 32 };
    static char spaces[PIECE];
    int clients[CLIENTS];
    xcs_server *server = create_server(1);
    add_model(server, "doubles", DOUBLES, NULL);
    const size_t before = statistics_of(server, "doubles").memory_bytes;
    xcs_http *http = open_http(server);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = connect_to(http);
        ck_assert_int_eq(send(clients[i], head, sizeof head - 1, 0), sizeof head - 1);
    }
    while (statistics_of(server, "doubles").memory_bytes == before)
        usleep(1000);
    usleep(100000);
    ck_assert_uint_lt(statistics_of(server, "doubles").memory_bytes, 4 << 20);
    memset(spaces, ' ', sizeof spaces);
    for (int i = 0; i < PIECES; i++)
        ck_assert_int_eq(send(clients[0], spaces, sizeof spaces, MSG_NOSIGNAL), sizeof spaces);
    while (statistics_of(server, "doubles").memory_bytes < PIECE * PIECES)
        usleep(1000);
    for (int i = 0; i < CLIENTS; i++)
        close(clients[i]);
    ask(http, "POST /v2/models/doubles/infer", body, "HTTP/1.1 200", "\"data\":[3,4]");
    xcs_http_destroy(http);
    xcs_server_destroy(server);
}
END_TEST

/* Sends a body of `bytes` spaces, all but the last one. */
static int begin_body(const xcs_http *http, size_t bytes)
{
    char text[4096];
    const int fd = connect_to(http);
    const int length = snprintf(
        text, sizeof text, "POST /v2/models/doubles/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", bytes);
    ck_assert_int_eq(send(fd, text, (size_t)length, 0), length);
    memset(text, ' ', sizeof text);
    for (size_t sent = 1; sent < bytes;) {
        const size_t some = bytes - sent < sizeof text ? bytes - sent : sizeof text;
        ck_assert_int_eq(send(fd, text, some, MSG_NOSIGNAL), (int)some);
        sent += some;
    }
    return fd;
}

static size_t held_by(const xcs_http *http) { return __atomic_load_n(&http->share.held, __ATOMIC_RELAXED); }

/* Bodies that are there in part cannot take all memory: a request beyond its share is refused, and others succeed. */
START_TEST(shares)
{
    enum { SMALL = 100 << 10, LARGE = 1536 << 10, LIMIT = 4 << 20 };
    const struct timeval patience = {.tv_sec = 30};
    xcs_server *server = create_server(1);
    add_model(server, "doubles", DOUBLES, NULL);
    add_model(server, "long",
              "input x f32[2]\noutput y f32[30000x2]\n$1 = In(name=\"x\")\n$2 = Expand($1, i64[2] 30000 2)\n"
              "Out($2, name=\"y\")\n",
              NULL);
    xcs_http *http = open_http(server);
    ck_assert_uint_eq(http->share.limit, 512 << 20);
    http->share.limit = LIMIT;
    const int holds = begin_body(http, LARGE); /* the first one may */
    while (held_by(http) < LARGE)
        usleep(1000);
    const int refused = begin_body(http, LARGE);
    ck_assert_int_eq(setsockopt(refused, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    ck_assert_int_eq(send(refused, "{", 1, MSG_NOSIGNAL), 1);
    char answer[4000] = "";
    ck_assert_int_gt(recv(refused, answer, sizeof answer - 1, 0), 0);
    ck_assert_msg(strstr(answer, "HTTP/1.1 503") != NULL && strstr(answer, "Retry-After: 1\r\n") != NULL, "%s", answer);
    /* The connection can be used again. */
    send_request(refused, "POST /v2/models/doubles/infer", body);
    expect(refused, "HTTP/1.1 200", "\"data\":[3,4]");
    const int small = begin_body(http, SMALL);
    ck_assert_int_eq(send(small, "x", 1, MSG_NOSIGNAL), 1);
    ck_assert_int_gt(recv(small, answer, sizeof answer - 1, 0), 0);
    ck_assert_msg(strstr(answer, "HTTP/1.1 400") != NULL, "%s", answer);
    close(small);
    ask(http, "POST /v2/models/long/infer", body, "HTTP/1.1 200", "\"data\":[1.5,2,1.5,2,");
    http->share.limit = LARGE; /* nothing is left */
    ask(http, "POST /v2/models/long/infer", body, "HTTP/1.1 503", "other connections hold too much");
    ask(http, "POST /v2/models/doubles/infer", body, "HTTP/1.1 200", "\"data\":[3,4]");
    close(holds);
    while (held_by(http) != 0)
        usleep(1000);
    xcs_http_destroy(http);
    xcs_server_destroy(server);
}
END_TEST

/* A load that takes long, until it may end. */
typedef struct slow_loader {
    bool waits, ends; /* atomic */
} slow_loader;

static xcvm_status load_slowly(void *user, const char *path, const xcvm_load_options *options, xcvm_program **program,
                               xcvm_error *error)
{
    slow_loader *loader = user;
    const bool first = !__atomic_exchange_n(&loader->waits, true, __ATOMIC_SEQ_CST);
    while (!first && !__atomic_load_n(&loader->ends, __ATOMIC_SEQ_CST))
        usleep(1000);
    return xcvm_program_load_file(path, options, program, error);
}

static void *destroy(void *http)
{
    xcs_http_destroy(http);
    return NULL;
}

/* The end of the server waits for a load, which has no limit of time, and for the response to it. */
START_TEST(ends_after_load)
{
    slow_loader loader = {false, false};
    const xcs_model_options options = {.size = sizeof options, .loader = {load_slowly, &loader}};
    test_model_file file = {""};
    xcs_model_options o = options;
    xcvm_error error = {0};
    pthread_t thread;
    xcs_server *server = create_server(1);
    write_program(&file, DOUBLES);
    o.name = "doubles";
    o.path = file.path;
    ck_assert_msg(xcs_server_load_model(server, &o, &error) == XCVM_OK, "%s", error.message);
    xcs_http *http = open_http(server);
    const int fd = connect_to(http);
    send_request(fd, "POST /v2/repository/models/doubles/load", "");
    usleep(100000);
    ck_assert_int_eq(pthread_create(&thread, NULL, destroy, http), 0);
    sleep(11); /* beyond the time that responses have */
    __atomic_store_n(&loader.ends, true, __ATOMIC_SEQ_CST);
    expect(fd, "HTTP/1.1 200", "{}");
    pthread_join(thread, NULL);
    xcs_server_destroy(server);
    unlink(file.path);
}
END_TEST

Suite *suite_server_http(void);
Suite *suite_server_http(void)
{
    return SUITE_OF("server_http", answers, refuses_addresses, clients_leave, clients_end, announced_bodies, shares,
                    ends_after_load);
}

/* Tests of the gRPC server as a library: addresses, a call, clients that leave, threads of the pool, and the end while
 * calls run. The client writes HTTP/2 by hand. */
#include "tests/server/support.h"
#include "xcvm/server_grpc.h"

#include "server/grpc/protobuf.h"

#include <arpa/inet.h>
#include <sys/socket.h>

/* A megabyte of input, and a number. */
enum { LONG = 262144 };
#define LONG_INPUT "input x f32[262144]\noutput y i64[1]\n$1 = In(name=\"x\")\n$2 = Shape($1)\nOut($2, name=\"y\")\n"
/* Four megabytes of output. */
#define LONG_OUTPUT                                                                                                    \
    "input x f32[2]\noutput y f32[1048576]\n$1 = In(name=\"x\")\n$2 = Expand(f32[1] 1, i64[1] 1048576)\n"              \
    "Out($2, name=\"y\")\n"

static xcs_grpc *open_limited(xcs_server *server, size_t message_limit)
{
    const xcs_grpc_options options = {.size = sizeof options, .address = "127.0.0.1:0", .message_limit = message_limit};
    xcs_grpc *grpc = NULL;
    xcvm_error error = {0};
    ck_assert_msg(xcs_grpc_create(server, &options, &grpc, &error) == XCVM_OK, "%s", error.message);
    return grpc;
}

static xcs_grpc *open_grpc(xcs_server *server) { return open_limited(server, 0); }

static int connect_to(const xcs_grpc *grpc)
{
    const struct timeval patience = {.tv_sec = 30};
    const char *colon = strrchr(xcs_grpc_address(grpc), ':');
    ck_assert_ptr_nonnull(colon);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(colon + 1))};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    return fd;
}

static void put_http2_frame(xcs_text *text, unsigned type, unsigned flags, unsigned stream, const void *bytes,
                            size_t count)
{
    const uint8_t head[] = {
        (uint8_t)(count >> 16), (uint8_t)(count >> 8), (uint8_t)count, (uint8_t)type, (uint8_t)flags, 0, 0, 0,
        (uint8_t)stream};
    xcs_text_add(text, head, sizeof head);
    xcs_text_add(text, bytes, count);
}

/* A header that is neither indexed nor compressed. */
static void put_header(xcs_text *block, const char *name, const char *value)
{
    const uint8_t lengths[] = {0, (uint8_t)strlen(name), (uint8_t)strlen(value)};
    xcs_text_add(block, lengths, 2);
    xcs_text_put(block, name);
    xcs_text_add(block, lengths + 2, 1);
    xcs_text_put(block, value);
}

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, GOAWAY = 7, WINDOW_UPDATE = 8 };
enum { ACK = 1, END_STREAM = 1, END_HEADERS = 4, LONGEST_FRAME = 16384 };

static void send_text(int fd, xcs_text *text)
{
    for (size_t sent = 0; sent < text->count;) {
        const ssize_t some = send(fd, text->at + sent, text->count - sent, MSG_NOSIGNAL);
        ck_assert_int_gt(some, 0);
        sent += (size_t)some;
    }
    xcs_text_free(text);
}

static bool receive_all(int fd, uint8_t *to, size_t count)
{
    for (ssize_t got; count > 0; to += got, count -= (size_t)got) {
        got = recv(fd, to, count, 0);
        ck_assert_msg(got >= 0, "the server is silent");
        if (got == 0)
            return false;
    }
    return true;
}

/* The preface of a connection, and the answer to the settings of the server: its windows hold from then on. `window`:
 * bytes that the server may send of a response, and of all. */
static void send_preface(int fd, uint32_t window)
{
    const uint8_t bytes[] = {
        0, 4, (uint8_t)(window >> 24), (uint8_t)(window >> 16), (uint8_t)(window >> 8), (uint8_t)window};
    xcs_text text = {0};
    xcs_text_put(&text, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    put_http2_frame(&text, SETTINGS, 0, 0, bytes, sizeof bytes);
    if (window > 0)
        put_http2_frame(&text, WINDOW_UPDATE, 0, 0, bytes + 2, 4);
    send_text(fd, &text);
    uint8_t head[9], body[256];
    ck_assert(receive_all(fd, head, sizeof head));
    ck_assert_int_eq(head[3], SETTINGS);
    ck_assert(receive_all(fd, body, head[2]));
    put_http2_frame(&text, SETTINGS, ACK, 0, "", 0);
    send_text(fd, &text);
}

/* A ModelInfer call with an input of `count` elements for each of `streams`, after the preface. */
static void send_long_calls(int fd, const char *model, unsigned first, unsigned streams, const float *elements,
                            size_t count)
{
    xcs_text text = {0}, block = {0}, message = {0};
    put_header(&block, ":method", "POST");
    put_header(&block, ":scheme", "http");
    put_header(&block, ":authority", "x");
    put_header(&block, ":path", "/inference.GRPCInferenceService/ModelInfer");
    put_header(&block, "content-type", "application/grpc");
    const size_t begin = xcs_frame_begin(&message);
    xcs_put_string(&message, 1, model);
    const size_t input = xcs_field_begin(&message, 5);
    xcs_put_string(&message, 1, "x");
    xcs_put_string(&message, 2, "FP32");
    xcs_put_integer(&message, 3, count);
    xcs_field_end(&message, input);
    xcs_put_bytes(&message, 7, elements, count * sizeof *elements);
    xcs_frame_end(&message, begin);
    for (unsigned i = 0; i < streams; i++) {
        put_http2_frame(&text, HEADERS, END_HEADERS, first + 2 * i, block.at, block.count);
        for (size_t at = 0; at < message.count; at += LONGEST_FRAME) {
            const bool is_last = message.count - at <= LONGEST_FRAME;
            put_http2_frame(&text, DATA, is_last ? END_STREAM : 0, first + 2 * i, message.at + at,
                            is_last ? message.count - at : LONGEST_FRAME);
        }
    }
    send_text(fd, &text);
    xcs_text_free(&block);
    xcs_text_free(&message);
}

/* The same with two elements; the first call of a connection sends the preface. */
static void send_calls(int fd, const char *model, unsigned first, unsigned streams)
{
    static const float elements[] = {1.5F, 2};
    if (first == 1)
        send_preface(fd, 65535);
    send_long_calls(fd, model, first, streams, elements, 2);
}

/* Reads frames until `wanted` streams have ended, or the connection. Returns those that had the results in their data.
 */
static unsigned receive_results(int fd, unsigned wanted, bool *went_away)
{
    static const float results[] = {3, 4};
    uint8_t head[9], body[20000];
    unsigned ended = 0, good = 0;
    while (ended < wanted && receive_all(fd, head, sizeof head)) {
        const size_t length = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        ck_assert_uint_le(length, sizeof body);
        if (!receive_all(fd, body, length))
            break;
        if (head[3] == DATA && memmem(body, length, results, sizeof results) != NULL)
            good++;
        if (head[3] == GOAWAY && went_away != NULL)
            *went_away = true;
        ck_assert_int_ne(head[3], RST_STREAM);
        ended += head[3] == HEADERS && (head[4] & END_STREAM) != 0;
    }
    return good;
}

START_TEST(answers)
{
    xcs_server *server = create_server(2);
    add_model(server, "doubles", DOUBLES, NULL);
    xcs_grpc *grpc = open_grpc(server);
    for (int i = 0; i < 5; i++) {
        const int fd = connect_to(grpc);
        send_calls(fd, "doubles", 1, 1);
        ck_assert_uint_eq(receive_results(fd, 1, NULL), 1);
        send_calls(fd, "doubles", 3, 1);
        ck_assert_uint_eq(receive_results(fd, 1, NULL), 1);
        /* Several at once run on the threads of the pool. */
        send_calls(fd, "doubles", 5, 50);
        ck_assert_uint_eq(receive_results(fd, 50, NULL), 50);
        close(fd);
    }
    xcs_grpc_destroy(grpc);
    xcs_grpc_destroy(NULL);
    ck_assert_uint_eq(statistics_of(server, "doubles").succeeded, 5 * 52);
    xcs_server_destroy(server);
}
END_TEST

START_TEST(refuses_addresses)
{
    static const struct {
        const char *address, *message;
    } cases[] = {
        {"127.0.0.1", "is not an address"}, {"unix:", "the path of a socket"}, {"0.0.0.0:0", "needs an API key"}};
    xcs_server *server = create_server(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const xcs_grpc_options options = {.size = sizeof options, .address = cases[i].address};
        xcs_grpc *grpc = NULL;
        xcvm_error error = {0};
        ck_assert_int_ne(xcs_grpc_create(server, &options, &grpc, &error), XCVM_OK);
        ck_assert_msg(strstr(error.message, cases[i].message) != NULL, "%s", error.message);
        ck_assert_ptr_null(grpc);
    }
    xcs_server_destroy(server);
}
END_TEST

/* Reads frames until `wanted` streams have ended, and returns the bytes of data. */
static size_t receive_bytes(int fd, unsigned wanted)
{
    uint8_t head[9], body[20000];
    size_t bytes = 0;
    for (unsigned ended = 0; ended < wanted;) {
        ck_assert(receive_all(fd, head, sizeof head));
        const size_t length = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        ck_assert_uint_le(length, sizeof body);
        ck_assert(receive_all(fd, body, length));
        bytes += head[3] == DATA ? length : 0;
        ck_assert_int_ne(head[3], RST_STREAM);
        ended += head[3] == HEADERS && (head[4] & END_STREAM) != 0;
    }
    return bytes;
}

/* Inputs end with the runs, although the client reads no response. */
START_TEST(inputs_end)
{
    enum { CALLS = 20, MIB = 1 << 20 };
    xcs_server *server = create_server(1);
    float *elements = calloc(LONG, sizeof *elements);
    add_model(server, "long", LONG_INPUT, NULL);
    const size_t before = statistics_of(server, "long").memory_bytes;
    xcs_grpc *grpc = open_grpc(server);
    const int fd = connect_to(grpc);
    send_preface(fd, 0);
    send_long_calls(fd, "long", 1, CALLS, elements, LONG);
    while (statistics_of(server, "long").succeeded < CALLS)
        usleep(200);
    /* The session has its last input. */
    for (int i = 0; i < 10000 && statistics_of(server, "long").memory_bytes > before + 2 * MIB; i++)
        usleep(200);
    ck_assert_uint_le(statistics_of(server, "long").memory_bytes, before + 2 * MIB);
    close(fd);
    xcs_grpc_destroy(grpc);
    xcs_server_destroy(server);
    free(elements);
}
END_TEST

/* A client that reads no responses uses up its own share: 31 responses are less than 128 MiB. Another is served. */
START_TEST(greedy_client)
{
    enum { CALLS = 60, HELD = 31 };
    xcs_server *server = create_server(1);
    add_model(server, "long", LONG_OUTPUT, NULL);
    xcs_grpc *grpc = open_limited(server, 1 << 20);
    const int greedy = connect_to(grpc);
    static const float elements[] = {1.5F, 2};
    send_preface(greedy, 0);
    send_long_calls(greedy, "long", 1, CALLS, elements, 2);
    ck_assert_uint_eq(receive_bytes(greedy, CALLS - HELD), 0);
    ck_assert_uint_eq(last_statistics_of(server, "long").succeeded, CALLS);
    /* The server closes a connection that is silent for long. */
    const int other = connect_to(grpc);
    send_preface(other, 1 << 30);
    send_long_calls(other, "long", 1, 1, elements, 2);
    ck_assert_uint_gt(receive_bytes(other, 1), 1 << 22);
    /* What a client held is free after it has left. */
    close(greedy);
    const int next = connect_to(grpc);
    send_preface(next, 1 << 30);
    send_long_calls(next, "long", 1, HELD, elements, 2);
    ck_assert_uint_gt(receive_bytes(next, HELD), (size_t)HELD << 22);
    close(other);
    close(next);
    xcs_grpc_destroy(grpc);
    xcs_server_destroy(server);
}
END_TEST

/* A client that leaves cancels its requests, those that wait and the one that runs. */
START_TEST(clients_leave)
{
    enum { CALLS = 10 };
    xcs_server *server = create_server(1);
    add_model(server, "endless", ENDLESS, NULL);
    xcs_grpc *grpc = open_grpc(server);
    for (uint64_t i = 1; i <= 3; i++) {
        const int fd = connect_to(grpc);
        send_calls(fd, "endless", 1, CALLS);
        while (statistics_of(server, "endless").running == 0 || statistics_of(server, "endless").waiting < CALLS - 1)
            usleep(200);
        close(fd);
        while (statistics_of(server, "endless").cancelled < i * CALLS || statistics_of(server, "endless").running > 0)
            usleep(200);
    }
    xcs_grpc_destroy(grpc);
    xcs_server_destroy(server);
}
END_TEST

static void *destroy_grpc(void *grpc)
{
    xcs_grpc_destroy(grpc);
    return NULL;
}

/* The end waits for calls that the pool has. Their responses arrive, and then the connection ends. */
START_TEST(ends_after_calls)
{
    xcs_server *server = create_server(1);
    pthread_t thread;
    bool went_away = false;
    completions all = COMPLETIONS_INITIAL;
    tagged occupied = {&all, 0};
    add_model(server, "doubles", DOUBLES, NULL);
    add_model(server, "endless", ENDLESS, NULL);
    xcs_grpc *grpc = open_grpc(server);
    xcs_request *running = occupy(server, &occupied);
    const int fd = connect_to(grpc);
    send_calls(fd, "doubles", 1, 5);
    while (statistics_of(server, "doubles").waiting < 5)
        usleep(200);
    ck_assert_int_eq(pthread_create(&thread, NULL, destroy_grpc, grpc), 0);
    usleep(50000);
    xcs_request_cancel(running);
    ck_assert_uint_eq(receive_results(fd, 5, &went_away), 5);
    ck_assert(went_away);
    ck_assert_uint_eq(receive_results(fd, 1, NULL), 0);
    pthread_join(thread, NULL);
    close(fd);
    xcs_request_release(running);
    xcs_server_destroy(server);
}
END_TEST

/* Readiness changes while calls arrive: they are served in either case. */
START_TEST(readiness)
{
    xcs_server *server = create_server(1);
    bool went_away = false;
    add_model(server, "doubles", DOUBLES, NULL);
    xcs_grpc *grpc = open_grpc(server);
    const int old = connect_to(grpc);
    send_calls(old, "doubles", 1, 1);
    ck_assert_uint_eq(receive_results(old, 1, NULL), 1);
    xcs_grpc_set_ready(grpc, false);
    /* It is told to go away, and closed once the client had time to see it. */
    ck_assert_uint_eq(receive_results(old, 1, &went_away), 0);
    ck_assert(went_away);
    const int new = connect_to(grpc);
    send_calls(new, "doubles", 1, 1);
    ck_assert_uint_eq(receive_results(new, 1, NULL), 1);
    xcs_grpc_set_ready(grpc, true);
    xcs_grpc_destroy(grpc);
    close(old);
    close(new);
    xcs_server_destroy(server);
}
END_TEST

Suite *suite_server_grpc(void);
Suite *suite_server_grpc(void)
{
    return SUITE_OF("server_grpc", answers, refuses_addresses, clients_leave, ends_after_calls, readiness, inputs_end,
                    greedy_client);
}

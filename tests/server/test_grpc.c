/* Tests of the gRPC server as a library: addresses, a call, clients that leave, threads of the pool, and the end while
 * calls run. The client writes HTTP/2 by hand. */
#include "tests/server/support.h"
#include "xcvm/server_grpc.h"

#include "server/grpc/protobuf.h"

#include <arpa/inet.h>
#include <sys/socket.h>

static xcs_grpc *open_grpc(xcs_server *server)
{
    const xcs_grpc_options options = {.size = sizeof options, .address = "127.0.0.1:0"};
    xcs_grpc *grpc = NULL;
    xcvm_error error = {0};
    ck_assert_msg(xcs_grpc_create(server, &options, &grpc, &error) == XCVM_OK, "%s", error.message);
    return grpc;
}

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

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, GOAWAY = 7, END_STREAM = 1, END_HEADERS = 4 };

/* The preface of a connection and a ModelInfer call for each of `streams`. */
static void send_calls(int fd, const char *model, unsigned first, unsigned streams)
{
    static const float elements[] = {1.5F, 2};
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
    xcs_put_integer(&message, 3, 2);
    xcs_field_end(&message, input);
    xcs_put_bytes(&message, 7, elements, sizeof elements);
    xcs_frame_end(&message, begin);
    if (first == 1) {
        xcs_text_put(&text, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        put_http2_frame(&text, SETTINGS, 0, 0, "", 0);
    }
    for (unsigned i = 0; i < streams; i++) {
        put_http2_frame(&text, HEADERS, END_HEADERS, first + 2 * i, block.at, block.count);
        put_http2_frame(&text, DATA, END_STREAM, first + 2 * i, message.at, message.count);
    }
    ck_assert_int_eq(send(fd, text.at, text.count, MSG_NOSIGNAL), (ssize_t)text.count);
    xcs_text_free(&text);
    xcs_text_free(&block);
    xcs_text_free(&message);
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
    return SUITE_OF("server_grpc", answers, refuses_addresses, clients_leave, ends_after_calls, readiness);
}

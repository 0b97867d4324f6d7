/* Tests of the parts of gRPC that need no connection: timeouts, texts, frames, decompression, and requests that arrive
 * in pieces of every length. */
#include "tests/server/support.h"

#include "server/grpc/descriptors.h"
#include "server/grpc/framing.h"
#include "server/grpc/grpc.h"
#include "server/grpc/infer_read.h"
#include "server/grpc/infer_write.h"
#include "server/grpc/protobuf.h"

#include <zlib.h>

START_TEST(timeouts)
{
    static const struct {
        const char *text;
        uint64_t ns; /* UINT64_MAX - 1: not valid */
    } cases[] = {{"1n", 1},
                 {"0S", 0},
                 {"2u", 2000},
                 {"3m", 3000000},
                 {"99999999S", UINT64_C(99999999000000000)},
                 {"1M", UINT64_C(60000000000)},
                 {"1H", UINT64_C(3600000000000)},
                 {"99999999H", UINT64_MAX},
                 {"", UINT64_MAX - 1},
                 {"S", UINT64_MAX - 1},
                 {"1", UINT64_MAX - 1},
                 {"1s", UINT64_MAX - 1},
                 {"-1S", UINT64_MAX - 1},
                 {" 1S", UINT64_MAX - 1},
                 {"1S ", UINT64_MAX - 1},
                 {"123456789S", UINT64_MAX - 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t ns = 0;
        const bool valid = xcs_grpc_timeout_read(cases[i].text, &ns);
        ck_assert_msg(valid == (cases[i].ns != UINT64_MAX - 1), "%s", cases[i].text);
        ck_assert_msg(!valid || ns == cases[i].ns, "%s: %llu", cases[i].text, (unsigned long long)ns);
    }
}
END_TEST

START_TEST(status_messages)
{
    char text[20];
    ck_assert_uint_eq(xcs_grpc_message_write("a b%\n\xc3\xa9~", text, sizeof text), 16);
    ck_assert_str_eq(text, "a b%25%0A%C3%A9~");
    ck_assert_uint_eq(xcs_grpc_message_write("12345678901234567\xff", text, sizeof text), 17);
    ck_assert_uint_eq(xcs_grpc_message_write("", text, sizeof text), 0);
    ck_assert_int_eq(xcs_grpc_status_of(XCS_NONE, XCVM_OK), XCS_GRPC_OK);
    ck_assert_int_eq(xcs_grpc_status_of(XCS_QUEUE_FULL, XCVM_OUT_OF_MEMORY), XCS_GRPC_RESOURCE_EXHAUSTED);
    ck_assert_int_eq(xcs_grpc_status_of(XCS_DRAINING, XCVM_CANCELLED), XCS_GRPC_UNAVAILABLE);
    ck_assert_int_eq(xcs_grpc_status_of(XCS_FAILED, XCVM_INVALID_PROGRAM), XCS_GRPC_INTERNAL);
}
END_TEST

/* ---- Frames ---- */

typedef struct received {
    xcs_text text;
    size_t ends, stop_at;
} received;

static bool receive(void *user, const uint8_t *bytes, size_t count)
{
    xcs_text_add(&((received *)user)->text, bytes, count);
    return true;
}

static bool end(void *user)
{
    received *r = user;
    xcs_text_put(&r->text, "|");
    return ++r->ends != r->stop_at;
}

static void put_frame(xcs_text *text, const void *bytes, size_t count, char flag)
{
    const size_t begin = xcs_frame_begin(text);
    xcs_text_add(text, bytes, count);
    xcs_frame_end(text, begin);
    text->at[begin - XCS_FRAME_PREFIX] = flag;
}

static size_t deflate_with(int window, const char *text, uint8_t *to, size_t room)
{
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)text,
                       .avail_in = (unsigned)strlen(text),
                       .next_out = to,
                       .avail_out = (unsigned)room};
    ck_assert_int_eq(deflateInit2(&stream, 9, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
    ck_assert_int_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
    ck_assert_int_eq(deflateEnd(&stream), Z_OK);
    return stream.total_out;
}

/* Messages, of which some are compressed or empty, in pieces of every length. */
START_TEST(frames)
{
    static const struct {
        const char *encoding;
        int window;
    } cases[] = {{"gzip", 31}, {"deflate", 15}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t packed[100];
        const size_t length = deflate_with(cases[i].window, "compressed", packed, sizeof packed);
        xcs_text text = {0};
        put_frame(&text, "plain", 5, 0);
        put_frame(&text, packed, length, 1);
        put_frame(&text, "", 0, 0);
        put_frame(&text, packed, length, 1);
        ck_assert(xcs_inflate_supports(cases[i].encoding));
        for (size_t piece = 1; piece <= text.count; piece++) {
            received r = {.stop_at = 0};
            const xcs_framing_options options = {.allocator = xcvm_allocator_or_default(NULL),
                                                 .encoding = cases[i].encoding,
                                                 .limit = 100,
                                                 .user = &r,
                                                 .receive = receive,
                                                 .end = end};
            xcs_framing framing = {.left = 0};
            for (size_t at = 0; at < text.count; at += piece) {
                const size_t count = text.count - at < piece ? text.count - at : piece;
                ck_assert_int_eq(xcs_framing_feed(&framing, &options, (const uint8_t *)text.at + at, count, NULL),
                                 XCVM_OK);
            }
            ck_assert(xcs_framing_is_between(&framing));
            ck_assert_uint_eq(framing.message_count, 4);
            xcs_text_add(&r.text, "", 1);
            ck_assert_str_eq(r.text.at, "plain|compressed||compressed|");
            xcs_text_free(&r.text);
            xcs_framing_release(&framing);
        }
        xcs_text_free(&text);
    }
    ck_assert(!xcs_inflate_supports("identity") && !xcs_inflate_supports("br") && !xcs_inflate_supports(""));
}
END_TEST

START_TEST(bad_frames)
{
    uint8_t packed[200];
    const size_t length = deflate_with(31, "compressed data", packed, sizeof packed);
    static const struct {
        const char *encoding, *message;
        size_t limit;
        int change; /* of the compressed data: 0 none, 1 cut, 2 longer, 3 broken, 4 flag */
        xcs_grpc_status status;
    } cases[] = {{"gzip", "limit of 14", 14, 0, XCS_GRPC_RESOURCE_EXHAUSTED},
                 {"gzip", "end too early", 100, 1, XCS_GRPC_INTERNAL},
                 {"gzip", "bytes follow", 100, 2, XCS_GRPC_INTERNAL},
                 {"gzip", "not valid", 100, 3, XCS_GRPC_INTERNAL},
                 {"", "is not sent", 100, 0, XCS_GRPC_INTERNAL},
                 {"identity", "is not sent", 100, 0, XCS_GRPC_INTERNAL},
                 {"gzip", "flag of compression is 2", 100, 4, XCS_GRPC_INTERNAL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        xcs_text text = {0};
        received r = {.stop_at = 0};
        xcvm_error error = {0};
        xcs_framing framing = {.left = 0};
        packed[length] = 'x';
        put_frame(&text, packed, length - (cases[i].change == 1) + (cases[i].change == 2),
                  cases[i].change == 4 ? 2 : 1);
        if (cases[i].change == 3)
            text.at[XCS_FRAME_PREFIX + 12] = (char)0xff;
        const xcs_framing_options options = {.allocator = xcvm_allocator_or_default(NULL),
                                             .encoding = cases[i].encoding,
                                             .limit = cases[i].limit > 50 ? 100
                                                      : length > 14       ? length
                                                                          : 14,
                                             .user = &r,
                                             .receive = receive,
                                             .end = end};
        xcs_framing_options o = options;
        /* The limit holds for decompressed bytes: compressed ones must not exceed it either. */
        if (cases[i].limit == 14)
            o.limit = 14;
        ck_assert_int_ne(xcs_framing_feed(&framing, &o, (const uint8_t *)text.at, text.count, &error), XCVM_OK);
        ck_assert_msg(strstr(error.message, cases[i].message) != NULL, "case %zu: %s", i, error.message);
        ck_assert_int_eq(framing.status, cases[i].status);
        xcs_framing_release(&framing);
        xcs_text_free(&text);
        xcs_text_free(&r.text);
    }
    /* A receiver that stops. */
    xcs_text text = {0};
    received r = {.stop_at = 1};
    xcs_framing framing = {.left = 0};
    put_frame(&text, "a", 1, 0);
    put_frame(&text, "b", 1, 0);
    const xcs_framing_options options = {.encoding = "", .limit = 1, .user = &r, .receive = receive, .end = end};
    ck_assert_int_eq(xcs_framing_feed(&framing, &options, (const uint8_t *)text.at, text.count, NULL), XCVM_CANCELLED);
    ck_assert_uint_eq(r.ends, 1);
    xcs_text_free(&text);
    xcs_text_free(&r.text);
}
END_TEST

/* ---- Requests ---- */

static void put_input(xcs_text *text, const char *name, const char *datatype, const int64_t *dims, int rank,
                      const xcs_text *contents)
{
    const size_t begin = xcs_field_begin(text, 5);
    xcs_put_string(text, 1, name);
    xcs_put_string(text, 2, datatype);
    for (int i = 0; i < rank; i++)
        xcs_put_integer(text, 3, (uint64_t)dims[i]);
    if (contents != NULL)
        xcs_put_bytes(text, 5, contents->at, contents->count);
    xcs_field_end(text, begin);
}

/* Reads a request in pieces. Returns its status. */
static xcvm_status read_request(xcs_server *server, const xcs_text *message, size_t piece, size_t budget,
                                xcs_infer_reader *reader, size_t *unfilled, xcvm_error *error)
{
    *unfilled = 0;
    *reader = (xcs_infer_reader){
        .server = server, .allocator = xcvm_allocator_or_default(NULL), .unfilled = unfilled, .unfilled_limit = budget};
    xcvm_status status = XCVM_OK;
    for (size_t at = 0; status == XCVM_OK && at < message->count; at += piece) {
        const size_t count = message->count - at < piece ? message->count - at : piece;
        /* A block of its own, so that the sanitizer sees reads beyond it. */
        uint8_t *copy = malloc(count);
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, message->at + at, count);
        status = xcs_infer_reader_feed(reader, copy, count, error);
        free(copy);
    }
    return status == XCVM_OK ? xcs_infer_reader_end(reader, error) : status;
}

#define PAIR                                                                                                           \
    "input a f32[2x2]\ninput b u8[3]\noutput y f32[2x2]\n$1 = In(name=\"a\")\n$2 = In(name=\"b\")\nFree($2)\n"         \
    "Out($1, name=\"y\")\n"

static void put_pair(xcs_text *text, const char *order)
{
    static const int64_t matrix[] = {2, 2}, bytes[] = {3};
    static const float floats[] = {1, 2, 3, 4};
    for (; *order != '\0'; order++)
        switch (*order) {
        case 'm':
            xcs_put_string(text, 1, "pair");
            break;
        case 'v':
            xcs_put_string(text, 2, "1");
            break;
        case 'i':
            xcs_put_string(text, 3, "id");
            break;
        case 'a':
            put_input(text, "a", "FP32", matrix, 2, NULL);
            break;
        case 'b':
            put_input(text, "b", "UINT8", bytes, 1, NULL);
            break;
        case 'A':
            xcs_put_bytes(text, 7, floats, sizeof floats);
            break;
        case 'B':
            xcs_put_bytes(text, 7, "xyz", 3);
            break;
        case 'u': /* unknown fields of every type */
            xcs_put_integer(text, 99, 5);
            xcs_put_string(text, 98, "unknown");
            xcs_text_add(text,
                         "\xb5\x06"
                         "1234"
                         "\xb1\x06"
                         "12345678",
                         16);
            break;
        default:
            ck_abort();
        }
}

/* Every order of fields that is valid, in pieces of every length, with and without room for tensors ahead. */
START_TEST(requests_in_pieces)
{
    static const char *const orders[] = {"mviabAB", "mabAB", "ABabm", "aAbBvm", "muabuAuB", "mAaBb", "maAbB", "baBAim"};
    xcs_server *server = create_server(1);
    add_model(server, "pair", PAIR, NULL);
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        xcs_text message = {0};
        put_pair(&message, orders[i]);
        const bool swapped = strchr(orders[i], 'B') < strchr(orders[i], 'A');
        ck_assert(!swapped || orders[i][0] == 'b');
        for (size_t piece = 1; piece <= message.count; piece++)
            for (size_t budget = 0; budget <= 100; budget += 50) {
                xcs_infer_reader reader;
                xcvm_error error = {0};
                size_t unfilled;
                ck_assert_msg(read_request(server, &message, piece, budget, &reader, &unfilled, &error) == XCVM_OK,
                              "%s, %zu: %s", orders[i], piece, error.message);
                ck_assert_uint_eq(unfilled, 0);
                ck_assert_uint_eq(reader.infer.input_count, 2);
                ck_assert_uint_eq(reader.infer.output_count, 1);
                ck_assert_float_eq(((const float *)xcvm_value_data(reader.infer.inputs[0]))[3], 4);
                ck_assert_mem_eq(xcvm_value_data(reader.infer.inputs[1]), "xyz", 3);
                ck_assert(strchr(orders[i], 'i') == NULL || strcmp(reader.infer.id, "id") == 0);
                xcs_infer_reader_release(&reader);
            }
        xcs_text_free(&message);
    }
    xcs_server_destroy(server);
}
END_TEST

/* A request that ends or breaks anywhere is refused, and what it held is released. */
START_TEST(broken_requests)
{
    xcs_server *server = create_server(1);
    add_model(server, "pair", PAIR, NULL);
    xcs_text message = {0};
    put_pair(&message, "mviabAB");
    const size_t whole = message.count;
    for (message.count = 0; message.count < whole; message.count++)
        for (size_t piece = 1; piece <= whole; piece += 6) {
            xcs_infer_reader reader;
            xcvm_error error = {0};
            size_t unfilled;
            ck_assert_int_ne(read_request(server, &message, piece, 100, &reader, &unfilled, &error), XCVM_OK);
            xcs_infer_reader_release(&reader);
            ck_assert_uint_eq(unfilled, 0);
        }
    static const struct {
        const char *order, *message;
    } cases[] = {{"mabABA", "more \"raw_input_contents\" than inputs"},
                 {"mabA", "there are 1 \"raw_input_contents\""},
                 {"mab", "has neither"},
                 {"abAB", "no \"model_name\""},
                 {"mabBA", "have 3 bytes; the shape and datatype have 16"},
                 {"maaAA", "given twice"},
                 {"maA", "input \"b\" is missing"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        message.count = 0;
        put_pair(&message, cases[i].order);
        for (size_t piece = 1; piece <= message.count; piece++) {
            xcs_infer_reader reader;
            xcvm_error error = {0};
            size_t unfilled;
            ck_assert_int_ne(read_request(server, &message, piece, 100, &reader, &unfilled, &error), XCVM_OK);
            ck_assert_msg(strstr(error.message, cases[i].message) != NULL, "%s", error.message);
            xcs_infer_reader_release(&reader);
            ck_assert_uint_eq(unfilled, 0);
        }
    }
    xcs_text_free(&message);
    xcs_server_destroy(server);
}
END_TEST

/* An announced tensor takes memory as it arrives if many are announced. */
START_TEST(announced_tensors)
{
    static const int64_t dims[] = {32 << 20};
    xcs_server *server = create_server(1);
    add_model(server, "bytes", "input x u8[N]\noutput y u8[N]\n$1 = In(name=\"x\")\nOut($1, name=\"y\")\n", NULL);
    const size_t before = statistics_of(server, "bytes").memory_bytes;
    xcs_text message = {0};
    xcs_put_string(&message, 1, "bytes");
    put_input(&message, "x", "UINT8", dims, 1, NULL);
    xcs_put_varint(&message, 7 << 3 | 2);
    xcs_put_varint(&message, (uint64_t)dims[0]);
    xcs_text_put(&message, "begun");
    xcs_infer_reader readers[8];
    size_t unfilled = 0;
    for (size_t i = 0; i < 8; i++) {
        readers[i] = (xcs_infer_reader){.server = server,
                                        .allocator = xcvm_allocator_or_default(NULL),
                                        .unfilled = &unfilled,
                                        .unfilled_limit = 64 << 20};
        ck_assert_int_eq(xcs_infer_reader_feed(&readers[i], (const uint8_t *)message.at, message.count, NULL), XCVM_OK);
    }
    ck_assert_uint_eq(unfilled, 64 << 20);
    ck_assert_uint_ge(xcs_infer_reader_held(&readers[0]), 32 << 20);
    ck_assert_uint_lt(statistics_of(server, "bytes").memory_bytes - before, 65 << 20);
    for (size_t i = 0; i < 8; i++)
        xcs_infer_reader_release(&readers[i]);
    ck_assert_uint_eq(unfilled, 0);
    ck_assert_uint_eq(statistics_of(server, "bytes").memory_bytes, before);
    xcs_text_free(&message);
    xcs_server_destroy(server);
}
END_TEST

START_TEST(descriptors)
{
    static const struct {
        const char *symbol;
        bool found, is_message;
    } cases[] = {{"inference.ModelInferRequest", true, true},
                 {"inference.ModelInferRequest.InferInputTensor", true, true},
                 {"inference.ModelInferRequest.model_name", true, false},
                 {"inference.GRPCInferenceService", true, false},
                 {"inference.GRPCInferenceService.ModelInfer", true, false},
                 {"grpc.health.v1.HealthCheckResponse.ServingStatus", true, false},
                 {"grpc.health.v1.HealthCheckResponse.NOT_SERVING", true, false},
                 {"inference", false, false},
                 {"inference.", false, false},
                 {"", false, false},
                 {"inference.ModelInferReques", false, false},
                 {"inference.ModelInferRequest.", false, false},
                 {"inference.ModelInferRequest.none", false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        xcvm_wire file;
        const char *symbol = cases[i].symbol;
        ck_assert_msg(xcs_descriptor_find_symbol(symbol, strlen(symbol), &file) == cases[i].found, "%s", symbol);
        ck_assert_msg(xcs_descriptor_is_message(symbol, strlen(symbol)) == cases[i].is_message, "%s", symbol);
    }
}
END_TEST

Suite *suite_server_grpc_messages(void);
Suite *suite_server_grpc_messages(void)
{
    return SUITE_OF("server_grpc_messages", timeouts, status_messages, frames, bad_frames, requests_in_pieces,
                    broken_requests, announced_tensors, descriptors);
}

/* Tests of traces: headers of the trace context, sampling, profiles of requests, the last traces, and URLs. */
#include "base/clock.h"
#include "server/trace/collector.h"
#include "server/trace/exporter.h"
#include "tests/server/support.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <unistd.h>

#define TRACE_ID "0af7651916cd43dd8448eb211c80319c"
#define PARENT "00-" TRACE_ID "-b7ad6b7169203331-01"

/* ---- Headers ---- */

START_TEST(parents)
{
    static const struct {
        const char *value;
        bool valid, sampled;
    } cases[] = {
        {PARENT, true, true},
        {"00-" TRACE_ID "-b7ad6b7169203331-00", true, false},
        {"00-" TRACE_ID "-b7ad6b7169203331-02", true, false},
        {"00-" TRACE_ID "-b7ad6b7169203331-ff", true, true},
        {"01-" TRACE_ID "-b7ad6b7169203331-01", true, true}, /* a later version */
        {"01-" TRACE_ID "-b7ad6b7169203331-01-more", true, true},
        {"01-" TRACE_ID "-b7ad6b7169203331-01more", false, false},
        {"00-" TRACE_ID "-b7ad6b7169203331-01-more", false, false},
        {"ff-" TRACE_ID "-b7ad6b7169203331-01", false, false},
        {"0-" TRACE_ID "-b7ad6b7169203331-01", false, false},
        {"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", false, false}, /* upper case */
        {"00-00000000000000000000000000000000-b7ad6b7169203331-01", false, false},
        {"00-" TRACE_ID "-0000000000000000-01", false, false},
        {"00-" TRACE_ID "-b7ad6b7169203331-0", false, false},
        {"00-" TRACE_ID "-b7ad6b7169203331-0g", false, false},
        {"00_" TRACE_ID "-b7ad6b7169203331-01", false, false},
        {"00-" TRACE_ID, false, false},
        {"", false, false},
        {"00", false, false},
        {PARENT "," PARENT, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        xcs_trace_headers headers = {.parents = 0};
        xcs_trace_headers_add_parent(&headers, cases[i].value);
        ck_assert_msg(xcs_trace_headers_are_valid(&headers) == cases[i].valid, "%s", cases[i].value);
        ck_assert_msg(!cases[i].valid || headers.sampled == cases[i].sampled, "%s", cases[i].value);
    }
    /* Two headers contradict each other. */
    xcs_trace_headers headers = {.parents = 0};
    xcs_trace_headers_add_parent(&headers, PARENT);
    xcs_trace_headers_add_parent(&headers, PARENT);
    ck_assert(!xcs_trace_headers_are_valid(&headers));
}
END_TEST

START_TEST(states)
{
    static const struct {
        const char *first, *second, *state;
    } cases[] = {
        {"a=1", NULL, "a=1"},
        {"a=1, b=2 ,\tc=3", NULL, "a=1,b=2,c=3"},
        {"a=1", "b=2", "a=1,b=2"},
        {",, a=1,", ",", "a=1"},
        {"t0@v-_*/=x y", NULL, "t0@v-_*/=x y"},
        {"a=1,a=2", NULL, ""}, /* a key twice */
        {"a=1", "a=2", ""},
        {"A=1", NULL, ""},
        {"a=1,b", NULL, ""},
        {"a=", NULL, ""},
        {"a=1=2", NULL, ""},
        {"a=\x01", NULL, ""},
        {"a=\xc3\xa9", NULL, ""},
        {"=1", NULL, ""},
        {"a@b@c=1", NULL, ""},
        {"a@=1", NULL, ""},
        {"", NULL, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        xcs_trace_headers headers = {.parents = 0};
        xcs_trace_headers_add_state(&headers, cases[i].first);
        if (cases[i].second != NULL)
            xcs_trace_headers_add_state(&headers, cases[i].second);
        ck_assert_str_eq(xcs_trace_headers_state(&headers), cases[i].state);
    }
}
END_TEST

/* Long states lose their last members, as a whole; too many members are refused. */
START_TEST(long_states)
{
    char text[16384];
    for (int members = 31; members <= 34; members++) {
        xcs_trace_headers headers = {.parents = 0};
        text[0] = '\0';
        for (int i = 0; i < members; i++)
            sprintf(text + strlen(text), "%sk%d=%d", i > 0 ? "," : "", i, i);
        xcs_trace_headers_add_state(&headers, text);
        ck_assert_str_eq(xcs_trace_headers_state(&headers), members <= 32 ? text : "");
    }
    for (int length = 250; length <= 258; length++) {
        xcs_trace_headers headers = {.parents = 0};
        sprintf(text, "a=%0*d,b=%0*d,c=1", length, 0, length, 0);
        xcs_trace_headers_add_state(&headers, text);
        const size_t all = 2 * (size_t)length + 9, two = all - 4, one = (size_t)length + 2;
        const size_t expected = length > 256                   ? 0
                                : all <= XCS_TRACE_STATE_BYTES ? all
                                : two <= XCS_TRACE_STATE_BYTES ? two
                                                               : one;
        ck_assert_uint_eq(strlen(xcs_trace_headers_state(&headers)), expected);
    }
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    xcs_trace_headers headers = {.parents = 0};
    xcs_trace_headers_add_state(&headers, text);
    ck_assert_str_eq(xcs_trace_headers_state(&headers), "");
}
END_TEST

/* ---- Tracers ---- */

static xcs_tracer *create_tracer(unsigned every)
{
    const xcs_tracer_options options = {.size = sizeof options, .sample_every = every};
    xcs_tracer *tracer = NULL;
    ck_assert_int_eq(xcs_tracer_create(&options, &tracer, NULL), XCVM_OK);
    return tracer;
}

static void end_trace(xcs_trace *trace)
{
    const xcs_trace_request request = {.method = "POST",
                                       .path = "/v2/models/m/infer",
                                       .route = "/v2/models/{model}/infer",
                                       .scheme = "http",
                                       .status = 200,
                                       .sent = true};
    xcs_trace_end(trace, &request);
}

/* A context decides alone; the rate is for requests without one, or with one that is not valid. */
START_TEST(samples)
{
    static const struct {
        const char *parent;
        unsigned every;
        bool sampled;
    } cases[] = {{PARENT, 0, true},     {"00-" TRACE_ID "-b7ad6b7169203331-00", 1, false},
                 {NULL, 0, false},      {NULL, 1, true},
                 {"nonsense", 1, true}, {"nonsense", 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        xcs_tracer *tracer = create_tracer(cases[i].every);
        xcs_trace_headers headers = {.parents = 0};
        if (cases[i].parent != NULL)
            xcs_trace_headers_add_parent(&headers, cases[i].parent);
        xcs_trace *trace = xcs_trace_begin(tracer, cases[i].parent != NULL ? &headers : NULL, xcvm_clock_ns());
        ck_assert_int_eq(trace != NULL, cases[i].sampled);
        if (trace != NULL && headers.is_valid)
            ck_assert_str_eq(xcs_trace_id(trace), TRACE_ID);
        else if (trace != NULL)
            ck_assert_str_ne(xcs_trace_id(trace), TRACE_ID);
        if (trace != NULL)
            end_trace(trace);
        xcs_tracer_destroy(tracer);
    }
    xcs_tracer *tracer = create_tracer(4);
    int sampled = 0;
    for (int i = 0; i < 4000; i++) {
        xcs_trace *trace = xcs_trace_begin(tracer, NULL, xcvm_clock_ns());
        sampled += trace != NULL;
        if (trace != NULL)
            end_trace(trace);
    }
    ck_assert_int_gt(sampled, 800); /* seven standard deviations */
    ck_assert_int_lt(sampled, 1200);
    xcs_tracer_destroy(tracer);
    ck_assert_ptr_null(xcs_trace_begin(NULL, NULL, 1));
    xcs_tracer_destroy(NULL);
}
END_TEST

static size_t count_of(const char *text, const char *part)
{
    const size_t length = strlen(part);
    size_t count = 0;
    for (; *text != '\0'; text++)
        count += *text == *part && strncmp(text, part, length) == 0;
    return count;
}

/* The last traces are bounded by number and by bytes. */
START_TEST(keeps_the_last)
{
    static xcs_instruction instructions[XCS_PROFILE_INSTRUCTIONS];
    for (size_t i = 0; i < XCS_PROFILE_INSTRUCTIONS; i++)
        instructions[i] =
            (xcs_instruction){(int32_t)i, "Add", "a node whose name has some thirty bytes", 100 + i, 101 + i};
    for (int large = 0; large < 2; large++) {
        xcs_tracer *tracer = create_tracer(1);
        xcs_text text = {.allocator = NULL};
        for (int i = 0; i < 200; i++) {
            xcs_trace *trace = xcs_trace_begin(tracer, NULL, xcvm_clock_ns());
            const xcs_result result = {.size = sizeof result,
                                       .submitted_ns = 10,
                                       .started_ns = 20,
                                       .begun_ns = 90,
                                       .ended_ns = 3000,
                                       .instructions = instructions,
                                       .instruction_count = large ? XCS_PROFILE_INSTRUCTIONS : 1};
            ck_assert(xcs_trace_wants_profile(trace));
            xcs_trace_add_result(trace, &result);
            end_trace(trace);
        }
        xcs_tracer_describe(tracer, &text);
        xcs_text_add(&text, "", 1);
        const size_t kept = count_of(text.at, "\"cat\":\"Request\"");
        ck_assert_uint_eq(count_of(text.at, "\"cat\":\"Node\""), kept * (large ? XCS_PROFILE_INSTRUCTIONS : 1));
        ck_assert_uint_ge(kept, large ? 8 : 64);
        ck_assert_uint_le(kept, large ? 40 : 64);
        xcs_text_free(&text);
        xcs_tracer_destroy(tracer);
    }
}
END_TEST

/* A call of gRPC has the attributes of RPC. Strings of clients are quoted. */
START_TEST(spans_of_calls)
{
    xcs_tracer *tracer = create_tracer(1);
    xcs_text text = {.allocator = NULL};
    xcs_trace_headers headers = {.parents = 0};
    xcs_trace_headers_add_parent(&headers, PARENT);
    xcs_trace *trace = xcs_trace_begin(tracer, &headers, xcvm_clock_ns());
    const xcs_result late = {.size = sizeof late, .reason = XCS_TIMED_OUT, .submitted_ns = 10};
    const xcs_trace_request request = {.method = "POST",
                                       .path = "/a\"\n",
                                       .rpc_service = "a.Service",
                                       .rpc_method = "Call",
                                       .status = 4,
                                       .failed = true};
    xcs_trace_add_result(trace, &late);
    xcs_trace_retain(trace);
    xcs_trace_end(trace, &request);
    xcs_otlp_write(&trace, 1, "a \"service\"", "instance", &text);
    xcs_text_add(&text, "", 1);
    static const char *const parts[] = {"{\"key\":\"service.name\",\"value\":{\"stringValue\":\"a \\\"service\\\"\"}}",
                                        "\"name\":\"a.Service/Call\",\"traceId\":\"" TRACE_ID "\"",
                                        "\"parentSpanId\":\"b7ad6b7169203331\"",
                                        "\"attributes\":[{\"key\":\"rpc.system\",\"value\":{\"stringValue\":\"grpc\"}}",
                                        "{\"key\":\"rpc.service\",\"value\":{\"stringValue\":\"a.Service\"}}",
                                        "{\"key\":\"rpc.method\",\"value\":{\"stringValue\":\"Call\"}}",
                                        "{\"key\":\"rpc.grpc.status_code\",\"value\":{\"intValue\":\"4\"}}",
                                        "{\"key\":\"error.type\",\"value\":{\"stringValue\":\"TIMED_OUT\"}}",
                                        "\"status\":{\"code\":2}"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ck_assert_msg(count_of(text.at, parts[i]) == 1, "%s is not in %s", parts[i], text.at);
    ck_assert_uint_eq(count_of(text.at, "\"spanId\""), xcs_otlp_span_count(trace));
    ck_assert_uint_eq(xcs_otlp_span_count(trace), 3); /* with receive and queue */
    xcs_trace_release(trace);
    xcs_text_free(&text);
    xcs_tracer_destroy(tracer);
}
END_TEST

/* A request of HTTP has the route and the scheme that it came by. */
START_TEST(spans_of_requests)
{
    xcs_tracer *tracer = create_tracer(1);
    xcs_text text = {.allocator = NULL};
    xcs_trace *trace = xcs_trace_begin(tracer, NULL, xcvm_clock_ns());
    const xcs_trace_request request = {.method = "POST",
                                       .path = "/v2/models/m/versions/2/infer",
                                       .route = "/v2/models/{model}/versions/{version}/infer",
                                       .scheme = "https",
                                       .status = 200,
                                       .sent = true};
    xcs_trace_retain(trace);
    xcs_trace_end(trace, &request);
    xcs_otlp_write(&trace, 1, "xcvm", "instance", &text);
    xcs_text_add(&text, "", 1);
    static const char *const parts[] = {
        "\"name\":\"POST /v2/models/{model}/versions/{version}/infer\"",
        "{\"key\":\"http.route\",\"value\":{\"stringValue\":\"/v2/models/{model}/versions/{version}/infer\"}}",
        "{\"key\":\"url.path\",\"value\":{\"stringValue\":\"/v2/models/m/versions/2/infer\"}}",
        "{\"key\":\"url.scheme\",\"value\":{\"stringValue\":\"https\"}}"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ck_assert_msg(count_of(text.at, parts[i]) == 1, "%s is not in %s", parts[i], text.at);
    xcs_trace_release(trace);
    xcs_text_free(&text);
    xcs_tracer_destroy(tracer);
}
END_TEST

/* A silent collector has the first batch when the process ends. Its time is over then, and no other batch begins. */
START_TEST(end_with_silent_collector)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    ck_assert(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 100) == 0 &&
              getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d", ntohs(address.sin_port));
    const xcs_tracer_options options = {.size = sizeof options, .sample_every = 1, .otlp_endpoint = url};
    xcs_tracer *tracer = NULL;
    ck_assert_int_eq(xcs_tracer_create(&options, &tracer, NULL), XCVM_OK);
    for (int i = 0; i < 500; i++)
        end_trace(xcs_trace_begin(tracer, NULL, xcvm_clock_ns()));
    xcs_tracer_destroy(tracer);
    int connections = 0;
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0; connections++)
        close(fd);
    close(listener);
    ck_assert_int_le(connections, 1);
}
END_TEST

/* A resolver that answers for one host when the test says so. */
static const char silent_host[] = "silent.invalid";
static sem_t lookup_begins, lookup_may_end, lookup_ends;

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found)
{
    int (*of_system)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    *(void **)&of_system = dlsym(RTLD_NEXT, "getaddrinfo");
    if (host == NULL || strcmp(host, silent_host) != 0)
        return of_system(host, port, hints, found);
    if ((hints->ai_flags & AI_NUMERICHOST) == 0) {
        sem_post(&lookup_begins);
        sem_wait(&lookup_may_end);
        sem_post(&lookup_ends);
    }
    return EAI_NONAME;
}

/* The end of the exporter does not wait for a lookup of the collector's name. */
START_TEST(end_with_silent_resolver)
{
    const xcs_tracer_options options = {
        .size = sizeof options, .sample_every = 1, .otlp_endpoint = "http://silent.invalid:4318"};
    xcs_tracer *tracer = NULL;
    sem_init(&lookup_begins, 0, 0);
    sem_init(&lookup_may_end, 0, 0);
    sem_init(&lookup_ends, 0, 0);
    ck_assert_int_eq(xcs_tracer_create(&options, &tracer, NULL), XCVM_OK);
    end_trace(xcs_trace_begin(tracer, NULL, xcvm_clock_ns()));
    while (sem_wait(&lookup_begins) != 0)
        continue;
    xcs_tracer_destroy(tracer);
    sem_post(&lookup_may_end);
    while (sem_wait(&lookup_ends) != 0)
        continue;
}
END_TEST

/* ---- Profiles ---- */

typedef struct seen {
    xcs_result result;
    char names[8][32];
    bool done; /* atomic; set last */
} seen;

static void look_at(void *user, const xcs_result *result)
{
    seen *s = user;
    s->result = *result;
    for (size_t i = 0; i < result->instruction_count && i < 8; i++)
        snprintf(s->names[i], sizeof s->names[i], "%s", result->instructions[i].name);
    __atomic_store_n(&s->done, true, __ATOMIC_RELEASE);
}

static void run_profiled(xcs_server *server, const char *name, bool profile, uint64_t timeout_ns, seen *s)
{
    const float elements[] = {1, 2};
    xcvm_value *input = row_tensor(1, elements, true);
    const xcvm_value *inputs[] = {input};
    const xcs_request_options options = {.size = sizeof options,
                                         .name = name,
                                         .input_count = 1,
                                         .inputs = inputs,
                                         .timeout_ns = timeout_ns,
                                         .may_run_here = true,
                                         .profile = profile};
    *s = (seen){.result.reason = XCS_DRAINING};
    xcs_request *request = xcs_server_submit(server, &options, (xcs_completion){look_at, s});
    while (!__atomic_load_n(&s->done, __ATOMIC_ACQUIRE))
        usleep(200);
    xcs_request_release(request);
    xcvm_value_release(input);
}

/* A profiled run lists its instructions; the session then has no observer any more. */
START_TEST(profiles)
{
    xcs_server *server = create_server(1);
    add_model(server, "doubles", DOUBLES, NULL);
    add_model(server, "endless", ENDLESS, NULL);
    for (int i = 0; i < 20; i++) {
        seen s;
        run_profiled(server, "doubles", i % 2 == 0, 0, &s);
        ck_assert_int_eq(s.result.reason, XCS_NONE);
        ck_assert_uint_ne(s.result.submitted_ns, 0);
        ck_assert_uint_le(s.result.submitted_ns, s.result.started_ns);
        ck_assert_uint_eq(s.result.instruction_count, i % 2 == 0 ? 3 : 0);
        if (i % 2 != 0) {
            ck_assert_uint_eq(s.result.begun_ns, 0);
            continue;
        }
        ck_assert_uint_le(s.result.started_ns, s.result.begun_ns);
        ck_assert_uint_le(s.result.begun_ns, s.result.ended_ns);
        ck_assert_str_eq(s.names[0], "In");
        ck_assert_str_eq(s.names[1], "Add");
        ck_assert_str_eq(s.names[2], "Out");
    }
    seen s;
    /* On a busy machine, the time may end before so many instructions have run. */
    uint64_t timeout_ns = 20000000;
    do {
        run_profiled(server, "endless", true, timeout_ns, &s);
        ck_assert_int_eq(s.result.reason, XCS_TIMED_OUT);
        timeout_ns *= 4;
    } while (s.result.instruction_count < XCS_PROFILE_INSTRUCTIONS && timeout_ns < UINT64_C(30000000000));
    ck_assert_uint_eq(s.result.instruction_count, XCS_PROFILE_INSTRUCTIONS);
    ck_assert_uint_gt(s.result.instructions_left_out, 0);
    xcs_server_destroy(server);
}
END_TEST

/* ---- Collectors ---- */

START_TEST(collectors)
{
    static const struct {
        const char *url, *host, *port, *path;
    } good[] = {
        {"http://127.0.0.1:4318", "127.0.0.1", "4318", "/v1/traces"},
        {"http://localhost:1/", "localhost", "1", "/v1/traces"},
        {"HTTP://[::1]:65535/otlp/v1/traces?a=b", "::1", "65535", "/otlp/v1/traces?a=b"},
    };
    static const char *const bad[] = {"",
                                      "127.0.0.1:4318",
                                      "https://127.0.0.1:4318",
                                      "http://127.0.0.1",
                                      "http://:4318",
                                      "http://h:0",
                                      "http://h:65536",
                                      "http://h:43x",
                                      "http://h:4318?x",
                                      "http://[::1]",
                                      "http://[::1:4318",
                                      "http://[::1]x:4318",
                                      "http://user@h:4318",
                                      "http://h:4318/a b",
                                      "http://h:4318/a\r\nX: y",
                                      "unix:/tmp/x"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        xcs_collector collector;
        xcvm_error error = {0};
        ck_assert_msg(xcs_collector_read(good[i].url, &collector, &error) == XCVM_OK, "%s", error.message);
        ck_assert_str_eq(collector.host, good[i].host);
        ck_assert_str_eq(collector.port, good[i].port);
        ck_assert_str_eq(collector.path, good[i].path);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const xcs_tracer_options options = {.size = sizeof options, .otlp_endpoint = bad[i]};
        xcs_tracer *tracer = NULL;
        xcvm_error error = {0};
        ck_assert_msg(xcs_tracer_create(&options, &tracer, &error) != XCVM_OK, "%s", bad[i]);
        ck_assert_msg(strstr(error.message, "http://HOST:PORT") != NULL, "%s", error.message);
        ck_assert_ptr_null(tracer);
    }
}
END_TEST

Suite *suite_server_trace(void);
Suite *suite_server_trace(void)
{
    return SUITE_OF("server_trace", parents, states, long_states, samples, keeps_the_last, spans_of_calls,
                    spans_of_requests, end_with_silent_collector, end_with_silent_resolver, profiles, collectors);
}

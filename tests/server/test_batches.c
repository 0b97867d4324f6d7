/* Tests of requests that run together: each ends at its own deadline or cancellation, also after a batch failed. */
#include "tests/server/support.h"

/* Returns its rows. It fails if an element is below -2, and otherwise runs until it is stopped if one is above 1000. */
#define MOODY                                                                                                          \
    "input x f32[Nx2]\noutput y f32[Nx2]\n$1 = In(name=\"x\")\n$2 = ReduceMin($1, i64[2] 0 1, keepdims=0)\n"           \
    "$3 = Min($2, f32[] 0)\n$4 = Cast($3, to=i64)\n$5 = Gather(f32[2] 1 2, $4, axis=0)\n"                              \
    "$6 = ReduceMax($1, i64[2] 0 1, keepdims=0)\n$7 = Less($6, f32[] 1000)\nJmpTrue($7, to=end)\nloop:\n"              \
    "$8 = Neg(f32[1] 1)\nFree($8)\nJmp(to=loop)\nend:\nOut($1, name=\"y\")\n"
#define FAILS (-5.0f)
#define ENDS_NEVER 5000.0f

typedef struct batch_test {
    xcs_server *server;
    completions all, busy;
    tagged tags[4], busy_tag;
    xcs_request *requests[4];
} batch_test;

/* Submits a row of each number while the worker is busy, and lets the worker take them together. `timeouts` are in
 * nanoseconds. */
static void begin_batch(batch_test *t, size_t count, const float *rows, const uint64_t *timeouts)
{
    *t = (batch_test){.server = create_server(1), .all = COMPLETIONS_INITIAL, .busy = COMPLETIONS_INITIAL};
    t->busy_tag = (tagged){&t->busy, 0};
    add_model(t->server, "endless", ENDLESS, NULL);
    add_model(t->server, "moody", MOODY, NULL);
    xcs_model *model = xcs_server_find_model(t->server, "moody", NULL);
    ck_assert_int_gt(xcs_model_batch_rows(model, NULL), 0);
    xcs_model_release(model);
    xcs_request *occupied = occupy(t->server, &t->busy_tag);
    for (size_t i = 0; i < count; i++) {
        const xcs_request_options o = {.size = sizeof o, .timeout_ns = timeouts[i]};
        t->tags[i] = (tagged){&t->all, (int)i};
        t->requests[i] = submit(t->server, "moody", rows[i], 1, &t->tags[i], &o);
        ck_assert_ptr_nonnull(t->requests[i]);
    }
    xcs_request_cancel(occupied);
    wait_for(&t->busy, 1);
    xcs_request_release(occupied);
}

static void end_batch(batch_test *t)
{
    for (size_t i = 0; i < 4; i++)
        xcs_request_release(t->requests[i]);
    xcs_server_destroy(t->server);
}

static void wait_until_running(const batch_test *t)
{
    while (statistics_of(t->server, "moody").running == 0)
        usleep(200);
}

START_TEST(ends_at_own_deadline)
{
    batch_test t;
    begin_batch(&t, 3, (const float[]){ENDS_NEVER, 1, 2}, (const uint64_t[]){0, 300000000, 400000000});
    wait_for(&t.all, 2);
    ck_assert_int_eq(t.all.tags[0], 1);
    ck_assert_int_eq(t.all.tags[1], 2);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(t.all.reasons[i], XCS_TIMED_OUT);
        ck_assert_str_eq(t.all.message[i], "the deadline has passed");
    }
    xcs_statistics s = statistics_of(t.server, "moody");
    ck_assert_uint_eq(s.running, 1);
    ck_assert_uint_eq(s.timed_out, 2);
    xcs_request_cancel(t.requests[1]); /* has no effect */
    xcs_request_cancel(t.requests[0]);
    wait_for(&t.all, 3);
    ck_assert_int_eq(t.all.tags[2], 0);
    ck_assert_int_eq(t.all.reasons[2], XCS_CANCELLED);
    ck_assert(xcs_server_drain(t.server, 0));
    s = statistics_of(t.server, "moody");
    ck_assert_uint_eq(s.timed_out, 2);
    ck_assert_uint_eq(s.cancelled, 1);
    end_batch(&t);
}
END_TEST

/* A request that is cancelled has its result at once; the run ends when nobody wants a result any more. */
START_TEST(leaves_when_cancelled)
{
    batch_test t;
    begin_batch(&t, 3, (const float[]){ENDS_NEVER, 1, 2}, (const uint64_t[]){0, 0, 0});
    wait_until_running(&t);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(statistics_of(t.server, "moody").running, 1);
        xcs_request_cancel(t.requests[i]);
        ck_assert_uint_eq(t.all.count, i + 1);
        ck_assert_int_eq(t.all.reasons[i], XCS_CANCELLED);
    }
    ck_assert(xcs_server_drain(t.server, 0));
    ck_assert_uint_eq(statistics_of(t.server, "moody").cancelled, 3);
    end_batch(&t);
}
END_TEST

/* After a batch failed, each request runs by itself and can be stopped by itself. */
START_TEST(stops_after_failed_batch)
{
    batch_test t;
    begin_batch(&t, 4, (const float[]){FAILS, ENDS_NEVER, ENDS_NEVER, 3}, (const uint64_t[]){0, 0, 500000000, 0});
    wait_for(&t.all, 1);
    ck_assert_int_eq(t.all.tags[0], 0);
    ck_assert_int_eq(t.all.reasons[0], XCS_FAILED);
    xcs_request_cancel(t.requests[1]);
    wait_for(&t.all, 4);
    float last = 0;
    for (int i = 1; i < 4; i++) {
        static const xcs_reason reasons[] = {XCS_FAILED, XCS_CANCELLED, XCS_TIMED_OUT, XCS_NONE};
        ck_assert_int_eq(t.all.reasons[i], reasons[t.all.tags[i]]);
        last = t.all.tags[i] == 3 ? t.all.first[i] : last;
    }
    ck_assert_float_eq(last, 3);
    xcs_statistics s = statistics_of(t.server, "moody");
    ck_assert_uint_eq(s.failed, 1);
    ck_assert_uint_eq(s.cancelled, 1);
    ck_assert_uint_eq(s.timed_out, 1);
    ck_assert_uint_eq(s.succeeded, 1);
    end_batch(&t);
}
END_TEST

/* The end of the server stops a request that runs by itself after its batch failed, and those that would run next. */
START_TEST(ends_with_server)
{
    batch_test t;
    begin_batch(&t, 3, (const float[]){FAILS, ENDS_NEVER, ENDS_NEVER}, (const uint64_t[]){0, 0, 0});
    wait_for(&t.all, 1);
    end_batch(&t);
    ck_assert_uint_eq(t.all.count, 3);
    ck_assert_int_eq(t.all.reasons[1], XCS_CANCELLED);
    ck_assert_int_eq(t.all.reasons[2], XCS_CANCELLED);
}
END_TEST

/* The place of a client that ends is free when its result is given, so the callback can begin another client. */
typedef struct next_client {
    xcs_server *server;
    completions *all;
    tagged tag;
    xcs_request *request;
} next_client;

static void begin_next_client(void *user, const xcs_result *result)
{
    next_client *n = user;
    const xcs_request_options o = {.size = sizeof o, .client = "second"};
    ck_assert_int_eq(result->reason, XCS_NONE);
    ck_assert_float_eq(*(const float *)xcvm_value_data(result->outputs[0]), 11);
    n->request = submit(n->server, "counts", 5, 0, &n->tag, &o);
    ck_assert_float_eq(*(const float *)xcvm_value_data(result->outputs[0]), 11); /* is lent on */
}

START_TEST(frees_place_before_result)
{
    const xcs_model_options one = {.size = sizeof one, .clients = {.count = 1}};
    for (int i = 0; i < 20; i++) {
        completions all = COMPLETIONS_INITIAL;
        next_client n = {.server = create_server(2), .all = &all, .tag = {&all, 0}};
        xcvm_value *input = row_tensor(1, (const float[]){1, 1}, true);
        const xcs_request_options o = {.size = sizeof o,
                                       .name = "counts",
                                       .client = "first",
                                       .client_ends = true,
                                       .input_count = 1,
                                       .inputs = (const xcvm_value *[]){input}};
        add_model(n.server, "counts", COUNTS, &one);
        xcs_request_release(xcs_server_submit(n.server, &o, (xcs_completion){begin_next_client, &n}));
        wait_for(&all, 1);
        ck_assert_int_eq(all.reasons[0], XCS_NONE);
        ck_assert_float_eq(all.first[0], 15);
        ck_assert(xcs_server_drain(n.server, 0)); /* the callback has returned */
        xcs_request_release(n.request);
        xcvm_value_release(input);
        xcs_server_destroy(n.server);
    }
}
END_TEST

Suite *suite_server_batches(void);
Suite *suite_server_batches(void)
{
    return SUITE_OF("server_batches", ends_at_own_deadline, leaves_when_cancelled, stops_after_failed_batch,
                    ends_with_server, frees_place_before_result);
}

/* Tests of requests: results, refusals, deadlines, cancellation, priorities, shutdown. */
#include "tests/server/support.h"

START_TEST(runs)
{
    xcs_server *server = create_server(2);
    xcs_reason reason = XCS_FAILED;
    xcvm_error error = {0};
    add_model(server, "doubles", DOUBLES, NULL);
    for (int i = 0; i < 20; i++) {
        ck_assert_float_eq(call(server, "doubles", (float)i, NULL, &reason, &error), 2 * (float)i);
        ck_assert_int_eq(reason, XCS_NONE);
    }
    xcs_statistics s = statistics_of(server, "doubles");
    ck_assert_uint_eq(s.succeeded, 20);
    ck_assert_uint_eq(s.executions, 20);
    ck_assert_uint_eq(s.inferences, 20);
    uint64_t counted = 0;
    for (int i = 0; i < XCS_HISTOGRAM_BUCKETS; i++)
        counted += s.histogram[i];
    ck_assert_uint_eq(counted, 20);
    ck_assert_uint_gt(s.memory_bytes, 0);

    completions all = COMPLETIONS_INITIAL;
    tagged one = {&all, 1};
    xcs_request *request = submit(server, "doubles", 4, 0, &one, NULL);
    wait_for(&all, 1);
    ck_assert_float_eq(all.first[0], 8);
    xcs_request_cancel(request); /* too late for any effect */
    xcs_request_release(request);
    ck_assert_float_eq(call(server, "doubles", 5, NULL, &reason, &error), 10);
    xcs_server_destroy(server);
    xcs_server_destroy(NULL);
}
END_TEST

START_TEST(refuses_inputs)
{
    xcs_server *server = create_server(1);
    xcs_reason reason;
    xcvm_error error = {0};
    add_model(server, "doubles", DOUBLES, NULL);
    call(server, "halves", 1, NULL, &reason, &error);
    ck_assert_int_eq(reason, XCS_UNKNOWN_MODEL);
    ck_assert_str_eq(error.message, "no model \"halves\" is ready");
    call(server, "doubles", 1, &(xcs_request_options){.size = sizeof(xcs_request_options), .version = "7"}, &reason,
         &error);
    ck_assert_str_eq(error.message, "no model \"doubles\", version 7 is ready");

    xcvm_value *wrong = NULL, *output;
    const xcvm_value *inputs[2];
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, 1, DIMS(3), &wrong, NULL), XCVM_OK);
    inputs[0] = inputs[1] = wrong;
    xcs_request_options o = {.size = sizeof o, .name = "doubles", .input_count = 1, .inputs = inputs};
    ck_assert_int_eq(xcs_server_run(server, &o, 1, &output, &reason, &error), XCVM_SHAPE_MISMATCH);
    ck_assert_int_eq(reason, XCS_INVALID_INPUT);
    ck_assert_str_eq(error.message, "input \"x\": dimension 0 is 3; expected 2");
    o.input_count = 2;
    ck_assert_int_eq(xcs_server_run(server, &o, 1, &output, &reason, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "2 inputs; expected 1");
    xcvm_value_release(wrong);
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_I32, 1, DIMS(2), &wrong, NULL), XCVM_OK);
    inputs[0] = wrong;
    o.input_count = 1;
    ck_assert_int_eq(xcs_server_run(server, &o, 1, &output, &reason, &error), XCVM_TYPE_MISMATCH);
    ck_assert_str_eq(error.message, "input \"x\" has elements of type i32; expected f32");
    inputs[0] = NULL;
    ck_assert_int_eq(xcs_server_run(server, &o, 1, &output, &reason, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "input \"x\" is missing");
    xcvm_value_release(wrong);
    ck_assert_uint_eq(statistics_of(server, "doubles").failed, 4);
    xcs_server_destroy(server);
}
END_TEST

START_TEST(bounded_queue)
{
    xcs_server *server = create_server(1);
    completions all = COMPLETIONS_INITIAL;
    tagged tags[6];
    for (int i = 0; i < 6; i++)
        tags[i] = (tagged){&all, i};
    add_model(server, "endless", ENDLESS, NULL);
    const xcs_model_options few = {.size = sizeof few, .queue = {.count = 2}},
                            small = {.size = sizeof small, .queue = {.bytes = 20}};
    add_model(server, "few", DOUBLES, &few);
    add_model(server, "small", DOUBLES, &small);
    xcs_request *busy = occupy(server, &tags[0]);
    xcs_request *waiting[] = {submit(server, "few", 1, 0, &tags[1], NULL), submit(server, "few", 2, 0, &tags[2], NULL)};
    ck_assert_ptr_null(submit(server, "few", 3, 0, &tags[3], NULL));
    ck_assert_uint_eq(all.count, 1);
    ck_assert_int_eq(all.reasons[0], XCS_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(all.message[0], "2 requests wait"));
    xcs_request *large = submit(server, "small", 1, 0, &tags[4], NULL);
    ck_assert_ptr_nonnull(large);
    xcs_request *two = submit(server, "small", 1, 0, &tags[4], NULL);
    ck_assert_ptr_nonnull(two);
    ck_assert_ptr_null(submit(server, "small", 1, 0, &tags[5], NULL));
    ck_assert_int_eq(all.reasons[1], XCS_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(all.message[1], "the inputs have 8 bytes, and 16 bytes wait"));
    ck_assert_uint_eq(statistics_of(server, "small").waiting_bytes, 16);
    xcs_request_cancel(busy);
    wait_for(&all, 7);
    ck_assert_uint_eq(statistics_of(server, "few").refused, 1);
    ck_assert_uint_eq(statistics_of(server, "few").succeeded, 2);
    xcs_request *const requests[] = {busy, waiting[0], waiting[1], large, two};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        xcs_request_release(requests[i]);
    xcs_server_destroy(server);
}
END_TEST

START_TEST(deadlines)
{
    xcs_server *server = create_server(1);
    completions all = COMPLETIONS_INITIAL;
    tagged busy_tag = {&all, 0}, late_tag = {&all, 1};
    xcs_reason reason;
    xcvm_error error = {0};
    add_model(server, "endless", ENDLESS, NULL);
    add_model(server, "doubles", DOUBLES, NULL);
    /* In the run. */
    const xcs_request_options hurried = {.size = sizeof hurried, .timeout_ns = 20000000};
    call(server, "endless", 1, &hurried, &reason, &error);
    ck_assert_int_eq(reason, XCS_TIMED_OUT);
    ck_assert_int_eq(error.status, XCVM_OUT_OF_TIME);
    /* In the queue, while the only worker is busy. */
    xcs_request *busy = occupy(server, &busy_tag), *late = submit(server, "doubles", 1, 0, &late_tag, &hurried);
    wait_for(&all, 1);
    ck_assert_int_eq(all.tags[0], 1);
    ck_assert_int_eq(all.reasons[0], XCS_TIMED_OUT);
    ck_assert_str_eq(all.message[0], "the deadline passed in the queue");
    ck_assert_uint_eq(statistics_of(server, "doubles").timed_out, 1);
    xcs_request_cancel(busy);
    wait_for(&all, 2);
    xcs_request_release(busy);
    xcs_request_release(late);
    /* The model's own timeout. */
    const xcs_model_options short_runs = {.size = sizeof short_runs, .timeout_ns = 10000000};
    add_model(server, "short", ENDLESS, &short_runs);
    call(server, "short", 1, NULL, &reason, &error);
    ck_assert_int_eq(reason, XCS_TIMED_OUT);
    xcs_server_destroy(server);
}
END_TEST

START_TEST(cancellation)
{
    xcs_server *server = create_server(1);
    completions all = COMPLETIONS_INITIAL;
    tagged tags[3] = {{&all, 0}, {&all, 1}, {&all, 2}};
    add_model(server, "endless", ENDLESS, NULL);
    add_model(server, "doubles", DOUBLES, NULL);
    xcs_request *busy = occupy(server, &tags[0]), *first = submit(server, "doubles", 1, 0, &tags[1], NULL),
                *second = submit(server, "doubles", 2, 0, &tags[2], NULL);
    xcs_request_cancel(first);
    wait_for(&all, 1);
    ck_assert_int_eq(all.tags[0], 1);
    ck_assert_int_eq(all.reasons[0], XCS_CANCELLED);
    xcs_request_cancel(first);
    xcs_request_cancel(busy);
    xcs_request_cancel(busy);
    wait_for(&all, 3);
    ck_assert_int_eq(all.tags[1], 0);
    ck_assert_int_eq(all.reasons[1], XCS_CANCELLED);
    ck_assert_int_eq(all.tags[2], 2);
    ck_assert_int_eq(all.reasons[2], XCS_NONE);
    ck_assert_float_eq(all.first[2], 4);
    xcs_request_release(busy);
    xcs_request_release(first);
    xcs_request_release(second);
    /* The session of a cancelled run serves on. */
    for (int i = 0; i < 3; i++) {
        xcs_request *again = occupy(server, &tags[0]);
        xcs_request_cancel(again);
        wait_for(&all, 4 + (size_t)i);
        ck_assert_int_eq(all.reasons[3 + i], XCS_CANCELLED);
        xcs_request_release(again);
    }
    ck_assert_uint_eq(statistics_of(server, "endless").cancelled, 4);
    xcs_server_destroy(server);
}
END_TEST

START_TEST(priorities)
{
    xcs_server *server = create_server(1);
    completions all = COMPLETIONS_INITIAL;
    static const int levels[] = {0, 2, 1, 2, -1}, order[] = {1, 3, 2, 0, 4};
    tagged tags[5], busy_tag = {&all, 9};
    xcs_request *requests[5];
    add_model(server, "endless", ENDLESS, NULL);
    add_model(server, "doubles", DOUBLES, NULL);
    xcs_request *busy = occupy(server, &busy_tag);
    for (int i = 0; i < 5; i++) {
        tags[i] = (tagged){&all, i};
        requests[i] = submit(server, "doubles", 1, 0, &tags[i],
                             &(xcs_request_options){.size = sizeof(xcs_request_options), .priority = levels[i]});
    }
    xcs_request_cancel(busy);
    wait_for(&all, 6);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(all.tags[1 + i], order[i]);
        xcs_request_release(requests[i]);
    }
    xcs_request_release(busy);
    xcs_server_destroy(server);
}
END_TEST

START_TEST(shutdown)
{
    xcs_server *server = create_server(1);
    completions all = COMPLETIONS_INITIAL;
    tagged tags[4];
    xcs_request *requests[4];
    xcs_reason reason;
    xcvm_error error = {0};
    add_model(server, "endless", ENDLESS, NULL);
    add_model(server, "doubles", DOUBLES, NULL);
    for (int i = 0; i < 4; i++) {
        tags[i] = (tagged){&all, i};
        requests[i] = i == 0 ? occupy(server, &tags[i]) : submit(server, "doubles", 1, 0, &tags[i], NULL);
    }
    ck_assert(!xcs_server_drain(server, 5000000));
    call(server, "doubles", 1, NULL, &reason, &error);
    ck_assert_int_eq(reason, XCS_DRAINING);
    for (int i = 0; i < 4; i++)
        xcs_request_release(requests[i]);
    xcs_server_destroy(server);
    ck_assert_uint_eq(all.count, 4);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(all.reasons[i], XCS_CANCELLED);

    server = create_server(2);
    add_model(server, "doubles", DOUBLES, NULL);
    ck_assert(xcs_server_drain(server, 0));
    xcs_server_destroy(server);
}
END_TEST

/* Submits a request while the only session runs another one on the thread that submitted it. */
typedef struct follower {
    xcs_server *server;
    pthread_t submitter;
    tagged second;
    xcs_request *request; /* NULL: not submitted */
} follower;

static void submit_another(void *user, const xcs_result *result)
{
    follower *f = user;
    ck_assert_int_eq(result->status, XCVM_OK);
    if (!pthread_equal(pthread_self(), f->submitter))
        return;
    f->request = submit(f->server, "doubles", 4, 0, &f->second, NULL);
    usleep(20000); /* so that the worker finds no session and sleeps again */
}

START_TEST(runs_after_submitter)
{
    completions all = COMPLETIONS_INITIAL;
    const xcs_model_options one_session = {.size = sizeof one_session, .sessions = 1};
    const xcs_request_options here = {.size = sizeof here, .may_run_here = true};
    follower f = {.server = create_server(1), .submitter = pthread_self(), .second = {&all, 2}};
    add_model(f.server, "doubles", DOUBLES, &one_session);
    /* Runs here once the average time of a run is short, which a busy machine may delay. */
    for (int i = 0; i < 10000 && f.request == NULL; i++) {
        xcvm_value *input = row_tensor(1, (const float[]){1, 1}, true);
        xcs_request_options o = here;
        o.name = "doubles";
        o.input_count = 1;
        o.inputs = (const xcvm_value *[]){input};
        xcs_request_release(xcs_server_submit(f.server, &o, (xcs_completion){submit_another, &f}));
        xcvm_value_release(input);
        while (statistics_of(f.server, "doubles").succeeded <= (uint64_t)i && f.request == NULL)
            usleep(100);
    }
    ck_assert_ptr_nonnull(f.request);
    wait_for(&all, 1);
    ck_assert_float_eq(all.first[0], 8);
    xcs_request_release(f.request);
    xcs_server_destroy(f.server);
}
END_TEST

START_TEST(names)
{
    ck_assert_str_eq(xcs_reason_name(XCS_QUEUE_FULL), "QUEUE_FULL");
    ck_assert_str_eq(xcs_reason_summary(XCS_TIMED_OUT), "the deadline has passed");
    ck_assert_ptr_null(xcs_reason_name((xcs_reason)99));
    ck_assert_ptr_null(xcs_reason_summary((xcs_reason)99));
    xcs_server *server = NULL;
    xcvm_error error;
    ck_assert_int_eq(
        xcs_server_create(&(xcs_server_options){.size = sizeof(xcs_server_options), .workers = -1}, &server, &error),
        XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_null(server);
}
END_TEST

Suite *suite_server_pool(void);
Suite *suite_server_pool(void)
{
    return SUITE_OF("server_pool", runs, refuses_inputs, bounded_queue, deadlines, cancellation, priorities, shutdown,
                    runs_after_submitter, names);
}

/* Tests of models: versions, reload, limits of memory, batches, states of clients, and all of it under load. */
#include "tests/server/support.h"

static xcvm_status load_file(xcs_server *server, const char *name, const char *version, const char *path,
                             xcvm_error *error)
{
    const xcs_model_options o = {.size = sizeof o, .name = name, .version = version, .path = path};
    return xcs_server_load_model(server, &o, error);
}

START_TEST(versions)
{
    xcs_server *server = create_server(1);
    test_model_file two = {""}, ten = {""};
    xcvm_error error = {0};
    xcs_reason reason;
    write_program(&two, DOUBLES);
    write_program(&ten, TRIPLES);
    ck_assert_int_eq(load_file(server, "m", "10", ten.path, &error), XCVM_OK);
    ck_assert_int_eq(load_file(server, "m", "2", two.path, &error), XCVM_OK);
    ck_assert_float_eq(call(server, "m", 1, NULL, &reason, &error), 3);
    xcs_request_options o = {.size = sizeof o, .version = "2"};
    ck_assert_float_eq(call(server, "m", 1, &o, &reason, &error), 2);
    found_info found = {.name = "m"};
    ck_assert_int_eq(xcs_server_visit_models(server, find_info, &found, NULL), XCVM_OK);
    ck_assert_uint_eq(found.visited, 2);
    xcs_model *model = xcs_server_find_model(server, "m", NULL);
    ck_assert_str_eq(xcs_model_version(model), "10");
    ck_assert_str_eq(xcs_model_name(model), "m");
    ck_assert_uint_eq(xcvm_program_input_count(xcs_model_program(model)), 1);
    ck_assert_int_eq(xcs_server_unload_model(server, "m", "10", &error), XCVM_OK);
    ck_assert_float_eq(call(server, "m", 1, NULL, &reason, &error), 2);
    ck_assert_uint_eq(xcvm_program_output_count(xcs_model_program(model)), 1); /* alive by the reference */
    xcs_model_release(model);
    ck_assert_int_eq(xcs_server_unload_model(server, "m", NULL, &error), XCVM_OK);
    call(server, "m", 1, NULL, &reason, &error);
    ck_assert_int_eq(reason, XCS_UNKNOWN_MODEL);
    ck_assert_int_eq(xcs_server_reload_model(server, "m", NULL, &error), XCVM_OK);
    ck_assert_float_eq(call(server, "m", 1, NULL, &reason, &error), 3);
    static const char *const wrong[] = {"", "0", "01", "1.2", "x", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_int_eq(load_file(server, "m", wrong[i], two.path, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcs_server_reload_model(server, "none", NULL, &error), XCVM_INVALID_ARGUMENT);
    unlink(two.path);
    unlink(ten.path);
    xcs_server_destroy(server);
}
END_TEST

START_TEST(broken_reload)
{
    xcs_server *server = create_server(1);
    test_model_file file = {""};
    xcvm_error error = {0};
    xcs_reason reason;
    write_program(&file, DOUBLES);
    ck_assert_int_eq(load_file(server, "m", NULL, file.path, &error), XCVM_OK);
    char other[80];
    snprintf(other, sizeof other, "%s.new", file.path);
    FILE *stream = fopen(other, "wb");
    ck_assert_ptr_nonnull(stream);
    fputs("no program", stream);
    fclose(stream);
    ck_assert_int_eq(rename(other, file.path), 0);
    ck_assert_int_ne(xcs_server_reload_model(server, "m", NULL, &error), XCVM_OK);
    ck_assert_ptr_nonnull(strstr(error.message, "model \"m\", version 1: "));
    ck_assert_float_eq(call(server, "m", 1, NULL, &reason, &error), 2);
    ck_assert_uint_eq(statistics_of(server, "m").failed_loads, 1);
    write_program(&file, TRIPLES);
    ck_assert_int_eq(xcs_server_reload_model(server, "m", NULL, &error), XCVM_OK);
    ck_assert_float_eq(call(server, "m", 1, NULL, &reason, &error), 3);
    ck_assert_uint_eq(statistics_of(server, "m").loads, 2);
    unlink(file.path);
    ck_assert_int_eq(xcs_server_reload_model(server, "m", NULL, &error), XCVM_IO);
    ck_assert_float_eq(call(server, "m", 1, NULL, &reason, &error), 3);
    xcs_server_destroy(server);
}
END_TEST

START_TEST(memory_limits)
{
    const char *const large = "input x f32[2]\noutput y f32[2]\n$1 = In(name=\"x\")\n"
                              "$2 = Expand($1, i64[2] 500000 2)\n$3 = ReduceMax($2, i64[1] 0, keepdims=0)\n"
                              "Out($3, name=\"y\")\n";
    test_model_file file = {""};
    xcvm_error error = {0};
    write_program(&file, large);
    xcs_server *server = NULL;
    const xcs_server_options options = {.size = sizeof options, .workers = 1, .memory_limit = 300000};
    ck_assert_int_eq(xcs_server_create(&options, &server, &error), XCVM_OK);
    /* The second model exceeds the limit of the server, not its own. */
    xcs_model_options o = {.size = sizeof o, .name = "a", .path = file.path, .memory_limit = 200};
    ck_assert_int_eq(xcs_server_load_model(server, &o, &error), XCVM_OUT_OF_MEMORY);
    o.memory_limit = 0;
    o.name = "b";
    ck_assert_int_eq(xcs_server_load_model(server, &o, &error), XCVM_OK);
    xcs_reason reason;
    call(server, "b", 1, NULL, &reason, &error);
    ck_assert_int_eq(reason, XCS_FAILED);
    ck_assert_int_eq(error.status, XCVM_OUT_OF_MEMORY);
    /* A value may outlive its model. */
    xcs_model *model = xcs_server_find_model(server, "b", NULL);
    xcvm_value *value = NULL;
    ck_assert_int_eq(xcvm_tensor_create(xcs_model_allocator(model), XCVM_F32, 1, DIMS(1000), &value, &error), XCVM_OK);
    ck_assert_uint_gt(statistics_of(server, "b").memory_bytes, 4000);
    xcvm_value *too_large = NULL;
    ck_assert_int_eq(xcvm_tensor_create(xcs_model_allocator(model), XCVM_F32, 1, DIMS(100000), &too_large, &error),
                     XCVM_OUT_OF_MEMORY);
    xcs_model_release(model);
    xcs_server_destroy(server);
    xcvm_value_release(value);
    unlink(file.path);
}
END_TEST

static void check_batches(xcs_server *server)
{
    completions all = COMPLETIONS_INITIAL;
    tagged busy_tag = {&all, 99}, tags[6];
    xcs_request *requests[6];
    xcs_request *busy = occupy(server, &busy_tag);
    for (int i = 0; i < 6; i++) {
        tags[i] = (tagged){&all, i};
        requests[i] = submit(server, "rows", (float)i, i == 3 ? 2 : 1, &tags[i], NULL);
    }
    xcs_request_cancel(requests[1]);
    xcs_request_cancel(busy);
    wait_for(&all, 7);
    for (size_t i = 0; i < 7; i++)
        if (all.reasons[i] == XCS_NONE) {
            ck_assert_float_eq(all.first[i], 5 * (float)all.tags[i]);
            ck_assert_int_eq(all.batch_rows[i], 6);
        }
    xcs_request_release(busy);
    for (int i = 0; i < 6; i++)
        xcs_request_release(requests[i]);
}

START_TEST(batches)
{
    xcs_server *server = create_server(1);
    const char *reason;
    add_model(server, "endless", ENDLESS, NULL);
    add_model(server, "rows", ROWS, NULL);
    xcs_model *model = xcs_server_find_model(server, "rows", NULL);
    ck_assert_int_eq(xcs_model_batch_rows(model, &reason), 32);
    xcs_model_release(model);
    check_batches(server);
    xcs_statistics s = statistics_of(server, "rows");
    ck_assert_uint_eq(s.succeeded, 5);
    ck_assert_uint_eq(s.inferences, 6);
    ck_assert_uint_eq(s.executions, 1);
    ck_assert_uint_eq(s.cancelled, 1);
    /* A row that depends on the others must not be batched. */
    add_model(server, "softmax",
              "input x f32[Nx2]\noutput y f32[Nx2]\n$1 = In(name=\"x\")\n$2 = Softmax($1, axis=0)\n"
              "Out($2, name=\"y\")\n",
              NULL);
    model = xcs_server_find_model(server, "softmax", NULL);
    ck_assert_int_eq(xcs_model_batch_rows(model, &reason), 0);
    ck_assert_str_eq(reason, "a row of output \"y\" has other bits in a batch");
    xcs_model_release(model);
    add_model(server, "doubles", DOUBLES, NULL);
    model = xcs_server_find_model(server, "doubles", NULL);
    ck_assert_int_eq(xcs_model_batch_rows(model, &reason), 0);
    ck_assert_ptr_nonnull(strstr(reason, "not the same dynamic dimension"));
    xcs_model_release(model);
    const xcs_model_options off = {.size = sizeof off, .batch = {.max_rows = 1}};
    add_model(server, "rows", ROWS, &off);
    model = xcs_server_find_model(server, "rows", NULL);
    ck_assert_int_eq(xcs_model_batch_rows(model, NULL), 0);
    xcs_model_release(model);
    xcs_server_destroy(server);
}
END_TEST

START_TEST(delayed_batches)
{
    xcs_server *server = create_server(2);
    const xcs_model_options delayed = {.size = sizeof delayed,
                                       .batch = {.max_rows = 2, .delay_ns = UINT64_C(60000000000)}};
    completions all = COMPLETIONS_INITIAL;
    tagged tags[2] = {{&all, 0}, {&all, 1}};
    add_model(server, "rows", ROWS, &delayed);
    xcs_request *requests[2];
    for (int i = 0; i < 2; i++)
        requests[i] = submit(server, "rows", 1, 1, &tags[i], NULL);
    wait_for(&all, 2); /* a full batch does not wait for a minute */
    ck_assert_int_eq(all.batch_rows[0], 2);
    const xcs_model_options soon = {.size = sizeof soon, .batch = {.max_rows = 8, .delay_ns = 1000000}};
    add_model(server, "rows", ROWS, &soon);
    for (int i = 0; i < 2; i++)
        xcs_request_release(requests[i]);
    requests[0] = submit(server, "rows", 1, 1, &tags[0], NULL);
    wait_for(&all, 3);
    ck_assert_int_eq(all.batch_rows[2], 1);
    xcs_request_release(requests[0]);
    xcs_server_destroy(server);
}
END_TEST

static float count_for(xcs_server *server, const char *client, bool ends, xcs_reason *reason)
{
    const xcs_request_options o = {.size = sizeof o, .client = client, .client_ends = ends};
    xcvm_error error;
    return call(server, "counts", 1, &o, reason, &error);
}

START_TEST(client_states)
{
    xcs_server *server = create_server(2);
    xcs_reason reason;
    const xcs_model_options two = {.size = sizeof two, .clients = {.count = 2}};
    add_model(server, "counts", COUNTS, &two);
    ck_assert_float_eq(count_for(server, "a", false, &reason), 11);
    ck_assert_float_eq(count_for(server, "a", false, &reason), 12);
    ck_assert_float_eq(count_for(server, "b", false, &reason), 11);
    ck_assert_float_eq(count_for(server, "a", false, &reason), 13);
    for (int i = 0; i < 2; i++)
        ck_assert_float_eq(count_for(server, NULL, false, &reason), 11);
    ck_assert_float_eq(count_for(server, "c", false, &reason), -1);
    ck_assert_int_eq(reason, XCS_TOO_MANY_CLIENTS);
    ck_assert_float_eq(count_for(server, "a", true, &reason), 14);
    ck_assert_float_eq(count_for(server, "c", false, &reason), 11);
    /* A client stays with the model that it began with. */
    add_model(server, "counts", TRIPLES, &two);
    ck_assert_float_eq(count_for(server, NULL, false, &reason), 3);
    ck_assert_float_eq(count_for(server, "b", false, &reason), 3); /* the new model has no states */
    const xcs_model_options idle = {.size = sizeof idle, .clients = {.idle_ns = 5000000}};
    add_model(server, "short", COUNTS, &idle);
    const xcs_request_options o = {.size = sizeof o, .client = "x"};
    xcvm_error error;
    ck_assert_float_eq(call(server, "short", 1, &o, &reason, &error), 11);
    while (statistics_of(server, "short").clients > 0)
        usleep(1000);
    ck_assert_float_eq(call(server, "short", 1, &o, &reason, &error), 11);
    xcs_server_destroy(server);
}
END_TEST

/* Threads that submit, cancel and give short deadlines, while the model is replaced. */
typedef struct load_thread {
    xcs_server *server;
    uint32_t random;
    size_t succeeded, other;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t open;
} load_thread;

static void count_end(void *user, const xcs_result *result)
{
    load_thread *t = user;
    pthread_mutex_lock(&t->mutex);
    if (result->reason == XCS_NONE && *(const float *)xcvm_value_data(result->outputs[0]) == 15)
        t->succeeded++;
    else if (result->reason == XCS_CANCELLED || result->reason == XCS_TIMED_OUT || result->reason == XCS_TOO_LATE)
        t->other++;
    t->open--;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->mutex);
}

enum { LOAD_REQUESTS = 400 };

static void *load_main(void *user)
{
    load_thread *t = user;
    const float elements[] = {3, 3};
    for (int i = 0; i < LOAD_REQUESTS; i++) {
        xcvm_value *input = row_tensor(1, elements, false);
        const xcvm_value *inputs[] = {input};
        const bool short_time = test_random_below(&t->random, 8) == 0;
        xcs_request_options o = {.size = sizeof o, .name = "rows", .input_count = 1, .inputs = inputs};
        o.timeout_ns = short_time ? 20000 : 0;
        o.may_run_here = test_random_below(&t->random, 2) == 0;
        pthread_mutex_lock(&t->mutex);
        while (t->open >= 20)
            pthread_cond_wait(&t->changed, &t->mutex);
        t->open++;
        pthread_mutex_unlock(&t->mutex);
        xcs_request *request = xcs_server_submit(t->server, &o, (xcs_completion){count_end, t});
        if (test_random_below(&t->random, 8) == 0)
            xcs_request_cancel(request);
        xcs_request_release(request);
        xcvm_value_release(input);
    }
    pthread_mutex_lock(&t->mutex);
    while (t->open > 0)
        pthread_cond_wait(&t->changed, &t->mutex);
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}

START_TEST(under_load)
{
    enum { THREADS = 3 };
    xcs_server *server = create_server(2);
    test_model_file file = {""};
    xcvm_error error = {0};
    write_program(&file, ROWS);
    ck_assert_int_eq(load_file(server, "rows", NULL, file.path, &error), XCVM_OK);
    load_thread threads[THREADS];
    pthread_t handles[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        threads[i] = (load_thread){.server = server,
                                   .random = (uint32_t)i + 1,
                                   .mutex = PTHREAD_MUTEX_INITIALIZER,
                                   .changed = PTHREAD_COND_INITIALIZER};
        ck_assert_int_eq(pthread_create(&handles[i], NULL, load_main, &threads[i]), 0);
    }
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(xcs_server_reload_model(server, "rows", NULL, &error), XCVM_OK);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(handles[i], NULL);
        ck_assert_uint_eq(threads[i].succeeded + threads[i].other, LOAD_REQUESTS);
        ck_assert_uint_gt(threads[i].succeeded, 0);
    }
    ck_assert(xcs_server_drain(server, 0));
    const xcs_statistics s = last_statistics_of(server, "rows");
    ck_assert_uint_eq(s.succeeded + s.cancelled + s.timed_out + s.refused, THREADS * LOAD_REQUESTS);
    unlink(file.path);
    xcs_server_destroy(server);
}
END_TEST

Suite *suite_server_models(void);
Suite *suite_server_models(void)
{
    return SUITE_OF("server_models", versions, broken_reload, memory_limits, batches, delayed_batches, client_states,
                    under_load);
}

/* Tests of requests that the submitting thread runs itself, and of runs that it gives up. */
#include "tests/server/support.h"

/* y = n + 7, counted in n steps. The 7 is a state, which the run changes. */
#define STEPS                                                                                                          \
    "input n i64[]\noutput y i64[]\nstate total i64[] = @start\nconstant start i64[] = 7\n$1 = In(name=\"n\")\n"       \
    "$2 = Load(name=\"total\")\nStore(i64[] 99, name=\"total\")\n$3 = Identity(i64[] 0)\n" LOOP                        \
    "$6 = Add($3, $2)\nOut($6, name=\"y\")\n"
/* y = a random number, drawn before n steps. */
#define DRAWS                                                                                                          \
    "input n i64[]\noutput y f32[1]\n$1 = In(name=\"n\")\n$2 = RandomUniform(i64[1] 1)\n"                              \
    "$3 = Identity(i64[] 0)\n" LOOP "Out($2, name=\"y\")\n"
#define LOOP                                                                                                           \
    "loop:\n$4 = Less($3, $1)\nJmpFalse($4, to=done)\nFree($4)\n$5 = Add($3, i64[] 1)\nFree($3)\n$3 = Identity($5)\n"  \
    "Free($5)\nJmp(to=loop)\ndone:\nFree($4)\n"

/* Steps that take longer than a run on the submitting thread may, and those of a run without end. */
enum { LONG = 60000 };
#define FOREVER INT64_MAX

/* One request and what its completion told. */
typedef struct answer {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_complete, here; /* here: on the thread that submitted */
    pthread_t submitter;
    xcs_reason reason;
    uint64_t bits; /* of the element of the output */
} answer;

static void keep(void *user, const xcs_result *result)
{
    answer *a = user;
    pthread_mutex_lock(&a->mutex);
    ck_assert(!a->is_complete);
    a->here = pthread_equal(pthread_self(), a->submitter);
    a->reason = result->reason;
    if (result->reason == XCS_NONE)
        memcpy(&a->bits, xcvm_value_data(result->outputs[0]), xcvm_value_bytes(result->outputs[0]));
    a->is_complete = true;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->mutex);
}

static xcvm_value *number(int64_t n)
{
    xcvm_value *tensor = NULL;
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_I64, 0, NULL, &tensor, NULL), XCVM_OK);
    memcpy(xcvm_value_data(tensor), &n, sizeof n);
    return tensor;
}

static xcs_request *begin(xcs_server *server, int64_t n, uint64_t timeout_ns, bool profile, answer *a)
{
    xcvm_value *input = number(n);
    const xcs_request_options o = {.size = sizeof o,
                                   .name = "model",
                                   .input_count = 1,
                                   .inputs = (const xcvm_value *[]){input},
                                   .timeout_ns = timeout_ns,
                                   .may_run_here = true,
                                   .profile = profile};
    *a = (answer){.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .submitter = pthread_self()};
    xcs_request *request = xcs_server_submit(server, &o, (xcs_completion){keep, a});
    xcvm_value_release(input);
    return request;
}

static void wait_until_complete(answer *a)
{
    pthread_mutex_lock(&a->mutex);
    while (!a->is_complete)
        pthread_cond_wait(&a->changed, &a->mutex);
    pthread_mutex_unlock(&a->mutex);
}

static answer ask(xcs_server *server, int64_t n)
{
    answer a;
    xcs_request_release(begin(server, n, 0, false, &a));
    wait_until_complete(&a);
    ck_assert_int_eq(a.reason, XCS_NONE);
    return a;
}

/* Runs until short runs are done here, which a busy machine may delay. Returns the number of runs. */
static size_t run_until_here(xcs_server *server)
{
    for (size_t count = 1; count < 100000; count++)
        if (ask(server, 1).here)
            return count;
    ck_abort_msg("no run on the submitting thread");
    return 0;
}

START_TEST(long_runs_go_to_a_worker)
{
    xcs_server *server = create_server(1);
    add_model(server, "model", STEPS, NULL);
    for (int i = 0; i < 3; i++) {
        (void)run_until_here(server);
        const answer a = ask(server, LONG + i);
        ck_assert(!a.here);
        ck_assert_uint_eq(a.bits, LONG + 7 + (uint64_t)i); /* with the state that no run has changed */
        ck_assert_uint_eq(ask(server, 2).bits, 9);
    }
    const xcs_statistics s = last_statistics_of(server, "model");
    ck_assert_uint_eq(s.executions, s.succeeded);
    ck_assert_uint_eq(s.failed + s.refused + s.timed_out + s.cancelled, 0);
    ck_assert(xcs_server_drain(server, 0));
    xcs_server_destroy(server);
}
END_TEST

START_TEST(given_up_runs_draw_no_numbers)
{
    test_model_file file = {""};
    xcs_server *server = create_server(1);
    xcvm_program *program = NULL;
    xcvm_session *session = NULL;
    write_program(&file, DRAWS);
    ck_assert_int_eq(xcvm_program_load_file(file.path, NULL, &program, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_create(program, NULL, &session, NULL), XCVM_OK);
    add_model(server, "model", DRAWS, &(xcs_model_options){.size = sizeof(xcs_model_options), .sessions = 1});
    xcvm_value *one = number(1);
    ck_assert_int_eq(xcvm_session_set_input(session, 0, one, NULL), XCVM_OK);
    for (int i = 0; i < 3; i++) {
        const size_t count = run_until_here(server);
        const answer a = ask(server, LONG);
        for (size_t k = 0; k < count + 1; k++)
            ck_assert_int_eq(xcvm_session_run(session, NULL, NULL), XCVM_OK);
        ck_assert_mem_eq(&a.bits, xcvm_value_data(xcvm_session_get_output(session, 0)), sizeof(float));
    }
    xcvm_value_release(one);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    unlink(file.path);
    xcs_server_destroy(server);
}
END_TEST

START_TEST(deadlines_and_cancellation)
{
    xcs_server *server = create_server(1);
    answer a;
    add_model(server, "model", STEPS, NULL);
    (void)run_until_here(server);
    xcs_request_release(begin(server, FOREVER, 500000, false, &a));
    wait_until_complete(&a);
    ck_assert_int_eq(a.reason, XCS_TIMED_OUT);
    for (int i = 0; i < 3; i++) {
        (void)run_until_here(server);
        xcs_request_release(begin(server, FOREVER, 30000000, i == 1, &a));
        wait_until_complete(&a);
        ck_assert_int_eq(a.reason, XCS_TIMED_OUT);
        ck_assert(!a.here);
        (void)run_until_here(server);
        xcs_request *request = begin(server, FOREVER, 0, false, &a);
        ck_assert_ptr_nonnull(request); /* it goes on elsewhere */
        xcs_request_cancel(request);
        wait_until_complete(&a);
        ck_assert_int_eq(a.reason, XCS_CANCELLED);
        xcs_request_release(request);
    }
    const xcs_statistics s = last_statistics_of(server, "model");
    ck_assert_uint_eq(s.timed_out, 4);
    ck_assert_uint_eq(s.cancelled, 3);
    /* A request that is left at the end. */
    (void)run_until_here(server);
    xcs_request_release(begin(server, FOREVER, 0, false, &a));
    xcs_server_destroy(server);
    ck_assert(a.is_complete);
    ck_assert_int_eq(a.reason, XCS_CANCELLED);
}
END_TEST

/* A thread that waits for its request has no other work. */
START_TEST(waiting_threads_run_to_the_end)
{
    xcs_server *server = create_server(1);
    add_model(server, "model", STEPS, NULL);
    (void)run_until_here(server);
    xcvm_value *input = number(LONG), *output = NULL;
    const xcs_request_options o = {
        .size = sizeof o, .name = "model", .input_count = 1, .inputs = (const xcvm_value *[]){input}};
    ck_assert_int_eq(xcs_server_run(server, &o, 1, &output, NULL, NULL), XCVM_OK);
    ck_assert_int_eq(*(const int64_t *)xcvm_value_data(output), LONG + 7);
    xcvm_value_release(output);
    xcvm_value_release(input);
    xcs_server_destroy(server);
}
END_TEST

typedef struct asker {
    xcs_server *server;
    uint32_t random;
} asker;

static void *ask_often(void *user)
{
    asker *t = user;
    for (int i = 0; i < 60; i++) {
        const int64_t n = test_random_below(&t->random, 12) == 0 ? LONG / 3 : test_random_below(&t->random, 20);
        ck_assert_uint_eq(ask(t->server, n).bits, (uint64_t)n + 7);
    }
    return NULL;
}

START_TEST(many_threads)
{
    enum { THREADS = 16 };
    asker askers[THREADS];
    pthread_t handles[THREADS];
    xcs_server *server = create_server(3);
    add_model(server, "model", STEPS, NULL);
    for (size_t i = 0; i < THREADS; i++) {
        askers[i] = (asker){server, (uint32_t)i + 1};
        ck_assert_int_eq(pthread_create(&handles[i], NULL, ask_often, &askers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(handles[i], NULL);
    const xcs_statistics s = last_statistics_of(server, "model");
    ck_assert_uint_eq(s.succeeded, THREADS * 60);
    ck_assert_uint_eq(s.executions, THREADS * 60);
    xcs_server_destroy(server);
}
END_TEST

Suite *suite_server_here(void);
Suite *suite_server_here(void)
{
    return SUITE_OF("server_here", long_runs_go_to_a_worker, given_up_runs_draw_no_numbers, deadlines_and_cancellation,
                    waiting_threads_run_to_the_end, many_threads);
}

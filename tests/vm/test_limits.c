/* Tests of fuel, deadlines, cancellation and memory limits. */
#include "tests/vm/support.h"

#include "base/clock.h"

#include <pthread.h>
#include <unistd.h>

START_TEST(fuel)
{
    xcvm_program *program = load("output y f32[1]\n"
                                 "$1 = Neg(f32[1] 1)\n"
                                 "Out($1, name=\"y\")\n"
                                 "Free($1)\n");
    xcvm_session *session = open_default_session(program);
    xcvm_run_options options = {.size = sizeof options, .fuel = 3};
    ck_assert_int_eq(xcvm_session_run(session, &options, NULL), XCVM_OK);
    options.fuel = 2;
    xcvm_error error;
    ck_assert_int_eq(xcvm_session_run(session, &options, &error), XCVM_OUT_OF_TIME);
    ck_assert_int_eq(error.pc, 2);
    ck_assert_ptr_null(xcvm_session_get_output(session, 0));
    run_session(session);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

static const char endless[] = "loop:\n$1 = Neg(f32[1] 1)\nFree($1)\nJmp(to=loop)\n";

START_TEST(endless_fuel)
{
    xcvm_program *program = load(endless);
    xcvm_session *session = open_default_session(program);
    check_run_fails(session, &(xcvm_run_options){.size = sizeof(xcvm_run_options), .fuel = 100000}, XCVM_OUT_OF_TIME,
                    "fuel");
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

START_TEST(deadline)
{
    xcvm_program *program = load(endless);
    xcvm_session *session = open_default_session(program);
    const uint64_t start = xcvm_clock_ns(), start_of_cpu = test_cpu_ns();
    xcvm_run_options options = {.size = sizeof options, .timeout_ns = 20000000};
    for (int i = 0; i < 2; i++)
        check_run_fails(session, &options, XCVM_OUT_OF_TIME, "deadline");
    ck_assert_uint_ge(xcvm_clock_ns() - start, 40000000);
    ck_assert_uint_lt(test_cpu_ns() - start_of_cpu, 4000000000);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    program = load("");
    session = open_default_session(program);
    options.timeout_ns = UINT64_MAX;
    ck_assert_int_eq(xcvm_session_run(session, &options, NULL), XCVM_OK);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

static void *cancel_soon(void *session)
{
    usleep(20000);
    xcvm_session_cancel(session);
    return NULL;
}

START_TEST(cancelled)
{
    xcvm_program *program = load(endless);
    xcvm_session *session = open_default_session(program);
    pthread_t thread;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_create(&thread, NULL, cancel_soon, session), 0);
        check_run_fails(session, NULL, XCVM_CANCELLED, "cancelled");
        pthread_join(thread, NULL);
    }
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    /* With no run under way, the next one, and that one alone. */
    program = load("output y f32[1]\nOut(f32[1] 1, name=\"y\")\n");
    session = open_default_session(program);
    xcvm_session_cancel(session);
    check_run_fails(session, NULL, XCVM_CANCELLED, "cancelled");
    run_session(session);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    xcvm_session_cancel(NULL);
}
END_TEST

START_TEST(memory)
{
    xcvm_program *program = load("input n i64[1]\n"
                                 "output y f32[?]\n"
                                 "$1 = In(name=\"n\")\n"
                                 "$2 = Expand(f32[1] 1, $1)\n"
                                 "$3 = Neg($2)\n"
                                 "Out($3, name=\"y\")\n");
    xcvm_session_options options = {.size = sizeof options, .threads = 1, .memory_limit = 1 << 20};
    xcvm_session *session = open_session(program, &options);
    int64_t n = 1000;
    xcvm_value *count = NULL;
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_I64, 1, DIMS(1), &n, (xcvm_finalizer){0}, &count, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(session, 0, count, NULL), XCVM_OK);
    for (int i = 0; i < 3; i++) {
        n = 1000;
        run_session(session);
        n = 1 << 18;
        check_run_fails(session, NULL, XCVM_OUT_OF_MEMORY, "memory limit of 1048576");
        n = INT64_MAX / 4;
        check_run_fails(session, NULL, XCVM_OUT_OF_MEMORY, "");
        n = INT64_MAX;
        check_run_fails(session, NULL, XCVM_OUT_OF_RANGE, "too large");
    }
    xcvm_value_release(count);
    xcvm_session_destroy(session);
    options.memory_limit = 10;
    xcvm_error error;
    ck_assert_int_eq(xcvm_session_create(program, &options, &session, &error), XCVM_OUT_OF_MEMORY);
    xcvm_program_destroy(program);
}
END_TEST

static const char planned[] = "arena 4096\n"
                              "input x f32[1024]\n"
                              "output y f32[1024]\n"
                              "$1 = In(name=\"x\")\n"
                              "$2 = Neg($1) slot=0+4096\n"
                              "Out($2, name=\"y\")\n";

START_TEST(callers_arena)
{
    static float x[1024] = {1, 2};
    xcvm_program *program = load(planned);
    xcvm_session_options options = {.size = sizeof options, .threads = 1};
    xcvm_session *session = NULL;
    xcvm_error error;
    char *arena = aligned_alloc(64, 8192);
    options.arena = arena + 32;
    options.arena_bytes = 8000;
    ck_assert_int_eq(xcvm_session_create(program, &options, &session, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "aligned to 64"));
    options.arena = arena;
    options.arena_bytes = 4095;
    ck_assert_int_eq(xcvm_session_create(program, &options, &session, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "4096"));
    options.arena_bytes = 4096;
    session = open_session(program, &options);
    set_f32(session, 0, 1, DIMS(1024), x);
    run_session(session);
    ck_assert_ptr_eq(xcvm_value_data(xcvm_session_get_output(session, 0)), arena);
    ck_assert_float_eq(((float *)(void *)arena)[1], -2);
    xcvm_session_destroy(session);
    free(arena);
    /* One's own arena counts. */
    options = (xcvm_session_options){.size = sizeof options, .threads = 1, .memory_limit = 4096};
    ck_assert_int_eq(xcvm_session_create(program, &options, &session, &error), XCVM_OUT_OF_MEMORY);
    ck_assert_ptr_nonnull(strstr(error.message, "memory limit of 4096"));
    session = open_default_session(program);
    set_f32(session, 0, 1, DIMS(1024), x);
    run_session(session);
    xcvm_memory_info info = {.size = sizeof info};
    xcvm_session_get_memory_info(session, &info);
    ck_assert_uint_eq(info.peak_bytes, 4096);
    ck_assert_uint_eq(info.live_bytes, 4096);
    ck_assert_uint_ge(info.reserved_bytes, 4096);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

START_TEST(broken_options)
{
    xcvm_program *program = load(planned);
    xcvm_session *session = NULL;
    xcvm_error error;
    xcvm_session_options bad_options[] = {{.size = 0}, {.size = sizeof *bad_options, .threads = -1}};
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(xcvm_session_create(program, &bad_options[i], &session, &error), XCVM_INVALID_ARGUMENT);
    /* An older header's struct ends sooner. */
    bad_options[1].size = sizeof(size_t);
    session = open_session(program, &bad_options[1]);
    xcvm_session_destroy(session);
    session = open_session(program, NULL);
    ck_assert_int_eq(xcvm_session_run(session, &(xcvm_run_options){.size = 1}, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_session_set_input(session, 0, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_session_set_output(session, 1, NULL, &error), XCVM_INVALID_ARGUMENT);
    xcvm_session_destroy(session);
    xcvm_session_destroy(NULL);
    xcvm_program_destroy(program);
}
END_TEST

Suite *suite_vm_limits(void);
Suite *suite_vm_limits(void)
{
    return SUITE_OF("vm_limits", fuel, endless_fuel, deadline, cancelled, memory, callers_arena, broken_options);
}

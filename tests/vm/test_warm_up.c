/* Tests of the warm-up. */
#include "tests/vm/support.h"
#include "vm/session.h"

#include <stdio.h>
#include <unistd.h>

static const char squares[] = "input x f32[4]\n"
                              "output y f32[4]\n"
                              "$1 = In(name=\"x\")\n"
                              "$2 = Add($1, $1)\n"
                              "$3 = Mul($2, $1)\n"
                              "$4 = Softmax($3, axis=0)\n"
                              "Out($3, name=\"y\")\n";

static void warm_up(xcvm_session *session)
{
    xcvm_error error = {0};
    ck_assert_msg(xcvm_session_warm_up(session, NULL, &error) == XCVM_OK, "%s", error.message);
    ck_assert_ptr_null(xcvm_session_get_output(session, 0));
}

static xcvm_session *open_warm(const xcvm_program *program, const xcvm_session_options *options)
{
    xcvm_session *session = open_session(program, options);
    warm_up(session);
    return session;
}

START_TEST(nothing_is_seen)
{
    const xcvm_session_options options = {.size = sizeof options, .threads = 1};
    xcvm_program *program = load(squares);
    xcvm_session *session = open_warm(program, &options);
    float a[4] = {1, 2, 3, 4}, b[4] = {-1, 0, 5, 2};
    ck_assert_ptr_null(xcvm_session_get_output(session, 0));
    check_run_fails(session, NULL, XCVM_INVALID_ARGUMENT, "an input is not bound: \"x\" (f32[4])");
    set_f32(session, 0, 1, DIMS(4), a);
    run_session(session);
    CHECK_F32(session, 0, 2, 8, 18, 32);
    set_f32(session, 0, 1, DIMS(4), b);
    run_session(session);
    CHECK_F32(session, 0, 2, 0, 50, 8);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

/* Number of allocations of the first run. */
static size_t first_run_allocations(const xcvm_session_options *chosen, bool warm)
{
    counter c = {0};
    xcvm_allocator allocator = counting(&c);
    xcvm_session_options options = *chosen;
    options.size = sizeof options;
    options.threads = 1;
    options.allocator = &allocator;
    xcvm_program *program = load(squares);
    xcvm_session *session = open_session(program, &options);
    float a[4] = {1, 2, 3, 4};
    set_f32(session, 0, 1, DIMS(4), a);
    if (warm)
        warm_up(session);
    const size_t before = c.allocations;
    run_session(session);
    const size_t taken = c.allocations - before;
    CHECK_F32(session, 0, 2, 8, 18, 32);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    ck_assert_uint_eq(c.live_bytes, 0);
    return taken;
}

/* Rehearsals stop after a time, so that one on a busy machine may not come to the end: some out of many do. */
static bool becomes_steady(const xcvm_session_options *options)
{
    for (int i = 0; i < 1000; i++)
        if (first_run_allocations(options, true) == 0)
            return true;
    return false;
}

START_TEST(first_run_is_steady)
{
    ck_assert(becomes_steady(&(xcvm_session_options){0}));
    ck_assert(becomes_steady(&(xcvm_session_options){.memory_limit = 1 << 20}));
    ck_assert_uint_gt(first_run_allocations(&(xcvm_session_options){0}, false), 0);
}
END_TEST

START_TEST(failing_on_zeros)
{
    xcvm_program *program = load("input x i32[2]\n"
                                 "output y i32[2]\n"
                                 "$1 = In(name=\"x\")\n"
                                 "$2 = Div(i32[2] 12 12, $1)\n"
                                 "Out($2, name=\"y\")\n");
    xcvm_session *session = open_default_session(program);
    warm_up(session);
    xcvm_value *x = NULL;
    int32_t data[2] = {0, 0};
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_I32, 1, DIMS(2), data, (xcvm_finalizer){0}, &x, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(session, 0, x, NULL), XCVM_OK);
    check_run_fails(session, NULL, XCVM_OUT_OF_RANGE, "zero");
    data[0] = 3, data[1] = 4;
    run_session(session);
    const int32_t *y = XCVM_CDATA(int32_t, xcvm_session_get_output(session, 0));
    ck_assert_int_eq(y[0], 4);
    ck_assert_int_eq(y[1], 3);
    xcvm_value_release(x);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

/* Work that would take too long is left to runs. Memory beyond the session's limit fails there. */
START_TEST(limited)
{
    xcvm_program *program = load("input x f32[1]\n"
                                 "output y f32[67108864]\n"
                                 "$1 = In(name=\"x\")\n"
                                 "$2 = Expand($1, i64[1] 67108864)\n"
                                 "Out($2, name=\"y\")\n");
    counter c = {0};
    xcvm_allocator allocator = counting(&c);
    xcvm_session_options options = {.size = sizeof options, .threads = 1, .allocator = &allocator};
    xcvm_session *session = open_warm(program, &options);
    ck_assert_uint_lt(c.live_bytes, 1 << 20);
    xcvm_session_destroy(session);
    options.memory_limit = 1 << 20;
    session = open_warm(program, &options);
    float x[1] = {2};
    set_f32(session, 0, 1, DIMS(1), x);
    check_run_fails(session, NULL, XCVM_OUT_OF_MEMORY, "would go past the memory limit of 1048576");
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    ck_assert_uint_eq(c.live_bytes, 0);
}
END_TEST

/* Reading this many zeros would exceed the time limit of a warm-up run. */
START_TEST(large_inputs_have_no_warm_up_run)
{
    xcvm_program *program = load("input x f32[2097152]\n"
                                 "output y f32[2097152]\n"
                                 "$1 = In(name=\"x\")\n"
                                 "$2 = Add($1, $1)\n"
                                 "Out($2, name=\"y\")\n");
    counter c = {0};
    xcvm_allocator allocator = counting(&c);
    const xcvm_session_options options = {.size = sizeof options, .threads = 1, .allocator = &allocator};
    xcvm_session *session = open_warm(program, &options);
    ck_assert_uint_lt(c.live_bytes, 1 << 20);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

/* A file of `count` floats, zeros but for the last one, which is 3. */
static void write_floats(const char *path, size_t count)
{
    const float last = 3;
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fseek(file, (long)((count - 1) * sizeof last), SEEK_SET), 0);
    ck_assert_uint_eq(fwrite(&last, sizeof last, 1, file), 1);
    ck_assert_int_eq(fclose(file), 0);
}

/* A program file with these floats, from the file "floats" in the directory. */
static void write_program(const char *path, const char *folder, size_t count)
{
    char text[400];
    const int length = snprintf(text, sizeof text,
                                "xcvm 1\n"
                                "input x f32[1]\n"
                                "output y f32[1]\n"
                                "constant w f32[%zu] = @\"floats\":0\n"
                                "$1 = In(name=\"x\")\n"
                                "$2 = Gather(@w, i64[1] %zu, axis=0)\n"
                                "$3 = Add($1, $2)\n"
                                "Out($3, name=\"y\")\n",
                                count, count - 1);
    test_bytes b = {0};
    xcvm_error error = {0};
    ck_assert_msg(xcvm_assemble(text, (size_t)length, folder, (xcvm_sink){test_bytes_sink, &b}, &error) == XCVM_OK,
                  "%s", error.message);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(b.at, 1, b.length, file), b.length);
    ck_assert_int_eq(fclose(file), 0);
    test_bytes_free(&b);
}

/* Constants in a mapped file, fewer and more than the cache holds, for several numbers of threads. */
START_TEST(mapped_constants)
{
    static const size_t counts[] = {1, 65536, 200003, (size_t)9 << 20};
    char folder[] = "/tmp/xcvm_test_XXXXXX", floats[64], path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(floats, sizeof floats, "%s/floats", folder);
    snprintf(path, sizeof path, "%s/program", folder);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        write_floats(floats, counts[i]);
        write_program(path, folder, counts[i]);
        xcvm_program *program = NULL;
        xcvm_error error = {0};
        ck_assert_msg(xcvm_program_load_file(path, NULL, &program, &error) == XCVM_OK, "%s", error.message);
        ck_assert(program->mapped);
        for (int way = 0; way < 8; way++) {
            const xcvm_session_options options = {.size = sizeof options,
                                                  .threads = (const int[]){1, 2, 3, 5}[way / 2]};
            xcvm_session *session = way % 2 != 0 ? open_session(program, &options) : open_warm(program, &options);
            float x[1] = {4};
            set_f32(session, 0, 1, DIMS(1), x);
            run_session(session);
            CHECK_F32(session, 0, 7);
            xcvm_session_destroy(session);
        }
        xcvm_program_destroy(program);
    }
    unlink(path);
    unlink(floats);
    rmdir(folder);
}
END_TEST

static bool count_texts(void *user, const char *text)
{
    *(size_t *)user += text[0] != '\0';
    return true;
}

/* A warm-up run neither prints nor advances the random generator. */
START_TEST(effects_have_no_warm_up_run)
{
    xcvm_program *program = load("output y f32[3]\n"
                                 "$1 = RandomUniform(i64[1] 3, low=0, high=1, seed=-1, dtype=f32)\n"
                                 "Print([$1], label=\"y\")\n"
                                 "Out($1, name=\"y\")\n");
    float results[2][3];
    for (int without = 0; without < 2; without++) {
        size_t texts = 0;
        xcvm_session_options options = {
            .size = sizeof options, .threads = 1, .seed = 7, .print = {count_texts, &texts}};
        xcvm_session *session = without != 0 ? open_session(program, &options) : open_warm(program, &options);
        ck_assert_uint_eq(texts, 0);
        run_session(session);
        ck_assert_uint_gt(texts, 0);
        memcpy(results[without], XCVM_CDATA(float, xcvm_session_get_output(session, 0)), sizeof results[without]);
        xcvm_session_destroy(session);
    }
    ck_assert_int_eq(memcmp(results[0], results[1], sizeof results[0]), 0);
    xcvm_program_destroy(program);
}
END_TEST

/* A loop may have no end. */
START_TEST(jumps_have_no_warm_up_run)
{
    xcvm_program *program = load("input x f32[1]\n"
                                 "output y f32[1]\n"
                                 "$1 = In(name=\"x\")\n"
                                 "again:\n"
                                 "$2 = Greater(f32[1] 1, $1)\n"
                                 "JmpFalse($2, to=done)\n"
                                 "Free($2)\n"
                                 "Jmp(to=again)\n"
                                 "done:\n"
                                 "Free($2)\n"
                                 "Out($1, name=\"y\")\n");
    xcvm_session *session = open_default_session(program);
    warm_up(session);
    float x[1] = {2};
    set_f32(session, 0, 1, DIMS(1), x);
    run_session(session);
    CHECK_F32(session, 0, 2);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

static void count_event(void *user, const xcvm_event *event)
{
    (void)event;
    ++*(size_t *)user;
}

/* Creation executes nothing: there is nothing in the session's memory that a first run does not find. */
START_TEST(creation_does_not_run)
{
    static float arena[64] __attribute__((aligned(64)));
    xcvm_program *program = load("arena 256\n"
                                 "input x f32[4]\n"
                                 "output y f32[4]\n"
                                 "$1 = In(name=\"x\")\n"
                                 "$2 = Exp($1) slot=0+16\n"
                                 "Out($2, name=\"y\")\n");
    for (size_t i = 0; i < 64; i++)
        arena[i] = -1;
    const xcvm_session_options options = {
        .size = sizeof options, .threads = 1, .arena = arena, .arena_bytes = sizeof arena};
    xcvm_session *session = open_session(program, &options);
    for (size_t i = 0; i < 64; i++)
        ck_assert_float_eq(arena[i], -1);
    ck_assert_uint_eq(session->inferences, 0);
    /* A warm-up run that takes too long is stopped. */
    for (int i = 0; i < 1000 && arena[0] < 0; i++)
        warm_up(session);
    ck_assert_float_eq(arena[0], 1);
    ck_assert_uint_gt(session->inferences, 0);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

/* Bindings of the caller, and observers, are not affected by a warm-up between runs. */
START_TEST(bindings_stay)
{
    xcvm_program *program = load(squares);
    xcvm_session *session = open_default_session(program);
    float x[4] = {1, 2, 3, 4}, y[4] = {-1, -1, -1, -1};
    xcvm_value *target = NULL;
    size_t events = 0;
    const xcvm_observer observer = {.size = sizeof observer, .before = count_event, .user = &events};
    xcvm_session_set_observer(session, &observer);
    set_f32(session, 0, 1, DIMS(4), x);
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, 1, DIMS(4), y, (xcvm_finalizer){0}, &target, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_output(session, 0, target, NULL), XCVM_OK);
    for (int i = 0; i < 2; i++) {
        events = 0;
        y[0] = -1;
        warm_up(session);
        ck_assert_uint_eq(events, 0);
        ck_assert_float_eq(y[0], -1);
        run_session(session);
        ck_assert_uint_gt(events, 0);
        ck_assert_float_eq(y[0], 2);
        ck_assert_float_eq(y[3], 32);
    }
    xcvm_value_release(target);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

START_TEST(warm_up_can_be_stopped)
{
    xcvm_program *program = load(squares);
    xcvm_session *session = open_default_session(program);
    xcvm_error error = {0};
    ck_assert_int_eq(xcvm_session_warm_up(NULL, NULL, &error), XCVM_INVALID_ARGUMENT);
    const xcvm_run_options hurried = {.size = sizeof hurried, .timeout_ns = 1};
    ck_assert_int_eq(xcvm_session_warm_up(session, &hurried, &error), XCVM_OUT_OF_TIME);
    ck_assert_str_eq(error.message, "the deadline has passed");
    xcvm_session_cancel(session);
    ck_assert_int_eq(xcvm_session_warm_up(session, NULL, &error), XCVM_CANCELLED);
    const xcvm_run_options short_of_fuel = {.size = sizeof short_of_fuel, .fuel = 1};
    ck_assert_int_eq(xcvm_session_warm_up(session, &short_of_fuel, &error), XCVM_OK);
    float x[4] = {1, 2, 3, 4};
    set_f32(session, 0, 1, DIMS(4), x);
    run_session(session);
    CHECK_F32(session, 0, 2, 8, 18, 32);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

Suite *suite_vm_warm_up(void);
Suite *suite_vm_warm_up(void)
{
    return SUITE_OF("vm_warm_up", nothing_is_seen, first_run_is_steady, failing_on_zeros, limited,
                    large_inputs_have_no_warm_up_run, mapped_constants, effects_have_no_warm_up_run,
                    jumps_have_no_warm_up_run, creation_does_not_run, bindings_stay, warm_up_can_be_stopped);
}

/* Tests of memory: no allocation in a steady state, and every allocation failing in turn. */
#include "tests/vm/support.h"

#include <stdio.h>

/* Without slots, with them, with control flow, sequences, strings and results of unknown size. */
static const char *const programs[] = {"input x f32[2x2]\n"
                                       "output y f32[2x2]\n"
                                       "output c f32[1]\n"
                                       "$1 = In(name=\"x\")\n"
                                       "$2 = Add($1, f32[2] 1 2)\n"
                                       "$3 = Transpose($2, perm=[1 0])\n"
                                       "Free($2)\n"
                                       "$4 = Reshape($3, i64[1] 4)\n"
                                       "$5 = Neg($4)\n"
                                       "Free($4)\n"
                                       "Free($3)\n"
                                       "$6 = Reshape($5, i64[2] 2 2)\n"
                                       "Free($5)\n"
                                       "Out($6, name=\"y\")\n"
                                       "Free($6)\n"
                                       "Out(f32[1] 1, name=\"c\")\n",
                                       "arena 128\n"
                                       "input x f32[2x2]\n"
                                       "output y f32[2x2]\n"
                                       "$1 = In(name=\"x\")\n"
                                       "$2 = Neg($1) slot=0+16\n"
                                       "$3 = Exp($2) slot=0+16\n"
                                       "Free($2)\n"
                                       "$4 = Transpose($3, perm=[1 0]) slot=64+16\n"
                                       "Out($4, name=\"y\")\n",
                                       "input x f32[2x2]\n"
                                       "output y i64[2x?]\n"
                                       "output s seq(f32)\n"
                                       "$1 = In(name=\"x\")\n"
                                       "$2 = NonZero($1)\n"
                                       "Out($2, name=\"y\")\n"
                                       "$3 = SequenceConstruct([$1, $1])\n"
                                       "$4 = Identity(i64[] 0)\n"
                                       "loop:\n"
                                       "$5 = SequenceInsert($3, $1, _)\n"
                                       "Free($3)\n"
                                       "$3 = Identity($5)\n"
                                       "Free($5)\n"
                                       "$6 = Add($4, i64[] 1)\n"
                                       "Free($4)\n"
                                       "$4 = Identity($6)\n"
                                       "Free($6)\n"
                                       "$7 = Less($4, i64[] 5)\n"
                                       "JmpFalse($7, to=done)\n"
                                       "Free($7)\n"
                                       "Jmp(to=loop)\n"
                                       "done:\n"
                                       "Free($7)\n"
                                       "Out($3, name=\"s\")\n",
                                       "input x f32[2x2]\n"
                                       "output y str[?]\n"
                                       "$1 = In(name=\"x\")\n"
                                       "$2 = Gather(str[2] \"one\" \"another\", i64[3] 1 0 1)\n"
                                       "$3 = Concat([$2, str[1] \"more\"], axis=0)\n"
                                       "Free($2)\n"
                                       "Out($3, name=\"y\")\n"};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static float input[4] = {1, 0, 3, 4};

START_TEST(steady_state)
{
    const char *text = programs[_i];
    counter c = {0};
    xcvm_allocator allocator = counting(&c);
    xcvm_program *program = NULL;
    xcvm_error error;
    ck_assert_int_eq(try_load(text, &allocator, &program, &error), XCVM_OK);
    xcvm_session *session = open_default_session(program);
    set_f32(session, 0, 2, DIMS(2, 2), input);
    run_session(session);
    run_session(session);
    size_t before = c.allocations;
    for (int i = 0; i < 100; i++)
        run_session(session);
    ck_assert_uint_eq(c.allocations, before);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    ck_assert_uint_eq(c.live_bytes, 0);
}
END_TEST

/* Loads, creates and runs with the given allocator; everything is given back on any outcome. */
static xcvm_status live_once(const test_bytes *file, const xcvm_allocator *allocator, bool copy)
{
    xcvm_load_options load_options = {.size = sizeof load_options, .allocator = allocator, .copy = copy};
    xcvm_session_options options = {.size = sizeof options, .threads = 2};
    xcvm_program *program = NULL;
    xcvm_session *session = NULL;
    xcvm_value *tensor = NULL;
    xcvm_error error = {0};
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, 2, DIMS(2, 2), input, (xcvm_finalizer){0}, &tensor, NULL), XCVM_OK);
    xcvm_status status = xcvm_program_load(file->at, file->length, &load_options, &program, &error);
    if (status == XCVM_OK)
        status = xcvm_session_create(program, &options, &session, &error);
    if (status == XCVM_OK)
        status = xcvm_session_set_input(session, 0, tensor, &error);
    if (status == XCVM_OK) {
        status = xcvm_session_run(session, NULL, &error);
        /* After a failure the session can run again. */
        if (status != XCVM_OK)
            ck_assert_int_eq(xcvm_session_run(session, NULL, NULL), XCVM_OK);
        ck_assert_ptr_nonnull(xcvm_session_get_output(session, 0));
    }
    if (status != XCVM_OK)
        ck_assert_msg(status == XCVM_OUT_OF_MEMORY && error.message[0] != '\0', "%s: %s", xcvm_status_name(status),
                      error.message);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    xcvm_value_release(tensor);
    return status;
}

START_TEST(failing_allocations)
{
    test_bytes file = assemble(programs[_i]);
    for (int copy = 0; copy < 2; copy++) {
        xcvm_status status = XCVM_OUT_OF_MEMORY;
        size_t failures = 0;
        while (status != XCVM_OK) {
            counter c = {.fail_at = failures + 1};
            xcvm_allocator allocator = counting(&c);
            status = live_once(&file, &allocator, copy != 0);
            ck_assert_uint_eq(c.live_bytes, 0);
            failures += status != XCVM_OK;
            ck_assert_uint_lt(failures, 1000);
        }
        ck_assert_uint_gt(failures, 5);
    }
    test_bytes_free(&file);
}
END_TEST

START_TEST(small_sessions)
{
    /* The memory of a session before its first run does not depend on the constants. */
    const size_t count = 1 << 20;
    char *text = malloc(2 * count + 256), *end = text;
    end += sprintf(end, "output y f32[%zu]\nconstant c f32[%zu] =", count, count);
    for (size_t i = 0; i < count; i++)
        end = stpcpy(end, " 1");
    stpcpy(end, "\n$1 = Neg(@c)\nOut($1, name=\"y\")\n");
    test_bytes file = assemble(text);
    counter c = {0};
    xcvm_allocator allocator = counting(&c);
    xcvm_load_options options = {.size = sizeof options, .allocator = &allocator};
    xcvm_program *program = NULL;
    xcvm_session *sessions[16];
    /* Aligns the constants, so that no copy is needed. */
    char *aligned = aligned_alloc(4096, (file.length + 4095) / 4096 * 4096);
    memcpy(aligned, file.at, file.length);
    ck_assert_int_eq(xcvm_program_load(aligned, file.length, &options, &program, NULL), XCVM_OK);
    ck_assert_uint_lt(c.live_bytes, 64 * 1024);
    for (int i = 0; i < 16; i++)
        sessions[i] = open_default_session(program);
    ck_assert_uint_lt(c.live_bytes, 256 * 1024);
    for (int i = 0; i < 16; i++)
        xcvm_session_destroy(sessions[i]);
    xcvm_program_destroy(program);
    free(aligned);
    test_bytes_free(&file);
    free(text);
}
END_TEST

Suite *suite_vm_memory(void);
Suite *suite_vm_memory(void)
{
    Suite *suite = SUITE_OF("vm_memory", small_sessions);
    TCase *each = tcase_create("each program");
    tcase_set_timeout(each, 300);
    tcase_add_loop_test(each, steady_state, 0, PROGRAMS);
    tcase_add_loop_test(each, failing_allocations, 0, PROGRAMS);
    suite_add_tcase(suite, each);
    return suite;
}

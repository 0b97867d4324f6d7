/* Tests of runs: control flow, errors and where they are. */
#include "base/denormals.h"
#include "tests/vm/support.h"

#include <stdio.h>

#include <pthread.h>

START_TEST(loop)
{
    /* y = x * 2 to the n, and a sequence of the steps. */
    xcvm_program *program = load("input n i64[]\n"
                                 "input x f32[1]\n"
                                 "output y f32[1]\n"
                                 "output steps seq(f32)\n"
                                 "$1 = In(name=\"n\")\n"
                                 "$2 = In(name=\"x\")\n"
                                 "$3 = Identity(i64[] 0)\n"
                                 "$4 = Identity($2)\n"
                                 "Free($2)\n"
                                 "$8 = SequenceConstruct([], dtype=f32)\n"
                                 "loop:\n"
                                 "$5 = Less($3, $1)\n"
                                 "JmpFalse($5, to=done)\n"
                                 "Free($5)\n"
                                 "$6 = Add($4, $4)\n"
                                 "Free($4)\n"
                                 "$4 = Identity($6)\n"
                                 "Free($6)\n"
                                 "$9 = SequenceInsert($8, $4, _)\n"
                                 "Free($8)\n"
                                 "$8 = Identity($9)\n"
                                 "Free($9)\n"
                                 "$7 = Add($3, i64[] 1)\n"
                                 "Free($3)\n"
                                 "$3 = Identity($7)\n"
                                 "Free($7)\n"
                                 "Jmp(to=loop)\n"
                                 "done:\n"
                                 "Free($5)\n"
                                 "Out($4, name=\"y\")\n"
                                 "Out($8, name=\"steps\")\n");
    xcvm_session *session = open_default_session(program);
    float x[1] = {3};
    int64_t n = 0;
    xcvm_value *count = NULL;
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_I64, 0, NULL, &n, (xcvm_finalizer){0}, &count, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(session, 0, count, NULL), XCVM_OK);
    set_f32(session, 1, 1, DIMS(1), x);
    for (n = 0; n < 6; n++) {
        run_session(session);
        CHECK_F32(session, 0, 3.0F * (float)(1 << n));
        const xcvm_value *steps = xcvm_session_get_output(session, 1);
        ck_assert_uint_eq(xcvm_value_count(steps), (size_t)n);
        for (size_t i = 0; i < (size_t)n; i++)
            ck_assert_float_eq(*XCVM_CDATA(float, xcvm_value_item_at(steps, i)), 3.0F * (float)(2 << i));
    }
    xcvm_value_release(count);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

START_TEST(failures)
{
    /* Fails on a kernel's check, on kinds that differ between paths, and can run again. */
    xcvm_program *program = load("input i i64[1]\n"
                                 "input c bool[?]\n"
                                 "output y f32[1]\n"
                                 "$1 = In(name=\"i\")\n"
                                 "$2 = In(name=\"c\")\n"
                                 "$3 = Gather(f32[2] 1 2, $1)\n"
                                 "JmpTrue($2, to=other)\n"
                                 "$4 = Relu($3)\n"
                                 "Jmp(to=end)\n"
                                 "other:\n"
                                 "$4 = SequenceConstruct([$3]) node=\"producer\"\n"
                                 "end:\n"
                                 "$5 = Neg($4) node=\"user\"\n"
                                 "Out($5, name=\"y\")\n");
    xcvm_session *session = open_default_session(program);
    int64_t i = 1;
    uint8_t c[2] = {0, 0};
    xcvm_value *index = NULL, *condition = NULL, *conditions = NULL;
    xcvm_error error = {0};
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_I64, 1, DIMS(1), &i, (xcvm_finalizer){0}, &index, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_BOOL, 1, DIMS(1), c, (xcvm_finalizer){0}, &condition, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_BOOL, 1, DIMS(2), c, (xcvm_finalizer){0}, &conditions, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(session, 0, index, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(session, 1, condition, NULL), XCVM_OK);
    for (int round = 0; round < 2; round++) {
        run_session(session);
        CHECK_F32(session, 0, -2);
        i = 2;
        check_run_fails(session, NULL, XCVM_OUT_OF_RANGE, "2");
        i = 1;
        c[0] = 1;
        ck_assert_int_eq(xcvm_session_run(session, NULL, &error), XCVM_TYPE_MISMATCH);
        ck_assert_int_eq(error.pc, 7);
        ck_assert_str_eq(error.instruction, "Neg");
        ck_assert_str_eq(error.node, "user");
        c[0] = 0;
        ck_assert_int_eq(xcvm_session_set_input(session, 1, conditions, NULL), XCVM_OK);
        check_run_fails(session, NULL, XCVM_SHAPE_MISMATCH, "cond has the wrong number of elements (2; expected 1)");
        ck_assert_int_eq(xcvm_session_set_input(session, 1, condition, NULL), XCVM_OK);
        ck_assert_int_eq(xcvm_session_run(session, NULL, NULL), XCVM_OK);
    }
    xcvm_value_release(index);
    xcvm_value_release(condition);
    xcvm_value_release(conditions);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

START_TEST(sharing)
{
    /* Cases in which memory could be overwritten or shared wrongly without slots. */
    xcvm_program *program = load("input x f32[2x2]\n"
                                 "output a f32[2x2]\n"
                                 "output b f32[4]\n"
                                 "output c f32[2x2]\n"
                                 "output d f32[2x2]\n"
                                 "$1 = In(name=\"x\")\n"
                                 "$2 = Neg($1)\n" /* must not overwrite the input */
                                 "$3 = Reshape($2, i64[1] 4)\n"
                                 "$4 = Abs($2)\n" /* must not overwrite what $3 views */
                                 "Free($2)\n"
                                 "$5 = Pow($4, $4)\n" /* must not overwrite its operand */
                                 "Free($4)\n"
                                 "Out($5, name=\"a\")\n"
                                 "$6 = Add($5, $5)\n" /* must not overwrite an output */
                                 "Free($5)\n"
                                 "Out($3, name=\"b\")\n"
                                 "$7 = Mul($6, f32[2] 0 1)\n" /* in place */
                                 "Free($6)\n"
                                 "Out($7, name=\"c\")\n"
                                 "$8 = Flatten($1, axis=1)\n"
                                 "$9 = Exp(f32[1] 0)\n"
                                 "$10 = Add($9, $8)\n" /* is larger than the operand that dies */
                                 "Free($9)\n"
                                 "Out($10, name=\"d\")\n");
    xcvm_session *session = open_default_session(program);
    float x[4] = {1, 2, -1, 3};
    set_f32(session, 0, 2, DIMS(2, 2), x);
    for (int i = 0; i < 3; i++) {
        run_session(session);
        CHECK_F32(session, 0, 1, 4, 1, 27);
        CHECK_F32(session, 1, -1, -2, 1, -3);
        CHECK_F32(session, 2, 0, 8, 0, 54);
        CHECK_F32(session, 3, 2, 3, 0, 4);
        ck_assert_float_eq(x[0], 1);
    }
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

START_TEST(in_place)
{
    /* A chain in place: every result is where the first one was. */
    xcvm_program *program = load("input x f32[1000]\n"
                                 "output y f32[1000]\n"
                                 "$1 = In(name=\"x\")\n"
                                 "$2 = Add($1, $1)\n"
                                 "$3 = Neg($2)\nFree($2)\n"
                                 "$4 = Mul($3, $3)\nFree($3)\n"
                                 "$5 = Reshape($4, i64[2] 10 100)\nFree($4)\n"
                                 "$6 = Sub($5, f32[] 1)\nFree($5)\n"
                                 "$7 = Reshape($6, i64[1] -1)\nFree($6)\n"
                                 "Out($7, name=\"y\")\n");
    xcvm_session *session = open_default_session(program);
    static float x[1000];
    for (int i = 0; i < 1000; i++)
        x[i] = (float)i;
    set_f32(session, 0, 1, DIMS(1000), x);
    for (int round = 0; round < 2; round++) {
        run_session(session);
        for (int i = 0; i < 1000; i++)
            ck_assert_float_eq(XCVM_CDATA(float, xcvm_session_get_output(session, 0))[i], 4.0F * (float)(i * i) - 1.0F);
    }
    xcvm_memory_info memory = {.size = sizeof memory};
    xcvm_session_get_memory_info(session, &memory);
    ck_assert_uint_lt(memory.peak_bytes, 2 * sizeof x);
    ck_assert_uint_eq(memory.live_bytes, sizeof x);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

START_TEST(thread_count)
{
    xcvm_program *program = load("output y f32\nOut(f32[] 1, name=\"y\")\n");
    for (int asked = 0; asked < 4; asked++) {
        xcvm_session_options options = {.size = sizeof options, .threads = asked};
        xcvm_session *session;
        xcvm_error error;
        ck_assert_int_eq(xcvm_session_create(program, &options, &session, &error), XCVM_OK);
        if (asked != 0)
            ck_assert_int_eq(xcvm_session_thread_count(session), asked);
        else
            ck_assert_int_ge(xcvm_session_thread_count(session), 1);
        xcvm_session_destroy(session);
    }
    ck_assert_int_eq(xcvm_session_thread_count(NULL), 0);
    xcvm_program_destroy(program);
}
END_TEST

START_TEST(lists)
{
    /* A list that the caller keeps is taken apart, extended, and returned. */
    xcvm_program *program = load("input s seq(f32)\n"
                                 "input o optional(f32[1])\n"
                                 "output longer seq(f32)\n"
                                 "output same seq(f32)\n"
                                 "output first f32[1]\n"
                                 "output sum f32[1]\n"
                                 "$1 = In(name=\"s\")\n"
                                 "$2 = SequenceAt($1, i64[] 0)\n"
                                 "$3 = SequenceInsert($1, $2, _)\n"
                                 "Out($3, name=\"longer\")\n"
                                 "Free($3)\n"
                                 "Out($1, name=\"same\")\n"
                                 "Free($1)\n"
                                 "Out($2, name=\"first\")\n"
                                 "$4 = In(name=\"o\")\n"
                                 "$5 = OptionalGetElement($4)\n"
                                 "$6 = Add($2, $5)\n"
                                 "Free($2)\n"
                                 "Free($5)\n"
                                 "Out($6, name=\"sum\")\n");
    xcvm_session *session = open_default_session(program);
    float data[2] = {1, 2};
    xcvm_value *items[2] = {NULL, NULL}, *list = NULL, *optional = NULL;
    xcvm_error error = {0};
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, 1, DIMS(1), &data[i], (xcvm_finalizer){0}, &items[i], NULL),
                         XCVM_OK);
    ck_assert_int_eq(xcvm_list_create(NULL, XCVM_KIND_SEQUENCE, 2, items, &list, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_list_create(NULL, XCVM_KIND_OPTIONAL, 1, items + 1, &optional, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(session, 0, optional, &error), XCVM_TYPE_MISMATCH);
    ck_assert_ptr_nonnull(strstr(error.message, "declared as seq(f32), but was given optional(f32)"));
    ck_assert_int_eq(xcvm_session_set_input(session, 0, list, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(session, 1, optional, NULL), XCVM_OK);
    for (int i = 0; i < 3; i++) {
        run_session(session);
        ck_assert_uint_eq(xcvm_value_count(xcvm_session_get_output(session, 0)), 3);
        ck_assert_uint_eq(xcvm_value_count(xcvm_session_get_output(session, 1)), 2);
        ck_assert_float_eq(*XCVM_CDATA(float, xcvm_value_item_at(xcvm_session_get_output(session, 0), 2)), 1);
        CHECK_F32(session, 2, 1);
        CHECK_F32(session, 3, 3);
    }
    ck_assert_float_eq(data[0], 1);
    /* The session retains bound values. */
    xcvm_value_release(list);
    xcvm_value_release(optional);
    xcvm_value_release(items[0]);
    xcvm_value_release(items[1]);
    run_session(session);
    CHECK_F32(session, 3, 3);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

/* Through numbers of a thousandth and back, enough of them that several threads take part. */
static const char *const subnormal_text = "input x f32[100000]\n"
                                          "output y f32[100000]\n"
                                          "$1 = In(name=\"x\")\n"
                                          "$2 = Mul($1, f32[1] 0.001)\n"
                                          "$3 = Mul($2, f32[1] 1000)\n"
                                          "Out($3, name=\"y\")\n";

static void check_subnormals(bool flush, uint64_t around)
{
    enum { COUNT = 100000 };
    xcvm_program *program = load(subnormal_text);
    xcvm_session_options options = {.size = sizeof options, .threads = 3, .flush_subnormals = flush};
    xcvm_session *session = open_session(program, &options);
    xcvm_value *x = NULL;
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, 1, DIMS(COUNT), &x, NULL), XCVM_OK);
    for (size_t i = 0; i < COUNT; i++)
        ((float *)xcvm_value_data(x))[i] = 1e-37F;
    ck_assert_int_eq(xcvm_session_set_input(session, 0, x, NULL), XCVM_OK);
    xcvm_value_release(x);
    run_session(session);
    const float *y = xcvm_value_data(xcvm_session_get_output(session, 0));
    for (size_t i = 0; i < COUNT; i++)
        ck_assert_msg(flush ? y[i] == 0 : y[i] > 0.99e-37F && y[i] < 1.01e-37F, "element %zu is %g", i, (double)y[i]);
    ck_assert_uint_eq(xcvm_denormals_word() & (uint64_t)XCVM_DENORMALS_BITS, around & (uint64_t)XCVM_DENORMALS_BITS);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}

/* Kept by default and flushed on request, in all threads, during the run alone, and whatever the caller has set. */
START_TEST(subnormals)
{
    const uint64_t before = xcvm_denormals_word();
    check_subnormals(false, before);
    if (XCVM_DENORMALS_BITS != 0)
        check_subnormals(true, before);
    xcvm_denormals_set(true);
    check_subnormals(false, xcvm_denormals_word());
    xcvm_denormals_restore(before);
}
END_TEST

START_TEST(strict)
{
    xcvm_program *program = load("input x f32[?]\n"
                                 "output y f32[2]\n"
                                 "$1 = In(name=\"x\")\n"
                                 "$2 = Neg($1) type=f32[2] name=\"negated\"\n"
                                 "Out($2, name=\"y\")\n");
    xcvm_session_options options = {.size = sizeof options, .threads = 1, .strict_types = true};
    xcvm_session *session = open_session(program, &options);
    float x[3] = {1, 2, 3};
    set_f32(session, 0, 1, DIMS(2), x);
    run_session(session);
    set_f32(session, 0, 1, DIMS(3), x);
    check_run_fails(session, NULL, XCVM_SHAPE_MISMATCH, "\"negated\" is f32[3], but is noted as f32[2]");
    xcvm_session_destroy(session);
    session = open_default_session(program);
    set_f32(session, 0, 1, DIMS(3), x);
    run_session(session);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

START_TEST(random_numbers)
{
    xcvm_program *program = load("output y f32[4]\n"
                                 "$1 = RandomUniform(i64[1] 4)\n"
                                 "Out($1, name=\"y\")\n");
    xcvm_session_options options = {.size = sizeof options, .threads = 1, .seed = 5};
    xcvm_session *a = open_session(program, &options), *b = open_session(program, &options);
    float first[4];
    run_session(a);
    run_session(b);
    memcpy(first, xcvm_value_data(xcvm_session_get_output(a, 0)), sizeof first);
    ck_assert_mem_eq(first, xcvm_value_data(xcvm_session_get_output(b, 0)), sizeof first);
    run_session(a);
    ck_assert_mem_ne(first, xcvm_value_data(xcvm_session_get_output(a, 0)), sizeof first);
    xcvm_session_destroy(a);
    xcvm_session_destroy(b);
    xcvm_program_destroy(program);
}
END_TEST

/* ---- Many threads, one program ---- */

typedef struct worker {
    const xcvm_program *program;
    float offset;
    bool right;
} worker;

static void *run_thread(void *context)
{
    worker *w = context;
    xcvm_session_options options = {.size = sizeof options, .threads = 1};
    xcvm_session *session = NULL;
    xcvm_value *tensor = NULL;
    float x[2] = {w->offset, -w->offset};
    w->right = xcvm_session_create(w->program, &options, &session, NULL) == XCVM_OK &&
               xcvm_tensor_wrap(XCVM_F32, 1, DIMS(2), x, (xcvm_finalizer){0}, &tensor, NULL) == XCVM_OK &&
               xcvm_session_set_input(session, 0, tensor, NULL) == XCVM_OK;
    for (int i = 0; i < 2000 && w->right; i++) {
        x[0] = w->offset + (float)i;
        w->right = xcvm_session_run(session, NULL, NULL) == XCVM_OK &&
                   XCVM_CDATA(float, xcvm_session_get_output(session, 0))[0] == x[0] + 1 &&
                   XCVM_CDATA(float, xcvm_session_get_output(session, 0))[1] == 1;
    }
    xcvm_value_release(tensor);
    xcvm_session_destroy(session);
    return NULL;
}

START_TEST(threads)
{
    xcvm_program *program = load("arena 64\n"
                                 "input x f32[2]\n"
                                 "output y f32[2]\n"
                                 "$1 = In(name=\"x\")\n"
                                 "$2 = Relu($1) slot=0+8\n"
                                 "$3 = Add($2, f32[] 1)\n"
                                 "Free($2)\n"
                                 "Out($3, name=\"y\")\n");
    pthread_t thread[4];
    worker workers[4];
    for (int i = 0; i < 4; i++) {
        workers[i] = (worker){program, (float)(10000 * (i + 1)), false};
        ck_assert_int_eq(pthread_create(&thread[i], NULL, run_thread, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
        ck_assert(workers[i].right);
    }
    xcvm_program_destroy(program);
}
END_TEST

Suite *suite_vm_run(void);
Suite *suite_vm_run(void)
{
    return SUITE_OF("vm_run", loop, failures, sharing, in_place, lists, subnormals, strict, random_numbers, threads,
                    thread_count);
}

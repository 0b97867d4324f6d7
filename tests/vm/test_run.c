/* Tests of runs: bindings, control flow, errors and where they are. */
#include "base/denormals.h"
#include "tests/vm/support.h"

#include <stdio.h>

#include <pthread.h>

static void check_bind_fails(xcvm_session *session, size_t index, xcvm_dtype dtype, int rank, const int64_t *dims,
                             xcvm_status expected, const char *part)
{
    xcvm_value *tensor = NULL;
    xcvm_error error = {0};
    ck_assert_int_eq(xcvm_tensor_create(NULL, dtype, rank, dims, &tensor, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(session, index, tensor, &error), expected);
    ck_assert_msg(strstr(error.message, part) != NULL, "%s", error.message);
    xcvm_value_release(tensor);
}

START_TEST(inputs)
{
    xcvm_program *program = load("input a f32[Nx2]\n"
                                 "input b f32[N]\n"
                                 "output y f32[Nx2]\n"
                                 "$1 = In(name=\"a\")\n"
                                 "$2 = In(name=\"b\")\n"
                                 "$3 = Unsqueeze($2, i64[1] 1)\n"
                                 "$4 = Add($1, $3)\n"
                                 "Out($4, name=\"y\")\n");
    xcvm_session *session = open_default_session(program);
    float a[6] = {1, 2, 3, 4, 5, 6}, b[3] = {10, 20, 30};
    check_run_fails(session, NULL, XCVM_INVALID_ARGUMENT, "inputs are not bound: \"a\" (f32[Nx2]), \"b\" (f32[N])");
    check_bind_fails(session, 0, XCVM_F64, 2, DIMS(1, 2), XCVM_TYPE_MISMATCH,
                     "input \"a\" is declared as f32[Nx2], but was given f64[1x2]");
    check_bind_fails(session, 0, XCVM_F32, 1, DIMS(2), XCVM_SHAPE_MISMATCH, "f32[2]");
    check_bind_fails(session, 0, XCVM_F32, 2, DIMS(1, 3), XCVM_SHAPE_MISMATCH, "f32[1x3]");
    check_bind_fails(session, 2, XCVM_F32, 1, DIMS(1), XCVM_INVALID_ARGUMENT, "there is no input 2");
    set_f32(session, 0, 2, DIMS(3, 2), a);
    check_run_fails(session, NULL, XCVM_INVALID_ARGUMENT, "\"b\" (f32[N])");
    set_f32(session, 1, 1, DIMS(2), b);
    check_run_fails(session, NULL, XCVM_SHAPE_MISMATCH,
                    "dimension N is 3 in input \"a\" (axis 0), but 2 in input \"b\"");
    set_f32(session, 1, 1, DIMS(3), b);
    run(session);
    CHECK_F32(session, 0, 11, 12, 23, 24, 35, 36);
    /* The same memory with other elements, then other shapes. */
    a[0] = 100;
    run(session);
    CHECK_F32(session, 0, 110, 12, 23, 24, 35, 36);
    set_f32(session, 0, 2, DIMS(1, 2), a);
    set_f32(session, 1, 1, DIMS(1), b);
    run(session);
    CHECK_F32(session, 0, 110, 12);
    set_f32(session, 0, 2, DIMS(0, 2), a);
    set_f32(session, 1, 1, DIMS(0), b);
    run(session);
    ck_assert_uint_eq(xcvm_value_count(xcvm_session_output(session, 0)), 0);
    ck_assert_ptr_null(xcvm_session_output(session, 1));
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

START_TEST(outputs)
{
    /* A constant, an input, a view of it, and one value twice; all freed before the end. */
    xcvm_program *program = load("input x f32[2]\n"
                                 "output c f32[1]\n"
                                 "output x f32[2]\n"
                                 "output v f32[1x2]\n"
                                 "output p f32[2]\n"
                                 "output q f32[2]\n"
                                 "Out(f32[1] 5, name=\"c\")\n"
                                 "$1 = In(name=\"x\")\n"
                                 "Out($1, name=\"x\")\n"
                                 "$2 = Reshape($1, i64[2] 1 2)\n"
                                 "Out($2, name=\"v\")\n"
                                 "$3 = Neg($1)\n"
                                 "Free($1)\n"
                                 "Free($2)\n"
                                 "Out($3, name=\"p\")\n"
                                 "Out($3, name=\"q\")\n"
                                 "$4 = Neg($3)\n"
                                 "Free($3)\n");
    xcvm_session *session = open_default_session(program);
    float x[2] = {1, 2};
    set_f32(session, 0, 1, DIMS(2), x);
    for (int i = 0; i < 3; i++) {
        x[0] = 1;
        run(session);
        x[0] = 7;
        CHECK_F32(session, 0, 5);
        CHECK_F32(session, 1, 1, 2);
        CHECK_F32(session, 2, 1, 2);
        CHECK_F32(session, 3, -1, -2);
        CHECK_F32(session, 4, -1, -2);
    }
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

static void bind_output(xcvm_session *session, size_t index, int rank, const int64_t *dims, float *data)
{
    xcvm_value *tensor = NULL;
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, rank, dims, data, NULL, NULL, &tensor, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_output(session, index, tensor, NULL), XCVM_OK);
    xcvm_value_release(tensor);
}

START_TEST(bound_outputs)
{
    xcvm_program *program = load("arena 64\n"
                                 "input x f32[2]\n"
                                 "output direct f32[2]\n"
                                 "output again f32[2]\n"
                                 "output view f32[2x1]\n"
                                 "output input f32[2]\n"
                                 "$1 = In(name=\"x\")\n"
                                 "$2 = Neg($1) slot=0+8\n"
                                 "Out($2, name=\"direct\")\n"
                                 "$3 = Reshape($2, i64[2] 2 1) slot=0+8\n"
                                 "Out($2, name=\"again\")\n"
                                 "Out($3, name=\"view\")\n"
                                 "Out($1, name=\"input\")\n");
    xcvm_session *session = open_default_session(program);
    float x[4] = {1, 2, 3, 4}, y[4][2];
    set_f32(session, 0, 1, DIMS(2), x);
    run(session);
    for (size_t i = 0; i < 4; i++)
        bind_output(session, i, i == 2 ? 2 : 1, DIMS(2, 1), y[i]);
    for (int i = 0; i < 3; i++) {
        memset(y, 0, sizeof y);
        run(session);
        ck_assert_ptr_eq(xcvm_value_data(xcvm_session_output(session, 0)), y[0]);
        for (size_t k = 0; k < 4; k++) {
            ck_assert_float_eq(y[k][0], k == 3 ? 1.0F : -1.0F);
            ck_assert_float_eq(y[k][1], k == 3 ? 2.0F : -2.0F);
        }
    }
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(xcvm_session_set_output(session, i, NULL, NULL), XCVM_OK);
    /* The last results are still there, though nothing is bound. */
    CHECK_F32(session, 0, -1, -2);
    run(session);
    ck_assert_ptr_ne(xcvm_value_data(xcvm_session_output(session, 0)), y[0]);
    bind_output(session, 0, 1, DIMS(4), x);
    check_run_fails(session, NULL, XCVM_INVALID_ARGUMENT, "overlaps that of input \"x\"");
    bind_output(session, 0, 1, DIMS(1), y[0]);
    check_run_fails(session, NULL, XCVM_SHAPE_MISMATCH,
                    "output \"direct\" is f32[2], but the tensor bound to it is f32[1]");
    bind_output(session, 0, 1, DIMS(2), y[0]);
    bind_output(session, 1, 1, DIMS(2), y[0]);
    check_run_fails(session, NULL, XCVM_INVALID_ARGUMENT, "overlap");
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

/* Outputs side by side in one block, beside an input of many parts. */
START_TEST(many_bound_outputs)
{
    enum { COUNT = 300, PARTS = 20 };
    test_bytes text = {0};
    char line[120];
    static const char head[] = "input x f32[2]\ninput s seq(f32)\n$1 = In(name=\"x\")\n$2 = In(name=\"s\")\n";
    for (int i = 0; i < COUNT; i++)
        test_bytes_sink(&text, line, (size_t)snprintf(line, sizeof line, "output y%d f32[2]\n", i));
    test_bytes_sink(&text, head, strlen(head));
    for (int i = 0; i < COUNT; i++)
        test_bytes_sink(
            &text, line,
            (size_t)snprintf(line, sizeof line, "$%d = Neg($1)\nOut($%d, name=\"y%d\")\n", i + 3, i + 3, i));
    test_bytes_sink(&text, "", 1);
    xcvm_program *program = load(text.at);
    xcvm_session *session = open_default_session(program);
    float x[2] = {1, 2}, y[COUNT + 1][2] = {{0}}, parts[PARTS];
    xcvm_value *items[PARTS], *list = NULL;
    set_f32(session, 0, 1, DIMS(2), x);
    for (size_t i = 0; i < PARTS; i++)
        ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, 1, DIMS(1), &parts[i], NULL, NULL, &items[i], NULL), XCVM_OK);
    items[0]->data = y[COUNT]; /* just behind the last output */
    ck_assert_int_eq(xcvm_list_create(NULL, XCVM_KIND_SEQUENCE, PARTS, items, &list, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(session, 1, list, NULL), XCVM_OK);
    for (size_t i = 0; i < COUNT; i++)
        bind_output(session, i, 1, DIMS(2), y[COUNT - 1 - i]);
    run(session);
    for (size_t i = 0; i < COUNT; i++)
        ck_assert_float_eq(y[i][1], -2);
    bind_output(session, 7, 1, DIMS(2), &y[100][1]);
    check_run_fails(session, NULL, XCVM_INVALID_ARGUMENT, "\"y7\"");
    bind_output(session, 7, 1, DIMS(2), &y[COUNT - 1][1]);
    bind_output(session, 0, 1, DIMS(2), y[COUNT - 1 - 7]);
    check_run_fails(session, NULL, XCVM_INVALID_ARGUMENT, "output \"y7\" overlaps that of input \"s\"");
    for (size_t i = 0; i < PARTS; i++)
        xcvm_value_release(items[i]);
    xcvm_value_release(list);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    test_bytes_free(&text);
}
END_TEST

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
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_I64, 0, NULL, &n, NULL, NULL, &count, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(session, 0, count, NULL), XCVM_OK);
    set_f32(session, 1, 1, DIMS(1), x);
    for (n = 0; n < 6; n++) {
        run(session);
        CHECK_F32(session, 0, 3.0F * (float)(1 << n));
        const xcvm_value *steps = xcvm_session_output(session, 1);
        ck_assert_uint_eq(xcvm_value_count(steps), (size_t)n);
        for (size_t i = 0; i < (size_t)n; i++)
            ck_assert_float_eq(*XCVM_CDATA(float, xcvm_value_item(steps, i)), 3.0F * (float)(2 << i));
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
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_I64, 1, DIMS(1), &i, NULL, NULL, &index, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_BOOL, 1, DIMS(1), c, NULL, NULL, &condition, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_BOOL, 1, DIMS(2), c, NULL, NULL, &conditions, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(session, 0, index, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(session, 1, condition, NULL), XCVM_OK);
    for (int round = 0; round < 2; round++) {
        run(session);
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
        check_run_fails(session, NULL, XCVM_SHAPE_MISMATCH, "cond has 2 elements, 1 is needed");
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
    /* Whatever could be overwritten or shared wrongly without slots. */
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
                                 "$5 = Pow($4, $4)\n" /* must not overwrite what it reads */
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
        run(session);
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
        run(session);
        for (int i = 0; i < 1000; i++)
            ck_assert_float_eq(XCVM_CDATA(float, xcvm_session_output(session, 0))[i], 4.0F * (float)(i * i) - 1.0F);
    }
    xcvm_memory_info memory = {.size = sizeof memory};
    xcvm_session_memory(session, &memory);
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
            ck_assert_int_eq(xcvm_session_threads(session), asked);
        else
            ck_assert_int_ge(xcvm_session_threads(session), 1);
        xcvm_session_destroy(session);
    }
    ck_assert_int_eq(xcvm_session_threads(NULL), 0);
    xcvm_program_destroy(program);
}
END_TEST

START_TEST(lists)
{
    /* A list that the caller keeps, taken apart, added to, and given back. */
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
        ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, 1, DIMS(1), &data[i], NULL, NULL, &items[i], NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_list_create(NULL, XCVM_KIND_SEQUENCE, 2, items, &list, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_list_create(NULL, XCVM_KIND_OPTIONAL, 1, items + 1, &optional, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(session, 0, optional, &error), XCVM_TYPE_MISMATCH);
    ck_assert_ptr_nonnull(strstr(error.message, "declared as seq(f32), but was given optional(f32)"));
    ck_assert_int_eq(xcvm_session_set_input(session, 0, list, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(session, 1, optional, NULL), XCVM_OK);
    for (int i = 0; i < 3; i++) {
        run(session);
        ck_assert_uint_eq(xcvm_value_count(xcvm_session_output(session, 0)), 3);
        ck_assert_uint_eq(xcvm_value_count(xcvm_session_output(session, 1)), 2);
        ck_assert_float_eq(*XCVM_CDATA(float, xcvm_value_item(xcvm_session_output(session, 0), 2)), 1);
        CHECK_F32(session, 2, 1);
        CHECK_F32(session, 3, 3);
    }
    ck_assert_float_eq(data[0], 1);
    /* The session keeps what is bound. */
    xcvm_value_release(list);
    xcvm_value_release(optional);
    xcvm_value_release(items[0]);
    xcvm_value_release(items[1]);
    run(session);
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
    run(session);
    const float *y = xcvm_value_data(xcvm_session_output(session, 0));
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
    run(session);
    set_f32(session, 0, 1, DIMS(3), x);
    check_run_fails(session, NULL, XCVM_SHAPE_MISMATCH, "\"negated\" is f32[3], but is noted as f32[2]");
    xcvm_session_destroy(session);
    session = open_default_session(program);
    set_f32(session, 0, 1, DIMS(3), x);
    run(session);
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
    run(a);
    run(b);
    memcpy(first, xcvm_value_data(xcvm_session_output(a, 0)), sizeof first);
    ck_assert_mem_eq(first, xcvm_value_data(xcvm_session_output(b, 0)), sizeof first);
    run(a);
    ck_assert_mem_ne(first, xcvm_value_data(xcvm_session_output(a, 0)), sizeof first);
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
               xcvm_tensor_wrap(XCVM_F32, 1, DIMS(2), x, NULL, NULL, &tensor, NULL) == XCVM_OK &&
               xcvm_session_set_input(session, 0, tensor, NULL) == XCVM_OK;
    for (int i = 0; i < 2000 && w->right; i++) {
        x[0] = w->offset + (float)i;
        w->right = xcvm_session_run(session, NULL, NULL) == XCVM_OK &&
                   XCVM_CDATA(float, xcvm_session_output(session, 0))[0] == x[0] + 1 &&
                   XCVM_CDATA(float, xcvm_session_output(session, 0))[1] == 1;
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
    return SUITE_OF("vm_run", inputs, outputs, bound_outputs, many_bound_outputs, loop, failures, sharing, in_place,
                    lists, subnormals, strict, random_numbers, threads, thread_count);
}

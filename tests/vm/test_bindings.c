/* Tests of bindings: inputs, outputs, and outputs in memory of the caller's. */
#include "tests/vm/support.h"

#include <stdio.h>

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
    run_session(session);
    CHECK_F32(session, 0, 11, 12, 23, 24, 35, 36);
    /* The same memory with other elements, then other shapes. */
    a[0] = 100;
    run_session(session);
    CHECK_F32(session, 0, 110, 12, 23, 24, 35, 36);
    set_f32(session, 0, 2, DIMS(1, 2), a);
    set_f32(session, 1, 1, DIMS(1), b);
    run_session(session);
    CHECK_F32(session, 0, 110, 12);
    set_f32(session, 0, 2, DIMS(0, 2), a);
    set_f32(session, 1, 1, DIMS(0), b);
    run_session(session);
    ck_assert_uint_eq(xcvm_value_count(xcvm_session_get_output(session, 0)), 0);
    ck_assert_ptr_null(xcvm_session_get_output(session, 1));
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
        run_session(session);
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
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, rank, dims, data, (xcvm_finalizer){0}, &tensor, NULL), XCVM_OK);
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
    run_session(session);
    for (size_t i = 0; i < 4; i++)
        bind_output(session, i, i == 2 ? 2 : 1, DIMS(2, 1), y[i]);
    for (int i = 0; i < 3; i++) {
        memset(y, 0, sizeof y);
        run_session(session);
        ck_assert_ptr_eq(xcvm_value_data(xcvm_session_get_output(session, 0)), y[0]);
        for (size_t k = 0; k < 4; k++) {
            ck_assert_float_eq(y[k][0], k == 3 ? 1.0F : -1.0F);
            ck_assert_float_eq(y[k][1], k == 3 ? 2.0F : -2.0F);
        }
    }
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(xcvm_session_set_output(session, i, NULL, NULL), XCVM_OK);
    /* The last results are still there, though nothing is bound. */
    CHECK_F32(session, 0, -1, -2);
    run_session(session);
    ck_assert_ptr_ne(xcvm_value_data(xcvm_session_get_output(session, 0)), y[0]);
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

/* Adjacent outputs in one block, next to an input of many parts. */
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
        ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, 1, DIMS(1), &parts[i], (xcvm_finalizer){0}, &items[i], NULL),
                         XCVM_OK);
    items[0]->data = y[COUNT]; /* directly after the last output */
    ck_assert_int_eq(xcvm_list_create(NULL, XCVM_KIND_SEQUENCE, PARTS, items, &list, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(session, 1, list, NULL), XCVM_OK);
    for (size_t i = 0; i < COUNT; i++)
        bind_output(session, i, 1, DIMS(2), y[COUNT - 1 - i]);
    run_session(session);
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

Suite *suite_vm_bindings(void);
Suite *suite_vm_bindings(void) { return SUITE_OF("vm_bindings", inputs, outputs, bound_outputs, many_bound_outputs); }

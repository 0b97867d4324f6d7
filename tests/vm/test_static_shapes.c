/* Inferred shapes are valid while a basic block is entered with the same types, and no longer. */
#include "tests/vm/support.h"
#include "vm/session.h"

static void set_i64(xcvm_session *session, size_t index, int rank, const int64_t *dims, const int64_t *data)
{
    xcvm_value *tensor = NULL;
    xcvm_error error = {0};
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_I64, rank, dims, &tensor, &error), XCVM_OK);
    memcpy(xcvm_value_data(tensor), data, xcvm_value_bytes(tensor));
    ck_assert_msg(xcvm_session_set_input(session, index, tensor, &error) == XCVM_OK, "%s", error.message);
    xcvm_value_release(tensor);
}

/* Number of instructions that infer shapes in a run. */
static uint64_t inferences_of_run(xcvm_session *session)
{
    const uint64_t before = session->inferences;
    run_session(session);
    return session->inferences - before;
}

/* y = x * 2 to the n; the body has typical parts: a state, an element-wise chain, a shape computed from a state. */
static const char doubling[] = "input n i64[]\n"
                               "input x f32[K]\n"
                               "output y f32[?]\n"
                               "$1 = In(name=\"n\")\n"
                               "$2 = In(name=\"x\")\n"
                               "$3 = Identity(i64[] 0)\n"
                               "$4 = Identity($2)\n"
                               "Free($2)\n"
                               "loop:\n"
                               "$5 = Less($3, $1)\n"
                               "JmpFalse($5, to=done)\n"
                               "Free($5)\n"
                               "$6 = Add($4, $4)\n"
                               "$10 = Shape($4, start=0, end=9)\n"
                               "$11 = Expand(f32[1] 0, $10)\n"
                               "$12 = Add($6, $11)\n"
                               "Free($4)\nFree($6)\nFree($10)\nFree($11)\n"
                               "$4 = Identity($12)\n"
                               "Free($12)\n"
                               "$7 = Add($3, i64[] 1)\n"
                               "Free($3)\n"
                               "$3 = Identity($7)\n"
                               "Free($7)\n"
                               "Jmp(to=loop)\n"
                               "done:\n"
                               "Free($5)\n"
                               "$13 = Neg($4)\n"
                               "Out($13, name=\"y\")\n";
enum { DOUBLING_KERNELS = 11 };

START_TEST(loops_infer_once)
{
    xcvm_program *program = load(doubling);
    xcvm_session *session = open_default_session(program);
    float x[4] = {1, 2, 3, 4};
    set_i64(session, 0, 0, NULL, (const int64_t[]){5});
    set_f32(session, 1, 1, DIMS(2), x);
    ck_assert_uint_eq(inferences_of_run(session), DOUBLING_KERNELS);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(inferences_of_run(session), 0);
        CHECK_F32(session, 0, -32, -64);
    }
    /* Another number of iterations does not change types; another size does. */
    set_i64(session, 0, 0, NULL, (const int64_t[]){2});
    ck_assert_uint_eq(inferences_of_run(session), 0);
    CHECK_F32(session, 0, -4, -8);
    set_f32(session, 1, 1, DIMS(3), x);
    ck_assert_uint_eq(inferences_of_run(session), DOUBLING_KERNELS);
    CHECK_F32(session, 0, -4, -8, -12);
    ck_assert_uint_eq(inferences_of_run(session), 0);
    CHECK_F32(session, 0, -4, -8, -12);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

/* A run that ends in the middle of the loop, for lack of fuel, leaves no invalid shapes for a later run. */
START_TEST(early_exits)
{
    xcvm_program *program = load(doubling);
    xcvm_session *session = open_default_session(program);
    float x[4] = {1, 2, 3, 4};
    set_i64(session, 0, 0, NULL, (const int64_t[]){3});
    for (uint64_t fuel = 1; fuel < 60; fuel++) {
        const int64_t size = 1 + (int64_t)(fuel % 4);
        set_f32(session, 1, 1, &size, x);
        const xcvm_run_options options = {.size = sizeof options, .fuel = fuel};
        xcvm_status status = xcvm_session_run(session, &options, NULL);
        ck_assert(status == XCVM_OK || status == XCVM_OUT_OF_TIME);
        run_session(session);
        const xcvm_value *y = xcvm_session_get_output(session, 0);
        ck_assert_uint_eq(xcvm_value_count(y), (size_t)size);
        for (int64_t i = 0; i < size; i++)
            ck_assert_float_eq(XCVM_CDATA(float, y)[i], -8 * x[i]);
    }
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

/* The state grows in each iteration. Behind a jump within the body a shape that was computed before it decides: its
 * type is always the same, its elements are not. */
static const char growing[] = "input n i64[]\n"
                              "input x f32[K]\n"
                              "output y f32[?]\n"
                              "output ones f32[?]\n"
                              "$1 = In(name=\"n\")\n"
                              "$2 = In(name=\"x\")\n"
                              "$3 = Identity(i64[] 0)\n"
                              "$4 = Identity($2)\n"
                              "$14 = Identity(f32[1] 1)\n"
                              "Free($2)\n"
                              "loop:\n"
                              "$5 = Less($3, $1)\n"
                              "JmpFalse($5, to=done)\n"
                              "Free($5)\n"
                              "$6 = Concat([$4, $4], axis=0)\n"
                              "$10 = Shape($6, start=0, end=9)\n"
                              "Free($4)\n"
                              "$4 = Identity($6)\n"
                              "$8 = Less($3, i64[] 1)\n"
                              "JmpTrue($8, to=first)\n"
                              "$9 = Identity(f32[1] 3)\n"
                              "Jmp(to=both)\n"
                              "first:\n"
                              "$9 = Identity(f32[1] 2)\n"
                              "both:\n"
                              "Free($14)\n"
                              "$14 = Expand($9, $10)\n"
                              "Free($6)\nFree($8)\nFree($9)\nFree($10)\n"
                              "$7 = Add($3, i64[] 1)\n"
                              "Free($3)\n"
                              "$3 = Identity($7)\n"
                              "Free($7)\n"
                              "Jmp(to=loop)\n"
                              "done:\n"
                              "Free($5)\n"
                              "Out($4, name=\"y\")\n"
                              "Out($14, name=\"ones\")\n";

START_TEST(types_change_from_iteration_to_iteration)
{
    static const int64_t counts[] = {3, 0, 1, 4, 4, 2, 3, 1};
    xcvm_program *program = load(growing);
    xcvm_session *session = open_default_session(program);
    float x[3] = {5, 6, 7};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const int64_t size = 1 + (int64_t)(i % 3);
        set_i64(session, 0, 0, NULL, &counts[i]);
        set_f32(session, 1, 1, &size, x);
        for (int round = 0; round < 2; round++) {
            run_session(session);
            const xcvm_value *y = xcvm_session_get_output(session, 0), *ones = xcvm_session_get_output(session, 1);
            const size_t length = (size_t)size << counts[i];
            ck_assert_uint_eq(xcvm_value_count(y), length);
            ck_assert_uint_eq(xcvm_value_count(ones), counts[i] == 0 ? 1 : length);
            for (size_t k = 0; k < length; k++)
                ck_assert_float_eq(XCVM_CDATA(float, y)[k], x[k % (size_t)size]);
            for (size_t k = 0; k < xcvm_value_count(ones); k++)
                ck_assert_float_eq(XCVM_CDATA(float, ones)[k], counts[i] == 0 ? 1.0F : counts[i] == 1 ? 2.0F : 3.0F);
        }
    }
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

/* Both branches set one register, with different shapes. Instructions after them infer again only if the other branch
 * was taken. */
START_TEST(branches)
{
    xcvm_program *program = load("input c bool[]\n"
                                 "input shape i64[2]\n"
                                 "input x f32[4]\n"
                                 "output y f32[?x?]\n"
                                 "$1 = In(name=\"c\")\n"
                                 "$2 = In(name=\"shape\")\n"
                                 "$3 = In(name=\"x\")\n"
                                 "$9 = Neg($3)\n"
                                 "JmpFalse($1, to=other)\n"
                                 "$4 = Reshape($3, i64[2] 4 1)\n"
                                 "Jmp(to=end)\n"
                                 "other:\n"
                                 "$4 = Reshape($9, i64[2] 1 4)\n"
                                 "end:\n"
                                 "$5 = Transpose($4, perm=[1 0])\n"
                                 "$6 = Concat([$5, $5], axis=0)\n"
                                 "$7 = Reshape($6, $2)\n"
                                 "$8 = Neg($7)\n"
                                 "Out($8, name=\"y\")\n");
    xcvm_session *session = open_default_session(program);
    float x[4] = {1, 2, 3, 4};
    uint8_t condition = 1;
    xcvm_value *c = NULL;
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_BOOL, 0, NULL, &condition, (xcvm_finalizer){0}, &c, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(session, 0, c, NULL), XCVM_OK);
    xcvm_value_release(c);
    set_f32(session, 2, 1, DIMS(4), x);
    static const struct {
        uint8_t condition;
        int64_t rows;
        uint64_t inferences;
    } runs[] = {
        /* Shapes that depend on elements of an input are inferred in each run. */
        {1, 2, 6}, {1, 2, 2}, {1, 4, 2}, {0, 4, 5}, {0, 4, 2}, {0, 1, 2}, {1, 1, 4}, {1, 8, 2},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        condition = runs[i].condition;
        set_i64(session, 1, 1, DIMS(2), (const int64_t[]){runs[i].rows, 8 / runs[i].rows});
        ck_assert_uint_eq(inferences_of_run(session), runs[i].inferences);
        const xcvm_value *y = xcvm_session_get_output(session, 0);
        ck_assert_int_eq(xcvm_value_dims(y)[0], runs[i].rows);
        for (size_t k = 0; k < 8; k++) {
            const float expected = condition ? -x[k % 4] : x[k % 4];
            ck_assert_float_eq(XCVM_CDATA(float, y)[k], expected);
        }
    }
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

/* Types that a kernel determines cannot be relied on, not even in programs without jumps. */
START_TEST(sizes_from_elements)
{
    xcvm_program *program = load("input x f32[4]\n"
                                 "output y i64[?]\n"
                                 "$1 = In(name=\"x\")\n"
                                 "$2 = NonZero($1)\n"
                                 "Jmp(to=next)\n"
                                 "next:\n"
                                 "$3 = Shape($2, start=1, end=2)\n"
                                 "$4 = Expand(i64[1] 7, $3)\n"
                                 "$5 = Add($4, $4)\n"
                                 "Out($5, name=\"y\")\n");
    xcvm_session *session = open_default_session(program);
    for (size_t bits = 0; bits < 16; bits++) {
        float x[4];
        size_t count = 0;
        for (size_t i = 0; i < 4; i++) {
            x[i] = (float)(bits >> i & 1);
            count += bits >> i & 1;
        }
        set_f32(session, 0, 1, DIMS(4), x);
        run_session(session);
        ck_assert_uint_eq(xcvm_value_count(xcvm_session_get_output(session, 0)), count);
    }
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

/* Two alternating buffers for an output and an input: nothing is inferred again, and results are in the right
 * buffer. */
START_TEST(buffers_in_turn)
{
    xcvm_program *program = load("arena 128\n"
                                 "input x f32[K]\n"
                                 "output y f32[K]\n"
                                 "output z f32[K]\n"
                                 "$1 = In(name=\"x\")\n"
                                 "$2 = Neg($1) slot=0+16\n"
                                 "$3 = Abs($2) slot=64+16\n"
                                 "Free($2)\n"
                                 "$4 = Neg($3) slot=64+16\n"
                                 "Free($3)\n"
                                 "Out($4, name=\"y\")\n"
                                 "$5 = Exp($1)\n"
                                 "Out($5, name=\"z\")\n");
    xcvm_session *session = open_default_session(program);
    float x[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}}, y[2][4];
    xcvm_value *buffers[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, 1, DIMS(4), y[i], (xcvm_finalizer){0}, &buffers[i], NULL), XCVM_OK);
    set_f32(session, 0, 1, DIMS(4), x[0]);
    ck_assert_uint_eq(inferences_of_run(session), 4);
    for (int i = 0; i < 10; i++) {
        const int turn = i % 2;
        x[turn][0] = (float)i;
        set_f32(session, 0, 1, DIMS(4), x[turn]);
        ck_assert_int_eq(xcvm_session_set_output(session, 0, i == 7 ? NULL : buffers[turn], NULL), XCVM_OK);
        y[0][0] = y[1][0] = 1;
        ck_assert_uint_eq(inferences_of_run(session), 0);
        CHECK_F32(session, 0, (float)-i, 0, 0, 0);
        ck_assert_float_eq(y[turn][0], i == 7 ? 1.0F : (float)-i);
        ck_assert_float_eq(y[1 - turn][0], 1);
    }
    for (int i = 0; i < 2; i++)
        xcvm_value_release(buffers[i]);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

Suite *suite_vm_static_shapes(void);
Suite *suite_vm_static_shapes(void)
{
    return SUITE_OF("vm_static_shapes", loops_infer_once, early_exits, types_change_from_iteration_to_iteration,
                    branches, sizes_from_elements, buffers_in_turn);
}

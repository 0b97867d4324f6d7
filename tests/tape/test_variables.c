/* Tests of variables: names, lifetimes and checks of handles. */
#include "tests/tape/support.h"

#include <pthread.h>

static void check_stale(xcvm_tape *t, xcvm_var v)
{
    xcvm_Neg(t, v);
    check_failed(t, XCVM_INVALID_ARGUMENT, "x is stale");
}

/* A stale handle is refused, also when its slot is reused. */
START_TEST(c4_1_stale_variables)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = constant(t, 1), p = parameter(t, 2), y = xcvm_Add(t, x, p);
    xcvm_var_release(t, x);
    const xcvm_var again = constant(t, 3);
    check_stale(t, x);
    CHECK_F32(t, again, 3);
    xcvm_var_release(t, x); /* does nothing */
    CHECK_F32(t, again, 3);
    xcvm_tape_reset(t);
    check_stale(t, y);
    check_stale(t, again);
    CHECK_F32(t, p, 2);
    xcvm_var_release(t, p);
    check_stale(t, p);
    ck_assert_uint_eq(stats_of(t).variables, 0);
    ck_assert_uint_eq(stats_of(t).live_bytes, 0);
    close_tape(t);
}
END_TEST

START_TEST(variables_of_other_tapes)
{
    xcvm_tape *t = open_tape(), *other = open_tape();
    const xcvm_var x = constant(t, 1);
    xcvm_Add(other, constant(other, 1), x);
    check_failed(other, XCVM_INVALID_ARGUMENT, "b is a variable of another tape");
    xcvm_var_release(other, x);
    CHECK_F32(t, x, 1);
    close_tape(t);
    close_tape(other);
}
END_TEST

/* A variable without a name that no op needs is freed at once, with its op. */
START_TEST(c3_4_dead_subgraphs)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = parameter(t, 2), a = xcvm_Exp(t, x), b = xcvm_Mul(t, a, x), c = xcvm_Mul(t, a, a);
    xcvm_var_release(t, a);
    ck_assert_uint_eq(stats_of(t).recorded, 3);
    check_stale(t, a); /* though ops still need its elements */
    xcvm_var_release(t, b);
    ck_assert_uint_eq(stats_of(t).recorded, 2);
    xcvm_var_release(t, c);
    ck_assert_uint_eq(stats_of(t).recorded, 0);
    ck_assert_uint_eq(stats_of(t).variables, 1);
    close_tape(t);
}
END_TEST

START_TEST(scopes)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = parameter(t, 2), before = xcvm_Sin(t, x);
    const xcvm_scope outer = xcvm_tape_scope_begin(t);
    const xcvm_var a = xcvm_Exp(t, x);
    const xcvm_scope inner = xcvm_tape_scope_begin(t);
    const xcvm_var b = xcvm_Mul(t, a, x), c = xcvm_Add(t, b, b), kept = xcvm_var_keep(t, constant(t, 5));
    xcvm_tape_scope_end(t, inner, 1, &c);
    check_stale(t, b);
    CHECK_F32(t, kept, 5);
    ck_assert_uint_eq(stats_of(t).recorded, 4);
    const xcvm_var results[] = {c, XCVM_ABSENT, kept};
    xcvm_tape_scope_end(t, outer, 3, results);
    check_stale(t, a);
    /* A variable of an outer scope does not become permanent as a result of the inner one. */
    const xcvm_scope around = xcvm_tape_scope_begin(t);
    const xcvm_var passing = xcvm_Neg(t, c);
    xcvm_tape_scope_end(t, xcvm_tape_scope_begin(t), 1, &passing);
    xcvm_tape_scope_end(t, around, 0, NULL);
    check_stale(t, passing);
    value_of(t, before);
    backward(t, c);
    CHECK_F32(t, xcvm_var_get_gradient(t, x), 2 * expf(2) * 3);
    xcvm_tape_reset(t);
    check_stale(t, c);
    CHECK_F32(t, kept, 5);
    close_tape(t);
}
END_TEST

/* An open scope does not remember freed variables. */
START_TEST(names_that_were_lost)
{
    enum { MANY = 100000 };
    xcvm_tape *t = open_tape();
    const xcvm_scope scope = xcvm_tape_scope_begin(t);
    const xcvm_var first = constant(t, 1);
    size_t before = 0;
    for (int i = 0; i < MANY; i++) {
        xcvm_var_release(t, constant(t, (float)i));
        if (i == MANY / 100)
            before = stats_of(t).total_bytes;
    }
    ck_assert_uint_eq(stats_of(t).total_bytes, before);
    CHECK_F32(t, first, 1);
    xcvm_tape_scope_end(t, scope, 0, NULL);
    check_stale(t, first);
    ck_assert_uint_eq(stats_of(t).variables, 0);
    close_tape(t);
}
END_TEST

/* After a reset slots are reused in order, except those of kept variables, also if these are released later. */
START_TEST(slots_behind_a_reset)
{
    enum { MANY = 300, EACH = 7 };
    xcvm_tape *t = open_tape();
    xcvm_var kept[MANY / EACH + 1], made[MANY];
    int count = 0;
    for (int i = 0; i < MANY; i++) {
        made[i] = constant(t, (float)i);
        if (i % EACH == 0)
            kept[count++] = xcvm_var_keep(t, made[i]);
    }
    for (int round = 0; round < 3; round++) {
        xcvm_tape_reset(t);
        ck_assert_uint_eq(stats_of(t).variables, (size_t)(count - round));
        for (int i = 0; i < MANY; i++) {
            made[i] = constant(t, (float)(MANY + i));
            if (i == MANY / 2)
                xcvm_var_release(t, kept[count - 1 - round]);
        }
        for (int i = 0; i < MANY; i++)
            CHECK_F32(t, made[i], (float)(MANY + i));
        for (int i = 0; i < count - 1 - round; i++)
            CHECK_F32(t, kept[i], (float)(i * EACH));
    }
    close_tape(t);
}
END_TEST

/* A kept variable is constant after a reset, as a state between parts of a sequence should be. */
START_TEST(kept_beyond_a_reset)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = parameter(t, 2), state = xcvm_var_keep(t, xcvm_Exp(t, x));
    ck_assert(xcvm_var_requires_gradient(t, state));
    xcvm_tape_reset(t);
    ck_assert(!xcvm_var_requires_gradient(t, state));
    backward(t, xcvm_Mul(t, state, x));
    CHECK_F32(t, xcvm_var_get_gradient(t, x), expf(2));
    close_tape(t);
}
END_TEST

START_TEST(elements)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    const xcvm_value *value;
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(2), F32S(1, 2)), view = xcvm_var_detach(t, x);
    ck_assert_int_eq(xcvm_var_set_data(t, x, F32S(3, 4), 8, &error), XCVM_OK);
    CHECK_F32(t, x, 3, 4);
    CHECK_F32(t, view, 3, 4);
    ck_assert_int_eq(xcvm_var_set_data(t, x, F32S(3), 4, &error), XCVM_SHAPE_MISMATCH);
    ck_assert(isnan(xcvm_var_get_number(t, x)));
    check_failed(t, XCVM_SHAPE_MISMATCH, "one number was asked for, but the variable is f32[2]");
    ck_assert_double_eq(xcvm_var_get_number(t, xcvm_tape_scalar(t, XCVM_BOOL, 1)), 1);
    ck_assert_double_eq(xcvm_var_get_number(t, xcvm_tape_scalar(t, XCVM_I64, -7)), -7);
    ck_assert_int_eq(xcvm_var_get_value(t, XCVM_ABSENT, &value, &error), XCVM_INVALID_ARGUMENT);
    xcvm_tape_parameter(t, XCVM_I64, 0, NULL, NULL);
    check_failed(t, XCVM_TYPE_MISMATCH, "a parameter is of a float type, not i64");
    xcvm_tape_constant(t, XCVM_STRING, 0, NULL, NULL);
    check_failed(t, XCVM_INVALID_ARGUMENT, "is no element type of tensors that are made of bytes");
    xcvm_tape_constant(t, XCVM_F32, 9, DIMS(1), NULL);
    check_failed(t, XCVM_INVALID_ARGUMENT, "rank 9");
    xcvm_tape_constant(t, XCVM_F32, 2, DIMS(INT64_MAX, 4), NULL);
    check_failed(t, XCVM_INVALID_ARGUMENT, "overflows");
    xcvm_tape_scalar(t, XCVM_STRING, 0);
    check_failed(t, XCVM_TYPE_MISMATCH, "a number cannot become str");
    xcvm_tape_value(t, NULL);
    check_failed(t, XCVM_INVALID_ARGUMENT, "value is NULL");
    close_tape(t);
}
END_TEST

/* Tapes of several threads are independent. */
static void *learn(void *user)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(2, 3), F32S(1, 2, 3, 4, 5, 6));
    for (int i = 0; i < 500; i++) {
        xcvm_error error;
        if (xcvm_tape_backward(t, xcvm_ReduceSum(t, xcvm_Softmax(t, xcvm_Mul(t, x, x))), NULL, &error) != XCVM_OK)
            return NULL;
        xcvm_tape_reset(t);
    }
    const xcvm_value *value;
    if (xcvm_var_get_value(t, xcvm_var_get_gradient(t, x), &value, NULL) != XCVM_OK)
        return NULL;
    memcpy(user, xcvm_value_data(value), 6 * sizeof(float));
    xcvm_tape_destroy(t);
    return user;
}

START_TEST(c3_7_tapes_on_threads)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    float results[THREADS][6];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, learn, results[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *done;
        ck_assert_int_eq(pthread_join(threads[i], &done), 0);
        ck_assert_ptr_nonnull(done);
        ck_assert_int_eq(memcmp(results[i], results[0], sizeof results[0]), 0);
    }
}
END_TEST

START_TEST(types)
{
    const xcvm_tape_mode modes[] = {XCVM_TAPE_EAGER, XCVM_TAPE_LAZY, XCVM_TAPE_BUILDING};
    for (int i = 0; i < 3; i++) {
        const xcvm_tape_options options = {.size = sizeof options, .threads = 1, .mode = modes[i]};
        xcvm_tape *t;
        xcvm_type type;
        xcvm_error error;
        ck_assert_int_eq(xcvm_tape_create(&options, &t, &error), XCVM_OK);
        const xcvm_var x = xcvm_tape_parameter(t, XCVM_F64, 2, DIMS(2, 3), NULL), y = xcvm_Transpose(t, x);
        ck_assert_int_eq(xcvm_var_get_type(t, y, &type, &error), XCVM_OK);
        ck_assert(type.kind == XCVM_KIND_TENSOR && type.dtype == XCVM_F64 && type.rank == 2);
        ck_assert(type.dims[0] == 3 && type.dims[1] == 2 && type.dim_names[0] == NULL);
        ck_assert_int_eq(xcvm_var_get_type(t, xcvm_SequenceConstruct(t, XCVM_VARS(x, y)), &type, &error), XCVM_OK);
        ck_assert(type.kind == XCVM_KIND_SEQUENCE && type.dtype == XCVM_F64 && type.rank == -1);
        ck_assert_int_eq(xcvm_var_get_type(t, y, NULL, &error), XCVM_INVALID_ARGUMENT);
        xcvm_var_release(t, y);
        ck_assert_int_eq(xcvm_var_get_type(t, y, &type, &error), XCVM_INVALID_ARGUMENT);
        xcvm_tape_destroy(t);
    }
}
END_TEST

Suite *suite_tape_variables(void);
Suite *suite_tape_variables(void)
{
    return SUITE_OF("tape_variables", c4_1_stale_variables, variables_of_other_tapes, c3_4_dead_subgraphs, scopes,
                    names_that_were_lost, slots_behind_a_reset, kept_beyond_a_reset, elements, types,
                    c3_7_tapes_on_threads);
}

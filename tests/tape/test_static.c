/* Tests of static schedules: each kind of op gives the define-by-run result. */
#include "tests/tape/static_support.h"

/* Forward and backward between eager ops, for three element types. */
START_TEST(a11_11_layers_as_define_by_run)
{
    const xcvm_dtype dtypes[] = {XCVM_F16, XCVM_F32, XCVM_F64};
    const double tolerances[] = {2e-2, 1e-5, 1e-12};
    for (int d = 0; d < 3; d++) {
        xcvm_tape *t = open_tape(), *eager = open_tape();
        chain c = make_chain(t, dtypes[d]), same = make_chain(eager, dtypes[d]);
        xcvm_static *s = make_static(t, (xcvm_static_function){run_chain, &c}, NULL);
        for (int i = 0; i < 5; i++) {
            xcvm_var x = batch(t, dtypes[d], 2, (float)i / 8), y;
            xcvm_error error;
            ck_assert_int_eq(xcvm_var_set_requires_gradient(t, x, true, &error), XCVM_OK);
            const xcvm_var loss = xcvm_ReduceSum(t, xcvm_Mul(t, call1(s, xcvm_Exp(t, x)), call1(s, x)));
            backward(t, loss);
            xcvm_var z = batch(eager, dtypes[d], 2, (float)i / 8), e = xcvm_Exp(eager, z), other;
            ck_assert_int_eq(xcvm_var_set_requires_gradient(eager, z, true, &error), XCVM_OK);
            e = xcvm_Exp(eager, z);
            ck_assert_int_eq(run_chain(&same, eager, 1, &e, 1, &y), XCVM_OK);
            ck_assert_int_eq(run_chain(&same, eager, 1, &z, 1, &other), XCVM_OK);
            const xcvm_var expected = xcvm_ReduceSum(eager, xcvm_Mul(eager, y, other));
            backward(eager, expected);
            check_bytes(t, loss, eager, expected, tolerances[d]);
            check_bytes(t, xcvm_var_get_gradient(t, x), eager, xcvm_var_get_gradient(eager, z), tolerances[d]);
            check_chain_gradients(t, &c, eager, &same, tolerances[d]);
            if (i == 2) { /* accumulated before, cleared from here on */
                clear_chain(t, &c);
                clear_chain(eager, &same);
            }
            xcvm_tape_reset(t);
            xcvm_tape_reset(eager);
        }
        ck_assert_int_eq(c.runs, 1);
        ck_assert_uint_eq(figures(s).replayed, 9);
        ck_assert_uint_eq(figures(s).schedules, 1);
        xcvm_static_destroy(s);
        close_tape(t);
        close_tape(eager);
    }
}
END_TEST

/* ---- Calling ---- */

/* The first call runs the function, others replay. A disabled function is called with the caller's own variables. */
START_TEST(a11_1_first_call_runs_others_replay)
{
    xcvm_tape *t = open_tape();
    chain c = make_chain(t, XCVM_F32);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_chain, &c}, NULL);
    const xcvm_var x = batch(t, XCVM_F32, 2, 0), y = call1(s, x), z = call1(s, x);
    ck_assert_int_eq(c.runs, 1);
    check_bytes(t, y, t, z, 1e-6);
    ck_assert(!xcvm_static_set_enabled(s, false) == false);
    check_bytes(t, call1(s, x), t, y, 0);
    ck_assert_int_eq(c.runs, 2);
    ck_assert(!xcvm_static_set_enabled(s, true));
    call1(s, x);
    ck_assert_int_eq(c.runs, 2);
    ck_assert_uint_eq(figures(s).runs, 1);
    ck_assert_uint_eq(figures(s).replayed, 2);
    /* A replay is one op. */
    const uint64_t calls = stats_of(t).calls;
    call1(s, x);
    ck_assert_uint_eq(stats_of(t).calls, calls + 1);
    xcvm_error error;
    test_bytes drawing = {NULL, 0, 0};
    ck_assert_int_eq(xcvm_tape_draw(t, (xcvm_sink){test_bytes_sink, &drawing}, &error), XCVM_OK);
    ck_assert(test_bytes_sink(&drawing, "", 1));
    ck_assert_ptr_nonnull(strstr(drawing.at, "[label=\"static\", shape=box]"));
    test_bytes_free(&drawing);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

static xcvm_status passed_on(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                             xcvm_var *out)
{
    (void)t;
    (void)in_count;
    (void)out_count;
    *(xcvm_var *)user = in[0];
    out[0] = in[0];
    return XCVM_OK;
}

START_TEST(a11_1_disabled_passes_the_callers_variables)
{
    xcvm_tape *t = open_tape();
    xcvm_var seen = XCVM_ABSENT;
    messages m = {.count = 0};
    const xcvm_static_options options = {.size = sizeof options, .log = {take_message, &m}};
    xcvm_static *s = make_static(t, (xcvm_static_function){passed_on, &seen}, &options);
    const xcvm_var x = parameter(t, 3);
    xcvm_static_set_enabled(s, false);
    const xcvm_var y = call1(s, x);
    ck_assert(seen.at == x.at && y.at == x.at);
    ck_assert_uint_eq(figures(s).runs, 0);
    xcvm_static_set_enabled(s, true);
    for (int i = 0; i < 3; i++) { /* an operand that is the result */
        const xcvm_var z = call1(s, x);
        ck_assert_msg(seen.at != x.at && z.at != x.at, "%s", m.text);
        xcvm_var_clear_gradient(t, x);
        backward(t, xcvm_Mul(t, z, z));
        CHECK_F32(t, xcvm_var_get_gradient(t, x), 6);
    }
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

/* A schedule for each combination of shapes, types and modes. */
START_TEST(a11_2_keys)
{
    xcvm_tape *t = open_tape();
    chain c = make_chain(t, XCVM_F32);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_chain, &c}, NULL);
    for (int round = 0; round < 3; round++) {
        call1(s, batch(t, XCVM_F32, 2, 0));
        call1(s, batch(t, XCVM_F32, 3, 0));
        xcvm_static_set_training(s, false);
        call1(s, batch(t, XCVM_F32, 2, 0));
        const bool recording = xcvm_tape_set_recording(t, false);
        call1(s, batch(t, XCVM_F32, 2, 0));
        xcvm_tape_set_recording(t, recording);
        xcvm_static_set_training(s, true);
        ck_assert_uint_eq(figures(s).schedules, 4);
        ck_assert_int_eq(c.runs, 4);
    }
    xcvm_var x = batch(t, XCVM_F32, 2, 0);
    xcvm_error error;
    ck_assert_int_eq(xcvm_var_set_requires_gradient(t, x, true, &error), XCVM_OK);
    call1(s, x);
    ck_assert_uint_eq(figures(s).schedules, 5);
    /* Other types, which the layers refuse. */
    call1(s, batch(t, XCVM_F64, 2, 0));
    ck_assert_int_eq(xcvm_tape_status(t, &error), XCVM_TYPE_MISMATCH);
    ck_assert_uint_eq(figures(s).schedules, 5);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

/* Elements that determine shapes are part of the key. */
static xcvm_status reshape(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                           xcvm_var *out)
{
    (void)in_count;
    (void)out_count;
    ++*(int *)user;
    out[0] = xcvm_ReduceSum(t, xcvm_Reshape(t, in[0], in[1]), xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(0)),
                            .keepdims = 0);
    return XCVM_OK;
}

START_TEST(a11_2_shapes_that_operands_decide)
{
    xcvm_tape *t = open_tape();
    int runs = 0;
    xcvm_static *s = make_static(t, (xcvm_static_function){reshape, &runs}, NULL);
    const xcvm_var x = xcvm_tape_constant(t, XCVM_F32, 1, DIMS(6), F32S(1, 2, 3, 4, 5, 6));
    for (int i = 0; i < 3; i++) {
        const xcvm_var rows = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(2, 3)),
                       columns = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(3, 2));
        xcvm_var y;
        CHECK_F32(t, xcvm_static_call(s, 2, (const xcvm_var[]){x, rows}, 1, &y), 5, 7, 9);
        CHECK_F32(t, xcvm_static_call(s, 2, (const xcvm_var[]){x, columns}, 1, &y), 9, 12);
    }
    ck_assert_int_eq(runs, 2);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

/* Several calls before one backward pass have activations of their own, which it frees. xcvm_static_end_forward
 * does, too. */
START_TEST(a11_3_activations_of_each_call)
{
    xcvm_tape *t = open_tape(), *eager = open_tape();
    chain c = make_chain(t, XCVM_F32), same = make_chain(eager, XCVM_F32);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_chain, &c}, NULL);
    call1(s, batch(t, XCVM_F32, 2, 0));
    for (int round = 0; round < 3; round++) {
        xcvm_var sum = XCVM_ABSENT, expected = XCVM_ABSENT;
        clear_chain(t, &c);
        clear_chain(eager, &same);
        for (int i = 0; i < 3; i++) {
            const xcvm_var y = call1(s, batch(t, XCVM_F32, 2, (float)i));
            sum = i > 0 ? xcvm_Add(t, xcvm_Mul(t, sum, y), y) : y;
            xcvm_var x = batch(eager, XCVM_F32, 2, (float)i), z;
            run_chain(&same, eager, 1, &x, 1, &z);
            expected = i > 0 ? xcvm_Add(eager, xcvm_Mul(eager, expected, z), z) : z;
        }
        ck_assert_uint_eq(figures(s).in_use, 3);
        backward(t, xcvm_ReduceSum(t, sum));
        backward(eager, xcvm_ReduceSum(eager, expected));
        ck_assert_uint_eq(figures(s).in_use, 0);
        check_chain_gradients(t, &c, eager, &same, 1e-5);
        xcvm_static_end_forward(s);
        xcvm_tape_reset(t);
        xcvm_tape_reset(eager);
    }
    ck_assert_int_eq(c.runs, 1);
    /* Without a backward pass. */
    const xcvm_var x = batch(t, XCVM_F32, 2, 0), y = call1(s, x), z = call1(s, x);
    const size_t before = stats_of(t).live_bytes;
    xcvm_static_end_forward(s);
    xcvm_static_end_forward(s);
    ck_assert_uint_eq(figures(s).in_use, 0);
    ck_assert_uint_lt(stats_of(t).live_bytes, before);
    ck_assert(!xcvm_var_requires_gradient(t, y));
    check_bytes(t, y, t, z, 0);
    xcvm_static_destroy(s);
    close_tape(t);
    close_tape(eager);
}
END_TEST

/* The cache is bounded. The least recently used schedule is evicted, but not one that a backward pass needs. */
START_TEST(a11_4_cache_size)
{
    xcvm_tape *t = open_tape(), *eager = open_tape();
    chain c = make_chain(t, XCVM_F32), same = make_chain(eager, XCVM_F32);
    const xcvm_static_options two = {.size = sizeof two, .cache_limit = 2},
                              minimal = {.size = sizeof minimal, .minimize_cache_size = true};
    xcvm_static *s = make_static(t, (xcvm_static_function){run_chain, &c}, &two);
    const bool recording = xcvm_tape_set_recording(t, false);
    for (int64_t rows = 1; rows < 4; rows++) {
        call1(s, batch(t, XCVM_F32, rows, 0));
        call1(s, batch(t, XCVM_F32, 1, 0));
    }
    ck_assert_uint_eq(figures(s).schedules, 2);
    ck_assert_uint_eq(figures(s).evicted, 1);
    ck_assert_int_eq(c.runs, 3);
    call1(s, batch(t, XCVM_F32, 1, 0)); /* used, so it stayed */
    ck_assert_int_eq(c.runs, 3);
    call1(s, batch(t, XCVM_F32, 2, 0)); /* evicted */
    ck_assert_int_eq(c.runs, 4);
    xcvm_static_reset(s);
    ck_assert_uint_eq(figures(s).schedules, 0);
    xcvm_static_destroy(s);

    c.runs = 0;
    s = make_static(t, (xcvm_static_function){run_chain, &c}, &minimal);
    for (int i = 0; i < 4; i++) {
        xcvm_static_set_training(s, i % 2 == 0);
        call1(s, batch(t, XCVM_F32, 2, 0));
        call1(s, batch(t, XCVM_F32, 2, 0));
        ck_assert_uint_eq(figures(s).schedules, 1);
        ck_assert_int_eq(c.runs, i + 1);
    }
    xcvm_tape_set_recording(t, recording);
    /* Two kinds of calls before one backward pass. */
    xcvm_var sums[2];
    xcvm_tape *tapes[] = {t, eager};
    for (int k = 0; k < 2; k++) {
        sums[k] = XCVM_ABSENT;
        for (int i = 0; i < 6; i++) {
            const xcvm_var x = batch(tapes[k], XCVM_F32, 1 + i / 3, (float)i);
            xcvm_var y;
            if (k == 0)
                y = call1(s, x);
            else
                run_chain(&same, eager, 1, &x, 1, &y);
            const xcvm_var sum = xcvm_ReduceSum(tapes[k], y);
            sums[k] = i > 0 ? xcvm_Add(tapes[k], sums[k], sum) : sum;
        }
        backward(tapes[k], xcvm_ReduceSum(tapes[k], sums[k]));
    }
    check_chain_gradients(t, &c, eager, &same, 1e-5);
    xcvm_static_destroy(s);
    close_tape(t);
    close_tape(eager);
}
END_TEST

/* Messages by level: warnings, recordings and compilations, calls. */
START_TEST(a11_5_verbosity)
{
    const size_t expected[] = {0, 2, 4};
    for (int level = 0; level < 3; level++) {
        xcvm_tape *t = open_tape();
        messages m = {.count = 0};
        chain c = make_chain(t, XCVM_F32);
        const xcvm_static_options options = {
            .size = sizeof options, .name = "layers", .verbosity = level, .log = {take_message, &m}};
        xcvm_static *s = make_static(t, (xcvm_static_function){run_chain, &c}, &options);
        for (int i = 0; i < 3; i++)
            call1(s, batch(t, XCVM_F32, 2, 0));
        ck_assert_msg(m.count == expected[level], "%s", m.text);
        if (level > 0) {
            ck_assert_ptr_nonnull(
                strstr(m.text, "1 layers: 3 calls are recorded, 4 variables captured, with gradients"));
            ck_assert_ptr_nonnull(strstr(m.text, "1 layers: compiled"));
        }
        xcvm_static_destroy(s);
        close_tape(t);
    }
    xcvm_tape *t = open_tape();
    xcvm_static *s = NULL;
    xcvm_error error;
    const xcvm_static_options loud = {.size = sizeof loud, .verbosity = 3};
    ck_assert_int_eq(xcvm_static_create(t, (xcvm_static_function){run_chain, NULL}, &loud, &s, &error),
                     XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_static_create(t, (xcvm_static_function){0}, NULL, &s, &error), XCVM_INVALID_ARGUMENT);
    close_tape(t);
}
END_TEST

START_TEST(a11_5_define_by_run_in_test_mode)
{
    xcvm_tape *t = open_tape();
    chain c = make_chain(t, XCVM_F32);
    const xcvm_static_options options = {.size = sizeof options, .force_test_define_by_run = true};
    xcvm_static *s = make_static(t, (xcvm_static_function){run_chain, &c}, &options);
    for (int i = 0; i < 3; i++)
        call1(s, batch(t, XCVM_F32, 2, 0));
    ck_assert_int_eq(c.runs, 1);
    xcvm_static_set_training(s, false);
    for (int i = 0; i < 3; i++)
        call1(s, batch(t, XCVM_F32, 2, 0));
    ck_assert_int_eq(c.runs, 4);
    ck_assert_uint_eq(figures(s).schedules, 1);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

/* ---- Gradients of gradients ---- */

static xcvm_status cube(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count, xcvm_var *out)
{
    (void)in_count;
    (void)out_count;
    /* w x^3, and a part without gradient. */
    const xcvm_var w = *(const xcvm_var *)user, x = in[0];
    const xcvm_var still = xcvm_var_detach(t, xcvm_Mul(t, x, x));
    out[0] = xcvm_Add(t, xcvm_Mul(t, w, xcvm_Mul(t, x, xcvm_Mul(t, x, x))), still);
    return XCVM_OK;
}

START_TEST(a11_5_double_backprop)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    xcvm_var w = parameter(t, 2);
    const xcvm_var x = parameter(t, 3), none = XCVM_ABSENT;
    const xcvm_static_options options = {.size = sizeof options, .double_backprop = true};
    const xcvm_backward_options create = {.size = sizeof create, .create_graph = true};
    xcvm_static *s = make_static(t, (xcvm_static_function){cube, &w}, &options);
    for (int i = 0; i < 3; i++) {
        const xcvm_var y = call1(s, x), wrt[] = {x, w};
        xcvm_var g[2], h[2], third;
        CHECK_F32(t, y, 63);
        ck_assert_msg(xcvm_tape_gradients(t, 1, &y, &none, 2, wrt, &create, g, &error) == XCVM_OK, "%s", error.message);
        CHECK_F32(t, g[0], 54); /* 3 w x^2 */
        CHECK_F32(t, g[1], 27); /* x^3 */
        ck_assert_msg(xcvm_tape_gradients(t, 1, g, &none, 2, wrt, &create, h, &error) == XCVM_OK, "%s", error.message);
        CHECK_F32(t, h[0], 36); /* 6 w x */
        CHECK_F32(t, h[1], 27); /* 3 x^2 */
        ck_assert_msg(xcvm_tape_gradients(t, 1, h, &none, 1, &x, NULL, &third, &error) == XCVM_OK, "%s", error.message);
        CHECK_F32(t, third, 12); /* 6 w */
        xcvm_tape_reset(t);
    }
    xcvm_static_destroy(s);
    /* It needs an option. */
    s = make_static(t, (xcvm_static_function){cube, &w}, NULL);
    call1(s, x);
    const xcvm_var y = call1(s, x);
    xcvm_var g;
    ck_assert_int_eq(xcvm_tape_gradients(t, 1, &y, &none, 1, &x, &create, &g, &error), XCVM_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "xcvm_static_options.double_backprop"));
    ck_assert_str_eq(error.instruction, "static");
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

/* ---- Operands and results ---- */

static xcvm_status nested(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                          xcvm_var *out)
{
    (void)t;
    return xcvm_static_call(*(xcvm_static **)user, in_count, in, out_count, out).at != NULL ? XCVM_OK
                                                                                            : XCVM_INVALID_ARGUMENT;
}

START_TEST(a11_6_nested_functions_are_refused)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    chain c = make_chain(t, XCVM_F32);
    xcvm_static *inner = make_static(t, (xcvm_static_function){run_chain, &c}, NULL),
                *outer = make_static(t, (xcvm_static_function){nested, &inner}, NULL);
    ck_assert_ptr_null(call1(outer, batch(t, XCVM_F32, 2, 0)).at);
    ck_assert_int_eq(xcvm_tape_status(t, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "is called within a static function"));
    xcvm_static_set_enabled(outer, false);
    call1(outer, batch(t, XCVM_F32, 2, 0));
    call1(inner, batch(t, XCVM_F32, 2, 0));
    ck_assert_int_eq(c.runs, 1);
    xcvm_static_destroy(outer);
    xcvm_static_destroy(inner);
    close_tape(t);
}
END_TEST

/* Several operands, some absent or repeated; several results, one an operand, one a constant. */
static xcvm_status many(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count, xcvm_var *out)
{
    (void)user;
    ck_assert_uint_eq(out_count, 4);
    xcvm_var sum = in[0];
    for (size_t i = 1; i < in_count; i++)
        if (in[i].at != NULL)
            sum = xcvm_Sub(t, sum, in[i]);
    out[0] = sum;
    out[1] = in[0];
    out[2] = constant(t, 7);
    out[3] = xcvm_Cast(t, sum, .to = XCVM_I64);
    return XCVM_OK;
}

START_TEST(a11_6_many_operands_and_results)
{
    xcvm_tape *t = open_tape();
    xcvm_static *s = make_static(t, (xcvm_static_function){many, NULL}, NULL);
    xcvm_var out[4];
    for (int i = 0; i < 4; i++) {
        const xcvm_var x = parameter(t, 5), y = constant(t, (float)i);
        CHECK_F32(t, xcvm_static_call(s, 4, (const xcvm_var[]){x, y, XCVM_ABSENT, x}, 4, out), -(float)i);
        CHECK_F32(t, out[1], 5);
        CHECK_F32(t, out[2], 7);
        ck_assert_int_eq(xcvm_value_dtype(value_of(t, out[3])), XCVM_I64);
        ck_assert(!xcvm_var_requires_gradient(t, out[2]) && !xcvm_var_requires_gradient(t, out[3]));
        backward(t, xcvm_Add(t, out[0], xcvm_Mul(t, out[1], out[2])));
        CHECK_F32(t, xcvm_var_get_gradient(t, x), 7);
        /* The same operands in other positions. */
        xcvm_static_call(s, 4, (const xcvm_var[]){x, y, y, XCVM_ABSENT}, 4, out);
        CHECK_F32(t, out[0], 5 - 2 * (float)i);
        xcvm_tape_reset(t);
    }
    ck_assert_uint_eq(figures(s).runs, 2);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

Suite *suite_tape_static(void);
Suite *suite_tape_static(void)
{
    return SUITE_OF("tape_static", a11_11_layers_as_define_by_run, a11_1_first_call_runs_others_replay,
                    a11_1_disabled_passes_the_callers_variables, a11_2_keys, a11_2_shapes_that_operands_decide,
                    a11_3_activations_of_each_call, a11_4_cache_size, a11_5_verbosity, a11_5_define_by_run_in_test_mode,
                    a11_5_double_backprop, a11_6_nested_functions_are_refused, a11_6_many_operands_and_results);
}

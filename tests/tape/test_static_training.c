/* Tests of static schedules that train: parameters, whole steps, saved programs. */
#include "tests/tape/static_support.h"
#include "xcvm/compiler.h"

/* ---- Parameters ---- */

/* Captures may be changed, cleared, exchanged and released between calls. */
START_TEST(a11_9_parameters_are_replaced)
{
    xcvm_tape *t = open_tape(), *eager = open_tape();
    xcvm_error error;
    chain c = make_chain(t, XCVM_F32), same = make_chain(eager, XCVM_F32);
    xcvm_var *const held[] = {&c.w[1]};
    messages m = {.count = 0};
    const xcvm_static_options options = {
        .size = sizeof options, .held = held, .held_count = 1, .verbosity = 1, .log = {take_message, &m}};
    xcvm_static *s = make_static(t, (xcvm_static_function){run_chain, &c}, &options);
    for (int i = 0; i < 8; i++) {
        const float numbers[] = {(float)i, 1, -1, 0.5f, 0.25f, -2, 0, 1};
        xcvm_var y, x = batch(eager, XCVM_F32, 2, 0);
        if (i % 2 == 1) { /* in place, or another variable in the held slot */
            ck_assert_int_eq(xcvm_var_set_data(t, c.w[1], numbers, sizeof numbers, &error), XCVM_OK);
        } else if (i > 0) {
            xcvm_var_release(t, c.w[1]);
            c.w[1] = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(4, 2), numbers);
        }
        if (i > 0) {
            xcvm_var_release(eager, same.w[1]);
            same.w[1] = xcvm_tape_parameter(eager, XCVM_F32, 2, DIMS(4, 2), numbers);
        }
        clear_chain(t, &c);
        clear_chain(eager, &same);
        backward(t, xcvm_ReduceSum(t, call1(s, batch(t, XCVM_F32, 2, 0))));
        run_chain(&same, eager, 1, &x, 1, &y);
        backward(eager, xcvm_ReduceSum(eager, y));
        check_chain_gradients(t, &c, eager, &same, 1e-5);
    }
    ck_assert_int_eq(c.runs, 1);
    /* A released capture: the function is recorded again. */
    xcvm_var_release(t, c.b[0]);
    c.b[0] = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(4), F32S(1, 2, 3, 4));
    const xcvm_var y = call1(s, batch(t, XCVM_F32, 2, 0)), z = call1(s, batch(t, XCVM_F32, 2, 0));
    ck_assert_int_eq(c.runs, 2);
    check_bytes(t, y, t, z, 1e-6);
    /* A capture that no longer requires a gradient. */
    ck_assert_int_eq(xcvm_var_set_requires_gradient(t, c.b[1], false, &error), XCVM_OK);
    for (int i = 0; i < 2; i++) {
        clear_chain(t, &c);
        backward(t, xcvm_ReduceSum(t, call1(s, batch(t, XCVM_F32, 2, 0))));
        ck_assert_ptr_null(xcvm_var_get_gradient(t, c.b[1]).at);
        ck_assert_ptr_nonnull(xcvm_var_get_gradient(t, c.w[1]).at);
    }
    ck_assert_int_eq(c.runs, 3);
    xcvm_static_destroy(s);
    close_tape(t);
    close_tape(eager);
}
END_TEST

/* In test mode captures are constants of the program until they change. */
START_TEST(a11_9_parameters_that_change_in_test_mode)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    chain c = make_chain(t, XCVM_F32);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_chain, &c}, NULL);
    xcvm_tape_set_recording(t, false);
    for (int i = 0; i < 6; i++) {
        const float numbers[] = {(float)i, 1, -1, 0.5f, 0.25f, -2, 0, 1};
        if (i > 2 && i % 2 == 0)
            ck_assert_int_eq(xcvm_var_set_data(t, c.w[1], numbers, sizeof numbers, &error), XCVM_OK);
        else if (i > 2)
            xcvm_Add(t, c.w[1], c.w[1], .into = c.w[1]);
        const xcvm_var x = batch(t, XCVM_F32, 2, 0), y = call1(s, x);
        xcvm_var z;
        run_chain(&c, t, 1, &x, 1, &z);
        check_bytes(t, y, t, z, 1e-5);
    }
    ck_assert_uint_eq(figures(s).runs, 1);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

/* Overwritten elements that the backward pass needs are an error, as define-by-run. */
START_TEST(a11_9_overwritten_before_the_backward)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    chain c = make_chain(t, XCVM_F32);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_chain, &c}, NULL);
    for (int i = 0; i < 3; i++) {
        const xcvm_var y = xcvm_ReduceSum(t, call1(s, batch(t, XCVM_F32, 2, 0)));
        xcvm_tape_set_recording(t, false);
        xcvm_Neg(t, c.w[1], .into = c.w[1]);
        xcvm_tape_set_recording(t, true);
        ck_assert_int_eq(xcvm_tape_backward(t, y, NULL, &error), XCVM_INVALID_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(error.message, "has overwritten"));
        ck_assert_str_eq(error.instruction, i == 0 ? "Gemm" : "static");
        xcvm_tape_reset(t);
    }
    ck_assert_int_eq(c.runs, 1);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

static xcvm_status run_overwriting(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                   xcvm_var *out)
{
    const xcvm_var w = *(const xcvm_var *)user;
    (void)in_count;
    (void)out_count;
    out[0] = xcvm_Mul(t, xcvm_Mul(t, w, w), in[0]);
    xcvm_tape_set_recording(t, false);
    xcvm_Mul(t, w, in[0], .into = w);
    xcvm_tape_set_recording(t, true);
    return XCVM_OK;
}

/* Elements that the function itself overwrites cannot be read by a backward pass, with or without a schedule. */
START_TEST(a11_9_overwritten_by_the_function)
{
    xcvm_tape *t = open_tape();
    xcvm_var w = parameter(t, 3);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_overwriting, &w}, NULL);
    float expected = 3;
    for (int i = 0; i < 4; i++) {
        xcvm_error error = {0};
        const xcvm_var y = call1(s, constant(t, 2));
        CHECK_F32(t, y, 2 * expected * expected);
        CHECK_F32(t, w, expected *= 2);
        ck_assert_int_eq(xcvm_tape_backward(t, y, NULL, &error), XCVM_INVALID_ARGUMENT);
        ck_assert_msg(strstr(error.message, "has overwritten") != NULL, "%s", error.message);
        xcvm_tape_reset(t);
    }
    ck_assert_uint_eq(figures(s).replayed, 3);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

/* Results belong to the caller: later calls do not change them. A second backward pass is refused. */
START_TEST(a11_10_results_stay)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    chain c = make_chain(t, XCVM_F32);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_chain, &c}, NULL);
    call1(s, batch(t, XCVM_F32, 2, 0));
    const xcvm_var y = call1(s, batch(t, XCVM_F32, 2, 0)), copy = xcvm_Identity(t, xcvm_Neg(t, xcvm_Neg(t, y)));
    call1(s, batch(t, XCVM_F32, 2, 3));
    check_bytes(t, y, t, copy, 0);
    const xcvm_var loss = xcvm_ReduceSum(t, y), again = xcvm_ReduceSum(t, xcvm_Exp(t, y));
    backward(t, loss);
    ck_assert_int_eq(xcvm_tape_backward(t, again, NULL, &error), XCVM_INVALID_ARGUMENT);
    xcvm_tape_reset(t);
    /* Unless the graph is retained. */
    const xcvm_backward_options retain = {.size = sizeof retain, .retain_graph = true};
    const xcvm_var z = xcvm_ReduceSum(t, call1(s, batch(t, XCVM_F32, 2, 0)));
    clear_chain(t, &c);
    backward_with(t, z, &retain);
    const xcvm_var once =
        xcvm_var_keep(t, xcvm_Add(t, xcvm_var_get_gradient(t, c.w[0]), xcvm_var_get_gradient(t, c.w[0])));
    backward(t, z);
    check_bytes(t, xcvm_var_get_gradient(t, c.w[0]), t, once, 1e-6);
    /* Destroyed before the backward pass: results stay, gradients do not. */
    const xcvm_var last = call1(s, batch(t, XCVM_F32, 2, 0));
    xcvm_static_destroy(s);
    value_of(t, last);
    ck_assert_int_eq(xcvm_tape_backward(t, xcvm_ReduceSum(t, last), NULL, &error), XCVM_INVALID_ARGUMENT);
    close_tape(t);
}
END_TEST

/* ---- Whole steps ---- */

typedef struct training {
    chain c;
    xcvm_var rate;
} training;

static xcvm_status run_step(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                            xcvm_var *out)
{
    training *m = user;
    xcvm_var y;
    const xcvm_var parameters[] = {m->c.w[0], m->c.b[0], m->c.w[1], m->c.b[1]};
    const xcvm_status status = run_chain(&m->c, t, in_count, in, 1, &y);
    (void)out_count;
    if (status != XCVM_OK)
        return status;
    out[0] = xcvm_ReduceMean(t, xcvm_Mul(t, y, y), .keepdims = 0);
    xcvm_error error;
    ck_assert_int_eq(xcvm_tape_backward(t, out[0], NULL, &error), XCVM_OK);
    xcvm_tape_set_recording(t, false);
    for (int i = 0; i < 4; i++) {
        const xcvm_var p = parameters[i];
        xcvm_Sub(t, p, xcvm_Mul(t, xcvm_var_get_gradient(t, p), m->rate), .into = p);
        xcvm_var_clear_gradient(t, p);
    }
    xcvm_tape_set_recording(t, true);
    return XCVM_OK;
}

static training make_training(xcvm_tape *t)
{
    return (training){make_chain(t, XCVM_F32), xcvm_var_keep(t, constant(t, 0.25f))};
}

/* The optimizer is part of the schedule: parameters equal the define-by-run ones, step by step. */
START_TEST(a11_12_optimizer_in_the_schedule)
{
    xcvm_tape *t = open_tape(), *eager = open_tape();
    training m = make_training(t), same = make_training(eager);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_step, &m}, NULL);
    const xcvm_var view = xcvm_var_keep(t, xcvm_var_detach(t, m.c.b[1]));
    (void)view;
    xcvm_var_release(t, view);
    for (int i = 0; i < 5; i++) {
        const xcvm_var x = batch(eager, XCVM_F32, 2, 0), loss = call1(s, batch(t, XCVM_F32, 2, 0));
        xcvm_var expected;
        run_step(&same, eager, 1, &x, 1, &expected);
        check_bytes(t, loss, eager, expected, 1e-5);
        for (int k = 0; k < 2; k++) {
            check_bytes(t, m.c.w[k], eager, same.c.w[k], 1e-5);
            check_bytes(t, m.c.b[k], eager, same.c.b[k], 1e-5);
        }
        xcvm_tape_reset(t);
        xcvm_tape_reset(eager);
    }
    ck_assert_int_eq(m.c.runs, 1);
    ck_assert_uint_eq(figures(s).replayed, 4);
    /* The rate is captured too. */
    const float slower = 0;
    xcvm_error error;
    ck_assert_int_eq(xcvm_var_set_data(t, m.rate, &slower, sizeof slower, &error), XCVM_OK);
    const xcvm_var before = xcvm_var_keep(t, xcvm_Neg(t, xcvm_Neg(t, m.c.w[0])));
    call1(s, batch(t, XCVM_F32, 2, 0));
    check_bytes(t, m.c.w[0], t, before, 0);
    xcvm_static_destroy(s);
    close_tape(t);
    close_tape(eager);
}
END_TEST

/* Other variables see what a schedule writes to shared elements. */
START_TEST(a11_12_views_of_what_is_written)
{
    xcvm_tape *t = open_tape();
    training m = make_training(t);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_step, &m}, NULL);
    call1(s, batch(t, XCVM_F32, 2, 0));
    call1(s, batch(t, XCVM_F32, 2, 0));
    const xcvm_var view = xcvm_var_keep(t, xcvm_var_detach(t, m.c.w[0]));
    call1(s, batch(t, XCVM_F32, 2, 0));
    check_bytes(t, m.c.w[0], t, view, 0);
    ck_assert_uint_eq(figures(s).replayed, 2);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

/* A schedule updates weights in place. */
START_TEST(a11_12_weights_stay_where_they_are)
{
    xcvm_tape *t = open_tape();
    training m = make_training(t);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_step, &m}, NULL);
    call1(s, batch(t, XCVM_F32, 2, 0));
    call1(s, batch(t, XCVM_F32, 2, 0));
    const xcvm_var before = xcvm_var_keep(t, xcvm_Neg(t, m.c.w[0]));
    const void *at = xcvm_value_data(value_of(t, m.c.w[0]));
    call1(s, batch(t, XCVM_F32, 2, 0));
    ck_assert_ptr_eq(xcvm_value_data(value_of(t, m.c.w[0])), at);
    ck_assert_uint_eq(figures(s).replayed, 2);
    ck_assert_mem_ne(xcvm_value_data(value_of(t, xcvm_Neg(t, m.c.w[0]))), xcvm_value_data(value_of(t, before)),
                     xcvm_value_bytes(value_of(t, before)));
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

typedef struct descent {
    xcvm_var w, rate;
    xcvm_operation operation; /* in between */
    int calls;
} descent;

static xcvm_status fail_fourth_time(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                    xcvm_var *out)
{
    (void)in_count;
    (void)out_count;
    if (++*(int *)user == 4)
        return XCVM_IO;
    out[0] = xcvm_Log(t, in[0]);
    return XCVM_OK;
}

/* The old w, and the logarithm of x; w decreases by x. */
static xcvm_status descend(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                           xcvm_var *out)
{
    const descent *d = user;
    (void)out_count;
    out[0] = xcvm_Neg(t, xcvm_Neg(t, d->w));
    xcvm_Sub(t, d->w, xcvm_Mul(t, in[0], d->rate), .into = d->w);
    xcvm_tape_call_operation(t, &d->operation, in_count, in, 1, &out[1]);
    return XCVM_OK;
}

/* A failure in the program or after it leaves the weights unchanged, and earlier results too. */
START_TEST(a11_12_failures_leave_weights)
{
    for (int checked = 0; checked < 2; checked++) {
        const xcvm_tape_options options = {.size = sizeof options, .threads = 1, .check_nan = checked != 0};
        xcvm_tape *t;
        xcvm_error error;
        ck_assert_int_eq(xcvm_tape_create(&options, &t, &error), XCVM_OK);
        descent d = {.w = xcvm_var_keep(t, constant(t, 8)), .rate = xcvm_var_keep(t, constant(t, 0.5f))};
        d.operation = (xcvm_operation){sizeof d.operation, "fourth", fail_fourth_time, NULL, &d.calls};
        xcvm_static *s = make_static(t, (xcvm_static_function){descend, &d}, NULL);
        float w = 8;
        for (int i = 1; i < 8; i++) {
            const xcvm_var x = constant(t, i == 6 ? -2 : 2);
            xcvm_var out[2];
            xcvm_static_call(s, 1, &x, 2, out);
            const bool fails = i == 4 || (i == 6 && checked != 0);
            ck_assert_int_eq(xcvm_tape_status(t, &error), i == 4 ? XCVM_IO : fails ? XCVM_OUT_OF_RANGE : XCVM_OK);
            if (!fails) {
                CHECK_F32(t, out[0], w);
                w -= i == 6 ? -1.0f : 1.0f;
            }
            CHECK_F32(t, d.w, w);
        }
        ck_assert_uint_eq(figures(s).recorded, 1);
        xcvm_static_destroy(s);
        close_tape(t);
    }
}
END_TEST

/* ---- Saving ---- */

static void check_saved(test_bytes *bytes, bool states, const float *xs, const float *expected, size_t runs)
{
    xcvm_program *program;
    xcvm_session *session;
    xcvm_error error = {0};
    xcvm_value *x;
    ck_assert_msg(xcvm_program_load(bytes->at, bytes->length, NULL, &program, &error) == XCVM_OK, "%s", error.message);
    ck_assert_uint_eq(xcvm_program_input_count(program), 1);
    ck_assert_str_eq(xcvm_program_input_at(program, 0)->name, "in0");
    ck_assert_str_eq(xcvm_program_output_at(program, 0)->name, "out0");
    ck_assert_uint_eq(xcvm_program_state_count(program), states ? 4 : 0);
    ck_assert_int_eq(xcvm_session_create(program, NULL, &session, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, 2, DIMS(2, 3), &x, &error), XCVM_OK);
    memcpy(xcvm_value_data(x), xs, 6 * sizeof *xs);
    ck_assert_int_eq(xcvm_session_set_input(session, 0, x, &error), XCVM_OK);
    for (size_t i = 0; i < runs; i++) {
        ck_assert_int_eq(xcvm_session_run(session, NULL, &error), XCVM_OK);
        ck_assert_float_eq_tol(*(const float *)xcvm_value_data(xcvm_session_get_output(session, 0)), expected[i],
                               1e-5f);
    }
    xcvm_value_release(x);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    test_bytes_free(bytes);
}

/* A schedule becomes a program: written captures are states, read ones constants or states. */
START_TEST(a11_12_saved_schedules)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    training m = make_training(t);
    const xcvm_var x = xcvm_var_keep(t, batch(t, XCVM_F32, 2, 0));
    float xs[6], losses[3], y[1];
    test_bytes program = {NULL, 0, 0}, forward = {NULL, 0, 0}, states = {NULL, 0, 0}, text = {NULL, 0, 0};
    memcpy(xs, xcvm_value_data(value_of(t, x)), sizeof xs);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_step, &m}, NULL),
                *f = make_static(t, (xcvm_static_function){run_chain, &m.c}, NULL);
    ck_assert_int_eq(xcvm_static_save(s, NULL, (xcvm_sink){test_bytes_sink, &program}, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "has no schedule"));
    call1(s, x);
    ck_assert_msg(xcvm_static_save(s, NULL, (xcvm_sink){test_bytes_sink, &program}, &error) == XCVM_OK, "%s",
                  error.message);
    *y = ((const float *)xcvm_value_data(value_of(t, call1(f, x))))[0];
    const xcvm_static_save_options as_states = {.size = sizeof as_states, .states = true};
    ck_assert_int_eq(xcvm_static_save(f, NULL, (xcvm_sink){test_bytes_sink, &forward}, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_static_save(f, &as_states, (xcvm_sink){test_bytes_sink, &states}, &error), XCVM_OK);
    for (int i = 0; i < 3; i++)
        losses[i] = (float)xcvm_var_get_number(t, call1(s, x));
    ck_assert(losses[0] > losses[2]);
    check_saved(&program, true, xs, losses, 3);
    check_saved(&forward, false, xs, y, 1);
    check_saved(&states, true, xs, y, 1);
    /* As text. */
    ck_assert_int_eq(xcvm_static_dump(f, (xcvm_sink){test_bytes_sink, &text}, &error), XCVM_OK);
    ck_assert(test_bytes_sink(&text, "", 1));
    ck_assert_msg(strstr(text.at, "# static: training, 3 calls, recorded\n") != NULL, "%s", text.at);
    ck_assert_ptr_nonnull(strstr(text.at, "capture3"));
    ck_assert_ptr_nonnull(strstr(text.at, "= Tanh("));
    test_bytes_free(&text);
    ck_assert_int_eq(xcvm_static_dump(f, (xcvm_sink){test_full_sink, NULL}, &error), XCVM_IO);
    ck_assert_int_eq(xcvm_static_save(f, NULL, (xcvm_sink){test_full_sink, NULL}, &error), XCVM_IO);
    xcvm_static_destroy(s);
    xcvm_static_destroy(f);
    close_tape(t);
}
END_TEST

Suite *suite_tape_static_training(void);
Suite *suite_tape_static_training(void)
{
    return SUITE_OF("tape_static_training", a11_9_parameters_are_replaced, a11_9_parameters_that_change_in_test_mode,
                    a11_9_overwritten_by_the_function, a11_9_overwritten_before_the_backward, a11_10_results_stay,
                    a11_12_optimizer_in_the_schedule, a11_12_views_of_what_is_written,
                    a11_12_weights_stay_where_they_are, a11_12_failures_leave_weights, a11_12_saved_schedules);
}

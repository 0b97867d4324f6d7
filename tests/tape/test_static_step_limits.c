/* Tests of static functions with optimizer steps: failing runs, and functions without a schedule. */
#include "tests/tape/static_layers.h"

/* ---- Failures ---- */

static xcvm_status fail_when_asked(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                   xcvm_var *out)
{
    (void)in_count;
    (void)out_count;
    out[0] = xcvm_var_detach(t, in[0]);
    return *(const int *)user != 0 ? XCVM_IO : XCVM_OK;
}

typedef struct failing {
    xcvm_layer *recurrent, *normalized;
    xcvm_optimizer *o;
    int fails, runs;
    xcvm_operation operation;
} failing;

static xcvm_status run_failing(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                               xcvm_var *out)
{
    failing *f = user;
    xcvm_error error;
    (void)in_count;
    (void)out_count;
    f->runs++;
    const xcvm_var h = xcvm_layer_call(f->normalized, xcvm_layer_call(f->recurrent, in[0])),
                   loss = xcvm_ReduceSum(t, xcvm_Mul(t, h, h), .keepdims = 0);
    XCVM_TRY(xcvm_tape_backward(t, loss, NULL, &error));
    xcvm_layer_unchain(f->recurrent);
    const xcvm_var seen = xcvm_var_detach(t, loss);
    xcvm_tape_call_operation(t, &f->operation, 1, &seen, 1, out);
    XCVM_TRY(xcvm_optimizer_step(f->o, &error));
    xcvm_optimizer_clear_gradients(f->o);
    return XCVM_OK;
}

static xcvm_var copy_of(xcvm_tape *t, xcvm_var v)
{
    const xcvm_value *value = value_of(t, v);
    return xcvm_var_keep(t, xcvm_tape_constant(t, xcvm_value_dtype(value), xcvm_value_rank(value),
                                               xcvm_value_dims(value), xcvm_value_data(value)));
}

/* A failing run leaves states, statistics, parameters and moments unchanged. */
START_TEST(a_run_that_fails)
{
    xcvm_tape *t = open_tape();
    xcvm_error error = {0};
    failing f = {.recurrent = xcvm_layer_create_lstm(t, 3, 2, &with_seed),
                 .normalized = xcvm_layer_create_batch_normalization(t, 2, NULL)};
    f.operation =
        (xcvm_operation){.size = sizeof f.operation, .name = "may fail", .forward = fail_when_asked, .user = &f.fails};
    must(xcvm_optimizer_create(t, "adam:lr=0.1", NULL, &f.o, &error), &error);
    must(xcvm_optimizer_add_layer(f.o, f.recurrent, &error), &error);
    must(xcvm_optimizer_add_layer(f.o, f.normalized, &error), &error);
    messages log = {.count = 0};
    const xcvm_static_options options = {.size = sizeof options, .log = {take_message, &log}};
    xcvm_static *s = make_static(t, (xcvm_static_function){run_failing, &f}, &options);
    xcvm_var last = XCVM_ABSENT, losses[2];
    for (int i = 0; i < 4; i++)
        last = call1(s, rows_of(t, 0));
    value_of(t, last);
    ck_assert_msg(f.runs == 2 && log.warnings == 0, "%d, %s", f.runs, log.text);
    const char *const paths[] = {"avg_mean", "avg_var"};
    const xcvm_var w = xcvm_layer_get_parameter(f.recurrent, "lateral/W"), before = copy_of(t, w);
    xcvm_var statistics[2];
    for (int i = 0; i < 2; i++)
        statistics[i] = copy_of(t, xcvm_layer_get_parameter(f.normalized, paths[i]));
    test_bytes kept[2] = {{NULL, 0, 0}, {NULL, 0, 0}};
    must(xcvm_optimizer_save(f.o, XCVM_SAFETENSORS, (xcvm_sink){test_bytes_sink, &kept[0]}, &error), &error);
    f.fails = 1;
    call1(s, rows_of(t, 0));
    check_failed(t, XCVM_IO, "the operation failed");
    check_bytes(t, w, t, before, 0);
    for (int i = 0; i < 2; i++)
        check_bytes(t, xcvm_layer_get_parameter(f.normalized, paths[i]), t, statistics[i], 0);
    must(xcvm_optimizer_save(f.o, XCVM_SAFETENSORS, (xcvm_sink){test_bytes_sink, &kept[1]}, &error), &error);
    ck_assert_uint_eq(kept[0].length, kept[1].length);
    ck_assert_int_eq(memcmp(kept[0].at, kept[1].at, kept[0].length), 0);
    /* The state is unchanged, so the repeated call gives what the schedule would have given. */
    f.fails = 0;
    losses[0] = copy_of(t, call1(s, rows_of(t, 0)));
    ck_assert_int_eq(f.runs, 2);
    xcvm_static_set_enabled(s, false);
    losses[1] = call1(s, rows_of(t, 0));
    ck_assert_double_gt(fabs(xcvm_var_get_number(t, losses[0]) - xcvm_var_get_number(t, losses[1])), 0);
    for (int i = 0; i < 2; i++)
        test_bytes_free(&kept[i]);
    xcvm_static_destroy(s);
    xcvm_optimizer_destroy(f.o);
    xcvm_layer_destroy(f.recurrent);
    xcvm_layer_destroy(f.normalized);
    close_tape(t);
}
END_TEST

/* ---- Functions without a schedule ---- */

typedef struct refused {
    xcvm_var w, other;
    xcvm_optimizer *o;
    int what, zero;
    xcvm_operation operation;
} refused;

static xcvm_status run_refused(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                               xcvm_var *out)
{
    refused *r = user;
    xcvm_error error;
    (void)in_count;
    (void)out_count;
    out[0] = xcvm_Mul(t, xcvm_Mul(t, r->w, r->w), in[0]);
    XCVM_TRY(xcvm_tape_backward(t, out[0], NULL, &error));
    if (r->what == 3)
        xcvm_Neg(t, xcvm_var_detach(t, in[0]), .into = r->w);
    XCVM_TRY(xcvm_optimizer_step(r->o, &error));
    if (r->what == 0)
        out[0] = xcvm_Mul(t, xcvm_var_detach(t, r->w), in[0]);
    if (r->what == 1)
        xcvm_tape_call_operation(t, &r->operation, 1, in, 1, out);
    if (r->what == 2) {
        xcvm_tape_set_recording(t, false);
        xcvm_Identity(t, in[0], .into = r->w);
        xcvm_tape_set_recording(t, true);
    }
    xcvm_optimizer_clear_gradients(r->o);
    return XCVM_OK;
}

static refused open_refused(xcvm_tape *t, const char *optimizer)
{
    refused r = {.w = parameter(t, 3)};
    xcvm_error error = {0};
    must(xcvm_optimizer_create(t, optimizer, NULL, &r.o, &error), &error);
    must(xcvm_optimizer_add(r.o, "w", r.w, &error), &error);
    return r;
}

static void close_refused(xcvm_tape *t, xcvm_static *s, refused *r)
{
    xcvm_static_destroy(s);
    xcvm_optimizer_destroy(r->o);
    close_tape(t);
}

/* A function that reads or changes parameters after the step, or has other effects there, runs define-by-run, and
 * the log gives the reason. */
START_TEST(what_stands_behind_a_step)
{
    static const char *const reasons[] = {"a call reads what an effect has changed",
                                          "a call with effects follows a step of an optimizer",
                                          "a call writes into what an effect has changed"};
    xcvm_tape *t = open_tape();
    messages log = {.count = 0};
    const xcvm_static_options options = {.size = sizeof options, .log = {take_message, &log}};
    refused r = open_refused(t, "sgd:lr=0.25");
    r.what = _i;
    r.operation =
        (xcvm_operation){.size = sizeof r.operation, .name = "looks on", .forward = fail_when_asked, .user = &r.zero};
    xcvm_static *s = make_static(t, (xcvm_static_function){run_refused, &r}, &options);
    float w = 3;
    for (int i = 0; i < 3; i++) {
        const float before = w;
        w = _i == 2 ? 1 : w / 2;
        CHECK_F32(t, call1(s, constant(t, 1)), _i == 0 ? w : _i == 1 ? 1 : before * before);
        CHECK_F32(t, r.w, w);
    }
    ck_assert_uint_eq(figures(s).runs, 3);
    ck_assert_msg(strstr(log.text, reasons[_i]) != NULL, "%s", log.text);
    close_refused(t, s, &r);
}
END_TEST

static xcvm_status run_twice(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                             xcvm_var *out)
{
    refused *r = user;
    (void)in_count;
    (void)out_count;
    out[0] = xcvm_Mul(t, xcvm_Mul(t, r->w, r->w), in[0]);
    return learn_from(t, r->o, xcvm_Mul(t, r->w, in[0]));
}

/* A differentiable result that needs stepped parameters is an error in each run, as without a schedule. */
START_TEST(a_backward_through_what_was_stepped)
{
    xcvm_tape *t = open_tape();
    refused r = open_refused(t, "sgd:lr=0.5");
    xcvm_error error = {0};
    xcvm_static *s = make_static(t, (xcvm_static_function){run_twice, &r}, NULL);
    for (int i = 0; i < 4; i++) {
        const xcvm_var y = call1(s, constant(t, 1));
        ck_assert_int_eq(xcvm_tape_backward(t, y, NULL, &error), XCVM_INVALID_ARGUMENT);
        ck_assert_msg(strstr(error.message, "has overwritten") != NULL, "%s", error.message);
        xcvm_tape_reset(t);
    }
    ck_assert_uint_eq(figures(s).runs, 1);
    close_refused(t, s, &r);
}
END_TEST

static xcvm_status run_step_first(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                  xcvm_var *out)
{
    const refused *r = user;
    xcvm_error error;
    (void)in_count;
    (void)out_count;
    XCVM_TRY(xcvm_optimizer_step(r->o, &error));
    xcvm_optimizer_clear_gradients(r->o);
    out[0] = xcvm_Mul(t, r->w, in[0]);
    return XCVM_OK;
}

static xcvm_status run_part(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                            xcvm_var *out)
{
    const refused *r = user;
    xcvm_error error;
    (void)in_count;
    (void)out_count;
    out[0] = xcvm_Mul(t, xcvm_Mul(t, r->other, r->other), in[0]);
    XCVM_TRY(xcvm_tape_backward(t, xcvm_Mul(t, r->w, in[0]), NULL, &error));
    XCVM_TRY(xcvm_optimizer_step(r->o, &error));
    xcvm_var_clear_gradient(t, r->w);
    return XCVM_OK;
}

/* A parameter without a gradient in the step is unchanged, so a backward pass may read it. */
START_TEST(a_backward_through_what_was_not_stepped)
{
    xcvm_tape *t = open_tape();
    refused r = open_refused(t, "sgd:lr=0.5");
    xcvm_error error = {0};
    r.other = parameter(t, 2);
    must(xcvm_optimizer_add(r.o, "other", r.other, &error), &error);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_part, &r}, NULL);
    for (int i = 1; i < 5; i++) {
        backward(t, call1(s, constant(t, 1)));
        CHECK_F32(t, xcvm_var_get_gradient(t, r.other), 4);
        CHECK_F32(t, r.w, 3 - 0.5f * (float)i);
        xcvm_var_clear_gradient(t, r.other);
    }
    ck_assert_uint_eq(figures(s).replayed, 3);
    close_refused(t, s, &r);
}
END_TEST

/* A step before the ops, by gradients of an earlier pass: the recorded call has none, but later ops read what the
 * step will change. */
START_TEST(a_step_in_front)
{
    xcvm_tape *t = open_tape();
    messages log = {.count = 0};
    const xcvm_static_options options = {.size = sizeof options, .log = {take_message, &log}};
    refused r = open_refused(t, "sgd:lr=0.5");
    xcvm_static *s = make_static(t, (xcvm_static_function){run_step_first, &r}, &options);
    for (int i = 0; i < 4; i++) {
        const xcvm_var y = call1(s, constant(t, 1));
        CHECK_F32(t, y, 3 - 0.5f * (float)i);
        backward(t, y);
    }
    ck_assert_msg(strstr(log.text, "a call reads what an effect has changed") != NULL, "%s", log.text);
    close_refused(t, s, &r);
}
END_TEST

Suite *suite_tape_static_step_limits(void);
Suite *suite_tape_static_step_limits(void)
{
    Suite *suite = SUITE_OF("tape_static_step_limits", a_run_that_fails, a_backward_through_what_was_stepped,
                            a_step_in_front, a_backward_through_what_was_not_stepped);
    TCase *tcase = tcase_create("each");
    tcase_add_loop_test(tcase, what_stands_behind_a_step, 0, 3);
    suite_add_tcase(suite, tcase);
    return suite;
}

/* Tests of layers with states, running statistics and sparse tables in static functions. An eager tape gives the
 * expected values. */
#include "tests/tape/static_layers.h"

/* ---- Networks ---- */

/* A layer on the tape of a static function, and its equal on an eager tape. */
typedef struct twin {
    xcvm_tape *tape;
    xcvm_layer *layer;
    xcvm_static *schedule; /* NULL on the eager tape */
    messages log;
    int runs, fails;
} twin;

static xcvm_status run_layer(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                             xcvm_var *out)
{
    twin *w = user;
    (void)t;
    (void)in_count;
    (void)out_count;
    w->runs++;
    out[0] = xcvm_layer_call(w->layer, in[0]);
    return XCVM_OK;
}

static void open_twins(twin w[2],
                       xcvm_status (*f)(void *user, xcvm_tape *tape, size_t in_count, const xcvm_var *in,
                                        size_t out_count, xcvm_var *out),
                       xcvm_layer *(*make)(xcvm_tape *t, int kind), int kind)
{
    for (int k = 0; k < 2; k++) {
        w[k] = (twin){.tape = open_tape()};
        w[k].layer = make(w[k].tape, kind);
        ck_assert_ptr_nonnull(w[k].layer);
    }
    const xcvm_static_options options = {.size = sizeof options, .log = {take_message, &w[0].log}};
    w[0].schedule = make_static(w[0].tape, (xcvm_static_function){f, &w[0]}, &options);
}

static xcvm_var call_twin(twin *w,
                          xcvm_status (*f)(void *user, xcvm_tape *tape, size_t in_count, const xcvm_var *in,
                                           size_t out_count, xcvm_var *out),
                          xcvm_var x)
{
    xcvm_var y;
    if (w->schedule != NULL)
        return call1(w->schedule, x);
    ck_assert_int_eq(f(w, w->tape, 1, &x, 1, &y), XCVM_OK);
    return y;
}

static void close_twins(twin w[2])
{
    xcvm_static_destroy(w[0].schedule);
    for (int k = 0; k < 2; k++) {
        xcvm_layer_destroy(w[k].layer);
        close_tape(w[k].tape);
    }
}

static xcvm_layer *make_recurrent(xcvm_tape *t, int kind)
{
    return kind == 0 ? xcvm_layer_create_lstm(t, 3, 2, &with_seed) : xcvm_layer_create_gru(t, 3, 2, &with_seed);
}

/* ---- States ---- */

/* States of the layer: several calls before one backward pass, states that are reset, or continue as constants. */
START_TEST(d5_stateful_layers)
{
    twin w[2];
    open_twins(w, run_layer, make_recurrent, _i);
    const char *weight = _i == 0 ? "lateral/W" : "U_z/W";
    for (int i = 0; i < 6; i++) {
        xcvm_var losses[2];
        for (int k = 0; k < 2; k++) {
            xcvm_tape *t = w[k].tape;
            if (i % 3 == 2)
                xcvm_layer_reset(w[k].layer);
            for (int step = 0; step < 3; step++) {
                const xcvm_var y = call_twin(&w[k], run_layer, rows_of(t, (float)(i + step) / 4)),
                               one = xcvm_ReduceSum(t, xcvm_Mul(t, y, y), .keepdims = 0);
                losses[k] = step > 0 ? xcvm_Add(t, losses[k], one) : one;
            }
        }
        check_bytes(w[0].tape, losses[0], w[1].tape, losses[1], 1e-5);
        for (int k = 0; k < 2; k++) {
            backward(w[k].tape, losses[k]);
            xcvm_layer_unchain(w[k].layer);
        }
        check_bytes(w[0].tape, xcvm_var_get_gradient(w[0].tape, xcvm_layer_get_parameter(w[0].layer, weight)),
                    w[1].tape, xcvm_var_get_gradient(w[1].tape, xcvm_layer_get_parameter(w[1].layer, weight)), 1e-4);
        ck_assert_uint_eq(figures(w[0].schedule).in_use, 0);
        xcvm_tape_reset(w[0].tape);
        xcvm_tape_reset(w[1].tape);
    }
    /* Without a state, with a differentiable one, with a constant one. */
    ck_assert_int_eq(w[0].runs, 3);
    ck_assert_uint_eq(figures(w[0].schedule).schedules, 3);
    ck_assert_uint_eq(figures(w[0].schedule).replayed, 15);
    ck_assert_msg(w[0].log.warnings == 0, "%s", w[0].log.text);
    close_twins(w);
}
END_TEST

/* A sequence that starts anew, and one that leaves no state. */
static xcvm_status run_sequence(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                xcvm_var *out)
{
    twin *w = user;
    (void)in_count;
    (void)out_count;
    w->runs++;
    if (w->fails == 0)
        xcvm_layer_reset(w->layer);
    xcvm_var y = in[0];
    for (int i = 0; i < 3; i++)
        y = xcvm_Tanh(t, xcvm_Add(t, in[0], xcvm_ReduceSum(t, xcvm_layer_call(w->layer, y), .keepdims = 0)));
    if (w->fails != 0)
        xcvm_layer_reset(w->layer);
    out[0] = y;
    return XCVM_OK;
}

START_TEST(d5_states_that_are_reset_within)
{
    twin w[2];
    open_twins(w, run_sequence, make_recurrent, _i % 2);
    w[0].fails = w[1].fails = _i / 2; /* reset after the sequence, not before it */
    for (int i = 0; i < 5; i++) {
        xcvm_var y[2];
        for (int k = 0; k < 2; k++) {
            if (_i / 2 == 1) /* the sequence starts with a state */
                xcvm_layer_call(w[k].layer, rows_of(w[k].tape, 1));
            xcvm_layer_unchain(w[k].layer);
            y[k] = call_twin(&w[k], run_sequence, rows_of(w[k].tape, (float)i / 8));
        }
        check_bytes(w[0].tape, y[0], w[1].tape, y[1], 1e-5);
        check_bytes(w[0].tape, xcvm_layer_call(w[0].layer, rows_of(w[0].tape, 0)), w[1].tape,
                    xcvm_layer_call(w[1].layer, rows_of(w[1].tape, 0)), 1e-5);
    }
    /* If the sequence starts with a reset, the first call finds no state. */
    ck_assert_int_eq(w[0].runs, _i / 2 == 0 ? 2 : 1);
    close_twins(w);
}
END_TEST

/* The program has the state, and continues from its value. */
START_TEST(d5_stateful_layers_are_saved)
{
    twin w[2];
    open_twins(w, run_layer, make_recurrent, _i);
    for (int i = 0; i < 3; i++) {
        call_twin(&w[0], run_layer, rows_of(w[0].tape, (float)i));
        xcvm_layer_unchain(w[0].layer);
    }
    saved p = open_saved(w[0].schedule);
    ck_assert_uint_eq(xcvm_program_state_count(p.program), _i == 0 ? 2 : 1);
    for (int i = 0; i < 3; i++) {
        const xcvm_var x = rows_of(w[0].tape, (float)i / 2);
        check_saved_call(&p, w[0].tape, x, call_twin(&w[0], run_layer, x));
    }
    close_saved(&p);
    close_twins(w);
}
END_TEST

/* A destroyed layer takes no memory that a schedule reads. The function is recorded with the next one. */
START_TEST(layers_that_go)
{
    twin w[2];
    open_twins(w, run_layer, make_recurrent, 0);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) {
            xcvm_var y[2];
            for (int k = 0; k < 2; k++)
                y[k] = call_twin(&w[k], run_layer, rows_of(w[k].tape, (float)i));
            check_bytes(w[0].tape, y[0], w[1].tape, y[1], 1e-5);
        }
        for (int k = 0; k < 2; k++) {
            xcvm_layer_destroy(w[k].layer);
            w[k].layer = make_recurrent(w[k].tape, 0);
        }
    }
    ck_assert_uint_eq(figures(w[0].schedule).replayed, 3);
    close_twins(w);
}
END_TEST

static xcvm_status run_anew(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                            xcvm_var *out)
{
    xcvm_layer_reset(((const twin *)user)->layer);
    return run_layer(user, t, in_count, in, out_count, out);
}

/* The host has released the layer's state by a result's handle. After a reset the layer does not need it; otherwise
 * the call reports it. */
START_TEST(states_that_were_released)
{
    twin w[2];
    open_twins(w, run_anew, make_recurrent, _i);
    for (int i = 0; i < 3; i++) {
        xcvm_var y[2];
        for (int k = 0; k < 2; k++) {
            xcvm_var_release(w[k].tape, xcvm_layer_call(w[k].layer, rows_of(w[k].tape, 1)));
            y[k] = call_twin(&w[k], run_anew, rows_of(w[k].tape, (float)i / 8));
        }
        check_bytes(w[0].tape, y[0], w[1].tape, y[1], 1e-5);
    }
    xcvm_var_release(w[0].tape, xcvm_layer_call(w[0].layer, rows_of(w[0].tape, 1)));
    xcvm_static *s = make_static(w[0].tape, (xcvm_static_function){run_layer, &w[0]}, NULL);
    call1(s, rows_of(w[0].tape, 0));
    check_failed(w[0].tape, XCVM_INVALID_ARGUMENT, "is stale");
    xcvm_static_destroy(s);
    xcvm_layer_reset(w[0].layer);
    close_twins(w);
}
END_TEST

/* ---- Running statistics ---- */

static xcvm_layer *make_normalization(xcvm_tape *t, int dtype)
{
    const xcvm_layer_options options = {.size = sizeof options, .dtype = (xcvm_dtype)dtype, .decay = 0.75};
    return xcvm_layer_create_batch_normalization(t, 3, &options);
}

/* In training a schedule moves the running statistics; in test mode another one reads them. */
START_TEST(a11_11_batch_normalization_layers)
{
    const struct {
        xcvm_dtype dtype;
        double tolerance;
    } types[] = {{XCVM_F32, 1e-5}, {XCVM_F64, 1e-6}, {XCVM_F16, 4e-3}};
    const char *const paths[] = {"avg_mean", "avg_var"}, *const learned[] = {"gamma", "beta"};
    const double tolerance = types[_i].tolerance;
    twin w[2];
    open_twins(w, run_layer, make_normalization, (int)types[_i].dtype);
    for (int i = 0; i < 6; i++) {
        xcvm_var y[2];
        for (int k = 0; k < 2; k++) {
            xcvm_layer_set_training(w[k].layer, i < 4);
            xcvm_tape *t = w[k].tape;
            y[k] = xcvm_var_keep(t, call_twin(&w[k], run_layer, batch(t, types[_i].dtype, 5, (float)i / 4)));
            backward(t, xcvm_ReduceSum(t, xcvm_Mul(t, y[k], xcvm_Mul(t, y[k], y[k])), .keepdims = 0));
        }
        check_bytes(w[0].tape, y[0], w[1].tape, y[1], tolerance);
        for (int p = 0; p < 2; p++) {
            const xcvm_var a = xcvm_layer_get_parameter(w[0].layer, learned[p]),
                           b = xcvm_layer_get_parameter(w[1].layer, learned[p]);
            check_bytes(w[0].tape, xcvm_layer_get_parameter(w[0].layer, paths[p]), w[1].tape,
                        xcvm_layer_get_parameter(w[1].layer, paths[p]), tolerance);
            check_bytes(w[0].tape, xcvm_var_get_gradient(w[0].tape, a), w[1].tape, xcvm_var_get_gradient(w[1].tape, b),
                        10 * tolerance);
        }
        if (i == 3)
            xcvm_static_set_training(w[0].schedule, false);
        for (int k = 0; k < 2; k++) {
            xcvm_var_release(w[k].tape, y[k]);
            xcvm_tape_reset(w[k].tape);
        }
    }
    ck_assert_int_eq(w[0].runs, 2);
    ck_assert_msg(w[0].log.warnings == 0, "%s", w[0].log.text);
    close_twins(w);
}
END_TEST

/* The running variance is that of the sample: n / (n - 1) times the batch's. */
START_TEST(running_statistics_are_of_the_sample)
{
    xcvm_tape *t = open_tape();
    xcvm_layer *l = make_normalization(t, XCVM_F32);
    const xcvm_var x = xcvm_tape_constant(t, XCVM_F32, 2, DIMS(2, 3), F32S(0, 1, 2, 2, 5, 2));
    xcvm_layer_call(l, x);
    CHECK_F32(t, xcvm_layer_get_parameter(l, "avg_mean"), 0.25f, 0.75f, 0.5f);
    CHECK_F32(t, xcvm_layer_get_parameter(l, "avg_var"), 0.75f + 0.25f * 2, 0.75f + 0.25f * 8, 0.75f);
    xcvm_layer_destroy(l);
    close_tape(t);
}
END_TEST

/* ---- Tables ---- */

typedef struct table {
    xcvm_var w;
    int runs;
} table;

static xcvm_status run_lookup(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                              xcvm_var *out)
{
    table *a = user;
    (void)in_count;
    (void)out_count;
    a->runs++;
    const xcvm_var x = xcvm_Gather(t, a->w, in[0]);
    out[0] = xcvm_ReduceSum(t, xcvm_Mul(t, x, xcvm_Tanh(t, x)), .keepdims = 0);
    return XCVM_OK;
}

/* The backward pass gives the table a sparse gradient, though a schedule ran. */
START_TEST(c4_4_rows_through_schedules)
{
    const float numbers[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    xcvm_tape *t[2] = {open_tape(), open_tape()};
    table a[2];
    messages log = {.count = 0};
    const xcvm_static_options options = {.size = sizeof options, .log = {take_message, &log}};
    for (int k = 0; k < 2; k++) {
        a[k] = (table){.w = xcvm_tape_parameter(t[k], XCVM_F32, 2, DIMS(5, 2), numbers)};
        ck_assert_int_eq(xcvm_var_set_sparse_gradient(t[k], a[k].w, true, NULL), XCVM_OK);
    }
    xcvm_static *s = make_static(t[0], (xcvm_static_function){run_lookup, &a[0]}, &options);
    for (int i = 0; i < 4; i++) {
        xcvm_var rows[2], gradients[2];
        for (int k = 0; k < 2; k++) {
            const xcvm_var x = words_of(t[k], i);
            xcvm_var y;
            if (k == 0)
                xcvm_static_call(s, 1, &x, 1, &y);
            else
                ck_assert_int_eq(run_lookup(&a[1], t[1], 1, &x, 1, &y), XCVM_OK);
            backward(t[k], y);
            ck_assert_ptr_null(xcvm_var_get_gradient(t[k], a[k].w).at);
            ck_assert_int_eq(xcvm_var_get_gradient_rows(t[k], a[k].w, &rows[k], &gradients[k], NULL), XCVM_OK);
        }
        check_bytes(t[0], rows[0], t[1], rows[1], 0);
        check_bytes(t[0], gradients[0], t[1], gradients[1], 1e-5);
        for (int k = 0; k < 2; k++) {
            xcvm_var_clear_gradient(t[k], a[k].w);
            xcvm_tape_reset(t[k]);
        }
    }
    ck_assert_msg(a[0].runs == 1 && log.warnings == 0, "%d, %s", a[0].runs, log.text);
    /* In a saved program the table belongs to the program. */
    const xcvm_var x = words_of(t[0], 1), y = call1(s, x);
    saved p = open_saved(s);
    check_saved_call(&p, t[0], x, y);
    close_saved(&p);
    xcvm_static_destroy(s);
    close_tape(t[0]);
    close_tape(t[1]);
}
END_TEST

typedef struct lookups {
    xcvm_var w;
    bool fails;
    xcvm_operation operation;
} lookups;

static xcvm_status fail_if_told(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                xcvm_var *out)
{
    (void)in_count;
    (void)out_count;
    out[0] = xcvm_var_detach(t, in[0]);
    return *(const bool *)user ? XCVM_IO : XCVM_OK;
}

static xcvm_status run_lookups(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                               xcvm_var *out)
{
    const lookups *a = user;
    (void)in_count;
    (void)out_count;
    out[0] = xcvm_Mul(t, xcvm_Gather(t, a->w, in[0]), xcvm_Gather(t, a->w, in[1]));
    const xcvm_var seen = xcvm_var_detach(t, out[0]);
    xcvm_tape_call_operation(t, &a->operation, 1, &seen, 1, &out[1]);
    return XCVM_OK;
}

/* A call that fails before or in its program leaves no gathered rows. */
START_TEST(rows_of_calls_that_fail)
{
    xcvm_tape *t = open_tape();
    xcvm_error error = {0};
    lookups a = {.w = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(5, 2), NULL)};
    a.operation =
        (xcvm_operation){.size = sizeof a.operation, .name = "may fail", .forward = fail_if_told, .user = &a.fails};
    must(xcvm_var_set_sparse_gradient(t, a.w, true, &error), &error);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_lookups, &a}, NULL);
    for (int i = 0; i < 5; i++) {
        const xcvm_var in[] = {words_of(t, 0),
                               xcvm_tape_constant(t, XCVM_I64, 1, DIMS(4), DIMS(0, i == 2 ? 5 : 1, 2, 3))};
        xcvm_var out[2];
        const size_t before = stats_of(t).variables;
        a.fails = i == 3;
        xcvm_static_call(s, 2, in, 2, out);
        ck_assert_int_eq(xcvm_tape_status(t, &error), i == 2 ? XCVM_OUT_OF_RANGE : i == 3 ? XCVM_IO : XCVM_OK);
        if (i == 2 || i == 3)
            ck_assert_uint_eq(stats_of(t).variables, before);
    }
    ck_assert_uint_eq(figures(s).runs, 1);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

Suite *suite_tape_static_layers(void);
Suite *suite_tape_static_layers(void)
{
    Suite *suite = SUITE_OF("tape_static_layers", layers_that_go, running_statistics_are_of_the_sample,
                            c4_4_rows_through_schedules, rows_of_calls_that_fail);
    TCase *tcase = tcase_create("each");
    tcase_add_loop_test(tcase, d5_stateful_layers, 0, 2);
    tcase_add_loop_test(tcase, d5_states_that_are_reset_within, 0, 4);
    tcase_add_loop_test(tcase, d5_stateful_layers_are_saved, 0, 2);
    tcase_add_loop_test(tcase, states_that_were_released, 0, 2);
    tcase_add_loop_test(tcase, a11_11_batch_normalization_layers, 0, 3);
    suite_add_tcase(suite, tcase);
    return suite;
}

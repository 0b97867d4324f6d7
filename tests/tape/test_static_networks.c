/* Tests of static schedules of networks: normalization statistics, dropout, recurrent states. */
#include "tests/tape/static_support.h"

/* Batch normalization, whose running statistics are written to captures. */
typedef struct normalized {
    xcvm_var gamma, beta, mean, variance;
} normalized;

static xcvm_status run_normalized(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                  xcvm_var *out)
{
    const normalized *n = user;
    xcvm_var mean, variance;
    (void)in_count;
    (void)out_count;
    out[0] = xcvm_BatchNormalization(t, in[0], n->gamma, n->beta, n->mean, n->variance, .training_mode = 1,
                                     .momentum = 0.75, .out = {NULL, &mean, &variance});
    const bool recording = xcvm_tape_set_recording(t, false);
    xcvm_Identity(t, mean, .into = n->mean);
    xcvm_Identity(t, variance, .into = n->variance);
    xcvm_tape_set_recording(t, recording);
    return XCVM_OK;
}

static normalized make_normalized(xcvm_tape *t, xcvm_dtype dtype)
{
    normalized n;
    n.gamma = cast_parameter(t, dtype, 1, DIMS(3), F32S(1, 2, 0.5f));
    n.beta = cast_parameter(t, dtype, 1, DIMS(3), F32S(0, -1, 1));
    n.mean = cast_parameter(t, dtype, 1, DIMS(3), F32S(0, 0, 0));
    n.variance = cast_parameter(t, dtype, 1, DIMS(3), F32S(1, 1, 1));
    xcvm_error error;
    ck_assert_int_eq(xcvm_var_set_requires_gradient(t, n.mean, false, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_var_set_requires_gradient(t, n.variance, false, &error), XCVM_OK);
    return n;
}

START_TEST(a11_11_batch_normalization)
{
    const xcvm_dtype dtypes[] = {XCVM_F32, XCVM_F64};
    for (int d = 0; d < 2; d++) {
        xcvm_tape *t = open_tape(), *eager = open_tape();
        normalized n = make_normalized(t, dtypes[d]), same = make_normalized(eager, dtypes[d]);
        xcvm_static *s = make_static(t, (xcvm_static_function){run_normalized, &n}, NULL);
        for (int i = 0; i < 4; i++) {
            const xcvm_var x = batch(eager, dtypes[d], 5, (float)i), y = call1(s, batch(t, dtypes[d], 5, (float)i));
            xcvm_var z;
            run_normalized(&same, eager, 1, &x, 1, &z);
            check_bytes(t, y, eager, z, 1e-5);
            backward(t, xcvm_ReduceSum(t, xcvm_Mul(t, y, xcvm_Mul(t, y, y))));
            backward(eager, xcvm_ReduceSum(eager, xcvm_Mul(eager, z, xcvm_Mul(eager, z, z))));
            check_bytes(t, n.mean, eager, same.mean, 1e-5);
            check_bytes(t, n.variance, eager, same.variance, 1e-5);
            check_bytes(t, xcvm_var_get_gradient(t, n.gamma), eager, xcvm_var_get_gradient(eager, same.gamma), 1e-4);
            check_bytes(t, xcvm_var_get_gradient(t, n.beta), eager, xcvm_var_get_gradient(eager, same.beta), 1e-4);
            xcvm_tape_reset(t);
            xcvm_tape_reset(eager);
        }
        ck_assert_uint_eq(figures(s).replayed, 3);
        xcvm_static_destroy(s);
        close_tape(t);
        close_tape(eager);
    }
}
END_TEST

/* Random numbers are the tape's: the same elements are dropped as define-by-run, forward and backward. */
static xcvm_status run_dropout(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                               xcvm_var *out)
{
    const bool training = true;
    (void)user;
    (void)in_count;
    (void)out_count;
    const xcvm_var on = xcvm_tape_constant(t, XCVM_BOOL, 0, NULL, &training);
    out[0] = xcvm_Dropout(t, in[0], constant(t, 0.5f), on);
    return XCVM_OK;
}

START_TEST(a11_2_dropout)
{
    xcvm_tape *t = open_tape(), *eager = open_tape();
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(64), NULL),
                   same = xcvm_tape_parameter(eager, XCVM_F32, 1, DIMS(64), NULL);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_dropout, NULL}, NULL);
    for (int i = 0; i < 4; i++) {
        xcvm_var_clear_gradient(t, x);
        xcvm_var_clear_gradient(eager, same);
        const xcvm_var e = xcvm_Exp(eager, same), y = call1(s, xcvm_Exp(t, x));
        xcvm_var z;
        run_dropout(NULL, eager, 1, &e, 1, &z);
        check_bytes(t, y, eager, z, 0);
        backward(t, xcvm_ReduceSum(t, y));
        backward(eager, xcvm_ReduceSum(eager, z));
        check_bytes(t, xcvm_var_get_gradient(t, x), eager, xcvm_var_get_gradient(eager, same), 0);
    }
    ck_assert_uint_eq(figures(s).replayed, 3);
    xcvm_static_destroy(s);
    close_tape(t);
    close_tape(eager);
}
END_TEST

/* A recurrent network whose state is carried between calls: unrolled over several, then unchained. */
typedef struct recurrent {
    bool is_lstm;
    xcvm_var w, r, h, c;
    int runs;
} recurrent;

static recurrent make_recurrent(xcvm_tape *t, bool is_lstm)
{
    float numbers[64];
    for (int i = 0; i < 64; i++)
        numbers[i] = (float)((i * 13) % 17) / 16 - 0.5f;
    const int64_t gates = is_lstm ? 8 : 6;
    recurrent m = {.is_lstm = is_lstm};
    m.w = xcvm_tape_parameter(t, XCVM_F32, 3, DIMS(1, gates, 3), numbers);
    m.r = xcvm_tape_parameter(t, XCVM_F32, 3, DIMS(1, gates, 2), numbers + 24);
    return m;
}

static xcvm_status run_recurrent(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                 xcvm_var *out)
{
    recurrent *m = user;
    (void)in_count;
    (void)out_count;
    m->runs++;
    const xcvm_var x = xcvm_Unsqueeze(t, in[0], xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(0)));
    xcvm_var h, c = XCVM_ABSENT;
    if (m->is_lstm)
        xcvm_LSTM(t, x, m->w, m->r, XCVM_ABSENT, XCVM_ABSENT, m->h, m->c, .hidden_size = 2, .out = {NULL, &h, &c});
    else
        xcvm_GRU(t, x, m->w, m->r, XCVM_ABSENT, XCVM_ABSENT, m->h, .hidden_size = 2, .out = {NULL, &h});
    xcvm_var_release(t, m->h);
    xcvm_var_release(t, m->c);
    m->h = xcvm_var_keep(t, h);
    if (m->is_lstm)
        m->c = xcvm_var_keep(t, c);
    out[0] = xcvm_Tanh(t, h);
    return XCVM_OK;
}

static void cut_off(xcvm_tape *t, recurrent *m)
{
    xcvm_var_unchain(t, m->h);
    if (m->is_lstm)
        xcvm_var_unchain(t, m->c);
}

/* As a program it continues from the current state. */
static void check_saved_recurrent(xcvm_tape *t, xcvm_static *s)
{
    saved p = open_saved(s);
    for (int i = 0; i < 3; i++) {
        const xcvm_var x = batch(t, XCVM_F32, 2, (float)i);
        check_saved_call(&p, t, x, call1(s, x));
    }
    close_saved(&p);
}

START_TEST(d5_stateful_recurrent_networks)
{
    for (int kind = 0; kind < 2; kind++) {
        xcvm_tape *tapes[] = {open_tape(), open_tape()};
        recurrent ms[] = {make_recurrent(tapes[0], kind == 0), make_recurrent(tapes[1], kind == 0)};
        xcvm_var *const held[] = {&ms[0].h, &ms[0].c};
        const xcvm_static_options options = {.size = sizeof options, .held = held, .held_count = 2};
        xcvm_static *s = make_static(tapes[0], (xcvm_static_function){run_recurrent, &ms[0]}, &options);
        for (int i = 0; i < 4; i++) {
            xcvm_var losses[2];
            for (int k = 0; k < 2; k++) {
                xcvm_var sum = XCVM_ABSENT;
                for (int step = 0; step < 3; step++) {
                    const xcvm_var x = batch(tapes[k], XCVM_F32, 2, (float)(i + step) / 4);
                    xcvm_var y;
                    if (k == 0)
                        y = call1(s, x);
                    else
                        run_recurrent(&ms[1], tapes[1], 1, &x, 1, &y);
                    const xcvm_var one = xcvm_ReduceSum(tapes[k], y, .keepdims = 0);
                    sum = step > 0 ? xcvm_Add(tapes[k], sum, one) : one;
                }
                losses[k] = xcvm_var_keep(tapes[k], sum);
            }
            check_bytes(tapes[0], losses[0], tapes[1], losses[1], 1e-5);
            check_bytes(tapes[0], ms[0].h, tapes[1], ms[1].h, 1e-5);
            for (int k = 0; k < 2; k++) {
                backward(tapes[k], losses[k]);
                cut_off(tapes[k], &ms[k]);
                xcvm_var_release(tapes[k], losses[k]);
            }
            check_bytes(tapes[0], xcvm_var_get_gradient(tapes[0], ms[0].w), tapes[1],
                        xcvm_var_get_gradient(tapes[1], ms[1].w), 1e-4);
            check_bytes(tapes[0], xcvm_var_get_gradient(tapes[0], ms[0].r), tapes[1],
                        xcvm_var_get_gradient(tapes[1], ms[1].r), 1e-4);
            ck_assert_uint_eq(figures(s).in_use, 0);
        }
        /* Without a state, with a constant one, with a differentiable one. */
        ck_assert_int_eq(ms[0].runs, 3);
        ck_assert_uint_eq(figures(s).schedules, 3);
        check_saved_recurrent(tapes[0], s);
        xcvm_static_destroy(s);
        close_tape(tapes[0]);
        close_tape(tapes[1]);
    }
}
END_TEST

Suite *suite_tape_static_networks(void);
Suite *suite_tape_static_networks(void)
{
    return SUITE_OF("tape_static_networks", a11_11_batch_normalization, a11_2_dropout, d5_stateful_recurrent_networks);
}

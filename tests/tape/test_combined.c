/* Tests of combinations: layers, optimizers, hooks and sparse gradients in static functions and on lazy tapes. An
 * eager tape gives the expected values. */
#include "tests/tape/static_support.h"
#include "xcvm/functions.h"
#include "xcvm/optimizers.h"

static xcvm_var rows_of(xcvm_tape *t, int64_t count, float shift)
{
    float numbers[12];
    for (int i = 0; i < 12; i++)
        numbers[i] = (float)((i * 5) % 7) / 4 - 0.5f + shift * (float)i;
    return xcvm_tape_constant(t, XCVM_F32, 2, DIMS(count, 3), numbers);
}

/* ---- Layers ---- */

static xcvm_status run_layer(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                             xcvm_var *out)
{
    (void)t;
    (void)in_count;
    (void)out_count;
    out[0] = xcvm_layer_call(user, in[0]);
    return XCVM_OK;
}

static const xcvm_layer_options with_seed = {.size = sizeof(xcvm_layer_options), .weight = {.seed = 3}};

static xcvm_layer *make_layer(xcvm_tape *t, int kind)
{
    xcvm_layer *l = kind == 0   ? xcvm_layer_create_batch_normalization(t, 3, NULL)
                    : kind == 1 ? xcvm_layer_create_lstm(t, 3, 2, &with_seed)
                                : xcvm_layer_create_gru(t, 3, 2, &with_seed);
    ck_assert_ptr_nonnull(l);
    return l;
}

static void check_same_tensors(xcvm_tape *a, const xcvm_layer *x, xcvm_tape *b, const xcvm_layer *y, const char *path)
{
    check_bytes(a, xcvm_layer_get_parameter(x, path), b, xcvm_layer_get_parameter(y, path), 1e-6);
}

/* Layers in a static function keep their states between calls. */
START_TEST(layers_that_keep_something_in_static_functions)
{
    xcvm_tape *t = open_tape(), *eager = open_tape();
    xcvm_layer *l = make_layer(t, _i), *same = make_layer(eager, _i);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_layer, l}, NULL);
    for (int i = 0; i < 4; i++) {
        const xcvm_var y = call1(s, rows_of(t, 4, (float)i / 8)),
                       z = xcvm_layer_call(same, rows_of(eager, 4, (float)i / 8));
        check_bytes(t, y, eager, z, 1e-6);
        if (_i == 0) {
            check_same_tensors(t, l, eager, same, "avg_mean");
            check_same_tensors(t, l, eager, same, "avg_var");
        }
    }
    xcvm_static_destroy(s);
    xcvm_layer_destroy(l);
    xcvm_layer_destroy(same);
    close_tape(t);
    close_tape(eager);
}
END_TEST

START_TEST(batch_normalization_on_lazy_tapes)
{
    xcvm_tape *t = open_lazy_tape((xcvm_batching)_i), *eager = open_tape();
    xcvm_layer *l = make_layer(t, 0), *same = make_layer(eager, 0);
    for (int i = 0; i < 4; i++) {
        const bool training = i != 2;
        xcvm_layer_set_training(l, training);
        xcvm_layer_set_training(same, training);
        const xcvm_var y = xcvm_layer_call(l, rows_of(t, 4, (float)i / 8)),
                       z = xcvm_layer_call(same, rows_of(eager, 4, (float)i / 8));
        if (training)
            check_bytes(t, y, eager, z, 1e-6);
    }
    check_same_tensors(t, l, eager, same, "avg_mean");
    check_same_tensors(t, l, eager, same, "avg_var");
    xcvm_layer_destroy(l);
    xcvm_layer_destroy(same);
    close_tape(t);
    close_tape(eager);
}
END_TEST

/* An op that was called before the running statistics move reads the old ones. */
START_TEST(statistics_move_behind_calls_that_wait)
{
    xcvm_tape *t = open_lazy_tape(XCVM_BATCHING_NONE), *eager = open_tape();
    xcvm_layer *l = make_layer(t, 0), *same = make_layer(eager, 0);
    xcvm_layer_set_training(l, false);
    xcvm_layer_set_training(same, false);
    const xcvm_var y = xcvm_layer_call(l, rows_of(t, 4, 0)), z = xcvm_layer_call(same, rows_of(eager, 4, 0));
    xcvm_layer_set_training(l, true);
    xcvm_layer_set_training(same, true);
    xcvm_layer_call(l, rows_of(t, 4, 1));
    xcvm_layer_call(same, rows_of(eager, 4, 1));
    check_bytes(t, y, eager, z, 1e-6);
    xcvm_layer_destroy(l);
    xcvm_layer_destroy(same);
    close_tape(t);
    close_tape(eager);
}
END_TEST

START_TEST(statistics_that_were_released)
{
    xcvm_tape *t = open_tape();
    xcvm_layer *l = make_layer(t, 0);
    xcvm_var_release(t, xcvm_layer_get_parameter(l, "avg_mean"));
    xcvm_layer_call(l, rows_of(t, 4, 0));
    check_failed(t, XCVM_INVALID_ARGUMENT, "a running statistic is stale");
    xcvm_layer_destroy(l);
    close_tape(t);
}
END_TEST

/* ---- What is done to variables in a static function ---- */

typedef struct pair {
    xcvm_var w[2];
    int what, hooked;
} pair;

static xcvm_var twice(void *user, xcvm_tape *t, xcvm_var gradient)
{
    ++*(int *)user;
    return xcvm_Add(t, gradient, gradient);
}

static xcvm_status run_pair(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                            xcvm_var *out)
{
    pair *p = user;
    (void)in_count;
    (void)out_count;
    xcvm_var h = xcvm_Tanh(t, xcvm_Mul(t, in[0], p->w[0]));
    const xcvm_var before = xcvm_Exp(t, h);
    if (p->what == 0 || p->what == 5) /* values computed from it before have no gradient path either */
        xcvm_var_unchain(t, h);
    else if (p->what == 1)
        ck_assert_int_eq(xcvm_var_add_hook(t, h, (xcvm_gradient_hook){twice, &p->hooked}, NULL), XCVM_OK);
    else if (p->what == 2)
        h = xcvm_tape_scale_gradient(t, h, -2);
    else if (p->what == 3)
        h = xcvm_var_detach(t, h);
    else
        xcvm_var_retain_gradient(t, h);
    out[0] = xcvm_Mul(t, p->what == 5 ? xcvm_Add(t, h, before) : h, p->w[1]);
    if (p->what == 4)
        out[1] = h;
    return XCVM_OK;
}

START_TEST(gradients_that_are_changed_in_static_functions)
{
    xcvm_tape *t = open_tape(), *eager = open_tape();
    pair p = {{parameter(t, 0.5f), parameter(t, -2)}, _i, 0},
         q = {{parameter(eager, 0.5f), parameter(eager, -2)}, _i, 0};
    xcvm_static *s = make_static(t, (xcvm_static_function){run_pair, &p}, NULL);
    for (int i = 0; i < 4; i++) {
        const xcvm_var x = constant(t, (float)i + 1), same = constant(eager, (float)i + 1);
        xcvm_var y[2], z[2];
        const size_t outs = _i == 4 ? 2 : 1;
        xcvm_static_call(s, 1, &x, outs, y);
        ck_assert_int_eq(run_pair(&q, eager, 1, &same, outs, z), XCVM_OK);
        if (outs == 2) {
            xcvm_var_keep(t, y[1]);
            xcvm_var_keep(eager, z[1]);
        }
        backward(t, y[0]);
        backward(eager, z[0]);
        for (int k = 0; k < 2; k++) {
            const xcvm_var a = xcvm_var_get_gradient(t, p.w[k]), b = xcvm_var_get_gradient(eager, q.w[k]);
            ck_assert_msg((a.at == NULL) == (b.at == NULL), "call %d, parameter %d", i, k);
            if (a.at != NULL)
                check_bytes(t, a, eager, b, 1e-6);
            xcvm_var_clear_gradient(t, p.w[k]);
            xcvm_var_clear_gradient(eager, q.w[k]);
        }
        if (outs == 2)
            check_bytes(t, xcvm_var_get_gradient(t, y[1]), eager, xcvm_var_get_gradient(eager, z[1]), 1e-6);
    }
    ck_assert_int_eq(p.hooked, q.hooked);
    xcvm_static_destroy(s);
    close_tape(t);
    close_tape(eager);
}
END_TEST

static xcvm_status run_writing(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                               xcvm_var *out)
{
    const xcvm_var w = *(const xcvm_var *)user;
    (void)in_count;
    (void)out_count;
    xcvm_Add(t, w, constant(t, 1), .into = w);
    out[0] = xcvm_Mul(t, in[0], constant(t, 2));
    return XCVM_OK;
}

/* An operand that shares elements with a written variable is read after the write, though the function was recorded
 * with another operand. */
START_TEST(operands_that_are_written_into)
{
    xcvm_tape *t = open_tape();
    xcvm_var w = constant(t, 10);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_writing, &w}, NULL);
    for (int i = 0; i < 3; i++)
        CHECK_F32(t, call1(s, constant(t, 5)), 10);
    CHECK_F32(t, w, 13);
    CHECK_F32(t, call1(s, w), 28);
    CHECK_F32(t, call1(s, xcvm_var_detach(t, w)), 30);
    CHECK_F32(t, call1(s, constant(t, 5)), 10);
    CHECK_F32(t, w, 16);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

/* ---- Decisions ---- */

static void take_negative(void *user, xcvm_tape *t, size_t count, xcvm_var *results)
{
    (void)count;
    results[0] = xcvm_Neg(t, *(const xcvm_var *)user);
}

static void take_same(void *user, xcvm_tape *t, size_t count, xcvm_var *results)
{
    (void)count;
    results[0] = xcvm_Identity(t, *(const xcvm_var *)user);
}

static xcvm_status run_absolute(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                xcvm_var *out)
{
    xcvm_var x = in[0];
    ++*(int *)user;
    (void)out_count;
    xcvm_tape_if(t, in_count > 1 ? in[1] : xcvm_Less(t, x, constant(t, 0)), (xcvm_tape_branch){take_negative, &x},
                 (xcvm_tape_branch){take_same, &x}, 1, out);
    return XCVM_OK;
}

/* A branch follows the elements of each call. */
START_TEST(branches_in_static_functions)
{
    xcvm_tape *t = open_tape();
    int runs = 0;
    xcvm_static *s = make_static(t, (xcvm_static_function){run_absolute, &runs}, NULL);
    for (int i = 0; i < 6; i++)
        CHECK_F32(t, call1(s, constant(t, i % 2 == 0 ? 3 : -3)), 3);
    ck_assert_int_eq(runs, 6);
    for (int i = 0; i < 6; i++) {
        const xcvm_var in[] = {constant(t, i % 2 == 0 ? 3 : -3), xcvm_tape_scalar(t, XCVM_BOOL, i % 2)};
        xcvm_var y;
        CHECK_F32(t, xcvm_static_call(s, 2, in, 1, &y), 3);
    }
    ck_assert_int_eq(runs, 8);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

/* ---- Gradients by rows in static functions ---- */

static xcvm_status run_rows(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                            xcvm_var *out)
{
    const xcvm_var *table = user;
    (void)in_count;
    (void)out_count;
    const xcvm_var x = xcvm_Gather(t, *table, in[0]);
    const xcvm_var loss = xcvm_ReduceSum(t, xcvm_Mul(t, x, x), .keepdims = 0);
    XCVM_TRY(xcvm_tape_backward(t, loss, NULL, NULL));
    XCVM_TRY(xcvm_var_get_gradient_rows(t, *table, &out[0], &out[1], NULL));
    xcvm_var_clear_gradient(t, *table);
    return XCVM_OK;
}

START_TEST(rows_of_a_backward_in_a_static_function)
{
    xcvm_tape *t = open_tape(), *eager = open_tape();
    const float numbers[] = {1, 2, 3, 4, 5, 6};
    xcvm_var table = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(3, 2), numbers),
             same = xcvm_tape_parameter(eager, XCVM_F32, 2, DIMS(3, 2), numbers);
    ck_assert_int_eq(xcvm_var_set_sparse_gradient(t, table, true, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_var_set_sparse_gradient(eager, same, true, NULL), XCVM_OK);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_rows, &table}, NULL);
    for (int64_t i = 0; i < 3; i++) {
        const int64_t index[2] = {i, (i + 1) % 3};
        const xcvm_var x = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), index),
                       y = xcvm_tape_constant(eager, XCVM_I64, 1, DIMS(2), index);
        xcvm_var a[2], b[2];
        xcvm_static_call(s, 1, &x, 2, a);
        ck_assert_int_eq(run_rows(&same, eager, 1, &y, 2, b), XCVM_OK);
        check_bytes(t, a[0], eager, b[0], 0);
        check_bytes(t, a[1], eager, b[1], 1e-6);
    }
    xcvm_static_destroy(s);
    close_tape(t);
    close_tape(eager);
}
END_TEST

static xcvm_status run_gather(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                              xcvm_var *out)
{
    const xcvm_var x = xcvm_Gather(t, in_count > 1 ? in[1] : *(const xcvm_var *)user, in[0]);
    (void)out_count;
    out[0] = xcvm_ReduceSum(t, xcvm_Mul(t, x, x), .keepdims = 0);
    return XCVM_OK;
}

/* Rows that no op gathered stay unchanged, with their moments: of a captured table, of a table behind two ops, and
 * of an operand. */
START_TEST(optimizers_of_tables_in_static_functions)
{
    xcvm_tape *t[2] = {open_tape(), open_tape()};
    const float numbers[] = {1, 2, 3, 4, 5, 6};
    xcvm_var tables[2];
    xcvm_optimizer *o[2];
    xcvm_static *s = NULL;
    for (int k = 0; k < 2; k++) {
        tables[k] = xcvm_tape_parameter(t[k], XCVM_F32, 2, DIMS(3, 2), numbers);
        ck_assert_int_eq(xcvm_optimizer_create(t[k], "adam:lr=0.1", NULL, &o[k], NULL), XCVM_OK);
        ck_assert_int_eq(xcvm_optimizer_add(o[k], "table", tables[k], NULL), XCVM_OK);
    }
    s = make_static(t[0], (xcvm_static_function){run_gather, &tables[0]}, NULL);
    for (int64_t i = 0; i < 6; i++) {
        const int64_t index[1] = {i % 3};
        for (int k = 0; k < 2; k++) {
            if (i == (_i == 1 ? 2 : 0))
                ck_assert_int_eq(xcvm_var_set_sparse_gradient(t[k], tables[k], true, NULL), XCVM_OK);
            const xcvm_var in[] = {xcvm_tape_constant(t[k], XCVM_I64, 1, DIMS(1), index), tables[k]};
            xcvm_var loss;
            const size_t ins = _i == 2 ? 2 : 1;
            if (k == 0)
                xcvm_static_call(s, ins, in, 1, &loss);
            else
                ck_assert_int_eq(run_gather(&tables[1], t[1], ins, in, 1, &loss), XCVM_OK);
            backward(t[k], loss);
            ck_assert_int_eq(xcvm_optimizer_step(o[k], NULL), XCVM_OK);
            xcvm_optimizer_clear_gradients(o[k]);
        }
        check_bytes(t[0], tables[0], t[1], tables[1], 1e-6);
    }
    xcvm_static_destroy(s);
    for (int k = 0; k < 2; k++) {
        xcvm_optimizer_destroy(o[k]);
        close_tape(t[k]);
    }
}
END_TEST

/* A table that is frozen between a call and its backward pass gets no rows, then or later. */
START_TEST(tables_that_are_frozen_behind_a_call)
{
    xcvm_tape *t = open_tape();
    const float numbers[] = {1, 2, 3, 4, 5, 6};
    xcvm_var table = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(3, 2), numbers), w = parameter(t, 2), rows, gradients;
    ck_assert_int_eq(xcvm_var_set_sparse_gradient(t, table, true, NULL), XCVM_OK);
    for (int64_t i = 0; i < 2; i++) {
        const xcvm_var x = xcvm_Gather(t, table, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), &i)),
                       loss = xcvm_ReduceSum(t, xcvm_Mul(t, x, w), .keepdims = 0);
        ck_assert_int_eq(xcvm_var_set_requires_gradient(t, table, i > 0, NULL), XCVM_OK);
        backward(t, loss);
        ck_assert_int_eq(xcvm_var_set_requires_gradient(t, table, true, NULL), XCVM_OK);
        ck_assert_int_eq(xcvm_var_get_gradient_rows(t, table, &rows, &gradients, NULL), XCVM_OK);
        ck_assert((rows.at != NULL) == (i > 0));
    }
    ck_assert_uint_eq(xcvm_value_count(value_of(t, rows)), 1);
    CHECK_F32(t, gradients, 2, 2);
    close_tape(t);
}
END_TEST

typedef struct learning {
    xcvm_var w;
    xcvm_optimizer *o;
    xcvm_status status;
    xcvm_error error;
} learning;

static xcvm_var step_in_hook(void *user, xcvm_tape *t, const xcvm_update *update)
{
    learning *l = user;
    (void)t;
    (void)update;
    l->status = xcvm_optimizer_step(l->o, &l->error);
    return XCVM_ABSENT;
}

START_TEST(a_step_in_an_update_hook)
{
    xcvm_tape *t = open_tape();
    learning l = {.w = parameter(t, 3)};
    ck_assert_int_eq(xcvm_optimizer_create(t, "sgd:lr=0.5", NULL, &l.o, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_optimizer_add(l.o, "w", l.w, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_optimizer_add_hook(l.o, (xcvm_update_hook){step_in_hook, &l}, NULL), XCVM_OK);
    backward(t, xcvm_Mul(t, l.w, l.w));
    ck_assert_int_eq(xcvm_optimizer_step(l.o, NULL), XCVM_OK);
    ck_assert_int_eq(l.status, XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(l.error.message, "a step is running"));
    CHECK_F32(t, l.w, 0);
    xcvm_optimizer_destroy(l.o);
    close_tape(t);
}
END_TEST

static xcvm_var double_in_hook(void *user, xcvm_tape *t, const xcvm_update *update)
{
    (void)user;
    return xcvm_Add(t, update->gradient, update->gradient);
}

static xcvm_var invalidate_in_hook(void *user, xcvm_tape *t, const xcvm_update *update)
{
    (void)user;
    (void)update;
    xcvm_tape_invalidate(t);
    return XCVM_ABSENT;
}

/* A hook drops the elements of the gradient that the one before it has returned. They are computed again. */
START_TEST(a_hook_that_drops_elements)
{
    xcvm_tape *t = open_lazy_tape(XCVM_BATCHING_NONE);
    const xcvm_var w = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(2), F32S(3, 4)),
                   v = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(2), F32S(1, 2));
    xcvm_optimizer *o;
    ck_assert_int_eq(xcvm_optimizer_create(t, "sgd:lr=0.25", NULL, &o, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_optimizer_add(o, "w", w, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_optimizer_add(o, "v", v, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_optimizer_add_hook(o, (xcvm_update_hook){double_in_hook, NULL}, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_optimizer_add_hook(o, (xcvm_update_hook){invalidate_in_hook, NULL}, NULL), XCVM_OK);
    backward(t, xcvm_ReduceSum(t, xcvm_Mul(t, w, v), .keepdims = 0));
    ck_assert_int_eq(xcvm_optimizer_step(o, NULL), XCVM_OK);
    CHECK_F32(t, w, 2.5, 3);
    CHECK_F32(t, v, -0.5, 0);
    xcvm_optimizer_destroy(o);
    close_tape(t);
}
END_TEST

static xcvm_status step_forward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                xcvm_var *out)
{
    const learning *l = user;
    (void)in_count;
    (void)out_count;
    out[0] = xcvm_var_detach(t, in[0]);
    return xcvm_optimizer_step(l->o, NULL);
}

static xcvm_status run_step(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                            xcvm_var *out)
{
    learning *l = user;
    static xcvm_operation step;
    (void)in_count;
    (void)out_count;
    step = (xcvm_operation){.size = sizeof step, .name = "step", .forward = step_forward, .user = l};
    const xcvm_var loss = xcvm_Mul(t, xcvm_Mul(t, l->w, l->w), in[0]);
    XCVM_TRY(xcvm_tape_backward(t, loss, NULL, NULL));
    const xcvm_var detached = xcvm_var_detach(t, loss);
    out[0] = xcvm_tape_call_operation(t, &step, 1, &detached, 1, out);
    xcvm_optimizer_clear_gradients(l->o);
    return XCVM_OK;
}

START_TEST(a_step_in_an_operation_of_a_static_function)
{
    xcvm_tape *t = open_tape();
    learning l = {.w = parameter(t, 64)};
    ck_assert_int_eq(xcvm_optimizer_create(t, "sgd:lr=0.25", NULL, &l.o, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_optimizer_add(l.o, "w", l.w, NULL), XCVM_OK);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_step, &l}, NULL);
    float w = 64;
    for (int i = 0; i < 4; i++) {
        CHECK_F32(t, call1(s, constant(t, 1)), w * w);
        w /= 2;
        CHECK_F32(t, l.w, w);
    }
    xcvm_static_destroy(s);
    xcvm_optimizer_destroy(l.o);
    close_tape(t);
}
END_TEST

/* ---- Out of memory ---- */

typedef struct network {
    xcvm_layer *all, *words, *first, *second, *last;
} network;

static xcvm_status run_network(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                               xcvm_var *out)
{
    const network *n = user;
    (void)in_count;
    (void)out_count;
    xcvm_var x = xcvm_layer_call(n->first, xcvm_layer_call(n->words, in[0]));
    x = xcvm_layer_call(n->last, xcvm_tape_scale_gradient(t, xcvm_layer_call(n->second, x), 0.5));
    out[0] = xcvm_ReduceMean(t, xcvm_Mul(t, x, x), .keepdims = 0);
    return XCVM_OK;
}

/* The last layer alone, which can be a schedule. */
static xcvm_status run_last(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                            xcvm_var *out)
{
    const network *n = user;
    (void)in_count;
    (void)out_count;
    const xcvm_var y = xcvm_tape_scale_gradient(t, xcvm_layer_call(n->last, in[0]), 2);
    xcvm_tape_if(t, xcvm_tape_scalar(t, XCVM_BOOL, 1), (xcvm_tape_branch){take_negative, (xcvm_var[]){y}},
                 (xcvm_tape_branch){take_same, (xcvm_var[]){y}}, 1, out);
    out[0] = xcvm_ReduceSum(t, out[0], .keepdims = 0);
    return XCVM_OK;
}

static xcvm_status learn(xcvm_tape *t, const network *n, xcvm_optimizer *o, xcvm_static *s, xcvm_static *last,
                         xcvm_error *error)
{
    for (int64_t i = 0; i < 3; i++) {
        const int64_t index[2] = {i, 4 - i};
        const xcvm_var x = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), index);
        xcvm_var loss, other = rows_of(t, 2, 1);
        XCVM_TRY(xcvm_tape_checkpoint(t, error));
        xcvm_static_call(s, 1, &x, 1, &loss);
        XCVM_TRY(xcvm_tape_forward(t, loss, error));
        XCVM_TRY(xcvm_tape_revert(t, error));
        xcvm_layer_reset(n->all);
        const xcvm_scope scope = xcvm_tape_scope_begin(t);
        xcvm_static_call(s, 1, &x, 1, &loss);
        other = xcvm_Slice(t, other, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(0)),
                           xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(2)),
                           xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(1)));
        loss = xcvm_Add(t, loss, call1(last, other));
        xcvm_tape_scope_end(t, scope, 1, &loss);
        xcvm_tape_invalidate(t);
        XCVM_TRY(xcvm_tape_backward(t, loss, NULL, error));
        XCVM_TRY(xcvm_optimizer_step(o, error));
        XCVM_TRY(xcvm_optimizer_swap_averages(o, error));
        xcvm_optimizer_clear_gradients(o);
        xcvm_layer_reset(n->all);
        xcvm_tape_reset(t);
    }
    return XCVM_OK;
}

static xcvm_status make_and_learn(xcvm_tape *t, xcvm_error *error)
{
    const xcvm_optimizer_options average = {.size = sizeof average, .average = 0.5};
    network n = {.all = xcvm_layer_create_chain(t)};
    xcvm_optimizer *o = NULL;
    xcvm_static *s = NULL, *last = NULL;
    n.words = xcvm_layer_add(n.all, "words", xcvm_layer_create_embedding(t, 5, 3, &with_seed));
    n.first = xcvm_layer_add(n.all, "first", xcvm_layer_create_lstm(t, 3, 2, &with_seed));
    n.second = xcvm_layer_add(n.all, "second", xcvm_layer_create_batch_normalization(t, 2, NULL));
    n.last = xcvm_layer_add(n.all, "last", xcvm_layer_create_linear(t, 2, 2, &with_seed));
    xcvm_status status = xcvm_tape_status(t, error);
    if (status == XCVM_OK)
        status = xcvm_optimizer_create(t, "adam:lr=0.1", &average, &o, error);
    if (status == XCVM_OK)
        status = xcvm_optimizer_add_layer(o, n.all, error);
    if (status == XCVM_OK)
        status = xcvm_static_create(t, (xcvm_static_function){run_network, &n}, NULL, &s, error);
    if (status == XCVM_OK)
        status = xcvm_static_create(t, (xcvm_static_function){run_last, &n}, NULL, &last, error);
    if (status == XCVM_OK)
        status = learn(t, &n, o, s, last, error);
    xcvm_layer_reset(n.all);
    xcvm_layer_destroy(n.all); /* the optimizer still references it */
    xcvm_static_destroy(s);
    xcvm_static_destroy(last);
    xcvm_optimizer_destroy(o);
    xcvm_tape_reset(t);
    (void)xcvm_tape_status(t, NULL);
    return status;
}

START_TEST(out_of_memory_anywhere)
{
    /* Scratch memory, batches and constant folding are optional. */
    starve(&(starvation){.work = make_and_learn,
                         .mode = _i == 0 ? XCVM_TAPE_EAGER : XCVM_TAPE_LAZY,
                         .batching = _i == 0 ? XCVM_BATCHING_NONE : (xcvm_batching)(_i - 1),
                         .may_succeed = true,
                         .every = 100,
                         .least = 30});
}
END_TEST

Suite *suite_tape_combined(void);
Suite *suite_tape_combined(void)
{
    Suite *suite = SUITE_OF("tape_combined", statistics_move_behind_calls_that_wait, statistics_that_were_released,
                            rows_of_a_backward_in_a_static_function, tables_that_are_frozen_behind_a_call,
                            branches_in_static_functions, operands_that_are_written_into, a_step_in_an_update_hook,
                            a_hook_that_drops_elements, a_step_in_an_operation_of_a_static_function);
    TCase *tcase = tcase_create("each");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, out_of_memory_anywhere, 0, 5);
    tcase_add_loop_test(tcase, optimizers_of_tables_in_static_functions, 0, 3);
    tcase_add_loop_test(tcase, layers_that_keep_something_in_static_functions, 0, 3);
    tcase_add_loop_test(tcase, batch_normalization_on_lazy_tapes, 0, 4);
    tcase_add_loop_test(tcase, gradients_that_are_changed_in_static_functions, 0, 6);
    suite_add_tcase(suite, tcase);
    return suite;
}

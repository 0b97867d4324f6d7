/* Tests of effects of static functions: remaining gradients, and optimizers and static functions that are destroyed
 * while they run. */
#include "tests/tape/static_layers.h"

/* ---- Remaining gradients ---- */

typedef struct leaving {
    xcvm_var w, table;
    xcvm_optimizer *o;
    int clears, runs; /* clears: 0: never, 1: before the backward pass, 2: after it */
    bool steps, twice;
} leaving;

static xcvm_status run_leaving(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                               xcvm_var *out)
{
    leaving *l = user;
    xcvm_error error;
    (void)in_count;
    (void)out_count;
    l->runs++;
    if (l->clears == 1)
        xcvm_optimizer_clear_gradients(l->o);
    for (int i = 0; i <= l->twice; i++) {
        const xcvm_var rows = xcvm_Gather(t, l->table, in[0]);
        out[0] = xcvm_ReduceSum(t, xcvm_Mul(t, xcvm_Mul(t, rows, rows), l->w), .keepdims = 0);
        XCVM_TRY(xcvm_tape_backward(t, out[0], NULL, &error));
    }
    if (l->steps)
        XCVM_TRY(xcvm_optimizer_step(l->o, &error));
    if (l->clears == 2)
        xcvm_optimizer_clear_gradients(l->o);
    return XCVM_OK;
}

static void check_rows(xcvm_tape *t[2], const leaving l[2])
{
    xcvm_var rows[2], gradients[2];
    for (int k = 0; k < 2; k++)
        ck_assert_int_eq(xcvm_var_get_gradient_rows(t[k], l[k].table, &rows[k], &gradients[k], NULL), XCVM_OK);
    ck_assert((rows[0].at == NULL) == (rows[1].at == NULL));
    if (rows[0].at == NULL)
        return;
    check_bytes(t[0], rows[0], t[1], rows[1], 0);
    check_bytes(t[0], gradients[0], t[1], gradients[1], 1e-5);
}

/* A schedule leaves the dense or sparse gradients that the function leaves. Gradients that are cleared first start
 * anew. Adding to others runs define-by-run. A step may have used some. */
START_TEST(gradients_that_are_left)
{
    xcvm_tape *t[2] = {open_tape(), open_tape()};
    leaving l[2];
    xcvm_error error = {0};
    messages log = {.count = 0};
    const xcvm_static_options options = {.size = sizeof options, .log = {take_message, &log}};
    const float numbers[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    for (int k = 0; k < 2; k++) {
        l[k] = (leaving){.clears = _i % 3, .steps = _i / 3 % 2 == 1, .twice = _i / 6 == 1};
        l[k].w = xcvm_tape_parameter(t[k], XCVM_F32, 1, DIMS(2), F32S(1, -1));
        l[k].table = xcvm_tape_parameter(t[k], XCVM_F32, 2, DIMS(5, 2), numbers);
        ck_assert_int_eq(xcvm_var_set_sparse_gradient(t[k], l[k].table, true, NULL), XCVM_OK);
        must(xcvm_optimizer_create(t[k], "sgd:lr=0.001,momentum=0.5", NULL, &l[k].o, &error), &error);
        must(xcvm_optimizer_add(l[k].o, "w", l[k].w, &error), &error);
        must(xcvm_optimizer_add(l[k].o, "table", l[k].table, &error), &error);
    }
    xcvm_static *s = make_static(t[0], (xcvm_static_function){run_leaving, &l[0]}, &options);
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 2; k++) {
            const xcvm_var x = words_of(t[k], i);
            xcvm_var loss;
            if (i == 4) /* the host adds to it too */
                backward(t[k], xcvm_ReduceSum(t[k], xcvm_Mul(t[k], l[k].w, l[k].w), .keepdims = 0));
            if (k == 0)
                xcvm_static_call(s, 1, &x, 1, &loss);
            else
                ck_assert_int_eq(run_leaving(&l[1], t[1], 1, &x, 1, &loss), XCVM_OK);
            if (l[k].clears == 0 && i == 2)
                xcvm_optimizer_clear_gradients(l[k].o);
        }
        const xcvm_var a = xcvm_var_get_gradient(t[0], l[0].w), b = xcvm_var_get_gradient(t[1], l[1].w);
        ck_assert((a.at == NULL) == (b.at == NULL));
        if (a.at != NULL)
            check_bytes(t[0], a, t[1], b, 1e-5);
        check_rows(t, l);
        check_bytes(t[0], l[0].w, t[1], l[1].w, 1e-5);
        check_bytes(t[0], l[0].table, t[1], l[1].table, 1e-5);
        xcvm_tape_reset(t[0]);
        xcvm_tape_reset(t[1]);
    }
    /* Cleared first: a schedule each time. Cleared afterwards without a step: the same, except for the host's
     * gradient. */
    ck_assert_msg(log.warnings == 0, "%s", log.text);
    ck_assert_int_eq(l[0].runs, l[0].clears == 1 ? 1 : l[0].clears == 2 ? 2 : 5);
    test_bytes bytes = {NULL, 0, 0};
    ck_assert_int_eq(xcvm_static_save(s, NULL, (xcvm_sink){test_bytes_sink, &bytes}, &error),
                     l[0].clears == 2 && !l[0].steps ? XCVM_OK : XCVM_UNSUPPORTED);
    test_bytes_free(&bytes);
    xcvm_static_destroy(s);
    for (int k = 0; k < 2; k++) {
        xcvm_optimizer_destroy(l[k].o);
        close_tape(t[k]);
    }
}
END_TEST

static xcvm_status run_operand(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                               xcvm_var *out)
{
    xcvm_error error;
    (void)user;
    (void)in_count;
    (void)out_count;
    out[0] = xcvm_Mul(t, in[0], in[0]);
    return xcvm_tape_backward(t, out[0], NULL, &error);
}

static xcvm_status run_captured(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                xcvm_var *out)
{
    xcvm_error error;
    (void)in_count;
    (void)out_count;
    out[0] = xcvm_Mul(t, in[0], *(const xcvm_var *)user);
    return xcvm_tape_backward(t, out[0], NULL, &error);
}

/* A backward pass that continues to the call's operands runs define-by-run. */
START_TEST(gradients_of_operands)
{
    xcvm_tape *t = open_tape();
    messages log = {.count = 0};
    const xcvm_static_options options = {.size = sizeof options, .log = {take_message, &log}};
    const xcvm_var x = parameter(t, 3);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_operand, NULL}, &options);
    for (int i = 1; i < 4; i++) {
        CHECK_F32(t, call1(s, x), 9);
        CHECK_F32(t, xcvm_var_get_gradient(t, x), 6 * (float)i);
    }
    ck_assert_msg(strstr(log.text, "adds to the gradient of an operand of the call") != NULL, "%s", log.text);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

/* A backward pass that continues to the ops of an operand runs define-by-run, though their leaf is captured; so does
 * a call whose operand is that leaf. */
START_TEST(gradients_behind_operands)
{
    xcvm_tape *t = open_tape();
    messages log = {.count = 0};
    const xcvm_static_options options = {.size = sizeof options, .log = {take_message, &log}};
    const xcvm_var w = parameter(t, 2), other = parameter(t, 3);
    xcvm_var captured = w;
    xcvm_static *s = make_static(t, (xcvm_static_function){run_captured, &captured}, &options);
    for (int i = 0; i < 4; i++) {
        CHECK_F32(t, call1(s, i < 2 ? xcvm_Neg(t, w) : other), i < 2 ? -4 : 6);
        CHECK_F32(t, xcvm_var_get_gradient(t, w), i < 2 ? -4 : 3);
        if (i >= 2)
            CHECK_F32(t, xcvm_var_get_gradient(t, other), 2);
        xcvm_var_clear_gradient(t, w);
        xcvm_var_clear_gradient(t, other);
    }
    ck_assert_msg(strstr(log.text, "takes one of what calls before it have made") != NULL, "%s", log.text);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

/* ---- Destroyed while running ---- */

typedef struct destroying {
    xcvm_optimizer *o;
    xcvm_static *s;
    int where, hooked;
    bool now;
    xcvm_var w;
    xcvm_operation operation;
} destroying;

static xcvm_var destroy_optimizer(void *user, xcvm_tape *t, const xcvm_update *update)
{
    destroying *d = user;
    (void)update;
    d->hooked++;
    if (d->now && d->o != NULL) {
        xcvm_optimizer_destroy(d->o);
        d->o = NULL;
    }
    return xcvm_Mul(t, update->gradient, constant(t, 2));
}

static xcvm_status run_destroying_step(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                       xcvm_var *out)
{
    destroying *d = user;
    xcvm_error error;
    (void)in_count;
    (void)out_count;
    out[0] = xcvm_Mul(t, d->w, in[0]);
    XCVM_TRY(xcvm_tape_backward(t, out[0], NULL, &error));
    if (d->o != NULL)
        XCVM_TRY(xcvm_optimizer_step(d->o, &error));
    xcvm_var_clear_gradient(t, d->w);
    return XCVM_OK;
}

/* An optimizer that its update hook destroys completes the step with all hooks: in a call, in a recorded one, and in
 * a schedule. */
START_TEST(optimizers_destroyed_in_their_hooks)
{
    xcvm_tape *t = open_tape();
    destroying d = {.w = parameter(t, 3)};
    xcvm_error error = {0};
    must(xcvm_optimizer_create(t, "adam:lr=0.5", NULL, &d.o, &error), &error);
    must(xcvm_optimizer_add(d.o, "w", d.w, &error), &error);
    for (int i = 0; i < 2; i++)
        must(xcvm_optimizer_add_hook(d.o, (xcvm_update_hook){destroy_optimizer, &d}, &error), &error);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_destroying_step, &d}, NULL);
    xcvm_static_set_enabled(s, _i > 0);
    float w = 3;
    const int calls = _i == 2 ? 2 : 1;
    for (int i = 0; i < calls; i++) {
        d.now = i == calls - 1;
        CHECK_F32(t, call1(s, constant(t, 1)), w);
        w -= 0.5f;
        CHECK_F32(t, d.w, w);
    }
    ck_assert_ptr_null(d.o);
    ck_assert_int_eq(d.hooked, 2 * calls);
    ck_assert_int_eq((int)figures(s).replayed, (_i == 2));
    /* The step is gone. */
    for (int i = 0; i < 3; i++)
        CHECK_F32(t, call1(s, constant(t, 2)), 2 * w);
    xcvm_static_destroy(s);
    close_tape(t);
}
END_TEST

enum { IN_FUNCTION, IN_FUNCTION_ALONE, IN_LOG, IN_OPERATION, IN_BACKWARD, IN_OBSERVER, PLACES };

static void destroy_static(destroying *d, int where)
{
    if (d->now && d->where == where)
        xcvm_static_destroy(d->s);
}

static xcvm_status destroy_forward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                   xcvm_var *out)
{
    (void)in_count;
    (void)out_count;
    destroy_static(user, IN_OPERATION);
    out[0] = xcvm_Neg(t, in[0]);
    return XCVM_OK;
}

static xcvm_status destroy_backward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                    const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients)
{
    (void)in_count;
    (void)in;
    (void)out_count;
    (void)out;
    destroy_static(user, IN_BACKWARD);
    in_gradients[0] = xcvm_Neg(t, out_gradients[0]);
    return XCVM_OK;
}

static void destroy_in_log(void *user, int level, const char *text)
{
    (void)level;
    (void)text;
    destroy_static(user, IN_LOG);
}

static void destroy_in_observer(void *user, const xcvm_call_event *event)
{
    (void)event;
    destroy_static(user, IN_OBSERVER);
}

static xcvm_status run_destroying(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                  xcvm_var *out)
{
    destroying *d = user;
    (void)in_count;
    (void)out_count;
    destroy_static(d, d->where == IN_FUNCTION_ALONE ? IN_FUNCTION_ALONE : IN_FUNCTION);
    xcvm_tape_call_operation(t, &d->operation, 1, &d->w, 1, out);
    out[0] = xcvm_Mul(t, out[0], in[0]);
    return XCVM_OK;
}

/* A running static function refuses its destruction, and the tape reports it. */
START_TEST(static_functions_destroyed_while_they_run)
{
    const bool in_backward = _i == IN_BACKWARD;
    for (int before = 0; before < 3; before++) { /* recorded, compiled, replayed */
        xcvm_tape *t = open_tape();
        destroying d = {.where = _i, .w = parameter(t, 3)};
        const xcvm_static_options options = {.size = sizeof options, .verbosity = 2, .log = {destroy_in_log, &d}};
        d.operation = (xcvm_operation){.size = sizeof d.operation,
                                       .name = "may destroy",
                                       .forward = destroy_forward,
                                       .backward = destroy_backward,
                                       .user = &d};
        d.s = make_static(t, (xcvm_static_function){run_destroying, &d}, &options);
        xcvm_static_set_enabled(d.s, _i != IN_FUNCTION_ALONE);
        xcvm_static_set_checking(d.s, _i == IN_FUNCTION);
        xcvm_tape_set_observer(t, &(xcvm_tape_observer){destroy_in_observer, &d});
        for (int i = 0; i < before; i++)
            CHECK_F32(t, call1(d.s, constant(t, 1)), -3);
        d.now = !in_backward;
        const xcvm_var y = call1(d.s, constant(t, 1));
        xcvm_error error = {0};
        if (in_backward) {
            d.now = true;
            ck_assert_int_eq(xcvm_tape_backward(t, y, NULL, &error), XCVM_INVALID_ARGUMENT);
            ck_assert_msg(strstr(error.message, "cannot be destroyed while a backward pass runs") != NULL, "%s",
                          error.message);
        } else {
            check_failed(t, XCVM_INVALID_ARGUMENT, "cannot be destroyed while a static function runs");
        }
        d.now = false;
        CHECK_F32(t, call1(d.s, constant(t, 2)), -6);
        xcvm_static_destroy(d.s);
        close_tape(t);
    }
}
END_TEST

/* ---- Released while running ---- */

typedef struct releasing {
    xcvm_var w, count;
    xcvm_optimizer *o;
    bool in_hook, resets;
    int calls;
    xcvm_operation operation;
} releasing;

static void release_or_reset(releasing *r, xcvm_tape *t)
{
    if (++r->calls != 3)
        return;
    if (r->resets)
        xcvm_tape_reset(t);
    else
        xcvm_var_release(t, r->count);
}

static xcvm_status release_in_operation(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                        xcvm_var *out)
{
    releasing *r = user;
    (void)in_count;
    (void)out_count;
    if (!r->in_hook)
        release_or_reset(r, t);
    out[0] = r->in_hook || !r->resets ? xcvm_Neg(t, in[0]) : constant(t, 0);
    return XCVM_OK;
}

static xcvm_var release_in_hook(void *user, xcvm_tape *t, const xcvm_update *update)
{
    releasing *r = user;
    (void)update;
    if (r->in_hook)
        release_or_reset(r, t);
    return XCVM_ABSENT;
}

static xcvm_status run_releasing(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                 xcvm_var *out)
{
    const releasing *r = user;
    xcvm_error error;
    (void)in_count;
    (void)out_count;
    const xcvm_var loss = xcvm_Mul(t, r->w, in[0]), seen = xcvm_var_detach(t, loss);
    xcvm_tape_call_operation(t, &r->operation, 1, &seen, 1, out);
    XCVM_TRY(xcvm_tape_backward(t, loss, NULL, &error));
    xcvm_Add(t, r->count, xcvm_tape_scalar(t, XCVM_F32, 1), .into = r->count);
    XCVM_TRY(xcvm_optimizer_step(r->o, &error));
    xcvm_var_clear_gradient(t, r->w);
    return XCVM_OK;
}

/* Variables that a schedule reads and writes live until it ends, whatever an operation or a hook releases. A reset
 * takes the results, and the call fails. */
START_TEST(variables_released_while_they_are_used)
{
    xcvm_tape *t = open_tape();
    xcvm_error error = {0};
    releasing r = {.w = parameter(t, 3), .in_hook = _i % 2 != 0, .resets = _i / 2 != 0};
    r.count = xcvm_var_keep(t, constant(t, 0));
    r.operation =
        (xcvm_operation){.size = sizeof r.operation, .name = "releases", .forward = release_in_operation, .user = &r};
    ck_assert_int_eq(xcvm_optimizer_create(t, "sgd:lr=0.5", NULL, &r.o, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_optimizer_add(r.o, "w", r.w, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_optimizer_add_hook(r.o, (xcvm_update_hook){release_in_hook, &r}, &error), XCVM_OK);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_releasing, &r}, NULL);
    for (int i = 0; i < 3; i++) {
        call1(s, constant(t, 1));
        ck_assert_int_eq(xcvm_tape_status(t, &error), i == 2 && r.resets ? XCVM_INVALID_ARGUMENT : XCVM_OK);
    }
    ck_assert_uint_eq(figures(s).replayed, 2);
    if (r.resets) {
        call1(s, constant(t, 1));
        CHECK_F32(t, r.count, 3);
    } else {
        ck_assert(r.count.at->serial != r.count.serial || !r.count.at->named);
    }
    xcvm_static_destroy(s);
    xcvm_optimizer_destroy(r.o);
    close_tape(t);
}
END_TEST

Suite *suite_tape_static_effects(void);
Suite *suite_tape_static_effects(void)
{
    Suite *suite = SUITE_OF("tape_static_effects", gradients_of_operands, gradients_behind_operands);
    TCase *tcase = tcase_create("each");
    tcase_add_loop_test(tcase, gradients_that_are_left, 0, 12);
    tcase_add_loop_test(tcase, optimizers_destroyed_in_their_hooks, 0, 3);
    tcase_add_loop_test(tcase, static_functions_destroyed_while_they_run, 0, PLACES);
    tcase_add_loop_test(tcase, variables_released_while_they_are_used, 0, 4);
    suite_add_tcase(suite, tcase);
    return suite;
}

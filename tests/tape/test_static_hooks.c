/* Tests of optimizer hooks in static functions: they see variables and state slots as the function has left them
 * before the step. */
#include "tests/tape/static_layers.h"

/* ---- Writes that update hooks see ---- */

typedef struct looking {
    xcvm_var w, early, late;
    xcvm_optimizer *o;
    double seen[8]; /* per call: `early`, `late` */
    int calls;
    bool fails, reads; /* reads: after the step, the function reads `early`, and does not write `late` */
} looking;

static xcvm_var look_at_writes(void *user, xcvm_tape *t, const xcvm_update *update)
{
    looking *looker = user;
    (void)update;
    looker->seen[2 * looker->calls] = xcvm_var_get_number(t, looker->early);
    looker->seen[2 * looker->calls++ + 1] = xcvm_var_get_number(t, looker->late);
    xcvm_Mul(t, looker->early, constant(t, 2), .into = looker->early);
    return looker->fails ? xcvm_tape_constant(t, XCVM_F32, 1, (const int64_t[]){2}, (const float[]){1, 2})
                         : XCVM_ABSENT;
}

static xcvm_status run_looked_at(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                 xcvm_var *out)
{
    const looking *looker = user;
    const xcvm_var one = constant(t, 1);
    xcvm_error error;
    (void)in_count;
    (void)out_count;
    const xcvm_var loss = xcvm_Mul(t, looker->w, in[0]);
    out[0] = xcvm_var_detach(t, loss);
    XCVM_TRY(xcvm_tape_backward(t, loss, NULL, &error));
    xcvm_Add(t, looker->early, one, .into = looker->early);
    XCVM_TRY(xcvm_optimizer_step(looker->o, &error));
    if (looker->reads)
        out[0] = xcvm_Add(t, looker->early, one);
    else
        xcvm_Add(t, looker->late, one, .into = looker->late);
    xcvm_var_clear_gradient(t, looker->w);
    return XCVM_OK;
}

/* Hooks see what the function writes before the step, may write to it, and do not see later writes. If a hook fails,
 * the old elements are restored, also in a view. */
START_TEST(writes_seen_by_hooks)
{
    xcvm_tape *t = open_tape();
    xcvm_error error = {0};
    looking looker = {.w = parameter(t, 3)};
    looker.early = xcvm_var_keep(t, constant(t, 0));
    looker.late = xcvm_var_keep(t, constant(t, 0));
    must(xcvm_optimizer_create(t, "sgd:lr=0.5", NULL, &looker.o, &error), &error);
    must(xcvm_optimizer_add(looker.o, "w", looker.w, &error), &error);
    must(xcvm_optimizer_add_hook(looker.o, (xcvm_update_hook){look_at_writes, &looker}, &error), &error);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_looked_at, &looker}, NULL);
    for (int i = 0; i < 3; i++)
        CHECK_F32(t, call1(s, constant(t, 1)), (float)(3 - 0.5 * i));
    ck_assert_uint_eq(figures(s).replayed, 2);
    const double seen[] = {1, 0, 3, 1, 7, 2};
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
        ck_assert_double_eq(looker.seen[i], seen[i]);
    CHECK_F32(t, looker.early, 14);
    CHECK_F32(t, looker.late, 3);
    looker.fails = true;
    const xcvm_var view =
        _i ? xcvm_Reshape(t, looker.early,
                          xcvm_tape_constant(t, XCVM_I64, 1, (const int64_t[]){1}, (const int64_t[]){1}))
           : looker.early;
    call1(s, constant(t, 1));
    ck_assert_int_eq(xcvm_tape_status(t, &error), XCVM_SHAPE_MISMATCH);
    ck_assert_double_eq(looker.seen[6], 15);
    CHECK_F32(t, view, 14);
    CHECK_F32(t, looker.early, 14);
    CHECK_F32(t, looker.late, 3);
    xcvm_static_destroy(s);
    xcvm_optimizer_destroy(looker.o);
    close_tape(t);
}
END_TEST

/* ---- State slots that update hooks see ---- */

typedef struct placing {
    xcvm_var w, place;
    xcvm_optimizer *o;
    double seen[8];
    int calls;
    bool late, fails; /* late: the slot is set after the step */
    bool twice;       /* before the step, and again after it */
} placing;

static xcvm_var look_at_place(void *user, xcvm_tape *t, const xcvm_update *update)
{
    placing *p = user;
    (void)update;
    p->seen[p->calls++] = xcvm_var_get_number(t, p->place);
    return p->fails ? xcvm_tape_constant(t, XCVM_F32, 1, (const int64_t[]){2}, (const float[]){1, 2}) : XCVM_ABSENT;
}

static xcvm_status run_placing(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                               xcvm_var *out)
{
    placing *p = user;
    xcvm_error error;
    (void)in_count;
    (void)out_count;
    const xcvm_var loss = xcvm_Mul(t, p->w, in[0]), next = xcvm_Add(t, p->place, in[0]);
    out[0] = xcvm_var_detach(t, loss);
    XCVM_TRY(xcvm_tape_backward(t, loss, NULL, &error));
    if (!p->late)
        p->place = next;
    XCVM_TRY(xcvm_optimizer_step(p->o, &error));
    p->place = p->twice ? xcvm_Add(t, next, in[0]) : next;
    xcvm_var_clear_gradient(t, p->w);
    return XCVM_OK;
}

/* Hooks see the handle that the function stores before the step, and not a later one. If a hook fails, the old
 * handle is restored. */
START_TEST(places_seen_by_hooks)
{
    xcvm_tape *t = open_tape();
    xcvm_error error = {0};
    placing p = {.w = parameter(t, 3), .late = _i == 1};
    xcvm_var *const held[] = {&p.place};
    const xcvm_static_options options = {.size = sizeof options, .held = held, .held_count = 1};
    p.place = xcvm_var_keep(t, constant(t, 0));
    must(xcvm_optimizer_create(t, "sgd:lr=0.5", NULL, &p.o, &error), &error);
    must(xcvm_optimizer_add(p.o, "w", p.w, &error), &error);
    must(xcvm_optimizer_add_hook(p.o, (xcvm_update_hook){look_at_place, &p}, &error), &error);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_placing, &p}, &options);
    for (int i = 0; i < 4; i++) {
        call1(s, constant(t, 1));
        ck_assert_double_eq(p.seen[i], i + (p.late ? 0 : 1));
        CHECK_F32(t, p.place, (float)i + 1);
    }
    ck_assert_uint_eq(figures(s).replayed, 3);
    p.fails = true;
    call1(s, constant(t, 1));
    ck_assert_int_eq(xcvm_tape_status(t, &error), XCVM_SHAPE_MISMATCH);
    ck_assert_double_eq(p.seen[4], p.late ? 4 : 5);
    CHECK_F32(t, p.place, 4);
    xcvm_static_destroy(s);
    xcvm_optimizer_destroy(p.o);
    close_tape(t);
}
END_TEST

/* A slot that is set before the step and again after it runs define-by-run. */
START_TEST(places_filled_twice)
{
    xcvm_tape *t = open_tape();
    xcvm_error error = {0};
    messages log = {.count = 0};
    placing p = {.w = parameter(t, 3), .twice = true};
    xcvm_var *const held[] = {&p.place};
    const xcvm_static_options options = {
        .size = sizeof options, .held = held, .held_count = 1, .log = {take_message, &log}};
    p.place = xcvm_var_keep(t, constant(t, 0));
    must(xcvm_optimizer_create(t, "sgd:lr=0.5", NULL, &p.o, &error), &error);
    must(xcvm_optimizer_add(p.o, "w", p.w, &error), &error);
    must(xcvm_optimizer_add_hook(p.o, (xcvm_update_hook){look_at_place, &p}, &error), &error);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_placing, &p}, &options);
    for (int i = 0; i < 3; i++) {
        call1(s, constant(t, 1));
        ck_assert_double_eq(p.seen[i], 2 * i + 1);
        CHECK_F32(t, p.place, (float)(2 * i + 2));
    }
    ck_assert_uint_eq(figures(s).replayed, 0);
    ck_assert_msg(strstr(log.text, "in one place before and after a step") != NULL, "%s", log.text);
    xcvm_static_destroy(s);
    xcvm_optimizer_destroy(p.o);
    close_tape(t);
}
END_TEST

/* ---- Hooks that write ---- */

static xcvm_var write_looked_at(void *user, xcvm_tape *t, const xcvm_update *update)
{
    const looking *looker = user;
    (void)update;
    const xcvm_var v = looker->reads ? looker->early : looker->late;
    xcvm_Add(t, v, constant(t, 5), .into = v);
    return XCVM_ABSENT;
}

/* Ops after the step see what a hook writes, so the call runs define-by-run. */
START_TEST(writes_of_hooks)
{
    xcvm_tape *t = open_tape();
    xcvm_error error = {0};
    messages log = {.count = 0};
    const xcvm_static_options options = {.size = sizeof options, .log = {take_message, &log}};
    looking looker = {.w = parameter(t, 3), .reads = _i == 1};
    looker.early = xcvm_var_keep(t, constant(t, 0));
    looker.late = xcvm_var_keep(t, constant(t, 0));
    must(xcvm_optimizer_create(t, "sgd:lr=0.5", NULL, &looker.o, &error), &error);
    must(xcvm_optimizer_add(looker.o, "w", looker.w, &error), &error);
    must(xcvm_optimizer_add_hook(looker.o, (xcvm_update_hook){write_looked_at, &looker}, &error), &error);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_looked_at, &looker}, &options);
    for (int i = 1; i < 4; i++) {
        const xcvm_var y = call1(s, constant(t, 1));
        if (looker.reads)
            CHECK_F32(t, y, (float)(6 * i + 1));
        CHECK_F32(t, looker.reads ? looker.early : looker.late, (float)(6 * i));
    }
    ck_assert_msg(strstr(log.text, "what a hook of the step has written") != NULL, "%s", log.text);
    xcvm_static_destroy(s);
    xcvm_optimizer_destroy(looker.o);
    close_tape(t);
}
END_TEST

static xcvm_status run_descent(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                               xcvm_var *out)
{
    const looking *looker = user;
    xcvm_error error;
    (void)in_count;
    (void)out_count;
    const xcvm_var loss = xcvm_Mul(t, looker->w, in[0]);
    out[0] = xcvm_var_detach(t, loss);
    xcvm_var_clear_gradient(t, looker->w);
    XCVM_TRY(xcvm_tape_backward(t, loss, NULL, &error));
    return xcvm_optimizer_step(looker->o, &error);
}

static xcvm_var twice(void *user, xcvm_tape *t, xcvm_var gradient)
{
    (void)user;
    return xcvm_Add(t, gradient, gradient);
}

/* A gradient hook that is added after the recording is called all the same. */
START_TEST(hooks_that_come_later)
{
    xcvm_tape *t = open_tape();
    xcvm_error error = {0};
    looking looker = {.w = parameter(t, 3)};
    must(xcvm_optimizer_create(t, "sgd:lr=0.5", NULL, &looker.o, &error), &error);
    must(xcvm_optimizer_add(looker.o, "w", looker.w, &error), &error);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_descent, &looker}, NULL);
    const float expected[] = {2.5f, 2, 1, 0};
    for (int i = 0; i < 4; i++) {
        if (i == 2)
            must(xcvm_var_add_hook(t, looker.w, (xcvm_gradient_hook){twice, NULL}, &error), &error);
        call1(s, constant(t, 1));
        CHECK_F32(t, looker.w, expected[i]);
    }
    xcvm_static_destroy(s);
    xcvm_optimizer_destroy(looker.o);
    close_tape(t);
}
END_TEST

Suite *suite_tape_static_hooks(void);
Suite *suite_tape_static_hooks(void)
{
    Suite *suite = suite_create("tape_static_hooks");
    TCase *tcase = tcase_create("each");
    tcase_add_test(tcase, places_filled_twice);
    tcase_add_test(tcase, hooks_that_come_later);
    tcase_add_loop_test(tcase, writes_seen_by_hooks, 0, 2);
    tcase_add_loop_test(tcase, writes_of_hooks, 0, 2);
    tcase_add_loop_test(tcase, places_seen_by_hooks, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}

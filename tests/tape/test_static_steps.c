/* Tests of optimizer steps in static functions, with hooks. An eager tape gives the expected values. */
#include "tests/tape/static_layers.h"

/* ---- Steps of optimizers ---- */

typedef struct learning {
    xcvm_layer *net, *words, *first, *second;
    xcvm_optimizer *o;
    int runs, hooked;
} learning;

static double decay = 0.01;

static xcvm_var count_updates(void *user, xcvm_tape *t, const xcvm_update *update)
{
    learning *l = user;
    l->hooked++;
    return xcvm_Mul(t, update->gradient, xcvm_tape_scalar(t, XCVM_F32, 1 + 1.0 / (double)update->step));
}

static learning make_learning(xcvm_tape *t, const char *optimizer)
{
    const xcvm_optimizer_options options = {
        .size = sizeof options, .clip_norm = 0.5, .average = optimizer[0] == 'a' ? 0.5 : 0};
    learning l = {.net = xcvm_layer_create_chain(t)};
    xcvm_error error = {0};
    l.words = xcvm_layer_add(l.net, "words", xcvm_layer_create_embedding(t, 5, 3, &with_seed));
    l.first = xcvm_layer_add(l.net, "first", xcvm_layer_create_linear(t, 3, 4, &with_seed));
    xcvm_layer_add(l.net, "norm", xcvm_layer_create_batch_normalization(t, 4, NULL));
    l.second = xcvm_layer_add(l.net, "second", xcvm_layer_create_linear(t, 4, 2, &with_seed));
    must(xcvm_optimizer_create(t, optimizer, &options, &l.o, &error), &error);
    must(xcvm_optimizer_add_layer(l.o, l.net, &error), &error);
    must(xcvm_optimizer_add_hook(l.o, (xcvm_update_hook){xcvm_hook_weight_decay, &decay}, &error), &error);
    return l;
}

static xcvm_status run_step(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                            xcvm_var *out)
{
    learning *l = user;
    (void)in_count;
    (void)out_count;
    l->runs++;
    const xcvm_var y = xcvm_layer_call(l->net, in[0]);
    out[0] = xcvm_ReduceMean(t, xcvm_Mul(t, y, xcvm_Sub(t, y, constant(t, 1))), .keepdims = 0);
    return learn_from(t, l->o, out[0]);
}

static void check_learned(xcvm_tape *a, const learning *x, xcvm_tape *b, const learning *y, double tolerance)
{
    static const char *const paths[] = {"words/W",  "first/W",  "first/b",       "norm/gamma",
                                        "second/W", "second/b", "norm/avg_mean", "norm/avg_var"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        check_bytes(a, xcvm_layer_get_parameter(x->net, paths[i]), b, xcvm_layer_get_parameter(y->net, paths[i]),
                    tolerance);
}

static void close_learning(xcvm_tape *t, learning *l)
{
    xcvm_optimizer_destroy(l->o);
    xcvm_layer_destroy(l->net);
    close_tape(t);
}

/* The step is part of the schedule, with its hooks, for a network with a sparse embedding. It follows the settings
 * of the host. */
START_TEST(a11_12_step_of_an_optimizer)
{
    static const char *const texts[] = {"sgd:lr=0.1,momentum=0.9", "adam:lr=0.05", "lars:lr=0.1"};
    xcvm_tape *t[2] = {open_tape(), open_tape()};
    learning l[2];
    messages log = {.count = 0};
    const xcvm_static_options options = {.size = sizeof options, .log = {take_message, &log}};
    xcvm_error error = {0};
    for (int k = 0; k < 2; k++)
        l[k] = make_learning(t[k], texts[_i]);
    xcvm_static *s = make_static(t[0], (xcvm_static_function){run_step, &l[0]}, &options);
    for (int i = 0; i < 9; i++) {
        xcvm_var losses[2];
        for (int k = 0; k < 2; k++) {
            const xcvm_var x = words_of(t[k], i);
            if (i == 3)
                xcvm_optimizer_set_rate(l[k].o, 0.02);
            if (i == 4 || i == 6)
                must(xcvm_optimizer_set_updated(l[k].o, xcvm_layer_get_parameter(l[k].net, "first/W"), i != 4, &error),
                     &error);
            if (i == 5)
                must(xcvm_optimizer_add_hook(l[k].o, (xcvm_update_hook){count_updates, &l[k]}, &error), &error);
            if (k == 0)
                xcvm_static_call(s, 1, &x, 1, &losses[k]);
            else
                ck_assert_int_eq(run_step(&l[1], t[1], 1, &x, 1, &losses[k]), XCVM_OK);
        }
        check_bytes(t[0], losses[0], t[1], losses[1], 1e-5);
        check_learned(t[0], &l[0], t[1], &l[1], 1e-4);
        const double norms[] = {xcvm_optimizer_gradient_norm(l[0].o), xcvm_optimizer_gradient_norm(l[1].o)};
        ck_assert_double_eq_tol(norms[0], norms[1], 1e-4);
        xcvm_tape_reset(t[0]);
        xcvm_tape_reset(t[1]);
    }
    ck_assert_msg(l[0].runs == 1 && log.warnings == 0, "%d, %s", l[0].runs, log.text);
    ck_assert_uint_eq(figures(s).replayed, 8);
    ck_assert_int_eq(l[0].hooked, l[1].hooked);
    test_bytes bytes = {NULL, 0, 0};
    ck_assert_int_eq(xcvm_static_save(s, NULL, (xcvm_sink){test_bytes_sink, &bytes}, &error), XCVM_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "an optimizer calls update hooks"));
    xcvm_static_destroy(s);
    close_learning(t[0], &l[0]);
    close_learning(t[1], &l[1]);
}
END_TEST

/* A saved step is the end of a training program, which continues from the optimizer's state. */
START_TEST(a11_12_saved_steps)
{
    static const char *const texts[] = {"sgd:lr=0.1,momentum=0.9", "adam:lr=0.05", "lars:lr=0.1,momentum=0.5"};
    xcvm_tape *t = open_tape();
    xcvm_error error = {0};
    const xcvm_optimizer_options clipped = {
        .size = sizeof clipped, .clip_norm = 0.5, .average = _i == 1 ? 0.5 : 0, .clip_value = 0.25};
    learning l = {.net = xcvm_layer_create_chain(t)};
    xcvm_layer_add(l.net, "first", xcvm_layer_create_linear(t, 3, 4, &with_seed));
    xcvm_layer_add(l.net, "norm", xcvm_layer_create_batch_normalization(t, 4, NULL));
    xcvm_layer_add(l.net, "second", xcvm_layer_create_linear(t, 4, 2, &with_seed));
    must(xcvm_optimizer_create(t, texts[_i], &clipped, &l.o, &error), &error);
    must(xcvm_optimizer_add_layer(l.o, l.net, &error), &error);
    xcvm_optimizer_set_gradient_scale(l.o, 0.5);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_step, &l}, NULL);
    for (int i = 0; i < 4; i++)
        call1(s, rows_of(t, (float)i / 4));
    ck_assert_int_eq(l.runs, 1);
    saved p = open_saved(s);
    set_saved(&p, "learning_rate", value_of(t, xcvm_tape_scalar(t, XCVM_F32, xcvm_optimizer_get_rate(l.o))));
    for (int i = 0; i < 5; i++) {
        const xcvm_var x = rows_of(t, (float)i / 3);
        check_saved_call(&p, t, x, call1(s, x));
    }
    close_saved(&p);
    xcvm_static_destroy(s);
    close_learning(t, &l);
}
END_TEST

typedef struct unsaved {
    xcvm_var w, v;
    xcvm_optimizer *o;
    int steps;
} unsaved;

static xcvm_status run_unsaved(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                               xcvm_var *out)
{
    const unsaved *u = user;
    xcvm_error error;
    (void)in_count;
    (void)out_count;
    out[0] = xcvm_ReduceSum(t, xcvm_Mul(t, xcvm_Gather(t, u->w, in[0]), u->v), .keepdims = 0);
    XCVM_TRY(xcvm_tape_backward(t, out[0], NULL, &error));
    for (int i = 0; i < u->steps; i++)
        XCVM_TRY(xcvm_optimizer_step(u->o, &error));
    xcvm_optimizer_clear_gradients(u->o);
    return XCVM_OK;
}

/* Steps that no program supports are refused with a reason, and the schedule stays. */
START_TEST(a11_12_steps_that_are_not_saved)
{
    static const char *const reasons[] = {"the gradient of \"w\" is kept by rows", "or several steps",
                                          "\"v\" has had 2 steps, others 3", "the optimizer updates nothing"};
    xcvm_tape *t = open_tape();
    xcvm_error error = {0};
    unsaved u = {.w = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(5, 2), NULL), .v = parameter(t, 1)};
    u.steps = _i == 1 ? 2 : 1;
    ck_assert_int_eq(xcvm_var_set_sparse_gradient(t, u.w, _i == 0, &error), XCVM_OK);
    must(xcvm_optimizer_create(t, "sgd:lr=0.1", NULL, &u.o, &error), &error);
    must(xcvm_optimizer_add(u.o, "w", u.w, &error), &error);
    must(xcvm_optimizer_add(u.o, "v", u.v, &error), &error);
    must(xcvm_optimizer_set_updated(u.o, u.v, _i < 2, &error), &error);
    must(xcvm_optimizer_set_updated(u.o, u.w, _i < 3, &error), &error);
    xcvm_static *s = make_static(t, (xcvm_static_function){run_unsaved, &u}, NULL);
    call1(s, words_of(t, 0));
    must(xcvm_optimizer_set_updated(u.o, u.v, _i < 3, &error), &error);
    call1(s, words_of(t, 1));
    call1(s, words_of(t, 2));
    test_bytes bytes = {NULL, 0, 0};
    ck_assert_int_eq(xcvm_static_save(s, NULL, (xcvm_sink){test_bytes_sink, &bytes}, &error), XCVM_UNSUPPORTED);
    ck_assert_msg(strstr(error.message, reasons[_i]) != NULL, "%s", error.message);
    call1(s, words_of(t, 3));
    ck_assert_uint_eq(figures(s).replayed, 3);
    test_bytes_free(&bytes);
    xcvm_static_destroy(s);
    xcvm_optimizer_destroy(u.o);
    close_tape(t);
}
END_TEST

/* A call adds to earlier gradients, as the function would; such a call runs define-by-run. */
START_TEST(gradients_from_before)
{
    xcvm_tape *t[2] = {open_tape(), open_tape()};
    learning l[2];
    for (int k = 0; k < 2; k++)
        l[k] = make_learning(t[k], "sgd:lr=0.1");
    xcvm_static *s = make_static(t[0], (xcvm_static_function){run_step, &l[0]}, NULL);
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < 2; k++) {
            const xcvm_var w = xcvm_layer_get_parameter(l[k].net, "second/W"), x = words_of(t[k], i);
            xcvm_var loss;
            if (i == 3)
                backward(t[k], xcvm_ReduceSum(t[k], xcvm_Mul(t[k], w, w), .keepdims = 0));
            if (k == 0)
                xcvm_static_call(s, 1, &x, 1, &loss);
            else
                ck_assert_int_eq(run_step(&l[1], t[1], 1, &x, 1, &loss), XCVM_OK);
        }
        check_learned(t[0], &l[0], t[1], &l[1], 1e-4);
    }
    ck_assert_int_eq(l[0].runs, 2);
    xcvm_static_destroy(s);
    close_learning(t[0], &l[0]);
    close_learning(t[1], &l[1]);
}
END_TEST

/* In checking mode the function takes the steps itself. */
START_TEST(d5_steps_that_are_checked)
{
    xcvm_tape *t = open_tape();
    learning l = make_learning(t, "sgd:lr=0.1");
    messages log = {.count = 0};
    const xcvm_static_options options = {.size = sizeof options, .log = {take_message, &log}};
    xcvm_static *s = make_static(t, (xcvm_static_function){run_step, &l}, &options);
    xcvm_optimizer *other = NULL, *first = l.o;
    xcvm_error error = {0};
    xcvm_static_set_checking(s, true);
    for (int i = 0; i < 3; i++)
        call1(s, words_of(t, i));
    ck_assert_uint_eq(figures(s).different, 0);
    must(xcvm_optimizer_create(t, "adam:lr=0.1", NULL, &other, &error), &error);
    must(xcvm_optimizer_add_layer(other, l.net, &error), &error);
    l.o = other;
    call1(s, words_of(t, 0));
    ck_assert_msg(strstr(log.text, "not static: it has another effect") != NULL, "%s", log.text);
    l.o = first;
    xcvm_static_destroy(s);
    xcvm_optimizer_destroy(other);
    close_learning(t, &l);
}
END_TEST

/* ---- Out of memory ---- */

/* All kinds of calls, or a saved one. */
static xcvm_status learn_or_save(xcvm_tape *t, bool saves, xcvm_error *error)
{
    const xcvm_layer_options words = {.size = sizeof words, .weight = {.seed = 3}, .dense = saves};
    const xcvm_optimizer_options how = {.size = sizeof how, .clip_norm = 1, .average = saves ? 0.5 : 0};
    learning l = {.net = xcvm_layer_create_chain(t)};
    xcvm_static *s = NULL;
    l.words = xcvm_layer_add(l.net, "words", xcvm_layer_create_embedding(t, 5, 3, &words));
    l.first = xcvm_layer_add(l.net, "first", xcvm_layer_create_gru(t, 3, 2, &with_seed));
    l.second = xcvm_layer_add(l.net, "second", xcvm_layer_create_batch_normalization(t, 2, NULL));
    xcvm_status status = xcvm_tape_status(t, error);
    if (status == XCVM_OK)
        status = xcvm_optimizer_create(t, "sgd:lr=0.1,momentum=0.9", &how, &l.o, error);
    if (status == XCVM_OK)
        status = xcvm_optimizer_add_layer(l.o, l.net, error);
    if (status == XCVM_OK)
        status = xcvm_static_create(t, (xcvm_static_function){run_step, &l}, NULL, &s, error);
    for (int64_t i = 0; i < (saves ? 1 : 3) && status == XCVM_OK; i++) {
        xcvm_layer_reset(l.net);
        call1(s, words_of(t, i));
        status = xcvm_tape_status(t, error);
        xcvm_tape_reset(t);
    }
    test_bytes bytes = {NULL, 0, 0};
    if (status == XCVM_OK && saves)
        status = xcvm_static_save(s, NULL, (xcvm_sink){test_bytes_sink, &bytes}, error);
    test_bytes_free(&bytes);
    xcvm_static_destroy(s);
    xcvm_optimizer_destroy(l.o);
    xcvm_layer_destroy(l.net);
    xcvm_tape_reset(t);
    (void)xcvm_tape_status(t, NULL);
    return status;
}

static xcvm_status learn(xcvm_tape *t, xcvm_error *error) { return learn_or_save(t, false, error); }
static xcvm_status save(xcvm_tape *t, xcvm_error *error) { return learn_or_save(t, true, error); }

START_TEST(out_of_memory_anywhere)
{
    /* Constant folding is optional. */
    starve(&(starvation){.work = _i == 0 ? learn : save, .may_succeed = true, .every = 100, .least = 30});
}
END_TEST

Suite *suite_tape_static_steps(void);
Suite *suite_tape_static_steps(void)
{
    Suite *suite = SUITE_OF("tape_static_steps", gradients_from_before, d5_steps_that_are_checked);
    TCase *tcase = tcase_create("each");
    tcase_add_loop_test(tcase, a11_12_step_of_an_optimizer, 0, 3);
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, out_of_memory_anywhere, 0, 2);
    tcase_add_loop_test(tcase, a11_12_saved_steps, 0, 3);
    tcase_add_loop_test(tcase, a11_12_steps_that_are_not_saved, 0, 4);
    suite_add_tcase(suite, tcase);
    return suite;
}

/* Tests of gradients that are products of few terms: optimizers in static functions receive their factors. An eager
 * tape gives the expected values. */
#include "tests/tape/static_layers.h"

enum { IN = 37, HIDDEN = 19, OUT = 3, STEPS = 8 };

typedef struct learning {
    xcvm_layer *net, *first, *second;
    xcvm_optimizer *o;
    int runs;
    bool clears;
} learning;

static learning make_learning(xcvm_tape *t, const char *optimizer, const xcvm_optimizer_options *options)
{
    xcvm_error error = {0};
    learning l = {.net = xcvm_layer_create_chain(t), .clears = true};
    l.first = xcvm_layer_add(l.net, "first", xcvm_layer_create_linear(t, IN, HIDDEN, &with_seed));
    l.second = xcvm_layer_add(l.net, "second", xcvm_layer_create_linear(t, HIDDEN, OUT, &with_seed));
    must(xcvm_optimizer_create(t, optimizer, options, &l.o, &error), &error);
    must(xcvm_optimizer_add_layer(l.o, l.net, &error), &error);
    return l;
}

static xcvm_status run_step(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                            xcvm_var *out)
{
    learning *l = user;
    xcvm_error error = {0};
    (void)in_count;
    (void)out_count;
    l->runs++;
    const xcvm_var h = xcvm_Relu(t, xcvm_layer_call(l->first, in[0])), y = xcvm_layer_call(l->second, h);
    out[0] = xcvm_ReduceMean(t, xcvm_Mul(t, y, y), .keepdims = 0);
    if (l->clears)
        xcvm_optimizer_clear_gradients(l->o);
    must(xcvm_tape_backward(t, out[0], NULL, &error), &error);
    return xcvm_optimizer_step(l->o, &error);
}

static xcvm_var make_rows(xcvm_tape *t, int64_t rows, int step)
{
    float x[4 * IN];
    for (int i = 0; i < (int)rows * IN; i++)
        x[i] = i % 5 == 0 ? 0 : sinf((float)(i * 7 + step * 3));
    return xcvm_tape_constant(t, XCVM_F32, 2, DIMS(rows, IN), x);
}

static const char *const paths[] = {"first/W", "first/b", "second/W", "second/b"};

/* Checks that parameters, and remaining gradients, are equal. */
static void check_same(xcvm_tape *const t[2], const learning l[2], bool gradients)
{
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const xcvm_var a = xcvm_layer_get_parameter(l[0].net, paths[i]),
                       b = xcvm_layer_get_parameter(l[1].net, paths[i]);
        check_bytes(t[0], a, t[1], b, 1e-6);
        if (gradients)
            check_bytes(t[0], xcvm_var_get_gradient(t[0], a), t[1], xcvm_var_get_gradient(t[1], b), 1e-6);
    }
}

typedef struct setting {
    const char *optimizer;
    double clip_norm, clip_value, average;
    int64_t rows;
    bool whole; /* norms need complete gradients */
} setting;

static const setting settings[] = {{"sgd:lr=0.1", 0, 0, 0, 1, false},
                                   {"sgd:lr=0.1,momentum=0.9", 0, 0, 0, 1, false},
                                   {"adam:lr=0.05", 0, 0, 0.5, 1, false},
                                   {"lars:lr=0.1", 0, 0, 0, 1, true},
                                   {"sgd:lr=0.1", 0.01, 0, 0, 1, true},
                                   {"sgd:lr=0.1", 0, 0.001, 0, 1, false},
                                   {"sgd:lr=0.1", 0, 0, 0, 3, false},
                                   {"adamw:lr=0.05,weight_decay=0.1", 0, 0, 0, 4, false},
                                   {"sgd:lr=0.1,weight_decay=0.1", 0, 0, 0, 1, false}};

typedef struct pair {
    xcvm_tape *t[2];
    learning l[2];
    xcvm_static *s;
} pair;

/* The static function receives the address of its parameters. */
static void open_pair(pair *p, const setting *x)
{
    const xcvm_optimizer_options options = {
        .size = sizeof options, .clip_norm = x->clip_norm, .clip_value = x->clip_value, .average = x->average};
    *p = (pair){.t = {open_tape(), open_tape()}};
    for (int k = 0; k < 2; k++)
        p->l[k] = make_learning(p->t[k], x->optimizer, &options);
    p->s = make_static(p->t[0], (xcvm_static_function){run_step, &p->l[0]}, NULL);
}

static void step_both(pair *p, int64_t rows, int step)
{
    for (int k = 0; k < 2; k++) {
        const xcvm_var x = make_rows(p->t[k], rows, step);
        xcvm_var loss;
        if (k == 0)
            xcvm_static_call(p->s, 1, &x, 1, &loss);
        else
            ck_assert_int_eq(run_step(&p->l[1], p->t[1], 1, &x, 1, &loss), XCVM_OK);
    }
}

static void close_pair(pair *p)
{
    xcvm_static_destroy(p->s);
    for (int k = 0; k < 2; k++) {
        xcvm_optimizer_destroy(p->l[k].o);
        xcvm_layer_destroy(p->l[k].net);
        close_tape(p->t[k]);
    }
}

static xcvm_tape_memory_info memory_of(xcvm_tape *t)
{
    xcvm_tape_memory_info memory = {.size = sizeof memory};
    xcvm_error error = {0};
    must(xcvm_tape_get_memory_info(t, &memory, &error), &error);
    return memory;
}

/* Until they are read, all remaining gradients take less memory than that of one weight. */
static void check_left(xcvm_tape *t, bool whole)
{
    ck_assert_int_eq(memory_of(t).gradients < IN * HIDDEN * sizeof(float), !whole);
}

START_TEST(steps)
{
    const setting *x = &settings[_i];
    pair p;
    open_pair(&p, x);
    for (int i = 0; i < STEPS; i++) {
        step_both(&p, x->rows, i);
        if (i > 0)
            check_left(p.t[0], x->whole);
        check_same(p.t, p.l, i % 2 == 1); /* in some steps nobody reads gradients */
        for (int k = 0; k < 2; k++)
            xcvm_tape_reset(p.t[k]);
    }
    ck_assert_int_eq(p.l[0].runs, 1);
    ck_assert_uint_eq(figures(p.s).replayed, STEPS - 1);
    close_pair(&p);
}
END_TEST

static double decay = 0.01;

/* Factors are multiplied for later hooks, for an addition, and when a recording finds the gradient. */
START_TEST(readers)
{
    pair p;
    open_pair(&p, &settings[1]);
    xcvm_error error = {0};
    for (int i = 0; i < STEPS; i++) {
        step_both(&p, i == 6 ? 2 : 1, i); /* two rows: recorded again */
        for (int k = 0; k < 2; k++) {
            const xcvm_var w = xcvm_layer_get_parameter(p.l[k].net, "first/W");
            if (i == 3)
                must(xcvm_optimizer_add_hook(p.l[k].o, (xcvm_update_hook){xcvm_hook_weight_decay, &decay}, &error),
                     &error);
            if (i == 4) {
                backward(p.t[k], xcvm_ReduceSum(p.t[k], xcvm_Mul(p.t[k], w, w), .keepdims = 0));
                must(xcvm_optimizer_step(p.l[k].o, &error), &error);
            }
        }
        check_same(p.t, p.l, i == 4 || i == 7);
    }
    ck_assert_int_eq(p.l[0].runs, 2);
    close_pair(&p);
}
END_TEST

/* A remaining gradient serves a step of the host, which reads the factors too. */
START_TEST(steps_of_the_host)
{
    pair p;
    open_pair(&p, &settings[2]);
    xcvm_error error = {0};
    for (int i = 0; i < STEPS; i++) {
        step_both(&p, 1, i);
        for (int k = 0; k < 2; k++)
            must(xcvm_optimizer_step(p.l[k].o, &error), &error);
        check_same(p.t, p.l, false);
    }
    close_pair(&p);
}
END_TEST

/* Without clearing, gradients of all steps accumulate, and the function runs define-by-run until they exist. */
START_TEST(gradients_that_add_up)
{
    pair p;
    open_pair(&p, &settings[0]);
    p.l[0].clears = p.l[1].clears = false;
    for (int i = 0; i < STEPS; i++) {
        step_both(&p, 1, i);
        check_same(p.t, p.l, i % 3 == 2);
    }
    close_pair(&p);
}
END_TEST

/* In eager calls the gradient owns its factors: the host may set the operands before it reads the gradient. */
START_TEST(inputs_that_change)
{
    xcvm_tape *t = open_tape();
    xcvm_error error = {0};
    float zeros[IN] = {0}, x[IN], g[HIDDEN];
    for (int i = 0; i < IN; i++)
        x[i] = (float)(i + 1);
    for (int i = 0; i < HIDDEN; i++)
        g[i] = (float)(2 - i);
    const xcvm_var w = xcvm_tape_parameter(t, XCVM_F32, 2, DIMS(IN, HIDDEN), NULL),
                   in = xcvm_var_keep(t, xcvm_tape_constant(t, XCVM_F32, 2, DIMS(1, IN), x)),
                   by = xcvm_tape_constant(t, XCVM_F32, 2, DIMS(1, HIDDEN), g);
    backward(t, xcvm_ReduceSum(t, xcvm_Mul(t, xcvm_MatMul(t, in, w), by), .keepdims = 0));
    must(xcvm_var_set_data(t, in, zeros, sizeof zeros, &error), &error);
    xcvm_tape_reset(t);
    const float *gradient = xcvm_value_data(value_of(t, xcvm_var_get_gradient(t, w)));
    for (int i = 0; i < IN; i++)
        for (int j = 0; j < HIDDEN; j++)
            ck_assert_float_eq(gradient[i * HIDDEN + j], x[i] * g[j]);
    close_tape(t);
}
END_TEST

/* ---- Memory ---- */

enum { WIDE_IN = 200, WIDE_OUT = 150, MOST_ROWS = 5 };

typedef struct wide {
    xcvm_dtype dtype;
    int64_t rows;
    bool factors; /* the gradient stays factored */
} wide;

static const wide wides[] = {{XCVM_F32, 1, true}, {XCVM_F32, 3, true}, {XCVM_F32, 4, true}, {XCVM_F32, 5, false},
                             {XCVM_F64, 1, true}, {XCVM_F64, 3, true}, {XCVM_F64, 4, true}, {XCVM_F64, 5, false}};

/* Checks the memory of elements, with the heap's overhead per storage. */
static void check_near(size_t bytes, size_t elements)
{
    ck_assert_uint_ge(bytes, elements);
    ck_assert_uint_lt(bytes, elements + elements / 8);
}

static void check_held(xcvm_tape *t, size_t parameters, size_t gradients)
{
    const xcvm_tape_memory_info memory = memory_of(t);
    check_near(memory.parameters, parameters);
    check_near(memory.gradients, gradients);
    ck_assert_uint_eq(memory.values, 0);
    ck_assert_uint_lt(memory.scratch, parameters / 2); /* where there is no gradient, too */
}

static float number_of(int i, int j) { return sinf((float)(i * 7 + j * 3 + 1)); }

static xcvm_var wide_rows(xcvm_tape *t, const wide *k, int columns, int shift)
{
    float rows[MOST_ROWS * WIDE_IN];
    for (int i = 0; i < (int)k->rows * columns; i++)
        rows[i] = number_of(i, shift);
    return xcvm_Cast(t, xcvm_tape_constant(t, XCVM_F32, 2, DIMS(k->rows, columns), rows), .to = k->dtype);
}

/* The elements of *v are `factor` times those of the gradient. */
static void check_wide(xcvm_tape *t, const wide *k, xcvm_var v, double factor)
{
    const double tolerance = k->dtype == XCVM_F64 ? 1e-14 : 1e-6;
    const xcvm_value *value = value_of(t, v);
    for (int i = 0; i < WIDE_IN; i++)
        for (int j = 0; j < WIDE_OUT; j++) {
            double sum = 0;
            for (int r = 0; r < (int)k->rows; r++)
                sum += (double)number_of(r * WIDE_IN + i, 0) * (double)number_of(r * WIDE_OUT + j, 1);
            ck_assert_double_eq_tol(xcvm_element_as_double(value, (size_t)(i * WIDE_OUT + j)), factor * sum,
                                    tolerance * (1 + fabs(sum)));
        }
}

/* In eager calls, too, a gradient of few terms needs only the memory of its factors, through steps, until it is
 * read. */
START_TEST(memory_when_it_is_asked_for)
{
    const wide *k = &wides[_i];
    xcvm_tape *t = open_tape();
    xcvm_optimizer *o;
    xcvm_error error = {0};
    const size_t size = k->dtype == XCVM_F64 ? sizeof(double) : sizeof(float);
    const size_t weight = WIDE_IN * WIDE_OUT * size, factors = (size_t)k->rows * (WIDE_IN + WIDE_OUT) * size;
    const xcvm_var w = xcvm_tape_parameter(t, k->dtype, 2, DIMS(WIDE_IN, WIDE_OUT), NULL);
    must(xcvm_optimizer_create(t, "sgd:lr=0.5", NULL, &o, &error), &error);
    must(xcvm_optimizer_add(o, "w", w, &error), &error);
    const xcvm_var y = xcvm_MatMul(t, wide_rows(t, k, WIDE_IN, 0), w);
    backward(t, xcvm_ReduceSum(t, xcvm_Mul(t, y, wide_rows(t, k, WIDE_OUT, 1)), .keepdims = 0));
    xcvm_tape_reset(t);
    check_held(t, weight, k->factors ? factors : weight);
    must(xcvm_optimizer_step(o, &error), &error);
    check_wide(t, k, w, -0.5);
    check_held(t, weight, k->factors ? factors : weight);
    const xcvm_var gradient = xcvm_var_get_gradient(t, w);
    check_held(t, weight, weight);
    check_wide(t, k, gradient, 1);
    xcvm_optimizer_destroy(o);
    close_tape(t);
}
END_TEST

Suite *suite_tape_static_factors(void);
Suite *suite_tape_static_factors(void)
{
    Suite *suite = suite_create("tape/static_factors");
    TCase *tests = tcase_create("factors");
    tcase_add_loop_test(tests, steps, 0, (int)(sizeof settings / sizeof *settings));
    tcase_add_test(tests, readers);
    tcase_add_test(tests, steps_of_the_host);
    tcase_add_test(tests, gradients_that_add_up);
    tcase_add_test(tests, inputs_that_change);
    tcase_add_loop_test(tests, memory_when_it_is_asked_for, 0, (int)(sizeof wides / sizeof *wides));
    suite_add_tcase(suite, tests);
    return suite;
}

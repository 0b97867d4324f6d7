/* Tests of the pass fuse_sgd: states that are stored as themselves, less a rate times a gradient. */
#include "tests/compiler/support.h"

enum { ROWS = 5, COLUMNS = 37 };

static xcc_value *state(xcc_builder *b, const char *name, int rank, const int64_t *dims)
{
    const xcc_value *initial = weights(b, rank, dims);
    return must(b, xcc_state(b->graph, name, XCVM_F32, rank, dims, initial->type.data, false));
}

/* `from` minus a rate times a gradient. */
static xcc_value *descent(xcc_builder *b, xcc_value *from, xcc_value *rate, xcc_value *gradient)
{
    xcc_value *step = must(b, xcc_apply(b, Mul, y, .a = XCC_IN(gradient), .b = XCC_IN(rate)));
    return must(b, xcc_apply(b, Sub, y, .a = XCC_IN(from), .b = XCC_IN(step)));
}

static xcc_value *product(xcc_builder *b, xcc_value *x, xcc_value *g)
{
    return must(b, xcc_apply(b, Gemm, y, .a = XCC_IN(x), .b = XCC_IN(g), .alpha = 1, .beta = 1, .transA = 1));
}

/* A layer's weights and bias, an input with a number of rows, the gradient of the layer's result, and the rate. */
typedef struct layer {
    xcc_value *w, *bias, *x, *g, *rate;
} layer;

static layer begin_layer(compilation *c, int optimization, int64_t terms)
{
    begin(c, optimization);
    xcc_builder *b = &c->b;
    return (layer){state(b, "w", 2, DIMS(ROWS, COLUMNS)), state(b, "bias", 1, DIMS(COLUMNS)),
                   input(b, "x", XCVM_F32, 2, DIMS(terms, ROWS)), input(b, "g", XCVM_F32, 2, DIMS(terms, COLUMNS)),
                   input(b, "rate", XCVM_F32, 0, NULL)};
}

static void fill(compiled_program *k)
{
    const float rate = 0.5f;
    compiled_fill_input(k, 0, 1);
    compiled_fill_input(k, 1, 2);
    compiled_set_input(k, 2, XCVM_F32, 0, NULL, &rate);
}

/* y = x * w + bias, and a step of both. */
static void make_step(compilation *c, int optimization, int64_t terms)
{
    layer l = begin_layer(c, optimization, terms);
    xcc_builder *b = &c->b;
    output(b, must(b, xcc_apply(b, Gemm, y, .a = XCC_IN(l.x), .b = XCC_IN(l.w), .c = XCC_IN(l.bias), .alpha = 1,
                                .beta = 1)));
    xcc_value *sum = must(b, xcc_apply(b, ReduceSum, y, .x = XCC_IN(l.g), .axes = XCC_IN(ints(b, 1, DIMS(0)))));
    ok(&c->m, xcc_graph_store(c->m.graph, l.w, descent(b, l.w, l.rate, product(b, l.x, l.g))));
    ok(&c->m, xcc_graph_store(c->m.graph, l.bias, descent(b, l.bias, l.rate, sum)));
    passes(c);
}

/* Both are updated in place, the weights directly by the product. Results equal those of stored states. */
static void check_step(int64_t terms, size_t instructions)
{
    compilation c, plain;
    compiled_program k, expected;
    make_step(&c, 0, terms);
    make_step(&plain, -1, terms);
    CHECK_COUNT(&c, SGD, instructions);
    CHECK_COUNT(&c, Gemm, instructions == 1 ? 2 : 1);
    CHECK_COUNT(&c, Sub, 0);
    CHECK_COUNT(&plain, Sub, 2);
    compiled_open(&k, &c);
    compiled_open(&expected, &plain);
    fill(&k);
    fill(&expected);
    compiled_run(&k);
    const void *at = xcvm_value_data(xcvm_session_get_state(k.session, 0));
    compiled_run(&k);
    ck_assert_ptr_eq(xcvm_value_data(xcvm_session_get_state(k.session, 0)), at);
    compiled_run(&expected);
    compiled_run(&expected);
    for (size_t i = 0; i < 2; i++)
        expect_equal(xcvm_session_get_state(k.session, i), xcvm_session_get_state(expected.session, i));
    expect_equal(xcvm_session_get_output(k.session, 0), xcvm_session_get_output(expected.session, 0));
    compiled_close(&k);
    compiled_close(&expected);
    finish(&c);
    finish(&plain);
}

START_TEST(one_example) { check_step(1, 2); }
END_TEST

START_TEST(some_examples) { check_step(3, 2); }
END_TEST

/* The product of many examples is made by an instruction that is better at it. */
START_TEST(many_examples) { check_step(40, 1); }
END_TEST

static void run_once(compilation *c, compiled_program *k)
{
    passes(c);
    compiled_open(k, c);
    fill(k);
    compiled_run(k);
}

/* A gradient that something else needs, too, is made, and its state updated all the same. */
START_TEST(a_gradient_that_is_seen)
{
    compilation c;
    compiled_program k;
    layer l = begin_layer(&c, 0, 1);
    xcc_value *gradient = product(&c.b, l.x, l.g);
    output(&c.b, gradient);
    ok(&c.m, xcc_graph_store(c.m.graph, l.w, descent(&c.b, l.w, l.rate, gradient)));
    run_once(&c, &k);
    CHECK_COUNT(&c, SGD, 1);
    const float *w = xcvm_value_data(xcvm_session_get_state(k.session, 0)),
                *g = xcvm_value_data(xcvm_session_get_output(k.session, 0));
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        ck_assert_float_eq_tol(w[i], sinf((float)(i * 7 + 3)) - 0.5f * g[i], 1e-6f);
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* Values that are no step, or have readers besides the state, are stored. */
START_TEST(stored)
{
    compilation c;
    compiled_program k;
    layer l = begin_layer(&c, 0, 1);
    xcc_value *next = descent(&c.b, l.w, l.rate, product(&c.b, l.x, l.g));
    xcc_value *negative = must(&c.b, xcc_apply(&c.b, Neg, y, .x = XCC_IN(l.bias)));
    output(&c.b, must(&c.b, xcc_apply(&c.b, Neg, y, .x = XCC_IN(next))));
    ok(&c.m, xcc_graph_store(c.m.graph, l.w, next));
    ok(&c.m, xcc_graph_store(c.m.graph, l.bias, descent(&c.b, negative, l.rate, l.bias)));
    run_once(&c, &k);
    CHECK_COUNT(&c, SGD, 0);
    const float *w = xcvm_value_data(xcvm_session_get_state(k.session, 0)),
                *y = xcvm_value_data(xcvm_session_get_output(k.session, 0));
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        ck_assert_float_eq(w[i], -y[i]);
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* Each state is updated with its own rate. An update whose gradient is a state reads its old value. */
START_TEST(two_rates)
{
    compilation c;
    compiled_program k;
    layer l = begin_layer(&c, 0, 1);
    ok(&c.m, xcc_graph_store(c.m.graph, l.w, descent(&c.b, l.w, l.rate, product(&c.b, l.x, l.g))));
    ok(&c.m, xcc_graph_store(c.m.graph, l.bias, descent(&c.b, l.bias, number(&c.b, 0.25), l.bias)));
    run_once(&c, &k);
    CHECK_COUNT(&c, SGD, 2);
    const float *bias = xcvm_value_data(xcvm_session_get_state(k.session, 1));
    for (size_t i = 0; i < COLUMNS; i++)
        ck_assert_float_eq_tol(bias[i], 0.75f * sinf((float)(i * 7 + 3)), 1e-6f);
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* Outputs and other updates read the value of a state before the step. */
START_TEST(read_before)
{
    compilation c;
    compiled_program k;
    layer l = begin_layer(&c, 0, 1);
    xcc_value *other = state(&c.b, "other", 2, DIMS(ROWS, COLUMNS));
    output(&c.b, l.w);
    output(&c.b, must(&c.b, xcc_apply(&c.b, Reshape, y, .x = XCC_IN(l.w), .shape = XCC_IN(ints(&c.b, 1, DIMS(-1))))));
    ok(&c.m, xcc_graph_store(c.m.graph, l.w, descent(&c.b, l.w, l.rate, other)));
    ok(&c.m, xcc_graph_store(c.m.graph, other, descent(&c.b, other, l.rate, l.w)));
    run_once(&c, &k);
    CHECK_COUNT(&c, SGD, 1);
    const float *w = xcvm_value_data(xcvm_session_get_state(k.session, 0)),
                *o = xcvm_value_data(xcvm_session_get_state(k.session, 1)),
                *y = xcvm_value_data(xcvm_session_get_output(k.session, 0)),
                *z = xcvm_value_data(xcvm_session_get_output(k.session, 1));
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        const float before = sinf((float)(i * 7 + 3));
        ck_assert_float_eq_tol(w[i], 0.5f * before, 1e-6f);
        ck_assert_float_eq_tol(o[i], 0.5f * before, 1e-6f);
        ck_assert_float_eq_tol(y[i], before, 1e-6f);
        ck_assert_float_eq_tol(z[i], before, 1e-6f);
    }
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* A run that fails, or stops before the update, leaves the weights unchanged, bit by bit. */
START_TEST(failures)
{
    compilation c;
    compiled_program k;
    float before[ROWS * COLUMNS];
    xcvm_error error = {0};
    const int64_t beyond = 7, within = 0;
    layer l = begin_layer(&c, 0, 1);
    xcc_value *index = input(&c.b, "index", XCVM_I64, 0, NULL);
    ok(&c.m, xcc_graph_store(c.m.graph, l.w, descent(&c.b, l.w, l.rate, product(&c.b, l.x, l.g))));
    output(&c.b, must(&c.b, xcc_apply(&c.b, Gather, y, .x = XCC_IN(l.g), .indices = XCC_IN(index), .axis = 0)));
    passes(&c);
    CHECK_COUNT(&c, SGD, 1);
    CHECK_COUNT(&c, Gemm, 0);
    compiled_open(&k, &c);
    fill(&k);
    compiled_set_input(&k, 3, XCVM_I64, 0, NULL, &beyond);
    memcpy(before, xcvm_value_data(xcvm_session_get_state(k.session, 0)), sizeof before);
    ck_assert_int_eq(xcvm_session_run(k.session, NULL, &error), XCVM_OUT_OF_RANGE);
    ck_assert_mem_eq(before, xcvm_value_data(xcvm_session_get_state(k.session, 0)), sizeof before);
    const xcvm_run_options little = {.size = sizeof little, .fuel = 5};
    compiled_set_input(&k, 3, XCVM_I64, 0, NULL, &within);
    ck_assert_int_eq(xcvm_session_run(k.session, &little, &error), XCVM_OUT_OF_TIME);
    ck_assert_mem_eq(before, xcvm_value_data(xcvm_session_get_state(k.session, 0)), sizeof before);
    compiled_run(&k);
    ck_assert_mem_ne(before, xcvm_value_data(xcvm_session_get_state(k.session, 0)), sizeof before);
    compiled_close(&k);
    finish(&c);
}
END_TEST

Suite *suite_compiler_fuse_sgd(void);
Suite *suite_compiler_fuse_sgd(void)
{
    Suite *suite = suite_create("compiler/fuse_sgd");
    TCase *tests = tcase_create("fuse_sgd");
    tcase_add_test(tests, one_example);
    tcase_add_test(tests, some_examples);
    tcase_add_test(tests, many_examples);
    tcase_add_test(tests, a_gradient_that_is_seen);
    tcase_add_test(tests, stored);
    tcase_add_test(tests, two_rates);
    tcase_add_test(tests, read_before);
    tcase_add_test(tests, failures);
    suite_add_tcase(suite, tests);
    return suite;
}

/* Tests of the pass factor_gradients: gradients that are products of few terms, which optimizers take as their factors.
 */
#include "compiler/ir/compose.h"
#include "tests/compiler/support.h"

enum { ROWS = 5, COLUMNS = 37, MOST = 4, LISTS = 4 };

/* A parameter with its gradient and moments, in the order of an optimizer's lists, and the factors of the gradient. */
typedef struct trainable {
    xcc_value *gradient, *parameter, *mean, *square;
    xcc_value *x, *g;
} trainable;

static xcc_value *state(xcc_builder *b, char kind, int number, xcvm_dtype dtype)
{
    const char name[] = {kind, (char)('0' + number), '\0'};
    static const float initial[ROWS * COLUMNS] = {1, 2, 3};
    return must(b, xcc_state(b->graph, name, dtype, 2, DIMS(ROWS, COLUMNS), dtype == XCVM_F32 ? initial : NULL, false));
}

/* The gradient is a product of this many terms, one per example; below 0: the run determines the number. */
static trainable make_trainable(xcc_builder *b, int number, int64_t terms, xcvm_dtype parameter, xcvm_dtype gradient)
{
    const char x[] = {'x', (char)('0' + number), '\0'}, g[] = {'g', (char)('0' + number), '\0'};
    trainable l = {.parameter = state(b, 'w', number, parameter),
                   .mean = state(b, 'm', number, XCVM_F32),
                   .square = state(b, 'v', number, XCVM_F32),
                   .x = input(b, x, gradient, 2, DIMS(terms, ROWS)),
                   .g = input(b, g, gradient, 2, DIMS(terms, COLUMNS))};
    l.gradient = must(b, xcc_apply(b, Gemm, y, .a = XCC_IN(l.x), .b = XCC_IN(l.g), .alpha = 1, .beta = 1, .transA = 1));
    return l;
}

/* One instruction that updates all of them. */
static void update(xcc_builder *b, size_t count, const trainable *trainables, xcc_value *scale)
{
    xcc_module *m = b->graph->module;
    const xcvm_value **lists[LISTS];
    for (size_t k = 0; k < LISTS; k++) {
        lists[k] = xcc_alloc(m, count * sizeof *lists[k]);
        ck_assert_ptr_nonnull(lists[k]);
    }
    for (size_t i = 0; i < count; i++) {
        const trainable *l = &trainables[i];
        const xcc_value *const all[] = {l->gradient, l->parameter, l->mean, l->square};
        for (size_t k = 0; k < LISTS; k++)
            lists[k][i] = XCC_IN(all[k]);
    }
    ck_assert_ptr_nonnull(xcc_emit(b, Adam, .gradients = {lists[0], count}, .rate = XCC_IN(number(b, 0.25)),
                                   .step = XCC_IN(must(b, xcc_scalar_i64(b->graph, 3))),
                                   .scale = scale != NULL ? XCC_IN(scale) : NULL, .parameters = {lists[1], count},
                                   .exp_avg = {lists[2], count}, .exp_avg_sq = {lists[3], count}, .beta1 = 0.5,
                                   .beta2 = 0.75, .eps = 0.5));
}

/* The arguments of the update of that number in the graph. */
static const xcvm_Adam_args *update_at(const compilation *c, size_t number)
{
    for (const xcc_node *n = c->m.graph->first; n != NULL; n = n->next)
        if (xcc_is(n, XCVM_OP_Adam) && number-- == 0)
            return XCC_ARGS(Adam, n);
    ck_abort_msg("there are too few updates");
}

static void check_list(const xcvm_inputs *list, size_t count, const xcc_value *const *expected)
{
    ck_assert_uint_eq(list->count, count);
    for (size_t i = 0; i < count; i++)
        ck_assert_ptr_eq(xcc_value_of(list->at[i]), expected[i]);
}

/* Checks an update of `count` trainable parameters with their moments, by factors or whole gradients. */
static void check_update(const xcvm_Adam_args *a, size_t count, const trainable *const *l, bool factors)
{
    const xcc_value *expected[LISTS][2 * MOST];
    size_t next = 0;
    for (size_t i = 0; i < count; i++) {
        if (factors) {
            expected[0][next++] = l[i]->x;
            expected[0][next++] = l[i]->g;
        } else {
            expected[0][next++] = l[i]->gradient;
        }
        expected[1][i] = l[i]->parameter;
        expected[2][i] = l[i]->mean;
        expected[3][i] = l[i]->square;
    }
    check_list(&a->gradients, next, expected[0]);
    check_list(&a->parameters, count, expected[1]);
    check_list(&a->exp_avg, count, expected[2]);
    check_list(&a->exp_avg_sq, count, expected[3]);
    ck_assert_double_eq(a->beta1, 0.5);
    ck_assert_double_eq(a->beta2, 0.75);
    ck_assert_ptr_nonnull(a->step);
}

/* Makes `count` trainable parameters, each with a gradient of that many terms, and one instruction that updates them.
 */
static void make(compilation *c, int optimization, size_t count, const int64_t *terms, trainable *l)
{
    begin(c, optimization);
    for (size_t i = 0; i < count; i++)
        l[i] = make_trainable(&c->b, (int)i, terms[i], XCVM_F32, XCVM_F32);
    update(&c->b, count, l, NULL);
}

static void run_twice(compilation *c, compiled_program *k)
{
    compiled_open(k, c);
    for (size_t i = 0; i < xcvm_program_input_count(k->program); i++)
        compiled_fill_input(k, i, (unsigned)i + 1);
    compiled_run(k);
    compiled_run(k);
}

/* States after two steps equal those of the same updates without optimization. */
static void check_states(compilation *c, size_t count, const int64_t *terms)
{
    compilation plain;
    trainable l[MOST];
    compiled_program k, expected;
    make(&plain, -1, count, terms, l);
    passes(&plain);
    CHECK_COUNT(&plain, Adam, 1);
    CHECK_COUNT(&plain, Gemm, count);
    run_twice(c, &k);
    run_twice(&plain, &expected);
    for (size_t i = 0; i < 3 * count; i++)
        expect_equal(xcvm_session_get_state(k.session, i), xcvm_session_get_state(expected.session, i));
    compiled_close(&k);
    compiled_close(&expected);
    finish(&plain);
}

START_TEST(moments)
{
    compilation c;
    trainable l[1];
    const int64_t terms[] = {XCC_FEW_TERMS};
    make(&c, 0, 1, terms, l);
    passes(&c);
    CHECK_COUNT(&c, Adam, 1);
    CHECK_COUNT(&c, Gemm, 0);
    check_update(update_at(&c, 0), 1, (const trainable *[]){&l[0]}, true);
    check_states(&c, 1, terms);
    finish(&c);
}
END_TEST

/* Factors and whole gradients are no list of one instruction: there is one for each. */
START_TEST(mixed)
{
    compilation c;
    trainable l[MOST];
    const int64_t terms[MOST] = {XCC_FEW_TERMS + 1, 1, 40, 3};
    make(&c, 0, MOST, terms, l);
    passes(&c);
    CHECK_COUNT(&c, Adam, 2);
    CHECK_COUNT(&c, Gemm, 2);
    const bool first = update_at(&c, 0)->gradients.count == 4;
    check_update(update_at(&c, first ? 0 : 1), 2, (const trainable *[]){&l[1], &l[3]}, true);
    check_update(update_at(&c, first ? 1 : 0), 2, (const trainable *[]){&l[0], &l[2]}, false);
    check_states(&c, MOST, terms);
    finish(&c);
}
END_TEST

/* A gradient by whose norm the step is scaled is there for the norm, and read again. */
START_TEST(norm)
{
    compilation c;
    begin(&c, 0);
    xcc_builder *b = &c.b;
    const trainable l = make_trainable(b, 0, 1, XCVM_F32, XCVM_F32);
    const xcvm_value *gradient = XCC_IN(l.gradient);
    xcc_value *length = must(b, xcc_apply(b, GlobalNorm, y, .xs = {&gradient, 1}));
    update(b, 1, &l, must(b, xcc_apply(b, Reciprocal, y, .x = XCC_IN(length))));
    passes(&c);
    CHECK_COUNT(&c, GlobalNorm, 1);
    CHECK_COUNT(&c, Adam, 1);
    CHECK_COUNT(&c, Gemm, 1);
    check_update(update_at(&c, 0), 1, (const trainable *[]){&l}, false);
    finish(&c);
}
END_TEST

/* Types of parameters, and of their gradients. */
static const xcvm_dtype halves[][2] = {{XCVM_F16, XCVM_F16}, {XCVM_BF16, XCVM_BF16}, {XCVM_F16, XCVM_F32}};

/* Kernels take factors for parameters alone of the type that is computed in. */
START_TEST(half_precision)
{
    compilation c;
    begin(&c, 0);
    const trainable l = make_trainable(&c.b, 0, 1, halves[_i][0], halves[_i][1]);
    update(&c.b, 1, &l, NULL);
    passes(&c);
    CHECK_COUNT(&c, Adam, 1);
    CHECK_COUNT(&c, Gemm, 1);
    check_update(update_at(&c, 0), 1, (const trainable *[]){&l}, false);
    finish(&c);
}
END_TEST

/* Products of many terms, and of an open number of them, are made by an instruction that is better at it. */
START_TEST(many_terms)
{
    compilation c;
    trainable l[3];
    make(&c, 0, 3, (const int64_t[]){XCC_FEW_TERMS + 1, 40, -1}, l);
    passes(&c);
    CHECK_COUNT(&c, Adam, 1);
    CHECK_COUNT(&c, Gemm, 3);
    check_update(update_at(&c, 0), 3, (const trainable *[]){&l[0], &l[1], &l[2]}, false);
    finish(&c);
}
END_TEST

Suite *suite_compiler_factor_gradients(void);
Suite *suite_compiler_factor_gradients(void)
{
    Suite *suite = suite_create("compiler/factor_gradients");
    TCase *tests = tcase_create("factor_gradients");
    tcase_add_test(tests, moments);
    tcase_add_test(tests, mixed);
    tcase_add_test(tests, norm);
    tcase_add_loop_test(tests, half_precision, 0, (int)(sizeof halves / sizeof *halves));
    tcase_add_test(tests, many_terms);
    suite_add_tcase(suite, tests);
    return suite;
}

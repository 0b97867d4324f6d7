/* Tests of recomputation: the same bits in less memory, within the budget, with running statistics updated once. */
#include "tests/compiler/support.h"
#include "compiler/ir/compilation.h"

#include "compiler/ir/compose.h"

#define APPLY(Name, result, ...) must(b, xcc_apply(b, Name, result, __VA_ARGS__))

enum { ROWS = 16, WIDTH = 32, SEEDS = 40 };

static uint32_t state;

static uint32_t below(uint32_t n) { return test_random_below(&state, n); }

static xcc_value *parameter(xcc_builder *b, int rank, const int64_t *dims, float spread)
{
    float data[WIDTH * WIDTH];
    size_t count, bytes;
    ck_assert(xcvm_tensor_size(XCVM_F32, rank, dims, &count, &bytes));
    ck_assert_uint_le(bytes, sizeof data);
    for (size_t i = 0; i < count; i++)
        data[i] = spread * ((float)below(2001) / 1000 - 1);
    return must(b, xcc_parameter(b->graph, NULL, XCVM_F32, rank, dims, data, false));
}

static xcc_value *linear(xcc_builder *b, xcc_value *x)
{
    return APPLY(MatMul, y, .a = XCC_IN(x), .b = XCC_IN(parameter(b, 2, DIMS(WIDTH, WIDTH), 0.3f)));
}

/* A layer of one of the `count` previous values. */
static xcc_value *layer(xcc_builder *b, xcc_value *const *before, size_t count)
{
    xcc_value *last = before[count - 1], *other = before[count - 1 - below((uint32_t)count)];
    switch (below(9)) {
    case 0:
        return APPLY(Tanh, y, .x = XCC_IN(last));
    case 1:
        return APPLY(Sigmoid, y, .x = XCC_IN(last));
    case 2:
        return APPLY(Mul, y, .a = XCC_IN(last), .b = XCC_IN(other));
    case 3:
        return APPLY(Add, y, .a = XCC_IN(other), .b = XCC_IN(last));
    case 4: {
        xcc_value *flat = APPLY(Reshape, y, .x = XCC_IN(last), .shape = XCC_IN(ints(b, 1, DIMS(ROWS * WIDTH))));
        return APPLY(Reshape, y, .x = XCC_IN(APPLY(Sin, y, .x = XCC_IN(flat))),
                     .shape = XCC_IN(ints(b, 2, DIMS(ROWS, WIDTH))));
    }
    case 5: {
        xcc_value *norm = must(b, xcc_value_create(b->graph, NULL)), *mean = must(b, xcc_value_create(b->graph, NULL)),
                  *var = must(b, xcc_value_create(b->graph, NULL));
        xcc_value *p[4];
        for (int i = 0; i < 4; i++)
            p[i] = parameter(b, 1, DIMS(WIDTH), 1);
        if (xcc_emit(b, BatchNormalization, .y = XCC_OUT(norm), .running_mean = XCC_OUT(mean),
                     .running_var = XCC_OUT(var), .x = XCC_IN(last), .scale = XCC_IN(p[0]), .b = XCC_IN(p[1]),
                     .mean = XCC_IN(p[2]), .var = XCC_IN(p[3]), .epsilon = 1e-3f, .momentum = 0.9f,
                     .training_mode = 1) == NULL)
            ck_abort_msg("%s", b->graph->module->error->message);
        return norm;
    }
    case 6: { /* a result of Split is not read, and is not optional */
        xcc_value *parts[2] = {must(b, xcc_value_create(b->graph, NULL)), must(b, xcc_value_create(b->graph, NULL))};
        xcvm_value *ys[2] = {XCC_OUT(parts[0]), XCC_OUT(parts[1])};
        xcc_value *x = APPLY(Sin, y, .x = XCC_IN(last)), *sizes = ints(b, 2, DIMS(WIDTH / 2, WIDTH / 2));
        if (xcc_emit(b, Split, .ys = {ys, 2}, .x = XCC_IN(x), .split = XCC_IN(sizes), .axis = 1) == NULL)
            ck_abort_msg("%s", b->graph->module->error->message);
        xcc_value *half = parts[below(2)];
        return must(
            b, xcc_build_concat(b, 2, (xcc_value *[]){half, APPLY(Mul, y, .a = XCC_IN(half), .b = XCC_IN(half))}, 1));
    }
    default:
        return linear(b, last);
    }
}

static void make_network(xcc_builder *b, uint32_t seed)
{
    enum { LAYERS = 40 };
    xcc_value *values[LAYERS + 1];
    state = seed;
    values[0] = linear(b, input(b, "x", XCVM_F32, 2, DIMS(ROWS, WIDTH)));
    for (size_t i = 0; i < LAYERS; i++)
        values[i + 1] = layer(b, values, i + 1);
    output(b, must(b, xcc_build_reduce(b, XCVM_OP_ReduceMean, values[LAYERS], NULL, false)));
}

/* A network, compiled with its gradients. */
typedef struct network {
    compilation c;
    compiled_program k;
    uint64_t arena;
} network;

static xcvm_status try_compile(network *n, uint32_t seed, const char *method, uint64_t budget)
{
    begin(&n->c, 2);
    n->c.options.backprop = true;
    n->c.options.recompute.method = method;
    n->c.options.recompute.memory_budget = budget;
    make_network(&n->c.b, seed);
    return xcc_passes_run(&n->c.m);
}

static void open(network *n, uint32_t seed, const char *method, uint64_t budget)
{
    xcc_plan plan;
    ok(&n->c.m, try_compile(n, seed, method, budget));
    ok(&n->c.m, xcc_graph_verify(n->c.m.graph));
    ok(&n->c.m, xcc_plan_make(&n->c.m, &plan));
    n->arena = plan.arena_bytes;
    compiled_open(&n->k, &n->c);
    compiled_fill_input(&n->k, 0, seed);
    compiled_run(&n->k);
}

static void shut(network *n)
{
    compiled_close(&n->k);
    finish(&n->c);
}

static void expect_bits(const network *a, const network *b)
{
    const size_t count = xcvm_program_output_count(a->k.program);
    ck_assert_uint_eq(xcvm_program_output_count(b->k.program), count);
    ck_assert_uint_gt(count, 1);
    for (size_t i = 0; i < count; i++) {
        const xcvm_value *x = xcvm_session_get_output(a->k.session, i), *y = xcvm_session_get_output(b->k.session, i);
        ck_assert_uint_eq(xcvm_value_bytes(x), xcvm_value_bytes(y));
        ck_assert_msg(memcmp(x->data, y->data, xcvm_value_bytes(x)) == 0, "output %zu differs", i);
    }
}

START_TEST(random_networks)
{
    static const char *const methods[] = {"none", "chen", "time", "memory"};
    network plain, n;
    size_t smaller = 0, within = 0;
    for (uint32_t seed = 0; seed < SEEDS; seed++) {
        open(&plain, seed, NULL, 0);
        for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
            open(&n, seed, methods[i], 0);
            expect_bits(&plain, &n);
            ck_assert_uint_eq(n.c.m.compilation->recomputation.copies > 0,
                              i > 0 && n.c.m.compilation->recomputation.time > 1);
            if (i > 0)
                ck_assert_uint_eq(n.c.m.compilation->recomputation.peak, n.arena);
            ck_assert_uint_le(n.arena, plain.arena);
            smaller += n.arena < plain.arena;
            /* The middle between the maximum and the minimum is a possible budget. */
            const uint64_t budget = (n.arena + plain.arena) / 2;
            const double least = n.c.m.compilation->recomputation.time;
            shut(&n);
            if (i < 2)
                continue;
            open(&n, seed, methods[i], budget);
            expect_bits(&plain, &n);
            ck_assert_uint_le(n.arena, budget);
            within += n.c.m.compilation->recomputation.time < least;
            shut(&n);
        }
        shut(&plain);
    }
    /* Checks that something was recomputed. */
    ck_assert_uint_gt(smaller, SEEDS);
    ck_assert_uint_gt(within, SEEDS / 2);
}
END_TEST

/* The more of the memory a schedule may take, the more of it is used, to save time. */
START_TEST(budgets_are_used)
{
    static const char *const methods[] = {"time", "memory"};
    size_t unused = 0, all = 0;
    for (uint32_t seed = 0; seed < SEEDS / 2; seed++) {
        network n;
        open(&n, seed, NULL, 0);
        const uint64_t most = n.arena;
        shut(&n);
        for (size_t i = 0; i < 2; i++) {
            open(&n, seed, methods[i], 0);
            const uint64_t least = n.arena;
            const double slowest = n.c.m.compilation->recomputation.time;
            shut(&n);
            if (least == most)
                continue;
            const uint64_t budget = least + (most - least) * 3 / 4;
            open(&n, seed, methods[i], budget);
            ck_assert_uint_le(n.arena, budget);
            ck_assert_double_le(n.c.m.compilation->recomputation.time, slowest);
            unused += n.c.m.compilation->recomputation.time >= slowest;
            all++;
            shut(&n);
        }
    }
    ck_assert_uint_gt(all, SEEDS / 4);
    ck_assert_uint_lt(unused, all / 10);
}
END_TEST

/* The copies of a normalization give no running statistics. */
START_TEST(running_statistics)
{
    network plain, n;
    size_t copies = 0;
    for (uint32_t seed = 0; seed < SEEDS; seed++) {
        size_t statistics[2] = {0, 0};
        open(&plain, seed, NULL, 0);
        open(&n, seed, "memory", 0);
        for (int i = 0; i < 2; i++)
            for (const xcc_node *at = (i == 0 ? &plain : &n)->c.m.graph->first; at != NULL; at = at->next)
                if (xcc_is(at, XCVM_OP_BatchNormalization)) {
                    copies += i == 1 && strncmp(at->name, "again@", 6) == 0;
                    statistics[i] += XCC_ARGS(BatchNormalization, at)->running_mean != NULL;
                }
        ck_assert_uint_eq(statistics[0], statistics[1]);
        shut(&plain);
        shut(&n);
    }
    ck_assert_uint_gt(copies, 0);
}
END_TEST

static void check_refused(uint32_t seed, const char *method, uint64_t budget, xcvm_status status, const char *part)
{
    network n;
    ck_assert_int_eq(try_compile(&n, seed, method, budget), status);
    ck_assert_msg(strstr(n.c.error.message, part) != NULL, "%s", n.c.error.message);
    finish(&n.c);
}

START_TEST(refused)
{
    check_refused(1, "sometimes", 0, XCVM_INVALID_ARGUMENT, "is 'sometimes'");
    check_refused(1, "custom:nothing", 0, XCVM_INVALID_ARGUMENT, "unknown value 'nothing'");
    check_refused(1, "time", 1, XCVM_OUT_OF_MEMORY, "more than the memory budget of 1;");
    check_refused(1, "chen", 1, XCVM_OUT_OF_MEMORY, "more than the memory budget of 1;");
}
END_TEST

/* x -> sinh -> sin -> square -> loss, where sinh and sin are read by the backward. */
static void make_chain(xcc_builder *b)
{
    xcc_value *x = linear(b, input(b, "x", XCVM_F32, 2, DIMS(ROWS, WIDTH)));
    xcc_value *t = must(b, xcc_value_create(b->graph, "t")), *s = must(b, xcc_value_create(b->graph, "s"));
    (void)xcc_emit(b, Sinh, .y = XCC_OUT(t), .x = XCC_IN(x));
    (void)xcc_emit(b, Sin, .y = XCC_OUT(s), .x = XCC_IN(t));
    output(b, must(b, xcc_build_reduce(b, XCVM_OP_ReduceMean, APPLY(Mul, y, .a = XCC_IN(s), .b = XCC_IN(s)), NULL,
                                       false)));
}

START_TEST(by_name)
{
    static const char *const methods[] = {"custom:", "custom:s", "custom:t", "custom:s,t"};
    static const size_t copies[] = {0, 1, 1, 2};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        compilation c;
        begin(&c, 2);
        c.options.backprop = true;
        c.options.recompute.method = methods[i];
        make_chain(&c.b);
        passes(&c);
        ck_assert_uint_eq(c.m.compilation->recomputation.copies, copies[i]);
        CHECK_COUNT(&c, Sin, i == 1 || i == 3 ? 2u : 1u);
        CHECK_COUNT(&c, Sinh, i > 1 ? 2u : 1u);
        finish(&c);
    }
}
END_TEST

Suite *suite_compiler_recompute(void);
Suite *suite_compiler_recompute(void)
{
    Suite *suite = suite_create("compiler/recompute");
    TCase *tests = tcase_create("recompute");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, random_networks);
    tcase_add_test(tests, budgets_are_used);
    tcase_add_test(tests, running_statistics);
    tcase_add_test(tests, refused);
    tcase_add_test(tests, by_name);
    suite_add_tcase(suite, tests);
    return suite;
}

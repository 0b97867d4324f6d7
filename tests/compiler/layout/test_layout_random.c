/* Random networks of images: results in blocked channels are those without. */
/* Takes long. */
#include "tests/compiler/layout/networks.h"

enum { POOL = 12, SEEDS = 150, STEPS = 10 };

static uint32_t state, graph_seed;

static uint32_t below(uint32_t n) { return test_random_below(&state, n); }

static xcc_value *random_channels(xcc_builder *b, xcc_value *x)
{
    int64_t n = x->type.dims[1], at = n > 16 ? 16 : n / 2;
    switch (below(3)) {
    case 0:
        return APPLY(Concat, y, .xs = {(const xcvm_value *[]){XCC_IN(x), XCC_IN(x)}, 2}, .axis = 1);
    case 1:
        return n > 1 ? APPLY(Slice, y, .x = XCC_IN(x), .starts = XCC_IN(ints(b, 1, &at)),
                             .ends = XCC_IN(ints(b, 1, DIMS(1000))), .axes = XCC_IN(ints(b, 1, DIMS(1))))
                     : x;
    default:
        return normalized(b, x);
    }
}

static xcc_value *random_step(xcc_builder *b, xcc_value *x, xcc_value *z)
{
    static const int64_t outputs[] = {1, 7, 16, 24, 32, 40, 64};
    int64_t n = x->type.dims[1];
    bool same = n == z->type.dims[1];
    switch (below(12)) {
    case 0:
    case 1:
    case 2:
        return conv_of(b, x, outputs[below(7)], 1 + 2 * (int64_t)below(2), 1, 1);
    case 3:
        return conv_of(b, x, n, 3, 1, n);
    case 4:
        return relu(b, x);
    case 5:
        return APPLY(HardSwish, y, .x = XCC_IN(x));
    case 6:
        return same ? APPLY(Add, y, .a = XCC_IN(x), .b = XCC_IN(z)) : x;
    case 7:
        return APPLY(Mul, y, .a = XCC_IN(APPLY(Sigmoid, y, .x = XCC_IN(mean(b, x, 1)))), .b = XCC_IN(x));
    case 8:
        return APPLY(MaxPool, y, .x = XCC_IN(x), .kernel_shape = XCC_INTS(3, 3), .strides = XCC_INTS(1, 1),
                     .pads = XCC_INTS(1, 1, 1, 1), .dilations = XCC_INTS(1, 1));
    case 9:
        return APPLY(Add, y, .a = XCC_IN(x), .b = XCC_IN(weights(b, 3, DIMS(n, 1, 1))));
    case 10:
        return APPLY(Softmax, y, .x = XCC_IN(x), .axis = 1);
    default:
        return random_channels(b, x);
    }
}

static void make_random(xcc_builder *b)
{
    xcc_value *pool[POOL + STEPS];
    size_t count = 1;
    state = graph_seed * 2654435761u + 1;
    pool[0] = image(b, "x", 1 + (int64_t)below(40));
    for (int i = 0; i < STEPS; i++) {
        xcc_value *v =
            random_step(b, pool[below(3) ? count - 1 : below((uint32_t)count)], pool[below((uint32_t)count)]);
        if (v->type.dims[1] <= 128)
            pool[count++] = v;
    }
    output(b, pool[count - 1]);
    output(b, pool[below((uint32_t)count)]);
    output(b, mean(b, pool[below((uint32_t)count)], below(2)));
}

START_TEST(random_graphs)
{
    size_t blocked = 0;
    const uint32_t seeds = (uint32_t)test_fewer(SEEDS);
    for (graph_seed = 0; graph_seed < seeds; graph_seed++) {
        compilation c;
        check_same_results(make_random, &c);
        blocked += count_in(c.m.graph, XCVM_OP_BlockedConv) > 0;
        finish(&c);
    }
    ck_assert_uint_gt(blocked, seeds / 4);
}
END_TEST

Suite *suite_compiler_layout_random(void);

Suite *suite_compiler_layout_random(void)
{
    Suite *suite = suite_create("compiler_layout_random");
    TCase *test = tcase_create("layout_random");
    tcase_set_timeout(test, 300);
    tcase_add_test(test, random_graphs);
    suite_add_tcase(suite, test);
    return suite;
}

/* The order of nodes: for little memory, unless the model's order needs no more. */
#include "compiler/ir/compose.h"
#include "tests/compiler/support.h"

enum { BRANCHES = 5, SIZE = 1000 };

/* Branches of a large value that becomes a small one, and the sum of those. The model computes all large values first
 * (`together`), or adds each small one right after its large one. */
static void make_branches(xcc_builder *b, bool together)
{
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(1)), *axes = ints(b, 1, DIMS(0)), *large[BRANCHES], *sum = NULL;
    for (int i = 0; i < BRANCHES && together; i++)
        large[i] = must(b, xcc_build_mul(b, x, weights(b, 1, DIMS(SIZE))));
    for (int i = 0; i < BRANCHES; i++) {
        if (!together)
            large[i] = must(b, xcc_build_mul(b, x, weights(b, 1, DIMS(SIZE))));
        xcc_value *small =
            must(b, xcc_apply(b, ReduceSum, y, .x = XCC_IN(large[i]), .axes = XCC_IN(axes), .keepdims = 1));
        sum = sum == NULL ? small : must(b, xcc_build_binary(b, XCVM_OP_Add, sum, small));
    }
    output(b, sum);
}

/* The opcodes of the nodes in their order: M for Mul, R for ReduceSum, A for Add. */
static void order_of(const compilation *c, char text[64])
{
    size_t count = 0;
    for (const xcc_node *n = c->m.graph->first; n != NULL; n = n->next)
        text[count++] = xcc_is(n, XCVM_OP_Mul) ? 'M' : xcc_is(n, XCVM_OP_ReduceSum) ? 'R' : 'A';
    text[count] = '\0';
}

static void schedule(compilation *c, bool together, char before[64], char after[64])
{
    begin(c, 0);
    make_branches(&c->b, together);
    ok(&c->m, xcc_pass_infer(&c->m));
    order_of(c, before);
    ok(&c->m, xcc_pass_schedule(&c->m));
    ok(&c->m, xcc_graph_verify(c->m.graph));
    order_of(c, after);
}

/* One large value at a time is in memory. */
START_TEST(large_values_one_by_one)
{
    char before[64], after[64];
    compilation c;
    schedule(&c, true, before, after);
    ck_assert_str_eq(before, "MMMMMRRARARARA");
    ck_assert_uint_eq(strlen(after), strlen(before));
    ck_assert_msg(strstr(after, "MM") == NULL, "%s", after);
    finish(&c);
}
END_TEST

START_TEST(good_order_stays)
{
    char before[64], after[64];
    compilation c;
    schedule(&c, false, before, after);
    ck_assert_str_eq(before, "MRMRAMRAMRAMRA");
    ck_assert_str_eq(after, before);
    finish(&c);
}
END_TEST

Suite *suite_compiler_schedule(void);
Suite *suite_compiler_schedule(void)
{
    Suite *suite = suite_create("compiler/schedule");
    TCase *tests = tcase_create("schedule");
    tcase_add_test(tests, large_values_one_by_one);
    tcase_add_test(tests, good_order_stays);
    suite_add_tcase(suite, tests);
    return suite;
}

/* Tests of cost rules. */
#include "ops/util/shape.h"
#include "ops/table/table.h"

#include <check.h>

static xcvm_value shaped(int rank, const int64_t *dims)
{
    xcvm_value v = {.refs = 0};
    xcvm_value_set_tensor(&v, XCVM_F32, rank, dims);
    return v;
}
#define SHAPED(...) shaped((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

/* By the estimates alone, so that no shape rule has its say. */
static uint64_t cost(uint64_t (*rule)(const xcvm_inference *t), xcvm_opcode opcode, const void *args,
                     const xcvm_value *y, const xcvm_value *a, const xcvm_value *b, const xcvm_value *c)
{
    const xcvm_value *in[5] = {a, b, c, b, NULL};
    xcvm_value *out[1] = {(xcvm_value *)y};
    xcvm_inference t = {
        .schema = xcvm_schema_of(opcode), .args = args, .in = in, .in_count = 5, .out = out, .out_count = 1};
    return rule(&t);
}

START_TEST(estimates)
{
    xcvm_value y = SHAPED(2, 8, 10, 10), x = SHAPED(2, 4, 12, 12), w = SHAPED(8, 2, 3, 3);
    ck_assert_uint_eq(cost(xcvm_flops_none, XCVM_OP_Shape, NULL, &y, &x, NULL, NULL), 0);
    ck_assert_uint_eq(cost(xcvm_flops_element, XCVM_OP_Add, NULL, &y, &x, &x, NULL), 1600);
    ck_assert_uint_eq(cost(xcvm_flops_transcendental, XCVM_OP_Exp, NULL, &y, &y, NULL, NULL), 12800);
    ck_assert_uint_eq(cost(xcvm_flops_reduction, XCVM_OP_ReduceSum, NULL, &y, &x, NULL, NULL), 1152);
    ck_assert_uint_eq(cost(xcvm_flops_Conv, XCVM_OP_Conv, NULL, &y, &x, &w, NULL), 2 * 1600 * 18);
    ck_assert_uint_eq(cost(xcvm_flops_QLinearConv, XCVM_OP_QLinearConv, NULL, &y, &x, &w, NULL), 2 * 1600 * 18);
    ck_assert_uint_eq(cost(xcvm_flops_ConvTranspose, XCVM_OP_ConvTranspose, NULL, &y, &x, &w, NULL), 2 * 1152 * 18);
    xcvm_MaxPool_args pool = {.kernel_shape = {(const int64_t[]){3, 3}, 2}};
    ck_assert_uint_eq(cost(xcvm_flops_pool, XCVM_OP_MaxPool, &pool, &y, &x, NULL, NULL), 1600 * 9);
    xcvm_value a = SHAPED(5, 6, 7), b = SHAPED(7, 8), product = SHAPED(5, 6, 8);
    ck_assert_uint_eq(cost(xcvm_flops_MatMul, XCVM_OP_MatMul, NULL, &product, &a, &b, NULL), 2 * 5 * 6 * 7 * 8);
    xcvm_value left = SHAPED(6, 7), flat = SHAPED(7, 8);
    xcvm_Gemm_args gemm = {.a = &left, .transA = 1, .c = &b};
    ck_assert_uint_eq(cost(xcvm_flops_Gemm, XCVM_OP_Gemm, &gemm, &flat, &left, &b, &b), 2 * 56 * 6 + 56);
    xcvm_value steps = SHAPED(9, 2, 3), wx = SHAPED(1, 16, 3), wr = SHAPED(1, 16, 4);
    ck_assert_uint_eq(cost(xcvm_flops_recurrent, XCVM_OP_LSTM, NULL, NULL, &steps, &wx, &wr),
                      2 * 9 * 2 * (16 * 3 + 16 * 4));
    xcvm_value spectrum = SHAPED(1, 1024, 2);
    ck_assert_uint_eq(cost(xcvm_flops_DFT, XCVM_OP_DFT, NULL, &spectrum, &spectrum, NULL, NULL), 5 * 1024 * 10);
}
END_TEST

START_TEST(unknown_and_huge)
{
    xcvm_value open = SHAPED(XCVM_ANY_DIM, 7), unknown = {.kind = XCVM_KIND_NULL, .rank = -1},
               huge = SHAPED(INT64_MAX, INT64_MAX);
    ck_assert_uint_eq(cost(xcvm_flops_element, XCVM_OP_Add, NULL, &open, &open, &open, NULL), 7);
    ck_assert_uint_eq(cost(xcvm_flops_element, XCVM_OP_Add, NULL, &unknown, &unknown, &unknown, NULL), 0);
    ck_assert_uint_eq(cost(xcvm_flops_MatMul, XCVM_OP_MatMul, NULL, &unknown, &unknown, &unknown, NULL), 0);
    ck_assert_uint_eq(cost(xcvm_flops_MatMul, XCVM_OP_MatMul, NULL, &huge, &huge, &huge, NULL), UINT64_MAX);
    ck_assert_uint_eq(cost(xcvm_flops_normalization, XCVM_OP_LRN, NULL, &huge, &huge, NULL, NULL), UINT64_MAX);
    ck_assert_uint_eq(cost(xcvm_flops_resize, XCVM_OP_Resize, NULL, &unknown, &open, NULL, NULL), 0);
}
END_TEST

Suite *suite_ops_cost(void);
Suite *suite_ops_cost(void)
{
    Suite *suite = suite_create("ops_cost");
    TCase *tests = tcase_create("cost");
    tcase_add_test(tests, estimates);
    tcase_add_test(tests, unknown_and_huge);
    suite_add_tcase(suite, tests);
    return suite;
}

/* Products in bf16: which are, how they are rounded, and what stays f32. */
#include "base/dtype.h"
#include "compiler/ir/compilation.h"
#include "ops/conv/blocked.h"
#include "tests/compiler/support.h"

#include <float.h>

enum { M = 4, K = 37, N = 20 };

static void begin_with(compilation *c, xcvm_dtype compute)
{
    begin(c, 2);
    c->options.weights.compute = compute;
}

static float rounded(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Two products by one matrix, one of them with bias and activation. */
START_TEST(products)
{
    static float x[M * K], w[K * N];
    compilation c;
    compiled_program k;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = sinf((float)i);
    for (size_t i = 0; i < sizeof w / sizeof *w; i++)
        w[i] = cosf((float)(3 * i));
    begin_with(&c, XCVM_BF16);
    xcc_value *a = input(&c.b, "x", XCVM_F32, 2, DIMS(M, K)), *b = floats(&c.b, 2, DIMS(K, N), w);
    xcc_value *bias = weights(&c.b, 1, DIMS(N));
    output(&c.b, must(&c.b, xcc_apply(&c.b, MatMul, y, .a = XCC_IN(a), .b = XCC_IN(b))));
    xcc_value *y = must(&c.b, xcc_apply(&c.b, Gemm, y, .a = XCC_IN(a), .b = XCC_IN(b), .c = XCC_IN(bias), .alpha = 1,
                                        .beta = 1, .activation = XCVM_ACTIVATION_none));
    output(&c.b, must(&c.b, xcc_apply(&c.b, Relu, y, .x = XCC_IN(y))));
    passes(&c);
    CHECK_COUNT(&c, Bf16Gemm, 2);
    CHECK_NODES(&c, 2);
    ck_assert_uint_eq(c.m.compilation->bf16_products, 2);
    ck_assert_uint_eq(c.m.compilation->exact_products, 0);
    /* The matrix was rounded once: 2 panels. */
    ck_assert_uint_eq(c.m.compilation->weight_bytes_before, 2 * 16 * K * sizeof(float));
    ck_assert_uint_eq(c.m.compilation->weight_bytes_after, 2 * 16 * (K + 1) * sizeof(uint16_t));
    compiled_open(&k, &c);
    compiled_set_input(&k, 0, XCVM_F32, 2, DIMS(M, K), x);
    compiled_run(&k);
    const float *result = xcvm_value_data(xcvm_session_get_output(k.session, 0));
    bool differs = false;
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < N; j++) {
            double sum = 0, exact = 0;
            for (size_t p = 0; p < K; p++) {
                sum += (double)rounded(x[i * K + p]) * (double)rounded(w[p * N + j]);
                exact += (double)x[i * K + p] * (double)w[p * N + j];
            }
            ck_assert_double_eq_tol((double)result[i * N + j], sum, 1e-5);
            differs = differs || fabs(exact - sum) > 1e-4;
        }
    ck_assert(differs);
    compiled_close(&k);
    finish(&c);
}
END_TEST

static xcc_value *convolve(xcc_builder *b, xcc_value *x, xcc_value *w, int64_t pad, int64_t group)
{
    return must(b, xcc_apply(b, Conv, y, .x = XCC_IN(x), .w = XCC_IN(w), .strides = {DIMS(1, 1), 2},
                             .pads = {DIMS(pad, pad, pad, pad), 4}, .dilations = {DIMS(1, 1), 2}, .group = group,
                             .activation = XCVM_ACTIVATION_none));
}

/* In a network, pointwise convolutions are rounded, except the first one and depthwise ones. */
START_TEST(convolutions)
{
    compilation c;
    begin_with(&c, _i != 0 ? XCVM_BF16 : XCVM_F32);
    xcc_value *x = input(&c.b, "x", XCVM_F32, 4, DIMS(1, 3, 32, 32));
    xcc_value *y = convolve(&c.b, x, weights(&c.b, 4, DIMS(32, 3, 3, 3)), 1, 1);
    y = convolve(&c.b, y, weights(&c.b, 4, DIMS(32, 1, 3, 3)), 1, 32);
    y = convolve(&c.b, y, weights(&c.b, 4, DIMS(64, 32, 1, 1)), 0, 1);
    output(&c.b, convolve(&c.b, y, weights(&c.b, 4, DIMS(48, 64, 1, 1)), 0, 1));
    passes(&c);
    CHECK_COUNT(&c, BlockedConv, 4);
    size_t pairs = 0;
    for (const xcc_node *n = c.m.graph->first; n != NULL; n = n->next) {
        if (!xcc_is(n, XCVM_OP_BlockedConv))
            continue;
        const xcvm_BlockedConv_args *a = XCC_ARGS(BlockedConv, n);
        const bool is_pairs = a->algorithm == XCVM_BLOCKED_direct_pairs;
        pairs += is_pairs;
        ck_assert_int_eq(a->w->dtype, is_pairs ? XCVM_BF16 : XCVM_F32);
    }
    ck_assert_uint_eq(pairs, _i != 0 ? 2 : 0);
    ck_assert_uint_eq(c.m.compilation->bf16_products, pairs);
    ck_assert_uint_eq(c.m.compilation->exact_products, _i != 0 ? 2 : 0);
    finish(&c);
}
END_TEST

/* A constant with numbers that would be infinite; products of values that only the run knows; and constants that
 * --weights rounds. */
START_TEST(what_stays)
{
    compilation c;
    float w[32 * 16] = {FLT_MAX};
    begin_with(&c, XCVM_BF16);
    c.options.weights.dtype = XCVM_BF16;
    xcc_value *x = input(&c.b, "x", XCVM_F32, 2, DIMS(M, 32)), *z = input(&c.b, "z", XCVM_F32, 2, DIMS(32, N));
    output(&c.b, must(&c.b, xcc_apply(&c.b, MatMul, y, .a = XCC_IN(x), .b = XCC_IN(floats(&c.b, 2, DIMS(32, 16), w)))));
    output(&c.b, must(&c.b, xcc_apply(&c.b, MatMul, y, .a = XCC_IN(x), .b = XCC_IN(z))));
    output(&c.b, must(&c.b, xcc_apply(&c.b, MatMul, y, .a = XCC_IN(x), .b = XCC_IN(weights(&c.b, 2, DIMS(32, 12))))));
    passes(&c);
    CHECK_COUNT(&c, Bf16Gemm, 1);
    CHECK_COUNT(&c, PackedGemm, 1);
    CHECK_COUNT(&c, MatMul, 1);
    ck_assert_uint_eq(c.m.compilation->bf16_products, 1);
    ck_assert_uint_eq(c.m.compilation->exact_products, 2);
    ck_assert_uint_eq(c.m.compilation->uncompressed, 1);
    finish(&c);
}
END_TEST

Suite *suite_compiler_compute(void);
Suite *suite_compiler_compute(void)
{
    Suite *suite = suite_create("compiler_compute");
    TCase *tc = tcase_create("compute");
    tcase_add_test(tc, products);
    tcase_add_loop_test(tc, convolutions, 0, 2);
    tcase_add_test(tc, what_stays);
    suite_add_tcase(suite, tc);
    return suite;
}

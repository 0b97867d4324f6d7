/* Tests of the pass fuse_ops: fused and other nodes, and results. */
#include "tests/compiler/support.h"

#define APPLY(Name, result, ...) must(b, xcc_apply(b, Name, result, __VA_ARGS__))

static xcc_value *conv(xcc_builder *b, xcc_value *x, int64_t channels)
{
    xcc_value *w = weights(b, 4, DIMS(channels, x->type.dims[1], 3, 3));
    return APPLY(Conv, y, .x = XCC_IN(x), .w = XCC_IN(w), .strides = XCC_INTS(1, 1), .pads = XCC_INTS(1, 1, 1, 1),
                 .dilations = XCC_INTS(1, 1), .group = 1);
}

/* Variances are positive. */
static xcc_value *batch_normalization(xcc_builder *b, xcc_value *x, int64_t channels)
{
    xcc_value *var = floats(b, 1, DIMS(4), FLOATS(0.5f, 1, 2, 3));
    ck_assert_int_eq(channels, 4);
    return APPLY(BatchNormalization, y, .x = XCC_IN(x), .scale = XCC_IN(weights(b, 1, &channels)),
                 .b = XCC_IN(weights(b, 1, &channels)), .mean = XCC_IN(weights(b, 1, &channels)), .var = XCC_IN(var),
                 .epsilon = 1e-3);
}

/* A residual block: all of it is two convolutions. */
static void make_block(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 4, DIMS(-1, 4, 5, 6));
    xcc_value *y = APPLY(Relu, y, .x = XCC_IN(batch_normalization(b, conv(b, x, 4), 4)));
    y = batch_normalization(b, conv(b, y, 4), 4);
    y = APPLY(Add, y, .a = XCC_IN(y), .b = XCC_IN(x));
    output(b, APPLY(Relu, y, .x = XCC_IN(y)));
}

START_TEST(residual_block)
{
    compilation c;
    check_same_results(make_block, &c);
    CHECK_NODES(&c, 2);
    CHECK_COUNT(&c, Conv, 2);
    ck_assert_int_eq(XCC_ARGS(Conv, c.m.graph->last)->activation, XCVM_ACTIVATION_Relu);
    ck_assert_ptr_nonnull(XCC_ARGS(Conv, c.m.graph->last)->z);
    finish(&c);
}
END_TEST

static void make_channel_arithmetic(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 4, DIMS(2, 3, 5, 6));
    xcc_value *y = conv(b, x, 4);
    y = APPLY(Mul, y, .a = XCC_IN(weights(b, 3, DIMS(4, 1, 1))), .b = XCC_IN(y));
    y = APPLY(Add, y, .a = XCC_IN(y), .b = XCC_IN(weights(b, 4, DIMS(1, 4, 1, 1))));
    y = APPLY(Sub, y, .a = XCC_IN(y), .b = XCC_IN(number(b, 0.25)));
    y = APPLY(Div, y, .a = XCC_IN(y), .b = XCC_IN(number(b, 3)));
    output(b, APPLY(Clip, y, .x = XCC_IN(y), .min = XCC_IN(number(b, 0)), .max = XCC_IN(number(b, 6))));

    xcc_value *w = weights(b, 4, DIMS(6, 2, 2, 2)), *z = input(b, "z", XCVM_F32, 4, DIMS(1, 6, 3, 3));
    y = APPLY(ConvTranspose, y, .x = XCC_IN(z), .w = XCC_IN(w), .strides = XCC_INTS(2, 2), .pads = XCC_INTS(0, 0, 0, 0),
              .dilations = XCC_INTS(1, 1), .output_padding = XCC_INTS(0, 0), .group = 2);
    output(b, batch_normalization(b, y, 4));
}

START_TEST(channel_arithmetic)
{
    compilation c;
    check_same_results(make_channel_arithmetic, &c);
    CHECK_NODES(&c, 2);
    CHECK_COUNT(&c, Conv, 1);
    CHECK_COUNT(&c, ConvTranspose, 1);
    finish(&c);
}
END_TEST

/* Values with several readers, numbers that differ within a channel, nodes after an activation. */
static void make_unmergeable(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 4, DIMS(2, 3, 5, 6));
    xcc_value *y = conv(b, x, 4);
    output(b, APPLY(Relu, y, .x = XCC_IN(y)));
    output(b, APPLY(Exp, y, .x = XCC_IN(y)));
    y = APPLY(Add, y, .a = XCC_IN(conv(b, x, 2)), .b = XCC_IN(weights(b, 1, DIMS(6))));
    output(b, y);
    y = APPLY(Tanh, y, .x = XCC_IN(conv(b, x, 5)));
    output(b, APPLY(Mul, y, .a = XCC_IN(y), .b = XCC_IN(weights(b, 3, DIMS(5, 1, 1)))));
    y = conv(b, APPLY(Neg, y, .x = XCC_IN(x)), 1);
    output(b, APPLY(Add, y, .a = XCC_IN(y), .b = XCC_IN(weights(b, 4, DIMS(1, 4, 1, 1)))));
}

START_TEST(unmergeable)
{
    compilation c;
    check_same_results(make_unmergeable, &c);
    CHECK_COUNT(&c, Conv, 4);
    CHECK_COUNT(&c, Relu, 1);
    CHECK_COUNT(&c, Exp, 1);
    CHECK_COUNT(&c, Add, 2);
    CHECK_COUNT(&c, Tanh, 0);
    CHECK_COUNT(&c, Mul, 1);
    finish(&c);
}
END_TEST

static void make_products(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 3, DIMS(2, -1, 4)), *w = weights(b, 2, DIMS(4, 5));
    xcc_value *y = APPLY(MatMul, y, .a = XCC_IN(x), .b = XCC_IN(w));
    y = APPLY(Add, y, .a = XCC_IN(weights(b, 1, DIMS(5))), .b = XCC_IN(y));
    y = APPLY(Mul, y, .a = XCC_IN(y), .b = XCC_IN(number(b, 0.125)));
    output(b, APPLY(Gelu, y, .x = XCC_IN(y)));

    xcc_value *p = input(b, "p", XCVM_F32, 2, DIMS(3, 4)), *q = input(b, "q", XCVM_F32, 2, DIMS(5, 3));
    p = APPLY(Transpose, y, .x = XCC_IN(p), .perm = XCC_INTS(1, 0));
    q = APPLY(Transpose, y, .x = XCC_IN(q), .perm = XCC_INTS(1, 0));
    y = APPLY(MatMul, y, .a = XCC_IN(p), .b = XCC_IN(q));
    output(b, APPLY(Add, y, .a = XCC_IN(y), .b = XCC_IN(input(b, "r", XCVM_F32, 1, DIMS(5)))));

    xcc_value *t = APPLY(Transpose, y, .x = XCC_IN(w), .perm = XCC_INTS(1, 0));
    y = APPLY(Gemm, y, .a = XCC_IN(x), .b = XCC_IN(t), .c = XCC_IN(weights(b, 1, DIMS(5))), .alpha = 0.5, .beta = 2,
              .transB = 1);
    y = APPLY(Add, y, .a = XCC_IN(y), .b = XCC_IN(weights(b, 3, DIMS(1, 1, 5))));
    output(b, APPLY(LeakyRelu, y, .x = XCC_IN(y), .alpha = 0.2));

    /* One row's bias differs from another's. */
    y = APPLY(MatMul, y, .a = XCC_IN(input(b, "s", XCVM_F32, 2, DIMS(2, 4))), .b = XCC_IN(w));
    output(b, APPLY(Add, y, .a = XCC_IN(y), .b = XCC_IN(weights(b, 2, DIMS(2, 1)))));
}

START_TEST(products)
{
    compilation c;
    check_same_results(make_products, &c);
    CHECK_COUNT(&c, Gemm, 4);
    CHECK_COUNT(&c, Add, 1);
    CHECK_NODES(&c, 5);
    finish(&c);
}
END_TEST

static xcc_value *transposed_gemm(xcc_builder *b, xcc_value *p, xcc_value *q, xcc_value *bias, int64_t of_p,
                                  int64_t of_q)
{
    xcc_value *y = APPLY(Gemm, y, .a = XCC_IN(p), .b = XCC_IN(q), .c = XCC_IN(bias), .alpha = 0.5, .beta = 1,
                         .transA = of_p, .transB = of_q);
    output(b, APPLY(Transpose, y, .x = XCC_IN(y), .perm = XCC_INTS(1, 0)));
    return y;
}

/* Products that are transposed; not where they are needed as they are, too, or have a bias. */
static void make_transposed_products(xcc_builder *b)
{
    xcc_value *p = input(b, "p", XCVM_F32, 2, DIMS(3, 4)), *q = input(b, "q", XCVM_F32, 2, DIMS(4, 5));
    xcc_value *u = input(b, "u", XCVM_F32, 2, DIMS(4, 3)), *v = input(b, "v", XCVM_F32, 2, DIMS(5, 4));
    transposed_gemm(b, p, q, NULL, 0, 0);
    transposed_gemm(b, u, q, NULL, 1, 0);
    transposed_gemm(b, p, v, NULL, 0, 1);
    transposed_gemm(b, u, v, NULL, 1, 1);
    transposed_gemm(b, p, q, input(b, "bias", XCVM_F32, 1, DIMS(5)), 0, 0);
    output(b, transposed_gemm(b, q, v, NULL, 0, 0));
}

START_TEST(transposed_products)
{
    compilation c;
    check_same_results(make_transposed_products, &c);
    CHECK_COUNT(&c, Gemm, 6);
    CHECK_COUNT(&c, Transpose, 2);
    finish(&c);
}
END_TEST

static void make_pads(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 4, DIMS(1, 2, 5, 6));
    xcc_value *pads = ints(b, 8, DIMS(0, 0, 1, 0, 0, 0, 1, 2));
    xcc_value *y = APPLY(Pad, y, .x = XCC_IN(x), .pads = XCC_IN(pads));
    output(b, conv(b, y, 3));
    xcc_value *z = APPLY(Neg, y, .x = XCC_IN(x));
    y = APPLY(Pad, y, .x = XCC_IN(z), .pads = XCC_IN(pads), .value = XCC_IN(number(b, 1)));
    output(b, conv(b, y, 3));
    y = APPLY(Pad, y, .x = XCC_IN(z), .pads = XCC_IN(pads), .mode = XCVM_PAD_MODE_edge);
    output(b, conv(b, y, 3));
    y = APPLY(Pad, y, .x = XCC_IN(z), .pads = XCC_IN(ints(b, 8, DIMS(0, 1, 0, 0, 0, 0, 0, 0))));
    output(b, conv(b, y, 3));
}

START_TEST(padded_convolutions)
{
    compilation c;
    check_same_results(make_pads, &c);
    CHECK_COUNT(&c, Conv, 4);
    CHECK_COUNT(&c, Pad, 3);
    finish(&c);
}
END_TEST

static void make_pools(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 4, DIMS(1, 2, 5, 6));
    xcc_value *pads = ints(b, 8, DIMS(0, 0, 1, 0, 0, 0, 1, 1));
    xcc_value *y = APPLY(Pad, y, .x = XCC_IN(x), .pads = XCC_IN(pads));
    output(b, APPLY(AveragePool, y, .x = XCC_IN(y), .kernel_shape = XCC_INTS(2, 2), .strides = XCC_INTS(2, 2),
                    .pads = XCC_INTS(0, 0, 0, 0), .dilations = XCC_INTS(1, 1)));
    y = APPLY(Pad, y, .x = XCC_IN(x), .pads = XCC_IN(pads), .value = XCC_IN(number(b, -(double)INFINITY)));
    output(b, APPLY(MaxPool, y, .x = XCC_IN(y), .kernel_shape = XCC_INTS(2, 2), .strides = XCC_INTS(2, 2),
                    .pads = XCC_INTS(0, 0, 0, 0), .dilations = XCC_INTS(1, 1)));
    y = APPLY(Pad, y, .x = XCC_IN(x), .pads = XCC_IN(pads));
    output(b, APPLY(MaxPool, y, .x = XCC_IN(y), .kernel_shape = XCC_INTS(2, 2), .strides = XCC_INTS(2, 2),
                    .pads = XCC_INTS(0, 0, 0, 0), .dilations = XCC_INTS(1, 1)));
}

START_TEST(pools)
{
    compilation c;
    check_same_results(make_pools, &c);
    CHECK_COUNT(&c, Pad, 1);
    finish(&c);
}
END_TEST

/* A value that is computed once is not moved into the branch that reads it. */
static void make_outer_product(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(2, 3)), *cond = input(b, "cond", XCVM_BOOL, 0, NULL);
    xcc_value *product = APPLY(MatMul, y, .a = XCC_IN(x), .b = XCC_IN(weights(b, 2, DIMS(3, 3))));
    xcc_value *out = must(b, xcc_value_create(b->graph, "out"));
    xcc_node *n = xcc_append_control(b, XCC_IF, 1, &cond, 1, &out, 2);
    ck_assert_ptr_nonnull(n);
    xcc_builder then = {.graph = n->bodies[0]}, other = {.graph = n->bodies[1]};
    xcc_value *scaled = must(b, xcc_apply(&then, Mul, y, .a = XCC_IN(product), .b = XCC_IN(number(&then, 3))));
    output(&then, must(b, xcc_apply(&then, Relu, y, .x = XCC_IN(scaled))));
    output(&other, x);
    ok(b->graph->module, xcc_node_infer(n));
    output(b, out);
}

START_TEST(outer_product)
{
    compilation c;
    check_same_results(make_outer_product, &c);
    CHECK_COUNT(&c, Gemm, 1);
    CHECK_COUNT(&c, Mul, 1);
    CHECK_COUNT(&c, Relu, 1);
    finish(&c);
}
END_TEST

/* Steps along an outer product; not where that is needed itself, or is a product of more than vectors. */
static void make_rank_one_updates(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(1, 5)), *g = input(b, "g", XCVM_F32, 2, DIMS(1, 80));
    xcc_value *w = input(b, "w", XCVM_F32, 2, DIMS(5, 80)), *rate = input(b, "rate", XCVM_F32, 0, NULL);
    xcc_value *product = APPLY(Gemm, y, .a = XCC_IN(x), .b = XCC_IN(g), .alpha = 1, .beta = 1, .transA = 1);
    output(b, APPLY(Sub, y, .a = XCC_IN(w), .b = XCC_IN(APPLY(Mul, y, .a = XCC_IN(rate), .b = XCC_IN(product)))));
    product = APPLY(Gemm, y, .a = XCC_IN(x), .b = XCC_IN(x), .alpha = 1, .beta = 1, .transA = 1);
    output(b, APPLY(Sub, y, .a = XCC_IN(product), .b = XCC_IN(APPLY(Mul, y, .a = XCC_IN(product), .b = XCC_IN(rate)))));
    product = APPLY(Gemm, y, .a = XCC_IN(w), .b = XCC_IN(w), .alpha = 1, .beta = 1, .transB = 1);
    output(b, APPLY(Mul, y, .a = XCC_IN(product), .b = XCC_IN(rate)));
}

START_TEST(rank_one_updates)
{
    compilation c;
    check_same_results(make_rank_one_updates, &c);
    CHECK_COUNT(&c, Gemm, 3);
    CHECK_COUNT(&c, Mul, 3);
    CHECK_COUNT(&c, Sub, 1);
    finish(&c);
}
END_TEST

static void make_every_activation(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 4, DIMS(1, 2, 4, 4));
    output(b, APPLY(Sigmoid, y, .x = XCC_IN(conv(b, x, 1))));
    output(b, APPLY(Tanh, y, .x = XCC_IN(conv(b, x, 2))));
    output(b, APPLY(HardSigmoid, y, .x = XCC_IN(conv(b, x, 3)), .alpha = 0.25, .beta = 0.5));
    output(b, APPLY(HardSwish, y, .x = XCC_IN(conv(b, x, 4))));
    output(b, APPLY(Swish, y, .x = XCC_IN(conv(b, x, 5)), .alpha = 1.5));
    output(b, APPLY(Gelu, y, .x = XCC_IN(conv(b, x, 6))));
    output(b, APPLY(LeakyRelu, y, .x = XCC_IN(conv(b, x, 7)), .alpha = 0.1));
    output(b, APPLY(Clip, y, .x = XCC_IN(conv(b, x, 8)), .max = XCC_IN(number(b, 1))));
    output(b, APPLY(Relu, y, .x = XCC_IN(conv(b, x, 9))));
}

START_TEST(every_activation)
{
    compilation c;
    check_same_results(make_every_activation, &c);
    CHECK_NODES(&c, 9);
    CHECK_COUNT(&c, Conv, 9);
    finish(&c);
}
END_TEST

/* Numbers after an activation, several in sequence, also with open sizes; no tensors, and no numbers of more axes. */
static void make_scaled_activations(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 4, DIMS(-1, 2, -2, -3));
    xcc_value *y = APPLY(HardSwish, y, .x = XCC_IN(conv(b, x, 4)));
    y = APPLY(Mul, y, .a = XCC_IN(floats(b, 1, DIMS(1), FLOATS(0.75f))), .b = XCC_IN(y));
    y = APPLY(Add, y, .a = XCC_IN(y), .b = XCC_IN(floats(b, 1, DIMS(1), FLOATS(-0.5f))));
    y = APPLY(Relu, y, .x = XCC_IN(conv(b, y, 3)));
    y = APPLY(Sub, y, .a = XCC_IN(APPLY(Div, y, .a = XCC_IN(y), .b = XCC_IN(number(b, 4)))), .b = XCC_IN(number(b, 2)));
    output(b, APPLY(Mul, y, .a = XCC_IN(y), .b = XCC_IN(number(b, -3))));
    y = APPLY(Tanh, y, .x = XCC_IN(conv(b, x, 5)));
    output(b, APPLY(Sub, y, .a = XCC_IN(number(b, 1)), .b = XCC_IN(y)));
    y = APPLY(Tanh, y, .x = XCC_IN(conv(b, x, 6)));
    output(b, APPLY(Add, y, .a = XCC_IN(y), .b = XCC_IN(weights(b, 5, DIMS(1, 1, 1, 1, 1)))));
    y = APPLY(Tanh, y, .x = XCC_IN(conv(b, x, 7)));
    output(b, APPLY(Div, y, .a = XCC_IN(y), .b = XCC_IN(number(b, 0))));
}

START_TEST(scaled_activations)
{
    compilation c;
    check_same_results(make_scaled_activations, &c);
    CHECK_COUNT(&c, Conv, 5);
    CHECK_COUNT(&c, Mul, 0);
    CHECK_COUNT(&c, Add, 1);
    CHECK_COUNT(&c, Sub, 1);
    CHECK_COUNT(&c, Div, 1);
    finish(&c);
}
END_TEST

/* x + x * gate, in both orders, with open sizes; not if the gate has bounds or another reader. */
static void make_gated_residuals(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 4, DIMS(-1, 4, -2, -3));
    for (int i = 0; i < 4; i++) {
        xcc_value *mean = APPLY(ReduceMean, y, .x = XCC_IN(x), .axes = XCC_IN(ints(b, 2, DIMS(2, 3))), .keepdims = 1);
        xcc_value *w =
            APPLY(Mul, y, .a = XCC_IN(weights(b, 4, DIMS(4, 4, 1, 1))), .b = XCC_IN(number(b, 0.1 * i + 0.5)));
        xcc_value *gate = APPLY(Conv, y, .x = XCC_IN(mean), .w = XCC_IN(w), .strides = XCC_INTS(1, 1),
                                .pads = XCC_INTS(0, 0, 0, 0), .dilations = XCC_INTS(1, 1), .group = 1);
        gate = i == 1   ? APPLY(Sigmoid, y, .x = XCC_IN(gate))
               : i == 2 ? APPLY(Tanh, y, .x = XCC_IN(gate))
                        : APPLY(HardSigmoid, y, .x = XCC_IN(gate), .alpha = i == 3 ? 0.3 : 0.2, .beta = 0.5);
        if (i == 3)
            output(b, gate);
        xcc_value *y = i == 0 ? APPLY(Mul, y, .a = XCC_IN(x), .b = XCC_IN(gate))
                              : APPLY(Mul, y, .a = XCC_IN(gate), .b = XCC_IN(x));
        output(b,
               i == 0 ? APPLY(Add, y, .a = XCC_IN(y), .b = XCC_IN(x)) : APPLY(Add, y, .a = XCC_IN(x), .b = XCC_IN(y)));
    }
}

START_TEST(gated_residuals)
{
    compilation c;
    size_t more = 0;
    check_same_results(make_gated_residuals, &c);
    CHECK_COUNT(&c, Add, 2);
    CHECK_COUNT(&c, Mul, 4);
    for (const xcc_node *n = c.m.graph->first; n != NULL; n = n->next)
        more += xcc_is(n, XCVM_OP_Conv) && XCC_ARGS(Conv, n)->affine.count == 2;
    ck_assert_uint_eq(more, 2);
    finish(&c);
}
END_TEST

START_TEST(not_at_level_1)
{
    compilation c;
    begin(&c, 1);
    make_block(&c.b);
    passes(&c);
    CHECK_NODES(&c, 7);
    finish(&c);
}
END_TEST

Suite *suite_compiler_fuse_ops(void)
{
    Suite *suite = suite_create("compiler/fuse_ops");
    TCase *tests = tcase_create("fuse_ops");
    tcase_add_test(tests, residual_block);
    tcase_add_test(tests, channel_arithmetic);
    tcase_add_test(tests, unmergeable);
    tcase_add_test(tests, products);
    tcase_add_test(tests, transposed_products);
    tcase_add_test(tests, padded_convolutions);
    tcase_add_test(tests, pools);
    tcase_add_test(tests, outer_product);
    tcase_add_test(tests, rank_one_updates);
    tcase_add_test(tests, every_activation);
    tcase_add_test(tests, scaled_activations);
    tcase_add_test(tests, gated_residuals);
    tcase_add_test(tests, not_at_level_1);
    suite_add_tcase(suite, tests);
    return suite;
}

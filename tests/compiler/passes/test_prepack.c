/* Tests of the pass prepack: packed products and recurrent networks. */
#include "tests/compiler/support.h"

#define APPLY(Name, result, ...) must(b, xcc_apply(b, Name, result, __VA_ARGS__))

static void make_products(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 3, DIMS(2, -1, 6)), *w = weights(b, 2, DIMS(6, 20));
    xcc_value *y = APPLY(MatMul, y, .a = XCC_IN(x), .b = XCC_IN(w));
    output(b, APPLY(Add, y, .a = XCC_IN(y), .b = XCC_IN(weights(b, 1, DIMS(20)))));

    /* The same constant, transposed and scaled. */
    xcc_value *z = input(b, "z", XCVM_F32, 2, DIMS(3, 20));
    y = APPLY(Gemm, y, .a = XCC_IN(z), .b = XCC_IN(w), .c = XCC_IN(number(b, 2)), .alpha = 0.5, .beta = 3, .transB = 1);
    output(b, y);
    y = APPLY(Gemm, y, .a = XCC_IN(z), .b = XCC_IN(weights(b, 2, DIMS(9, 20))), .c = XCC_IN(weights(b, 2, DIMS(1, 9))),
              .alpha = 0.5, .beta = 3, .transB = 1);
    output(b, APPLY(Relu, y, .x = XCC_IN(y)));

    /* A bias that is no constant, and one that is a matrix. */
    xcc_value *v = weights(b, 2, DIMS(20, 17));
    output(b, APPLY(Gemm, y, .a = XCC_IN(z), .b = XCC_IN(v), .c = XCC_IN(input(b, "c", XCVM_F32, 1, DIMS(17))),
                    .alpha = 1, .beta = 1));
    output(b, APPLY(Gemm, y, .a = XCC_IN(z), .b = XCC_IN(v), .c = XCC_IN(input(b, "m", XCVM_F32, 2, DIMS(3, 17))),
                    .alpha = 1, .beta = 1));
    /* One row for a vector. */
    output(b, APPLY(MatMul, y, .a = XCC_IN(input(b, "r", XCVM_F32, 1, DIMS(20))), .b = XCC_IN(v)));
}

START_TEST(products)
{
    compilation c;
    check_same_results(make_products, &c);
    CHECK_COUNT(&c, PackedGemm, 5);
    CHECK_COUNT(&c, Gemm, 1); /* of few columns */
    CHECK_COUNT(&c, MatMul, 0);
    CHECK_COUNT(&c, Add, 0);
    const xcvm_value *shared = NULL;
    for (const xcc_node *n = c.m.graph->first; n != NULL; n = n->next)
        if (xcc_is(n, XCVM_OP_PackedGemm) && XCC_ARGS(PackedGemm, n)->columns == 17) {
            ck_assert(shared == NULL || XCC_ARGS(PackedGemm, n)->w == shared);
            shared = XCC_ARGS(PackedGemm, n)->w;
        }
    finish(&c);
}
END_TEST

/* ConvTranspose of images of one position, of one and two axes; and of more positions, cut or dilated, which stays. */
static void make_points(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 4, DIMS(-1, 6, 1, 1)), *l = input(b, "l", XCVM_F32, 3, DIMS(2, 6, 1));
    xcc_value *w = weights(b, 4, DIMS(6, 5, 4, 3)), *v = weights(b, 3, DIMS(6, 3, 4));
    output(b, APPLY(ConvTranspose, y, .x = XCC_IN(x), .w = XCC_IN(w), .b = XCC_IN(weights(b, 1, DIMS(5))),
                    .strides = XCC_INTS(2, 1), .pads = XCC_INTS(0, 0, 0, 0), .dilations = XCC_INTS(1, 1),
                    .output_padding = XCC_INTS(0, 0), .group = 1));
    output(b, APPLY(ConvTranspose, y, .x = XCC_IN(l), .w = XCC_IN(v), .strides = XCC_INTS(1), .pads = XCC_INTS(0, 0),
                    .dilations = XCC_INTS(1), .output_padding = XCC_INTS(0), .group = 1));
    output(b, APPLY(ConvTranspose, y, .x = XCC_IN(l), .w = XCC_IN(v), .strides = XCC_INTS(1), .pads = XCC_INTS(1, 0),
                    .dilations = XCC_INTS(1), .output_padding = XCC_INTS(0), .group = 1));
    output(b, APPLY(ConvTranspose, y, .x = XCC_IN(l), .w = XCC_IN(v), .strides = XCC_INTS(1), .pads = XCC_INTS(0, 0),
                    .dilations = XCC_INTS(1), .output_padding = XCC_INTS(0), .group = 2));
    output(b, APPLY(ConvTranspose, y, .x = XCC_IN(l), .w = XCC_IN(v), .strides = XCC_INTS(1), .pads = XCC_INTS(0, 3),
                    .dilations = XCC_INTS(2), .output_padding = XCC_INTS(0), .group = 1));
    xcc_value *p = input(b, "p", XCVM_F32, 3, DIMS(1, 6, 2));
    output(b, APPLY(ConvTranspose, y, .x = XCC_IN(p), .w = XCC_IN(v), .strides = XCC_INTS(1), .pads = XCC_INTS(0, 0),
                    .dilations = XCC_INTS(1), .output_padding = XCC_INTS(0), .group = 1));
}

START_TEST(points)
{
    compilation c;
    check_same_results(make_points, &c);
    CHECK_COUNT(&c, PackedGemm, 2);
    CHECK_COUNT(&c, ConvTranspose, 4);
    finish(&c);
}
END_TEST

static void make_unpackable(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(6, 3)), *w = weights(b, 2, DIMS(6, 20));
    output(b, APPLY(Gemm, y, .a = XCC_IN(x), .b = XCC_IN(w), .alpha = 1, .beta = 1, .transA = 1));
    /* The bias of a row. */
    xcc_value *p = input(b, "p", XCVM_F32, 2, DIMS(3, 6));
    output(b, APPLY(Gemm, y, .a = XCC_IN(p), .b = XCC_IN(w), .c = XCC_IN(weights(b, 2, DIMS(3, 1))), .alpha = 1,
                    .beta = 1));
    output(b, APPLY(MatMul, y, .a = XCC_IN(p), .b = XCC_IN(input(b, "q", XCVM_F32, 2, DIMS(6, 20)))));
    /* A large constant that another node reads unpacked. */
    xcc_value *large = weights(b, 2, DIMS(30000, 9));
    output(b, APPLY(MatMul, y, .a = XCC_IN(input(b, "l", XCVM_F32, 2, DIMS(1, 30000))), .b = XCC_IN(large)));
    output(b, APPLY(Add, y, .a = XCC_IN(large), .b = XCC_IN(input(b, "i", XCVM_F32, 0, NULL))));
}

/* A large constant whose rows are looked up, such as an embedding with the weights of the last product. */
static void make_tied(xcc_builder *b)
{
    xcc_value *large = weights(b, 2, DIMS(30000, 9)), *index = must(b, xcc_scalar(b->graph, XCVM_I64, 7));
    output(b, APPLY(Gemm, y, .a = XCC_IN(input(b, "x", XCVM_F32, 2, DIMS(2, 9))), .b = XCC_IN(large), .alpha = 1,
                    .beta = 1, .transB = 1));
    output(b,
           APPLY(Gather, y, .x = XCC_IN(large),
                 .indices = XCC_IN(APPLY(Add, y, .a = XCC_IN(index), .b = XCC_IN(input(b, "i", XCVM_I64, 0, NULL))))));
}

/* A ConvTranspose of few outputs with adjacent windows becomes a convolution, whose channels become positions. */
static void make_side_by_side(xcc_builder *b)
{
    for (int i = 0; i < 4; i++) {
        const int64_t outputs = i == 1 ? 3 : 1, side = i == 2 ? 4 : 2, stride = i == 3 ? 1 : side;
        xcc_value *x = input(b, i == 0 ? "x" : i == 1 ? "y" : i == 2 ? "z" : "t", XCVM_F32, 4, DIMS(-1, 6, -2, -3));
        output(b, APPLY(ConvTranspose, y, .x = XCC_IN(x), .w = XCC_IN(weights(b, 4, DIMS(6, outputs, side, side))),
                        .b = XCC_IN(i == 2 ? NULL : weights(b, 1, &outputs)), .strides = XCC_INTS(stride, stride),
                        .pads = XCC_INTS(0, 0, 0, 0), .dilations = XCC_INTS(1, 1), .output_padding = XCC_INTS(0, 0),
                        .group = 1));
    }
}

START_TEST(side_by_side)
{
    compilation c;
    check_same_results(make_side_by_side, &c);
    CHECK_COUNT(&c, DepthToSpace, 3);
    CHECK_COUNT(&c, ConvTranspose, 1);
    finish(&c);
}
END_TEST

START_TEST(unpackable)
{
    compilation c;
    check_same_results(make_unpackable, &c);
    CHECK_COUNT(&c, PackedGemm, 0);
    finish(&c);
}
END_TEST

START_TEST(tied)
{
    compilation c;
    check_same_results(make_tied, &c);
    CHECK_COUNT(&c, PackedGemm, 1);
    CHECK_COUNT(&c, Gather, 1);
    finish(&c);
}
END_TEST

/* A transformer block: products add the residuals. */
static void make_residual(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 3, DIMS(2, 4, 16));
    xcc_value *y = APPLY(MatMul, y, .a = XCC_IN(x), .b = XCC_IN(weights(b, 2, DIMS(16, 32))));
    y = APPLY(Gelu, y, .x = XCC_IN(y), .approximate = XCVM_GELU_none);
    y = APPLY(MatMul, y, .a = XCC_IN(y), .b = XCC_IN(weights(b, 2, DIMS(32, 16))));
    y = APPLY(Add, y, .a = XCC_IN(weights(b, 1, DIMS(16))), .b = XCC_IN(y));
    y = APPLY(Add, y, .a = XCC_IN(x), .b = XCC_IN(y));
    output(b, y);
    /* Twice needed, so not part of the sum. */
    xcc_value *twice = APPLY(MatMul, y, .a = XCC_IN(y), .b = XCC_IN(weights(b, 2, DIMS(16, 16))));
    output(b, APPLY(Add, y, .a = XCC_IN(y), .b = XCC_IN(twice)));
    output(b, twice);
}

START_TEST(residual)
{
    compilation c;
    check_same_results(make_residual, &c);
    CHECK_COUNT(&c, PackedGemm, 3);
    CHECK_COUNT(&c, Gelu, 0);
    CHECK_COUNT(&c, Add, 1);
    finish(&c);
}
END_TEST

enum { HIDDEN = 18, INPUTS = 5 };

static void make_recurrent(xcc_builder *b)
{
    static const xcvm_text names[] = {{"Sigmoid", 7}, {"Tanh", 4}, {"Tanh", 4},
                                      {"Sigmoid", 7}, {"Tanh", 4}, {"Tanh", 4}};
    xcc_value *x = input(b, "x", XCVM_F32, 3, DIMS(-1, 2, INPUTS)), *h = input(b, "h", XCVM_F32, 3, DIMS(2, 2, HIDDEN));
#define WEIGHTS(gates)                                                                                                 \
    .w = XCC_IN(weights(b, 3, DIMS(2, (gates)*HIDDEN, INPUTS))),                                                       \
    .r = XCC_IN(weights(b, 3, DIMS(2, (gates)*HIDDEN, HIDDEN))),                                                       \
    .b = XCC_IN(weights(b, 2, DIMS(2, (gates)*HIDDEN * 2))), .hidden_size = HIDDEN,                                    \
    .direction = XCVM_DIRECTION_bidirectional
    output(b, APPLY(LSTM, y, .x = XCC_IN(x), WEIGHTS(4), .activations = {names, 6}, .initial_c = XCC_IN(h),
                    .p = XCC_IN(weights(b, 2, DIMS(2, 3 * HIDDEN)))));
    output(b, APPLY(GRU, y, .x = XCC_IN(x), WEIGHTS(3),
                    .activations = {(const xcvm_text[]){names[0], names[1], names[0], names[1]}, 4}));
    output(b, APPLY(GRU, y_h, .x = XCC_IN(x), WEIGHTS(3), .linear_before_reset = 1, .initial_h = XCC_IN(h),
                    .activations = {(const xcvm_text[]){names[0], names[1], names[0], names[1]}, 4}));
    output(b, APPLY(RNN, y_h, .x = XCC_IN(x), WEIGHTS(1), .activations = {(const xcvm_text[]){names[1], names[1]}, 2}));
#undef WEIGHTS
    /* Weights that are not known. */
    output(b, APPLY(RNN, y_h, .x = XCC_IN(x), .w = XCC_IN(weights(b, 3, DIMS(1, HIDDEN, INPUTS))),
                    .r = XCC_IN(input(b, "r", XCVM_F32, 3, DIMS(1, HIDDEN, HIDDEN))), .hidden_size = HIDDEN,
                    .activations = {names + 1, 1}));
}

START_TEST(recurrent)
{
    compilation c;
    check_same_results(make_recurrent, &c);
    CHECK_COUNT(&c, PackedLSTM, 1);
    CHECK_COUNT(&c, PackedGRU, 2);
    CHECK_COUNT(&c, PackedRNN, 1);
    CHECK_COUNT(&c, PackedGemm, 4);
    CHECK_COUNT(&c, RNN, 1);
    CHECK_COUNT(&c, GRU, 0);
    CHECK_COUNT(&c, LSTM, 0);
    finish(&c);
}
END_TEST

Suite *suite_compiler_prepack(void);
Suite *suite_compiler_prepack(void)
{
    Suite *suite = suite_create("compiler_prepack");
    TCase *tc = tcase_create("pack");
    tcase_add_test(tc, products);
    tcase_add_test(tc, points);
    tcase_add_test(tc, side_by_side);
    tcase_add_test(tc, unpackable);
    tcase_add_test(tc, tied);
    tcase_add_test(tc, residual);
    tcase_add_test(tc, recurrent);
    suite_add_tcase(suite, tc);
    return suite;
}

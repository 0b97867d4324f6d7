/* Tests of the pass integer: quantized graphs give the same results in integers. Scales are powers of two, so that
 * floats are exact. Unsupported forms do not change. */
#include "tests/compiler/support.h"
#include "compiler/ir/compilation.h"

#define APPLY(Name, result, ...) must(b, xcc_apply(b, Name, result, __VA_ARGS__))

static bool is_signed; /* of activations */

static xcc_value *bytes(xcc_builder *b, xcvm_dtype dtype, int rank, const int64_t *dims, unsigned seed)
{
    size_t count, size;
    ck_assert(xcvm_tensor_size(dtype, rank, dims, &count, &size));
    uint8_t *data = malloc(count + 1);
    for (size_t i = 0; i < count; i++)
        data[i] = (uint8_t)((test_random(&seed) >> 24) % 15 - 7 + (dtype == XCVM_U8 ? 128 : 0));
    xcc_value *v = must(b, xcc_constant(b->graph, NULL, dtype, rank, dims, data, false));
    free(data);
    return v;
}

/* A zero point as of u8. */
static xcc_value *zero_of(xcc_builder *b, int zero)
{
    const uint8_t byte = (uint8_t)(is_signed ? zero - 128 : zero);
    return must(b, xcc_constant(b->graph, NULL, is_signed ? XCVM_I8 : XCVM_U8, 0, NULL, &byte, false));
}

static xcc_value *quantized(xcc_builder *b, xcc_value *x, double scale, int zero)
{
    return APPLY(QuantizeLinear, y, .x = XCC_IN(x), .scale = XCC_IN(number(b, scale)),
                 .zero_point = XCC_IN(zero_of(b, zero)), .axis = 1, .saturate = 1);
}

static xcc_value *rounded(xcc_builder *b, xcc_value *x, double scale, int zero)
{
    xcc_value *q = quantized(b, x, scale, zero);
    return APPLY(DequantizeLinear, y, .x = XCC_IN(q), .scale = XCC_IN(number(b, scale)),
                 .zero_point = XCC_IN(zero_of(b, zero)), .axis = 1);
}

/* Weights of s8, or of u8 around 128, by a scale for each output along `axis`. */
static xcc_value *scaled(xcc_builder *b, xcvm_dtype dtype, int rank, const int64_t *dims, int axis)
{
    float scales[64];
    uint8_t zeros[64];
    ck_assert(dims[axis] <= 64);
    for (int64_t i = 0; i < dims[axis]; i++) {
        scales[i] = i % 3 == 0 ? 0.0625f : 0.03125f;
        zeros[i] = dtype == XCVM_U8 ? 128 : 0;
    }
    xcc_value *q = bytes(b, dtype, rank, dims, (unsigned)dims[axis]);
    xcc_value *zero = must(b, xcc_constant(b->graph, NULL, dtype, 1, &dims[axis], zeros, false));
    return APPLY(DequantizeLinear, y, .x = XCC_IN(q), .scale = XCC_IN(floats(b, 1, &dims[axis], scales)),
                 .zero_point = XCC_IN(zero), .axis = axis);
}

static xcc_value *bias(xcc_builder *b, int64_t outputs)
{
    int32_t numbers[64];
    for (int64_t i = 0; i < outputs; i++)
        numbers[i] = (int32_t)(i * 37 % 201 - 100);
    xcc_value *q = must(b, xcc_constant(b->graph, NULL, XCVM_I32, 1, &outputs, numbers, false));
    return APPLY(DequantizeLinear, y, .x = XCC_IN(q), .scale = XCC_IN(number(b, 0.0078125)), .axis = 0);
}

static xcc_value *conv(xcc_builder *b, xcc_value *x, xcvm_dtype dtype, const int64_t *dims, int64_t group, int64_t pad,
                       int64_t stride)
{
    xcc_value *w = scaled(b, dtype, 4, dims, 0);
    return APPLY(Conv, y, .x = XCC_IN(x), .w = XCC_IN(w), .b = XCC_IN(bias(b, dims[0])),
                 .strides = XCC_INTS(stride, stride), .pads = XCC_INTS(pad, pad, pad, pad), .dilations = XCC_INTS(1, 1),
                 .group = group);
}

static void make_network(xcc_builder *b)
{
    xcc_value *x = rounded(b, input(b, "x", XCVM_F32, 4, DIMS(-1, 3, 9, 8)), 0.03125, 100);
    xcc_value *y = conv(b, x, XCVM_I8, DIMS(20, 3, 3, 3), 1, 1, 1);
    x = rounded(b, APPLY(Relu, y, .x = XCC_IN(y)), 0.0625, 3);
    y = conv(b, x, XCVM_U8, DIMS(20, 1, 3, 3), 20, 1, 2);
    y = rounded(b, APPLY(Clip, y, .x = XCC_IN(y), .min = XCC_IN(number(b, -1)), .max = XCC_IN(number(b, 5))), 0.03125,
                90);
    y = rounded(b, APPLY(Sigmoid, y, .x = XCC_IN(y)), 0.00390625, 0);
    xcc_value *z = rounded(b, conv(b, x, XCVM_I8, DIMS(20, 20, 1, 1), 1, 0, 2), 0.0625, 128);
    x = APPLY(Add, y, .a = XCC_IN(y), .b = XCC_IN(z));
    x = rounded(b, APPLY(Relu, y, .x = XCC_IN(x)), 0.0625, 0);
    y = APPLY(Mul, y, .a = XCC_IN(x), .b = XCC_IN(y));
    y = rounded(b, y, 0.0625, 7);
    xcc_value *pooled = APPLY(MaxPool, y, .x = XCC_IN(x), .kernel_shape = XCC_INTS(3, 3), .strides = XCC_INTS(1, 1),
                              .pads = XCC_INTS(1, 1, 1, 1), .dilations = XCC_INTS(1, 1));
    const xcvm_value *parts[] = {XCC_IN(rounded(b, pooled, 0.0625, 0)), XCC_IN(y), XCC_IN(x)};
    x = rounded(b, APPLY(Concat, y, .xs = {parts, 3}, .axis = 1), 0.125, 11);
    x = rounded(b, conv(b, x, XCVM_I8, DIMS(32, 30, 2, 2), 2, 0, 1), 0.25, 120);
    x = APPLY(AveragePool, y, .x = XCC_IN(x), .kernel_shape = XCC_INTS(2, 2), .strides = XCC_INTS(2, 1),
              .pads = XCC_INTS(0, 0, 0, 0), .dilations = XCC_INTS(1, 1));
    x = rounded(b, x, 0.25, 128);
    x = APPLY(Slice, y, .x = XCC_IN(x), .starts = XCC_IN(ints(b, 1, DIMS(0))), .ends = XCC_IN(ints(b, 1, DIMS(1))),
              .axes = XCC_IN(ints(b, 1, DIMS(2))));
    x = rounded(b, x, 0.25, 128);
    x = APPLY(Slice, y, .x = XCC_IN(x), .starts = XCC_IN(ints(b, 1, DIMS(0))), .ends = XCC_IN(ints(b, 1, DIMS(2))),
              .axes = XCC_IN(ints(b, 1, DIMS(3))));
    x = rounded(b, x, 0.25, 128);
    x = APPLY(ReduceMean, y, .x = XCC_IN(x), .axes = XCC_IN(ints(b, 2, DIMS(2, -1))), .keepdims = 1);
    x = rounded(b, APPLY(Flatten, y, .x = XCC_IN(rounded(b, x, 0.125, 128)), .axis = 1), 0.125, 128);
    y = APPLY(MatMul, y, .a = XCC_IN(x), .b = XCC_IN(scaled(b, XCVM_I8, 2, DIMS(32, 19), 1)));
    y = APPLY(Add, y, .a = XCC_IN(y), .b = XCC_IN(bias(b, 19)));
    output(b, quantized(b, y, 0.25, 128));
    output(b, APPLY(Gemm, y, .a = XCC_IN(x), .b = XCC_IN(scaled(b, XCVM_I8, 2, DIMS(5, 32), 0)),
                    .c = XCC_IN(bias(b, 5)), .alpha = 1, .beta = 1, .transB = 1));
}

START_TEST(network)
{
    is_signed = _i != 0;
    compilation c;
    check_same_results(make_network, &c);
    CHECK_COUNT(&c, QuantizedConv, 3);
    CHECK_COUNT(&c, QuantizedDepthwiseConv, 1);
    CHECK_COUNT(&c, QuantizedGemm, 2);
    CHECK_COUNT(&c, QuantizedAdd, 1);
    CHECK_COUNT(&c, QuantizedMul, 1);
    CHECK_COUNT(&c, QuantizedMaxPool, 1);
    CHECK_COUNT(&c, QuantizedAveragePool, 2);
    /* At the edges alone. */
    CHECK_COUNT(&c, QuantizeLinear, 1);
    CHECK_COUNT(&c, DequantizeLinear, 0);
    ck_assert_uint_eq(c.m.compilation->integers.made, 6);
    ck_assert_uint_eq(c.m.compilation->weight_bytes_before, (540 + 180 + 400 + 3840 + 608 + 160) * sizeof(float));
    ck_assert_uint_ge(c.m.compilation->weight_bytes_after, 540 + 180 + 400 + 3840 + 608 + 160);
    ck_assert_uint_lt(c.m.compilation->weight_bytes_after, c.m.compilation->weight_bytes_before);
    finish(&c);
}
END_TEST

START_TEST(never)
{
    compilation c;
    is_signed = false;
    begin(&c, 2);
    c.options.quantized.integers = XCC_INTEGER_NEVER;
    check_results(make_network, &c);
    CHECK_COUNT(&c, QuantizedConv, 0);
    CHECK_COUNT(&c, QuantizedAdd, 0);
    ck_assert_uint_eq(c.m.compilation->integers.made, 0);
    finish(&c);
}
END_TEST

/* Invalid scales, zero points of weights, and sums that might exceed 32 bits. */
static void make_unfit(xcc_builder *b)
{
    is_signed = false;
    xcc_value *x = rounded(b, input(b, "x", XCVM_F32, 2, DIMS(2, 16)), 0.03125, 100);
    xcc_value *w = bytes(b, XCVM_U8, 2, DIMS(16, 4), 1);
    const uint8_t three = 3;
    xcc_value *zero = must(b, xcc_constant(b->graph, NULL, XCVM_U8, 0, NULL, &three, false));
    w = APPLY(DequantizeLinear, y, .x = XCC_IN(w), .scale = XCC_IN(number(b, 0.5)), .zero_point = XCC_IN(zero));
    output(b, quantized(b, APPLY(MatMul, y, .a = XCC_IN(x), .b = XCC_IN(w)), 8, 100));
    w = bytes(b, XCVM_I8, 2, DIMS(16, 4), 1);
    w = APPLY(DequantizeLinear, y, .x = XCC_IN(w), .scale = XCC_IN(number(b, NAN)));
    output(b, quantized(b, APPLY(MatMul, y, .a = XCC_IN(x), .b = XCC_IN(w)), 8, 100));
    w = bytes(b, XCVM_I8, 2, DIMS(16, 4), 1);
    w = APPLY(DequantizeLinear, y, .x = XCC_IN(w), .scale = XCC_IN(number(b, 0.5)));
    output(b, quantized(b,
                        APPLY(Gemm, y, .a = XCC_IN(x), .b = XCC_IN(w),
                              .c = XCC_IN(floats(b, 1, DIMS(4), FLOATS(1, 2e9f, 0, 0))), .alpha = 1, .beta = 1),
                        8, 100));
    xcc_value *y = APPLY(MatMul, y, .a = XCC_IN(x), .b = XCC_IN(w));
    output(b, quantized(b, y, 0, 100));
}

START_TEST(unfit)
{
    compilation c;
    check_same_results(make_unfit, &c);
    /* Operators with float results, to which any bias can be added. */
    CHECK_COUNT(&c, QuantizedGemm, 2);
    finish(&c);
}
END_TEST

/* Scales whose product or quotient overflows f32: bytes that represent 0 give 0, not 0 times infinity. */
static void make_beyond(xcc_builder *b)
{
    is_signed = false;
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(2, 16));
    xcc_value *far = rounded(b, x, 1e30, 100), *near = rounded(b, x, 1e-30, 100);
    for (int i = 0; i < 2; i++) {
        xcc_value *w = bytes(b, XCVM_I8, 2, DIMS(16, 4), 1);
        w = APPLY(DequantizeLinear, y, .x = XCC_IN(w), .scale = XCC_IN(number(b, i == 0 ? 1e30 : 1e-30)));
        output(b, APPLY(MatMul, y, .a = XCC_IN(i == 0 ? far : near), .b = XCC_IN(w)));
        output(b, quantized(b, APPLY(MatMul, y, .a = XCC_IN(i == 0 ? far : near), .b = XCC_IN(w)), 1, 100));
    }
    output(b, quantized(b, APPLY(Mul, y, .a = XCC_IN(far), .b = XCC_IN(far)), 1, 100));
    output(b, quantized(b, APPLY(Add, y, .a = XCC_IN(far), .b = XCC_IN(near)), 1e-30, 100));
    xcc_value *images = rounded(b, input(b, "images", XCVM_F32, 4, DIMS(1, 2, 3, 3)), 1e30, 100);
    output(b, quantized(
                  b, APPLY(ReduceMean, y, .x = XCC_IN(images), .axes = XCC_IN(ints(b, 2, DIMS(2, 3))), .keepdims = 1),
                  1e-30, 100));
}

START_TEST(beyond)
{
    compilation c;
    check_same_results(make_beyond, &c);
    CHECK_COUNT(&c, QuantizedGemm, 0);
    CHECK_COUNT(&c, QuantizedMul, 0);
    CHECK_COUNT(&c, QuantizedAdd, 0);
    CHECK_COUNT(&c, QuantizedAveragePool, 0);
    finish(&c);
}
END_TEST

/* As many numbers as outputs, but one per row, so they are no bias. */
static void make_column(xcc_builder *b)
{
    is_signed = false;
    xcc_value *x = rounded(b, input(b, "x", XCVM_F32, 2, DIMS(4, 16)), 0.03125, 100);
    for (int transposed = 0; transposed < 2; transposed++) {
        xcc_value *w = scaled(b, XCVM_I8, 2, transposed ? DIMS(4, 16) : DIMS(16, 4), transposed ? 0 : 1);
        xcc_value *y =
            APPLY(Gemm, y, .a = XCC_IN(x), .b = XCC_IN(w), .c = XCC_IN(floats(b, 2, DIMS(4, 1), FLOATS(-3, 1, 0, 2))),
                  .alpha = 1, .beta = 1, .transB = transposed);
        output(b, transposed ? y : quantized(b, y, 0.125, 100));
    }
}

START_TEST(column)
{
    compilation c;
    check_same_results(make_column, &c);
    CHECK_COUNT(&c, QuantizedGemm, 0);
    finish(&c);
}
END_TEST

/* x quantized by its own range, as bytes, a scale and a zero point. */
static xcc_value *dynamic(xcc_builder *b, xcc_value *x, xcc_value **scale, xcc_value **zero)
{
    xcc_value *q = must(b, xcc_value_create(b->graph, NULL));
    *scale = must(b, xcc_value_create(b->graph, NULL));
    *zero = must(b, xcc_value_create(b->graph, NULL));
    ck_assert_ptr_nonnull(xcc_emit(b, DynamicQuantizeLinear, .y = XCC_OUT(q), .scale = XCC_OUT(*scale),
                                   .zero_point = XCC_OUT(*zero), .x = XCC_IN(x)));
    return q;
}

static xcc_value *as_floats(xcc_builder *b, xcc_value *sums)
{
    return APPLY(Cast, y, .x = XCC_IN(sums), .to = XCVM_F32, .saturate = 1);
}

static xcc_value *integer_product(xcc_builder *b, xcc_value *a, xcc_value *w, xcc_value *a_zero, xcc_value *w_zero)
{
    return APPLY(MatMulInteger, y, .a = XCC_IN(a), .b = XCC_IN(w), .a_zero_point = XCC_IN(a_zero),
                 .b_zero_point = XCC_IN(w_zero));
}

static xcc_value *byte(xcc_builder *b, xcvm_dtype dtype, int number)
{
    const uint8_t bits = (uint8_t)number;
    return must(b, xcc_constant(b->graph, NULL, dtype, 0, NULL, &bits, false));
}

/* Products by bytes whose scales are found as the model runs: numbers that are no powers of two, to the same bits. */
static void make_dynamic(xcc_builder *b)
{
    xcc_value *scale, *zero, *x = input(b, "x", XCVM_F32, 3, DIMS(-1, 2, 13));
    xcc_value *q = dynamic(b, x, &scale, &zero);
    const float numbers[] = {0.3f, 0.7f, 1.1f, 0.013f, 3.3f}, added[] = {-1.7f, 0.3f, 100.1f, 1e-3f, 0};
    /* A scale for each column, and a vector that is added. */
    xcc_value *each = APPLY(Mul, y, .a = XCC_IN(floats(b, 1, DIMS(5), numbers)), .b = XCC_IN(scale));
    xcc_value *sums = integer_product(b, q, bytes(b, XCVM_I8, 2, DIMS(13, 5), 3), zero, NULL);
    xcc_value *y = APPLY(Mul, y, .a = XCC_IN(as_floats(b, sums)), .b = XCC_IN(each));
    output(b, APPLY(Add, y, .a = XCC_IN(floats(b, 1, DIMS(5), added)), .b = XCC_IN(y)));
    /* One for all, u8 around 128, and a vector that is found as the model runs. */
    sums = integer_product(b, q, bytes(b, XCVM_U8, 2, DIMS(13, 20), 4), zero, byte(b, XCVM_U8, 128));
    y = APPLY(Mul, y, .a = XCC_IN(scale), .b = XCC_IN(as_floats(b, sums)));
    output(b, APPLY(Add, y, .a = XCC_IN(y), .b = XCC_IN(input(b, "v", XCVM_F32, 1, DIMS(20)))));
    /* Without a zero point, and with a constant one. */
    sums = integer_product(b, q, bytes(b, XCVM_I8, 2, DIMS(13, 5), 5), NULL, NULL);
    output(b, APPLY(Mul, y, .a = XCC_IN(as_floats(b, sums)), .b = XCC_IN(number(b, 0.1))));
    sums = integer_product(b, q, bytes(b, XCVM_I8, 2, DIMS(13, 5), 6), byte(b, XCVM_U8, 77), byte(b, XCVM_I8, 0));
    output(b, APPLY(Mul, y, .a = XCC_IN(as_floats(b, sums)), .b = XCC_IN(each)));
}

START_TEST(dynamic_products)
{
    compilation c;
    check_same_results(make_dynamic, &c);
    CHECK_COUNT(&c, QuantizedGemm, 4);
    CHECK_COUNT(&c, MatMulInteger, 0);
    CHECK_COUNT(&c, Add, 0);
    finish(&c);
}
END_TEST

/* Weights around another zero point, activations of s8, sums that something else reads, scales of rows, sums that
 * stay integers. */
static void make_unfit_dynamic(xcc_builder *b)
{
    xcc_value *scale, *zero, *x = input(b, "x", XCVM_F32, 3, DIMS(3, 2, 13));
    xcc_value *q = dynamic(b, x, &scale, &zero), *sums, *s8;
    sums = integer_product(b, q, bytes(b, XCVM_U8, 2, DIMS(13, 5), 7), zero, byte(b, XCVM_U8, 3));
    output(b, APPLY(Mul, y, .a = XCC_IN(as_floats(b, sums)), .b = XCC_IN(scale)));
    s8 = APPLY(Cast, y, .x = XCC_IN(input(b, "s", XCVM_F32, 2, DIMS(2, 13))), .to = XCVM_I8, .saturate = 1);
    sums = integer_product(b, s8, bytes(b, XCVM_I8, 2, DIMS(13, 5), 8), NULL, NULL);
    output(b, APPLY(Mul, y, .a = XCC_IN(as_floats(b, sums)), .b = XCC_IN(scale)));
    sums = integer_product(b, q, bytes(b, XCVM_I8, 2, DIMS(13, 5), 9), zero, NULL);
    output(b, sums);
    output(b, APPLY(Mul, y, .a = XCC_IN(as_floats(b, sums)), .b = XCC_IN(scale)));
    sums = integer_product(b, q, bytes(b, XCVM_I8, 2, DIMS(13, 5), 10), zero, NULL);
    output(b, APPLY(Mul, y, .a = XCC_IN(as_floats(b, sums)), .b = XCC_IN(input(b, "rows", XCVM_F32, 2, DIMS(2, 1)))));
    sums = integer_product(b, q, bytes(b, XCVM_I8, 2, DIMS(13, 5), 11), zero, NULL);
    output(b, APPLY(Mul, y, .a = XCC_IN(sums), .b = XCC_IN(sums)));
}

START_TEST(unfit_dynamic_products)
{
    compilation c;
    check_same_results(make_unfit_dynamic, &c);
    CHECK_COUNT(&c, QuantizedGemm, 0);
    CHECK_COUNT(&c, MatMulInteger, 5);
    finish(&c);
}
END_TEST

/* Pointwise convolutions whose results stay floats: one whose means alone are wanted, one with padding, which stays,
 * and one whose images are. */
static void make_floats(xcc_builder *b)
{
    xcc_value *x = rounded(b, input(b, "x", XCVM_F32, 4, DIMS(-1, 12, 5, 6)), 0.03125, 100);
    xcc_value *y = conv(b, x, XCVM_I8, DIMS(20, 12, 1, 1), 1, 0, 1);
    y = APPLY(Relu, y, .x = XCC_IN(y));
    output(b, APPLY(ReduceMean, y, .x = XCC_IN(y), .axes = XCC_IN(ints(b, 2, DIMS(-1, 2))), .keepdims = 1));
    output(b, conv(b, x, XCVM_I8, DIMS(20, 12, 1, 1), 1, 1, 1));
    y = conv(b, x, XCVM_U8, DIMS(20, 12, 1, 1), 1, 0, 1);
    output(b, APPLY(Relu, y, .x = XCC_IN(y)));
}

START_TEST(floats_of_images)
{
    is_signed = _i / 2 != 0;
    compilation c;
    begin(&c, 2);
    c.options.quantized.integers = _i % 2 != 0 ? XCC_INTEGER_ALWAYS : XCC_INTEGER_AUTO;
    check_results(make_floats, &c);
    /* With so few channels integers are used on request only. */
    CHECK_COUNT(&c, QuantizedGemm, _i % 2 != 0 ? 2 : 0);
    CHECK_COUNT(&c, Transpose, _i % 2 != 0 ? 2 : 0);
    finish(&c);
}
END_TEST

/* One of floats and one direction, one of bytes and both, and one whose weights have zero points, which stays. */
static void make_recurrences(xcc_builder *b)
{
    enum { INPUTS = 6, HIDDEN = 5, ROWS = 4 * HIDDEN };
    float biases[4 * ROWS];
    for (int i = 0; i < 4 * ROWS; i++)
        biases[i] = (float)(i % 11 - 5) / 16;
    xcc_value *x = input(b, "x", XCVM_F32, 3, DIMS(4, 2, INPUTS));
    xcc_value *w = scaled(b, XCVM_I8, 3, DIMS(1, ROWS, INPUTS), 1);
    xcc_value *bias = floats(b, 2, DIMS(1, 2 * ROWS), biases);
    output(b,
           APPLY(LSTM, y, .x = XCC_IN(x), .w = XCC_IN(w), .r = XCC_IN(scaled(b, XCVM_U8, 3, DIMS(1, ROWS, HIDDEN), 1)),
                 .b = XCC_IN(bias), .hidden_size = HIDDEN));
    xcc_value *both = scaled(b, XCVM_I8, 3, DIMS(2, ROWS, INPUTS), 1);
    xcc_value *r = scaled(b, XCVM_I8, 3, DIMS(2, ROWS, HIDDEN), 1);
    is_signed = true;
    output(b, APPLY(LSTM, y, .x = XCC_IN(rounded(b, x, 0.03125, 100)), .w = XCC_IN(both), .r = XCC_IN(r),
                    .b = XCC_IN(floats(b, 2, DIMS(2, 2 * ROWS), biases)), .hidden_size = HIDDEN,
                    .direction = XCVM_DIRECTION_bidirectional));
    const uint8_t three = 3;
    xcc_value *zero = must(b, xcc_constant(b->graph, NULL, XCVM_U8, 0, NULL, &three, false));
    w = APPLY(DequantizeLinear, y, .x = XCC_IN(bytes(b, XCVM_U8, 3, DIMS(1, ROWS, INPUTS), 1)),
              .scale = XCC_IN(number(b, 0.00390625)), .zero_point = XCC_IN(zero));
    output(b, APPLY(LSTM, y_h, .x = XCC_IN(x), .w = XCC_IN(w),
                    .r = XCC_IN(scaled(b, XCVM_I8, 3, DIMS(1, ROWS, HIDDEN), 1)), .hidden_size = HIDDEN));
}

START_TEST(recurrences)
{
    compilation c;
    begin(&c, 2);
    c.options.quantized.integers = XCC_INTEGER_ALWAYS;
    check_results(make_recurrences, &c);
    CHECK_COUNT(&c, QuantizedLSTM, 2);
    CHECK_COUNT(&c, BlockQuantizedGemm, 1);
    CHECK_COUNT(&c, QuantizedGemm, 1);
    CHECK_COUNT(&c, PackedLSTM, 1);
    ck_assert_uint_eq(c.m.compilation->integers.made, 3);
    ck_assert_uint_eq(c.m.compilation->integers.left, 1);
    ck_assert_uint_eq(c.m.compilation->integers.slower, 0);
    finish(&c);
}
END_TEST

/* A chain of functions of any length: no rule visits all of it again. */
START_TEST(long_chain)
{
    enum { LENGTH = 300000 };
    compilation c;
    is_signed = false;
    begin(&c, 2);
    xcc_value *x = input(&c.b, "x", XCVM_F32, 1, DIMS(4));
    for (int i = 0; i < LENGTH; i++) {
        x = xcc_apply(&c.b, Neg, y, .x = XCC_IN(x));
        ck_assert_ptr_nonnull(x);
    }
    output(&c.b, quantized(&c.b, x, 0.5, 100));
    ok(&c.m, xcc_pass_integer(&c.m));
    CHECK_COUNT(&c, Neg, LENGTH);
    finish(&c);
}
END_TEST

Suite *suite_compiler_integer(void);
Suite *suite_compiler_integer(void)
{
    Suite *suite = suite_create("compiler_integer");
    TCase *tc = tcase_create("integer");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, network, 0, 2);
    tcase_add_test(tc, never);
    tcase_add_test(tc, unfit);
    tcase_add_test(tc, beyond);
    tcase_add_test(tc, column);
    tcase_add_loop_test(tc, floats_of_images, 0, 4);
    tcase_add_test(tc, recurrences);
    tcase_add_test(tc, dynamic_products);
    tcase_add_test(tc, unfit_dynamic_products);
    tcase_add_test(tc, long_chain);
    suite_add_tcase(suite, tc);
    return suite;
}

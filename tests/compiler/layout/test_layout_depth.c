/* Blocked channels of images with a depth: networks for videos against the plain layout. */
#include "compiler/layout/layout_algorithms.h"
#include "tests/compiler/support.h"

#define APPLY(Name, result, ...) must(b, xcc_apply(b, Name, result, __VA_ARGS__))

enum { SLICES = 5, SIZE = 14 };

static xcc_value *video(xcc_builder *b, const char *name, int64_t channels)
{
    return input(b, name, XCVM_F32, 5, DIMS(1, channels, SLICES, SIZE, SIZE));
}

/* Weights that keep numbers as large as they are; windows of `slices` x size x size. */
static xcc_value *conv_of(xcc_builder *b, xcc_value *x, int64_t outputs, int64_t slices, int64_t size, int64_t stride,
                          int64_t group)
{
    const int64_t channels = x->type.dims[1] / group, taps = slices * size * size, d = slices / 2, s = size / 2;
    const int64_t step = slices > 1 ? stride : 1;
    const size_t count = (size_t)(outputs * channels * taps);
    float *data = malloc(count * sizeof *data);
    for (size_t i = 0; i < count; i++)
        data[i] = sinf((float)(i * 7 + 3)) / sqrtf((float)(channels * taps));
    xcc_value *w = floats(b, 5, DIMS(outputs, channels, slices, size, size), data);
    free(data);
    return APPLY(Conv, y, .x = XCC_IN(x), .w = XCC_IN(w), .b = XCC_IN(weights(b, 1, &outputs)),
                 .strides = XCC_INTS(step, stride, stride), .pads = XCC_INTS(d, s, s, d, s, s),
                 .dilations = XCC_INTS(1, 1, 1), .group = group);
}

static xcc_value *conv(xcc_builder *b, xcc_value *x, int64_t outputs, int64_t slices, int64_t size)
{
    return conv_of(b, x, outputs, slices, size, 1, 1);
}

static xcc_value *relu(xcc_builder *b, xcc_value *x) { return APPLY(Relu, y, .x = XCC_IN(x)); }

static xcc_value *normalized(xcc_builder *b, xcc_value *x)
{
    int64_t n = x->type.dims[1];
    xcc_value *var = APPLY(Abs, y, .x = XCC_IN(weights(b, 1, &n)));
    var = APPLY(Add, y, .a = XCC_IN(var), .b = XCC_IN(number(b, 0.5)));
    return APPLY(BatchNormalization, y, .x = XCC_IN(x), .scale = XCC_IN(weights(b, 1, &n)),
                 .b = XCC_IN(weights(b, 1, &n)), .mean = XCC_IN(weights(b, 1, &n)), .var = XCC_IN(var),
                 .epsilon = 1e-3);
}

static xcc_value *mean(xcc_builder *b, xcc_value *x, int64_t keepdims)
{
    return APPLY(ReduceMean, y, .x = XCC_IN(x), .axes = XCC_IN(ints(b, 3, DIMS(-1, 2, 3))), .keepdims = keepdims);
}

static xcc_value *max_pool(xcc_builder *b, xcc_value *x)
{
    return APPLY(MaxPool, y, .x = XCC_IN(x), .kernel_shape = XCC_INTS(3, 3, 2), .strides = XCC_INTS(1, 1, 1),
                 .pads = XCC_INTS(1, 1, 0, 1, 1, 1), .dilations = XCC_INTS(1, 1, 1));
}

/* As in S3D: windows of planes, of the depth and of one position, whose results are concatenated; a residual. */
static void make_network(xcc_builder *b)
{
    xcc_value *x = relu(b, conv_of(b, video(b, "x", 3), 32, 3, 7, 2, 1));
    xcc_value *y = relu(b, conv(b, conv(b, x, 48, 1, 3), 48, 3, 1));
    xcc_value *z = relu(b, normalized(b, conv(b, max_pool(b, x), 16, 1, 1)));
    y = APPLY(Concat, y, .xs = {(const xcvm_value *[]){XCC_IN(y), XCC_IN(z)}, 2}, .axis = -4);
    y = relu(b, normalized(b, y));
    xcc_value *residual = conv_of(b, y, 40, 1, 1, 1, 1);
    y = relu(b, APPLY(Add, y, .a = XCC_IN(conv(b, y, 40, 3, 3)), .b = XCC_IN(residual)));
    y = APPLY(AveragePool, y, .x = XCC_IN(y), .kernel_shape = XCC_INTS(2, 3, 3), .strides = XCC_INTS(1, 2, 2),
              .pads = XCC_INTS(0, 1, 1, 0, 1, 1), .dilations = XCC_INTS(1, 1, 1));
    output(b, mean(b, y, 0));
}

START_TEST(network)
{
    compilation c;
    check_same_results(make_network, &c);
    CHECK_COUNT(&c, Conv, 0);
    CHECK_COUNT(&c, BlockedConv, 6);
    CHECK_COUNT(&c, BlockedAffine, 1);
    CHECK_COUNT(&c, BlockChannels, 0);
    finish(&c);
}
END_TEST

/* Factors for channels, numbers for channels, cuts of channels and of slices. */
static void make_followers(xcc_builder *b)
{
    xcc_value *x = conv(b, video(b, "x", 20), 48, 3, 3);
    xcc_value *s = relu(b, conv(b, mean(b, x, 1), 16, 1, 1));
    s = APPLY(Sigmoid, y, .x = XCC_IN(conv(b, s, 48, 1, 1)));
    x = APPLY(Mul, y, .a = XCC_IN(x), .b = XCC_IN(s));
    x = APPLY(Sub, y, .a = XCC_IN(weights(b, 4, DIMS(48, 1, 1, 1))), .b = XCC_IN(x));
    x = APPLY(Add, y, .a = XCC_IN(x), .b = XCC_IN(weights(b, 5, DIMS(1, 48, 1, 1, 1))));
    x = APPLY(Div, y, .a = XCC_IN(x), .b = XCC_IN(floats(b, 5, DIMS(1, 1, 1, 1, 1), FLOATS(4))));
    x = conv(b, x, 64, 1, 3);
    xcc_value *cut = APPLY(Slice, y, .x = XCC_IN(x), .starts = XCC_IN(ints(b, 2, DIMS(32, 1))),
                           .ends = XCC_IN(ints(b, 2, DIMS(INT64_MAX, 4))), .axes = XCC_IN(ints(b, 2, DIMS(-4, 2))));
    output(b, conv(b, cut, 32, 3, 3));
    output(b, s);
    xcc_value *pieces[2];
    xcvm_value *ys[2];
    for (int i = 0; i < 2; i++)
        ys[i] = &(pieces[i] = must(b, xcc_value_create(b->graph, NULL)))->type;
    ck_assert_ptr_nonnull(
        xcc_emit(b, Split, .ys = {ys, 2}, .x = XCC_IN(x), .split = XCC_IN(ints(b, 2, DIMS(16, 48))), .axis = 1));
    output(b, conv(b, pieces[0], 32, 1, 3));
    output(b, conv(b, pieces[1], 32, 3, 1));
}

START_TEST(followers)
{
    compilation c;
    check_same_results(make_followers, &c);
    CHECK_COUNT(&c, Conv, 0);
    CHECK_COUNT(&c, BlockedConv, 7);
    CHECK_COUNT(&c, UnblockChannels, 3);
    finish(&c);
}
END_TEST

/* Depthwise, whole blocks, groups of a part of a block, other groups, which stay plain, and planes next to videos. */
static void make_mixed(xcc_builder *b)
{
    xcc_value *x = conv(b, video(b, "x", 16), 32, 3, 3);
    x = relu(b, conv_of(b, x, 32, 3, 3, 1, 32));
    output(b, conv_of(b, conv(b, x, 64, 1, 1), 64, 3, 3, 1, 2));
    output(b, conv_of(b, x, 32, 3, 3, 1, 4));
    output(b, conv_of(b, x, 64, 3, 3, 1, 4));
    xcc_value *planes = APPLY(Reshape, y, .x = XCC_IN(conv(b, x, 32, 3, 3)),
                              .shape = XCC_IN(ints(b, 4, DIMS(1, 32, SLICES * SIZE, SIZE))));
    xcc_value *w = APPLY(Mul, y, .a = XCC_IN(weights(b, 4, DIMS(32, 32, 3, 3))), .b = XCC_IN(number(b, 0.05)));
    output(b, APPLY(Conv, y, .x = XCC_IN(planes), .w = XCC_IN(w), .strides = XCC_INTS(1, 1),
                    .pads = XCC_INTS(1, 1, 1, 1), .dilations = XCC_INTS(1, 1), .group = 1));
}

START_TEST(mixed)
{
    compilation c;
    check_same_results(make_mixed, &c);
    CHECK_COUNT(&c, Conv, 1);
    CHECK_COUNT(&c, BlockedConv, 7);
    finish(&c);
}
END_TEST

static void make_open(xcc_builder *b)
{
    xcc_value *x = relu(b, conv_of(b, input(b, "x", XCVM_F32, 5, DIMS(-1, 3, -2, -3, -4)), 32, 3, 3, 2, 1));
    xcc_value *y = APPLY(Add, y, .a = XCC_IN(conv(b, x, 32, 3, 3)), .b = XCC_IN(x));
    output(b, max_pool(b, y));
    output(b, mean(b, conv(b, relu(b, y), 32, 1, 3), 1));
}

START_TEST(open_sizes)
{
    compilation c;
    check_same_results(make_open, &c);
    CHECK_COUNT(&c, BlockedConv, 3);
    CHECK_COUNT(&c, BlockChannels, 0);
    const xcvm_value *y = &c.m.graph->outputs[0]->type;
    ck_assert_int_eq(y->rank, 5);
    ck_assert_int_eq(y->dims[1], 32);
    finish(&c);
}
END_TEST

/* Results are the same for every algorithm. */
START_TEST(tuned)
{
    static const graph_function functions[] = {make_network, make_open};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        compilation c;
        begin(&c, 2);
        c.options.tune = true;
        check_results(functions[i], &c);
        ck_assert_uint_gt(count_in(c.m.graph, XCVM_OP_BlockedConv), 0);
        finish(&c);
    }
}
END_TEST

/* Large maps by winograd, small ones not; a window of the depth alone has one algorithm only. */
START_TEST(cheapest_ways)
{
    xcc_layout_shape c = {.axes = 3,
                          .batch = 1,
                          .group = 1,
                          .channels = 64,
                          .outputs = 64,
                          .in = {16, 56, 56},
                          .out = {16, 56, 56},
                          .kernel = {3, 3, 3},
                          .strides = {1, 1, 1},
                          .dilations = {1, 1, 1},
                          .pads = {1, 1, 1, 1, 1, 1}};
    ck_assert_int_eq(xcc_layout_cheapest(&c)->tile, 4);
    c.kernel[0] = 1;
    c.pads[0] = c.pads[3] = 0;
    ck_assert_int_eq(xcc_layout_cheapest(&c)->tile, 4);
    c.kernel[0] = 3;
    c.pads[0] = c.pads[3] = 1;
    c.strides[0] = 2;
    ck_assert_int_eq(xcc_layout_cheapest(&c)->choice, XCVM_BLOCKED_direct);
    c.strides[0] = 1;
    c.in[0] = c.out[0] = 1;
    for (int i = 1; i < 3; i++)
        c.in[i] = c.out[i] = 5;
    ck_assert_int_eq(xcc_layout_cheapest(&c)->choice, XCVM_BLOCKED_direct);
    for (int i = 1; i < 3; i++) {
        c.kernel[i] = 1;
        c.pads[i] = c.pads[3 + i] = 0;
    }
    ck_assert_int_eq(xcc_layout_cheapest(&c)->choice, XCVM_BLOCKED_direct);
}
END_TEST

Suite *suite_compiler_layout_depth(void);

Suite *suite_compiler_layout_depth(void)
{
    Suite *suite = suite_create("compiler_layout_depth");
    TCase *test = tcase_create("depth");
    tcase_set_timeout(test, 120);
    tcase_add_test(test, network);
    tcase_add_test(test, followers);
    tcase_add_test(test, mixed);
    tcase_add_test(test, open_sizes);
    tcase_add_test(test, tuned);
    tcase_add_test(test, cheapest_ways);
    suite_add_tcase(suite, test);
    return suite;
}

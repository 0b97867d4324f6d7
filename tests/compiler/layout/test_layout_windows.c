/* Tests of the pass layout for windows: transposed convolutions, pools after convolutions, dilation, groups of a part
 * of a block. */
#include "ops/conv/blocked.h"
#include "tests/compiler/layout/networks.h"

/* A decoder: ConvTranspose is part of the region, with the activation after it. */
static void make_decoder(xcc_builder *b)
{
    xcc_value *x = relu(b, conv_of(b, image(b, "x", 3), 24, 3, 2, 1)), *y = relu(b, conv_of(b, x, 72, 3, 2, 1));
    for (int i = 0; i < 2; i++) {
        const int64_t outputs = i == 0 ? 24 : 40, kernel = i == 0 ? 2 : 4, pad = i == 0 ? 0 : 1;
        xcc_value *w = filter(b, y->type.dims[1], outputs, kernel);
        y = APPLY(ConvTranspose, y, .x = XCC_IN(y), .w = XCC_IN(w), .b = XCC_IN(weights(b, 1, &outputs)),
                  .strides = XCC_INTS(2, 2), .pads = XCC_INTS(pad, pad, pad, pad), .dilations = XCC_INTS(1, 1),
                  .output_padding = XCC_INTS(0, 0), .group = 1);
        y = i == 0 ? APPLY(Add, y, .a = XCC_IN(y), .b = XCC_IN(x)) : relu(b, y);
    }
    output(b, conv(b, y, 32));
}

START_TEST(decoder)
{
    compilation c;
    check_same_results(make_decoder, &c);
    CHECK_COUNT(&c, BlockedConv, 3);
    CHECK_COUNT(&c, BlockedConvTranspose, 2);
    CHECK_COUNT(&c, Relu, 0);
    CHECK_COUNT(&c, BlockChannels, 0);
    CHECK_COUNT(&c, UnblockChannels, 1);
    finish(&c);
}
END_TEST

/* Forms that BlockedConvTranspose does not support: groups, dilation, windows that cut off more than there is. */
static void make_other_transposed(xcc_builder *b)
{
    for (int i = 0; i < 3; i++) {
        xcc_value *x = conv(b, image(b, i == 0 ? "x" : i == 1 ? "y" : "z", 16), 32);
        const int64_t group = i == 0 ? 2 : 1, dilation = i == 1 ? 2 : 1, pad = i == 2 ? -1 : 0;
        x = APPLY(ConvTranspose, y, .x = XCC_IN(x), .w = XCC_IN(filter(b, 32, 32, 2)), .strides = XCC_INTS(2, 2),
                  .pads = XCC_INTS(0, 0, pad, pad), .dilations = XCC_INTS(dilation, 1),
                  .output_padding = XCC_INTS(0, 0), .group = group);
        output(b, conv(b, x, 32));
    }
}

START_TEST(other_transposed)
{
    compilation c;
    check_same_results(make_other_transposed, &c);
    CHECK_COUNT(&c, ConvTranspose, 3);
    CHECK_COUNT(&c, BlockedConv, 6);
    finish(&c);
}
END_TEST

/* Adjacent windows of a pool after a Winograd convolution, and pools of other kinds: a convolution with another reader,
 * overlapping windows, an incomplete last window, another algorithm. */
static xcc_value *pool(xcc_builder *b, xcc_value *x, int64_t size, int64_t stride, bool ceil)
{
    return APPLY(MaxPool, y, .x = XCC_IN(x), .kernel_shape = XCC_INTS(size, size), .strides = XCC_INTS(stride, stride),
                 .pads = XCC_INTS(0, 0, 0, 0), .dilations = XCC_INTS(1, 1), .ceil_mode = ceil);
}

static void make_pools(xcc_builder *b)
{
    xcc_value *x = conv(b, image(b, "x", 3), 64);
    xcc_value *y = pool(b, relu(b, conv_of(b, x, 64, 3, 1, 1)), 2, 2, false);
    y = pool(b, conv_of(b, y, 64, 3, 1, 1), 2, 2, false);
    output(b, y);
    xcc_value *twice = conv_of(b, x, 64, 3, 1, 1);
    output(b, pool(b, twice, 2, 2, false));
    output(b, conv_of(b, twice, 16, 1, 1, 1));
    output(b, pool(b, conv_of(b, x, 32, 3, 1, 1), 3, 2, false));
    output(b, pool(b, conv_of(b, x, 48, 3, 1, 1), 2, 2, true));
    output(b, pool(b, conv_of(b, x, 64, 1, 1, 1), 2, 2, false));
}

START_TEST(pools_within)
{
    compilation c;
    check_same_results(make_pools, &c);
    size_t within = 0;
    for (const xcc_node *n = c.m.graph->first; n != NULL; n = n->next)
        if (xcc_is(n, XCVM_OP_BlockedConv)) {
            const xcvm_BlockedConv_args *a = XCC_ARGS(BlockedConv, n);
            within += a->pool == 2;
            ck_assert(a->pool == 1 || xcvm_blocked_is_winograd(a->algorithm));
        }
    ck_assert_uint_eq(within, 2);
    CHECK_COUNT(&c, BlockedConv, 8);
    CHECK_COUNT(&c, MaxPool, 4);
    finish(&c);
}
END_TEST

/* Dilated windows: by Winograd, only their middle, only rows and columns that are inside; depthwise. */
static xcc_value *dilated(xcc_builder *b, xcc_value *x, int64_t outputs, int64_t group, int64_t row, int64_t column)
{
    return APPLY(Conv, y, .x = XCC_IN(x), .w = XCC_IN(filter(b, outputs, x->type.dims[1] / group, 3)),
                 .b = XCC_IN(weights(b, 1, &outputs)), .strides = XCC_INTS(1, 1),
                 .pads = XCC_INTS(row, column, row, column), .dilations = XCC_INTS(row, column), .group = group);
}

static void make_dilated(xcc_builder *b)
{
    xcc_value *x = conv(b, image(b, "x", 32), 64);
    x = relu(b, dilated(b, x, 64, 1, 2, 3));
    x = dilated(b, x, 64, 1, 36, 36);
    x = relu(b, dilated(b, x, 48, 1, 12, 20));
    output(b, dilated(b, dilated(b, x, 48, 48, 2, 2), 48, 48, 11, 36));
}

START_TEST(dilated_windows)
{
    compilation c;
    check_same_results(make_dilated, &c);
    CHECK_COUNT(&c, BlockedConv, 6);
    static const int algorithms[] = {XCVM_BLOCKED_winograd_untransformed,
                                     XCVM_BLOCKED_winograd_untransformed,
                                     XCVM_BLOCKED_direct,
                                     XCVM_BLOCKED_direct,
                                     XCVM_BLOCKED_depthwise,
                                     XCVM_BLOCKED_depthwise};
    size_t i = 0;
    for (const xcc_node *n = c.m.graph->first; n != NULL; n = n->next)
        if (xcc_is(n, XCVM_OP_BlockedConv))
            ck_assert_int_eq(XCC_ARGS(BlockedConv, n)->algorithm, algorithms[i++]);
    finish(&c);
}
END_TEST

/* Groups of a part of a block, with the nodes around them. */
static void make_small_groups(xcc_builder *b)
{
    xcc_value *x = relu(b, conv_of(b, image(b, "x", 32), 64, 1, 1, 1));
    for (int64_t group = 32; group >= 8; group /= 2)
        x = relu(b, conv_of(b, x, 64, 3, group == 16 ? 2 : 1, group));
    output(b, conv_of(b, x, 32, 1, 1, 1));
    output(b, conv_of(b, conv_of(b, image(b, "y", 24), 24, 3, 1, 6), 32, 1, 1, 1));
}

START_TEST(small_groups)
{
    compilation c;
    size_t grouped = 0;
    check_same_results(make_small_groups, &c);
    CHECK_COUNT(&c, Conv, 0);
    CHECK_COUNT(&c, UnblockChannels, 2);
    for (const xcc_node *n = c.m.graph->first; n != NULL; n = n->next)
        grouped += xcc_is(n, XCVM_OP_BlockedConv) && XCC_ARGS(BlockedConv, n)->algorithm == XCVM_BLOCKED_grouped;
    ck_assert_uint_eq(grouped, 4);
    finish(&c);
}
END_TEST

Suite *suite_compiler_layout_windows(void);
Suite *suite_compiler_layout_windows(void)
{
    Suite *suite = suite_create("compiler_layout_windows");
    TCase *test = tcase_create("windows");
    tcase_set_timeout(test, 300);
    tcase_add_test(test, decoder);
    tcase_add_test(test, other_transposed);
    tcase_add_test(test, pools_within);
    tcase_add_test(test, dilated_windows);
    tcase_add_test(test, small_groups);
    suite_add_tcase(suite, test);
    return suite;
}

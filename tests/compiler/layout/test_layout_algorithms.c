/* Tests of how the pass layout computes convolutions: the algorithm that is estimated to be the cheapest, and its
 * filters. */
#include "compiler/layout/layout_algorithms.h"
#include "ops/conv/blocked.h"
#include "tests/compiler/layout/networks.h"

/* Estimates: depthwise has one algorithm only. Winograd is faster with several tiles, even dilated ones. With few
 * tiles, filters are transformed while they are used. If most of a window is in the padding, there is little work. */
START_TEST(cheapest_algorithms)
{
    xcc_layout_shape c = {.axes = 2,
                          .batch = 1,
                          .group = 64,
                          .channels = 1,
                          .outputs = 64,
                          .in = {56, 56},
                          .out = {56, 56},
                          .kernel = {3, 3},
                          .strides = {1, 1},
                          .dilations = {1, 1},
                          .pads = {1, 1, 1, 1}};
    ck_assert_int_eq(xcc_layout_cheapest(&c)->choice, XCVM_BLOCKED_depthwise);
    c.group = 1;
    c.channels = 64;
    ck_assert_int_eq(xcc_layout_cheapest(&c)->tile, 4);
    for (int i = 0; i < 4; i++)
        c.pads[i] = c.dilations[i % 2] = 2;
    ck_assert_int_eq(xcc_layout_cheapest(&c)->tile, 4);
    for (int i = 0; i < 4; i++)
        c.pads[i] = c.dilations[i % 2] = 50;
    ck_assert_int_eq(xcc_layout_cheapest(&c)->choice, XCVM_BLOCKED_direct);
    for (int i = 0; i < 4; i++)
        c.pads[i] = c.dilations[i % 2] = 1;
    /* With many tiles, filters would be transformed too often. */
    ck_assert_int_eq(xcc_layout_cheapest(&c)->choice, XCVM_BLOCKED_winograd);
    c.in[0] = c.in[1] = c.out[0] = c.out[1] = 28;
    ck_assert_int_eq(xcc_layout_cheapest(&c)->choice, XCVM_BLOCKED_winograd_untransformed);
    c.channels = c.outputs = 512;
    ck_assert_int_eq(xcc_layout_cheapest(&c)->choice, XCVM_BLOCKED_winograd_untransformed);
    c.in[0] = c.in[1] = c.out[0] = c.out[1] = 7;
    ck_assert_int_eq(xcc_layout_cheapest(&c)->choice, XCVM_BLOCKED_winograd_untransformed);
    c.in[0] = c.in[1] = c.out[0] = c.out[1] = 4;
    ck_assert_int_eq(xcc_layout_cheapest(&c)->choice, XCVM_BLOCKED_direct);
    c.channels = c.outputs = 64;
    c.in[0] = c.in[1] = 56;
    c.out[0] = c.out[1] = 28;
    c.strides[0] = c.strides[1] = 2;
    ck_assert_int_eq(xcc_layout_cheapest(&c)->choice, XCVM_BLOCKED_direct);
}
END_TEST

/* The first convolution of many networks, over plain channels whether those before are blocked or not: by Winograd's
 * algorithm only where weights are rounded anyhow. */
static void make_stems(xcc_builder *b)
{
    xcc_value *x = image(b, "x", 3);
    output(b, conv_of(b, relu(b, conv_of(b, x, 64, 7, 2, 1)), 32, 3, 1, 1));
    xcc_value *few = relu(b, conv_of(b, conv_of(b, image(b, "y", 32), 64, 3, 1, 1), 4, 3, 1, 1));
    output(b, few);
    output(b, conv_of(b, conv_of(b, few, 48, 7, 2, 1), 32, 1, 1, 1));
}

START_TEST(stems)
{
    static const struct {
        xcvm_dtype weights;
        size_t strided;
    } cases[] = {{XCVM_F32, 0}, {XCVM_F24, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        compilation c;
        size_t strided = 0;
        begin(&c, 2);
        c.options.weights.dtype = cases[i].weights;
        if (cases[i].weights == XCVM_F32) {
            check_results(make_stems, &c);
        } else {
            make_stems(&c.b);
            passes(&c);
        }
        for (const xcc_node *n = c.m.graph->first; n != NULL; n = n->next)
            if (xcc_is(n, XCVM_OP_BlockedConv) &&
                XCC_ARGS(BlockedConv, n)->algorithm == XCVM_BLOCKED_winograd_strided) {
                strided++;
                ck_assert_int_eq(xcc_node_input(n, 0)->type.rank, 4);
            }
        ck_assert_uint_eq(strided, cases[i].strided);
        finish(&c);
    }
}
END_TEST

/* A filter that several convolutions use is packed once. */
static void make_shared(xcc_builder *b)
{
    xcc_value *x = image(b, "x", 32), *w = filter(b, 32, 32, 3);
    for (int i = 0; i < 3; i++)
        x = APPLY(Conv, y, .x = XCC_IN(x), .w = XCC_IN(w), .strides = XCC_INTS(1, 1), .pads = XCC_INTS(1, 1, 1, 1),
                  .dilations = XCC_INTS(1, 1), .group = 1);
    output(b, x);
}

START_TEST(shared_filters)
{
    compilation c;
    const xcc_value *w = NULL;
    check_same_results(make_shared, &c);
    for (const xcc_node *n = c.m.graph->first; n != NULL; n = n->next) {
        if (!xcc_is(n, XCVM_OP_BlockedConv))
            continue;
        ck_assert(w == NULL || w == xcc_node_input(n, 1));
        w = xcc_node_input(n, 1);
    }
    ck_assert_ptr_nonnull(w);
    ck_assert_uint_eq(w->uses, 3);
    finish(&c);
}
END_TEST

Suite *suite_compiler_layout_algorithms(void);

Suite *suite_compiler_layout_algorithms(void)
{
    Suite *suite = suite_create("compiler_layout_algorithms");
    TCase *test = tcase_create("layout_algorithms");
    tcase_set_timeout(test, 300);
    tcase_add_test(test, cheapest_algorithms);
    tcase_add_test(test, stems);
    tcase_add_test(test, shared_filters);
    suite_add_tcase(suite, test);
    return suite;
}

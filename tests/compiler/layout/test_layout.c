/* Tests of the pass layout: its choices and conversions, and results compared with those without it. */
#include "ops/conv/blocked.h"
#include "tests/compiler/layout/networks.h"

/* ---- Regions ---- */

/* Residuals, a depthwise convolution, odd numbers of channels: one region from the input to the result. */
static void make_region(xcc_builder *b)
{
    xcc_value *x = relu(b, conv_of(b, image(b, "x", 3), 24, 3, 2, 1));
    xcc_value *y = relu(b, conv_of(b, x, 72, 1, 1, 1));
    y = APPLY(HardSwish, y, .x = XCC_IN(conv_of(b, y, 72, 5, 1, 72)));
    y = conv_of(b, y, 24, 1, 1, 1);
    y = relu(b, APPLY(Add, y, .a = XCC_IN(y), .b = XCC_IN(x)));
    output(b, conv_of(b, y, 40, 3, 1, 1));
}

START_TEST(one_region)
{
    compilation c;
    check_same_results(make_region, &c);
    CHECK_COUNT(&c, BlockedConv, 5);
    CHECK_COUNT(&c, BlockChannels, 0);
    CHECK_COUNT(&c, UnblockChannels, 1);
    CHECK_NODES(&c, 6);
    ck_assert_ptr_eq(xcc_node_input(c.m.graph->first, 0), c.m.graph->inputs[0]);
    finish(&c);
}
END_TEST

/* Squeeze and excitation: the factors stay blocked, and a view brings them to the plain layout. */
static void make_squeeze(xcc_builder *b)
{
    xcc_value *x = conv(b, conv_of(b, image(b, "x", 3), 48, 3, 1, 1), 48);
    xcc_value *s = relu(b, conv_of(b, mean(b, x, 1), 20, 1, 1, 1));
    s = APPLY(HardSigmoid, y, .x = XCC_IN(conv_of(b, s, 48, 1, 1, 1)), .alpha = 1.0 / 6, .beta = 0.5);
    output(b, s);
    xcc_value *y = conv(b, APPLY(Mul, y, .a = XCC_IN(s), .b = XCC_IN(x)), 48);
    output(b, mean(b, y, 0));
}

START_TEST(squeeze_and_excitation)
{
    compilation c;
    check_same_results(make_squeeze, &c);
    CHECK_COUNT(&c, BlockedConv, 5);
    CHECK_COUNT(&c, BlockChannels, 0);
    CHECK_COUNT(&c, UnblockChannels, 0);
    CHECK_COUNT(&c, Reshape, 2);
    finish(&c);
}
END_TEST

/* Element-wise instructions with numbers and with numbers per channel, pools, cuts of channels. */
static void make_followers(xcc_builder *b)
{
    xcc_value *x = conv(b, image(b, "x", 8), 40), *z = conv(b, x, 40);
    xcc_value *y = relu(b, conv(b, APPLY(Tanh, y, .x = XCC_IN(x)), 40));
    y = APPLY(Sub, y, .a = XCC_IN(weights(b, 3, DIMS(40, 1, 1))), .b = XCC_IN(y));
    y = APPLY(Max, y, .a = XCC_IN(y), .b = XCC_IN(z));
    y = APPLY(Mul, y, .a = XCC_IN(y), .b = XCC_IN(APPLY(Abs, y, .x = XCC_IN(y))));
    y = APPLY(Clip, y, .x = XCC_IN(y), .min = XCC_IN(number(b, -2)), .max = XCC_IN(number(b, 3)));
    y = APPLY(Div, y, .a = XCC_IN(y), .b = XCC_IN(floats(b, 4, DIMS(1, 1, 1, 1), FLOATS(4))));
    xcc_value *p = APPLY(MaxPool, y, .x = XCC_IN(y), .kernel_shape = XCC_INTS(3, 2), .strides = XCC_INTS(2, 2),
                         .pads = XCC_INTS(1, 0, 1, 1), .dilations = XCC_INTS(1, 1));
    xcc_value *q = APPLY(AveragePool, y, .x = XCC_IN(y), .kernel_shape = XCC_INTS(2, 2), .strides = XCC_INTS(2, 2),
                         .pads = XCC_INTS(0, 0, 0, 0), .dilations = XCC_INTS(1, 1), .ceil_mode = 1);
    output(b, conv(b, APPLY(Add, y, .a = XCC_IN(p), .b = XCC_IN(q)), 40));
}

START_TEST(followers)
{
    compilation c;
    check_same_results(make_followers, &c);
    CHECK_COUNT(&c, Conv, 0);
    CHECK_COUNT(&c, BlockChannels, 0);
    CHECK_COUNT(&c, UnblockChannels, 1);
    finish(&c);
}
END_TEST

static void make_cuts(xcc_builder *b)
{
    xcc_value *x = conv(b, image(b, "x", 8), 48), *z = conv(b, x, 20);
    const xcvm_value *parts[] = {XCC_IN(x), XCC_IN(z)};
    xcc_value *y = conv(b, APPLY(Concat, y, .xs = {parts, 2}, .axis = -3), 72);
    xcc_value *pieces[2];
    xcvm_value *ys[2];
    for (int i = 0; i < 2; i++)
        ys[i] = &(pieces[i] = must(b, xcc_value_create(b->graph, NULL)))->type;
    ck_assert_ptr_nonnull(
        xcc_emit(b, Split, .ys = {ys, 2}, .x = XCC_IN(y), .split = XCC_IN(ints(b, 2, DIMS(32, 40))), .axis = 1));
    xcc_value *s = APPLY(Slice, y, .x = XCC_IN(y), .starts = XCC_IN(ints(b, 2, DIMS(-40, 1))),
                         .ends = XCC_IN(ints(b, 2, DIMS(INT64_MAX, -2))), .axes = XCC_IN(ints(b, 2, DIMS(1, -1))));
    output(b, conv(b, pieces[0], 32));
    output(b, conv(b, APPLY(Sigmoid, y, .x = XCC_IN(pieces[1])), 32));
    output(b, conv(b, s, 32));
}

START_TEST(cuts_of_channels)
{
    compilation c;
    check_same_results(make_cuts, &c);
    CHECK_COUNT(&c, BlockedConv, 6);
    CHECK_COUNT(&c, UnblockChannels, 3);
    CHECK_COUNT(&c, BlockChannels, 0);
    finish(&c);
}
END_TEST

/* As in DenseNet: Concat, BatchNormalization and Relu before a convolution become one instruction. */
static void make_dense(xcc_builder *b)
{
    xcc_value *x = relu(b, conv(b, image(b, "x", 3), 32));
    for (int i = 0; i < 3; i++) {
        xcc_value *y = conv(b, relu(b, normalized(b, x)), 16);
        x = APPLY(Concat, y, .xs = {(const xcvm_value *[]){XCC_IN(x), XCC_IN(y)}, 2}, .axis = 1);
    }
    output(b, conv(b, normalized(b, x), 20));
}

START_TEST(dense_blocks)
{
    compilation c;
    check_same_results(make_dense, &c);
    CHECK_COUNT(&c, BlockedConv, 5);
    CHECK_COUNT(&c, BlockedAffine, 4);
    CHECK_COUNT(&c, BatchNormalization, 0);
    CHECK_COUNT(&c, Concat, 2);
    CHECK_COUNT(&c, Relu, 0);
    finish(&c);
}
END_TEST

/* ---- Borders ---- */

/* A value with readers inside and outside of the region, one that is also an output, and operands from outside. */
static void make_borders(xcc_builder *b)
{
    xcc_value *x = image(b, "x", 32), *outside = image(b, "outside", 32);
    xcc_value *y = relu(b, conv(b, x, 32));
    output(b, y);
    y = APPLY(Add, y, .a = XCC_IN(conv(b, y, 32)), .b = XCC_IN(outside));
    output(b, APPLY(Softmax, y, .x = XCC_IN(y), .axis = 1));
    output(b, APPLY(Transpose, y, .x = XCC_IN(conv(b, y, 32)), .perm = XCC_INTS(0, 2, 3, 1)));
}

START_TEST(borders)
{
    compilation c;
    check_same_results(make_borders, &c);
    CHECK_COUNT(&c, BlockedConv, 3);
    CHECK_COUNT(&c, BlockChannels, 2);
    CHECK_COUNT(&c, UnblockChannels, 3);
    finish(&c);
}
END_TEST

/* Groups that are neither whole blocks nor parts of one, filters that are not known: they stay. */
static void make_unfit(xcc_builder *b)
{
    xcc_value *x = image(b, "x", 32), *w = input(b, "w", XCVM_F32, 4, DIMS(32, 32, 3, 3));
    output(b, conv_of(b, x, 64, 3, 1, 4));
    output(b, conv_of(b, x, 64, 3, 1, 32));
    output(b, conv_of(b, image(b, "y", 36), 36, 3, 1, 3));
    output(b, APPLY(Conv, y, .x = XCC_IN(x), .w = XCC_IN(w), .strides = XCC_INTS(1, 1), .pads = XCC_INTS(0, 0, 0, 0),
                    .dilations = XCC_INTS(1, 1), .group = 1));
}

START_TEST(unfit)
{
    compilation c;
    check_same_results(make_unfit, &c);
    CHECK_COUNT(&c, Conv, 4);
    CHECK_COUNT(&c, BlockChannels, 0);
    finish(&c);
}
END_TEST

/* Only element-wise instructions, or too few channels to compensate for the cost of the layout. */
static void make_unprofitable(xcc_builder *b)
{
    xcc_value *x = image(b, "x", 32);
    output(b, relu(b, APPLY(Add, y, .a = XCC_IN(x), .b = XCC_IN(number(b, 1)))));
    output(b, conv_of(b, image(b, "z", 20), 1, 1, 1, 1));
}

START_TEST(unprofitable)
{
    compilation c;
    check_same_results(make_unprofitable, &c);
    CHECK_COUNT(&c, Conv, 1);
    CHECK_COUNT(&c, BlockChannels, 0);
    finish(&c);
}
END_TEST

/* ---- Signals ---- */

static xcc_value *line_conv(xcc_builder *b, xcc_value *x, int64_t outputs, int64_t dilation, int64_t group)
{
    return APPLY(Conv, y, .x = XCC_IN(x), .w = XCC_IN(filter_of(b, 3, DIMS(outputs, x->type.dims[1] / group, 3))),
                 .b = XCC_IN(weights(b, 1, &outputs)), .strides = XCC_INTS(1), .pads = XCC_INTS(dilation, dilation),
                 .dilations = XCC_INTS(dilation), .group = group);
}

/* Dilated windows, each channel by itself, groups, a residual, numbers for each channel, a mean: all of one axis. */
static void make_signal(xcc_builder *b)
{
    xcc_value *x = relu(b, line_conv(b, input(b, "x", XCVM_F32, 3, DIMS(-1, 20, 100)), 24, 1, 1));
    xcc_value *y = line_conv(b, x, 24, 4, 24);
    y = relu(b, APPLY(Add, y, .a = XCC_IN(line_conv(b, y, 24, 2, 6)), .b = XCC_IN(x)));
    y = APPLY(Mul, y, .a = XCC_IN(y), .b = XCC_IN(weights(b, 2, DIMS(24, 1))));
    y = APPLY(Concat, y, .xs = {(const xcvm_value *[]){XCC_IN(y), XCC_IN(x)}, 2}, .axis = 1);
    y = line_conv(b, y, 32, 16, 1);
    output(b, y);
    output(b, APPLY(ReduceMean, y, .x = XCC_IN(y), .axes = XCC_IN(ints(b, 1, DIMS(2))), .keepdims = 0));
    /* A pool of one axis stays. */
    output(b, APPLY(MaxPool, y, .x = XCC_IN(y), .kernel_shape = XCC_INTS(2), .strides = XCC_INTS(2),
                    .pads = XCC_INTS(0, 0), .dilations = XCC_INTS(1)));
}

START_TEST(signals)
{
    compilation c;
    check_same_results(make_signal, &c);
    CHECK_COUNT(&c, Conv, 0);
    CHECK_COUNT(&c, BlockedConv, 4);
    CHECK_COUNT(&c, BlockChannels, 1);
    CHECK_COUNT(&c, UnblockChannels, 1);
    finish(&c);
}
END_TEST

/* A plain operand of few channels is accepted directly, and its length may be open. */
static void make_open_signal(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 3, DIMS(-1, 2, -2));
    for (int64_t dilation = 1; dilation <= 8; dilation *= 2)
        x = relu(b, line_conv(b, x, 32, dilation, 1));
    output(b, x);
}

START_TEST(open_signals)
{
    compilation c;
    check_same_results(make_open_signal, &c);
    CHECK_COUNT(&c, BlockedConv, 4);
    CHECK_COUNT(&c, BlockChannels, 0);
    CHECK_COUNT(&c, UnblockChannels, 1);
    finish(&c);
}
END_TEST

/* With one channel and no padding, a plain product is equally fast, unless its result is read in blocks. */
static xcc_value *frames(xcc_builder *b, const char *name)
{
    xcc_value *x = input(b, name, XCVM_F32, 3, DIMS(1, 1, 8000));
    return APPLY(Conv, y, .x = XCC_IN(x), .w = XCC_IN(filter_of(b, 3, DIMS(32, 1, 16))), .strides = XCC_INTS(4),
                 .pads = XCC_INTS(0, 0), .dilations = XCC_INTS(1), .group = 1);
}

static void make_frames(xcc_builder *b)
{
    output(b, frames(b, "x"));
    output(b, line_conv(b, relu(b, frames(b, "y")), 32, 1, 1));
}

START_TEST(frames_of_a_signal)
{
    compilation c;
    check_same_results(make_frames, &c);
    CHECK_COUNT(&c, Conv, 1);
    CHECK_COUNT(&c, BlockedConv, 2);
    CHECK_COUNT(&c, UnblockChannels, 1);
    finish(&c);
}
END_TEST

/* ---- Resize ---- */

static xcc_value *resize_by(xcc_builder *b, xcc_value *x, int mode, float scale)
{
    return APPLY(Resize, y, .x = XCC_IN(x), .scales = XCC_IN(floats(b, 1, DIMS(4), FLOATS(1, 1, scale, scale))),
                 .mode = mode, .coordinate_transformation_mode = XCVM_COORDINATE_asymmetric,
                 .nearest_mode = XCVM_NEAREST_floor);
}

/* A pyramid of open sizes: parts of 24 channels each are resized and concatenated. */
static void make_pyramid(xcc_builder *b)
{
    xcc_value *x = relu(b, conv_of(b, input(b, "x", XCVM_F32, 4, DIMS(-1, 3, -2, -3)), 32, 3, 1, 1));
    xcc_value *wide = conv(b, x, 32), *parts[3];
    for (int i = 0; i < 3; i++)
        parts[i] = resize_by(b, conv(b, wide, 24), i == 1 ? XCVM_RESIZE_MODE_linear : XCVM_RESIZE_MODE_nearest, 2);
    xcc_value *y = APPLY(
        Concat, y, .xs = {(const xcvm_value *[]){XCC_IN(parts[0]), XCC_IN(parts[1]), XCC_IN(parts[2])}, 3}, .axis = 1);
    output(b, conv(b, y, 24));
}

START_TEST(pyramid)
{
    compilation c;
    check_same_results(make_pyramid, &c);
    CHECK_COUNT(&c, Resize, 3);
    CHECK_COUNT(&c, BlockedConcat, 1);
    CHECK_COUNT(&c, BlockChannels, 0);
    CHECK_COUNT(&c, UnblockChannels, 1);
    finish(&c);
}
END_TEST

/* Every way to say by how much: scales or sizes, of all axes or of some, constants or not. */
static void make_resizes(xcc_builder *b)
{
    xcc_value *x = conv(b, image(b, "x", 32), 48), *by = input(b, "by", XCVM_F32, 4, DIMS(1, 2, 30, 40));
    xcc_value *sizes = APPLY(Shape, y, .x = XCC_IN(by), .start = 2, .end = 4);
    xcc_value *ys[] = {
        APPLY(Resize, y, .x = XCC_IN(x), .sizes = XCC_IN(ints(b, 4, DIMS(1, 48, 50, 36)))),
        APPLY(Resize, y, .x = XCC_IN(x), .sizes = XCC_IN(sizes), .axes = XCC_INTS(2, 3),
              .mode = XCVM_RESIZE_MODE_linear),
        APPLY(Resize, y, .x = XCC_IN(x), .sizes = XCC_IN(ints(b, 2, DIMS(30, 21))), .axes = XCC_INTS(-1, 2),
              .mode = XCVM_RESIZE_MODE_cubic, .cubic_coeff_a = -0.75),
        APPLY(Resize, y, .x = XCC_IN(x), .scales = XCC_IN(floats(b, 1, DIMS(1), FLOATS(1.7f))), .axes = XCC_INTS(3),
              .antialias = 0, .coordinate_transformation_mode = XCVM_COORDINATE_align_corners),
        APPLY(Resize, y, .x = XCC_IN(x), .scales = XCC_IN(floats(b, 1, DIMS(4), FLOATS(1, 1, 0.5f, 0.6f))),
              .mode = XCVM_RESIZE_MODE_linear, .antialias = 1)};
    for (size_t i = 0; i < sizeof ys / sizeof *ys; i++)
        output(b, conv(b, ys[i], 16));
    /* Channels that grow, or a region: by planes. */
    xcc_value *z = APPLY(Resize, y, .x = XCC_IN(x), .scales = XCC_IN(floats(b, 1, DIMS(4), FLOATS(1, 2, 1, 1))));
    output(b, conv(b, z, 16));
    z = APPLY(Resize, y, .x = XCC_IN(x), .roi = XCC_IN(floats(b, 1, DIMS(4), FLOATS(0, 0.1f, 1, 0.8f))),
              .sizes = XCC_IN(ints(b, 2, DIMS(20, 20))), .axes = XCC_INTS(2, 3), .mode = XCVM_RESIZE_MODE_linear,
              .coordinate_transformation_mode = XCVM_COORDINATE_tf_crop_and_resize);
    output(b, conv(b, z, 16));
}

START_TEST(resizes)
{
    compilation c;
    size_t blocked = 0, plain = 0;
    check_same_results(make_resizes, &c);
    for (const xcc_node *n = c.m.graph->first; n != NULL; n = n->next) {
        blocked += xcc_is(n, XCVM_OP_Resize) && xcc_node_input(n, 0)->type.rank == 5;
        plain += xcc_is(n, XCVM_OP_Resize) && xcc_node_input(n, 0)->type.rank == 4;
    }
    ck_assert_uint_eq(blocked, 5);
    ck_assert_uint_eq(plain, 2);
    finish(&c);
}
END_TEST

/* ---- Open sizes, control flow, options ---- */

static void make_open(xcc_builder *b)
{
    xcc_value *x = relu(b, conv_of(b, input(b, "x", XCVM_F32, 4, DIMS(-1, 3, -2, -3)), 32, 3, 2, 1));
    xcc_value *y = APPLY(Add, y, .a = XCC_IN(conv(b, x, 32)), .b = XCC_IN(x));
    output(b, y);
    output(b, mean(b, conv(b, relu(b, y), 32), 1));
}

START_TEST(open_sizes)
{
    compilation c;
    check_same_results(make_open, &c);
    CHECK_COUNT(&c, BlockedConv, 3);
    CHECK_COUNT(&c, Add, 0);
    CHECK_COUNT(&c, UnblockChannels, 1);
    const xcvm_value *y = &c.m.graph->outputs[0]->type;
    ck_assert_int_eq(y->rank, 4);
    ck_assert_int_eq(y->dims[1], 32);
    finish(&c);
}
END_TEST

/* Branches that read a value from outside; each converts it to blocks. */
static void make_branches(xcc_builder *b)
{
    xcc_value *x = image(b, "x", 32), *cond = input(b, "cond", XCVM_BOOL, 0, NULL);
    xcc_value *y = conv(b, x, 32), *out = must(b, xcc_value_create(b->graph, "out"));
    xcc_node *n = xcc_append_control(b, XCC_IF, 1, &cond, 1, &out, 2);
    ck_assert_ptr_nonnull(n);
    for (int i = 0; i < 2; i++) {
        xcc_builder branch = {.graph = n->bodies[i]};
        xcc_value *v = relu(&branch, conv(&branch, y, 32));
        output(&branch, i == 0 ? conv(&branch, v, 32) : v);
    }
    ok(b->graph->module, xcc_node_infer(n));
    output(b, conv(b, out, 32));
}

START_TEST(branches)
{
    compilation c;
    check_same_results(make_branches, &c);
    CHECK_COUNT(&c, Conv, 0);
    CHECK_COUNT(&c, BlockedConv, 5);
    finish(&c);
}
END_TEST

START_TEST(turned_off)
{
    compilation c;
    begin(&c, 2);
    c.options.debug.plain_layout = true;
    make_region(&c.b);
    passes(&c);
    CHECK_COUNT(&c, BlockedConv, 0);
    CHECK_COUNT(&c, Conv, 5);
    finish(&c);
}
END_TEST

static void note_fraction(void *user, const char *pass, double fraction)
{
    double *last = user;
    if (strcmp(pass, "tune") != 0)
        return;
    ck_assert_double_ge(fraction, *last);
    ck_assert_double_lt(fraction, 1);
    *last = fraction;
}

/* Results are the same for every algorithm. */
START_TEST(tuned)
{
    static const graph_function functions[] = {make_region, make_dense, make_open};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        compilation c;
        double fraction = 0;
        begin(&c, 2);
        c.options.tune = true;
        c.options.progress = (xcc_progress){note_fraction, &fraction};
        check_results(functions[i], &c);
        ck_assert_uint_gt(count_in(c.m.graph, XCVM_OP_BlockedConv), 0);
        ck_assert_double_gt(fraction, 0);
        finish(&c);
    }
}
END_TEST

Suite *suite_compiler_layout(void);

Suite *suite_compiler_layout(void)
{
    Suite *suite = suite_create("compiler_layout");
    TCase *test = tcase_create("layout");
    tcase_set_timeout(test, 300);
    tcase_add_test(test, one_region);
    tcase_add_test(test, squeeze_and_excitation);
    tcase_add_test(test, followers);
    tcase_add_test(test, cuts_of_channels);
    tcase_add_test(test, dense_blocks);
    tcase_add_test(test, borders);
    tcase_add_test(test, unfit);
    tcase_add_test(test, unprofitable);
    tcase_add_test(test, signals);
    tcase_add_test(test, open_signals);
    tcase_add_test(test, frames_of_a_signal);
    tcase_add_test(test, pyramid);
    tcase_add_test(test, resizes);
    tcase_add_test(test, open_sizes);
    tcase_add_test(test, branches);
    tcase_add_test(test, turned_off);
    tcase_add_test(test, tuned);
    suite_add_tcase(suite, test);
    return suite;
}

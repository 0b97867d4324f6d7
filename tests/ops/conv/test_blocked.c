/* Tests of convolutions of blocked channels against their definition in f64, for shapes of all kinds: with any values
 * beyond the channels, in place, and with the same bits for any number of threads. */
/* Takes long. */
#include "ops/conv/blocked.h"
#include "ops/elementwise/activation.h"
#include "tests/ops/conv/blocked_check.h"
#include "tests/support.h"

#include <check.h>

/* Positions that are far apart, even farther than the image is wide, with the padding that this requires. */
static void spread(blocked_shape *s, int axis)
{
    static const int64_t dilations[] = {1, 2, 5, 12, 36};
    s->dilation[axis] = blocked_random_below(3) == 0 ? blocked_random_from(2, 30) : dilations[blocked_random_below(5)];
    const int64_t reach = (s->kernel[axis] - 1) * s->dilation[axis];
    s->pad[axis] = blocked_random_below(3) == 0 ? blocked_random_from(0, reach + 3) : reach / 2;
    s->pad_end[axis] = blocked_random_below(3) == 0 ? blocked_random_from(0, reach + 3) : reach / 2;
}

/* Constraints of the algorithm, and plain or grouped channels if it allows both. */
static void suit_algorithm(blocked_shape *s, int axes)
{
    if (s->algorithm == XCVM_BLOCKED_depthwise) {
        s->group = s->outputs;
        s->outputs = s->channels = 1;
    } else if (xcvm_blocked_is_winograd(s->algorithm)) {
        const bool on_the_fly = s->algorithm == XCVM_BLOCKED_winograd_untransformed;
        s->tile = on_the_fly || blocked_random_below(2) != 0 ? 4 : 2;
        if (on_the_fly && blocked_random_below(4) == 0)
            s->channels = blocked_random_from(60, 300);
        for (int i = 0; i < axes; i++) {
            s->kernel[i] = i == BLOCKED_DEPTH ? s->kernel[i] : 3;
            s->stride[i] = 1;
        }
    } else if (s->algorithm == XCVM_BLOCKED_winograd_strided) {
        s->tile = 3;
        s->plain = true;
        s->channels = blocked_random_from(1, XCVM_BLOCKED_STRIDED_CHANNELS);
        for (int i = 0; i < axes; i++) {
            s->in[i] = blocked_random_below(3) == 0 ? blocked_random_from(20, 90) : s->in[i];
            s->kernel[i] = XCVM_BLOCKED_STRIDED_WINDOW;
            s->stride[i] = 2;
            s->dilation[i] = 1;
            s->pad[i] = blocked_random_below(2) != 0 ? blocked_random_from(0, 9) : 3;
            s->pad_end[i] = blocked_random_below(2) != 0 ? blocked_random_from(0, 9) : 3;
        }
    } else if (blocked_random_below(4) == 0) {
        s->plain = true;
        s->channels = blocked_random_from(1, XCVM_BLOCKED_PLAIN_CHANNELS);
    } else if (blocked_random_below(4) == 0) {
        s->group = blocked_random_from(2, 3);
        s->channels = blocked_random_from(1, 2) * XCVM_CHANNEL_BLOCK;
        s->outputs = blocked_random_from(1, 6) * XCVM_CHANNEL_BLOCK;
    } else if (blocked_random_below(8) == 0) {
        s->channels = blocked_random_from(100, 400);
    }
    if (s->algorithm == XCVM_BLOCKED_direct_pairs) {
        s->plain = false;
        s->channels += s->channels % 2;
        for (int i = 0; i < axes; i++)
            s->dilation[i] = 1;
    }
    if (s->algorithm == XCVM_BLOCKED_grouped) {
        s->plain = false;
        s->group = blocked_random_from(2, 20);
        s->outputs = s->channels = 2 << blocked_random_below(3);
    }
}

/* Works out the size of the result; whether there is one, and not too much to compute. */
static bool fits(blocked_shape *s, int axes)
{
    for (int i = 0; i < axes; i++) {
        const int64_t reach = (s->kernel[i] - 1) * s->dilation[i] + 1;
        const int64_t padded = s->in[i] + s->pad[i] + s->pad_end[i];
        if (reach > padded)
            return false;
        s->out[i] = (padded - reach) / s->stride[i] + 1;
    }
    const int64_t each = s->channels * s->outputs * s->group;
    return each * blocked_volume(s->kernel, s->axes) * blocked_volume(s->out, s->axes) < 20000000;
}

static blocked_shape random_shape(int algorithm, bool dilated, int all)
{
    const int axes = all > 2 ? BLOCKED_AXES : 2;
    for (;;) {
        blocked_shape s = {.algorithm = algorithm,
                           .axes = all,
                           .batch = blocked_random_from(1, 2),
                           .group = 1,
                           .channels = blocked_random_from(1, 50),
                           .outputs = blocked_random_from(1, 100),
                           .bias = blocked_random_below(2) != 0,
                           .residual = blocked_random_below(3) == 0,
                           .activation = (int)blocked_random_below(XCVM_ACTIVATION_COUNT),
                           .affine = blocked_random_below(4) == 0};
        for (int i = 0; i < axes; i++) {
            s.in[i] = blocked_random_from(1, blocked_random_below(2) != 0 ? 20 : 8);
            s.kernel[i] = blocked_random_below(3) == 0   ? blocked_random_from(1, 7)
                          : blocked_random_below(2) != 0 ? 3
                                                         : 1;
            s.stride[i] = blocked_random_below(2) != 0 ? blocked_random_from(1, 3) : 1;
            s.dilation[i] = blocked_random_below(4) == 0 ? blocked_random_from(1, 3) : 1;
            s.pad[i] = blocked_random_below(3) == 0 ? blocked_random_from(0, 4) : s.kernel[i] / 2;
            s.pad_end[i] = blocked_random_below(3) == 0 ? blocked_random_from(0, 4) : s.kernel[i] / 2;
            if (dilated)
                spread(&s, i);
        }
        suit_algorithm(&s, axes);
        if (all < 2) {
            s.in[0] = s.kernel[0] = s.stride[0] = s.dilation[0] = 1;
            s.pad[0] = s.pad_end[0] = 0;
            s.in[1] = blocked_random_below(2) != 0 ? blocked_random_from(50, 300) : s.in[1];
        }
        if (fits(&s, axes))
            return s;
    }
}

/* Each test is a process, which takes longer to start than a convolution, so several are tested at a time. */
enum { AT_A_TIME = 30, KNOWN_DEEP = 15 };

START_TEST(random_convolutions)
{
    for (int i = _i * AT_A_TIME; i < (_i + 1) * AT_A_TIME; i++) {
        blocked_random_seed((uint32_t)i + 1);
        blocked_shape s = random_shape(i % 6, false, 2);
        blocked_check(&s);
    }
}
END_TEST

START_TEST(dilated_convolutions)
{
    static const int algorithms[] = {XCVM_BLOCKED_direct, XCVM_BLOCKED_depthwise, XCVM_BLOCKED_winograd,
                                     XCVM_BLOCKED_winograd_untransformed, XCVM_BLOCKED_grouped};
    for (int i = _i * AT_A_TIME; i < (_i + 1) * AT_A_TIME; i++) {
        blocked_random_seed((uint32_t)i + 1);
        blocked_shape s = random_shape(algorithms[i % 5], true, 2);
        blocked_check(&s);
    }
}
END_TEST

START_TEST(deep_convolutions)
{
    for (int i = _i * AT_A_TIME; i < (_i + 1) * AT_A_TIME; i++) {
        blocked_random_seed((uint32_t)i + 1);
        blocked_shape s = random_shape(i % 4 < 3 ? i % 4 : XCVM_BLOCKED_grouped, i % 5 == 0, 3);
        blocked_check(&s);
    }
}
END_TEST

/* Pairs of bf16, over one axis to three. */
START_TEST(pairs)
{
    for (int i = _i * AT_A_TIME; i < (_i + 1) * AT_A_TIME; i++) {
        blocked_random_seed((uint32_t)i + 1);
        blocked_shape s = random_shape(XCVM_BLOCKED_direct_pairs, false, 1 + i % 3);
        blocked_check(&s);
    }
}
END_TEST

/* Slices of results whose first filters read only padding. Their sums begin with filters that are in another portion
 * for each vector size. */
START_TEST(pairs_behind_padding)
{
    for (int64_t pad = 1; pad < 7; pad++) {
        const int64_t in[BLOCKED_AXES] = {4, 3, 4}, kernel[BLOCKED_AXES] = {3, 3, 5};
        blocked_shape s = {.algorithm = XCVM_BLOCKED_direct_pairs,
                           .axes = BLOCKED_AXES,
                           .batch = 1,
                           .group = 1,
                           .channels = 24 + 32 * (pad % 3),
                           .outputs = 37 + pad,
                           .bias = true,
                           .residual = pad % 2 == 0,
                           .activation = XCVM_ACTIVATION_Relu};
        for (int i = 0; i < BLOCKED_AXES; i++) {
            s.in[i] = in[i];
            s.kernel[i] = kernel[i];
            s.stride[i] = s.dilation[i] = 1;
            s.pad[i] = s.pad_end[i] = i == BLOCKED_DEPTH ? pad : 1;
            s.out[i] = s.in[i] + 2 * s.pad[i] - s.kernel[i] + 1;
        }
        blocked_check(&s);
    }
}
END_TEST

/* Signals: one axis. */
START_TEST(line_convolutions)
{
    static const int algorithms[] = {XCVM_BLOCKED_direct, XCVM_BLOCKED_depthwise, XCVM_BLOCKED_grouped};
    for (int i = _i * AT_A_TIME; i < (_i + 1) * AT_A_TIME; i++) {
        blocked_random_seed((uint32_t)i + 1);
        blocked_shape s = random_shape(algorithms[i % 3], i % 2 == 0, 1);
        blocked_check(&s);
    }
}
END_TEST

/* Layers of networks for videos: windows of all three axes, of planes and of the depth alone; larger than a band. */
START_TEST(known_deep_convolutions)
{
    static const struct {
        int64_t channels, outputs, in[BLOCKED_AXES], kernel[BLOCKED_AXES],
            stride[BLOCKED_AXES]; /* channels of a group */
        int algorithm;
        int64_t tile;
    } cases[] = {
        {64, 48, {28, 28, 6}, {3, 3, 3}, {1, 1, 1}, XCVM_BLOCKED_direct, 0},
        {64, 48, {28, 28, 6}, {3, 3, 3}, {1, 1, 1}, XCVM_BLOCKED_winograd, 4},
        {40, 70, {14, 13, 5}, {3, 3, 3}, {1, 1, 1}, XCVM_BLOCKED_winograd, 2},
        {64, 96, {28, 28, 4}, {3, 3, 1}, {1, 1, 1}, XCVM_BLOCKED_winograd, 4},
        {64, 96, {28, 28, 4}, {3, 3, 1}, {1, 1, 1}, XCVM_BLOCKED_direct, 0},
        {64, 64, {40, 40, 9}, {1, 1, 3}, {1, 1, 1}, XCVM_BLOCKED_direct, 0},
        {32, 64, {60, 60, 11}, {1, 1, 7}, {1, 1, 2}, XCVM_BLOCKED_direct, 0},
        {96, 32, {20, 20, 3}, {1, 1, 1}, {1, 1, 1}, XCVM_BLOCKED_direct, 0},
        /* So many slices that a band is one of four tiles, for three threads. */
        {128, 16, {16, 4, 50}, {3, 3, 1}, {1, 1, 1}, XCVM_BLOCKED_winograd, 4},
        {64, 32, {14, 14, 6}, {1, 1, 1}, {2, 2, 2}, XCVM_BLOCKED_direct, 0},
        {64, 128, {28, 28, 8}, {3, 3, 3}, {2, 2, 2}, XCVM_BLOCKED_direct, 0},
        {3, 48, {56, 50, 5}, {7, 7, 3}, {2, 2, 1}, XCVM_BLOCKED_direct, 0},
        {256, 128, {7, 7, 2}, {3, 3, 3}, {1, 1, 1}, XCVM_BLOCKED_direct, 0},
        {1, 54, {28, 28, 8}, {3, 3, 3}, {1, 1, 1}, XCVM_BLOCKED_depthwise, 0},
        {1, 96, {29, 28, 5}, {3, 3, 3}, {2, 2, 1}, XCVM_BLOCKED_depthwise, 0},
    };
    const size_t i = (size_t)_i;
    ck_assert_uint_eq(sizeof cases / sizeof *cases, KNOWN_DEEP);
    blocked_shape s = {.algorithm = cases[i].algorithm,
                       .axes = 3,
                       .tile = cases[i].tile,
                       .batch = 1,
                       .group = cases[i].channels == 1 ? cases[i].outputs : 1,
                       .channels = cases[i].channels,
                       .outputs = cases[i].channels == 1 ? 1 : cases[i].outputs,
                       .plain = cases[i].channels == 3,
                       .bias = true,
                       .activation = XCVM_ACTIVATION_Relu};
    for (int axis = 0; axis < BLOCKED_AXES; axis++) {
        s.in[axis] = cases[i].in[axis];
        s.kernel[axis] = cases[i].kernel[axis];
        s.stride[axis] = cases[i].stride[axis];
        s.dilation[axis] = 1;
        s.pad[axis] = s.pad_end[axis] = s.kernel[axis] / 2;
        s.out[axis] = (s.in[axis] + 2 * s.pad[axis] - s.kernel[axis]) / s.stride[axis] + 1;
    }
    blocked_check(&s);
}
END_TEST

/* Maps of one pixel, and those of networks. */
START_TEST(known_convolutions)
{
    static const struct {
        int64_t channels, size, outputs, kernel, stride, group;
        int algorithm;
        int64_t tile;
    } cases[] = {
        {100, 1, 40, 1, 1, 1, XCVM_BLOCKED_direct, 0},          {480, 1, 200, 1, 1, 1, XCVM_BLOCKED_direct, 0},
        {64, 14, 192, 1, 1, 1, XCVM_BLOCKED_direct, 0},         {24, 28, 72, 1, 1, 1, XCVM_BLOCKED_direct, 0},
        {160, 7, 96, 1, 1, 1, XCVM_BLOCKED_direct, 0},          {64, 14, 128, 1, 2, 1, XCVM_BLOCKED_direct, 0},
        {32, 14, 64, 3, 2, 1, XCVM_BLOCKED_direct, 0},          {64, 7, 64, 3, 1, 1, XCVM_BLOCKED_direct, 0},
        {1, 30, 1, 3, 1, 24, XCVM_BLOCKED_depthwise, 0},        {1, 29, 1, 5, 2, 40, XCVM_BLOCKED_depthwise, 0},
        {48, 28, 64, 3, 1, 1, XCVM_BLOCKED_winograd, 4},        {48, 14, 80, 3, 1, 1, XCVM_BLOCKED_winograd, 2},
        {130, 7, 70, 3, 1, 1, XCVM_BLOCKED_winograd, 4},        {3, 40, 64, 7, 2, 1, XCVM_BLOCKED_direct, 0},
        {3, 56, 64, 7, 2, 1, XCVM_BLOCKED_winograd_strided, 3}, {4, 28, 4, 3, 1, 32, XCVM_BLOCKED_grouped, 0},
        {8, 28, 8, 3, 2, 32, XCVM_BLOCKED_grouped, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t kernel = cases[i].kernel, pad = kernel / 2, stride = cases[i].stride;
        const int64_t out = (cases[i].size + 2 * pad - kernel) / stride + 1;
        blocked_shape s = {.algorithm = cases[i].algorithm,
                           .axes = 2,
                           .tile = cases[i].tile,
                           .batch = 1,
                           .group = cases[i].group,
                           .channels = cases[i].channels,
                           .outputs = cases[i].outputs,
                           .in = {cases[i].size, cases[i].size},
                           .kernel = {kernel, kernel},
                           .stride = {stride, stride},
                           .dilation = {1, 1},
                           .pad = {pad, pad},
                           .pad_end = {pad, pad},
                           .out = {out, out},
                           .plain = cases[i].channels == 3,
                           .bias = true,
                           .activation = XCVM_ACTIVATION_Relu};
        blocked_check(&s);
    }
}
END_TEST

/* Images so small that filters are read once for several of them, which threads share; and windows of one position that
 * skip pixels, which are gathered, of planes and of a depth. */
START_TEST(many_images)
{
    static const struct {
        int64_t batch, group, channels, outputs, stride[BLOCKED_AXES];
    } cases[] = {{2, 1, 160, 96, {1, 1, 1}}, {7, 1, 40, 144, {1, 1, 1}}, {31, 1, 96, 80, {1, 1, 1}},
                 {5, 3, 32, 48, {1, 1, 1}},  {1, 1, 64, 128, {2, 2, 1}}, {9, 1, 50, 150, {2, 1, 1}},
                 {6, 2, 32, 160, {1, 3, 1}}, {3, 1, 40, 112, {2, 3, 2}}, {4, 1, 32, 100, {1, 1, 3}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        blocked_shape s = {.algorithm = XCVM_BLOCKED_direct,
                           .axes = cases[i].stride[BLOCKED_DEPTH] > 1 ? 3 : 2,
                           .batch = cases[i].batch,
                           .group = cases[i].group,
                           .channels = cases[i].channels,
                           .outputs = cases[i].outputs,
                           .bias = true,
                           .residual = i % 2 == 0,
                           .activation = XCVM_ACTIVATION_Relu};
        for (int axis = 0; axis < BLOCKED_AXES; axis++) {
            s.stride[axis] = cases[i].stride[axis];
            s.in[axis] = axis < s.axes ? 7 : 1;
            s.kernel[axis] = s.dilation[axis] = 1;
            s.out[axis] = (s.in[axis] - 1) / s.stride[axis] + 1;
        }
        blocked_check(&s);
    }
}
END_TEST

/* Sums so long that one running sum would be rounded two to three times as much. */
START_TEST(long_sums)
{
    static const struct {
        int algorithm;
        int64_t tile, channels, kernel, dilation;
        double rounding;
    } cases[] = {
        {XCVM_BLOCKED_direct, 0, 2048, 1, 1, 3e-7},  {XCVM_BLOCKED_direct, 0, 256, 3, 1, 3e-7},
        {XCVM_BLOCKED_direct, 0, 256, 3, 2, 3e-7},   {XCVM_BLOCKED_winograd, 2, 512, 3, 1, 4e-7},
        {XCVM_BLOCKED_winograd, 4, 512, 3, 1, 1e-6}, {XCVM_BLOCKED_winograd_untransformed, 4, 512, 3, 1, 1e-6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t kernel = cases[i].kernel, dilation = cases[i].dilation, pad = kernel / 2 * dilation;
        blocked_shape s = {.algorithm = cases[i].algorithm,
                           .axes = 2,
                           .tile = cases[i].tile,
                           .batch = 1,
                           .group = 1,
                           .channels = cases[i].channels,
                           .outputs = 16,
                           .in = {8, 8},
                           .kernel = {kernel, kernel},
                           .stride = {1, 1},
                           .dilation = {dilation, dilation},
                           .pad = {pad, pad},
                           .pad_end = {pad, pad},
                           .out = {8, 8},
                           .rounding = cases[i].rounding};
        blocked_check(&s);
    }
}
END_TEST

/* Windows whose positions are too far apart for a copy of the image. */
START_TEST(far_apart)
{
    for (int algorithm = XCVM_BLOCKED_direct; algorithm <= XCVM_BLOCKED_depthwise; algorithm++) {
        const int64_t far = 1 << 30;
        blocked_shape s = {.algorithm = algorithm,
                           .axes = 2,
                           .batch = 2,
                           .group = algorithm == XCVM_BLOCKED_depthwise ? 20 : 2,
                           .channels = algorithm == XCVM_BLOCKED_depthwise ? 1 : 32,
                           .outputs = algorithm == XCVM_BLOCKED_depthwise ? 1 : 32,
                           .in = {5, 4},
                           .kernel = {3, 2},
                           .stride = {2, far},
                           .dilation = {far, 3},
                           .pad = {far, far - 1},
                           .pad_end = {far, 8},
                           .out = {3, 2},
                           .bias = true,
                           .residual = true,
                           .activation = XCVM_ACTIVATION_HardSwish};
        blocked_check(&s);
        s.axes = 3;
        s.in[BLOCKED_DEPTH] = 3;
        s.kernel[BLOCKED_DEPTH] = 2;
        s.stride[BLOCKED_DEPTH] = 1;
        s.dilation[BLOCKED_DEPTH] = s.pad[BLOCKED_DEPTH] = far;
        s.out[BLOCKED_DEPTH] = 3;
        blocked_check(&s);
    }
}
END_TEST

START_TEST(way_back)
{
    for (int64_t channels = 1; channels < 40; channels += 5)
        blocked_check_way_back(channels);
}
END_TEST

Suite *suite_ops_blocked(void);
Suite *suite_ops_blocked(void)
{
    Suite *s = suite_create("ops_blocked");
    TCase *c = tcase_create("blocked");
    tcase_set_timeout(c, 120);
    /* Sanitizers take long: a fifth of the random ones. */
    tcase_add_loop_test(c, random_convolutions, 0, (int)test_fewer(180 / AT_A_TIME));
    tcase_add_loop_test(c, dilated_convolutions, 0, (int)test_fewer(300 / AT_A_TIME));
    tcase_add_loop_test(c, deep_convolutions, 0, (int)test_fewer(240 / AT_A_TIME));
    tcase_add_loop_test(c, known_deep_convolutions, 0, KNOWN_DEEP);
    tcase_add_loop_test(c, line_convolutions, 0, (int)test_fewer(180 / AT_A_TIME));
    tcase_add_loop_test(c, pairs, 0, (int)test_fewer(120 / AT_A_TIME));
    tcase_add_test(c, pairs_behind_padding);
    tcase_add_test(c, known_convolutions);
    tcase_add_test(c, many_images);
    tcase_add_test(c, long_sums);
    tcase_add_test(c, far_apart);
    tcase_add_test(c, way_back);
    suite_add_tcase(s, c);
    return s;
}

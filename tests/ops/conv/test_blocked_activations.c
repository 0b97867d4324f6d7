/* Tests of activations in the store of convolutions of blocked channels, against f64. */
#include "ops/elementwise/activation.h"
#include "ops/conv/blocked.h"
#include "tests/ops/run_kernel.h"

#include <check.h>
#include <math.h>

static xcvm_value tensor(int rank, const int64_t *dims, float *data)
{
    xcvm_value v = {0};
    xcvm_value_set_tensor(&v, XCVM_F32, rank, dims);
    v.data = data;
    return v;
}

/* Results of the store for each number: the window has one pixel and does not change it. */
static void activate(xcvm_kernel_run run, int activation, xcvm_floats params, float *numbers, int64_t width,
                     float *results)
{
    const int64_t size[] = {1, width}, ones[] = {1, 1}, pads[4] = {0};
    float one[XCVM_CHANNEL_BLOCK];
    for (int i = 0; i < XCVM_CHANNEL_BLOCK; i++)
        one[i] = 1.0f;
    xcvm_value x = tensor(5, (const int64_t[]){1, 1, size[0], size[1], XCVM_CHANNEL_BLOCK}, numbers);
    xcvm_value w = tensor(4, (const int64_t[]){1, 1, 1, XCVM_CHANNEL_BLOCK}, one), y = x;
    y.data = results;
    const xcvm_BlockedConv_args a = {.y = &y,
                                     .x = &x,
                                     .w = &w,
                                     .strides = {ones, 2},
                                     .pads = {pads, 4},
                                     .dilations = {ones, 2},
                                     .group = XCVM_CHANNEL_BLOCK,
                                     .activation = activation,
                                     .activation_params = params,
                                     .algorithm = XCVM_BLOCKED_depthwise};
    run_kernel(run, &a, 1, "BlockedConv");
}

/* y = scale / (1 + exp(-t)), and its tolerance. */
static void check_logistic(const char *name, float x, float y, double scale, double t)
{
    if (isnan(t) || (isinf(scale) && t < -200.0)) {
        ck_assert_msg(isnan(y), "%s(%g) = %g", name, (double)x, (double)y);
        return;
    }
    const double exact = scale / (1.0 + exp(-t));
    const double allowed = (5e-7 + 2e-7 * fmin(fabs(t), 100.0)) * fabs(exact) + 1e-36 * (1.0 + fabs(scale));
    if ((double)y != exact && !(fabs((double)y - exact) <= allowed))
        ck_abort_msg("%s(%.9g) = %.9g, exactly %.9g", name, (double)x, (double)y, exact);
}

START_TEST(exponential_activations)
{
    enum { PIXELS = 600, COUNT = PIXELS * XCVM_CHANNEL_BLOCK };
    static const float special[] = {0.0f,     -0.0f,     1e-40f,  -1e-40f,  1e-20f,  88.0f, -88.0f,
                                    -87.336f, -126.0f,   -127.5f, 200.0f,   -200.0f, 1e10f, -1e10f,
                                    INFINITY, -INFINITY, 3.4e38f, -3.4e38f, NAN};
    const double alpha = 1.7, tanh_form = 1.0;
    xcvm_kernel_run run;
    static float x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i - COUNT / 2) * 0.0249f;
    memcpy(x, special, sizeof special);
    for (size_t r = 0; (run = kernel_variant(XCVM_OP_BlockedConv, r)) != NULL; r++) {
        activate(run, XCVM_ACTIVATION_Sigmoid, (xcvm_floats){NULL, 0}, x, PIXELS, y);
        for (int i = 0; i < COUNT; i++)
            check_logistic("sigmoid", x[i], y[i], 1.0, (double)x[i]);
        activate(run, XCVM_ACTIVATION_Swish, (xcvm_floats){&alpha, 1}, x, PIXELS, y);
        for (int i = 0; i < COUNT; i++)
            check_logistic("swish", x[i], y[i], (double)x[i], alpha * (double)x[i]);
        activate(run, XCVM_ACTIVATION_Gelu, (xcvm_floats){&tanh_form, 1}, x, PIXELS, y);
        for (int i = 0; i < COUNT; i++) {
            const double v = (double)x[i];
            check_logistic("gelu", x[i], y[i], v, 1.5957691216057308 * (v + 0.044715 * v * v * v));
        }
    }
}
END_TEST

Suite *suite_ops_blocked_activations(void);
Suite *suite_ops_blocked_activations(void)
{
    Suite *s = suite_create("ops_blocked_activations");
    TCase *c = tcase_create("activations");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, exponential_activations);
    suite_add_tcase(s, c);
    return s;
}

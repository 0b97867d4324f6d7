/* Channel equalization: networks whose channels differ by a factor that is known, with and without. */
#include "tests/compiler/quantize/support.h"

#include <math.h>

/* The second channel of c is a hundredth of the first, and the result depends on it alone. */
#define HEAD                                                                                                           \
    "opset 13\ninput x f32[1x2x4x4]\noutput y\n"                                                                       \
    "init w f32[2x2x1x1] 100 0 0 1\ninit b f32[2] 0.5 0.25\ninit u f32[1x2x1x1] 0 1\n"                                 \
    "c = Conv(x, w, b)\n"

static const char *const scaled[] = {
    HEAD "y = Conv(c, u)\n",
    HEAD "r = Relu(c)\ny = Conv(r, u)\n",
    /* A depthwise convolution between, as in MobileNet. */
    HEAD "init d f32[2x1x1x1] 0.5 2\nr = Relu(c)\ne = Conv(r, d) group=2\ny = Conv(e, u)\n",
    /* A residual: three tensors have one factor for each channel. */
    HEAD "init v f32[2x2x1x1] 0.1 0 0 0.1\ne = Conv(c, v)\ns = Add(e, c)\nr = Relu(s)\ny = Conv(r, u)\n",
    /* A depthwise convolution in a residual: its factors cancel in the weights, but not in the bias. */
    (HEAD "init d f32[2x1x1x1] 0.5 2\ninit a f32[2] 40 0.75\ne = Conv(c, d, a) group=2\ns = Add(e, c)\n"
          "y = Conv(s, u)\n"),
    /* Channels of zeros are added, as in BlazeFace. */
    (HEAD "init p i64[8] 0 1 0 0 0 0 0 0\ninit t f32[1x3x1x1] 0 0 1\nm = MaxPool(c) kernel_shape=[1 1]\n"
          "e = Pad(m, p)\ny = Conv(e, t)\n"),
    (HEAD "init v f32[1x2x1x1] 50 50\ninit t f32[1x3x1x1] 0 0 1\nf = Conv(x, v)\ne = Concat(f, c) axis=1\n"
          "y = Conv(e, t)\n"),
    HEAD "init k f32[4] 1 1 2 2\ne = Resize(c, _, k) mode=\"nearest\"\ny = Conv(e, u)\n",
    HEAD "init t f32[2x1x1x1] 0 1\ny = ConvTranspose(c, t)\n",
    ("opset 13\ninput x f32[1x2x4x4]\noutput y\ninit w f32[2x2x1x1] 100 0 0 1\ninit u f32[1x2x1x1] 0 1\n"
     "c = ConvTranspose(x, w)\ny = Conv(c, u)\n"),
};
enum { SCALED = sizeof scaled / sizeof *scaled };

static double sqnr_of(const char *text, const xcc_quantizer_options *options, xcc_quantizer_report *report)
{
    quantizing z;
    source s = {.batches = 20, .factor = 2};
    quantize(&z, text, options, &s);
    *report = (xcc_quantizer_report){.size = sizeof *report};
    xcc_quantizer_get_report(z.q, report);
    const double sqnr = xcc_quantizer_output_at(z.q, 0)->sqnr;
    close_quantizing(&z);
    return sqnr;
}

/* The step of the first channel is 100 times that of the second, and 10 times with the factor of 10: 20 dB. */
START_TEST(ranges_become_alike)
{
    xcc_quantizer_report with, without;
    const double right = sqnr_of(scaled[_i], OPTIONS(.held_out = 0.5), &with),
                 wrong = sqnr_of(scaled[_i], OPTIONS(.held_out = 0.5, .no_channel_scaling = true), &without);
    ck_assert_uint_ge(with.scaled_channels, 1);
    ck_assert_uint_eq(without.scaled_channels, 0);
    ck_assert_msg(right > wrong + 10, "model %d: %.1f dB, without %.1f dB", _i, right, wrong);
    ck_assert_double_gt(right, 20);
}
END_TEST

/* Channels of tensors that are limited, saturate, are outputs or have other readers keep their scale. */
START_TEST(channels_that_stay)
{
    static const char *const texts[] = {
        HEAD "init l f32[] 0\ninit h f32[] 6\nr = Clip(c, l, h)\ny = Conv(r, u)\n",
        HEAD "r = Sigmoid(c)\ny = Conv(r, u)\n",
        HEAD "y = Identity(c)\nz = Conv(c, u)\n",
        HEAD "f = Flatten(c)\nz = Conv(c, u)\ny = Relu(f)\n",
        HEAD "init p i64[8] 0 0 1 1 0 0 1 1\ninit o f32[] 1\ne = Pad(c, p, o)\ny = Conv(e, u)\n",
        HEAD "z = Conv(x, w)\nr = Add(z, c)\ny = Conv(r, u)\n",
        HEAD "init a f32[1x2x1x1] 1 2\ne = Add(c, a)\nr = Relu(e)\nz = Mul(r, x)\ny = Conv(z, u)\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        xcc_quantizer_report report;
        (void)sqnr_of(texts[i], OPTIONS(.held_out = 0.5), &report);
        ck_assert_msg(report.scaled_channels == 0, "model %zu", i);
    }
    xcc_quantizer_report report;
    (void)sqnr_of(scaled[0], OPTIONS(.held_out = 0.5, .per_tensor = true), &report);
    ck_assert_uint_eq(report.scaled_channels, 0);
}
END_TEST

/* What a model computes of numbers from -2 to 2; the number of elements. */
static size_t compute(const test_bytes *model, float *to, size_t room)
{
    test_bytes program = {0};
    xcvm_program *p;
    xcvm_session *session;
    xcvm_value *x;
    xcvm_error error = {0};
    ck_assert_msg(xcc_compile(model->at, model->length, NULL, (xcvm_sink){test_bytes_sink, &program}, NULL, &error) ==
                      XCVM_OK,
                  "%s", error.message);
    ck_assert_int_eq(xcvm_program_load(program.at, program.length, NULL, &p, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_session_create(p, NULL, &session, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, 4, (const int64_t[]){1, 2, 4, 4}, &x, &error), XCVM_OK);
    for (size_t i = 0; i < 32; i++)
        ((float *)xcvm_value_data(x))[i] = 0.125f * (float)(i * 7 % 32) - 2;
    ck_assert_int_eq(xcvm_session_set_input(session, 0, x, &error), XCVM_OK);
    ck_assert_msg(xcvm_session_run(session, NULL, &error) == XCVM_OK, "%s", error.message);
    const xcvm_value *y = xcvm_session_get_output(session, 0);
    const size_t count = xcvm_value_count(y);
    ck_assert_uint_le(count, room);
    memcpy(to, xcvm_value_data(y), count * sizeof *to);
    xcvm_value_release(x);
    xcvm_session_destroy(session);
    xcvm_program_destroy(p);
    test_bytes_free(&program);
    return count;
}

/* With activations of 16 bits, the written model computes what the given one does. */
START_TEST(function_stays)
{
    quantizing z;
    source s = {.batches = 20, .factor = 2};
    float right[256], given[256];
    double error = 0, most = 0;
    test_bytes written = {0};
    xcvm_error failure = {0};
    quantize(&z, scaled[_i], OPTIONS(.activations = XCVM_U16, .rounding = XCC_ROUNDING_NEAREST), &s);
    ck_assert_int_eq(xcc_quantizer_save(z.q, (xcvm_sink){test_bytes_sink, &written}, &failure), XCVM_OK);
    const size_t count = compute(&z.model, right, 256);
    ck_assert_uint_eq(compute(&written, given, 256), count);
    for (size_t i = 0; i < count; i++) {
        const double difference = fabs((double)given[i] - (double)right[i]), size = fabs((double)right[i]);
        error = difference > error ? difference : error;
        most = size > most ? size : most;
    }
    ck_assert_msg(error < 0.02 * most, "an error of %g of %g", error, most);
    test_bytes_free(&written);
    close_quantizing(&z);
}
END_TEST

START_TEST(memory_ends)
{
    source s = {.batches = 5, .factor = 2};
    check_memory(scaled[3], OPTIONS(.held_out = 0.5), &s);
}
END_TEST

Suite *suite_compiler_channel_scales(void);
Suite *suite_compiler_channel_scales(void)
{
    Suite *suite = suite_create("compiler_channel_scales");
    TCase *tc = tcase_create("channel_scales");
    tcase_add_loop_test(tc, ranges_become_alike, 0, SCALED);
    tcase_add_test(tc, channels_that_stay);
    tcase_add_loop_test(tc, function_stays, 0, SCALED);
    tcase_add_test(tc, memory_ends);
    suite_add_tcase(suite, tc);
    return suite;
}

/* Tests of the quantizer's refusals: models, options, data, and limits of time and memory. */
#include "tests/compiler/quantize/support.h"

#include <math.h>

static void refuse_model(const char *text, const xcc_quantizer_options *options, xcvm_status status, const char *part)
{
    quantizing z;
    source s = {.batches = BATCHES, .factor = 1};
    xcvm_error error = {0};
    const xcvm_status got = try_quantize(&z, text, options, &s, &error);
    ck_assert_msg(got == status && strstr(error.message, part) != NULL, "%s: %s", xcvm_status_name(got), error.message);
    close_quantizing(&z);
}

static void refuse_data(source *s, xcvm_status status, const char *part)
{
    quantizing z;
    xcvm_error error = {0};
    const xcvm_status got = try_quantize(&z, block, OPTIONS(.held_out = 0.01), s, &error);
    ck_assert_msg(z.q != NULL && got == status && strstr(error.message, part) != NULL, "%s: %s", xcvm_status_name(got),
                  error.message);
    /* Nothing is written of what failed, but for the model in its parts that need no ranges: a second run is refused.
     */
    ck_assert_int_eq(run_on(z.q, s, &error), XCVM_INVALID_ARGUMENT);
    close_quantizing(&z);
}

START_TEST(refusals)
{
    static const char *const frob[] = {"frob"};
    const xcc_quantizer_options *plain = OPTIONS(.method = XCC_RANGE_MSE);
    refuse_model("opset 13\ninput x f32[2x2]\noutput y\ninit s f32[] 1\ny = QuantizeLinear(x, s)\n", plain,
                 XCVM_UNSUPPORTED, "quantized already: node 'y' is QuantizeLinear");
    refuse_model("opset 13\ninput x f32[2x2]\noutput y\ny = Relu(x)\n", plain, XCVM_INVALID_ARGUMENT, "no node can be");
    refuse_model("opset 13\ninput x f32[2x2]\noutput y\ny = Erf(x)\n", plain, XCVM_INVALID_ARGUMENT,
                 "nothing to quantize");
    refuse_model("opset 13\ninput x f32[2x2]\noutput y\ninit w f32[2x2] 1 nan 1 1\ny = MatMul(x, w)\n", plain,
                 XCVM_INVALID_ARGUMENT, "\"w\" has NaN");
    refuse_model(block, OPTIONS(.nodes = frob, .node_count = 1), XCVM_INVALID_ARGUMENT, "no node called \"frob\"");
    refuse_model(block, OPTIONS(.exclude_types = frob, .exclude_type_count = 1), XCVM_INVALID_ARGUMENT,
                 "no node of type \"frob\"");
    refuse_model(block, OPTIONS(.block = 24), XCVM_INVALID_ARGUMENT, "power of two");
    refuse_model(block, OPTIONS(.activations = XCVM_I32), XCVM_INVALID_ARGUMENT, "activations cannot be i32");
    refuse_model(block, OPTIONS(.weights = XCVM_F16), XCVM_INVALID_ARGUMENT, "weights cannot be f16");
    refuse_model(block, OPTIONS(.form = XCC_FORM_QOPERATOR, .activations = XCVM_U16), XCVM_INVALID_ARGUMENT, "not u16");
    refuse_model(block, OPTIONS(.trainable = true, .weights = XCVM_I4), XCVM_INVALID_ARGUMENT, "weights of 8 bits");
    refuse_model(block, OPTIONS(.percentile = 101), XCVM_INVALID_ARGUMENT, "101");
    refuse_model(block, OPTIONS(.percentile = 0.999), XCVM_INVALID_ARGUMENT, "expected a number from 50 to 100");
    refuse_model(block, OPTIONS(.max_error = 1e-9), XCVM_INVALID_ARGUMENT, "within a greatest error of 1e-09");
    refuse_data(&(source){.batches = 0, .factor = 1}, XCVM_INVALID_ARGUMENT, "at least one batch");
    refuse_data(&(source){.batches = BATCHES, .factor = 1, .bad = INFINITY}, XCVM_INVALID_ARGUMENT,
                "input \"x\" has an infinity in batch 9");
    refuse_data(&(source){.batches = BATCHES, .factor = 1, .bad = NAN}, XCVM_INVALID_ARGUMENT, "input \"x\" has NaN");
    refuse_data(&(source){.batches = 1, .factor = 1, .wrong_dim = 7}, XCVM_SHAPE_MISMATCH, "x");
}
END_TEST

/* Invalid models are refused before the compiler would: nodes that read merged values, have no result, or form a
 * cycle. */
START_TEST(twisted_models)
{
#define CONV                                                                                                           \
    "opset 13\ninput x f32[1x2x2x2]\noutput y\ninit w f32[2x2x1x1] 1 2 3 4\ninit b f32[2x1x1] 1 2\n"                   \
    "init s f32[2] 1 2\nc = Conv(x, w)\n"
    static const struct {
        const char *text;
        xcvm_status status;
    } models[] = {
        {CONV "_ = Add(c, b)\ny = Relu(x)\n", XCVM_OK},
        {CONV "_ = BatchNormalization(c, s, s, s, s)\ny = Relu(x)\n", XCVM_OK},
        {CONV "d = Conv(x, w)\ny = Add(c, b, d)\n", XCVM_INVALID_MODEL},
        {CONV "a = Relu(c, d)\nd = Relu(a)\ny = Relu(x)\n", XCVM_INVALID_MODEL},
        {CONV "_ = Constant() value=f32[1]{1}\ny = Relu(c, x)\n", XCVM_INVALID_MODEL},
    };
#undef CONV
    xcvm_error error = {0};
    xcc_quantizer *q = NULL;
    test_bytes model = onnx_from_text(models[_i].text);
    const xcvm_status status =
        xcc_quantizer_create(model.at, model.length, OPTIONS(.method = XCC_RANGE_MSE), &q, &error);
    ck_assert_msg(status == models[_i].status, "%s: %s", xcvm_status_name(status), error.message);
    xcc_quantizer_destroy(q);
    test_bytes_free(&model);
}
END_TEST

START_TEST(limits)
{
    source s = {.batches = 2, .factor = 1};
    refuse_model(block, OPTIONS(.timeout_ns = 1), XCVM_OUT_OF_TIME, "");
    refuse_model(block, OPTIONS(.memory_limit = 20000), XCVM_OUT_OF_MEMORY, "");
    check_memory(block, OPTIONS(.method = XCC_RANGE_MSE), &s);
}
END_TEST

Suite *suite_compiler_quantize_refusals(void);
Suite *suite_compiler_quantize_refusals(void)
{
    Suite *suite = suite_create("compiler_quantize_refusals");
    TCase *tc = tcase_create("quantize");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, refusals);
    tcase_add_loop_test(tc, twisted_models, 0, 5);
    tcase_add_test(tc, limits);
    suite_add_tcase(suite, tc);
    return suite;
}

/* The quantizer's ranges and errors: where ranges end, and what makes errors smaller or bounds them. */
#include "tests/compiler/quantize/support.h"

#include <math.h>

/* Ranges end where the functions that read a tensor saturate, if it has no other readers. */
START_TEST(ranges_of_gates)
{
    static const char gates[] =
        "opset 14\ninput x f32[Nx2x3x3]\noutput y\ninit w f32[2x2x1x1] 10 -20 30 40\ninit v f32[2x2x1x1] 1 0.5 0.2 1\n"
        "a = Conv(x, w)\nah = HardSigmoid(a) alpha=0.25 beta=0.5\nam = Mul(a, ah)\n"
        "b = Conv(x, w)\nbs = Sigmoid(b)\nbm = Mul(b, bs)\n"
        "c = Conv(x, w)\nch = HardSigmoid(c) alpha=0.25 beta=0.5\nd = Conv(x, w)\ncm = Mul(d, ch)\n"
        "e = Conv(x, w)\net = Tanh(e)\nf = Conv(x, w)\nft = Tanh(f)\nfm = Add(f, ft)\n"
        "s1 = Add(am, bm)\ns2 = Add(cm, et)\ns3 = Add(s1, s2)\ns4 = Add(s3, fm)\ny = Conv(s4, v)\n";
    static const struct {
        const char *name;
        double low, high; /* 0: no end */
    } expected[] = {{"a", -2, 0}, {"b", -6.93, 0}, {"c", -2, 2}, {"d", 0, 0}, {"e", -3.47, 3.47}, {"f", 0, 0}};
    result r;
    open_result(&r, gates, OPTIONS(.method = XCC_RANGE_MINMAX), true);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const xcc_quantizer_tensor_info *t = NULL;
        for (size_t k = 0; (t = xcc_quantizer_tensor_at(r.q, k)) != NULL && strcmp(t->name, expected[i].name) != 0;)
            k++;
        ck_assert_msg(t != NULL, "%s", expected[i].name);
        if (expected[i].low < 0)
            ck_assert_double_eq_tol(t->low, expected[i].low, 0.01);
        else
            ck_assert_double_lt(t->low, -30);
        if (expected[i].high > 0)
            ck_assert_double_eq_tol(t->high, expected[i].high, 0.01);
        else
            ck_assert_double_gt(t->high, 30);
    }
    ck_assert_double_lt(xcc_quantizer_output_at(r.q, 0)->max_error, 0.02);
    close_result(&r);
}
END_TEST

/* Channels of very different ranges, which one scale for all weights cannot serve. */
static const char uneven[] = "opset 13\ninput x f32[Nx2x2x2]\noutput y\ninit w f32[3x2x1x1] 10 -20 0.01 0.02 0.1 -0.3\n"
                             "init u f32[2x3x1x1] 0.01 3 0.2 -0.02 5 -0.1\ninit b f32[3] 1 0.001 0.01\n"
                             "c = Conv(x, w, b)\nr = Relu(c)\ny = Conv(r, u)\n";

START_TEST(equalization)
{
    result plain, equal;
    xcc_quantizer_report report = {.size = sizeof report};
    open_result(&plain, uneven, OPTIONS(.per_tensor = true), true);
    open_result(&equal, uneven, OPTIONS(.per_tensor = true, .equalize = true), true);
    xcc_quantizer_get_report(equal.q, &report);
    ck_assert_uint_eq(report.equalized_pairs, 1);
    ck_assert_double_gt(xcc_quantizer_output_at(equal.q, 0)->sqnr, xcc_quantizer_output_at(plain.q, 0)->sqnr + 6);
    /* The model of floats computes the same. */
    ck_assert_double_eq_tol(xcc_quantizer_output_at(equal.q, 0)->greatest,
                            xcc_quantizer_output_at(plain.q, 0)->greatest, 1e-4);
    close_result(&plain);
    close_result(&equal);
}
END_TEST

static xcvm_status read_ones(void *user, size_t batch, xcvm_value **inputs, xcvm_error *error)
{
    (void)user;
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, 2, (const int64_t[]){2, 3}, &inputs[0], error), XCVM_OK);
    for (size_t i = 0; i < 6; i++)
        ((float *)xcvm_value_data(inputs[0]))[i] = 1 + 0.01f * (float)(batch + i);
    return XCVM_OK;
}

START_TEST(biases_that_make_up)
{
    /* All weights but one are rounded up by nearly half a step, and all inputs are about 1. */
    static const char text[] =
        "opset 13\ninput x f32[Nx3]\noutput y\ninit w f32[3x1] 12.7 0.149 0.149\ny = Gemm(x, w)\n";
    double errors[2];
    for (int i = 0; i < 2; i++) {
        quantizing z;
        source s = {.read = read_ones, .batches = 4};
        quantize(&z, text, OPTIONS(.activations = XCVM_U16, .correct_bias = i == 1), &s);
        errors[i] = xcc_quantizer_output_at(z.q, 0)->mean_error;
        close_quantizing(&z);
    }
    ck_assert_double_lt(errors[1] * 10, errors[0]);
}
END_TEST

START_TEST(bounded_errors)
{
    result r;
    xcc_quantizer_report report = {.size = sizeof report};
    /* One scale for the uneven channels of the first convolution does harm; the second may stay. */
    open_result(&r, uneven, OPTIONS(.per_tensor = true), true);
    const double bound = xcc_quantizer_output_at(r.q, 0)->max_error * 0.7;
    close_result(&r);
    open_result(&r, uneven, OPTIONS(.per_tensor = true, .max_error = bound), true);
    ck_assert_double_le(xcc_quantizer_output_at(r.q, 0)->max_error, bound);
    xcc_quantizer_get_report(r.q, &report);
    ck_assert_uint_gt(report.quantized_nodes, 0);
    ck_assert_uint_lt(report.quantized_nodes, report.node_count);
    bool reported = false;
    const xcc_quantizer_node_info *n;
    for (size_t i = 0; (n = xcc_quantizer_node_at(r.q, i)) != NULL; i++)
        if (!n->quantized && strcmp(n->reason, "kept in float, as a bound would not hold otherwise") == 0) {
            reported = true;
            ck_assert(n->harm > 0 || strcmp(n->op, "Relu") == 0);
        }
    ck_assert(reported);
    close_result(&r);
}
END_TEST

/* The first batch of the first input has an element ten times the others, so its steps are coarse. That of the other
 * input is in the last batch, which calibration does not use, and is clipped. */
static xcvm_status read_outliers(void *user, size_t batch, xcvm_value **inputs, xcvm_error *error)
{
    const source *s = user;
    XCVM_TRY(read_batch(user, batch, inputs, error));
    if (batch == 0 || batch + 1 == s->batches)
        ((float *)xcvm_value_data(inputs[batch == 0 ? 0 : 1]))[0] = 10;
    return XCVM_OK;
}

START_TEST(bounds_by_the_worst_inputs)
{
    quantizing z;
    source s = {.read = read_outliers, .batches = 40, .factor = 1};
    quantize(&z,
             "opset 13\ninput a f32[1x2]\ninput b f32[1x2]\noutput y\noutput z\n"
             "init w f32[2x2] 1 0.5 -0.5 1\ninit u f32[2x2] 0.5 1 1 -0.5\n"
             "y = MatMul(a, w)\nz = MatMul(b, u)\n",
             OPTIONS(.method = XCC_RANGE_MINMAX, .max_error = 0.1), &s);
    ck_assert(node(z.q, "y")->quantized && !node(z.q, "y")->weights_alone);
    ck_assert(node(z.q, "z")->quantized && node(z.q, "z")->weights_alone);
    ck_assert_double_gt(node(z.q, "z")->harm, node(z.q, "y")->harm);
    ck_assert_double_gt(node(z.q, "z")->harm, 10 * node(z.q, "z")->weights_harm);
    close_quantizing(&z);
}
END_TEST

START_TEST(memory_does_not_grow)
{
    size_t peaks[2];
    for (int i = 0; i < 2; i++) {
        quantizing z;
        source s = {.batches = i == 0 ? 6 : 600, .factor = 1};
        quantize(&z, block, OPTIONS(.method = XCC_RANGE_ENTROPY), &s);
        peaks[i] = z.q->m.budget.peak;
        close_quantizing(&z);
    }
    ck_assert_uint_eq(peaks[0], peaks[1]);
}
END_TEST

START_TEST(constant_data)
{
    static const double shifts[] = {0, 3, -2};
    for (size_t i = 0; i < 3; i++) {
        quantizing z;
        source s = {.batches = 1, .shift = shifts[i]};
        quantize(&z, block, OPTIONS(.method = XCC_RANGE_MSE), &s);
        const xcc_quantizer_output_info *y = xcc_quantizer_output_at(z.q, 0);
        ck_assert(isfinite(y->mean_error));
        ck_assert_double_lt(y->mean_error, 0.05);
        close_quantizing(&z);
    }
}
END_TEST

Suite *suite_compiler_quantize_errors(void);
Suite *suite_compiler_quantize_errors(void)
{
    Suite *suite = suite_create("compiler_quantize_errors");
    TCase *tc = tcase_create("quantize");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, ranges_of_gates);
    tcase_add_test(tc, equalization);
    tcase_add_test(tc, biases_that_make_up);
    tcase_add_test(tc, bounded_errors);
    tcase_add_test(tc, bounds_by_the_worst_inputs);
    tcase_add_test(tc, memory_does_not_grow);
    tcase_add_test(tc, constant_data);
    suite_add_tcase(suite, tc);
    return suite;
}

/* The quantizer's bounds: nodes that stay float until outputs are near enough, or decide alike often enough. */
#include "base/status.h"
#include "compiler/quantize/histogram.h"
#include "tests/compiler/onnx/onnx_text.h"

#include "xcvm/quantize.h"

#include <check.h>
#include <math.h>
#include <string.h>

enum { BATCHES = 60 };

/* Three numbers from -1 to 1 in each batch, and zero. */
static xcvm_status read_numbers(void *user, size_t batch, xcvm_value **inputs, xcvm_error *error)
{
    static const int64_t dims[] = {1, 4};
    (void)user;
    unsigned seed = (unsigned)batch * 2654435761u + 12345u;
    XCVM_TRY(xcvm_tensor_create(NULL, XCVM_F32, 2, dims, &inputs[0], error));
    for (size_t i = 0; i < 4; i++) {
        seed = seed * 1664525u + 1013904223u;
        ((float *)xcvm_value_data(inputs[0]))[i] = i < 3 ? (float)((double)(seed >> 8) / 8388608.0 - 1) : 0;
    }
    return XCVM_OK;
}

static xcvm_status run(const char *text, const xcc_quantize_options *options, xcc_quantizer **q, xcvm_error *error)
{
    test_bytes model = onnx_from_text(text);
    const xcc_calibration data = {.batch_count = BATCHES, .read = read_numbers};
    *q = NULL;
    xcvm_status status = xcc_quantizer_create(model.at, model.length, options, q, error);
    if (status == XCVM_OK)
        status = xcc_quantizer_run(*q, &data, error);
    test_bytes_free(&model);
    return status;
}

/* Of each output, by its place; the quantizer is to be destroyed. */
static xcc_quantizer *bounded(const char *text, const xcc_quantize_options *options, xcc_quantize_report *report)
{
    xcc_quantizer *q;
    xcvm_error error = {0};
    ck_assert_msg(run(text, options, &q, &error) == XCVM_OK, "%s", error.message);
    *report = (xcc_quantize_report){.size = sizeof *report};
    xcc_quantizer_report(q, report);
    return q;
}

static void refuse(const char *text, const xcc_quantize_options *options, const char *part)
{
    xcc_quantizer *q;
    xcvm_error error = {0};
    const xcvm_status status = run(text, options, &q, &error);
    ck_assert_msg(status == XCVM_INVALID_ARGUMENT && strstr(error.message, part) != NULL, "%s: %s",
                  xcvm_status_name(status), error.message);
    xcc_quantizer_destroy(q);
}

/* Weights have one scale, so that the large one leaves nothing of the others. */
#define OPTIONS(...)                                                                                                   \
    &(const xcc_quantize_options)                                                                                      \
    {                                                                                                                  \
        .size = sizeof(xcc_quantize_options), .threads = 1, .held_out = 0.5, .per_tensor = true,                       \
        .rounding = XCC_ROUNDING_NEAREST, __VA_ARGS__                                                                  \
    }
/* The last row of the first weights is large, and its input nothing. */
#define LAYERS                                                                                                         \
    "init w f32[4x4] 0.3 -0.2 0.1 0.2 -0.1 0.3 0.2 -0.3 0.2 0.1 -0.3 0.3 90 90 90 90\n"                                \
    "init u f32[4x3] 1 -0.5 0.2 -0.4 1 0.3 0.2 -0.3 1 0.5 0.6 -0.8\n"                                                  \
    "h = MatMul(x, w)\n"
static const char scores[] = "opset 13\ninput x f32[1x4]\noutput y\n" LAYERS "y = MatMul(h, u)\n";
static const char classes[] =
    "opset 13\ninput x f32[1x4]\noutput y\n" LAYERS "s = MatMul(h, u)\ny = ArgMax(s) axis=1 keepdims=0\n";
/* The other output has the same row for any input. */
static const char two_outputs[] =
    "opset 13\ninput x f32[1x4]\noutput y\noutput z\n" LAYERS "init v f32[4x2] 0 0 0 0 0 0 0 0\ninit b f32[2] 1 2\n"
    "y = MatMul(h, u)\ns = MatMul(h, v)\nz = Add(s, b)\n";

/* ---- Agreement ---- */

static const char *reason_of(const xcc_quantizer *q, const char *name)
{
    const xcc_quantize_node *n;
    for (size_t i = 0; (n = xcc_quantizer_node(q, i)) != NULL; i++)
        if (strcmp(n->name, name) == 0)
            return n->reason;
    ck_abort_msg("there is no node %s", name);
    return NULL;
}

/* The first product alone does harm, whether rows of scores or numbers of classes come of it. */
START_TEST(agreement)
{
    const char *text = _i == 0 ? scores : classes;
    xcc_quantize_report report;
    xcc_quantizer *q = bounded(text, OPTIONS(.min_agreement = 0), &report);
    ck_assert_double_lt(xcc_quantizer_output(q, 0)->agree, 0.8);
    ck_assert_int_eq(xcc_quantizer_output(q, 0)->decisions, _i == 1);
    ck_assert_int_eq(isnan(xcc_quantizer_output(q, 0)->max_error), _i == 1);
    ck_assert_uint_eq(report.kept_nodes, 0);
    xcc_quantizer_destroy(q);
    q = bounded(text, OPTIONS(.min_agreement = 0.9), &report);
    ck_assert_double_ge(xcc_quantizer_output(q, 0)->agree, 0.9);
    ck_assert_uint_eq(report.kept_nodes, 1);
    ck_assert_str_eq(reason_of(q, "h"), "kept in float, as the error would be too large");
    xcc_quantizer_destroy(q);
}
END_TEST

/* What holds already costs nothing; an output that nobody asked about does not count. */
START_TEST(agreement_of_one_output)
{
    xcc_quantize_report report;
    xcc_quantizer *q = bounded(two_outputs, OPTIONS(.min_agreement = 0.9, .agreement_output = "z"), &report);
    ck_assert_uint_eq(report.kept_nodes, 0);
    ck_assert_double_lt(xcc_quantizer_output(q, 0)->agree, 0.8);
    ck_assert_double_eq(xcc_quantizer_output(q, 1)->agree, 1);
    xcc_quantizer_destroy(q);
    q = bounded(two_outputs, OPTIONS(.min_agreement = 0.9, .agreement_output = "y"), &report);
    ck_assert_uint_eq(report.kept_nodes, 1);
    xcc_quantizer_destroy(q);
    q = bounded(two_outputs, OPTIONS(.min_agreement = 0.9), &report);
    ck_assert_double_ge(xcc_quantizer_output(q, 0)->agree, 0.9);
    xcc_quantizer_destroy(q);
}
END_TEST

/* Each of two bounds holds, whichever asks for more. */
START_TEST(both_bounds)
{
    xcc_quantize_report report;
    xcc_quantizer *q = bounded(scores, OPTIONS(.min_agreement = 0.9, .max_error = 100), &report);
    ck_assert_double_ge(xcc_quantizer_output(q, 0)->agree, 0.9);
    xcc_quantizer_destroy(q);
    q = bounded(scores, OPTIONS(.min_agreement = 0.01), &report);
    const double error = xcc_quantizer_output(q, 0)->max_error * 0.7;
    ck_assert_uint_eq(report.kept_nodes, 0);
    xcc_quantizer_destroy(q);
    q = bounded(scores, OPTIONS(.min_agreement = 0.01, .max_error = error), &report);
    ck_assert_double_le(xcc_quantizer_output(q, 0)->max_error, error);
    ck_assert_uint_eq(report.kept_nodes, 1);
    xcc_quantizer_destroy(q);
}
END_TEST

START_TEST(refusals)
{
    static const char alone[] = "opset 13\ninput x f32[1x4]\noutput y\ninit w f32[4x1] 1 2 3 4\ny = MatMul(x, w)\n";
    /* The columns differ by less than a step. */
    static const char ties[] = "opset 13\ninput x f32[1x4]\noutput y\n"
                               "init w f32[4x2] 1 1.0001 -0.5 -0.5001 0.3 0.3001 0.7 0.69995\ny = MatMul(x, w)\n";
    refuse(scores, OPTIONS(.min_agreement = -0.1), "a share of -0.1 of the rows cannot agree");
    refuse(scores, OPTIONS(.min_agreement = 1.5), "above 0 and at most 1");
    refuse(scores, OPTIONS(.min_agreement = (double)NAN), "cannot agree");
    refuse(scores, OPTIONS(.agreement_output = "y"), "not in which share");
    refuse(scores, OPTIONS(.min_agreement = 0.9, .agreement_output = "frob"), "no output \"frob\"");
    refuse(alone, OPTIONS(.min_agreement = 0.9), "no output has rows of two and more");
    refuse(alone, OPTIONS(.min_agreement = 0.9, .agreement_output = "y"), "y has rows");
    refuse(ties, OPTIONS(.min_agreement = 1), "less than 1 of the rows stay the same with any node quantised");
    /* Without data there are no rows. */
    xcc_quantizer *q = NULL;
    xcvm_error error = {0};
    test_bytes model = onnx_from_text(scores);
    ck_assert_int_eq(xcc_quantizer_create(model.at, model.length, OPTIONS(.min_agreement = 0.9), &q, &error), XCVM_OK);
    ck_assert_int_eq(xcc_quantizer_run(q, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "no error to bound"));
    xcc_quantizer_destroy(q);
    test_bytes_free(&model);
}
END_TEST

/* ---- Outputs that are no numbers ---- */

START_TEST(outputs_that_are_no_numbers)
{
    /* Logarithms of numbers below zero, and of zero. */
    static const char none[] = "opset 13\ninput x f32[1x4]\noutput y\n" LAYERS "s = MatMul(h, u)\ny = Log(s)\n";
    static const char infinite[] =
        "opset 13\ninput x f32[1x4]\noutput y\n" LAYERS "s = MatMul(h, u)\nr = Relu(s)\ny = Log(r)\n";
    xcc_quantize_report report;
    refuse(none, OPTIONS(.max_error = 0.5), "output \"y\" of the float model has NaN (not a number) in batch ");
    refuse(none, OPTIONS(.min_agreement = 0.5), "output \"y\" of the float model has NaN");
    refuse(infinite, OPTIONS(.max_error = 0.5), "output \"y\" of the float model has an infinity in batch ");
    /* Rows with infinities have a greatest element. */
    xcc_quantizer *q = bounded(infinite, OPTIONS(.min_agreement = 0.9), &report);
    ck_assert_double_ge(xcc_quantizer_output(q, 0)->agree, 0.9);
    xcc_quantizer_destroy(q);
    /* Without a bound it is measured as it is. */
    q = bounded(none, OPTIONS(.max_error = 0), &report);
    ck_assert(isnan(xcc_quantizer_output(q, 0)->max_error));
    xcc_quantizer_destroy(q);
}
END_TEST

START_TEST(rows_without_a_greatest_element)
{
    static const float right[] = {1, 2, 3, 4, NAN, 5}, x[] = {0, 2, NAN, 4, NAN, 5};
    xcc_difference d = {.count = 0};
    xcc_difference_add(&d, right, x, 6, 2);
    ck_assert_uint_eq(d.rows, 3);
    ck_assert_uint_eq(d.agreeing, 1);
}
END_TEST

/* Wherever memory ends while nodes are looked for, all of it comes back. */
START_TEST(memory_ends)
{
    test_bytes model = onnx_from_text(scores);
    const xcc_calibration data = {.batch_count = BATCHES, .read = read_numbers};
    size_t done = 0;
    for (size_t fail_at = 1; done < 2; fail_at += 1 + fail_at / 8) {
        test_allocator a;
        test_allocator_start(&a, fail_at);
        xcc_quantizer *q = NULL;
        xcvm_error error = {0};
        xcvm_status status = xcc_quantizer_create(model.at, model.length,
                                                  OPTIONS(.min_agreement = 0.9, .allocator = &a.allocator), &q, &error);
        if (status == XCVM_OK)
            status = xcc_quantizer_run(q, &data, &error);
        ck_assert_msg(status == XCVM_OK || status == XCVM_OUT_OF_MEMORY, "%zu: %s", fail_at, error.message);
        done += status == XCVM_OK;
        xcc_quantizer_destroy(q);
        ck_assert_uint_eq(a.live, 0);
    }
    test_bytes_free(&model);
}
END_TEST

Suite *suite_compiler_bounds(void);
Suite *suite_compiler_bounds(void)
{
    Suite *suite = suite_create("compiler_bounds");
    TCase *tc = tcase_create("bounds");
    tcase_add_loop_test(tc, agreement, 0, 2);
    tcase_add_test(tc, agreement_of_one_output);
    tcase_add_test(tc, both_bounds);
    tcase_add_test(tc, refusals);
    tcase_add_test(tc, outputs_that_are_no_numbers);
    tcase_add_test(tc, rows_without_a_greatest_element);
    tcase_add_test(tc, memory_ends);
    suite_add_tcase(suite, tc);
    return suite;
}

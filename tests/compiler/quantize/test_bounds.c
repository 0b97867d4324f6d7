/* The quantizer's bounds: nodes that stay float until outputs are near enough, or decide alike often enough. */
#include "compiler/quantize/histogram.h"
#include "tests/compiler/quantize/support.h"

#include <math.h>
#include <stdio.h>

/* Three numbers from -1 to 1 in each batch, and zero. */
static xcvm_status read_numbers(void *user, size_t batch, xcvm_value **inputs, xcvm_error *error)
{
    static const int64_t dims[] = {1, 4};
    (void)user;
    uint32_t seed = (uint32_t)batch * 2654435761u + 12345u;
    XCVM_TRY(xcvm_tensor_create(NULL, XCVM_F32, 2, dims, &inputs[0], error));
    for (size_t i = 0; i < 4; i++) {
        const uint32_t drawn = test_random(&seed) >> 8;
        ((float *)xcvm_value_data(inputs[0]))[i] = i < 3 ? (float)((double)drawn / 8388608.0 - 1) : 0;
    }
    return XCVM_OK;
}

static source numbers(void) { return (source){.batches = 60, .read = read_numbers}; }

/* A model is quantized, to be closed, and the report. */
static void bound(quantizing *z, const char *text, const xcc_quantizer_options *options, xcc_quantizer_report *report)
{
    source s = numbers();
    quantize(z, text, options, &s);
    *report = (xcc_quantizer_report){.size = sizeof *report};
    xcc_quantizer_get_report(z->q, report);
}

static void refuse(const char *text, const xcc_quantizer_options *options, const char *part)
{
    quantizing z;
    source s = numbers();
    xcvm_error error = {0};
    const xcvm_status status = try_quantize(&z, text, options, &s, &error);
    ck_assert_msg(status == XCVM_INVALID_ARGUMENT && strstr(error.message, part) != NULL, "%s: %s",
                  xcvm_status_name(status), error.message);
    close_quantizing(&z);
}

/* Weights have one scale, so that the large one leaves nothing of the others. */
#define ROUGHLY(...) OPTIONS(.held_out = 0.5, .per_tensor = true, .rounding = XCC_ROUNDING_NEAREST, __VA_ARGS__)
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

/* The first product alone does harm, whether rows of scores or numbers of classes come of it. */
START_TEST(agreement)
{
    const char *text = _i == 0 ? scores : classes;
    quantizing z;
    xcc_quantizer_report report;
    bound(&z, text, ROUGHLY(.min_agreement = 0), &report);
    ck_assert_double_lt(xcc_quantizer_output_at(z.q, 0)->agree, 0.8);
    ck_assert_int_eq(xcc_quantizer_output_at(z.q, 0)->decisions, _i == 1);
    ck_assert_int_eq(isnan(xcc_quantizer_output_at(z.q, 0)->max_error), _i == 1);
    ck_assert_uint_eq(report.kept_nodes, 0);
    close_quantizing(&z);
    bound(&z, text, ROUGHLY(.min_agreement = 0.9), &report);
    ck_assert_double_ge(xcc_quantizer_output_at(z.q, 0)->agree, 0.9);
    ck_assert_uint_eq(report.kept_nodes, 1);
    ck_assert_str_eq(node(z.q, "h")->reason, "kept in float, as a bound would not hold otherwise");
    close_quantizing(&z);
}
END_TEST

/* A bound that holds already has no effect, and outputs without a bound are ignored. */
START_TEST(agreement_of_one_output)
{
    quantizing z;
    xcc_quantizer_report report;
    bound(&z, two_outputs, ROUGHLY(.min_agreement = 0.9, .agreement_output = "z"), &report);
    ck_assert_uint_eq(report.kept_nodes, 0);
    ck_assert_double_lt(xcc_quantizer_output_at(z.q, 0)->agree, 0.8);
    ck_assert_double_eq(xcc_quantizer_output_at(z.q, 1)->agree, 1);
    close_quantizing(&z);
    bound(&z, two_outputs, ROUGHLY(.min_agreement = 0.9, .agreement_output = "y"), &report);
    ck_assert_uint_eq(report.kept_nodes, 1);
    close_quantizing(&z);
    bound(&z, two_outputs, ROUGHLY(.min_agreement = 0.9), &report);
    ck_assert_double_ge(xcc_quantizer_output_at(z.q, 0)->agree, 0.9);
    close_quantizing(&z);
}
END_TEST

/* Each of two bounds holds, whichever asks for more. */
START_TEST(both_bounds)
{
    quantizing z;
    xcc_quantizer_report report;
    bound(&z, scores, ROUGHLY(.min_agreement = 0.9, .max_error = 100), &report);
    ck_assert_double_ge(xcc_quantizer_output_at(z.q, 0)->agree, 0.9);
    close_quantizing(&z);
    bound(&z, scores, ROUGHLY(.min_agreement = 0.01), &report);
    const double error = xcc_quantizer_output_at(z.q, 0)->max_error * 0.7;
    ck_assert_uint_eq(report.kept_nodes, 0);
    close_quantizing(&z);
    bound(&z, scores, ROUGHLY(.min_agreement = 0.01, .max_error = error), &report);
    ck_assert_double_le(xcc_quantizer_output_at(z.q, 0)->max_error, error);
    ck_assert_uint_eq(report.kept_nodes, 1);
    /* The estimate is close to the measurement. */
    ck_assert_int_eq(report.method, XCC_RANGE_MINMAX);
    close_quantizing(&z);
}
END_TEST

/* The bound on the mean error keeps only the harmful node in float, and lists it. */
START_TEST(mean_error)
{
    quantizing z;
    xcc_quantizer_report report;
    bound(&z, scores, ROUGHLY(.max_mean_error = 1), &report);
    const double mean = xcc_quantizer_output_at(z.q, 0)->mean_error;
    ck_assert_uint_eq(report.kept_nodes, 0);
    ck_assert(!node(z.q, "h")->kept);
    close_quantizing(&z);
    bound(&z, scores, ROUGHLY(.max_mean_error = mean / 4), &report);
    ck_assert_double_le(xcc_quantizer_output_at(z.q, 0)->mean_error, mean / 4);
    ck_assert_uint_eq(report.kept_nodes, 1);
    ck_assert(node(z.q, "h")->kept && !node(z.q, "y")->kept);
    ck_assert_double_gt(node(z.q, "h")->harm, 2 * node(z.q, "y")->harm);
    close_quantizing(&z);
}
END_TEST

/* Ten products add up, and one weight of every third is so large that its others vanish: these and no others stay
 * float, found without trying every number of nodes. */
START_TEST(harmful_nodes_by_construction)
{
    static const char *const sums[] = {"p0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "y"};
    char text[4096];
    size_t at = (size_t)snprintf(text, sizeof text, "opset 13\ninput x f32[1x4]\noutput y\n");
    for (int i = 0; i < 10; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "init w%d f32[4x2] 0.3 -0.2 0.1 0.2 -0.1 0.3 %s\np%d = MatMul(x, w%d)\n", i,
                               i % 3 == 0 ? "200 200" : "0.3 0.2", i, i);
    for (int i = 1; i < 10; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s = Add(%s, p%d)\n", sums[i], sums[i - 1], i);
    ck_assert_uint_lt(at, sizeof text);
    quantizing z;
    xcc_quantizer_report report;
    bound(&z, text, ROUGHLY(.max_mean_error = 0.01), &report);
    for (int i = 0; i < 10; i++) {
        char name[8];
        snprintf(name, sizeof name, "p%d", i);
        ck_assert_msg(node(z.q, name)->kept == (i % 3 == 0), "%s, harm %g", name, node(z.q, name)->harm);
    }
    ck_assert_uint_eq(report.kept_nodes, 4);
    ck_assert_uint_eq(report.judged_nodes, 10);
    ck_assert_uint_le(report.tried_models, 13);
    close_quantizing(&z);
}
END_TEST

/* Sums of products whose weights vanish in integers: a, c1 and c2 of y, and b of z, which has an exact part. */
static const char vanishing[] =
    "opset 13\ninput x f32[1x4]\noutput y\noutput z\n"
    "init wa f32[4x2] 1 -0.7 0.3 0.7 -0.3 1 900 900\ninit wc f32[4x2] 0.5 -0.35 0.15 0.35 -0.15 0.5 900 900\n"
    "init wd f32[4x2] 0.5 -0.35 0.15 0.35 -0.15 0.5 800 800\ninit wb f32[4x2] 0.9 -0.63 0.27 0.63 -0.27 0.9 900 900\n"
    "init we f32[4x2] 1.5 -1.05 0.45 1.05 -0.45 1.5 1 1\n"
    "a = MatMul(x, wa)\nc1 = MatMul(x, wc)\nc2 = MatMul(x, wd)\nb = MatMul(x, wb)\ne = MatMul(x, we)\n"
    "c = Add(c1, c2)\ny = Add(a, c)\nz = Add(b, e)\n";

/* Nodes come in the order of their harm, with the errors of the outputs once they are in float. */
START_TEST(sensitivity)
{
    static const char *const names[] = {"a", "b", "c1", "c2"};
    quantizing z;
    xcc_quantizer_report report;
    double error = INFINITY;
    bound(&z, vanishing, ROUGHLY(.sensitivity = true), &report);
    ck_assert_uint_eq(report.kept_nodes, 0);
    ck_assert_uint_eq(report.judged_nodes, 5);
    for (size_t i = 0; i < 4; i++) {
        const xcc_quantizer_node_info *n = node(z.q, names[i]);
        ck_assert(n->quantized && !n->kept);
        ck_assert_double_le(n->mean_error_after, error);
        ck_assert_double_ge(n->max_error_after, n->mean_error_after);
        ck_assert_double_le(n->agree_after, 1);
        ck_assert_double_gt(n->harm, node(z.q, i < 3 ? names[i + 1] : "e")->harm - 1e-3);
        error = n->mean_error_after;
    }
    /* Only rounding to 8 bits is left. */
    ck_assert_double_lt(error, 0.01);
    ck_assert(isnan(node(z.q, "e")->mean_error_after) && isnan(node(z.q, "c")->mean_error_after));
    close_quantizing(&z);
    /* Without data nothing is measured. */
    xcvm_error failure = {0};
    ck_assert_int_eq(try_quantize(&z, vanishing, ROUGHLY(.sensitivity = true), NULL, &failure), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(failure.message, "the sensitivity of nodes"));
    close_quantizing(&z);
}
END_TEST

/* b is more harmful than c1 and c2, but does not matter to y, whose error breaks the bound. */
START_TEST(nodes_return_to_integers)
{
    quantizing z;
    xcc_quantizer_report report;
    bound(&z, vanishing, ROUGHLY(.sensitivity = true), &report);
    const double error = node(z.q, "a")->mean_error_after * 0.9;
    close_quantizing(&z);
    bound(&z, vanishing, ROUGHLY(.max_mean_error = error), &report);
    ck_assert_uint_eq(report.kept_nodes, 2);
    ck_assert(node(z.q, "a")->kept && !node(z.q, "b")->kept);
    ck_assert(node(z.q, "c1")->kept != node(z.q, "c2")->kept);
    for (size_t i = 0; i < 2; i++)
        ck_assert_double_le(xcc_quantizer_output_at(z.q, i)->mean_error, error);
    close_quantizing(&z);
}
END_TEST

/* ---- Weights alone ---- */

/* A row of numbers, in the first batch 30 times as large, so that steps are coarse, and one of three large numbers. */
static xcvm_status read_coarse(void *user, size_t batch, xcvm_value **inputs, xcvm_error *error)
{
    static const int64_t dims[] = {1, 3};
    XCVM_TRY(read_numbers(user, batch, inputs, error));
    for (size_t i = 0; i < 4 && batch == 0; i++)
        ((float *)xcvm_value_data(inputs[0]))[i] *= 30;
    XCVM_TRY(xcvm_tensor_create(NULL, XCVM_F32, 2, dims, &inputs[1], error));
    for (size_t i = 0; i < 3; i++)
        ((float *)xcvm_value_data(inputs[1]))[i] = 100 * (float)((batch + i) % 3);
    return XCVM_OK;
}

static const Onnx__NodeProto *writer_of(const Onnx__ModelProto *model, const char *tensor)
{
    for (size_t i = 0; i < model->graph->n_node; i++)
        if (strcmp(model->graph->node[i]->output[0], tensor) == 0)
            return model->graph->node[i];
    ck_abort_msg("no node has the result %s", tensor);
    return NULL;
}

/* Coarse steps of x do harm to y, and not to z, whose range is large. So the product of y reads x itself, and keeps its
 * weights of 8 bits. That of z, k, computes with integers. */
START_TEST(weights_alone)
{
    static const char text[] = "opset 13\ninput x f32[1x4]\ninput b f32[1x3]\noutput y\noutput z\n"
                               "init u f32[4x3] 1 -0.5 0.2 -0.4 1 0.3 0.2 -0.3 1 0.5 0.6 -0.8\n"
                               "init v f32[4x3] 0.5 1 -0.2 1 0.4 0.3 -0.2 0.3 1 0.5 0.6 -0.8\n"
                               "y = MatMul(x, u)\nk = MatMul(x, v)\nz = Add(k, b)\n";
    quantizing z;
    source s = {.batches = 60, .read = read_coarse};
    xcc_quantizer_report report = {.size = sizeof report};
    test_bytes written = {0};
    xcvm_error error = {0};
    quantize(
        &z, text,
        OPTIONS(.held_out = 0.5, .method = XCC_RANGE_MINMAX, .max_mean_error = 0.005, .form = (xcc_quantize_form)_i),
        &s);
    xcc_quantizer_get_report(z.q, &report);
    const xcc_quantizer_node_info *y = node(z.q, "y"), *k = node(z.q, "k");
    ck_assert_uint_eq(report.kept_nodes, 0);
    ck_assert_uint_eq(report.weights_alone_nodes, 1);
    ck_assert_uint_eq(report.quantized_nodes, 2);
    ck_assert(y->quantized && y->weights_alone && !y->kept && k->quantized && !k->weights_alone);
    ck_assert_str_eq(y->reason, "its weights alone, as a bound would not hold otherwise");
    ck_assert_double_gt(y->harm, 0.01);
    ck_assert_double_lt(y->weights_harm, 0.005);
    ck_assert(isnan(k->weights_harm));
    ck_assert_double_le(xcc_quantizer_output_at(z.q, 0)->mean_error, 0.005);
    ck_assert_int_eq(xcc_quantizer_save(z.q, (xcvm_sink){test_bytes_sink, &written}, &error), XCVM_OK);
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, written.length, (const uint8_t *)written.at);
    ck_assert_ptr_nonnull(model);
    const Onnx__NodeProto *product = writer_of(model, "y");
    ck_assert_str_eq(product->op_type, "MatMul");
    ck_assert_str_eq(product->input[0], "x");
    ck_assert_str_eq(writer_of(model, product->input[1])->op_type, "DequantizeLinear");
    const Onnx__NodeProto *other = writer_of(model, "k");
    ck_assert_str_eq(other->op_type, _i == XCC_FORM_QDQ ? "MatMul" : "DequantizeLinear");
    ck_assert_str_ne(other->input[0], "x");
    onnx__model_proto__free_unpacked(model, NULL);
    test_bytes_free(&written);
    close_quantizing(&z);
}
END_TEST

/* ---- Inputs that nobody has seen ---- */

enum { SEEN = 200 };

/* Numbers whose magnitudes differ from batch to batch, a few by far. */
static xcvm_status read_far(void *user, size_t batch, xcvm_value **inputs, xcvm_error *error)
{
    uint32_t seed = (uint32_t)batch * 747796405u + 99u;
    XCVM_TRY(read_numbers(user, batch, inputs, error));
    const double factor = pow(((double)(test_random(&seed) >> 8) + 0.5) / 16777216.0, -0.4);
    for (size_t i = 0; i < 4; i++)
        ((float *)xcvm_value_data(inputs[0]))[i] *= (float)factor;
    return XCVM_OK;
}

/* A bound between the measured and the predicted error holds for the former. */
START_TEST(measured_only)
{
    static const char *const first[] = {"h"};
    quantizing z;
    source s = {.batches = 140, .read = read_far};
    quantize(&z, scores, ROUGHLY(.activations = XCVM_F32, .exclude_nodes = first, .exclude_node_count = 1), &s);
    const double error = xcc_quantizer_output_at(z.q, 0)->max_error;
    ck_assert_double_gt(xcc_quantizer_output_at(z.q, 0)->predicted_error, error * 1.01);
    close_quantizing(&z);
    for (int i = 0; i < 2; i++) {
        xcc_quantizer_report report = {.size = sizeof report};
        const double most = i == 0 ? error * 1.001 : error * 20;
        quantize(&z, scores, ROUGHLY(.activations = XCVM_F32, .max_error = most), &s);
        xcc_quantizer_get_report(z.q, &report);
        ck_assert_int_eq(report.measured_only, i == 0);
        ck_assert_double_le(xcc_quantizer_output_at(z.q, 0)->max_error, most);
        ck_assert_uint_le(report.kept_nodes, 1);
        ck_assert(node(z.q, "y")->quantized);
        close_quantizing(&z);
    }
}
END_TEST

/* The outputs on `count` batches from `first` on, three for each. */
static void compute(const char *model, size_t length, size_t first, size_t count, float *to)
{
    test_bytes program = {0};
    xcvm_program *p;
    xcvm_session *session;
    xcvm_error error = {0};
    ck_assert_msg(xcc_compile(model, length, NULL, (xcvm_sink){test_bytes_sink, &program}, NULL, &error) == XCVM_OK,
                  "%s", error.message);
    ck_assert_int_eq(xcvm_program_load(program.at, program.length, NULL, &p, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_session_create(p, NULL, &session, &error), XCVM_OK);
    for (size_t i = 0; i < count; i++) {
        xcvm_value *x;
        ck_assert_int_eq(read_far(NULL, first + i, &x, &error), XCVM_OK);
        ck_assert_int_eq(xcvm_session_set_input(session, 0, x, &error), XCVM_OK);
        ck_assert_msg(xcvm_session_run(session, NULL, &error) == XCVM_OK, "%s", error.message);
        memcpy(to + 3 * i, xcvm_value_data(xcvm_session_get_output(session, 0)), 3 * sizeof *to);
        xcvm_value_release(x);
    }
    xcvm_session_destroy(session);
    xcvm_program_destroy(p);
    test_bytes_free(&program);
}

/* The greatest error on as many further batches as were measured on, as a share of the range there. */
static double error_on_others(const quantizing *z)
{
    enum { COUNT = SEEN / 2 };
    float right[3 * COUNT], given[3 * COUNT];
    double least = 0, greatest = 0, most = 0;
    test_bytes written = {0};
    xcvm_error error = {0};
    ck_assert_int_eq(xcc_quantizer_save(z->q, (xcvm_sink){test_bytes_sink, &written}, &error), XCVM_OK);
    compute(z->model.at, z->model.length, SEEN, COUNT, right);
    compute(written.at, written.length, SEEN, COUNT, given);
    for (size_t i = 0; i < 3 * (size_t)COUNT; i++) {
        const double v = (double)right[i], off = fabs((double)given[i] - v);
        least = v < least ? v : least;
        greatest = v > greatest ? v : greatest;
        most = off > most ? off : most;
    }
    test_bytes_free(&written);
    return most / (greatest - least);
}

/* Clipping at the range of least squares causes too large an error. With the tail estimate it does not, even for inputs
 * beyond all of the data. */
START_TEST(inputs_beyond)
{
    static const char text[] = "opset 13\ninput x f32[1x4]\noutput y\n"
                               "init u f32[4x3] 1 -0.5 0.2 -0.4 1 0.3 0.2 -0.3 1 0.5 0.6 -0.8\ny = MatMul(x, u)\n";
    const xcc_range_method methods[] = {XCC_RANGE_DEFAULT, XCC_RANGE_MSE};
    double errors[2];
    for (size_t i = 0; i < 2; i++) {
        quantizing z;
        source s = {.batches = SEEN, .read = read_far};
        xcc_quantizer_report report = {.size = sizeof report};
        quantize(&z, text, OPTIONS(.held_out = 0.5, .method = methods[i], .max_error = i == 0 ? 0.02 : 0), &s);
        xcc_quantizer_get_report(z.q, &report);
        const xcc_quantizer_output_info *y = xcc_quantizer_output_at(z.q, 0);
        const xcc_quantizer_tensor_info *x = xcc_quantizer_tensor_at(z.q, 0);
        ck_assert_double_ge(y->predicted_error, y->max_error);
        ck_assert_double_le(y->predicted_agree, y->agree);
        ck_assert_int_eq(report.method, i == 0 ? XCC_RANGE_TAIL : XCC_RANGE_MSE);
        ck_assert_int_eq(y->predicted_error <= 0.02, i == 0);
        ck_assert_int_eq(x->high > x->greatest, i == 0);
        ck_assert_uint_eq(report.kept_nodes, 0);
        ck_assert_uint_eq(report.tried_models, i == 0 ? 3 : 0);
        ck_assert_uint_eq(report.data_batches, SEEN);
        errors[i] = error_on_others(&z);
        close_quantizing(&z);
    }
    ck_assert_double_le(errors[0], 0.02);
    ck_assert_double_gt(errors[1], 0.02);
}
END_TEST

/* Measures all nodes one by one and some models: the callback reports each step. */
START_TEST(search_is_told)
{
    quantizing z;
    xcc_quantizer_report report;
    bound(&z, scores, ROUGHLY(.min_agreement = 0.9), &report);
    ck_assert_uint_eq(report.judged_nodes, 2);
    ck_assert_uint_ge(report.tried_models, 2);
    ck_assert_uint_le(report.tried_models, 4);
    ck_assert(report.search_ns > 0);
    ck_assert_double_ge(xcc_quantizer_output_at(z.q, 0)->predicted_agree, 0.9);
    close_quantizing(&z);
}
END_TEST

START_TEST(refusals)
{
    static const char alone[] = "opset 13\ninput x f32[1x4]\noutput y\ninit w f32[4x1] 1 2 3 4\ny = MatMul(x, w)\n";
    /* The columns differ by less than a step. */
    static const char ties[] = "opset 13\ninput x f32[1x4]\noutput y\n"
                               "init w f32[4x2] 1 1.0001 -0.5 -0.5001 0.3 0.3001 0.7 0.69995\ny = MatMul(x, w)\n";
    refuse(scores, ROUGHLY(.min_agreement = -0.1), "a share of -0.1 of the rows cannot agree");
    refuse(scores, ROUGHLY(.min_agreement = 1.5), "above 0 and at most 1");
    refuse(scores, ROUGHLY(.min_agreement = (double)NAN), "cannot agree");
    refuse(scores, ROUGHLY(.agreement_output = "y"), "without a bound");
    refuse(scores, ROUGHLY(.min_agreement = 0.9, .agreement_output = "frob"), "no output \"frob\"");
    refuse(alone, ROUGHLY(.min_agreement = 0.9), "no output has rows of two and more");
    refuse(alone, ROUGHLY(.min_agreement = 0.9, .agreement_output = "y"), "y has rows");
    refuse(ties, ROUGHLY(.min_agreement = 1),
           "no node can be quantized with an agreement of 1: with 'y' (MatMul) alone, the least harmful");
    refuse(scores, ROUGHLY(.max_mean_error = 1e-9),
           "no node can be quantized within a mean error of 1e-09: with 'y' (MatMul) alone, the least harmful");
    refuse(scores, ROUGHLY(.max_mean_error = -1), "the mean error cannot be bounded by -1");
    /* Without data there are no rows. */
    quantizing z;
    xcvm_error error = {0};
    ck_assert_int_eq(try_quantize(&z, scores, ROUGHLY(.min_agreement = 0.9), NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "bounds and bias correction need"));
    close_quantizing(&z);
}
END_TEST

/* ---- Outputs that are no numbers ---- */

START_TEST(outputs_that_are_no_numbers)
{
    /* Logarithms of numbers below zero, and of zero. */
    static const char none[] = "opset 13\ninput x f32[1x4]\noutput y\n" LAYERS "s = MatMul(h, u)\ny = Log(s)\n";
    static const char infinite[] =
        "opset 13\ninput x f32[1x4]\noutput y\n" LAYERS "s = MatMul(h, u)\nr = Relu(s)\ny = Log(r)\n";
    quantizing z;
    xcc_quantizer_report report;
    refuse(none, ROUGHLY(.max_error = 0.5), "output \"y\" of the float model has NaN (not a number) in batch ");
    refuse(none, ROUGHLY(.min_agreement = 0.5), "output \"y\" of the float model has NaN");
    refuse(infinite, ROUGHLY(.max_error = 0.5), "output \"y\" of the float model has an infinity in batch ");
    /* Rows with infinities have a greatest element. */
    bound(&z, infinite, ROUGHLY(.min_agreement = 0.9), &report);
    ck_assert_double_ge(xcc_quantizer_output_at(z.q, 0)->agree, 0.9);
    close_quantizing(&z);
    /* Without a bound it is measured without changes. */
    bound(&z, none, ROUGHLY(.max_error = 0), &report);
    ck_assert(isnan(xcc_quantizer_output_at(z.q, 0)->max_error));
    close_quantizing(&z);
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

/* While nodes are looked for, too. */
START_TEST(memory_ends)
{
    source s = numbers();
    check_memory(scores, ROUGHLY(.min_agreement = 0.9), &s);
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
    tcase_add_test(tc, mean_error);
    tcase_add_test(tc, harmful_nodes_by_construction);
    tcase_add_test(tc, sensitivity);
    tcase_add_test(tc, nodes_return_to_integers);
    tcase_add_loop_test(tc, weights_alone, XCC_FORM_QDQ, XCC_FORM_QOPERATOR + 1);
    tcase_add_test(tc, measured_only);
    tcase_add_test(tc, inputs_beyond);
    tcase_add_test(tc, search_is_told);
    tcase_add_test(tc, refusals);
    tcase_add_test(tc, outputs_that_are_no_numbers);
    tcase_add_test(tc, rows_without_a_greatest_element);
    tcase_add_test(tc, memory_ends);
    suite_add_tcase(suite, tc);
    return suite;
}

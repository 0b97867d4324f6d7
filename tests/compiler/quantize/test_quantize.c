/* Tests of the quantizer: inserted nodes for each kind of data and form, and the written model. */
#include "tests/compiler/quantize/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static size_t count_ops(const result *r, const char *op)
{
    size_t count = 0;
    for (size_t i = 0; i < r->model->graph->n_node; i++)
        count += strcmp(r->model->graph->node[i]->op_type, op) == 0;
    return count;
}

static const Onnx__TensorProto *constant(const result *r, const char *name)
{
    for (size_t i = 0; i < r->model->graph->n_initializer; i++)
        if (strcmp(r->model->graph->initializer[i]->name, name) == 0)
            return r->model->graph->initializer[i];
    ck_abort_msg("there is no constant %s", name);
    return NULL;
}

#define COUNT_OPS(r, op, expected) ck_assert_uint_eq(count_ops((r), (op)), (expected))

START_TEST(static_pairs)
{
    result r;
    xcc_quantizer_report report = {.size = sizeof report};
    open_result(&r, block, OPTIONS(.method = XCC_RANGE_MINMAX), true);
    xcc_quantizer_get_report(r.q, &report);
    ck_assert_uint_eq(report.folded_normalizations, 1);
    ck_assert_uint_eq(report.calibration_batches, 8);
    ck_assert_uint_eq(report.measured_batches, 2);
    ck_assert_uint_eq(report.quantized_nodes, report.node_count);
    ck_assert_uint_lt(report.bytes_after, report.bytes_before * 2);
    COUNT_OPS(&r, "BatchNormalization", 0);
    /* Relu is where ranges end. */
    COUNT_OPS(&r, "Relu", 0);
    COUNT_OPS(&r, "Conv", 2);
    COUNT_OPS(&r, "Gemm", 1);
    /* x, r1, c2, ar, p, g, f: the output is not rounded. */
    COUNT_OPS(&r, "QuantizeLinear", 7);
    /* These, three weights and three biases. */
    COUNT_OPS(&r, "DequantizeLinear", 13);
    ck_assert_str_eq(r.model->graph->output[0]->name, "y");
    ck_assert_int_eq(constant(&r, "w_quantized")->data_type, XCVM_I8);
    ck_assert_int_eq(constant(&r, "u_scale")->dims[0], 3);
    ck_assert_int_eq(constant(&r, "c_quantized")->data_type, XCVM_I32);
    ck_assert_int_eq(constant(&r, "x_zero_point")->data_type, XCVM_U8);
    const xcc_quantizer_output_info *y = xcc_quantizer_output_at(r.q, 0);
    ck_assert_ptr_nonnull(y);
    ck_assert_double_lt(y->max_error, 0.02);
    ck_assert_double_gt(y->max_error, 0);
    ck_assert_double_gt(y->sqnr, 30);
    /* Worst first. */
    const xcc_quantizer_tensor_info *a = xcc_quantizer_tensor_at(r.q, 0), *b = xcc_quantizer_tensor_at(r.q, 1);
    ck_assert_double_le(a->sqnr, b->sqnr);
    /* The range of x is that of the data, and holds zero. */
    for (size_t i = 0; (a = xcc_quantizer_tensor_at(r.q, i)) != NULL; i++)
        if (strcmp(a->name, "x") == 0) {
            ck_assert_double_lt(a->low, -1.9);
            ck_assert_double_gt(a->high, 1.9);
            ck_assert_double_eq_tol(a->scale, (a->high - a->low) / 255, 1e-6);
        }
    close_result(&r);
}
END_TEST

START_TEST(operators_on_integers)
{
    result r;
    open_result(&r, block, OPTIONS(.form = XCC_FORM_QOPERATOR), true);
    COUNT_OPS(&r, "QLinearConv", 2);
    COUNT_OPS(&r, "QLinearAdd", 1);
    COUNT_OPS(&r, "QGemm", 1);
    COUNT_OPS(&r, "QLinearGlobalAveragePool", 1);
    COUNT_OPS(&r, "MaxPool", 1);
    COUNT_OPS(&r, "Relu", 0);
    COUNT_OPS(&r, "QuantizeLinear", 1);
    COUNT_OPS(&r, "DequantizeLinear", 1);
    ck_assert_double_lt(xcc_quantizer_output_at(r.q, 0)->max_error, 0.03);
    close_result(&r);
}
END_TEST

START_TEST(every_way_is_near_float)
{
    static const struct {
        xcc_quantizer_options o;
        double bound;
    } ways[] = {
        {{.method = XCC_RANGE_MOVING, .averaging = 0.5}, 0.05},
        {{.method = XCC_RANGE_ENTROPY}, 0.05},
        {{.method = XCC_RANGE_PERCENTILE}, 0.03},
        {{.activations = XCVM_I8, .symmetric_activations = true}, 0.04},
        {{.activations = XCVM_I16}, 0.02},
        {{.activations = XCVM_U16, .symmetric_activations = true}, 0.02},
        {{.activations = XCVM_F32}, 0.02},
        {{.weights = XCVM_U8, .asymmetric_weights = true}, 0.03},
        {{.per_tensor = true, .correct_bias = true}, 0.04},
        {{.form = XCC_FORM_QOPERATOR, .symmetric_activations = true}, 0.05},
        {{.form = XCC_FORM_QOPERATOR, .activations = XCVM_I8, .per_tensor = true}, 0.04},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        result r;
        xcc_quantizer_options o = ways[i].o;
        o.size = sizeof o;
        o.threads = 1;
        open_result(&r, block, &o, true);
        ck_assert_msg(xcc_quantizer_output_at(r.q, 0)->max_error < ways[i].bound, "way %zu: %g", i,
                      xcc_quantizer_output_at(r.q, 0)->max_error);
        close_result(&r);
    }
}
END_TEST

START_TEST(ranges_in_each_run)
{
    result r;
    open_result(&r, block, OPTIONS(.method = XCC_RANGE_MSE), false);
    COUNT_OPS(&r, "ConvInteger", 2);
    COUNT_OPS(&r, "MatMulInteger", 1);
    COUNT_OPS(&r, "DynamicQuantizeLinear", 3);
    COUNT_OPS(&r, "Relu", 2);
    ck_assert_ptr_null(xcc_quantizer_output_at(r.q, 0));
    ck_assert_str_eq(node(r.q, "p")->reason, "activations stay floats");
    close_result(&r);
}
END_TEST

START_TEST(weights_alone)
{
    for (int with_data = 0; with_data < 2; with_data++) {
        result r;
        open_result(&r, block, OPTIONS(.activations = XCVM_F32), with_data != 0);
        COUNT_OPS(&r, "DequantizeLinear", 3);
        COUNT_OPS(&r, "QuantizeLinear", 0);
        COUNT_OPS(&r, "DynamicQuantizeLinear", 0);
        ck_assert_int_eq(constant(&r, "d_quantized")->data_type, XCVM_I8);
        close_result(&r);
    }
    static const xcc_quantizer_options wrong[] = {
        {.size = sizeof *wrong, .activations = XCVM_I8},
        {.size = sizeof *wrong, .form = XCC_FORM_QOPERATOR},
        {.size = sizeof *wrong, .symmetric_activations = true},
        {.size = sizeof *wrong, .trainable = true},
        {.size = sizeof *wrong, .max_error = 0.1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        quantizing z;
        ck_assert_int_eq(try_quantize(&z, block, &wrong[i], NULL, NULL), XCVM_INVALID_ARGUMENT);
        ck_assert_ptr_nonnull(z.q);
        close_quantizing(&z);
    }
}
END_TEST

static const char attention[] =
    "opset 13\ninput x f32[Nx2x4]\noutput y\ninit q f32[4x4] 1 0.5 -1 0.2 0.3 -0.7 0.9 0.1 -0.2 1 0.4 0.3 0.6 -0.5 0.8 "
    "0.9\n"
    "init b f32[4] 0.1 0.2 -0.3 0\nm = MatMul(x, q)\na = Add(m, b)\nt = Transpose(a) perm=[0 2 1]\nk = MatMul(x, t)\n"
    "s = Softmax(k) axis=-1\nv = MatMul(s, x)\ny = Tanh(v)\n";

START_TEST(integer_regions)
{
    result r;
    open_result(&r, attention, OPTIONS(.method = XCC_RANGE_MINMAX), true);
    /* The product with its bias, and what moves it, up to the next product; softmax and tanh are between floats. */
    ck_assert(node(r.q, "m")->quantized);
    ck_assert(node(r.q, "a")->quantized);
    ck_assert(node(r.q, "t")->quantized);
    ck_assert(!node(r.q, "y")->quantized);
    ck_assert_str_eq(node(r.q, "y")->reason, "nothing that computes with integers reads it");
    /* x, a, t, k, s: the product itself is not rounded before its bias. */
    COUNT_OPS(&r, "QuantizeLinear", 5);
    close_result(&r);
    open_result(&r, attention, OPTIONS(.exclude_nodes = (const char *const[]){"s"}, .exclude_node_count = 1), true);
    ck_assert_str_eq(node(r.q, "s")->reason, "excluded by its name");
    COUNT_OPS(&r, "QuantizeLinear", 4);
    close_result(&r);
    open_result(&r, attention, OPTIONS(.nodes = (const char *const[]){"m"}, .node_count = 1), true);
    COUNT_OPS(&r, "QuantizeLinear", 1);
    close_result(&r);
    open_result(&r, attention, OPTIONS(.exclude_types = (const char *const[]){"Trans*"}, .exclude_type_count = 1),
                true);
    ck_assert_str_eq(node(r.q, "t")->reason, "excluded by its type");
    close_result(&r);
}
END_TEST

static void print_matrix(char *text, size_t size, int opset, size_t k)
{
    size_t length =
        (size_t)snprintf(text, size, "opset %d\ninput x f32[Nx%zu]\noutput y\ninit w f32[%zux3]", opset, k, k);
    for (size_t i = 0; i < k * 3; i++)
        length += (size_t)snprintf(text + length, size - length, " %.3f", sin((double)i * 1.7) * (i % 3 == 2 ? 10 : 1));
    snprintf(text + length, size - length, "\ninit b f32[3] 1 2 3\ny = Gemm(x, w, b) alpha=0.5 beta=2.0\n");
}

START_TEST(blocks_of_four_bits)
{
    static char text[8192];
    result r;
    /* The last block of 40 is shorter than 32. */
    print_matrix(text, sizeof text, 13, 40);
    open_result(&r, text, OPTIONS(.weights = XCVM_I4), true);
    COUNT_OPS(&r, "MatMulNBits", 1);
    ck_assert_int_eq(constant(&r, "w_quantized")->dims[1], 2);
    ck_assert_double_lt(xcc_quantizer_output_at(r.q, 0)->mean_error, 0.05);
    close_result(&r);
    open_result(&r, text, OPTIONS(.weights = XCVM_U4, .asymmetric_weights = true, .block = 16), true);
    ck_assert_int_eq(constant(&r, "w_zero_point")->dims[1], 2);
    ck_assert_double_lt(xcc_quantizer_output_at(r.q, 0)->mean_error, 0.05);
    close_result(&r);
    /* Blocks of DequantizeLinear have to be whole. */
    print_matrix(text, sizeof text, 21, 64);
    for (int i = 0; i < 2; i++) {
        open_result(&r, text, OPTIONS(.weights = i == 0 ? XCVM_I4 : XCVM_U4, .asymmetric_weights = i == 1), true);
        COUNT_OPS(&r, "MatMulNBits", 0);
        COUNT_OPS(&r, "DequantizeLinear", 1);
        ck_assert_int_eq(constant(&r, "w_scale")->dims[0], 2);
        ck_assert_double_lt(xcc_quantizer_output_at(r.q, 0)->mean_error, 0.05);
        close_result(&r);
    }
    print_matrix(text, sizeof text, 21, 40);
    open_result(&r, text, OPTIONS(.weights = XCVM_I4), false);
    COUNT_OPS(&r, "MatMulNBits", 1);
    close_result(&r);
}
END_TEST

START_TEST(recurrent_weights)
{
    static char text[4096];
    size_t length = (size_t)snprintf(text, sizeof text,
                                     "opset 13\ninput x f32[3xNx2]\noutput y\ninit axes i64[1] 1\ninit w f32[1x8x2]");
    for (size_t i = 0; i < 16; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, " %.3f", sin((double)i));
    length += (size_t)snprintf(text + length, sizeof text - length, "\ninit r f32[1x8x2]");
    for (size_t i = 0; i < 16; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, " %.3f", cos((double)i));
    snprintf(text + length, sizeof text - length, "\nh = LSTM(x, w, r) hidden_size=2\ny = Squeeze(h, axes)\n");
    result r;
    open_result(&r, text, OPTIONS(.method = XCC_RANGE_MINMAX), true);
    COUNT_OPS(&r, "LSTM", 1);
    COUNT_OPS(&r, "DequantizeLinear", 2);
    ck_assert_str_eq(node(r.q, "h")->reason, "its weights alone");
    ck_assert_double_lt(xcc_quantizer_output_at(r.q, 0)->max_error, 0.02);
    close_result(&r);
    open_result(&r, text, OPTIONS(.method = XCC_RANGE_MINMAX), false);
    COUNT_OPS(&r, "DynamicQuantizeLSTM", 1);
    close_result(&r);
}
END_TEST

START_TEST(dead_channels)
{
    /* The first channel is zero but for its bias; the second nearly so, with a bias that its scale would take beyond
     * i32. */
    static const char text[] = "opset 13\ninput x f32[Nx1x2x2]\noutput y\ninit w f32[3x1x1x1] 0 1e-12 1\n"
                               "init b f32[3] 3 -2 0.5\ny = Conv(x, w, b)\n";
    for (int form = 0; form < 2; form++) {
        result r;
        open_result(&r, text, OPTIONS(.form = (xcc_quantize_form)form), true);
        ck_assert_double_lt(xcc_quantizer_output_at(r.q, 0)->max_error, 0.02);
        ck_assert_int_eq(constant(&r, "b_quantized")->data_type, XCVM_I32);
        close_result(&r);
    }
}
END_TEST

/* Weights are distinguished by their whole names, however long. */
START_TEST(long_names)
{
    enum { LENGTH = 900 };
    static char names[2][LENGTH + 2];
    test_bytes text = onnx_from_text("opset 13\ninput x f32[Nx2]\noutput y\ninit w f32[2x2] 1 2 3 4\n"
                                     "init v f32[2x2] -4 1 0.5 -3\na = MatMul(x, w)\ny = MatMul(a, v)\n");
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, text.length, (const uint8_t *)text.at);
    Onnx__GraphProto *g = model->graph;
    char *given[4] = {g->initializer[0]->name, g->initializer[1]->name, g->node[0]->input[1], g->node[1]->input[1]};
    for (int i = 0; i < 2; i++) {
        memset(names[i], 'w', LENGTH);
        names[i][LENGTH] = (char)('0' + i);
        g->initializer[i]->name = g->node[i]->input[1] = names[i];
    }
    const size_t size = onnx__model_proto__get_packed_size(model);
    uint8_t *packed = malloc(size);
    ck_assert_uint_eq(onnx__model_proto__pack(model, packed), size);
    xcc_quantizer *q = NULL;
    ck_assert_int_eq(xcc_quantizer_create(packed, size, OPTIONS(.method = XCC_RANGE_MINMAX), &q, NULL), XCVM_OK);
    source s = {.batches = BATCHES, .factor = 2};
    ck_assert_int_eq(run_on(q, &s, NULL), XCVM_OK);
    ck_assert_double_lt(xcc_quantizer_output_at(q, 0)->max_error, 0.05);
    xcc_quantizer_destroy(q);
    free(packed);
    for (int i = 0; i < 2; i++) {
        g->initializer[i]->name = given[i];
        g->node[i]->input[1] = given[2 + i];
    }
    onnx__model_proto__free_unpacked(model, NULL);
    test_bytes_free(&text);
}
END_TEST

/* Generated names contain the original name, and there may be any number of them for one stem. */
START_TEST(names_that_are_made_up)
{
    enum { COUNT = 20000 };
    test_bytes model = onnx_from_text("opset 13\ninput x f32[Nx2]\noutput y\ninit w f32[2x2] 1 2 3 4\n"
                                      "w_q = MatMul(x, w)\nw_q_2 = Relu(w_q)\ny = MatMul(w_q_2, w)\n");
    xcc_quantizer *q = NULL;
    ck_assert_int_eq(xcc_quantizer_create(model.at, model.length, OPTIONS(.method = XCC_RANGE_MSE), &q, NULL), XCVM_OK);
    xcc_table made = {.key = &q->m.key};
    static const char *const expected[] = {"w_q_1", "w_q_3", "w_q_4"};
    for (size_t i = 0; i < 3; i++)
        ck_assert_str_eq(xcc_quant_name(q, &made, "w", "_q"), expected[i]);
    ck_assert_str_eq(xcc_quant_name(q, &made, "w", "_r"), "w_r");
    ck_assert_str_eq(xcc_quant_name(q, &made, "w_q_1", ""), "w_q_1_1");
    char last[32];
    for (int i = 5; i < COUNT; i++)
        ck_assert_ptr_nonnull(xcc_quant_name(q, &made, "w", "_q"));
    (void)snprintf(last, sizeof last, "w_q_%d", COUNT);
    ck_assert_str_eq(xcc_quant_name(q, &made, "w", "_q"), last);
    /* The names that are given have numbers of their own. */
    ck_assert_str_eq(xcc_quant_name(q, &q->taken, "w", "_q"), "w_q_1");
    xcc_quantizer_destroy(q);
    test_bytes_free(&model);
}
END_TEST

/* An input that is read in both forms has the float one already. */
START_TEST(inputs_read_in_float)
{
    result r;
    open_result(&r,
                "opset 13\ninput x f32[1x2x2x2]\noutput y\ninit w f32[2x2x1x1] 1 2 3 4\nc = Conv(x, w)\ne = Erf(x)\n"
                "y = Add(c, e)\n",
                OPTIONS(.form = XCC_FORM_QOPERATOR), true);
    ck_assert_uint_eq(count_ops(&r, "QLinearConv"), 1);
    ck_assert_double_lt(xcc_quantizer_output_at(r.q, 0)->max_error, 0.03);
    close_result(&r);
}
END_TEST

static const char *const bias_shapes[] = {"1x2", "3x2", "3x1", "2", ""};
enum { BIAS_SHAPES = sizeof bias_shapes / sizeof *bias_shapes };

/* The addend of Gemm keeps its shape. */
START_TEST(biases_of_any_shape)
{
    char text[400];
    result r;
    (void)snprintf(text, sizeof text,
                   "opset 13\ninput x f32[3x2x2x1]\noutput y\ninit w f32[2x2] 1 -2 0.5 3\ninit c f32[%s] %s\n"
                   "init s i64[2] 3 -1\ninit v f32[4x2] 1 -2 0.5 3 1 1 -1 -1\nf = Reshape(x, s)\ny = Gemm(f, v, c)\n",
                   bias_shapes[_i / 2],
                   _i / 2 == 0 || _i / 2 == 3 ? "3 -5"
                   : _i / 2 == 1              ? "1 2 3 4 5 6"
                   : _i / 2 == 2              ? "1 2 3"
                                              : "4");
    open_result(&r, text, OPTIONS(.per_tensor = _i % 2 == 0), true);
    ck_assert_double_lt(xcc_quantizer_output_at(r.q, 0)->max_error, 0.03);
    close_result(&r);
}
END_TEST

START_TEST(models_that_learn)
{
    result r;
    open_result(&r, block, OPTIONS(.trainable = true), true);
    /* Weights and biases are the only initializers, in floats; every scale is a node's. */
    ck_assert_uint_eq(r.model->graph->n_initializer, 6);
    for (size_t i = 0; i < 6; i++)
        ck_assert_int_eq(r.model->graph->initializer[i]->data_type, XCVM_F32);
    COUNT_OPS(&r, "QuantizeLinear", 10);
    COUNT_OPS(&r, "DequantizeLinear", 10);
    const double error = xcc_quantizer_output_at(r.q, 0)->max_error;
    close_result(&r);
    /* They are rounded as they are in the model that does not learn, whose biases are rounded, too. */
    open_result(&r, block, OPTIONS(.method = XCC_RANGE_MSE), true);
    ck_assert_double_eq_tol(xcc_quantizer_output_at(r.q, 0)->max_error, error, 1e-4);
    close_result(&r);
}
END_TEST

/* BatchNormalization in training form is put into inference form, so that it can be merged; Dropout, too, unless the
 * model is to learn. */
START_TEST(training_form)
{
    static const char text[] =
        "opset 13\ninput x f32[Nx2x4x4]\noutput y\n"
        "init w f32[3x2x1x1] 0.5 -1 0.25 0.75 -0.3 0.9\ninit s f32[3] 1 2 0.5\ninit b f32[3] 0.1 -0.1 0\n"
        "init m f32[3] 0.2 0 0.1\ninit v f32[3] 1 0.5 2\ninit on bool[] 1\n"
        "c = Conv(x, w)\nn, m2, v2 = BatchNormalization(c, s, b, m, v)\nd = Dropout(n, _, on)\ny = Relu(d)\n";
    static const struct {
        bool kept, learns;
        size_t inferred, merged, dropping;
    } forms[] = {{false, false, 2, 1, 0}, {false, true, 1, 1, 1}, {true, false, 0, 0, 1}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        result r;
        xcc_quantizer_report report = {.size = sizeof report};
        open_result(&r, text, OPTIONS(.training_form = forms[i].kept, .trainable = forms[i].learns), true);
        xcc_quantizer_get_report(r.q, &report);
        ck_assert_uint_eq(report.inference_nodes, forms[i].inferred);
        ck_assert_uint_eq(report.folded_normalizations, forms[i].merged);
        COUNT_OPS(&r, "BatchNormalization", 1 - forms[i].merged);
        COUNT_OPS(&r, "Dropout", 1);
        for (size_t k = 0; k < r.model->graph->n_node; k++)
            if (strcmp(r.model->graph->node[k]->op_type, "Dropout") == 0)
                ck_assert_uint_eq(r.model->graph->node[k]->n_input, forms[i].dropping ? 3 : 1);
        close_result(&r);
    }
}
END_TEST

Suite *suite_compiler_quantize(void);
Suite *suite_compiler_quantize(void)
{
    Suite *suite = suite_create("compiler_quantize");
    TCase *tc = tcase_create("quantize");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, static_pairs);
    tcase_add_test(tc, operators_on_integers);
    tcase_add_test(tc, every_way_is_near_float);
    tcase_add_test(tc, ranges_in_each_run);
    tcase_add_test(tc, weights_alone);
    tcase_add_test(tc, integer_regions);
    tcase_add_test(tc, blocks_of_four_bits);
    tcase_add_test(tc, recurrent_weights);
    tcase_add_test(tc, dead_channels);
    tcase_add_test(tc, long_names);
    tcase_add_test(tc, names_that_are_made_up);
    tcase_add_test(tc, inputs_read_in_float);
    tcase_add_loop_test(tc, biases_of_any_shape, 0, 2 * BIAS_SHAPES);
    tcase_add_test(tc, models_that_learn);
    tcase_add_test(tc, training_form);
    suite_add_tcase(suite, tc);
    return suite;
}

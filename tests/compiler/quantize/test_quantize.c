/* The quantizer: what is placed where, what is measured, and what is refused. */
#include "compiler/quantize/quantizer.h"
#include "tests/compiler/onnx/onnx_text.h"

#include "onnx/onnx.pb-c.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 10 };

/* ---- Data ---- */

typedef struct source {
    const xcc_quantizer *q;
    double factor, shift;
    float bad;         /* put into the last batch, if it is not 0 */
    int64_t wrong_dim; /* of the last axis, if it is not 0 */
} source;

static xcvm_status read_batch(void *user, size_t batch, xcvm_value **inputs, xcvm_error *error)
{
    const source *s = user;
    unsigned seed = (unsigned)batch * 7919u + 1;
    for (size_t i = 0; i < xcc_quantizer_input_count(s->q); i++) {
        const xcvm_parameter *p = xcc_quantizer_input(s->q, i);
        int64_t dims[XCVM_MAX_RANK];
        for (int d = 0; d < p->type.rank; d++)
            dims[d] = p->type.dims[d] < 0 ? 1 + (int64_t)batch % 3 : p->type.dims[d];
        if (s->wrong_dim != 0)
            dims[p->type.rank - 1] = s->wrong_dim;
        ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, p->type.rank, dims, &inputs[i], error), XCVM_OK);
        float *x = xcvm_value_data(inputs[i]);
        for (size_t k = 0; k < xcvm_value_count(inputs[i]); k++) {
            seed = seed * 1664525u + 1013904223u;
            x[k] = (float)(((double)(seed >> 8) / 8388608.0 - 1) * s->factor + s->shift);
        }
        if (s->bad != 0 && batch + 1 == BATCHES)
            x[0] = s->bad;
    }
    return XCVM_OK;
}

/* ---- Models ---- */

typedef struct result {
    xcc_quantizer *q;
    test_bytes bytes;
    Onnx__ModelProto *model;
} result;

static void open_result(result *r, const char *text, const xcc_quantize_options *options, bool with_data)
{
    xcvm_error error = {0};
    test_bytes model = onnx_from_text(text);
    *r = (result){.q = NULL};
    ck_assert_msg(xcc_quantizer_create(model.at, model.length, options, &r->q, &error) == XCVM_OK, "%s", error.message);
    source s = {.q = r->q, .factor = 2};
    const xcc_calibration data = {.batch_count = BATCHES, .read = read_batch, .user = &s};
    ck_assert_msg(xcc_quantizer_run(r->q, with_data ? &data : NULL, &error) == XCVM_OK, "%s", error.message);
    ck_assert_msg(xcc_quantizer_write(r->q, test_bytes_sink, &r->bytes, &error) == XCVM_OK, "%s", error.message);
    r->model = onnx__model_proto__unpack(NULL, r->bytes.length, (const uint8_t *)r->bytes.at);
    ck_assert_ptr_nonnull(r->model);
    /* What was written compiles. */
    test_bytes program = {0};
    ck_assert_msg(xcc_compile(r->bytes.at, r->bytes.length, NULL, test_bytes_sink, &program, NULL, &error) == XCVM_OK,
                  "%s", error.message);
    test_bytes_free(&program);
    test_bytes_free(&model);
}

static void close_result(result *r)
{
    onnx__model_proto__free_unpacked(r->model, NULL);
    test_bytes_free(&r->bytes);
    xcc_quantizer_destroy(r->q);
}

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

static const xcc_quantize_node *node(const result *r, const char *name)
{
    const xcc_quantize_node *n;
    for (size_t i = 0; (n = xcc_quantizer_node(r->q, i)) != NULL; i++)
        if (strcmp(n->name, name) == 0)
            return n;
    ck_abort_msg("there is no node %s", name);
    return NULL;
}

#define COUNT_OPS(r, op, expected) ck_assert_uint_eq(count_ops((r), (op)), (expected))
#define OPTIONS(...)                                                                                                   \
    &(const xcc_quantize_options) { .size = sizeof(xcc_quantize_options), .threads = 1, __VA_ARGS__ }

static const char block[] =
    "opset 13\ninput x f32[Nx2x4x4]\noutput y\n"
    "init w f32[3x2x1x1] 0.5 -1 0.25 0.75 -0.3 0.9\ninit s f32[3] 1 2 0.5\ninit b f32[3] 0.1 -0.1 0\n"
    "init m f32[3] 0.2 0 0.1\ninit v f32[3] 1 0.5 2\ninit u f32[3x3x1x1] 1 -1 0.5 0.2 0.3 -0.7 0.9 0.1 -0.2\n"
    "init c f32[3] 1 0 -1\ninit d f32[2x3] 1 2 3 -3 -2 -1\ninit e f32[2] 0.5 -0.5\n"
    "c1 = Conv(x, w)\nn1 = BatchNormalization(c1, s, b, m, v)\nr1 = Relu(n1)\nc2 = Conv(r1, u, c)\na = Add(c2, r1)\n"
    "ar = Relu(a)\np = MaxPool(ar) kernel_shape=[2 2] strides=[2 2]\ng = GlobalAveragePool(p)\nf = Flatten(g)\n"
    "y = Gemm(f, d, e) transB=1\n";

START_TEST(static_pairs)
{
    result r;
    xcc_quantize_report report = {.size = sizeof report};
    open_result(&r, block, OPTIONS(.method = XCC_RANGE_MINMAX), true);
    xcc_quantizer_report(r.q, &report);
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
    /* Those, three weights and three biases. */
    COUNT_OPS(&r, "DequantizeLinear", 13);
    ck_assert_str_eq(r.model->graph->output[0]->name, "y");
    ck_assert_int_eq(constant(&r, "w_quantized")->data_type, XCVM_I8);
    ck_assert_int_eq(constant(&r, "u_scale")->dims[0], 3);
    ck_assert_int_eq(constant(&r, "c_quantized")->data_type, XCVM_I32);
    ck_assert_int_eq(constant(&r, "x_zero_point")->data_type, XCVM_U8);
    const xcc_quantize_output *y = xcc_quantizer_output(r.q, 0);
    ck_assert_ptr_nonnull(y);
    ck_assert_double_lt(y->max_error, 0.02);
    ck_assert_double_gt(y->max_error, 0);
    ck_assert_double_gt(y->sqnr, 30);
    /* Worst first. */
    const xcc_quantize_tensor *a = xcc_quantizer_tensor(r.q, 0), *b = xcc_quantizer_tensor(r.q, 1);
    ck_assert_double_le(a->sqnr, b->sqnr);
    /* The range of x is that of the data, and holds zero. */
    for (size_t i = 0; (a = xcc_quantizer_tensor(r.q, i)) != NULL; i++)
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
    ck_assert_double_lt(xcc_quantizer_output(r.q, 0)->max_error, 0.03);
    close_result(&r);
}
END_TEST

START_TEST(every_way_is_near_float)
{
    static const struct {
        xcc_quantize_options o;
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
        xcc_quantize_options o = ways[i].o;
        o.size = sizeof o;
        o.threads = 1;
        open_result(&r, block, &o, true);
        ck_assert_msg(xcc_quantizer_output(r.q, 0)->max_error < ways[i].bound, "way %zu: %g", i,
                      xcc_quantizer_output(r.q, 0)->max_error);
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
    ck_assert_ptr_null(xcc_quantizer_output(r.q, 0));
    ck_assert_str_eq(node(&r, "p")->reason, "activations stay floats");
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
    test_bytes model = onnx_from_text(block);
    static const xcc_quantize_options wrong[] = {
        {.size = sizeof *wrong, .activations = XCVM_I8},
        {.size = sizeof *wrong, .form = XCC_FORM_QOPERATOR},
        {.size = sizeof *wrong, .symmetric_activations = true},
        {.size = sizeof *wrong, .trainable = true},
        {.size = sizeof *wrong, .max_error = 0.1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        xcc_quantizer *q = NULL;
        ck_assert_int_eq(xcc_quantizer_create(model.at, model.length, &wrong[i], &q, NULL), XCVM_OK);
        ck_assert_int_eq(xcc_quantizer_run(q, NULL, NULL), XCVM_INVALID_ARGUMENT);
        xcc_quantizer_destroy(q);
    }
    test_bytes_free(&model);
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
    ck_assert(node(&r, "m")->quantized);
    ck_assert(node(&r, "a")->quantized);
    ck_assert(node(&r, "t")->quantized);
    ck_assert(!node(&r, "y")->quantized);
    ck_assert_str_eq(node(&r, "y")->reason, "nothing that computes with integers reads it");
    /* x, a, t, k, s: the product itself is not rounded in front of its bias. */
    COUNT_OPS(&r, "QuantizeLinear", 5);
    close_result(&r);
    open_result(&r, attention, OPTIONS(.exclude_nodes = (const char *const[]){"s"}, .exclude_node_count = 1), true);
    ck_assert_str_eq(node(&r, "s")->reason, "left out by its name");
    COUNT_OPS(&r, "QuantizeLinear", 4);
    close_result(&r);
    open_result(&r, attention, OPTIONS(.nodes = (const char *const[]){"m"}, .node_count = 1), true);
    COUNT_OPS(&r, "QuantizeLinear", 1);
    close_result(&r);
    open_result(&r, attention, OPTIONS(.exclude_types = (const char *const[]){"Trans*"}, .exclude_type_count = 1),
                true);
    ck_assert_str_eq(node(&r, "t")->reason, "left out by its type");
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
    ck_assert_double_lt(xcc_quantizer_output(r.q, 0)->mean_error, 0.05);
    close_result(&r);
    open_result(&r, text, OPTIONS(.weights = XCVM_U4, .asymmetric_weights = true, .block = 16), true);
    ck_assert_int_eq(constant(&r, "w_zero_point")->dims[1], 2);
    ck_assert_double_lt(xcc_quantizer_output(r.q, 0)->mean_error, 0.05);
    close_result(&r);
    /* Blocks of DequantizeLinear have to be whole. */
    print_matrix(text, sizeof text, 21, 64);
    for (int i = 0; i < 2; i++) {
        open_result(&r, text, OPTIONS(.weights = i == 0 ? XCVM_I4 : XCVM_U4, .asymmetric_weights = i == 1), true);
        COUNT_OPS(&r, "MatMulNBits", 0);
        COUNT_OPS(&r, "DequantizeLinear", 1);
        ck_assert_int_eq(constant(&r, "w_scale")->dims[0], 2);
        ck_assert_double_lt(xcc_quantizer_output(r.q, 0)->mean_error, 0.05);
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
    ck_assert_str_eq(node(&r, "h")->reason, "its weights alone");
    ck_assert_double_lt(xcc_quantizer_output(r.q, 0)->max_error, 0.02);
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
        ck_assert_double_lt(xcc_quantizer_output(r.q, 0)->max_error, 0.02);
        ck_assert_int_eq(constant(&r, "b_quantized")->data_type, XCVM_I32);
        close_result(&r);
    }
}
END_TEST

/* Ranges end where the functions that read a tensor tell nothing apart, if nobody else reads it. */
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
        const xcc_quantize_tensor *t = NULL;
        for (size_t k = 0; (t = xcc_quantizer_tensor(r.q, k)) != NULL && strcmp(t->name, expected[i].name) != 0;)
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
    ck_assert_double_lt(xcc_quantizer_output(r.q, 0)->max_error, 0.02);
    close_result(&r);
}
END_TEST

/* Weights are told apart by all of their names, however long these are. */
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
    source s = {.q = q, .factor = 2};
    const xcc_calibration data = {.batch_count = BATCHES, .read = read_batch, .user = &s};
    ck_assert_int_eq(xcc_quantizer_run(q, &data, NULL), XCVM_OK);
    ck_assert_double_lt(xcc_quantizer_output(q, 0)->max_error, 0.05);
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

/* Names that are made up say what they are made of, and there may be any number of one stem. */
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
    ck_assert_double_lt(xcc_quantizer_output(r.q, 0)->max_error, 0.03);
    close_result(&r);
}
END_TEST

/* What Gemm adds keeps its shape. */
START_TEST(biases_of_any_shape)
{
    static const char *const shapes[] = {"1x2", "3x2", "3x1", "2", ""};
    char text[400];
    result r;
    (void)snprintf(text, sizeof text,
                   "opset 13\ninput x f32[3x2x2x1]\noutput y\ninit w f32[2x2] 1 -2 0.5 3\ninit c f32[%s] %s\n"
                   "init s i64[2] 3 -1\ninit v f32[4x2] 1 -2 0.5 3 1 1 -1 -1\nf = Reshape(x, s)\ny = Gemm(f, v, c)\n",
                   shapes[_i / 2],
                   _i / 2 == 0 || _i / 2 == 3 ? "3 -5"
                   : _i / 2 == 1              ? "1 2 3 4 5 6"
                   : _i / 2 == 2              ? "1 2 3"
                                              : "4");
    open_result(&r, text, OPTIONS(.per_tensor = _i % 2 == 0), true);
    ck_assert_double_lt(xcc_quantizer_output(r.q, 0)->max_error, 0.03);
    close_result(&r);
}
END_TEST

/* Channels of very different ranges, which one scale for all weights cannot serve. */
static const char uneven[] = "opset 13\ninput x f32[Nx2x2x2]\noutput y\ninit w f32[3x2x1x1] 10 -20 0.01 0.02 0.1 -0.3\n"
                             "init u f32[2x3x1x1] 0.01 3 0.2 -0.02 5 -0.1\ninit b f32[3] 1 0.001 0.01\n"
                             "c = Conv(x, w, b)\nr = Relu(c)\ny = Conv(r, u)\n";

START_TEST(equalisation)
{
    result plain, equal;
    xcc_quantize_report report = {.size = sizeof report};
    open_result(&plain, uneven, OPTIONS(.per_tensor = true), true);
    open_result(&equal, uneven, OPTIONS(.per_tensor = true, .equalize = true), true);
    xcc_quantizer_report(equal.q, &report);
    ck_assert_uint_eq(report.equalized_pairs, 1);
    ck_assert_double_gt(xcc_quantizer_output(equal.q, 0)->sqnr, xcc_quantizer_output(plain.q, 0)->sqnr + 6);
    /* The model of floats computes the same. */
    ck_assert_double_eq_tol(xcc_quantizer_output(equal.q, 0)->greatest, xcc_quantizer_output(plain.q, 0)->greatest,
                            1e-4);
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
        test_bytes model = onnx_from_text(text);
        xcc_quantizer *q = NULL;
        const xcc_calibration data = {.batch_count = 4, .read = read_ones};
        ck_assert_int_eq(xcc_quantizer_create(model.at, model.length,
                                              OPTIONS(.activations = XCVM_U16, .correct_bias = i == 1), &q, NULL),
                         XCVM_OK);
        ck_assert_int_eq(xcc_quantizer_run(q, &data, NULL), XCVM_OK);
        errors[i] = xcc_quantizer_output(q, 0)->mean_error;
        xcc_quantizer_destroy(q);
        test_bytes_free(&model);
    }
    ck_assert_double_lt(errors[1] * 10, errors[0]);
}
END_TEST

START_TEST(bounded_errors)
{
    result r;
    xcc_quantize_report report = {.size = sizeof report};
    /* One scale for the uneven channels of the first convolution does harm; the second may stay. */
    open_result(&r, uneven, OPTIONS(.per_tensor = true), true);
    const double bound = xcc_quantizer_output(r.q, 0)->max_error * 0.7;
    close_result(&r);
    open_result(&r, uneven, OPTIONS(.per_tensor = true, .max_error = bound), true);
    ck_assert_double_le(xcc_quantizer_output(r.q, 0)->max_error, bound);
    xcc_quantizer_report(r.q, &report);
    ck_assert_uint_gt(report.quantized_nodes, 0);
    ck_assert_uint_lt(report.quantized_nodes, report.node_count);
    bool told = false;
    const xcc_quantize_node *n;
    for (size_t i = 0; (n = xcc_quantizer_node(r.q, i)) != NULL; i++)
        if (!n->quantized && strcmp(n->reason, "kept in float, as the error would be too large") == 0) {
            told = true;
            ck_assert(n->harm > 0 || strcmp(n->op, "Relu") == 0);
        }
    ck_assert(told);
    close_result(&r);
}
END_TEST

enum { MANY = 40 };

/* Of the first input the first batch has an element ten times the others, so that its steps are coarse. The other's
 * comes in the very last batch, which is not calibrated with, and is cut off. */
static xcvm_status read_outliers(void *user, size_t batch, xcvm_value **inputs, xcvm_error *error)
{
    source s = {.q = user, .factor = 1};
    XCVM_TRY(read_batch(&s, batch, inputs, error));
    if (batch == 0 || batch + 1 == MANY)
        ((float *)xcvm_value_data(inputs[batch == 0 ? 0 : 1]))[0] = 10;
    return XCVM_OK;
}

START_TEST(bounds_by_the_worst_inputs)
{
    test_bytes model = onnx_from_text("opset 13\ninput a f32[1x2]\ninput b f32[1x2]\noutput y\noutput z\n"
                                      "init w f32[2x2] 1 0.5 -0.5 1\ninit u f32[2x2] 0.5 1 1 -0.5\n"
                                      "y = MatMul(a, w)\nz = MatMul(b, u)\n");
    const xcc_quantize_options *options = OPTIONS(.method = XCC_RANGE_MINMAX, .max_error = 0.1);
    result r = {.q = NULL};
    ck_assert_int_eq(xcc_quantizer_create(model.at, model.length, options, &r.q, NULL), XCVM_OK);
    const xcc_calibration data = {.batch_count = MANY, .read = read_outliers, .user = r.q};
    xcvm_error error = {0};
    ck_assert_msg(xcc_quantizer_run(r.q, &data, &error) == XCVM_OK, "%s", error.message);
    ck_assert(node(&r, "y")->quantized);
    ck_assert(!node(&r, "z")->quantized);
    ck_assert_double_gt(node(&r, "z")->harm, node(&r, "y")->harm);
    xcc_quantizer_destroy(r.q);
    test_bytes_free(&model);
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
    const double error = xcc_quantizer_output(r.q, 0)->max_error;
    close_result(&r);
    /* They are rounded as they are in the model that does not learn, whose biases are rounded, too. */
    open_result(&r, block, OPTIONS(.method = XCC_RANGE_MSE), true);
    ck_assert_double_eq_tol(xcc_quantizer_output(r.q, 0)->max_error, error, 1e-4);
    close_result(&r);
}
END_TEST

START_TEST(memory_does_not_grow)
{
    size_t peaks[2];
    for (int i = 0; i < 2; i++) {
        test_bytes model = onnx_from_text(block);
        xcc_quantizer *q = NULL;
        ck_assert_int_eq(xcc_quantizer_create(model.at, model.length, OPTIONS(.method = XCC_RANGE_ENTROPY), &q, NULL),
                         XCVM_OK);
        source s = {.q = q, .factor = 1};
        const xcc_calibration data = {.batch_count = i == 0 ? 6 : 600, .read = read_batch, .user = &s};
        ck_assert_int_eq(xcc_quantizer_run(q, &data, NULL), XCVM_OK);
        peaks[i] = q->m.budget.peak;
        xcc_quantizer_destroy(q);
        test_bytes_free(&model);
    }
    ck_assert_uint_eq(peaks[0], peaks[1]);
}
END_TEST

START_TEST(constant_data)
{
    static const double shifts[] = {0, 3, -2};
    for (size_t i = 0; i < 3; i++) {
        test_bytes model = onnx_from_text(block);
        xcc_quantizer *q = NULL;
        xcvm_error error = {0};
        ck_assert_int_eq(xcc_quantizer_create(model.at, model.length, OPTIONS(.method = XCC_RANGE_MSE), &q, &error),
                         XCVM_OK);
        source s = {.q = q, .factor = 0, .shift = shifts[i]};
        const xcc_calibration data = {.batch_count = 1, .read = read_batch, .user = &s};
        ck_assert_msg(xcc_quantizer_run(q, &data, &error) == XCVM_OK, "%s", error.message);
        const xcc_quantize_output *y = xcc_quantizer_output(q, 0);
        ck_assert(isfinite(y->mean_error));
        ck_assert_double_lt(y->mean_error, 0.05);
        xcc_quantizer_destroy(q);
        test_bytes_free(&model);
    }
}
END_TEST

/* ---- Refusals ---- */

static void refuse_model(const char *text, const xcc_quantize_options *options, xcvm_status status, const char *part)
{
    test_bytes model = onnx_from_text(text);
    xcc_quantizer *q = NULL;
    xcvm_error error = {0};
    xcvm_status got = xcc_quantizer_create(model.at, model.length, options, &q, &error);
    if (got == XCVM_OK) {
        source s = {.q = q, .factor = 1};
        const xcc_calibration data = {.batch_count = BATCHES, .read = read_batch, .user = &s};
        got = xcc_quantizer_run(q, &data, &error);
    }
    ck_assert_msg(got == status && strstr(error.message, part) != NULL, "%s: %s", xcvm_status_name(got), error.message);
    xcc_quantizer_destroy(q);
    test_bytes_free(&model);
}

static void refuse_data(const source *given, size_t batches, xcvm_status status, const char *part)
{
    test_bytes model = onnx_from_text(block);
    xcc_quantizer *q = NULL;
    xcvm_error error = {0};
    ck_assert_int_eq(xcc_quantizer_create(model.at, model.length, OPTIONS(.held_out = 0.01), &q, &error), XCVM_OK);
    source s = *given;
    s.q = q;
    const xcc_calibration data = {.batch_count = batches, .read = read_batch, .user = &s};
    const xcvm_status got = xcc_quantizer_run(q, &data, &error);
    ck_assert_msg(got == status && strstr(error.message, part) != NULL, "%s: %s", xcvm_status_name(got), error.message);
    /* Nothing is written of what failed, but for the model in its parts that need no ranges: a second run is refused.
     */
    ck_assert_int_eq(xcc_quantizer_run(q, &data, &error), XCVM_INVALID_ARGUMENT);
    xcc_quantizer_destroy(q);
    test_bytes_free(&model);
}

START_TEST(refusals)
{
    static const char *const frob[] = {"frob"};
    const xcc_quantize_options *plain = OPTIONS(.method = XCC_RANGE_MSE);
    refuse_model("opset 13\ninput x f32[2x2]\noutput y\ninit s f32[] 1\ny = QuantizeLinear(x, s)\n", plain,
                 XCVM_UNSUPPORTED, "quantised already: node 'y' is QuantizeLinear");
    refuse_model("opset 13\ninput x f32[2x2]\noutput y\ny = Relu(x)\n", plain, XCVM_INVALID_ARGUMENT, "no node can be");
    refuse_model("opset 13\ninput x f32[2x2]\noutput y\ny = Erf(x)\n", plain, XCVM_INVALID_ARGUMENT,
                 "nothing to quantise");
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
    refuse_model(block, OPTIONS(.max_error = 1e-9), XCVM_INVALID_ARGUMENT, "off by more than 1e-09");
    refuse_data(&(source){.factor = 1}, 0, XCVM_INVALID_ARGUMENT, "at least one batch");
    refuse_data(&(source){.factor = 1, .bad = INFINITY}, BATCHES, XCVM_INVALID_ARGUMENT,
                "input \"x\" has an infinity in batch 9");
    refuse_data(&(source){.factor = 1, .bad = NAN}, BATCHES, XCVM_INVALID_ARGUMENT, "input \"x\" has NaN");
    refuse_data(&(source){.factor = 1, .wrong_dim = 7}, 1, XCVM_SHAPE_MISMATCH, "x");
}
END_TEST

/* What the compiler would refuse is looked at before it does: nodes that read what has been merged, that have no
 * result, or that stand in a circle. */
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
    refuse_model(block, OPTIONS(.timeout_ns = 1), XCVM_OUT_OF_TIME, "");
    refuse_model(block, OPTIONS(.memory_limit = 20000), XCVM_OUT_OF_MEMORY, "");
    /* Wherever memory ends, all of it comes back. */
    test_bytes model = onnx_from_text(block);
    size_t done = 0;
    for (size_t fail_at = 1; done < 3; fail_at += 1 + fail_at / 16) {
        test_allocator a;
        test_allocator_start(&a, fail_at);
        xcc_quantizer *q = NULL;
        xcvm_error error = {0};
        xcvm_status status =
            xcc_quantizer_create(model.at, model.length, OPTIONS(.allocator = &a.allocator), &q, &error);
        if (status == XCVM_OK) {
            source s = {.q = q, .factor = 1};
            const xcc_calibration data = {.batch_count = 2, .read = read_batch, .user = &s};
            status = xcc_quantizer_run(q, &data, &error);
        }
        ck_assert_msg(status == XCVM_OK || status == XCVM_OUT_OF_MEMORY, "%zu: %s", fail_at, error.message);
        done += status == XCVM_OK;
        xcc_quantizer_destroy(q);
        ck_assert_uint_eq(a.live, 0);
        ck_assert_uint_lt(fail_at, 1000000);
    }
    test_bytes_free(&model);
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
    tcase_add_test(tc, ranges_of_gates);
    tcase_add_test(tc, long_names);
    tcase_add_test(tc, names_that_are_made_up);
    tcase_add_test(tc, inputs_read_in_float);
    tcase_add_loop_test(tc, biases_of_any_shape, 0, 10);
    tcase_add_test(tc, equalisation);
    tcase_add_test(tc, biases_that_make_up);
    tcase_add_test(tc, bounded_errors);
    tcase_add_test(tc, bounds_by_the_worst_inputs);
    tcase_add_test(tc, models_that_learn);
    tcase_add_test(tc, memory_does_not_grow);
    tcase_add_test(tc, constant_data);
    tcase_add_test(tc, refusals);
    tcase_add_loop_test(tc, twisted_models, 0, 5);
    tcase_add_test(tc, limits);
    suite_add_tcase(suite, tc);
    return suite;
}

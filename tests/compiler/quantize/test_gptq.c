/* Tests of GPTQ: the effect of rounding by second moments on sums of products, alone and in the quantizer. */
#include "compiler/quantize/gptq.h"
#include "tests/compiler/quantize/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t state;
static double uniform(void) { return (double)(test_random_wide(&state) >> 11) / 9007199254740992.0 * 2 - 1; }

/* ---- By itself ---- */

typedef struct work {
    xcc_options options;
    xcvm_error error;
    xcc_module m;
} work;

static void begin(work *w)
{
    *w = (work){.options = {.size = sizeof w->options}};
    ck_assert_int_eq(xcc_module_init(&w->m, &w->options, &w->error), XCVM_OK);
}

/* Correlated rows of inputs: a few common causes, and a small independent part each. */
static float *draw_rows(size_t count, size_t width)
{
    enum { CAUSES = 3 };
    float *rows = malloc(count * width * sizeof *rows), mixing[CAUSES * 64];
    for (size_t i = 0; i < CAUSES * 64; i++)
        mixing[i] = (float)uniform();
    for (size_t r = 0; r < count; r++) {
        double causes[CAUSES];
        for (size_t c = 0; c < CAUSES; c++)
            causes[c] = uniform();
        for (size_t i = 0; i < width; i++) {
            double x = 0.05 * uniform();
            for (size_t c = 0; c < CAUSES; c++)
                x += causes[c] * (double)mixing[(c * 64 + i) % (CAUSES * 64)];
            rows[r * width + i] = (float)x;
        }
    }
    return rows;
}

static void begin_moments(xcc_moments *t, size_t groups, size_t inputs, size_t most)
{
    xcc_moments_plan(t, groups, inputs, most);
    t->sums = calloc(1, t->bytes);
}

START_TEST(moments_are_sums_of_products)
{
    enum { GROUPS = 3, INPUTS = 10, COUNT = 23 };
    work w;
    xcc_moments t;
    begin(&w);
    state = 3;
    float *rows = draw_rows(COUNT, (size_t)GROUPS * INPUTS);
    /* Two floats for each input: blocks of two; 400: one block. */
    const size_t most = (size_t)(_i == 0 ? 2 : 400) * GROUPS * INPUTS * sizeof(float);
    begin_moments(&t, GROUPS, INPUTS, most);
    ck_assert_uint_eq(t.block, _i == 0 ? 2 : INPUTS);
    ck_assert_uint_le(t.bytes, most);
    ck_assert_int_eq(xcc_moments_add(&w.m, &t, rows, 5), XCVM_OK);
    ck_assert_int_eq(xcc_moments_add(&w.m, &t, rows + 5 * GROUPS * INPUTS, COUNT - 5), XCVM_OK);
    ck_assert_uint_eq(t.count, COUNT);
    for (size_t at = 0; at < GROUPS * t.blocks; at++)
        for (size_t i = 0; i < t.block; i++)
            for (size_t k = i; k < t.block; k++) {
                const size_t first = at / t.blocks * INPUTS + at % t.blocks * t.block;
                double sum = 0;
                for (size_t r = 0; r < COUNT; r++)
                    sum +=
                        (double)rows[r * GROUPS * INPUTS + first + i] * (double)rows[r * GROUPS * INPUTS + first + k];
                ck_assert_double_eq_tol(t.sums[(at * t.block + i) * t.block + k], sum, 1e-4);
            }
    free(rows);
    free(t.sums);
    xcc_module_release(&w.m);
}
END_TEST

/* The mean squared error of the sums. */
static double error_of(const float *rows, size_t count, size_t groups, size_t inputs, const float *x,
                       const uint8_t *levels, const xcc_grid *grid, const xcc_weight_layout *l)
{
    double sum = 0;
    for (size_t r = 0; r < count; r++)
        for (size_t o = 0; o < l->outputs; o++) {
            const size_t group = o / (l->outputs / groups);
            double e = 0;
            for (size_t i = 0; i < inputs; i++) {
                const size_t at = o * l->output + i * l->input, number = o * grid->step + i / grid->run;
                const double w = (double)grid->scales[number] * ((int8_t)levels[at] - grid->zero_points[number]);
                e += (w - (double)x[at]) * (double)rows[(r * groups + group) * inputs + i];
            }
            sum += e * e;
        }
    return sum / (double)(count * l->outputs);
}

static const struct {
    size_t groups, inputs, outputs, block, run;
    bool transposed;
} products[] = {{1, 40, 5, 40, SIZE_MAX, false},
                {1, 40, 35, 40, SIZE_MAX, true},
                {4, 9, 8, 9, SIZE_MAX, false},
                {1, 40, 5, 16, SIZE_MAX, false},
                {1, 50, 20, 50, 16, true}};
enum { PRODUCTS = sizeof products / sizeof *products };

/* Groups, blocks, either order of the weights, scales of outputs and of runs of inputs. */
START_TEST(sums_are_nearer)
{
    enum { COUNT = 400, MOST = 64 * 64 };
    const size_t groups = products[_i].groups, inputs = products[_i].inputs, outputs = products[_i].outputs;
    work w;
    xcc_moments t;
    float x[MOST], scales[MOST];
    uint8_t nearest[MOST], levels[MOST];
    int32_t zero_points[MOST];
    begin(&w);
    state = 5;
    float *rows = draw_rows(COUNT, groups * inputs);
    begin_moments(&t, groups, inputs, groups * inputs * products[_i].block * sizeof(float));
    ck_assert_uint_le(t.block, products[_i].block);
    ck_assert_int_eq(xcc_moments_add(&w.m, &t, rows, COUNT), XCVM_OK);
    const size_t runs = products[_i].run == SIZE_MAX ? 1 : (inputs + products[_i].run - 1) / products[_i].run;
    for (size_t i = 0; i < MOST; i++) {
        x[i] = (float)uniform();
        scales[i] = 0.25f + 0.01f * (float)(i % 7);
        zero_points[i] = (int32_t)(i % 3) - 1;
    }
    const xcc_grid grid = {.scales = scales,
                           .zero_points = zero_points,
                           .step = runs,
                           .run = products[_i].run,
                           .least = -8,
                           .greatest = 7};
    const xcc_weight_layout l = products[_i].transposed
                                    ? (xcc_weight_layout){.outputs = outputs, .output = 1, .input = outputs}
                                    : (xcc_weight_layout){.outputs = outputs, .output = inputs, .input = 1};
    ck_assert_int_eq(xcc_gptq(&w.m, &t, &grid, &l, x, levels), XCVM_OK);
    for (size_t o = 0; o < outputs; o++)
        for (size_t i = 0; i < inputs; i++) {
            const size_t at = o * l.output + i * l.input;
            nearest[at] = (uint8_t)xcc_grid_level(&grid, o * grid.step + i / grid.run, x[at]);
            ck_assert_int_ge((int8_t)levels[at], -8);
            ck_assert_int_le((int8_t)levels[at], 7);
        }
    const double before = error_of(rows, COUNT, groups, inputs, x, nearest, &grid, &l),
                 after = error_of(rows, COUNT, groups, inputs, x, levels, &grid, &l);
    ck_assert_msg(after * 4 < before, "way %d: %g, to the nearest %g", _i, after, before);
    free(rows);
    free(t.sums);
    xcc_module_release(&w.m);
}
END_TEST

/* Inputs that were always zero, none at all, and products beyond the greatest float: to the nearest. */
START_TEST(moments_that_say_nothing)
{
    static const float values[] = {0, 1e30f, 1};
    static const float x[] = {0.4f, -0.6f, 1.2f, 0.4f}, scales[] = {1}, one[] = {0, 0, 1, 0};
    static const int32_t zero_points[] = {0};
    const xcc_grid grid = {.scales = scales, .zero_points = zero_points, .run = SIZE_MAX, .least = -8, .greatest = 7};
    const xcc_weight_layout l = {.outputs = 1, .output = 4, .input = 1};
    work w;
    xcc_moments t;
    uint8_t levels[4];
    float row[4];
    begin(&w);
    begin_moments(&t, 1, 4, 1024);
    for (size_t i = 0; i < 4; i++)
        row[i] = values[_i] * (_i == 2 ? one[i] : 1);
    ck_assert_int_eq(xcc_moments_add(&w.m, &t, row, 1), XCVM_OK);
    ck_assert_int_eq(xcc_gptq(&w.m, &t, &grid, &l, x, levels), XCVM_OK);
    static const int8_t nearest[] = {0, -1, 1, 0};
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq((int8_t)levels[i], nearest[i]);
    free(t.sums);
    xcc_module_release(&w.m);
}
END_TEST

/* ---- In the quantizer ---- */

/* Columns of images, or elements of rows, with an odd index are zero. The others are nearly the same. */
static xcvm_status read_stripes(void *user, size_t batch, xcvm_value **inputs, xcvm_error *error)
{
    const source *s = user;
    const xcvm_value_info *p = xcc_quantizer_input_at(s->q, 0);
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, p->type.rank, p->type.dims, &inputs[0], error), XCVM_OK);
    float *x = xcvm_value_data(inputs[0]);
    const size_t columns = (size_t)p->type.dims[p->type.rank - 1];
    state = batch;
    for (size_t i = 0; i < xcvm_value_count(inputs[0]); i++)
        x[i] = i % columns % 2 == 0 ? (float)(1 + 0.02 * uniform()) : 0.0f;
    return XCVM_OK;
}

static double sqnr_of(const char *text, xcc_quantizer_options o)
{
    quantizing z;
    source stripes = {.read = read_stripes, .batches = 4};
    o.size = sizeof o;
    o.threads = 1;
    quantize(&z, text, &o, &stripes);
    const double sqnr = xcc_quantizer_output_at(z.q, 0)->sqnr;
    close_quantizing(&z);
    return sqnr;
}

static const struct {
    const char *x, *w, *node;
} nodes[] = {
    {"1x2x9x9", "12x2x3x3", "Conv(x, w) strides=[1 2]"},
    {"2x2x8x8", "12x2x3x3", "Conv(x, w) strides=[2 2] pads=[0 1 1 1]"},
    {"1x2x9x9", "12x2x3x3", "Conv(x, w) dilations=[1 2] strides=[1 2]"},
    {"1x4x9x9", "12x2x3x3", "Conv(x, w) strides=[1 2] group=2"},
    {"1x4x9x9", "16x1x3x3", "Conv(x, w) strides=[1 2] group=4"},
    {"1x2x8x8", "12x2x3x3", "Conv(x, w) strides=[2 2] auto_pad=\"SAME_LOWER\""},
    {"1x6x12", "12x6x3", "Conv(x, w) strides=[2]"},
    {"1x2x4x5x6", "8x2x2x3x3", "Conv(x, w) strides=[1 1 2]"},
    {"5x20", "20x12", "MatMul(x, w)"},
    {"2x3x20", "20x12", "MatMul(x, w)"},
    {"5x20", "12x20", "Gemm(x, w) transB=1"},
};
enum { NODES = sizeof nodes / sizeof *nodes };

/* With equal inputs, sums are almost exact, since the last weights compensate for all others. This requires the rows
 * that the node multiplies, as stripes show. */
START_TEST(inputs_are_those_of_the_node)
{
    char text[4096];
    int64_t count = 1;
    for (const char *at = nodes[_i].w; *at != '\0';) {
        char *end;
        count *= strtol(at, &end, 10);
        at = *end == 'x' ? end + 1 : end;
    }
    size_t length = (size_t)snprintf(text, sizeof text, "opset 13\ninput x f32[%s]\noutput y\ninit w f32[%s]",
                                     nodes[_i].x, nodes[_i].w);
    state = 12;
    for (int64_t i = 0; i < count; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, " %.4f", uniform());
    snprintf(text + length, sizeof text - length, "\ny = %s\n", nodes[_i].node);
    const double nearest =
                     sqnr_of(text, (xcc_quantizer_options){.activations = XCVM_U16, .rounding = XCC_ROUNDING_NEAREST}),
                 gptq = sqnr_of(text, (xcc_quantizer_options){.activations = XCVM_U16, .rounding = XCC_ROUNDING_GPTQ});
    ck_assert_msg(gptq > nearest + 4, "%s: %g, to the nearest %g", nodes[_i].node, gptq, nearest);
}
END_TEST

static const char product[] =
    "opset 21\ninput x f32[4x32]\noutput y\ninit w f32[32x2] "
    "0.11 0.22 -0.33 0.44 0.55 -0.66 0.77 0.13 0.24 0.35 -0.46 0.57 0.68 -0.79 0.18 0.29 "
    "0.17 0.28 -0.39 0.41 0.52 -0.63 0.74 0.15 0.26 0.37 -0.48 0.59 0.61 -0.72 0.83 0.94 "
    "0.11 0.22 -0.33 0.44 0.55 -0.66 0.77 0.13 0.24 0.35 -0.46 0.57 0.68 -0.79 0.18 0.29 "
    "0.17 0.28 -0.39 0.41 0.52 -0.63 0.74 0.15 0.26 0.37 -0.48 0.59 0.61 -0.72 0.83 0.94\ny = MatMul(x, w)\n";

static const xcc_quantizer_options forms[] = {
    {.weights = XCVM_I4},
    {.weights = XCVM_U4, .asymmetric_weights = true, .block = 16},
    {.activations = XCVM_F32},
    {.activations = XCVM_F32, .per_tensor = true},
    {.activations = XCVM_F32, .weights = XCVM_U8, .asymmetric_weights = true},
    {.activations = XCVM_I16, .correct_bias = true},
};
enum { FORMS = sizeof forms / sizeof *forms };

/* Every form of weights, with the correction of biases. */
START_TEST(forms_of_weights)
{
    /* GPTQ is the default. */
    xcc_quantizer_options nearest = forms[_i];
    nearest.rounding = XCC_ROUNDING_NEAREST;
    const double before = sqnr_of(product, nearest), after = sqnr_of(product, forms[_i]);
    ck_assert_msg(after > before + 6, "way %d: %g, to the nearest %g", _i, after, before);
}
END_TEST

START_TEST(refusals)
{
    static const struct {
        xcc_rounding rounding;
        bool trainable;
        const char *message;
    } ways[] = {{(xcc_rounding)3, false, "rounding"},
                {XCC_ROUNDING_GPTQ, true, "GPTQ"},
                {XCC_ROUNDING_GPTQ, false, "GPTQ needs"}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        quantizing z;
        xcvm_error error = {0};
        const xcvm_status status = try_quantize(
            &z, product, OPTIONS(.rounding = ways[i].rounding, .trainable = ways[i].trainable), NULL, &error);
        ck_assert_msg(status == XCVM_INVALID_ARGUMENT && strstr(error.message, ways[i].message) != NULL, "%s",
                      error.message);
        close_quantizing(&z);
    }
}
END_TEST

START_TEST(limits)
{
    source stripes = {.read = read_stripes, .batches = 2};
    check_memory(product, OPTIONS(.rounding = XCC_ROUNDING_GPTQ, .weights = _i == 0 ? XCVM_I8 : XCVM_I4), &stripes);
}
END_TEST

Suite *suite_compiler_gptq(void);
Suite *suite_compiler_gptq(void)
{
    Suite *suite = suite_create("compiler_gptq");
    TCase *tc = tcase_create("gptq");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, moments_are_sums_of_products, 0, 2);
    tcase_add_loop_test(tc, sums_are_nearer, 0, PRODUCTS);
    tcase_add_loop_test(tc, moments_that_say_nothing, 0, 3);
    tcase_add_loop_test(tc, inputs_are_those_of_the_node, 0, NODES);
    tcase_add_loop_test(tc, forms_of_weights, 0, FORMS);
    tcase_add_test(tc, refusals);
    tcase_add_loop_test(tc, limits, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}

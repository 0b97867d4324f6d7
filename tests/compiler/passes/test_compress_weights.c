/* Tests of weights in half precision: the compressed constants, their rounding, and constants that do not change. */
#include "base/dtype.h"
#include "compiler/ir/compilation.h"
#include "tests/compiler/support.h"
#include "ops/util/convert.h"

#define APPLY(Name, result, ...) must(b, xcc_apply(b, Name, result, __VA_ARGS__))

enum { ROWS = 3, COLUMNS = 20 };

static void begin_with(compilation *c, xcvm_dtype weights)
{
    begin(c, 2);
    c->options.weights.dtype = weights;
}

static const xcvm_value *only_weights(const compilation *c)
{
    const xcvm_value *w = NULL;
    for (const xcc_node *n = c->m.graph->first; n != NULL; n = n->next)
        if (xcc_is(n, XCVM_OP_PackedGemm)) {
            ck_assert(w == NULL || w == XCC_ARGS(PackedGemm, n)->w);
            w = XCC_ARGS(PackedGemm, n)->w;
        }
    ck_assert_ptr_nonnull(w);
    return w;
}

static void multiply(xcc_builder *b, xcc_value *x, xcc_value *w)
{
    output(b, APPLY(MatMul, y, .a = XCC_IN(x), .b = XCC_IN(w)));
}

/* Two products by one constant of `data`, the second in a body. */
static void make_products(xcc_builder *b, const float *data)
{
    xcc_value *w = floats(b, 2, DIMS(ROWS, COLUMNS), data);
    multiply(b, input(b, "x", XCVM_F32, 2, DIMS(1, ROWS)), w);
    xcc_value *cond = input(b, "c", XCVM_BOOL, 0, NULL), *z = must(b, xcc_value_create(b->graph, NULL));
    xcc_value *r = input(b, "r", XCVM_F32, 2, DIMS(7, ROWS));
    xcc_node *branch = xcc_append_control(b, XCC_IF, 1, &cond, 1, &z, 2);
    ck_assert_ptr_nonnull(branch);
    for (int i = 0; i < 2; i++) {
        xcc_builder body = {.graph = branch->bodies[i], .name = "body", .origin = "Test"};
        xcc_value *y = must(&body, xcc_apply(&body, MatMul, y, .a = XCC_IN(r), .b = XCC_IN(w)));
        if (i == 1)
            y = must(&body, xcc_apply(&body, Neg, y, .x = XCC_IN(y)));
        ok(b->graph->module, xcc_graph_set_outputs(branch->bodies[i], 1, &y));
    }
    ok(b->graph->module, xcc_node_infer(branch));
    output(b, z);
}

static void fill(float *data)
{
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++)
        data[i] = sinf((float)(i * 7 + 3));
}

/* To nearest even, subnormal numbers included, once for all readers of the constant. */
START_TEST(rounding)
{
    static const struct {
        xcvm_dtype dtype;
        float from, to;
    } numbers[] = {
        {XCVM_F16, 1.0f + 0x1p-11f, 1.0f},
        {XCVM_F16, 1.0f + 0x3p-11f, 1.0f + 0x1p-9f},
        {XCVM_F16, 0x1p-25f, 0.0f},
        {XCVM_F16, 0x1.8p-24f, 0x1p-23f},
        {XCVM_F16, -0x1.008p-15f, -0x1.008p-15f},
        {XCVM_F16, 0x1.004p-15f, 0x1p-15f},
        {XCVM_F16, 65504.0f, 65504.0f},
        {XCVM_F16, 0.1f, 0.0999755859375f},
        {XCVM_BF16, 1.0f + 0x1p-8f, 1.0f},
        {XCVM_BF16, 1.0f + 0x3p-8f, 1.0f + 0x1p-6f},
        {XCVM_BF16, 65520.0f, 65536.0f},
        {XCVM_BF16, 0x1.fep127f, 0x1.fep127f},
        {XCVM_BF16, -0x1p-126f, -0x1p-126f},
        {XCVM_F24, 1.0f + 0x1p-16f, 1.0f},
        {XCVM_F24, -1.0f - 0x3p-16f, -1.0f - 0x1p-14f},
        {XCVM_F24, 0x1.ffffp-3f, 0x1p-2f},
        {XCVM_F24, 0x1.fffep127f, 0x1.fffep127f},
        {XCVM_F24, 0x1.23456p-10f, 0x1.2346p-10f},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        float data[ROWS * COLUMNS];
        compilation c;
        fill(data);
        data[0] = numbers[i].from;
        begin_with(&c, numbers[i].dtype);
        make_products(&c.b, data);
        passes(&c);
        const xcvm_value *w = only_weights(&c);
        ck_assert_int_eq(w->dtype, numbers[i].dtype);
        double stored;
        xcvm_load_f64((xcvm_dtype)w->dtype, w->data, 0, 1, &stored);
        ck_assert_double_eq(stored, (double)numbers[i].to);
        CHECK_COUNT(&c, PackedGemm, 3);
        ck_assert_uint_eq(c.m.compilation->weight_bytes_before, 2 * ROWS * 16 * sizeof(float));
        ck_assert_uint_eq(c.m.compilation->weight_bytes_after, 2 * ROWS * 16 * xcvm_dtype_size(numbers[i].dtype));
        ck_assert_uint_eq(c.m.compilation->uncompressed, 0);
        for (const xcc_node *n = c.m.graph->first; n != NULL; n = n->next)
            for (size_t body = 0; body < n->body_count; body++)
                for (const xcc_node *inner = n->bodies[body]->first; inner != NULL; inner = inner->next)
                    ck_assert(!xcc_is(inner, XCVM_OP_PackedGemm) || XCC_ARGS(PackedGemm, inner)->w == w);
        finish(&c);
    }
}
END_TEST

/* A finite number that would become infinite, or that the type does not represent. */
START_TEST(out_of_range)
{
    static const struct {
        xcvm_dtype dtype;
        float number;
        bool stays;
    } numbers[] = {
        {XCVM_F16, 65505.0f, true},      {XCVM_F16, -70000.0f, true},  {XCVM_F16, 65504.0f, false},
        {XCVM_F16, -INFINITY, false},    {XCVM_BF16, 70000.0f, false}, {XCVM_BF16, 0x1.ffp127f, true},
        {XCVM_BF16, 0x1.fep127f, false}, {XCVM_BF16, NAN, false},      {XCVM_F24, 70000.0f, false},
        {XCVM_F24, 0x1.ffffp127f, true}, {XCVM_F24, -INFINITY, false}, {XCVM_F24, NAN, false},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        float data[ROWS * COLUMNS];
        compilation c;
        fill(data);
        data[COLUMNS + 2] = numbers[i].number;
        begin_with(&c, numbers[i].dtype);
        make_products(&c.b, data);
        multiply(&c.b, input(&c.b, "v", XCVM_F32, 2, DIMS(2, 5)), weights(&c.b, 2, DIMS(5, 16)));
        passes(&c);
        ck_assert_uint_eq(c.m.compilation->uncompressed, numbers[i].stays);
        const size_t first = 2 * ROWS * 16, second = 5 * 16, size = xcvm_dtype_size(numbers[i].dtype);
        ck_assert_uint_eq(c.m.compilation->weight_bytes_before, (first + second) * sizeof(float));
        ck_assert_uint_eq(c.m.compilation->weight_bytes_after, first * (numbers[i].stays ? 4 : size) + second * size);
        for (const xcc_node *n = c.m.graph->first; n != NULL; n = n->next)
            if (xcc_is(n, XCVM_OP_PackedGemm)) {
                const xcvm_PackedGemm_args *a = XCC_ARGS(PackedGemm, n);
                ck_assert_int_eq(a->w->dtype, a->columns == COLUMNS && numbers[i].stays ? XCVM_F32 : numbers[i].dtype);
            }
        finish(&c);
    }
}
END_TEST

static const xcvm_dtype types[] = {XCVM_F16, XCVM_BF16, XCVM_F24};

/* Numbers that each type holds as they are, so that results are those of f32. */
static void make_exact(xcc_builder *b)
{
    float data[ROWS * COLUMNS];
    fill(data);
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++)
        data[i] = roundf(data[i] * 16) / 16;
    make_products(b, data);
    xcc_value *x = input(b, "s", XCVM_F32, 3, DIMS(-1, 2, 3));
    static const xcvm_text tanh_text[] = {{"Tanh", 4}};
    static const float w[] = {1, 0.5f, -0.25f, 2, -1, 0.125f}, r[] = {0.5f, -1, 0.25f, 0.75f};
    output(b, APPLY(RNN, y, .x = XCC_IN(x), .w = XCC_IN(floats(b, 3, DIMS(1, 2, 3), w)),
                    .r = XCC_IN(floats(b, 3, DIMS(1, 2, 2), r)), .hidden_size = 2, .activations = {tanh_text, 1}));
    /* Few columns: not packed. A bias, and a constant that is no weight. */
    output(b, APPLY(MatMul, y, .a = XCC_IN(x), .b = XCC_IN(weights(b, 2, DIMS(3, 2)))));
    output(b, APPLY(Add, y, .a = XCC_IN(x), .b = XCC_IN(weights(b, 1, DIMS(3)))));
}

START_TEST(same_results)
{
    compilation c;
    begin_with(&c, types[_i]);
    check_results(make_exact, &c);
    CHECK_COUNT(&c, PackedGemm, 4);
    CHECK_COUNT(&c, PackedRNN, 1);
    for (const xcc_node *n = c.m.graph->first; n != NULL; n = n->next) {
        const bool packed = xcc_is(n, XCVM_OP_PackedGemm) || xcc_is(n, XCVM_OP_PackedRNN);
        for (size_t i = 0; i < xcc_node_input_count(n); i++) {
            const xcc_value *v = xcc_node_input(n, i);
            if (xcc_is_constant(v) && v->type.dtype != XCVM_BOOL)
                ck_assert_int_eq(v->type.dtype, packed && v->type.rank == 3 ? c.options.weights.dtype : XCVM_F32);
        }
    }
    finish(&c);
}
END_TEST

enum { TABLE_ROWS = 300, WIDTH = 64 };

/* Tables: of rows in a body and around it, one that something else reads, a small one. */
static void make_tables(xcc_builder *b)
{
    static float data[TABLE_ROWS * WIDTH];
    for (size_t i = 0; i < sizeof data / sizeof *data; i++)
        data[i] = (float)(i % 251) / 8 - 10;
    const int64_t dims[] = {TABLE_ROWS, WIDTH};
    xcc_value *table = floats(b, 2, dims, data), *other = floats(b, 2, dims, data),
              *small = floats(b, 2, DIMS(4, 4), data);
    xcc_value *at = input(b, "i", XCVM_I64, 2, DIMS(-1, 2)), *cond = input(b, "c", XCVM_BOOL, 0, NULL);
    xcc_value *x = input(b, "x", XCVM_F32, 0, NULL);
    output(b, APPLY(Gather, y, .x = XCC_IN(table), .indices = XCC_IN(at)));
    output(b, APPLY(Gather, y, .x = XCC_IN(table), .indices = XCC_IN(at), .axis = 1));
    output(b, APPLY(Gather, y, .x = XCC_IN(other), .indices = XCC_IN(at)));
    output(b, APPLY(Add, y, .a = XCC_IN(other), .b = XCC_IN(x)));
    output(b, APPLY(Gather, y, .x = XCC_IN(small), .indices = XCC_IN(at)));
    xcc_value *z = must(b, xcc_value_create(b->graph, NULL));
    xcc_node *branch = xcc_append_control(b, XCC_IF, 1, &cond, 1, &z, 2);
    ck_assert_ptr_nonnull(branch);
    for (int i = 0; i < 2; i++) {
        xcc_builder body = {.graph = branch->bodies[i], .name = "body", .origin = "Test"};
        xcc_value *y = must(&body, xcc_apply(&body, Gather, y, .x = XCC_IN(table), .indices = XCC_IN(at)));
        if (i == 1)
            y = must(&body, xcc_apply(&body, Neg, y, .x = XCC_IN(y)));
        ok(b->graph->module, xcc_graph_set_outputs(branch->bodies[i], 1, &y));
    }
    ok(b->graph->module, xcc_node_infer(branch));
    output(b, z);
}

START_TEST(tables)
{
    compilation c;
    /* Gather and Cast do not support f24. */
    const bool stays = types[_i] == XCVM_F24;
    begin_with(&c, types[_i]);
    check_results(make_tables, &c);
    CHECK_COUNT(&c, Gather, 6);
    CHECK_COUNT(&c, Cast, stays ? 0 : 4);
    ck_assert_uint_eq(c.m.compilation->weight_bytes_before, (uint64_t)TABLE_ROWS * WIDTH * sizeof(float));
    ck_assert_uint_eq(c.m.compilation->weight_bytes_after, (uint64_t)TABLE_ROWS * WIDTH * (stays ? 4 : 2));
    finish(&c);
}
END_TEST

static void make_convolutions(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 4, DIMS(1, 32, 28, 28));
    static const int64_t groups[] = {1, 32, 1, 1}, kernels[] = {3, 3, 1, 3}, strides[] = {1, 1, 1, 2};
    for (int i = 0; i < 4; i++)
        x = APPLY(Conv, y, .x = XCC_IN(x), .w = XCC_IN(weights(b, 4, DIMS(32, 32 / groups[i], kernels[i], kernels[i]))),
                  .strides = XCC_INTS(strides[i], strides[i]),
                  .pads = XCC_INTS(kernels[i] / 2, kernels[i] / 2, kernels[i] / 2, kernels[i] / 2),
                  .dilations = XCC_INTS(1, 1), .group = groups[i]);
    output(b, x);
}

START_TEST(convolutions)
{
    compilation c;
    begin_with(&c, types[_i]);
    make_convolutions(&c.b);
    passes(&c);
    CHECK_COUNT(&c, BlockedConv, 4);
    size_t depthwise = 0;
    for (const xcc_node *n = c.m.graph->first; n != NULL; n = n->next)
        if (xcc_is(n, XCVM_OP_BlockedConv)) {
            const xcvm_BlockedConv_args *a = XCC_ARGS(BlockedConv, n);
            const bool stays = a->algorithm == XCVM_BLOCKED_depthwise;
            depthwise += stays;
            ck_assert_int_eq(a->w->dtype, stays ? XCVM_F32 : types[_i]);
        }
    ck_assert_uint_eq(depthwise, 1);
    ck_assert_uint_eq(c.m.compilation->uncompressed, 0);
    compiled_program k;
    compiled_open(&k, &c);
    compiled_fill_input(&k, 0, 1);
    compiled_run(&k);
    compiled_close(&k);
    finish(&c);
}
END_TEST

START_TEST(not_asked_for)
{
    compilation c;
    begin_with(&c, _i == 0 ? XCVM_NO_DTYPE : XCVM_F32);
    check_results(make_exact, &c);
    for (const xcc_node *n = c.m.graph->first; n != NULL; n = n->next)
        if (xcc_is(n, XCVM_OP_PackedGemm))
            ck_assert_int_eq(XCC_ARGS(PackedGemm, n)->w->dtype, XCVM_F32);
    ck_assert_uint_eq(c.m.compilation->weight_bytes_after, c.m.compilation->weight_bytes_before);
    finish(&c);
}
END_TEST

/* By default no bit changes, even of matrices that exceed each cache; f24 is used on request only. */
START_TEST(large)
{
    compilation c;
    const xcvm_dtype asked = _i == 0 ? XCVM_NO_DTYPE : XCVM_F24, stored = _i == 0 ? XCVM_F32 : XCVM_F24;
    begin_with(&c, asked);
    multiply(&c.b, input(&c.b, "x", XCVM_F32, 2, DIMS(2, 1100)), weights(&c.b, 2, DIMS(1100, 1024)));
    passes(&c);
    CHECK_COUNT(&c, PackedGemm, 1);
    for (const xcc_node *n = c.m.graph->first; n != NULL; n = n->next)
        if (xcc_is(n, XCVM_OP_PackedGemm))
            ck_assert_int_eq(XCC_ARGS(PackedGemm, n)->w->dtype, stored);
    ck_assert_uint_eq(c.m.compilation->weight_bytes_before, 1100 * 1024 * 4);
    ck_assert_uint_eq(c.m.compilation->weight_bytes_after, 1100 * 1024 * (stored == XCVM_F32 ? 4 : 3));
    finish(&c);
}
END_TEST

Suite *suite_compiler_compress_weights(void);
Suite *suite_compiler_compress_weights(void)
{
    Suite *suite = suite_create("compiler_compress_weights");
    TCase *tc = tcase_create("compress_weights");
    tcase_add_test(tc, rounding);
    tcase_add_test(tc, out_of_range);
    tcase_add_loop_test(tc, same_results, 0, 3);
    tcase_add_loop_test(tc, tables, 0, 3);
    tcase_add_loop_test(tc, convolutions, 0, 3);
    tcase_add_loop_test(tc, not_asked_for, 0, 2);
    tcase_add_loop_test(tc, large, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}
